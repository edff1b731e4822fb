/*
 * Results that a sink keeps when it returns: their buffers stay out of the job's stack until they are
 * released. There is a buffer for each that may be kept beside those that units need, so that a sink
 * which keeps all it may holds up nobody.
 */
#include "base/allocator.h"
#include "run/job/job.h"

struct muster_kept {
    struct muster_job *job;
    struct muster_result result;
    const void *outputs[MUSTER_ARGS_MAX];
    size_t output_bytes[MUSTER_ARGS_MAX];
    struct muster_kept *next; /* of those that are free */
};

muster_status kept_set_up(struct muster_job *job, struct muster_error *err)
{
    uint32_t count = job->options.kept_max;
    if (count == 0)
        return MUSTER_OK;
    job->kept = allocator_take(&job->m->allocator, count, sizeof *job->kept);
    if (!job->kept)
        return run_no_memory(err, "results that are kept");
    for (uint32_t i = 0; i < count; i++) {
        job->kept[i].job = job;
        job->kept[i].next = job->kept_free;
        job->kept_free = &job->kept[i];
    }
    return MUSTER_OK;
}

void kept_free(struct muster_job *job)
{
    if (job->kept)
        allocator_give(&job->m->allocator, job->kept, job->options.kept_max, sizeof *job->kept);
    job->kept = NULL;
}

muster_status muster_result_retain(const struct muster_result *result, struct muster_kept **out,
                                   struct muster_error *err)
{
    if (!result || !result->job || !out)
        return run_bad_argument(err, "muster_result_retain", "an argument is NULL");
    if (run_is_forked(result->job->m))
        return run_say_forked(err);
    struct muster_job *job = result->job;
    run_lock(job->m);
    bool is_second = job->kept_now != NULL;
    struct muster_kept *kept = is_second ? NULL : job->kept_free;
    if (kept) {
        job->kept_free = kept->next;
        job->kept_now = kept;
    }
    run_unlock(job->m);
    if (is_second)
        return run_bad_argument(err, "muster_result_retain", "the result is kept already");
    if (!kept)
        return muster_error_fill(err, MUSTER_E_CAPACITY, 0,
                                 "release some, or set a larger kept_max in the job's options",
                                 "%u results of the job are kept, and no more may be",
                                 job->options.kept_max);
    kept->result = *result;
    for (size_t i = 0; i < result->output_count; i++) {
        kept->outputs[i] = result->outputs[i];
        kept->output_bytes[i] = result->output_bytes[i];
    }
    kept->result.outputs = kept->outputs;
    kept->result.output_bytes = kept->output_bytes;
    kept->result.supplied = NULL;
    *out = kept;
    return MUSTER_OK;
}

const struct muster_result *muster_kept_result(const struct muster_kept *kept)
{
    return &kept->result;
}

void muster_result_release(struct muster_kept *kept)
{
    if (!kept || run_is_forked(kept->job->m))
        return;
    struct muster_job *job = kept->job;
    run_lock(job->m);
    /* The sink may still read it, and the conductor reads its statuses when the sink has returned. */
    if (job->kept_now == kept)
        job->kept_now = NULL;
    else
        job->free_buffers[job->free_count++] = kept->result.buffer;
    kept->next = job->kept_free;
    job->kept_free = kept;
    run_unlock(job->m);
}
