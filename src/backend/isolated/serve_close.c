/*
 * The helper closes itself in, before it has any code of a kernel: first the files, while it has one thread - Landlock
 * is for the thread that asks and for those that it starts - then the system calls of all threads, when the device has
 * its threads. Kernels are loaded after that, by ourselves (platform/object.h): the system's loader would need files,
 * and runs code of theirs.
 */
#include "backend/isolated/serve.h"

#include "base/allocator.h"
#include "platform/sandbox.h"

muster_status serve_close_files(struct muster_error *err)
{
    if (!serve.is_sandboxed)
        return MUSTER_OK;
    muster_status status = platform_objects_prepare(err);
    if (status == MUSTER_OK && platform_sandbox_closes() && !platform_descriptors_close())
        status = muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "use Linux 5.9 or newer",
                                   "the sandbox cannot close its descriptors");
    return status == MUSTER_OK ? platform_sandbox_close_files(err) : status;
}

/* A device starts its threads with its first stream. */
static muster_status start_threads(struct muster_error *err)
{
    void *state = allocator_take(serve.services.allocator, 1, serve.table.stream_bytes);
    if (!state)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a stream");
    muster_status status = serve.table.stream_open(serve.devices[0], 0, 0, state, err);
    if (status == MUSTER_OK)
        serve.table.stream_close(state);
    allocator_give(serve.services.allocator, state, 1, serve.table.stream_bytes);
    return status;
}

muster_status serve_close_calls(struct muster_error *err)
{
    if (!serve.is_sandboxed)
        return MUSTER_OK;
    muster_status status = start_threads(err);
    return status == MUSTER_OK ? platform_sandbox_close_calls(PLATFORM_CHILD_LEASH, err) : status;
}
