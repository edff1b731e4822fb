#include "platform/file.h"

#include "platform/aside.h"
#include "platform/machine.h"
#include "platform/temporary.h"

#include <errno.h>
#include <fcntl.h>
#include <muster/backend.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NS_PER_S UINT64_C(1000000000)

bool platform_descriptor_write(int descriptor, const void *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t step = write(descriptor, (const char *)bytes + done, size - done);
        if (step < 0 && errno == EINTR)
            continue;
        if (step <= 0)
            return false;
        done += (size_t)step;
    }
    return true;
}

static muster_status cannot_write(const char *path, int code, struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_IO, code, "make room, or choose another place",
                             "cannot write %s: %s", path, strerror(code));
}

muster_status platform_file_write(const char *path, const void *bytes, size_t size,
                                  struct muster_error *err)
{
    int file = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (file < 0)
        return cannot_write(path, errno, err);
    int code = platform_descriptor_write(file, bytes, size) ? 0 : errno;
    if (close(file) != 0 && code == 0)
        code = errno;
    if (code == 0)
        return MUSTER_OK;
    unlink(path);
    return cannot_write(path, code, err);
}

static muster_status put(const char *path, unsigned how, const void *bytes, size_t size,
                         struct muster_error *err)
{
    struct platform_aside file;
    muster_status status = platform_aside_open(&file, path, how, err);
    if (status != MUSTER_OK)
        return status;
    if ((how & PLATFORM_ASIDE_OVER) && fchmod(file.descriptor, 0600) != 0)
        status = cannot_write(path, errno, err);
    if (status == MUSTER_OK)
        status = platform_aside_write(&file, bytes, size, err);
    if (status == MUSTER_OK)
        return platform_aside_commit(&file, err);
    platform_aside_discard(&file);
    return status;
}

muster_status platform_file_replace(const char *path, const void *bytes, size_t size,
                                    struct muster_error *err)
{
    return put(path, 0, bytes, size, err);
}

muster_status platform_file_put_over(const char *path, const void *bytes, size_t size,
                                     struct muster_error *err)
{
    return put(path, PLATFORM_ASIDE_OVER, bytes, size, err);
}

bool platform_file_is_ours(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && (facts.st_uid == geteuid() || facts.st_uid == 0) &&
           (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool platform_folder_make(const char *path)
{
    char part[PLATFORM_PATH_BYTES];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof part)
        return false;
    for (size_t i = 1; i <= length; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0700) != 0 && errno != EEXIST && i == length)
            return false;
    }
    return true;
}

/* Folders are known by their paths. */
struct temporary_folder {
    struct platform_temporary thing;
    struct temporary_folder *next;
    char path[PLATFORM_PATH_BYTES];
};
static struct temporary_folder *folders; /* owns */
static pthread_mutex_t folders_lock = PTHREAD_MUTEX_INITIALIZER;

static void keep_folder(struct temporary_folder *folder)
{
    pthread_mutex_lock(&folders_lock);
    folder->next = folders;
    folders = folder;
    pthread_mutex_unlock(&folders_lock);
}

void platform_folder_remove_temporary(const char *path)
{
    pthread_mutex_lock(&folders_lock);
    struct temporary_folder **at = &folders;
    while (*at && strcmp((*at)->path, path) != 0)
        at = &(*at)->next;
    struct temporary_folder *folder = *at;
    if (folder)
        *at = folder->next;
    pthread_mutex_unlock(&folders_lock);
    if (!folder)
        return;
    platform_temporary_remove_folder(path);
    platform_temporary_forget(&folder->thing);
    free(folder);
}

muster_status platform_folder_make_temporary(char *path, struct muster_error *err)
{
    const char *top = platform_environment("TMPDIR");
    if (!top || !*top || strlen(top) > PLATFORM_PATH_BYTES - 32)
        top = "/tmp";
    struct temporary_folder *folder = calloc(1, sizeof *folder);
    if (!folder)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no host memory for a folder");
    folder->thing.kind = PLATFORM_FOLDER;
    folder->thing.name = folder->path;
    snprintf(folder->path, sizeof folder->path, "%s/muster-XXXXXX", top);
    if (platform_temporary_begin(&folder->thing)) {
        bool is_there = mkdtemp(folder->path) != NULL;
        platform_temporary_end(&folder->thing, is_there);
        if (is_there) {
            memcpy(path, folder->path, sizeof folder->path);
            keep_folder(folder);
            return MUSTER_OK;
        }
    }
    int code = errno;
    free(folder);
    return muster_error_fill(err, MUSTER_E_IO, code, "set TMPDIR to a folder with room",
                             "cannot make a folder in %s: %s", top, strerror(code));
}

static bool is_program(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISREG(facts.st_mode) && access(path, X_OK) == 0;
}

bool platform_program_find(const char *name, char path[PLATFORM_PATH_BYTES])
{
    const char *places = platform_environment("PATH");
    if (!places || !*name)
        return false;
    if (strchr(name, '/')) {
        snprintf(path, PLATFORM_PATH_BYTES, "%s", name);
        return strlen(name) < PLATFORM_PATH_BYTES && is_program(path);
    }
    for (const char *at = places;;) {
        size_t length = strcspn(at, ":");
        /* An empty place would be the current folder, and so would a relative one. */
        if (length > 0 && *at == '/' && length + strlen(name) + 2 <= PLATFORM_PATH_BYTES) {
            snprintf(path, PLATFORM_PATH_BYTES, "%.*s/%s", (int)length, at, name);
            if (is_program(path))
                return true;
        }
        if (at[length] == '\0')
            return false;
        at += length + 1;
    }
}

bool platform_file_identity(const char *path, uint64_t identity[4])
{
    struct stat facts;
    if (stat(path, &facts) != 0)
        return false;
    identity[0] = (uint64_t)facts.st_size;
    identity[1] = (uint64_t)facts.st_mtim.tv_sec * NS_PER_S + (uint64_t)facts.st_mtim.tv_nsec;
    identity[2] = (uint64_t)facts.st_ctim.tv_sec * NS_PER_S + (uint64_t)facts.st_ctim.tv_nsec;
    identity[3] = (uint64_t)facts.st_ino;
    return true;
}
