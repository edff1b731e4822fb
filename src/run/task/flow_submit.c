/*
 * Tasks with accesses on their way into the table: what they access is looked up, and core adds the
 * order. A call is all or nothing: room for everything is made before, and where core finds that there
 * is too little for the edges, what was done is taken back and done again.
 */
#include "run/task/flow.h"

#include "base/invariant.h"

#include <string.h>

static muster_status check_accesses(const struct muster_task_desc *desc, struct muster_error *err)
{
    if (!desc->accesses && desc->access_count > 0)
        return run_bad_argument(err, "muster_submit", "no accesses where some are counted");
    if (desc->access_count > MUSTER_ACCESSES_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "access the whole, or use a token",
                                 "a task with %zu accesses; at most %d", desc->access_count,
                                 MUSTER_ACCESSES_MAX);
    /* All of this version's size: then there is nothing to be checked. */
    bool is_plain = true;
    for (size_t i = 0; i < desc->access_count && is_plain; i++)
        is_plain = desc->accesses[i].size == sizeof *desc->accesses &&
                   desc->accesses[i].mode - 1 < MUSTER_TOKEN;
    if (is_plain)
        return MUSTER_OK;
    struct muster_task_access copies[MUSTER_ACCESSES_MAX];
    muster_status status;
    const struct muster_task_access *accesses = layout_read_all(
        LAYOUT(muster_task_access), desc->accesses, desc->access_count, copies, &status, err);
    for (size_t i = 0; i < desc->access_count && status == MUSTER_OK; i++)
        if (accesses[i].mode < MUSTER_READ || accesses[i].mode > MUSTER_TOKEN)
            status =
                run_bad_argument(err, "muster_submit", "an access has no mode of enum muster_mode");
    return status;
}

static muster_status check_bodies(const struct muster_task_desc *desc, struct muster_error *err)
{
    struct muster_body copies[MUSTER_BODIES_MAX];
    muster_status status;
    if (!desc->bodies)
        return run_bad_argument(err, "muster_submit", "no bodies where some are counted");
    if (desc->body_count > MUSTER_BODIES_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, NULL,
                                 "a task with %zu bodies; at most %d", desc->body_count,
                                 MUSTER_BODIES_MAX);
    const struct muster_body *bodies =
        layout_read_all(LAYOUT(muster_body), desc->bodies, desc->body_count, copies, &status, err);
    for (size_t i = 0; i < desc->body_count && status == MUSTER_OK; i++) {
        if (!bodies[i].backend || !bodies[i].enqueue)
            status = run_bad_argument(err, "muster_submit", "a body without backend or function");
        for (size_t k = 0; k < i && status == MUSTER_OK; k++)
            if (strcmp(bodies[k].backend, bodies[i].backend) == 0)
                status = run_bad_argument(err, "muster_submit", "two bodies for one backend");
    }
    return status;
}

static muster_status check_arg(const struct muster_task_desc *desc, const struct muster_arg *arg,
                               size_t *bytes, struct muster_error *err)
{
    switch (arg->kind) {
    case MUSTER_ARG_VALUE:
        if (!arg->in || arg->bytes == 0)
            return run_bad_argument(err, "muster_submit", "a value without address or size");
        *bytes = ((*bytes + 7) & ~(size_t)7) + arg->bytes;
        if (arg->bytes > MUSTER_ARG_BYTES_MAX || *bytes > MUSTER_ARG_BYTES_MAX)
            return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "put large arguments into data",
                                     "the values of a task's arguments have more than %d bytes",
                                     MUSTER_ARG_BYTES_MAX);
        return MUSTER_OK;
    case MUSTER_ARG_ACCESS:
    case MUSTER_ARG_PITCH:
        if (arg->offset < desc->access_count)
            return MUSTER_OK;
        return run_bad_argument(err, "muster_submit",
                                "an argument names an access that is not there");
    case MUSTER_ARG_FIRST:
        return MUSTER_OK;
    default:
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                                 "make it data that the task accesses",
                                 "an argument of a task with accesses is an array");
    }
}

