/*
 * `muster reduce`: one result from all records of a file, on every device. The job itself is in
 * jobs/reduce.h; here are the options, how the result is printed, and what a signal does.
 */
#include "reduce.h"

#include "command.h"
#include "interrupt.h"
#include "json.h"
#include "log.h"
#include "message.h"
#include "running.h"
#include "runtime.h"
#include "show.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TITLE_BYTES 160

enum {
    KERNEL,
    ENTRY,
    IN,
    ITEMS,
    OUT,
    ITEM,
    ARG,
    RUNNING,
    SHOW = RUNNING + RUNNING_OPTIONS,
    LOG = SHOW + SHOW_OPTIONS,
    OPTION_COUNT = LOG + LOG_OPTIONS
};

static const char *input_words[MUSTER_ARGS_MAX];
static struct arguments inputs = { input_words, 0, MUSTER_ARGS_MAX };

static const struct option options[] = {
    [KERNEL] = RUNNING_KERNEL_ROW("what to reduce with"),
    [ENTRY] = RUNNING_ENTRY_ROW,
    [IN] = { .name = "in",
             .letter = 'i',
             .kind = OPTION_TEXT,
             .value = "FILE",
             .list = &inputs,
             .help = "the items, - is standard input; repeated: of the next pointer" },
    [ITEMS] = { .name = "items",
                .kind = OPTION_NUMBER,
                .value = "N",
                .help = "number of items, for a kernel without input files" },
    [OUT] = { .name = "out",
              .letter = 'o',
              .kind = OPTION_TEXT,
              .value = "FILE",
              .help = "write the result's bytes to FILE instead of printing it" },
    [ITEM] = { .name = "item",
               .kind = OPTION_SIZE,
               .value = "SIZE",
               .help = "size of a record (that of the kernel's pointer)" },
    [ARG] = RUNNING_ARG_ROW,
    [RUNNING] = RUNNING_OPTION_ROWS(
        OPTION_NUMBER, "U",
        "records in a unit, rounded up to whole blocks (by each device's speed)"),
    SHOW_OPTION_ROWS,
    LOG_OPTION_ROWS,
};
_Static_assert(sizeof options / sizeof *options == OPTION_COUNT && OPTION_COUNT <= OPTIONS_MAX,
               "each option has its row");

static enum exit_code code_of(enum map_part part, muster_status status)
{
    if (status == MUSTER_E_NO_MEMORY)
        return EXIT_FAILED;
    if (part != MAP_DEVICES)
        return EXIT_USAGE;
    /* Without a compiler the host cannot join partials, and no device is of use. */
    if (status == MUSTER_E_NO_DEVICE || status == MUSTER_E_NOT_FOUND ||
        status == MUSTER_E_NOT_SUPPORTED)
        return EXIT_NO_DEVICE;
    return status == MUSTER_E_INVALID || status == MUSTER_E_PARSE || status == MUSTER_E_TOO_LARGE
               ? EXIT_USAGE
               : EXIT_FAILED;
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

/* Printing. */

/* In as few digits as read back the same float. */
static double shortest(float number)
{
    char text[32];
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)number);
        if (strtof(text, NULL) == number)
            return strtod(text, NULL);
    }
    return (double)number;
}

struct number {
    bool is_real, is_signed;
    double real;
    int64_t integer; /* its bits, where it is not signed */
};

static struct number read_number(const struct muster_partial_field *field, const char *at)
{
    struct number number = { .is_real = field->type[0] == 'f' || field->type[0] == 'd',
                             .is_signed = field->type[0] == 'i' };
    union {
        float f;
        double d;
        int8_t i8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        uint64_t u;
    } bits = { .u = 0 };
    memcpy(&bits, at, field->bytes);
    if (number.is_real)
        number.real = field->bytes == sizeof(float) ? shortest(bits.f) : bits.d;
    else if (!number.is_signed)
        number.integer = bits.i64;
    else
        number.integer = field->bytes == 1   ? bits.i8
                         : field->bytes == 2 ? bits.i16
                         : field->bytes == 4 ? bits.i32
                                             : bits.i64;
    return number;
}

static void print_number(struct output *out, struct number number)
{
    char text[40];
    if (number.is_real) {
        for (int digits = 6; digits <= 17; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, number.real);
            if (strtod(text, NULL) == number.real)
                break;
        }
    } else if (number.is_signed) {
        snprintf(text, sizeof text, "%lld", (long long)number.integer);
    } else {
        snprintf(text, sizeof text, "%llu", (unsigned long long)number.integer);
    }
    output_text(out, text);
}

static void json_one(struct json *json, const char *key, struct number number)
{
    if (number.is_real)
        json_real(json, key, number.real);
    else if (number.is_signed)
        json_integer(json, key, number.integer);
    else
        json_number(json, key, (uint64_t)number.integer);
}

