/*
 * `muster map`: a kernel over a file, on every device. The job itself is in jobs/map.h; here are the
 * options, what is said, and what a signal does.
 */
#include "map.h"

#include "command.h"
#include "fleet.h"
#include "grid.h"
#include "interrupt.h"
#include "log.h"
#include "message.h"
#include "running.h"
#include "runtime.h"
#include "show.h"

#include <stdio.h>
#include <string.h>

#define TITLE_BYTES 160

enum {
    KERNEL,
    ENTRY,
    IN,
    OUT,
    ITEM,
    OUT_ITEM,
    Y4M,
    HALO,
    BORDER,
    GRID,
    PLANES,
    TABLE,
    SKIP,
    REST,
    ARG,
    UNORDERED,
    DETACH,
    THROUGH,
    GRAIN,
    NAME,
    CLUSTER,
    RUNNING = CLUSTER + FLEET_OPTIONS,
    SHOW = RUNNING + RUNNING_OPTIONS,
    LOG = SHOW + SHOW_OPTIONS,
    OPTION_COUNT = LOG + LOG_OPTIONS
};

static const char *in_words[MUSTER_ARGS_MAX], *out_words[MUSTER_ARGS_MAX],
    *table_words[MUSTER_ARGS_MAX];
static struct arguments ins = { in_words, 0, MUSTER_ARGS_MAX },
                        outs = { out_words, 0, MUSTER_ARGS_MAX },
                        tables = { table_words, 0, MUSTER_ARGS_MAX };

static const struct option options[] = {
    [KERNEL] = RUNNING_KERNEL_ROW("what to run"),
    [ENTRY] = RUNNING_ENTRY_ROW,
    [IN] = { .name = "in",
             .letter = 'i',
             .kind = OPTION_TEXT,
             .required = true,
             .value = "[NAME=]FILE",
             .list = &ins,
             .help = "the input; - is standard input; repeated: one for each const pointer" },
    [OUT] = { .name = "out",
              .letter = 'o',
              .kind = OPTION_TEXT,
              .required = true,
              .value = "[NAME=]FILE",
              .list = &outs,
              .help = "the results; - is standard output; repeated: one for each other pointer" },
    [ITEM] = { .name = "item",
               .kind = OPTION_SIZE,
               .value = "SIZE",
               .help = "size of an input record (that of the kernel's const pointer)" },
    [OUT_ITEM] = { .name = "out-item",
                   .kind = OPTION_SIZE,
                   .value = "SIZE",
                   .help = "size of a result (that of the kernel's other pointer)" },
    [Y4M] = { .name = "y4m",
              .kind = OPTION_FLAG,
              .help = "the input is video (detected if --item is not given)" },
    [HALO] = { .name = "halo",
               .kind = OPTION_NUMBER,
               .value = "N",
               .help = "neighbours of an item that the kernel reads, each side (0)" },
    [BORDER] = { .name = "border",
                 .kind = OPTION_TEXT,
                 .value = "B",
                 .help = "neighbours outside the data: zero or clamp (zero)" },
    [GRID] = { .name = "grid",
               .kind = OPTION_TEXT,
               .value = "WxH[xD]",
               .help = "shape of the grid (that of the .npy file or video)" },
    [PLANES] = { .name = "planes",
                 .kind = OPTION_TEXT,
                 .value = "LIST",
                 .help = "planes of a video that the kernel changes: y,u,v (all)" },
    [TABLE] = { .name = "table",
                .kind = OPTION_TEXT,
                .value = "NAME=FILE",
                .list = &tables,
                .help = "a file that every item reads whole, as pointer NAME; can be repeated" },
    [SKIP] = { .name = "skip",
               .kind = OPTION_SIZE,
               .value = "SIZE",
               .help = "bytes before the first record of the first input (0)" },
    [REST] = { .name = "rest",
               .kind = OPTION_TEXT,
               .value = "R",
               .help = "bytes after the last whole record: keep, drop or pad (refused)" },
    [ARG] = RUNNING_ARG_ROW,
    [UNORDERED] = { .name = "unordered",
                    .kind = OPTION_FLAG,
                    .help = "results may be written in any order" },
    [DETACH] = { .name = "detach",
                 .kind = OPTION_FLAG,
                 .help = "with --cluster: print the job's name and go on without a terminal" },
    [THROUGH] = { .name = "through",
                  .kind = OPTION_FLAG,
                  .help = "with --cluster: no other machine reads or writes the files" },
    [GRAIN] = { .name = "grain",
                .kind = OPTION_NUMBER,
                .value = "N",
                .help = "with --cluster: records whose results are stored as one (chosen)" },
    [NAME] = { .name = "name",
               .kind = OPTION_TEXT,
               .value = "JOB",
               .help = "with --cluster: name of the job (chosen)" },
    FLEET_OPTION_ROWS,
    [RUNNING] = RUNNING_OPTION_ROWS(OPTION_NUMBER, "U",
                                    "records or frames in a unit (by each device's speed)"),
    SHOW_OPTION_ROWS,
    LOG_OPTION_ROWS,
};
_Static_assert(sizeof options / sizeof *options == OPTION_COUNT && OPTION_COUNT <= OPTIONS_MAX,
               "each option has its row");

