#include "model/scenario.h"

#include "../fuzz/mutate.h"
#include "../fuzz/scenario.c" /* NOLINT(bugprone-suspicious-include): driven below */
#include "harness.h"

#include <stdio.h>

#define DEVICES "\"devices\":[{\"items_per_s\":1e6}]"
#define WITH_JOB(keys) "{" DEVICES ",\"job\":{\"items\":10," keys "}}"
#define WITH_SHARED(keys)                                                                          \
    "{\"devices\":[{\"items_per_s\":1," keys "}],\"job\":{\"items\":1},"                           \
    "\"resources\":[{\"name\":\"cores\",\"capacity\":16}]}"

static struct scenario_job read_job_of(const char *text)
{
    struct model_device device;
    struct scenario_job job;
    struct muster_error err;
    size_t count = 0;
    if (scenario_read(text, strlen(text), &device, 1, &count, &job, &err) != MUSTER_OK)
        test_fail(__FILE__, __LINE__, "%s: %s", text, err.text);
    CHECK_EQUAL(1, count);
    return job;
}

static void what_is_left_out_has_its_default(void)
{
    struct scenario_job job = read_job_of("{" DEVICES ",\"job\":{\"items\":7}}");
    CHECK_EQUAL(7, job.items);
    CHECK_EQUAL(0, job.item_bytes_in);
    CHECK_EQUAL(0, job.item_bytes_out);
    CHECK_EQUAL(SCENARIO_UNIFORM, job.cost);
    CHECK(!job.place && job.ordered && job.speculate);
    CHECK_EQUAL(SCENARIO_ADAPTIVE, job.policy);
    CHECK_EQUAL(SCENARIO_UNIT_ADAPTIVE, job.unit);
    CHECK_EQUAL(0, job.window);
    CHECK_EQUAL(2, job.depth);
    CHECK_EQUAL(3, job.tries);
    CHECK_EQUAL(0, job.min_free_bytes);
    CHECK_EQUAL(0, job.min_compute[0] + job.min_compute[1]);
}

static void every_key_is_read(void)
{
    struct scenario_job job = read_job_of(
        "{\"job\":{\"items\":1e6,\"item_bytes_in\":4,\"item_bytes_out\":8,"
        "\"cost\":{\"kind\":\"pareto\",\"alpha\":1.5},\"mode\":\"place\",\"policy\":\"weighted\","
        "\"unit\":250,\"ordered\":false,\"window\":4096,\"depth\":4,\"tries\":5,"
        "\"speculate\":false,\"hints\":{\"min_free\":\"1GiB\",\"min_compute\":[8,6]}}," DEVICES
        "}");
    CHECK_EQUAL(1000000, job.items);
    CHECK_EQUAL(4, job.item_bytes_in);
    CHECK_EQUAL(8, job.item_bytes_out);
    CHECK_EQUAL(SCENARIO_PARETO, job.cost);
    CHECK(job.alpha == 1.5);
    CHECK(job.place && !job.ordered && !job.speculate);
    CHECK_EQUAL(SCENARIO_WEIGHTED, job.policy);
    CHECK_EQUAL(SCENARIO_UNIT_FIXED, job.unit);
    CHECK_EQUAL(250, job.unit_items);
    CHECK_EQUAL(4096, job.window);
    CHECK_EQUAL(4, job.depth);
    CHECK_EQUAL(5, job.tries);
    CHECK_EQUAL(INT64_C(1) << 30, job.min_free_bytes);
    CHECK_EQUAL(8, job.min_compute[0]);
    CHECK_EQUAL(6, job.min_compute[1]);
}

