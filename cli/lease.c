#include "lease.h"

#include "message.h"
#include "number.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FOLDER_OF_ADMINISTRATOR "/run/muster"
#define FOLDER_OF_ALL "/tmp/muster-leases"
#define ENDING ".lease"
#define TEXT_BYTES 512
/* Above what programs use: descriptors are closed in order, and a driver's come before the lease. */
#define DESCRIPTOR_MIN 1000
/* A file that is taken away as often as this while it is being locked is another user's mischief. */
#define TRIES_MAX 100

/* The folder. */

static const char *folder_path(void)
{
    struct stat about;
    const char *asked = getenv(LEASE_FOLDER_VARIABLE);
    if (asked && *asked)
        return asked;
    return lstat(FOLDER_OF_ADMINISTRATOR, &about) == 0 ? FOLDER_OF_ADMINISTRATOR : FOLDER_OF_ALL;
}

static bool refuse_folder(const char *path, const char *why)
{
    message_error("leases cannot be kept in %s: %s", path, why);
    message_detail("fix: remove it, or name another folder in " LEASE_FOLDER_VARIABLE
                   ", the same for all who share the devices");
    return false;
}

/*
 * Another user may have made it, which is how it is shared. It must be a folder, not a link to one
 * of ours that is then filled with files; and where others can write, nobody but its owner may be
 * able to remove the files of others.
 */
static bool check_folder(const struct lease_folder *folder)
{
    struct stat about;
    if (fstat(folder->descriptor, &about) != 0)
        return refuse_folder(folder->path, strerror(errno));
    if ((about.st_mode & (S_IWGRP | S_IWOTH)) && !(about.st_mode & S_ISVTX))
        return refuse_folder(folder->path, "others can remove its files, as it is not sticky");
    return true;
}

/* The mode is as given at once: a file that is nobody else's for a moment refuses a lease to them. */
static mode_t clear_umask(void)
{
    return umask(0);
}

bool lease_folder_open(struct lease_folder *folder, bool is_made)
{
    const char *path = folder_path();
    folder->descriptor = -1;
    if (strlen(path) >= sizeof folder->path)
        return refuse_folder(path, "its name is too long");
    memcpy(folder->path, path, strlen(path) + 1);
    if (is_made) {
        mode_t before = clear_umask();
        int made = mkdir(path, 01777);
        int error = errno;
        umask(before);
        if (made != 0 && error != EEXIST)
            return refuse_folder(path, strerror(error));
    }
    folder->descriptor = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder->descriptor < 0 && errno == ENOENT && !is_made)
        return true;
    if (folder->descriptor < 0)
        return refuse_folder(path, errno == ENOTDIR || errno == ELOOP ? "it is no folder, or a link"
                                                                      : strerror(errno));
    if (check_folder(folder))
        return true;
    lease_folder_close(folder);
    return false;
}

void lease_folder_close(struct lease_folder *folder)
{
    if (folder->descriptor >= 0)
        close(folder->descriptor);
    folder->descriptor = -1;
}

/* Files. */

static void name_file(const char *key, char name[LEASE_KEY_BYTES + sizeof ENDING])
{
    snprintf(name, LEASE_KEY_BYTES + sizeof ENDING, "%.*s" ENDING, LEASE_KEY_BYTES - 1, key);
    for (char *at = name; *at; at++)
        if (*at == '/')
            *at = '_';
}

/*
 * Open for writing, as a lock of this kind must be; -1 with errno set. Without O_CREAT where it is
 * there already: kernels refuse to open the files of others with it in a sticky folder. Not to be
 * held up by a pipe of that name.
 */
static int open_file(const struct lease_folder *folder, const char *name, bool is_made)
{
    const int how = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    struct stat about;
    int descriptor = -1;
    for (int i = 0; i < TRIES_MAX && descriptor < 0; i++) {
        descriptor = openat(folder->descriptor, name, how);
        if (descriptor >= 0 || errno != ENOENT || !is_made)
            break;
        mode_t before = clear_umask();
        descriptor = openat(folder->descriptor, name, how | O_CREAT | O_EXCL, 0666);
        int error = errno;
        umask(before);
        errno = error;
        if (descriptor < 0 && errno != EEXIST)
            break;
    }
    if (descriptor < 0)
        return -1;
    /* A second name may be one of another file of ours, which then would be written to. */
    if (fstat(descriptor, &about) != 0 || !S_ISREG(about.st_mode) || about.st_nlink > 1) {
        close(descriptor);
        errno = EPERM;
        return -1;
    }
    return descriptor;
}

