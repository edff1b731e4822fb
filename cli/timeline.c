#include "timeline.h"

#include "figures.h"
#include "utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The picture, in pixels. */
#define WIDTH 1200
#define PLOT_LEFT 216
#define PLOT_WIDTH 780
#define PLOT_RIGHT (PLOT_LEFT + PLOT_WIDTH)
#define PLOT_TOP 118
#define BUSY_RIGHT 1062
#define SHARE_RIGHT 1126
#define HEALTH_LEFT 1142
#define ID_LEFT 24
#define ID_CHARACTERS_LEAST 6
/* What a character takes, at most nearly always: the reader's fonts are not known. */
#define CHARACTER_WIDTH 7.2

/* With many rows columns are wider, so that the file stays below a megabyte. */
#define ROWS_WITH_NARROW_COLUMNS 24u
/* Units at least this wide are drawn apart from their neighbours. */
#define GAP_FROM_WIDTH 3.0f
#define GAP 0.6f
/* Heights of columns come in steps, so that neighbours of nearly the same height are one shape. */
#define STEPS_PER_PIXEL 2

#define TICKS_MAX 9
#define FOOT_PITCH 17u
#define LEGEND_CHARACTERS_MAX 24
/* Waiting is a line, work is a bar. */
#define STALL_HEIGHT 5u

static const struct class_style {
    const char *name, *colour, *words;
} styles[TIMELINE_CLASSES] = {
    [TIMELINE_DONE] = { "done", "#4583c4", "done" },
    [TIMELINE_AGAIN] = { "again", "#2a9d8f", "done in a second run" },
    [TIMELINE_LATE] = { "late", "#e9b44c", "late: dropped" },
    [TIMELINE_FAILED] = { "failed", "#d1495b", "failed" },
    [TIMELINE_LOST] = { "lost", "#3d3d47", "lost: never came back" },
    [TIMELINE_STALL] = { "stall", "#b4b9c4", "waits for another stage" },
    /* Stages have names of their own. */
    [TIMELINE_STAGE + 0] = { "s0", "#7a6fc2", NULL },
    [TIMELINE_STAGE + 1] = { "s1", "#3f9a6b", NULL },
    [TIMELINE_STAGE + 2] = { "s2", "#d98a3d", NULL },
    [TIMELINE_STAGE + 3] = { "s3", "#c25b8f", NULL },
    [TIMELINE_STAGE + 4] = { "s4", "#4aa3b5", NULL },
    [TIMELINE_STAGE + 5] = { "s5", "#9a8b3c", NULL },
    [TIMELINE_STAGE + 6] = { "s6", "#8c6d5a", NULL },
    [TIMELINE_STAGE + 7] = { "s7", "#6b7280", NULL },
};
_Static_assert(TIMELINE_STAGES_MAX == 8, "every stage has a colour");

/* Rows that a device takes: its units, and each stream of it. */
static uint32_t rows_of(const struct timeline_run *run, size_t device)
{
    uint64_t streams = run->streams ? run->streams[device] : 0;
    return 1 + (uint32_t)__builtin_popcountll(streams);
}

/* How many devices there is room for. */
static uint32_t count_shown(const struct timeline_run *run)
{
    uint32_t shown = 0, rows = 0;
    while (shown < run->device_count && rows + rows_of(run, shown) <= TIMELINE_ROWS_MAX)
        rows += rows_of(run, shown++);
    return shown;
}

/* The devices that are shown are evenly picked; those with streams are few, and are the first. */
static void make_rows(struct timeline *timeline)
{
    const struct timeline_run *run = &timeline->run;
    uint32_t shown = timeline->devices_shown;
    for (uint32_t i = 0; i < shown; i++) {
        uint32_t device =
            shown > 1 && !run->streams ? (uint32_t)(i * (run->device_count - 1) / (shown - 1)) : i;
        timeline->rows[timeline->row_count++] =
            (struct timeline_row){ .device = device, .stream = TIMELINE_UNITS };
        for (uint32_t stream = 0; run->streams && stream < 64; stream++)
            if (run->streams[device] >> stream & 1)
                timeline->rows[timeline->row_count++] =
                    (struct timeline_row){ .device = device, .stream = stream };
    }
}

