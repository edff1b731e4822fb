#include "model/machines.h"

#include "model/fields.h"

#include <muster/backend.h>
#include <string.h>

#define DEFAULT_SLOTS 2
#define DEFAULT_BACK_NS UINT64_C(1000000000)

/* Where what is read goes: machines and devices as far as there is room. */
struct target {
    struct machine_model *machines;
    struct model_device *devices;
    size_t machine_capacity, machine_count, device_capacity, device_count;
};

/* Ends the reading of an array. */
static muster_status leave_array(struct json *json, muster_status status, struct muster_error *err)
{
    if (status)
        return status;
    return json->problem ? field_json_error(json, err) : MUSTER_OK;
}

/* Machines. */

static muster_status read_link(struct json *json, struct machine_model *machine,
                               struct muster_error *err)
{
    enum { LATENCY, BYTES, LOSES, DELAYS, KEYS };
    static const char *const names[] = { "latency_us", "bytes_per_s", "loses", "delays" };
    static const struct field_range latency = { .least = 0,
                                                .most = 1e7,
                                                .words = "a number from 0 to 1e7" };
    struct fields fields = { .names = names,
                             .count = KEYS,
                             .of = "a link",
                             .fix = "keys: latency_us bytes_per_s loses delays" };
    double us = (double)machine->latency_ns / 1000;
    size_t at = 0;
    uint32_t key;
    muster_status status = field_enter_object(json, "link", &at, err);
    if (status)
        return status;
    while (fields_next(json, &fields, &key, err))
        fields.status =
            key == LATENCY ? field_double(json, names[key], &latency, &us, err)
            : key == BYTES
                ? field_double(json, names[key], &field_above_zero, &machine->bytes_per_s, err)
                : field_double(json, names[key], &field_below_one,
                               key == LOSES ? &machine->loses : &machine->delays, err);
    if (fields.status)
        return fields.status;
    machine->latency_ns = (uint64_t)(us * 1000);
    return MUSTER_OK;
}

static muster_status read_fault(struct json *json, struct machine_fault *out,
                                struct muster_error *err)
{
    enum { KIND, AT, FOR, KEYS };
    static const char *const names[] = { "kind", "at_ms", "for_ms" };
    static const char *const kinds[] = { "partition", "lost", "joins", "leaves" };
    struct fields fields = {
        .names = names, .count = KEYS, .of = "a fault", .fix = "keys: kind at_ms for_ms"
    };
    struct machine_fault fault = { .at_ns = 0 };
    size_t at = 0;
    uint32_t key, kind = 0;
    muster_status status = field_enter_object(json, "faults", &at, err);
    if (status)
        return status;
    while (fields_next(json, &fields, &key, err))
        fields.status = key == KIND ? field_choice(json, names[key], kinds, 4, &kind, err)
                        : key == AT ? field_ms(json, names[key], 0, &fault.at_ns, err)
                                    : field_ms(json, names[key], 1, &fault.for_ns, err);
    if (fields.status)
        return fields.status;
    fault.kind = (enum machine_fault_kind)kind;
    if (!fields_given(&fields, KIND))
        return field_error(json, at, err, "say \"kind\": partition, lost, joins or leaves",
                           "a fault of a machine needs a \"kind\"");
    if (fields_given(&fields, FOR) && fault.kind != MACHINE_PARTITION && fault.kind != MACHINE_LOST)
        return field_error(json, fields.at[FOR], err, "leave the key out",
                           "\"for_ms\" means nothing to a fault of kind \"%s\"", kinds[kind]);
    *out = fault;
    return MUSTER_OK;
}

static muster_status read_faults(struct json *json, struct machine_model *machine,
                                 struct muster_error *err)
{
    muster_status status = field_enter(json, "faults", JSON_ARRAY, err);
    while (!status && json_next_element(json)) {
        if (machine->fault_count == MACHINES_FAULTS_MAX)
            return field_error(json, json->at, err, "describe fewer faults",
                               "a machine has at most %d faults", MACHINES_FAULTS_MAX);
        status = read_fault(json, &machine->faults[machine->fault_count++], err);
    }
    return leave_array(json, status, err);
}

