/*
 * pipeline_neighbours --backend NAME [CASE...]
 *
 * Kernels that read the neighbours of their items - a line, a 5x5 convolution, Jacobi's method, a stencil
 * in three dimensions, pictures with chroma - give the bytes of a serial run, at every border, from
 * arrays, from sources and in pipelines, in units of several sizes. Exits 77 if the machine has no
 * device of that backend.
 */
#include "machine.h"

#include <muster_kernel.h>

static const char *backend = "cpu";

/* Two that copy and one that does not, as fast as can be. */
#define SIM_QUICK                                                                                  \
    "[{\"count\": 2, \"items_per_s\": 1e9, \"h2d_bytes_per_s\": 1e10,"                             \
    "  \"d2h_bytes_per_s\": 1e10}, {\"items_per_s\": 1e9}]"

/* clang-format off */
static const char source_text[] =
    "MUSTER_KERNEL void line(uint64_t i, MUSTER_GLOBAL const uint32_t *in, MUSTER_GLOBAL uint32_t *out)\n"
    "{\n"
    "    uint32_t sum = 0;\n"
    "    for (int k = -5; k <= 5; k++)\n"
    "        sum = sum * 31 + in[(int64_t)i + k];\n"
    "    out[i] = sum;\n"
    "}\n"
    "MUSTER_CONSTANT float weights[25] = {\n"
    "    0.01f, 0.02f, 0.03f, 0.02f, 0.01f, 0.02f, 0.05f, 0.07f, 0.05f, 0.02f, 0.03f, 0.07f, 0.2f,\n"
    "    0.07f, 0.03f, 0.02f, 0.05f, 0.07f, 0.05f, 0.02f, 0.01f, 0.02f, 0.03f, 0.02f, 0.01f };\n"
    "MUSTER_KERNEL void convolve(uint64_t i, struct muster_cell at, MUSTER_GLOBAL const float *in,\n"
    "                            MUSTER_GLOBAL float *out)\n"
    "{\n"
    "    float sum = 0.0f;\n"
    "    for (int y = 0; y < 5; y++)\n"
    "        for (int x = 0; x < 5; x++)\n"
    "            sum += weights[y * 5 + x] * muster_near(in, i, at, x - 2, y - 2);\n"
    "    out[i] = sum;\n"
    "}\n"
    "MUSTER_KERNEL void jacobi(uint64_t i, struct muster_cell at, MUSTER_GLOBAL const float *in,\n"
    "                          MUSTER_GLOBAL float *out)\n"
    "{\n"
    "    out[i] = 0.25f * (muster_near(in, i, at, 0, -1) + muster_near(in, i, at, -1, 0) +\n"
    "                      muster_near(in, i, at, 1, 0) + muster_near(in, i, at, 0, 1));\n"
    "}\n"
    "MUSTER_KERNEL void volume(uint64_t i, struct muster_cell at, MUSTER_GLOBAL const uint32_t *in,\n"
    "                          MUSTER_GLOBAL uint32_t *out)\n"
    "{\n"
    "    uint32_t sum = at.x + 3u * at.y + 7u * at.z;\n"
    "    for (int z = -1; z <= 1; z++)\n"
    "        for (int y = -1; y <= 1; y++)\n"
    "            for (int x = -1; x <= 1; x++)\n"
    "                sum = sum * 31u + muster_near_3d(in, i, at, x, y, z);\n"
    "    out[i] = sum;\n"
    "}\n"
    "MUSTER_KERNEL void picture(uint64_t i, struct muster_cell at, MUSTER_GLOBAL const uint32_t *in,\n"
    "                           MUSTER_GLOBAL uint32_t *out)\n"
    "{\n"
    "    uint32_t sum = at.x + 3u * at.y + 7u * at.z + 11u * at.plane;\n"
    "    for (int y = -2; y <= 2; y++)\n"
    "        for (int x = -2; x <= 2; x++)\n"
    "            sum = sum * 31u + muster_near(in, i, at, x, y);\n"
    "    out[i] = sum;\n"
    "}\n";
/* clang-format on */

struct stencil {
    const char *name;
    uint32_t halo;
    bool has_cell, is_pictures;
    /* The result of the cell, from a function that gives what any cell has. */
    uint32_t (*serial)(const struct stencil *stencil, const uint32_t *in, uint64_t item);
    /* What it runs on now: */
    uint32_t width, height, depth, chroma_width, chroma_height;
    enum muster_border border;
};

