/*
 * Host memory that other processes can map: parts, rings, holes, limits.
 */
#include "harness.h"

#include "platform/arena.h"
#include "platform/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* The system may refuse such files, or their pages. */
int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);
int __real_fallocate(int file, int mode, off_t offset, off_t bytes);
int __wrap_fallocate(int file, int mode, off_t offset, off_t bytes);

static int refuse_files, refuse_pages;

int __wrap_memfd_create(const char *name, unsigned flags)
{
    errno = ENOSYS;
    return refuse_files ? -1 : __real_memfd_create(name, flags);
}

int __wrap_fallocate(int file, int mode, off_t offset, off_t bytes)
{
    errno = ENOSPC;
    return refuse_pages && !(mode & FALLOC_FL_PUNCH_HOLE)
               ? -1
               : __real_fallocate(file, mode, offset, bytes);
}

static struct platform_arena *make(void)
{
    struct platform_arena *arena = NULL;
    CHECK_STATUS(MUSTER_OK, platform_arena_create(&platform_heap, &arena, NULL));
    return arena;
}

static unsigned char *take(struct platform_arena *arena, size_t bytes, bool is_ring)
{
    const struct platform_part part = { .bytes = bytes, .is_ring = is_ring };
    return platform_arena_take(arena, &part);
}

/* What the file holds, as the system counts it. */
static uint64_t held(const struct platform_arena *arena)
{
    struct stat found;
    CHECK(fstat(platform_arena_file(arena), &found) == 0);
    return (uint64_t)found.st_blocks * 512;
}

static void parts_are_seen_in_the_file(void)
{
    struct platform_arena *arena = make();
    size_t page = platform_page_bytes();
    unsigned char *file = mmap(NULL, platform_arena_bytes(arena), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_NORESERVE, platform_arena_file(arena), 0);
    CHECK(file != MAP_FAILED);
    unsigned char *parts[20];
    for (unsigned i = 0; i < 20; i++) {
        uint64_t offset = 0;
        parts[i] = take(arena, (i + 1) * page, false);
        CHECK(parts[i] && parts[i][0] == 0 && parts[i][(i + 1) * page - 1] == 0);
        memset(parts[i], (int)i + 1, (i + 1) * page);
        CHECK_EQUAL((i + 1) * page, platform_arena_find(arena, parts[i], (i + 1) * page, &offset));
        CHECK_EQUAL(i + 1, file[offset]);
        CHECK_EQUAL(i + 1, file[offset + (i + 1) * page - 1]);
        CHECK_EQUAL(7, platform_arena_find(arena, parts[i] + page - 8, 7, &offset));
        file[offset] = 99;
        CHECK_EQUAL(99, parts[i][page - 8]);
        /* Not all of them are the part's. */
        CHECK_EQUAL(0, platform_arena_find(arena, parts[i] + 1, (i + 1) * page, &offset));
    }
    uint64_t before = held(arena), offset;
    CHECK_EQUAL(210 * page, before);
    CHECK(platform_arena_give(arena, parts[9]));
    CHECK_EQUAL(before - 10 * page, held(arena));
    CHECK(!platform_arena_give(arena, parts[9]));
    CHECK(!platform_arena_give(arena, parts[8] + page));
    CHECK_EQUAL(0, platform_arena_find(arena, parts[9], 1, &offset));
    /* The hole is used again, and holds nothing of what was there. */
    unsigned char *again = take(arena, 10 * page, false);
    CHECK(again == parts[9] && again[0] == 0 && again[10 * page - 1] == 0);
    for (unsigned i = 0; i < 20; i++)
        CHECK(platform_arena_give(arena, parts[i]));
    CHECK_EQUAL(0, held(arena));
    munmap(file, platform_arena_bytes(arena));
    platform_arena_destroy(arena);
}

