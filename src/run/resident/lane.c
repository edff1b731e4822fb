/*
 * Lanes: making and ending them, and the blocks that are attached to one.
 */
#include "base/allocator.h"
#include "base/invariant.h"
#include "kernel/signature.h"
#include "platform/machine.h"
#include "run/memory/kernel.h"
#include "run/memory/memory.h"
#include "run/resident/resident.h"

#include <string.h>

#define ENTRIES_DEFAULT 1024u
#define IDLE_NS_DEFAULT 10000000u
#define HANG_NS_DEFAULT 500000000u
#define THREADS_DEFAULT 256u
/* How often somebody who waits for the last tasks looks. */
#define DRAIN_NS 200000u

static const struct resident_kind_of_seats *
kind_for(const struct muster *m, const struct run_device *device, struct muster_error *err)
{
    const char *backend = device->backend->table.name, *isolate = m->options.isolate;
    if (isolate && (run_list_names(isolate, backend) || run_list_names(isolate, "all")))
        muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "do not isolate the device",
                          "%s is in a process of its own, which does not see the lane's ring",
                          device->info.id);
    else if (strcmp(backend, "cpu") == 0 || strcmp(backend, "sim") == 0)
        return &resident_threads;
    else if (strcmp(backend, "cuda") == 0)
        return &resident_device;
    else if (strcmp(backend, "opencl") == 0)
        muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "use a cpu or cuda device",
                          "%s: OpenCL does not promise that a kernel which waits for the host sees "
                          "what the host writes, nor that others run beside it",
                          device->info.id);
    else
        muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "use a cpu, sim or cuda device",
                          "the backend %s has no resident lanes", backend);
    return NULL;
}

static muster_status read_options(const struct muster_resident_options *given,
                                  struct muster_resident_options *out, struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    *out = (struct muster_resident_options)MUSTER_RESIDENT_OPTIONS_INIT;
    if (given)
        status = layout_read(LAYOUT(muster_resident_options), given, out, err);
    if (status != MUSTER_OK)
        return status;
    if (out->entries == 0)
        out->entries = ENTRIES_DEFAULT;
    if (out->threads == 0)
        out->threads = THREADS_DEFAULT;
    if (out->idle_ns == 0)
        out->idle_ns = IDLE_NS_DEFAULT;
    if (out->hang_ns == 0)
        out->hang_ns = HANG_NS_DEFAULT;
    if (out->entries > MUSTER_RESIDENT_ENTRIES_MAX || (out->entries & (out->entries - 1)) != 0)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "give a power of two up to 4,096",
                                 "a lane of %u entries", out->entries);
    if (out->cores > RESIDENT_SEATS_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, NULL, "a lane of %u cores; at most %d",
                                 out->cores, RESIDENT_SEATS_MAX);
    if (out->threads > 1024 || (out->threads % 32 != 0 && out->threads != 1))
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "give a multiple of 32 up to 1,024",
                                 "a lane of %u threads a multiprocessor", out->threads);
    return MUSTER_OK;
}
_Static_assert(MUSTER_RESIDENT_ENTRIES_MAX <= 65536, "a record's number fits into a header");

/* What the checker is to know of a kernel. */
static muster_status read_opcode(const struct muster_kernel *kernel, struct resident_opcode *out,
                                 struct muster_error *err)
{
    const struct kernel_entry *entry = kernel_entry(kernel);
    *out = (struct resident_opcode){ .is_known = entry != NULL };
    if (!entry)
        return MUSTER_OK;
    if (kernel_entry_reduces(entry) || entry->cell != KERNEL_NO_CELL)
        return muster_error_fill(
            err, MUSTER_E_NOT_SUPPORTED, 0, "give it to muster_submit as usual",
            "the kernel %s %s, so it cannot be part of a resident lane", kernel_name(kernel),
            kernel_entry_reduces(entry) ? "is a reduction" : "looks at neighbours in a grid");
    out->arg_count = (uint8_t)entry->parameter_count;
    for (size_t i = 0; i < entry->parameter_count; i++) {
        const struct kernel_parameter *parameter = &entry->parameters[i];
        out->blocks |= (uint16_t)(parameter->is_block << i);
        out->written |= (uint16_t)((parameter->is_block && !parameter->is_const) << i);
        out->bytes[i] =
            (uint32_t)(parameter->is_block ? parameter->element_bytes : parameter->bytes);
    }
    return MUSTER_OK;
}

