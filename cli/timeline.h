/*
 * A run as a picture, simulated or real: a row for each device, its units along the time, and the
 * bound. Below a device whose pipeline was timed is a row for each of its streams, with the stages.
 *
 * The scale must be known before the first unit is drawn, so a simulation is run twice (what it
 * does is the same each time) and a trace is read twice. Units thinner than a column of the picture
 * are added up, so that memory and file stay small however many there are.
 */
#ifndef CLI_TIMELINE_H
#define CLI_TIMELINE_H

#include "output.h"

#include <muster/simulate.h>

#define TIMELINE_ROWS_MAX 64u
/* Stages that have a colour of their own; others share the last one's. */
#define TIMELINE_STAGES_MAX 8
#define TIMELINE_STAGE_BYTES 48
/* A row of units, not of a stream's stages. */
#define TIMELINE_UNITS UINT32_MAX

/* How a unit is coloured. */
enum timeline_class {
    TIMELINE_DONE,
    TIMELINE_AGAIN, /* done, and not the unit's first run */
    TIMELINE_LATE,
    TIMELINE_FAILED,
    TIMELINE_LOST,
    TIMELINE_STALL, /* a stage is held up by another */
    TIMELINE_STAGE, /* the first of several */
    TIMELINE_CLASSES = TIMELINE_STAGE + TIMELINE_STAGES_MAX
};

/* What was run. */
struct timeline_run {
    muster_status status;
    uint64_t begin_ns;              /* what the events' times are counted from */
    uint64_t makespan_ns, bound_ns; /* bound 0: there is none */
    uint64_t span_ns;               /* what is shown, if that is more */
    uint64_t items, units, missing; /* delivered; made; not delivered */
    const char *remark;             /* borrowed: behind these; NULL: nothing */
    const char *amount; /* borrowed: what the items are, "3.1 GiB"; NULL: they are counted */
    uint64_t dropped;   /* events that are not there */
    const struct muster_simulation_device *const *devices; /* borrowed */
    size_t device_count;
    /*
     * Borrowed: for each device a bit for each stream that has stages, counted as events have them;
     * NULL: none has.
     */
    const uint64_t *streams;
};

/* A unit that is wide enough to be seen. */
struct timeline_bar {
    float x, width; /* in the plot */
    enum timeline_class class;
};

struct timeline_row {
    uint32_t device;
    uint32_t stream;           /* TIMELINE_UNITS: the device's units */
    uint64_t end_ns;           /* of what was added last */
    struct timeline_bar *bars; /* owned by the timeline: one for each column at most */
    uint32_t bar_count;
    uint64_t (*thin_ns)[TIMELINE_CLASSES]; /* likewise: time of thin units in each column */
};

struct timeline {
    struct timeline_run run;
    uint64_t scale_ns; /* what the width of the plot stands for */
    uint32_t row_count, column_count, column_width;
    struct timeline_row rows[TIMELINE_ROWS_MAX]; /* in the order of the devices and streams */
    uint32_t devices_shown;
    char stages[TIMELINE_STAGES_MAX][TIMELINE_STAGE_BYTES]; /* in the order in which they came */
    uint32_t stage_count;
    struct timeline_bar *bars;             /* owns */
    uint64_t (*thin_ns)[TIMELINE_CLASSES]; /* owns */
    bool has_class[TIMELINE_CLASSES], has_thin;
};

/* False: there is no memory, and nothing to give back. */
bool timeline_init(struct timeline *timeline, const struct timeline_run *run);
void timeline_deinit(struct timeline *timeline);

/*
 * For each event, those of one device in the order in which they end. `device` of it is an index of
 * the run's devices. Only units, stages and stalls are drawn.
 */
void timeline_add(struct timeline *timeline, const struct muster_trace_event *span);

/* Writes the picture as SVG. */
void timeline_draw(const struct timeline *timeline, const char *title, struct output *out);

#endif
