#include "model/scenario.h"

#include "model/fields.h"

#include <muster/backend.h>
#include <string.h>

enum job_key {
    JOB_ITEMS,
    JOB_BYTES_IN,
    JOB_BYTES_OUT,
    JOB_COST,
    JOB_MODE,
    JOB_POLICY,
    JOB_UNIT,
    JOB_ORDERED,
    JOB_WINDOW,
    JOB_DEPTH,
    JOB_TRIES,
    JOB_SPECULATE,
    JOB_HINTS,
    JOB_OPENS_WHEN_WORTH,
    JOB_KEYS
};

static const char *const job_keys[] = {
    [JOB_ITEMS] = "items",
    [JOB_BYTES_IN] = "item_bytes_in",
    [JOB_BYTES_OUT] = "item_bytes_out",
    [JOB_COST] = "cost",
    [JOB_MODE] = "mode",
    [JOB_POLICY] = "policy",
    [JOB_UNIT] = "unit",
    [JOB_ORDERED] = "ordered",
    [JOB_WINDOW] = "window",
    [JOB_DEPTH] = "depth",
    [JOB_TRIES] = "tries",
    [JOB_SPECULATE] = "speculate",
    [JOB_HINTS] = "hints",
    [JOB_OPENS_WHEN_WORTH] = "opens_when_worth",
};
#define JOB_FIX                                                                                    \
    "keys: items item_bytes_in item_bytes_out cost mode policy unit ordered window depth tries "   \
    "speculate hints opens_when_worth"
_Static_assert(sizeof JOB_FIX <= sizeof((struct muster_error *)0)->fix, "the fix is shown whole");

static const char *const policy_names[] = {
    [SCENARIO_ROUND_ROBIN] = "round-robin",
    [SCENARIO_LEAST_LOADED] = "least-loaded",
    [SCENARIO_WEIGHTED] = "weighted",
    [SCENARIO_ADAPTIVE] = "adaptive",
    [SCENARIO_EARLIEST_FINISH] = "earliest-finish",
};
#define POLICY_COUNT (sizeof policy_names / sizeof *policy_names)

static const struct field_range above_one = {
    .least = 1, .most = 1e6, .least_out = true, .words = "a number above 1"
};

muster_status scenario_read_cost(struct json *json, struct scenario_job *job,
                                 struct muster_error *err)
{
    enum { KIND, ALPHA, KEYS };
    static const char *const names[] = { "kind", "alpha" };
    static const char *const kinds[] = { "uniform", "pareto", "ramp" };
    struct fields fields = {
        .names = names, .count = KEYS, .of = "\"cost\"", .fix = "keys: kind alpha"
    };
    size_t at = 0;
    uint32_t key, kind = SCENARIO_UNIFORM;
    muster_status status = field_enter_object(json, "cost", &at, err);
    if (status)
        return status;
    while (fields_next(json, &fields, &key, err))
        fields.status = key == KIND ? field_choice(json, names[key], kinds, 3, &kind, err)
                                    : field_double(json, names[key], &above_one, &job->alpha, err);
    if (fields.status)
        return fields.status;
    job->cost = (enum scenario_cost)kind;
    if (!fields_given(&fields, KIND))
        return field_error(json, at, err, "say \"kind\": uniform, pareto or ramp",
                           "\"cost\" needs a \"kind\"");
    if (fields_given(&fields, ALPHA) != (job->cost == SCENARIO_PARETO))
        return field_error(json, at, err, "1.5 makes a few items very costly",
                           "\"alpha\" belongs to costs of kind \"pareto\", which need it");
    return MUSTER_OK;
}

static muster_status read_hints(struct json *json, struct scenario_job *job,
                                struct muster_error *err)
{
    enum { FREE, COMPUTE, KEYS };
    static const char *const names[] = { "min_free", "min_compute" };
    struct fields fields = {
        .names = names, .count = KEYS, .of = "\"hints\"", .fix = "keys: min_free min_compute"
    };
    uint32_t key;
    muster_status status = field_enter(json, "hints", JSON_OBJECT, err);
    if (status)
        return status;
    while (fields_next(json, &fields, &key, err))
        fields.status = key == FREE ? field_size(json, names[key], &job->min_free_bytes, err)
                                    : field_version(json, names[key], job->min_compute, err);
    return fields.status;
}

