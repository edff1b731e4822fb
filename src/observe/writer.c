/*
 * Trace events as text, in the format that Perfetto and chrome://tracing read. Devices, jobs and
 * threads are three groups of tracks ("processes"); a device has as many tracks as it had units at
 * a time. Stages of pipelines are a fourth: a track for each stream of each job on each device, taken
 * over by others when the job is over, and tracks for the host's part as for units.
 */
#include "base/allocator.h"
#include "base/layout.h"
#include "platform/machine.h"

#include <muster/backend.h> /* muster_error_fill */
#include <muster/trace.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define BUFFER_BYTES 16384u
/* No event is longer than this, and no piece of a text. */
#define PIECE_BYTES 512u
/*
 * Events of one track must not overlap, and a device is at several units at once: the first track
 * of a device is numbered device + 1, further ones are this far apart, which is more than there can
 * be devices.
 */
#define TRACK_STRIDE (1u << 21)
#define DEVICES_FIRST 64u

enum group { GROUP_DEVICES = 1, GROUP_JOBS = 2, GROUP_THREADS = 3, GROUP_STAGES = 4, GROUPS = 5 };

struct stage_track {
    uint32_t job, stream; /* job 0: of one that is over; stream 0: the host */
    uint64_t ends_ns;     /* when it is free again */
};

struct writer_device {
    uint64_t *ends_ns; /* owns: when each of its tracks is free again */
    uint32_t track_count, track_room;
    struct stage_track *stages; /* owns */
    uint32_t stage_count, stage_room;
    bool is_used, is_named;
};

struct muster_trace_writer {
    struct muster_allocator allocator;
    muster_status (*write)(void *user, const char *text, size_t bytes);
    void *user;
    uint64_t origin_ns;
    char title[128];
    struct writer_device *devices; /* owns; as many as have been met, or twice that */
    uint32_t device_room;
    bool has_group[GROUPS];
    bool has_events;
    muster_status status; /* the first failure */
    size_t used;
    char buffer[BUFFER_BYTES];
};

static const char *const kind_names[] = {
    [MUSTER_TRACE_UNIT] = "unit",
    [MUSTER_TRACE_DELIVERY] = "delivery",
    [MUSTER_TRACE_JOB] = "job",
    [MUSTER_TRACE_TASK] = "task",
    [MUSTER_TRACE_DATA] = "data",
    [MUSTER_TRACE_PICK] = "pick",
    [MUSTER_TRACE_DEVICE_LOST] = "device lost",
    [MUSTER_TRACE_DEVICE_HUNG] = "device hung",
    [MUSTER_TRACE_DEVICE_BACK] = "device back",
    [MUSTER_TRACE_STAGE] = "stage",
    [MUSTER_TRACE_STALL] = "stall",
};

static const char *const outcome_names[] = {
    [MUSTER_TRACE_DONE] = "done",
    [MUSTER_TRACE_LATE] = "late",
    [MUSTER_TRACE_FAILED] = "failed",
    [MUSTER_TRACE_LOST] = "lost",
};

/* Text. */

static void flush(struct muster_trace_writer *writer)
{
    if (writer->status == MUSTER_OK && writer->used > 0)
        writer->status = writer->write(writer->user, writer->buffer, writer->used);
    writer->used = 0;
}

static void put_bytes(struct muster_trace_writer *writer, const char *bytes, size_t count)
{
    if (count > BUFFER_BYTES - writer->used)
        flush(writer);
    memcpy(writer->buffer + writer->used, bytes, count);
    writer->used += count;
}

