/*
 * Recording from several threads while it is stopped, read and started again: nothing is torn, lost
 * or counted twice.
 */
#include "observe/recording.h"

#include "harness.h"

#include <pthread.h>
#include <stdlib.h>

#define THREADS 3
#define PER_THREAD 20000u

static void *take(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    return aligned_alloc(alignment, (bytes + alignment - 1) & ~(alignment - 1));
}

static void give(void *user, void *memory, size_t bytes)
{
    (void)user, (void)bytes;
    free(memory);
}

static const struct muster_allocator allocator = { sizeof allocator, take, give, NULL };
static struct recording recording;

/* Each field says the same, so that a torn event shows. */
static void *record(void *argument)
{
    uint32_t thread = *(const uint32_t *)argument;
    for (uint64_t i = 1; i <= PER_THREAD; i++)
        recording_add(&recording, &(struct muster_trace_event){ .kind = MUSTER_TRACE_UNIT,
                                                                .begin_ns = i,
                                                                .end_ns = i,
                                                                .range = { i, i },
                                                                .bytes = i,
                                                                .thread = thread });
    return NULL;
}

struct seen {
    uint64_t count, torn, last[THREADS];
};

static void look(void *user, const struct muster_trace_event *event)
{
    struct seen *seen = user;
    uint64_t number = event->begin_ns;
    seen->torn += event->kind != MUSTER_TRACE_UNIT || event->end_ns != number ||
                  event->range.begin != number || event->range.end != number ||
                  event->bytes != number || event->thread >= THREADS;
    /* A thread's own come in its order. */
    if (event->thread < THREADS) {
        seen->torn += number <= seen->last[event->thread];
        seen->last[event->thread] = number;
    }
    seen->count++;
}

static void start_threads(pthread_t *threads, uint32_t *numbers)
{
    for (uint32_t i = 0; i < THREADS; i++) {
        numbers[i] = i;
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, record, &numbers[i]));
    }
}

static void join_threads(const pthread_t *threads)
{
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void all_are_kept_or_counted(void)
{
    pthread_t threads[THREADS];
    uint32_t numbers[THREADS];
    struct seen seen = { .count = 0 };
    CHECK(recording_start(&recording, &allocator, PER_THREAD, 0));
    start_threads(threads, numbers);
    join_threads(threads);
    recording_read(&recording, look, &seen);
    CHECK_EQUAL(PER_THREAD, seen.count);
    CHECK_EQUAL(0, seen.torn);
    CHECK_EQUAL(PER_THREAD, recording_count(&recording));
    CHECK_EQUAL((THREADS - 1) * PER_THREAD, recording_dropped(&recording));
    recording_stop(&recording);
    recording_discard(&recording, &allocator);
    CHECK_EQUAL(0, recording_count(&recording));
    CHECK_EQUAL(0, recording_dropped(&recording));
}

static void it_can_be_read_while_others_add(void)
{
    pthread_t threads[THREADS];
    uint32_t numbers[THREADS];
    struct seen seen;
    CHECK(recording_start(&recording, &allocator, THREADS * PER_THREAD, 0));
    start_threads(threads, numbers);
    do {
        seen = (struct seen){ .count = 0 };
        recording_read(&recording, look, &seen);
        CHECK_EQUAL(0, seen.torn);
    } while (seen.count < THREADS * PER_THREAD);
    join_threads(threads);
    CHECK_EQUAL(0, recording_dropped(&recording));
    recording_stop(&recording);
    recording_discard(&recording, &allocator);
}

/* What a thread adds to a recording that is gone is memory that belongs to another. */
static void it_may_be_discarded_under_those_who_add(void)
{
    for (unsigned i = 0; i < test_repetitions(30); i++) {
        pthread_t threads[THREADS];
        uint32_t numbers[THREADS];
        start_threads(threads, numbers);
        for (int k = 0; k < 40; k++) {
            struct seen seen = { .count = 0 };
            CHECK(recording_start(&recording, &allocator, 500, 0));
            recording_read(&recording, look, &seen);
            recording_stop(&recording);
            uint64_t count = recording_count(&recording);
            seen = (struct seen){ .count = 0 };
            recording_read(&recording, look, &seen);
            CHECK_EQUAL(count, seen.count);
            CHECK_EQUAL(0, seen.torn);
            recording_discard(&recording, &allocator);
        }
        join_threads(threads);
    }
}

static void nothing_is_added_while_it_is_off(void)
{
    uint32_t number = 0;
    CHECK(!recording_is_on(&recording));
    record(&number);
    CHECK(recording_start(&recording, &allocator, 10, 0));
    CHECK(recording_is_on(&recording));
    CHECK_EQUAL(0, recording_count(&recording));
    recording_stop(&recording);
    record(&number);
    CHECK_EQUAL(0, recording_count(&recording));
    recording_discard(&recording, &allocator);
}

/* Memory that is counted, and may be at an end. */
static size_t bytes_taken, bytes_given;
static bool is_empty;

static void *take_counted(void *user, size_t bytes, size_t alignment)
{
    bytes_taken += bytes;
    return is_empty ? NULL : take(user, bytes, alignment);
}

static void give_counted(void *user, void *memory, size_t bytes)
{
    bytes_given += bytes;
    give(user, memory, bytes);
}

static void it_takes_its_memory_at_the_start(void)
{
    static const struct muster_allocator counted = { sizeof counted, take_counted, give_counted,
                                                     NULL };
    const struct muster_trace_event event = { .kind = MUSTER_TRACE_JOB, .begin_ns = 7 };
    struct seen seen = { .count = 0 };
    struct recording own = { .places = NULL };
    is_empty = true;
    CHECK(!recording_start(&own, &counted, 3, 5));
    CHECK(!recording_is_on(&own));
    CHECK_EQUAL(0, recording_count(&own) + recording_dropped(&own));
    is_empty = false;
    bytes_taken = 0;
    for (uint64_t round = 1; round < 3; round++) {
        CHECK(recording_start(&own, &counted, 3, 100 * round));
        CHECK_EQUAL(100 * round, own.origin_ns);
        CHECK_EQUAL(round * 3 * 128, bytes_taken); /* trace.h names the size */
        CHECK_EQUAL(0, recording_count(&own) + recording_dropped(&own));
        for (uint64_t i = 1; i <= 5; i++) {
            recording_add(&own, &event);
            CHECK_EQUAL(i < 3 ? i : 3, recording_count(&own));
            CHECK_EQUAL(i < 3 ? 0 : i - 3, recording_dropped(&own));
        }
        recording_stop(&own);
        CHECK(!recording_is_on(&own));
        recording_add(&own, &event);
        CHECK_EQUAL(3, recording_count(&own));
        CHECK_EQUAL(2, recording_dropped(&own));
        seen.count = 0;
        recording_read(&own, look, &seen);
        CHECK_EQUAL(3, seen.count);
        recording_discard(&own, &counted);
        CHECK_EQUAL(bytes_taken, bytes_given);
        seen.count = 0;
        recording_read(&own, look, &seen);
        CHECK_EQUAL(0, seen.count);
    }
    recording_discard(&own, &counted);
    CHECK_EQUAL(bytes_taken, bytes_given);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(all_are_kept_or_counted),
        TEST(it_can_be_read_while_others_add),
        TEST(it_may_be_discarded_under_those_who_add),
        TEST(nothing_is_added_while_it_is_off),
        TEST(it_takes_its_memory_at_the_start),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
