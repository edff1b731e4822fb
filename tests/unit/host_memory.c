/*
 * Pinned host memory: the process's own, in pieces, registered with the driver.
 */
#include "backend/cpu/cpu.h"
#include "base/random.h"
#include "platform/machine.h"
#include "support.h"

static void pieces_are_aligned_and_apart(void)
{
    static const size_t sizes[] = { 1,    63,    64,     65,     100,     4095,         4096,
                                    4097, 65536, 262144, 262145, 1 << 20, (1 << 20) + 1 };
    enum { EACH = 3 };
    struct {
        unsigned char *memory;
        size_t bytes;
    } pieces[COUNT_OF(sizes) * EACH];
    struct muster *m = open_plain();
    muster_device device = find(m, "cpu:0");
    size_t page = platform_page_bytes();
    for (size_t i = 0; i < COUNT_OF(pieces); i++) {
        void *memory;
        pieces[i].bytes = sizes[i / EACH];
        MUST(muster_host_allocate(m, device, pieces[i].bytes, &memory, &problem));
        CHECK_EQUAL(0, (uintptr_t)memory % (pieces[i].bytes >= page ? page : 64));
        pieces[i].memory = memory;
        memset(memory, (int)i + 1, pieces[i].bytes);
    }
    for (size_t i = 0; i < COUNT_OF(pieces); i++) {
        CHECK_EQUAL(i + 1, pieces[i].memory[0]);
        CHECK_EQUAL(i + 1, pieces[i].memory[pieces[i].bytes / 2]);
        CHECK_EQUAL(i + 1, pieces[i].memory[pieces[i].bytes - 1]);
        MUST(muster_host_free(m, pieces[i].memory, &problem));
    }
    MUST(muster_close(m, &problem));
}

static void only_what_is_out_can_be_freed(void)
{
    struct muster *m = open_plain();
    muster_device device = find(m, "sim:0");
    void *small, *large;
    int own;
    MUST(muster_host_allocate(m, device, 100, &small, &problem));
    MUST(muster_host_allocate(m, device, 1 << 20, &large, &problem));
    MUST(muster_host_free(m, NULL, &problem));
    CHECK_STATUS(MUSTER_E_UNKNOWN, muster_host_free(m, &own, &problem));
    CHECK_STATUS(MUSTER_E_UNKNOWN, muster_host_free(m, (char *)small + 1, &problem));
    CHECK_STATUS(MUSTER_E_UNKNOWN, muster_host_free(m, (char *)small + 128, &problem));
    CHECK_STATUS(MUSTER_E_UNKNOWN, muster_host_free(m, (char *)large + 4096, &problem));
    MUST(muster_host_free(m, small, &problem));
    CHECK_STATUS(MUSTER_E_UNKNOWN, muster_host_free(m, small, &problem));
    MUST(muster_host_free(m, large, &problem));
    CHECK_STATUS(MUSTER_E_UNKNOWN, muster_host_free(m, large, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_host_free(NULL, small, &problem));
    MUST(muster_close(m, &problem));
}

static void what_cannot_be_had_is_told(void)
{
    struct muster *m = open_plain();
    muster_device device = find(m, "cpu:0");
    void *memory = &memory;
    CHECK_STATUS(MUSTER_E_INVALID, muster_host_allocate(m, device, 0, &memory, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_host_allocate(m, device, 1, NULL, &problem));
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_host_allocate(m, device, SIZE_MAX, &memory, &problem));
    CHECK_STATUS(MUSTER_E_NO_MEMORY,
                 muster_host_allocate(m, device, SIZE_MAX / 4, &memory, &problem));
    CHECK_STATUS(MUSTER_E_UNKNOWN,
                 muster_host_allocate(m, (muster_device){ 99, 1 }, 8, &memory, &problem));
    CHECK(memory == &memory);
    MUST(muster_close(m, &problem));
}

/* What the driver is told, told back, and must refuse. */
static _Atomic int registered;
static _Atomic unsigned calls, refusals;

static muster_status note_register(void *device, void *memory, size_t bytes,
                                   struct muster_error *err)
{
    (void)device, (void)memory, (void)bytes;
    if (refusals > 0) {
        refusals--;
        return muster_error_fill(err, MUSTER_E_DRIVER, 11, NULL, "too much is pinned already");
    }
    registered++;
    calls++;
    return MUSTER_OK;
}

static void note_unregister(void *device, void *memory)
{
    (void)device, (void)memory;
    registered--;
}

static struct muster_options with_noted(struct counting *counting)
{
    static struct muster_backend table;
    static const struct muster_backend *const tables[] = { &table };
    table = backend_cpu;
    table.name = "noted";
    table.host_register = note_register;
    table.host_unregister = note_unregister;
    registered = 0;
    calls = refusals = 0;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.allocator = counting_allocator(counting);
    options.backends = tables;
    options.backend_count = 1;
    return options;
}

static void the_driver_hears_of_it_and_not_of_every_piece(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_with(with_noted(&counting));
    muster_device device = find(m, "noted:0");
    void *pieces[5000], *large;
    for (unsigned i = 0; i < 5000; i++)
        MUST(muster_host_allocate(m, device, 100, &pieces[i], &problem));
    CHECK_EQUAL(1, calls); /* 128 bytes each, out of a mebibyte */
    for (unsigned i = 0; i < 5000; i++)
        MUST(muster_host_free(m, pieces[i], &problem));
    for (unsigned i = 0; i < 5000; i++)
        MUST(muster_host_allocate(m, device, 128, &pieces[i], &problem));
    CHECK_EQUAL(1, calls);
    MUST(muster_host_allocate(m, device, 3 << 20, &large, &problem));
    CHECK_EQUAL(2, registered);
    MUST(muster_host_free(m, large, &problem));
    CHECK_EQUAL(1, registered);
    MUST(muster_host_allocate(m, device, 3 << 20, &large, &problem));
    MUST(muster_close(m, &problem)); /* with what is still out */
    CHECK_EQUAL(0, registered);
    CHECK_EQUAL(0, counting.bytes);
}

static void a_refusal_of_the_driver_is_told_and_undone(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_with(with_noted(&counting));
    muster_device device = find(m, "noted:0");
    void *memory = NULL;
    refusals = 2;
    CHECK_STATUS(MUSTER_E_DRIVER, muster_host_allocate(m, device, 100, &memory, &problem));
    CHECK_EQUAL(11, problem.driver_code);
    CHECK_TEXT("noted:0", problem.device);
    CHECK_STATUS(MUSTER_E_DRIVER, muster_host_allocate(m, device, 9 << 20, &memory, &problem));
    CHECK(memory == NULL);
    MUST(muster_host_allocate(m, device, 100, &memory, &problem));
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, registered);
    CHECK_EQUAL(0, counting.bytes);
}

