#include "rig.h"
#include "rig_source.h"

#include "backend/registry.h"
#include "kernel/build.h"
#include "platform/arena.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * Not there in the shared object of the suite's kernels, which holds as little as can be: a sandbox loads it. The suite's main
 * needs them.
 */
#pragma weak platform_arena_create
#pragma weak platform_arena_destroy
#pragma weak platform_arena_file
#pragma weak platform_arena_bytes
#pragma weak platform_arena_take
#pragma weak platform_arena_give
#pragma weak platform_arena_find

/* As the runtime's allocator does. */
#define STATE_ALIGNMENT 64

enum object_kind { RIG_STREAM, RIG_EVENT, RIG_GATE, RIG_KERNEL, RIG_MEMORY, RIG_HOST };

/* One thing to close. */
struct rig_object {
    enum object_kind kind;
    void *device; /* borrowed */
    void *state;  /* owns; for RIG_MEMORY a struct muster_memory */
    size_t bytes;
    struct platform_arena *arena; /* that `state` is of; NULL: of the heap */
    struct kernel_image image;    /* of a kernel that was built from source */
    struct rig_object *next;
};

void *rig_state(size_t bytes)
{
    void *state = NULL;
    size_t some = bytes > 0 ? bytes : 1;
    if (posix_memalign(&state, STATE_ALIGNMENT, some) != 0)
        test_fail(__FILE__, __LINE__, "no memory for the test itself");
    memset(state, 0, some);
    return state;
}

void rig_state_free(void *state)
{
    free(state);
}

/* The backend's memory is counted, to see at the end that all of it came back. */

static void *counting_allocate(void *user, size_t bytes, size_t alignment)
{
    struct rig *rig = user;
    void *memory;
    if (posix_memalign(&memory, alignment, bytes) != 0)
        return NULL;
    atomic_fetch_add_explicit(&rig->bytes_taken, bytes, memory_order_relaxed);
    return memory;
}

static void counting_release(void *user, void *memory, size_t bytes)
{
    struct rig *rig = user;
    atomic_fetch_sub_explicit(&rig->bytes_taken, bytes, memory_order_relaxed);
    free(memory);
}

/* What is not the backend's is not counted. */
static void *plain_allocate(void *user, size_t bytes, size_t alignment)
{
    void *memory;
    (void)user;
    size_t least = alignment < sizeof(void *) ? sizeof(void *) : alignment;
    return posix_memalign(&memory, least, bytes) == 0 ? memory : NULL;
}

static void plain_release(void *user, void *memory, size_t bytes)
{
    (void)user, (void)bytes;
    free(memory);
}

static const struct muster_allocator image_allocator = { .size = sizeof image_allocator,
                                                         .allocate = plain_allocate,
                                                         .release = plain_release };

static void ignore_log(const struct muster_services *services, enum muster_log_level level,
                       const char *text)
{
    (void)services, (void)level, (void)text;
}

void rig_clear_error(struct rig *rig)
{
    rig->err = (struct muster_error){ .size = sizeof rig->err };
}

void rig_check_done(const char *file, int line, struct rig *rig, const char *slot,
                    muster_status status)
{
    if (status != MUSTER_OK)
        test_fail(file, line, "%s answers %s: %s", slot, muster_status_name(status), rig->err.text);
}

void rig_check_refused(const char *file, int line, struct rig *rig, const char *slot,
                       muster_status expected, muster_status status)
{
    test_check_status(file, line, slot, expected, status);
    if (rig->err.status != expected || rig->err.text[0] == 0)
        test_fail(file, line, "%s refuses and does not say why", slot);
}

static uint64_t find_host(const struct muster_services *services, const void *memory,
                          uint64_t bytes, uint64_t *offset)
{
    const struct rig *rig =
        (const struct rig *)((const char *)services - offsetof(struct rig, services));
    return platform_arena_find(rig->arena, memory, bytes, offset);
}

/* Devices in helper processes map the host's memory, as the runtime's. */
static void share_memory(struct rig *rig)
{
    if (platform_arena_create(&image_allocator, &rig->arena, &rig->err) != MUSTER_OK)
        test_fail(__FILE__, __LINE__, "no shared memory: %s", rig->err.text);
    rig->services.host_file_find = find_host;
    rig->services.host_file = platform_arena_file(rig->arena);
    rig->services.host_file_bytes = platform_arena_bytes(rig->arena);
}

