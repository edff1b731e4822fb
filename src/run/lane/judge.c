#include "run/lane/judge.h"

static bool is_of_device(muster_status status)
{
    return muster_status_discards(status) == MUSTER_DISCARD_DEVICE;
}

enum job_end judge_end(const struct attempt_end *end)
{
    muster_status given = end->is_refused ? MUSTER_OK : end->given;
    if (is_of_device(given) || is_of_device(end->ended))
        return JOB_END_DEVICE;
    if (end->is_broken_off)
        return JOB_END_DROPPED;
    if (end->is_refused && !judge_is_bad_luck(end->given))
        return JOB_END_USER;
    if (end->given != MUSTER_OK || end->ended != MUSTER_OK || judge_is_bad_luck(end->result))
        return JOB_END_UNIT;
    if (end->result != MUSTER_OK)
        return JOB_END_USER;
    return end->is_stopped ? JOB_END_STOPPED : JOB_END_OK;
}

muster_status judge_status(const struct attempt_end *end)
{
    /* A lost device is the reason for whatever else is said. */
    if (is_of_device(end->ended))
        return end->ended;
    return end->given != MUSTER_OK    ? end->given
           : end->result != MUSTER_OK ? end->result
                                      : end->ended;
}
