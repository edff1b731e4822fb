/*
 * `muster jobs`: what a cluster has to do, and how to stop or go on with it.
 */
#include "fleet.h"
#include "interrupt.h"
#include "json.h"
#include "message.h"
#include "suggest.h"
#include "table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ENTRIES_MAX 1024
#define WATCH_MS 500

enum { CLUSTER, JSON = CLUSTER + FLEET_OPTIONS, OPTION_COUNT };
enum { QUIET = CLUSTER + FLEET_OPTIONS, REPORT, RESUME_COUNT };

static const struct option options[] = {
    FLEET_OPTION_ROWS,
    [JSON] = { .name = "json", .kind = OPTION_FLAG, .help = "print JSON" },
};
static const struct option resume_options[] = {
    FLEET_OPTION_ROWS,
    [QUIET] = { .name = "quiet",
                .letter = 'q',
                .kind = OPTION_FLAG,
                .help = "show no progress and no report" },
    [REPORT] = { .name = "report",
                 .kind = OPTION_FLAG,
                 .help = "print the report even if standard error is no terminal" },
};

static double percent(const struct muster_cluster_entry *entry)
{
    return entry->items > 0 ? 100.0 * (double)entry->delivered / (double)entry->items : 0;
}

static const char *state_of(const struct muster_cluster_entry *entry)
{
    return entry->is_cancelled ? "cancelled" : entry->is_fed ? "running" : "waiting";
}

static void fill_job(const void *rows, size_t index, char (*cells)[TABLE_CELL_BYTES])
{
    const struct muster_cluster_entry *entry = (const struct muster_cluster_entry *)rows + index;
    snprintf(cells[0], TABLE_CELL_BYTES, "%s", entry->name);
    snprintf(cells[1], TABLE_CELL_BYTES, "%s", state_of(entry));
    snprintf(cells[2], TABLE_CELL_BYTES, "%.1f%%", percent(entry));
    snprintf(cells[3], TABLE_CELL_BYTES, "%llu", (unsigned long long)entry->items);
    snprintf(cells[4], TABLE_CELL_BYTES, "%s", entry->user);
    snprintf(cells[5], TABLE_CELL_BYTES, "%s", entry->title);
}

static void fill_machine(const void *rows, size_t index, char (*cells)[TABLE_CELL_BYTES])
{
    const struct muster_cluster_machine *machine =
        (const struct muster_cluster_machine *)rows + index;
    snprintf(cells[0], TABLE_CELL_BYTES, "%s", machine->id);
    snprintf(cells[1], TABLE_CELL_BYTES, "%s", machine->host);
    snprintf(cells[2], TABLE_CELL_BYTES, "%u", machine->jobs);
    snprintf(cells[3], TABLE_CELL_BYTES, "%s", machine->devices);
}

struct inventory {
    struct muster_cluster_entry *jobs;
    struct muster_cluster_machine *machines;
    size_t job_count, machine_count;
};

static bool look(struct muster_cluster *cluster, struct inventory *all, struct muster_error *error)
{
    all->jobs = calloc(ENTRIES_MAX, sizeof *all->jobs);
    all->machines = calloc(ENTRIES_MAX, sizeof *all->machines);
    for (size_t i = 0; i < ENTRIES_MAX && all->jobs && all->machines; i++) {
        all->jobs[i].size = sizeof *all->jobs;
        all->machines[i].size = sizeof *all->machines;
    }
    if (!all->jobs || !all->machines) {
        snprintf(error->text, sizeof error->text, "no memory for a list");
        error->fix[0] = '\0';
        error->status = MUSTER_E_NO_MEMORY;
        return false;
    }
    bool is_seen =
        muster_cluster_list(cluster, all->jobs, ENTRIES_MAX, &all->job_count, error) == MUSTER_OK &&
        muster_cluster_machines(cluster, all->machines, ENTRIES_MAX, &all->machine_count, error) ==
            MUSTER_OK;
    all->job_count = all->job_count < ENTRIES_MAX ? all->job_count : ENTRIES_MAX;
    all->machine_count = all->machine_count < ENTRIES_MAX ? all->machine_count : ENTRIES_MAX;
    return is_seen;
}

static void forget(struct inventory *all)
{
    free(all->jobs);
    free(all->machines);
}

static void print_job_json(struct json *json, const struct muster_cluster_entry *entry)
{
    json_begin_object(json, NULL);
    json_text(json, "name", entry->name);
    json_text(json, "state", state_of(entry));
    json_text(json, "title", entry->title);
    json_text(json, "user", entry->user);
    json_number(json, "items", entry->items);
    json_number(json, "delivered", entry->delivered);
    json_number(json, "submitters", entry->submitters);
    json_end_object(json);
}

