/*
 * Submitters: what arrives for them, what they answer, and results on their way out. Each has a fleet
 * (core/fleet/fleet.h); several of one job may be alive, until the older ones see that they are.
 */
#include "base/invariant.h"
#include "simulate/machines.h"

#include <string.h>

/* So long is each submitter ahead of what it has noted as its progress. */
#define PROGRESS_NS UINT64_C(1000000000)

static struct submitter *submitter_of(struct machines_sim *sim, uint32_t job, uint32_t index)
{
    return &sim->jobs[job].submitters[index];
}

static struct fleet_options options_of(const struct machines_sim *sim,
                                       const struct machines_job *job)
{
    uint64_t window = job->model->job.window / job->model->grain;
    return (struct fleet_options){
        .grains = job->grains,
        .begin = job->durable,
        .window = job->model->job.window > 0 && window == 0 ? 1 : window,
        .lane_count = (uint32_t)sim->machine_count + 1,
        .slots = sim->scenario.slots,
        .tries = job->model->job.tries,
        .epoch = job->epoch,
    };
}

/* What the engine has is read from it. */
static void note_stored(struct machines_sim *sim, struct machines_job *job,
                        struct submitter *submitter)
{
    uint64_t at = job->durable;
    while (at < job->grains) {
        uint64_t end = grain_set_run_end(&job->stored, at, job->grains);
        if (grain_set_has(&job->stored, at))
            fleet_note_stored(submitter->fleet, (struct muster_range){ at, end }, sim->now_ns);
        at = end;
    }
}

static void pump(struct machines_sim *sim, uint32_t job, uint32_t index);

void submitter_start(struct machines_sim *sim, uint32_t number)
{
    struct machines_job *job = &sim->jobs[number];
    uint32_t index = 0;
    while (index < SUBMITTERS_MAX && job->submitters[index].fleet)
        index++;
    if (index == SUBMITTERS_MAX || job->is_over)
        return;
    struct submitter *submitter = &job->submitters[index];
    job->epoch++;
    struct fleet_options options = options_of(sim, job);
    size_t places = (size_t)options.lane_count * options.slots;
    submitter->bytes = fleet_bytes(&options);
    INVARIANT(submitter->bytes > 0);
    void *memory = allocator_take(&sim->allocator, submitter->bytes, 1);
    submitter->parked = allocator_take(&sim->allocator, places, sizeof *submitter->parked);
    if (!memory || !submitter->parked) {
        allocator_give(&sim->allocator, memory, submitter->bytes, 1);
        sim->has_no_memory = true;
        return;
    }
    memset(submitter->parked, 0xff, places * sizeof *submitter->parked);
    submitter->fleet = fleet_init(memory, &options, sim->now_ns);
    submitter->generation++;
    submitter->epoch = job->epoch;
    submitter->expected = submitter->noted = job->durable;
    submitter->planned_ns = UINT64_MAX;
    note_stored(sim, job, submitter);
    pump(sim, number, index);
}

/* Counts of what has ended are kept beyond the submitter. */
static void add_counts(struct machines_sim *sim, const struct fleet *fleet)
{
    struct fleet_counts counts;
    fleet_counts(fleet, &counts);
    sim->result->claims += counts.claims;
    sim->result->adopted += counts.adopted;
    sim->result->missing += counts.missing;
    sim->result->workers_lost += counts.lost;
    sim->result->retries += fleet_retries(fleet);
}

void submitter_stop(struct machines_sim *sim, uint32_t job, uint32_t index)
{
    struct submitter *submitter = submitter_of(sim, job, index);
    size_t places = (sim->machine_count + 1) * sim->scenario.slots;
    if (!sim->jobs[job].is_over)
        add_counts(sim, submitter->fleet);
    for (size_t i = 0; submitter->parked && i < places; i++)
        if (submitter->parked[i] != NO_RECORD)
            machines_forget(sim, submitter->parked[i]);
    allocator_give(&sim->allocator, submitter->parked, places, sizeof *submitter->parked);
    allocator_give(&sim->allocator, submitter->fleet, submitter->bytes, 1);
    submitter->parked = NULL;
    submitter->fleet = NULL;
    submitter->generation++;
}