static float number(uint32_t bits)
{
    return muster_bits_float(bits);
}

static uint64_t area_of(const struct stencil *s)
{
    return (uint64_t)s->width * s->height;
}

static uint64_t picture_of(const struct stencil *s)
{
    return area_of(s) + 2 * (uint64_t)s->chroma_width * s->chroma_height;
}

static uint64_t items_of(const struct stencil *s)
{
    return s->is_pictures ? picture_of(s) * s->depth : area_of(s) * (s->depth > 0 ? s->depth : 1);
}

static uint64_t line_of(const struct stencil *s)
{
    return s->is_pictures ? picture_of(s) : s->depth > 0 ? area_of(s) : s->has_cell ? s->width : 1;
}

static int64_t bring_in(int64_t at, int64_t count, enum muster_border border)
{
    if (border == MUSTER_BORDER_CLAMP)
        return at < 0 ? 0 : at >= count ? count - 1 : at;
    while (border == MUSTER_BORDER_WRAP && at < 0)
        at += count;
    while (border == MUSTER_BORDER_WRAP && at >= count)
        at -= count;
    return at;
}

/* What is at the cell of a box that begins there, inside or not. */
static uint32_t look(const uint32_t *box, const int64_t size[3], enum muster_border border,
                     int64_t x, int64_t y, int64_t z)
{
    int64_t at[3] = { x, y, z };
    for (int i = 0; i < 3; i++) {
        at[i] = bring_in(at[i], size[i], border);
        if (at[i] < 0 || at[i] >= size[i])
            return 0;
    }
    return box[(at[2] * size[1] + at[1]) * size[0] + at[0]];
}

static uint32_t serial_line(const struct stencil *s, const uint32_t *in, uint64_t item)
{
    const int64_t size[3] = { s->width, 1, 1 };
    uint32_t sum = 0;
    for (int k = -5; k <= 5; k++)
        sum = sum * 31 + look(in, size, s->border, (int64_t)item + k, 0, 0);
    return sum;
}

static uint32_t serial_convolve(const struct stencil *s, const uint32_t *in, uint64_t item)
{
    static const float half[3] = { 0.01f, 0.02f, 0.03f }, second[3] = { 0.02f, 0.05f, 0.07f },
                       third[3] = { 0.03f, 0.07f, 0.2f };
    static const float *const rows[3] = { half, second, third };
    const int64_t size[3] = { s->width, s->height, 1 };
    int64_t x = (int64_t)(item % s->width), y = (int64_t)(item / s->width);
    float sum = 0;
    for (int dy = 0; dy < 5; dy++)
        for (int dx = 0; dx < 5; dx++)
            sum += rows[dy < 3 ? dy : 4 - dy][dx < 3 ? dx : 4 - dx] *
                   number(look(in, size, s->border, x + dx - 2, y + dy - 2, 0));
    return muster_float_bits(sum);
}

static uint32_t serial_jacobi(const struct stencil *s, const uint32_t *in, uint64_t item)
{
    const int64_t size[3] = { s->width, s->height, 1 };
    int64_t x = (int64_t)(item % s->width), y = (int64_t)(item / s->width);
    return muster_float_bits(0.25f * (number(look(in, size, s->border, x, y - 1, 0)) +
                                      number(look(in, size, s->border, x - 1, y, 0)) +
                                      number(look(in, size, s->border, x + 1, y, 0)) +
                                      number(look(in, size, s->border, x, y + 1, 0))));
}

static uint32_t serial_volume(const struct stencil *s, const uint32_t *in, uint64_t item)
{
    const int64_t size[3] = { s->width, s->height, s->depth };
    int64_t x = (int64_t)(item % s->width), y = (int64_t)(item / s->width % s->height);
    int64_t z = (int64_t)(item / area_of(s));
    uint32_t sum = (uint32_t)(x + 3 * y + 7 * z);
    for (int dz = -1; dz <= 1; dz++)
        for (int dy = -1; dy <= 1; dy++)
            for (int dx = -1; dx <= 1; dx++)
                sum = sum * 31 + look(in, size, s->border, x + dx, y + dy, z + dz);
    return sum;
}

