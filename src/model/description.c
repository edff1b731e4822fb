#include "model/description.h"

#include "model/fields.h"

#include <muster/backend.h>

enum device_key {
    DEVICE_NAME,
    DEVICE_COUNT,
    DEVICE_ITEMS_PER_S,
    DEVICE_LAUNCH_NS,
    DEVICE_MEMORY,
    DEVICE_COMPUTE,
    DEVICE_H2D,
    DEVICE_D2H,
    DEVICE_WEIGHT,
    DEVICE_JITTER,
    DEVICE_CORES,
    DEVICE_SLICES,
    DEVICE_FAULTS,
    DEVICE_USES, /* from here on: in virtual time alone */
    DEVICE_FEEDS,
    DEVICE_SENSITIVE,
    DEVICE_OPENS_MS,
    DEVICE_STOPPABLE,
    DEVICE_KEYS
};

static const char *const device_keys[] = {
    [DEVICE_NAME] = "name",
    [DEVICE_COUNT] = "count",
    [DEVICE_ITEMS_PER_S] = "items_per_s",
    [DEVICE_LAUNCH_NS] = "launch_ns",
    [DEVICE_MEMORY] = "memory",
    [DEVICE_COMPUTE] = "compute",
    [DEVICE_H2D] = "h2d_bytes_per_s",
    [DEVICE_D2H] = "d2h_bytes_per_s",
    [DEVICE_WEIGHT] = "weight",
    [DEVICE_JITTER] = "jitter",
    [DEVICE_CORES] = "cores",
    [DEVICE_SLICES] = "slices",
    [DEVICE_FAULTS] = "faults",
    [DEVICE_USES] = "uses",
    [DEVICE_FEEDS] = "feeds",
    [DEVICE_SENSITIVE] = "sensitive",
    [DEVICE_OPENS_MS] = "opens_ms",
    [DEVICE_STOPPABLE] = "stoppable",
};
#define DEVICE_FIX                                                                                 \
    "docs/simulation.md has all keys; among them: name count items_per_s launch_ns jitter faults " \
    "uses feeds opens_ms"
_Static_assert(sizeof DEVICE_FIX <= sizeof((struct muster_error *)0)->fix,
               "the fix is shown whole");

enum fault_key {
    FAULT_KIND,
    FAULT_AT_MS,
    FAULT_FOR_MS,
    FAULT_AT_LAUNCH,
    FAULT_FACTOR,
    FAULT_PROBABILITY,
    FAULT_KEYS
};

static const char *const fault_keys[] = {
    [FAULT_KIND] = "kind",           [FAULT_AT_MS] = "at_ms",   [FAULT_FOR_MS] = "for_ms",
    [FAULT_AT_LAUNCH] = "at_launch", [FAULT_FACTOR] = "factor", [FAULT_PROBABILITY] = "probability",
};
#define FAULT_FIX "keys: kind at_ms for_ms at_launch factor probability"

static const struct field_range field_amount = { .least = 0,
                                                 .most = 1e15,
                                                 .words = "a number from 0 to 1e15" },
                                field_sensitive = { .least = 0,
                                                    .most = 100,
                                                    .words = "a number from 0 to 100" };

static const char *const kind_names[] = {
    [MODEL_FAULT_SLOW] = "slow",
    [MODEL_FAULT_LOST] = "lost",
    [MODEL_FAULT_UNIT_ERROR] = "unit_error",
    [MODEL_FAULT_HANG] = "hang",
    [MODEL_FAULT_MEMORY] = "memory",
};
#define KIND_COUNT (sizeof kind_names / sizeof *kind_names)

/* Which keys mean something to a kind, beside kind, at_ms and at_launch. */
static const uint32_t kind_keys[KIND_COUNT] = {
    [MODEL_FAULT_SLOW] = 1 << FAULT_FOR_MS | 1 << FAULT_FACTOR,
    [MODEL_FAULT_LOST] = 0,
    [MODEL_FAULT_UNIT_ERROR] = 1 << FAULT_FOR_MS | 1 << FAULT_PROBABILITY,
    [MODEL_FAULT_HANG] = 1 << FAULT_FOR_MS,
    [MODEL_FAULT_MEMORY] = 1 << FAULT_FOR_MS | 1 << FAULT_PROBABILITY,
};

