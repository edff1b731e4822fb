/*
 * Slices: green contexts over parts of a GPU's multiprocessors. They share the primary context's
 * memory and kernels, and its fate.
 *
 * The driver cuts parts in steps of its own and would round any other size up. One size need not
 * fit them: that of all that is left when the others are cut.
 */
#include "backend/cuda/state.h"

#include <string.h>

/* What is left while a plan is made. */
struct cutting {
    struct cuda_domain *domain;
    cuda_resource left;
    uint32_t least, step;
};

static muster_status say_too_many(const struct cutting *cutting, size_t count, uint64_t total,
                                  struct muster_error *err)
{
    return muster_error_fill(
        err, MUSTER_E_TOO_LARGE, 0, "ask for no more multiprocessors than there are",
        "%zu slices of %llu multiprocessors together; the GPU has %u, and at most %d slices", count,
        (unsigned long long)total, cutting->left.of.sm.count, CUDA_SLICES_MAX);
}

static muster_status say_rounded(const struct cutting *cutting, uint32_t size,
                                 struct muster_error *err)
{
    uint32_t below = size / cutting->step * cutting->step;
    uint32_t above = below + cutting->step;
    if (below < cutting->least)
        below = above = cutting->least;
    return muster_error_fill(
        err, MUSTER_E_NOT_SUPPORTED, 0,
        "take a size that fits, or let one slice be all that the others leave",
        "a slice of %u multiprocessors would be rounded; %u and %u fit: from %u on in steps of %u",
        size, below, above, cutting->least, cutting->step);
}

/* Cuts one slice from what is left. */
static muster_status cut(struct cutting *cutting, uint32_t size, cuda_resource *out,
                         struct muster_error *err)
{
    const struct cuda_driver *driver = &cutting->domain->backend->driver;
    if (size == cutting->left.of.sm.count) {
        *out = cutting->left;
        cutting->left.of.sm.count = 0;
        return MUSTER_OK;
    }
    if (size < cutting->least || size % cutting->step != 0)
        return say_rounded(cutting, size, err);
    cuda_resource rest;
    unsigned int groups = 1;
    memset(&rest, 0, sizeof rest);
    cuda_result result = driver->resource_split(out, &groups, &cutting->left, &rest, 0, size);
    if (result != CUDA_SUCCESS_)
        return cuda_fail(cutting->domain, result, "cutting a slice", err);
    if (groups != 1 || out->of.sm.count != size)
        return muster_error_fill(
            err, MUSTER_E_NOT_SUPPORTED, 0, "take the size that fits",
            "a slice of %u multiprocessors cannot be cut from the %u that are left; %u fit", size,
            cutting->left.of.sm.count, groups == 1 ? out->of.sm.count : 0);
    cutting->left = rest;
    return MUSTER_OK;
}

static muster_status begin_cutting(struct cutting *cutting, struct cuda_domain *domain,
                                   struct muster_error *err)
{
    const struct cuda_driver *driver = &domain->backend->driver;
    *cutting = (struct cutting){ .domain = domain };
    cuda_result result = driver->device_resource(domain->number, &cutting->left, CUDA_RESOURCE_SM);
    if (result != CUDA_SUCCESS_)
        return cuda_fail(domain, result, "asking for the GPU's multiprocessors", err);
    cutting->least = cutting->left.of.sm.least ? cutting->left.of.sm.least : 1;
    cutting->step = cutting->left.of.sm.alignment ? cutting->left.of.sm.alignment : 1;
    return MUSTER_OK;
}

muster_status cuda_slice_plan(void *state, const uint32_t *sizes, size_t count,
                              struct muster_error *err)
{
    struct cuda_device *device = state;
    struct cuda_domain *domain = device->domain;
    struct cuda_scope scope;
    struct cutting cutting;
    uint64_t total = 0;
    if (device->green || !(domain->info.capabilities & MUSTER_CAN_SLICE))
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                                 "install a driver for CUDA 12.5 or later, and cut whole GPUs",
                                 "the GPU cannot be cut");
    muster_status status = cuda_enter(&scope, domain, err);
    if (status != MUSTER_OK)
        return status;
    status = begin_cutting(&cutting, domain, err);
    for (size_t i = 0; i < count; i++) {
        total += sizes[i];
        if (sizes[i] == 0 && status == MUSTER_OK)
            status = muster_error_fill(err, MUSTER_E_INVALID, 0, "give each at least one",
                                       "a slice without multiprocessors would never finish");
    }
    if (status == MUSTER_OK &&
        (count == 0 || count > CUDA_SLICES_MAX || total > cutting.left.of.sm.count))
        status = say_too_many(&cutting, count, total, err);
    /* Sizes in step first, so that what is left is left for the one that is not. */
    for (int in_step = 1; in_step >= 0; in_step--)
        for (size_t i = 0; i < count && status == MUSTER_OK; i++)
            if ((sizes[i] % cutting.step == 0 && sizes[i] >= cutting.least) == in_step)
                status = cut(&cutting, sizes[i], &device->slices[i], err);
    cuda_leave(&scope, CUDA_SUCCESS_, "", NULL);
    device->slice_count = status == MUSTER_OK ? count : 0;
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
    slice->domain = domain;
    cuda_result result = driver->resource_describe(&desc, &device->slices[index], 1);
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
    info->capabilities &= ~(uint32_t)MUSTER_CAN_SLICE;
    info->cores = device->slices[index].of.sm.count;
    info->weight *= (double)info->cores / domain->info.cores;
    return MUSTER_OK;
}

void cuda_slice_unplan(void *state)
{
    ((struct cuda_device *)state)->slice_count = 0;
}
