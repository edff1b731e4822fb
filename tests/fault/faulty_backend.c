#include "faulty_backend.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define OBJECTS_MAX 2048
#define BLOCKED_MAX 64
#define BLOCKED_PATIENCE_S 20
#define HUNG_MAX 16
#define DRIVER_CODE 999

struct object {
    enum faulty_object kind;
    const void *at;     /* its state, memory or pages */
    const void *device; /* that it belongs to */
    uint32_t index;     /* of a device in the backend; a slice has that of the whole */
    bool refused;       /* its release was refused */
};

/* A call that a thread is inside of. */
struct blocked_call {
    enum faulty_call call;
    const void *device, *stream; /* NULL: none, or unknown */
};

static struct {
    pthread_mutex_t lock;
    const struct muster_backend *wrapped;
    struct faulty_plan plan;
    struct muster_backend table;
    uint64_t calls[FAULTY_KIND_COUNT]; /* FAULTY_ANY: of all kinds that can fail */
    bool has_failed, is_lost;
    struct object objects[OBJECTS_MAX];
    size_t object_count;
    uint64_t orphans;
    char mistake[160];
    void *hung[HUNG_MAX];
    size_t hung_count;
    struct faulty_block block; /* number is 0: none */
    uint64_t block_calls;      /* counted for it */
    uint64_t openings;         /* of the gate that blocked calls wait at */
    muster_status opened_with;
    struct blocked_call blocked[BLOCKED_MAX];
    uint32_t blocked_count;
    pthread_cond_t blocked_changed; /* a thread came to the gate or left it */
    pthread_cond_t opened;
} faulty = { .lock = PTHREAD_MUTEX_INITIALIZER,
             .blocked_changed = PTHREAD_COND_INITIALIZER,
             .opened = PTHREAD_COND_INITIALIZER };

const char *faulty_call_name(enum faulty_call call)
{
    static const char *const names[] = {
#define FAULTY_NAME(slot) #slot,
        FAULTY_CALLS(FAULTY_NAME) "any call", FAULTY_RELEASES(FAULTY_NAME)
#undef FAULTY_NAME
    };
    return names[call];
}

static const char *const object_names[] = { "device", "stream", "event", "gate",
                                            "kernel", "memory", "pages" };
_Static_assert(sizeof object_names / sizeof *object_names == FAULTY_OBJECT_COUNT, "one each");

static void lock(void)
{
    pthread_mutex_lock(&faulty.lock);
}

static void unlock(void)
{
    pthread_mutex_unlock(&faulty.lock);
}

static void note_mistake_locked(const char *what, enum faulty_object kind, const char *where)
{
    if (!*faulty.mistake)
        snprintf(faulty.mistake, sizeof faulty.mistake, "%s %s in %s", what, object_names[kind],
                 where);
}

static struct object *find_locked(enum faulty_object kind, const void *at)
{
    for (size_t i = 0; i < faulty.object_count; i++)
        if (faulty.objects[i].kind == kind && faulty.objects[i].at == at)
            return &faulty.objects[i];
    return NULL;
}

static void forget_locked(struct object *object)
{
    *object = faulty.objects[--faulty.object_count];
}

/* An object that the wrapped backend made. */
static void add_with(enum faulty_object kind, const void *at, const void *device, uint32_t index,
                     const char *where)
{
    lock();
    if (find_locked(kind, at))
        note_mistake_locked("a second", kind, where);
    else if (faulty.object_count == OBJECTS_MAX)
        note_mistake_locked("too many objects, the last a", kind, where);
    else
        faulty.objects[faulty.object_count++] = (struct object){ kind, at, device, index, false };
    unlock();
}

static void add(enum faulty_object kind, const void *at, const void *device, const char *where)
{
    add_with(kind, at, device, 0, where);
}

/* A device, or a slice of one, which goes by the index of the whole. */
static void add_device(const void *at, const void *whole, uint32_t index, const char *where)
{
    add_with(FAULTY_DEVICE, at, whole, index, where);
}

static void check(enum faulty_object kind, const void *at, const char *where)
{
    lock();
    if (!find_locked(kind, at))
        note_mistake_locked("no such", kind, where);
    unlock();
}

