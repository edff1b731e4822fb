/*
 * `muster devices`: what this machine has, what each device can do and what it is doing.
 */
#include "bytes.h"
#include "command.h"
#include "inventory.h"
#include "json.h"
#include "message.h"
#include "slices.h"
#include "table.h"

#include <stdio.h>
#include <string.h>

#define MISSING_WIDTH 8

enum { ALL, DEVICES, SLICES, JSON };

static const struct option options[] = {
    [ALL] = { .name = "all",
              .kind = OPTION_FLAG,
              .help = "also devices that another backend drives too" },
    [DEVICES] = { .name = "devices",
                  .kind = OPTION_TEXT,
                  .value = "LIST",
                  .help = "use only these, by id or backend: cpu,cuda:0" },
    [SLICES] = SLICES_OPTION,
    [JSON] = { .name = "json", .kind = OPTION_FLAG, .help = "print JSON" },
};

static const struct capability {
    uint32_t bit;
    const char *name;
} capabilities[] = {
    { MUSTER_CAN_WAIT_VALUE, "wait_value" },
    { MUSTER_CAN_STREAM_MEMORY, "stream_memory" },
    { MUSTER_CAN_GRAPHS, "graphs" },
    { MUSTER_CAN_SLICE, "slice" },
    { MUSTER_CAN_PRIORITIES, "priorities" },
    { MUSTER_CAN_USE_HOST_MEMORY, "host_memory" },
    { MUSTER_CAN_RUN_IN_PIECES, "pieces" },
    { MUSTER_CAN_DOUBLE, "double" },
    { MUSTER_CAN_USE_SHARED_MEMORY, "shared_memory" },
};

static void text_or_null(struct json *json, const char *key, const char *text)
{
    if (*text)
        json_text(json, key, text);
    else
        json_null(json, key);
}

static void real_or_null(struct json *json, const char *key, double number, bool known)
{
    if (known)
        json_real(json, key, number);
    else
        json_null(json, key);
}

/* The driver has told how much memory is free; before that there is no number to show. */
static bool is_sampled(const struct muster_device_load *load)
{
    return load->sampled_ns != 0;
}

static void device_json(struct json *json, const struct inventory_device *device)
{
    const struct muster_device_info *info = &device->info;
    const struct muster_device_load *load = &device->load;
    json_begin_object(json, NULL);
    json_text(json, "id", info->id);
    json_text(json, "backend", info->backend);
    json_text(json, "name", info->name);
    json_begin_array(json, "compute");
    json_number(json, NULL, info->compute[0]);
    json_number(json, NULL, info->compute[1]);
    json_end_array(json);
    json_number(json, "memory_total", info->memory_total);
    if (is_sampled(load))
        json_number(json, "memory_free", load->memory_free);
    else
        json_null(json, "memory_free");
    json_number(json, "streams_max", info->streams_max);
    json_real(json, "weight", info->weight);
    json_text(json, "health", muster_health_name(load->health));
    json_number(json, "cores", info->cores);
    json_number(json, "copy_engines", info->copy_engines);
    if (info->numa_node >= 0)
        json_number(json, "numa_node", (uint64_t)info->numa_node);
    else
        json_null(json, "numa_node");
    json_number(json, "domain", info->domain);
    text_or_null(json, "parent", info->parent);
    text_or_null(json, "pci", info->pci);
    json_begin_array(json, "capabilities");
    for (size_t i = 0; i < sizeof capabilities / sizeof *capabilities; i++)
        if (info->capabilities & capabilities[i].bit)
            json_text(json, NULL, capabilities[i].name);
    json_end_array(json);
    json_text(json, "kind", muster_device_kind_name(info->kind));
    text_or_null(json, "same_as", info->same_as);
    text_or_null(json, "uuid", info->uuid);
    real_or_null(json, "utilisation", load->utilisation,
                 is_sampled(load) && load->utilisation >= 0);
    real_or_null(json, "temperature_c", load->temperature_c,
                 is_sampled(load) && load->temperature_c >= -273);
    json_end_object(json);
}

static void print_json(const struct inventory *inventory, struct output *out)
{
    struct json json;
    json_init(&json, out);
    json_begin_object(&json, NULL);
    json_begin_array(&json, "devices");
    for (size_t i = 0; i < inventory->device_count; i++)
        device_json(&json, &inventory->devices[i]);
    json_end_array(&json);
    json_begin_array(&json, "backends");
    for (size_t i = 0; i < inventory->backend_count; i++) {
        const struct muster_backend_report *report = &inventory->backends[i];
        json_begin_object(&json, NULL);
        json_text(&json, "name", report->name);
        json_number(&json, "devices", report->device_count);
        json_text(&json, "status", muster_status_name(report->error.status));
        if (report->error.status != MUSTER_OK) {
            json_text(&json, "message", report->error.text);
            text_or_null(&json, "fix", report->error.fix);
        }
        if (report->hidden_count > 0)
            json_text(&json, "hidden", report->hidden);
        json_end_object(&json);
    }
    json_end_array(&json);
    json_end_object(&json);
    output_text(out, "\n");
}