static struct rig *rig_new(const struct muster_backend *given, const char *sim)
{
    struct rig *rig = rig_state(sizeof *rig);
    rig->given = given;
    rig->allocator = (struct muster_allocator){ sizeof rig->allocator, counting_allocate,
                                                counting_release, rig };
    rig->services = (struct muster_services){
        .size = sizeof rig->services, .allocator = &rig->allocator, .log = ignore_log, .sim = sim
    };
    if (registry_complete(given, &rig->table, &rig->err) != MUSTER_OK)
        test_fail(__FILE__, __LINE__, "the table is refused: %s", rig->err.text);
    rig->backend = rig_state(rig->table.backend_bytes);
    if (given->device_generation && platform_arena_create)
        share_memory(rig);
    return rig;
}

static void rig_delete(struct rig *rig)
{
    if (rig->arena)
        platform_arena_destroy(rig->arena);
    free(rig->backend);
    free(rig);
}

muster_status rig_probe(const struct muster_backend *given, const char *sim,
                        struct muster_error *err)
{
    struct rig *rig = rig_new(given, sim);
    muster_status status =
        rig->table.open(rig->backend, &rig->services, &rig->device_count, &rig->err);
    if (status == MUSTER_OK)
        rig->table.close(rig->backend);
    else
        *err = rig->err;
    if (status == MUSTER_OK && rig->device_count == 0)
        status = muster_error_fill(err, MUSTER_E_NOT_FOUND, 0, NULL, "it has no device");
    rig_delete(rig);
    return status;
}

static uint32_t first_device;

void rig_begin_with(uint32_t device)
{
    first_device = device;
}

static bool holds_nothing;

void rig_hold_nothing(void)
{
    holds_nothing = true;
}

bool rig_holds_nothing(void)
{
    return holds_nothing;
}

static void open_device(struct rig *rig, uint32_t index, void **state,
                        struct muster_device_info *info)
{
    *state = rig_state(rig->table.device_bytes);
    *info = (struct muster_device_info){ .size = sizeof *info, .numa_node = -1 };
    DO(rig, device_open, rig->backend, index, *state, info);
}

static void open_slices(struct rig *rig, const uint32_t *sizes, size_t count)
{
    struct muster_device_info whole;
    open_device(rig, first_device, &rig->cut, &whole);
    DO(rig, slice_plan, rig->cut, sizes, count);
    rig->device_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        struct rig_device *device = &rig->devices[i];
        device->state = rig_state(rig->table.device_bytes);
        device->info = (struct muster_device_info){ .size = sizeof device->info, .numa_node = -1 };
        DO(rig, slice_open, rig->cut, i, device->state, &device->info);
        CHECK_EQUAL(sizes[i], device->info.cores);
    }
}

/* The rig of the test that runs, or of one that failed. */
static struct rig *newest;

/* What a test that failed holds would hold the next one too, where they share hardware. */
static void release_abandoned(void)
{
    for (struct rig_object *object = newest ? newest->objects : NULL; object; object = object->next)
        if (object->kind == RIG_GATE)
            newest->table.gate_publish(object->state, INT64_MAX, NULL);
    newest = NULL;
}

struct rig *rig_open_slices(const struct muster_backend *given, const char *sim,
                            const uint32_t *sizes, size_t count)
{
    release_abandoned();
    struct rig *rig = rig_new(given, sim);
    DO(rig, open, rig->backend, &rig->services, &rig->device_count);
    CHECK(rig->device_count > first_device);
    rig->domain_count = rig->device_count;
    rig->device_count -= first_device;
    newest = rig;
    if (count > 0)
        open_slices(rig, sizes, count);
    for (uint32_t i = 0; count == 0 && i < rig->device_count && i < RIG_DEVICES_MAX; i++)
        open_device(rig, first_device + i, &rig->devices[i].state, &rig->devices[i].info);
    rig->device = rig->devices[0].state;
    rig->info = &rig->devices[0].info;
    return rig;
}

bool rig_is_gpu(const struct rig *rig)
{
    return rig->info->kind == MUSTER_KIND_GPU;
}

struct rig *rig_open(const struct muster_backend *given, const char *sim)
{
    return rig_open_slices(given, sim, NULL, 0);
}

static struct rig_object *make(enum object_kind kind, void *device, size_t bytes)
{
    struct rig_object *object = rig_state(sizeof *object);
    *object = (struct rig_object){
        .kind = kind, .device = device, .state = rig_state(bytes), .bytes = bytes
    };
    return object;
}

