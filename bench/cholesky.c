/*
 * A tiled Cholesky factorization in double precision whose tasks are calls of OpenBLAS with one thread, and
 * whose order follows from the tiles that they access: GFLOP/s, N^3 / 3 / time. Beside it gcc's OpenMP tasks
 * with `depend` and StarPU, with the same calls on the same tiles submitted in the same order; and OpenBLAS's
 * own dpotrf with all cores, which is the limit.
 *
 *     cholesky [--repetitions N] [--json FILE]
 *
 * Each measurement is a process of its own (`cholesky --measure PARTY N TILE`), one of each in turn, which also
 * checks that L L^T is the matrix. A hand-over between two cores is measured in each turn.
 */
#include "cholesky_tiles.h"
#include "handover.h"

#include <muster/muster.h>
#include <sys/utsname.h>
#include <unistd.h>

#ifndef MUSTER_COMMIT
#define MUSTER_COMMIT "unknown"
#endif

#define BATCH 32
#define REPETITIONS_MIN 3
#define REPETITIONS_MAX 101
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static void stop(const char *what)
{
    fprintf(stderr, "cholesky: %s\n", what);
    exit(1);
}

/* ---- Ours. ---- */

struct ours {
    struct muster *m;
    struct tiles *tiles;
    muster_data data[TILES_MAX * TILES_MAX];
    struct muster_task_desc descs[BATCH];
    struct muster_task_access accesses[BATCH][3];
    struct muster_body forms[TILE_CALLS];
    size_t count;
    struct muster_graph *graph;
};

static muster_status work(void *user, const struct muster_native *native, enum tile_call call)
{
    const struct tiles *tiles = user;
    int reads = tile_reads[call];
    const double *a = native->pointers[0], *b = native->pointers[reads > 1];
    double *c = native->pointers[reads];
    return tile_run(call, tiles->tile, tile_pitch(tiles), a, b, c) ? MUSTER_OK : MUSTER_E_FAILED;
}

static muster_status potrf(void *user, const struct muster_native *native)
{
    return work(user, native, TILE_POTRF);
}
static muster_status trsm(void *user, const struct muster_native *native)
{
    return work(user, native, TILE_TRSM);
}
static muster_status syrk(void *user, const struct muster_native *native)
{
    return work(user, native, TILE_SYRK);
}
static muster_status gemm(void *user, const struct muster_native *native)
{
    return work(user, native, TILE_GEMM);
}

static void flush(struct ours *ours)
{
    struct muster_error err;
    if (ours->count > 0 &&
        muster_submit(ours->m, ours->descs, ours->count, NULL, &err) != MUSTER_OK)
        stop(err.text);
    ours->count = 0;
}

static void emit_ours(void *user, enum tile_call call, const int *read, int target, int priority)
{
    struct ours *ours = user;
    struct muster_task_access *at = ours->accesses[ours->count];
    size_t reads = (size_t)tile_reads[call];
    for (size_t i = 0; i < reads; i++)
        at[i] = (struct muster_task_access)MUSTER_ACCESS(ours->data[read[i]], MUSTER_READ);
    at[reads] = (struct muster_task_access)MUSTER_ACCESS(ours->data[target], MUSTER_READ_WRITE);
    ours->descs[ours->count++] = (struct muster_task_desc){ .size = sizeof *ours->descs,
                                                            .user = ours->tiles,
                                                            .accesses = at,
                                                            .access_count = reads + 1,
                                                            .bodies = &ours->forms[call],
                                                            .body_count = 1,
                                                            .priority = priority };
    if (ours->count == BATCH)
        flush(ours);
}

static struct ours *ours_up(struct tiles *tiles)
{
    static muster_status (*const bodies[])(void *, const struct muster_native *) = { potrf, trsm,
                                                                                     syrk, gemm };
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster_error err;
    struct ours *ours = calloc(1, sizeof *ours);
    options.devices = "cpu";
    if (!ours || muster_open(&ours->m, &options, &err) != MUSTER_OK)
        stop("cannot open");
    ours->tiles = tiles;
    for (int call = 0; call < TILE_CALLS; call++)
        ours->forms[call] = (struct muster_body){ sizeof *ours->forms, "cpu", bodies[call] };
    uint64_t bytes = (uint64_t)tiles->tile * (uint64_t)tiles->tile * sizeof(double);
    for (int j = 0; j < tiles->count; j++)
        for (int i = j; i < tiles->count; i++)
            if (muster_data_create(ours->m, tile_of(tiles, tiles->at, i, j), bytes, 0,
                                   &ours->data[tile_name(i, j)], &err) != MUSTER_OK)
                stop(err.text);
    return ours;
}

