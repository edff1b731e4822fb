/*
 * Memory of muster_host_allocate and of jobs is mapped by helpers: kernels work on it where it is, copies name places in
 * it, it is there again after a restart, and it is free when it was given back.
 */
#include "harness.h"

#include "platform/thread.h"

#include <dirent.h>
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ITEMS 300000u
#define BYTES (ITEMS * sizeof(uint32_t))

/* An item of 0xffff0001 is a wild store. */
static const char source[] = "#include <muster_kernel.h>\n"
                             "MUSTER_KERNEL void next(uint64_t i, MUSTER_GLOBAL const uint32_t "
                             "*in, MUSTER_GLOBAL uint32_t *out)\n"
                             "{\n"
                             "    if (in[i] == 0xffff0001u)\n"
                             "        *(MUSTER_GLOBAL uint32_t *)(uint64_t)0xdead0000 = 1;\n"
                             "    out[i] = in[i] + 1;\n"
                             "}\n";

struct run {
    struct muster *m;
    muster_device device;
    struct muster_kernel *kernel;
    uint32_t *in, *out;
};

static uint32_t *take(const struct run *run, size_t bytes)
{
    void *memory = NULL;
    struct muster_error err = { .size = sizeof err };
    muster_status status = muster_host_allocate(run->m, run->device, bytes, &memory, &err);
    if (status != MUSTER_OK)
        test_fail(__FILE__, __LINE__, "%s: %s", muster_status_name(status), err.text);
    return memory;
}

static void open_run(struct run *run, const char *device)
{
    struct muster_error err = { .size = sizeof err };
    struct muster_options options = MUSTER_OPTIONS_INIT;
    char first[32];
    snprintf(first, sizeof first, "%s:0", device);
    options.devices = options.isolate = device;
    options.sim = "[{\"items_per_s\": 1e8, \"memory\": \"64MiB\"}]";
    options.log_level = MUSTER_LOG_ERROR;
    if (strcmp(device, "sim") != 0)
        options.sim = NULL;
    muster_status status = muster_open(&run->m, &options, &err);
    if (status == MUSTER_OK)
        status = muster_device_find(run->m, first, &run->device, &err);
    if (status != MUSTER_OK)
        test_fail(__FILE__, __LINE__, "%s", err.text);
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = source,
                                             .code_bytes = sizeof source - 1,
                                             .entry = "next" };
    CHECK_STATUS(MUSTER_OK, muster_kernel_from(run->m, "next", &form, 1, &run->kernel, &err));
    run->in = take(run, BYTES);
    run->out = take(run, BYTES);
    for (uint32_t i = 0; i < ITEMS; i++)
        run->in[i] = i * 7;
}

static void close_run(struct run *run)
{
    CHECK_STATUS(MUSTER_OK, muster_host_free(run->m, run->in, NULL));
    CHECK_STATUS(MUSTER_OK, muster_host_free(run->m, run->out, NULL));
    muster_kernel_destroy(run->kernel);
    CHECK_STATUS(MUSTER_OK, muster_close(run->m, NULL));
}

static uint64_t copied(const struct run *run)
{
    struct muster_counters counters = { .size = sizeof counters };
    CHECK_STATUS(MUSTER_OK, muster_counters(run->m, &counters, NULL));
    return counters.bytes_in;
}

static void check_job(struct run *run, const uint32_t *in, uint32_t *out)
{
    struct muster_error err = { .size = sizeof err };
    const struct muster_arg args[] = { MUSTER_IN(in), MUSTER_OUT(out) };
    memset(out, 0, BYTES);
    muster_status status = muster_for(run->m, run->kernel, ITEMS, args, 2, NULL, NULL, &err);
    if (status != MUSTER_OK)
        test_fail(__FILE__, __LINE__, "%s: %s", muster_status_name(status), err.text);
    for (uint32_t i = 0; i < ITEMS; i++)
        CHECK_EQUAL(in[i] + 1, out[i]);
}

