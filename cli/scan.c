/*
 * `muster scan`: many words over files, with the answers of `grep -aF`. The job itself is in
 * jobs/scan.h; here are the options and how what it finds is printed.
 */
#include "scan.h"

#include "command.h"
#include "json.h"
#include "message.h"
#include "report.h"
#include "runtime.h"
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
    COUNT,
    BYTE_OFFSET,
    ONLY_MATCHING,
    LINE_NUMBER,
    WITH_FILENAME,
    NO_FILENAME,
    GREP_STATUS,
    DEVICES,
    UNIT,
    JSON,
    OPTION_COUNT
};

/* Each has room for as many as there are words on the command line. */
static struct arguments given_words, given_files, more_inputs;

static const struct option options[OPTION_COUNT] = {
    [WORD] = { .name = "word",
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
    [COUNT] = { .name = "count",
                .letter = 'c',
                .kind = OPTION_FLAG,
                .help = "print how many lines have a word" },
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
    [GREP_STATUS] = { .name = "grep-status",
                      .kind = OPTION_FLAG,
                      .help = "exit as grep does: 0 found, 1 not found, 2 in trouble" },
    [DEVICES] = { .name = "devices",
                  .kind = OPTION_TEXT,
                  .value = "LIST",
                  .help = "use only these, by id or backend: cpu,cuda:0" },
    [UNIT] = { .name = "unit",
               .kind = OPTION_NUMBER,
               .value = "U",
               .help = "KiB that a device is given at a time; the default goes by its speed" },
    [JSON] = { .name = "json",
               .kind = OPTION_FLAG,
               .help = "print counts, and how the work went, as JSON" },
};

/* What is printed, and what has been. */
struct printing {
    const struct option_value *values;
    const char **paths;
    size_t path_count;
    bool has_names, is_terminal;
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

static const char *name_of(const struct printing *printing, size_t input)
{
    const char *path = printing->paths[input];
    return strcmp(path, "-") == 0 ? "(standard input)" : path;
}

static void print_prefix(const struct printing *printing, uint64_t number)
{
    output_number(printing->out, number);
    output_text(printing->out, ":");
}

/* As grep prints it, but for what could steer the terminal where it is one. */
static void print_name(const struct printing *printing, size_t input)
{
    if (printing->is_terminal)
        output_column(printing->out, name_of(printing, input), 0, false);
    else
        output_text(printing->out, name_of(printing, input));
    output_text(printing->out, ":");
}

static bool print_hit(void *user, size_t input, const struct finder_hit *hit)
{
    struct printing *printing = user;
    if (printing->has_names)
        print_name(printing, input);
    if (printing->values[LINE_NUMBER].given)
        print_prefix(printing, hit->line_number);
    if (printing->values[BYTE_OFFSET].given)
        print_prefix(printing, hit->offset);
    output_bytes(printing->out, (const char *)hit->bytes, hit->length);
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

static bool print_end(void *user, size_t input, uint64_t lines)
{
    struct printing *printing = user;
    printing->lines += lines;
    if (lines > 0)
        printing->is_found = true;
    if (printing->values[JSON].given) {
        begin_json(printing);
        json_begin_object(&printing->json, NULL);
        json_text(&printing->json, "path", printing->paths[input]);
        json_number(&printing->json, "lines", lines);
        json_end_object(&printing->json);
    } else if (printing->values[COUNT].given) {
        if (printing->has_names)
            print_name(printing, input);
        output_number(printing->out, lines);
        output_bytes(printing->out, "\n", 1);
        if (printing->is_terminal)
            output_flush(printing->out);
    }
    return !output_failed(printing->out);
}

static void tell_trouble(void *user, const char *path, const char *why)
{
    struct printing *printing = user;
    atomic_store(&printing->is_troubled, true);
    message_error("%s: %s", path, why);
}

static void print_report(struct printing *printing, const struct muster_report *report)
{
    struct json *json = &printing->json;
    begin_json(printing);
    json_end_array(json);
    json_number(json, "lines", printing->lines);
    json_text(json, "status", muster_status_name(report->status));
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

static enum exit_code run_job(struct muster *m, struct printing *printing, struct words *words)
{
    const struct option_value *values = printing->values;
    struct muster_report report = { .size = sizeof report };
    struct muster_error error;
    struct scan *scan = NULL;
    bool has_counts = values[COUNT].given || values[JSON].given;
    const struct scan_options asked = {
        .want = has_counts                    ? FINDER_COUNTS
                : values[ONLY_MATCHING].given ? FINDER_MATCHES
                                              : FINDER_LINES,
        .is_numbered = values[LINE_NUMBER].given && !has_counts,
        .paths = printing->paths,
        .path_count = printing->path_count,
        .output = has_counts ? 0 : STDOUT_FILENO,
        .run = { .unit_items = values[UNIT].number },
        .hit = print_hit,
        .end = print_end,
        .trouble = tell_trouble,
        .user = printing,
    };
    if (scan_start(m, words, &asked, &scan, &error) != MUSTER_OK)
        return refuse(&error);
    muster_status status = scan_wait(scan, &report, &error);
    bool is_read = !values[JSON].given || report_read(&report, scan_job(scan));
    scan_destroy(scan);
    if (values[JSON].given && is_read)
        print_report(printing, &report);
    report_deinit(&report);
    if (!is_read) {
        message_error("%s", strerror(ENOMEM));
        return EXIT_FAILED;
    }
    /* Whatever a device still does, others have done all of it. */
    if (status == MUSTER_E_DEVICE_HUNG && report.delivered == report.items) {
        message_error("%s", error.text);
        status = MUSTER_OK;
    }
    if (status != MUSTER_OK && !output_failed(printing->out))
        return refuse(&error);
    return status != MUSTER_OK                   ? EXIT_FAILED
           : atomic_load(&printing->is_troubled) ? EXIT_USAGE
                                                 : EXIT_DONE;
}

static enum exit_code run_on_devices(struct printing *printing, struct words *words)
{
    struct muster_options opening = MUSTER_OPTIONS_INIT;
    struct muster *m = NULL;
    struct muster_error error;
    if (printing->values[DEVICES].given)
        opening.devices = printing->values[DEVICES].text;
    if (muster_open(&m, &opening, &error) != MUSTER_OK)
        return refuse(&error);
    enum exit_code code = run_job(m, printing, words);
    runtime_close(m);
    return code;
}

static bool check(const struct option_value *values)
{
    if (!values[WORD].given && !values[WORD_FILE].given)
        message_usage("scan", "scan needs --word WORD or --file FILE");
    else if (values[WITH_FILENAME].given && values[NO_FILENAME].given)
        message_usage("scan", "--with-filename and --no-filename exclude each other");
    else if (values[UNIT].given && values[UNIT].number == 0)
        message_usage("scan", "--unit cannot be 0");
    else if (values[JSON].given && (values[ONLY_MATCHING].given || values[BYTE_OFFSET].given ||
                                    values[LINE_NUMBER].given))
        message_usage("scan", "--json gives counts: it does not go with -o, -b and -n");
    else
        return true;
    return false;
}

/* grep knows no 3, and its 1 is no failure. */
static enum exit_code as_grep(enum exit_code code, bool is_found)
{
    if (code != EXIT_DONE)
        return EXIT_USAGE;
    return is_found ? EXIT_DONE : EXIT_FAILED;
}

static enum exit_code run(const struct option_value *values, const char *argument,
                          struct output *out)
{
    struct words words = { 0 };
    if (!check(values))
        return EXIT_USAGE;
    /* The list has a place before its first, for the argument that is given apart. */
    more_inputs.words[-1] = argument ? argument : "-";
    struct printing printing = { .values = values,
                                 .paths = more_inputs.words - 1,
                                 .path_count = more_inputs.count + 1,
                                 .is_terminal = isatty(STDOUT_FILENO) == 1,
                                 .out = out };
    printing.has_names =
        values[WITH_FILENAME].given || (printing.path_count > 1 && !values[NO_FILENAME].given);
    enum exit_code code = collect_words(&words);
    /* grep does not read anything when it has nothing to look for. */
    bool has_words = words.count > 0 || words.has_empty;
    if (code == EXIT_DONE && (has_words || values[JSON].given))
        code = run_on_devices(&printing, &words);
    words_deinit(&words);
    return values[GREP_STATUS].given ? as_grep(code, printing.is_found) : code;
}

static enum exit_code dispatch(char *const *line, size_t count, struct output *out)
{
    struct option_value values[OPTIONS_MAX];
    const char *argument;
    const char **room = calloc(3 * (count + 1), sizeof *room);
    if (!room) {
        message_error("no memory for %zu arguments", count);
        return EXIT_FAILED;
    }
    given_words = (struct arguments){ room, 0, count };
    given_files = (struct arguments){ room + count, 0, count };
    more_inputs = (struct arguments){ room + 2 * count + 1, 0, count };
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
    .summary = "find many words in files, with the answers of grep -aF",
    .argument = "INPUT...",
    .details =
        "Prints the lines of the inputs that have one of the words, as `grep -aF` does in the C\n"
        "locale: byte for byte, the longest word at each place, an empty word in every line. "
        "Words\n"
        "may be 100,000 and more. Without INPUT, and for -, standard input is read.\n"
        "\n"
        "The search starts on the devices that open quickly; others join when their driver is "
        "open,\n"
        "and a search that is over before does not wait for them. Devices that are named are\n"
        "waited for.\n"
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
