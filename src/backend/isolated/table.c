/*
 * The tables: one for each built-in backend that can be isolated.
 */
#include "backend/isolated/state.h"

#include "platform/sandbox.h"

#include <string.h>

static muster_status open_named(struct isolated *backend, const char *name, bool is_sandboxed,
                                const struct muster_services *services, uint32_t *device_count,
                                struct muster_error *err)
{
    struct link *link;
    *backend =
        (struct isolated){ .services = services, .name = name, .is_sandboxed = is_sandboxed };
    muster_status status = is_sandboxed ? platform_sandbox_check(err) : MUSTER_OK;
    if (status == MUSTER_OK)
        status = link_create(backend, 0, &link, err);
    if (status != MUSTER_OK)
        return status;
    backend->first = link;
    *device_count = link->device_count;
    return MUSTER_OK;
}

static void isolated_close(void *state)
{
    struct isolated *backend = state;
    if (backend->first)
        link_destroy(backend->first);
    backend->first = NULL;
}

#define TABLE(variant, name_, is_sandboxed_)                                                       \
    static muster_status open_##variant(void *backend, const struct muster_services *services,     \
                                        uint32_t *device_count, struct muster_error *err)          \
    {                                                                                              \
        return open_named(backend, #name_, is_sandboxed_, services, device_count, err);            \
    }                                                                                              \
    static const struct muster_backend table_##variant = {                                         \
        .size = sizeof(struct muster_backend),                                                     \
        .abi = MUSTER_BACKEND_ABI,                                                                 \
        .name = #name_,                                                                            \
        .backend_bytes = sizeof(struct isolated),                                                  \
        .device_bytes = sizeof(struct isolated_device),                                            \
        .stream_bytes = sizeof(struct isolated_stream_state),                                      \
        .event_bytes = sizeof(struct isolated_event),                                              \
        .gate_bytes = sizeof(struct isolated_gate),                                                \
        .kernel_bytes = sizeof(struct isolated_kernel_state),                                      \
        .open = open_##variant,                                                                    \
        .close = isolated_close,                                                                   \
        .device_open = isolated_device_open,                                                       \
        .device_close = isolated_device_close,                                                     \
        .device_sample = isolated_device_sample,                                                   \
        .slice_plan = isolated_slice_plan,                                                         \
        .slice_open = isolated_slice_open,                                                         \
        .slice_unplan = isolated_slice_unplan,                                                     \
        .memory_allocate = isolated_memory_allocate,                                               \
        .memory_free = isolated_memory_free,                                                       \
        .host_register = isolated_host_register,                                                   \
        .host_unregister = isolated_host_unregister,                                               \
        .stream_open = isolated_stream_open,                                                       \
        .stream_close = isolated_stream_close,                                                     \
        .stream_native = isolated_stream_native,                                                   \
        .stream_wait = isolated_stream_wait,                                                       \
        .stream_query = isolated_stream_query,                                                     \
        .event_init = isolated_event_init,                                                         \
        .event_deinit = isolated_event_deinit,                                                     \
        .event_record = isolated_event_record,                                                     \
        .event_query = isolated_event_query,                                                       \
        .event_wait = isolated_event_wait,                                                         \
        .event_elapsed = isolated_event_elapsed,                                                   \
        .gate_init = isolated_gate_init,                                                           \
        .gate_deinit = isolated_gate_deinit,                                                       \
        .gate_publish = isolated_gate_publish,                                                     \
        .gate_wait = isolated_gate_wait,                                                           \
        .copy = isolated_copy,                                                                     \
        .fill = isolated_fill,                                                                     \
        .host_call = isolated_host_call,                                                           \
        .kernel_init = isolated_kernel_init,                                                       \
        .kernel_deinit = isolated_kernel_deinit,                                                   \
        .launch = isolated_launch,                                                                 \
        .host_is_fast = isolated_host_is_fast,                                                     \
        .device_generation = isolated_device_generation,                                           \
        .device_stop = isolated_device_stop,                                                       \
        .device_explain = isolated_device_explain,                                                 \
    }

TABLE(cpu, cpu, false);
TABLE(cuda, cuda, false);
TABLE(opencl, opencl, false);
TABLE(sim, sim, false);
TABLE(cpu_sandboxed, cpu, true);
TABLE(sim_sandboxed, sim, true);

static const struct muster_backend *find(const struct muster_backend *const *tables, size_t count,
                                         const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(tables[i]->name, name) == 0)
            return tables[i];
    return NULL;
}

const struct muster_backend *isolated_find(const char *name)
{
    static const struct muster_backend *const tables[] = { &table_cpu, &table_cuda, &table_opencl,
                                                           &table_sim };
    return find(tables, sizeof tables / sizeof *tables, name);
}

const struct muster_backend *isolated_find_sandboxed(const char *name)
{
    static const struct muster_backend *const tables[] = { &table_cpu_sandboxed,
                                                           &table_sim_sandboxed };
    return find(tables, sizeof tables / sizeof *tables, name);
}
