/*
 * What the runtime opens in a helper and asks of it.
 */
#include "backend/isolated/serve.h"

#include "base/allocator.h"
#include "base/apart.h"
#include "platform/helper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A record that a stream has passed completes within this. */
#define EVENT_NS UINT64_C(1000000000)

static muster_status refuse(struct muster_error *err, const char *what)
{
    return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL, "the helper was asked for %s", what);
}

static void *state_of(size_t bytes)
{
    return allocator_take(serve.services.allocator, 1, bytes);
}

static void give_state(void *state, size_t bytes)
{
    allocator_give(serve.services.allocator, state, 1, bytes);
}

static void *device_at(uint32_t number)
{
    return number < DEVICES_OF_LINK_MAX ? serve.devices[number] : NULL;
}

/* Devices. */

static muster_status open_device(const struct wire_head *head, uint32_t number, void *parent,
                                 void *answer, uint32_t *bytes, struct muster_error *err)
{
    struct muster_device_info info = { .size = sizeof info, .numa_node = -1 };
    if (number >= DEVICES_OF_LINK_MAX || serve.devices[number])
        return refuse(err, "a device that is open");
    void *state = state_of(serve.table.device_bytes);
    if (!state)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a device");
    muster_status status = parent
                               ? serve.table.slice_open(parent, head->b, state, &info, err)
                               : serve.table.device_open(serve.backend, head->a, state, &info, err);
    if (status != MUSTER_OK) {
        give_state(state, serve.table.device_bytes);
        return status;
    }
    serve.devices[number] = state;
    serve.forms = info.forms;
    memcpy(answer, &info, sizeof info);
    *bytes = sizeof info;
    return MUSTER_OK;
}

static void close_slice(uint32_t number)
{
    if (number == 0 || !device_at(number))
        return;
    if (serve.table.device_close(serve.devices[number]) == MUSTER_OK)
        give_state(serve.devices[number], serve.table.device_bytes);
    serve.devices[number] = NULL;
}

static muster_status sample(const struct wire_head *head, void *answer, uint32_t *bytes,
                            struct muster_error *err)
{
    struct muster_device_sample now = { .utilisation = -1, .temperature_c = -300 };
    void *device = device_at(head->a);
    if (!device)
        return refuse(err, "a device that is not open");
    muster_status status = serve.table.device_sample(device, &now, err);
    memcpy(answer, &now, sizeof now);
    *bytes = sizeof now;
    return status;
}

/* Streams, events and gates. */

static muster_status open_stream(const struct wire_head *head, struct muster_error *err)
{
    const struct wire_stream *body = (const void *)(head + 1);
    void *device = device_at(head->b);
    if (head->a >= WIRE_STREAMS || !device)
        return refuse(err, "a stream that cannot be");
    struct serve_stream *stream = &serve.streams[head->a];
    void *state = state_of(serve.table.stream_bytes);
    if (!state)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a stream");
    muster_status status =
        serve.table.stream_open(device, body->priority, (int)body->is_default, state, err);
    if (status != MUSTER_OK) {
        give_state(state, serve.table.stream_bytes);
        return status;
    }
    free(stream->results);
    *stream = (struct serve_stream){ .state = state, .device = head->b };
    atomic_store(&serve.page->streams[head->a].status, MUSTER_OK);
    return MUSTER_OK;
}

static void close_stream(uint32_t number)
{
    struct serve_stream *stream = &serve.streams[number];
    serve.table.stream_close(stream->state);
    give_state(stream->state, serve.table.stream_bytes);
    stream->state = NULL;
}

static muster_status init_event(const struct wire_head *head, struct muster_error *err)
{
    void *device = device_at(head->b);
    if (head->a >= WIRE_EVENTS || !device || serve.events[head->a])
        return refuse(err, "an event that cannot be");
    void *state = state_of(serve.table.event_bytes);
    muster_status status =
        state ? serve.table.event_init(device, (uint32_t)head->c, state, err)
              : muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for an event");
    serve.event_generations[head->a] = 0;
    if (status == MUSTER_OK)
        serve.events[head->a] = state;
    else
        give_state(state, serve.table.event_bytes);
    return status;
}

static void *event_at(uint32_t number)
{
    return number < WIRE_EVENTS ? serve.events[number] : NULL;
}

