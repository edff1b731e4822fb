/*
 * A frame of the progress display, as lines of text. Pure: the same progress and style give the
 * same bytes.
 *
 *     edges.c over clip.y4m
 *      45.3 %  ━━━━━━━━━━━━━━━━╸───────────────────     1.4 GiB of 3.1 GiB     1.2 GiB/s    0:02 left
 *       cpu:0  ━━━━╸                                 180.3 MiB    12.0 %   145.2 MiB/s
 *      cuda:0  ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━       1.2 GiB    88.0 %     1.1 GiB/s
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <muster/job.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROGRESS_UNKNOWN UINT64_MAX
/* More columns are not used. */
#define PROGRESS_COLUMNS_MAX 110u
/* Devices that have a line of their own, at most. */
#define PROGRESS_DEVICES_MAX 64
/* The title, the whole, each device, and those that there are no lines for. */
#define PROGRESS_LINES_MAX (PROGRESS_DEVICES_MAX + 3)
/* A character has up to three bytes, and colours come on top. */
#define PROGRESS_LINE_BYTES (PROGRESS_COLUMNS_MAX * 3 + 64)

struct progress_device {
    char id[24];
    uint64_t done;
    double per_s;
    uint64_t retries;
    enum muster_health health;
};

struct progress {
    const char *title; /* borrowed */
    const char *note;  /* borrowed: what is being done beside the jobs; NULL: nothing */
    bool in_bytes;     /* else items are counted */
    uint64_t done;
    uint64_t total; /* PROGRESS_UNKNOWN: nobody knows */
    double per_s;
    uint64_t elapsed_ns;
    const struct progress_device *devices; /* borrowed */
    size_t device_count;
};

struct progress_style {
    unsigned columns, rows; /* of the terminal */
    bool is_dumb;           /* one line and no colour, whatever the size */
    bool has_colour, has_unicode;
};

struct progress_line {
    char text[PROGRESS_LINE_BYTES];
    size_t bytes;
    unsigned columns; /* that it takes; less than the terminal has, so that it is never wrapped */
};

struct progress_frame {
    struct progress_line lines[PROGRESS_LINES_MAX];
    size_t line_count;
};

void progress_format(const struct progress *progress, const struct progress_style *style,
                     struct progress_frame *frame);

#endif