/* Reads the devices after those that are there; what they share has no place among machines. */
static muster_status read_devices(struct json *json, struct target *target,
                                  struct machine_model *machine, struct muster_error *err)
{
    static const struct model_resources none = { .count = 0 };
    size_t count = 0, used = target->device_count;
    size_t room = target->device_capacity > used ? target->device_capacity - used : 0;
    muster_status status = model_read_devices(json, &none, room > 0 ? target->devices + used : NULL,
                                              room, &count, err);
    if (status)
        return status;
    machine->first_device = (uint32_t)used;
    machine->device_count = (uint32_t)count;
    target->device_count += count;
    if (target->device_count > MACHINES_DEVICES_MAX)
        return field_error(json, json->at, err, "use \"count\" of machines",
                           "more than %u kinds of devices are described", MACHINES_DEVICES_MAX);
    return MUSTER_OK;
}

static muster_status read_machine(struct json *json, struct target *target,
                                  struct muster_error *err)
{
    enum { NAME, COUNT, DEVICES, LINK, FAULTS, KEYS };
    static const char *const names[] = { "name", "count", "devices", "link", "faults" };
    struct fields fields = { .names = names,
                             .count = KEYS,
                             .of = "a machine",
                             .fix = "keys: name count devices link faults" };
    struct machine_model machine = { .name = "machine", .latency_ns = 200000 };
    uint64_t copies = 1;
    size_t at = 0;
    uint32_t key;
    muster_status status = field_enter_object(json, "machines", &at, err);
    if (status)
        return status;
    while (fields_next(json, &fields, &key, err))
        fields.status = key == NAME
                            ? field_text(json, names[key], machine.name, sizeof machine.name, err)
                        : key == COUNT ? field_u64(json, names[key], 1, MACHINES_MAX, &copies, err)
                        : key == DEVICES ? read_devices(json, target, &machine, err)
                        : key == LINK    ? read_link(json, &machine, err)
                                         : read_faults(json, &machine, err);
    if (fields.status)
        return fields.status;
    if (!fields_given(&fields, DEVICES))
        return field_error(json, at, err, "say \"devices\": [{\"items_per_s\": 1e6}]",
                           "a machine needs \"devices\"");
    if (target->machine_count + copies > MACHINES_MAX)
        return field_error(json, at, err, "describe fewer machines",
                           "there are more than %u machines", MACHINES_MAX);
    for (uint64_t i = 0; i < copies; i++, target->machine_count++)
        if (target->machine_count < target->machine_capacity)
            target->machines[target->machine_count] = machine;
    return MUSTER_OK;
}

static muster_status read_machines(struct json *json, struct target *target,
                                   struct muster_error *err)
{
    size_t at = json->at;
    muster_status status = field_enter(json, "machines", JSON_ARRAY, err);
    while (!status && json_next_element(json))
        status = read_machine(json, target, err);
    status = leave_array(json, status, err);
    if (!status && target->machine_count == 0)
        return field_error(json, at, err, "describe at least one", "there are no machines");
    return status;
}

/* Engine and submitter. */

static muster_status read_stall(struct json *json, struct machine_spell *out,
                                struct muster_error *err)
{
    enum { AT, FOR, KEYS };
    static const char *const names[] = { "at_ms", "for_ms" };
    struct fields fields = {
        .names = names, .count = KEYS, .of = "a stall", .fix = "keys: at_ms for_ms"
    };
    size_t at = 0;
    uint32_t key;
    muster_status status = field_enter_object(json, "stalls", &at, err);
    if (status)
        return status;
    while (fields_next(json, &fields, &key, err))
        fields.status =
            field_ms(json, names[key], key == FOR, key == AT ? &out->at_ns : &out->for_ns, err);
    if (!fields.status && !fields_given(&fields, FOR))
        return field_error(json, at, err, "say for how many milliseconds",
                           "a stall needs \"for_ms\"");
    return fields.status;
}

