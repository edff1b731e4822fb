/*
 * Jobs on many machines, simulated: from the text to the state, and from the state to the report.
 */
#include "base/invariant.h"
#include "simulate/bound.h"
#include "simulate/machines.h"
#include "simulate/machines_run.h"
#include "simulate/result.h"

#include <muster/backend.h>
#include <stdio.h>

#define RECORDS_AT_FIRST 256u
#define HAPPENINGS_AT_FIRST 1024u

static muster_status read_text(struct machines_sim *sim, const char *text, size_t bytes,
                               struct muster_error *err)
{
    muster_status status = machines_read(text, bytes, NULL, 0, &sim->machine_count, NULL, 0,
                                         &sim->model_count, &sim->scenario, err);
    if (status != MUSTER_E_CAPACITY)
        return status;
    sim->models = allocator_take(&sim->allocator, sim->machine_count, sizeof *sim->models);
    sim->device_models =
        allocator_take(&sim->allocator, sim->model_count, sizeof *sim->device_models);
    if (!sim->models || !sim->device_models)
        return result_no_memory(err);
    status =
        machines_read(text, bytes, sim->models, sim->machine_count, &sim->machine_count,
                      sim->device_models, sim->model_count, &sim->model_count, &sim->scenario, err);
    for (size_t i = 0; i < sim->machine_count; i++)
        sim->device_count += sim->models[i].device_count;
    return status;
}

/* The bound. */

/* The device as part of its machine: from when that joins until it goes for ever. */
static struct model_device device_in(const struct machines_sim *sim,
                                     const struct machine_model *machine, uint32_t number)
{
    struct model_device device = sim->device_models[machine->first_device + number];
    for (uint32_t f = 0; f < machine->fault_count; f++) {
        const struct machine_fault *fault = &machine->faults[f];
        if (fault->kind == MACHINE_JOINS && fault->at_ns > device.opens_ns)
            device.opens_ns = fault->at_ns;
        bool ends = fault->kind == MACHINE_LOST && fault->for_ns == 0;
        if (ends && device.fault_count < MODEL_FAULTS_MAX)
            device.faults[device.fault_count++] =
                (struct model_fault){ .kind = MODEL_FAULT_LOST, .at_ns = fault->at_ns };
    }
    return device;
}

/* All jobs together, as one. */
static struct scenario_job whole_job(const struct machines_sim *sim)
{
    struct scenario_job job = sim->scenario.jobs[0].job;
    job.item_bytes_in = job.item_bytes_out = 0;
    for (uint32_t j = 1; j < sim->scenario.job_count; j++) {
        job.items += sim->scenario.jobs[j].job.items;
        job.cost = SCENARIO_UNIFORM;
    }
    return job;
}

static uint64_t find_bound(const struct machines_sim *sim, const struct model_device *devices,
                           const bool *eligible, struct bound_edge *edges)
{
    struct scenario_job job = whole_job(sim);
    struct cost cost;
    cost_init(&cost, &job, sim->options.seed);
    return bound_ns(devices, eligible, sim->device_count, &job, &cost, edges);
}

static muster_status make_bound(struct machines_sim *sim, struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    size_t count = sim->device_count, at = 0, edges_max = 0;
    struct bound_edge *edges = NULL;
    struct model_device *devices = allocator_take(&sim->allocator, count, sizeof *devices);
    bool *eligible = allocator_take(&sim->allocator, count, sizeof *eligible);
    for (size_t m = 0; devices && eligible && m < sim->machine_count; m++)
        for (uint32_t d = 0; d < sim->models[m].device_count; d++, at++) {
            devices[at] = device_in(sim, &sim->models[m], d);
            eligible[at] = true;
        }
    if (devices && eligible) {
        edges_max = bound_edges_max(devices, count);
        edges = allocator_take(&sim->allocator, edges_max, sizeof *edges);
    }
    if (edges)
        sim->result->bound_ns = find_bound(sim, devices, eligible, edges);
    else
        status = result_no_memory(err);
    allocator_give(&sim->allocator, edges, edges_max, sizeof *edges);
    allocator_give(&sim->allocator, eligible, count, sizeof *eligible);
    allocator_give(&sim->allocator, devices, count, sizeof *devices);
    return status;
}

/* The state. */

