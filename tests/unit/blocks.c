/*
 * Blocks: budget, order between streams, begin and end, copies.
 */
#include "backend/cpu/cpu.h"
#include "base/random.h"
#include "support.h"

/* Every ordering test runs on a device that computes and on one that pretends. */
static const char *const devices[] = { "cpu:0", "sim:0" };

static struct muster *open_limited(uint64_t limit)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.cpu_workers = 4;
    options.sim = SIM_PLAIN;
    options.memory_limit = limit;
    return open_with(options);
}

static void check_memory(struct muster *m, muster_device device, uint64_t used,
                         uint64_t unreclaimed)
{
    struct muster_device_load load = load_of(m, device);
    CHECK_EQUAL(used, load.memory_used);
    CHECK_EQUAL(unreclaimed, load.memory_unreclaimed);
    CHECK_EQUAL(0, load.memory_reserved);
}

static void memory_is_counted_from_allocation_to_reclaim(void)
{
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        struct muster *m = open_limited(1000);
        muster_device device = find(m, devices[d]);
        muster_stream stream = acquire(m, device);
        check_memory(m, device, 0, 0);
        muster_block block = allocate(m, stream, 600);
        check_memory(m, device, 600, 0);
        struct muster_block_info info = { .size = sizeof info };
        MUST(muster_block_info(m, block, &info, &problem));
        CHECK_EQUAL(600, info.bytes);
        CHECK_EQUAL(device.index, info.device.index);
        CHECK(info.address != 0);
        MUST(muster_block_free(m, stream, block, &problem));
        CHECK_STATUS(MUSTER_E_STALE, muster_block_info(m, block, &info, &problem));
        CHECK_STATUS(MUSTER_E_STALE, muster_block_free(m, stream, block, &problem));
        wait_for(m, stream);
        check_memory(m, device, 0, 0);
        MUST(muster_close(m, &problem));
    }
}

static void freed_memory_counts_while_the_device_still_has_it(void)
{
    struct muster *m = open_limited(1000);
    muster_device device = find(m, "cpu:0");
    muster_stream stream = acquire(m, device), other = acquire(m, device);
    struct muster_kernel *stand = kernel_of(m, stand_at_door);
    struct door door = DOOR_INIT;
    muster_block block = allocate(m, stream, 700), more;
    hold_stream(m, stream, stand, &door);
    MUST(muster_block_free(m, stream, block, &problem));
    check_memory(m, device, 0, 700);
    CHECK_STATUS(MUSTER_E_DEVICE_MEMORY, muster_block_allocate(m, other, 301, &more, &problem));
    CHECK_CONTAINS("700 not reclaimed yet", problem.text);
    const uint64_t sizes[] = { 301 };
    CHECK_STATUS(MUSTER_E_DEVICE_MEMORY, muster_block_estimate(m, device, sizes, 1, &problem));
    MUST(muster_block_allocate(m, other, 300, &more, &problem));
    door_open(&door);
    wait_for(m, stream);
    MUST(muster_block_estimate(m, device, sizes, 1, &problem));
    MUST(muster_block_allocate(m, other, 700, &block, &problem));
    check_memory(m, device, 1000, 0);
    MUST(muster_close(m, &problem));
}

static void what_never_fits_is_told_from_what_does_not_fit_now(void)
{
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        struct muster *m = open_limited(1000);
        muster_device device = find(m, devices[d]);
        muster_stream stream = acquire(m, device);
        muster_block block = { 7, 7 }, first = allocate(m, stream, 900);
        CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_block_allocate(m, stream, 1001, &block, &problem));
        CHECK_CONTAINS("1001 bytes were asked for; of 1000", problem.text);
        CHECK_TEXT(devices[d], problem.device);
        CHECK_STATUS(MUSTER_E_TOO_LARGE,
                     muster_block_allocate(m, stream, UINT64_MAX, &block, &problem));
        CHECK_STATUS(MUSTER_E_DEVICE_MEMORY,
                     muster_block_allocate(m, stream, 101, &block, &problem));
        CHECK_CONTAINS("900 are used", problem.text);
        CHECK_STATUS(MUSTER_E_INVALID, muster_block_allocate(m, stream, 0, &block, &problem));
        CHECK_EQUAL(7, block.index);
        const uint64_t many[] = { UINT64_MAX, UINT64_MAX }, fits[] = { 50, 50 };
        CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_block_estimate(m, device, many, 2, &problem));
        MUST(muster_block_estimate(m, device, fits, 2, &problem));
        MUST(muster_block_estimate(m, device, NULL, 0, &problem));
        CHECK_STATUS(MUSTER_E_INVALID, muster_block_estimate(m, device, NULL, 1, &problem));
        check_memory(m, device, 900, 0);
        MUST(muster_block_free(m, stream, first, &problem));
        MUST(muster_close(m, &problem));
    }
}

static void many_are_allocated_all_or_none(void)
{
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        struct muster *m = open_limited(1000);
        muster_device device = find(m, devices[d]);
        muster_stream stream = acquire(m, device);
        const uint64_t sizes[] = { 300, 300, 300 }, large[] = { 300, 300, 401 }, empty[] = { 1, 0 };
        muster_block blocks[3] = { { 7, 7 }, { 7, 7 }, { 7, 7 } };
        CHECK_STATUS(MUSTER_E_TOO_LARGE,
                     muster_block_allocate_many(m, stream, large, 3, SECOND, blocks, &problem));
        CHECK_STATUS(MUSTER_E_INVALID,
                     muster_block_allocate_many(m, stream, empty, 2, 0, blocks, &problem));
        CHECK_STATUS(MUSTER_E_INVALID,
                     muster_block_allocate_many(m, stream, sizes, 0, 0, blocks, &problem));
        check_memory(m, device, 0, 0);
        CHECK_EQUAL(7, blocks[0].index);
        MUST(muster_block_allocate_many(m, stream, sizes, 3, 0, blocks, &problem));
        check_memory(m, device, 900, 0);
        muster_block more[3];
        CHECK_STATUS(MUSTER_E_DEVICE_MEMORY,
                     muster_block_allocate_many(m, stream, sizes, 3, 0, more, &problem));
        CHECK_STATUS(MUSTER_E_DEVICE_MEMORY,
                     muster_block_allocate_many(m, stream, sizes, 3, 5 * MS, more, &problem));
        check_memory(m, device, 900, 0);
        MUST(muster_close(m, &problem));
    }
}

