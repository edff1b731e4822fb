#include "show.h"

#include "aside.h"
#include "bytes.h"
#include "figures.h"
#include "message.h"
#include "report.h"
#include "show_report.h"
#include "terminal.h"
#include "timeline.h"

#include <errno.h>
#include <muster/trace.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000u
/* Short runs leave no trace on the terminal. */
#define FIRST_FRAME_NS 300000000u
#define FRAME_NS 100000000u
/* After such a pause, as by Ctrl-Z, others may have written below the last frame. */
#define PAUSE_NS (2u * NS_PER_S)
/* How far back rates look. */
#define RATE_SPAN_NS (3.0 * NS_PER_S)
#define NOTE_BYTES 64
/* Of a trace for a file; more are counted. */
#define TRACE_EVENTS (1u << 18)

/* How fast something grows: a mean in which what is older counts less. */
struct rate {
    uint64_t done;
    double per_s;
};

struct show {
    struct muster *m; /* borrowed */
    struct show_options options;
    uint64_t begin_ns;
    struct aside trace, timeline;
    bool has_trace, has_timeline, is_recording;
    struct output err; /* stderr, for the report */

    bool has_terminal, has_thread;
    pthread_t thread;
    pthread_cond_t changed;
    pthread_mutex_t lock; /* of all below */
    bool must_end;
    struct muster_job *job; /* borrowed; NULL: none runs */
    char note[NOTE_BYTES];
    struct show_sum sum; /* of the jobs that are over */
    struct terminal terminal;
    uint64_t first_job_ns; /* 0: there was none */
    uint64_t drawn_ns;     /* 0: never */
    struct rate rate;
    /* Too large for a stack: used while a frame is made. */
    struct show_sum now;
    struct muster_report report;     /* owns its devices */
    struct progress_device *devices; /* owns, as the rates: room for `device_room` */
    struct rate *device_rates;
    size_t device_room;
    struct progress_frame frame;
};

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

void show_read_options(const struct option_value *values, struct show_options *options)
{
    options->is_quiet = values[SHOW_OPTION_QUIET].given;
    options->is_report_wanted = values[SHOW_OPTION_REPORT].given;
    if (values[SHOW_OPTION_JSON].given)
        options->report = SHOW_JSON;
    options->trace = values[SHOW_OPTION_TRACE].text;
    options->timeline = values[SHOW_OPTION_TIMELINE].text;
}

/* Frames. */

static uint64_t amount_of(const struct show *show, uint64_t items)
{
    return show->options.item_bytes > 0 ? show_sum_bytes(&show->sum, items) : items;
}

static void rate_update(struct rate *rate, uint64_t done, uint64_t since_ns, uint64_t elapsed_ns)
{
    double now_per_s = done > rate->done && since_ns > 0
                           ? (double)(done - rate->done) / (double)since_ns * NS_PER_S
                           : 0;
    double weight = (double)since_ns / (RATE_SPAN_NS + (double)since_ns);
    if (rate->done == 0)
        rate->per_s = elapsed_ns > 0 ? (double)done / (double)elapsed_ns * NS_PER_S : 0;
    else
        rate->per_s += (now_per_s - rate->per_s) * weight;
    rate->done = done;
}

/* Room for what is shown of each device. */
static bool make_room_locked(struct show *show, size_t count)
{
    if (count <= show->device_room)
        return true;
    struct progress_device *devices = realloc(show->devices, count * sizeof *devices);
    show->devices = devices ? devices : show->devices;
    struct rate *rates = realloc(show->device_rates, count * sizeof *rates);
    show->device_rates = rates ? rates : show->device_rates;
    if (!devices || !rates)
        return false;
    for (size_t i = show->device_room; i < count; i++)
        rates[i] = (struct rate){ .done = 0 };
    show->device_room = count;
    return true;
}

static void fill_devices_locked(struct show *show, uint64_t since_ns, uint64_t elapsed_ns)
{
    for (size_t i = 0; i < show->now.all.device_count; i++) {
        const struct muster_job_device *from = &show->now.all.devices[i];
        struct progress_device *to = &show->devices[i];
        memcpy(to->id, from->id, sizeof to->id);
        to->done = amount_of(show, from->items);
        rate_update(&show->device_rates[i], to->done, since_ns, elapsed_ns);
        to->per_s = show->device_rates[i].per_s;
        to->retries = from->retries;
        to->health = from->health;
    }
}

