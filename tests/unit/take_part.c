#include "core/take_part.h"

#include "base/random.h"
#include "support.h"

#define LANES 4
#define MILLI 1000000.0
#define S (1000 * MILLI)

/*
 * A machine: each lane does one unit after the other, of a time that the test sets or the controller
 * asks for. A lane's rate depends on who is at work, and on the time.
 */
struct machine {
    struct take_part part;
    struct take_part_lane lanes[LANES];
    uint32_t count;
    double rates[LANES]; /* items per nanosecond, alone */
    double hurts[LANES]; /* the rates of all others are divided by this while it works */
    double heals_ns;     /* from then on it does not; 0: never */
    double crowd; /* all share one link: what two or more do together, of what one does; 0: none */
    double drift; /* rates grow by this factor over the job, or shrink if below 1 */
    double unevenness; /* a unit takes up to this many times as long as the shortest; 0: as long */
    double unit_ns;    /* without the controller */
    bool are_fixed;    /* units are as long as that whatever the controller says */
    double left, items, at_ns;
    double next_ns[LANES]; /* when the unit is over; 0: it has none */
    double unit[LANES];    /* its items */
    double away_ns[LANES]; /* how long it was not at work */
    struct random random;
};

static struct machine machine_of(uint32_t count, const double *rates, double items, uint64_t seed)
{
    struct machine m = { .count = count, .items = items, .left = items, .unit_ns = 5 * MILLI };
    for (uint32_t i = 0; i < count; i++) {
        m.rates[i] = rates[i];
        m.hurts[i] = 1;
    }
    m.drift = 1;
    random_init(&m.random, seed);
    return m;
}

static bool is_at_work(const struct machine *m, uint32_t lane)
{
    return m->next_ns[lane] > 0;
}

static double rate_of(const struct machine *m, uint32_t lane)
{
    double rate = m->rates[lane], done = 1 - m->left / m->items;
    for (uint32_t i = 0; i < m->count; i++)
        if (i != lane && is_at_work(m, i) && (m->heals_ns <= 0 || m->at_ns < m->heals_ns))
            rate /= m->hurts[i];
    uint32_t others = 0;
    for (uint32_t i = 0; i < m->count; i++)
        others += i != lane && is_at_work(m, i);
    if (m->crowd > 0 && others > 0)
        rate *= m->crowd / (others + 1);
    return rate * (1 + (m->drift - 1) * done);
}

static void give(struct machine *m, uint32_t lane)
{
    struct take_part_size size = take_part_size(&m->part);
    double ns = m->unit_ns;
    if (is_at_work(m, lane) || m->left <= 0 || !take_part_is_in(&m->part, lane) ||
        m->lanes[lane].is_gone)
        return;
    if (!m->are_fixed && size.most_ns > 0 && size.most_ns < ns)
        ns = size.most_ns;
    double rate = rate_of(m, lane), items = ns * rate < m->left ? ns * rate : m->left;
    if (items < 1)
        items = 1;
    if (m->unevenness > 0)
        ns *= 1 + (m->unevenness - 1) * random_unit(&m->random) * random_unit(&m->random);
    m->unit[lane] = items;
    m->left -= items;
    m->next_ns[lane] = m->at_ns + ns;
    take_part_begun(&m->part, lane, (uint64_t)items);
}

/* The next unit ends. False when all are done. */
static bool step(struct machine *m)
{
    uint32_t first = m->count;
    for (uint32_t i = 0; i < m->count; i++)
        give(m, i);
    for (uint32_t i = 0; i < m->count; i++)
        if (is_at_work(m, i) && (first == m->count || m->next_ns[i] < m->next_ns[first]))
            first = i;
    if (first == m->count)
        return false;
    double passed_ns = m->next_ns[first] - m->at_ns;
    for (uint32_t i = 0; i < m->count; i++)
        m->away_ns[i] += is_at_work(m, i) ? 0 : passed_ns;
    m->at_ns = m->next_ns[first];
    m->next_ns[first] = 0;
    take_part_finished(&m->part, first, (uint64_t)m->unit[first], (uint64_t)m->left,
                       (uint64_t)m->at_ns);
    take_part_ended(&m->part, first, (uint64_t)m->unit[first]);
    return true;
}

