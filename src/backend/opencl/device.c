/*
 * Devices: what they are, their context, losing them, cutting them.
 */
#include "backend/opencl/device.h"

#include "base/allocator.h"
#include "base/invariant.h"
#include "platform/machine.h"

#include <stdio.h>
#include <string.h>

/*
 * What work that will not end gets at close, after the runtime has waited for it already. Long
 * enough for a busy machine: the last marker of a stream is given when the stream is closed.
 */
#define CLOSE_GRACE_NS 1000000000u
/* For callbacks that the driver has yet to make; one that never comes costs this once. */
#define CALLBACK_GRACE_NS 1000000000u
#define CALLBACK_GRACE_LOST_NS 50000000u
/* With callbacks a thread looks in case one does not come; without them looking is the only way. */
#define PAUSE_FIRST_NS 1000000u
#define PAUSE_LAST_NS 20000000u
#define PAUSE_FIRST_ALONE_NS 20000u
#define PAUSE_LAST_ALONE_NS 1000000u
/* How long a device that may be lost has for an empty command. */
#define ANSWER_NS 200000000u
#define LOOK_AGAIN_NS 1000000u

#define PRIORITY_HIGH (-1)
#define PRIORITY_LOW 1
/* A compute unit of a GPU beside all cores of a machine, until something is measured. */
#define UNITS_PER_WEIGHT 4.0

static muster_status say_lost(const struct opencl_device *device, struct muster_error *err)
{
    int code = atomic_load_explicit(&device->loss_code, memory_order_relaxed);
    return muster_error_fill(err, MUSTER_E_DEVICE_LOST, code,
                             "close the runtime, or go on with other devices",
                             "the device is lost%s%s", code != 0 ? ": the driver answered " : "",
                             code != 0 ? opencl_code_name(code) : "");
}

muster_status opencl_check(const struct opencl_device *device, struct muster_error *err)
{
    if (!atomic_load_explicit(device->is_lost, memory_order_acquire))
        return MUSTER_OK;
    return say_lost(device, err);
}

static muster_status lose(struct opencl_device *device, opencl_int code, struct muster_error *err)
{
    atomic_store_explicit(&device->loss_code, code, memory_order_relaxed);
    atomic_store_explicit(device->is_lost, true, memory_order_release);
    opencl_settle_results(device);
    opencl_ring(device);
    return say_lost(device, err);
}

void opencl_lose(struct opencl_device *device)
{
    lose(device, OPENCL_OUT_OF_RESOURCES, NULL);
}

/* Whether an empty command still gets through. One that is late does not count against it. */
static bool answers(struct opencl_device *device)
{
    const struct opencl_driver *driver = opencl_of(device);
    if (!device->queue)
        return true;
    opencl_event event = NULL;
    platform_mutex_lock(&device->queue_lock);
    opencl_int code_given = driver->clEnqueueMarkerWithWaitList(device->queue, 0, NULL, &event);
    bool is_well = code_given == OPENCL_SUCCESS && driver->clFlush(device->queue) == OPENCL_SUCCESS;
    platform_mutex_unlock(&device->queue_lock);
    if (code_given != OPENCL_SUCCESS)
        return false;
    uint64_t deadline_ns = platform_deadline_ns(ANSWER_NS);
    opencl_int code = opencl_event_code(device, event);
    while (is_well && code > OPENCL_COMPLETE && platform_clock_ns() < deadline_ns) {
        platform_thread_yield();
        code = opencl_event_code(device, event);
    }
    opencl_release(device, event);
    return is_well && code >= OPENCL_COMPLETE;
}

muster_status opencl_refused(struct opencl_device *device, opencl_int code, const char *what,
                             struct muster_error *err)
{
    muster_status status = opencl_check(device, err);
    if (status != MUSTER_OK)
        return status;
    switch (code) {
    case OPENCL_DEVICE_NOT_AVAILABLE:
    case OPENCL_ILLEGAL_ACCESS_NV:
        return lose(device, code, err);
    case OPENCL_MEM_OBJECT_ALLOCATION_FAILURE:
    case OPENCL_INVALID_BUFFER_SIZE:
        return muster_error_fill(err, MUSTER_E_DEVICE_MEMORY, code,
                                 "free memory, or ask for less at a time",
                                 "%s: the device has no memory for it (%d, %s)", what, (int)code,
                                 opencl_code_name(code));
    case OPENCL_OUT_OF_HOST_MEMORY:
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, code, NULL,
                                 "%s: the OpenCL driver has no host memory", what);
    default:
        /* Drivers have one code for want of registers and for a context that is no more. */
        if (!answers(device))
            return lose(device, code, err);
        return muster_error_fill(err, MUSTER_E_DRIVER, code, NULL,
                                 "%s: the OpenCL driver answers %d, %s", what, (int)code,
                                 opencl_code_name(code));
    }
}

