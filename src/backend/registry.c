#include "backend/registry.h"

#include "backend/cpu/cpu.h"
#include "backend/cuda/cuda.h"
#include "backend/opencl/opencl.h"
#include "backend/sim/sim.h"
#include "base/layout.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define NAME_MAX_LENGTH 15

const struct muster_backend *const *registry_built_in(size_t *count)
{
    /* OpenCL last: its devices may be others' under another name, which then go first. */
    static const struct muster_backend *const built_in[] = { &backend_cpu, &backend_cuda,
                                                             &backend_sim, &backend_opencl };
    *count = sizeof built_in / sizeof *built_in;
    return built_in;
}

/* One function for each type of optional slot, so that each refusal says what was asked. */

static muster_status refuse(struct muster_error *err, const char *what)
{
    return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                             "look at the device's capabilities first", "the backend has no %s",
                             what);
}

static muster_status no_slice_plan(void *device, const uint32_t *sizes, size_t count,
                                   struct muster_error *err)
{
    (void)device, (void)sizes, (void)count;
    return refuse(err, "slices");
}

static muster_status no_slice_open(void *device, size_t index, void *slice,
                                   struct muster_device_info *info, struct muster_error *err)
{
    (void)device, (void)index, (void)slice, (void)info;
    return refuse(err, "slices");
}

static void no_slice_unplan(void *device)
{
    (void)device;
}

/* Copies work without registered memory, only slower, so that this is no refusal. */
static muster_status no_host_register(void *device, void *memory, size_t bytes,
                                      struct muster_error *err)
{
    (void)device, (void)memory, (void)bytes, (void)err;
    return MUSTER_OK;
}

static int no_host_is_fast(void *device, const void *memory, size_t bytes)
{
    (void)device, (void)memory, (void)bytes;
    return 1;
}

static int no_is_slow(uint32_t *device_count)
{
    (void)device_count;
    return 0;
}

static void no_host_unregister(void *device, void *memory)
{
    (void)device, (void)memory;
}

static muster_status no_event_elapsed(void *begin, void *end, uint64_t *ns,
                                      struct muster_error *err)
{
    (void)begin, (void)end, (void)ns;
    return refuse(err, "timing events");
}

static muster_status no_gate_init(void *device, void *gate, struct muster_error *err)
{
    (void)device, (void)gate;
    return refuse(err, "gates");
}

static void no_gate_deinit(void *gate)
{
    (void)gate;
}

static muster_status no_gate_publish(void *gate, uint64_t value, struct muster_error *err)
{
    (void)gate, (void)value;
    return refuse(err, "gates");
}

static muster_status no_gate_wait(void *gate, void *stream, uint64_t value,
                                  struct muster_error *err)
{
    (void)gate, (void)stream, (void)value;
    return refuse(err, "gates");
}

static muster_status no_host_call(void *stream, void (*function)(void *user, muster_status status),
                                  void *user, struct muster_error *err)
{
    (void)stream, (void)function, (void)user;
    return refuse(err, "host calls in stream order");
}

static muster_status no_kernel_init(void *device, const struct muster_kernel_form *form,
                                    void *kernel, struct muster_error *err)
{
    (void)device, (void)form, (void)kernel;
    return refuse(err, "kernels");
}

static void no_kernel_deinit(void *kernel)
{
    (void)kernel;
}

static muster_status no_launch(void *stream, void *kernel,
                               const struct muster_launch_desc *launches, size_t count,
                               struct muster_error *err)
{
    (void)stream, (void)kernel, (void)launches, (void)count;
    return refuse(err, "kernels");
}

static uint64_t no_device_generation(void *device)
{
    (void)device;
    return 1;
}

static void no_device_explain(void *device, char *text, size_t bytes)
{
    (void)device;
    if (bytes > 0)
        *text = 0;
}

static muster_status no_native_enter(void *stream, struct muster_error *err)
{
    (void)stream, (void)err;
    return MUSTER_OK;
}

static void no_native_leave(void *stream)
{
    (void)stream;
}

static muster_status no_stream_open_apart(void *device, uint32_t *cores, void *stream,
                                          struct muster_error *err)
{
    (void)device, (void)cores, (void)stream;
    return refuse(err, "streams on cores of their own");
}