bool timeline_init(struct timeline *timeline, const struct timeline_run *run)
{
    *timeline = (struct timeline){ .run = *run, .devices_shown = count_shown(run) };
    make_rows(timeline);
    uint32_t rows = timeline->row_count;
    timeline->column_width = rows > ROWS_WITH_NARROW_COLUMNS ? 2 : 1;
    timeline->column_count = PLOT_WIDTH / timeline->column_width;
    timeline->scale_ns = run->makespan_ns > run->bound_ns ? run->makespan_ns : run->bound_ns;
    timeline->scale_ns = run->span_ns > timeline->scale_ns ? run->span_ns : timeline->scale_ns;
    if (timeline->scale_ns == 0)
        timeline->scale_ns = 1;
    size_t cells = (size_t)rows * timeline->column_count;
    timeline->bars = calloc(cells, sizeof *timeline->bars);
    timeline->thin_ns = calloc(cells, sizeof *timeline->thin_ns);
    if (!timeline->bars || !timeline->thin_ns) {
        timeline_deinit(timeline);
        return false;
    }
    for (uint32_t i = 0; i < rows; i++) {
        timeline->rows[i].bars = timeline->bars + (size_t)i * timeline->column_count;
        timeline->rows[i].thin_ns = timeline->thin_ns + (size_t)i * timeline->column_count;
    }
    return true;
}

void timeline_deinit(struct timeline *timeline)
{
    free(timeline->bars);
    free(timeline->thin_ns);
    timeline->bars = NULL;
    timeline->thin_ns = NULL;
}

/* Rows are in the order of devices, and within one of streams, units first. */
static bool is_before(const struct timeline_row *row, uint32_t device, uint32_t stream)
{
    /* TIMELINE_UNITS becomes 0, the first. */
    return row->device < device || (row->device == device && row->stream + 1 < stream + 1);
}

/* NULL if there is none. */
static struct timeline_row *row_of(struct timeline *timeline, uint32_t device, uint32_t stream)
{
    uint32_t low = 0, high = timeline->row_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (is_before(&timeline->rows[middle], device, stream))
            low = middle + 1;
        else
            high = middle;
    }
    struct timeline_row *row = &timeline->rows[low];
    return low < timeline->row_count && row->device == device && row->stream == stream ? row : NULL;
}

/* The number of a stage, which is known by its name. */
static uint32_t stage_of(struct timeline *timeline, const char *name)
{
    uint32_t i = 0;
    while (i < timeline->stage_count && strcmp(timeline->stages[i], name) != 0)
        i++;
    if (i == TIMELINE_STAGES_MAX) {
        snprintf(timeline->stages[--i], sizeof timeline->stages[i], "other stages");
    } else if (i == timeline->stage_count) {
        snprintf(timeline->stages[i], sizeof timeline->stages[i], "%s", name);
        timeline->stage_count++;
    }
    return i;
}

static enum timeline_class class_of(const struct muster_trace_event *span)
{
    switch (span->outcome) {
    case MUSTER_TRACE_DONE:
        return span->is_retry || span->is_copy ? TIMELINE_AGAIN : TIMELINE_DONE;
    case MUSTER_TRACE_LATE:
        return TIMELINE_LATE;
    case MUSTER_TRACE_FAILED:
        return TIMELINE_FAILED;
    case MUSTER_TRACE_LOST:
        break;
    }
    return TIMELINE_LOST;
}

static double x_of(const struct timeline *timeline, uint64_t ns)
{
    return (double)ns / (double)timeline->scale_ns * PLOT_WIDTH;
}

/* The moment at which a column begins. */
static uint64_t column_ns(const struct timeline *timeline, uint32_t column)
{
    double part = (double)column / timeline->column_count;
    return column < timeline->column_count ? (uint64_t)(part * (double)timeline->scale_ns)
                                           : UINT64_MAX;
}

static void add_thin(struct timeline *timeline, struct timeline_row *row, enum timeline_class class,
                     uint64_t begin_ns, uint64_t end_ns)
{
    uint32_t column = (uint32_t)(x_of(timeline, begin_ns) / timeline->column_width);
    if (column >= timeline->column_count)
        column = timeline->column_count - 1;
    while (begin_ns < end_ns) {
        uint64_t until_ns = column_ns(timeline, column + 1);
        until_ns = until_ns < end_ns ? until_ns : end_ns;
        /* Rounding may have found the column before; then nothing of the unit is in it. */
        if (until_ns > begin_ns) {
            row->thin_ns[column][class] += until_ns - begin_ns;
            begin_ns = until_ns;
        }
        column++;
    }
}

