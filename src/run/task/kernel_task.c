/*
 * Tasks with kernels: what each keeps, in records that are made in chunks and used again, what its
 * arguments are, and which devices may run it.
 */
#include "base/allocator.h"
#include "base/invariant.h"
#include "run/task/task_pool.h"

#include <stdio.h>
#include <string.h>

/* Made at once. */
#define CHUNK_TASKS 128u

struct kernel_chunk {
    struct kernel_chunk *next;
    struct kernel_task tasks[CHUNK_TASKS];
};

/* Records. */

static muster_status grow_locked(struct task_pool *pool, struct muster_error *err)
{
    platform_mutex_unlock(&pool->lock);
    struct kernel_chunk *chunk = allocator_take(&pool->m->allocator, 1, sizeof *chunk);
    platform_mutex_lock(&pool->lock);
    if (!chunk)
        return run_no_memory(err, "kernel tasks");
    chunk->next = pool->chunks;
    pool->chunks = chunk;
    pool->kernel_task_count += CHUNK_TASKS;
    for (uint32_t i = 0; i < CHUNK_TASKS; i++)
        kernel_task_give_locked(pool, &chunk->tasks[i]);
    return MUSTER_OK;
}

void kernel_chunks_free(struct task_pool *pool)
{
    while (pool->chunks) {
        struct kernel_chunk *chunk = pool->chunks;
        pool->chunks = chunk->next;
        allocator_give(&pool->m->allocator, chunk, 1, sizeof *chunk);
    }
}

void kernel_chunks_let_go(struct task_pool *pool)
{
    for (struct kernel_chunk *chunk = pool->chunks; chunk; chunk = chunk->next)
        for (uint32_t i = 0; i < CHUNK_TASKS; i++)
            if (chunk->tasks[i].is_spoilt)
                kernel_let_go(chunk->tasks[i].kernel);
}

bool kernel_tasks_take_locked(struct task_pool *pool, uint32_t count, struct kernel_task **out,
                              muster_status *status, struct muster_error *err)
{
    *status = MUSTER_OK;
    while (pool->spare_count < count && *status == MUSTER_OK &&
           pool->kernel_task_count < MUSTER_KERNEL_TASKS_MAX)
        *status = grow_locked(pool, err);
    if (pool->spare_count < count)
        return false;
    *out = NULL;
    for (uint32_t i = 0; i < count; i++) {
        struct kernel_task *task = pool->spare;
        pool->spare = task->next;
        task->next = *out;
        *out = task;
    }
    pool->spare_count -= count;
    return true;
}

void kernel_task_give_locked(struct task_pool *pool, struct kernel_task *task)
{
    if (task->entry)
        resident_drop(task->entry);
    task->entry = NULL;
    if (task->is_spoilt) {
        task->is_left = true;
        pool->kernel_task_count--;
        return;
    }
    task->next = pool->spare;
    pool->spare = task;
    pool->spare_count++;
}

void kernel_tasks_return(struct task_pool *pool, struct kernel_task *chain)
{
    while (chain) {
        struct kernel_task *task = chain;
        chain = task->also_next;
        kernel_let_go(task->kernel);
        platform_mutex_lock(&pool->lock);
        task->is_spoilt = false;
        /* Else it is still the task's, and comes back with that. */
        if (task->is_left) {
            task->is_left = false;
            pool->kernel_task_count++;
            kernel_task_give_locked(pool, task);
        }
        platform_mutex_unlock(&pool->lock);
    }
}

struct kernel_task *kernel_task_renew_locked(struct task_pool *pool, const struct kernel_task *task)
{
    struct kernel_task *fresh = pool->spare;
    if (!fresh)
        return NULL;
    pool->spare = fresh->next;
    pool->spare_count--;
    /* All but the result, which may be written at this moment. */
    const size_t from = offsetof(struct kernel_task, attempt.given);
    memcpy((char *)fresh + from, (const char *)task + from, sizeof *task - from);
    fresh->is_spoilt = fresh->is_left = false;
    INVARIANT(!task->has_arrays);
    for (uint32_t i = 0; i < fresh->arg_count; i++)
        if (fresh->kinds[i] == MUSTER_ARG_VALUE)
            fresh->args[i].value =
                fresh->values + ((const unsigned char *)task->args[i].value - task->values);
    return fresh;
}

/* Arguments. */

static muster_status say_bad(struct muster_error *err, const char *what)
{
    return run_bad_argument(err, "muster_submit", what);
}

