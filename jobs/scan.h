/*
 * The built-in job `scan`: many words over files, on every device, with what is found told in order.
 * Devices mark where words may begin (scan_kernel.c); what the marks mean is settled in order, on one
 * thread (finder.h).
 */
#ifndef JOBS_SCAN_H
#define JOBS_SCAN_H

#include "finder.h"
#include "inputs.h"
#include "words.h"

#include <muster/cluster.h>
#include <muster/muster.h>

struct scan;

/* Gives the helpers of this program the function that searches: before muster_helper_main. */
void scan_share(void);

struct scan_options {
    enum finder_want want;
    bool is_numbered; /* hits have line numbers */
    /* As finder.h has them; is_folded: A to Z are as a to z. */
    bool is_folded, is_word, is_whole, is_inverted, is_first_only;
    bool has_places;          /* finder_match is asked of hits */
    struct tree_options tree; /* what is read; borrowed until the scan is destroyed */
    bool is_unpacked;         /* of compressed files what they hold */
    int output; /* descriptor that hits are written to: that file is not searched; 0: none */
    struct muster_run_options run; /* always ordered */
    /*
     * Called in order, one at a time, on a thread of Muster's; `input` lasts until `end` returns. False
     * ends the scan. `hit` is not called where counts alone are wanted; `finder` is for finder_match.
     */
    bool (*hit)(void *user, const struct input *input, struct finder *finder,
                const struct finder_hit *hit);
    /*
     * An input is over; `lines` of it have a word, or, where every word is wanted, any number but 0
     * if one was found. Not called for one that could not be opened.
     */
    bool (*end)(void *user, const struct input *input, uint64_t lines);
    /* An input cannot be read, or not to its end. Called on another thread than the two above. */
    void (*trouble)(void *user, const char *path, const char *why);
    void *user;
};

/*
 * Starts; does not wait. Sorts and folds `words`, which are not needed afterwards. MUSTER_E_NO_DEVICE: no
 * device can run it, and `err` says why not.
 */
muster_status scan_start(struct muster *m, struct words *words, const struct scan_options *options,
                         struct scan **out, struct muster_error *err);

/* Blocks until all is told. MUSTER_E_CANCELLED: also if `hit` or `end` said so. */
muster_status scan_wait(struct scan *scan, struct muster_report *report, struct muster_error *err);

/*
 * The same on many machines: `desc` is what to submit, but for names; what it points to lasts until
 * scan_destroy, its kernel's file with it. MUSTER_E_NOT_SUPPORTED: an input is no file, or compressed.
 * desc->items is 0 where there is less text than is worth a message: nothing is to be submitted then. Once the job is
 * done, scan_finish tells what is left: it comes to what scan_wait comes to.
 */
muster_status scan_describe(struct words *words, const struct scan_options *options,
                            struct scan **out, struct muster_cluster_desc *desc,
                            struct muster_error *err);
/* `status`: what the job came to. */
muster_status scan_finish(struct scan *scan, muster_status status, struct muster_error *err);

/* For muster_job_progress and muster_job_cancel. Its items are SCAN_ITEM_BYTES of text each. */
struct muster_job *scan_job(const struct scan *scan);
#define SCAN_ITEM_BYTES 1024

/* Before the runtime is closed. NULL is allowed. */
void scan_destroy(struct scan *scan);

#endif
