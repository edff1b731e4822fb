#include "core/whole_jobs.h"

#include "support.h"

#define ITEMS 1e6
#define MILLI 1e6

/* A machine of two or three lanes whose jobs take so long with all, without one, or on the first alone. */
struct kind {
    uint32_t lane_count;
    double shares[3];
    double all_ns, without_ns[4]; /* the last: without all but the first */
};

static double time_of(const struct kind *kind, uint64_t out)
{
    double ns = kind->all_ns;
    for (uint32_t i = 0; i < kind->lane_count; i++)
        ns = out >> i & 1 ? kind->without_ns[i] : ns;
    return out == 6 ? kind->without_ns[3] : ns;
}

/* Runs a job of the kind as it is planned; the lanes that are left out from then on. */
static uint64_t run(struct whole_jobs *jobs, const struct kind *kind, double *gain)
{
    struct whole_job job = { .items = ITEMS, .lane_count = kind->lane_count };
    uint64_t out = whole_jobs_left_out(jobs);
    job.job_ns = time_of(kind, out);
    for (uint32_t i = 0; i < kind->lane_count; i++)
        job.shares[i] = out >> i & 1 ? 0 : kind->shares[i];
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

/* In a short job a small slice may have come first; its device is tried by its largest one. */
static void the_largest_slice_is_tried_alone(void)
{
    struct whole_jobs jobs = { .trial = 0 };
    const struct whole_job job = { .items = ITEMS,
                                   .lane_count = 4,
                                   .shares = { 0.01, 0.6, 0.2, 0.19 },
                                   .heaviest = { 1, 4, 4, 4 },
                                   .job_ns = 10 * MILLI };
    double gain = 0;
    CHECK_EQUAL(0, whole_jobs_ended(&jobs, &job, &gain));
    CHECK_EQUAL(7, whole_jobs_left_out(&jobs));
}

/* Both are slower beside the other, and it is the one that does less which is faster alone. */
static void the_other_one_may_be_better_alone(void)
{
    const struct kind kind = { 2, { 0.6, 0.4 }, 10 * MILLI, { 5 * MILLI, 8 * MILLI } };
    struct whole_jobs jobs = { .trial = 0 };
    double gain = 0;
    CHECK_EQUAL(0, run(&jobs, &kind, &gain));
    CHECK_EQUAL(2, run(&jobs, &kind, &gain));
    CHECK(gain > 0.24 && gain < 0.26);
    CHECK_EQUAL(1, whole_jobs_left_out(&jobs));
    CHECK_EQUAL(1, run(&jobs, &kind, &gain));
    CHECK(gain > 0.59 && gain < 0.61);
    for (int i = 0; i < 100; i++) {
        CHECK_EQUAL(1, whole_jobs_left_out(&jobs));
        CHECK_EQUAL(0, run(&jobs, &kind, &gain));
    }
    /* One that did hardly anything is not tried. */
    const struct kind far = { 2, { 0.9, 0.1 }, 10 * MILLI, { 50 * MILLI, 8 * MILLI } };
    jobs = (struct whole_jobs){ .trial = 0 };
    CHECK_EQUAL(0, run(&jobs, &far, &gain));
    CHECK_EQUAL(2, run(&jobs, &far, &gain));
    CHECK_EQUAL(2, whole_jobs_left_out(&jobs));
}

/* The first job touches its arrays for the first time: what comes next is faster with any devices. */
static void the_first_to_touch_its_memory_is_no_measure(void)
{
    struct whole_jobs jobs = { .trial = 0 };
    struct whole_job job = { .items = ITEMS,
                             .lane_count = 2,
                             .shares = { 0.7, 0.3 },
                             .job_ns = 30 * MILLI,
                             .faults = 20000 };
    double gain = 0;
    CHECK_EQUAL(0, whole_jobs_ended(&jobs, &job, &gain));
    CHECK_EQUAL(2, whole_jobs_left_out(&jobs));
    job.faults = 10;
    job.job_ns = 12 * MILLI;
    CHECK_EQUAL(0, whole_jobs_ended(&jobs, &job, &gain));
    CHECK_EQUAL(0, whole_jobs_left_out(&jobs));
    job.job_ns = 10 * MILLI;
    CHECK_EQUAL(0, whole_jobs_ended(&jobs, &job, &gain));
    CHECK_EQUAL(0, whole_jobs_left_out(&jobs));
    CHECK_EQUAL(2, jobs.tried);
    /* Laid out for fewer devices it may be the first as well: that is one look more. */
    jobs = (struct whole_jobs){ .trial = 0 };
    job.faults = 10;
    job.job_ns = 12 * MILLI;
    CHECK_EQUAL(0, whole_jobs_ended(&jobs, &job, &gain));
    job.faults = 20000;
    job.job_ns = 30 * MILLI;
    CHECK_EQUAL(0, whole_jobs_ended(&jobs, &job, &gain));
    CHECK_EQUAL(2, whole_jobs_left_out(&jobs));
    job.faults = 10;
    job.job_ns = 10 * MILLI;
    CHECK_EQUAL(2, whole_jobs_ended(&jobs, &job, &gain));
    CHECK(gain > 0.19 && gain < 0.21);
    /* But one: where each such job has new memory that is its price. */
    jobs = (struct whole_jobs){ .trial = 0 };
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_EQUAL(0, whole_jobs_ended(&jobs, &job, &gain));
        job.faults = 20000;
        job.job_ns = 30 * MILLI;
    }
    CHECK_EQUAL(0, whole_jobs_left_out(&jobs));
    CHECK_EQUAL(2, jobs.tried);
    /* Where each job has memory of its own all are alike. */
    jobs = (struct whole_jobs){ .trial = 0 };
    job.faults = 20000;
    job.job_ns = 30 * MILLI;
    CHECK_EQUAL(0, whole_jobs_ended(&jobs, &job, &gain));
    job.job_ns = 20 * MILLI;
    CHECK_EQUAL(2, whole_jobs_ended(&jobs, &job, &gain));
}

