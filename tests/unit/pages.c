/*
 * Pages that jobs work in: kept when they come back, pinned as they were, within a limit.
 */
#include "run/memory/pages.h"

#include "backend/cpu/cpu.h"
#include "base/random.h"
#include "platform/machine.h"
#include "support.h"

/* What two drivers know, and what they refuse. */
static _Atomic int registered;
static _Atomic unsigned calls;
static _Atomic size_t pinned_bytes, pinned_max;

static muster_status note_register(void *device, void *memory, size_t bytes,
                                   struct muster_error *err)
{
    (void)device, (void)memory;
    if (pinned_max > 0 && pinned_bytes + bytes > pinned_max)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 2, NULL, "too much is pinned already");
    pinned_bytes += bytes;
    registered++;
    calls++;
    return MUSTER_OK;
}

/* All pages of a test that counts bytes have one size. */
static size_t unregister_bytes;
static void note_unregister(void *device, void *memory)
{
    (void)device, (void)memory;
    pinned_bytes -= unregister_bytes;
    registered--;
}

static struct muster *open_noted(struct counting *counting, uint64_t kept_bytes)
{
    static struct muster_backend table;
    static const struct muster_backend *const tables[] = { &table };
    table = backend_cpu;
    table.name = "noted";
    table.host_register = note_register;
    table.host_unregister = note_unregister;
    registered = 0;
    calls = 0;
    pinned_bytes = pinned_max = unregister_bytes = 0;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.allocator = counting_allocator(counting);
    options.backends = tables;
    options.backend_count = 1;
    options.kept_bytes = kept_bytes;
    return open_with(options);
}

static struct run_device *device_of(struct muster *m, const char *id)
{
    return m->devices[find(m, id).index];
}

static struct pages *take(struct muster *m, struct pages_want want)
{
    struct pages *pages = NULL;
    MUST(pages_take(m, &want, &pages, &problem));
    CHECK(pages->bytes >= want.bytes);
    return pages;
}

static struct pages *take_plain(struct muster *m, size_t bytes)
{
    return take(m, (struct pages_want){ .bytes = bytes });
}

static void close_noted(struct muster *m, struct counting *counting)
{
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, registered);
    CHECK_EQUAL(0, counting->bytes);
    CHECK_EQUAL(0, counting->wrong);
}

static void pages_that_came_back_are_taken_again_and_stay_pinned(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_noted(&counting, 64 << 20);
    struct run_device *device = device_of(m, "noted:0");
    struct pages *pages = take_plain(m, 3 << 20);
    char *memory = pages->memory;
    memset(memory, 1, pages->bytes);
    MUST(pages_pin(pages, device, &problem));
    MUST(pages_pin(pages, device, &problem));
    CHECK_EQUAL(1, calls);
    pages_leave(pages, device);
    CHECK_EQUAL(1, registered);
    pages_give(m, pages);
    CHECK_EQUAL(1, registered);
    /* A little less will do as well. */
    pages = take_plain(m, (3 << 20) - 100000);
    CHECK(pages->memory == memory);
    MUST(pages_pin(pages, device, &problem));
    CHECK_EQUAL(1, calls);
    /* What is out is not given to another. */
    struct pages *other = take_plain(m, 3 << 20);
    CHECK(other->memory != memory);
    pages_leave(pages, device);
    pages_give(m, pages);
    pages_give(m, other);
    pages_give(m, NULL);
    close_noted(m, &counting);
}

static void much_larger_ones_are_left_to_those_who_need_them(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_noted(&counting, 256 << 20);
    struct pages *large = take_plain(m, 64 << 20);
    char *memory = large->memory;
    pages_give(m, large);
    struct pages *small = take_plain(m, 1 << 20);
    CHECK(small->memory != memory && small->bytes < 2 << 20);
    large = take_plain(m, 60 << 20);
    CHECK(large->memory == memory);
    pages_give(m, small);
    pages_give(m, large);
    close_noted(m, &counting);
}

static void rings_follow_themselves_and_are_kept_by_size(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_noted(&counting, 64 << 20);
    size_t page = platform_page_bytes();
    struct pages *ring = take(m, (struct pages_want){ .bytes = 3 * page, .is_ring = true });
    char *memory = ring->memory;
    size_t bytes = ring->bytes;
    memory[bytes + 5] = 7;
    CHECK_EQUAL(7, memory[5]);
    pages_give(m, ring);
    struct pages *plain = take_plain(m, 3 * page);
    CHECK(plain->memory != memory);
    ring = take(m, (struct pages_want){ .bytes = 2 * page, .is_ring = true });
    CHECK(ring->memory != memory);
    pages_give(m, ring);
    /* What was rounded once stays as it is: all rings of a job are alike. */
    ring = take(m, (struct pages_want){ .bytes = bytes, .is_ring = true });
    CHECK(ring->memory == memory && ring->bytes == bytes);
    pages_give(m, ring);
    pages_give(m, plain);
    for (size_t i = 1; i < 200; i++) {
        ring = take(m, (struct pages_want){ .bytes = i * 7 * page, .is_ring = true });
        bytes = ring->bytes;
        CHECK(bytes % page == 0 && bytes - i * 7 * page <= i * 7 * page / 8 + page);
        pages_give(m, ring);
        ring = take(m, (struct pages_want){ .bytes = bytes, .is_ring = true });
        CHECK_EQUAL(bytes, ring->bytes);
        pages_give(m, ring);
    }
    close_noted(m, &counting);
}