/* A failure as an exit code: what was asked for is told from what happened. */
static enum exit_code code_of(enum map_part part, muster_status status)
{
    if (status == MUSTER_E_NO_MEMORY)
        return EXIT_FAILED;
    switch (part) {
    case MAP_KERNEL:
    case MAP_INPUT:
        return EXIT_USAGE;
    case MAP_DEVICES:
        if (status == MUSTER_E_NO_DEVICE || status == MUSTER_E_NOT_FOUND)
            return EXIT_NO_DEVICE;
        return status == MUSTER_E_INVALID || status == MUSTER_E_PARSE ||
                       status == MUSTER_E_TOO_LARGE
                   ? EXIT_USAGE
                   : EXIT_FAILED;
    case MAP_OUTPUT:
        break;
    }
    return EXIT_FAILED;
}

static enum exit_code refuse(enum map_part part, const struct muster_error *error)
{
    message_library(NULL, error);
    return code_of(part, error->status);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return strcmp(path, "-") == 0 ? "standard input" : slash && slash[1] ? slash + 1 : path;
}

static void cancel(void *map)
{
    map_cancel(map);
}

static void tell_waiting(void *map)
{
    struct muster_progress progress = { .size = sizeof progress };
    if (muster_job_progress(map_job(map), &progress, NULL) == MUSTER_OK && *progress.waits_for)
        message_error("waiting for %s", progress.waits_for);
}

static bool is_standard_output(const char *out)
{
    static const char *const names[] = { "-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1" };
    bool is_one = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        is_one |= strcmp(out, names[i]) == 0;
    return is_one;
}

static void tell_interrupt(const struct map *map, const char *name, const char *out)
{
    struct muster_file_report report = { .size = sizeof report };
    bool is_stream = muster_file_report(map_file(map, true), &report, NULL) == MUSTER_OK &&
                     strcmp(report.engine, "pipe") == 0;
    message_error("ended by %s; %s%s", name, is_stream ? "the output is incomplete" : out,
                  is_stream ? "" : " is as it was before");
}

/* The job has been started: to its end. */
static enum exit_code finish(struct map *map, struct show *show, struct interrupt *interrupt,
                             const char *out_path, muster_status *status)
{
    struct muster_report report = { .size = sizeof report };
    struct muster_error error;
    enum map_part part;
    *status = map_wait(map, &report, &part, &error);
    show_job_end(show);
    /* Whatever a device still does, others have done all of it. */
    if (map_is_complete(*status, &report)) {
        message_error("%s", error.text);
        *status = MUSTER_OK;
    }
    if (*status == MUSTER_OK) {
        show_note(show, "writing to disk");
        *status = map_finish(map, &part, &error);
    }
    show_file(show, "input", map_file(map, false));
    show_file(show, "output", map_file(map, true));
    if (*status == MUSTER_OK)
        return EXIT_DONE;
    const char *name = interrupt_name(interrupt);
    /* An input that was there and then could not be read is nothing that was asked wrongly. */
    if (!name && part == MAP_INPUT && error.status == MUSTER_E_IO)
        part = MAP_OUTPUT;
    if (!name)
        return refuse(part, &error);
    if (*status == MUSTER_E_DEVICE_HUNG)
        message_error("%s", error.text);
    tell_interrupt(map, name, out_path);
    return EXIT_FAILED;
}

