/*
 * A process for others to look at: opens a runtime on simulated devices, and then does what its words say,
 * one after the other.
 *
 *     live_job DEVICES WORD...
 *     job:N      a job of N items, to its end      start:N  the same, not waited for
 *     tasks:N    N empty tasks, to their end       say:TEXT writes a line
 *     wait       for a line or the end of stdin    wait-job for the job that was started
 *     fork       a child that stays until stdin is closed; its number is written
 *     close      closes the runtime
 */
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static muster_status pass_time(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin;
    (void)end;
    (void)args;
    return MUSTER_OK;
}

static muster_status nothing(void *user)
{
    (void)user;
    return MUSTER_OK;
}

static struct muster *m;
static struct muster_kernel *kernel;
static struct muster_job *job;

static int fail(const struct muster_error *error)
{
    fprintf(stderr, "%s: %s\n", muster_status_name(error->status), error->text);
    return 1;
}

static muster_status start(uint64_t items, struct muster_error *error)
{
    static const struct muster_arg args[] = { { .size = sizeof *args, .kind = MUSTER_ARG_FIRST } };
    struct muster_job_desc desc = {
        .size = sizeof desc, .kernel = kernel, .items = items, .args = args, .arg_count = 1
    };
    return muster_start(m, &desc, &job, error);
}

static muster_status run_tasks(uint64_t count, struct muster_error *error)
{
    struct muster_task_desc task = { .size = sizeof task, .fn = nothing };
    muster_status status = MUSTER_OK;
    for (uint64_t i = 0; i < count && status == MUSTER_OK; i++)
        status = muster_submit(m, &task, 1, NULL, error);
    return status == MUSTER_OK ? muster_wait(m, NULL, 0, UINT64_MAX, error) : status;
}

static void wait_for_line(void)
{
    char line[16];
    (void)!fgets(line, sizeof line, stdin);
}

static void fork_child(void)
{
    char byte;
    pid_t child = fork();
    if (child == 0) {
        while (read(STDIN_FILENO, &byte, 1) > 0) {}
        _exit(0);
    }
    printf("%d\n", (int)child);
}

static muster_status act(const char *word, struct muster_error *error)
{
    const char *value = strchr(word, ':') ? strchr(word, ':') + 1 : "";
    muster_status status = MUSTER_OK;
    if (strncmp(word, "job:", 4) == 0 || strncmp(word, "start:", 6) == 0)
        status = start(strtoull(value, NULL, 10), error);
    if (status == MUSTER_OK && (strncmp(word, "job:", 4) == 0 || strcmp(word, "wait-job") == 0)) {
        status = muster_job_wait(job, NULL, error);
        muster_job_destroy(job);
        job = NULL;
    } else if (strncmp(word, "tasks:", 6) == 0) {
        status = run_tasks(strtoull(value, NULL, 10), error);
    } else if (strncmp(word, "say:", 4) == 0) {
        puts(value);
    } else if (strcmp(word, "wait") == 0) {
        wait_for_line();
    } else if (strcmp(word, "fork") == 0) {
        fork_child();
    } else if (strcmp(word, "close") == 0) {
        status = muster_close(m, error);
        m = NULL;
    }
    fflush(stdout);
    return status;
}

int main(int argc, char **argv)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster_error error = { .size = sizeof error };
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = pass_time };
    options.sim = argc > 1 ? argv[1] : NULL;
    options.devices = "sim";
    if (muster_open(&m, &options, &error) != MUSTER_OK ||
        muster_kernel_from(m, "edges", &form, 1, &kernel, &error) != MUSTER_OK)
        return fail(&error);
    muster_status status = MUSTER_OK;
    for (int i = 2; i < argc && status == MUSTER_OK; i++)
        status = act(argv[i], &error);
    if (status != MUSTER_OK)
        fail(&error);
    muster_close(m, NULL);
    return status == MUSTER_OK ? 0 : 1;
}
