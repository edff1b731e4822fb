/*
 * Resident lanes: what one has on the host's side. lane.c makes and ends lanes, encode.c writes tasks into
 * records, post.c gives records to seats and hears how they ended, watch.c is the thread that parks a lane and
 * notices when it hangs. Two kinds of seats: threads.c, and device.c for a kernel that stays on a GPU.
 *
 * Locks: a lane's lock may be taken under the task pool's, and none is taken under it but that of the seats. It
 * is never held across a driver's call or user code, which a line of the log is, too.
 */
#ifndef RUN_RESIDENT_H
#define RUN_RESIDENT_H

#include "core/resident.h"
#include "platform/thread.h"
#include "run/base/runtime.h"

#include <muster/resident.h>

struct resident_seats;
struct run_device;

/* An array in host memory that comes back with the task's end. */
struct resident_output {
    void *host; /* borrowed until the task has ended */
    uint32_t at, bytes;
};

/* A task's place in the lane, from muster_submit to its end. Its body is in the shared memory. */
struct resident_record {
    struct muster_resident *lane;
    struct resident_record *next; /* of spare ones, or of those that have ended */
    void *owner;                  /* the task's; chosen by run/task */
    uint32_t index;               /* in the lane */
    uint32_t opcode, items, flags, pieces, step_count;
    bool is_long;  /* on a GPU not for the first seat, which looks for all that is short */
    uint32_t seat; /* once it is posted, as the number is */
    _Atomic uint32_t number; /* who waits reads it without a lock, also when it is an old one */
    muster_status status;    /* once it has ended */
    uint32_t output_count, block_count;
    struct resident_output outputs[RESIDENT_OPERANDS_MAX];
    uint16_t blocks[RESIDENT_OPERANDS_MAX]; /* slots that it uses */
};

/* A header as both sides see it; release and acquire are on the first word. */
struct resident_header {
    _Alignas(16) _Atomic uint64_t first;
    _Atomic uint64_t second;
};

/* Written by a seat: how often it looked, and the number of the next header it takes. */
struct resident_sign {
    _Alignas(RESIDENT_SIGN_BYTES) _Atomic uint64_t beats;
    _Atomic uint64_t position;
};
_Static_assert(sizeof(struct resident_sign) == RESIDENT_SIGN_BYTES, "a line each");

struct resident_control {
    _Alignas(16) _Atomic uint64_t run; /* seats of another run leave */
    /* Bit 0: programs end at their next step. The rest grows with what is posted to others than the first seat. */
    _Atomic uint64_t bell;
};

/* One ring, as the host knows it. Under the lane's lock. */
struct resident_side {
    uint32_t posted, ended; /* numbers so far; the next is posted + 1 */
    /* What the watch saw last, and since when that has not changed. */
    uint64_t seen_beats, seen_ns;
    uint32_t seen_number;
    bool has_begun; /* it has given a sign in this run */
};

enum resident_run { RESIDENT_OFF, RESIDENT_STARTING, RESIDENT_ON, RESIDENT_LEAVING };

/* What makes the seats; `state` is its own. */
struct resident_kind_of_seats {
    /* Sets lane->seat_count, cores and threads. */
    muster_status (*make)(struct muster_resident *lane, struct muster_error *err);
    /* Begins run `lane->run`; no lock is held. */
    muster_status (*start)(struct muster_resident *lane, struct muster_error *err);
    /* MUSTER_OK: all have left; MUSTER_E_BUSY: not yet; else the lane is lost. No lock is held. */
    muster_status (*query)(struct muster_resident *lane, struct muster_error *err);
    /* Something was posted to the seat. With or without the lane's lock. */
    void (*ring)(struct muster_resident *lane, uint32_t seat);
    /* False if something of it still runs: then nothing was freed. */
    bool (*end)(struct muster_resident *lane);
};
extern const struct resident_kind_of_seats resident_threads, resident_device;

struct resident_attached {
    muster_block block;
    uint32_t users; /* tasks; with the lane's lock */
    bool is_attached;
};

struct muster_resident {
    struct muster *m;
    struct muster_resident *next; /* of the runtime's lanes */
    struct run_device *device;    /* stays: the lane has a stream of it */
    muster_device device_handle;
    muster_stream stream;                                /* orders the attached blocks */
    struct muster_kernel *kernels[RESIDENT_OPCODES_MAX]; /* held */
    struct resident_opcode opcodes[RESIDENT_OPCODES_MAX];
    uint32_t kernel_count;
    struct muster_resident_options options; /* complete */
    const struct resident_kind_of_seats *kind;
    struct resident_seats *seats; /* owns */
    uint32_t seat_count;
    bool is_pinned; /* the shared memory is pinned memory of the device */

