#include "interrupt.h"

#include "message.h"

#include <errno.h>
#include <muster/file.h>
#include <string.h>
#include <time.h>

static const struct {
    int number;
    const char *name;
} known[] = { { SIGINT, "SIGINT" }, { SIGTERM, "SIGTERM" }, { SIGHUP, "SIGHUP" } };
/* Wakes the thread at the end. */
#define WAKE SIGUSR2

static void die(int signal_number)
{
    sigset_t set;
    muster_process_cleanup();
    signal(signal_number, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, signal_number);
    raise(signal_number);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

/* The first one cancels, if there is something to. Called with the lock. */
static void take(struct interrupt *interrupt, int signal_number)
{
    if (interrupt->signal != 0 || !interrupt->cancel)
        die(signal_number);
    interrupt->signal = signal_number;
    interrupt->cancel(interrupt->user);
}

/* The command has not ended a second after the signal. Called with the lock. */
static void tell_late(const struct interrupt *interrupt)
{
    if (interrupt->cancel && interrupt->tell)
        interrupt->tell(interrupt->user);
}

static void *watch(void *argument)
{
    struct interrupt *interrupt = argument;
    const struct timespec second = { .tv_sec = 1 };
    bool must_tell = false;
    for (bool is_ending = false; !is_ending;) {
        int signal_number = must_tell ? sigtimedwait(&interrupt->watched, NULL, &second)
                                      : sigwaitinfo(&interrupt->watched, NULL);
        bool is_late = signal_number < 0 && errno == EAGAIN;
        if (signal_number < 0 && !is_late)
            continue;
        pthread_mutex_lock(&interrupt->lock);
        is_ending = interrupt->is_ending;
        if (!is_ending && is_late)
            tell_late(interrupt);
        else if (!is_ending)
            take(interrupt, signal_number);
        pthread_mutex_unlock(&interrupt->lock);
        must_tell = !is_late;
    }
    return NULL;
}

static void find_watched(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, WAKE);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct sigaction action;
        bool is_ignored =
            sigaction(known[i].number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
        if (!is_ignored)
            sigaddset(set, known[i].number);
    }
}

bool interrupt_begin(struct interrupt *interrupt)
{
    memset(interrupt, 0, sizeof *interrupt);
    pthread_mutex_init(&interrupt->lock, NULL);
    find_watched(&interrupt->watched);
    pthread_sigmask(SIG_BLOCK, &interrupt->watched, &interrupt->before);
    int failure = pthread_create(&interrupt->thread, NULL, watch, interrupt);
    if (failure == 0)
        return true;
    pthread_sigmask(SIG_SETMASK, &interrupt->before, NULL);
    pthread_mutex_destroy(&interrupt->lock);
    message_error("no thread can be started: %s", strerror(failure));
    return false;
}

void interrupt_set(struct interrupt *interrupt, void (*cancel)(void *user),
                   void (*tell)(void *user), void *user)
{
    pthread_mutex_lock(&interrupt->lock);
    interrupt->cancel = cancel;
    interrupt->tell = tell;
    interrupt->user = user;
    pthread_mutex_unlock(&interrupt->lock);
}

const char *interrupt_name(struct interrupt *interrupt)
{
    pthread_mutex_lock(&interrupt->lock);
    int came = interrupt->signal;
    pthread_mutex_unlock(&interrupt->lock);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].number == came)
            return known[i].name;
    return NULL;
}

void interrupt_end(struct interrupt *interrupt)
{
    pthread_mutex_lock(&interrupt->lock);
    interrupt->is_ending = true;
    pthread_mutex_unlock(&interrupt->lock);
    pthread_kill(interrupt->thread, WAKE);
    pthread_join(interrupt->thread, NULL);
    if (interrupt->signal != 0)
        die(interrupt->signal);
    pthread_sigmask(SIG_SETMASK, &interrupt->before, NULL);
    pthread_mutex_destroy(&interrupt->lock);
}