static muster_status read_value(struct kernel_task *task, uint32_t i, const struct muster_arg *arg,
                                size_t *filled, struct muster_error *err)
{
    if (!arg->in || arg->bytes == 0)
        return say_bad(err, "a value without address or size");
    /* So that any scalar is aligned. */
    size_t at = (*filled + 7) & ~(size_t)7;
    if (arg->bytes > MUSTER_ARG_BYTES_MAX || at > MUSTER_ARG_BYTES_MAX - arg->bytes)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "put large arguments into data",
                                 "the values of a task's arguments have more than %d bytes",
                                 MUSTER_ARG_BYTES_MAX);
    /* Most are as long as a register, and copied without a call. */
    if (arg->bytes == sizeof(uint64_t))
        memcpy(task->values + at, arg->in, sizeof(uint64_t));
    else if (arg->bytes == sizeof(uint32_t))
        memcpy(task->values + at, arg->in, sizeof(uint32_t));
    else
        memcpy(task->values + at, arg->in, arg->bytes);
    task->args[i] = (struct muster_launch_arg){ .value = task->values + at, .bytes = arg->bytes };
    *filled = at + arg->bytes;
    return MUSTER_OK;
}

static muster_status read_array(struct kernel_task *task, uint32_t i, const struct muster_arg *arg,
                                struct muster_error *err)
{
    bool is_written = arg->kind != MUSTER_ARG_IN;
    const void *host = is_written ? arg->out : arg->in;
    uint64_t bytes;
    if (arg->bytes == 0 || (!host && task->items > 0))
        return say_bad(err, "an array without address or size of an item");
    if (arg->kind == MUSTER_ARG_INOUT && arg->in != arg->out)
        return say_bad(err, "an array that is read and written is one array");
    if (__builtin_mul_overflow(task->items, (uint64_t)arg->bytes, &bytes) || bytes > SIZE_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "submit fewer items at a time",
                                 "an array of %llu items of %zu bytes",
                                 (unsigned long long)task->items, arg->bytes);
    task->memories[i] = (struct muster_memory){ .address = (uintptr_t)host, .bytes = bytes };
    task->args[i] = (struct muster_launch_arg){ .memory = &task->memories[i] };
    task->has_arrays = true;
    task->has_update |= arg->kind == MUSTER_ARG_INOUT;
    if (!task->is_plain && __builtin_add_overflow(task->hints.bytes, bytes, &task->hints.bytes))
        task->hints.bytes = UINT64_MAX;
    return MUSTER_OK;
}

/* What was read against what the kernel takes, where that is known. */
static muster_status check_args(const struct kernel_task *task, const struct muster_arg *given,
                                struct muster_error *err)
{
    struct kernel_argument args[MUSTER_ARGS_MAX];
    if (!kernel_knows_arguments(task->kernel))
        return MUSTER_OK;
    for (uint32_t i = 0; i < task->arg_count; i++)
        args[i] = (struct kernel_argument){ .is_block = task->args[i].bytes == 0,
                                            .bytes = task->args[i].bytes > 0 ? task->args[i].bytes
                                                                             : given[i].bytes,
                                            .access = arg_access(&given[i]),
                                            .element = given[i].element };
    return kernel_check_arguments(task->kernel, args, task->arg_count, err);
}

static muster_status read_data(struct muster *m, struct kernel_task *task, uint32_t i,
                               muster_data data, struct muster_error *err)
{
    void *entry;
    task->args[i] = (struct muster_launch_arg){ .value = NULL };
    task->has_data = true;
    run_lock(m);
    muster_status status =
        table_find_locked(&m->data, data.index, data.generation, "piece of data", &entry, err);
    run_unlock(m);
    return status;
}

/* An argument in device memory; that device alone may run the task. */
static muster_status read_block(struct muster *m, struct kernel_task *task, uint32_t i,
                                const struct muster_arg *arg, struct muster_error *err)
{
    struct run_device *device;
    if (arg->bytes == 0)
        return say_bad(err, "an array in device memory without size of an item");
    muster_status status = block_check_arg(m, arg, task->items, &device, err);
    if (status != MUSTER_OK)
        return status;
    if (task->only_device && task->only_device != device)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "copy one to the other device",
                                 "arguments are in the memory of %s and of %s",
                                 task->only_device->info.id, device->info.id);
    task->args[i] = (struct muster_launch_arg){ .offset = arg->offset };
    task->only_device = device;
    task->has_data = true;
    task->writes_block |= arg->kind != MUSTER_ARG_DEVICE_IN;
    task->has_update |= arg->kind == MUSTER_ARG_DEVICE_INOUT;
    return MUSTER_OK;
}

