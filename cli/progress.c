#include "progress.h"

#include "bytes.h"
#include "figures.h"
#include "utf8.h"

#include <stdio.h>
#include <string.h>

/* Below these the display is one line. */
#define COLUMNS_FOR_A_BLOCK 70u
#define ROWS_FOR_A_BLOCK 5u
/* Of the terminal; the line below the block is the cursor's, and one is left of what was before. */
#define ROWS_BESIDE_THE_BLOCK 2u

/* Widths of fields, so that nothing moves while figures change. */
#define PERCENT_COLUMNS 8u
#define AMOUNT_COLUMNS 10u
#define RATE_COLUMNS 11u
#define LEFT_COLUMNS 12u
/* "180.3 MiB of 999.9 MiB" */
#define DONE_COLUMNS (2 * AMOUNT_COLUMNS + 3)
#define BAR_COLUMNS_MAX 40u
#define GAP 2u

#define LONGEST_SHOWN_S (99u * 3600u + 3599u)

enum colour { PLAIN, BOLD, DIM, BLUE, GREEN, YELLOW, RED };

static const char *const colours[] = {
    [PLAIN] = "",         [BOLD] = "\033[1m",    [DIM] = "\033[2m",  [BLUE] = "\033[34m",
    [GREEN] = "\033[32m", [YELLOW] = "\033[33m", [RED] = "\033[31m",
};

/* A line that is being made. */
struct pen {
    const struct progress_style *style;
    struct progress_line *line;
    unsigned columns_max;
};

static void put_raw(struct pen *pen, const char *text, size_t bytes)
{
    if (bytes > sizeof pen->line->text - pen->line->bytes)
        return;
    memcpy(pen->line->text + pen->line->bytes, text, bytes);
    pen->line->bytes += bytes;
}

static void put_colour(struct pen *pen, enum colour colour)
{
    if (pen->style->has_colour && colour != PLAIN)
        put_raw(pen, colours[colour], strlen(colours[colour]));
}

static void end_colour(struct pen *pen, enum colour colour)
{
    if (pen->style->has_colour && colour != PLAIN)
        put_raw(pen, "\033[0m", 4);
}

/* One character; what is not ASCII is as wide as one column only where we chose it. */
static void put_character(struct pen *pen, const char *text, size_t bytes)
{
    if (pen->line->columns >= pen->columns_max)
        return;
    put_raw(pen, text, bytes);
    pen->line->columns++;
}

static void put_spaces(struct pen *pen, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        put_character(pen, " ", 1);
}

/* Titles and ids come from files and drivers: nothing of them may steer the terminal. */
static void put_text(struct pen *pen, const char *text, enum colour colour)
{
    if (!*text)
        return;
    put_colour(pen, colour);
    while (*text) {
        uint32_t character;
        size_t bytes = utf8_read(text, &character);
        bool is_plain = character >= 0x20 && character < 0x7F;
        put_character(pen, is_plain ? text : "?", 1);
        text += bytes;
    }
    end_colour(pen, colour);
}

static void put_right(struct pen *pen, const char *text, unsigned columns, enum colour colour)
{
    unsigned length = (unsigned)utf8_count(text);
    put_spaces(pen, length < columns ? columns - length : 0);
    put_text(pen, text, colour);
}

/* A part of a bar, to half a column where there is a character for that. */
static void put_bar(struct pen *pen, double part, unsigned columns, enum colour colour,
                    bool has_track)
{
    bool is_unicode = pen->style->has_unicode;
    double exact = part < 0 ? 0 : part > 1 ? columns : part * columns;
    unsigned halves = (unsigned)(exact * 2 + 0.5);
    unsigned filled = is_unicode ? halves / 2 : (unsigned)(exact + 0.5);
    bool has_half = is_unicode && halves % 2 == 1;
    put_colour(pen, colour);
    for (unsigned i = 0; i < filled; i++)
        put_character(pen, is_unicode ? "\xE2\x94\x81" : "#", is_unicode ? 3 : 1);
    if (has_half)
        put_character(pen, "\xE2\x95\xB8", 3);
    end_colour(pen, colour);
    put_colour(pen, DIM);
    for (unsigned i = filled + has_half; i < columns; i++) {
        if (has_track)
            put_character(pen, is_unicode ? "\xE2\x94\x80" : ".", is_unicode ? 3 : 1);
        else
            put_character(pen, " ", 1);
    }
    end_colour(pen, DIM);
}

/* Figures. */

static void format_amount(const struct progress *progress, uint64_t amount, char text[FIGURE_BYTES])
{
    if (progress->in_bytes)
        bytes_format(amount, text, FIGURE_BYTES);
    else
        figure_count(amount, text);
}

static void format_rate(const struct progress *progress, double per_s, char text[FIGURE_BYTES])
{
    if (!(per_s > 0)) {
        snprintf(text, FIGURE_BYTES, "-");
    } else if (progress->in_bytes) {
        bytes_format(per_s < 1e19 ? (uint64_t)per_s : UINT64_MAX, text, FIGURE_BYTES - 2);
        strcat(text, "/s");
    } else {
        figure_rate(per_s < 1e19 ? (uint64_t)per_s : UINT64_MAX, 1000000000, text);
    }
}

