/*
 * Graphs: tasks that were recorded once and are submitted again as one, at a fraction of the cost.
 */
#ifndef MUSTER_GRAPH_H
#define MUSTER_GRAPH_H

#include <muster/task.h>

#ifdef __cplusplus
extern "C" {
#endif

struct muster_graph;

/* Most tasks of a graph. */
#define MUSTER_GRAPH_TASKS_MAX 4194304u

/*
 * From here to muster_graph_end what the calling thread submits is kept, not run. A recorded task has
 * accesses, and a body for the host: `fn`, or a native one for `cpu`. It has no kernel, no `done` and no `after`: the
 * order is that of the accesses. The handles that muster_submit gives name nothing. What a task borrows
 * is borrowed until the graph is destroyed. Tasks that commute keep the order of recording, and
 * tasks that reduce add to the data itself, one after the other. MUSTER_E_ORDER: the thread records already.
 */
MUSTER_API muster_status muster_graph_begin(struct muster *m, struct muster_error *err);

/* Ends the recording, also if it fails. The graph is the caller's. */
MUSTER_API muster_status muster_graph_end(struct muster *m, struct muster_graph **out,
                                          struct muster_error *err);

/* In a run `to`, of the same shape and of the same kind, takes the place of `from`. */
struct muster_graph_change {
    size_t size;
    muster_data from, to;
};

/*
 * Submits all tasks of the graph; `out`, which may be NULL, names the whole: it ends when all have
 * ended, with the status of the first that failed in the order of recording. What follows one
 * that failed is not run, and all that the graph writes then counts as not written. Runs of a graph, and other
 * tasks, are ordered by what they access: a run is one task that accesses what all of its tasks do. Any thread.
 * It cannot be cancelled (MUSTER_E_BUSY).
 */
MUSTER_API muster_status muster_graph_run(struct muster *m, struct muster_graph *graph,
                                          const struct muster_graph_change *changes, size_t count,
                                          muster_task *out, struct muster_error *err);

/* Waits for runs of the graph that have not ended. NULL is allowed. */
MUSTER_API void muster_graph_destroy(struct muster_graph *graph);

#ifdef __cplusplus
}
#endif

#endif
