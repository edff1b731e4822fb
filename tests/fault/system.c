/*
 * The system refuses in turn, once and from then on, what the library asks of it: threads, locks,
 * conditions, pages, memory, also while jobs start and run; and it loads no backend from files that hold none. The calls of the
 * library are led here by the linker (--wrap).
 */
#include "faulty_allocator.h"
#include "harness.h"
#include "scenario.h"
#include "sweep.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* What can be refused, with what gives it back. */
enum thing { THING_THREAD, THING_LOCK, THING_CONDITION, THING_PAGES, THING_MEMORY, THING_COUNT };
static const char *const thing_names[] = { "thread", "lock", "condition", "mapping", "memory" };

static struct {
    pthread_mutex_t lock;
    enum thing thing;
    uint64_t number; /* from 1; 0: none */
    bool from_then_on, has_failed, is_watching;
    uint64_t count;
    int64_t out[THING_COUNT];
} plan = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Counts one request; whether it is to fail. */
static bool refuses(enum thing thing)
{
    pthread_mutex_lock(&plan.lock);
    bool is_hit = false;
    if (plan.is_watching && thing == plan.thing) {
        uint64_t number = ++plan.count;
        is_hit =
            plan.number > 0 && (plan.from_then_on ? number >= plan.number : number == plan.number);
    }
    plan.has_failed = plan.has_failed || is_hit;
    pthread_mutex_unlock(&plan.lock);
    return is_hit;
}

static void count(enum thing thing, int64_t change)
{
    pthread_mutex_lock(&plan.lock);
    if (plan.is_watching)
        plan.out[thing] += change;
    pthread_mutex_unlock(&plan.lock);
}

#define WRAPPED(result, name, ...)                                                                 \
    result __real_##name(__VA_ARGS__);                                                             \
    result __wrap_##name(__VA_ARGS__);                                                             \
    result __wrap_##name(__VA_ARGS__)

/* Threads that do not come to run before they may. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_held;
    void *(*run)(void *);
    void *argument;
} late = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void *run_late(void *ignored)
{
    (void)ignored;
    pthread_mutex_lock(&late.lock);
    while (late.is_held)
        pthread_cond_wait(&late.changed, &late.lock);
    pthread_mutex_unlock(&late.lock);
    return late.run(late.argument);
}

WRAPPED(int, pthread_create, pthread_t *thread, const pthread_attr_t *attributes,
        void *(*run)(void *), void *argument)
{
    if (refuses(THING_THREAD))
        return EAGAIN;
    pthread_mutex_lock(&late.lock);
    if (late.is_held) {
        late.run = run;
        late.argument = argument;
        run = run_late;
    }
    pthread_mutex_unlock(&late.lock);
    int code = __real_pthread_create(thread, attributes, run, argument);
    count(THING_THREAD, code == 0);
    return code;
}

WRAPPED(int, pthread_join, pthread_t thread, void **result)
{
    count(THING_THREAD, -1);
    return __real_pthread_join(thread, result);
}

WRAPPED(int, pthread_mutex_init, pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
    if (refuses(THING_LOCK))
        return ENOMEM;
    count(THING_LOCK, 1);
    return __real_pthread_mutex_init(mutex, attributes);
}

WRAPPED(int, pthread_mutex_destroy, pthread_mutex_t *mutex)
{
    count(THING_LOCK, -1);
    return __real_pthread_mutex_destroy(mutex);
}

WRAPPED(int, pthread_cond_init, pthread_cond_t *condition, const pthread_condattr_t *attributes)
{
    if (refuses(THING_CONDITION))
        return ENOMEM;
    count(THING_CONDITION, 1);
    return __real_pthread_cond_init(condition, attributes);
}

WRAPPED(int, pthread_cond_destroy, pthread_cond_t *condition)
{
    count(THING_CONDITION, -1);
    return __real_pthread_cond_destroy(condition);
}

WRAPPED(void *, mmap, void *address, size_t bytes, int protection, int flags, int file,
        off_t offset)
{
    if (refuses(THING_PAGES)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    void *pages = __real_mmap(address, bytes, protection, flags, file, offset);
    /* What is put into a mapping goes with it. */
    count(THING_PAGES, pages != MAP_FAILED && !(flags & MAP_FIXED));
    return pages;
}

