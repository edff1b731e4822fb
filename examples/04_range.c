/*
 * A range through a kernel: y = a x + y on every processor there is, cut and placed by Muster.
 */
#include <muster/muster.h>
#include <stdio.h>

#define COUNT 1000000

static float x[COUNT], y[COUNT];

/* Items [begin, end) of a unit; arrays begin with the unit's first item. */
static muster_status saxpy(uint64_t begin, uint64_t end, void *const *args)
{
    float a = *(const float *)args[0], *to = *(float *const *)args[2];
    const float *from = *(const float *const *)args[1];
    for (uint64_t i = begin; i < end; i++)
        to[i] = a * from[i] + to[i];
    return MUSTER_OK;
}

static muster_status run(struct muster *m, float a, struct muster_error *err)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = saxpy };
    const struct muster_arg args[] = { MUSTER_VALUE(a), MUSTER_IN(x), MUSTER_INOUT(y) };
    struct muster_kernel *kernel;
    muster_status status = muster_kernel_from(m, "saxpy", &form, 1, &kernel, err);
    return status ? status : muster_for(m, kernel, COUNT, args, 3, NULL, NULL, err);
}

int main(void)
{
    struct muster *m = NULL;
    struct muster_error err;
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)(i % 1000);
        y[i] = (float)(i % 7);
    }
    muster_status status = muster_open(&m, NULL, &err);
    if (status == MUSTER_OK)
        status = run(m, 2, &err);
    if (status != MUSTER_OK)
        fprintf(stderr, "%s\n%s\n", err.text, err.fix);
    muster_close(m, NULL);
    int wrong = 0;
    for (int i = 0; i < COUNT; i++)
        wrong += y[i] != 2 * (float)(i % 1000) + (float)(i % 7);
    printf("%d of %d are wrong\n", wrong, COUNT);
    return status != MUSTER_OK || wrong > 0;
}
