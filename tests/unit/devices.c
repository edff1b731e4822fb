/*
 * Devices: when they are looked for, which there are, what they are, and what becomes of them.
 */
#include "backend/cpu/cpu.h"
#include "backend/sim/sim.h"
#include "platform/thread.h"
#include "support.h"

static _Atomic unsigned opened;

static muster_status count_open(void *backend, const struct muster_services *services,
                                uint32_t *device_count, struct muster_error *err)
{
    atomic_fetch_add(&opened, 1);
    return backend_cpu.open(backend, services, device_count, err);
}

static struct muster_options with_given(const char *devices)
{
    static struct muster_backend table;
    static const struct muster_backend *const tables[] = { &table };
    table = backend_cpu;
    table.name = "given";
    table.open = count_open;
    opened = 0;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.backends = tables;
    options.backend_count = 1;
    options.sim = SIM_PLAIN;
    options.devices = devices;
    return options;
}

static void a_backend_is_opened_when_a_device_of_it_is_wanted(void)
{
    struct muster *m = open_with(with_given(NULL));
    muster_device device;
    CHECK_EQUAL(0, opened);
    find(m, "cpu:0");
    find(m, "sim:1");
    CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_device_find(m, "other:0", &device, &problem));
    CHECK_EQUAL(0, opened);
    find(m, "given:0");
    CHECK_EQUAL(1, opened);
    size_t count = 0;
    CHECK_STATUS(MUSTER_E_CAPACITY, muster_device_list(m, NULL, 0, &count, &problem));
    CHECK(count >= 4);
    CHECK_EQUAL(1, opened);
    MUST(muster_close(m, &problem));
    /* Listing wants them all; closing at once wants none. */
    m = open_with(with_given(NULL));
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, opened);
    m = open_with(with_given(NULL));
    muster_device list[1024];
    MUST(muster_device_list(m, list, COUNT_OF(list), &count, &problem));
    CHECK_EQUAL(1, opened);
    MUST(muster_close(m, &problem));
    /* A backend of which no device may be used is not opened at all. */
    m = open_with(with_given("cpu,sim:0"));
    MUST(muster_device_list(m, list, COUNT_OF(list), &count, &problem));
    CHECK_EQUAL(0, opened);
    CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_device_find(m, "given:0", &device, &problem));
    CHECK_EQUAL(0, opened);
    MUST(muster_close(m, &problem));
}

struct finder {
    struct muster *m;
    const char *id;
    pthread_barrier_t *start;
    muster_status status;
    struct muster_device_info info;
};

static void *find_it(void *argument)
{
    struct finder *finder = argument;
    muster_device device;
    pthread_barrier_wait(finder->start);
    finder->status = muster_device_find(finder->m, finder->id, &device, NULL);
    if (finder->status == MUSTER_OK)
        finder->status = muster_device_info(finder->m, device, &finder->info, NULL);
    return NULL;
}

static void many_who_look_at_once_open_each_backend_once(void)
{
    static const char *const ids[] = { "cpu:0",   "sim:0", "given:0", "cpu:0",
                                       "given:0", "sim:1", "sim:0",   "given:0" };
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, COUNT_OF(ids));
    for (unsigned round = 0; round < test_repetitions(25); round++) {
        struct muster *m = open_with(with_given(NULL));
        struct finder finders[COUNT_OF(ids)];
        pthread_t threads[COUNT_OF(ids)];
        for (size_t i = 0; i < COUNT_OF(ids); i++) {
            finders[i] = (struct finder){ .m = m, .id = ids[i], .start = &start };
            finders[i].info.size = sizeof finders[i].info;
            CHECK_EQUAL(0, pthread_create(&threads[i], NULL, find_it, &finders[i]));
        }
        for (size_t i = 0; i < COUNT_OF(ids); i++)
            pthread_join(threads[i], NULL);
        CHECK_EQUAL(1, opened);
        for (size_t i = 0; i < COUNT_OF(ids); i++) {
            CHECK_STATUS(MUSTER_OK, finders[i].status);
            CHECK_TEXT(ids[i], finders[i].info.id);
            /* What fails together has one number, and only that. */
            for (size_t k = 0; k < i; k++)
                CHECK((strcmp(ids[i], ids[k]) == 0) ==
                      (finders[i].info.domain == finders[k].info.domain));
        }
        MUST(muster_close(m, &problem));
    }
    pthread_barrier_destroy(&start);
}

