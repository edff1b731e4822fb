/*
 * Pipelines from any bytes, sound and not: a refusal has words, and what is derived is proven, needs
 * each of its derived edges and can be printed.
 */
#include "core/pipeline.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

struct bytes {
    const uint8_t *data;
    size_t left;
};

/* 0 behind the end. */
static uint32_t take(struct bytes *bytes, uint32_t bound)
{
    if (bytes->left == 0)
        return 0;
    bytes->left--;
    return *bytes->data++ % bound;
}

static uint64_t take_set(struct bytes *bytes)
{
    uint64_t set = 0;
    for (uint32_t n = take(bytes, 4); n > 0; n--)
        set |= UINT64_C(1) << take(bytes, MUSTER_BUFFERS_MAX);
    return set;
}

/* Mostly within the limits: one more than is possible comes out now and then. */
static void read_declaration(struct bytes *bytes, struct pipe_declaration *declaration,
                             struct muster_edge *added, uint32_t added_max)
{
    *declaration = (struct pipe_declaration){ .added = added };
    declaration->stage_count = take(bytes, MUSTER_STAGES_MAX + 1);
    declaration->buffer_count = take(bytes, MUSTER_BUFFERS_MAX + 1);
    declaration->stream_count = take(bytes, MUSTER_ROLES_MAX + 1);
    uint32_t slots_max = 1 + take(bytes, 6);
    for (uint32_t b = 0; b < declaration->buffer_count; b++) {
        uint32_t flags = take(bytes, 256);
        declaration->buffers[b] = (struct pipe_buffer){
            .name = "buffer",
            .slots = 1 + take(bytes, slots_max) + (flags == 255 ? MUSTER_SLOTS_MAX : 0),
            .is_host = flags & 1,
            .is_carried = (flags & 14) == 14,
            .is_input = (flags & 48) == 48,
            .is_output = (flags & 192) == 192,
        };
    }
    for (uint32_t i = 0; i < declaration->stream_count; i++)
        declaration->streams[i] = "stream";
    for (uint32_t s = 0; s < declaration->stage_count; s++) {
        uint32_t stream = take(bytes, declaration->stream_count + 2);
        declaration->stages[s] = (struct pipe_stage){
            .name = "stage",
            .stream = stream > 0 ? stream - 1 : PIPE_HOST,
            .reads = take_set(bytes),
            .writes = take_set(bytes),
            .carries = take(bytes, 8) == 7,
        };
    }
    declaration->added_count = take(bytes, added_max + 1);
    for (uint32_t i = 0; i < declaration->added_count; i++)
        added[i] = (struct muster_edge){ take(bytes, MUSTER_STAGES_MAX),
                                         take(bytes, MUSTER_STAGES_MAX), take(bytes, 20) };
}

static void look_at_plan(const struct pipe_declaration *declaration, const struct pipe_plan *plan,
                         void *scratch, struct bytes *bytes)
{
    struct muster_error err;
    struct pipe_edge missing;
    static char text[1 << 16];
    require(pipe_verify(declaration, plan, scratch, &missing, &err) == MUSTER_OK);
    for (int format = 0; format < 2; format++) {
        size_t length =
            pipe_print(declaration, plan, (enum muster_print_format)format, text, sizeof text);
        require(length >= sizeof text || strlen(text) == length);
    }
    if (plan->edge_count == 0)
        return;
    uint32_t without = take(bytes, plan->edge_count);
    struct pipe_edge edge = plan->edges[without];
    struct pipe_plan less = *plan;
    less.edge_count--;
    memmove(&less.edges[without], &less.edges[without + 1],
            (less.edge_count - without) * sizeof edge);
    muster_status status = pipe_verify(declaration, &less, scratch, &missing, &err);
    if (edge.hazard != PIPE_ADDED)
        require(status == MUSTER_E_ORDER && missing.from == edge.from && missing.to == edge.to &&
                missing.distance == edge.distance && missing.kind == edge.kind);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes bytes = { data, size };
    struct pipe_declaration declaration;
    struct muster_edge added[8];
    struct pipe_plan plan;
    struct muster_error err = { .text = "" };
    enum muster_schedule schedule = (enum muster_schedule)take(&bytes, 6);
    bool has_gates = take(&bytes, 2);
    read_declaration(&bytes, &declaration, added, 8);
    /* Of exactly its size, so that AddressSanitizer sees what is behind it. */
    void *scratch = malloc(pipe_scratch_bytes(&declaration));
    require(scratch != NULL);
    muster_status status = pipe_derive(&declaration, schedule, has_gates, &plan, scratch, &err);
    if (status == MUSTER_OK)
        look_at_plan(&declaration, &plan, scratch, &bytes);
    else
        require(err.status == status && err.text[0] && err.fix[0]);
    free(scratch);
    return 0;
}
