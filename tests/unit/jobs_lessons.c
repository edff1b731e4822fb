/*
 * What a job has learned of who should take part is there for the next of its kind, and for no other. The
 * controller itself is tested in unit_take_part and in virtual time; here a lesson is put in its place.
 */
#include "jobs_support.h"
#include "run/job/lessons.h"

#define ITEMS 4096u
#define FACTOR 1.75

static struct muster *open_two(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.sim = SIM_PLAIN;
    options.devices = "sim";
    return open_with(options);
}

/* What the runtime has for jobs of this kind; changes it if `lesson` is given. */
static bool look(struct muster_job *job, const struct take_part_lesson *lesson)
{
    run_lock(job->m);
    const struct take_part_lesson *kept = lessons_find_locked(job);
    if (kept && lesson)
        *(struct take_part_lesson *)(uintptr_t)kept = *lesson;
    run_unlock(job->m);
    return kept != NULL;
}

/* Runs a job; gives what its report says of the second device. Whether there is a lesson for the next. */
static struct muster_job_device run(struct muster *m, struct muster_kernel *kernel, uint64_t items,
                                    int everyone, const struct take_part_lesson *lesson,
                                    bool *is_kept)
{
    struct account account;
    struct muster_run_options how = { .size = sizeof how, .everyone = everyone };
    struct muster_job_device devices[3];
    size_t count;
    uint64_t done = 0;
    for (size_t i = 0; i < COUNT_OF(devices); i++)
        devices[i] = (struct muster_job_device){ .size = sizeof *devices };
    account_init(&account, items);
    struct muster_job_desc desc = account_desc(&account, kernel);
    desc.options = &how;
    struct muster_job *job = start(m, &desc);
    MUST(muster_job_wait(job, NULL, &problem));
    MUST(muster_job_devices(job, devices, COUNT_OF(devices), &count, &problem));
    for (size_t i = 0; i < count; i++)
        done += devices[i].items;
    CHECK_EQUAL(items, done);
    CHECK_EQUAL(0, account.wrong);
    bool has_lesson = look(job, lesson);
    if (is_kept)
        *is_kept = has_lesson;
    muster_job_destroy(job);
    account_deinit(&account);
    return devices[1];
}

static const struct take_part_lesson without_second = { .left_out = 2,
                                                        .tried = 3,
                                                        .faster_without = { 0, FACTOR } };

