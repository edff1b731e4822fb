/*
 * Halos: a kernel that reads the neighbours of its items, across the borders of units, rounds of the
 * ring and both ends, on the cores and on a device that copies.
 */
#include "jobs_support.h"

#define HALO 5

static uint32_t item(uint64_t i)
{
    return (uint32_t)(i * UINT64_C(0x9e3779b97f4a7c15) >> 32) | 1;
}

/* What the neighbours of an item make, with zeros beyond the ends. */
static uint32_t expected(uint64_t i, uint64_t items)
{
    uint32_t sum = 0;
    for (uint64_t k = 0; k <= 2 * HALO; k++)
        if (i + k >= HALO && i + k - HALO < items)
            sum = sum * 31 + item(i + k - HALO);
        else
            sum = sum * 31;
    return sum;
}

static const char source_text[] =
    "MUSTER_KERNEL void mix(uint64_t i, MUSTER_GLOBAL const uint32_t *in,\n"
    "                       MUSTER_GLOBAL uint32_t *out)\n"
    "{\n"
    "    MUSTER_GLOBAL const uint32_t *at = in + i;\n"
    "    uint32_t sum = 0;\n"
    "    for (int k = -5; k <= 5; k++)\n"
    "        sum = sum * 31 + at[k];\n"
    "    out[i] = sum;\n"
    "}\n";

struct feed {
    uint64_t items, at_once;
    uint32_t calls;
    _Atomic uint64_t given, wrongly_asked; /* the source's */
    uint64_t delivered, wrong;             /* the sink's */
};

static int64_t give(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    struct feed *feed = user;
    uint32_t *out = to;
    uint64_t left = begin < feed->items ? feed->items - begin : 0;
    uint64_t count = items < left ? items : left;
    count = count < feed->at_once ? count : feed->at_once;
    feed->wrongly_asked += bytes != items * sizeof *out;
    feed->wrongly_asked += feed->calls == 1 && begin != feed->given;
    for (uint64_t i = 0; i < count; i++)
        out[i] = item(begin + i);
    feed->given += count;
    return (int64_t)count;
}

static muster_status look(void *user, const struct muster_result *result)
{
    struct feed *feed = user;
    const uint32_t *out = result->outputs[0];
    feed->wrong += result->range.begin != feed->delivered;
    for (uint64_t i = result->range.begin; i < result->range.end; i++)
        feed->wrong += out[i - result->range.begin] != expected(i, feed->items);
    feed->delivered = result->range.end;
    return MUSTER_OK;
}

static struct muster_kernel *make_kernel(struct muster *m)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = source_text,
                                             .code_bytes = sizeof source_text - 1,
                                             .entry = "mix" };
    struct muster_kernel *kernel;
    MUST(muster_kernel_from(m, "mix", &form, 1, &kernel, &problem));
    return kernel;
}

static void run_calls(struct muster *m, struct muster_kernel *kernel, const char *devices,
                      uint64_t items, uint64_t unit, uint64_t window, bool is_known, uint32_t calls)
{
    struct feed feed = { .items = items, .at_once = unit + 3, .calls = calls };
    struct muster_arg args[] = { MUSTER_SOURCE_HALO(uint32_t, HALO),
                                 { MUSTER_ARG_OF(MUSTER_ARG_OUT), .bytes = sizeof(uint32_t) } };
    struct muster_job_desc desc = { .size = sizeof desc,
                                    .kernel = kernel,
                                    .items = is_known ? items : MUSTER_ITEMS_UNKNOWN,
                                    .args = args,
                                    .arg_count = 2,
                                    .sink = look,
                                    .sink_user = &feed,
                                    .source = give,
                                    .source_user = &feed,
                                    .source_calls = calls,
                                    .options = &(struct muster_run_options){
                                        .size = sizeof(struct muster_run_options),
                                        .devices = devices,
                                        .unit_items = unit,
                                        .window = window } };
    struct muster_job *job;
    MUST(muster_start(m, &desc, &job, &problem));
    MUST(muster_job_wait(job, NULL, &problem));
    muster_job_destroy(job);
    CHECK_EQUAL(0, feed.wrongly_asked);
    CHECK_EQUAL(0, feed.wrong);
    CHECK_EQUAL(items, feed.delivered);
    CHECK_EQUAL(items, feed.given);
}

/* In one call at a time, and in several. */
static void run(struct muster *m, struct muster_kernel *kernel, const char *devices, uint64_t items,
                uint64_t unit, uint64_t window, bool is_known)
{
    run_calls(m, kernel, devices, items, unit, window, is_known, 1);
    run_calls(m, kernel, devices, items, unit, window, is_known, 3);
}

