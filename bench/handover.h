/*
 * What it costs to hand a word from one core to another. On virtual machines it changes by a factor of six
 * from one minute to the next, so it stands beside what depends on it.
 */
#ifndef BENCH_HANDOVER_H
#define BENCH_HANDOVER_H

#include "peers.h"

#include <pthread.h>
#include <stdatomic.h>

#define HANDOVERS 200000u

static _Atomic unsigned handover_ball;

static void *handover_back(void *user)
{
    for (unsigned i = 1; i < HANDOVERS; i += 2) {
        while (atomic_load(&handover_ball) != i)
            continue;
        atomic_store(&handover_ball, i + 1);
    }
    return user;
}

/* Nanoseconds there and back, halved; negative without a second thread. */
static inline double measure_handover_ns(void)
{
    pthread_t thread;
    atomic_store(&handover_ball, 0);
    if (pthread_create(&thread, NULL, handover_back, NULL) != 0)
        return -1;
    double begin = now_ns();
    for (unsigned i = 0; i < HANDOVERS; i += 2) {
        while (atomic_load(&handover_ball) != i)
            continue;
        atomic_store(&handover_ball, i + 1);
    }
    double ns = (now_ns() - begin) / HANDOVERS;
    pthread_join(thread, NULL);
    return ns;
}

#endif