static muster_status check_args(const struct muster_task_desc *desc, struct muster_error *err)
{
    struct muster_arg copies[MUSTER_ARGS_MAX];
    muster_status status;
    size_t bytes = 0;
    if (desc->arg_count > MUSTER_ARGS_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "pack values into a struct",
                                 "%zu arguments; at most %d", desc->arg_count, MUSTER_ARGS_MAX);
    if (!desc->args && desc->arg_count > 0)
        return run_bad_argument(err, "muster_submit", "no arguments where some are counted");
    const struct muster_arg *args =
        layout_read_all(LAYOUT(muster_arg), desc->args, desc->arg_count, copies, &status, err);
    for (size_t i = 0; i < desc->arg_count && status == MUSTER_OK; i++)
        status = check_arg(desc, &args[i], &bytes, err);
    return status;
}

muster_status flow_check_desc(const struct muster_task_desc *desc, struct muster_error *err)
{
    if (desc->resident)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                                 "give it blocks that are attached to its lane",
                                 "a task of a resident lane with accesses or bodies");
    muster_status status = check_accesses(desc, err);
    if (status == MUSTER_OK && desc->body_count > 0)
        status = check_bodies(desc, err);
    if (status == MUSTER_OK && desc->body_count > 0 && desc->kernel)
        status = run_bad_argument(err, "muster_submit", "a task with a kernel has no other bodies");
    if (status == MUSTER_OK && desc->kernel)
        status = check_args(desc, err);
    if (status == MUSTER_OK && desc->timeout_ns > 0 && !desc->kernel)
        status = muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "leave timeout_ns 0",
                                   "a time-out for a task with accesses that has no kernel");
    return status;
}

/* An access as this library has it; the description was checked. */
static struct muster_task_access access_at(const struct muster_task_desc *desc, size_t i)
{
    struct muster_task_access copy;
    const struct muster_task_access *access =
        layout_at(LAYOUT(muster_task_access), desc->accesses, i, &copy);
    return *access;
}

/* The form for the host, NULL if there is none. */
static const struct muster_body *find_body(const struct muster_task_desc *desc, const char *backend,
                                           struct muster_body *copy)
{
    for (size_t i = 0; i < desc->body_count; i++) {
        const struct muster_body *body = layout_at(LAYOUT(muster_body), desc->bodies, i, copy);
        if (strcmp(body->backend, backend) == 0)
            return body;
    }
    return NULL;
}

/* Whether the body is given pointers, or core has to be asked where to run it. */
static bool needs_record(const struct flow_pool *flow, const struct muster_task_desc *desc)
{
    return desc->body_count > 0 || !desc->fn || flow->dispatch;
}

/* Where bodies for `cpu` run. The lock is not held meanwhile. */
static muster_status find_cpu_locked(struct task_pool *pool, struct muster_error *err)
{
    struct muster *m = pool->m;
    platform_mutex_unlock(&pool->lock);
    struct run_backend *backend = backends_find(m, "cpu", 3);
    muster_status status = backend ? backends_probe(m, backend, err) : MUSTER_E_NOT_FOUND;
    bool has_cpu = false;
    muster_device cpu = { 0, 0 };
    run_lock(m);
    for (uint32_t i = 0; i < m->device_count && status == MUSTER_OK && !has_cpu; i++)
        if (m->devices[i]->backend == backend && !m->devices[i]->is_sliced) {
            cpu = device_handle_locked(m->devices[i]);
            has_cpu = true;
        }
    run_unlock(m);
    platform_mutex_lock(&pool->lock);
    /* Written once: bodies that run read it without the lock. */
    if (has_cpu && !pool->flow.has_cpu) {
        pool->flow.cpu = cpu;
        pool->flow.has_cpu = true;
    }
    return MUSTER_OK;
}

