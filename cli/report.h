/*
 * A job's report with room for all of its devices, however many there are.
 */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include <muster/job.h>
#include <stdbool.h>

/* Room for this many devices in a report, zeroed at first; `devices` is owned from then on. False: no memory. */
bool report_make_room(struct muster_report *report, size_t devices);
/* Reads a job's report, and makes the room that it takes. False: it could not be read. */
bool report_read(struct muster_report *report, struct muster_job *job);
void report_deinit(struct muster_report *report);

#endif
