#include "platform/aside.h"

#include "platform/file.h"

#include <errno.h>
#include <fcntl.h>
#include <muster/backend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define MODE_NEW 0666     /* less the caller's umask */
#define MODE_REPLACE 0600 /* until it has the permissions of what it replaces */
#define LINKS_MAX 40      /* as many as the system follows */
#define NAMES_MAX 1000    /* temporary names that are tried */
#define ACCESS_LIST "system.posix_acl_access"
#define ACCESS_LIST_BYTES 4096

static muster_status fail(const struct platform_aside *file, int code, struct muster_error *err)
{
    const char *fix = code == ENOSPC || code == EDQUOT ? "make room, or choose another place"
                                                       : "choose another path";
    return muster_error_fill(err, MUSTER_E_IO, code, fix, "%s could not be written: %s", file->path,
                             strerror(code));
}

static void close_folder(struct platform_aside *file)
{
    int code = errno;
    if (file->folder >= 0)
        close(file->folder);
    file->folder = -1;
    errno = code;
}

/* Finding the place. */

/* Opens the folder of `path`, which is relative to the folder so far, and takes the name in it. */
static bool enter_folder(struct platform_aside *file, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char folder[PATH_MAX];
    size_t length = slash ? (size_t)(name - path) : 0;
    if (length >= sizeof folder || strlen(name) > NAME_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(folder, path, length);
    strcpy(folder + length, length > 0 ? "" : ".");
    int at = file->folder < 0 ? AT_FDCWD : file->folder;
    int entered = openat(at, folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (entered < 0)
        return false;
    close_folder(file);
    file->folder = entered;
    strcpy(file->name, name);
    return true;
}

/* Whether the entries of the folder are the descriptors of this process. */
static bool has_descriptors(int folder)
{
    static const char *const paths[] = { "/proc/self/fd", "/proc/thread-self/fd" };
    struct stat it, known;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (fstat(folder, &it) == 0 && stat(paths[i], &known) == 0 && it.st_dev == known.st_dev &&
            it.st_ino == known.st_ino)
            return true;
    return false;
}

/*
 * Follows links one by one to where the file is, or would be. `*descriptor` is not -1 if they lead
 * to an open descriptor. False with errno set.
 */
static bool find_place(struct platform_aside *file, bool must_follow, int *descriptor)
{
    char link[PATH_MAX];
    *descriptor = -1;
    if (!enter_folder(file, file->path))
        return false;
    for (int i = 0; must_follow && i <= LINKS_MAX; i++) {
        ssize_t length = readlinkat(file->folder, file->name, link, sizeof link - 1);
        if (length < 0 && errno != EINVAL && errno != ENOENT)
            return false;
        if (length < 0)
            return true;
        /* What such a link says is not where it leads. */
        if (has_descriptors(file->folder)) {
            *descriptor = atoi(file->name);
            return true;
        }
        link[length] = '\0';
        if (!enter_folder(file, link))
            return false;
    }
    errno = ELOOP;
    return !must_follow;
}

/* A second descriptor of the same open file: both go on from where the other has come to. */
static int open_descriptor(int descriptor)
{
    int flags = fcntl(descriptor, F_GETFL);
    if (flags >= 0 && (flags & O_ACCMODE) == O_RDONLY) {
        errno = EBADF;
        return -1;
    }
    return fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

static int open_in_place(const struct platform_aside *file)
{
    int descriptor;
    do
        descriptor = openat(file->folder, file->name, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    while (descriptor < 0 && errno == EINTR);
    return descriptor;
}

/* Making the file. */

/*
 * Unlike any other of this process, and as a rule of another. A long name is cut, between two
 * characters of UTF-8.
 */
static void choose_name(struct platform_aside *file)
{
    static _Atomic unsigned number;
    char ending[48];
    int bytes = snprintf(ending, sizeof ending, ".muster-%ld-%u", (long)getpid(),
                         atomic_fetch_add(&number, 1));
    size_t kept = strlen(file->name), room = NAME_MAX - (size_t)bytes;
    if (kept > room)
        for (kept = room; kept > 0 && (file->name[kept] & 0xC0) == 0x80;)
            kept--;
    memcpy(file->temporary, file->name, kept);
    memcpy(file->temporary + kept, ending, (size_t)bytes + 1);
}

/* With the name of the file in `thing` before it is there, so that a sweep finds it. */
static bool begin_change(struct platform_aside *file)
{
    file->thing.kind = PLATFORM_FILE;
    file->thing.folder = file->folder;
    file->thing.name = file->temporary;
    return platform_temporary_begin(&file->thing);
}

static int open_named(struct platform_aside *file, mode_t mode)
{
    int descriptor = -1;
    if (!begin_change(file))
        return -1;
    for (int i = 0; i < NAMES_MAX && descriptor < 0 && (i == 0 || errno == EEXIST); i++) {
        choose_name(file);
        descriptor =
            openat(file->folder, file->temporary, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, mode);
    }
    platform_temporary_end(&file->thing, descriptor >= 0);
    if (descriptor < 0)
        file->temporary[0] = '\0';
    return descriptor;
}

/* Without a name where the file system can; it can be named later only by way of /proc. */
static int open_aside(struct platform_aside *file, mode_t mode)
{
    int descriptor = -1;
    if (access("/proc/self/fd", X_OK) == 0)
        descriptor = openat(file->folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
    return descriptor >= 0 ? descriptor : open_named(file, mode);
}

/*
 * An access list says more than the mode, whose group bits are then its upper limit: without the
 * list these would be the group's own. A list that comes from the folder goes.
 */
static bool keep_access_list(const struct platform_aside *file)
{
    char list[ACCESS_LIST_BYTES];
    char path[64 + NAME_MAX];
    snprintf(path, sizeof path, "/proc/self/fd/%d/%s", file->folder, file->name);
    ssize_t bytes = getxattr(path, ACCESS_LIST, list, sizeof list);
    if (bytes > 0)
        return fsetxattr(file->descriptor, ACCESS_LIST, list, (size_t)bytes, 0) == 0;
    bool has_none = errno == ENODATA || errno == EOPNOTSUPP || errno == ENOENT;
    fremovexattr(file->descriptor, ACCESS_LIST);
    return has_none;
}

/*
 * The owner first: until the permissions are set, nobody else can open the file. A user who was not of
 * the file's group had the permissions of others, and must not get more in the new group.
 */
static bool keep_rights(const struct platform_aside *file, const struct stat *old)
{
    int descriptor = file->descriptor;
    mode_t mode = old->st_mode & 0777;
    bool has_group = fchown(descriptor, old->st_uid, old->st_gid) == 0 ||
                     fchown(descriptor, (uid_t)-1, old->st_gid) == 0;
    if (!keep_access_list(file))
        mode &= ~(mode_t)070;
    if (!has_group)
        mode &= ~(mode_t)070 | (mode & 07) << 3;
    return fchmod(descriptor, mode) == 0;
}

/* In a sticky folder only the owner of a file can replace it: known now, and not after the work. */
static bool may_replace(const struct platform_aside *file, const struct stat *old)
{
    struct stat folder;
    uid_t own = geteuid();
    if (faccessat(file->folder, file->name, W_OK, AT_EACCESS) != 0)
        return false;
    if (own == 0 || old->st_uid == own || fstat(file->folder, &folder) != 0 ||
        !(folder.st_mode & S_ISVTX) || folder.st_uid == own)
        return true;
    errno = EPERM;
    return false;
}

/* Opening. */

static bool is_pipe(mode_t mode)
{
    return S_ISFIFO(mode) || S_ISSOCK(mode);
}

static muster_status refuse_kind(const struct platform_aside *file, struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_IO, 0,
                             "choose a file, or write through a function of your own",
                             "%s is not a regular file and cannot be replaced", file->path);
}

/* Writes in place: through `descriptor` if that is not -1. */
static muster_status open_as_it_is(struct platform_aside *file, int descriptor,
                                   struct muster_error *err)
{
    file->descriptor = descriptor >= 0 ? open_descriptor(descriptor) : open_in_place(file);
    close_folder(file);
    return file->descriptor >= 0 ? MUSTER_OK : fail(file, errno, err);
}

static muster_status open_to_replace(struct platform_aside *file, const struct stat *old,
                                     struct muster_error *err)
{
    file->descriptor = open_aside(file, old ? MODE_REPLACE : MODE_NEW);
    if (file->descriptor >= 0 && (!old || keep_rights(file, old)))
        return MUSTER_OK;
    int code = errno;
    platform_aside_discard(file);
    return fail(file, code, err);
}

static muster_status open_found(struct platform_aside *file, int descriptor, unsigned how,
                                struct muster_error *err)
{
    struct stat old;
    bool exists =
        (descriptor >= 0 ? fstat(descriptor, &old)
                         : fstatat(file->folder, file->name, &old, AT_SYMLINK_NOFOLLOW)) == 0;
    if (!exists && (descriptor >= 0 || errno != ENOENT))
        return fail(file, errno, err);
    if (exists && S_ISDIR(old.st_mode))
        return fail(file, EISDIR, err);
    if (how & PLATFORM_ASIDE_OVER)
        return open_to_replace(file, NULL, err);
    /* A pipe that nobody reads any more would end the process with a signal. */
    bool is_device =
        exists && (S_ISCHR(old.st_mode) || (is_pipe(old.st_mode) && (how & PLATFORM_ASIDE_PIPES)));
    if (exists && !S_ISREG(old.st_mode) && !is_device)
        return refuse_kind(file, err);
    if (descriptor >= 0 || is_device)
        return open_as_it_is(file, descriptor, err);
    /* What may not be written must not be replaced either. */
    if (exists && !may_replace(file, &old))
        return fail(file, errno, err);
    return open_to_replace(file, exists ? &old : NULL, err);
}

muster_status platform_aside_open(struct platform_aside *file, const char *path, unsigned how,
                                  struct muster_error *err)
{
    int descriptor;
    struct stat facts;
    *file = (struct platform_aside){ .descriptor = -1, .path = path, .folder = -1 };
    bool must_follow = !(how & PLATFORM_ASIDE_OVER);
    /* The system itself refuses some links, of strangers in /tmp for example. */
    bool can_be = path[0] != '\0' && (!must_follow || stat(path, &facts) == 0 || errno == ENOENT);
    if (!can_be || !find_place(file, must_follow, &descriptor)) {
        int code = path[0] == '\0' ? ENOENT : errno;
        close_folder(file);
        return fail(file, code, err);
    }
    muster_status status =
        file->name[0] ? open_found(file, descriptor, how, err) : fail(file, EISDIR, err);
    if (status != MUSTER_OK)
        close_folder(file);
    return status;
}

muster_status platform_aside_write(struct platform_aside *file, const void *bytes, size_t count,
                                   struct muster_error *err)
{
    return platform_descriptor_write(file->descriptor, bytes, count) ? MUSTER_OK
                                                                     : fail(file, errno, err);
}

/* The end. */

static bool give_name(struct platform_aside *file)
{
    char link[64];
    int result = -1;
    if (file->temporary[0])
        return true;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file->descriptor);
    for (int i = 0; i < NAMES_MAX && result != 0 && (i == 0 || errno == EEXIST); i++) {
        choose_name(file);
        result = linkat(AT_FDCWD, link, file->folder, file->temporary, AT_SYMLINK_FOLLOW);
    }
    if (result != 0)
        file->temporary[0] = '\0';
    return result == 0;
}

static bool close_descriptor(struct platform_aside *file)
{
    int descriptor = file->descriptor;
    file->descriptor = -1;
    /* Some file systems tell of a full disk only when a file is closed. */
    return close(descriptor) == 0 || errno == EINTR;
}

/* No sweep comes between the temporary name and the right one. */
static bool put_in_place(struct platform_aside *file)
{
    if (!begin_change(file))
        return false;
    bool is_done = (file->is_prepared || (give_name(file) && close_descriptor(file))) &&
                   renameat(file->folder, file->temporary, file->folder, file->name) == 0;
    if (is_done)
        file->temporary[0] = '\0';
    platform_temporary_end(&file->thing, file->temporary[0] != '\0');
    return is_done;
}

/* That the disk knows the name too. Not every file system can be asked; the bytes are there. */
static void sync_folder(const struct platform_aside *file)
{
    int descriptor = openat(file->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0)
        return;
    fsync(descriptor);
    close(descriptor);
}

static bool sync_content(const struct platform_aside *file)
{
    return file->is_prepared || !file->must_sync || fsync(file->descriptor) == 0;
}

muster_status platform_aside_prepare(struct platform_aside *file, struct muster_error *err)
{
    if (file->folder < 0 || file->is_prepared)
        return MUSTER_OK;
    bool is_whole = sync_content(file) && begin_change(file);
    if (is_whole) {
        is_whole = give_name(file) && close_descriptor(file);
        platform_temporary_end(&file->thing, file->temporary[0] != '\0');
    }
    int code = errno;
    file->is_prepared = is_whole;
    if (is_whole)
        return MUSTER_OK;
    platform_aside_discard(file);
    return fail(file, code, err);
}

muster_status platform_aside_commit(struct platform_aside *file, struct muster_error *err)
{
    bool is_whole =
        file->folder < 0 ? close_descriptor(file) : sync_content(file) && put_in_place(file);
    int code = errno;
    if (is_whole && file->folder >= 0 && file->must_sync)
        sync_folder(file);
    platform_aside_discard(file);
    return is_whole ? MUSTER_OK : fail(file, code, err);
}

void platform_aside_discard(struct platform_aside *file)
{
    if (file->descriptor >= 0)
        close(file->descriptor);
    file->descriptor = -1;
    if (file->temporary[0])
        unlinkat(file->folder, file->temporary, 0);
    platform_temporary_forget(&file->thing);
    file->temporary[0] = '\0';
    close_folder(file);
}
