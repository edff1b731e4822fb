#include "cluster/shared.h"

#include "base/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <muster/backend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void print_hash(const uint8_t hash[SHA256_BYTES], char text[65])
{
    for (size_t i = 0; i < SHA256_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", hash[i]);
}

void shared_hash(const void *bytes, size_t size, char text[65])
{
    struct sha256 hash;
    uint8_t out[SHA256_BYTES];
    sha256_init(&hash);
    sha256_add(&hash, bytes, size);
    sha256_finish(&hash, out);
    print_hash(out, text);
}

muster_status shared_read(int descriptor, uint64_t at, void *to, size_t bytes,
                          struct muster_error *err)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(descriptor, (char *)to + done, bytes - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return muster_error_fill(err, MUSTER_E_IO, got < 0 ? errno : 0, NULL,
                                     "reading the input failed: %s",
                                     got < 0 ? strerror(errno) : "it has become shorter");
        done += (size_t)got;
    }
    return MUSTER_OK;
}

muster_status shared_write(int descriptor, uint64_t at, const void *from, size_t bytes,
                           struct muster_error *err)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t put =
            pwrite(descriptor, (const char *)from + done, bytes - done, (off_t)(at + done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return muster_error_fill(err, MUSTER_E_IO, errno,
                                     errno == ENOSPC ? "make room, then: --resume JOB" : NULL,
                                     "writing the output failed: %s", strerror(errno));
        done += (size_t)put;
    }
    return MUSTER_OK;
}

/* All but its path. */
static muster_status describe(int descriptor, struct shared_file *out, struct muster_error *err)
{
    struct stat facts;
    if (fstat(descriptor, &facts) != 0 || !S_ISREG(facts.st_mode))
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                                 "write it to a file first: machines read it in any order",
                                 "the input of a fleet is a file, not a pipe or a folder");
    uint64_t size = (uint64_t)facts.st_size;
    size_t part = size < SHARED_ENDS_BYTES ? (size_t)size : SHARED_ENDS_BYTES;
    char *buffer = malloc(2 * SHARED_ENDS_BYTES);
    if (!buffer)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory to read a file");
    muster_status status = shared_read(descriptor, 0, buffer, part, err);
    if (status == MUSTER_OK)
        status = shared_read(descriptor, size - part, buffer + part, part, err);
    if (status == MUSTER_OK) {
        out->bytes = size;
        out->time_ns =
            (uint64_t)facts.st_mtim.tv_sec * UINT64_C(1000000000) + (uint64_t)facts.st_mtim.tv_nsec;
        shared_hash(buffer, 2 * part, out->ends);
    }
    free(buffer);
    return status;
}

muster_status shared_describe(const char *path, struct shared_file *out, struct muster_error *err)
{
    char *whole = realpath(path, NULL);
    if (!whole || strlen(whole) >= sizeof out->path || strpbrk(whole, "\n")) {
        int code = whole ? ENAMETOOLONG : errno;
        free(whole);
        return muster_error_fill(err, code == ENOENT ? MUSTER_E_NOT_FOUND : MUSTER_E_IO, code, NULL,
                                 "cannot read %.160s: %s", path, strerror(code));
    }
    int descriptor = open(whole, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    muster_status status = descriptor < 0
                               ? muster_error_fill(err, MUSTER_E_IO, errno, NULL,
                                                   "cannot read %.160s: %s", path, strerror(errno))
                               : describe(descriptor, out, err);
    memcpy(out->path, whole, strlen(whole) + 1);
    free(whole);
    if (descriptor >= 0)
        close(descriptor);
    return status;
}

int shared_open(const struct shared_file *file)
{
    struct shared_file here;
    int descriptor = *file->path ? open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (descriptor >= 0 && describe(descriptor, &here, NULL) == MUSTER_OK &&
        here.bytes == file->bytes && here.time_ns == file->time_ns &&
        strcmp(here.ends, file->ends) == 0)
        return descriptor;
    if (descriptor >= 0)
        close(descriptor);
    return -1;
}
