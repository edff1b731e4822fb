#include "model/device_model.h"

#include "../fuzz/description.c" /* NOLINT(bugprone-suspicious-include): driven below */
#include "../fuzz/mutate.h"
#include "harness.h"

#define MS UINT64_C(1000000)

/* A device whose items take a microsecond each, with these faults. */
static struct model_device device_with(uint32_t fault_count, const struct model_fault *faults)
{
    struct model_device device = {
        .name = "test", .items_per_s = 1e6, .weight = 1, .fault_count = fault_count
    };
    for (uint32_t i = 0; i < fault_count; i++)
        device.faults[i] = faults[i];
    return device;
}

static uint64_t finish_of(const struct model_device *device, uint64_t start_ns, double work)
{
    struct model_state state;
    model_state_init(&state, 1, 0);
    return model_launch(device, &state, start_ns, work).finish_ns;
}

static void a_launch_costs_its_launch_and_its_items(void)
{
    struct model_device device = { .items_per_s = 8e6, .launch_ns = 4000 };
    CHECK_EQUAL(1000 + 4000 + 125000000, finish_of(&device, 1000, 1e6));
    CHECK_EQUAL(4125, finish_of(&device, 0, 1));
    CHECK_EQUAL(4000, finish_of(&device, 0, 0));
    CHECK_EQUAL(4000, finish_of(&device, 0, -1));
    CHECK_EQUAL(4000 + 63, finish_of(&device, 0, 0.5)); /* 62.5 */
    device.items_per_s = 3e6;
    CHECK_EQUAL(4000 + 334, finish_of(&device, 0, 1)); /* 333.3: never faster than the rate */
}

static void whole_times_come_out_whole(void)
{
    struct model_device device = device_with(0, NULL);
    for (uint64_t items = 1; items <= 100000; items++)
        CHECK_EQUAL(items * 1000, finish_of(&device, 0, (double)items));
}

static void a_slow_spell_is_integrated_over(void)
{
    struct model_device device =
        device_with(1, &(struct model_fault){ MODEL_FAULT_SLOW, .at_ns = 1 * MS, .for_ns = 2 * MS,
                                              .factor = 0.25 });
    CHECK_EQUAL(1 * MS, finish_of(&device, 0, 1000)); /* before */
    CHECK_EQUAL(2 * MS, finish_of(&device, 0, 1250)); /* into it: 1 + 0.25 / 0.25 */
    CHECK_EQUAL(3 * MS, finish_of(&device, 0, 1500)); /* to its end */
    CHECK_EQUAL(45 * MS / 10,
                finish_of(&device, 0, 3000)); /* across: 1 + 2 (of which 0.5 counts) + 1.5 */
    CHECK_EQUAL(325 * MS / 100,
                finish_of(&device, 2 * MS, 500)); /* out of it: 1 (0.25 counts) + 0.25 */
    CHECK_EQUAL(14 * MS / 10, finish_of(&device, 1 * MS, 100)); /* within */
    CHECK_EQUAL(4 * MS, finish_of(&device, 3 * MS, 1000));      /* after */
    device.launch_ns = 1 * MS / 2;
    CHECK_EQUAL(2 * MS + MS / 2,
                finish_of(&device, 1 * MS, 250)); /* the launch cost is not slowed */
}

static void slow_spells_multiply_and_last(void)
{
    struct model_device device =
        device_with(2, (struct model_fault[]){
                           { MODEL_FAULT_SLOW, .at_ns = 1 * MS, .for_ns = 2 * MS, .factor = 0.5 },
                           { MODEL_FAULT_SLOW, .at_ns = 2 * MS, .for_ns = 2 * MS, .factor = 0.5 },
                       });
    CHECK_EQUAL(575 * MS / 100,
                finish_of(&device, 0, 4000)); /* 1 + 0.5 + 0.25 + 0.5 by 4 ms, then 1.75 */
    device.faults[1].for_ns = 0;
    CHECK_EQUAL(75 * MS / 10,
                finish_of(&device, 0, 4000));         /* 1 + 0.5 + 0.25 by 3 ms, then 2.25 / 0.5 */
    device.faults[0].factor = 2;                      /* faster is allowed */
    CHECK_EQUAL(5 * MS, finish_of(&device, 0, 5000)); /* 1 + 2 + 1 by 3 ms, then 1 / 0.5 */
}

/* Nanosecond by nanosecond, in 256ths of one: slow, and little to get wrong. */
static uint64_t step_through(const struct model_device *device, uint64_t now_ns, uint64_t work_ns)
{
    uint64_t left = work_ns * 256;
    for (;; now_ns++) {
        uint64_t speed = 256;
        for (uint32_t i = 0; i < device->fault_count; i++) {
            const struct model_fault *fault = &device->faults[i];
            if (now_ns >= fault->at_ns && now_ns - fault->at_ns < fault->for_ns)
                speed =
                    fault->kind == MODEL_FAULT_HANG ? 0 : (uint64_t)((double)speed * fault->factor);
        }
        if (speed > 0 && left == 0)
            return now_ns;
        left -= left < speed ? left : speed;
    }
}

static void spells_agree_with_stepping_through_them(void)
{
    struct random random;
    random_init(&random, test_seed());
    for (unsigned round = 0; round < test_repetitions(2000); round++) {
        struct model_device device = { .items_per_s = 1e9 };
        device.fault_count = 1 + (uint32_t)random_below(&random, 4);
        /* In steps of 256 ns, so that at most four quarters make whole nanoseconds of progress. */
        for (uint32_t i = 0; i < device.fault_count; i++)
            device.faults[i] = (struct model_fault){
                .kind = random_below(&random, 3) ? MODEL_FAULT_SLOW : MODEL_FAULT_HANG,
                .at_ns = 256 * random_below(&random, 8),
                .for_ns = 256 * (1 + random_below(&random, 6)),
                .factor = random_below(&random, 2) ? 0.5 : 0.25,
            };
        uint64_t start_ns = 256 * random_below(&random, 6), work = random_below(&random, 1500);
        CHECK_EQUAL(step_through(&device, start_ns, work),
                    finish_of(&device, start_ns, (double)work));
    }
}