/* Only what was opened is closed. */
static void *keep(struct rig *rig, struct rig_object *object)
{
    object->next = rig->objects;
    rig->objects = object;
    return object->state;
}

static void delete_object(struct rig_object *object)
{
    memset(object->state, 0xa5, object->bytes);
    if (object->arena)
        platform_arena_give(object->arena, object->state);
    else
        free(object->state);
    kernel_image_release(&object->image, &image_allocator);
    free(object);
}

static struct rig_object *take_out(struct rig *rig, const void *state)
{
    struct rig_object **at = &rig->objects;
    while (*at && (*at)->state != state)
        at = &(*at)->next;
    CHECK(*at);
    struct rig_object *object = *at;
    *at = object->next;
    return object;
}

void *rig_stream_on(struct rig *rig, void *device, int32_t priority, bool is_default)
{
    struct rig_object *object = make(RIG_STREAM, device, rig->table.stream_bytes);
    DO(rig, stream_open, device, priority, is_default, object->state);
    return keep(rig, object);
}

void *rig_stream(struct rig *rig)
{
    return rig_stream_on(rig, rig->device, 0, false);
}

void *rig_event_on(struct rig *rig, void *device, uint32_t flags)
{
    struct rig_object *object = make(RIG_EVENT, device, rig->table.event_bytes);
    DO(rig, event_init, device, flags, object->state);
    return keep(rig, object);
}

void *rig_event(struct rig *rig)
{
    return rig_event_on(rig, rig->device, MUSTER_EVENT_ORDER);
}

struct muster_memory *rig_memory_on(struct rig *rig, void *device, uint64_t bytes)
{
    struct rig_object *object = make(RIG_MEMORY, device, sizeof(struct muster_memory));
    DO(rig, memory_allocate, device, NULL, bytes, object->state);
    return keep(rig, object);
}

struct muster_memory *rig_memory(struct rig *rig, uint64_t bytes)
{
    return rig_memory_on(rig, rig->device, bytes);
}

void *rig_gate(struct rig *rig)
{
    if (!(rig->info->capabilities & MUSTER_CAN_WAIT_VALUE) || holds_nothing)
        return NULL;
    struct rig_object *object = make(RIG_GATE, rig->device, rig->table.gate_bytes);
    DO(rig, gate_init, rig->device, object->state);
    return keep(rig, object);
}

static struct {
    char *image;
    size_t bytes;
} functions;

void rig_load_functions(const char *path)
{
    FILE *file = fopen(path, "rb");
    size_t room = 0;
    while (file && !feof(file) && !ferror(file)) {
        room += 1 << 20;
        functions.image = realloc(functions.image, room);
        functions.bytes +=
            fread(functions.image + functions.bytes, 1, room - functions.bytes, file);
    }
    if (!file || ferror(file) || functions.bytes == 0) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(2);
    }
    fclose(file);
}

bool rig_runs_functions(const struct rig *rig)
{
    return rig->info->forms & MUSTER_KERNEL_FUNCTION ||
           (functions.bytes > 0 && rig->info->forms & MUSTER_KERNEL_SHARED_OBJECT);
}

void *rig_kernel_named(struct rig *rig, muster_kernel_function function, const char *name)
{
    if (!rig_runs_functions(rig))
        return NULL;
    bool is_here = rig->info->forms & MUSTER_KERNEL_FUNCTION;
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = is_here ? MUSTER_KERNEL_FUNCTION
                                                             : MUSTER_KERNEL_SHARED_OBJECT,
                                             .function = is_here ? function : NULL,
                                             .code = is_here ? NULL : functions.image,
                                             .code_bytes = is_here ? 0 : functions.bytes,
                                             .entry = name };
    struct rig_object *object = make(RIG_KERNEL, rig->device, rig->table.kernel_bytes);
    DO(rig, kernel_init, rig->device, &form, object->state);
    return keep(rig, object);
}

