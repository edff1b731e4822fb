/*
 * Reports of jobs with room for their devices.
 */
#ifndef HARNESS_FULL_REPORT_H
#define HARNESS_FULL_REPORT_H

#include <muster/job.h>

#define REPORT_DEVICES_MAX 128
#define REPORTS_AT_A_TIME 16

/* Each thread's: the room of a report is used again for the 16th after it. */
static inline struct muster_report full_report(void)
{
    static _Thread_local struct muster_job_device rooms[REPORTS_AT_A_TIME][REPORT_DEVICES_MAX];
    static _Thread_local unsigned next;
    struct muster_job_device *devices = rooms[next++ % REPORTS_AT_A_TIME];
    for (unsigned i = 0; i < REPORT_DEVICES_MAX; i++)
        devices[i] = (struct muster_job_device){ .size = sizeof *devices };
    return (struct muster_report){ .size = sizeof(struct muster_report),
                                   .devices = devices,
                                   .device_capacity = REPORT_DEVICES_MAX };
}

#endif
