#include "simulate/machines.h"

#include "base/invariant.h"
#include "simulate/bound.h"
#include "simulate/machines_run.h"

#include <muster/backend.h>
#include <stdio.h>
#include <string.h>

/* A message that is delayed comes at most so late. */
#define DELAY_MAX_NS 3e9
/* Nothing was stored or delivered for so long: the job stands still. */
#define STANDSTILL_NS UINT64_C(36000000000000)

_Static_assert(MACHINES_MAX < FLEET_LANES_MAX, "each machine has its lane");
_Static_assert(MACHINES_GRAINS_MAX == GRAINS_MAX, "each grain has its bit");

/* The agenda and the records. */

static void *grow(struct machines_sim *sim, void *old, size_t count, size_t size)
{
    void *more = allocator_take(&sim->allocator, 2 * count, size);
    if (!more) {
        sim->has_no_memory = true;
        return NULL;
    }
    memcpy(more, old, count * size);
    allocator_give(&sim->allocator, old, count, size);
    return more;
}

void machines_plan(struct machines_sim *sim, struct happening happening)
{
    struct agenda *agenda = &sim->agenda;
    if (agenda->count == agenda->capacity) {
        struct happening *heap = grow(sim, agenda->heap, agenda->capacity, sizeof *heap);
        if (!heap)
            return;
        agenda->heap = heap;
        agenda->capacity *= 2;
    }
    agenda_add(agenda, happening);
}

static void link_records(struct machines_sim *sim, uint32_t from)
{
    for (uint32_t i = from; i < sim->record_count; i++)
        sim->records[i].next_free = i + 1 < sim->record_count ? i + 1 : NO_RECORD;
    sim->record_free = from;
}

struct record *machines_record(struct machines_sim *sim, uint32_t *index)
{
    if (sim->record_free == NO_RECORD) {
        uint32_t count = sim->record_count;
        struct record *records = grow(sim, sim->records, count, sizeof *records);
        if (!records)
            return NULL;
        sim->records = records;
        sim->record_count = 2 * count;
        link_records(sim, count);
    }
    *index = sim->record_free;
    sim->record_free = sim->records[*index].next_free;
    return &sim->records[*index];
}

void machines_forget(struct machines_sim *sim, uint32_t index)
{
    sim->records[index].next_free = sim->record_free;
    sim->record_free = index;
}

uint64_t machines_later(uint64_t at_ns, double ns)
{
    double most = (double)(MODEL_NEVER - at_ns) / 2;
    return at_ns + (ns < most ? (uint64_t)ns : (uint64_t)most);
}

void machines_tell(const struct machines_sim *sim, const struct muster_trace_event *event)
{
    if (!sim->options.event)
        return;
    struct muster_trace_event whole = *event;
    whole.size = sizeof whole;
    sim->options.event(sim->options.event_user, &whole);
}

/* Links. */

uint64_t machines_engine_up_ns(const struct machines_sim *sim)
{
    uint64_t up_ns = sim->now_ns;
    for (uint32_t i = 0; i < sim->scenario.stall_count; i++) {
        const struct machine_spell *stall = &sim->scenario.stalls[i];
        if (stall->at_ns <= sim->now_ns && sim->now_ns - stall->at_ns < stall->for_ns &&
            stall->at_ns + stall->for_ns > up_ns)
            up_ns = stall->at_ns + stall->for_ns;
    }
    return up_ns;
}

bool machines_are_cut(const struct machines_sim *sim, uint32_t machine)
{
    return sim->machines[machine].cuts > 0 || machines_engine_up_ns(sim) > sim->now_ns;
}

/* The request as it was read at the other end. */
static void carry(struct record *record)
{
    char text[WIRE_BYTES_MAX];
    struct wire_request read;
    uint64_t version;
    size_t bytes = wire_print_request(&record->request, text);
    enum wire_read result = wire_read_request(text, bytes, &read, &version);
    INVARIANT(result == WIRE_OK);
    if (result == WIRE_OK)
        record->request = read;
}

void machines_send(struct machines_sim *sim, uint32_t number, enum machines_kind kind)
{
    struct record *record = &sim->records[number];
    const struct machine_model *model = sim->machines[record->machine].model;
    double chance = random_unit(&sim->random), spread = random_unit(&sim->random);
    double ns = (double)model->latency_ns * (0.75 + spread / 2);
    if (machines_are_cut(sim, record->machine) || chance < model->loses) {
        machines_forget(sim, number);
        return;
    }
    if (chance < model->loses + model->delays)
        ns += spread * DELAY_MAX_NS;
    if (kind == MACHINES_REQUEST)
        carry(record);
    machines_plan(sim, (struct happening){ .at_ns = machines_later(sim->now_ns, ns),
                                           .kind = kind,
                                           .slot = number });
}

/* A message that comes while its machine is cut off, or the engine stalls, does not come. */
static void arrive(struct machines_sim *sim, const struct happening *happening)
{
    if (machines_are_cut(sim, sim->records[happening->slot].machine))
        machines_forget(sim, happening->slot);
    else if (happening->kind == MACHINES_REQUEST)
        submitter_requested(sim, happening->slot);
    else
        machine_replied(sim, happening->slot);
}

/* What happens. */