/* What the device takes, from source: machine code for CUDA, the source itself for OpenCL. */
static muster_status build(struct rig *rig, const struct rig_code *code, struct rig_object *object)
{
    uint32_t forms = rig->info->forms;
    bool is_cuda = forms & (MUSTER_KERNEL_CUDA | MUSTER_KERNEL_CUBIN | MUSTER_KERNEL_PTX);
    char *source = rig_source(code->source, is_cuda);
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = is_cuda ? MUSTER_KERNEL_CUDA
                                                             : MUSTER_KERNEL_OPENCL,
                                             .code = source,
                                             .code_bytes = strlen(source),
                                             .entry = code->entry };
    const struct kernel_target target = {
        .forms = forms, .compute = { rig->info->compute[0], rig->info->compute[1] }
    };
    muster_status status = MUSTER_E_NOT_SUPPORTED;
    if (kernel_can_build(&form, &target)) {
        status = kernel_build(&form, &target, &image_allocator, &object->image, &rig->err);
        if (status != MUSTER_OK)
            test_fail(__FILE__, __LINE__, "%s does not compile: %s", code->entry, rig->err.text);
        DO(rig, kernel_init, rig->device, &object->image.form, object->state);
    }
    free(source);
    return status;
}

void *rig_kernel_of(struct rig *rig, const struct rig_code *code)
{
    const uint32_t sources =
        MUSTER_KERNEL_CUDA | MUSTER_KERNEL_CUBIN | MUSTER_KERNEL_PTX | MUSTER_KERNEL_OPENCL;
    if (rig_runs_functions(rig) || !(rig->info->forms & sources))
        return rig_kernel_named(rig, code->function, code->entry);
    struct rig_object *object = make(RIG_KERNEL, rig->device, rig->table.kernel_bytes);
    if (build(rig, code, object) == MUSTER_OK)
        return keep(rig, object);
    delete_object(object);
    return NULL;
}

void *rig_host(struct rig *rig, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const struct platform_part part = { .bytes = (bytes + page - 1) / page * page };
    /* Every second piece is the program's own. */
    if (!rig->arena || rig->hosts++ % 2 == 1)
        return keep(rig, make(RIG_HOST, NULL, bytes));
    struct rig_object *object = make(RIG_HOST, NULL, 1);
    free(object->state);
    object->state = platform_arena_take(rig->arena, &part);
    object->bytes = bytes;
    object->arena = rig->arena;
    if (!object->state)
        test_fail(__FILE__, __LINE__, "no shared memory for %zu bytes", bytes);
    return keep(rig, object);
}

void rig_stream_close(struct rig *rig, void *stream)
{
    struct rig_object *object = take_out(rig, stream);
    rig->table.stream_close(stream);
    delete_object(object);
}

void rig_event_deinit(struct rig *rig, void *event)
{
    struct rig_object *object = take_out(rig, event);
    rig->table.event_deinit(event);
    delete_object(object);
}

void rig_memory_free(struct rig *rig, void *stream, struct muster_memory *memory)
{
    struct rig_object *object = take_out(rig, memory);
    DO(rig, memory_free, object->device, stream, memory);
    delete_object(object);
}

static void close_object(struct rig *rig, const struct rig_object *object, bool is_broken)
{
    switch (object->kind) {
    case RIG_STREAM:
        rig->table.stream_close(object->state);
        break;
    case RIG_EVENT:
        rig->table.event_deinit(object->state);
        break;
    case RIG_GATE:
        rig->table.gate_deinit(object->state);
        break;
    case RIG_KERNEL:
        rig->table.kernel_deinit(object->state);
        break;
    case RIG_MEMORY:
        /* On a broken device it goes with the device. */
        if (!is_broken)
            DO(rig, memory_free, object->device, NULL, object->state);
        break;
    case RIG_HOST:
        break;
    }
}

static void close_kind(struct rig *rig, enum object_kind kind, bool is_broken)
{
    for (struct rig_object **at = &rig->objects; *at;) {
        struct rig_object *object = *at;
        if (object->kind != kind) {
            at = &object->next;
            continue;
        }
        close_object(rig, object, is_broken);
        *at = object->next;
        delete_object(object);
    }
}

static void close_all(struct rig *rig, bool is_broken, muster_status expected)
{
    if (newest == rig)
        newest = NULL;
    for (enum object_kind kind = RIG_STREAM; kind < RIG_HOST; kind++)
        close_kind(rig, kind, is_broken);
    for (uint32_t i = RIG_DEVICES_MAX; i-- > 0;)
        if (rig->devices[i].state) {
            CHECK_STATUS(i == 0 ? expected : MUSTER_OK,
                         rig->table.device_close(rig->devices[i].state));
            free(rig->devices[i].state);
        }
    if (rig->cut) {
        rig->table.slice_unplan(rig->cut);
        CHECK_STATUS(MUSTER_OK, rig->table.device_close(rig->cut));
        free(rig->cut);
    }
    /* Until here the device could still have been writing to it. */
    close_kind(rig, RIG_HOST, is_broken);
    rig->table.close(rig->backend);
    CHECK_EQUAL(0, atomic_load_explicit(&rig->bytes_taken, memory_order_relaxed));
    rig_delete(rig);
}