static void the_cpu_works_where_the_arrays_are(void)
{
    struct run run;
    struct muster_device_info info = { .size = sizeof info };
    open_run(&run, "cpu");
    CHECK_STATUS(MUSTER_OK, muster_device_info(run.m, run.device, &info, NULL));
    CHECK(info.capabilities & MUSTER_CAN_USE_SHARED_MEMORY);
    CHECK(!(info.capabilities & MUSTER_CAN_USE_HOST_MEMORY));
    uint64_t before = copied(&run);
    check_job(&run, run.in, run.out);
    check_job(&run, run.in, run.out);
    CHECK_EQUAL(before, copied(&run));
    /* One array of the program's own, and all are copied. */
    uint32_t *own = malloc(BYTES);
    memcpy(own, run.in, BYTES);
    check_job(&run, own, run.out);
    CHECK(copied(&run) >= before + BYTES);
    check_job(&run, run.in, own);
    free(own);
    close_run(&run);
}

/* Through a block and back, beginning at odd places. */
static void check_copies(struct run *run, uint32_t *from, uint32_t *to)
{
    struct muster_error err = { .size = sizeof err };
    muster_stream stream;
    muster_block block;
    CHECK_STATUS(MUSTER_OK, muster_stream_acquire(run->m, run->device, 0, &stream, &err));
    CHECK_STATUS(MUSTER_OK, muster_block_allocate(run->m, stream, BYTES, &block, &err));
    for (size_t skip = 0; skip < 3; skip++) {
        memset(to, 0, BYTES);
        char *out = (char *)to + skip;
        const char *in = (const char *)from + 2 * skip;
        size_t bytes = BYTES - 3 * skip;
        CHECK_STATUS(MUSTER_OK, muster_copy_in(run->m, stream, block, skip, in, bytes, &err));
        CHECK_STATUS(MUSTER_OK, muster_copy_out(run->m, stream, out, block, skip, bytes, &err));
        muster_status status = muster_stream_wait(run->m, stream, UINT64_MAX, &err);
        if (status != MUSTER_OK)
            test_fail(__FILE__, __LINE__, "%s: %s", muster_status_name(status), err.text);
        CHECK_EQUAL(0, memcmp(in, out, bytes));
        CHECK(skip == 0 || ((char *)to)[0] == 0);
    }
    CHECK_STATUS(MUSTER_OK, muster_block_free(run->m, stream, block, &err));
    CHECK_STATUS(MUSTER_OK, muster_stream_release(run->m, stream, &err));
}

/* A kernel ends the helper, and the job that has it with it. */
static void crash(struct run *run)
{
    const struct muster_arg args[] = { MUSTER_IN(run->in), MUSTER_OUT(run->out) };
    uint32_t kept = run->in[ITEMS / 2];
    run->in[ITEMS / 2] = 0xffff0001u;
    struct muster_error err = { .size = sizeof err };
    muster_status status = muster_for(run->m, run->kernel, ITEMS, args, 2, NULL, NULL, &err);
    if (status != MUSTER_E_CRASHED)
        test_fail(__FILE__, __LINE__, "%s: %s", muster_status_name(status), err.text);
    run->in[ITEMS / 2] = kept;
}

static void it_is_there_after_a_restart(void)
{
    static const char *const devices[] = { "cpu", "sim" };
    for (size_t i = 0; i < 2; i++) {
        struct run run;
        open_run(&run, devices[i]);
        uint32_t *own = malloc(BYTES);
        check_copies(&run, run.in, run.out);
        check_copies(&run, run.in, own);
        crash(&run);
        check_copies(&run, run.in, run.out);
        check_copies(&run, run.in, own);
        uint32_t *more = take(&run, BYTES);
        check_copies(&run, run.in, more);
        check_job(&run, run.in, more);
        CHECK_STATUS(MUSTER_OK, muster_host_free(run.m, more, NULL));
        free(own);
        close_run(&run);
    }
}

