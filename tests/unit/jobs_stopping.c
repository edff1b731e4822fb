/*
 * What nobody wants any more holds no core: a processor's kernel is asked between steps of about a
 * millisecond, and ends early. A kernel whose every item takes a while counts what it has done.
 */
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

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_cancelled_job_lets_go_of_the_cores),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
