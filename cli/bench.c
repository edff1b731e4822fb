/*
 * `muster bench`: a short self-test of this machine. Every device is given data, runs a kernel over
 * it and gives it back; what comes back is compared with what this processor computes, and what it
 * took is measured. Each measurement begins small and grows until it takes long enough to tell, so
 * that slow devices do not take long and quick ones are not measured by their overhead.
 */
#include "bench_device.h"
#include "bytes.h"
#include "command.h"
#include "figures.h"
#include "json.h"
#include "message.h"
#include "running.h"
#include "table.h"
#include "utf8.h"

#include <muster/task.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { QUICK, DEVICES, EVERYONE, JSON };

static const struct option options[] = {
    [QUICK] = { .name = "quick", .kind = OPTION_FLAG, .help = "measure for a tenth of the time" },
    [DEVICES] = RUNNING_DEVICES_ROW,
    [EVERYONE] = RUNNING_EVERYONE_ROW,
    [JSON] = { .name = "json", .kind = OPTION_FLAG, .help = "print JSON" },
};

#define TASKS_IN_BATCH 1000
_Static_assert(TASKS_IN_BATCH <= MUSTER_SUBMIT_MAX, "a batch is one call");

struct machine {
    uint64_t task_ns;         /* one, submitted and waited for */
    double tasks_per_s;       /* in batches */
    double sum, together;     /* items a second; 0: not measured */
    size_t device_count;      /* that took part */
    struct muster_error task; /* why tasks could not be measured */
    struct muster_error job;  /* why the devices could not be measured together */
};

/* Shown in its place, on a terminal only. */
static void show_progress(const char *id, const char *what)
{
    char shown[256];
    utf8_show_all(id, shown, sizeof shown);
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K%s%s%s", shown, *what ? ": " : "", what);
}

/* The machine's own rows. */

static muster_status do_nothing(void *user)
{
    (void)user;
    return MUSTER_OK;
}

static muster_status measure_one_task(struct muster *m, const struct bench_plan *plan,
                                      uint64_t *task_ns, struct muster_error *err)
{
    const struct muster_task_desc desc = { .size = sizeof desc, .fn = do_nothing, .is_awaited = 1 };
    struct bench_median median = { .count = 0 };
    uint64_t end = bench_now() + plan->target_ns;
    while (bench_now() < end || median.count == 0) {
        muster_task task;
        uint64_t begin = bench_now();
        muster_status status = muster_submit(m, &desc, 1, &task, err);
        if (status == MUSTER_OK)
            status = muster_wait(m, &task, 1, UINT64_MAX, err);
        if (status != MUSTER_OK)
            return status;
        bench_median_add(&median, bench_now() - begin);
    }
    *task_ns = bench_median_of(&median);
    return MUSTER_OK;
}

static muster_status measure_batches(struct muster *m, const struct bench_plan *plan,
                                     double *tasks_per_s, struct muster_error *err)
{
    static struct muster_task_desc descs[TASKS_IN_BATCH];
    for (size_t i = 0; i < TASKS_IN_BATCH; i++)
        descs[i] = (struct muster_task_desc){ .size = sizeof descs[i], .fn = do_nothing };
    uint64_t count = 0, begin = bench_now(), elapsed;
    do {
        muster_status status = muster_submit(m, descs, TASKS_IN_BATCH, NULL, err);
        if (status == MUSTER_OK)
            status = muster_wait(m, NULL, 0, UINT64_MAX, err);
        if (status != MUSTER_OK)
            return status;
        count += TASKS_IN_BATCH;
        elapsed = bench_now() - begin;
    } while (elapsed < plan->target_ns);
    *tasks_per_s = (double)count / (double)elapsed * 1e9;
    return MUSTER_OK;
}

/* Each device that is well, alone; then all of them. What they bring is compared too. */
static void measure_together(struct muster *m, const struct bench_plan *plan,
                             struct bench_device *devices, size_t count, struct machine *machine)
{
    size_t bytes = count * sizeof devices->info.id + 1;
    char *ids = calloc(bytes, 1);
    if (!ids)
        return;
    for (size_t i = 0; i < count; i++) {
        struct bench_device *device = &devices[i];
        if (!bench_device_is_right(device))
            continue;
        show_progress(device->info.id, "a job");
        if (!bench_job(m, plan, device, device->info.id, &device->job_rate, &device->why))
            continue;
        size_t length = strlen(ids);
        snprintf(ids + length, bytes - length, "%s%s", length > 0 ? "," : "", device->info.id);
        machine->sum += device->job_rate;
        machine->device_count++;
    }
    show_progress(ids, "a job together");
    struct bench_device all = { .kernel_rate = machine->sum };
    if (machine->device_count > 1 &&
        (!bench_job(m, plan, &all, ids, &machine->together, &machine->job) || all.wrong > 0))
        machine->together = 0;
    /* Together they may be wrong where alone they are not. */
    for (size_t i = 0; i < count && all.wrong > 0; i++)
        if (devices[i].job_rate > 0)
            devices[i].wrong += all.wrong;
    free(ids);
}

/* Text. */

