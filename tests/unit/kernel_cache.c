/*
 * The cache of what was compiled: what was kept is found under its key and under no other, only
 * whole, only where nobody else could have written it, and a folder that cannot be used costs time
 * and nothing else.
 */
#include "kernel/compile.h"
#include "kernel_support.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* As src/kernel/cache.c says: eight bytes, the key, the hash of the rest. */
#define HEAD_BYTES 72

static struct counting counting;
static const struct muster_allocator counted = { sizeof counted, counting_allocate,
                                                 counting_release, &counting };

static void make_key(uint8_t key[SHA256_BYTES], uint8_t first)
{
    for (size_t i = 0; i < SHA256_BYTES; i++)
        key[i] = (uint8_t)(first + 7 * i);
}

static void keep(const uint8_t *key, const void *bytes, size_t size)
{
    kernel_cache_keep(key, bytes, size, &counted);
    CHECK_EQUAL(0, counting.bytes);
}

/* Whether it is there, with these bytes. Other bytes are a failure. */
static bool finds(const uint8_t *key, const void *bytes, size_t size)
{
    struct kernel_blob blob = { .memory = NULL };
    bool is_found = kernel_cache_find(key, &counted, &blob);
    if (is_found) {
        CHECK_EQUAL(size, blob.size);
        CHECK(memcmp(bytes, blob.data, size) == 0);
        kernel_blob_release(&blob, &counted);
        CHECK(blob.memory == NULL);
    }
    CHECK_EQUAL(0, counting.bytes);
    CHECK_EQUAL(0, counting.wrong);
    return is_found;
}

static void path_of(const uint8_t *key, char path[KERNEL_PATH_BYTES])
{
    size_t used = (size_t)snprintf(path, KERNEL_PATH_BYTES, "%s/", getenv("MUSTER_CACHE"));
    for (size_t i = 0; i < SHA256_BYTES; i++)
        used += (size_t)snprintf(path + used, 3, "%02x", key[i]);
    snprintf(path + used, 16, ".kernel");
}

static void what_was_kept_is_found_under_its_key_alone(void)
{
    static char large[(1 << 20) + 5];
    uint8_t key[SHA256_BYTES];
    for (size_t i = 0; i < sizeof large; i++)
        large[i] = (char)(i * 31);
    use_cache("found/below");
    make_key(key, 1);
    CHECK(!finds(key, "", 0));
    static const size_t sizes[] = { 0, 1, HEAD_BYTES, 4096, sizeof large };
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        keep(key, large, sizes[i]);
        CHECK(finds(key, large, sizes[i]));
        CHECK_EQUAL(1, cached(0, NULL));
    }
    /* Each byte of the key counts, and each half of it. */
    for (size_t i = 0; i < SHA256_BYTES; i++)
        for (int bit = 1; bit <= 16; bit *= 16) {
            key[i] ^= (uint8_t)bit;
            CHECK(!finds(key, "", 0));
            key[i] ^= (uint8_t)bit;
        }
    CHECK(finds(key, large, sizeof large));
}

static void an_entry_under_another_key_s_name_is_refused(void)
{
    uint8_t one[SHA256_BYTES], two[SHA256_BYTES];
    char of_one[KERNEL_PATH_BYTES], of_two[KERNEL_PATH_BYTES], aside[KERNEL_PATH_BYTES];
    use_cache("names");
    make_key(one, 1);
    make_key(two, 2);
    path_of(one, of_one);
    path_of(two, of_two);
    keep(one, "one", 3);
    keep(two, "two", 3);
    CHECK(finds(one, "one", 3) && finds(two, "two", 3));
    path_in(aside, "names.aside");
    CHECK_EQUAL(0, rename(of_one, aside));
    CHECK_EQUAL(0, rename(of_two, of_one));
    CHECK_EQUAL(0, rename(aside, of_two));
    CHECK(!finds(one, "one", 3) && !finds(two, "two", 3));
    keep(one, "one", 3);
    CHECK(finds(one, "one", 3) && !finds(two, "two", 3));
    CHECK_EQUAL(0, unlink(of_two));
    CHECK_EQUAL(0, link(of_one, of_two));
    CHECK(!finds(two, "two", 3));
    /* Keys that differ in one bit only, at either end. */
    for (size_t i = 0; i < SHA256_BYTES; i += SHA256_BYTES - 1) {
        memcpy(two, one, sizeof two);
        two[i] ^= 1;
        path_of(two, of_two);
        CHECK_EQUAL(0, link(of_one, of_two));
        CHECK(!finds(two, "one", 3));
    }
}

