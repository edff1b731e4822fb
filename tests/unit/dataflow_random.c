/*
 * Random graphs of tasks on simulated devices with memories of their own, small ones too: what is at home
 * in the end is what one thread computes that runs the tasks in the order of their submission, or the datum
 * says that it is not. `--seed N` begins with another graph; MUSTER_TEST_REPEAT makes more of them.
 */
#include "base/random.h"
#include "support.h"

#define DATA 4
#define SIDE 16
#define BYTES (SIDE * SIDE)
#define PARTS 6 /* of each, the whole first */
#define TASKS 60
#define GRAPHS TEST_BY_SANITIZER(12, 6, 4)

/* The same for the model and for the tasks: what each part names. */
static const struct {
    unsigned row, rows, column, bytes;
} shapes[PARTS] = {
    { 0, SIDE, 0, SIDE }, /* all */
    { 0, 8, 0, SIDE },    /* the first half, a range */
    { 4, 8, 0, SIDE },    /* across it */
    { 8, 8, 8, 8 },       /* tiles */
    { 0, 8, 8, 8 },       { 6, 4, 4, 6 },
};

struct one {
    unsigned count, number;
    unsigned data[3], part[3];
    enum muster_mode modes[3];
    bool is_on_host;
};

struct graph {
    struct random random;
    struct one tasks[TASKS];
    unsigned char model[DATA][BYTES], home[DATA][BYTES];
};

static unsigned pick(struct graph *graph, unsigned count)
{
    return (unsigned)random_below(&graph->random, count);
}

/* What a task does with its parts' bytes: what it writes depends on all that it reads. */
static void mix(const struct one *task, unsigned char *const *pointers, const uint64_t *pitches)
{
    uint32_t hash = task->number * 2654435761u + 1;
    for (unsigned a = 0; a < task->count; a++)
        for (unsigned r = 0; r < shapes[task->part[a]].rows; r++)
            for (unsigned c = 0; c < shapes[task->part[a]].bytes; c++)
                if (task->modes[a] == MUSTER_READ || task->modes[a] == MUSTER_READ_WRITE)
                    hash = (hash ^ pointers[a][r * pitches[a] + c]) * 16777619u;
    for (unsigned a = 0; a < task->count; a++)
        for (unsigned r = 0; r < shapes[task->part[a]].rows; r++)
            for (unsigned c = 0; c < shapes[task->part[a]].bytes; c++) {
                unsigned char *byte = &pointers[a][r * pitches[a] + c];
                unsigned char fresh = (unsigned char)((hash + (r * SIDE + c) * 40503u) >> 7);
                if (task->modes[a] == MUSTER_WRITE)
                    *byte = fresh;
                else if (task->modes[a] == MUSTER_READ_WRITE)
                    *byte = (unsigned char)(*byte * 5 + fresh);
                else if (task->modes[a] != MUSTER_READ) /* in any order */
                    *byte = (unsigned char)(*byte + task->number);
            }
}

static muster_status body(void *user, const struct muster_native *native)
{
    const struct one *task = user;
    for (unsigned a = 0; a < task->count; a++)
        if (native->rows[a] * (native->bytes[a] / native->rows[a]) != native->bytes[a])
            return MUSTER_E_FAILED;
    /* A range of several of our rows is one row for Muster. */
    uint64_t pitches[3];
    for (unsigned a = 0; a < task->count; a++)
        pitches[a] = native->rows[a] == 1 ? SIDE : native->pitches[a];
    mix(task, (unsigned char *const *)native->pointers, pitches);
    return MUSTER_OK;
}

static void begin(void *user, void *to, uint64_t bytes)
{
    (void)user;
    memset(to, 0, bytes);
}

static void combine(void *user, void *into, const void *from, uint64_t bytes)
{
    unsigned char *sums = into;
    (void)user;
    for (uint64_t i = 0; i < bytes; i++)
        sums[i] = (unsigned char)(sums[i] + ((const unsigned char *)from)[i]);
}

static void invent(struct graph *graph, uint64_t seed)
{
    random_init(&graph->random, seed);
    for (unsigned d = 0; d < DATA; d++)
        for (unsigned i = 0; i < BYTES; i++)
            graph->model[d][i] = graph->home[d][i] = (unsigned char)pick(graph, 256);
    for (unsigned t = 0; t < TASKS; t++) {
        struct one *task = &graph->tasks[t];
        unsigned first = pick(graph, DATA);
        *task = (struct one){ .count = 1 + pick(graph, 3),
                              .number = t + 1,
                              .is_on_host = pick(graph, 8) == 0 };
        for (unsigned a = 0; a < task->count; a++) {
            task->data[a] = (first + a) % DATA;
            task->part[a] = pick(graph, PARTS);
            task->modes[a] = (enum muster_mode)(1 + pick(graph, 5));
        }
    }
}

