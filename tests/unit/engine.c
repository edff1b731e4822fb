#include "simulate/engine.h"

#include "base/random.h"
#include "model/power.h"
#include "support.h"

#include <string.h>

#define MILLI UINT64_C(1000000)

static const struct model_resources cores = { .list = { { "cores", 16 } }, .count = 1 };

static struct model_device device_of(double items_per_s, double uses, double feeds,
                                     double sensitive)
{
    return (struct model_device){
        .items_per_s = items_per_s, .uses = { uses }, .feeds = { feeds }, .sensitive = sensitive
    };
}

static bool is_near(double expected, double actual)
{
    double off = actual > expected ? actual - expected : expected - actual;
    return off <= 1e-12 * expected;
}

static void powers_are_what_they_should_be(void)
{
    CHECK(power_log2(1) == 0 && power_log2(8) == 3 && power_exp2(-2) == 0.25);
    CHECK(is_near(0.125, power_of(0.5, 3)) && is_near(1, power_of(0.3, 0)));
    CHECK(is_near(0.5, power_of(0.25, 0.5)));
    CHECK(power_of(1e-20, 100) > 0);
}

static void what_is_enough_for_all_slows_nobody_down(void)
{
    struct model_device device = device_of(1e6, 8, 0, 3);
    double demand[] = { 16 };
    CHECK(model_is_sharing(&device));
    CHECK(model_share(&device, &cores, demand) == 1);
    demand[0] = 32;
    CHECK(is_near(0.125, model_share(&device, &cores, demand)));
    device.sensitive = 0;
    CHECK(model_share(&device, &cores, demand) == 1);
}

/* Who takes nothing of it is not slowed down; who takes of two that are short is by both. */
static void only_users_are_slowed_down(void)
{
    struct model_resources two = { .list = { { "cores", 16 }, { "memory", 10 } }, .count = 2 };
    struct model_device alone = device_of(1e6, 0, 0, 1), feeds = device_of(1e6, 0, 1, 1);
    double demand[] = { 32, 40 };
    CHECK(!model_is_sharing(&alone));
    CHECK(model_share(&alone, &two, demand) == 1);
    CHECK(is_near(0.5, model_share(&feeds, &two, demand)));
    feeds.uses[1] = 1;
    CHECK(is_near(0.125, model_share(&feeds, &two, demand)));
}

struct pair {
    struct model_device models[2];
    struct engine engines[2], *both[2];
    struct sharing sharing;
};

static void pair_init(struct pair *pair, struct model_device a, struct model_device b)
{
    pair->models[0] = a;
    pair->models[1] = b;
    for (uint32_t i = 0; i < 2; i++) {
        engine_init(&pair->engines[i], &pair->models[i], 1, i);
        pair->both[i] = &pair->engines[i];
    }
    pair->sharing = (struct sharing){ .resources = &cores, .engines = pair->both, .count = 2 };
}

/*
 * Both want 16 of 16 cores. The first has 3 ms of work and is alone for 1 ms; then it shares for as long
 * as the other takes, at half its rate, and then it is alone again.
 */
static void a_launch_is_slow_only_while_it_shares(void)
{
    struct pair p;
    pair_init(&p, device_of(1e6, 16, 0, 1), device_of(1e6, 16, 0, 1));
    CHECK_EQUAL(2, sharing_first(&p.sharing));
    engine_begin(&p.engines[0], 0, 3000);
    sharing_update(&p.sharing, 0);
    CHECK_EQUAL(0, sharing_first(&p.sharing));
    CHECK_EQUAL(3 * MILLI, p.engines[0].due_ns);
    engine_begin(&p.engines[1], 1 * MILLI, 500);
    sharing_update(&p.sharing, 1 * MILLI);
    CHECK_EQUAL(5 * MILLI, p.engines[0].due_ns);
    CHECK_EQUAL(2 * MILLI, p.engines[1].due_ns);
    CHECK_EQUAL(1, sharing_first(&p.sharing));
    engine_end(&p.engines[1]);
    sharing_update(&p.sharing, 2 * MILLI);
    CHECK(p.engines[1].due_ns == MODEL_NEVER);
    CHECK_EQUAL(3500000, p.engines[0].due_ns);
}

/* What feeds a device is taken as long as it has work, though it does not compute. */
static void a_device_that_only_copies_feeds_too(void)
{
    struct pair p;
    pair_init(&p, device_of(1e6, 16, 0, 1), device_of(1e6, 0, 16, 1));
    engine_begin(&p.engines[0], 0, 1000);
    p.engines[1].has_work = true;
    sharing_update(&p.sharing, 0);
    CHECK_EQUAL(2 * MILLI, p.engines[0].due_ns);
    p.engines[1].has_work = false;
    sharing_update(&p.sharing, 1 * MILLI);
    CHECK_EQUAL(1500000, p.engines[0].due_ns);
}

/* The cost of the launch is not slowed down; a slow spell and the share multiply. */
static void the_rate_alone_is_shared(void)
{
    struct pair p;
    struct model_device first = device_of(1e6, 16, 0, 1);
    first.launch_ns = 1 * MILLI;
    first.faults[0] = (struct model_fault){
        .kind = MODEL_FAULT_SLOW, .at_ns = 2 * MILLI, .for_ns = 100 * MILLI, .factor = 0.5
    };
    first.fault_count = 1;
    pair_init(&p, first, device_of(1e6, 16, 0, 1));
    engine_begin(&p.engines[0], 0, 1000);
    engine_begin(&p.engines[1], 0, 1000000);
    sharing_update(&p.sharing, 0);
    /* 1 ms to launch, 1 ms at a half, then at a quarter. */
    CHECK_EQUAL(4 * MILLI, p.engines[0].due_ns);
}

/* However often others come and go, what is done in all is the sum of what was done between. */
static void progress_adds_up(void)
{
    struct random random;
    random_init(&random, test_seed());
    for (int round = 0; round < 100; round++) {
        struct pair p;
        pair_init(&p, device_of(1e6, 16, 0, 1), device_of(1e6, 16 * random_unit(&random), 0, 1));
        double both = 16 / (16 + p.models[1].uses[0]), done = 0, work = 1000;
        uint64_t now_ns = 0;
        engine_begin(&p.engines[0], 0, work);
        sharing_update(&p.sharing, 0);
        for (int i = 0; i < 20; i++) {
            bool is_busy = p.engines[1].is_busy;
            if (is_busy)
                engine_end(&p.engines[1]);
            else
                engine_begin(&p.engines[1], now_ns, 1e9);
            sharing_update(&p.sharing, now_ns);
            uint64_t span_ns = 1 + random_below(&random, 20000);
            done += 1e-3 * (double)span_ns * (is_busy ? 1 : both);
            now_ns += span_ns;
        }
        double rest = p.engines[1].is_busy ? both : 1;
        double due = (double)now_ns + (work - done) * 1e3 / rest;
        double off = due - (double)p.engines[0].due_ns;
        CHECK(off < 100 && off > -100);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(powers_are_what_they_should_be),
        TEST(what_is_enough_for_all_slows_nobody_down),
        TEST(only_users_are_slowed_down),
        TEST(a_launch_is_slow_only_while_it_shares),
        TEST(a_device_that_only_copies_feeds_too),
        TEST(the_rate_alone_is_shared),
        TEST(progress_adds_up),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
