/*
 * Launches in pieces: what is done of arrays that are read and written is a prefix, whatever happens.
 */
#include "platform/thread.h"
#include "suite.h"

#include <stdatomic.h>

/* Many pieces, with a rest. */
#define ITEMS 200003u

/* What the kernels look at; on the heap, as the device may still use it when a test has failed. */
struct shared {
    uint64_t fails_at, other_fails_at, stops_at, waits_at; /* items; UINT64_MAX: none */
    struct muster_pieces *pieces;
    _Atomic uint32_t is_waiting, may_go_on, calls;
    _Atomic uint64_t beyond; /* items computed while one waits */
};

/* Replaces each item by a function of it, of which twice would be something else. */
RIG_FUNCTION(replace)
{
    uint32_t *values = *(uint32_t *const *)args[0];
    struct shared *shared = *(struct shared *const *)args[1];
    atomic_fetch_add(&shared->calls, 1);
    if (begin <= shared->stops_at && shared->stops_at < end)
        muster_pieces_stop(shared->pieces);
    for (uint64_t i = begin; i < end; i++) {
        if (i == shared->fails_at)
            return MUSTER_E_FAILED;
        if (i == shared->other_fails_at)
            return MUSTER_E_INVALID;
        if (i == shared->waits_at) {
            atomic_store(&shared->is_waiting, 1);
            while (!atomic_load(&shared->may_go_on))
                ;
        }
        values[i] = 3 * values[i] + (uint32_t)i;
    }
    if (atomic_load(&shared->is_waiting))
        atomic_fetch_add(&shared->beyond, end - begin);
    return MUSTER_OK;
}

struct run {
    struct rig *rig;
    void *stream, *kernel;
    struct muster_memory *memory;
    uint32_t *values; /* the host's */
    struct shared *shared;
    struct muster_pieces *pieces;
    muster_status *result;
};

/* NULL kernel: the device does not run in pieces, or no C functions. */
static struct run begin_run_of(const char *name)
{
    struct run run = { .rig = suite_open() };
    if (!(run.rig->info->capabilities & MUSTER_CAN_RUN_IN_PIECES) ||
        !(run.kernel = rig_kernel(run.rig, replace))) {
        rig_leave_out_case(run.rig, name, "it does not run in pieces, or no C functions");
        return run;
    }
    run.stream = rig_stream(run.rig);
    run.memory = rig_memory(run.rig, ITEMS * sizeof(uint32_t));
    run.values = rig_host(run.rig, ITEMS * sizeof(uint32_t));
    run.shared = rig_host(run.rig, sizeof *run.shared);
    run.pieces = rig_host(run.rig, sizeof *run.pieces);
    run.result = rig_host(run.rig, sizeof *run.result);
    run.shared->fails_at = run.shared->other_fails_at = UINT64_MAX;
    run.shared->stops_at = run.shared->waits_at = UINT64_MAX;
    run.shared->pieces = run.pieces;
    for (uint32_t i = 0; i < ITEMS; i++)
        run.values[i] = 7 * i + 1;
    rig_copy_in(run.rig, run.stream, run.memory, 0, run.values, ITEMS * sizeof(uint32_t));
    return run;
}

static void launch(struct run *run, uint64_t begin, uint64_t items)
{
    const struct muster_launch_arg args[] = {
        { .memory = run->memory, .item_bytes = sizeof(uint32_t) }, ARG_VALUE(run->shared)
    };
    const struct muster_launch_desc desc = { .begin = begin,
                                             .items = items,
                                             .args = args,
                                             .arg_count = 2,
                                             .result = run->result,
                                             .pieces = run->pieces };
    DO(run->rig, launch, run->stream, run->kernel, &desc, 1);
}

/* Items [begin, begin + done) were replaced once, and no other was touched. */
static void expect_done(struct run *run, uint64_t begin, uint64_t done)
{
    rig_copy_out(run->rig, run->stream, run->values, run->memory, 0, ITEMS * sizeof(uint32_t));
    FINISHES(run->rig, run->stream);
    CHECK_EQUAL(done, muster_pieces_done(run->pieces));
    for (uint32_t i = 0; i < ITEMS; i++) {
        uint32_t before = 7 * i + 1;
        bool is_done = i >= begin && i < begin + done;
        CHECK_EQUAL(is_done ? 3 * before + i : before, run->values[i]);
    }
}

