#include "simulate/bound.h"

#include "base/random.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define DEVICES_MAX 6

/* The bound of a job of this many uniform items, all devices eligible. */
static uint64_t bound_of(const struct model_device *devices, size_t count,
                         const struct scenario_job *job)
{
    static struct bound_edge edges[DEVICES_MAX * (1 + 4 * MODEL_FAULTS_MAX)];
    bool eligible[DEVICES_MAX];
    struct cost cost;
    CHECK(count <= DEVICES_MAX);
    CHECK(bound_edges_max(devices, count) <= sizeof edges / sizeof *edges);
    memset(eligible, true, sizeof eligible);
    cost_init(&cost, job, 1);
    return bound_ns(devices, eligible, count, job, &cost, edges);
}

static uint64_t bound_of_items(const struct model_device *devices, size_t count, uint64_t items)
{
    return bound_of(devices, count, &(struct scenario_job){ .items = items });
}

/* An item takes a microsecond. */
static struct model_device device_with(uint32_t fault_count, const struct model_fault *faults)
{
    struct model_device device = { .items_per_s = 1e6, .fault_count = fault_count };
    for (uint32_t i = 0; i < fault_count; i++)
        device.faults[i] = faults[i];
    return device;
}

/* Rounding may cost a nanosecond. */
static void check_near(uint64_t expected_ns, uint64_t actual_ns, int line)
{
    uint64_t apart = expected_ns > actual_ns ? expected_ns - actual_ns : actual_ns - expected_ns;
    if (apart > 1)
        test_fail(__FILE__, line, "%llu ns, expected %llu ns", (unsigned long long)actual_ns,
                  (unsigned long long)expected_ns);
}
#define CHECK_NEAR(expected_ns, actual_ns) check_near(expected_ns, actual_ns, __LINE__)

static void rates_add_up(void)
{
    struct model_device devices[] = { device_with(0, NULL), device_with(0, NULL),
                                      device_with(0, NULL) };
    CHECK_NEAR(6 * MS, bound_of_items(devices, 1, 6000));
    CHECK_NEAR(2 * MS, bound_of_items(devices, 3, 6000));
    devices[0].items_per_s = 4e6;
    CHECK_NEAR(1 * MS, bound_of_items(devices, 3, 6000));
    /* Neither launches nor jitter are part of it. */
    devices[0].launch_ns = 1000000;
    devices[0].jitter = 0.5;
    CHECK_NEAR(1 * MS, bound_of_items(devices, 3, 6000));
}

static void only_eligible_devices_count(void)
{
    struct model_device devices[] = { device_with(0, NULL), device_with(0, NULL) };
    const bool eligible[] = { false, true };
    struct bound_edge edges[2];
    const struct scenario_job job = { .items = 2000 };
    struct cost cost;
    devices[0].items_per_s = 1e9;
    cost_init(&cost, &job, 1);
    CHECK_NEAR(2 * MS, bound_ns(devices, eligible, 2, &job, &cost, edges));
}

static void a_slow_spell_is_integrated_over(void)
{
    struct model_device device =
        device_with(1, &(struct model_fault){ MODEL_FAULT_SLOW, .at_ns = 1 * MS, .for_ns = 2 * MS,
                                              .factor = 0.25 });
    CHECK_NEAR(1 * MS, bound_of_items(&device, 1, 1000));
    CHECK_NEAR(2 * MS, bound_of_items(&device, 1, 1250));
    CHECK_NEAR(3 * MS, bound_of_items(&device, 1, 1500));
    CHECK_NEAR(45 * MS / 10, bound_of_items(&device, 1, 3000));
    device.faults[0].for_ns = 0;
    CHECK_NEAR(9 * MS, bound_of_items(&device, 1, 3000));
}

static void spells_multiply(void)
{
    struct model_device device =
        device_with(2, (struct model_fault[]){
                           { MODEL_FAULT_SLOW, .at_ns = 1 * MS, .for_ns = 2 * MS, .factor = 0.5 },
                           { MODEL_FAULT_SLOW, .at_ns = 2 * MS, .for_ns = 2 * MS, .factor = 0.5 },
                       });
    CHECK_NEAR(575 * MS / 100, bound_of_items(&device, 1, 4000));
}

