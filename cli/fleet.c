#include "fleet.h"

#include "figures.h"
#include "message.h"
#include "table.h"

#include <errno.h>
#include <fcntl.h>
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SHARES_MAX 256
#define STEP_NS UINT64_C(200000000)
#define TO_MS 1e-6
#define NAME_BYTES 80

/* Where the parent of a process that was detached waits; -1: nowhere. */
static int waiting = -1;

/* An option's text, else the environment's, else NULL. */
static const char *text_of(const struct option_value *value, const char *variable)
{
    const char *text = value->given ? value->text : getenv(variable);
    return text && *text ? text : NULL;
}

bool fleet_open(const struct option_value *values, const char *command, bool waits,
                struct muster_cluster **out, enum exit_code *code)
{
    const char *url = text_of(&values[FLEET_URL], "MUSTER_CLUSTER");
    uint64_t replicas = values[FLEET_REPLICAS].number;
    struct muster_error error;
    *code = EXIT_USAGE;
    if (!url) {
        message_usage(command,
                      "no cluster: give --cluster nats://host:4222, or set MUSTER_CLUSTER");
        return false;
    }
    if (values[FLEET_REPLICAS].given && replicas != 1 && replicas != 3 && replicas != 5) {
        message_usage(command, "--replicas is 1, 3 or 5");
        return false;
    }
    struct muster_cluster_options options = {
        .size = sizeof options,
        .nkey_seed = text_of(&values[FLEET_KEY], "MUSTER_CLUSTER_KEY"),
        .credentials = values[FLEET_CREDENTIALS].text,
        .ca = text_of(&values[FLEET_CA], "MUSTER_CLUSTER_CA"),
        .replicas = (uint32_t)replicas,
    };
    muster_status status = muster_cluster_open(url, &options, out, &error);
    if (status == MUSTER_E_NOT_FOUND && waits) {
        /* Why it waits, if it does: also a library or a file may be what is not there. */
        message_library(NULL, &error);
        options.waits = 1;
        status = muster_cluster_open(url, &options, out, &error);
    }
    if (status == MUSTER_OK)
        return true;
    *code = fleet_refuse(&error);
    return false;
}

enum exit_code fleet_refuse(const struct muster_error *error)
{
    message_library(NULL, error);
    return error->status == MUSTER_E_INVALID || error->status == MUSTER_E_NOT_SUPPORTED ||
                   error->status == MUSTER_E_PARSE
               ? EXIT_USAGE
               : EXIT_FAILED;
}

/* Progress. */

struct following {
    struct muster_cluster *cluster;
    struct muster_cluster_job *job;
};

static void cancel(void *user)
{
    struct following *following = user;
    (void)muster_cluster_cancel(following->cluster, muster_cluster_job_name(following->job), NULL);
}

/* Each refusal that is new is told: a job that nobody runs would be waited for without a word. */
static void tell_refusals(struct muster_cluster_job *job, uint32_t *told)
{
    struct muster_cluster_progress progress = { .size = sizeof progress };
    if (muster_cluster_progress(job, &progress, NULL) != MUSTER_OK || progress.refusals == *told)
        return;
    *told = progress.refusals;
    message_error("worker %s", progress.refusal);
}

static void draw(struct muster_cluster_job *job)
{
    struct muster_cluster_progress progress = { .size = sizeof progress };
    struct muster_cluster_share shares[4];
    size_t count = 0;
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++)
        shares[i].size = sizeof shares[i];
    if (muster_cluster_progress(job, &progress, NULL) != MUSTER_OK ||
        muster_cluster_shares(job, shares, sizeof shares / sizeof *shares, &count, NULL) !=
            MUSTER_OK)
        return;
    double part = progress.items > 0 ? (double)progress.delivered / (double)progress.items : 0;
    fprintf(stderr, "\r\033[K%s: %.1f%% of %llu items, %u machine%s", muster_cluster_job_name(job),
            100 * part, (unsigned long long)progress.items, progress.machines,
            progress.machines == 1 ? "" : "s");
    uint64_t all = 0;
    for (size_t i = 0; i < count && i < sizeof shares / sizeof *shares; i++)
        all += shares[i].items;
    for (size_t i = 0; i < count && i < sizeof shares / sizeof *shares; i++)
        fprintf(stderr, "%s %s %.0f%%", i == 0 ? ":" : ",",
                *shares[i].host ? shares[i].host : shares[i].id,
                all > 0 ? 100.0 * (double)shares[i].items / (double)all : 0);
    fflush(stderr);
}

static void fill_share(const void *rows, size_t index, char (*cells)[TABLE_CELL_BYTES])
{
    const struct muster_cluster_share *share = (const struct muster_cluster_share *)rows + index;
    snprintf(cells[0], TABLE_CELL_BYTES, "%s", share->id);
    snprintf(cells[1], TABLE_CELL_BYTES, "%s", *share->host ? share->host : "-");
    snprintf(cells[2], TABLE_CELL_BYTES, "%llu", (unsigned long long)share->items);
    snprintf(cells[3], TABLE_CELL_BYTES, "%.4g", share->items_per_s);
}