static void devices_are_listed_by_backend_and_id(void)
{
    struct muster *m = open_with(with_given("sim,given"));
    muster_device list[8] = { { 7, 7 } }, found;
    size_t count = 77;
    CHECK_STATUS(MUSTER_E_CAPACITY, muster_device_list(m, list, 2, &count, &problem));
    CHECK_EQUAL(3, count);
    CHECK_EQUAL(7, list[0].index);
    MUST(muster_device_list(m, list, 8, &count, &problem));
    CHECK_EQUAL(3, count);
    static const char *const ids[] = { "sim:0", "sim:1", "given:0" };
    for (size_t i = 0; i < count; i++) {
        CHECK_TEXT(ids[i], info_of(m, list[i]).id);
        MUST(muster_device_find(m, ids[i], &found, &problem));
        CHECK(found.index == list[i].index && found.generation == list[i].generation);
    }
    static const char *const unknown[] = { "sim:2", "sim",     "sim:",   "sim:0/0", "",
                                           ":",     "given:1", "sim:00", "SIM:0" };
    for (size_t i = 0; i < COUNT_OF(unknown); i++) {
        CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_device_find(m, unknown[i], &found, &problem));
        CHECK_CONTAINS("sim:0", problem.text);
    }
    CHECK_STATUS(MUSTER_E_INVALID, muster_device_list(m, list, 8, NULL, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_device_list(m, NULL, 1, &count, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_device_find(m, NULL, &found, &problem));
    MUST(muster_close(m, &problem));
}

static void only_the_devices_asked_for_are_there(void)
{
    struct muster *m;
    muster_device list[8], device;
    size_t count;
    m = open_with(with_given("sim:1"));
    MUST(muster_device_list(m, list, 8, &count, &problem));
    CHECK_EQUAL(1, count);
    CHECK_TEXT("sim:1", info_of(m, list[0]).id);
    CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_device_find(m, "sim:0", &device, &problem));
    CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_device_find(m, "cpu:0", &device, &problem));
    MUST(muster_close(m, &problem));
    m = open_with(with_given("given,sim:0"));
    MUST(muster_device_list(m, list, 8, &count, &problem));
    CHECK_EQUAL(2, count);
    MUST(muster_close(m, &problem));
    /* A backend nobody has is a mistake at once; an id nobody has when the machine was looked at. */
    struct muster_options options = with_given("sim:0,quantum:1");
    CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_open(&m, &options, &problem));
    CHECK_CONTAINS("quantum:1", problem.text);
    CHECK_CONTAINS("cpu, ", problem.text);
    CHECK_CONTAINS(", given", problem.text);
    m = open_with(with_given("sim:0,sim:9"));
    CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_device_list(m, list, 8, &count, &problem));
    CHECK_CONTAINS("sim:9", problem.text);
    find(m, "sim:0");
    MUST(muster_close(m, &problem));
}

static void backends_are_reported_on(void)
{
    struct muster_options options = with_given(NULL);
    options.sim = NULL;
    unsetenv("MUSTER_SIM");
    struct muster *m = open_with(options);
    struct muster_backend_report reports[8];
    size_t count, sim = 0;
    CHECK_STATUS(MUSTER_E_CAPACITY, muster_backend_list(m, NULL, 0, &count, &problem));
    CHECK(count >= 3 && count <= COUNT_OF(reports));
    for (size_t i = 0; i < count; i++)
        reports[i].size = sizeof reports[i];
    const size_t last = count - 1;
    reports[last].size = 1;
    CHECK_STATUS(MUSTER_E_INVALID, muster_backend_list(m, reports, count, &count, &problem));
    reports[last].size = sizeof reports[last];
    MUST(muster_backend_list(m, reports, count, &count, &problem));
    while (sim < last && strcmp(reports[sim].name, "sim") != 0)
        sim++;
    CHECK_TEXT("cpu", reports[0].name);
    CHECK_STATUS(MUSTER_OK, reports[0].error.status);
    CHECK(reports[0].device_count >= 1);
    CHECK_TEXT("", reports[0].path);
    CHECK_TEXT("sim", reports[sim].name);
    CHECK_STATUS(MUSTER_E_NOT_FOUND, reports[sim].error.status);
    CHECK_EQUAL(0, reports[sim].device_count);
    CHECK_TEXT("given", reports[last].name);
    CHECK_EQUAL(reports[0].device_count, reports[last].device_count);
    MUST(muster_close(m, &problem));
}

