/*
 * The runtime's side of isolated devices, for the files of this folder alone.
 *
 * A link is a helper, the memory shared with it, and all that was opened through it: a device and its slices. The
 * link's lock guards what is below it and the writing of messages; it is never held across a wait for the helper,
 * user code or a copy. `call_lock` is held by the thread that waits for an answer, and is taken first.
 *
 * Two threads belong to a link. `watcher` sleeps until the helper has ended. `receiver` runs errands as they come up,
 * and when the helper has ended fails what it held and starts the next one.
 */
#ifndef BACKEND_ISOLATED_STATE_H
#define BACKEND_ISOLATED_STATE_H

#include "backend/isolated/isolated.h"
#include "backend/isolated/wire.h"
#include "platform/child.h"
#include "platform/shared.h"
#include "platform/thread.h"

#define DEVICES_OF_LINK_MAX 65u
#define CRASH_TEXT_BYTES 160

struct link;

enum errand_kind {
    ERRAND_FREE,
    ERRAND_CALL,
    ERRAND_COPY,
    ERRAND_FILL,
    ERRAND_FENCE, /* nothing; the helper waits for it, and so for what was to be done before */
    ERRAND_GONE
};

/* Something that the runtime does when a stream gets there. In its stream's list until it is done. */
struct errand {
    enum errand_kind kind;
    uint32_t next; /* in the stream's list, or of the free ones */
    struct isolated_stream *stream;
    void (*function)(void *user, muster_status status);
    void *user;
    char *to;         /* host memory, NULL: the stage */
    const char *from; /* likewise */
    uint64_t bytes;
    uint8_t value;
    bool is_spoilt; /* the stream had failed here before it */
};

/* A launch with a result that has not ended as far as is known. In its stream's list. */
struct awaited {
    muster_status *result; /* NULL: free, or written already */
    uint32_t next;
    uint64_t number; /* in its stream */
    bool is_suspect; /* a crash because of it is looked for: it costs no restart */
    bool is_used;
    struct isolated_kernel *kernel;
    uint64_t begin, items;
};

struct isolated_stream {
    struct link *link;
    struct isolated_stream *next; /* of the link's */
    uint32_t id, device;
    int32_t priority;
    bool is_default, is_closed;
    uint64_t issued; /* operations so far */
    uint64_t marked; /* what the last mark or record will say that is done */
    bool has_failed;
    bool has_calls; /* that what touches shared host memory from here on must wait for */
    uint32_t stage; /* WIRE_NONE: not needed yet */
    uint32_t first_errand, last_errand;
    uint32_t first_awaited, last_awaited;
};

struct isolated_stream_state {
    struct isolated_stream *stream;
};

struct isolated_event {
    struct link *link;
    struct isolated_event *next; /* of the link's */
    uint32_t id, device, flags;
    /* Relaxed: the record that is looked at is the last that the caller has seen issued. */
    _Atomic uint32_t generation; /* of the last record; 0: never recorded */
    _Atomic uint32_t failed;     /* the generation that the end of a helper has failed, 0: none */
    _Atomic uint32_t spoilt; /* the generation that is on a stream that has failed here, 0: none */
    /* Its record counts as complete when what had come up until it was seen has been done. */
    _Atomic uint64_t up_needed;
    _Atomic uint32_t up_generation;
    struct isolated_stream *stream; /* of the last record; only compared */
};

struct isolated_gate {
    struct link *link;
    struct isolated_gate *next;
    uint32_t id, device;
    uint64_t value;
};

struct isolated_kernel {
    struct link *link;
    struct isolated_kernel *next;
    uint32_t id, device;
    const struct muster_kernel_form *form; /* borrowed until kernel_deinit */
    struct muster_kernel_form own;
    uint64_t generation; /* of the link, when it was last built; 0: it was not */
    uint64_t checked;    /* a hash of the arguments that the helper has accepted last */
};

struct isolated_kernel_state {
    struct isolated_kernel *kernel;
};

struct isolated_memory {
    uint64_t bytes;
    uint32_t use;    /* grows with each use of the place */
    uint32_t device; /* WIRE_NONE: free */
    uint32_t next_free;
};

