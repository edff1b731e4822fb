/*
 * Reading live pages. They are other processes' to write, so nothing in them is believed: sizes are
 * compared with this library's own, records are copied until they are whole, texts are terminated and
 * cleaned, numbers are brought into their range.
 */
#include "observe/live_read.h"
#include "base/allocator.h"
#include "base/layout.h"
#include "observe/live.h"
#include "platform/machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* How often a record is read until it is whole. Its owner writes it within microseconds. */
#define READ_TRIES 32

struct muster_live {
    struct muster_live_info info;
    struct seen_runtime **runtimes; /* owns */
    size_t count, capacity;
    bool is_out_of_memory;
};

/* What cannot be right is made into what can. */

/* Length of a character of UTF-8 that a terminal only prints; 0: it is none. */
static size_t printable(const unsigned char *text, size_t bytes)
{
    unsigned char lead = text[0];
    size_t length = lead < 0x80                   ? 1
                    : lead >= 0xc2 && lead < 0xe0 ? 2
                    : lead >= 0xe0 && lead < 0xf0 ? 3
                                                  : 4;
    if ((lead >= 0x80 && lead < 0xc2) || lead > 0xf4 || length > bytes)
        return 0;
    if (length == 1)
        return lead >= 0x20 && lead < 0x7f ? 1 : 0;
    uint32_t point = lead & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        point = point << 6 | (text[i] & 0x3f);
    }
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    /* Control characters, halves of pairs, what turns the direction of text around. */
    bool is_bad = point < least[length] || point > 0x10ffff ||
                  (point >= 0xd800 && point < 0xe000) || point < 0xa0 ||
                  (point >= 0x200b && point <= 0x200f) || (point >= 0x2028 && point <= 0x202e) ||
                  (point >= 0x2060 && point <= 0x206f) || point == 0xfeff;
    return is_bad ? 0 : length;
}

void live_clean_text(char *text, size_t bytes)
{
    text[bytes - 1] = '\0';
    size_t length = strlen(text);
    for (size_t i = 0; i < length;) {
        size_t step = printable((const unsigned char *)text + i, length - i);
        if (step == 0)
            text[i] = '?';
        i += step > 0 ? step : 1;
    }
    memset(text + length, 0, bytes - length);
}

#define CLEAN(text) live_clean_text(text, sizeof(text))

/* A figure that is not below 0; `otherwise` if it is, or is none at all. */
static double clean_number(double value, double otherwise)
{
    return isfinite(value) && value >= 0 ? value : otherwise;
}

static uint64_t add(uint64_t a, uint64_t b)
{
    return a <= UINT64_MAX - b ? a + b : UINT64_MAX;
}

static uint64_t since(uint64_t now_ns, uint64_t then_ns)
{
    return now_ns > then_ns ? now_ns - then_ns : 0;
}

static enum muster_health clean_health(uint64_t health)
{
    return health <= MUSTER_HEALTH_LOST ? (enum muster_health)health : MUSTER_HEALTH_SUSPECT;
}

/* Reading. */

/* A whole record; false if there is none. */
static bool read_record(const struct live_source *source, size_t offset, void *to, size_t bytes)
{
    for (int i = 0; i < READ_TRIES; i++) {
        uint64_t before, after;
        if (!source->read(source->user, offset, &before, sizeof before) ||
            !source->read(source->user, offset + sizeof before, to, bytes) ||
            !source->read(source->user, offset, &after, sizeof after))
            return false;
        /* 0: it was never written. */
        if (before == 0)
            return false;
        if (before == after && before % 2 == 0)
            return true;
    }
    return false;
}