/* The lock is held; what the driver answers is looked into without it. */
static opencl_int make_context(struct opencl_device *device)
{
    const struct opencl_driver *driver = opencl_of(device);
    opencl_int code = OPENCL_SUCCESS;
    opencl_context context = driver->clCreateContext(NULL, 1, &device->id, NULL, NULL, &code);
    if (!context)
        return code;
    opencl_queue queue = driver->clCreateCommandQueue(context, device->id, 0, &code);
    if (!queue) {
        driver->clReleaseContext(context);
        return code;
    }
    device->context = context;
    device->queue = queue;
    return OPENCL_SUCCESS;
}

muster_status opencl_ready(struct opencl_device *device, struct muster_error *err)
{
    muster_status status = opencl_check(device, err);
    if (status != MUSTER_OK)
        return status;
    platform_mutex_lock(&device->lock);
    opencl_int code = device->context ? OPENCL_SUCCESS : make_context(device);
    platform_mutex_unlock(&device->lock);
    return code == OPENCL_SUCCESS ? MUSTER_OK
                                  : opencl_refused(device, code, "making a context", err);
}

/* Facts. */

/* 0 if the driver does not say. */
static uint64_t number_of(const struct opencl_device *device, opencl_uint name, size_t bytes)
{
    uint64_t number = 0;
    opencl_uint narrow = 0;
    const struct opencl_driver *driver = opencl_of(device);
    if (bytes == sizeof narrow) {
        driver->clGetDeviceInfo(device->id, name, sizeof narrow, &narrow, NULL);
        return narrow;
    }
    driver->clGetDeviceInfo(device->id, name, sizeof number, &number, NULL);
    return number;
}

/* Whether a word is in a list that spaces separate. */
static bool lists(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = strstr(list, word); at; at = strstr(at + 1, word))
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || at[length] == 0))
            return true;
    return false;
}

static void describe_pci(const struct opencl_device *device, const char *extensions,
                         struct muster_device_info *info)
{
    struct {
        uint32_t domain, bus, device, function;
    } pci = { 0, 0, 0, 0 };
    const struct opencl_driver *driver = opencl_of(device);
    if (lists(extensions, "cl_khr_pci_bus_info")) {
        if (driver->clGetDeviceInfo(device->id, OPENCL_DEVICE_PCI_BUS_INFO_KHR, sizeof pci, &pci,
                                    NULL) != OPENCL_SUCCESS)
            return;
    } else if (lists(extensions, "cl_nv_device_attribute_query")) {
        if (driver->clGetDeviceInfo(device->id, OPENCL_DEVICE_PCI_BUS_ID_NV, sizeof pci.bus,
                                    &pci.bus, NULL) != OPENCL_SUCCESS ||
            driver->clGetDeviceInfo(device->id, OPENCL_DEVICE_PCI_SLOT_ID_NV, sizeof pci.device,
                                    &pci.device, NULL) != OPENCL_SUCCESS)
            return;
        /* An older driver knows no domain: then there is one. */
        driver->clGetDeviceInfo(device->id, OPENCL_DEVICE_PCI_DOMAIN_ID_NV, sizeof pci.domain,
                                &pci.domain, NULL);
    } else {
        return;
    }
    snprintf(info->pci, sizeof info->pci, "%04x:%02x:%02x.%x", pci.domain & 0xffff, pci.bus & 0xff,
             pci.device & 0xff, pci.function & 0xf);
}

static bool can_be_cut(const struct opencl_device *device)
{
    intptr_t ways[16] = { 0 };
    size_t bytes = 0;
    if (number_of(device, OPENCL_DEVICE_PARTITION_MAX_SUB_DEVICES, sizeof(opencl_uint)) == 0 ||
        opencl_of(device)->clGetDeviceInfo(device->id, OPENCL_DEVICE_PARTITION_PROPERTIES,
                                           sizeof ways, ways, &bytes) != OPENCL_SUCCESS)
        return false;
    for (size_t i = 0; i < bytes / sizeof *ways; i++)
        if (ways[i] == OPENCL_DEVICE_PARTITION_BY_COUNTS)
            return true;
    return false;
}

static void describe_name(const struct opencl_device *device, struct muster_device_info *info)
{
    char name[512] = "";
    opencl_of(device)->clGetDeviceInfo(device->id, OPENCL_DEVICE_NAME, sizeof name - 1, name, NULL);
    const char *begin = name + strspn(name, " ");
    snprintf(info->name, sizeof info->name, "%s", *begin ? begin : "OpenCL device");
}

