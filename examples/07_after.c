/*
 * Two tasks, one after the other: the second may count on what the first did, on whichever threads
 * they run.
 */
#include <muster/muster.h>
#include <stdio.h>

static muster_status load(void *user)
{
    *(int *)user = 6;
    return MUSTER_OK;
}

static muster_status solve(void *user)
{
    *(int *)user *= 7;
    return MUSTER_OK;
}

int main(void)
{
    struct muster *m;
    struct muster_error err;
    muster_task tasks[2];
    int answer = 0;
    struct muster_task_desc descs[] = {
        { sizeof *descs, load, &answer, .after_count = 0 },
        { sizeof *descs, solve, &answer, .after = &tasks[0], .after_count = 1 },
    };
    if (muster_open(&m, NULL, &err) == MUSTER_OK) {
        if (muster_submit(m, descs, 2, tasks, &err) == MUSTER_OK)
            muster_wait(m, &tasks[1], 1, UINT64_MAX, &err);
        muster_close(m, NULL);
    }
    printf("%d\n", answer);
    return answer == 42 ? 0 : 1;
}
