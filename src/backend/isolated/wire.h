/*
 * What a runtime and a helper say to each other: the layout of the memory that both map, and the messages in it.
 *
 * One ring of messages goes down, to the helper, in the order of the runtime's calls on the device. What comes back is
 * not a ring of answers but state: a word for each event and each stream, a status for each launch, one answer at a
 * time to calls that need one. Only errands - things that the runtime has to do when a stream gets there - come up in a
 * ring.
 *
 * Both sides are of one build: the helper refuses another version. The runtime trusts nothing that it reads here. Each
 * number is checked or is of a kind where every value is harmless; a helper that lies hurts its own device only.
 */
#ifndef BACKEND_ISOLATED_WIRE_H
#define BACKEND_ISOLATED_WIRE_H

#include <muster/backend.h>
#include <stdatomic.h>
#include <stdbool.h>

#define WIRE_MAGIC UINT32_C(0x6d757374)
#define WIRE_VERSION 2

/* The ring of messages down. A message never wraps: WIRE_PAD fills the end. */
#define WIRE_DOWN_BYTES ((uint32_t)1 << 20)
/* One message at most. */
#define WIRE_MESSAGE_BYTES_MAX ((uint32_t)1 << 16)
#define WIRE_UP_COUNT 4096u
#define WIRE_EVENTS 16384u
#define WIRE_STREAMS 1024u
#define WIRE_RESULTS 32768u
#define WIRE_FAILURES 4096u
#define WIRE_THREADS 256u
#define WIRE_REPLY_BYTES 2048u
/* Host memory that is not shared passes through these, one for each stream that needs it. */
#define WIRE_STAGES 128u
#define WIRE_STAGE_BYTES ((uint32_t)1 << 16)

#define WIRE_NONE UINT32_MAX
/* In place of a memory's number: a place in the host memory that both map. */
#define WIRE_HOST (UINT32_MAX - 1)
/* What a helper exits with whose device is lost. */
#define WIRE_EXIT_LOST 70

enum wire_kind {
    WIRE_PAD = 1,
    /* Answered. */
    WIRE_OPEN,            /* text: the simulated devices; a: cpu_workers -> wire_opened */
    WIRE_DEVICE_OPEN,     /* a: index -> info */
    WIRE_DEVICE_SAMPLE,   /* a: device -> sample */
    WIRE_SLICE_PLAN,      /* a: device; uint32_t sizes[b] */
    WIRE_SLICE_OPEN,      /* a: device, b: index -> info; the slice is device b + 1 */
    WIRE_MEMORY_ALLOCATE, /* a: memory, b: device, stream, c: bytes -> uint64_t bytes */
    WIRE_STREAM_OPEN,     /* a: stream, b: device, wire_stream */
    WIRE_EVENT_INIT,      /* a: event, b: device, c: flags */
    WIRE_EVENT_EXPLAIN,   /* a: event: how its last record ended, in words */
    WIRE_EVENT_ELAPSED,   /* a: begin, b: end -> uint64_t ns */
    WIRE_GATE_INIT,       /* a: gate, b: device, c: value */
    WIRE_KERNEL_INIT,     /* a: kernel, b: device, wire_form; its code came with WIRE_CODE */
    WIRE_HOST_REGISTER,   /* b: device, wire_host */
    WIRE_LAUNCH_CHECKED,  /* as WIRE_LAUNCH */
    /* Not answered. */
    WIRE_CODE, /* a piece of a kernel's code; a: 1 for the first */
    WIRE_SLICE_CLOSE,
    WIRE_SLICE_UNPLAN,
    WIRE_MEMORY_FREE,  /* a: memory, b: stream or WIRE_NONE */
    WIRE_STREAM_CLOSE, /* a: stream */
    WIRE_STREAM_WAIT,  /* a: stream, b: event */
    WIRE_STREAM_MARK,  /* a: stream, c: what it has done when it gets there */
    WIRE_EVENT_DEINIT, /* a: event */
    WIRE_EVENT_RECORD, /* a: event, b: stream, wire_record */
    WIRE_GATE_DEINIT,  /* a: gate */
    WIRE_GATE_PUBLISH, /* a: gate, c: value */
    WIRE_GATE_WAIT,    /* a: gate, b: stream, c: value */
    WIRE_COPY,         /* a: stream, wire_copy */
    WIRE_FILL,         /* a: stream, wire_fill */
    WIRE_ERRAND,       /* a: stream, b: errand */
    WIRE_HOST_AGAIN,   /* as WIRE_HOST_REGISTER: the last helper had it */
    WIRE_HOST_UNREGISTER,
    WIRE_KERNEL_DEINIT, /* a: kernel */
    WIRE_LAUNCH /* a: stream, b: kernel; c launches, each a wire_launch with its arguments */
};

