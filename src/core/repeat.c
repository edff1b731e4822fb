#include "core/repeat.h"

#include "base/invariant.h"

#include <string.h>

_Static_assert(TASKS_PRIORITIES == 32, "a bit of a word for each priority");

struct repeat {
    uint32_t count, edge_count;
    const uint32_t *first; /* edges of each task, and the end of the last one's */
    const uint32_t *followers;
    const uint32_t *waits; /* for how many */
    const uint8_t *priorities;
};

struct repeat_run {
    const struct repeat *repeat; /* borrowed */
    uint32_t *left;              /* waits that are left */
    uint32_t *next;              /* of those that are ready, on the list of their priority */
    uint32_t head[TASKS_PRIORITIES], tail[TASKS_PRIORITIES];
    uint32_t priorities; /* a bit for each list that has some */
    uint32_t ready, taken, ended;
    uint32_t first_failed;
    muster_status status;
    uint64_t *doomed; /* bits; touched once something has failed */
};

static size_t aligned(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

static uint32_t tasks_in(const struct tasks *recorded)
{
    return recorded->open_count;
}

static uint32_t edges_in(const struct tasks *recorded)
{
    return recorded->edge_capacity - recorded->free_edge_count;
}

/* Of the numbers alone. */
static size_t words_bytes(const struct tasks *recorded)
{
    return aligned((2 * (size_t)tasks_in(recorded) + 1 + edges_in(recorded)) * sizeof(uint32_t));
}

size_t repeat_bytes(const struct tasks *recorded)
{
    return aligned(sizeof(struct repeat)) + words_bytes(recorded) + aligned(tasks_in(recorded));
}

struct repeat *repeat_init(void *memory, const struct tasks *recorded)
{
    struct repeat *repeat = memory;
    uint32_t *words = (uint32_t *)(void *)((char *)memory + aligned(sizeof *repeat));
    uint32_t count = tasks_in(recorded), edges = 0;
    uint32_t *first = words, *waits = first + count + 1, *followers = waits + count;
    uint8_t *priorities = (uint8_t *)words + words_bytes(recorded);
    for (uint32_t i = 0; i < count; i++) {
        INVARIANT(recorded->entries[i].is_released && recorded->entries[i].state != TASKS_TAKEN &&
                  recorded->entries[i].state != TASKS_ENDED);
        first[i] = edges;
        waits[i] = recorded->entries[i].after_count;
        priorities[i] = recorded->entries[i].priority;
        for (uint32_t e = recorded->entries[i].first_follower; e != TASKS_NONE;
             e = recorded->edges[e].next)
            followers[edges++] = recorded->edges[e].follower;
        /* The newest edge is first in the table: followers go in the order of submission. */
        for (uint32_t a = first[i], b = edges; a + 1 < b; a++) {
            uint32_t follower = followers[a];
            followers[a] = followers[--b];
            followers[b] = follower;
        }
    }
    first[count] = edges;
    INVARIANT(edges == edges_in(recorded));
    *repeat = (struct repeat){ count, edges, first, followers, waits, priorities };
    return repeat;
}

uint32_t repeat_count(const struct repeat *repeat)
{
    return repeat->count;
}

static size_t doomed_words(const struct repeat *repeat)
{
    return (repeat->count + 63) / 64;
}

size_t repeat_run_bytes(const struct repeat *repeat)
{
    return aligned(sizeof(struct repeat_run)) + 2 * aligned(repeat->count * sizeof(uint32_t)) +
           aligned(doomed_words(repeat) * sizeof(uint64_t));
}

/* The task is ready, as the newest of its priority. */
static inline void push(struct repeat_run *run, uint32_t task)
{
    uint32_t priority = run->repeat->priorities[task], bit = 1u << priority;
    if (run->priorities & bit)
        run->next[run->tail[priority]] = task;
    else
        run->head[priority] = task;
    run->tail[priority] = task;
    run->priorities |= bit;
    run->ready++;
}

struct repeat_run *repeat_run_begin(void *memory, const struct repeat *repeat)
{
    struct repeat_run *run = memory;
    char *at = (char *)memory + aligned(sizeof *run);
    *run = (struct repeat_run){ .repeat = repeat, .first_failed = UINT32_MAX };
    run->left = (void *)at;
    at += aligned(repeat->count * sizeof(uint32_t));
    run->next = (void *)at;
    at += aligned(repeat->count * sizeof(uint32_t));
    run->doomed = (void *)at;
    memcpy(run->left, repeat->waits, repeat->count * sizeof *run->left);
    for (uint32_t i = 0; i < repeat->count; i++)
        if (repeat->waits[i] == 0)
            push(run, i);
    return run;
}

uint32_t repeat_take(struct repeat_run *run, uint32_t most, uint32_t *out)
{
    uint32_t count = 0;
    for (; count < most && run->ready > 0; count++, run->ready--) {
        uint32_t priority = 31u - (uint32_t)__builtin_clz(run->priorities);
        uint32_t task = out[count] = run->head[priority];
        if (task == run->tail[priority])
            run->priorities &= ~(1u << priority);
        else
            run->head[priority] = run->next[task];
    }
    run->taken += count;
    return count;
}

void repeat_put_back(struct repeat_run *run, uint32_t task)
{
    uint32_t priority = run->repeat->priorities[task], bit = 1u << priority;
    INVARIANT(run->left[task] == 0 && run->ended < run->taken);
    if (run->priorities & bit)
        run->next[task] = run->head[priority];
    else
        run->tail[priority] = task;
    run->head[priority] = task;
    run->priorities |= bit;
    run->ready++;
    run->taken--;
}

uint32_t repeat_ready_count(const struct repeat_run *run)
{
    return run->ready;
}

bool repeat_is_doomed(const struct repeat_run *run, uint32_t task)
{
    return run->status != MUSTER_OK && run->doomed[task / 64] >> (task % 64) & 1;
}

/* The first that fails clears the bits: runs in which all goes well never touch them. */
static void note_failure(struct repeat_run *run, uint32_t task, muster_status status)
{
    if (run->status == MUSTER_OK) {
        memset(run->doomed, 0, doomed_words(run->repeat) * sizeof *run->doomed);
        run->status = status;
    }
    if (task < run->first_failed && !repeat_is_doomed(run, task)) {
        run->first_failed = task;
        run->status = status;
    }
}

bool repeat_end(struct repeat_run *run, uint32_t task, muster_status status)
{
    const struct repeat *repeat = run->repeat;
    INVARIANT(run->left[task] == 0 && run->ended < run->taken);
    if (status != MUSTER_OK)
        note_failure(run, task, status);
    for (uint32_t e = repeat->first[task]; e < repeat->first[task + 1]; e++) {
        uint32_t follower = repeat->followers[e];
        if (status != MUSTER_OK)
            run->doomed[follower / 64] |= UINT64_C(1) << (follower % 64);
        if (--run->left[follower] == 0)
            push(run, follower);
    }
    return ++run->ended == repeat->count;
}

muster_status repeat_status(const struct repeat_run *run, uint32_t *first_failed)
{
    *first_failed = run->first_failed;
    return run->status;
}
