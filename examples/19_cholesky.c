/*
 * A tiled Cholesky factorization: four kinds of tasks that say which tiles they read and write. Nothing
 * else says what goes after what. The tiles are written in C here; with OpenBLAS each is one call of it.
 */
#include <math.h>
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>

#define SIDE 256 /* of the matrix */
#define TILE 32
#define TILES (SIDE / TILE)

static double a[SIDE][SIDE], original[SIDE][SIDE];

/* Row `i` of the tile of access `n`. */
static double *row(const struct muster_native *native, int n, int i)
{
    return (double *)((char *)native->pointers[n] + (uint64_t)i * native->pitches[n]);
}

static muster_status potrf(void *user, const struct muster_native *native)
{
    (void)user;
    for (int j = 0; j < TILE; j++)
        for (int i = j; i < TILE; i++) {
            double sum = row(native, 0, i)[j];
            for (int k = 0; k < j; k++)
                sum -= row(native, 0, i)[k] * row(native, 0, j)[k];
            if (i == j && sum <= 0)
                return MUSTER_E_FAILED; /* not positive definite */
            row(native, 0, i)[j] = i == j ? sqrt(sum) : sum / row(native, 0, j)[j];
        }
    return MUSTER_OK;
}

static muster_status trsm(void *user, const struct muster_native *native)
{
    (void)user;
    for (int i = 0; i < TILE; i++)
        for (int j = 0; j < TILE; j++) {
            double sum = row(native, 1, i)[j];
            for (int k = 0; k < j; k++)
                sum -= row(native, 1, i)[k] * row(native, 0, j)[k];
            row(native, 1, i)[j] = sum / row(native, 0, j)[j];
        }
    return MUSTER_OK;
}

/* The last of the accesses -= the first x the second, transposed; of a diagonal tile both are one. */
static muster_status gemm(void *user, const struct muster_native *native)
{
    int c = (int)native->count - 1, b = c - 1;
    (void)user;
    for (int i = 0; i < TILE; i++)
        for (int j = 0; j < TILE; j++)
            for (int k = 0; k < TILE; k++)
                row(native, c, i)[j] -= row(native, 0, i)[k] * row(native, b, j)[k];
    return MUSTER_OK;
}

static muster_status submit(struct muster *m, const char *name,
                            muster_status (*body)(void *, const struct muster_native *),
                            const struct muster_task_access *accesses, size_t count, int priority,
                            struct muster_error *err)
{
    const struct muster_body form = { sizeof form, "cpu", body };
    const struct muster_task_desc task = { .size = sizeof task,
                                           .name = name,
                                           .accesses = accesses,
                                           .access_count = count,
                                           .bodies = &form,
                                           .body_count = 1,
                                           .priority = priority };
    return muster_submit(m, &task, 1, NULL, err);
}

static muster_status factorize(struct muster *m, muster_data t[TILES][TILES],
                               struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    for (int k = 0; k < TILES && status == MUSTER_OK; k++) {
        struct muster_task_access first[] = { MUSTER_ACCESS(t[k][k], MUSTER_READ_WRITE) };
        status = submit(m, "potrf", potrf, first, 1, 2, err);
        for (int i = k + 1; i < TILES && status == MUSTER_OK; i++) {
            struct muster_task_access panel[] = { MUSTER_ACCESS(t[k][k], MUSTER_READ),
                                                  MUSTER_ACCESS(t[i][k], MUSTER_READ_WRITE) };
            status = submit(m, "trsm", trsm, panel, 2, 1, err);
        }
        for (int i = k + 1; i < TILES; i++)
            for (int j = k + 1; j <= i && status == MUSTER_OK; j++) {
                struct muster_task_access update[3] = { MUSTER_ACCESS(t[i][k], MUSTER_READ),
                                                        MUSTER_ACCESS(t[j][k], MUSTER_READ) };
                int count = i == j ? 1 : 2;
                update[count] =
                    (struct muster_task_access)MUSTER_ACCESS(t[i][j], MUSTER_READ_WRITE);
                status = submit(m, "gemm", gemm, update, (size_t)count + 1, 0, err);
            }
    }
    return status;
}

static muster_status run(struct muster *m, struct muster_error *err)
{
    static muster_data t[TILES][TILES];
    muster_data whole;
    muster_status status = muster_data_create(m, a, sizeof a, 0, &whole, err);
    for (uint64_t i = 0; i < TILES && status == MUSTER_OK; i++)
        for (uint64_t j = 0; j <= i && status == MUSTER_OK; j++)
            status = muster_data_tile(m, whole, i * TILE, TILE, j * TILE * sizeof(double),
                                      TILE * sizeof(double), sizeof a[0], &t[i][j], err);
    if (status == MUSTER_OK)
        status = factorize(m, t, err);
    if (status == MUSTER_OK)
        status = muster_wait(m, NULL, 0, UINT64_MAX, err);
    for (int i = 0; i < TILES; i++)
        for (int j = 0; j <= i; j++)
            (void)muster_data_destroy(m, t[i][j], NULL);
    (void)muster_data_destroy(m, whole, NULL);
    return status;
}

/* The largest difference between the matrix and the product of its factors. */
static double error_of(void)
{
    double worst = 0;
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j <= i; j++) {
            double sum = 0;
            for (int k = 0; k <= j; k++)
                sum += a[i][k] * a[j][k];
            worst = fmax(worst, fabs(sum - original[i][j]));
        }
    return worst;
}

int main(void)
{
    struct muster *m = NULL;
    struct muster_error err;
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++)
            a[i][j] = original[i][j] = i == j ? SIDE : 1.0 / (1 + abs(i - j));
    muster_status status = muster_open(&m, NULL, &err);
    if (status == MUSTER_OK)
        status = run(m, &err);
    if (status != MUSTER_OK)
        fprintf(stderr, "%s\n%s\n", err.text, err.fix);
    muster_close(m, NULL);
    double worst = error_of();
    printf("%d x %d in tiles of %d: largest error %.1e\n", SIDE, SIDE, TILE, worst);
    return status != MUSTER_OK || worst > 1e-9;
}
