/*
 * The stream pools, through the public interface, and what lanes take of them.
 */
#include "run/lane/streams.h"
#include "backend/cpu/cpu.h"
#include "base/random.h"
#include "support.h"

static bool same(muster_stream a, muster_stream b)
{
    return a.index == b.index && a.generation == b.generation;
}

/* Takes all there are; gives how many, with all of them in `out`. */
static unsigned acquire_all(struct muster *m, muster_device device, muster_stream *out,
                            unsigned capacity)
{
    unsigned count = 0;
    muster_status status = MUSTER_OK;
    while (count < capacity &&
           (status = muster_stream_acquire(m, device, 0, &out[count], &problem)) == MUSTER_OK) {
        for (unsigned i = 0; i < count; i++)
            CHECK(!same(out[i], out[count]) && out[i].index != out[count].index);
        count++;
    }
    CHECK_STATUS(MUSTER_E_CAPACITY, status);
    return count;
}

static void handles_are_distinct_up_to_the_cap(void)
{
    static const struct {
        uint32_t asked, cap;
    } caps[] = { { 0, 16 }, { 3, 3 }, { 1, 1 }, { 255, 255 } };
    static muster_stream streams[300];
    for (size_t i = 0; i < COUNT_OF(caps); i++) {
        struct muster_options options = MUSTER_OPTIONS_INIT;
        options.streams_max = caps[i].asked;
        options.sim = SIM_PLAIN;
        struct muster *m = open_with(options);
        for (unsigned kind = 0; kind < 2; kind++) {
            muster_device device = find(m, kind == 0 ? "cpu:0" : "sim:0");
            char words[40];
            CHECK_EQUAL(caps[i].cap, info_of(m, device).streams_max);
            CHECK_EQUAL(caps[i].cap, acquire_all(m, device, streams, COUNT_OF(streams)));
            snprintf(words, sizeof words, "has %u streams at most", caps[i].cap);
            CHECK_CONTAINS(words, problem.text);
            CHECK_TEXT(kind == 0 ? "cpu:0" : "sim:0", problem.device);
            CHECK(*problem.fix);
            CHECK_EQUAL(caps[i].cap, load_of(m, device).streams_acquired);
            /* One back, one out again. */
            MUST(muster_stream_release(m, streams[0], &problem));
            muster_stream again = acquire(m, device);
            for (unsigned k = 0; k < caps[i].cap; k++)
                CHECK(!same(again, streams[k]));
            CHECK_STATUS(MUSTER_E_CAPACITY, muster_stream_acquire(m, device, 0, &again, NULL));
        }
        MUST(muster_close(m, &problem));
    }
}

static void more_streams_than_there_can_be_are_refused_at_open(void)
{
    struct muster *m = NULL;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.streams_max = 256;
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_open(&m, &options, &problem));
    CHECK_CONTAINS("256", problem.text);
    CHECK_CONTAINS("255", problem.text);
    CHECK(m == NULL);
}

static void check_refused(struct muster *m, muster_stream stream, muster_status expected)
{
    struct muster_stream_info info = { .size = sizeof info };
    void *native;
    muster_block block;
    CHECK_STATUS(expected, muster_stream_resolve(m, stream, &info, &problem));
    CHECK_STATUS(expected, problem.status);
    CHECK_STATUS(expected, muster_stream_release(m, stream, &problem));
    CHECK_STATUS(expected, muster_stream_native(m, stream, &native, &problem));
    CHECK_STATUS(expected, muster_stream_query(m, stream, &problem));
    CHECK_STATUS(expected, muster_stream_wait(m, stream, 0, &problem));
    CHECK_STATUS(expected, muster_block_allocate(m, stream, 8, &block, &problem));
}

