/*
 * Pages of the process's own memory that jobs work in: their results, a source's ring, the host's
 * slots of a pipeline. To get pages and to pin them takes a millisecond for ten megabytes, so pages
 * that a job gives back are kept, and stay pinned for the devices that knew them. The next job that
 * wants about as many takes them as they are.
 *
 * The runtime's option `kept_bytes` limits the pages that may be kept, whether a job has them now or
 * not. A job that wants more gets pages too, but those go back to the system when it is over. Kept
 * pages that nobody has are given up first, the longest unused before others: for a job that wants
 * other sizes, and when the system or a driver has no memory left.
 *
 * Pages hold what the last user left in them: who needs zeros writes them.
 */
#ifndef RUN_MEMORY_PAGES_H
#define RUN_MEMORY_PAGES_H

#include "run/device/device.h"

struct pages {
    char *memory;
    size_t bytes; /* at least what was asked for */
    /* The rest is the keeper's. */
    struct pages *next;
    bool is_ring;
    uint64_t nodes;
    bool may_stay; /* counts among `pages_bytes`, and is kept when it is given back */
    bool is_out;
    uint64_t devices[DEVICES_MAX / 64]; /* a bit for each device whose driver knows them */
};

struct pages_want {
    size_t bytes; /* not 0 */
    /* The memory follows itself, as platform_ring_map's does. */
    bool is_ring;
    /* All of it will be used: large pages are wanted. */
    bool is_large;
    uint64_t nodes; /* as platform_pages_place takes them */
};

/*
 * Any thread; calls drivers if pages must be given up to make room. MUSTER_E_NO_MEMORY. Given back
 * with pages_give.
 */
muster_status pages_take(struct muster *m, const struct pages_want *want, struct pages **out,
                         struct muster_error *err);
/*
 * Makes them known to the device's driver, unless they are: copies are faster then. May be refused,
 * as muster_backend.host_register says. At most one thread for each device. NULL is allowed.
 */
muster_status pages_pin(struct pages *pages, struct run_device *device, struct muster_error *err);
/* How many bytes a driver is told of: a ring's lie twice, one after the other. */
size_t pages_span(const struct pages *pages);
/*
 * The device has finished with them: its driver forgets them now, unless they may be kept for it.
 * Called before pages_give, on a thread that may stay in a driver. NULL is allowed.
 */
void pages_leave(struct pages *pages, struct run_device *device);
/* No device that `pages_leave` was not called for uses them any more. NULL is allowed. */
void pages_give(struct muster *m, struct pages *pages);

/* Gives up kept pages that nobody has, until at most this many bytes of those are left. */
void pages_trim(struct muster *m, uint64_t bytes);
/* Before the device is closed: its driver forgets all of them. */
void pages_forget_device(struct run_device *device);
/* After the devices are gone. Also those that are still out. */
void pages_destroy(struct muster *m);

#endif
