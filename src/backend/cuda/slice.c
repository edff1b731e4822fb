/*
 * Slices: green contexts over parts of a GPU's multiprocessors. They share the primary context's
 * memory and kernels, and its fate.
 *
 * The driver cuts a GPU once, into groups of equal size and a rest smaller than a group; what was
 * cut cannot be cut again. A slice is made of whole groups. One slice may take the rest as well,
 * and then all groups that the others leave.
 */
#include "backend/cuda/state.h"
#include "base/allocator.h"
#include "base/invariant.h"

#include <string.h>

static const struct muster_allocator *allocator_of(const struct cuda_device *device)
{
    return device->domain->backend->services->allocator;
}

void cuda_slice_unplan(void *state)
{
    struct cuda_device *device = state;
    struct cuda_cut *cut = device->cut;
    if (!cut)
        return;
    allocator_give(allocator_of(device), cut->groups, cut->capacity, sizeof *cut->groups);
    allocator_give(allocator_of(device), cut, 1, sizeof *cut);
    device->cut = NULL;
}

/* The driver's groups, and the rest behind them. */
static muster_status split(struct cuda_device *device, struct cuda_cut *cut,
                           struct muster_error *err)
{
    struct cuda_domain *domain = device->domain;
    const struct cuda_driver *driver = &domain->backend->driver;
    cuda_resource whole;
    unsigned int count = 0;
    memset(&whole, 0, sizeof whole);
    cuda_result result = driver->device_resource(domain->number, &whole, CUDA_RESOURCE_SM);
    if (result == CUDA_SUCCESS_) {
        cut->step = whole.of.sm.least ? whole.of.sm.least : 1;
        result = driver->resource_split(NULL, &count, &whole, NULL, 0, cut->step);
    }
    if (result != CUDA_SUCCESS_)
        return cuda_fail(domain, result, "asking for the GPU's multiprocessors", err);
    cut->capacity = count + 1;
    cut->groups = allocator_take(allocator_of(device), cut->capacity, sizeof *cut->groups);
    if (!cut->groups)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for slices");
    result = driver->resource_split(cut->groups, &count, &whole, &cut->groups[count], 0, cut->step);
    if (result != CUDA_SUCCESS_)
        return cuda_fail(domain, result, "cutting the GPU", err);
    if (count + 1 < cut->capacity)
        cut->groups[count] = cut->groups[cut->capacity - 1];
    cut->group_count = count;
    if (count > 0)
        cut->step = cut->groups[0].of.sm.count;
    return MUSTER_OK;
}

cuda_result cuda_queue_open_apart(struct cuda_device *device, uint32_t *cores,
                                  struct cuda_queue *queue)
{
    struct cuda_domain *domain = device->domain;
    const struct cuda_driver *driver = &domain->backend->driver;
    struct cuda_cut cut = { .groups = NULL };
    cuda_resource_desc desc = NULL;
    if (split(device, &cut, NULL) != MUSTER_OK)
        return CUDA_RESOURCE_CONFIGURATION;
    uint32_t count = *cores > 0 ? (*cores - 1) / cut.step + 1 : 1;
    cuda_result result = count <= cut.group_count ? CUDA_SUCCESS_ : CUDA_RESOURCE_CONFIGURATION;
    if (result == CUDA_SUCCESS_) {
        uint32_t turn = atomic_fetch_add_explicit(&domain->streams_apart, 1, memory_order_relaxed);
        uint32_t first = turn % (cut.group_count / count) * count;
        result = driver->resource_describe(&desc, &cut.groups[first], count);
    }
    if (result == CUDA_SUCCESS_)
        result = driver->green_create(&queue->green, desc, domain->number,
                                      CUDA_FLAG_GREEN_DEFAULT_STREAM);
    if (result == CUDA_SUCCESS_) {
        result =
            driver->green_stream(&queue->handle, queue->green, CUDA_FLAG_STREAM_NON_BLOCKING, 0);
        if (result != CUDA_SUCCESS_)
            driver->green_destroy(queue->green);
    }
    *cores = count * cut.step;
    allocator_give(allocator_of(device), cut.groups, cut.capacity, sizeof *cut.groups);
    return result;
}

static uint32_t rest_of(const struct cuda_cut *cut)
{
    const cuda_resource *rest = &cut->groups[cut->group_count];
    return rest->type == CUDA_RESOURCE_SM ? rest->of.sm.count : 0;
}

