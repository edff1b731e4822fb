/*
 * Kernels and launches. A kernel is a module of the primary context, on slices too: where it runs is
 * a matter of the stream it is launched on.
 *
 * Launches that need no order among themselves are given as one where the image has a function for
 * that (base/batch.h); others, and those that find no room for their records, as graphs.
 */
#include "backend/cuda/state.h"
#include "base/allocator.h"
#include "base/batch.h"

#include <stdio.h>
#include <string.h>

#define THREADS_DEFAULT 256
#define ROWS_MAX 65535 /* of a grid's second side */
#define RECORD_PARTS 4
_Static_assert(sizeof((struct cuda_queue *)0)->record_events / sizeof(cuda_event_handle) ==
                   RECORD_PARTS,
               "an event for each part");

/* A copy that ends with a zero, as PTX must. */
static char *terminated(const struct muster_allocator *allocator,
                        const struct muster_kernel_form *form)
{
    char *copy = allocator_take(allocator, form->code_bytes + 1, 1);
    if (copy)
        memcpy(copy, form->code, form->code_bytes);
    return copy;
}

/* Compiles and loads; what the compiler has to say is the error's words. */
static muster_status load(struct cuda_kernel *kernel, const void *image, struct muster_error *err)
{
    struct cuda_domain *domain = kernel->device->domain;
    char log[200] = "";
    cuda_jit_option options[] = { CUDA_JIT_ERROR_LOG, CUDA_JIT_ERROR_LOG_BYTES };
    void *values[] = { log, (void *)(uintptr_t)(sizeof log - 1) };
    struct muster_error words = { .size = sizeof words };
    cuda_result result =
        domain->backend->driver.module_load(&kernel->module, image, 2, options, values);
    if (result == CUDA_SUCCESS_)
        return MUSTER_OK;
    muster_status status = cuda_fail(domain, result, "loading a kernel", &words);
    log[strcspn(log, "\r\n")] = 0;
    return muster_error_fill(err, status, (int)result, words.fix, "%.120s%s%.100s", words.text,
                             *log ? ": " : "", log);
}

static muster_status check_form(const struct cuda_device *device,
                                const struct muster_kernel_form *form, struct muster_error *err)
{
    const uint16_t *has = device->domain->info.compute;
    if (form->kind != MUSTER_KERNEL_CUBIN && form->kind != MUSTER_KERNEL_PTX)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "give a cubin, or PTX",
                                 "a kernel of kind %d cannot be run by a GPU as it is",
                                 (int)form->kind);
    if (!form->code || form->code_bytes == 0 || !form->entry || !*form->entry)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "give its code, size and entry",
                                 "a form of a kernel has no code or no entry");
    bool is_made_for_it =
        form->compute[0] == 0 || (form->compute[0] == has[0] && form->compute[1] <= has[1]);
    if (form->kind == MUSTER_KERNEL_CUBIN && !is_made_for_it)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                                 "build it for this GPU, or give PTX as well",
                                 "the cubin is for compute capability %u.%u; the GPU has %u.%u",
                                 form->compute[0], form->compute[1], has[0], has[1]);
    return MUSTER_OK;
}

static muster_status choose_threads(struct cuda_kernel *kernel, uint32_t asked,
                                    struct muster_error *err)
{
    const struct cuda_driver *driver = &kernel->device->domain->backend->driver;
    int most = 0;
    if (driver->function_attribute(&most, CUDA_FUNCTION_THREADS_MAX, kernel->function) !=
            CUDA_SUCCESS_ ||
        most <= 0)
        most = THREADS_DEFAULT;
    if (asked > (uint32_t)most)
        return muster_error_fill(
            err, MUSTER_E_NOT_SUPPORTED, 0, "ask for no more threads than that, or for 0",
            "%u threads a block are asked for; the kernel can have %d", asked, most);
    kernel->threads = asked ? asked : most < THREADS_DEFAULT ? (uint32_t)most : THREADS_DEFAULT;
    return MUSTER_OK;
}

