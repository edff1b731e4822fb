/*
 * Random pipelines against a lane that is played through: whatever comes first by chance, as far as
 * the lane's own rules and the plan's edges let it, no two conflicting accesses meet or change
 * places, and nothing gets stuck. The play knows nothing of graphs. Without one of the edges it goes
 * wrong in most cases, which shows that it looks.
 */
#include "pipeline_support.h"

#include "base/random.h"

#define UNITS_MAX 12
#define NEVER 1000

enum state { WAITING, ENQUEUED, RUNNING, DONE };

struct play {
    const struct pipe_declaration *declaration;
    const struct pipe_plan *plan;
    struct random *random;
    uint32_t steps, units;
    enum state state[UNITS_MAX][PIPE_STEPS_MAX];
    /* What each stream was given, as unit x steps + step. */
    uint32_t queue[MUSTER_ROLES_MAX][UNITS_MAX * PIPE_STEPS_MAX];
    uint32_t first[MUSTER_ROLES_MAX], count[MUSTER_ROLES_MAX];
    /* Event edges whose record had been issued when the wait was. */
    bool binds[UNITS_MAX][MUSTER_EDGES_MAX];
    /* The lower, the later it is chosen where there is a choice. */
    unsigned eagerness[UNITS_MAX][PIPE_STEPS_MAX];
    bool went_wrong;
};

enum outcome { FINE, WENT_WRONG, STUCK };

static uint32_t stream_of(const struct play *play, uint32_t step)
{
    return play->declaration->stages[step - 1].stream;
}

static bool is_given(const struct play *play, uint32_t step, uint32_t unit)
{
    return play->state[unit][step] != WAITING;
}

static bool is_done(const struct play *play, uint32_t step, uint32_t unit)
{
    return play->state[unit][step] == DONE;
}

/* Whether the step before lets this one begin: a host step when it has ended. */
static bool passed(const struct play *play, uint32_t step, uint32_t unit)
{
    return pipe_is_host(play->declaration, step) ? is_done(play, step, unit)
                                                 : is_given(play, step, unit);
}

static bool all_done(const struct play *play, uint32_t unit, uint32_t first, uint32_t last)
{
    for (uint32_t step = first; step <= last; step++)
        if (!is_done(play, step, unit))
            return false;
    return true;
}

static bool edges_let_begin(const struct play *play, uint32_t step, uint32_t unit)
{
    for (uint32_t i = 0; i < play->plan->edge_count; i++) {
        const struct pipe_edge *edge = &play->plan->edges[i];
        if (edge->to != step || edge->distance > unit)
            continue;
        uint32_t from = unit - edge->distance;
        bool waits = edge->kind == MUSTER_EDGE_RULE || edge->kind == MUSTER_EDGE_ARRIVAL;
        if (waits && !is_done(play, edge->from, from))
            return false;
        if (edge->kind == MUSTER_EDGE_ENQUEUE && !is_given(play, edge->from, from))
            return false;
    }
    return true;
}

static bool may_begin(const struct play *play, uint32_t step, uint32_t unit)
{
    const struct pipe_declaration *declaration = play->declaration;
    if (play->state[unit][step] != WAITING || !edges_let_begin(play, step, unit))
        return false;
    if (step > 0 && !passed(play, step - 1, unit))
        return false;
    if ((step == 0 || step == play->steps - 1) && unit > 0 && !is_done(play, step, unit - 1))
        return false;
    if (!pipe_is_host(declaration, step) && pipe_is_host(declaration, step - 1) && unit > 0) {
        uint32_t last = step;
        while (!pipe_is_host(declaration, last + 1))
            last++;
        if (!is_given(play, last, unit - 1))
            return false;
    }
    if (step != 1 || declaration->stage_count == 0)
        return true;
    uint32_t depth = pipe_depth(declaration);
    if (unit >= depth && !all_done(play, unit - depth, 1, play->steps - 2))
        return false;
    return play->plan->schedule != MUSTER_SCHEDULE_DRAIN_AFTER_KICK || unit == 0 ||
           all_done(play, unit - 1, 1, play->steps - 2);
}

static bool device_may_run(const struct play *play, uint32_t step, uint32_t unit)
{
    for (uint32_t i = 0; i < play->plan->edge_count; i++) {
        const struct pipe_edge *edge = &play->plan->edges[i];
        if (edge->to != step || edge->distance > unit ||
            is_done(play, edge->from, unit - edge->distance))
            continue;
        if (edge->kind == MUSTER_EDGE_GATE ||
            (edge->kind == MUSTER_EDGE_EVENT && play->binds[unit][i]))
            return false;
    }
    return true;
}

static bool is_head(const struct play *play, uint32_t step, uint32_t unit)
{
    uint32_t stream = stream_of(play, step);
    return play->queue[stream][play->first[stream]] == unit * play->steps + step;
}