/* One slice may have a size that is no multiple: that of all that the others leave. */
static muster_status deal(struct cuda_cut *cut, const uint32_t *sizes, size_t count,
                          struct muster_error *err)
{
    uint32_t next = 0;
    size_t odd = count;
    for (size_t i = 0; i < count; i++) {
        if (sizes[i] % cut->step != 0) {
            odd = i;
            continue;
        }
        cut->slices[i] = (struct cuda_cut_slice){ sizes[i], next, sizes[i] / cut->step };
        next += cut->slices[i].count;
    }
    if (odd == count && next <= cut->group_count)
        return MUSTER_OK;
    uint32_t groups_left = next <= cut->group_count ? cut->group_count - next : 0;
    uint32_t left = groups_left * cut->step + rest_of(cut);
    if (odd < count && next <= cut->group_count && sizes[odd] == left) {
        cut->slices[odd] = (struct cuda_cut_slice){ left, next, groups_left + 1 };
        return MUSTER_OK;
    }
    size_t wrong = odd < count ? odd : count - 1;
    return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                             "use multiples; one slice may take the rest",
                             "a slice of %u multiprocessors would be rounded: slices are multiples "
                             "of %u, together at most %u; one may take the rest, here %u",
                             sizes[wrong], cut->step, cut->group_count * cut->step, left);
}

static muster_status check_sizes(const struct cuda_device *device, const uint32_t *sizes,
                                 size_t count, struct muster_error *err)
{
    uint64_t total = 0;
    uint32_t cores = device->domain->info.cores;
    if (device->green || !(device->domain->info.capabilities & MUSTER_CAN_SLICE))
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                                 "install a driver for CUDA 12.5 or later, and cut whole GPUs",
                                 "the GPU cannot be cut");
    for (size_t i = 0; i < count; i++) {
        total += sizes[i];
        if (sizes[i] == 0)
            return muster_error_fill(err, MUSTER_E_INVALID, 0, "give each at least one",
                                     "a slice without multiprocessors would never finish anything");
    }
    if (count == 0 || count > CUDA_SLICES_MAX || total > cores)
        return muster_error_fill(
            err, MUSTER_E_TOO_LARGE, 0, "ask for no more multiprocessors than there are",
            "%zu slices of %llu multiprocessors together; the GPU has %u, and at most %d slices",
            count, (unsigned long long)total, cores, CUDA_SLICES_MAX);
    return MUSTER_OK;
}

muster_status cuda_slice_plan(void *state, const uint32_t *sizes, size_t count,
                              struct muster_error *err)
{
    struct cuda_device *device = state;
    struct cuda_scope scope;
    muster_status status = check_sizes(device, sizes, count, err);
    if (status == MUSTER_OK)
        status = cuda_enter(&scope, device->domain, err);
    if (status != MUSTER_OK)
        return status;
    device->cut = allocator_take(allocator_of(device), 1, sizeof *device->cut);
    if (!device->cut)
        status = muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for slices");
    if (status == MUSTER_OK)
        status = split(device, device->cut, err);
    cuda_leave(&scope, CUDA_SUCCESS_, "", NULL);
    if (status == MUSTER_OK)
        status = deal(device->cut, sizes, count, err);
    if (status == MUSTER_OK)
        device->cut->slice_count = (uint32_t)count;
    else
        cuda_slice_unplan(device);
    return status;
}

muster_status cuda_slice_open(void *state, size_t index, void *slice_state,
                              struct muster_device_info *info, struct muster_error *err)
{
    struct cuda_device *device = state, *slice = slice_state;
    struct cuda_domain *domain = device->domain;
    const struct cuda_driver *driver = &domain->backend->driver;
    struct cuda_scope scope;
    cuda_resource_desc desc = NULL;
    muster_status status = cuda_enter(&scope, domain, err);
    if (status != MUSTER_OK)
        return status;
    INVARIANT(device->cut && index < device->cut->slice_count);
    const struct cuda_cut_slice *part = &device->cut->slices[index];
    slice->domain = domain;
    cuda_result result =
        driver->resource_describe(&desc, &device->cut->groups[part->first], part->count);
    if (result == CUDA_SUCCESS_)
        result = driver->green_create(&slice->green, desc, domain->number,
                                      CUDA_FLAG_GREEN_DEFAULT_STREAM);
    if (result == CUDA_SUCCESS_) {
        result = driver->green_stream(&slice->default_stream, slice->green,
                                      CUDA_FLAG_STREAM_NON_BLOCKING, 0);
        if (result != CUDA_SUCCESS_)
            driver->green_destroy(slice->green);
    }
    status = cuda_leave(&scope, result, "making a slice", err);
    if (status != MUSTER_OK)
        return status;
    size_t size = info->size;
    *info = domain->info;
    info->size = size;
    info->capabilities &= ~(uint32_t)(MUSTER_CAN_SLICE | MUSTER_CAN_GRAPHS);
    info->cores = part->size;
    info->weight *= (double)part->size / domain->info.cores;
    return MUSTER_OK;
}
