/*
 * Tasks with accesses where there are devices with memory of their own: core chooses places, plans copies
 * and makes room (core/dispatch.h); here that is handed to the devices' threads and to the pool's.
 */
#include "run/task/flow.h"

#include "base/allocator.h"
#include "base/invariant.h"

#include <string.h>

#define COPIES_MAX 1024u
#define RATE_PAIRS 512u
#define DECISIONS_KEPT 1024u
/* Pieces of work that devices have at a time; what is more stays with core. */
#define WORKS_MAX 2048u
/* Of a device's memory, what core may fill: drivers need some, and their pieces do not fit exactly. */
#define MEMORY_PART 0.9

static bool is_host_memory(const struct run_device *device)
{
    return device->info.capabilities & MUSTER_CAN_USE_HOST_MEMORY;
}

bool flow_wants_devices(const struct flow_pool *flow, const struct muster_task_desc *desc)
{
    struct muster_body copy;
    if (flow->dispatch || !flow_is_task(desc))
        return false;
    if (desc->kernel)
        return true;
    for (size_t i = 0; i < desc->body_count; i++) {
        const struct muster_body *body = layout_at(LAYOUT(muster_body), desc->bodies, i, &copy);
        if (strcmp(body->backend, "cpu") != 0)
            return true;
    }
    return false;
}

/* ---- Devices ---- */

void flow_give_work_locked(struct flow_pool *flow, struct flow_work *work)
{
    work->next = flow->spare_work;
    flow->spare_work = work;
    flow->spare_work_count++;
}

/* All devices that are fit for work now, as far as core can count them. No lock is held. */
static muster_status find_all(struct task_pool *pool, struct flow_device **found, uint32_t *count,
                              struct muster_error *err)
{
    struct muster *m = pool->m;
    muster_status status = device_probe_all(m, err);
    *count = 0;
    for (uint32_t i = 0; status == MUSTER_OK && *count < DISPATCH_DEVICES_MAX; i++) {
        run_lock(m);
        struct run_device *device = i < m->device_count ? m->devices[i] : NULL;
        bool is_fit =
            device && !device->is_sliced && device_check_locked(device, NULL) == MUSTER_OK;
        run_unlock(m);
        if (!device)
            break;
        if (!is_fit)
            continue;
        struct flow_device *one = allocator_take(&m->allocator, 1, sizeof *one);
        if (!one)
            return run_no_memory(err, "devices of tasks with accesses");
        one->pool = pool;
        one->device = device;
        one->index = *count;
        one->place = is_host_memory(device) ? FLOW_HOME : *count + 1;
        one->at_once = is_host_memory(device) ? pool->worker_count : FLOW_AT_ONCE;
        run_lock(m);
        one->handle = device_handle_locked(device);
        run_unlock(m);
        found[(*count)++] = one;
        status = platform_condition_init(&one->wake, err);
        if (status != MUSTER_OK) {
            (*count)--;
            allocator_give(&m->allocator, one, 1, sizeof *one);
        }
    }
    return status;
}

static void free_devices(struct task_pool *pool, struct flow_device **devices, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        platform_condition_deinit(&devices[i]->wake);
        allocator_give(&pool->m->allocator, devices[i], 1, sizeof **devices);
    }
}

static void describe(struct flow_pool *flow, struct flow_device *device)
{
    const struct dispatch_device about = { .place = device->place,
                                           .at_once = device->at_once,
                                           .ahead = 2 };
    if (device->place != FLOW_HOME) {
        const struct dispatch_place place = {
            .bytes = (uint64_t)((double)device->device->budget.limit * MEMORY_PART)
        };
        dispatch_place(flow->dispatch, device->place, &place);
    }
    dispatch_device(flow->dispatch, device->index, &about);
}

