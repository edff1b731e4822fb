#include "platform/aside.h"

#include "platform/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <muster/backend.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODE_NEW 0666 /* less the caller's umask */
_Static_assert(PLATFORM_PATH_MAX >= PATH_MAX, "what realpath writes fits");

static muster_status fail(const struct platform_aside *file, int code, struct muster_error *err)
{
    const char *fix = code == ENOSPC || code == EDQUOT ? "make room, or choose another place"
                                                       : "choose another path";
    return muster_error_fill(err, MUSTER_E_IO, code, fix, "%s could not be written: %s", file->path,
                             strerror(code));
}

/* The folder of the file that has this path. */
static void find_folder(const char *path, size_t length, char folder[PLATFORM_PATH_MAX])
{
    while (length > 0 && path[length - 1] != '/')
        length--;
    snprintf(folder, PLATFORM_PATH_MAX, "%.*s", length > 0 ? (int)length : 1,
             length > 0 ? path : ".");
}

/* -1 where there is no such thing; its name can be given to it only by way of /proc. */
static int open_unnamed(const char *target)
{
    char folder[PLATFORM_PATH_MAX];
    find_folder(target, strlen(target), folder);
    if (access("/proc/self/fd", X_OK) != 0)
        return -1;
    return open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, MODE_NEW);
}

/* Beside the target, so that it can be renamed, and unlike any other of this process or another. */
static int open_aside(struct platform_aside *file, const char *target, bool may_be_unnamed)
{
    static _Atomic unsigned number;
    int length = snprintf(file->temporary, sizeof file->temporary, "%s.muster-%ld-%u", target,
                          (long)getpid(), atomic_fetch_add(&number, 1));
    if (length < 0 || (size_t)length >= sizeof file->temporary) {
        file->temporary[0] = '\0';
        errno = ENAMETOOLONG;
        return -1;
    }
    file->target_length = strlen(target);
    int descriptor = may_be_unnamed ? open_unnamed(target) : -1;
    file->is_unnamed = descriptor >= 0;
    return descriptor >= 0
               ? descriptor
               : open(file->temporary, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, MODE_NEW);
}

/* What is there, followed to its end, so that a link stays a link. */
static bool find_target(const char *path, bool exists, char *target)
{
    if (exists)
        return realpath(path, target) != NULL;
    int length = snprintf(target, PLATFORM_PATH_MAX, "%s", path);
    errno = ENAMETOOLONG;
    return length >= 0 && length < PLATFORM_PATH_MAX;
}

static muster_status open_file(struct platform_aside *file, const char *path, bool may_be_unnamed,
                               struct muster_error *err)
{
    struct stat status;
    char target[PLATFORM_PATH_MAX];
    *file = (struct platform_aside){ .descriptor = -1, .path = path };
    if (path[0] == '\0')
        return fail(file, ENOENT, err);
    bool exists = stat(path, &status) == 0;
    if (exists && S_ISDIR(status.st_mode))
        return fail(file, EISDIR, err);
    /* A pipe that nobody reads any more would end the process with a signal. */
    if (exists && !S_ISREG(status.st_mode) && !S_ISCHR(status.st_mode))
        return muster_error_fill(err, MUSTER_E_IO, 0,
                                 "choose a file, or write through a function of your own",
                                 "%s is no file that can be replaced", path);
    /* What may not be written must not be replaced either. */
    if (exists && access(path, W_OK) != 0)
        return fail(file, errno, err);
    if (!find_target(path, exists, target))
        return fail(file, errno, err);
    file->descriptor = exists && S_ISCHR(status.st_mode)
                           ? open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY)
                           : open_aside(file, target, may_be_unnamed);
    if (file->descriptor < 0)
        return fail(file, errno, err);
    if (exists && file->temporary[0] && fchmod(file->descriptor, status.st_mode & 07777) != 0) {
        int code = errno;
        platform_aside_discard(file);
        return fail(file, code, err);
    }
    return MUSTER_OK;
}

muster_status platform_aside_open(struct platform_aside *file, const char *path,
                                  struct muster_error *err)
{
    return open_file(file, path, false, err);
}

muster_status platform_aside_open_unnamed(struct platform_aside *file, const char *path,
                                          struct muster_error *err)
{
    return open_file(file, path, true, err);
}

muster_status platform_aside_open_over(struct platform_aside *file, const char *path,
                                       struct muster_error *err)
{
    *file = (struct platform_aside){ .descriptor = -1, .path = path };
    file->descriptor = open_aside(file, path, false);
    return file->descriptor >= 0 ? MUSTER_OK : fail(file, errno, err);
}

muster_status platform_aside_write(struct platform_aside *file, const void *bytes, size_t count,
                                   struct muster_error *err)
{
    return platform_descriptor_write(file->descriptor, bytes, count) ? MUSTER_OK
                                                                     : fail(file, errno, err);
}

static bool give_name(struct platform_aside *file)
{
    char link[64];
    if (!file->is_unnamed)
        return true;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file->descriptor);
    file->is_unnamed = linkat(AT_FDCWD, link, AT_FDCWD, file->temporary, AT_SYMLINK_FOLLOW) != 0;
    return !file->is_unnamed;
}

/* That the disk knows the name too. Not every file system can be asked; the bytes are there. */
static void sync_folder(const struct platform_aside *file)
{
    char folder[PLATFORM_PATH_MAX];
    find_folder(file->temporary, file->target_length, folder);
    int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0)
        return;
    fsync(descriptor);
    close(descriptor);
}

/* Renames what was written aside; the temporary name begins with the target's. */
static bool put_in_place(struct platform_aside *file)
{
    char target[PLATFORM_PATH_MAX];
    memcpy(target, file->temporary, file->target_length);
    target[file->target_length] = '\0';
    return rename(file->temporary, target) == 0;
}

muster_status platform_aside_commit(struct platform_aside *file, struct muster_error *err)
{
    bool is_whole = !file->must_sync || !file->temporary[0] || fsync(file->descriptor) == 0;
    is_whole = is_whole && give_name(file);
    if (is_whole) {
        int descriptor = file->descriptor;
        file->descriptor = -1;
        /* Some file systems tell of a full disk only when a file is closed. */
        is_whole = close(descriptor) == 0 || errno == EINTR;
    }
    if (is_whole && (!file->temporary[0] || put_in_place(file))) {
        if (file->must_sync && file->temporary[0])
            sync_folder(file);
        return MUSTER_OK;
    }
    int code = errno;
    platform_aside_discard(file);
    return fail(file, code, err);
}

void platform_aside_discard(struct platform_aside *file)
{
    if (file->descriptor >= 0)
        close(file->descriptor);
    file->descriptor = -1;
    if (file->temporary[0] && !file->is_unnamed)
        unlink(file->temporary);
    file->temporary[0] = '\0';
}
