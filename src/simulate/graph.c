/*
 * A graph in virtual time: flow.h and dispatch.h on the model's devices. Each device has a memory of its
 * own, computes one task at a time, and has a link in each direction that carries one copy at a
 * time. Contents are numbers that are moved along with the copies: what a task writes is a mixture
 * of its own number and of what it reads, so that the end shows whether each task saw what it would
 * have seen in the serial run.
 */
#include "base/allocator.h"
#include "base/invariant.h"
#include "base/layout.h"
#include "core/dispatch.h"
#include "simulate/agenda.h"
#include "simulate/allocate.h"
#include "simulate/graph_bound.h"
#include "simulate/graph_make.h"

#include <muster/backend.h>
#include <muster/simulate.h>
#include <stdio.h>
#include <string.h>

/* A device that has not answered for so long is given up. */
#define HANG_NS UINT64_C(1000000000)
#define COPIES_MAX 1024u
#define RATE_PAIRS 64u

enum happening_kind { HAPPENS_COMPUTED, HAPPENS_COPIED, HAPPENS_HEALTH, HAPPENS_GIVE_UP };

struct lane {
    struct model_state state;
    uint64_t in_free_ns, out_free_ns;
    uint64_t health_due_ns;
    uint64_t began_ns;
    uint32_t task; /* that it runs; FLOW_NONE */
    uint32_t serial;
    bool fails, is_lost;
};

struct copy_under_way {
    struct dispatch_copy copy;
    uint64_t began_ns;
    uint32_t serial;
};

/* Memory is taken in pieces that are remembered, so that all of it is given back in one place. */
#define PIECES 16u
struct piece {
    void *memory;
    size_t count, size;
};

struct graph_run {
    struct muster_allocator allocator;
    struct muster_simulation_options options;
    struct graph_scenario graph;
    struct model_device *devices;
    size_t device_count;
    struct piece pieces[PIECES];
    uint32_t piece_count;
    bool has_no_memory;
    struct muster_graph_simulation *result;
    struct muster_graph_simulation_device *reports;
    struct tasks tasks;
    struct flow *flow;
    struct dispatch *dispatch;
    uint32_t task_count, use_count, tile_count;
    uint32_t *parts; /* by tile */
    uint64_t *home, *instances,
        *serial;       /* contents: by tile, by instance, by tile in the serial run */
    uint32_t *tile_of; /* by part */
    enum graph_kernel *kernels;
    double *costs;
    struct lane lanes[GRAPH_DEVICES_MAX];
    struct copy_under_way copies[COPIES_MAX];
    struct agenda agenda;
    uint64_t now_ns;
    uint32_t next_serial;
};

struct owned_graph_result {
    struct muster_graph_simulation result; /* first */
    struct muster_allocator allocator;
    struct muster_graph_simulation_device *devices;
    const struct muster_graph_simulation_device **pointers;
};

/* ---- Memory ---- */

static void *take(struct graph_run *run, size_t count, size_t size)
{
    struct piece *piece = &run->pieces[run->piece_count];
    INVARIANT(run->piece_count < PIECES);
    *piece = (struct piece){ allocator_take(&run->allocator, count, size), count, size };
    run->has_no_memory |= !piece->memory;
    run->piece_count++;
    return piece->memory;
}

static void give_all(struct graph_run *run)
{
    while (run->piece_count > 0) {
        const struct piece *piece = &run->pieces[--run->piece_count];
        allocator_give(&run->allocator, piece->memory, piece->count, piece->size);
    }
    allocator_give(&run->allocator, run->agenda.heap, run->agenda.capacity,
                   sizeof *run->agenda.heap);
}

static muster_status no_memory(struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, "simulate a smaller graph",
                             "no host memory for the simulation");
}

void muster_graph_simulation_destroy(struct muster_graph_simulation *simulation)
{
    if (!simulation)
        return;
    struct owned_graph_result *owned = (struct owned_graph_result *)simulation;
    struct muster_allocator allocator = owned->allocator;
    allocator_give(&allocator, owned->pointers, simulation->device_count, sizeof *owned->pointers);
    allocator_give(&allocator, owned->devices, simulation->device_count, sizeof *owned->devices);
    allocator_give(&allocator, owned, 1, sizeof *owned);
}

