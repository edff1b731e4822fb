/*
 * A first program: one kernel over a few numbers on the processors of this machine.
 */
#include <muster/muster.h>
#include <stdio.h>

/* Items [begin, end) of a launch. args[0] points to the address of the block. */
static muster_status square(uint64_t begin, uint64_t end, void *const *args)
{
    float *x = *(float *const *)args[0];
    for (uint64_t i = begin; i < end; i++)
        x[i] *= x[i];
    return MUSTER_OK;
}

static int run(struct muster *m, float *x, size_t count, struct muster_error *err)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = square };
    struct muster_kernel *kernel;
    muster_device device;
    muster_stream stream;
    muster_block block;
    return muster_device_find(m, "cpu:0", &device, err) ||
           muster_kernel_from(m, "square", &form, 1, &kernel, err) ||
           muster_stream_acquire(m, device, 0, &stream, err) ||
           muster_block_allocate(m, stream, count * sizeof *x, &block, err) ||
           muster_copy_in(m, stream, block, 0, x, count * sizeof *x, err) ||
           muster_launch(m, stream, kernel, 0, count,
                         &(struct muster_operand)MUSTER_BLOCK_UPDATE(block), 1, NULL, err) ||
           muster_copy_out(m, stream, x, block, 0, count * sizeof *x, err) ||
           muster_stream_wait(m, stream, UINT64_MAX, err);
}

int main(void)
{
    float x[] = { 1, 2, 3, 4 };
    struct muster *m = NULL;
    struct muster_error err;
    int failed = muster_open(&m, NULL, &err) || run(m, x, 4, &err);
    if (failed)
        fprintf(stderr, "%s\n%s\n", err.text, err.fix);
    else
        printf("%g %g %g %g\n", x[0], x[1], x[2], x[3]);
    return muster_close(m, NULL) || failed;
}