static void print_json(const struct inventory *all, struct output *out)
{
    struct json json;
    json_init(&json, out);
    json_begin_object(&json, NULL);
    json_begin_array(&json, "jobs");
    for (size_t i = 0; i < all->job_count; i++)
        print_job_json(&json, &all->jobs[i]);
    json_end_array(&json);
    json_begin_array(&json, "machines");
    for (size_t i = 0; i < all->machine_count; i++) {
        json_begin_object(&json, NULL);
        json_text(&json, "id", all->machines[i].id);
        json_text(&json, "host", all->machines[i].host);
        json_number(&json, "jobs", all->machines[i].jobs);
        json_text(&json, "devices", all->machines[i].devices);
        json_end_object(&json);
    }
    json_end_array(&json);
    json_end_object(&json);
    output_text(out, "\n");
}

static void print_tables(const struct inventory *all, struct output *out)
{
    static const struct table_column jobs[] = {
        { "JOB", false, false },  { "STATE", false, false }, { "DONE", true, false },
        { "ITEMS", true, false }, { "USER", false, false },  { "WHAT", false, false }
    };
    static const struct table_column machines[] = { { "WORKER", false, false },
                                                    { "HOST", false, false },
                                                    { "JOBS", true, false },
                                                    { "DEVICES", false, false } };
    if (all->job_count > 0)
        table_print(jobs, sizeof jobs / sizeof *jobs, fill_job, all->jobs, all->job_count, out);
    else
        output_text(out, "no jobs\n");
    if (all->machine_count > 0)
        table_print(machines, sizeof machines / sizeof *machines, fill_machine, all->machines,
                    all->machine_count, out);
    else
        output_text(out, "no workers\n");
}

static enum exit_code run_list(const struct option_value *values, const char *argument,
                               struct output *out)
{
    struct muster_cluster *cluster = NULL;
    struct inventory all = { .job_count = 0 };
    struct muster_error error;
    enum exit_code code;
    (void)argument;
    if (!fleet_open(values + CLUSTER, "jobs", false, &cluster, &code))
        return code;
    if (!look(cluster, &all, &error))
        code = fleet_refuse(&error);
    else {
        code = EXIT_DONE;
        if (values[JSON].given)
            print_json(&all, out);
        else
            print_tables(&all, out);
    }
    forget(&all);
    muster_cluster_close(cluster);
    return code;
}

/* The job of that name; NULL: there is none. */
static const struct muster_cluster_entry *find(const struct inventory *all, const char *name)
{
    for (size_t i = 0; i < all->job_count; i++)
        if (strcmp(all->jobs[i].name, name) == 0)
            return &all->jobs[i];
    return NULL;
}

static void print_one(const struct muster_cluster_entry *entry, bool is_json, struct output *out)
{
    struct json json;
    char line[400];
    if (is_json) {
        json_init(&json, out);
        print_job_json(&json, entry);
        output_text(out, "\n");
        return;
    }
    snprintf(line, sizeof line, "%s: %s, %.1f%% of %llu items, %s, by %s, submitter number %u\n",
             entry->name, state_of(entry), percent(entry), (unsigned long long)entry->items,
             entry->title, entry->user, entry->submitters);
    output_text(out, line);
}

/* Prints the job once, or whenever it is further, until it is gone. */
static enum exit_code show_job(const struct option_value *values, const char *name, bool watches,
                               struct output *out)
{
    static const struct timespec pause = { 0, WATCH_MS * 1000000L };
    struct muster_cluster *cluster = NULL;
    struct muster_error error;
    enum exit_code code;
    uint64_t shown = UINT64_MAX;
    bool was_there = false, goes_on = true;
    if (!fleet_open(values + CLUSTER, "jobs", false, &cluster, &code))
        return code;
    while (goes_on) {
        struct inventory all = { .job_count = 0 };
        bool is_seen = look(cluster, &all, &error);
        const struct muster_cluster_entry *entry = is_seen ? find(&all, name) : NULL;
        if (entry && entry->delivered != shown)
            print_one(entry, values[JSON].given, out);
        shown = entry ? entry->delivered : shown;
        was_there = was_there || entry;
        output_flush(out);
        goes_on = watches && entry && !output_failed(out);
        code = is_seen && was_there ? EXIT_DONE : EXIT_FAILED;
        if (!is_seen)
            code = fleet_refuse(&error);
        else if (!was_there)
            message_error("the cluster has no job '%s': it has ended, or never existed", name);
        forget(&all);
        if (goes_on)
            nanosleep(&pause, NULL);
    }
    muster_cluster_close(cluster);
    return code;
}

static enum exit_code run_show(const struct option_value *values, const char *argument,
                               struct output *out)
{
    return show_job(values, argument, false, out);
}

static enum exit_code run_watch(const struct option_value *values, const char *argument,
                                struct output *out)
{
    return show_job(values, argument, true, out);
}

