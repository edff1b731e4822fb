/*
 * A backend on the bench: opened as the runtime opens it, then driven slot by slot.
 *
 * The rig owns what its functions make and closes it in the order the interface asks for, so that a
 * test is only what it is about. A test that fails leaves its rig open: work it gave may still run,
 * which is why host memory that a device is given must not be on the stack (rig_host).
 */
#ifndef CONFORMANCE_RIG_H
#define CONFORMANCE_RIG_H

#include "harness.h"

#include <muster/backend.h>

/* Longer than anything here takes on a slow machine under a sanitizer. */
#define SOON_NS UINT64_C(60000000000)
/* How long is looked at something that must not happen. */
#define LOOK_NS UINT64_C(3000000)

#define RIG_DEVICES_MAX 3

struct rig_object;

struct rig_device {
    void *state; /* owns */
    struct muster_device_info info;
};

struct rig {
    struct muster_backend table; /* completed: every slot can be called */
    const struct muster_backend *given;
    struct muster_allocator allocator;
    struct muster_services services;
    struct platform_arena *arena; /* owns: host memory that helpers map too; NULL: there are none */
    uint32_t hosts;               /* pieces of host memory so far */
    _Atomic uint64_t bytes_taken; /* from the services' allocator and not given back */
    void *backend;                /* owns */
    uint32_t device_count; /* of the backend from the first on, also those that are not opened */
    uint32_t domain_count; /* of all of them */
    struct rig_device devices[RIG_DEVICES_MAX];
    void *cut;    /* owns: the device that `devices` are slices of, NULL if they are whole */
    void *device; /* the first; most tests need no other */
    const struct muster_device_info *info;
    struct muster_error err; /* of the last call that DO or REFUSED made */
    struct rig_object *objects;
};

/*
 * Calls a slot that must succeed. The slot's `err` is added.
 *
 *     DO(rig, event_record, event, stream);
 */
#define DO(rig, slot, ...)                                                                         \
    rig_check_done(__FILE__, __LINE__, rig, #slot, (rig)->table.slot(__VA_ARGS__, &(rig)->err))

/* Calls a slot that must refuse with `status`, and say why. */
#define REFUSED(rig, status, slot, ...)                                                            \
    (rig_clear_error(rig), rig_check_refused(__FILE__, __LINE__, rig, #slot, status,               \
                                             (rig)->table.slot(__VA_ARGS__, &(rig)->err)))

void rig_check_done(const char *file, int line, struct rig *rig, const char *slot,
                    muster_status status);
void rig_check_refused(const char *file, int line, struct rig *rig, const char *slot,
                       muster_status expected, muster_status status);
void rig_clear_error(struct rig *rig);

/* Whether the backend has a device here at all: MUSTER_OK, or how its open went. */
muster_status rig_probe(const struct muster_backend *given, const char *sim,
                        struct muster_error *err);

/* From now on rigs begin with this device instead of the backend's first. */
void rig_begin_with(uint32_t device);
/*
 * From now on no stream is held: for tools that run each kernel to its end before they return, and
 * would wait for ever for one that is behind a gate.
 */
void rig_hold_nothing(void);
bool rig_holds_nothing(void);

/* Opens the backend and its first devices. `sim` describes simulated devices, NULL for none. */
struct rig *rig_open(const struct muster_backend *given, const char *sim);

/* The same with the slices of its first device, if any are asked for. */
struct rig *rig_open_slices(const struct muster_backend *given, const char *sim,
                            const uint32_t *sizes, size_t count);

/*
 * Waits for every stream, closes everything, and checks that nothing is left of what the backend
 * took from the allocator.
 */
void rig_close(struct rig *rig);
/* Instead, by a case that the device has nothing for: says so at the end, with the number of all of them. */
#define rig_leave_out(rig, why) rig_leave_out_case((rig), __func__, (why))
void rig_leave_out_case(struct rig *rig, const char *name, const char *why);
void rig_say_left_out(void);

/* The same for a device that is lost or hung: streams are not waited for. */
void rig_close_broken(struct rig *rig, muster_status expected);

/* Whether the device is hardware that promises no more than the header does; others promise more. */
bool rig_is_gpu(const struct rig *rig);

/* All of these are on the first device unless they say which, and are closed by the rig. */
void *rig_stream(struct rig *rig);
void *rig_stream_on(struct rig *rig, void *device, int32_t priority, bool is_default);
void *rig_event(struct rig *rig);
void *rig_event_on(struct rig *rig, void *device, uint32_t flags);
struct muster_memory *rig_memory(struct rig *rig, uint64_t bytes);
struct muster_memory *rig_memory_on(struct rig *rig, void *device, uint64_t bytes);
/* NULL on a device without gates. */
void *rig_gate(struct rig *rig);
/* NULL on a device that runs neither C functions nor shared objects. */
#define rig_kernel(rig, function) rig_kernel_named(rig, function, #function)
void *rig_kernel_named(struct rig *rig, muster_kernel_function function, const char *name);
/*
 * A kernel as a C function, which the tests' program has and a shared object of the same functions has too: for
 * devices that run no functions of this process.
 */
#define RIG_FUNCTION(name)                                                                         \
    muster_status name(uint64_t begin, uint64_t end, void *const *args);                           \
    __attribute__((visibility("default"))) muster_status name(uint64_t begin, uint64_t end,        \
                                                              void *const *args)
/* From now on devices that take no functions are given those of this shared object. */
void rig_load_functions(const char *path);
/*
 * A kernel for every device that runs any: a C function, and a source that is CUDA C++ and OpenCL C
 * with the words of rig_source.c. NULL on a device that takes none of them, or whose sources nobody
 * here can compile.
 */
struct rig_code {
    const char *entry;
    muster_kernel_function function;
    const char *source;
};
void *rig_kernel_of(struct rig *rig, const struct rig_code *code);
#define RIG_CODE(function_, source_)                                                               \
    static const struct rig_code function_##_code = { .entry = #function_,                         \
                                                      .function = function_,                       \
                                                      .source = source_ }