static void facts_are_filled_in(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.sim = "[{\"name\": \"big\", \"items_per_s\": 1e6, \"memory\": \"3GiB\", \"cores\": 12,"
                  "  \"compute\": [9, 1], \"weight\": 2.5, \"slices\": true}]";
    struct muster *m = open_with(options);
    struct muster_device_info info = info_of(m, find(m, "sim:0"));
    CHECK_EQUAL(sizeof info, info.size);
    CHECK_TEXT("sim:0", info.id);
    CHECK_TEXT("big", info.name);
    CHECK_TEXT("sim", info.backend);
    CHECK_TEXT("", info.parent);
    CHECK_TEXT("", info.pci);
    CHECK_EQUAL(9, info.compute[0]);
    CHECK_EQUAL(1, info.compute[1]);
    CHECK_EQUAL(12, info.cores);
    CHECK_EQUAL(UINT64_C(3) << 30, info.memory_total);
    CHECK(info.weight == 2.5);
    CHECK(info.capabilities & MUSTER_CAN_SLICE);
    CHECK_EQUAL(MUSTER_KERNEL_FUNCTION, info.forms);
    info = info_of(m, find(m, "cpu:0"));
    CHECK(info.cores >= 1 && info.memory_total > 0 && info.name[0]);
    CHECK(info.capabilities & MUSTER_CAN_USE_HOST_MEMORY);
    CHECK_EQUAL(16, info.streams_max);
    info.size = sizeof info - 1;
    CHECK_STATUS(MUSTER_E_INVALID, muster_device_info(m, find(m, "cpu:0"), &info, &problem));
    info.size = sizeof info;
    CHECK_STATUS(MUSTER_E_UNKNOWN,
                 muster_device_info(m, (muster_device){ 500, 1 }, &info, &problem));
    CHECK_STATUS(MUSTER_E_UNKNOWN, muster_device_info(m, (muster_device){ 0, 0 }, &info, &problem));
    CHECK_STATUS(MUSTER_E_UNKNOWN, muster_device_info(m, (muster_device){ 0, 2 }, &info, &problem));
    MUST(muster_close(m, &problem));
    CHECK_TEXT("ok", muster_health_name(MUSTER_HEALTH_OK));
    CHECK_TEXT("suspect", muster_health_name(MUSTER_HEALTH_SUSPECT));
    CHECK_TEXT("quarantined", muster_health_name(MUSTER_HEALTH_QUARANTINED));
    CHECK_TEXT("lost", muster_health_name(MUSTER_HEALTH_LOST));
    CHECK_TEXT("?", muster_health_name((enum muster_health)9));
}

/* Losses. */

static void check_gone(struct muster *m, muster_device device, muster_stream stream,
                       struct muster_kernel *kernel)
{
    muster_stream other;
    muster_block block;
    void *memory;
    CHECK_STATUS(MUSTER_E_DEVICE_LOST, muster_stream_acquire(m, device, 0, &other, &problem));
    CHECK_EQUAL(MUSTER_DISCARD_DEVICE, muster_status_discards(problem.status));
    CHECK_TEXT(info_of(m, device).id, problem.device);
    CHECK_STATUS(MUSTER_E_DEVICE_LOST, muster_block_allocate(m, stream, 8, &block, &problem));
    CHECK_STATUS(MUSTER_E_DEVICE_LOST,
                 muster_launch(m, stream, kernel, 0, 1, NULL, 0, NULL, &problem));
    CHECK_STATUS(MUSTER_E_DEVICE_LOST, muster_host_allocate(m, device, 8, &memory, &problem));
}