static void stale_and_unknown_handles_are_told_apart(void)
{
    struct muster *m = open_plain();
    muster_device device = find(m, "cpu:0");
    muster_stream stream = acquire(m, device);
    struct muster_stream_info info = { .size = sizeof info };
    MUST(muster_stream_resolve(m, stream, &info, &problem));
    CHECK_EQUAL(device.index, info.device.index);
    CHECK_EQUAL(device.generation, info.device.generation);
    CHECK(info.slot > 0);
    CHECK_EQUAL(0, info.priority);

    /* Never issued. */
    check_refused(m, (muster_stream){ stream.index, 0 }, MUSTER_E_UNKNOWN);
    check_refused(m, (muster_stream){ stream.index, stream.generation + 1 }, MUSTER_E_UNKNOWN);
    check_refused(m, (muster_stream){ stream.index, UINT32_MAX }, MUSTER_E_UNKNOWN);
    check_refused(m, (muster_stream){ stream.index + 1, 1 }, MUSTER_E_UNKNOWN);
    check_refused(m, (muster_stream){ 200, 1 }, MUSTER_E_UNKNOWN);
    check_refused(m, (muster_stream){ 256 * 100, 1 }, MUSTER_E_UNKNOWN);
    check_refused(m, (muster_stream){ UINT32_MAX, UINT32_MAX }, MUSTER_E_UNKNOWN);
    check_refused(m, (muster_stream){ 0, 0 }, MUSTER_E_UNKNOWN);
    /* The default stream before anybody asked for it. */
    check_refused(m, (muster_stream){ 0, 1 }, MUSTER_E_UNKNOWN);

    /* Released, and released with the slot reused. */
    MUST(muster_stream_release(m, stream, &problem));
    check_refused(m, stream, MUSTER_E_STALE);
    CHECK_TEXT("cpu:0", (muster_stream_resolve(m, stream, &info, &problem), problem.device));
    check_refused(m, (muster_stream){ stream.index, stream.generation + 1 }, MUSTER_E_UNKNOWN);
    muster_stream next = acquire(m, device);
    CHECK_EQUAL(stream.index, next.index);
    CHECK(stream.generation != next.generation);
    check_refused(m, stream, MUSTER_E_STALE);
    MUST(muster_stream_resolve(m, next, &info, &problem));
    MUST(muster_close(m, &problem));
}

