/*
 * A job of a million items of which three are fatal: a wild store, an endless loop, and an abort (in CUDA C++ a trap; in
 * OpenCL C, which has neither, another wild store). All others are right, the three are named, and the device takes part
 * again in the same process. On the device that MUSTER_TEST_DEVICE names, else on cpu:0. Says how the job ended and how
 * long that took.
 */
#include "harness.h"

#include "platform/thread.h"

#include <muster/muster.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS 1000000u
#define WILD_AT 123456u
#define ENDLESS_AT 500000u
#define ABORT_AT 987654u

/*
 * Portable source cannot end a program; the CPU's form is objects/step.c. An endless loop on a GPU ends by itself after some
 * 20 seconds, since each round reads memory: a driver that cannot stop it must not be stuck for ever.
 */
#define STEP                                                                                       \
    "        unsigned int x = in[i];\n"                                                            \
    "        for (unsigned long n = 0; x == 0xffff0002u && n < ROUNDS; n++)\n"                     \
    "            x = ((WHERE volatile const unsigned int *)in)[i];\n"                              \
    "        if (x == 0xffff0001u)\n"                                                              \
    "            *(WHERE unsigned int *)0xdead0000ul = 1;\n"                                       \
    "        if (x == 0xffff0003u)\n"                                                              \
    "            END();\n"                                                                         \
    "        out[i] = x + 1;\n"                                                                    \
    "    }\n"                                                                                      \
    "}\n"

static const char cuda[] =
    "#define WHERE\n"
    "#ifdef MUSTER_TEST_DRIVER\n"
    "#define ROUNDS ~0ul\n"
    "#else\n"
    "#define ROUNDS 80000000ul\n"
    "#endif\n"
    "#define END() __trap()\n"
    "extern \"C\" __global__ void fatal_step(unsigned long long begin, unsigned long long items,\n"
    "                                const unsigned int *in, unsigned int *out)\n"
    "{\n"
    "    unsigned long long all = (unsigned long long)gridDim.x * blockDim.x;\n"
    "    unsigned long long i = begin + (unsigned long long)blockIdx.x * blockDim.x + "
    "threadIdx.x;\n"
    "    for (; i < begin + items; i += all) {\n" STEP;

static const char opencl[] =
    "#define WHERE global\n"
    "#ifdef __NV_CL_C_VERSION\n"
    "#define ROUNDS 80000000ul\n"
    "#else\n"
    "#define ROUNDS ULONG_MAX\n"
    "#endif\n"
    "#define END() (*(volatile global unsigned int *)0xbad0000ul = 2)\n"
    "kernel void fatal_step(ulong begin, ulong items, global const uint *array, ulong from,\n"
    "                 global uint *written, ulong to)\n"
    "{\n"
    "    global const uint *in = (global const uint *)((global const char *)array + from);\n"
    "    global uint *out = (global uint *)((global char *)written + to);\n"
    "    for (ulong i = begin + get_global_id(0); i < begin + items; i += get_global_size(0)) "
    "{\n" STEP;

static struct muster_kernel *make_kernel(struct muster *m)
{
    static char object[1 << 20];
    struct muster_kernel *kernel = NULL;
    struct muster_error err = { .size = sizeof err };
    FILE *file = fopen(MUSTER_TEST_STEP, "rb");
    CHECK(file);
    size_t bytes = fread(object, 1, sizeof object, file);
    fclose(file);
    CHECK(bytes > 0 && bytes < sizeof object);
#define FORM(kind_, code_, bytes_)                                                                 \
    {                                                                                              \
        .size = sizeof(struct muster_kernel_form), .kind = kind_, .code = code_,                   \
        .code_bytes = bytes_, .entry = "fatal_step"                                                \
    }
    const struct muster_kernel_form forms[] = {
        FORM(MUSTER_KERNEL_SHARED_OBJECT, object, bytes),
        FORM(MUSTER_KERNEL_CUDA, cuda, sizeof cuda - 1),
        FORM(MUSTER_KERNEL_OPENCL, opencl, sizeof opencl - 1),
    };
    muster_status status = muster_kernel_from(m, "fatal_step", forms, 3, &kernel, &err);
    if (status != MUSTER_OK)
        test_fail(__FILE__, __LINE__, "%s", err.text);
    return kernel;
}

/* The log. Lanes and the threads that watch helpers write it at the same time. */
static pthread_mutex_t told_lock = PTHREAD_MUTEX_INITIALIZER;
static char told[32768];

static void write_down(void *user, enum muster_log_level level, const char *text)
{
    (void)user, (void)level;
    pthread_mutex_lock(&told_lock);
    size_t used = strlen(told);
    snprintf(told + used, sizeof told - used, "%s\n", text);
    pthread_mutex_unlock(&told_lock);
}

