/*
 * A scan's insides, for the files of it: on this machine (scan.c) and on many (scan_cluster.c).
 */
#ifndef JOBS_SCAN_STATE_H
#define JOBS_SCAN_STATE_H

#include "scan.h"
#include "scan_host.h"
#include "texts.h"

/* jobs/CMakeLists.txt makes it from scan_kernel.c. */
extern const char scan_kernel_source[];

struct scan {
    struct muster *m; /* borrowed */
    struct scan_options options;
    struct automaton automaton;
    muster_data data;
    bool has_data;
    struct muster_kernel *kernel;
    struct muster_job *job;
    struct inputs inputs;
    /* On many machines instead of the job and the inputs. */
    struct texts texts;
    bool is_far;
    uint32_t flags;
    struct muster_arg args[4];
    char kernel_folder[64]; /* "": there is none */
    char kernel_path[80];
    const char *kernels[1];
    struct text_reader reading, giving; /* of the two threads that read */
    uint64_t items;                     /* that machines have */
    uint8_t *text;                      /* owns: what the marks are of */
    size_t text_bytes;
    uint64_t *marks; /* owns */
    uint64_t mark_items;
    struct muster_error problem; /* what the sink found; status 0: nothing */
    /* The delivering thread's own. */
    struct finder finder;
    struct input *input; /* borrowed: the one that is being dealt with; NULL: the next */
    uint64_t position;   /* in the text of all inputs: what is before it has been dealt with */
    bool is_stopped;
};

/* The automaton and the finder. */
muster_status scan_begin(struct scan *scan, struct words *words, struct muster_error *err);
/* What the kernel is asked for: SCAN_BY_LINE, SCAN_FOLD. */
uint32_t scan_flags(const struct scan_options *options);
/* Text from byte `begin` to before `end` of all inputs, with its marks. In order, on one thread. */
muster_status scan_settle(struct scan *scan, uint64_t begin, uint64_t end, const uint8_t *text,
                          const uint64_t *marks);
muster_status scan_no_memory(struct muster_error *err, const char *what);

/* scan_cluster.c: before the rest is freed. */
void scan_leave_cluster(struct scan *scan);

#endif