static void begin(struct machine *m, const struct take_part_lesson *lesson)
{
    take_part_init(&m->part, m->lanes, m->count, 1, lesson, (uint64_t)m->at_ns);
}

static void run(struct machine *m, const struct take_part_lesson *lesson)
{
    begin(m, lesson);
    while (step(m)) {
        bool is_any = false;
        for (uint32_t i = 0; i < m->count; i++)
            is_any = is_any || take_part_is_in(&m->part, i);
        CHECK(is_any);
    }
}

static uint32_t left_out(const struct machine *m)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < m->count; i++)
        mask |= (uint32_t)(take_part_faster_without(&m->part, i) > 0) << i;
    return mask;
}

static void a_lane_that_costs_more_than_it_brings_is_left_out(void)
{
    const double rates[] = { 1, 0.1 };
    struct machine m = machine_of(2, rates, 2 * S, test_seed());
    m.hurts[1] = 2;
    run(&m, NULL);
    CHECK_EQUAL(2, left_out(&m));
    /* 1 instead of 0.5 + 0.1. */
    double factor = take_part_faster_without(&m.part, 1);
    CHECK(factor > 1.5 && factor < 1.85);
    CHECK(m.at_ns < 1.02 * 2 * S);
}

/* It is the whole job that counts: the culprit may be the one that does more. */
static void the_one_that_does_more_may_be_left_out_too(void)
{
    const double rates[] = { 1, 0.3 };
    struct machine m = machine_of(2, rates, 2 * S, test_seed());
    m.hurts[1] = 5;
    run(&m, NULL);
    CHECK_EQUAL(2, left_out(&m));
}

/* The job is a little faster without the one, and much faster without the other. */
static void the_one_that_costs_most_is_left_out(void)
{
    const double rates[] = { 1, 0.9 };
    struct machine m = machine_of(2, rates, 20 * S, test_seed());
    m.hurts[0] = 2.2;
    m.hurts[1] = 2.6;
    run(&m, NULL);
    /* 1 / 2.6 + 0.9 / 2.2 = 0.79; 0.9 without the first, 1 without the second. */
    CHECK_EQUAL(2, left_out(&m));
}

static void all_but_the_good_ones_are_left_out(void)
{
    const double rates[] = { 0.2, 1, 0.1, 0.9 };
    struct machine m = machine_of(4, rates, 20 * S, test_seed());
    m.hurts[0] = 1.6;
    m.hurts[2] = 1.5;
    run(&m, NULL);
    CHECK_EQUAL(1 | 4, left_out(&m));
}

/* Slices of a GPU, of which one fills the link: without one of them the job is as fast as before. */
static void those_that_crowd_a_link_are_left_out_together(void)
{
    const double rates[] = { 1, 1, 1 };
    struct machine m = machine_of(3, rates, 20 * S, test_seed());
    m.crowd = 0.8;
    run(&m, NULL);
    uint32_t out = left_out(&m);
    CHECK(out == 3 || out == 5 || out == 6);
    CHECK(m.at_ns < 1.03 * 20 * S);
    /* The next one knows, and one that is not slowed down leaves all in. */
    struct take_part_lesson lesson;
    take_part_learn(&m.part, &lesson, true, 0, (uint64_t)m.at_ns);
    CHECK_EQUAL(out, lesson.left_out);
    m = machine_of(3, rates, 20 * S, test_seed());
    m.crowd = 1.0;
    run(&m, NULL);
    CHECK_EQUAL(0, left_out(&m));
    CHECK(m.at_ns < 1.01 * 20 * S);
}

static void lanes_that_share_nothing_all_take_part(void)
{
    const double rates[] = { 1, 2, 4, 8 };
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct machine m = machine_of(4, rates, 20 * S, test_seed() + seed);
        m.unevenness = 1.2;
        run(&m, NULL);
        CHECK_EQUAL(0, left_out(&m));
        /* What the lanes would have done while they were kept away. */
        double lost = 0;
        for (uint32_t i = 0; i < 4; i++)
            lost += rates[i] * m.away_ns[i];
        CHECK(lost < 0.01 * m.items);
    }
}

