/*
 * What a task costs whose order is inferred from the data that it accesses: graphs of empty tasks, submitted
 * one after the other by one thread and run by as many as there are cores. Beside it gcc's OpenMP tasks
 * with `depend`, StarPU, and a raw limit: the same number of calls through a ring under one lock.
 *
 *     dataflow [--repetitions N] [--json FILE]
 *
 * Each measurement is a process of its own (`dataflow --measure PARTY SHAPE`; StarPU's program is built where it is
 * installed), one of each in turn. A hand-over between two cores is measured beside them: on virtual machines it
 * changes by a factor of six from one minute to the next, and rows of two states are not to be compared.
 */
#include "dataflow_shapes.h"
#include "handover.h"
#include "peers.h"

#include <muster/muster.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MUSTER_COMMIT
#define MUSTER_COMMIT "unknown"
#endif

#define BATCH 256
#define REPETITIONS_MIN 3
#define REPETITIONS_MAX 101
#define ROUNDS_OF_ONE 5 /* the best of this many in one process, after one to warm up */
#define DATA_COUNT 100000

static void stop(const char *what)
{
    fprintf(stderr, "dataflow: %s\n", what);
    exit(1);
}

/* ---- Ours. ---- */

struct ours {
    struct muster *m;
    muster_data data[SHAPE_DATA_MAX];
    struct muster_task_desc descs[BATCH];
    struct muster_task_access accesses[BATCH][4];
    size_t count;
};

static muster_status nothing(void *user)
{
    (void)user;
    return MUSTER_OK;
}

static void flush(struct ours *ours)
{
    struct muster_error err;
    if (ours->count > 0 &&
        muster_submit(ours->m, ours->descs, ours->count, NULL, &err) != MUSTER_OK)
        stop(err.text);
    ours->count = 0;
}

static void emit_ours(void *user, const int *read, int reads, int target)
{
    struct ours *ours = user;
    struct muster_task_access *at = ours->accesses[ours->count];
    for (int i = 0; i < reads; i++)
        at[i] = (struct muster_task_access)MUSTER_ACCESS(ours->data[read[i]], MUSTER_READ);
    at[reads] = (struct muster_task_access)MUSTER_ACCESS(ours->data[target], MUSTER_READ_WRITE);
    ours->descs[ours->count++] = (struct muster_task_desc){ .size = sizeof *ours->descs,
                                                            .fn = nothing,
                                                            .accesses = at,
                                                            .access_count = (size_t)reads + 1 };
    if (ours->count == BATCH)
        flush(ours);
}

static struct ours *ours_up(void)
{
    static double bytes[SHAPE_DATA_MAX];
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster_error err;
    struct ours *ours = calloc(1, sizeof *ours);
    options.devices = "cpu";
    if (!ours || muster_open(&ours->m, &options, &err) != MUSTER_OK)
        stop("cannot open");
    for (int i = 0; i < SHAPE_DATA_MAX; i++)
        if (muster_data_create(ours->m, &bytes[i], sizeof *bytes, 0, &ours->data[i], &err) !=
            MUSTER_OK)
            stop(err.text);
    return ours;
}

static double measure_ours(const struct shape_of *shape)
{
    struct ours *ours = ours_up();
    double best = 1e300;
    for (int round = 0; round <= ROUNDS_OF_ONE; round++) {
        double begin = now_ns();
        int count = shape->submit(emit_ours, ours);
        flush(ours);
        if (muster_wait(ours->m, NULL, 0, UINT64_MAX, NULL) != MUSTER_OK)
            stop("a task failed");
        double ns = (now_ns() - begin) / count;
        best = round > 0 && ns < best ? ns : best;
    }
    muster_close(ours->m, NULL);
    return best;
}

/* The same graph, recorded once and run again. */
static double measure_recorded(const struct shape_of *shape)
{
    struct ours *ours = ours_up();
    struct muster_error err;
    struct muster_graph *graph;
    double best = 1e300;
    if (muster_graph_begin(ours->m, &err) != MUSTER_OK)
        stop(err.text);
    int count = shape->submit(emit_ours, ours);
    flush(ours);
    if (muster_graph_end(ours->m, &graph, &err) != MUSTER_OK)
        stop(err.text);
    for (int round = 0; round <= ROUNDS_OF_ONE; round++) {
        muster_task task;
        double begin = now_ns();
        if (muster_graph_run(ours->m, graph, NULL, 0, &task, &err) != MUSTER_OK ||
            muster_wait(ours->m, &task, 1, UINT64_MAX, &err) != MUSTER_OK)
            stop(err.text);
        double ns = (now_ns() - begin) / count;
        best = round > 0 && ns < best ? ns : best;
    }
    muster_graph_destroy(graph);
    muster_close(ours->m, NULL);
    return best;
}