static void await_event(uint32_t number)
{
    uint64_t word = atomic_load(&serve.page->events[number]);
    if (serve.event_generations[number] != 0 && word >> 32 == serve.event_generations[number])
        serve.table.event_wait(serve.events[number], EVENT_NS, NULL);
}

static muster_status elapsed(const struct wire_head *head, void *answer, uint32_t *bytes,
                             struct muster_error *err)
{
    uint64_t ns = 0;
    void *begin = event_at(head->a), *end = event_at(head->b);
    if (!begin || !end)
        return refuse(err, "an event that is not there");
    /* The runtime was told a moment before the driver knows. */
    await_event(head->a);
    await_event(head->b);
    muster_status status = serve.table.event_elapsed(begin, end, &ns, err);
    memcpy(answer, &ns, sizeof ns);
    *bytes = sizeof ns;
    return status;
}

static muster_status init_gate(const struct wire_head *head, struct muster_error *err)
{
    void *device = device_at(head->b);
    if (head->a >= GATES_MAX || !device || serve.gates[head->a])
        return refuse(err, "a gate that cannot be");
    void *state = state_of(serve.table.gate_bytes);
    muster_status status =
        state ? serve.table.gate_init(device, state, err)
              : muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a gate");
    if (status == MUSTER_OK && head->c > 0)
        status = serve.table.gate_publish(state, head->c, err);
    if (status == MUSTER_OK)
        serve.gates[head->a] = state;
    else
        give_state(state, serve.table.gate_bytes);
    return status;
}

/* Memory. */

static bool grow_memories(uint32_t number)
{
    uint32_t room = serve.memory_room > 0 ? serve.memory_room : 64;
    while (room <= number)
        room *= 2;
    if (room == serve.memory_room)
        return true;
    struct serve_memory *grown = realloc(serve.memories, room * sizeof *grown);
    if (!grown)
        return false;
    for (uint32_t i = serve.memory_room; i < room; i++)
        grown[i] = (struct serve_memory){ .device = WIRE_NONE };
    serve.memories = grown;
    serve.memory_room = room;
    return true;
}

static muster_status allocate(const struct wire_head *head, struct muster_error *err)
{
    const struct wire_allocation *body = (const void *)(head + 1);
    void *device = device_at(head->b);
    if (!device || head->a >= WIRE_NONE / 2 || !grow_memories(head->a))
        return refuse(err, "memory that cannot be");
    void *stream = body->stream < WIRE_STREAMS ? serve.streams[body->stream].state : NULL;
    struct serve_memory *memory = &serve.memories[head->a];
    muster_status status =
        serve.table.memory_allocate(device, stream, head->c, &memory->memory, err);
    if (status == MUSTER_OK)
        memory->device = head->b;
    return status;
}

static void free_memory(const struct wire_head *head)
{
    if (head->a >= serve.memory_room || serve.memories[head->a].device == WIRE_NONE)
        return;
    struct serve_memory *memory = &serve.memories[head->a];
    void *stream = head->b < WIRE_STREAMS ? serve.streams[head->b].state : NULL;
    serve.table.memory_free(device_at(memory->device), stream, &memory->memory, NULL);
    memory->device = WIRE_NONE;
}

void *serve_host(uint64_t offset, uint64_t bytes)
{
    uint64_t room = serve.page->host_bytes;
    return serve.host && offset <= room && bytes <= room - offset ? serve.host + offset : NULL;
}

static muster_status register_host(const struct wire_head *head, struct muster_error *err)
{
    const struct wire_host *body = (const void *)(head + 1);
    void *device = device_at(head->b), *host = serve_host(body->offset, body->bytes);
    if (!device || !host)
        return refuse(err, "host memory that is not shared");
    return serve.table.host_register(device, host, (size_t)body->bytes, err);
}

static void unregister_host(const struct wire_head *head)
{
    const struct wire_host *body = (const void *)(head + 1);
    void *device = device_at(head->b), *host = serve_host(body->offset, body->bytes);
    if (device && host)
        serve.table.host_unregister(device, host);
}

/* Kernels. */