/* So that a launch with other arguments is refused and not read beyond them. */
static void learn_parameters(struct cuda_kernel *kernel)
{
    const struct cuda_driver *driver = &kernel->device->domain->backend->driver;
    size_t offset, bytes;
    uint32_t count = 0;
    kernel->parameter_count = UINT32_MAX;
    if (!driver->function_parameter)
        return;
    while (count < sizeof kernel->parameter_bytes / sizeof *kernel->parameter_bytes &&
           driver->function_parameter(kernel->function, count, &offset, &bytes) == CUDA_SUCCESS_)
        kernel->parameter_bytes[count++] = bytes < UINT16_MAX ? (uint16_t)bytes : UINT16_MAX;
    kernel->parameter_count = count;
}

static muster_status find_entry(struct cuda_kernel *kernel, const struct muster_kernel_form *form,
                                struct muster_error *err)
{
    struct cuda_domain *domain = kernel->device->domain;
    const struct cuda_driver *driver = &domain->backend->driver;
    char name[256];
    cuda_result result = driver->module_function(&kernel->function, kernel->module, form->entry);
    if (result == CUDA_NOT_FOUND)
        return muster_error_fill(err, MUSTER_E_NOT_FOUND, (int)result,
                                 "declare it extern \"C\" __global__, and name it so",
                                 "the image has no kernel called %.64s", form->entry);
    if (result != CUDA_SUCCESS_)
        return cuda_fail(domain, result, "finding a kernel in its image", err);
    muster_status status = choose_threads(kernel, form->threads, err);
    if (status != MUSTER_OK)
        return status;
    learn_parameters(kernel);
    int length = snprintf(name, sizeof name, BATCH_PREFIX "%s", form->entry);
    if ((size_t)length >= sizeof name ||
        driver->module_function(&kernel->batch, kernel->module, name) != CUDA_SUCCESS_)
        kernel->batch = NULL;
    return MUSTER_OK;
}

muster_status cuda_kernel_init(void *state, const struct muster_kernel_form *form,
                               void *kernel_state, struct muster_error *err)
{
    struct cuda_kernel *kernel = kernel_state;
    struct cuda_domain *domain = ((struct cuda_device *)state)->domain;
    const struct muster_allocator *allocator = domain->backend->services->allocator;
    struct cuda_scope scope;
    kernel->device = state;
    kernel->number = 1 + atomic_fetch_add_explicit(&domain->kernels_made, 1, memory_order_relaxed);
    muster_status status = check_form(state, form, err);
    if (status != MUSTER_OK)
        return status;
    char *image = terminated(allocator, form);
    if (!image)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a kernel");
    status = cuda_enter(&scope, domain, err);
    if (status != MUSTER_OK)
        goto done;
    status = load(kernel, image, err);
    if (status == MUSTER_OK) {
        status = find_entry(kernel, form, err);
        if (status != MUSTER_OK)
            domain->backend->driver.module_unload(kernel->module);
    }
    cuda_leave(&scope, CUDA_SUCCESS_, "", NULL);
done:
    allocator_give(allocator, image, form->code_bytes + 1, 1);
    return status;
}

void cuda_kernel_deinit(void *state)
{
    struct cuda_kernel *kernel = state;
    struct cuda_domain *domain = kernel->device->domain;
    struct cuda_scope scope;
    if (cuda_enter(&scope, domain, NULL) == MUSTER_OK)
        cuda_leave(&scope, domain->backend->driver.module_unload(kernel->module), "", NULL);
}

static muster_status check_arguments(const struct cuda_kernel *kernel,
                                     const struct muster_launch_desc *launch,
                                     struct muster_error *err)
{
    if (launch->arg_count > MUSTER_ARGS_MAX)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL, "%zu arguments; at most %d",
                                 launch->arg_count, MUSTER_ARGS_MAX);
    if (kernel->parameter_count == UINT32_MAX)
        return MUSTER_OK;
    if (kernel->parameter_count != launch->arg_count + CUDA_LEADING_PARAMETERS)
        return muster_error_fill(err, MUSTER_E_INVALID, 0,
                                 "declare it (begin, items, arguments...)",
                                 "the launch has %zu arguments; the kernel takes %u parameters, of "
                                 "which the first two are begin and items",
                                 launch->arg_count, kernel->parameter_count);
    for (size_t i = 0; i < launch->arg_count; i++) {
        const struct muster_launch_arg *arg = &launch->args[i];
        size_t given = arg->memory ? sizeof(uint64_t) : arg->bytes;
        size_t wanted = kernel->parameter_bytes[i + CUDA_LEADING_PARAMETERS];
        if (given != wanted)
            return muster_error_fill(err, MUSTER_E_INVALID, 0, "give the type the kernel declares",
                                     "argument %zu has %zu bytes; the kernel wants %zu", i, given,
                                     wanted);
    }
    return MUSTER_OK;
}