static void a_lost_device_is_told_and_others_go_on(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.sim = "[{\"items_per_s\": 1e6, \"faults\": [{\"kind\": \"lost\", \"at_launch\": 3}]},"
                  " {\"items_per_s\": 1e6}]";
    struct muster *m = open_with(options);
    muster_device bad = find(m, "sim:0"), good = find(m, "sim:1");
    muster_stream stream = acquire(m, bad), other = acquire(m, bad), fine = acquire(m, good);
    struct muster_kernel *nothing = kernel_of(m, do_nothing);
    struct muster_kernel *stand = kernel_of(m, stand_at_door);
    struct door door = DOOR_INIT;
    muster_status results[4];
    muster_block block = allocate(m, other, 64);
    void *pinned;
    MUST(muster_host_allocate(m, bad, 100, &pinned, &problem));
    memset(pinned, 7, 100);
    hold_stream(m, stream, stand, &door);
    for (unsigned i = 0; i < 4; i++)
        MUST(muster_launch(m, stream, nothing, 0, 1, NULL, 0, &results[i], &problem));
    door_open(&door);
    CHECK_STATUS(MUSTER_E_DEVICE_LOST, muster_stream_wait(m, stream, 60 * SECOND, &problem));
    CHECK_TEXT("sim:0", problem.device);
    struct muster_device_load load = load_of(m, bad);
    CHECK_EQUAL(MUSTER_HEALTH_LOST, load.health);
    CHECK_EQUAL(5, load.dispatched);
    CHECK_EQUAL(2, load.completed);
    CHECK_EQUAL(3, load.failed);
    CHECK_EQUAL(0, load.queue_depth);
    for (unsigned i = 0; i < 4; i++)
        CHECK_STATUS(i < 1 ? MUSTER_OK : MUSTER_E_DEVICE_LOST, results[i]);
    check_gone(m, bad, other, nothing);
    /* What it held can be given back, and its pinned memory is the process's own. */
    CHECK_EQUAL(7, ((unsigned char *)pinned)[99]);
    MUST(muster_host_free(m, pinned, &problem));
    MUST(muster_block_free(m, other, block, &problem));
    MUST(muster_stream_release(m, other, &problem));
    CHECK_EQUAL(0, load_of(m, bad).memory_used);
    /* It is still listed, as lost; the other one has noticed nothing. */
    CHECK_EQUAL(MUSTER_HEALTH_OK, load_of(m, good).health);
    MUST(muster_launch(m, fine, nothing, 0, 1, NULL, 0, NULL, &problem));
    wait_for(m, fine);
    find(m, "sim:0");
    MUST(muster_close(m, &problem));
}

static void a_lost_slice_quarantines_its_siblings(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.sim = "[{\"items_per_s\": 1e6, \"cores\": 8, \"slices\": true, \"count\": 2,"
                  "  \"faults\": [{\"kind\": \"lost\", \"at_launch\": 2}]}]";
    struct muster *m = open_with(options);
    const uint32_t sizes[] = { 3, 5 };
    muster_device slices[2];
    MUST(muster_device_slice(m, find(m, "sim:0"), sizes, 2, slices, &problem));
    muster_stream a = acquire(m, slices[0]), b = acquire(m, slices[1]);
    muster_stream apart = acquire(m, find(m, "sim:1"));
    struct muster_kernel *nothing = kernel_of(m, do_nothing);
    struct muster_kernel *stand = kernel_of(m, stand_at_door);
    struct door door = DOOR_INIT;
    muster_status before = 1;
    CHECK_EQUAL(info_of(m, slices[0]).domain, info_of(m, slices[1]).domain);
    MUST(muster_launch(m, b, nothing, 0, 1, NULL, 0, &before, &problem));
    hold_stream(m, a, stand, &door);
    MUST(muster_launch(m, a, nothing, 0, 1, NULL, 0, NULL, &problem));
    door_open(&door);
    CHECK_STATUS(MUSTER_E_DEVICE_LOST, muster_stream_wait(m, a, 60 * SECOND, &problem));
    CHECK_EQUAL(MUSTER_HEALTH_LOST, load_of(m, slices[0]).health);
    CHECK_EQUAL(MUSTER_HEALTH_QUARANTINED, load_of(m, slices[1]).health);
    check_gone(m, slices[1], b, nothing);
    CHECK_CONTAINS("quarantined", problem.text);
    /* What it had been given ends as it would have. */
    MUST(muster_stream_wait(m, b, 60 * SECOND, &problem));
    CHECK_STATUS(MUSTER_OK, before);
    MUST(muster_launch(m, apart, nothing, 0, 1, NULL, 0, NULL, &problem));
    wait_for(m, apart);
    CHECK_EQUAL(MUSTER_HEALTH_OK, load_of(m, find(m, "sim:1")).health);
    MUST(muster_close(m, &problem));
}

