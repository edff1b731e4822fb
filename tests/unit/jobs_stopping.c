/*
 * What nobody wants any more holds no core: a processor's kernel is asked between steps of about a
 * millisecond, and ends early. A kernel whose every item takes a while counts what it has done.
 */
#include "backend/cpu/cpu.h"
#include "jobs_support.h"

#include <sched.h>

/* Far more than is done before anybody can be told. */
#define SLOW_ITEMS UINT64_C(400000)

static _Atomic uint64_t done_items;
static _Atomic int is_at_work;

/* Some 10 us an item: all of them would take seconds. */
static muster_status slowly(uint64_t begin, uint64_t end, void *const *args)
{
    uint64_t *out = *(uint64_t *const *)args[0];
    for (uint64_t i = begin; i < end; i++) {
        uint64_t value = i;
        for (uint32_t round = 0; round < 5000; round++)
            value = value * UINT64_C(6364136223846793005) + 1442695040888963407;
        out[i] = value;
        atomic_store(&is_at_work, 1);
        atomic_fetch_add(&done_items, 1);
    }
    return MUSTER_OK;
}

/* One unit of all items, through a result buffer or straight into the array. */
static void a_cancelled_job_lets_go_of_the_cores(void)
{
    for (int is_direct = 0; is_direct < 2; is_direct++) {
        struct muster_options options = MUSTER_OPTIONS_INIT;
        options.devices = "cpu";
        options.cpu_workers = 2;
        struct muster *m = open_with(options);
        uint64_t *out = calloc(SLOW_ITEMS, sizeof *out);
        muster_status *each = calloc(SLOW_ITEMS, sizeof *each);
        CHECK(out && each);
        struct muster_arg args[] = { MUSTER_OUT(out) };
        struct muster_run_options how = { .size = sizeof how, .unit_items = SLOW_ITEMS };
        struct muster_job_desc desc = { .size = sizeof desc,
                                        .items = SLOW_ITEMS,
                                        .kernel = kernel_of(m, slowly),
                                        .args = args,
                                        .arg_count = 1,
                                        .each_status = is_direct ? NULL : each,
                                        .options = &how };
        atomic_store(&is_at_work, 0);
        atomic_store(&done_items, 0);
        struct muster_job *job = start(m, &desc);
        while (!atomic_load(&is_at_work))
            sched_yield();
        muster_job_cancel(job);
        CHECK_STATUS(MUSTER_E_CANCELLED, muster_job_wait(job, NULL, &problem));
        muster_job_destroy(job);
        MUST(muster_close(m, &problem));
        printf("    %s: %llu of %llu items were done\n", is_direct ? "direct" : "buffer",
               (unsigned long long)done_items, (unsigned long long)SLOW_ITEMS);
        CHECK(done_items < SLOW_ITEMS);
        free(out);
        free(each);
    }
}

/*
 * Each call takes 3 ms, and items nothing: cut into steps of a millisecond each item would be a call. Fewer
 * steps than the launch has at first, when nothing is known of it.
 */
#define CALLS_MAX 64

static _Atomic uint64_t calls;

static muster_status with_a_preparation(uint64_t begin, uint64_t end, void *const *args)
{
    uint64_t *out = *(uint64_t *const *)args[0];
    const struct timespec pause = { 0, 3000000 };
    if (atomic_fetch_add(&calls, 1) < CALLS_MAX)
        nanosleep(&pause, NULL);
    for (uint64_t i = begin; i < end; i++)
        out[i] = i;
    return MUSTER_OK;
}