muster_status flow_find_cpu_locked(struct task_pool *pool, muster_device *out,
                                   struct muster_error *err)
{
    muster_status status = pool->flow.has_cpu ? MUSTER_OK : find_cpu_locked(pool, err);
    if (status == MUSTER_OK && !pool->flow.has_cpu)
        status = muster_error_fill(err, MUSTER_E_NO_DEVICE, 0,
                                   "open the runtime with a device of cpu, or record functions",
                                   "no device of cpu, for which recorded tasks have bodies");
    if (status == MUSTER_OK)
        *out = pool->flow.cpu;
    return status;
}

static muster_status check_places_locked(struct task_pool *pool,
                                         const struct muster_task_desc *desc,
                                         struct muster_error *err)
{
    struct muster_body copy;
    /* With a dispatch flow_find_devices has looked. */
    if (desc->fn || pool->flow.dispatch || (pool->flow.has_cpu && find_body(desc, "cpu", &copy)))
        return MUSTER_OK;
    return muster_error_fill(
        err, MUSTER_E_NO_DEVICE, 0, "add a form for another backend, or `fn`",
        "no device may run the task: none is of a backend that it has a body for");
}

/* The same data once, with all that is done with it; how many accesses are left. */
static muster_status read_accesses_locked(struct task_pool *pool,
                                          const struct muster_task_desc *desc,
                                          struct flow_access *out, struct flow_task *record,
                                          struct muster_error *err)
{
    static const uint8_t modes[] = { [MUSTER_READ] = FLOW_READ,
                                     [MUSTER_WRITE] = FLOW_WRITE,
                                     [MUSTER_READ_WRITE] = FLOW_READ_WRITE,
                                     [MUSTER_COMMUTE] = FLOW_COMMUTE,
                                     [MUSTER_REDUCE] = FLOW_READ_WRITE,
                                     [MUSTER_TOKEN] = FLOW_READ_WRITE };
    struct flow_pool *flow = &pool->flow;
    for (size_t i = 0; i < desc->access_count; i++) {
        struct muster_task_access copy;
        const struct muster_task_access *access =
            layout_at(LAYOUT(muster_task_access), desc->accesses, i, &copy);
        struct flow_slot *slot = flow_slot_of(flow, access->data);
        /* It was there when room was made; the caller has destroyed it meanwhile. */
        if (!slot)
            return muster_error_fill(err, MUSTER_E_STALE, 0, "destroy data after its tasks",
                                     "a task accesses data that is gone");
        struct flow_slot *used = slot;
        if (access->mode == MUSTER_REDUCE)
            used = flow_slot_of(flow, slot->data->contributions[slot->turn]);
        INVARIANT(used);
        data_whole(slot->data)->writes += access->mode != MUSTER_READ;
        out[i] = (struct flow_access){ .part = used->part, .mode = modes[access->mode] };
        if (record)
            record->uses[i] =
                (struct flow_use){ .data = used->data, .mode = access->mode, .part = used->part };
    }
    return MUSTER_OK;
}

/* Whether all that the accesses name is known to core; else the first that is not. */
static const muster_data *
find_unknown_locked(struct task_pool *pool, const struct muster_task_desc *desc, muster_data *copy)
{
    for (size_t i = 0; i < desc->access_count; i++) {
        *copy = access_at(desc, i).data;
        if (!flow_slot_of(&pool->flow, *copy))
            return copy;
    }
    return NULL;
}

/* Resident copies that must go before the data is written; a job's go when the job is over. */
static bool may_have_copies(const struct task_pool *pool, const struct flow_slot *slot)
{
    return slot &&
           atomic_load_explicit(&data_whole(slot->data)->was_resident, memory_order_relaxed) &&
           !flow_is_held_locked(pool, data_whole(slot->data));
}

static bool may_have_copies_locked(struct task_pool *pool, const struct muster_task_desc *desc)
{
    bool may_have = false;
    for (size_t i = 0; i < desc->access_count && !may_have; i++) {
        struct muster_task_access access = access_at(desc, i);
        may_have = access.mode != MUSTER_READ &&
                   may_have_copies(pool, flow_slot_of(&pool->flow, access.data));
    }
    return may_have;
}

