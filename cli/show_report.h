/*
 * How the jobs of a command went, added up: as a table with lines below it, or as JSON.
 */
#ifndef CLI_SHOW_REPORT_H
#define CLI_SHOW_REPORT_H

#include "json.h"

#include <muster/file.h>
#include <muster/job.h>

/* Files beyond these are added to the last. */
#define SHOW_FILES_MAX 8

/* Files in one role that went the same way. */
struct show_files {
    char role[16];
    uint64_t count;
    struct muster_file_report sum; /* engine and reason are the first one's */
};

struct show_sum {
    const char *item_name; /* borrowed: plural */
    uint64_t item_bytes;   /* 0: items are only counted */
    uint64_t bytes_max;    /* what the items' bytes cannot exceed: the last may be a part of one */
    uint64_t jobs;
    struct muster_report all; /* the jobs' reports, added up; times are sums; owns its devices */
    uint64_t elapsed_ns;      /* of the whole command */
    uint64_t memory_bytes;    /* resident, at most */
    struct show_files files[SHOW_FILES_MAX];
    size_t file_count;
};

/* `to` is zeroed, or was copied to before. False: no memory, and it is as it was. */
bool show_sum_copy(struct show_sum *to, const struct show_sum *from);
void show_sum_deinit(struct show_sum *sum);
/* A report with room for all of its devices. */
void show_sum_add(struct show_sum *sum, const struct muster_report *report);
void show_sum_add_file(struct show_sum *sum, const char *role,
                       const struct muster_file_report *file);

/* Bytes that such a part of all items stands for. */
uint64_t show_sum_bytes(const struct show_sum *sum, uint64_t items);

void show_sum_print(const struct show_sum *sum, muster_status status, struct output *out);
/* Members of the object that is open. */
void show_sum_json(const struct show_sum *sum, muster_status status, struct json *json);

#endif
