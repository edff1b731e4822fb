/*
 * Tasks: which may run, which wait for which, how each ended. Pure: a fixed table over memory of its
 * owner, who locks, runs them and wakes the waiting threads.
 *
 * A task's place is free, waiting (for others), ready, taken (somebody runs it) or ended. Ended
 * places keep their status and are used again oldest first. Tasks set aside are ready on a list of
 * their own: others run them.
 */
#ifndef CORE_TASKS_H
#define CORE_TASKS_H

#include <muster/status.h>
#include <stdbool.h>

#define TASKS_NONE UINT32_MAX
/* Priorities, 0 the lowest, and that of tasks of which nothing is said. */
#define TASKS_PRIORITIES 32u
#define TASKS_PRIORITY_USUAL 16u

enum tasks_state { TASKS_FREE, TASKS_WAITING, TASKS_READY, TASKS_TAKEN, TASKS_ENDED };

struct tasks_entry {
    void *payload[3]; /* the owner's */
    uint32_t generation;
    uint32_t next, previous; /* on the list that the state says */
    uint32_t after_count;    /* tasks it still waits for */
    uint32_t first_follower; /* edges to tasks that wait for it */
    muster_status status;
    uint8_t state;
    bool is_released; /* it may be ready, and others may follow it */
    bool is_doomed;   /* one it waited for, and needs, did not end well */
    bool is_aside;
    bool is_dispatched; /* when it is ready, a device is chosen for it first: dispatch.h */
    uint8_t priority;   /* of those that are ready and not aside the highest are taken first */
    uint16_t tag;       /* the owner's */
    uint32_t cause;     /* the one that doomed it: a task's index, TASKS_NONE if nobody did */
};

/* One "this before that". */
struct tasks_edge {
    uint32_t follower : 31;
    uint32_t is_loose : 1; /* the follower runs however the other ends */
    uint32_t next;
};

struct tasks_list {
    uint32_t head, tail, count;
};

struct tasks {
    struct tasks_entry *entries;
    struct tasks_edge *edges;
    uint32_t capacity, edge_capacity;
    uint32_t free_edges, free_edge_count;
    struct tasks_list spare;                   /* free and ended places, longest first */
    struct tasks_list ready[TASKS_PRIORITIES]; /* of each priority, oldest first */
    uint32_t ready_priorities;                 /* a bit for each list that has some */
    uint32_t ready_count;                      /* on all of them */
    struct tasks_list aside;                   /* oldest first, those set aside */
    struct tasks_list dispatched;              /* likewise */
    uint32_t open_count;                       /* neither free nor ended */
};

size_t tasks_bytes(uint32_t capacity, uint32_t edge_capacity);
void tasks_init(struct tasks *tasks, void *memory, uint32_t capacity, uint32_t edge_capacity);
/*
 * Room for more edges: `edges`, where there is room for `edge_capacity`, more than before, is used
 * from here on, and what was used before is not.
 */
void tasks_move_edges(struct tasks *tasks, struct tasks_edge *edges, uint32_t edge_capacity);

/* A new task, waiting until tasks_release; TASKS_NONE if all places are in use. */
uint32_t tasks_add(struct tasks *tasks);
/* The new task will be ready on the list `aside`; before tasks_release. */
void tasks_set_aside(struct tasks *tasks, uint32_t task);
/* The same for the list `dispatched`. */
void tasks_set_dispatched(struct tasks *tasks, uint32_t task);
/* A task that was taken from `dispatched` is ready for everybody. */
void tasks_bring_back(struct tasks *tasks, uint32_t task);
/*
 * A task that is not released follows another that is; false if there is no room for the edge. One
 * that has ended counts. Others may be taken and end between two of these calls: the task is not
 * ready before it is released.
 */
bool tasks_follow(struct tasks *tasks, uint32_t task, uint32_t before);
/* The same, but the task runs however the other ends: order only. */
bool tasks_come_after(struct tasks *tasks, uint32_t task, uint32_t before);
/*
 * Takes back one tasks_follow of these two, whatever happened since; quickest in reverse order.
 * Nothing happens if `before` has ended. A released task is then withdrawn.
 */
void tasks_unfollow(struct tasks *tasks, uint32_t task, uint32_t before);
/* Takes back all that the task follows; a released task is then withdrawn. Slow. */
void tasks_unfollow_all(struct tasks *tasks, uint32_t task);
/* The task gets no more predecessors; it is ready if all it has have ended. */
void tasks_release(struct tasks *tasks, uint32_t task);
/* A new task that follows nobody: released, and taken in the same step by who set it aside. */
void tasks_release_taken(struct tasks *tasks, uint32_t task);
/*
 * A task that follows nobody, and that nobody follows or has taken, is not submitted after all. The
 * last first: then the places are in the order they were in.
 */
void tasks_withdraw(struct tasks *tasks, uint32_t task);

/* Takes up to `most` ready tasks, those of the highest priority first, and of these the oldest. */
uint32_t tasks_take(struct tasks *tasks, uint32_t most, uint32_t *out);
/* The same of those set aside. */
uint32_t tasks_take_aside(struct tasks *tasks, uint32_t most, uint32_t *out);
uint32_t tasks_take_dispatched(struct tasks *tasks, uint32_t most, uint32_t *out);
/* The newest of the ready tasks with the highest priority; TASKS_NONE if none is ready. */
uint32_t tasks_newest_ready(const struct tasks *tasks);
/* Takes this one, if it is ready. */
bool tasks_take_this(struct tasks *tasks, uint32_t task);
/* A taken task was not begun: it is ready again, as the oldest. */
void tasks_put_back(struct tasks *tasks, uint32_t task);

/* One that waits is to end without being run, when it is its turn. */
void tasks_doom(struct tasks *tasks, uint32_t task);

/*
 * A taken task has ended. Those that follow it may become ready; if it did not end well they are
 * doomed: taken as others are, but ended without being run.
 */
void tasks_end(struct tasks *tasks, uint32_t task, muster_status status);

/*
 * Whether the task is `before`, or cannot be ready before that has ended: it follows it, or one that
 * does. False for one that has ended.
 */
bool tasks_must_follow(struct tasks *tasks, uint32_t task, uint32_t before);

/* The handle's place: MUSTER_OK, MUSTER_E_STALE if it was used again, MUSTER_E_UNKNOWN. */
muster_status tasks_find(const struct tasks *tasks, uint32_t index, uint32_t generation);

/* For tests: NULL, or what is wrong. */
const char *tasks_check(struct tasks *tasks);

#endif
