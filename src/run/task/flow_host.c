/*
 * Tasks with accesses that run on the host: bodies and what they are given, Muster's own, and how they
 * end.
 */
#include "run/task/flow.h"

#include "base/invariant.h"

#include <stdio.h>
#include <string.h>

/* ---- Bodies ---- */

/* Where the accesses of a task are on the host. */
struct places {
    void *pointers[MUSTER_ACCESSES_MAX];
    uint64_t bytes[MUSTER_ACCESSES_MAX], pitches[MUSTER_ACCESSES_MAX], rows[MUSTER_ACCESSES_MAX];
};

static bool find_places(struct muster *m, const struct flow_task *task, struct places *places)
{
    for (uint32_t i = 0; i < task->count; i++) {
        struct run_data *data = task->uses[i].data;
        places->bytes[i] = data->bytes;
        places->pitches[i] = data->pitch;
        places->rows[i] = data->rows;
        places->pointers[i] = NULL;
        if (data->bytes > 0 && !(places->pointers[i] = data_home(m, data)))
            return false;
    }
    return true;
}

static muster_status run_native(struct task_pool *pool, const struct flow_task *task)
{
    struct places places;
    if (!find_places(pool->m, task, &places))
        return MUSTER_E_NO_MEMORY;
    const struct muster_native native = { .size = sizeof native,
                                          .device = pool->flow.cpu,
                                          .backend = "cpu",
                                          .count = task->count,
                                          .pointers = places.pointers,
                                          .bytes = places.bytes,
                                          .pitches = places.pitches,
                                          .rows = places.rows };
    return task->enqueue(task->user, &native);
}

/* Calls the function for bytes of `data` that are in one piece: contributions are, tiles are not. */
static void combine(const struct muster_reduction *reduction, const struct run_data *data,
                    char *into, const char *from)
{
    for (uint64_t row = 0; row < data->rows; row++)
        reduction->combine(reduction->user, into + row * data->pitch, from + row * data->row_bytes,
                           data->row_bytes);
}

static muster_status run_reduction(struct task_pool *pool, const struct flow_task *task)
{
    struct run_data *first = task->uses[0].data;
    char *into = data_home(pool->m, first);
    if (!into)
        return MUSTER_E_NO_MEMORY;
    if (task->kind == FLOW_BEGIN) {
        const struct muster_reduction *reduction = &task->uses[1].data->reduction;
        reduction->begin(reduction->user, into, first->bytes);
        return MUSTER_OK;
    }
    for (uint32_t i = 1; i < task->count; i++) {
        const char *from = data_home(pool->m, task->uses[i].data);
        if (!from)
            return MUSTER_E_NO_MEMORY;
        combine(&first->reduction, first, into, from);
    }
    return MUSTER_OK;
}

static muster_status run_body(struct task_pool *pool, struct flow_task *task)
{
    if (task->kind != FLOW_BODY)
        return run_reduction(pool, task);
    return task->enqueue ? run_native(pool, task) : task->fn(task->user);
}

muster_status flow_run(struct task_pool *pool, struct flow_task *task)
{
    if (!task->is_timed)
        return run_body(pool, task);
    uint64_t begin_ns = platform_clock_ns();
    muster_status status = run_body(pool, task);
    task->elapsed_ns = platform_clock_ns() - begin_ns;
    return status;
}

/* ---- Turns and ends ---- */

/* Core has said already what becomes of it. */
static bool begin_dispatched_locked(struct task_pool *pool, struct tasks_entry *entry,
                                    struct running *running)
{
    bool is_over = entry->tag & (FLOW_DEAD | FLOW_OVER);
    running->is_doomed = false;
    if (entry->tag & FLOW_GATE) {
        flow_open_gate_locked(pool, entry->payload[1], is_over);
        return false;
    }
    running->is_over = is_over;
    running->record->elapsed_ns = is_over ? running->record->elapsed_ns : 0;
    return true;
}

bool flow_begin_locked(struct task_pool *pool, struct running *running)
{
    struct tasks_entry *entry = &pool->tasks.entries[running->index];
    struct flow_cause cause;
    if (entry->tag & FLOW_DISPATCHED)
        return begin_dispatched_locked(pool, entry, running);
    if (!running->is_doomed && flow_blame(pool->flow.core, running->index, &cause))
        running->is_doomed = true;
    if (running->is_doomed)
        entry->tag |= FLOW_DEAD;
    if (entry->tag & FLOW_GATE) {
        flow_open_gate_locked(pool, entry->payload[1], running->is_doomed);
        return false;
    }
    if (entry->tag & (FLOW_DEAD | FLOW_TURN))
        return true;
    if (!flow_commute_take(pool->flow.core, running->index))
        return false;
    entry->tag |= FLOW_TURN;
    return true;
}

static void give_record_locked(struct flow_pool *flow, struct flow_task *record)
{
    record->next = flow->spare;
    flow->spare = record;
    flow->spare_count++;
}

static muster_task task_of(uint64_t tag)
{
    return (muster_task){ (uint32_t)tag, (uint32_t)(tag >> 32) };
}

static void note_cause(struct flow_pool *flow, uint32_t index, uint32_t generation,
                       muster_task cause)
{
    if (!flow->notes)
        return;
    struct flow_note *note = &flow->notes[index], *other = &flow->notes[cause.index];
    if (note->generation != generation)
        *note = (struct flow_note){ .generation = generation };
    note->cause = cause;
    if (other->generation != cause.generation)
        *other = (struct flow_note){ .generation = cause.generation };
    other->cancelled++;
}

void flow_note_cause_locked(struct task_pool *pool, uint32_t index, const struct flow_cause *cause)
{
    note_cause(&pool->flow, index, pool->tasks.entries[index].generation, task_of(cause->tag));
}

