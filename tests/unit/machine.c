/*
 * The machine: nodes, memory, files, and the threads and clocks beside them.
 */
#include "platform/machine.h"

#include "base/allocator.h"
#include "support.h"

#include <dlfcn.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct counting counting = COUNTING_INIT;

/* The cores this process may use, asked of the system by other means. */
static bool may_use(unsigned core)
{
    static cpu_set_t allowed;
    CPU_ZERO(&allowed);
    CHECK_EQUAL(0, sched_getaffinity(0, sizeof allowed, &allowed));
    return core < CPU_SETSIZE && CPU_ISSET(core, &allowed);
}

static bool has_core(const struct platform_node *node, unsigned core)
{
    return node->cores.bits[core / 64] >> (core % 64) & 1;
}

static void check_nodes(const struct platform_node *nodes, uint32_t count)
{
    CHECK(count >= 1);
    for (unsigned core = 0; core < PLATFORM_CORES_MAX; core++) {
        unsigned on = 0;
        for (uint32_t i = 0; i < count; i++)
            on += has_core(&nodes[i], core);
        CHECK_EQUAL(may_use(core), on);
    }
    for (uint32_t i = 0; i < count; i++) {
        unsigned cores = 0;
        for (unsigned core = 0; core < PLATFORM_CORES_MAX; core++)
            cores += has_core(&nodes[i], core);
        CHECK_EQUAL(cores, nodes[i].core_count);
        CHECK(cores > 0);
    }
}

static void every_core_we_may_use_is_on_one_node(void)
{
    struct muster_allocator allocator = *counting_allocator(&counting);
    struct platform_node *nodes;
    uint32_t count;
    MUST(platform_nodes_find(&allocator, &nodes, &count, &problem));
    check_nodes(nodes, count);
    platform_nodes_free(&allocator, nodes, count);
    CHECK_EQUAL(0, counting.bytes);
}

/* Whether hwloc was there when this was built, and is here now. */
static bool have_hwloc(void)
{
#if __has_include(<hwloc.h>)
    void *library = dlopen("libhwloc.so.15", RTLD_NOW);
    if (library)
        dlclose(library);
    return library != NULL;
#else
    return false;
#endif
}

/*
 * hwloc is told of a machine of two nodes that between them have as many cores as the last one this
 * process may use: what must come out follows from which cores it may use.
 */
static void a_machine_of_two_nodes_is_two_devices(void)
{
    if (!have_hwloc()) {
        printf("    hwloc is not installed: skipped\n");
        return;
    }
    unsigned last = 0;
    for (unsigned core = 0; core < PLATFORM_CORES_MAX; core++)
        last = may_use(core) ? core : last;
    unsigned each = last / 2 + 1;
    char machine[64];
    snprintf(machine, sizeof machine, "node:2 core:%u pu:1", each);
    setenv("HWLOC_SYNTHETIC", machine, 1);
    for (unsigned thissystem = 0; thissystem < 2; thissystem++) {
        setenv("HWLOC_THISSYSTEM", thissystem ? "1" : "0", 1);
        struct muster_allocator allocator = *counting_allocator(&counting);
        struct platform_node *nodes;
        uint32_t count;
        MUST(platform_nodes_find(&allocator, &nodes, &count, &problem));
        check_nodes(nodes, count);
        for (uint32_t i = 0; i < count; i++)
            for (unsigned core = 0; core < PLATFORM_CORES_MAX; core++)
                CHECK(!has_core(&nodes[i], core) || core / each == (unsigned)nodes[i].number);
        uint32_t expected = 0;
        for (unsigned node = 0; node < 2; node++) {
            bool usable = false;
            for (unsigned core = node * each; core < (node + 1) * each; core++)
                usable = usable || may_use(core);
            expected += usable;
        }
        CHECK_EQUAL(expected, count);
        platform_nodes_free(&allocator, nodes, count);
        /* Each is a device that works, with memory near a node that may not exist. */
        struct muster_options options = MUSTER_OPTIONS_INIT;
        options.devices = "cpu";
        struct muster *m = open_with(options);
        for (uint32_t i = 0; i < expected; i++) {
            char id[16];
            snprintf(id, sizeof id, "cpu:%u", i);
            muster_device device = find(m, id);
            muster_stream stream = acquire(m, device);
            muster_block block = allocate(m, stream, 1 << 20);
            unsigned char byte = 0;
            MUST(muster_fill(m, stream, block, 0, 8, 1 << 20, &problem));
            MUST(muster_copy_out(m, stream, &byte, block, (1 << 20) - 1, 1, &problem));
            wait_for(m, stream);
            CHECK_EQUAL(8, byte);
            CHECK(info_of(m, device).cores <= each);
        }
        MUST(muster_close(m, &problem));
    }
    unsetenv("HWLOC_SYNTHETIC");
    unsetenv("HWLOC_THISSYSTEM");
    CHECK_EQUAL(0, counting.bytes);
}

