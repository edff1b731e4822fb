#include "base/random.h"
#include "storm.h"

#include <stdio.h>

#define SECOND_NS 1000000000.0

static bool one_in(struct random *random, uint64_t n)
{
    return random_below(random, n) == 0;
}

/* From 1 to `most`, small ones as likely as large ones. */
static uint64_t spread(struct random *random, uint64_t most)
{
    unsigned bits = 0;
    while (most >> bits > 1)
        bits++;
    uint64_t limit = UINT64_C(2) << random_below(random, bits + 1);
    return 1 + random_below(random, limit < most ? limit : most);
}

/* A number from 1 to 10 to the power of `decades`, each decade as likely. */
static double magnitude(struct random *random, unsigned decades)
{
    double value = 1 + 9 * random_unit(random);
    for (uint64_t i = random_below(random, decades); i > 0; i--)
        value *= 10;
    return value;
}

static struct model_device make_device(struct random *random, size_t number, double scale)
{
    static const double jitters[] = { 0, 0, 0.05, 0.05, 0.3, 0.9 };
    static const double weights[] = { 1, 1, 1, 0, 0.001, 0.5, 100 };
    struct model_device device = { .memory_bytes = UINT64_C(1) << (30 + random_below(random, 7)),
                                   .cores = MODEL_DEFAULT_CORES,
                                   .sensitive = MODEL_DEFAULT_SENSITIVE };
    snprintf(device.name, sizeof device.name, "d%zu", number);
    device.items_per_s = scale * magnitude(random, 4);
    device.launch_ns = one_in(random, 3) ? 0 : spread(random, 200000);
    device.jitter = jitters[random_below(random, sizeof jitters / sizeof *jitters)];
    device.weight = weights[random_below(random, sizeof weights / sizeof *weights)];
    device.compute[0] = (uint16_t)(7 + random_below(random, 3));
    if (!one_in(random, 3)) {
        device.h2d_bytes_per_s = 1e7 * magnitude(random, 4);
        device.d2h_bytes_per_s = 1e7 * magnitude(random, 4);
    }
    return device;
}

static void make_job(struct random *random, struct scenario_job *job)
{
    static const enum scenario_cost costs[] = { SCENARIO_UNIFORM, SCENARIO_UNIFORM, SCENARIO_PARETO,
                                                SCENARIO_RAMP };
    *job = (struct scenario_job){ .items = spread(random, 20000), .alpha = 0 };
    if (one_in(random, 3)) {
        job->item_bytes_in = spread(random, 4096);
        job->item_bytes_out = one_in(random, 3) ? 0 : spread(random, 4096);
    }
    job->cost = costs[random_below(random, 4)];
    if (job->cost == SCENARIO_PARETO)
        job->alpha = 1.1 + 2 * random_unit(random);
    job->place = one_in(random, 3);
    job->policy = (enum scenario_policy)random_below(random, 5);
    job->unit = (enum scenario_unit)random_below(random, 3);
    job->ordered = !one_in(random, 3);
    job->speculate = !one_in(random, 3);
    job->depth = (uint32_t)(one_in(random, 3) ? 1 + random_below(random, 8) : 2);
    job->tries = (uint32_t)(one_in(random, 2) ? 3 : 1 + random_below(random, 6));
    /* A job takes as many steps as it has units: a window or a unit of one item makes it a small job. */
    if (job->unit == SCENARIO_UNIT_FIXED)
        job->unit_items = 1 + (job->items - 1) / spread(random, 2000);
    if (one_in(random, 3)) {
        job->window = spread(random, 2 * job->items);
        if (job->items > 1000 * job->window)
            job->items = 1000 * job->window;
    }
    if (one_in(random, 4))
        job->min_free_bytes = UINT64_C(1) << (30 + random_below(random, 4));
    if (one_in(random, 8))
        job->min_compute[0] = 8;
}

/* How long the job should take about, so that faults fall into it. */
static double expected_ns(const struct storm *storm)
{
    double rate = 0;
    for (size_t i = 0; i < storm->device_count; i++)
        rate += storm->devices[i].items_per_s;
    return SECOND_NS * (double)storm->job.items / rate;
}