WRAPPED(int, munmap, void *pages, size_t bytes)
{
    count(THING_PAGES, -1);
    return __real_munmap(pages, bytes);
}

/* Freed by free, which the C library calls itself all the time: what leaks is left to ASan. */
WRAPPED(void *, aligned_alloc, size_t alignment, size_t bytes)
{
    return refuses(THING_MEMORY) ? NULL : __real_aligned_alloc(alignment, bytes);
}

static bool allows_no_memory(const struct scenario *s, const char *step, muster_status status)
{
    (void)s, (void)step;
    return status == MUSTER_E_NO_MEMORY ||
           /* A cpu or sim device's memory is the system's. */
           (status == MUSTER_E_DEVICE_MEMORY &&
            (plan.thing == THING_PAGES || plan.thing == THING_MEMORY));
}

static void begin_watch(enum thing thing, uint64_t number, bool from_then_on)
{
    pthread_mutex_lock(&plan.lock);
    plan.thing = thing;
    plan.number = number;
    plan.from_then_on = from_then_on;
    plan.has_failed = false;
    plan.count = 0;
    memset(plan.out, 0, sizeof plan.out);
    plan.is_watching = true;
    pthread_mutex_unlock(&plan.lock);
}

/* Nothing is left. Whether something was refused. */
static bool end_watch(const char *label)
{
    pthread_mutex_lock(&plan.lock);
    plan.is_watching = false;
    bool has_failed = plan.has_failed;
    pthread_mutex_unlock(&plan.lock);
    for (int i = 0; i < THING_COUNT; i++)
        if (plan.out[i] != 0)
            test_fail(__FILE__, __LINE__, "%s: %" PRId64 " of kind %s are left", label, plan.out[i],
                      thing_names[i]);
    return has_failed;
}

/* Runs the scenario with one plan; false when the request that was to be refused never came. */
static bool run_with(const char *devices, enum thing thing, uint64_t number, bool from_then_on)
{
    char label[80];
    struct faulty_allocator allocator;
    snprintf(label, sizeof label, "%s, %s %" PRIu64 "%s", devices, thing_names[thing], number,
             from_then_on ? " and all after it" : "");
    faulty_allocator_init(&allocator, 0, false);
    struct scenario s = { .label = label,
                          .devices = devices,
                          .sim = scenario_sim,
                          .allocator = faulty_allocator_hook(&allocator),
                          .allows = allows_no_memory };
    begin_watch(thing, number, from_then_on);
    scenario_run(&s);
    bool has_failed = end_watch(label);
    if (s.close_status != MUSTER_OK)
        test_fail(__FILE__, __LINE__, "%s: muster_close failed: %s", label, s.close_error.text);
    if (allocator.bytes_out != 0 || allocator.mistakes != 0)
        test_fail(__FILE__, __LINE__, "%s: %zu bytes leaked", label, allocator.bytes_out);
    if (!has_failed && s.failures > 0)
        test_fail(__FILE__, __LINE__, "%s: a call failed though nothing was refused", label);
    scenario_deinit(&s);
    faulty_allocator_deinit(&allocator);
    return has_failed;
}

static void sweep(enum thing thing, uint64_t at_least)
{
    static const char *const devices[] = { "cpu", "sim" };
    uint64_t stride = sweep_stride(SWEEP_STRIDE(1, 2));
    for (size_t i = 0; i < 2; i++)
        for (int from_then_on = 0; from_then_on < 2; from_then_on++) {
            uint64_t number = 1;
            while (run_with(devices[i], thing, number, from_then_on))
                number += stride;
            CHECK(number > at_least);
        }
}

static void threads_are_refused(void)
{
    sweep(THING_THREAD, 2);
}

static void locks_are_refused(void)
{
    sweep(THING_LOCK, 2);
}

static void conditions_are_refused(void)
{
    sweep(THING_CONDITION, 4);
}

static void pages_are_refused(void)
{
    sweep(THING_PAGES, 3);
}

static void memory_is_refused(void)
{
    sweep(THING_MEMORY, 10);
}

/* A job with all it can have: a source, a sink, statuses of items, of which one fails. */

#define JOB_ITEMS 60
#define JOB_REFUSED 41