/* Whether rig_kernel gives kernels on this device: they can report failures. */
bool rig_runs_functions(const struct rig *rig);
/* Zeroed host memory. */
void *rig_host(struct rig *rig, size_t bytes);

/* Before the rig's turn, with a state that is overwritten: nobody may look at it any more. */
void rig_stream_close(struct rig *rig, void *stream);
void rig_event_deinit(struct rig *rig, void *event);
/* memory_free; `stream` may be NULL. */
void rig_memory_free(struct rig *rig, void *stream, struct muster_memory *memory);

/* A zeroed private state as the runtime gives it, exactly as large as asked. The caller's. */
void *rig_state(size_t bytes);
void rig_state_free(void *state);

void rig_copy_in(struct rig *rig, void *stream, const struct muster_memory *to, uint64_t offset,
                 const void *from, uint64_t bytes);
void rig_copy_out(struct rig *rig, void *stream, void *to, const struct muster_memory *from,
                  uint64_t offset, uint64_t bytes);
void rig_fill(struct rig *rig, void *stream, const struct muster_memory *to, uint64_t offset,
              uint8_t value, uint64_t bytes);
/* One launch with these arguments. */
void rig_launch(struct rig *rig, void *stream, void *kernel, uint64_t begin, uint64_t items,
                const struct muster_launch_arg *args, size_t arg_count, muster_status *result);

/* clang-format off */
#define ARG_MEMORY(memory_) { .memory = (memory_) }
#define ARG_VALUE(variable) { .value = &(variable), .bytes = sizeof(variable) }
/* clang-format on */

/* Waits until all that the stream was given is over, and checks how it went. */
#define FINISHES(rig, stream) ENDS_WITH(rig, MUSTER_OK, stream)
#define ENDS_WITH(rig, status, stream)                                                             \
    test_check_status(__FILE__, __LINE__, "how " #stream " ends", status, rig_finish(rig, stream))
muster_status rig_finish(struct rig *rig, void *stream);

/* A record of the event completes, as this status. */
#define COMPLETES(rig, status, event)                                                              \
    test_check_status(__FILE__, __LINE__, "how " #event " completes", status,                      \
                      (rig)->table.event_wait(event, SOON_NS, &(rig)->err))

/*
 * Keeps a stream where it is until the gate is opened, so that what follows is queued and has not
 * run. On a device without gates nothing is held, and NOT_YET checks nothing: the same calls must
 * then come out the same.
 */
void rig_hold(struct rig *rig, void *gate, void *stream);
void rig_release(struct rig *rig, void *gate);
#define NOT_YET(rig, gate, event) rig_check_not_yet(__FILE__, __LINE__, rig, gate, event)
void rig_check_not_yet(const char *file, int line, struct rig *rig, void *gate, void *event);

#endif
