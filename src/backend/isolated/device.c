/*
 * Devices in helpers, their slices and their memory.
 */
#include "backend/isolated/state.h"

#include "base/allocator.h"
#include "platform/machine.h"

#include <stdio.h>
#include <string.h>

#define MEMORY_ROOM_FIRST 64u
/* What kernels can be given to, and what they are given as, differs in a helper. */
#define CAPABILITIES_LEFT_OUT                                                                      \
    ((uint32_t)(MUSTER_CAN_USE_HOST_MEMORY | MUSTER_CAN_RUN_IN_PIECES |                            \
                MUSTER_CAN_USE_SHARED_MEMORY))

static bool is_processor(const struct link *link)
{
    return strcmp(link->backend->name, "cpu") == 0;
}

/* What the helper says of its device, made harmless. */
static muster_status check_info(const struct link *link, struct muster_device_info *info,
                                struct muster_error *err)
{
    info->name[sizeof info->name - 1] = info->pci[sizeof info->pci - 1] = 0;
    info->uuid[sizeof info->uuid - 1] = 0;
    bool is_sane = info->weight > 0 && info->weight < 1e9 && info->memory_total > 0 &&
                   info->priority_greatest <= info->priority_least && info->numa_node >= -1 &&
                   (uint32_t)info->kind <= MUSTER_KIND_SIMULATED;
    if (!is_sane)
        return muster_error_fill(err, MUSTER_E_INTERNAL, 0, NULL,
                                 "the helper of %s:%u says what cannot be of its device",
                                 link->backend->name, link->index);
    /* Of the host's memory it has what both map. */
    bool works_there = (info->capabilities & MUSTER_CAN_USE_HOST_MEMORY) &&
                       atomic_load_explicit(&link->has_host, memory_order_acquire) != 0;
    info->capabilities &= ~CAPABILITIES_LEFT_OUT;
    if (works_there)
        info->capabilities |= MUSTER_CAN_USE_SHARED_MEMORY;
    /* A slice has threads of its own, and a sandbox starts no more. */
    if (link->backend->is_sandboxed)
        info->capabilities &= ~(uint32_t)MUSTER_CAN_SLICE;
    /* Functions of this program are not there; a shared object is loaded by the helper. */
    if (info->forms & MUSTER_KERNEL_FUNCTION)
        info->forms =
            (info->forms & ~(uint32_t)MUSTER_KERNEL_FUNCTION) | MUSTER_KERNEL_SHARED_OBJECT;
    /* Each whole device has a helper of its own, and dies alone. */
    info->domain = link->index;
    return MUSTER_OK;
}

/* What a helper in a sandbox cannot read any more. */
static void fill_info(const struct link *link, struct muster_device_info *info)
{
    uint64_t available;
    if (!link->backend->is_sandboxed || !is_processor(link))
        return;
    platform_processor_name(info->name, sizeof info->name);
    platform_memory(&info->memory_total, &available);
}

/* What the runtime has filled in already stays. */
static void give_info(const struct muster_device_info *from, struct muster_device_info *to)
{
    struct muster_device_info filled = *from;
    memcpy(filled.id, to->id, sizeof filled.id);
    memcpy(filled.backend, to->backend, sizeof filled.backend);
    memcpy(filled.parent, to->parent, sizeof filled.parent);
    filled.size = to->size;
    filled.streams_max = to->streams_max;
    memcpy(to, &filled, to->size < sizeof filled ? to->size : sizeof filled);
}

static void keep_open_locked(struct link *link, void *user)
{
    link->is_open[*(const uint32_t *)user] = true;
}

