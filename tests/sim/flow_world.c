#include "flow_world.h"

#include "base/invariant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MAX 200000u
#define OPERATION 7u

struct world {
    const struct world_plan *plan;
    struct tasks table;
    struct flow *flow;
    struct dispatch *dispatch;
    void *memory[3];
    uint32_t data[WORLD_DATA], part[WORLD_PARTS];
    uint32_t contributions[WORLD_PARTS][FLOW_CONTRIBUTIONS]; /* of parts, their wholes */
    uint8_t home[64][WORLD_BYTES]; /* by datum of the flow, contributions included */
    uint8_t *instances[WORLD_INSTANCES];
    uint32_t instance_bytes[WORLD_INSTANCES];
    struct world_task tasks[WORLD_TASKS_MAX];
    uint32_t task_count, submitted, ended;
    uint32_t by_index[WORLD_TASKS_MAX];
    struct {
        struct dispatch_copy copy;
        bool is_done;
    } copies[WORLD_COPIES];
    uint32_t copy_count;
    struct {
        uint32_t task, device;
        bool is_done;
    } running[WORLD_TASKS_MAX];
    uint32_t running_count;
    uint32_t losses_left, refusals_left;
    uint64_t lost;
    uint64_t now_ns;
    bool is_serial, checks;
    world_pick pick;
    void *user;
    const char *wrong, *broken_file;
    int broken_line;
    uint32_t scramble;
};

/* ---- Bytes ---- */

static void scramble(struct world *world, uint8_t *bytes, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)((world->scramble = world->scramble * 1664525u + 1013904223u) >> 24);
}

/* The memory of a part's instance, which is taken when it is first used. */
static uint8_t *instance_memory(struct world *world, uint32_t part, uint32_t instance)
{
    uint64_t bytes = shape_bytes(flow_part_shape(world->flow, part));
    if (!world->instances[instance]) {
        world->instances[instance] = malloc(bytes);
        world->instance_bytes[instance] = (uint32_t)bytes;
        scramble(world, world->instances[instance], bytes);
    }
    return world->instances[instance];
}

/* Where byte number `i` of the part is at home. */
static uint8_t *home_byte(struct world *world, uint32_t part, uint64_t i)
{
    const struct shape *shape = flow_part_shape(world->flow, part);
    uint64_t at = shape->offset + i / shape->row_bytes * shape->pitch + i % shape->row_bytes;
    return &world->home[flow_part_data(world->flow, part)][at];
}

/* Where byte number `i` of `part` is in the compact instance of a part around it. */
static uint64_t place_in(const struct world *world, uint32_t part, uint32_t around, uint64_t i)
{
    const struct shape *shape = flow_part_shape(world->flow, part);
    const struct shape *outer = flow_part_shape(world->flow, around);
    uint64_t at = shape->offset + i / shape->row_bytes * shape->pitch + i % shape->row_bytes;
    uint64_t far = at - outer->offset, row = outer->rows > 1 ? far / outer->pitch : 0;
    return row * outer->row_bytes + (far - row * outer->pitch);
}

static void carry_out(struct world *world, const struct dispatch_copy *copy)
{
    uint64_t bytes = shape_bytes(flow_part_shape(world->flow, copy->part));
    uint8_t *to =
        copy->to == FLOW_HOME ? NULL : instance_memory(world, copy->part, copy->to_instance);
    const uint8_t *from = copy->from == FLOW_HOME
                              ? NULL
                              : instance_memory(world, copy->from_part, copy->from_instance);
    for (uint64_t i = 0; i < bytes; i++) {
        uint8_t byte = from ? from[place_in(world, copy->part, copy->from_part, i)]
                            : *home_byte(world, copy->part, i);
        *(to ? &to[i] : home_byte(world, copy->part, i)) = byte;
    }
}

static uint8_t *byte_at(struct world *world, uint32_t part, uint32_t place, uint64_t i)
{
    if (place == FLOW_HOME)
        return home_byte(world, part, i);
    return &instance_memory(world, part, flow_instance(world->flow, part, place))[i];
}

