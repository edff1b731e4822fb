/*
 * Load: the live figures, and the poller behind those that only the driver knows.
 */
#include "backend/cpu/cpu.h"
#include "platform/thread.h"
#include "support.h"

static void check_balance(const struct muster_device_load *load)
{
    CHECK_EQUAL(load->dispatched, load->completed + load->failed + load->queue_depth);
}

static void counters_are_exact_at_every_moment(void)
{
    struct muster *m = open_plain();
    muster_device device = find(m, "cpu:0");
    muster_stream a = acquire(m, device), b = acquire(m, device);
    struct muster_kernel *stand = kernel_of(m, stand_at_door), *nothing = kernel_of(m, do_nothing),
                         *fail = kernel_of(m, always_fail);
    struct door door = DOOR_INIT;
    static unsigned char host[500];
    struct muster_device_load load = load_of(m, device);
    CHECK_EQUAL(sizeof load, load.size);
    CHECK_EQUAL(0, load.dispatched);
    CHECK_EQUAL(2, load.streams_acquired);
    CHECK_EQUAL(0, load.streams_active);
    CHECK(load.items_per_s == 0 && load.bytes_per_s == 0);
    muster_block block = allocate(m, a, sizeof host);
    hold_stream(m, a, stand, &door);
    for (unsigned i = 0; i < 4; i++)
        MUST(muster_launch(m, a, nothing, 0, 3, NULL, 0, NULL, &problem));
    MUST(muster_launch(m, a, nothing, 0, 0, NULL, 0, NULL, &problem)); /* no unit at all */
    MUST(muster_copy_in(m, a, block, 0, host, sizeof host, &problem));
    MUST(muster_fill(m, a, block, 0, 1, 100, &problem));
    load = load_of(m, device);
    check_balance(&load);
    CHECK_EQUAL(5, load.dispatched);
    CHECK_EQUAL(5, load.queue_depth);
    CHECK_EQUAL(600, load.bytes_in_flight);
    CHECK_EQUAL(1, load.streams_active);
    CHECK_EQUAL(sizeof host, load.memory_used);
    muster_status result;
    MUST(muster_launch(m, b, nothing, 0, 1, NULL, 0, NULL, &problem));
    MUST(muster_launch(m, b, fail, 0, 1, NULL, 0, &result, &problem));
    wait_for(m, b);
    CHECK_STATUS(MUSTER_E_FAILED, result);
    load = load_of(m, device);
    check_balance(&load);
    CHECK_EQUAL(7, load.dispatched);
    CHECK_EQUAL(1, load.completed);
    CHECK_EQUAL(1, load.failed);
    CHECK_EQUAL(1, load.streams_active);
    door_open(&door);
    wait_for(m, a);
    load = load_of(m, device);
    check_balance(&load);
    CHECK_EQUAL(6, load.completed);
    CHECK_EQUAL(1, load.failed);
    CHECK_EQUAL(0, load.queue_depth);
    CHECK_EQUAL(0, load.bytes_in_flight);
    CHECK_EQUAL(0, load.streams_active);
    CHECK(load.items_per_s > 0 && load.bytes_per_s > 0);
    MUST(muster_close(m, &problem));
}

struct looker {
    struct muster *m;
    muster_device device;
    _Atomic bool stop;
    _Atomic unsigned unbalanced, looks;
};

static void *keep_looking(void *argument)
{
    struct looker *looker = argument;
    while (!atomic_load(&looker->stop)) {
        struct muster_device_load load = { .size = sizeof load };
        if (muster_device_load(looker->m, looker->device, &load, NULL) != MUSTER_OK ||
            load.dispatched != load.completed + load.failed + load.queue_depth)
            atomic_fetch_add(&looker->unbalanced, 1);
        atomic_fetch_add(&looker->looks, 1);
    }
    return NULL;
}

static void counters_balance_while_others_work(void)
{
    struct muster *m = open_plain();
    struct looker looker = { .m = m, .device = find(m, "cpu:0") };
    muster_stream streams[3];
    struct muster_kernel *nothing = kernel_of(m, do_nothing);
    pthread_t thread;
    for (unsigned i = 0; i < 3; i++)
        streams[i] = acquire(m, looker.device);
    CHECK_EQUAL(0, pthread_create(&thread, NULL, keep_looking, &looker));
    unsigned units = test_repetitions(1500);
    for (unsigned i = 0; i < units; i++)
        MUST(muster_launch(m, streams[i % 3], nothing, 0, 10, NULL, 0, NULL, &problem));
    for (unsigned i = 0; i < 3; i++)
        wait_for(m, streams[i]);
    atomic_store(&looker.stop, true);
    pthread_join(thread, NULL);
    CHECK_EQUAL(0, looker.unbalanced);
    CHECK(looker.looks > 0);
    CHECK_EQUAL(units, load_of(m, looker.device).completed);
    MUST(muster_close(m, &problem));
}