static void every_choice_is_read(void)
{
    static const char *const policies[] = { "round-robin", "least-loaded", "weighted", "adaptive",
                                            "earliest-finish" };
    static const char *const kinds[] = { "uniform", "ramp" };
    char text[256];
    for (size_t i = 0; i < 5; i++) {
        snprintf(text, sizeof text, WITH_JOB("\"policy\":\"%s\""), policies[i]);
        CHECK_EQUAL(i, read_job_of(text).policy);
    }
    for (size_t i = 0; i < 2; i++) {
        snprintf(text, sizeof text, WITH_JOB("\"cost\":{\"kind\":\"%s\"}"), kinds[i]);
        CHECK_EQUAL(i == 0 ? SCENARIO_UNIFORM : SCENARIO_RAMP, read_job_of(text).cost);
    }
    CHECK(!read_job_of(WITH_JOB("\"mode\":\"claim\"")).place);
    CHECK_EQUAL(SCENARIO_UNIT_QUARTER, read_job_of(WITH_JOB("\"unit\":\"quarter\"")).unit);
    CHECK_EQUAL(SCENARIO_UNIT_ADAPTIVE, read_job_of(WITH_JOB("\"unit\":\"adaptive\"")).unit);
    CHECK_EQUAL(0, read_job_of(WITH_JOB("\"window\":0")).window);
    CHECK_EQUAL(SCENARIO_ITEMS_MAX, read_job_of(WITH_JOB("\"window\":1099511627776")).window);
    CHECK_EQUAL(SCENARIO_DEPTH_MAX, read_job_of(WITH_JOB("\"depth\":64")).depth);
    CHECK_EQUAL(SCENARIO_TRIES_MAX, read_job_of(WITH_JOB("\"tries\":100")).tries);
}

static void devices_are_counted_before_they_fit(void)
{
    static const char text[] = "{\"devices\":[{\"items_per_s\":1,\"count\":3},{\"items_per_s\":2}],"
                               "\"job\":{\"items\":1}}";
    struct model_device devices[4];
    struct scenario_job job = { .items = 99 };
    struct muster_error err;
    size_t count = 0;
    CHECK_STATUS(MUSTER_E_CAPACITY,
                 scenario_read(text, sizeof text - 1, NULL, 0, &count, &job, &err));
    CHECK_EQUAL(4, count);
    CHECK_CONTAINS("4 devices are described and there is room for 0", err.text);
    CHECK_STATUS(MUSTER_E_CAPACITY,
                 scenario_read(text, sizeof text - 1, devices, 3, &count, &job, NULL));
    CHECK_EQUAL(99, job.items);
    CHECK_STATUS(MUSTER_OK, scenario_read(text, sizeof text - 1, devices, 4, &count, &job, NULL));
    CHECK_EQUAL(1, job.items);
    CHECK(devices[2].items_per_s == 1 && devices[3].items_per_s == 2);
}

static void what_devices_share_is_read(void)
{
    /* Devices may stand before the resources they name. */
    static const char text[] =
        "{\"devices\":[{\"items_per_s\":1,\"uses\":{\"memory\":3,\"cores\":16},"
        "\"feeds\":{\"cores\":1.5},\"sensitive\":3,\"opens_ms\":400,\"stoppable\":false},"
        "{\"items_per_s\":1,\"stoppable\":true}],"
        "\"job\":{\"items\":1},\"resources\":[{\"name\":\"cores\",\"capacity\":16},"
        "{\"capacity\":0.5,\"name\":\"memory\"}]}";
    struct model_device devices[2];
    struct scenario_job job;
    size_t count;
    CHECK_STATUS(MUSTER_OK, scenario_read(text, sizeof text - 1, devices, 2, &count, &job, NULL));
    CHECK_EQUAL(2, job.resources.count);
    CHECK_TEXT("cores", job.resources.list[0].name);
    CHECK(job.resources.list[0].capacity == 16 && job.resources.list[1].capacity == 0.5);
    CHECK(devices[0].uses[0] == 16 && devices[0].uses[1] == 3 && devices[0].feeds[0] == 1.5);
    CHECK(devices[0].feeds[1] == 0 && devices[0].sensitive == 3 && devices[0].is_unstoppable);
    CHECK_EQUAL(400000000, devices[0].opens_ns);
    CHECK(devices[1].sensitive == 1 && !devices[1].is_unstoppable && devices[1].opens_ns == 0);
    CHECK(!model_is_sharing(&devices[1]));
}

