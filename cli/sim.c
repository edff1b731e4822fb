/*
 * `muster sim`: runs a scenario in virtual time and tells how it went.
 */
#include "aside.h"
#include "command.h"
#include "figures.h"
#include "json.h"
#include "message.h"
#include "sim_graph.h"
#include "table.h"
#include "timeline.h"

#include <errno.h>
#include <fcntl.h>
#include <muster/simulate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A scenario of more is a mistake, such as a device file that never ends. */
#define SCENARIO_BYTES_MAX ((size_t)64 << 20)
#define DEFAULT_SEED 1
/* More devices than these are told of kind by kind. */
#define DEVICES_ONE_BY_ONE 64
#define RUNS_MAX 1000
/* Of the failed ranges that a person is shown. */
#define RANGES_SHOWN 8

enum { SEED, JSON, TRACE, TIMELINE, EVERYONE, RUNS };

static const struct option options[] = {
    [SEED] = { .name = "seed",
               .kind = OPTION_NUMBER,
               .value = "N",
               .help = "of the random numbers, 0 to 18446744073709551615 (1)" },
    [JSON] = { .name = "json", .kind = OPTION_FLAG, .help = "print JSON" },
    [TRACE] = { .name = "trace",
                .kind = OPTION_TEXT,
                .value = "FILE",
                .help = "write a trace of every unit's runs, for Perfetto" },
    [TIMELINE] = { .name = "timeline",
                   .kind = OPTION_TEXT,
                   .value = "FILE.svg",
                   .help = "draw what each device did; runs the scenario a second time" },
    [EVERYONE] = { .name = "everyone",
                   .kind = OPTION_FLAG,
                   .help = "use all devices, also those that slow the job down" },
    [RUNS] = { .name = "runs",
               .kind = OPTION_NUMBER,
               .value = "N",
               .help = "run the job N times, learning from each; report the last" },
};

/* What is run, and where from. */
struct scenario {
    const char *path; /* borrowed; "-": standard input */
    const char *name; /* for messages and titles */
    char *text;       /* owns */
    size_t bytes;
    struct muster_simulation_options options;
};

/* Reading. */

