/*
 * The Mandelbrot set, painted by every device of this machine.
 *
 *     mandelbrot [FILE]       FILE is a PPM picture, mandelbrot.ppm if none is named
 *
 * The picture's rows are cut into units by muster_partition and go round over two streams of each
 * device: painted into a block there, copied out to pinned memory, put together here, and compared
 * with rows painted without Muster.
 */
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WIDTH 960
#define HEIGHT 640
#define ROW_BYTES (WIDTH * 3)
#define SAMPLES 2 /* each pixel is the mean of SAMPLES x SAMPLES points */
#define ITERATIONS_MAX 1000

#define DEVICES_MAX 256
#define STREAMS_PER_DEVICE 2

#define PREVIEW_COLUMNS 72
#define PREVIEW_LINES 24

/* ---- What a device does: paint rows [begin, end). ---- */

/*
 * log2 of a positive number, good to five digits, so that the example needs no mathematics library.
 */
static double log2_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    double exponent = (double)((int)(bits >> 52 & 0x7FF) - 1023);
    bits = (bits & 0xFFFFFFFFFFFFFull) | 0x3FF0000000000000ull;
    memcpy(&x, &bits, sizeof x);
    double t = (x - 1) / (x + 1), t2 = t * t;
    return exponent +
           2.8853900817779268 * t * (1 + t2 * (1.0 / 3 + t2 * (1.0 / 5 + t2 * (1.0 / 7 + t2 / 9))));
}

/* Colours on a circle; `position` counts turns. */
static void palette(double position, double *rgb)
{
    static const struct {
        double at, rgb[3];
    } stops[] = { { 0, { 0, 7, 100 } },        { 0.16, { 32, 107, 203 } },
                  { 0.42, { 237, 255, 255 } }, { 0.6425, { 255, 170, 0 } },
                  { 0.8575, { 60, 10, 20 } },  { 1, { 0, 7, 100 } } };
    double turn = position - (double)(int64_t)position;
    size_t next = 1;
    while (stops[next].at < turn)
        next++;
    double part = (turn - stops[next - 1].at) / (stops[next].at - stops[next - 1].at);
    for (int i = 0; i < 3; i++)
        rgb[i] += stops[next - 1].rgb[i] + part * (stops[next].rgb[i] - stops[next - 1].rgb[i]);
}

/*
 * Adds the colour of the point (re, im): black inside the set, and outside how soon it escapes,
 * without steps.
 */
static void add_point(double re, double im, double *rgb)
{
    /*
     * The cardioid and the disc beside it are inside; most of the work would be to find that out.
     */
    double p = re - 0.25, q = p * p + im * im;
    if (q * (q + p) <= 0.25 * im * im || (re + 1) * (re + 1) + im * im <= 0.0625)
        return;
    double x = 0, y = 0, x2 = 0, y2 = 0;
    int n = 0;
    while (n < ITERATIONS_MAX && x2 + y2 <= 65536) {
        y = 2 * x * y + im;
        x = x2 - y2 + re;
        x2 = x * x;
        y2 = y * y;
        n++;
    }
    if (n == ITERATIONS_MAX)
        return;
    /*
     * How many steps, and how far beyond the limit the last one went; the colours turn once in a
     * factor of 10 or so.
     */
    double escape = n + 4 - log2_of(log2_of(x2 + y2));
    palette(escape > 4 ? 0.3 * (log2_of(escape) - 2) : 0, rgb);
}

static void paint_row(uint64_t row, uint8_t *pixels)
{
    const double step = 3.6 / WIDTH;
    for (int column = 0; column < WIDTH; column++) {
        double rgb[3] = { 0, 0, 0 };
        for (int sample = 0; sample < SAMPLES * SAMPLES; sample++) {
            int across = sample % SAMPLES, deep = sample / SAMPLES;
            double right = column + (across + 0.5) / SAMPLES;
            double down = (double)row + (deep + 0.5) / SAMPLES;
            add_point(-2.45 + right * step, (HEIGHT / 2.0 - down) * step, rgb);
        }
        for (int i = 0; i < 3; i++)
            pixels[column * 3 + i] = (uint8_t)(rgb[i] / (SAMPLES * SAMPLES) + 0.5);
    }
}

/* args: the block, and the row its first byte belongs to. */
static muster_status paint(uint64_t begin, uint64_t end, void *const *args)
{
    uint8_t *block = *(uint8_t *const *)args[0];
    uint64_t first = *(const uint64_t *)args[1];
    for (uint64_t row = begin; row < end; row++)
        paint_row(row, block + (row - first) * ROW_BYTES);
    return MUSTER_OK;
}