static bool good_name(const char *name)
{
    size_t length = name ? strnlen(name, NAME_MAX_LENGTH + 1) : 0;
    if (length == 0 || length > NAME_MAX_LENGTH)
        return false;
    for (size_t i = 0; i < length; i++)
        if (!((name[i] >= 'a' && name[i] <= 'z') || (i > 0 && name[i] >= '0' && name[i] <= '9')))
            return false;
    return true;
}

muster_status registry_complete(const struct muster_backend *given, struct muster_backend *out,
                                struct muster_error *err)
{
    struct muster_backend filled;
    /* What stands before `open` has not changed since the first interface. */
    bool has_abi = given && given->size >= offsetof(struct muster_backend, open);
    if (!has_abi || given->abi != MUSTER_BACKEND_ABI)
        return muster_error_fill(
            err, MUSTER_E_VERSION, 0, "build it against this version's muster/backend.h",
            "a backend for interface %u was given; this library has interface %u",
            has_abi ? given->abi : 0, MUSTER_BACKEND_ABI);
    muster_status status = layout_read(LAYOUT(muster_backend), given, &filled, err);
    if (status != MUSTER_OK)
        return status;
    if (!good_name(given->name))
        return muster_error_fill(
            err, MUSTER_E_INVALID, 0, "name it with a-z and 0-9, at most 15, a letter first",
            "a backend's name is not allowed: %.32s", given->name ? given->name : "(none)");
#define REQUIRE(slot)                                                                              \
    if (!filled.slot)                                                                              \
    return muster_error_fill(err, MUSTER_E_INVALID, 0,                                             \
                             "fill every slot that is not marked optional",                        \
                             "backend %s leaves out %s", given->name, #slot)
    REQUIRE(open);
    REQUIRE(close);
    REQUIRE(device_open);
    REQUIRE(device_close);
    REQUIRE(device_sample);
    REQUIRE(memory_allocate);
    REQUIRE(memory_free);
    REQUIRE(stream_open);
    REQUIRE(stream_close);
    REQUIRE(stream_native);
    REQUIRE(stream_wait);
    REQUIRE(stream_query);
    REQUIRE(event_init);
    REQUIRE(event_deinit);
    REQUIRE(event_record);
    REQUIRE(event_query);
    REQUIRE(event_wait);
    REQUIRE(copy);
    REQUIRE(fill);
#undef REQUIRE
#define DEFAULT(slot)                                                                              \
    if (!filled.slot)                                                                              \
    filled.slot = no_##slot
    DEFAULT(slice_plan);
    DEFAULT(slice_open);
    DEFAULT(slice_unplan);
    DEFAULT(host_register);
    DEFAULT(host_unregister);
    DEFAULT(event_elapsed);
    DEFAULT(gate_init);
    DEFAULT(gate_deinit);
    DEFAULT(gate_publish);
    DEFAULT(gate_wait);
    DEFAULT(host_call);
    DEFAULT(kernel_init);
    DEFAULT(kernel_deinit);
    DEFAULT(launch);
    DEFAULT(host_is_fast);
    DEFAULT(is_slow);
    DEFAULT(device_generation);
    DEFAULT(device_explain);
    DEFAULT(stream_open_apart);
    DEFAULT(native_enter);
    DEFAULT(native_leave);
#undef DEFAULT
    *out = filled;
    return MUSTER_OK;
}

muster_status registry_load(const char *path, struct platform_library *library,
                            const struct muster_backend **out, struct muster_error *err)
{
    muster_status status = platform_library_open(library, path, err);
    if (status != MUSTER_OK && err)
        snprintf(err->fix, sizeof err->fix, "look at backend_paths, or at MUSTER_BACKENDS");
    if (status != MUSTER_OK)
        return status;
    const struct muster_backend *(*entry)(void);
    void *symbol = platform_library_symbol(library, MUSTER_BACKEND_ENTRY);
    memcpy(&entry, &symbol, sizeof entry);
    const struct muster_backend *table = symbol ? entry() : NULL;
    if (!table) {
        platform_library_close(library);
        return muster_error_fill(err, MUSTER_E_INVALID, 0,
                                 "end its source with MUSTER_BACKEND_EXPORT(table)",
                                 "%s exports no backend", path);
    }
    *out = table;
    return MUSTER_OK;
}
