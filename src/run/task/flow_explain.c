/* What core has looked at when it chose a device for a task, in the caller's terms. */
#include "run/task/flow.h"

#include <string.h>

_Static_assert(MUSTER_TASK_DEVICES_MAX == DISPATCH_EXPLAINED_MAX,
               "all that core keeps is reported");

static uint64_t rounded(double ns)
{
    return ns > 0 ? (uint64_t)(ns + 0.5) : 0;
}

static void tell_locked(const struct flow_pool *flow, const struct dispatch_decision *decision,
                        struct muster_task_decision *out)
{
    *out = (struct muster_task_decision){ .time_ns = decision->time_ns,
                                          .moves = decision->moves,
                                          .chosen = -1,
                                          .has_ended = decision->has_ended,
                                          .status = decision->status,
                                          .took_ns = decision->took_ns,
                                          .after_ns = decision->after_ns };
    for (uint32_t i = 0; i < decision->count && i < flow->device_count; i++) {
        const struct dispatch_candidate *candidate = &decision->candidates[i];
        out->devices[i].device = flow->devices[i]->handle;
        out->devices[i].may_run = candidate->may_run;
        out->devices[i].is_measured = candidate->is_measured;
        out->devices[i].queue_ns = rounded(candidate->queue_ns);
        out->devices[i].copy_bytes = candidate->copy_bytes;
        out->devices[i].copies_ns = rounded(candidate->copies_ns);
        out->devices[i].run_ns = rounded(candidate->run_ns);
        out->devices[i].finish_ns = rounded(candidate->finish_ns);
        out->device_count++;
        if (decision->device == i)
            out->chosen = (int32_t)i;
    }
}

muster_status muster_task_explain(struct muster *m, muster_task task,
                                  struct muster_task_decision *out, struct muster_error *err)
{
    struct task_pool *pool;
    struct muster_task_decision found;
    if (!m || !out)
        return run_bad_argument(err, "muster_task_explain", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    muster_status status = layout_check_room(LAYOUT(muster_task_decision), out, err);
    if (status == MUSTER_OK)
        status = pool_get(m, &pool, err);
    if (status != MUSTER_OK)
        return status;
    platform_mutex_lock(&pool->lock);
    const struct flow_pool *flow = &pool->flow;
    struct dispatch_decision decision;
    status = tasks_find(&pool->tasks, task.index, task.generation);
    if (status == MUSTER_OK &&
        (!flow->dispatch ||
         !dispatch_explain(flow->dispatch, task.index, (uint64_t)task.generation << 32 | task.index,
                           platform_clock_ns(), &decision)))
        status = MUSTER_E_NOT_FOUND;
    if (status == MUSTER_OK) {
        const struct flow_note *note = flow->notes ? &flow->notes[task.index] : NULL;
        tell_locked(flow, &decision, &found);
        if (note && note->generation == task.generation)
            memcpy(found.name, note->name, sizeof found.name);
    }
    platform_mutex_unlock(&pool->lock);
    if (status == MUSTER_E_NOT_FOUND)
        return muster_error_fill(err, status, 0, "ask sooner, or run it where there are devices",
                                 "no device was chosen for the task, or that is forgotten");
    if (status != MUSTER_OK)
        return muster_error_fill(err, status, 0, NULL, "the task is not known (any more)");
    layout_write(LAYOUT(muster_task_decision), out, &found);
    return MUSTER_OK;
}