static void a_ring_is_twice_in_view_and_once_in_the_file(void)
{
    struct platform_arena *arena = make();
    size_t page = platform_page_bytes(), bytes = 3 * page;
    uint64_t offset, first;
    unsigned char *ring = take(arena, bytes, true);
    CHECK(ring);
    CHECK_EQUAL(bytes, held(arena));
    for (size_t i = 0; i < 2 * bytes; i += page / 2) {
        ring[i] = (unsigned char)(i / (page / 2) + 1);
        CHECK_EQUAL(ring[i], ring[(i + bytes) % (2 * bytes)]);
    }
    CHECK_EQUAL(bytes, platform_arena_find(arena, ring, 2 * bytes, &first));
    CHECK_EQUAL(100, platform_arena_find(arena, ring + bytes - 100, 300, &offset));
    CHECK_EQUAL(first + bytes - 100, offset);
    CHECK_EQUAL(200, platform_arena_find(arena, ring + bytes, 200, &offset));
    CHECK_EQUAL(first, offset);
    CHECK_EQUAL(0, platform_arena_find(arena, ring + bytes, bytes + 1, &offset));
    CHECK(platform_arena_give(arena, ring));
    CHECK_EQUAL(0, held(arena));
    platform_arena_destroy(arena);
}

/* Nobody who has the file can make it smaller, so that a look at it ends the program. */
static void the_file_cannot_shrink(void)
{
    struct platform_arena *arena = make();
    unsigned char *part = take(arena, platform_page_bytes(), false);
    CHECK(ftruncate(platform_arena_file(arena), 0) != 0);
    CHECK(fcntl(platform_arena_file(arena), F_ADD_SEALS, F_SEAL_WRITE) != 0);
    part[0] = 1;
    CHECK(platform_arena_give(arena, part));
    platform_arena_destroy(arena);
}

static void what_was_given_back_cannot_be_touched(void)
{
    struct platform_arena *arena = make();
    volatile unsigned char *part = take(arena, platform_page_bytes(), false);
    CHECK(platform_arena_give(arena, (void *)(uintptr_t)part));
    int pid = fork(), status = 0;
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        _exit(part[0]);
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
    platform_arena_destroy(arena);
}

static void what_there_is_not_is_refused(void)
{
    struct muster_error err = { .size = sizeof err };
    struct platform_arena *arena = NULL;
    refuse_files = 1;
    CHECK_STATUS(MUSTER_E_NO_MEMORY, platform_arena_create(&platform_heap, &arena, &err));
    CHECK(strstr(err.text, "no file in memory"));
    refuse_files = 0;
    arena = make();
    size_t page = platform_page_bytes();
    refuse_pages = 1;
    CHECK(!take(arena, page, false));
    CHECK(!take(arena, 4 * page, true));
    refuse_pages = 0;
    uint64_t total, available;
    platform_memory(&total, &available);
    CHECK(!take(arena, (size_t)(total + (1 << 20)) / page * page, false));
    CHECK(!take(arena, (size_t)(platform_arena_bytes(arena) + page), false));
    unsigned char *part = take(arena, page, false);
    CHECK(part && part[0] == 0);
    CHECK_EQUAL(page, held(arena));
    CHECK(platform_arena_give(arena, part));
    platform_arena_destroy(arena);
    platform_arena_destroy(NULL);
}

/* A limit on files would end the process with SIGXFSZ. */
static void limits_are_kept(void)
{
    int pid = fork(), status = 0;
    if (pid == 0) {
        struct rlimit limit = { 1 << 20, 1 << 20 };
        struct platform_arena *arena = NULL;
        struct muster_error err = { .size = sizeof err };
        setrlimit(RLIMIT_FSIZE, &limit);
        _exit(platform_arena_create(&platform_heap, &arena, &err) == MUSTER_E_NO_MEMORY &&
                      strstr(err.fix, "ulimit")
                  ? 7
                  : 8);
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    CHECK_EQUAL(7, WEXITSTATUS(status));
    pid = fork();
    if (pid == 0) {
        struct rlimit limit = { (rlim_t)1 << 28, (rlim_t)1 << 28 };
        struct platform_arena *arena = NULL;
        setrlimit(RLIMIT_FSIZE, &limit);
        _exit(platform_arena_create(&platform_heap, &arena, NULL) == MUSTER_OK &&
                      platform_arena_bytes(arena) == limit.rlim_cur &&
                      take(arena, platform_page_bytes(), false)
                  ? 7
                  : 8);
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    CHECK_EQUAL(7, WEXITSTATUS(status));
}

static const struct test tests[] = {
    TEST(parts_are_seen_in_the_file),   TEST(a_ring_is_twice_in_view_and_once_in_the_file),
    TEST(the_file_cannot_shrink),       TEST(what_was_given_back_cannot_be_touched),
    TEST(what_there_is_not_is_refused), TEST(limits_are_kept),
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