/* The rates that a device shows that does a million items and takes 1e8 bytes a second, two deep. */
static void measure(double *items_per_s, double *bytes_per_s)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.sim = "[{\"items_per_s\": 1e6, \"h2d_bytes_per_s\": 1e8}]";
    struct muster *m = open_with(options);
    muster_device device = find(m, "sim:0");
    muster_stream streams[] = { acquire(m, device), acquire(m, device) };
    struct muster_kernel *nothing = kernel_of(m, do_nothing);
    MUST(muster_launch(m, streams[0], nothing, 0, 10000, NULL, 0, NULL, &problem));
    for (unsigned i = 1; i < 12; i++) {
        MUST(muster_launch(m, streams[i % 2], nothing, 0, 10000, NULL, 0, NULL, &problem));
        wait_for(m, streams[(i + 1) % 2]);
    }
    wait_for(m, streams[1]);
    *items_per_s = load_of(m, device).items_per_s;
    static unsigned char host[1000000];
    muster_block block = allocate(m, streams[0], sizeof host);
    MUST(muster_copy_in(m, streams[0], block, 0, host, sizeof host, &problem));
    wait_for(m, streams[0]);
    *bytes_per_s = load_of(m, device).bytes_per_s;
    MUST(muster_close(m, &problem));
}

/*
 * Its rate is what is shown, not twice or half. A busy machine may make it look slower, or faster where
 * a simulated device was held up and makes up for it; a figure that is wrong is wrong in every run.
 */
static void throughput_is_the_rate_of_the_device(void)
{
    double items_per_s = 0, bytes_per_s = 0;
    for (int tries = 0; tries < 20; tries++) {
        measure(&items_per_s, &bytes_per_s);
        if (items_per_s >= 0.7e6 && items_per_s <= 2.1e6 && bytes_per_s >= 0.5e8 &&
            bytes_per_s <= 1.1e8)
            break;
    }
    if (items_per_s < 0.7e6 || items_per_s > 2.1e6)
        test_fail(__FILE__, __LINE__, "%g items per second, expected about 1e6", items_per_s);
    if (bytes_per_s < 0.5e8 || bytes_per_s > 1.1e8)
        test_fail(__FILE__, __LINE__, "%g bytes per second, expected about 1e8", bytes_per_s);
}

/* The poller, through a backend that counts how often it is asked. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned samples;
static muster_status sample_status;

static muster_status count_sample(void *device, struct muster_device_sample *sample,
                                  struct muster_error *err)
{
    pthread_mutex_lock(&mutex);
    samples++;
    muster_status status = sample_status;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    if (status != MUSTER_OK)
        return muster_error_fill(err, status, 1, NULL, "the driver does not say");
    return backend_cpu.device_sample(device, sample, err);
}

/* Waits until there were more than `before` samples, at most that long; gives how many there were. */
static unsigned wait_for_samples(unsigned before, unsigned long wait_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(wait_ms / 1000);
    until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_mutex_lock(&mutex);
    while (samples <= before && pthread_cond_timedwait(&changed, &mutex, &until) == 0)
        ;
    unsigned now = samples;
    pthread_mutex_unlock(&mutex);
    return now;
}

static struct muster *open_counted(uint64_t poll_ns)
{
    static struct muster_backend table;
    static const struct muster_backend *const tables[] = { &table };
    table = backend_cpu;
    table.name = "counted";
    table.device_sample = count_sample;
    samples = 0;
    sample_status = MUSTER_OK;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.backends = tables;
    options.backend_count = 1;
    options.devices = "counted:0,cpu:0";
    options.poll_ns = poll_ns;
    return open_with(options);
}

