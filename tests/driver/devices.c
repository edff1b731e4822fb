/*
 * Devices and contexts: one primary context each, green contexts cut from it, and which is current
 * on a thread.
 */
#include "inside.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXTS_DEEP 16
/* As compute capability 9.0 has it: parts of at least 8 multiprocessors, in steps of 8. */
#define PART_STEP 8u

struct device devices[DEVICES_MAX];
_Atomic bool is_initialised;
_Thread_local bool in_host_function;
_Atomic uint64_t objects_left_behind;

static _Thread_local struct context *current[CONTEXTS_DEEP];
static _Thread_local int current_count;

struct context *context_current(void)
{
    return current_count > 0 ? current[current_count - 1] : NULL;
}

void device_poison(struct device *device, CUresult error)
{
    CUresult none = CUDA_SUCCESS;
    atomic_compare_exchange_strong_explicit(&device->sticky, &none, error, memory_order_relaxed,
                                            memory_order_relaxed);
}

void device_come_to_rest(struct device *device)
{
    while (atomic_load_explicit(&device->performing, memory_order_acquire) > 0)
        sched_yield();
}

bool device_is_over(struct device *device)
{
    return atomic_load_explicit(&device->sticky, memory_order_relaxed) != CUDA_SUCCESS ||
           atomic_load_explicit(&device->is_ending, memory_order_relaxed);
}

void object_add(struct object *object, enum kind kind, struct device *device)
{
    object->kind = kind;
    object->device = device;
    pthread_mutex_lock(&device->mutex);
    object->next = device->objects;
    object->previous = NULL;
    if (object->next)
        object->next->previous = object;
    device->objects = object;
    pthread_mutex_unlock(&device->mutex);
}

void object_remove(struct object *object)
{
    struct device *device = object->device;
    pthread_mutex_lock(&device->mutex);
    if (object->next)
        object->next->previous = object->previous;
    if (object->previous)
        object->previous->next = object->next;
    else
        device->objects = object->next;
    object->kind = KIND_GONE;
    pthread_mutex_unlock(&device->mutex);
}

API(cuInit, unsigned flags)
{
    BEGIN(CHECK_NOTHING);
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (settings.init != 0)
        return settings.init;
    if (settings.devices == 0)
        return CUDA_ERROR_NO_DEVICE;
    atomic_store(&is_initialised, true);
    return CUDA_SUCCESS;
}

API(cuDriverGetVersion, int *version)
{
    BEGIN(CHECK_NOTHING);
    *version = (int)settings.version;
    return CUDA_SUCCESS;
}

