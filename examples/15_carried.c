/*
 * State that passes from unit to unit: a filter over a long recording of many channels, whose memory
 * stays on the device. Units go through it strictly one after the other, on one device, while the
 * copies of others go on beside it.
 */
#include <muster/muster.h>
#include <stdio.h>

#ifndef KERNELS
#define KERNELS "kernels" /* the folder beside this file */
#endif

#define CHANNELS 64u
#define MOMENTS 50000u
#define UNIT_MOMENTS 1000

static int32_t signal[MOMENTS][CHANNELS], smoothed[MOMENTS][CHANNELS];

enum { IN, D_IN, MEMORY, D_OUT, OUT };

/* The kernel runs over channels, not over items: each walks through the unit's moments. */
static muster_status smooth(struct muster_unit *unit, void *user)
{
    uint64_t begin, end;
    muster_unit_range(unit, &begin, &end);
    const uint32_t channels = CHANNELS, moments = (uint32_t)(end - begin);
    const struct muster_unit_arg args[] = { MUSTER_VIEW(D_IN), MUSTER_VIEW(MEMORY),
                                            MUSTER_VIEW(D_OUT), MUSTER_UNIT_VALUE(channels),
                                            MUSTER_UNIT_VALUE(moments) };
    return muster_unit_launch(unit, user, channels, args, 5, NULL);
}

static muster_status run(struct muster *m, struct muster_report *report, struct muster_error *err)
{
    struct muster_kernel *kernel;
    struct muster_pipeline *pipeline;
    struct muster_job *job;
    const size_t moment = sizeof signal[0];
    const struct muster_buffer buffers[] = {
        { sizeof *buffers, "in", MUSTER_HOST, moment, 0, 0, 0 },
        { sizeof *buffers, "d_in", MUSTER_DEVICE, moment, 0, 0, 0 },
        { sizeof *buffers, "memory", MUSTER_DEVICE, 0, moment, 1, MUSTER_CARRIED },
        { sizeof *buffers, "d_out", MUSTER_DEVICE, moment, 0, 0, 0 },
        { sizeof *buffers, "out", MUSTER_HOST, moment, 0, 0, 0 }
    };
    muster_status status = muster_kernel_load(m, KERNELS "/smooth.c", "smooth", &kernel, err);
    if (status != MUSTER_OK)
        return status;
    const struct muster_stage stages[] = {
        { sizeof *stages, "up", "h2d", 1 << IN, 1 << D_IN, .flags = MUSTER_COPY },
        { sizeof *stages, "smooth", "compute", .reads = 1 << D_IN | 1 << MEMORY,
          .writes = 1 << MEMORY | 1 << D_OUT, .run = smooth, .user = kernel, .kernel = kernel },
        { sizeof *stages, "down", "d2h", 1 << D_OUT, 1 << OUT, .flags = MUSTER_COPY },
    };
    status = muster_pipeline_create(m, buffers, 5, stages, 3, NULL, &pipeline, err);
    if (status != MUSTER_OK)
        return status;
    const struct muster_run_options how = { .size = sizeof how, .unit_items = UNIT_MOMENTS };
    const struct muster_job_desc desc = { .size = sizeof desc,
                                          .pipeline = pipeline,
                                          .items = MOMENTS,
                                          .input = signal,
                                          .output = smoothed,
                                          .options = &how };
    if ((status = muster_start(m, &desc, &job, err)))
        return status;
    status = muster_job_wait(job, report, err);
    muster_job_destroy(job);
    return status;
}

static int count_wrong(void)
{
    int wrong = 0;
    for (unsigned channel = 0; channel < CHANNELS; channel++) {
        int32_t level = 0;
        for (unsigned k = 0; k < MOMENTS; k++) {
            level += (signal[k][channel] - level) / 8;
            wrong += smoothed[k][channel] != level;
        }
    }
    return wrong;
}

int main(void)
{
    struct muster *m = NULL;
    struct muster_error err;
    struct muster_job_device device = { .size = sizeof device };
    struct muster_report report = { .size = sizeof report,
                                    .devices = &device,
                                    .device_capacity = 1 };
    for (unsigned k = 0; k < MOMENTS; k++)
        for (unsigned channel = 0; channel < CHANNELS; channel++)
            signal[k][channel] = (int32_t)(k * (channel + 7) % 2000);
    muster_status status = muster_open(&m, NULL, &err);
    if (status == MUSTER_OK)
        status = run(m, &report, &err);
    if (status != MUSTER_OK)
        fprintf(stderr, "%s\n%s\n", err.text, err.fix);
    muster_close(m, NULL);
    if (status != MUSTER_OK)
        return 1;
    int wrong = count_wrong();
    printf("%s: %s\n%d of %u are wrong\n", device.id, report.schedule_reason, wrong,
           MOMENTS * CHANNELS);
    return wrong > 0;
}
