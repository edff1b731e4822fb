/*
 * A helper that lies: it answers as it should until the device is open, and from then on writes random bytes over the
 * shared memory while the program works with the device. The program must not be harmed: calls return a status or time
 * out, nothing outside is touched (AddressSanitizer looks), and the runtime closes.
 * In three ways: words that are nearly right, any bytes at all, and answers that are changed from the first one on. What
 * is written follows the seed.
 */
#include "harness.h"

#include "backend/isolated/isolated.h"
#include "backend/isolated/wire.h"
#include "base/random.h"
#include "platform/child.h"
#include "platform/shared.h"
#include "platform/thread.h"

#include <muster/muster.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)

static struct wire_page *page;

enum way { NEARLY_RIGHT, ANY_BYTES, ANSWERS, WAYS };

static enum way way;
static struct random dice;

static void flip(void *memory, size_t bytes)
{
    uint64_t at = random_next(&dice);
    ((volatile unsigned char *)memory)[at % bytes] ^= (unsigned char)(1u << (at >> 40) % 8);
}

/* All that is read of a helper, but what it would only be waited for: the numbers of answers, and the ring down. */
static void flip_any(void)
{
    switch (random_next(&dice) % 12) {
    case 0:
        flip((void *)&page->up_tail, sizeof page->up_tail);
        break;
    case 1:
        flip((void *)&page->failure_count, sizeof page->failure_count + sizeof page->failures);
        break;
    case 2:
        flip(&page->crash, sizeof page->crash);
        break;
    case 3:
        flip(page->streams, 16 * sizeof *page->streams);
        break;
    case 4:
        flip((void *)page->events, 64 * sizeof *page->events);
        break;
    case 5:
        flip((void *)page->results, 64 * sizeof *page->results);
        break;
    case 6:
        flip(page->threads, sizeof page->threads);
        break;
    case 7:
        flip(page->stages, 4 * sizeof *page->stages);
        break;
    case 8:
        flip((void *)page->stage_words, sizeof page->stage_words);
        break;
    case 9:
        flip(page->backend, sizeof page->backend);
        break;
    default:
        flip(page->up, 64 * sizeof *page->up);
        break;
    }
}

/* While the runtime reads them, too. */
static void flip_answers(void)
{
    struct wire_reply *reply = &page->reply;
    for (int i = 0; i < 8; i++)
        flip(&reply->status, sizeof *reply - offsetof(struct wire_reply, status));
    platform_thread_yield();
}

/* Not down_head: a ring that is full for ever only waits, which the time-outs of others are about. */
static void scribble(void *argument)
{
    (void)argument;
    while (way == ANSWERS)
        flip_answers();
    while (way == ANY_BYTES) {
        while (atomic_load(&page->events[0]) == 0)
            platform_thread_yield();
        for (int i = 0; i < 64; i++)
            flip_any();
        platform_thread_yield();
    }
    for (;;) {
        /* Until the first event was recorded the device is being set up. */
        while (atomic_load(&page->events[0]) == 0)
            platform_thread_yield();
        for (int i = 0; i < 64; i++) {
            uint64_t value = random_next(&dice), at = random_next(&dice);
            switch (random_next(&dice) % 8) {
            case 0:
                atomic_store(&page->events[at % 64], value);
                break;
            case 1:
                atomic_store(&page->streams[at % 8].done, value);
                break;
            case 2:
                atomic_store(&page->results[at % 64], (int32_t)value);
                break;
            case 3:
                atomic_store(&page->failures[at % WIRE_FAILURES], (uint32_t)value);
                atomic_fetch_add(&page->failure_count, value % 5000);
                break;
            case 4:
                page->up[at % WIRE_UP_COUNT] = (struct wire_up){ .kind = (uint32_t)value % 6,
                                                                 .errand = (uint32_t)at % 128,
                                                                 .bytes = (uint32_t)(value >> 20),
                                                                 .offset = at >> (value % 64) };
                atomic_fetch_add(&page->up_tail, value % 3);
                break;
            case 5:
                atomic_store(&page->crash.thread, (uint32_t)value);
                atomic_store(&page->threads[at % WIRE_THREADS].result, (uint32_t)at);
                break;
            case 6:
                page->reply.status = (int32_t)value;
                page->reply.bytes = (uint32_t)at;
                break;
            default:
                atomic_store(&page->streams[at % 8].status, (int32_t)value);
                break;
            }
        }
        platform_thread_yield();
    }
}

#define ROUNDS 3

/* What a device that hangs was given stays until the process ends. */
static unsigned char *kept[WAYS * ROUNDS];

static void lie(enum way how)
{
    struct muster_error err;
    struct muster *m;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = options.isolate = "cpu";
    options.log_level = MUSTER_LOG_ERROR;
    options.log = NULL;
    options.close_ns = SECOND_NS / 2;
    unsetenv("MUSTER_HELPER");
    for (int round = 0; round < ROUNDS; round++) {
        char lies[64];
        uint64_t seed = test_seed() * 1000 + (uint64_t)round;
        snprintf(lies, sizeof lies, "%d:%llu", (int)how, (unsigned long long)seed);
        setenv("MUSTER_TEST_LIES", lies, 1);
        muster_device device;
        muster_stream stream;
        muster_block block;
        CHECK_STATUS(MUSTER_OK, muster_open(&m, &options, &err));
        unsigned char *host = kept[how * ROUNDS + round] = malloc(300000);
        memset(host, round, 300000);
        if (muster_device_find(m, "cpu:0", &device, &err) == MUSTER_OK &&
            muster_stream_acquire(m, device, 0, &stream, &err) == MUSTER_OK &&
            muster_block_allocate(m, stream, 300000, &block, &err) == MUSTER_OK) {
            for (int i = 0; i < 50; i++) {
                muster_copy_in(m, stream, block, 0, host, 300000, &err);
                muster_copy_out(m, stream, host, block, 0, 300000, &err);
                muster_stream_wait(m, stream, SECOND_NS / 100, &err);
            }
        }
        /* It may say that the device hangs; what it was given stays then, and so does the memory. */
        if (muster_close(m, &err) == MUSTER_OK)
            free(host);
    }
}

static void words_that_are_nearly_right_harm_nobody(void)
{
    lie(NEARLY_RIGHT);
}

static void any_bytes_harm_nobody(void)
{
    lie(ANY_BYTES);
}

static void changed_answers_harm_nobody(void)
{
    lie(ANSWERS);
}

static const struct test tests[] = {
    TEST(words_that_are_nearly_right_harm_nobody),
    TEST(any_bytes_harm_nobody),
    TEST(changed_answers_harm_nobody),
};

int main(int argc, char **argv)
{
    static struct platform_thread liar;
    const char *lies = getenv("MUSTER_TEST_LIES");
    if (argc == 3 && strcmp(argv[1], ISOLATED_ARGUMENT) == 0 && lies) {
        char *end;
        way = (enum way)strtoul(lies, &end, 10);
        random_init(&dice, strtoull(end + 1, NULL, 10));
        page = platform_shared_map(PLATFORM_CHILD_MEMORY, sizeof *page);
        if (page)
            platform_thread_start(&liar, scribble, NULL, "liar", NULL, NULL);
    }
    int served = muster_helper_main(argc, argv);
    if (served >= 0)
        return served;
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
