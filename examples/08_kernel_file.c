/*
 * A kernel from a file: the same source runs on every processor there is. The file is named on the
 * command line, or the one beside the sources is taken.
 */
#include <muster/muster.h>
#include <stdio.h>

#ifndef KERNELS
#define KERNELS "kernels" /* the folder beside this file */
#endif

#define COUNT 1000000

static float x[COUNT], y[COUNT];

static muster_status run(const char *path, float a, struct muster_error *err)
{
    const struct muster_arg args[] = { MUSTER_VALUE(a), MUSTER_IN(x), MUSTER_INOUT(y) };
    struct muster *m;
    struct muster_kernel *kernel;
    muster_status status = muster_open(&m, NULL, err);
    if (status != MUSTER_OK)
        return status;
    status = muster_kernel_load(m, path, "saxpy", &kernel, err);
    if (status == MUSTER_OK)
        status = muster_for(m, kernel, COUNT, args, 3, NULL, NULL, err);
    muster_close(m, NULL);
    return status;
}

int main(int argc, char **argv)
{
    struct muster_error err;
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)(i % 1000);
        y[i] = (float)(i % 7);
    }
    muster_status status = run(argc > 1 ? argv[1] : KERNELS "/saxpy.c", 2, &err);
    if (status != MUSTER_OK) {
        fprintf(stderr, "%s\n%s\n", err.text, err.fix);
        return 1;
    }
    int wrong = 0;
    for (int i = 0; i < COUNT; i++)
        wrong += y[i] != 2 * (float)(i % 1000) + (float)(i % 7);
    printf("%d of %d are wrong\n", wrong, COUNT);
    return wrong > 0;
}
