/*
 * A simulated machine: its worker's runs, cut into chunks for its devices, and what becomes of them. Each
 * device takes the oldest run of the job whose share is behind. Results go to the engine through the
 * machine's one link and are sent again until they got there.
 */
#include "base/invariant.h"
#include "simulate/machines.h"

/* A device takes this part of what its rate would make its part of the rest of a run. */
#define CHUNK_PARTS 2.0
#define STORE_AGAIN_NS UINT64_C(100000000)
#define STORE_AGAIN_MAX_NS UINT64_C(1000000000)
/* A machine that died of a grain is back after this. */
#define REBOOT_NS UINT64_C(1000000000)

static struct machine_worker *worker_of(const struct machine *machine, uint32_t job)
{
    return &machine->workers[job];
}

static struct muster_range items_of(const struct machines_job *job, struct muster_range grains)
{
    return grains_items(job->model->job.items, job->model->grain, grains);
}

static double bytes_ns(const struct machine *machine, uint64_t items, uint64_t item_bytes)
{
    double bytes = (double)items * (double)item_bytes;
    return machine->model->bytes_per_s > 0 ? bytes * 1e9 / machine->model->bytes_per_s : 0;
}

/* Coming and going. */

void machine_start(struct machines_sim *sim, uint32_t index)
{
    struct machine *machine = &sim->machines[index];
    uint64_t id = ((uint64_t)++machine->incarnation << 32) + index + 1;
    INVARIANT(!machine->is_here);
    machine->is_here = machine->was_here = true;
    sim->here++;
    shares_init(&machine->shares, machine->share_room, MACHINES_JOBS_MAX);
    for (uint32_t j = 0; j < sim->scenario.job_count; j++) {
        struct machine_worker *worker = worker_of(machine, j);
        *worker = (struct machine_worker){ .planned_ns = UINT64_MAX };
        worker_init(&worker->worker, id, sim->scenario.slots, sim->now_ns);
        shares_add(&machine->shares, sim->scenario.jobs[j].weight);
    }
    for (uint32_t j = 0; j < sim->scenario.job_count; j++)
        machine_pump(sim, index, j);
}

static void tell_run(const struct machines_sim *sim, uint32_t index, uint32_t job,
                     const struct machine_run *run, enum muster_trace_outcome outcome)
{
    machines_tell(sim,
                  &(struct muster_trace_event){
                      .kind = MUSTER_TRACE_UNIT,
                      .outcome = outcome,
                      .begin_ns = run->begin_ns,
                      .end_ns = sim->now_ns,
                      .range = items_of(&sim->jobs[job], run->grains),
                      .device = index,
                      .job = job + 1,
                      .status = outcome == MUSTER_TRACE_FAILED ? MUSTER_E_FAILED : MUSTER_OK });
}

static void free_device(struct machines_sim *sim, struct machine *machine,
                        struct machine_device *device)
{
    uint64_t busy_ns = sim->now_ns > device->begin_ns ? sim->now_ns - device->begin_ns : 0;
    double part = device->model->items_per_s / machine->rate;
    device->is_busy = false;
    device->serial++;
    device->busy_ns += busy_ns;
    sim->jobs[device->job].busy_ns += busy_ns;
    shares_charge(&machine->shares, device->job, (uint64_t)((double)busy_ns * part));
}

/* Devices that are at the run stop. */
static void end_run(struct machines_sim *sim, struct machine *machine, uint32_t job, uint32_t slot)
{
    struct machine_run *run = &worker_of(machine, job)->runs[slot];
    for (uint32_t d = 0; d < machine->model->device_count; d++) {
        struct machine_device *device = &machine->devices[d];
        if (device->is_busy && device->job == job && device->slot == slot &&
            device->run_serial == run->serial)
            free_device(sim, machine, device);
    }
    run->is_used = false;
}

void machine_stop(struct machines_sim *sim, uint32_t index)
{
    struct machine *machine = &sim->machines[index];
    if (!machine->is_here)
        return;
    for (uint32_t j = 0; j < sim->scenario.job_count; j++)
        for (uint32_t s = 0; s < sim->scenario.slots; s++) {
            if (!worker_of(machine, j)->runs[s].is_used)
                continue;
            tell_run(sim, index, j, &worker_of(machine, j)->runs[s], MUSTER_TRACE_LOST);
            end_run(sim, machine, j, s);
        }
    machine->is_here = false;
    machine->incarnation++;
    sim->here--;
}