uint32_t cuda_blocks_for(const struct cuda_kernel *kernel, uint64_t items)
{
    return (uint32_t)((items - 1) / kernel->threads + 1);
}

uint64_t cuda_items_at_once(const struct cuda_kernel *kernel)
{
    return (uint64_t)kernel->device->domain->blocks_max * kernel->threads;
}

void cuda_parameters_set(struct cuda_parameters *parameters,
                         const struct muster_launch_desc *launch)
{
    parameters->begin = launch->begin;
    parameters->items = launch->items;
    parameters->pointers[0] = &parameters->begin;
    parameters->pointers[1] = &parameters->items;
    for (size_t i = 0; i < launch->arg_count; i++) {
        const struct muster_launch_arg *arg = &launch->args[i];
        if (arg->memory)
            parameters->addresses[i] = arg->memory->address + arg->offset;
        parameters->pointers[i + CUDA_LEADING_PARAMETERS] =
            arg->memory ? (void *)&parameters->addresses[i] : (void *)(uintptr_t)arg->value;
    }
}

cuda_result cuda_launch_one(struct cuda_queue *queue, const struct cuda_kernel *kernel,
                            const struct muster_launch_desc *launch)
{
    struct cuda_parameters parameters;
    uint64_t left = launch->items, at_once = cuda_items_at_once(kernel);
    cuda_result result;
    cuda_parameters_set(&parameters, launch);
    do {
        parameters.items = left < at_once ? left : at_once;
        result = queue->device->domain->backend->driver.launch(
            kernel->function, cuda_blocks_for(kernel, parameters.items), 1, 1, kernel->threads, 1,
            1, 0, queue->handle, parameters.pointers, NULL);
        parameters.begin += parameters.items;
        left -= parameters.items;
    } while (left > 0 && result == CUDA_SUCCESS_);
    return result;
}

/* Bytes of a launch's record; writes it if `to` is given. */
static size_t write_record(const struct muster_launch_desc *launch, unsigned char *to)
{
    size_t at = BATCH_ARGS;
    if (to) {
        memcpy(to + BATCH_BEGIN, &launch->begin, sizeof launch->begin);
        memcpy(to + BATCH_ITEMS, &launch->items, sizeof launch->items);
    }
    for (size_t i = 0; i < launch->arg_count; i++) {
        const struct muster_launch_arg *arg = &launch->args[i];
        uint64_t address = arg->memory ? arg->memory->address + arg->offset : 0;
        size_t bytes = arg->memory ? sizeof address : arg->bytes;
        at = batch_next(at);
        if (to)
            memcpy(to + at, arg->memory ? (const void *)&address : arg->value, bytes);
        at += bytes;
    }
    return batch_next(at);
}

/* Room for records in the stream's own piece; 0 if the device still reads what is there. */
static size_t records_room(struct cuda_queue *queue, size_t stride)
{
    const struct cuda_driver *driver = &queue->device->domain->backend->driver;
    size_t part_bytes = cuda_pinned_bytes(CUDA_PINNED_RECORDS) / RECORD_PARTS;
    if (!queue->records)
        queue->records = cuda_pinned_acquire(queue->device->domain, CUDA_PINNED_RECORDS, NULL);
    if (!queue->records)
        return 0;
    if (part_bytes - queue->record_used >= stride)
        return (part_bytes - queue->record_used) / stride;
    /* This part is full: its last reader is all that was given so far. */
    cuda_event_handle *full = &queue->record_events[queue->record_part];
    if (!*full && driver->event_create(full, CUDA_FLAG_EVENT_NO_TIMING) != CUDA_SUCCESS_)
        return 0;
    uint32_t next = (queue->record_part + 1) % RECORD_PARTS;
    if (queue->record_events[next] &&
        driver->event_query(queue->record_events[next]) != CUDA_SUCCESS_)
        return 0;
    if (driver->event_record(*full, queue->handle) != CUDA_SUCCESS_)
        return 0;
    queue->record_part = next;
    queue->record_used = 0;
    return part_bytes / stride;
}