static void a_hang_stops_the_clock_and_a_loss_ends_it(void)
{
    struct model_device devices[] = {
        device_with(1,
                    &(struct model_fault){ MODEL_FAULT_HANG, .at_ns = 1 * MS, .for_ns = 5 * MS }),
        device_with(1, &(struct model_fault){ MODEL_FAULT_LOST, .at_ns = 2 * MS }),
    };
    CHECK_NEAR(7 * MS, bound_of_items(devices, 1, 2000));
    CHECK_NEAR(15 * MS / 10, bound_of_items(devices, 2, 2500)); /* 1 + 0.5 alone, with the other */
    CHECK_NEAR(7 * MS, bound_of_items(devices, 2, 4000));       /* nobody works from 2 to 6 ms */
    CHECK_NEAR(2 * MS, bound_of_items(devices + 1, 1, 2000));
    CHECK(bound_of_items(devices + 1, 1, 2001) == UINT64_MAX);
    devices[0].faults[0].for_ns = 0;
    CHECK(bound_of_items(devices, 2, 4000) == UINT64_MAX);
}

static void what_only_chance_or_memory_decides_is_left_out(void)
{
    struct model_device device =
        device_with(2, (struct model_fault[]){ { MODEL_FAULT_UNIT_ERROR, .probability = 1 },
                                               { MODEL_FAULT_MEMORY, .probability = 1 } });
    CHECK_NEAR(1 * MS, bound_of_items(&device, 1, 1000));
}

/* When a launch comes is up to the schedule: the bound takes what is best for it. */
static void faults_at_a_launch_never_raise_it(void)
{
    struct model_device device = device_with(
        3, (struct model_fault[]){ { MODEL_FAULT_LOST, .at_launch = 1 },
                                   { MODEL_FAULT_HANG, .at_launch = 2 },
                                   { MODEL_FAULT_SLOW, .at_launch = 3, .factor = 0.5 } });
    CHECK_NEAR(1 * MS, bound_of_items(&device, 1, 1000));
    device.faults[2].factor = 4;
    CHECK_NEAR(MS / 4, bound_of_items(&device, 1, 1000));
}

static void a_speed_up_counts_for_the_largest_item_too(void)
{
    struct model_device device =
        device_with(1, &(struct model_fault){ MODEL_FAULT_SLOW, .for_ns = 1 * MS, .factor = 10 });
    CHECK_NEAR(100, bound_of_items(&device, 1, 1));
    CHECK_NEAR(2 * MS, bound_of_items(&device, 1, 11000));
}

static void the_largest_item_holds_everybody_up(void)
{
    struct model_device devices[DEVICES_MAX];
    for (size_t i = 0; i < DEVICES_MAX; i++)
        devices[i] = device_with(0, NULL);
    CHECK_NEAR(1000, bound_of_items(devices, DEVICES_MAX, 1));
    devices[3].items_per_s = 5e6;
    CHECK_NEAR(200, bound_of_items(devices, DEVICES_MAX, 1));
    /* Two items on a ramp: 0.5 and 1.5. */
    CHECK_NEAR(300, bound_of(devices, DEVICES_MAX,
                             &(struct scenario_job){ .items = 2, .cost = SCENARIO_RAMP }));
    const struct scenario_job pareto = { .items = 1000, .cost = SCENARIO_PARETO, .alpha = 1.01 };
    struct cost cost;
    cost_init(&cost, &pareto, 1);
    double all = cost_of(&cost, (struct muster_range){ 0, 1000 });
    uint64_t by_work_ns = (uint64_t)(all / 10e6 * 1e9);
    uint64_t by_item_ns = (uint64_t)(cost_largest(&cost) / 5e6 * 1e9);
    CHECK_NEAR(by_work_ns > by_item_ns ? by_work_ns : by_item_ns,
               bound_of(devices, DEVICES_MAX, &pareto));
}

static void bytes_go_over_the_links(void)
{
    struct model_device devices[] = { device_with(0, NULL), device_with(0, NULL) };
    struct scenario_job job = { .items = 1000, .item_bytes_in = 1000, .item_bytes_out = 500 };
    CHECK_NEAR(MS / 2, bound_of(devices, 2, &job)); /* copies take no time */
    for (int i = 0; i < 2; i++)
        devices[i].h2d_bytes_per_s = devices[i].d2h_bytes_per_s = 1e8;
    CHECK_NEAR(5 * MS, bound_of(devices, 2, &job)); /* in: 1e6 bytes over 2e8 a second */
    job.item_bytes_out = 4000;
    CHECK_NEAR(20 * MS, bound_of(devices, 2, &job));
    devices[1].d2h_bytes_per_s = 0; /* one link is free, so all may go there */
    CHECK_NEAR(5 * MS, bound_of(devices, 2, &job));
}

