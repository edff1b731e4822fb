#include "platform/live_file.h"

#include "platform/machine.h"
#include "platform/thread.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <muster/backend.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* How often a file is made again, because its name is taken or it was swept before it was locked. */
#define TRIES 64
/* Entries of a folder that a runtime which opens looks at, and those that a reader does. */
#define SWEPT_AT_OPEN 64u
#define SEEN_MAX 4096u

/*
 * Descriptors with locks. A child of fork() would share them, and hold the lock when its parent is dead; so
 * it closes them. Each is a descriptor and 1; 0: free.
 */
#define HELD_MAX 64u
static _Atomic int held[HELD_MAX];
static _Atomic uint32_t numbers; /* of files of this process */
static struct platform_once watched = PLATFORM_ONCE_INIT;
static int refusal; /* what pthread_atfork said */

static void let_go(void)
{
    for (uint32_t i = 0; i < HELD_MAX; i++) {
        int file = atomic_load_explicit(&held[i], memory_order_relaxed);
        if (file != 0)
            close(file - 1);
        atomic_store_explicit(&held[i], 0, memory_order_relaxed);
    }
}

static void watch(void)
{
    refusal = pthread_atfork(NULL, NULL, let_go);
}

/* A place for a descriptor; HELD_MAX: there is none. */
static uint32_t hold(int file)
{
    uint32_t i = 0;
    int none = 0;
    while (i < HELD_MAX &&
           !atomic_compare_exchange_strong_explicit(&held[i], &none, file + 1, memory_order_relaxed,
                                                    memory_order_relaxed)) {
        none = 0;
        i++;
    }
    return i;
}

/* Folders. */