/* Cut off where the picture begins and ends. */
static uint64_t clipped(const struct timeline *timeline, uint64_t ns)
{
    uint64_t since_ns = ns > timeline->run.begin_ns ? ns - timeline->run.begin_ns : 0;
    return since_ns < timeline->scale_ns ? since_ns : timeline->scale_ns;
}

/* NULL: it is not drawn. */
static struct timeline_row *find_row(struct timeline *timeline,
                                     const struct muster_trace_event *span)
{
    switch (span->kind) {
    case MUSTER_TRACE_UNIT:
        return row_of(timeline, span->device, TIMELINE_UNITS);
    case MUSTER_TRACE_STAGE:
    case MUSTER_TRACE_STALL:
        return row_of(timeline, span->device, span->thread);
    default:
        return NULL;
    }
}

void timeline_add(struct timeline *timeline, const struct muster_trace_event *span)
{
    struct timeline_row *row = find_row(timeline, span);
    if (!row)
        return;
    /* With transfers units overlap on a device; each is shown from the end of the one before. */
    uint64_t begin_ns = clipped(timeline, span->begin_ns), end_ns = clipped(timeline, span->end_ns);
    begin_ns = begin_ns > row->end_ns ? begin_ns : row->end_ns;
    if (begin_ns >= end_ns)
        return;
    enum timeline_class class = span->kind == MUSTER_TRACE_STALL ? TIMELINE_STALL
                                : span->kind == MUSTER_TRACE_STAGE
                                    ? TIMELINE_STAGE + stage_of(timeline, span->name)
                                    : class_of(span);
    row->end_ns = end_ns;
    timeline->has_class[class] = true;
    double x = x_of(timeline, begin_ns), width = x_of(timeline, end_ns) - x;
    if (width >= timeline->column_width && row->bar_count < timeline->column_count) {
        row->bars[row->bar_count++] = (struct timeline_bar){ (float)x, (float)width, class };
        return;
    }
    timeline->has_thin = true;
    add_thin(timeline, row, class, begin_ns, end_ns);
}

/* Drawing. */

static void put(struct output *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct output *out, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    output_text(out, text);
}

/* Text that stands for itself in XML, at most this many characters of it. */
static void put_escaped(struct output *out, const char *text, size_t characters_max)
{
    bool is_cut = utf8_count(text) > characters_max;
    for (size_t i = is_cut ? 1 : 0; *text && i < characters_max; i++) {
        uint32_t character;
        size_t bytes = utf8_read(text, &character);
        if (character == '&')
            output_text(out, "&amp;");
        else if (character == '<')
            output_text(out, "&lt;");
        else if (character == '>')
            output_text(out, "&gt;");
        else if (utf8_is_control(character) || character == UTF8_REPLACEMENT ||
                 character == 0xFFFE || character == 0xFFFF)
            output_text(out, "?");
        else
            output_bytes(out, text, bytes);
        text += bytes;
    }
    if (is_cut)
        output_text(out, "\xE2\x80\xA6");
}

/* One decimal at most, none where it would be 0. */
static void put_number(struct output *out, double number)
{
    char text[32];
    int length = snprintf(text, sizeof text, "%.1f", number);
    if (length >= 2 && text[length - 1] == '0')
        text[length - 2] = '\0';
    output_text(out, text);
}

struct rows_layout {
    uint32_t pitch, height; /* of a row, and of what is drawn in it */
    uint32_t bottom;        /* of the plot */
};

static struct rows_layout layout_of(const struct timeline *timeline)
{
    struct rows_layout layout = { .pitch = 34, .height = 24 };
    if (timeline->row_count > 12)
        layout = (struct rows_layout){ .pitch = 22, .height = 16 };
    if (timeline->row_count > ROWS_WITH_NARROW_COLUMNS)
        layout = (struct rows_layout){ .pitch = 15, .height = 12 };
    layout.bottom = PLOT_TOP + timeline->row_count * layout.pitch;
    return layout;
}

