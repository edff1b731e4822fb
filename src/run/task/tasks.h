/*
 * All tasks of a runtime, for closing it and for cutting a device.
 */
#ifndef RUN_TASKS_H
#define RUN_TASKS_H

#include "run/base/runtime.h"

/* task.c */
/* How many were submitted so far, and how many of them have ended. */
void tasks_count(struct muster *m, uint64_t *submitted, uint64_t *ended);
/* Runs what was submitted to its end. What a device has not finished by then is left to it. */
void tasks_drain(struct muster *m);
/*
 * The same, and ends the threads. Gives the number of lanes with a thread that has not returned
 * from the driver: it was given up, and may still come back to the runtime. `what` names the first.
 */
uint32_t tasks_destroy(struct muster *m, struct muster_error *what);
/* After all devices had their time: hung ones keep no kernel from going any more. */
void tasks_let_kernels_go(struct muster *m);
/* After the devices are gone: frees what they may have written to. */
void tasks_free(struct muster *m);
/* lane.c: lets go of the device's streams, if none of its tasks is unfinished. */
void tasks_leave_device(struct muster *m, const struct run_device *device);

#endif