static muster_status ask_info(struct link *link, enum wire_kind kind, uint32_t a, uint32_t b,
                              struct muster_device_info *info, struct muster_error *err)
{
    struct muster_device_info answer;
    uint32_t number = kind == WIRE_SLICE_OPEN ? b + 1 : 0;
    const struct link_question question = { .kind = kind,
                                            .a = a,
                                            .b = b,
                                            .keep_locked = keep_open_locked,
                                            .user = &number,
                                            .answer = &answer,
                                            .answer_bytes = sizeof answer };
    muster_status status = link_ask_again(link, &question, err);
    if (status == MUSTER_OK) {
        fill_info(link, &answer);
        status = check_info(link, &answer, err);
    }
    if (status == MUSTER_OK)
        give_info(&answer, info);
    return status;
}

muster_status isolated_device_open(void *backend_state, uint32_t index, void *state,
                                   struct muster_device_info *info, struct muster_error *err)
{
    struct isolated *backend = backend_state;
    struct isolated_device *device = state;
    struct link *link = NULL;
    /* The helper that was asked how many there are is the first device's. */
    if (index == 0 && backend->first) {
        link = backend->first;
        backend->first = NULL;
    }
    muster_status status = link ? MUSTER_OK : link_create(backend, index, &link, err);
    if (status != MUSTER_OK)
        return status;
    status = ask_info(link, WIRE_DEVICE_OPEN, index, 0, info, err);
    if (status == MUSTER_OK)
        status = link_measure(link, err);
    if (status != MUSTER_OK) {
        link_destroy(link);
        return status;
    }
    *device = (struct isolated_device){ .link = link };
    return MUSTER_OK;
}

muster_status isolated_device_close(void *state)
{
    struct isolated_device *device = state;
    struct link *link = device->link;
    if (!device->is_slice) {
        link_destroy(link);
        return MUSTER_OK;
    }
    bool is_up = link_lock(link, NULL) == MUSTER_OK;
    if (is_up)
        link_say(link, WIRE_SLICE_CLOSE, device->id, 0, 0);
    else
        platform_mutex_lock(&link->lock);
    link->is_open[device->id] = false;
    platform_mutex_unlock(&link->lock);
    return MUSTER_OK;
}

muster_status isolated_device_sample(void *state, struct muster_device_sample *sample,
                                     struct muster_error *err)
{
    struct isolated_device *device = state;
    struct muster_device_sample answer = { .utilisation = -1, .temperature_c = -300 };
    if (device->link->backend->is_sandboxed && is_processor(device->link)) {
        platform_memory(&answer.memory_total, &answer.memory_free);
        *sample = answer;
        return MUSTER_OK;
    }
    const struct link_question question = { .kind = WIRE_DEVICE_SAMPLE,
                                            .a = device->id,
                                            .answer = &answer,
                                            .answer_bytes = sizeof answer };
    muster_status status = link_ask_again(device->link, &question, err);
    if (status != MUSTER_OK)
        return status;
    if (answer.memory_free > answer.memory_total)
        answer.memory_free = answer.memory_total;
    /* Comparisons with what is no number are false. */
    if (!(answer.utilisation >= 0 && answer.utilisation <= 1))
        answer.utilisation = -1;
    if (!(answer.temperature_c > -273 && answer.temperature_c < 200))
        answer.temperature_c = -300;
    *sample = answer;
    return MUSTER_OK;
}

struct plan {
    uint32_t *sizes;
    size_t count;
};

static void keep_plan_locked(struct link *link, void *user)
{
    const struct plan *plan = user;
    link->slice_sizes = plan->sizes;
    link->slice_count = plan->count;
}

muster_status isolated_slice_plan(void *state, const uint32_t *sizes, size_t count,
                                  struct muster_error *err)
{
    struct isolated_device *device = state;
    struct link *link = device->link;
    const struct muster_allocator *allocator = link->backend->services->allocator;
    if (link->backend->is_sandboxed)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "leave the slices out",
                                 "a device in a sandbox cannot be cut: it starts no more threads");
    if (count >= DEVICES_OF_LINK_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, NULL, "more than %u slices",
                                 DEVICES_OF_LINK_MAX - 1);
    uint32_t *kept = allocator_take(allocator, count, sizeof *kept);
    if (!kept)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for slices");
    memcpy(kept, sizes, count * sizeof *kept);
    struct plan plan = { kept, count };
    const struct link_question question = { .kind = WIRE_SLICE_PLAN,
                                            .a = device->id,
                                            .b = (uint32_t)count,
                                            .body = sizes,
                                            .body_bytes = count * sizeof *sizes,
                                            .keep_locked = keep_plan_locked,
                                            .user = &plan };
    muster_status status = link_ask_again(link, &question, err);
    if (status != MUSTER_OK)
        allocator_give(allocator, kept, count, sizeof *kept);
    return status;
}