/* The driver refuses the last of several: the others go back, and the figures are as before. */
static void a_refusal_half_way_is_rolled_back(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    /* The budget would allow it; the device's chance does not. */
    options.sim = "[{\"items_per_s\": 1e6, \"memory\": 100000,"
                  "  \"faults\": [{\"kind\": \"memory\", \"probability\": 0.5}]}]";
    struct muster *m = open_with(options);
    muster_device device = find(m, "sim:0");
    muster_stream stream = acquire(m, device);
    const uint64_t sizes[] = { 100, 200, 300, 400 };
    muster_block blocks[4];
    unsigned refused = 0, given = 0;
    uint64_t used = 0;
    for (unsigned i = 0; i < 100; i++) {
        muster_status status = muster_block_allocate_many(m, stream, sizes, 4, 0, blocks, &problem);
        CHECK(status == MUSTER_OK || status == MUSTER_E_DEVICE_MEMORY);
        refused += status != MUSTER_OK;
        given += status == MUSTER_OK;
        used += status == MUSTER_OK ? 1000 : 0;
        check_memory(m, device, used, 0);
    }
    CHECK(refused > 0 && given > 0);
    CHECK_CONTAINS("refused", problem.text);
    MUST(muster_close(m, &problem));
}

struct freer {
    struct muster *m;
    muster_stream stream;
    muster_block block;
    struct door door;
};

static void *free_later(void *argument)
{
    struct freer *freer = argument;
    door_pass(&freer->door);
    return (void *)(intptr_t)muster_block_free(freer->m, freer->stream, freer->block, NULL);
}

static void *open_door(void *argument)
{
    door_open(argument);
    return NULL;
}

static void waiting_for_memory_ends_when_another_thread_frees_some(void)
{
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        struct muster *m = open_limited(1000);
        muster_device device = find(m, devices[d]);
        muster_stream stream = acquire(m, device);
        struct freer freer = { m, acquire(m, device), { 0, 0 }, DOOR_INIT };
        freer.block = allocate(m, freer.stream, 800);
        pthread_t first, second;
        CHECK_EQUAL(0, pthread_create(&first, NULL, free_later, &freer));
        door_wait_arrived(&freer.door, 1);
        const uint64_t sizes[] = { 400, 400 };
        muster_block blocks[2];
        CHECK_STATUS(MUSTER_E_DEVICE_MEMORY,
                     muster_block_allocate_many(m, stream, sizes, 2, 2 * MS, blocks, &problem));
        CHECK_EQUAL(0, pthread_create(&second, NULL, open_door, &freer.door));
        MUST(muster_block_allocate_many(m, stream, sizes, 2, 60 * SECOND, blocks, &problem));
        void *status;
        pthread_join(second, NULL);
        pthread_join(first, &status);
        CHECK_STATUS(MUSTER_OK, (muster_status)(intptr_t)status);
        check_memory(m, device, 800, 0);
        MUST(muster_close(m, &problem));
    }
}

/* Order between streams. */

/* Arguments: from, to, a number: to[i] = from[i] + number. */
static muster_status add_into(uint64_t begin, uint64_t end, void *const *args)
{
    const uint64_t *from = *(uint64_t *const *)args[0];
    uint64_t *to = *(uint64_t *const *)args[1], number = *(const uint64_t *)args[2];
    for (uint64_t i = begin; i < end; i++)
        to[i] = from[i] + number;
    return MUSTER_OK;
}

/*
 * A write that is held back on one stream, a read on a second, a free on a third. While the door is
 * shut neither may be over: that is seen, not hoped for.
 */
static void a_read_and_a_free_wait_for_a_write_elsewhere(void)
{
    enum { ITEMS = 1000 };
    static uint64_t got[ITEMS];
    struct muster *m = open_plain();
    muster_device device = find(m, "cpu:0");
    muster_stream a = acquire(m, device), b = acquire(m, device), c = acquire(m, device);
    struct muster_kernel *stand = kernel_of(m, stand_at_door), *add = kernel_of(m, add_number);
    for (unsigned round = 0; round < 3; round++) {
        struct door door = DOOR_INIT;
        uint64_t number = 7 + round;
        muster_block block = allocate(m, a, sizeof got);
        MUST(muster_fill(m, a, block, 0, 0, sizeof got, &problem));
        hold_stream(m, a, stand, &door);
        const struct muster_operand args[] = { MUSTER_BLOCK_UPDATE(block), MUSTER_SCALAR(number) };
        MUST(muster_launch(m, a, add, 0, ITEMS, args, 2, NULL, &problem));
        MUST(muster_copy_out(m, b, got, block, 0, sizeof got, &problem));
        MUST(muster_block_free(m, c, block, &problem));
        CHECK_STATUS(MUSTER_E_TIMEOUT, muster_stream_wait(m, b, 10 * MS, &problem));
        CHECK_STATUS(MUSTER_E_BUSY, muster_stream_query(m, c, &problem));
        CHECK_EQUAL(sizeof got, load_of(m, device).memory_unreclaimed);
        door_open(&door);
        wait_for(m, b);
        for (size_t i = 0; i < ITEMS; i++)
            CHECK_EQUAL(number, got[i]);
        wait_for(m, c);
        check_memory(m, device, 0, 0);
    }
    MUST(muster_close(m, &problem));
}