/* The job has ended, for all who wait for it. */
static void end_job(struct machines_sim *sim, uint32_t number, const struct fleet *fleet)
{
    struct machines_job *job = &sim->jobs[number];
    if (job->is_over)
        return;
    job->is_over = true;
    job->end = fleet_state(fleet);
    job->end_ns = sim->now_ns;
    job->delivered = fleet_delivered_until(fleet);
    fleet_failure(fleet, &job->failure);
    sim->open_jobs--;
    for (uint32_t i = 0; i < SUBMITTERS_MAX; i++)
        if (job->submitters[i].fleet)
            add_counts(sim, job->submitters[i].fleet);
}

/* Answers. */

static void reply(struct machines_sim *sim, uint32_t number, const struct wire_reply *answer)
{
    char text[WIRE_BYTES_MAX];
    uint64_t version;
    size_t bytes = wire_print_reply(answer, text);
    enum wire_read read = wire_read_reply(text, bytes, &sim->records[number].reply, &version);
    INVARIANT(read == WIRE_OK);
    if (read == WIRE_OK)
        machines_send(sim, number, MACHINES_REPLY);
}

/* Results. */

/* Those that are there leave; false if the first are not. */
static bool deliver(struct machines_sim *sim, struct machines_job *job, uint32_t number,
                    struct submitter *submitter, struct muster_range grains)
{
    uint64_t end = grain_set_run_end(&job->stored, grains.begin, grains.end);
    struct muster_range run = grains_items(job->model->job.items, job->model->grain,
                                           (struct muster_range){ grains.begin, end });
    if (!grain_set_has(&job->stored, grains.begin)) {
        fleet_missing(submitter->fleet, end - grains.begin, sim->now_ns);
        return false;
    }
    sim->result->out_of_order += grains.begin > submitter->expected;
    sim->result->duplicated += grains.begin < submitter->expected;
    submitter->expected = end;
    sim->moved_ns = sim->now_ns;
    fleet_delivered(submitter->fleet, end - grains.begin, sim->now_ns);
    machines_tell(sim, &(struct muster_trace_event){ .kind = MUSTER_TRACE_DELIVERY,
                                                     .begin_ns = sim->now_ns,
                                                     .end_ns = sim->now_ns,
                                                     .range = run,
                                                     .job = number + 1 });
    return true;
}

static void plan_look(struct machines_sim *sim, uint32_t job, uint32_t index, uint64_t at_ns)
{
    struct submitter *submitter = submitter_of(sim, job, index);
    at_ns = at_ns < sim->now_ns ? sim->now_ns : at_ns;
    if (at_ns == UINT64_MAX || at_ns >= submitter->planned_ns)
        return;
    submitter->planned_ns = at_ns;
    machines_plan(sim, (struct happening){ .at_ns = at_ns,
                                           .kind = MACHINES_LOOK,
                                           .lane = job,
                                           .slot = index,
                                           .serial = submitter->generation });
}

