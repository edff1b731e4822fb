/*
 * Scenarios of many machines: what is read, what is refused, and what comes out.
 */
#include "model/machines.h"
#include "support.h"

#include <muster/simulate.h>

#define MACHINES "\"machines\": [{\"devices\": [{\"items_per_s\": 1e6}]}]"
#define JOB "\"job\": {\"items\": 1000, \"grain\": 10}"

static struct machine_model models[8];
static struct model_device devices[8];
static size_t machine_count, device_count;

static muster_status read(const char *text, struct machines *out)
{
    return machines_read(text, strlen(text), models, 8, &machine_count, devices, 8, &device_count,
                         out, &problem);
}

static struct machines good(const char *text)
{
    struct machines out;
    MUST(read(text, &out));
    return out;
}

static void what_is_left_out_is_as_written(void)
{
    struct machines out = good("{" MACHINES ", " JOB "}");
    CHECK(machine_count == 1 && device_count == 1 && out.job_count == 1);
    CHECK_EQUAL(200000, models[0].latency_ns);
    CHECK(models[0].bytes_per_s == 0 && models[0].loses == 0 && models[0].fault_count == 0);
    CHECK(out.jobs[0].grain == 10 && out.jobs[0].weight == 1 && out.jobs[0].job.tries == 3);
    CHECK(out.back_ns == SECOND && out.stall_count == 0 && out.death_count == 0);
}

static void everything_is_read(void)
{
    struct machines out = good(
        "{\"machines\": [{\"name\": \"a\", \"count\": 2, \"devices\": [{\"items_per_s\": 1}, "
        "{\"items_per_s\": 2}], \"link\": {\"latency_us\": 1.5, \"bytes_per_s\": 1e9, \"loses\": "
        "0.1, "
        "\"delays\": 0.2}, \"faults\": [{\"kind\": \"partition\", \"at_ms\": 5, \"for_ms\": 6}, "
        "{\"kind\": \"lost\", \"at_ms\": 7}, {\"kind\": \"joins\", \"at_ms\": 8}, "
        "{\"kind\": \"leaves\", \"at_ms\": 9}]}, {\"devices\": [{\"items_per_s\": 3}]}],"
        "\"engine\": {\"stalls\": [{\"at_ms\": 900, \"for_ms\": 6000}], \"loses_result\": 1e-6},"
        "\"submitter\": {\"dies_at_ms\": [1200], \"back_after_ms\": 10, \"twins_at_ms\": [3]},"
        "\"jobs\": [{\"items\": 5, \"weight\": 2, \"window\": 3, \"tries\": 4, \"item_bytes_in\": "
        "1, "
        "\"item_bytes_out\": 2, \"cost\": {\"kind\": \"ramp\"}, \"poison\": [{\"item\": 4, "
        "\"kind\": \"kills\"}]}, {\"items\": 6}]}");
    CHECK(machine_count == 3 && device_count == 3 && out.job_count == 2);
    CHECK(models[1].first_device == 0 && models[1].device_count == 2 &&
          models[2].first_device == 2);
    CHECK(models[0].latency_ns == 1500 && models[0].loses == 0.1 && models[0].delays == 0.2);
    CHECK_EQUAL(4, models[0].fault_count);
    CHECK(models[0].faults[0].kind == MACHINE_PARTITION && models[0].faults[0].for_ns == 6 * MS);
    CHECK(models[0].faults[3].kind == MACHINE_LEAVES && models[0].faults[3].at_ns == 9 * MS);
    CHECK(out.stalls[0].at_ns == 900 * MS && out.stalls[0].for_ns == 6 * SECOND);
    CHECK(out.dies_ns[0] == 1200 * MS && out.twins_ns[0] == 3 * MS && out.back_ns == 10 * MS);
    CHECK(out.loses_result == 1e-6 && out.jobs[0].weight == 2 && out.jobs[0].job.window == 3);
    CHECK(out.jobs[0].poisons[0].item == 4 && out.jobs[0].poisons[0].kind == POISON_KILLS);
}

