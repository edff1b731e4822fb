/*
 * What a caller declares against what a kernel's source says: const against written, the size and the
 * type of elements. What contradicts is refused before anything runs, and nothing is written.
 */
#include "support.h"

#define ITEMS 64

static const char source[] =
    "struct pair { float low; uint32_t high; };\n"
    "MUSTER_KERNEL void scale(uint64_t i, float by, MUSTER_GLOBAL const float *in,\n"
    "                         MUSTER_GLOBAL float *out) { out[i] = by * in[i]; }\n"
    "MUSTER_KERNEL void touch(uint64_t i, MUSTER_GLOBAL float *x) { x[i] = x[i] + 1.0f; }\n"
    "MUSTER_KERNEL void count(uint64_t i, MUSTER_GLOBAL const uint32_t *in,\n"
    "                         MUSTER_GLOBAL int64_t *out) { out[i] = (int64_t)in[i]; }\n"
    "MUSTER_KERNEL void pairs(uint64_t i, MUSTER_GLOBAL const struct pair *in,\n"
    "                         MUSTER_GLOBAL float *out) { out[i] = in[i].low; }\n"
    "MUSTER_KERNEL void rows(uint64_t i, MUSTER_GLOBAL const float *in,\n"
    "                        MUSTER_GLOBAL float *out) { out[i] = in[2 * i]; }\n";

static float in[2 * ITEMS], out[2 * ITEMS];
static double wide[ITEMS];
static int32_t whole[ITEMS];
static int64_t large[ITEMS];

static struct muster_kernel *load(struct muster *m, const char *entry)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = source,
                                             .code_bytes = sizeof source - 1,
                                             .entry = entry,
                                             .file = "here.c" };
    struct muster_kernel *kernel;
    MUST(muster_kernel_from(m, entry, &form, 1, &kernel, &problem));
    return kernel;
}

/* As a job and as a task. */
static void check_refused(struct muster *m, const char *entry, const struct muster_arg *args,
                          size_t count, const char *words)
{
    struct muster_kernel *kernel = load(m, entry);
    CHECK_STATUS(MUSTER_E_INVALID, muster_for(m, kernel, ITEMS, args, count, NULL, NULL, &problem));
    CHECK_CONTAINS(words, problem.text);
    CHECK(problem.fix[0] != '\0');
    const struct muster_task_desc desc = {
        .size = sizeof desc, .kernel = kernel, .items = ITEMS, .args = args, .arg_count = count
    };
    muster_task task;
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(m, &desc, 1, &task, &problem));
    CHECK_CONTAINS(words, problem.text);
    muster_kernel_destroy(kernel);
}

static void check_taken(struct muster *m, const char *entry, const struct muster_arg *args,
                        size_t count)
{
    struct muster_kernel *kernel = load(m, entry);
    MUST(muster_for(m, kernel, ITEMS, args, count, NULL, NULL, &problem));
    muster_kernel_destroy(kernel);
}

static void what_the_kernel_may_write_is_not_only_read(void)
{
    struct muster *m = open_plain();
    const struct muster_arg read[] = { MUSTER_IN(in) };
    in[0] = 5;
    check_refused(m, "touch", read, 1, "may write 'x'");
    CHECK(in[0] == 5);
    muster_data data;
    MUST(muster_data_create(m, in, sizeof in, 0, &data, &problem));
    const struct muster_arg all[] = { MUSTER_ALL(data) };
    check_refused(m, "touch", all, 1, "may write 'x'");
    MUST(muster_data_destroy(m, data, &problem));
    const struct muster_arg both[] = { MUSTER_INOUT(in) };
    check_taken(m, "touch", both, 1);
    CHECK(in[0] == 6);
    MUST(muster_close(m, &problem));
}

static void what_is_const_is_not_written(void)
{
    struct muster *m = open_plain();
    float by = 2;
    const struct muster_arg swapped[] = { MUSTER_VALUE(by), MUSTER_OUT(out), MUSTER_OUT(out) };
    check_refused(m, "scale", swapped, 3, "cannot write 'in'");
    const struct muster_arg update[] = { MUSTER_VALUE(by), MUSTER_INOUT(in), MUSTER_OUT(out) };
    check_refused(m, "scale", update, 3, "cannot write 'in'");
    const struct muster_arg right[] = { MUSTER_VALUE(by), MUSTER_IN(in), MUSTER_OUT(out) };
    check_taken(m, "scale", right, 3);
    MUST(muster_close(m, &problem));
}