/* To register a datum, and to forget it again. */
static double measure_register(const struct shape_of *shape)
{
    static muster_data data[DATA_COUNT];
    static char bytes[DATA_COUNT];
    struct ours *ours = ours_up();
    double best = 1e300;
    (void)shape;
    for (int round = 0; round <= ROUNDS_OF_ONE; round++) {
        double begin = now_ns();
        for (int i = 0; i < DATA_COUNT; i++)
            if (muster_data_create(ours->m, &bytes[i], 1, 0, &data[i], NULL) != MUSTER_OK)
                stop("cannot register");
        double ns = (now_ns() - begin) / DATA_COUNT;
        for (int i = 0; i < DATA_COUNT; i++)
            muster_data_destroy(ours->m, data[i], NULL);
        best = round > 0 && ns < best ? ns : best;
    }
    muster_close(ours->m, NULL);
    return best;
}

/* ---- OpenMP, as gcc has it. ---- */

static char gomp_data[SHAPE_DATA_MAX];

static void emit_gomp(void *user, const int *read, int reads, int target)
{
    char *data = user, *to = &data[target];
    const char *a = reads > 0 ? &data[read[0]] : to, *b = reads > 1 ? &data[read[1]] : a,
               *c = reads > 2 ? &data[read[2]] : b;
    (void)a;
    (void)b;
    (void)c;
    if (reads == 0) {
#pragma omp task depend(inout : *to)
        nothing(NULL);
    } else if (reads == 1) {
#pragma omp task depend(in : *a) depend(inout : *to)
        nothing(NULL);
    } else if (reads == 2) {
#pragma omp task depend(in : *a, *b) depend(inout : *to)
        nothing(NULL);
    } else {
#pragma omp task depend(in : *a, *b, *c) depend(inout : *to)
        nothing(NULL);
    }
}

static double measure_gomp(const struct shape_of *shape)
{
    double best = 1e300;
    for (int round = 0; round <= ROUNDS_OF_ONE; round++) {
        int count = 0;
        double begin = now_ns();
#pragma omp parallel
#pragma omp single
        count = shape->submit(emit_gomp, gomp_data);
        double ns = (now_ns() - begin) / count;
        best = round > 0 && ns < best ? ns : best;
    }
    return best;
}

/* ---- By hand: a ring under a lock, which one thread fills and all empty. ---- */

#define RING 4096u
static struct {
    pthread_mutex_t lock;
    muster_status (*ring[RING])(void *);
    unsigned head, tail;
    bool is_over;
} raw = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool raw_run_some(void)
{
    muster_status (*taken[32])(void *);
    unsigned count = 0;
    pthread_mutex_lock(&raw.lock);
    while (count < 32 && raw.head != raw.tail)
        taken[count++] = raw.ring[raw.head++ % RING];
    bool is_over = raw.is_over && count == 0;
    pthread_mutex_unlock(&raw.lock);
    for (unsigned i = 0; i < count; i++)
        taken[i](NULL);
    return !is_over;
}

static void *raw_work(void *user)
{
    while (raw_run_some())
        continue;
    return user;
}

static void emit_raw(void *user, const int *read, int reads, int target)
{
    (void)user;
    (void)read;
    (void)reads;
    (void)target;
    for (bool is_in = false; !is_in;) {
        pthread_mutex_lock(&raw.lock);
        is_in = raw.tail - raw.head < RING;
        if (is_in)
            raw.ring[raw.tail++ % RING] = nothing;
        pthread_mutex_unlock(&raw.lock);
        if (!is_in)
            raw_run_some();
    }
}

static double measure_raw(const struct shape_of *shape)
{
    pthread_t thread;
    double begin = now_ns();
    raw.is_over = false;
    if (pthread_create(&thread, NULL, raw_work, NULL) != 0)
        stop("no thread");
    int count = shape->submit(emit_raw, NULL);
    pthread_mutex_lock(&raw.lock);
    raw.is_over = true;
    pthread_mutex_unlock(&raw.lock);
    raw_work(NULL);
    pthread_join(thread, NULL);
    return (now_ns() - begin) / count;
}

static double measure_handover(const struct shape_of *shape)
{
    (void)shape;
    double ns = measure_handover_ns();
    if (ns < 0)
        stop("no thread");
    return ns;
}

/* ---- What the parent makes of it. ---- */

static const struct party {
    const char *name;
    double (*measure)(const struct shape_of *shape); /* NULL: a program of its own */
    double target_us;
} parties[] = {
    { "inferred", measure_ours, 0.35 }, { "recorded", measure_recorded, 0.08 },
    { "openmp", measure_gomp, 0 },      { "starpu", NULL, 0 },
    { "raw", measure_raw, 0 },
};
static const struct party others[] = { { "register", measure_register, 0.5 },
                                       { "handover", measure_handover, 0 } };
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static int measure_here(const char *party, const char *name)
{
    const struct shape_of *shape = shape_find(name);
    for (size_t i = 0; i < COUNT_OF(parties); i++)
        if (shape && parties[i].measure && strcmp(parties[i].name, party) == 0)
            return print_value(parties[i].measure(shape));
    for (size_t i = 0; i < COUNT_OF(others); i++)
        if (strcmp(others[i].name, party) == 0)
            return print_value(others[i].measure(NULL));
    fprintf(stderr, "dataflow: there is no measurement %s %s\n", party, name);
    return 2;
}