static void an_entry_with_any_damage_is_refused(void)
{
    static const char content[] = "some bytes that were compiled";
    uint8_t key[SHA256_BYTES];
    char path[KERNEL_PATH_BYTES], whole[HEAD_BYTES + sizeof content + 1];
    use_cache("damage");
    make_key(key, 3);
    path_of(key, path);
    keep(key, content, sizeof content);
    CHECK_EQUAL(HEAD_BYTES + sizeof content, read_whole(path, whole, sizeof whole));
    size_t size = HEAD_BYTES + sizeof content;
    for (size_t i = 0; i < size; i++) {
        whole[i] ^= 0x20;
        write_whole(path, whole, size, 0600);
        CHECK(!finds(key, content, sizeof content));
        whole[i] ^= 0x20;
        write_whole(path, whole, i, 0600);
        CHECK(!finds(key, content, sizeof content));
    }
    whole[size] = '\0';
    write_whole(path, whole, size + 1, 0600);
    CHECK(!finds(key, content, sizeof content));
    write_whole(path, whole, size, 0600);
    CHECK(finds(key, content, sizeof content));
    /* It is put right by the next one who compiles it. */
    write_whole(path, whole, 5, 0600);
    keep(key, content, sizeof content);
    CHECK(finds(key, content, sizeof content));
}

static void the_umask_does_not_matter(void)
{
    static const mode_t masks[] = { 0, 002, 022, 027, 077, 0177, 0777 };
    uint8_t key[SHA256_BYTES];
    char name[32], path[KERNEL_PATH_BYTES];
    struct stat facts;
    make_key(key, 4);
    for (size_t i = 0; i < COUNT_OF(masks); i++) {
        snprintf(name, sizeof name, "umask%zu", i);
        use_cache(name);
        /* The folder's own mode is less than 0700 where the mask takes that away. */
        if (masks[i] & 0700)
            CHECK_EQUAL(0, mkdir(getenv("MUSTER_CACHE"), 0700));
        mode_t before = umask(masks[i]);
        keep(key, "bytes", 5);
        bool is_found = finds(key, "bytes", 5);
        umask(before);
        CHECK(is_found);
        path_of(key, path);
        CHECK_EQUAL(0, stat(path, &facts));
        CHECK_EQUAL(0600, facts.st_mode & 07777);
        CHECK_EQUAL(0, stat(getenv("MUSTER_CACHE"), &facts));
        CHECK_EQUAL(0, facts.st_mode & 077);
    }
}

static void what_others_could_have_written_is_not_used(void)
{
    uint8_t key[SHA256_BYTES];
    char path[KERNEL_PATH_BYTES];
    use_cache("others");
    make_key(key, 5);
    path_of(key, path);
    keep(key, "bytes", 5);
    static const mode_t wrong[] = { 0620, 0602, 0666 };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        CHECK_EQUAL(0, chmod(path, wrong[i]));
        CHECK(!finds(key, "bytes", 5));
        CHECK_EQUAL(0, chmod(path, 0644));
        CHECK(finds(key, "bytes", 5));
        CHECK_EQUAL(0, chmod(getenv("MUSTER_CACHE"), 0700 | (wrong[i] & 077)));
        CHECK(!finds(key, "bytes", 5));
        CHECK_EQUAL(0, chmod(getenv("MUSTER_CACHE"), 0755));
        CHECK(finds(key, "bytes", 5));
    }
    if (geteuid() == 0) {
        CHECK_EQUAL(0, chown(path, 12345, (gid_t)-1));
        CHECK(!finds(key, "bytes", 5));
        CHECK_EQUAL(0, chown(path, 0, (gid_t)-1));
        CHECK_EQUAL(0, chown(getenv("MUSTER_CACHE"), 12345, (gid_t)-1));
        CHECK(!finds(key, "bytes", 5));
    }
    /* Nothing is put where it would not be used. */
    use_cache("shared");
    CHECK_EQUAL(0, mkdir(getenv("MUSTER_CACHE"), 0700));
    CHECK_EQUAL(0, chmod(getenv("MUSTER_CACHE"), 0770));
    keep(key, "bytes", 5);
    CHECK(!finds(key, "bytes", 5));
    CHECK_EQUAL(0, cached(0, NULL));
}