static void the_poller_sleeps_when_nobody_asks(void)
{
    struct muster *m = open_counted(1 * MS);
    muster_device device = find(m, "counted:0");
    CHECK_EQUAL(0, wait_for_samples(0, 20));
    struct muster_device_load load = load_of(m, device);
    CHECK(load.sampled_ns > 0 && load.memory_total > 0);
    CHECK(wait_for_samples(0, 0) >= 1);
    /* Asked again and again it looks again and again. */
    for (unsigned i = 0; i < 3; i++) {
        unsigned before = wait_for_samples(0, 0), tries = 0;
        do
            load_of(m, device);
        while (wait_for_samples(before, 5) == before && ++tries < 1000);
        CHECK(tries < 1000);
    }
    CHECK(load_of(m, device).sampled_ns > load.sampled_ns);
    /* Left alone it stops: before long there are fifty intervals without a look. */
    unsigned tries = 0, before, after;
    do {
        before = wait_for_samples(0, 0);
        after = wait_for_samples(before, 50);
    } while (after != before && ++tries < 40);
    CHECK_EQUAL(before, after);
    /* And begins again when asked. */
    load_of(m, device);
    CHECK(wait_for_samples(after, 5000) > after);
    MUST(muster_close(m, &problem));
}

static void a_driver_that_refuses_to_say_is_no_failure(void)
{
    struct muster *m = open_counted(1 * MS);
    muster_device device = find(m, "counted:0");
    sample_status = MUSTER_E_DRIVER;
    uint64_t before_ns = platform_clock_ns();
    struct muster_device_load load = load_of(m, device);
    test_patience(
        0); /* a busy machine may take as long as an answer is waited for, not each time */
    CHECK(platform_clock_ns() - before_ns < 900 * MS);
    CHECK_EQUAL(0, load.sampled_ns);
    CHECK_EQUAL(MUSTER_HEALTH_OK, load.health);
    muster_stream stream = acquire(m, device);
    MUST(muster_stream_release(m, stream, &problem));
    MUST(muster_close(m, &problem));
}

static uint64_t processor_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * SECOND + (uint64_t)used.tv_nsec;
}

/* "Never" is written as a very long time, which must neither spin nor keep the first answer back. */
static void very_long_intervals_are_allowed(void)
{
    static const uint64_t intervals_ns[] = { UINT64_MAX, UINT64_MAX / 2, UINT64_MAX / 4 + 1,
                                             UINT64_MAX / 4 };
    for (size_t i = 0; i < COUNT_OF(intervals_ns); i++) {
        struct muster *m = open_counted(intervals_ns[i]);
        muster_device device = find(m, "counted:0");
        CHECK(load_of(m, device).sampled_ns > 0);
        uint64_t used_ns = processor_ns();
        CHECK_EQUAL(1, wait_for_samples(1, 40));
        CHECK(processor_ns() - used_ns < 20 * MS);
        /* A device that was not there at the first look has its own. */
        CHECK(load_of(m, find(m, "cpu:0")).sampled_ns > 0);
        MUST(muster_close(m, &problem));
    }
}

static void arguments_are_checked(void)
{
    struct muster *m = open_plain();
    struct muster_device_load load = { .size = sizeof load - 1 };
    muster_device device = find(m, "cpu:0");
    CHECK_STATUS(MUSTER_E_INVALID, muster_device_load(m, device, &load, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_device_load(m, device, NULL, &problem));
    load.size = sizeof load;
    CHECK_STATUS(MUSTER_E_UNKNOWN,
                 muster_device_load(m, (muster_device){ 77, 1 }, &load, &problem));
    MUST(muster_close(m, &problem));
}

static void a_simulated_device_says_what_is_free(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.sim = "[{\"items_per_s\": 1e6, \"memory\": 1000000}]";
    options.poll_ns = 1 * MS;
    struct muster *m = open_with(options);
    muster_device device = find(m, "sim:0");
    muster_stream stream = acquire(m, device);
    struct muster_device_load load = load_of(m, device);
    CHECK_EQUAL(1000000, load.memory_total);
    CHECK_EQUAL(1000000, load.memory_free);
    CHECK(load.utilisation < 0 && load.temperature_c < -273);
    allocate(m, stream, 300000);
    uint64_t until_ns = platform_deadline_ns(30 * SECOND);
    do
        load = load_of(m, device);
    while (load.memory_free != 700000 && platform_clock_ns() < until_ns);
    CHECK_EQUAL(700000, load.memory_free);
    MUST(muster_close(m, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(counters_are_exact_at_every_moment),
        TEST(counters_balance_while_others_work),
        TEST(throughput_is_the_rate_of_the_device),
        TEST(the_poller_sleeps_when_nobody_asks),
        TEST(a_driver_that_refuses_to_say_is_no_failure),
        TEST(very_long_intervals_are_allowed),
        TEST(arguments_are_checked),
        TEST(a_simulated_device_says_what_is_free),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
