/*
 * What a stage's callback can do with the unit it is given, and stages that are a kernel alone.
 */
#include "run/job/pipeline.h"

#include <string.h>

static const struct muster_stage *stage_of(const struct muster_unit *unit)
{
    return &unit->line->pipeline->stages[unit->step - 1];
}

static bool is_on_host(const struct muster_unit *unit)
{
    return pipe_is_host(&unit->line->pipeline->declaration, unit->step);
}

static struct run_stream *stream_of(const struct muster_unit *unit)
{
    return unit->line->streams[unit->line->pipeline->declaration.stages[unit->step - 1].stream];
}

muster_status unit_call(struct line_unit *of, uint32_t step, uint32_t first_part,
                        uint32_t part_count, struct muster_error *err)
{
    const struct muster_stage *stage = &of->line->pipeline->stages[step - 1];
    struct muster_unit *unit = &of->unit;
    unit->line = of->line;
    unit->of = of;
    unit->step = step;
    unit->first_part = first_part;
    unit->part_count = part_count;
    struct platform_frame frame = { .kind = FRAME_JOB,
                                    .runtime = of->line->job->m,
                                    .object = of->line->job };
    platform_frame_enter(&frame);
    atomic_store(&unit->is_open, true);
    muster_status status = stage->run(unit, stage->user);
    atomic_store(&unit->is_open, false);
    platform_frame_leave(&frame);
    if (status < MUSTER_OK)
        return muster_error_fill(err, status, 0, NULL, "stage '%s' failed: %s", stage->name,
                                 muster_status_message(status));
    return MUSTER_OK;
}

static muster_status check_open(const struct muster_unit *unit, struct muster_error *err)
{
    if (atomic_load(&unit->is_open))
        return MUSTER_OK;
    return muster_error_fill(err, MUSTER_E_STALE, 0, "use a unit within its callback only",
                             "the callback that had the unit has returned");
}

/* That the unit is in its callback's hands, and the buffer among what the stage declares. */
static muster_status check(const struct muster_unit *unit, uint32_t buffer, uint64_t declared,
                           const char *what, struct muster_error *err)
{
    const struct muster_pipeline *pipeline = unit->line->pipeline;
    muster_status status = check_open(unit, err);
    if (status != MUSTER_OK)
        return status;
    if (buffer >= pipeline->declaration.buffer_count)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL, "there is no buffer %u", buffer);
    if (!(declared >> buffer & 1))
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "declare it in the stage",
                                 "stage '%s' does not declare that it %s '%s'",
                                 stage_of(unit)->name, what, pipeline->buffers[buffer].name);
    return MUSTER_OK;
}

muster_status muster_unit_view(struct muster_unit *unit, uint32_t buffer, struct muster_view *view,
                               struct muster_error *err)
{
    if (!unit || !unit->line || !view)
        return run_bad_argument(err, "muster_unit_view", "an argument is NULL");
    muster_status status = layout_check_room(LAYOUT(muster_view), view, err);
    if (status == MUSTER_OK)
        status = check(unit, buffer, stage_of(unit)->reads | stage_of(unit)->writes, "uses", err);
    if (status != MUSTER_OK)
        return status;
    struct line_place place = line_place(unit->of, buffer, unit->first_part, unit->part_count);
    struct muster_view found = { .host = place.host,
                                 .offset = place.offset,
                                 .bytes = place.bytes,
                                 .capacity = place.capacity,
                                 .generation =
                                     unit->of->number / unit->line->buffers[buffer].slots };
    if (place.memory) {
        found.object = place.memory->object;
        found.address = place.memory->address == 0 ? 0 : place.memory->address + place.offset;
        if (unit->line->lane->uses_host_memory)
            found.host = (void *)(uintptr_t)found.address;
    }
    layout_write(LAYOUT(muster_view), view, &found);
    return MUSTER_OK;
}