/* A number alone, or a line for each: "name value", "name[k] value". */
static void print_field(struct output *out, const struct muster_partial_field *field,
                        const char *result)
{
    for (uint64_t k = 0; k < field->count; k++) {
        output_text(out, field->name);
        if (field->is_array) {
            output_text(out, "[");
            output_number(out, k);
            output_text(out, "]");
        }
        output_text(out, field->name[0] ? " " : "");
        print_number(out, read_number(field, result + field->offset + k * field->bytes));
        output_text(out, "\n");
    }
}

static void json_field(struct json *json, const struct muster_partial_field *field,
                       const char *result)
{
    const char *key = field->name[0] ? field->name : "result";
    if (!field->is_array) {
        json_one(json, key, read_number(field, result + field->offset));
        return;
    }
    json_begin_array(json, key);
    for (uint64_t k = 0; k < field->count; k++)
        json_one(json, NULL, read_number(field, result + field->offset + k * field->bytes));
    json_end_array(json);
}

static void print_result(const struct reduce *reduce, struct json *json, struct output *out)
{
    size_t bytes;
    const char *result = reduce_result(reduce, &bytes);
    struct muster_partial_field field = { .size = sizeof field };
    bool has_names = false;
    for (size_t i = 0;
         muster_kernel_partial_field(reduce_kernel(reduce), i, &field, NULL) == MUSTER_OK; i++) {
        if (json && i == 0 && field.name[0]) {
            json_begin_object(json, "result");
            has_names = true;
        }
        if (json)
            json_field(json, &field, result);
        else
            print_field(out, &field, result);
    }
    if (has_names)
        json_end_object(json);
}

static bool write_bytes(int file, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t written = write(file, bytes, count);
        if (written < 0 && errno != EINTR)
            return false;
        bytes += written > 0 ? written : 0;
        count -= written > 0 ? (size_t)written : 0;
    }
    return true;
}

/* The bytes themselves, whole or not at all. */
static bool write_result(const struct reduce *reduce, const char *path)
{
    size_t bytes;
    const char *result = reduce_result(reduce, &bytes);
    struct muster_output *output = NULL;
    struct muster_error error = { .size = sizeof error };
    const char *where = strcmp(path, "-") == 0 ? "/dev/stdout" : path;
    muster_status status = muster_output_create(where, &output, &error);
    if (status == MUSTER_OK && !write_bytes(muster_output_descriptor(output), result, bytes)) {
        message_error("cannot write %s: %s", path, strerror(errno));
        muster_output_destroy(output);
        return false;
    }
    if (status == MUSTER_OK)
        status = muster_output_commit(output, &error);
    muster_output_destroy(output);
    if (status != MUSTER_OK)
        message_library(NULL, &error);
    return status == MUSTER_OK;
}

/* Running. */

static void cancel(void *reduce)
{
    reduce_cancel(reduce);
}

static void tell_waiting(void *reduce)
{
    struct muster_progress progress = { .size = sizeof progress };
    if (muster_job_progress(reduce_job(reduce), &progress, NULL) == MUSTER_OK &&
        *progress.waits_for)
        message_error("waiting for %s", progress.waits_for);
}

/* The job has been started: to its end. */
static enum exit_code finish(struct reduce *reduce, struct show *show, struct interrupt *interrupt,
                             muster_status *status)
{
    struct muster_report report = { .size = sizeof report };
    struct muster_error error;
    enum map_part part;
    *status = reduce_wait(reduce, &report, &part, &error);
    show_job_end(show);
    /* Whatever a device still does, others have done all of it. */
    if (map_is_complete(*status, &report)) {
        message_error("%s", error.text);
        *status = MUSTER_OK;
    }
    if (reduce_file(reduce))
        show_file(show, "input", reduce_file(reduce));
    if (*status == MUSTER_OK)
        return EXIT_DONE;
    const char *name = interrupt_name(interrupt);
    if (name) {
        if (*status == MUSTER_E_DEVICE_HUNG)
            message_error("%s", error.text);
        message_error("ended by %s", name);
        return EXIT_FAILED;
    }
    message_library(NULL, &error);
    /* An input that was there and then could not be read is nothing that was asked wrongly. */
    return part == MAP_INPUT && error.status == MUSTER_E_IO ? EXIT_FAILED
                                                            : code_of(part, error.status);
}

/* All that is needed is open. */
static enum exit_code run_reduce(struct reduce *reduce, const struct reduce_options *asked,
                                 const struct option_value *values, struct show *show,
                                 struct interrupt *interrupt, struct output *out)
{
    struct muster_error error;
    struct json json;
    bool is_json = values[SHOW + SHOW_OPTION_JSON].given;
    interrupt_set(interrupt, cancel, tell_waiting, reduce);
    muster_status status = reduce_start(reduce, asked, &error);
    enum exit_code code;
    if (status == MUSTER_OK) {
        show_job(show, reduce_job(reduce));
        code = finish(reduce, show, interrupt, &status);
    } else {
        code = refuse(MAP_DEVICES, &error);
    }
    if (code == EXIT_DONE && values[OUT].given && !write_result(reduce, values[OUT].text))
        code = EXIT_FAILED;
    if (code == EXIT_DONE && is_json) {
        json_init(&json, out);
        json_begin_object(&json, NULL);
        print_result(reduce, &json, out);
        show_json(show, status, &json);
        json_end_object(&json);
        output_text(out, "\n");
    }
    if (!show_end(show, status, out) && code == EXIT_DONE)
        code = EXIT_FAILED;
    if (code == EXIT_DONE && !is_json && !values[OUT].given)
        print_result(reduce, NULL, out);
    interrupt_set(interrupt, NULL, NULL, NULL);
    return code;
}