void machine_leave(struct machines_sim *sim, uint32_t index)
{
    struct machine *machine = &sim->machines[index];
    if (!machine->is_here)
        return;
    machine->leaves = true;
    for (uint32_t j = 0; j < sim->scenario.job_count; j++) {
        worker_leave(&worker_of(machine, j)->worker);
        machine_pump(sim, index, j);
    }
}

/* It dies of a grain. */
static void die(struct machines_sim *sim, uint32_t index)
{
    machine_stop(sim, index);
    sim->coming++;
    machines_plan(sim, (struct happening){ .at_ns = sim->now_ns + REBOOT_NS,
                                           .kind = MACHINES_BACK,
                                           .lane = index,
                                           .serial = sim->machines[index].incarnation });
}

/* Runs. */

static void begin_run(struct machines_sim *sim, uint32_t index, uint32_t job, uint32_t slot,
                      struct muster_range grains)
{
    struct machine *machine = &sim->machines[index];
    struct muster_range items = items_of(&sim->jobs[job], grains);
    uint64_t from_ns = machine->in_free_ns > sim->now_ns ? machine->in_free_ns : sim->now_ns;
    worker_of(machine, job)->runs[slot] = (struct machine_run){ .is_used = true,
                                                                .serial = ++sim->next_serial,
                                                                .order = ++sim->next_order,
                                                                .begin_ns = sim->now_ns,
                                                                .grains = grains,
                                                                .next = grains.begin,
                                                                .arrival_ns = from_ns };
    machine->in_free_ns =
        machines_later(from_ns, bytes_ns(machine, items.end - items.begin,
                                         sim->jobs[job].model->job.item_bytes_in));
}

static void fail_run(struct machines_sim *sim, uint32_t index, uint32_t job, uint32_t slot,
                     enum wire_class class_, uint64_t at)
{
    struct machine *machine = &sim->machines[index];
    struct machine_run *run = &worker_of(machine, job)->runs[slot];
    bool is_back = class_ == WIRE_CLASS_BACK;
    tell_run(sim, index, job, run, is_back ? MUSTER_TRACE_LATE : MUSTER_TRACE_FAILED);
    end_run(sim, machine, job, slot);
    machine->retries += !is_back;
    worker_failed(&worker_of(machine, job)->worker, slot, class_, at, sim->now_ns);
}

/* The oldest run of the job with something for a device; NO_RECORD if there is none. */
static uint32_t oldest_run(const struct machine_worker *worker, uint32_t slots)
{
    uint32_t oldest = NO_RECORD;
    for (uint32_t s = 0; s < slots; s++) {
        const struct machine_run *run = &worker->runs[s];
        if (run->is_used && run->next < run->grains.end &&
            (oldest == NO_RECORD || run->order < worker->runs[oldest].order))
            oldest = s;
    }
    return oldest;
}

static uint64_t chunk_of(const struct machine *machine, const struct machine_device *device,
                         const struct machine_run *run)
{
    uint64_t left = run->grains.end - run->next;
    double part = (double)left * device->model->items_per_s / machine->rate / CHUNK_PARTS;
    return part < 1 ? 1 : part < (double)left ? (uint64_t)part : left;
}

/* Gives the device a chunk of the run. */
static void begin_chunk(struct machines_sim *sim, uint32_t index, uint32_t number, uint32_t job,
                        uint32_t slot)
{
    struct machine *machine = &sim->machines[index];
    struct machine_device *device = &machine->devices[number];
    struct machine_run *run = &worker_of(machine, job)->runs[slot];
    uint64_t end = run->next + chunk_of(machine, device, run), at_ns = sim->now_ns;
    device->grains = (struct muster_range){ run->next, end };
    run->next = end;
    struct muster_range items = items_of(&sim->jobs[job], device->grains),
                        all = items_of(&sim->jobs[job], run->grains);
    uint64_t input_ns =
        machines_later(run->arrival_ns, bytes_ns(machine, items.end - all.begin,
                                                 sim->jobs[job].model->job.item_bytes_in));
    at_ns = input_ns > at_ns ? input_ns : at_ns;
    at_ns = device->model->opens_ns > at_ns ? device->model->opens_ns : at_ns;
    struct model_run launch =
        model_launch(device->model, &device->state, at_ns, cost_of(&sim->jobs[job].cost, items));
    device->is_busy = true;
    device->fails = launch.fails;
    device->job = job;
    device->slot = slot;
    device->run_serial = run->serial;
    device->begin_ns = at_ns;
    if (launch.finish_ns != MODEL_NEVER)
        machines_plan(sim, (struct happening){ .at_ns = launch.finish_ns,
                                               .kind = MACHINES_COMPUTED,
                                               .lane = index,
                                               .slot = number,
                                               .serial = device->serial });
}