static void drop(enum faulty_object kind, const void *at, const char *where)
{
    lock();
    struct object *object = find_locked(kind, at);
    if (object)
        forget_locked(object);
    else
        note_mistake_locked("no such", kind, where);
    unlock();
}

/* What memory goes by: its object where it is one, else its address. */
static const void *memory_key(const struct muster_memory *memory)
{
    return memory->object ? memory->object : (const void *)(uintptr_t)memory->address;
}

static const void *device_of(enum faulty_object kind, const void *at)
{
    lock();
    const struct object *object = find_locked(kind, at);
    const void *device = object ? object->device : NULL;
    unlock();
    return device;
}

static uint32_t index_of(const void *device)
{
    lock();
    const struct object *object = find_locked(FAULTY_DEVICE, device);
    uint32_t index = object ? object->index : 0;
    unlock();
    return index;
}

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
}

/* Returns when the wrapped stream has nothing more to do. */
static void finish_stream(void *stream)
{
    while (faulty.wrapped->stream_query(stream, NULL) == MUSTER_E_BUSY)
        pause_briefly();
}

/* A device that is lost does nothing any more. */
static void finish_all_streams(void)
{
    void *streams[OBJECTS_MAX];
    size_t count = 0;
    lock();
    for (size_t i = 0; i < faulty.object_count; i++)
        if (faulty.objects[i].kind == FAULTY_STREAM)
            streams[count++] = (void *)(uintptr_t)faulty.objects[i].at;
    unlock();
    while (count > 0)
        finish_stream(streams[--count]);
}

/* Whether the call that is being made is to block. */
static bool blocks_locked(enum faulty_call call, const void *device)
{
    const struct faulty_block *block = &faulty.block;
    if (block->number == 0 || (block->call != call && block->call != FAULTY_ANY))
        return false;
    if (block->device != FAULTY_EVERY_DEVICE) {
        const struct object *object = find_locked(FAULTY_DEVICE, device);
        if (!object || object->index != block->device)
            return false;
    }
    uint64_t number = ++faulty.block_calls;
    return block->from_then_on ? number >= block->number : number == block->number;
}

/* A call that backend.h does not allow while another thread is inside one. */
static void check_overlap_locked(enum faulty_call call, const void *device, const void *stream)
{
    for (uint32_t i = 0; i < faulty.blocked_count; i++) {
        if (stream && stream == faulty.blocked[i].stream)
            note_mistake_locked("an occupied", FAULTY_STREAM, faulty_call_name(call));
        if (call == FAULTY_device_close && device == faulty.blocked[i].device)
            note_mistake_locked("an occupied", FAULTY_DEVICE, faulty_call_name(call));
    }
}

/* Returns at once unless the call is to block; then when it is let go, and how it is to end. */
static muster_status pass_gate(enum faulty_call call, const void *device, const void *stream)
{
    muster_status status = MUSTER_OK;
    lock();
    check_overlap_locked(call, device, stream);
    if (blocks_locked(call, device) && faulty.blocked_count < BLOCKED_MAX) {
        faulty.blocked[faulty.blocked_count++] = (struct blocked_call){ call, device, stream };
        pthread_cond_broadcast(&faulty.blocked_changed);
        uint64_t openings = faulty.openings;
        while (faulty.openings == openings)
            pthread_cond_wait(&faulty.opened, &faulty.lock);
        status = faulty.opened_with;
        uint32_t i = 0;
        while (faulty.blocked[i].call != call || faulty.blocked[i].device != device ||
               faulty.blocked[i].stream != stream)
            i++;
        faulty.blocked[i] = faulty.blocked[--faulty.blocked_count];
        pthread_cond_broadcast(&faulty.blocked_changed);
    }
    unlock();
    return status;
}

/*
 * Counts a call on a device, and on a stream if that is not NULL, and says whether it fails, and
 * how.
 */
