/*
 * The simulator: core/job.h in virtual time. Devices are the model's: two links and one engine that
 * computes, each doing one thing at a time, in order. The sink takes results at once.
 */
#include "base/allocator.h"
#include "base/invariant.h"
#include "base/layout.h"
#include "core/job.h"
#include "model/machines.h"
#include "simulate/agenda.h"
#include "simulate/allocate.h"
#include "simulate/bound.h"
#include "simulate/engine.h"
#include "simulate/machines_run.h"
#include "simulate/result.h"

#include <muster/backend.h>
#include <muster/simulate.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Units that may be finished and undelivered, beside those that run. */
#define UNITS_BESIDE 65536u
/* Idle lanes that are asked after each happening, by turns; all are when nobody is at work. */
#define ASKED_AT_ONCE 8u
/* Without a limit of the scenario's, results that wait for their turn take at most this. */
#define WINDOW_BYTES ((uint64_t)1 << 30)
/* Items up to which an unordered job's results are checked one by one. */
#define MAP_ITEMS_MAX (UINT64_C(1) << 30)

enum happening_kind {
    HAPPENS_START,    /* the lane's first engine is free */
    HAPPENS_ARRIVAL,  /* the unit's input is on the device */
    HAPPENS_COMPUTED, /* of an engine that shares nothing */
    HAPPENS_FINISH,   /* the unit's output is on the host */
    HAPPENS_HEALTH,
    HAPPENS_OPENING,
    HAPPENS_WORTH /* it is looked whether opening devices is worth it */
};
#define NO_SLOT UINT32_MAX

/* A claimed unit on its way through a device. */
struct passage {
    struct job_ticket ticket;
    struct muster_range range;
    uint32_t serial;
    uint64_t begin_ns;
    bool is_used, is_started, fails, is_retry, is_copy;
    bool is_ready; /* its input is there, and the engine has another unit */
};

struct sim_lane {
    uint32_t device;
    struct engine engine;
    uint32_t computing; /* the slot whose unit the engine has; NO_SLOT */
    uint64_t in_free_ns, out_free_ns;
    struct passage *passages; /* `depth` of them */
    uint32_t *waiting;        /* those not started, oldest first: a ring of `depth` */
    uint32_t waiting_first, waiting_count;
    uint32_t inside; /* started and not finished */
    uint64_t busy_since_ns, busy_ns;
    uint64_t start_due_ns;  /* of the start that is in the agenda, UINT64_MAX if none */
    uint64_t health_due_ns; /* likewise */
    bool is_gone, is_open;
};

struct simulator {
    struct muster_allocator allocator;
    struct muster_simulation_options options;
    struct muster_simulation *result;
    struct muster_simulation_device *reports; /* the result's devices */
    struct model_device *devices;
    size_t device_count;
    struct scenario_job scenario;
    struct cost cost;
    struct take_part_lesson lesson; /* of the runs before */
    struct job *job;
    size_t job_bytes;
    struct sim_lane *lanes;
    uint32_t lane_count, depth;
    struct passage *passages;
    uint32_t *rings;
    struct agenda agenda;
    struct sharing sharing;
    bool has_no_memory; /* for all that is planned: the simulation cannot go on */
    bool has_changed;   /* of engines that share, somebody has begun or ended at now_ns */
    uint64_t now_ns, end_ns;
    uint32_t next_idle; /* the lane to ask next, by turns */
    uint32_t next_serial;
    uint64_t *map;     /* unordered: a bit for each item delivered */
    uint64_t expected; /* ordered: the item to be delivered next */
};

static const struct model_device *model_of(const struct simulator *s, const struct sim_lane *lane)
{
    return &s->devices[lane->device];
}

static bool is_sharing(const struct sim_lane *lane)
{
    return model_is_sharing(lane->engine.model);
}

/* Whose engine it is, of those that are a lane's. */
static uint32_t lane_of(const struct simulator *s, const struct engine *engine)
{
    const struct sim_lane *lane =
        (const void *)((const char *)engine - offsetof(struct sim_lane, engine));
    return (uint32_t)(lane - s->lanes);
}

/* Runs that were stopped leave happenings that come to nothing, so there may be any number. */
static void grow_agenda(struct simulator *s)
{
    struct agenda *agenda = &s->agenda;
    size_t capacity = 2 * agenda->capacity;
    struct happening *heap = allocator_take(&s->allocator, capacity, sizeof *heap);
    if (!heap) {
        s->has_no_memory = true;
        return;
    }
    memcpy(heap, agenda->heap, agenda->count * sizeof *heap);
    allocator_give(&s->allocator, agenda->heap, agenda->capacity, sizeof *heap);
    agenda->heap = heap;
    agenda->capacity = capacity;
}

static void plan(struct simulator *s, struct happening happening)
{
    if (s->agenda.count == s->agenda.capacity)
        grow_agenda(s);
    agenda_add(&s->agenda, happening);
}

