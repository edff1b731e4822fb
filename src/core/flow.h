/*
 * Data flow: which tasks must follow which because of the data they use, and where the newest bytes
 * of each part are. What is decided about devices is in flow_stage.h; recorded graphs are in
 * flow_graph.h. Pure: memory of the owner, who locks, copies and frees.
 *
 * A datum is a number of bytes; a part is a range or tile of it (shape.h). Data with no bytes are
 * tokens: order only. Parts that name the same bytes are one part. Each datum has a part for all of
 * it from the start, its `whole`.
 *
 * ORDER. flow_order is called once for each task, in the order of submission, before tasks_release,
 * and adds to the table (tasks.h) an edge from each task that must end before it:
 *   - reads follow the writes before them, writes follow the reads and writes before them, on the
 *     same part and on every part that overlaps it;
 *   - commuting accesses of one part do not follow each other but are one at a time
 *     (flow_commute_take); for everybody else they are read-writes.
 * These edges order and nothing more: failures travel with the data (below), so that a task which
 * overwrites what a failed task read is not cancelled, and nothing depends on who ended first.
 *
 * FAILURE. A task that ends with a status other than MUSTER_OK spoils what it was to write. A task
 * that reads something spoiled is not run: flow_blame names what failed first, and the task ends as
 * cancelled, spoiling what it was to write in turn. Bytes that are overwritten as a whole are good
 * again.
 *
 * PLACES. Place 0 is home: the owner's host memory, where all parts of a datum share their bytes.
 * Other places are memories of devices; there each part has an instance of its own, stored
 * compactly: rows without gaps. An instance is valid, or is being filled, or is new (room for what
 * a task will write). The newest bytes of a part are at home unless it, or a part that overlaps it,
 * is `dirty`: then only valid instances have them. Two rules keep overlaps exact:
 *   1. two parts that are dirty never overlap. Who is to write a part first has the dirty parts
 *      that overlap it brought home, except those that lie in it as a whole;
 *   2. who writes a part makes all instances of all parts that overlap it invalid.
 * So any part can be read from a valid instance of itself, from a dirty part around it, or from
 * home once the dirty parts that overlap it have been brought there.
 *
 * With one place (every device works on host memory) there are no instances, nothing is ever copied,
 * and flow_order, flow_blame and flow_ended are all that is needed.
 */
#ifndef CORE_FLOW_H
#define CORE_FLOW_H

#include "core/shape.h"
#include "core/tasks.h"

#include <stddef.h>

#define FLOW_NONE UINT32_MAX
#define FLOW_HOME 0u
#define FLOW_PLACES_MAX 65u /* home and one for each of 64 devices */
#define FLOW_ACCESSES_MAX 64u

struct flow; /* flow_state.h */

/* What there is room for. Tasks are numbered as in the table of tasks. */
struct flow_sizes {
    uint32_t tasks;  /* the table's capacity: fixed */
    uint32_t places; /* 1 to FLOW_PLACES_MAX, home included: fixed */
    uint32_t uses;   /* accesses of open tasks */
    uint32_t data;
    uint32_t parts; /* the wholes included */
    /* Pairs of parts that overlap, counted twice; pairs with the whole are not counted. */
    uint32_t overlaps;
    uint32_t instances; /* of parts at places other than home */
};

/* 0 if they are out of range. */
size_t flow_bytes(const struct flow_sizes *sizes);
/* `memory` is aligned to 64 bytes and borrowed from then on. `tasks` is borrowed as well. */
struct flow *flow_init(void *memory, const struct flow_sizes *sizes, struct tasks *tasks);
/*
 * The same in larger memory: no size is smaller than before. Ids stay as they are; the old memory is
 * the owner's again.
 */
struct flow *flow_move(void *memory, const struct flow *old, const struct flow_sizes *sizes);
const struct flow_sizes *flow_sizes_of(const struct flow *flow);

/* ---- Data and parts ---- */