struct isolated_host;

enum link_state { LINK_STARTING, LINK_UP, LINK_DEAD };

struct link {
    struct isolated *backend;
    uint32_t index;
    uint32_t device_count; /* of the backend, as the helper says */
    struct platform_mutex call_lock, lock;
    struct platform_condition changed;
    enum link_state state;
    uint64_t generation; /* counts helpers, from 1; the next begins when one has ended */
    _Atomic uint64_t generation_now; /* the same, without the lock */
    /* Of the helper that the waiting threads talk to; acquire and release with `ended`. */
    _Atomic uint32_t ended;
    _Atomic uint32_t is_dead; /* there is no helper any more, and will be none */
    struct platform_child child;
    int memory; /* owns: the descriptor */
    struct wire_page *page;
    _Atomic uint64_t
        up_done; /* errands, as they came up, that have been done; release and acquire */
    struct platform_thread watcher, receiver;
    bool is_watched, must_end;
    bool was_stopped; /* killed by device_stop */
    /* Of a sandbox: the helper's address space when it was closed, what the device has in it, and the most it had. */
    uint64_t base_bytes, held_bytes, peak_bytes;
    uint64_t restarts[ISOLATED_RESTARTS_MAX];
    uint32_t restart_next;
    uint64_t answers; /* numbers of answers */
    uint64_t asked;   /* the generation of the helper that was asked last; with call_lock */
    _Atomic uint32_t has_host;   /* the helper has mapped the runtime's host memory */
    struct isolated_host *hosts; /* owns: what is registered of it */

    struct isolated_stream *streams;
    struct isolated_event *events;
    struct isolated_gate *gates;
    struct isolated_kernel *kernels;
    struct isolated_stream *stream_at[WIRE_STREAMS];
    uint32_t event_generations[WIRE_EVENTS];
    uint64_t event_used[WIRE_EVENTS / 64];
    uint64_t stage_used[WIRE_STAGES / 64];
    uint64_t gate_used[16], kernel_used[64];
    struct isolated_memory *memories; /* owns */
    uint32_t memory_count, memory_room, memory_free;
    struct errand *errands; /* owns */
    uint32_t errand_room, errand_free;
    struct awaited awaited[WIRE_RESULTS];
    uint32_t awaited_free;
    _Atomic uint64_t failures_seen;

    /* Device 0 is the whole, the others its slices. */
    bool is_open[DEVICES_OF_LINK_MAX];
    uint32_t *slice_sizes; /* owns */
    size_t slice_count;
    char crash[CRASH_TEXT_BYTES]; /* how the last helper ended; "" if none has */
};

#define GATES_MAX (16u * 64u)
#define KERNELS_MAX (64u * 64u)

struct isolated {
    const struct muster_services *services;
    const char *name;
    bool is_sandboxed;
    struct link *first; /* the helper that was asked how many devices there are */
};

struct isolated_device {
    struct link *link;
    uint32_t id;
    bool is_slice;
};

/* link.c: messages. */

/* Locks the link while its helper is up; MUSTER_E_DEVICE_LOST, unlocked, if there is none any more. */
muster_status link_lock(struct link *link, struct muster_error *err);
void link_unlock(struct link *link);
/*
 * Room for a message of this many bytes after its head, which is filled; link_send ends it. With the lock, which is not
 * held while the ring is full. NULL: the helper has ended meanwhile, and what it held has failed.
 */
struct wire_head *link_begin(struct link *link, enum wire_kind kind, size_t bytes);
void link_send(struct link *link, struct wire_head *message);
/* The same for a thread that has call_lock: NULL also while a helper is being started, which needs that lock. */
struct wire_head *link_begin_asking(struct link *link, enum wire_kind kind, size_t bytes);
/* Takes call_lock and the lock while a helper is up; link_unlock and then call_lock are left by the caller. */
muster_status link_lock_asking(struct link *link, struct muster_error *err);
/* The same in one call, for messages without a body. */
bool link_say(struct link *link, enum wire_kind kind, uint32_t a, uint32_t b, uint64_t c);