/* The tiles are the caller's again: it fills them for the next round. */
static void bring_home(struct ours *ours)
{
    struct muster_error err;
    void *at;
    for (int j = 0; j < ours->tiles->count; j++)
        for (int i = j; i < ours->tiles->count; i++) {
            muster_data data = ours->data[tile_name(i, j)];
            if (muster_data_acquire(ours->m, data, MUSTER_READ_WRITE, UINT64_MAX, &at, &err) !=
                    MUSTER_OK ||
                muster_data_release(ours->m, data, &err) != MUSTER_OK)
                stop(err.text);
        }
}

static double round_ours(void *user)
{
    struct ours *ours = user;
    struct muster_error err;
    double begin = now_ns();
    tiles_submit(ours->tiles->count, emit_ours, ours);
    flush(ours);
    if (muster_wait(ours->m, NULL, 0, UINT64_MAX, &err) != MUSTER_OK)
        stop(err.text);
    double ns = now_ns() - begin;
    bring_home(ours);
    return ns;
}

static int measure_ours(struct tiles *tiles)
{
    struct ours *ours = ours_up(tiles);
    int code = tiles_measure(tiles, round_ours, ours);
    muster_close(ours->m, NULL);
    return code;
}

/* The same, recorded once and run again. */
static double round_recorded(void *user)
{
    struct ours *ours = user;
    struct muster_error err;
    muster_task task;
    double begin = now_ns();
    if (muster_graph_run(ours->m, ours->graph, NULL, 0, &task, &err) != MUSTER_OK ||
        muster_wait(ours->m, &task, 1, UINT64_MAX, &err) != MUSTER_OK)
        stop(err.text);
    double ns = now_ns() - begin;
    bring_home(ours);
    return ns;
}

static int measure_recorded(struct tiles *tiles)
{
    struct ours *ours = ours_up(tiles);
    struct muster_error err;
    if (muster_graph_begin(ours->m, &err) != MUSTER_OK)
        stop(err.text);
    tiles_submit(tiles->count, emit_ours, ours);
    flush(ours);
    if (muster_graph_end(ours->m, &ours->graph, &err) != MUSTER_OK)
        stop(err.text);
    int code = tiles_measure(tiles, round_recorded, ours);
    muster_graph_destroy(ours->graph);
    muster_close(ours->m, NULL);
    return code;
}

/* ---- OpenMP, as gcc has it. ---- */

static bool gomp_failed;

static void run_gomp(const struct tiles *tiles, enum tile_call call, const double *a,
                     const double *b, double *c)
{
    if (!tile_run(call, tiles->tile, tile_pitch(tiles), a, b, c))
        gomp_failed = true;
}

static void emit_gomp(void *user, enum tile_call call, const int *read, int target, int priority)
{
    struct tiles *tiles = user;
    double *tile[3] = { NULL, NULL, NULL };
    int reads = tile_reads[call];
    for (int i = 0; i <= reads; i++) {
        int name = i < reads ? read[i] : target;
        tile[i] = tile_of(tiles, tiles->at, name % TILES_MAX, name / TILES_MAX);
    }
    double *a = tile[0], *b = tile[reads > 1], *c = tile[reads];
    if (reads == 0) {
#pragma omp task depend(inout : *c) priority(priority)
        run_gomp(tiles, call, a, b, c);
    } else if (reads == 1) {
#pragma omp task depend(in : *a) depend(inout : *c) priority(priority)
        run_gomp(tiles, call, a, b, c);
    } else {
#pragma omp task depend(in : *a, *b) depend(inout : *c) priority(priority)
        run_gomp(tiles, call, a, b, c);
    }
}

static double round_gomp(void *user)
{
    struct tiles *tiles = user;
    double begin = now_ns();
#pragma omp parallel
#pragma omp single
    tiles_submit(tiles->count, emit_gomp, tiles);
    double ns = now_ns() - begin;
    return gomp_failed ? -1 : ns;
}

static int measure_gomp(struct tiles *tiles)
{
    return tiles_measure(tiles, round_gomp, tiles);
}

