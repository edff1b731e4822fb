/*
 * A trace read back: its text must be JSON that any reader takes, and its events are kept for the
 * test to look at.
 */
#ifndef UNIT_TRACE_SUPPORT_H
#define UNIT_TRACE_SUPPORT_H

#include "harness.h"

#include "base/json.h"

#include <muster/muster.h>
#include <stdlib.h>
#include <string.h>

struct text {
    char *bytes;
    size_t count;
};

static inline muster_status keep_text(void *user, const char *bytes, size_t count)
{
    struct text *text = user;
    char *more = realloc(text->bytes, text->count + count + 1);
    if (!more)
        return MUSTER_E_NO_MEMORY;
    memcpy(more + text->count, bytes, count);
    text->bytes = more;
    text->count += count;
    more[text->count] = '\0';
    return MUSTER_OK;
}

/* One event as it stands in the text; times are in nanoseconds. */
struct shown {
    char phase[4], kind[24], name[64], outcome[16], label[80];
    uint64_t pid, tid, begin_ns, length_ns, first, end, job;
};

struct shown_trace {
    struct shown *events;
    size_t count;
    uint64_t dropped;
};

static inline void read_args(struct json *json, struct shown *shown)
{
    struct json_value key, value;
    while (json_next_key(json, &key)) {
        bool has_value = json_read(json, &value);
        if (has_value && json_equals(json, &key, "outcome"))
            json_copy(json, &value, shown->outcome, sizeof shown->outcome);
        else if (has_value && json_equals(json, &key, "begin"))
            json_u64(json, &value, &shown->first);
        else if (has_value && json_equals(json, &key, "end"))
            json_u64(json, &value, &shown->end);
        else if (has_value && json_equals(json, &key, "job"))
            json_u64(json, &value, &shown->job);
        else if (has_value && json_equals(json, &key, "name"))
            json_copy(json, &value, shown->label, sizeof shown->label);
    }
}

static inline void read_event(struct json *json, struct shown *shown)
{
    struct json_value key, value;
    CHECK(json_read(json, &value) && value.type == JSON_OBJECT);
    while (json_next_key(json, &key) && json_read(json, &value)) {
        if (json_equals(json, &key, "ph"))
            json_copy(json, &value, shown->phase, sizeof shown->phase);
        else if (json_equals(json, &key, "cat"))
            json_copy(json, &value, shown->kind, sizeof shown->kind);
        else if (json_equals(json, &key, "name"))
            json_copy(json, &value, shown->name, sizeof shown->name);
        else if (json_equals(json, &key, "pid"))
            json_u64(json, &value, &shown->pid);
        else if (json_equals(json, &key, "tid"))
            json_u64(json, &value, &shown->tid);
        else if (json_equals(json, &key, "ts"))
            json_scaled_u64(json, &value, 3, &shown->begin_ns);
        else if (json_equals(json, &key, "dur"))
            json_scaled_u64(json, &value, 3, &shown->length_ns);
        else if (json_equals(json, &key, "args"))
            read_args(json, shown);
    }
}

/* Reads it all, or fails the test. Given back with free(trace.events). */
static inline struct shown_trace read_trace(const struct text *text)
{
    struct shown_trace trace = { .count = 0 };
    struct json json;
    struct json_value key, value;
    size_t room = 0;
    json_init(&json, text->bytes, text->count);
    CHECK(json_read(&json, &value) && value.type == JSON_OBJECT);
    while (json_next_key(&json, &key) && json_read(&json, &value)) {
        if (json_equals(&json, &key, "otherData")) {
            while (json_next_key(&json, &key) && json_read(&json, &value))
                if (json_equals(&json, &key, "dropped"))
                    json_u64(&json, &value, &trace.dropped);
        } else if (json_equals(&json, &key, "traceEvents")) {
            while (json_next_element(&json)) {
                if (trace.count == room) {
                    room = room > 0 ? 2 * room : 256;
                    trace.events = realloc(trace.events, room * sizeof *trace.events);
                    CHECK(trace.events);
                }
                trace.events[trace.count] = (struct shown){ .pid = 0 };
                read_event(&json, &trace.events[trace.count++]);
            }
        }
    }
    if (!json_finish(&json))
        test_fail(__FILE__, __LINE__, "no JSON at byte %zu: %s", json.problem_at, json.problem);
    return trace;
}

static inline bool is_kind(const struct shown *shown, const char *kind)
{
    return strcmp(shown->kind, kind) == 0;
}

static inline size_t count_kind(const struct shown_trace *trace, const char *kind)
{
    size_t count = 0;
    for (size_t i = 0; i < trace->count; i++)
        count += is_kind(&trace->events[i], kind);
    return count;
}

static inline int by_track(const void *left, const void *right)
{
    const struct shown *a = left, *b = right;
    if (a->pid != b->pid || a->tid != b->tid)
        return a->pid != b->pid ? (a->pid > b->pid) - (a->pid < b->pid)
                                : (a->tid > b->tid) - (a->tid < b->tid);
    if (a->begin_ns != b->begin_ns)
        return (a->begin_ns > b->begin_ns) - (a->begin_ns < b->begin_ns);
    return (a->length_ns < b->length_ns) - (a->length_ns > b->length_ns);
}

/*
 * Spans of one track follow each other or lie in each other, and never overlap by halves, or
 * viewers draw nonsense. Sorts the events.
 */
static inline void check_tracks(struct shown_trace *trace)
{
    const struct shown *open[64] = { NULL };
    size_t depth = 0;
    if (trace->count > 0)
        qsort(trace->events, trace->count, sizeof *trace->events, by_track);
    for (size_t i = 0; i < trace->count; i++) {
        const struct shown *event = &trace->events[i];
        uint64_t end_ns = event->begin_ns + event->length_ns;
        if (event->phase[0] != 'X')
            continue;
        while (depth > 0 &&
               (open[depth - 1]->pid != event->pid || open[depth - 1]->tid != event->tid ||
                open[depth - 1]->begin_ns + open[depth - 1]->length_ns <= event->begin_ns))
            depth--;
        if (depth > 0 && open[depth - 1]->begin_ns + open[depth - 1]->length_ns < end_ns)
            test_fail(__FILE__, __LINE__, "%s overlaps %s on track %llu of %llu", event->name,
                      open[depth - 1]->name, (unsigned long long)event->tid,
                      (unsigned long long)event->pid);
        /* Units do not lie in each other either: a track has one at a time. */
        CHECK(depth == 0 || !is_kind(event, "unit"));
        CHECK(depth < sizeof open / sizeof *open);
        open[depth++] = event;
    }
}

#endif
