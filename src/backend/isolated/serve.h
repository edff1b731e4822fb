/*
 * The helper's side, for serve*.c alone: the real backend, and all that the runtime has opened on it, by number.
 *
 * One thread serves messages in their order. Whatever a stream has to say when it gets somewhere is said by a host call
 * on it, on a thread of the backend: that a record is reached, which launches failed, that an errand is due.
 */
#ifndef BACKEND_ISOLATED_SERVE_H
#define BACKEND_ISOLATED_SERVE_H

#include "backend/isolated/state.h"
#include "platform/library.h"
#include "platform/object.h"

struct serve_stream {
    void *state; /* NULL: not open */
    uint32_t device;
    bool is_broken;    /* the driver has refused something of it: what follows is left out */
    uint32_t *results; /* launches since the last mark */
    uint32_t result_count, result_room;
};

struct serve_kernel {
    void *state;
    struct muster_kernel_form form;
    struct platform_image image;
    struct platform_object object; /* the same in a sandbox */
    char *code, *entry, *file;
};

struct serve_memory {
    struct muster_memory memory;
    uint32_t device; /* WIRE_NONE: none */
};

struct serve {
    struct wire_page *page;
    unsigned char
        *host; /* the runtime's host memory; NULL: it has none to share, or it cannot be mapped */
    struct muster_backend table;
    struct muster_services services;
    char *sim;
    void *backend;
    void *devices[DEVICES_OF_LINK_MAX];
    uint32_t forms;
    struct serve_stream streams[WIRE_STREAMS];
    void *events[WIRE_EVENTS];
    uint32_t event_generations[WIRE_EVENTS]; /* of the last record */
    void *gates[GATES_MAX];
    struct serve_kernel kernels[KERNELS_MAX];
    struct serve_memory *memories;
    uint32_t memory_room;
    unsigned char *code;
    size_t code_bytes, code_room;
    struct platform_mutex up_lock;
    bool is_sandboxed;
};

extern struct serve serve;

/* serve_close.c: the sandbox. Both do nothing without one. */

/* Before there is a second thread: no more files, and memory for kernels. */
muster_status serve_close_files(struct muster_error *err);
/* The device is open: starts its threads and closes the rest. No code of a kernel has come yet. */
muster_status serve_close_calls(struct muster_error *err);

/* serve_work.c */

/* The stream says how far it is when it gets here; `event` WIRE_NONE: no event. */
void serve_mark(uint32_t stream, uint64_t done, uint32_t event, uint32_t generation);
void serve_errand(uint32_t stream, uint32_t errand);
/* The shared host memory there; NULL: that is not in it. */
void *serve_host(uint64_t offset, uint64_t bytes);
void serve_copy(uint32_t stream, const struct wire_copy *copy);
void serve_fill(uint32_t stream, const struct wire_fill *fill, uint32_t stage);
muster_status serve_launch(const struct wire_head *head, struct muster_error *err);
/* A device that is lost does not come back in this process: ends it, so that another is started. */
void serve_check(muster_status status, const char *words);
/* The driver has refused something of the stream. */
void serve_note(struct serve_stream *stream, muster_status status);
/* Says what threads of the backend execute, and how the process ends. */
void serve_watch(void);
/* Memory that is there for the helper's whole life, or as long as this. */
void *serve_take(size_t bytes);

/* serve_objects.c: answers to questions. `answer` has WIRE_REPLY_BYTES. */
muster_status serve_object(const struct wire_head *head, void *answer, uint32_t *bytes,
                           struct muster_error *err);
void serve_close_object(const struct wire_head *head);

#endif
