#include "run/lane/alone.h"

#include "base/allocator.h"
#include "run/lane/lane.h"

#include <string.h>

struct alone {
    struct lane_work work;
    struct run_lane lane;
    struct kernel_plan of;
    struct lane_plan plan;
    struct lane_unit unit;
};

muster_status alone_create(struct run_device *device, struct alone **out)
{
    struct alone *alone = allocator_take(&device->m->allocator, 1, sizeof *alone);
    if (!alone)
        return MUSTER_E_NO_MEMORY;
    alone->work.group.m = device->m;
    alone->lane.work = &alone->work;
    alone->lane.device = device;
    alone->lane.plan = &alone->plan;
    alone->lane.units = &alone->unit;
    alone->plan.depth = alone->plan.width = alone->plan.parts_max = 1;
    alone->unit.lane = &alone->lane;
    alone->unit.part_count = 1;
    alone->unit.claim.is_direct = true;
    *out = alone;
    return MUSTER_OK;
}

void alone_destroy(struct alone *alone)
{
    if (alone)
        allocator_give(&alone->work.group.m->allocator, alone, 1, sizeof *alone);
}

void alone_set_given_up(struct alone *alone, bool is_given_up)
{
    /* Relaxed: the thread that gives up the work takes the lane's lock, and the thread does so when it is back. */
    atomic_store_explicit(&alone->lane.thread.is_given_up, is_given_up, memory_order_relaxed);
}

/* All its memory on the device is one block: what is written lies after what is only read. */
static size_t compile(struct alone *alone, const struct lane_stream *stream,
                      const struct kernel_work *work, void *built)
{
    struct lane_plan *plan = &alone->plan;
    alone->of.declaration = (struct pipe_declaration){ .stage_count = 0 };
    kernel_plan_declare(&alone->of, work, false, 1);
    plan->piece_count = plan->operand_count = 0;
    memset(plan->slot_bytes, 0, sizeof plan->slot_bytes);
    kernel_plan_compile(&alone->of, work, plan);
    plan->items = plan->part_items = work->unit_items;
    uint32_t in = alone->of.buffers[ROLE_IN], out = alone->of.buffers[ROLE_OUT];
    size_t read_bytes = in != PIPE_NONE ? plan->slot_bytes[in] : 0;
    for (uint32_t i = 0; i < plan->piece_count; i++)
        plan->pieces[i].offset += plan->pieces[i].buffer == out ? read_bytes : 0;
    /* What follows on the same stream is in order already: there are no edges to keep. */
    for (uint32_t i = 0; i < alone->of.declaration.stage_count; i++) {
        alone->lane.streams[i] = *stream;
        alone->lane.kernels[i] = built;
    }
    return read_bytes + (out != PIPE_NONE ? plan->slot_bytes[out] : 0);
}

/* All memory that it needs, so that what does not fit is refused with nothing given to the device. */
static muster_status allocate(struct muster *m, const struct lane_stream *stream,
                              const struct kernel_work *work, size_t bytes, muster_block *block)
{
    muster_block resident;
    muster_status status = muster_block_allocate(m, stream->handle, bytes, block, NULL);
    for (size_t i = 0; i < work->arg_count && status == MUSTER_OK; i++)
        if (work->args[i].kind == MUSTER_ARG_ALL)
            status = muster_data_resident(m, work->args[i].data, stream->handle, &resident, NULL);
    return status;
}

/* Step by step; whether the device has some of it. */
static bool do_steps(struct alone *alone, const struct muster_memory *memory, muster_status *status)
{
    uint32_t done = 0;
    for (uint32_t i = 0; i < alone->of.declaration.buffer_count; i++)
        alone->lane.buffers[i] = (struct lane_buffer){ .slots = 1, .memory = *memory };
    while (*status == MUSTER_OK && done < alone->of.declaration.stage_count) {
        *status = thread_is_given_up(&alone->lane.thread)
                      ? MUSTER_E_DEVICE_HUNG
                      : unit_do_step(&alone->unit, done + 1, NULL);
        done += *status == MUSTER_OK;
    }
    device_note(alone->lane.device, *status, NULL);
    return done > 0 || alone->unit.copied_bytes > 0;
}

static muster_status give(struct alone *alone, const struct lane_stream *stream,
                          const struct kernel_work *work, void *built, muster_status *result,
                          bool *is_kept)
{
    struct muster *m = alone->work.group.m;
    struct lane_unit *unit = &alone->unit;
    muster_block block = { 0, 0 };
    struct operation_run run;
    size_t bytes = compile(alone, stream, work, built);
    unit->claim.range = unit->section = (struct muster_range){ 0, work->unit_items };
    unit->copied_bytes = 0;
    unit->result_at = result;
    *is_kept = false;
    muster_status status = allocate(m, stream, work, bytes, &block);
    const struct muster_use use = MUSTER_USE(block, MUSTER_READS_WRITES);
    if (status == MUSTER_OK)
        status = operation_begin(m, stream->handle, &use, 1, HOLDER_OPERATION, &run, NULL);
    if (status == MUSTER_OK) {
        *is_kept = do_steps(alone, operation_memory(&run, block), &status);
        if (!*is_kept)
            operation_abandon(&run);
        /* The block is freed when the device has come to this: it is still at work there. */
        muster_status recorded = *is_kept ? operation_end(&run, false, 0, NULL) : MUSTER_OK;
        status = status == MUSTER_OK ? recorded : status;
    }
    if (block.generation > 0)
        muster_block_free(m, stream->handle, block, NULL);
    return status;
}

muster_status alone_give(struct alone *alone, const struct lane_stream *stream,
                         const struct kernel_work *work, void *built, muster_status *result,
                         bool *is_kept)
{
    muster_status status;
    /* A device that was started again between two steps has lost the block: as often as that happens. */
    do
        status = give(alone, stream, work, built, result, is_kept);
    while (status == MUSTER_E_STALE && !*is_kept);
    return status;
}
