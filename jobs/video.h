/*
 * Video as a job's input and output: frames are read straight into the job's memory, and the lines
 * between them are put back between the results.
 */
#ifndef JOBS_VIDEO_H
#define JOBS_VIDEO_H

#include "y4m.h"

#include <pthread.h>

/* What follows FRAME in a frame's line, where something does. */
struct video_line;

struct video {
    struct muster_file *in, *out; /* borrowed */
    struct y4m y4m;
    char header[Y4M_LINE_MAX + 1]; /* with its end */
    size_t header_bytes;
    bool is_live;    /* the output is a pipe */
    uint32_t planes; /* bits: those that results are written of, others are passed on; 0: all */
    /* Of the thread that reads. */
    uint64_t frames_begun;
    uint64_t frame_left;         /* bytes of the current one that were not read */
    struct muster_error problem; /* what was wrong with the input; its status is 0 if nothing was */
    uint64_t frames_written;     /* of the sink */
    /* Lines that wait for their frame to be written: as many as the window has frames, at most. */
    pthread_mutex_t lock;
    struct video_line *first, **last; /* owns */
};

/*
 * Reads the header, of which the first bytes have been read already. Given back with video_deinit,
 * whatever the status.
 */
muster_status video_init(struct video *video, struct muster_file *in, const char *begin,
                         size_t begin_bytes, struct muster_error *err);
void video_deinit(struct video *video);

/* The header goes to the output before the job is started. */
muster_status video_begin(struct video *video, struct muster_file *out, struct muster_error *err);

/* Of a sample, which is an item: 1 or 2. */
static inline uint32_t video_sample_bytes(const struct video *video)
{
    return video->y4m.bits > 8 ? 2 : 1;
}

/* A job's source and sink; an item is a sample, and units are whole frames. */
int64_t video_source(void *video, uint64_t begin, uint64_t items, void *to, size_t bytes);
muster_status video_sink(void *video, const struct muster_result *result);

#endif
