/*
 * Blocks of device memory that are kept for the next job, within the device's budget.
 */
#include "run/memory/spare.h"

#include "support.h"

#define MEBI ((uint64_t)1 << 20)

static struct muster *open_counting(struct counting *counting)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.sim = SIM_PLAIN; /* 64 MiB each */
    options.allocator = counting_allocator(counting);
    return open_with(options);
}

static void close_counting(struct muster *m, struct counting *counting)
{
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, counting->bytes);
    CHECK_EQUAL(0, counting->wrong);
}

static muster_block take(struct muster *m, muster_stream stream, uint64_t bytes)
{
    muster_block block = { 0, 0 };
    MUST(spare_take(m, stream, bytes, &block, &problem));
    struct muster_block_info info = { .size = sizeof info };
    MUST(muster_block_info(m, block, &info, &problem));
    CHECK(info.bytes >= bytes);
    return block;
}

static bool is_same(muster_block a, muster_block b)
{
    return a.index == b.index && a.generation == b.generation;
}

static struct budget budget_of(struct muster *m, muster_device device)
{
    run_lock(m);
    struct budget budget = m->devices[device.index]->budget;
    run_unlock(m);
    return budget;
}

static void a_block_that_came_back_is_taken_again(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_counting(&counting);
    muster_device device = find(m, "sim:0");
    muster_stream stream = acquire(m, device);
    muster_block block = take(m, stream, 4 * MEBI);
    CHECK_EQUAL(4 * MEBI, load_of(m, device).memory_used);
    spare_give(m, stream, block);
    CHECK_EQUAL(0, load_of(m, device).memory_used);
    CHECK_EQUAL(4 * MEBI, budget_of(m, device).kept);
    muster_block next = take(m, stream, 3 * MEBI);
    CHECK(is_same(block, next));
    CHECK_EQUAL(0, budget_of(m, device).kept);
    /* It can be used as any other. */
    MUST(muster_fill(m, stream, next, 0, 7, 3 * MEBI, &problem));
    wait_for(m, stream);
    /* What is out is nobody else's, and one for a quarter of it is a new one. */
    muster_block other = take(m, stream, 4 * MEBI);
    CHECK(!is_same(block, other));
    spare_give(m, stream, other);
    muster_block little = take(m, stream, MEBI);
    CHECK(!is_same(other, little));
    spare_give(m, stream, little);
    MUST(muster_block_free(m, stream, next, &problem));
    close_counting(m, &counting);
}

static void another_device_does_not_get_it(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_counting(&counting);
    muster_stream here = acquire(m, find(m, "sim:0")), there = acquire(m, find(m, "sim:1"));
    muster_block block = take(m, here, MEBI);
    spare_give(m, here, block);
    muster_block other = take(m, there, MEBI);
    struct muster_block_info info = { .size = sizeof info };
    MUST(muster_block_info(m, other, &info, &problem));
    CHECK_EQUAL(find(m, "sim:1").index, info.device.index);
    spare_give(m, there, other);
    close_counting(m, &counting);
}

/* The device has 64 MiB: what is kept goes when it is wanted, the longest unused first. */
static void kept_blocks_make_room(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_counting(&counting);
    muster_device device = find(m, "sim:0");
    muster_stream stream = acquire(m, device);
    muster_block first = take(m, stream, 20 * MEBI), second = take(m, stream, 21 * MEBI);
    spare_give(m, stream, first);
    spare_give(m, stream, second);
    uint64_t wanted = 40 * MEBI;
    MUST(muster_block_estimate(m, device, &(uint64_t){ 64 * MEBI }, 1, &problem));
    CHECK_EQUAL(41 * MEBI, budget_of(m, device).kept);
    muster_block large = allocate(m, stream, wanted);
    CHECK_EQUAL(21 * MEBI, budget_of(m, device).kept);
    CHECK_EQUAL(40 * MEBI, load_of(m, device).memory_used);
    CHECK(is_same(second, take(m, stream, 21 * MEBI)));
    /* None is left to go, and the refusal stands. */
    muster_block more = { 0, 0 };
    CHECK_STATUS(MUSTER_E_DEVICE_MEMORY,
                 muster_block_allocate(m, stream, 20 * MEBI, &more, &problem));
    MUST(muster_block_free(m, stream, large, &problem));
    spare_give(m, stream, second);
    wait_for(m, stream);
    more = allocate(m, stream, 64 * MEBI);
    CHECK_EQUAL(0, budget_of(m, device).kept);
    MUST(muster_block_free(m, stream, more, &problem));
    close_counting(m, &counting);
}

static void trimming_and_cutting_free_them(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_counting(&counting);
    muster_device device = find(m, "sim:0"), slices[2];
    muster_stream stream = acquire(m, device);
    spare_give(m, stream, take(m, stream, MEBI));
    muster_trim(m);
    CHECK_EQUAL(0, budget_of(m, device).kept);
    CHECK_EQUAL(64 * MEBI, budget_free(&(struct budget){ .limit = budget_of(m, device).limit }));
    spare_give(m, stream, take(m, stream, MEBI));
    MUST(muster_stream_release(m, stream, &problem));
    MUST(muster_device_slice(m, device, (uint32_t[]){ 4, 4 }, 2, slices, &problem));
    CHECK_EQUAL(0, budget_of(m, device).kept);
    close_counting(m, &counting);
}

static void a_lost_devices_blocks_are_freed(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_counting(&counting);
    muster_device device = find(m, "sim:0");
    muster_stream stream = acquire(m, device);
    muster_block kept = take(m, stream, MEBI), out = take(m, stream, MEBI);
    spare_give(m, stream, kept);
    device_note(m->devices[device.index], MUSTER_E_DEVICE_LOST, NULL);
    spare_give(m, stream, out);
    CHECK_EQUAL(MEBI, budget_of(m, device).kept);
    CHECK_STATUS(MUSTER_E_DEVICE_LOST, spare_take(m, stream, MEBI, &out, &problem));
    close_counting(m, &counting);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_block_that_came_back_is_taken_again),
        TEST(another_device_does_not_get_it),
        TEST(kept_blocks_make_room),
        TEST(trimming_and_cutting_free_them),
        TEST(a_lost_devices_blocks_are_freed),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