static void print_report(struct muster_cluster_job *job)
{
    static const struct table_column columns[] = { { "WORKER", false, false },
                                                   { "HOST", false, false },
                                                   { "ITEMS", true, false },
                                                   { "ITEMS/S", true, false } };
    static struct output err;
    struct muster_cluster_progress progress = { .size = sizeof progress };
    struct muster_cluster_share *shares = calloc(SHARES_MAX, sizeof *shares);
    size_t count = 0;
    char line[256];
    for (size_t i = 0; shares && i < SHARES_MAX; i++)
        shares[i].size = sizeof *shares;
    if (!shares || muster_cluster_progress(job, &progress, NULL) != MUSTER_OK ||
        muster_cluster_shares(job, shares, SHARES_MAX, &count, NULL) != MUSTER_OK) {
        free(shares);
        return;
    }
    output_init(&err, STDERR_FILENO);
    table_print(columns, sizeof columns / sizeof *columns, fill_share, shares,
                count < SHARES_MAX ? count : SHARES_MAX, &err);
    snprintf(line, sizeof line,
             "%llu items in %.3f s; %llu pieces, %llu run again, %llu machines lost, longest stall "
             "%.0f ms\n",
             (unsigned long long)(progress.delivered - progress.begin),
             (double)progress.elapsed_ns * 1e-9, (unsigned long long)progress.claims,
             (unsigned long long)progress.reruns, (unsigned long long)progress.lost_machines,
             (double)progress.stall_ns * TO_MS);
    output_text(&err, line);
    output_flush(&err);
    free(shares);
}

muster_status fleet_wait(struct muster_cluster *cluster, struct muster_cluster_job *job,
                         struct interrupt *interrupt, bool is_quiet, bool report,
                         struct muster_error *error)
{
    struct following following = { cluster, job };
    bool is_drawn = !is_quiet && isatty(STDERR_FILENO);
    interrupt_set(interrupt, cancel, NULL, &following);
    muster_status status;
    uint32_t told = 0;
    while ((status = muster_cluster_wait(job, STEP_NS, error)) == MUSTER_E_TIMEOUT) {
        tell_refusals(job, &told);
        if (is_drawn)
            draw(job);
    }
    tell_refusals(job, &told);
    if (is_drawn)
        fputs("\r\033[K", stderr);
    interrupt_set(interrupt, NULL, NULL, NULL);
    if (!is_quiet && (report || is_drawn))
        print_report(job);
    return status;
}

enum exit_code fleet_follow(struct muster_cluster *cluster, struct muster_cluster_job *job,
                            struct interrupt *interrupt, bool is_quiet, bool report)
{
    struct muster_error error;
    muster_status status = fleet_wait(cluster, job, interrupt, is_quiet, report, &error);
    const char *name = interrupt_name(interrupt);
    if (status == MUSTER_OK)
        return EXIT_DONE;
    if (name)
        message_error("ended by %s; the output is as it was before", name);
    else
        message_library(muster_cluster_job_name(job), &error);
    return EXIT_FAILED;
}

/* Without a terminal. */

/* The parent: until the job's name comes, or the process has ended without one. */
static enum exit_code wait_for_name(int from, pid_t child, struct output *out)
{
    char name[NAME_BYTES];
    size_t length = 0;
    ssize_t got = 1;
    int state = 0;
    while (length < sizeof name - 1 && got > 0) {
        got = read(from, name + length, sizeof name - 1 - length);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got > 0)
            length += (size_t)got;
        if (length > 0 && name[length - 1] == '\n')
            break;
    }
    name[length] = '\0';
    if (length > 0) {
        output_text(out, name);
        return EXIT_DONE;
    }
    while (waitpid(child, &state, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(state) && WEXITSTATUS(state) != 0 ? (enum exit_code)WEXITSTATUS(state)
                                                       : EXIT_FAILED;
}

int fleet_detach(enum exit_code *code, struct output *out)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        message_error("cannot go on without a terminal: %s", strerror(errno));
        *code = EXIT_FAILED;
        return -1;
    }
    pid_t child = fork();
    if (child < 0) {
        message_error("cannot go on without a terminal: %s", strerror(errno));
        *code = EXIT_FAILED;
        close(ends[0]);
        close(ends[1]);
        return -1;
    }
    if (child > 0) {
        close(ends[1]);
        *code = wait_for_name(ends[0], child, out);
        close(ends[0]);
        return 1;
    }
    close(ends[0]);
    setsid();
    waiting = ends[1];
    return 0;
}

void fleet_detached(const char *name, const char *log)
{
    char line[NAME_BYTES];
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    int file = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (nothing >= 0) {
        dup2(nothing, STDIN_FILENO);
        dup2(nothing, STDOUT_FILENO);
        dup2(file >= 0 ? file : nothing, STDERR_FILENO);
        close(nothing);
    }
    if (file >= 0)
        close(file);
    int length = snprintf(line, sizeof line, "%s\n", name);
    /* The waiting process may be gone. */
    (void)!write(waiting, line, (size_t)length);
    close(waiting);
    waiting = -1;
}