static muster_status take_kernels(struct muster_resident *lane,
                                  struct muster_kernel *const *kernels, size_t count,
                                  struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    for (size_t i = 0; i < count && status == MUSTER_OK; i++) {
        if (!kernels[i] || !kernel_is_of(kernels[i], lane->m))
            return run_bad_argument(err, "muster_resident_create", "a kernel is another runtime's");
        status = read_opcode(kernels[i], &lane->opcodes[i], err);
        lane->kernels[i] = kernels[i];
    }
    if (status != MUSTER_OK)
        return status;
    run_lock(lane->m);
    for (size_t i = 0; i < count; i++)
        kernel_hold_locked(kernels[i]);
    run_unlock(lane->m);
    lane->kernel_count = (uint32_t)count;
    return status;
}

static size_t aligned(size_t bytes)
{
    return (bytes + 4095) & ~(size_t)4095;
}

/* One piece for all, each part at a page. */
static muster_status make_memory(struct muster_resident *lane, uint32_t seats,
                                 struct muster_error *err)
{
    size_t entries = lane->options.entries;
    size_t signs = 4096, headers = signs + aligned(seats * sizeof(struct resident_sign));
    size_t ends = headers + aligned(seats * entries * sizeof(struct resident_header));
    size_t bodies = ends + aligned(entries * sizeof *lane->ends);
    void *memory = NULL;
    muster_status status = MUSTER_OK;
    lane->memory_bytes = bodies + entries * RESIDENT_BODY_MAX;
    lane->is_pinned = lane->kind == &resident_device;
    if (lane->is_pinned)
        status =
            muster_host_allocate(lane->m, lane->device_handle, lane->memory_bytes, &memory, err);
    else if (!(memory = platform_pages_map(lane->memory_bytes, lane->device->info.numa_node)))
        status = run_no_memory(err, "a resident lane's ring");
    if (status != MUSTER_OK)
        return status;
    if (lane->is_pinned)
        memset(memory, 0, bodies);
    lane->memory = memory;
    lane->control = memory;
    lane->signs = (struct resident_sign *)((char *)memory + signs);
    lane->headers = (struct resident_header *)((char *)memory + headers);
    lane->ends = (_Atomic uint64_t *)(void *)((char *)memory + ends);
    lane->bodies = (char *)memory + bodies;
    return MUSTER_OK;
}

static void free_memory(struct muster_resident *lane)
{
    if (lane->memory && lane->is_pinned)
        muster_host_free(lane->m, lane->memory, NULL);
    else if (lane->memory)
        platform_pages_unmap(lane->memory, lane->memory_bytes);
}

static muster_status make_records(struct muster_resident *lane, struct muster_error *err)
{
    const struct muster_allocator *allocator = &lane->m->allocator;
    uint32_t entries = lane->options.entries;
    lane->records = allocator_take(allocator, entries, sizeof *lane->records);
    lane->order =
        allocator_take(allocator, (size_t)entries * RESIDENT_SEATS_MAX, sizeof *lane->order);
    if (!lane->records || !lane->order)
        return run_no_memory(err, "a resident lane");
    for (uint32_t i = entries; i-- > 0;) {
        lane->records[i].lane = lane;
        lane->records[i].index = i;
        lane->records[i].next = lane->spare;
        lane->spare = &lane->records[i];
    }
    lane->spare_count = entries;
    return MUSTER_OK;
}

static muster_status make_locks(struct muster_resident *lane, struct muster_error *err)
{
    muster_status status = platform_mutex_init_brief(&lane->lock, err);
    if (status != MUSTER_OK)
        return status;
    if ((status = platform_condition_init(&lane->changed, err)) != MUSTER_OK)
        goto no_changed;
    if ((status = platform_condition_init(&lane->watch_wake, err)) != MUSTER_OK)
        goto no_wake;
    return MUSTER_OK;
no_wake:
    platform_condition_deinit(&lane->changed);
no_changed:
    platform_mutex_deinit(&lane->lock);
    return status;
}

static void free_lane(struct muster_resident *lane)
{
    const struct muster_allocator *allocator = &lane->m->allocator;
    for (uint32_t i = 0; i < lane->kernel_count; i++)
        kernel_let_go(lane->kernels[i]);
    free_memory(lane);
    if (lane->stream.generation > 0)
        muster_stream_release(lane->m, lane->stream, NULL);
    allocator_give(allocator, lane->order, (size_t)lane->options.entries * RESIDENT_SEATS_MAX,
                   sizeof *lane->order);
    allocator_give(allocator, lane->records, lane->options.entries, sizeof *lane->records);
    allocator_give(allocator, lane, 1, sizeof *lane);
}

