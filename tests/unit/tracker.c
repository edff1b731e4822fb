/*
 * The tracker, against order computed by brute force: the uses are nodes, the only edges are "later
 * on the same stream" and the waits that were planned, and every pair of uses that conflict must be
 * joined by a path.
 */
#include "core/tracker.h"

#include "base/random.h"
#include "support.h"

enum { USES_MAX = 96, BLOCKS_MAX = 3, STREAMS_MAX = 14 };

/* One use of some blocks. */
struct use {
    uint64_t stream;
    enum muster_access access[BLOCKS_MAX]; /* 0: the block is not used */
    bool before[USES_MAX];                 /* uses that have finished when this one begins */
};

struct history {
    struct tracker trackers[BLOCKS_MAX];
    struct use uses[USES_MAX];
    size_t count;
    int marks_held[USES_MAX]; /* by the trackers: committed and not dropped */
};

static size_t index_of(const struct history *history, const struct tracker_mark *mark)
{
    const struct use *use = mark->event;
    CHECK(use >= history->uses && use < history->uses + history->count);
    CHECK_EQUAL(use->stream, mark->stream);
    return (size_t)(use - history->uses);
}

/* `earlier` is over before `use` begins, and so is what was over before it. */
static void follow(struct history *history, struct use *use, size_t earlier)
{
    use->before[earlier] = true;
    for (size_t i = 0; i < earlier; i++)
        use->before[i] = use->before[i] || history->uses[earlier].before[i];
}

static void drop(struct history *history, const struct tracker_marks *dropped)
{
    CHECK(dropped->count <= TRACKER_READERS_MAX + 1);
    for (uint32_t i = 0; i < dropped->count; i++)
        CHECK(history->marks_held[index_of(history, &dropped->marks[i])]-- > 0);
}

/* Does what the runtime does: plans and queues the waits, enqueues, records, commits. */
static struct use *add_use(struct history *history, uint64_t stream,
                           const enum muster_access *access)
{
    CHECK(history->count < USES_MAX);
    struct use *use = &history->uses[history->count];
    *use = (struct use){ .stream = stream };
    memcpy(use->access, access, sizeof use->access);
    for (size_t i = history->count; i-- > 0;)
        if (history->uses[i].stream == stream) {
            follow(history, use, i);
            break;
        }
    struct tracker_marks waits, dropped;
    for (size_t b = 0; b < BLOCKS_MAX; b++) {
        if (access[b] == 0)
            continue;
        tracker_plan(&history->trackers[b], stream, access[b], &waits);
        CHECK(waits.count <= TRACKER_READERS_MAX + 1);
        for (uint32_t i = 0; i < waits.count; i++) {
            CHECK(waits.marks[i].stream != stream);
            follow(history, use, index_of(history, &waits.marks[i]));
        }
    }
    size_t self = history->count++;
    for (size_t b = 0; b < BLOCKS_MAX; b++) {
        if (access[b] == 0)
            continue;
        history->marks_held[self]++;
        tracker_commit(&history->trackers[b], (struct tracker_mark){ stream, use }, access[b],
                       &dropped);
        drop(history, &dropped);
    }
    return use;
}

static bool conflict(const struct use *a, const struct use *b)
{
    for (size_t i = 0; i < BLOCKS_MAX; i++)
        if (a->access[i] && b->access[i] && ((a->access[i] | b->access[i]) & MUSTER_WRITES))
            return true;
    return false;
}

static void check_order(const struct history *history)
{
    for (size_t late = 0; late < history->count; late++)
        for (size_t early = 0; early < late; early++)
            if (conflict(&history->uses[early], &history->uses[late]) &&
                !history->uses[late].before[early])
                test_fail(__FILE__, __LINE__,
                          "use %zu on stream %d is not ordered before use %zu on stream %d", early,
                          (int)history->uses[early].stream, late, (int)history->uses[late].stream);
}

/* When all marks that a cleared tracker gave up are over, every use of the block is. */
static void check_cleared(struct history *history, size_t block)
{
    struct tracker_marks dropped;
    tracker_clear(&history->trackers[block], &dropped);
    for (size_t i = 0; i < history->count; i++) {
        bool over = history->uses[i].access[block] == 0;
        for (uint32_t k = 0; k < dropped.count && !over; k++) {
            size_t mark = index_of(history, &dropped.marks[k]);
            over = mark == i || history->uses[mark].before[i];
        }
        CHECK(over);
    }
    drop(history, &dropped);
    CHECK_EQUAL(0, history->trackers[block].reader_count);
    CHECK_EQUAL(0, history->trackers[block].writer.stream);
}