/* Of the devices that may run the task only this one is left. */
static muster_status keep_only(struct kernel_task *task, struct muster_error *err)
{
    uint32_t only = task->only_device->index;
    bool is_allowed = task->is_plain ? task->only == only
                                     : only / 64 < task->allowed.word_count &&
                                           task->allowed.words[only / 64] >> (only % 64) & 1;
    if (!is_allowed)
        return muster_error_fill(err, MUSTER_E_NO_DEVICE, 0, "copy the arguments elsewhere",
                                 "arguments are in the memory of %s, which has no form of the "
                                 "kernel or is not among the devices of the hints",
                                 task->only_device->info.id);
    task->only = only;
    if (!task->is_plain) {
        device_set_clear(&task->allowed, task->allowed.word_count * 64);
        device_set_add(&task->allowed, only);
    }
    return MUSTER_OK;
}

static muster_status read_args(struct muster *m, struct kernel_task *task,
                               const struct muster_arg *args, struct muster_error *err)
{
    static const uint64_t first = 0;
    muster_status status = MUSTER_OK;
    size_t filled = 0;
    for (uint32_t i = 0; i < task->arg_count && status == MUSTER_OK; i++) {
        const struct muster_arg *arg = &args[i];
        /* The rest of a value is read here and now. */
        task->kinds[i] = (uint8_t)arg->kind;
        if (arg->kind != MUSTER_ARG_VALUE)
            task->given[i] = *arg;
        switch (arg->kind) {
        case MUSTER_ARG_VALUE:
            status = read_value(task, i, arg, &filled, err);
            break;
        case MUSTER_ARG_IN:
        case MUSTER_ARG_OUT:
        case MUSTER_ARG_INOUT:
            if (arg->halo > 0)
                return say_bad(err,
                               "an argument of a task has a halo; jobs and pipelines have them");
            status = read_array(task, i, arg, err);
            break;
        case MUSTER_ARG_ALL:
            status = read_data(m, task, i, arg->data, err);
            break;
        case MUSTER_ARG_FIRST:
            task->args[i] = (struct muster_launch_arg){ .value = &first, .bytes = sizeof first };
            break;
        case MUSTER_ARG_DEVICE_IN:
        case MUSTER_ARG_DEVICE_OUT:
        case MUSTER_ARG_DEVICE_INOUT:
            status = read_block(m, task, i, arg, err);
            break;
        default:
            status = say_bad(err, "an argument is of no known kind");
        }
    }
    if (status == MUSTER_OK && task->only_device)
        status = keep_only(task, err);
    return status == MUSTER_OK ? check_args(task, args, err) : status;
}

/* Arguments that may be of another version of the struct are read into copies first. */
static muster_status read_any_args(struct muster *m, struct kernel_task *task,
                                   const struct muster_task_desc *desc, struct muster_error *err)
{
    struct muster_arg copies[MUSTER_ARGS_MAX];
    muster_status status;
    const struct muster_arg *args =
        layout_read_all(LAYOUT(muster_arg), desc->args, task->arg_count, copies, &status, err);
    return status == MUSTER_OK ? read_args(m, task, args, err) : status;
}

/* Where it may run. */

static muster_status say_none_locked(struct muster *m, const struct kernel_task *task,
                                     const struct placement_hints *hints, struct muster_error *err)
{
    char words[200] = "";
    for (uint32_t i = 0; i < m->device_count; i++) {
        if (m->devices[i]->is_sliced || strlen(words) + 40 > sizeof words)
            continue;
        enum muster_refusal refusal = placement_refusal(&m->views[i], i, hints);
        const char *why = refusal != MUSTER_REFUSED_NOT ? muster_refusal_name(refusal)
                          : !kernel_has_form_locked(task->kernel, m->devices[i])
                              ? "no form of the kernel"
                              : "not refused";
        snprintf(words + strlen(words), sizeof words - strlen(words), "%s%s: %s",
                 *words ? ", " : "", m->devices[i]->info.id, why);
    }
    return muster_error_fill(
        err, MUSTER_E_NO_DEVICE, 0, "ask for less, or give the kernel in more forms",
        "no device may run the task; refused by: %s", *words ? words : "there is none");
}