static void a_hang_with_an_end_is_a_pause(void)
{
    struct model_device device = device_with(
        1, &(struct model_fault){ MODEL_FAULT_HANG, .at_ns = 1 * MS, .for_ns = 2 * MS });
    CHECK_EQUAL(4 * MS, finish_of(&device, 0, 2000));
    CHECK_EQUAL(4 * MS, finish_of(&device, 2 * MS, 1000));
    CHECK_EQUAL(3 * MS, finish_of(&device, 2 * MS, 0));
    CHECK_EQUAL(3 * MS,
                finish_of(&device, 0, 1000)); /* done just as it begins: seen when it is over */
    CHECK_EQUAL(1 * MS - 1000, finish_of(&device, 0, 999));
    device.launch_ns = 2 * MS; /* the launch cost pauses too */
    CHECK_EQUAL(5 * MS, finish_of(&device, 0, 1000));

    struct model_state state;
    model_state_init(&state, 1, 0);
    CHECK_EQUAL(MODEL_OK, model_health_at(&device, &state, 1 * MS - 1));
    CHECK_EQUAL(MODEL_HUNG, model_health_at(&device, &state, 1 * MS));
    CHECK_EQUAL(MODEL_HUNG, model_health_at(&device, &state, 3 * MS - 1));
    CHECK_EQUAL(MODEL_OK, model_health_at(&device, &state, 3 * MS));
    CHECK_EQUAL(1 * MS, model_next_change_ns(&device, &state, 0));
    CHECK_EQUAL(3 * MS, model_next_change_ns(&device, &state, 1 * MS));
    CHECK(model_next_change_ns(&device, &state, 3 * MS) == MODEL_NEVER);
}

static void a_hang_for_ever_and_a_loss_end_nothing(void)
{
    struct model_device device =
        device_with(1, &(struct model_fault){ MODEL_FAULT_HANG, .at_ns = 1 * MS });
    struct model_state state;
    CHECK(finish_of(&device, 0, 1001) == MODEL_NEVER && finish_of(&device, 0, 1000) == MODEL_NEVER);
    CHECK_EQUAL(999000, finish_of(&device, 0, 999));
    model_state_init(&state, 1, 0);
    CHECK_EQUAL(MODEL_HUNG, model_health_at(&device, &state, UINT64_MAX - 1));
    device.faults[0].kind = MODEL_FAULT_LOST;
    device.faults[0].for_ns = 5; /* a loss does not end */
    CHECK(finish_of(&device, 0, 1001) == MODEL_NEVER && finish_of(&device, 0, 1000) == MODEL_NEVER);
    CHECK(finish_of(&device, 2 * MS, 0) == MODEL_NEVER);
    CHECK_EQUAL(999000, finish_of(&device, 0, 999));
    CHECK_EQUAL(MODEL_LOST, model_health_at(&device, &state, UINT64_MAX - 1));
    CHECK_EQUAL(1 * MS, model_next_change_ns(&device, &state, 0));
    CHECK(model_next_change_ns(&device, &state, 1 * MS) == MODEL_NEVER);
}

static void changes_of_health_are_real_ones(void)
{
    /*
     * Two hangs that touch are one; a loss within a hang is a change; what follows a loss is none.
     */
    struct model_device device = device_with(5, (struct model_fault[]){
                                                    { MODEL_FAULT_HANG, .at_ns = 20, .for_ns = 10 },
                                                    { MODEL_FAULT_HANG, .at_ns = 10, .for_ns = 10 },
                                                    { MODEL_FAULT_SLOW, .at_ns = 5, .factor = 0.5 },
                                                    { MODEL_FAULT_HANG, .at_ns = 40, .for_ns = 10 },
                                                    { MODEL_FAULT_LOST, .at_ns = 45 },
                                                });
    struct model_state state;
    model_state_init(&state, 1, 0);
    CHECK_EQUAL(10, model_next_change_ns(&device, &state, 0));
    CHECK_EQUAL(30, model_next_change_ns(&device, &state, 10));
    CHECK_EQUAL(40, model_next_change_ns(&device, &state, 30));
    CHECK_EQUAL(45, model_next_change_ns(&device, &state, 40));
    CHECK(model_next_change_ns(&device, &state, 45) == MODEL_NEVER);
}

static void the_nth_launch_triggers_a_fault(void)
{
    struct model_state state;
    struct model_device device = device_with(
        1, &(struct model_fault){ MODEL_FAULT_LOST, .at_launch = 3, .at_ns = 5 /* not used */ });
    model_state_init(&state, 1, 0);
    CHECK_EQUAL(1 * MS, model_launch(&device, &state, 0, 1000).finish_ns);
    CHECK_EQUAL(2 * MS, model_launch(&device, &state, 1 * MS, 1000).finish_ns);
    CHECK_EQUAL(MODEL_OK, model_health_at(&device, &state, 9 * MS));
    CHECK(model_next_change_ns(&device, &state, 0) == MODEL_NEVER);
    CHECK(model_launch(&device, &state, 2 * MS, 1000).finish_ns == MODEL_NEVER);
    CHECK_EQUAL(MODEL_OK, model_health_at(&device, &state, 2 * MS - 1));
    CHECK_EQUAL(MODEL_LOST, model_health_at(&device, &state, 2 * MS));
    CHECK_EQUAL(2 * MS, model_next_change_ns(&device, &state, 0));

    device.faults[0] = (struct model_fault){ MODEL_FAULT_HANG, .at_launch = 2, .for_ns = 5 * MS };
    model_state_init(&state, 1, 0);
    CHECK_EQUAL(1 * MS, model_launch(&device, &state, 0, 1000).finish_ns);
    CHECK_EQUAL(7 * MS, model_launch(&device, &state, 1 * MS, 1000).finish_ns);
    CHECK_EQUAL(8 * MS, model_launch(&device, &state, 7 * MS, 1000).finish_ns);

    device.faults[0] = (struct model_fault){ MODEL_FAULT_SLOW, .at_launch = 2, .factor = 0.5 };
    model_state_init(&state, 1, 0);
    CHECK_EQUAL(1 * MS, model_launch(&device, &state, 0, 1000).finish_ns);
    CHECK_EQUAL(3 * MS, model_launch(&device, &state, 1 * MS, 1000).finish_ns);
    CHECK_EQUAL(5 * MS, model_launch(&device, &state, 3 * MS, 1000).finish_ns);
}