static muster_status admit_on(enum faulty_call call, const void *device, const void *stream,
                              struct muster_error *err)
{
    muster_status let_go = pass_gate(call, device, stream);
    lock();
    const struct faulty_plan *plan = &faulty.plan;
    faulty.calls[FAULTY_ANY]++;
    faulty.calls[call]++;
    uint64_t number = faulty.calls[plan->call == FAULTY_ANY ? FAULTY_ANY : call];
    bool is_hit = (call == plan->call || plan->call == FAULTY_ANY) && plan->number > 0 &&
                  (plan->from_then_on ? number >= plan->number : number == plan->number);
    muster_status status = is_hit ? plan->status : let_go;
    bool was_lost = faulty.is_lost;
    faulty.has_failed = faulty.has_failed || is_hit;
    faulty.is_lost = was_lost || status == MUSTER_E_DEVICE_LOST;
    if (faulty.is_lost)
        status = MUSTER_E_DEVICE_LOST;
    bool has_just_died = faulty.is_lost && !was_lost;
    unlock();
    if (has_just_died)
        finish_all_streams();
    if (status == MUSTER_OK)
        return MUSTER_OK;
    return muster_error_fill(err, status, DRIVER_CODE, NULL,
                             "%s number %" PRIu64 " was made to fail", faulty_call_name(call),
                             number);
}

/* The same for a call on an object of a device. */
static muster_status admit(enum faulty_call call, enum faulty_object kind, const void *at,
                           struct muster_error *err)
{
    return admit_on(call, kind == FAULTY_DEVICE ? at : device_of(kind, at),
                    kind == FAULTY_STREAM ? at : NULL, err);
}

/* The same for one that releases the object, and cannot fail. */
static void release(enum faulty_call call, enum faulty_object kind, const void *at)
{
    const char *name = faulty_call_name(call);
    check(kind, at, name);
    pass_gate(call, device_of(kind, at), kind == FAULTY_STREAM ? at : NULL);
    drop(kind, at, name);
}

static muster_status faulty_open(void *backend, const struct muster_services *services,
                                 uint32_t *device_count, struct muster_error *err)
{
    muster_status status = admit_on(FAULTY_open, NULL, NULL, err);
    return status != MUSTER_OK ? status
                               : faulty.wrapped->open(backend, services, device_count, err);
}

static void faulty_close(void *backend)
{
    lock();
    if (faulty.blocked_count > 0)
        note_mistake_locked("an occupied", FAULTY_DEVICE, "close");
    bool has_devices = faulty.hung_count > 0;
    for (size_t i = 0; i < faulty.object_count; i++)
        has_devices = has_devices || faulty.objects[i].kind == FAULTY_DEVICE;
    if (has_devices)
        note_mistake_locked("an open or hanging", FAULTY_DEVICE, "close");
    unlock();
    faulty.wrapped->close(backend);
}

static muster_status faulty_device_open(void *backend, uint32_t index, void *device,
                                        struct muster_device_info *info, struct muster_error *err)
{
    muster_status status = admit_on(FAULTY_device_open, NULL, NULL, err);
    if (status == MUSTER_OK)
        status = faulty.wrapped->device_open(backend, index, device, info, err);
    if (status == MUSTER_OK)
        add_device(device, NULL, index, "device_open");
    return status;
}

/* What the device still holds goes with it. */
static void orphan_objects(const void *device)
{
    lock();
    for (size_t i = faulty.object_count; i-- > 0;)
        if (faulty.objects[i].device == device) {
            faulty.orphans += !faulty.objects[i].refused;
            forget_locked(&faulty.objects[i]);
        }
    unlock();
}

static muster_status faulty_device_close(void *device)
{
    muster_status status = admit(FAULTY_device_close, FAULTY_DEVICE, device, NULL);
    drop(FAULTY_DEVICE, device, "device_close");
    orphan_objects(device);
    if (status == MUSTER_E_DEVICE_HUNG) {
        lock();
        if (faulty.hung_count < HUNG_MAX)
            faulty.hung[faulty.hung_count++] = device;
        unlock();
        return status;
    }
    /* A lost device's state can still be closed. */
    return faulty.wrapped->device_close(device);
}

static muster_status faulty_device_sample(void *device, struct muster_device_sample *sample,
                                          struct muster_error *err)
{
    check(FAULTY_DEVICE, device, "device_sample");
    muster_status status = admit(FAULTY_device_sample, FAULTY_DEVICE, device, err);
    return status != MUSTER_OK ? status : faulty.wrapped->device_sample(device, sample, err);
}

