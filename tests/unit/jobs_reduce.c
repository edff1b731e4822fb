/*
 * Reductions as jobs: from sources, from device memory, of unknown length; with devices that are lost half
 * way; cancelled, refused, and with nothing to do.
 */
#include "support.h"

#include <muster/reduce.h>

/* Sums whose rounding tells every other order of additions apart, and the last item's number. */
static const char source[] =
    "#include <muster_kernel.h>\n"
    "struct all { double sum; uint64_t count, last; };\n"
    "MUSTER_KERNEL void tally(uint64_t i, uint64_t first, float by, MUSTER_GLOBAL const float *x,\n"
    "                         MUSTER_PARTIAL struct all *p)\n"
    "{\n"
    "    p->sum += (double)x[i] * by;\n"
    "    p->count++;\n"
    "    p->last = first + i > p->last ? first + i : p->last;\n"
    "}\n"
    "MUSTER_COMBINE void tally_combine(MUSTER_PARTIAL struct all *a,\n"
    "                                  MUSTER_PARTIAL const struct all *b)\n"
    "{\n"
    "    a->sum += b->sum;\n"
    "    a->count += b->count;\n"
    "    a->last = b->last > a->last ? b->last : a->last;\n"
    "}\n"
    "MUSTER_IDENTITY void tally_identity(MUSTER_PARTIAL struct all *p)\n"
    "{\n"
    "    p->sum = -0.0;\n"
    "    p->count = 0;\n"
    "    p->last = 0;\n"
    "}\n"
    "MUSTER_KERNEL void numbers(uint64_t i, uint64_t first, MUSTER_PARTIAL uint64_t *p)\n"
    "{\n"
    "    *p += (first + i) * (first + i);\n"
    "}\n"
    "MUSTER_COMBINE void numbers_combine(MUSTER_PARTIAL uint64_t *a, MUSTER_PARTIAL const uint64_t "
    "*b)\n"
    "{\n"
    "    *a += *b;\n"
    "}\n"
    "MUSTER_KERNEL void plain(uint64_t i, MUSTER_GLOBAL float *x)\n"
    "{\n"
    "    x[i] = 1;\n"
    "}\n";

struct all {
    double sum;
    uint64_t count, last;
};

#define ITEMS ((uint64_t)TEST_BY_SANITIZER(1000003, 400003, 400003))
#define BLOCK 4096u

static float *x, by = 1.1f;

static struct muster_kernel *load(struct muster *m, const char *entry)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = source,
                                             .code_bytes = sizeof source - 1,
                                             .entry = entry };
    struct muster_kernel *kernel = NULL;
    MUST(muster_kernel_from(m, entry, &form, 1, &kernel, &problem));
    return kernel;
}

static struct muster *open_sims(const char *sim)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.cpu_workers = 3;
    options.devices = sim ? "cpu,sim" : "cpu";
    options.sim = sim;
    return open_with(options);
}

/* The documented order, by recursion, of items [0, items). */
static struct all lane_of(uint64_t begin, uint64_t end, uint32_t lane, uint32_t step)
{
    struct all a = { -0.0, 0, 0 }, b;
    if (step == 32) {
        for (uint64_t i = begin + lane; i < end; i += step) {
            a.sum += (double)x[i] * by;
            a.count++;
            a.last = i;
        }
        return a;
    }
    a = lane_of(begin, end, lane, 2 * step);
    b = lane_of(begin, end, lane + step, 2 * step);
    a.sum += b.sum;
    a.count += b.count;
    a.last = b.last > a.last ? b.last : a.last;
    return a;
}

static struct all blocks_of(uint64_t first, uint64_t count, uint64_t items)
{
    uint64_t left = 1, end = (first + 1) * BLOCK;
    if (count == 1)
        return lane_of(first * BLOCK, end < items ? end : items, 0, 1);
    while (2 * left < count)
        left *= 2;
    struct all a = blocks_of(first, left, items), b = blocks_of(first + left, count - left, items);
    a.sum += b.sum;
    a.count += b.count;
    a.last = b.last > a.last ? b.last : a.last;
    return a;
}