/* Tokens are accessed as such, and nothing else is. */
static muster_status check_tokens_locked(struct task_pool *pool,
                                         const struct muster_task_desc *desc,
                                         struct muster_error *err)
{
    for (size_t i = 0; i < desc->access_count; i++) {
        struct muster_task_access access = access_at(desc, i);
        const struct flow_slot *slot = flow_slot_of(&pool->flow, access.data);
        if (slot && access.mode == MUSTER_TOKEN && slot->data->bytes > 0)
            return muster_error_fill(err, MUSTER_E_INVALID, 0, "create a token: data of 0 bytes",
                                     "access %zu is MUSTER_TOKEN, and its data has %llu bytes", i,
                                     (unsigned long long)slot->data->bytes);
    }
    return MUSTER_OK;
}

/* One piece of data that is written has copies for reading: they go. The lock is not held meanwhile. */
static muster_status drop_copies_locked(struct task_pool *pool, const struct muster_task_desc *desc,
                                        struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    for (size_t i = 0; i < desc->access_count && status == MUSTER_OK; i++) {
        struct muster_task_access access = access_at(desc, i);
        struct flow_slot *slot = flow_slot_of(&pool->flow, access.data);
        if (access.mode == MUSTER_READ || !may_have_copies(pool, slot))
            continue;
        muster_data whole = slot->data->whole ? slot->data->whole_handle : access.data;
        platform_mutex_unlock(&pool->lock);
        status = data_drop_copies(pool->m, whole, false, err);
        platform_mutex_lock(&pool->lock);
    }
    return status;
}

muster_status flow_make_room_locked(struct task_pool *pool, const struct flow_needs *needs,
                                    bool *is_same, struct muster_error *err)
{
    struct flow_pool *flow = &pool->flow;
    muster_status status = MUSTER_OK;
    uint64_t uses = flow->uses + needs->uses;
    if (!flow->core || flow_sizes_of(flow->core)->uses < uses) {
        const struct flow_sizes wanted = { .uses = (uint32_t)uses };
        *is_same = false;
        status = flow_grow_locked(pool, &wanted, err);
    }
    if (status == MUSTER_OK && flow->spare_count < needs->records) {
        *is_same = false;
        status = flow_make_records_locked(pool, needs->records, err);
    }
    return status;
}

muster_status flow_prepare_locked(struct task_pool *pool, const struct muster_task_desc *desc,
                                  struct flow_needs *needs, bool *is_same, struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    muster_data copy;
    const muster_data *unknown;
    struct muster_body body;
    if (!pool->flow.has_cpu && !pool->flow.has_sought_cpu && find_body(desc, "cpu", &body)) {
        *is_same = false;
        status = find_cpu_locked(pool, err);
        pool->flow.has_sought_cpu = true;
    }
    while (status == MUSTER_OK && (unknown = find_unknown_locked(pool, desc, &copy))) {
        *is_same = false;
        status = flow_know_locked(pool, *unknown, err);
    }
    if (status == MUSTER_OK && may_have_copies_locked(pool, desc)) {
        *is_same = false;
        status = drop_copies_locked(pool, desc, err);
    }
    if (status == MUSTER_OK)
        status = check_places_locked(pool, desc, err);
    if (status == MUSTER_OK)
        status = check_tokens_locked(pool, desc, err);
    needs->records += needs_record(&pool->flow, desc);
    needs->uses += (uint32_t)desc->access_count;
    return status;
}

bool flow_must_insert_locked(struct task_pool *pool, const struct muster_task_desc *desc)
{
    for (size_t i = 0; i < desc->access_count; i++) {
        struct muster_task_access access = access_at(desc, i);
        const struct flow_slot *slot = flow_slot_of(&pool->flow, access.data);
        /* What core does not know yet may overlap what others reduce into. */
        if (access.mode == MUSTER_REDUCE ||
            (pool->flow.has_reductions &&
             (!slot || flow_reduce_pending(pool->flow.core, slot->part, 0) != FLOW_NONE)))
            return true;
    }
    return false;
}