static void copies_follow_their_link(void)
{
    struct model_device device = device_with(0, NULL);
    struct model_state state;
    model_state_init(&state, 1, 0);
    CHECK_EQUAL(7, model_copy_finish_ns(&device, &state, MODEL_LINK_H2D, 7,
                                        UINT64_MAX)); /* takes no time */
    device.h2d_bytes_per_s = 5e10;
    device.d2h_bytes_per_s = 1e9;
    CHECK_EQUAL(7 + 20000, model_copy_finish_ns(&device, &state, MODEL_LINK_H2D, 7, 1000000));
    CHECK_EQUAL(7 + 1000000, model_copy_finish_ns(&device, &state, MODEL_LINK_D2H, 7, 1000000));
    CHECK_EQUAL(1, model_copy_finish_ns(&device, &state, MODEL_LINK_H2D, 0, 1)); /* 0.02 */
    CHECK_EQUAL(7, model_copy_finish_ns(&device, &state, MODEL_LINK_H2D, 7, 0));
    device.fault_count = 3;
    device.faults[0] = (struct model_fault){ MODEL_FAULT_SLOW, .factor = 0.1 }; /* not of copies */
    device.faults[1] = (struct model_fault){ MODEL_FAULT_HANG, .at_ns = 1 * MS, .for_ns = 2 * MS };
    device.faults[2] = (struct model_fault){ MODEL_FAULT_LOST, .at_ns = 10 * MS };
    CHECK_EQUAL(4 * MS, model_copy_finish_ns(&device, &state, MODEL_LINK_D2H, 0, 2 * MS));
    CHECK(model_copy_finish_ns(&device, &state, MODEL_LINK_D2H, 0, 8 * MS) == MODEL_NEVER);
    CHECK_EQUAL(10 * MS - 1, model_copy_finish_ns(&device, &state, MODEL_LINK_D2H, 0, 8 * MS - 1));
}

static void what_is_too_long_is_never(void)
{
    struct model_device device = device_with(0, NULL);
    CHECK(finish_of(&device, 0, 1e300) == MODEL_NEVER);
    CHECK(finish_of(&device, 0, 1e308 * 10) == MODEL_NEVER);
    CHECK(finish_of(&device, UINT64_MAX - 5, 1) == MODEL_NEVER);
    device.items_per_s = 5e-324;
    CHECK(finish_of(&device, 0, 1) == MODEL_NEVER);
    device.items_per_s = 0;
    CHECK(finish_of(&device, 0, 1) == MODEL_NEVER);
    CHECK_EQUAL(0, finish_of(&device, 0, 0)); /* nothing takes no time, at any rate */
    /* A nanosecond an item: what 64 bits can hold, and the first that they cannot. */
    device.items_per_s = 1e9;
    CHECK_EQUAL(UINT64_MAX - 2047, finish_of(&device, 0, 0x1.fffffffffffffp63));
    CHECK(finish_of(&device, 0, 0x1p64) == MODEL_NEVER);
    device = device_with(1, &(struct model_fault){ MODEL_FAULT_SLOW, .factor = 1e-300 });
    device.jitter = 0.999;
    CHECK(finish_of(&device, 0, 1) == MODEL_NEVER);
    device.faults[0].factor = 1e300;
    CHECK(finish_of(&device, 0, 1e300) == MODEL_NEVER);
    CHECK(finish_of(&device, 0, 1e12) <= 1);
    device.launch_ns = UINT64_MAX;
    CHECK(finish_of(&device, 0, 1) == MODEL_NEVER);
}

/* What a device does in a while, in numbers; so that two devices can be compared. */
static void live_through(const struct model_device *device, uint64_t seed, uint64_t out[64])
{
    struct model_state state;
    size_t count = 0;
    model_state_init(&state, seed, 3);
    for (uint64_t now_ns = 0; now_ns < 6 * MS; now_ns += MS) {
        struct model_run run = model_launch(device, &state, now_ns, 400);
        out[count++] = run.finish_ns;
        out[count++] = run.fails;
        out[count++] = model_copy_finish_ns(device, &state, MODEL_LINK_H2D, now_ns, 1000);
        out[count++] = model_copy_finish_ns(device, &state, MODEL_LINK_D2H, now_ns, 1000);
        out[count++] = model_health_at(device, &state, now_ns);
        out[count++] = model_next_change_ns(device, &state, now_ns);
        out[count++] = model_memory_fails(device, &state, now_ns);
    }
    out[count++] = state.launches;
    for (uint32_t i = 0; i < MODEL_FAULTS_MAX; i++)
        out[count++] = state.triggered_ns[i];
    CHECK(count <= 64);
    memset(out + count, 0, (64 - count) * sizeof *out);
}

static struct model_fault any_fault(struct random *random)
{
    return (struct model_fault){
        .kind = (enum model_fault_kind)random_below(random, 5),
        .at_ns = MS / 2 * random_below(random, 10),
        .for_ns = MS / 2 * random_below(random, 5),
        .at_launch = random_below(random, 2) ? 1 + random_below(random, 5) : 0,
        .factor = random_below(random, 2) ? 0.5 : 2,
        .probability = 0.5,
    };
}

