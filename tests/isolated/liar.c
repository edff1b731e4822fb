/*
 * A helper that lies: it answers as it should until the device is open, and from then on writes random bytes over the
 * shared memory while the program works with the device. The program must not be harmed: calls return a status or time
 * out, nothing outside is touched (AddressSanitizer looks), and the runtime closes.
 */
#include "harness.h"

#include "backend/isolated/isolated.h"
#include "backend/isolated/wire.h"
#include "base/random.h"
#include "platform/child.h"
#include "platform/shared.h"
#include "platform/thread.h"

#include <muster/muster.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)

static struct wire_page *page;

/* Not down_head: a ring that is full for ever only waits, which the time-outs of others are about. */
static void scribble(void *argument)
{
    struct random random;
    (void)argument;
    random_init(&random, (uint64_t)getpid());
    for (;;) {
        /* Until the first event was recorded the device is being set up. */
        while (atomic_load(&page->events[0]) == 0)
            platform_thread_yield();
        for (int i = 0; i < 64; i++) {
            uint64_t value = random_next(&random), at = random_next(&random);
            switch (random_next(&random) % 8) {
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

/* What a device that hangs was given stays until the process ends. */
static unsigned char *kept[3];

static void a_lying_helper_harms_nobody(void)
{
    struct muster_error err;
    struct muster *m;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = options.isolate = "cpu";
    options.log_level = MUSTER_LOG_ERROR;
    options.log = NULL;
    options.close_ns = SECOND_NS / 2;
    unsetenv("MUSTER_HELPER");
    setenv("MUSTER_TEST_LIES", "1", 1);
    for (int round = 0; round < 3; round++) {
        muster_device device;
        muster_stream stream;
        muster_block block;
        CHECK_STATUS(MUSTER_OK, muster_open(&m, &options, &err));
        unsigned char *host = kept[round] = malloc(300000);
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

static const struct test tests[] = { TEST(a_lying_helper_harms_nobody) };

int main(int argc, char **argv)
{
    static struct platform_thread liar;
    if (argc == 3 && strcmp(argv[1], ISOLATED_ARGUMENT) == 0 && getenv("MUSTER_TEST_LIES")) {
        page = platform_shared_map(PLATFORM_CHILD_MEMORY, sizeof *page);
        if (page)
            platform_thread_start(&liar, scribble, NULL, "liar", NULL, NULL);
    }
    int served = muster_helper_main(argc, argv);
    if (served >= 0)
        return served;
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
