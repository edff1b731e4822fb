/*
 * What is seen of a command that runs jobs, one after the other: progress on a terminal while they
 * run, how it went at the end, and on request a trace and a picture.
 *
 *     struct show *show = show_begin(m, &options);      opens files, so before any work
 *     show_job(show, job);                              drawn from here on
 *     status = muster_job_wait(job, &report, &error);
 *     show_job_end(show, &report);                      before muster_job_destroy
 *     muster_file_finish(...); show_file(show, "input", input); show_file(show, "output", output);
 *     is_written = show_end(show, status, out);         erases, reports, writes the files
 *
 * Progress goes to stderr if that is a terminal, else nowhere. It is drawn by a thread that takes no
 * signals and never waits for the terminal, so neither a stopped terminal nor a slow one holds up
 * the work. The terminal's modes stay as they are and the cursor stands below what is drawn: ended
 * at any moment, the command leaves nothing to be put right. Messages (message.h) erase it first.
 * All functions but show_job's drawing are for one thread.
 */
#ifndef CLI_SHOW_H
#define CLI_SHOW_H

#include "json.h"
#include "option.h"

#include <muster/file.h>
#include <muster/job.h>

enum show_report {
    SHOW_TABLE,  /* text on stderr, if that is a terminal or the table is asked for */
    SHOW_JSON,   /* one object, on `out`; on stderr where stdout is data */
    SHOW_NOTHING /* as --quiet, but progress is drawn; show_json can be used */
};

struct show_options {
    const char *command;   /* borrowed, as all text here until show_end: "map", for messages */
    const char *title;     /* what is run, in a line: "edges.c over clip.y4m" */
    const char *item_name; /* what an item is, in the plural; NULL: "items" */
    /*
     * Of all jobs together; SHOW_UNKNOWN: not known. Items are shown as `item_bytes` each; 0: they
     * are counted, and `total` counts items too.
     */
    uint64_t total, item_bytes;
    enum show_report report;
    bool is_quiet;                /* neither progress nor report */
    bool is_report_wanted;        /* the table also where stderr is no terminal */
    bool stdout_is_data;          /* stdout has the command's output */
    const char *trace, *timeline; /* paths; NULL: not wanted */
    /* Paths of the command's own files, which those two must not overwrite; NULLs are allowed. */
    const char *const *taken;
    size_t taken_count;
};

#define SHOW_UNKNOWN UINT64_MAX

/*
 * The options that all such commands have, for the end of their table, and what was given of them:
 * `values` points to the first. For tables of up to OPTIONS_MAX.
 */
enum {
    SHOW_OPTION_QUIET,
    SHOW_OPTION_REPORT,
    SHOW_OPTION_JSON,
    SHOW_OPTION_TRACE,
    SHOW_OPTION_TIMELINE,
    SHOW_OPTIONS
};

/* clang-format off */
#define SHOW_OPTION_ROWS                                                                           \
    { .name = "quiet", .letter = 'q', .kind = OPTION_FLAG,                                         \
      .help = "show no progress and no report" },                                                   \
    { .name = "report", .kind = OPTION_FLAG,                                                       \
      .help = "print the report even if standard error is no terminal" },                               \
    { .name = "json", .kind = OPTION_FLAG,                                                         \
      .help = "print the report as JSON" },                                                        \
    { .name = "trace", .kind = OPTION_TEXT, .value = "FILE",                                       \
      .help = "write a trace of what each device did, for Perfetto" },                           \
    { .name = "timeline", .kind = OPTION_TEXT, .value = "FILE.svg",                                \
      .help = "draw what each device did" }
/* clang-format on */

void show_read_options(const struct option_value *values, struct show_options *options);

struct show;

/* Also starts the trace, if it or the picture is wanted. NULL: it was reported on stderr why. */
struct show *show_begin(struct muster *m, const struct show_options *options);

/* What is being done where no job runs: "writing to disk". Copied; NULL: nothing. */
void show_note(struct show *show, const char *note);

/* Borrowed until show_job_end. */
void show_job(struct show *show, struct muster_job *job);

/* The job is over, and not destroyed yet: adds its report to those before. No job: does nothing. */
void show_job_end(struct show *show);

/* Adds the file's report; files in one role ("input", "output") that went the same way are one. */
void show_file(struct show *show, const char *role, struct muster_file *file);

/*
 * The report so far as members of the object that is open: "status", "items", "devices" and so on,
 * as docs/observe.md says.
 */
void show_json(struct show *show, muster_status status, struct json *json);

/*
 * The end: what was drawn is erased, the report printed unless there was no job, the files written.
 * `out` is stdout's. False if a file was not written, which was reported. NULL is allowed.
 */
bool show_end(struct show *show, muster_status status, struct output *out);

#endif