static uint64_t bytes_of(const struct world *world, uint32_t part)
{
    return shape_bytes(flow_part_shape(world->flow, part));
}

/* Every byte that is written depends on every byte that is read. */
static void mix(struct world *world, const struct world_task *task, uint32_t place)
{
    uint32_t hash = task->number * 2654435761u + 12345;
    for (uint32_t a = 0; a < task->count; a++)
        for (uint64_t i = 0; i < bytes_of(world, task->accesses[a].part); i++)
            if (task->accesses[a].mode == FLOW_READ || task->accesses[a].mode == FLOW_READ_WRITE)
                hash = (hash ^ *byte_at(world, task->accesses[a].part, place, i)) * 16777619u;
    for (uint32_t a = 0; a < task->count; a++)
        for (uint64_t i = 0; i < bytes_of(world, task->accesses[a].part); i++) {
            uint8_t *byte = byte_at(world, task->accesses[a].part, place, i);
            uint8_t fresh = (uint8_t)((hash + i * 2654435761u) >> 13);
            if (task->accesses[a].mode == FLOW_WRITE)
                *byte = fresh;
            else if (task->accesses[a].mode == FLOW_READ_WRITE)
                *byte = (uint8_t)(*byte * 5 + fresh);
            else if (task->accesses[a].mode == FLOW_COMMUTE)
                *byte = (uint8_t)(*byte + fresh);
        }
}

static void run_body(struct world *world, const struct world_task *task, uint32_t place)
{
    switch (task->kind) {
    case WORLD_MIX:
        mix(world, task, place);
        return;
    case WORLD_INIT:
        for (uint64_t i = 0; i < bytes_of(world, task->accesses[0].part); i++)
            *byte_at(world, task->accesses[0].part, place, i) = 1;
        return;
    case WORLD_REDUCE: /* the order of what is added to what can be seen in the result */
        for (uint64_t i = 0; i < bytes_of(world, task->accesses[0].part); i++) {
            uint8_t *byte = byte_at(world, task->accesses[0].part, place, i);
            *byte = (uint8_t)(*byte * 3 + task->number);
        }
        return;
    case WORLD_COMBINE:
        for (uint32_t a = 1; a < task->count; a++)
            for (uint64_t i = 0; i < bytes_of(world, task->accesses[0].part); i++) {
                uint8_t *byte = byte_at(world, task->accesses[0].part, place, i);
                *byte = (uint8_t)(*byte * 7 + *byte_at(world, task->accesses[a].part, place, i));
            }
        return;
    case WORLD_FETCH:
        return;
    }
}

/* ---- Submitting ---- */

static struct world_task *new_task(struct world *world, enum world_kind kind)
{
    struct world_task *task = &world->tasks[world->task_count];
    *task = (struct world_task){ .kind = kind, .number = world->task_count++, .devices = ~0ull };
    return task;
}

static void submit(struct world *world, struct world_task *task)
{
    task->count = flow_merge(task->accesses, task->count);
    uint32_t index = tasks_add(&world->table);
    task->index = index;
    world->by_index[index] = task->number;
    if (flow_order(world->flow, index, task->number, task->accesses, task->count) != FLOW_ORDERED)
        world->wrong = "a task has no room";
    struct dispatch_task about = { .body = task->kind,
                                   .devices = task->devices,
                                   .priority = task->priority,
                                   .on_host = task->kind == WORLD_FETCH };
    uint64_t fits = dispatch_fits(world->dispatch, task->accesses, task->count, ~0ull);
    if (fits == 0)
        about.on_host = true; /* nowhere: the host is always there */
    dispatch_describe(world->dispatch, index, &about);
    tasks_set_dispatched(&world->table, index);
    tasks_release(&world->table, index);
}

/* Combines whatever must be before this use of the part. */
static void combine_pending(struct world *world, uint32_t part, uint64_t operation)
{
    uint32_t pending;
    while ((pending = flow_reduce_pending(world->flow, part, operation)) != FLOW_NONE) {
        struct world_task *task = new_task(world, WORLD_COMBINE);
        uint64_t by;
        task->count = flow_reduce_combine(world->flow, pending, task->accesses, &by);
        submit(world, task);
    }
}

