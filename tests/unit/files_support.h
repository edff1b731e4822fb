/*
 * What the tests of files have in common: a folder of their own, files of known bytes, and the ways
 * in which a file can be opened.
 */
#ifndef UNIT_FILES_SUPPORT_H
#define UNIT_FILES_SUPPORT_H

#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/magic.h>
#include <muster/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

static char folder[64];

static inline void make_folder(void)
{
    strcpy(folder, "/tmp/muster-files-XXXXXX");
    CHECK(mkdtemp(folder));
}

static inline const char *in_folder(const char *name)
{
    static char paths[4][128];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static inline unsigned count_files(void)
{
    unsigned count = 0;
    DIR *directory = opendir(folder);
    CHECK(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count - 2;
}

static inline void remove_folder(void)
{
    DIR *directory = opendir(folder);
    CHECK(directory);
    for (const struct dirent *entry; (entry = readdir(directory));)
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(directory), entry->d_name, 0);
    closedir(directory);
    CHECK(rmdir(folder) == 0);
}

/* Byte `at` of every file here. */
#define byte_at(at)                                                                                \
    ((unsigned char)((uint64_t)(at)*31 + (uint64_t)(at) / 251 + (uint64_t)(at) / 65537))

/* On memory that is the test's alone; by far the most of what it does. */
#if defined(__SANITIZE_THREAD__) || TEST_HAS(thread_sanitizer)
#define UNWATCHED __attribute__((no_sanitize_thread))
#else
#define UNWATCHED
#endif

UNWATCHED static inline void fill_bytes(unsigned char *to, uint64_t from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = byte_at(from + i);
}

UNWATCHED static inline void check_bytes(const unsigned char *bytes, uint64_t from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != byte_at(from + i))
            test_fail(__FILE__, __LINE__, "byte %llu is wrong", (unsigned long long)(from + i));
}

static inline const char *make_file(const char *name, size_t bytes)
{
    const char *path = in_folder(name);
    unsigned char *content = malloc(bytes + 1);
    CHECK(content);
    fill_bytes(content, 0, bytes);
    int file = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    CHECK(file >= 0);
    for (size_t done = 0; done < bytes;) {
        ssize_t step = write(file, content + done, bytes - done);
        CHECK(step > 0);
        done += (size_t)step;
    }
    close(file);
    free(content);
    return path;
}

/* The whole file; its size in `*bytes`. */
static inline unsigned char *load_file(const char *path, size_t *bytes)
{
    struct stat facts;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(file >= 0 && fstat(file, &facts) == 0);
    *bytes = (size_t)facts.st_size;
    unsigned char *content = malloc(*bytes + 1);
    CHECK(content);
    for (size_t done = 0; done < *bytes;) {
        ssize_t step = read(file, content + done, *bytes - done);
        CHECK(step > 0);
        done += (size_t)step;
    }
    close(file);
    return content;
}

/* The file has these bytes of the pattern, and no more. */
static inline void check_file(const char *path, size_t bytes)
{
    size_t found;
    unsigned char *content = load_file(path, &found);
    CHECK_EQUAL(bytes, found);
    check_bytes(content, 0, found);
    free(content);
}

struct way {
    const char *engine;
    enum muster_direct direct;
};

static const struct way ways[] = {
    { "io_uring", MUSTER_DIRECT_NEVER },
    { "io_uring", MUSTER_DIRECT_ALWAYS },
    { "threads", MUSTER_DIRECT_NEVER },
    { "threads", MUSTER_DIRECT_ALWAYS },
};

static inline struct muster_file_options options_of(const struct way *way, size_t item_bytes)
{
    return (struct muster_file_options){ .size = sizeof(struct muster_file_options),
                                         .item_bytes = item_bytes,
                                         .engine = way ? way->engine : NULL,
                                         .direct = way ? way->direct : MUSTER_DIRECT_AUTO };
}

/* Whether the system itself takes direct requests here. Files in memory are not called direct. */
static inline bool has_direct(void)
{
    struct statfs facts;
    _Alignas(4096) static unsigned char page[4096];
    char path[128];
    snprintf(path, sizeof path, "%s/direct", folder);
    bool is_in_memory = statfs(folder, &facts) == 0 && facts.f_type == TMPFS_MAGIC;
    int file = open(path, O_CREAT | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
    bool has = !is_in_memory && file >= 0 && pwrite(file, page, sizeof page, 0) == sizeof page;
    if (file >= 0)
        close(file);
    unlink(path);
    return has;
}

static inline bool has_uring(void)
{
    struct io_uring_params params = { .flags = 0 };
    int ring = (int)syscall(__NR_io_uring_setup, 1, &params);
    if (ring >= 0)
        close(ring);
    return ring >= 0;
}

/*
 * NULL where this machine has no such way: no io_uring, or a file system without direct requests.
 * Any other failure fails the test.
 */
static inline struct muster_file *open_way(struct muster *m, const char *path, bool is_write,
                                           const struct muster_file_options *options)
{
    struct muster_file *file = NULL;
    muster_status status = is_write ? muster_file_write_open(m, path, options, &file, &problem)
                                    : muster_file_read_open(m, path, options, &file, &problem);
    bool is_there = (options->direct != MUSTER_DIRECT_ALWAYS || has_direct()) &&
                    (!options->engine || strcmp(options->engine, "io_uring") != 0 || has_uring());
    if (status != MUSTER_OK && (status != MUSTER_E_NOT_SUPPORTED || is_there))
        must(__FILE__, __LINE__, path, status);
    return file;
}

static inline struct muster_file *open_reading(struct muster *m, const char *path,
                                               size_t item_bytes)
{
    struct muster_file_options options = options_of(NULL, item_bytes);
    return open_way(m, path, false, &options);
}

static inline struct muster_file *open_writing(struct muster *m, const char *path,
                                               size_t item_bytes)
{
    struct muster_file_options options = options_of(NULL, item_bytes);
    return open_way(m, path, true, &options);
}

static inline struct muster_file_report report_of(struct muster_file *file)
{
    struct muster_file_report report = { .size = sizeof report };
    MUST(muster_file_report(file, &report, &problem));
    return report;
}

#endif