/* In real time these mean nothing yet, and nothing is silently not heeded. */
static void what_belongs_to_virtual_time_is_refused_in_real_time(void)
{
    static const char *const keys[] = { "\"uses\":{}", "\"feeds\":{}", "\"sensitive\":1",
                                        "\"opens_ms\":1", "\"stoppable\":true" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char text[128];
        struct model_device device;
        struct muster_error err = { .status = MUSTER_OK };
        size_t count;
        snprintf(text, sizeof text, "[{\"items_per_s\":1,%s}]", keys[i]);
        CHECK_STATUS(MUSTER_E_PARSE, model_describe(text, strlen(text), &device, 1, &count, &err));
        CHECK_CONTAINS("belongs to scenarios in virtual time", err.text);
    }
}

static void flaws_are_found_where_they_are(void)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        { "", "line 1, column 1: " },
        { "[]", "line 1, column 1: a scenario must be an object, not an array" },
        { "{}", "line 1, column 1: \"devices\" is missing" },
        { "{" DEVICES "}", "line 1, column 1: \"job\" is missing" },
        { "{\"job\":{\"items\":1}}", "line 1, column 1: \"devices\" is missing" },
        { "{" DEVICES ",\n \"job\":  {}}", "line 2, column 10: a job needs \"items\"" },
        { "{" DEVICES ",\n\"job\":{\"items\":0}}",
          "line 2, column 16: \"items\" must be a whole number from 1 to 1099511627776, not 0" },
        { "{" DEVICES ",\n\"job\":{\"items\":-5}}", "line 2, column 16: \"items\" must be" },
        { "{" DEVICES ",\n\"job\":{\"items\":1.5}}", "line 2, column 16: \"items\" must be" },
        { "{" DEVICES ",\n\"job\":{\"items\":\"many\"}}", "not \"many\"" },
        { "{" DEVICES ",\n\"job\":{\"items\":1,\"items\":2}}",
          "line 2, column 18: key \"items\" of the job is given twice" },
        { "{" DEVICES ",\n\"job\":{\"items\":1,\"tires\":3}}",
          "line 2, column 18: unknown key \"tires\" of the job" },
        { "{" DEVICES ",\"job\":{\"items\":1},\n\"seed\":1}",
          "line 2, column 1: unknown key \"seed\" of the scenario" },
        { "{" DEVICES ",\"job\":{\"items\":1}} x", "nothing may follow the end of the value" },
        { "{" DEVICES ",\"job\":[]}", "\"job\" must be an object, not an array" },
        { "{\"devices\":[],\"job\":{\"items\":1}}", "there is no device" },
        { "{\"devices\":[{\"items_per_s\":0}],\"job\":{\"items\":1}}",
          "line 1, column 28: \"items_per_s\" must be a number above 0, not 0" },
        { WITH_JOB("\n\"cost\": {}"), "line 2, column 9: \"cost\" needs a \"kind\"" },
        { WITH_JOB("\"cost\":{\"kind\":\"cubic\"}"), "not \"cubic\"" },
        { WITH_JOB("\"cost\":{\"kind\":\"pareto\"}"),
          "\"alpha\" belongs to costs of kind \"pareto\"" },
        { WITH_JOB("\"cost\":{\"kind\":\"ramp\",\"alpha\":2}"),
          "\"alpha\" belongs to costs of kind \"pareto\"" },
        { WITH_JOB("\"cost\":{\"kind\":\"pareto\",\"alpha\":1}"), "must be a number above 1" },
        { WITH_JOB("\"cost\":\"uniform\""), "\"cost\" must be an object" },
        { WITH_JOB("\"mode\":\"push\""), "\"claim\", \"place\", not \"push\"" },
        { WITH_JOB("\"policy\":\"sticky\""), "not \"sticky\"" },
        { WITH_JOB("\"policy\":null"), "not null" },
        { WITH_JOB("\"unit\":0"), "\"unit\" must be adaptive, quarter or a number of items" },
        { WITH_JOB("\"unit\":\"half\""), "\"unit\" must be" },
        { WITH_JOB("\"ordered\":1"), "\"ordered\" must be true or false, not 1" },
        { WITH_JOB("\"depth\":0"), "\"depth\" must be a whole number from 1 to 64" },
        { WITH_JOB("\"depth\":65"), "\"depth\" must be" },
        { WITH_JOB("\"tries\":0"), "\"tries\" must be a whole number from 1 to 100" },
        { WITH_JOB("\"window\":-1"), "\"window\" must be" },
        { WITH_JOB("\"item_bytes_in\":4294967296"), "\"item_bytes_in\" must be" },
        { WITH_JOB("\"hints\":{\"min_free\":\"big\"}"), "\"min_free\" must be" },
        { WITH_JOB("\"hints\":{\"min_cc\":[8,0]}"), "unknown key \"min_cc\" of \"hints\"" },
        { WITH_JOB("\"hints\":{\"min_compute\":[8]}"), "\"min_compute\" must be" },
        { WITH_SHARED("\"uses\":{\"cores\":-1}"), "\"cores\" must be a number from 0 to 1e15" },
        { WITH_SHARED("\n\"uses\":{\"core\":1}"),
          "line 2, column 9: \"uses\" has a key that is no resource of the scenario's" },
        { WITH_SHARED("\"feeds\":{\"cores\":1,\"cores\":1}"),
          "\"feeds\" has a key that is given twice" },
        { WITH_SHARED("\"feeds\":[]"), "\"feeds\" must be an object" },
        { WITH_SHARED("\"sensitive\":101"), "\"sensitive\" must be a number from 0 to 100" },
        { WITH_SHARED("\"opens_ms\":-1"), "\"opens_ms\" must be" },
        { WITH_SHARED("\"stoppable\":0"), "\"stoppable\" must be true or false" },
        { "{" DEVICES ",\"job\":{\"items\":1},\n\"resources\":[{\"name\":\"a\"}]}",
          "line 2, column 14: a resource needs a \"capacity\"" },
        { "{" DEVICES ",\"job\":{\"items\":1},\"resources\":[{\"name\":\"a\",\"capacity\":0}]}",
          "\"capacity\" must be a number from 1e-9 to 1e15" },
        { "{" DEVICES ",\"job\":{\"items\":1},\"resources\":[{\"name\":\"a\",\"capacity\":1},"
          "{\"name\":\"a\",\"capacity\":1}]}",
          "two resources are called \"a\"" },
        { "{" DEVICES ",\"job\":{\"cost\":{\"kind\":\"pareto\",\"alpha\":2},\n\"items\":1e9}}",
          "line 2, column 1: pareto costs are drawn for at most 268435456 items" },
    };
    struct model_device device;
    struct scenario_job job;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct muster_error err = { .status = MUSTER_OK };
        size_t count = 77;
        CHECK_STATUS(MUSTER_E_PARSE, scenario_read(cases[i].text, strlen(cases[i].text), &device, 1,
                                                   &count, &job, &err));
        CHECK_EQUAL(77, count);
        CHECK_CONTAINS(cases[i].message, err.text);
        CHECK(strncmp(err.text, "line ", 5) == 0 && err.fix[0]);
    }
}

