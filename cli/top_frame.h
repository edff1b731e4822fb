/*
 * What `muster top` shows, as lines of text. Pure: the same two looks and style give the same bytes.
 */
#ifndef CLI_TOP_FRAME_H
#define CLI_TOP_FRAME_H

#include "progress.h"

#include <muster/live.h>

enum top_sort { TOP_BY_ID, TOP_BY_BUSY, TOP_BY_RATE, TOP_BY_RETRIES, TOP_BY_MEMORY, TOP_SORTS };
extern const char *const top_sort_names[TOP_SORTS];

struct top {
    const struct muster_live *now; /* borrowed */
    const struct muster_live
        *before; /* borrowed: rates are since then; NULL: since the beginning */
    enum top_sort sort;
    bool has_keys; /* the first line says which */
};

/* As many lines as the style has rows, and PROGRESS_LINES_MAX at most; the last says what is missing. */
void top_format(const struct top *top, const struct progress_style *style,
                struct progress_frame *frame);

#endif
