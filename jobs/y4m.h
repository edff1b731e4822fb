/*
 * The header of YUV4MPEG2, raw video as it goes between programs: what it says of the frames that
 * follow. Pictures of 8 to 16 bits a sample, more than 8 in two bytes; others are refused by name.
 */
#ifndef JOBS_Y4M_H
#define JOBS_Y4M_H

#include <muster/muster.h>
#include <stdbool.h>

#define Y4M_MAGIC "YUV4MPEG2"
#define Y4M_FRAME "FRAME"
/* Longer lines are none. */
#define Y4M_LINE_MAX 1024
/* Of a side, so that a frame's bytes and their products fit everywhere. */
#define Y4M_SIDE_MAX 65535u

struct y4m {
    uint32_t width, height;
    uint32_t chroma_width, chroma_height; /* of each of the two planes behind the luma; 0: none */
    uint32_t bits;                        /* of a sample */
    uint64_t frame_bytes;
};

/*
 * Reads the first line, without its end. MUSTER_E_PARSE: it is not one. MUSTER_E_NOT_SUPPORTED: a
 * colour space that Muster does not take.
 */
muster_status y4m_read(struct y4m *y4m, const char *line, size_t bytes, struct muster_error *err);

#endif