static bool can_go_on(const struct play *play, uint32_t step, uint32_t unit)
{
    switch (play->state[unit][step]) {
    case WAITING:
        return may_begin(play, step, unit);
    case ENQUEUED:
        return is_head(play, step, unit) && device_may_run(play, step, unit);
    case RUNNING:
        return true;
    default:
        return false;
    }
}

static uint64_t accesses(const struct play *play, uint32_t step, bool writes)
{
    uint64_t bits = 0;
    for (uint32_t b = 0; b < play->declaration->buffer_count; b++) {
        const struct pipe_buffer *buffer = &play->declaration->buffers[b];
        if ((step == 0 && writes && buffer->is_input) ||
            (step == play->steps - 1 && !writes && buffer->is_output))
            bits |= UINT64_C(1) << b;
    }
    if (step == 0 || step == play->steps - 1)
        return bits;
    const struct pipe_stage *stage = &play->declaration->stages[step - 1];
    return writes ? stage->writes : stage->reads;
}

static bool conflict(const struct play *play, uint32_t s, uint32_t u, uint32_t t, uint32_t v)
{
    if (s == t && u != v && s > 0 && s < play->steps - 1 &&
        play->declaration->stages[s - 1].carries)
        return true;
    uint64_t shared =
        (accesses(play, s, true) & (accesses(play, t, true) | accesses(play, t, false))) |
        (accesses(play, s, false) & accesses(play, t, true));
    for (uint32_t b = 0; b < play->declaration->buffer_count; b++) {
        const struct pipe_buffer *buffer = &play->declaration->buffers[b];
        if ((shared >> b & 1) && (buffer->is_carried || u % buffer->slots == v % buffer->slots))
            return true;
    }
    return false;
}

/* All that the program has before it, and that it conflicts with, must have ended. */
static void look(struct play *play, uint32_t step, uint32_t unit)
{
    for (uint32_t v = 0; v <= unit; v++)
        for (uint32_t t = 0; t < (v < unit ? play->steps : step); t++)
            if (!is_done(play, t, v) && conflict(play, t, v, step, unit))
                play->went_wrong = true;
}

static void enqueue(struct play *play, uint32_t step, uint32_t unit)
{
    uint32_t stream = stream_of(play, step);
    play->queue[stream][play->count[stream]++] = unit * play->steps + step;
    play->state[unit][step] = ENQUEUED;
    for (uint32_t i = 0; i < play->plan->edge_count; i++) {
        const struct pipe_edge *edge = &play->plan->edges[i];
        if (edge->to == step && edge->kind == MUSTER_EDGE_EVENT && edge->distance <= unit)
            play->binds[unit][i] = is_given(play, edge->from, unit - edge->distance);
    }
}

static void go_on(struct play *play, uint32_t step, uint32_t unit)
{
    bool is_host = pipe_is_host(play->declaration, step);
    switch (play->state[unit][step]) {
    case WAITING:
        if (!is_host) {
            enqueue(play, step, unit);
            break;
        }
        look(play, step, unit);
        play->state[unit][step] = RUNNING;
        break;
    case ENQUEUED:
        look(play, step, unit);
        play->state[unit][step] = RUNNING;
        break;
    default:
        play->state[unit][step] = DONE;
        if (!is_host)
            play->first[stream_of(play, step)]++;
        break;
    }
}

/* Steps are more or less eager, all of a step's units alike or each by itself; some at random. */
static void set_eagerness(struct play *play, uint32_t late)
{
    bool alike = random_below(play->random, 2);
    for (uint32_t step = 0; step < play->steps; step++) {
        unsigned one = (unsigned)random_below(play->random, NEVER);
        for (uint32_t unit = 0; unit < play->units; unit++) {
            unsigned own = (unsigned)random_below(play->random, NEVER);
            play->eagerness[unit][step] = step == late ? 0 : 1 + (alike ? one : own);
        }
    }
}

