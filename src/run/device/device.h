/*
 * Devices and the backends they are of: opening, cutting, finding and asking them, and what is known
 * of each. What they are given to do is in run/device/stream.h.
 */
#ifndef RUN_DEVICE_H
#define RUN_DEVICE_H

#include "core/budget.h"
#include "core/placement.h"
#include "core/throughput.h"
#include "platform/library.h"
#include "run/base/runtime.h"

enum probe_state { PROBE_NOT_YET, PROBE_RUNNING, PROBE_DONE };

struct run_backend {
    struct muster *m;
    struct muster_backend table;     /* completed */
    struct platform_library library; /* owns, if it was loaded */
    char path[128];
    void *state; /* owns; NULL unless the probe found the backend usable */
    enum probe_state probe;
    bool
        has_answered; /* its devices are known, or why there are none; not while it is first opened */
    uint32_t device_count;
    uint32_t first_domain; /* the backend's domains count from here */
    bool is_built_in;
    bool is_sandboxed;     /* kernels there can compute and nothing else */
    uint32_t hidden_count; /* devices that another backend has too */
    char hidden[128];      /* which and why, for people */
    bool is_abandoned;     /* a device of it hangs and was not closed: neither is the backend */
    struct muster_error error;
};

struct run_device {
    struct muster *m;
    struct run_backend *backend;
    void *state; /* owns */
    struct muster_device_info info;
    uint32_t index;
    bool is_sliced;            /* has left the pool */
    bool is_closing;           /* being cut: refuses everything new */
    struct run_device *parent; /* of a slice */
    uint32_t slices_open;
    bool has_hung_slice; /* one that could not be closed: nor can this */
    enum muster_health health;
    bool is_hung; /* what it does cannot be waited for: its memory is left alone */
    /* Calls of its driver that do not return. Until they do it is asked and given nothing more. */
    uint32_t stuck_calls;
    /* Attempts that were given up and have not ended. Until they have it is given nothing more. */
    uint32_t overdue;
    bool
        had_its_time; /* jobs have waited for it without success already: closing does not once more */
    uint32_t pins;    /* calls under way that hold no stream */
    struct budget budget;
    struct run_stream *streams; /* owns; slot 0 is the default stream */
    uint32_t stream_count;
    uint32_t streams_acquired;
    uint64_t releases; /* of streams, so far */
    uint32_t block_count;
    struct run_event *events, *free_events; /* owns all; those that nobody has */
    struct flight *free_flights;
    struct timing_mark *marks, *free_marks; /* owns all; those that no slot has */
    struct zombie *zombies;
    struct slab *slabs;       /* pinned host memory, owns */
    struct spare *spares;     /* blocks for the next job, owns; the last given back first */
    struct built *built_left; /* owns: of destroyed kernels, what it may run as long as it hangs */
    bool reclaiming;          /* somebody looks at its zombies */
    uint64_t dispatched, completed, failed, bytes_in_flight;
    /* With at least one unit or launch: before, and since when it has been so; 0: it has none. */
    uint64_t busy_ns, busy_since_ns;
    struct live_busy shown;  /* of it on the live page */
    bool is_shown_lost;      /* counts among those that the live page calls lost */
    uint64_t queued_items;   /* of units given and not finished */
    uint32_t streams_active; /* streams with flights */
    uint32_t leases;         /* picks that count against it */
    uint32_t lanes;          /* of jobs, that have streams or memory of it */
    bool had_lanes; /* there was one: what it took is kept, and the next is set up quickly */
    struct throughput items, bytes;
    struct muster_device_sample sample;
    uint64_t sampled_ns;
    uint64_t asked_ns; /* when its driver last answered, also with a failure */
    bool is_late;      /* its driver did not answer in time once: nobody waits for it again */
};

/* Adds the device's id to an error that a backend filled. */
void run_error_device(struct muster_error *err, const struct run_device *device);

/* backends.c */
muster_status backends_load(struct muster *m, struct muster_error *err);
/* False if a backend was left as it is, since a device of it hangs. */
bool backends_unload(struct muster *m);
/* Opens the backend and its devices, if that was not done yet; gives how that went. */
muster_status backends_probe(struct muster *m, struct run_backend *backend,
                             struct muster_error *err);
/*
 * For those that want its devices, but not at any price: whether it is slow and has not answered yet. Then
 * `expected` is how many devices it may have. Opens nothing.
 */
bool backends_is_late(struct muster *m, struct run_backend *backend, uint32_t *expected);
/* Begins to open such a backend, on a thread of its own, if nobody has. */
void backends_open_aside(struct muster *m, struct run_backend *backend);
/* How many are being opened. */
uint32_t backends_opening_locked(const struct muster *m);
/* For muster_close: waits for backends that are being opened; false if one has not answered by then. */
bool backends_await(struct muster *m, uint64_t deadline_ns, struct muster_error *err);
/*
 * Around calls that must not overlap within a backend: as a probe does, by turns and with no lock
 * held.
 */