static muster_status faulty_slice_plan(void *device, const uint32_t *sizes, size_t count,
                                       struct muster_error *err)
{
    check(FAULTY_DEVICE, device, "slice_plan");
    muster_status status = admit(FAULTY_slice_plan, FAULTY_DEVICE, device, err);
    return status != MUSTER_OK ? status : faulty.wrapped->slice_plan(device, sizes, count, err);
}

static muster_status faulty_slice_open(void *device, size_t index, void *slice,
                                       struct muster_device_info *info, struct muster_error *err)
{
    check(FAULTY_DEVICE, device, "slice_open");
    muster_status status = admit(FAULTY_slice_open, FAULTY_DEVICE, device, err);
    if (status == MUSTER_OK)
        status = faulty.wrapped->slice_open(device, index, slice, info, err);
    if (status == MUSTER_OK)
        add_device(slice, device, index_of(device), "slice_open");
    return status;
}

static void faulty_slice_unplan(void *device)
{
    check(FAULTY_DEVICE, device, "slice_unplan");
    lock();
    for (size_t i = 0; i < faulty.object_count; i++)
        if (faulty.objects[i].kind == FAULTY_DEVICE && faulty.objects[i].device == device)
            note_mistake_locked("an open slice's", FAULTY_DEVICE, "slice_unplan");
    unlock();
    faulty.wrapped->slice_unplan(device);
}

static muster_status faulty_memory_allocate(void *device, void *stream, uint64_t bytes,
                                            struct muster_memory *out, struct muster_error *err)
{
    check(FAULTY_DEVICE, device, "memory_allocate");
    check(FAULTY_STREAM, stream, "memory_allocate");
    muster_status status = admit_on(FAULTY_memory_allocate, device, stream, err);
    if (status == MUSTER_OK)
        status = faulty.wrapped->memory_allocate(device, stream, bytes, out, err);
    if (status == MUSTER_OK)
        add(FAULTY_MEMORY, memory_key(out), device, "memory_allocate");
    return status;
}

static muster_status faulty_memory_free(void *device, void *stream, struct muster_memory *memory,
                                        struct muster_error *err)
{
    check(FAULTY_DEVICE, device, "memory_free");
    check(FAULTY_MEMORY, memory_key(memory), "memory_free");
    if (stream)
        check(FAULTY_STREAM, stream, "memory_free");
    muster_status status = admit_on(FAULTY_memory_free, device, stream, err);
    if (status != MUSTER_OK) {
        lock();
        struct object *object = find_locked(FAULTY_MEMORY, memory_key(memory));
        if (object)
            object->refused = true;
        unlock();
        return status;
    }
    /* Forgotten first: another thread may be given the same memory as soon as it is free. */
    const void *key = memory_key(memory);
    drop(FAULTY_MEMORY, key, "memory_free");
    status = faulty.wrapped->memory_free(device, stream, memory, err);
    if (status != MUSTER_OK)
        add(FAULTY_MEMORY, key, device, "memory_free");
    return status;
}

static muster_status faulty_host_register(void *device, void *memory, size_t bytes,
                                          struct muster_error *err)
{
    check(FAULTY_DEVICE, device, "host_register");
    muster_status status = admit(FAULTY_host_register, FAULTY_DEVICE, device, err);
    if (status == MUSTER_OK && faulty.wrapped->host_register)
        status = faulty.wrapped->host_register(device, memory, bytes, err);
    if (status == MUSTER_OK)
        add(FAULTY_PAGES, memory, device, "host_register");
    return status;
}

static void faulty_host_unregister(void *device, void *memory)
{
    check(FAULTY_DEVICE, device, "host_unregister");
    release(FAULTY_host_unregister, FAULTY_PAGES, memory);
    if (faulty.wrapped->host_unregister)
        faulty.wrapped->host_unregister(device, memory);
}

static muster_status faulty_stream_open(void *device, int32_t priority, int is_default,
                                        void *stream, struct muster_error *err)
{
    check(FAULTY_DEVICE, device, "stream_open");
    muster_status status = admit(FAULTY_stream_open, FAULTY_DEVICE, device, err);
    if (status == MUSTER_OK)
        status = faulty.wrapped->stream_open(device, priority, is_default, stream, err);
    if (status == MUSTER_OK)
        add(FAULTY_STREAM, stream, device, "stream_open");
    return status;
}