static bool read_device(const struct live_source *source, uint32_t index, uint64_t now_ns,
                        struct muster_live_device *out)
{
    struct live_device raw;
    if (!read_record(source, offsetof(struct live_page, devices[index]), &raw, sizeof raw))
        return false;
    *out = (struct muster_live_device){
        .size = sizeof *out,
        .health = clean_health(raw.health),
        .is_hung = raw.is_hung != 0,
        .is_cut = raw.is_cut != 0,
        .queue_depth = raw.queue_depth,
        .queued_items = raw.queued_items,
        .streams_active = raw.streams_active,
        .lanes = raw.lanes,
        .dispatched = raw.dispatched,
        .completed = raw.completed,
        .failed = raw.failed,
        .bytes_in_flight = raw.bytes_in_flight,
        .busy_ns = add(raw.busy_ns, raw.busy_since_ns > 0 ? since(now_ns, raw.busy_since_ns) : 0),
        .items_per_s = clean_number(raw.items_per_s, 0),
        .bytes_per_s = clean_number(raw.bytes_per_s, 0),
        .memory_total = raw.memory_total,
        .memory_used = raw.memory_used,
        .memory_reserved = raw.memory_reserved,
        .memory_unreclaimed = raw.memory_unreclaimed,
        .memory_kept = raw.memory_kept,
        .memory_free = raw.memory_free,
        .sampled_ns = raw.sampled_ns,
        .utilisation = clean_number(raw.utilisation, -1),
        .temperature_c =
            isfinite(raw.temperature_c) && raw.temperature_c > -300 ? raw.temperature_c : -300,
    };
    memcpy(out->id, raw.id, sizeof out->id);
    memcpy(out->name, raw.name, sizeof out->name);
    memcpy(out->backend, raw.backend, sizeof out->backend);
    CLEAN(out->id);
    CLEAN(out->name);
    CLEAN(out->backend);
    return true;
}

static bool read_lane(const struct live_source *source, uint32_t job, uint32_t lane,
                      uint64_t number, uint64_t now_ns, struct muster_live_lane *out)
{
    struct live_lane raw;
    if (!read_record(source, offsetof(struct live_page, jobs[job].lanes[lane]), &raw, sizeof raw) ||
        raw.job != number)
        return false;
    uint64_t busy_ns =
        add(raw.busy_ns, raw.busy_since_ns > 0 ? since(now_ns, raw.busy_since_ns) : 0);
    *out = (struct muster_live_lane){
        .size = sizeof *out,
        .health = clean_health(raw.health),
        .items = raw.items,
        .units = raw.units,
        .retries = raw.retries,
        .late = raw.late,
        .running = raw.running,
        .busy_ns = busy_ns,
        .items_per_s = busy_ns > 0 ? (double)raw.items / (double)busy_ns * 1e9 : 0,
        .faster_without = clean_number(raw.faster_without, 0),
    };
    memcpy(out->device, raw.device, sizeof out->device);
    CLEAN(out->device);
    return true;
}

static bool read_job(const struct live_source *source, uint32_t index, uint64_t now_ns,
                     struct muster_live_job *out)
{
    struct live_job raw;
    uint64_t delivered;
    if (!read_record(source, offsetof(struct live_page, jobs[index]), &raw, sizeof raw) ||
        raw.number == 0 ||
        !source->read(source->user, offsetof(struct live_page, jobs[index].delivered), &delivered,
                      sizeof delivered))
        return false;
    /* It was set back before the record was made this job's, so it is this job's, or 0. */
    delivered = delivered > raw.delivered ? delivered : raw.delivered;
    bool is_over = raw.ended_ns > 0;
    *out = (struct muster_live_job){
        .size = sizeof *out,
        .number = raw.number,
        .state = raw.state <= MUSTER_LIVE_CANCELLED ? (enum muster_live_state)raw.state
                                                    : MUSTER_LIVE_FAILED,
        .status =
            raw.status <= 0 && raw.status > -1000 ? (muster_status)raw.status : MUSTER_E_INTERNAL,
        .items = raw.items,
        .delivered = delivered <= raw.items ? delivered : raw.items,
        .units = raw.units,
        .retries = raw.retries,
        .running = raw.running,
        .started_ns = raw.started_ns,
        .elapsed_ns = since(is_over ? raw.ended_ns : now_ns, raw.started_ns),
        .remaining_ns = is_over ? 0 : UINT64_MAX,
        .memory_bytes = raw.memory_bytes,
        .lanes = raw.lanes <= LIVE_LANES ? raw.lanes : LIVE_LANES,
        .lanes_unseen = raw.lanes <= LIVE_LANES ? 0 : raw.lanes - LIVE_LANES,
        .makespan_ns = raw.makespan_ns,
        .bound_ns = raw.bound_ns,
        .startup_ns = raw.startup_ns,
        .transfer_ns = raw.transfer_ns,
        .overhead_ns = raw.overhead_ns,
        .starved_ns = raw.starved_ns,
        .tail_ns = raw.tail_ns,
    };
    if (out->delivered > 0 && out->elapsed_ns > 0) {
        double rate = (double)out->delivered / (double)out->elapsed_ns;
        out->items_per_s = rate * 1e9;
        double left_ns = (double)(out->items - out->delivered) / rate;
        if (!is_over && out->items != UINT64_MAX && left_ns < 1e18)
            out->remaining_ns = (uint64_t)left_ns;
    }
    memcpy(out->name, raw.name, sizeof out->name);
    CLEAN(out->name);
    return true;
}

