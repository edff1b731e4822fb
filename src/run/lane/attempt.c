#include "run/lane/attempt.h"

static bool is_of_device(muster_status status)
{
    return muster_status_discards(status) == MUSTER_DISCARD_DEVICE;
}

enum job_end attempt_end(const struct attempt *attempt)
{
    muster_status given = attempt->is_refused ? MUSTER_OK : attempt->given;
    if (is_of_device(given) || is_of_device(attempt->ended))
        return JOB_END_DEVICE;
    if (attempt_is_blamed(attempt) && !attempt->is_broken_off)
        return JOB_END_USER;
    /* Also one that came to its end: what it had on the device may have gone before that. */
    if (attempt->is_bystander && !attempt->is_broken_off)
        return JOB_END_AGAIN;
    if (attempt->is_broken_off)
        return JOB_END_DROPPED;
    if (attempt->is_refused && !attempt_is_bad_luck(attempt->given))
        return JOB_END_USER;
    if (attempt->given != MUSTER_OK || attempt->ended != MUSTER_OK ||
        attempt_is_bad_luck(attempt->result))
        return JOB_END_UNIT;
    if (attempt->result != MUSTER_OK)
        return JOB_END_USER;
    return attempt->is_stopped ? JOB_END_STOPPED : JOB_END_OK;
}

muster_status attempt_status(const struct attempt *attempt)
{
    /* A lost device is the reason for whatever else is said. */
    if (is_of_device(attempt->ended))
        return attempt->ended;
    if (attempt_is_blamed(attempt))
        return attempt->result;
    if (attempt->is_bystander)
        return MUSTER_E_STREAM_FAILED;
    return attempt->given != MUSTER_OK    ? attempt->given
           : attempt->result != MUSTER_OK ? attempt->result
                                          : attempt->ended;
}

void attempt_count_locked(struct attempt *attempt, struct run_device *device, uint64_t items,
                          uint64_t now_ns)
{
    struct placement_device *view = &device->m->views[device->index];
    view->queued++;
    view->queued_items += items;
    attempt->items = items;
    attempt->is_counted = true;
    attempt->mark = unit_begin_locked(device, items, now_ns);
}

void attempt_uncount_locked(struct attempt *attempt, struct run_device *device, enum load_end how,
                            uint64_t now_ns)
{
    if (attempt->is_counted)
        unit_end_locked(device, attempt->mark, attempt->items, how, now_ns);
    attempt->is_counted = false;
}
