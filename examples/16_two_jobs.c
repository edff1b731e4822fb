/*
 * Two jobs at once on one device: two pictures go through one pipeline, each with its own memory and
 * streams there, and each is delivered in its own order. The copies of one run beside the kernels of
 * the other.
 */
#include <muster/muster.h>
#include <stdio.h>

#ifndef KERNELS
#define KERNELS "kernels" /* the folder beside this file */
#endif

#define WIDTH 640
#define HEIGHT 3000
#define PICTURES 2

static unsigned char pictures[PICTURES][HEIGHT][WIDTH], blurred[PICTURES][HEIGHT][WIDTH];

static muster_status make_pipeline(struct muster *m, struct muster_pipeline **out,
                                   struct muster_error *err)
{
    enum { IN, D_IN, D_OUT, OUT };
    const struct muster_buffer buffers[] = {
        { sizeof *buffers, "in", MUSTER_HOST, WIDTH, 0, 0, 0 },
        { sizeof *buffers, "d_in", MUSTER_DEVICE, WIDTH, 0, 0, 0 },
        { sizeof *buffers, "d_out", MUSTER_DEVICE, WIDTH, 0, 0, 0 },
        { sizeof *buffers, "out", MUSTER_HOST, WIDTH, 0, 0, 0 }
    };
    struct muster_kernel *blur;
    muster_status status = muster_kernel_load(m, KERNELS "/blur.c", "blur", &blur, err);
    if (status != MUSTER_OK)
        return status;
    const struct muster_stage stages[] = {
        { sizeof *stages, "up", "h2d", 1 << IN, 1 << D_IN, .flags = MUSTER_COPY },
        { sizeof *stages, "blur", "compute", 1 << D_IN, 1 << D_OUT, .kernel = blur },
        { sizeof *stages, "down", "d2h", 1 << D_OUT, 1 << OUT, .flags = MUSTER_COPY },
    };
    return muster_pipeline_create(m, buffers, 4, stages, 3, NULL, out, err);
}

static muster_status run(struct muster *m, struct muster_error *err)
{
    struct muster_pipeline *pipeline;
    struct muster_job *jobs[PICTURES] = { NULL };
    muster_status status = make_pipeline(m, &pipeline, err);
    for (int i = 0; i < PICTURES && status == MUSTER_OK; i++) {
        const struct muster_run_options how = { .size = sizeof how,
                                                .devices = "cpu:0",
                                                .unit_items = 100 };
        const struct muster_job_desc desc = { .size = sizeof desc,
                                              .pipeline = pipeline,
                                              .items = HEIGHT,
                                              .input = pictures[i],
                                              .output = blurred[i],
                                              .options = &how };
        status = muster_start(m, &desc, &jobs[i], err);
    }
    for (int i = 0; i < PICTURES && status == MUSTER_OK; i++) {
        struct muster_job_device device = { .size = sizeof device };
        struct muster_report report = { .size = sizeof report,
                                        .devices = &device,
                                        .device_capacity = 1 };
        status = muster_job_wait(jobs[i], &report, err);
        printf("picture %d: %llu rows in %.1f ms on %s\n", i, (unsigned long long)report.delivered,
               (double)report.makespan_ns / 1e6, device.id);
    }
    for (int i = 0; i < PICTURES; i++)
        muster_job_destroy(jobs[i]);
    return status;
}

static int count_wrong(int i)
{
    int wrong = 0;
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++) {
            const unsigned char *row = pictures[i][y];
            int left = row[x > 0 ? x - 1 : 0], right = row[x + 1 < WIDTH ? x + 1 : x];
            wrong += blurred[i][y][x] != (left + 2 * row[x] + right) / 4;
        }
    return wrong;
}

int main(void)
{
    struct muster *m = NULL;
    struct muster_error err;
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++) {
            pictures[0][y][x] = (unsigned char)((x ^ y) % 200);
            pictures[1][y][x] = (unsigned char)(x * y % 251);
        }
    muster_status status = muster_open(&m, NULL, &err);
    if (status == MUSTER_OK)
        status = run(m, &err);
    if (status != MUSTER_OK)
        fprintf(stderr, "%s\n%s\n", err.text, err.fix);
    muster_close(m, NULL);
    if (status != MUSTER_OK)
        return 1;
    int wrong = count_wrong(0) + count_wrong(1);
    printf("%d of %d are wrong\n", wrong, PICTURES * WIDTH * HEIGHT);
    return wrong > 0;
}
