/*
 * Users' policies: how one is read, what it is shown of a device, and whose turn it is to ask it.
 */
#include "run/device/device.h"
#include "run/place/place.h"

muster_status policy_read(const struct muster_policy *given, const char *function,
                          struct muster_policy *out, struct muster_error *err)
{
    muster_status status = layout_read(LAYOUT(muster_policy), given, out, err);
    if (status == MUSTER_OK && (!out->choose || !out->name))
        status = run_bad_argument(err, function, "a policy without a name or a function");
    return status;
}

void candidate_fill_locked(struct run_device *device, uint32_t queued, struct candidate *out)
{
    out->info = device->info;
    device_load_locked(device, &out->load);
    out->load.queue_depth = queued;
    out->shown = (struct muster_candidate){ .size = sizeof out->shown,
                                            .device = device_handle_locked(device),
                                            .info = &out->info,
                                            .load = &out->load };
}

/* Whether somebody is in the policy: what it does and what it does it to are the same. */
static bool is_asked_locked(const struct muster *m, const struct muster_policy *policy)
{
    const struct policy_call *call = m->policy_calls;
    while (call && (call->policy->choose != policy->choose || call->policy->state != policy->state))
        call = call->next;
    return call != NULL;
}

bool policy_begin_locked(struct muster *m, struct policy_call *call, const bool *must_leave)
{
    while (is_asked_locked(m, call->policy)) {
        if (must_leave && *must_leave)
            return false;
        platform_condition_wait(&m->changed, &m->lock, UINT64_MAX);
    }
    call->next = m->policy_calls;
    m->policy_calls = call;
    return true;
}

void policy_end_locked(struct muster *m, struct policy_call *call)
{
    struct policy_call **at = &m->policy_calls;
    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    platform_condition_wake_all(&m->changed);
}
