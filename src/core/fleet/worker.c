#include "core/fleet/worker.h"

#include "base/invariant.h"

/* Said so often without an answer, gone is taken for heard: silence says the same. */
#define GONE_SAID_MAX 4

void worker_init(struct worker *worker, uint64_t id, uint32_t slots, uint64_t now_ns)
{
    INVARIANT(id != 0 && slots > 0 && slots <= WIRE_SLOTS_MAX);
    *worker =
        (struct worker){ .id = id, .slot_count = slots, .wanted = slots, .beat_due_ns = now_ns };
    for (uint32_t i = 0; i < slots; i++)
        worker->slots[i].held.slot = i;
}

void worker_want(struct worker *worker, uint32_t slots)
{
    worker->wanted = slots < worker->slot_count ? slots : worker->slot_count;
}

uint32_t worker_used(const struct worker *worker)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < worker->slot_count; i++)
        used += worker->slots[i].state != WORKER_FREE;
    return used;
}

/* A claim that has no answer is dropped: should one come, its run is given back. */
static void drop_claims(struct worker *worker)
{
    for (uint32_t i = 0; i < worker->slot_count; i++)
        if (worker->slots[i].state == WORKER_CLAIMING)
            worker->slots[i].state = WORKER_FREE;
}

void worker_leave(struct worker *worker)
{
    worker->leaves = true;
    drop_claims(worker);
}

void worker_hurry(struct worker *worker, uint64_t now_ns)
{
    worker->beat_due_ns = now_ns;
    for (uint32_t i = 0; i < worker->slot_count; i++)
        if (worker->slots[i].state == WORKER_CLAIMING || worker->slots[i].state == WORKER_REPORTING)
            worker->slots[i].due_ns = now_ns;
}

/* Requests. */

static bool may_claim(const struct worker *worker)
{
    return !worker->leaves && !worker->is_over && worker_used(worker) < worker->wanted;
}

static bool must_say_gone(const struct worker *worker)
{
    return worker->leaves && !worker->is_gone && !worker->is_over && worker_used(worker) == 0;
}

static void begin_request(const struct worker *worker, enum wire_request_kind kind,
                          struct wire_request *out)
{
    *out = (struct wire_request){
        .kind = kind, .epoch = worker->epoch, .worker = worker->id, .at = WIRE_NO_GRAIN
    };
}

static void print_slot(const struct worker *worker, struct worker_slot *slot, uint64_t now_ns,
                       struct wire_request *out)
{
    bool is_claim = slot->state == WORKER_CLAIMING;
    begin_request(worker, is_claim ? WIRE_CLAIM : slot->has_failed ? WIRE_FAIL : WIRE_DONE, out);
    out->held[0] = slot->held;
    out->held_count = 1;
    if (is_claim)
        out->held[0].run = (struct wire_run){ .epoch = 0 };
    if (!is_claim && slot->has_failed) {
        out->class_ = slot->class_;
        out->at = slot->at;
    }
    slot->due_ns = now_ns + slot->wait_ns;
    if (!is_claim && slot->wait_ns < WORKER_REPORT_AGAIN_MAX_NS)
        slot->wait_ns *= 2;
}

static void print_beat(struct worker *worker, uint64_t now_ns, struct wire_request *out)
{
    begin_request(worker, WIRE_BEAT, out);
    for (uint32_t i = 0; i < worker->slot_count; i++) {
        const struct worker_slot *slot = &worker->slots[i];
        if (slot->state == WORKER_GIVEN || slot->state == WORKER_RUNNING)
            out->held[out->held_count++] = slot->held;
    }
    worker->beat_due_ns = now_ns + WORKER_BEAT_NS;
}

/* Free slots begin to claim, as far as they may. */
static void begin_claims(struct worker *worker, uint64_t now_ns)
{
    for (uint32_t i = 0; i < worker->slot_count && may_claim(worker); i++) {
        struct worker_slot *slot = &worker->slots[i];
        if (slot->state != WORKER_FREE)
            continue;
        *slot = (struct worker_slot){ .state = WORKER_CLAIMING,
                                      .held = { .slot = i, .seq = slot->held.seq + 1 },
                                      .due_ns = now_ns,
                                      .wait_ns = WORKER_CLAIM_AGAIN_NS };
    }
}

bool worker_next_request(struct worker *worker, uint64_t now_ns, struct wire_request *out)
{
    if (worker->is_gone || worker->is_over)
        return false;
    if (must_say_gone(worker)) {
        if (worker->gone_due_ns > now_ns)
            return false;
        if (worker->gone_said++ == GONE_SAID_MAX) {
            worker->is_gone = true;
            return false;
        }
        worker->gone_due_ns = now_ns + WORKER_REPORT_AGAIN_NS;
        begin_request(worker, WIRE_GONE, out);
        return true;
    }
    begin_claims(worker, now_ns);
    for (uint32_t i = 0; i < worker->slot_count; i++) {
        struct worker_slot *slot = &worker->slots[i];
        bool is_asking = slot->state == WORKER_CLAIMING || slot->state == WORKER_REPORTING;
        if (!is_asking || slot->due_ns > now_ns)
            continue;
        print_slot(worker, slot, now_ns, out);
        return true;
    }
    if (worker->beat_due_ns > now_ns)
        return false;
    print_beat(worker, now_ns, out);
    return true;
}

uint64_t worker_due(const struct worker *worker)
{
    uint64_t due_ns = worker->beat_due_ns;
    if (worker->is_gone || worker->is_over)
        return UINT64_MAX;
    if (must_say_gone(worker))
        return worker->gone_due_ns;
    if (may_claim(worker))
        return 0;
    for (uint32_t i = 0; i < worker->slot_count; i++) {
        const struct worker_slot *slot = &worker->slots[i];
        bool is_asking = slot->state == WORKER_CLAIMING || slot->state == WORKER_REPORTING;
        if (is_asking && slot->due_ns < due_ns)
            due_ns = slot->due_ns;
    }
    return due_ns;
}

