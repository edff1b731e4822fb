/*
 * `muster kernel check`: tries a kernel on small data and says what a job could not stand. Each kernel
 * is checked in a process of its own (probe.h), so that one that crashes or never ends costs a
 * message; here are the options, that process, and what is printed.
 */
#include "kernel_check.h"

#include "grid.h"
#include "json.h"
#include "log.h"
#include "message.h"
#include "probe.h"
#include "running.h"

#include <errno.h>
#include <muster/backend.h>
#include <muster/bundle.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ENTRIES_MAX 32
#define WORDS_MAX 32
#define TIME_LIMIT_S 10u
/* Compilers, and drivers that open, are given more. */
#define COMPILE_LIMIT_S 100u
#define LOOK_NS 2000000L
#define ITEMS_MAX 4096u

enum {
    ENTRY,
    DEVICES,
    ARG,
    ELEMENTS,
    INOUT,
    WHOLE,
    HALO,
    ITEMS,
    GRID,
    PICTURES,
    SEED,
    TIME_LIMIT,
    NO_CUDA,
    JSON,
    LOG,
    OPTION_COUNT = LOG + LOG_OPTIONS
};

static const char *element_words[WORDS_MAX], *inout_words[WORDS_MAX], *whole_words[WORDS_MAX];
static struct arguments elements = { element_words, 0, WORDS_MAX },
                        inouts = { inout_words, 0, WORDS_MAX },
                        wholes = { whole_words, 0, WORDS_MAX };

static const struct option options[] = {
    [ENTRY] = RUNNING_ENTRY_ROW,
    [DEVICES] = RUNNING_DEVICES_ROW,
    [ARG] = RUNNING_ARG_ROW,
    [ELEMENTS] = { .name = "elements",
                   .kind = OPTION_TEXT,
                   .value = "NAME=N",
                   .list = &elements,
                   .help = "elements of array NAME per item (found out); can be repeated" },
    [INOUT] = { .name = "inout",
                .kind = OPTION_TEXT,
                .value = "NAME",
                .list = &inouts,
                .help = "an array that the kernel reads and writes; can be repeated" },
    [WHOLE] = { .name = "whole",
                .kind = OPTION_TEXT,
                .value = "NAME",
                .list = &wholes,
                .help = "an input that every item reads whole (found out); can be repeated" },
    [HALO] = { .name = "halo",
               .kind = OPTION_NUMBER,
               .value = "N",
               .help = "items that the kernel reads before and after its own (0)" },
    [ITEMS] = { .name = "items",
                .kind = OPTION_NUMBER,
                .value = "N",
                .help = "number of items (64, or fewer large ones)" },
    [GRID] = { .name = "grid",
               .kind = OPTION_TEXT,
               .value = "WxH[xD]",
               .help = "shape of the grid, for a kernel with cells (8x12, or larger with a halo)" },
    [PICTURES] = { .name = "pictures",
                   .kind = OPTION_FLAG,
                   .help = "the grid is a picture with two colour planes" },
    [SEED] = { .name = "seed",
               .kind = OPTION_NUMBER,
               .value = "N",
               .help = "seed of the test data (1)" },
    [TIME_LIMIT] = { .name = "time-limit",
                     .kind = OPTION_NUMBER,
                     .value = "S",
                     .help = "seconds that one item may take (10)" },
    [NO_CUDA] = { .name = "no-cuda", .kind = OPTION_FLAG, .help = "make no PTX and no cubins" },
    [JSON] = { .name = "json", .kind = OPTION_FLAG, .help = "print JSON" },
    LOG_OPTION_ROWS,
};
_Static_assert(sizeof options / sizeof *options == OPTION_COUNT && OPTION_COUNT <= OPTIONS_MAX,
               "each option has its row");

/* The kernels of the file. */
struct entries {
    char names[ENTRIES_MAX][PROBE_NAME_BYTES];
    size_t count;
};

static enum exit_code code_of(const struct muster_error *error)
{
    switch (error->status) {
    case MUSTER_E_PARSE:
    case MUSTER_E_NOT_FOUND:
    case MUSTER_E_INVALID:
    case MUSTER_E_VERSION:
        return EXIT_USAGE;
    case MUSTER_E_NO_DEVICE:
        return EXIT_NO_DEVICE;
    default:
        return EXIT_FAILED;
    }
}

