/*
 * Copies and fills on tracked blocks.
 */
#include "run/memory/memory.h"

/* Whether [offset, offset + bytes) lies in the block. */
static muster_status check_range(const struct muster_memory *memory, uint64_t offset,
                                 uint64_t bytes, struct muster_error *err)
{
    if (offset <= memory->bytes && bytes <= memory->bytes - offset)
        return MUSTER_OK;
    return muster_error_fill(err, MUSTER_E_INVALID, 0, "stay within the block",
                             "%llu bytes from %llu on; the block has %llu",
                             (unsigned long long)bytes, (unsigned long long)offset,
                             (unsigned long long)memory->bytes);
}

/* Ends an operation whose enqueueing went so. */
static muster_status finish(struct operation_run *run, muster_status status, uint64_t bytes,
                            struct muster_error *err)
{
    if (status == MUSTER_OK)
        return operation_end(run, false, bytes, err);
    struct run_device *device = run->stream->device;
    operation_abandon(run);
    return device_note(device, status, err);
}

/* A copy from the host to a block, or the other way. */
static muster_status copy_host(struct muster *m, muster_stream stream, muster_block block,
                               uint64_t offset, void *host, bool is_out, uint64_t bytes,
                               struct muster_error *err)
{
    if (run_is_forked(m))
        return run_say_forked(err);
    const struct muster_use use = MUSTER_USE(block, is_out ? MUSTER_READS : MUSTER_WRITES);
    struct operation_run run;
    muster_status status = operation_begin(m, stream, &use, 1, HOLDER_OPERATION, &run, err);
    if (status != MUSTER_OK)
        return status;
    status = check_range(&run.memories[0], offset, bytes, err);
    const struct muster_place there = { .memory = &run.memories[0], .offset = offset };
    const struct muster_place here = { .host = host };
    const struct muster_copy_desc copy = { .to = is_out ? here : there,
                                           .from = is_out ? there : here,
                                           .bytes = bytes };
    if (status == MUSTER_OK && bytes > 0)
        status = run.stream->device->backend->table.copy(run.stream->state, &copy, err);
    run_count(is_out ? &m->counts.bytes_out : &m->counts.bytes_in, status == MUSTER_OK ? bytes : 0);
    return finish(&run, status, bytes, err);
}

muster_status muster_copy_in(struct muster *m, muster_stream stream, muster_block to,
                             uint64_t offset, const void *from, uint64_t bytes,
                             struct muster_error *err)
{
    if (!m || (!from && bytes > 0))
        return run_bad_argument(err, "muster_copy_in", "an argument is NULL");
    /* The table's type has no place that is only read. */
    return copy_host(m, stream, to, offset, (void *)(uintptr_t)from, false, bytes, err);
}

muster_status muster_copy_out(struct muster *m, muster_stream stream, void *to, muster_block from,
                              uint64_t offset, uint64_t bytes, struct muster_error *err)
{
    if (!m || (!to && bytes > 0))
        return run_bad_argument(err, "muster_copy_out", "an argument is NULL");
    return copy_host(m, stream, from, offset, to, true, bytes, err);
}

/* Two ranges of one block must not overlap: devices copy in an order of their own. */
static muster_status check_apart(muster_block to, uint64_t to_offset, muster_block from,
                                 uint64_t from_offset, uint64_t bytes, struct muster_error *err)
{
    uint64_t low = to_offset < from_offset ? to_offset : from_offset;
    uint64_t high = to_offset < from_offset ? from_offset : to_offset;
    if (to.index != from.index || to.generation != from.generation || high - low >= bytes)
        return MUSTER_OK;
    return run_bad_argument(err, "muster_copy", "the two ranges overlap");
}

muster_status muster_copy(struct muster *m, muster_stream stream, muster_block to,
                          uint64_t to_offset, muster_block from, uint64_t from_offset,
                          uint64_t bytes, struct muster_error *err)
{
    if (!m)
        return run_bad_argument(err, "muster_copy", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    muster_status status = check_apart(to, to_offset, from, from_offset, bytes, err);
    if (status != MUSTER_OK)
        return status;
    const struct muster_use uses[] = { MUSTER_USE(to, MUSTER_WRITES),
                                       MUSTER_USE(from, MUSTER_READS) };
    struct operation_run run;
    status = operation_begin(m, stream, uses, 2, HOLDER_OPERATION, &run, err);
    if (status != MUSTER_OK)
        return status;
    const struct muster_memory *target = operation_memory(&run, to),
                               *source = operation_memory(&run, from);
    status = check_range(target, to_offset, bytes, err);
    if (status == MUSTER_OK)
        status = check_range(source, from_offset, bytes, err);
    const struct muster_copy_desc copy = { .to = { .memory = target, .offset = to_offset },
                                           .from = { .memory = source, .offset = from_offset },
                                           .bytes = bytes };
    if (status == MUSTER_OK && bytes > 0)
        status = run.stream->device->backend->table.copy(run.stream->state, &copy, err);
    return finish(&run, status, bytes, err);
}

muster_status muster_fill(struct muster *m, muster_stream stream, muster_block block,
                          uint64_t offset, uint8_t value, uint64_t bytes, struct muster_error *err)
{
    if (!m)
        return run_bad_argument(err, "muster_fill", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    const struct muster_use use = MUSTER_USE(block, MUSTER_WRITES);
    struct operation_run run;
    muster_status status = operation_begin(m, stream, &use, 1, HOLDER_OPERATION, &run, err);
    if (status != MUSTER_OK)
        return status;
    status = check_range(&run.memories[0], offset, bytes, err);
    const struct muster_place to = { .memory = &run.memories[0], .offset = offset };
    if (status == MUSTER_OK && bytes > 0)
        status = run.stream->device->backend->table.fill(run.stream->state, &to, value, bytes, err);
    return finish(&run, status, bytes, err);
}
