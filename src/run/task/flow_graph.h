/*
 * A recorded graph, and a run of it: flow_graph.c records and finds the order, flow_run_submit.c makes a run
 * and its gates, flow_run.c runs its tasks.
 */
#ifndef RUN_TASK_FLOW_GRAPH_H
#define RUN_TASK_FLOW_GRAPH_H

#include "run/task/flow.h"

#include "core/repeat.h"

#define TAKEN_OF_RUN 32u
/* To have another thread join costs about as much. */
#define JOIN_NS 10000u

struct graph_task {
    task_function fn;
    muster_status (*enqueue)(void *user, const struct muster_native *native);
    void *user;
    uint32_t first, count; /* accesses */
    uint8_t priority;      /* as in core/tasks.h */
    char name[32];
};

struct graph_access {
    uint32_t data; /* by number in the graph */
    uint32_t mode;
};

struct graph_data {
    muster_data data;
    uint32_t mode; /* all that is done with it: FLOW_READ, or more */
};

struct muster_graph {
    struct muster *m;
    struct graph_task *tasks;      /* owns */
    struct graph_access *accesses; /* owns */
    struct graph_data *data;       /* owns */
    uint32_t task_count, access_count, data_count;
    uint32_t task_room, access_room, data_room;
    uint32_t *found; /* owns: numbers of data by hash; 0: none, else one more */
    uint32_t found_room;
    struct repeat *repeat; /* owns */
    size_t repeat_bytes;
    uint32_t runs_open; /* with the pool's lock */
    bool has_bodies;    /* some for `cpu` */
    bool has_names;
    muster_status failed;
};

/* Where a datum is in this run. */
struct run_place {
    char *home;
    uint64_t bytes, pitch, rows;
};

/* What a thread has taken of a run. With the run's lock, but for what its thread does to the tasks. */
struct run_batch {
    struct run_batch *next; /* of the run */
    uint64_t begin_ns;      /* 0: it was not looked at */
    uint32_t count, ended;  /* tasks; those that core knows to have ended */
    /*
     * Tasks that were begun. Release by its thread and acquire by who takes back: those before the last
     * have their status.
     */
    _Atomic uint32_t begun;
    uint32_t taken[TAKEN_OF_RUN];
    muster_status statuses[TAKEN_OF_RUN]; /* when it is taken: MUSTER_OK, or not to be run */
};

struct flow_run {
    struct flow_run *next; /* on the pool's list */
    struct muster_graph *graph;
    struct task_pool *pool;
    struct platform_mutex lock;        /* of what follows */
    struct platform_condition changed; /* for the thread whose task it is */
    struct repeat_run *repeat;         /* owns */
    struct run_place *places;          /* owns */
    struct flow_gate **gates;          /* owns the list */
    struct flow_access *accesses;      /* owns: of the gates, wholes, each once */
    uint32_t access_count;
    muster_data *data; /* owns: what this run accesses */
    muster_device cpu; /* where bodies run */
    bool is_over, is_waiting;
    struct run_batch *batches; /* on the stacks of their threads */
    uint32_t most;             /* in a batch */
    uint64_t task_ns;          /* what one took lately, JOIN_NS at most, which it is at first */
    /*
     * Tasks for others; written with the lock. Sequentially consistent, with pool->idle: a thread that parks
     * sees it, or it is seen to park.
     */
    _Atomic uint32_t ready;
    _Atomic uint32_t steps; /* batches that have ended; written with the lock, relaxed */

    /* With the pool's lock. */
    uint32_t gate_count, closed, spare_gates;
    uint32_t start;  /* ends when all gates are open */
    uint32_t inside; /* threads that help */
    uint32_t index;  /* of its task */
    muster_status status;
};

/* flow_run.c: the body of a run's task; frees the run, as does a submission that failed. */
muster_status flow_run_execute(void *run);
void flow_run_free(struct flow_run *run);

#endif
