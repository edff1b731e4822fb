/*
 * Ctrl-C and its kin while a job runs. The first one cancels it, so that nothing half done is left
 * behind, and the command then dies of the signal, as shells and scripts expect of one that did not
 * catch it. A second one kills at once. Signals that the caller had ignored stay ignored.
 */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

struct interrupt {
    pthread_t thread;
    pthread_mutex_t lock;
    sigset_t watched, before;
    void (*cancel)(void *user); /* NULL: there is nothing to cancel, a signal kills */
    void (*tell)(void *user);   /* what the end waits for */
    void *user;
    int signal; /* the first that came; 0: none */
    bool is_ending;
};

/*
 * Before any other thread is started, since these inherit that the signals are not for them. False if
 * that cannot be, which has been reported.
 */
bool interrupt_begin(struct interrupt *interrupt);

/*
 * What a signal does from now on; NULL before what `cancel` needs is destroyed. `tell` is called
 * once, if the end takes a second, to say what it waits for; it may be NULL.
 */
void interrupt_set(struct interrupt *interrupt, void (*cancel)(void *user),
                   void (*tell)(void *user), void *user);

/* The signal that came, "SIGINT"; NULL if none did. */
const char *interrupt_name(struct interrupt *interrupt);

/* Signals are as they were before. Does not return if one came. */
void interrupt_end(struct interrupt *interrupt);

#endif