static void put(struct muster_trace_writer *writer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void put(struct muster_trace_writer *writer, const char *format, ...)
{
    char piece[PIECE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(piece, sizeof piece, format, arguments);
    va_end(arguments);
    if (length > 0)
        put_bytes(writer, piece, (size_t)length < sizeof piece ? (size_t)length : sizeof piece - 1);
}

/* How many bytes the character has, 0 if it is none of UTF-8. */
static size_t character_bytes(const unsigned char *text)
{
    static const unsigned least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t count = *text < 0x80             ? 1
                   : (*text & 0xe0) == 0xc0 ? 2
                   : (*text & 0xf0) == 0xe0 ? 3
                   : (*text & 0xf8) == 0xf0 ? 4
                                            : 0;
    if (count <= 1)
        return count;
    unsigned code = *text & (0x7fu >> count);
    for (size_t i = 1; i < count; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (text[i] & 0x3f);
    }
    bool is_half = code >= 0xd800 && code < 0xe000;
    return code < least[count] || code > 0x10ffff || is_half ? 0 : count;
}

/* What goes between quotes; what no reader would take becomes a replacement character. */
static void put_escaped(struct muster_trace_writer *writer, const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        size_t bytes = character_bytes(at);
        if (bytes == 0)
            put(writer, "\\ufffd");
        else if (*at < 0x20 || *at == '"' || *at == '\\')
            put(writer, "\\u%04x", *at);
        else
            put_bytes(writer, (const char *)at, bytes);
        at += bytes > 0 ? bytes : 1;
    }
}

/* Trace times are microseconds; three decimals keep the nanoseconds. */
static void put_time(struct muster_trace_writer *writer, const char *key, uint64_t ns)
{
    put(writer, ",\"%s\":%llu.%03u", key, (unsigned long long)(ns / 1000), (unsigned)(ns % 1000));
}

static void next_event(struct muster_trace_writer *writer)
{
    put(writer, "%s", writer->has_events ? ",\n" : "\n");
    writer->has_events = true;
}

/* Tracks. */

static void fail(struct muster_trace_writer *writer, muster_status status)
{
    if (writer->status == MUSTER_OK)
        writer->status = status;
}

/* NULL, and the writer has failed, without memory. */
static struct writer_device *device_of(struct muster_trace_writer *writer, uint32_t index)
{
    if (index >= TRACK_STRIDE - 1) {
        fail(writer, MUSTER_E_TOO_LARGE);
        return NULL;
    }
    if (index >= writer->device_room) {
        uint32_t room = writer->device_room > 0 ? writer->device_room : DEVICES_FIRST;
        while (room <= index)
            room *= 2;
        struct writer_device *devices = allocator_take(&writer->allocator, room, sizeof *devices);
        if (!devices) {
            fail(writer, MUSTER_E_NO_MEMORY);
            return NULL;
        }
        if (writer->device_room > 0)
            memcpy(devices, writer->devices, writer->device_room * sizeof *devices);
        allocator_give(&writer->allocator, writer->devices, writer->device_room, sizeof *devices);
        writer->devices = devices;
        writer->device_room = room;
    }
    return &writer->devices[index];
}

static bool add_track(struct muster_trace_writer *writer, struct writer_device *device)
{
    if (device->track_count == device->track_room) {
        uint32_t room = device->track_room > 0 ? 2 * device->track_room : 4;
        uint64_t *ends_ns = allocator_take(&writer->allocator, room, sizeof *ends_ns);
        if (!ends_ns) {
            fail(writer, MUSTER_E_NO_MEMORY);
            return false;
        }
        if (device->track_room > 0)
            memcpy(ends_ns, device->ends_ns, device->track_count * sizeof *ends_ns);
        allocator_give(&writer->allocator, device->ends_ns, device->track_room, sizeof *ends_ns);
        device->ends_ns = ends_ns;
        device->track_room = room;
    }
    device->track_count++;
    return true;
}

/* The first track that is free at the span's beginning, a new one if none is. */
static bool find_track(struct muster_trace_writer *writer, const struct muster_trace_event *event,
                       uint32_t *track)
{
    struct writer_device *device = device_of(writer, event->device);
    uint32_t i = 0;
    if (!device)
        return false;
    while (i < device->track_count && device->ends_ns[i] > event->begin_ns)
        i++;
    if (i == device->track_count && !add_track(writer, device))
        return false;
    device->ends_ns[i] = event->end_ns;
    *track = i;
    return true;
}

static bool is_of_pipeline(enum muster_trace_kind kind)
{
    return kind == MUSTER_TRACE_STAGE || kind == MUSTER_TRACE_STALL;
}

static bool is_span(enum muster_trace_kind kind)
{
    return kind <= MUSTER_TRACE_TASK || is_of_pipeline(kind);
}

static bool add_stage_track(struct muster_trace_writer *writer, struct writer_device *device)
{
    if (device->stage_count == device->stage_room) {
        uint32_t room = device->stage_room > 0 ? 2 * device->stage_room : 4;
        struct stage_track *stages = allocator_take(&writer->allocator, room, sizeof *stages);
        if (!stages) {
            fail(writer, MUSTER_E_NO_MEMORY);
            return false;
        }
        if (device->stage_room > 0)
            memcpy(stages, device->stages, device->stage_count * sizeof *stages);
        allocator_give(&writer->allocator, device->stages, device->stage_room, sizeof *stages);
        device->stages = stages;
        device->stage_room = room;
    }
    device->stages[device->stage_count++] = (struct stage_track){ .job = 0 };
    return true;
}

/* The job's track for the stream, else one of a job that is over, else a new one. */
static bool place_stage(struct muster_trace_writer *writer, const struct muster_trace_event *event,
                        uint32_t *track)
{
    struct writer_device *device = device_of(writer, event->device);
    uint32_t found = UINT32_MAX;
    if (!device)
        return false;
    for (uint32_t i = 0; i < device->stage_count; i++) {
        const struct stage_track *stage = &device->stages[i];
        bool is_own = stage->job == event->job;
        if (stage->stream != event->thread || stage->ends_ns > event->begin_ns ||
            (!is_own && stage->job != 0))
            continue;
        if (found == UINT32_MAX || is_own)
            found = i;
        if (is_own)
            break;
    }
    if (found == UINT32_MAX) {
        found = device->stage_count;
        if (!add_stage_track(writer, device))
            return false;
    }
    device->stages[found] = (struct stage_track){ event->job, event->thread, event->end_ns };
    *track = found;
    return true;
}

/* What the job had others may have. */
static void free_stage_tracks(struct muster_trace_writer *writer, uint32_t job)
{
    for (uint32_t i = 0; writer->has_group[GROUP_STAGES] && i < writer->device_room; i++)
        for (uint32_t k = 0; k < writer->devices[i].stage_count; k++)
            if (writer->devices[i].stages[k].job == job)
                writer->devices[i].stages[k].job = 0;
}

static uint64_t track_number(uint32_t device, uint32_t track)
{
    return (uint64_t)device + 1 + (uint64_t)track * TRACK_STRIDE;
}

static bool place_on_device(struct muster_trace_writer *writer,
                            const struct muster_trace_event *event, enum group *group,
                            uint64_t *number)
{
    uint32_t track = 0;
    bool is_stage = is_of_pipeline(event->kind);
    if (is_stage ? !place_stage(writer, event, &track)
                 : is_span(event->kind) && !find_track(writer, event, &track))
        return false;
    if (!device_of(writer, event->device))
        return false;
    writer->devices[event->device].is_used = true;
    *group = is_stage ? GROUP_STAGES : GROUP_DEVICES;
    writer->has_group[*group] = true;
    *number = track_number(event->device, track);
    return true;
}

/* Where the event is shown; false if the writer has failed. */
static bool place(struct muster_trace_writer *writer, const struct muster_trace_event *event,
                  enum group *group, uint64_t *number)
{
    switch (event->kind) {
    case MUSTER_TRACE_JOB:
        free_stage_tracks(writer, event->job);
        *group = GROUP_JOBS;
        *number = event->job;
        break;
    case MUSTER_TRACE_DELIVERY:
        *group = GROUP_JOBS;
        *number = event->job;
        break;
    case MUSTER_TRACE_TASK:
        if (event->thread == 0)
            return place_on_device(writer, event, group, number);
        *group = GROUP_THREADS;
        *number = event->thread;
        break;
    default:
        return place_on_device(writer, event, group, number);
    }
    writer->has_group[*group] = true;
    return true;
}

/* Events. */

static void put_name(struct muster_trace_writer *writer, const struct muster_trace_event *event)
{
    unsigned long long begin = event->range.begin, end = event->range.end;
    if (event->kind == MUSTER_TRACE_UNIT || event->kind == MUSTER_TRACE_DELIVERY)
        put(writer, ",\"name\":\"[%llu, %llu)\"", begin, end);
    else if (event->kind == MUSTER_TRACE_JOB)
        put(writer, ",\"name\":\"job %u\"", event->job);
    else if (is_of_pipeline(event->kind)) {
        put(writer, ",\"name\":\"");
        put_escaped(writer, event->name);
        put(writer, "\"");
    } else
        put(writer, ",\"name\":\"%s\"", kind_names[event->kind]);
    put(writer, ",\"cat\":\"%s\"", kind_names[event->kind]);
}

static void put_args(struct muster_trace_writer *writer, const struct muster_trace_event *event)
{
    bool has_range = event->range.end > 0;
    if (is_span(event->kind))
        put(writer, ",\"args\":{\"outcome\":\"%s\"", outcome_names[event->outcome]);
    else
        put(writer, ",\"args\":{\"device\":%u", event->device);
    if (event->status != MUSTER_OK)
        put(writer, ",\"status\":\"%s\"", muster_status_name(event->status));
    if (has_range)
        put(writer, ",\"begin\":%llu,\"end\":%llu", (unsigned long long)event->range.begin,
            (unsigned long long)event->range.end);
    if (event->kind == MUSTER_TRACE_UNIT)
        put(writer, ",\"retry\":%s,\"copy\":%s", event->is_retry ? "true" : "false",
            event->is_copy ? "true" : "false");
    if (event->bytes > 0)
        put(writer, ",\"bytes\":%llu", (unsigned long long)event->bytes);
    if (event->job > 0)
        put(writer, ",\"job\":%u", event->job);
    put(writer, "}}");
}

static bool is_known(const struct muster_trace_event *event)
{
    return event->kind >= MUSTER_TRACE_UNIT && event->kind <= MUSTER_TRACE_STALL &&
           (unsigned)event->outcome <= MUSTER_TRACE_LOST && event->begin_ns <= event->end_ns &&
           memchr(event->name, '\0', sizeof event->name);
}

void muster_trace_writer_add(struct muster_trace_writer *writer,
                             const struct muster_trace_event *event)
{
    enum group group;
    uint64_t number;
    struct muster_trace_event shown;
    if (!writer || !event || writer->status != MUSTER_OK)
        return;
    muster_status status = layout_read(LAYOUT(muster_trace_event), event, &shown, NULL);
    if (status == MUSTER_OK && !is_known(&shown))
        status = MUSTER_E_INVALID;
    if (status != MUSTER_OK) {
        fail(writer, status);
        return;
    }
    /* What began before the recording is shown from there on. */
    const uint64_t origin_ns = writer->origin_ns;
    shown.begin_ns = shown.begin_ns > origin_ns ? shown.begin_ns - origin_ns : 0;
    shown.end_ns = shown.end_ns > origin_ns ? shown.end_ns - origin_ns : 0;
    if (!place(writer, &shown, &group, &number))
        return;
    next_event(writer);
    put(writer, "{\"ph\":\"%s\",\"pid\":%d,\"tid\":%llu",
        is_span(shown.kind) ? "X" : "i\",\"s\":\"t", (int)group, (unsigned long long)number);
    put_time(writer, "ts", shown.begin_ns);
    if (is_span(shown.kind))
        put_time(writer, "dur", shown.end_ns - shown.begin_ns);
    put_name(writer, &shown);
    put_args(writer, &shown);
}

/* Names. */

static void name_group(struct muster_trace_writer *writer, enum group group, const char *name)
{
    next_event(writer);
    put(writer, "{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":\"",
        (int)group);
    put_escaped(writer, name);
    put(writer, "\"}}");
}

/* Up to the name itself, which is completed by end_track_name. */
static void begin_track_name(struct muster_trace_writer *writer, enum group group, uint32_t device,
                             uint32_t track, const char *id)
{
    next_event(writer);
    put(writer,
        "{\"ph\":\"M\",\"pid\":%d,\"tid\":%llu,\"name\":\"thread_name\",\"args\":{\"name\":\"",
        (int)group, (unsigned long long)track_number(device, track));
    put_escaped(writer, id);
}

static void end_track_name(struct muster_trace_writer *writer, enum group group, uint32_t device,
                           uint32_t track)
{
    put(writer, "\"}}");
    /* Tracks of a device stay together, in the order of the devices. */
    next_event(writer);
    put(writer,
        "{\"ph\":\"M\",\"pid\":%d,\"tid\":%llu,\"name\":\"thread_sort_index\","
        "\"args\":{\"sort_index\":%llu}}",
        (int)group, (unsigned long long)track_number(device, track),
        (unsigned long long)device * 64 + track);
}

static void name_track(struct muster_trace_writer *writer, uint32_t device, uint32_t track,
                       const char *id, const char *name)
{
    begin_track_name(writer, GROUP_DEVICES, device, track, id);
    put(writer, " ");
    put_escaped(writer, name);
    if (track > 0)
        put(writer, " (%u)", track + 1);
    end_track_name(writer, GROUP_DEVICES, device, track);
}

static void name_stage_track(struct muster_trace_writer *writer, uint32_t device, uint32_t track,
                             const char *id)
{
    uint32_t stream = writer->devices[device].stages[track].stream;
    begin_track_name(writer, GROUP_STAGES, device, track, id);
    if (stream > 0)
        put(writer, " stream %u", stream);
    else
        put(writer, " host");
    end_track_name(writer, GROUP_STAGES, device, track);
}

/* Further tracks are named at the end, when it is known how many there are. */
static void name_device(struct muster_trace_writer *writer, uint32_t device, const char *id,
                        const char *name)
{
    uint32_t tracks = writer->devices[device].track_count;
    for (uint32_t track = 0; track == 0 || track < tracks; track++)
        name_track(writer, device, track, id, name);
    for (uint32_t track = 0; track < writer->devices[device].stage_count; track++)
        name_stage_track(writer, device, track, id);
}

void muster_trace_writer_name(struct muster_trace_writer *writer, uint32_t device, const char *id,
                              const char *name)
{
    if (!writer || !id || !name || writer->status != MUSTER_OK || !device_of(writer, device))
        return;
    writer->devices[device].is_named = true;
    name_device(writer, device, id, name);
}

/* The writer. */

muster_status muster_trace_writer_create(const struct muster_trace_writer_options *options,
                                         struct muster_trace_writer **out, struct muster_error *err)
{
    struct muster_trace_writer_options how;
    struct muster_allocator allocator;
    if (!options || !out)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL,
                                 "muster_trace_writer_create: an argument is NULL");
    muster_status status = layout_read(LAYOUT(muster_trace_writer_options), options, &how, err);
    if (status == MUSTER_OK && !how.write)
        status = muster_error_fill(err, MUSTER_E_INVALID, 0, NULL,
                                   "muster_trace_writer_create: the write function is NULL");
    if (status == MUSTER_OK)
        status = allocator_read(how.allocator, &platform_heap, &allocator, err);
    if (status != MUSTER_OK)
        return status;
    struct muster_trace_writer *writer = allocator_take(&allocator, 1, sizeof *writer);
    if (!writer)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL,
                                 "no host memory to write a trace");
    writer->allocator = allocator;
    writer->write = how.write;
    writer->user = how.user;
    writer->origin_ns = how.origin_ns;
    snprintf(writer->title, sizeof writer->title, "%s", how.title ? how.title : "muster");
    put(writer, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    *out = writer;
    return MUSTER_OK;
}