static void run_all(const char *devices)
{
    static const uint64_t totals[] = { 0, 1, 2, HALO, 2 * HALO + 1, 1000, 50021 };
    struct muster *m = open_with((struct muster_options)MUSTER_OPTIONS_INIT);
    struct muster_kernel *kernel = make_kernel(m);
    for (size_t i = 0; i < COUNT_OF(totals); i++)
        for (int is_known = 0; is_known < 2; is_known++) {
            run(m, kernel, devices, totals[i], 0, 0, is_known);
            /* With the halos these are whole pages, so that the ring has no more room than that. */
            run(m, kernel, devices, totals[i], 1000, 3 * 1024 - 3 * HALO, is_known);
            if (totals[i] > 1000)
                continue;
            run(m, kernel, devices, totals[i], 7, 0, is_known);
            /* The ring goes round often, and is shorter than the halos of all its units. */
            run(m, kernel, devices, totals[i], 3, 20, is_known);
            /* A unit may be as large as the window, and its halos come on top. */
            run(m, kernel, devices, totals[i], 50, 50, is_known);
            run(m, kernel, devices, totals[i], HALO - 1, HALO - 1, is_known);
            run(m, kernel, devices, totals[i], 1, 1, is_known);
        }
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

static void neighbours_are_seen_by_cores(void)
{
    run_all("cpu:0");
}

static void neighbours_are_seen_by_a_device_that_copies(void)
{
    run_all("cuda:0");
}

/* A kernel that nobody runs: with a grid, with one array that is read and one that is written. */
static const char grid_text[] =
    "MUSTER_KERNEL void copy(uint64_t i, struct muster_cell at, MUSTER_GLOBAL const uint32_t *in,\n"
    "                        MUSTER_GLOBAL uint32_t *out)\n"
    "{\n"
    "    out[i] = muster_near(in, i, at, 1, 1);\n"
    "}\n";

static void refuse(struct muster *m, struct muster_kernel *kernel, struct muster_arg *args,
                   size_t count, uint64_t items, const struct muster_run_options *options,
                   const char *word)
{
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_for(m, kernel, items, args, count, options, NULL, &problem));
    CHECK_CONTAINS(word, problem.text);
}

static void what_cannot_have_a_halo_is_refused(void)
{
    struct muster *m = open_with((struct muster_options)MUSTER_OPTIONS_INIT);
    struct muster_kernel *kernel = make_kernel(m);
    uint32_t in[40] = { 0 }, out[40];
    struct muster_arg args[] = { MUSTER_IN_HALO(in, 1), MUSTER_OUT(out) };
    args[1].halo = 1;
    refuse(m, kernel, args, 2, 4, NULL, "halo");
    args[1] = (struct muster_arg)MUSTER_INOUT(out);
    args[1].halo = 1;
    refuse(m, kernel, args, 2, 4, NULL, "only arrays that are read");
    /* Its neighbours would change while they are read. */
    args[1] = (struct muster_arg)MUSTER_OUT(in + 3);
    refuse(m, kernel, args, 2, 4, NULL, "shares memory");
    args[1] = (struct muster_arg)MUSTER_INOUT(in);
    refuse(m, kernel, args, 2, 4, NULL, "shares memory");
    args[1] = (struct muster_arg)MUSTER_OUT(out);
    args[0].halo = (UINT64_C(1) << 40) + 1;
    refuse(m, kernel, args, 2, 4, NULL, "at most 1099511627776");
    /* Arrays that reach around all memory do not share it: they are too large. */
    args[0].halo = HALO;
    CHECK_STATUS(MUSTER_E_TOO_LARGE,
                 muster_for(m, kernel, UINT64_C(1) << 58, args, 2, NULL, NULL, &problem));
    CHECK_CONTAINS("larger than any memory", problem.text);
    args[0] = (struct muster_arg)MUSTER_IN_BORDER(in, 1, (enum muster_border)3);
    refuse(m, kernel, args, 2, 4, NULL, "border of kind 3");
    struct muster_task_desc task = {
        .size = sizeof task, .kernel = kernel, .items = 4, .args = args, .arg_count = 2
    };
    args[0] = (struct muster_arg)MUSTER_IN_HALO(in, 1);
    muster_task handle;
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(m, &task, 1, &handle, &problem));
    CHECK_CONTAINS("halo", problem.text);
    struct feed feed = { .items = 4, .at_once = 4, .calls = 1 };
    struct muster_arg supplied[] = { MUSTER_SOURCE_BORDER(uint32_t, 1, MUSTER_BORDER_WRAP),
                                     MUSTER_OUT(out) };
    struct muster_job_desc desc = { .size = sizeof desc,
                                    .kernel = kernel,
                                    .items = 4,
                                    .args = supplied,
                                    .arg_count = 2,
                                    .source = give,
                                    .source_user = &feed };
    struct muster_job *job;
    CHECK_STATUS(MUSTER_E_INVALID, muster_start(m, &desc, &job, &problem));
    CHECK_CONTAINS("wrap", problem.text);
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

