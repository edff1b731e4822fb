/*
 * `muster scan`: many words over files, with the answers of `grep -aF`. The job itself is in
 * jobs/scan.h; here are the options and how what it finds is printed.
 */
#include "scan.h"

#include "command.h"
#include "fleet.h"
#include "json.h"
#include "message.h"
#include "report.h"
#include "running.h"
#include "runtime.h"
#include "utf8.h"
#include "words.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    WORD,
    WORD_FILE,
    IGNORE_CASE,
    WORDS_ONLY,
    LINES_ONLY,
    INVERTED,
    COUNT,
    LIST,
    LIST_OTHERS,
    QUIET,
    NO_MESSAGES,
    BYTE_OFFSET,
    ONLY_MATCHING,
    LINE_NUMBER,
    WITH_FILENAME,
    NO_FILENAME,
    RECURSIVE,
    COLOUR,
    UNPACK,
    TEXT,
    FIXED,
    GREP_STATUS,
    THROUGH,
    NAME,
    CLUSTER,
    RUNNING = CLUSTER + FLEET_OPTIONS,
    JSON = RUNNING + RUNNING_OPTIONS,
    OPTION_COUNT
};

/* Each has room for as many as there are words on the command line. */
static struct arguments given_words, given_files, more_inputs;

static const struct option options[OPTION_COUNT] = {
    [WORD] = { .name = "word",
               .old_name = "regexp",
               .letter = 'e',
               .kind = OPTION_TEXT,
               .value = "WORD",
               .list = &given_words,
               .help = "look for this; each line of it is a word; can be repeated" },
    [WORD_FILE] = { .name = "file",
                    .letter = 'f',
                    .kind = OPTION_TEXT,
                    .value = "FILE",
                    .list = &given_files,
                    .help =
                        "look for each line of the file, - is standard input; can be repeated" },
    [IGNORE_CASE] = { .name = "ignore-case",
                      .letter = 'i',
                      .kind = OPTION_FLAG,
                      .help = "A to Z are as a to z" },
    [WORDS_ONLY] = { .name = "word-regexp",
                     .letter = 'w',
                     .kind = OPTION_FLAG,
                     .help = "no letter, digit or _ beside what is found" },
    [LINES_ONLY] = { .name = "line-regexp",
                     .letter = 'x',
                     .kind = OPTION_FLAG,
                     .help = "what is found is a whole line" },
    [INVERTED] = { .name = "invert-match",
                   .letter = 'v',
                   .kind = OPTION_FLAG,
                   .help = "lines that have none of the words" },
    [COUNT] = { .name = "count",
                .letter = 'c',
                .kind = OPTION_FLAG,
                .help = "print how many lines have a word" },
    [LIST] = { .name = "files-with-matches",
               .letter = 'l',
               .kind = OPTION_FLAG,
               .help = "print the names of inputs in which something is found" },
    [LIST_OTHERS] = { .name = "files-without-match",
                      .letter = 'L',
                      .kind = OPTION_FLAG,
                      .help = "print the names of the others" },
    [QUIET] = { .name = "quiet",
                .letter = 'q',
                .kind = OPTION_FLAG,
                .help = "print nothing, and end when something is found; see --grep-status" },
    [NO_MESSAGES] = { .name = "no-messages",
                      .letter = 's',
                      .kind = OPTION_FLAG,
                      .help = "do not report inputs that cannot be read" },
    [BYTE_OFFSET] = { .name = "byte-offset",
                      .letter = 'b',
                      .kind = OPTION_FLAG,
                      .help = "print where in its input each line begins, with -o each word" },
    [ONLY_MATCHING] = { .name = "only-matching",
                        .letter = 'o',
                        .kind = OPTION_FLAG,
                        .help = "print each word that is found, not its line" },
    [LINE_NUMBER] = { .name = "line-number",
                      .letter = 'n',
                      .kind = OPTION_FLAG,
                      .help = "print the number of each line" },
    [WITH_FILENAME] = { .name = "with-filename",
                        .letter = 'H',
                        .kind = OPTION_FLAG,
                        .help = "print the input's name; the default where there are several" },
    [NO_FILENAME] = { .name = "no-filename",
                      .letter = 'h',
                      .kind = OPTION_FLAG,
                      .help = "do not print it" },
    [RECURSIVE] = { .name = "recursive",
                    .letter = 'r',
                    .kind = OPTION_FLAG,
                    .help = "search the files below folders; without INPUT: below this one" },
    [COLOUR] = { .name = "color",
                 .old_name = "colour",
                 .kind = OPTION_MAYBE_TEXT,
                 .value = "[=WHEN]",
                 .help = "show what is found in colour: always, never or auto (auto)" },
    [UNPACK] = { .name = "search-zip",
                 .letter = 'z',
                 .kind = OPTION_FLAG,
                 .help = "search what .gz and .zst files hold" },
    [TEXT] = { .name = "text",
               .letter = 'a',
               .kind = OPTION_FLAG,
               .help = "taken for grep's sake: inputs are always text" },
    [FIXED] = { .name = "fixed-strings",
                .letter = 'F',
                .kind = OPTION_FLAG,
                .help = "likewise: words are always fixed" },
    [GREP_STATUS] = { .name = "grep-status",
                      .kind = OPTION_FLAG,
                      .help = "exit as grep does: 0 found, 1 not found, 2 in trouble" },
    [THROUGH] = { .name = "through",
                  .kind = OPTION_FLAG,
                  .help = "with --cluster: no other machine reads the inputs" },
    [NAME] = { .name = "name",
               .kind = OPTION_TEXT,
               .value = "JOB",
               .help = "with --cluster: what the job is called (chosen)" },
    FLEET_OPTION_ROWS,
    [RUNNING] = RUNNING_OPTION_ROWS(OPTION_SIZE, "SIZE",
                                    "text that a device is given at a time: 64K (by its speed)"),
    [JSON] = { .name = "json",
               .kind = OPTION_FLAG,
               .help = "print counts, and how the work went, as JSON" },
};

