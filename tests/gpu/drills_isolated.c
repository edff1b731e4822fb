/*
 * Fault drills on a real CUDA device that lives in a helper: a kernel that writes where it must not, a helper that is killed,
 * a kernel that never ends. Each time the device is back afterwards, in the same process, and its memory is free. Run by
 * scripts/gpu-check; MUSTER_TEST_DEVICE names another device than cuda:0.
 */
#include "support.h"

#include "platform/thread.h"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#define ITEMS (UINT64_C(1) << 22)
#define BAD_ITEM (ITEMS / 3)
#define MEMORY_BYTES (UINT64_C(64) << 20)

/* Item 1398101 does what `deed` says. */
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

/* Some 20 seconds on a GPU, where each round reads memory. */
#define ENDLESS                                                                                    \
    "unsigned long rounds = 80000000ul;\n"                                                         \
    "#ifdef MUSTER_TEST_DRIVER\n"                                                                  \
    "rounds = ~0ul;\n"                                                                             \
    "#endif\n"                                                                                     \
    "for (unsigned long k = 0; k < rounds && ((volatile const unsigned *)in)[i] == in[i]; k++) ;"

struct drill {
    struct muster *m;
    struct muster_kernel *good, *bad;
    uint32_t *in, *out;
    uint64_t free_before;
};

static const char *device_name(void)
{
    const char *named = getenv("MUSTER_TEST_DEVICE");
    return named ? named : "cuda:0";
}

static struct muster_kernel *make_kernel(struct muster *m, const char *source)
{
    struct muster_kernel *kernel = NULL;
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_CUDA,
                                             .code = source,
                                             .code_bytes = strlen(source),
                                             .entry = "drill" };
    MUST(muster_kernel_from(m, "drill", &form, 1, &kernel, &problem));
    return kernel;
}

static uint64_t free_memory(struct muster *m)
{
    struct muster_device_load load = { .size = sizeof load };
    /* The poller asks every now and then. */
    const struct timespec pause = { 0, 400 * 1000000 };
    nanosleep(&pause, NULL);
    MUST(muster_device_load(m, find(m, device_name()), &load, &problem));
    return load.memory_free;
}

static muster_status run(struct drill *drill, struct muster_kernel *kernel)
{
    const struct muster_arg args[] = { MUSTER_FIRST, MUSTER_IN(drill->in), MUSTER_OUT(drill->out) };
    const struct muster_run_options options = { .size = sizeof options,
                                                .unit_items = ITEMS / 64,
                                                .timeout_ns = SECOND / 4 };
    uint64_t begin_ns = platform_clock_ns();
    memset(drill->out, 0, ITEMS * sizeof *drill->out);
    memset(&problem, 0, sizeof problem);
    muster_status status = muster_for(drill->m, kernel, ITEMS, args, 3, &options, NULL, &problem);
    printf("  %s %s after %.3f s\n", muster_status_name(status), problem.text,
           (double)(platform_clock_ns() - begin_ns) / 1e9);
    return status;
}

static void check_good(struct drill *drill)
{
    CHECK_STATUS(MUSTER_OK, run(drill, drill->good));
    for (uint64_t i = 0; i < ITEMS; i++)
        CHECK_EQUAL(drill->in[i] * 2654435761u + (uint32_t)i, drill->out[i]);
}

static void begin(struct drill *drill, const char *source)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    void *in, *out;
    options.devices = device_name();
    options.isolate = "all";
    options.close_ns = SECOND;
    drill->m = open_with(options);
    drill->good = make_kernel(drill->m, CUDA_SOURCE(""));
    drill->bad = make_kernel(drill->m, source);
    muster_device device = find(drill->m, device_name());
    MUST(muster_host_allocate(drill->m, device, ITEMS * sizeof *drill->in, &in, &problem));
    MUST(muster_host_allocate(drill->m, device, ITEMS * sizeof *drill->out, &out, &problem));
    drill->in = in;
    drill->out = out;
    for (uint64_t i = 0; i < ITEMS; i++)
        drill->in[i] = (uint32_t)(i ^ (i >> 7));
    check_good(drill);
    drill->free_before = free_memory(drill->m);
}

/* The device is back, healthy, and nothing of the last helper's memory is missing. */
static void end(struct drill *drill)
{
    struct muster_device_load load = { .size = sizeof load };
    check_good(drill);
    check_good(drill);
    MUST(muster_device_load(drill->m, find(drill->m, device_name()), &load, &problem));
    CHECK_EQUAL(MUSTER_HEALTH_OK, load.health);
    uint64_t free_now = free_memory(drill->m);
    printf("  free memory: %llu MiB before, %llu MiB after\n",
           (unsigned long long)(drill->free_before >> 20), (unsigned long long)(free_now >> 20));
    CHECK(free_now + MEMORY_BYTES >= drill->free_before);
    muster_kernel_destroy(drill->good);
    muster_kernel_destroy(drill->bad);
    MUST(muster_close(drill->m, &problem));
}

static void check_named(muster_status expected, muster_status status)
{
    char item[32];
    snprintf(item, sizeof item, "item %llu ", (unsigned long long)BAD_ITEM);
    CHECK_STATUS(expected, status);
    CHECK_CONTAINS(item, problem.text);
}

static void a_write_out_of_bounds_costs_a_restart(void)
{
    struct drill drill = { 0 };
    begin(&drill, CUDA_SOURCE("*(volatile unsigned *)0xdead0000ul = 1;"));
    check_named(MUSTER_E_CRASHED, run(&drill, drill.bad));
    end(&drill);
}

static int find_helper(void)
{
    int found = 0;
    DIR *folder = opendir("/proc");
    for (struct dirent *entry = folder ? readdir(folder) : NULL; entry; entry = readdir(folder)) {
        char path[300], line[512], name[64], state = 0;
        int parent = 0, pid = atoi(entry->d_name);
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        FILE *file = pid > 0 ? fopen(path, "r") : NULL;
        if (!file)
            continue;
        if (fgets(line, sizeof line, file) &&
            sscanf(line, "%*d (%63[^)]) %c %d", name, &state, &parent) == 3 && parent == getpid() &&
            state != 'Z' && strncmp(name, "muster-", 7) == 0)
            found = pid;
        fclose(file);
    }
    if (folder)
        closedir(folder);
    return found;
}

static void kill_soon(void *argument)
{
    const struct timespec pause = { 0, 3 * 1000000 };
    (void)argument;
    nanosleep(&pause, NULL);
    CHECK(kill(find_helper(), SIGKILL) == 0);
}

static void a_killed_helper_costs_a_restart(void)
{
    struct drill drill = { 0 };
    struct platform_thread thread = { .started = false };
    begin(&drill, CUDA_SOURCE(""));
    MUST(platform_thread_start(&thread, kill_soon, NULL, "killer", NULL, &problem));
    check_good(&drill);
    platform_thread_join(&thread);
    end(&drill);
}

static void a_kernel_that_never_ends_costs_a_restart(void)
{
    struct drill drill = { 0 };
    begin(&drill, CUDA_SOURCE(ENDLESS));
    check_named(MUSTER_E_TIMEOUT, run(&drill, drill.bad));
    end(&drill);
}

int main(int argc, char **argv)
{
    /* An endless kernel comes last. */
    static const struct test tests[] = {
        TEST(a_killed_helper_costs_a_restart),
        TEST(a_write_out_of_bounds_costs_a_restart),
        TEST(a_kernel_that_never_ends_costs_a_restart),
    };
    int served = muster_helper_main(argc, argv);
    if (served >= 0)
        return served;
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
