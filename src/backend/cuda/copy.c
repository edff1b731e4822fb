/*
 * Copies and fills.
 *
 * A copy from or to pageable memory makes the driver wait for all the stream was given before. On
 * an idle stream that is nothing, and it is let; on a busy one the bytes go through a pinned piece
 * of the stream's own, filled or emptied by host calls in their turn, so that the caller does not
 * wait for other work. All pieces are given at once: a second stream, fed bit by bit while this one
 * waits for a value, could share its hardware queue and would then never get its turn.
 */
#include "backend/cuda/state.h"
#include "base/allocator.h"

#include <stdio.h>
#include <string.h>

/*
 * The driver makes the caller wait when about a thousand operations are ahead of a stream. A piece is
 * two of them, so longer copies go through a larger piece.
 */
#define SMALL_PIECES_MAX 64

static cuda_pointer device_address(const struct muster_place *place)
{
    return place->memory->address + place->offset;
}

static bool is_pinned(const struct cuda_driver *driver, const unsigned char *host)
{
    unsigned int type = 0;
    return driver->pointer_attribute(&type, CUDA_POINTER_MEMORY_TYPE,
                                     (cuda_pointer)(uintptr_t)host) == CUDA_SUCCESS_ &&
           type == CUDA_MEMORY_TYPE_HOST;
}

enum pinning { PINNED_NOT, PINNED_PARTLY, PINNED_ALL };

/* By its ends. What is pinned in part the driver refuses. */
static enum pinning pinning_of(const struct cuda_driver *driver, const unsigned char *host,
                               uint64_t bytes)
{
    bool has_first = is_pinned(driver, host);
    bool has_last = bytes > 1 ? is_pinned(driver, host + (bytes - 1)) : has_first;
    return has_first && has_last ? PINNED_ALL : has_first || has_last ? PINNED_PARTLY : PINNED_NOT;
}

int cuda_host_is_fast(void *state, const void *memory, size_t bytes)
{
    struct cuda_domain *domain = ((struct cuda_device *)state)->domain;
    struct cuda_scope scope;
    /* A device that is lost copies nothing, however fast. */
    if (cuda_enter(&scope, domain, NULL) != MUSTER_OK)
        return 1;
    enum pinning pinning = pinning_of(&domain->backend->driver, memory, bytes);
    cuda_leave(&scope, CUDA_SUCCESS_, "", NULL);
    return pinning == PINNED_ALL;
}

/* One piece of a copy on its way between pageable memory and the stage. */
struct passage {
    const struct muster_allocator *allocator;
    void *to;
    const void *from;
    size_t bytes;
};

static void pass(void *user, muster_status status)
{
    struct passage *passage = user;
    if (status == MUSTER_OK)
        memcpy(passage->to, passage->from, passage->bytes);
    allocator_give(passage->allocator, passage, 1, sizeof *passage);
}

static muster_status give_passage(struct cuda_queue *queue, void *to, const void *from,
                                  size_t bytes, struct muster_error *err)
{
    const struct muster_allocator *allocator = queue->device->domain->backend->services->allocator;
    struct passage *passage = allocator_take(allocator, 1, sizeof *passage);
    if (!passage)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a copy");
    *passage = (struct passage){ allocator, to, from, bytes };
    muster_status status = cuda_call_give(queue, pass, passage, err);
    if (status != MUSTER_OK)
        allocator_give(allocator, passage, 1, sizeof *passage);
    return status;
}

/* What the copy goes through; without a large one it goes through a small one. */
static struct cuda_pinned *stage_for(struct cuda_queue *queue, uint64_t bytes, size_t *stage_bytes,
                                     struct muster_error *err)
{
    struct cuda_domain *domain = queue->device->domain;
    *stage_bytes = cuda_pinned_bytes(CUDA_PINNED_STAGE);
    if (bytes > SMALL_PIECES_MAX * (uint64_t)*stage_bytes) {
        if (!queue->large_stage)
            queue->large_stage = cuda_pinned_acquire(domain, CUDA_PINNED_STAGE_LARGE, NULL);
        if (queue->large_stage) {
            *stage_bytes = cuda_pinned_bytes(CUDA_PINNED_STAGE_LARGE);
            return queue->large_stage;
        }
    }
    if (!queue->stage)
        queue->stage = cuda_pinned_acquire(domain, CUDA_PINNED_STAGE, err);
    return queue->stage;
}