muster_status flow_make_dispatch_locked(struct task_pool *pool, struct muster_error *err)
{
    static const struct flow_sizes first = { .uses = 1, .instances = 256 };
    const struct dispatch_sizes sizes = { .devices = DISPATCH_DEVICES_MAX,
                                          .tasks = MUSTER_TASKS_MAX,
                                          .copies = COPIES_MAX,
                                          .rate_pairs = RATE_PAIRS,
                                          .decisions = DECISIONS_KEPT };
    struct flow_pool *flow = &pool->flow;
    const struct muster_allocator *allocator = &pool->m->allocator;
    struct flow_device *devices[DISPATCH_DEVICES_MAX];
    uint32_t count = 0;
    void *memory = NULL;
    struct flow_work *works = NULL;
    muster_status status = MUSTER_OK;
    while (flow->is_making && status == MUSTER_OK)
        platform_condition_wait(&pool->ended, &pool->lock, platform_clock_ns() + 1000000);
    if (flow->dispatch)
        return MUSTER_OK;
    flow->is_making = true;
    if (!flow->core)
        status = flow_grow_locked(pool, &first, err);
    if (status == MUSTER_OK)
        status = flow_grow_locked(pool, &first, err);
    if (status == MUSTER_OK)
        status = flow_make_rates_locked(pool, err);
    platform_mutex_unlock(&pool->lock);
    if (status == MUSTER_OK)
        status = find_all(pool, devices, &count, err);
    if (status == MUSTER_OK && (!(memory = allocator_take(allocator, 1, dispatch_bytes(&sizes))) ||
                                !(works = allocator_take(allocator, WORKS_MAX, sizeof *works))))
        status = run_no_memory(err, "the places of tasks");
    platform_mutex_lock(&pool->lock);
    flow->is_making = false;
    platform_condition_wake_all(&pool->ended);
    if (status == MUSTER_OK) {
        flow->works = works;
        for (uint32_t i = 0; i < WORKS_MAX; i++)
            flow_give_work_locked(flow, &works[i]);
        flow->dispatch_memory = memory;
        flow->dispatch_bytes = dispatch_bytes(&sizes);
        flow->dispatch = dispatch_init(memory, &sizes, flow->core, DISPATCH_EARLIEST_FINISH);
        flow->device_count = count;
        for (uint32_t i = 0; i < count; i++) {
            flow->devices[i] = devices[i];
            describe(flow, devices[i]);
        }
        platform_mutex_unlock(&pool->lock);
        for (uint32_t i = 0; i < count && status == MUSTER_OK; i++)
            status = flow_device_start(devices[i], err);
        platform_mutex_lock(&pool->lock);
        return status;
    }
    platform_mutex_unlock(&pool->lock);
    free_devices(pool, devices, count);
    allocator_give(allocator, memory, 1, dispatch_bytes(&sizes));
    allocator_give(allocator, works, WORKS_MAX, sizeof *works);
    platform_mutex_lock(&pool->lock);
    return status;
}

void flow_dispatch_free(struct task_pool *pool)
{
    struct flow_pool *flow = &pool->flow;
    free_devices(pool, flow->devices, flow->device_count);
    flow->device_count = 0;
    allocator_give(&pool->m->allocator, flow->dispatch_memory, 1, flow->dispatch_bytes);
    allocator_give(&pool->m->allocator, flow->works, flow->works ? WORKS_MAX : 0,
                   sizeof *flow->works);
}

/* Whether the task has a form for the device. With m->lock. */
static bool has_form_locked(const struct muster_task_desc *desc, const struct flow_device *device)
{
    struct muster_body copy;
    const char *backend = device->device->backend->table.name;
    if (desc->kernel)
        return kernel_has_form_locked(desc->kernel, device->device);
    if (desc->fn && strcmp(backend, "cpu") == 0)
        return true;
    for (size_t i = 0; i < desc->body_count; i++) {
        const struct muster_body *body = layout_at(LAYOUT(muster_body), desc->bodies, i, &copy);
        if (strcmp(body->backend, backend) == 0)
            return true;
    }
    return false;
}