/* Everything that a scenario can hold, cut off anywhere: never taken, and nothing is written. */
static void no_beginning_of_a_scenario_is_one(void)
{
    static const char text[] =
        "{\"devices\":[{\"name\":\"a\",\"count\":1,\"items_per_s\":8e6,\"launch_ns\":4000,"
        "\"memory\":\"80GiB\",\"compute\":[9,0],\"h2d_bytes_per_s\":5e8,\"d2h_bytes_per_s\":5e8,"
        "\"weight\":1.0,\"jitter\":0.05,\"cores\":8,\"slices\":true,\"faults\":[{\"kind\":\"slow\","
        "\"at_ms\":0.1,\"for_ms\":0.5,\"factor\":0.25},{\"kind\":\"unit_error\",\"at_launch\":3,"
        "\"probability\":0.5}]}],\"job\":{\"items\":900,\"item_bytes_in\":100,\"item_bytes_out\":1,"
        "\"cost\":{\"kind\":\"pareto\",\"alpha\":1.5},\"mode\":\"claim\",\"policy\":\"weighted\","
        "\"unit\":\"quarter\",\"ordered\":true,\"window\":7,\"depth\":3,\"tries\":3,\"speculate\":"
        "true,"
        "\"hints\":{\"min_free\":\"1GiB\",\"min_compute\":[8,6]}}}";
    struct model_device device = { .name = "untouched" };
    struct scenario_job job = { .items = 77 };
    size_t count = 77;
    for (size_t bytes = 0; bytes < sizeof text - 1; bytes++) {
        struct muster_error err = { .status = MUSTER_OK };
        CHECK_STATUS(MUSTER_E_PARSE, scenario_read(text, bytes, &device, 1, &count, &job, &err));
        CHECK_EQUAL(77, count);
        CHECK_EQUAL(77, job.items);
        CHECK(strncmp(err.text, "line 1, column ", 15) == 0 && err.fix[0]);
    }
    CHECK_STATUS(MUSTER_OK, scenario_read(text, sizeof text - 1, &device, 1, &count, &job, NULL));
    CHECK_EQUAL(1, count);
    CHECK_EQUAL(900, job.items);
}

