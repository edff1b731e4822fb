/*
 * The Mandelbrot set, painted by every device of this machine from one kernel file.
 *
 *     mandelbrot [PICTURE [KERNEL [TRACE]]]
 *
 * PICTURE is a PPM file, mandelbrot.ppm if none is named; KERNEL the source or a bundle of it; TRACE
 * is for ui.perfetto.dev. What each device did and where the time went is shown, and pixels from all
 * over the picture are compared with what the same source gives without Muster.
 */
#include "kernels/mandelbrot.c" /* NOLINT(bugprone-suspicious-include): to compare with */

#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef KERNELS
#define KERNELS "kernels" /* the folder beside this file */
#endif

#define WIDTH 960
#define HEIGHT 640
#define PIXELS ((uint64_t)WIDTH * HEIGHT)

#define PREVIEW_COLUMNS 72
#define PREVIEW_LINES 24

#define DEVICES_MAX 64

struct pixel {
    uint8_t rgb[3];
};

struct picture {
    struct pixel pixels[PIXELS];
    struct muster_report report;
    struct muster_job_device devices[DEVICES_MAX];
};

static muster_status paint(struct muster *m, const char *path, struct picture *picture,
                           struct muster_error *err)
{
    const uint32_t width = WIDTH, height = HEIGHT;
    const struct muster_arg args[] = { MUSTER_FIRST, MUSTER_VALUE(width), MUSTER_VALUE(height),
                                       MUSTER_OUT(picture->pixels) };
    struct muster_kernel *kernel;
    muster_status status = muster_kernel_load(m, path, "mandelbrot", &kernel, err);
    if (status != MUSTER_OK)
        return status;
    for (int i = 0; i < DEVICES_MAX; i++)
        picture->devices[i].size = sizeof *picture->devices;
    picture->report = (struct muster_report){ .size = sizeof picture->report,
                                              .devices = picture->devices,
                                              .device_capacity = DEVICES_MAX };
    status = muster_for(m, kernel, PIXELS, args, 4, NULL, &picture->report, err);
    muster_kernel_destroy(kernel);
    return status;
}

/* The mean colour of a cell of the preview, of which there are `lines` x PREVIEW_COLUMNS. */
static void mean_colour(const struct picture *picture, int line, int lines, int column,
                        unsigned *rgb)
{
    int top = line * HEIGHT / lines, bottom = (line + 1) * HEIGHT / lines;
    int left = column * WIDTH / PREVIEW_COLUMNS, right = (column + 1) * WIDTH / PREVIEW_COLUMNS;
    unsigned count = (unsigned)((bottom - top) * (right - left));
    rgb[0] = rgb[1] = rgb[2] = 0;
    for (int y = top; y < bottom; y++)
        for (int x = left; x < right; x++)
            for (int i = 0; i < 3; i++)
                rgb[i] += picture->pixels[y * WIDTH + x].rgb[i];
    for (int i = 0; i < 3; i++)
        rgb[i] /= count;
}

/* Each character is two pixels, one above the other. */
static void preview_in_colour(const struct picture *picture)
{
    for (int line = 0; line < PREVIEW_LINES; line++) {
        for (int column = 0; column < PREVIEW_COLUMNS; column++) {
            unsigned upper[3], lower[3];
            mean_colour(picture, line * 2, PREVIEW_LINES * 2, column, upper);
            mean_colour(picture, line * 2 + 1, PREVIEW_LINES * 2, column, lower);
            printf("\033[38;2;%u;%u;%um\033[48;2;%u;%u;%um\xE2\x96\x80", upper[0], upper[1],
                   upper[2], lower[0], lower[1], lower[2]);
        }
        printf("\033[0m\n");
    }
}

static void preview_in_text(const struct picture *picture)
{
    static const char shades[] = " .:-=+*#%@";
    for (int line = 0; line < PREVIEW_LINES; line++) {
        char text[PREVIEW_COLUMNS + 1];
        for (int column = 0; column < PREVIEW_COLUMNS; column++) {
            unsigned rgb[3];
            mean_colour(picture, line, PREVIEW_LINES, column, rgb);
            unsigned light = (rgb[0] * 3 + rgb[1] * 6 + rgb[2]) / 10;
            text[column] = shades[light * (sizeof shades - 1) / 256];
        }
        text[PREVIEW_COLUMNS] = '\0';
        puts(text);
    }
}