/* What stands after the last fault is none; and none after it hides one before it. */
static void as_many_faults_count_as_there_are(void)
{
    struct random random;
    random_init(&random, test_seed());
    for (unsigned round = 0; round < test_repetitions(1000); round++) {
        struct model_device device = { .items_per_s = 1e6,
                                       .h2d_bytes_per_s = 1e7,
                                       .d2h_bytes_per_s = 2e7,
                                       .launch_ns = 5000,
                                       .jitter = 0.25 };
        struct model_device other;
        uint64_t expected[64], found[64];
        device.fault_count = (uint32_t)random_below(&random, 5);
        for (uint32_t i = 0; i < device.fault_count; i++)
            device.faults[i] = any_fault(&random);
        other = device;
        for (uint32_t i = device.fault_count; i < MODEL_FAULTS_MAX; i++)
            other.faults[i] = any_fault(&random);
        live_through(&device, round, expected);
        live_through(&other, round, found);
        CHECK(memcmp(expected, found, sizeof found) == 0);
        /* Faults of which nothing comes, before the others, up to as many as there can be. */
        other = device;
        uint32_t idle = MODEL_FAULTS_MAX - device.fault_count;
        for (uint32_t i = 0; i < idle; i++)
            other.faults[i] = (struct model_fault){
                .kind = device.faults[0].kind, .at_launch = 1000, .factor = 0.5, .probability = 1
            };
        memcpy(&other.faults[idle], device.faults, device.fault_count * sizeof *device.faults);
        other.fault_count = MODEL_FAULTS_MAX;
        live_through(&other, round, found);
        CHECK(memcmp(expected, found, 42 * sizeof *found) == 0);
    }
}

static void jitter_spreads_around_the_mean(void)
{
    struct model_device device = device_with(0, NULL);
    device.jitter = 0.3;
    device.launch_ns = 500000;
    struct model_state state;
    model_state_init(&state, test_seed(), 0);
    uint64_t sum = 0, least = UINT64_MAX, most = 0;
    enum { LAUNCHES = 20000 };
    for (int i = 0; i < LAUNCHES; i++) {
        uint64_t took_ns = model_launch(&device, &state, 0, 500).finish_ns;
        sum += took_ns;
        least = took_ns < least ? took_ns : least;
        most = took_ns > most ? took_ns : most;
    }
    CHECK(least >= 700000 && least < 701000);
    CHECK(most <= 1300000 && most > 1299000);
    /* The mean has a standard deviation of 0.3 / sqrt(3 x 20000) = 0.12 %. */
    CHECK(sum / LAUNCHES > 994000 && sum / LAUNCHES < 1006000);
}

/* Worked out by another program, in exact whole numbers: the same on every machine. */
static void the_same_seed_gives_the_same_times(void)
{
    struct model_device device = { .items_per_s = 3e6, .launch_ns = 4000, .jitter = 0.05 };
    static const uint64_t expected[2][6] = { { 326521, 660344, 955300, 1308421, 1614820, 1935805 },
                                             { 333393, 697190, 1003601, 1357990, 1728348,
                                               2010445 } };
    for (uint32_t index = 0; index < 2; index++) {
        struct model_state state;
        model_state_init(&state, 12345, index);
        for (int i = 0; i < 6; i++)
            CHECK_EQUAL(expected[index][i],
                        model_launch(&device, &state, 0, 1000 * (i + 1)).finish_ns);
    }
}

static void devices_and_seeds_differ(void)
{
    struct model_device device = device_with(0, NULL);
    device.jitter = 0.5;
    struct model_state states[4];
    model_state_init(&states[0], 1, 0);
    model_state_init(&states[1], 1, 1);
    model_state_init(&states[2], 2, 0);
    model_state_init(&states[3], 0, 1);
    for (int launch = 0; launch < 10; launch++) {
        uint64_t times[4];
        for (int i = 0; i < 4; i++) {
            times[i] = model_launch(&device, &states[i], 0, 1e6).finish_ns;
            for (int j = 0; j < i; j++)
                CHECK(times[i] != times[j]);
        }
    }
}

static void faults_do_not_disturb_the_jitter(void)
{
    struct model_device plain = device_with(0, NULL);
    plain.jitter = 0.5;
    struct model_device faulty = plain;
    faulty.fault_count = 2;
    faulty.faults[0] = (struct model_fault){ MODEL_FAULT_UNIT_ERROR, .probability = 0.5 };
    faulty.faults[1] = (struct model_fault){ MODEL_FAULT_MEMORY, .probability = 0.5 };
    struct model_state a, b;
    model_state_init(&a, 9, 9);
    model_state_init(&b, 9, 9);
    for (int i = 0; i < 100; i++) {
        model_memory_fails(&faulty, &b, 0);
        CHECK_EQUAL(model_launch(&plain, &a, 0, 1000).finish_ns,
                    model_launch(&faulty, &b, 0, 1000).finish_ns);
    }
}

static int failures_of(const struct model_device *device, uint64_t start_ns, int launches)
{
    struct model_state state;
    model_state_init(&state, test_seed(), 0);
    int failures = 0;
    for (int i = 0; i < launches; i++)
        failures += model_launch(device, &state, start_ns, 1).fails;
    return failures;
}

static void units_fail_as_often_as_they_should(void)
{
    struct model_device device =
        device_with(1, &(struct model_fault){ MODEL_FAULT_UNIT_ERROR, .probability = 0.01 });
    int failures = failures_of(&device, 0, 100000);
    CHECK(failures > 1000 - 190 && failures < 1000 + 190); /* six standard deviations */
    device.faults[0].probability = 0;
    CHECK_EQUAL(0, failures_of(&device, 0, 1000));
    device.faults[0].probability = 1;
    CHECK_EQUAL(1000, failures_of(&device, 0, 1000));

    device.faults[0].probability = 0.5;
    device.faults[1] = device.faults[0];
    device.fault_count = 2;
    failures = failures_of(&device, 0, 10000); /* 3/4 */
    CHECK(failures > 7500 - 260 && failures < 7500 + 260);

    device =
        device_with(1, &(struct model_fault){ MODEL_FAULT_UNIT_ERROR, 10, 10, .probability = 1 });
    CHECK_EQUAL(0, failures_of(&device, 9, 10));
    CHECK_EQUAL(10, failures_of(&device, 10, 10));
    CHECK_EQUAL(10, failures_of(&device, 19, 10));
    CHECK_EQUAL(0, failures_of(&device, 20, 10));
}