static struct model_fault make_fault(struct random *random, double makespan_ns)
{
    static const enum model_fault_kind kinds[] = { MODEL_FAULT_SLOW, MODEL_FAULT_LOST,
                                                   MODEL_FAULT_HANG, MODEL_FAULT_UNIT_ERROR };
    struct model_fault fault = { .kind = kinds[random_below(random, 4)], .factor = 1 };
    fault.probability = 1;
    if (one_in(random, 4))
        fault.at_launch = spread(random, 64);
    else if (!one_in(random, 8))
        fault.at_ns = (uint64_t)(1.5 * makespan_ns * random_unit(random));
    /* Hangs that end must sometimes outlast the time-out. */
    if (fault.kind != MODEL_FAULT_LOST && !one_in(random, 3)) {
        double most = one_in(random, 3) ? 30 * SECOND_NS : makespan_ns;
        fault.for_ns = 1 + (uint64_t)(most * random_unit(random));
    }
    if (fault.kind == MODEL_FAULT_SLOW)
        fault.factor = one_in(random, 8) ? 1 + 3 * random_unit(random)
                                         : 1 / magnitude(random, one_in(random, 8) ? 4 : 2);
    if (fault.kind == MODEL_FAULT_UNIT_ERROR && !one_in(random, 8))
        fault.probability = random_unit(random) * (one_in(random, 2) ? 0.05 : 0.5);
    return fault;
}

/*
 * What devices share, when they open, and whether they can be stopped. Drawn apart from the rest, so that
 * a storm without these is the one it was before there were any.
 */
static void make_sharing(struct storm *storm, uint64_t seed)
{
    struct random random;
    random_init(&random, ~seed);
    struct model_resources *resources = &storm->job.resources;
    resources->count = (uint32_t)(one_in(&random, 2) ? random_below(&random, 4) : 0);
    for (uint32_t i = 0; i < resources->count; i++) {
        snprintf(resources->list[i].name, sizeof resources->list[i].name, "r%u", i);
        resources->list[i].capacity = magnitude(&random, 3);
    }
    double makespan_ns = expected_ns(storm);
    bool can_stop = one_in(&random, 2), is_late = one_in(&random, 4);
    for (size_t i = 0; i < storm->device_count; i++) {
        struct model_device *device = &storm->devices[i];
        device->is_unstoppable = !can_stop && !one_in(&random, 4);
        if (is_late && one_in(&random, 3))
            device->opens_ns = (uint64_t)(makespan_ns * 2 * random_unit(&random));
        if (one_in(&random, 3))
            device->sensitive = 4 * random_unit(&random);
        for (uint32_t r = 0; r < resources->count; r++) {
            double capacity = resources->list[r].capacity;
            device->uses[r] = one_in(&random, 2) ? capacity * random_unit(&random) : 0;
            device->feeds[r] = one_in(&random, 4) ? 0.2 * capacity * random_unit(&random) : 0;
        }
    }
}

void storm_make(struct storm *storm, uint64_t seed)
{
    static const uint64_t device_counts[] = { 3, 3, 10, 10, STORM_DEVICES_MAX };
    /* The part of the devices that faults strike, in eighths; 0 is fair weather. */
    static const uint64_t strengths[] = { 0, 1, 2, 4, 8 };
    struct random random;
    random_init(&random, seed);
    *storm = (struct storm){ .seed = random_below(&random, 1000000) };
    storm->device_count =
        (size_t)(1 + random_below(&random, device_counts[random_below(&random, 5)]));
    /* Units of minutes must not be mistaken for ones that hang. */
    bool is_slow = one_in(&random, 6);
    double scale = is_slow ? 5 : 1e4;
    for (size_t i = 0; i < storm->device_count; i++)
        storm->devices[i] = make_device(&random, i, scale);
    make_job(&random, &storm->job);
    /* Nor must a single item of hours, but about that one can only guess. */
    if (is_slow && storm->job.cost == SCENARIO_PARETO)
        storm->job.alpha += 0.5;
    uint64_t strength = strengths[random_below(&random, 5)];
    double makespan_ns = expected_ns(storm);
    for (size_t i = 0; i < storm->device_count; i++) {
        struct model_device *device = &storm->devices[i];
        if (random_below(&random, 8) < strength)
            device->fault_count = (uint32_t)(1 + random_below(&random, 3));
        for (uint32_t k = 0; k < device->fault_count; k++)
            device->faults[k] = make_fault(&random, makespan_ns);
    }
    make_sharing(storm, seed);
}