/* ---- The limit: OpenBLAS by itself, with its own threads and tiles. ---- */

static double round_dpotrf(void *user)
{
    struct tiles *tiles = user;
    int info = 0;
    double begin = now_ns();
    dpotrf_("L", &tiles->n, tiles->at, &tiles->n, &info);
    return info == 0 ? now_ns() - begin : -1;
}

static int measure_dpotrf(struct tiles *tiles)
{
    openblas_set_num_threads((int)sysconf(_SC_NPROCESSORS_ONLN));
    return tiles_measure(tiles, round_dpotrf, tiles);
}

/* ---- What the parent makes of it. ---- */

static const struct party {
    const char *name;
    int (*measure)(struct tiles *tiles); /* NULL: StarPU's program, with the policy of this name */
    bool is_whole, is_ours, is_peer;
} parties[] = {
    { "muster", measure_ours, false, true, false },
    { "recorded", measure_recorded, false, true, false },
    { "openmp", measure_gomp, false, false, true },
    { "eager", NULL, false, false, true },
    { "dmdas", NULL, false, false, true },
    { "dpotrf", measure_dpotrf, true, false, false },
};
#define PARTIES COUNT_OF(parties)

struct values {
    double all[PARTIES][REPETITIONS_MAX], handover[REPETITIONS_MAX], residual[PARTIES];
    int counts[PARTIES];
};

static int measure_here(const char *party, int n, int tile)
{
    struct tiles tiles;
    for (size_t i = 0; i < PARTIES; i++)
        if (parties[i].measure && strcmp(parties[i].name, party) == 0) {
            openblas_set_num_threads(1);
            return tiles_open(&tiles, n, tile, parties[i].is_whole) ? parties[i].measure(&tiles)
                                                                    : 2;
        }
    fprintf(stderr, "cholesky: there is no measurement %s %d %d\n", party, n, tile);
    return 2;
}

/*
 * False: it could not be measured, or its result was wrong. OpenBLAS is told by its environment to have one thread:
 * those that it makes while it is loaded look for work for some 25 ms, on the cores that the tasks need, and the
 * smallest matrices take less than that.
 */
static bool measure_once(const struct party *party, int n, int tile, double *rate, double *residual)
{
    char path[4096], command[8600], text[64] = "";
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    if (party->measure) {
        snprintf(command, sizeof command, "%s OMP_MAX_TASK_PRIORITY=15 '%s' --measure %s %d %d",
                 party->is_whole ? "" : "OPENBLAS_NUM_THREADS=1", path, party->name, n, tile);
    } else {
        *strrchr(path, '/') = '\0';
        snprintf(command, sizeof command,
                 "test -x '%s/peers/cholesky_starpu' && "
                 "OPENBLAS_NUM_THREADS=1 '%s/peers/cholesky_starpu' %s %d %d 2>&-",
                 path, path, party->name, n, tile);
    }
    FILE *pipe = popen(command, "r");
    if (!pipe)
        return false;
    bool has_line = fgets(text, sizeof text, pipe) != NULL;
    bool is_well = pclose(pipe) == 0 && has_line;
    char *rest = text;
    *rate = strtod(text, &rest);
    *residual = fmax(*residual, strtod(rest, NULL));
    return is_well;
}

/* Of the peers, or of ours, that with the best median. */
static double best_of(const struct values *values, bool is_ours)
{
    double best = 0;
    for (size_t p = 0; p < PARTIES; p++)
        if (values->counts[p] > 0 && (is_ours ? parties[p].is_ours : parties[p].is_peer))
            best = fmax(best, values->all[p][values->counts[p] / 2]);
    return best;
}

static void report_party(FILE *json, int n, int tile, const struct values *values, size_t p)
{
    int count = values->counts[p];
    double median = values->all[p][count / 2], least = values->all[p][0],
           greatest = values->all[p][count - 1];
    char against[64] = "";
    double peer = best_of(values, false);
    if (parties[p].is_ours && peer > 0)
        snprintf(against, sizeof against, "  %.3f of the best peer: %s", median / peer,
                 median > peer ? "met" : "missed");
    printf("  %4d / %3d  %-9s %7.1f GFLOP/s  (%.1f to %.1f)  residual %.1e%s\n", n, tile,
           parties[p].name, median, least, greatest, values->residual[p], against);
    if (json)
        fprintf(
            json,
            "\n  {\"n\": %d, \"tile\": %d, \"party\": \"%s\", \"gflops\": %.2f, \"least\": %.2f, "
            "\"greatest\": %.2f, \"residual\": %.3g},",
            n, tile, parties[p].name, median, least, greatest, values->residual[p]);
}

