/*
 * A reduction: mean and variance of a million items, and the lowest and highest with their places, on every
 * device. The results have the same bits whatever devices there are and whatever becomes of them.
 */
#include <muster/muster.h>
#include <stdio.h>

#ifndef KERNELS
#define KERNELS "kernels" /* the folder beside this file */
#endif

#define COUNT 1000000

/* As the kernels' files have them. */
struct moments {
    uint64_t count;
    double mean, squares;
};
struct extremes {
    uint64_t lowest_at, highest_at;
    float lowest, highest;
};

static float x[COUNT];

static muster_status run(struct muster *m, struct moments *moments, struct extremes *extremes,
                         struct muster_error *err)
{
    const struct muster_arg args[] = { MUSTER_FIRST, MUSTER_IN(x) };
    struct muster_kernel *first, *second;
    muster_status status = muster_kernel_load(m, KERNELS "/moments.c", NULL, &first, err);
    if (status == MUSTER_OK)
        status = muster_kernel_load(m, KERNELS "/extremes.c", NULL, &second, err);
    if (status == MUSTER_OK)
        status =
            muster_reduce(m, first, COUNT, args + 1, 1, moments, sizeof *moments, NULL, NULL, err);
    if (status == MUSTER_OK)
        status =
            muster_reduce(m, second, COUNT, args, 2, extremes, sizeof *extremes, NULL, NULL, err);
    return status;
}

int main(void)
{
    struct muster *m = NULL;
    struct moments moments = { .count = 0 };
    struct extremes extremes = { .lowest_at = 0 };
    struct muster_error err;
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)(i % 1001) / 1000;
    muster_status status = muster_open(&m, NULL, &err);
    if (status == MUSTER_OK)
        status = run(m, &moments, &extremes, &err);
    if (status != MUSTER_OK)
        fprintf(stderr, "%s\n%s\n", err.text, err.fix);
    else
        printf("%llu items, mean %.6f, variance %.6f, lowest %g at %llu, highest %g at %llu\n",
               (unsigned long long)moments.count, moments.mean,
               moments.squares / (double)moments.count, (double)extremes.lowest,
               (unsigned long long)extremes.lowest_at, (double)extremes.highest,
               (unsigned long long)extremes.highest_at);
    muster_close(m, NULL);
    return status != MUSTER_OK || moments.count != COUNT || extremes.lowest_at != 0 ||
           extremes.highest_at != 1000;
}
