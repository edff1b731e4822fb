/*
 * Whether a job's results are written straight into the caller's arrays, and by which lanes: those of
 * devices that work on host memory. What is only written is written there by one attempt of a unit at
 * a time, and others use a result buffer. What is read too is changed in pieces, of which the first
 * ones are done when the unit ends early: there it is cut (core/job.h, JOB_OUTPUT_CUTS).
 */
#include "run/job/pipeline.h"

/* Bytes of all items in the array; 0: it is larger than any memory. */
static size_t array_bytes(const struct muster_job *job, const struct muster_arg *arg)
{
    size_t bytes;
    return __builtin_mul_overflow(job->desc.items, arg->bytes, &bytes) ? 0 : bytes;
}

static bool overlap(const struct muster_job *job, const struct muster_arg *written,
                    const struct muster_arg *other)
{
    uintptr_t a = (uintptr_t)written->out;
    uintptr_t b = (uintptr_t)(arg_is_written(other) ? other->out : other->in);
    return a < b + array_bytes(job, other) && b < a + array_bytes(job, written);
}

/* Whether the argument can be written where the caller wants it, while others use theirs. */
static bool is_apart(const struct muster_job *job, size_t arg)
{
    const struct muster_arg *written = &job->args[arg];
    bool is_changed = written->kind == MUSTER_ARG_INOUT;
    if (!written->out || array_bytes(job, written) == 0 ||
        (is_changed && written->in != written->out))
        return false;
    for (size_t i = 0; i < job->desc.arg_count; i++) {
        const struct muster_arg *other = &job->args[i];
        if (i != arg && (other->kind == MUSTER_ARG_IN || arg_is_written(other)) &&
            (array_bytes(job, other) == 0 || overlap(job, written, other)))
            return false;
        if (other->kind == MUSTER_ARG_ALL &&
            data_overlaps(job->m, other->data, written->out, array_bytes(job, written)))
            return false;
    }
    return true;
}

/* Whether pieces of the arrays that are read and written are as small as a launch wants them. */
static bool are_pieces_small(const struct muster_job *job)
{
    /* Where a GPU takes part, the caller's units may stay whole. */
    uint64_t grain = job->options.unit_multiple > 1 ? job->options.unit_multiple : 1;
    if (job_has_gpu(job) && job->options.unit_items > grain)
        grain = job->options.unit_items;
    size_t bytes = 0, count = 0;
    for (size_t i = 0; i < job->desc.arg_count; i++)
        if (job->args[i].kind == MUSTER_ARG_INOUT) {
            count++;
            if (__builtin_add_overflow(bytes, job->args[i].bytes, &bytes))
                return false;
        }
    return count <= MUSTER_PIECE_ARGS_MAX && bytes <= MUSTER_PIECE_BYTES_MAX / grain;
}

static enum job_output find_output(const struct muster_job *job)
{
    enum job_output output = JOB_OUTPUT_SLOTS;
    /* Results that are kept stay as they are, and so do items that fail alone. */
    if (job->pipeline || job->desc.each_status || job->options.kept_max > 0)
        return JOB_OUTPUT_SLOTS;
    for (size_t i = 0; i < job->desc.arg_count; i++) {
        const struct muster_arg *arg = &job->args[i];
        /* A block may be any memory, and what is changed there is not put back with the arrays. */
        bool is_block = arg->kind == MUSTER_ARG_DEVICE_IN || arg->kind == MUSTER_ARG_DEVICE_OUT ||
                        arg->kind == MUSTER_ARG_DEVICE_INOUT;
        /* A unit that is cut where it stopped would have been launched as one. */
        bool is_split = arg->kind == MUSTER_ARG_INOUT && job->seam > 0;
        if (is_block || is_split || (arg_is_written(arg) && !is_apart(job, i)))
            return JOB_OUTPUT_SLOTS;
        if (arg->kind == MUSTER_ARG_INOUT)
            output = JOB_OUTPUT_CUTS;
        else if (arg->kind == MUSTER_ARG_OUT && output == JOB_OUTPUT_SLOTS)
            output = JOB_OUTPUT_DIRECT;
    }
    return output == JOB_OUTPUT_CUTS && !are_pieces_small(job) ? JOB_OUTPUT_SLOTS : output;
}

/*
 * Whether all that kernels would be given lies in memory that helpers map too. A ring does, but its views are the
 * program's; arrays with margins have these elsewhere.
 */
static bool are_arrays_shared(const struct muster_job *job)
{
    const struct muster_services *services = &job->m->services;
    bool shares = false;
    if (!services->host_file_find || job->pipeline || job->desc.source || job->seam > 0 ||
        job->grid.is_given)
        return false;
    for (size_t i = 0; i < job->desc.arg_count; i++) {
        const struct muster_arg *arg = &job->args[i];
        const void *array = arg->kind == MUSTER_ARG_IN ? arg->in : arg->out;
        size_t bytes = array_bytes(job, arg);
        uint64_t offset;
        if (arg->kind != MUSTER_ARG_IN && !arg_is_written(arg))
            continue;
        if (bytes == 0 || services->host_file_find(services, array, bytes, &offset) != bytes ||
            (arg->kind == MUSTER_ARG_INOUT && arg->in != array))
            return false;
        shares = true;
    }
    return shares;
}

bool job_works_on_host(const struct muster_job *job, const struct run_device *device)
{
    uint32_t can = device->info.capabilities;
    return (can & MUSTER_CAN_USE_HOST_MEMORY) ||
           (job->shares_arrays && (can & MUSTER_CAN_USE_SHARED_MEMORY));
}

bool job_is_direct_on(const struct muster_job *job, const struct run_device *device)
{
    bool has_pieces =
        job->output != JOB_OUTPUT_CUTS || (device->info.capabilities & MUSTER_CAN_RUN_IN_PIECES);
    return job->output != JOB_OUTPUT_SLOTS && has_pieces && job_works_on_host(job, device);
}

void job_find_output(struct muster_job *job)
{
    uint32_t direct = 0;
    job->shares_arrays = are_arrays_shared(job);
    job->output = find_output(job);
    for (uint32_t i = 0; i < job->lane_count; i++)
        direct += job_is_direct_on(job, job->lanes[i].device);
    if (direct == 0)
        job->output = JOB_OUTPUT_SLOTS;
    /* A second attempt of a unit is another lane's, and with pieces there is none. */
    job->needs_buffers =
        direct < job->lane_room || (job->output == JOB_OUTPUT_DIRECT && job->lane_room > 1);
}