static void describe_extensions(struct opencl_device *device, const char *extensions,
                                struct muster_device_info *info)
{
    describe_pci(device, extensions, info);
    device->fails_whole = lists(extensions, "cl_nv_device_attribute_query");
    device->has_free_memory = lists(extensions, "cl_amd_device_attribute_query");
    device->has_priorities = lists(extensions, "cl_khr_priority_hints") &&
                             opencl_of(device)->clCreateCommandQueueWithProperties;
    if (device->has_priorities) {
        info->capabilities |= MUSTER_CAN_PRIORITIES;
        info->priority_greatest = PRIORITY_HIGH;
        info->priority_least = PRIORITY_LOW;
    }
}

static muster_status read_extensions(struct opencl_device *device, struct muster_device_info *info,
                                     struct muster_error *err)
{
    const struct opencl_driver *driver = opencl_of(device);
    size_t bytes = 0;
    opencl_int code =
        driver->clGetDeviceInfo(device->id, OPENCL_DEVICE_EXTENSIONS, 0, NULL, &bytes);
    if (code != OPENCL_SUCCESS)
        return opencl_refused(device, code, "asking for a device's extensions", err);
    char *text = allocator_take(opencl_allocator(device), bytes + 1, 1);
    if (!text)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a device");
    driver->clGetDeviceInfo(device->id, OPENCL_DEVICE_EXTENSIONS, bytes, text, NULL);
    describe_extensions(device, text, info);
    allocator_give(opencl_allocator(device), text, bytes + 1, 1);
    return MUSTER_OK;
}

static muster_status describe(struct opencl_device *device, struct muster_device_info *info,
                              struct muster_error *err)
{
    uint64_t type = number_of(device, OPENCL_DEVICE_TYPE, sizeof(uint64_t));
    device->cores =
        (uint32_t)number_of(device, OPENCL_DEVICE_MAX_COMPUTE_UNITS, sizeof(opencl_uint));
    device->memory_total = number_of(device, OPENCL_DEVICE_GLOBAL_MEM_SIZE, sizeof(uint64_t));
    device->allocation_max = number_of(device, OPENCL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(uint64_t));
    device->can_compile =
        number_of(device, OPENCL_DEVICE_COMPILER_AVAILABLE, sizeof(opencl_uint)) != 0;
    device->rounds_division = number_of(device, OPENCL_DEVICE_SINGLE_FP_CONFIG, sizeof(uint64_t)) &
                              OPENCL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
    if (device->cores == 0 || device->memory_total == 0)
        return muster_error_fill(err, MUSTER_E_DRIVER, 0, "check the OpenCL driver",
                                 "an OpenCL device says that it has %u units and %llu bytes",
                                 device->cores, (unsigned long long)device->memory_total);
    describe_name(device, info);
    info->domain = device->domain;
    info->cores = device->cores;
    info->memory_total = device->memory_total;
    info->forms = device->can_compile ? MUSTER_KERNEL_OPENCL : 0;
    if (number_of(device, OPENCL_DEVICE_DOUBLE_FP_CONFIG, sizeof(uint64_t)) != 0)
        info->capabilities |= MUSTER_CAN_DOUBLE;
    info->kind = type & OPENCL_DEVICE_TYPE_CPU   ? MUSTER_KIND_CPU
                 : type & OPENCL_DEVICE_TYPE_GPU ? MUSTER_KIND_GPU
                                                 : MUSTER_KIND_ACCELERATOR;
    info->weight = info->kind == MUSTER_KIND_CPU || device->cores < UNITS_PER_WEIGHT
                       ? 1.0
                       : device->cores / UNITS_PER_WEIGHT;
    return read_extensions(device, info, err);
}

static muster_status init_locks(struct opencl_device *device, struct muster_error *err)
{
    struct opencl_bell *bell = &device->bell;
    muster_status status = platform_mutex_init(&device->lock, err);
    if (status != MUSTER_OK)
        return status;
    status = platform_mutex_init(&device->queue_lock, err);
    if (status != MUSTER_OK)
        goto no_queue_lock;
    status = platform_mutex_init(&bell->lock, err);
    if (status != MUSTER_OK)
        goto no_bell;
    status = platform_condition_init(&bell->waiters, err);
    if (status != MUSTER_OK)
        goto no_waiters;
    status = platform_condition_init(&bell->watcher, err);
    if (status == MUSTER_OK)
        return status;
    platform_condition_deinit(&bell->waiters);
no_waiters:
    platform_mutex_deinit(&bell->lock);
no_bell:
    platform_mutex_deinit(&device->queue_lock);
no_queue_lock:
    platform_mutex_deinit(&device->lock);
    return status;
}

