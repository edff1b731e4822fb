#include "simulate/graph_make.h"

#include "core/flow.h"

void graph_maker_init(struct graph_maker *maker, const struct graph_scenario *graph, uint64_t seed)
{
    *maker = (struct graph_maker){ .graph = graph };
    random_init(&maker->random, seed);
}

uint32_t graph_tiles(const struct graph_scenario *graph)
{
    uint32_t n = graph->tiles;
    switch (graph->kind) {
    case GRAPH_CHOLESKY:
    case GRAPH_LU:
        return n * n;
    case GRAPH_STENCIL:
        return 2 * n; /* what a step reads, and what it writes */
    case GRAPH_FORK_JOIN:
        return n + 1; /* what is forked and joined, and one for each task between */
    case GRAPH_RANDOM:
        break;
    }
    return n;
}

static void begin(struct graph_maker *maker, struct graph_task *task, enum graph_kernel kernel)
{
    *task = (struct graph_task){ .kernel = kernel, .cost = maker->graph->costs[kernel] };
    maker->made++;
}

static void use(struct graph_task *task, uint32_t tile, uint32_t mode)
{
    task->uses[task->count++] = (struct graph_use){ tile, mode };
}

static uint32_t tile_at(const struct graph_maker *maker, uint32_t row, uint32_t column)
{
    return row * maker->graph->tiles + column;
}

/* The column below the diagonal, then row by row what is right of it: `i` and `k` walk there. */
static bool next_cholesky(struct graph_maker *maker, struct graph_task *task)
{
    uint32_t n = maker->graph->tiles, j = maker->step;
    switch (maker->phase) {
    case 0:
        if (j == n)
            return false;
        begin(maker, task, GRAPH_POTRF);
        use(task, tile_at(maker, j, j), FLOW_READ_WRITE);
        maker->i = j + 1;
        maker->phase = maker->i < n ? 1 : 0;
        maker->step += maker->phase == 0;
        return true;
    case 1:
        begin(maker, task, GRAPH_TRSM);
        use(task, tile_at(maker, j, j), FLOW_READ);
        use(task, tile_at(maker, maker->i, j), FLOW_READ_WRITE);
        if (++maker->i < n)
            return true;
        maker->i = maker->k = j + 1;
        maker->phase = 2;
        return true;
    default:
        begin(maker, task, maker->i == maker->k ? GRAPH_SYRK : GRAPH_GEMM);
        use(task, tile_at(maker, maker->i, j), FLOW_READ);
        if (maker->i != maker->k)
            use(task, tile_at(maker, maker->k, j), FLOW_READ);
        use(task, tile_at(maker, maker->i, maker->k), FLOW_READ_WRITE);
        if (++maker->i < n)
            return true;
        maker->i = ++maker->k;
        if (maker->k < n)
            return true;
        maker->phase = 0;
        maker->step++;
        return true;
    }
}

static bool next_lu(struct graph_maker *maker, struct graph_task *task)
{
    uint32_t n = maker->graph->tiles, j = maker->step;
    switch (maker->phase) {
    case 0:
        if (j == n)
            return false;
        begin(maker, task, GRAPH_GETRF);
        use(task, tile_at(maker, j, j), FLOW_READ_WRITE);
        maker->i = j + 1;
        maker->phase = maker->i < n ? 1 : 0;
        maker->step += maker->phase == 0;
        return true;
    case 1: /* the row, then the column: `i` goes through both */
        begin(maker, task, GRAPH_TRSM);
        use(task, tile_at(maker, j, j), FLOW_READ);
        if (maker->i < n)
            use(task, tile_at(maker, j, maker->i), FLOW_READ_WRITE);
        else
            use(task, tile_at(maker, maker->i - n + j + 1, j), FLOW_READ_WRITE);
        if (++maker->i < n + n - j - 1)
            return true;
        maker->i = maker->k = j + 1;
        maker->phase = 2;
        return true;
    default:
        begin(maker, task, GRAPH_GEMM);
        use(task, tile_at(maker, maker->i, j), FLOW_READ);
        use(task, tile_at(maker, j, maker->k), FLOW_READ);
        use(task, tile_at(maker, maker->i, maker->k), FLOW_READ_WRITE);
        if (++maker->i < n)
            return true;
        maker->i = j + 1;
        if (++maker->k < n)
            return true;
        maker->phase = 0;
        maker->step++;
        return true;
    }
}

static bool next_stencil(struct graph_maker *maker, struct graph_task *task)
{
    uint32_t n = maker->graph->tiles;
    if (maker->step == maker->graph->steps)
        return false;
    uint32_t from = maker->step % 2 * n, to = n - from, i = maker->i;
    begin(maker, task, GRAPH_STEP);
    if (i > 0)
        use(task, from + i - 1, FLOW_READ);
    use(task, from + i, FLOW_READ);
    if (i + 1 < n)
        use(task, from + i + 1, FLOW_READ);
    use(task, to + i, FLOW_WRITE);
    if (++maker->i == n) {
        maker->i = 0;
        maker->step++;
    }
    return true;
}

static bool next_fork_join(struct graph_maker *maker, struct graph_task *task)
{
    uint32_t n = maker->graph->tiles, i = maker->i++;
    if (maker->step == maker->graph->steps)
        return false;
    begin(maker, task, i == 0 ? GRAPH_FORK : i <= n ? GRAPH_WORK : GRAPH_JOIN);
    if (i == 0) {
        use(task, 0, FLOW_READ_WRITE);
    } else if (i <= n) {
        use(task, 0, FLOW_READ);
        use(task, i, FLOW_WRITE);
    } else {
        for (uint32_t tile = 1; tile <= n; tile++)
            use(task, tile, FLOW_READ);
        use(task, 0, FLOW_WRITE);
        maker->i = 0;
        maker->step++;
    }
    return true;
}

static bool next_random(struct graph_maker *maker, struct graph_task *task)
{
    static const uint32_t modes[] = { FLOW_READ, FLOW_READ, FLOW_WRITE, FLOW_READ_WRITE };
    if (maker->made == maker->graph->tasks)
        return false;
    begin(maker, task, GRAPH_WORK);
    task->cost *= 0.25 + 1.5 * random_unit(&maker->random);
    uint64_t count = 1 + random_below(&maker->random, 3);
    for (uint64_t k = 0; k < count; k++) {
        uint32_t tile = (uint32_t)random_below(&maker->random, maker->graph->tiles);
        uint32_t mode = modes[random_below(&maker->random, 4)], at = 0;
        while (at < task->count && task->uses[at].tile != tile)
            at++;
        if (at == task->count)
            use(task, tile, mode);
    }
    return true;
}

bool graph_next(struct graph_maker *maker, struct graph_task *out)
{
    switch (maker->graph->kind) {
    case GRAPH_CHOLESKY:
        return next_cholesky(maker, out);
    case GRAPH_LU:
        return next_lu(maker, out);
    case GRAPH_STENCIL:
        return next_stencil(maker, out);
    case GRAPH_FORK_JOIN:
        return next_fork_join(maker, out);
    case GRAPH_RANDOM:
        break;
    }
    return next_random(maker, out);
}
