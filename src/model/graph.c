#include "model/graph.h"

#include "model/fields.h"

#include <muster/backend.h>

const char *const graph_kernel_names[GRAPH_KERNELS] = {
    [GRAPH_POTRF] = "potrf", [GRAPH_GETRF] = "getrf", [GRAPH_TRSM] = "trsm",
    [GRAPH_SYRK] = "syrk",   [GRAPH_GEMM] = "gemm",   [GRAPH_STEP] = "step",
    [GRAPH_FORK] = "fork",   [GRAPH_WORK] = "work",   [GRAPH_JOIN] = "join",
};

/* In items, as gemm is 1: the arithmetic of a tile. */
static const double default_costs[GRAPH_KERNELS] = {
    [GRAPH_POTRF] = 1.0 / 6, [GRAPH_GETRF] = 1.0 / 3, [GRAPH_TRSM] = 0.5,
    [GRAPH_SYRK] = 0.5,      [GRAPH_GEMM] = 1.0,      [GRAPH_STEP] = 1.0,
    [GRAPH_FORK] = 0.1,      [GRAPH_WORK] = 1.0,      [GRAPH_JOIN] = 0.1,
};

enum graph_key {
    KEY_KIND,
    KEY_POLICY,
    KEY_TILES,
    KEY_STEPS,
    KEY_TASKS,
    KEY_TILE_BYTES,
    KEY_COSTS,
    KEY_PRIORITIES,
    KEY_AHEAD,
    KEYS
};
static const char *const graph_keys[] = {
    [KEY_KIND] = "kind",   [KEY_POLICY] = "policy",         [KEY_TILES] = "tiles",
    [KEY_STEPS] = "steps", [KEY_TASKS] = "tasks",           [KEY_TILE_BYTES] = "tile_bytes",
    [KEY_COSTS] = "costs", [KEY_PRIORITIES] = "priorities", [KEY_AHEAD] = "ahead",
};
#define GRAPH_FIX "keys: kind policy tiles steps tasks tile_bytes costs priorities ahead"
_Static_assert(sizeof GRAPH_FIX <= sizeof((struct muster_error *)0)->fix, "the fix is shown whole");

static muster_status read_costs(struct json *json, struct graph_scenario *graph,
                                struct muster_error *err)
{
    struct fields fields = { .names = graph_kernel_names,
                             .count = GRAPH_KERNELS,
                             .of = "\"costs\"",
                             .fix = "keys: potrf getrf trsm syrk gemm step fork work join" };
    uint32_t key;
    muster_status status = field_enter(json, "costs", JSON_OBJECT, err);
    if (status)
        return status;
    while (fields_next(json, &fields, &key, err))
        fields.status =
            field_double(json, graph_kernel_names[key], &field_above_zero, &graph->costs[key], err);
    return fields.status;
}

static muster_status read_u32(struct json *json, const char *name, uint64_t least, uint64_t most,
                              uint32_t *out, struct muster_error *err)
{
    uint64_t number = 0;
    muster_status status = field_u64(json, name, least, most, &number, err);
    if (status == MUSTER_OK)
        *out = (uint32_t)number;
    return status;
}

