/*
 * StarPU's part of the bench of tasks: `tasks_starpu one|wait|wake` prints nanoseconds. See tasks.c.
 */
#include "peers.h"

#include <semaphore.h>
#include <starpu.h>
#include <string.h>

#define TASKS 40000

static void nothing(void *buffers[], void *arguments)
{
    (void)buffers, (void)arguments;
}

static struct starpu_codelet codelet;
static sem_t told;

static void tell(void *argument)
{
    (void)argument;
    sem_post(&told);
}

static void submit(struct starpu_task *task)
{
    task->cl = &codelet;
    if (starpu_task_submit(task) != 0)
        exit(1);
}

static double measure_one(int count)
{
    double begin = now_ns();
    for (int i = 0; i < count; i++)
        submit(starpu_task_create());
    starpu_task_wait_for_all();
    return (now_ns() - begin) / count;
}

static void round_wait(void *user)
{
    (void)user;
    struct starpu_task *task = starpu_task_create();
    task->detach = 0;
    submit(task);
    if (starpu_task_wait(task) != 0)
        exit(1);
}

static void round_wake(void *user)
{
    (void)user;
    struct starpu_task *task = starpu_task_create();
    task->callback_func = tell;
    submit(task);
    sem_wait(&told);
}

int main(int argc, char **argv)
{
    if (argc != 2 || starpu_init(NULL) != 0)
        return 2;
    double ns = 0;
    codelet.cpu_funcs[0] = nothing;
    sem_init(&told, 0, 0);
    measure_one(TASKS / 10);
    if (strcmp(argv[1], "one") == 0)
        ns = measure_one(TASKS);
    else
        ns = median_round(strcmp(argv[1], "wait") == 0 ? round_wait : round_wake, NULL);
    starpu_shutdown();
    return print_value(ns);
}
