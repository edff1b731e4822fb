#include "core/repeat.h"

#include "base/invariant.h"

#include <string.h>

struct repeat {
    uint32_t count, edge_count;
    const uint32_t *first; /* edges of each task, and the end of the last one's */
    const uint32_t *followers;
    const uint32_t *waits; /* for how many */
};

struct repeat_run {
    const struct repeat *repeat; /* borrowed */
    uint32_t *left;              /* waits that are left */
    uint32_t *ready;             /* in the order in which they became so; all tasks once */
    uint32_t taken, readied, ended;
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

size_t repeat_bytes(const struct tasks *recorded)
{
    return aligned(sizeof(struct repeat)) +
           aligned((2 * (size_t)tasks_in(recorded) + 1 + edges_in(recorded)) * sizeof(uint32_t));
}

struct repeat *repeat_init(void *memory, const struct tasks *recorded)
{
    struct repeat *repeat = memory;
    uint32_t *words = (uint32_t *)(void *)((char *)memory + aligned(sizeof *repeat));
    uint32_t count = tasks_in(recorded), edges = 0;
    uint32_t *first = words, *waits = first + count + 1, *followers = waits + count;
    for (uint32_t i = 0; i < count; i++) {
        INVARIANT(recorded->entries[i].is_released && recorded->entries[i].state != TASKS_TAKEN &&
                  recorded->entries[i].state != TASKS_ENDED);
        first[i] = edges;
        waits[i] = recorded->entries[i].after_count;
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
    *repeat = (struct repeat){ count, edges, first, followers, waits };
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

struct repeat_run *repeat_run_begin(void *memory, const struct repeat *repeat)
{
    struct repeat_run *run = memory;
    char *at = (char *)memory + aligned(sizeof *run);
    *run = (struct repeat_run){ .repeat = repeat, .first_failed = UINT32_MAX };
    run->left = (void *)at;
    at += aligned(repeat->count * sizeof(uint32_t));
    run->ready = (void *)at;
    at += aligned(repeat->count * sizeof(uint32_t));
    run->doomed = (void *)at;
    memcpy(run->left, repeat->waits, repeat->count * sizeof *run->left);
    for (uint32_t i = 0; i < repeat->count; i++)
        if (repeat->waits[i] == 0)
            run->ready[run->readied++] = i;
    return run;
}

uint32_t repeat_take(struct repeat_run *run, uint32_t most, uint32_t *out)
{
    uint32_t count = run->readied - run->taken;
    count = count < most ? count : most;
    memcpy(out, run->ready + run->taken, count * sizeof *out);
    run->taken += count;
    return count;
}

uint32_t repeat_ready_count(const struct repeat_run *run)
{
    return run->readied - run->taken;
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
            run->ready[run->readied++] = follower;
    }
    return ++run->ended == repeat->count;
}

muster_status repeat_status(const struct repeat_run *run, uint32_t *first_failed)
{
    *first_failed = run->first_failed;
    return run->status;
}