static void draw_locked(struct show *show, uint64_t now_ns)
{
    uint64_t elapsed_ns = now_ns - show->first_job_ns;
    uint64_t since_ns = show->drawn_ns > 0 ? now_ns - show->drawn_ns : elapsed_ns;
    /* Without memory this frame is left out. */
    if (!show_sum_copy(&show->now, &show->sum))
        return;
    if (show->job && report_read(&show->report, show->job))
        show_sum_add(&show->now, &show->report);
    if (!make_room_locked(show, show->now.all.device_count))
        return;
    uint64_t done = amount_of(show, show->now.all.delivered);
    rate_update(&show->rate, done, since_ns, elapsed_ns);
    fill_devices_locked(show, since_ns, elapsed_ns);
    const struct progress progress = {
        .title = show->options.title,
        .note = show->note[0] ? show->note : NULL,
        .in_bytes = show->options.item_bytes > 0,
        .done = done,
        .total = show->options.total,
        .per_s = show->rate.per_s,
        .elapsed_ns = elapsed_ns,
        .devices = show->devices,
        .device_count = show->now.all.device_count,
    };
    const struct progress_style style = terminal_style(&show->terminal);
    if (show->drawn_ns > 0 && now_ns - show->drawn_ns > PAUSE_NS)
        terminal_leave(&show->terminal);
    show->drawn_ns = now_ns;
    if (!terminal_is_ours(&show->terminal)) {
        terminal_leave(&show->terminal);
        return;
    }
    progress_format(&progress, &style, &show->frame);
    terminal_draw(&show->terminal, &show->frame);
}

static void *draw(void *argument)
{
    struct show *show = argument;
    uint64_t due_ns = show->begin_ns + FIRST_FRAME_NS;
    pthread_mutex_lock(&show->lock);
    while (!show->must_end) {
        uint64_t now_ns = clock_ns();
        if (now_ns >= due_ns) {
            if (show->first_job_ns > 0)
                draw_locked(show, now_ns);
            due_ns = now_ns + FRAME_NS;
        }
        const struct timespec until = { .tv_sec = (time_t)(due_ns / NS_PER_S),
                                        .tv_nsec = (long)(due_ns % NS_PER_S) };
        pthread_cond_timedwait(&show->changed, &show->lock, &until);
    }
    pthread_mutex_unlock(&show->lock);
    return NULL;
}

/* Signals are for the threads that can do something about them. */
static bool start_thread(struct show *show)
{
    pthread_condattr_t attributes;
    sigset_t all, before;
    if (pthread_condattr_init(&attributes) != 0)
        return false;
    bool is_good = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
                   pthread_cond_init(&show->changed, &attributes) == 0;
    pthread_condattr_destroy(&attributes);
    if (!is_good)
        return false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    show->has_thread = pthread_create(&show->thread, NULL, draw, show) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!show->has_thread)
        pthread_cond_destroy(&show->changed);
    return show->has_thread;
}

static void stop_thread(struct show *show)
{
    if (!show->has_thread)
        return;
    pthread_mutex_lock(&show->lock);
    show->must_end = true;
    pthread_cond_signal(&show->changed);
    pthread_mutex_unlock(&show->lock);
    pthread_join(show->thread, NULL);
    pthread_cond_destroy(&show->changed);
    show->has_thread = false;
}

/* Another part of the command is about to write to the terminal. Nothing is drawn until it has. */
static void make_way(void *user)
{
    struct show *show = user;
    pthread_mutex_lock(&show->lock);
    terminal_erase(&show->terminal);
}

static void take_way(void *user)
{
    struct show *show = user;
    pthread_mutex_unlock(&show->lock);
}

/* Without a thread there is no display, which is no reason not to do the work. */
static void start_drawing(struct show *show)
{
    if (show->options.is_quiet || !terminal_open(&show->terminal, STDERR_FILENO))
        return;
    if (!start_thread(show)) {
        terminal_close(&show->terminal);
        return;
    }
    show->has_terminal = true;
    message_between(make_way, take_way, show);
}

static void stop_drawing(struct show *show)
{
    if (!show->has_terminal)
        return;
    stop_thread(show);
    message_between(NULL, NULL, NULL);
    terminal_erase(&show->terminal);
    terminal_close(&show->terminal);
    show->has_terminal = false;
}

