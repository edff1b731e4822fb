/*
 * StarPU's part of bench/cholesky: the same calls on the same tiles, its order from its data handles.
 *
 *     cholesky_starpu POLICY N TILE
 */
#include "cholesky_tiles.h"

#include <libgen.h>
#include <starpu.h>
#include <unistd.h>

static starpu_data_handle_t handles[TILES_MAX * TILES_MAX];
static struct tiles tiles;
static bool has_failed;

static void work(enum tile_call call, void *buffers[])
{
    double *at[3] = { NULL, NULL, NULL };
    int reads = tile_reads[call];
    for (int i = 0; i <= reads; i++)
        at[i] = (double *)STARPU_VECTOR_GET_PTR(buffers[i]);
    if (!tile_run(call, tiles.tile, tile_pitch(&tiles), at[0], at[1], at[reads]))
        has_failed = true;
}

static void potrf(void *buffers[], void *user)
{
    (void)user;
    work(TILE_POTRF, buffers);
}
static void trsm(void *buffers[], void *user)
{
    (void)user;
    work(TILE_TRSM, buffers);
}
static void syrk(void *buffers[], void *user)
{
    (void)user;
    work(TILE_SYRK, buffers);
}
static void gemm(void *buffers[], void *user)
{
    (void)user;
    work(TILE_GEMM, buffers);
}

static struct starpu_perfmodel models[TILE_CALLS];
static struct starpu_codelet codelets[TILE_CALLS];

static void describe(void)
{
    static void (*const functions[])(void *[], void *) = { potrf, trsm, syrk, gemm };
    static const char *const names[] = { "muster_potrf", "muster_trsm", "muster_syrk",
                                         "muster_gemm" };
    for (int call = 0; call < TILE_CALLS; call++) {
        models[call].type = STARPU_HISTORY_BASED;
        models[call].symbol = names[call];
        starpu_codelet_init(&codelets[call]);
        codelets[call].cpu_funcs[0] = functions[call];
        codelets[call].model = &models[call];
        codelets[call].nbuffers = tile_reads[call] + 1;
        for (int i = 0; i < tile_reads[call]; i++)
            codelets[call].modes[i] = STARPU_R;
        codelets[call].modes[tile_reads[call]] = STARPU_RW;
    }
}

static void emit(void *user, enum tile_call call, const int *read, int target, int priority)
{
    struct starpu_task *task = starpu_task_create();
    (void)user;
    task->cl = &codelets[call];
    task->priority = priority;
    for (int i = 0; i < tile_reads[call]; i++)
        task->handles[i] = handles[read[i]];
    task->handles[tile_reads[call]] = handles[target];
    if (starpu_task_submit(task) != 0)
        exit(1);
}

static double round_of(void *user)
{
    (void)user;
    for (int j = 0; j < tiles.count; j++)
        for (int i = j; i < tiles.count; i++)
            starpu_vector_data_register(&handles[tile_name(i, j)], STARPU_MAIN_RAM,
                                        (uintptr_t)tile_of(&tiles, tiles.at, i, j),
                                        (uint32_t)(tiles.tile * tiles.tile), sizeof(double));
    double begin = now_ns();
    tiles_submit(tiles.count, emit, NULL);
    starpu_task_wait_for_all();
    double ns = now_ns() - begin;
    for (int j = 0; j < tiles.count; j++)
        for (int i = j; i < tiles.count; i++)
            starpu_data_unregister(handles[tile_name(i, j)]);
    return has_failed ? -1 : ns;
}

int main(int argc, char **argv)
{
    if (argc != 4 || !tiles_open(&tiles, atoi(argv[2]), atoi(argv[3]), false))
        return 2;
    /* What it learns is kept beside the program, so that later repetitions have it. */
    setenv("STARPU_SCHED", argv[1], 1);
    setenv("STARPU_HOME", dirname(argv[0]), 0);
    openblas_set_num_threads(1);
    if (starpu_init(NULL) != 0)
        return 1;
    describe();
    int code = tiles_measure(&tiles, round_of, NULL);
    starpu_shutdown();
    return code;
}