static muster_status add_one(uint64_t begin, uint64_t end, void *const *args)
{
    const uint32_t *in = *(const uint32_t *const *)args[0];
    uint32_t *out = *(uint32_t *const *)args[1];
    for (uint64_t i = begin; i < end; i++) {
        if (in[i] == JOB_REFUSED)
            return MUSTER_E_PARSE;
        out[i] = in[i] + 1;
    }
    return MUSTER_OK;
}

static int64_t count_up(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    (void)user, (void)bytes;
    for (uint64_t i = 0; i < items; i++)
        ((uint32_t *)to)[i] = (uint32_t)(begin + i);
    return (int64_t)items;
}

struct job_account {
    uint64_t next, wrong;
};

static muster_status take_in_order(void *user, const struct muster_result *result)
{
    struct job_account *account = user;
    const uint32_t *out = result->outputs[0];
    account->wrong += result->range.begin != account->next;
    for (uint64_t i = result->range.begin; i < result->range.end; i++) {
        uint64_t at = i - result->range.begin;
        muster_status status = result->statuses[at];
        /* A unit that was out of tries for want of memory says so, item by item. */
        bool is_short = status == MUSTER_E_NO_MEMORY || status == MUSTER_E_DEVICE_MEMORY;
        account->wrong += !is_short && status != (i == JOB_REFUSED ? MUSTER_E_PARSE : MUSTER_OK);
        account->wrong += status == MUSTER_OK && out[at] != i + 1;
    }
    account->next = result->range.end;
    return MUSTER_OK;
}

static muster_status run_job(struct muster *m, struct job_account *account,
                             struct muster_error *err)
{
    static muster_status each[JOB_ITEMS];
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = add_one };
    const struct muster_arg args[] = {
        MUSTER_SOURCE(uint32_t), { MUSTER_ARG_OF(MUSTER_ARG_OUT), .bytes = sizeof(uint32_t) }
    };
    struct muster_job_desc desc = { .size = sizeof desc,
                                    .items = JOB_ITEMS,
                                    .args = args,
                                    .arg_count = 2,
                                    .sink = take_in_order,
                                    .sink_user = account,
                                    .source = count_up,
                                    .source_calls = 3,
                                    .each_status = each,
                                    .options = &(struct muster_run_options){
                                        .size = sizeof(struct muster_run_options),
                                        .unit_items = 8,
                                        .window = 24,
                                        .depth = 1 } };
    struct muster_job *job;
    muster_status status = muster_kernel_from(m, "add_one", &form, 1, &desc.kernel, err);
    if (status == MUSTER_OK)
        status = muster_start(m, &desc, &job, err);
    if (status != MUSTER_OK)
        return status;
    status = muster_job_wait(job, NULL, err);
    muster_job_destroy(job);
    return status;
}

/* False when what was to be refused never came. `thing` THING_COUNT: the caller's allocator fails. */
static bool run_job_with(const char *devices, enum thing thing, uint64_t number, bool from_then_on)
{
    char label[80];
    struct faulty_allocator allocator;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster_error err = { .status = MUSTER_OK };
    struct job_account account = { 0, 0 };
    struct muster *m = NULL;
    bool is_system = thing != THING_COUNT;
    snprintf(label, sizeof label, "a job on %s, %s %" PRIu64 "%s", devices,
             is_system ? thing_names[thing] : "allocation", number,
             from_then_on ? " and all after it" : "");
    faulty_allocator_init(&allocator, is_system ? 0 : number, from_then_on);
    options.allocator = faulty_allocator_hook(&allocator);
    options.cpu_workers = 2;
    options.devices = devices;
    options.sim = "[{\"items_per_s\": 1e8}]";
    begin_watch(is_system ? thing : THING_THREAD, is_system ? number : 0, from_then_on);
    muster_status status = muster_open(&m, &options, &err);
    if (status == MUSTER_OK)
        status = run_job(m, &account, &err);
    CHECK_STATUS(MUSTER_OK, muster_close(m, NULL));
    bool has_failed = end_watch(label);
    has_failed = is_system ? has_failed : allocator.has_failed;
    /* One item always fails, so that a job which was run says MUSTER_E_FAILED. */
    bool is_done = status == MUSTER_E_FAILED && account.next == JOB_ITEMS;
    if (account.wrong > 0 || (!is_done && !has_failed) ||
        (!is_done && status != MUSTER_E_NO_MEMORY && status != MUSTER_E_DEVICE_MEMORY) ||
        !*err.text)
        test_fail(__FILE__, __LINE__, "%s: %s after %" PRIu64 " items, %" PRIu64 " wrong: %s",
                  label, muster_status_name(status), account.next, account.wrong, err.text);
    if (allocator.bytes_out != 0 || allocator.mistakes != 0)
        test_fail(__FILE__, __LINE__, "%s: %zu bytes leaked", label, allocator.bytes_out);
    faulty_allocator_deinit(&allocator);
    return has_failed;
}

