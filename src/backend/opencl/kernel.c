/*
 * Kernels from OpenCL C, built by the driver, and their launches.
 */
#include "backend/opencl/device.h"

#include "base/allocator.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

/* Work-items of a group where nobody says; enough for any GPU, few for a CPU to set up. */
#define LOCAL_CHOSEN 256u
/* NVIDIA's driver counts work-items with 32 bits: a kernel that strides by their number never ends. */
#define ITEMS_AT_ONCE (UINT64_C(1) << 30)
#define MESSAGE_BYTES 168
#define RESULTS_LOOKED_AT 4

/* A driver's words while they go to the log. */
struct telling {
    const struct muster_services *services;
    enum muster_log_level level;
    const char *entry;
};

static void tell_line(void *user, const char *line)
{
    const struct telling *telling = user;
    char text[TEXT_LINE_BYTES + 64];
    snprintf(text, sizeof text, "kernel %.32s: %s", telling->entry, line);
    telling->services->log(telling->services, telling->level, text);
}

/* The driver's words, NULL if it has none; `*bytes` of them are the caller's to give back. */
static char *take_words(struct opencl_device *device, opencl_program program, const char *entry,
                        enum muster_log_level level, size_t *bytes)
{
    const struct opencl_driver *driver = opencl_of(device);
    const struct muster_services *services = device->opencl->services;
    struct telling telling = { services, level, entry };
    size_t length = 0;
    driver->clGetProgramBuildInfo(program, device->id, OPENCL_PROGRAM_BUILD_LOG, 0, NULL, &length);
    char *text = length > 1 ? allocator_take(services->allocator, length + 1, 1) : NULL;
    *bytes = length + 1;
    if (text && driver->clGetProgramBuildInfo(program, device->id, OPENCL_PROGRAM_BUILD_LOG, length,
                                              text, NULL) == OPENCL_SUCCESS) {
        text_each_line(text, tell_line, &telling);
        return text;
    }
    allocator_give(services->allocator, text, *bytes, 1);
    return NULL;
}

/* The driver's words: all of them to the log, the first into the error. */
static muster_status say_build_failed(struct opencl_device *device, opencl_program program,
                                      const char *entry, opencl_int code, struct muster_error *err)
{
    size_t bytes;
    char *text = take_words(device, program, entry, MUSTER_LOG_ERROR, &bytes);
    const char *words = text ? text + strspn(text, " \n") : "the driver does not say why";
    muster_status status = muster_error_fill(
        err, MUSTER_E_PARSE, code,
        "correct the source; -v, --log FILE or MUSTER_LOG=FILE shows all of the driver's words",
        "kernel %.32s does not build: %.*s", entry, MESSAGE_BYTES, words);
    if (text)
        allocator_give(device->opencl->services->allocator, text, bytes, 1);
    return status;
}

static muster_status build(struct opencl_device *device, const struct muster_kernel_form *form,
                           opencl_program *out, struct muster_error *err)
{
    const struct opencl_driver *driver = opencl_of(device);
    const char *source = form->code;
    const size_t bytes = form->code_bytes;
    opencl_int code = OPENCL_SUCCESS;
    opencl_program program =
        driver->clCreateProgramWithSource(device->context, 1, &source, &bytes, &code);
    if (!program)
        return opencl_refused(device, code, "taking a kernel's source", err);
    char options[96];
    snprintf(options, sizeof options, "-cl-std=CL1.2%s",
             device->rounds_division ? " -cl-fp32-correctly-rounded-divide-sqrt" : "");
    code = driver->clBuildProgram(program, 1, &device->id, options, NULL, NULL);
    if (code == OPENCL_SUCCESS) {
        size_t bytes_said;
        char *words = take_words(device, program, form->entry, MUSTER_LOG_WARNING, &bytes_said);
        allocator_give(device->opencl->services->allocator, words, words ? bytes_said : 0, 1);
        *out = program;
        return MUSTER_OK;
    }
    muster_status status = code == OPENCL_BUILD_PROGRAM_FAILURE
                               ? say_build_failed(device, program, form->entry, code, err)
                               : opencl_refused(device, code, "building a kernel", err);
    driver->clReleaseProgram(program);
    return status;
}

static muster_status say_group(const struct muster_kernel_form *form, size_t asked, size_t max,
                               struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "ask for fewer threads, or for 0",
                             "kernel %.32s wants groups of %zu; on this device it has at most %zu",
                             form->entry, asked, max);
}

