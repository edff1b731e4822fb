/*
 * Every allocation fails in turn, once and from then on: each call says so, nothing is leaked, and
 * the runtime closes.
 */
#include "backend/cpu/cpu.h"
#include "backend/sim/sim.h"
#include "faulty_allocator.h"
#include "faulty_backend.h"
#include "harness.h"
#include "scenario.h"
#include "sweep.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool allows_no_memory(const struct scenario *s, const char *step, muster_status status)
{
    (void)s, (void)step;
    return status == MUSTER_E_NO_MEMORY;
}

/* Runs the scenario with one plan; false when the allocation that was to fail never came. */
static bool run_with(const char *on, const struct muster_backend *wrapped, uint64_t number,
                     bool from_then_on)
{
    char label[80];
    struct faulty_allocator allocator;
    const struct faulty_plan no_plan = { .number = 0 };
    snprintf(label, sizeof label, "%s, allocation %" PRIu64 "%s", on, number,
             from_then_on ? " and all after it" : "");
    faulty_allocator_init(&allocator, number, from_then_on);
    struct scenario s = { .label = label,
                          .devices = "faulty",
                          .sim = scenario_sim,
                          .backend = faulty_wrap(wrapped, &no_plan),
                          .allocator = faulty_allocator_hook(&allocator),
                          .allows = allows_no_memory };
    scenario_run(&s);
    if (s.close_status != MUSTER_OK)
        test_fail(__FILE__, __LINE__, "%s: muster_close failed: %s", label, s.close_error.text);
    if (allocator.bytes_out != 0 || allocator.mistakes != 0)
        test_fail(__FILE__, __LINE__,
                  "%s: %zu bytes leaked, %" PRIu64 " given back with another size", label,
                  allocator.bytes_out, allocator.mistakes);
    if (*faulty_mistake() || faulty_orphans() > 0)
        test_fail(__FILE__, __LINE__, "%s: %" PRIu64 " objects left with their device; mistake: %s",
                  label, faulty_orphans(), faulty_mistake());
    for (int kind = 0; kind < FAULTY_OBJECT_COUNT; kind++)
        if (faulty_live(kind) > 0)
            test_fail(__FILE__, __LINE__, "%s: %" PRIu64 " objects of kind %d are left", label,
                      faulty_live(kind), kind);
    /* A shortage that has passed is forgotten: the next call is served. */
    if (!from_then_on && s.failures > 1)
        test_fail(__FILE__, __LINE__, "%s: %" PRIu64 " calls failed", label, s.failures);
    if (s.was_opened && !allocator.has_failed && s.failures > 0)
        test_fail(__FILE__, __LINE__, "%s: a call failed though no allocation did", label);
    bool has_failed = allocator.has_failed;
    scenario_deinit(&s);
    faulty_allocator_deinit(&allocator);
    return has_failed;
}

static void sweep(const char *on, const struct muster_backend *wrapped)
{
    uint64_t stride = sweep_stride(SWEEP_STRIDE(1, 2));
    for (int from_then_on = 0; from_then_on < 2; from_then_on++) {
        uint64_t number = sweep_first(stride);
        while (run_with(on, wrapped, number, from_then_on))
            number += stride;
        CHECK(number > 50);
    }
}

static void each_allocation_fails_on_cpu(void)
{
    sweep("cpu", &backend_cpu);
}

static void each_allocation_fails_on_sim(void)
{
    sweep("sim", &backend_sim);
}

/* The sweeps mean nothing if the scenario does not get to its results. */
static void without_a_failure_all_is_verified(void)
{
    struct faulty_allocator allocator;
    faulty_allocator_init(&allocator, 0, false);
    struct scenario s = { .label = "nothing fails",
                          .devices = "sim",
                          .sim = scenario_sim,
                          .allocator = faulty_allocator_hook(&allocator),
                          .allows = allows_no_memory };
    scenario_run(&s);
    CHECK_STATUS(MUSTER_OK, s.close_status);
    CHECK_EQUAL(0, s.failures);
    /* The plain device cannot use foreign memory; the other is used whole, then in two parts. */
    CHECK_EQUAL(SCENARIO_VERIFIED_WHOLE - 1 + 3 * SCENARIO_VERIFIED_BRIEF, s.verified);
    CHECK_EQUAL(0, allocator.bytes_out);
    scenario_deinit(&s);
    faulty_allocator_deinit(&allocator);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(without_a_failure_all_is_verified),
        TEST(each_allocation_fails_on_cpu),
        TEST(each_allocation_fails_on_sim),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