static void pages_for_other_nodes_are_other_pages(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_noted(&counting, 64 << 20);
    struct pages *near = take(m, (struct pages_want){ .bytes = 1 << 20, .nodes = 1 });
    char *memory = near->memory;
    memory[0] = memory[(1 << 20) - 1] = 1;
    pages_give(m, near);
    struct pages *spread = take(m, (struct pages_want){ .bytes = 1 << 20, .nodes = 3 });
    CHECK(spread->memory != memory);
    spread->memory[0] = spread->memory[(1 << 20) - 1] = 1;
    near = take(m, (struct pages_want){ .bytes = 1 << 20, .nodes = 1 });
    CHECK(near->memory == memory);
    pages_give(m, near);
    pages_give(m, spread);
    close_noted(m, &counting);
}

/* A quarter of a mebibyte over what is allowed goes when it is given back, and its pin before that. */
static void beyond_the_limit_nothing_is_kept(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_noted(&counting, 4 << 20);
    struct run_device *device = device_of(m, "noted:0");
    struct pages *kept = take_plain(m, 3 << 20), *more = take_plain(m, 2 << 20);
    MUST(pages_pin(kept, device, &problem));
    MUST(pages_pin(more, device, &problem));
    CHECK_EQUAL(2, registered);
    pages_leave(more, device);
    CHECK_EQUAL(1, registered);
    pages_give(m, more);
    pages_leave(kept, device);
    pages_give(m, kept);
    CHECK_EQUAL(1, registered);
    /* One larger than the limit does not drive out what is kept. */
    more = take_plain(m, 5 << 20);
    CHECK_EQUAL(1, registered);
    pages_give(m, more);
    /* Of another size: the kept ones make room, so that these can stay. */
    more = take_plain(m, 1300000);
    CHECK_EQUAL(0, registered);
    MUST(pages_pin(more, device, &problem));
    pages_leave(more, device);
    pages_give(m, more);
    CHECK_EQUAL(1, registered);
    close_noted(m, &counting);
}

static void the_longest_unused_go_first(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_noted(&counting, 8 << 20);
    struct pages *first = take_plain(m, 1 << 20), *second = take_plain(m, 3 << 20);
    char *memory = first->memory;
    pages_give(m, first);
    pages_give(m, second);
    first = take_plain(m, 1 << 20);
    CHECK(first->memory == memory);
    pages_give(m, first);
    /* Room for this one takes the one of 3 MiB, not the one that was used last. */
    pages_give(m, take_plain(m, 6500000));
    first = take_plain(m, 1 << 20);
    CHECK(first->memory == memory);
    pages_give(m, first);
    close_noted(m, &counting);
}

static void a_limit_on_pinned_memory_drives_out_what_is_kept(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_noted(&counting, 64 << 20);
    struct run_device *device = device_of(m, "noted:0");
    struct pages *old = take_plain(m, 1 << 20), *out = take_plain(m, 1 << 20);
    unregister_bytes = old->bytes;
    MUST(pages_pin(old, device, &problem));
    MUST(pages_pin(out, device, &problem));
    pages_leave(old, device);
    pages_give(m, old);
    struct pages *fresh =
        take(m, (struct pages_want){ .bytes = unregister_bytes / 2, .is_ring = true });
    pinned_max = 2 * unregister_bytes;
    MUST(pages_pin(fresh, device, &problem));
    CHECK_EQUAL(2, registered);
    /* Nothing is kept any more, and the driver's no stands. */
    struct pages *more = take_plain(m, 1 << 20);
    CHECK_STATUS(MUSTER_E_NO_MEMORY, pages_pin(more, device, &problem));
    CHECK_TEXT("noted:0", problem.device);
    pinned_max = 0;
    MUST(pages_pin(more, device, &problem));
    pages_give(m, more);
    pages_give(m, fresh);
    pages_give(m, out);
    close_noted(m, &counting);
}

