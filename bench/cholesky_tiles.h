/*
 * A Cholesky factorization in tiles: the matrix, the four calls of OpenBLAS that all parties make, the order
 * in which they are submitted, and the check of what came out.
 */
#ifndef BENCH_CHOLESKY_TILES_H
#define BENCH_CHOLESKY_TILES_H

#include "peers.h"

#include <cblas.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/* OpenBLAS's own; its headers do not declare what it has of LAPACK. */
extern int dpotrf_(const char *half, const int *n, double *a, const int *pitch, int *info);

#define TILES_MAX 32      /* of a side */
#define CHOLESKY_ROUNDS 3 /* the best of this many in one process, after one to warm up */

/* The lower half, in columns. Each tile is a block of its own, or where it is in a matrix of whole columns. */
struct tiles {
    double *at, *original;
    int n, tile, count;
    bool is_whole;
};

static inline double *tile_of(const struct tiles *tiles, double *at, int i, int j)
{
    size_t tile = (size_t)tiles->tile, n = (size_t)tiles->n;
    if (tiles->is_whole)
        return at + (size_t)j * tile * n + (size_t)i * tile;
    return at + ((size_t)j * (size_t)tiles->count + (size_t)i) * tile * tile;
}

static inline int tile_pitch(const struct tiles *tiles)
{
    return tiles->is_whole ? tiles->n : tiles->tile;
}

/* Symmetric, and its diagonal is larger than the rest of its row: positive definite. */
static inline double element_of(int n, int i, int j)
{
    uint32_t low = (uint32_t)(i < j ? i : j), high = (uint32_t)(i < j ? j : i);
    uint32_t mixed = (low * 2654435761u) ^ (high * 40503u + 12345u);
    mixed = (mixed ^ (mixed >> 15)) * 2246822519u;
    return i == j ? n : (double)(mixed >> 8) / 16777216.0 - 0.5;
}

static inline double *tiles_memory(size_t bytes)
{
    void *at = aligned_alloc((size_t)2 << 20, bytes);
    if (at)
        (void)madvise(at, bytes, MADV_HUGEPAGE); /* the same for all, where there are such pages */
    return at;
}

static inline bool tiles_open(struct tiles *tiles, int n, int tile, bool is_whole)
{
    size_t bytes = (size_t)n * (size_t)n * sizeof(double);
    if (n < 512 || tile < 16 || n % tile != 0 || n / tile > TILES_MAX)
        return false;
    *tiles =
        (struct tiles){ tiles_memory(bytes), tiles_memory(bytes), n, tile, n / tile, is_whole };
    if (!tiles->at || !tiles->original)
        return false;
    int pitch = tile_pitch(tiles);
    for (int j = 0; j < n; j++)
        for (int i = 0; i < n; i++)
            tile_of(tiles, tiles->original, i / tile, j / tile)[(j % tile) * pitch + i % tile] =
                element_of(n, i, j);
    return true;
}

static inline void tiles_refill(const struct tiles *tiles)
{
    memcpy(tiles->at, tiles->original, (size_t)tiles->n * (size_t)tiles->n * sizeof(double));
}

/* ---- The four calls. ---- */

enum tile_call { TILE_POTRF, TILE_TRSM, TILE_SYRK, TILE_GEMM };
#define TILE_CALLS 4
static const int tile_reads[TILE_CALLS] = { 0, 1, 1, 2 };

static inline bool tile_run(enum tile_call call, int n, int pitch, const double *a, const double *b,
                            double *c)
{
    int info = 0;
    switch (call) {
    case TILE_POTRF:
        dpotrf_("L", &n, c, &pitch, &info);
        break;
    case TILE_TRSM:
        cblas_dtrsm(CblasColMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, n, n, 1, a,
                    pitch, c, pitch);
        break;
    case TILE_SYRK:
        cblas_dsyrk(CblasColMajor, CblasLower, CblasNoTrans, n, n, -1, a, pitch, 1, c, pitch);
        break;
    case TILE_GEMM:
        cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, n, n, n, -1, a, pitch, b, pitch, 1, c,
                    pitch);
        break;
    }
    return info == 0;
}

/*
 * One call: it reads the tiles `read`, as many as tile_reads says, and updates `target`. Tiles are named i + j * TILES_MAX.
 * The higher `priority`, the sooner, 0 to 3.
 */
typedef void tile_emit(void *user, enum tile_call call, const int *read, int target, int priority);

static inline int tile_name(int i, int j)
{
    return i + j * TILES_MAX;
}

/*
 * Step by step, the column that the next step begins with first. What leads to the next diagonal goes before
 * the rest of a step.
 */
static inline void tiles_submit(int count, tile_emit *emit, void *user)
{
    for (int k = 0; k < count; k++) {
        emit(user, TILE_POTRF, NULL, tile_name(k, k), 3);
        for (int i = k + 1; i < count; i++) {
            const int read[] = { tile_name(k, k) };
            emit(user, TILE_TRSM, read, tile_name(i, k), 2);
        }
        for (int j = k + 1; j < count; j++)
            for (int i = j; i < count; i++) {
                const int read[] = { tile_name(i, k), tile_name(j, k) };
                emit(user, i == j ? TILE_SYRK : TILE_GEMM, read, tile_name(i, j), j == k + 1);
            }
    }
}

/* ---- The check. ---- */

/* The largest difference between the matrix and the product of its factors, in units of n x epsilon x the diagonal. */
static inline double tiles_residual(const struct tiles *tiles)
{
    int n = tiles->tile, pitch = tile_pitch(tiles);
    double worst = 0;
    for (int k = 0; k < tiles->count; k++)
        for (int x = 1; x < n; x++)
            for (int y = 0; y < x; y++)
                tile_of(tiles, tiles->at, k, k)[x * pitch + y] = 0; /* not a part of the factor */
    for (int j = 0; j < tiles->count; j++)
        for (int i = j; i < tiles->count; i++) {
            double *sum = tile_of(tiles, tiles->original, i, j);
            for (int k = 0; k <= j; k++)
                cblas_dgemm(CblasColMajor, CblasNoTrans, CblasTrans, n, n, n, -1,
                            tile_of(tiles, tiles->at, i, k), pitch, tile_of(tiles, tiles->at, j, k),
                            pitch, 1, sum, pitch);
            for (int x = 0; x < n; x++)
                for (int y = 0; y < n; y++)
                    worst = fmax(worst,
                                 isnan(sum[x * pitch + y]) ? INFINITY : fabs(sum[x * pitch + y]));
        }
    return worst / ((double)tiles->n * tiles->n * DBL_EPSILON);
}

/*
 * `round` factorizes `tiles->at` and says how long it took, or a negative number. Prints GFLOP/s of the best
 * round and the last one's residual; the original is used up by that.
 */
static inline int tiles_measure(const struct tiles *tiles, double (*round)(void *), void *user)
{
    double best = 1e300, n = tiles->n;
    for (int i = 0; i <= CHOLESKY_ROUNDS; i++) {
        tiles_refill(tiles);
        double ns = round(user);
        if (ns < 0)
            return 1;
        best = i > 0 && ns < best ? ns : best;
    }
    double residual = tiles_residual(tiles);
    printf("%.9g %.3g\n", n * n * n / 3 / best, residual);
    return fflush(stdout) == 0 && residual < 1 ? 0 : 1;
}

#endif
