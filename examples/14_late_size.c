/*
 * Results whose size is known late: rows of samples are turned into differences on the device, and
 * what comes back is compressed with zstd on the processor, as many units at a time as there are
 * threads for it, while the device is busy with the next ones. The sink is given what was compressed,
 * in order, and here undoes it all to see whether it is right.
 */
#include <muster/muster.h>
#include <stdio.h>
#include <zstd.h>

#ifndef KERNELS
#define KERNELS "kernels" /* the folder beside this file */
#endif

#define SAMPLES 256
#define ROWS 20000
#define UNIT_ROWS 512
#define LEVEL 3
/* What does not compress becomes larger, by less than this. */
#define SPARE_BYTES (ZSTD_COMPRESSBOUND(UNIT_ROWS * SAMPLES) - UNIT_ROWS * SAMPLES)

static unsigned char rows[ROWS][SAMPLES];

enum { IN, D_IN, D_OUT, PLAIN, PACKED };

/* On a thread of Muster's, beside other units. */
static muster_status compress(struct muster_unit *unit, void *user)
{
    (void)user;
    struct muster_view plain = { .size = sizeof plain }, packed = { .size = sizeof packed };
    muster_status status = muster_unit_view(unit, PLAIN, &plain, NULL);
    if (status || (status = muster_unit_view(unit, PACKED, &packed, NULL)))
        return status;
    size_t bytes = ZSTD_compress(packed.host, packed.capacity, plain.host, plain.bytes, LEVEL);
    return ZSTD_isError(bytes) ? MUSTER_E_FAILED : muster_unit_set_bytes(unit, PACKED, bytes, NULL);
}

struct taken {
    size_t bytes;
    int wrong;
};

static muster_status unpack(void *user, const struct muster_result *result)
{
    static unsigned char plain[UNIT_ROWS][SAMPLES];
    struct taken *taken = user;
    uint64_t begin = result->range.begin, end = result->range.end;
    size_t bytes =
        ZSTD_decompress(plain, sizeof plain, result->outputs[0], result->output_bytes[0]);
    taken->bytes += result->output_bytes[0];
    if (bytes != (end - begin) * SAMPLES)
        return MUSTER_E_PARSE;
    for (uint64_t row = begin; row < end; row++) {
        unsigned char sample = 0;
        for (int k = 0; k < SAMPLES; k++) {
            sample = (unsigned char)(sample + plain[row - begin][k]);
            taken->wrong += sample != rows[row][k];
        }
    }
    return MUSTER_OK;
}

static muster_status run(struct muster *m, struct taken *taken, struct muster_error *err)
{
    struct muster_kernel *delta;
    struct muster_pipeline *pipeline;
    struct muster_job *job;
    const struct muster_buffer buffers[] = {
        { sizeof *buffers, "in", MUSTER_HOST, SAMPLES, 0, 0, 0 },
        { sizeof *buffers, "d_in", MUSTER_DEVICE, SAMPLES, 0, 0, 0 },
        { sizeof *buffers, "d_out", MUSTER_DEVICE, SAMPLES, 0, 0, 0 },
        { sizeof *buffers, "plain", MUSTER_HOST, SAMPLES, 0, 4, 0 },
        { sizeof *buffers, "packed", MUSTER_HOST, SAMPLES, SPARE_BYTES, 4, 0 },
    };
    muster_status status = muster_kernel_load(m, KERNELS "/delta.c", "delta", &delta, err);
    if (status != MUSTER_OK)
        return status;
    const struct muster_stage stages[] = {
        { sizeof *stages, "up", "h2d", 1 << IN, 1 << D_IN, .flags = MUSTER_COPY },
        { sizeof *stages, "delta", "compute", 1 << D_IN, 1 << D_OUT, .kernel = delta },
        { sizeof *stages, "down", "d2h", 1 << D_OUT, 1 << PLAIN, .flags = MUSTER_COPY },
        { sizeof *stages, "compress", "host", 1 << PLAIN, 1 << PACKED, .run = compress },
    };
    status = muster_pipeline_create(m, buffers, 5, stages, 4, NULL, &pipeline, err);
    if (status != MUSTER_OK)
        return status;
    const struct muster_run_options how = { .size = sizeof how, .unit_items = UNIT_ROWS };
    const struct muster_job_desc desc = { .size = sizeof desc,
                                          .pipeline = pipeline,
                                          .items = ROWS,
                                          .input = rows,
                                          .sink = unpack,
                                          .sink_user = taken,
                                          .options = &how };
    if ((status = muster_start(m, &desc, &job, err)))
        return status;
    status = muster_job_wait(job, NULL, err);
    muster_job_destroy(job);
    return status;
}

int main(void)
{
    struct muster *m = NULL;
    struct muster_error err;
    struct taken taken = { 0, 0 };
    for (int row = 0; row < ROWS; row++)
        for (int k = 0; k < SAMPLES; k++)
            rows[row][k] = (unsigned char)(row + k * k / 64 + k / 5);
    muster_status status = muster_open(&m, NULL, &err);
    if (status == MUSTER_OK)
        status = run(m, &taken, &err);
    if (status != MUSTER_OK)
        fprintf(stderr, "%s\n%s\n", err.text, err.fix);
    muster_close(m, NULL);
    printf("%zu bytes became %zu, %d are wrong\n", sizeof rows, taken.bytes, taken.wrong);
    return status != MUSTER_OK || taken.wrong > 0 || taken.bytes >= sizeof rows;
}
