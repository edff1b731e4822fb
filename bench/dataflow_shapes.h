/*
 * Graphs of empty tasks that all parties submit in the same order: what each task reads, and the one
 * thing that it writes.
 */
#ifndef BENCH_DATAFLOW_SHAPES_H
#define BENCH_DATAFLOW_SHAPES_H

#include <string.h>

#define SHAPE_TILES 32 /* of a Cholesky's side: 5,984 tasks */
#define SHAPE_MANY 100000
#define SHAPE_WIDTH 64
#define SHAPE_STEPS 1000
#define SHAPE_DATA_MAX (SHAPE_TILES * SHAPE_TILES)

/* A task: `reads` data are read, and `target` is updated. */
typedef void shape_emit(void *user, const int *read, int reads, int target);

static inline int shape_cholesky(shape_emit *emit, void *user)
{
    int count = 0;
    for (int k = 0; k < SHAPE_TILES; k++) {
        int kk = k * SHAPE_TILES + k;
        emit(user, NULL, 0, kk);
        count++;
        for (int i = k + 1; i < SHAPE_TILES; i++, count++)
            emit(user, &kk, 1, i * SHAPE_TILES + k);
        for (int i = k + 1; i < SHAPE_TILES; i++)
            for (int j = k + 1; j <= i; j++, count++) {
                const int read[2] = { i * SHAPE_TILES + k, j * SHAPE_TILES + k };
                emit(user, read, i == j ? 1 : 2, i * SHAPE_TILES + j);
            }
    }
    return count;
}

static inline int shape_chain(shape_emit *emit, void *user)
{
    for (int i = 0; i < SHAPE_MANY; i++)
        emit(user, NULL, 0, 0);
    return SHAPE_MANY;
}

static inline int shape_independent(shape_emit *emit, void *user)
{
    for (int i = 0; i < SHAPE_MANY; i++)
        emit(user, NULL, 0, i % SHAPE_DATA_MAX);
    return SHAPE_MANY;
}

static inline int shape_stencil(shape_emit *emit, void *user)
{
    for (int step = 0; step < SHAPE_STEPS; step++)
        for (int i = 0; i < SHAPE_WIDTH; i++) {
            int from = step % 2 * SHAPE_WIDTH, to = SHAPE_WIDTH - from;
            const int read[3] = { from + i, from + (i > 0 ? i - 1 : SHAPE_WIDTH - 1),
                                  from + (i < SHAPE_WIDTH - 1 ? i + 1 : 0) };
            emit(user, read, 3, to + i);
        }
    return SHAPE_WIDTH * SHAPE_STEPS;
}

static const struct shape_of {
    const char *name;
    int (*submit)(shape_emit *emit, void *user);
} shapes[] = {
    { "cholesky", shape_cholesky },
    { "chain", shape_chain },
    { "independent", shape_independent },
    { "stencil", shape_stencil },
};

static inline const struct shape_of *shape_find(const char *name)
{
    for (unsigned i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (strcmp(shapes[i].name, name) == 0)
            return &shapes[i];
    return NULL;
}

#endif