/* What is printed, and what has been. */
struct printing {
    const struct option_value *values;
    size_t operand_count;
    bool is_terminal, is_coloured;
    struct output *out;
    struct json json;
    bool has_begun; /* the JSON */
    uint64_t lines; /* with a word, of all inputs */
    bool is_found;
    atomic_bool is_troubled; /* set by the thread that reads */
};

/* Words. */

static bool read_all(int descriptor, char **text, size_t *bytes)
{
    size_t capacity = 0;
    for (;;) {
        if (*bytes == capacity) {
            capacity = capacity > 0 ? capacity * 2 : 65536;
            char *larger = realloc(*text, capacity);
            if (!larger) {
                errno = ENOMEM;
                return false;
            }
            *text = larger;
        }
        ssize_t got = read(descriptor, *text + *bytes, capacity - *bytes);
        if (got == 0)
            return true;
        if (got < 0 && errno != EINTR)
            return false;
        *bytes += got > 0 ? (size_t)got : 0;
    }
}

static enum exit_code refuse_words(enum words_result result, const char *path)
{
    if (result == WORDS_NO_MEMORY)
        message_error("no memory for the words");
    else
        message_error("%s%sthe words are more than %u or have more than %zu bytes",
                      path ? path : "", path ? ": " : "", WORDS_MAX, WORDS_BYTES_MAX);
    return result == WORDS_NO_MEMORY ? EXIT_FAILED : EXIT_USAGE;
}

static enum exit_code add_file(struct words *words, const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    enum exit_code code = EXIT_USAGE;
    bool is_standard = strcmp(path, "-") == 0;
    int descriptor = is_standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0 || !read_all(descriptor, &text, &bytes)) {
        message_error("%s: the words cannot be read: %s", path, strerror(errno));
    } else {
        enum words_result result = words_add_file(words, text, bytes);
        code = result == WORDS_ADDED ? EXIT_DONE : refuse_words(result, path);
    }
    if (descriptor > STDIN_FILENO)
        close(descriptor);
    free(text);
    return code;
}

