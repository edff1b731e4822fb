/*
 * A worker: one thread that looks for jobs and tells that it is there, and for each job of the cluster
 * an endless local job (worker_job.c). What it claims feeds the local job's source, what the local
 * job's sink is given it stores; so every device, isolated or not, works as on one machine.
 */
#ifndef CLUSTER_WORKER_H
#define CLUSTER_WORKER_H

#include "cluster/cluster.h"
#include "core/fleet/worker.h"
#include "platform/thread.h"

#define WORKER_JOBS_MAX 32
/* Requests whose answers may still come. */
#define WORKER_ASKED_MAX 64
/* Pieces that are in the local job at a time: at most one for each slot. */
#define WORKER_PIECES_MAX WIRE_SLOTS_MAX

struct muster_cluster_worker {
    struct muster_cluster *cluster; /* borrowed, as the runtime */
    struct muster *m;
    struct muster_run_options run;
    char devices_wanted[256];
    struct trust trust;
    bool once;
    uint32_t slots;
    void (*log)(void *user, const char *line);
    void *log_user;
    uint64_t id;
    struct platform_thread looking;
    struct transport_listen *wake; /* owns */
    struct platform_mutex lock;    /* guards what follows */
    struct platform_condition changed;
    bool is_stopping, breaks_off, has_ended;
    struct worker_job *jobs[WORKER_JOBS_MAX]; /* owns; of the looking thread */
    uint32_t job_count;
};

/* A run that the local job has, in the order in which it was given. */
struct worker_piece {
    uint32_t slot;
    struct muster_range grains, items; /* of the whole job */
    uint64_t local;                    /* its first item, as the local job counts */
    uint64_t given;                    /* items that the local job has */
};

/*
 * What a local job's callbacks are given. A job that was given up may still call them, and must then
 * take nothing of the next one's.
 */
struct worker_run {
    struct worker_job *job;
    bool is_failing; /* the local job has failed, and waits for its source */
};

struct worker_job {
    struct muster_cluster_worker *worker; /* borrowed */
    struct manifest manifest;
    char name[MANIFEST_NAME_BYTES];
    struct muster_kernel *kernel; /* owns, as what follows */
    muster_data tables[MUSTER_ARGS_MAX];
    void *table_bytes[MUSTER_ARGS_MAX];
    struct muster_arg args[MUSTER_ARGS_MAX];
    int in, out; /* files on shared storage; -1: through the submitter, through the store */
    char *grain; /* a grain that is not complete yet */
    char inbox[TRANSPORT_SUBJECT_BYTES], ask[TRANSPORT_SUBJECT_BYTES];
    struct transport_listen *answers;
    struct platform_thread thread, running;
    struct platform_mutex lock; /* guards what follows */
    struct platform_condition changed;
    bool has_lock, has_changed;
    struct worker state;
    struct wire_request asked[WORKER_ASKED_MAX];
    uint64_t asked_count;
    struct worker_piece pieces[WORKER_PIECES_MAX]; /* a ring */
    uint64_t first, count;
    uint64_t local_items; /* given to the local job so far */
    struct muster_job *local;
    struct worker_run
        *run; /* the local job's callbacks have this one; others are of an earlier job */
    struct muster_error problem; /* of the source or the sink */
    bool is_ready, leaves;       /* `state` is set; it takes nothing more */
    bool is_gone;                /* the job is not there any more */
    bool has_no_room; /* the output's file took no more: results go through the store from now on */
    bool is_careful;  /* a unit has failed: units are single grains, one after the other */
    bool is_stuck;    /* a local job was given up: its callbacks may still be called */
    bool may_begin_again; /* it ended for a reason that may pass, and is stored still */
    uint64_t ended_ns;
    bool is_refused; /* nobody who is trusted has signed it */
    bool has_ended;  /* its threads are done with it */
};

void worker_say(struct muster_cluster_worker *worker, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* MUSTER_E_NO_MEMORY, or no thread. */
muster_status worker_job_start(struct muster_cluster_worker *worker, const char *name,
                               struct worker_job **out, struct muster_error *err);
/* It takes nothing more. */
void worker_job_leave(struct worker_job *job);
/* What it has is not wanted any more, since the job is gone or the worker breaks off. */
void worker_job_drop(struct worker_job *job);
bool worker_job_has_ended(struct worker_job *job);
/* It has ended for some time, for a reason that may have passed: another submitter may have the job. */
bool worker_job_is_worth_another(struct worker_job *job);
bool worker_job_is_refused(struct worker_job *job);
void worker_job_destroy(struct worker_job *job);

/* worker_feed.c: the local job's source and sink, with the worker_run as `user`. */
int64_t worker_source(void *run, uint64_t begin, uint64_t items, void *to, size_t bytes);
muster_status worker_sink(void *run, const struct muster_result *result);
/* Items of the input, from storage or from the submitter. */
muster_status worker_read(struct worker_job *job, uint64_t begin, uint64_t items, void *to,
                          struct muster_error *err);
/* With the job's lock: sends what is due. */
void worker_send(struct worker_job *job);
/* With the job's lock: whether there is anything left to do, or to wait for. */
bool worker_is_done(const struct worker_job *job);

#endif