static void plan(struct graph_run *run, struct happening happening)
{
    if (run->agenda.count == run->agenda.capacity) {
        size_t capacity = 2 * run->agenda.capacity;
        struct happening *heap = allocator_take(&run->allocator, capacity, sizeof *heap);
        if (!heap) {
            run->has_no_memory = true;
            return;
        }
        memcpy(heap, run->agenda.heap, run->agenda.count * sizeof *heap);
        allocator_give(&run->allocator, run->agenda.heap, run->agenda.capacity, sizeof *heap);
        run->agenda.heap = heap;
        run->agenda.capacity = capacity;
    }
    agenda_add(&run->agenda, happening);
}

/* ---- Contents ---- */

static uint64_t mixed(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ b * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ x >> 29;
}

/* What a task makes of what it reads; `contents` are those of its uses. */
static void mix(uint32_t task, const struct flow_access *uses, uint32_t count, uint64_t **contents)
{
    uint64_t hash = mixed(task + 1, 77);
    for (uint32_t i = 0; i < count; i++)
        hash = uses[i].mode != FLOW_WRITE ? mixed(hash, *contents[i]) : hash;
    for (uint32_t i = 0; i < count; i++)
        if (uses[i].mode != FLOW_READ)
            *contents[i] = mixed(hash, i);
}

static void mix_at(struct graph_run *run, uint32_t task, uint32_t place)
{
    struct flow_access uses[FLOW_ACCESSES_MAX];
    uint64_t *contents[FLOW_ACCESSES_MAX];
    uint32_t count = flow_accesses(run->flow, task, uses);
    for (uint32_t i = 0; i < count; i++)
        contents[i] = &run->instances[flow_instance(run->flow, uses[i].part, place)];
    mix(task, uses, count, contents);
}

/* How many tiles, of those that nothing spoiled, have other contents than in the serial run. */
static uint64_t count_wrong(const struct graph_run *run)
{
    uint64_t wrong = 0;
    struct flow_cause cause;
    for (uint32_t tile = 0; tile < run->tile_count; tile++) {
        uint32_t part = run->parts[tile];
        if (flow_part_blame(run->flow, part, &cause))
            continue;
        bool is_right = flow_is_valid(run->flow, part, FLOW_HOME)
                            ? run->home[tile] == run->serial[tile]
                            : false;
        for (uint32_t place = 1; place <= run->device_count; place++)
            if (flow_is_dirty(run->flow, part) && flow_is_valid(run->flow, part, place))
                is_right =
                    run->instances[flow_instance(run->flow, part, place)] == run->serial[tile];
        wrong += !is_right;
    }
    return wrong;
}

/* ---- Devices ---- */

static void plan_health(struct graph_run *run, uint32_t index)
{
    struct lane *lane = &run->lanes[index];
    uint64_t at_ns = model_next_change_ns(&run->devices[index], &lane->state, run->now_ns);
    if (model_health_at(&run->devices[index], &lane->state, run->now_ns) != MODEL_OK &&
        lane->health_due_ns == UINT64_MAX)
        at_ns = run->now_ns;
    if (at_ns == MODEL_NEVER || at_ns >= lane->health_due_ns)
        return;
    lane->health_due_ns = at_ns;
    plan(run, (struct happening){ .at_ns = at_ns, .kind = HAPPENS_HEALTH, .lane = index });
}

static void lose(struct graph_run *run, uint32_t index)
{
    struct lane *lane = &run->lanes[index];
    if (lane->is_lost)
        return;
    lane->is_lost = true;
    if (lane->task != FLOW_NONE)
        run->reports[index].busy_ns += run->now_ns - lane->began_ns;
    lane->task = FLOW_NONE;
    lane->serial = ++run->next_serial;
    run->reports[index].health = "lost";
    dispatch_lost(run->dispatch, index, run->now_ns);
}

static void look_at_health(struct graph_run *run, uint32_t index)
{
    struct lane *lane = &run->lanes[index];
    enum model_health health = model_health_at(&run->devices[index], &lane->state, run->now_ns);
    lane->health_due_ns = UINT64_MAX;
    if (health == MODEL_LOST) {
        lose(run, index);
        return;
    }
    if (health == MODEL_HUNG)
        plan(run, (struct happening){
                      .at_ns = run->now_ns + HANG_NS, .kind = HAPPENS_GIVE_UP, .lane = index });
    uint64_t at_ns = model_next_change_ns(&run->devices[index], &lane->state, run->now_ns);
    if (at_ns == MODEL_NEVER)
        return;
    lane->health_due_ns = at_ns;
    plan(run, (struct happening){ .at_ns = at_ns, .kind = HAPPENS_HEALTH, .lane = index });
}