static void one_launch_alone_fails(void)
{
    struct model_device device = device_with(
        1, &(struct model_fault){ MODEL_FAULT_UNIT_ERROR, .at_launch = 3, .probability = 1 });
    struct model_state state;
    model_state_init(&state, 1, 0);
    for (int launch = 1; launch <= 6; launch++)
        CHECK_EQUAL(launch == 3, model_launch(&device, &state, 0, 1).fails);
    device.faults[0].for_ns = 10; /* and all that begin within 10 ns of it */
    model_state_init(&state, 1, 0);
    for (int launch = 1; launch <= 20; launch++)
        CHECK_EQUAL(launch >= 3 && launch < 13,
                    model_launch(&device, &state, (uint64_t)launch, 1).fails);
}

static void what_never_finishes_does_not_fail(void)
{
    struct model_device device =
        device_with(2, (struct model_fault[]){ { MODEL_FAULT_UNIT_ERROR, .probability = 1 },
                                               { MODEL_FAULT_LOST, .at_ns = 5 } });
    struct model_state state;
    model_state_init(&state, 1, 0);
    struct model_run run = model_launch(&device, &state, 0, 1);
    CHECK(run.finish_ns == MODEL_NEVER && !run.fails);
}

static void memory_is_refused_within_the_spell(void)
{
    struct model_device device =
        device_with(2, (struct model_fault[]){
                           { MODEL_FAULT_MEMORY, .at_ns = 10, .for_ns = 10, .probability = 1 },
                           { MODEL_FAULT_MEMORY, .at_launch = 1, .probability = 0.25 },
                       });
    struct model_state state;
    model_state_init(&state, test_seed(), 0);
    CHECK(!model_memory_fails(&device, &state, 9) && model_memory_fails(&device, &state, 10));
    CHECK(model_memory_fails(&device, &state, 19) && !model_memory_fails(&device, &state, 20));
    model_launch(&device, &state, 100, 1);
    int refused = 0;
    for (int i = 0; i < 10000; i++) {
        CHECK(!model_memory_fails(&device, &state, 99));
        refused += model_memory_fails(&device, &state, 100);
    }
    CHECK(refused > 2500 - 260 && refused < 2500 + 260);
}

static const char example[] =
    "{\"devices\":[{\"name\":\"fast\",\"count\":2,\"items_per_s\":8e6,\"launch_ns\":4000,"
    "\"memory\":\"80GiB\","
    "\"compute\":[9,0],\n"
    "  "
    "\"h2d_bytes_per_s\":5e10,\"d2h_bytes_per_s\":4e10,\"weight\":1.5,\"jitter\":0.05,\"cores\":"
    "132,\"slices\":true,\n"
    "  "
    "\"faults\":[{\"kind\":\"slow\",\"at_ms\":100,\"for_ms\":500,\"factor\":0.25},{\"kind\":"
    "\"lost\",\"at_ms\":0.3},\n"
    "    {\"kind\":\"unit_error\",\"probability\":0.01},{\"kind\":\"hang\",\"at_ms\":400},\n"
    "    {\"kind\":\"memory\",\"at_launch\":7}]},\n"
    " {\"items_per_s\":1}]}";

static void every_key_arrives(void)
{
    struct model_device devices[3];
    struct muster_error err = { 0 };
    size_t count = 0;
    CHECK_STATUS(MUSTER_OK, model_describe(example, strlen(example), devices, 3, &count, &err));
    CHECK_EQUAL(3, count);
    for (int i = 0; i < 2; i++) {
        const struct model_device *device = &devices[i];
        CHECK_TEXT("fast", device->name);
        CHECK(device->items_per_s == 8e6 && device->h2d_bytes_per_s == 5e10 &&
              device->d2h_bytes_per_s == 4e10);
        CHECK(device->weight == 1.5 && device->jitter == 0.05 && device->can_slice);
        CHECK_EQUAL(4000, device->launch_ns);
        CHECK_EQUAL(UINT64_C(80) << 30, device->memory_bytes);
        CHECK(device->compute[0] == 9 && device->compute[1] == 0 && device->cores == 132);
        CHECK_EQUAL(5, device->fault_count);
        const struct model_fault *faults = device->faults;
        CHECK(faults[0].kind == MODEL_FAULT_SLOW && faults[0].at_ns == 100 * MS &&
              faults[0].for_ns == 500 * MS && faults[0].factor == 0.25);
        CHECK(faults[1].kind == MODEL_FAULT_LOST && faults[1].at_ns == 300000);
        CHECK(faults[2].kind == MODEL_FAULT_UNIT_ERROR && faults[2].probability == 0.01 &&
              faults[2].at_ns == 0);
        CHECK(faults[3].kind == MODEL_FAULT_HANG && faults[3].at_ns == 400 * MS &&
              faults[3].for_ns == 0);
        CHECK(faults[4].kind == MODEL_FAULT_MEMORY && faults[4].at_launch == 7 &&
              faults[4].probability == 1);
    }
    CHECK_TEXT(MODEL_DEFAULT_NAME, devices[2].name);
    CHECK(devices[2].items_per_s == 1 && devices[2].weight == 1 && devices[2].jitter == 0 &&
          !devices[2].can_slice);
    CHECK(devices[2].h2d_bytes_per_s == 0 && devices[2].d2h_bytes_per_s == 0 &&
          devices[2].launch_ns == 0);
    CHECK(devices[2].compute[0] == 0 && devices[2].cores == 1 && devices[2].fault_count == 0);
    CHECK_EQUAL(UINT64_C(16) << 30, devices[2].memory_bytes);
}