/* All lanes of the job, or those before one that is another's by now. */
static void read_lanes(const struct live_source *source, uint32_t index, uint64_t now_ns,
                       struct muster_live_job *job, struct muster_live_lane *out)
{
    uint32_t lanes = 0;
    uint64_t running = 0;
    for (; lanes < job->lanes && read_lane(source, index, lanes, job->number, now_ns, &out[lanes]);
         lanes++)
        running = add(running, out[lanes].running);
    /* Lanes tell it at once, the job's own record a moment later. */
    if (lanes == job->lanes && job->lanes_unseen == 0)
        job->running = running;
    job->lanes = lanes;
}

static bool read_totals(const struct live_source *source, struct muster_live_runtime *out)
{
    struct live_totals totals;
    struct live_tasks tasks;
    if (!source->read(source->user, offsetof(struct live_page, totals), &totals, sizeof totals) ||
        !source->read(source->user, offsetof(struct live_page, tasks), &tasks, sizeof tasks))
        return false;
    out->devices = totals.devices <= LIVE_DEVICES ? totals.devices : LIVE_DEVICES;
    out->devices_unseen = totals.devices - out->devices;
    out->jobs_unseen = totals.jobs_unseen;
    out->devices_lost = totals.devices_lost;
    out->kept_bytes = totals.kept_bytes;
    out->jobs_started = totals.jobs_started;
    out->jobs_done = totals.jobs_done;
    out->jobs_failed = totals.jobs_failed;
    out->units_started = totals.units_started;
    out->units_done = totals.units_done;
    out->units_late = totals.units_late;
    out->units_failed = totals.units_failed;
    out->items_delivered = totals.items_delivered;
    out->bytes_delivered = totals.bytes_delivered;
    out->bytes_in = totals.bytes_in;
    out->bytes_out = totals.bytes_out;
    out->kernels_built = totals.kernels_built;
    out->tasks_submitted = tasks.submitted;
    out->tasks_ended = tasks.ended <= tasks.submitted ? tasks.ended : tasks.submitted;
    return true;
}

/* Jobs in the order of their numbers. */
static void read_jobs(const struct live_source *source, uint64_t now_ns, struct seen_runtime *out)
{
    struct {
        uint64_t number;
        uint32_t place;
    } order[LIVE_JOBS];
    uint32_t count = 0;
    struct muster_live_job found[LIVE_JOBS];
    for (uint32_t i = 0; i < LIVE_JOBS; i++) {
        if (!read_job(source, i, now_ns, &found[i]))
            continue;
        uint32_t at = count++;
        for (; at > 0 && order[at - 1].number > found[i].number; at--)
            order[at] = order[at - 1];
        order[at].number = found[i].number;
        order[at].place = i;
    }
    for (uint32_t i = 0; i < count; i++) {
        out->jobs[i] = found[order[i].place];
        read_lanes(source, order[i].place, now_ns, &out->jobs[i], out->lanes[i]);
    }
    out->figures.jobs = count;
}

