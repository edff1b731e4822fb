/*
 * What the tests of compiled kernels have in common: a folder of the program's own with caches in
 * it, compilers that are scripts, and what both leave there.
 */
#ifndef UNIT_KERNEL_SUPPORT_H
#define UNIT_KERNEL_SUPPORT_H

#include "kernel/build.h"
#include "platform/file.h"
#include "platform/machine.h"
#include "support.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define KERNEL_PATH_BYTES (PLATFORM_PATH_BYTES + 256)

static char folder[PLATFORM_PATH_BYTES]; /* of this program, emptied at its end */

static inline void path_in(char path[KERNEL_PATH_BYTES], const char *name)
{
    snprintf(path, KERNEL_PATH_BYTES, "%s/%s", folder, name);
}

/* A new folder for the cache, which is not there yet. */
static inline void use_cache(const char *name)
{
    char path[KERNEL_PATH_BYTES];
    path_in(path, name);
    setenv("MUSTER_CACHE", path, 1);
}

/* How many entries a folder has, and the path of the `index`-th. -1: there is no such folder. */
static inline int entries_of(const char *path, int index, char *found)
{
    int count = 0;
    DIR *all = opendir(path);
    if (!all)
        return -1;
    for (struct dirent *one; (one = readdir(all));) {
        if (strcmp(one->d_name, ".") == 0 || strcmp(one->d_name, "..") == 0)
            continue;
        if (count++ == index && found)
            snprintf(found, KERNEL_PATH_BYTES, "%s/%s", path, one->d_name);
    }
    closedir(all);
    return count;
}

static inline int cached(int index, char *found)
{
    return entries_of(getenv("MUSTER_CACHE"), index, found);
}

static inline size_t read_whole(const char *path, void *bytes, size_t room)
{
    FILE *file = fopen(path, "rb");
    CHECK(file != NULL);
    size_t size = fread(bytes, 1, room, file);
    fclose(file);
    return size;
}

static inline void write_whole(const char *path, const void *bytes, size_t size, mode_t mode)
{
    FILE *file = fopen(path, "wb");
    CHECK(file != NULL);
    CHECK_EQUAL(size, fwrite(bytes, 1, size, file));
    CHECK_EQUAL(0, fclose(file));
    CHECK_EQUAL(0, chmod(path, mode));
}

static inline struct muster_kernel_form portable_form(const char *text, const char *entry)
{
    return (struct muster_kernel_form){ .size = sizeof(struct muster_kernel_form),
                                        .kind = MUSTER_KERNEL_PORTABLE,
                                        .code = text,
                                        .code_bytes = strlen(text),
                                        .entry = entry,
                                        .file = "here.c" };
}

/* Runs the tests with such a folder, with a TMPDIR in it, and without the user's own settings. */
static inline int kernel_test_main(int argc, char **argv, const struct test *tests, size_t count)
{
    char command[PLATFORM_PATH_BYTES + 32];
    char temporary[KERNEL_PATH_BYTES];
    if (platform_folder_make_temporary(folder, NULL) != MUSTER_OK)
        return 1;
    path_in(temporary, "temporary");
    if (mkdir(temporary, 0700) != 0)
        return 1;
    setenv("TMPDIR", temporary, 1);
    unsetenv("MUSTER_CC");
    int code = test_main(argc, argv, tests, count);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    (void)!system(command);
    return code;
}

#endif