enum { ID, NAME, FREE, IN, OUT, LAUNCH, RATE, VERDICT, COLUMN_COUNT };
_Static_assert(COLUMN_COUNT <= TABLE_COLUMNS_MAX, "every column has a cell");

static void rate_cell(double bytes_per_s, char *cell)
{
    if (bytes_per_s > 0)
        snprintf(cell, TABLE_CELL_BYTES, "%.3g GB/s", bytes_per_s / 1e9);
}

static void device_row(const void *rows, size_t index, char (*cells)[TABLE_CELL_BYTES])
{
    const struct bench_device *device = (const struct bench_device *)rows + index;
    char text[FIGURE_BYTES];
    for (size_t i = 0; i < COLUMN_COUNT; i++)
        snprintf(cells[i], TABLE_CELL_BYTES, "-");
    snprintf(cells[ID], TABLE_CELL_BYTES, "%s", device->info.id);
    snprintf(cells[NAME], TABLE_CELL_BYTES, "%s", device->info.name);
    if (device->load.sampled_ns)
        bytes_format(device->load.memory_free, cells[FREE], TABLE_CELL_BYTES);
    rate_cell(device->in_rate, cells[IN]);
    rate_cell(device->out_rate, cells[OUT]);
    if (device->launch_ns > 0) {
        figure_time(device->launch_ns, text);
        snprintf(cells[LAUNCH], TABLE_CELL_BYTES, "%s", text);
    }
    if (device->kernel_rate > 0) {
        figure_rate((uint64_t)device->kernel_rate, 1000000000, text);
        snprintf(cells[RATE], TABLE_CELL_BYTES, "%s", text);
    }
    snprintf(cells[VERDICT], TABLE_CELL_BYTES, "%.*s", TABLE_CELL_BYTES - 1, device->verdict);
}

static void print_row(const char *what, const char *figure, struct output *out)
{
    output_column(out, what, 32, false);
    output_text(out, figure);
    output_text(out, "\n");
}

static void print_text(const struct bench_device *devices, size_t count,
                       const struct machine *machine, struct output *out)
{
    static const struct table_column columns[COLUMN_COUNT] = {
        [ID] = { "ID", false, false },     [NAME] = { "NAME", false, false },
        [FREE] = { "FREE", true, false },  [IN] = { "IN", true, false },
        [OUT] = { "OUT", true, false },    [LAUNCH] = { "LAUNCH", true, false },
        [RATE] = { "ITEMS", true, false }, [VERDICT] = { "VERDICT", false, false },
    };
    char text[FIGURE_BYTES], words[2 * FIGURE_BYTES + 64];
    table_print(columns, COLUMN_COUNT, device_row, devices, count, out);
    output_text(out, "\n");
    if (machine->task_ns > 0) {
        figure_time(machine->task_ns, text);
        print_row("a task, submitted and awaited", text, out);
    }
    if (machine->tasks_per_s > 0) {
        figure_rate((uint64_t)machine->tasks_per_s, 1000000000, text);
        print_row("tasks in batches", text, out);
    }
    if (machine->together > 0) {
        figure_rate((uint64_t)machine->together, 1000000000, text);
        snprintf(words, sizeof words, "%s, %.2f of the sum of each alone", text,
                 machine->together / machine->sum);
        print_row("a job on all devices", words, out);
    }
}

/* JSON. */

static void json_measured(struct json *json, const char *key, double value)
{
    if (value > 0)
        json_real(json, key, value);
    else
        json_null(json, key);
}

static void device_json(struct json *json, const struct bench_device *device)
{
    json_begin_object(json, NULL);
    json_text(json, "id", device->info.id);
    json_text(json, "name", device->info.name);
    json_text(json, "health", muster_health_name(device->load.health));
    json_number(json, "memory_total", device->info.memory_total);
    if (device->load.sampled_ns)
        json_number(json, "memory_free", device->load.memory_free);
    else
        json_null(json, "memory_free");
    json_measured(json, "in_bytes_per_s", device->in_rate);
    json_measured(json, "out_bytes_per_s", device->out_rate);
    json_measured(json, "launch_ns", (double)device->launch_ns);
    json_measured(json, "kernel_items_per_s", device->kernel_rate);
    json_measured(json, "job_items_per_s", device->job_rate);
    json_number(json, "items_checked", device->checked);
    json_number(json, "items_wrong", device->wrong);
    json_text(json, "verdict", device->verdict);
    json_end_object(json);
}

static void print_json(const struct bench_device *devices, size_t count,
                       const struct machine *machine, struct output *out)
{
    struct json json;
    json_init(&json, out);
    json_begin_object(&json, NULL);
    json_begin_array(&json, "devices");
    for (size_t i = 0; i < count; i++)
        device_json(&json, &devices[i]);
    json_end_array(&json);
    json_begin_object(&json, "machine");
    json_measured(&json, "task_ns", (double)machine->task_ns);
    json_measured(&json, "tasks_per_s", machine->tasks_per_s);
    json_number(&json, "job_devices", machine->device_count);
    json_measured(&json, "job_sum_items_per_s", machine->sum);
    json_measured(&json, "job_together_items_per_s", machine->together);
    json_end_object(&json);
    json_end_object(&json);
    output_text(out, "\n");
}