/* A lane that takes as much from others as it brings takes part. */
static void what_is_within_the_noise_takes_part(void)
{
    const double rates[] = { 1, 0.1 };
    uint32_t wrong = 0;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct machine m = machine_of(2, rates, 5 * S, test_seed() + seed);
        m.hurts[1] = 1.1;
        m.unevenness = 1.5;
        run(&m, NULL);
        wrong += left_out(&m) != 0;
    }
    CHECK(wrong <= 3);
}

/* Units of one lane take up to 100 times as long as others of the same size. */
static void uneven_items_fool_nobody(void)
{
    const double rates[] = { 1, 0.3, 0.1 };
    uint32_t wrong = 0;
    for (uint64_t seed = 0; seed < 100; seed++) {
        struct machine m = machine_of(3, rates, 20 * S, test_seed() + seed);
        m.unevenness = 100;
        run(&m, NULL);
        wrong += left_out(&m) != 0;
    }
    CHECK(wrong <= 3);
}

static void what_costs_much_is_found_among_uneven_items(void)
{
    const double rates[] = { 1, 0.1 };
    uint32_t right = 0;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct machine m = machine_of(2, rates, 20 * S, test_seed() + seed);
        m.hurts[1] = 4;
        m.unevenness = 10;
        run(&m, NULL);
        right += left_out(&m) == 2;
    }
    CHECK(right >= 40);
}

/* Later items may be cheaper, or dearer: that is nobody's merit. */
static void a_drift_is_no_gain(void)
{
    const double rates[] = { 1, 0.5, 0.05 };
    static const double drifts[] = { 0.2, 0.7, 1.5, 4, 20 };
    for (size_t i = 0; i < COUNT_OF(drifts); i++) {
        struct machine m = machine_of(3, rates, 20 * S, test_seed());
        m.drift = drifts[i];
        run(&m, NULL);
        CHECK_EQUAL(0, left_out(&m));
    }
}

/* Units of 5 ms whatever is asked for, for so long; whether there was a trial. */
static bool has_trial(const double *rates, double ns)
{
    struct machine m = machine_of(2, rates, (rates[0] + rates[1]) * ns, test_seed());
    bool has_any = false;
    m.are_fixed = true;
    begin(&m, NULL);
    while (step(&m))
        has_any = has_any || m.part.phase == TAKE_PART_MEASURING;
    return has_any;
}

static void a_short_job_has_no_trial(void)
{
    const double small[] = { 1, 0.01 }, equal[] = { 1, 1 };
    /* That one lane is away costs next to nothing; but the trial would take a third of the job. */
    CHECK(!has_trial(small, 150 * MILLI));
    CHECK(has_trial(small, 3000 * MILLI));
    /* The trial would take a twentieth, and cost half of what is done meanwhile. */
    CHECK(!has_trial(equal, 1200 * MILLI));
    CHECK(has_trial(equal, 12000 * MILLI));
}

/* A lane that takes all cores, and does a thousandth: there is neither time for a trial nor need of one. */
static void what_brings_next_to_nothing_is_left_out_without_a_trial(void)
{
    const double rates[] = { 1, 0.001 };
    struct machine m = machine_of(2, rates, 300 * MILLI, test_seed());
    struct take_part_lesson lesson;
    m.are_fixed = true;
    m.hurts[1] = 1.3;
    run(&m, NULL);
    CHECK_EQUAL(2, left_out(&m));
    CHECK(m.at_ns < 1.03 * 300 * MILLI);
    /* The next one knows. It was no trial: that jobs of this kind may be trials is not used up. */
    take_part_learn(&m.part, &lesson, true, 0, (uint64_t)m.at_ns);
    CHECK(lesson.left_out == 2 && lesson.slight == 2 && lesson.is_whole);
    CHECK(!lesson.whole.has_begun && lesson.whole.left_out == 2);
    m = machine_of(2, rates, 300 * MILLI, test_seed());
    begin(&m, &lesson);
    CHECK(!take_part_is_in(&m.part, 1) && left_out(&m) == 2);
    while (step(&m))
        ;
    take_part_learn(&m.part, &lesson, true, 0, (uint64_t)m.at_ns);
    CHECK(lesson.left_out == 2 && lesson.slight == 2);
}

