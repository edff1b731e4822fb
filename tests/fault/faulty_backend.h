/*
 * A backend that wraps another, slot by slot, and fails when it is told to.
 *
 * It counts every call by kind, and what the runtime holds of it: each device, stream, event, gate,
 * kernel, block of memory and registered range of host pages. A call that fails is not passed on to
 * the wrapped backend. A lost device answers every later call with MUSTER_E_DEVICE_LOST, and what
 * it was doing has stopped when it first says so. Where an answer says that work is over, it is: a
 * failure is made up, never the end of work that still runs.
 *
 * A call can also be blocked, as in a driver that does not answer. It returns when the test releases
 * it, and only then reaches the wrapped backend, with its original arguments. So everything that the
 * arguments point to must still exist then, which AddressSanitizer checks.
 *
 * There is one in a process at a time, since most slots have no place for a pointer of ours.
 */
#ifndef FAULT_FAULTY_BACKEND_H
#define FAULT_FAULTY_BACKEND_H

#include <muster/backend.h>
#include <stdbool.h>

/* The slots that can fail. */
#define FAULTY_CALLS(X)                                                                            \
    X(open)                                                                                        \
    X(device_open)                                                                                 \
    X(device_close)                                                                                \
    X(device_sample)                                                                               \
    X(slice_plan)                                                                                  \
    X(slice_open)                                                                                  \
    X(memory_allocate)                                                                             \
    X(memory_free)                                                                                 \
    X(host_register)                                                                               \
    X(stream_open)                                                                                 \
    X(stream_wait)                                                                                 \
    X(stream_query)                                                                                \
    X(event_init)                                                                                  \
    X(event_record)                                                                                \
    X(event_query)                                                                                 \
    X(event_wait)                                                                                  \
    X(event_elapsed)                                                                               \
    X(gate_init)                                                                                   \
    X(gate_publish)                                                                                \
    X(gate_wait)                                                                                   \
    X(copy)                                                                                        \
    X(fill)                                                                                        \
    X(host_call)                                                                                   \
    X(kernel_init)                                                                                 \
    X(launch)

/* The slots that return nothing, and so can only be blocked. */
#define FAULTY_RELEASES(X)                                                                         \
    X(host_unregister)                                                                             \
    X(stream_close)                                                                                \
    X(event_deinit)                                                                                \
    X(gate_deinit)                                                                                 \
    X(kernel_deinit)

enum faulty_call {
#define FAULTY_ENUM(slot) FAULTY_##slot,
    FAULTY_CALLS(FAULTY_ENUM) FAULTY_CALL_COUNT,
    FAULTY_ANY = FAULTY_CALL_COUNT, /* in a plan: calls of all kinds, counted together */
    FAULTY_RELEASES(FAULTY_ENUM) FAULTY_KIND_COUNT
#undef FAULTY_ENUM
};

enum faulty_object {
    FAULTY_DEVICE,
    FAULTY_STREAM,
    FAULTY_EVENT,
    FAULTY_GATE,
    FAULTY_KERNEL,
    FAULTY_MEMORY,
    FAULTY_PAGES,
    FAULTY_OBJECT_COUNT
};

struct faulty_plan {
    enum faulty_call call;
    uint64_t number;   /* of the call of this kind that fails, from 1; 0: none */
    bool from_then_on; /* also every later one of this kind */
    muster_status status;
};

/*
 * The table, named "faulty"; valid until the next wrap. Forgets all that was counted before. A
 * table without host_register gets one, so that registering can fail too.
 */
const struct muster_backend *faulty_wrap(const struct muster_backend *wrapped,
                                         const struct faulty_plan *plan);

#define FAULTY_EVERY_DEVICE UINT32_MAX

struct faulty_block {
    enum faulty_call call; /* FAULTY_ANY: calls of all kinds, releases too, counted together */
    uint64_t number;       /* of the call that blocks, from 1; calls are counted from now on */
    bool from_then_on;     /* also every later one */
    uint32_t device;       /* its index in the backend; only calls on it block and count */
};

/* Calls block from now on, until faulty_unblock. */
void faulty_block(const struct faulty_block *block);
/* Waits until `count` threads or more are inside a blocked call; false if that takes over 20 s. */
bool faulty_await_blocked(uint32_t count);
/* How many threads are inside a blocked call. */
uint32_t faulty_blocked(void);
/*
 * Lets all blocked calls go and blocks none from now on. With MUSTER_OK the calls are passed on to
 * the wrapped backend; with another status they fail with it. Returns when all have left.
 */
void faulty_unblock(muster_status status);

/* Another plan from now on; calls are counted again. */
void faulty_replan(const struct faulty_plan *plan);

const char *faulty_call_name(enum faulty_call call);
uint64_t faulty_calls(enum faulty_call call);
bool faulty_has_failed(void);

/*
 * What the runtime still holds. Memory whose release was refused is the driver's affair and does
 * not count; nor does what a closed device held, which faulty_orphans counts.
 */
uint64_t faulty_live(enum faulty_object kind);
/* Objects that were left when their device was closed: allowed only for one that hangs. */
uint64_t faulty_orphans(void);
/* What the runtime did that backend.h does not allow, "" if nothing. */
const char *faulty_mistake(void);

/* Really closes the devices that were said to hang. Before what they were given is freed. */
void faulty_bury(void);

#endif
