/*
 * What the core of data flow costs a task, with nothing around it: the order inferred from what tasks
 * use, their becoming ready, and their end, in a window as large as the runtime's; and the same of a
 * recorded graph. Below them, virtual Cholesky on 1 to 64 unequal devices: makespan over the bound,
 * beside two policies that know less.
 *
 *     flow [--repetitions N] [--json FILE]
 */
#include "core/flow.h"
#include "core/repeat.h"
#include "report.h"

#include <muster/simulate.h>

#define WINDOW 4096u
#define INFERENCE_NS 150.0 /* of the 350 that a task may cost in all */
#define RECORDED_NS 40.0   /* of the 80 */
#define TILES 32u
#define USES_MAX 4u

struct shape_of_graph {
    const char *name;
    uint32_t tasks, data;
    uint32_t (*uses)(uint32_t task, struct flow_access *out); /* in data; how many */
};

static struct {
    uint32_t count;
    struct flow_access uses[USES_MAX];
} cholesky[6000];
static uint32_t cholesky_count;

static void add(uint32_t count, const struct flow_access *uses)
{
    cholesky[cholesky_count].count = count;
    memcpy(cholesky[cholesky_count++].uses, uses, count * sizeof *uses);
}

static void make_cholesky(void)
{
    for (uint32_t k = 0; k < TILES; k++) {
        add(1, (struct flow_access[]){ { k * TILES + k, FLOW_READ_WRITE } });
        for (uint32_t i = k + 1; i < TILES; i++)
            add(2, (struct flow_access[]){ { k * TILES + k, FLOW_READ },
                                           { i * TILES + k, FLOW_READ_WRITE } });
        for (uint32_t i = k + 1; i < TILES; i++) {
            add(2, (struct flow_access[]){ { i * TILES + k, FLOW_READ },
                                           { i * TILES + i, FLOW_READ_WRITE } });
            for (uint32_t j = k + 1; j < i; j++)
                add(3, (struct flow_access[]){ { i * TILES + k, FLOW_READ },
                                               { j * TILES + k, FLOW_READ },
                                               { i * TILES + j, FLOW_READ_WRITE } });
        }
    }
}

static uint32_t cholesky_uses(uint32_t task, struct flow_access *out)
{
    memcpy(out, cholesky[task].uses, cholesky[task].count * sizeof *out);
    return cholesky[task].count;
}

static uint32_t chain_uses(uint32_t task, struct flow_access *out)
{
    (void)task;
    out[0] = (struct flow_access){ 0, FLOW_READ_WRITE };
    return 1;
}

static uint32_t independent_uses(uint32_t task, struct flow_access *out)
{
    out[0] = (struct flow_access){ task % 8192, FLOW_WRITE };
    return 1;
}

static uint32_t stencil_uses(uint32_t task, struct flow_access *out)
{
    uint32_t step = task / 64, i = task % 64, from = step % 2 * 64, to = 64 - from, count = 0;
    if (i > 0)
        out[count++] = (struct flow_access){ from + i - 1, FLOW_READ };
    out[count++] = (struct flow_access){ from + i, FLOW_READ };
    if (i < 63)
        out[count++] = (struct flow_access){ from + i + 1, FLOW_READ };
    out[count++] = (struct flow_access){ to + i, FLOW_WRITE };
    return count;
}

static const struct shape_of_graph graphs[] = {
    { "Cholesky", 5984, TILES *TILES, cholesky_uses },
    { "chain", 100000, 1, chain_uses },
    { "independent", 100000, 8192, independent_uses },
    { "stencil", 64000, 128, stencil_uses },
};
#define GRAPHS (sizeof graphs / sizeof *graphs)

struct tables {
    struct tasks tasks;
    struct flow *flow;
    void *memory[2];
    uint32_t *parts;
};

static void open_tables(struct tables *tables, const struct shape_of_graph *graph, uint32_t tasks)
{
    struct flow_sizes sizes = { .tasks = tasks,
                                .places = 1,
                                .uses = tasks * USES_MAX,
                                .data = graph->data,
                                .parts = graph->data };
    uint32_t edges = 2 * sizes.uses;
    tables->memory[0] = aligned_alloc(64, tasks_bytes(tasks, edges));
    tables->memory[1] = aligned_alloc(64, flow_bytes(&sizes));
    tables->parts = malloc(graph->data * sizeof *tables->parts);
    tasks_init(&tables->tasks, tables->memory[0], tasks, edges);
    tables->flow = flow_init(tables->memory[1], &sizes, &tables->tasks);
    for (uint32_t i = 0; i < graph->data; i++)
        tables->parts[i] = flow_data_whole(tables->flow, flow_data_add(tables->flow, 64, true));
}

static void close_tables(struct tables *tables)
{
    free(tables->memory[0]);
    free(tables->memory[1]);
    free(tables->parts);
}

static void submit(struct tables *tables, const struct shape_of_graph *graph, uint32_t number)
{
    struct flow_access uses[USES_MAX];
    uint32_t count = graph->uses(number, uses), task = tasks_add(&tables->tasks);
    for (uint32_t i = 0; i < count; i++)
        uses[i].part = tables->parts[uses[i].part];
    if (flow_order(tables->flow, task, number, uses, count) != FLOW_ORDERED)
        abort();
    tasks_release(&tables->tasks, task);
}

/* Takes up to 64 ready tasks and ends them. */
static void run_some(struct tables *tables)
{
    struct flow_cause cause;
    uint32_t taken[64], count = tasks_take(&tables->tasks, 64, taken);
    for (uint32_t i = 0; i < count; i++) {
        if (flow_blame(tables->flow, taken[i], &cause))
            abort();
        flow_ended(tables->flow, taken[i], FLOW_HOME, MUSTER_OK, NULL);
        tasks_end(&tables->tasks, taken[i], MUSTER_OK);
    }
}