/* There was time to find out that one lane harms, and none to try the best alone: the next jobs do. */
static void the_best_alone_is_tried_after_a_trial_of_another(void)
{
    const double rates[] = { 0.05, 1, 1, 1 };
    struct take_part_lesson lesson = { .jobs = 0 };
    for (uint32_t job = 0; job < 5; job++) {
        struct machine m = machine_of(4, rates, 70 * MILLI, test_seed());
        m.are_fixed = true;
        m.unit_ns = 0.3 * MILLI;
        m.hurts[0] = 2;
        m.crowd = 0.8;
        run(&m, &lesson);
        take_part_learn(&m.part, &lesson, true, 0, (uint64_t)m.at_ns);
        if (job == 0)
            CHECK(lesson.left_out == 1 && lesson.is_whole && !lesson.whole.has_begun);
    }
    CHECK(lesson.left_out == 7 || lesson.left_out == 11 || lesson.left_out == 13);
}

static void finish_unit(struct machine *m, uint32_t lane, uint64_t items, uint64_t now_ns)
{
    m->left -= (double)items;
    take_part_begun(&m->part, lane, items);
    take_part_finished(&m->part, lane, items, (uint64_t)m->left, now_ns);
    take_part_ended(&m->part, lane, items);
}

/*
 * Short units cost a lane with many cores more than what is learned by them: as long as others are awaited it
 * has units of a millisecond, and in a short job of a tenth of that while it is measured.
 */
static void a_lane_that_is_alone_does_what_it_can(void)
{
    const double rates[] = { 1, 1 };
    struct machine m = machine_of(2, rates, 30 * MILLI, test_seed());
    begin(&m, NULL);
    take_part_gone(&m.part, 1, true, false);
    for (uint32_t i = 0; i < 10; i++) {
        finish_unit(&m, 0, 1000000, (i + 1) * 1000000);
        struct take_part_size size = take_part_size(&m.part);
        CHECK(size.most_ns >= MILLI && size.overhead_max <= 0);
    }
    take_part_gone(&m.part, 1, false, false);
    struct take_part_size size = take_part_size(&m.part);
    CHECK(size.most_ns >= 0.1 * MILLI && size.most_ns < MILLI && size.overhead_max > 0);
    /* A long one has longer units. */
    m = machine_of(2, rates, 1e5 * MILLI, test_seed());
    begin(&m, NULL);
    take_part_gone(&m.part, 1, true, false);
    for (uint32_t i = 0; i < 10; i++)
        finish_unit(&m, 0, 1000000, (i + 1) * 1000000);
    CHECK(take_part_size(&m.part).most_ns > 50 * MILLI);
}

/* Each brings next to nothing, and all of them together more than that. */
static void many_that_bring_little_are_not_left_out(void)
{
    const double rates[] = { 1, 0.003, 0.003, 0.003 };
    struct machine m = machine_of(4, rates, 2 * S, test_seed());
    run(&m, NULL);
    uint32_t out = left_out(&m);
    CHECK(out == 2 || out == 4 || out == 8);
}

/* The first unit waits for something that does not come again: it says nothing of those after it. */
static void a_lane_that_begins_late_is_let_in(void)
{
    const double rates[] = { 1, 1 };
    const uint64_t unit = 1000000;
    for (int is_slow = 0; is_slow < 2; is_slow++) {
        struct machine m = machine_of(2, rates, 400 * MILLI, test_seed());
        uint64_t at_ns = 0, ns = unit * (is_slow ? 30 : 1);
        begin(&m, NULL);
        take_part_begun(&m.part, 1, 1000);
        for (; at_ns < 40 * unit; at_ns += unit) {
            /* Not before the time that a first unit may take. */
            CHECK(at_ns >= 20 * unit || take_part_is_in(&m.part, 1));
            finish_unit(&m, 0, unit, at_ns + unit);
        }
        CHECK(!take_part_is_in(&m.part, 1));
        take_part_finished(&m.part, 1, 1000, (uint64_t)m.left, at_ns);
        take_part_ended(&m.part, 1, 1000);
        CHECK(take_part_is_in(&m.part, 1) && left_out(&m) == 0);
        for (uint64_t next_ns = at_ns; at_ns < 200 * unit; at_ns += unit) {
            finish_unit(&m, 0, unit, at_ns + unit);
            if (at_ns < next_ns || !take_part_is_in(&m.part, 1))
                continue;
            finish_unit(&m, 1, is_slow ? 1000 : unit, at_ns + unit);
            next_ns += ns;
        }
        CHECK_EQUAL(is_slow ? 2 : 0, left_out(&m));
    }
}