/* How many work-items a group has: what the source says, what the form says, or what suits. */
static muster_status choose_local(struct opencl_device *device,
                                  const struct muster_kernel_form *form,
                                  struct opencl_kernel_state *kernel, struct muster_error *err)
{
    const struct opencl_driver *driver = opencl_of(device);
    size_t fixed[3] = { 0, 0, 0 }, max = 0, step = 0;
    opencl_int code = driver->clGetKernelWorkGroupInfo(
        kernel->kernel, device->id, OPENCL_KERNEL_WORK_GROUP_SIZE, sizeof max, &max, NULL);
    if (code != OPENCL_SUCCESS || max == 0)
        return opencl_refused(device, code, "asking for a kernel's group size", err);
    driver->clGetKernelWorkGroupInfo(kernel->kernel, device->id,
                                     OPENCL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof fixed, fixed,
                                     NULL);
    driver->clGetKernelWorkGroupInfo(kernel->kernel, device->id,
                                     OPENCL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, sizeof step,
                                     &step, NULL);
    if (fixed[0] > 0 && (fixed[1] > 1 || fixed[2] > 1))
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                                 "require a group size of (n, 1, 1), or none",
                                 "kernel %.32s requires groups of %zu x %zu x %zu; ranges have one "
                                 "dimension",
                                 form->entry, fixed[0], fixed[1], fixed[2]);
    size_t asked = fixed[0] > 0 ? fixed[0] : form->threads;
    if (asked > max)
        return say_group(form, asked, max, err);
    if (fixed[0] > 0 && form->threads > 0 && form->threads != fixed[0])
        return say_group(form, form->threads, fixed[0], err);
    size_t chosen = max < LOCAL_CHOSEN ? max : LOCAL_CHOSEN;
    if (step > 0 && step < chosen)
        chosen -= chosen % step;
    kernel->local = asked > 0 ? asked : chosen;
    return MUSTER_OK;
}

static muster_status take_kernel(struct opencl_device *device, opencl_program program,
                                 const struct muster_kernel_form *form,
                                 struct opencl_kernel_state *kernel, struct muster_error *err)
{
    const struct opencl_driver *driver = opencl_of(device);
    opencl_int code = OPENCL_SUCCESS;
    kernel->kernel = driver->clCreateKernel(program, form->entry, &code);
    if (!kernel->kernel && code == OPENCL_INVALID_KERNEL_NAME)
        return muster_error_fill(err, MUSTER_E_INVALID, code,
                                 "name a function that is marked `kernel`",
                                 "the source has no kernel %.64s", form->entry);
    if (!kernel->kernel)
        return opencl_refused(device, code, "taking a kernel from its program", err);
    code = driver->clGetKernelInfo(kernel->kernel, OPENCL_KERNEL_NUM_ARGS, sizeof kernel->arg_count,
                                   &kernel->arg_count, NULL);
    muster_status status = code == OPENCL_SUCCESS
                               ? choose_local(device, form, kernel, err)
                               : opencl_refused(device, code, "asking for arguments", err);
    if (status != MUSTER_OK)
        driver->clReleaseKernel(kernel->kernel);
    return status;
}

muster_status opencl_kernel_init(void *device_state, const struct muster_kernel_form *form,
                                 void *state, struct muster_error *err)
{
    struct opencl_device *device = device_state;
    struct opencl_kernel_state *kernel = state;
    if (form->kind != MUSTER_KERNEL_OPENCL || !device->can_compile)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                                 device->can_compile ? "give the kernel as OpenCL C"
                                                     : "use another device",
                                 device->can_compile ? "this device runs kernels in OpenCL C only"
                                                     : "this device's driver has no compiler");
    if (!form->code || form->code_bytes == 0 || !form->entry)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "give `code`, `code_bytes` and `entry`",
                                 "a kernel in OpenCL C without source or entry");
    muster_status status = opencl_ready(device, err);
    if (status != MUSTER_OK)
        return status;
    *kernel = (struct opencl_kernel_state){ .device = device };
    status = platform_mutex_init(&kernel->lock, err);
    if (status != MUSTER_OK)
        return status;
    opencl_program program = NULL;
    status = build(device, form, &program, err);
    if (status == MUSTER_OK) {
        status = take_kernel(device, program, form, kernel, err);
        opencl_of(device)->clReleaseProgram(program);
    }
    if (status != MUSTER_OK)
        platform_mutex_deinit(&kernel->lock);
    return status;
}