static muster_status read_key(struct json *json, uint32_t key, struct graph_scenario *graph,
                              struct muster_error *err)
{
    static const char *const kinds[] = { "cholesky", "lu", "stencil", "fork_join", "random" };
    static const char *const policies[] = { "earliest-finish", "eager", "round-robin" };
    const char *name = graph_keys[key];
    uint32_t choice = 0;
    muster_status status;
    switch ((enum graph_key)key) {
    case KEY_KIND:
        status = field_choice(json, name, kinds, 5, &choice, err);
        graph->kind = (enum graph_kind)choice;
        return status;
    case KEY_POLICY:
        status = field_choice(json, name, policies, 3, &choice, err);
        graph->policy = (enum graph_policy)choice;
        return status;
    case KEY_TILES:
        return read_u32(json, name, 1, 100000, &graph->tiles, err);
    case KEY_STEPS:
        return read_u32(json, name, 1, 100000, &graph->steps, err);
    case KEY_TASKS:
        return read_u32(json, name, 1, GRAPH_TASKS_MAX, &graph->tasks, err);
    case KEY_TILE_BYTES:
        return field_size(json, name, &graph->tile_bytes, err);
    case KEY_COSTS:
        return read_costs(json, graph, err);
    case KEY_PRIORITIES:
        return field_bool(json, name, &graph->priorities, err);
    case KEY_AHEAD:
        return read_u32(json, name, 1, 64, &graph->ahead, err);
    case KEYS:
        break;
    }
    return MUSTER_E_INTERNAL;
}

/* How many tasks there will be; above GRAPH_TASKS_MAX for too many. */
static uint64_t count_tasks(const struct graph_scenario *graph)
{
    uint64_t n = graph->tiles, steps = graph->steps;
    switch (graph->kind) {
    case GRAPH_CHOLESKY: /* n, then n (n - 1) / 2 of trsm and syrk each, and the gemms */
        return n > 1000 ? UINT64_MAX : n + n * (n - 1) + n * (n - 1) * (n - 2) / 6;
    case GRAPH_LU:
        return n > 1000 ? UINT64_MAX : n + n * (n - 1) + (n - 1) * n * (2 * n - 1) / 6;
    case GRAPH_STENCIL:
        return n * steps;
    case GRAPH_FORK_JOIN:
        return (n + 2) * steps;
    case GRAPH_RANDOM:
        return graph->tasks;
    }
    return UINT64_MAX;
}

static muster_status check_graph(const struct json *json, const struct fields *fields, size_t at,
                                 const struct graph_scenario *graph, struct muster_error *err)
{
    bool has_steps = graph->kind == GRAPH_STENCIL || graph->kind == GRAPH_FORK_JOIN;
    if (!fields_given(fields, KEY_KIND))
        return field_error(json, at, err,
                           "say \"kind\": cholesky, lu, stencil, fork_join or random",
                           "a graph needs a \"kind\"");
    if (!fields_given(fields, KEY_TILES))
        return field_error(json, at, err, "say how many tiles a row has",
                           "a graph needs \"tiles\"");
    if (fields_given(fields, KEY_STEPS) != has_steps)
        return field_error(json, at, err, "give it to these and to no others",
                           "\"steps\" belongs to stencil and fork_join, which need it");
    if (fields_given(fields, KEY_TASKS) != (graph->kind == GRAPH_RANDOM))
        return field_error(json, at, err, "give it to random and to no others",
                           "\"tasks\" belongs to graphs of kind \"random\", which need it");
    if (graph->kind == GRAPH_FORK_JOIN && graph->tiles > GRAPH_WIDTH_MAX)
        return field_error(json, fields->at[KEY_TILES], err, "use more steps instead",
                           "a fork has at most %u tiles", GRAPH_WIDTH_MAX);
    if (count_tasks(graph) > GRAPH_TASKS_MAX)
        return field_error(json, at, err, "use fewer tiles or steps",
                           "the graph has more than %u tasks", GRAPH_TASKS_MAX);
    return MUSTER_OK;
}

static muster_status read_graph(struct json *json, struct graph_scenario *out,
                                struct muster_error *err)
{
    struct fields fields = {
        .names = graph_keys, .count = KEYS, .of = "the graph", .fix = GRAPH_FIX
    };
    struct graph_scenario graph = { .tile_bytes = 2097152, .priorities = true, .ahead = 2 };
    struct json_value value;
    uint32_t key;
    for (uint32_t i = 0; i < GRAPH_KERNELS; i++)
        graph.costs[i] = default_costs[i];
    if (!json_read(json, &value))
        return field_json_error(json, err);
    if (value.type != JSON_OBJECT)
        return field_wrong(json, &value, "graph", "an object", err);
    while (fields_next(json, &fields, &key, err))
        fields.status = read_key(json, key, &graph, err);
    if (fields.status)
        return fields.status;
    muster_status status = check_graph(json, &fields, value.begin, &graph, err);
    if (status == MUSTER_OK)
        *out = graph;
    return status;
}

