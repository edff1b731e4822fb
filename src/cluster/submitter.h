/*
 * The submitter of a job: three threads around the decisions of core/fleet. One answers the machines,
 * one delivers results in order, notes the progress and looks whether another process has the job, one
 * gives items of the input to machines that cannot read it themselves.
 */
#ifndef CLUSTER_SUBMITTER_H
#define CLUSTER_SUBMITTER_H

#include "cluster/cluster.h"
#include "cluster/output.h"
#include "core/fleet/fleet.h"
#include "platform/thread.h"

/* Workers that can take part at a time, and pieces that each may hold. */
#define SUBMITTER_LANES 1024
#define SUBMITTER_SLOTS 4
#define SUBMITTER_PLACES (SUBMITTER_LANES * SUBMITTER_SLOTS)
/* A piece should not take longer on its machine: what is lost with a machine is that much. */
#define SUBMITTER_PIECE_NS UINT64_C(1000000000)

struct muster_cluster_job {
    struct muster_cluster *cluster; /* borrowed, as what follows */
    int64_t (*source)(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes);
    muster_status (*sink)(void *user, uint64_t begin, uint64_t items, const void *from);
    void *user;
    struct manifest manifest;
    uint64_t epoch, begin; /* begin: grains that were delivered before */
    int in;                /* owns: the input's file, -1 if there is none */
    struct cluster_output output;
    struct transport_listen *control, *input; /* owns */
    struct platform_thread answering, delivering, giving;
    struct platform_mutex lock; /* guards what follows */
    struct platform_condition changed;
    bool has_lock, has_changed;
    struct fleet *fleet;                     /* owns */
    char (*places)[TRANSPORT_SUBJECT_BYTES]; /* where the answers of waiting claims go */
    bool was_up, is_ending, is_over;
    bool is_suspended; /* the output takes no more: the job stays, to be resumed */
    uint64_t seen_ns;  /* when the job's description was stored for sure; the delivering thread's */
    uint64_t started_ns, ended_ns, delivered_ns, stall_ns;
    uint64_t noted; /* grains, durably */
    char why[200];  /* what a machine said of the last piece that failed */
    uint64_t why_grain;
    uint32_t refusals;         /* of machines that do not trust the job's key, or its description */
    char refusal[320];         /* the last of them */
    struct muster_error error; /* how it ended; status 0: well */
};

/* All is set but what the threads use. On failure nothing is left running. */
muster_status cluster_feed_start(struct muster_cluster_job *job, struct muster_error *err);
/* Ends the threads and closes what the job has open. */
void cluster_feed_stop(struct muster_cluster_job *job);

/* Answers a request that names `subject` for it; NULL: it wants no answer. */
void cluster_answer(struct muster_cluster_job *job, const char *subject, const void *bytes,
                    size_t size);

/* deliver.c: the second thread. */
void cluster_deliver(void *job);
/* input.c: the third thread. */
void cluster_give(void *job);
/* The items, from the file or the source. */
muster_status cluster_read_input(struct muster_cluster_job *job, uint64_t begin, uint64_t items,
                                 void *to, struct muster_error *err);

#endif
