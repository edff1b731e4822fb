/*
 * What the submitter answers. A run is known by its ticket; what comes with another one is late, and what
 * comes from beyond this submitter's epoch is none of its business.
 */
#include "base/invariant.h"
#include "core/fleet/fleet_state.h"

static const enum job_end end_of_class[] = {
    [WIRE_CLASS_UNIT] = JOB_END_UNIT,     [WIRE_CLASS_USER] = JOB_END_USER,
    [WIRE_CLASS_MEMORY] = JOB_END_MEMORY, [WIRE_CLASS_STORE] = JOB_END_UNIT,
    [WIRE_CLASS_BACK] = JOB_END_AGAIN,
};

static bool is_same_run(const struct wire_run *a, const struct wire_run *b)
{
    return a->epoch == b->epoch && a->attempt == b->attempt && a->generation == b->generation;
}

static struct wire_run run_of(const struct fleet *fleet, const struct place *place)
{
    return (struct wire_run){ .epoch = fleet->options.epoch,
                              .attempt = place->ticket.attempt,
                              .generation = place->ticket.generation,
                              .grains = place->grains };
}

/* Whether it is what the place runs, under its name or the one it had before it was adopted. */
static bool is_of_place(const struct fleet *fleet, const struct place *place,
                        const struct wire_held *held)
{
    struct wire_run run = run_of(fleet, place);
    return place->state == PLACE_RUNNING && place->seq == held->seq &&
           (is_same_run(&run, &held->run) || is_same_run(&place->was, &held->run));
}

/* Answers. */

void fleet_tell_run(const struct fleet *fleet, uint32_t place, struct fleet_reply *out)
{
    const struct place *of = &fleet->places[place];
    *out = (struct fleet_reply){ .place = place };
    out->reply.kind = WIRE_RUN;
    out->reply.epoch = fleet->options.epoch;
    out->reply.held_count = 1;
    out->reply.held[0] = (struct wire_held){ .slot = place % fleet->options.slots,
                                             .seq = of->seq,
                                             .run = run_of(fleet, of) };
}

static void tell(const struct fleet *fleet, enum wire_reply_kind kind, struct fleet_reply *out)
{
    *out = (struct fleet_reply){ .place = JOB_NONE };
    out->reply.kind = kind;
    out->reply.epoch = fleet->options.epoch;
}

void fleet_tell_over(const struct fleet *fleet, uint32_t place, struct fleet_reply *out)
{
    enum job_state state = job_state(fleet->job);
    tell(fleet, WIRE_OVER, out);
    out->place = place;
    out->reply.end = state == JOB_DONE     ? WIRE_END_DONE
                     : state == JOB_FAILED ? WIRE_END_FAILED
                                           : WIRE_END_CANCELLED;
}

void fleet_note_failure(struct fleet *fleet, uint64_t worker, enum wire_class class_, bool is_loss)
{
    struct muster_range range;
    if (job_state(fleet->job) != JOB_FAILED ||
        fleet->failure.grains.end > fleet->failure.grains.begin ||
        job_failed_ranges(fleet->job, &range, 1) == 0)
        return;
    fleet->failure = (struct fleet_failure){
        .grains = range, .worker = worker, .class_ = class_, .is_loss = is_loss
    };
}

/* Claims. */

bool fleet_claim(struct fleet *fleet, uint32_t index, uint64_t now_ns)
{
    struct place *place = &fleet->places[index];
    struct job_claim claim;
    if (now_ns < fleet->gather_until_ns ||
        !job_claim(fleet->job, lane_of_place(fleet, index), now_ns, &claim))
        return false;
    bool is_started = job_kick(fleet->job, claim.ticket, now_ns);
    INVARIANT(is_started);
    if (place->state == PLACE_PARKED)
        fleet_unpark(fleet, index);
    *place = (struct place){
        .state = PLACE_RUNNING, .seq = place->seq, .ticket = claim.ticket, .grains = claim.range
    };
    fleet->counts.claims++;
    return is_started;
}

/* The worker does not run it any more, and has not said how that ended: nobody is to blame. */
static void drop_run(struct fleet *fleet, struct place *place, uint64_t now_ns)
{
    job_finish_at(fleet->job, place->ticket, JOB_END_AGAIN, JOB_DONE_UNKNOWN, now_ns);
    place->state = PLACE_REPORTED;
    ask_parked(fleet, FLEET_ASKED_AT_ONCE);
}