static enum exit_code collect_words(struct words *words)
{
    enum exit_code code = EXIT_DONE;
    for (size_t i = 0; i < given_words.count && code == EXIT_DONE; i++) {
        enum words_result result =
            words_add(words, given_words.words[i], strlen(given_words.words[i]));
        if (result != WORDS_ADDED)
            code = refuse_words(result, NULL);
    }
    for (size_t i = 0; i < given_files.count && code == EXIT_DONE; i++)
        code = add_file(words, given_files.words[i]);
    return code;
}

/* What is found. */

static const char *name_of(const struct input *input)
{
    return strcmp(input->path, "-") == 0 ? "(standard input)" : input->path;
}

/* Text in a colour, as grep has it, which also keeps the rest of the line as it was. */
static void print_coloured(const struct printing *printing, const char *colour, const char *text,
                           size_t length)
{
    if (printing->is_coloured) {
        output_text(printing->out, "\033[");
        output_text(printing->out, colour);
        output_text(printing->out, "m\033[K");
    }
    output_bytes(printing->out, text, length);
    if (printing->is_coloured)
        output_text(printing->out, "\033[m\033[K");
}

#define COLOUR_NAME "35"
#define COLOUR_NUMBER "32"
#define COLOUR_BETWEEN "36"
#define COLOUR_MATCH "01;31"

static void print_prefix(const struct printing *printing, uint64_t number)
{
    char digits[20];
    size_t first = sizeof digits;
    do
        digits[--first] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    print_coloured(printing, COLOUR_NUMBER, digits + first, sizeof digits - first);
    print_coloured(printing, COLOUR_BETWEEN, ":", 1);
}

/* As grep prints it, but for what could steer the terminal where it is one. */
static void print_name(const struct printing *printing, const struct input *input)
{
    const char *name = name_of(input);
    if (printing->is_terminal && !printing->is_coloured)
        output_column(printing->out, name, 0, false);
    else if (printing->is_terminal) {
        char shown[4096];
        utf8_show_all(name, shown, sizeof shown);
        print_coloured(printing, COLOUR_NAME, shown, strlen(shown));
    } else
        print_coloured(printing, COLOUR_NAME, name, strlen(name));
}

static void print_name_before(const struct printing *printing, const struct input *input)
{
    bool has_name =
        !printing->values[NO_FILENAME].given && (printing->values[WITH_FILENAME].given ||
                                                 printing->operand_count > 1 || !input->is_operand);
    if (!has_name)
        return;
    print_name(printing, input);
    print_coloured(printing, COLOUR_BETWEEN, ":", 1);
}

static void print_line(const struct printing *printing, struct finder *finder,
                       const struct finder_hit *hit)
{
    const char *line = (const char *)hit->bytes;
    size_t done = 0, at = 0, length;
    bool is_whole = printing->values[ONLY_MATCHING].given;
    bool has_matches = printing->is_coloured && !printing->values[INVERTED].given && !is_whole;
    if (is_whole) {
        print_coloured(printing, COLOUR_MATCH, line, hit->length);
        return;
    }
    while (has_matches && (length = finder_match(finder, hit->bytes, hit->length, &at)) > 0) {
        output_bytes(printing->out, line + done, at - done);
        print_coloured(printing, COLOUR_MATCH, line + at, length);
        done = at += length;
    }
    output_bytes(printing->out, line + done, hit->length - done);
}

static bool print_hit(void *user, const struct input *input, struct finder *finder,
                      const struct finder_hit *hit)
{
    struct printing *printing = user;
    print_name_before(printing, input);
    if (printing->values[LINE_NUMBER].given)
        print_prefix(printing, hit->line_number);
    if (printing->values[BYTE_OFFSET].given)
        print_prefix(printing, hit->offset);
    print_line(printing, finder, hit);
    output_bytes(printing->out, "\n", 1);
    if (printing->is_terminal)
        output_flush(printing->out);
    return !output_failed(printing->out);
}

/* Nothing is printed before it is known that the job has started. */
static void begin_json(struct printing *printing)
{
    if (printing->has_begun)
        return;
    printing->has_begun = true;
    json_init(&printing->json, printing->out);
    json_begin_object(&printing->json, NULL);
    json_begin_array(&printing->json, "inputs");
}