static struct flow_task *take_record_locked(struct flow_pool *flow)
{
    struct flow_task *record = flow->spare;
    INVARIANT(record);
    flow->spare = record->next;
    flow->spare_count--;
    return record;
}

/* What the kernel is given: values are copied. They were checked. */
static void read_args(struct flow_task *record, const struct muster_task_desc *desc)
{
    static const uint64_t first = 0;
    size_t filled = 0;
    record->arg_count = (uint32_t)desc->arg_count;
    for (size_t i = 0; i < desc->arg_count; i++) {
        struct muster_arg copy;
        const struct muster_arg *arg = layout_at(LAYOUT(muster_arg), desc->args, i, &copy);
        struct flow_arg *to = &record->args[i];
        bool is_first = arg->kind == MUSTER_ARG_FIRST;
        *to = (struct flow_arg){ .kind = (uint8_t)arg->kind, .index = (uint8_t)arg->offset };
        if (arg->kind != MUSTER_ARG_VALUE && !is_first)
            continue;
        filled = (filled + 7) & ~(size_t)7;
        to->kind = MUSTER_ARG_VALUE;
        to->offset = (uint16_t)filled;
        to->bytes = (uint16_t)(is_first ? sizeof first : arg->bytes);
        memcpy(record->values + filled, is_first ? &first : arg->in, to->bytes);
        filled += to->bytes;
    }
}

/* The names of backends are the tables': the caller's may go. */
static void read_bodies(struct task_pool *pool, struct flow_task *record,
                        const struct muster_task_desc *desc)
{
    record->body_count = 0;
    for (size_t i = 0; i < desc->body_count; i++) {
        struct muster_body copy;
        const struct muster_body *body = layout_at(LAYOUT(muster_body), desc->bodies, i, &copy);
        const struct run_backend *backend =
            backends_find(pool->m, body->backend, strlen(body->backend));
        if (!backend)
            continue;
        record->bodies[record->body_count] = *body;
        record->bodies[record->body_count++].backend = backend->table.name;
    }
}

void flow_bind_locked(struct task_pool *pool, uint32_t index, const struct muster_task_desc *desc)
{
    struct tasks_entry *entry = &pool->tasks.entries[index];
    struct muster_body copy;
    entry->tag = FLOW_IS;
    if (!needs_record(&pool->flow, desc))
        return;
    struct flow_task *record = take_record_locked(&pool->flow);
    const struct muster_body *body = find_body(desc, "cpu", &copy);
    record->kind = FLOW_BODY;
    record->fn = desc->fn;
    record->enqueue = body && pool->flow.has_cpu ? body->enqueue : NULL;
    record->user = desc->user;
    record->count = (uint32_t)desc->access_count;
    record->index = index;
    record->kernel = desc->kernel;
    record->items = desc->items;
    record->tries = 0;
    record->is_timed = pool->flow.dispatch != NULL;
    if (desc->kernel)
        read_args(record, desc);
    if (pool->flow.dispatch)
        read_bodies(pool, record, desc);
    entry->tag |= FLOW_RECORD;
    entry->payload[1] = record;
}

static uint64_t tag_of(const struct task_pool *pool, uint32_t index)
{
    return (uint64_t)pool->tasks.entries[index].generation << 32 | index;
}

/* The accesses of a new task to core; nothing has changed unless it is FLOW_ORDERED. */
static enum flow_order_result order(struct task_pool *pool, uint32_t index,
                                    struct flow_access *accesses, uint32_t count)
{
    struct flow_pool *flow = &pool->flow;
    if (count > 1)
        count = flow_merge(accesses, count);
    enum flow_order_result result =
        flow_order(flow->core, index, tag_of(pool, index), accesses, count);
    if (result == FLOW_ORDERED) {
        flow->uses += count;
        pool->tasks.entries[index].tag |= (uint16_t)(count << FLOW_USES_SHIFT);
    }
    return result;
}