/* "adaptive", "quarter" or a number of items. */
static muster_status read_unit(struct json *json, struct scenario_job *job,
                               struct muster_error *err)
{
    struct json_value value;
    if (!json_read(json, &value))
        return field_json_error(json, err);
    if (value.type == JSON_NUMBER && json_u64(json, &value, &job->unit_items) &&
        job->unit_items > 0) {
        job->unit = SCENARIO_UNIT_FIXED;
        return MUSTER_OK;
    }
    if (value.type == JSON_STRING && json_equals(json, &value, "adaptive"))
        job->unit = SCENARIO_UNIT_ADAPTIVE;
    else if (value.type == JSON_STRING && json_equals(json, &value, "quarter"))
        job->unit = SCENARIO_UNIT_QUARTER;
    else
        return field_error(json, value.begin, err, "write \"adaptive\", \"quarter\" or 1000",
                           "\"unit\" must be adaptive, quarter or a number of items above 0");
    return MUSTER_OK;
}

static muster_status read_job_key(struct json *json, uint32_t key, struct scenario_job *job,
                                  struct muster_error *err)
{
    static const char *const modes[] = { "claim", "place" };
    const char *name = job_keys[key];
    uint32_t choice = 0;
    uint64_t number = 0;
    muster_status status;
    switch ((enum job_key)key) {
    case JOB_ITEMS:
        return field_u64(json, name, 1, SCENARIO_ITEMS_MAX, &job->items, err);
    case JOB_BYTES_IN:
        return field_u64(json, name, 0, UINT32_MAX, &job->item_bytes_in, err);
    case JOB_BYTES_OUT:
        return field_u64(json, name, 0, UINT32_MAX, &job->item_bytes_out, err);
    case JOB_COST:
        return scenario_read_cost(json, job, err);
    case JOB_MODE:
        status = field_choice(json, name, modes, 2, &choice, err);
        job->place = choice == 1;
        return status;
    case JOB_POLICY:
        status = field_choice(json, name, policy_names, POLICY_COUNT, &choice, err);
        job->policy = (enum scenario_policy)choice;
        return status;
    case JOB_UNIT:
        return read_unit(json, job, err);
    case JOB_ORDERED:
        return field_bool(json, name, &job->ordered, err);
    case JOB_WINDOW:
        return field_u64(json, name, 0, SCENARIO_ITEMS_MAX, &job->window, err);
    case JOB_DEPTH:
        status = field_u64(json, name, 1, SCENARIO_DEPTH_MAX, &number, err);
        job->depth = (uint32_t)number;
        return status;
    case JOB_TRIES:
        status = field_u64(json, name, 1, SCENARIO_TRIES_MAX, &number, err);
        job->tries = (uint32_t)number;
        return status;
    case JOB_SPECULATE:
        return field_bool(json, name, &job->speculate, err);
    case JOB_HINTS:
        return read_hints(json, job, err);
    case JOB_OPENS_WHEN_WORTH:
        return field_bool(json, name, &job->opens_when_worth, err);
    case JOB_KEYS:
        break;
    }
    return MUSTER_E_INTERNAL;
}

static muster_status read_job(struct json *json, struct scenario_job *out, struct muster_error *err)
{
    struct fields fields = {
        .names = job_keys, .count = JOB_KEYS, .of = "the job", .fix = JOB_FIX
    };
    struct scenario_job job = {
        .ordered = true, .speculate = true, .policy = SCENARIO_ADAPTIVE, .depth = 2, .tries = 3
    };
    size_t at = 0;
    uint32_t key;
    muster_status status = field_enter_object(json, "job", &at, err);
    if (status)
        return status;
    while (fields_next(json, &fields, &key, err))
        fields.status = read_job_key(json, key, &job, err);
    if (fields.status)
        return fields.status;
    if (!fields_given(&fields, JOB_ITEMS))
        return field_error(json, at, err, "say how many items there are", "a job needs \"items\"");
    if (job.cost == SCENARIO_PARETO && job.items > SCENARIO_DRAWN_ITEMS_MAX)
        return field_error(json, fields.at[JOB_ITEMS], err, "use fewer items, or uniform costs",
                           "pareto costs are drawn for at most %llu items",
                           (unsigned long long)SCENARIO_DRAWN_ITEMS_MAX);
    *out = job;
    return MUSTER_OK;
}