/* But jobs that come again and again are worth one. */
static void short_jobs_learn_together(void)
{
    const double rates[] = { 1, 0.1 };
    struct take_part_lesson lesson = { .jobs = 0 };
    uint32_t jobs = 0;
    for (; jobs < 40 && lesson.left_out == 0; jobs++) {
        struct machine m = machine_of(2, rates, 40 * 5 * MILLI, test_seed());
        m.are_fixed = true;
        m.hurts[1] = 2;
        run(&m, &lesson);
        take_part_learn(&m.part, &lesson, true, 0, (uint64_t)m.at_ns);
    }
    CHECK(jobs > 1 && jobs < 40);
    CHECK_EQUAL(2, lesson.left_out);
}

static void what_was_learned_is_believed(void)
{
    const double rates[] = { 1, 0.1 };
    struct take_part_lesson lesson = { .jobs = 0 };
    struct machine first = machine_of(2, rates, 2 * S, test_seed());
    first.hurts[1] = 2;
    run(&first, NULL);
    take_part_learn(&first.part, &lesson, true, 0, (uint64_t)first.at_ns);
    CHECK_EQUAL(2, lesson.left_out);
    CHECK(lesson.faster_without[1] > 1.5F && lesson.faster_without[0] == 0);
    struct machine second = machine_of(2, rates, 2 * S, test_seed());
    second.hurts[1] = 2;
    begin(&second, &lesson);
    CHECK(take_part_is_in(&second.part, 0) && !take_part_is_in(&second.part, 1));
    CHECK(take_part_faster_without(&second.part, 1) > 1.5);
    while (step(&second))
        ;
    CHECK(second.at_ns < 1.01 * 2 * S);
    take_part_learn(&second.part, &lesson, true, 0, (uint64_t)second.at_ns);
    CHECK_EQUAL(2, lesson.left_out);
}

/* A lane that a job has let in again is not left out by the next because an earlier one had left it out. */
static void a_lane_that_was_let_in_again_stays_in(void)
{
    const double rates[] = { 1, 0.5 };
    struct take_part_lesson lesson = { .jobs = 1, .whole = { .left_out = 2 } };
    struct machine m = machine_of(2, rates, 0.5 * S, test_seed());
    run(&m, &lesson);
    take_part_learn(&m.part, &lesson, true, 0, (uint64_t)m.at_ns);
    CHECK_EQUAL(0, lesson.left_out);
    CHECK_EQUAL(0, lesson.whole.left_out);
}

/* What was learned when the machine was another one is not. */
static void what_does_not_fit_is_not_believed(void)
{
    const double slow[] = { 1, 0.1 }, fast[] = { 1, 4 };
    struct take_part_lesson lesson = { .jobs = 0 };
    struct machine first = machine_of(2, slow, 2 * S, test_seed());
    first.hurts[1] = 2;
    run(&first, NULL);
    take_part_learn(&first.part, &lesson, true, 0, (uint64_t)first.at_ns);
    CHECK_EQUAL(2, lesson.left_out);
    lesson.rate /= 5;
    struct machine second = machine_of(2, fast, 20 * S, test_seed());
    run(&second, &lesson);
    CHECK_EQUAL(0, left_out(&second));
}

static void a_lane_is_tried_again_when_it_does_no_harm_any_more(void)
{
    const double rates[] = { 1, 0.4 };
    struct machine m = machine_of(2, rates, 20 * S, test_seed());
    m.hurts[1] = 3;
    m.heals_ns = 2 * S;
    begin(&m, NULL);
    while (m.at_ns < 2 * S && step(&m))
        ;
    CHECK_EQUAL(2, left_out(&m));
    while (step(&m))
        ;
    CHECK_EQUAL(0, left_out(&m));
}