static muster_status find_devices(struct task_pool *pool, struct kernel_task *task,
                                  const struct muster_task_desc *desc, struct muster_error *err)
{
    struct muster *m = pool->m;
    uint64_t named[PICK_WORDS];
    struct placement_hints hints;
    bool is_any = false;
    muster_status status = pick_read_hints(m, desc->hints, named, &hints, err);
    if (status != MUSTER_OK)
        return status;
    kernel_find_compilers(task->kernel);
    uint32_t allowed_count = 0;
    task->only = PLACEMENT_NONE;
    task->is_plain = false;
    run_lock(m);
    device_set_clear(&task->allowed, m->device_count);
    for (uint32_t i = 0; i < m->device_count; i++) {
        bool is_named = !hints.devices || named[i / 64] >> (i % 64) & 1;
        if (!is_named || !kernel_has_form_locked(task->kernel, m->devices[i]))
            continue;
        device_set_add(&task->allowed, i);
        task->only = allowed_count++ == 0 ? i : PLACEMENT_NONE;
        is_any = is_any || placement_refusal(&m->views[i], i, &hints) == MUSTER_REFUSED_NOT;
    }
    if (!is_any)
        status = say_none_locked(m, task, &hints, err);
    run_unlock(m);
    hints.devices = NULL;
    task->hints = hints;
    return status;
}

static bool still_holds(const struct task_pool *pool, const struct muster_kernel *kernel,
                        const struct kernel_devices *known)
{
    return known->kernel == kernel &&
           known->epoch == atomic_load_explicit(&pool->m->epoch, memory_order_relaxed);
}

bool kernel_task_is_known(const struct task_pool *pool, const struct muster_task_desc *desc,
                          const struct kernel_devices *known)
{
    bool is_known = !desc->resident && !desc->hints && still_holds(pool, desc->kernel, known) &&
                    (desc->args || desc->arg_count == 0) && desc->arg_count <= MUSTER_ARGS_MAX;
    /* Arguments of another size are read with care, and so not here. */
    for (size_t i = 0; is_known && i < desc->arg_count; i++)
        is_known = desc->args[i].size == sizeof *desc->args &&
                   desc->args[i].kind != MUSTER_ARG_ALL && !arg_is_on_device(&desc->args[i]);
    return is_known;
}

static void use_known(struct kernel_task *task, const struct kernel_devices *known)
{
    task->only = known->only;
    task->is_plain = known->only != PLACEMENT_NONE;
    if (task->is_plain)
        return;
    device_set_copy(&task->allowed, &known->allowed);
    task->hints = (struct placement_hints){ .backends = UINT32_MAX };
}

/* The same for a task that asks for nothing: what is known of its kernel, if it still holds. */
static muster_status find_known(struct task_pool *pool, struct kernel_task *task,
                                const struct muster_task_desc *desc, struct kernel_devices *known,
                                struct muster_error *err)
{
    if (still_holds(pool, task->kernel, known)) {
        use_known(task, known);
        return MUSTER_OK;
    }
    /* Before they are found: what changes meanwhile makes it stale. */
    uint64_t epoch = atomic_load_explicit(&pool->m->epoch, memory_order_relaxed);
    muster_status status = find_devices(pool, task, desc, err);
    if (status == MUSTER_OK) {
        known->kernel = task->kernel;
        known->epoch = epoch;
        known->only = task->only;
        device_set_copy(&known->allowed, &task->allowed);
    }
    return status;
}

