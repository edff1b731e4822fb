/*
 * The smallest correct backend: one device, "inline:0", that does everything at once, on the thread
 * that asks.
 *
 *     cc -shared -fPIC -o inline.so backend_inline.c
 *     MUSTER_BACKENDS=./inline.so muster devices
 *
 * An operation is over when its call returns, so a stream is nothing but how it went so far, and an
 * event nothing but how its stream went when it was recorded. That keeps every promise of
 * muster/backend.h, and shows which there are. What it leaves out is optional: slices, copies between
 * devices, times, and gates, since a thread that waits for a gate cannot publish it.
 */
#include <muster/backend.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* What the device has. Its memory is the process's heap. */
#define MEMORY_TOTAL (UINT64_C(1) << 30)

struct inline_device {
    _Atomic uint64_t bytes_used;
};

/* Calls on one stream do not overlap, so this needs no lock. */
struct inline_stream {
    struct inline_device *device;
    muster_status status; /* MUSTER_OK or MUSTER_E_STREAM_FAILED, which stays */
};

struct inline_event {
    struct inline_device *device;
    uint32_t flags;
    _Atomic int status; /* of the last record; others may look while one records */
};

struct inline_kernel {
    muster_kernel_function function;
};

static muster_status inline_open(void *backend, const struct muster_services *services,
                                 uint32_t *device_count, struct muster_error *err)
{
    (void)backend, (void)services, (void)err;
    *device_count = 1;
    return MUSTER_OK;
}

static void inline_close(void *backend)
{
    (void)backend;
}

static muster_status inline_device_open(void *backend, uint32_t index, void *device,
                                        struct muster_device_info *info, struct muster_error *err)
{
    (void)backend, (void)index, (void)device, (void)err; /* its state is zeroed, which will do */
    strcpy(info->name, "the calling thread");
    info->cores = 1;
    info->numa_node = -1;
    info->capabilities = MUSTER_CAN_USE_HOST_MEMORY;
    info->forms = MUSTER_KERNEL_FUNCTION;
    info->memory_total = MEMORY_TOTAL;
    info->weight = 1.0;
    return MUSTER_OK;
}

static muster_status inline_device_close(void *device)
{
    (void)device; /* nothing of it can still be running */
    return MUSTER_OK;
}

static muster_status inline_device_sample(void *state, struct muster_device_sample *sample,
                                          struct muster_error *err)
{
    struct inline_device *device = state;
    (void)err;
    *sample = (struct muster_device_sample){ .memory_total = MEMORY_TOTAL,
                                             .memory_free = MEMORY_TOTAL - device->bytes_used,
                                             .utilisation = -1,
                                             .temperature_c = -300 };
    return MUSTER_OK;
}

/* Reserved before it is allocated, so that two threads together cannot take too much. */
static muster_status inline_memory_allocate(void *state, void *stream, uint64_t bytes,
                                            struct muster_memory *out, struct muster_error *err)
{
    struct inline_device *device = state;
    (void)stream;
    uint64_t used = device->bytes_used;
    do {
        if (bytes > MEMORY_TOTAL - used)
            return muster_error_fill(err, MUSTER_E_DEVICE_MEMORY, 0, "free memory, or ask for less",
                                     "%llu bytes were asked for; %llu are free",
                                     (unsigned long long)bytes,
                                     (unsigned long long)(MEMORY_TOTAL - used));
    } while (!atomic_compare_exchange_weak(&device->bytes_used, &used, used + bytes));
    void *memory = malloc(bytes);
    if (!memory) {
        device->bytes_used -= bytes;
        return muster_error_fill(err, MUSTER_E_DEVICE_MEMORY, 0, NULL, "the heap is exhausted");
    }
    *out = (struct muster_memory){ .address = (uintptr_t)memory, .bytes = bytes };
    return MUSTER_OK;
}

static muster_status inline_memory_free(void *state, void *stream, struct muster_memory *memory,
                                        struct muster_error *err)
{
    struct inline_device *device = state;
    (void)stream, (void)err; /* whatever used it is over */
    free((void *)(uintptr_t)memory->address);
    device->bytes_used -= memory->bytes;
    return MUSTER_OK;
}

static muster_status inline_stream_open(void *device, int32_t priority, int is_default, void *state,
                                        struct muster_error *err)
{
    (void)is_default;
    if (priority != 0)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "ask for priority 0",
                                 "priority %d was asked for; there are none", priority);
    *(struct inline_stream *)state = (struct inline_stream){ .device = device };
    return MUSTER_OK;
}

static void inline_stream_close(void *stream)
{
    (void)stream;
}

static void *inline_stream_native(void *stream)
{
    (void)stream;
    return NULL;
}

static muster_status say_failed(struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_STREAM_FAILED, 0, "open another stream",
                             "a kernel failed; what followed on its stream was not run");
}

static muster_status inline_stream_query(void *state, struct muster_error *err)
{
    const struct inline_stream *stream = state;
    return stream->status == MUSTER_OK ? MUSTER_OK : say_failed(err);
}

static muster_status inline_event_init(void *device, uint32_t flags, void *state,
                                       struct muster_error *err)
{
    struct inline_event *event = state;
    (void)err;
    event->device = device;
    event->flags = flags;
    atomic_init(&event->status, MUSTER_OK); /* never recorded counts as complete */
    return MUSTER_OK;
}

static void inline_event_deinit(void *event)
{
    (void)event; /* no wait is ever queued */
}