static void arguments_are_checked(void)
{
    struct muster *m = open_plain();
    muster_device device = find(m, "cpu:0");
    muster_stream stream = acquire(m, device);
    struct muster_stream_info info = { .size = sizeof info - 1 };
    CHECK_STATUS(MUSTER_E_INVALID, muster_stream_acquire(NULL, device, 0, &stream, NULL));
    CHECK_STATUS(MUSTER_E_INVALID, muster_stream_acquire(m, device, 0, NULL, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_stream_resolve(m, stream, &info, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_stream_resolve(m, stream, NULL, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_stream_native(m, stream, NULL, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_stream_default(m, device, NULL, &problem));
    CHECK_STATUS(MUSTER_E_UNKNOWN,
                 muster_stream_acquire(m, (muster_device){ 99, 1 }, 0, &stream, &problem));
    CHECK_STATUS(MUSTER_E_UNKNOWN,
                 muster_stream_acquire(m, (muster_device){ device.index, 0 }, 0, &stream, NULL));
    void *native = &native;
    MUST(muster_stream_native(m, stream, &native, &problem));
    CHECK(native == NULL);
    MUST(muster_close(m, &problem));
}

static void the_default_stream_is_one_and_stays(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.streams_max = 2;
    options.sim = SIM_PLAIN;
    struct muster *m = open_with(options);
    muster_device device = find(m, "sim:1");
    muster_stream first, second, streams[4];
    MUST(muster_stream_default(m, device, &first, &problem));
    MUST(muster_stream_default(m, device, &second, &problem));
    CHECK(same(first, second));
    struct muster_stream_info info = { .size = sizeof info };
    MUST(muster_stream_resolve(m, first, &info, &problem));
    CHECK_EQUAL(0, info.slot);
    CHECK_EQUAL(0, load_of(m, device).streams_acquired);
    CHECK_EQUAL(2, acquire_all(m, device, streams, COUNT_OF(streams)));
    CHECK(!same(first, streams[0]) && !same(first, streams[1]));
    CHECK_STATUS(MUSTER_E_INVALID, muster_stream_release(m, first, &problem));
    MUST(muster_stream_resolve(m, first, &info, &problem));
    /* It works like any other. */
    uint64_t number = 0;
    muster_block block = allocate(m, first, sizeof number);
    MUST(muster_fill(m, first, block, 0, 1, sizeof number, &problem));
    MUST(muster_copy_out(m, streams[0], &number, block, 0, sizeof number, &problem));
    wait_for(m, streams[0]);
    CHECK_EQUAL(0x0101010101010101, number);
    MUST(muster_close(m, &problem));
}

static void priorities_are_those_the_device_has(void)
{
    struct muster *m = open_plain();
    muster_device cpu = find(m, "cpu:0"), sim = find(m, "sim:0");
    struct muster_device_info info = info_of(m, cpu);
    CHECK(info.capabilities & MUSTER_CAN_PRIORITIES);
    CHECK(info.priority_greatest < info.priority_least);
    muster_stream stream;
    struct muster_stream_info facts = { .size = sizeof facts };
    for (int32_t p = info.priority_greatest; p <= info.priority_least; p++) {
        MUST(muster_stream_acquire(m, cpu, p, &stream, &problem));
        MUST(muster_stream_resolve(m, stream, &facts, &problem));
        CHECK_EQUAL(p, facts.priority);
        MUST(muster_stream_release(m, stream, &problem));
    }
    const int32_t refused[] = { info.priority_greatest - 1, info.priority_least + 1, INT32_MIN,
                                INT32_MAX };
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        CHECK_STATUS(MUSTER_E_NOT_SUPPORTED,
                     muster_stream_acquire(m, cpu, refused[i], &stream, &problem));
        CHECK_CONTAINS("-1 (most urgent) to 0", problem.text);
    }
    CHECK(!(info_of(m, sim).capabilities & MUSTER_CAN_PRIORITIES));
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED, muster_stream_acquire(m, sim, -1, &stream, &problem));
    CHECK_TEXT("sim:0", problem.device);
    CHECK_EQUAL(0, load_of(m, sim).streams_acquired);
    MUST(muster_close(m, &problem));
}

/* With every slot taken by idle streams of one priority, another priority can still be had. */
static void an_idle_stream_makes_room_for_another_priority(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.streams_max = 2;
    struct muster *m = open_with(options);
    muster_device device = find(m, "cpu:0");
    muster_stream streams[3];
    CHECK_EQUAL(2, acquire_all(m, device, streams, 3));
    for (unsigned i = 0; i < 2; i++)
        MUST(muster_stream_release(m, streams[i], &problem));
    struct muster_stream_info info = { .size = sizeof info };
    for (unsigned i = 0; i < 2; i++) {
        MUST(muster_stream_acquire(m, device, -1, &streams[i], &problem));
        MUST(muster_stream_resolve(m, streams[i], &info, &problem));
        CHECK_EQUAL(-1, info.priority);
    }
    CHECK_STATUS(MUSTER_E_CAPACITY, muster_stream_acquire(m, device, -1, &streams[2], NULL));
    MUST(muster_close(m, &problem));
}

static void a_stream_released_with_work_finishes_it_before_it_serves_again(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.streams_max = 1;
    options.cpu_workers = 2;
    struct muster *m = open_with(options);
    muster_device device = find(m, "cpu:0");
    struct muster_kernel *stand = kernel_of(m, stand_at_door), *add = kernel_of(m, add_number);
    muster_stream helper, stream = acquire(m, device);
    MUST(muster_stream_default(m, device, &helper, &problem));
    struct door door = DOOR_INIT;
    uint64_t one = 1, number = 0;
    muster_block block = allocate(m, stream, sizeof number);
    MUST(muster_fill(m, stream, block, 0, 0, sizeof number, &problem));
    hold_stream(m, stream, stand, &door);
    const struct muster_operand args[] = { MUSTER_BLOCK_UPDATE(block), MUSTER_SCALAR(one) };
    MUST(muster_launch(m, stream, add, 0, 1, args, 2, NULL, &problem));
    MUST(muster_stream_release(m, stream, &problem));
    CHECK_EQUAL(0, load_of(m, device).streams_acquired);
    CHECK_EQUAL(1, load_of(m, device).streams_active);
    muster_stream next;
    CHECK_STATUS(MUSTER_E_CAPACITY, muster_stream_acquire(m, device, 0, &next, &problem));
    CHECK_CONTAINS("1 still finish earlier work", problem.text);
    door_open(&door);
    /* The block's use on another stream follows the work of the released one. */
    MUST(muster_copy_out(m, helper, &number, block, 0, sizeof number, &problem));
    wait_for(m, helper);
    CHECK_EQUAL(1, number);
    MUST(muster_stream_acquire(m, device, 0, &next, &problem));
    MUST(muster_stream_query(m, next, &problem));
    MUST(muster_launch(m, next, add, 0, 1, args, 2, NULL, &problem));
    MUST(muster_copy_out(m, next, &number, block, 0, sizeof number, &problem));
    wait_for(m, next);
    CHECK_EQUAL(2, number);
    MUST(muster_close(m, &problem));
}

struct meeting {
    struct door *own, *other;
};

/* Arguments: a block, and a meeting: opens its own door and stands at the other's. */
static muster_status meet(uint64_t begin, uint64_t end, void *const *args)
{
    const struct meeting *meeting = *(const struct meeting *const *)args[1];
    (void)begin, (void)end;
    door_open(meeting->own);
    door_pass(meeting->other);
    return MUSTER_OK;
}

/* Two streams wait for one event. When it comes, the worker that sees it does not do one after the other. */
static void streams_that_one_event_releases_run_beside_each_other(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.cpu_workers = 2;
    struct muster *m = open_with(options);
    muster_device device = find(m, "cpu:0");
    muster_stream held = acquire(m, device),
                  streams[2] = { acquire(m, device), acquire(m, device) };
    struct muster_kernel *stand = kernel_of(m, stand_at_door), *meets = kernel_of(m, meet);
    struct door door = DOOR_INIT, doors[2] = { DOOR_INIT, DOOR_INIT };
    struct meeting meetings[2] = { { &doors[0], &doors[1] }, { &doors[1], &doors[0] } };
    muster_block block = allocate(m, held, 64);
    hold_stream(m, held, stand, &door);
    MUST(muster_fill(m, held, block, 0, 1, 64, &problem));
    for (int i = 0; i < 2; i++) {
        const struct meeting *meeting = &meetings[i];
        const struct muster_operand args[] = { MUSTER_BLOCK_READ(block), MUSTER_SCALAR(meeting) };
        MUST(muster_launch(m, streams[i], meets, 0, 1, args, 2, NULL, &problem));
    }
    door_wait_arrived(&door, 1);
    door_open(&door);
    wait_for(m, streams[0]);
    wait_for(m, streams[1]);
    MUST(muster_close(m, &problem));
}

static void a_failed_stream_is_not_handed_out_as_it_is(void)
{
    for (unsigned kind = 0; kind < 2; kind++) {
        struct muster_options options = MUSTER_OPTIONS_INIT;
        options.streams_max = 1;
        options.sim = SIM_PLAIN;
        struct muster *m = open_with(options);
        muster_device device = find(m, kind == 0 ? "cpu:0" : "sim:0");
        struct muster_kernel *fail = kernel_of(m, always_fail), *nothing = kernel_of(m, do_nothing);
        for (unsigned round = 0; round < 3; round++) {
            muster_stream stream = acquire(m, device);
            MUST(muster_stream_query(m, stream, &problem));
            MUST(muster_launch(m, stream, nothing, 0, 1, NULL, 0, NULL, &problem));
            wait_for(m, stream);
            MUST(muster_launch(m, stream, fail, 0, 1, NULL, 0, NULL, &problem));
            CHECK_STATUS(MUSTER_E_STREAM_FAILED,
                         muster_stream_wait(m, stream, 10 * SECOND, &problem));
            CHECK_CONTAINS("MUSTER_E_FAILED", problem.text);
            /* It stays failed for its holder. */
            CHECK_STATUS(MUSTER_E_STREAM_FAILED, muster_stream_query(m, stream, &problem));
            MUST(muster_stream_release(m, stream, &problem));
        }
        struct muster_device_load load = load_of(m, device);
        CHECK_EQUAL(6, load.dispatched);
        CHECK_EQUAL(3, load.completed);
        CHECK_EQUAL(3, load.failed);
        CHECK_EQUAL(MUSTER_HEALTH_OK, load.health);
        MUST(muster_close(m, &problem));
    }
}

static unsigned opens_to_refuse;

static muster_status refuse_open(void *device, int32_t priority, int is_default, void *stream,
                                 struct muster_error *err)
{
    if (opens_to_refuse > 0) {
        opens_to_refuse--;
        return muster_error_fill(err, MUSTER_E_DRIVER, 42, NULL, "the driver has had enough");
    }
    return backend_cpu.stream_open(device, priority, is_default, stream, err);
}

static void a_refusal_of_the_driver_carries_its_words_and_costs_no_slot(void)
{
    struct muster_backend table = backend_cpu;
    const struct muster_backend *tables[] = { &table };
    table.name = "given";
    table.stream_open = refuse_open;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.backends = tables;
    options.backend_count = 1;
    options.streams_max = 2;
    struct muster *m = open_with(options);
    muster_device device = find(m, "given:0");
    muster_stream streams[3] = { { 7, 7 } };
    opens_to_refuse = 5;
    for (unsigned i = 0; i < 4; i++) {
        CHECK_STATUS(MUSTER_E_DRIVER, muster_stream_acquire(m, device, 0, streams, &problem));
        CHECK_EQUAL(42, problem.driver_code);
        CHECK_TEXT("the driver has had enough", problem.text);
        CHECK_TEXT("given:0", problem.device);
        CHECK_EQUAL(7, streams[0].index);
    }
    CHECK_STATUS(MUSTER_E_DRIVER, muster_stream_default(m, device, streams, &problem));
    MUST(muster_stream_default(m, device, streams, &problem));
    CHECK_EQUAL(2, acquire_all(m, device, streams, 3));
    MUST(muster_close(m, &problem));
}

static struct door open_door = DOOR_INIT;

static muster_status linger_and_open(void *device, int32_t priority, int is_default, void *stream,
                                     struct muster_error *err)
{
    door_linger(&open_door, 2);
    return backend_cpu.stream_open(device, priority, is_default, stream, err);
}

struct acquirer {
    struct muster *m;
    muster_device device;
    muster_stream stream;
    muster_status status;
};

static void *acquire_one(void *argument)
{
    struct acquirer *acquirer = argument;
    acquirer->status =
        muster_stream_acquire(acquirer->m, acquirer->device, 0, &acquirer->stream, NULL);
    return NULL;
}

/* Both are in the driver at the same time. */
static void two_who_acquire_at_once_get_two_streams(void)
{
    struct muster_backend table = backend_cpu;
    const struct muster_backend *tables[] = { &table };
    table.name = "given";
    table.stream_open = linger_and_open;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.backends = tables;
    options.backend_count = 1;
    struct muster *m = open_with(options);
    struct acquirer acquirers[2];
    pthread_t threads[2];
    for (unsigned i = 0; i < 2; i++) {
        acquirers[i] = (struct acquirer){ .m = m, .device = find(m, "given:0") };
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, acquire_one, &acquirers[i]));
    }
    for (unsigned i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        CHECK_STATUS(MUSTER_OK, acquirers[i].status);
    }
    CHECK(acquirers[0].stream.index != acquirers[1].stream.index);
    CHECK_EQUAL(2, load_of(m, find(m, "given:0")).streams_acquired);
    MUST(muster_close(m, &problem));
}

