/*
 * Who used a block last: its last writer and its open readers, as (stream, event) marks. Decides
 * what a use must wait for, so that a read follows the last write, and a write or a free follows
 * everything, whatever streams they are on. Pure; the owner records events, queues waits and keeps
 * events alive while a mark holds them.
 */
#ifndef CORE_TRACKER_H
#define CORE_TRACKER_H

#include <muster/memory.h>

/*
 * Open readers kept apart. One more makes the newcomer wait for the oldest and take its place: a
 * little less concurrency, never less order, and memory stays bounded.
 */
#define TRACKER_READERS_MAX 8

struct tracker_mark {
    uint64_t stream; /* names an in-order queue; 0: no mark */
    void *event;     /* recorded after the use; owned by the tracker's owner */
};

struct tracker {
    struct tracker_mark writer;
    struct tracker_mark readers[TRACKER_READERS_MAX]; /* oldest first */
    uint32_t reader_count;
};

/* Marks to wait for, or marks that were dropped. */
struct tracker_marks {
    struct tracker_mark marks[TRACKER_READERS_MAX + 1];
    uint32_t count;
};

/*
 * What `stream` must wait for before this use. Uses on the same stream are in order already and
 * never listed.
 */
void tracker_plan(const struct tracker *tracker, uint64_t stream, enum muster_access access,
                  struct tracker_marks *waits);

/*
 * The use was queued after the planned waits and `mark` recorded after it. `dropped` are marks no
 * longer held.
 */
void tracker_commit(struct tracker *tracker, struct tracker_mark mark, enum muster_access access,
                    struct tracker_marks *dropped);

/* Empties the tracker. */
void tracker_clear(struct tracker *tracker, struct tracker_marks *dropped);

#endif