/* "0:07", "1:02:03"; what has begun counts, so that no time is left only when none is. */
static void format_clock(double seconds, char text[FIGURE_BYTES])
{
    unsigned s = seconds < LONGEST_SHOWN_S ? (unsigned)(seconds + 0.999) : LONGEST_SHOWN_S;
    if (s >= 3600)
        snprintf(text, FIGURE_BYTES, "%u:%02u:%02u", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, FIGURE_BYTES, "%u:%02u", s / 60, s % 60);
}

static bool is_total_known(const struct progress *progress)
{
    return progress->total != PROGRESS_UNKNOWN;
}

static double part_done(const struct progress *progress)
{
    if (progress->done >= progress->total)
        return 1;
    return (double)progress->done / (double)progress->total;
}

/* A percentage that is 100 only at the end; without a total there is none. */
static void format_percent(const struct progress *progress, char text[FIGURE_BYTES])
{
    double percent = 100 * part_done(progress);
    if (!is_total_known(progress))
        snprintf(text, FIGURE_BYTES, " ");
    else
        snprintf(text, FIGURE_BYTES, "%.1f %%",
                 percent > 99.9 && progress->done < progress->total ? 99.9 : percent);
}

/* The time that is left, or that it took so far where nobody knows that. */
static void format_left(const struct progress *progress, char text[FIGURE_BYTES])
{
    char clock[FIGURE_BYTES];
    if (is_total_known(progress) && progress->done >= progress->total) {
        format_clock((double)progress->elapsed_ns / 1e9, clock);
        snprintf(text, FIGURE_BYTES, "in %.40s", clock);
    } else if (is_total_known(progress) && progress->per_s > 0) {
        format_clock((double)(progress->total - progress->done) / progress->per_s, clock);
        snprintf(text, FIGURE_BYTES, "%.40s left", clock);
    } else {
        format_clock((double)progress->elapsed_ns / 1e9, clock);
        snprintf(text, FIGURE_BYTES, "%.40s so far", clock);
    }
}

static void format_done(const struct progress *progress, char text[2 * FIGURE_BYTES])
{
    char done[FIGURE_BYTES], total[FIGURE_BYTES];
    format_amount(progress, progress->done, done);
    if (is_total_known(progress)) {
        format_amount(progress, progress->total, total);
        snprintf(text, 2 * FIGURE_BYTES, "%.40s of %.40s", done, total);
    } else {
        snprintf(text, 2 * FIGURE_BYTES, "%.40s", done);
    }
}

/* Lines. */

static struct pen begin_line(struct progress_frame *frame, const struct progress_style *style)
{
    struct progress_line *line = &frame->lines[frame->line_count++];
    /* Short of the last column: a terminal may wrap there. */
    unsigned columns = style->columns > 1 ? style->columns - 1 : 1;
    line->bytes = 0;
    line->columns = 0;
    return (struct pen){ style, line,
                         columns < PROGRESS_COLUMNS_MAX ? columns : PROGRESS_COLUMNS_MAX };
}

/* Adds a field if all of it fits. */
static void put_field(struct pen *pen, const char *text)
{
    unsigned gap = pen->line->columns > 0 ? GAP : 0;
    if (pen->line->columns + gap + utf8_count(text) > pen->columns_max)
        return;
    put_spaces(pen, gap);
    put_text(pen, text, PLAIN);
}

static uint64_t sum_of(const struct progress *progress)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < progress->device_count; i++)
        sum += progress->devices[i].done;
    return sum;
}

/* All in one line, what matters most first. */
static void format_one_line(const struct progress *progress, const struct progress_style *style,
                            struct progress_frame *frame)
{
    char text[2 * FIGURE_BYTES], share[FIGURE_BYTES];
    uint64_t sum = sum_of(progress);
    struct pen pen = begin_line(frame, style);
    if (is_total_known(progress)) {
        format_percent(progress, text);
        put_right(&pen, text, PERCENT_COLUMNS - 1, PLAIN);
    } else {
        format_amount(progress, progress->done, text);
        put_right(&pen, text, AMOUNT_COLUMNS, PLAIN);
    }
    format_rate(progress, progress->per_s, text);
    put_field(&pen, text);
    format_left(progress, text);
    put_field(&pen, text);
    for (size_t i = 0; i < progress->device_count; i++) {
        figure_share(progress->devices[i].done, sum, share);
        snprintf(text, sizeof text, "%s %.40s", progress->devices[i].id, share);
        put_field(&pen, text);
    }
    if (progress->note)
        put_field(&pen, progress->note);
}

struct layout {
    unsigned first; /* columns of percentage and ids */
    unsigned bar;
};

static struct layout layout_of(const struct progress *progress, const struct pen *pen)
{
    struct layout layout = { .first = PERCENT_COLUMNS };
    for (size_t i = 0; i < progress->device_count; i++) {
        unsigned length = (unsigned)strlen(progress->devices[i].id) + 1;
        layout.first = length > layout.first ? length : layout.first;
    }
    unsigned others =
        layout.first + GAP + GAP + DONE_COLUMNS + GAP + RATE_COLUMNS + GAP + LEFT_COLUMNS;
    layout.bar = pen->columns_max > others ? pen->columns_max - others : 0;
    layout.bar = layout.bar < BAR_COLUMNS_MAX ? layout.bar : BAR_COLUMNS_MAX;
    return layout;
}