static void take_code(const struct wire_head *head)
{
    size_t bytes = head->c;
    if (head->a)
        serve.code_bytes = 0;
    if (serve.code_bytes + bytes + 1 > serve.code_room) {
        size_t room = 2 * (serve.code_bytes + bytes + 1);
        unsigned char *grown = realloc(serve.code, room);
        if (!grown)
            abort();
        serve.code = grown;
        serve.code_room = room;
    }
    memcpy(serve.code + serve.code_bytes, head + 1, bytes);
    serve.code_bytes += bytes;
    serve.code[serve.code_bytes] = 0;
}

static void *find_symbol(const struct serve_kernel *kernel, const char *prefix, const char *entry)
{
    char name[128];
    int length = snprintf(name, sizeof name, "%s%s", prefix, entry);
    if ((size_t)length >= sizeof name)
        return NULL;
    return serve.is_sandboxed ? platform_object_symbol(&kernel->object, name)
                              : platform_library_symbol(&kernel->image.library, name);
}

static void unload(struct serve_kernel *kernel)
{
    if (kernel->image.library.handle)
        platform_image_close(&kernel->image);
    platform_object_unload(&kernel->object);
}

/* A shared object becomes functions of this process. */
static muster_status load(struct serve_kernel *kernel, struct muster_error *err)
{
    const void *code = kernel->form.code;
    size_t code_bytes = kernel->form.code_bytes;
    muster_status status = serve.is_sandboxed
                               ? platform_object_load(&kernel->object, code, code_bytes, err)
                               : platform_image_open(&kernel->image, code, code_bytes, err);
    if (status != MUSTER_OK)
        return status;
    void *function = find_symbol(kernel, "", kernel->entry);
    void *apart = find_symbol(kernel, APART_PREFIX, kernel->entry);
    const uint32_t *written = find_symbol(kernel, APART_WRITTEN_PREFIX, kernel->entry);
    if (!function) {
        unload(kernel);
        return muster_error_fill(err, MUSTER_E_NOT_FOUND, 0, "name a function that it exports",
                                 "the shared object has no function %s", kernel->entry);
    }
    kernel->form.kind = MUSTER_KERNEL_FUNCTION;
    memcpy(&kernel->form.function, &function, sizeof function);
    if (apart && written) {
        memcpy(&kernel->form.apart, &apart, sizeof apart);
        kernel->form.written = *written;
    }
    return MUSTER_OK;
}

/* One of the program's own, which this process is too. */
static muster_status find_function(struct serve_kernel *kernel, struct muster_error *err)
{
    kernel->form.function = platform_helper_function(kernel->entry);
    if (kernel->form.function)
        return MUSTER_OK;
    return muster_error_fill(err, MUSTER_E_NOT_FOUND, 0,
                             "call muster_helper_function before muster_helper_main",
                             "the helper has no function %s", kernel->entry);
}

static void free_kernel(struct serve_kernel *kernel)
{
    if (kernel->state)
        serve.table.kernel_deinit(kernel->state);
    give_state(kernel->state, serve.table.kernel_bytes);
    unload(kernel);
    free(kernel->code);
    free(kernel->entry);
    free(kernel->file);
    *kernel = (struct serve_kernel){ .state = NULL };
}

static char *copy_text(const char *text, size_t room)
{
    size_t length = strnlen(text, room);
    char *copy = serve_take(length + 1);
    memcpy(copy, text, length);
    return copy;
}

