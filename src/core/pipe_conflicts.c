#include "core/pipe_conflicts.h"

static uint32_t slots_of(const struct pipe_buffer *buffer)
{
    return buffer->is_carried ? 1 : buffer->slots;
}

uint32_t pipe_slots_max(const struct pipe_declaration *declaration)
{
    uint32_t most = 1;
    for (uint32_t b = 0; b < declaration->buffer_count; b++)
        if (slots_of(&declaration->buffers[b]) > most)
            most = slots_of(&declaration->buffers[b]);
    return most;
}

void pipe_conflicts_begin(struct pipe_conflicts *conflicts,
                          const struct pipe_declaration *declaration)
{
    *conflicts = (struct pipe_conflicts){ .steps = declaration->stage_count + 2,
                                          .distance_max = pipe_slots_max(declaration) };
    uint32_t sink = conflicts->steps - 1;
    for (uint32_t b = 0; b < declaration->buffer_count; b++) {
        const struct pipe_buffer *buffer = &declaration->buffers[b];
        conflicts->reused_after[0] |= UINT64_C(1) << b;
        if (!buffer->is_unshared)
            conflicts->reused_after[slots_of(buffer)] |= UINT64_C(1) << b;
        if (buffer->is_input)
            conflicts->writes[0] |= UINT64_C(1) << b;
        if (buffer->is_output)
            conflicts->reads[sink] |= UINT64_C(1) << b;
    }
    for (uint32_t s = 0; s < declaration->stage_count; s++) {
        const struct pipe_stage *stage = &declaration->stages[s];
        conflicts->reads[s + 1] = stage->reads;
        conflicts->writes[s + 1] = stage->writes;
        if (stage->carries)
            conflicts->carrying |= UINT64_C(1) << (s + 1);
    }
    /* Within a unit, what comes later is ahead by at least one step. */
    conflicts->ahead = 1;
}

static bool conflict_at(const struct pipe_conflicts *at, uint32_t to, struct pipe_edge *out)
{
    uint64_t among = at->reused_after[at->distance];
    uint64_t written = at->writes[at->from] & among, read = at->reads[at->from] & among;
    uint64_t shared = (written & (at->reads[to] | at->writes[to])) | (read & at->writes[to]);
    *out = (struct pipe_edge){ .from = at->from,
                               .to = to,
                               .distance = at->distance,
                               .buffer = PIPE_NONE,
                               .alias = PIPE_NONE };
    if (shared != 0) {
        uint64_t first = shared & -shared;
        out->buffer = (uint32_t)__builtin_ctzll(shared);
        if (written & first)
            out->hazard = at->reads[to] & first ? PIPE_READ_AFTER_WRITE : PIPE_WRITE_AFTER_WRITE;
        else
            out->hazard = PIPE_WRITE_AFTER_READ;
        return true;
    }
    out->hazard = PIPE_STATE;
    return at->distance == 1 && at->from == to && (at->carrying >> to & 1);
}

bool pipe_conflicts_next(struct pipe_conflicts *conflicts, struct pipe_edge *out)
{
    for (; conflicts->distance <= conflicts->distance_max; conflicts->distance++) {
        for (; conflicts->ahead < conflicts->steps; conflicts->ahead++) {
            while (conflicts->from < conflicts->steps) {
                int64_t to = conflicts->from + conflicts->ahead;
                bool found =
                    to >= 0 && to < conflicts->steps && conflict_at(conflicts, (uint32_t)to, out);
                conflicts->from++;
                if (found)
                    return true;
            }
            conflicts->from = 0;
        }
        conflicts->ahead = 1 - (int64_t)conflicts->steps;
    }
    return false;
}

bool pipe_is_farther(const struct pipe_edge *a, const struct pipe_edge *b)
{
    if (a->distance != b->distance)
        return a->distance > b->distance;
    return (int64_t)a->to - a->from > (int64_t)b->to - b->from;
}

struct pipe_edge pipe_added_edge(const struct pipe_declaration *declaration, uint32_t index)
{
    const struct muster_edge *added = &declaration->added[index];
    return (struct pipe_edge){ .from = added->from + 1,
                               .to = added->to + 1,
                               .distance = added->distance,
                               .buffer = PIPE_NONE,
                               .hazard = PIPE_ADDED,
                               .alias = PIPE_NONE };
}