muster_status isolated_slice_open(void *state, size_t index, void *slice_state,
                                  struct muster_device_info *info, struct muster_error *err)
{
    struct isolated_device *device = state, *slice = slice_state;
    struct link *link = device->link;
    muster_status status = ask_info(link, WIRE_SLICE_OPEN, device->id, (uint32_t)index, info, err);
    if (status != MUSTER_OK)
        return status;
    *slice = (struct isolated_device){ .link = link, .id = (uint32_t)index + 1, .is_slice = true };
    return MUSTER_OK;
}

void isolated_slice_unplan(void *state)
{
    struct isolated_device *device = state;
    struct link *link = device->link;
    bool is_up = link_lock(link, NULL) == MUSTER_OK;
    if (is_up)
        link_say(link, WIRE_SLICE_UNPLAN, device->id, 0, 0);
    else
        platform_mutex_lock(&link->lock);
    allocator_give(link->backend->services->allocator, link->slice_sizes, link->slice_count,
                   sizeof *link->slice_sizes);
    link->slice_sizes = NULL;
    link->slice_count = 0;
    platform_mutex_unlock(&link->lock);
}

uint64_t isolated_device_generation(void *state)
{
    struct link *link = ((struct isolated_device *)state)->link;
    return atomic_load_explicit(&link->generation_now, memory_order_acquire);
}

int isolated_device_stop(void *state)
{
    struct link *link = ((struct isolated_device *)state)->link;
    platform_mutex_lock(&link->lock);
    bool is_up = link->state == LINK_UP && atomic_load(&link->ended) == 0;
    if (is_up) {
        link->was_stopped = true;
        platform_child_kill(&link->child);
    }
    platform_mutex_unlock(&link->lock);
    return is_up;
}

void isolated_device_explain(void *state, char *text, size_t bytes)
{
    struct link *link = ((struct isolated_device *)state)->link;
    platform_mutex_lock(&link->lock);
    snprintf(text, bytes, "%s", link->crash);
    platform_mutex_unlock(&link->lock);
}

/* Memory: a number and how often it was used, so that what is not ours is noticed. */

#define OBJECT_INDEX_BITS 24u
#define MEMORY_MAX ((uint32_t)1 << OBJECT_INDEX_BITS)

static void *object_of(uint32_t index, uint32_t use)
{
    return (void *)(uintptr_t)((uint64_t)use << OBJECT_INDEX_BITS | index);
}

uint32_t memory_find_locked(const struct link *link, const struct muster_memory *memory,
                            uint64_t offset, uint64_t bytes)
{
    uint64_t object = (uint64_t)(uintptr_t)memory->object;
    uint32_t index = (uint32_t)(object & (MEMORY_MAX - 1));
    if (object == 0 || index >= link->memory_count)
        return WIRE_NONE;
    const struct isolated_memory *found = &link->memories[index];
    bool is_ours = found->device != WIRE_NONE && found->use == object >> OBJECT_INDEX_BITS;
    return is_ours && offset <= found->bytes && bytes <= found->bytes - offset ? index : WIRE_NONE;
}

