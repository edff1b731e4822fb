/*
 * Memory of helpers in sandboxes. The program limits the helper's address space, which the helper cannot do once it is
 * closed, and cannot undo: what it has when its device is open, what the device was asked to hold, twice - memory that
 * is freed in a stream's order goes later than the next is asked for - and some more.
 */
#include "backend/isolated/state.h"

#include "platform/sandbox.h"

#define MORE_BYTES ((uint64_t)256 << 20)

static bool set(const struct link *link)
{
    return platform_child_limit(&link->child, link->base_bytes + 2 * link->peak_bytes + MORE_BYTES);
}

muster_status link_measure(struct link *link, struct muster_error *err)
{
    if (!link->backend->is_sandboxed || !platform_sandbox_closes())
        return MUSTER_OK;
    if (platform_child_size(&link->child, &link->base_bytes) && set(link))
        return MUSTER_OK;
    return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "let the program see /proc",
                             "the memory of the sandbox of %s:%u cannot be limited",
                             link->backend->name, link->index);
}

void link_allow_locked(struct link *link, uint64_t bytes)
{
    /* What is more than there can be is refused by the helper. */
    if (!link->backend->is_sandboxed || bytes > INT64_MAX / 4 - link->held_bytes)
        return;
    link->held_bytes += bytes;
    if (link->held_bytes <= link->peak_bytes)
        return;
    link->peak_bytes = link->held_bytes;
    /* A helper that is being started has no such limit yet, and gets it then. */
    if (platform_sandbox_closes() && link->state == LINK_UP)
        set(link);
}

void link_forbid_locked(struct link *link, uint64_t bytes)
{
    link->held_bytes -= link->backend->is_sandboxed && bytes <= link->held_bytes ? bytes : 0;
}