static struct all expect(uint64_t items)
{
    return items == 0 ? (struct all){ -0.0, 0, 0 } : blocks_of(0, (items - 1) / BLOCK + 1, items);
}

static void check_all(struct all found, uint64_t items)
{
    struct all expected = expect(items);
    CHECK(memcmp(&found, &expected, sizeof found) == 0);
}

static const struct all untouched = { 7.0, 8, 9 };

/* One is lost with its third unit, and of another one unit in five fails. */
#define FAULTY                                                                                     \
    "[{\"count\": 2, \"items_per_s\": 3e5},"                                                       \
    " {\"items_per_s\": 3e5, \"faults\": [{\"kind\": \"lost\", \"at_launch\": 2}]},"               \
    " {\"items_per_s\": 3e5, \"faults\": [{\"kind\": \"unit_error\", \"probability\": 0.2}]}]"

static void from_arrays_with_a_device_lost_half_way(void)
{
    const struct muster_arg args[] = { MUSTER_FIRST, MUSTER_VALUE(by), MUSTER_IN(x) };
    static const uint64_t units[] = { 0, 1, 5000, 12288, 20000, 30000, 40000, 50000, 60000, 70000 };
    uint64_t retries = 0, losses = 0;
    /* How many units the device gets is a matter of the machine's load: of ten runs some lose it, but for a busy one. */
    for (size_t n = 0; n < COUNT_OF(units) || ((losses == 0 || retries == 0) && n < 200); n++) {
        size_t i = n % COUNT_OF(units);
        struct muster_options options = MUSTER_OPTIONS_INIT;
        options.devices = "sim";
        options.sim = FAULTY;
        struct muster *m = open_with(options);
        struct muster_kernel *kernel = load(m, "tally");
        const struct muster_run_options run = {
            .size = sizeof run, .unit_items = units[i], .tries = 20, .everyone = 1
        };
        struct muster_report report = { .size = sizeof report };
        struct all found = untouched;
        MUST(muster_reduce(m, kernel, ITEMS, args, 3, &found, sizeof found, &run, &report,
                           &problem));
        check_all(found, ITEMS);
        CHECK_EQUAL(ITEMS, report.items);
        CHECK_EQUAL(ITEMS, report.delivered);
        retries += report.retries;
        losses += load_of(m, find(m, "sim:2")).health == MUSTER_HEALTH_LOST;
        muster_kernel_destroy(kernel);
        MUST(muster_close(m, &problem));
    }
    CHECK(losses > 0 && retries > 0);
}

struct supply {
    uint64_t items, most; /* of a call */
    _Atomic unsigned calls;
    int64_t fails_with; /* at item `items` */
};

static int64_t give(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    struct supply *supply = user;
    (void)bytes;
    atomic_fetch_add(&supply->calls, 1);
    if (begin >= supply->items)
        return supply->fails_with;
    items = items < supply->most ? items : supply->most;
    items = items < supply->items - begin ? items : supply->items - begin;
    memcpy(to, x + begin, items * sizeof *x);
    return (int64_t)items;
}