/* What follows from a call: results that leave, claims that have their answer, the next look. */
static void pump(struct machines_sim *sim, uint32_t number, uint32_t index)
{
    struct machines_job *job = &sim->jobs[number];
    struct submitter *submitter = &job->submitters[index];
    struct fleet *fleet = submitter->fleet;
    struct muster_range grains;
    struct fleet_reply answer;
    bool is_up = machines_engine_up_ns(sim) == sim->now_ns;
    uint64_t told = fleet_epoch_told(fleet);
    if (told > 0 && told <= job->epoch)
        fleet_supersede(fleet);
    while (is_up && fleet_next_result(fleet, &grains))
        deliver(sim, job, number, submitter, grains);
    uint64_t used = fleet_window_used(fleet) * job->model->grain;
    if (used > sim->result->window_max)
        sim->result->window_max = used;
    while (fleet_next_reply(fleet, sim->now_ns, &answer)) {
        uint32_t record = submitter->parked[answer.place];
        submitter->parked[answer.place] = NO_RECORD;
        if (record != NO_RECORD)
            reply(sim, record, &answer.reply);
    }
    enum fleet_state state = fleet_state(fleet);
    if (state == FLEET_SUPERSEDED) {
        submitter_stop(sim, number, index);
        return;
    }
    if (state != FLEET_RUNNING)
        end_job(sim, number, fleet);
    if (!is_up && fleet_next_result(fleet, &grains))
        plan_look(sim, number, index, machines_engine_up_ns(sim));
    plan_look(sim, number, index, fleet_look_due(fleet));
}

/* A copy of what has arrived, for one of several who answer; NO_RECORD if there is no memory. */
static uint32_t copy_record(struct machines_sim *sim, uint32_t number)
{
    uint32_t copy;
    struct record *record = machines_record(sim, &copy);
    if (!record)
        return NO_RECORD;
    *record = sim->records[number];
    return copy;
}

static void request(struct machines_sim *sim, uint32_t job, uint32_t index, uint32_t number)
{
    struct submitter *submitter = submitter_of(sim, job, index);
    struct fleet_reply answer;
    const struct wire_request *asked = &sim->records[number].request;
    enum fleet_answer kind = fleet_request(submitter->fleet, asked, sim->now_ns, &answer);
    if (kind == FLEET_ANSWERED) {
        reply(sim, number, &answer.reply);
    } else if (kind == FLEET_SILENT) {
        machines_forget(sim, number);
    } else {
        if (submitter->parked[answer.place] != NO_RECORD)
            machines_forget(sim, submitter->parked[answer.place]);
        submitter->parked[answer.place] = number;
    }
    pump(sim, job, index);
}

void submitter_requested(struct machines_sim *sim, uint32_t number)
{
    uint32_t job = sim->records[number].job;
    for (uint32_t i = 0; i < SUBMITTERS_MAX; i++) {
        if (!submitter_of(sim, job, i)->fleet)
            continue;
        uint32_t copy = copy_record(sim, number);
        if (copy != NO_RECORD)
            request(sim, job, i, copy);
    }
    machines_forget(sim, number);
}

void submitter_look(struct machines_sim *sim, const struct happening *happening)
{
    struct submitter *submitter = submitter_of(sim, happening->lane, happening->slot);
    if (!submitter->fleet || submitter->generation != happening->serial)
        return;
    submitter->planned_ns = UINT64_MAX;
    fleet_look(submitter->fleet, sim->now_ns);
    pump(sim, happening->lane, happening->slot);
}

void submitter_note_progress(struct machines_sim *sim, uint32_t number)
{
    struct machines_job *job = &sim->jobs[number];
    for (uint32_t i = 0; i < SUBMITTERS_MAX; i++) {
        struct submitter *submitter = &job->submitters[i];
        if (!submitter->fleet)
            continue;
        uint64_t until = fleet_delivered_until(submitter->fleet);
        grain_set_remove(&job->stored, (struct muster_range){ submitter->noted, until });
        submitter->noted = until;
        job->durable = until > job->durable ? until : job->durable;
    }
    if (!job->is_over)
        machines_plan(sim, (struct happening){ .at_ns = sim->now_ns + PROGRESS_NS,
                                               .kind = MACHINES_PROGRESS,
                                               .lane = number });
}

const char *submitters_check(const struct machines_sim *sim)
{
    const char *broken = NULL;
    for (uint32_t j = 0; j < sim->scenario.job_count && !broken; j++)
        for (uint32_t i = 0; i < SUBMITTERS_MAX && !broken; i++)
            if (sim->jobs[j].submitters[i].fleet)
                broken = fleet_check(sim->jobs[j].submitters[i].fleet);
    return broken;
}