static void draw_head(const struct timeline *timeline, const char *title, uint32_t height,
                      struct output *out)
{
    put(out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %u\" width=\"%d\" "
        "height=\"%u\" role=\"img\">\n<title>",
        WIDTH, (unsigned)height, WIDTH, (unsigned)height);
    put_escaped(out, title, SIZE_MAX);
    output_text(out, "</title>\n"
                     "<style>\n"
                     "text{font-family:system-ui,'Segoe UI','DejaVu Sans',Helvetica,Arial,"
                     "sans-serif;font-size:12px;fill:#4b4f58}\n"
                     ".title{font-size:19px;font-weight:600;fill:#1d1f24}\n"
                     ".name{fill:#1d1f24}.id{fill:#868b95}\n"
                     ".small{font-size:11px}.end{text-anchor:end}.mid{text-anchor:middle}\n"
                     ".bad{fill:#b3283c;font-weight:600}.mark{fill:#8b2fc9;font-weight:600}\n");
    for (int i = 0; i < TIMELINE_CLASSES; i++)
        if (timeline->has_class[i])
            put(out, "path.%s{stroke:%s}.%s{fill:%s}\n", styles[i].name, styles[i].colour,
                styles[i].name, styles[i].colour);
    output_text(out, "path.bar{fill:none}path.thin{stroke:none}\n</style>\n");
    put(out, "<rect width=\"%d\" height=\"%u\" fill=\"#fff\"/>\n", WIDTH, (unsigned)height);
}

static void draw_title(const struct timeline *timeline, const char *title, struct output *out)
{
    const struct timeline_run *run = &timeline->run;
    char makespan[FIGURE_BYTES], bound[FIGURE_BYTES], items[FIGURE_BYTES], units[FIGURE_BYTES],
        missing[FIGURE_BYTES];
    figure_time(run->makespan_ns, makespan);
    figure_time(run->bound_ns, bound);
    figure_count(run->items, items);
    figure_count(run->units, units);
    figure_count(run->missing, missing);
    output_text(out, "<text class=\"title\" x=\"24\" y=\"38\">");
    put_escaped(out, title, 80);
    output_text(out, "</text>\n<text x=\"24\" y=\"61\">");
    if (run->status != MUSTER_OK && run->missing > 0)
        put(out, "<tspan class=\"bad\">failed: %s items not delivered</tspan>  \xC2\xB7  ",
            missing);
    else if (run->status != MUSTER_OK)
        output_text(out, "<tspan class=\"bad\">failed</tspan>  \xC2\xB7  ");
    put(out, "makespan <tspan class=\"name\">%s</tspan>", makespan);
    if (run->bound_ns > 0)
        put(out,
            "  \xC2\xB7  bound <tspan class=\"name\">%s</tspan>  \xC2\xB7  ratio "
            "<tspan class=\"name\">%.4f</tspan>",
            bound, (double)run->makespan_ns / (double)run->bound_ns);
    put(out, "  \xC2\xB7  %s%s in %s units", run->amount ? run->amount : items,
        run->amount ? "" : " items", units);
    if (run->remark)
        put(out, "  \xC2\xB7  %s", run->remark);
    output_text(out, "</text>\n");
}

static const char *words_of(const struct timeline *timeline, int class)
{
    return class >= TIMELINE_STAGE ? timeline->stages[class - TIMELINE_STAGE] : styles[class].words;
}

/* Returns where the next one goes; one for which there is no room is left out. */
static double draw_legend_entry(const struct timeline *timeline, int class, double x,
                                struct output *out)
{
    const char *words = words_of(timeline, class);
    size_t characters = utf8_count(words);
    characters = characters < LEGEND_CHARACTERS_MAX ? characters : LEGEND_CHARACTERS_MAX;
    double right = x + 18 + 6.6 * (double)characters;
    if (!timeline->has_class[class] || right > WIDTH)
        return x;
    put(out, "<rect class=\"%s\" x=\"%.0f\" y=\"78\" width=\"12\" height=\"12\" rx=\"2\"/>",
        styles[class].name, x);
    put(out, "<text x=\"%.0f\" y=\"88.5\">", x + 18);
    put_escaped(out, words, LEGEND_CHARACTERS_MAX);
    output_text(out, "</text>\n");
    return right + 24;
}

