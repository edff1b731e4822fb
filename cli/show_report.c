#include "show_report.h"

#include "bytes.h"
#include "figures.h"
#include "message.h"
#include "report.h"
#include "table.h"

#include <stdio.h>
#include <string.h>

#define DEVICES_AT_FIRST 8

/* Adding up. */

/* NULL: there is no memory for another. */
static struct muster_job_device *device_of(struct muster_report *all, const char *id)
{
    size_t i = 0;
    while (i < all->device_count && strcmp(all->devices[i].id, id) != 0)
        i++;
    if (i == all->device_count) {
        if (i == all->device_capacity && !report_make_room(all, 2 * i + DEVICES_AT_FIRST))
            return NULL;
        all->devices[i] = (struct muster_job_device){ .size = sizeof *all->devices };
        snprintf(all->devices[i].id, sizeof all->devices[i].id, "%s", id);
        all->device_count++;
    }
    return &all->devices[i];
}

static void add_device(struct muster_report *all, const struct muster_job_device *part)
{
    struct muster_job_device *device = device_of(all, part->id);
    if (!device)
        return;
    device->items += part->items;
    device->units += part->units;
    device->retries += part->retries;
    device->late += part->late;
    device->busy_ns += part->busy_ns;
    device->health = part->health > device->health ? part->health : device->health;
    if (part->faster_without > 0)
        device->faster_without = part->faster_without;
    if (device->busy_ns > 0)
        device->items_per_s = (double)device->items / (double)device->busy_ns * 1e9;
}

/* Ranges of several jobs would say nothing: they stay those of the first that failed. */
static void add_failures(struct muster_report *all, const struct muster_report *report)
{
    all->failed_items += report->failed_items;
    if (all->status != MUSTER_OK || report->status == MUSTER_OK)
        return;
    all->status = report->status;
    all->failed_count = report->failed_count;
    memcpy(all->failed, report->failed, sizeof all->failed);
}

void show_sum_add(struct show_sum *sum, const struct muster_report *report)
{
    struct muster_report *all = &sum->all;
    sum->jobs++;
    all->items = report->items == MUSTER_ITEMS_UNKNOWN || all->items == MUSTER_ITEMS_UNKNOWN
                     ? MUSTER_ITEMS_UNKNOWN
                     : all->items + report->items;
    all->delivered += report->delivered;
    all->units += report->units;
    all->retries += report->retries;
    all->makespan_ns += report->makespan_ns;
    all->bound_ns += report->bound_ns;
    all->startup_ns += report->startup_ns;
    all->transfer_ns += report->transfer_ns;
    all->overhead_ns += report->overhead_ns;
    all->starved_ns += report->starved_ns;
    all->tail_ns += report->tail_ns;
    all->own_mathematics |= report->own_mathematics;
    add_failures(all, report);
    for (size_t i = 0; i < report->device_count; i++)
        add_device(all, &report->devices[i]);
    if (report->schedule_reason[0]) {
        all->schedule = report->schedule;
        memcpy(all->schedule_reason, report->schedule_reason, sizeof all->schedule_reason);
    }
}

bool show_sum_copy(struct show_sum *to, const struct show_sum *from)
{
    struct muster_report room = to->all;
    if (!report_make_room(&room, from->all.device_count))
        return false;
    *to = *from;
    to->all.devices = room.devices;
    to->all.device_capacity = room.device_capacity;
    for (size_t i = 0; i < from->all.device_count; i++)
        to->all.devices[i] = from->all.devices[i];
    return true;
}

void show_sum_deinit(struct show_sum *sum)
{
    report_deinit(&sum->all);
}

void show_sum_add_file(struct show_sum *sum, const char *role,
                       const struct muster_file_report *file)
{
    size_t i = 0;
    while (i < sum->file_count && (strcmp(sum->files[i].role, role) != 0 ||
                                   strcmp(sum->files[i].sum.engine, file->engine) != 0))
        i++;
    if (i == SHOW_FILES_MAX)
        i--;
    struct show_files *files = &sum->files[i];
    if (i == sum->file_count) {
        *files = (struct show_files){ .count = 0 };
        snprintf(files->role, sizeof files->role, "%s", role);
        memcpy(files->sum.engine, file->engine, sizeof files->sum.engine);
        memcpy(files->sum.why, file->why, sizeof files->sum.why);
        sum->file_count++;
    }
    files->count++;
    files->sum.bytes += file->bytes;
    files->sum.copied_by_muster += file->copied_by_muster;
    files->sum.copied_by_system += file->copied_by_system;
    files->sum.operations += file->operations;
    files->sum.waited_ns += file->waited_ns;
    files->sum.grown_bytes += file->grown_bytes;
    if (files->sum.memory_fixed < file->memory_fixed)
        files->sum.memory_fixed = file->memory_fixed;
}

