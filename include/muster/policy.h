/*
 * Placement: which device a piece of work should go to.
 *
 * A filter by hints comes first, then a policy picks among what is left. Choosing a device and
 * counting the choice against it is one step, so that two callers see each other's choice.
 */
#ifndef MUSTER_POLICY_H
#define MUSTER_POLICY_H

#include <muster/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the work needs. The caller sets `size`; zero means "does not matter" everywhere. */
struct muster_hints {
    size_t size;
    uint64_t min_free;    /* bytes free on the device now */
    uint16_t min_cc[2];   /* compute capability */
    const char *backends; /* names, comma separated */
    const char *devices;  /* ids and backends, comma separated */
    uint64_t affinity;    /* for "sticky": the same key goes to the same device */
    uint64_t items;       /* for "earliest-finish": how large the work is expected to be */
    uint64_t bytes;       /* likewise: what must be copied to the device */
};

/* A device that passed the filter, as it is now. Read-only; Muster sets the sizes. */
struct muster_candidate {
    size_t size;
    muster_device device;
    const struct muster_device_info *info; /* borrowed for the call, as the load */
    const struct muster_device_load *load; /* queue_depth counts leases too */
};

/*
 * A policy: a name and a function that gives the number of the chosen candidate, or a negative
 * number for none. It is called with no lock held, by one thread at a time, on a snapshot; if that
 * is out of date when the choice comes back, it is asked again, three times at most. One policy is
 * whatever has the same `choose` and `state`. Within it, a pick by a user's policy, starting a job
 * that has one, and waiting for such a job fail with MUSTER_E_ORDER. Figures are as last seen:
 * muster_device_load brings them up to date. Candidates are given by pointers, since a newer library's
 * may be larger than the policy knows.
 */
struct muster_policy {
    size_t size;
    const char *name;
    void *state;
    int (*choose)(void *state, const struct muster_hints *hints,
                  const struct muster_candidate *const *candidates, size_t count);
};

/* A choice that counts against its device until it is released. */
typedef struct {
    uint32_t index, generation;
} muster_lease;

/* Why a device was not among the candidates. */
enum muster_refusal {
    MUSTER_REFUSED_NOT = 0,
    MUSTER_REFUSED_HEALTH = 1,
    MUSTER_REFUSED_BACKENDS = 2,
    MUSTER_REFUSED_DEVICES = 3,
    MUSTER_REFUSED_MIN_CC = 4,
    MUSTER_REFUSED_MIN_FREE = 5
};

/*
 * "round-robin", "least-loaded", "weighted", "adaptive", "earliest-finish" or "sticky"
 * (docs/policies.md); NULL for any other name.
 */
MUSTER_API const struct muster_policy *muster_policy_named(const char *name);

/*
 * Picks a device and counts a unit against it. `policy` NULL is "adaptive", `hints` NULL asks for
 * nothing. MUSTER_E_NO_DEVICE: `err` says which hint refused which device, muster_explain says it
 * in full. MUSTER_E_NOT_FOUND: a hint names a device or a backend that does not exist.
 * MUSTER_E_BUSY: a user's policy chose three times what was no longer available.
 */
MUSTER_API muster_status muster_pick(struct muster *m, const struct muster_policy *policy,
                                     const struct muster_hints *hints, muster_lease *lease,
                                     muster_device *device, struct muster_error *err);

/* The work is over, or will not be done. MUSTER_E_STALE: it was released before. */
MUSTER_API muster_status muster_lease_release(struct muster *m, muster_lease lease,
                                              struct muster_error *err);

/* What one pick looked at. The caller sets `size`. */
#define MUSTER_DECISION_DEVICES_MAX 16
struct muster_decision {
    size_t size;
    uint64_t number;  /* counts picks from 1 */
    uint64_t time_ns; /* monotonic clock */
    char policy[24];
    int32_t chosen;        /* which of `devices`, -1: none */
    uint32_t device_count; /* of those below; the first 16, if there were more */
    struct {
        muster_device device;
        enum muster_refusal refusal;
        double score; /* larger is better, as the policy counts; 0 for a user's policy */
    } devices[MUSTER_DECISION_DEVICES_MAX];
};

/*
 * The last picks, newest first, of the 1024 that are kept. The caller sets out[i].size. `*count`
 * is set to how many there are; more than `capacity` is no error.
 */
MUSTER_API muster_status muster_explain(struct muster *m, struct muster_decision *out,
                                        size_t capacity, size_t *count, struct muster_error *err);

/* "min_free" and so on, as the hint is called; never NULL. */
MUSTER_API const char *muster_refusal_name(enum muster_refusal refusal);

/* A number of bytes from "80GiB", "1.5MiB", "4096": what the hints and descriptions understand. */
MUSTER_API muster_status muster_size_parse(const char *text, uint64_t *bytes,
                                           struct muster_error *err);

#ifdef __cplusplus
}
#endif

#endif