muster_status kernel_task_fill(struct task_pool *pool, struct kernel_task *task,
                               const struct muster_task_desc *desc, struct kernel_devices *known,
                               bool is_known, struct muster_error *err)
{
    if (desc->resident)
        return resident_task_fill(pool, task, desc, err);
    if (!kernel_is_of(desc->kernel, pool->m))
        return say_bad(err, "the kernel is another runtime's");
    if (desc->arg_count > MUSTER_ARGS_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "pack values into a struct",
                                 "%zu arguments; at most %d", desc->arg_count, MUSTER_ARGS_MAX);
    if (!desc->args && desc->arg_count > 0)
        return say_bad(err, "no arguments where some are counted");
    task->user = desc->user;
    task->done = desc->done;
    task->kernel = desc->kernel;
    task->items = desc->items;
    task->timeout_ns = desc->timeout_ns > 0 ? desc->timeout_ns : UINT64_MAX;
    task->has_marks = false;
    task->status = MUSTER_OK;
    task->tries = 0;
    task->arg_count = (uint32_t)desc->arg_count;
    task->has_data = task->has_arrays = task->has_update = false;
    task->writes_block = false;
    task->only_device = NULL;
    task->attempt.is_counted = false;
    muster_status status = MUSTER_OK;
    if (is_known)
        use_known(task, known);
    else
        status = desc->hints ? find_devices(pool, task, desc, err)
                             : find_known(pool, task, desc, known, err);
    if (status != MUSTER_OK)
        return status;
    if (!task->is_plain && task->hints.items == 0)
        task->hints.items = desc->items;
    return is_known ? read_args(pool->m, task, desc->args, err)
                    : read_any_args(pool->m, task, desc, err);
}

/* Placing. */

/* The only one, unless it has refused; one that is to be avoided is then still the only one. */
static uint32_t choose_only_locked(const struct muster *m, const struct kernel_task *task)
{
    uint32_t only = task->only;
    bool has_refused = task->has_marks && (task->refused.words[only / 64] >> (only % 64) & 1);
    bool is_fit = task->is_plain ? m->views[only].is_usable
                                 : placement_refusal(&m->views[only], only, &task->hints) ==
                                       MUSTER_REFUSED_NOT;
    return !has_refused && is_fit ? only : PLACEMENT_NONE;
}

/* Where it may run, all but where it was refused, and `but`. */
static uint32_t choose_among_locked(const struct muster *m, const struct kernel_task *task,
                                    bool may_avoid, uint32_t but)
{
    uint64_t words[TASK_DEVICE_WORDS];
    uint32_t word_count = task->allowed.word_count, turn = 0; /* the turn is not taken here */
    uint32_t count = m->device_count < word_count * 64 ? m->device_count : word_count * 64;
    for (uint32_t i = 0; i < word_count; i++) {
        words[i] = task->allowed.words[i];
        if (task->has_marks)
            words[i] &= ~task->refused.words[i] & ~(may_avoid ? task->avoided.words[i] : 0);
    }
    if (but != PLACEMENT_NONE)
        words[but / 64] &= ~((uint64_t)1 << (but % 64));
    struct placement_hints hints = task->hints;
    hints.devices = words;
    return placement_choose(PLACEMENT_EARLIEST_FINISH, m->views, count, &hints, &turn);
}

static uint32_t choose_locked(struct muster *m, const struct kernel_task *task)
{
    if (task->only != PLACEMENT_NONE)
        return choose_only_locked(m, task);
    uint32_t chosen = choose_among_locked(m, task, true, PLACEMENT_NONE);
    return chosen != PLACEMENT_NONE || !task->has_marks
               ? chosen
               : choose_among_locked(m, task, false, PLACEMENT_NONE);
}

bool kernel_task_can_move_locked(const struct muster *m, const struct kernel_task *task)
{
    return task->only == PLACEMENT_NONE &&
           choose_among_locked(m, task, false, task->device->index) != PLACEMENT_NONE;
}

bool kernel_task_place_locked(struct muster *m, struct kernel_task *task, uint64_t now_ns)
{
    uint32_t chosen = choose_locked(m, task);
    if (chosen == PLACEMENT_NONE) {
        task->outcome = KERNEL_ENDS;
        /* Some could when it was submitted. */
        if (task->status == MUSTER_OK)
            task->status = MUSTER_E_DEVICE_LOST;
        return false;
    }
    struct run_device *device = m->devices[chosen];
    task->device = device;
    task->built = kernel_state_locked(task->kernel, device);
    attempt_count_locked(&task->attempt, device, task->items, now_ns);
    return true;
}

void kernel_task_unplace_locked(struct kernel_task *task, uint64_t now_ns)
{
    attempt_uncount_locked(&task->attempt, task->device, LOAD_WITHDRAWN, now_ns);
    device_view_locked(task->device);
}

void kernel_task_finish_locked(struct kernel_task *task, uint64_t now_ns)
{
    bool is_good = task->outcome == KERNEL_ENDS && task->status == MUSTER_OK;
    enum load_end how = !is_good ? LOAD_FAILED : task->was_prompt ? LOAD_DONE : LOAD_UNTIMED;
    attempt_uncount_locked(&task->attempt, task->device, how, now_ns);
}