muster_status flow_find_devices(struct task_pool *pool, const struct muster_task_desc *desc,
                                uint64_t *devices, struct muster_error *err)
{
    struct muster *m = pool->m;
    struct flow_pool *flow = &pool->flow;
    uint64_t named[PICK_WORDS];
    struct placement_hints hints;
    muster_status status = pick_read_hints(m, desc->hints, named, &hints, err);
    *devices = 0;
    if (status != MUSTER_OK)
        return status;
    if (desc->kernel)
        kernel_find_compilers(desc->kernel);
    run_lock(m);
    for (uint32_t i = 0; i < flow->device_count; i++) {
        uint32_t index = flow->devices[i]->device->index;
        bool is_named = !hints.devices || named[index / 64] >> (index % 64) & 1;
        if (is_named && has_form_locked(desc, flow->devices[i]) &&
            placement_refusal(&m->views[index], index, &hints) == MUSTER_REFUSED_NOT)
            *devices |= UINT64_C(1) << i;
    }
    run_unlock(m);
    if (*devices == 0 && !desc->fn)
        return muster_error_fill(err, MUSTER_E_NO_DEVICE, 0,
                                 "add a form for another backend, or `fn`",
                                 "no device may run the task: none has a form of its body");
    return MUSTER_OK;
}

void flow_dispatch_locked(struct task_pool *pool, uint32_t index, uint64_t devices,
                          const void *body, const char *name, uint64_t items, int32_t priority)
{
    struct tasks_entry *entry = &pool->tasks.entries[index];
    uint64_t hash = (uint64_t)(uintptr_t)body * UINT64_C(0x9e3779b97f4a7c15);
    const struct dispatch_task about = { .body = (uint32_t)(hash >> 32),
                                         .size = items,
                                         .devices = devices,
                                         .priority = priority,
                                         .on_host = devices == 0 };
    flow_name_body_locked(pool, about.body, name);
    dispatch_describe(pool->flow.dispatch, index, &about);
    tasks_set_dispatched(&pool->tasks, index);
    entry->tag |= FLOW_DISPATCHED;
}

/* ---- The pump ---- */

static struct flow_work *take_work_locked(struct flow_pool *flow)
{
    struct flow_work *work = flow->spare_work;
    INVARIANT(work);
    flow->spare_work = work->next;
    flow->spare_work_count--;
    work->next = NULL;
    return work;
}

/* Memory goes first: what is copied next may need it. */
static void post(struct flow_device *device, struct flow_work *work)
{
    bool is_first = work->kind == FLOW_WORK_FREE;
    if (!device->first)
        device->first = device->last = work;
    else if (is_first) {
        work->next = device->first;
        device->first = work;
    } else {
        device->last->next = work;
        device->last = work;
    }
    platform_condition_wake_one(&device->wake);
}

/* The task is for the pool's threads. */
static void bring_back(struct task_pool *pool, uint32_t index)
{
    tasks_bring_back(&pool->tasks, index);
}

/* One that core has let die: a thread of the pool's tells so. */
static void bury(struct task_pool *pool, uint32_t index, muster_status status,
                 const struct flow_cause *cause)
{
    struct tasks_entry *entry = &pool->tasks.entries[index];
    entry->tag |= FLOW_DEAD;
    if (entry->tag & FLOW_GATE) {
        struct flow_gate *gate = entry->payload[1];
        gate->cause = *cause;
        gate->status = status;
    } else {
        ((struct flow_task *)entry->payload[1])->status = status;
        if (cause->tag != 0 && (uint32_t)cause->tag != index)
            flow_note_cause_locked(pool, index, cause);
    }
    bring_back(pool, index);
}

static struct flow_device *device_at(const struct flow_pool *flow, uint32_t place)
{
    for (uint32_t i = 0; i < flow->device_count; i++)
        if (flow->devices[i]->place == place)
            return flow->devices[i];
    return NULL;
}