void backends_begin_probe(struct muster *m, struct run_backend *backend);
void backends_end_probe(struct muster *m, struct run_backend *backend);
struct run_backend *backends_find(struct muster *m, const char *name, size_t length);

/* device.c */
/* Fills info.same_as from the devices that are known. */
void device_find_double(struct run_device *device);
/* What would help a caller who named a device that is not there: the name that is nearest, if one is near. */
const char *device_fix_locked(const struct muster *m, const char *name, size_t length, char *fix,
                              size_t bytes);
/*
 * After device_probe_all: whether every backend that the option slices names could be opened and cut. Work
 * that was to run on slices must not run elsewhere without a word.
 */
muster_status device_check_slices(struct muster *m, struct muster_error *err);
/* Probes all backends, and checks that each name asked for in the options exists now. */
muster_status device_probe_all(struct muster *m, struct muster_error *err);
/* Backends that have not answered, a bit for each, and of them those of which devices are expected. */
struct device_late {
    uint32_t all, awaited;
    uint32_t expected; /* devices */
};
/* The same without backends that are slow: those are not opened. */
muster_status device_probe_quick(struct muster *m, struct device_late *late,
                                 struct muster_error *err);
/* Opens a device that nobody knows of until it is added. */
muster_status device_create(struct muster *m, struct run_backend *backend, uint32_t index,
                            struct run_device **out, struct muster_error *err);
/* Opens slices of a device that nobody knows of yet, all or none. */
muster_status device_cut(struct run_device *device, const uint32_t *sizes, size_t count,
                         struct run_device **slices, struct muster_error *err);
/* All of them or, where there is no room, none. */
muster_status devices_add_locked(struct muster *m, struct run_device *const *devices, size_t count,
                                 struct muster_error *err);
/*
 * The end of a device, in this order; other rooms let go of what they have on it in between. It was
 * drained or hangs. First its streams and events go, then its driver closes it: MUSTER_E_DEVICE_HUNG
 * if something of it still runs, and what that may touch is not freed.
 */
void device_finish(struct run_device *device);
muster_status device_close(struct run_device *device);
void device_free(struct run_device *device);
/* All of that for a device that was given nothing. */
void device_destroy_unused(struct run_device *device);
/* The device of a handle, fit for work or not; on failure `err` is filled. */
muster_status device_resolve_locked(struct muster *m, muster_device handle, struct run_device **out,
                                    struct muster_error *err);
/*
 * Resolves, checks and keeps a device for the length of a call; every success is followed by
 * device_unpin.
 */
muster_status device_pin(struct muster *m, muster_device handle, struct run_device **out,
                         struct muster_error *err);
void device_unpin(struct run_device *device);
/* Refuses devices that are lost, quarantined or being cut. */
muster_status device_check_locked(const struct run_device *device, struct muster_error *err);
muster_device device_handle_locked(const struct run_device *device);
/* Something a pick looks at has changed. */
void device_view_locked(struct run_device *device);
/* All figures of the device as they are known now. */
void device_load_locked(const struct run_device *device, struct muster_device_load *load);
/*
 * A backend call on the device ended so: notes what that says of its health, and puts its id into
 * `err`. Gives `status` back.
 */
muster_status device_note(struct run_device *device, muster_status status,
                          struct muster_error *err);
muster_status device_note_locked(struct run_device *device, muster_status status,
                                 struct muster_error *err);
bool device_allowed(const struct muster *m, const char *id, const char *backend);

/* trace.c */
/* Tells a trace what has happened to the device, or on it, just now; `job` is 0 outside of jobs. */
void trace_device_locked(const struct run_device *device, enum muster_trace_kind kind, uint32_t job,
                         uint64_t bytes);

/* live.c: what the live page is told; nothing where there is none. */
void live_device_locked(struct run_device *device);
void live_totals_locked(struct muster *m);
/* There are more devices. */
void live_devices_locked(struct muster *m);

/* slices.c */
#define SLICES_OF_DEVICE_MAX 64
/* That the option can be understood and names backends that there are. */
muster_status slices_check(struct muster *m, struct muster_error *err);
/* Whether a device of the backend is to be cut. */
bool slices_name(const struct muster *m, const char *backend);
/* Whether the option `devices` names a slice that the device is to be cut into. */
bool slices_allowed(const struct muster *m, const char *id);
/* How many slices the device is to be cut into, 0 if it is not; their sizes, with room for all. */
size_t slices_wanted(const struct muster *m, const char *id, uint32_t *sizes);
/* That every device of the backend that is to be cut is among those found. */
muster_status slices_check_found(const struct muster *m, const char *backend, uint32_t count,
                                 struct muster_error *err);

/* poller.c */
muster_status poller_create(struct muster *m, struct muster_error *err);
/* Asks for a fresh sample; waits for the first one, at most a second. */
muster_status poller_ask(struct run_device *device, struct muster_error *err);
/* False if it is stuck in a driver call and was abandoned. */
bool poller_destroy(struct muster *m, uint64_t deadline_ns);

#endif