muster_status muster_unit_set_bytes(struct muster_unit *unit, uint32_t buffer, size_t bytes,
                                    struct muster_error *err)
{
    if (!unit || !unit->line)
        return run_bad_argument(err, "muster_unit_set_bytes", "an argument is NULL");
    muster_status status = check_open(unit, err);
    if (status != MUSTER_OK)
        return status;
    const struct muster_pipeline *pipeline = unit->line->pipeline;
    if (buffer >= pipeline->declaration.buffer_count)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL, "there is no buffer %u", buffer);
    if (unit->part_count != 1 || (pipeline->buffers[buffer].flags & MUSTER_CARRIED))
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "set it in a stage for each unit",
                                 "'%s' is carried, or several units share it in stage '%s'",
                                 pipeline->buffers[buffer].name, stage_of(unit)->name);
    struct line_place place = line_place(unit->of, buffer, unit->first_part, 1);
    if (bytes > place.capacity)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "make the buffer larger",
                                 "%zu bytes of '%s' are to count, which has room for %zu", bytes,
                                 pipeline->buffers[buffer].name, place.capacity);
    *line_bytes(unit->of, buffer, unit->first_part) = bytes;
    return MUSTER_OK;
}

void muster_unit_range(const struct muster_unit *unit, uint64_t *begin, uint64_t *end)
{
    const struct muster_job *job = unit->line->job;
    struct muster_range range = unit->of->slot->claim.range;
    uint64_t first = range.begin + unit->first_part * job->part_items;
    *begin = first;
    *end = first + least(unit->part_count * job->part_items, range.end - first);
}

uint32_t muster_unit_count(const struct muster_unit *unit)
{
    return unit->part_count;
}

void *muster_unit_native(const struct muster_unit *unit)
{
    if (is_on_host(unit))
        return NULL;
    return unit->line->lane->device->backend->table.stream_native(stream_of(unit)->state);
}

muster_device muster_unit_device(const struct muster_unit *unit)
{
    return is_on_host(unit) ? (muster_device){ 0, 0 }
                            : device_handle_locked(unit->line->lane->device);
}

/* Launching. */

static void count_launch(struct line_unit *of, uint32_t step)
{
    of->launches[step]++;
    run_count(&of->line->job->m->counts.line_launches, 1);
}

/* A launch on the line's own memory, which the plan has ordered. */
static muster_status launch(struct line_unit *of, uint32_t step, struct muster_kernel *kernel,
                            uint64_t items, const struct muster_launch_arg *args, size_t arg_count,
                            struct muster_error *err)
{
    struct line *line = of->line;
    struct run_device *device = line->lane->device;
    uint32_t stream = line->pipeline->declaration.stages[step - 1].stream;
    void *state;
    muster_status status = kernel_get_built(kernel, device, &state, err);
    if (status != MUSTER_OK || items == 0)
        return status;
    const struct muster_launch_desc desc = {
        .items = items, .args = args, .arg_count = arg_count, .result = &of->results[step]
    };
    status = device->backend->table.launch(line->streams[stream]->state, state, &desc, 1, err);
    if (status == MUSTER_OK)
        count_launch(of, step);
    return status;
}

static uint64_t items_of(const struct line_unit *of, uint32_t first_part, uint32_t part_count)
{
    const struct muster_job *job = of->line->job;
    struct muster_range range = of->slot->claim.range;
    return least(part_count * job->part_items,
                 range.end - range.begin - first_part * job->part_items);
}

muster_status unit_launch_stage(struct line_unit *of, uint32_t step, uint32_t first_part,
                                uint32_t part_count, struct muster_error *err)
{
    const struct muster_stage *stage = &of->line->pipeline->stages[step - 1];
    struct muster_launch_arg args[MUSTER_ARGS_MAX];
    const uint64_t masks[] = { stage->reads, stage->writes & ~stage->reads };
    size_t count = 0;
    for (size_t m = 0; m < 2; m++)
        for (uint64_t left = masks[m]; left != 0; left &= left - 1) {
            struct line_place place =
                line_place(of, (uint32_t)__builtin_ctzll(left), first_part, part_count);
            args[count++] =
                (struct muster_launch_arg){ .memory = place.memory, .offset = place.offset };
        }
    return launch(of, step, stage->kernel, items_of(of, first_part, part_count), args, count, err);
}

