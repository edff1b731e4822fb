#include "trace.h"

#include "json.h"

#include <stdio.h>
#include <stdlib.h>

/*
 * Events of one track must not overlap, and with transfers a device is at several units at once: the
 * first track of a device is numbered device + 1, further ones are this far apart, which is more
 * than there can be devices.
 */
#define TRACK_STRIDE (1u << 21)

static const char *const outcome_names[] = {
    [MUSTER_SPAN_DONE] = "done",
    [MUSTER_SPAN_LATE] = "late",
    [MUSTER_SPAN_FAILED] = "failed",
    [MUSTER_SPAN_LOST] = "lost",
};

void trace_begin(struct trace *trace, struct output *out)
{
    *trace = (struct trace){ .out = out };
    output_text(out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
}

static struct trace_device *device_of(struct trace *trace, uint32_t index)
{
    if (index >= trace->device_count) {
        size_t count = trace->device_count > 0 ? trace->device_count : 64;
        while (count <= index)
            count *= 2;
        struct trace_device *devices = realloc(trace->devices, count * sizeof *devices);
        if (!devices)
            return NULL;
        for (size_t i = trace->device_count; i < count; i++)
            devices[i] = (struct trace_device){ .ends_ns = NULL };
        trace->devices = devices;
        trace->device_count = count;
    }
    return &trace->devices[index];
}

/* The first track that is free at the span's beginning, a new one if none is. */
static bool find_track(struct trace *trace, const struct muster_simulation_span *span,
                       uint32_t *track)
{
    struct trace_device *device = device_of(trace, span->device);
    if (!device)
        return false;
    uint32_t i = 0;
    while (i < device->track_count && device->ends_ns[i] > span->begin_ns)
        i++;
    if (i == device->track_count) {
        uint64_t *ends_ns = realloc(device->ends_ns, (i + 1) * sizeof *ends_ns);
        if (!ends_ns)
            return false;
        device->ends_ns = ends_ns;
        device->track_count++;
    }
    device->ends_ns[i] = span->end_ns;
    *track = i;
    return true;
}

static uint64_t track_number(uint32_t device, uint32_t track)
{
    return (uint64_t)device + 1 + (uint64_t)track * TRACK_STRIDE;
}

static void next_event(struct trace *trace)
{
    output_text(trace->out, trace->has_events ? ",\n" : "\n");
    trace->has_events = true;
}

/* Trace times are microseconds; three decimals keep the nanoseconds. */
static void microseconds(struct output *out, uint64_t ns)
{
    char decimals[4] = { (char)('0' + ns / 100 % 10), (char)('0' + ns / 10 % 10),
                         (char)('0' + ns % 10), '\0' };
    output_number(out, ns / 1000);
    output_text(out, ".");
    output_text(out, decimals);
}

void trace_add(struct trace *trace, const struct muster_simulation_span *span)
{
    struct output *out = trace->out;
    const char *outcome = outcome_names[span->outcome];
    uint32_t track;
    if (trace->is_out_of_memory || output_failed(out))
        return;
    if (!find_track(trace, span, &track)) {
        trace->is_out_of_memory = true;
        return;
    }
    next_event(trace);
    output_text(out, "{\"ph\":\"X\",\"pid\":1,\"tid\":");
    output_number(out, track_number(span->device, track));
    output_text(out, ",\"ts\":");
    microseconds(out, span->begin_ns);
    output_text(out, ",\"dur\":");
    microseconds(out, span->end_ns - span->begin_ns);
    output_text(out, ",\"name\":\"[");
    output_number(out, span->range.begin);
    output_text(out, ", ");
    output_number(out, span->range.end);
    output_text(out, ")\",\"cat\":\"");
    output_text(out, outcome);
    output_text(out, "\",\"args\":{\"begin\":");
    output_number(out, span->range.begin);
    output_text(out, ",\"end\":");
    output_number(out, span->range.end);
    output_text(out, ",\"outcome\":\"");
    output_text(out, outcome);
    output_text(out, span->is_retry ? "\",\"retry\":true" : "\",\"retry\":false");
    output_text(out, span->is_copy ? ",\"copy\":true}}" : ",\"copy\":false}}");
}

static void begin_metadata(struct trace *trace, struct json *json, const char *what, uint64_t tid)
{
    next_event(trace);
    json_init(json, trace->out);
    json_begin_object(json, NULL);
    json_text(json, "ph", "M");
    json_number(json, "pid", 1);
    if (tid > 0)
        json_number(json, "tid", tid);
    json_text(json, "name", what);
    json_begin_object(json, "args");
}

static void end_metadata(struct json *json)
{
    json_end_object(json);
    json_end_object(json);
}

static void name_track(struct trace *trace, const struct muster_simulation_device *device,
                       uint32_t index, uint32_t track)
{
    struct json json;
    char name[128];
    if (track == 0)
        snprintf(name, sizeof name, "%s %s", device->id, device->name);
    else
        snprintf(name, sizeof name, "%s %s (%u)", device->id, device->name, (unsigned)track + 1);
    begin_metadata(trace, &json, "thread_name", track_number(index, track));
    json_text(&json, "name", name);
    end_metadata(&json);
    /* Tracks of a device stay together, in the order of the devices. */
    begin_metadata(trace, &json, "thread_sort_index", track_number(index, track));
    json_number(&json, "sort_index", (uint64_t)index * 64 + track);
    end_metadata(&json);
}

bool trace_end(struct trace *trace, const struct muster_simulation *simulation, const char *title)
{
    struct json json;
    begin_metadata(trace, &json, "process_name", 0);
    json_text(&json, "name", title);
    end_metadata(&json);
    for (size_t i = 0; i < simulation->device_count && !output_failed(trace->out); i++) {
        uint32_t tracks = i < trace->device_count ? trace->devices[i].track_count : 0;
        for (uint32_t track = 0; track == 0 || track < tracks; track++)
            name_track(trace, &simulation->devices[i], (uint32_t)i, track);
    }
    output_text(trace->out, "\n]}\n");
    return !trace->is_out_of_memory;
}

void trace_deinit(struct trace *trace)
{
    for (size_t i = 0; i < trace->device_count; i++)
        free(trace->devices[i].ends_ns);
    free(trace->devices);
    trace->devices = NULL;
    trace->device_count = 0;
}
