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
     * The job is run so many times, each time with what was learned before of who should take part;
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

#ifdef __cplusplus
}
#endif

#endif