uint64_t show_sum_bytes(const struct show_sum *sum, uint64_t items)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(items, sum->item_bytes, &bytes))
        bytes = UINT64_MAX;
    return bytes < sum->bytes_max ? bytes : sum->bytes_max;
}

/* Text. */

static void format_amount(const struct show_sum *sum, uint64_t items, char text[FIGURE_BYTES])
{
    if (sum->item_bytes > 0)
        bytes_format(show_sum_bytes(sum, items), text, FIGURE_BYTES);
    else
        figure_count(items, text);
}

static void format_rate(const struct show_sum *sum, uint64_t items, uint64_t ns,
                        char text[FIGURE_BYTES])
{
    if (sum->item_bytes == 0 || ns == 0) {
        figure_rate(items, ns, text);
        return;
    }
    double per_s = (double)show_sum_bytes(sum, items) / (double)ns * 1e9;
    bytes_format(per_s < 1e19 ? (uint64_t)per_s : UINT64_MAX, text, FIGURE_BYTES - 2);
    strcat(text, "/s");
}

enum { DEVICE, ITEMS, BYTES, SHARE, UNITS, BUSY, RATE, RETRIES, LATE, HEALTH, COLUMN_COUNT };
_Static_assert(COLUMN_COUNT <= TABLE_COLUMNS_MAX, "every column has a cell");
_Static_assert(FIGURE_BYTES <= TABLE_CELL_BYTES, "every figure fits a cell");

static uint64_t items_done(const struct muster_report *all)
{
    uint64_t items = 0;
    for (size_t i = 0; i < all->device_count; i++)
        items += all->devices[i].items;
    return items;
}

static void device_row(const void *rows, size_t index, char (*cells)[TABLE_CELL_BYTES])
{
    const struct show_sum *sum = rows;
    const struct muster_job_device *device = &sum->all.devices[index];
    snprintf(cells[DEVICE], TABLE_CELL_BYTES, "%s", device->id);
    figure_count(device->items, cells[ITEMS]);
    format_amount(sum, device->items, cells[BYTES]);
    figure_share(device->items, items_done(&sum->all), cells[SHARE]);
    figure_count(device->units, cells[UNITS]);
    /* An attempt that came late may have ended after the job. */
    figure_share(device->busy_ns < sum->all.makespan_ns ? device->busy_ns : sum->all.makespan_ns,
                 sum->all.makespan_ns, cells[BUSY]);
    format_rate(sum, device->items, device->busy_ns, cells[RATE]);
    figure_count(device->retries, cells[RETRIES]);
    figure_count(device->late, cells[LATE]);
    snprintf(cells[HEALTH], TABLE_CELL_BYTES, "%s", muster_health_name(device->health));
}

static void print_devices(const struct show_sum *sum, struct output *out)
{
    char title[TABLE_CELL_BYTES];
    bool is_well = true;
    for (size_t i = 0; i < sum->all.device_count; i++)
        is_well = is_well && sum->all.devices[i].health == MUSTER_HEALTH_OK;
    snprintf(title, sizeof title, "%s", sum->item_name);
    for (char *at = title; *at; at++)
        *at = *at >= 'a' && *at <= 'z' ? (char)(*at - 'a' + 'A') : *at;
    const struct table_column columns[COLUMN_COUNT] = {
        [DEVICE] = { "DEVICE", false, false },
        [ITEMS] = { title, true, false },
        [BYTES] = { "BYTES", true, sum->item_bytes <= 1 },
        [SHARE] = { "SHARE", true, false },
        [UNITS] = { "UNITS", true, false },
        [BUSY] = { "BUSY", true, false },
        [RATE] = { "RATE", true, false },
        [RETRIES] = { "RETRIES", true, false },
        [LATE] = { "LATE", true, false },
        [HEALTH] = { "HEALTH", false, is_well },
    };
    table_print(columns, COLUMN_COUNT, device_row, sum, sum->all.device_count, out);
}