/* All that is needed is open. */
static enum exit_code run_map(struct map *map, const struct map_options *asked, struct show *show,
                              struct interrupt *interrupt, struct output *out)
{
    struct muster_error error;
    interrupt_set(interrupt, cancel, tell_waiting, map);
    muster_status status = map_start(map, asked, &error);
    enum exit_code code;
    if (status == MUSTER_OK) {
        show_job(show, map_job(map));
        code = finish(map, show, interrupt, asked->out, &status);
    } else {
        code = refuse(MAP_DEVICES, &error);
    }
    if (!show_end(show, status, out) && code == EXIT_DONE)
        code = EXIT_FAILED;
    /* The rest is quickly done, and nothing of it would be left. */
    interrupt_set(interrupt, NULL, NULL, NULL);
    return code;
}

static enum exit_code run_job(struct muster *m, const struct map_options *asked,
                              const struct option_value *values, struct interrupt *interrupt,
                              struct output *out)
{
    char title[TITLE_BYTES];
    const char *taken[3 * MUSTER_ARGS_MAX + 1];
    size_t taken_count = 0;
    taken[taken_count++] = asked->kernels[0];
    for (size_t i = 0; i < ins.count; i++)
        taken[taken_count++] = ins.words[i];
    for (size_t i = 0; i < outs.count; i++)
        taken[taken_count++] = outs.words[i];
    for (size_t i = 0; i < tables.count; i++)
        taken[taken_count++] = tables.words[i];
    struct muster_error error;
    struct map *map = NULL;
    struct map_facts facts;
    enum map_part part;
    if (map_create(m, asked, &map, &part, &error) != MUSTER_OK)
        return refuse(part, &error);
    map_facts(map, &facts);
    snprintf(title, sizeof title, "%s over %s", base_name(asked->kernels[0]), base_name(asked->in));
    struct show_options showing = { .command = "map",
                                    .title = title,
                                    .total = facts.bytes == MUSTER_ITEMS_UNKNOWN ? SHOW_UNKNOWN
                                                                                 : facts.bytes,
                                    .item_bytes = facts.item_bytes,
                                    .report = SHOW_TABLE,
                                    .stdout_is_data = is_standard_output(asked->out),
                                    .taken = taken,
                                    .taken_count = taken_count };
    show_read_options(values + SHOW, &showing);
    struct show *show = show_begin(m, &showing);
    enum exit_code code = show ? run_map(map, asked, show, interrupt, out) : EXIT_FAILED;
    map_destroy(map);
    return code;
}

static enum exit_code run_on_devices(const struct map_options *asked,
                                     const struct option_value *values, struct interrupt *interrupt,
                                     struct output *out)
{
    struct muster *m = NULL;
    struct muster_error error;
    if (running_open(&values[RUNNING + RUNNING_DEVICES], &m, &error) != MUSTER_OK)
        return refuse(MAP_DEVICES, &error);
    enum exit_code code = run_job(m, asked, values, interrupt, out);
    runtime_close(m);
    return code;
}

static bool read_grid(const char *text, struct map_options *asked)
{
    uint32_t sides[3] = { 0, 0, 0 };
    bool is_read = grid_read_text(text, sides);
    asked->width = sides[0];
    asked->height = sides[1];
    asked->depth = sides[2];
    return is_read;
}

static bool read_planes(const char *text, struct map_options *asked)
{
    static const char names[] = "yuv";
    for (; *text; text++) {
        const char *found = strchr(names, *text);
        if (*text == ',')
            continue;
        if (!found)
            return false;
        asked->planes |= 1u << (found - names);
    }
    return asked->planes != 0;
}

/* One of the words; its index in `out`. */
static bool read_word(const char *text, const char *const *words, int *out)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(text, words[i]) == 0) {
            *out = i;
            return true;
        }
    return false;
}

static bool read_neighbours(const struct option_value *values, struct map_options *asked)
{
    static const char *const borders[] = { "zero", "clamp", NULL };
    static const char *const rests[] = { "", "keep", "drop", "pad", NULL };
    int border = MUSTER_BORDER_ZERO, rest = MAP_REST_REFUSED;
    if (values[BORDER].given && !read_word(values[BORDER].text, borders, &border))
        message_usage("map", "--border is zero or clamp, not '%s'", values[BORDER].text);
    else if (values[GRID].given && !read_grid(values[GRID].text, asked))
        message_usage("map", "--grid takes sizes as in 640x480 or 64x64x32, not '%s'",
                      values[GRID].text);
    else if (values[PLANES].given && !read_planes(values[PLANES].text, asked))
        message_usage("map", "--planes takes some of y, u and v, not '%s'", values[PLANES].text);
    else if (values[REST].given && (!read_word(values[REST].text, rests, &rest) || rest == 0))
        message_usage("map", "--rest is keep, drop or pad, not '%s'", values[REST].text);
    else {
        asked->border = (enum muster_border)border;
        asked->rest = (enum map_rest)rest;
        return true;
    }
    return false;
}

