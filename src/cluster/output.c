#include "cluster/output.h"

#include <errno.h>
#include <fcntl.h>
#include <muster/backend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static muster_status cannot_write(const char *path, int code, struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_IO, code,
                             code == ENOSPC || code == EDQUOT ? "make room" : NULL,
                             "cannot write %.160s: %s", path, strerror(code));
}

/* The folder as it really is, and the name in it; a link is followed if it leads to something. */
static bool split(const char *path, char folder[SHARED_PATH_BYTES], char name[256])
{
    char copy[SHARED_PATH_BYTES];
    char *whole = realpath(path, NULL);
    if (snprintf(copy, sizeof copy, "%s", whole ? whole : path) >= (int)sizeof copy) {
        free(whole);
        errno = ENAMETOOLONG;
        return false;
    }
    free(whole);
    char *slash = strrchr(copy, '/');
    const char *last = slash ? slash + 1 : copy;
    if (!*last || strlen(last) >= 256) {
        errno = *last ? ENAMETOOLONG : EISDIR;
        return false;
    }
    memcpy(name, last, strlen(last) + 1);
    if (slash)
        slash[slash == copy ? 1 : 0] = '\0';
    char *real = realpath(slash ? copy : ".", NULL);
    bool has_room = real && strlen(real) + 2 < SHARED_PATH_BYTES;
    if (has_room)
        memcpy(folder, strcmp(real, "/") == 0 ? "" : real,
               strcmp(real, "/") == 0 ? 1 : strlen(real) + 1);
    else if (real)
        errno = ENAMETOOLONG;
    free(real);
    return has_room;
}

muster_status output_find(const char *path, const char *job, char out[SHARED_PATH_BYTES],
                          char part[SHARED_PATH_BYTES], struct muster_error *err)
{
    char folder[SHARED_PATH_BYTES], name[256];
    struct stat facts;
    if (!split(path, folder, name))
        return cannot_write(path, errno, err);
    if (snprintf(out, SHARED_PATH_BYTES, "%s/%s", folder, name) >= SHARED_PATH_BYTES ||
        snprintf(part, SHARED_PATH_BYTES, "%s/.%s.%s.part", folder, name, job) >=
            SHARED_PATH_BYTES ||
        strpbrk(out, "\n"))
        return cannot_write(path, ENAMETOOLONG, err);
    if (stat(out, &facts) == 0 && !S_ISREG(facts.st_mode))
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                                 "give a file: results come in any order",
                                 "the output of a fleet is a file, and %.120s is none", path);
    return MUSTER_OK;
}

muster_status output_create(struct cluster_output *output, const char *part, uint64_t bytes,
                            const void *head, size_t head_bytes, struct muster_error *err)
{
    int file = open(part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0)
        return cannot_write(part, errno, err);
    memcpy(output->part, part, strlen(part) + 1);
    output->descriptor = file;
    /* All room at once: a job should not end after hours because of it. */
    int code = posix_fallocate(file, 0, (off_t)bytes);
    if (code == EOPNOTSUPP || code == EINVAL)
        code = ftruncate(file, (off_t)bytes) == 0 ? 0 : errno;
    muster_status status = code == 0 ? MUSTER_OK : cannot_write(part, code, err);
    if (status == MUSTER_OK && head_bytes > 0)
        status = shared_write(file, 0, head, head_bytes, err);
    if (status != MUSTER_OK)
        output_drop(output);
    return status;
}

muster_status output_open(struct cluster_output *output, const char *part, uint64_t bytes,
                          struct muster_error *err)
{
    struct stat facts;
    int file = open(part, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return cannot_write(part, errno, err);
    if (fstat(file, &facts) != 0 || (uint64_t)facts.st_size != bytes) {
        close(file);
        return muster_error_fill(err, MUSTER_E_IO, 0, "cancel the job and submit it again",
                                 "%.160s has not the size that this job's output has", part);
    }
    memcpy(output->part, part, strlen(part) + 1);
    output->descriptor = file;
    return MUSTER_OK;
}

muster_status output_sync(struct cluster_output *output, struct muster_error *err)
{
    return fdatasync(output->descriptor) == 0 ? MUSTER_OK : cannot_write(output->part, errno, err);
}

/* Another submitter, which noted the end and died or was slow, has put it there. */
static bool is_in_place(const struct cluster_output *output, const char *path)
{
    struct stat ours, there;
    return fstat(output->descriptor, &ours) == 0 && stat(path, &there) == 0 &&
           ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

muster_status output_finish(struct cluster_output *output, const char *path,
                            struct muster_error *err)
{
    struct stat facts;
    /* A file that is replaced keeps its permissions, less those that run it as another user. */
    if (stat(path, &facts) == 0)
        (void)!fchmod(output->descriptor, facts.st_mode & 0777);
    if (fsync(output->descriptor) != 0 ||
        (rename(output->part, path) != 0 && !(errno == ENOENT && is_in_place(output, path))))
        return cannot_write(path, errno, err);
    output_close(output);
    return MUSTER_OK;
}

void output_close(struct cluster_output *output)
{
    if (output->descriptor >= 0)
        close(output->descriptor);
    output->descriptor = -1;
}

void output_drop(struct cluster_output *output)
{
    if (output->descriptor >= 0)
        unlink(output->part);
    output_close(output);
}