/* Names the body: the kernel, or the function that is its first form. */
static const void *body_key(const struct muster_task_desc *desc)
{
    struct muster_body copy;
    const void *key;
    _Static_assert(sizeof key == sizeof copy.enqueue, "functions are kept as pointers");
    if (desc->kernel)
        return desc->kernel;
    if (desc->body_count == 0) {
        memcpy(&key, &desc->fn, sizeof key);
        return key;
    }
    const struct muster_body *body = layout_at(LAYOUT(muster_body), desc->bodies, 0, &copy);
    memcpy(&key, &body->enqueue, sizeof key);
    return key;
}

muster_status flow_order_locked(struct task_pool *pool, uint32_t index,
                                const struct muster_task_desc *desc, uint64_t devices,
                                enum flow_order_result *grow, struct muster_error *err)
{
    struct flow_pool *flow = &pool->flow;
    struct flow_access accesses[MUSTER_ACCESSES_MAX];
    struct tasks_entry *entry = &pool->tasks.entries[index];
    struct flow_task *record = entry->tag & FLOW_RECORD ? entry->payload[1] : NULL;
    uint32_t count = (uint32_t)desc->access_count;
    accesses[0] = (struct flow_access){ .part = 0 }; /* a task with bodies alone has none */
    *grow = FLOW_ORDERED;
    muster_status status = read_accesses_locked(pool, desc, accesses, record, err);
    if (status != MUSTER_OK)
        return status;
    uint32_t unwritten = flow_unwritten(pool->flow.core, accesses, count);
    if (unwritten < count)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "submit a task that writes it before",
                                 "access %u of task '%s' reads data that has not been written",
                                 unwritten, desc->name ? desc->name : "");
    if (flow->has_parts && count > 1)
        count = flow_merge(accesses, count);
    if (flow->has_parts && flow_clash(flow->core, accesses, count) < count)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "access a part that has both",
                                 "task '%s' writes a part that overlaps another of its accesses",
                                 desc->name ? desc->name : "");
    if (devices != 0 && (devices = dispatch_fits(flow->dispatch, accesses, count, devices)) == 0 &&
        !desc->fn)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "access parts of it",
                                 "what task '%s' accesses fits into the memory of no device",
                                 desc->name ? desc->name : "");
    *grow = order(pool, index, accesses, count);
    if (*grow != FLOW_ORDERED)
        return MUSTER_E_CAPACITY;
    if (flow->dispatch)
        flow_dispatch_locked(pool, index, devices, body_key(desc),
                             desc->kernel ? kernel_name(desc->kernel) : desc->name, desc->items,
                             desc->priority);
    return MUSTER_OK;
}

void flow_unbind_locked(struct task_pool *pool, uint32_t index, bool is_ordered)
{
    struct flow_pool *flow = &pool->flow;
    struct tasks_entry *entry = &pool->tasks.entries[index];
    if (entry->tag & FLOW_DISPATCHED)
        dispatch_undescribe(flow->dispatch, index);
    if (is_ordered) {
        flow->uses -= entry->tag >> FLOW_USES_SHIFT;
        flow_unorder(flow->core, index);
        tasks_unfollow_all(&pool->tasks, index);
    }
    if (entry->tag & FLOW_RECORD) {
        struct flow_task *record = entry->payload[1];
        record->next = flow->spare;
        flow->spare = record;
        flow->spare_count++;
    }
    entry->tag = 0;
}

muster_status flow_grow_for_locked(struct task_pool *pool, enum flow_order_result what,
                                   struct muster_error *err)
{
    if (what == FLOW_NO_EDGES)
        return pool_add_edges_locked(pool, 2 * (uint64_t)pool->tasks.edge_capacity, err);
    const struct flow_sizes wanted = { .uses = flow_sizes_of(pool->flow.core)->uses + 1 };
    return flow_grow_locked(pool, &wanted, err);
}

/* ---- Reductions ---- */

