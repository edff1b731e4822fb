#include "report.h"

#include <stdlib.h>

bool report_make_room(struct muster_report *report, size_t devices)
{
    if (devices <= report->device_capacity)
        return true;
    struct muster_job_device *grown = realloc(report->devices, devices * sizeof *grown);
    if (!grown)
        return false;
    for (size_t i = report->device_capacity; i < devices; i++)
        grown[i] = (struct muster_job_device){ .size = sizeof *grown };
    report->devices = grown;
    report->device_capacity = devices;
    return true;
}

bool report_read(struct muster_report *report, struct muster_job *job)
{
    size_t count;
    report->size = sizeof *report;
    /* The devices of a job stay the same. */
    muster_job_devices(job, NULL, 0, &count, NULL);
    return report_make_room(report, count) && muster_job_report(job, report, NULL) == MUSTER_OK;
}

void report_deinit(struct muster_report *report)
{
    free(report->devices);
    report->devices = NULL;
    report->device_capacity = report->device_count = 0;
}