/* Who did less than it could, and why. */
static void print_left_out(const struct show_sum *sum, struct output *out)
{
    for (size_t i = 0; i < sum->all.device_count; i++) {
        const struct muster_job_device *device = &sum->all.devices[i];
        char words[96];
        if (device->faster_without <= 0)
            continue;
        /* One that was left out since it brings next to nothing has 1.001: nobody has measured that. */
        if (device->faster_without < 1.005)
            snprintf(words, sizeof words, "%s left out: it brings next to nothing\n", device->id);
        else
            snprintf(words, sizeof words, "%s left out: the job is %.1f times faster without it\n",
                     device->id, device->faster_without);
        output_text(out, words);
    }
}

static void print_line(struct output *out, const char *name, const char *figure, const char *share,
                       const char *words)
{
    output_column(out, name, 11, false);
    output_column(out, figure, 10, true);
    output_column(out, share, *share || *words ? 9 : 0, true);
    output_text(out, *words ? "  " : "");
    /* Words of a file's engine may hold what a system said. */
    output_column(out, words, 0, false);
    output_text(out, "\n");
}

static void print_part(const struct show_sum *sum, const char *name, uint64_t ns, const char *words,
                       struct output *out)
{
    char figure[FIGURE_BYTES], share[FIGURE_BYTES];
    figure_time(ns, figure);
    figure_share(ns, sum->all.makespan_ns, share);
    print_line(out, name, figure, share, words);
}

/* Where the makespan went; its parts add up to it. */
static void print_times(const struct show_sum *sum, muster_status status, struct output *out)
{
    const struct muster_report *all = &sum->all;
    char figure[FIGURE_BYTES], rate[FIGURE_BYTES], amount[FIGURE_BYTES], words[160];
    figure_time(all->makespan_ns, figure);
    format_amount(sum, all->delivered, amount);
    format_rate(sum, all->delivered, all->makespan_ns, rate);
    snprintf(words, sizeof words, "%s%s%s, %s%s", amount, sum->item_bytes > 0 ? "" : " ",
             sum->item_bytes > 0 ? "" : sum->item_name, rate,
             status == MUSTER_OK ? "" : ", until it failed");
    print_line(out, "time", figure, "", words);
    if (all->bound_ns == 0)
        return;
    snprintf(words, sizeof words, "the kernels alone: the bound; ratio %.4f",
             (double)all->makespan_ns / (double)all->bound_ns);
    print_part(sum, "  work", all->bound_ns, words, out);
    print_part(sum, "  start-up", all->startup_ns, "before a device's first unit", out);
    print_part(sum, "  transfer", all->transfer_ns, "copies that no kernel hid", out);
    print_part(sum, "  overhead", all->overhead_ns, "giving units, noticing that they ended", out);
    print_part(sum, "  starved", all->starved_ns, "idle between two units", out);
    print_part(sum, "  tail", all->tail_ns, "after a device's last unit", out);
}

static void print_file(const struct show_files *files, struct output *out)
{
    char figure[FIGURE_BYTES], copied[FIGURE_BYTES], words[160], several[32] = "";
    bytes_format(files->sum.bytes, figure, sizeof figure);
    bytes_format(files->sum.copied_by_muster + files->sum.copied_by_system, copied, sizeof copied);
    if (files->count > 1)
        snprintf(several, sizeof several, "%llu files, ", (unsigned long long)files->count);
    snprintf(words, sizeof words, "%s%s; %s copied by the CPU", several, files->sum.engine, copied);
    print_line(out, files->role, figure, "", words);
    if (files->sum.grown_bytes == 0)
        return;
    bytes_format(files->sum.grown_bytes, figure, sizeof figure);
    print_line(out, "", figure, "", "more came while it was read, and are ignored");
}

/* NULL: it was no pipeline. */
static const char *schedule_name(enum muster_schedule schedule)
{
    switch (schedule) {
    case MUSTER_SCHEDULE_PIPELINED:
        return "pipelined";
    case MUSTER_SCHEDULE_GATED:
        return "gated";
    case MUSTER_SCHEDULE_DRAIN_BEFORE_KICK:
        return "drain-before-kick";
    case MUSTER_SCHEDULE_DRAIN_AFTER_KICK:
        return "drain-after-kick";
    case MUSTER_SCHEDULE_AUTO:
        break;
    }
    return NULL;
}