static void begin_copy(struct graph_run *run, const struct dispatch_copy *copy)
{
    bool is_in = copy->to != FLOW_HOME;
    uint32_t index = (is_in ? copy->to : copy->from) - 1;
    struct lane *lane = &run->lanes[index];
    uint64_t *free_ns = is_in ? &lane->in_free_ns : &lane->out_free_ns;
    uint64_t begin_ns = *free_ns > run->now_ns ? *free_ns : run->now_ns;
    INVARIANT(copy->to == FLOW_HOME || copy->from == FLOW_HOME);
    uint64_t end_ns =
        model_copy_finish_ns(&run->devices[index], &lane->state,
                             is_in ? MODEL_LINK_H2D : MODEL_LINK_D2H, begin_ns, copy->bytes);
    run->copies[copy->id] = (struct copy_under_way){ *copy, begin_ns, ++run->next_serial };
    *free_ns = end_ns;
    if (end_ns != MODEL_NEVER)
        plan(run, (struct happening){ .at_ns = end_ns,
                                      .kind = HAPPENS_COPIED,
                                      .lane = index,
                                      .slot = copy->id,
                                      .serial = run->next_serial });
}

static bool begin_task(struct graph_run *run, uint32_t index)
{
    struct lane *lane = &run->lanes[index];
    if (lane->task != FLOW_NONE || lane->is_lost)
        return false;
    uint32_t task = dispatch_next_task(run->dispatch, index, run->now_ns);
    if (task == FLOW_NONE)
        return false;
    struct model_run launch =
        model_launch(&run->devices[index], &lane->state, run->now_ns, run->costs[task]);
    lane->task = task;
    lane->began_ns = run->now_ns;
    lane->fails = launch.fails;
    lane->serial = ++run->next_serial;
    if (launch.finish_ns != MODEL_NEVER)
        plan(run, (struct happening){ .at_ns = launch.finish_ns,
                                      .kind = HAPPENS_COMPUTED,
                                      .lane = index,
                                      .serial = lane->serial });
    plan_health(run, index);
    return true;
}

static void note_end(struct graph_run *run, uint32_t task, muster_status status, bool was_run)
{
    run->result->ended += status == MUSTER_OK;
    run->result->failed += status != MUSTER_OK && was_run;
    run->result->cancelled += !was_run;
    run->result->makespan_ns = run->now_ns;
    tasks_end(&run->tasks, task, status);
}

static void computed(struct graph_run *run, const struct happening *happening)
{
    uint32_t index = happening->lane;
    struct lane *lane = &run->lanes[index];
    if (lane->serial != happening->serial || lane->is_lost)
        return;
    uint32_t task = lane->task;
    muster_status status = lane->fails ? MUSTER_E_FAILED : MUSTER_OK;
    lane->task = FLOW_NONE;
    run->reports[index].busy_ns += run->now_ns - lane->began_ns;
    run->reports[index].tasks += status == MUSTER_OK;
    if (status == MUSTER_OK)
        mix_at(run, task, index + 1);
    dispatch_ended(run->dispatch, task, status, run->now_ns - lane->began_ns, run->now_ns);
    note_end(run, task, status, true);
}

static void copied(struct graph_run *run, const struct happening *happening)
{
    struct copy_under_way *under_way = &run->copies[happening->slot];
    const struct dispatch_copy *copy = &under_way->copy;
    uint32_t index = happening->lane;
    struct lane *lane = &run->lanes[index];
    if (under_way->serial != happening->serial || lane->is_lost)
        return;
    enum model_health health = model_health_at(&run->devices[index], &lane->state, run->now_ns);
    if (health != MODEL_OK) { /* a launch made it so after the copy was planned */
        uint64_t at_ns = model_next_change_ns(&run->devices[index], &lane->state, run->now_ns);
        if (health == MODEL_HUNG && at_ns != MODEL_NEVER)
            plan(run, (struct happening){ .at_ns = at_ns,
                                          .kind = HAPPENS_COPIED,
                                          .lane = index,
                                          .slot = happening->slot,
                                          .serial = happening->serial });
        return;
    }
    uint32_t tile = run->tile_of[copy->part];
    uint64_t *to = copy->to == FLOW_HOME ? &run->home[tile] : &run->instances[copy->to_instance];
    *to = copy->from == FLOW_HOME ? run->home[tile] : run->instances[copy->from_instance];
    *(copy->to == FLOW_HOME ? &run->reports[index].bytes_out : &run->reports[index].bytes_in) +=
        copy->bytes;
    under_way->serial = 0;
    dispatch_copied(run->dispatch, copy->id, MUSTER_OK, run->now_ns - under_way->began_ns);
}

