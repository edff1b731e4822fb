/*
 * Every backend call fails in turn, of each kind and with each status that kind can have, once and
 * from then on: each call of the runtime says so, nothing is leaked, nothing hangs, and what was
 * reported as done is right.
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

#define STATUSES_MAX 4

/* How calls of a kind can fail, ended by MUSTER_OK. */
struct failures {
    enum faulty_call call;
    muster_status statuses[STATUSES_MAX + 1];
};

static const struct failures failures[] = {
    { FAULTY_open, { MUSTER_E_DRIVER, MUSTER_E_NO_MEMORY } },
    { FAULTY_device_open, { MUSTER_E_DRIVER, MUSTER_E_NO_MEMORY, MUSTER_E_DEVICE_LOST } },
    { FAULTY_device_close, { MUSTER_E_DEVICE_HUNG } },
    { FAULTY_device_sample, { MUSTER_E_DRIVER, MUSTER_E_DEVICE_LOST } },
    { FAULTY_slice_plan, { MUSTER_E_DRIVER, MUSTER_E_DEVICE_LOST } },
    { FAULTY_slice_open, { MUSTER_E_DRIVER, MUSTER_E_NO_MEMORY, MUSTER_E_DEVICE_LOST } },
    { FAULTY_memory_allocate, { MUSTER_E_DRIVER, MUSTER_E_DEVICE_MEMORY, MUSTER_E_DEVICE_LOST } },
    { FAULTY_memory_free, { MUSTER_E_DRIVER, MUSTER_E_DEVICE_LOST } },
    { FAULTY_host_register, { MUSTER_E_DRIVER, MUSTER_E_NO_MEMORY, MUSTER_E_DEVICE_LOST } },
    { FAULTY_stream_open, { MUSTER_E_DRIVER, MUSTER_E_NO_MEMORY, MUSTER_E_DEVICE_LOST } },
    { FAULTY_stream_wait, { MUSTER_E_DRIVER, MUSTER_E_STREAM_FAILED, MUSTER_E_DEVICE_LOST } },
    { FAULTY_stream_query, { MUSTER_E_DRIVER, MUSTER_E_STREAM_FAILED, MUSTER_E_DEVICE_LOST } },
    { FAULTY_event_init, { MUSTER_E_DRIVER, MUSTER_E_NO_MEMORY, MUSTER_E_DEVICE_LOST } },
    { FAULTY_event_record,
      { MUSTER_E_DRIVER, MUSTER_E_NO_MEMORY, MUSTER_E_STREAM_FAILED, MUSTER_E_DEVICE_LOST } },
    { FAULTY_event_query, { MUSTER_E_DRIVER, MUSTER_E_STREAM_FAILED, MUSTER_E_DEVICE_LOST } },
    { FAULTY_event_wait,
      { MUSTER_E_DRIVER, MUSTER_E_TIMEOUT, MUSTER_E_STREAM_FAILED, MUSTER_E_DEVICE_LOST } },
    { FAULTY_copy, { MUSTER_E_DRIVER, MUSTER_E_STREAM_FAILED, MUSTER_E_DEVICE_LOST } },
    { FAULTY_fill, { MUSTER_E_DRIVER, MUSTER_E_STREAM_FAILED, MUSTER_E_DEVICE_LOST } },
    { FAULTY_kernel_init, { MUSTER_E_DRIVER, MUSTER_E_NO_MEMORY, MUSTER_E_DEVICE_LOST } },
    { FAULTY_launch, { MUSTER_E_DRIVER, MUSTER_E_STREAM_FAILED, MUSTER_E_DEVICE_LOST } },
};

static struct faulty_plan plan;

static bool allows_what_was_planned(const struct scenario *s, const char *step,
                                    muster_status status)
{
    (void)s;
    /* Where the driver never says that work has finished, its memory stays in use. */
    if ((plan.call == FAULTY_event_query || plan.call == FAULTY_ANY) &&
        strcmp(step, "muster_device_slice") == 0 && status == MUSTER_E_BUSY)
        return true;
    /* A driver that refuses everything has work that nobody can follow, and is given up. */
    if (plan.call == FAULTY_ANY && muster_status_discards(status) == MUSTER_DISCARD_DEVICE)
        return true;
    return status == plan.status;
}

static void say_plan(const char *on, char *label, size_t bytes)
{
    if (plan.number == 0)
        snprintf(label, bytes, "%s, nothing fails", on);
    else
        snprintf(label, bytes, "%s, %s number %" PRIu64 "%s with %s", on,
                 faulty_call_name(plan.call), plan.number,
                 plan.from_then_on ? " and all after it" : "", muster_status_name(plan.status));
}

/*
 * Whether close may say that the device hangs: where the driver would not tell whether work has
 * finished, or said itself that it hangs.
 */
static bool may_hang(void)
{
    return plan.call == FAULTY_device_close || plan.call == FAULTY_ANY ||
           (plan.call == FAULTY_stream_query && plan.status == MUSTER_E_DRIVER) ||
           (plan.call == FAULTY_event_wait && plan.status == MUSTER_E_TIMEOUT);
}