/*
 * A new datum; its id is FLOW_NONE if there is no room for it and its whole. With `has_content` the
 * bytes at home are what it begins with; else reading what nobody has written is refused
 * (flow_is_written).
 */
uint32_t flow_data_add(struct flow *flow, uint64_t bytes, bool has_content);
uint32_t flow_data_whole(const struct flow *flow, uint32_t data);
/* No task uses it, and no instance of it is pinned: forgets it, its parts and its instances. */
void flow_data_remove(struct flow *flow, uint32_t data);
/* Whether an open task uses the datum or one of its parts, or a copy of it is under way. */
bool flow_data_is_used(const struct flow *flow, uint32_t data);

enum flow_part_result {
    FLOW_PART_OK,
    FLOW_PART_OUTSIDE,
    FLOW_PART_NO_PARTS,
    FLOW_PART_NO_OVERLAPS
};
/*
 * The part of the datum with this shape, which may be there already: then it counts one user more.
 * Found and compared with those parts that may overlap it, not with all. Parts may be added while
 * tasks use others. Nothing changes unless the result is FLOW_PART_OK.
 */
enum flow_part_result flow_part_add(struct flow *flow, uint32_t data, const struct shape *shape,
                                    uint32_t *out);
/*
 * One user less; the last one's part is forgotten: it is not used (flow_part_is_used). If it is dirty it
 * has been brought home before, or cannot be read: what failed stays known, as of its whole.
 */
void flow_part_remove(struct flow *flow, uint32_t part);
/* Whether an open task uses it, or a copy of it is under way; of a whole: of any part of the datum. */
bool flow_part_is_used(const struct flow *flow, uint32_t part);
uint32_t flow_part_data(const struct flow *flow, uint32_t part);
const struct shape *flow_part_shape(const struct flow *flow, uint32_t part);

/* ---- Order ---- */

enum flow_mode {
    FLOW_READ = 1,
    FLOW_WRITE = 2, /* the whole part: what was there before is not needed */
    FLOW_READ_WRITE = 3,
    FLOW_COMMUTE = 4 /* read-write; in any order with other commuting ones of the same part */
};

struct flow_access {
    uint32_t part;
    uint32_t mode; /* enum flow_mode */
};

enum flow_order_result { FLOW_ORDERED, FLOW_NO_USES, FLOW_NO_EDGES };
/*
 * The new task, not released, uses these parts; each part is named once (flow_merge). `tag` is the
 * owner's name for it, for flow_blame. Nothing has changed unless the result is FLOW_ORDERED: with
 * FLOW_NO_USES the owner makes room by flow_move, with FLOW_NO_EDGES by tasks_move_edges (for
 * flow_edges_most more), and calls again.
 */
enum flow_order_result flow_order(struct flow *flow, uint32_t task, uint64_t tag,
                                  const struct flow_access *accesses, uint32_t count);
/* The most edges that these accesses can need now. */
uint32_t flow_edges_most(const struct flow *flow, const struct flow_access *accesses,
                         uint32_t count);
/* The task was ordered last and is withdrawn: takes its uses back. The owner withdraws its edges. */
void flow_unorder(struct flow *flow, uint32_t task);
/*
 * Accesses that name a part twice are made one that allows both, in place: the number left. Reads
 * and writes together are a read-write; commuting ones with others are read-writes.
 */
uint32_t flow_merge(struct flow_access *accesses, uint32_t count);
/*
 * The first of the accesses, merged, that overlaps an earlier one of them where one of the two writes;
 * `count` if none does. Such a task is to be refused: at a device each part has bytes of its own.
 */
uint32_t flow_clash(const struct flow *flow, const struct flow_access *accesses, uint32_t count);
/*
 * The first of the accesses that reads bytes of a datum without content which nobody submitted so
 * far writes; `count` if none does.
 */
uint32_t flow_unwritten(const struct flow *flow, const struct flow_access *accesses,
                        uint32_t count);
/* What the task uses, in an order of ours; the number of them. */
uint32_t flow_accesses(const struct flow *flow, uint32_t task,
                       struct flow_access out[FLOW_ACCESSES_MAX]);

