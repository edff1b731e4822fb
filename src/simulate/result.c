#include "simulate/result.h"

#include "base/allocator.h"

#include <muster/backend.h>

muster_status result_no_memory(struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, "simulate fewer devices",
                             "no host memory for the simulation");
}

struct result *result_make(const struct muster_allocator *allocator, size_t device_count,
                           size_t job_count)
{
    struct result *result = allocator_take(allocator, 1, sizeof *result);
    if (!result)
        return NULL;
    struct muster_simulation *simulation = &result->simulation;
    result->allocator = *allocator;
    simulation->size = sizeof *simulation;
    simulation->device_count = device_count;
    simulation->job_count = job_count;
    result->devices = allocator_take(allocator, device_count, sizeof *result->devices);
    result->pointers = allocator_take(allocator, device_count, sizeof *result->pointers);
    result->jobs = allocator_take(allocator, job_count, sizeof *result->jobs);
    result->job_pointers = allocator_take(allocator, job_count, sizeof *result->job_pointers);
    if (!result->devices || !result->pointers || !result->jobs || !result->job_pointers) {
        muster_simulation_destroy(simulation);
        return NULL;
    }
    simulation->devices = result->pointers;
    simulation->jobs = job_count > 0 ? result->job_pointers : NULL;
    for (size_t i = 0; i < device_count; i++) {
        result->pointers[i] = &result->devices[i];
        result->devices[i].size = sizeof result->devices[i];
        result->devices[i].health = "ok";
    }
    for (size_t i = 0; i < job_count; i++) {
        result->job_pointers[i] = &result->jobs[i];
        result->jobs[i].size = sizeof result->jobs[i];
    }
    return result;
}

void muster_simulation_destroy(struct muster_simulation *simulation)
{
    if (!simulation)
        return;
    struct result *result = (struct result *)simulation;
    struct muster_allocator allocator = result->allocator;
    size_t devices = simulation->device_count, jobs = simulation->job_count;
    allocator_give(&allocator, result->job_pointers, jobs, sizeof *result->job_pointers);
    allocator_give(&allocator, result->jobs, jobs, sizeof *result->jobs);
    allocator_give(&allocator, result->pointers, devices, sizeof *result->pointers);
    allocator_give(&allocator, result->devices, devices, sizeof *result->devices);
    allocator_give(&allocator, result, 1, sizeof *result);
}