/* Two kinds of memory beside the same cores are not two devices with the same cores. */
static void cores_are_not_counted_twice(void)
{
    static const char *const machines[] = { "pack:1 [numa] [numa] core:64 pu:1",
                                            "pack:2 [numa] l3:2 [numa] core:16 pu:1" };
    struct muster_allocator allocator = *counting_allocator(&counting);
    for (size_t i = 0; i < COUNT_OF(machines); i++) {
        struct platform_node *nodes;
        uint32_t count;
        setenv("HWLOC_SYNTHETIC", machines[i], 1);
        MUST(platform_nodes_find(&allocator, &nodes, &count, &problem));
        unsetenv("HWLOC_SYNTHETIC");
        for (unsigned core = 0; core < 64; core++) {
            unsigned on = 0;
            for (uint32_t k = 0; k < count; k++)
                on += has_core(&nodes[k], core);
            CHECK_EQUAL(may_use(core), on);
        }
        platform_nodes_free(&allocator, nodes, count);
    }
}

static void a_description_hwloc_does_not_understand_is_survived(void)
{
    struct muster_allocator allocator = *counting_allocator(&counting);
    struct platform_node *nodes;
    uint32_t count;
    setenv("HWLOC_SYNTHETIC", "nonsense", 1);
    MUST(platform_nodes_find(&allocator, &nodes, &count, &problem));
    check_nodes(nodes, count);
    platform_nodes_free(&allocator, nodes, count);
    unsetenv("HWLOC_SYNTHETIC");
}

static void memory_is_told(void)
{
    uint64_t total = 0, available = 0;
    platform_memory(&total, &available);
    CHECK(total > 0 && available > 0 && available <= total);
    CHECK(!platform_node_memory(-1, &total, &available));
    CHECK(!platform_node_memory(100000, &total, &available));
    char name[96];
    platform_processor_name(name, sizeof name);
    CHECK(name[0] != 0 && !strchr(name, '\n'));
    char little[4];
    platform_processor_name(little, sizeof little);
    CHECK(strlen(little) <= 3);
}

static void pages_are_pages(void)
{
    size_t page = platform_page_bytes();
    CHECK(page >= 4096 && (page & (page - 1)) == 0);
    static const int32_t nodes[] = { -1, 0, 1000, 1023, 1024, INT32_MAX };
    for (size_t i = 0; i < COUNT_OF(nodes); i++) {
        unsigned char *pages = platform_pages_map(3 * page, nodes[i]);
        CHECK(pages && (uintptr_t)pages % page == 0);
        pages[0] = pages[3 * page - 1] = 1;
        platform_pages_unmap(pages, 3 * page);
    }
    /* On nodes that are there, in turn, and that are not: a wish. */
    static const uint64_t masks[] = { 0, 1, 3, UINT64_MAX, (uint64_t)1 << 63 };
    for (size_t i = 0; i < COUNT_OF(masks); i++) {
        unsigned char *pages = platform_pages_map(3 * page, -1);
        platform_pages_place(pages, 3 * page, masks[i]);
        pages[0] = pages[3 * page - 1] = 1;
        platform_pages_unmap(pages, 3 * page);
    }
    CHECK_EQUAL(1, platform_node_bit(0));
    CHECK_EQUAL(0, platform_node_bit(-1));
    CHECK_EQUAL(0, platform_node_bit(64));
    CHECK(platform_pages_map(SIZE_MAX / 2, -1) == NULL);
    static const size_t sizes[] = { 1, 64, 100, (256 << 10) - 1, 256 << 10, 5000000 };
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        unsigned char *memory = platform_memory_take(sizes[i], 0);
        CHECK(memory && (uintptr_t)memory % 64 == 0);
        memset(memory, 1, sizes[i]);
        platform_memory_give(memory, sizes[i]);
    }
}

/* A sanitizer's heap counts nothing here, and sees what is not given back by itself. */
static size_t used_bytes(void)
{
    struct mallinfo2 now = mallinfo2();
    return now.uordblks + now.hblkhd;
}

static void the_heap_takes_back_what_it_gave(void)
{
    const struct muster_allocator *heap = &platform_heap;
    static const size_t sizes[] = { 1, 63, 64, 65, 1000, 100000, 1 << 20 };
    size_t before = used_bytes();
    for (unsigned i = 0; i < 20; i++) {
        for (size_t k = 0; k < COUNT_OF(sizes); k++) {
            for (size_t alignment = 16; alignment <= 4096; alignment *= 4) {
                unsigned char *memory = heap->allocate(heap->user, sizes[k], alignment);
                CHECK(memory && (uintptr_t)memory % alignment == 0);
                memset(memory, 1, sizes[k]);
                heap->release(heap->user, memory, sizes[k]);
            }
            void *memory = platform_memory_take(sizes[k], -1);
            CHECK(memory);
            platform_memory_give(memory, sizes[k]);
        }
    }
    CHECK(used_bytes() < before + (1 << 20));
    CHECK(!heap->allocate(heap->user, SIZE_MAX, 64));
    CHECK(!heap->allocate(heap->user, SIZE_MAX - 62, 64));
}