static uint32_t serial_picture(const struct stencil *s, const uint32_t *in, uint64_t item)
{
    uint64_t z = item / picture_of(s), rest = item % picture_of(s), plane = 0;
    uint64_t chroma = (uint64_t)s->chroma_width * s->chroma_height;
    int64_t size[3] = { s->width, s->height, 1 };
    const uint32_t *box = in + z * picture_of(s);
    if (rest >= area_of(s)) {
        rest -= area_of(s);
        plane = 1 + rest / chroma;
        box += area_of(s) + (plane - 1) * chroma;
        rest %= chroma;
        size[0] = s->chroma_width;
        size[1] = s->chroma_height;
    }
    int64_t x = (int64_t)rest % size[0], y = (int64_t)rest / size[0];
    uint32_t sum = (uint32_t)((uint64_t)(x + 3 * y) + 7 * z + 11 * plane);
    for (int dy = -2; dy <= 2; dy++)
        for (int dx = -2; dx <= 2; dx++)
            sum = sum * 31 + look(box, size, s->border, x + dx, y + dy, 0);
    return sum;
}

static const struct stencil line = { "line", 5, false, false, serial_line, .depth = 0 };
static const struct stencil convolve = { "convolve", 2, true, false, serial_convolve, .depth = 0 };
static const struct stencil jacobi = { "jacobi", 1, true, false, serial_jacobi, .depth = 0 };
static const struct stencil volume = { "volume", 1, true, false, serial_volume, .depth = 0 };
static const struct stencil picture = { "picture", 2, true, true, serial_picture, .depth = 0 };

/* A run. */

enum way { FROM_ARRAY, FROM_PINNED_ARRAY, FROM_SOURCE, WAY_COUNT };
static const char *const way_names[] = { "an array", "a pinned array", "a source" };

static struct muster_kernel *make_kernel(struct muster *m, const char *entry)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = source_text,
                                             .code_bytes = sizeof source_text - 1,
                                             .entry = entry };
    struct muster_kernel *kernel;
    MUST(muster_kernel_from(m, entry, &form, 1, &kernel, &problem));
    return kernel;
}

/* Floats between 0 and 1 where the kernel wants them, else any bits. */
static void fill(const struct stencil *s, uint32_t *in)
{
    bool is_float = s->serial == serial_convolve || s->serial == serial_jacobi;
    for (uint64_t i = 0; i < items_of(s); i++) {
        uint32_t bits = (uint32_t)(i * UINT64_C(0x9e3779b97f4a7c15) >> 32) | 1;
        in[i] = is_float ? muster_float_bits((float)(bits >> 8) / 16777216.0f) : bits;
    }
}

struct feed {
    const uint32_t *in;
    uint64_t items, at_once;
};

static int64_t give(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    const struct feed *feed = user;
    uint64_t left = begin < feed->items ? feed->items - begin : 0;
    uint64_t count = items < left ? items : left;
    (void)bytes;
    count = count < feed->at_once ? count : feed->at_once;
    memcpy(to, feed->in + begin, count * sizeof *feed->in);
    return (int64_t)count;
}

struct result {
    uint32_t *out;
};

static muster_status take(void *user, const struct muster_result *result)
{
    const struct result *to = user;
    memcpy(to->out + result->range.begin, result->outputs[0],
           (result->range.end - result->range.begin) * sizeof *to->out);
    return MUSTER_OK;
}

static struct muster_arg grid_of(const struct stencil *s)
{
    struct muster_arg grid = MUSTER_GRID_3D(s->width, s->height, s->depth);
    if (!s->is_pictures)
        return grid;
    grid.kind = MUSTER_ARG_PICTURES;
    grid.depth = 0;
    grid.chroma_width = s->chroma_width;
    grid.chroma_height = s->chroma_height;
    return grid;
}

static void finish(struct muster *m, const struct muster_job_desc *desc)
{
    struct muster_job *job;
    MUST(muster_start(m, desc, &job, &problem));
    MUST(muster_job_wait(job, NULL, &problem));
    muster_job_destroy(job);
}