static bool print_end(void *user, const struct input *input, uint64_t lines)
{
    struct printing *printing = user;
    const struct option_value *values = printing->values;
    bool is_listed = (values[LIST].given && lines > 0) || (values[LIST_OTHERS].given && lines == 0);
    printing->lines += lines;
    printing->is_found |= lines > 0;
    if (values[JSON].given) {
        begin_json(printing);
        json_begin_object(&printing->json, NULL);
        json_text(&printing->json, "path", input->path);
        json_number(&printing->json, "lines", lines);
        json_end_object(&printing->json);
    } else if (values[QUIET].given) {
        return !printing->is_found;
    } else if (is_listed) {
        print_name(printing, input);
        output_bytes(printing->out, "\n", 1);
    } else if (values[COUNT].given && !values[LIST].given && !values[LIST_OTHERS].given) {
        print_name_before(printing, input);
        output_number(printing->out, lines);
        output_bytes(printing->out, "\n", 1);
    }
    if (printing->is_terminal)
        output_flush(printing->out);
    return !output_failed(printing->out);
}

static void tell_trouble(void *user, const char *path, const char *why)
{
    struct printing *printing = user;
    atomic_store(&printing->is_troubled, true);
    if (!printing->values[NO_MESSAGES].given)
        message_error("%s: %s", path, why);
}

static void print_report(struct printing *printing, const struct muster_report *report,
                         muster_status status)
{
    struct json *json = &printing->json;
    begin_json(printing);
    json_end_array(json);
    json_number(json, "lines", printing->lines);
    json_text(json, "status", muster_status_name(status));
    if (status != MUSTER_OK)
        message_json_members(json);
    json_number(json, "item_bytes", SCAN_ITEM_BYTES);
    json_number(json, "items", report->delivered);
    json_number(json, "units", report->units);
    json_number(json, "retries", report->retries);
    json_number(json, "makespan_ns", report->makespan_ns);
    json_begin_array(json, "devices");
    for (size_t i = 0; i < report->device_count; i++) {
        const struct muster_job_device *device = &report->devices[i];
        json_begin_object(json, NULL);
        json_text(json, "id", device->id);
        json_number(json, "items", device->items);
        json_number(json, "units", device->units);
        json_number(json, "retries", device->retries);
        json_number(json, "busy_ns", device->busy_ns);
        json_text(json, "health", muster_health_name(device->health));
        json_end_object(json);
    }
    json_end_array(json);
    json_end_object(json);
    output_text(printing->out, "\n");
}

/* Running. */

static enum exit_code refuse(const struct muster_error *error)
{
    message_library(NULL, error);
    switch (error->status) {
    case MUSTER_E_NO_DEVICE:
    case MUSTER_E_NOT_FOUND:
        return EXIT_NO_DEVICE;
    case MUSTER_E_INVALID:
    case MUSTER_E_PARSE:
        return EXIT_USAGE;
    default:
        return EXIT_FAILED;
    }
}

static void fill_options(const struct printing *printing, struct scan_options *asked)
{
    const struct option_value *values = printing->values;
    bool is_first_only = values[LIST].given || values[LIST_OTHERS].given || values[QUIET].given;
    bool has_counts = values[COUNT].given || values[JSON].given || is_first_only ||
                      (values[ONLY_MATCHING].given && values[INVERTED].given);
    asked->want = has_counts                    ? FINDER_COUNTS
                  : values[ONLY_MATCHING].given ? FINDER_MATCHES
                                                : FINDER_LINES;
    asked->is_numbered = values[LINE_NUMBER].given && !has_counts;
    asked->is_folded = values[IGNORE_CASE].given;
    asked->is_word = values[WORDS_ONLY].given;
    asked->is_whole = values[LINES_ONLY].given;
    asked->is_inverted = values[INVERTED].given;
    asked->is_first_only = is_first_only && !values[JSON].given;
    asked->has_places = printing->is_coloured && !has_counts;
    asked->is_unpacked = values[UNPACK].given;
    asked->output = has_counts ? 0 : STDOUT_FILENO;
    asked->hit = print_hit;
    asked->end = print_end;
    asked->trouble = tell_trouble;
}