static muster_status make_jobs(struct machines_sim *sim, struct muster_error *err)
{
    for (uint32_t j = 0; j < sim->scenario.job_count; j++) {
        struct machines_job *job = &sim->jobs[j];
        job->model = &sim->scenario.jobs[j];
        job->grains = grains_count(job->model->job.items, job->model->grain);
        cost_init(&job->cost, &job->model->job, sim->options.seed + j);
        void *memory = allocator_take(&sim->allocator, grain_set_bytes(job->grains), 1);
        if (!memory)
            return result_no_memory(err);
        grain_set_init(&job->stored, memory, job->grains);
        sim->open_jobs++;
    }
    return MUSTER_OK;
}

static void make_machine(struct machines_sim *sim, size_t index, struct machine_device *devices,
                         size_t first)
{
    struct machine *machine = &sim->machines[index];
    *machine = (struct machine){ .model = &sim->models[index],
                                 .devices = devices,
                                 .workers = sim->workers + index * sim->scenario.job_count };
    for (uint32_t d = 0; d < machine->model->device_count; d++) {
        devices[d] =
            (struct machine_device){ .model =
                                         &sim->device_models[machine->model->first_device + d] };
        model_state_init(&devices[d].state, sim->options.seed, (uint32_t)first + d);
        machine->rate += devices[d].model->items_per_s;
    }
}

static muster_status make_state(struct machines_sim *sim, struct muster_error *err)
{
    const struct muster_allocator *allocator = &sim->allocator;
    size_t workers = sim->machine_count * sim->scenario.job_count, first = 0;
    sim->machines = allocator_take(allocator, sim->machine_count, sizeof *sim->machines);
    sim->devices = allocator_take(allocator, sim->device_count, sizeof *sim->devices);
    sim->workers = allocator_take(allocator, workers, sizeof *sim->workers);
    sim->records = allocator_take(allocator, RECORDS_AT_FIRST, sizeof *sim->records);
    struct happening *heap = allocator_take(allocator, HAPPENINGS_AT_FIRST, sizeof *heap);
    agenda_init(&sim->agenda, heap, HAPPENINGS_AT_FIRST);
    if (!sim->machines || !sim->devices || !sim->workers || !sim->records || !heap)
        return result_no_memory(err);
    sim->record_count = RECORDS_AT_FIRST;
    sim->record_free = 0;
    for (uint32_t i = 0; i < RECORDS_AT_FIRST; i++)
        sim->records[i].next_free = i + 1 < RECORDS_AT_FIRST ? i + 1 : NO_RECORD;
    random_init(&sim->random, sim->options.seed);
    for (size_t i = 0; i < sim->machine_count; i++) {
        make_machine(sim, i, sim->devices + first, first);
        first += sim->models[i].device_count;
    }
    return make_jobs(sim, err);
}

static void free_state(struct machines_sim *sim)
{
    const struct muster_allocator *allocator = &sim->allocator;
    for (uint32_t j = 0; j < sim->scenario.job_count; j++) {
        for (uint32_t i = 0; i < SUBMITTERS_MAX; i++)
            if (sim->jobs[j].submitters[i].fleet)
                submitter_stop(sim, j, i);
        allocator_give(allocator, sim->jobs[j].stored.words, grain_set_bytes(sim->jobs[j].grains),
                       1);
    }
    allocator_give(allocator, sim->agenda.heap, sim->agenda.capacity, sizeof(struct happening));
    allocator_give(allocator, sim->records, sim->record_count, sizeof *sim->records);
    allocator_give(allocator, sim->workers, sim->machine_count * sim->scenario.job_count,
                   sizeof *sim->workers);
    allocator_give(allocator, sim->devices, sim->device_count, sizeof *sim->devices);
    allocator_give(allocator, sim->machines, sim->machine_count, sizeof *sim->machines);
    allocator_give(allocator, sim->device_models, sim->model_count, sizeof *sim->device_models);
    allocator_give(allocator, sim->models, sim->machine_count, sizeof *sim->models);
}

/* The report. */

static const char *health_of(const struct machine *machine)
{
    return machine->is_here && machine->cuts > 0 ? "cut off"
           : machine->is_here                    ? "ok"
           : machine->leaves                     ? "left"
           : machine->was_here                   ? "lost"
                                                 : "absent";
}

static void report_machines(struct machines_sim *sim, struct muster_simulation_device *reports)
{
    for (size_t i = 0; i < sim->machine_count; i++) {
        const struct machine *machine = &sim->machines[i];
        struct muster_simulation_device *report = &reports[i];
        uint64_t busy_ns = 0;
        snprintf(report->id, sizeof report->id, "machine:%zu", i);
        snprintf(report->name, sizeof report->name, "%s", machine->model->name);
        for (uint32_t d = 0; d < machine->model->device_count; d++)
            busy_ns += machine->devices[d].busy_ns;
        report->items = machine->items;
        report->units = machine->units;
        report->retries = machine->retries;
        report->busy_ns = busy_ns / machine->model->device_count;
        report->health = health_of(machine);
        sim->result->units += machine->units;
    }
}