static double measure_inference(const struct shape_of_graph *graph)
{
    struct tables tables;
    open_tables(&tables, graph, WINDOW);
    uint64_t begin_ns = clock_ns();
    for (uint32_t i = 0; i < graph->tasks; i++) {
        while (tables.tasks.open_count == WINDOW)
            run_some(&tables);
        submit(&tables, graph, i);
    }
    while (tables.tasks.open_count > 0)
        run_some(&tables);
    double ns = (double)(clock_ns() - begin_ns) / graph->tasks;
    close_tables(&tables);
    return ns;
}

static double measure_recorded(const struct shape_of_graph *graph)
{
    struct tables tables;
    open_tables(&tables, graph, graph->tasks);
    for (uint32_t i = 0; i < graph->tasks; i++)
        submit(&tables, graph, i);
    struct repeat *repeat =
        repeat_init(aligned_alloc(64, repeat_bytes(&tables.tasks)), &tables.tasks);
    void *memory = aligned_alloc(64, repeat_run_bytes(repeat));
    memset(memory, 0, repeat_run_bytes(repeat));
    uint64_t begin_ns = clock_ns();
    struct repeat_run *run = repeat_run_begin(memory, repeat);
    for (bool is_last = false; !is_last;) {
        uint32_t taken[64], count = repeat_take(run, 64, taken);
        for (uint32_t i = 0; i < count; i++)
            is_last = repeat_end(run, taken[i], MUSTER_OK);
    }
    double ns = (double)(clock_ns() - begin_ns) / graph->tasks;
    free(memory);
    free(repeat);
    close_tables(&tables);
    return ns;
}

static void tell_cost(struct bench *bench, const char *graph, const char *what, double *values,
                      double target)
{
    struct sample cost = summarise(values, bench->repetitions);
    char text[64];
    snprintf(text, sizeof text, "%.1f (%.1f-%.1f)", cost.median, cost.least, cost.greatest);
    printf("%-12s %-10s %-22s <= %3.0f   %s\n", graph, what, text, target,
           verdict(cost.median <= target));
    row_begin(bench, what);
    row_text(bench, "graph", graph);
    row_sample(bench, "ns_per_task", cost);
    row_number(bench, "target_ns", target);
    row_text(bench, "verdict", verdict(cost.median <= target));
    row_end(bench);
}

/* Devices of four speeds, 1 to 8; a tile of 2 MiB takes as long over the link as half a gemm. */
static double ratio_of(struct bench *bench, uint32_t devices, const char *policy)
{
    static char text[65536];
    size_t used = (size_t)snprintf(text, sizeof text, "{\"devices\":[");
    for (uint32_t i = 0; i < devices; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s{\"items_per_s\":%u,\"launch_ns\":4000,\"memory\":\"4GiB\","
                                 "\"h2d_bytes_per_s\":2.5e10,\"d2h_bytes_per_s\":2.5e10}",
                                 i > 0 ? "," : "", 1000u << i % 4);
    used += (size_t)snprintf(text + used, sizeof text - used,
                             "],\"graph\":{\"kind\":\"cholesky\",\"tiles\":48,"
                             "\"tile_bytes\":2097152,\"policy\":\"%s\"}}",
                             policy);
    struct muster_graph_simulation *simulation;
    struct muster_error error;
    if (muster_simulate_graph(text, used, NULL, &simulation, &error) != MUSTER_OK)
        stop(bench, error.text);
    if (simulation->status != MUSTER_OK)
        stop(bench, "a simulated graph failed");
    double ratio = simulation->ratio;
    muster_graph_simulation_destroy(simulation);
    return ratio;
}

static void tell_virtual(struct bench *bench)
{
    static const char *const policies[] = { "earliest-finish", "eager", "round-robin" };
    printf(
        "\nvirtual Cholesky, 48 x 48 tiles of 2 MiB, devices of four speeds: makespan / bound\n");
    printf("%8s  %16s %10s %12s\n", "devices", policies[0], policies[1], policies[2]);
    for (uint32_t devices = 1; devices <= 64; devices *= 2) {
        double ratios[3];
        for (uint32_t i = 0; i < 3; i++)
            ratios[i] = ratio_of(bench, devices, policies[i]);
        printf("%8u  %16.4f %10.4f %12.4f\n", devices, ratios[0], ratios[1], ratios[2]);
        row_begin(bench, "virtual Cholesky");
        row_number(bench, "devices", devices);
        for (uint32_t i = 0; i < 3; i++)
            row_number(bench, policies[i], ratios[i]);
        row_end(bench);
    }
}

int main(int argc, char **argv)
{
    struct bench bench;
    bench_begin(&bench, "flow", 9, argc, argv);
    make_cholesky();
    printf("core alone, ns a task, window of %u; median (least-greatest) of %d\n\n", WINDOW,
           bench.repetitions);
    for (size_t i = 0; i < GRAPHS; i++) {
        double inferred[REPETITIONS_MAX], recorded[REPETITIONS_MAX];
        for (int k = 0; k < bench.repetitions; k++) {
            inferred[k] = measure_inference(&graphs[i]);
            recorded[k] = measure_recorded(&graphs[i]);
        }
        tell_cost(&bench, graphs[i].name, "inferred", inferred, INFERENCE_NS);
        tell_cost(&bench, graphs[i].name, "recorded", recorded, RECORDED_NS);
    }
    tell_virtual(&bench);
    return bench_end(&bench);
}