/*
 * Sends and waits for the answer. `body` follows the head. MUSTER_E_STREAM_FAILED: the helper has ended meanwhile, and
 * another was started.
 */
struct link_question {
    enum wire_kind kind;
    uint32_t a, b;
    uint64_t c;
    const void *body;
    size_t body_bytes;
    void *answer; /* NULL: none is expected */
    size_t answer_bytes;
    const void *code; /* goes before the question; NULL: none */
    size_t code_bytes;
    /*
     * Called with the lock when the answer was good, before the next helper can be started: what was opened is
     * noted so that it is opened there again. NULL: nothing is.
     */
    void (*keep_locked)(struct link *link, void *user);
    void *user;
};
muster_status link_ask(struct link *link, const struct link_question *question,
                       struct muster_error *err);
/* Whether the helper of that generation has ended; if so, waits until there is another or none any more. */
bool link_has_ended(struct link *link, uint64_t generation);
/* Waits for the answer to the question that was sent last. With call_lock alone. */
muster_status link_await(struct link *link, const struct link_question *question,
                         struct muster_error *err);
/* As link_ask, again with the next helper if this one ends meanwhile. */
muster_status link_ask_again(struct link *link, const struct link_question *question,
                             struct muster_error *err);
/* For the thread that starts a helper. */
muster_status link_ask_starting(struct link *link, const struct link_question *question,
                                struct muster_error *err);
muster_status link_say_lost(struct link *link, struct muster_error *err);
/* Sleeps until something completes, a helper ends or so much time has passed. No lock is held. */
void link_rest(struct link *link, uint32_t seen, uint64_t timeout_ns);

/* helper.c: helpers come and go. */

muster_status link_create(struct isolated *backend, uint32_t index, struct link **out,
                          struct muster_error *err);
void link_destroy(struct link *link);
/* Puts everything that was opened into a helper that has just been started. */
muster_status link_restore(struct link *link, struct muster_error *err);

/* host.c: host memory that the helper maps too. */

/*
 * Where it lies in the file: how many of the bytes lie together there, fewer where a ring begins again; 0: it is the
 * program's own.
 */
uint64_t host_find(const struct link *link, const void *memory, uint64_t bytes, uint64_t *offset);
/* Has a helper that was started since register what these bytes are of. With the lock. */
void host_renew_locked(struct link *link, uint32_t device, uint64_t offset, uint64_t bytes);
void host_free_all(struct link *link);

/* limit.c: what the helper of a sandbox may take of the machine. Nothing of others. */

/* Its device is open, and nothing of what it will be given is there: what it has by now it may keep. */
muster_status link_measure(struct link *link, struct muster_error *err);
/* Lets it take this many bytes more, for the device's memory. With the lock. */
void link_allow_locked(struct link *link, uint64_t bytes);
/* The memory was given back, or not had. With the lock. */
void link_forbid_locked(struct link *link, uint64_t bytes);

/* errand.c: what comes up. */

/* A place for an errand, at the end of its stream's list; NULL: no memory. With the lock. */
struct errand *errand_add_locked(struct isolated_stream *stream, enum errand_kind kind,
                                 uint32_t *number);
/* Takes back the one that was added last, since it could not be sent. */
void errand_drop_last_locked(struct isolated_stream *stream, uint32_t number);
/* Runs what has come up; true if that was anything. Called by the receiver. */
bool errands_run(struct link *link);
/* What had come up by now, and whether all of that has been done. */
uint64_t errands_up(const struct link *link);
bool errands_are_done(const struct link *link, uint64_t up);
/* The stream's helper has ended: its errands are done as on a failed stream. Called by the receiver, without the lock. */
void errands_fail(struct isolated_stream *stream);
/* A stream that is closed and has no errands left goes. With the lock. */
void stream_free_locked(struct isolated_stream *stream);

/* launch.c: launches that are followed. */

uint32_t awaited_add_locked(struct isolated_stream *stream, muster_status *result);
/* Writes the results of launches that the helper says have failed, and forgets those that have ended. */
void awaited_look(struct link *link);
void awaited_look_locked(struct link *link);
/* The helper has ended: says so to all that are left, and who is to blame. With the lock. */
void awaited_fail_locked(struct link *link, const struct platform_child_end *end);

