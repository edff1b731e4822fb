/*
 * backend ID: the runtime works on a device of a backend that MUSTER_BACKENDS has brought. Two
 * streams share a block, the second reads what the first has written; a kernel that fails is told.
 */
#include <muster/muster.h>
#include <stdio.h>

#define COUNT 100000
#define TIMEOUT_NS UINT64_C(60000000000)

static uint32_t numbers[COUNT];

/* Adds args[1] to each number, and fails if that is nothing. */
static muster_status add(uint64_t begin, uint64_t end, void *const *args)
{
    uint32_t *block = *(uint32_t *const *)args[0];
    uint32_t value = *(const uint32_t *)args[1];
    for (uint64_t i = begin; i < end; i++)
        block[i] += value;
    return value == 0 ? MUSTER_E_FAILED : MUSTER_OK;
}

static muster_status work(struct muster *m, const char *id, muster_status *failure,
                          struct muster_error *err)
{
    muster_device device;
    muster_stream first, second;
    muster_block block;
    struct muster_kernel *kernel;
    const uint32_t seven = 7, zero = 0;
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = add };
    muster_status status;
    if ((status = muster_device_find(m, id, &device, err)) ||
        (status = muster_stream_acquire(m, device, 0, &first, err)) ||
        (status = muster_stream_acquire(m, device, 0, &second, err)) ||
        (status = muster_kernel_from(m, "add", &form, 1, &kernel, err)) ||
        (status = muster_block_allocate(m, first, sizeof numbers, &block, err)))
        return status;
    const struct muster_operand good[] = { MUSTER_BLOCK_UPDATE(block), MUSTER_SCALAR(seven) };
    const struct muster_operand bad[] = { MUSTER_BLOCK_UPDATE(block), MUSTER_SCALAR(zero) };
    if ((status = muster_copy_in(m, first, block, 0, numbers, sizeof numbers, err)) ||
        (status = muster_launch(m, first, kernel, 0, COUNT, good, 2, NULL, err)) ||
        (status = muster_launch(m, first, kernel, 0, 1, bad, 2, failure, err)) ||
        (status = muster_copy_out(m, second, numbers, block, 0, sizeof numbers, err)) ||
        (status = muster_stream_wait(m, second, TIMEOUT_NS, err)) ||
        (status = muster_block_free(m, second, block, err)) ||
        (status = muster_stream_wait(m, first, TIMEOUT_NS, err)))
        return status;
    muster_kernel_destroy(kernel);
    return MUSTER_OK;
}

int main(int argc, char **argv)
{
    struct muster *m;
    struct muster_error err;
    muster_status failure = MUSTER_OK;
    if (argc != 2)
        return 2;
    for (uint32_t i = 0; i < COUNT; i++)
        numbers[i] = i;
    if (muster_open(&m, NULL, &err) != MUSTER_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    if (work(m, argv[1], &failure, &err) != MUSTER_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    muster_status status = muster_close(m, &err);
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < COUNT; i++)
        wrong += numbers[i] != i + 7;
    printf("%s: %u of %d wrong, the failing kernel said %s, close %s\n", argv[1], wrong, COUNT,
           muster_status_name(failure), muster_status_name(status));
    return wrong == 0 && failure == MUSTER_E_FAILED && status == MUSTER_OK ? 0 : 1;
}
