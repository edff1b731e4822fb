/*
 * What a stage's callback can do with the unit it is given, and stages that are a kernel alone.
 */
#include "run/lane/lane.h"
#include "run/lane/launch.h"

#include <string.h>

static const struct pipe_declaration *declaration_of(const struct muster_unit *unit)
{
    return unit->of->lane->plan->declaration;
}

static const struct pipe_stage *stage_of(const struct muster_unit *unit)
{
    return &declaration_of(unit)->stages[unit->step - 1];
}

static bool is_on_host(const struct muster_unit *unit)
{
    return pipe_is_host(declaration_of(unit), unit->step);
}

muster_status unit_call(struct lane_unit *of, uint32_t step, uint32_t first_part,
                        uint32_t part_count, struct muster_error *err)
{
    const struct lane_work *work = of->lane->work;
    const struct lane_step *called = &of->lane->plan->steps[step - 1];
    struct muster_unit *unit = &of->unit;
    unit->of = of;
    unit->step = step;
    unit->first_part = first_part;
    unit->part_count = part_count;
    struct platform_frame frame = { .kind = FRAME_JOB,
                                    .runtime = work->group.m,
                                    .object = work->object };
    platform_frame_enter(&frame);
    atomic_store(&unit->is_open, true);
    muster_status status = called->run(unit, called->user);
    atomic_store(&unit->is_open, false);
    platform_frame_leave(&frame);
    if (status < MUSTER_OK)
        return muster_error_fill(err, status, 0, NULL, "stage '%s' failed: %s",
                                 stage_of(unit)->name, muster_status_message(status));
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
    const struct pipe_declaration *declaration = declaration_of(unit);
    muster_status status = check_open(unit, err);
    if (status != MUSTER_OK)
        return status;
    if (buffer >= declaration->buffer_count)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL, "there is no buffer %u", buffer);
    if (!(declared >> buffer & 1))
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "declare it in the stage",
                                 "stage '%s' does not declare that it %s '%s'",
                                 stage_of(unit)->name, what, declaration->buffers[buffer].name);
    return MUSTER_OK;
}

muster_status muster_unit_view(struct muster_unit *unit, uint32_t buffer, struct muster_view *view,
                               struct muster_error *err)
{
    if (!unit || !unit->of || !view)
        return run_bad_argument(err, "muster_unit_view", "an argument is NULL");
    muster_status status = layout_check_room(LAYOUT(muster_view), view, err);
    if (status == MUSTER_OK)
        status = check(unit, buffer, stage_of(unit)->reads | stage_of(unit)->writes, "uses", err);
    if (status != MUSTER_OK)
        return status;
    const struct run_lane *lane = unit->of->lane;
    struct unit_place place = unit_place(unit->of, buffer, unit->first_part, unit->part_count);
    struct muster_view found = { .host = place.host,
                                 .offset = place.offset,
                                 .bytes = place.bytes,
                                 .capacity = place.capacity,
                                 .generation = unit->of->number / lane->buffers[buffer].slots };
    if (place.memory) {
        found.object = place.memory->object;
        found.address = place.memory->address == 0 ? 0 : place.memory->address + place.offset;
        if (lane->plan->on_host)
            found.host = (void *)(uintptr_t)found.address;
    }
    layout_write(LAYOUT(muster_view), view, &found);
    return MUSTER_OK;
}

muster_status muster_unit_set_bytes(struct muster_unit *unit, uint32_t buffer, size_t bytes,
                                    struct muster_error *err)
{
    if (!unit || !unit->of)
        return run_bad_argument(err, "muster_unit_set_bytes", "an argument is NULL");
    muster_status status = check_open(unit, err);
    if (status != MUSTER_OK)
        return status;
    const struct pipe_declaration *declaration = declaration_of(unit);
    if (buffer >= declaration->buffer_count)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL, "there is no buffer %u", buffer);
    if (unit->of->lane->plan->pieces[buffer].halo > 0)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "set it of a buffer without one",
                                 "'%s' has a halo, which lies after all of its bytes",
                                 declaration->buffers[buffer].name);
    if (unit->part_count != 1 || declaration->buffers[buffer].is_carried)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "set it in a stage for each unit",
                                 "'%s' is carried, or several units share it in stage '%s'",
                                 declaration->buffers[buffer].name, stage_of(unit)->name);
    struct unit_place place = unit_place(unit->of, buffer, unit->first_part, 1);
    if (bytes > place.capacity)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "make the buffer larger",
                                 "%zu bytes of '%s' are to count, which has room for %zu", bytes,
                                 declaration->buffers[buffer].name, place.capacity);
    *unit_bytes(unit->of, buffer, unit->first_part) = bytes;
    return MUSTER_OK;
}