/* Whether the page is mapped. */
static bool is_mapped(void *page)
{
    unsigned char in_memory;
    return mincore(page, platform_page_bytes(), &in_memory) == 0;
}

static void a_ring_follows_itself(void)
{
    size_t page = platform_page_bytes();
    for (size_t pages = 1; pages <= 16; pages += 5) {
        size_t bytes = pages * page;
        unsigned char *ring = platform_ring_map(bytes);
        CHECK(ring);
        for (size_t i = 0; i < 2 * bytes; i += page / 2) {
            ring[i] = (unsigned char)(i / (page / 2) + 1);
            CHECK_EQUAL(ring[i], ring[(i + bytes) % (2 * bytes)]);
        }
        CHECK(is_mapped(ring) && is_mapped(ring + 2 * bytes - page));
        platform_ring_unmap(ring, bytes);
        CHECK(!is_mapped(ring) && !is_mapped(ring + 2 * bytes - page));
    }
    CHECK(!platform_ring_map(SIZE_MAX / 2 + 1));
    CHECK(!platform_ring_map((SIZE_MAX / 4) & ~(page - 1)));
    unsigned char *pages = platform_pages_map(3 * page, -1);
    CHECK(pages && is_mapped(pages + 2 * page));
    platform_pages_unmap(pages, 3 * page);
    CHECK(!is_mapped(pages) && !is_mapped(pages + 2 * page));
    size_t large = 5000000 / page * page;
    pages = platform_memory_take(large, -1);
    CHECK(pages && is_mapped(pages + large - page));
    platform_memory_give(pages, large);
    CHECK(!is_mapped(pages + large - page));
}

static void the_environment_is_read(void)
{
    unsetenv("MUSTER_TEST_NOTHING");
    CHECK(platform_environment("MUSTER_TEST_NOTHING") == NULL);
    setenv("MUSTER_TEST_NOTHING", "x", 1);
    CHECK_TEXT("x", platform_environment("MUSTER_TEST_NOTHING"));
    unsetenv("MUSTER_TEST_NOTHING");
}

static void files_are_read_whole_or_refused(void)
{
    struct muster_allocator allocator = *counting_allocator(&counting);
    char path[] = "/tmp/muster-test-XXXXXX";
    int file = mkstemp(path);
    CHECK(file >= 0);
    CHECK_EQUAL(10, write(file, "0123456789", 10));
    char *text = NULL;
    size_t bytes = 77;
    MUST(platform_file_read(&allocator, path, 10, &text, &bytes, &problem));
    CHECK_EQUAL(10, bytes);
    CHECK_TEXT("0123456789", text);
    allocator_give(&allocator, text, bytes + 1, 1);
    text = NULL;
    bytes = 77;
    CHECK_STATUS(MUSTER_E_TOO_LARGE,
                 platform_file_read(&allocator, path, 9, &text, &bytes, &problem));
    CHECK_CONTAINS(path, problem.text);
    CHECK_STATUS(MUSTER_E_NOT_FOUND,
                 platform_file_read(&allocator, "/nonexistent/file", 9, &text, &bytes, &problem));
    CHECK_CONTAINS("/nonexistent/file", problem.text);
    CHECK(problem.driver_code != 0);
    CHECK_STATUS(MUSTER_E_IO, platform_file_read(&allocator, "/tmp", 9, &text, &bytes, &problem));
    CHECK_STATUS(MUSTER_E_IO,
                 platform_file_read(&allocator, "/dev/null", 9, &text, &bytes, &problem));
    CHECK_STATUS(MUSTER_E_IO,
                 platform_file_read(&allocator, "/etc/passwd/x", 9, &text, &bytes, &problem));
    if (geteuid() != 0) {
        CHECK_EQUAL(0, fchmod(file, 0));
        CHECK_STATUS(MUSTER_E_IO, platform_file_read(&allocator, path, 9, &text, &bytes, &problem));
        CHECK_EQUAL(0, fchmod(file, 0600));
    }
    CHECK(text == NULL);
    CHECK_EQUAL(77, bytes);
    CHECK_EQUAL(0, ftruncate(file, 0));
    MUST(platform_file_read(&allocator, path, 9, &text, &bytes, &problem));
    CHECK_EQUAL(0, bytes);
    CHECK_TEXT("", text);
    allocator_give(&allocator, text, bytes + 1, 1);
    close(file);
    unlink(path);
    CHECK_EQUAL(0, counting.bytes);
}