static void a_device_that_was_late_is_suspect_until_it_finishes_something(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    char sim[128];
    snprintf(sim, sizeof sim,
             "[{\"items_per_s\": 1e6,"
             "  \"faults\": [{\"kind\": \"hang\", \"at_launch\": 2, \"for_ms\": %llu}]}]",
             (unsigned long long)test_patience(60));
    options.sim = sim;
    struct muster *m = open_with(options);
    muster_device device = find(m, "sim:0");
    muster_stream stream = acquire(m, device);
    struct muster_kernel *nothing = kernel_of(m, do_nothing);
    MUST(muster_launch(m, stream, nothing, 0, 1, NULL, 0, NULL, &problem));
    wait_for(m, stream);
    MUST(muster_launch(m, stream, nothing, 0, 1, NULL, 0, NULL, &problem));
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_stream_wait(m, stream, 2 * MS, &problem));
    CHECK_EQUAL(MUSTER_HEALTH_SUSPECT, load_of(m, device).health);
    /* Suspect is no refusal. */
    MUST(muster_launch(m, stream, nothing, 0, 1, NULL, 0, NULL, &problem));
    wait_for(m, stream);
    CHECK_EQUAL(MUSTER_HEALTH_OK, load_of(m, device).health);
    MUST(muster_close(m, &problem));
}

/* Slices. */

/* Opens with the option `slices`; how the open itself goes. */
static muster_status open_sliced(const char *slices, struct muster **out)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.sim = SIM_PLAIN;
    options.slices = slices;
    options.devices = "sim";
    return muster_open(out, &options, &problem);
}

static void devices_are_cut_when_they_are_found(void)
{
    static const char *const texts[] = { "sim:0=2,5", "sim:0=2/5", ";sim:0=2,5;;" };
    for (size_t t = 0; t < COUNT_OF(texts); t++) {
        struct muster *m;
        MUST(open_sliced(texts[t], &m));
        muster_device devices[8];
        size_t count;
        MUST(muster_device_list(m, devices, 8, &count, &problem));
        CHECK_EQUAL(3, count);
        static const struct {
            const char *id;
            uint32_t cores;
        } expected[] = { { "sim:0/0", 2 }, { "sim:0/1", 5 }, { "sim:1", 8 } };
        for (size_t i = 0; i < count; i++) {
            struct muster_device_info info = { .size = sizeof info };
            MUST(muster_device_info(m, devices[i], &info, &problem));
            CHECK_TEXT(expected[i].id, info.id);
            CHECK_EQUAL(expected[i].cores, info.cores);
        }
        CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_device_find(m, "sim:0", devices, &problem));
        MUST(muster_close(m, &problem));
    }
}