static void draw_legend(const struct timeline *timeline, struct output *out)
{
    double x = PLOT_LEFT;
    for (int class = 0; class < TIMELINE_CLASSES; class ++)
        if (class != TIMELINE_STALL)
            x = draw_legend_entry(timeline, class, x, out);
    draw_legend_entry(timeline, TIMELINE_STALL, x, out);
    put(out, "<text class=\"small end\" x=\"%d\" y=\"%d\">busy</text>", BUSY_RIGHT, PLOT_TOP - 10);
    put(out, "<text class=\"small end\" x=\"%d\" y=\"%d\">items</text>\n", SHARE_RIGHT,
        PLOT_TOP - 10);
}

/* 1, 2 or 5 times a power of ten, so that at most TICKS_MAX fit. */
static uint64_t tick_ns(uint64_t scale_ns)
{
    static const unsigned factors[] = { 1, 2, 5 };
    for (uint64_t power = 1; power <= UINT64_MAX / 50; power *= 10)
        for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
            if (scale_ns / (power * factors[i]) < TICKS_MAX)
                return power * factors[i];
    return UINT64_MAX;
}

/* "15 ms": the tick, in the unit of the whole. */
static void put_tick(struct output *out, uint64_t ns, uint64_t scale_ns)
{
    static const struct {
        uint64_t ns;
        const char *name;
    } units[] = { { 1000000000, "s" }, { 1000000, "ms" }, { 1000, "us" }, { 1, "ns" } };
    size_t unit = 0;
    while (units[unit].ns > scale_ns && units[unit].ns > 1)
        unit++;
    put(out, "%.10g %s", (double)ns / (double)units[unit].ns, units[unit].name);
}

static void draw_axis(const struct timeline *timeline, const struct rows_layout *layout,
                      struct output *out)
{
    uint64_t step_ns = tick_ns(timeline->scale_ns), ns = 0;
    do {
        double x = PLOT_LEFT + x_of(timeline, ns);
        put(out, "<path d=\"M%.1f %dV%u\" stroke=\"#d4d7dd\" fill=\"none\"/>", x, PLOT_TOP,
            (unsigned)layout->bottom + 5);
        put(out, "<text class=\"small mid\" x=\"%.1f\" y=\"%u\">", x,
            (unsigned)layout->bottom + 20);
        put_tick(out, ns, timeline->scale_ns);
        output_text(out, "</text>\n");
    } while (step_ns <= timeline->scale_ns - ns && (ns += step_ns) > 0);
}

static void draw_bars(const struct timeline_row *row, enum timeline_class class, uint32_t y,
                      uint32_t height, struct output *out)
{
    bool has_any = false;
    for (uint32_t i = 0; i < row->bar_count; i++) {
        const struct timeline_bar *bar = &row->bars[i];
        if (bar->class != class)
            continue;
        if (!has_any)
            put(out, "<path class=\"bar %s\" stroke-width=\"%u\" d=\"", styles[class].name,
                class == TIMELINE_STALL ? STALL_HEIGHT : (unsigned)height);
        has_any = true;
        output_text(out, "M");
        put_number(out, PLOT_LEFT + (double)bar->x);
        output_text(out, " ");
        put_number(out, y + height / 2.0);
        output_text(out, "h");
        put_number(out, (double)(bar->width >= GAP_FROM_WIDTH ? bar->width - GAP : bar->width));
    }
    if (has_any)
        output_text(out, "\"/>\n");
}

/* How high the classes up to this one reach in the column together, in steps. */
static uint32_t steps_of(const struct timeline *timeline, const struct timeline_row *row,
                         uint32_t column, int class, uint32_t height)
{
    uint64_t end_ns = column_ns(timeline, column + 1);
    end_ns = end_ns < timeline->scale_ns ? end_ns : timeline->scale_ns;
    uint64_t whole_ns = end_ns - column_ns(timeline, column), busy_ns = 0;
    for (int i = 0; i <= class; i++)
        busy_ns += row->thin_ns[column][i];
    if (busy_ns == 0)
        return 0;
    double part = whole_ns > busy_ns ? (double)busy_ns / (double)whole_ns : 1;
    uint32_t steps = (uint32_t)(part * height * STEPS_PER_PIXEL + 0.5);
    return steps > 0 ? steps : 1;
}

/*
 * Columns as one outline that goes up and down with their heights. The classes lie on each other:
 * the highest is drawn first, down to the baseline, and covered by the next.
 */