static bool is_private_folder(const char *path)
{
    struct stat facts;
    return lstat(path, &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == geteuid() &&
           (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/*
 * The folders in the order in which they are tried; gives how many. A runtime folder of another user, which
 * su leaves in the environment, is nobody's place to write to.
 */
static uint32_t find_places(char paths[PLATFORM_LIVE_PLACES][PLATFORM_LIVE_PATH_BYTES])
{
    uint32_t count = 0;
    char usual[64];
    const char *given = platform_environment("MUSTER_LIVE");
    if (given && *given == '/') {
        snprintf(paths[0], PLATFORM_LIVE_PATH_BYTES, "%s", given);
        return strlen(given) < PLATFORM_LIVE_PATH_BYTES ? 1 : 0;
    }
    given = platform_environment("XDG_RUNTIME_DIR");
    snprintf(usual, sizeof usual, "/run/user/%u", (unsigned)geteuid());
    if (given && *given == '/' && strlen(given) < PLATFORM_LIVE_PATH_BYTES - 16 &&
        strcmp(given, usual) != 0 && is_private_folder(given))
        snprintf(paths[count++], PLATFORM_LIVE_PATH_BYTES, "%s/muster", given);
    if (is_private_folder(usual))
        snprintf(paths[count++], PLATFORM_LIVE_PATH_BYTES, "%s/muster", usual);
    snprintf(paths[count++], PLATFORM_LIVE_PATH_BYTES, "/tmp/muster-%u", (unsigned)geteuid());
    return count;
}

/* Opens a folder that is this user's alone; -1 with errno, or with errno 0 and what is wrong with it. */
static int open_folder(const char *path, const char **wrong)
{
    struct stat facts;
    *wrong = NULL;
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return -1;
    if (fstat(folder, &facts) != 0)
        *wrong = "its owner is unknown";
    else if (facts.st_uid != geteuid())
        *wrong = "it belongs to another user";
    else if ((facts.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        *wrong = "other users may enter it";
    if (!*wrong)
        return folder;
    close(folder);
    errno = 0;
    return -1;
}

/* The first place, made if it is not there. */
static int make_folder(char path[PLATFORM_LIVE_PATH_BYTES], struct muster_error *err)
{
    char paths[PLATFORM_LIVE_PLACES][PLATFORM_LIVE_PATH_BYTES];
    const char *wrong = NULL;
    if (find_places(paths) == 0) {
        muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "name a folder with a shorter path",
                          "no live view: the path in MUSTER_LIVE is too long");
        return -1;
    }
    memcpy(path, paths[0], PLATFORM_LIVE_PATH_BYTES);
    int folder = -1;
    if (mkdir(path, S_IRWXU) == 0 || errno == EEXIST)
        folder = open_folder(path, &wrong);
    if (folder < 0)
        muster_error_fill(err, MUSTER_E_IO, errno,
                          wrong ? "remove the folder, or chmod 700 it if it is yours"
                                : "set XDG_RUNTIME_DIR to a folder of your own",
                          "no live view: cannot use the folder %.120s: %s", path,
                          wrong ? wrong : strerror(errno));
    return folder;
}

/* Files. */

/* Digits, a hyphen, digits: anything else in the folder belongs to another. */
static bool is_name(const char *name)
{
    size_t process = strspn(name, "0123456789");
    size_t number = name[process] == '-' ? strspn(name + process + 1, "0123456789") : 0;
    return process > 0 && number > 0 && name[process + 1 + number] == '\0' &&
           process + number + 2 <= PLATFORM_LIVE_NAME_BYTES;
}

/* Whether the descriptor's file is the one of that name. */
static bool is_linked(int folder, const char *name, int file)
{
    struct stat there, here;
    return fstatat(folder, name, &there, AT_SYMLINK_NOFOLLOW) == 0 && fstat(file, &here) == 0 &&
           there.st_ino == here.st_ino && there.st_dev == here.st_dev;
}

enum sight { SIGHT_ALIVE, SIGHT_GONE, SIGHT_SWEPT, SIGHT_WRONG };

/* Opens a file and sees whether its owner lives; if so `*file` is open, else the file is removed. */
static enum sight look_at(int folder, const char *name, int *file, uint64_t *bytes,
                          const char **wrong)
{
    struct stat facts;
    /* Not blocking: what lies there may be a pipe that nobody writes to. */
    *file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*file < 0) {
        *wrong = strerror(errno);
        return errno == ENOENT ? SIGHT_GONE : SIGHT_WRONG;
    }
    *wrong = fstat(*file, &facts) != 0                    ? "its owner is unknown"
             : !S_ISREG(facts.st_mode)                    ? "it is no file"
             : facts.st_uid != geteuid()                  ? "it belongs to another user"
             : (facts.st_mode & (S_IRWXG | S_IRWXO)) != 0 ? "other users may read or write it"
                                                          : NULL;
    enum sight sight = *wrong ? SIGHT_WRONG : SIGHT_ALIVE;
    /* Shared, so that two who look at the same time do not take each other for the owner. */
    if (sight == SIGHT_ALIVE && flock(*file, LOCK_SH | LOCK_NB) == 0) {
        /*
         * Removed with the lock held: an owner that has not locked it yet sees that it is gone, and makes
         * another.
         */
        bool is_there = is_linked(folder, name, *file);
        sight = is_there && unlinkat(folder, name, 0) == 0 ? SIGHT_SWEPT : SIGHT_GONE;
    }
    *bytes = sight == SIGHT_ALIVE && facts.st_size > 0 ? (uint64_t)facts.st_size : 0;
    if (sight != SIGHT_ALIVE) {
        close(*file);
        *file = -1;
    }
    return sight;
}

static void note_refusal(struct platform_live_found *found, const char *path, const char *name,
                         const char *why)
{
    if (found->refused++ == 0)
        snprintf(found->why, sizeof found->why, "%.100s%s%s: %.60s", path, name ? "/" : "",
                 name ? name : "", why);
}

struct looking {
    bool (*see)(void *user, int file, uint64_t bytes, char *why); /* NULL: only sweeps */
    void *user;
    uint32_t most;
    struct platform_live_found *found;
};

static void look_into(int folder, const char *path, const struct looking *looking)
{
    /* A stream of its own: closing it closes the descriptor. */
    int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = again >= 0 ? fdopendir(again) : NULL;
    if (!entries) {
        if (again >= 0)
            close(again);
        return;
    }
    const struct dirent *entry;
    for (uint32_t i = 0; i < looking->most && (entry = readdir(entries));) {
        int file;
        uint64_t bytes;
        const char *wrong;
        char why[sizeof looking->found->why] = "";
        if (!is_name(entry->d_name))
            continue;
        i++;
        enum sight sight = look_at(folder, entry->d_name, &file, &bytes, &wrong);
        looking->found->swept += sight == SIGHT_SWEPT;
        if (sight == SIGHT_WRONG)
            note_refusal(looking->found, path, entry->d_name, wrong);
        if (sight != SIGHT_ALIVE)
            continue;
        if (looking->see && !looking->see(looking->user, file, bytes, why))
            note_refusal(looking->found, path, entry->d_name, why);
        close(file);
    }
    closedir(entries);
}

void platform_live_look(bool (*see)(void *user, int file, uint64_t bytes, char *why), void *user,
                        struct platform_live_found *found)
{
    char paths[PLATFORM_LIVE_PLACES][PLATFORM_LIVE_PATH_BYTES];
    uint32_t count = find_places(paths);
    *found = (struct platform_live_found){ .swept = 0 };
    for (uint32_t i = 0; i < count; i++) {
        const char *wrong;
        int folder = open_folder(paths[i], &wrong);
        if (folder < 0 && (wrong || (errno != ENOENT && errno != ENOTDIR)))
            note_refusal(found, paths[i], NULL, wrong ? wrong : strerror(errno));
        if (folder < 0)
            continue;
        look_into(folder, paths[i], &(struct looking){ see, user, SEEN_MAX, found });
        close(folder);
    }
}

bool platform_live_read(int file, uint64_t offset, void *to, size_t bytes)
{
    size_t got = 0;
    while (got < bytes) {
        ssize_t now = pread(file, (char *)to + got, bytes - got, (off_t)(offset + got));
        if (now == 0 || (now < 0 && errno != EINTR))
            return false;
        got += now > 0 ? (size_t)now : 0;
    }
    return true;
}

/* A new file with a name of its own, locked; -1 with errno. */
static int make_file(int folder, char name[PLATFORM_LIVE_NAME_BYTES])
{
    for (int i = 0; i < TRIES; i++) {
        uint32_t number = atomic_fetch_add_explicit(&numbers, 1, memory_order_relaxed) + 1;
        snprintf(name, PLATFORM_LIVE_NAME_BYTES, "%d-%u", (int)getpid(), number);
        int file = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                          S_IRUSR | S_IWUSR);
        /* What a process of the same number has left is swept by then, or is another machine's. */
        if (file < 0 && errno == EEXIST)
            continue;
        if (file < 0)
            return -1;
        /* Who looks may have found it without a lock and removed it: then another is made. */
        if (flock(file, LOCK_EX | LOCK_NB) == 0 && is_linked(folder, name, file))
            return file;
        unlinkat(folder, name, 0);
        close(file);
    }
    errno = EAGAIN;
    return -1;
}

/*
 * Opened once more for that: a mapping keeps what it was made of open, and with it the lock, also in a child
 * of fork() that has closed the descriptor.
 */
static void *map_file(const struct platform_live_file *live)
{
    int again = openat(live->folder, live->name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (again < 0)
        return NULL;
    void *memory = MAP_FAILED;
    if (is_linked(live->folder, live->name, live->file) &&
        is_linked(live->folder, live->name, again))
        memory =
            mmap(NULL, live->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, again, 0);
    int code = errno;
    close(again);
    errno = code;
    return memory != MAP_FAILED ? memory : NULL;
}

muster_status platform_live_create(struct platform_live_file *live, size_t bytes,
                                   struct muster_error *err)
{
    char path[PLATFORM_LIVE_PATH_BYTES];
    struct platform_live_found found = { .swept = 0 };
    const char *doing = "make a file";
    *live = (struct platform_live_file){ .file = -1, .place = HELD_MAX, .bytes = bytes };
    live->folder = make_folder(path, err);
    if (live->folder < 0)
        return MUSTER_E_IO;
    platform_once_run(&watched, watch);
    look_into(live->folder, path, &(struct looking){ NULL, NULL, SWEPT_AT_OPEN, &found });
    live->file = make_file(live->folder, live->name);
    int code = errno;
    if (live->file >= 0) {
        live->place = hold(live->file);
        /* Without room on the disk a write to the mapping would be a signal: so it is taken now. */
        code = live->place == HELD_MAX ? EMFILE
               : refusal != 0          ? refusal
                                       : posix_fallocate(live->file, 0, (off_t)bytes);
        doing = live->place == HELD_MAX ? "show this many runtimes" : "allocate a file";
    }
    if (live->file >= 0 && code == 0) {
        live->memory = map_file(live);
        if (live->memory)
            return MUSTER_OK;
        code = errno;
        doing = "map a file";
    }
    platform_live_hide(live);
    return muster_error_fill(err, MUSTER_E_IO, code, "make room there, or set MUSTER_LIVE=0",
                             "no live view: cannot %s in %.120s: %s", doing, path, strerror(code));
}

void platform_live_hide(struct platform_live_file *live)
{
    if (live->place < HELD_MAX)
        atomic_store_explicit(&held[live->place], 0, memory_order_relaxed);
    live->place = HELD_MAX;
    if (live->file >= 0) {
        unlinkat(live->folder, live->name, 0);
        close(live->file);
    }
    if (live->folder >= 0)
        close(live->folder);
    live->file = live->folder = -1;
}

void platform_live_destroy(struct platform_live_file *live)
{
    platform_live_hide(live);
    if (live->memory)
        munmap(live->memory, live->bytes);
    live->memory = NULL;
}

uint64_t platform_process_number(void)
{
    return (uint64_t)getpid();
}

void platform_process_name(char *out, size_t bytes)
{
    snprintf(out, bytes, "%s", program_invocation_short_name);
}