static void run_kernel(struct muster *m, struct muster_kernel *kernel, const struct stencil *s,
                       const uint32_t *in, uint32_t *out, enum way way,
                       const struct muster_run_options *options)
{
    struct feed feed = { in, items_of(s), 1 + items_of(s) / 3 };
    struct result result = { out };
    struct muster_arg args[3];
    size_t count = 0;
    if (s->has_cell)
        args[count++] = grid_of(s);
    if (way == FROM_SOURCE) {
        args[count++] = (struct muster_arg)MUSTER_SOURCE_BORDER(uint32_t, s->halo, s->border);
        args[count++] =
            (struct muster_arg){ MUSTER_ARG_OF(MUSTER_ARG_OUT), .bytes = sizeof(uint32_t) };
    } else {
        args[count++] = (struct muster_arg)MUSTER_IN_BORDER(in, s->halo, s->border);
        args[count++] = (struct muster_arg)MUSTER_OUT(out);
    }
    /* The bits of floats. */
    for (size_t i = 0; i < count; i++)
        args[i].element = MUSTER_ELEMENT_UNKNOWN;
    const bool is_unknown = way == FROM_SOURCE && (s->is_pictures || !s->has_cell);
    const struct muster_job_desc desc = {
        .size = sizeof desc,
        .kernel = kernel,
        .items = is_unknown ? MUSTER_ITEMS_UNKNOWN : items_of(s),
        .args = args,
        .arg_count = count,
        .source = way == FROM_SOURCE ? give : NULL,
        .source_user = &feed,
        .sink = way == FROM_SOURCE ? take : NULL,
        .sink_user = &result,
        .options = options,
    };
    finish(m, &desc);
}

enum { IN, D_IN, D_OUT, OUT };

static muster_status launch(struct muster_unit *unit, void *kernel)
{
    uint64_t begin, end;
    const struct muster_unit_arg args[] = { MUSTER_UNIT_CELL, MUSTER_VIEW(D_IN),
                                            MUSTER_VIEW(D_OUT) };
    muster_unit_range(unit, &begin, &end);
    return muster_unit_launch(unit, kernel, end - begin, args, 3, NULL);
}

static void run_pipeline(struct muster *m, struct muster_kernel *kernel, const struct stencil *s,
                         const uint32_t *in, uint32_t *out, enum way way, bool is_called,
                         const struct muster_run_options *options)
{
    struct feed feed = { in, items_of(s), 1 + items_of(s) / 3 };
    const struct muster_buffer buffers[] = {
        { .size = sizeof *buffers, .name = "in", .place = MUSTER_HOST, .bytes_per_item = 4 },
        { .size = sizeof *buffers, .name = "d_in", .place = MUSTER_DEVICE, .bytes_per_item = 4 },
        { .size = sizeof *buffers, .name = "d_out", .place = MUSTER_DEVICE, .bytes_per_item = 4 },
        { .size = sizeof *buffers, .name = "out", .place = MUSTER_HOST, .bytes_per_item = 4 },
    };
    const struct muster_stage stages[] = {
        { sizeof *stages, "up", "h2d", 1 << IN, 1 << D_IN, .flags = MUSTER_COPY },
        { sizeof *stages, "near", "compute", 1 << D_IN, 1 << D_OUT, .kernel = kernel,
          .run = is_called ? launch : NULL, .user = kernel },
        { sizeof *stages, "down", "d2h", 1 << D_OUT, 1 << OUT, .flags = MUSTER_COPY },
    };
    const struct muster_arg grid = grid_of(s);
    const struct muster_pipeline_options pipelining = { .size = sizeof pipelining,
                                                        .grid = s->has_cell ? &grid : NULL,
                                                        .halo = s->halo,
                                                        .border = s->border };
    struct muster_pipeline *pipeline;
    MUST(muster_pipeline_create(m, buffers, 4, stages, 3, &pipelining, &pipeline, &problem));
    const struct muster_job_desc desc = { .size = sizeof desc,
                                          .pipeline = pipeline,
                                          .items = items_of(s),
                                          .input = way == FROM_SOURCE ? NULL : in,
                                          .output = out,
                                          .source = way == FROM_SOURCE ? give : NULL,
                                          .source_user = &feed,
                                          .options = options };
    finish(m, &desc);
    muster_pipeline_destroy(pipeline);
}

static void check(const struct stencil *s, const uint32_t *expected, const uint32_t *out,
                  const char *what, uint64_t unit)
{
    for (uint64_t i = 0; i < items_of(s); i++)
        if (out[i] != expected[i])
            test_fail(__FILE__, __LINE__,
                      "%s %u x %u x %u from %s, border %d, units of %llu: item %llu is %08x, not "
                      "%08x",
                      s->name, s->width, s->height, s->depth, what, (int)s->border,
                      (unsigned long long)unit, (unsigned long long)i, out[i], expected[i]);
}

