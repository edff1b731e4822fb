/*
 * The built-in job `reduce`: one result from all records of a file, or of several files side by side, on
 * every device.
 */
#ifndef JOBS_REDUCE_H
#define JOBS_REDUCE_H

#include "map.h"

struct reduce;

struct reduce_options {
    const char *const *kernels; /* files with forms of it */
    size_t kernel_count;
    const char *entry; /* NULL: the only one there is */
    /*
     * One for each pointer that the kernel takes, in its order. A single one may be a pipe ("-": standard
     * input); several are mapped, and have the same number of items.
     */
    const char *const *ins;
    size_t in_count;
    bool has_items; /* of a kernel that takes no pointers: */
    uint64_t items;
    size_t item_bytes;            /* of the only input; 0: as the kernel's source has it */
    const char *const *arguments; /* "name=value" */
    size_t argument_count;
    struct muster_run_options run;
};

/*
 * Reads the kernel and opens the files, in that order; waits for the other end of a pipe. All text is
 * borrowed until reduce_start. `*part` is set on failure.
 */
muster_status reduce_create(struct muster *m, const struct reduce_options *options,
                            struct reduce **out, enum map_part *part, struct muster_error *err);
/* Does not wait for the job. A failure is about MAP_DEVICES. */
muster_status reduce_start(struct reduce *reduce, const struct reduce_options *options,
                           struct muster_error *err);
/* Waits for the job. With a result that is complete, `map_is_complete` may hold, as with map_wait. */
muster_status reduce_wait(struct reduce *reduce, struct muster_report *report, enum map_part *part,
                          struct muster_error *err);
/* Any thread, between reduce_create and reduce_destroy: reduce_wait ends soon. */
void reduce_cancel(struct reduce *reduce);

const struct muster_kernel *reduce_kernel(const struct reduce *reduce);
/* Set after reduce_wait has succeeded; `*bytes` of it. */
const void *reduce_result(const struct reduce *reduce, size_t *bytes);
/* Bytes of all items, and of one; MUSTER_ITEMS_UNKNOWN of a pipe, and 0 without inputs. */
uint64_t reduce_bytes(const struct reduce *reduce, size_t *item_bytes);
struct muster_job *reduce_job(const struct reduce *reduce);
/* NULL: it has none, or several. */
struct muster_file *reduce_file(const struct reduce *reduce);

/* Before the runtime is closed. NULL is allowed. */
void reduce_destroy(struct reduce *reduce);

#endif