static muster_status read_resource(struct json *json, struct model_resources *resources,
                                   struct muster_error *err)
{
    enum { NAME, CAPACITY, KEYS };
    static const char *const names[] = { "name", "capacity" };
    static const struct field_range capacity = { .least = 1e-9,
                                                 .most = 1e15,
                                                 .words = "a number from 1e-9 to 1e15" };
    struct fields fields = {
        .names = names, .count = KEYS, .of = "a resource", .fix = "keys: name capacity"
    };
    struct model_resource *resource = &resources->list[resources->count];
    size_t at = 0;
    uint32_t key;
    muster_status status = field_enter_object(json, "resources", &at, err);
    if (status)
        return status;
    if (resources->count == MODEL_RESOURCES_MAX)
        return field_error(json, at, err, "describe fewer resources",
                           "there are more than %d resources", MODEL_RESOURCES_MAX);
    while (fields_next(json, &fields, &key, err))
        fields.status =
            key == NAME ? field_text(json, names[key], resource->name, sizeof resource->name, err)
                        : field_double(json, names[key], &capacity, &resource->capacity, err);
    if (fields.status)
        return fields.status;
    for (key = 0; key < KEYS; key++)
        if (!fields_given(&fields, key))
            return field_error(json, at, err, "write {\"name\": \"cores\", \"capacity\": 16}",
                               "a resource needs a \"%s\"", names[key]);
    for (uint32_t i = 0; i < resources->count; i++)
        if (strcmp(resources->list[i].name, resource->name) == 0)
            return field_error(json, at, err, "give each resource its own name",
                               "two resources are called \"%s\"", resource->name);
    resources->count++;
    return MUSTER_OK;
}

static muster_status read_resources(struct json *json, struct model_resources *out,
                                    struct muster_error *err)
{
    struct model_resources resources = { .count = 0 };
    muster_status status = field_enter(json, "resources", JSON_ARRAY, err);
    while (!status && json_next_element(json))
        status = read_resource(json, &resources, err);
    if (status)
        return status;
    if (json->problem)
        return field_json_error(json, err);
    *out = resources;
    return MUSTER_OK;
}

/*
 * Devices name resources, which may stand after them in the text: they are looked for first, in an
 * object that is entered. What is wrong with the text is reported by the reader of all of it.
 */
static void find_resources(struct json json, struct model_resources *resources)
{
    struct json_value key;
    resources->count = 0;
    while (json_next_key(&json, &key)) {
        bool are_those = json_equals(&json, &key, "resources");
        if (are_those ? read_resources(&json, resources, NULL) != MUSTER_OK : !json_skip(&json))
            return;
    }
}

static muster_status read_text(struct json *json, struct model_device *devices, size_t capacity,
                               size_t *count, struct scenario_job *job, struct muster_error *err)
{
    enum { DEVICES, JOB, RESOURCES, KEYS };
    static const char *const names[] = { "devices", "job", "resources" };
    struct fields fields = {
        .names = names, .count = KEYS, .of = "the scenario", .fix = "keys: devices job resources"
    };
    struct json_value top;
    struct model_resources resources;
    uint32_t key;
    if (!json_read(json, &top))
        return field_json_error(json, err);
    if (top.type != JSON_OBJECT)
        return field_error(json, top.begin, err, "write {\"devices\": [...], \"job\": {...}}",
                           "a scenario must be an object, not %s", json_type_name(top.type));
    find_resources(*json, &resources);
    while (fields_next(json, &fields, &key, err))
        fields.status = key == DEVICES
                            ? model_read_devices(json, &resources, devices, capacity, count, err)
                        : key == JOB ? read_job(json, job, err)
                                     : read_resources(json, &resources, err);
    if (fields.status)
        return fields.status;
    for (key = 0; key < RESOURCES; key++)
        if (!fields_given(&fields, key))
            return field_error(json, top.begin, err, "write {\"devices\": [...], \"job\": {...}}",
                               "\"%s\" is missing", names[key]);
    job->resources = resources;
    return json_finish(json) ? MUSTER_OK : field_json_error(json, err);
}

muster_status scenario_read(const char *text, size_t bytes, struct model_device *devices,
                            size_t capacity, size_t *count, struct scenario_job *job,
                            struct muster_error *err)
{
    struct json json;
    size_t needed = 0;
    struct scenario_job read;
    json_init(&json, text, bytes);
    muster_status status = read_text(&json, devices, capacity, &needed, &read, err);
    if (status)
        return status;
    *count = needed;
    if (needed > capacity)
        return muster_error_fill(err, MUSTER_E_CAPACITY, 0, "give room for all of them",
                                 "%zu devices are described and there is room for %zu", needed,
                                 capacity);
    *job = read;
    return MUSTER_OK;
}

bool scenario_eligible(const struct scenario_job *job, const struct model_device *device,
                       const char **why)
{
    *why = NULL;
    if (device->memory_bytes < job->min_free_bytes)
        *why = "min_free";
    else if (device->compute[0] < job->min_compute[0] ||
             (device->compute[0] == job->min_compute[0] &&
              device->compute[1] < job->min_compute[1]))
        *why = "min_compute";
    return *why == NULL;
}