/* One size: all parties in turn. */
static bool compare_size(int repetitions, int n, int tile, FILE *json)
{
    static struct values values;
    bool covers = true;
    values = (struct values){ 0 };
    /* StarPU keeps what it has learned for its next process: one that does not count. */
    for (size_t p = 0; p < PARTIES; p++)
        if (!parties[p].measure)
            (void)measure_once(&parties[p], n, tile, &values.all[p][0], &values.residual[p]);
    for (int r = 0; r < repetitions; r++) {
        values.handover[r] = measure_handover_ns();
        for (size_t p = 0; p < PARTIES; p++)
            values.counts[p] += measure_once(&parties[p], n, tile, &values.all[p][values.counts[p]],
                                             &values.residual[p]);
    }
    for (size_t p = 0; p < PARTIES; p++) {
        qsort(values.all[p], (size_t)values.counts[p], sizeof(double), compare_values);
        covers &= values.counts[p] == repetitions || (values.counts[p] == 0 && !parties[p].measure);
    }
    for (size_t p = 0; p < PARTIES; p++)
        if (values.counts[p] > 0)
            report_party(json, n, tile, &values, p);
    qsort(values.handover, (size_t)repetitions, sizeof(double), compare_values);
    printf("  %4d / %3d  a hand-over takes %.0f ns  (%.0f to %.0f)\n", n, tile,
           values.handover[repetitions / 2], values.handover[0], values.handover[repetitions - 1]);
    if (json)
        fprintf(
            json,
            "\n  {\"n\": %d, \"tile\": %d, \"party\": \"handover\", \"ns\": %.1f, \"least\": %.1f, "
            "\"greatest\": %.1f}",
            n, tile, values.handover[repetitions / 2], values.handover[0],
            values.handover[repetitions - 1]);
    return covers;
}

static int compare(int repetitions, FILE *json)
{
    static const int sides[] = { 1024, 2048, 4096 }, tile_sides[] = { 128, 256 };
    struct utsname host;
    bool covers = true;
    uname(&host);
    printf("Cholesky, N / tile; %s %s, %ld cores, commit %s, median of %d\n", host.sysname,
           host.machine, sysconf(_SC_NPROCESSORS_ONLN), MUSTER_COMMIT, repetitions);
    if (json)
        fprintf(json, "{\"bench\":\"cholesky\",\"cores\":%ld,\"rows\":[",
                sysconf(_SC_NPROCESSORS_ONLN));
    for (size_t s = 0; s < COUNT_OF(sides) * COUNT_OF(tile_sides); s++) {
        if (json && s > 0)
            fputc(',', json);
        covers &= compare_size(repetitions, sides[s / COUNT_OF(tile_sides)],
                               tile_sides[s % COUNT_OF(tile_sides)], json);
        fflush(stdout);
    }
    if (json)
        fprintf(json, "\n]}\n");
    if (!covers)
        fprintf(stderr, "cholesky: some of it could not be measured, or was wrong\n");
    return covers ? 0 : 1;
}

int main(int argc, char **argv)
{
    int repetitions = REPETITIONS_MIN;
    const char *path = NULL;
    if (argc == 5 && strcmp(argv[1], "--measure") == 0)
        return measure_here(argv[2], atoi(argv[3]), atoi(argv[4]));
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 < argc && strcmp(argv[i], "--repetitions") == 0)
            repetitions = atoi(argv[i + 1]);
        else if (i + 1 < argc && strcmp(argv[i], "--json") == 0)
            path = argv[i + 1];
        else
            repetitions = 0;
    }
    if (repetitions < REPETITIONS_MIN || repetitions > REPETITIONS_MAX) {
        fprintf(stderr, "usage: cholesky [--repetitions %d to %d] [--json FILE]\n", REPETITIONS_MIN,
                REPETITIONS_MAX);
        return 2;
    }
    FILE *json = path ? fopen(path, "w") : NULL;
    if (path && !json)
        stop("cannot write the file");
    int code = compare(repetitions, json);
    return json && fclose(json) != 0 ? 1 : code;
}