static void a_stream_with_an_open_begin_is_not_released(void)
{
    struct muster *m = open_plain();
    muster_stream stream = acquire(m, find(m, "cpu:0"));
    const struct muster_use use = { sizeof use, allocate(m, stream, 64), MUSTER_WRITES };
    MUST(muster_block_begin(m, stream, &use, 1, &problem));
    CHECK_STATUS(MUSTER_E_BUSY, muster_stream_release(m, stream, &problem));
    MUST(muster_block_end(m, stream, &use, 1, &problem));
    MUST(muster_stream_release(m, stream, &problem));
    MUST(muster_close(m, &problem));
}

static void a_wait_ends_in_time(void)
{
    struct muster *m = open_plain();
    muster_device device = find(m, "cpu:0");
    muster_stream stream = acquire(m, device);
    struct muster_kernel *stand = kernel_of(m, stand_at_door);
    struct door door = DOOR_INIT;
    MUST(muster_stream_wait(m, stream, 0, &problem));
    MUST(muster_stream_query(m, stream, &problem));
    hold_stream(m, stream, stand, &door);
    door_wait_arrived(&door, 1);
    CHECK_STATUS(MUSTER_E_BUSY, muster_stream_query(m, stream, &problem));
    CHECK_EQUAL(MUSTER_HEALTH_OK, load_of(m, device).health);
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_stream_wait(m, stream, 0, &problem));
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_stream_wait(m, stream, 2 * MS, &problem));
    CHECK_TEXT("cpu:0", problem.device);
    CHECK_EQUAL(MUSTER_HEALTH_SUSPECT, load_of(m, device).health);
    door_open(&door);
    MUST(muster_stream_wait(m, stream, UINT64_MAX, &problem));
    CHECK_EQUAL(MUSTER_HEALTH_OK, load_of(m, device).health);
    MUST(muster_stream_query(m, stream, &problem));
    MUST(muster_close(m, &problem));
}