const char *live_read(const struct live_source *source, uint64_t now_ns, struct seen_runtime *out)
{
    uint64_t magic;
    struct live_facts facts;
    if (source->bytes == 0 || !source->read(source->user, 0, &magic, sizeof magic) || magic == 0)
        return ""; /* it is being made */
    if (magic != LIVE_MAGIC)
        return "it is no page of Muster's";
    if (!source->read(source->user, offsetof(struct live_page, facts), &facts, sizeof facts))
        return "it is too short";
    if (facts.layout != LIVE_LAYOUT)
        return "it has the layout of another version of Muster";
    if (facts.bytes != sizeof(struct live_page) || source->bytes < facts.bytes)
        return "its size is wrong";
    struct muster_live_runtime *figures = &out->figures;
    *figures = (struct muster_live_runtime){ .size = sizeof *figures,
                                             .pid = facts.pid,
                                             .number = facts.number,
                                             .opened_ns = facts.opened_ns };
    memcpy(figures->program, facts.program, sizeof figures->program);
    memcpy(figures->version, facts.version, sizeof figures->version);
    CLEAN(figures->program);
    CLEAN(figures->version);
    if (!read_totals(source, figures))
        return "it is too short";
    uint32_t devices = 0;
    for (uint32_t i = 0; i < figures->devices; i++)
        devices += read_device(source, i, now_ns, &out->devices[devices]);
    figures->devices = devices;
    read_jobs(source, now_ns, out);
    return NULL;
}

/* Looking. */

static bool read_file(void *user, uint64_t offset, void *to, size_t bytes)
{
    return platform_live_read(*(const int *)user, offset, to, bytes);
}

/* A place for one more. */
static struct seen_runtime *add_runtime(struct muster_live *live)
{
    if (live->count == live->capacity) {
        size_t capacity = live->capacity > 0 ? 2 * live->capacity : 8;
        struct seen_runtime **more =
            allocator_take(&platform_heap, capacity, sizeof(struct seen_runtime *));
        if (!more)
            return NULL;
        if (live->count > 0)
            memcpy(more, live->runtimes, live->count * sizeof(struct seen_runtime *));
        allocator_give(&platform_heap, live->runtimes, live->capacity,
                       sizeof(struct seen_runtime *));
        live->runtimes = more;
        live->capacity = capacity;
    }
    struct seen_runtime *runtime = allocator_take(&platform_heap, 1, sizeof *runtime);
    if (runtime)
        live->runtimes[live->count++] = runtime;
    return runtime;
}

static bool see(void *user, int file, uint64_t bytes, char *why)
{
    struct muster_live *live = user;
    const struct live_source source = { read_file, &file, bytes };
    struct seen_runtime *runtime = add_runtime(live);
    live->is_out_of_memory = live->is_out_of_memory || !runtime;
    if (!runtime)
        return true;
    const char *wrong = live_read(&source, platform_clock_ns(), runtime);
    if (!wrong)
        return true;
    allocator_give(&platform_heap, runtime, 1, sizeof *runtime);
    live->count--;
    snprintf(why, sizeof live->info.why, "%s", wrong);
    return *wrong == '\0';
}

static int compare(const void *a, const void *b)
{
    const struct muster_live_runtime *one = &(*(struct seen_runtime *const *)a)->figures;
    const struct muster_live_runtime *other = &(*(struct seen_runtime *const *)b)->figures;
    if (one->pid != other->pid)
        return one->pid < other->pid ? -1 : 1;
    return (one->number > other->number) - (one->number < other->number);
}