/* Files. */

/* Whether both name the same file, there or to come. */
static bool is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    if (strcmp(a, b) == 0)
        return true;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino &&
           S_ISREG(x.st_mode);
}

static bool check_path(const struct show_options *options, const char *name, const char *path)
{
    if (!path)
        return true;
    if (strcmp(path, "-") == 0) {
        message_usage(options->command, "--%s must name a file, not '-'", name);
        return false;
    }
    for (size_t i = 0; i < options->taken_count; i++) {
        if (!options->taken[i] || !is_same_file(path, options->taken[i]))
            continue;
        message_usage(options->command, "--%s would overwrite %s", name, path);
        return false;
    }
    return true;
}

static bool check_paths(const struct show_options *options)
{
    if (!check_path(options, "trace", options->trace) ||
        !check_path(options, "timeline", options->timeline))
        return false;
    if (!options->trace || !options->timeline || !is_same_file(options->trace, options->timeline))
        return true;
    message_usage(options->command, "--trace and --timeline must name two files, not %s",
                  options->trace);
    return false;
}

static void discard_files(struct show *show)
{
    if (show->has_trace)
        aside_discard(&show->trace);
    if (show->has_timeline)
        aside_discard(&show->timeline);
    show->has_trace = show->has_timeline = false;
    if (show->is_recording)
        muster_trace_stop(show->m, NULL, NULL);
    show->is_recording = false;
}

static bool open_files(struct show *show)
{
    const struct show_options *options = &show->options;
    const struct muster_trace_options trace = { .size = sizeof trace, .capacity = TRACE_EVENTS };
    struct muster_error error;
    show->has_trace = options->trace && aside_open(&show->trace, options->trace);
    if (options->trace && !show->has_trace)
        return false;
    show->has_timeline = options->timeline && aside_open(&show->timeline, options->timeline);
    if (options->timeline && !show->has_timeline)
        return false;
    if (!show->has_trace && !show->has_timeline)
        return true;
    if (muster_trace_start(show->m, &trace, &error) != MUSTER_OK) {
        message_library("the trace", &error);
        return false;
    }
    show->is_recording = true;
    return true;
}

static muster_status write_text(void *user, const char *text, size_t bytes)
{
    struct output *out = user;
    output_bytes(out, text, bytes);
    return output_failed(out) ? MUSTER_E_IO : MUSTER_OK;
}

/* The picture. */

struct drawing {
    struct show *show;
    struct timeline timeline;
    struct timeline_run run;
    struct muster_simulation_device *devices; /* owns, as the next three: one for each device */
    const struct muster_simulation_device **pointers;
    uint32_t *numbers; /* what the runtime calls them */
    uint64_t *streams;
    uint64_t begin_ns, end_ns;
    bool has_stages;
};

/* Their names and numbers, from the runtime; the rest from the reports. */
static void describe_devices(struct drawing *drawing)
{
    struct show *show = drawing->show;
    const struct muster_report *all = &show->sum.all;
    for (size_t i = 0; i < all->device_count; i++) {
        const struct muster_job_device *from = &all->devices[i];
        struct muster_simulation_device *to = &drawing->devices[i];
        struct muster_device_info info = { .size = sizeof info };
        muster_device device;
        drawing->pointers[i] = to;
        *to = (struct muster_simulation_device){ .size = sizeof *to,
                                                 .items = from->items,
                                                 .units = from->units,
                                                 .retries = from->retries,
                                                 .busy_ns = from->busy_ns < all->makespan_ns
                                                                ? from->busy_ns
                                                                : all->makespan_ns,
                                                 .health = muster_health_name(from->health) };
        memcpy(to->id, from->id, sizeof to->id);
        drawing->numbers[i] = UINT32_MAX;
        if (muster_device_find(show->m, from->id, &device, NULL) != MUSTER_OK)
            continue;
        drawing->numbers[i] = device.index;
        if (muster_device_info(show->m, device, &info, NULL) == MUSTER_OK)
            snprintf(to->name, sizeof to->name, "%.*s", (int)sizeof to->name - 1, info.name);
    }
}

/* The event's device as an index of ours; false: it is another. */
static bool find_device(const struct drawing *drawing, const struct muster_trace_event *event,
                        uint32_t *index)
{
    for (*index = 0; *index < drawing->run.device_count; ++*index)
        if (drawing->numbers[*index] == event->device)
            return true;
    return false;
}