/* One for which core has found the place. */
static void end_dispatched_locked(struct task_pool *pool, uint32_t index, muster_status status)
{
    struct flow_pool *flow = &pool->flow;
    const struct tasks_entry *entry = &pool->tasks.entries[index];
    const struct flow_task *task = entry->tag & FLOW_GATE ? NULL : entry->payload[1];
    if (entry->tag & FLOW_DEAD)
        return;
    uint32_t device = dispatch_chosen(flow->dispatch, index);
    if (device < flow->device_count)
        flow->devices[device]->running--;
    dispatch_ended(flow->dispatch, index, status, task ? task->elapsed_ns : 0, platform_clock_ns());
}

static void end_at_home_locked(struct task_pool *pool, uint32_t index, muster_status status)
{
    struct flow_pool *flow = &pool->flow;
    const struct tasks_entry *entry = &pool->tasks.entries[index];
    struct flow_cause cause;
    bool is_dead = entry->tag & FLOW_DEAD;
    bool is_blamed = is_dead && flow_blame(flow->core, index, &cause);
    if (is_blamed && cause.tag != 0)
        note_cause(flow, index, entry->generation, task_of(cause.tag));
    flow_ended(flow->core, index, is_dead ? FLOW_NONE : FLOW_HOME, status,
               is_blamed ? &cause : NULL);
}

void flow_end_locked(struct task_pool *pool, uint32_t index, muster_status status)
{
    struct flow_pool *flow = &pool->flow;
    struct tasks_entry *entry = &pool->tasks.entries[index];
    if (entry->tag & FLOW_DISPATCHED)
        end_dispatched_locked(pool, index, status);
    else
        end_at_home_locked(pool, index, status);
    flow->uses -= entry->tag >> FLOW_USES_SHIFT;
    if (entry->tag & FLOW_RECORD && !(entry->tag & FLOW_GATE))
        give_record_locked(flow, entry->payload[1]);
}

void flow_turn_locked(struct task_pool *pool)
{
    uint32_t next;
    if (pool->flow.dispatch) {
        flow_pump_locked(pool);
        return;
    }
    while ((next = flow_commute_next(pool->flow.core)) != FLOW_NONE)
        if (pool->tasks.entries[next].state == TASKS_TAKEN)
            tasks_put_back(&pool->tasks, next);
}

/* ---- Errors ---- */

/* One that was cancelled because of the order, not of data: core has noted by which. */
void flow_note_end_locked(struct task_pool *pool, uint32_t index, muster_status status)
{
    const struct tasks_entry *entry = &pool->tasks.entries[index];
    uint32_t cause = entry->cause;
    if (status != MUSTER_E_CANCELLED || !entry->is_doomed || cause == TASKS_NONE)
        return;
    muster_task by = { cause, pool->tasks.entries[cause].generation };
    const struct flow_note *note = &pool->flow.notes[cause];
    /* The one that failed first, not one that was cancelled in its turn. */
    if (note->generation == by.generation && note->cause.generation > 0)
        by = note->cause;
    note_cause(&pool->flow, index, entry->generation, by);
}

static const struct flow_note *note_of(const struct flow_pool *flow, muster_task task)
{
    const struct flow_note *note =
        flow->notes && task.index < MUSTER_TASKS_MAX ? &flow->notes[task.index] : NULL;
    return note && note->generation == task.generation && task.generation > 0 ? note : NULL;
}

void flow_name_locked(struct task_pool *pool, uint32_t index, const char *name)
{
    struct flow_note *note = &pool->flow.notes[index];
    *note = (struct flow_note){ .generation = pool->tasks.entries[index].generation };
    strncpy(note->name, name, sizeof note->name - 1);
}

/* "task 'name'", or "a task". */
static const char *spell(const struct flow_note *note, char *text, size_t bytes)
{
    if (!note || !note->name[0])
        return "a task";
    snprintf(text, bytes, "task '%s'", note->name);
    return text;
}

static muster_status status_of(const struct task_pool *pool, muster_task task)
{
    if (tasks_find(&pool->tasks, task.index, task.generation) != MUSTER_OK)
        return MUSTER_E_FAILED;
    return pool->tasks.entries[task.index].status;
}

void flow_explain_locked(struct task_pool *pool, muster_task task, muster_status status,
                         struct muster_error *err)
{
    char name[64], other[64];
    const struct flow_note *note = note_of(&pool->flow, task);
    const struct flow_note *cause = note ? note_of(&pool->flow, note->cause) : NULL;
    if (cause) {
        muster_status why = status_of(pool, note->cause);
        muster_error_fill(err, status, 0, NULL, "%s was cancelled because %s ended with %s (%s)",
                          spell(note, name, sizeof name), spell(cause, other, sizeof other),
                          muster_status_name(why), muster_status_message(why));
    } else if (note && note->cancelled > 0) {
        muster_error_fill(err, status, 0, NULL,
                          "%s ended with %s (%s); %u that needed it were cancelled",
                          spell(note, name, sizeof name), muster_status_name(status),
                          muster_status_message(status), note->cancelled);
    } else {
        muster_error_fill(err, status, 0, NULL, "%s ended with %s (%s)",
                          spell(note, name, sizeof name), muster_status_name(status),
                          muster_status_message(status));
    }
}

void flow_explain_cause_locked(struct task_pool *pool, const struct flow_cause *cause,
                               struct muster_error *err)
{
    char name[64];
    muster_error_fill(err, cause->status, 0, "have a task write all of it again",
                      "%s, which was to write the data, ended with %s (%s)",
                      spell(note_of(&pool->flow, task_of(cause->tag)), name, sizeof name),
                      muster_status_name(cause->status), muster_status_message(cause->status));
}