void muster_unit_range(const struct muster_unit *unit, uint64_t *begin, uint64_t *end)
{
    *begin = unit->of->claim.range.begin + unit->first_part * unit->of->lane->plan->part_items;
    *end = *begin + unit_part_items(unit->of, unit->first_part, unit->part_count);
}

uint32_t muster_unit_count(const struct muster_unit *unit)
{
    return unit->part_count;
}

void *muster_unit_native(const struct muster_unit *unit)
{
    if (is_on_host(unit))
        return NULL;
    const struct run_lane *lane = unit->of->lane;
    return lane_table(lane)->stream_native(
        lane->streams[unit_stream(unit->of, unit->step)].stream->state);
}

muster_device muster_unit_device(const struct muster_unit *unit)
{
    return is_on_host(unit) ? (muster_device){ 0, 0 }
                            : device_handle_locked(unit->of->lane->device);
}

/* Launching. */

/* The stream counts what was launched there when the unit is over: see finish.c. */
static muster_status give_launch(struct lane_unit *of, uint32_t step, struct run_stream *stream,
                                 struct launch *launch, struct muster_error *err)
{
    const struct muster_launch_desc desc = { .begin = launch->begin,
                                             .items = launch->items,
                                             .args = launch->args,
                                             .arg_count = launch->arg_count,
                                             .result = of->result_at ? of->result_at
                                                                     : &of->results_of[step],
                                             .flags = of->is_looked_at ? MUSTER_LAUNCH_SUSPECT : 0,
                                             .pieces = unit_can_stop(of) ? &of->pieces : NULL };
    if (launch->items == 0)
        return MUSTER_OK;
    muster_status status =
        lane_table(of->lane)->launch(stream->state, launch->state, &desc, 1, err);
    if (status != MUSTER_OK || !of->launches)
        return status;
    of->launches[step]++;
    run_count(&of->lane->work->group.m->counts.line_launches, 1);
    return MUSTER_OK;
}

static muster_status launch_any(struct lane_unit *of, uint32_t step, struct launch *launch,
                                struct muster_error *err)
{
    const struct lane_stream *stream = &of->lane->streams[unit_stream(of, step)];
    struct operation_run run;
    if (!launch->has_data)
        return give_launch(of, step, stream->stream, launch, err);
    /* Data takes the way of all operations: other streams use it too. */
    muster_status status = launch_hold(of->lane->work->group.m, stream->handle, launch, &run, err);
    if (status != MUSTER_OK)
        return status;
    status = give_launch(of, step, run.stream, launch, err);
    if (status != MUSTER_OK) {
        operation_abandon(&run);
        return status;
    }
    /* No flight of its own: the unit counts as what the device was given. */
    return operation_end(&run, false, 0, err);
}

/* A piece as the kernel is given it: host memory is where the device works on it. */
static void set_piece(struct launch *launch, size_t index, const struct unit_place *place)
{
    if (place->memory) {
        launch->args[index] =
            (struct muster_launch_arg){ .memory = place->memory, .offset = place->offset };
        return;
    }
    launch->memories[index] =
        (struct muster_memory){ .address = (uintptr_t)place->host, .bytes = place->bytes };
    launch->args[index] = (struct muster_launch_arg){ .memory = &launch->memories[index] };
}

/*
 * The unit's first item for a launch that begins with item `begin` of the unit: near an end of an array
 * with a halo the items are those of a margin.
 */