static void slices_that_cannot_be_had_are_told(void)
{
    static const struct {
        const char *text;
        muster_status at_open, at_probe;
        const char *says;
    } cases[] = {
        { "sim:0", MUSTER_E_PARSE, 0, "sim:0" },
        { "sim:0=", MUSTER_E_PARSE, 0, "sim:0=" },
        { "sim:0=2,", MUSTER_E_PARSE, 0, "sim:0=2," },
        { "sim:0=2,0", MUSTER_E_PARSE, 0, "sim:0=2,0" },
        { "sim:0=2 3", MUSTER_E_PARSE, 0, "2 3" },
        { "sim:00=2", MUSTER_E_PARSE, 0, "sim:00=2" },
        { "sim:0=2;sim:0=3", MUSTER_E_PARSE, 0, "twice" },
        { "sim=2", MUSTER_E_PARSE, 0, "sim=2" },
        { "sim:x=2", MUSTER_E_PARSE, 0, "sim:x=2" },
        { "sim:0=99999999999", MUSTER_E_PARSE, 0, "99999999999" },
        { "warp:0=2", MUSTER_E_NOT_FOUND, 0, "warp:0" },
        { "sim:0=2;sim:1=4;sim:0=2", MUSTER_E_PARSE, 0, "\"sim:0\" is there twice" },
        { "sim:0=6,6", MUSTER_OK, MUSTER_E_TOO_LARGE, "8 cores" },
        { "sim:2=1", MUSTER_OK, MUSTER_E_NOT_FOUND, "sim:2" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct muster *m = NULL;
        muster_device device;
        CHECK_STATUS(cases[i].at_open, open_sliced(cases[i].text, &m));
        if (cases[i].at_open == MUSTER_OK) {
            CHECK_STATUS(cases[i].at_probe, muster_device_find(m, "sim:1", &device, &problem));
            CHECK_CONTAINS(cases[i].says, problem.text);
            MUST(muster_close(m, &problem));
        } else {
            CHECK_CONTAINS(cases[i].says, problem.text);
        }
    }
}

static void slices_stand_in_for_the_device_they_were_cut_from(void)
{
    struct muster *m = open_plain();
    muster_device parent = find(m, "sim:0"), slices[2], list[8], found;
    size_t count;
    const uint32_t sizes[] = { 2, 4 };
    MUST(muster_device_slice(m, parent, sizes, 2, slices, &problem));
    struct muster_device_info info = { .size = sizeof info };
    struct muster_device_load load = { .size = sizeof load };
    muster_stream stream;
    void *memory;
    CHECK_STATUS(MUSTER_E_STALE, muster_device_info(m, parent, &info, &problem));
    CHECK_STATUS(MUSTER_E_STALE, muster_device_load(m, parent, &load, &problem));
    CHECK_STATUS(MUSTER_E_STALE, muster_stream_acquire(m, parent, 0, &stream, &problem));
    CHECK_STATUS(MUSTER_E_STALE, muster_stream_default(m, parent, &stream, &problem));
    CHECK_STATUS(MUSTER_E_STALE, muster_host_allocate(m, parent, 8, &memory, &problem));
    CHECK_STATUS(MUSTER_E_STALE, muster_device_slice(m, parent, sizes, 2, slices, &problem));
    CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_device_find(m, "sim:0", &found, &problem));
    static const char *const ids[] = { "sim:0/0", "sim:0/1" };
    for (unsigned i = 0; i < 2; i++) {
        info = info_of(m, slices[i]);
        CHECK_TEXT(ids[i], info.id);
        CHECK_TEXT("sim:0", info.parent);
        CHECK_TEXT("sim", info.backend);
        CHECK_EQUAL(sizes[i], info.cores);
        CHECK(!(info.capabilities & MUSTER_CAN_SLICE));
        found = find(m, ids[i]);
        CHECK_EQUAL(slices[i].index, found.index);
        stream = acquire(m, found);
        MUST(muster_fill(m, stream, allocate(m, stream, 64), 0, 1, 64, &problem));
        wait_for(m, stream);
    }
    CHECK_STATUS(MUSTER_E_INVALID, muster_device_slice(m, slices[0], sizes, 1, list, &problem));
    MUST(muster_device_list(m, list, 8, &count, &problem));
    /* They are listed where the device was, before its neighbour. */
    CHECK(count >= 4);
    CHECK_TEXT("sim:0/0", info_of(m, list[count - 3]).id);
    CHECK_TEXT("sim:0/1", info_of(m, list[count - 2]).id);
    CHECK_TEXT("sim:1", info_of(m, list[count - 1]).id);
    MUST(muster_close(m, &problem));
}