static void from_a_source_of_known_and_unknown_length(void)
{
    struct muster *m = open_sims("[{\"count\": 2, \"items_per_s\": 1e6}]");
    struct muster_kernel *kernel = load(m, "tally");
    const struct muster_arg args[] = { MUSTER_FIRST, MUSTER_VALUE(by), MUSTER_SOURCE(float) };
    static const uint64_t counts[] = { 0, 1, BLOCK, BLOCK + 1, 5 * BLOCK - 1, 200000, 300001 };
    for (size_t i = 0; i < 2 * COUNT_OF(counts); i++) {
        struct supply supply = { .items = counts[i / 2], .most = i % 3 == 0 ? 777 : 1000000 };
        struct all found = untouched;
        struct muster_job_desc desc = { .size = sizeof desc,
                                        .kernel = kernel,
                                        .items = i % 2 ? supply.items : MUSTER_ITEMS_UNKNOWN,
                                        .args = args,
                                        .arg_count = 3,
                                        .source = give,
                                        .source_user = &supply,
                                        .source_calls = i % 3 == 1 ? 4 : 1,
                                        .result = &found,
                                        .result_bytes = sizeof found };
        struct muster_job *job;
        MUST(muster_start(m, &desc, &job, &problem));
        MUST(muster_job_wait(job, NULL, &problem));
        struct muster_progress progress = { .size = sizeof progress };
        MUST(muster_job_progress(job, &progress, &problem));
        CHECK_EQUAL(supply.items, progress.delivered);
        muster_job_destroy(job);
        check_all(found, supply.items);
    }
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

static void a_job_that_fails_writes_nothing(void)
{
    struct muster *m = open_sims(NULL);
    struct muster_kernel *kernel = load(m, "tally");
    const struct muster_arg args[] = { MUSTER_FIRST, MUSTER_VALUE(by), MUSTER_SOURCE(float) };
    struct supply supply = { .items = 100000, .most = 5000, .fails_with = MUSTER_E_IO };
    struct all found = untouched;
    struct muster_job_desc desc = { .size = sizeof desc,
                                    .kernel = kernel,
                                    .items = MUSTER_ITEMS_UNKNOWN,
                                    .args = args,
                                    .arg_count = 3,
                                    .source = give,
                                    .source_user = &supply,
                                    .result = &found,
                                    .result_bytes = sizeof found };
    struct muster_job *job;
    MUST(muster_start(m, &desc, &job, &problem));
    CHECK(muster_job_wait(job, NULL, &problem) != MUSTER_OK);
    muster_job_destroy(job);
    CHECK(memcmp(&found, &untouched, sizeof found) == 0);
    /* Cancelled by its source, before all is there. */
    supply = (struct supply){ .items = UINT64_MAX, .most = 1000 };
    desc.items = ITEMS;
    supply.items = ITEMS;
    MUST(muster_start(m, &desc, &job, &problem));
    muster_job_cancel(job);
    muster_status status = muster_job_wait(job, NULL, &problem);
    muster_job_destroy(job);
    if (status == MUSTER_OK)
        check_all(found, ITEMS);
    else
        CHECK(memcmp(&found, &untouched, sizeof found) == 0);
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

static void without_arrays_the_numbers_are_enough(void)
{
    struct muster *m = open_sims("[{\"items_per_s\": 1e5}]");
    struct muster_kernel *kernel = load(m, "numbers");
    const struct muster_arg args[] = { MUSTER_FIRST };
    const uint64_t items = 20000001;
    uint64_t found = 5, expected = 0;
    for (uint64_t i = 0; i < items; i++)
        expected += i * i;
    MUST(muster_reduce(m, kernel, items, args, 1, &found, sizeof found, NULL, NULL, &problem));
    CHECK(found == expected);
    MUST(muster_reduce(m, kernel, 0, args, 1, &found, sizeof found, NULL, NULL, &problem));
    CHECK_EQUAL(0, found);
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

static void from_memory_of_a_device(void)
{
    struct muster *m = open_plain();
    struct muster_kernel *kernel = load(m, "tally");
    muster_stream stream = acquire(m, find(m, "sim:0"));
    const uint64_t items = 100001, bytes = items * sizeof *x;
    muster_block block = allocate(m, stream, bytes + 64);
    MUST(muster_copy_in(m, stream, block, 64, x, bytes, &problem));
    struct muster_arg args[] = { MUSTER_FIRST, MUSTER_VALUE(by), MUSTER_DEVICE_IN(block, float) };
    args[2].offset = 64;
    struct all found = untouched;
    MUST(muster_reduce(m, kernel, items, args, 3, &found, sizeof found, NULL, NULL, &problem));
    check_all(found, items);
    MUST(muster_block_free(m, stream, block, &problem));
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

static muster_status take(void *user, const struct muster_result *result)
{
    (void)user, (void)result;
    return MUSTER_OK;
}

static void what_makes_no_sense_is_refused(void)
{
    struct muster *m = open_sims(NULL);
    struct muster_kernel *kernel = load(m, "tally"), *plain = load(m, "plain");
    const struct muster_arg args[] = { MUSTER_FIRST, MUSTER_VALUE(by), MUSTER_IN(x) };
    struct muster_arg written[] = { MUSTER_FIRST, MUSTER_VALUE(by), MUSTER_INOUT(x) };
    const struct muster_arg around[] = { MUSTER_FIRST, MUSTER_VALUE(by), MUSTER_IN_HALO(x, 1) };
    const struct muster_arg cells[] = { MUSTER_FIRST, MUSTER_GRID(4, 4), MUSTER_IN(x) };
    struct muster_arg own[] = { MUSTER_FIRST, MUSTER_VALUE(by), MUSTER_IN(x) };
    struct all found = untouched;
    muster_status statuses[16];
    struct muster_run_options kept = { .size = sizeof kept, .kept_max = 1 };
    struct muster_run_options multiple = { .size = sizeof multiple, .unit_multiple = 2 };
    const struct muster_job_desc sound = { .size = sizeof sound,
                                           .kernel = kernel,
                                           .items = 16,
                                           .args = args,
                                           .arg_count = 3,
                                           .result = &found,
                                           .result_bytes = sizeof found };
    own[2].kind = MUSTER_ARG_PARTIAL;
    struct muster_job *job;
#define REFUSED(says, ...)                                                                         \
    do {                                                                                           \
        struct muster_job_desc desc_ = sound;                                                      \
        __VA_ARGS__;                                                                               \
        CHECK_STATUS(MUSTER_E_INVALID, muster_start(m, &desc_, &job, &problem));                   \
        CHECK_CONTAINS(says, problem.text);                                                        \
    } while (0)
    REFUSED("result has 8 bytes; the partial of kernel tally, struct all, has 24",
            desc_.result_bytes = 8);
    REFUSED("plain is no reduction", desc_.kernel = plain);
    REFUSED("no sink", desc_.sink = take);
    REFUSED("no each_status", desc_.each_status = statuses);
    REFUSED("no kept_max", desc_.options = &kept);
    REFUSED("no unit_multiple", desc_.options = &multiple);
    REFUSED("argument 2 of a reduction is written", desc_.args = written);
    /* The launches at the ends of the array began within blocks: results were wrong, or it crashed. */
    REFUSED("argument 2 of a reduction is a grid or has a halo", desc_.args = around);
    REFUSED("argument 1 of a reduction is a grid or has a halo", desc_.args = cells);
    REFUSED("Muster's own", desc_.args = own);
    REFUSED("takes 3 arguments, and was given 2", desc_.arg_count = 2);
    REFUSED("tally is a reduction", desc_.result = NULL);
    CHECK_STATUS(MUSTER_E_INVALID, muster_for(m, kernel, 16, args, 3, NULL, NULL, &problem));
    CHECK_CONTAINS("is a reduction", problem.text);
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_reduce(m, kernel, 16, args, 3, NULL, sizeof found, NULL, NULL, &problem));
    const struct muster_operand operands[] = { MUSTER_SCALAR(by) };
    muster_stream stream = acquire(m, find(m, "cpu:0"));
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_launch(m, stream, kernel, 0, 1, operands, 1, NULL, &problem));
    CHECK_CONTAINS("muster_reduce", problem.fix);
    CHECK(memcmp(&found, &untouched, sizeof found) == 0);
    muster_kernel_destroy(plain);
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

static void the_partial_is_described(void)
{
    struct muster *m = open_sims(NULL);
    struct muster_kernel *kernel = load(m, "tally"), *plain = load(m, "plain");
    struct muster_partial partial = { .size = sizeof partial };
    struct muster_partial_field field = { .size = sizeof field };
    MUST(muster_kernel_partial(kernel, &partial, &problem));
    CHECK_TEXT("struct all", partial.type);
    CHECK_EQUAL(sizeof(struct all), partial.bytes);
    CHECK_EQUAL(BLOCK, partial.block_items);
    CHECK_EQUAL(32, partial.lanes);
    CHECK_EQUAL(3, partial.field_count);
    MUST(muster_kernel_partial_field(kernel, 2, &field, &problem));
    CHECK_TEXT("last", field.name);
    CHECK_TEXT("uint64_t", field.type);
    CHECK_EQUAL(16, field.offset);
    CHECK_EQUAL(1, field.count);
    CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_kernel_partial_field(kernel, 3, &field, &problem));
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED, muster_kernel_partial(plain, &partial, &problem));
    struct muster_kernel_parameter parameter = { .size = sizeof parameter };
    CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_kernel_parameter(kernel, 3, &parameter, &problem));
    muster_kernel_destroy(plain);
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

static void memory_comes_back(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.allocator = counting_allocator(&counting);
    options.devices = "cpu";
    struct muster *m = open_with(options);
    struct muster_kernel *kernel = load(m, "tally");
    const struct muster_arg args[] = { MUSTER_FIRST, MUSTER_VALUE(by), MUSTER_IN(x) };
    struct all found;
    for (int i = 0; i < 3; i++)
        MUST(muster_reduce(m, kernel, 50000, args, 3, &found, sizeof found, NULL, NULL, &problem));
    CHECK(muster_reduce(m, kernel, 50000, args, 3, &found, 1, NULL, NULL, &problem) != MUSTER_OK);
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, counting.bytes);
    CHECK_EQUAL(0, counting.wrong);
}