/* Each key takes what is of its kind and nothing else. */
static void every_key_refuses_what_is_not_its_kind(void)
{
    enum { WHOLE = 1, REAL = 2, FLAG = 4, NAME = 8, OBJECT = 16, PAIR = 32, NEGATIVE = 64 };
    static const struct {
        const char *text;
        unsigned kind;
    } values[] = {
        { "7", WHOLE | REAL },
        { "1.5", REAL },
        { "-1", NEGATIVE },
        { "1e30", REAL | NEGATIVE },
        { "true", FLAG },
        { "false", FLAG },
        { "null", 0 },
        { "\"\"", 0 },
        { "[]", 0 },
        { "[1,2]", PAIR },
        { "{}", OBJECT },
        { "nul", 0 },
        { "", 0 },
    };
    static const struct {
        const char *key;
        unsigned kinds;
    } keys[] = {
        { "item_bytes_in", WHOLE },
        { "item_bytes_out", WHOLE },
        { "cost", 0 }, /* which needs a kind */
        { "mode", 0 },
        { "policy", 0 },
        { "unit", WHOLE },
        { "ordered", FLAG },
        { "window", WHOLE },
        { "depth", WHOLE },
        { "tries", WHOLE },
        { "speculate", FLAG },
        { "opens_when_worth", FLAG },
        { "hints", OBJECT },
        { "hints\":{\"min_free", WHOLE },
        { "hints\":{\"min_compute", PAIR },
        { "cost\":{\"kind\":\"pareto\",\"alpha", REAL },
        { "cost\":{\"kind", 0 },
    };
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            char text[256];
            struct model_device device;
            struct scenario_job job = { .items = 77 };
            struct muster_error err = { .status = MUSTER_OK };
            size_t count = 0;
            /* 1e30 is too large a whole number and too large an alpha. */
            bool is_taken = (keys[k].kinds & values[v].kind) && !(values[v].kind & NEGATIVE);
            snprintf(text, sizeof text, WITH_JOB("\"%s\":%s%s"), keys[k].key, values[v].text,
                     strchr(keys[k].key, '{') ? "}" : "");
            muster_status status =
                scenario_read(text, strlen(text), &device, 1, &count, &job, &err);
            if (status != (is_taken ? MUSTER_OK : MUSTER_E_PARSE))
                test_fail(__FILE__, __LINE__, "%s: %s", text, muster_status_name(status));
            CHECK_EQUAL(is_taken ? 10 : 77, job.items);
        }
}