/* By one thread. */
static void run_model(struct graph *graph)
{
    for (unsigned t = 0; t < TASKS; t++) {
        unsigned char *pointers[3];
        uint64_t pitches[3] = { SIDE, SIDE, SIDE };
        for (unsigned a = 0; a < graph->tasks[t].count; a++)
            pointers[a] = graph->model[graph->tasks[t].data[a]] +
                          shapes[graph->tasks[t].part[a]].row * SIDE +
                          shapes[graph->tasks[t].part[a]].column;
        mix(&graph->tasks[t], pointers, pitches);
    }
}

static void make_data(struct muster *m, struct graph *graph, muster_data data[DATA][PARTS])
{
    const struct muster_reduction reduction = { sizeof reduction, NULL, begin, combine };
    for (unsigned d = 0; d < DATA; d++)
        for (unsigned p = 0; p < PARTS; p++) {
            if (p == 0)
                MUST(muster_data_create(m, graph->home[d], BYTES, 0, &data[d][0], &problem));
            else
                MUST(muster_data_tile(m, data[d][0], shapes[p].row, shapes[p].rows,
                                      shapes[p].column, shapes[p].bytes, SIDE, &data[d][p],
                                      &problem));
            MUST(muster_data_reduction(m, data[d][p], &reduction, &problem));
        }
}

static void submit_all(struct muster *m, struct graph *graph, muster_data data[DATA][PARTS])
{
    static const struct muster_body everywhere[] = { { sizeof everywhere[0], "sim", body },
                                                     { sizeof everywhere[0], "cpu", body } };
    for (unsigned t = 0; t < TASKS; t++) {
        struct one *task = &graph->tasks[t];
        struct muster_task_access accesses[3];
        for (unsigned a = 0; a < task->count; a++)
            accesses[a] = (struct muster_task_access)MUSTER_ACCESS(
                data[task->data[a]][task->part[a]], task->modes[a]);
        const struct muster_task_desc desc = { .size = sizeof desc,
                                               .user = task,
                                               .accesses = accesses,
                                               .access_count = task->count,
                                               .bodies = everywhere + task->is_on_host,
                                               .body_count = 2 - task->is_on_host,
                                               .priority = (int32_t)pick(graph, 3) };
        MUST(muster_submit(m, &desc, 1, NULL, &problem));
        if (pick(graph, 40) == 0) {
            void *pointer;
            muster_data at = data[pick(graph, DATA)][pick(graph, PARTS)];
            MUST(muster_data_acquire(m, at, MUSTER_READ, 60 * SECOND, &pointer, &problem));
            MUST(muster_data_release(m, at, &problem));
        }
    }
}

static void check_graph(uint64_t seed, const char *sim, const char *devices)
{
    static struct graph graph;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    muster_data data[DATA][PARTS];
    invent(&graph, seed);
    run_model(&graph);
    options.cpu_workers = 2;
    options.sim = sim;
    options.devices = devices;
    struct muster *m = open_with(options);
    make_data(m, &graph, data);
    submit_all(m, &graph, data);
    for (unsigned d = 0; d < DATA; d++)
        for (unsigned p = PARTS; p-- > 0;)
            MUST(muster_data_destroy(m, data[d][p], &problem));
    MUST(muster_close(m, &problem));
    for (unsigned d = 0; d < DATA; d++)
        for (unsigned i = 0; i < BYTES; i++)
            if (graph.model[d][i] != graph.home[d][i])
                test_fail(__FILE__, __LINE__, "seed %llu: byte %u of datum %u is %u, expected %u",
                          (unsigned long long)seed, i, d, graph.home[d][i], graph.model[d][i]);
}

static void check_graphs(const char *sim, const char *devices)
{
    unsigned count = test_repetitions(GRAPHS);
    for (unsigned i = 0; i < count; i++)
        check_graph(test_seed() * 1000 + i, sim, devices);
}

static void graphs_on_the_host_alone(void)
{
    check_graphs(SIM_PLAIN, "cpu");
}

static void graphs_on_one_device(void)
{
    check_graphs("[{\"items_per_s\": 1e9, \"launch_ns\": 1000}]", NULL);
}

static void graphs_on_devices_that_differ(void)
{
    check_graphs("[{\"count\": 3, \"items_per_s\": 1e9, \"launch_ns\": 1000},"
                 " {\"count\": 5, \"items_per_s\": 1e8, \"launch_ns\": 20000}]",
                 NULL);
}

static void graphs_in_memory_for_a_few_parts(void)
{
    check_graphs("[{\"count\": 4, \"items_per_s\": 1e9, \"launch_ns\": 1000, \"memory\": 1200}]",
                 NULL);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(graphs_on_the_host_alone),
        TEST(graphs_on_one_device),
        TEST(graphs_on_devices_that_differ),
        TEST(graphs_in_memory_for_a_few_parts),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