static enum fleet_answer on_claim(struct fleet *fleet, uint32_t index,
                                  const struct wire_held *asked, uint64_t now_ns,
                                  struct fleet_reply *out)
{
    struct place *place = &fleet->places[index];
    bool is_new = place->state == PLACE_EMPTY || asked->seq > place->seq;
    bool is_old = place->state != PLACE_EMPTY && asked->seq < place->seq;
    if (is_old || (!is_new && place->state == PLACE_REPORTED)) {
        fleet->counts.late++;
        tell(fleet, WIRE_LATE, out);
        return FLEET_ANSWERED;
    }
    if (!is_new && place->state == PLACE_RUNNING) {
        fleet->counts.repeats++;
        fleet_tell_run(fleet, index, out);
        return FLEET_ANSWERED;
    }
    if (place->state == PLACE_RUNNING)
        drop_run(fleet, place, now_ns);
    place->seq = asked->seq;
    if (fleet_claim(fleet, index, now_ns)) {
        fleet_tell_run(fleet, index, out);
        return FLEET_ANSWERED;
    }
    if (place->state != PLACE_PARKED) {
        fleet->counts.parked++;
        fleet_park(fleet, index);
    }
    *out = (struct fleet_reply){ .place = index };
    return FLEET_PARKED;
}

/* Adoption. */

/* Makes what the worker runs a run of this place; false if nobody wants it. */
static bool adopt(struct fleet *fleet, uint32_t index, const struct wire_held *held,
                  uint64_t now_ns)
{
    struct place *place = &fleet->places[index];
    struct job_claim claim;
    if (place->state == PLACE_RUNNING)
        drop_run(fleet, place, now_ns);
    if (place->state == PLACE_PARKED)
        fleet_unpark(fleet, index);
    if (!job_adopt(fleet->job, lane_of_place(fleet, index), held->run.grains, now_ns, &claim)) {
        *place = (struct place){ .state = PLACE_REPORTED, .seq = held->seq };
        return false;
    }
    *place = (struct place){ .state = PLACE_RUNNING,
                             .seq = held->seq,
                             .ticket = claim.ticket,
                             .grains = claim.range,
                             .was = held->run };
    fleet->counts.adopted++;
    return true;
}

/* Reports. */

/*
 * Nobody here has given it that run, but all its grains are stored: an earlier submitter has, or this
 * one before it took the worker for lost. They count as far as nobody else is at them.
 */
static void note_late(struct fleet *fleet, struct muster_range grains)
{
    fleet->counts.late++;
    job_note_stored(fleet->job, grains);
}

static void on_done(struct fleet *fleet, uint32_t index, const struct wire_held *held,
                    uint64_t now_ns)
{
    struct place *place = &fleet->places[index];
    if (!is_of_place(fleet, place, held)) {
        note_late(fleet, held->run.grains);
        return;
    }
    place->state = PLACE_REPORTED;
    if (job_finish_at(fleet->job, place->ticket, JOB_END_OK, JOB_DONE_UNKNOWN, now_ns) == JOB_LATE)
        fleet->counts.late++;
}

static void on_fail(struct fleet *fleet, uint32_t index, const struct wire_request *request,
                    uint64_t now_ns)
{
    struct place *place = &fleet->places[index];
    struct muster_range grains = place->grains;
    if (!is_of_place(fleet, place, &request->held[0])) {
        fleet->counts.late++;
        return;
    }
    uint64_t at = JOB_DONE_UNKNOWN;
    if (request->at != WIRE_NO_GRAIN && request->at >= grains.begin && request->at < grains.end)
        at = request->at - grains.begin;
    place->state = PLACE_REPORTED;
    job_finish_at(fleet->job, place->ticket, end_of_class[request->class_], at, now_ns);
    fleet_note_failure(fleet, request->worker, request->class_, false);
}

/* Beats. */

/* What the worker is to be told of what it runs there; nothing if all is well, or if it is an old beat. */
static void on_held(struct fleet *fleet, uint32_t index, const struct wire_held *held,
                    uint64_t now_ns, struct wire_reply *out)
{
    struct place *place = &fleet->places[index];
    bool is_known = is_of_place(fleet, place, held), is_adopted = false;
    place->beats_missed = 0;
    bool is_old =
        place->state != PLACE_EMPTY &&
        (held->seq < place->seq || (held->seq == place->seq && place->state == PLACE_REPORTED));
    if (!is_known && is_old && held->seq < place->seq)
        return;
    if (!is_known && !is_old)
        is_adopted = adopt(fleet, index, held, now_ns);
    struct wire_run run = run_of(fleet, place);
    bool drops =
        (!is_known && !is_adopted) || (is_known && job_should_stop(fleet->job, place->ticket));
    if (!drops && is_same_run(&run, &held->run))
        return;
    out->held[out->held_count] = (struct wire_held){ .slot = held->slot, .seq = held->seq };
    out->drops[out->held_count] = drops;
    if (!drops)
        out->held[out->held_count].run = run;
    out->held_count++;
}