static void format_whole(const struct progress *progress, struct pen *pen,
                         const struct layout *layout)
{
    char text[2 * FIGURE_BYTES];
    format_percent(progress, text);
    put_right(pen, text, layout->first, BOLD);
    put_spaces(pen, GAP);
    put_bar(pen, is_total_known(progress) ? part_done(progress) : 0, layout->bar, GREEN, true);
    put_spaces(pen, GAP);
    format_done(progress, text);
    put_right(pen, text, DONE_COLUMNS, PLAIN);
    put_spaces(pen, GAP);
    format_rate(progress, progress->per_s, text);
    put_right(pen, text, RATE_COLUMNS, BOLD);
    put_spaces(pen, GAP);
    format_left(progress, text);
    put_right(pen, text, LEFT_COLUMNS, PLAIN);
}

/* What else there is to say of a device. */
static enum colour format_remark(const struct progress_device *device, char text[FIGURE_BYTES])
{
    text[0] = '\0';
    if (device->health != MUSTER_HEALTH_OK) {
        snprintf(text, FIGURE_BYTES, "%s", muster_health_name(device->health));
        return RED;
    }
    if (device->retries > 0)
        snprintf(text, FIGURE_BYTES, "%llu %s", (unsigned long long)device->retries,
                 device->retries == 1 ? "retry" : "retries");
    return YELLOW;
}

static void format_device(const struct progress *progress, const struct progress_device *device,
                          uint64_t sum, struct pen *pen, const struct layout *layout)
{
    char text[FIGURE_BYTES];
    bool is_well = device->health == MUSTER_HEALTH_OK;
    put_right(pen, device->id, layout->first, PLAIN);
    put_spaces(pen, GAP);
    put_bar(pen, sum > 0 ? (double)device->done / (double)sum : 0, layout->bar,
            is_well ? BLUE : RED, false);
    put_spaces(pen, GAP);
    format_amount(progress, device->done, text);
    put_right(pen, text, AMOUNT_COLUMNS + 3, PLAIN);
    figure_share(device->done, sum, text);
    put_right(pen, text, AMOUNT_COLUMNS, PLAIN);
    put_spaces(pen, GAP);
    format_rate(progress, device->per_s, text);
    put_right(pen, text, RATE_COLUMNS, PLAIN);
    put_spaces(pen, GAP);
    enum colour colour = format_remark(device, text);
    if (*text)
        put_right(pen, text, LEFT_COLUMNS, colour);
}

/* How many devices have a line, where one may have to tell of the others. */
static size_t devices_shown(const struct progress *progress, const struct progress_style *style)
{
    /* Also the title's, and the whole's. */
    size_t room = style->rows - ROWS_BESIDE_THE_BLOCK - 2;
    if (room > PROGRESS_DEVICES_MAX)
        room = PROGRESS_DEVICES_MAX;
    return progress->device_count <= room ? progress->device_count : room - 1;
}

static void format_others(const struct progress *progress, size_t shown, uint64_t sum,
                          struct pen *pen, const struct layout *layout)
{
    char text[2 * FIGURE_BYTES], share[FIGURE_BYTES];
    uint64_t done = 0;
    for (size_t i = shown; i < progress->device_count; i++)
        done += progress->devices[i].done;
    figure_share(done, sum, share);
    snprintf(text, sizeof text, "and %zu more devices: %s", progress->device_count - shown, share);
    put_spaces(pen, layout->first + GAP);
    put_text(pen, text, DIM);
}

static void format_block(const struct progress *progress, const struct progress_style *style,
                         struct progress_frame *frame)
{
    uint64_t sum = sum_of(progress);
    struct pen pen = begin_line(frame, style);
    put_text(&pen, progress->title, BOLD);
    if (progress->note) {
        put_spaces(&pen, GAP);
        put_text(&pen, progress->note, DIM);
    }
    pen = begin_line(frame, style);
    struct layout layout = layout_of(progress, &pen);
    format_whole(progress, &pen, &layout);
    size_t shown = devices_shown(progress, style);
    for (size_t i = 0; i < shown; i++) {
        pen = begin_line(frame, style);
        format_device(progress, &progress->devices[i], sum, &pen, &layout);
    }
    if (shown < progress->device_count) {
        pen = begin_line(frame, style);
        format_others(progress, shown, sum, &pen, &layout);
    }
}

void progress_format(const struct progress *progress, const struct progress_style *style,
                     struct progress_frame *frame)
{
    struct progress_style plain = *style;
    frame->line_count = 0;
    if (!style->is_dumb && style->columns >= COLUMNS_FOR_A_BLOCK &&
        style->rows >= ROWS_FOR_A_BLOCK) {
        format_block(progress, style, frame);
        return;
    }
    plain.has_colour = style->has_colour && !style->is_dumb;
    format_one_line(progress, &plain, frame);
}