static void faulty_stream_close(void *stream)
{
    release(FAULTY_stream_close, FAULTY_STREAM, stream);
    faulty.wrapped->stream_close(stream);
}

static void *faulty_stream_native(void *stream)
{
    check(FAULTY_STREAM, stream, "stream_native");
    return faulty.wrapped->stream_native(stream);
}

static muster_status faulty_stream_wait(void *stream, void *event, struct muster_error *err)
{
    check(FAULTY_STREAM, stream, "stream_wait");
    check(FAULTY_EVENT, event, "stream_wait");
    muster_status status = admit(FAULTY_stream_wait, FAULTY_STREAM, stream, err);
    return status != MUSTER_OK ? status : faulty.wrapped->stream_wait(stream, event, err);
}

static muster_status faulty_stream_query(void *stream, struct muster_error *err)
{
    check(FAULTY_STREAM, stream, "stream_query");
    muster_status status = admit(FAULTY_stream_query, FAULTY_STREAM, stream, err);
    if (status == MUSTER_OK)
        return faulty.wrapped->stream_query(stream, err);
    if (status == MUSTER_E_STREAM_FAILED)
        finish_stream(stream);
    return status;
}

static muster_status faulty_event_init(void *device, uint32_t flags, void *event,
                                       struct muster_error *err)
{
    check(FAULTY_DEVICE, device, "event_init");
    muster_status status = admit(FAULTY_event_init, FAULTY_DEVICE, device, err);
    if (status == MUSTER_OK)
        status = faulty.wrapped->event_init(device, flags, event, err);
    if (status == MUSTER_OK)
        add(FAULTY_EVENT, event, device, "event_init");
    return status;
}

static void faulty_event_deinit(void *event)
{
    release(FAULTY_event_deinit, FAULTY_EVENT, event);
    faulty.wrapped->event_deinit(event);
}

static muster_status faulty_event_record(void *event, void *stream, struct muster_error *err)
{
    check(FAULTY_EVENT, event, "event_record");
    check(FAULTY_STREAM, stream, "event_record");
    muster_status status = admit(FAULTY_event_record, FAULTY_STREAM, stream, err);
    return status != MUSTER_OK ? status : faulty.wrapped->event_record(event, stream, err);
}

static muster_status faulty_event_query(void *event, struct muster_error *err)
{
    check(FAULTY_EVENT, event, "event_query");
    muster_status status = admit(FAULTY_event_query, FAULTY_EVENT, event, err);
    if (status == MUSTER_OK)
        return faulty.wrapped->event_query(event, err);
    if (status == MUSTER_E_STREAM_FAILED)
        faulty.wrapped->event_wait(event, UINT64_MAX, NULL);
    return status;
}

static muster_status faulty_event_wait(void *event, uint64_t timeout_ns, struct muster_error *err)
{
    check(FAULTY_EVENT, event, "event_wait");
    muster_status status = admit(FAULTY_event_wait, FAULTY_EVENT, event, err);
    if (status == MUSTER_OK)
        return faulty.wrapped->event_wait(event, timeout_ns, err);
    if (status == MUSTER_E_STREAM_FAILED)
        faulty.wrapped->event_wait(event, UINT64_MAX, NULL);
    return status;
}

static muster_status faulty_event_elapsed(void *begin, void *end, uint64_t *ns,
                                          struct muster_error *err)
{
    check(FAULTY_EVENT, begin, "event_elapsed");
    check(FAULTY_EVENT, end, "event_elapsed");
    muster_status status = admit(FAULTY_event_elapsed, FAULTY_EVENT, begin, err);
    return status != MUSTER_OK ? status : faulty.wrapped->event_elapsed(begin, end, ns, err);
}

static muster_status faulty_gate_init(void *device, void *gate, struct muster_error *err)
{
    check(FAULTY_DEVICE, device, "gate_init");
    muster_status status = admit(FAULTY_gate_init, FAULTY_DEVICE, device, err);
    if (status == MUSTER_OK)
        status = faulty.wrapped->gate_init(device, gate, err);
    if (status == MUSTER_OK)
        add(FAULTY_GATE, gate, device, "gate_init");
    return status;
}