void rig_close(struct rig *rig)
{
    for (struct rig_object *object = rig->objects; object; object = object->next)
        if (object->kind == RIG_STREAM) {
            void *event = rig_state(rig->table.event_bytes);
            DO(rig, event_init, object->device, MUSTER_EVENT_ORDER, event);
            DO(rig, event_record, event, object->state);
            muster_status status = rig->table.event_wait(event, SOON_NS, &rig->err);
            CHECK(status == MUSTER_OK || status == MUSTER_E_STREAM_FAILED);
            rig->table.event_deinit(event);
            free(event);
        }
    close_all(rig, false, MUSTER_OK);
}

/* Cases that had nothing to do. */
static struct {
    const char *name, *why;
} left_out[128];
static unsigned left_out_count;

void rig_leave_out_case(struct rig *rig, const char *name, const char *why)
{
    unsigned at = left_out_count < 128 ? left_out_count++ : 127;
    left_out[at].name = name;
    left_out[at].why = why;
    rig_close(rig);
}

void rig_say_left_out(void)
{
    printf("%u left out\n", left_out_count);
    for (unsigned i = 0; i < left_out_count; i++)
        printf("    %s: %s\n", left_out[i].name, left_out[i].why);
}

void rig_close_broken(struct rig *rig, muster_status expected)
{
    close_all(rig, true, expected);
}

void rig_copy_in(struct rig *rig, void *stream, const struct muster_memory *to, uint64_t offset,
                 const void *from, uint64_t bytes)
{
    const struct muster_copy_desc copy = { .to = { .memory = to, .offset = offset },
                                           .from = { .host = (void *)from },
                                           .bytes = bytes };
    DO(rig, copy, stream, &copy);
}

void rig_copy_out(struct rig *rig, void *stream, void *to, const struct muster_memory *from,
                  uint64_t offset, uint64_t bytes)
{
    const struct muster_copy_desc copy = { .to = { .host = to },
                                           .from = { .memory = from, .offset = offset },
                                           .bytes = bytes };
    DO(rig, copy, stream, &copy);
}

void rig_fill(struct rig *rig, void *stream, const struct muster_memory *to, uint64_t offset,
              uint8_t value, uint64_t bytes)
{
    const struct muster_place place = { .memory = to, .offset = offset };
    DO(rig, fill, stream, &place, value, bytes);
}

void rig_launch(struct rig *rig, void *stream, void *kernel, uint64_t begin, uint64_t items,
                const struct muster_launch_arg *args, size_t arg_count, muster_status *result)
{
    const struct muster_launch_desc launch = {
        .begin = begin, .items = items, .args = args, .arg_count = arg_count, .result = result
    };
    DO(rig, launch, stream, kernel, &launch, 1);
}

muster_status rig_finish(struct rig *rig, void *stream)
{
    void *event = rig_event(rig);
    DO(rig, event_record, event, stream);
    rig_clear_error(rig);
    muster_status status = rig->table.event_wait(event, SOON_NS, &rig->err);
    if (status != MUSTER_OK && (rig->err.status != status || rig->err.text[0] == 0))
        test_fail(__FILE__, __LINE__, "an event completes with %s and does not say why",
                  muster_status_name(status));
    rig_event_deinit(rig, event);
    return status;
}

void rig_hold(struct rig *rig, void *gate, void *stream)
{
    if (gate)
        DO(rig, gate_wait, gate, stream, 1);
}

void rig_release(struct rig *rig, void *gate)
{
    if (gate)
        DO(rig, gate_publish, gate, 1);
}

void rig_check_not_yet(const char *file, int line, struct rig *rig, void *gate, void *event)
{
    if (!gate)
        return;
    muster_status status = rig->table.event_wait(event, LOOK_NS, &rig->err);
    if (status != MUSTER_E_TIMEOUT)
        test_fail(file, line, "an event that must not be complete yet answers %s",
                  muster_status_name(status));
}