/* What the worker does not speak of, though it was told to run it. */
static void count_missed(struct fleet *fleet, uint32_t index, uint64_t now_ns)
{
    struct place *place = &fleet->places[index];
    if (place->state != PLACE_RUNNING || ++place->beats_missed < FLEET_BEATS_MISSED)
        return;
    drop_run(fleet, place, now_ns);
}

static void on_beat(struct fleet *fleet, uint32_t lane, const struct wire_request *request,
                    uint64_t now_ns, struct fleet_reply *out)
{
    uint32_t first = lane * fleet->options.slots;
    bool is_spoken_of[WIRE_SLOTS_MAX] = { false };
    tell(fleet, WIRE_SLOTS, out);
    for (uint32_t i = 0; i < request->held_count; i++) {
        const struct wire_held *held = &request->held[i];
        is_spoken_of[held->slot] = true;
        on_held(fleet, first + held->slot, held, now_ns, &out->reply);
    }
    for (uint32_t i = 0; i < fleet->options.slots; i++)
        if (!is_spoken_of[i])
            count_missed(fleet, first + i, now_ns);
}

/* Requests. */

static bool makes_sense(const struct fleet *fleet, const struct wire_request *request)
{
    for (uint32_t i = 0; i < request->held_count; i++)
        if (request->held[i].slot >= fleet->options.slots ||
            (request->kind != WIRE_CLAIM &&
             (request->held[i].run.grains.end > fleet->options.grains ||
              request->held[i].run.epoch > fleet->options.epoch)))
            return false;
    return true;
}

static enum fleet_answer dispatch(struct fleet *fleet, uint32_t lane,
                                  const struct wire_request *request, uint64_t now_ns,
                                  struct fleet_reply *out)
{
    uint32_t index = lane * fleet->options.slots + request->held[0].slot;
    tell(fleet, WIRE_HEARD, out);
    switch (request->kind) {
    case WIRE_CLAIM:
        return on_claim(fleet, index, &request->held[0], now_ns, out);
    case WIRE_DONE:
        on_done(fleet, index, &request->held[0], now_ns);
        break;
    case WIRE_FAIL:
        on_fail(fleet, index, request, now_ns);
        break;
    case WIRE_BEAT:
        on_beat(fleet, lane, request, now_ns, out);
        break;
    case WIRE_GONE:
        fleet->counts.left++;
        fleet_lane_free(fleet, lane, false, now_ns);
        break;
    case WIRE_REQUEST_KINDS:
        break;
    }
    ask_parked(fleet, FLEET_ASKED_AT_ONCE);
    return FLEET_ANSWERED;
}

enum fleet_answer fleet_request(struct fleet *fleet, const struct wire_request *request,
                                uint64_t now_ns, struct fleet_reply *out)
{
    if (request->epoch > fleet->options.epoch && request->epoch > fleet->epoch_told)
        fleet->epoch_told = request->epoch;
    if (fleet->is_superseded || request->epoch > fleet->options.epoch)
        return FLEET_SILENT;
    if (!makes_sense(fleet, request)) {
        fleet->counts.refused++;
        return FLEET_SILENT;
    }
    uint32_t lane = fleet_lane_find(
        fleet,
        request->worker); /* Also a worker that has no lane shows that this submitter hears. */
    silence_heard(&fleet->silence, now_ns);
    if (lane != JOB_NONE)
        fleet_lane_heard(fleet, lane, now_ns);
    if (is_over(fleet)) {
        fleet_tell_over(fleet, JOB_NONE, out);
        return FLEET_ANSWERED;
    }
    if (lane == JOB_NONE && request->kind == WIRE_GONE) {
        tell(fleet, WIRE_HEARD, out);
        return FLEET_ANSWERED;
    }
    if (lane == JOB_NONE)
        lane = fleet_lane_take(fleet, request->worker, now_ns);
    if (lane == JOB_NONE) {
        tell(fleet, WIRE_FULL, out);
        return FLEET_ANSWERED;
    }
    return dispatch(fleet, lane, request, now_ns, out);
}
