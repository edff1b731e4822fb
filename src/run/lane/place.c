/*
 * Where everything of a unit lies: in the caller's arrays, in the source's ring, in the result buffer
 * that the unit was given, or in the lane's own slots.
 */
#include "run/lane/lane.h"

uint64_t unit_part_items(const struct lane_unit *unit, uint32_t first_part, uint32_t part_count)
{
    uint64_t part_items = unit->lane->plan->part_items;
    return least(part_count * part_items, unit_items(unit) - first_part * part_items);
}

size_t unit_set_bytes(const struct lane_unit *unit, uint32_t piece, uint32_t part)
{
    return unit->bytes ? *unit_bytes(unit, piece, part) : SIZE_MAX;
}

size_t unit_part_bytes(const struct lane_unit *unit, uint32_t piece, uint32_t part)
{
    const struct lane_piece *of = &unit->lane->plan->pieces[piece];
    size_t set = unit_set_bytes(unit, piece, part);
    return set != SIZE_MAX ? set
                           : lane_piece_bytes(of, unit_part_items(unit, part, 1)) + of->fixed_bytes;
}

struct unit_place unit_place(const struct lane_unit *unit, uint32_t piece, uint32_t first_part,
                             uint32_t part_count)
{
    const struct run_lane *lane = unit->lane;
    const struct lane_piece *of = &lane->plan->pieces[piece];
    const struct pipe_buffer *declared = &lane->plan->declaration->buffers[of->buffer];
    const struct lane_buffer *buffer = &lane->buffers[of->buffer];
    size_t offset = declared->is_carried ? 0 : first_part * of->stride;
    uint32_t last = first_part + part_count - 1;
    struct unit_place place = { .capacity = of->stride * (declared->is_carried ? 1 : part_count) };
    place.bytes = declared->is_carried
                      ? of->fixed_bytes
                      : (part_count - 1) * of->stride + unit_part_bytes(unit, piece, last);
    if (declared->is_output) {
        place.host = unit->claim.is_direct
                         ? of->direct + unit->claim.range.begin * of->item_bytes + offset
                         : unit->results + of->output + offset;
        return place;
    }
    if (declared->is_input && !(lane->staged >> piece & 1)) {
        const char *first =
            of->array ? of->array + unit->claim.range.begin * of->item_bytes : unit->supplied;
        /* Nobody writes to an input: the table's type has no place that is only read. */
        place.host = (char *)(uintptr_t)first + offset;
        return place;
    }
    size_t slot = (size_t)(unit->number % buffer->slots) * lane->plan->slot_bytes[of->buffer];
    place.offset = slot + of->offset + of->halo + offset;
    if (buffer->host) {
        place.host = buffer->host + place.offset;
        place.offset = 0;
    } else {
        place.memory = &buffer->memory;
    }
    return place;
}

size_t unit_array_run(const struct lane_plan *plan, const struct lane_piece *piece, int64_t from,
                      size_t bytes, const char **at)
{
    int64_t total = (int64_t)(plan->items * piece->item_bytes);
    int64_t seam = (int64_t)(plan->seam * piece->item_bytes), halo = (int64_t)piece->halo;
    int64_t end = from + (int64_t)bytes;
    *at = piece->array + from;
    if (!piece->head)
        return bytes;
    if (from < 0) {
        *at = piece->head + halo + from;
        end = end < 0 ? end : 0;
    } else if (from >= total) {
        *at = piece->tail + (from - (total - seam - halo));
    } else {
        end = end < total ? end : total;
    }
    return (size_t)(end - from);
}

void unit_stage_input(struct lane_unit *unit)
{
    const struct run_lane *lane = unit->lane;
    for (uint64_t left = lane->staged; left != 0; left &= left - 1) {
        uint32_t piece = (uint32_t)__builtin_ctzll(left);
        const struct lane_piece *of = &lane->plan->pieces[piece];
        struct unit_place to = unit_place(unit, piece, 0, unit->part_count);
        int64_t from = (int64_t)(unit->claim.range.begin * of->item_bytes - of->halo);
        size_t left_bytes = to.bytes + 2 * of->halo;
        for (char *at = to.host - of->halo; left_bytes > 0;) {
            const char *found;
            size_t bytes = unit_array_run(lane->plan, of, from, left_bytes, &found);
            copiers_copy(lane->work->group.m, at, found, bytes);
            at += bytes;
            from += (int64_t)bytes;
            left_bytes -= bytes;
        }
    }
}
