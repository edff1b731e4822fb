/*
 * Public structs that say how large they are (docs/abi.md): a program and a library of different ages
 * have different ideas of one struct, and its `size` is the program's.
 *
 * Every struct of the public headers that begins with `size` is in the list below, with the member
 * that was the last of its first layout under this soname. Members are only added, after that one
 * and not in padding before it, so that the list stays as it is.
 */
#ifndef BASE_LAYOUT_H
#define BASE_LAYOUT_H

#include <muster/backend.h>
#include <muster/muster.h>
#include <string.h>

#define LAYOUT_LIST(X)                                                                             \
    X(muster_allocator, user)                                                                      \
    X(muster_options, slices)                                                                      \
    X(muster_services, cpu_workers)                                                                \
    X(muster_backend, host_is_fast)                                                                \
    X(muster_device_info, uuid)                                                                    \
    X(muster_device_load, sampled_ns)                                                              \
    X(muster_backend_report, error)                                                                \
    X(muster_hints, bytes)                                                                         \
    X(muster_candidate, load)                                                                      \
    X(muster_policy, choose)                                                                       \
    X(muster_decision, devices)                                                                    \
    X(muster_stream_info, planned_bytes)                                                           \
    X(muster_use, access)                                                                          \
    X(muster_block_info, object)                                                                   \
    X(muster_kernel_form, file)                                                                    \
    X(muster_operand, bytes)                                                                       \
    X(muster_kernel_parameter, bytes)                                                              \
    X(muster_partial, field_count)                                                                 \
    X(muster_partial_field, is_array)                                                              \
    X(muster_buffer, flags)                                                                        \
    X(muster_stage, every)                                                                         \
    X(muster_edge, distance)                                                                       \
    X(muster_pipeline_options, schedule)                                                           \
    X(muster_edge_report, expected_waits)                                                          \
    X(muster_view, generation)                                                                     \
    X(muster_unit_arg, data)                                                                       \
    X(muster_arg, offset)                                                                          \
    X(muster_run_options, unit_multiple)                                                           \
    X(muster_result, buffer)                                                                       \
    X(muster_job_desc, output)                                                                     \
    X(muster_progress, waits_for)                                                                  \
    X(muster_job_device, health)                                                                   \
    X(muster_report, own_mathematics)                                                              \
    X(muster_task_desc, is_awaited)                                                                \
    X(muster_task_access, mode)                                                                    \
    X(muster_body, enqueue)                                                                        \
    X(muster_reduction, combine)                                                                   \
    X(muster_native, rows)                                                                         \
    X(muster_task_decision, devices)                                                               \
    X(muster_graph_change, to)                                                                     \
    X(muster_file_options, no_sync)                                                                \
    X(muster_file_report, memory_fixed)                                                            \
    X(muster_simulation_options, runs)                                                             \
    X(muster_simulation_device, health)                                                            \
    X(muster_simulation_job, busy_ns)                                                              \
    X(muster_simulation, broken)                                                                   \
    X(muster_graph_simulation_device, health)                                                      \
    X(muster_graph_simulation, broken)                                                             \
    X(muster_trace_event, name)                                                                    \
    X(muster_trace_options, capacity)                                                              \
    X(muster_trace_writer_options, allocator)                                                      \
    X(muster_counters, trace_dropped)                                                              \
    X(muster_live_info, now_ns)                                                                    \
    X(muster_live_runtime, kept_bytes)                                                             \
    X(muster_live_device, temperature_c)                                                           \
    X(muster_live_job, tail_ns)                                                                    \
    X(muster_live_lane, faster_without)                                                            \
    X(muster_cluster_options, waits)                                                               \
    X(muster_cluster_desc, tries)                                                                  \
    X(muster_cluster_progress, refusal)                                                            \
    X(muster_cluster_share, silent_ns)                                                             \
    X(muster_cluster_entry, is_cancelled)                                                          \
    X(muster_cluster_machine, jobs)                                                                \
    X(muster_cluster_worker_options, trust)                                                        \
    X(muster_resident_options, hang_ns)                                                            \
    X(muster_resident_step, until_offset)                                                          \
    X(muster_resident_report, leave_ns)

struct layout {
    const char *name;
    size_t first, known; /* bytes of its first layout, and of the one that this library has */
};

enum layout_number {
#define LAYOUT_NUMBER(struct_, last) LAYOUT_##struct_,
    LAYOUT_LIST(LAYOUT_NUMBER)
#undef LAYOUT_NUMBER
        LAYOUT_COUNT
};

extern const struct layout layouts[LAYOUT_COUNT];
/* LAYOUT(muster_options): that of struct muster_options. */
#define LAYOUT(struct_) (&layouts[LAYOUT_##struct_])

/* Larger than any struct will be: a size above it was never set. */
#define LAYOUT_BYTES_MAX 65536u

static inline size_t layout_size(const void *given)
{
    size_t size;
    memcpy(&size, given, sizeof size);
    return size;
}

/* What the caller gave can be read: no size that cannot be, no field set that is not known. */
muster_status layout_check(const struct layout *layout, const void *given,
                           struct muster_error *err);
/* The same of an array, whose structs all have the size of the first. */
muster_status layout_check_all(const struct layout *layout, const void *given, size_t count,
                               struct muster_error *err);
/* What the caller gave can be filled: its size alone counts. */
muster_status layout_check_room(const struct layout *layout, const void *room,
                                struct muster_error *err);
muster_status layout_check_rooms(const struct layout *layout, const void *rooms, size_t count,
                                 struct muster_error *err);

/* Checks the struct and copies what both know to `out`, which is known bytes; the rest is 0. */
muster_status layout_read(const struct layout *layout, const void *given, void *out,
                          struct muster_error *err);

/*
 * Checks an array and gives its `count` structs in a row, as this library has them: the caller's own,
 * or if those are of another size, `copies`, where there is room for as many.
 */
const void *layout_read_all(const struct layout *layout, const void *given, size_t count,
                            void *copies, muster_status *status, struct muster_error *err);

/* Struct `i` of a checked array: as it is, or, if it is an older one, completed in `copy`. */
const void *layout_complete(const struct layout *layout, const void *at, void *copy);
static inline const void *layout_at(const struct layout *layout, const void *given, size_t i,
                                    void *copy)
{
    size_t size = layout_size(given);
    const void *at = (const char *)given + i * size;
    return size >= layout->known ? at : layout_complete(layout, at, copy);
}

/* Fills the caller's struct as far as both know it; its size stays, and what we do not know is 0. */
void layout_write(const struct layout *layout, void *room, const void *filled);
/* The same of struct `i` of a checked array. */
static inline void layout_write_at(const struct layout *layout, void *rooms, size_t i,
                                   const void *filled)
{
    layout_write(layout, (char *)rooms + i * layout_size(rooms), filled);
}

#endif