/* Running it. */

/* Why devices may be missing. */
static void tell_of_backends(const struct inventory *inventory)
{
    for (size_t i = 0; i < inventory->backend_count; i++) {
        const struct muster_backend_report *report = &inventory->backends[i];
        char subject[32];
        if (report->error.status == MUSTER_OK || report->error.status == MUSTER_E_NOT_FOUND)
            continue;
        snprintf(subject, sizeof subject, "backend %s", report->name);
        message_library(subject, &report->error);
    }
}

static void measure(struct muster *m, const struct bench_plan *plan, struct bench_device *devices,
                    size_t count, struct machine *machine)
{
    for (size_t i = 0; i < count; i++) {
        show_progress(devices[i].info.id, "copies and a kernel");
        bench_device_measure(m, plan, &devices[i]);
    }
    show_progress("tasks", "");
    if (measure_one_task(m, plan, &machine->task_ns, &machine->task) != MUSTER_OK ||
        measure_batches(m, plan, &machine->tasks_per_s, &machine->task) != MUSTER_OK)
        message_library("tasks", &machine->task);
    measure_together(m, plan, devices, count, machine);
    for (size_t i = 0; i < count; i++)
        bench_device_judge(plan, &devices[i], devices, count);
    show_progress("", "");
}

static enum exit_code run_on(struct muster *m, const struct inventory *inventory,
                             const struct option_value *values, struct output *out)
{
    struct bench_plan plan;
    struct machine machine = { 0 };
    struct muster_error error;
    size_t count = inventory->device_count;
    struct bench_device *devices = calloc(count, sizeof *devices);
    if (!devices || bench_plan_init(&plan, m, values[QUICK].given, &error) != MUSTER_OK) {
        if (devices)
            message_library(NULL, &error);
        else
            message_error("no memory for the list of devices");
        free(devices);
        return EXIT_FAILED;
    }
    plan.is_everyone = values[EVERYONE].given;
    for (size_t i = 0; i < count; i++) {
        devices[i].info = inventory->devices[i].info;
        devices[i].load = inventory->devices[i].load;
    }
    measure(m, &plan, devices, count, &machine);
    if (values[JSON].given)
        print_json(devices, count, &machine, out);
    else
        print_text(devices, count, &machine, out);
    enum exit_code code = EXIT_DONE;
    for (size_t i = 0; i < count; i++)
        if (devices[i].wrong > 0)
            code = EXIT_FAILED;
    bench_plan_deinit(&plan);
    free(devices);
    return code;
}

static enum exit_code run(const struct option_value *values, const char *argument,
                          struct output *out)
{
    struct muster *m;
    struct muster_error error;
    struct inventory inventory;
    (void)argument;
    if (running_open(&values[DEVICES], &m, &error) != MUSTER_OK) {
        message_library(NULL, &error);
        return error.status == MUSTER_E_NO_MEMORY ? EXIT_FAILED : EXIT_USAGE;
    }
    enum exit_code code = EXIT_FAILED;
    if (inventory_init(&inventory, m, &error) == MUSTER_OK) {
        tell_of_backends(&inventory);
        code = inventory.device_count > 0 ? run_on(m, &inventory, values, out) : EXIT_NO_DEVICE;
        if (inventory.device_count == 0)
            message_error("no device can be used on this machine");
        inventory_deinit(&inventory);
    } else {
        message_library(NULL, &error);
        code = error.status == MUSTER_E_NOT_FOUND ? EXIT_USAGE : EXIT_FAILED;
    }
    output_flush(out);
    if (muster_close(m, &error) != MUSTER_OK)
        message_library(NULL, &error);
    return code;
}

const struct command command_bench = {
    .name = "bench",
    .summary = "test each device: results, rates and a verdict",
    .details =
        "Runs a kernel on every device and compares its results with the processor's. Measures for "
        "each\n"
        "device: free memory, copies in and out from pinned memory, the time from a launch to its "
        "end,\n"
        "and items of a small integer kernel per second. Then measures tasks, and one job on all\n"
        "devices beside the sum of their single rates.\n"
        "\n"
        "Verdicts: good; slow copies (compared with the device's link, the processor's own copies "
        "or a\n"
        "device of the same name); slow kernels (compared with such a device); wrong results; not "
        "usable.\n"
        "All numbers are from this run. Other work on the machine lowers them.\n"
        "\n"
        "Exit status: 1 if a device gives wrong results, 3 if there is no device.\n"
        "\n"
        "JSON: {\"devices\":[{\"id\",\"name\",\"health\",\"memory_total\",\"memory_free\",\n"
        "\"in_bytes_per_s\",\"out_bytes_per_s\",\"launch_ns\",\"kernel_items_per_s\",\n"
        "\"job_items_per_s\",\"items_checked\",\"items_wrong\",\"verdict\"},...],\n"
        "\"machine\":{\"task_ns\",\"tasks_per_s\",\"job_devices\",\"job_sum_items_per_s\",\n"
        "\"job_together_items_per_s\"}}. Values that were not measured are null.\n",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .run = run,
};