static const struct {
    CUresult code;
    const char *name, *text;
} errors[] = {
    { 0, "CUDA_SUCCESS", "no error" },
    { 1, "CUDA_ERROR_INVALID_VALUE", "invalid argument" },
    { 2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
    { 3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error" },
    { 46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable" },
    { 100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected" },
    { 101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal" },
    { 200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid" },
    { 201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context" },
    { 209, "CUDA_ERROR_NO_BINARY_FOR_GPU",
      "no kernel image is available for execution on the device" },
    { 214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered" },
    { 218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed" },
    { 222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
      "the provided PTX was compiled with an unsupported toolchain." },
    { 400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle" },
    { 500, "CUDA_ERROR_NOT_FOUND", "named symbol not found" },
    { 600, "CUDA_ERROR_NOT_READY", "device not ready" },
    { 700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered" },
    { 712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
      "part or all of the requested memory range is already mapped" },
    { 713, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
      "pointer does not correspond to a registered memory region" },
    { 719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure" },
    { 800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted" },
    { 801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported" },
    { 803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
      "system has unsupported display driver / cuda driver combination" },
    { 914, "CUDA_ERROR_INVALID_RESOURCE_TYPE",
      "the resource requested is invalid for this operation" },
    { 915, "CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION", "invalid resource configuration" },
    { 999, "CUDA_ERROR_UNKNOWN", "unknown error" },
};

/* Words cannot fail, or a caller that asks for them has none for its own failure. */
API(cuGetErrorName, CUresult error, const char **name)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == error) {
            *name = errors[i].name;
            return CUDA_SUCCESS;
        }
    *name = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

API(cuGetErrorString, CUresult error, const char **text)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == error) {
            *text = errors[i].text;
            return CUDA_SUCCESS;
        }
    *text = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

static bool is_device(CUdevice device)
{
    return device >= 0 && (uint32_t)device < settings.devices;
}

API(cuDeviceGetCount, int *count)
{
    BEGIN(CHECK_INIT);
    *count = (int)settings.devices;
    return CUDA_SUCCESS;
}

API(cuDeviceGet, CUdevice *device, int ordinal)
{
    BEGIN(CHECK_INIT);
    if (!is_device(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

API(cuDeviceGetName, char *name, int length, CUdevice device)
{
    BEGIN(CHECK_INIT);
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)length, "Muster Test GPU");
    return CUDA_SUCCESS;
}

API(cuDeviceTotalMem_v2, size_t *bytes, CUdevice device)
{
    BEGIN(CHECK_INIT);
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *bytes = settings.memory;
    return CUDA_SUCCESS;
}

API(cuDeviceGetPCIBusId, char *text, int length, CUdevice device)
{
    BEGIN(CHECK_INIT);
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(text, (size_t)length, "0000:%02X:00.0", 0x3b + device);
    return CUDA_SUCCESS;
}

API(cuDeviceGetUuid_v2, unsigned char *uuid, CUdevice device)
{
    BEGIN(CHECK_INIT);
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    memset(uuid, 0x11 + device, 16);
    return CUDA_SUCCESS;
}

API(cuDeviceGetAttribute, int *value, unsigned attribute, CUdevice device)
{
    BEGIN(CHECK_INIT);
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    const struct {
        unsigned attribute;
        int value;
    } attributes[] = {
        { 1, 1024 }, /* threads of a block */
        { 2, 1024 }, /* block, x y z */
        { 3, 1024 },
        { 4, 64 },
        { 5, (int)settings.grid }, /* grid, x y z */
        { 6, 65535 },
        { 7, 65535 },
        { 13, 1980000 },                      /* clock, kHz */
        { 16, (int)settings.sms },            /* multiprocessors */
        { 39, 2048 },                         /* threads of a multiprocessor */
        { 40, 3 },                            /* copy engines */
        { 41, 1 },                            /* unified addressing */
        { 75, (int)(settings.compute / 10) }, /* compute capability */
        { 76, (int)(settings.compute % 10) },
        { 78, 1 },                   /* stream priorities */
        { 99, 1 },                   /* host memory can be registered */
        { 115, settings.has_pools }, /* memory pools */
        { 122, settings.has_gates }, /* 64-bit waits on values */
        { 134, -1 },                 /* NUMA node of the host */
    };
    *value = 0;
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (attributes[i].attribute == attribute)
            *value = attributes[i].value;
    return CUDA_SUCCESS;
}

/* --- contexts ---------------------------------------------------------------------------------- */

static void retain(struct device *device)
{
    pthread_mutex_lock(&device->lifecycle);
    pthread_mutex_lock(&device->mutex);
    device->references++;
    device->primary.device = device;
    device->primary.sms = settings.sms;
    pthread_mutex_unlock(&device->mutex);
    pthread_mutex_unlock(&device->lifecycle);
}

API(cuDevicePrimaryCtxRetain, CUcontext *context, CUdevice number)
{
    BEGIN(CHECK_INIT);
    if (!is_device(number))
        return CUDA_ERROR_INVALID_DEVICE;
    struct device *device = &devices[number];
    CUresult sticky = atomic_load_explicit(&device->sticky, memory_order_relaxed);
    if (sticky != CUDA_SUCCESS)
        return sticky;
    retain(device);
    *context = &device->primary;
    return CUDA_SUCCESS;
}

static void end_object(struct object *object)
{
    switch (object->kind) {
    case KIND_EVENT:
        event_free(object);
        break;
    case KIND_MODULE:
        module_end(object);
        break;
    case KIND_ALLOCATION:
    case KIND_REGISTRATION:
    case KIND_POOL:
        memory_end(object);
        break;
    case KIND_GRAPH:
        graph_end(object);
        break;
    case KIND_GREEN:
        object_remove(object);
        free(object);
        break;
    default:
        break;
    }
}

/* Streams first, and joined: nothing runs when what they use is taken away. */
static void end_device(struct device *device)
{
    atomic_store(&device->is_ending, true);
    uint64_t left = 0;
    for (int pass = 0; pass < 2; pass++)
        for (struct object *object = device->objects, *next; object; object = next) {
            next = object->next;
            if (object->kind == KIND_STREAM && pass == 0) {
                struct stream *stream = (struct stream *)object;
                left += !stream->is_zombie && !stream->is_dead && stream != device->primary.legacy;
                stream_end(stream);
            } else if (pass == 1) {
                left++;
                end_object(object);
            }
        }
    atomic_fetch_add(&objects_left_behind, left);
    device->primary.legacy = NULL;
    atomic_store(&device->used_bytes, 0);
    atomic_store(&device->is_ending, false);
}

static CUresult release(struct device *device)
{
    pthread_mutex_lock(&device->lifecycle);
    pthread_mutex_lock(&device->mutex);
    bool was_held = device->references > 0;
    bool is_last = device->references == 1;
    if (was_held)
        device->references--;
    pthread_mutex_unlock(&device->mutex);
    if (is_last)
        end_device(device);
    pthread_mutex_unlock(&device->lifecycle);
    return was_held ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

API(cuDevicePrimaryCtxRelease_v2, CUdevice number)
{
    BEGIN(CHECK_INIT);
    return is_device(number) ? release(&devices[number]) : CUDA_ERROR_INVALID_DEVICE;
}

/* These three work in a context that an error has ended, or nobody could get off it. */
API(cuCtxPushCurrent_v2, CUcontext context)
{
    BEGIN(CHECK_INIT);
    if (!context || current_count == CONTEXTS_DEEP)
        return CUDA_ERROR_INVALID_VALUE;
    if (context->device->references == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    current[current_count++] = context;
    return CUDA_SUCCESS;
}

API(cuCtxPopCurrent_v2, CUcontext *context)
{
    BEGIN(CHECK_INIT);
    if (current_count == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    current_count--;
    if (context)
        *context = current[current_count];
    return CUDA_SUCCESS;
}

API(cuCtxGetCurrent, CUcontext *context)
{
    BEGIN(CHECK_INIT);
    *context = context_current();
    return CUDA_SUCCESS;
}

API(cuCtxSetCurrent, CUcontext context)
{
    BEGIN(CHECK_INIT);
    current_count -= current_count > 0;
    if (context)
        current[current_count++] = context;
    return CUDA_SUCCESS;
}

API(cuCtxGetStreamPriorityRange, int *least, int *greatest)
{
    BEGIN(CHECK_CONTEXT);
    if (least)
        *least = 0;
    if (greatest)
        *greatest = -5;
    return CUDA_SUCCESS;
}

/* --- green contexts ---------------------------------------------------------------------------- */

struct green {
    struct object object;
    struct context context;
};

/* The layout is CUDA's; `internal` is where this driver notes what the resource is a part of. */
typedef struct {
    unsigned type; /* 1: multiprocessors */
    uint32_t device;
    uint32_t split; /* the number of the call that made it; 0: the whole device */
    uint32_t is_rest;
    unsigned char internal[80];
    struct {
        unsigned count, least, step;
    } sm;
    unsigned char oversize[36];
} CUdevResource;
_Static_assert(sizeof(CUdevResource) == 144, "the layout of CUDA");
_Static_assert(offsetof(CUdevResource, sm) == 96, "the layout of CUDA");

static CUdevResource resource_of(uint32_t device, uint32_t count, uint32_t split)
{
    return (CUdevResource){ .type = 1,
                            .device = device,
                            .split = split,
                            .sm = { .count = count, .least = PART_STEP, .step = PART_STEP } };
}

API(cuDeviceGetDevResource, CUdevice number, CUdevResource *resource, unsigned type)
{
    BEGIN(CHECK_INIT);
    if (!is_device(number))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!settings.has_green)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (type != 1)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    *resource = resource_of((uint32_t)number, settings.sms, 0);
    return CUDA_SUCCESS;
}

/*
 * As measured on an H200: parts of one size, what was asked rounded up to the step; as many as fit, at
 * most those asked; the rest stays in `remaining` and cannot be cut again. Its clusters are not all of
 * one size, and the step keeps to clusters, so that of 132 multiprocessors 12 are in no part of 8.
 */
API(cuDevSmResourceSplitByCount, CUdevResource *result, unsigned *count, const CUdevResource *input,
    CUdevResource *remaining, unsigned flags, unsigned least)
{
    static _Atomic uint32_t splits;
    BEGIN(CHECK_INIT);
    if (!count || !input || input->type != 1 || flags > 1 || least > input->sm.count)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned step = flags == 1 ? 2 : PART_STEP, total = input->sm.count;
    unsigned size = least < step ? step : (least + step - 1) / step * step;
    unsigned in_steps = total / step - (total % step != 0 && total > step);
    unsigned fit = in_steps * step / size;
    if (fit == 0 || input->is_rest)
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    if (!result) {
        *count = fit;
        return CUDA_SUCCESS;
    }
    *count = *count < fit ? *count : fit;
    uint32_t device = input->device, rest = total - *count * size;
    uint32_t split = atomic_fetch_add(&splits, 1) + 1;
    for (unsigned i = 0; i < *count; i++)
        result[i] = resource_of(device, size, split);
    if (remaining) {
        *remaining = resource_of(device, rest, split);
        remaining->type = rest > 0 ? 1 : 0;
        remaining->is_rest = 1;
    }
    return CUDA_SUCCESS;
}

/* Descriptions live as long as the process, as the real ones do for want of a function to free them. */
struct CUdevResourceDesc_st {
    uint32_t device, sms;
    struct CUdevResourceDesc_st *next;
};

API(cuDevResourceGenerateDesc, struct CUdevResourceDesc_st **desc, CUdevResource *resources,
    unsigned count)
{
    static struct CUdevResourceDesc_st *_Atomic all;
    BEGIN(CHECK_INIT);
    if (!desc || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++)
        if (resources[i].type != 1 || resources[i].split != resources[0].split)
            return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    struct CUdevResourceDesc_st *made = calloc(1, sizeof *made);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->device = resources[0].device;
    for (unsigned i = 0; i < count; i++)
        made->sms += resources[i].sm.count;
    made->next = atomic_exchange(&all, made);
    *desc = made;
    return CUDA_SUCCESS;
}

API(cuGreenCtxCreate, CUgreenCtx *out, struct CUdevResourceDesc_st *desc, CUdevice number,
    unsigned flags)
{
    BEGIN(CHECK_INIT);
    if (!is_device(number) || !desc || desc->device != (uint32_t)number || flags != 1)
        return CUDA_ERROR_INVALID_VALUE;
    struct device *device = &devices[number];
    CUresult sticky = atomic_load_explicit(&device->sticky, memory_order_relaxed);
    if (sticky != CUDA_SUCCESS)
        return sticky;
    struct green *green = calloc(1, sizeof *green);
    if (!green)
        return CUDA_ERROR_OUT_OF_MEMORY;
    green->context = (struct context){ .device = device, .sms = desc->sms };
    /* It keeps the primary context alive. */
    retain(device);
    object_add(&green->object, KIND_GREEN, device);
    *out = green;
    return CUDA_SUCCESS;
}

API(cuGreenCtxDestroy, CUgreenCtx green)
{
    BEGIN(CHECK_INIT);
    if (!IS(green, KIND_GREEN))
        return CUDA_ERROR_INVALID_HANDLE;
    struct device *device = green->object.device;
    object_remove(&green->object);
    free(green);
    return release(device);
}

API(cuCtxFromGreenCtx, CUcontext *context, CUgreenCtx green)
{
    BEGIN(CHECK_INIT);
    if (!IS(green, KIND_GREEN))
        return CUDA_ERROR_INVALID_HANDLE;
    *context = &green->context;
    return CUDA_SUCCESS;
}

API(cuGreenCtxStreamCreate, CUstream *stream, CUgreenCtx green, unsigned flags, int priority)
{
    BEGIN(CHECK_INIT);
    if (!IS(green, KIND_GREEN))
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags != 1)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult sticky = atomic_load_explicit(&green->context.device->sticky, memory_order_relaxed);
    return sticky != CUDA_SUCCESS ? sticky : stream_make(&green->context, flags, priority, stream);
}
