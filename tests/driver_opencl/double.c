/*
 * libOpenCL.so.1 for tests: passes everything on to the real loader, whose path it was built with,
 * and fails where it is told to. With DOUBLE_NVIDIA in the environment devices say that they are
 * NVIDIA's, at the PCI address it holds; with DOUBLE_LATE_CALLBACKS callbacks come late (late.h); with
 * DOUBLE_MEMORY devices have that many bytes of memory.
 */
#include "double.h"
#include "late.h"

#include "backend/opencl/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define QUEUE_CONTEXT 0x1090u

static struct {
    struct opencl_driver driver;
    opencl_int (*clGetCommandQueueInfo)(opencl_queue, opencl_uint, size_t, void *, size_t *);
} real;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static _Atomic int mode, code_to_give, forgets_callbacks;
static _Atomic uint64_t fail_at, counted, asked;
static _Atomic int64_t live;
static _Atomic(opencl_event) late;

static void find_real(void)
{
    void *library = dlopen(REAL_OPENCL, RTLD_NOW | RTLD_LOCAL);
    void *symbol;
    if (!library) {
        fprintf(stderr, "the tests' OpenCL loader does not find the real one: %s\n", dlerror());
        abort();
    }
#define FIND(result, name, parameters)                                                             \
    symbol = dlsym(library, #name);                                                                \
    memcpy(&real.driver.name, &symbol, sizeof symbol);
    OPENCL_FUNCTIONS(FIND)
    OPENCL_OPTIONAL_FUNCTIONS(FIND)
#undef FIND
    symbol = dlsym(library, "clGetCommandQueueInfo");
    memcpy(&real.clGetCommandQueueInfo, &symbol, sizeof symbol);
    if (getenv("DOUBLE_LATE_CALLBACKS"))
        late_begin(&real.driver);
}

static const struct opencl_driver *go(void)
{
    pthread_once(&once, find_real);
    return &real.driver;
}

EXPORT void double_set(enum double_mode new_mode, uint64_t at, int code)
{
    atomic_store(&counted, 0);
    atomic_store(&fail_at, at);
    atomic_store(&code_to_give, code);
    atomic_store(&mode, new_mode);
}

EXPORT void double_fail_now(void)
{
    opencl_event event = atomic_exchange(&late, NULL);
    if (event) {
        go()->clSetUserEventStatus(event, atomic_load(&code_to_give));
        go()->clReleaseEvent(event);
    }
}

EXPORT void double_forget_callbacks(int forgets)
{
    atomic_store(&forgets_callbacks, forgets);
}

EXPORT void double_delay_callbacks(int delays)
{
    late_begin(go());
    late_delay(delays);
}

EXPORT uint64_t double_count(void)
{
    return atomic_load(&counted);
}

EXPORT uint64_t double_callbacks(void)
{
    return atomic_load(&asked);
}

EXPORT int64_t double_live(void)
{
    return atomic_load(&live);
}

static bool is_lost(void)
{
    return atomic_load(&mode) == DOUBLE_LOST && atomic_load(&counted) >= atomic_load(&fail_at);
}

/* Whether this call is one that fails. */
static bool fails(void)
{
    late_check_caller();
    int now = atomic_load(&mode);
    if (now != DOUBLE_ONCE && now != DOUBLE_LOST && now != DOUBLE_WELL)
        return false;
    uint64_t number = atomic_fetch_add(&counted, 1) + 1;
    return (now == DOUBLE_ONCE && number == atomic_load(&fail_at)) ||
           (now == DOUBLE_LOST && number >= atomic_load(&fail_at));
}

/* What was made is counted, and what is asked for twice too. */
static opencl_int made(opencl_int code, const void *object)
{
    if (code == OPENCL_SUCCESS && object)
        atomic_fetch_add(&live, 1);
    return code;
}

static opencl_int made_event(opencl_int code, opencl_event event)
{
    if (code == OPENCL_SUCCESS)
        late_event_held(event);
    return made(code, event);
}

static opencl_int released(opencl_int code)
{
    atomic_fetch_sub(&live, 1);
    return code;
}

/* A command that is not run: its event fails now or later. False if this one runs. */
static bool is_broken(opencl_queue queue, opencl_event *event)
{
    int now = atomic_load(&mode);
    if (now != DOUBLE_FAILED && now != DOUBLE_LATE)
        return false;
    if (atomic_fetch_add(&counted, 1) + 1 != atomic_load(&fail_at))
        return false;
    opencl_context context = NULL;
    opencl_int code;
    real.clGetCommandQueueInfo(queue, QUEUE_CONTEXT, sizeof context, &context, NULL);
    opencl_event broken = go()->clCreateUserEvent(context, &code);
    if (now == DOUBLE_FAILED) {
        go()->clSetUserEventStatus(broken, atomic_load(&code_to_give));
    } else {
        go()->clRetainEvent(broken);
        atomic_store(&late, broken);
    }
    if (event)
        made_event(OPENCL_SUCCESS, *event = broken);
    return true;
}

#define GIVE_CODE                                                                                  \
    if (fails())                                                                                   \
    return atomic_load(&code_to_give)
#define GIVE_NOTHING                                                                               \
    if (fails()) {                                                                                 \
        *code = atomic_load(&code_to_give);                                                        \
        return NULL;                                                                               \
    }
#define PLAIN(name, parameters, arguments)                                                         \
    EXPORT opencl_int name parameters;                                                             \
    EXPORT opencl_int name parameters                                                              \
    {                                                                                              \
        GIVE_CODE;                                                                                 \
        return go()->name arguments;                                                               \
    }
#define MAKES(type, name, parameters, arguments)                                                   \
    MAKES_NOTED(type, name, parameters, arguments, made)
#define MAKES_NOTED(type, name, parameters, arguments, note)                                       \
    EXPORT type name parameters;                                                                   \
    EXPORT type name parameters                                                                    \
    {                                                                                              \
        GIVE_NOTHING                                                                               \
        type object = go()->name arguments;                                                        \
        note(OPENCL_SUCCESS, object);                                                              \
        return object;                                                                             \
    }
#define RELEASES(name, type, note)                                                                 \
    EXPORT opencl_int name(type object);                                                           \
    EXPORT opencl_int name(type object)                                                            \
    {                                                                                              \
        note(object);                                                                              \
        return released(go()->name(object));                                                       \
    }
/* Marker and barrier; commands that do something can also be broken. */
#define ENQUEUES(name, can_break, parameters, arguments)                                           \
    EXPORT opencl_int name parameters;                                                             \
    EXPORT opencl_int name parameters                                                              \
    {                                                                                              \
        GIVE_CODE;                                                                                 \
        if (can_break && is_broken(queue, event))                                                  \
            return OPENCL_SUCCESS;                                                                 \
        opencl_int code = go()->name arguments;                                                    \
        return made_event(code, code == OPENCL_SUCCESS && event ? *event : NULL);                  \
    }
#define WAITS opencl_uint count, const opencl_event *wait, opencl_event *event

/* clang-format off */
PLAIN(clGetPlatformIDs, (opencl_uint n, opencl_platform *out, opencl_uint *count), (n, out, count))
PLAIN(clGetPlatformInfo, (opencl_platform p, opencl_uint name, size_t n, void *out, size_t *bytes),
      (p, name, n, out, bytes))
PLAIN(clGetDeviceIDs,
      (opencl_platform p, opencl_ulong type, opencl_uint n, opencl_device_id *out, opencl_uint *count),
      (p, type, n, out, count))
MAKES(opencl_context, clCreateContext,
      (const intptr_t *properties, opencl_uint n, const opencl_device_id *ids,
       void (*notify)(const char *, const void *, size_t, void *), void *user, opencl_int *code),
      (properties, n, ids, notify, user, code))
MAKES(opencl_queue, clCreateCommandQueue,
      (opencl_context context, opencl_device_id id, opencl_ulong properties, opencl_int *code),
      (context, id, properties, code))
MAKES(opencl_queue, clCreateCommandQueueWithProperties,
      (opencl_context context, opencl_device_id id, const opencl_ulong *properties, opencl_int *code),
      (context, id, properties, code))
MAKES(opencl_buffer, clCreateBuffer,
      (opencl_context context, opencl_ulong flags, size_t bytes, void *host, opencl_int *code),
      (context, flags, bytes, host, code))
MAKES_NOTED(opencl_event, clCreateUserEvent, (opencl_context context, opencl_int *code), (context, code),
            made_event)
MAKES(opencl_program, clCreateProgramWithSource,
      (opencl_context context, opencl_uint n, const char **text, const size_t *bytes, opencl_int *code),
      (context, n, text, bytes, code))
MAKES(opencl_kernel_object, clCreateKernel,
      (opencl_program program, const char *name, opencl_int *code), (program, name, code))
RELEASES(clReleaseContext, opencl_context, late_context_released)
RELEASES(clReleaseCommandQueue, opencl_queue, late_queue_released)
RELEASES(clReleaseMemObject, opencl_buffer, (void))
RELEASES(clReleaseEvent, opencl_event, late_event_released)
RELEASES(clReleaseProgram, opencl_program, (void))
RELEASES(clReleaseKernel, opencl_kernel_object, (void))
RELEASES(clReleaseDevice, opencl_device_id, (void))
PLAIN(clFlush, (opencl_queue queue), (queue))
PLAIN(clSetUserEventStatus, (opencl_event event, opencl_int status), (event, status))
PLAIN(clGetEventProfilingInfo,
      (opencl_event event, opencl_uint name, size_t n, void *out, size_t *bytes),
      (event, name, n, out, bytes))
PLAIN(clBuildProgram,
      (opencl_program program, opencl_uint n, const opencl_device_id *ids, const char *options,
       void (*notify)(opencl_program, void *), void *user),
      (program, n, ids, options, notify, user))
PLAIN(clGetProgramBuildInfo,
      (opencl_program program, opencl_device_id id, opencl_uint name, size_t n, void *out, size_t *bytes),
      (program, id, name, n, out, bytes))
PLAIN(clGetKernelInfo, (opencl_kernel_object kernel, opencl_uint name, size_t n, void *out, size_t *bytes),
      (kernel, name, n, out, bytes))
PLAIN(clGetKernelWorkGroupInfo,
      (opencl_kernel_object kernel, opencl_device_id id, opencl_uint name, size_t n, void *out, size_t *bytes),
      (kernel, id, name, n, out, bytes))
PLAIN(clSetKernelArg, (opencl_kernel_object kernel, opencl_uint at, size_t n, const void *value),
      (kernel, at, n, value))
ENQUEUES(clEnqueueMigrateMemObjects, false,
         (opencl_queue queue, opencl_uint n, const opencl_buffer *buffers, opencl_ulong flags, WAITS),
         (queue, n, buffers, flags, count, wait, event))
ENQUEUES(clEnqueueReadBuffer, true,
         (opencl_queue queue, opencl_buffer buffer, opencl_uint blocks, size_t at, size_t n, void *host, WAITS),
         (queue, buffer, blocks, at, n, host, count, wait, event))
ENQUEUES(clEnqueueWriteBuffer, true,
         (opencl_queue queue, opencl_buffer buffer, opencl_uint blocks, size_t at, size_t n, const void *host, WAITS),
         (queue, buffer, blocks, at, n, host, count, wait, event))
ENQUEUES(clEnqueueCopyBuffer, true,
         (opencl_queue queue, opencl_buffer from, opencl_buffer to, size_t from_at, size_t to_at, size_t n, WAITS),
         (queue, from, to, from_at, to_at, n, count, wait, event))
ENQUEUES(clEnqueueFillBuffer, true,
         (opencl_queue queue, opencl_buffer buffer, const void *pattern, size_t size, size_t at, size_t n, WAITS),
         (queue, buffer, pattern, size, at, n, count, wait, event))
ENQUEUES(clEnqueueMarkerWithWaitList, false, (opencl_queue queue, WAITS), (queue, count, wait, event))
ENQUEUES(clEnqueueBarrierWithWaitList, false, (opencl_queue queue, WAITS), (queue, count, wait, event))
ENQUEUES(clEnqueueNDRangeKernel, true,
         (opencl_queue queue, opencl_kernel_object kernel, opencl_uint n, const size_t *offset,
          const size_t *global, const size_t *local, WAITS),
         (queue, kernel, n, offset, global, local, count, wait, event))
/* clang-format on */

/* Not called by the backend: for what a program enqueues itself. */
EXPORT opencl_int clGetCommandQueueInfo(opencl_queue queue, opencl_uint name, size_t n, void *out,
                                        size_t *bytes);
EXPORT opencl_int clGetCommandQueueInfo(opencl_queue queue, opencl_uint name, size_t n, void *out,
                                        size_t *bytes)
{
    (void)go();
    return real.clGetCommandQueueInfo(queue, name, n, out, bytes);
}

EXPORT opencl_int clCreateSubDevices(opencl_device_id id, const intptr_t *properties, opencl_uint n,
                                     opencl_device_id *out, opencl_uint *count);
EXPORT opencl_int clCreateSubDevices(opencl_device_id id, const intptr_t *properties, opencl_uint n,
                                     opencl_device_id *out, opencl_uint *count)
{
    GIVE_CODE;
    opencl_int code = go()->clCreateSubDevices(id, properties, n, out, count);
    if (code == OPENCL_SUCCESS && out)
        atomic_fetch_add(&live, (int64_t)*count);
    return code;
}

EXPORT opencl_int clRetainEvent(opencl_event event);
EXPORT opencl_int clRetainEvent(opencl_event event)
{
    GIVE_CODE;
    return made_event(go()->clRetainEvent(event), event);
}

/* What was finished before a loss stays so; what was not has failed. */
EXPORT opencl_int clGetEventInfo(opencl_event event, opencl_uint name, size_t n, void *out,
                                 size_t *bytes);
EXPORT opencl_int clGetEventInfo(opencl_event event, opencl_uint name, size_t n, void *out,
                                 size_t *bytes)
{
    late_check_caller();
    opencl_int code = go()->clGetEventInfo(event, name, n, out, bytes);
    if (code == OPENCL_SUCCESS && name == OPENCL_EVENT_COMMAND_EXECUTION_STATUS && is_lost() &&
        *(opencl_int *)out > OPENCL_COMPLETE)
        *(opencl_int *)out = atomic_load(&code_to_give);
    return code;
}

EXPORT opencl_int clSetEventCallback(opencl_event event, opencl_int type,
                                     void (*notify)(opencl_event, opencl_int, void *), void *user);
EXPORT opencl_int clSetEventCallback(opencl_event event, opencl_int type,
                                     void (*notify)(opencl_event, opencl_int, void *), void *user)
{
    GIVE_CODE;
    atomic_fetch_add(&asked, 1);
    if (late_is_delaying())
        return late_callback(event, atomic_load(&forgets_callbacks) ? NULL : notify, user);
    if (atomic_load(&forgets_callbacks))
        return OPENCL_SUCCESS;
    return go()->clSetEventCallback(event, type, notify, user);
}

static opencl_int answer(const void *value, size_t value_bytes, size_t n, void *out, size_t *bytes)
{
    if (bytes)
        *bytes = value_bytes;
    if (out && n < value_bytes)
        return -30; /* CL_INVALID_VALUE */
    if (out)
        memcpy(out, value, value_bytes);
    return OPENCL_SUCCESS;
}

EXPORT opencl_int clGetDeviceInfo(opencl_device_id id, opencl_uint name, size_t n, void *out,
                                  size_t *bytes);
EXPORT opencl_int clGetDeviceInfo(opencl_device_id id, opencl_uint name, size_t n, void *out,
                                  size_t *bytes)
{
    static const char extensions[] = "cl_khr_icd cl_nv_device_attribute_query cl_nv_pragma_unroll";
    static const opencl_ulong type = OPENCL_DEVICE_TYPE_GPU;
    static const opencl_ulong none = 0;
    GIVE_CODE;
    if ((int)name == OPENCL_DEVICE_DOUBLE_FP_CONFIG && getenv("DOUBLE_SINGLE"))
        return answer(&none, sizeof none, n, out, bytes);
    const char *memory = getenv("DOUBLE_MEMORY");
    const opencl_ulong memory_bytes = memory ? strtoull(memory, NULL, 10) : 0;
    if (name == OPENCL_DEVICE_GLOBAL_MEM_SIZE && memory)
        return answer(&memory_bytes, sizeof memory_bytes, n, out, bytes);
    const char *pci = getenv("DOUBLE_NVIDIA");
    opencl_uint domain = 0, bus = 0, slot = 0;
    if (!pci || sscanf(pci, "%x:%x:%x", &domain, &bus, &slot) != 3)
        return go()->clGetDeviceInfo(id, name, n, out, bytes);
    switch ((int)name) {
    case OPENCL_DEVICE_TYPE:
        return answer(&type, sizeof type, n, out, bytes);
    case OPENCL_DEVICE_EXTENSIONS:
        return answer(extensions, sizeof extensions, n, out, bytes);
    case OPENCL_DEVICE_PCI_BUS_ID_NV:
        return answer(&bus, sizeof bus, n, out, bytes);
    case OPENCL_DEVICE_PCI_SLOT_ID_NV:
        return answer(&slot, sizeof slot, n, out, bytes);
    case OPENCL_DEVICE_PCI_DOMAIN_ID_NV:
        return answer(&domain, sizeof domain, n, out, bytes);
    default:
        return go()->clGetDeviceInfo(id, name, n, out, bytes);
    }
}