/* What means nothing for tasks is refused, not left out. */
static muster_status check_devices(const struct json *json, size_t at,
                                   const struct model_device *devices, size_t count,
                                   struct muster_error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (devices[i].opens_ns > 0)
            return field_error(json, at, err, "leave out \"opens_ms\"",
                               "the devices of a graph are there from the start");
        for (uint32_t f = 0; f < devices[i].fault_count; f++)
            if (devices[i].faults[f].kind == MODEL_FAULT_MEMORY)
                return field_error(json, at, err, "give the device less \"memory\" instead",
                                   "faults of kind \"memory\" are not for graphs");
    }
    return MUSTER_OK;
}

static muster_status read_text(struct json *json, struct model_device *devices, size_t capacity,
                               size_t *count, struct graph_scenario *graph,
                               struct muster_error *err)
{
    enum { DEVICES, GRAPH, TEXT_KEYS };
    static const char *const names[] = { "devices", "graph" };
    static const struct model_resources none = { .count = 0 };
    struct fields fields = { .names = names,
                             .count = TEXT_KEYS,
                             .of = "a scenario with a graph",
                             .fix = "keys: devices graph" };
    struct json_value top;
    uint32_t key;
    if (!json_read(json, &top))
        return field_json_error(json, err);
    if (top.type != JSON_OBJECT)
        return field_error(json, top.begin, err, "write {\"devices\": [...], \"graph\": {...}}",
                           "a scenario must be an object, not %s", json_type_name(top.type));
    while (fields_next(json, &fields, &key, err))
        fields.status = key == DEVICES
                            ? model_read_devices(json, &none, devices, capacity, count, err)
                            : read_graph(json, graph, err);
    if (fields.status)
        return fields.status;
    for (key = 0; key < TEXT_KEYS; key++)
        if (!fields_given(&fields, key))
            return field_error(json, top.begin, err, "write {\"devices\": [...], \"graph\": {...}}",
                               "\"%s\" is missing", names[key]);
    if (*count > GRAPH_DEVICES_MAX)
        return field_error(json, fields.at[DEVICES], err, "describe fewer devices",
                           "a graph runs on at most %u devices", GRAPH_DEVICES_MAX);
    if (!json_finish(json))
        return field_json_error(json, err);
    return check_devices(json, fields.at[DEVICES], devices, *count < capacity ? *count : capacity,
                         err);
}

bool graph_scenario_is_one(const char *text, size_t bytes)
{
    struct json json;
    struct json_value top, key;
    json_init(&json, text, bytes);
    if (!json_read(&json, &top) || top.type != JSON_OBJECT)
        return false;
    while (json_next_key(&json, &key)) {
        if (json_equals(&json, &key, "graph"))
            return true;
        if (!json_skip(&json))
            return false;
    }
    return false;
}

muster_status graph_scenario_read(const char *text, size_t bytes, struct model_device *devices,
                                  size_t capacity, size_t *count, struct graph_scenario *graph,
                                  struct muster_error *err)
{
    struct json json;
    size_t needed = 0;
    struct graph_scenario read;
    json_init(&json, text, bytes);
    muster_status status = read_text(&json, devices, capacity, &needed, &read, err);
    if (status)
        return status;
    *count = needed;
    if (needed > capacity)
        return muster_error_fill(err, MUSTER_E_CAPACITY, 0, "give room for all of them",
                                 "%zu devices are described and there is room for %zu", needed,
                                 capacity);
    *graph = read;
    return MUSTER_OK;
}
