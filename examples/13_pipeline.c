/*
 * A pipeline of three stages: rows of a picture go to the device, are blurred there, and come back,
 * several units at a time. Nobody writes a stream, an event or a double buffer: what must wait for
 * what follows from what stages read and write, and is printed.
 */
#include <muster/muster.h>
#include <stdio.h>

#ifndef KERNELS
#define KERNELS "kernels" /* the folder beside this file */
#endif

#define WIDTH 640
#define HEIGHT 2000
#define TEXT_BYTES 4096

static unsigned char picture[HEIGHT][WIDTH], blurred[HEIGHT][WIDTH];

static muster_status run(struct muster *m, struct muster_kernel *blur, struct muster_error *err)
{
    enum { IN, D_IN, D_OUT, OUT };
    const struct muster_buffer buffers[] = {
        { sizeof *buffers, "in", MUSTER_HOST, WIDTH, 0, 0, 0 },
        { sizeof *buffers, "d_in", MUSTER_DEVICE, WIDTH, 0, 0, 0 },
        { sizeof *buffers, "d_out", MUSTER_DEVICE, WIDTH, 0, 0, 0 },
        { sizeof *buffers, "out", MUSTER_HOST, WIDTH, 0, 0, 0 }
    };
    const struct muster_stage stages[] = {
        { sizeof *stages, "up", "h2d", 1 << IN, 1 << D_IN, .flags = MUSTER_COPY },
        { sizeof *stages, "blur", "compute", 1 << D_IN, 1 << D_OUT, .kernel = blur },
        { sizeof *stages, "down", "d2h", 1 << D_OUT, 1 << OUT, .flags = MUSTER_COPY },
    };
    struct muster_pipeline *pipeline;
    struct muster_job *job;
    static char text[TEXT_BYTES];
    muster_status status = muster_pipeline_create(m, buffers, 4, stages, 3, NULL, &pipeline, err);
    if (status || (status = muster_pipeline_print(pipeline, MUSTER_SCHEDULE_AUTO, MUSTER_PRINT_TEXT,
                                                  text, sizeof text, NULL, err)))
        return status;
    printf("%s\n", text);
    const struct muster_job_desc desc = { .size = sizeof desc,
                                          .pipeline = pipeline,
                                          .items = HEIGHT,
                                          .input = picture,
                                          .output = blurred };
    if ((status = muster_start(m, &desc, &job, err)))
        return status;
    status = muster_job_wait(job, NULL, err);
    muster_job_destroy(job);
    return status;
}

static int count_wrong(void)
{
    int wrong = 0;
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++) {
            const unsigned char *row = picture[y];
            int left = row[x > 0 ? x - 1 : 0], right = row[x + 1 < WIDTH ? x + 1 : x];
            wrong += blurred[y][x] != (left + 2 * row[x] + right) / 4;
        }
    return wrong;
}

int main(void)
{
    struct muster *m = NULL;
    struct muster_kernel *blur;
    struct muster_error err;
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            picture[y][x] = (unsigned char)((x ^ y) % 200 + x % 3 * 20);
    muster_status status = muster_open(&m, NULL, &err);
    if (status == MUSTER_OK)
        status = muster_kernel_load(m, KERNELS "/blur.c", "blur", &blur, &err);
    if (status == MUSTER_OK)
        status = run(m, blur, &err);
    if (status != MUSTER_OK)
        fprintf(stderr, "%s\n%s\n", err.text, err.fix);
    muster_close(m, NULL);
    if (status != MUSTER_OK)
        return 1;
    int wrong = count_wrong();
    printf("%d of %d are wrong\n", wrong, WIDTH * HEIGHT);
    return wrong > 0;
}