/* Eight threads take and give; a table of owners shows at once if two have the same slot. */
enum { THREADS = 8, SLOTS = 256 };

struct crowd {
    struct muster *m;
    muster_device device;
    _Atomic unsigned owner[SLOTS];
    _Atomic unsigned duplicates, wrong;
    uint64_t seed;
    unsigned rounds;
};

struct member {
    struct crowd *crowd;
    unsigned number;
};

static void *take_and_give(void *argument)
{
    struct member *member = argument;
    struct crowd *crowd = member->crowd;
    struct random random;
    muster_stream mine[4];
    unsigned count = 0;
    random_init(&random, crowd->seed + member->number);
    for (unsigned round = 0; round < crowd->rounds; round++) {
        if (count < COUNT_OF(mine) && random_below(&random, 2)) {
            muster_status status = muster_stream_acquire(
                crowd->m, crowd->device, random_below(&random, 4) ? 0 : -1, &mine[count], NULL);
            if (status == MUSTER_OK) {
                unsigned nobody = 0;
                if (!atomic_compare_exchange_strong(&crowd->owner[mine[count].index % SLOTS],
                                                    &nobody, member->number))
                    atomic_fetch_add(&crowd->duplicates, 1);
                count++;
            } else if (status != MUSTER_E_CAPACITY) {
                atomic_fetch_add(&crowd->wrong, 1);
            }
        } else if (count > 0) {
            muster_stream stream = mine[--count];
            atomic_store(&crowd->owner[stream.index % SLOTS], 0);
            if (muster_stream_release(crowd->m, stream, NULL) != MUSTER_OK ||
                muster_stream_query(crowd->m, stream, NULL) != MUSTER_E_STALE)
                atomic_fetch_add(&crowd->wrong, 1);
        }
    }
    while (count > 0) {
        atomic_store(&crowd->owner[mine[--count].index % SLOTS], 0);
        if (muster_stream_release(crowd->m, mine[count], NULL) != MUSTER_OK)
            atomic_fetch_add(&crowd->wrong, 1);
    }
    return NULL;
}

