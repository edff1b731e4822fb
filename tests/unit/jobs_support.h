/*
 * What the tests of jobs have in common: a job whose every result can be told apart, a sink that
 * keeps account of what it is given, and arrays that show what was written.
 */
#ifndef UNIT_JOBS_SUPPORT_H
#define UNIT_JOBS_SUPPORT_H

#include "support.h"

#include <sched.h>

/* What an output has until it is written. */
#define UNTOUCHED UINT64_C(0xeeeeeeeeeeeeeeee)

static inline uint64_t answer(uint64_t item, uint64_t input)
{
    return input * UINT64_C(0x9e3779b97f4a7c15) + item;
}

/* Arguments: FIRST, IN uint64_t, OUT uint64_t. */
static inline muster_status compute(uint64_t begin, uint64_t end, void *const *args)
{
    uint64_t first = *(const uint64_t *)args[0];
    const uint64_t *in = *(const uint64_t *const *)args[1];
    uint64_t *out = *(uint64_t *const *)args[2];
    for (uint64_t i = begin; i < end; i++)
        out[i] = answer(first + i, in[i]);
    return MUSTER_OK;
}

/* One job's arrays, and what its sink saw. A sink cannot end a test, so it notes what is wrong. */
struct account {
    uint64_t items;
    uint64_t *in, *out;
    struct muster_arg args[3];
    _Atomic uint64_t next; /* the sink has had everything before this */
    uint64_t calls;
    uint64_t wrong;     /* results that are not as they should be, or not in order */
    _Atomic int inside; /* calls of the sink at this moment */
    /* What the sink does when it is given the item. */
    uint64_t special; /* UINT64_MAX: nothing */
    muster_status (*act)(struct account *account);
    void *user;
    struct muster_job *job; /* set by muster_start before the sink is first called */
};

static inline void account_init(struct account *account, uint64_t items)
{
    *account = (struct account){ .items = items, .special = UINT64_MAX };
    account->in = malloc((items + 1) * sizeof *account->in);
    account->out = malloc((items + 1) * sizeof *account->out);
    CHECK(account->in && account->out);
    for (uint64_t i = 0; i <= items; i++) {
        account->in[i] = i ^ 0x55;
        account->out[i] = UNTOUCHED;
    }
    const struct muster_arg args[] = { MUSTER_FIRST, MUSTER_IN(account->in),
                                       MUSTER_OUT(account->out) };
    memcpy(account->args, args, sizeof args);
}

static inline void account_deinit(struct account *account)
{
    free(account->in);
    free(account->out);
}

/* The sink: in order, each item once, right. */
static inline muster_status keep_account(void *user, const struct muster_result *result)
{
    struct account *account = user;
    const uint64_t *out = result->outputs[0];
    struct muster_range range = result->range;
    account->wrong += atomic_fetch_add(&account->inside, 1) != 0;
    account->wrong += result->output_count != 1 || range.begin != atomic_load(&account->next) ||
                      range.end <= range.begin || range.end > account->items;
    for (uint64_t i = range.begin; i < range.end; i++)
        account->wrong += out[i - range.begin] != answer(i, account->in[i]);
    account->calls++;
    bool is_special = account->special >= range.begin && account->special < range.end;
    muster_status status = is_special ? account->act(account) : MUSTER_OK;
    if (status == MUSTER_OK)
        atomic_store(&account->next, range.end);
    atomic_fetch_sub(&account->inside, 1);
    return status;
}

static inline struct muster_job_desc account_desc(struct account *account,
                                                  struct muster_kernel *kernel)
{
    return (struct muster_job_desc){ .size = sizeof(struct muster_job_desc),
                                     .kernel = kernel,
                                     .items = account->items,
                                     .args = account->args,
                                     .arg_count = COUNT_OF(account->args),
                                     .sink = keep_account,
                                     .sink_user = account };
}

static inline struct muster_job *start(struct muster *m, const struct muster_job_desc *desc)
{
    struct muster_job *job = NULL;
    MUST(muster_start(m, desc, &job, &problem));
    return job;
}

/* The array holds the first `delivered` results; nothing behind `written` was touched. */
static inline void check_prefix(const struct account *account, uint64_t delivered, uint64_t written)
{
    for (uint64_t i = 0; i < delivered; i++)
        if (account->out[i] != answer(i, account->in[i]))
            test_fail(__FILE__, __LINE__, "item %llu of %llu is wrong", (unsigned long long)i,
                      (unsigned long long)delivered);
    for (uint64_t i = written; i <= account->items; i++)
        if (account->out[i] != UNTOUCHED)
            test_fail(__FILE__, __LINE__, "item %llu was written, and %llu were delivered",
                      (unsigned long long)i, (unsigned long long)delivered);
}

/* The sink saw [0, delivered), and so did the array; behind that it may have anything. */
static inline void check_account(const struct account *account, uint64_t delivered)
{
    CHECK_EQUAL(0, account->wrong);
    CHECK_EQUAL(delivered, account->next);
    check_prefix(account, delivered, account->items);
}

/* Failed ranges follow what was delivered, in order and apart from each other. */
static inline void check_failed(const struct muster_report *report)
{
    uint64_t last = 0;
    CHECK(report->failed_count > 0);
    CHECK(report->failed[0].begin >= report->delivered);
    for (size_t i = 0; i < report->failed_count; i++) {
        CHECK(report->failed[i].begin < report->failed[i].end);
        CHECK(report->failed[i].begin > last || i == 0);
        last = report->failed[i].end;
    }
    CHECK(last <= report->items);
}

/* What a report says of any job. */
static inline void check_report(const struct muster_report *report)
{
    uint64_t items = 0, units = 0;
    for (size_t i = 0; i < report->device_count; i++) {
        items += report->devices[i].items;
        units += report->devices[i].units;
        CHECK(report->devices[i].busy_ns > 0 || report->devices[i].units == 0);
    }
    CHECK(report->device_count > 0);
    CHECK(items >= report->delivered && items <= report->items);
    CHECK(units <= report->units);
    CHECK(report->delivered <= report->items);
    CHECK((report->status == MUSTER_OK) == (report->delivered == report->items) ||
          report->status == MUSTER_E_CANCELLED || report->status == MUSTER_E_DEVICE_HUNG);
    CHECK(report->status != MUSTER_OK || items == report->items);
    CHECK(report->makespan_ns < 600 * SECOND);
    CHECK(report->startup_ns <= report->makespan_ns && report->tail_ns <= report->makespan_ns &&
          report->starved_ns <= report->makespan_ns);
}

static inline const struct muster_job_device *device_in(const struct muster_report *report,
                                                        const char *id)
{
    for (size_t i = 0; i < report->device_count; i++)
        if (strcmp(report->devices[i].id, id) == 0)
            return &report->devices[i];
    test_fail(__FILE__, __LINE__, "the report does not know %s", id);
}

static inline uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

static inline struct muster *open_sim(const char *devices, const char *sim)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.cpu_workers = 2;
    options.devices = devices;
    options.sim = sim;
    return open_with(options);
}

/* Random numbers of the test's own, from its seed. */
static inline uint64_t draw(uint64_t *state, uint64_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*state >> 33) % below;
}

#endif