static void what_is_no_grid_is_refused(void)
{
    struct muster *m = open_with((struct muster_options)MUSTER_OPTIONS_INIT);
    struct muster_kernel *kernel;
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = grid_text,
                                             .code_bytes = sizeof grid_text - 1,
                                             .entry = "copy" };
    MUST(muster_kernel_from(m, "copy", &form, 1, &kernel, &problem));
    uint32_t in[40] = { 0 }, out[40];
    struct muster_run_options options = { .size = sizeof options };
    struct muster_arg args[] = { MUSTER_GRID(8, 5), MUSTER_IN_HALO(in, 1), MUSTER_OUT(out) };
    MUST(muster_for(m, kernel, 40, args, 3, &options, NULL, &problem));
    /* The kernel would read what lies around a unit, whatever that is. */
    args[1].halo = 0;
    refuse(m, kernel, args, 3, 40, &options, "no argument has a halo");
    args[1].halo = 1;
    refuse(m, kernel, args, 3, 39, &options, "39 items");
    /* Units are whole rows. */
    options.unit_items = 12;
    refuse(m, kernel, args, 3, 40, &options, "8 cells");
    options.unit_items = 16;
    MUST(muster_for(m, kernel, 40, args, 3, &options, NULL, &problem));
    options.unit_multiple = 4;
    refuse(m, kernel, args, 3, 40, &options, "rows");
    options.unit_multiple = 0;
    options.window = 7;
    refuse(m, kernel, args, 3, 40, &options, "window 7");
    args[0].width = 0;
    refuse(m, kernel, args, 3, 40, NULL, "grid of 0 x 5");
    args[0] = (struct muster_arg)MUSTER_GRID(8, 5);
    args[0].chroma_width = 4;
    refuse(m, kernel, args, 3, 40, NULL, "chroma 4 x 0");
    args[0] = (struct muster_arg)MUSTER_GRID_3D(UINT32_MAX, UINT32_MAX, UINT32_MAX);
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_for(m, kernel, 40, args, 3, NULL, NULL, &problem));
    args[0] = (struct muster_arg)MUSTER_PICTURES(7, 3);
    refuse(m, kernel, args, 3, 40, NULL, "a picture 21 cells");
    struct muster_arg twice[] = { MUSTER_GRID(8, 5), MUSTER_GRID(8, 5), MUSTER_OUT(out) };
    CHECK_STATUS(MUSTER_E_INVALID, muster_for(m, kernel, 40, twice, 3, NULL, NULL, &problem));
    /* Cells fail together. */
    muster_status statuses[40];
    args[0] = (struct muster_arg)MUSTER_GRID(8, 5);
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_for_each_status(m, kernel, 40, args, 3, statuses, NULL, NULL, &problem));
    CHECK_CONTAINS("each_status", problem.text);
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

/* The arrays at both ends of what is compared, with several halos, beside one that has none. */
static muster_status add_all(uint64_t begin, uint64_t end, void *const *args)
{
    const uint32_t *a = *(const uint32_t *const *)args[0], *b = *(const uint32_t *const *)args[1];
    const uint32_t *c = *(const uint32_t *const *)args[2];
    uint32_t *out = *(uint32_t *const *)args[3];
    for (uint64_t i = begin; i < end; i++)
        out[i] = *(a + i - 1) + 3 * a[i + 1] + 5 * *(b + i - 4) + 7 * b[i + 4] + 11 * c[i];
    return MUSTER_OK;
}

static void several_arrays_have_their_own_halos(void)
{
    enum { ITEMS = 3000 };
    static uint32_t a[ITEMS], b[ITEMS], c[ITEMS], out[ITEMS];
    struct muster *m = open_with((struct muster_options)MUSTER_OPTIONS_INIT);
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = add_all };
    struct muster_kernel *kernel;
    MUST(muster_kernel_from(m, "add", &form, 1, &kernel, &problem));
    struct muster_arg args[] = { MUSTER_IN_BORDER(a, 1, MUSTER_BORDER_WRAP), MUSTER_IN_HALO(b, 4),
                                 MUSTER_IN(c), MUSTER_OUT(out) };
    for (size_t i = 0; i < ITEMS; i++) {
        a[i] = item(i);
        b[i] = item(i + 1000000);
        c[i] = item(i + 2000000);
    }
    for (uint64_t unit = 0; unit < 4000; unit += 1 + unit * 2) {
        const struct muster_run_options options = { .size = sizeof options, .unit_items = unit };
        memset(out, 0, sizeof out);
        MUST(muster_for(m, kernel, ITEMS, args, 4, &options, NULL, &problem));
        for (size_t i = 0; i < ITEMS; i++)
            CHECK_EQUAL((uint32_t)(a[(i + ITEMS - 1) % ITEMS] + 3 * a[(i + 1) % ITEMS] +
                                   5 * (i >= 4 ? b[i - 4] : 0) +
                                   7 * (i + 4 < ITEMS ? b[i + 4] : 0) + 11 * c[i]),
                        out[i]);
    }
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(neighbours_are_seen_by_cores),
        TEST(neighbours_are_seen_by_a_device_that_copies),
        TEST(what_cannot_have_a_halo_is_refused),
        TEST(what_is_no_grid_is_refused),
        TEST(several_arrays_have_their_own_halos),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