/* A file like those of the kernel, that must not hold the reader up for ever. */
static void a_pipe_is_refused_and_not_waited_for(void)
{
    struct muster_allocator allocator = *counting_allocator(&counting);
    char folder[] = "/tmp/muster-test-XXXXXX", path[64];
    char *text;
    size_t bytes;
    CHECK(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/pipe", folder);
    CHECK_EQUAL(0, mkfifo(path, 0600));
    muster_status status = platform_file_read(&allocator, path, 9, &text, &bytes, &problem);
    unlink(path);
    rmdir(folder);
    CHECK_STATUS(MUSTER_E_IO, status);
}

static void deadlines_saturate(void)
{
    uint64_t before = platform_clock_ns();
    CHECK(before > 0);
    CHECK(platform_clock_ns() >= before);
    CHECK(platform_deadline_ns(UINT64_MAX) == UINT64_MAX);
    CHECK(platform_deadline_ns(UINT64_MAX - 1) == UINT64_MAX);
    CHECK(platform_deadline_ns(0) >= before);
    CHECK(platform_deadline_ns(SECOND) >= before + SECOND);
}

static void parking_ends_at_the_deadline(void)
{
    struct platform_mutex lock;
    struct platform_condition condition;
    MUST(platform_mutex_init(&lock, &problem));
    MUST(platform_condition_init(&condition, &problem));
    platform_mutex_lock(&lock);
    uint64_t deadline_ns = platform_deadline_ns(5 * MS);
    while (platform_condition_wait(&condition, &lock, deadline_ns))
        ;
    CHECK(platform_clock_ns() >= deadline_ns);
    CHECK(!platform_condition_wait(&condition, &lock, 0));
    platform_mutex_unlock(&lock);
    platform_condition_deinit(&condition);
    platform_mutex_deinit(&lock);
}

static unsigned long blocked_signals;

static void note_signals(void *argument)
{
    sigset_t set;
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    blocked_signals = sigismember(&set, SIGINT) && sigismember(&set, SIGTERM);
    *(bool *)argument = true;
}

static void threads_run_take_no_signals_and_can_be_joined(void)
{
    struct platform_thread thread = { .started = false };
    bool ran = false;
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    MUST(platform_thread_start(&thread, note_signals, &ran, "a-name-longer-than-allowed", NULL,
                               &problem));
    platform_thread_join(&thread);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    CHECK(ran && blocked_signals);
    CHECK_EQUAL(sigismember(&before, SIGINT), sigismember(&after, SIGINT));
    platform_thread_join(&thread);
    platform_thread_detach(&thread);
}

/* What a driver may do on a thread of ours, and what is there when the thread ends. */
static char drivers_stack[1 << 16];
static pthread_key_t at_end;
static void *stack_at_end;

static void note_stack(void *unused)
{
    (void)unused;
    stack_t stack;
    CHECK_EQUAL(0, sigaltstack(NULL, &stack));
    stack_at_end = stack.ss_sp;
}

static void set_stack(void *argument)
{
    const stack_t stack = { .ss_sp = drivers_stack, .ss_size = sizeof drivers_stack };
    pthread_setspecific(at_end, argument);
    *(bool *)argument = sigaltstack(&stack, NULL) == 0;
}

static void a_thread_ends_with_the_signal_stack_it_began_with(void)
{
    struct platform_thread thread = { .started = false };
    bool was_set = false;
    stack_at_end = drivers_stack;
    CHECK_EQUAL(0, pthread_key_create(&at_end, note_stack));
    MUST(platform_thread_start(&thread, set_stack, &was_set, "driver", NULL, &problem));
    platform_thread_join(&thread);
    CHECK(was_set && stack_at_end != drivers_stack);
    pthread_key_delete(at_end);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(every_core_we_may_use_is_on_one_node),
        TEST(a_machine_of_two_nodes_is_two_devices),
        TEST(cores_are_not_counted_twice),
        TEST(a_description_hwloc_does_not_understand_is_survived),
        TEST(memory_is_told),
        TEST(pages_are_pages),
        TEST(the_heap_takes_back_what_it_gave),
        TEST(a_ring_follows_itself),
        TEST(the_environment_is_read),
        TEST(files_are_read_whole_or_refused),
        TEST(a_pipe_is_refused_and_not_waited_for),
        TEST(deadlines_saturate),
        TEST(parking_ends_at_the_deadline),
        TEST(threads_run_take_no_signals_and_can_be_joined),
        TEST(a_thread_ends_with_the_signal_stack_it_began_with),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