static void preview(const struct picture *picture)
{
    if (isatty(STDOUT_FILENO) && !getenv("NO_COLOR"))
        preview_in_colour(picture);
    else
        preview_in_text(picture);
}

static void print_devices(struct muster *m, const struct muster_report *report)
{
    printf("\n%-10s %-28s %8s %7s %6s %11s  %s\n", "DEVICE", "NAME", "PIXELS", "SHARE", "UNITS",
           "PIXELS/S", "HEALTH");
    for (size_t i = 0; i < report->device_count && i < report->device_capacity; i++) {
        const struct muster_job_device *did = &report->devices[i];
        struct muster_device_info info = { .size = sizeof info };
        muster_device device;
        if (muster_device_find(m, did->id, &device, NULL) == MUSTER_OK)
            muster_device_info(m, device, &info, NULL);
        printf("%-10s %-28.28s %8llu %5.1f %% %6llu %11.0f  %s\n", did->id, info.name,
               (unsigned long long)did->items, 100.0 * (double)did->items / (double)PIXELS,
               (unsigned long long)did->units, did->items_per_s, muster_health_name(did->health));
    }
}

/* What each of them is: docs/observe.md. */
static void print_times(const struct muster_report *report)
{
    const struct {
        const char *what;
        uint64_t ns;
    } times[] = { { "kernels", report->bound_ns },     { "start-up", report->startup_ns },
                  { "transfer", report->transfer_ns }, { "overhead", report->overhead_ns },
                  { "starved", report->starved_ns },   { "tail", report->tail_ns },
                  { "together", report->makespan_ns } };
    printf("\nWHERE THE TIME WENT\n");
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        printf("%-10s %9.2f ms %6.1f %%\n", times[i].what, (double)times[i].ns / 1e6,
               100.0 * (double)times[i].ns / (double)report->makespan_ns);
}

static int write_picture(const struct picture *picture, const char *path)
{
    FILE *file = fopen(path, "wb");
    if (!file) {
        perror(path);
        return 1;
    }
    fprintf(file, "P6\n%d %d\n255\n", WIDTH, HEIGHT);
    fwrite(picture->pixels, sizeof *picture->pixels, PIXELS, file);
    int failed = ferror(file);
    if (fclose(file) != 0 || failed) {
        perror(path);
        return 1;
    }
    printf("\n%s: %d x %d\n", path, WIDTH, HEIGHT);
    return 0;
}

static uint64_t count_wrong_pixels(const struct picture *picture)
{
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < PIXELS; i += 71) {
        struct pixel pixel;
        mandelbrot(0, i, WIDTH, HEIGHT, pixel.rgb);
        wrong += memcmp(&pixel, &picture->pixels[i], sizeof pixel) != 0;
    }
    return wrong;
}

static muster_status run(struct muster *m, const char *kernel, const char *trace,
                         struct picture *picture, struct muster_error *err)
{
    muster_status status = trace ? muster_trace_start(m, NULL, err) : MUSTER_OK;
    if (status == MUSTER_OK)
        status = paint(m, kernel, picture, err);
    if (status == MUSTER_OK && trace)
        status = muster_trace_stop(m, trace, err);
    return status;
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "mandelbrot.ppm";
    const char *kernel = argc > 2 ? argv[2] : KERNELS "/mandelbrot.c";
    const char *trace = argc > 3 ? argv[3] : NULL;
    static struct picture picture;
    struct muster *m = NULL;
    struct muster_error err;
    muster_status status = muster_open(&m, NULL, &err);
    if (status == MUSTER_OK)
        status = run(m, kernel, trace, &picture, &err);
    if (status == MUSTER_OK) {
        preview(&picture);
        print_devices(m, &picture.report);
        print_times(&picture.report);
    } else {
        fprintf(stderr, "%s\n%s\n", err.text, err.fix);
    }
    muster_close(m, NULL);
    if (status != MUSTER_OK || write_picture(&picture, path) != 0)
        return 1;
    if (trace)
        printf("%s: open it in ui.perfetto.dev\n", trace);

    uint64_t wrong = count_wrong_pixels(&picture);
    if (wrong > 0)
        fprintf(stderr, "%llu pixels differ from what they should be\n", (unsigned long long)wrong);
    return wrong > 0;
}