static void deinit_locks(struct opencl_device *device)
{
    platform_condition_deinit(&device->bell.watcher);
    platform_condition_deinit(&device->bell.waiters);
    platform_mutex_deinit(&device->bell.lock);
    platform_mutex_deinit(&device->queue_lock);
    platform_mutex_deinit(&device->lock);
}

static void choose_callbacks(struct opencl_device *device)
{
    const char *asked = platform_environment("MUSTER_OPENCL_CALLBACKS");
    device->uses_callbacks = !asked || strcmp(asked, "0") != 0;
    device->pause_first_ns = device->uses_callbacks ? PAUSE_FIRST_NS : PAUSE_FIRST_ALONE_NS;
    device->pause_last_ns = device->uses_callbacks ? PAUSE_LAST_NS : PAUSE_LAST_ALONE_NS;
}

/* With opencl, id, domain and is_lost set. */
static muster_status open_device(struct opencl_device *device, struct muster_device_info *info,
                                 struct muster_error *err)
{
    muster_status status = init_locks(device, err);
    if (status != MUSTER_OK)
        return status;
    status = describe(device, info, err);
    if (status != MUSTER_OK) {
        deinit_locks(device);
        return status;
    }
    choose_callbacks(device);
    opencl_enlist(device);
    return MUSTER_OK;
}

muster_status opencl_device_open(void *state, uint32_t index, void *device_state,
                                 struct muster_device_info *info, struct muster_error *err)
{
    struct opencl *opencl = state;
    struct opencl_device *device = device_state;
    device->opencl = opencl;
    device->id = opencl->ids[index];
    device->domain = index;
    device->is_lost = &device->own_loss;
    muster_status status = open_device(device, info, err);
    if (status == MUSTER_OK && can_be_cut(device))
        info->capabilities |= MUSTER_CAN_SLICE;
    return status;
}

/* Waits until the closed streams are over, a short time. */
static bool finish_streams(struct opencl_device *device, uint64_t deadline_ns)
{
    while (!opencl_streams_reap(device)) {
        uint64_t now_ns = platform_clock_ns();
        if (now_ns >= deadline_ns)
            return false;
        platform_mutex_lock(&device->bell.lock);
        platform_condition_wait(&device->bell.waiters, &device->bell.lock, now_ns + LOOK_AGAIN_NS);
        platform_mutex_unlock(&device->bell.lock);
    }
    return true;
}

static void free_lists(struct opencl_device *device)
{
    const struct muster_allocator *allocator = opencl_allocator(device);
    while (device->free_calls) {
        struct opencl_call *call = device->free_calls;
        device->free_calls = call->next;
        allocator_give(allocator, call, 1, sizeof *call);
    }
    while (device->results) {
        struct opencl_result *result = device->results;
        device->results = result->next;
        opencl_release(device, result->event);
        opencl_release(device, result->before);
        allocator_give(allocator, result, 1, sizeof *result);
    }
    while (device->free_results) {
        struct opencl_result *result = device->free_results;
        device->free_results = result->next;
        allocator_give(allocator, result, 1, sizeof *result);
    }
}

muster_status opencl_device_close(void *state)
{
    struct opencl_device *device = state;
    const struct opencl_driver *driver = opencl_of(device);
    uint64_t deadline_ns = platform_deadline_ns(CLOSE_GRACE_NS);
    bool is_lost = opencl_check(device, NULL) != MUSTER_OK;
    bool is_over = is_lost || finish_streams(device, deadline_ns);
    muster_status unmade = is_lost ? MUSTER_E_DEVICE_LOST : MUSTER_E_DEVICE_HUNG;
    if (!opencl_watcher_stop(device, platform_deadline_ns(CLOSE_GRACE_NS), unmade) || !is_over) {
        opencl_delist(device);
        return MUSTER_E_DEVICE_HUNG;
    }
    device->is_owed = !opencl_end_callbacks(
        device, platform_deadline_ns(is_lost ? CALLBACK_GRACE_LOST_NS : CALLBACK_GRACE_NS));
    opencl_streams_free(device);
    free_lists(device);
    if (device->queue && !device->is_owed)
        driver->clReleaseCommandQueue(device->queue);
    if (device->context && !device->is_owed)
        driver->clReleaseContext(device->context);
    INVARIANT(!device->parts);
    deinit_locks(device);
    return MUSTER_OK;
}