static void what_makes_no_sense_is_refused_with_its_place(void)
{
    static const struct {
        const char *text, *part;
    } bad[] = {
        { "{" MACHINES "}", "a job or jobs" },
        { "{" MACHINES ", " JOB ", \"jobs\": [{\"items\": 1}]}", "a job or jobs" },
        { "{" MACHINES ", \"jobs\": []}", "a job or jobs" },
        { "{\"machines\": [], " JOB "}", "no machines" },
        { "{\"machines\": [{}], " JOB "}", "needs \"devices\"" },
        { "{\"machines\": [{\"devices\": []}], " JOB "}", "line 1" },
        { "{\"machines\": [{\"devices\": [{\"items_per_s\": 1, \"uses\": {\"cores\": 1}}]}], " JOB
          "}",
          "no resource" },
        { "{\"machines\": [{\"devices\": [{\"items_per_s\": 1}], \"count\": 10001}], " JOB "}",
          "\"count\"" },
        { "{" MACHINES ", " JOB ", \"devices\": []}", "unknown key \"devices\"" },
        { "{" MACHINES ", \"job\": {\"items\": 10, \"mode\": \"claim\"}}", "unknown key \"mode\"" },
        { "{" MACHINES ", \"job\": {\"items\": 10, \"poison\": [{\"item\": 10}]}}", "no item 10" },
        { "{" MACHINES ", \"job\": {\"items\": 10, \"poison\": [{}]}}", "needs an \"item\"" },
        { "{" MACHINES ", \"job\": {\"items\": 10, \"weight\": 0}}", "\"weight\"" },
        { "{" MACHINES ", \"job\": {\"items\": 67108865}}", "grains" },
        { "{" MACHINES ", " JOB ", \"engine\": {\"stalls\": [{\"at_ms\": 1}]}}", "\"for_ms\"" },
        { "{" MACHINES ", " JOB ", \"engine\": {\"loses_result\": 1}}", "below 1" },
        { "{" MACHINES ", " JOB ", \"submitter\": {\"dies_at_ms\": [0]}}", "milliseconds" },
        { "{\"machines\": [{\"devices\": [{\"items_per_s\": 1}], \"faults\": [{\"at_ms\": "
          "1}]}], " JOB "}",
          "needs a \"kind\"" },
        { "{\"machines\": [{\"devices\": [{\"items_per_s\": 1}], \"faults\": [{\"kind\": "
          "\"joins\", "
          "\"for_ms\": 1}]}], " JOB "}",
          "means nothing" },
        { "{\"machines\": [{\"devices\": [{\"items_per_s\": 1}], \"link\": {\"loses\": 1}}], " JOB
          "}",
          "below 1" },
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct machines out;
        if (read(bad[i].text, &out) != MUSTER_E_PARSE || !strstr(problem.text, bad[i].part))
            test_fail(__FILE__, __LINE__, "%s: %s", bad[i].text, problem.text);
    }
}

static void more_than_there_is_room_for_is_counted(void)
{
    struct machines out;
    const char *text =
        "{\"machines\": [{\"count\": 9, \"devices\": [{\"items_per_s\": 1}]}], " JOB "}";
    CHECK_STATUS(MUSTER_E_CAPACITY, read(text, &out));
    CHECK_EQUAL(9, machine_count);
}

static void a_scenario_of_machines_is_known_by_its_key(void)
{
    const char *deep = "{\"job\": {\"machines\": 1}}", *yes = "{\"job\": [1, {}], \"machines\": 3";
    CHECK(!machines_are_in(deep, strlen(deep)));
    CHECK(machines_are_in(yes, strlen(yes)));
    CHECK(!machines_are_in("[]", 2) && !machines_are_in("", 0));
}

/* What comes out. */

/* With `checks`, every invariant is checked after every event: for small jobs. */
static struct muster_simulation *simulate(const char *text, bool checks)
{
    struct muster_simulation_options options = { .size = sizeof options,
                                                 .seed = 1,
                                                 .check = checks };
    struct muster_simulation *out = NULL;
    MUST(muster_simulate(text, strlen(text), &options, &out, &problem));
    CHECK(!out->broken);
    return out;
}