static void on_fault(struct machines_sim *sim, const struct happening *happening)
{
    struct machine *machine = &sim->machines[happening->lane];
    const struct machine_fault *fault = &machine->model->faults[happening->slot];
    struct happening after = { .at_ns = machines_later(sim->now_ns, (double)fault->for_ns),
                               .lane = happening->lane,
                               .slot = happening->slot };
    switch (fault->kind) {
    case MACHINE_PARTITION:
        machine->cuts++;
        after.kind = MACHINES_MENDED;
        if (fault->for_ns > 0)
            machines_plan(sim, after);
        break;
    case MACHINE_LOST:
        machine_stop(sim, happening->lane);
        after.kind = MACHINES_BACK;
        after.serial = machine->incarnation;
        if (fault->for_ns == 0)
            break;
        sim->coming++;
        machines_plan(sim, after);
        break;
    case MACHINE_JOINS:
        sim->coming--;
        if (!machine->is_here)
            machine_start(sim, happening->lane);
        break;
    case MACHINE_LEAVES:
        machine_leave(sim, happening->lane);
        break;
    }
}

static void on_mended(struct machines_sim *sim, uint32_t index)
{
    struct machine *machine = &sim->machines[index];
    machine->cuts--;
    for (uint32_t j = 0; j < sim->scenario.job_count && machine->is_here; j++) {
        worker_hurry(&machine->workers[j].worker, sim->now_ns);
        machine_pump(sim, index, j);
    }
}

static void on_deaths(struct machines_sim *sim)
{
    for (uint32_t j = 0; j < sim->scenario.job_count; j++)
        for (uint32_t i = 0; i < SUBMITTERS_MAX && !sim->jobs[j].is_over; i++)
            if (sim->jobs[j].submitters[i].fleet)
                submitter_stop(sim, j, i);
    machines_plan(sim, (struct happening){
                           .at_ns = machines_later(sim->now_ns, (double)sim->scenario.back_ns),
                           .kind = MACHINES_RESUMES });
}

static bool has_submitter(const struct machines_job *job)
{
    for (uint32_t i = 0; i < SUBMITTERS_MAX; i++)
        if (job->submitters[i].fleet)
            return true;
    return false;
}

static void on_resume(struct machines_sim *sim, bool is_twin)
{
    for (uint32_t j = 0; j < sim->scenario.job_count; j++) {
        if (sim->jobs[j].is_over || (!is_twin && has_submitter(&sim->jobs[j])))
            continue;
        submitter_start(sim, j);
        sim->result->resumes++;
    }
}

static void happen(struct machines_sim *sim, const struct happening *happening)
{
    struct machine *machine = &sim->machines[happening->lane];
    switch ((enum machines_kind)happening->kind) {
    case MACHINES_REQUEST:
    case MACHINES_REPLY:
        arrive(sim, happening);
        break;
    case MACHINES_WORKER:
        machine->workers[happening->slot].planned_ns = UINT64_MAX;
        machine_pump(sim, happening->lane, happening->slot);
        break;
    case MACHINES_COMPUTED:
        machine_computed(sim, happening);
        break;
    case MACHINES_STORED:
        machine_stored(sim, happening->slot);
        break;
    case MACHINES_LOOK:
        submitter_look(sim, happening);
        break;
    case MACHINES_FAULT:
        on_fault(sim, happening);
        break;
    case MACHINES_MENDED:
        on_mended(sim, happening->lane);
        break;
    case MACHINES_BACK:
        sim->coming--;
        if (!machine->is_here && machine->incarnation == happening->serial && !machine->leaves)
            machine_start(sim, happening->lane);
        break;
    case MACHINES_DIES:
        on_deaths(sim);
        break;
    case MACHINES_RESUMES:
        on_resume(sim, happening->slot == 1);
        break;
    case MACHINES_PROGRESS:
        submitter_note_progress(sim, happening->lane);
        break;
    }
}

/* The run. */

static void plan_faults(struct machines_sim *sim, uint32_t index)
{
    const struct machine_model *model = sim->machines[index].model;
    bool joins = false;
    for (uint32_t f = 0; f < model->fault_count; f++) {
        bool is_join = model->faults[f].kind == MACHINE_JOINS;
        joins = joins || is_join;
        sim->coming += is_join;
        machines_plan(sim, (struct happening){ .at_ns = model->faults[f].at_ns,
                                               .kind = MACHINES_FAULT,
                                               .lane = index,
                                               .slot = f });
    }
    if (!joins)
        machine_start(sim, index);
}

static void plan_all(struct machines_sim *sim)
{
    for (uint32_t i = 0; i < sim->scenario.death_count; i++)
        machines_plan(
            sim, (struct happening){ .at_ns = sim->scenario.dies_ns[i], .kind = MACHINES_DIES });
    for (uint32_t i = 0; i < sim->scenario.twin_count; i++)
        machines_plan(sim, (struct happening){ .at_ns = sim->scenario.twins_ns[i],
                                               .kind = MACHINES_RESUMES,
                                               .slot = 1 });
    for (uint32_t j = 0; j < sim->scenario.job_count; j++) {
        submitter_start(sim, j);
        submitter_note_progress(sim, j);
    }
    for (uint32_t i = 0; i < sim->machine_count && !sim->has_no_memory; i++)
        plan_faults(sim, i);
}

void machines_run(struct machines_sim *sim)
{
    struct happening happening;
    plan_all(sim);
    /* Nobody is left, and nobody will come: a real job would wait for ever. */
    while (sim->open_jobs > 0 && !sim->has_no_memory && (sim->here > 0 || sim->coming > 0)) {
        bool is_any = agenda_next(&sim->agenda, &happening);
        if (!is_any || happening.at_ns - sim->moved_ns > STANDSTILL_NS) {
            sim->broken = sim->broken ? sim->broken : "the job stands still";
            return;
        }
        sim->now_ns = happening.at_ns;
        happen(sim, &happening);
        if (sim->options.check && !sim->broken)
            sim->broken = submitters_check(sim);
    }
}