/* Data takes the way of all operations, since others may use it too. */
static muster_status launch_with_data(struct muster_unit *unit, struct muster_kernel *kernel,
                                      uint64_t items, struct muster_launch_arg *args,
                                      const struct muster_unit_arg *given, size_t arg_count,
                                      struct muster_error *err)
{
    struct line *line = unit->line;
    struct muster *m = line->job->m;
    uint32_t stream = line->pipeline->declaration.stages[unit->step - 1].stream;
    struct muster_use uses[MUSTER_USES_MAX];
    muster_block blocks[MUSTER_ARGS_MAX];
    size_t use_count = 0;
    struct operation_run run;
    void *state;
    muster_status status = kernel_get_built(kernel, line->lane->device, &state, err);
    for (size_t i = 0; i < arg_count && status == MUSTER_OK; i++) {
        if (given[i].data.generation == 0)
            continue;
        status = muster_data_resident(m, given[i].data, line->handles[stream], &blocks[i], err);
        uses[use_count++] = (struct muster_use)MUSTER_USE(blocks[i], MUSTER_READS);
    }
    if (status == MUSTER_OK)
        status =
            operation_begin(m, line->handles[stream], uses, use_count, HOLDER_OPERATION, &run, err);
    if (status != MUSTER_OK)
        return status;
    for (size_t i = 0; i < arg_count; i++)
        if (given[i].data.generation != 0)
            args[i] = (struct muster_launch_arg){ .memory = operation_memory(&run, blocks[i]) };
    const struct muster_launch_desc desc = { .items = items,
                                             .args = args,
                                             .arg_count = arg_count,
                                             .result = &unit->of->results[unit->step] };
    if (items > 0)
        status = run.stream->device->backend->table.launch(run.stream->state, state, &desc, 1, err);
    if (status != MUSTER_OK) {
        operation_abandon(&run);
        return status;
    }
    if (items > 0)
        count_launch(unit->of, unit->step);
    /* No flight of its own: the unit counts as what the device was given. */
    return operation_end(&run, false, 0, err);
}

muster_status muster_unit_launch(struct muster_unit *unit, struct muster_kernel *kernel,
                                 uint64_t items, const struct muster_unit_arg *given,
                                 size_t arg_count, struct muster_error *err)
{
    struct muster_unit_arg copies[MUSTER_ARGS_MAX];
    struct muster_launch_arg resolved[MUSTER_ARGS_MAX];
    struct kernel_argument checked[MUSTER_ARGS_MAX];
    bool has_data = false;
    if (!unit || !unit->line || !kernel || (!given && arg_count > 0) || arg_count > MUSTER_ARGS_MAX)
        return run_bad_argument(err, "muster_unit_launch",
                                "an argument is NULL, or there are more than 16");
    muster_status status;
    const struct muster_unit_arg *args =
        layout_read_all(LAYOUT(muster_unit_arg), given, arg_count, copies, &status, err);
    if (status == MUSTER_OK)
        status = check_open(unit, err);
    if (status != MUSTER_OK)
        return status;
    if (!kernel_is_of(kernel, unit->line->job->m) || is_on_host(unit))
        return run_bad_argument(err, "muster_unit_launch",
                                "the kernel is another runtime's, or the stage is on the host");
    for (size_t i = 0; i < arg_count; i++) {
        bool is_data = args[i].data.generation != 0;
        has_data = has_data || is_data;
        checked[i] = (struct kernel_argument){ args[i].bytes == 0, args[i].bytes };
        if (args[i].bytes > 0)
            resolved[i] =
                (struct muster_launch_arg){ .value = args[i].value, .bytes = args[i].bytes };
        if (is_data || args[i].bytes > 0)
            continue;
        status = check(unit, args[i].buffer, stage_of(unit)->reads | stage_of(unit)->writes, "uses",
                       err);
        if (status != MUSTER_OK)
            return status;
        struct line_place place =
            line_place(unit->of, args[i].buffer, unit->first_part, unit->part_count);
        if (!place.memory)
            return muster_error_fill(err, MUSTER_E_INVALID, 0, "copy it to the device first",
                                     "'%s' is a host buffer, which kernels do not reach",
                                     unit->line->pipeline->buffers[args[i].buffer].name);
        resolved[i] = (struct muster_launch_arg){ .memory = place.memory, .offset = place.offset };
    }
    status = kernel_check_arguments(kernel, checked, arg_count, err);
    if (status == MUSTER_OK)
        status = job_hold_kernel(unit->line->job, kernel, err);
    if (status != MUSTER_OK)
        return status;
    if (has_data)
        return launch_with_data(unit, kernel, items, resolved, args, arg_count, err);
    return launch(unit->of, unit->step, kernel, items, resolved, arg_count, err);
}