/* In every way, in units of several sizes. */
static void run_one(struct muster *m, struct muster_kernel *kernel, const struct stencil *s)
{
    uint64_t items = items_of(s), line_items = line_of(s);
    size_t bytes = (items + 1) * sizeof(uint32_t);
    uint32_t *in = malloc(bytes), *out = malloc(bytes), *expected = malloc(bytes);
    void *pinned = NULL;
    CHECK(in && out && expected);
    muster_device devices[8];
    size_t count;
    MUST(muster_device_list(m, devices, COUNT_OF(devices), &count, &problem));
    MUST(muster_host_allocate(m, devices[0], bytes, &pinned, &problem));
    fill(s, in);
    memcpy(pinned, in, items * sizeof *in);
    for (uint64_t i = 0; i < items; i++)
        expected[i] = s->serial(s, in, i);
    uint64_t units[] = { 0, line_items, 3 * line_items, 7 * line_items, items };
    for (enum way way = FROM_ARRAY; way < WAY_COUNT; way++)
        for (size_t u = 0; u < COUNT_OF(units); u++) {
            const struct muster_run_options options = { .size = sizeof options,
                                                        .unit_items = units[u] };
            /* A unit of one item for each of thousands only takes time. */
            if ((way == FROM_SOURCE && s->border == MUSTER_BORDER_WRAP) ||
                (units[u] > 0 && items / units[u] > 60))
                continue;
            const uint32_t *from = way == FROM_PINNED_ARRAY ? pinned : in;
            memset(out, 0xee, bytes);
            run_kernel(m, kernel, s, from, out, way, &options);
            check(s, expected, out, way_names[way], units[u]);
            memset(out, 0xee, bytes);
            bool is_called = s->has_cell && u % 2 == 1;
            run_pipeline(m, kernel, s, from, out, way, is_called, &options);
            check(s, expected, out, "a pipeline", units[u]);
        }
    MUST(muster_host_free(m, pinned, &problem));
    free(in);
    free(out);
    free(expected);
}

struct size {
    uint32_t width, height, depth;
};

static void run_all(const struct stencil *what, const struct size *sizes, size_t count)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = backend;
    options.sim = SIM_QUICK;
    options.cpu_workers = 4;
    struct muster *m = open_with(options);
    struct muster_kernel *kernel = make_kernel(m, what->name);
    for (size_t i = 0; i < count; i++)
        for (int border = MUSTER_BORDER_ZERO; border <= MUSTER_BORDER_WRAP; border++) {
            struct stencil s = *what;
            s.width = sizes[i].width;
            s.height = sizes[i].height;
            s.depth = sizes[i].depth;
            s.chroma_width = s.is_pictures ? (s.width + 1) / 2 : 0;
            s.chroma_height = s.is_pictures ? (s.height + 1) / 2 : 0;
            s.border = (enum muster_border)border;
            run_one(m, kernel, &s);
        }
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

static void a_line_sees_both_ends(void)
{
    static const struct size sizes[] = { { 1, 1, 0 },  { 4, 1, 0 },   { 19, 1, 0 },
                                         { 23, 1, 0 }, { 900, 1, 0 }, { 300007, 1, 0 } };
    run_all(&line, sizes, COUNT_OF(sizes));
}

static void a_convolution_sees_every_border(void)
{
    static const struct size sizes[] = { { 1, 1, 0 },   { 2, 2, 0 },  { 3, 40, 0 },
                                         { 37, 29, 0 }, { 64, 9, 0 }, { 613, 211, 0 } };
    run_all(&convolve, sizes, COUNT_OF(sizes));
}

static void jacobi_sees_every_border(void)
{
    static const struct size sizes[] = {
        { 5, 1, 0 }, { 1, 9, 0 }, { 50, 41, 0 }, { 1021, 130, 0 }
    };
    run_all(&jacobi, sizes, COUNT_OF(sizes));
}

static void a_volume_sees_every_border(void)
{
    static const struct size sizes[] = {
        { 1, 1, 1 }, { 5, 4, 2 }, { 9, 7, 11 }, { 2, 1, 30 }, { 61, 40, 33 }
    };
    run_all(&volume, sizes, COUNT_OF(sizes));
}

static void pictures_do_not_see_each_other(void)
{
    static const struct size sizes[] = { { 1, 1, 3 }, { 6, 5, 4 }, { 71, 33, 12 } };
    run_all(&picture, sizes, COUNT_OF(sizes));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_line_sees_both_ends),          TEST(a_convolution_sees_every_border),
        TEST(jacobi_sees_every_border),       TEST(a_volume_sees_every_border),
        TEST(pictures_do_not_see_each_other),
    };
    const char *asked = take_option(&argc, argv, "--backend");
    backend = asked ? asked : backend;
    if (!machine_has(backend))
        return EXIT_SKIPPED;
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
