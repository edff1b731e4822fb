/*
 * reduce_bits --devices LIST [CASE...]
 *
 * The example reductions on these devices: the bits of the plain walk along the documented tree, for counts
 * around the sizes of blocks and for ten sizes of units. Exits 77 if a device is not on the machine.
 */
#include "cases.h"

#include <muster/reduce.h>
#include <unistd.h>

#define EXIT_SKIPPED 77
#define ITEMS_MOST ((uint64_t)TEST_BY_SANITIZER(700001, 300001, 300001))

static const char *devices = "cpu";

#define SIMULATED                                                                                  \
    "[{\"count\": 2, \"items_per_s\": 1e7, \"launch_ns\": 10000, \"memory\": \"64MiB\"},"          \
    " {\"items_per_s\": 1e6, \"launch_ns\": 1000, \"h2d_bytes_per_s\": 1e9}]"

static struct muster *open_devices(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = devices;
    options.sim = SIMULATED;
    options.cpu_workers = 3;
    return open_with(options);
}

static struct muster_kernel *load(struct muster *m, const struct reduce_case *which)
{
    char path[512];
    struct muster_kernel *kernel = NULL;
    /* Built elsewhere, it finds them from the folder that it is started in. */
    snprintf(path, sizeof path, "%s/%s.c",
             access(KERNELS, R_OK) == 0 ? KERNELS : "examples/kernels", which->name);
    MUST(muster_kernel_load(m, path, which->name, &kernel, &problem));
    return kernel;
}

struct arrays {
    void *all[2];
    struct muster_arg args[3];
    size_t arg_count;
};

static struct arrays make_arrays(const struct reduce_case *which, uint64_t items)
{
    struct arrays made = { .arg_count = 0 };
    if (which->takes_first)
        made.args[made.arg_count++] = (struct muster_arg)MUSTER_FIRST;
    for (size_t i = 0; i < which->arrays; i++) {
        made.all[i] = malloc(items * which->item_bytes + 1);
        CHECK(made.all[i] != NULL);
        reduce_fill(which, i, made.all[i], items, test_seed());
        made.args[made.arg_count++] =
            (struct muster_arg){ MUSTER_ARG_OF(MUSTER_ARG_IN), .in = made.all[i],
                                 .bytes = which->item_bytes };
    }
    return made;
}

static void free_arrays(struct arrays *arrays)
{
    free(arrays->all[0]);
    free(arrays->all[1]);
}

static void check_once(struct muster *m, struct muster_kernel *kernel,
                       const struct reduce_case *which, const struct arrays *arrays, uint64_t items,
                       const struct muster_run_options *options, const void *expected)
{
    _Alignas(16) char result[RESULT_MAX];
    struct muster_report report = { .size = sizeof report };
    memset(result, 0x5a, sizeof result);
    MUST(muster_reduce(m, kernel, items, arrays->args, arrays->arg_count, result, which->bytes,
                       options, &report, &problem));
    CHECK_EQUAL(items, report.delivered);
    if (memcmp(result, expected, which->bytes) != 0)
        test_fail(__FILE__, __LINE__, "%s of %llu items in units of %llu: other bits", which->name,
                  (unsigned long long)items,
                  (unsigned long long)(options ? options->unit_items : 0));
    /* Nothing was written behind the result. */
    CHECK_EQUAL(0x5a, result[which->bytes]);
}

static void counts_around_blocks(void)
{
    struct muster *m = open_devices();
    for (size_t k = 0; k < reduce_case_count; k++) {
        const struct reduce_case *which = &reduce_cases[k];
        uint64_t block = which->block_items;
        const uint64_t counts[] = { 0,         1,         2,         31,           33,
                                    block - 1, block,     block + 1, 2 * block,    2 * block + 5,
                                    3 * block, 4 * block, 7 * block, 7 * block + 1 };
        struct muster_kernel *kernel = load(m, which);
        struct arrays arrays = make_arrays(which, 8 * block);
        _Alignas(16) char expected[RESULT_MAX];
        for (size_t i = 0; i < COUNT_OF(counts); i++) {
            reduce_expect(which, (const void *const *)arrays.all, counts[i], expected);
            check_once(m, kernel, which, &arrays, counts[i], NULL, expected);
        }
        free_arrays(&arrays);
        muster_kernel_destroy(kernel);
    }
    MUST(muster_close(m, &problem));
}

static void ten_sizes_of_units(void)
{
    static const uint64_t units[] = { 1,     4095,  4096,   4097,   10000,
                                      20000, 65537, 100000, 200000, 1000000 };
    struct muster *m = open_devices();
    for (size_t k = 0; k < reduce_case_count; k++) {
        const struct reduce_case *which = &reduce_cases[k];
        struct muster_kernel *kernel = load(m, which);
        struct arrays arrays = make_arrays(which, ITEMS_MOST);
        _Alignas(16) char expected[RESULT_MAX];
        reduce_expect(which, (const void *const *)arrays.all, ITEMS_MOST, expected);
        check_once(m, kernel, which, &arrays, ITEMS_MOST, NULL, expected);
        for (size_t i = 0; i < COUNT_OF(units); i++) {
            const struct muster_run_options options = { .size = sizeof options,
                                                        .unit_items = units[i],
                                                        .unordered = i % 2 == 1,
                                                        .window = i == 3 ? 50000 : 0 };
            check_once(m, kernel, which, &arrays, ITEMS_MOST, &options, expected);
        }
        free_arrays(&arrays);
        muster_kernel_destroy(kernel);
    }
    MUST(muster_close(m, &problem));
}

static bool are_devices_here(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster *m;
    size_t count = 0;
    options.devices = devices;
    options.sim = SIMULATED;
    if (muster_open(&m, &options, &problem) == MUSTER_OK) {
        muster_device_list(m, NULL, 0, &count, &problem);
        muster_close(m, NULL);
    }
    if (count == 0)
        printf("no %s here: %s\n", devices, problem.text);
    return count > 0;
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(counts_around_blocks), TEST(ten_sizes_of_units) };
    if (argc > 2 && strcmp(argv[1], "--devices") == 0) {
        devices = argv[2];
        memmove(argv + 1, argv + 3, (size_t)(argc - 2) * sizeof *argv);
        argc -= 2;
    }
    return are_devices_here() ? test_main(argc, argv, tests, COUNT_OF(tests)) : EXIT_SKIPPED;
}