static void check_nothing_is_left(const struct scenario *s,
                                  const struct faulty_allocator *allocator)
{
    bool is_hung = s->close_status == MUSTER_E_DEVICE_HUNG;
    if (s->close_status != MUSTER_OK && !(is_hung && may_hang()))
        test_fail(__FILE__, __LINE__, "%s: muster_close failed: %s", s->label, s->close_error.text);
    if (*faulty_mistake())
        test_fail(__FILE__, __LINE__, "%s: the runtime broke the contract: %s", s->label,
                  faulty_mistake());
    /* Only a device that says so itself keeps what it was given, and the device it is a slice of. */
    bool is_abandoned = plan.call == FAULTY_device_close && faulty_has_failed();
    if (is_abandoned && !is_hung)
        test_fail(__FILE__, __LINE__, "%s: muster_close does not name the device", s->label);
    for (int kind = is_abandoned ? FAULTY_STREAM : 0; kind < FAULTY_OBJECT_COUNT; kind++)
        if (faulty_live(kind) > 0)
            test_fail(__FILE__, __LINE__, "%s: %" PRIu64 " objects of kind %d are left", s->label,
                      faulty_live(kind), kind);
    if (faulty_orphans() > 0 && !is_hung)
        test_fail(__FILE__, __LINE__, "%s: a device was closed that held %" PRIu64 " objects",
                  s->label, faulty_orphans());
    if ((allocator->bytes_out > 0 && !is_abandoned) || allocator->mistakes > 0)
        test_fail(__FILE__, __LINE__,
                  "%s: %zu bytes leaked, %" PRIu64 " given back with another size", s->label,
                  allocator->bytes_out, allocator->mistakes);
}

/* Runs the scenario as planned; false when the call that was to fail never came. */
static bool run_planned(const char *on, const struct muster_backend *wrapped, const char *sim,
                        uint64_t *verified)
{
    char label[160];
    struct faulty_allocator allocator;
    say_plan(on, label, sizeof label);
    faulty_allocator_init(&allocator, 0, false);
    struct scenario s = { .label = label,
                          .devices = "faulty",
                          .sim = sim,
                          .backend = faulty_wrap(wrapped, &plan),
                          .allocator = faulty_allocator_hook(&allocator),
                          .allows = allows_what_was_planned };
    scenario_run(&s);
    check_nothing_is_left(&s, &allocator);
    bool has_failed = faulty_has_failed();
    if (!has_failed && s.failures > 0)
        test_fail(__FILE__, __LINE__, "%s: a call failed though no backend call did", label);
    *verified = s.verified;
    faulty_bury();
    scenario_deinit(&s);
    faulty_allocator_deinit(&allocator);
    return has_failed;
}

static void sweep(const char *on, const struct muster_backend *wrapped, const char *sim)
{
    uint64_t stride = sweep_stride(SWEEP_STRIDE(3, 9)), verified;
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++)
        for (const muster_status *status = failures[i].statuses; *status != MUSTER_OK; status++)
            for (int from_then_on = 0; from_then_on < 2; from_then_on++) {
                /* A lost device fails from then on by itself. */
                if (from_then_on && *status == MUSTER_E_DEVICE_LOST)
                    continue;
                plan = (struct faulty_plan){ failures[i].call, 1, from_then_on, *status };
                /* The first of each kind always, since some kinds are called a few times only. */
                while (run_planned(on, wrapped, sim, &verified))
                    plan.number = plan.number == 1 ? 1 + sweep_first(stride) : plan.number + stride;
            }
}

/* The whole driver refuses, from each call on. */
static void sweep_all(const char *on, const struct muster_backend *wrapped, const char *sim)
{
    static const muster_status statuses[] = { MUSTER_E_DRIVER, MUSTER_E_NO_MEMORY };
    uint64_t stride = sweep_stride(SWEEP_STRIDE(3, 9)), verified;
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        plan = (struct faulty_plan){ FAULTY_ANY, sweep_first(stride), true, statuses[i] };
        while (run_planned(on, wrapped, sim, &verified))
            plan.number += stride;
    }
}

static void all_calls_fail_on_cpu(void)
{
    sweep_all("cpu", &backend_cpu, NULL);
}

static void all_calls_fail_on_sim(void)
{
    sweep_all("sim", &backend_sim, scenario_sim);
}

static void each_call_fails_on_cpu(void)
{
    sweep("cpu", &backend_cpu, NULL);
}

static void each_call_fails_on_sim(void)
{
    sweep("sim", &backend_sim, scenario_sim);
}

/*
 * The sweeps mean nothing if the scenario does not get to its results, or does not make calls of a
 * kind at all.
 */
static void without_a_failure_each_kind_is_called(void)
{
    uint64_t verified;
    plan = (struct faulty_plan){ .number = 0 };
    run_planned("cpu", &backend_cpu, NULL, &verified);
    CHECK_EQUAL(SCENARIO_VERIFIED_WHOLE, verified);
    run_planned("sim", &backend_sim, scenario_sim, &verified);
    CHECK_EQUAL(SCENARIO_VERIFIED_WHOLE - 1 + 3 * SCENARIO_VERIFIED_BRIEF, verified);
    for (size_t i = 0; i < sizeof failures / sizeof *failures; i++)
        if (faulty_calls(failures[i].call) == 0)
            test_fail(__FILE__, __LINE__, "%s is never called", faulty_call_name(failures[i].call));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(without_a_failure_each_kind_is_called),
        TEST(each_call_fails_on_cpu),
        TEST(each_call_fails_on_sim),
        TEST(all_calls_fail_on_cpu),
        TEST(all_calls_fail_on_sim),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
