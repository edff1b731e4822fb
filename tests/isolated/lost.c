/*
 * A GPU that is lost in a helper: the helper ends, and the device is back in the next one. With the driver of the tests,
 * whose context dies at the twentieth launch of each process (TEST_CUDA).
 */
#include "harness.h"

#include <muster/muster.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define UNITS 60u
#define ITEMS 6000u

static const char source[] = "#include <muster_kernel.h>\n"
                             "MUSTER_KERNEL void next(uint64_t i, MUSTER_GLOBAL const uint32_t "
                             "*in, MUSTER_GLOBAL uint32_t *out)\n"
                             "{\n"
                             "    out[i] = in[i] + 1;\n"
                             "}\n";

static void note(void *user, enum muster_log_level level, const char *text)
{
    (void)level;
    if (strstr(text, "the device was lost"))
        atomic_fetch_add((atomic_int *)user, 1);
}

static void a_lost_gpu_comes_back(void)
{
    atomic_int losses = 0;
    struct muster *m;
    struct muster_kernel *kernel;
    struct muster_error err;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = options.isolate = "cuda";
    options.log = note;
    options.log_user = &losses;
    CHECK_STATUS(MUSTER_OK, muster_open(&m, &options, &err));
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = source,
                                             .code_bytes = sizeof source - 1,
                                             .entry = "next" };
    CHECK_STATUS(MUSTER_OK, muster_kernel_from(m, "next", &form, 1, &kernel, &err));
    uint32_t *in = malloc(ITEMS * sizeof *in), *out = calloc(ITEMS, sizeof *out);
    for (uint32_t i = 0; i < ITEMS; i++)
        in[i] = i;
    const struct muster_arg args[] = { MUSTER_IN(in), MUSTER_OUT(out) };
    const struct muster_run_options run = { .size = sizeof run, .unit_items = ITEMS / UNITS };
    muster_status status = muster_for(m, kernel, ITEMS, args, 2, &run, NULL, &err);
    if (status != MUSTER_OK)
        test_fail(__FILE__, __LINE__, "%s: %s", muster_status_name(status), err.text);
    for (uint32_t i = 0; i < ITEMS; i++)
        CHECK_EQUAL(i + 1, out[i]);
    muster_kernel_destroy(kernel);
    CHECK_STATUS(MUSTER_OK, muster_close(m, &err));
    CHECK(losses >= 1 && losses <= 3);
    free(in);
    free(out);
}

static const struct test tests[] = { TEST(a_lost_gpu_comes_back) };

int main(int argc, char **argv)
{
    /* Without MUSTER_HELPER the program is its own helper. */
    int served = muster_helper_main(argc, argv);
    if (served >= 0)
        return served;
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