static void submit_reduction(struct world *world, uint32_t at, const struct world_task *like)
{
    uint32_t part = world->part[at];
    bool is_first;
    if (!flow_reduce_is_prepared(world->flow, part)) {
        for (uint32_t i = 0; i < FLOW_CONTRIBUTIONS; i++) {
            uint32_t data = flow_data_add(world->flow, bytes_of(world, part), false);
            world->contributions[at][i] = flow_data_whole(world->flow, data);
        }
        flow_reduce_prepare(world->flow, part, world->contributions[at]);
    }
    combine_pending(world, part, OPERATION);
    uint32_t contribution = flow_reduce_next(world->flow, part, OPERATION, &is_first);
    if (is_first) {
        struct world_task *init = new_task(world, WORLD_INIT);
        init->accesses[init->count++] = (struct flow_access){ contribution, FLOW_WRITE };
        submit(world, init);
    }
    struct world_task *task = new_task(world, WORLD_REDUCE);
    task->accesses[task->count++] = (struct flow_access){ contribution, FLOW_READ_WRITE };
    task->fails = like->fails;
    task->priority = like->priority;
    submit(world, task);
}

static void submit_next(struct world *world)
{
    const struct world_plan *plan = world->plan;
    uint32_t n = world->submitted++;
    struct world_task like = { .devices = plan->tasks[n].devices,
                               .priority = plan->tasks[n].priority,
                               .fails = plan->tasks[n].fails };
    if (plan->tasks[n].mode[0] == 0) {
        submit_reduction(world, plan->tasks[n].part[0], &like);
        return;
    }
    for (uint32_t i = 0; i < plan->tasks[n].count; i++)
        combine_pending(world, world->part[plan->tasks[n].part[i]], 0);
    struct world_task *task = new_task(world, WORLD_MIX);
    task->devices = like.devices;
    task->priority = like.priority;
    task->fails = like.fails;
    for (uint32_t i = 0; i < plan->tasks[n].count; i++)
        task->accesses[task->count++] =
            (struct flow_access){ world->part[plan->tasks[n].part[i]], plan->tasks[n].mode[i] };
    /* What would be refused is left out. */
    task->count = flow_merge(task->accesses, task->count);
    for (uint32_t clash;
         (clash = flow_clash(world->flow, task->accesses, task->count)) < task->count;)
        task->accesses[clash] = task->accesses[--task->count];
    submit(world, task);
}

/* ---- What happens ---- */

static void note_end(struct world *world, uint32_t index, muster_status status)
{
    struct world_task *task = &world->tasks[world->by_index[index]];
    task->ends++;
    task->status = status;
    world->ended++;
    tasks_end(&world->table, index, status);
    dispatch_ready(world->dispatch, world->now_ns);
}

/* What dispatch has to say without anything having happened. */
static void settle(struct world *world)
{
    uint32_t instance, index;
    muster_status status;
    struct flow_cause cause;
    dispatch_ready(world->dispatch, world->now_ns);
    for (bool again = true; again;) {
        again = false;
        while ((index = dispatch_next_dead(world->dispatch, &status, &cause)) != FLOW_NONE) {
            note_end(world, index, status);
            again = true;
        }
        uint64_t version;
        while ((index = dispatch_next_undecided(world->dispatch, &version)) != FLOW_NONE) {
            /* A policy that may be wrong at first, and then leaves it to dispatch. */
            uint32_t device =
                world->is_serial ? 0 : world->pick(world->user, world->plan->device_count);
            if (!dispatch_choose(world->dispatch, index, device, version, world->now_ns)) {
                index = dispatch_next_undecided(world->dispatch, &version);
                dispatch_choose(world->dispatch, index, FLOW_NONE, version, world->now_ns);
            }
            again = true;
        }
    }
    while (dispatch_next_freed(world->dispatch, &instance)) {
        free(world->instances[instance]);
        world->instances[instance] = NULL;
    }
    while (world->copy_count < WORLD_COPIES &&
           dispatch_next_copy(world->dispatch, &world->copies[world->copy_count].copy)) {
        world->copies[world->copy_count].is_done = false;
        if (!world->is_serial && world->pick(world->user, 2) == 0) {
            carry_out(world, &world->copies[world->copy_count].copy);
            world->copies[world->copy_count].is_done = true;
        }
        world->copy_count++;
    }
    if (world->checks && !world->wrong)
        world->wrong = dispatch_check(world->dispatch);
    if (invariant_count(&world->broken_file, &world->broken_line) > 0 && !world->wrong) {
        static char text[200];
        snprintf(text, sizeof text, "invariant of %s:%d", world->broken_file, world->broken_line);
        world->wrong = text;
    }
}