static bool read_all(struct scenario *scenario, int descriptor)
{
    size_t room = 0;
    for (;;) {
        if (scenario->bytes == room) {
            room = room > 0 ? 2 * room : 1 << 16;
            char *text = realloc(scenario->text, room);
            if (!text)
                return false;
            scenario->text = text;
        }
        ssize_t got = read(descriptor, scenario->text + scenario->bytes, room - scenario->bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got == 0;
        scenario->bytes += (size_t)got;
        if (scenario->bytes > SCENARIO_BYTES_MAX) {
            errno = EFBIG;
            return false;
        }
    }
}

/* False if it could not be read, which has been reported. */
static bool read_scenario(struct scenario *scenario)
{
    bool is_input = strcmp(scenario->path, "-") == 0;
    int descriptor = is_input ? STDIN_FILENO : open(scenario->path, O_RDONLY | O_CLOEXEC);
    bool is_read = descriptor >= 0 && read_all(scenario, descriptor);
    if (!is_read)
        message_error("%s: %s", scenario->name, strerror(errno));
    if (descriptor >= 0 && !is_input)
        close(descriptor);
    return is_read;
}

/* For people: the file's name without its folders. */
static const char *title_of(const struct scenario *scenario)
{
    const char *slash = strrchr(scenario->name, '/');
    return slash && slash[1] ? slash + 1 : scenario->name;
}

/* JSON. */

static void ranges_json(struct json *json, const struct muster_simulation *simulation)
{
    json_begin_array(json, "failed");
    for (size_t i = 0; i < simulation->failed_count; i++) {
        json_begin_array(json, NULL);
        json_number(json, NULL, simulation->failed[i].begin);
        json_number(json, NULL, simulation->failed[i].end);
        json_end_array(json);
    }
    json_end_array(json);
}

/* Of a scenario with machines. */
static void machines_json(struct json *json, const struct muster_simulation *simulation)
{
    json_begin_array(json, "jobs");
    for (size_t i = 0; i < simulation->job_count; i++) {
        const struct muster_simulation_job *job = simulation->jobs[i];
        json_begin_object(json, NULL);
        json_text(json, "status", job->status == MUSTER_OK ? "ok" : "failed");
        json_real(json, "weight", job->weight);
        json_number(json, "items", job->items);
        json_number(json, "items_delivered", job->items_delivered);
        json_number(json, "end_ns", job->end_ns);
        json_number(json, "busy_ns", job->busy_ns);
        json_end_object(json);
    }
    json_end_array(json);
    json_number(json, "claims", simulation->claims);
    json_number(json, "adopted", simulation->adopted);
    json_number(json, "missing", simulation->missing);
    json_number(json, "workers_lost", simulation->workers_lost);
    json_number(json, "resumes", simulation->resumes);
}

static void print_json(const struct muster_simulation *simulation, struct output *out)
{
    struct json json;
    bool is_ok = simulation->status == MUSTER_OK;
    json_init(&json, out);
    json_begin_object(&json, NULL);
    json_number(&json, "seed", simulation->seed);
    json_text(&json, "status", is_ok ? "ok" : "failed");
    json_number(&json, "makespan_ns", simulation->makespan_ns);
    json_number(&json, "bound_ns", simulation->bound_ns);
    json_real(&json, "ratio", simulation->ratio);
    json_number(&json, "units", simulation->units);
    json_number(&json, "items_delivered", simulation->items_delivered);
    json_number(&json, "lost", simulation->lost);
    json_number(&json, "duplicated", simulation->duplicated);
    json_number(&json, "out_of_order", simulation->out_of_order);
    json_number(&json, "retries", simulation->retries);
    json_number(&json, "window_max", simulation->window_max);
    json_begin_array(&json, "devices");
    for (size_t i = 0; i < simulation->device_count && !output_failed(out); i++) {
        const struct muster_simulation_device *device = simulation->devices[i];
        json_begin_object(&json, NULL);
        json_text(&json, "id", device->id);
        json_text(&json, "name", device->name);
        json_number(&json, "items", device->items);
        json_number(&json, "units", device->units);
        json_number(&json, "busy_ns", device->busy_ns);
        json_text(&json, "health", device->health);
        json_real(&json, "faster_without", device->faster_without);
        json_end_object(&json);
    }
    json_end_array(&json);
    if (simulation->job_count > 0)
        machines_json(&json, simulation);
    if (!is_ok)
        ranges_json(&json, simulation);
    json_end_object(&json);
    output_text(out, "\n");
}

/* Text. */

/* Devices [first, first + count), which one row of the table is about. */
struct kind {
    size_t first, count;
};

struct kinds {
    const struct muster_simulation *simulation; /* borrowed */
    struct kind *rows;                          /* owns */
    size_t count;
};

static bool is_same_kind(const struct muster_simulation_device *a,
                         const struct muster_simulation_device *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->health, b->health) == 0 &&
           a->refused == b->refused;
}

/* A row for each device or, if they are many, for neighbours that are alike. */
static bool kinds_init(struct kinds *kinds, const struct muster_simulation *simulation)
{
    bool is_grouped = simulation->device_count > DEVICES_ONE_BY_ONE;
    *kinds = (struct kinds){ .simulation = simulation };
    kinds->rows = calloc(simulation->device_count, sizeof *kinds->rows);
    if (!kinds->rows)
        return false;
    for (size_t i = 0; i < simulation->device_count; i++) {
        if (i == 0 || !is_grouped ||
            !is_same_kind(simulation->devices[i], simulation->devices[i - 1]))
            kinds->rows[kinds->count++].first = i;
        kinds->rows[kinds->count - 1].count++;
    }
    return true;
}

enum { DEVICE, NAME, ITEMS, SHARE, UNITS, BUSY, RATE, RETRIES, HEALTH, COLUMN_COUNT };
_Static_assert(COLUMN_COUNT <= TABLE_COLUMNS_MAX, "every column has a cell");
_Static_assert(FIGURE_BYTES <= TABLE_CELL_BYTES, "every figure fits a cell");

