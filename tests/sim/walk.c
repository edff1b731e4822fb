/*
 * Random walks through core/job.h: any call in any order, tickets that are stale, lanes that share a
 * failure domain, items that arrive in any amounts, units that may fail, sinks that do, cancels,
 * lanes that are held up. Every invariant is checked after every call, and a job that is left in peace
 * must come to its end, in a time that is bounded.
 */
#include "base/random.h"
#include "core/job.h"
#include "harness.h"

#include <stdio.h>
#include <string.h>

#define ITEMS_MAX 120
#define LANES_MAX 6
#define DEPTH_MAX 4
#define BOOK_MAX (LANES_MAX * DEPTH_MAX * 4)
#define LEAVING_MAX 4
#define UNITS_MAX (2 * LANES_MAX * DEPTH_MAX + 21)
/* In peace, a job that can be done is done by then; one that cannot may take a day for each lane. */
#define PEACE_MAX_NS UINT64_C(3600000000000)

enum phase { STALE, CLAIMED, KICKED };

struct entry {
    struct job_claim claim;
    enum phase phase;
    uint32_t lane;
    bool is_silent; /* its device never answers */
};

static _Alignas(64) char memory[1 << 17];

static struct walk {
    uint64_t seed;
    struct random random;
    struct job_options options;
    struct job *job;
    uint64_t now_ns;
    struct entry book[BOOK_MAX]; /* what lanes were given, also what is over */
    struct {
        uint32_t unit;
        struct muster_range range;
    } leaving[LEAVING_MAX];
    uint32_t leaving_count;
    uint64_t supply, end; /* of a supplied job: what has arrived, what there will be */
    bool has_ended;       /* the job was told that this is all */
    bool is_accepted[ITEMS_MAX], is_given_up[ITEMS_MAX], is_delivered[ITEMS_MAX],
        is_gone[ITEMS_MAX];
    uint64_t delivered, needed;
    bool is_lost[LANES_MAX], is_held_up[LANES_MAX], sink_failed;
    /* By the index of a unit, what was accepted under it: results are kept by that. */
    struct muster_range accepted[UNITS_MAX];
} w;

static uint64_t below(uint64_t bound)
{
    return random_below(&w.random, bound);
}

static bool one_in(uint64_t n)
{
    return below(n) == 0;
}