static muster_status read_stalls(struct json *json, struct machines *out, struct muster_error *err)
{
    muster_status status = field_enter(json, "stalls", JSON_ARRAY, err);
    while (!status && json_next_element(json)) {
        if (out->stall_count == MACHINES_SPELLS_MAX)
            return field_error(json, json->at, err, "describe fewer",
                               "an engine has at most %d stalls", MACHINES_SPELLS_MAX);
        status = read_stall(json, &out->stalls[out->stall_count++], err);
    }
    return leave_array(json, status, err);
}

static muster_status read_engine(struct json *json, struct machines *out, struct muster_error *err)
{
    enum { STALLS, LOSES, KEYS };
    static const char *const names[] = { "stalls", "loses_result" };
    struct fields fields = {
        .names = names, .count = KEYS, .of = "the engine", .fix = "keys: stalls loses_result"
    };
    size_t at = 0;
    uint32_t key;
    muster_status status = field_enter_object(json, "engine", &at, err);
    if (status)
        return status;
    while (fields_next(json, &fields, &key, err))
        fields.status = key == STALLS ? read_stalls(json, out, err)
                                      : field_double(json, names[key], &field_below_one,
                                                     &out->loses_result, err);
    return fields.status;
}

static muster_status read_times(struct json *json, const char *key, uint64_t *times,
                                uint32_t *count, struct muster_error *err)
{
    muster_status status = field_enter(json, key, JSON_ARRAY, err);
    while (!status && json_next_element(json)) {
        if (*count == MACHINES_SPELLS_MAX)
            return field_error(json, json->at, err, "give fewer", "\"%s\" has more than %d times",
                               key, MACHINES_SPELLS_MAX);
        status = field_ms(json, key, 1, &times[(*count)++], err);
    }
    return leave_array(json, status, err);
}

static muster_status read_submitter(struct json *json, struct machines *out,
                                    struct muster_error *err)
{
    enum { DIES, BACK, TWINS, KEYS };
    static const char *const names[] = { "dies_at_ms", "back_after_ms", "twins_at_ms" };
    struct fields fields = { .names = names,
                             .count = KEYS,
                             .of = "the submitter",
                             .fix = "keys: dies_at_ms back_after_ms twins_at_ms" };
    size_t at = 0;
    uint32_t key;
    muster_status status = field_enter_object(json, "submitter", &at, err);
    if (status)
        return status;
    while (fields_next(json, &fields, &key, err))
        fields.status =
            key == DIES   ? read_times(json, names[key], out->dies_ns, &out->death_count, err)
            : key == BACK ? field_ms(json, names[key], 1, &out->back_ns, err)
                          : read_times(json, names[key], out->twins_ns, &out->twin_count, err);
    return fields.status;
}

/* Jobs. */

static muster_status read_poison(struct json *json, struct machine_poison *out,
                                 struct muster_error *err)
{
    enum { ITEM, KIND, KEYS };
    static const char *const names[] = { "item", "kind" };
    static const char *const kinds[] = { "fails", "fails-unnamed", "kills" };
    struct fields fields = {
        .names = names, .count = KEYS, .of = "a poison", .fix = "keys: item kind"
    };
    size_t at = 0;
    uint32_t key, kind = POISON_FAILS;
    muster_status status = field_enter_object(json, "poison", &at, err);
    if (status)
        return status;
    while (fields_next(json, &fields, &key, err))
        fields.status =
            key == ITEM ? field_u64(json, names[key], 0, SCENARIO_ITEMS_MAX - 1, &out->item, err)
                        : field_choice(json, names[key], kinds, 3, &kind, err);
    out->kind = (enum machine_poison_kind)kind;
    if (!fields.status && !fields_given(&fields, ITEM))
        return field_error(json, at, err, "name the item that no worker can run",
                           "a poison needs an \"item\"");
    return fields.status;
}