static muster_status describe(const char *text, struct model_device *device,
                              struct muster_error *err)
{
    size_t count;
    return model_describe(text, strlen(text), device, 1, &count, err);
}

static void edges_of_ranges_are_accepted(void)
{
    static const char *const texts[] = {
        "[{\"items_per_s\":1e-300}]",
        "[{\"items_per_s\":1.7976931348623157e308}]",
        "[{\"items_per_s\":1,\"jitter\":0.999999,\"weight\":0}]",
        "[{\"items_per_s\":1,\"memory\":1}]",
        "[{\"items_per_s\":1,\"memory\":\"1.5GiB\"}]",
        "[{\"items_per_s\":1,\"memory\":18446744073709551615,\"launch_ns\":18446744073709551615}]",
        "[{\"items_per_s\":1,\"compute\":[65535,65535],\"cores\":4294967295,\"slices\":false,"
        "\"faults\":[]}]",
        "[{\"items_per_s\":1,\"name\":"
        "\"012345678901234567890123456789012345678901234567890123456789012\"}]",
        "[{\"items_per_s\":1,\"n\\u0061me\":\"\\u00e9\"}]",
        "[{\"items_per_s\":1,\"faults\":[{\"kind\":\"unit_error\",\"probability\":0}]}]",
        "[{\"items_per_s\":1,\"faults\":[{\"kind\":\"memory\",\"probability\":1}]}]",
        "[{\"items_per_s\":1,\"faults\":[{\"kind\":\"hang\",\"for_ms\":1e-6}]}]",
        "[{\"items_per_s\":1,\"faults\":[{\"kind\":\"slow\",\"factor\":1000,\"at_launch\":"
        "18446744073709551615}]}]",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct model_device device;
        struct muster_error err = { 0 };
        if (describe(texts[i], &device, &err) != MUSTER_OK)
            test_fail(__FILE__, __LINE__, "%s: %s", texts[i], err.text);
    }
}

#define FAULT(text) "[{\"items_per_s\":1,\n\"faults\":[" text "]}]"

