/*
 * oneTBB's part of the bench of tasks: `tasks_tbb one|wait|wake` prints nanoseconds. See tasks.c.
 */
#include "peers.h"

#include <cstring>
#include <semaphore.h>
#include <tbb/task_group.h>

static constexpr int tasks = 400000;
static tbb::task_group group;
static sem_t told;

static double measure_one(int count)
{
    double begin = now_ns();
    for (int i = 0; i < count; i++)
        group.run([] {});
    group.wait();
    return (now_ns() - begin) / count;
}

static void round_wait(void *)
{
    group.run([] {});
    group.wait();
}

static void round_wake(void *)
{
    group.run([] { sem_post(&told); });
    while (sem_wait(&told) != 0)
        continue;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    double ns = 0;
    sem_init(&told, 0, 0);
    measure_one(tasks / 10);
    if (std::strcmp(argv[1], "one") == 0)
        ns = measure_one(tasks);
    else
        ns = median_round(std::strcmp(argv[1], "wait") == 0 ? round_wait : round_wake, nullptr);
    group.wait();
    return print_value(ns);
}