/* On many machines. */

static enum exit_code submit(struct map *map, const struct map_options *asked,
                             const struct option_value *values, struct interrupt *interrupt)
{
    static struct map_cluster described;
    struct muster_cluster *cluster = NULL;
    struct muster_cluster_job *job = NULL;
    struct muster_error error;
    enum exit_code code;
    char title[TITLE_BYTES], log[4096];
    muster_status status = map_describe(map, asked, &described, &error);
    if (status != MUSTER_OK)
        return refuse(MAP_INPUT, &error);
    snprintf(title, sizeof title, "%s over %s", base_name(asked->kernels[0]), base_name(asked->in));
    snprintf(log, sizeof log, "%s.log", described.desc.out);
    described.desc.title = title;
    described.desc.name = values[NAME].text;
    described.desc.grain = values[GRAIN].number;
    described.desc.through = values[THROUGH].given;
    if (!fleet_open(values + CLUSTER, "map", false, &cluster, &code))
        return code;
    if (muster_cluster_submit(cluster, &described.desc, &job, &error) == MUSTER_OK) {
        if (values[DETACH].given)
            fleet_detached(muster_cluster_job_name(job), log);
        code = fleet_follow(cluster, job, interrupt, values[SHOW + SHOW_OPTION_QUIET].given,
                            values[SHOW + SHOW_OPTION_REPORT].given || values[DETACH].given);
    } else {
        code = fleet_refuse(&error);
    }
    muster_cluster_job_destroy(job);
    muster_cluster_close(cluster);
    return code;
}

/* Of this machine nothing is used but what reads the kernel and the input. */
static enum exit_code run_on_cluster(struct map_options *asked, const struct option_value *values,
                                     struct output *out)
{
    static const struct option_value here = { .given = true, .text = "cpu" };
    struct interrupt interrupt;
    struct muster *m = NULL;
    struct map *map = NULL;
    struct muster_error error;
    enum map_part part = MAP_DEVICES;
    enum exit_code code;
    if (values[DETACH].given && fleet_detach(&code, out) != 0)
        return code;
    if (!interrupt_begin(&interrupt))
        return EXIT_FAILED;
    asked->is_for_cluster = true;
    muster_status status = running_open(&here, &m, &error);
    if (status == MUSTER_OK)
        status = map_create(m, asked, &map, &part, &error);
    code = status == MUSTER_OK ? submit(map, asked, values, &interrupt) : refuse(part, &error);
    map_destroy(map);
    if (m)
        runtime_close(m);
    interrupt_end(&interrupt);
    return code;
}

static bool check_cluster(const struct option_value *values)
{
    static const int alone[] = { DETACH, THROUGH, GRAIN, NAME };
    static const int here[] = { RUNNING + RUNNING_DEVICES,  RUNNING + RUNNING_POLICY,
                                RUNNING + RUNNING_AFFINITY, RUNNING + RUNNING_UNIT,
                                RUNNING + RUNNING_WINDOW,   RUNNING + RUNNING_NO_SPECULATION,
                                RUNNING + RUNNING_EVERYONE, SHOW + SHOW_OPTION_JSON,
                                SHOW + SHOW_OPTION_TRACE,   SHOW + SHOW_OPTION_TIMELINE };
    bool is_far = values[CLUSTER + FLEET_URL].given;
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
        if (!is_far && values[alone[i]].given) {
            message_usage("map", "--%s goes with --cluster", options[alone[i]].name);
            return false;
        }
    for (size_t i = 0; i < sizeof here / sizeof *here; i++)
        if (is_far && values[here[i]].given) {
            message_usage("map", "--%s is for one machine, not for --cluster",
                          options[here[i]].name);
            return false;
        }
    if (values[GRAIN].given && values[GRAIN].number == 0) {
        message_usage("map", "--grain cannot be 0");
        return false;
    }
    return true;
}

static bool check(const struct option_value *values)
{
    if (!check_cluster(values))
        return false;
    if (values[Y4M].given && (values[ITEM].given || values[OUT_ITEM].given))
        message_usage("map", "--y4m does not go with --item and --out-item");
    else if ((values[ITEM].given && values[ITEM].number == 0) ||
             (values[OUT_ITEM].given && values[OUT_ITEM].number == 0))
        message_usage("map", "--item and --out-item cannot be 0");
    else if (values[ITEM].given && (ins.count > 1 || outs.count > 1))
        message_usage("map", "--item is for one input and one output; the kernel's types say more");
    else
        return true;
    return false;
}