/* After a giant has gone, what a dwarf does must not be lost in rounding; nor must nothing be made. */
static void rates_far_apart_are_kept_apart(void)
{
    struct model_device devices[] = {
        device_with(1, &(struct model_fault){ MODEL_FAULT_LOST, .at_ns = 1 }),
        device_with(0, NULL),
    };
    devices[0].items_per_s = 1e20; /* 1e11 items in its nanosecond */
    devices[1].items_per_s = 1e-3;
    CHECK_NEAR(UINT64_C(1000000000001), bound_of_items(devices, 2, UINT64_C(100000000001)));
    devices[1] = devices[0];
    devices[1].items_per_s = 0.3;
    CHECK(bound_of_items(devices, 2, UINT64_C(200000000000)) == UINT64_MAX);
    struct model_device slow = device_with(0, NULL);
    slow.items_per_s = 1e-9;
    CHECK(bound_of_items(&slow, 1, 10) == UINT64_C(10000000000000000000));
    CHECK(bound_of_items(&slow, 1, 20) == UINT64_MAX);
}

/* Against a sum over small steps. */
static void random_faults_agree_with_plain_integration(void)
{
    struct random random;
    random_init(&random, test_seed());
    for (unsigned round = 0; round < test_repetitions(200); round++) {
        struct model_device devices[DEVICES_MAX];
        size_t count = 1 + random_below(&random, DEVICES_MAX);
        for (size_t i = 0; i < count; i++) {
            devices[i] = device_with(0, NULL);
            devices[i].items_per_s = (double)(1 + random_below(&random, 20)) * 1e5;
            devices[i].fault_count = (uint32_t)random_below(&random, 5);
            for (uint32_t f = 0; f < devices[i].fault_count; f++)
                devices[i].faults[f] = (struct model_fault){
                    .kind = random_below(&random, 2) ? MODEL_FAULT_SLOW : MODEL_FAULT_HANG,
                    .at_ns = random_below(&random, 100) * MS / 10,
                    .for_ns = (1 + random_below(&random, 100)) * MS / 10,
                    .factor = (double)(1 + random_below(&random, 30)) / 10,
                };
            /* What stands after the last one is none. */
            for (uint32_t f = devices[i].fault_count; f < MODEL_FAULTS_MAX; f++)
                devices[i].faults[f] = (struct model_fault){ MODEL_FAULT_SLOW, .factor = 7 };
        }
        uint64_t items = 1000 + random_below(&random, 20000), now_ns = 0;
        double done = 0;
        /* Everything changes at multiples of a tenth of a millisecond. */
        for (;; now_ns += MS / 10) {
            double rate = 0;
            for (size_t i = 0; i < count; i++) {
                double factor = 1;
                for (uint32_t f = 0; f < devices[i].fault_count; f++) {
                    const struct model_fault *fault = &devices[i].faults[f];
                    if (now_ns >= fault->at_ns && now_ns < fault->at_ns + fault->for_ns)
                        factor *= fault->kind == MODEL_FAULT_HANG ? 0 : fault->factor;
                }
                rate += devices[i].items_per_s * factor * 1e-9;
            }
            if (done + rate * MS / 10 >= (double)items) {
                now_ns += (uint64_t)(((double)items - done) / rate);
                break;
            }
            done += rate * MS / 10;
        }
        CHECK_NEAR(now_ns, bound_of_items(devices, count, items));
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(rates_add_up),
        TEST(only_eligible_devices_count),
        TEST(a_slow_spell_is_integrated_over),
        TEST(spells_multiply),
        TEST(a_hang_stops_the_clock_and_a_loss_ends_it),
        TEST(what_only_chance_or_memory_decides_is_left_out),
        TEST(faults_at_a_launch_never_raise_it),
        TEST(a_speed_up_counts_for_the_largest_item_too),
        TEST(the_largest_item_holds_everybody_up),
        TEST(bytes_go_over_the_links),
        TEST(rates_far_apart_are_kept_apart),
        TEST(random_faults_agree_with_plain_integration),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