/* A reader is held back with the block in its hands; a free elsewhere must not be over before it. */
static void a_free_waits_for_a_read_elsewhere(void)
{
    struct muster *m = open_plain();
    muster_device device = find(m, "cpu:0");
    muster_stream a = acquire(m, device), b = acquire(m, device);
    struct muster_kernel *stand = kernel_of(m, stand_at_door);
    struct door door = DOOR_INIT, *at = &door;
    muster_block block = allocate(m, a, 64);
    MUST(muster_fill(m, a, block, 0, 1, 64, &problem));
    const struct muster_operand args[] = { MUSTER_SCALAR(at), MUSTER_BLOCK_READ(block) };
    MUST(muster_launch(m, a, stand, 0, 1, args, 2, NULL, &problem));
    door_wait_arrived(&door, 1);
    MUST(muster_block_free(m, b, block, &problem));
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_stream_wait(m, b, 10 * MS, &problem));
    check_memory(m, device, 0, 64);
    door_open(&door);
    wait_for(m, b);
    check_memory(m, device, 0, 0);
    MUST(muster_close(m, &problem));
}

/* A write waits for a reader that is held back, and the reader sees what was there before. */
static void a_write_waits_for_a_read_elsewhere(void)
{
    struct muster *m = open_plain();
    muster_device device = find(m, "cpu:0");
    muster_stream a = acquire(m, device), b = acquire(m, device);
    struct muster_kernel *stand = kernel_of(m, stand_at_door);
    struct door door = DOOR_INIT;
    unsigned char before[64], after[64];
    muster_block block = allocate(m, a, sizeof before);
    MUST(muster_fill(m, a, block, 0, 1, sizeof before, &problem));
    hold_stream(m, a, stand, &door);
    MUST(muster_copy_out(m, a, before, block, 0, sizeof before, &problem));
    MUST(muster_fill(m, b, block, 0, 2, sizeof before, &problem));
    MUST(muster_copy_out(m, b, after, block, 0, sizeof after, &problem));
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_stream_wait(m, b, 10 * MS, &problem));
    door_open(&door);
    wait_for(m, a);
    wait_for(m, b);
    CHECK_EQUAL(1, before[0]);
    CHECK_EQUAL(1, before[63]);
    CHECK_EQUAL(2, after[0]);
    CHECK_EQUAL(2, after[63]);
    MUST(muster_close(m, &problem));
}

/* Two readers do not wait for each other. */
static void reads_run_beside_each_other(void)
{
    struct muster *m = open_plain();
    muster_device device = find(m, "cpu:0");
    muster_stream a = acquire(m, device), b = acquire(m, device);
    struct muster_kernel *stand = kernel_of(m, stand_at_door);
    struct door door = DOOR_INIT, *at = &door;
    muster_block block = allocate(m, a, 64);
    MUST(muster_fill(m, a, block, 0, 1, 64, &problem));
    wait_for(m, a);
    const struct muster_operand args[] = { MUSTER_SCALAR(at), MUSTER_BLOCK_READ(block) };
    MUST(muster_launch(m, a, stand, 0, 1, args, 2, NULL, &problem));
    MUST(muster_launch(m, b, stand, 0, 1, args, 2, NULL, &problem));
    door_wait_arrived(&door, 2);
    door_open(&door);
    wait_for(m, a);
    wait_for(m, b);
    MUST(muster_close(m, &problem));
}

/*
 * Random work on blocks over random streams, given by one thread, must come out as if it had been
 * done one after the other: with conflicts ordered as given, that is the only outcome there is.
 */
enum { ITEMS = 64, BLOCKS = 5, STREAMS = 5 };

static void run_random(struct muster *m, muster_device device, struct random *random,
                       unsigned steps)
{
    static uint64_t expected[BLOCKS][ITEMS], got[BLOCKS][ITEMS];
    muster_stream streams[STREAMS];
    muster_block blocks[BLOCKS];
    struct muster_kernel *combine = kernel_of(m, add_into), *add = kernel_of(m, add_number);
    for (size_t i = 0; i < STREAMS; i++)
        streams[i] = acquire(m, device);
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = allocate(m, streams[i % STREAMS], sizeof got[i]);
        MUST(muster_fill(m, streams[(i + 1) % STREAMS], blocks[i], 0, 0, sizeof got[i], &problem));
        memset(expected[i], 0, sizeof expected[i]);
    }
    for (unsigned step = 0; step < steps; step++) {
        muster_stream stream = streams[random_below(random, STREAMS)];
        size_t to = (size_t)random_below(random, BLOCKS),
               from = (size_t)random_below(random, BLOCKS);
        uint64_t number = random_next(random);
        const struct muster_operand sum[] = { MUSTER_BLOCK_READ(blocks[from]),
                                              MUSTER_BLOCK_WRITE(blocks[to]),
                                              MUSTER_SCALAR(number) };
        const struct muster_operand update[] = { MUSTER_BLOCK_UPDATE(blocks[to]),
                                                 MUSTER_SCALAR(number) };
        switch (random_below(random, 5)) {
        case 0:
            MUST(muster_launch(m, stream, combine, 0, ITEMS, sum, 3, NULL, &problem));
            for (size_t i = 0; i < ITEMS; i++)
                expected[to][i] = expected[from][i] + number;
            break;
        case 1:
            MUST(muster_launch(m, stream, add, 8, ITEMS - 8, update, 2, NULL, &problem));
            for (size_t i = 8; i < ITEMS; i++)
                expected[to][i] += number;
            break;
        case 2:
            if (from == to)
                continue;
            MUST(muster_copy(m, stream, blocks[to], 64, blocks[from], 128, 256, &problem));
            memcpy((char *)expected[to] + 64, (char *)expected[from] + 128, 256);
            break;
        case 3:
            MUST(muster_fill(m, stream, blocks[to], 32, (uint8_t)number, 100, &problem));
            memset((char *)expected[to] + 32, (uint8_t)number, 100);
            break;
        default:
            /* Freed on one stream, allocated on another and cleared on a third. */
            MUST(muster_block_free(m, stream, blocks[to], &problem));
            blocks[to] = allocate(m, streams[random_below(random, STREAMS)], sizeof got[to]);
            MUST(muster_fill(m, streams[random_below(random, STREAMS)], blocks[to], 0, 3,
                             sizeof got[to], &problem));
            memset(expected[to], 3, sizeof expected[to]);
        }
    }
    for (size_t i = 0; i < BLOCKS; i++)
        MUST(muster_copy_out(m, streams[(i + 2) % STREAMS], got[i], blocks[i], 0, sizeof got[i],
                             &problem));
    for (size_t i = 0; i < BLOCKS; i++)
        MUST(muster_block_free(m, streams[(i + 3) % STREAMS], blocks[i], &problem));
    for (size_t i = 0; i < STREAMS; i++)
        wait_for(m, streams[i]);
    for (size_t i = 0; i < BLOCKS; i++)
        CHECK(memcmp(expected[i], got[i], sizeof got[i]) == 0);
    for (size_t i = 0; i < STREAMS; i++)
        MUST(muster_stream_release(m, streams[i], &problem));
    muster_kernel_destroy(combine);
    muster_kernel_destroy(add);
    check_memory(m, device, 0, 0);
}