/* The smallest number of seats that means something, where the caller leaves it open. */
static uint32_t default_seats(const struct muster_resident *lane)
{
    return lane->kind == &resident_threads ? 1 : 0;
}

/* Threads, locks and seats: the last things that a lane gets. */
static muster_status make_alive(struct muster_resident *lane, struct muster_error *err)
{
    muster_status status = make_locks(lane, err);
    if (status != MUSTER_OK)
        return status;
    status = lane->kind->make(lane, err);
    if (status != MUSTER_OK)
        goto no_seats;
    status = platform_thread_start(&lane->watch, resident_watch, lane, "muster-lane", NULL, err);
    if (status == MUSTER_OK)
        return status;
    lane->kind->end(lane);
no_seats:
    platform_condition_deinit(&lane->watch_wake);
    platform_condition_deinit(&lane->changed);
    platform_mutex_deinit(&lane->lock);
    return status;
}

static muster_status make_lane(struct muster_resident *lane, struct muster_kernel *const *kernels,
                               size_t count, struct muster_error *err)
{
    muster_status status = take_kernels(lane, kernels, count, err);
    if (status == MUSTER_OK)
        status = muster_stream_acquire(lane->m, lane->device_handle, 0, &lane->stream, err);
    if (status == MUSTER_OK)
        status = make_records(lane, err);
    if (status == MUSTER_OK)
        status = make_memory(
            lane, lane->options.cores > 0 ? lane->options.cores : RESIDENT_SEATS_MAX, err);
    return status == MUSTER_OK ? make_alive(lane, err) : status;
}

muster_status muster_resident_create(struct muster *m, muster_device device,
                                     struct muster_kernel *const *kernels, size_t count,
                                     const struct muster_resident_options *options,
                                     struct muster_resident **out, struct muster_error *err)
{
    struct muster_resident_options read;
    struct run_device *found;
    if (!m || !kernels || count == 0 || !out)
        return run_bad_argument(err, "muster_resident_create",
                                "an argument is NULL, or count is 0");
    if (run_is_forked(m))
        return run_say_forked(err);
    if (count > MUSTER_RESIDENT_KERNELS_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "make two lanes",
                                 "%zu kernels; at most %d", count, MUSTER_RESIDENT_KERNELS_MAX);
    muster_status status = read_options(options, &read, err);
    if (status != MUSTER_OK)
        return status;
    run_lock(m);
    status = device_resolve_locked(m, device, &found, err);
    if (status == MUSTER_OK)
        status = device_check_locked(found, err);
    run_unlock(m);
    if (status != MUSTER_OK)
        return status;
    const struct resident_kind_of_seats *kind = kind_for(m, found, err);
    if (!kind)
        return MUSTER_E_NOT_SUPPORTED;
    struct muster_resident *lane = allocator_take(&m->allocator, 1, sizeof *lane);
    if (!lane)
        return run_no_memory(err, "a resident lane");
    lane->m = m;
    lane->device = found;
    lane->device_handle = device;
    lane->kind = kind;
    lane->options = read;
    if (lane->options.cores == 0)
        lane->options.cores = default_seats(lane);
    status = make_lane(lane, kernels, count, err);
    if (status != MUSTER_OK) {
        free_lane(lane);
        return status;
    }
    run_lock(m);
    lane->next = m->residents;
    m->residents = lane;
    run_unlock(m);
    *out = lane;
    return MUSTER_OK;
}

/* Acquire pairs with the release of the last who looked. */
static bool is_used_locked(struct muster_resident *lane)
{
    return lane->spare_count < lane->options.entries ||
           atomic_load_explicit(&lane->lookers, memory_order_acquire) > 0;
}

/* Waits until every record is spare: no task of the lane is left. */
static void drain(struct muster_resident *lane)
{
    platform_mutex_lock(&lane->lock);
    lane->is_shut = true;
    while (is_used_locked(lane)) {
        platform_mutex_unlock(&lane->lock);
        lane->m->resident_hooks.tell(lane, false);
        platform_mutex_lock(&lane->lock);
        if (is_used_locked(lane))
            platform_condition_wait(&lane->changed, &lane->lock, platform_deadline_ns(DRAIN_NS));
    }
    platform_mutex_unlock(&lane->lock);
    /* Acquire pairs with the release in pool_make: the hooks are there. */
    if (atomic_load_explicit(&lane->m->task_pool, memory_order_acquire))
        lane->m->resident_hooks.forget(lane);
}

static void stop_watch(struct muster_resident *lane)
{
    platform_mutex_lock(&lane->lock);
    lane->watch_must_stop = true;
    platform_condition_wake_all(&lane->watch_wake);
    platform_mutex_unlock(&lane->lock);
    platform_thread_join(&lane->watch);
}

