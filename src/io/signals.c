/*
 * Writing to a pipe that nobody reads sends SIGPIPE, and writing beyond the limit on a file's size
 * SIGXFSZ, to the thread that writes; either ends a process that has not said otherwise. They are
 * held back around writes and, where they came because of one, thrown away: the call's failure says
 * all there is to say. Muster's own threads take no signals anyway; this is for the callers'.
 */
#include "io/file.h"

#include <errno.h>
#include <time.h>

static const int held[] = { SIGPIPE, SIGXFSZ };

void guard_begin(struct io_guard *guard)
{
    sigset_t set, pending;
    sigemptyset(&set);
    sigpending(&pending);
    for (size_t i = 0; i < sizeof held / sizeof *held; i++) {
        sigaddset(&set, held[i]);
        guard->was_pending[i] = sigismember(&pending, held[i]) == 1;
    }
    pthread_sigmask(SIG_BLOCK, &set, &guard->before);
}

void guard_end(const struct io_guard *guard)
{
    const struct timespec now = { 0, 0 };
    int code = errno;
    for (size_t i = 0; i < sizeof held / sizeof *held; i++) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, held[i]);
        /* One that was there before belongs to another. */
        while (!guard->was_pending[i] && sigtimedwait(&set, NULL, &now) < 0 && errno == EINTR)
            continue;
    }
    pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
    errno = code;
}
