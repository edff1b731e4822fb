/*
 * Simulation: a job on described devices in virtual time, decided by the code that decides for
 * real ones. The same text and seed give the same answer, bit for bit, on every machine.
 */
#ifndef MUSTER_SIMULATE_H
#define MUSTER_SIMULATE_H

#include <muster/job.h>
#include <muster/runtime.h>
#include <muster/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The caller sets `size`. */
struct muster_simulation_options {
    size_t size;
    uint64_t seed; /* as it is, 0 too; `muster sim` takes 1 unless told */
    const struct muster_allocator *allocator; /* copied; NULL: the C library's */
    /*
     * Called for all that happens, in the order in which it ends, as a trace of a real job would
     * have it; may be NULL.
     */
    void (*event)(void *user, const struct muster_trace_event *event);
    void *event_user;
    int check;    /* not 0: check every invariant after every step, which is slow */
    int everyone; /* not 0: no device is left out because it costs the job more than it brings */
    /*
     * The job is run this many times, each time with what was learned before of who should take part;
     * told of is the last. 0: once.
     */
    uint32_t runs;
};

/* Muster sets `size`, here and below: a program looks there before it reads a field of a later version. */
struct muster_simulation_device {
    size_t size;
    char id[24], name[64];
    const char *refused; /* the hint that keeps it out, NULL if it takes part */
    uint64_t items, units, retries, busy_ns;
    const char *health; /* "ok", "quarantined", "hung", "lost" */
    double
        faster_without; /* above 0: it was left out, and the job is faster without it by this factor */
};

/* One of the jobs of a scenario with machines, where devices are the machines. */
struct muster_simulation_job {
    size_t size;
    double weight;
    muster_status status;
    uint64_t items, items_delivered;
    uint64_t end_ns;  /* when it was over */
    uint64_t busy_ns; /* that devices were at it, together */
};

#define MUSTER_SIMULATION_FAILED_MAX 64

struct muster_simulation {
    size_t size;
    uint64_t seed;
    muster_status status; /* MUSTER_OK, or why the job failed */
    uint64_t makespan_ns, bound_ns;
    double ratio; /* makespan / bound, 0 if there is no bound */
    uint64_t units, items_delivered, lost, duplicated, out_of_order, retries, window_max;
    struct muster_range failed[MUSTER_SIMULATION_FAILED_MAX];
    size_t failed_count;
    const struct muster_simulation_device *const *devices; /* owned by the simulation */
    size_t device_count;
    const char *broken; /* with `check`: the first invariant found broken, NULL if none */
    /* Of scenarios with machines; else 0. */
    const struct muster_simulation_job *const *jobs; /* owned by the simulation */
    size_t job_count;
    uint64_t claims; /* that were given a run */
    uint64_t
        adopted; /* runs that went on under a later submitter, or after their machine was given up */
    uint64_t missing;      /* stored results that had vanished, in grains; these were run again */
    uint64_t workers_lost; /* given up after too long a silence */
    uint64_t resumes;      /* submitters that took up a job */
};

/*
 * Runs a scenario (docs/simulation.md). MUSTER_OK means that it was run: how the job ended is in
 * (*out)->status. MUSTER_E_PARSE has the place in the text. MUSTER_E_NO_DEVICE: the hints refuse
 * every device. `options` may be NULL. Any thread; blocks until the end. Given back with
 * muster_simulation_destroy.
 */
MUSTER_API muster_status muster_simulate(const char *text, size_t bytes,
                                         const struct muster_simulation_options *options,
                                         struct muster_simulation **out, struct muster_error *err);

/* NULL is allowed. */
MUSTER_API void muster_simulation_destroy(struct muster_simulation *simulation);

struct muster_graph_simulation_device {
    size_t size;
    char id[24], name[64];
    uint64_t tasks, busy_ns; /* that it ended, and what they took */
    uint64_t bytes_in, bytes_out;
    const char *health; /* "ok", "lost": gone, or given up because it did not answer */
};

struct muster_graph_simulation {
    size_t size;
    uint64_t seed;
    muster_status status; /* MUSTER_OK: every task ended well */
    uint64_t makespan_ns;
    uint64_t critical_path_ns; /* the longest path, each task on its fastest device */
    uint64_t area_ns;          /* all work over the rates of all devices */
    uint64_t bound_ns;         /* the larger of the two */
    double ratio;              /* makespan / bound */
    uint64_t tasks, ended, failed, cancelled; /* `ended` well; `cancelled`: not run */
    uint64_t moved;                           /* tasks that were taken from one device to another */
    uint64_t copies, copied_bytes, evictions, written_back_bytes;
    uint64_t wrong; /* tiles whose content is not that of the serial run: 0 */
    const struct muster_graph_simulation_device *const *devices; /* owned by the simulation */
    size_t device_count;
    const char *broken; /* with `check`: the first invariant found broken, NULL if none */
};

/*
 * Runs a scenario with a "graph" (docs/simulation.md). MUSTER_E_NOT_SUPPORTED: the text has none;
 * muster_simulate may take it. Else as muster_simulate; of the options `seed`, `allocator` and
 * `check` mean something here, and the others must be 0.
 */
MUSTER_API muster_status muster_simulate_graph(const char *text, size_t bytes,
                                               const struct muster_simulation_options *options,
                                               struct muster_graph_simulation **out,
                                               struct muster_error *err);

/* NULL is allowed. */
MUSTER_API void muster_graph_simulation_destroy(struct muster_graph_simulation *simulation);

#ifdef __cplusplus
}
#endif

#endif
