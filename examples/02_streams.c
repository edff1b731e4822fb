/*
 * Two streams of one device share a block. The first copies numbers in and squares them; the second
 * copies the result out. Nobody writes down that the second has to wait: the block knows its last
 * writer, so Muster orders them on the device.
 */
#include <muster/muster.h>
#include <stdio.h>

#define COUNT 100000

static float numbers[COUNT], squares[COUNT];

/*
 * Does items [begin, end); several threads may each have a part. args[0] points to the block's
 * address.
 */
static muster_status square(uint64_t begin, uint64_t end, void *const *args)
{
    float *x = *(float *const *)args[0];
    for (uint64_t i = begin; i < end; i++)
        x[i] *= x[i];
    return MUSTER_OK;
}

static muster_status run(struct muster *m, struct muster_error *err)
{
    muster_device device;
    muster_stream up, down;
    muster_block block;
    struct muster_kernel *kernel;
    struct muster_kernel_form form = { .size = sizeof form,
                                       .kind = MUSTER_KERNEL_FUNCTION,
                                       .function = square };
    muster_status status;

    if ((status = muster_device_find(m, "cpu:0", &device, err)) ||
        (status = muster_stream_acquire(m, device, 0, &up, err)) ||
        (status = muster_stream_acquire(m, device, 0, &down, err)) ||
        (status = muster_kernel_from(m, "square", &form, 1, &kernel, err)))
        return status;

    /* All of these only enqueue, and return at once. */
    if (!(status = muster_block_allocate(m, up, sizeof numbers, &block, err))) {
        struct muster_operand args[] = { MUSTER_BLOCK_UPDATE(block) };
        if (!(status = muster_copy_in(m, up, block, 0, numbers, sizeof numbers, err)) &&
            !(status = muster_launch(m, up, kernel, 0, COUNT, args, 1, NULL, err)) &&
            !(status = muster_copy_out(m, down, squares, block, 0, sizeof squares, err)))
            status = muster_block_free(m, down, block, err);
    }

    /*
     * `numbers` and `squares` are in use until both streams are done, however the calls above went.
     */
    muster_status first = muster_stream_wait(m, up, UINT64_MAX, status ? NULL : err);
    muster_status second = muster_stream_wait(m, down, UINT64_MAX, status || first ? NULL : err);
    muster_kernel_destroy(kernel);
    muster_stream_release(m, down, NULL);
    muster_stream_release(m, up, NULL);
    return status ? status : first ? first : second;
}

int main(void)
{
    struct muster *m;
    struct muster_error err;
    for (int i = 0; i < COUNT; i++)
        numbers[i] = (float)(i % 1000);
    if (muster_open(&m, NULL, &err) != MUSTER_OK) {
        fprintf(stderr, "%s\n%s\n", err.text, err.fix);
        return 1;
    }
    muster_status status = run(m, &err);
    if (status != MUSTER_OK)
        fprintf(stderr, "%s\n%s\n", err.text, err.fix);
    muster_close(m, NULL);

    int wrong = 0;
    for (int i = 0; i < COUNT; i++)
        wrong += squares[i] != (float)(i % 1000) * (float)(i % 1000);
    printf("%d of %d squares are right\n", COUNT - wrong, COUNT);
    return status == MUSTER_OK && wrong == 0 ? 0 : 1;
}