enum {
    ID,
    NAME,
    CORES,
    COMPUTE,
    MEMORY,
    FREE,
    STREAMS,
    WEIGHT,
    NUMA,
    SAME_AS,
    HEALTH,
    COLUMN_COUNT
};
_Static_assert(COLUMN_COUNT <= TABLE_COLUMNS_MAX, "every column has a cell");

static void device_row(const void *rows, size_t index, char (*cells)[TABLE_CELL_BYTES])
{
    const struct inventory_device *device = (const struct inventory_device *)rows + index;
    const struct muster_device_info *info = &device->info;
    for (size_t i = 0; i < COLUMN_COUNT; i++)
        snprintf(cells[i], sizeof cells[i], "-");
    snprintf(cells[ID], sizeof cells[ID], "%s%s", *info->parent ? "  " : "", info->id);
    snprintf(cells[NAME], sizeof cells[NAME], "%s", info->name);
    snprintf(cells[CORES], sizeof cells[CORES], "%u", (unsigned)info->cores);
    if (info->compute[0] || info->compute[1])
        snprintf(cells[COMPUTE], sizeof cells[COMPUTE], "%u.%u", (unsigned)info->compute[0],
                 (unsigned)info->compute[1]);
    bytes_format(info->memory_total, cells[MEMORY], sizeof cells[MEMORY]);
    if (is_sampled(&device->load))
        bytes_format(device->load.memory_free, cells[FREE], sizeof cells[FREE]);
    snprintf(cells[STREAMS], sizeof cells[STREAMS], "%u", (unsigned)info->streams_max);
    snprintf(cells[WEIGHT], sizeof cells[WEIGHT], "%.4g", info->weight);
    if (info->numa_node >= 0)
        snprintf(cells[NUMA], sizeof cells[NUMA], "%d", (int)info->numa_node);
    if (*info->same_as)
        snprintf(cells[SAME_AS], sizeof cells[SAME_AS], "%s", info->same_as);
    snprintf(cells[HEALTH], sizeof cells[HEALTH], "%s", muster_health_name(device->load.health));
}

/* The column is worth its room only where devices differ in it. */
static bool has_many_nodes(const struct inventory *inventory)
{
    for (size_t i = 1; i < inventory->device_count; i++)
        if (inventory->devices[i].info.numa_node != inventory->devices[0].info.numa_node)
            return true;
    return false;
}

static bool has_doubles(const struct inventory *inventory)
{
    for (size_t i = 0; i < inventory->device_count; i++)
        if (*inventory->devices[i].info.same_as)
            return true;
    return false;
}

static void print_text(const struct inventory *inventory, struct output *out)
{
    const struct table_column columns[COLUMN_COUNT] = {
        [ID] = { "ID", false, false },
        [NAME] = { "NAME", false, false },
        [CORES] = { "CORES", true, false },
        [COMPUTE] = { "COMPUTE", true, false },
        [MEMORY] = { "MEMORY", true, false },
        [FREE] = { "FREE", true, false },
        [STREAMS] = { "STREAMS", true, false },
        [WEIGHT] = { "WEIGHT", true, false },
        [NUMA] = { "NUMA", true, !has_many_nodes(inventory) },
        [SAME_AS] = { "SAME AS", false, !has_doubles(inventory) },
        [HEALTH] = { "HEALTH", false, false },
    };
    if (inventory->device_count > 0)
        table_print(columns, COLUMN_COUNT, device_row, inventory->devices, inventory->device_count,
                    out);
}

/*
 * Why devices may be missing. That a machine has none of a kind is a reason only where nothing else
 * was found.
 */
static void tell_of_backends(const struct inventory *inventory, const struct option_value *slices)
{
    for (size_t i = 0; i < inventory->backend_count; i++) {
        const struct muster_backend_report *report = &inventory->backends[i];
        if (report->error.status == MUSTER_OK ||
            (report->error.status == MUSTER_E_NOT_FOUND && inventory->device_count > 0) ||
            slices_ask_for(slices, report->name))
            continue;
        char subject[32];
        snprintf(subject, sizeof subject, "backend %s", report->name);
        message_library(subject, &report->error);
    }
}

/* What was looked for, and why it is not there; simulated devices only if some are described. */
static void print_missing(const struct inventory *inventory, struct output *out)
{
    bool is_first = true;
    for (size_t i = 0; i < inventory->backend_count; i++) {
        const struct muster_backend_report *report = &inventory->backends[i];
        if (report->error.status != MUSTER_E_NOT_FOUND || strcmp(report->name, "sim") == 0)
            continue;
        output_text(out, is_first ? "\nNot found:\n  " : "  ");
        is_first = false;
        output_column(out, report->name, MISSING_WIDTH, false);
        output_column(out, report->error.text, 0, false);
        if (*report->error.fix) {
            output_text(out, "\n  ");
            output_column(out, "", MISSING_WIDTH, false);
            output_text(out, "fix: ");
            output_column(out, report->error.fix, 0, false);
        }
        output_text(out, "\n");
    }
}

