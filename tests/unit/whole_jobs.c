#include "core/whole_jobs.h"

#include "support.h"

#define ITEMS 1e6
#define MILLI 1e6

/* A machine of two or three lanes whose jobs take so long with all, or without one of them. */
struct kind {
    uint32_t lane_count;
    double shares[3];
    double all_ns, without_ns[3];
};

/* Runs a job of the kind as it is planned; 1 + the lane that is left out from then on. */
static uint32_t run(struct whole_jobs *jobs, const struct kind *kind, double *gain)
{
    struct whole_job job = { .items = ITEMS, .lane_count = kind->lane_count };
    uint64_t out = whole_jobs_left_out(jobs);
    job.job_ns = kind->all_ns;
    for (uint32_t i = 0; i < kind->lane_count; i++) {
        bool is_out = out >> i & 1;
        job.shares[i] = is_out ? 0 : kind->shares[i];
        job.job_ns = is_out ? kind->without_ns[i] : job.job_ns;
    }
    return whole_jobs_ended(jobs, &job, gain);
}

static void the_second_job_is_a_trial(void)
{
    const struct kind kind = { 2, { 0.7, 0.3 }, 10 * MILLI, { 30 * MILLI, 14 * MILLI } };
    struct whole_jobs jobs = { .trial = 0 };
    double gain;
    CHECK_EQUAL(0, whole_jobs_left_out(&jobs));
    CHECK_EQUAL(0, run(&jobs, &kind, &gain));
    /* The lane that brings less. */
    CHECK_EQUAL(2, whole_jobs_left_out(&jobs));
    CHECK_EQUAL(0, run(&jobs, &kind, &gain));
    /* It does no harm, clearly, so it takes part; the next trial is saved for. */
    for (int i = 0; i < 100; i++) {
        CHECK_EQUAL(0, whole_jobs_left_out(&jobs));
        CHECK_EQUAL(0, run(&jobs, &kind, &gain));
    }
}

static void a_lane_that_harms_is_left_out_from_the_third_job_on(void)
{
    const struct kind kind = { 2, { 0.7, 0.3 }, 13 * MILLI, { 30 * MILLI, 10 * MILLI } };
    struct whole_jobs jobs = { .trial = 0 };
    double gain = 0;
    CHECK_EQUAL(0, run(&jobs, &kind, &gain));
    CHECK_EQUAL(2, run(&jobs, &kind, &gain));
    CHECK(gain > 0.29 && gain < 0.31);
    for (int i = 0; i < 100; i++) {
        CHECK_EQUAL(2, whole_jobs_left_out(&jobs));
        CHECK_EQUAL(0, run(&jobs, &kind, &gain));
    }
}

/* A gain of 5 % needs two jobs of each side; meanwhile jobs do what seems better. */
static void a_small_gain_is_looked_at_twice(void)
{
    const struct kind kind = { 2, { 0.7, 0.3 }, 10.5 * MILLI, { 30 * MILLI, 10 * MILLI } };
    struct whole_jobs jobs = { .trial = 0 };
    double gain = 0;
    uint32_t with = 0, decided = 0, count = 0;
    for (; count < 20 && decided == 0; count++) {
        with += whole_jobs_left_out(&jobs) == 0;
        decided = run(&jobs, &kind, &gain);
    }
    CHECK_EQUAL(2, decided);
    CHECK_EQUAL(2, with);
    /* What the second look costs was saved before. */
    CHECK(count > 5);
}

static void a_job_that_was_disturbed_decides_nothing(void)
{
    const struct kind kind = { 2, { 0.7, 0.3 }, 10 * MILLI, { 30 * MILLI, 10.3 * MILLI } };
    struct kind disturbed = kind;
    struct whole_jobs jobs = { .trial = 0 };
    double gain = 0;
    disturbed.all_ns = 11 * MILLI;
    CHECK_EQUAL(0, run(&jobs, &disturbed, &gain));
    for (int i = 0; i < 40; i++)
        CHECK_EQUAL(0, run(&jobs, &kind, &gain));
    CHECK_EQUAL(0, whole_jobs_left_out(&jobs));
    CHECK(jobs.tried & 2);
}

/* One per cent of all time, after the first trial. */
static void further_trials_are_saved_for(void)
{
    const struct kind kind = {
        3, { 0.6, 0.25, 0.15 }, 10 * MILLI, { 25 * MILLI, 13.3 * MILLI, 11.8 * MILLI }
    };
    struct whole_jobs jobs = { .trial = 0 };
    double gain = 0, lost_ns = 0, first_ns = 1.8 * MILLI;
    uint64_t tried = 0;
    for (uint32_t i = 0; i < 400; i++) {
        uint64_t out = whole_jobs_left_out(&jobs);
        tried |= out;
        for (uint32_t k = 0; k < kind.lane_count; k++)
            lost_ns += out >> k & 1 ? kind.without_ns[k] - kind.all_ns : 0;
        CHECK(lost_ns <= first_ns + (i + 1) * WHOLE_JOBS_COST * kind.all_ns);
        CHECK_EQUAL(0, run(&jobs, &kind, &gain));
    }
    CHECK_EQUAL(7, tried);
}

static void what_does_not_fit_is_forgotten(void)
{
    const struct kind kind = { 2, { 0.7, 0.3 }, 10.5 * MILLI, { 30 * MILLI, 10 * MILLI } };
    struct kind slow = kind;
    struct whole_jobs jobs = { .trial = 0 };
    double gain = 0;
    slow.all_ns *= 3;
    slow.without_ns[1] *= 3;
    run(&jobs, &kind, &gain);
    run(&jobs, &kind, &gain);
    CHECK(jobs.trial > 0);
    run(&jobs, &slow, &gain);
    CHECK_EQUAL(0, jobs.trial);
    CHECK_EQUAL(0, whole_jobs_left_out(&jobs));
}

static void somebody_takes_part(void)
{
    /* Each is faster without the other. */
    const struct kind kind = { 2, { 0.6, 0.4 }, 20 * MILLI, { 10 * MILLI, 10 * MILLI } };
    struct whole_jobs jobs = { .trial = 0 };
    double gain = 0;
    for (int i = 0; i < 200; i++) {
        CHECK(whole_jobs_left_out(&jobs) != 3);
        run(&jobs, &kind, &gain);
    }
    CHECK_EQUAL(2, whole_jobs_left_out(&jobs));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(the_second_job_is_a_trial),
        TEST(a_lane_that_harms_is_left_out_from_the_third_job_on),
        TEST(a_small_gain_is_looked_at_twice),
        TEST(a_job_that_was_disturbed_decides_nothing),
        TEST(further_trials_are_saved_for),
        TEST(what_does_not_fit_is_forgotten),
        TEST(somebody_takes_part),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