static void faulty_gate_deinit(void *gate)
{
    release(FAULTY_gate_deinit, FAULTY_GATE, gate);
    faulty.wrapped->gate_deinit(gate);
}

static muster_status faulty_gate_publish(void *gate, uint64_t value, struct muster_error *err)
{
    check(FAULTY_GATE, gate, "gate_publish");
    muster_status status = admit(FAULTY_gate_publish, FAULTY_GATE, gate, err);
    return status != MUSTER_OK ? status : faulty.wrapped->gate_publish(gate, value, err);
}

static muster_status faulty_gate_wait(void *gate, void *stream, uint64_t value,
                                      struct muster_error *err)
{
    check(FAULTY_GATE, gate, "gate_wait");
    check(FAULTY_STREAM, stream, "gate_wait");
    muster_status status = admit(FAULTY_gate_wait, FAULTY_STREAM, stream, err);
    return status != MUSTER_OK ? status : faulty.wrapped->gate_wait(gate, stream, value, err);
}

static muster_status faulty_copy(void *stream, const struct muster_copy_desc *copy,
                                 struct muster_error *err)
{
    check(FAULTY_STREAM, stream, "copy");
    muster_status status = admit(FAULTY_copy, FAULTY_STREAM, stream, err);
    return status != MUSTER_OK ? status : faulty.wrapped->copy(stream, copy, err);
}

static muster_status faulty_fill(void *stream, const struct muster_place *to, uint8_t value,
                                 uint64_t bytes, struct muster_error *err)
{
    check(FAULTY_STREAM, stream, "fill");
    muster_status status = admit(FAULTY_fill, FAULTY_STREAM, stream, err);
    return status != MUSTER_OK ? status : faulty.wrapped->fill(stream, to, value, bytes, err);
}

static muster_status faulty_host_call(void *stream,
                                      void (*function)(void *user, muster_status status),
                                      void *user, struct muster_error *err)
{
    check(FAULTY_STREAM, stream, "host_call");
    muster_status status = admit(FAULTY_host_call, FAULTY_STREAM, stream, err);
    return status != MUSTER_OK ? status : faulty.wrapped->host_call(stream, function, user, err);
}

static muster_status faulty_kernel_init(void *device, const struct muster_kernel_form *form,
                                        void *kernel, struct muster_error *err)
{
    check(FAULTY_DEVICE, device, "kernel_init");
    muster_status status = admit(FAULTY_kernel_init, FAULTY_DEVICE, device, err);
    if (status == MUSTER_OK)
        status = faulty.wrapped->kernel_init(device, form, kernel, err);
    if (status == MUSTER_OK)
        add(FAULTY_KERNEL, kernel, device, "kernel_init");
    return status;
}

static void faulty_kernel_deinit(void *kernel)
{
    release(FAULTY_kernel_deinit, FAULTY_KERNEL, kernel);
    faulty.wrapped->kernel_deinit(kernel);
}

static muster_status faulty_launch(void *stream, void *kernel,
                                   const struct muster_launch_desc *launches, size_t count,
                                   struct muster_error *err)
{
    check(FAULTY_STREAM, stream, "launch");
    check(FAULTY_KERNEL, kernel, "launch");
    if (device_of(FAULTY_STREAM, stream) != device_of(FAULTY_KERNEL, kernel)) {
        lock();
        note_mistake_locked("another device's", FAULTY_KERNEL, "launch");
        unlock();
    }
    muster_status status = admit(FAULTY_launch, FAULTY_STREAM, stream, err);
    return status != MUSTER_OK ? status
                               : faulty.wrapped->launch(stream, kernel, launches, count, err);
}