static void end_copy(struct world *world, uint32_t at)
{
    struct dispatch_copy copy = world->copies[at].copy;
    bool is_refused = !world->copies[at].is_done && world->refusals_left > 0 &&
                      copy.to != FLOW_HOME && world->pick(world->user, 4) == 0;
    if (is_refused)
        world->refusals_left--;
    else if (!world->copies[at].is_done)
        carry_out(world, &copy);
    world->copies[at] = world->copies[--world->copy_count];
    dispatch_copied(world->dispatch, copy.id, is_refused ? MUSTER_E_DEVICE_MEMORY : MUSTER_OK,
                    copy.bytes * 3);
}

static uint32_t place_of(const struct world *world, uint32_t device)
{
    bool is_home = world->is_serial || device == DISPATCH_HOST;
    return is_home ? FLOW_HOME : world->plan->devices[device].place;
}

static bool begin_task(struct world *world, uint32_t device)
{
    uint32_t index = dispatch_next_task(world->dispatch, device, world->now_ns);
    if (index == FLOW_NONE)
        return false;
    struct world_task *task = &world->tasks[world->by_index[index]];
    bool now = !world->is_serial && world->pick(world->user, 2) == 0;
    world->running[world->running_count].task = task->number;
    world->running[world->running_count].device = device;
    world->running[world->running_count++].is_done = now;
    if (now && !task->fails)
        run_body(world, task, place_of(world, device));
    return true;
}

static void end_task(struct world *world, uint32_t at)
{
    uint32_t device = world->running[at].device;
    struct world_task *task = &world->tasks[world->running[at].task];
    if (!world->running[at].is_done && !task->fails)
        run_body(world, task, place_of(world, device));
    world->running[at] = world->running[--world->running_count];
    muster_status status = task->fails ? MUSTER_E_FAILED : MUSTER_OK;
    dispatch_ended(world->dispatch, task->index, status, 100 + task->number % 7, world->now_ns);
    note_end(world, task->index, status);
}

static void lose(struct world *world, uint32_t device)
{
    uint32_t place = world->plan->devices[device].place;
    world->lost |= UINT64_C(1) << device;
    world->losses_left--;
    for (uint32_t i = world->running_count; i > 0; i--)
        if (world->running[i - 1].device == device)
            world->running[i - 1] = world->running[--world->running_count];
    bool is_used = place == FLOW_HOME;
    for (uint32_t i = 0; i < world->plan->device_count; i++)
        is_used |= world->plan->devices[i].place == place && !(world->lost >> i & 1);
    for (uint32_t i = world->copy_count; i > 0 && !is_used; i--)
        if (world->copies[i - 1].copy.from == place || world->copies[i - 1].copy.to == place)
            world->copies[i - 1] = world->copies[--world->copy_count];
    dispatch_lost(world->dispatch, device, world->now_ns);
}