static void trimming_gives_all_back_but_what_is_out(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_noted(&counting, 64 << 20);
    struct run_device *device = device_of(m, "noted:0");
    struct pages *pages[4];
    for (size_t i = 0; i < COUNT_OF(pages); i++) {
        pages[i] = take_plain(m, (1 << 20) << i);
        MUST(pages_pin(pages[i], device, &problem));
        pages_leave(pages[i], device);
    }
    for (size_t i = 1; i < COUNT_OF(pages); i++)
        pages_give(m, pages[i]);
    pages_trim(m, 12 << 20);
    CHECK_EQUAL(3, registered); /* that of 2 MiB came back first */
    muster_trim(m);
    CHECK_EQUAL(1, registered);
    pages[0]->memory[0] = 1;
    close_noted(m, &counting); /* with what is still out */
}

static void what_cannot_be_had_is_told(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_noted(&counting, 64 << 20);
    struct pages *pages = NULL;
    struct pages_want want = { .bytes = SIZE_MAX };
    CHECK_STATUS(MUSTER_E_NO_MEMORY, pages_take(m, &want, &pages, &problem));
    want.bytes = SIZE_MAX / 4;
    CHECK_STATUS(MUSTER_E_NO_MEMORY, pages_take(m, &want, &pages, &problem));
    want.is_ring = true;
    CHECK_STATUS(MUSTER_E_NO_MEMORY, pages_take(m, &want, &pages, &problem));
    CHECK(pages == NULL);
    close_noted(m, &counting);
}

/* A device that is lost has its pages forgotten, and kept ones of its are not used again. */
static void a_lost_devices_pages_are_not_kept(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_noted(&counting, 64 << 20);
    struct run_device *device = device_of(m, "noted:0");
    struct pages *kept = take_plain(m, 1 << 20), *out = take_plain(m, 1 << 20);
    char *memory = kept->memory;
    MUST(pages_pin(kept, device, &problem));
    MUST(pages_pin(out, device, &problem));
    pages_leave(kept, device);
    pages_give(m, kept);
    device_note(device, MUSTER_E_DEVICE_LOST, NULL);
    CHECK_EQUAL(2, registered);
    pages_leave(out, device);
    CHECK_EQUAL(1, registered);
    struct pages *next = take_plain(m, 1 << 20);
    CHECK(next->memory != memory);
    pages_give(m, next);
    pages_give(m, out);
    close_noted(m, &counting);
}

/* Several threads take, fill, check, pin and give back, within a limit that they exceed together. */
struct user {
    struct muster *m;
    uint64_t seed;
    unsigned char mark;
    unsigned rounds, wrong;
};

static void *take_fill_give(void *argument)
{
    struct user *user = argument;
    struct run_device *device = user->m->devices[0];
    struct random random;
    random_init(&random, user->seed);
    for (unsigned i = 0; i < user->rounds; i++) {
        const struct pages_want want = { .bytes = 1 + (size_t)random_below(&random, 1 << 20),
                                         .is_ring = random_below(&random, 4) == 0 };
        struct pages *pages;
        if (pages_take(user->m, &want, &pages, NULL) != MUSTER_OK) {
            user->wrong++;
            continue;
        }
        if (random_below(&random, 2) == 0)
            user->wrong += pages_pin(pages, device, NULL) != MUSTER_OK;
        memset(pages->memory, user->mark, want.bytes);
        sched_yield();
        user->wrong +=
            pages->memory[0] != user->mark || pages->memory[want.bytes - 1] != user->mark;
        pages_leave(pages, device);
        pages_give(user->m, pages);
        if (random_below(&random, 50) == 0)
            pages_trim(user->m, 1 << 20);
    }
    return NULL;
}

static void threads_do_not_get_the_same_pages(void)
{
    enum { USERS = 4 };
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_noted(&counting, 3 << 20);
    struct user users[USERS];
    pthread_t threads[USERS];
    device_of(m, "noted:0");
    for (unsigned i = 0; i < USERS; i++) {
        users[i] = (struct user){ .m = m,
                                  .seed = test_seed() + i,
                                  .mark = (unsigned char)(i + 1),
                                  .rounds = test_repetitions(200) };
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, take_fill_give, &users[i]));
    }
    for (unsigned i = 0; i < USERS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < USERS; i++)
        CHECK_EQUAL(0, users[i].wrong);
    CHECK(m->pages_bytes <= 3 << 20);
    close_noted(m, &counting);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(pages_that_came_back_are_taken_again_and_stay_pinned),
        TEST(much_larger_ones_are_left_to_those_who_need_them),
        TEST(rings_follow_themselves_and_are_kept_by_size),
        TEST(pages_for_other_nodes_are_other_pages),
        TEST(beyond_the_limit_nothing_is_kept),
        TEST(the_longest_unused_go_first),
        TEST(a_limit_on_pinned_memory_drives_out_what_is_kept),
        TEST(trimming_gives_all_back_but_what_is_out),
        TEST(what_cannot_be_had_is_told),
        TEST(a_lost_devices_pages_are_not_kept),
        TEST(threads_do_not_get_the_same_pages),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