/* Whether the name still leads to the file that is open; else the lock keeps nobody away. */
static bool is_in_place(const struct lease_folder *folder, const char *name, int descriptor)
{
    struct stat open_one, named;
    return fstat(descriptor, &open_one) == 0 &&
           fstatat(folder->descriptor, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
}

/* `error` is an errno. Only its owner, the folder's or root can remove a file in a sticky folder. */
static enum lease_result refuse_file(const struct lease_folder *folder, const char *name, int error,
                                     char why[LEASE_REASON_BYTES])
{
    struct stat about;
    struct lease_holder holder = { .uid = 0 };
    char owner[64];
    if (fstatat(folder->descriptor, name, &about, AT_SYMLINK_NOFOLLOW) == 0)
        holder.uid = about.st_uid;
    lease_user(&holder, owner, sizeof owner);
    snprintf(why, LEASE_REASON_BYTES, "%s/%s cannot be used as a lease: %s; ask %s%s to remove it",
             folder->path, name,
             error == ELOOP    ? "it is a link"
             : error == EISDIR ? "it is a folder"
             : error == EPERM  ? "it is not a regular file, or it has a second name (a hard link)"
                               : strerror(error),
             owner, holder.uid == 0 ? "" : " or root");
    return LEASE_SPOILED;
}

/* A lock on all of the file. */
static struct flock whole_file(void)
{
    return (struct flock){ .l_type = F_WRLCK, .l_whence = SEEK_SET };
}

enum lease_result lease_take(const struct lease_folder *folder, const char *key, int *descriptor,
                             char why[LEASE_REASON_BYTES])
{
    char name[LEASE_KEY_BYTES + sizeof ENDING];
    name_file(key, name);
    for (int i = 0; i < TRIES_MAX; i++) {
        struct flock lock = whole_file();
        int file = open_file(folder, name, true);
        if (file < 0)
            return refuse_file(folder, name, errno, why);
        if (fcntl(file, F_OFD_SETLK, &lock) != 0) {
            int error = errno;
            close(file);
            return error == EAGAIN || error == EACCES ? LEASE_HELD
                                                      : refuse_file(folder, name, error, why);
        }
        if (is_in_place(folder, name, file)) {
            *descriptor = file;
            return LEASE_TAKEN;
        }
        close(file);
    }
    return refuse_file(folder, name, EBUSY, why);
}

/* Waiting. */

struct waiter {
    pid_t pid; /* the helper, 0: none */
    int file;  /* owns, -1: none */
};

/*
 * A helper for each file, since a process can wait for one lock only. It shares the open file, so
 * what it gets is ours; it tells which one that was through the pipe, and ends with us.
 */
static pid_t start_helper(int file, size_t index, int tell)
{
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct flock lock = whole_file();
    if (getppid() == parent && fcntl(file, F_OFD_SETLKW, &lock) == 0)
        (void)!write(tell, &index, sizeof index);
    _exit(0);
}

static void end_waiter(struct waiter *waiter)
{
    if (waiter->pid > 0) {
        kill(waiter->pid, SIGKILL);
        while (waitpid(waiter->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    if (waiter->file >= 0)
        close(waiter->file);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* LEASE_TAKEN: a helper has told its number. */
static enum lease_result wait_for_helper(int told, uint64_t end_ns, size_t *index)
{
    for (;;) {
        uint64_t now = now_ns(), left = now < end_ns ? end_ns - now : 0;
        struct pollfd entry = { .fd = told, .events = POLLIN };
        uint64_t ms = left / 1000000u + (left % 1000000u > 0);
        int ready = poll(&entry, 1, end_ns == UINT64_MAX ? -1 : (int)(ms < 60000 ? ms : 60000));
        if (ready > 0)
            return read(told, index, sizeof *index) == (ssize_t)sizeof *index ? LEASE_TAKEN
                                                                              : LEASE_FAILED;
        if (ready < 0 && errno != EINTR)
            return LEASE_FAILED;
        if (ready == 0 && left == 0)
            return LEASE_HELD;
    }
}

/* Once: the file that was got may turn out to be out of place, and then `*descriptor` is -1. */
static enum lease_result wait_once(const struct lease_folder *folder, const char *const *keys,
                                   size_t count, uint64_t end_ns, struct waiter *waiters,
                                   size_t *which, int *descriptor)
{
    char name[LEASE_KEY_BYTES + sizeof ENDING];
    int channel[2];
    enum lease_result result = LEASE_SPOILED;
    for (size_t i = 0; i < count; i++)
        waiters[i] = (struct waiter){ .pid = 0, .file = -1 };
    *descriptor = -1;
    if (pipe2(channel, O_CLOEXEC) != 0) {
        message_error("cannot wait for a lease: %s", strerror(errno));
        return LEASE_FAILED;
    }
    for (size_t i = 0; i < count && result != LEASE_FAILED; i++) {
        name_file(keys[i], name);
        waiters[i].file = open_file(folder, name, true);
        if (waiters[i].file < 0)
            continue;
        waiters[i].pid = start_helper(waiters[i].file, i, channel[1]);
        result = LEASE_TAKEN;
        if (waiters[i].pid < 0) {
            message_error("cannot wait for a lease: %s", strerror(errno));
            result = LEASE_FAILED;
        }
    }
    /* With the last helper's end the pipe ends too. */
    close(channel[1]);
    if (result == LEASE_TAKEN) {
        result = wait_for_helper(channel[0], end_ns, which);
        if (result == LEASE_FAILED)
            message_error("cannot wait for a lease: its helpers have ended");
    }
    close(channel[0]);
    if (result == LEASE_TAKEN) {
        name_file(keys[*which], name);
        if (is_in_place(folder, name, waiters[*which].file)) {
            *descriptor = waiters[*which].file;
            waiters[*which].file = -1;
        }
    }
    for (size_t i = 0; i < count; i++)
        end_waiter(&waiters[i]);
    return result;
}

enum lease_result lease_wait(const struct lease_folder *folder, const char *const *keys,
                             size_t count, uint64_t timeout_ns, size_t *which, int *descriptor)
{
    uint64_t now = now_ns();
    uint64_t end_ns = timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
    struct waiter *waiters = calloc(count, sizeof *waiters);
    if (!waiters) {
        message_error("no memory to wait for %zu leases", count);
        return LEASE_FAILED;
    }
    enum lease_result result = LEASE_TAKEN;
    *descriptor = -1;
    while (result == LEASE_TAKEN && *descriptor < 0)
        result = wait_once(folder, keys, count, end_ns, waiters, which, descriptor);
    free(waiters);
    return result;
}

/* Who holds it. */

void lease_sign(int descriptor, const struct lease_holder *holder)
{
    char text[TEXT_BYTES];
    int length =
        snprintf(text, sizeof text, "device %s\npid %llu\nuid %llu\nsince %llu\ncommand %s\n",
                 holder->device, (unsigned long long)holder->pid, (unsigned long long)holder->uid,
                 (unsigned long long)holder->since, holder->command);
    /* The lease holds without it: on a full disk it only cannot be said whose it is. */
    if (length < 0 || ftruncate(descriptor, 0) != 0 ||
        pwrite(descriptor, text, (size_t)length, 0) != length)
        message_error("cannot write down the holder of the lease of %s: %s", holder->device,
                      strerror(errno));
}

/* What others wrote must not steer the terminal. */
static void take_text(const char *from, char *to, size_t bytes)
{
    snprintf(to, bytes, "%s", from);
    for (char *at = to; *at; at++)
        if ((unsigned char)*at < 0x20 || (unsigned char)*at == 0x7f)
            *at = '?';
}

static void read_holder(int descriptor, struct lease_holder *holder)
{
    char text[TEXT_BYTES + 1];
    ssize_t length = pread(descriptor, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    char *rest = text;
    for (char *line; (line = strsep(&rest, "\n"));) {
        char *value = strchr(line, ' ');
        if (!value)
            continue;
        *value++ = '\0';
        if (strcmp(line, "device") == 0)
            take_text(value, holder->device, sizeof holder->device);
        else if (strcmp(line, "command") == 0)
            take_text(value, holder->command, sizeof holder->command);
        else if (strcmp(line, "pid") == 0)
            (void)number_parse(value, &holder->pid);
        else if (strcmp(line, "uid") == 0)
            (void)number_parse(value, &holder->uid);
        else if (strcmp(line, "since") == 0)
            (void)number_parse(value, &holder->since);
    }
}

static bool look_at_file(const struct lease_folder *folder, const char *name,
                         struct lease_holder *holder)
{
    struct flock lock = whole_file();
    int file = open_file(folder, name, false);
    if (file < 0)
        return false;
    bool is_held = fcntl(file, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    *holder = (struct lease_holder){ 0 };
    if (is_held)
        read_holder(file, holder);
    close(file);
    snprintf(holder->key, sizeof holder->key, "%.*s", (int)(strlen(name) - strlen(ENDING)), name);
    return is_held;
}

bool lease_look(const struct lease_folder *folder, const char *key, struct lease_holder *holder)
{
    char name[LEASE_KEY_BYTES + sizeof ENDING];
    name_file(key, name);
    return look_at_file(folder, name, holder);
}

static bool is_lease(const char *name)
{
    size_t length = strlen(name), ending = strlen(ENDING);
    return length > ending && length < LEASE_KEY_BYTES + ending &&
           strcmp(name + length - ending, ENDING) == 0;
}

static int by_key(const void *a, const void *b)
{
    const struct lease_holder *first = a, *second = b;
    return strcmp(first->key, second->key);
}

struct lease_holder *lease_list(const struct lease_folder *folder, size_t *count)
{
    struct lease_holder *holders = NULL;
    *count = 0;
    int own = folder->descriptor < 0 ? -1 : openat(folder->descriptor, ".", O_RDONLY | O_CLOEXEC);
    DIR *entries = own < 0 ? NULL : fdopendir(own);
    if (!entries) {
        if (own >= 0)
            close(own);
        return NULL;
    }
    for (struct dirent *entry; (entry = readdir(entries));) {
        struct lease_holder holder;
        if (!is_lease(entry->d_name) || !look_at_file(folder, entry->d_name, &holder))
            continue;
        struct lease_holder *larger = realloc(holders, (*count + 1) * sizeof *holders);
        if (!larger)
            break;
        holders = larger;
        holders[(*count)++] = holder;
    }
    closedir(entries);
    if (holders)
        qsort(holders, *count, sizeof *holders, by_key);
    return holders;
}

void lease_time(const struct lease_holder *holder, char text[LEASE_TIME_BYTES])
{
    time_t since = (time_t)holder->since;
    struct tm parts;
    if (holder->since == 0 || !gmtime_r(&since, &parts) ||
        strftime(text, LEASE_TIME_BYTES, "%Y-%m-%d %H:%M:%S", &parts) == 0)
        snprintf(text, LEASE_TIME_BYTES, "an unknown time");
}

void lease_user(const struct lease_holder *holder, char *name, size_t bytes)
{
    const struct passwd *entry = getpwuid((uid_t)holder->uid);
    if (entry && holder->uid <= (uid_t)-1)
        take_text(entry->pw_name, name, bytes);
    else
        snprintf(name, bytes, "%llu", (unsigned long long)holder->uid);
}

/* Handing it on. */

/* Kept open by what is run next. It stays as it is where no number that high is free. */
static void keep_open(int descriptor)
{
    int moved = fcntl(descriptor, F_DUPFD, DESCRIPTOR_MIN);
    if (moved < 0)
        fcntl(descriptor, F_SETFD, 0);
    else
        close(descriptor);
}

void lease_hand_down(const struct lease_folder *folder, int descriptor)
{
    int own = openat(folder->descriptor, ".", O_RDONLY | O_CLOEXEC);
    /* systemd-tmpfiles leaves alone what is in a locked folder. */
    if (own >= 0 && flock(own, LOCK_SH | LOCK_NB) == 0)
        keep_open(own);
    else if (own >= 0)
        close(own);
    keep_open(descriptor);
}
