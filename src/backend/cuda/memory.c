/*
 * Memory: of the device, in stream order where it has pools; and pinned memory of the backend's
 * own. Gates are words of the latter.
 */
#include "backend/cuda/state.h"
#include "base/allocator.h"

#include <stdio.h>

#define GATE_BYTES 64 /* a cache line each, so that gates do not slow each other down */
#define GATES_PER_PAGE 64
/* A word that got this far is not used again, so that what gates add up to stays below 2^63. */
#define GATE_REUSE_MAX (UINT64_C(1) << 32)

size_t cuda_pinned_bytes(enum cuda_pinned_kind kind)
{
    static const size_t bytes[CUDA_PINNED_KINDS] = {
        [CUDA_PINNED_STAGE] = (size_t)1 << 20,
        [CUDA_PINNED_STAGE_LARGE] = (size_t)32 << 20,
        [CUDA_PINNED_RECORDS] = (size_t)256 << 10,
        [CUDA_PINNED_GATES] = (size_t)GATES_PER_PAGE * GATE_BYTES,
    };
    return bytes[kind];
}

static struct cuda_pinned *make_pinned(struct cuda_domain *domain, size_t bytes,
                                       struct muster_error *err)
{
    const struct cuda_driver *driver = &domain->backend->driver;
    const struct muster_allocator *allocator = domain->backend->services->allocator;
    struct cuda_pinned *pinned = allocator_take(allocator, 1, sizeof *pinned);
    if (!pinned) {
        muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for pinned memory");
        return NULL;
    }
    void *host = NULL;
    cuda_result result =
        driver->host_allocate(&host, bytes, CUDA_FLAG_HOST_PORTABLE | CUDA_FLAG_HOST_MAPPED);
    if (result == CUDA_SUCCESS_) {
        /* One address space for host and devices, on every 64-bit system. */
        pinned->host = host;
        pinned->device = (cuda_pointer)(uintptr_t)host;
        return pinned;
    }
    cuda_fail(domain, result, "allocating pinned memory", err);
    allocator_give(allocator, pinned, 1, sizeof *pinned);
    return NULL;
}

struct cuda_pinned *cuda_pinned_acquire(struct cuda_domain *domain, enum cuda_pinned_kind kind,
                                        struct muster_error *err)
{
    platform_mutex_lock(&domain->lock);
    struct cuda_pinned *pinned = domain->pinned[kind];
    if (pinned)
        domain->pinned[kind] = pinned->next;
    platform_mutex_unlock(&domain->lock);
    return pinned ? pinned : make_pinned(domain, cuda_pinned_bytes(kind), err);
}

void cuda_pinned_release(struct cuda_domain *domain, enum cuda_pinned_kind kind,
                         struct cuda_pinned *pinned)
{
    if (!pinned)
        return;
    platform_mutex_lock(&domain->lock);
    pinned->next = domain->pinned[kind];
    domain->pinned[kind] = pinned;
    platform_mutex_unlock(&domain->lock);
}

void cuda_pinned_free_all(struct cuda_domain *domain)
{
    for (int kind = 0; kind < CUDA_PINNED_KINDS; kind++)
        while (domain->pinned[kind]) {
            struct cuda_pinned *pinned = domain->pinned[kind];
            domain->pinned[kind] = pinned->next;
            /* A lost context keeps it: nobody can know what still looks at it. */
            if (!atomic_load_explicit(&domain->lost, memory_order_acquire))
                domain->backend->driver.host_free(pinned->host);
            allocator_give(domain->backend->services->allocator, pinned, 1, sizeof *pinned);
        }
}

static cuda_stream_handle stream_or_service(struct cuda_domain *domain, void *stream)
{
    return stream ? ((struct cuda_stream *)stream)->queue->handle : domain->service;
}

/* Memory kept by the pool counts as taken: given back once before the answer is no. */
static cuda_result allocate_from_pool(struct cuda_domain *domain, cuda_stream_handle stream,
                                      uint64_t bytes, cuda_pointer *out)
{
    const struct cuda_driver *driver = &domain->backend->driver;
    cuda_result result = driver->pool_allocate(out, bytes, domain->pool, stream);
    if (result != CUDA_OUT_OF_MEMORY)
        return result;
    driver->pool_trim(domain->pool, 0);
    return driver->pool_allocate(out, bytes, domain->pool, stream);
}

muster_status cuda_memory_allocate(void *state, void *stream, uint64_t bytes,
                                   struct muster_memory *out, struct muster_error *err)
{
    struct cuda_domain *domain = ((struct cuda_device *)state)->domain;
    struct cuda_scope scope;
    char what[64];
    cuda_pointer address = 0;
    if (bytes > SIZE_MAX / 2 || bytes > domain->info.memory_total)
        return muster_error_fill(err, MUSTER_E_DEVICE_MEMORY, 0, "ask for less at a time",
                                 "%llu bytes are asked for; the GPU has %llu",
                                 (unsigned long long)bytes,
                                 (unsigned long long)domain->info.memory_total);
    muster_status status = cuda_enter(&scope, domain, err);
    if (status != MUSTER_OK)
        return status;
    snprintf(what, sizeof what, "allocating %llu bytes", (unsigned long long)bytes);
    cuda_result result =
        domain->pool
            ? allocate_from_pool(domain, stream_or_service(domain, stream), bytes, &address)
            : domain->backend->driver.memory_allocate(&address, bytes);
    status = cuda_leave(&scope, result, what, err);
    if (status == MUSTER_OK)
        *out = (struct muster_memory){ .address = address, .bytes = bytes };
    return status;
}