static enum exit_code run_cancel(const struct option_value *values, const char *argument,
                                 struct output *out)
{
    struct muster_cluster *cluster = NULL;
    struct muster_error error;
    enum exit_code code;
    (void)out;
    if (!fleet_open(values + CLUSTER, "jobs", false, &cluster, &code))
        return code;
    code = muster_cluster_cancel(cluster, argument, &error) == MUSTER_OK ? EXIT_DONE
                                                                         : fleet_refuse(&error);
    muster_cluster_close(cluster);
    return code;
}

static enum exit_code run_resume(const struct option_value *values, const char *argument,
                                 struct output *out)
{
    struct muster_cluster *cluster = NULL;
    struct muster_cluster_job *job = NULL;
    struct interrupt interrupt;
    struct muster_error error;
    enum exit_code code;
    (void)out;
    if (!interrupt_begin(&interrupt))
        return EXIT_FAILED;
    if (fleet_open(values + CLUSTER, "jobs", false, &cluster, &code)) {
        if (muster_cluster_resume(cluster, argument, NULL, NULL, &job, &error) == MUSTER_OK)
            code =
                fleet_follow(cluster, job, &interrupt, values[QUIET].given, values[REPORT].given);
        else
            code = fleet_refuse(&error);
        muster_cluster_job_destroy(job);
        muster_cluster_close(cluster);
    }
    interrupt_end(&interrupt);
    return code;
}

static const struct command command_jobs_list = {
    .name = "jobs list",
    .summary = "list the cluster's jobs and workers",
    .details = "A job that waits has no submitter: `muster jobs resume` goes on with it.\n",
    .options = options,
    .option_count = OPTION_COUNT,
    .run = run_list,
};
static const struct command command_jobs_show = {
    .name = "jobs show",
    .summary = "show how far a job is",
    .argument = "JOB",
    .argument_required = true,
    .details = "Exit status: 0 shown, 1 there is no such job, 2 wrong usage.\n",
    .options = options,
    .option_count = OPTION_COUNT,
    .run = run_show,
};
static const struct command command_jobs_watch = {
    .name = "jobs watch",
    .summary = "show a job's progress until it ends",
    .argument = "JOB",
    .argument_required = true,
    .details = "How it ended, its submitter says; of one that was detached, in OUT.log.\n",
    .options = options,
    .option_count = OPTION_COUNT,
    .run = run_watch,
};
static const struct command command_jobs_cancel = {
    .name = "jobs cancel",
    .summary = "end a job and remove it",
    .argument = "JOB",
    .argument_required = true,
    .details = "Exit status: 0 it is to end, 1 there is no such job, 2 wrong usage.\n",
    .options = options,
    .option_count = OPTION_COUNT,
    .run = run_cancel,
};
static const struct command command_jobs_resume = {
    .name = "jobs resume",
    .summary = "continue a job whose submitter has ended",
    .argument = "JOB",
    .argument_required = true,
    .details =
        "This process becomes the job's submitter, and another one that it still has leaves. "
        "Input\n"
        "and output must lie at the same paths here.\n"
        "\n"
        "Exit status: 0 done, 1 failed, 2 wrong usage. After a signal it ends by that signal.\n",
    .options = resume_options,
    .option_count = RESUME_COUNT,
    .run = run_resume,
};

static const struct command *const parts[] = { &command_jobs_list, &command_jobs_show,
                                               &command_jobs_watch, &command_jobs_cancel,
                                               &command_jobs_resume };

static enum exit_code dispatch(char *const *words, size_t count, struct output *out)
{
    struct suggestion suggestion = { .name = NULL };
    const char *word = count > 0 ? words[0] : "";
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        help_print(&command_jobs, out);
        return EXIT_DONE;
    }
    /* Without a word for what to do it is the list. */
    bool is_list = !*word || *word == '-';
    const struct command *part = is_list ? &command_jobs_list : command_part(&command_jobs, word);
    if (!part) {
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            suggest_offer(&suggestion, word, strlen(word), strchr(parts[i]->name, ' ') + 1);
        message_usage("jobs",
                      suggestion.name ? "there is no 'jobs %s'; did you mean %s?"
                                      : "there is no 'jobs %s'",
                      word, suggestion.name);
        return EXIT_USAGE;
    }
    size_t taken = is_list ? 0 : 1;
    return command_run(part, words + taken, count - taken, out);
}

const struct command command_jobs = {
    .name = "jobs",
    .summary = "list a cluster's jobs and workers, watch, cancel or resume a job",
    .argument = "list | show | watch | cancel | resume",
    .details = "muster jobs [list]          what the cluster has to do, and its workers\n"
               "muster jobs show JOB        how far it is\n"
               "muster jobs watch JOB       the same until it is over\n"
               "muster jobs cancel JOB      end it\n"
               "muster jobs resume JOB      go on with one whose submitter is gone\n"
               "\n"
               "`muster jobs list --help` and so on describe the options.\n",
    .parts = parts,
    .part_count = sizeof parts / sizeof *parts,
    .dispatch = dispatch,
};
