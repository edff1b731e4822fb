/*
 * Which worker has which lane of the job: a table by the worker's id, a list by when each was heard last, and
 * the list of claims that wait. Each call costs the same for one worker as for thousands.
 */
#include "base/invariant.h"
#include "core/fleet/fleet_state.h"

#include <string.h>

static uint32_t head_of(const struct fleet *fleet, uint64_t worker)
{
    return (uint32_t)(worker * UINT64_C(0x9e3779b97f4a7c15) >> fleet->head_shift);
}

void fleet_lanes_init(struct fleet *fleet)
{
    memset(fleet->heads, 0xff, fleet->head_count * sizeof *fleet->heads);
    fleet->heard_first = fleet->heard_last = fleet->park_first = fleet->park_last = JOB_NONE;
    for (uint32_t i = 0; i < fleet->options.lane_count; i++) {
        bool is_last = i + 1 == fleet->options.lane_count;
        fleet->lanes[i] = (struct worker_lane){ .next = is_last ? JOB_NONE : i + 1 };
        job_lane_expect(fleet->job, i);
    }
}

uint32_t fleet_lane_find(const struct fleet *fleet, uint64_t worker)
{
    uint32_t lane = fleet->heads[head_of(fleet, worker)];
    while (lane != JOB_NONE && fleet->lanes[lane].worker != worker)
        lane = fleet->lanes[lane].hash_next;
    return lane;
}

/* The list by when they were heard. */

static void heard_append(struct fleet *fleet, uint32_t index)
{
    struct worker_lane *lane = &fleet->lanes[index];
    lane->previous = fleet->heard_last;
    lane->next = JOB_NONE;
    if (fleet->heard_last != JOB_NONE)
        fleet->lanes[fleet->heard_last].next = index;
    else
        fleet->heard_first = index;
    fleet->heard_last = index;
}

static void heard_remove(struct fleet *fleet, uint32_t index)
{
    const struct worker_lane *lane = &fleet->lanes[index];
    uint32_t *before =
        lane->previous != JOB_NONE ? &fleet->lanes[lane->previous].next : &fleet->heard_first;
    uint32_t *after =
        lane->next != JOB_NONE ? &fleet->lanes[lane->next].previous : &fleet->heard_last;
    *before = lane->next;
    *after = lane->previous;
}

void fleet_lane_heard(struct fleet *fleet, uint32_t index, uint64_t now_ns)
{
    fleet->lanes[index].heard_at = silence_heard(&fleet->silence, now_ns);
    if (fleet->heard_last == index)
        return;
    heard_remove(fleet, index);
    heard_append(fleet, index);
}

/* Coming and going. */

uint32_t fleet_lane_take(struct fleet *fleet, uint64_t worker, uint64_t now_ns)
{
    uint32_t index = fleet->free_lane, *head = &fleet->heads[head_of(fleet, worker)];
    if (index == JOB_NONE)
        return JOB_NONE;
    struct worker_lane *lane = &fleet->lanes[index];
    INVARIANT(lane->worker == 0 && worker != 0);
    fleet->free_lane = lane->next;
    *lane = (struct worker_lane){ .worker = worker, .hash_next = *head };
    *head = index;
    fleet->workers++;
    memset(&fleet->places[(size_t)index * fleet->options.slots], 0,
           fleet->options.slots * sizeof *fleet->places);
    heard_append(fleet, index);
    fleet_lane_heard(fleet, index, now_ns);
    job_lane_join(fleet->job, index, now_ns);
    return index;
}

void fleet_lane_free(struct fleet *fleet, uint32_t index, bool is_loss, uint64_t now_ns)
{
    struct worker_lane *lane = &fleet->lanes[index];
    uint32_t *at = &fleet->heads[head_of(fleet, lane->worker)];
    uint64_t worker = lane->worker;
    INVARIANT(worker != 0);
    for (uint32_t i = 0; i < fleet->options.slots; i++) {
        uint32_t place = index * fleet->options.slots + i;
        if (fleet->places[place].state == PLACE_PARKED)
            fleet_unpark(fleet, place);
        fleet->places[place].state = PLACE_EMPTY;
    }
    while (*at != index)
        at = &fleet->lanes[*at].hash_next;
    *at = lane->hash_next;
    heard_remove(fleet, index);
    *lane = (struct worker_lane){ .next = fleet->free_lane };
    fleet->free_lane = index;
    fleet->workers--;
    job_lane_leave(fleet->job, index, is_loss, now_ns);
    fleet_note_failure(fleet, worker, WIRE_CLASS_UNIT, true);
    ask_parked(fleet, fleet->parked < FLEET_ASKED_AT_ONCE ? fleet->parked : FLEET_ASKED_AT_ONCE);
}

/* Claims that wait. */

void fleet_park(struct fleet *fleet, uint32_t index)
{
    struct place *place = &fleet->places[index];
    INVARIANT(place->state != PLACE_PARKED);
    place->state = PLACE_PARKED;
    place->previous = fleet->park_last;
    place->next = JOB_NONE;
    if (fleet->park_last != JOB_NONE)
        fleet->places[fleet->park_last].next = index;
    else
        fleet->park_first = index;
    fleet->park_last = index;
    fleet->parked++;
}

void fleet_unpark(struct fleet *fleet, uint32_t index)
{
    struct place *place = &fleet->places[index];
    INVARIANT(place->state == PLACE_PARKED);
    uint32_t *before =
        place->previous != JOB_NONE ? &fleet->places[place->previous].next : &fleet->park_first;
    uint32_t *after =
        place->next != JOB_NONE ? &fleet->places[place->next].previous : &fleet->park_last;
    *before = place->next;
    *after = place->previous;
    place->state = PLACE_EMPTY;
    fleet->parked--;
}