/* One thing happens; false if nothing can. */
static bool step(struct world *world)
{
    const struct world_plan *plan = world->plan;
    settle(world);
    bool can_submit = world->submitted < plan->task_count &&
                      (!world->is_serial || world->ended == world->task_count);
    /* Devices that can begin something do so at once, in an order that is picked. */
    uint32_t devices = world->is_serial ? 1 : plan->device_count;
    uint32_t begin = world->is_serial ? 0 : world->pick(world->user, devices);
    for (uint32_t i = 0; i < devices; i++)
        if (begin_task(world, (begin + i) % devices))
            return true;
    if (begin_task(world, DISPATCH_HOST))
        return true;
    settle(world);
    uint32_t choices =
        can_submit + world->copy_count + world->running_count + (world->losses_left > 0);
    if (choices == 0)
        return false;
    uint32_t at = world->is_serial ? 0 : world->pick(world->user, choices);
    world->now_ns += 10;
    if (at < can_submit) {
        submit_next(world);
        return true;
    }
    at -= can_submit;
    if (at < world->copy_count)
        end_copy(world, at);
    else if (at - world->copy_count < world->running_count)
        end_task(world, at - world->copy_count);
    else
        lose(world, world->losses_left - 1);
    return true;
}

/* ---- From begin to end ---- */

static void open_world(struct world *world)
{
    const struct world_plan *plan = world->plan;
    struct flow_sizes sizes = { .tasks = WORLD_TASKS_MAX,
                                .places = world->is_serial ? 1 : plan->place_count,
                                .uses = WORLD_TASKS_MAX * (1 + FLOW_CONTRIBUTIONS),
                                .data = 64,
                                .parts = 128,
                                .overlaps = 2048,
                                .instances = WORLD_INSTANCES };
    struct dispatch_sizes dispatch = { .devices = world->is_serial ? 1 : plan->device_count,
                                       .decisions = 4,
                                       .tasks = WORLD_TASKS_MAX,
                                       .copies = WORLD_COPIES,
                                       .rate_pairs = 16 };
    world->memory[0] = malloc(tasks_bytes(WORLD_TASKS_MAX, 65536));
    tasks_init(&world->table, world->memory[0], WORLD_TASKS_MAX, 65536);
    world->memory[1] = aligned_alloc(64, flow_bytes(&sizes));
    world->flow = flow_init(world->memory[1], &sizes, &world->table);
    world->memory[2] = aligned_alloc(64, dispatch_bytes(&dispatch));
    world->dispatch = dispatch_init(world->memory[2], &dispatch, world->flow, plan->policy);
    static const struct dispatch_device alone = { .place = FLOW_HOME, .at_once = 1, .ahead = 1 };
    for (uint32_t i = 0; i < dispatch.devices; i++)
        dispatch_device(world->dispatch, i, world->is_serial ? &alone : &plan->devices[i]);
    for (uint32_t i = 1; i < sizes.places; i++)
        dispatch_place(world->dispatch, i, &plan->places[i]);
    for (uint32_t i = 0; i < plan->data_count; i++) {
        world->data[i] = flow_data_add(world->flow, plan->data_bytes[i], true);
        for (uint32_t k = 0; k < WORLD_BYTES; k++)
            world->home[world->data[i]][k] = (uint8_t)(i * 50 + k);
    }
    for (uint32_t i = 0; i < plan->part_count; i++)
        if (flow_part_add(world->flow, world->data[plan->parts[i].data], &plan->parts[i].shape,
                          &world->part[i]) != FLOW_PART_OK)
            world->wrong = "a part has no room";
}

static void close_world(struct world *world)
{
    for (uint32_t i = 0; i < WORLD_INSTANCES; i++)
        free(world->instances[i]);
    for (uint32_t i = 0; i < 3; i++)
        free(world->memory[i]);
}

static void run_all(struct world *world, uint64_t *steps)
{
    const struct world_plan *plan = world->plan;
    while (!world->wrong && step(world))
        if (++*steps > STEPS_MAX)
            world->wrong = "it goes on for ever";
    if (world->wrong)
        return;
    if (world->submitted < plan->task_count || world->ended < world->task_count)
        world->wrong = "tasks are stuck";
    else if (!dispatch_is_idle(world->dispatch) || world->table.open_count > 0)
        world->wrong = "something is left";
}

/* Everything comes home, as when data are destroyed. */
static void fetch_all(struct world *world)
{
    const struct world_plan *plan = world->plan;
    for (uint32_t i = 0; i < plan->data_count; i++)
        combine_pending(world, flow_data_whole(world->flow, world->data[i]), 0);
    for (uint32_t i = 0; i < plan->part_count; i++) {
        struct world_task *task = new_task(world, WORLD_FETCH);
        task->accesses[task->count++] = (struct flow_access){ world->part[i], FLOW_READ };
        submit(world, task);
    }
}