/* ---- Who does what. ---- */

struct painter {
    muster_device device;
    struct muster_device_info info;
    uint64_t rows, units;
    double done_after_ms; /* when its last unit was seen to be finished */
};

/* One stream of a painter, with room for one unit on the device and one on the host. */
struct lane {
    struct painter *painter;
    muster_stream stream;
    muster_block block;
    uint8_t *pinned;
    struct muster_range unit; /* on its way; empty if none */
};

struct picture {
    struct painter painters[DEVICES_MAX];
    size_t painter_count;
    struct lane lanes[DEVICES_MAX * STREAMS_PER_DEVICE];
    size_t lane_count;
    struct muster_range units[HEIGHT];
    uint64_t unit_count;
    struct muster_kernel *kernel;
    double begin_ms;
    uint8_t pixels[HEIGHT][ROW_BYTES];
};

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static muster_status open_lane(struct muster *m, struct picture *picture, struct painter *painter,
                               struct muster_error *err)
{
    struct lane *lane = &picture->lanes[picture->lane_count];
    uint64_t bytes = (picture->units[0].end - picture->units[0].begin) *
                     ROW_BYTES; /* the first is as large as any */
    void *pinned;
    muster_status status;
    *lane = (struct lane){ .painter = painter };
    if ((status = muster_stream_acquire(m, painter->device, 0, &lane->stream, err)) ||
        (status = muster_block_allocate(m, lane->stream, bytes, &lane->block, err)) ||
        (status = muster_host_allocate(m, painter->device, bytes, &pinned, err)))
        return status;
    lane->pinned = pinned;
    picture->lane_count++;
    return MUSTER_OK;
}

static muster_status find_painters(struct muster *m, struct picture *picture,
                                   struct muster_error *err)
{
    muster_device devices[DEVICES_MAX];
    size_t count;
    muster_status status = muster_device_list(m, devices, DEVICES_MAX, &count, err);
    for (size_t i = 0; i < count && status == MUSTER_OK; i++) {
        struct painter painter = { .device = devices[i], .info.size = sizeof painter.info };
        if ((status = muster_device_info(m, devices[i], &painter.info, err)))
            break;
        if (painter.info.forms & MUSTER_KERNEL_FUNCTION)
            picture->painters[picture->painter_count++] = painter;
        else
            printf("%s cannot run C functions and looks on\n", painter.info.id);
    }
    if (status == MUSTER_OK && picture->painter_count == 0) {
        *err = (struct muster_error){ .status = MUSTER_E_NO_DEVICE,
                                      .text = "no device can run C functions" };
        status = MUSTER_E_NO_DEVICE;
    }
    return status;
}

static muster_status prepare(struct muster *m, struct picture *picture, struct muster_error *err)
{
    struct muster_kernel_form form = { .size = sizeof form,
                                       .kind = MUSTER_KERNEL_FUNCTION,
                                       .function = paint };
    muster_status status;
    if ((status = find_painters(m, picture, err)))
        return status;
    status = muster_partition(HEIGHT, picture->painter_count, picture->units, HEIGHT,
                              &picture->unit_count, err);
    if (status || (status = muster_kernel_from(m, "paint", &form, 1, &picture->kernel, err)))
        return status;
    /* First one stream of each device, then the second, so that units go round over the devices. */
    for (int turn = 0; turn < STREAMS_PER_DEVICE; turn++)
        for (size_t i = 0; i < picture->painter_count && status == MUSTER_OK; i++)
            status = open_lane(m, picture, &picture->painters[i], err);
    return status;
}

/* Starts a unit: nothing here waits. */
static muster_status kick(struct muster *m, struct picture *picture, struct lane *lane,
                          struct muster_range unit, struct muster_error *err)
{
    uint64_t rows = unit.end - unit.begin;
    struct muster_operand args[] = { MUSTER_BLOCK_WRITE(lane->block), MUSTER_SCALAR(unit.begin) };
    muster_status status =
        muster_launch(m, lane->stream, picture->kernel, unit.begin, rows, args, 2, NULL, err);
    if (status == MUSTER_OK)
        status =
            muster_copy_out(m, lane->stream, lane->pinned, lane->block, 0, rows * ROW_BYTES, err);
    lane->unit = unit;
    return status;
}

