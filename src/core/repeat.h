/*
 * A recorded graph: tasks whose order among each other was found once, and which are run again and
 * again without looking at data. Pure.
 *
 * The owner records into a table of tasks and a flow of their own (tasks_add, flow_order, tasks_follow,
 * tasks_release, none taken): data are the slots which a run fills. repeat_init reads the order and the
 * priorities out of that table, which is then the owner's again. For the outside a run is one task that uses what all of
 * them use (flow_merge).
 */
#ifndef CORE_REPEAT_H
#define CORE_REPEAT_H

#include "core/tasks.h"

#include <stddef.h>

struct repeat;
/* All tasks in the table from the first on, numbered from 0 in the order of submission. */
size_t repeat_bytes(const struct tasks *recorded);
struct repeat *repeat_init(void *memory, const struct tasks *recorded);
uint32_t repeat_count(const struct repeat *repeat);

/* One run of it at a time uses the memory. */
struct repeat_run;
size_t repeat_run_bytes(const struct repeat *repeat);
/* Everything waits for its turn again; costs one copy of 4 bytes a task. */
struct repeat_run *repeat_run_begin(void *memory, const struct repeat *repeat);
/*
 * Up to `most` tasks that may run: the highest priority first, then the oldest. Those that are doomed are
 * told by repeat_is_doomed.
 */
uint32_t repeat_take(struct repeat_run *run, uint32_t most, uint32_t *out);
/* A task that was taken has not begun: it is ready again, before the others of its priority. */
void repeat_put_back(struct repeat_run *run, uint32_t task);
uint32_t repeat_ready_count(const struct repeat_run *run);
/* A task that follows one that did not end well: it is ended without being run. */
bool repeat_is_doomed(const struct repeat_run *run, uint32_t task);
/* True if that was the last one. */
bool repeat_end(struct repeat_run *run, uint32_t task, muster_status status);
/* How the run ended, and the first task, by number, that failed (UINT32_MAX: none). */
muster_status repeat_status(const struct repeat_run *run, uint32_t *first_failed);

#endif