static muster_status read_poisons(struct json *json, struct machine_job *job,
                                  struct muster_error *err)
{
    muster_status status = field_enter(json, "poison", JSON_ARRAY, err);
    while (!status && json_next_element(json)) {
        if (job->poison_count == MACHINES_POISONS_MAX)
            return field_error(json, json->at, err, "describe fewer",
                               "a job has at most %d poisons", MACHINES_POISONS_MAX);
        status = read_poison(json, &job->poisons[job->poison_count++], err);
    }
    return leave_array(json, status, err);
}

enum job_key {
    JOB_ITEMS,
    JOB_BYTES_IN,
    JOB_BYTES_OUT,
    JOB_COST,
    JOB_WINDOW,
    JOB_TRIES,
    JOB_GRAIN,
    JOB_WEIGHT,
    JOB_POISON,
    JOB_KEYS
};

static const char *const job_keys[] = {
    [JOB_ITEMS] = "items", [JOB_BYTES_IN] = "item_bytes_in", [JOB_BYTES_OUT] = "item_bytes_out",
    [JOB_COST] = "cost",   [JOB_WINDOW] = "window",          [JOB_TRIES] = "tries",
    [JOB_GRAIN] = "grain", [JOB_WEIGHT] = "weight",          [JOB_POISON] = "poison",
};

static muster_status read_job_key(struct json *json, uint32_t key, struct machine_job *job,
                                  struct muster_error *err)
{
    static const struct field_range weight = { .least = 1e-3,
                                               .most = 1e6,
                                               .words = "a number from 0.001 to 1e6" };
    const char *name = job_keys[key];
    uint64_t number = 0;
    muster_status status;
    switch ((enum job_key)key) {
    case JOB_ITEMS:
        return field_u64(json, name, 1, SCENARIO_ITEMS_MAX, &job->job.items, err);
    case JOB_BYTES_IN:
        return field_u64(json, name, 0, UINT32_MAX, &job->job.item_bytes_in, err);
    case JOB_BYTES_OUT:
        return field_u64(json, name, 0, UINT32_MAX, &job->job.item_bytes_out, err);
    case JOB_COST:
        return scenario_read_cost(json, &job->job, err);
    case JOB_WINDOW:
        return field_u64(json, name, 0, SCENARIO_ITEMS_MAX, &job->job.window, err);
    case JOB_TRIES:
        status = field_u64(json, name, 1, SCENARIO_TRIES_MAX, &number, err);
        job->job.tries = (uint32_t)number;
        return status;
    case JOB_GRAIN:
        return field_u64(json, name, 1, SCENARIO_ITEMS_MAX, &job->grain, err);
    case JOB_WEIGHT:
        return field_double(json, name, &weight, &job->weight, err);
    case JOB_POISON:
        return read_poisons(json, job, err);
    case JOB_KEYS:
        break;
    }
    return MUSTER_E_INTERNAL;
}

static muster_status read_job(struct json *json, struct machines *out, struct muster_error *err)
{
    struct fields fields = { .names = job_keys,
                             .count = JOB_KEYS,
                             .of = "a job on machines",
                             .fix = "keys: items item_bytes_in item_bytes_out cost window tries "
                                    "grain weight poison" };
    struct machine_job job = {
        .job = { .ordered = true, .speculate = true, .depth = DEFAULT_SLOTS, .tries = 3 },
        .grain = 1,
        .weight = 1
    };
    size_t at = 0;
    uint32_t key;
    muster_status status = field_enter_object(json, "job", &at, err);
    if (status)
        return status;
    if (out->job_count == MACHINES_JOBS_MAX)
        return field_error(json, at, err, "describe fewer jobs", "there are more than %d jobs",
                           MACHINES_JOBS_MAX);
    while (fields_next(json, &fields, &key, err))
        fields.status = read_job_key(json, key, &job, err);
    if (fields.status)
        return fields.status;
    if (!fields_given(&fields, JOB_ITEMS))
        return field_error(json, at, err, "say how many items there are", "a job needs \"items\"");
    if (job.job.cost == SCENARIO_PARETO && job.job.items > SCENARIO_DRAWN_ITEMS_MAX)
        return field_error(json, fields.at[JOB_ITEMS], err, "use fewer items, or uniform costs",
                           "pareto costs are drawn for at most %llu items",
                           (unsigned long long)SCENARIO_DRAWN_ITEMS_MAX);
    if (job.job.items / job.grain >= MACHINES_GRAINS_MAX)
        return field_error(json, at, err, "give a larger \"grain\"",
                           "the job has more than %llu grains",
                           (unsigned long long)MACHINES_GRAINS_MAX);
    for (uint32_t i = 0; i < job.poison_count; i++)
        if (job.poisons[i].item >= job.job.items)
            return field_error(json, fields.at[JOB_POISON], err, "items are counted from 0",
                               "there is no item %llu", (unsigned long long)job.poisons[i].item);
    out->jobs[out->job_count++] = job;
    return MUSTER_OK;
}