    /* Shared memory, owns; pinned where the device is a GPU. */
    void *memory;
    size_t memory_bytes;
    struct resident_control *control;
    struct resident_sign *signs;
    struct resident_header *headers; /* `entries` for each seat */
    _Atomic uint64_t *ends;
    char *bodies;

    struct platform_mutex lock;
    struct platform_condition changed; /* a record is spare, or the run's state is another */
    struct platform_condition watch_wake;
    struct platform_thread watch;
    /* With the lock: */
    struct resident_side sides[RESIDENT_SEATS_MAX];
    uint32_t *order; /* owns: records by seat and number */
    struct resident_record *records, *spare;
    uint32_t spare_count;
    uint32_t in_ring;
    struct resident_block blocks[MUSTER_RESIDENT_BLOCKS_MAX];
    struct resident_attached attached[MUSTER_RESIDENT_BLOCKS_MAX];
    uint32_t block_generation;
    enum resident_run state;
    uint64_t run;          /* the latest that was started */
    uint64_t last_post_ns; /* coarse */
    uint64_t started_ns;
    _Atomic bool is_listening; /* ends are to be told to somebody who does not look */
    bool is_lost, is_shut;     /* shut: takes no new tasks */
    muster_status lost_status;
    bool watch_must_stop;
    uint64_t tasks, steps, starts, parks, full, leave_ns;
    struct resident_record *orphans; /* ended with the lane; not collected yet */
    _Atomic uint32_t lookers;        /* threads that wait for its tasks, and look */
    /* The task room's, with the pool's lock: */
    struct muster_resident *next_in_pool;
    bool is_in_pool;
};

static inline char *resident_body(struct muster_resident *lane,
                                  const struct resident_record *record)
{
    return lane->bodies + (size_t)record->index * RESIDENT_BODY_MAX;
}
static inline struct resident_header *resident_header_at(struct muster_resident *lane,
                                                         uint32_t seat, uint32_t number)
{
    return &lane->headers[(size_t)seat * lane->options.entries +
                          (number - 1) % lane->options.entries];
}
static inline bool resident_is_of(const struct muster_resident *lane, const struct muster *m)
{
    return lane->m == m;
}

/* Most tasks at once. */
static inline uint32_t resident_room(const struct muster_resident *lane)
{
    return lane->options.entries;
}

/* encode.c */
/*
 * The task's steps, arguments and data in a record of its lane. MUSTER_E_BUSY: the lane has no spare record
 * now; nothing else waits. MUSTER_E_DEVICE_HUNG or _LOST: it takes none any more. The record is to be posted or
 * dropped.
 */
muster_status resident_take(struct muster_resident *lane, const struct muster_task_desc *desc,
                            struct resident_record **out, struct muster_error *err);

/* post.c */
/* Gives a record that was neither posted nor is in the ring any more back. */
void resident_drop(struct resident_record *record);
/*
 * The record is the lane's from here on, until resident_collect gives it. Starts the lane where that is
 * parked. A lane that is lost gives it back as ended.
 */
void resident_post(struct resident_record *record);
/* Those that have ended, oldest first; outputs are where they belong. NULL: none has. */
struct resident_record *resident_collect(struct muster_resident *lane);
/*
 * Whether resident_collect would give this one: no lock. Before it is posted it may answer for the record's last
 * task.
 */
bool resident_has_ended(const struct resident_record *record);
/* Somebody relies on ends that no thread looks for: the watch looks, until `tell` says that it need not. */
void resident_listen(struct muster_resident *lane);
/* With the lock, from OFF: begins a run. The lock is not held meanwhile. */
void resident_start_locked(struct muster_resident *lane);
/* Parks until a record may be spare, or some microseconds have passed. */
void resident_await_room(struct muster_resident *lane);

/* watch.c */
void resident_watch(void *lane);
/* Asks a lane that runs without tasks to leave, and waits until it has. */
muster_status resident_leave(struct muster_resident *lane, struct muster_error *err);
/* With the lock: it takes and gives nothing any more; all its tasks end so. */
void resident_lose_locked(struct muster_resident *lane, muster_status status);

/* lane.c */
/* For closing: ends all lanes; the number of those that did not leave. */
uint32_t residents_destroy_all(struct muster *m);

#endif