static void jobs_are_refused_what_they_need(void)
{
    static const char *const devices[] = { "cpu", "sim" };
    uint64_t stride = sweep_stride(SWEEP_STRIDE(1, 3));
    for (size_t i = 0; i < 2; i++)
        for (int thing = 0; thing <= THING_COUNT; thing++)
            for (int from_then_on = 0; from_then_on < 2; from_then_on++) {
                uint64_t number = sweep_first(stride);
                while (run_job_with(devices[i], (enum thing)thing, number, from_then_on))
                    number += stride;
                CHECK(number > 1 || thing == THING_MEMORY);
            }
}

/* Backends in files. */

static char folder[] = "/tmp/muster-fault-XXXXXX";

static void write_file(const char *path, const void *content, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    CHECK(file);
    CHECK(fwrite(content, 1, bytes, file) == bytes);
    CHECK(fclose(file) == 0);
}

/*
 * The first bytes of a file that can be loaded, as after a copy that ran out of space: too few for
 * its headers. With more than those the system's loader itself reaches beyond the end.
 */
static void write_truncated(const char *path, const char *from)
{
    char content[40];
    FILE *file = fopen(from, "rb");
    CHECK(file);
    size_t bytes = fread(content, 1, sizeof content, file);
    fclose(file);
    CHECK(bytes == sizeof content);
    write_file(path, content, bytes);
}

/* Opening with this list of files fails, says which, and leaves nothing behind. */
static void check_refused(const char *paths, muster_status expected, const char *named)
{
    for (int by_environment = 0; by_environment < 2; by_environment++) {
        struct faulty_allocator allocator;
        struct muster_options options = MUSTER_OPTIONS_INIT;
        struct muster_error err = { .status = MUSTER_OK };
        struct muster *m = NULL;
        faulty_allocator_init(&allocator, 0, false);
        options.allocator = faulty_allocator_hook(&allocator);
        if (by_environment)
            setenv("MUSTER_BACKENDS", paths, 1);
        else
            options.backend_paths = paths;
        muster_status status = muster_open(&m, &options, &err);
        unsetenv("MUSTER_BACKENDS");
        CHECK_STATUS(expected, status);
        CHECK_STATUS(expected, err.status);
        CHECK_CONTAINS(named, err.text);
        CHECK(!m);
        CHECK_EQUAL(0, allocator.bytes_out);
        faulty_allocator_deinit(&allocator);
    }
}

static void files_that_hold_no_backend_are_refused(void)
{
    char garbage[64], empty[64], truncated[64], paths[256];
    CHECK(mkdtemp(folder));
    snprintf(garbage, sizeof garbage, "%s/garbage.so", folder);
    snprintf(empty, sizeof empty, "%s/empty.so", folder);
    snprintf(truncated, sizeof truncated, "%s/truncated.so", folder);
    write_file(garbage, "#!/bin/sh\nexit 0\n", 17);
    write_file(empty, "", 0);
    write_truncated(truncated, BACKEND_WITHOUT_ENTRY);
    check_refused("/nowhere/libmissing.so", MUSTER_E_NOT_FOUND, "/nowhere/libmissing.so");
    check_refused(folder, MUSTER_E_NOT_FOUND, folder);
    check_refused(garbage, MUSTER_E_NOT_FOUND, garbage);
    check_refused(empty, MUSTER_E_NOT_FOUND, empty);
    check_refused(truncated, MUSTER_E_NOT_FOUND, truncated);
    /* The second of two, with empty entries around them. */
    snprintf(paths, sizeof paths, ":%s::%s:", BACKEND_GOOD, garbage);
    check_refused(paths, MUSTER_E_NOT_FOUND, garbage);
    remove(garbage);
    remove(empty);
    remove(truncated);
    rmdir(folder);
}

