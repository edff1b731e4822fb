#include "top_frame.h"

#include "bytes.h"
#include "figures.h"
#include "utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES_MAX 64
#define BAR_COLUMNS 16
/* A job that is over is shown for so long. */
#define OVER_NS 5000000000u
#define NS_PER_S 1000000000u

const char *const top_sort_names[TOP_SORTS] = { "id", "busy", "rate", "retries", "memory" };

enum colour { PLAIN, DIM, BOLD, GREEN, YELLOW, RED };

/* The line that is being written, and the frame that it is of. */
struct pen {
    const struct progress_style *style;
    struct progress_frame *frame;
    struct progress_line *line; /* NULL: there is no room for it */
    size_t unseen;              /* lines that there was no room for */
    unsigned columns_max;
};

static size_t rows_of(const struct pen *pen)
{
    size_t rows = pen->style->rows > 2 ? pen->style->rows - 1 : 2;
    return rows < PROGRESS_LINES_MAX ? rows : PROGRESS_LINES_MAX;
}

/* The last row is kept for what does not fit. */
static void begin(struct pen *pen)
{
    pen->line = NULL;
    if (pen->frame->line_count + 1 >= rows_of(pen)) {
        pen->unseen++;
        return;
    }
    pen->line = &pen->frame->lines[pen->frame->line_count++];
    *pen->line = (struct progress_line){ .bytes = 0 };
}

static void add(struct pen *pen, const char *text, size_t bytes)
{
    struct progress_line *line = pen->line;
    if (line->bytes + bytes < sizeof line->text) {
        memcpy(line->text + line->bytes, text, bytes);
        line->bytes += bytes;
    }
}

static void colour(struct pen *pen, enum colour which)
{
    static const char *const codes[] = { "\033[0m",  "\033[2m",  "\033[1m",
                                         "\033[32m", "\033[33m", "\033[31m" };
    if (pen->line && pen->style->has_colour && !pen->style->is_dumb)
        add(pen, codes[which], strlen(codes[which]));
}

/* As far as the line has room; what could steer the terminal is left out. */
static void text(struct pen *pen, const char *from)
{
    while (pen->line && *from && pen->line->columns < pen->columns_max) {
        const char *shown;
        size_t bytes;
        from += utf8_show(from, &shown, &bytes);
        add(pen, shown, bytes);
        pen->line->columns++;
    }
}

static void spaces(struct pen *pen, size_t count)
{
    while (count-- > 0)
        text(pen, " ");
}

