/*
 * What tests of core/job.h have in common: one job, one clock, and every invariant checked after
 * every call.
 */
#ifndef TEST_JOB_SUPPORT_H
#define TEST_JOB_SUPPORT_H

#include "core/job.h"
#include "support.h"

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)

static _Alignas(64) char memory[1 << 18];
static struct job *job;
static uint64_t now_ns;

/* Units of one item, two at a time for each lane. */
static inline struct job_options plain(uint64_t items, uint32_t lanes)
{
    return (struct job_options){ .items = items,
                                 .unit = JOB_UNIT_FIXED,
                                 .unit_items = 1,
                                 .lane_count = lanes,
                                 .depth = 2,
                                 .units_max = 256,
                                 .tries = 3,
                                 .ordered = true };
}

static inline void check_sound(void)
{
    const char *broken = job_check(job);
    if (broken)
        test_fail(__FILE__, __LINE__, "%s", broken);
}

static inline void begin(struct job_options options)
{
    size_t bytes = job_bytes(&options);
    CHECK(bytes > 0 && bytes <= sizeof memory);
    now_ns = 0;
    job = job_init(memory, &options, now_ns);
    check_sound();
}

static inline bool ask(uint32_t lane, struct job_claim *claim)
{
    bool is_given = job_claim(job, lane, now_ns, claim);
    check_sound();
    return is_given;
}

static inline bool gets_nothing(uint32_t lane)
{
    struct job_claim claim;
    return !ask(lane, &claim);
}

static inline struct job_claim take(uint32_t lane)
{
    struct job_claim claim = { .unit = JOB_NONE };
    CHECK(ask(lane, &claim));
    return claim;
}

static inline bool kick(struct job_claim claim)
{
    bool is_started = job_kick(job, claim.ticket, now_ns);
    check_sound();
    return is_started;
}

static inline struct job_claim start(uint32_t lane)
{
    struct job_claim claim = take(lane);
    CHECK(kick(claim));
    return claim;
}

static inline enum job_verdict finish(struct job_claim claim, enum job_end end)
{
    enum job_verdict verdict = job_finish(job, claim.ticket, end, now_ns);
    check_sound();
    return verdict;
}

static inline void lose(uint32_t lane)
{
    job_lane_lost(job, lane, now_ns);
    check_sound();
}

static inline uint64_t look(void)
{
    uint64_t next_ns = job_look(job, now_ns);
    check_sound();
    return next_ns;
}

static inline struct job_lane_report job_lane_report_of(uint32_t lane)
{
    struct job_lane_report report;
    job_lane_report(job, lane, &report);
    return report;
}

static inline uint64_t size_of(struct job_claim claim)
{
    return claim.range.end - claim.range.begin;
}

/* Delivers what can be; gives the number of units. */
static inline unsigned deliver(void)
{
    uint32_t unit;
    struct muster_range range;
    unsigned count = 0;
    while (job_next_result(job, &unit, &range)) {
        job_delivered(job, unit);
        check_sound();
        count++;
    }
    return count;
}

/* The next result begins there; it is delivered. */
static inline void expect_result(uint64_t begins)
{
    uint32_t unit;
    struct muster_range range;
    CHECK(job_next_result(job, &unit, &range));
    CHECK_EQUAL(begins, range.begin);
    job_delivered(job, unit);
    check_sound();
}

static inline void expect_no_result(void)
{
    uint32_t unit;
    struct muster_range range;
    CHECK(!job_next_result(job, &unit, &range));
}

#endif