/* Why something is spoiled. */
struct flow_cause {
    muster_status status; /* of what failed first */
    uint64_t tag;         /* the task that failed first; 0 for a loss */
    uint32_t data;        /* what was spoiled by it */
};
/*
 * Whether the task, which waits for nobody any more, cannot be run because of what it would read.
 * Constant time while nothing is spoiled.
 */
bool flow_blame(const struct flow *flow, uint32_t task, struct flow_cause *cause);
/* The same for a part and somebody who is no task. */
bool flow_part_blame(const struct flow *flow, uint32_t part, struct flow_cause *cause);
/*
 * The task has ended, or ends without being run: forgets what it uses. Call it before tasks_end.
 * With a status other than MUSTER_OK what it was to write is spoiled: by `cause`, or by the task
 * itself if that is NULL. For a task that has run, `place` is where; what it wrote is newest there
 * then. For one that has not: FLOW_NONE.
 */
void flow_ended(struct flow *flow, uint32_t task, uint32_t place, muster_status status,
                const struct flow_cause *cause);

/*
 * Takes the turn of all parts that the task commutes on; false if another task has one of them: then
 * none is taken, and the task is given by flow_commute_next after that one has ended. True at once for
 * tasks that commute on nothing. flow_ended gives the turns back.
 */
bool flow_commute_take(struct flow *flow, uint32_t task);
/* A task whose turn may have come: try flow_commute_take again. FLOW_NONE if there is none. */
uint32_t flow_commute_next(struct flow *flow);

/* ---- Reductions ---- */

/*
 * A task that reduces into a part is submitted as one that updates a contribution: the n-th of them
 * since the part was last used in another way updates contribution n mod FLOW_CONTRIBUTIONS, in the
 * order of submission. Before anybody else uses the part, or one that overlaps it, a task that the
 * owner inserts combines the contributions into the part, in their order. So what is added to what is
 * the same on every schedule.
 */
#define FLOW_CONTRIBUTIONS 8u

/* Keeps these wholes, of the owner's making, as the part's contributions from now on. */
void flow_reduce_prepare(struct flow *flow, uint32_t part,
                         const uint32_t contributions[FLOW_CONTRIBUTIONS]);
bool flow_reduce_is_prepared(const struct flow *flow, uint32_t part);
/*
 * The part that the next reducing task updates in place of this one, which is prepared.
 * `*is_first`: the contribution is new; a task that writes the neutral element to it is to be
 * inserted before. flow_reduce_pending has been asked.
 */
uint32_t flow_reduce_next(struct flow *flow, uint32_t part, uint64_t operation, bool *is_first);
/*
 * A part whose contributions must be combined before a task with this access (`operation` 0), or one
 * that reduces into the part by `operation`, is submitted; FLOW_NONE if there is none (any more).
 */
uint32_t flow_reduce_pending(const struct flow *flow, uint32_t part, uint64_t operation);
/*
 * The accesses of the task that combines them: the part itself is updated, then the contributions in
 * the order in which they are to be added. The part has no contributions pending any more. Gives how
 * many accesses there are; `*operation` is what they are combined by.
 */
uint32_t flow_reduce_combine(struct flow *flow, uint32_t part,
                             struct flow_access out[1 + FLOW_CONTRIBUTIONS], uint64_t *operation);

/* ---- Where the bytes are ---- */

/* The instance at a place; FLOW_NONE if there is none. Ids are below flow_sizes.instances. */
uint32_t flow_instance(const struct flow *flow, uint32_t part, uint32_t place);
/* Whether the newest bytes are there; of home: whether no dirty part overlaps it. */
bool flow_is_valid(const struct flow *flow, uint32_t part, uint32_t place);
bool flow_is_dirty(const struct flow *flow, uint32_t part);

/* For tests and for INVARIANT: NULL, or what is wrong with all of it. Slow. */
const char *flow_check(const struct flow *flow);

#endif
