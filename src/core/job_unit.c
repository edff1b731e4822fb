/*
 * The units of a job: the list in item order, the list of those that wait to be run again, and how a
 * unit ends.
 */
#include "base/invariant.h"
#include "core/job_state.h"

void job_stop(struct job *job, enum job_state state)
{
    if (job->state != JOB_RUNNING)
        return;
    job->state = state;
    if (job->out > 0)
        job->look_ns = 0;
    for (uint32_t i = 0; i < job->options.lane_count; i++) {
        if (job->lanes[i].is_asking || job->lanes[i].held > 0)
            job_lane_wake(job, i);
        while (job->lanes[i].given > 0)
            job_attempt_cancel(job, job_lane_given(job, i));
    }
}

void job_stop_if_over(struct job *job)
{
    if (job->delivered_items == job->options.items)
        job_stop(job, JOB_DONE);
}

uint32_t job_unit_make(struct job *job, uint64_t items)
{
    uint32_t index = job->free_units;
    struct unit *unit = &job->units[index];
    INVARIANT(unit->state == UNIT_FREE);
    job->free_units = unit->next;
    job->free_count--;
    *unit = (struct unit){ .range = { job->next_claim, job->next_claim + items },
                           .state = UNIT_RUNNING,
                           .previous = job->newest,
                           .next = JOB_NONE,
                           .retry_next = JOB_NONE,
                           .last_lane = JOB_NONE,
                           .patience = 1,
                           .direct = JOB_NONE,
                           .newest_run = JOB_NONE };
    if (job->newest != JOB_NONE)
        job->units[job->newest].next = index;
    else
        job->oldest = index;
    job->newest = index;
    job->next_claim += items;
    job->newest_items = items;
    job->undelivered += items;
    job->unfinished += items;
    job->units_made++;
    return index;
}

void job_unit_free(struct job *job, uint32_t index)
{
    struct unit *unit = &job->units[index];
    if (unit->previous != JOB_NONE)
        job->units[unit->previous].next = unit->next;
    else
        job->oldest = unit->next;
    if (unit->next != JOB_NONE)
        job->units[unit->next].previous = unit->previous;
    else
        job->newest = unit->previous;
    unit->state = UNIT_FREE;
    unit->next = job->free_units;
    job->free_units = index;
    job->free_count++;
}

uint32_t job_unit_divide(struct job *job, uint32_t index, uint64_t items)
{
    uint32_t rest_index = job->free_units;
    struct unit *unit = &job->units[index], *rest = &job->units[rest_index];
    INVARIANT(rest->state == UNIT_FREE && items > 0 && items < items_of(unit));
    INVARIANT(!has_runs(unit) && unit->direct == JOB_NONE);
    job->free_units = rest->next;
    job->free_count--;
    *rest = *unit;
    rest->range.begin = unit->range.end = unit->range.begin + items;
    rest->previous = index;
    unit->next = rest_index;
    if (rest->next != JOB_NONE)
        job->units[rest->next].previous = rest_index;
    else
        job->newest = rest_index;
    job->units_made++;
    return rest_index;
}

void job_unit_split(struct job *job, uint32_t index, uint64_t items)
{
    INVARIANT(job->units[index].state == UNIT_WAITING);
    job->units[index].retry_next = job_unit_divide(job, index, items);
    job->waiting++;
}

uint32_t job_unit_cut(struct job *job, uint32_t index, uint64_t items)
{
    INVARIANT(job->units[index].state == UNIT_RUNNING);
    uint32_t rest = job_unit_divide(job, index, items);
    job->units[index].is_direct = true;
    job_unit_end(job, index);
    return rest;
}

void job_unit_wait(struct job *job, uint32_t index, uint64_t now_ns)
{
    struct unit *unit = &job->units[index];
    uint32_t *at = &job->retry_first;
    while (*at != JOB_NONE && job->units[*at].range.begin < unit->range.begin)
        at = &job->units[*at].retry_next;
    unit->retry_next = *at;
    unit->state = UNIT_WAITING;
    unit->waiting_ns = now_ns;
    *at = index;
    job->waiting++;
}

void job_unit_unlink(struct job *job, uint32_t index, uint32_t before)
{
    uint32_t *at = before == JOB_NONE ? &job->retry_first : &job->units[before].retry_next;
    INVARIANT(*at == index);
    *at = job->units[index].retry_next;
    job->waiting--;
}

void job_unit_retry(struct job *job, uint32_t index, uint64_t now_ns)
{
    job_unit_wait(job, index, now_ns);
    job->retries++;
}

void job_unit_fail(struct job *job, uint32_t index)
{
    job->units[index].state = UNIT_FAILED;
    job_stop(job, JOB_FAILED);
}

void job_unit_add_done(struct job *job, uint32_t index)
{
    struct unit *unit = &job->units[index];
    unit->retry_next = JOB_NONE;
    if (job->done_last != JOB_NONE)
        job->units[job->done_last].retry_next = index;
    else
        job->done_first = index;
    job->done_last = index;
}

void job_unit_end(struct job *job, uint32_t index)
{
    struct unit *unit = &job->units[index];
    unit->state = UNIT_DONE;
    job->unfinished -= items_of(unit);
    if (!job->options.ordered && unit->direct == JOB_NONE)
        job_unit_add_done(job, index);
}

void job_unit_let_go(struct job *job, uint32_t index)
{
    struct unit *unit = &job->units[index];
    unit->direct = JOB_NONE;
    if (!job->options.ordered && unit->state == UNIT_DONE)
        job_unit_add_done(job, index);
}

void job_unit_doom(struct job *job, uint32_t index)
{
    struct unit *unit = &job->units[index];
    if (unit->state == UNIT_WAITING) {
        uint32_t before = JOB_NONE;
        for (uint32_t i = job->retry_first; i != index; i = job->units[i].retry_next)
            before = i;
        job_unit_unlink(job, index, before);
    }
    job_unit_end_runs(job, unit);
    job_unit_fail(job, index);
}

void job_unit_give_up(struct job *job, uint32_t index)
{
    if (!job->options.tolerant) {
        job_unit_fail(job, index);
        return;
    }
    job->units[index].has_failed = true;
    job_unit_end(job, index);
}