static void report(struct world *world, struct world_outcome *out)
{
    const struct world_plan *plan = world->plan;
    struct flow_cause cause;
    memset(out->is_good, true, sizeof out->is_good);
    for (uint32_t p = 0; p < plan->part_count; p++)
        for (uint64_t i = 0; i < bytes_of(world, world->part[p]); i++)
            if (flow_part_blame(world->flow, world->part[p], &cause)) {
                uint64_t at = (uint64_t)(home_byte(world, world->part[p], i) -
                                         world->home[flow_part_data(world->flow, world->part[p])]);
                out->is_good[plan->parts[p].data][at] = false;
            }
    for (uint32_t d = 0; d < plan->data_count; d++)
        memcpy(out->bytes[d], world->home[world->data[d]], WORLD_BYTES);
    out->task_count = world->task_count;
    for (uint32_t i = 0; i < world->task_count; i++) {
        out->statuses[i] = world->tasks[i].status;
        if (world->tasks[i].ends != 1)
            world->wrong = "a task has not ended once";
    }
}

static const char *run(const struct world_plan *plan, bool is_serial, world_pick pick, void *user,
                       bool checks, struct world_outcome *out)
{
    static struct world world;
    memset(&world, 0, sizeof world);
    world.plan = plan;
    world.is_serial = is_serial;
    world.pick = pick;
    world.user = user;
    world.checks = checks;
    world.losses_left = is_serial ? 0 : plan->losses;
    world.refusals_left = !is_serial && plan->has_refusals ? 2 : 0;
    *out = (struct world_outcome){ .steps = 0 };
    open_world(&world);
    if (!world.wrong)
        run_all(&world, &out->steps);
    if (!world.wrong) {
        fetch_all(&world);
        run_all(&world, &out->steps);
    }
    if (!world.wrong)
        world.wrong = dispatch_check(world.dispatch);
    if (!world.wrong)
        report(&world, out);
    close_world(&world);
    return world.wrong;
}

const char *world_run(const struct world_plan *plan, world_pick pick, void *user, bool checks,
                      struct world_outcome *out)
{
    return run(plan, false, pick, user, checks, out);
}

const char *world_run_serially(const struct world_plan *plan, struct world_outcome *out)
{
    return run(plan, true, NULL, NULL, true, out);
}

const char *world_compare(const struct world_plan *plan, const struct world_outcome *serial,
                          const struct world_outcome *other)
{
    static char text[200];
    if (serial->task_count != other->task_count)
        return "other tasks were inserted";
    for (uint32_t i = 0; i < serial->task_count && plan->losses == 0; i++)
        if (serial->statuses[i] != other->statuses[i]) {
            snprintf(text, sizeof text, "task %u ended as %d, and as %d serially", i,
                     other->statuses[i], serial->statuses[i]);
            return text;
        }
    for (uint32_t d = 0; d < plan->data_count; d++)
        for (uint32_t i = 0; i < plan->data_bytes[d]; i++) {
            bool good = other->is_good[d][i];
            if (plan->losses == 0 && good != serial->is_good[d][i])
                return "other bytes are spoiled";
            if (good && serial->is_good[d][i] && other->bytes[d][i] != serial->bytes[d][i]) {
                snprintf(text, sizeof text, "byte %u of datum %u is %u, and %u serially", i, d,
                         other->bytes[d][i], serial->bytes[d][i]);
                return text;
            }
        }
    return NULL;
}

/* ---- Plans ---- */

static struct shape draw_shape(struct random *random, uint64_t bytes, bool overlaps)
{
    struct shape shape = { .rows = 1 };
    do {
        if (overlaps) {
            shape.offset = random_below(random, bytes);
            shape.rows = 1 + random_below(random, 2) * random_below(random, 4);
            shape.row_bytes = 1 + random_below(random, 8);
            shape.pitch = 8;
        } else {
            shape.offset = 8 * random_below(random, bytes / 8);
            shape.row_bytes = 8;
        }
    } while (!shape_is_within(&shape, bytes));
    return shape;
}