static void feed_devices(struct machines_sim *sim, uint32_t index)
{
    struct machine *machine = &sim->machines[index];
    uint32_t jobs = sim->scenario.job_count;
    for (uint32_t d = 0; d < machine->model->device_count && machine->is_here; d++) {
        struct machine_device *device = &machine->devices[d];
        bool is_gone = model_health_at(device->model, &device->state, sim->now_ns) == MODEL_LOST;
        if (device->is_busy || is_gone)
            continue;
        for (uint32_t j = 0; j < jobs; j++)
            shares_set_dry(&machine->shares, j,
                           oldest_run(worker_of(machine, j), sim->scenario.slots) == NO_RECORD);
        uint32_t job = shares_next(&machine->shares);
        if (job == SHARES_NONE)
            return;
        begin_chunk(sim, index, d, job, oldest_run(worker_of(machine, job), sim->scenario.slots));
    }
}

/* Messages. */

static void send_requests(struct machines_sim *sim, uint32_t index, uint32_t job)
{
    struct worker *worker = &worker_of(&sim->machines[index], job)->worker;
    struct wire_request request;
    while (worker_next_request(worker, sim->now_ns, &request)) {
        uint32_t number;
        struct record *record = machines_record(sim, &number);
        if (!record)
            return;
        record->machine = index;
        record->job = job;
        record->incarnation = sim->machines[index].incarnation;
        record->request = request;
        machines_send(sim, number, MACHINES_REQUEST);
    }
}

/* Runs that nobody wants any more are broken off. */
static void drop_runs(struct machines_sim *sim, uint32_t index, uint32_t job)
{
    struct machine_worker *worker = worker_of(&sim->machines[index], job);
    for (uint32_t s = 0; s < sim->scenario.slots; s++)
        if (worker->runs[s].is_used && worker_should_drop(&worker->worker, s))
            fail_run(sim, index, job, s, WIRE_CLASS_BACK, WIRE_NO_GRAIN);
}

static bool have_all_left(const struct machines_sim *sim, const struct machine *machine)
{
    enum wire_end end;
    for (uint32_t j = 0; j < sim->scenario.job_count; j++)
        if (!worker_is_gone(&machine->workers[j].worker) &&
            !worker_is_over(&machine->workers[j].worker, &end))
            return false;
    return true;
}

void machine_pump(struct machines_sim *sim, uint32_t index, uint32_t job)
{
    struct machine *machine = &sim->machines[index];
    struct machine_worker *worker = worker_of(machine, job);
    struct muster_range grains;
    uint32_t slot;
    if (!machine->is_here)
        return;
    drop_runs(sim, index, job);
    while (worker_next_run(&worker->worker, &slot, &grains))
        begin_run(sim, index, job, slot, grains);
    feed_devices(sim, index);
    send_requests(sim, index, job);
    if (machine->leaves && have_all_left(sim, machine)) {
        machine->is_here = false;
        sim->here--;
        return;
    }
    uint64_t due_ns = worker_due(&worker->worker);
    due_ns = due_ns < sim->now_ns ? sim->now_ns : due_ns;
    if (due_ns == UINT64_MAX || due_ns >= worker->planned_ns)
        return;
    worker->planned_ns = due_ns;
    machines_plan(sim, (struct happening){
                           .at_ns = due_ns, .kind = MACHINES_WORKER, .lane = index, .slot = job });
}

void machine_replied(struct machines_sim *sim, uint32_t number)
{
    struct record *record = &sim->records[number];
    struct machine *machine = &sim->machines[record->machine];
    uint32_t index = record->machine, job = record->job;
    if (machine->is_here && machine->incarnation == record->incarnation)
        worker_reply(&worker_of(machine, job)->worker, &record->request, &record->reply,
                     sim->now_ns);
    machines_forget(sim, number);
    machine_pump(sim, index, job);
}

/* Results. */