static muster_status read_jobs(struct json *json, struct machines *out, struct muster_error *err)
{
    muster_status status = field_enter(json, "jobs", JSON_ARRAY, err);
    while (!status && json_next_element(json))
        status = read_job(json, out, err);
    return leave_array(json, status, err);
}

/* The whole. */

static muster_status read_text(struct json *json, struct target *target, struct machines *out,
                               struct muster_error *err)
{
    enum { MACHINES, JOB, JOBS, ENGINE, SUBMITTER, KEYS };
    static const char *const names[] = { "machines", "job", "jobs", "engine", "submitter" };
    struct fields fields = { .names = names,
                             .count = KEYS,
                             .of = "a scenario of machines",
                             .fix = "keys: machines job jobs engine submitter" };
    size_t at = 0;
    uint32_t key;
    muster_status status = field_enter_object(json, "scenario", &at, err);
    if (status)
        return status;
    while (fields_next(json, &fields, &key, err))
        fields.status = key == MACHINES ? read_machines(json, target, err)
                        : key == JOB    ? read_job(json, out, err)
                        : key == JOBS   ? read_jobs(json, out, err)
                        : key == ENGINE ? read_engine(json, out, err)
                                        : read_submitter(json, out, err);
    if (fields.status)
        return fields.status;
    if (!fields_given(&fields, MACHINES) ||
        fields_given(&fields, JOB) == fields_given(&fields, JOBS) || out->job_count == 0)
        return field_error(json, at, err,
                           "write {\"machines\": [...], \"job\": {...}} or \"jobs\": [...]",
                           "machines and either a job or jobs must be described");
    return json_finish(json) ? MUSTER_OK : field_json_error(json, err);
}

bool machines_are_in(const char *text, size_t bytes)
{
    struct json json;
    struct json_value value;
    json_init(&json, text, bytes);
    if (!json_read(&json, &value) || value.type != JSON_OBJECT)
        return false;
    while (json_next_key(&json, &value)) {
        if (json_equals(&json, &value, "machines"))
            return true;
        if (!json_skip(&json))
            return false;
    }
    return false;
}

muster_status machines_read(const char *text, size_t bytes, struct machine_model *machines,
                            size_t machine_capacity, size_t *machine_count,
                            struct model_device *devices, size_t device_capacity,
                            size_t *device_count, struct machines *out, struct muster_error *err)
{
    struct json json;
    struct target target = { .machines = machines,
                             .devices = devices,
                             .machine_capacity = machine_capacity,
                             .device_capacity = device_capacity };
    struct machines read = { .slots = DEFAULT_SLOTS, .back_ns = DEFAULT_BACK_NS };
    json_init(&json, text, bytes);
    muster_status status = read_text(&json, &target, &read, err);
    if (status)
        return status;
    *machine_count = target.machine_count;
    *device_count = target.device_count;
    if (target.machine_count > machine_capacity || target.device_count > device_capacity)
        return muster_error_fill(err, MUSTER_E_CAPACITY, 0, "give room for all of them",
                                 "%zu machines with %zu kinds of devices are described",
                                 target.machine_count, target.device_count);
    *out = read;
    return MUSTER_OK;
}