static bool measure_once(const struct party *party, const char *shape, double *value)
{
    char path[4096], command[8400], text[64] = "";
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    if (party->measure) {
        snprintf(command, sizeof command, "'%s' --measure %s %s", path, party->name, shape);
    } else {
        *strrchr(path, '/') = '\0';
        snprintf(command, sizeof command,
                 "test -x '%s/peers/dataflow_%s' && '%s/peers/dataflow_%s' %s 2>&-", path,
                 party->name, path, party->name, shape);
    }
    FILE *pipe = popen(command, "r");
    if (!pipe)
        return false;
    bool has_line = fgets(text, sizeof text, pipe) != NULL;
    bool is_well = pclose(pipe) == 0 && has_line;
    *value = strtod(text, NULL);
    return is_well;
}

static void report(FILE *json, bool *is_first, const char *shape, const struct party *party,
                   double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare_values);
    double median = values[count / 2] / 1e3;
    char target[48] = "";
    if (party->target_us > 0)
        snprintf(target, sizeof target, "  target %.2f: %s", party->target_us,
                 median <= party->target_us ? "met" : "missed");
    printf("  %-12s %-10s %8.3f us  (%.3f to %.3f)%s\n", shape, party->name, median,
           values[0] / 1e3, values[count - 1] / 1e3, target);
    if (json)
        fprintf(json,
                "%s\n  {\"shape\": \"%s\", \"party\": \"%s\", \"us\": %.4f, \"least\": %.4f, "
                "\"greatest\": %.4f}",
                *is_first ? "" : ",", shape, party->name, median, values[0] / 1e3,
                values[count - 1] / 1e3);
    *is_first = false;
}

static int compare(int repetitions, FILE *json)
{
    struct utsname host;
    bool is_first = true, covers = true;
    double values[COUNT_OF(parties)][REPETITIONS_MAX];
    uname(&host);
    printf("empty tasks with inferred order, us each; %s %s, %ld cores, commit %s, median of %d\n",
           host.sysname, host.machine, sysconf(_SC_NPROCESSORS_ONLN), MUSTER_COMMIT, repetitions);
    if (json)
        fprintf(json, "{\"bench\":\"dataflow\",\"cores\":%ld,\"rows\":[",
                sysconf(_SC_NPROCESSORS_ONLN));
    for (size_t s = 0; s < COUNT_OF(shapes); s++) {
        int counts[COUNT_OF(parties)] = { 0 };
        for (int r = 0; r < repetitions; r++)
            for (size_t p = 0; p < COUNT_OF(parties); p++)
                counts[p] += measure_once(&parties[p], shapes[s].name, &values[p][counts[p]]);
        for (size_t p = 0; p < COUNT_OF(parties); p++) {
            covers &= counts[p] == repetitions || !parties[p].measure;
            if (counts[p] > 0)
                report(json, &is_first, shapes[s].name, &parties[p], values[p], counts[p]);
        }
    }
    for (size_t p = 0; p < COUNT_OF(others); p++) {
        int count = 0;
        for (int r = 0; r < repetitions; r++)
            count += measure_once(&others[p], "none", &values[0][count]);
        covers &= count == repetitions;
        if (count > 0)
            report(json, &is_first, "-", &others[p], values[0], count);
    }
    if (json)
        fprintf(json, "\n]}\n");
    if (!covers)
        fprintf(stderr, "dataflow: some of it could not be measured\n");
    return covers ? 0 : 1;
}

int main(int argc, char **argv)
{
    int repetitions = REPETITIONS_MIN;
    const char *path = NULL;
    if (argc == 4 && strcmp(argv[1], "--measure") == 0)
        return measure_here(argv[2], argv[3]);
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 < argc && strcmp(argv[i], "--repetitions") == 0)
            repetitions = atoi(argv[i + 1]);
        else if (i + 1 < argc && strcmp(argv[i], "--json") == 0)
            path = argv[i + 1];
        else
            repetitions = 0;
    }
    if (repetitions < REPETITIONS_MIN || repetitions > REPETITIONS_MAX) {
        fprintf(stderr, "usage: dataflow [--repetitions %d to %d] [--json FILE]\n", REPETITIONS_MIN,
                REPETITIONS_MAX);
        return 2;
    }
    FILE *json = path ? fopen(path, "w") : NULL;
    if (path && !json)
        stop("cannot write the file");
    int code = compare(repetitions, json);
    return json && fclose(json) != 0 ? 1 : code;
}
