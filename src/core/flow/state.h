/*
 * What data flow keeps: tables of data, parts, uses and instances, linked by index. For the files of
 * flow/ and dispatch/ only.
 */
#ifndef CORE_FLOW_STATE_H
#define CORE_FLOW_STATE_H

#include "core/flow.h"

/* Places of a table that are free: those given back first, then those never used. */
struct flow_pool {
    uint32_t free; /* the first given back; FLOW_NONE */
    uint32_t used; /* places that were ever in use: those from here on are free as well */
    uint32_t count, capacity;
};

struct flow_data {
    uint64_t bytes;
    uint32_t whole;      /* also the next free place of the table */
    uint32_t first_part; /* all parts but the whole, newest first */
    uint32_t root;       /* of the tree of the same parts, by where they begin */
    uint32_t spoiled;    /* parts that are */
    uint32_t reducing;   /* parts with contributions to be combined */
    uint32_t open_uses;
    uint32_t copies; /* under way */
    bool is_there, has_content;
    bool is_written; /* somebody was submitted who writes some of it */
};

/* Open uses of a part that came one after another and need no order among each other. */
struct flow_group {
    uint32_t first, count;
};

struct flow_part {
    struct shape shape;
    uint64_t bytes;
    uint32_t data;
    uint32_t users; /* 0: free, and next_of_data is the next free place */
    /* Order. All of `now` wait for all of `before`. */
    struct flow_group now, before;
    uint8_t now_mode; /* FLOW_READ and FLOW_COMMUTE: others of the kind may join; FLOW_WRITE */
    bool is_whole, is_written;
    bool is_dirty;
    uint32_t first_overlap; /* parts that overlap it, the whole left out; of the whole: none */
    uint32_t dirty_near;    /* parts that overlap it and are dirty */
    uint32_t first_instance;
    uint32_t copies; /* under way, from or to it */
    uint32_t next_of_data, previous_of_data;
    /* The tree. */
    uint32_t left, right, parent;
    uint64_t end, end_most; /* of its own bytes; the largest below it */
    /* Failures: 0 is never. It is spoiled where `spoilt_at` of it or a neighbour is above good_at. */
    uint64_t spoilt_at, good_at;
    struct flow_cause cause;
    /* Commuting. */
    uint32_t turn;         /* the task that has it */
    uint32_t first_waiter; /* tasks that wait for it, oldest first */
    uint32_t last_waiter;
    /* Reductions. */
    uint32_t first_contribution; /* of the part; FLOW_NONE: not prepared */
    uint32_t next_contribution;  /* of the contribution */
    uint32_t reduced;            /* tasks since they were combined */
    uint64_t operation;
};

/* In both directions: two of them for two parts. */
struct flow_overlap {
    uint32_t other, next;
};

enum flow_use_group { FLOW_USE_NOW, FLOW_USE_BEFORE, FLOW_USE_PAST };
struct flow_use {
    uint32_t task, part;
    uint32_t next, previous; /* in its group; free: `next` */
    uint32_t next_of_task;   /* in the order in which they were given */
    uint8_t mode;
    uint8_t group;
};

struct flow_task {
    uint64_t tag;
    uint32_t first_use;
    uint32_t mark; /* the order in which an edge from it was added last */
    uint32_t next_waiter;
    bool is_ordered;
    bool commutes;
    bool has_turns;
};

struct flow_instance {
    uint32_t part, place;
    uint32_t next;         /* of the part; free or freed: the next of those */
    uint32_t newer, older; /* at the place, by use */
    uint32_t pins;
    bool is_valid, is_filling, is_leaving;
};

struct flow_place {
    uint64_t bytes; /* of all instances */
    uint32_t newest, oldest;
};

struct flow {
    struct flow_sizes sizes;
    struct tasks *tasks;
    struct flow_data *data;
    struct flow_part *parts;
    struct flow_overlap *overlaps;
    struct flow_use *uses;
    struct flow_task *task; /* by index in the table of tasks */
    struct flow_instance *instances;
    struct flow_place places[FLOW_PLACES_MAX];
    struct flow_pool data_pool, part_pool, overlap_pool, use_pool, instance_pool;
    uint32_t mark;
    uint64_t clock;                   /* counts ends, for spoilt_at and good_at */
    uint32_t first_freed;             /* instances whose memory is to be given back */
    uint32_t first_retry, last_retry; /* tasks whose turn may have come */
};

/* A free place; FLOW_NONE. */
uint32_t flow_pool_next(const struct flow_pool *pool);

/* Takes the place that flow_pool_next gave; `next` is what it says comes after it on the list. */
static inline void flow_pool_take(struct flow_pool *pool, uint32_t next)
{
    if (pool->free == FLOW_NONE)
        pool->used++;
    else
        pool->free = next;
    pool->count++;
}

/* Gives a place back: the one that now comes after it. */
static inline uint32_t flow_pool_give(struct flow_pool *pool, uint32_t place)
{
    uint32_t next = pool->free;
    pool->free = place;
    pool->count--;
    return next;
}

/*
 * The parts that overlap one, in turn:
 *     for (struct flow_walk walk = flow_walk(flow, part); flow_walk_on(flow, &walk);)
 *         ... walk.part
 */
struct flow_walk {
    uint32_t part;        /* the one it is at */
    uint32_t next, whole; /* the next of the list, and the whole if it is still to come */
    bool is_list_of_data;
};
struct flow_walk flow_walk(const struct flow *flow, uint32_t part);
bool flow_walk_on(const struct flow *flow, struct flow_walk *walk);

/* parts.c. The place is taken: a new part on no list. */
void flow_part_init(struct flow *flow, uint32_t part, uint32_t data, const struct shape *shape);
void flow_parts_forget(struct flow *flow, uint32_t data);
/* spoil.c */
void flow_spoil(struct flow *flow, uint32_t part, const struct flow_cause *cause);
/* Its bytes are good again, those of parts within it as well. */
void flow_mend(struct flow *flow, uint32_t part);
/* commute.c */
void flow_commute_give(struct flow *flow, uint32_t task);

/* replicas.c. A new instance at a place other than home, neither valid nor pinned; FLOW_NONE. */
uint32_t flow_instance_add(struct flow *flow, uint32_t part, uint32_t place);
/* It is not pinned: its memory is to be given back. */
void flow_instance_drop(struct flow *flow, uint32_t instance);
/* It is the newest of its place. */
void flow_instance_touch(struct flow *flow, uint32_t instance);
uint32_t flow_next_freed(struct flow *flow);
/* All the newest bytes of the part are at home now; or they are not. */
void flow_set_dirty(struct flow *flow, uint32_t part, bool is_dirty);
/* The part was written at a place, where it has an instance unless that is home. */
void flow_wrote(struct flow *flow, uint32_t part, uint32_t place);
/* A dirty part that overlaps this one, and of `but_inside` is not within it; FLOW_NONE. */
uint32_t flow_dirty_near(const struct flow *flow, uint32_t part, bool but_inside);

#endif
