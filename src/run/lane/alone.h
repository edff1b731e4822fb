/*
 * A unit that is alone: what a task with arrays is on a device with memory of its own. Its plan, up -
 * kernel - down, is given to one stream in one go, in a block that is there for it alone, and the results
 * go straight into the caller's arrays.
 */
#ifndef RUN_ALONE_H
#define RUN_ALONE_H

#include "run/lane/kernel_plan.h"
#include "run/lane/streams.h"

/* For one thread at a time: the one that has claimed the stream that it is for. */
struct alone;

muster_status alone_create(struct run_device *device, struct alone **out);
/* NULL is allowed. */
void alone_destroy(struct alone *alone);
/*
 * Gives the device all of it; the kernel's answer will be in `*result`. `is_kept`: the device has some of
 * it, also if that failed. No lock is held.
 */
muster_status alone_give(struct alone *alone, const struct lane_stream *stream,
                         const struct kernel_work *work, void *built, muster_status *result,
                         bool *is_kept);
/*
 * Nothing more of what is being given goes to the device: the work was given up. Any thread; `is_given_up`
 * false, before the next is given.
 */
void alone_set_given_up(struct alone *alone, bool is_given_up);

#endif