static void device_row(const void *rows, size_t index, char (*cells)[TABLE_CELL_BYTES])
{
    const struct kinds *kinds = rows;
    const struct muster_simulation *simulation = kinds->simulation;
    const struct kind *kind = &kinds->rows[index];
    const struct muster_simulation_device *first = simulation->devices[kind->first];
    const struct muster_simulation_device *last =
        simulation->devices[kind->first + kind->count - 1];
    uint64_t items = 0, units = 0, retries = 0, busy_ns = 0;
    for (size_t i = 0; i < kind->count; i++) {
        const struct muster_simulation_device *device = simulation->devices[kind->first + i];
        items += device->items;
        units += device->units;
        retries += device->retries;
        busy_ns += device->busy_ns / kind->count;
    }
    snprintf(cells[DEVICE], TABLE_CELL_BYTES, kind->count > 1 ? "%s to %s" : "%s", first->id,
             last->id);
    snprintf(cells[NAME], TABLE_CELL_BYTES, "%s", first->name);
    figure_count(items, cells[ITEMS]);
    figure_share(items, simulation->items_delivered, cells[SHARE]);
    figure_count(units, cells[UNITS]);
    figure_share(busy_ns, simulation->makespan_ns, cells[BUSY]);
    figure_rate(items, busy_ns, cells[RATE]);
    figure_count(retries, cells[RETRIES]);
    if (first->refused)
        snprintf(cells[HEALTH], TABLE_CELL_BYTES, "refused by %s", first->refused);
    else
        snprintf(cells[HEALTH], TABLE_CELL_BYTES, "%s", first->health);
}

static void print_table(const struct kinds *kinds, struct output *out)
{
    static const struct table_column columns[COLUMN_COUNT] = {
        [DEVICE] = { "DEVICE", false, false }, [NAME] = { "NAME", false, false },
        [ITEMS] = { "ITEMS", true, false },    [SHARE] = { "SHARE", true, false },
        [UNITS] = { "UNITS", true, false },    [BUSY] = { "BUSY", true, false },
        [RATE] = { "RATE", true, false },      [RETRIES] = { "RETRIES", true, false },
        [HEALTH] = { "HEALTH", false, false },
    };
    table_print(columns, COLUMN_COUNT, device_row, kinds, kinds->count, out);
}

static void print_line(struct output *out, const char *name, const char *figure, const char *words)
{
    output_column(out, name, 10, false);
    output_column(out, figure, 12, true);
    output_text(out, *words ? "  " : "");
    output_column(out, words, 0, false);
    output_text(out, "\n");
}

static void print_head(const struct muster_simulation *simulation, struct output *out)
{
    char figure[FIGURE_BYTES], words[160], other[3][FIGURE_BYTES];
    figure_time(simulation->makespan_ns, figure);
    print_line(out, "makespan", figure, simulation->status == MUSTER_OK ? "" : "until it failed");
    if (simulation->bound_ns > 0) {
        figure_time(simulation->bound_ns, figure);
        print_line(out, "bound", figure, "the least time any schedule could take");
        snprintf(figure, sizeof figure, "%.4f", simulation->ratio);
        print_line(out, "ratio", figure, "");
    } else {
        print_line(out, "bound", "none", "the devices can never do all of it");
    }
    figure_count(simulation->items_delivered, figure);
    figure_count(simulation->lost, other[0]);
    figure_count(simulation->duplicated, other[1]);
    figure_count(simulation->out_of_order, other[2]);
    snprintf(words, sizeof words, "delivered; %s lost, %s twice, %s out of order", other[0],
             other[1], other[2]);
    print_line(out, "items", figure, words);
    figure_count(simulation->units, figure);
    figure_count(simulation->retries, other[0]);
    snprintf(words, sizeof words, "with %s %s", other[0],
             simulation->retries == 1 ? "retry" : "retries");
    print_line(out, "units", figure, words);
    figure_count(simulation->window_max, figure);
    print_line(out, "window", figure, "items claimed and not delivered at most");
}

/* What machines met, and when each of several jobs was over. */
static void print_machines(const struct muster_simulation *simulation, struct output *out)
{
    char figure[FIGURE_BYTES], words[200], other[4][FIGURE_BYTES], name[32];
    figure_count(simulation->claims, figure);
    figure_count(simulation->adopted, other[0]);
    figure_count(simulation->missing, other[1]);
    figure_count(simulation->workers_lost, other[2]);
    figure_count(simulation->resumes, other[3]);
    snprintf(words, sizeof words,
             "answered; %s runs adopted, %s grains missing, %s workers lost, %s submitters resumed",
             other[0], other[1], other[2], other[3]);
    print_line(out, "claims", figure, words);
    for (size_t i = 0; i < simulation->job_count && simulation->job_count > 1; i++) {
        const struct muster_simulation_job *job = simulation->jobs[i];
        figure_time(job->end_ns, figure);
        figure_time(job->busy_ns, other[0]);
        snprintf(name, sizeof name, "job %zu", i);
        snprintf(words, sizeof words, "until it %s; weight %g, %s of devices' time",
                 job->status == MUSTER_OK ? "ended" : "failed", job->weight, other[0]);
        print_line(out, name, figure, words);
    }
}