static void every_item_is_replaced_once(void)
{
    static const uint64_t ranges[][2] = { { 0, ITEMS },     { 0, 1 },     { 5, 1 },
                                          { ITEMS - 1, 1 }, { 17, 4096 }, { 3, 100000 } };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        struct run run = begin_run_of(__func__);
        if (!run.kernel)
            return;
        launch(&run, ranges[i][0], ranges[i][1]);
        expect_done(&run, ranges[i][0], ranges[i][1]);
        CHECK_STATUS(MUSTER_OK, *run.result);
        rig_close(run.rig);
    }
}

/* A kernel that fails at an item: all before its piece are done, and none from there on. */
static void a_failure_leaves_a_prefix(void)
{
    static const uint64_t fails_at[] = { 0, 1, 5000, 99999, ITEMS - 1 };
    static const uint64_t grains[] = { 0, 1, 64, 1000 };
    for (size_t i = 0; i < sizeof fails_at / sizeof *fails_at; i++)
        for (size_t g = 0; g < sizeof grains / sizeof *grains; g++) {
            struct run run = begin_run_of(__func__);
            if (!run.kernel)
                return;
            run.pieces->grain = grains[g];
            run.shared->fails_at = fails_at[i];
            launch(&run, 0, ITEMS);
            CHECK_STATUS(MUSTER_OK, rig_finish(run.rig, run.stream));
            uint64_t done = muster_pieces_done(run.pieces), grain = grains[g] > 1 ? grains[g] : 1;
            CHECK(done <= fails_at[i] && done % grain == 0);
            /* No further off than a piece can be. */
            CHECK(fails_at[i] - done < MUSTER_PIECE_BYTES_MAX / sizeof(uint32_t));
            CHECK_STATUS(MUSTER_E_FAILED, *run.result);
            expect_done(&run, 0, done);
            rig_close(run.rig);
        }
}

/* Of several failures the first in the order of items counts, whichever comes first. */
static void the_first_failure_counts(void)
{
    for (int i = 0; i < 50; i++) {
        struct run run = begin_run_of(__func__);
        if (!run.kernel)
            return;
        run.shared->fails_at = 60000;
        run.shared->other_fails_at = 69000;
        launch(&run, 0, ITEMS);
        CHECK_STATUS(MUSTER_OK, rig_finish(run.rig, run.stream));
        CHECK(muster_pieces_done(run.pieces) <= 60000);
        CHECK_STATUS(MUSTER_E_FAILED, *run.result);
        expect_done(&run, 0, muster_pieces_done(run.pieces));
        rig_close(run.rig);
    }
}

static void a_stop_ends_it_at_a_piece(void)
{
    struct run run = begin_run_of(__func__);
    if (!run.kernel)
        return;
    run.shared->stops_at = 70000;
    launch(&run, 0, ITEMS);
    CHECK_STATUS(MUSTER_OK, rig_finish(run.rig, run.stream));
    uint64_t done = muster_pieces_done(run.pieces);
    CHECK(done < ITEMS);
    CHECK_STATUS(MUSTER_OK, *run.result);
    expect_done(&run, 0, done);
    rig_close(run.rig);
}

static void one_that_is_stopped_before_it_begins_does_nothing(void)
{
    struct run run = begin_run_of(__func__);
    if (!run.kernel)
        return;
    muster_pieces_stop(run.pieces);
    launch(&run, 0, ITEMS);
    expect_done(&run, 0, 0);
    CHECK_EQUAL(0, run.shared->calls);
    rig_close(run.rig);
}

/* Beyond the first pieces, which one worker does alone. */
#define WAITS_AT 14000u

/* A piece takes long; others are computed meanwhile, unless there is one worker. */
static void wait_for_others(struct run *run)
{
    while (!atomic_load(&run->shared->is_waiting))
        ;
    for (int i = 0; i < 20000 && atomic_load(&run->shared->beyond) == 0; i++)
        platform_thread_yield();
}