static void random_work_comes_out_as_given(void)
{
    struct random random;
    random_init(&random, test_seed());
    struct muster *m = open_plain();
    for (unsigned round = 0; round < test_repetitions(12); round++)
        for (size_t d = 0; d < COUNT_OF(devices); d++)
            run_random(m, find(m, devices[d]), &random, 150);
    MUST(muster_close(m, &problem));
}

/* Several threads, a stream each, add to the same blocks with plain additions. */
enum { ADDERS = 4, ADDITIONS = 150 };

struct adders {
    struct muster *m;
    muster_device device;
    muster_block blocks[3];
    struct muster_kernel *add;
    _Atomic unsigned wrong;
};

static void *add_often(void *argument)
{
    struct adders *adders = argument;
    muster_stream stream;
    uint64_t one = 1;
    if (muster_stream_acquire(adders->m, adders->device, 0, &stream, NULL) != MUSTER_OK) {
        atomic_fetch_add(&adders->wrong, 1);
        return NULL;
    }
    for (unsigned i = 0; i < ADDITIONS; i++) {
        const struct muster_operand args[] = { MUSTER_BLOCK_UPDATE(adders->blocks[i % 3]),
                                               MUSTER_SCALAR(one) };
        if (muster_launch(adders->m, stream, adders->add, 0, ITEMS, args, 2, NULL, NULL) !=
            MUSTER_OK)
            atomic_fetch_add(&adders->wrong, 1);
    }
    if (muster_stream_wait(adders->m, stream, 60 * SECOND, NULL) != MUSTER_OK ||
        muster_stream_release(adders->m, stream, NULL) != MUSTER_OK)
        atomic_fetch_add(&adders->wrong, 1);
    return NULL;
}

static void threads_that_share_blocks_do_not_lose_an_addition(void)
{
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        struct muster *m = open_plain();
        struct adders adders = { .m = m, .device = find(m, devices[d]) };
        muster_stream stream = acquire(m, adders.device);
        uint64_t got[ITEMS];
        adders.add = kernel_of(m, add_number);
        for (size_t i = 0; i < 3; i++) {
            adders.blocks[i] = allocate(m, stream, sizeof got);
            MUST(muster_fill(m, stream, adders.blocks[i], 0, 0, sizeof got, &problem));
        }
        pthread_t threads[ADDERS];
        for (size_t i = 0; i < ADDERS; i++)
            CHECK_EQUAL(0, pthread_create(&threads[i], NULL, add_often, &adders));
        for (size_t i = 0; i < ADDERS; i++)
            pthread_join(threads[i], NULL);
        CHECK_EQUAL(0, adders.wrong);
        for (size_t i = 0; i < 3; i++) {
            MUST(muster_copy_out(m, stream, got, adders.blocks[i], 0, sizeof got, &problem));
            wait_for(m, stream);
            for (size_t k = 0; k < ITEMS; k++)
                CHECK_EQUAL(ADDERS * ADDITIONS / 3, got[k]);
        }
        struct muster_device_load load = load_of(m, adders.device);
        CHECK_EQUAL(ADDERS * ADDITIONS, load.completed);
        MUST(muster_close(m, &problem));
    }
}

/* Two threads free the same block: one does, the other is told. */
struct race {
    struct muster *m;
    muster_stream stream;
    muster_block block;
    pthread_barrier_t *start;
    muster_status status;
};

static void *free_it(void *argument)
{
    struct race *race = argument;
    pthread_barrier_wait(race->start);
    race->status = muster_block_free(race->m, race->stream, race->block, NULL);
    return NULL;
}