/* A task of Muster's own: combines contributions into a part, or begins one. */
struct inserted {
    enum flow_kind kind;
    struct flow_use uses[1 + MUSTER_REDUCE_PARTS];
    struct flow_access accesses[1 + MUSTER_REDUCE_PARTS];
    uint32_t count;
};

/* Puts it into the table: there is a place, and a record. The lock is not held all the time. */
static muster_status add_inserted_locked(struct task_pool *pool, const struct inserted *inserted,
                                         struct muster_error *err)
{
    uint32_t index = tasks_add(&pool->tasks);
    if (index == TASKS_NONE)
        return muster_error_fill(err, MUSTER_E_CAPACITY, 0, "submit less at a time",
                                 "no place for a task that combines contributions");
    struct tasks_entry *entry = &pool->tasks.entries[index];
    entry->tag = FLOW_IS;
    struct flow_access accesses[1 + MUSTER_REDUCE_PARTS];
    enum flow_order_result result;
    muster_status status = MUSTER_OK;
    memcpy(accesses, inserted->accesses, sizeof accesses);
    while ((result = order(pool, index, accesses, inserted->count)) != FLOW_ORDERED &&
           status == MUSTER_OK)
        status = flow_grow_for_locked(pool, result, err);
    if (status == MUSTER_OK && pool->flow.spare_count == 0)
        status = flow_make_records_locked(pool, 1, err);
    if (status != MUSTER_OK) {
        flow_unbind_locked(pool, index, result == FLOW_ORDERED);
        tasks_withdraw(&pool->tasks, index);
        return status;
    }
    struct flow_task *record = take_record_locked(&pool->flow);
    record->kind = inserted->kind;
    record->fn = NULL;
    record->enqueue = NULL;
    record->count = inserted->count;
    memcpy(record->uses, inserted->uses, sizeof inserted->uses);
    record->index = index;
    record->kernel = NULL;
    record->is_timed = false;
    entry->tag |= FLOW_RECORD;
    entry->payload[1] = record;
    if (pool->flow.dispatch)
        flow_dispatch_locked(pool, index, 0, record, NULL, 0, 0);
    pool->submitted++;
    tasks_release(&pool->tasks, index);
    flow_pump_locked(pool);
    return MUSTER_OK;
}

/* Eight sizes as large as the part, which nobody else knows. The lock is not held meanwhile. */
static muster_status make_contributions_locked(struct task_pool *pool, muster_data handle,
                                               struct run_data *data, struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    for (uint32_t i = 0; i < MUSTER_REDUCE_PARTS && status == MUSTER_OK; i++) {
        muster_data *at = &data->contributions[i];
        if (at->generation == 0) {
            platform_mutex_unlock(&pool->lock);
            status = muster_data_create(pool->m, NULL, data->bytes, 0, at, err);
            platform_mutex_lock(&pool->lock);
        }
        if (status == MUSTER_OK && !flow_slot_of(&pool->flow, *at))
            status = flow_know_locked(pool, *at, err);
    }
    const struct flow_slot *slot = flow_slot_of(&pool->flow, handle);
    if (status == MUSTER_OK && !slot)
        status = muster_error_fill(err, MUSTER_E_STALE, 0, NULL, "the data is gone");
    if (status != MUSTER_OK)
        return status;
    uint32_t wholes[MUSTER_REDUCE_PARTS];
    for (uint32_t i = 0; i < MUSTER_REDUCE_PARTS; i++) {
        struct flow_slot *one = flow_slot_of(&pool->flow, data->contributions[i]);
        /* Bodies see the rows that the part has, without gaps. */
        one->data->rows = data->rows;
        one->data->row_bytes = one->data->pitch = data->row_bytes;
        wholes[i] = one->part;
    }
    if (!flow_reduce_is_prepared(pool->flow.core, slot->part))
        flow_reduce_prepare(pool->flow.core, slot->part, wholes);
    pool->flow.has_reductions = true;
    return MUSTER_OK;
}