/* Fails the allocation at which `left` has come to 0, and those after it. */
struct scarce {
    struct counting counting;
    _Atomic int64_t left;
};

static void *scarce_allocate(void *user, size_t bytes, size_t alignment)
{
    struct scarce *scarce = user;
    return atomic_fetch_sub(&scarce->left, 1) <= 0
               ? NULL
               : counting_allocate(&scarce->counting, bytes, alignment);
}

static void scarce_release(void *user, void *memory, size_t bytes)
{
    counting_release(&((struct scarce *)user)->counting, memory, bytes);
}

static void without_memory_it_fails_and_leaves_nothing(void)
{
    const struct muster_arg args[] = { MUSTER_FIRST, MUSTER_VALUE(by), MUSTER_IN(x) };
    bool was_enough = false;
    for (int64_t n = 0; !was_enough; n += TEST_BY_SANITIZER(1, 5, 5)) {
        struct scarce scarce = { .counting = COUNTING_INIT, .left = INT64_MAX };
        const struct muster_allocator hook = { sizeof hook, scarce_allocate, scarce_release,
                                               &scarce };
        struct muster_options options = MUSTER_OPTIONS_INIT;
        struct all found = untouched;
        CHECK(n < 2000);
        options.allocator = &hook;
        options.devices = "cpu";
        struct muster *m = open_with(options);
        struct muster_kernel *kernel = load(m, "tally");
        atomic_store(&scarce.left, n);
        muster_status status =
            muster_reduce(m, kernel, 20000, args, 3, &found, sizeof found, NULL, NULL, &problem);
        was_enough = status == MUSTER_OK;
        atomic_store(&scarce.left, INT64_MAX);
        if (was_enough)
            check_all(found, 20000);
        else
            CHECK(memcmp(&found, &untouched, sizeof found) == 0);
        /* With memory again it works again. */
        MUST(muster_reduce(m, kernel, 20000, args, 3, &found, sizeof found, NULL, NULL, &problem));
        check_all(found, 20000);
        muster_kernel_destroy(kernel);
        MUST(muster_close(m, &problem));
        CHECK_EQUAL(0, scarce.counting.bytes);
        CHECK_EQUAL(0, scarce.counting.wrong);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(from_arrays_with_a_device_lost_half_way),
        TEST(from_a_source_of_known_and_unknown_length),
        TEST(a_job_that_fails_writes_nothing),
        TEST(without_arrays_the_numbers_are_enough),
        TEST(from_memory_of_a_device),
        TEST(what_makes_no_sense_is_refused),
        TEST(the_partial_is_described),
        TEST(memory_comes_back),
        TEST(without_memory_it_fails_and_leaves_nothing),
    };
    x = malloc(ITEMS * sizeof *x);
    if (!x)
        return 1;
    for (uint64_t i = 0; i < ITEMS; i++)
        x[i] = (float)(i * 2654435761u % 1999) * (i % 3 == 0 ? 1e5f : 1e-4f) - 50.0f;
    int code = test_main(argc, argv, tests, COUNT_OF(tests));
    free(x);
    return code;
}