/* Every message begins so; `bytes` is a multiple of 16, with this. */
struct wire_head {
    uint32_t bytes;
    uint32_t kind;
    uint32_t a, b;
    uint64_t c;
    uint64_t answer; /* the number of the answer that is waited for; 0: none */
};

struct wire_opened {
    uint32_t device_count;
    uint32_t has_host; /* the host memory that the page speaks of is mapped */
};

/* A part of the host memory that both map. */
struct wire_host {
    uint64_t offset, bytes;
};

struct wire_stream {
    int32_t priority;
    uint32_t is_default;
    uint32_t stage;
    uint32_t unused;
};

struct wire_allocation {
    uint32_t stream;
    uint32_t unused;
};

/* The event's generation, and what its stream has done when it gets there. */
struct wire_record {
    uint64_t generation;
    uint64_t done;
};

/* Device memory, shared host memory, or host memory that the runtime reads and writes when it is asked to (an errand). */
struct wire_place {
    uint32_t memory; /* or WIRE_HOST; WIRE_NONE: the runtime's own */
    uint32_t unused;
    uint64_t offset;
};

struct wire_copy {
    struct wire_place to, from;
    uint64_t bytes;
    uint32_t errand; /* WIRE_NONE: the helper has both */
    uint32_t stage;
};

struct wire_fill {
    struct wire_place to;
    uint64_t bytes;
    uint32_t value;
    uint32_t errand;
};

struct wire_form {
    uint32_t kind;
    uint32_t threads;
    uint64_t code_bytes;
    uint16_t compute[2];
    uint32_t unused;
    char entry[64];
    char file[128];
};

struct wire_launch {
    uint64_t begin, items;
    uint32_t result;
    uint32_t flags;
    uint32_t arg_count;
    uint32_t is_asked; /* 0: nobody asks for the result, and a failure fails the stream */
};

/* Followed by the value, padded to 8 bytes, if it is one. */
struct wire_arg {
    uint32_t memory; /* or WIRE_HOST; WIRE_NONE: a value */
    uint32_t bytes;
    uint64_t offset;
};

/* Up. */
enum wire_up_kind {
    WIRE_UP_ERRAND = 1, /* the stream has got there: do it; nobody waits */
    WIRE_UP_STAGE_IN,   /* host memory -> stage */
    WIRE_UP_STAGE_OUT,  /* stage -> host memory */
    WIRE_UP_WHOLE /* all of a fill or copy between host places; the helper waits as for stages */
};

struct wire_up {
    uint32_t kind;
    uint32_t errand;
    int32_t status;
    uint32_t bytes; /* of the stage */
    uint64_t offset;
    uint64_t unused;
};

struct wire_stream_state {
    _Atomic uint64_t done; /* as the last mark or record said */
    _Atomic int32_t status;
    uint32_t unused;
};

/* Of a thread of the helper. */
#define WIRE_BUSY_NEVER 0u
#define WIRE_BUSY 1u
#define WIRE_BUSY_BEFORE 2u

/* What a thread of the helper executes: written before it calls a kernel. */
struct wire_thread {
    _Atomic uint32_t result; /* of the launch, plus 1; 0: none that is known */
    _Atomic uint32_t is_busy;
    _Atomic uint64_t begin, end;
};

/* Written by the helper's signal handler. */
struct wire_crash {
    _Atomic uint32_t signal;
    _Atomic uint32_t thread; /* index, WIRE_NONE: none that runs kernels */
    _Atomic uint64_t address;
    char text[96]; /* a lost device: what its driver said */
};

struct wire_reply {
    _Atomic uint64_t number;
    int32_t status;
    int32_t driver_code;
    uint32_t bytes;
    uint32_t unused;
    char text[232];
    char fix[128];
    _Alignas(16) unsigned char payload[WIRE_REPLY_BYTES];
};