muster_status opencl_device_sample(void *state, struct muster_device_sample *sample,
                                   struct muster_error *err)
{
    struct opencl_device *device = state;
    muster_status status = opencl_check(device, err);
    if (status != MUSTER_OK)
        return status;
    uint64_t used = atomic_load_explicit(&device->memory_used, memory_order_relaxed);
    uint64_t free = used < device->memory_total ? device->memory_total - used : 0;
    size_t free_kib[2] = { 0, 0 }; /* in all, and in one piece */
    if (device->has_free_memory &&
        opencl_of(device)->clGetDeviceInfo(device->id, OPENCL_DEVICE_GLOBAL_FREE_MEMORY_AMD,
                                           sizeof free_kib, free_kib, NULL) == OPENCL_SUCCESS &&
        free_kib[0] < device->memory_total / 1024)
        free = (uint64_t)free_kib[0] * 1024;
    *sample = (struct muster_device_sample){ .memory_total = device->memory_total,
                                             .memory_free = free,
                                             .utilisation = -1,
                                             .temperature_c = -300 };
    return MUSTER_OK;
}

/* Slices. */

static void free_plan(struct opencl_device *device, uint32_t made)
{
    for (uint32_t i = 0; i < made; i++)
        opencl_of(device)->clReleaseDevice(device->parts[i]);
    allocator_give(opencl_allocator(device), device->parts, device->part_count,
                   sizeof(opencl_device_id));
    allocator_give(opencl_allocator(device), device->part_sizes, device->part_count,
                   sizeof *device->part_sizes);
    device->parts = NULL;
    device->part_sizes = NULL;
    device->part_count = 0;
}

static muster_status cut(struct opencl_device *device, const uint32_t *sizes, size_t count,
                         struct muster_error *err)
{
    const struct muster_allocator *allocator = opencl_allocator(device);
    size_t property_count = count + 3;
    intptr_t *properties = allocator_take(allocator, property_count, sizeof *properties);
    device->parts = allocator_take(allocator, count, sizeof(opencl_device_id));
    device->part_sizes = allocator_take(allocator, count, sizeof *device->part_sizes);
    device->part_count = (uint32_t)count;
    if (!properties || !device->parts || !device->part_sizes) {
        allocator_give(allocator, properties, property_count, sizeof *properties);
        free_plan(device, 0);
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for slices");
    }
    properties[0] = OPENCL_DEVICE_PARTITION_BY_COUNTS;
    for (size_t i = 0; i < count; i++)
        properties[i + 1] = (intptr_t)(device->part_sizes[i] = sizes[i]);
    properties[count + 1] = OPENCL_DEVICE_PARTITION_BY_COUNTS_LIST_END;
    opencl_uint made = 0;
    opencl_int code = opencl_of(device)->clCreateSubDevices(
        device->id, properties, (opencl_uint)count, device->parts, &made);
    allocator_give(allocator, properties, property_count, sizeof *properties);
    if (code == OPENCL_SUCCESS && made == count)
        return MUSTER_OK;
    free_plan(device, code == OPENCL_SUCCESS && made <= count ? made : 0);
    return opencl_refused(device, code, "cutting the device", err);
}

muster_status opencl_slice_plan(void *state, const uint32_t *sizes, size_t count,
                                struct muster_error *err)
{
    struct opencl_device *device = state;
    muster_status status = opencl_check(device, err);
    if (status != MUSTER_OK)
        return status;
    if (!can_be_cut(device))
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "use the whole device",
                                 "its OpenCL driver cannot cut this device by counts");
    uint64_t sum = 0, parts_max = number_of(device, OPENCL_DEVICE_PARTITION_MAX_SUB_DEVICES,
                                            sizeof(opencl_uint));
    for (size_t i = 0; i < count; i++)
        sum += sizes[i];
    if (sum > device->cores || count > parts_max)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "ask for fewer or smaller slices",
                                 "%zu slices of %llu units in all; it has %u units and can be cut "
                                 "into %llu",
                                 count, (unsigned long long)sum, device->cores,
                                 (unsigned long long)parts_max);
    return cut(device, sizes, count, err);
}

muster_status opencl_slice_open(void *state, size_t index, void *slice_state,
                                struct muster_device_info *info, struct muster_error *err)
{
    struct opencl_device *device = state, *slice = slice_state;
    slice->opencl = device->opencl;
    slice->id = device->parts[index];
    slice->domain = device->domain;
    slice->is_lost = device->is_lost;
    return open_device(slice, info, err);
}

void opencl_slice_unplan(void *state)
{
    struct opencl_device *device = state;
    free_plan(device, device->part_count);
}