static muster_status read_fault_key(struct json *json, uint32_t key, struct model_fault *fault,
                                    struct muster_error *err)
{
    const char *name = fault_keys[key];
    uint32_t kind;
    muster_status status;
    switch ((enum fault_key)key) {
    case FAULT_KIND:
        status = field_choice(json, name, kind_names, KIND_COUNT, &kind, err);
        if (!status)
            fault->kind = (enum model_fault_kind)kind;
        return status;
    case FAULT_AT_MS:
        return field_ms(json, name, 0, &fault->at_ns, err);
    case FAULT_FOR_MS:
        return field_ms(json, name, 1, &fault->for_ns, err);
    case FAULT_AT_LAUNCH:
        return field_u64(json, name, 1, UINT64_MAX, &fault->at_launch, err);
    case FAULT_FACTOR:
        return field_double(json, name, &field_above_zero, &fault->factor, err);
    case FAULT_PROBABILITY:
        return field_double(json, name, &field_probability, &fault->probability, err);
    case FAULT_KEYS:
        break;
    }
    return MUSTER_E_INTERNAL;
}

/* Keys that contradict each other, or that the kind would silently not heed. */
static muster_status check_fault(const struct json *json, size_t at, const struct fields *fields,
                                 const struct model_fault *fault, struct muster_error *err)
{
    if (!fields_given(fields, FAULT_KIND))
        return field_error(json, at, err, "say \"kind\": slow, lost, unit_error, hang or memory",
                           "a fault needs a \"kind\"");
    const char *kind = kind_names[fault->kind];
    for (uint32_t key = FAULT_FOR_MS; key < FAULT_KEYS; key++)
        if (fields_given(fields, key) && key != FAULT_AT_LAUNCH &&
            !(kind_keys[fault->kind] >> key & 1))
            return field_error(json, fields->at[key], err, "leave the key out",
                               "\"%s\" means nothing to a fault of kind \"%s\"", fault_keys[key],
                               kind);
    if (fields_given(fields, FAULT_AT_MS) && fields_given(fields, FAULT_AT_LAUNCH))
        return field_error(json, fields->at[FAULT_AT_LAUNCH], err, "give one of them",
                           "a fault begins either \"at_ms\" or \"at_launch\", not both");
    if (fault->kind == MODEL_FAULT_SLOW && !fields_given(fields, FAULT_FACTOR))
        return field_error(json, at, err, "0.25 leaves a quarter of its rate",
                           "a fault of kind \"slow\" needs a \"factor\"");
    return MUSTER_OK;
}

static muster_status read_fault(struct json *json, struct model_fault *out,
                                struct muster_error *err)
{
    struct fields fields = {
        .names = fault_keys, .count = FAULT_KEYS, .of = "a fault", .fix = FAULT_FIX
    };
    struct model_fault fault = { .factor = 1.0, .probability = 1.0 };
    struct json_value object;
    if (!json_read(json, &object))
        return field_json_error(json, err);
    if (object.type != JSON_OBJECT)
        return field_wrong(json, &object, "faults", "an array of objects", err);
    uint32_t key;
    while (fields_next(json, &fields, &key, err))
        fields.status = read_fault_key(json, key, &fault, err);
    if (fields.status)
        return fields.status;
    muster_status status = check_fault(json, object.begin, &fields, &fault, err);
    if (!status)
        *out = fault;
    return status;
}

static muster_status read_faults(struct json *json, struct model_device *device,
                                 struct muster_error *err)
{
    muster_status status = field_enter(json, device_keys[DEVICE_FAULTS], JSON_ARRAY, err);
    while (!status && json_next_element(json)) {
        if (device->fault_count == MODEL_FAULTS_MAX)
            return field_error(json, json->at, err, "describe fewer faults",
                               "a device has at most %d faults", MODEL_FAULTS_MAX);
        status = read_fault(json, &device->faults[device->fault_count++], err);
    }
    if (status)
        return status;
    return json->problem ? field_json_error(json, err) : MUSTER_OK;
}

/* Which of the resources the key names; their number if it is none of them. */
static uint32_t find_resource(const struct json *json, const struct json_value *key,
                              const struct model_resources *resources)
{
    uint32_t i = 0;
    while (i < resources->count && !json_equals(json, key, resources->list[i].name))
        i++;
    return i;
}

