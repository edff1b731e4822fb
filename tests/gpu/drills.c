/*
 * Fault drills on a real CUDA device: a kernel that writes where it must not, one that never ends,
 * memory that does not suffice. The process lives, the answer is right or the status says what
 * happened. Run by scripts/gpu-check, each drill in a process of its own: what was lost stays lost.
 */
#include "support.h"

#include <sys/wait.h>
#include <unistd.h>

#define ITEMS (UINT64_C(1) << 22)
/* The item that the GPU cannot get past. */
#define BAD_ITEM (ITEMS / 3)

/* Slow enough that it cannot be done before the GPU's compiler is. */
static muster_status on_the_cpu(uint64_t begin, uint64_t end, void *const *args)
{
    const struct timespec pause = { 0, 4 * 1000000 };
    nanosleep(&pause, NULL);
    uint64_t first = *(const uint64_t *)args[0];
    const uint32_t *in = *(const uint32_t *const *)args[1];
    uint32_t *out = *(uint32_t *const *)args[2];
    for (uint64_t i = begin; i < end; i++)
        out[i] = in[i] * 2654435761u + (uint32_t)(first + i);
    return MUSTER_OK;
}

/* The same for CUDA, but for one item, where it does what `DEED` says. */
#define CUDA_SOURCE(deed)                                                                          \
    "extern \"C\" __global__ void drill(unsigned long begin, unsigned long items,\n"               \
    "    unsigned long first, const unsigned *in, unsigned *out)\n"                                \
    "{\n"                                                                                          \
    "    unsigned long n = blockIdx.x * (unsigned long)blockDim.x + threadIdx.x;\n"                \
    "    if (n >= items) return;\n"                                                                \
    "    unsigned long i = begin + n;\n"                                                           \
    "    if (first + i == 1398101ul) { " deed " }\n"                                               \
    "    out[i] = in[i] * 2654435761u + (unsigned)(first + i);\n"                                  \
    "}\n"
_Static_assert(BAD_ITEM == 1398101, "the source names the item");

struct drill {
    struct muster *m;
    struct muster_kernel *kernel;
    uint32_t *in, *out;
    struct muster_arg args[3];
    struct muster_report report;
    muster_status status;
};

static void begin(struct drill *drill, const char *source, const char *devices)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = devices;
    options.close_ns = SECOND;
    drill->m = open_with(options);
    const struct muster_kernel_form forms[] = {
        { .size = sizeof *forms, .kind = MUSTER_KERNEL_FUNCTION, .function = on_the_cpu },
        { .size = sizeof *forms,
          .kind = MUSTER_KERNEL_CUDA,
          .code = source,
          .code_bytes = strlen(source),
          .entry = "drill" }
    };
    MUST(muster_kernel_from(drill->m, "drill", forms, 2, &drill->kernel, &problem));
    drill->in = malloc(ITEMS * sizeof *drill->in);
    drill->out = calloc(ITEMS, sizeof *drill->out);
    CHECK(drill->in && drill->out);
    for (uint64_t i = 0; i < ITEMS; i++)
        drill->in[i] = (uint32_t)(i ^ (i >> 7));
    const struct muster_arg args[] = { MUSTER_FIRST, MUSTER_IN(drill->in), MUSTER_OUT(drill->out) };
    memcpy(drill->args, args, sizeof args);
    drill->report = full_report();
}

static void run(struct drill *drill, uint64_t timeout_ns)
{
    const struct muster_run_options options = { .size = sizeof options,
                                                .unit_items = ITEMS / 64,
                                                .timeout_ns = timeout_ns };
    memset(&problem, 0, sizeof problem);
    drill->status = muster_for(drill->m, drill->kernel, ITEMS, drill->args, 3, &options,
                               &drill->report, &problem);
    printf("  %s %s\n  delivered %llu of %llu, retries %llu\n", muster_status_name(drill->status),
           problem.text, (unsigned long long)drill->report.delivered,
           (unsigned long long)drill->report.items, (unsigned long long)drill->report.retries);
    for (size_t i = 0; i < drill->report.device_count; i++)
        printf("  %-8s %9llu items, %s\n", drill->report.devices[i].id,
               (unsigned long long)drill->report.devices[i].items,
               muster_health_name(drill->report.devices[i].health));
}

static void check_answer(const struct drill *drill, uint64_t items)
{
    for (uint64_t i = 0; i < items; i++)
        CHECK_EQUAL(drill->in[i] * 2654435761u + (uint32_t)i, drill->out[i]);
}

static enum muster_health health_of(const struct drill *drill, const char *id)
{
    for (size_t i = 0; i < drill->report.device_count; i++)
        if (strcmp(drill->report.devices[i].id, id) == 0)
            return drill->report.devices[i].health;
    test_fail(__FILE__, __LINE__, "the report does not name %s", id);
}