/* Several threads take, fill, check and give back. */
struct user {
    struct muster *m;
    muster_device device;
    uint64_t seed;
    unsigned char mark;
    unsigned rounds, wrong;
};

static void *take_fill_give(void *argument)
{
    struct user *user = argument;
    struct random random;
    random_init(&random, user->seed);
    for (unsigned i = 0; i < user->rounds; i++) {
        void *memory;
        size_t bytes = 1 + (size_t)random_below(&random, i % 20 == 0 ? 600000 : 3000);
        if (muster_host_allocate(user->m, user->device, bytes, &memory, NULL) != MUSTER_OK) {
            user->wrong++;
            continue;
        }
        unsigned char *at = memory;
        memset(at, user->mark, bytes);
        sched_yield();
        user->wrong += at[0] != user->mark || at[bytes - 1] != user->mark;
        user->wrong += muster_host_free(user->m, memory, NULL) != MUSTER_OK;
    }
    return NULL;
}

static void threads_do_not_get_the_same_piece(void)
{
    enum { USERS = 6 };
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_with(with_noted(&counting));
    struct user users[USERS];
    pthread_t threads[USERS];
    for (unsigned i = 0; i < USERS; i++) {
        users[i] = (struct user){ .m = m,
                                  .device = find(m, "noted:0"),
                                  .seed = test_seed() + i,
                                  .mark = (unsigned char)(i + 1),
                                  .rounds = test_repetitions(300) };
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, take_fill_give, &users[i]));
    }
    for (unsigned i = 0; i < USERS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < USERS; i++)
        CHECK_EQUAL(0, users[i].wrong);
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, registered);
}

static void copies_to_and_from_it_work(void)
{
    static const char *const ids[] = { "cpu:0", "sim:0" };
    struct muster *m = open_plain();
    for (size_t i = 0; i < COUNT_OF(ids); i++) {
        muster_device device = find(m, ids[i]);
        muster_stream stream = acquire(m, device);
        void *from, *to;
        MUST(muster_host_allocate(m, device, 10000, &from, &problem));
        MUST(muster_host_allocate(m, device, 10000, &to, &problem));
        memset(from, 3, 10000);
        memset(to, 0, 10000);
        muster_block block = allocate(m, stream, 10000);
        MUST(muster_copy_in(m, stream, block, 0, from, 10000, &problem));
        MUST(muster_copy_out(m, stream, to, block, 0, 10000, &problem));
        wait_for(m, stream);
        CHECK(memcmp(from, to, 10000) == 0);
    }
    MUST(muster_close(m, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(pieces_are_aligned_and_apart),
        TEST(only_what_is_out_can_be_freed),
        TEST(what_cannot_be_had_is_told),
        TEST(the_driver_hears_of_it_and_not_of_every_piece),
        TEST(a_refusal_of_the_driver_is_told_and_undone),
        TEST(threads_do_not_get_the_same_piece),
        TEST(copies_to_and_from_it_work),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