static void post_copy(struct flow_pool *flow, const struct dispatch_copy *copy)
{
    struct flow_work *work = take_work_locked(flow);
    struct flow_device *device = device_at(flow, copy->to == FLOW_HOME ? copy->from : copy->to);
    INVARIANT(device &&
              (copy->to == FLOW_HOME || copy->from == FLOW_HOME || copy->to == copy->from));
    work->kind = FLOW_WORK_COPY;
    work->copy = *copy;
    work->shape = *flow_part_shape(flow->core, copy->part);
    work->from_shape = *flow_part_shape(flow->core, copy->from_part);
    work->whole = flow->wholes[flow_part_data(flow->core, copy->part)];
    post(device, work);
}

static void post_freed(struct flow_pool *flow, uint32_t instance)
{
    muster_block block = flow->instances[instance].block;
    struct flow_device *device = device_at(flow, flow->instances[instance].place);
    flow->instances[instance].block = (muster_block){ 0, 0 };
    /* What is on a device that is lost goes with it. */
    if (block.generation == 0 || !device || device->is_lost)
        return;
    struct flow_work *work = take_work_locked(flow);
    work->kind = FLOW_WORK_FREE;
    work->block = block;
    post(device, work);
}

/* Begins a task of a device's: by its own threads, or, where that is the host, by the pool's. */
static void begin_on(struct task_pool *pool, struct flow_device *device, uint32_t index)
{
    struct flow_task *task = pool->tasks.entries[index].payload[1];
    device->running++;
    if (!task->kernel && is_host_memory(device->device)) {
        bring_back(pool, index);
        return;
    }
    struct flow_work *work = take_work_locked(&pool->flow);
    work->kind = FLOW_WORK_TASK;
    work->task = task;
    post(device, work);
}

/* One round; whether anything was done. */
static bool pump_once(struct task_pool *pool, uint64_t now_ns)
{
    struct flow_pool *flow = &pool->flow;
    uint32_t index, instance;
    muster_status status;
    struct flow_cause cause;
    struct dispatch_copy copy;
    bool has_done = false;
    dispatch_ready(flow->dispatch, now_ns);
    while ((index = dispatch_next_dead(flow->dispatch, &status, &cause)) != FLOW_NONE) {
        bury(pool, index, status, &cause);
        has_done = true;
    }
    while (flow->spare_work_count > 0 && dispatch_next_freed(flow->dispatch, &instance)) {
        post_freed(flow, instance);
        has_done = true;
    }
    while (flow->spare_work_count > 0 && dispatch_next_copy(flow->dispatch, &copy)) {
        post_copy(flow, &copy);
        has_done = true;
    }
    for (uint32_t i = 0; i < flow->device_count; i++) {
        struct flow_device *device = flow->devices[i];
        while (!device->is_lost && device->running < device->at_once &&
               flow->spare_work_count > 0 &&
               (index = dispatch_next_task(flow->dispatch, i, now_ns)) != FLOW_NONE) {
            begin_on(pool, device, index);
            has_done = true;
        }
    }
    while ((index = dispatch_next_task(flow->dispatch, DISPATCH_HOST, now_ns)) != FLOW_NONE) {
        bring_back(pool, index);
        has_done = true;
    }
    return has_done;
}

void flow_pump_locked(struct task_pool *pool)
{
    if (!pool->flow.dispatch || pool->flow.is_pumping)
        return;
    pool->flow.is_pumping = true;
    uint64_t now_ns = platform_clock_ns();
    while (pump_once(pool, now_ns))
        continue;
    pool->flow.is_pumping = false;
    /* Its memory is moved by a thread that may wait for it. */
    if (dispatch_wants_instances(pool->flow.dispatch) && pool->flow.device_count > 0)
        platform_condition_wake_one(&pool->flow.devices[0]->wake);
    pool_wake_locked(pool);
}

void flow_lose_locked(struct flow_device *device)
{
    struct flow_pool *flow = &device->pool->flow;
    if (device->is_lost)
        return;
    device->is_lost = true;
    device->running = 0;
    while (device->first) {
        struct flow_work *work = device->first;
        device->first = work->next;
        flow_give_work_locked(flow, work);
    }
    device->last = NULL;
    dispatch_lost(flow->dispatch, device->index, platform_clock_ns());
}