/* ---- The run ---- */

/* Carries out what dispatch has to say. */
static void settle(struct graph_run *run)
{
    struct dispatch_copy copy;
    struct flow_cause cause;
    muster_status status;
    uint32_t task, instance;
    bool again = true;
    while (again) {
        again = false;
        dispatch_ready(run->dispatch, run->now_ns);
        while ((task = dispatch_next_dead(run->dispatch, &status, &cause)) != FLOW_NONE) {
            note_end(run, task, status, false);
            again = true;
        }
        while (dispatch_next_freed(run->dispatch, &instance))
            run->instances[instance] = 0; /* nobody may read it */
        for (uint32_t i = 0; i < run->device_count; i++)
            again |= begin_task(run, i);
        for (; dispatch_next_copy(run->dispatch, &copy); again = true)
            begin_copy(run, &copy);
    }
    if (run->options.check && !run->result->broken)
        run->result->broken = dispatch_check(run->dispatch);
}

static void happen(struct graph_run *run, const struct happening *happening)
{
    switch ((enum happening_kind)happening->kind) {
    case HAPPENS_COMPUTED:
        computed(run, happening);
        return;
    case HAPPENS_COPIED:
        copied(run, happening);
        return;
    case HAPPENS_HEALTH:
        look_at_health(run, happening->lane);
        return;
    case HAPPENS_GIVE_UP:
        if (model_health_at(&run->devices[happening->lane], &run->lanes[happening->lane].state,
                            run->now_ns) == MODEL_HUNG)
            lose(run, happening->lane);
        return;
    }
}

static void run_all(struct graph_run *run)
{
    struct happening happening;
    for (uint32_t i = 0; i < run->device_count; i++)
        plan_health(run, i);
    settle(run);
    while (run->tasks.open_count > 0 && !run->has_no_memory && !run->result->broken &&
           agenda_next(&run->agenda, &happening)) {
        run->now_ns = happening.at_ns;
        happen(run, &happening);
        settle(run);
    }
    if (run->tasks.open_count > 0 && !run->has_no_memory && !run->result->broken)
        run->result->broken = "tasks are left that nobody will run";
}

/* ---- Making it ---- */

/* How many tasks there are, and what they use. */
static void count_all(struct graph_run *run)
{
    struct graph_maker maker;
    struct graph_task task;
    graph_maker_init(&maker, &run->graph, run->options.seed);
    while (graph_next(&maker, &task)) {
        run->task_count++;
        run->use_count += task.count;
    }
    run->tile_count = graph_tiles(&run->graph);
}

/* Instances that can be there at once, and those whose memory is being given back. */
static uint32_t instances_for(const struct graph_run *run)
{
    uint64_t count = FLOW_ACCESSES_MAX;
    for (size_t i = 0; i < run->device_count; i++) {
        uint64_t fit = run->devices[i].memory_bytes / run->graph.tile_bytes;
        count += fit < run->tile_count ? fit : run->tile_count;
        count += FLOW_ACCESSES_MAX;
    }
    return (uint32_t)count;
}

static bool make_tables(struct graph_run *run)
{
    struct flow_sizes sizes = { .tasks = run->task_count,
                                .places = (uint32_t)run->device_count + 1,
                                .uses = run->use_count,
                                .data = run->tile_count,
                                .parts = run->tile_count,
                                .instances = instances_for(run) };
    struct dispatch_sizes dispatch = { .devices = (uint32_t)run->device_count,
                                       .tasks = run->task_count,
                                       .copies = COPIES_MAX,
                                       .rate_pairs = RATE_PAIRS };
    static const enum dispatch_policy policies[] = {
        [GRAPH_EARLIEST_FINISH] = DISPATCH_EARLIEST_FINISH,
        [GRAPH_EAGER] = DISPATCH_EAGER,
        [GRAPH_ROUND_ROBIN] = DISPATCH_ROUND_ROBIN,
    };
    uint32_t edges = 2 * run->use_count + 1; /* each use follows, and is followed, once per tile */
    void *table = take(run, tasks_bytes(run->task_count, edges), 1);
    void *flow = take(run, flow_bytes(&sizes), 1);
    void *memory = take(run, dispatch_bytes(&dispatch), 1);
    run->parts = take(run, run->tile_count, sizeof *run->parts);
    run->tile_of = take(run, run->tile_count, sizeof *run->tile_of);
    run->home = take(run, run->tile_count, sizeof *run->home);
    run->serial = take(run, run->tile_count, sizeof *run->serial);
    run->instances = take(run, sizes.instances, sizeof *run->instances);
    run->kernels = take(run, run->task_count, sizeof *run->kernels);
    run->costs = take(run, run->task_count, sizeof *run->costs);
    struct happening *heap = allocator_take(&run->allocator, 1024, sizeof *heap);
    agenda_init(&run->agenda, heap, heap ? 1024 : 0);
    if (run->has_no_memory || !heap)
        return false;
    tasks_init(&run->tasks, table, run->task_count, edges);
    run->flow = flow_init(flow, &sizes, &run->tasks);
    run->dispatch = dispatch_init(memory, &dispatch, run->flow, policies[run->graph.policy]);
    return true;
}