/* A link that others put there is replaced, and what it points to stays. */
static void a_link_in_the_folder_is_not_followed_when_written(void)
{
    uint8_t key[SHA256_BYTES];
    char path[KERNEL_PATH_BYTES], target[KERNEL_PATH_BYTES], text[16] = "";
    use_cache("links");
    make_key(key, 6);
    path_of(key, path);
    path_in(target, "precious");
    write_whole(target, "precious", 8, 0600);
    CHECK_EQUAL(0, mkdir(getenv("MUSTER_CACHE"), 0700));
    CHECK_EQUAL(0, symlink(target, path));
    CHECK(!finds(key, "bytes", 5));
    keep(key, "bytes", 5);
    CHECK(finds(key, "bytes", 5));
    CHECK_EQUAL(8, read_whole(target, text, sizeof text));
    CHECK_TEXT("precious", text);
}

static void variables_say_where_it_is(void)
{
    uint8_t key[SHA256_BYTES];
    char own[KERNEL_PATH_BYTES], xdg[KERNEL_PATH_BYTES], home[KERNEL_PATH_BYTES],
        path[KERNEL_PATH_BYTES];
    char *old_home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    char *old_xdg = getenv("XDG_CACHE_HOME") ? strdup(getenv("XDG_CACHE_HOME")) : NULL;
    make_key(key, 7);
    path_in(own, "own");
    path_in(xdg, "xdg");
    path_in(home, "home");
    setenv("MUSTER_CACHE", own, 1);
    setenv("XDG_CACHE_HOME", xdg, 1);
    setenv("HOME", home, 1);
    keep(key, "own", 3);
    CHECK_EQUAL(1, entries_of(own, 0, NULL));
    CHECK(entries_of(xdg, 0, NULL) < 0 && entries_of(home, 0, NULL) < 0);
    /* Empty: none at all. */
    setenv("MUSTER_CACHE", "", 1);
    keep(key, "none", 4);
    CHECK(!finds(key, "none", 4));
    CHECK(entries_of(xdg, 0, NULL) < 0 && entries_of(home, 0, NULL) < 0);
    unsetenv("MUSTER_CACHE");
    keep(key, "xdg", 3);
    CHECK(finds(key, "xdg", 3));
    path_in(path, "xdg/muster");
    CHECK_EQUAL(1, entries_of(path, 0, NULL));
    CHECK(entries_of(home, 0, NULL) < 0);
    for (int is_set = 1; is_set >= 0; is_set--) {
        if (is_set)
            setenv("XDG_CACHE_HOME", "", 1);
        else
            unsetenv("XDG_CACHE_HOME");
        keep(key, "home", 4);
        CHECK(finds(key, "home", 4));
    }
    path_in(path, "home/.cache/muster");
    CHECK_EQUAL(1, entries_of(path, 0, NULL));
    setenv("HOME", "", 1);
    keep(key, "nowhere", 7);
    CHECK(!finds(key, "nowhere", 7));
    unsetenv("HOME");
    CHECK(!finds(key, "nowhere", 7));
    if (old_home)
        setenv("HOME", old_home, 1);
    if (old_xdg)
        setenv("XDG_CACHE_HOME", old_xdg, 1);
    free(old_home);
    free(old_xdg);
}

/* What is kept in a folder with a long name is found there, or not kept at all: nowhere else. */
static void a_folder_with_a_long_name_is_used_or_not(void)
{
    uint8_t key[SHA256_BYTES];
    char path[1024], part[KERNEL_PATH_BYTES], other[KERNEL_PATH_BYTES];
    size_t taken = 0;
    make_key(key, 8);
    path_in(part, "long");
    CHECK_EQUAL(0, mkdir(part, 0700));
    for (size_t length = 380; length < 530; length += 5) {
        size_t used = (size_t)snprintf(path, sizeof path, "%s", part);
        while (used < length)
            used += (size_t)snprintf(
                path + used, length - used + 1, "/%.*s", length - used > 190 ? 180 : 200,
                "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
                "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
                "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
                "xxxxxxxxxxxxxxxxxxxxxxxxx");
        path[length] = '\0';
        setenv("MUSTER_CACHE", path, 1);
        keep(key, "bytes", 5);
        bool is_found = finds(key, "bytes", 5);
        CHECK_EQUAL(is_found, entries_of(path, 0, other) == 1);
        taken += is_found;
        CHECK(is_found || length > 430);
    }
    CHECK(taken > 0);
}

