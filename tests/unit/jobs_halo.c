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

static void only_a_source_has_a_halo(void)
{
    struct muster *m = open_with((struct muster_options)MUSTER_OPTIONS_INIT);
    struct muster_kernel *kernel = make_kernel(m);
    uint32_t in[4] = { 0 }, out[4];
    struct muster_arg args[] = { MUSTER_IN(in), MUSTER_OUT(out) };
    args[0].halo = 1;
    CHECK_STATUS(MUSTER_E_INVALID, muster_for(m, kernel, 4, args, 2, NULL, NULL, &problem));
    CHECK_CONTAINS("halo", problem.text);
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(neighbours_are_seen_by_cores),
        TEST(neighbours_are_seen_by_a_device_that_copies),
        TEST(only_a_source_has_a_halo),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