static muster_status inline_event_record(void *event_state, void *stream_state,
                                         struct muster_error *err)
{
    struct inline_event *event = event_state;
    const struct inline_stream *stream = stream_state;
    if (event->device != stream->device)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL, "the event is another device's");
    event->status = stream->status;
    return MUSTER_OK;
}

static muster_status inline_event_query(void *state, struct muster_error *err)
{
    struct inline_event *event = state;
    return event->status == MUSTER_OK ? MUSTER_OK : say_failed(err);
}

static muster_status inline_event_wait(void *event, uint64_t timeout_ns, struct muster_error *err)
{
    (void)timeout_ns;
    return inline_event_query(event, err);
}

/* The record that the wait is bound to is over; only its failure is left to pass on. */
static muster_status inline_stream_wait(void *stream_state, void *event_state,
                                        struct muster_error *err)
{
    struct inline_stream *stream = stream_state;
    struct inline_event *event = event_state;
    if (event->flags & MUSTER_EVENT_TIMING)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL, "a timing event orders nothing");
    if (event->device != stream->device)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "wait on the host",
                                 "the event is another device's");
    if (inline_event_query(event, NULL) != MUSTER_OK)
        stream->status = MUSTER_E_STREAM_FAILED;
    return MUSTER_OK;
}

static void *address_of(const struct muster_place *place)
{
    return place->memory ? (char *)(uintptr_t)place->memory->address + place->offset : place->host;
}

static muster_status inline_copy(void *state, const struct muster_copy_desc *copy,
                                 struct muster_error *err)
{
    const struct inline_stream *stream = state;
    (void)err;
    if (stream->status == MUSTER_OK)
        memcpy(address_of(&copy->to), address_of(&copy->from), copy->bytes);
    return MUSTER_OK;
}

static muster_status inline_fill(void *state, const struct muster_place *to, uint8_t value,
                                 uint64_t bytes, struct muster_error *err)
{
    const struct inline_stream *stream = state;
    (void)err;
    if (stream->status == MUSTER_OK)
        memset(address_of(to), value, bytes);
    return MUSTER_OK;
}

/* Also on a stream that has failed: a thread that waits for the call must hear of it. */
static muster_status inline_host_call(void *state, void (*function)(void *, muster_status),
                                      void *user, struct muster_error *err)
{
    const struct inline_stream *stream = state;
    (void)err;
    function(user, stream->status);
    return MUSTER_OK;
}

static muster_status inline_kernel_init(void *device, const struct muster_kernel_form *form,
                                        void *kernel, struct muster_error *err)
{
    (void)device;
    if (form->kind != MUSTER_KERNEL_FUNCTION)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "give it as a C function",
                                 "only C functions can be run");
    ((struct inline_kernel *)kernel)->function = form->function;
    return MUSTER_OK;
}

static void inline_kernel_deinit(void *kernel)
{
    (void)kernel;
}

static muster_status run(const struct inline_kernel *kernel,
                         const struct muster_launch_desc *launch)
{
    void *addresses[MUSTER_ARGS_MAX], *args[MUSTER_ARGS_MAX];
    for (size_t i = 0; i < launch->arg_count; i++) {
        const struct muster_launch_arg *arg = &launch->args[i];
        if (arg->memory)
            addresses[i] = (char *)(uintptr_t)arg->memory->address + arg->offset;
        args[i] = arg->memory ? (void *)&addresses[i] : (void *)arg->value;
    }
    return kernel->function(launch->begin, launch->begin + launch->items, args);
}

static muster_status inline_launch(void *state, void *kernel,
                                   const struct muster_launch_desc *launches, size_t count,
                                   struct muster_error *err)
{
    struct inline_stream *stream = state;
    (void)err;
    for (size_t i = 0; i < count; i++) {
        muster_status status = stream->status;
        if (status == MUSTER_OK)
            status = run(kernel, &launches[i]);
        if (status != MUSTER_OK && launches[i].result)
            *launches[i].result = status;
        else if (status != MUSTER_OK)
            stream->status = MUSTER_E_STREAM_FAILED;
    }
    return MUSTER_OK;
}

static const struct muster_backend backend = {
    .size = sizeof backend,
    .abi = MUSTER_BACKEND_ABI,
    .name = "inline",
    .device_bytes = sizeof(struct inline_device),
    .stream_bytes = sizeof(struct inline_stream),
    .event_bytes = sizeof(struct inline_event),
    .kernel_bytes = sizeof(struct inline_kernel),
    .open = inline_open,
    .close = inline_close,
    .device_open = inline_device_open,
    .device_close = inline_device_close,
    .device_sample = inline_device_sample,
    .memory_allocate = inline_memory_allocate,
    .memory_free = inline_memory_free,
    .stream_open = inline_stream_open,
    .stream_close = inline_stream_close,
    .stream_native = inline_stream_native,
    .stream_wait = inline_stream_wait,
    .stream_query = inline_stream_query,
    .event_init = inline_event_init,
    .event_deinit = inline_event_deinit,
    .event_record = inline_event_record,
    .event_query = inline_event_query,
    .event_wait = inline_event_wait,
    .copy = inline_copy,
    .fill = inline_fill,
    .host_call = inline_host_call,
    .kernel_init = inline_kernel_init,
    .kernel_deinit = inline_kernel_deinit,
    .launch = inline_launch,
};
MUSTER_BACKEND_EXPORT(backend)
