#include "video.h"

#include <muster/backend.h>
#include <stdlib.h>
#include <string.h>

struct video_line {
    struct video_line *next;
    uint64_t frame;
    size_t bytes;
    char text[]; /* from FRAME to the end of the line */
};

/* Up to and with the line's end, one byte at a time: a pipe must not be read further. */
static muster_status read_line(struct muster_file *in, char *line, size_t *used, bool *is_whole,
                               struct muster_error *err)
{
    *is_whole = *used > 0 && line[*used - 1] == '\n';
    while (!*is_whole && *used <= Y4M_LINE_MAX) {
        size_t got;
        muster_status status = muster_file_read(in, line + *used, 1, &got, err);
        if (status != MUSTER_OK)
            return status;
        if (got == 0)
            break;
        *is_whole = line[(*used)++] == '\n';
    }
    return MUSTER_OK;
}

muster_status video_init(struct video *video, struct muster_file *in, const char *begin,
                         size_t begin_bytes, struct muster_error *err)
{
    bool is_whole;
    *video = (struct video){ .in = in, .header_bytes = begin_bytes };
    video->last = &video->first;
    pthread_mutex_init(&video->lock, NULL);
    memcpy(video->header, begin, begin_bytes);
    if (begin_bytes < strlen(Y4M_MAGIC) || memcmp(begin, Y4M_MAGIC, strlen(Y4M_MAGIC)) != 0)
        return y4m_read(&video->y4m, begin, begin_bytes, err);
    muster_status status = read_line(in, video->header, &video->header_bytes, &is_whole, err);
    if (status != MUSTER_OK)
        return status;
    if (!is_whole)
        return muster_error_fill(err, MUSTER_E_PARSE, 0, NULL,
                                 "the video's header has no end within %zu bytes",
                                 video->header_bytes);
    return y4m_read(&video->y4m, video->header, video->header_bytes - 1, err);
}

void video_deinit(struct video *video)
{
    while (video->first) {
        struct video_line *line = video->first;
        video->first = line->next;
        free(line);
    }
    pthread_mutex_destroy(&video->lock);
}

muster_status video_begin(struct video *video, struct muster_file *out, struct muster_error *err)
{
    struct muster_file_report report = { .size = sizeof report };
    video->out = out;
    muster_status status = muster_file_report(out, &report, err);
    if (status != MUSTER_OK)
        return status;
    video->is_live = strcmp(report.engine, "pipe") == 0;
    status = muster_file_write(out, video->header, video->header_bytes, err);
    return status == MUSTER_OK && video->is_live ? muster_file_flush(out, err) : status;
}

/* Reading. */

static muster_status keep_line(struct video *video, const char *text, size_t bytes)
{
    struct video_line *line = malloc(sizeof *line + bytes);
    if (!line)
        return muster_error_fill(&video->problem, MUSTER_E_NO_MEMORY, 0, NULL,
                                 "no memory for the line of frame %llu",
                                 (unsigned long long)video->frames_begun);
    *line = (struct video_line){ .frame = video->frames_begun, .bytes = bytes };
    memcpy(line->text, text, bytes);
    pthread_mutex_lock(&video->lock);
    *video->last = line;
    video->last = &line->next;
    pthread_mutex_unlock(&video->lock);
    return MUSTER_OK;
}

static muster_status is_cut_off(struct video *video, uint64_t frame, uint64_t missing)
{
    return muster_error_fill(&video->problem, MUSTER_E_PARSE, 0,
                             "cut the input, or write it to its end",
                             "the video ends within frame %llu, counted from 0: %llu bytes of it "
                             "are missing",
                             (unsigned long long)frame, (unsigned long long)missing);
}

