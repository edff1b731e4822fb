/*
 * For tests of data flow: a table and a flow in memory of their own, random parts, and a model that
 * knows each part as a set of bytes.
 */
#ifndef UNIT_FLOW_MODEL_H
#define UNIT_FLOW_MODEL_H

#include "base/random.h"
#include "core/flow.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#define MODEL_BYTES 60u /* of a datum: a set of bytes is one word */

struct bench_flow {
    struct tasks tasks;
    struct flow *flow;
    void *table_memory, *flow_memory;
};

static inline struct flow_sizes model_sizes(uint32_t tasks, uint32_t places)
{
    return (struct flow_sizes){ .tasks = tasks,
                                .places = places,
                                .uses = tasks * 4,
                                .data = 64,
                                .parts = 256,
                                .overlaps = 8192,
                                .instances = 512 };
}

static inline void bench_open(struct bench_flow *bench, const struct flow_sizes *sizes,
                              uint32_t edges)
{
    bench->table_memory = malloc(tasks_bytes(sizes->tasks, edges));
    tasks_init(&bench->tasks, bench->table_memory, sizes->tasks, edges);
    bench->flow_memory = aligned_alloc(64, flow_bytes(sizes));
    bench->flow = flow_init(bench->flow_memory, sizes, &bench->tasks);
}

static inline void bench_close(struct bench_flow *bench)
{
    free(bench->table_memory);
    free(bench->flow_memory);
}

/* The bytes of a shape, one bit each. */
static inline uint64_t model_set(const struct shape *shape)
{
    uint64_t set = 0;
    for (uint64_t row = 0; row < shape->rows; row++)
        for (uint64_t i = 0; i < shape->row_bytes; i++)
            set |= UINT64_C(1) << (shape->offset + row * shape->pitch + i);
    return set;
}

static inline struct shape random_shape(struct random *random)
{
    struct shape shape = { .rows = 1 };
    do {
        shape.offset = random_below(random, MODEL_BYTES);
        shape.rows = random_below(random, 2) ? 1 : 1 + random_below(random, 6);
        shape.row_bytes = 1 + random_below(random, 10);
        shape.pitch = random_below(random, 3) ? 10 : 1 + random_below(random, 20);
    } while (!shape_is_within(&shape, MODEL_BYTES));
    return shape;
}

/* A new task in the table, with these accesses, released; its edges and uses have room. */
static inline uint32_t bench_submit(struct bench_flow *bench, uint64_t tag,
                                    struct flow_access *accesses, uint32_t count)
{
    uint32_t task = tasks_add(&bench->tasks);
    CHECK(task != TASKS_NONE);
    count = flow_merge(accesses, count);
    CHECK_EQUAL(FLOW_ORDERED, flow_order(bench->flow, task, tag, accesses, count));
    tasks_release(&bench->tasks, task);
    return task;
}

#endif