static void what_a_call_costs_is_not_paid_for_each_item(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "cpu";
    options.cpu_workers = 1;
    struct muster *m = open_with(options);
    uint64_t *out = calloc(SLOW_ITEMS, sizeof *out);
    muster_status *each = calloc(SLOW_ITEMS, sizeof *each);
    CHECK(out && each);
    struct muster_arg args[] = { MUSTER_OUT(out) };
    struct muster_run_options how = { .size = sizeof how, .unit_items = SLOW_ITEMS };
    struct muster_job_desc desc = { .size = sizeof desc,
                                    .items = SLOW_ITEMS,
                                    .kernel = kernel_of(m, with_a_preparation),
                                    .args = args,
                                    .arg_count = 1,
                                    .each_status = each,
                                    .options = &how };
    struct muster_job *job = start(m, &desc);
    MUST(muster_job_wait(job, NULL, &problem));
    muster_job_destroy(job);
    MUST(muster_close(m, &problem));
    printf("    %llu calls\n", (unsigned long long)calls);
    CHECK(calls > 1 && calls < CALLS_MAX);
    for (uint64_t i = 0; i < SLOW_ITEMS; i++)
        CHECK_EQUAL(i, out[i]);
    free(out);
    free(each);
}

/*
 * An attempt that is late: the kernel of this unit's first launch stands still until it has been told to
 * stop. By then both devices have done others, so the unit is soon run a second time.
 */
#define UNIT UINT64_C(64)
#define UNITS UINT64_C(100)
#define LATE_BEGIN (40 * UNIT)

static struct muster_pieces *_Atomic late_pieces;
static _Atomic int late_runs;

static muster_status launch_watched(void *stream, void *kernel,
                                    const struct muster_launch_desc *launch, size_t count,
                                    struct muster_error *err)
{
    struct muster_pieces *none = NULL;
    if (launch->pieces && *(const uint64_t *)launch->args[1].value == LATE_BEGIN)
        atomic_compare_exchange_strong(&late_pieces, &none, launch->pieces);
    return backend_cpu.launch(stream, kernel, launch, count, err);
}

static muster_status late_once(uint64_t begin, uint64_t end, void *const *args)
{
    uint64_t *out = *(uint64_t *const *)args[0], first = *(const uint64_t *)args[1];
    if (first == LATE_BEGIN && begin == 0 && atomic_fetch_add(&late_runs, 1) == 0)
        while (!(__atomic_load_n(&atomic_load(&late_pieces)->state, __ATOMIC_ACQUIRE) &
                 MUSTER_PIECES_STOPPED))
            sched_yield();
    for (uint64_t i = begin; i < end; i++)
        out[i] = 3 * (first + i) + 1;
    return MUSTER_OK;
}

/*
 * The attempt writes into the caller's array, so the job is not over before it is. What tells it to stop
 * is that another attempt was first.
 */
static void an_attempt_that_has_lost_is_told_to_stop(void)
{
    struct muster_backend one = backend_cpu, two;
    one.name = "one";
    one.launch = launch_watched;
    two = one;
    two.name = "two";
    const struct muster_backend *tables[] = { &one, &two };
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.backends = tables;
    options.backend_count = 2;
    options.cpu_workers = 1;
    options.devices = "one:0,two:0";
    struct muster *m = open_with(options);
    uint64_t *out = calloc(UNITS * UNIT, sizeof *out);
    CHECK(out);
    const struct muster_arg args[] = { MUSTER_OUT(out), MUSTER_FIRST };
    const struct muster_run_options how = { .size = sizeof how, .unit_items = UNIT };
    atomic_store(&late_pieces, NULL);
    atomic_store(&late_runs, 0);
    MUST(muster_for(m, kernel_of(m, late_once), UNITS * UNIT, args, 2, &how, NULL, &problem));
    CHECK(late_runs >= 2);
    for (uint64_t i = 0; i < UNITS * UNIT; i++)
        CHECK_EQUAL(3 * i + 1, out[i]);
    MUST(muster_close(m, &problem));
    free(out);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_cancelled_job_lets_go_of_the_cores),
        TEST(what_a_call_costs_is_not_paid_for_each_item),
        TEST(an_attempt_that_has_lost_is_told_to_stop),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