/* First: from when to when, and which streams there are. */
static void survey_event(void *user, const struct muster_trace_event *event)
{
    struct drawing *drawing = user;
    uint32_t device;
    bool is_stage = event->kind == MUSTER_TRACE_STAGE || event->kind == MUSTER_TRACE_STALL;
    if (is_stage && event->thread < 64 && find_device(drawing, event, &device)) {
        drawing->streams[device] |= (uint64_t)1 << event->thread;
        drawing->has_stages = true;
    }
    if (event->kind != MUSTER_TRACE_JOB && event->kind != MUSTER_TRACE_UNIT)
        return;
    drawing->begin_ns = event->begin_ns < drawing->begin_ns ? event->begin_ns : drawing->begin_ns;
    drawing->end_ns = event->end_ns > drawing->end_ns ? event->end_ns : drawing->end_ns;
}

static void draw_event(void *user, const struct muster_trace_event *event)
{
    struct drawing *drawing = user;
    struct muster_trace_event ours = *event;
    if (find_device(drawing, event, &ours.device))
        timeline_add(&drawing->timeline, &ours);
}

static void fill_run(struct drawing *drawing, muster_status status, const char *amount)
{
    struct show *show = drawing->show;
    const struct muster_report *all = &show->sum.all;
    bool is_known = all->items != MUSTER_ITEMS_UNKNOWN && all->items > all->delivered;
    drawing->run = (struct timeline_run){
        .status = status,
        .items = all->delivered,
        .units = all->units,
        .missing = is_known ? all->items - all->delivered : 0,
        .amount = amount,
        .devices = drawing->pointers,
        .device_count = all->device_count,
    };
}

static muster_status make_picture(struct drawing *drawing, struct output *out)
{
    struct show *show = drawing->show;
    struct timeline_run *run = &drawing->run;
    drawing->begin_ns = UINT64_MAX;
    muster_status result = muster_trace_events(show->m, survey_event, drawing, &run->dropped, NULL);
    if (result != MUSTER_OK)
        return result;
    bool has_any = drawing->end_ns > drawing->begin_ns;
    run->begin_ns = has_any ? drawing->begin_ns : 0;
    /* Also what lies between jobs, and attempts that came late. */
    run->span_ns = has_any ? drawing->end_ns - drawing->begin_ns : 0;
    run->makespan_ns = show->sum.jobs == 1 ? show->sum.all.makespan_ns : run->span_ns;
    /* Of several jobs the bounds do not add up to one of the time that they and their gaps take. */
    run->bound_ns = show->sum.jobs == 1 ? show->sum.all.bound_ns : 0;
    run->streams = drawing->has_stages ? drawing->streams : NULL;
    if (!timeline_init(&drawing->timeline, run))
        return MUSTER_E_NO_MEMORY;
    result = muster_trace_events(show->m, draw_event, drawing, NULL, NULL);
    if (result == MUSTER_OK)
        timeline_draw(&drawing->timeline, show->options.title, out);
    timeline_deinit(&drawing->timeline);
    return result;
}

static void write_timeline(struct show *show, muster_status status)
{
    size_t count = show->sum.all.device_count;
    struct drawing drawing = { .show = show,
                               .devices = calloc(count + 1, sizeof *drawing.devices),
                               .pointers = calloc(count + 1, sizeof *drawing.pointers),
                               .numbers = calloc(count + 1, sizeof *drawing.numbers),
                               .streams = calloc(count + 1, sizeof *drawing.streams) };
    char amount[FIGURE_BYTES];
    bytes_format(amount_of(show, show->sum.all.delivered), amount, sizeof amount);
    bool has_room = drawing.devices && drawing.pointers && drawing.numbers && drawing.streams;
    if (has_room) {
        fill_run(&drawing, status, show->options.item_bytes > 0 ? amount : NULL);
        describe_devices(&drawing);
    }
    if (!has_room || make_picture(&drawing, &show->timeline.out) != MUSTER_OK)
        show->timeline.out.error = ENOMEM;
    free(drawing.streams);
    free(drawing.numbers);
    free(drawing.pointers);
    free(drawing.devices);
}