/* What the job's end means; told, if it is a failure. */
static enum exit_code judge(struct printing *printing, muster_status *status,
                            const struct muster_report *report, const struct muster_error *error)
{
    bool is_found = printing->values[QUIET].given && printing->is_found;
    /* Whatever a device still does, others have done all of it. */
    if (*status == MUSTER_E_DEVICE_HUNG && report->delivered == report->items) {
        message_error("%s", error->text);
        *status = MUSTER_OK;
    }
    if (*status == MUSTER_E_CANCELLED && is_found && !output_failed(printing->out))
        *status = MUSTER_OK;
    if (*status != MUSTER_OK && !output_failed(printing->out))
        return refuse(error);
    return *status != MUSTER_OK                               ? EXIT_FAILED
           : atomic_load(&printing->is_troubled) && !is_found ? EXIT_USAGE
                                                              : EXIT_DONE;
}

static enum exit_code run_job(struct muster *m, struct printing *printing, struct words *words,
                              struct scan_options *asked)
{
    struct muster_report report = { .size = sizeof report };
    struct muster_error error;
    struct scan *scan = NULL;
    bool is_json = printing->values[JSON].given;
    fill_options(printing, asked);
    asked->user = printing;
    if (scan_start(m, words, asked, &scan, &error) != MUSTER_OK)
        return refuse(&error);
    muster_status status = scan_wait(scan, &report, &error);
    bool is_read = !is_json || report_read(&report, scan_job(scan));
    scan_destroy(scan);
    enum exit_code code = judge(printing, &status, &report, &error);
    if (is_json && is_read)
        print_report(printing, &report, status);
    report_deinit(&report);
    if (!is_read) {
        message_error("%s", strerror(ENOMEM));
        return EXIT_FAILED;
    }
    return code;
}

static enum exit_code run_on_devices(struct printing *printing, struct words *words,
                                     struct scan_options *asked)
{
    struct muster *m = NULL;
    struct muster_error error;
    if (running_open(&printing->values[RUNNING + RUNNING_DEVICES], &m, &error) != MUSTER_OK)
        return refuse(&error);
    enum exit_code code = run_job(m, printing, words, asked);
    runtime_close(m);
    return code;
}

/* On many machines: marks come from them, and this process reads the text and tells what is found. */
static enum exit_code follow(struct printing *printing, struct scan *scan,
                             struct muster_cluster *cluster, struct muster_cluster_job *job,
                             struct interrupt *interrupt)
{
    const struct muster_report none = { .size = sizeof none };
    struct muster_error error = { .size = sizeof error };
    muster_status status = MUSTER_OK;
    if (job)
        status = fleet_wait(cluster, job, interrupt, true, false, &error);
    const char *name = interrupt_name(interrupt);
    /* The thread that settles is gone before this one goes on with it. */
    muster_cluster_job_destroy(job);
    status = scan_finish(scan, status, &error);
    if (!name)
        return judge(printing, &status, &none, &error);
    message_error("ended by %s", name);
    return EXIT_FAILED;
}

static enum exit_code submit(struct printing *printing, struct scan *scan,
                             struct muster_cluster_desc *desc, struct interrupt *interrupt)
{
    const struct option_value *values = printing->values;
    struct muster_cluster *cluster = NULL;
    struct muster_cluster_job *job = NULL;
    struct muster_error error;
    enum exit_code code;
    desc->name = values[NAME].text;
    desc->title = "scan";
    desc->through = values[THROUGH].given;
    if (!fleet_open(values + CLUSTER, "scan", false, &cluster, &code))
        return code;
    if (desc->items > 0 && muster_cluster_submit(cluster, desc, &job, &error) != MUSTER_OK)
        code = fleet_refuse(&error);
    else
        code = follow(printing, scan, cluster, job, interrupt);
    muster_cluster_close(cluster);
    return code;
}