/* None is in the way by itself, and one is faster than all. */
static void three_that_share_a_link_are_left_to_one(void)
{
    const struct kind kind = {
        3, { 0.4, 0.3, 0.3 }, 12 * MILLI, { 12 * MILLI, 12 * MILLI, 12 * MILLI, 10 * MILLI }
    };
    struct whole_jobs jobs = { .trial = 0 };
    double gain = 0;
    CHECK_EQUAL(0, run(&jobs, &kind, &gain));
    CHECK_EQUAL(6, whole_jobs_left_out(&jobs));
    CHECK_EQUAL(6, run(&jobs, &kind, &gain));
    CHECK(gain > 0.19 && gain < 0.21);
    /* Another one alone is no better. */
    CHECK_EQUAL(5, whole_jobs_left_out(&jobs));
    CHECK_EQUAL(0, run(&jobs, &kind, &gain));
    for (int i = 0; i < 100; i++) {
        CHECK_EQUAL(6, whole_jobs_left_out(&jobs));
        CHECK_EQUAL(0, run(&jobs, &kind, &gain));
    }
}

/* One per cent of all time, after the first trial. */
static void further_trials_are_saved_for(void)
{
    const struct kind kind = {
        3, { 0.6, 0.25, 0.15 }, 10 * MILLI, { 25 * MILLI, 13.3 * MILLI, 11.8 * MILLI, 16.7 * MILLI }
    };
    struct whole_jobs jobs = { .trial = 0 };
    double gain = 0, lost_ns = 0, first_ns = 6.7 * MILLI;
    uint64_t tried = 0;
    for (uint32_t i = 0; i < 400; i++) {
        uint64_t out = whole_jobs_left_out(&jobs);
        tried |= out;
        lost_ns += time_of(&kind, out) - kind.all_ns;
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
        TEST(the_largest_slice_is_tried_alone),
        TEST(the_other_one_may_be_better_alone),
        TEST(the_first_to_touch_its_memory_is_no_measure),
        TEST(three_that_share_a_link_are_left_to_one),
        TEST(further_trials_are_saved_for),
        TEST(what_does_not_fit_is_forgotten),
        TEST(somebody_takes_part),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