static void draw_machine(struct world_plan *plan, struct random *random,
                         const struct world_rules *rules)
{
    plan->device_count = 1 + (uint32_t)random_below(random, rules->devices_most);
    plan->place_count = 1;
    for (uint32_t i = 0; i < plan->device_count; i++) {
        uint32_t place = (uint32_t)random_below(random, plan->place_count + 1);
        if (random_below(random, 3) > 0)
            place = plan->place_count;
        plan->place_count += place == plan->place_count;
        plan->devices[i] = (struct dispatch_device){
            .place = place,
            .at_once = 1 + (uint32_t)random_below(random, 2),
            .ahead = 1 + (uint32_t)random_below(random, 3),
        };
    }
    for (uint32_t i = 1; i < plan->place_count; i++)
        plan->places[i] = (struct dispatch_place){
            /* Often barely enough for one task: 4 uses of a whole. */
            .bytes = random_below(random, 2) ? 4 * WORLD_BYTES + random_below(random, 100)
                                             : 40 + random_below(random, 400),
            .in_bytes_per_ns = random_below(random, 2) ? 1.0 : 0,
            .peers = random_next(random) & random_next(random),
        };
    plan->policy = (enum dispatch_policy)random_below(random, 4);
}

void world_make(struct world_plan *plan, uint64_t seed, const struct world_rules *rules)
{
    static const uint32_t modes[] = { FLOW_READ,       FLOW_READ,       FLOW_READ,   FLOW_WRITE,
                                      FLOW_READ_WRITE, FLOW_READ_WRITE, FLOW_COMMUTE };
    struct random random;
    random_init(&random, seed);
    memset(plan, 0, sizeof *plan);
    plan->seed = seed;
    plan->data_count = 1 + (uint32_t)random_below(&random, WORLD_DATA);
    for (uint32_t i = 0; i < plan->data_count; i++) {
        plan->data_bytes[i] = 8 * (1 + random_below(&random, WORLD_BYTES / 8));
        plan->parts[plan->part_count].data = i;
        plan->parts[plan->part_count++].shape =
            (struct shape){ .rows = 1, .row_bytes = plan->data_bytes[i] };
    }
    uint32_t parts = plan->part_count + (uint32_t)random_below(&random, rules->many_parts ? 20 : 4);
    bool overlaps = rules->overlaps && random_below(&random, 3) > 0;
    while (plan->part_count < parts) {
        uint32_t data = (uint32_t)random_below(&random, plan->data_count);
        plan->parts[plan->part_count].data = data;
        plan->parts[plan->part_count++].shape =
            draw_shape(&random, plan->data_bytes[data], overlaps);
    }
    draw_machine(plan, &random, rules);
    plan->task_count = 1 + (uint32_t)random_below(&random, rules->tasks_most);
    for (uint32_t i = 0; i < plan->task_count; i++) {
        uint32_t count = 1 + (uint32_t)random_below(&random, WORLD_USES_MAX);
        bool reduces = random_below(&random, 8) == 0;
        plan->tasks[i].count = reduces ? 1 : count;
        for (uint32_t k = 0; k < plan->tasks[i].count; k++) {
            plan->tasks[i].part[k] = (uint32_t)random_below(&random, plan->part_count);
            /* Whom a commuting task that fails takes with it depends on the order. */
            plan->tasks[i].mode[k] =
                reduces ? 0 : modes[random_below(&random, 7 - rules->failures)];
        }
        if (reduces) /* contributions take many tasks and data: of one part only */
            plan->tasks[i].part[0] = 0;
        plan->tasks[i].devices = ~UINT64_C(0);
        plan->tasks[i].priority = (int32_t)random_below(&random, 3);
        plan->tasks[i].fails = rules->failures && random_below(&random, 20) == 0;
    }
    if (rules->losses && plan->device_count > 1)
        plan->losses = (uint32_t)random_below(&random, plan->device_count);
    plan->has_refusals = rules->refusals && random_below(&random, 2);
}