static enum exit_code run_on_cluster(struct printing *printing, struct words *words,
                                     struct scan_options *asked)
{
    struct interrupt interrupt;
    struct muster_cluster_desc desc;
    struct muster_error error;
    struct scan *scan = NULL;
    enum exit_code code;
    fill_options(printing, asked);
    asked->user = printing;
    if (!interrupt_begin(&interrupt))
        return EXIT_FAILED;
    if (scan_describe(words, asked, &scan, &desc, &error) == MUSTER_OK)
        code = submit(printing, scan, &desc, &interrupt);
    else
        code = fleet_refuse(&error);
    scan_destroy(scan);
    output_flush(printing->out);
    interrupt_end(&interrupt);
    return code;
}

static bool check_cluster(const struct option_value *values)
{
    static const int alone[] = { THROUGH, NAME };
    static const int here[] = { RUNNING + RUNNING_DEVICES,  RUNNING + RUNNING_POLICY,
                                RUNNING + RUNNING_AFFINITY, RUNNING + RUNNING_UNIT,
                                RUNNING + RUNNING_WINDOW,   RUNNING + RUNNING_NO_SPECULATION,
                                RUNNING + RUNNING_EVERYONE, JSON };
    bool is_far = values[CLUSTER + FLEET_URL].given;
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
        if (!is_far && values[alone[i]].given) {
            message_usage("scan", "--%s goes with --cluster", options[alone[i]].name);
            return false;
        }
    for (size_t i = 0; i < sizeof here / sizeof *here; i++)
        if (is_far && values[here[i]].given) {
            message_usage("scan", "--%s is for one machine, not for --cluster",
                          options[here[i]].name);
            return false;
        }
    return true;
}

static bool check(const struct option_value *values)
{
    const char *when = values[COLOUR].text;
    if (!check_cluster(values))
        return false;
    if (values[WITH_FILENAME].given && values[NO_FILENAME].given)
        message_usage("scan", "--with-filename and --no-filename exclude each other");
    else if (values[LIST].given && values[LIST_OTHERS].given)
        message_usage("scan", "--files-with-matches and --files-without-match exclude each other");
    else if (when && strcmp(when, "always") != 0 && strcmp(when, "never") != 0 &&
             strcmp(when, "auto") != 0)
        message_usage("scan", "--color is always, never or auto, not '%s'", when);
    else if (values[JSON].given && (values[ONLY_MATCHING].given || values[BYTE_OFFSET].given ||
                                    values[LINE_NUMBER].given))
        message_usage("scan", "--json gives counts: it does not go with -o, -b and -n");
    else
        return true;
    return false;
}

static bool is_coloured(const struct option_value *colour)
{
    const char *terminal = getenv("TERM"), *none = getenv("NO_COLOR");
    if (colour->text && strcmp(colour->text, "auto") != 0)
        return strcmp(colour->text, "always") == 0;
    return isatty(STDOUT_FILENO) == 1 && terminal && strcmp(terminal, "dumb") != 0 &&
           !(none && *none);
}

/* grep knows no 3, and its 1 is no failure. */
static enum exit_code as_grep(enum exit_code code, bool is_found)
{
    if (code != EXIT_DONE)
        return EXIT_USAGE;
    return is_found ? EXIT_DONE : EXIT_FAILED;
}

/* The pattern is the first argument, unless words are given otherwise; the others are inputs. */
static enum exit_code read_arguments(const struct option_value *values, const char *argument,
                                     struct words *words, struct tree_options *tree)
{
    static const char *const nothing[] = { "-" }, *const here[] = { "." };
    bool has_pattern = !values[WORD].given && !values[WORD_FILE].given;
    if (has_pattern && !argument) {
        message_usage("scan", "scan needs a PATTERN, --word WORD or --file FILE");
        return EXIT_USAGE;
    }
    if (has_pattern)
        given_words.words[given_words.count++] = argument;
    tree->is_recursive = values[RECURSIVE].given;
    /* The list has a place before its first, for the argument that is given apart. */
    more_inputs.words[-1] = argument;
    tree->operands = has_pattern ? more_inputs.words : more_inputs.words - 1;
    tree->operand_count = more_inputs.count + (has_pattern || !argument ? 0 : 1);
    if (tree->operand_count == 0) {
        tree->has_no_prefix = tree->is_recursive;
        tree->operands = tree->is_recursive ? here : nothing;
        tree->operand_count = 1;
    }
    return collect_words(words);
}