static void a_crowd_never_gets_the_same_stream_twice(void)
{
    static struct crowd crowd;
    struct member members[THREADS];
    pthread_t threads[THREADS];
    memset(&crowd, 0, sizeof crowd);
    crowd.m = open_plain();
    crowd.device = find(crowd.m, "cpu:0");
    crowd.seed = test_seed();
    crowd.rounds = test_repetitions(1500);
    for (unsigned i = 0; i < THREADS; i++) {
        members[i] = (struct member){ &crowd, i + 1 };
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, take_and_give, &members[i]));
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQUAL(0, crowd.duplicates);
    CHECK_EQUAL(0, crowd.wrong);
    CHECK_EQUAL(0, load_of(crowd.m, crowd.device).streams_acquired);
    muster_stream streams[20];
    CHECK_EQUAL(16, acquire_all(crowd.m, crowd.device, streams, 20));
    MUST(muster_close(crowd.m, &problem));
}

/* A lane takes all the streams that it needs in one step, or none, and what it gives back stays open. */
static void several_are_taken_or_none(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct lane_stream three[3], more[8];
    uint32_t count;
    options.sim = SIM_PLAIN;
    options.streams_max = 4;
    struct muster *m = open_with(options);
    muster_device handle = find(m, "sim:0");
    struct run_device *device = m->devices[handle.index];
    MUST(streams_take(device, 3, three, &problem));
    CHECK_EQUAL(3, load_of(m, handle).streams_acquired);
    CHECK_STATUS(MUSTER_E_CAPACITY, streams_take(device, 3, more, &problem));
    CHECK_CONTAINS("4 streams", problem.text);
    CHECK_EQUAL(3, load_of(m, handle).streams_acquired);
    MUST(streams_take(device, 1, more, &problem));
    streams_give(more, 1);
    streams_give(three, 3);
    CHECK_EQUAL(0, load_of(m, handle).streams_acquired);
    MUST(streams_take_some(device, 8, more, &count, &problem));
    CHECK_EQUAL(4, count);
    CHECK_STATUS(MUSTER_E_CAPACITY, streams_take_some(device, 1, three, &count, &problem));
    CHECK_EQUAL(0, count);
    streams_give(more, 4);
    CHECK_EQUAL(0, load_of(m, handle).streams_acquired);
    MUST(muster_close(m, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(handles_are_distinct_up_to_the_cap),
        TEST(more_streams_than_there_can_be_are_refused_at_open),
        TEST(stale_and_unknown_handles_are_told_apart),
        TEST(arguments_are_checked),
        TEST(the_default_stream_is_one_and_stays),
        TEST(priorities_are_those_the_device_has),
        TEST(an_idle_stream_makes_room_for_another_priority),
        TEST(a_stream_released_with_work_finishes_it_before_it_serves_again),
        TEST(streams_that_one_event_releases_run_beside_each_other),
        TEST(a_failed_stream_is_not_handed_out_as_it_is),
        TEST(a_refusal_of_the_driver_carries_its_words_and_costs_no_slot),
        TEST(two_who_acquire_at_once_get_two_streams),
        TEST(a_stream_with_an_open_begin_is_not_released),
        TEST(a_wait_ends_in_time),
        TEST(a_crowd_never_gets_the_same_stream_twice),
        TEST(several_are_taken_or_none),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