static void make_devices(struct graph_run *run)
{
    for (uint32_t i = 0; i < run->device_count; i++) {
        const struct model_device *device = &run->devices[i];
        dispatch_place(run->dispatch, i + 1,
                       &(struct dispatch_place){
                           .bytes = device->memory_bytes,
                           .in_bytes_per_ns = device->h2d_bytes_per_s / 1e9,
                           .out_bytes_per_ns = device->d2h_bytes_per_s / 1e9,
                       });
        dispatch_device(
            run->dispatch, i,
            &(struct dispatch_device){ .place = i + 1, .at_once = 1, .ahead = run->graph.ahead });
        run->lanes[i] = (struct lane){ .task = FLOW_NONE, .health_due_ns = UINT64_MAX };
        model_state_init(&run->lanes[i].state, run->options.seed, i);
    }
}

/* Submits all of it, and runs it serially with the numbers that stand for contents. */
static muster_status submit_all(struct graph_run *run, struct muster_error *err)
{
    struct graph_maker maker;
    struct graph_task made;
    for (uint32_t tile = 0; tile < run->tile_count; tile++) {
        uint32_t data = flow_data_add(run->flow, run->graph.tile_bytes, true);
        run->parts[tile] = flow_data_whole(run->flow, data);
        run->tile_of[run->parts[tile]] = tile;
        run->home[tile] = run->serial[tile] = mixed(tile, 1);
    }
    graph_maker_init(&maker, &run->graph, run->options.seed);
    while (graph_next(&maker, &made)) {
        struct flow_access uses[FLOW_ACCESSES_MAX];
        uint64_t *contents[FLOW_ACCESSES_MAX];
        uint32_t task = tasks_add(&run->tasks);
        for (uint32_t i = 0; i < made.count; i++) {
            uses[i] = (struct flow_access){ run->parts[made.uses[i].tile], made.uses[i].mode };
            contents[i] = &run->serial[made.uses[i].tile];
        }
        mix(task, uses, made.count, contents);
        if (dispatch_fits(run->dispatch, uses, made.count, UINT64_MAX) == 0)
            return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "give a device more \"memory\"",
                                     "no device's memory holds the %u tiles of task %u", made.count,
                                     task);
        enum flow_order_result result = flow_order(run->flow, task, task, uses, made.count);
        INVARIANT(result == FLOW_ORDERED);
        (void)result;
        run->kernels[task] = made.kernel;
        run->costs[task] = made.cost;
        tasks_set_dispatched(&run->tasks, task);
        tasks_release(&run->tasks, task);
    }
    return MUSTER_OK;
}

/* All edges are known now: the longest path that begins with each task is its priority. */
static void describe_all(struct graph_run *run, const double *levels, double longest)
{
    for (uint32_t task = 0; task < run->task_count; task++) {
        int32_t priority =
            run->graph.priorities ? (int32_t)(levels[task] / longest * (1 << 30)) : 0;
        dispatch_describe(run->dispatch, task,
                          &(struct dispatch_task){ .body = run->kernels[task],
                                                   .devices = UINT64_MAX,
                                                   .priority = priority });
    }
}