/* In a column; negative: to its right end. A text that is too long is cut. */
static void cell(struct pen *pen, int width, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void cell(struct pen *pen, int width, const char *format, ...)
{
    char made[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(made, sizeof made, format, arguments);
    va_end(arguments);
    size_t room = (size_t)(width < 0 ? -width : width), count = utf8_count(made);
    if (width < 0 && count < room)
        spaces(pen, room - count);
    const char *at = made;
    for (size_t i = 0; i < room && *at; i++) {
        char one[8];
        uint32_t character;
        size_t bytes = utf8_read(at, &character);
        memcpy(one, at, bytes);
        one[bytes] = '\0';
        text(pen, one);
        at += bytes;
    }
    if (width > 0 && count < room)
        spaces(pen, room - count);
}

static void bar(struct pen *pen, double share, enum colour which)
{
    bool is_unicode = pen->style->has_unicode;
    unsigned full = (unsigned)(share * BAR_COLUMNS + 0.5);
    colour(pen, which);
    for (unsigned i = 0; i < BAR_COLUMNS; i++) {
        if (i == full)
            colour(pen, PLAIN), colour(pen, DIM);
        text(pen, i < full ? (is_unicode ? "\u2501" : "#") : (is_unicode ? "\u2500" : "-"));
    }
    colour(pen, PLAIN);
}

static void clock_text(uint64_t ns, char out[FIGURE_BYTES])
{
    uint64_t s = ns / NS_PER_S;
    if (s < 3600)
        snprintf(out, FIGURE_BYTES, "%u:%02u", (unsigned)(s / 60), (unsigned)(s % 60));
    else
        snprintf(out, FIGURE_BYTES, "%llu:%02u:%02u", (unsigned long long)(s / 3600),
                 (unsigned)(s / 60 % 60), (unsigned)(s % 60));
}

static void rate_text(double per_s, char out[FIGURE_BYTES])
{
    figure_rate(per_s < 1e18 ? (uint64_t)(per_s * 1e3) : 0, (uint64_t)(1e12), out);
    if (per_s <= 0)
        snprintf(out, FIGURE_BYTES, "-");
}

/* As many digits as the column has room for. */
static void count_text(uint64_t count, char out[FIGURE_BYTES])
{
    static const char units[] = "GTPE";
    double value = (double)count / 1e9;
    size_t unit = 0;
    for (; units[unit + 1] && value >= 999.95; unit++)
        value /= 1000;
    if (count < 1000000000)
        figure_count(count, out);
    else
        snprintf(out, FIGURE_BYTES, "%.3f %c", value, units[unit]);
}

static enum colour health_colour(enum muster_health health)
{
    return health == MUSTER_HEALTH_OK ? GREEN : health == MUSTER_HEALTH_LOST ? RED : YELLOW;
}

/* What has happened since the look before. */

/* The same runtime there; false if it was not there. */
static bool find_before(const struct top *top, const struct muster_live_runtime *runtime,
                        size_t *at, struct muster_live_runtime *before)
{
    before->size = sizeof *before;
    for (*at = 0; top->before && muster_live_runtime(top->before, *at, before, NULL) == MUSTER_OK;
         (*at)++)
        if (before->pid == runtime->pid && before->opened_ns == runtime->opened_ns)
            return true;
    return false;
}

static uint64_t now_of(const struct muster_live *live)
{
    struct muster_live_info info = { .size = sizeof info };
    muster_live_info(live, &info, NULL);
    return info.now_ns;
}

static double share_of(uint64_t part, uint64_t whole)
{
    double share = whole > 0 ? (double)part / (double)whole : 0;
    return share < 0 ? 0 : share > 1 ? 1 : share;
}

struct row {
    struct muster_live_device device;
    double busy;
    size_t index;
};

static double key_of(const struct row *row, enum top_sort sort)
{
    const struct muster_live_device *device = &row->device;
    return sort == TOP_BY_BUSY      ? row->busy
           : sort == TOP_BY_RATE    ? device->items_per_s
           : sort == TOP_BY_RETRIES ? (double)device->failed
           : sort == TOP_BY_MEMORY  ? (double)device->memory_used
                                    : -(double)row->index;
}

static void sort_rows(struct row *rows, size_t count, enum top_sort sort)
{
    for (size_t i = 1; i < count; i++)
        for (size_t at = i; at > 0 && key_of(&rows[at], sort) > key_of(&rows[at - 1], sort); at--) {
            struct row row = rows[at];
            rows[at] = rows[at - 1];
            rows[at - 1] = row;
        }
}

static size_t gather(const struct top *top, size_t index, const struct muster_live_runtime *runtime,
                     struct row *rows)
{
    size_t at, count = 0;
    struct muster_live_runtime then;
    bool has_before = find_before(top, runtime, &at, &then);
    uint64_t now_ns = now_of(top->now);
    for (size_t i = 0; i < runtime->devices && count < DEVICES_MAX; i++) {
        struct row *row = &rows[count];
        row->device.size = sizeof row->device;
        if (muster_live_device(top->now, index, i, &row->device, NULL) != MUSTER_OK ||
            row->device.is_cut)
            continue;
        struct muster_live_device before = { .size = sizeof before };
        row->index = i;
        if (has_before && muster_live_device(top->before, at, i, &before, NULL) == MUSTER_OK &&
            before.busy_ns <= row->device.busy_ns)
            row->busy =
                share_of(row->device.busy_ns - before.busy_ns, now_ns - now_of(top->before));
        else
            row->busy = share_of(row->device.busy_ns,
                                 now_ns > runtime->opened_ns ? now_ns - runtime->opened_ns : 0);
        count++;
    }
    sort_rows(rows, count, top->sort);
    return count;
}

/* Lines. */

static void show_device(struct pen *pen, const struct row *row)
{
    const struct muster_live_device *device = &row->device;
    char rate[FIGURE_BYTES], done[FIGURE_BYTES], used[32], total[32];
    const char *health = device->is_hung && device->health == MUSTER_HEALTH_SUSPECT
                             ? "hung"
                             : muster_health_name(device->health);
    rate_text(device->health == MUSTER_HEALTH_LOST ? 0 : device->items_per_s, rate);
    count_text(device->completed, done);
    bytes_format(device->memory_used, used, sizeof used);
    bytes_format(device->memory_total, total, sizeof total);
    begin(pen);
    cell(pen, 13, "   %s", device->id);
    colour(pen, health_colour(device->health));
    cell(pen, 12, "%s", health);
    colour(pen, PLAIN);
    cell(pen, -5, "%.0f %%", row->busy * 100);
    text(pen, " ");
    bar(pen, row->busy, device->health == MUSTER_HEALTH_LOST ? RED : GREEN);
    cell(pen, -6, "%llu", (unsigned long long)device->queue_depth);
    cell(pen, -12, "%s", rate);
    cell(pen, -12, "%s", done);
    colour(pen, device->failed > 0 ? YELLOW : PLAIN);
    cell(pen, -8, "%llu", (unsigned long long)device->failed);
    colour(pen, PLAIN);
    text(pen, "  ");
    if (device->memory_used > 0 || device->memory_total > 0)
        cell(pen, 24, "%s of %s", used, total);
}

static void show_lane(struct pen *pen, const struct muster_live_lane *lane, uint64_t items)
{
    char done[FIGURE_BYTES], rate[FIGURE_BYTES];
    double share = share_of(lane->items, items);
    count_text(lane->items, done);
    rate_text(lane->items_per_s, rate);
    begin(pen);
    cell(pen, 13, "     %s", lane->device);
    colour(pen, health_colour(lane->health));
    cell(pen, 12, "%s", muster_health_name(lane->health));
    colour(pen, PLAIN);
    cell(pen, -5, "%.0f %%", share * 100);
    text(pen, " ");
    bar(pen, share, lane->health == MUSTER_HEALTH_LOST ? RED : GREEN);
    cell(pen, -6, "%llu", (unsigned long long)lane->running);
    cell(pen, -12, "%s", rate);
    cell(pen, -12, "%s", done);
    colour(pen, lane->retries > 0 ? YELLOW : PLAIN);
    cell(pen, -8, "%llu", (unsigned long long)lane->retries);
    colour(pen, PLAIN);
    if (lane->faster_without > 0)
        cell(pen, 30, "  left out: %.1fx faster without", lane->faster_without);
    else if (lane->late > 0)
        cell(pen, 20, "  %llu late", (unsigned long long)lane->late);
}

static void show_loss(struct pen *pen, const struct muster_live_job *job)
{
    const struct {
        const char *name;
        uint64_t ns;
    } parts[] = { { "work", job->bound_ns },        { "start-up", job->startup_ns },
                  { "transfer", job->transfer_ns }, { "overhead", job->overhead_ns },
                  { "starved", job->starved_ns },   { "tail", job->tail_ns } };
    if (job->makespan_ns == 0)
        return;
    begin(pen);
    colour(pen, DIM);
    text(pen, "     time:");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char part[64];
        snprintf(part, sizeof part, "%s %s %.1f %%", i > 0 ? "," : "", parts[i].name,
                 100 * share_of(parts[i].ns, job->makespan_ns));
        text(pen, part);
    }
    colour(pen, PLAIN);
}

static void show_job(struct pen *pen, const struct top *top, size_t runtime, size_t index)
{
    struct muster_live_job job = { .size = sizeof job };
    struct muster_live_lane lane = { .size = sizeof lane };
    char name[96], rate[FIGURE_BYTES], left[FIGURE_BYTES + 8], done[FIGURE_BYTES];
    uint64_t now_ns = now_of(top->now);
    if (muster_live_job(top->now, runtime, index, &job, NULL) != MUSTER_OK)
        return;
    bool is_running = job.state == MUSTER_LIVE_RUNNING;
    if (!is_running && job.started_ns + job.elapsed_ns + OVER_NS < now_ns)
        return;
    rate_text(job.items_per_s, rate);
    count_text(job.delivered, done);
    snprintf(name, sizeof name, "   #%llu %s", (unsigned long long)job.number, job.name);
    snprintf(left, sizeof left, "%s", muster_live_state_name(job.state));
    if (is_running) {
        bool is_known = job.remaining_ns != UINT64_MAX;
        clock_text(is_known ? job.remaining_ns : job.elapsed_ns, left);
        strcat(left, is_known ? " left" : " so far");
    }
    double share = job.items == UINT64_MAX ? 0 : share_of(job.delivered, job.items);
    begin(pen);
    colour(pen, BOLD);
    cell(pen, 25, "%s", name);
    colour(pen, PLAIN);
    if (job.items == UINT64_MAX)
        cell(pen, -5, "-");
    else
        cell(pen, -5, "%.0f %%", share * 100);
    text(pen, " ");
    bar(pen, share, job.state == MUSTER_LIVE_FAILED ? RED : GREEN);
    cell(pen, -6, "%llu", (unsigned long long)job.running);
    cell(pen, -12, "%s", rate);
    cell(pen, -12, "%s", done);
    colour(pen, job.retries > 0 ? YELLOW : PLAIN);
    cell(pen, -8, "%llu", (unsigned long long)job.retries);
    colour(pen, job.state == MUSTER_LIVE_FAILED ? RED : PLAIN);
    text(pen, "  ");
    text(pen, left);
    colour(pen, PLAIN);
    for (size_t i = 0; muster_live_lane(top->now, runtime, index, i, &lane, NULL) == MUSTER_OK; i++)
        show_lane(pen, &lane, job.delivered > 0 ? job.delivered : 1);
    show_loss(pen, &job);
}

static void show_runtime(struct pen *pen, const struct top *top, size_t index)
{
    static struct row rows[DEVICES_MAX];
    struct muster_live_runtime runtime = { .size = sizeof runtime }, before;
    char up[FIGURE_BYTES], tasks[FIGURE_BYTES] = "-";
    size_t at;
    if (muster_live_runtime(top->now, index, &runtime, NULL) != MUSTER_OK)
        return;
    uint64_t now_ns = now_of(top->now);
    uint64_t running = runtime.jobs_started - runtime.jobs_done - runtime.jobs_failed;
    clock_text(now_ns > runtime.opened_ns ? now_ns - runtime.opened_ns : 0, up);
    if (find_before(top, &runtime, &at, &before) && before.tasks_ended < runtime.tasks_ended)
        figure_rate(runtime.tasks_ended - before.tasks_ended, now_ns - now_of(top->before), tasks);
    begin(pen);
    begin(pen);
    colour(pen, BOLD);
    cell(pen, 13, " %s", runtime.program);
    colour(pen, PLAIN);
    char line[200];
    snprintf(line, sizeof line,
             "pid %llu  up %s  jobs: %llu running, %llu done, %llu failed  tasks: %llu open, %s",
             (unsigned long long)runtime.pid, up, (unsigned long long)running,
             (unsigned long long)runtime.jobs_done, (unsigned long long)runtime.jobs_failed,
             (unsigned long long)(runtime.tasks_submitted - runtime.tasks_ended), tasks);
    text(pen, line);
    if (runtime.devices_lost > 0) {
        colour(pen, RED);
        snprintf(line, sizeof line, "  devices lost: %llu",
                 (unsigned long long)runtime.devices_lost);
        text(pen, line);
        colour(pen, PLAIN);
    }
    begin(pen);
    colour(pen, DIM);
    text(pen,
         "   DEVICE    HEALTH        BUSY                   QUEUE        RATE        DONE  FAILED"
         "  MEMORY");
    colour(pen, PLAIN);
    size_t count = gather(top, index, &runtime, rows);
    for (size_t i = 0; i < count; i++)
        show_device(pen, &rows[i]);
    if (runtime.jobs == 0)
        return;
    begin(pen);
    colour(pen, DIM);
    text(pen,
         "   JOB, LANES            SHARE                 RUNNING        RATE       ITEMS RETRIES");
    colour(pen, PLAIN);
    for (size_t i = 0; i < runtime.jobs; i++)
        show_job(pen, top, index, i);
}

/* Runtimes in the order of what they are sorted by, the largest first. */
struct place {
    size_t index;
    double key;
};

static double runtime_key(const struct top *top, size_t index, struct row *rows)
{
    struct muster_live_runtime runtime = { .size = sizeof runtime };
    double key = 0;
    if (top->sort == TOP_BY_ID || muster_live_runtime(top->now, index, &runtime, NULL) != MUSTER_OK)
        return -(double)index;
    size_t count = gather(top, index, &runtime, rows);
    for (size_t i = 0; i < count; i++)
        key += key_of(&rows[i], top->sort);
    return key;
}

static int compare(const void *a, const void *b)
{
    const struct place *one = a, *other = b;
    if (one->key != other->key)
        return one->key > other->key ? -1 : 1;
    return (one->index > other->index) - (one->index < other->index);
}

static void show_head(struct pen *pen, const struct top *top, const struct muster_live_info *info)
{
    char line[160];
    begin(pen);
    colour(pen, BOLD);
    text(pen, "muster top");
    colour(pen, PLAIN);
    snprintf(line, sizeof line, "   %llu runtime%s", (unsigned long long)info->runtimes,
             info->runtimes == 1 ? "" : "s");
    text(pen, line);
    snprintf(line, sizeof line, "   sorted by %s%s", top_sort_names[top->sort],
             top->has_keys ? "   keys: s sorts, q quits" : "");
    colour(pen, DIM);
    text(pen, line);
    colour(pen, PLAIN);
    if (info->refused == 0)
        return;
    begin(pen);
    colour(pen, YELLOW);
    snprintf(line, sizeof line, "%llu not readable: ", (unsigned long long)info->refused);
    text(pen, line);
    text(pen, info->why);
    colour(pen, PLAIN);
}

void top_format(const struct top *top, const struct progress_style *style,
                struct progress_frame *frame)
{
    static struct row rows[DEVICES_MAX];
    struct muster_live_info info = { .size = sizeof info };
    struct pen pen = { .style = style, .frame = frame };
    pen.columns_max = style->columns > 1 ? style->columns - 1 : 1;
    if (pen.columns_max > PROGRESS_COLUMNS_MAX)
        pen.columns_max = PROGRESS_COLUMNS_MAX;
    frame->line_count = 0;
    muster_live_info(top->now, &info, NULL);
    show_head(&pen, top, &info);
    struct place *places = calloc(info.runtimes > 0 ? info.runtimes : 1, sizeof *places);
    for (size_t i = 0; places && i < info.runtimes; i++)
        places[i] = (struct place){ i, runtime_key(top, i, rows) };
    if (places && info.runtimes > 1)
        qsort(places, info.runtimes, sizeof *places, compare);
    for (size_t i = 0; i < info.runtimes; i++)
        show_runtime(&pen, top, places ? places[i].index : i);
    free(places);
    if (info.runtimes == 0) {
        begin(&pen);
        text(&pen, "no process of this user has a runtime open");
    }
    if (pen.unseen == 0)
        return;
    char line[64];
    pen.line = &frame->lines[frame->line_count++];
    *pen.line = (struct progress_line){ .bytes = 0 };
    snprintf(line, sizeof line, "%zu more line%s", pen.unseen, pen.unseen == 1 ? "" : "s");
    text(&pen, line);
}