static void no_job_runs_elsewhere_for_want_of_its_slices(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.sim = "[{\"items_per_s\": 1e6, \"cores\": 8, \"slices\": true}]";
    options.slices = "sim:7=2,6";
    struct muster *m = open_with(options);
    struct muster_kernel *nothing = kernel_of(m, do_nothing);
    CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_for(m, nothing, 4, NULL, 0, NULL, NULL, &problem));
    CHECK_CONTAINS("slices of backend sim", problem.text);
    CHECK_CONTAINS("sim:7", problem.text);
    muster_lease lease;
    muster_device device;
    CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_pick(m, NULL, NULL, &lease, &device, &problem));
    muster_kernel_destroy(nothing);
    MUST(muster_close(m, &problem));
}

static void cutting_is_refused_where_it_cannot_be(void)
{
    struct muster *m = open_plain();
    muster_device device = find(m, "sim:0"), slices[70];
    const uint32_t fits[] = { 4, 4 }, large[] = { 4, 5 }, empty[] = { 4, 0 },
                   wraps[] = { UINT32_MAX, UINT32_MAX };
    uint32_t many[70];
    for (unsigned i = 0; i < 70; i++)
        many[i] = 1;
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED,
                 muster_device_slice(m, find(m, "cpu:0"), fits, 2, slices, &problem));
    CHECK_TEXT("cpu:0", problem.device);
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_device_slice(m, device, large, 2, slices, &problem));
    CHECK_TEXT("sim:0", problem.device);
    CHECK_CONTAINS("9", problem.text);
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_device_slice(m, device, wraps, 2, slices, &problem));
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_device_slice(m, device, many, 70, slices, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_device_slice(m, device, empty, 2, slices, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_device_slice(m, device, fits, 0, slices, &problem));
    CHECK_STATUS(MUSTER_E_UNKNOWN,
                 muster_device_slice(m, (muster_device){ 99, 1 }, fits, 2, slices, &problem));
    /* None of that has changed anything. */
    muster_stream stream = acquire(m, device);
    MUST(muster_stream_release(m, stream, &problem));
    MUST(muster_device_slice(m, device, fits, 2, slices, &problem));
    MUST(muster_close(m, &problem));
}

static void a_device_in_use_is_not_cut(void)
{
    struct muster *m = open_plain();
    muster_device device = find(m, "sim:0"), slices[2];
    const uint32_t sizes[] = { 4, 4 };
    static unsigned char table[64];
    muster_stream stream = acquire(m, device);
    CHECK_STATUS(MUSTER_E_BUSY, muster_device_slice(m, device, sizes, 2, slices, &problem));
    CHECK_TEXT("sim:0", problem.device);
    muster_block block = allocate(m, stream, 64), copy;
    muster_data data;
    void *memory;
    MUST(muster_data_create(m, table, sizeof table, 0, &data, &problem));
    MUST(muster_data_resident(m, data, stream, &copy, &problem));
    MUST(muster_host_allocate(m, device, 64, &memory, &problem));
    wait_for(m, stream);
    MUST(muster_block_free(m, stream, block, &problem));
    wait_for(m, stream);
    MUST(muster_stream_release(m, stream, &problem));
    CHECK_STATUS(MUSTER_E_BUSY, muster_device_slice(m, device, sizes, 2, slices, &problem));
    MUST(muster_data_destroy(m, data, &problem));
    CHECK_STATUS(MUSTER_E_BUSY, muster_device_slice(m, device, sizes, 2, slices, &problem));
    MUST(muster_host_free(m, memory, &problem));
    MUST(muster_device_slice(m, device, sizes, 2, slices, &problem));
    MUST(muster_close(m, &problem));
}

