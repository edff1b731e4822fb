/*
 * Picking a device: hints read, the last decisions kept, and how users' policies are asked.
 */
#ifndef RUN_PLACE_H
#define RUN_PLACE_H

#include "core/placement.h"
#include "run/base/runtime.h"

#define PICK_WORDS (DEVICES_MAX / 64)
/*
 * The hints as placement wants them, with all backends probed and free memory known where it is
 * asked for. `devices` has PICK_WORDS words and is what out->devices points to, if the hints name
 * devices. `given` may be NULL.
 */
muster_status pick_read_hints(struct muster *m, const struct muster_hints *given, uint64_t *devices,
                              struct placement_hints *out, struct muster_error *err);
void decisions_destroy(struct muster *m);
/* Whether it is one of Muster's own, which has a name and no function. */
bool policy_is_built_in(const struct muster_policy *policy);

/* policy.c */
/* A user's policy as this library has it; `function` is who is told of in errors. */
muster_status policy_read(const struct muster_policy *given, const char *function,
                          struct muster_policy *out, struct muster_error *err);

/* A device as a user's policy is shown it. */
struct candidate {
    struct muster_candidate shown; /* points to the others */
    struct muster_device_info info;
    struct muster_device_load load;
};
void candidate_fill_locked(struct run_device *device, uint32_t queued, struct candidate *out);

/* A call of a user's policy, on the stack of the thread that makes it. */
struct policy_call {
    const struct muster_policy *policy;
    struct policy_call *next; /* on the runtime's list */
};
/*
 * Waits until nobody else is in the policy: picks and jobs take turns at it. False if `*must_leave` is
 * true meanwhile; the thread that sets that wakes m->changed. NULL: the turn is waited for in any case. The
 * policy is then called with no lock held, and the turn given back.
 */
bool policy_begin_locked(struct muster *m, struct policy_call *call, const bool *must_leave);
void policy_end_locked(struct muster *m, struct policy_call *call);

#endif