/* The end of a lane that is on no list any more. False: something of it still runs, and it stays. */
static bool end_lane(struct muster_resident *lane)
{
    drain(lane);
    muster_status left = resident_leave(lane, NULL);
    stop_watch(lane);
    if (left != MUSTER_OK)
        atomic_store_explicit(&lane->control->run, 0, memory_order_release);
    if (!lane->kind->end(lane))
        return false;
    for (uint32_t i = 0; i < MUSTER_RESIDENT_BLOCKS_MAX; i++)
        if (lane->attached[i].is_attached)
            muster_resident_detach(lane, &lane->attached[i].block, 1, NULL);
    platform_condition_deinit(&lane->watch_wake);
    platform_condition_deinit(&lane->changed);
    platform_mutex_deinit(&lane->lock);
    free_lane(lane);
    return true;
}

muster_status muster_resident_destroy(struct muster_resident *lane, struct muster_error *err)
{
    if (!lane)
        return MUSTER_OK;
    struct muster *m = lane->m;
    if (run_is_forked(m))
        return run_say_forked(err);
    if (platform_frame_is_in(FRAME_TASK, NULL) || platform_frame_is_in(FRAME_KERNEL, NULL))
        return run_say_stuck(err, "muster_resident_destroy");
    run_lock(m);
    struct muster_resident **at = &m->residents;
    while (*at && *at != lane)
        at = &(*at)->next;
    if (*at)
        *at = lane->next;
    run_unlock(m);
    char id[sizeof lane->device->info.id];
    memcpy(id, lane->device->info.id, sizeof id);
    if (end_lane(lane))
        return MUSTER_OK;
    /* Where closing, and a look for leaks, find it. */
    run_lock(m);
    lane->next = m->residents_left;
    m->residents_left = lane;
    run_unlock(m);
    return muster_error_fill(err, MUSTER_E_DEVICE_HUNG, 0, "restart the process to get it back",
                             "a resident lane of %s did not leave; it is abandoned", id);
}

uint32_t residents_destroy_all(struct muster *m)
{
    uint32_t left = 0;
    while (m->residents)
        muster_resident_destroy(m->residents, NULL);
    for (struct muster_resident *lane = m->residents_left; lane; lane = lane->next)
        left++;
    return left;
}

static muster_status attach_one(struct muster_resident *lane, muster_block block,
                                struct muster_error *err)
{
    const struct muster_use use = MUSTER_USE(block, MUSTER_READS_WRITES);
    struct run_block *found;
    struct resident_block known = { 0 };
    muster_status status = muster_block_begin(lane->m, lane->stream, &use, 1, err);
    if (status != MUSTER_OK)
        return status;
    run_lock(lane->m);
    status = block_resolve_locked(lane->m, block, &found, err);
    if (status == MUSTER_OK)
        known = (struct resident_block){ found->memory.address, found->memory.bytes, 0 };
    run_unlock(lane->m);
    uint32_t slot = block.index % MUSTER_RESIDENT_BLOCKS_MAX, tried = 0;
    platform_mutex_lock(&lane->lock);
    while (tried < MUSTER_RESIDENT_BLOCKS_MAX && lane->attached[slot].is_attached) {
        slot = (slot + 1) % MUSTER_RESIDENT_BLOCKS_MAX;
        tried++;
    }
    if (status == MUSTER_OK && tried == MUSTER_RESIDENT_BLOCKS_MAX)
        status = muster_error_fill(err, MUSTER_E_CAPACITY, 0, "detach some first",
                                   "the lane has %d blocks", MUSTER_RESIDENT_BLOCKS_MAX);
    if (status == MUSTER_OK) {
        /* Never 0, which means that there is none. */
        known.generation =
            ++lane->block_generation ? lane->block_generation : ++lane->block_generation;
        lane->blocks[slot] = known;
        lane->attached[slot] = (struct resident_attached){ block, 0, true };
    }
    platform_mutex_unlock(&lane->lock);
    if (status != MUSTER_OK)
        muster_block_end(lane->m, lane->stream, &use, 1, NULL);
    return status;
}

static uint32_t find_attached_locked(const struct muster_resident *lane, muster_block block)
{
    uint32_t slot = 0;
    while (slot < MUSTER_RESIDENT_BLOCKS_MAX &&
           !(lane->attached[slot].is_attached && lane->attached[slot].block.index == block.index &&
             lane->attached[slot].block.generation == block.generation))
        slot++;
    return slot;
}

