/*
 * A simulation as a picture: a row for each device, its units along the time, and the bound.
 *
 * The scale must be known before the first unit is drawn, so the simulation is run twice: what it
 * does is the same each time. Units thinner than a column of the picture are added up, so that
 * memory and file stay small however many there are.
 */
#ifndef CLI_TIMELINE_H
#define CLI_TIMELINE_H

#include "output.h"

#include <muster/simulate.h>

#define TIMELINE_ROWS_MAX 64u

/* How a unit is coloured. */
enum timeline_class {
    TIMELINE_DONE,
    TIMELINE_AGAIN, /* done, and not the unit's first run */
    TIMELINE_LATE,
    TIMELINE_FAILED,
    TIMELINE_LOST,
    TIMELINE_CLASSES
};

/* A unit that is wide enough to be seen. */
struct timeline_bar {
    float x, width; /* in the plot */
    enum timeline_class class;
};

struct timeline_row {
    uint32_t device;
    uint64_t end_ns;           /* of what was added last */
    struct timeline_bar *bars; /* owned by the timeline: one for each column at most */
    uint32_t bar_count;
    uint64_t (*thin_ns)[TIMELINE_CLASSES]; /* likewise: time of thin units in each column */
};

struct timeline {
    const struct muster_simulation *simulation; /* borrowed: the first run */
    uint64_t scale_ns;                          /* what the width of the plot stands for */
    uint32_t row_count, column_count, column_width;
    struct timeline_row rows[TIMELINE_ROWS_MAX]; /* in the order of the devices */
    struct timeline_bar *bars;                   /* owns */
    uint64_t (*thin_ns)[TIMELINE_CLASSES];       /* owns */
    bool has_class[TIMELINE_CLASSES], has_thin;
};

/* False: there is no memory, and nothing to give back. */
bool timeline_init(struct timeline *timeline, const struct muster_simulation *simulation);
void timeline_deinit(struct timeline *timeline);

/* For each event of the second run, in its order; only units are drawn. */
void timeline_add(struct timeline *timeline, const struct muster_trace_event *span);

/* Writes the picture as SVG. */
void timeline_draw(const struct timeline *timeline, const char *title, struct output *out);

#endif