static void a_place_that_cannot_be_written_is_no_failure(void)
{
    uint8_t key[SHA256_BYTES];
    char path[KERNEL_PATH_BYTES];
    static const char *const places[] = { "/dev/null/cache", "/proc/nowhere", "/dev/full", "/" };
    make_key(key, 9);
    path_in(path, "file");
    write_whole(path, "x", 1, 0600);
    for (size_t i = 0; i <= COUNT_OF(places); i++) {
        setenv("MUSTER_CACHE", i < COUNT_OF(places) ? places[i] : path, 1);
        if (strcmp(getenv("MUSTER_CACHE"), "/") == 0 && access("/", W_OK) == 0)
            continue;
        keep(key, "bytes", 5);
        CHECK(!finds(key, "bytes", 5));
    }
}

/* A disk that is full in the middle leaves nothing, and what was there before. */
static void a_full_disk_leaves_what_was_there(void)
{
    uint8_t key[SHA256_BYTES];
    static char large[1 << 16];
    struct rlimit old, small;
    use_cache("full");
    make_key(key, 10);
    keep(key, "small", 5);
    CHECK_EQUAL(0, getrlimit(RLIMIT_FSIZE, &old));
    small = old;
    small.rlim_cur = 4096;
    signal(SIGXFSZ, SIG_IGN);
    CHECK_EQUAL(0, setrlimit(RLIMIT_FSIZE, &small));
    kernel_cache_keep(key, large, sizeof large, &counted);
    CHECK_EQUAL(0, setrlimit(RLIMIT_FSIZE, &old));
    signal(SIGXFSZ, SIG_DFL);
    CHECK_EQUAL(0, counting.bytes);
    CHECK(finds(key, "small", 5));
    CHECK_EQUAL(1, cached(0, NULL));
}

/* Several processes fill one entry while another reads it: each sees all of it or nothing. */
static void processes_fill_one_entry_at_once(void)
{
    enum { WRITERS = 3 };
    uint8_t key[SHA256_BYTES];
    static char large[50000];
    pid_t writers[WRITERS];
    memset(large, 'x', sizeof large);
    use_cache("processes/deep/er");
    make_key(key, 11);
    for (size_t w = 0; w < WRITERS; w++) {
        writers[w] = fork();
        CHECK(writers[w] >= 0);
        if (writers[w] == 0) {
            for (int i = 0; i < 20; i++)
                kernel_cache_keep(key, large, sizeof large, &platform_heap);
            _exit(0);
        }
    }
    bool is_found = false;
    for (size_t ended = 0; ended < WRITERS;) {
        bool was_found = is_found;
        is_found = finds(key, large, sizeof large);
        CHECK(is_found || !was_found);
        int status;
        pid_t one = waitpid(-1, &status, WNOHANG);
        if (one > 0) {
            CHECK_EQUAL(0, status);
            ended++;
        }
    }
    CHECK(finds(key, large, sizeof large));
    CHECK_EQUAL(1, cached(0, NULL));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(what_was_kept_is_found_under_its_key_alone),
        TEST(an_entry_under_another_key_s_name_is_refused),
        TEST(an_entry_with_any_damage_is_refused),
        TEST(the_umask_does_not_matter),
        TEST(what_others_could_have_written_is_not_used),
        TEST(a_link_in_the_folder_is_not_followed_when_written),
        TEST(variables_say_where_it_is),
        TEST(a_folder_with_a_long_name_is_used_or_not),
        TEST(a_place_that_cannot_be_written_is_no_failure),
        TEST(a_full_disk_leaves_what_was_there),
        TEST(processes_fill_one_entry_at_once),
    };
    counting = (struct counting)COUNTING_INIT;
    return kernel_test_main(argc, argv, tests, COUNT_OF(tests));
}