/* Those left out stand in for one that is gone, and only as long. */
static void those_left_out_stand_in_for_others(void)
{
    const double rates[] = { 1, 0.1 };
    struct machine m = machine_of(2, rates, 20 * S, test_seed());
    m.hurts[1] = 2;
    begin(&m, NULL);
    while (m.at_ns < 1 * S && step(&m))
        ;
    CHECK(left_out(&m) == 2 && !take_part_is_in(&m.part, 1));
    take_part_gone(&m.part, 0, true, false);
    CHECK(take_part_is_in(&m.part, 1) && left_out(&m) == 0);
    while (m.at_ns < 1.5 * S && step(&m))
        ;
    take_part_gone(&m.part, 0, false, false);
    CHECK(!take_part_is_in(&m.part, 1) && left_out(&m) == 2);
    take_part_gone(&m.part, 0, true, true);
    CHECK(take_part_is_in(&m.part, 1));
}

static void those_left_out_help_where_nothing_gets_on(void)
{
    const double rates[] = { 1, 0.1 };
    struct machine m = machine_of(2, rates, 2 * S, test_seed());
    m.hurts[1] = 2;
    run(&m, NULL);
    CHECK(!take_part_is_in(&m.part, 1));
    take_part_stuck(&m.part, (uint64_t)m.at_ns);
    CHECK(take_part_is_in(&m.part, 1) && left_out(&m) == 0);
}

/* Lanes come and go at any time, also in a trial: somebody takes part if anybody can. */
static void somebody_always_takes_part(void)
{
    struct random random;
    random_init(&random, test_seed());
    for (uint32_t round = 0; round < 200; round++) {
        double rates[LANES];
        for (uint32_t i = 0; i < LANES; i++)
            rates[i] = 0.05 + random_unit(&random);
        struct machine m = machine_of(LANES, rates, 20 * S, random_next(&random));
        for (uint32_t i = 0; i < LANES; i++)
            m.hurts[i] = 1 + 2 * random_unit(&random);
        m.unevenness = 1.1;
        begin(&m, NULL);
        for (uint32_t steps = 0; steps < 2000 && step(&m); steps++) {
            uint32_t lane = (uint32_t)random_below(&random, LANES);
            bool can_any = false, is_any = false;
            if (random_below(&random, 100) == 0)
                take_part_gone(&m.part, lane, !m.lanes[lane].is_gone, false);
            for (uint32_t i = 0; i < LANES; i++) {
                can_any = can_any || !m.lanes[i].is_gone;
                is_any = is_any || (!m.lanes[i].is_gone && take_part_is_in(&m.part, i));
            }
            CHECK(is_any == can_any);
            if (!can_any)
                take_part_gone(&m.part, lane, false, false);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_lane_that_costs_more_than_it_brings_is_left_out),
        TEST(the_one_that_does_more_may_be_left_out_too),
        TEST(the_one_that_costs_most_is_left_out),
        TEST(all_but_the_good_ones_are_left_out),
        TEST(those_that_crowd_a_link_are_left_out_together),
        TEST(lanes_that_share_nothing_all_take_part),
        TEST(what_is_within_the_noise_takes_part),
        TEST(uneven_items_fool_nobody),
        TEST(what_costs_much_is_found_among_uneven_items),
        TEST(a_drift_is_no_gain),
        TEST(a_short_job_has_no_trial),
        TEST(what_brings_next_to_nothing_is_left_out_without_a_trial),
        TEST(a_lane_that_is_alone_does_what_it_can),
        TEST(many_that_bring_little_are_not_left_out),
        TEST(the_best_alone_is_tried_after_a_trial_of_another),
        TEST(a_lane_that_begins_late_is_let_in),
        TEST(short_jobs_learn_together),
        TEST(what_was_learned_is_believed),
        TEST(a_lane_that_was_let_in_again_stays_in),
        TEST(what_does_not_fit_is_not_believed),
        TEST(a_lane_is_tried_again_when_it_does_no_harm_any_more),
        TEST(those_left_out_stand_in_for_others),
        TEST(those_left_out_help_where_nothing_gets_on),
        TEST(somebody_always_takes_part),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