static uint32_t take_memory_locked(struct link *link)
{
    const struct muster_allocator *allocator = link->backend->services->allocator;
    uint32_t index = link->memory_free;
    if (index != WIRE_NONE) {
        link->memory_free = link->memories[index].next_free;
        return index;
    }
    if (link->memory_count == link->memory_room) {
        uint32_t room = link->memory_room > 0 ? 2 * link->memory_room : MEMORY_ROOM_FIRST;
        struct isolated_memory *grown =
            room <= MEMORY_MAX ? allocator_take(allocator, room, sizeof *grown) : NULL;
        if (!grown)
            return WIRE_NONE;
        if (link->memory_count > 0)
            memcpy(grown, link->memories, link->memory_count * sizeof *grown);
        allocator_give(allocator, link->memories, link->memory_room, sizeof *grown);
        link->memories = grown;
        link->memory_room = room;
    }
    link->memories[link->memory_count].use = 0;
    return link->memory_count++;
}

static void give_memory_locked(struct link *link, uint32_t index)
{
    link->memories[index].device = WIRE_NONE;
    link->memories[index].next_free = link->memory_free;
    link->memory_free = index;
}

static void keep_memory_locked(struct link *link, void *user)
{
    const struct isolated_memory *made = user;
    link->memories[made->next_free].bytes = made->bytes;
    link->memories[made->next_free].device = made->device;
}

muster_status isolated_memory_allocate(void *device_state, void *stream, uint64_t bytes,
                                       struct muster_memory *out, struct muster_error *err)
{
    struct isolated_device *device = device_state;
    struct link *link = device->link;
    muster_status status = link_lock(link, err);
    if (status != MUSTER_OK)
        return status;
    uint32_t index = take_memory_locked(link);
    if (index != WIRE_NONE) {
        struct isolated_memory *memory = &link->memories[index];
        memory->use++;
        memory->bytes = 0;
        memory->device = WIRE_NONE;
        link_allow_locked(link, bytes);
    }
    link_unlock(link);
    if (index == WIRE_NONE)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a block");
    const struct isolated_stream *of =
        stream ? ((struct isolated_stream_state *)stream)->stream : NULL;
    const struct wire_allocation body = { .stream = of ? of->id : WIRE_NONE };
    struct isolated_memory made = { .bytes = bytes, .device = device->id, .next_free = index };
    const struct link_question question = { .kind = WIRE_MEMORY_ALLOCATE,
                                            .a = index,
                                            .b = device->id,
                                            .c = bytes,
                                            .body = &body,
                                            .body_bytes = sizeof body,
                                            .keep_locked = keep_memory_locked,
                                            .user = &made };
    status = link_ask_again(link, &question, err);
    platform_mutex_lock(&link->lock);
    if (status == MUSTER_OK) {
        *out = (struct muster_memory){ .object = object_of(index, link->memories[index].use),
                                       .bytes = bytes };
    } else {
        link_forbid_locked(link, bytes);
        give_memory_locked(link, index);
    }
    platform_mutex_unlock(&link->lock);
    return status;
}

muster_status isolated_memory_free(void *device_state, void *stream, struct muster_memory *memory,
                                   struct muster_error *err)
{
    struct isolated_device *device = device_state;
    struct link *link = device->link;
    const struct isolated_stream *of =
        stream ? ((struct isolated_stream_state *)stream)->stream : NULL;
    muster_status status = link_lock(link, err);
    if (status != MUSTER_OK) {
        platform_mutex_lock(&link->lock);
        uint32_t index = memory_find_locked(link, memory, 0, 0);
        if (index != WIRE_NONE)
            give_memory_locked(link, index);
        platform_mutex_unlock(&link->lock);
        return status;
    }
    uint32_t index = memory_find_locked(link, memory, 0, 0);
    if (index == WIRE_NONE) {
        link_unlock(link);
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "free memory once",
                                 "the memory is not the device's");
    }
    link_say(link, WIRE_MEMORY_FREE, index, of ? of->id : WIRE_NONE, 0);
    link_forbid_locked(link, link->memories[index].bytes);
    give_memory_locked(link, index);
    link_unlock(link);
    return MUSTER_OK;
}