/* False if one was not, which was reported. */
static bool write_files(struct show *show, muster_status status)
{
    bool is_written = true;
    if (show->has_trace) {
        muster_status written = muster_trace_write(show->m, write_text, &show->trace.out, NULL);
        if (written != MUSTER_OK && !output_failed(&show->trace.out))
            show->trace.out.error = ENOMEM;
        is_written = aside_commit(&show->trace);
    }
    if (show->has_timeline) {
        write_timeline(show, status);
        is_written = aside_commit(&show->timeline) && is_written;
    }
    show->has_trace = show->has_timeline = false;
    return is_written;
}

/* Beginning and end. */

struct show *show_begin(struct muster *m, const struct show_options *options)
{
    if (!check_paths(options))
        return NULL;
    struct show *show = calloc(1, sizeof *show);
    if (!show || pthread_mutex_init(&show->lock, NULL) != 0) {
        message_error("%s: %s", options->command, strerror(ENOMEM));
        free(show);
        return NULL;
    }
    show->m = m;
    show->options = *options;
    show->begin_ns = clock_ns();
    show->sum.item_name = options->item_name ? options->item_name : "items";
    show->sum.item_bytes = options->item_bytes;
    show->sum.bytes_max = options->total;
    output_init(&show->err, STDERR_FILENO);
    if (!open_files(show)) {
        discard_files(show);
        pthread_mutex_destroy(&show->lock);
        free(show);
        return NULL;
    }
    start_drawing(show);
    return show;
}

void show_note(struct show *show, const char *note)
{
    pthread_mutex_lock(&show->lock);
    snprintf(show->note, sizeof show->note, "%s", note ? note : "");
    pthread_mutex_unlock(&show->lock);
}

void show_job(struct show *show, struct muster_job *job)
{
    pthread_mutex_lock(&show->lock);
    show->job = job;
    if (show->first_job_ns == 0)
        show->first_job_ns = clock_ns();
    pthread_mutex_unlock(&show->lock);
}

void show_job_end(struct show *show)
{
    pthread_mutex_lock(&show->lock);
    if (show->job && report_read(&show->report, show->job))
        show_sum_add(&show->sum, &show->report);
    show->job = NULL;
    pthread_mutex_unlock(&show->lock);
}

void show_file(struct show *show, const char *role, struct muster_file *file)
{
    struct muster_file_report report = { .size = sizeof report };
    if (!file || muster_file_report(file, &report, NULL) != MUSTER_OK)
        return;
    pthread_mutex_lock(&show->lock);
    show_sum_add_file(&show->sum, role, &report);
    pthread_mutex_unlock(&show->lock);
}

/* What only the end knows. */
static void complete_sum(struct show *show)
{
    struct rusage usage;
    show->sum.elapsed_ns = clock_ns() - show->begin_ns;
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        show->sum.memory_bytes = (uint64_t)usage.ru_maxrss * 1024;
}

void show_json(struct show *show, muster_status status, struct json *json)
{
    pthread_mutex_lock(&show->lock);
    complete_sum(show);
    show_sum_json(&show->sum, status, json);
    pthread_mutex_unlock(&show->lock);
}

static void print_json(struct show *show, muster_status status, struct output *out)
{
    struct json json;
    json_init(&json, out);
    json_begin_object(&json, NULL);
    show_json(show, status, &json);
    json_end_object(&json);
    output_text(out, "\n");
}

/* A report that cannot be written does not undo the work: on stderr there is nobody to tell. */
static void report(struct show *show, muster_status status, struct output *out)
{
    if (show->options.is_quiet && show->options.report != SHOW_JSON)
        return;
    complete_sum(show);
    if (show->options.report == SHOW_JSON)
        print_json(show, status, show->options.stdout_is_data ? &show->err : out);
    else if (show->options.report == SHOW_TABLE &&
             (show->options.is_report_wanted || isatty(STDERR_FILENO) == 1))
        show_sum_print(&show->sum, status, &show->err);
    output_flush(&show->err);
}

bool show_end(struct show *show, muster_status status, struct output *out)
{
    bool is_written = true;
    if (!show)
        return true;
    if (show->sum.jobs > 0)
        is_written = write_files(show, status);
    discard_files(show);
    stop_drawing(show);
    if (show->sum.jobs > 0)
        report(show, status, out);
    pthread_mutex_destroy(&show->lock);
    show_sum_deinit(&show->sum);
    show_sum_deinit(&show->now);
    report_deinit(&show->report);
    free(show->devices);
    free(show->device_rates);
    free(show);
    return is_written;
}