void show_sum_print(const struct show_sum *sum, muster_status status, struct output *out)
{
    char figure[FIGURE_BYTES];
    print_devices(sum, out);
    print_left_out(sum, out);
    output_text(out, "\n");
    print_times(sum, status, out);
    for (size_t i = 0; i < sum->file_count; i++)
        print_file(&sum->files[i], out);
    if (schedule_name(sum->all.schedule))
        print_line(out, "schedule", schedule_name(sum->all.schedule), "", sum->all.schedule_reason);
    if (sum->all.own_mathematics)
        print_line(out, "mathematics", "own", "",
                   "each device's, by MUSTER_FAST_MATH: bits may differ between devices");
    bytes_format(sum->memory_bytes, figure, sizeof figure);
    print_line(out, "memory", figure, "", "at most, of this process");
}

/* JSON. */

static void devices_json(const struct show_sum *sum, struct json *json)
{
    json_begin_array(json, "devices");
    for (size_t i = 0; i < sum->all.device_count; i++) {
        const struct muster_job_device *device = &sum->all.devices[i];
        json_begin_object(json, NULL);
        json_text(json, "id", device->id);
        json_number(json, "items", device->items);
        json_number(json, "units", device->units);
        json_number(json, "busy_ns", device->busy_ns);
        json_real(json, "items_per_s", device->items_per_s);
        json_number(json, "retries", device->retries);
        json_number(json, "late", device->late);
        json_text(json, "health", muster_health_name(device->health));
        json_real(json, "faster_without", device->faster_without);
        json_end_object(json);
    }
    json_end_array(json);
}

static void files_json(const struct show_sum *sum, struct json *json)
{
    json_begin_array(json, "files");
    for (size_t i = 0; i < sum->file_count; i++) {
        const struct show_files *files = &sum->files[i];
        json_begin_object(json, NULL);
        json_text(json, "role", files->role);
        json_number(json, "count", files->count);
        json_text(json, "engine", files->sum.engine);
        json_text(json, "why", files->sum.why);
        json_number(json, "bytes", files->sum.bytes);
        json_number(json, "copied_by_muster", files->sum.copied_by_muster);
        json_number(json, "copied_by_system", files->sum.copied_by_system);
        json_number(json, "operations", files->sum.operations);
        json_number(json, "waited_ns", files->sum.waited_ns);
        json_number(json, "grown_bytes", files->sum.grown_bytes);
        json_end_object(json);
    }
    json_end_array(json);
}

static void failures_json(const struct muster_report *all, struct json *json)
{
    json_begin_array(json, "failed");
    for (size_t i = 0; i < all->failed_count; i++) {
        json_begin_array(json, NULL);
        json_number(json, NULL, all->failed[i].begin);
        json_number(json, NULL, all->failed[i].end);
        json_end_array(json);
    }
    json_end_array(json);
}

void show_sum_json(const struct show_sum *sum, muster_status status, struct json *json)
{
    const struct muster_report *all = &sum->all;
    json_text(json, "status", muster_status_name(status));
    if (status != MUSTER_OK)
        message_json_members(json);
    json_number(json, "elapsed_ns", sum->elapsed_ns);
    json_number(json, "jobs", sum->jobs);
    json_number(json, "items", all->delivered);
    json_number(json, "item_bytes", sum->item_bytes);
    json_number(json, "units", all->units);
    json_number(json, "retries", all->retries);
    json_number(json, "makespan_ns", all->makespan_ns);
    json_number(json, "bound_ns", all->bound_ns);
    json_real(json, "ratio",
              all->bound_ns > 0 ? (double)all->makespan_ns / (double)all->bound_ns : 0);
    json_number(json, "startup_ns", all->startup_ns);
    json_number(json, "transfer_ns", all->transfer_ns);
    json_number(json, "overhead_ns", all->overhead_ns);
    json_number(json, "starved_ns", all->starved_ns);
    json_number(json, "tail_ns", all->tail_ns);
    json_number(json, "memory_bytes", sum->memory_bytes);
    if (all->own_mathematics)
        json_text(json, "mathematics", "own");
    if (schedule_name(all->schedule)) {
        json_text(json, "schedule", schedule_name(all->schedule));
        json_text(json, "schedule_reason", all->schedule_reason);
    }
    devices_json(sum, json);
    files_json(sum, json);
    if (all->status != MUSTER_OK)
        failures_json(all, json);
}
