#include "core/fleet/fleet.h"

#include "base/invariant.h"
#include "core/fleet/fleet_state.h"

#include <string.h>

static size_t aligned(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

static uint64_t window_of(const struct fleet_options *options)
{
    uint64_t most = options->grains < FLEET_WINDOW_MAX ? options->grains : FLEET_WINDOW_MAX;
    return options->window > 0 && options->window < most ? options->window : most;
}

static struct job_options job_options_of(const struct fleet_options *options)
{
    uint32_t runs = options->lane_count * options->slots;
    uint64_t window = window_of(options);
    return (struct job_options){
        .items = options->grains,
        .unit = JOB_UNIT_ADAPTIVE,
        .unit_ns = options->unit_ns,
        .window = window,
        .lane_count = options->lane_count,
        .depth = options->slots,
        .units_max = (uint32_t)window > runs ? (uint32_t)window : runs,
        .tries = options->tries,
        .ordered = true,
        .speculate = true,
        .begin = options->begin,
        .narrows = true,
        .waits_for_lanes = true,
        .overdue_least_ns = FLEET_OVERDUE_NS,
    };
}

static uint32_t head_shift_of(const struct fleet_options *options)
{
    uint32_t bits = 1;
    while ((UINT32_C(1) << bits) < 2 * options->lane_count)
        bits++;
    return 64 - bits;
}

static size_t heads_of(const struct fleet_options *options)
{
    return (size_t)1 << (64 - head_shift_of(options));
}

size_t fleet_bytes(const struct fleet_options *options)
{
    if (options->grains == 0 || options->grains > GRAINS_MAX || options->begin > options->grains ||
        options->lane_count == 0 || options->lane_count > FLEET_LANES_MAX || options->slots == 0 ||
        options->slots > WIRE_SLOTS_MAX || options->tries == 0 || options->epoch == 0)
        return 0;
    struct job_options job = job_options_of(options);
    return aligned(sizeof(struct fleet)) + aligned(job_bytes(&job)) +
           aligned(grain_set_bytes(options->grains)) +
           aligned(options->lane_count * sizeof(struct worker_lane)) +
           aligned((size_t)options->lane_count * options->slots * sizeof(struct place)) +
           aligned(heads_of(options) * sizeof(uint32_t));
}

struct fleet *fleet_init(void *memory, const struct fleet_options *options, uint64_t now_ns)
{
    char *at = memory;
    struct fleet *fleet = memory;
    struct job_options job = job_options_of(options);
    memset(memory, 0, sizeof *fleet);
    fleet->options = *options;
    if (options->silence_ns == 0)
        fleet->options.silence_ns = FLEET_SILENCE_NS;
    char *job_memory = at += aligned(sizeof *fleet);
    grain_set_init(&fleet->stored, at += aligned(job_bytes(&job)), options->grains);
    fleet->lanes = (struct worker_lane *)(at += aligned(grain_set_bytes(options->grains)));
    fleet->places =
        (struct place *)(at += aligned(options->lane_count * sizeof(struct worker_lane)));
    fleet->heads = (uint32_t *)(at + aligned((size_t)options->lane_count * options->slots *
                                             sizeof(struct place)));
    memset(fleet->places, 0, (size_t)options->lane_count * options->slots * sizeof *fleet->places);
    fleet->head_shift = head_shift_of(options);
    fleet->head_count = (uint32_t)heads_of(options);
    fleet->leaving = JOB_NONE;
    fleet->gather_until_ns = options->epoch > 1 ? now_ns + FLEET_GATHER_NS : 0;
    silence_init(&fleet->silence, now_ns);
    job.stored = &fleet->stored;
    fleet->job = job_init(job_memory, &job, now_ns);
    fleet_lanes_init(fleet);
    return fleet;
}

void fleet_note_stored(struct fleet *fleet, struct muster_range grains, uint64_t now_ns)
{
    (void)now_ns;
    job_note_stored(fleet->job, grains);
}

/* Claims that waited. */

bool fleet_next_reply(struct fleet *fleet, uint64_t now_ns, struct fleet_reply *out)
{
    if (is_over(fleet) && fleet->park_first != JOB_NONE && !fleet->is_superseded) {
        fleet_tell_over(fleet, fleet->park_first, out);
        fleet_unpark(fleet, fleet->park_first);
        return true;
    }
    for (; fleet->asks > 0 && fleet->park_first != JOB_NONE && !is_over(fleet); fleet->asks--) {
        uint32_t place = fleet->park_first;
        if (fleet_claim(fleet, place, now_ns)) {
            fleet_tell_run(fleet, place, out);
            return true;
        }
        fleet_unpark(fleet, place);
        fleet_park(fleet, place);
    }
    fleet->asks = 0;
    return false;
}

/* Time. */

void fleet_link(struct fleet *fleet, bool is_up, uint64_t now_ns)
{
    silence_link(&fleet->silence, is_up, now_ns);
}

void fleet_look(struct fleet *fleet, uint64_t now_ns)
{
    if (fleet->is_superseded || is_over(fleet))
        return;
    while (fleet->heard_first != JOB_NONE) {
        uint32_t lane = fleet->heard_first;
        if (silence_of(&fleet->silence, fleet->lanes[lane].heard_at, now_ns) <
            fleet->options.silence_ns)
            break;
        fleet->counts.lost++;
        fleet_lane_free(fleet, lane, true, now_ns);
    }
    if (now_ns >= fleet->gather_until_ns)
        fleet->gather_until_ns = 0;
    if (job_look_due(fleet->job) <= now_ns)
        job_look(fleet->job, now_ns);
    ask_parked(fleet, fleet->parked);
}

uint64_t fleet_look_due(const struct fleet *fleet)
{
    uint64_t due_ns = job_look_due(fleet->job), silent_ns = UINT64_MAX;
    if (fleet->is_superseded || is_over(fleet))
        return UINT64_MAX;
    if (fleet->heard_first != JOB_NONE)
        silent_ns = silence_due(&fleet->silence, fleet->lanes[fleet->heard_first].heard_at,
                                fleet->options.silence_ns);
    due_ns = silent_ns < due_ns ? silent_ns : due_ns;
    return fleet->gather_until_ns > 0 && fleet->gather_until_ns < due_ns ? fleet->gather_until_ns
                                                                         : due_ns;
}

/* Delivery. */

bool fleet_next_result(struct fleet *fleet, struct muster_range *grains)
{
    if (fleet->is_superseded)
        return false;
    if (fleet->leaving == JOB_NONE) {
        uint32_t unit;
        if (!job_next_result(fleet->job, &unit, &fleet->leaving_grains))
            return false;
        fleet->leaving = unit;
    }
    *grains = fleet->leaving_grains;
    return true;
}

void fleet_delivered(struct fleet *fleet, uint64_t grains, uint64_t now_ns)
{
    uint64_t left = fleet->leaving_grains.end - fleet->leaving_grains.begin;
    (void)now_ns;
    INVARIANT(fleet->leaving != JOB_NONE && grains > 0 && grains <= left);
    fleet->leaving_grains.begin += grains;
    if (grains < left) {
        job_delivered_part(fleet->job, fleet->leaving, grains);
    } else {
        job_delivered(fleet->job, fleet->leaving);
        fleet->leaving = JOB_NONE;
    }
    ask_parked(fleet, FLEET_ASKED_AT_ONCE);
}

void fleet_missing(struct fleet *fleet, uint64_t grains, uint64_t now_ns)
{
    INVARIANT(fleet->leaving != JOB_NONE);
    job_result_missing(fleet->job, fleet->leaving, grains, now_ns);
    fleet->leaving = JOB_NONE;
    fleet->counts.missing += grains;
    ask_parked(fleet, FLEET_ASKED_AT_ONCE);
}

uint64_t fleet_delivered_until(const struct fleet *fleet)
{
    return job_items_delivered(fleet->job);
}

/* Ends. */

void fleet_cancel(struct fleet *fleet)
{
    job_cancel(fleet->job);
}

void fleet_fail(struct fleet *fleet)
{
    job_fail(fleet->job);
}

uint64_t fleet_epoch_told(const struct fleet *fleet)
{
    return fleet->epoch_told;
}

void fleet_supersede(struct fleet *fleet)
{
    fleet->is_superseded = true;
}

/* What there is to know. */

enum fleet_state fleet_state(const struct fleet *fleet)
{
    static const enum fleet_state states[] = { [JOB_RUNNING] = FLEET_RUNNING,
                                               [JOB_DONE] = FLEET_DONE,
                                               [JOB_FAILED] = FLEET_FAILED,
                                               [JOB_CANCELLED] = FLEET_CANCELLED };
    return fleet->is_superseded ? FLEET_SUPERSEDED : states[job_state(fleet->job)];
}

void fleet_failure(const struct fleet *fleet, struct fleet_failure *out)
{
    *out = fleet->failure;
}

void fleet_lane(const struct fleet *fleet, uint32_t lane, uint64_t now_ns, struct fleet_lane *out)
{
    const struct place *places = &fleet->places[(size_t)lane * fleet->options.slots];
    *out = (struct fleet_lane){ .worker = fleet->lanes[lane].worker };
    if (out->worker == 0)
        return;
    for (uint32_t i = 0; i < fleet->options.slots; i++)
        out->held += places[i].state == PLACE_RUNNING;
    out->silent_ns = silence_of(&fleet->silence, fleet->lanes[lane].heard_at, now_ns);
    job_lane_report(fleet->job, lane, &out->report);
}

uint32_t fleet_workers(const struct fleet *fleet)
{
    return fleet->workers;
}

void fleet_counts(const struct fleet *fleet, struct fleet_counts *out)
{
    *out = fleet->counts;
}

uint64_t fleet_window_used(const struct fleet *fleet)
{
    return job_window_used(fleet->job);
}

uint64_t fleet_retries(const struct fleet *fleet)
{
    return job_retries(fleet->job);
}

/* Checks. */

static const char *check_lane(const struct fleet *fleet, uint32_t index)
{
    const struct worker_lane *lane = &fleet->lanes[index];
    for (uint32_t i = 0; i < fleet->options.slots; i++) {
        const struct place *place = &fleet->places[index * fleet->options.slots + i];
        if (lane->worker == 0 && place->state != PLACE_EMPTY)
            return "a place of nobody's is in use";
        if (place->state != PLACE_RUNNING)
            continue;
        if (!job_is_out(fleet->job, place->ticket))
            return "a place runs what is over";
        if (place->ticket.attempt / fleet->options.slots != index)
            return "a place runs what another lane was given";
    }
    return lane->worker != 0 && fleet_lane_find(fleet, lane->worker) != index
               ? "a worker has two lanes, or is not found"
               : NULL;
}

const char *fleet_check(const struct fleet *fleet)
{
    uint32_t workers = 0, heard = 0, parked = 0;
    for (uint32_t i = 0; i < fleet->options.lane_count; i++) {
        const char *broken = check_lane(fleet, i);
        if (broken)
            return broken;
        workers += fleet->lanes[i].worker != 0;
    }
    uint64_t last = 0;
    for (uint32_t i = fleet->heard_first; i != JOB_NONE; i = fleet->lanes[i].next) {
        if (fleet->lanes[i].heard_at < last || ++heard > workers)
            return "workers are not in the order in which they were heard";
        last = fleet->lanes[i].heard_at;
    }
    for (uint32_t i = fleet->park_first; i != JOB_NONE; i = fleet->places[i].next)
        if (fleet->places[i].state != PLACE_PARKED || ++parked > fleet->parked)
            return "a claim waits that does not, or one twice";
    if (workers != fleet->workers || heard != workers || parked != fleet->parked)
        return "workers or waiting claims are miscounted";
    return job_check(fleet->job);
}