static muster_status detach_one(struct muster_resident *lane, muster_block block,
                                struct muster_error *err)
{
    const struct muster_use use = MUSTER_USE(block, MUSTER_READS_WRITES);
    platform_mutex_lock(&lane->lock);
    uint32_t slot = find_attached_locked(lane, block);
    bool is_here = slot < MUSTER_RESIDENT_BLOCKS_MAX;
    if (is_here) {
        lane->attached[slot].is_attached = false;
        lane->blocks[slot] = (struct resident_block){ 0 };
    }
    platform_mutex_unlock(&lane->lock);
    return is_here ? muster_block_end(lane->m, lane->stream, &use, 1, err) : MUSTER_OK;
}

static muster_status check_call(const struct muster_resident *lane, const muster_block *blocks,
                                size_t count, const char *function, struct muster_error *err)
{
    if (!lane || (!blocks && count > 0))
        return run_bad_argument(err, function, "an argument is NULL");
    return run_is_forked(lane->m) ? run_say_forked(err) : MUSTER_OK;
}

muster_status muster_resident_attach(struct muster_resident *lane, const muster_block *blocks,
                                     size_t count, struct muster_error *err)
{
    size_t attached = 0;
    muster_status status = check_call(lane, blocks, count, "muster_resident_attach", err);
    if (status != MUSTER_OK)
        return status;
    while (attached < count && status == MUSTER_OK) {
        status = attach_one(lane, blocks[attached], err);
        attached += status == MUSTER_OK;
    }
    /* What used them before has ended: the lane's tasks are on no stream that could wait for it. */
    if (status == MUSTER_OK && count > 0)
        status = muster_stream_wait(lane->m, lane->stream, UINT64_MAX, err);
    while (status != MUSTER_OK && attached-- > 0)
        detach_one(lane, blocks[attached], NULL);
    return status;
}

muster_status muster_resident_detach(struct muster_resident *lane, const muster_block *blocks,
                                     size_t count, struct muster_error *err)
{
    muster_status status = check_call(lane, blocks, count, "muster_resident_detach", err);
    if (status != MUSTER_OK)
        return status;
    platform_mutex_lock(&lane->lock);
    for (size_t i = 0; i < count && status == MUSTER_OK; i++) {
        uint32_t slot = find_attached_locked(lane, blocks[i]);
        if (slot == MUSTER_RESIDENT_BLOCKS_MAX)
            status = muster_error_fill(err, MUSTER_E_STALE, 0, "attach it first",
                                       "block number %zu is not attached to the lane", i);
        else if (lane->attached[slot].users > 0)
            status = muster_error_fill(err, MUSTER_E_BUSY, 0, "wait for the tasks first",
                                       "%u tasks of the lane use block number %zu",
                                       lane->attached[slot].users, i);
    }
    platform_mutex_unlock(&lane->lock);
    for (size_t i = 0; i < count && status == MUSTER_OK; i++)
        status = detach_one(lane, blocks[i], err);
    return status;
}

muster_status muster_resident_park(struct muster_resident *lane, struct muster_error *err)
{
    muster_status status = check_call(lane, NULL, 0, "muster_resident_park", err);
    return status == MUSTER_OK ? resident_leave(lane, err) : status;
}

muster_status muster_resident_report(struct muster_resident *lane,
                                     struct muster_resident_report *report,
                                     struct muster_error *err)
{
    muster_status status = check_call(lane, NULL, 0, "muster_resident_report", err);
    if (status == MUSTER_OK && !report)
        return run_bad_argument(err, "muster_resident_report", "an argument is NULL");
    if (status == MUSTER_OK)
        status = layout_check_room(LAYOUT(muster_resident_report), report, err);
    if (status != MUSTER_OK)
        return status;
    struct muster_resident_report found = { .size = sizeof found };
    platform_mutex_lock(&lane->lock);
    found.state = lane->is_lost                 ? MUSTER_RESIDENT_LOST
                  : lane->state == RESIDENT_OFF ? MUSTER_RESIDENT_PARKED
                                                : MUSTER_RESIDENT_RUNNING;
    found.cores = lane->seat_count;
    found.threads = lane->kind == &resident_threads ? 1 : lane->options.threads;
    found.entries = lane->options.entries;
    found.posted = lane->in_ring;
    found.tasks = lane->tasks;
    found.steps = lane->steps;
    found.starts = lane->starts;
    found.parks = lane->parks;
    found.full = lane->full;
    found.leave_ns = lane->leave_ns;
    platform_mutex_unlock(&lane->lock);
    layout_write(LAYOUT(muster_resident_report), report, &found);
    return MUSTER_OK;
}
