/*
 * The live view: what all runtimes of this user's processes do now, seen from any process (docs/live.md).
 *
 * Each runtime shows its figures in a small file that other processes of the same user read. It costs the
 * runtime no thread, no socket and no system call while it works. `no_live` of muster_options and
 * MUSTER_LIVE=0 turn it off; the path of a folder in MUSTER_LIVE puts it there. What is found there is checked before it is used: every text is terminated
 * and printable, every number is in its range.
 */
#ifndef MUSTER_LIVE_H
#define MUSTER_LIVE_H

#include <muster/device.h>

#ifdef __cplusplus
MUSTER_SAME_NAMES_BEGIN
extern "C" {
#endif

/* A snapshot of all runtimes. It does not change; look again for a newer one. */
struct muster_live;

/*
 * Looks at all runtimes of this user, in the order of their process numbers. Removes the pages of
 * processes that have ended. Does not block. Any thread. Given back with
 * muster_live_destroy. Files that cannot be read are counted (muster_live_info), and are no failure.
 */
MUSTER_API muster_status muster_live_look(struct muster_live **out, struct muster_error *err);

/* NULL is allowed. */
MUSTER_API void muster_live_destroy(struct muster_live *live);

/* What the look has found. The caller sets `size`. */
struct muster_live_info {
    size_t size;
    uint64_t runtimes;
    uint64_t swept;   /* files of dead processes that were removed */
    uint64_t refused; /* files and folders that are not as they should be; left alone */
    char why[192];    /* the first of those; "" if there is none */
    uint64_t now_ns;  /* when it was, of the monotonic clock, as are all times below */
};
MUSTER_API muster_status muster_live_info(const struct muster_live *live,
                                          struct muster_live_info *out, struct muster_error *err);

/* A runtime. Counts are since it was opened, as in muster_counters. The caller sets `size`. */
struct muster_live_runtime {
    size_t size;
    uint64_t pid;
    uint64_t number;  /* of this process's runtimes, from 1 */
    char program[64]; /* what the process is called */
    char version[16]; /* of its Muster */
    uint64_t opened_ns;
    uint64_t devices, jobs; /* that can be asked for; jobs that are over for a while, too */
    uint64_t devices_unseen, jobs_unseen; /* more than there is room for: now */
    uint64_t jobs_started, jobs_done, jobs_failed;
    uint64_t units_started, units_done, units_late, units_failed;
    uint64_t items_delivered, bytes_delivered, bytes_in, bytes_out;
    uint64_t kernels_built;
    uint64_t tasks_submitted, tasks_ended; /* tasks that wait or run now: the difference */
    uint64_t devices_lost;
    uint64_t kept_bytes; /* host memory of jobs that is kept for the next */
};
/* MUSTER_E_NOT_FOUND: there are fewer. Likewise of the functions below. */
MUSTER_API muster_status muster_live_runtime(const struct muster_live *live, size_t runtime,
                                             struct muster_live_runtime *out,
                                             struct muster_error *err);

/* A device of a runtime. The caller sets `size`. */
struct muster_live_device {
    size_t size;
    char id[24], name[64], backend[16];
    enum muster_health health;
    uint32_t is_hung;      /* it does not answer; it is given nothing until it does */
    uint32_t is_cut;       /* its slices stand in for it */
    uint64_t queue_depth;  /* units and launches given and not finished */
    uint64_t queued_items; /* of them */
    uint64_t streams_active, lanes;
    uint64_t dispatched, completed, failed;
    uint64_t bytes_in_flight;
    uint64_t busy_ns; /* with at least one unit or launch, since it was opened until now */
    double items_per_s, bytes_per_s;
    uint64_t memory_total;
    uint64_t memory_used, memory_reserved, memory_unreclaimed, memory_kept; /* of Muster's own */
    /* As the driver said last, if anybody has asked it: muster_device_load, a pick with `min_free`. */
    uint64_t memory_free, sampled_ns;  /* 0: never */
    double utilisation, temperature_c; /* -1 and -300: not known */
};
MUSTER_API muster_status muster_live_device(const struct muster_live *live, size_t runtime,
                                            size_t device, struct muster_live_device *out,
                                            struct muster_error *err);

enum muster_live_state {
    MUSTER_LIVE_RUNNING = 0,
    MUSTER_LIVE_DONE = 1,
    MUSTER_LIVE_FAILED = 2,
    MUSTER_LIVE_CANCELLED = 3
};
MUSTER_API const char *muster_live_state_name(enum muster_live_state state);

/* A job, running or over. The caller sets `size`. */
struct muster_live_job {
    size_t size;
    uint64_t number; /* of the runtime's jobs, from 1; as in traces */
    char name[64];   /* of its kernel, or of its pipeline's stages */
    enum muster_live_state state;
    muster_status status;      /* how it ended */
    uint64_t items, delivered; /* UINT64_MAX items: not known */
    uint64_t units;            /* that were cut so far */
    uint64_t retries;
    uint64_t running;                  /* units that lanes have now */
    uint64_t started_ns;               /* of the monotonic clock */
    uint64_t elapsed_ns, remaining_ns; /* UINT64_MAX: not known */
    double items_per_s;
    uint64_t memory_bytes; /* of the host, for results and supplied items */
    uint64_t lanes, lanes_unseen;
    /* Where its time went, as in muster_report, a moment ago: at most 0.1 s if units end that often. */
    uint64_t makespan_ns, bound_ns, startup_ns, transfer_ns, overhead_ns, starved_ns, tail_ns;
};
MUSTER_API muster_status muster_live_job(const struct muster_live *live, size_t runtime, size_t job,
                                         struct muster_live_job *out, struct muster_error *err);

/* A device at work on a job. The caller sets `size`. */
struct muster_live_lane {
    size_t size;
    char device[24];
    enum muster_health health;
    uint64_t items, units;
    uint64_t retries;   /* attempts that failed here */
    uint64_t late;      /* attempts that another device had finished before */
    uint64_t running;   /* units that it has now */
    uint64_t busy_ns;   /* with at least one, until now */
    double items_per_s; /* while busy */
    double
        faster_without; /* above 0: it is left out, since the job is this many times faster without it */
};
MUSTER_API muster_status muster_live_lane(const struct muster_live *live, size_t runtime,
                                          size_t job, size_t lane, struct muster_live_lane *out,
                                          struct muster_error *err);

#ifdef __cplusplus
}
MUSTER_SAME_NAMES_END
#endif

#endif