static void random_uses_on_random_streams_are_ordered_where_they_conflict(void)
{
    static struct history history;
    struct random random;
    random_init(&random, test_seed());
    bool overflowed = false;
    for (unsigned round = 0; round < test_repetitions(3000); round++) {
        memset(&history, 0, sizeof history);
        uint64_t streams = 1 + random_below(&random, STREAMS_MAX);
        uint64_t blocks = 1 + random_below(&random, BLOCKS_MAX);
        /* Mostly reads in some rounds, so that the list of readers overflows. */
        uint64_t write_one_in = 1 + random_below(&random, 40);
        while (history.count < USES_MAX) {
            enum muster_access access[BLOCKS_MAX] = { 0 };
            for (uint64_t b = 0; b < blocks; b++)
                if (b == 0 || random_below(&random, 2))
                    access[b] = random_below(&random, write_one_in) ? MUSTER_READS
                                : random_below(&random, 2)          ? MUSTER_WRITES
                                                                    : MUSTER_READS_WRITES;
            add_use(&history, 1 + random_below(&random, streams), access);
            for (size_t b = 0; b < BLOCKS_MAX; b++)
                overflowed |= history.trackers[b].reader_count == TRACKER_READERS_MAX;
        }
        check_order(&history);
        for (size_t b = 0; b < BLOCKS_MAX; b++)
            check_cleared(&history, b);
        for (size_t i = 0; i < USES_MAX; i++)
            CHECK_EQUAL(0, history.marks_held[i]);
    }
    CHECK(overflowed);
}

static void every_short_history_is_ordered(void)
{
    static struct history history;
    /* Five uses, each a read or a write, each on one of three streams: all 6^5 of them. */
    for (unsigned code = 0; code < 7776; code++) {
        memset(&history, 0, sizeof history);
        for (unsigned i = 0, rest = code; i < 5; i++, rest /= 6) {
            const enum muster_access access[BLOCKS_MAX] = { rest % 2 ? MUSTER_WRITES
                                                                     : MUSTER_READS };
            add_use(&history, 1 + rest % 6 / 2, access);
        }
        check_order(&history);
        check_cleared(&history, 0);
    }
}

/* Order is what must not be missing; waits that nobody needs cost concurrency. */
static void readers_run_beside_each_other(void)
{
    static struct history history;
    const enum muster_access reads[BLOCKS_MAX] = { MUSTER_READS },
                             writes[BLOCKS_MAX] = { MUSTER_WRITES };
    memset(&history, 0, sizeof history);
    add_use(&history, 100, writes);
    for (size_t i = 1; i <= TRACKER_READERS_MAX; i++) {
        const struct use *use = add_use(&history, i, reads);
        CHECK(use->before[0]);
        for (size_t other = 1; other < i; other++)
            CHECK(!use->before[other]);
    }
    /* One more than the list holds follows the oldest, and only that. */
    const struct use *extra = add_use(&history, 50, reads);
    CHECK(extra->before[1]);
    for (size_t other = 2; other <= TRACKER_READERS_MAX; other++)
        CHECK(!extra->before[other]);
    /* A reader that is on the list already does not. */
    const struct use *again = add_use(&history, 5, reads);
    CHECK(again->before[5] && !again->before[2] && !again->before[3]);
    const struct use *writer = add_use(&history, 60, writes);
    for (size_t other = 0; other + 1 < history.count; other++)
        CHECK(writer->before[other]);
    check_order(&history);
}

static void one_stream_never_waits(void)
{
    struct tracker tracker = { .reader_count = 0 };
    struct tracker_marks marks;
    int event;
    for (unsigned i = 0; i < 20; i++) {
        enum muster_access access = i % 3 == 0 ? MUSTER_WRITES : MUSTER_READS;
        tracker_plan(&tracker, 7, access, &marks);
        CHECK_EQUAL(0, marks.count);
        tracker_commit(&tracker, (struct tracker_mark){ 7, &event }, access, &marks);
    }
    CHECK_EQUAL(1, tracker.reader_count);
}

static void a_fresh_tracker_waits_for_nothing_and_clears_to_nothing(void)
{
    struct tracker tracker = { .reader_count = 0 };
    struct tracker_marks marks;
    for (int access = MUSTER_READS; access <= MUSTER_READS_WRITES; access++) {
        tracker_plan(&tracker, 1, (enum muster_access)access, &marks);
        CHECK_EQUAL(0, marks.count);
    }
    tracker_clear(&tracker, &marks);
    CHECK_EQUAL(0, marks.count);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_fresh_tracker_waits_for_nothing_and_clears_to_nothing),
        TEST(one_stream_never_waits),
        TEST(readers_run_beside_each_other),
        TEST(every_short_history_is_ordered),
        TEST(random_uses_on_random_streams_are_ordered_where_they_conflict),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