/* What the user described and does not exist is the user's input; the rest is our failure. */
static enum exit_code open_failure(const struct muster_error *error)
{
    message_library(NULL, error);
    switch (error->status) {
    case MUSTER_E_PARSE:
    case MUSTER_E_INVALID:
    case MUSTER_E_NOT_FOUND:
    case MUSTER_E_CAPACITY:
    case MUSTER_E_TOO_LARGE:
    case MUSTER_E_IO:
    case MUSTER_E_VERSION:
        return EXIT_USAGE;
    case MUSTER_E_NO_DEVICE:
        return EXIT_NO_DEVICE;
    default:
        return EXIT_FAILED;
    }
}

/* Opens a runtime over these devices, NULL for all, and looks at them. The failure has been reported. */
static enum exit_code look(const char *devices, const char *slices, struct muster **m,
                           struct inventory *inventory)
{
    struct muster_options how = MUSTER_OPTIONS_INIT;
    struct muster_error error;
    how.devices = devices;
    how.slices = slices;
    if (muster_open(m, &how, &error) != MUSTER_OK)
        return open_failure(&error);
    if (inventory_init(inventory, *m, &error) == MUSTER_OK)
        return EXIT_DONE;
    message_library(NULL, &error);
    muster_close(*m, NULL);
    if (error.status == MUSTER_E_NOT_FOUND && devices)
        return EXIT_USAGE;
    return error.status == MUSTER_E_NO_DEVICE ? EXIT_NO_DEVICE : EXIT_FAILED;
}

/* What a backend hides is shown if the backend is asked for by name. */
static enum exit_code look_at_hidden(const char *slices, struct muster **m,
                                     struct inventory *inventory)
{
    char names[512] = "";
    bool has_hidden = false;
    for (size_t i = 0; i < inventory->backend_count; i++) {
        const struct muster_backend_report *report = &inventory->backends[i];
        size_t length = strlen(names);
        has_hidden |= report->hidden_count > 0;
        if (report->device_count + report->hidden_count > 0)
            snprintf(names + length, sizeof names - length, "%s%s", length > 0 ? "," : "",
                     report->name);
    }
    if (!has_hidden)
        return EXIT_DONE;
    inventory_deinit(inventory);
    muster_close(*m, NULL);
    return look(names, slices, m, inventory);
}

static enum exit_code run(const struct option_value *values, const char *argument,
                          struct output *out)
{
    (void)argument;
    struct muster *m = NULL;
    struct muster_error error;
    struct inventory inventory;
    const char *slices = values[SLICES].text;
    enum exit_code code = look(values[DEVICES].text, slices, &m, &inventory);
    if (code == EXIT_DONE && values[ALL].given && !values[DEVICES].given)
        code = look_at_hidden(slices, &m, &inventory);
    if (code != EXIT_DONE)
        return code;
    if (values[JSON].given)
        print_json(&inventory, out);
    else
        print_text(&inventory, out);
    if (!values[JSON].given && !values[DEVICES].given && inventory.device_count > 0)
        print_missing(&inventory, out);
    output_flush(out);
    if (inventory.device_count == 0) {
        message_error("no device can be used on this machine");
        code = EXIT_NO_DEVICE;
    }
    tell_of_backends(&inventory, &values[SLICES]);
    if (!slices_check(&values[SLICES], &inventory))
        code = EXIT_USAGE;
    inventory_deinit(&inventory);
    if (muster_close(m, &error) != MUSTER_OK) {
        message_library(NULL, &error);
        code = EXIT_FAILED;
    }
    return code;
}

const struct command command_devices = {
    .name = "devices",
    .summary = "list the devices of this machine",
    .details =
        "Lists every device of this machine. A processor is listed once: an OpenCL device that\n"
        "another backend also drives is hidden, unless --all is given, or --devices or --slices\n"
        "names it.\n"
        "Below the table stand the libraries that are missing, and how to install them.\n"
        "If a backend could not be used, standard error says why. Exit status 2: a device cannot "
        "be\n"
        "cut as --slices asks; 3: there is no device.\n"
        "\n"
        "JSON: {\"devices\":[{\"id\",\"backend\",\"name\",\"compute\":[major,minor],\n"
        "\"memory_total\",\"memory_free\",\"streams_max\",\"weight\",\"health\",\"cores\",\n"
        "\"copy_engines\",\"numa_node\",\"domain\",\"parent\",\"pci\",\"capabilities\":[...],\n"
        "\"kind\",\"same_as\",\"uuid\",\"utilisation\",\"temperature_c\"},...],\n"
        "\"backends\":[{\"name\",\"devices\",\"status\",\"message\",\"fix\",\"hidden\"},...]}. "
        "Memory is in\n"
        "bytes. Unknown values are null. A backend has a message and a fix only if its status is "
        "not\n"
        "MUSTER_OK, and hidden only if it hides devices.\n"
        "\n"
        "Environment: MUSTER_SIM describes simulated devices. MUSTER_BACKENDS names more "
        "backends.\n"
        "MUSTER_SLICES is used if --slices is not given.\n",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