static enum exit_code run_job(struct muster *m, const struct reduce_options *asked,
                              const struct option_value *values, struct interrupt *interrupt,
                              struct output *out)
{
    char title[TITLE_BYTES];
    const char *taken[MUSTER_ARGS_MAX + 2];
    size_t taken_count = 0, item_bytes;
    struct muster_error error;
    struct reduce *reduce = NULL;
    enum map_part part;
    if (reduce_create(m, asked, &reduce, &part, &error) != MUSTER_OK)
        return refuse(part, &error);
    for (size_t i = 0; i < asked->in_count; i++)
        taken[taken_count++] = asked->ins[i];
    taken[taken_count++] = values[OUT].text;
    taken[taken_count++] = asked->kernels[0];
    uint64_t bytes = reduce_bytes(reduce, &item_bytes);
    snprintf(title, sizeof title, "%s%s%s", base_name(asked->kernels[0]),
             asked->in_count > 0 ? " over " : "",
             asked->in_count > 0 ? base_name(asked->ins[0]) : "");
    struct show_options showing = { .command = "reduce",
                                    .title = title,
                                    .total = bytes == MUSTER_ITEMS_UNKNOWN ? SHOW_UNKNOWN
                                             : item_bytes > 0              ? bytes
                                                                           : asked->items,
                                    .item_bytes = item_bytes,
                                    .report = SHOW_TABLE,
                                    .stdout_is_data = true,
                                    .taken = taken,
                                    .taken_count = taken_count };
    show_read_options(values + SHOW, &showing);
    if (values[SHOW + SHOW_OPTION_JSON].given)
        showing.report = SHOW_NOTHING;
    struct show *show = show_begin(m, &showing);
    enum exit_code code =
        show ? run_reduce(reduce, asked, values, show, interrupt, out) : EXIT_FAILED;
    reduce_destroy(reduce);
    return code;
}

static enum exit_code run_on_devices(const struct reduce_options *asked,
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

static bool check(const struct option_value *values)
{
    if (values[ITEM].given && values[ITEM].number == 0)
        message_usage("reduce", "--item cannot be 0");
    else if (values[ITEM].given && inputs.count != 1)
        message_usage("reduce", "--item needs a single --in");
    else
        return true;
    return false;
}

static enum exit_code run(const struct option_value *values, const char *argument,
                          struct output *out)
{
    struct reduce_options asked = { .kernels = running_kernels.words,
                                    .kernel_count = running_kernels.count,
                                    .entry = values[ENTRY].text,
                                    .ins = inputs.words,
                                    .in_count = inputs.count,
                                    .has_items = values[ITEMS].given,
                                    .items = values[ITEMS].number,
                                    .item_bytes = (size_t)values[ITEM].number,
                                    .arguments = running_arguments.words,
                                    .argument_count = running_arguments.count };
    struct interrupt interrupt;
    (void)argument;
    if (!check(values) || !running_read(values + RUNNING, "reduce", &asked.run) ||
        !log_begin(values + LOG, "reduce"))
        return EXIT_USAGE;
    if (!interrupt_begin(&interrupt))
        return EXIT_FAILED;
    enum exit_code code = run_on_devices(&asked, values, &interrupt, out);
    interrupt_end(&interrupt);
    return code;
}

const struct command command_reduce = {
    .name = "reduce",
    .summary = "combine all items of a file into one result, on every device",
    .details =
        "The kernel adds an item to a partial result, and a second function joins two partial "
        "results:\n"
        "\n"
        "  MUSTER_KERNEL void sum(uint64_t i, MUSTER_GLOBAL const float *x,\n"
        "                         MUSTER_PARTIAL double *all)\n"
        "  { *all += x[i]; }\n"
        "  MUSTER_COMBINE void sum_combine(MUSTER_PARTIAL double *into,\n"
        "                                  MUSTER_PARTIAL const double *from)\n"
        "  { *into += *from; }\n"
        "\n"
        "The result is printed: a number, or one line for each field of a struct. It has the same\n"
        "bits for any devices and units. --arg sets the kernel's values by name: --arg by=2. "
        "Muster\n"
        "sets `first`, the number of the unit's first item, and `items`, the number of all items.\n"
        "A kernel with several pointers needs one --in for each. These are regular files with the\n"
        "same number of items. A single input may be a pipe.\n"
        "\n"
        "Exit status: 0 done, 1 failed, 2 wrong usage, kernel or input, 3 no eligible device. "
        "After a\n"
        "signal the command ends by that signal.\n",
    .options = options,
    .option_count = OPTION_COUNT,
    .run = run,
};