/* Who was left out, and why. */
static void print_left_out(const struct muster_simulation *simulation, struct output *out)
{
    bool is_first = true;
    for (size_t i = 0; i < simulation->device_count; i++) {
        const struct muster_simulation_device *device = simulation->devices[i];
        char words[160];
        if (!(device->faster_without > 0))
            continue;
        /* One that was left out since it brings next to nothing has 1.001: nobody has measured that. */
        if (device->faster_without < 1.005)
            snprintf(words, sizeof words, "%s%s (%s) left out: it brings next to nothing\n",
                     is_first ? "\n" : "", device->id, device->name);
        else
            snprintf(words, sizeof words,
                     "%s%s (%s) left out: the job is %.2f times faster without it\n",
                     is_first ? "\n" : "", device->id, device->name, device->faster_without);
        output_text(out, words);
        is_first = false;
    }
}

static bool print_text(const struct muster_simulation *simulation, struct output *out)
{
    struct kinds kinds;
    if (!kinds_init(&kinds, simulation))
        return false;
    print_head(simulation, out);
    if (simulation->job_count > 0)
        print_machines(simulation, out);
    output_text(out, "\n");
    print_table(&kinds, out);
    print_left_out(simulation, out);
    free(kinds.rows);
    return true;
}

/* Failures. */

static void tell_of_failure(const struct scenario *scenario,
                            const struct muster_simulation *simulation)
{
    char text[512] = "";
    size_t used = 0;
    if (simulation->broken) {
        message_error("%s: Muster broke a rule of its own: %s", scenario->name, simulation->broken);
        return;
    }
    for (size_t i = 0; i < simulation->failed_count && i < RANGES_SHOWN; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, " [%llu, %llu)",
                                 (unsigned long long)simulation->failed[i].begin,
                                 (unsigned long long)simulation->failed[i].end);
    if (simulation->failed_count > RANGES_SHOWN)
        snprintf(text + used, sizeof text - used, " and %zu more",
                 simulation->failed_count - RANGES_SHOWN);
    message_error("%s: the job failed and %llu items were not delivered; given up:%s",
                  scenario->name, (unsigned long long)simulation->lost, text);
}
_Static_assert(RANGES_SHOWN * 48 + 32 < 512, "the ranges fit the message");

static enum exit_code refusal(const struct scenario *scenario, const struct muster_error *error)
{
    message_library(scenario->name, error);
    switch (error->status) {
    case MUSTER_E_PARSE:
        return EXIT_USAGE;
    case MUSTER_E_NO_DEVICE:
        return EXIT_NO_DEVICE;
    default:
        return EXIT_FAILED;
    }
}

/* Runs. */

static void event_to_trace(void *user, const struct muster_trace_event *event)
{
    muster_trace_writer_add(user, event);
}

static void event_to_timeline(void *user, const struct muster_trace_event *event)
{
    timeline_add(user, event);
}

static muster_status trace_to_file(void *user, const char *text, size_t bytes)
{
    struct output *out = user;
    output_bytes(out, text, bytes);
    return output_failed(out) ? MUSTER_E_IO : MUSTER_OK;
}

static muster_status simulate(const struct scenario *scenario, struct muster_simulation **out,
                              struct muster_error *error)
{
    return muster_simulate(scenario->text, scenario->bytes, &scenario->options, out, error);
}

/* The names of the devices, which are known only after the run, and the end. */
static muster_status end_trace(struct muster_trace_writer *writer,
                               const struct muster_simulation *simulation)
{
    for (size_t i = 0; i < simulation->device_count; i++)
        muster_trace_writer_name(writer, (uint32_t)i, simulation->devices[i]->id,
                                 simulation->devices[i]->name);
    return muster_trace_writer_end(writer, 0, NULL);
}

/* The first run, with the trace if `file` is not NULL. */
static muster_status run_first(struct scenario *scenario, struct aside *file,
                               struct muster_simulation **out, struct muster_error *error)
{
    struct muster_trace_writer *writer;
    if (!file)
        return simulate(scenario, out, error);
    const struct muster_trace_writer_options how = {
        .size = sizeof how, .title = title_of(scenario), .write = trace_to_file, .user = &file->out
    };
    muster_status status = muster_trace_writer_create(&how, &writer, error);
    if (status != MUSTER_OK)
        return status;
    scenario->options.event = event_to_trace;
    scenario->options.event_user = writer;
    status = simulate(scenario, out, error);
    if (status == MUSTER_OK && end_trace(writer, *out) == MUSTER_E_NO_MEMORY)
        file->out.error = ENOMEM;
    muster_trace_writer_destroy(writer);
    return status;
}