void opencl_kernel_deinit(void *state)
{
    struct opencl_kernel_state *kernel = state;
    opencl_of(kernel->device)->clReleaseKernel(kernel->kernel);
    platform_mutex_deinit(&kernel->lock);
}

/* The arguments after begin and items; the kernel's lock is held. */
static muster_status set_args(struct opencl_kernel_state *kernel,
                              const struct muster_launch_desc *launch, struct muster_error *err)
{
    const struct opencl_driver *driver = opencl_of(kernel->device);
    opencl_uint at = 2;
    for (size_t i = 0; i < launch->arg_count; i++) {
        const struct muster_launch_arg *arg = &launch->args[i];
        opencl_ulong offset = arg->offset;
        size_t bytes = arg->memory ? sizeof arg->memory->object : arg->bytes;
        opencl_int code =
            driver->clSetKernelArg(kernel->kernel, at++, bytes,
                                   arg->memory ? (const void *)&arg->memory->object : arg->value);
        if (code == OPENCL_SUCCESS && arg->memory)
            code = driver->clSetKernelArg(kernel->kernel, at++, sizeof offset, &offset);
        if (code == OPENCL_INVALID_ARG_SIZE)
            return muster_error_fill(err, MUSTER_E_INVALID, code,
                                     "make the call match the kernel's parameters",
                                     "argument %zu, %s of %zu bytes, is not what the kernel takes",
                                     i, arg->memory ? "a block and its offset" : "a value", bytes);
        if (code != OPENCL_SUCCESS)
            return opencl_refused(kernel->device, code, "setting an argument", err);
    }
    return MUSTER_OK;
}

static muster_status check_args(const struct opencl_kernel_state *kernel,
                                const struct muster_launch_desc *launch, struct muster_error *err)
{
    size_t blocks = 0, bytes = 0;
    for (size_t i = 0; i < launch->arg_count; i++) {
        blocks += launch->args[i].memory != NULL;
        bytes += launch->args[i].memory ? sizeof(void *) : launch->args[i].bytes;
    }
    if (launch->arg_count > MUSTER_ARGS_MAX || bytes > MUSTER_ARG_BYTES_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "put large arguments into a block",
                                 "%zu arguments of %zu bytes; at most %d of %d", launch->arg_count,
                                 bytes, MUSTER_ARGS_MAX, MUSTER_ARG_BYTES_MAX);
    if (2 + launch->arg_count + blocks != kernel->arg_count)
        return muster_error_fill(
            err, MUSTER_E_INVALID, 0,
            "give one argument for each value, and one for each pointer and its offset",
            "%zu arguments, %zu of them blocks, make %zu parameters with begin and items; the "
            "kernel has %u",
            launch->arg_count, blocks, 2 + launch->arg_count + blocks, kernel->arg_count);
    return MUSTER_OK;
}

/* The kernel's lock is held. */
static muster_status enqueue(struct opencl_stream *stream, struct opencl_kernel_state *kernel,
                             const struct muster_launch_desc *launch, bool *is_skipped,
                             struct muster_error *err)
{
    const struct opencl_driver *driver = opencl_of(stream->device);
    struct opencl_command command;
    muster_status status = opencl_command_begin(&command, stream, "a launch", err);
    *is_skipped = command.is_skipped;
    if (status != MUSTER_OK || command.is_skipped)
        return status;
    command.wants_event |= launch->result != NULL;
    const opencl_ulong begin = launch->begin, items = launch->items;
    const size_t local = kernel->local;
    const size_t global = (size_t)(items / local + (items % local != 0)) * local;
    opencl_int code = driver->clSetKernelArg(kernel->kernel, 0, sizeof begin, &begin);
    if (code == OPENCL_SUCCESS)
        code = driver->clSetKernelArg(kernel->kernel, 1, sizeof items, &items);
    if (code == OPENCL_SUCCESS)
        code = driver->clEnqueueNDRangeKernel(
            stream->queue, kernel->kernel, 1, NULL, &global, &local, command.wait_count,
            opencl_command_wait(&command), opencl_command_event(&command));
    status = opencl_command_end(&command, code, err);
    *is_skipped = command.is_skipped;
    return status;
}