static enum exit_code run(const struct option_value *values, const char *argument,
                          struct output *out)
{
    struct words words = { 0 };
    struct scan_options asked = { .want = FINDER_LINES };
    if (!check(values) || !running_read(values + RUNNING, "scan", &asked.run))
        return EXIT_USAGE;
    asked.run.unit_items = (asked.run.unit_items + SCAN_ITEM_BYTES - 1) / SCAN_ITEM_BYTES;
    enum exit_code code = read_arguments(values, argument, &words, &asked.tree);
    struct printing printing = { .values = values,
                                 .operand_count = asked.tree.operand_count,
                                 .is_terminal = isatty(STDOUT_FILENO) == 1,
                                 .is_coloured = is_coloured(&values[COLOUR]),
                                 .out = out };
    /* grep reads nothing where no line can be found: without words, or where all have one. */
    bool is_inverted = values[INVERTED].given;
    bool has_all = words.count == 0 && words.has_empty && !values[LINES_ONLY].given &&
                   !values[WORDS_ONLY].given;
    bool has_none = words.count == 0 && !words.has_empty;
    bool is_in_vain = is_inverted ? has_all : has_none;
    if (code == EXIT_DONE && (!is_in_vain || values[JSON].given || values[LIST_OTHERS].given))
        code = values[CLUSTER + FLEET_URL].given ? run_on_cluster(&printing, &words, &asked)
                                                 : run_on_devices(&printing, &words, &asked);
    words_deinit(&words);
    if (!values[GREP_STATUS].given)
        return code;
    return values[QUIET].given && printing.is_found ? EXIT_DONE : as_grep(code, printing.is_found);
}

static enum exit_code dispatch(char *const *line, size_t count, struct output *out)
{
    struct option_value values[OPTIONS_MAX];
    const char *argument;
    const char **room = calloc(3 * count + 2, sizeof *room);
    if (!room) {
        message_error("no memory for %zu arguments", count);
        return EXIT_FAILED;
    }
    given_words = (struct arguments){ room, 0, count + 1 };
    given_files = (struct arguments){ room + count + 1, 0, count };
    more_inputs = (struct arguments){ room + 2 * count + 2, 0, count };
    enum exit_code code = EXIT_DONE;
    switch (option_parse(&command_scan, line, count, values, &argument)) {
    case OPTION_HELP:
        help_print(&command_scan, out);
        break;
    case OPTION_WRONG:
        code = EXIT_USAGE;
        break;
    case OPTION_RUN:
        code = run(values, argument, out);
        break;
    }
    free(room);
    return code;
}

const struct command command_scan = {
    .name = "scan",
    .summary = "find many words in files, with the output of grep -aF",
    .argument = "INPUT...",
    .details =
        "Prints the lines of the inputs that have one of the words, as `grep -aF` does in the C\n"
        "locale: byte for byte, the longest word at each place, an empty word in every line. "
        "Words\n"
        "may be 100,000 and more. Without INPUT, and for -, standard input is read.\n"
        "\n"
        "The search starts on the devices that open quickly. If it turns out to be long, the "
        "drivers\n"
        "of others are opened and these join. Devices that are named are waited for.\n"
        "\n"
        "--cluster URL searches files on all machines that work for a cluster (docs/cluster.md).\n"
        "\n"
        "Exit status: 0 done, found or not; 1 failed; 2 wrong usage, or an input that could not "
        "be\n"
        "read, of which stderr tells and which the others do not suffer from; 3 no eligible "
        "device.\n"
        "JSON: "
        "{\"inputs\":[{\"path\",\"lines\"}],\"lines\",\"status\",\"item_bytes\",\"items\","
        "\"units\",\n"
        "\"retries\",\"makespan_ns\",\"devices\":[{\"id\",\"items\",\"units\",\"retries\",\"busy_"
        "ns\",\"health\"}]}\n",
    .options = options,
    .option_count = OPTION_COUNT,
    .more = &more_inputs,
    .dispatch = dispatch,
};