muster_status muster_live_look(struct muster_live **out, struct muster_error *err)
{
    if (!out)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL,
                                 "muster_live_look: the result argument is NULL");
    struct muster_live *live = allocator_take(&platform_heap, 1, sizeof *live);
    if (!live)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no host memory for a look");
    struct platform_live_found found;
    platform_live_look(see, live, &found);
    if (live->is_out_of_memory) {
        muster_live_destroy(live);
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no host memory for a look");
    }
    if (live->count > 1)
        qsort(live->runtimes, live->count, sizeof(struct seen_runtime *), compare);
    live->info = (struct muster_live_info){ .size = sizeof live->info,
                                            .runtimes = live->count,
                                            .swept = found.swept,
                                            .refused = found.refused,
                                            .now_ns = platform_clock_ns() };
    snprintf(live->info.why, sizeof live->info.why, "%s", found.why);
    CLEAN(live->info.why);
    *out = live;
    return MUSTER_OK;
}

void muster_live_destroy(struct muster_live *live)
{
    if (!live)
        return;
    for (size_t i = 0; i < live->count; i++)
        allocator_give(&platform_heap, live->runtimes[i], 1, sizeof(struct seen_runtime));
    allocator_give(&platform_heap, live->runtimes, live->capacity, sizeof(struct seen_runtime *));
    allocator_give(&platform_heap, live, 1, sizeof *live);
}

/* Giving what was seen. */

static muster_status no_such(const char *function, struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_NOT_FOUND, 0, NULL, "%s: there are fewer", function);
}

static muster_status give(const char *function, const struct layout *layout, const void *found,
                          void *out, struct muster_error *err)
{
    if (!out)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL, "%s: an argument is NULL",
                                 function);
    muster_status status = layout_check_room(layout, out, err);
    if (status != MUSTER_OK)
        return status;
    if (!found)
        return no_such(function, err);
    layout_write(layout, out, found);
    return MUSTER_OK;
}

static const struct seen_runtime *find(const struct muster_live *live, size_t runtime)
{
    return live && runtime < live->count ? live->runtimes[runtime] : NULL;
}

muster_status muster_live_info(const struct muster_live *live, struct muster_live_info *out,
                               struct muster_error *err)
{
    return give("muster_live_info", LAYOUT(muster_live_info), live ? &live->info : NULL, out, err);
}

muster_status muster_live_runtime(const struct muster_live *live, size_t runtime,
                                  struct muster_live_runtime *out, struct muster_error *err)
{
    const struct seen_runtime *seen = find(live, runtime);
    return give("muster_live_runtime", LAYOUT(muster_live_runtime), seen ? &seen->figures : NULL,
                out, err);
}

muster_status muster_live_device(const struct muster_live *live, size_t runtime, size_t device,
                                 struct muster_live_device *out, struct muster_error *err)
{
    const struct seen_runtime *seen = find(live, runtime);
    bool is_there = seen && device < seen->figures.devices;
    return give("muster_live_device", LAYOUT(muster_live_device),
                is_there ? &seen->devices[device] : NULL, out, err);
}

muster_status muster_live_job(const struct muster_live *live, size_t runtime, size_t job,
                              struct muster_live_job *out, struct muster_error *err)
{
    const struct seen_runtime *seen = find(live, runtime);
    bool is_there = seen && job < seen->figures.jobs;
    return give("muster_live_job", LAYOUT(muster_live_job), is_there ? &seen->jobs[job] : NULL, out,
                err);
}

muster_status muster_live_lane(const struct muster_live *live, size_t runtime, size_t job,
                               size_t lane, struct muster_live_lane *out, struct muster_error *err)
{
    const struct seen_runtime *seen = find(live, runtime);
    bool is_there = seen && job < seen->figures.jobs && lane < seen->jobs[job].lanes;
    return give("muster_live_lane", LAYOUT(muster_live_lane),
                is_there ? &seen->lanes[job][lane] : NULL, out, err);
}

const char *muster_live_state_name(enum muster_live_state state)
{
    switch (state) {
    case MUSTER_LIVE_RUNNING:
        return "running";
    case MUSTER_LIVE_DONE:
        return "done";
    case MUSTER_LIVE_FAILED:
        return "failed";
    case MUSTER_LIVE_CANCELLED:
        return "cancelled";
    }
    return "?";
}