static void a_block_is_freed_once(void)
{
    struct muster *m = open_plain();
    muster_device device = find(m, "cpu:0");
    struct race races[2];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, 2);
    for (unsigned i = 0; i < 2; i++)
        races[i] = (struct race){ .m = m, .stream = acquire(m, device), .start = &start };
    for (unsigned round = 0; round < test_repetitions(100); round++) {
        pthread_t threads[2];
        races[0].block = races[1].block = allocate(m, races[0].stream, 64);
        for (unsigned i = 0; i < 2; i++)
            CHECK_EQUAL(0, pthread_create(&threads[i], NULL, free_it, &races[i]));
        for (unsigned i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        muster_status a = races[0].status, b = races[1].status;
        CHECK((a == MUSTER_OK && b == MUSTER_E_STALE) || (b == MUSTER_OK && a == MUSTER_E_STALE));
    }
    for (unsigned i = 0; i < 2; i++)
        wait_for(m, races[i].stream);
    check_memory(m, device, 0, 0);
    pthread_barrier_destroy(&start);
    MUST(muster_close(m, &problem));
}

/* Begin and end. */

static void between_begin_and_end_others_are_told_busy(void)
{
    struct muster *m = open_plain();
    muster_device device = find(m, "cpu:0");
    muster_stream a = acquire(m, device), b = acquire(m, device);
    muster_block block = allocate(m, a, 64), apart = allocate(m, a, 64);
    const struct muster_use write = MUSTER_USE(block, MUSTER_WRITES),
                            read = MUSTER_USE(block, MUSTER_READS);
    MUST(muster_block_begin(m, a, &write, 1, &problem));
    CHECK_STATUS(MUSTER_E_BUSY, muster_fill(m, b, block, 0, 1, 64, &problem));
    CHECK_STATUS(MUSTER_E_BUSY, muster_block_begin(m, b, &read, 1, &problem));
    CHECK_STATUS(MUSTER_E_BUSY, muster_block_begin(m, a, &read, 1, &problem));
    CHECK_STATUS(MUSTER_E_BUSY, muster_block_free(m, b, block, &problem));
    CHECK_STATUS(MUSTER_E_BUSY, muster_copy(m, b, apart, 0, block, 0, 8, &problem));
    MUST(muster_fill(m, b, apart, 0, 1, 64, &problem));
    /* Ends that do not match. */
    CHECK_STATUS(MUSTER_E_INVALID, muster_block_end(m, b, &write, 1, &problem));
    const struct muster_use other = MUSTER_USE(apart, MUSTER_WRITES);
    CHECK_STATUS(MUSTER_E_INVALID, muster_block_end(m, a, &other, 1, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_block_end(m, a, &read, 1, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_block_end(m, a, NULL, 1, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_block_end(m, a, &write, 0, &problem));
    MUST(muster_block_end(m, a, &write, 1, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_block_end(m, a, &write, 1, &problem));
    MUST(muster_fill(m, b, block, 0, 1, 64, &problem));
    wait_for(m, b);
    MUST(muster_close(m, &problem));
}

static void an_end_names_all_that_was_begun_together(void)
{
    struct muster *m = open_plain();
    muster_stream stream = acquire(m, find(m, "cpu:0"));
    struct muster_use uses[3] = { { sizeof *uses, { 0, 0 }, MUSTER_WRITES },
                                  { sizeof *uses, { 0, 0 }, MUSTER_READS },
                                  { sizeof *uses, { 0, 0 }, MUSTER_READS_WRITES } };
    for (unsigned i = 0; i < 3; i++)
        uses[i].block = allocate(m, stream, 64);
    MUST(muster_block_begin(m, stream, uses, 2, &problem));
    MUST(muster_block_begin(m, stream, &uses[2], 1, &problem));
    /* A part of one, and parts of both. */
    CHECK_STATUS(MUSTER_E_INVALID, muster_block_end(m, stream, &uses[0], 1, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_block_end(m, stream, &uses[1], 1, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_block_end(m, stream, &uses[1], 2, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_block_end(m, stream, uses, 3, &problem));
    MUST(muster_block_end(m, stream, uses, 2, &problem));
    CHECK_STATUS(MUSTER_E_BUSY, muster_stream_release(m, stream, &problem));
    MUST(muster_block_end(m, stream, &uses[2], 1, &problem));
    MUST(muster_stream_release(m, stream, &problem));
    MUST(muster_close(m, &problem));
}

static void begin_waits_for_what_conflicts(void)
{
    struct muster *m = open_plain();
    muster_device device = find(m, "cpu:0");
    muster_stream a = acquire(m, device), b = acquire(m, device), c = acquire(m, device);
    struct muster_kernel *stand = kernel_of(m, stand_at_door);
    struct door first = DOOR_INIT;
    muster_block block = allocate(m, a, 64);
    hold_stream(m, a, stand, &first);
    MUST(muster_fill(m, a, block, 0, 1, 64, &problem));
    const struct muster_use use = MUSTER_USE(block, MUSTER_READS_WRITES);
    MUST(muster_block_begin(m, b, &use, 1, &problem));
    MUST(muster_block_end(m, b, &use, 1, &problem));
    /* Nothing was put between, and still what follows the pair follows what it waited for. */
    unsigned char got[64] = { 0 };
    MUST(muster_copy_out(m, c, got, block, 0, sizeof got, &problem));
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_stream_wait(m, c, 5 * MS, &problem));
    CHECK_STATUS(MUSTER_E_BUSY, muster_stream_query(m, b, &problem));
    door_open(&first);
    wait_for(m, c);
    CHECK_EQUAL(1, got[63]);
    MUST(muster_close(m, &problem));
}

static void uses_are_checked(void)
{
    struct muster *m = open_plain();
    muster_device device = find(m, "cpu:0");
    muster_stream stream = acquire(m, device), elsewhere = acquire(m, find(m, "sim:0"));
    muster_block block = allocate(m, stream, 64);
    struct muster_use uses[MUSTER_USES_MAX + 1];
    for (size_t i = 0; i < COUNT_OF(uses); i++)
        uses[i] = (struct muster_use)MUSTER_USE(block, MUSTER_READS);
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_block_begin(m, stream, uses, COUNT_OF(uses), &problem));
    uses[0].access = (enum muster_access)0;
    CHECK_STATUS(MUSTER_E_INVALID, muster_block_begin(m, stream, uses, 1, &problem));
    uses[0].access = (enum muster_access)4;
    CHECK_STATUS(MUSTER_E_INVALID, muster_block_begin(m, stream, uses, 1, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_block_begin(m, elsewhere, &uses[1], 1, &problem));
    CHECK_CONTAINS("cpu:0", problem.text);
    CHECK_CONTAINS("sim:0", problem.text);
    const struct muster_use unknown = { sizeof unknown, { 12345, 1 }, MUSTER_READS };
    CHECK_STATUS(MUSTER_E_UNKNOWN, muster_block_begin(m, stream, &unknown, 1, &problem));
    /* A block that is named several times is held once, with all its accesses. */
    uses[1].access = MUSTER_WRITES;
    MUST(muster_block_begin(m, stream, &uses[1], MUSTER_USES_MAX, &problem));
    const struct muster_use merged = MUSTER_USE(block, MUSTER_READS_WRITES);
    MUST(muster_block_end(m, stream, &merged, 1, &problem));
    MUST(muster_close(m, &problem));
}

static void declared_memory_is_ordered_and_never_freed(void)
{
    struct muster *m = open_limited(100);
    muster_device device = find(m, "cpu:0");
    muster_stream a = acquire(m, device), b = acquire(m, device);
    struct muster_kernel *stand = kernel_of(m, stand_at_door);
    struct door door = DOOR_INIT;
    static unsigned char own[4096];
    unsigned char got[4096];
    muster_block block;
    CHECK_STATUS(MUSTER_E_INVALID, muster_block_declare(m, device, 0, NULL, 64, &block, &problem));
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_block_declare(m, device, (uintptr_t)own, NULL, 0, &block, &problem));
    MUST(muster_block_declare(m, device, (uintptr_t)own, NULL, sizeof own, &block, &problem));
    check_memory(m, device, 0, 0); /* and more than the budget would hold */
    struct muster_block_info info = { .size = sizeof info };
    MUST(muster_block_info(m, block, &info, &problem));
    CHECK(info.address == (uintptr_t)own);
    hold_stream(m, a, stand, &door);
    MUST(muster_fill(m, a, block, 0, 9, sizeof own, &problem));
    MUST(muster_copy_out(m, b, got, block, 0, sizeof got, &problem));
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_stream_wait(m, b, 5 * MS, &problem));
    MUST(muster_block_free(m, b, block, &problem));
    CHECK_STATUS(MUSTER_E_STALE, muster_fill(m, a, block, 0, 1, 1, &problem));
    door_open(&door);
    wait_for(m, b);
    CHECK_EQUAL(9, got[4095]);
    CHECK_EQUAL(9, own[0]);
    check_memory(m, device, 0, 0);
    MUST(muster_close(m, &problem));
    own[0] = 1;
}

/* Copies. */

static void copies_stay_within_their_blocks(void)
{
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        struct muster *m = open_plain();
        muster_device device = find(m, devices[d]);
        muster_stream stream = acquire(m, device);
        muster_block block = allocate(m, stream, 100), second = allocate(m, stream, 50);
        static const struct {
            uint64_t offset, bytes;
            bool fits;
        } ranges[] = { { 0, 100, true },         { 99, 1, true },
                       { 100, 0, true },         { 0, 0, true },
                       { 0, 101, false },        { 100, 1, false },
                       { 101, 0, false },        { 1, 100, false },
                       { UINT64_MAX, 1, false }, { 1, UINT64_MAX, false },
                       { UINT64_MAX, 0, false }, { 50, UINT64_MAX - 49, false } };
        char host[128] = { 0 };
        for (size_t i = 0; i < COUNT_OF(ranges); i++) {
            muster_status expected = ranges[i].fits ? MUSTER_OK : MUSTER_E_INVALID;
            uint64_t offset = ranges[i].offset, bytes = ranges[i].bytes;
            CHECK_STATUS(expected, muster_copy_in(m, stream, block, offset, host, bytes, &problem));
            CHECK_STATUS(expected,
                         muster_copy_out(m, stream, host, block, offset, bytes, &problem));
            CHECK_STATUS(expected, muster_fill(m, stream, block, offset, 1, bytes, &problem));
        }
        CHECK_STATUS(MUSTER_E_INVALID, muster_copy(m, stream, second, 0, block, 0, 51, &problem));
        CHECK_STATUS(MUSTER_E_INVALID, muster_copy(m, stream, second, 0, block, 60, 41, &problem));
        MUST(muster_copy(m, stream, second, 0, block, 50, 50, &problem));
        MUST(muster_copy(m, stream, second, 50, block, 100, 0, &problem));
        wait_for(m, stream);
        struct muster_device_load load = load_of(m, device);
        CHECK_EQUAL(0, load.bytes_in_flight);
        CHECK_EQUAL(0, load.streams_active);
        MUST(muster_close(m, &problem));
    }
}

static void copies_within_a_block_must_not_overlap(void)
{
    struct muster *m = open_plain();
    muster_stream stream = acquire(m, find(m, "cpu:0"));
    muster_block block = allocate(m, stream, 100);
    CHECK_STATUS(MUSTER_E_INVALID, muster_copy(m, stream, block, 0, block, 0, 1, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_copy(m, stream, block, 0, block, 49, 50, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_copy(m, stream, block, 49, block, 0, 50, &problem));
    MUST(muster_copy(m, stream, block, 0, block, 50, 50, &problem));
    MUST(muster_copy(m, stream, block, 50, block, 0, 50, &problem));
    MUST(muster_copy(m, stream, block, 10, block, 10, 0, &problem));
    wait_for(m, stream);
    MUST(muster_close(m, &problem));
}

static void copies_without_a_place_are_refused(void)
{
    struct muster *m = open_plain();
    muster_stream stream = acquire(m, find(m, "cpu:0")), other = acquire(m, find(m, "sim:0"));
    muster_block block = allocate(m, stream, 100), far = allocate(m, other, 100);
    char byte = 0;
    CHECK_STATUS(MUSTER_E_INVALID, muster_copy_in(m, stream, block, 0, NULL, 1, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_copy_out(m, stream, NULL, block, 0, 1, &problem));
    MUST(muster_copy_in(m, stream, block, 0, NULL, 0, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_copy_in(NULL, stream, block, 0, &byte, 1, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_copy(m, stream, block, 0, far, 0, 1, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_block_free(m, other, block, &problem));
    CHECK_STATUS(MUSTER_E_UNKNOWN,
                 muster_copy_in(m, stream, (muster_block){ block.index, 0 }, 0, &byte, 1, NULL));
    MUST(muster_close(m, &problem));
}

static void large_copies_arrive_whole(void)
{
    enum { BYTES = 3 << 20 };
    struct muster *m = open_plain();
    unsigned char *from = malloc(BYTES), *to = malloc(BYTES);
    CHECK(from && to);
    for (size_t d = 0; d < COUNT_OF(devices); d++) {
        muster_stream a = acquire(m, find(m, devices[d])), b = acquire(m, find(m, devices[d]));
        muster_block first = allocate(m, a, BYTES), second = allocate(m, b, BYTES);
        for (size_t i = 0; i < BYTES; i++)
            from[i] = (unsigned char)(i * 7 + i / 251 + d);
        memset(to, 0, BYTES);
        MUST(muster_copy_in(m, a, first, 0, from, BYTES, &problem));
        MUST(muster_copy(m, b, second, 0, first, 0, BYTES, &problem));
        MUST(muster_copy_out(m, a, to, second, 0, BYTES, &problem));
        wait_for(m, a);
        CHECK(memcmp(from, to, BYTES) == 0);
    }
    MUST(muster_close(m, &problem));
    free(from);
    free(to);
}

/* What failed is over: an operation that writes a block again or frees it goes on, a read fails. */
static void a_failed_stream_spoils_only_what_it_was_to_write(void)
{
    static const char *const ids[] = { "cpu:0", "sim:0" };
    struct muster *m = open_plain();
    struct muster_kernel *fail = kernel_of(m, always_fail);
    for (size_t i = 0; i < COUNT_OF(ids); i++) {
        muster_device device = find(m, ids[i]);
        muster_stream failing = acquire(m, device), stream = acquire(m, device);
        muster_block read = allocate(m, stream, 64), written = allocate(m, stream, 64);
        MUST(muster_fill(m, stream, read, 0, 1, 64, &problem));
        MUST(muster_fill(m, stream, written, 0, 1, 64, &problem));
        const struct muster_operand args[] = { MUSTER_BLOCK_READ(read),
                                               MUSTER_BLOCK_UPDATE(written) };
        MUST(muster_launch(m, failing, fail, 0, 1, args, 2, NULL, &problem));
        CHECK_STATUS(MUSTER_E_STREAM_FAILED, muster_stream_wait(m, failing, 60 * SECOND, &problem));
        unsigned char bytes[2][64] = { { 0 } };
        MUST(muster_copy_out(m, stream, bytes[0], read, 0, 64, &problem));
        MUST(muster_fill(m, stream, read, 0, 2, 64, &problem));
        wait_for(m, stream);
        CHECK_EQUAL(1, bytes[0][63]);
        /* Who reads what is not there fails as well. */
        muster_stream reader = acquire(m, device);
        MUST(muster_copy_out(m, reader, bytes[1], written, 0, 64, &problem));
        CHECK_STATUS(MUSTER_E_STREAM_FAILED, muster_stream_wait(m, reader, 60 * SECOND, &problem));
        MUST(muster_stream_release(m, reader, &problem));
        MUST(muster_fill(m, stream, written, 0, 3, 64, &problem));
        MUST(muster_copy_out(m, stream, bytes[1], written, 0, 64, &problem));
        wait_for(m, stream);
        CHECK_EQUAL(3, bytes[1][63]);
        /* Nor does one that failed stand in the way of a free, wherever that is. */
        MUST(muster_launch(m, failing, fail, 0, 1, args, 2, NULL, &problem));
        CHECK_STATUS(MUSTER_E_STREAM_FAILED, muster_stream_wait(m, failing, 60 * SECOND, &problem));
        MUST(muster_block_free(m, stream, read, &problem));
        MUST(muster_block_free(m, stream, written, &problem));
        wait_for(m, stream);
        MUST(muster_stream_release(m, failing, &problem));
        MUST(muster_stream_release(m, stream, &problem));
        check_memory(m, device, 0, 0);
    }
    MUST(muster_close(m, &problem));
}

/* A failed stream may skip waits as it skips all it is given. */
static muster_status skip_wait(void *stream, void *event, struct muster_error *err)
{
    if (backend_cpu.stream_query(stream, NULL) == MUSTER_E_STREAM_FAILED)
        return MUSTER_OK;
    return backend_cpu.stream_wait(stream, event, err);
}

/* The failed reader had not waited for the writer before it, and the next writer has to. */
static void a_write_after_a_failed_read_waits_for_the_write_before(void)
{
    struct muster_backend table = backend_cpu;
    table.name = "skipping";
    table.stream_wait = skip_wait;
    const struct muster_backend *tables[] = { &table };
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.backends = tables;
    options.backend_count = 1;
    options.cpu_workers = 3;
    struct muster *m = open_with(options);
    muster_device device = find(m, "skipping:0");
    muster_stream failing = acquire(m, device), first = acquire(m, device),
                  second = acquire(m, device);
    struct muster_kernel *stand = kernel_of(m, stand_at_door), *fail = kernel_of(m, always_fail);
    struct door door = DOOR_INIT;
    muster_block block = allocate(m, first, 64);
    wait_for(m, first);
    MUST(muster_launch(m, failing, fail, 0, 1, NULL, 0, NULL, &problem));
    CHECK_STATUS(MUSTER_E_STREAM_FAILED, muster_stream_wait(m, failing, 60 * SECOND, &problem));
    hold_stream(m, first, stand, &door);
    MUST(muster_fill(m, first, block, 0, 1, 64, &problem));
    unsigned char bytes[64];
    MUST(muster_copy_out(m, failing, bytes, block, 0, 64, &problem));
    CHECK_STATUS(MUSTER_E_STREAM_FAILED, muster_stream_wait(m, failing, 60 * SECOND, &problem));
    MUST(muster_fill(m, second, block, 0, 2, 64, &problem));
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_stream_wait(m, second, 10 * MS, &problem));
    door_open(&door);
    MUST(muster_copy_out(m, second, bytes, block, 0, 64, &problem));
    wait_for(m, second);
    CHECK_EQUAL(2, bytes[0]);
    MUST(muster_close(m, &problem));
}

/* Failures of the past are nothing to what comes after. */
static void after_failures_a_write_waits_for_a_write_elsewhere(void)
{
    struct muster *m = open_plain();
    muster_device device = find(m, "cpu:0");
    muster_stream failing = acquire(m, device), a = acquire(m, device), b = acquire(m, device);
    struct muster_kernel *stand = kernel_of(m, stand_at_door), *fail = kernel_of(m, always_fail);
    struct door door = DOOR_INIT;
    muster_block block = allocate(m, a, 64);
    for (unsigned i = 0; i < 8; i++)
        MUST(muster_launch(m, failing, fail, 0, 1, NULL, 0, NULL, &problem));
    CHECK_STATUS(MUSTER_E_STREAM_FAILED, muster_stream_wait(m, failing, 60 * SECOND, &problem));
    hold_stream(m, a, stand, &door);
    unsigned char bytes[64];
    MUST(muster_fill(m, a, block, 0, 1, 64, &problem));
    MUST(muster_fill(m, b, block, 0, 2, 64, &problem));
    MUST(muster_copy_out(m, a, bytes, block, 0, 64, &problem));
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_stream_wait(m, b, 10 * MS, &problem));
    door_open(&door);
    wait_for(m, a);
    CHECK_EQUAL(2, bytes[63]);
    MUST(muster_close(m, &problem));
}

/* A device that was lost between begin and end still lets go of its blocks. */
static void what_was_begun_on_a_lost_device_can_be_ended_and_freed(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.sim = "[{\"items_per_s\": 1e6, \"faults\": [{\"kind\": \"lost\", \"at_launch\": 1}]}]";
    struct muster *m = open_with(options);
    muster_device device = find(m, "sim:0");
    muster_stream stream = acquire(m, device);
    struct muster_kernel *nothing = kernel_of(m, do_nothing);
    const struct muster_use use = { sizeof use, allocate(m, stream, 64), MUSTER_WRITES };
    MUST(muster_block_begin(m, stream, &use, 1, &problem));
    /* It may be lost before the call is back. */
    muster_status given = muster_launch(m, stream, nothing, 0, 1, NULL, 0, NULL, &problem);
    CHECK(given == MUSTER_OK || given == MUSTER_E_DEVICE_LOST);
    CHECK_STATUS(MUSTER_E_DEVICE_LOST, muster_stream_wait(m, stream, 60 * SECOND, &problem));
    CHECK_STATUS(MUSTER_E_DEVICE_LOST, muster_block_end(m, stream, &use, 1, &problem));
    MUST(muster_block_free(m, stream, use.block, &problem));
    MUST(muster_stream_release(m, stream, &problem));
    MUST(muster_close(m, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(memory_is_counted_from_allocation_to_reclaim),
        TEST(freed_memory_counts_while_the_device_still_has_it),
        TEST(what_never_fits_is_told_from_what_does_not_fit_now),
        TEST(many_are_allocated_all_or_none),
        TEST(a_refusal_half_way_is_rolled_back),
        TEST(waiting_for_memory_ends_when_another_thread_frees_some),
        TEST(a_read_and_a_free_wait_for_a_write_elsewhere),
        TEST(a_free_waits_for_a_read_elsewhere),
        TEST(a_write_waits_for_a_read_elsewhere),
        TEST(reads_run_beside_each_other),
        TEST(random_work_comes_out_as_given),
        TEST(threads_that_share_blocks_do_not_lose_an_addition),
        TEST(a_block_is_freed_once),
        TEST(between_begin_and_end_others_are_told_busy),
        TEST(an_end_names_all_that_was_begun_together),
        TEST(begin_waits_for_what_conflicts),
        TEST(uses_are_checked),
        TEST(declared_memory_is_ordered_and_never_freed),
        TEST(copies_stay_within_their_blocks),
        TEST(copies_within_a_block_must_not_overlap),
        TEST(copies_without_a_place_are_refused),
        TEST(large_copies_arrive_whole),
        TEST(a_failed_stream_spoils_only_what_it_was_to_write),
        TEST(a_write_after_a_failed_read_waits_for_the_write_before),
        TEST(after_failures_a_write_waits_for_a_write_elsewhere),
        TEST(what_was_begun_on_a_lost_device_can_be_ended_and_freed),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