static void two_jobs_share_by_weight(void)
{
    struct muster_simulation *got = simulate(
        "{\"machines\": [{\"count\": 4, \"devices\": [{\"items_per_s\": 1e5, \"count\": 2}]}],"
        "\"jobs\": [{\"items\": 8000000, \"grain\": 1000, \"weight\": 3},"
        "{\"items\": 8000000, \"grain\": 1000, \"weight\": 1}]}",
        false);
    CHECK(got->status == MUSTER_OK && got->job_count == 2 && got->ratio < 1.05);
    /* The first is over when the second has had a third as much: 8 + 8/3 million at 800,000 a second. */
    double first_s = (double)got->jobs[0]->end_ns / 1e9;
    CHECK(first_s > 13.3 * 0.97 && first_s < 13.4 * 1.03);
    muster_simulation_destroy(got);
}

static void many_machines_are_at_work_to_the_end(void)
{
    struct muster_simulation *got =
        simulate("{\"machines\": [{\"count\": 120, \"devices\": [{\"items_per_s\": 1e4}]},"
                 "{\"count\": 60, \"devices\": [{\"items_per_s\": 1e5}]},"
                 "{\"count\": 20, \"devices\": [{\"items_per_s\": 1e6}]}],"
                 "\"job\": {\"items\": 540000000, \"grain\": 1000}}",
                 false);
    CHECK(got->status == MUSTER_OK && got->ratio < 1.05);
    muster_simulation_destroy(got);
}

static void a_job_without_machines_fails(void)
{
    struct muster_simulation *got = simulate(
        "{\"machines\": [{\"devices\": [{\"items_per_s\": 1e4}], \"faults\": [{\"kind\": \"lost\", "
        "\"at_ms\": 500}]}], \"job\": {\"items\": 100000, \"grain\": 100}}",
        true);
    CHECK(got->status == MUSTER_E_FAILED && got->failed_count == 1);
    CHECK_EQUAL(100000, got->failed[0].end);
    CHECK_EQUAL(got->items_delivered, got->failed[0].begin);
    CHECK_TEXT("lost", got->devices[0]->health);
    muster_simulation_destroy(got);
}

/* A submitter dies in the middle, and the next goes on with what the workers are at. */
static void a_resumed_job_loses_little(void)
{
    struct muster_simulation *got =
        simulate("{\"machines\": [{\"count\": 10, \"devices\": [{\"items_per_s\": 1e5}]}],"
                 "\"submitter\": {\"dies_at_ms\": [10000], \"back_after_ms\": 1000},"
                 "\"job\": {\"items\": 20000000, \"grain\": 10000}}",
                 false);
    CHECK(got->status == MUSTER_OK && got->resumes == 1 && got->adopted >= 10);
    CHECK(got->makespan_ns < 23 * SECOND);
    muster_simulation_destroy(got);
}

/* An allocator that has no more after some calls. */
static unsigned calls_left;

static void *take_some(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    return calls_left > 0 && calls_left-- > 0
               ? aligned_alloc(alignment, (bytes + alignment - 1) & ~(alignment - 1))
               : NULL;
}

static void give_back(void *user, void *memory, size_t bytes)
{
    (void)user;
    (void)bytes;
    free(memory);
}

static void without_memory_it_says_so(void)
{
    static const struct muster_allocator allocator = { sizeof allocator, take_some, give_back,
                                                       NULL };
    struct muster_simulation_options options = { .size = sizeof options, .allocator = &allocator };
    const char *text = "{" MACHINES ", " JOB ", \"submitter\": {\"twins_at_ms\": [1]}}";
    muster_status status = MUSTER_E_NO_MEMORY;
    unsigned calls = 0;
    for (; status == MUSTER_E_NO_MEMORY; calls++) {
        struct muster_simulation *out = NULL;
        calls_left = calls;
        status = muster_simulate(text, strlen(text), &options, &out, &problem);
        CHECK(status == MUSTER_OK || status == MUSTER_E_NO_MEMORY);
        muster_simulation_destroy(out);
    }
    CHECK(status == MUSTER_OK && calls > 10);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(what_is_left_out_is_as_written),
        TEST(everything_is_read),
        TEST(what_makes_no_sense_is_refused_with_its_place),
        TEST(more_than_there_is_room_for_is_counted),
        TEST(a_scenario_of_machines_is_known_by_its_key),
        TEST(two_jobs_share_by_weight),
        TEST(many_machines_are_at_work_to_the_end),
        TEST(a_job_without_machines_fails),
        TEST(a_resumed_job_loses_little),
        TEST(without_memory_it_says_so),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