static void the_next_job_of_its_kind_believes_it(void)
{
    struct muster *m = open_two();
    struct muster_kernel *kernel = kernel_of(m, compute);
    struct muster_job_device second = { .items = 0 };
    bool is_kept;
    run(m, kernel, ITEMS, 0, &without_second, &is_kept);
    CHECK(is_kept);
    /* On a busy machine those who take part may not come on, and then everybody does. */
    for (int i = 0; i < 100 && (i == 0 || second.items > 0); i++)
        second = run(m, kernel, ITEMS, 0, &without_second, NULL);
    CHECK_EQUAL(0, second.items);
    CHECK(second.faster_without == FACTOR);
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

static void others_know_nothing_of_it(void)
{
    struct muster *m = open_two();
    struct muster_kernel *kernel = kernel_of(m, compute), *other = kernel_of(m, compute);
    run(m, kernel, ITEMS, 0, &without_second, NULL);
    /* Another kernel, another size, and a job that wants everyone. */
    CHECK(run(m, other, ITEMS, 0, NULL, NULL).faster_without == 0);
    CHECK(run(m, kernel, 2 * ITEMS, 0, NULL, NULL).faster_without == 0);
    bool is_kept;
    CHECK(run(m, kernel, ITEMS, 1, NULL, &is_kept).faster_without == 0);
    CHECK(!is_kept);
    muster_kernel_destroy(other);
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

static void a_policy_learns_nothing(void)
{
    struct muster *m = open_two();
    struct muster_kernel *kernel = kernel_of(m, compute);
    struct account account;
    struct muster_run_options how = { .size = sizeof how, .policy = "round-robin" };
    account_init(&account, ITEMS);
    struct muster_job_desc desc = account_desc(&account, kernel);
    desc.options = &how;
    struct muster_job *job = start(m, &desc);
    MUST(muster_job_wait(job, NULL, &problem));
    CHECK(!look(job, NULL));
    muster_job_destroy(job);
    account_deinit(&account);
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

/* A kernel that is destroyed does not leave its lesson to the next that gets its memory. */
static void a_new_kernel_begins_anew(void)
{
    struct muster *m = open_two();
    for (int i = 0; i < 4; i++) {
        struct muster_kernel *kernel = kernel_of(m, compute);
        CHECK(run(m, kernel, ITEMS, 0, &without_second, NULL).faster_without == 0);
        muster_kernel_destroy(kernel);
    }
    MUST(muster_close(m, &problem));
}

static void what_was_not_used_for_longest_is_forgotten(void)
{
    struct muster *m = open_two();
    struct muster_kernel *kernels[LESSONS_MAX + 1];
    struct muster_kernel *first = kernel_of(m, compute);
    bool is_kept;
    run(m, first, 64, 0, &without_second, &is_kept);
    CHECK(is_kept);
    for (uint32_t i = 0; i <= LESSONS_MAX; i++) {
        kernels[i] = kernel_of(m, compute);
        run(m, kernels[i], 64, 0, &without_second, &is_kept);
        CHECK(is_kept);
    }
    /* On a busy machine some may use all devices, as above. */
    uint32_t known = 0;
    for (uint32_t i = LESSONS_MAX; i > LESSONS_MAX / 2; i--)
        known += run(m, kernels[i], 64, 0, NULL, NULL).faster_without == FACTOR;
    CHECK(known > 1);
    CHECK(run(m, first, 64, 0, NULL, NULL).faster_without == 0);
    for (uint32_t i = 0; i <= LESSONS_MAX; i++)
        muster_kernel_destroy(kernels[i]);
    muster_kernel_destroy(first);
    MUST(muster_close(m, &problem));
}

/* Processors that are faster alone are laid out for alone; the device that is set aside stays in the report. */
static void processors_alone_have_a_job_for_themselves(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.sim = "[{\"items_per_s\": 1e9}]";
    options.devices = "cpu:0,sim:0";
    struct muster *m = open_with(options);
    struct muster_kernel *kernel = kernel_of(m, compute);
    const struct take_part_lesson alone = { .left_out = 2,
                                            .faster_without = { 0, FACTOR },
                                            .jobs = 1,
                                            .is_whole = true,
                                            .whole = { .left_out = 2, .tried = 2 } };
    bool is_kept;
    run(m, kernel, ITEMS, 0, &alone, &is_kept);
    CHECK(is_kept);
    for (int i = 0; i < 3; i++) {
        struct muster_job_device second = run(m, kernel, ITEMS, 0, NULL, NULL);
        CHECK_EQUAL(0, second.items);
        CHECK_TEXT("sim:0", second.id);
        CHECK(second.faster_without == FACTOR);
    }
    CHECK_EQUAL(0, run(m, kernel, ITEMS, 1, NULL, NULL).faster_without);
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

/* A job after one that has learned, by whole jobs, that some are better left out. */
static void check_layout(struct muster *m, uint64_t out, uint32_t lanes, uint32_t aside)
{
    struct muster_kernel *kernel = kernel_of(m, compute);
    const struct take_part_lesson alone = { .left_out = out,
                                            .faster_without = { FACTOR, FACTOR, FACTOR },
                                            .jobs = 1,
                                            .is_whole = true,
                                            .whole = { .left_out = out, .tried = out } };
    struct account account;
    run(m, kernel, ITEMS, 0, &alone, NULL);
    account_init(&account, ITEMS);
    struct muster_job_desc desc = account_desc(&account, kernel);
    struct muster_job *job = start(m, &desc);
    MUST(muster_job_wait(job, NULL, &problem));
    CHECK_EQUAL(lanes, job->lane_count);
    CHECK_EQUAL(aside, job->aside_count);
    CHECK_EQUAL((out & 1) != 0 && lanes > 1, job->leaves_out_more);
    muster_job_destroy(job);
    account_deinit(&account);
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

/* They stand in for a device that is lost. */
static void those_left_out_on_a_gpu_stay_lanes(void)
{
    check_layout(open_two(), 1, 2, 0);
}

/* Who is a slice of the same GPU would be lost with the other. */
static void slices_have_a_job_for_one_of_them(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.sim = "[{\"items_per_s\":1e7,\"cores\":8,\"slices\":true}]";
    options.slices = "sim:0=4,4";
    options.devices = "sim:0/0,sim:0/1";
    check_layout(open_with(options), 2, 1, 1);
    /* The processor stays, since it would stand in for the GPU, and is left out. */
    options.devices = "cpu:0,sim:0/0,sim:0/1";
    check_layout(open_with(options), 1 | 4, 2, 1);
}

/* What jobs without it are compared with is what jobs with it took. */
static void a_trial_by_whole_jobs_is_decided_by_the_third(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    /* A device that takes its time, and nothing is gained by it. */
    options.sim = "[{\"items_per_s\": 1e3}]";
    options.devices = "cpu:0,sim:0";
    struct muster *m = open_with(options);
    struct muster_kernel *kernel = kernel_of(m, compute);
    struct take_part_lesson tried = { .jobs = 1, .is_whole = true };
    tried.whole = (struct whole_jobs){ .trial = 2,
                                       .is_without = true,
                                       .has_begun = true,
                                       .was_cold = true, /* or new memory has it tried again */
                                       .times_ns = { [WHOLE_JOBS_WITH] = { 1e9 } },
                                       .times_known = { [WHOLE_JOBS_WITH] = 1 } };
    run(m, kernel, ITEMS, 0, &tried, NULL);
    CHECK_EQUAL(0, run(m, kernel, ITEMS, 0, NULL, NULL).items);
    struct muster_job_device third = run(m, kernel, ITEMS, 0, NULL, NULL);
    CHECK_EQUAL(0, third.items);
    CHECK(third.faster_without > 1);
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

/* What a job of this kernel is told of the one device it has. */
static double rate_of(struct muster *m, struct muster_kernel *kernel)
{
    struct account account;
    account_init(&account, ITEMS);
    struct muster_job_desc desc = account_desc(&account, kernel);
    struct muster_job *job = start(m, &desc);
    double told = job->core_options.known_per_ns;
    MUST(muster_job_wait(job, NULL, &problem));
    muster_job_destroy(job);
    account_deinit(&account);
    return told;
}

static void one_device_is_known_by_its_rate(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.sim = "[{\"items_per_s\": 1e7}]";
    options.devices = "sim";
    struct muster *m = open_with(options);
    struct muster_kernel *kernel = kernel_of(m, compute), *other = kernel_of(m, compute);
    CHECK(rate_of(m, kernel) == 0);
    double rate = rate_of(m, kernel);
    CHECK(rate > 0 && rate <= 1e7 / 1e9);
    CHECK(rate_of(m, other) == 0);
    muster_kernel_destroy(other);
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(the_next_job_of_its_kind_believes_it),
        TEST(others_know_nothing_of_it),
        TEST(a_policy_learns_nothing),
        TEST(a_new_kernel_begins_anew),
        TEST(what_was_not_used_for_longest_is_forgotten),
        TEST(processors_alone_have_a_job_for_themselves),
        TEST(those_left_out_on_a_gpu_stay_lanes),
        TEST(slices_have_a_job_for_one_of_them),
        TEST(a_trial_by_whole_jobs_is_decided_by_the_third),
        TEST(one_device_is_known_by_its_rate),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