static void what_is_done_is_a_prefix_at_any_time(void)
{
    struct run run = begin_run_of(__func__);
    if (!run.kernel)
        return;
    FINISHES(run.rig, run.stream);
    run.shared->waits_at = WAITS_AT;
    launch(&run, 0, ITEMS);
    wait_for_others(&run);
    for (int i = 0; i < 1000; i++)
        CHECK(muster_pieces_done(run.pieces) <= WAITS_AT);
    atomic_store(&run.shared->may_go_on, 1);
    expect_done(&run, 0, ITEMS);
    rig_close(run.rig);
}

static void what_others_have_done_beyond_a_failure_is_put_back(void)
{
    struct run run = begin_run_of(__func__);
    if (!run.kernel)
        return;
    FINISHES(run.rig, run.stream);
    run.shared->waits_at = WAITS_AT;
    run.shared->fails_at = WAITS_AT + 1;
    launch(&run, 0, ITEMS);
    wait_for_others(&run);
    atomic_store(&run.shared->may_go_on, 1);
    CHECK_STATUS(MUSTER_OK, rig_finish(run.rig, run.stream));
    CHECK_STATUS(MUSTER_E_FAILED, *run.result);
    CHECK(muster_pieces_done(run.pieces) <= WAITS_AT);
    expect_done(&run, 0, muster_pieces_done(run.pieces));
    rig_close(run.rig);
}

/* Two arrays of items of different sizes, and one that is only read. */
RIG_FUNCTION(swap_sums)
{
    uint8_t *bytes = *(uint8_t *const *)args[0];
    const uint32_t *read = *(const uint32_t *const *)args[1];
    uint64_t *longs = *(uint64_t *const *)args[2];
    for (uint64_t i = begin; i < end; i++) {
        uint64_t sum = bytes[i] + longs[i] + read[i];
        longs[i] = bytes[i];
        bytes[i] = (uint8_t)sum;
    }
    return MUSTER_OK;
}

static void arrays_of_different_items_go_together(void)
{
    enum { COUNT = 50001 };
    struct rig *rig = suite_open();
    void *kernel =
        rig->info->capabilities & MUSTER_CAN_RUN_IN_PIECES ? rig_kernel(rig, swap_sums) : NULL;
    if (!kernel) {
        rig_leave_out(rig, "it does not run in pieces, or no C functions");
        return;
    }
    void *stream = rig_stream(rig);
    struct muster_memory *a = rig_memory(rig, COUNT), *b = rig_memory(rig, COUNT * 4),
                         *c = rig_memory(rig, COUNT * 8 + 8);
    uint8_t *bytes = rig_host(rig, COUNT);
    uint32_t *read = rig_host(rig, COUNT * sizeof *read);
    uint64_t *longs = rig_host(rig, COUNT * sizeof *longs);
    for (uint32_t i = 0; i < COUNT; i++) {
        bytes[i] = (uint8_t)i;
        read[i] = 5 * i;
        longs[i] = UINT64_C(1000) * i;
    }
    rig_copy_in(rig, stream, a, 0, bytes, COUNT);
    rig_copy_in(rig, stream, b, 0, read, COUNT * 4);
    rig_copy_in(rig, stream, c, 8, longs, COUNT * 8);
    struct muster_pieces *pieces = rig_host(rig, sizeof *pieces);
    pieces->grain = 3;
    const struct muster_launch_arg args[] = { { .memory = a, .item_bytes = 1 },
                                              { .memory = b },
                                              { .memory = c, .offset = 8, .item_bytes = 8 } };
    const struct muster_launch_desc desc = {
        .items = COUNT, .args = args, .arg_count = 3, .pieces = pieces
    };
    DO(rig, launch, stream, kernel, &desc, 1);
    rig_copy_out(rig, stream, bytes, a, 0, COUNT);
    rig_copy_out(rig, stream, longs, c, 8, COUNT * 8);
    FINISHES(rig, stream);
    CHECK_EQUAL(COUNT, muster_pieces_done(pieces));
    for (uint32_t i = 0; i < COUNT; i++) {
        CHECK_EQUAL((uint8_t)i, longs[i]);
        CHECK_EQUAL((uint8_t)((uint8_t)i + UINT64_C(1000) * i + 5 * i), bytes[i]);
    }
    rig_close(rig);
}

