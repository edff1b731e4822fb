/*
 * Memory: several blocks reserved as one, a request that is refused in words, pinned host memory,
 * and a table that stays resident on every device that reads it.
 */
#include <muster/muster.h>
#include <stdio.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)
#define LIMIT (64 * MIB)
#define DEVICES_MAX 256
#define COUNT 4096

/* A table that every device needs: popcount of a byte. */
static uint8_t table[256];

static muster_status count_bits(uint64_t begin, uint64_t end, void *const *args)
{
    const uint8_t *bits = *(const uint8_t *const *)args[0];
    uint32_t *out = *(uint32_t *const *)args[1];
    for (uint64_t i = begin; i < end; i++)
        out[i] = (uint32_t)(bits[i & 255] + bits[i >> 8 & 255]);
    return MUSTER_OK;
}

/*
 * Three blocks or none: two programs that need three each cannot end up holding some of them and
 * waiting for the rest.
 */
static muster_status allocate_together(struct muster *m, muster_stream stream,
                                       struct muster_error *err)
{
    const uint64_t bytes[] = { 1 * MIB, 2 * MIB, 4 * MIB };
    muster_block blocks[3];
    muster_status status = muster_block_allocate_many(m, stream, bytes, 3, 0, blocks, err);
    for (int i = 0; i < 3 && status == MUSTER_OK; i++)
        status = muster_block_free(m, stream, blocks[i], err);
    return status;
}

/* More than the budget will ever hold is refused at once, and nothing smaller is given instead. */
static muster_status ask_too_much(struct muster *m, muster_stream stream, struct muster_error *err)
{
    muster_block block;
    struct muster_error refusal;
    muster_status status = muster_block_allocate(m, stream, 1024 * MIB, &block, &refusal);
    if (status == MUSTER_OK)
        return muster_block_free(m, stream, block, err);
    printf("  refused as %s: %s\n", muster_status_name(status), refusal.text);
    printf("  what would help: %s\n", refusal.fix);
    if (status == MUSTER_E_TOO_LARGE)
        return MUSTER_OK;
    *err = refusal;
    return status;
}

/*
 * The table is copied to the device the first time it is asked for there, and never again while it
 * stays.
 */
static muster_status count_on(struct muster *m, muster_stream stream, muster_data data,
                              struct muster_kernel *kernel, uint32_t *pinned,
                              struct muster_error *err)
{
    muster_block bits, out;
    muster_status status;
    if ((status = muster_data_resident(m, data, stream, &bits, err)) ||
        (status = muster_block_allocate(m, stream, COUNT * sizeof *pinned, &out, err)))
        return status;
    struct muster_operand args[] = { MUSTER_BLOCK_READ(bits), MUSTER_BLOCK_WRITE(out) };
    if (!(status = muster_launch(m, stream, kernel, 0, COUNT, args, 2, NULL, err)) &&
        !(status = muster_copy_out(m, stream, pinned, out, 0, COUNT * sizeof *pinned, err)))
        status = muster_block_free(m, stream, out, err);
    muster_status waited = muster_stream_wait(m, stream, UINT64_MAX, status ? NULL : err);
    return status ? status : waited;
}

static muster_status use_device(struct muster *m, muster_device device, muster_data data,
                                struct muster_kernel *kernel, int *wrong, struct muster_error *err)
{
    struct muster_device_info info = { .size = sizeof info };
    muster_stream stream;
    void *memory;
    muster_status status;
    if ((status = muster_device_info(m, device, &info, err)))
        return status;
    printf("%s\n", info.id);
    /* The kernel is a C function of this program; 08_kernel_file has one for every device. */
    if (!(info.forms & MUSTER_KERNEL_FUNCTION)) {
        printf("  does not run C functions\n");
        return MUSTER_OK;
    }
    if ((status = muster_stream_acquire(m, device, 0, &stream, err)))
        return status;
    /*
     * Pinned memory is the process's own: what has arrived there stays even if the device is lost.
     */
    if ((status = allocate_together(m, stream, err)) || (status = ask_too_much(m, stream, err)) ||
        (status = muster_host_allocate(m, device, COUNT * sizeof(uint32_t), &memory, err)))
        return status;
    uint32_t *pinned = memory;
    memset(pinned, 0, COUNT * sizeof *pinned);
    if ((status = count_on(m, stream, data, kernel, pinned, err)))
        return status;
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t expected = 0;
        for (uint32_t rest = i; rest; rest >>= 1)
            expected += rest & 1;
        *wrong += pinned[i] != expected;
    }
    if ((status = muster_host_free(m, memory, err)))
        return status;
    return muster_stream_release(m, stream, err);
}

static muster_status run(struct muster *m, int *wrong, struct muster_error *err)
{
    muster_device devices[DEVICES_MAX];
    size_t count;
    muster_data data;
    struct muster_kernel *kernel;
    struct muster_kernel_form form = { .size = sizeof form,
                                       .kind = MUSTER_KERNEL_FUNCTION,
                                       .function = count_bits };
    muster_status status;
    if ((status = muster_device_list(m, devices, DEVICES_MAX, &count, err)) ||
        (status = muster_data_create(m, table, sizeof table, 0, &data, err)) ||
        (status = muster_kernel_from(m, "count_bits", &form, 1, &kernel, err)))
        return status;
    for (size_t i = 0; i < count && status == MUSTER_OK; i++)
        status = use_device(m, devices[i], data, kernel, wrong, err);
    muster_kernel_destroy(kernel);
    muster_status destroyed = muster_data_destroy(m, data, status ? NULL : err);
    return status ? status : destroyed;
}

int main(void)
{
    struct muster *m;
    struct muster_error err;
    struct muster_options options = { .size = sizeof options,
                                      .memory_limit = LIMIT /* on each device */ };
    for (unsigned i = 1; i < 256; i++)
        table[i] = (uint8_t)((i & 1) + table[i >> 1]);
    if (muster_open(&m, &options, &err) != MUSTER_OK) {
        fprintf(stderr, "%s\n%s\n", err.text, err.fix);
        return 1;
    }
    int wrong = 0;
    muster_status status = run(m, &wrong, &err);
    if (status != MUSTER_OK)
        fprintf(stderr, "%s\n%s\n", err.text, err.fix);
    muster_close(m, NULL);
    printf("%d wrong counts\n", wrong);
    return status == MUSTER_OK && wrong == 0 ? 0 : 1;
}