/* The submitter that got furthest, of a job that has not ended. */
static void end_unfinished(struct machines_sim *sim, struct machines_job *job)
{
    if (job->is_over)
        return;
    job->end = FLEET_FAILED;
    job->end_ns = sim->now_ns;
    job->delivered = job->durable;
    for (uint32_t i = 0; i < SUBMITTERS_MAX; i++) {
        const struct fleet *fleet = job->submitters[i].fleet;
        uint64_t until = fleet ? fleet_delivered_until(fleet) : 0;
        job->delivered = until > job->delivered ? until : job->delivered;
    }
    job->failure.grains = (struct muster_range){ job->delivered, job->grains };
}

static void report_jobs(struct machines_sim *sim, struct muster_simulation_job *reports)
{
    struct muster_simulation *result = sim->result;
    for (uint32_t j = 0; j < sim->scenario.job_count; j++) {
        struct machines_job *job = &sim->jobs[j];
        uint64_t items = job->model->job.items;
        end_unfinished(sim, job);
        reports[j].weight = job->model->weight;
        reports[j].status = job->end == FLEET_DONE ? MUSTER_OK : MUSTER_E_FAILED;
        reports[j].items = items;
        reports[j].items_delivered =
            grains_items(items, job->model->grain, (struct muster_range){ 0, job->delivered }).end;
        reports[j].end_ns = job->end_ns;
        reports[j].busy_ns = job->busy_ns;
        result->items_delivered += reports[j].items_delivered;
        result->lost += items - reports[j].items_delivered;
        if (job->end_ns > result->makespan_ns)
            result->makespan_ns = job->end_ns;
        if (reports[j].status == MUSTER_OK)
            continue;
        result->status = reports[j].status;
        result->failed[result->failed_count++] =
            grains_items(items, job->model->grain, job->failure.grains);
    }
    if (result->bound_ns == UINT64_MAX)
        result->bound_ns = 0;
    if (result->bound_ns > 0)
        result->ratio = (double)result->makespan_ns / (double)result->bound_ns;
}
_Static_assert(MACHINES_JOBS_MAX <= MUSTER_SIMULATION_FAILED_MAX, "each job may fail once");

static void tell_jobs(const struct machines_sim *sim)
{
    for (uint32_t j = 0; j < sim->scenario.job_count; j++) {
        const struct machines_job *job = &sim->jobs[j];
        bool is_done = job->end == FLEET_DONE;
        machines_tell(sim, &(struct muster_trace_event){
                               .kind = MUSTER_TRACE_JOB,
                               .outcome = is_done ? MUSTER_TRACE_DONE : MUSTER_TRACE_FAILED,
                               .end_ns = job->end_ns,
                               .range = { 0, job->model->job.items },
                               .job = j + 1,
                               .status = is_done ? MUSTER_OK : MUSTER_E_FAILED });
    }
}

muster_status machines_simulate(const char *text, size_t bytes,
                                const struct muster_simulation_options *options,
                                const struct muster_allocator *allocator,
                                struct muster_simulation **out, struct muster_error *err)
{
    struct machines_sim sim = { .options = *options,
                                .allocator = *allocator,
                                .record_free = NO_RECORD };
    struct result *result = NULL;
    muster_status status = read_text(&sim, text, bytes, err);
    if (status == MUSTER_OK) {
        result = result_make(allocator, sim.machine_count, sim.scenario.job_count);
        sim.result = result ? &result->simulation : NULL;
        status = result ? make_bound(&sim, err) : result_no_memory(err);
    }
    if (status == MUSTER_OK)
        status = make_state(&sim, err);
    if (status == MUSTER_OK) {
        machines_run(&sim);
        status = sim.has_no_memory ? result_no_memory(err) : MUSTER_OK;
    }
    if (status == MUSTER_OK) {
        sim.result->seed = options->seed;
        report_machines(&sim, result->devices);
        report_jobs(&sim, result->jobs);
        tell_jobs(&sim);
        sim.result->broken = sim.broken;
        *out = sim.result;
    }
    /* Submitters add what they have counted to the result when they are stopped. */
    free_state(&sim);
    if (status != MUSTER_OK && result)
        muster_simulation_destroy(&result->simulation);
    return status;
}