muster_status muster_trace_writer_end(struct muster_trace_writer *writer, uint64_t dropped,
                                      struct muster_error *err)
{
    static const char *const names[] = {
        [GROUP_JOBS] = "jobs", [GROUP_THREADS] = "threads", [GROUP_STAGES] = "pipelines"
    };
    if (!writer)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL,
                                 "muster_trace_writer_end: there is no writer");
    name_group(writer, GROUP_DEVICES, writer->title);
    for (enum group group = GROUP_JOBS; group < GROUPS; group++)
        if (writer->has_group[group])
            name_group(writer, group, names[group]);
    for (uint32_t i = 0; i < writer->device_room && writer->status == MUSTER_OK; i++)
        if (writer->devices[i].is_used && !writer->devices[i].is_named)
            name_device(writer, i, "device", "");
    put(writer, "\n],\"otherData\":{\"writer\":\"muster %s\",\"dropped\":%llu}}\n",
        MUSTER_VERSION_STRING, (unsigned long long)dropped);
    flush(writer);
    muster_status status = writer->status;
    /* Nothing is written after the end. */
    fail(writer, MUSTER_E_INVALID);
    if (status != MUSTER_OK)
        muster_error_fill(err, status, 0, NULL, "the trace could not be written: %s",
                          muster_status_message(status));
    return status;
}

void muster_trace_writer_destroy(struct muster_trace_writer *writer)
{
    if (!writer)
        return;
    struct muster_allocator allocator = writer->allocator;
    for (uint32_t i = 0; i < writer->device_room; i++)
        allocator_give(&allocator, writer->devices[i].ends_ns, writer->devices[i].track_room,
                       sizeof *writer->devices[i].ends_ns);
    for (uint32_t i = 0; i < writer->device_room; i++)
        allocator_give(&allocator, writer->devices[i].stages, writer->devices[i].stage_room,
                       sizeof *writer->devices[i].stages);
    allocator_give(&allocator, writer->devices, writer->device_room, sizeof *writer->devices);
    allocator_give(&allocator, writer, 1, sizeof *writer);
}