/* `late`: a step that goes on only where nothing else can; PIPE_NONE: none. */
static enum outcome play_through(struct random *random, const struct pipe_declaration *declaration,
                                 const struct pipe_plan *plan, uint32_t late)
{
    static struct play play;
    uint32_t most = 1;
    for (uint32_t b = 0; b < declaration->buffer_count; b++)
        if (declaration->buffers[b].slots > most)
            most = declaration->buffers[b].slots;
    memset(&play, 0, sizeof play);
    play.declaration = declaration;
    play.plan = plan;
    play.random = random;
    play.steps = declaration->stage_count + 2;
    play.units = 2 * most + 2 < UNITS_MAX ? 2 * most + 2 : UNITS_MAX;
    set_eagerness(&play, late);
    unsigned chance = 1 + (unsigned)random_below(random, 8);
    for (uint32_t left = play.steps * play.units; left > 0;) {
        uint32_t best = PIPE_NONE, seen = 0;
        bool any = random_below(random, chance) == 0;
        for (uint32_t i = 0; i < play.steps * play.units; i++) {
            uint32_t unit = i / play.steps, step = i % play.steps;
            if (!can_go_on(&play, step, unit))
                continue;
            seen++;
            bool better =
                best == PIPE_NONE ||
                play.eagerness[unit][step] > play.eagerness[best / play.steps][best % play.steps];
            if (any && step != late ? random_below(random, seen) == 0 || best == PIPE_NONE : better)
                best = i;
        }
        if (best == PIPE_NONE)
            return STUCK;
        go_on(&play, best % play.steps, best / play.steps);
        if (play.went_wrong)
            return WENT_WRONG;
        if (is_done(&play, best % play.steps, best / play.steps))
            left--;
    }
    return FINE;
}

#define ADDED_MAX 3

static uint64_t some_buffers(struct random *random, uint32_t count, uint32_t most)
{
    uint64_t bits = 0;
    for (uint64_t n = random_below(random, most + 1); n > 0 && count > 0; n--)
        bits |= UINT64_C(1) << random_below(random, count);
    return bits;
}

static void make_random(struct random *random, struct pipe_declaration *declaration,
                        struct muster_edge *added)
{
    static const char *const names[] = { "a", "b", "c", "d", "e", "f", "g", "h", "i", "j" };
    *declaration = (struct pipe_declaration){
        .buffer_count = (uint32_t)random_below(random, 8),
        .stage_count = 1 + (uint32_t)random_below(random, 7),
        .stream_count = 1 + (uint32_t)random_below(random, 5),
        .added = added,
    };
    uint64_t slots_max = 1 + random_below(random, 4);
    /* Half of them are such that gates are likely. */
    bool is_carrying = random_below(random, 2) > 0;
    for (uint32_t b = 0; b < declaration->buffer_count; b++) {
        bool is_carried = random_below(random, is_carrying ? 4 : 12) == 0;
        declaration->buffers[b] = (struct pipe_buffer){
            .name = names[b],
            .slots = is_carried ? 1 : 1 + (uint32_t)random_below(random, slots_max),
            .is_carried = is_carried,
            .is_input = random_below(random, 4) == 0,
            .is_output = random_below(random, 4) == 0,
        };
    }
    for (uint32_t s = 0; s < declaration->stage_count; s++) {
        bool is_host = random_below(random, is_carrying ? 2 : 4) == 0;
        declaration->stages[s] = (struct pipe_stage){
            .name = names[s],
            .stream =
                is_host ? PIPE_HOST : (uint32_t)random_below(random, declaration->stream_count),
            .reads = some_buffers(random, declaration->buffer_count, 2),
            .writes = some_buffers(random, declaration->buffer_count, 2),
            .carries = random_below(random, 12) == 0,
        };
    }
    for (uint32_t i = 0; i < declaration->stream_count; i++)
        declaration->streams[i] = names[i];
    if (random_below(random, 3) > 0 || declaration->stage_count < 2)
        return;
    declaration->added_count = 1 + (uint32_t)random_below(random, ADDED_MAX);
    for (uint32_t i = 0; i < declaration->added_count; i++) {
        uint32_t from = (uint32_t)random_below(random, declaration->stage_count - 1);
        uint32_t to =
            from + 1 + (uint32_t)random_below(random, declaration->stage_count - 1 - from);
        uint32_t distance = (uint32_t)random_below(random, 4);
        bool turned = distance > 0 && random_below(random, 2) > 0;
        added[i] = (struct muster_edge){ sizeof(struct muster_edge), turned ? to : from,
                                         turned ? from : to, distance };
    }
}

struct tally {
    unsigned plans, edges, removed, wrong;
    unsigned schedules[5];
};

/* Whether a lane without the edge goes wrong, or stuck, in one of several plays. */
static bool is_missed(struct random *random, const struct pipe_declaration *declaration,
                      const struct pipe_plan *plan, uint32_t edge)
{
    struct pipe_plan less = without(plan, edge);
    for (unsigned n = 0; n < 12; n++)
        if (play_through(random, declaration, &less,
                         n % 3 < 2 ? plan->edges[edge].from : PIPE_NONE) != FINE)
            return true;
    return false;
}