/* What the runtime's file of host memory holds, as the system counts it. */
static uint64_t held(void)
{
    uint64_t bytes = 0;
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry = folder ? readdir(folder) : NULL; entry; entry = readdir(folder)) {
        char path[300], name[64] = "";
        struct stat found;
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        if (readlink(path, name, sizeof name - 1) > 0 && strstr(name, "memfd:muster-memory") &&
            stat(path, &found) == 0)
            bytes += (uint64_t)found.st_blocks * 512;
    }
    if (folder)
        closedir(folder);
    return bytes;
}

static void what_was_given_back_is_free(void)
{
    enum { PIECES = 10, LARGE = 8 << 20 };
    struct run run;
    CHECK_EQUAL(0, held());
    open_run(&run, "cpu");
    uint64_t before = held();
    CHECK(before >= 2 * BYTES);
    uint32_t *pieces[PIECES];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < PIECES; i++) {
            pieces[i] = take(&run, LARGE);
            CHECK_EQUAL(0, pieces[i][0]);
            memset(pieces[i], i + 1, LARGE);
        }
        CHECK_EQUAL(before + (uint64_t)PIECES * LARGE, held());
        for (int i = 0; i < PIECES; i++)
            CHECK_EQUAL(i + 1, ((unsigned char *)pieces[i])[LARGE - 1]);
        for (int i = 0; i < PIECES; i++)
            CHECK_STATUS(MUSTER_OK, muster_host_free(run.m, pieces[i], NULL));
        CHECK_EQUAL(before, held());
    }
    close_run(&run);
    CHECK_EQUAL(0, held());
}

/* Nothing is shared where nothing is isolated. */
static void a_plain_runtime_has_no_file(void)
{
    struct muster *m;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.isolate = "";
    CHECK_STATUS(MUSTER_OK, muster_open(&m, &options, NULL));
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        char path[300], name[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%s", entry->d_name);
        CHECK(readlink(path, name, sizeof name - 1) <= 0 || !strstr(name, "muster-memory"));
    }
    closedir(folder);
    CHECK_STATUS(MUSTER_OK, muster_close(m, NULL));
}

static int64_t supply(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    uint32_t *at = to;
    (void)user, (void)bytes;
    for (uint64_t i = 0; i < items; i++)
        at[i] = (uint32_t)(begin + i) * 3;
    return (int64_t)items;
}

/* A source's ring begins again in the middle of units. */
static void a_ring_is_copied_across_its_end(void)
{
    struct run run;
    open_run(&run, "sim");
    uint32_t *out = malloc(BYTES);
    const struct muster_arg args[] = { MUSTER_SOURCE(uint32_t), MUSTER_OUT(out) };
    const struct muster_run_options options = { .size = sizeof options,
                                                .unit_items = 7001,
                                                .window = 30011 };
    const struct muster_job_desc desc = { .size = sizeof desc,
                                          .kernel = run.kernel,
                                          .items = ITEMS,
                                          .args = args,
                                          .arg_count = 2,
                                          .source = supply,
                                          .options = &options };
    struct muster_error err = { .size = sizeof err };
    struct muster_job *job = NULL;
    muster_status status = muster_start(run.m, &desc, &job, &err);
    if (status == MUSTER_OK)
        status = muster_job_wait(job, NULL, &err);
    if (status != MUSTER_OK)
        test_fail(__FILE__, __LINE__, "%s: %s", muster_status_name(status), err.text);
    muster_job_destroy(job);
    for (uint32_t i = 0; i < ITEMS; i++)
        CHECK_EQUAL(i * 3 + 1, out[i]);
    free(out);
    close_run(&run);
}

static const struct test tests[] = {
    TEST(the_cpu_works_where_the_arrays_are), TEST(it_is_there_after_a_restart),
    TEST(what_was_given_back_is_free),        TEST(a_plain_runtime_has_no_file),
    TEST(a_ring_is_copied_across_its_end),
};

int main(int argc, char **argv)
{
    /* Without MUSTER_HELPER the program is its own helper. */
    int served = muster_helper_main(argc, argv);
    if (served >= 0)
        return served;
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