/* The largest and the smallest of each number, and what lies just beyond. */
static void numbers_have_their_limits(void)
{
    static const struct {
        const char *good, *bad;
    } cases[] = {
        { "\"item_bytes_in\":0", "\"item_bytes_in\":-1" },
        { "\"item_bytes_in\":4294967295", "\"item_bytes_in\":4294967296" },
        { "\"item_bytes_out\":0", "\"item_bytes_out\":-1" },
        { "\"item_bytes_out\":4294967295", "\"item_bytes_out\":4294967296" },
        { "\"window\":1099511627776", "\"window\":1099511627777" },
        { "\"depth\":1", "\"depth\":0" },
        { "\"depth\":64", "\"depth\":65" },
        { "\"tries\":1", "\"tries\":0" },
        { "\"tries\":100", "\"tries\":101" },
        { "\"unit\":1", "\"unit\":0" },
        { "\"unit\":18446744073709551615", "\"unit\":18446744073709551616" },
        { "\"cost\":{\"kind\":\"pareto\",\"alpha\":1.0000001}",
          "\"cost\":{\"kind\":\"pareto\",\"alpha\":1.0}" },
        { "\"cost\":{\"kind\":\"pareto\",\"alpha\":1e6}",
          "\"cost\":{\"kind\":\"pareto\",\"alpha\":1.0000001e6}" },
        { "\"hints\":{\"min_free\":1}", "\"hints\":{\"min_free\":0}" },
        { "\"hints\":{\"min_compute\":[65535,0]}", "\"hints\":{\"min_compute\":[65536,0]}" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        struct model_device device;
        struct scenario_job job;
        size_t count;
        snprintf(text, sizeof text, WITH_JOB("%s"), cases[i].good);
        (void)read_job_of(text);
        snprintf(text, sizeof text, WITH_JOB("%s"), cases[i].bad);
        CHECK_STATUS(MUSTER_E_PARSE,
                     scenario_read(text, strlen(text), &device, 1, &count, &job, NULL));
    }
    CHECK_EQUAL(SCENARIO_ITEMS_MAX,
                read_job_of("{" DEVICES ",\"job\":{\"items\":1099511627776}}").items);
    CHECK_EQUAL(SCENARIO_DRAWN_ITEMS_MAX,
                read_job_of("{" DEVICES ",\"job\":{\"cost\":{\"kind\":\"pareto\",\"alpha\":2},"
                            "\"items\":268435456}}")
                    .items);
    static const char *const too_many[] = {
        "{" DEVICES ",\"job\":{\"items\":1099511627777}}",
        "{" DEVICES ",\"job\":{\"cost\":{\"kind\":\"pareto\",\"alpha\":2},\"items\":268435457}}",
    };
    for (size_t i = 0; i < sizeof too_many / sizeof *too_many; i++) {
        struct model_device device;
        struct scenario_job job;
        size_t count;
        CHECK_STATUS(MUSTER_E_PARSE, scenario_read(too_many[i], strlen(too_many[i]), &device, 1,
                                                   &count, &job, NULL));
    }
}

static void hints_refuse_by_name(void)
{
    const struct model_device device = { .memory_bytes = 1 << 20, .compute = { 8, 6 } };
    struct scenario_job job = { .items = 1 };
    const char *why = "?";
    CHECK(scenario_eligible(&job, &device, &why) && !why);
    job.min_free_bytes = 1 << 20;
    job.min_compute[0] = 8;
    job.min_compute[1] = 6;
    CHECK(scenario_eligible(&job, &device, &why) && !why);
    job.min_compute[1] = 7;
    CHECK(!scenario_eligible(&job, &device, &why));
    CHECK_TEXT("min_compute", why);
    job.min_compute[0] = 7; /* 7.7 is below 8.6 */
    CHECK(scenario_eligible(&job, &device, &why));
    job.min_compute[0] = 9;
    job.min_compute[1] = 0;
    CHECK(!scenario_eligible(&job, &device, &why));
    job.min_free_bytes++;
    CHECK(!scenario_eligible(&job, &device, &why));
    CHECK_TEXT("min_free", why);
}

static void damaged_scenarios_do_no_harm(void)
{
    static const char *const corpus[] = {
        "{\"devices\":[{\"name\":\"fast\",\"count\":2,\"items_per_s\":8e6,\"launch_ns\":4000,"
        "\"memory\":\"80GiB\",\"compute\":[9,0],\"h2d_bytes_per_s\":5e8,\"d2h_bytes_per_s\":5e8,"
        "\"weight\":1.0,\"jitter\":0.05,\"faults\":[{\"kind\":\"slow\",\"at_ms\":0.1,"
        "\"for_ms\":0.5,\"factor\":0.25},{\"kind\":\"lost\",\"at_ms\":0.3}]}],"
        "\"job\":{\"items\":900,\"item_bytes_in\":100,\"cost\":{\"kind\":\"pareto\",\"alpha\":1.5},"
        "\"mode\":\"claim\",\"unit\":\"adaptive\",\"depth\":3,\"tries\":3}}",
        "{\"devices\":[{\"items_per_s\":1e6},{\"items_per_s\":3e5,\"faults\":[{\"kind\":\"hang\","
        "\"at_launch\":2,\"for_ms\":1500},{\"kind\":\"unit_error\",\"probability\":0.2}]}],"
        "\"job\":{\"items\":500,\"ordered\":false,\"window\":64,\"unit\":7,\"tries\":9,"
        "\"hints\":{\"min_free\":\"1GiB\"}}}",
        "{\"devices\":[{\"items_per_s\":1e6,\"count\":5}],\"job\":{\"items\":800,\"mode\":"
        "\"place\",\"policy\":\"earliest-finish\",\"unit\":\"quarter\",\"cost\":{\"kind\":\"ramp\"}"
        ","
        "\"item_bytes_out\":8,\"speculate\":false}}",
    };
    mutate_all(test_seed(), corpus, sizeof corpus / sizeof *corpus,
               test_repetitions(TEST_BY_SANITIZER(60000, 30000, 3000)));
}

/* Scenarios of the right form whose numbers are anything: very slow, very fast, very many bytes. */
static void odd_numbers_do_no_harm(void)
{
    static const char *const reals[] = { "1e-300", "1e-9", "0.05",  "1",    "7.5",
                                         "1e3",    "1e6",  "2.5e6", "1e12", "1e300" };
    static const char *const wholes[] = { "0",   "1",    "2",          "3",        "64",
                                          "700", "4000", "4294967295", "99999999", "1e18" };
    static const char *const faults[] = { "slow\",\"factor\":0.25,\"for_ms\":3,\"",
                                          "slow\",\"factor\":1e9,\"",
                                          "hang\",\"for_ms\":2000,\"",
                                          "hang\",\"",
                                          "lost\",\"",
                                          "unit_error\",\"probability\":0.3,\"" };
    static const char *const units[] = { "\"adaptive\"", "\"quarter\"", "1", "13", "1e9" };
    char text[1024];
    struct random random;
    random_init(&random, test_seed());
#define ANY(list) list[random_below(&random, sizeof list / sizeof *list)]
    for (unsigned round = 0; round < test_repetitions(TEST_BY_SANITIZER(1500, 750, 150)); round++) {
        int length = snprintf(
            text, sizeof text,
            "{\"devices\":[{\"items_per_s\":%s,\"launch_ns\":%s,\"jitter\":0.%u,\"faults\":["
            "{\"kind\":\"%sat_launch\":%u},{\"kind\":\"%sat_ms\":%s}]},"
            "{\"items_per_s\":%s,\"count\":%u,\"h2d_bytes_per_s\":%s,\"d2h_bytes_per_s\":%s}],"
            "\"job\":{\"items\":%u,\"item_bytes_in\":%s,\"item_bytes_out\":%s,\"unit\":%s,"
            "\"window\":%s,\"depth\":%u,\"tries\":%u,\"ordered\":%s,\"mode\":\"%s\"}}",
            ANY(reals), ANY(wholes), (unsigned)random_below(&random, 10), ANY(faults),
            1 + (unsigned)random_below(&random, 9), ANY(faults), ANY(reals), ANY(reals),
            1 + (unsigned)random_below(&random, 3), ANY(reals), ANY(reals),
            1 + (unsigned)random_below(&random, 300), ANY(wholes), ANY(wholes), ANY(units),
            ANY(wholes), 1 + (unsigned)random_below(&random, 5),
            1 + (unsigned)random_below(&random, 5), random_below(&random, 2) ? "true" : "false",
            random_below(&random, 2) ? "claim" : "place");
        LLVMFuzzerTestOneInput((const uint8_t *)text, (size_t)length);
    }
#undef ANY
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(what_is_left_out_has_its_default),
        TEST(every_key_is_read),
        TEST(every_choice_is_read),
        TEST(devices_are_counted_before_they_fit),
        TEST(what_devices_share_is_read),
        TEST(what_belongs_to_virtual_time_is_refused_in_real_time),
        TEST(flaws_are_found_where_they_are),
        TEST(no_beginning_of_a_scenario_is_one),
        TEST(every_key_refuses_what_is_not_its_kind),
        TEST(numbers_have_their_limits),
        TEST(hints_refuse_by_name),
        TEST(damaged_scenarios_do_no_harm),
        TEST(odd_numbers_do_no_harm),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