/* Piece by piece: a stream's own order keeps a piece from overtaking the one before. */
static muster_status copy_staged(struct cuda_queue *queue, cuda_pointer device, unsigned char *host,
                                 bool is_in, uint64_t bytes, struct muster_error *err)
{
    struct cuda_domain *domain = queue->device->domain;
    const struct cuda_driver *driver = &domain->backend->driver;
    size_t stage_bytes;
    struct muster_error problem = { .size = sizeof problem };
    const struct cuda_pinned *through = stage_for(queue, bytes, &stage_bytes, &problem);
    muster_status status = through ? MUSTER_OK : problem.status;
    for (uint64_t at = 0; at < bytes && status == MUSTER_OK; at += stage_bytes) {
        unsigned char *stage = through->host;
        size_t piece = bytes - at < stage_bytes ? (size_t)(bytes - at) : stage_bytes;
        cuda_result result;
        if (is_in) {
            status = give_passage(queue, stage, host + at, piece, &problem);
            if (status != MUSTER_OK)
                break;
            result = driver->copy_in(device + at, stage, piece, queue->handle);
        } else {
            result = driver->copy_out(stage, device + at, piece, queue->handle);
        }
        if (result != CUDA_SUCCESS_)
            status = cuda_fail(domain, result, "copying through pinned memory", &problem);
        else if (!is_in)
            status = give_passage(queue, host + at, stage, piece, &problem);
    }
    if (status != MUSTER_OK && err)
        *err = problem;
    return status;
}

static muster_status copy_with_host(struct cuda_queue *queue, const struct muster_copy_desc *copy,
                                    struct muster_error *err)
{
    struct cuda_domain *domain = queue->device->domain;
    const struct cuda_driver *driver = &domain->backend->driver;
    bool is_in = copy->from.memory == NULL;
    cuda_pointer device = device_address(is_in ? &copy->to : &copy->from);
    unsigned char *host = (unsigned char *)(is_in ? copy->from.host : copy->to.host) +
                          (is_in ? copy->from.offset : copy->to.offset);
    struct cuda_scope scope;
    char what[64];
    muster_status status = cuda_enter(&scope, domain, err);
    if (status != MUSTER_OK)
        return status;
    enum pinning pinning = pinning_of(driver, host, copy->bytes);
    if (pinning == PINNED_PARTLY ||
        (pinning == PINNED_NOT && driver->stream_query(queue->handle) != CUDA_SUCCESS_)) {
        status = copy_staged(queue, device, host, is_in, copy->bytes, err);
        cuda_leave(&scope, CUDA_SUCCESS_, "", NULL);
        return status;
    }
    cuda_result result = is_in ? driver->copy_in(device, host, copy->bytes, queue->handle)
                               : driver->copy_out(host, device, copy->bytes, queue->handle);
    snprintf(what, sizeof what, "copying %llu bytes %s", (unsigned long long)copy->bytes,
             is_in ? "to the GPU" : "from the GPU");
    return cuda_leave(&scope, result, what, err);
}

muster_status cuda_copy(void *state, const struct muster_copy_desc *copy, struct muster_error *err)
{
    struct cuda_queue *queue = ((struct cuda_stream *)state)->queue;
    struct cuda_domain *domain = queue->device->domain;
    struct cuda_scope scope;
    if (!copy->to.memory && !copy->from.memory)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "copy it on the host",
                                 "neither end of the copy is on the device");
    if (!copy->to.memory || !copy->from.memory)
        return copy_with_host(queue, copy, err);
    muster_status status = cuda_enter(&scope, domain, err);
    if (status != MUSTER_OK)
        return status;
    cuda_result result = domain->backend->driver.copy_inside(
        device_address(&copy->to), device_address(&copy->from), copy->bytes, queue->handle);
    return cuda_leave(&scope, result, "copying on the GPU", err);
}

muster_status cuda_fill(void *state, const struct muster_place *to, uint8_t value, uint64_t bytes,
                        struct muster_error *err)
{
    struct cuda_queue *queue = ((struct cuda_stream *)state)->queue;
    struct cuda_domain *domain = queue->device->domain;
    struct cuda_scope scope;
    if (!to->memory)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "fill it on the host",
                                 "what is to be filled is not on the device");
    muster_status status = cuda_enter(&scope, domain, err);
    if (status != MUSTER_OK)
        return status;
    cuda_result result =
        domain->backend->driver.fill(device_address(to), value, bytes, queue->handle);
    return cuda_leave(&scope, result, "filling memory", err);
}