static bool find_entries(const char *file, const char *entry, struct entries *entries,
                         struct muster_error *error)
{
    struct muster_bundle *bundle;
    const struct muster_kernel_form *form;
    if (muster_bundle_create(&bundle, error) != MUSTER_OK)
        return false;
    bool is_read = muster_bundle_add_file(bundle, file, entry, error) == MUSTER_OK;
    for (size_t i = 0; is_read && (form = muster_bundle_form(bundle, i)); i++)
        if (form->kind == MUSTER_KERNEL_PORTABLE && entries->count < ENTRIES_MAX)
            snprintf(entries->names[entries->count++], PROBE_NAME_BYTES, "%s", form->entry);
    muster_bundle_destroy(bundle);
    if (is_read && entries->count == 0)
        muster_error_fill(error, MUSTER_E_INVALID, 0, "give it in the portable form",
                          "%s has no kernel in the portable form, and others cannot be checked",
                          file);
    return is_read && entries->count > 0;
}

/* The process. */

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Waits for the process while it makes progress. False: it did not, and was killed. */
static bool wait_for(pid_t process, struct probe_report *report, uint64_t *limit_s, int *how)
{
    const struct timespec pause = { 0, LOOK_NS };
    uint64_t seen = 0, since = now_ns();
    for (;;) {
        pid_t ended = waitpid(process, how, WNOHANG);
        if (ended == process)
            return true;
        if (ended < 0 && errno != EINTR) {
            *how = 0;
            return true;
        }
        /* The flag before the number: a reader that sees it fall sees the step before it too. */
        bool is_compiling = atomic_load_explicit(&report->is_compiling, memory_order_acquire);
        uint64_t steps = atomic_load_explicit(&report->steps, memory_order_relaxed);
        if (steps != seen) {
            seen = steps;
            since = now_ns();
        }
        uint64_t most = is_compiling && *limit_s < COMPILE_LIMIT_S ? COMPILE_LIMIT_S : *limit_s;
        if (now_ns() - since > most * 1000000000u) {
            kill(process, SIGKILL);
            waitpid(process, how, 0);
            *limit_s = most;
            return false;
        }
        nanosleep(&pause, NULL);
    }
}