/* Answers. */

static struct worker_slot *find_slot(struct worker *worker, const struct wire_held *held)
{
    if (held->slot >= worker->slot_count || worker->slots[held->slot].held.seq != held->seq)
        return NULL;
    return &worker->slots[held->slot];
}

static bool has_run(const struct worker_slot *slot)
{
    return slot->state == WORKER_GIVEN || slot->state == WORKER_RUNNING;
}

static bool on_run(struct worker *worker, const struct wire_held *held, uint64_t now_ns)
{
    struct worker_slot *slot = find_slot(worker, held);
    bool is_dropped = slot && slot->state == WORKER_FREE && slot->held.run.epoch == 0;
    if (!slot || (slot->state != WORKER_CLAIMING && !is_dropped))
        return false;
    slot->state = is_dropped ? WORKER_RUNNING : WORKER_GIVEN;
    slot->held.run = held->run;
    slot->order = worker->next_order++;
    if (is_dropped)
        worker_failed(worker, held->slot, WIRE_CLASS_BACK, WIRE_NO_GRAIN, now_ns);
    return true;
}

/* The slot's claim is an old one to the submitter: it claims with a new SEQ. */
static bool on_late(struct worker *worker, const struct wire_request *request)
{
    struct worker_slot *slot = find_slot(worker, &request->held[0]);
    if (request->kind != WIRE_CLAIM || !slot || slot->state != WORKER_CLAIMING)
        return false;
    slot->state = WORKER_FREE;
    return true;
}

static bool on_heard(struct worker *worker, const struct wire_request *request)
{
    if (request->kind == WIRE_GONE) {
        worker->is_gone = worker->leaves;
        return true;
    }
    struct worker_slot *slot = find_slot(worker, &request->held[0]);
    bool is_report = request->kind == WIRE_DONE || request->kind == WIRE_FAIL;
    if (!is_report || !slot || slot->state != WORKER_REPORTING)
        return false;
    slot->state = WORKER_FREE;
    return true;
}

static bool on_slots(struct worker *worker, const struct wire_reply *reply)
{
    for (uint32_t i = 0; i < reply->held_count; i++) {
        struct worker_slot *slot = find_slot(worker, &reply->held[i]);
        if (!slot || !has_run(slot))
            continue;
        slot->is_unwanted = reply->drops[i];
        /* Its name is new; what is run stays what it is, and a part of it may be all that is wanted. */
        if (!reply->drops[i]) {
            slot->held.run.epoch = reply->held[i].run.epoch;
            slot->held.run.attempt = reply->held[i].run.attempt;
            slot->held.run.generation = reply->held[i].run.generation;
        }
    }
    return true;
}

bool worker_reply(struct worker *worker, const struct wire_request *request,
                  const struct wire_reply *reply, uint64_t now_ns)
{
    if (reply->epoch < worker->epoch || worker->is_gone || worker->is_over)
        return false;
    worker->epoch = reply->epoch;
    switch (reply->kind) {
    case WIRE_RUN:
        return request->kind == WIRE_CLAIM && on_run(worker, &reply->held[0], now_ns);
    case WIRE_OVER:
        worker->is_over = true;
        worker->end = reply->end;
        drop_claims(worker);
        return true;
    case WIRE_HEARD:
        return on_heard(worker, request);
    case WIRE_LATE:
        return on_late(worker, request);
    case WIRE_SLOTS:
        return request->kind == WIRE_BEAT && on_slots(worker, reply);
    case WIRE_FULL: /* asked again when it is due */
    case WIRE_REPLY_KINDS:
        break;
    }
    return false;
}

/* Runs. */

bool worker_next_run(struct worker *worker, uint32_t *slot, struct muster_range *grains)
{
    uint32_t next = WIRE_SLOTS_MAX;
    for (uint32_t i = 0; i < worker->slot_count; i++)
        if (worker->slots[i].state == WORKER_GIVEN &&
            (next == WIRE_SLOTS_MAX || worker->slots[i].order < worker->slots[next].order))
            next = i;
    if (next == WIRE_SLOTS_MAX)
        return false;
    worker->slots[next].state = WORKER_RUNNING;
    *slot = next;
    *grains = worker->slots[next].held.run.grains;
    return true;
}

bool worker_should_drop(const struct worker *worker, uint32_t slot)
{
    return worker->slots[slot].is_unwanted || worker->is_over;
}

static void report(struct worker *worker, uint32_t index, bool has_failed, uint64_t now_ns)
{
    struct worker_slot *slot = &worker->slots[index];
    INVARIANT(index < worker->slot_count && slot->state == WORKER_RUNNING);
    slot->state = WORKER_REPORTING;
    slot->has_failed = has_failed;
    slot->due_ns = now_ns;
    slot->wait_ns = WORKER_REPORT_AGAIN_NS;
}

void worker_stored(struct worker *worker, uint32_t slot, uint64_t now_ns)
{
    report(worker, slot, false, now_ns);
}

void worker_failed(struct worker *worker, uint32_t slot, enum wire_class class_, uint64_t at,
                   uint64_t now_ns)
{
    worker->slots[slot].class_ = class_;
    worker->slots[slot].at = at;
    report(worker, slot, true, now_ns);
}

/* Ends. */

bool worker_is_over(const struct worker *worker, enum wire_end *end)
{
    *end = worker->end;
    return worker->is_over;
}

bool worker_is_gone(const struct worker *worker)
{
    return worker->is_gone;
}