/* Waits for the lane's unit, if it has one, and puts its rows into the picture. */
static muster_status drain(struct muster *m, struct picture *picture, struct lane *lane,
                           struct muster_error *err)
{
    uint64_t rows = lane->unit.end - lane->unit.begin;
    if (rows == 0)
        return MUSTER_OK;
    muster_status status = muster_stream_wait(m, lane->stream, UINT64_MAX, err);
    if (status != MUSTER_OK)
        return status;
    memcpy(picture->pixels[lane->unit.begin], lane->pinned, rows * ROW_BYTES);
    lane->painter->rows += rows;
    lane->painter->units++;
    lane->painter->done_after_ms = now_ms() - picture->begin_ms;
    lane->unit = (struct muster_range){ 0, 0 };
    return MUSTER_OK;
}

static muster_status paint_all(struct muster *m, struct picture *picture, struct muster_error *err)
{
    muster_status status = prepare(m, picture, err);
    picture->begin_ms = now_ms();
    for (uint64_t i = 0; i < picture->unit_count && status == MUSTER_OK; i++) {
        struct lane *lane = &picture->lanes[i % picture->lane_count];
        if (!(status = drain(m, picture, lane, err)))
            status = kick(m, picture, lane, picture->units[i], err);
    }
    /* After a failure too: the kernel may be destroyed only when nothing runs it any more. */
    for (size_t i = 0; i < picture->lane_count; i++) {
        muster_status drained = drain(m, picture, &picture->lanes[i], status ? NULL : err);
        status = status ? status : drained;
    }
    muster_kernel_destroy(picture->kernel);
    return status;
}

/* ---- What a person sees. ---- */

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
                rgb[i] += picture->pixels[y][x * 3 + i];
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

static muster_status report(struct muster *m, const struct picture *picture,
                            struct muster_error *err)
{
    printf("\n%-10s %-28.28s %5s %6s %12s %12s  %s\n", "DEVICE", "NAME", "ROWS", "UNITS",
           "DONE AFTER", "ROWS/S", "HEALTH");
    for (size_t i = 0; i < picture->painter_count; i++) {
        const struct painter *painter = &picture->painters[i];
        struct muster_device_load load = { .size = sizeof load };
        muster_status status = muster_device_load(m, painter->device, &load, err);
        if (status != MUSTER_OK)
            return status;
        printf("%-10s %-28.28s %5llu %6llu %9.1f ms %12.0f  %s\n", painter->info.id,
               painter->info.name, (unsigned long long)painter->rows,
               (unsigned long long)painter->units, painter->done_after_ms, load.items_per_s,
               muster_health_name(load.health));
    }
    return MUSTER_OK;
}

static int write_picture(const struct picture *picture, const char *path)
{
    FILE *file = fopen(path, "wb");
    if (!file) {
        perror(path);
        return 1;
    }
    fprintf(file, "P6\n%d %d\n255\n", WIDTH, HEIGHT);
    fwrite(picture->pixels, ROW_BYTES, HEIGHT, file);
    int failed = ferror(file);
    if (fclose(file) != 0 || failed) {
        perror(path);
        return 1;
    }
    printf("\n%s: %d x %d\n", path, WIDTH, HEIGHT);
    return 0;
}

/* Rows from all over the picture, painted again here and compared bit for bit. */
static int count_wrong_rows(const struct picture *picture)
{
    uint8_t row[ROW_BYTES];
    int wrong = 0;
    for (int y = 0; y < HEIGHT; y += 71) {
        paint_row((uint64_t)y, row);
        wrong += memcmp(row, picture->pixels[y], ROW_BYTES) != 0;
    }
    return wrong;
}

int main(int argc, char **argv)
{
    struct muster *m;
    struct muster_error err;
    static struct picture picture;
    if (muster_open(&m, NULL, &err) != MUSTER_OK) {
        fprintf(stderr, "%s\n%s\n", err.text, err.fix);
        return 1;
    }
    muster_status status = paint_all(m, &picture, &err);
    if (status == MUSTER_OK) {
        preview(&picture);
        status = report(m, &picture, &err);
    }
    if (status != MUSTER_OK)
        fprintf(stderr, "%s\n%s\n", err.text, err.fix);
    muster_close(m, NULL);
    if (status != MUSTER_OK || write_picture(&picture, argc > 1 ? argv[1] : "mandelbrot.ppm") != 0)
        return 1;

    int wrong = count_wrong_rows(&picture);
    if (wrong > 0)
        fprintf(stderr, "%d rows differ from what they should be\n", wrong);
    return wrong > 0 ? 1 : 0;
}