/* How many from the first on may go together: unordered, alike in shape and in size. */
static size_t batch_length(const struct cuda_kernel *kernel,
                           const struct muster_launch_desc *launches, size_t count, size_t stride,
                           uint32_t *columns)
{
    uint32_t least = cuda_blocks_for(kernel, launches->items), most = least;
    size_t length = 0;
    while (length < count && length < ROWS_MAX) {
        const struct muster_launch_desc *launch = &launches[length];
        uint32_t blocks = cuda_blocks_for(kernel, launch->items);
        uint32_t low = blocks < least ? blocks : least, high = blocks > most ? blocks : most;
        /* Rows are all as long as the longest: half of them may be idle, no more. */
        if (!(launch->flags & MUSTER_LAUNCH_UNORDERED) || high / 2 > low ||
            write_record(launch, NULL) != stride)
            break;
        least = low;
        most = high;
        length++;
    }
    *columns = most;
    return length;
}

/* As many as go together and fit; 0 if they must be given one by one. */
static size_t launch_batch(struct cuda_queue *queue, const struct cuda_kernel *kernel,
                           const struct muster_launch_desc *launches, size_t count,
                           cuda_result *result)
{
    size_t stride = write_record(launches, NULL);
    uint32_t columns;
    size_t length = batch_length(kernel, launches, count, stride, &columns);
    if (length < 2)
        return 0;
    size_t room = records_room(queue, stride);
    if (length > room)
        length = room;
    if (length < 2)
        return 0;
    size_t at = queue->record_part * (cuda_pinned_bytes(CUDA_PINNED_RECORDS) / RECORD_PARTS) +
                queue->record_used;
    for (size_t i = 0; i < length; i++)
        write_record(&launches[i], queue->records->host + at + i * stride);
    cuda_pointer records = queue->records->device + at;
    uint32_t rows = (uint32_t)length;
    void *parameters[] = { &records, &rows };
    *result = queue->device->domain->backend->driver.launch(
        kernel->batch, columns, rows, 1, kernel->threads, 1, 1, 0, queue->handle, parameters, NULL);
    queue->record_used += (uint32_t)(length * stride);
    return length;
}

muster_status cuda_launch(void *state, void *kernel_state,
                          const struct muster_launch_desc *launches, size_t count,
                          struct muster_error *err)
{
    struct cuda_queue *queue = ((struct cuda_stream *)state)->queue;
    struct cuda_kernel *kernel = kernel_state;
    struct cuda_scope scope;
    if (kernel->device != queue->device)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "build the kernel for each device",
                                 "a kernel is launched on a stream of another device");
    muster_status status = MUSTER_OK;
    bool are_grids = count > 1;
    for (size_t i = 0; i < count && status == MUSTER_OK; i++) {
        status = check_arguments(kernel, &launches[i], err);
        are_grids = are_grids && launches[i].items <= cuda_items_at_once(kernel);
    }
    if (status == MUSTER_OK)
        status = cuda_enter(&scope, queue->device->domain, err);
    if (status != MUSTER_OK)
        return status;
    cuda_result result = CUDA_SUCCESS_;
    for (size_t done = 0; done < count && result == CUDA_SUCCESS_;) {
        size_t together = 0;
        if (are_grids && kernel->batch && count - done > 1)
            together = launch_batch(queue, kernel, launches + done, count - done, &result);
        if (are_grids && together == 0 && count - done > 1)
            together = cuda_graph_launch(queue, kernel, launches + done, count - done, &result);
        if (together == 0) {
            result = cuda_launch_one(queue, kernel, &launches[done]);
            together = 1;
        }
        done += together;
    }
    return cuda_leave(&scope, result, "launching a kernel", err);
}
