/*
 * `muster partition`: how a total is cut into units. Units are printed one after another, so memory
 * stays the same however many there are.
 */
#include "command.h"
#include "json.h"
#include "message.h"
#include "number.h"
#include "running.h"
#include "runtime.h"

#include <stdio.h>

enum { TOTAL, DEVICES, JSON };

static const struct option options[] = {
    [TOTAL] = { .name = "total",
                .kind = OPTION_NUMBER,
                .required = true,
                .value = "N",
                .help = "number of items, 0 to 18446744073709551615" },
    [DEVICES] = { .name = "devices",
                  .kind = OPTION_TEXT,
                  .required = true,
                  .value = "LIST|K",
                  .help = "the devices, by id or backend (cpu,cuda:0), or their number" },
    [JSON] = { .name = "json", .kind = OPTION_FLAG, .help = "print JSON" },
};

static void print_json(uint64_t total, uint64_t devices, struct output *out)
{
    struct json json;
    json_init(&json, out);
    json_begin_object(&json, NULL);
    json_number(&json, "unit", muster_partition_unit(total, devices));
    json_begin_array(&json, "units");
    uint64_t count = muster_partition_count(total, devices);
    for (uint64_t i = 0; i < count && !output_failed(out); i++) {
        struct muster_range range = muster_partition_at(total, devices, i);
        json_begin_array(&json, NULL);
        json_number(&json, NULL, range.begin);
        json_number(&json, NULL, range.end);
        json_end_array(&json);
    }
    json_end_array(&json);
    json_end_object(&json);
    output_text(out, "\n");
}

static int digits(uint64_t number)
{
    int count = 1;
    for (; number >= 10; number /= 10)
        count++;
    return count;
}

static void print_summary(uint64_t unit, uint64_t count, struct muster_range last,
                          struct output *out)
{
    output_number(out, count);
    output_text(out, count == 1 ? " unit of " : " units of ");
    output_number(out, unit);
    output_text(out, unit == 1 ? " item" : " items");
    if (last.end - last.begin < unit) {
        output_text(out, ", the last of ");
        output_number(out, last.end - last.begin);
    }
    output_text(out, "\n");
}

static void print_text(uint64_t total, uint64_t devices, struct output *out)
{
    char line[80];
    uint64_t count = muster_partition_count(total, devices);
    if (count == 0) {
        output_text(out, total == 0 ? "0 units: there are no items\n"
                                    : "0 units: there are no devices\n");
        return;
    }
    print_summary(muster_partition_unit(total, devices), count,
                  muster_partition_at(total, devices, count - 1), out);
    int index_width = digits(count - 1), item_width = digits(total);
    for (uint64_t i = 0; i < count && !output_failed(out); i++) {
        struct muster_range range = muster_partition_at(total, devices, i);
        snprintf(line, sizeof line, "  %*llu  [%*llu, %*llu)\n", index_width, (unsigned long long)i,
                 item_width, (unsigned long long)range.begin, item_width,
                 (unsigned long long)range.end);
        output_text(out, line);
    }
}

static enum exit_code count_devices(const struct option_value *list, uint64_t *count)
{
    struct muster *m = NULL;
    struct muster_error error;
    size_t found = 0;
    muster_status status = running_open(list, &m, &error);
    if (status == MUSTER_OK) {
        status = muster_device_list(m, NULL, 0, &found, &error);
        /* The list is not wanted. */
        if (status == MUSTER_E_CAPACITY)
            status = MUSTER_OK;
        runtime_close(m);
    }
    if (status != MUSTER_OK)
        message_library(NULL, &error);
    *count = found;
    return status == MUSTER_OK            ? EXIT_DONE
           : status == MUSTER_E_NO_DEVICE ? EXIT_NO_DEVICE
           : status == MUSTER_E_NOT_FOUND ? EXIT_NO_DEVICE
                                          : EXIT_FAILED;
}

/* Names begin with a letter, numbers do not. */
static enum exit_code read_devices(const struct option_value *option, uint64_t *devices)
{
    if (option->text[0] >= 'a' && option->text[0] <= 'z')
        return count_devices(option, devices);
    const char *reason = number_parse(option->text, devices);
    if (reason)
        message_usage("partition", "--devices cannot be '%s': %s", option->text, reason);
    return reason ? EXIT_USAGE : EXIT_DONE;
}

static enum exit_code run(const struct option_value *values, const char *argument,
                          struct output *out)
{
    (void)argument;
    uint64_t total = values[TOTAL].number, devices;
    enum exit_code code = read_devices(&values[DEVICES], &devices);
    if (code != EXIT_DONE)
        return code;
    if (values[JSON].given)
        print_json(total, devices, out);
    else
        print_text(total, devices, out);
    return EXIT_DONE;
}

const struct command command_partition = {
    .name = "partition",
    .summary = "show how a number of items is cut into units",
    .details = "A unit has max(1, N / (4 x K)) items, rounded down; the last unit has the rest. "
               "Units are\n"
               "half-open ranges, one after the other, and cover all items. Without items or "
               "devices there\n"
               "are no units. K is the number of devices, or of the devices that LIST names.\n"
               "\n"
               "JSON: {\"unit\":U,\"units\":[[begin,end],...]}\n",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