/* The kernel's lock is held. Those parts that follow wait for those before, and fail with them. */
static muster_status enqueue_parts(struct opencl_stream *stream, struct opencl_kernel_state *kernel,
                                   const struct muster_launch_desc *launch, bool *is_skipped,
                                   struct muster_error *err)
{
    struct muster_launch_desc part = *launch;
    uint64_t left = launch->items;
    muster_status status = MUSTER_OK;
    while (left > 0 && status == MUSTER_OK && !*is_skipped) {
        part.items = left < ITEMS_AT_ONCE ? left : ITEMS_AT_ONCE;
        status = enqueue(stream, kernel, &part, is_skipped, err);
        part.begin += part.items;
        left -= part.items;
    }
    return status;
}

static struct opencl_result *take_result(struct opencl_device *device)
{
    platform_mutex_lock(&device->lock);
    /* The oldest are over first, as a rule, and need not be kept once they went well. */
    for (int i = 0; i < RESULTS_LOOKED_AT && device->results; i++) {
        struct opencl_result *oldest = device->results;
        if (opencl_event_code(device, oldest->event) != OPENCL_COMPLETE)
            break;
        opencl_release(device, oldest->event);
        opencl_release(device, oldest->before);
        device->results = oldest->next;
        if (!oldest->next)
            device->last_result = NULL;
        oldest->next = device->free_results;
        device->free_results = oldest;
    }
    struct opencl_result *result = device->free_results;
    if (result)
        device->free_results = result->next;
    platform_mutex_unlock(&device->lock);
    if (!result)
        result = allocator_take(opencl_allocator(device), 1, sizeof *result);
    if (result)
        *result = (struct opencl_result){ .next = NULL };
    return result;
}

static void give_result(struct opencl_device *device, struct opencl_result *result)
{
    opencl_release(device, result->before);
    platform_mutex_lock(&device->lock);
    result->next = device->free_results;
    device->free_results = result;
    platform_mutex_unlock(&device->lock);
}

/* Remembers whom to tell if the launch that is now the stream's tail goes wrong. */
static void follow(struct opencl_stream *stream, struct opencl_result *result)
{
    struct opencl_device *device = stream->device;
    if (opencl_of(device)->clRetainEvent(stream->tail) != OPENCL_SUCCESS) {
        give_result(device, result);
        return;
    }
    result->event = stream->tail;
    platform_mutex_lock(&device->lock);
    if (device->last_result)
        device->last_result->next = result;
    else
        device->results = result;
    device->last_result = result;
    platform_mutex_unlock(&device->lock);
    /* The thread that lost the device meanwhile did not see this one. */
    if (opencl_check(device, NULL) != MUSTER_OK)
        opencl_settle_results(device);
}

static muster_status launch_one(struct opencl_stream *stream, struct opencl_kernel_state *kernel,
                                const struct muster_launch_desc *launch, struct muster_error *err)
{
    struct opencl_device *device = stream->device;
    struct opencl_result *result = NULL;
    muster_status status = check_args(kernel, launch, err);
    if (status != MUSTER_OK)
        return status;
    if (launch->result) {
        result = take_result(device);
        if (!result)
            return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a launch");
        result->result = launch->result;
        if (stream->tail && opencl_of(device)->clRetainEvent(stream->tail) == OPENCL_SUCCESS)
            result->before = stream->tail;
        *launch->result = MUSTER_OK;
    }
    bool is_skipped = false;
    platform_mutex_lock(&kernel->lock);
    status = set_args(kernel, launch, err);
    if (status == MUSTER_OK)
        status = enqueue_parts(stream, kernel, launch, &is_skipped, err);
    platform_mutex_unlock(&kernel->lock);
    if (!result)
        return status;
    if (status == MUSTER_OK && !is_skipped) {
        follow(stream, result);
        return MUSTER_OK;
    }
    if (is_skipped)
        *launch->result = MUSTER_E_STREAM_FAILED;
    give_result(device, result);
    return status;
}

muster_status opencl_launch(void *state, void *kernel, const struct muster_launch_desc *launches,
                            size_t count, struct muster_error *err)
{
    struct opencl_stream *stream = ((struct opencl_stream_state *)state)->stream;
    muster_status status = MUSTER_OK;
    for (size_t i = 0; i < count && status == MUSTER_OK; i++)
        status = launch_one(stream, kernel, &launches[i], err);
    return status;
}