const struct muster_backend *faulty_wrap(const struct muster_backend *wrapped,
                                         const struct faulty_plan *plan)
{
    /* Threads that a closed runtime has given up may have been here until now. */
    lock();
    if (faulty.wrapped != wrapped)
        faulty.wrapped = wrapped;
    faulty.plan = *plan;
    memset(faulty.calls, 0, sizeof faulty.calls);
    faulty.has_failed = faulty.is_lost = false;
    faulty.object_count = faulty.hung_count = 0;
    faulty.orphans = 0;
    faulty.mistake[0] = 0;
    faulty.block = (struct faulty_block){ 0 };
    faulty.table = (struct muster_backend){
        .size = sizeof(struct muster_backend),
        .abi = MUSTER_BACKEND_ABI,
        .name = "faulty",
        .backend_bytes = wrapped->backend_bytes,
        .device_bytes = wrapped->device_bytes,
        .stream_bytes = wrapped->stream_bytes,
        .event_bytes = wrapped->event_bytes,
        .gate_bytes = wrapped->gate_bytes,
        .kernel_bytes = wrapped->kernel_bytes,
        .host_register = faulty_host_register,
        .host_unregister = faulty_host_unregister,
    };
    /* What the wrapped table leaves out is left out here, so that the runtime sees the same. */
#define WRAP(slot) faulty.table.slot = wrapped->slot ? faulty_##slot : NULL
    WRAP(open);
    WRAP(close);
    WRAP(device_open);
    WRAP(device_close);
    WRAP(device_sample);
    WRAP(slice_plan);
    WRAP(slice_open);
    WRAP(slice_unplan);
    WRAP(memory_allocate);
    WRAP(memory_free);
    WRAP(stream_open);
    WRAP(stream_close);
    WRAP(stream_native);
    WRAP(stream_wait);
    WRAP(stream_query);
    WRAP(event_init);
    WRAP(event_deinit);
    WRAP(event_record);
    WRAP(event_query);
    WRAP(event_wait);
    WRAP(event_elapsed);
    WRAP(gate_init);
    WRAP(gate_deinit);
    WRAP(gate_publish);
    WRAP(gate_wait);
    WRAP(copy);
    WRAP(fill);
    WRAP(host_call);
    WRAP(kernel_init);
    WRAP(kernel_deinit);
    WRAP(launch);
#undef WRAP
    unlock();
    return &faulty.table;
}

void faulty_replan(const struct faulty_plan *plan)
{
    lock();
    faulty.plan = *plan;
    memset(faulty.calls, 0, sizeof faulty.calls);
    unlock();
}

void faulty_block(const struct faulty_block *block)
{
    lock();
    faulty.block = *block;
    faulty.block_calls = 0;
    unlock();
}

bool faulty_await_blocked(uint32_t count)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += BLOCKED_PATIENCE_S;
    lock();
    while (faulty.blocked_count < count &&
           pthread_cond_timedwait(&faulty.blocked_changed, &faulty.lock, &end) == 0)
        continue;
    bool is_so = faulty.blocked_count >= count;
    unlock();
    return is_so;
}

uint32_t faulty_blocked(void)
{
    lock();
    uint32_t count = faulty.blocked_count;
    unlock();
    return count;
}

void faulty_unblock(muster_status status)
{
    lock();
    faulty.block = (struct faulty_block){ 0 };
    faulty.opened_with = status;
    faulty.openings++;
    pthread_cond_broadcast(&faulty.opened);
    while (faulty.blocked_count > 0)
        pthread_cond_wait(&faulty.blocked_changed, &faulty.lock);
    unlock();
}

uint64_t faulty_calls(enum faulty_call call)
{
    lock();
    uint64_t calls = faulty.calls[call];
    unlock();
    return calls;
}

bool faulty_has_failed(void)
{
    lock();
    bool has_failed = faulty.has_failed;
    unlock();
    return has_failed;
}

uint64_t faulty_live(enum faulty_object kind)
{
    uint64_t live = 0;
    lock();
    for (size_t i = 0; i < faulty.object_count; i++)
        live += faulty.objects[i].kind == kind && !faulty.objects[i].refused;
    unlock();
    return live;
}

uint64_t faulty_orphans(void)
{
    lock();
    uint64_t orphans = faulty.orphans;
    unlock();
    return orphans;
}

const char *faulty_mistake(void)
{
    return faulty.mistake;
}

void faulty_bury(void)
{
    while (faulty.hung_count > 0)
        faulty.wrapped->device_close(faulty.hung[--faulty.hung_count]);
    /* A device whose slice hung could not be closed either. */
    for (size_t i = faulty.object_count; i-- > 0;)
        if (faulty.objects[i].kind == FAULTY_DEVICE)
            faulty.wrapped->device_close((void *)(uintptr_t)faulty.objects[i].at);
}
