/*
 * The text that `scan` reads: one large file on several threads gives the same bytes as on one, with
 * the newline after it, wherever it ends and also if it becomes shorter meanwhile.
 */
#include "inputs.h"
#include "harness.h"

#include <fcntl.h>
#include <muster/muster.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ITEM 64u
#define LARGE ((size_t)8 << 20)
#define PIECE_ITEMS 3001u
#define ITEMS_MAX (LARGE / ITEM + 4 * PIECE_ITEMS)
#define THREADS 4

static char path[] = "/tmp/muster-inputs-XXXXXX";
static unsigned char *text;

static unsigned char byte_at(size_t at)
{
    return (unsigned char)('a' + (at * 7 + at / 4099) % 26);
}

static void make_file(size_t bytes)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(file >= 0);
    for (size_t i = 0; i < bytes; i++)
        text[i] = byte_at(i);
    for (size_t done = 0; done < bytes;) {
        ssize_t step = write(file, text + done, bytes - done);
        CHECK(step > 0);
        done += (size_t)step;
    }
    CHECK(close(file) == 0);
}

struct reading {
    struct inputs inputs;
    _Atomic uint64_t next, wrong;
    _Atomic uint64_t got[ITEMS_MAX / PIECE_ITEMS + 1];
};

/* As a job calls its source: for ranges one after the other, each until it is full or at the end. */
static void *read_ranges(void *argument)
{
    struct reading *reading = argument;
    uint64_t range;
    while ((range = atomic_fetch_add(&reading->next, 1)) < ITEMS_MAX / PIECE_ITEMS) {
        uint64_t done = 0;
        int64_t step = 1;
        while (done < PIECE_ITEMS && step > 0) {
            uint64_t begin = range * PIECE_ITEMS + done, items = PIECE_ITEMS - done;
            step = inputs_read(&reading->inputs, begin, items, text + begin * ITEM, items * ITEM);
            reading->wrong += step < 0 || step > (int64_t)items;
            done += step > 0 ? (uint64_t)step : 0;
        }
        atomic_store(&reading->got[range], done);
    }
    return NULL;
}

/* The file has become as long as `bytes`, of which all threads are to find the end. */
static void check_reading(struct reading *reading, size_t bytes)
{
    pthread_t threads[THREADS];
    memset(text, 0, ITEMS_MAX * ITEM);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, read_ranges, reading) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK_EQUAL(0, reading->wrong);
    uint64_t range = 0, items = 0;
    while (reading->got[range] == PIECE_ITEMS)
        items += reading->got[range++];
    items += reading->got[range];
    CHECK(items * ITEM > bytes);
    for (size_t i = 0; i < bytes; i++)
        if (text[i] != byte_at(i))
            test_fail(__FILE__, __LINE__, "byte %zu of %zu is wrong", i, bytes);
    for (size_t i = bytes; i < items * ITEM; i++)
        CHECK_EQUAL('\n', text[i]);
    const struct input *input = inputs_next(&reading->inputs);
    CHECK(input != NULL && inputs_next(&reading->inputs) == NULL);
    CHECK_EQUAL(bytes, input->end);
    CHECK(!input->is_unread);
}

static struct muster *open_runtime(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster *m = NULL;
    options.devices = "cpu";
    CHECK_STATUS(MUSTER_OK, muster_open(&m, &options, NULL));
    return m;
}

static bool init_inputs(struct inputs *inputs, struct muster *m, const char *const *paths,
                        size_t count)
{
    const struct inputs_options options = { .tree = { paths, count, false, false },
                                            .item_bytes = ITEM };
    return inputs_init(inputs, m, &options);
}

static void a_large_file_is_read_on_several_threads(void)
{
    static const size_t sizes[] = { LARGE, LARGE + 1, LARGE + ITEM - 1, PIECE_ITEMS * ITEM * 44,
                                    PIECE_ITEMS * ITEM * 44 - 1 };
    static struct reading reading;
    const char *const paths[] = { path };
    struct muster *m = open_runtime();
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        size_t bytes = sizes[i / 2];
        memset(&reading, 0, sizeof reading);
        make_file(bytes);
        CHECK(init_inputs(&reading.inputs, m, paths, 1));
        CHECK_EQUAL(8, inputs_calls(&reading.inputs));
        if (i % 2) {
            bytes /= 3;
            CHECK(truncate(path, (off_t)bytes) == 0);
        }
        check_reading(&reading, bytes);
        /* What was as long as it is found to be is followed by no more than its last item. */
        uint64_t items = 0;
        for (size_t r = 0; r < ITEMS_MAX / PIECE_ITEMS && i % 2 == 0; r++)
            items += reading.got[r];
        CHECK_EQUAL(i % 2 ? 0 : bytes / ITEM + 1, items);
        inputs_deinit(&reading.inputs);
    }
    CHECK_STATUS(MUSTER_OK, muster_close(m, NULL));
}

static size_t troubles;

static void count_trouble(void *user, const char *name, const char *why)
{
    (void)user, (void)name;
    troubles += *why != 0;
}

static void others_are_read_in_order(void)
{
    const char *const one[] = { path }, *const two[] = { path, path }, *const standard[] = { "-" },
                      *const none[] = { "/no/such/file" };
    struct muster *m = open_runtime();
    struct inputs inputs;
    make_file(LARGE);
    CHECK(init_inputs(&inputs, m, two, 2));
    CHECK_EQUAL(1, inputs_calls(&inputs));
    inputs_deinit(&inputs);
    CHECK(init_inputs(&inputs, m, standard, 1));
    CHECK_EQUAL(1, inputs_calls(&inputs));
    inputs_deinit(&inputs);
    make_file(LARGE - 1);
    CHECK(init_inputs(&inputs, m, one, 1));
    CHECK_EQUAL(1, inputs_calls(&inputs));
    inputs_deinit(&inputs);
    CHECK(init_inputs(&inputs, m, none, 1));
    inputs.trouble = count_trouble;
    CHECK_EQUAL(1, inputs_calls(&inputs));
    CHECK_EQUAL(0, troubles);
    CHECK_EQUAL(1, inputs_read(&inputs, 0, 2, text, 2 * ITEM));
    CHECK_EQUAL(1, troubles);
    inputs_deinit(&inputs);
    CHECK_STATUS(MUSTER_OK, muster_close(m, NULL));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(a_large_file_is_read_on_several_threads),
                                         TEST(others_are_read_in_order) };
    int file = mkstemp(path);
    text = malloc(ITEMS_MAX * ITEM);
    if (file < 0 || !text)
        return 1;
    close(file);
    int failed = test_main(argc, argv, tests, sizeof tests / sizeof *tests);
    unlink(path);
    free(text);
    return failed;
}