/* How much of each resource: {"cores": 16}. */
static muster_status read_amounts(struct json *json, const char *name,
                                  const struct model_resources *resources, double *amounts,
                                  struct muster_error *err)
{
    struct json_value key;
    bool given[MODEL_RESOURCES_MAX] = { false };
    muster_status status = field_enter(json, name, JSON_OBJECT, err);
    while (!status && json_next_key(json, &key)) {
        uint32_t i = find_resource(json, &key, resources);
        if (i == resources->count || given[i])
            return field_error(
                json, key.begin, err, "give each of the scenario's \"resources\" at most once",
                "\"%s\" has a key that is %s", name,
                i == resources->count ? "no resource of the scenario's" : "given twice");
        given[i] = true;
        status = field_double(json, resources->list[i].name, &field_amount, &amounts[i], err);
    }
    if (status)
        return status;
    return json->problem ? field_json_error(json, err) : MUSTER_OK;
}

static muster_status read_device_key(struct json *json, uint32_t key,
                                     const struct model_resources *resources,
                                     struct model_device *device, uint32_t *copies,
                                     struct muster_error *err)
{
    const char *name = device_keys[key];
    uint64_t number = 0;
    bool is_true = false;
    muster_status status;
    if (key >= DEVICE_USES && !resources)
        return field_error(json, json->at, err, "leave the key out, or use `muster sim`",
                           "\"%s\" belongs to scenarios in virtual time", name);
    switch ((enum device_key)key) {
    case DEVICE_NAME:
        return field_text(json, name, device->name, sizeof device->name, err);
    case DEVICE_COUNT:
        status = field_u64(json, name, 1, MODEL_DEVICES_MAX, &number, err);
        *copies = (uint32_t)number;
        return status;
    case DEVICE_ITEMS_PER_S:
        return field_double(json, name, &field_above_zero, &device->items_per_s, err);
    case DEVICE_LAUNCH_NS:
        return field_u64(json, name, 0, UINT64_MAX, &device->launch_ns, err);
    case DEVICE_MEMORY:
        return field_size(json, name, &device->memory_bytes, err);
    case DEVICE_COMPUTE:
        return field_version(json, name, device->compute, err);
    case DEVICE_H2D:
        return field_double(json, name, &field_above_zero, &device->h2d_bytes_per_s, err);
    case DEVICE_D2H:
        return field_double(json, name, &field_above_zero, &device->d2h_bytes_per_s, err);
    case DEVICE_WEIGHT:
        return field_double(json, name, &field_not_negative, &device->weight, err);
    case DEVICE_JITTER:
        return field_double(json, name, &field_below_one, &device->jitter, err);
    case DEVICE_CORES:
        status = field_u64(json, name, 1, UINT32_MAX, &number, err);
        device->cores = (uint32_t)number;
        return status;
    case DEVICE_SLICES:
        return field_bool(json, name, &device->can_slice, err);
    case DEVICE_FAULTS:
        return read_faults(json, device, err);
    case DEVICE_USES:
        return read_amounts(json, name, resources, device->uses, err);
    case DEVICE_FEEDS:
        return read_amounts(json, name, resources, device->feeds, err);
    case DEVICE_SENSITIVE:
        return field_double(json, name, &field_sensitive, &device->sensitive, err);
    case DEVICE_OPENS_MS:
        return field_ms(json, name, 0, &device->opens_ns, err);
    case DEVICE_STOPPABLE:
        status = field_bool(json, name, &is_true, err);
        device->is_unstoppable = !is_true;
        return status;
    case DEVICE_KEYS:
        break;
    }
    return MUSTER_E_INTERNAL;
}