static uint32_t in[ITEMS], out[ITEMS];
static muster_status each[ITEMS];

static void make_item(uint32_t i)
{
    in[i] = i == WILD_AT      ? 0xffff0001u
            : i == ENDLESS_AT ? 0xffff0002u
            : i == ABORT_AT   ? 0xffff0003u
                              : i;
}

static muster_status run(struct muster *m, const char *device, struct muster_kernel *kernel,
                         struct muster_error *err)
{
    const struct muster_arg args[] = { MUSTER_IN(in), MUSTER_OUT(out) };
    struct muster_run_options options = { .size = sizeof options };
    /* A helper that was started again builds the kernel first; PoCL takes its time for that. */
    uint64_t ms = strncmp(device, "cpu", 3) == 0 ? TEST_BY_SANITIZER(400, 800, 1500) : 800;
    options.timeout_ns = ms * 1000000;
    memset(out, 0, sizeof out);
    return muster_for_each_status(m, kernel, ITEMS, args, 2, each, &options, NULL, err);
}

/* What a driver says of a lost device names no signal. */
#define LOST "the device was lost"

static bool says(const char *line, const char *how)
{
    return memmem(line, strcspn(line, "\n"), how, strlen(how)) != NULL;
}

static void check_named(uint32_t item, const char *how, bool is_gpu)
{
    char text[64];
    snprintf(text, sizeof text, "item %u on ", item);
    const char *line = strstr(told, text);
    if (!line)
        test_fail(__FILE__, __LINE__, "'%s' is not in the log:\n%s", text, told);
    else if (!says(line, how) && !(is_gpu && (says(line, "SIG") || says(line, LOST))))
        test_fail(__FILE__, __LINE__, "'%s' is not in '%.*s'", how, (int)strcspn(line, "\n"), line);
    else
        printf("    %.*s\n", (int)strcspn(line, "\n"), line);
}

static void three_of_a_million_fail_alone(void)
{
    struct muster *m;
    struct muster_error err = { .size = sizeof err };
    struct muster_options options = MUSTER_OPTIONS_INIT;
    const char *named = getenv("MUSTER_TEST_DEVICE");
    options.devices = named ? named : "cpu:0";
    options.isolate = "all";
    options.log = write_down;
    CHECK_STATUS(MUSTER_OK, muster_open(&m, &options, &err));
    struct muster_kernel *kernel = make_kernel(m);
    muster_status status;
    for (uint32_t i = 0; i < ITEMS; i++)
        make_item(i);
    uint64_t begin_ns = platform_clock_ns();
    status = run(m, options.devices, kernel, &err);
    printf("    %u items on %s: %s after %.2f s\n", ITEMS, options.devices,
           muster_status_name(status), (double)(platform_clock_ns() - begin_ns) / 1e9);
    if (status != MUSTER_E_FAILED)
        test_fail(__FILE__, __LINE__, "%s: %s", muster_status_name(status), err.text);
    for (uint32_t i = 0; i < ITEMS; i++)
        if (in[i] == i && (out[i] != i + 1 || each[i] != MUSTER_OK))
            test_fail(__FILE__, __LINE__, "item %u is %u, status %s", i, out[i],
                      muster_status_name(each[i]));
    CHECK_STATUS(MUSTER_E_CRASHED, each[WILD_AT]);
    CHECK_STATUS(MUSTER_E_TIMEOUT, each[ENDLESS_AT]);
    CHECK_STATUS(MUSTER_E_CRASHED, each[ABORT_AT]);
    bool is_gpu = strncmp(options.devices, "cpu", 3) != 0;
    check_named(WILD_AT, "SIGSEGV at 0xdead0000 in fatal_step", is_gpu);
    check_named(ENDLESS_AT, "stopped after its time-out", false);
    check_named(ABORT_AT, "SIGABRT in fatal_step", is_gpu);
    /* The device takes part again: it is the only one there is. */
    for (uint32_t i = 0; i < ITEMS; i++)
        in[i] = i;
    status = run(m, options.devices, kernel, &err);
    if (status != MUSTER_OK)
        test_fail(__FILE__, __LINE__, "then: %s: %s", muster_status_name(status), err.text);
    for (uint32_t i = 0; i < ITEMS; i++)
        CHECK_EQUAL(i + 1, out[i]);
    muster_kernel_destroy(kernel);
    CHECK_STATUS(MUSTER_OK, muster_close(m, &err));
}

static const struct test tests[] = { TEST(three_of_a_million_fail_alone) };

int main(int argc, char **argv)
{
    /* Without MUSTER_HELPER the program is its own helper. */
    int served = muster_helper_main(argc, argv);
    if (served >= 0)
        return served;
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