static muster_status make_result(struct graph_run *run, struct muster_error *err)
{
    struct owned_graph_result *owned = allocator_take(&run->allocator, 1, sizeof *owned);
    if (!owned)
        return no_memory(err);
    owned->allocator = run->allocator;
    run->result = &owned->result;
    run->result->size = sizeof *run->result;
    run->result->seed = run->options.seed;
    run->result->device_count = run->device_count;
    owned->devices = allocator_take(&run->allocator, run->device_count, sizeof *owned->devices);
    owned->pointers = allocator_take(&run->allocator, run->device_count, sizeof *owned->pointers);
    if (!owned->devices || !owned->pointers)
        return no_memory(err);
    run->reports = owned->devices;
    run->result->devices = owned->pointers;
    for (size_t i = 0; i < run->device_count; i++) {
        struct muster_graph_simulation_device *device = &run->reports[i];
        owned->pointers[i] = device;
        device->size = sizeof *device;
        snprintf(device->id, sizeof device->id, "sim:%zu", i);
        snprintf(device->name, sizeof device->name, "%s", run->devices[i].name);
        device->health = "ok";
    }
    return MUSTER_OK;
}

static void finish(struct graph_run *run)
{
    struct muster_graph_simulation *result = run->result;
    const struct dispatch_figures *figures = dispatch_figures(run->dispatch);
    result->tasks = run->task_count;
    result->ratio =
        result->bound_ns > 0 ? (double)result->makespan_ns / (double)result->bound_ns : 0;
    result->moved = figures->moved;
    result->copies = figures->copies;
    result->copied_bytes = figures->copied_bytes;
    result->evictions = figures->evictions;
    result->written_back_bytes = figures->written_back_bytes;
    result->wrong = count_wrong(run);
    result->status = result->ended == result->tasks && result->wrong == 0 && !result->broken
                         ? MUSTER_OK
                         : MUSTER_E_FAILED;
}

static muster_status simulate(struct graph_run *run, struct muster_error *err)
{
    muster_status status = make_result(run, err);
    if (status != MUSTER_OK)
        return status;
    count_all(run);
    double *levels = take(run, run->task_count, sizeof *levels);
    if (!make_tables(run) || !levels)
        return no_memory(err);
    make_devices(run);
    status = submit_all(run, err);
    if (status != MUSTER_OK)
        return status;
    struct graph_bound bound = graph_bound(run->devices, run->device_count, &run->tasks, run->costs,
                                           run->task_count, levels);
    run->result->critical_path_ns = bound.critical_path_ns;
    run->result->area_ns = bound.area_ns;
    run->result->bound_ns =
        bound.area_ns > bound.critical_path_ns ? bound.area_ns : bound.critical_path_ns;
    describe_all(run, levels, bound.longest);
    run_all(run);
    if (run->has_no_memory)
        return no_memory(err);
    finish(run);
    return MUSTER_OK;
}

static muster_status read_graph(struct graph_run *run, const char *text, size_t bytes,
                                struct muster_error *err)
{
    muster_status status =
        graph_scenario_read(text, bytes, NULL, 0, &run->device_count, &run->graph, err);
    if (status != MUSTER_E_CAPACITY)
        return status;
    run->devices = take(run, run->device_count, sizeof *run->devices);
    if (!run->devices)
        return no_memory(err);
    return graph_scenario_read(text, bytes, run->devices, run->device_count, &run->device_count,
                               &run->graph, err);
}

muster_status muster_simulate_graph(const char *text, size_t bytes,
                                    const struct muster_simulation_options *options,
                                    struct muster_graph_simulation **out, struct muster_error *err)
{
    struct graph_run run = { .options = { .size = sizeof run.options } };
    muster_status status = MUSTER_OK;
    if (!text || !out)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL,
                                 "muster_simulate_graph: an argument is NULL");
    if (options)
        status = layout_read(LAYOUT(muster_simulation_options), options, &run.options, err);
    if (status == MUSTER_OK && !graph_scenario_is_one(text, bytes))
        status = muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "call muster_simulate",
                                   "the scenario has no \"graph\"");
    if (status == MUSTER_OK && (run.options.event || run.options.everyone || run.options.runs))
        status = muster_error_fill(err, MUSTER_E_INVALID, 0, "leave them out",
                                   "the options event, everyone and runs are not for graphs");
    if (status == MUSTER_OK)
        status = allocator_read(run.options.allocator, &simulate_allocator, &run.allocator, err);
    if (status != MUSTER_OK)
        return status;
    status = read_graph(&run, text, bytes, err);
    if (status == MUSTER_OK)
        status = simulate(&run, err);
    if (status == MUSTER_OK)
        *out = run.result;
    else
        muster_graph_simulation_destroy(run.result);
    give_all(&run);
    return status;
}