static char *find_host(const struct lane_unit *of, uint32_t index, const struct unit_place *place,
                       uint64_t begin)
{
    const struct lane_plan *plan = of->lane->plan;
    const struct lane_piece *piece = &plan->pieces[index];
    uint64_t item = of->claim.range.begin + begin;
    if (!piece->head || (item >= plan->seam && item < plan->items - plan->seam))
        return place->host;
    /* Integers: the place itself may be outside the margin. */
    uintptr_t at = (uintptr_t)place->host - (uintptr_t)piece->array;
    if (item < plan->seam)
        return (char *)((uintptr_t)piece->head + piece->halo + at);
    return (char *)((uintptr_t)piece->tail + piece->halo + at -
                    (uintptr_t)((plan->items - plan->seam) * piece->item_bytes));
}

/* Of `items` from item `begin` of the unit on: how many are at the same side of an array's seams. */
static uint64_t items_to_seam(const struct lane_unit *of, uint64_t begin, uint64_t items)
{
    const struct lane_plan *plan = of->lane->plan;
    uint64_t item = of->claim.range.begin + begin, end = item + items;
    if (plan->seam == 0)
        return items;
    if (item < plan->seam)
        return least(end, plan->seam) - item;
    return item < plan->items - plan->seam ? least(end, plan->items - plan->seam) - item : items;
}

static void set_cell(struct launch *launch, const struct lane_unit *of, uint32_t first_part)
{
    const struct lane_plan *plan = of->lane->plan;
    launch->cell = grid_cell(&plan->grid, of->claim.range.begin + first_part * plan->part_items);
}

static void set_operand(struct launch *launch, size_t index, const struct lane_unit *of,
                        const struct lane_operand *operand, uint32_t first_part,
                        uint32_t part_count)
{
    switch (operand->kind) {
    case OPERAND_PIECE: {
        struct unit_place place = unit_place(of, operand->piece, first_part, part_count);
        if (!place.memory)
            place.host = find_host(of, operand->piece, &place, launch->begin);
        set_piece(launch, index, &place);
        launch->args[index].item_bytes = unit_is_in_pieces(of) ? operand->bytes : 0;
        break;
    }
    case OPERAND_VALUE:
        launch->args[index] =
            (struct muster_launch_arg){ .value = operand->value, .bytes = operand->bytes };
        break;
    case OPERAND_FIRST:
        launch->args[index] = (struct muster_launch_arg){ .value = &of->claim.range.begin,
                                                          .bytes = sizeof of->claim.range.begin };
        break;
    case OPERAND_CELL:
        launch->args[index] =
            (struct muster_launch_arg){ .value = &launch->cell, .bytes = sizeof launch->cell };
        break;
    case OPERAND_ITEMS:
        launch->args[index] = (struct muster_launch_arg){ .value = &launch->counted,
                                                          .bytes = sizeof launch->counted };
        break;
    case OPERAND_DATA:
        launch->data[index] = operand->data;
        launch->has_data = true;
        break;
    case OPERAND_BLOCK:
        launch->blocks[index] = (struct muster_use)MUSTER_USE(operand->block, operand->access);
        launch->args[index].offset = operand->offset + of->claim.range.begin * operand->bytes;
        launch->has_data = true;
        break;
    }
}

muster_status unit_launch_step(struct lane_unit *of, uint32_t step, uint32_t first_part,
                               uint32_t part_count, struct muster_error *err)
{
    struct run_lane *lane = of->lane;
    const struct lane_step *launched = &lane->plan->steps[step - 1];
    struct run_stream *stream = lane->streams[unit_stream(of, step)].stream;
    void **state = &lane->kernels[step - 1];
    muster_status status = MUSTER_OK;
    /* The job holds the kernel, so what was built of it stays. */
    if (!*state)
        status = kernel_get_built(launched->kernel, lane->device, state, err);
    if (status != MUSTER_OK)
        return status;
    struct launch launch = { .state = *state,
                             .begin = of->section.begin,
                             .arg_count = launched->operand_count };
    uint64_t left =
        least(unit_part_items(of, first_part, part_count), of->section.end - of->section.begin);
    if (lane->plan->grid.is_given)
        set_cell(&launch, of, first_part);
    timing_mark(of, 0, stream);
    do {
        uint64_t done = lane->plan->on_host ? items_to_seam(of, launch.begin, left) : left;
        launch.items = launch.counted = done;
        if (launched->block_items > 0)
            launch.items = launched->lanes *
                           (done / launched->block_items + (done % launched->block_items > 0));
        for (uint32_t i = 0; i < launched->operand_count; i++)
            set_operand(&launch, i, of, &lane->plan->operands[launched->first_operand + i],
                        first_part, part_count);
        status = launch_any(of, step, &launch, err);
        launch.begin += done;
        left -= done;
    } while (left > 0 && status == MUSTER_OK);
    timing_mark(of, 1, stream);
    return status;
}

