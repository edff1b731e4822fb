#include "aside.h"

#include "message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MODE_NEW 0666 /* less the caller's umask */

static bool fail(struct aside *aside, int error)
{
    message_error("%s could not be written: %s", aside->path, strerror(error));
    aside_discard(aside);
    return false;
}

/*
 * A file without a name vanishes with the process, whatever ends it. Where the file system has no
 * such thing it gets its temporary name at once.
 */
static int open_nameless(const char *target)
{
    const char *slash = strrchr(target, '/');
    char *folder =
        slash ? strndup(target, slash == target ? 1 : (size_t)(slash - target)) : strdup(".");
    if (!folder)
        return -1;
    int descriptor = access("/proc/self/fd", X_OK) == 0
                         ? open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, MODE_NEW)
                         : -1;
    free(folder);
    return descriptor;
}

static int open_temporary(struct aside *aside)
{
    size_t bytes = strlen(aside->target) + 32;
    aside->temporary = malloc(bytes);
    if (!aside->temporary)
        return -1;
    snprintf(aside->temporary, bytes, "%s.muster-%ld", aside->target, (long)getpid());
    int descriptor = open_nameless(aside->target);
    if (descriptor >= 0)
        return descriptor;
    descriptor = open(aside->temporary, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, MODE_NEW);
    aside->has_name = descriptor >= 0;
    return descriptor;
}

bool aside_open(struct aside *aside, const char *path)
{
    struct stat status;
    aside->path = path;
    aside->temporary = NULL;
    aside->has_name = aside->is_in_place = false;
    output_init(&aside->out, -1);
    bool exists = stat(path, &status) == 0;
    aside->is_in_place = exists && !S_ISREG(status.st_mode);
    /* The link to a pipe, such as /dev/stdout, leads to no other path. */
    aside->target = exists && !aside->is_in_place ? realpath(path, NULL) : strdup(path);
    if (!aside->target)
        return fail(aside, errno);
    if (exists && S_ISDIR(status.st_mode))
        return fail(aside, EISDIR);
    /* What may not be written must not be replaced either. */
    if (exists && access(path, W_OK) != 0)
        return fail(aside, errno);
    int descriptor = aside->is_in_place ? open(aside->target, O_WRONLY | O_CLOEXEC | O_NOCTTY)
                                        : open_temporary(aside);
    if (descriptor < 0)
        return fail(aside, errno);
    output_init(&aside->out, descriptor);
    if (exists && !aside->is_in_place && fchmod(descriptor, status.st_mode & 07777) != 0)
        return fail(aside, errno);
    return true;
}

/* Gives a file without a name its temporary one, by way of the descriptor. */
static bool name_it(struct aside *aside)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", aside->out.descriptor);
    aside->has_name = linkat(AT_FDCWD, link, AT_FDCWD, aside->temporary, AT_SYMLINK_FOLLOW) == 0;
    return aside->has_name;
}

bool aside_commit(struct aside *aside)
{
    output_flush(&aside->out);
    if (aside->out.error)
        return fail(aside, aside->out.error);
    if (!aside->is_in_place && !aside->has_name && !name_it(aside))
        return fail(aside, errno);
    int descriptor = aside->out.descriptor;
    aside->out.descriptor = -1;
    /* Some file systems tell of a full disk only here. */
    if (close(descriptor) != 0 && errno != EINTR)
        return fail(aside, errno);
    if (!aside->is_in_place && rename(aside->temporary, aside->target) != 0)
        return fail(aside, errno);
    aside->has_name = false;
    aside_discard(aside);
    return true;
}

void aside_discard(struct aside *aside)
{
    if (aside->out.descriptor >= 0)
        close(aside->out.descriptor);
    aside->out.descriptor = -1;
    if (aside->has_name)
        unlink(aside->temporary);
    aside->has_name = false;
    free(aside->temporary);
    free(aside->target);
    aside->temporary = aside->target = NULL;
}
