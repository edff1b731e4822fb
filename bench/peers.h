/*
 * What the programs that measure tasks have in common: a clock, a pause in which a runtime falls
 * asleep, the median of many rounds.
 */
#ifndef BENCH_PEERS_H
#define BENCH_PEERS_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Rounds of one measurement of a single task, each after a pause. */
#define ROUNDS 300
#define PAUSE_NS 300000

static inline double now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static inline int compare_values(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Nanoseconds from `round`'s begin to its end, of many, each with an idle runtime. */
static inline double median_round(void (*round)(void *), void *user)
{
    double values[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        struct timespec pause = { 0, PAUSE_NS };
        nanosleep(&pause, NULL);
        double begin = now_ns();
        round(user);
        values[i] = now_ns() - begin;
    }
    qsort(values, ROUNDS, sizeof *values, compare_values);
    return values[ROUNDS / 2];
}

/* The peer's answer: one number on a line of its own. */
static inline int print_value(double ns)
{
    printf("%.9g\n", ns);
    return fflush(stdout) == 0 ? 0 : 1;
}

#endif