static muster_status check_cell(const struct muster_unit *unit, struct muster_error *err)
{
    return unit->of->lane->plan->grid.is_given
               ? MUSTER_OK
               : muster_error_fill(err, MUSTER_E_INVALID, 0, "give the pipeline a grid",
                                   "the pipeline of stage '%s' has no cells", stage_of(unit)->name);
}

muster_status muster_unit_launch(struct muster_unit *unit, struct muster_kernel *kernel,
                                 uint64_t items, const struct muster_unit_arg *given,
                                 size_t arg_count, struct muster_error *err)
{
    struct muster_unit_arg copies[MUSTER_ARGS_MAX];
    struct launch launch = { .items = items, .arg_count = arg_count };
    struct kernel_argument checked[MUSTER_ARGS_MAX];
    if (!unit || !unit->of || !kernel || (!given && arg_count > 0) || arg_count > MUSTER_ARGS_MAX)
        return run_bad_argument(err, "muster_unit_launch",
                                "an argument is NULL, or there are more than 16");
    muster_status status;
    const struct muster_unit_arg *args =
        layout_read_all(LAYOUT(muster_unit_arg), given, arg_count, copies, &status, err);
    if (status == MUSTER_OK)
        status = check_open(unit, err);
    if (status != MUSTER_OK)
        return status;
    struct lane_work *work = unit->of->lane->work;
    if (!kernel_is_of(kernel, work->group.m) || is_on_host(unit))
        return run_bad_argument(err, "muster_unit_launch",
                                "the kernel is another runtime's, or the stage is on the host");
    for (size_t i = 0; i < arg_count; i++) {
        bool is_data = args[i].data.generation != 0;
        launch.data[i] = args[i].data;
        launch.has_data = launch.has_data || is_data;
        /* One of several launches of the stage may only read what another one writes. */
        bool is_only_read = is_data || (args[i].bytes == 0 && args[i].buffer < 64 &&
                                        !(stage_of(unit)->writes >> args[i].buffer & 1));
        checked[i] = (struct kernel_argument){ .is_block = args[i].bytes == 0,
                                               .bytes = args[i].bytes,
                                               .access = is_only_read ? MUSTER_READS : 0u };
        if (args[i].is_cell) {
            status = check_cell(unit, err);
            if (status != MUSTER_OK)
                return status;
            set_cell(&launch, unit->of, unit->first_part);
            launch.args[i] =
                (struct muster_launch_arg){ .value = &launch.cell, .bytes = sizeof launch.cell };
            checked[i] = (struct kernel_argument){ .bytes = sizeof launch.cell };
            continue;
        }
        if (args[i].bytes > 0)
            launch.args[i] =
                (struct muster_launch_arg){ .value = args[i].value, .bytes = args[i].bytes };
        if (is_data || args[i].bytes > 0)
            continue;
        status = check(unit, args[i].buffer, stage_of(unit)->reads | stage_of(unit)->writes, "uses",
                       err);
        if (status != MUSTER_OK)
            return status;
        struct unit_place place =
            unit_place(unit->of, args[i].buffer, unit->first_part, unit->part_count);
        if (!place.memory)
            return muster_error_fill(err, MUSTER_E_INVALID, 0, "copy it to the device first",
                                     "'%s' is a host buffer, which kernels do not reach",
                                     declaration_of(unit)->buffers[args[i].buffer].name);
        set_piece(&launch, i, &place);
    }
    status = kernel_check_arguments(kernel, checked, arg_count, err);
    if (status == MUSTER_OK)
        status = work->calls->hold_kernel(work, kernel, err);
    if (status == MUSTER_OK)
        status = kernel_get_built(kernel, unit->of->lane->device, &launch.state, err);
    return status == MUSTER_OK ? launch_any(unit->of, unit->step, &launch, err) : status;
}