/* Keeps one look at the device's health in the agenda, for when it next changes by itself. */
static void plan_health(struct simulator *s, uint32_t index)
{
    struct sim_lane *lane = &s->lanes[index];
    uint64_t at_ns = model_next_change_ns(model_of(s, lane), &lane->engine.state, s->now_ns);
    /* A launch that makes its device go has done so when it begins, which may be now. */
    if (model_health_at(model_of(s, lane), &lane->engine.state, s->now_ns) == MODEL_LOST)
        at_ns = s->now_ns;
    if (at_ns == MODEL_NEVER || at_ns >= lane->health_due_ns)
        return;
    lane->health_due_ns = at_ns;
    plan(s, (struct happening){ .at_ns = at_ns, .kind = HAPPENS_HEALTH, .lane = index });
}

static uint64_t bytes_of(uint64_t items, uint64_t item_bytes)
{
    uint64_t bytes;
    return __builtin_mul_overflow(items, item_bytes, &bytes) ? UINT64_MAX : bytes;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t items_in(const struct passage *passage)
{
    return passage->range.end - passage->range.begin;
}

static void tell(struct simulator *s, const struct muster_trace_event *event)
{
    if (!s->options.event)
        return;
    struct muster_trace_event whole = *event;
    whole.size = sizeof whole;
    s->options.event(s->options.event_user, &whole);
}

static void tell_unit(struct simulator *s, const struct sim_lane *lane,
                      const struct passage *passage, enum muster_trace_outcome outcome)
{
    uint64_t items = items_in(passage);
    tell(s, &(struct muster_trace_event){
                .kind = MUSTER_TRACE_UNIT,
                .outcome = outcome,
                .begin_ns = passage->begin_ns,
                .end_ns = s->now_ns,
                .range = passage->range,
                .bytes = sum(bytes_of(items, s->scenario.item_bytes_in),
                             bytes_of(items, s->scenario.item_bytes_out)),
                .device = lane->device,
                .job = 1,
                .status = outcome == MUSTER_TRACE_FAILED ? MUSTER_E_FAILED : MUSTER_OK,
                .is_retry = passage->is_retry,
                .is_copy = passage->is_copy,
            });
}

/* Plans when the lane's unit comes to the next engine; never if at_ns is. */
static void plan_unit(struct simulator *s, uint32_t index, uint32_t slot, enum happening_kind kind,
                      uint64_t at_ns)
{
    if (at_ns != MODEL_NEVER)
        plan(s, (struct happening){ .at_ns = at_ns,
                                    .kind = kind,
                                    .lane = index,
                                    .slot = slot,
                                    .serial = s->lanes[index].passages[slot].serial });
}

/* The engine, which is free, begins to compute a unit. */
static void compute(struct simulator *s, uint32_t index, uint32_t slot)
{
    struct sim_lane *lane = &s->lanes[index];
    struct passage *passage = &lane->passages[slot];
    engine_begin(&lane->engine, s->now_ns, cost_of(&s->cost, passage->range));
    passage->fails = lane->engine.work.fails;
    passage->is_ready = false;
    lane->computing = slot;
    s->has_changed = true;
    if (!is_sharing(lane))
        plan_unit(s, index, slot, HAPPENS_COMPUTED, lane->engine.due_ns);
    plan_health(s, index);
}

/* Plans when the lane is to start what waits there. */
static void plan_start(struct simulator *s, uint32_t index, uint64_t at_ns)
{
    struct sim_lane *lane = &s->lanes[index];
    if (at_ns >= lane->start_due_ns)
        return;
    lane->start_due_ns = at_ns;
    plan(s, (struct happening){ .at_ns = at_ns, .kind = HAPPENS_START, .lane = index });
}

/* The engine is free: the unit that has waited longest for it is next. */
static void compute_next(struct simulator *s, uint32_t index)
{
    struct sim_lane *lane = &s->lanes[index];
    uint32_t next = NO_SLOT;
    engine_end(&lane->engine);
    lane->computing = NO_SLOT;
    s->has_changed = true;
    for (uint32_t i = 0; i < s->depth; i++)
        if (lane->passages[i].is_used && lane->passages[i].is_ready &&
            (next == NO_SLOT || lane->passages[i].serial < lane->passages[next].serial))
            next = i;
    if (next != NO_SLOT)
        compute(s, index, next);
    else if (s->scenario.item_bytes_in == 0 && lane->waiting_count > 0)
        plan_start(s, index, s->now_ns);
}

/* When the device can begin its next unit: when the first engine it needs is free. */
static uint64_t entry_free_ns(const struct simulator *s, const struct sim_lane *lane)
{
    if (s->scenario.item_bytes_in > 0)
        return lane->in_free_ns;
    return lane->engine.is_busy ? MODEL_NEVER : s->now_ns;
}

/* Where the n-th of those that wait stands in the lane's ring, or the next would; at most `depth`. */
static uint32_t ring_at(const struct simulator *s, const struct sim_lane *lane, uint32_t n)
{
    uint32_t at = lane->waiting_first + n;
    return at < s->depth ? at : at - s->depth;
}

/* Starts what can be started on the lane now. */
static void start_units(struct simulator *s, uint32_t index)
{
    struct sim_lane *lane = &s->lanes[index];
    while (lane->waiting_count > 0 && !lane->is_gone) {
        uint64_t free_ns = entry_free_ns(s, lane);
        if (free_ns == MODEL_NEVER)
            return;
        if (free_ns > s->now_ns) {
            plan_start(s, index, free_ns);
            return;
        }
        uint32_t slot = lane->waiting[lane->waiting_first];
        struct passage *passage = &lane->passages[slot];
        lane->waiting_first = ring_at(s, lane, 1);
        lane->waiting_count--;
        if (!job_kick(s->job, passage->ticket, s->now_ns)) {
            passage->is_used = false; /* taken back */
            continue;
        }
        passage->is_started = true;
        passage->begin_ns = s->now_ns;
        if (lane->inside++ == 0)
            lane->busy_since_ns = s->now_ns;
        lane->engine.has_work = true;
        s->has_changed = true;
        if (s->scenario.item_bytes_in == 0) {
            compute(s, index, slot);
            continue;
        }
        lane->in_free_ns =
            model_copy_finish_ns(model_of(s, lane), &lane->engine.state, MODEL_LINK_H2D, s->now_ns,
                                 bytes_of(items_in(passage), s->scenario.item_bytes_in));
        plan_unit(s, index, slot, HAPPENS_ARRIVAL, lane->in_free_ns);
        plan_health(s, index);
    }
}

/* A slot for one more unit; those whose unit was taken back before the lane came to it are free. */
static uint32_t free_slot(struct simulator *s, struct sim_lane *lane)
{
    uint32_t slot = 0;
    while (slot < s->depth && lane->passages[slot].is_used)
        slot++;
    for (uint32_t i = slot == s->depth ? lane->waiting_count : 0; i > 0; i--) {
        uint32_t first = lane->waiting[lane->waiting_first];
        lane->waiting_first = ring_at(s, lane, 1);
        lane->waiting_count--;
        if (job_is_out(s->job, lane->passages[first].ticket)) {
            lane->waiting[ring_at(s, lane, lane->waiting_count++)] = first;
        } else {
            lane->passages[first].is_used = false;
            slot = first;
        }
    }
    INVARIANT(slot < s->depth);
    return slot;
}

/* Asks for units until the lane has enough or gets none. */
static bool claim_units(struct simulator *s, uint32_t index)
{
    struct sim_lane *lane = &s->lanes[index];
    struct job_claim claim;
    bool got_some = false;
    while (!lane->is_gone && job_claim(s->job, index, s->now_ns, &claim)) {
        uint32_t slot = free_slot(s, lane);
        lane->passages[slot] = (struct passage){ .ticket = claim.ticket,
                                                 .range = claim.range,
                                                 .serial = s->next_serial++,
                                                 .is_used = true,
                                                 .is_retry = claim.is_retry,
                                                 .is_copy = claim.is_copy };
        lane->waiting[ring_at(s, lane, lane->waiting_count++)] = slot;
        got_some = true;
        uint64_t used = job_window_used(s->job);
        if (used > s->result->window_max)
            s->result->window_max = used;
        start_units(s, index);
    }
    return got_some;
}

static void deliver(struct simulator *s)
{
    uint32_t unit;
    struct muster_range range;
    while (job_next_result(s->job, &unit, &range)) {
        if (s->scenario.ordered) {
            s->result->out_of_order += range.begin > s->expected;
            s->result->duplicated += range.begin < s->expected;
            s->expected = range.end;
        }
        for (uint64_t i = range.begin; s->map && i < range.end; i++) {
            s->result->duplicated += s->map[i / 64] >> (i % 64) & 1;
            s->map[i / 64] |= (uint64_t)1 << (i % 64);
        }
        job_delivered(s->job, unit);
        s->end_ns = s->now_ns;
        tell(s, &(struct muster_trace_event){ .kind = MUSTER_TRACE_DELIVERY,
                                              .begin_ns = s->now_ns,
                                              .end_ns = s->now_ns,
                                              .range = range,
                                              .job = 1 });
    }
}

static void leave(struct simulator *s, struct sim_lane *lane, struct passage *passage)
{
    passage->is_used = false;
    if (--lane->inside > 0)
        return;
    lane->busy_ns += s->now_ns - lane->busy_since_ns;
    lane->engine.has_work = false;
    s->has_changed = true;
}

/* The passage that a happening is about; NULL if it has ended meanwhile. */
static struct passage *passage_of(struct simulator *s, const struct happening *happening)
{
    struct sim_lane *lane = &s->lanes[happening->lane];
    struct passage *passage = &lane->passages[happening->slot];
    bool is_it = passage->is_used && passage->serial == happening->serial && !lane->is_gone;
    return is_it ? passage : NULL;
}

/* Whether a copy that was planned has come to nothing, since a later launch made the device hang or go. */
static bool is_held_up(struct simulator *s, const struct happening *happening)
{
    const struct sim_lane *lane = &s->lanes[happening->lane];
    const struct model_device *model = model_of(s, lane);
    enum model_health health = model_health_at(model, &lane->engine.state, s->now_ns);
    if (health == MODEL_HUNG)
        plan_unit(s, happening->lane, happening->slot, (enum happening_kind)happening->kind,
                  model_next_change_ns(model, &lane->engine.state, s->now_ns));
    return health != MODEL_OK;
}

/* The unit is through the device, or stopped on the way. */
static enum job_verdict end_unit(struct simulator *s, struct sim_lane *lane,
                                 struct passage *passage, enum job_end end)
{
    enum job_verdict verdict = job_finish(s->job, passage->ticket, end, s->now_ns);
    tell_unit(s, lane, passage,
              verdict == JOB_ACCEPTED ? MUSTER_TRACE_DONE
              : verdict == JOB_LATE   ? MUSTER_TRACE_LATE
                                      : MUSTER_TRACE_FAILED);
    leave(s, lane, passage);
    return verdict;
}

/* Stops runs of the lane that are not wanted any more; a copy is not broken off. */
static void stop_units(struct simulator *s, uint32_t index)
{
    struct sim_lane *lane = &s->lanes[index];
    struct job_lane_report report;
    job_lane_report(s->job, index, &report);
    /* One that is taken for hung does not answer: that it ends after all is how the scheduler learns. */
    if (report.is_hung || model_of(s, lane)->is_unstoppable || lane->is_gone ||
        model_health_at(model_of(s, lane), &lane->engine.state, s->now_ns) != MODEL_OK)
        return;
    for (uint32_t i = 0; i < s->depth; i++) {
        struct passage *passage = &lane->passages[i];
        bool is_here = i == lane->computing || passage->is_ready;
        if (!passage->is_used || !is_here || !job_should_stop(s->job, passage->ticket))
            continue;
        end_unit(s, lane, passage, JOB_END_STOPPED);
        if (i == lane->computing)
            compute_next(s, index);
    }
}

static void finish(struct simulator *s, struct sim_lane *lane, struct passage *passage)
{
    uint32_t woken;
    if (end_unit(s, lane, passage, passage->fails ? JOB_END_UNIT : JOB_END_OK) == JOB_ACCEPTED)
        deliver(s);
    while (job_state(s->job) == JOB_RUNNING && (woken = job_wake_lane(s->job)) != JOB_NONE)
        stop_units(s, woken);
}

static void on_arrival(struct simulator *s, const struct happening *happening)
{
    struct sim_lane *lane = &s->lanes[happening->lane];
    struct passage *passage = passage_of(s, happening);
    if (!passage || is_held_up(s, happening))
        return;
    passage->is_ready = true;
    if (!lane->engine.is_busy)
        compute(s, happening->lane, happening->slot);
    stop_units(s, happening->lane);
}

static void on_computed(struct simulator *s, const struct happening *happening)
{
    struct sim_lane *lane = &s->lanes[happening->lane];
    struct passage *passage = passage_of(s, happening);
    if (!passage)
        return;
    compute_next(s, happening->lane);
    if (s->scenario.item_bytes_out == 0) {
        finish(s, lane, passage);
        return;
    }
    uint64_t at_ns = s->now_ns > lane->out_free_ns ? s->now_ns : lane->out_free_ns;
    lane->out_free_ns =
        model_copy_finish_ns(model_of(s, lane), &lane->engine.state, MODEL_LINK_D2H, at_ns,
                             bytes_of(items_in(passage), s->scenario.item_bytes_out));
    plan_unit(s, happening->lane, happening->slot, HAPPENS_FINISH, lane->out_free_ns);
}

static void on_finish(struct simulator *s, const struct happening *happening)
{
    struct passage *passage = passage_of(s, happening);
    if (passage && !is_held_up(s, happening))
        finish(s, &s->lanes[happening->lane], passage);
}

static void on_health(struct simulator *s, uint32_t index)
{
    struct sim_lane *lane = &s->lanes[index];
    lane->health_due_ns = UINT64_MAX;
    if (lane->is_gone)
        return;
    if (model_health_at(model_of(s, lane), &lane->engine.state, s->now_ns) == MODEL_LOST) {
        lane->is_gone = true;
        if (lane->engine.is_busy)
            engine_end(&lane->engine);
        for (uint32_t i = 0; i < s->depth; i++)
            if (lane->passages[i].is_used && lane->passages[i].is_started) {
                tell_unit(s, lane, &lane->passages[i], MUSTER_TRACE_LOST);
                leave(s, lane, &lane->passages[i]);
            }
        tell(s, &(struct muster_trace_event){ .kind = MUSTER_TRACE_DEVICE_LOST,
                                              .begin_ns = s->now_ns,
                                              .end_ns = s->now_ns,
                                              .device = lane->device,
                                              .job = 1 });
        if (lane->is_open)
            job_lane_lost(s->job, index, s->now_ns);
        else
            job_lane_give_up(s->job, index);
        return;
    }
    plan_health(s, index);
}

/* Lets lanes without enough work ask again: some, or all after a look or if nobody is at work. */
static void ask_lanes(struct simulator *s, uint32_t first, bool all)
{
    if (s->scenario.place) {
        for (uint32_t lane; (lane = job_place(s->job, s->now_ns)) != JOB_NONE;)
            if (!claim_units(s, lane))
                break;
    }
    claim_units(s, first);
    uint32_t count = all || s->lane_count < ASKED_AT_ONCE ? s->lane_count : ASKED_AT_ONCE;
    for (uint32_t i = 0; i < count; i++) {
        claim_units(s, s->next_idle);
        s->next_idle = s->next_idle + 1 < s->lane_count ? s->next_idle + 1 : 0;
    }
}

static uint64_t later_ns(uint64_t at_ns, uint64_t ns)
{
    return ns > UINT64_MAX - at_ns ? UINT64_MAX : at_ns + ns;
}

/* The job starts without devices that take time to open, which begins when the core says so. */
static void open_if_worth(struct simulator *s)
{
    uint64_t look_ns;
    if (!job_should_open(s->job, true, 0, s->now_ns, &look_ns)) {
        plan(s, (struct happening){ .at_ns = look_ns, .kind = HAPPENS_WORTH });
        return;
    }
    for (uint32_t i = 0; i < s->lane_count; i++)
        if (!s->lanes[i].is_open)
            plan(s, (struct happening){
                        .at_ns = later_ns(s->now_ns, model_of(s, &s->lanes[i])->opens_ns),
                        .kind = HAPPENS_OPENING,
                        .lane = i });
}

static void happen(struct simulator *s, const struct happening *happening)
{
    struct sim_lane *lane = &s->lanes[happening->lane];
    switch ((enum happening_kind)happening->kind) {
    case HAPPENS_START:
        lane->start_due_ns = UINT64_MAX;
        start_units(s, happening->lane);
        break;
    case HAPPENS_ARRIVAL:
        on_arrival(s, happening);
        break;
    case HAPPENS_COMPUTED:
        on_computed(s, happening);
        break;
    case HAPPENS_FINISH:
        on_finish(s, happening);
        break;
    case HAPPENS_HEALTH:
        on_health(s, happening->lane);
        break;
    case HAPPENS_OPENING:
        if (lane->is_gone)
            break;
        lane->is_open = true;
        job_lane_join(s->job, happening->lane, s->now_ns);
        break;
    case HAPPENS_WORTH:
        open_if_worth(s);
        break;
    }
}

/* The next happening, taken out: of an engine that shares, or of the agenda. */
static bool next_happening(struct simulator *s, uint64_t before_ns, struct happening *out)
{
    if (s->has_changed)
        sharing_update(&s->sharing, s->now_ns);
    s->has_changed = false;
    uint32_t first = sharing_first(&s->sharing);
    uint64_t due_ns = first < s->sharing.count ? s->sharing.engines[first]->due_ns : MODEL_NEVER;
    uint64_t agenda_ns = agenda_next_ns(&s->agenda);
    if ((due_ns < agenda_ns ? due_ns : agenda_ns) > before_ns)
        return false;
    if (due_ns > agenda_ns || first == s->sharing.count)
        return agenda_next(&s->agenda, out);
    uint32_t index = lane_of(s, s->sharing.engines[first]);
    uint32_t slot = s->lanes[index].computing;
    *out = (struct happening){ .at_ns = due_ns,
                               .kind = HAPPENS_COMPUTED,
                               .lane = index,
                               .slot = slot,
                               .serial = s->lanes[index].passages[slot].serial };
    return true;
}

static void open_later(struct simulator *s, uint32_t index)
{
    uint64_t at_ns = model_of(s, &s->lanes[index])->opens_ns;
    s->lanes[index].is_open = at_ns == 0;
    if (at_ns == 0)
        return;
    job_lane_expect(s->job, index);
    if (!s->scenario.opens_when_worth)
        plan(s, (struct happening){ .at_ns = at_ns, .kind = HAPPENS_OPENING, .lane = index });
}

static bool has_closed(const struct simulator *s)
{
    uint32_t i = 0;
    while (i < s->lane_count && s->lanes[i].is_open)
        i++;
    return i < s->lane_count;
}

static void check(struct simulator *s)
{
    if (s->options.check && !s->result->broken)
        s->result->broken = job_check(s->job);
}

static void run(struct simulator *s)
{
    struct happening happening = { .lane = 0 };
    /* Also finds those that are gone from the beginning: nothing may be begun on them. */
    for (uint32_t i = 0; i < s->lane_count; i++)
        open_later(s, i);
    if (s->scenario.opens_when_worth && has_closed(s)) {
        job_opens_later(s->job);
        open_if_worth(s);
    }
    for (uint32_t i = 0; i < s->lane_count; i++)
        on_health(s, i);
    ask_lanes(s, 0, true);
    check(s);
    while (job_state(s->job) == JOB_RUNNING && !s->has_no_memory) {
        uint64_t look_ns = job_look_due(s->job);
        bool looks = !next_happening(s, look_ns, &happening);
        if (!looks) {
            s->now_ns = happening.at_ns;
            happen(s, &happening);
        } else if (look_ns != UINT64_MAX) {
            s->now_ns = look_ns;
            job_look(s->job, s->now_ns);
        } else {
            break;
        }
        if (job_state(s->job) != JOB_RUNNING)
            break;
        ask_lanes(s, happening.lane, looks || job_is_quiet(s->job));
        check(s);
    }
    if (s->has_no_memory)
        return;
    check(s);
    /* Nothing is going to happen and the job is not over: that is the simulator's or the core's fault. */
    if (job_state(s->job) == JOB_RUNNING && !s->result->broken)
        s->result->broken = "the job stands still";
}

/* The report. */

/* What devices were still at when the job was over. Nobody waits for it. */
static void report_rest(struct simulator *s)
{
    for (uint32_t i = 0; i < s->lane_count; i++) {
        struct sim_lane *lane = &s->lanes[i];
        bool is_ok = model_health_at(model_of(s, lane), &lane->engine.state, s->now_ns) == MODEL_OK;
        for (uint32_t k = 0; k < s->depth && !lane->is_gone; k++)
            if (lane->passages[k].is_used && lane->passages[k].is_started)
                tell_unit(s, lane, &lane->passages[k],
                          is_ok ? MUSTER_TRACE_LATE : MUSTER_TRACE_LOST);
    }
}

static void tell_job(struct simulator *s)
{
    const struct muster_simulation *result = s->result;
    tell(s, &(struct muster_trace_event){
                .kind = MUSTER_TRACE_JOB,
                .outcome = result->status == MUSTER_OK ? MUSTER_TRACE_DONE : MUSTER_TRACE_FAILED,
                .end_ns = result->makespan_ns,
                .range = { 0, s->scenario.items },
                .job = 1,
                .status = result->status,
            });
}

static void finish_report(struct simulator *s)
{
    struct muster_simulation *result = s->result;
    result->makespan_ns = s->end_ns;
    result->units = job_units_made(s->job);
    result->items_delivered = job_items_delivered(s->job);
    result->lost = s->scenario.items - result->items_delivered;
    result->retries = job_retries(s->job);
    result->status = job_state(s->job) == JOB_DONE ? MUSTER_OK : MUSTER_E_FAILED;
    result->failed_count = job_failed_ranges(s->job, result->failed, MUSTER_SIMULATION_FAILED_MAX);
    if (result->status != MUSTER_OK)
        result->makespan_ns = s->now_ns;
    if (result->bound_ns == UINT64_MAX)
        result->bound_ns = 0;
    if (result->bound_ns > 0)
        result->ratio = (double)result->makespan_ns / (double)result->bound_ns;
    for (uint32_t i = 0; i < s->lane_count; i++) {
        struct sim_lane *lane = &s->lanes[i];
        struct muster_simulation_device *device = &s->reports[lane->device];
        struct job_lane_report report;
        job_lane_report(s->job, i, &report);
        if (lane->inside > 0)
            lane->busy_ns += result->makespan_ns - lane->busy_since_ns;
        device->items = report.items;
        device->units = report.units;
        device->retries = report.retries;
        device->busy_ns = lane->busy_ns;
        device->faster_without = report.faster_without;
        device->health = report.is_lost || lane->is_gone ? "lost"
                         : report.is_hung                ? "hung"
                         : report.is_quarantined         ? "quarantined"
                                                         : "ok";
    }
}

static muster_status read_scenario(struct simulator *s, const char *text, size_t bytes,
                                   struct muster_error *err)
{
    muster_status status = scenario_read(text, bytes, NULL, 0, &s->device_count, &s->scenario, err);
    if (status != MUSTER_E_CAPACITY)
        return status;
    s->devices = allocator_take(&s->allocator, s->device_count, sizeof *s->devices);
    if (!s->devices)
        return result_no_memory(err);
    return scenario_read(text, bytes, s->devices, s->device_count, &s->device_count, &s->scenario,
                         err);
}

/* Says which hint refuses which devices, as far as there is room for it. */
static muster_status none_eligible(const struct simulator *s, struct muster_error *err)
{
    const struct muster_simulation_device *devices = s->reports;
    char words[160];
    size_t used = 0;
    for (size_t i = 0, next; i < s->device_count && used < sizeof words; i = next) {
        next = i + 1;
        while (next < s->device_count && devices[next].refused == devices[i].refused)
            next++;
        int length = snprintf(words + used, sizeof words - used, "%s%s%s%s by %s",
                              i > 0 ? ", " : "", devices[i].id, next > i + 1 ? " to " : "",
                              next > i + 1 ? devices[next - 1].id : "", devices[i].refused);
        used += length > 0 ? (size_t)length : 0;
    }
    return muster_error_fill(err, MUSTER_E_NO_DEVICE, 0, "ask for less, or describe larger devices",
                             "the hints refuse every device: %s", words);
}

static muster_status make_result(struct simulator *s, struct muster_error *err)
{
    struct result *result = result_make(&s->allocator, s->device_count, 0);
    if (!result)
        return result_no_memory(err);
    s->result = &result->simulation;
    s->result->seed = s->options.seed;
    s->reports = result->devices;
    for (size_t i = 0; i < s->device_count; i++) {
        struct muster_simulation_device *device = &s->reports[i];
        snprintf(device->id, sizeof device->id, "sim:%zu", i);
        snprintf(device->name, sizeof device->name, "%s", s->devices[i].name);
        if (scenario_eligible(&s->scenario, &s->devices[i], &device->refused))
            s->lane_count++;
    }
    return s->lane_count > 0 ? MUSTER_OK : none_eligible(s, err);
}

static muster_status make_bound(struct simulator *s, struct muster_error *err)
{
    size_t edges_max = bound_edges_max(s->devices, s->device_count);
    struct bound_edge *edges = allocator_take(&s->allocator, edges_max, sizeof *edges);
    bool *eligible = allocator_take(&s->allocator, s->device_count, sizeof *eligible);
    muster_status status = MUSTER_OK;
    if (!edges || !eligible) {
        status = result_no_memory(err);
    } else {
        for (size_t i = 0; i < s->device_count; i++)
            eligible[i] = s->reports[i].refused == NULL;
        s->result->bound_ns =
            bound_ns(s->devices, eligible, s->device_count, &s->scenario, &s->cost, edges);
    }
    allocator_give(&s->allocator, eligible, s->device_count, sizeof *eligible);
    allocator_give(&s->allocator, edges, edges_max, sizeof *edges);
    return status;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static struct job_options job_options_of(const struct simulator *s)
{
    const struct scenario_job *job = &s->scenario;
    struct job_options options = { .items = job->items,
                                   .unit = (enum job_unit_rule)job->unit,
                                   .unit_items = job->unit_items,
                                   .window = job->window,
                                   .lane_count = s->lane_count,
                                   .depth = job->depth,
                                   .units_max = s->lane_count * job->depth +
                                                (uint32_t)smaller(job->items, UNITS_BESIDE),
                                   .tries = job->tries,
                                   .ordered = job->ordered,
                                   .speculate = job->speculate,
                                   .place = job->place,
                                   .policy = (enum job_policy)job->policy,
                                   .leaves_out = !s->options.everyone,
                                   .lesson = &s->lesson };
    if (options.window == 0 && job->item_bytes_out > 0) {
        options.window = WINDOW_BYTES / job->item_bytes_out;
        uint64_t least = (uint64_t)s->lane_count * job->depth * 4;
        options.window = options.window < least ? least : options.window;
    }
    return options;
}
_Static_assert((int)SCENARIO_UNIT_FIXED == (int)JOB_UNIT_FIXED, "the rules are numbered alike");
_Static_assert((int)SCENARIO_EARLIEST_FINISH == (int)JOB_EARLIEST_FINISH,
               "the policies are numbered alike");

static muster_status make_lanes(struct simulator *s, struct muster_error *err)
{
    struct job_options options = job_options_of(s);
    size_t slots = (size_t)s->lane_count * s->scenario.depth;
    s->depth = s->scenario.depth;
    s->job_bytes = job_bytes(&options);
    INVARIANT(s->job_bytes > 0);
    void *memory = allocator_take(&s->allocator, s->job_bytes, 1);
    s->lanes = allocator_take(&s->allocator, s->lane_count, sizeof *s->lanes);
    s->passages = allocator_take(&s->allocator, slots, sizeof *s->passages);
    s->rings = allocator_take(&s->allocator, slots, sizeof *s->rings);
    s->sharing.resources = &s->scenario.resources;
    s->sharing.engines = allocator_take(&s->allocator, s->lane_count, sizeof(struct engine *));
    /* For each lane its finishes, one start, and looks at its health, of which old ones may linger. */
    size_t happenings = 2 * slots + 4 * (size_t)s->lane_count + 64;
    struct happening *heap = allocator_take(&s->allocator, happenings, sizeof *heap);
    s->job = memory;
    agenda_init(&s->agenda, heap, happenings);
    if (!memory || !s->lanes || !s->passages || !s->rings || !heap || !s->sharing.engines)
        return result_no_memory(err);
    s->job = job_init(memory, &options, 0);
    uint32_t lane = 0;
    for (size_t i = 0; i < s->device_count; i++) {
        if (s->reports[i].refused)
            continue;
        s->lanes[lane] = (struct sim_lane){ .device = (uint32_t)i,
                                            .passages = s->passages + (size_t)lane * s->depth,
                                            .waiting = s->rings + (size_t)lane * s->depth,
                                            .computing = NO_SLOT,
                                            .start_due_ns = UINT64_MAX,
                                            .health_due_ns = UINT64_MAX };
        engine_init(&s->lanes[lane].engine, &s->devices[i], s->options.seed, (uint32_t)i);
        if (is_sharing(&s->lanes[lane]))
            s->sharing.engines[s->sharing.count++] = &s->lanes[lane].engine;
        job_lane_describe(s->job, lane, lane, s->devices[i].weight);
        lane++;
    }
    if (!s->scenario.ordered && s->scenario.items <= MAP_ITEMS_MAX) {
        s->map = allocator_take(&s->allocator, s->scenario.items / 64 + 1, sizeof *s->map);
        if (!s->map)
            return result_no_memory(err);
    }
    return MUSTER_OK;
}

static void free_simulator(struct simulator *s)
{
    size_t slots = (size_t)s->lane_count * s->scenario.depth;
    allocator_give(&s->allocator, s->map, s->scenario.items / 64 + 1, sizeof *s->map);
    allocator_give(&s->allocator, s->agenda.heap, s->agenda.capacity, sizeof *s->agenda.heap);
    allocator_give(&s->allocator, s->sharing.engines, s->lane_count, sizeof(struct engine *));
    allocator_give(&s->allocator, s->rings, slots, sizeof *s->rings);
    allocator_give(&s->allocator, s->passages, slots, sizeof *s->passages);
    allocator_give(&s->allocator, s->lanes, s->lane_count, sizeof *s->lanes);
    allocator_give(&s->allocator, s->job, s->job_bytes, 1);
    allocator_give(&s->allocator, s->devices, s->device_count, sizeof *s->devices);
}

/* Runs the job once, with what was learned before, which is then what it has learned. */
static muster_status simulate(const char *text, size_t bytes,
                              const struct muster_simulation_options *options,
                              const struct muster_allocator *allocator,
                              struct take_part_lesson *lesson, struct muster_simulation **out,
                              struct muster_error *err)
{
    struct simulator s = { .options = *options, .allocator = *allocator, .lesson = *lesson };
    muster_status status = read_scenario(&s, text, bytes, err);
    if (status == MUSTER_OK)
        status = make_result(&s, err);
    if (status == MUSTER_OK) {
        cost_init(&s.cost, &s.scenario, s.options.seed);
        status = make_bound(&s, err);
    }
    if (status == MUSTER_OK)
        status = make_lanes(&s, err);
    if (status == MUSTER_OK) {
        run(&s);
        status = s.has_no_memory ? result_no_memory(err) : MUSTER_OK;
    }
    if (status == MUSTER_OK) {
        report_rest(&s);
        finish_report(&s);
        tell_job(&s);
        job_learn(s.job, lesson, 0, s.now_ns);
        *out = s.result;
    } else {
        muster_simulation_destroy(s.result);
    }
    free_simulator(&s);
    return status;
}

muster_status muster_simulate(const char *text, size_t bytes,
                              const struct muster_simulation_options *options,
                              struct muster_simulation **out, struct muster_error *err)
{
    struct muster_simulation_options read = { .size = sizeof read };
    struct muster_allocator allocator;
    struct take_part_lesson lesson = { .jobs = 0 };
    muster_status status = MUSTER_OK;
    if (!text || !out)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL,
                                 "muster_simulate: an argument is NULL");
    if (options)
        status = layout_read(LAYOUT(muster_simulation_options), options, &read, err);
    if (status == MUSTER_OK)
        status = allocator_read(read.allocator, &simulate_allocator, &allocator, err);
    if (status == MUSTER_OK && machines_are_in(text, bytes))
        return machines_simulate(text, bytes, &read, &allocator, out, err);
    struct muster_simulation_options silent = read;
    silent.event = NULL;
    for (uint32_t i = 1; i < read.runs && status == MUSTER_OK; i++) {
        struct muster_simulation *earlier = NULL;
        status = simulate(text, bytes, &silent, &allocator, &lesson, &earlier, err);
        muster_simulation_destroy(earlier);
    }
    if (status == MUSTER_OK)
        status = simulate(text, bytes, &read, &allocator, &lesson, out, err);
    return status;
}