static void flaws_are_named_with_their_place(void)
{
    static const struct {
        const char *json, *message;
    } cases[] = {
        { "", "line 1, column 1: the text ends where a value should be" },
        { "[]", "line 1, column 1: there is no device" },
        { "{\"devices\": []}", "line 1, column 13: there is no device" },
        { "{}", "line 1, column 1: \"devices\" is missing" },
        { "7", "line 1, column 1: a description must be an array of devices or an object, not a "
               "number" },
        { "{\"devices\":{}}",
          "line 1, column 12: \"devices\" must be an array of objects, not an object" },
        { "{\"job\":{}}", "line 1, column 2: unknown key \"job\" of the description" },
        { "{\"devices\":[{\"items_per_s\":1}],\"devices\":[]}",
          "line 1, column 32: key \"devices\" of the description is given twice" },
        { "[{\"items_per_s\":1}", "line 1, column 19: ',' or ']' must follow here" },
        { "[{\"items_per_s\":1}] x", "line 1, column 21: nothing may follow the end of the value" },
        { "[3]", "line 1, column 2: a device must be an object, not a number" },
        { "[\n  {\"name\":\"a\"}]", "line 2, column 3: a device needs \"items_per_s\"" },
        { "[{\"items_per_s\":1,\n \"foo\":2}]",
          "line 2, column 2: unknown key \"foo\" of a device" },
        { "[{\"items_per_s\":1,\"a\\nb\":2}]",
          "line 1, column 19: unknown key \"a\\nb\" of a device" },
        { "[{\"items_per_s\":1,\"0123456789012345678901234567890123456789\":2}]",
          "line 1, column 19: unknown key \"012345678901234567890123456789012345678... of a "
          "device" },
        { "[{\"items_per_s\":1,"
          "\"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
          "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
          "\":2}]",
          "line 1, column 19: unknown key "
          "\"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9"
          "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9... of "
          "a device" },
        { "[{\"items_per_s\":1,\"items_per_s\":2}]",
          "line 1, column 19: key \"items_per_s\" of a device is given twice" },
        { "[{\"items_per_s\":1,\"item\\u0073_per_s\":2}]",
          "line 1, column 19: key \"items_per_s\" of a device is given twice" },
        { "[{\"items_per_s\":0}]",
          "line 1, column 17: \"items_per_s\" must be a number above 0, not 0" },
        { "[{\"items_per_s\":-0.0}]",
          "line 1, column 17: \"items_per_s\" must be a number above 0, not -0.0" },
        { "[{\"items_per_s\":-8e6}]",
          "line 1, column 17: \"items_per_s\" must be a number above 0, not -8e6" },
        { "[{\"items_per_s\":1e-400}]",
          "line 1, column 17: \"items_per_s\" must be a number above 0, not 1e-400" },
        { "[{\"items_per_s\":1e400}]",
          "line 1, column 17: \"items_per_s\" must be a number above 0, not 1e400" },
        { "[{\"items_per_s\":NaN}]", "line 1, column 17: not a JSON value" },
        { "[{\"items_per_s\":\"fast\"}]",
          "line 1, column 17: \"items_per_s\" must be a number above 0, not \"fast\"" },
        { "[{\"items_per_s\":null}]",
          "line 1, column 17: \"items_per_s\" must be a number above 0, not null" },
        { "[{\"items_per_s\":[1]}]",
          "line 1, column 17: \"items_per_s\" must be a number above 0, not an array" },
        { "[{\"count\":0}]",
          "line 1, column 11: \"count\" must be a whole number from 1 to 1048576, not 0" },
        { "[{\"count\":1.5}]",
          "line 1, column 11: \"count\" must be a whole number from 1 to 1048576, not 1.5" },
        { "[{\"count\":1048577}]",
          "line 1, column 11: \"count\" must be a whole number from 1 to 1048576, not 1048577" },
        { "[{\"count\":1048576,\"items_per_s\":1},{\"items_per_s\":1}]",
          "line 1, column 36: there are more than 1048576" },
        { "[{\"launch_ns\":-1}]", "line 1, column 15: \"launch_ns\" must be a whole number from 0 "
                                  "to 18446744073709551615" },
        { "[{\"memory\":0}]",
          "line 1, column 12: \"memory\" must be a number of bytes above 0, or a size" },
        { "[{\"memory\":\"0GiB\"}]",
          "line 1, column 12: \"memory\" must be a number of bytes above 0, or a size" },
        { "[{\"memory\":\"80 GiB\"}]", "not \"80 GiB\"" },
        { "[{\"memory\":\"99EiB\"}]", "not \"99EiB\"" },
        { "[{\"memory\":true}]", "line 1, column 12: \"memory\" must be" },
        { "[{\"compute\":9}]",
          "line 1, column 13: \"compute\" must be two whole numbers as in [9, 0], not 9" },
        { "[{\"compute\":[9]}]",
          "line 1, column 13: \"compute\" must be two whole numbers as in [9, 0], not fewer" },
        { "[{\"compute\":[9,0,0]}]",
          "line 1, column 13: \"compute\" must be two whole numbers as in [9, 0], not more" },
        { "[{\"compute\":[9,65536]}]",
          "line 1, column 16: \"compute\" must be a whole number from 0 to 65535" },
        { "[{\"compute\":[9", "line 1, column 15: ',' or ']' must follow here" },
        { "[{\"h2d_bytes_per_s\":0}]",
          "line 1, column 21: \"h2d_bytes_per_s\" must be a number above 0, not 0" },
        { "[{\"d2h_bytes_per_s\":-1}]",
          "line 1, column 21: \"d2h_bytes_per_s\" must be a number above 0, not -1" },
        { "[{\"weight\":-1}]",
          "line 1, column 12: \"weight\" must be a number of 0 or more, not -1" },
        { "[{\"jitter\":1}]",
          "line 1, column 12: \"jitter\" must be a number from 0 to below 1, not 1" },
        { "[{\"jitter\":-0.1}]",
          "line 1, column 12: \"jitter\" must be a number from 0 to below 1, not -0.1" },
        { "[{\"cores\":0}]",
          "line 1, column 11: \"cores\" must be a whole number from 1 to 4294967295, not 0" },
        { "[{\"slices\":1}]", "line 1, column 12: \"slices\" must be true or false, not 1" },
        { "[{\"name\":\"\"}]", "line 1, column 10: \"name\" must be a text of 1 to 63 bytes" },
        { "[{\"name\":\"a\\nb\"}]", "line 1, column 10: \"name\" must be a text of 1 to 63 bytes" },
        { "[{\"name\":\"a\\u0000\"}]",
          "line 1, column 10: \"name\" must be a text of 1 to 63 bytes" },
        { "[{\"name\":7}]", "line 1, column 10: \"name\" must be a text of 1 to 63 bytes" },
        { "[{\"name\":\"0123456789012345678901234567890123456789012345678901234567890123\"}]",
          "not \"012345678901234567890123456789012345678..." },
        { "[{\"faults\":{}}]", "line 1, column 12: \"faults\" must be an array, not an object" },
        { FAULT("7"), "line 2, column 11: \"faults\" must be an array of objects, not 7" },
        { FAULT("{}"), "line 2, column 11: a fault needs a \"kind\"" },
        { FAULT("{\"kind\":\"fire\"}"),
          "line 2, column 19: \"kind\" must be one of \"slow\", \"lost\", \"unit_error\"," },
        { FAULT("{\"kind\":1}"), "line 2, column 19: \"kind\" must be one of" },
        { FAULT("{\"kind\":\"slow\"}"),
          "line 2, column 11: a fault of kind \"slow\" needs a \"factor\"" },
        { FAULT("{\"kind\":\"slow\",\"factor\":0}"),
          "line 2, column 35: \"factor\" must be a number above 0, not 0" },
        { FAULT("{\"factor\":1,\"kind\":\"lost\"}"),
          "line 2, column 12: \"factor\" means nothing to a fault of kind \"lost\"" },
        { FAULT("{\"kind\":\"lost\",\"for_ms\":1}"),
          "line 2, column 26: \"for_ms\" means nothing to a fault of kind \"lost\"" },
        { FAULT("{\"kind\":\"hang\",\"probability\":1}"),
          "line 2, column 26: \"probability\" means nothing to a fault of kind \"hang\"" },
        { FAULT("{\"kind\":\"hang\",\"for_ms\":0}"),
          "line 2, column 35: \"for_ms\" must be a time in milliseconds" },
        { FAULT("{\"kind\":\"hang\",\"at_ms\":-1}"),
          "line 2, column 34: \"at_ms\" must be a time in milliseconds" },
        { FAULT("{\"kind\":\"hang\",\"at_ms\":1e300}"),
          "line 2, column 34: \"at_ms\" must be a time in milliseconds" },
        { FAULT("{\"kind\":\"hang\",\"at_launch\":0}"),
          "line 2, column 38: \"at_launch\" must be a whole number from 1" },
        { FAULT("{\"kind\":\"hang\",\"at_launch\":1,\"at_ms\":1}"),
          "line 2, column 26: a fault begins either \"at_ms\" or \"at_launch\", not both" },
        { FAULT("{\"kind\":\"memory\",\"probability\":1.01}"),
          "line 2, column 42: \"probability\" must be a number from 0 to 1, not 1.01" },
        { FAULT("{\"kind\":\"hang\",\"at\":1}"),
          "line 2, column 26: unknown key \"at\" of a fault" },
        { FAULT("{\"kind\":\"hang\",\"kind\":\"hang\"}"),
          "line 2, column 26: key \"kind\" of a fault is given twice" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_device device = { .name = "untouched" };
        struct muster_error err = { 0 };
        if (describe(cases[i].json, &device, &err) != MUSTER_E_PARSE)
            test_fail(__FILE__, __LINE__, "%s: %s", cases[i].json, muster_status_name(err.status));
        CHECK_EQUAL(MUSTER_E_PARSE, err.status);
        CHECK_CONTAINS(cases[i].message, err.text);
        CHECK(err.fix[0]);
        CHECK_TEXT("untouched", device.name);
        CHECK_STATUS(MUSTER_E_PARSE, describe(cases[i].json, &device, NULL));
    }
}

static void a_device_has_a_limit_of_faults(void)
{
    char text[2048] = "[{\"items_per_s\":1,\"faults\":[";
    for (int i = 0; i < MODEL_FAULTS_MAX; i++)
        strcat(text, i > 0 ? ",{\"kind\":\"lost\"}" : "{\"kind\":\"lost\"}");
    size_t sixteen = strlen(text);
    struct model_device device;
    struct muster_error err = { 0 };
    strcpy(text + sixteen, "]}]");
    CHECK_STATUS(MUSTER_OK, describe(text, &device, &err));
    CHECK_EQUAL(MODEL_FAULTS_MAX, device.fault_count);
    strcpy(text + sixteen, ",{\"kind\":\"lost\"}]}]");
    CHECK_STATUS(MUSTER_E_PARSE, describe(text, &device, &err));
    CHECK_CONTAINS("a device has at most 16 faults", err.text);
}

static void too_little_room_is_said(void)
{
    struct model_device devices[3] = { { .name = "untouched" } };
    struct muster_error err = { 0 };
    size_t count = 0;
    CHECK_STATUS(MUSTER_E_CAPACITY,
                 model_describe(example, strlen(example), devices, 2, &count, &err));
    CHECK_EQUAL(3, count);
    CHECK_TEXT("untouched", devices[0].name);
    CHECK_CONTAINS("3 devices are described and there is room for 2", err.text);
    count = 0;
    CHECK_STATUS(MUSTER_E_CAPACITY,
                 model_describe(example, strlen(example), NULL, 0, &count, NULL));
    CHECK_EQUAL(3, count);
}

static void devices_are_read_from_within_a_larger_text(void)
{
    static const char text[] =
        "{\"seed\":1,\"devices\":[{\"items_per_s\":1,\"count\":3},{\"items_per_s\":2}],\"job\":{}}";
    struct json json;
    struct json_value value, key;
    struct model_device devices[2];
    struct muster_error err = { 0 };
    size_t count = 0;
    json_init(&json, text, strlen(text));
    CHECK(json_read(&json, &value) && json_next_key(&json, &key) && json_skip(&json) &&
          json_next_key(&json, &key));
    CHECK_STATUS(MUSTER_OK, model_read_devices(&json, NULL, devices, 2, &count, &err));
    CHECK_EQUAL(4, count);
    CHECK(devices[0].items_per_s == 1 && devices[1].items_per_s == 1);
    CHECK(json_next_key(&json, &key) && json_equals(&json, &key, "job") && json_skip(&json));
    CHECK(!json_next_key(&json, &key) && json_finish(&json));

    uint32_t copies = 0;
    json_init(&json, "{\"items_per_s\":5,\"count\":9}", 27);
    CHECK_STATUS(MUSTER_OK, model_read_device(&json, NULL, devices, &copies, &err));
    CHECK(devices[0].items_per_s == 5 && copies == 9 && json_finish(&json));
}

static void damaged_descriptions_do_no_harm(void)
{
    static const char *const corpus[] = {
        example,
        "[{\"items_per_s\":1,\"faults\":[{\"kind\":\"hang\",\"at_launch\":2,\"for_ms\":3},"
        "{\"kind\":\"slow\",\"at_ms\":1,\"for_ms\":5e3,\"factor\":0.5},{\"kind\":\"hang\",\"at_"
        "ms\":2,\"for_ms\":0.1}]}"
        "]",
        "[{\"items_per_s\":1e3,\"jitter\":0.9,\"count\":4}]",
    };
    mutate_all(test_seed(), corpus, sizeof corpus / sizeof *corpus,
               test_repetitions(TEST_BY_SANITIZER(100000, 50000, 5000)));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_launch_costs_its_launch_and_its_items),
        TEST(whole_times_come_out_whole),
        TEST(a_slow_spell_is_integrated_over),
        TEST(slow_spells_multiply_and_last),
        TEST(spells_agree_with_stepping_through_them),
        TEST(a_hang_with_an_end_is_a_pause),
        TEST(a_hang_for_ever_and_a_loss_end_nothing),
        TEST(changes_of_health_are_real_ones),
        TEST(the_nth_launch_triggers_a_fault),
        TEST(copies_follow_their_link),
        TEST(what_is_too_long_is_never),
        TEST(as_many_faults_count_as_there_are),
        TEST(jitter_spreads_around_the_mean),
        TEST(the_same_seed_gives_the_same_times),
        TEST(devices_and_seeds_differ),
        TEST(faults_do_not_disturb_the_jitter),
        TEST(units_fail_as_often_as_they_should),
        TEST(one_launch_alone_fails),
        TEST(what_never_finishes_does_not_fail),
        TEST(memory_is_refused_within_the_spell),
        TEST(every_key_arrives),
        TEST(edges_of_ranges_are_accepted),
        TEST(flaws_are_named_with_their_place),
        TEST(a_device_has_a_limit_of_faults),
        TEST(too_little_room_is_said),
        TEST(devices_are_read_from_within_a_larger_text),
        TEST(damaged_descriptions_do_no_harm),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