static void store(struct machines_sim *sim, uint32_t index, const struct machine_device *device)
{
    struct machine *machine = &sim->machines[index];
    struct muster_range items = items_of(&sim->jobs[device->job], device->grains);
    uint32_t number;
    struct record *record = machines_record(sim, &number);
    if (!record)
        return;
    record->machine = index;
    record->incarnation = machine->incarnation;
    record->job = device->job;
    record->slot = device->slot;
    record->serial = device->run_serial;
    record->grains = device->grains;
    record->wait_ns = STORE_AGAIN_NS;
    uint64_t from_ns = machine->out_free_ns > sim->now_ns ? machine->out_free_ns : sim->now_ns;
    machine->out_free_ns =
        machines_later(from_ns, bytes_ns(machine, items.end - items.begin,
                                         sim->jobs[device->job].model->job.item_bytes_out));
    /* There and back: it is stored when the worker knows. */
    machines_plan(
        sim, (struct happening){ .at_ns = machine->out_free_ns + 2 * machine->model->latency_ns,
                                 .kind = MACHINES_STORED,
                                 .slot = number });
}

/* Whether the chunk has a grain that nobody can run; if so, what that does. */
static bool is_poisoned(const struct machines_job *job, struct muster_range grains, uint64_t *grain,
                        enum machine_poison_kind *kind)
{
    for (uint32_t i = 0; i < job->model->poison_count; i++) {
        *grain = job->model->poisons[i].item / job->model->grain;
        *kind = job->model->poisons[i].kind;
        if (*grain >= grains.begin && *grain < grains.end)
            return true;
    }
    return false;
}

void machine_computed(struct machines_sim *sim, const struct happening *happening)
{
    struct machine *machine = &sim->machines[happening->lane];
    struct machine_device *device = &machine->devices[happening->slot];
    enum machine_poison_kind kind;
    uint64_t grain;
    if (!machine->is_here || !device->is_busy || device->serial != happening->serial)
        return;
    uint32_t job = device->job;
    free_device(sim, machine, device);
    bool is_poison = is_poisoned(&sim->jobs[job], device->grains, &grain, &kind);
    if (is_poison && kind == POISON_KILLS) {
        die(sim, happening->lane);
        return;
    }
    if (is_poison)
        fail_run(sim, happening->lane, job, device->slot, WIRE_CLASS_UNIT,
                 kind == POISON_FAILS ? grain : WIRE_NO_GRAIN);
    else if (device->fails)
        fail_run(sim, happening->lane, job, device->slot, WIRE_CLASS_UNIT, WIRE_NO_GRAIN);
    else
        store(sim, happening->lane, device);
    machine_pump(sim, happening->lane, job);
}

/* The engine keeps them, unless it had them already; now and then it loses one. */
static void keep(struct machines_sim *sim, const struct record *record)
{
    struct machines_job *job = &sim->jobs[record->job];
    struct muster_range grains = record->grains;
    uint64_t kept = 0;
    if (sim->scenario.loses_result <= 0)
        kept = grain_set_add(&job->stored, grains);
    for (uint64_t g = grains.begin; sim->scenario.loses_result > 0 && g < grains.end; g++)
        if (random_unit(&sim->random) >= sim->scenario.loses_result)
            kept += grain_set_add(&job->stored, (struct muster_range){ g, g + 1 });
    sim->machines[record->machine].items += kept * job->model->grain;
    sim->moved_ns = sim->now_ns;
}

void machine_stored(struct machines_sim *sim, uint32_t number)
{
    struct record *record = &sim->records[number];
    uint32_t index = record->machine, job = record->job, slot = record->slot;
    struct machine *machine = &sim->machines[index];
    struct machine_run *run = &worker_of(machine, job)->runs[slot];
    if (machine->incarnation != record->incarnation || !machine->is_here) {
        machines_forget(sim, number);
        return;
    }
    if (machines_are_cut(sim, index)) {
        record->wait_ns =
            2 * record->wait_ns < STORE_AGAIN_MAX_NS ? 2 * record->wait_ns : STORE_AGAIN_MAX_NS;
        machines_plan(sim, (struct happening){ .at_ns = sim->now_ns + record->wait_ns,
                                               .kind = MACHINES_STORED,
                                               .slot = number });
        return;
    }
    keep(sim, record);
    if (run->is_used && run->serial == record->serial)
        run->stored += record->grains.end - record->grains.begin;
    bool is_whole = run->is_used && run->stored == run->grains.end - run->grains.begin;
    machines_forget(sim, number);
    if (is_whole) {
        tell_run(sim, index, job, run, MUSTER_TRACE_DONE);
        run->is_used = false;
        machine->units++;
        worker_stored(&worker_of(machine, job)->worker, slot, sim->now_ns);
    }
    machine_pump(sim, index, job);
}
