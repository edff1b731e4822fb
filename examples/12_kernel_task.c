/*
 * Tasks on the host and on devices, one after the other: a function prepares, a kernel computes on
 * whichever device finishes first, a function prints.
 */
#include <muster/muster.h>
#include <stdio.h>

#define COUNT 1000

static float x[COUNT];
static double sum;

static muster_status fill(void *user)
{
    (void)user;
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)i;
    return MUSTER_OK;
}

/* Arguments: a factor, the array. */
static muster_status scale(uint64_t begin, uint64_t end, void *const *args)
{
    float factor = *(const float *)args[0], *array = *(float *const *)args[1];
    for (uint64_t i = begin; i < end; i++)
        array[i] *= factor;
    return MUSTER_OK;
}

static muster_status add_up(void *user)
{
    (void)user;
    for (int i = 0; i < COUNT; i++)
        sum += x[i];
    return MUSTER_OK;
}

static muster_status run(struct muster *m, struct muster_error *err)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = scale };
    float factor = 2;
    const struct muster_arg args[] = { MUSTER_VALUE(factor), MUSTER_INOUT(&x[0]) };
    struct muster_kernel *kernel;
    muster_task tasks[3];
    muster_status status = muster_kernel_from(m, "scale", &form, 1, &kernel, err);
    if (status != MUSTER_OK)
        return status;
    const struct muster_task_desc descs[] = {
        { .size = sizeof *descs, .fn = fill },
        { .size = sizeof *descs,
          .kernel = kernel,
          .args = args,
          .arg_count = 2,
          .items = COUNT,
          .after = &tasks[0],
          .after_count = 1 },
        { .size = sizeof *descs, .fn = add_up, .after = &tasks[1], .after_count = 1 },
    };
    status = muster_submit(m, descs, 3, tasks, err);
    return status == MUSTER_OK ? muster_wait(m, &tasks[2], 1, UINT64_MAX, err) : status;
}

int main(void)
{
    struct muster *m;
    struct muster_error err;
    muster_status status = muster_open(&m, NULL, &err);
    if (status == MUSTER_OK) {
        status = run(m, &err);
        muster_close(m, NULL);
    }
    if (status != MUSTER_OK) {
        fprintf(stderr, "%s\n%s\n", err.text, err.fix);
        return 1;
    }
    printf("%.0f\n", sum);
    return sum == 999000 ? 0 : 1;
}