static enum exit_code run(const struct option_value *values, const char *argument,
                          struct output *out)
{
    struct map_options asked = { .kernels = running_kernels.words,
                                 .kernel_count = running_kernels.count,
                                 .entry = values[ENTRY].text,
                                 .in = ins.words[0],
                                 .out = outs.words[0],
                                 .more_ins = ins.words + 1,
                                 .more_in_count = ins.count - 1,
                                 .more_outs = outs.words + 1,
                                 .more_out_count = outs.count - 1,
                                 .tables = tables.words,
                                 .table_count = tables.count,
                                 .skip = values[SKIP].number,
                                 .format = values[Y4M].given    ? MAP_VIDEO
                                           : values[ITEM].given ? MAP_RECORDS
                                                                : MAP_DETECTED,
                                 .item_bytes = (size_t)values[ITEM].number,
                                 .out_item_bytes = (size_t)values[OUT_ITEM].number,
                                 .halo = values[HALO].number,
                                 .arguments = running_arguments.words,
                                 .argument_count = running_arguments.count,
                                 .run = { .unordered = values[UNORDERED].given } };
    struct interrupt interrupt;
    (void)argument;
    if (values[SHOW + SHOW_OPTION_JSON].given && is_standard_output(outs.words[0]))
        message_want_json(true);
    if (!check(values) || !read_neighbours(values, &asked) ||
        !running_read(values + RUNNING, "map", &asked.run) || !log_begin(values + LOG, "map"))
        return EXIT_USAGE;
    if (values[CLUSTER + FLEET_URL].given)
        return run_on_cluster(&asked, values, out);
    if (!interrupt_begin(&interrupt))
        return EXIT_FAILED;
    enum exit_code code = run_on_devices(&asked, values, &interrupt, out);
    interrupt_end(&interrupt);
    return code;
}

const struct command command_map = {
    .name = "map",
    .summary = "run a kernel over a file or a video, on every device",
    .details = "The kernel runs once for each record of the input. In C:\n"
               "\n"
               "  MUSTER_KERNEL void invert(uint64_t i, MUSTER_GLOBAL const uint8_t *in,\n"
               "                            MUSTER_GLOBAL uint8_t *out, uint8_t top)\n"
               "  { out[i] = (uint8_t)(top - in[i]); }\n"
               "\n"
               "--arg sets the kernel's values by name: --arg top=255. Muster sets `first`, the "
               "number of the\n"
               "unit's first item, and `items`, the number of all items. For video (YUV4MPEG2) it "
               "also sets\n"
               "`width`, `height`, `chroma_width`, `chroma_height`, `luma`, `frame` (samples in a\n"
               "frame) and `bits` (in a sample). The items of a video are its samples: uint8_t, or "
               "uint16_t\n"
               "above 8 bits. A unit of a video has whole frames.\n"
               "\n"
               "The kernel's const pointers are inputs, its other pointers outputs. Files belong "
               "to them in\n"
               "order, or by name: --in a=FILE. The first input may be a pipe; the others must be "
               "files. A\n"
               ".npy file is read with its shape and type. An output whose name ends in .npy is "
               "written as one.\n"
               "\n"
               "A kernel with a parameter `struct muster_cell at` works on a grid: that of --grid, "
               "the shape\n"
               "of a .npy file, or the planes of a video. It gets x and y, and reads neighbours up "
               "to --halo\n"
               "cells away with muster_near.\n"
               "\n"
               "The output appears when it is complete. If the command fails, no output is left, "
               "unless it\n"
               "is a pipe or /dev/stdout.\n"
               "The work starts on the devices that open quickly. If it takes long, the other "
               "devices are\n"
               "opened and join. Devices that --devices names are waited for.\n"
               "If a device does not answer, other devices do its work and a message names it. At "
               "the end,\n"
               "and after SIGINT or SIGTERM, the command waits at most two seconds for it.\n"
               "\n"
               "Exit status: 0 done, 1 failed, 2 wrong usage, kernel or input, 3 no eligible "
               "device. After a\n"
               "signal the command ends by that signal.\n",
    .options = options,
    .option_count = OPTION_COUNT,
    .run = run,
};
