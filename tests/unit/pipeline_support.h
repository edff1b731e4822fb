/*
 * Pipelines for the tests of the core, written as one line of text:
 *
 *     in:2i d_in:2 d_out:2 out:2o | up@h2d in>d_in | blur@compute d_in>d_out | down@d2h d_out>out
 *
 * Buffers are name:slots with i (input), o (output), c (carried); stages are name@stream and
 * reads>writes, several with commas; "!" behind a stage's stream: it carries state.
 */
#ifndef UNIT_PIPELINE_SUPPORT_H
#define UNIT_PIPELINE_SUPPORT_H

#include "core/pipeline.h"
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

struct shape {
    struct pipe_declaration declaration;
    char names[1024]; /* what the declaration points into */
    void *scratch;
};

static inline uint64_t shape_buffers(const struct shape *shape, char *list)
{
    uint64_t bits = 0;
    char *rest = NULL;
    for (char *name = strtok_r(list, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        uint32_t b = 0;
        while (b < shape->declaration.buffer_count &&
               strcmp(shape->declaration.buffers[b].name, name) != 0)
            b++;
        CHECK(b < shape->declaration.buffer_count);
        bits |= UINT64_C(1) << b;
    }
    return bits;
}

static inline void shape_buffer(struct shape *shape, char *word)
{
    struct pipe_declaration *declaration = &shape->declaration;
    struct pipe_buffer *buffer = &declaration->buffers[declaration->buffer_count++];
    char *flags = NULL, *colon = strchr(word, ':');
    CHECK(colon != NULL);
    *colon = '\0';
    buffer->name = word;
    buffer->slots = (uint32_t)strtoul(colon + 1, &flags, 10);
    buffer->is_input = strchr(flags, 'i') != NULL;
    buffer->is_output = strchr(flags, 'o') != NULL;
    buffer->is_carried = strchr(flags, 'c') != NULL;
    buffer->is_host = buffer->is_input || buffer->is_output;
}

static inline uint32_t shape_stream(struct pipe_declaration *declaration, const char *name)
{
    if (strcmp(name, "host") == 0)
        return PIPE_HOST;
    for (uint32_t i = 0; i < declaration->stream_count; i++)
        if (strcmp(declaration->streams[i], name) == 0)
            return i;
    declaration->streams[declaration->stream_count] = name;
    return declaration->stream_count++;
}

static inline void shape_stage(struct shape *shape, char *text)
{
    struct pipe_declaration *declaration = &shape->declaration;
    struct pipe_stage *stage = &declaration->stages[declaration->stage_count++];
    char *rest = NULL, *name = strtok_r(text, " ", &rest), *access = strtok_r(NULL, " ", &rest);
    char *at = strchr(name, '@');
    CHECK(at && access);
    *at++ = '\0';
    stage->name = name;
    if (at[strlen(at) - 1] == '!') {
        at[strlen(at) - 1] = '\0';
        stage->carries = true;
    }
    stage->stream = shape_stream(declaration, at);
    char *writes = strchr(access, '>');
    CHECK(writes != NULL);
    *writes++ = '\0';
    stage->reads = shape_buffers(shape, access);
    stage->writes = shape_buffers(shape, writes);
}

static inline void shape_init(struct shape *shape, const char *text)
{
    *shape = (struct shape){ .scratch = NULL };
    CHECK(strlen(text) < sizeof shape->names);
    strcpy(shape->names, text);
    char *rest = NULL, *part = strtok_r(shape->names, "|", &rest), *words = NULL;
    for (char *word = strtok_r(part, " ", &words); word; word = strtok_r(NULL, " ", &words))
        shape_buffer(shape, word);
    while ((part = strtok_r(NULL, "|", &rest)))
        shape_stage(shape, part);
    shape->scratch = malloc(pipe_scratch_bytes(&shape->declaration));
    CHECK(shape->scratch != NULL);
}

static inline void shape_deinit(struct shape *shape)
{
    free(shape->scratch);
    shape->scratch = NULL;
}

/* Another scratch, for a declaration that was changed. */
static inline void shape_changed(struct shape *shape)
{
    shape_deinit(shape);
    shape->scratch = malloc(pipe_scratch_bytes(&shape->declaration));
    CHECK(shape->scratch != NULL);
}

static inline struct pipe_plan without(const struct pipe_plan *plan, uint32_t edge)
{
    struct pipe_plan less = *plan;
    less.edge_count--;
    memmove(&less.edges[edge], &less.edges[edge + 1],
            (less.edge_count - edge) * sizeof *less.edges);
    return less;
}

static inline const char *edge_words(const struct pipe_declaration *declaration,
                                     const struct pipe_edge *edge)
{
    static const char *const kinds[] = { "?", "event", "enqueue", "arrival", "rule", "gate" };
    static char text[160];
    snprintf(text, sizeof text, "%s>%s +%u %s %s%s", pipe_step_name(declaration, edge->from),
             pipe_step_name(declaration, edge->to), edge->distance,
             edge->buffer == PIPE_NONE ? "-" : declaration->buffers[edge->buffer].name,
             kinds[edge->kind],
             edge->hazard == PIPE_ISSUED  ? " issued"
             : edge->hazard == PIPE_ADDED ? " added"
                                          : "");
    return text;
}

/*
 * Without any one of the derived edges the proof fails and names it; one of the user's may be
 * needless, and is named if not.
 */
static inline void check_each_edge_counts(struct shape *shape, const struct pipe_plan *plan)
{
    const struct pipe_declaration *declaration = &shape->declaration;
    for (uint32_t i = 0; i < plan->edge_count; i++) {
        const struct pipe_edge *edge = &plan->edges[i];
        struct pipe_plan less = without(plan, i);
        struct pipe_edge missing;
        struct muster_error err;
        muster_status status = pipe_verify(declaration, &less, shape->scratch, &missing, &err);
        if (status == MUSTER_OK && edge->hazard == PIPE_ADDED)
            continue;
        CHECK_STATUS(MUSTER_E_ORDER, status);
        if (edge->hazard == PIPE_ADDED && missing.hazard != PIPE_ADDED)
            continue;
        char expected[160];
        strcpy(expected, edge_words(declaration, edge));
        CHECK_TEXT(expected, edge_words(declaration, &missing));
        char name[40];
        snprintf(name, sizeof name, "'%s'", pipe_step_name(declaration, edge->from));
        CHECK_CONTAINS(name, err.text);
        CHECK_CONTAINS(name, err.fix);
        snprintf(name, sizeof name, "'%s'", pipe_step_name(declaration, edge->to));
        CHECK_CONTAINS(name, err.text);
        if (edge->buffer != PIPE_NONE)
            CHECK_CONTAINS(declaration->buffers[edge->buffer].name, err.text);
        if (edge->hazard == PIPE_ISSUED)
            CHECK_CONTAINS("may bind to an older record", err.text);
    }
}

#endif
