/*
 * Host memory that was registered, for whom, and how often. The driver knows a range once for the
 * whole process and all its GPUs; several lanes of a job register the same buffers, and the first to
 * be done must not take them from under the copies of the others.
 */
#include "backend/cuda/state.h"
#include "base/allocator.h"
#include "base/invariant.h"

#include <stdio.h>

/* One range as the driver has it. */
struct cuda_registration {
    struct cuda_registration *next;
    void *memory; /* borrowed */
    size_t bytes;
    uint32_t holders;
    struct cuda_domain *domain; /* whose context it was registered in */
};

static struct cuda_registration **find(struct cuda_backend *backend, const void *memory)
{
    struct cuda_registration **at = &backend->registrations;
    while (*at && (*at)->memory != memory)
        at = &(*at)->next;
    return at;
}

static muster_status tell_driver(struct cuda_domain *domain, void *memory, size_t bytes,
                                 struct muster_error *err)
{
    struct cuda_scope scope;
    char what[64];
    muster_status status = cuda_enter(&scope, domain, err);
    if (status != MUSTER_OK)
        return status;
    snprintf(what, sizeof what, "pinning %zu bytes of host memory", bytes);
    cuda_result result =
        domain->backend->driver.host_register(memory, bytes, CUDA_FLAG_REGISTER_PORTABLE);
    /* It is the host's memory that is short of locked pages, not the device's. */
    if (result == CUDA_OUT_OF_MEMORY) {
        cuda_leave(&scope, CUDA_SUCCESS_, what, NULL);
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, (int)result,
                                 "raise the limit on locked memory, or pin less",
                                 "%s: the system refused", what);
    }
    return cuda_leave(&scope, result, what, err);
}

/* With the backend's lock held. */
static muster_status add(struct cuda_domain *domain, void *memory, size_t bytes,
                         struct muster_error *err)
{
    struct cuda_backend *backend = domain->backend;
    const struct muster_allocator *allocator = backend->services->allocator;
    struct cuda_registration *made = allocator_take(allocator, 1, sizeof *made);
    if (!made)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for pinned memory");
    muster_status status = tell_driver(domain, memory, bytes, err);
    if (status != MUSTER_OK) {
        allocator_give(allocator, made, 1, sizeof *made);
        return status;
    }
    *made = (struct cuda_registration){ backend->registrations, memory, bytes, 1, domain };
    backend->registrations = made;
    return MUSTER_OK;
}

muster_status cuda_host_register(void *state, void *memory, size_t bytes, struct muster_error *err)
{
    struct cuda_domain *domain = ((struct cuda_device *)state)->domain;
    struct cuda_backend *backend = domain->backend;
    muster_status status = cuda_check(domain, err);
    if (status != MUSTER_OK)
        return status;
    /* Also while the driver works: who asks for the same range must know how that went. */
    platform_mutex_lock(&backend->registering);
    struct cuda_registration *known = *find(backend, memory);
    if (known && bytes <= known->bytes)
        known->holders++;
    else
        status = add(domain, memory, bytes, err);
    platform_mutex_unlock(&backend->registering);
    return status;
}

void cuda_host_unregister(void *state, void *memory)
{
    struct cuda_backend *backend = ((struct cuda_device *)state)->domain->backend;
    struct cuda_scope scope;
    platform_mutex_lock(&backend->registering);
    struct cuda_registration **at = find(backend, memory), *known = *at;
    if (known && --known->holders == 0) {
        *at = known->next;
        if (cuda_enter(&scope, known->domain, NULL) == MUSTER_OK)
            cuda_leave(&scope, backend->driver.host_unregister(memory), "unpinning", NULL);
        allocator_give(backend->services->allocator, known, 1, sizeof *known);
    }
    platform_mutex_unlock(&backend->registering);
}

muster_status cuda_registrations_init(struct cuda_backend *backend, struct muster_error *err)
{
    return platform_mutex_init(&backend->registering, err);
}

void cuda_registrations_deinit(struct cuda_backend *backend)
{
    INVARIANT(!backend->registrations);
    platform_mutex_deinit(&backend->registering);
}
