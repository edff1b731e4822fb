/*
 * Reading a live page from anywhere, for the look through files and for tests that make pages up.
 */
#ifndef OBSERVE_LIVE_READ_H
#define OBSERVE_LIVE_READ_H

#include "observe/live.h"

/* One runtime, and what was read of it. */
struct seen_runtime {
    struct muster_live_runtime figures;
    struct muster_live_device devices[LIVE_DEVICES];
    struct muster_live_job jobs[LIVE_JOBS];
    struct muster_live_lane lanes[LIVE_JOBS][LIVE_LANES];
};

/* Where a page is: gives bytes of it as they are now, all or none. */
struct live_source {
    bool (*read)(void *user, uint64_t offset, void *to, size_t bytes);
    void *user;
    uint64_t bytes; /* there were, a moment ago */
};

/* NULL: it was read. Else what is wrong with it; "": it is not finished, which is nothing wrong. */
const char *live_read(const struct live_source *source, uint64_t now_ns, struct seen_runtime *out);

/* Terminates the text and replaces what a terminal might obey by question marks. */
void live_clean_text(char *text, size_t bytes);

#endif