static void run_child(const struct probe_options *asked, struct probe_report *report)
{
    const struct rlimit none = { 0, 0 };
    setrlimit(RLIMIT_CORE, &none);
    /* A kernel without an end must not outlive the command. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    probe_kernel(asked, report);
    fflush(NULL);
    _exit(0);
}

/* False: no process could be started, which was reported. */
static bool check_kernel(const struct probe_options *asked, struct probe_report *report,
                         uint64_t limit_s)
{
    int how = 0;
    fflush(NULL);
    pid_t process = fork();
    if (process < 0) {
        message_error("no process can be started: %s", strerror(errno));
        return false;
    }
    if (process == 0)
        run_child(asked, report);
    if (!wait_for(process, report, &limit_s, &how))
        probe_find(report, PROBE_ENDLESS, "", -1, -1,
                   "check the kernel's loops, or raise --time-limit",
                   "%s does not end: it was stopped after %llu s", report->doing,
                   (unsigned long long)limit_s);
    else if (!report->is_done)
        probe_find(report, PROBE_CRASH, "", -1, -1, "check what the kernel writes",
                   "%s ended with %s", report->doing,
                   WIFSIGNALED(how) ? strsignal(WTERMSIG(how)) : "an exit of the process");
    return true;
}

/* Printing. */

static void form_name(const struct probe_form *form, char *text, size_t room)
{
    if (form->compute[0] > 0)
        snprintf(text, room, "%s %u.%u", muster_kernel_kind_name(form->kind), form->compute[0],
                 form->compute[1]);
    else
        snprintf(text, room, "%s", muster_kernel_kind_name(form->kind));
}

static void print_uses(const struct probe_report *report, struct output *out)
{
    char line[PROBE_TEXT_BYTES];
    for (size_t i = 0; i < report->use_count; i++) {
        const struct probe_use *use = &report->uses[i];
        int length = snprintf(line, sizeof line, "  %s: %s", use->name, use->use);
        if (use->elements > 0)
            length +=
                snprintf(line + length, sizeof line - (size_t)length, ", %llu element%s an item",
                         (unsigned long long)use->elements, use->elements == 1 ? "" : "s");
        if (use->halo > 0)
            snprintf(line + length, sizeof line - (size_t)length, ", halo %llu",
                     (unsigned long long)use->halo);
        output_text(out, line);
        output_text(out, "\n");
    }
}

static void print_text(const char *file, const char *entry, const struct probe_report *report,
                       struct output *out)
{
    char name[64];
    const char *before = "  compiled: ";
    output_text(out, file);
    output_text(out, ": kernel ");
    output_text(out, entry);
    output_text(out, report->finding_count == 0 ? ": nothing wrong was found\n" : "\n");
    print_uses(report, out);
    for (size_t i = 0; i < report->form_count; i++)
        if (report->forms[i].status == MUSTER_OK) {
            form_name(&report->forms[i], name, sizeof name);
            output_text(out, before);
            output_text(out, name);
            before = ", ";
        }
    output_text(out, *before == ',' ? "\n" : "");
    before = "  the same bits on: ";
    for (size_t i = 0; i < report->device_count; i++)
        if (report->devices[i].status == MUSTER_OK && !probe_has(report, PROBE_DEVICES)) {
            output_text(out, before);
            output_text(out, report->devices[i].id);
            before = ", ";
        }
    output_text(out, *before == ',' ? "\n" : "");
    for (size_t i = 0; i < report->finding_count; i++) {
        output_text(out, "  wrong: ");
        output_text(out, report->findings[i].text);
        output_text(out, "\n    fix: ");
        output_text(out, report->findings[i].fix);
        output_text(out, "\n");
    }
}

static void tell_left_out(const struct probe_report *report)
{
    char name[64];
    for (size_t i = 0; i < report->form_count; i++)
        if (report->forms[i].status == MUSTER_E_NOT_SUPPORTED) {
            form_name(&report->forms[i], name, sizeof name);
            message_error("left out %s: %s", name, report->forms[i].why);
        }
    for (size_t i = 0; i < report->device_count; i++)
        if (report->devices[i].status == MUSTER_E_NOT_SUPPORTED)
            message_error("left out %s: %s", report->devices[i].id, report->devices[i].why);
}

static void json_place(struct json *json, const char *key, int64_t place)
{
    if (place < 0)
        json_null(json, key);
    else
        json_number(json, key, (uint64_t)place);
}

static void print_json(const char *entry, const struct probe_report *report, struct json *json)
{
    char name[64];
    json_begin_object(json, NULL);
    json_text(json, "kernel", entry);
    json_text(json, "status", report->finding_count == 0 ? "ok" : "wrong");
    json_begin_array(json, "parameters");
    for (size_t i = 0; i < report->use_count; i++) {
        json_begin_object(json, NULL);
        json_text(json, "name", report->uses[i].name);
        json_text(json, "use", report->uses[i].use);
        json_number(json, "elements", report->uses[i].elements);
        json_number(json, "halo", report->uses[i].halo);
        json_end_object(json);
    }
    json_end_array(json);
    json_begin_array(json, "forms");
    for (size_t i = 0; i < report->form_count; i++) {
        form_name(&report->forms[i], name, sizeof name);
        json_begin_object(json, NULL);
        json_text(json, "form", name);
        json_text(json, "status", muster_status_name(report->forms[i].status));
        json_text(json, "why", report->forms[i].why);
        json_end_object(json);
    }
    json_end_array(json);
    json_begin_array(json, "devices");
    for (size_t i = 0; i < report->device_count; i++) {
        json_begin_object(json, NULL);
        json_text(json, "id", report->devices[i].id);
        json_text(json, "status", muster_status_name(report->devices[i].status));
        json_text(json, "why", report->devices[i].why);
        json_end_object(json);
    }
    json_end_array(json);
    json_begin_array(json, "findings");
    for (size_t i = 0; i < report->finding_count; i++) {
        const struct probe_finding *finding = &report->findings[i];
        json_begin_object(json, NULL);
        json_text(json, "kind", probe_kind_name(finding->kind));
        json_text(json, "text", finding->text);
        json_text(json, "fix", finding->fix);
        if (*finding->parameter)
            json_text(json, "parameter", finding->parameter);
        else
            json_null(json, "parameter");
        json_place(json, "item", finding->item);
        json_place(json, "element", finding->element);
        json_end_object(json);
    }
    json_end_array(json);
    json_end_object(json);
}

/* A compiler or driver does not take it, and nothing else is wrong: a bad file. */
static bool is_only_refused(const struct probe_report *report)
{
    for (size_t i = 0; i < report->finding_count; i++)
        if (report->findings[i].kind != PROBE_REFUSED)
            return false;
    return true;
}

/* One kernel after the other. What could not be checked at all ends it. */
static enum exit_code check_all(const struct entries *entries, struct probe_options *asked,
                                uint64_t limit_s, bool is_json, struct output *out)
{
    enum exit_code code = EXIT_DONE;
    struct json json;
    struct probe_report *report =
        mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (report == MAP_FAILED) {
        message_error("no memory to check a kernel");
        return EXIT_FAILED;
    }
    json_init(&json, out);
    for (size_t i = 0; i < entries->count; i++) {
        memset(report, 0, sizeof *report);
        asked->entry = entries->names[i];
        if (!check_kernel(asked, report, limit_s)) {
            code = EXIT_FAILED;
            break;
        }
        if (report->error.status != MUSTER_OK) {
            message_library(NULL, &report->error);
            code = code_of(&report->error);
            break;
        }
        if (is_json && i == 0) {
            json_begin_object(&json, NULL);
            json_text(&json, "file", asked->file);
            json_begin_array(&json, "kernels");
        }
        if (is_json)
            print_json(entries->names[i], report, &json);
        else
            print_text(asked->file, entries->names[i], report, out);
        tell_left_out(report);
        if (report->finding_count > 0 && code != EXIT_FAILED)
            code = is_only_refused(report) ? EXIT_USAGE : EXIT_FAILED;
        if (is_json && i + 1 == entries->count) {
            json_end_array(&json);
            json_end_object(&json);
            output_text(out, "\n");
        }
    }
    munmap(report, sizeof *report);
    return code;
}

static enum exit_code run(const struct option_value *values, const char *file, struct output *out)
{
    static struct entries entries;
    struct muster_error error;
    struct probe_options asked = { .file = file,
                                   .devices = values[DEVICES].text,
                                   .arguments = { running_arguments.words,
                                                  running_arguments.count },
                                   .elements = { elements.words, elements.count },
                                   .inout = { inouts.words, inouts.count },
                                   .whole = { wholes.words, wholes.count },
                                   .halo = values[HALO].number,
                                   .items = values[ITEMS].number,
                                   .seed = values[SEED].given ? values[SEED].number : 1,
                                   .no_cuda = values[NO_CUDA].given,
                                   .is_verbose = values[LOG + LOG_VERBOSE].given };
    asked.is_pictures = values[PICTURES].given;
    if (values[GRID].given && !grid_read_text(values[GRID].text, asked.sides)) {
        message_usage("kernel check", "--grid takes sizes as in 8x12 or 4x4x8, not '%s'",
                      values[GRID].text);
        return EXIT_USAGE;
    }
    if (asked.is_pictures && asked.sides[2] > 0) {
        message_usage("kernel check",
                      "pictures have two dimensions: leave out the depth of --grid");
        return EXIT_USAGE;
    }
    uint64_t limit = values[TIME_LIMIT].given ? values[TIME_LIMIT].number : TIME_LIMIT_S;
    if (!log_begin(values + LOG, "kernel check"))
        return EXIT_USAGE;
    if (limit == 0 || limit > 86400 || (values[ITEMS].given && asked.items < 2) ||
        asked.items > ITEMS_MAX || asked.halo > 16) {
        message_usage("kernel check",
                      "--time-limit is 1 to 86400, --items 2 to %u, --halo at most "
                      "16",
                      ITEMS_MAX);
        return EXIT_USAGE;
    }
    if (!find_entries(file, values[ENTRY].text, &entries, &error)) {
        message_library(NULL, &error);
        return code_of(&error);
    }
    return check_all(&entries, &asked, limit, values[JSON].given, out);
}

const struct command command_kernel_check = {
    .name = "kernel check",
    .summary = "run a kernel on small data and report its mistakes",
    .argument = "FILE",
    .argument_required = true,
    .details =
        "Compiles the portable kernels of a file for every device and in every form. Runs them on\n"
        "small data, with guard pages around each array: each item alone, items in several "
        "orders,\n"
        "and on every device. Each kernel runs in a process of its own. Reports an item that "
        "writes\n"
        "another item's element, reads outside its range, leaves a result unwritten, reads a "
        "result\n"
        "before writing it, crashes or does not end; and devices whose results differ.\n"
        "\n"
        "A kernel with cells is tried on a grid, with the given halo and with larger ones: if the "
        "halo\n"
        "is large enough, the results are the same. A reduction is tried item by item; then the\n"
        "partial results are joined in several orders and with the identity.\n"
        "\n"
        "The command finds out how many elements of each array an item has, and which inputs are\n"
        "tables, and prints it. Whole numbers in the data are from 1 to below the number of items, "
        "so\n"
        "that they can be indices. Values that --arg does not set: `items`, `n`, `count`, `size`,\n"
        "`length` and `total` are the number of items, `first` is 0, those of a video fit each "
        "other,\n"
        "others are 3 or 1.5.\n"
        "\n"
        "Exit status: 0 no mistake found, 1 a mistake found, 2 wrong usage, a bad file or a "
        "compiler's\n"
        "error, 3 no eligible device.\n"
        "JSON: {\"file\",\"kernels\":[{\"kernel\",\"status\",\"parameters\":[{\"name\",\"use\",\n"
        "\"elements\",\"halo\"}],\"forms\":[{\"form\",\"status\",\"why\"}],\"devices\":[{\"id\",\n"
        "\"status\",\"why\"}],\"findings\":[{\"kind\",\"text\",\"fix\",\"parameter\",\"item\",\n"
        "\"element\"}]}]}\n",
    .options = options,
    .option_count = OPTION_COUNT,
    .run = run,
};