/* Without arrays that come in pieces a launch can be stopped, and nothing is said of what it has done. */
static void a_launch_without_arrays_in_pieces_can_be_stopped(void)
{
    for (int is_early = 0; is_early < 2; is_early++) {
        struct run run = begin_run_of(__func__);
        if (!run.kernel)
            return;
        const struct muster_launch_arg args[] = { { .memory = run.memory }, ARG_VALUE(run.shared) };
        const struct muster_launch_desc desc = {
            .items = ITEMS, .args = args, .arg_count = 2, .result = run.result, .pieces = run.pieces
        };
        run.shared->stops_at = is_early ? UINT64_MAX : 0;
        /* Counts what is done from then on. */
        atomic_store(&run.shared->is_waiting, 1);
        if (is_early)
            muster_pieces_stop(run.pieces);
        DO(run.rig, launch, run.stream, run.kernel, &desc, 1);
        CHECK_STATUS(MUSTER_OK, rig_finish(run.rig, run.stream));
        CHECK_STATUS(MUSTER_OK, *run.result);
        CHECK(is_early ? run.shared->beyond == 0 : run.shared->beyond < ITEMS / 2);
        CHECK_EQUAL(0, muster_pieces_done(run.pieces));
        rig_close(run.rig);
    }
}

static void one_that_is_not_stopped_does_all(void)
{
    struct run run = begin_run_of(__func__);
    if (!run.kernel)
        return;
    const struct muster_launch_arg args[] = { { .memory = run.memory }, ARG_VALUE(run.shared) };
    const struct muster_launch_desc desc = {
        .items = ITEMS, .args = args, .arg_count = 2, .result = run.result, .pieces = run.pieces
    };
    atomic_store(&run.shared->is_waiting, 1);
    DO(run.rig, launch, run.stream, run.kernel, &desc, 1);
    CHECK_STATUS(MUSTER_OK, rig_finish(run.rig, run.stream));
    CHECK_EQUAL(ITEMS, run.shared->beyond);
    rig_close(run.rig);
}

static void pieces_that_are_too_large_are_refused(void)
{
    struct run run = begin_run_of(__func__);
    if (!run.kernel)
        return;
    struct muster_launch_arg args[] = { { .memory = run.memory, .item_bytes = sizeof(uint32_t) },
                                        ARG_VALUE(run.shared) };
    const struct muster_launch_desc desc = {
        .items = ITEMS, .args = args, .arg_count = 2, .result = run.result, .pieces = run.pieces
    };
    run.pieces->grain = MUSTER_PIECE_BYTES_MAX / sizeof(uint32_t) + 1;
    REFUSED(run.rig, MUSTER_E_TOO_LARGE, launch, run.stream, run.kernel, &desc, 1);
    run.pieces->grain = UINT64_MAX / 3;
    REFUSED(run.rig, MUSTER_E_TOO_LARGE, launch, run.stream, run.kernel, &desc, 1);
    run.pieces->grain = 0;
    args[0].item_bytes = SIZE_MAX;
    REFUSED(run.rig, MUSTER_E_TOO_LARGE, launch, run.stream, run.kernel, &desc, 1);
    /* As large as can be. */
    args[0].item_bytes = sizeof(uint32_t);
    run.pieces->grain = MUSTER_PIECE_BYTES_MAX / sizeof(uint32_t);
    DO(run.rig, launch, run.stream, run.kernel, &desc, 1);
    expect_done(&run, 0, ITEMS);
    rig_close(run.rig);
}

static const struct test tests[] = {
    TEST(every_item_is_replaced_once),
    TEST(a_failure_leaves_a_prefix),
    TEST(the_first_failure_counts),
    TEST(a_stop_ends_it_at_a_piece),
    TEST(one_that_is_stopped_before_it_begins_does_nothing),
    TEST(what_is_done_is_a_prefix_at_any_time),
    TEST(what_others_have_done_beyond_a_failure_is_put_back),
    TEST(arrays_of_different_items_go_together),
    TEST(a_launch_without_arrays_in_pieces_can_be_stopped),
    TEST(one_that_is_not_stopped_does_all),
    TEST(pieces_that_are_too_large_are_refused),
};
SUITE_PART(pieces);