static muster_status init_kernel(const struct wire_head *head, struct muster_error *err)
{
    const struct wire_form *body = (const void *)(head + 1);
    void *device = device_at(head->b);
    if (head->a >= KERNELS_MAX || !device || body->code_bytes != serve.code_bytes)
        return refuse(err, "a kernel that cannot be");
    struct serve_kernel *kernel = &serve.kernels[head->a];
    free_kernel(kernel);
    kernel->code = serve_take(serve.code_bytes + 1);
    if (serve.code_bytes > 0)
        memcpy(kernel->code, serve.code, serve.code_bytes);
    kernel->entry = copy_text(body->entry, sizeof body->entry);
    kernel->file = copy_text(body->file, sizeof body->file);
    kernel->form = (struct muster_kernel_form){ .size = sizeof kernel->form,
                                                .kind = (enum muster_kernel_kind)body->kind,
                                                .code = kernel->code,
                                                .code_bytes = serve.code_bytes,
                                                .entry = kernel->entry,
                                                .threads = body->threads,
                                                .compute = { body->compute[0], body->compute[1] },
                                                .file = *kernel->file ? kernel->file : NULL };
    /* The next may have none. */
    serve.code_bytes = 0;
    muster_status status = MUSTER_OK;
    if (body->kind == MUSTER_KERNEL_FUNCTION)
        status = find_function(kernel, err);
    bool is_loaded = body->kind == MUSTER_KERNEL_SHARED_OBJECT &&
                     !(serve.forms & MUSTER_KERNEL_SHARED_OBJECT) &&
                     (serve.forms & MUSTER_KERNEL_FUNCTION);
    if (is_loaded)
        status = load(kernel, err);
    void *state = status == MUSTER_OK ? state_of(serve.table.kernel_bytes) : NULL;
    if (status == MUSTER_OK && !state)
        status = muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a kernel");
    if (status == MUSTER_OK)
        status = serve.table.kernel_init(device, &kernel->form, state, err);
    if (status == MUSTER_OK)
        kernel->state = state;
    else
        give_state(state, serve.table.kernel_bytes);
    if (status != MUSTER_OK)
        free_kernel(kernel);
    return status;
}

muster_status serve_object(const struct wire_head *head, void *answer, uint32_t *bytes,
                           struct muster_error *err)
{
    void *device = device_at(head->a);
    switch (head->kind) {
    case WIRE_DEVICE_OPEN:
        return open_device(head, 0, NULL, answer, bytes, err);
    case WIRE_DEVICE_SAMPLE:
        return sample(head, answer, bytes, err);
    case WIRE_SLICE_PLAN:
        return device ? serve.table.slice_plan(device, (const void *)(head + 1), head->b, err)
                      : refuse(err, "slices of nothing");
    case WIRE_SLICE_OPEN:
        return device ? open_device(head, head->b + 1, device, answer, bytes, err)
                      : refuse(err, "a slice of nothing");
    case WIRE_MEMORY_ALLOCATE:
        return allocate(head, err);
    case WIRE_HOST_REGISTER:
        return register_host(head, err);
    case WIRE_STREAM_OPEN:
        return open_stream(head, err);
    case WIRE_EVENT_INIT:
        return init_event(head, err);
    case WIRE_EVENT_EXPLAIN:
        return event_at(head->a) ? serve.table.event_query(event_at(head->a), err)
                                 : refuse(err, "an event that is not there");
    case WIRE_EVENT_ELAPSED:
        return elapsed(head, answer, bytes, err);
    case WIRE_GATE_INIT:
        return init_gate(head, err);
    case WIRE_KERNEL_INIT:
        return init_kernel(head, err);
    default:
        return refuse(err, "something unknown");
    }
}

void serve_close_object(const struct wire_head *head)
{
    switch (head->kind) {
    case WIRE_CODE:
        take_code(head);
        break;
    case WIRE_SLICE_CLOSE:
        close_slice(head->a);
        break;
    case WIRE_SLICE_UNPLAN:
        if (device_at(head->a))
            serve.table.slice_unplan(device_at(head->a));
        break;
    case WIRE_MEMORY_FREE:
        free_memory(head);
        break;
    case WIRE_HOST_AGAIN:
        /* Copies work without, though slower. */
        register_host(head, NULL);
        break;
    case WIRE_HOST_UNREGISTER:
        unregister_host(head);
        break;
    case WIRE_STREAM_CLOSE:
        if (head->a < WIRE_STREAMS && serve.streams[head->a].state)
            close_stream(head->a);
        break;
    case WIRE_EVENT_DEINIT:
        if (event_at(head->a)) {
            serve.table.event_deinit(serve.events[head->a]);
            give_state(serve.events[head->a], serve.table.event_bytes);
            serve.events[head->a] = NULL;
        }
        break;
    case WIRE_GATE_DEINIT:
        if (head->a < GATES_MAX && serve.gates[head->a]) {
            serve.table.gate_deinit(serve.gates[head->a]);
            give_state(serve.gates[head->a], serve.table.gate_bytes);
            serve.gates[head->a] = NULL;
        }
        break;
    case WIRE_KERNEL_DEINIT:
        if (head->a < KERNELS_MAX)
            free_kernel(&serve.kernels[head->a]);
        break;
    default:
        break;
    }
}