muster_status cuda_memory_free(void *state, void *stream, struct muster_memory *memory,
                               struct muster_error *err)
{
    struct cuda_domain *domain = ((struct cuda_device *)state)->domain;
    struct cuda_scope scope;
    muster_status status = cuda_enter(&scope, domain, err);
    if (status != MUSTER_OK)
        return status;
    const struct cuda_driver *driver = &domain->backend->driver;
    cuda_result result = domain->pool
                             ? driver->pool_free(memory->address, stream_or_service(domain, stream))
                             : driver->memory_free(memory->address);
    return cuda_leave(&scope, result, "freeing memory", err);
}

/* Gates. A word never goes back, so that a wait that was released stays so when it is used again. */

static _Atomic uint64_t *word_of(const struct cuda_gate *gate)
{
    return (_Atomic uint64_t *)(void *)(gate->page->host + (size_t)gate->word * GATE_BYTES);
}

static bool take_word(struct cuda_domain *domain, struct cuda_gate *gate)
{
    struct cuda_pinned *page = domain->pinned[CUDA_PINNED_GATES];
    while (page && page->free_words == 0)
        page = page->next;
    if (!page)
        return false;
    gate->page = page;
    gate->word = (uint32_t)__builtin_ctzll(page->free_words);
    gate->base = atomic_load_explicit(word_of(gate), memory_order_relaxed);
    page->free_words &= page->free_words - 1;
    return true;
}

static struct cuda_pinned *make_page(struct cuda_domain *domain, struct muster_error *err)
{
    struct cuda_pinned *page = make_pinned(domain, cuda_pinned_bytes(CUDA_PINNED_GATES), err);
    if (!page)
        return NULL;
    page->free_words = UINT64_MAX;
    for (size_t i = 0; i < GATES_PER_PAGE; i++)
        atomic_init((_Atomic uint64_t *)(void *)(page->host + i * GATE_BYTES), 0);
    return page;
}
_Static_assert(GATES_PER_PAGE == 64, "a bit of free_words for each");

muster_status cuda_gate_init(void *state, void *gate_state, struct muster_error *err)
{
    struct cuda_device *device = state;
    struct cuda_domain *domain = device->domain;
    struct cuda_gate *gate = gate_state;
    struct cuda_scope scope;
    if (!(domain->info.capabilities & MUSTER_CAN_WAIT_VALUE))
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                                 "look for MUSTER_CAN_WAIT_VALUE in its capabilities",
                                 "streams of this GPU cannot wait for a value");
    muster_status status = cuda_enter(&scope, domain, err);
    if (status != MUSTER_OK)
        return status;
    gate->device = device;
    platform_mutex_lock(&domain->lock);
    bool taken = take_word(domain, gate);
    platform_mutex_unlock(&domain->lock);
    struct muster_error problem = { .size = sizeof problem };
    struct cuda_pinned *page = taken ? NULL : make_page(domain, &problem);
    cuda_leave(&scope, CUDA_SUCCESS_, "", NULL);
    if (taken)
        return MUSTER_OK;
    if (!page) {
        if (err)
            *err = problem;
        return problem.status;
    }
    platform_mutex_lock(&domain->lock);
    page->next = domain->pinned[CUDA_PINNED_GATES];
    domain->pinned[CUDA_PINNED_GATES] = page;
    take_word(domain, gate);
    platform_mutex_unlock(&domain->lock);
    return MUSTER_OK;
}

void cuda_gate_deinit(void *state)
{
    struct cuda_gate *gate = state;
    struct cuda_domain *domain = gate->device->domain;
    platform_mutex_lock(&domain->lock);
    if (atomic_load_explicit(word_of(gate), memory_order_relaxed) < GATE_REUSE_MAX)
        gate->page->free_words |= UINT64_C(1) << gate->word;
    platform_mutex_unlock(&domain->lock);
}

muster_status cuda_gate_publish(void *state, uint64_t value, struct muster_error *err)
{
    struct cuda_gate *gate = state;
    uint64_t reached = gate->base + value;
    uint64_t current = atomic_load_explicit(word_of(gate), memory_order_relaxed);
    /* Release: what the host wrote before is there when the device sees the value. */
    while (current < reached &&
           !atomic_compare_exchange_weak_explicit(word_of(gate), &current, reached,
                                                  memory_order_release, memory_order_relaxed))
        ;
    return cuda_check(gate->device->domain, err);
}

muster_status cuda_gate_wait(void *state, void *stream_state, uint64_t value,
                             struct muster_error *err)
{
    struct cuda_gate *gate = state;
    struct cuda_queue *queue = ((struct cuda_stream *)stream_state)->queue;
    struct cuda_domain *domain = queue->device->domain;
    struct cuda_scope scope;
    if (gate->device != queue->device)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "make a gate for each device",
                                 "a stream cannot wait for a gate of another device");
    muster_status status = cuda_enter(&scope, domain, err);
    if (status != MUSTER_OK)
        return status;
    cuda_result result = domain->backend->driver.stream_wait_value(
        queue->handle, gate->page->device + (cuda_pointer)gate->word * GATE_BYTES,
        gate->base + value, CUDA_FLAG_WAIT_GEQ);
    return cuda_leave(&scope, result, "waiting for a value", err);
}