static void check_plan(struct random *random, struct shape *shape, const struct pipe_plan *plan,
                       struct tally *tally)
{
    struct muster_error err;
    const struct pipe_declaration *declaration = &shape->declaration;
    CHECK_STATUS(MUSTER_OK, pipe_verify(declaration, plan, shape->scratch, NULL, &err));
    check_each_edge_counts(shape, plan);
    for (unsigned n = 0; n < 6; n++) {
        uint32_t late = n % 2 ? (uint32_t)random_below(random, plan->step_count) : PIPE_NONE;
        enum outcome outcome = play_through(random, declaration, plan, late);
        if (outcome != FINE)
            test_fail(__FILE__, __LINE__, "a proven plan %s",
                      outcome == STUCK ? "gets stuck" : "goes wrong");
    }
    tally->plans++;
    tally->edges += plan->edge_count;
    tally->schedules[plan->schedule]++;
    if (plan->edge_count == 0)
        return;
    uint32_t edge = (uint32_t)random_below(random, plan->edge_count);
    if (plan->edges[edge].hazard == PIPE_ADDED)
        return;
    tally->removed++;
    tally->wrong += is_missed(random, declaration, plan, edge);
}

static void chance_does_not_break_what_is_proven(void)
{
    struct random random;
    random_init(&random, test_seed());
    struct tally tally = { .plans = 0 };
    unsigned count = test_repetitions(TEST_BY_SANITIZER(3000, 1000, 600));
    for (unsigned n = 0; n < count; n++) {
        struct shape shape = { .scratch = NULL };
        struct muster_edge added[ADDED_MAX];
        make_random(&random, &shape.declaration, added);
        shape_changed(&shape);
        for (int schedule = 0; schedule <= MUSTER_SCHEDULE_DRAIN_AFTER_KICK; schedule++) {
            struct pipe_plan plan;
            struct muster_error err;
            muster_status status =
                pipe_derive(&shape.declaration, (enum muster_schedule)schedule,
                            random_below(&random, 2) > 0, &plan, shape.scratch, &err);
            if (schedule == MUSTER_SCHEDULE_AUTO || schedule == MUSTER_SCHEDULE_DRAIN_AFTER_KICK)
                CHECK_STATUS(MUSTER_OK, status);
            if (status == MUSTER_OK)
                check_plan(&random, &shape, &plan, &tally);
            else
                CHECK_STATUS(MUSTER_E_ORDER, status);
        }
        shape_deinit(&shape);
    }
    printf(
        "  %u plans (%u pipelined, %u gated, %u drained before, %u after), %u edges; of %u taken "
        "away %u were missed\n",
        tally.plans, tally.schedules[1], tally.schedules[2], tally.schedules[3], tally.schedules[4],
        tally.edges, tally.removed, tally.wrong);
    /* In every kind there is something to find. */
    for (int schedule = 1; schedule < 5; schedule++)
        CHECK(tally.schedules[schedule] > count / 100);
    CHECK(tally.wrong > tally.removed * 9 / 10);
}

/* What the proof calls a circle is one: the lane can be played into it. */
static void what_is_refused_does_get_stuck(void)
{
    struct shape shape;
    struct muster_error err;
    struct pipe_plan plan;
    struct random random;
    random_init(&random, test_seed());
    shape_init(&shape, "in:2i d_in:2 d_out:2 d_size:2 size:2 part:2 table:1c out:2o | "
                       "up@h2d in>d_in | apply@compute d_in,table>d_out,d_size | "
                       "size@d2h d_size>size | plan@host size> | down@d2h d_out>part | "
                       "finish@host part>table,out");
    CHECK_STATUS(MUSTER_OK, pipe_derive(&shape.declaration, MUSTER_SCHEDULE_DRAIN_BEFORE_KICK, true,
                                        &plan, shape.scratch, &err));
    plan.schedule = MUSTER_SCHEDULE_GATED;
    for (uint32_t i = 0; i < plan.edge_count; i++)
        if (plan.edges[i].kind == MUSTER_EDGE_RULE && plan.edges[i].distance == 1)
            plan.edges[i].kind = MUSTER_EDGE_GATE;
    /* A gate orders less than a rule: what is missing then is told, until progress is all that is. */
    struct pipe_edge missing;
    for (;;) {
        CHECK_STATUS(MUSTER_E_ORDER,
                     pipe_verify(&shape.declaration, &plan, shape.scratch, &missing, &err));
        if (missing.from == PIPE_NONE)
            break;
        CHECK(plan.edge_count < 20);
        plan.edges[plan.edge_count++] = missing;
    }
    unsigned stuck = 0;
    for (unsigned n = 0; n < 100; n++) {
        enum outcome outcome = play_through(&random, &shape.declaration, &plan, PIPE_NONE);
        CHECK(outcome != WENT_WRONG);
        stuck += outcome == STUCK;
    }
    printf("  stuck in %u of 100 plays\n", stuck);
    CHECK(stuck > 0);
    shape_deinit(&shape);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(chance_does_not_break_what_is_proven),
        TEST(what_is_refused_does_get_stuck),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