/* The data that core calls so, and that has a reduction. */
static struct flow_slot *slot_of_part(const struct flow_pool *flow, uint32_t part)
{
    for (uint32_t i = 0; i < flow->slot_count; i++)
        if (flow->slots[i].generation > 0 && flow->slots[i].part == part &&
            flow->slots[i].data->reduction.size > 0)
            return &flow->slots[i];
    return NULL;
}

/* Combines what stands before an access of this part. */
static muster_status combine_locked(struct task_pool *pool, uint32_t part, uint64_t operation,
                                    struct muster_error *err)
{
    struct flow_pool *flow = &pool->flow;
    muster_status status = MUSTER_OK;
    uint32_t pending;
    while (status == MUSTER_OK &&
           (pending = flow_reduce_pending(flow->core, part, operation)) != FLOW_NONE) {
        struct inserted inserted = { .kind = FLOW_COMBINE };
        const struct flow_slot *slot = slot_of_part(flow, pending);
        uint64_t by;
        INVARIANT(slot);
        inserted.count = flow_reduce_combine(flow->core, pending, inserted.accesses, &by);
        inserted.uses[0] = (struct flow_use){ .data = slot->data, .mode = MUSTER_READ_WRITE };
        for (uint32_t i = 1; i < inserted.count; i++)
            for (uint32_t k = 0; k < MUSTER_REDUCE_PARTS; k++) {
                const struct flow_slot *one = flow_slot_of(flow, slot->data->contributions[k]);
                if (one && one->part == inserted.accesses[i].part)
                    inserted.uses[i] = (struct flow_use){ .data = one->data, .mode = MUSTER_READ };
            }
        status = add_inserted_locked(pool, &inserted, err);
    }
    return status;
}

/* Finds the contribution of the next reducing task, and begins it if it is new. */
static muster_status next_locked(struct task_pool *pool, muster_data handle,
                                 struct muster_error *err)
{
    struct flow_pool *flow = &pool->flow;
    struct flow_slot *slot = flow_slot_of(flow, handle);
    struct run_data *data = slot->data;
    if (data->reduction.size == 0)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "call muster_data_reduction before",
                                 "an access reduces data that has no reduction");
    muster_status status = MUSTER_OK;
    if (!flow_reduce_is_prepared(flow->core, slot->part))
        status = make_contributions_locked(pool, handle, data, err);
    if (status == MUSTER_OK && (slot = flow_slot_of(flow, handle)))
        status = combine_locked(pool, slot->part, 1, err);
    if (status != MUSTER_OK || !(slot = flow_slot_of(flow, handle)))
        return status;
    bool is_first;
    uint32_t part = flow_reduce_next(flow->core, slot->part, 1, &is_first);
    struct inserted inserted = { .kind = FLOW_BEGIN, .count = 2 };
    for (uint32_t k = 0; k < MUSTER_REDUCE_PARTS; k++) {
        struct flow_slot *one = flow_slot_of(flow, data->contributions[k]);
        if (!one || one->part != part)
            continue;
        slot->turn = k;
        /* Its second use is the data whose reduction it is, which it does not access. */
        inserted.uses[0] = (struct flow_use){ .data = one->data, .mode = MUSTER_WRITE };
        inserted.uses[1] = (struct flow_use){ .data = data };
        inserted.accesses[0] = (struct flow_access){ .part = part, .mode = FLOW_WRITE };
    }
    if (is_first) {
        inserted.count = 1;
        status = add_inserted_locked(pool, &inserted, err);
    }
    return status;
}

muster_status flow_insert_locked(struct task_pool *pool, const struct muster_task_desc *desc,
                                 struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    for (size_t i = 0; i < desc->access_count && status == MUSTER_OK; i++) {
        struct muster_task_access access = access_at(desc, i);
        const struct flow_slot *slot = flow_slot_of(&pool->flow, access.data);
        if (!slot)
            continue;
        status = access.mode == MUSTER_REDUCE ? next_locked(pool, access.data, err)
                                              : combine_locked(pool, slot->part, 0, err);
    }
    return status;
}