struct wire_page {
    uint32_t magic, version;
    uint64_t bytes;      /* of this structure */
    uint64_t host_bytes; /* of the file of host memory that the helper is given; 0: there is none */
    char backend[16];

    /* Down: `tail` is the runtime's, `head` the helper's; both count bytes and never go round. */
    _Alignas(64) _Atomic uint64_t down_tail;
    _Alignas(64) _Atomic uint64_t down_head;
    _Alignas(64) _Atomic uint32_t down_word; /* the helper's service sleeps on it */
    _Atomic uint32_t down_sleeps;

    /* Up: the other way round. */
    _Alignas(64) _Atomic uint64_t up_tail;
    _Alignas(64) _Atomic uint64_t up_head;
    _Alignas(64) _Atomic uint32_t up_word;
    _Atomic uint32_t up_sleeps;

    /* Raised whenever something has completed; threads of the runtime sleep on it. */
    _Alignas(64) _Atomic uint32_t done_word;
    _Atomic uint32_t done_sleeps;
    _Alignas(64) _Atomic uint32_t reply_word;
    _Alignas(64) _Atomic uint64_t beats; /* messages served */

    /* Launches that failed: their numbers, in a ring that only tells where to look. */
    _Alignas(64) _Atomic uint64_t failure_count;
    _Atomic uint32_t failures[WIRE_FAILURES];

    struct wire_crash crash;
    struct wire_reply reply;
    /* A stage that the helper waits for has been served when its word is raised. */
    _Alignas(64) _Atomic uint32_t stage_words[WIRE_STAGES + 1];
    struct wire_stream_state streams[WIRE_STREAMS];
    /* generation << 32 | status of the last record that completed. */
    _Atomic uint64_t events[WIRE_EVENTS];
    _Atomic int32_t results[WIRE_RESULTS];
    struct wire_thread threads[WIRE_THREADS];
    struct wire_up up[WIRE_UP_COUNT];
    _Alignas(64) unsigned char down[WIRE_DOWN_BYTES];
    _Alignas(64) unsigned char stages[WIRE_STAGES][WIRE_STAGE_BYTES];
};

_Static_assert(sizeof(struct wire_head) == 32, "fixed layout");
_Static_assert(sizeof(struct wire_copy) == 48, "fixed layout");
_Static_assert(sizeof(struct wire_launch) == 32, "fixed layout");
_Static_assert(sizeof(struct wire_up) == 32, "fixed layout");
_Static_assert(WIRE_MESSAGE_BYTES_MAX * 4 <= WIRE_DOWN_BYTES, "several messages fit the ring");
_Static_assert(sizeof(struct muster_device_info) <= WIRE_REPLY_BYTES, "an answer has room for it");

static inline uint64_t wire_event_word(uint32_t generation, muster_status status)
{
    return (uint64_t)generation << 32 | (uint32_t)status;
}

static inline uint32_t wire_round(size_t bytes)
{
    return (uint32_t)((bytes + 15) & ~(size_t)15);
}

/*
 * Whether the device executes something on this machine's cores, as the helper says. Then nobody looks for long before it
 * sleeps: that would take a core from the kernels. Threads are numbered in the order in which they first executed anything.
 */
static inline bool wire_computes(const struct wire_page *page)
{
    uint32_t busy = WIRE_BUSY_NEVER;
    for (uint32_t i = 0; i < WIRE_THREADS && busy != WIRE_BUSY; i++) {
        busy = atomic_load_explicit(&page->threads[i].is_busy, memory_order_relaxed);
        if (busy == WIRE_BUSY_NEVER)
            return false;
    }
    return busy == WIRE_BUSY;
}

/*
 * Whether a thread that has waited for so long looks on rather than sleep: a wake costs more than most answers take. Kernels
 * that are over in a moment are waited for, too.
 */
#define WIRE_LOOK_NS 6000u
static inline bool wire_looks_on(const struct wire_page *page, uint64_t waited_ns, uint64_t most_ns)
{
    return waited_ns < WIRE_LOOK_NS || (waited_ns < most_ns && !wire_computes(page));
}

/* A status as the other side wrote it: one of the list, or MUSTER_E_INTERNAL. */
muster_status wire_status(int32_t status);

#endif