static void objects_that_are_no_backend_are_refused(void)
{
    char twice[2 * sizeof BACKEND_GOOD + 1];
    check_refused(BACKEND_WITHOUT_ENTRY, MUSTER_E_INVALID, BACKEND_WITHOUT_ENTRY);
    check_refused(BACKEND_WITHOUT_TABLE, MUSTER_E_INVALID, BACKEND_WITHOUT_TABLE);
    check_refused(BACKEND_OF_ANOTHER_VERSION, MUSTER_E_VERSION, "interface");
    check_refused(BACKEND_WITHOUT_SLOTS, MUSTER_E_INVALID, "leaves out");
    snprintf(twice, sizeof twice, "%s:%s", BACKEND_GOOD, BACKEND_GOOD);
    check_refused(twice, MUSTER_E_INVALID, "two backends");
}

/* So that the refusals above are known to be for the reason they give. */
static void a_good_object_is_loaded(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster_error err;
    struct muster *m;
    struct muster_backend_report reports[8];
    size_t reports_count;
    options.backend_paths = BACKEND_GOOD;
    options.devices = "loaded";
    for (size_t i = 0; i < 8; i++)
        reports[i].size = sizeof reports[i];
    CHECK_STATUS(MUSTER_OK, muster_open(&m, &options, &err));
    CHECK_STATUS(MUSTER_OK, muster_backend_list(m, reports, 8, &reports_count, &err));
    /* Behind those that are built in. */
    CHECK(reports_count > 0);
    CHECK_TEXT("loaded", reports[reports_count - 1].name);
    CHECK_STATUS(MUSTER_E_NOT_FOUND, reports[reports_count - 1].error.status);
    CHECK_STATUS(MUSTER_OK, muster_close(m, &err));
}

static void *let_run(void *ignored)
{
    (void)ignored;
    /* By then the runtime is closing; if it is not, nothing is shown and all is well. */
    nanosleep(&(struct timespec){ .tv_nsec = 30000000 }, NULL);
    pthread_mutex_lock(&late.lock);
    late.is_held = false;
    pthread_cond_broadcast(&late.changed);
    pthread_mutex_unlock(&late.lock);
    return NULL;
}

/* A thread that is not given a processor is no driver that does not answer. */
static void closing_waits_for_a_poller_that_has_not_run(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster_error err = { .size = sizeof err };
    struct muster_device_load load = { .size = sizeof load };
    muster_device device;
    struct muster *m;
    pthread_t thread;
    options.devices = "cpu";
    options.close_ns = 1;
    CHECK_STATUS(MUSTER_OK, muster_open(&m, &options, &err));
    CHECK_STATUS(MUSTER_OK, muster_device_find(m, "cpu:0", &device, &err));
    late.is_held = true;
    CHECK_STATUS(MUSTER_OK, muster_device_load(m, device, &load, &err));
    CHECK_EQUAL(0, load.sampled_ns);
    CHECK_EQUAL(0, __real_pthread_create(&thread, NULL, let_run, NULL));
    CHECK_STATUS(MUSTER_OK, muster_close(m, &err));
    CHECK_EQUAL(0, __real_pthread_join(thread, NULL));
}

/* What the process has once and for all is not counted. */
static void make_what_stays(void)
{
    struct muster *m;
    if (muster_open(&m, NULL, NULL) == MUSTER_OK)
        muster_close(m, NULL);
}

int main(int argc, char **argv)
{
    make_what_stays();
    static const struct test tests[] = {
        TEST(threads_are_refused),
        TEST(locks_are_refused),
        TEST(conditions_are_refused),
        TEST(pages_are_refused),
        TEST(memory_is_refused),
        TEST(jobs_are_refused_what_they_need),
        TEST(files_that_hold_no_backend_are_refused),
        TEST(objects_that_are_no_backend_are_refused),
        TEST(a_good_object_is_loaded),
        TEST(closing_waits_for_a_poller_that_has_not_run),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