/* Nobody has looked since the work ended; that must not make the device count as in use. */
static void a_device_whose_work_has_ended_unseen_can_be_cut(void)
{
    struct muster *m = open_plain();
    muster_device device = find(m, "sim:0"), slices[2];
    const uint32_t sizes[] = { 4, 4 };
    struct muster_kernel *nothing = kernel_of(m, do_nothing);
    muster_stream a = acquire(m, device), b = acquire(m, device);
    muster_block block = allocate(m, a, 64);
    MUST(muster_launch(m, a, nothing, 0, 1000, NULL, 0, NULL, &problem));
    MUST(muster_fill(m, a, block, 0, 1, 64, &problem));
    MUST(muster_block_free(m, a, block, &problem));
    CHECK_STATUS(MUSTER_E_BUSY, muster_device_slice(m, device, sizes, 2, slices, &problem));
    MUST(muster_stream_release(m, a, &problem));
    MUST(muster_stream_release(m, b, &problem));
    uint64_t until_ns = platform_deadline_ns(30 * SECOND);
    muster_status status;
    do
        status = muster_device_slice(m, device, sizes, 2, slices, &problem);
    while (status == MUSTER_E_BUSY && platform_clock_ns() < until_ns);
    CHECK_STATUS(MUSTER_OK, status);
    MUST(muster_close(m, &problem));
}

static unsigned slices_refused_from;
static _Atomic int slices_open, planned;

static muster_status plan_counted(void *device, const uint32_t *sizes, size_t count,
                                  struct muster_error *err)
{
    muster_status status = backend_sim.slice_plan(device, sizes, count, err);
    planned += status == MUSTER_OK;
    return status;
}

static void unplan_counted(void *device)
{
    planned--;
    backend_sim.slice_unplan(device);
}

static muster_status open_some_slices(void *device, size_t index, void *slice,
                                      struct muster_device_info *info, struct muster_error *err)
{
    if (index >= slices_refused_from)
        return muster_error_fill(err, MUSTER_E_DRIVER, 9, NULL, "no more of those");
    slices_open++;
    return backend_sim.slice_open(device, index, slice, info, err);
}

static void a_cut_that_fails_half_way_is_undone(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster_backend table = backend_sim;
    const struct muster_backend *tables[] = { &table };
    table.name = "knife";
    table.slice_plan = plan_counted;
    table.slice_unplan = unplan_counted;
    table.slice_open = open_some_slices;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.allocator = counting_allocator(&counting);
    options.backends = tables;
    options.backend_count = 1;
    options.sim = SIM_PLAIN;
    struct muster *m = open_with(options);
    muster_device device = find(m, "knife:0"), slices[4] = { { 7, 7 } };
    const uint32_t sizes[] = { 2, 2, 2, 2 };
    for (slices_refused_from = 0; slices_refused_from < 4; slices_refused_from++) {
        CHECK_STATUS(MUSTER_E_DRIVER, muster_device_slice(m, device, sizes, 4, slices, &problem));
        CHECK_EQUAL(9, problem.driver_code);
        CHECK_EQUAL(0, planned);
        CHECK_EQUAL(7, slices[0].index);
        muster_stream stream = acquire(m, device); /* as before */
        MUST(muster_stream_release(m, stream, &problem));
    }
    MUST(muster_device_slice(m, device, sizes, 4, slices, &problem));
    CHECK_EQUAL(1, planned);
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, planned);
    CHECK_EQUAL(0, counting.bytes);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_backend_is_opened_when_a_device_of_it_is_wanted),
        TEST(many_who_look_at_once_open_each_backend_once),
        TEST(devices_are_listed_by_backend_and_id),
        TEST(only_the_devices_asked_for_are_there),
        TEST(backends_are_reported_on),
        TEST(facts_are_filled_in),
        TEST(a_lost_device_is_told_and_others_go_on),
        TEST(a_lost_slice_quarantines_its_siblings),
        TEST(a_device_that_was_late_is_suspect_until_it_finishes_something),
        TEST(slices_stand_in_for_the_device_they_were_cut_from),
        TEST(devices_are_cut_when_they_are_found),
        TEST(slices_that_cannot_be_had_are_told),
        TEST(no_job_runs_elsewhere_for_want_of_its_slices),
        TEST(cutting_is_refused_where_it_cannot_be),
        TEST(a_device_in_use_is_not_cut),
        TEST(a_device_whose_work_has_ended_unseen_can_be_cut),
        TEST(a_cut_that_fails_half_way_is_undone),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