static void elements_are_of_the_source_s_type(void)
{
    struct muster *m = open_plain();
    float by = 2;
    int number = 2;
    const struct muster_arg doubles[] = { MUSTER_VALUE(by), MUSTER_IN(wide), MUSTER_OUT(out) };
    check_refused(m, "scale", doubles, 3, "'in' of kernel scale is MUSTER_GLOBAL const float *");
    CHECK_CONTAINS("was given double", problem.text);
    const struct muster_arg integers[] = { MUSTER_VALUE(by), MUSTER_IN(whole), MUSTER_OUT(out) };
    check_refused(m, "scale", integers, 3, "was given 32-bit integers");
    const struct muster_arg value[] = { MUSTER_VALUE(number), MUSTER_IN(in), MUSTER_OUT(out) };
    check_refused(m, "scale", value, 3, "'by' of kernel scale is float, and was given 32-bit");
    const struct muster_arg narrow[] = { MUSTER_IN(whole), MUSTER_OUT(whole) };
    check_refused(m, "count", narrow, 2, "'out' of kernel count");
    /* Integers may differ in their sign, and a cast says that it is meant so. */
    const struct muster_arg signs[] = { MUSTER_IN(whole), MUSTER_OUT(large) };
    check_taken(m, "count", signs, 2);
    const struct muster_arg cast[] = { MUSTER_IN((const uint32_t *)in), MUSTER_OUT(large) };
    check_taken(m, "count", cast, 2);
    MUST(muster_close(m, &problem));
}

static void items_are_whole_elements(void)
{
    static struct {
        float low;
        uint32_t high;
    } pairs[ITEMS];
    struct muster *m = open_plain();
    const struct muster_arg odd[] = { { MUSTER_ARG_OF(MUSTER_ARG_IN), .in = in, .bytes = 6 },
                                      MUSTER_OUT(out) };
    check_refused(m, "rows", odd, 2, "items of 6 bytes");
    const struct muster_arg bytes[] = { MUSTER_IN((const uint8_t *)in), MUSTER_OUT(out) };
    check_refused(m, "rows", bytes, 2, "was given 8-bit integers");
    const struct muster_arg rows[] = { MUSTER_IN((const float(*)[2])in), MUSTER_OUT(out) };
    check_taken(m, "rows", rows, 2);
    const struct muster_arg by_hand[] = { { MUSTER_ARG_OF(MUSTER_ARG_IN), .in = in, .bytes = 8 },
                                          MUSTER_OUT(out) };
    check_taken(m, "rows", by_hand, 2);
    const struct muster_arg structs[] = { MUSTER_IN(pairs), MUSTER_OUT(out) };
    check_taken(m, "pairs", structs, 2);
    MUST(muster_close(m, &problem));
}

static void launches_and_stages_are_checked_too(void)
{
    struct muster *m = open_plain();
    struct muster_kernel *kernel = load(m, "scale"), *touch = load(m, "touch");
    float by = 2;
    muster_stream stream = acquire(m, find(m, "cpu:0"));
    muster_block block = allocate(m, stream, sizeof in);
    const struct muster_operand read[] = { MUSTER_BLOCK_READ(block) };
    CHECK_STATUS(MUSTER_E_INVALID, muster_launch(m, stream, touch, 0, 1, read, 1, NULL, &problem));
    CHECK_CONTAINS("may write 'x'", problem.text);
    const struct muster_operand written[] = { MUSTER_SCALAR(by), MUSTER_BLOCK_UPDATE(block),
                                              MUSTER_BLOCK_WRITE(block) };
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_launch(m, stream, kernel, 0, 1, written, 3, NULL, &problem));
    CHECK_CONTAINS("cannot write 'in'", problem.text);
    /* A stage that says it only reads what its kernel writes. */
    const struct muster_buffer buffers[] = {
        { .size = sizeof *buffers, .name = "in", .place = MUSTER_HOST, .bytes_per_item = 4 },
        { .size = sizeof *buffers, .name = "d", .place = MUSTER_DEVICE, .bytes_per_item = 4 },
        { .size = sizeof *buffers, .name = "out", .place = MUSTER_HOST, .bytes_per_item = 4 }
    };
    struct muster_stage stages[] = { { .size = sizeof *stages,
                                       .name = "up",
                                       .stream = "h2d",
                                       .reads = 1,
                                       .writes = 2,
                                       .flags = MUSTER_COPY },
                                     { .size = sizeof *stages,
                                       .name = "touch",
                                       .stream = "compute",
                                       .reads = 2,
                                       .kernel = touch },
                                     { .size = sizeof *stages,
                                       .name = "down",
                                       .stream = "d2h",
                                       .reads = 2,
                                       .writes = 4,
                                       .flags = MUSTER_COPY } };
    struct muster_pipeline *pipeline;
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_pipeline_create(m, buffers, 3, stages, 3, NULL, &pipeline, &problem));
    CHECK_CONTAINS("may write 'x'", problem.text);
    MUST(muster_close(m, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(what_the_kernel_may_write_is_not_only_read), TEST(what_is_const_is_not_written),
        TEST(elements_are_of_the_source_s_type),          TEST(items_are_whole_elements),
        TEST(launches_and_stages_are_checked_too),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