/* Reads the line before a frame. `*is_end`: there is none, and nothing else. */
static muster_status begin_frame(struct video *video, bool *is_end)
{
    char line[Y4M_LINE_MAX + 1];
    size_t least = strlen(Y4M_FRAME) + 1, got;
    bool is_whole;
    muster_status status = muster_file_read(video->in, line, least, &got, &video->problem);
    *is_end = status == MUSTER_OK && got == 0;
    if (status != MUSTER_OK || *is_end)
        return status;
    if (got < least)
        return is_cut_off(video, video->frames_begun, video->y4m.frame_bytes + least - got);
    char after = line[least - 1];
    if (memcmp(line, Y4M_FRAME, least - 1) != 0 || (after != '\n' && after != ' '))
        return muster_error_fill(&video->problem, MUSTER_E_PARSE, 0,
                                 "is the size of its pictures as the header says?",
                                 "where frame %llu of the video should begin, counted from 0, "
                                 "there is no " Y4M_FRAME,
                                 (unsigned long long)video->frames_begun);
    status = read_line(video->in, line, &got, &is_whole, &video->problem);
    if (status == MUSTER_OK && !is_whole)
        status = muster_error_fill(&video->problem, MUSTER_E_PARSE, 0, NULL,
                                   "the line of frame %llu of the video has no end",
                                   (unsigned long long)video->frames_begun);
    if (status == MUSTER_OK && got > least)
        status = keep_line(video, line, got);
    if (status != MUSTER_OK)
        return status;
    video->frames_begun++;
    video->frame_left = video->y4m.frame_bytes;
    return MUSTER_OK;
}

int64_t video_source(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    struct video *video = user;
    bool is_end = false;
    (void)begin;
    (void)bytes;
    muster_status status = video->frame_left == 0 ? begin_frame(video, &is_end) : MUSTER_OK;
    if (status != MUSTER_OK || is_end)
        return status;
    /* One frame at most, so that a live one does not wait for the next. */
    uint32_t sample = video_sample_bytes(video);
    uint64_t left = video->frame_left / sample;
    size_t wanted = (size_t)(items < left ? items : left) * sample, got;
    status = muster_file_read(video->in, to, wanted, &got, &video->problem);
    if (status != MUSTER_OK)
        return status;
    video->frame_left -= got;
    return got < wanted ? is_cut_off(video, video->frames_begun - 1, video->frame_left)
                        : (int64_t)(got / sample);
}

/* Writing. */

/* The line that was kept for the frame; NULL: it has none of its own. */
static struct video_line *take_line(struct video *video, uint64_t frame)
{
    struct video_line *line = NULL;
    pthread_mutex_lock(&video->lock);
    if (video->first && video->first->frame == frame) {
        line = video->first;
        video->first = line->next;
        if (!video->first)
            video->last = &video->first;
    }
    pthread_mutex_unlock(&video->lock);
    return line;
}

static muster_status write_line(struct video *video)
{
    struct video_line *line = take_line(video, video->frames_written);
    muster_status status =
        line ? muster_file_write(video->out, line->text, line->bytes, NULL)
             : muster_file_write(video->out, Y4M_FRAME "\n", strlen(Y4M_FRAME "\n"), NULL);
    free(line);
    return status;
}

/* Plane after plane, each of the results or as it came. */
static muster_status write_frame(const struct video *video, const char *frame, const char *supplied)
{
    const struct y4m *y4m = &video->y4m;
    size_t sample = video_sample_bytes(video);
    const size_t bytes[] = { (size_t)y4m->width * y4m->height * sample,
                             (size_t)y4m->chroma_width * y4m->chroma_height * sample,
                             (size_t)y4m->chroma_width * y4m->chroma_height * sample };
    muster_status status = MUSTER_OK;
    if (video->planes == 0)
        return muster_file_write(video->out, frame, (size_t)y4m->frame_bytes, NULL);
    size_t at = 0;
    for (size_t i = 0; i < 3 && status == MUSTER_OK; at += bytes[i++])
        if (bytes[i] > 0)
            status = muster_file_write(video->out, (video->planes >> i & 1 ? frame : supplied) + at,
                                       bytes[i], NULL);
    return status;
}

muster_status video_sink(void *user, const struct muster_result *result)
{
    struct video *video = user;
    const char *frame = result->outputs[0], *end = frame + result->output_bytes[0];
    const char *supplied = result->supplied;
    muster_status status = MUSTER_OK;
    for (; frame < end && status == MUSTER_OK; frame += video->y4m.frame_bytes) {
        status = write_line(video);
        if (status == MUSTER_OK)
            status = write_frame(video, frame, supplied);
        supplied += video->y4m.frame_bytes;
        video->frames_written++;
    }
    /* Who reads a pipe may wait for these frames before there are others. */
    return status == MUSTER_OK && video->is_live ? muster_file_flush(video->out, NULL) : status;
}