static void draw_thin(const struct timeline *timeline, const struct timeline_row *row, int class,
                      uint32_t y, uint32_t height, struct output *out)
{
    uint32_t now = 0;
    uint32_t run_begin = 0;
    bool has_any = false, has_class = false;
    for (uint32_t column = 0; column < timeline->column_count && !has_class; column++)
        has_class = row->thin_ns[column][class] > 0;
    if (!has_class)
        return;
    for (uint32_t column = 0; column <= timeline->column_count; column++) {
        uint32_t next =
            column < timeline->column_count ? steps_of(timeline, row, column, class, height) : 0;
        if (next == now)
            continue;
        if (!has_any)
            put(out, "<path class=\"thin %s\" d=\"M%u %u", styles[class].name,
                (unsigned)(PLOT_LEFT + column * timeline->column_width), (unsigned)(y + height));
        else
            put(out, "h%u", (unsigned)((column - run_begin) * timeline->column_width));
        has_any = true;
        run_begin = column;
        output_text(out, "v");
        put_number(out, ((double)now - (double)next) / STEPS_PER_PIXEL);
        now = next;
    }
    if (has_any)
        output_text(out, "z\"/>\n");
}

/* Where names begin: right of the longest id, which is the last. */
static double name_left(const struct timeline *timeline)
{
    const struct timeline_row *last = &timeline->rows[timeline->row_count - 1];
    size_t characters = strlen(timeline->run.devices[last->device]->id);
    if (characters < ID_CHARACTERS_LEAST)
        characters = ID_CHARACTERS_LEAST;
    return ID_LEFT + (double)characters * CHARACTER_WIDTH + 10;
}

/* Of a row that is a stream's. */
static void draw_stream_label(const struct timeline *timeline, const struct timeline_row *row,
                              double baseline, struct output *out)
{
    if (row->stream == 0)
        put(out, "<text x=\"%.0f\" y=\"%.1f\">host</text>\n", name_left(timeline), baseline);
    else
        put(out, "<text x=\"%.0f\" y=\"%.1f\">stream %u</text>\n", name_left(timeline), baseline,
            row->stream);
}

static void draw_labels(const struct timeline *timeline, const struct timeline_row *row,
                        double baseline, struct output *out)
{
    const struct timeline_run *run = &timeline->run;
    const struct muster_simulation_device *device = run->devices[row->device];
    char busy[FIGURE_BYTES], share[FIGURE_BYTES];
    figure_share(device->busy_ns, run->makespan_ns, busy);
    figure_share(device->items, run->items, share);
    double left = name_left(timeline);
    put(out, "<text class=\"id\" x=\"%d\" y=\"%.1f\">%s</text>", ID_LEFT, baseline, device->id);
    put(out, "<text class=\"name\" x=\"%.0f\" y=\"%.1f\">", left, baseline);
    put_escaped(out, device->name, (size_t)((PLOT_LEFT - 4 - left) / CHARACTER_WIDTH));
    output_text(out, "</text>");
    if (device->refused) {
        put(out, "<text x=\"%d\" y=\"%.1f\">refused by %s</text>\n", PLOT_LEFT + 8, baseline,
            device->refused);
        return;
    }
    put(out, "<text class=\"end\" x=\"%d\" y=\"%.1f\">%s</text>", BUSY_RIGHT, baseline, busy);
    put(out, "<text class=\"end\" x=\"%d\" y=\"%.1f\">%s</text>", SHARE_RIGHT, baseline, share);
    if (device->health[0] != 'o')
        put(out, "<text class=\"bad\" x=\"%d\" y=\"%.1f\">%s</text>", HEALTH_LEFT, baseline,
            device->health);
    output_text(out, "\n");
}

static void draw_rows(const struct timeline *timeline, const struct rows_layout *layout,
                      struct output *out)
{
    for (uint32_t i = 0; i < timeline->row_count && !output_failed(out); i++) {
        const struct timeline_row *row = &timeline->rows[i];
        uint32_t y = PLOT_TOP + i * layout->pitch + (layout->pitch - layout->height) / 2;
        if (row->stream == TIMELINE_UNITS)
            draw_labels(timeline, row, y + layout->height / 2.0 + 4, out);
        else
            draw_stream_label(timeline, row, y + layout->height / 2.0 + 4, out);
        for (int class = TIMELINE_CLASSES - 1; class >= 0; class --)
            draw_thin(timeline, row, class, y, layout->height, out);
        for (int class = 0; class < TIMELINE_CLASSES; class ++)
            draw_bars(row, (enum timeline_class) class, y, layout->height, out);
    }
}