muster_status model_read_device(struct json *json, const struct model_resources *resources,
                                struct model_device *out, uint32_t *copies,
                                struct muster_error *err)
{
    struct fields fields = {
        .names = device_keys, .count = DEVICE_KEYS, .of = "a device", .fix = DEVICE_FIX
    };
    struct model_device device = {
        .name = MODEL_DEFAULT_NAME,
        .memory_bytes = MODEL_DEFAULT_MEMORY_BYTES,
        .weight = MODEL_DEFAULT_WEIGHT,
        .cores = MODEL_DEFAULT_CORES,
        .sensitive = MODEL_DEFAULT_SENSITIVE,
    };
    uint32_t count = 1;
    struct json_value object;
    if (!json_read(json, &object))
        return field_json_error(json, err);
    if (object.type != JSON_OBJECT)
        return field_error(json, object.begin, err, "write {\"items_per_s\": 1e6}",
                           "a device must be an object, not %s", json_type_name(object.type));
    uint32_t key;
    while (fields_next(json, &fields, &key, err))
        fields.status = read_device_key(json, key, resources, &device, &count, err);
    if (fields.status)
        return fields.status;
    if (!fields_given(&fields, DEVICE_ITEMS_PER_S))
        return field_error(json, object.begin, err, "say how many items it computes in a second",
                           "a device needs \"items_per_s\"");
    *out = device;
    *copies = count;
    return MUSTER_OK;
}

/* The elements of an array that has been entered at `at`. */
static muster_status read_elements(struct json *json, size_t at,
                                   const struct model_resources *resources,
                                   struct model_device *out, size_t capacity, size_t *count,
                                   struct muster_error *err)
{
    size_t found = 0;
    while (json_next_element(json)) {
        struct model_device device;
        uint32_t copies = 0;
        size_t element_at = json->at;
        muster_status status = model_read_device(json, resources, &device, &copies, err);
        if (status)
            return status;
        if (copies > MODEL_DEVICES_MAX - found)
            return field_error(json, element_at, err, "describe fewer devices",
                               "there are more than %u devices", MODEL_DEVICES_MAX);
        for (size_t i = found; i < found + copies && i < capacity; i++)
            out[i] = device;
        found += copies;
    }
    if (json->problem)
        return field_json_error(json, err);
    if (found == 0)
        return field_error(json, at, err, "describe at least one device", "there is no device");
    *count = found;
    return MUSTER_OK;
}

muster_status model_read_devices(struct json *json, const struct model_resources *resources,
                                 struct model_device *out, size_t capacity, size_t *count,
                                 struct muster_error *err)
{
    struct json_value array;
    if (!json_read(json, &array))
        return field_json_error(json, err);
    if (array.type != JSON_ARRAY)
        return field_wrong(json, &array, "devices", "an array of objects", err);
    return read_elements(json, array.begin, resources, out, capacity, count, err);
}

static muster_status read_text(struct json *json, struct model_device *out, size_t capacity,
                               size_t *count, struct muster_error *err)
{
    static const char *const names[] = { "devices" };
    struct fields fields = {
        .names = names, .count = 1, .of = "the description", .fix = "its only key is \"devices\""
    };
    struct json_value top;
    muster_status status = MUSTER_OK;
    if (!json_read(json, &top))
        return field_json_error(json, err);
    if (top.type == JSON_ARRAY) {
        status = read_elements(json, top.begin, NULL, out, capacity, count, err);
    } else if (top.type == JSON_OBJECT) {
        uint32_t key;
        while (fields_next(json, &fields, &key, err))
            fields.status = model_read_devices(json, NULL, out, capacity, count, err);
        status = fields.status;
        if (!status && !fields_given(&fields, 0))
            return field_error(json, top.begin, err, "write {\"devices\": [...]}",
                               "\"devices\" is missing");
    } else {
        return field_error(json, top.begin, err, "write [{\"items_per_s\": 1e6}]",
                           "a description must be an array of devices or an object, not %s",
                           json_type_name(top.type));
    }
    if (status)
        return status;
    return json_finish(json) ? MUSTER_OK : field_json_error(json, err);
}

muster_status model_describe(const char *text, size_t bytes, struct model_device *out,
                             size_t capacity, size_t *count, struct muster_error *err)
{
    /* Once to know that it is sound and fits, and once to write. */
    struct json json;
    size_t needed = 0;
    json_init(&json, text, bytes);
    muster_status status = read_text(&json, NULL, 0, &needed, err);
    if (status)
        return status;
    *count = needed;
    if (needed > capacity)
        return muster_error_fill(err, MUSTER_E_CAPACITY, 0, "give room for all of them",
                                 "%zu devices are described and there is room for %zu", needed,
                                 capacity);
    json_init(&json, text, bytes);
    return read_text(&json, out, capacity, count, err);
}