/* Has the stream say how far it is, if it was not asked to since. With the lock. */
void stream_mark_locked(struct isolated_stream *stream);
/*
 * What comes next touches shared host memory, which the stream's calls may use: it waits for those that are not done. With
 * the lock.
 */
muster_status stream_fence_locked(struct isolated_stream *stream, struct muster_error *err);
/* How far a stream is, as the helper says; never more than it was given. */
uint64_t stream_done(const struct isolated_stream *stream);

/* bits */
uint32_t bits_take(uint64_t *words, uint32_t words_count);
void bits_give(uint64_t *words, uint32_t bit);

/* The slots, by subject. */
muster_status isolated_device_open(void *backend, uint32_t index, void *device,
                                   struct muster_device_info *info, struct muster_error *err);
muster_status isolated_device_close(void *device);
muster_status isolated_device_sample(void *device, struct muster_device_sample *sample,
                                     struct muster_error *err);
muster_status isolated_slice_plan(void *device, const uint32_t *sizes, size_t count,
                                  struct muster_error *err);
muster_status isolated_slice_open(void *device, size_t index, void *slice,
                                  struct muster_device_info *info, struct muster_error *err);
void isolated_slice_unplan(void *device);
uint64_t isolated_device_generation(void *device);
int isolated_device_stop(void *device);
void isolated_device_explain(void *device, char *text, size_t bytes);
muster_status isolated_memory_allocate(void *device, void *stream, uint64_t bytes,
                                       struct muster_memory *out, struct muster_error *err);
muster_status isolated_memory_free(void *device, void *stream, struct muster_memory *memory,
                                   struct muster_error *err);
/* The place of memory that isolated_memory_allocate gave; WIRE_NONE if it is none, or too small. With the lock. */
uint32_t memory_find_locked(const struct link *link, const struct muster_memory *memory,
                            uint64_t offset, uint64_t bytes);
muster_status isolated_host_register(void *device, void *memory, size_t bytes,
                                     struct muster_error *err);
void isolated_host_unregister(void *device, void *memory);
int isolated_host_is_fast(void *device, const void *memory, size_t bytes);
muster_status isolated_stream_open(void *device, int32_t priority, int is_default, void *stream,
                                   struct muster_error *err);
void isolated_stream_close(void *stream);
void *isolated_stream_native(void *stream);
muster_status isolated_stream_wait(void *stream, void *event, struct muster_error *err);
muster_status isolated_stream_query(void *stream, struct muster_error *err);
muster_status isolated_event_init(void *device, uint32_t flags, void *event,
                                  struct muster_error *err);
void isolated_event_deinit(void *event);
muster_status isolated_event_record(void *event, void *stream, struct muster_error *err);
muster_status isolated_event_query(void *event, struct muster_error *err);
muster_status isolated_event_wait(void *event, uint64_t timeout_ns, struct muster_error *err);
muster_status isolated_event_elapsed(void *begin, void *end, uint64_t *ns,
                                     struct muster_error *err);
muster_status isolated_gate_init(void *device, void *gate, struct muster_error *err);
void isolated_gate_deinit(void *gate);
muster_status isolated_gate_publish(void *gate, uint64_t value, struct muster_error *err);
muster_status isolated_gate_wait(void *gate, void *stream, uint64_t value,
                                 struct muster_error *err);
muster_status isolated_copy(void *stream, const struct muster_copy_desc *copy,
                            struct muster_error *err);
muster_status isolated_fill(void *stream, const struct muster_place *to, uint8_t value,
                            uint64_t bytes, struct muster_error *err);
muster_status isolated_host_call(void *stream, void (*function)(void *user, muster_status status),
                                 void *user, struct muster_error *err);
muster_status isolated_kernel_init(void *device, const struct muster_kernel_form *form,
                                   void *kernel, struct muster_error *err);
void isolated_kernel_deinit(void *kernel);
muster_status isolated_launch(void *stream, void *kernel, const struct muster_launch_desc *launches,
                              size_t count, struct muster_error *err);

#endif