/* The second run, for the picture. */
static void run_second(struct scenario *scenario, struct aside *file,
                       const struct muster_simulation *first)
{
    struct timeline timeline;
    struct muster_simulation *second = NULL;
    char seed[32];
    snprintf(seed, sizeof seed, "seed %llu", (unsigned long long)first->seed);
    const struct timeline_run run = { .status = first->status,
                                      .makespan_ns = first->makespan_ns,
                                      .bound_ns = first->bound_ns,
                                      .items = first->items_delivered,
                                      .units = first->units,
                                      .missing = first->lost,
                                      .remark = seed,
                                      .devices = first->devices,
                                      .device_count = first->device_count };
    if (!timeline_init(&timeline, &run)) {
        file->out.error = ENOMEM;
        return;
    }
    scenario->options.event = event_to_timeline;
    scenario->options.event_user = &timeline;
    /* What could be run once is refused only for want of memory. */
    if (simulate(scenario, &second, NULL) == MUSTER_OK)
        timeline_draw(&timeline, title_of(scenario), &file->out);
    else
        file->out.error = ENOMEM;
    muster_simulation_destroy(second);
    timeline_deinit(&timeline);
}

static enum exit_code report(const struct scenario *scenario,
                             const struct muster_simulation *simulation, bool as_json,
                             struct output *out)
{
    if (as_json) {
        print_json(simulation, out);
    } else if (!print_text(simulation, out)) {
        message_error("%s: %s", scenario->name, strerror(ENOMEM));
        return EXIT_FAILED;
    }
    if (simulation->status == MUSTER_OK && !simulation->broken)
        return EXIT_DONE;
    output_flush(out);
    tell_of_failure(scenario, simulation);
    return EXIT_FAILED;
}

/* The files that are wanted, opened before the work is done. */
struct files {
    struct aside trace, timeline;
    bool has_trace, has_timeline;
};

static bool files_open(struct files *files, const struct option_value *values)
{
    files->has_trace = files->has_timeline = false;
    if (values[TRACE].given && !aside_open(&files->trace, values[TRACE].text))
        return false;
    files->has_trace = values[TRACE].given;
    if (values[TIMELINE].given && !aside_open(&files->timeline, values[TIMELINE].text)) {
        if (files->has_trace)
            aside_discard(&files->trace);
        return false;
    }
    files->has_timeline = values[TIMELINE].given;
    return true;
}

static void files_discard(struct files *files)
{
    if (files->has_trace)
        aside_discard(&files->trace);
    if (files->has_timeline)
        aside_discard(&files->timeline);
}

static bool files_commit(struct files *files)
{
    bool is_traced = !files->has_trace || aside_commit(&files->trace);
    bool is_drawn = !files->has_timeline || aside_commit(&files->timeline);
    return is_traced && is_drawn;
}

static enum exit_code run_scenario(struct scenario *scenario, const struct option_value *values,
                                   struct files *files, struct output *out)
{
    struct muster_simulation *simulation;
    struct muster_error error;
    if (run_first(scenario, files->has_trace ? &files->trace : NULL, &simulation, &error) !=
        MUSTER_OK) {
        files_discard(files);
        return refusal(scenario, &error);
    }
    if (files->has_timeline)
        run_second(scenario, &files->timeline, simulation);
    bool is_written = files_commit(files);
    enum exit_code code = report(scenario, simulation, values[JSON].given, out);
    muster_simulation_destroy(simulation);
    return is_written ? code : EXIT_FAILED;
}

/* A scenario with a graph; MUSTER_E_NOT_SUPPORTED in `*status`: it has none, and nothing was told. */
static enum exit_code run_graph(const struct scenario *scenario, const struct option_value *values,
                                muster_status *status, struct output *out)
{
    struct muster_graph_simulation *simulation;
    struct muster_error error;
    struct muster_simulation_options how = { .size = sizeof how, .seed = scenario->options.seed };
    how.everyone = values[TRACE].given || values[TIMELINE].given || values[EVERYONE].given ||
                   values[RUNS].given;
    *status = muster_simulate_graph(scenario->text, scenario->bytes, &how, &simulation, &error);
    if (*status == MUSTER_E_NOT_SUPPORTED)
        return EXIT_FAILED;
    if (*status == MUSTER_E_INVALID) {
        message_usage("sim", "--trace, --timeline, --everyone and --runs are not for graphs");
        return EXIT_USAGE;
    }
    if (*status != MUSTER_OK)
        return refusal(scenario, &error);
    enum exit_code code = sim_graph_report(scenario->name, simulation, values[JSON].given, out);
    muster_graph_simulation_destroy(simulation);
    return code;
}