#define EXPECT(condition)                                                                          \
    ((condition) ? (void)0                                                                         \
                 : test_fail(__FILE__, __LINE__, "walk %llu: not true: %s",                        \
                             (unsigned long long)w.seed, #condition))

static void check_sound(void)
{
    const char *broken = job_check(w.job);
    if (broken)
        test_fail(__FILE__, __LINE__, "walk %llu: %s", (unsigned long long)w.seed, broken);
    EXPECT(w.options.window == 0 || job_window_used(w.job) <= w.options.window);
    EXPECT(job_items_delivered(w.job) == w.delivered);
    /* What is not needed any more stays so, and all of it has left. */
    uint64_t needed = job_items_needed(w.job);
    EXPECT(needed >= w.needed);
    for (; w.needed < needed; w.needed++)
        EXPECT(w.is_gone[w.needed]);
    EXPECT(needed == w.options.items || !w.is_gone[needed]);
}

static void begin_walk(uint64_t seed)
{
    memset(&w, 0, sizeof w);
    w.seed = seed;
    random_init(&w.random, seed);
    uint32_t lanes = (uint32_t)(1 + below(LANES_MAX)), depth = (uint32_t)(1 + below(DEPTH_MAX));
    w.options = (struct job_options){ .items = 1 + below(ITEMS_MAX),
                                      .unit = (enum job_unit_rule)below(3),
                                      .unit_items = 1 + below(8),
                                      .unit_max = one_in(3) ? 1 + below(10) : 0,
                                      .window = one_in(2) ? 1 + below(30) : 0,
                                      .lane_count = lanes,
                                      .depth = depth,
                                      .units_max = lanes * depth + (uint32_t)below(20),
                                      .tries = (uint32_t)(1 + below(4)),
                                      .ordered = one_in(2),
                                      .speculate = one_in(2),
                                      .tolerant = one_in(2),
                                      .supplied = one_in(2),
                                      .place = one_in(3),
                                      .policy = (enum job_policy)below(5),
                                      .timeout_ns = one_in(2) ? 1 + below(100000) : 0 };
    /* By the seed itself, so that what is drawn stays what it was. */
    w.options.grain = seed % 3 == 0 ? 2 + seed / 3 % 5 : seed % 3 - 1;
    w.options.unit_items *= w.options.grain > 1 ? w.options.grain : 1;
    w.options.unit_max *= w.options.grain > 1 ? w.options.grain : 1;
    w.options.window *= w.options.grain > 1 ? w.options.grain : 1;
    if (seed % 4 > 1 && !w.options.tolerant) {
        w.options.output = seed % 4 == 2 ? JOB_OUTPUT_DIRECT : JOB_OUTPUT_CUTS;
        w.options.units_max += lanes * depth + 1;
    }
    EXPECT(job_bytes(&w.options) > 0 && job_bytes(&w.options) <= sizeof memory);
    w.job = job_init(memory, &w.options, 0);
    for (uint32_t i = 0; i < lanes && w.options.output != JOB_OUTPUT_SLOTS; i++)
        if ((seed / 8 + i) % 3 > 0)
            job_lane_set_direct(w.job, i);
    w.end = w.options.supplied && one_in(2) ? below(w.options.items + 1) : w.options.items;
    w.supply = w.options.supplied ? 0 : w.options.items;
    for (uint32_t i = 0; i < lanes; i++)
        job_lane_describe(w.job, i, (uint32_t)below(lanes), (double)below(3));
    check_sound();
}

/* The calls. */

/* Whether a direct attempt that may still write is at some of these items. */
static bool is_being_written(struct muster_range range)
{
    for (uint32_t i = 0; i < BOOK_MAX; i++) {
        const struct entry *e = &w.book[i];
        if (e->phase == KICKED && e->claim.is_direct && job_is_out(w.job, e->claim.ticket) &&
            e->claim.range.begin < range.end && range.begin < e->claim.range.end)
            return true;
    }
    return false;
}

static void claim(uint32_t lane)
{
    struct job_claim got;
    if (!job_claim(w.job, lane, w.now_ns, &got))
        return;
    EXPECT(!w.is_lost[lane]);
    EXPECT(job_is_out(w.job, got.ticket));
    struct entry *entry = NULL;
    uint32_t held = 0, free_seen = 0;
    for (uint32_t i = 0; i < BOOK_MAX; i++) {
        struct entry *e = &w.book[i];
        held += e->phase != STALE && e->lane == lane && job_is_out(w.job, e->claim.ticket);
        /* One that is over is forgotten at random, so that old tickets of every age are tried. */
        if (e->phase == STALE && below(++free_seen) == 0)
            entry = e;
    }
    EXPECT(held < w.options.depth);
    EXPECT(entry != NULL);
    EXPECT(got.range.end <= w.supply && got.range.begin >= w.needed);
    for (uint64_t i = got.range.begin; i < got.range.end; i++)
        EXPECT(!w.is_accepted[i] && !w.is_given_up[i]);
    EXPECT(!got.is_direct || !is_being_written(got.range));
    EXPECT(w.options.output != JOB_OUTPUT_CUTS || !is_being_written(got.range));
    *entry = (struct entry){ got, CLAIMED, lane, false };
}

static void kick(struct entry *entry)
{
    bool was_out = job_is_out(w.job, entry->claim.ticket);
    bool is_started = job_kick(w.job, entry->claim.ticket, w.now_ns);
    if (entry->phase == STALE)
        EXPECT(!is_started && !was_out);
    else if (job_state(w.job) != JOB_RUNNING)
        EXPECT(!is_started);
    else
        EXPECT(is_started == was_out);
    if (entry->phase == CLAIMED)
        entry->phase = is_started ? KICKED : STALE;
}

/* How far an attempt got that did not end well. */
static uint64_t draw_done(const struct entry *entry)
{
    uint64_t items = entry->claim.range.end - entry->claim.range.begin, done = below(items + 1);
    if (w.options.output != JOB_OUTPUT_CUTS || !entry->claim.is_direct)
        return 0;
    if (one_in(30))
        return JOB_DONE_UNKNOWN;
    return w.options.grain > 1 && done < items ? done - done % w.options.grain : done;
}

/* What an attempt has done in place is the unit's result, and the rest another's. */
static struct muster_range done_part(const struct entry *entry, uint64_t done)
{
    struct muster_range range = entry->claim.range;
    if (done <= range.end - range.begin)
        range.end = range.begin + done;
    return range;
}

static void finish(struct entry *entry, enum job_end end)
{
    bool cuts = w.options.output == JOB_OUTPUT_CUTS && entry->claim.is_direct;
    uint64_t items = entry->claim.range.end - entry->claim.range.begin,
             done = end == JOB_END_OK || !cuts ? 0 : draw_done(entry);
    bool was_out = job_is_out(w.job, entry->claim.ticket);
    bool was_running = job_state(w.job) == JOB_RUNNING;
    bool is_last_try = job_is_last_try(w.job, entry->claim.ticket);
    enum job_verdict verdict = job_finish_at(w.job, entry->claim.ticket, end, done, w.now_ns);
    EXPECT(was_out || verdict == JOB_LATE);
    EXPECT(entry->phase != STALE || !was_out);
    if (end == JOB_END_DEVICE && was_out)
        w.is_lost[entry->lane] = true;
    bool is_all = end == JOB_END_OK || (cuts && done == items);
    EXPECT(verdict != JOB_ACCEPTED || (is_all && entry->phase == KICKED));
    EXPECT(verdict != JOB_REFUSED || (job_state(w.job) != JOB_RUNNING && !w.options.tolerant));
    EXPECT(verdict != JOB_GIVEN_UP || (end != JOB_END_OK && w.options.tolerant));
    EXPECT(end != JOB_END_DROPPED || verdict == JOB_LATE);
    if (is_last_try && end == JOB_END_UNIT && !is_all && was_running)
        EXPECT(verdict == (w.options.tolerant ? JOB_GIVEN_UP : JOB_REFUSED));
    struct muster_range range = entry->claim.range;
    bool is_cut =
        cuts && done > 0 && done < items && (verdict == JOB_AGAIN || verdict == JOB_REFUSED);
    if (is_cut) {
        range = done_part(entry, done);
        verdict = JOB_ACCEPTED;
    }
    if (verdict == JOB_ACCEPTED)
        w.accepted[entry->claim.unit] = range;
    for (uint64_t i = range.begin; i < range.end; i++) {
        if (verdict != JOB_ACCEPTED && verdict != JOB_GIVEN_UP)
            break;
        EXPECT(!w.is_accepted[i] && !w.is_given_up[i]);
        w.is_accepted[i] = verdict == JOB_ACCEPTED;
        w.is_given_up[i] = verdict == JOB_GIVEN_UP;
    }
    /* After a loss the device may still hand in what it had: that is the slot coming back. */
    if (end != JOB_END_DEVICE)
        entry->phase = STALE;
}

static void take_result(void)
{
    uint32_t unit;
    struct muster_range range;
    if (w.leaving_count == LEAVING_MAX || !job_next_result(w.job, &unit, &range))
        return;
    EXPECT(!w.sink_failed && job_state(w.job) != JOB_CANCELLED);
    /* Of a unit that took its devices with it nobody hears but here. */
    bool has_failed = job_has_failed(w.job, unit);
    EXPECT(!has_failed || w.options.tolerant);
    EXPECT(has_failed ||
           (w.accepted[unit].begin == range.begin && w.accepted[unit].end == range.end));
    EXPECT(!is_being_written(range));
    for (uint64_t i = range.begin; i < range.end; i++) {
        EXPECT(w.is_accepted[i] != has_failed && !w.is_delivered[i]);
        EXPECT(has_failed || !w.is_given_up[i]);
        w.is_delivered[i] = true;
    }
    if (w.options.ordered)
        EXPECT(range.begin == w.delivered && w.leaving_count == 0);
    w.leaving[w.leaving_count].unit = unit;
    w.leaving[w.leaving_count++].range = range;
}

static void deliver(bool succeeds)
{
    if (w.leaving_count == 0)
        return;
    uint32_t which = (uint32_t)below(w.leaving_count);
    if (succeeds) {
        w.delivered += w.leaving[which].range.end - w.leaving[which].range.begin;
        for (uint64_t i = w.leaving[which].range.begin; i < w.leaving[which].range.end; i++)
            w.is_gone[i] = true;
        job_delivered(w.job, w.leaving[which].unit);
    } else {
        job_sink_failed(w.job, w.leaving[which].unit);
        w.sink_failed = true;
    }
    w.leaving[which] = w.leaving[--w.leaving_count];
}

static void look(void)
{
    uint64_t next_ns = job_look(w.job, w.now_ns);
    EXPECT(next_ns > w.now_ns && next_ns == job_look_due(w.job));
}

/* Some items arrive, in the end all; when that is so, the job is told unless it knows. */
static void supply(uint64_t most)
{
    if (!w.options.supplied)
        return;
    uint64_t left = w.end - w.supply;
    if (left > 0) {
        w.supply += left < most ? left : most;
        job_supply(w.job, w.supply);
    } else if (!w.has_ended && w.end < w.options.items) {
        w.has_ended = job_state(w.job) == JOB_RUNNING;
        job_supply_ends(w.job);
        EXPECT(!w.has_ended || job_items(w.job) == w.end);
    }
}

static void hold_up(uint32_t lane, bool is_held_up)
{
    if (w.is_held_up[lane] == is_held_up)
        return;
    w.is_held_up[lane] = is_held_up;
    job_lane_held_up(w.job, lane, is_held_up, w.now_ns);
}

/* A lane that looks for what is wrong with a unit runs parts of it, as long as it may. */
static void restart(struct entry *entry)
{
    bool cuts = w.options.output == JOB_OUTPUT_CUTS && entry->claim.is_direct;
    if (cuts && entry->phase == KICKED && !entry->is_silent && job_state(w.job) == JOB_RUNNING &&
        job_should_stop(w.job, entry->claim.ticket)) {
        finish(entry, JOB_END_STOPPED);
        return;
    }
    bool may_go_on = job_restart(w.job, entry->claim.ticket, w.now_ns);
    EXPECT(!may_go_on || (entry->phase == KICKED && job_state(w.job) == JOB_RUNNING));
    if (!may_go_on && entry->phase == KICKED && !entry->is_silent)
        finish(entry, JOB_END_DROPPED);
}

/* One call at random; `rough` is how often things go wrong, 0 for never. */
static void step(uint64_t rough)
{
    struct entry *entry = &w.book[below(BOOK_MAX)];
    enum job_end end = JOB_END_OK;
    switch (below(10)) {
    case 8:
        supply(1 + below(8));
        break;
    case 9:
        if (entry->phase != CLAIMED)
            restart(entry);
        break;
    case 0:
    case 1:
        claim((uint32_t)below(w.options.lane_count));
        break;
    case 2:
        if (entry->phase != KICKED)
            kick(entry);
        break;
    case 3:
        if (entry->is_silent || entry->phase == CLAIMED)
            break;
        if (rough > 0 && one_in(rough))
            end = one_in(12) ? JOB_END_USER : one_in(6) ? JOB_END_DEVICE : JOB_END_UNIT;
        if (rough > 0 && entry->phase == KICKED && one_in(4 * rough))
            entry->is_silent = true;
        else
            finish(entry, end);
        break;
    case 4:
        take_result();
        break;
    case 5:
        deliver(!(rough > 0 && one_in(60 * rough)));
        break;
    case 6:
        w.now_ns += below(one_in(10) ? UINT64_C(3000000000) : 2000);
        if (w.now_ns >= job_look_due(w.job) || one_in(4))
            look();
        break;
    default:
        if (rough > 0 && one_in(100 * rough))
            job_cancel(w.job);
        if (one_in(10))
            hold_up((uint32_t)below(w.options.lane_count), one_in(2));
        /* What is to arrive may turn out not to. */
        if (rough > 0 && w.supply < job_items(w.job) && one_in(200 * rough))
            job_fail(w.job);
        if (rough > 0 && one_in(30 * rough)) {
            uint32_t lane = (uint32_t)below(w.options.lane_count);
            job_lane_lost(w.job, lane, w.now_ns);
            w.is_lost[lane] = true;
        }
    }
    check_sound();
}

/* Everybody does what there is to do, and nothing goes wrong any more but what already has. */
static void calm_round(void)
{
    supply(1 + below(30));
    for (uint32_t lane = 0; lane < w.options.lane_count; lane++)
        claim(lane);
    check_sound();
    for (uint32_t i = 0; i < BOOK_MAX; i++)
        if (w.book[i].phase == CLAIMED)
            kick(&w.book[i]);
    check_sound();
    w.now_ns += 1000;
    for (uint32_t i = 0; i < BOOK_MAX; i++)
        if (w.book[i].phase == KICKED && !w.book[i].is_silent)
            finish(&w.book[i], JOB_END_OK);
    check_sound();
    take_result();
    while (w.leaving_count > 0)
        deliver(true);
    check_sound();
    if (w.now_ns < job_look_due(w.job) && job_look_due(w.job) != UINT64_MAX && one_in(2))
        w.now_ns = job_look_due(w.job);
    if (w.now_ns >= job_look_due(w.job))
        look();
    check_sound();
}

static void check_end(void)
{
    struct muster_range failed[JOB_FAILED_MAX];
    size_t count = job_failed_ranges(w.job, failed, JOB_FAILED_MAX);
    EXPECT(job_is_quiet(w.job));
    switch (job_state(w.job)) {
    case JOB_RUNNING:
        EXPECT(!"the job stands still");
        break;
    case JOB_DONE:
        EXPECT(job_items(w.job) == w.end && w.delivered == w.end);
        for (uint64_t i = 0; i < w.end; i++)
            EXPECT(w.is_delivered[i]);
        EXPECT(count == 0);
        break;
    case JOB_FAILED:
        EXPECT(count > 0);
        for (size_t i = 0; i < count; i++) {
            EXPECT(failed[i].begin < failed[i].end && failed[i].end <= w.options.items);
            EXPECT(i == 0 || failed[i].begin > failed[i - 1].end);
        }
        EXPECT(!w.options.ordered || w.delivered <= failed[0].begin);
        break;
    case JOB_CANCELLED:
        EXPECT(count == 0);
    }
}

static void walk(uint64_t seed)
{
    static const uint64_t roughness[] = { 0, 2, 8, 30 };
    begin_walk(seed);
    uint64_t rough = roughness[below(4)];
    for (uint64_t i = below(2000); i > 0; i--)
        step(rough);
    for (uint32_t lane = 0; lane < w.options.lane_count; lane++)
        hold_up(lane, false);
    uint64_t peace_ns = w.now_ns;
    /* Each round runs at least one unit or lets time pass for something that hangs. */
    for (unsigned i = 0; i < 40 * ITEMS_MAX; i++) {
        if (job_state(w.job) != JOB_RUNNING && job_is_quiet(w.job))
            break;
        calm_round();
    }
    check_end();
    EXPECT(w.now_ns - peace_ns <=
           (job_state(w.job) == JOB_DONE ? PEACE_MAX_NS : 25 * LANES_MAX * PEACE_MAX_NS));
}

static void any_calls_in_any_order_keep_every_law(void)
{
    for (uint64_t i = 0; i < test_repetitions(WALKS); i++)
        walk(test_seed() * 1000000 + i);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(any_calls_in_any_order_keep_every_law) };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
