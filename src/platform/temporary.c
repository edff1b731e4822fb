#include "platform/temporary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A thread that is in a system call which does not return must not keep the process alive. */
#define PATIENCE_MS 2000

enum { ABSENT, CHANGING, PRESENT };

static struct {
    atomic_flag lock; /* of the list; held for a few instructions, or by the sweep */
    _Atomic bool is_ending;
    struct platform_temporary *first;
} list = { .lock = ATOMIC_FLAG_INIT };

/* Acquire and release: what the one before wrote to the list is seen. */
static void lock_list(void)
{
    while (atomic_flag_test_and_set_explicit(&list.lock, memory_order_acquire))
        sched_yield();
}

static void unlock_list(void)
{
    atomic_flag_clear_explicit(&list.lock, memory_order_release);
}

/* The list of a child begins empty: what it inherited is its parent's. */
static void empty_list(void)
{
    list.first = NULL;
    atomic_store(&list.is_ending, false);
    unlock_list();
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, empty_list);
}

static void add(struct platform_temporary *thing)
{
    lock_list();
    thing->previous = NULL;
    thing->next = list.first;
    if (list.first)
        list.first->previous = thing;
    list.first = thing;
    unlock_list();
}

static void drop(struct platform_temporary *thing)
{
    lock_list();
    if (thing->previous)
        thing->previous->next = thing->next;
    else
        list.first = thing->next;
    if (thing->next)
        thing->next->previous = thing->previous;
    unlock_list();
}

static void block_signals(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, before);
}

bool platform_temporary_begin(struct platform_temporary *thing)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    block_signals(&thing->before);
    /*
     * Sequentially consistent, as the sweep's accesses are: either the sweep sees that the thing is
     * changing and waits, or this thread sees that the process is ending.
     */
    bool is_new = atomic_exchange(&thing->state, CHANGING) == ABSENT;
    if (is_new)
        add(thing);
    if (!atomic_load(&list.is_ending))
        return true;
    errno = ECANCELED;
    platform_temporary_end(thing, !is_new);
    return false;
}

void platform_temporary_end(struct platform_temporary *thing, bool is_there)
{
    int code = errno;
    sigset_t before = thing->before;
    /* Before it leaves the list: the sweep may have the lock, and wait for this. */
    atomic_store(&thing->state, is_there ? PRESENT : ABSENT);
    if (!is_there)
        drop(thing);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = code;
}

void platform_temporary_forget(struct platform_temporary *thing)
{
    if (atomic_load(&thing->state) == ABSENT)
        return;
    block_signals(&thing->before);
    platform_temporary_end(thing, false);
}

void platform_temporary_remove_folder(const char *path)
{
    char entries[4096] __attribute__((aligned(16)));
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return;
    /* Removing while reading may skip entries: begin again until a round finds none. */
    for (bool is_empty = false; !is_empty;) {
        is_empty = true;
        lseek(folder, 0, SEEK_SET);
        for (ssize_t bytes; (bytes = getdents64(folder, entries, sizeof entries)) > 0;)
            for (ssize_t at = 0; at < bytes;) {
                const struct dirent64 *entry = (const void *)(entries + at);
                at += entry->d_reclen;
                is_empty &= unlinkat(folder, entry->d_name, 0) != 0;
            }
    }
    close(folder);
    rmdir(path);
}

/* Whether it is there, once nobody changes it any more. */
static bool is_present(const struct platform_temporary *thing)
{
    const struct timespec step = { .tv_nsec = 1000000 };
    for (int i = 0; i < PATIENCE_MS && atomic_load(&thing->state) == CHANGING; i++)
        nanosleep(&step, NULL);
    return atomic_load(&thing->state) == PRESENT;
}

/* Until none of its processes is left: what they were about to make is then there to be removed. */
static void kill_program(const struct platform_temporary *thing)
{
    struct pollfd output = { .fd = thing->output };
    kill(-thing->program, SIGKILL);
    poll(&output, 1, PATIENCE_MS);
}

void platform_temporary_sweep(void)
{
    int code = errno;
    sigset_t before;
    block_signals(&before);
    atomic_store(&list.is_ending, true);
    lock_list();
    for (const struct platform_temporary *thing = list.first; thing; thing = thing->next)
        if (thing->kind == PLATFORM_PROGRAM && is_present(thing))
            kill_program(thing);
    for (const struct platform_temporary *thing = list.first; thing; thing = thing->next)
        if (thing->kind == PLATFORM_FILE && is_present(thing))
            unlinkat(thing->folder, thing->name, 0);
        else if (thing->kind == PLATFORM_FOLDER && is_present(thing))
            platform_temporary_remove_folder(thing->name);
    unlock_list();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = code;
}