/* Whether both name the same existing file. */
static bool is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino &&
           S_ISREG(x.st_mode);
}

/* Files that would overwrite each other, or the scenario. */
static bool check_paths(const struct option_value *values, const char *scenario)
{
    const char *trace = values[TRACE].text, *timeline = values[TIMELINE].text;
    for (int i = TRACE; i <= TIMELINE; i++) {
        if (!values[i].given)
            continue;
        if (strcmp(values[i].text, "-") == 0) {
            message_usage("sim", "--%s must name a file, not '-'", options[i].name);
            return false;
        }
        if (is_same_file(values[i].text, scenario)) {
            message_usage("sim", "--%s would overwrite the scenario %s", options[i].name, scenario);
            return false;
        }
    }
    if (trace && timeline && (strcmp(trace, timeline) == 0 || is_same_file(trace, timeline))) {
        message_usage("sim", "--trace and --timeline must name two files, not %s", trace);
        return false;
    }
    return true;
}

static enum exit_code run(const struct option_value *values, const char *argument,
                          struct output *out)
{
    struct scenario scenario = {
        .path = argument,
        .name = strcmp(argument, "-") == 0 ? "standard input" : argument,
        .options = { .size = sizeof scenario.options,
                     .seed = values[SEED].given ? values[SEED].number : DEFAULT_SEED,
                     .everyone = values[EVERYONE].given,
                     .runs = (uint32_t)values[RUNS].number },
    };
    static struct files files;
    if (!check_paths(values, argument))
        return EXIT_USAGE;
    if (values[RUNS].given && (values[RUNS].number == 0 || values[RUNS].number > RUNS_MAX)) {
        message_usage("sim", "--runs must be from 1 to %d", RUNS_MAX);
        return EXIT_USAGE;
    }
    enum exit_code code = EXIT_USAGE;
    if (read_scenario(&scenario)) {
        muster_status status;
        code = run_graph(&scenario, values, &status, out);
        if (status == MUSTER_E_NOT_SUPPORTED && files_open(&files, values))
            code = run_scenario(&scenario, values, &files, out);
    }
    free(scenario.text);
    return code;
}

const struct command command_sim = {
    .name = "sim",
    .summary = "simulate devices and a job, or a graph of tasks, in virtual time",
    .argument = "FILE",
    .argument_required = true,
    .details =
        "FILE describes devices, their faults, and a job or a graph of tasks "
        "(docs/simulation.md);\n"
        "- is standard input. The scheduler is the one that runs real jobs. The same file and "
        "seed\n"
        "give the same bytes on every machine.\n"
        "\n"
        "Exit status: 0 done; 1 the job failed; 2 a mistake in the file; 3 the hints refuse every "
        "device.\n"
        "\n"
        "JSON: "
        "{\"seed\",\"status\":\"ok\"|\"failed\",\"makespan_ns\",\"bound_ns\",\"ratio\",\"units\",\n"
        "\"items_delivered\",\"lost\",\"duplicated\",\"out_of_order\",\"retries\",\"window_max\",\n"
        "\"devices\":[{\"id\",\"name\",\"items\",\"units\",\"busy_ns\",\"health\",\n"
        "\"faster_without\"},...]}, and with status failed \"failed\":[[begin,end],...].\n"
        "faster_without is above 0 for a device that was left out: the job is that many times "
        "faster\n"
        "without it.\n"
        "Of a graph: "
        "{\"seed\",\"status\",\"makespan_ns\",\"bound_ns\",\"ratio\",\"critical_path_ns\",\"area_"
        "ns\",\n"
        "\"tasks\",\"ended\",\"failed\",\"cancelled\",\"moved\",\"copies\",\"copied_bytes\","
        "\"evictions\",\n"
        "\"written_back_bytes\",\"wrong\",\"devices\":[{\"id\",\"name\",\"tasks\",\"busy_ns\","
        "\"bytes_in\",\n"
        "\"bytes_out\",\"health\"},...]}.\n",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