static void draw_background(const struct timeline *timeline, const struct rows_layout *layout,
                            struct output *out)
{
    for (uint32_t i = 0; i < timeline->row_count; i++)
        put(out, "<rect x=\"%d\" y=\"%u\" width=\"%d\" height=\"%u\" fill=\"#f1f2f5\"/>\n",
            PLOT_LEFT, PLOT_TOP + i * layout->pitch + (layout->pitch - layout->height) / 2,
            PLOT_WIDTH, (unsigned)layout->height);
}

static void draw_bound(const struct timeline *timeline, const struct rows_layout *layout,
                       struct output *out)
{
    if (timeline->run.bound_ns == 0)
        return;
    double x = PLOT_LEFT + x_of(timeline, timeline->run.bound_ns);
    put(out,
        "<path d=\"M%.1f %dV%u\" stroke=\"#8b2fc9\" stroke-width=\"1.5\" "
        "stroke-dasharray=\"5 3\" fill=\"none\"/>",
        x, PLOT_TOP - 6, (unsigned)layout->bottom + 2);
    put(out, "<text class=\"small mark end\" x=\"%.1f\" y=\"%d\">bound</text>\n", x + 2,
        PLOT_TOP - 10);
}

/* Of devices that are too many: which are shown, and how all of them did. */
static void draw_others(const struct timeline *timeline, uint32_t y, struct output *out)
{
    const struct timeline_run *run = &timeline->run;
    char shown[FIGURE_BYTES], all[FIGURE_BYTES], others[FIGURE_BYTES], share[FIGURE_BYTES];
    size_t unwell = 0, used = 0;
    double busy_ns = 0;
    for (size_t i = 0; i < run->device_count; i++) {
        used += run->devices[i]->refused == NULL;
        unwell += run->devices[i]->health[0] != 'o';
        busy_ns += (double)run->devices[i]->busy_ns;
    }
    figure_count(timeline->devices_shown, shown);
    figure_count(run->device_count, all);
    figure_share((uint64_t)(busy_ns / (double)(used > 0 ? used : 1)), run->makespan_ns, share);
    figure_count(unwell, others);
    put(out,
        "<text class=\"small\" x=\"24\" y=\"%u\">%s of %s devices are shown, evenly picked. All of "
        "them together: %s busy, %s lost or hung.</text>\n",
        (unsigned)y, shown, all, share, others);
}

/* What is not drawn, in words. */
static void draw_foot(const struct timeline *timeline, uint32_t y, struct output *out)
{
    const struct timeline_run *run = &timeline->run;
    if (timeline->has_thin) {
        put(out,
            "<text class=\"small\" x=\"24\" y=\"%u\">Where units are thinner than %u px, the "
            "height "
            "shows how much of the time was spent on them.</text>\n",
            (unsigned)y, (unsigned)timeline->column_width);
        y += FOOT_PITCH;
    }
    if (run->dropped > 0) {
        char dropped[FIGURE_BYTES];
        figure_count(run->dropped, dropped);
        put(out,
            "<text class=\"small bad\" x=\"24\" y=\"%u\">%s later events did not fit into the "
            "trace: the picture ends before the run does.</text>\n",
            (unsigned)y, dropped);
        y += FOOT_PITCH;
    }
    if (run->device_count > timeline->devices_shown)
        draw_others(timeline, y, out);
}

void timeline_draw(const struct timeline *timeline, const char *title, struct output *out)
{
    struct rows_layout layout = layout_of(timeline);
    bool has_more = timeline->run.device_count > timeline->devices_shown;
    uint32_t foot_lines = (uint32_t)timeline->has_thin + (timeline->run.dropped > 0) + has_more;
    uint32_t height = layout.bottom + 40 + foot_lines * FOOT_PITCH;
    draw_head(timeline, title, height, out);
    draw_title(timeline, title, out);
    draw_legend(timeline, out);
    draw_background(timeline, &layout, out);
    draw_axis(timeline, &layout, out);
    draw_rows(timeline, &layout, out);
    draw_bound(timeline, &layout, out);
    draw_foot(timeline, layout.bottom + 44, out);
    output_text(out, "</svg>\n");
}