static void nothing_goes_wrong(void)
{
    struct drill drill = { 0 };
    begin(&drill, CUDA_SOURCE(""), "cuda:0,cpu:0");
    run(&drill, 0);
    CHECK_STATUS(MUSTER_OK, drill.status);
    check_answer(&drill, ITEMS);
    CHECK_STATUS(MUSTER_OK, muster_close(drill.m, &problem));
}

static void a_write_out_of_bounds_costs_the_gpu_and_nothing_else(void)
{
    struct drill drill = { 0 };
    begin(&drill, CUDA_SOURCE("*(unsigned *)16 = 1;"), "cuda:0,cpu:0");
    run(&drill, 0);
    CHECK_STATUS(MUSTER_OK, drill.status);
    check_answer(&drill, ITEMS);
    CHECK_EQUAL(MUSTER_HEALTH_LOST, health_of(&drill, "cuda:0"));
    CHECK(drill.report.retries > 0);
    CHECK_STATUS(MUSTER_OK, muster_close(drill.m, &problem));
}

static void a_write_out_of_bounds_on_the_only_device_is_told(void)
{
    struct drill drill = { 0 };
    begin(&drill, CUDA_SOURCE("*(unsigned *)16 = 1;"), "cuda:0");
    run(&drill, 0);
    CHECK_STATUS(MUSTER_E_DEVICE_LOST, drill.status);
    CHECK(drill.report.failed_count > 0 && drill.report.delivered <= BAD_ITEM);
    check_answer(&drill, drill.report.delivered);
    CHECK_STATUS(MUSTER_OK, muster_close(drill.m, &problem));
}

static void a_kernel_that_never_ends_costs_the_gpu_and_nothing_else(void)
{
    struct drill drill = { 0 };
    begin(&drill, CUDA_SOURCE("while (((volatile const unsigned *)in)[i] != ~0u) { }"),
          "cuda:0,cpu:0");
    run(&drill, SECOND);
    /* All is delivered; the status says that the arrays must stay. */
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, drill.status);
    CHECK_EQUAL(ITEMS, drill.report.delivered);
    check_answer(&drill, ITEMS);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_close(drill.m, &problem));
    printf("  close: %s\n", problem.text);
}

static void memory_that_does_not_suffice_is_told(void)
{
    struct drill drill = { 0 };
    begin(&drill, CUDA_SOURCE(""), "cuda:0,cpu:0");
    muster_device device = find(drill.m, "cuda:0");
    muster_stream stream = acquire(drill.m, device);
    muster_block block;
    uint64_t total = info_of(drill.m, device).memory_total;
    CHECK_STATUS(MUSTER_E_TOO_LARGE,
                 muster_block_allocate(drill.m, stream, total * 2, &block, &problem));
    printf("  %s\n", problem.text);
    /* All there is, so that the next does not get any. */
    uint64_t piece = total / 8;
    while (muster_block_allocate(drill.m, stream, piece, &block, &problem) == MUSTER_OK ||
           piece > (UINT64_C(64) << 10))
        if (problem.status != MUSTER_OK) {
            piece /= 2;
            problem.status = MUSTER_OK;
        }
    muster_status status = muster_block_allocate(drill.m, stream, total / 16, &block, &problem);
    CHECK_STATUS(MUSTER_E_DEVICE_MEMORY, status);
    printf("  %s\n", problem.text);
    run(&drill, 0);
    if (drill.status == MUSTER_OK)
        check_answer(&drill, ITEMS);
    else
        CHECK_STATUS(MUSTER_E_DEVICE_MEMORY, drill.status);
    CHECK_STATUS(MUSTER_OK, muster_close(drill.m, &problem));
}

static void a_bad_kernel_is_told_in_the_compilers_words(void)
{
    struct drill drill = { 0 };
    begin(&drill, CUDA_SOURCE("undeclared();"), "cuda:0");
    run(&drill, 0);
    CHECK(drill.status != MUSTER_OK);
    CHECK_CONTAINS("undeclared", problem.text);
    CHECK_STATUS(MUSTER_OK, muster_close(drill.m, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(nothing_goes_wrong),
        TEST(a_write_out_of_bounds_costs_the_gpu_and_nothing_else),
        TEST(a_write_out_of_bounds_on_the_only_device_is_told),
        TEST(a_kernel_that_never_ends_costs_the_gpu_and_nothing_else),
        TEST(memory_that_does_not_suffice_is_told),
        TEST(a_bad_kernel_is_told_in_the_compilers_words),
    };
    if (argc > 1)
        return test_main(argc, argv, tests, COUNT_OF(tests));
    int failed = 0;
    for (size_t i = 0; i < COUNT_OF(tests); i++) {
        char *one[] = { argv[0], (char *)tests[i].name, NULL };
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            execv("/proc/self/exe", one);
            _exit(127);
        }
        int how = 0;
        CHECK(child > 0 && waitpid(child, &how, 0) == child);
        failed += !(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    }
    printf("%zu drills, %d failed\n", COUNT_OF(tests), failed);
    return failed > 0;
}
