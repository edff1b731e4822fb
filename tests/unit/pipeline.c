/*
 * What is derived for pipelines that one can look at, that each edge counts, and what is refused.
 */
#include "pipeline_support.h"

#include <time.h>

#define EXAMPLE                                                                                    \
    "in:2i d_in:2 d_out:2 out:2o | up@h2d in>d_in | blur@compute d_in>d_out | down@d2h d_out>out"

/* A size arrives, a host stage reads it, and the copy behind it moves that much. */
#define LATE_SIZE                                                                                  \
    "in:2i d_in:2 d_out:2 d_size:2 size:2 out:2o | up@h2d in>d_in | "                              \
    "pack@compute d_in>d_out,d_size | size@meta d_size>size | plan@host size> | "                  \
    "down@d2h d_out,size>out"

/* What the host makes of one unit the device needs for the next. */
#define CARRY                                                                                      \
    "in:2i d_in:2 d_out:2 part:2 table:1c out:2o | up@h2d in>d_in | "                              \
    "apply@compute d_in,table>d_out | down@d2h d_out>part | compress@host part>table,out"

/* Race-free with gates, but 'down' of one unit may be queued after 'size' of the next. */
#define CAN_GET_STUCK                                                                              \
    "in:2i d_in:2 d_out:2 d_size:2 size:2 part:2 table:1c out:2o | up@h2d in>d_in | "              \
    "apply@compute d_in,table>d_out,d_size | size@d2h d_size>size | plan@host size> | "            \
    "down@d2h d_out>part | finish@host part>table,out"

struct made {
    enum muster_schedule schedule;
    bool has_gates;
};

static struct pipe_plan plan;
static struct muster_error problem;

static void derive(struct shape *shape, enum muster_schedule schedule, bool has_gates)
{
    muster_status status =
        pipe_derive(&shape->declaration, schedule, has_gates, &plan, shape->scratch, &problem);
    if (status != MUSTER_OK)
        test_fail(__FILE__, __LINE__, "%s: %s", muster_status_name(status), problem.text);
    struct pipe_edge missing;
    CHECK_STATUS(MUSTER_OK,
                 pipe_verify(&shape->declaration, &plan, shape->scratch, &missing, &problem));
}

static void check_edges(const struct shape *shape, const char *const *expected, size_t count)
{
    for (uint32_t i = 0; i < plan.edge_count; i++)
        CHECK_TEXT(i < count ? expected[i] : "no more",
                   edge_words(&shape->declaration, &plan.edges[i]));
    CHECK_EQUAL(count, plan.edge_count);
}
#define CHECK_EDGES(shape, ...)                                                                    \
    do {                                                                                           \
        static const char *const expected[] = { __VA_ARGS__ };                                     \
        check_edges((shape), expected, COUNT_OF(expected));                                        \
    } while (0)

static void three_stages_have_seven_edges(void)
{
    struct shape shape;
    shape_init(&shape, EXAMPLE);
    derive(&shape, MUSTER_SCHEDULE_AUTO, true);
    CHECK_EQUAL(MUSTER_SCHEDULE_PIPELINED, plan.schedule);
    CHECK(!plan.needs_gates && !plan.carries);
    CHECK_EDGES(&shape, "up>blur +0 d_in event", "blur>down +0 d_out event",
                "down>sink +0 out arrival", "up>source +2 in arrival", "blur>up +2 d_in event",
                "down>blur +2 d_out event", "sink>down +2 out rule");
    CHECK_EQUAL(PIPE_NONE, plan.edges[0].alias);
    CHECK_EQUAL(0, plan.edges[3].alias);
    CHECK_EQUAL(1, plan.edges[4].alias);
    static const uint32_t segments[] = { 0, 1, 1, 1, 1 };
    CHECK(memcmp(segments, plan.segment, sizeof segments) == 0);
    shape_deinit(&shape);
}

static void one_stream_orders_by_itself(void)
{
    struct shape shape;
    shape_init(&shape, "in:2i d_in:2 d_out:2 out:2o | up@q in>d_in | blur@q d_in>d_out | "
                       "down@q d_out>out");
    derive(&shape, MUSTER_SCHEDULE_AUTO, false);
    CHECK_EDGES(&shape, "down>sink +0 out arrival", "up>source +2 in arrival",
                "sink>down +2 out rule");
    shape_deinit(&shape);
}

static void slots_are_the_distance(void)
{
    for (uint32_t slots = 1; slots <= 4; slots++) {
        struct shape shape;
        shape_init(&shape, EXAMPLE);
        for (uint32_t b = 0; b < 4; b++)
            shape.declaration.buffers[b].slots = slots;
        shape_changed(&shape);
        derive(&shape, MUSTER_SCHEDULE_PIPELINED, false);
        CHECK_EQUAL(7, plan.edge_count);
        for (uint32_t i = 3; i < 7; i++)
            CHECK_EQUAL(slots, plan.edges[i].distance);
        CHECK_EQUAL(2 * slots, pipe_depth(&shape.declaration));
        shape_deinit(&shape);
    }
}

static void a_late_size_stays_pipelined(void)
{
    struct shape shape;
    shape_init(&shape, LATE_SIZE);
    derive(&shape, MUSTER_SCHEDULE_AUTO, true);
    CHECK_EQUAL(MUSTER_SCHEDULE_PIPELINED, plan.schedule);
    CHECK_EDGES(&shape, "up>pack +0 d_in event", "pack>size +0 d_size event",
                "size>plan +0 size arrival", "down>sink +0 out arrival",
                "down>pack +2 d_out enqueue issued", "down>pack +2 d_out event",
                "up>source +2 in arrival", "pack>up +2 d_in event", "sink>down +2 out rule");
    static const uint32_t segments[] = { 0, 1, 1, 1, 1, 2, 2 };
    CHECK(memcmp(segments, plan.segment, sizeof segments) == 0);
    shape_deinit(&shape);
}

static void carried_state_is_gated_or_drained(void)
{
    struct shape shape;
    shape_init(&shape, CARRY);
    derive(&shape, MUSTER_SCHEDULE_AUTO, true);
    CHECK_EQUAL(MUSTER_SCHEDULE_GATED, plan.schedule);
    CHECK(plan.needs_gates && plan.carries);
    CHECK_EDGES(&shape, "up>apply +0 d_in event", "apply>down +0 d_out event",
                "down>compress +0 part arrival", "compress>apply +1 table gate",
                "up>source +2 in arrival", "apply>up +2 d_in event", "sink>compress +2 out rule");
    CHECK_TEXT("state 'table' goes from host stage 'compress' to 'apply' of the next unit, and "
               "the device can wait for a value",
               plan.reason);
    derive(&shape, MUSTER_SCHEDULE_AUTO, false);
    CHECK_EQUAL(MUSTER_SCHEDULE_DRAIN_BEFORE_KICK, plan.schedule);
    CHECK(!plan.needs_gates);
    CHECK_TEXT("state 'table' goes from host stage 'compress' to 'apply' of the next unit, and "
               "the device cannot wait for a value",
               plan.reason);
    CHECK_TEXT("compress>apply +1 table rule", edge_words(&shape.declaration, &plan.edges[3]));
    derive(&shape, MUSTER_SCHEDULE_DRAIN_BEFORE_KICK, true);
    CHECK(!plan.needs_gates);
    CHECK_STATUS(MUSTER_E_ORDER, pipe_derive(&shape.declaration, MUSTER_SCHEDULE_PIPELINED, true,
                                             &plan, shape.scratch, &problem));
    CHECK_TEXT("pipelined is not possible: state 'table' goes from host stage 'compress' to "
               "'apply' of the next unit",
               problem.text);
    shape_deinit(&shape);
}

static void one_unit_at_a_time_needs_no_more_between_units(void)
{
    struct shape shape;
    shape_init(&shape, CARRY);
    derive(&shape, MUSTER_SCHEDULE_DRAIN_AFTER_KICK, false);
    CHECK_EDGES(&shape, "up>apply +0 d_in event", "apply>down +0 d_out event",
                "down>compress +0 part arrival", "up>source +2 in arrival",
                "sink>compress +2 out rule");
    shape_deinit(&shape);
}

static void a_schedule_that_says_what_is_not_so_is_refused(void)
{
    struct shape shape;
    shape_init(&shape, EXAMPLE);
    static const enum muster_schedule schedules[] = { MUSTER_SCHEDULE_GATED,
                                                      MUSTER_SCHEDULE_DRAIN_BEFORE_KICK };
    for (size_t i = 0; i < COUNT_OF(schedules); i++) {
        plan.edge_count = 99;
        CHECK_STATUS(MUSTER_E_ORDER, pipe_derive(&shape.declaration, schedules[i], true, &plan,
                                                 shape.scratch, &problem));
        CHECK_CONTAINS("has nothing to do", problem.text);
        CHECK_EQUAL(99, plan.edge_count);
    }
    CHECK_STATUS(MUSTER_E_INVALID, pipe_derive(&shape.declaration, (enum muster_schedule)17, true,
                                               &plan, shape.scratch, &problem));
    shape_deinit(&shape);
}

static void state_of_a_stage_orders_its_units(void)
{
    struct shape shape;
    shape_init(&shape, "in:2i mid:2 out:2o | read@host! in>mid | write@host mid>out");
    derive(&shape, MUSTER_SCHEDULE_AUTO, false);
    CHECK_EQUAL(MUSTER_SCHEDULE_PIPELINED, plan.schedule);
    CHECK(plan.carries);
    CHECK_EDGES(&shape, "read>read +1 - rule", "read>source +2 in rule", "write>read +2 mid rule",
                "sink>write +2 out rule");
    shape_deinit(&shape);
}

static void a_buffer_can_be_worked_on_in_place(void)
{
    struct shape shape;
    shape_init(&shape, "in:3i d:3 out:3o | up@h2d in>d | blur@a d>d | sharpen@b d>d | "
                       "down@d2h d>out");
    derive(&shape, MUSTER_SCHEDULE_AUTO, false);
    CHECK_EDGES(&shape, "up>blur +0 d event", "blur>sharpen +0 d event", "sharpen>down +0 d event",
                "down>sink +0 out arrival", "down>up +3 d event", "up>source +3 in arrival",
                "sink>down +3 out rule");
    shape_deinit(&shape);
}

static void a_circle_of_added_edges_is_refused(void)
{
    struct shape shape;
    shape_init(&shape, EXAMPLE);
    struct muster_edge back[] = { { sizeof *back, 2, 0, 0 } },
                       self[] = { { sizeof *self, 1, 1, 0 } };
    shape.declaration.added = back;
    shape.declaration.added_count = 1;
    CHECK_STATUS(MUSTER_E_ORDER, pipe_derive(&shape.declaration, MUSTER_SCHEDULE_AUTO, false, &plan,
                                             shape.scratch, &problem));
    CHECK_TEXT("a circle: 'up' waits for 'down' of the same unit, which does not begin before "
               "'up'",
               problem.text);
    CHECK_TEXT("drop the edge from 'down' to 'up', or let it lead to a later unit", problem.fix);
    back[0].distance = 1;
    derive(&shape, MUSTER_SCHEDULE_AUTO, false);
    shape.declaration.added = self;
    CHECK_STATUS(MUSTER_E_ORDER, pipe_derive(&shape.declaration, MUSTER_SCHEDULE_AUTO, false, &plan,
                                             shape.scratch, &problem));
    CHECK_TEXT("a circle: 'blur' waits for itself in the same unit", problem.text);
    /* It is what is said, also where there would be no room for the derived ones. */
    static struct muster_edge many[MUSTER_EDGES_MAX];
    for (uint32_t i = 0; i < COUNT_OF(many); i++)
        many[i] = (struct muster_edge){ sizeof(struct muster_edge), 0, 1, 0 };
    many[COUNT_OF(many) - 1] = (struct muster_edge){ sizeof(struct muster_edge), 2, 0, 0 };
    shape.declaration.added = many;
    shape.declaration.added_count = COUNT_OF(many);
    CHECK_STATUS(MUSTER_E_ORDER, pipe_derive(&shape.declaration, MUSTER_SCHEDULE_AUTO, false, &plan,
                                             shape.scratch, &problem));
    CHECK_CONTAINS("a circle: 'up' waits for 'down'", problem.text);
    shape_deinit(&shape);
}

static void added_edges_are_kept_and_used(void)
{
    struct shape shape;
    shape_init(&shape, EXAMPLE);
    /* Nearer than the slots, so that they make up for an edge; and one that was there anyway. */
    static const struct muster_edge added[] = { { sizeof *added, 1, 0, 1 },
                                                { sizeof *added, 0, 1, 0 },
                                                { sizeof *added, 0, 0, 1000 } };
    shape.declaration.added = added;
    shape.declaration.added_count = 3;
    derive(&shape, MUSTER_SCHEDULE_AUTO, false);
    CHECK_EDGES(&shape, "up>blur +0 - event added", "blur>down +0 d_out event",
                "down>sink +0 out arrival", "blur>up +1 - event added", "up>source +2 in arrival",
                "down>blur +2 d_out event", "sink>down +2 out rule", "up>up +1000 - enqueue added");
    check_each_edge_counts(&shape, &plan);
    shape_deinit(&shape);
}

static void what_can_get_stuck_is_refused(void)
{
    struct shape shape;
    shape_init(&shape, CAN_GET_STUCK);
    CHECK_STATUS(MUSTER_E_ORDER, pipe_derive(&shape.declaration, MUSTER_SCHEDULE_GATED, true, &plan,
                                             shape.scratch, &problem));
    CHECK_TEXT("'down' of unit 0 may be queued after 'size' of unit 1 on stream 'd2h'; that "
               "waits for 'apply' of unit 1, which waits for the gate that 'finish' of unit 0 "
               "opens, which waits for 'down' of unit 0",
               problem.text);
    CHECK_TEXT("give 'down' a stream of its own, or use the schedule drain-before-kick",
               problem.fix);
    derive(&shape, MUSTER_SCHEDULE_AUTO, true);
    CHECK_EQUAL(MUSTER_SCHEDULE_DRAIN_BEFORE_KICK, plan.schedule);
    CHECK_TEXT("state 'table' goes from host stage 'finish' to 'apply' of the next unit; gated, "
               "'down' could get stuck on its stream",
               plan.reason);
    /* What the fix says helps. */
    shape.declaration.streams[shape.declaration.stream_count] = "own";
    shape.declaration.stages[4].stream = shape.declaration.stream_count++;
    derive(&shape, MUSTER_SCHEDULE_AUTO, true);
    CHECK_EQUAL(MUSTER_SCHEDULE_GATED, plan.schedule);
    shape_deinit(&shape);
}

static void a_circle_fits_into_an_error_whatever_the_names(void)
{
    struct shape shape;
    shape_init(&shape, CAN_GET_STUCK);
    static char names[6][32];
    for (uint32_t s = 0; s < 6; s++) {
        memset(names[s], 'a' + (int)s, 31);
        shape.declaration.stages[s].name = names[s];
    }
    shape.declaration.streams[2] = "a_stream_with_a_very_long_name_";
    CHECK_STATUS(MUSTER_E_ORDER, pipe_derive(&shape.declaration, MUSTER_SCHEDULE_GATED, true, &plan,
                                             shape.scratch, &problem));
    CHECK(strlen(problem.text) < sizeof problem.text - 1);
    CHECK_CONTAINS("which waits for 'eeeeeeeeee' of unit 0", problem.text);
    CHECK_CONTAINS(names[4], problem.fix);
    shape_deinit(&shape);
}

/*
 * 'a' of unit 3 waits for 'apply' of unit 1, and could be queued before 'b' of unit 0 if a lane held
 * four units; with one slot it holds two.
 */
static void a_lane_that_is_full_cannot_get_stuck_farther_on(void)
{
    struct shape shape;
    shape_init(&shape, "table:1c y:1 z:1 | apply@c table> | a@q z>z | plan@host > | b@q y>y | "
                       "finish@host y>table");
    static const struct muster_edge added[] = { { sizeof *added, 0, 1, 2 } };
    shape.declaration.added = added;
    shape.declaration.added_count = 1;
    derive(&shape, MUSTER_SCHEDULE_AUTO, true);
    CHECK_EQUAL(MUSTER_SCHEDULE_GATED, plan.schedule);
    shape_deinit(&shape);
}

static void the_largest_pipelines_are_possible(void)
{
    struct pipe_declaration declaration = { .buffer_count = MUSTER_BUFFERS_MAX,
                                            .stage_count = MUSTER_STAGES_MAX,
                                            .stream_count = MUSTER_ROLES_MAX };
    for (uint32_t b = 0; b < MUSTER_BUFFERS_MAX; b++)
        declaration.buffers[b] = (struct pipe_buffer){ .name = "buffer",
                                                       .slots = MUSTER_SLOTS_MAX - b % 3,
                                                       .is_input = b == 0,
                                                       .is_output = b == 31,
                                                       .is_carried = b == 7 };
    for (uint32_t s = 0; s < MUSTER_STAGES_MAX; s++)
        declaration.stages[s] = (struct pipe_stage){
            .name = "stage",
            .stream = s % 11 == 10 ? PIPE_HOST : s % MUSTER_ROLES_MAX,
            .reads = UINT64_C(0x80000081) << s % 7 | UINT64_C(1) << s,
            .writes = UINT64_C(1) << (s + 1) % 32,
        };
    for (uint32_t i = 0; i < MUSTER_ROLES_MAX; i++)
        declaration.streams[i] = "stream";
    void *scratch = malloc(pipe_scratch_bytes(&declaration));
    CHECK(scratch != NULL);
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    muster_status status =
        pipe_derive(&declaration, MUSTER_SCHEDULE_AUTO, true, &plan, scratch, &problem);
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("  %u edges, %s, %zu bytes, %.1f ms\n", plan.edge_count,
           pipe_schedule_name(plan.schedule), pipe_scratch_bytes(&declaration),
           (double)(end.tv_sec - begin.tv_sec) * 1e3 + (double)(end.tv_nsec - begin.tv_nsec) / 1e6);
    CHECK_STATUS(MUSTER_OK, status);
    free(scratch);
}

/* However far they lead: as many as there is room for beside the derived ones, and no more. */
static void too_many_edges_are_refused(void)
{
    static struct muster_edge added[MUSTER_EDGES_MAX + 1];
    static const uint32_t distances[] = { 0, 1, 2, 5 };
    for (size_t d = 0; d < COUNT_OF(distances); d++) {
        struct shape shape;
        shape_init(&shape, EXAMPLE);
        struct pipe_declaration *declaration = &shape.declaration;
        for (uint32_t i = 0; i < COUNT_OF(added); i++)
            added[i] = (struct muster_edge){ sizeof(struct muster_edge), 0, 1, distances[d] };
        declaration->added = added;
        declaration->added_count = 1;
        derive(&shape, MUSTER_SCHEDULE_AUTO, false);
        uint32_t room = MUSTER_EDGES_MAX - plan.edge_count + 1;
        declaration->added_count = room;
        derive(&shape, MUSTER_SCHEDULE_AUTO, false);
        CHECK_EQUAL(MUSTER_EDGES_MAX, plan.edge_count);
        const uint32_t too_many[] = { room + 1, MUSTER_EDGES_MAX, MUSTER_EDGES_MAX + 1 };
        for (size_t i = 0; i < COUNT_OF(too_many); i++) {
            declaration->added_count = too_many[i];
            CHECK_STATUS(MUSTER_E_CAPACITY, pipe_derive(declaration, MUSTER_SCHEDULE_AUTO, false,
                                                        &plan, shape.scratch, &problem));
        }
        shape_deinit(&shape);
    }
}

static void what_leads_outside_is_refused(void)
{
    struct shape shape;
    shape_init(&shape, EXAMPLE);
    struct pipe_declaration *declaration = &shape.declaration;
    static const struct muster_edge outside[] = { { sizeof *outside, 0, 3, 1 } };
    declaration->added = outside;
    declaration->added_count = 1;
    CHECK_STATUS(MUSTER_E_INVALID, pipe_derive(declaration, MUSTER_SCHEDULE_AUTO, false, &plan,
                                               shape.scratch, &problem));
    declaration->added_count = 0;
    derive(&shape, MUSTER_SCHEDULE_AUTO, false);
    struct pipe_plan wrong = plan;
    wrong.edges[2].to = 5;
    CHECK_STATUS(MUSTER_E_INVALID, pipe_verify(declaration, &wrong, shape.scratch, NULL, &problem));
    wrong = plan;
    wrong.edges[2].kind = MUSTER_EDGE_EVENT;
    CHECK_STATUS(MUSTER_E_INVALID, pipe_verify(declaration, &wrong, shape.scratch, NULL, &problem));
    wrong = plan;
    wrong.edge_count = MUSTER_EDGES_MAX + 1;
    CHECK_STATUS(MUSTER_E_INVALID, pipe_verify(declaration, &wrong, shape.scratch, NULL, &problem));
    declaration->buffers[1].slots = 0;
    CHECK_STATUS(MUSTER_E_INVALID, pipe_verify(declaration, &plan, shape.scratch, NULL, &problem));
    declaration->buffers[1].slots = 2;
    declaration->stages[1].stream = 3;
    CHECK_STATUS(MUSTER_E_INVALID, pipe_verify(declaration, &plan, shape.scratch, NULL, NULL));
    shape_deinit(&shape);
}

/* An edge is of a kind that the two steps can have: who waits, and for what, decides it. */
static void edges_between_steps_that_cannot_have_them_are_refused(void)
{
    static const enum muster_edge_kind kinds[] = { MUSTER_EDGE_EVENT, MUSTER_EDGE_ENQUEUE,
                                                   MUSTER_EDGE_ARRIVAL, MUSTER_EDGE_RULE,
                                                   MUSTER_EDGE_GATE };
    struct shape shape;
    shape_init(&shape, CARRY);
    derive(&shape, MUSTER_SCHEDULE_AUTO, true);
    uint32_t steps = shape.declaration.stage_count + 2;
    for (uint32_t i = 0; i < 2 * COUNT_OF(kinds) * (steps + 1) * (steps + 1); i++) {
        struct pipe_edge edge = { .distance = i % 2,
                                  .kind = kinds[i / 2 % COUNT_OF(kinds)],
                                  .from = i / 2 / COUNT_OF(kinds) % (steps + 1),
                                  .to = i / 2 / COUNT_OF(kinds) / (steps + 1),
                                  .buffer = PIPE_NONE,
                                  .hazard = PIPE_ADDED,
                                  .alias = PIPE_NONE };
        bool is_there = edge.from < steps && edge.to < steps, can_be = false;
        bool host_first = is_there && pipe_is_host(&shape.declaration, edge.from);
        bool host_waits = is_there && pipe_is_host(&shape.declaration, edge.to);
        switch (edge.kind) {
        case MUSTER_EDGE_EVENT: /* a device waits for a device */
        case MUSTER_EDGE_ENQUEUE:
            can_be = !host_first && !host_waits;
            break;
        case MUSTER_EDGE_ARRIVAL: /* the host waits for a device */
            can_be = !host_first && host_waits;
            break;
        case MUSTER_EDGE_RULE: /* the host has to be through before either begins */
            can_be = host_first;
            break;
        case MUSTER_EDGE_GATE: /* a device waits for the host, in a later unit */
            can_be = host_first && !host_waits && edge.distance > 0;
            break;
        }
        struct pipe_plan other = plan;
        other.edges[other.edge_count++] = edge;
        muster_status status =
            pipe_verify(&shape.declaration, &other, shape.scratch, NULL, &problem);
        if ((status == MUSTER_E_INVALID) == (is_there && can_be))
            test_fail(__FILE__, __LINE__, "kind %d from %u to %u, %u units later: %s",
                      (int)edge.kind, edge.from, edge.to, edge.distance,
                      muster_status_name(status));
    }
    shape_deinit(&shape);
}

static const char *const shapes[] = {
    EXAMPLE,
    LATE_SIZE,
    CARRY,
    CAN_GET_STUCK,
    "in:1i d_in:1 d_out:1 out:1o | up@h2d in>d_in | blur@compute d_in>d_out | down@d2h d_out>out",
    "in:4i d_in:3 d_out:2 out:1o | up@h2d in>d_in | blur@compute d_in>d_out | down@d2h d_out>out",
    "in:2i d_in:2 d_out:2 out:2o | up@q in>d_in | blur@q d_in>d_out | down@q d_out>out",
    "in:2i a:2 b:3 c:2 d:4 out:2o | up@1 in>a | f@2 a>b | g@3 b>c | h@4 c>d | down@5 d>out",
    /* clang-format off */
    ("left:2i right:2i a:2 b:2 c:2 out:2o | upl@h2d left>a | upr@aux right>b | "
     "join@compute a,b>c | down@d2h c>out"),
    /* clang-format on */
    "in:2i mid:3 out:2o | read@host in>mid | write@host mid>out",
    "in:3i d:3 out:3o | up@h2d in>d | blur@a d>d | sharpen@b d>d | down@d2h d>out",
    "in:2i d:2 sum:1c out:2o | up@h2d in>d | add@compute d,sum>sum | down@d2h sum>out",
    "in:2i d:2 m:2 e:2 out:2o | up@q in>d | down@q d>m | fix@host m>m | up2@q m>e | down2@q e>out",
    "in:2i d:2 out:2o | up@h2d! in>d | down@d2h! d>out",
    "in:2i | eat@host in>",
    "out:2o | make@compute >out",
    "in:2i",
};

static void without_any_edge_the_proof_names_it(void)
{
    static const struct made made[] = {
        { MUSTER_SCHEDULE_AUTO, true },
        { MUSTER_SCHEDULE_AUTO, false },
        { MUSTER_SCHEDULE_DRAIN_AFTER_KICK, false },
    };
    uint32_t edges = 0;
    for (size_t i = 0; i < COUNT_OF(shapes); i++)
        for (size_t k = 0; k < COUNT_OF(made); k++) {
            struct shape shape;
            shape_init(&shape, shapes[i]);
            derive(&shape, made[k].schedule, made[k].has_gates);
            check_each_edge_counts(&shape, &plan);
            edges += plan.edge_count;
            shape_deinit(&shape);
        }
    printf("  %zu shapes, %u edges\n", COUNT_OF(shapes), edges);
}

/* What stands in a declaration after the last buffer, stage, stream or edge is not part of it. */
static void only_what_is_counted_counts(void)
{
    static const struct muster_edge added[] = { { sizeof *added, 0, 1, 3 },
                                                { sizeof *added, 0, 0, 1 } };
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        struct shape shape;
        shape_init(&shape, shapes[i]);
        struct pipe_declaration *declaration = &shape.declaration;
        derive(&shape, MUSTER_SCHEDULE_AUTO, true);
        struct pipe_plan before = plan;
        for (uint32_t b = declaration->buffer_count; b < COUNT_OF(declaration->buffers); b++)
            declaration->buffers[b] = (struct pipe_buffer){
                .name = "none", .slots = 1, .is_input = true, .is_output = true
            };
        for (uint32_t s = declaration->stage_count; s < COUNT_OF(declaration->stages); s++)
            declaration->stages[s] = (struct pipe_stage){
                .name = "none", .reads = UINT64_MAX, .writes = UINT64_MAX, .carries = true
            };
        declaration->added = added;
        derive(&shape, MUSTER_SCHEDULE_AUTO, true);
        CHECK_EQUAL(before.edge_count, plan.edge_count);
        for (uint32_t e = 0; e < plan.edge_count; e++) {
            const struct pipe_edge *a = &before.edges[e], *b = &plan.edges[e];
            CHECK(a->from == b->from && a->to == b->to && a->distance == b->distance &&
                  a->buffer == b->buffer && a->kind == b->kind && a->hazard == b->hazard &&
                  a->alias == b->alias);
        }
        CHECK_EQUAL(before.schedule, plan.schedule);
        CHECK_EQUAL(before.carries, plan.carries);
        CHECK_EQUAL(before.needs_gates, plan.needs_gates);
        CHECK_TEXT(before.reason, plan.reason);
        shape_deinit(&shape);
    }
}

static void the_table_reads_well(void)
{
    static const char expected[] =
        "buffers\n"
        "  in     host    2 slots, input\n"
        "  d_in   device  2 slots\n"
        "  d_out  device  2 slots\n"
        "  out    host    2 slots, output\n"
        "streams\n"
        "  h2d      up\n"
        "  compute  blur\n"
        "  d2h      down\n"
        "  host     source sink\n"
        "segments\n"
        "  source | up blur down sink\n"
        "edges\n"
        "  no.  from  to      units later  guards  kind       because it               instances  "
        "alias of\n"
        "    1  up    blur              0  d_in    event      reads what it wrote              4  "
        "-\n"
        "    2  blur  down              0  d_out   event      reads what it wrote              4  "
        "-\n"
        "    3  down  sink              0  out     arrival    reads what it wrote              4  "
        "-\n"
        "    4  up    source            2  in      arrival    overwrites what it read          4  "
        "1\n"
        "    5  blur  up                2  d_in    event      overwrites what it read          4  "
        "2\n"
        "    6  down  blur              2  d_out   event      overwrites what it read          4  "
        "3\n"
        "    7  sink  down              2  out     host rule  overwrites what it read          0  "
        "-\n"
        "schedule\n"
        "  pipelined: no host stage holds up a device stage of the next unit\n";
    struct shape shape;
    char text[4096], small[20];
    shape_init(&shape, EXAMPLE);
    derive(&shape, MUSTER_SCHEDULE_AUTO, false);
    CHECK_EQUAL(strlen(expected),
                pipe_print(&shape.declaration, &plan, MUSTER_PRINT_TEXT, text, sizeof text));
    CHECK_TEXT(expected, text);
    CHECK_EQUAL(strlen(expected),
                pipe_print(&shape.declaration, &plan, MUSTER_PRINT_TEXT, NULL, 0));
    CHECK_EQUAL(strlen(expected),
                pipe_print(&shape.declaration, &plan, MUSTER_PRINT_TEXT, small, sizeof small));
    CHECK(memcmp(small, expected, sizeof small - 1) == 0 && small[sizeof small - 1] == '\0');
    shape_deinit(&shape);
}

static void the_graph_has_all_that_the_table_has(void)
{
    struct shape shape;
    char text[8192];
    shape_init(&shape, CARRY);
    derive(&shape, MUSTER_SCHEDULE_AUTO, true);
    shape.declaration.stages[0].name = "a \"quoted\\ name";
    size_t length = pipe_print(&shape.declaration, &plan, MUSTER_PRINT_DOT, text, sizeof text);
    CHECK(length < sizeof text && length == strlen(text));
    CHECK_CONTAINS("label=\"a \\\"quoted\\\\ name\"", text);
    uint32_t clusters = 0, edges = 0;
    int open = 0;
    for (const char *at = text; *at; at++) {
        clusters += strncmp(at, "subgraph", 8) == 0;
        edges += strncmp(at, "[color", 6) == 0;
        open += *at == '{' ? 1 : *at == '}' ? -1 : 0;
    }
    CHECK_EQUAL(4, clusters);
    CHECK_EQUAL(plan.edge_count, edges);
    CHECK_EQUAL(0, open);
    CHECK_CONTAINS("label=\"table\", headlabel=\"+1\", tooltip=\"gate\"", text);
    shape_deinit(&shape);
}

/* Every step stands once, in the cluster of its stream, and every edge is drawn. */
static void the_graph_is_drawn_whole(void)
{
    static const char expected[] =
        "digraph pipeline {\n"
        "    rankdir=LR;\n"
        "    node [shape=box, fontname=\"sans\"];\n"
        "    edge [fontname=\"sans\", fontsize=10];\n"
        "    labelloc=t;\n"
        "    label=\"pipelined\";\n"
        "    subgraph cluster_0 {\n"
        "        label=\"h2d\";\n"
        "        color=\"#c7c7c7\";\n"
        "        s1 [label=\"up\"];\n"
        "    }\n"
        "    subgraph cluster_1 {\n"
        "        label=\"compute\";\n"
        "        color=\"#c7c7c7\";\n"
        "        s2 [label=\"blur\"];\n"
        "    }\n"
        "    subgraph cluster_2 {\n"
        "        label=\"d2h\";\n"
        "        color=\"#c7c7c7\";\n"
        "        s3 [label=\"down\"];\n"
        "    }\n"
        "    subgraph cluster_3 {\n"
        "        label=\"host\";\n"
        "        color=\"#c7c7c7\";\n"
        "        s0 [label=\"source\", style=rounded];\n"
        "        s4 [label=\"sink\", style=rounded];\n"
        "    }\n"
        "    s0 -> s1 [style=invis, weight=10];\n"
        "    s1 -> s2 [style=invis, weight=10];\n"
        "    s2 -> s3 [style=invis, weight=10];\n"
        "    s3 -> s4 [style=invis, weight=10];\n"
        "    s1 -> s2 [color=\"#1f77b4\", fontcolor=\"#1f77b4\", style=solid, constraint=true, "
        "label=\"d_in\", tooltip=\"event\"];\n"
        "    s2 -> s3 [color=\"#1f77b4\", fontcolor=\"#1f77b4\", style=solid, constraint=true, "
        "label=\"d_out\", tooltip=\"event\"];\n"
        "    s3 -> s4 [color=\"#2ca02c\", fontcolor=\"#2ca02c\", style=solid, constraint=true, "
        "label=\"out\", tooltip=\"arrival\"];\n"
        "    s1 -> s0 [color=\"#2ca02c\", fontcolor=\"#2ca02c\", style=dashed, constraint=false, "
        "label=\"in\", headlabel=\"+2\", tooltip=\"arrival\"];\n"
        "    s2 -> s1 [color=\"#1f77b4\", fontcolor=\"#1f77b4\", style=dashed, constraint=false, "
        "label=\"d_in\", headlabel=\"+2\", tooltip=\"event\"];\n"
        "    s3 -> s2 [color=\"#1f77b4\", fontcolor=\"#1f77b4\", style=dashed, constraint=false, "
        "label=\"d_out\", headlabel=\"+2\", tooltip=\"event\"];\n"
        "    s4 -> s3 [color=\"#ff7f0e\", fontcolor=\"#ff7f0e\", style=dashed, constraint=false, "
        "label=\"out\", headlabel=\"+2\", tooltip=\"host rule\"];\n"
        "}\n";
    struct shape shape;
    char text[4096], small[20];
    shape_init(&shape, EXAMPLE);
    derive(&shape, MUSTER_SCHEDULE_AUTO, false);
    CHECK_EQUAL(strlen(expected),
                pipe_print(&shape.declaration, &plan, MUSTER_PRINT_DOT, text, sizeof text));
    CHECK_TEXT(expected, text);
    CHECK_EQUAL(strlen(expected), pipe_print(&shape.declaration, &plan, MUSTER_PRINT_DOT, NULL, 0));
    CHECK_EQUAL(strlen(expected),
                pipe_print(&shape.declaration, &plan, MUSTER_PRINT_DOT, small, sizeof small));
    CHECK(memcmp(small, expected, sizeof small - 1) == 0 && small[sizeof small - 1] == '\0');
    shape_deinit(&shape);
}

/* Host stages, gates and carried buffers. */
static void the_table_shows_what_is_rare(void)
{
    static const char expected[] =
        "buffers\n"
        "  in     host    2 slots, input\n"
        "  d_in   device  2 slots\n"
        "  d_out  device  2 slots\n"
        "  part   device  2 slots\n"
        "  table  device  1 slot, carried\n"
        "  out    host    2 slots, output\n"
        "streams\n"
        "  h2d      up\n"
        "  compute  apply\n"
        "  d2h      down\n"
        "  host     source compress sink\n"
        "segments\n"
        "  source | up apply down compress | sink\n"
        "edges\n"
        "  no.  from      to        units later  guards  kind       because it               "
        "instances  alias of\n"
        "    1  up        apply               0  d_in    event      reads what it wrote            "
        "  4  -\n"
        "    2  apply     down                0  d_out   event      reads what it wrote            "
        "  4  -\n"
        "    3  down      compress            0  part    arrival    reads what it wrote            "
        "  4  -\n"
        "    4  compress  apply               1  table   gate       reads what it wrote            "
        "  1  -\n"
        "    5  up        source              2  in      arrival    overwrites what it read        "
        "  4  1\n"
        "    6  apply     up                  2  d_in    event      overwrites what it read        "
        "  4  2\n"
        "    7  sink      compress            2  out     host rule  overwrites what it read        "
        "  0  -\n"
        "schedule\n"
        "  gated: state 'table' goes from host stage 'compress' to 'apply' of the next unit, and "
        "the device can wait for a value\n";
    struct shape shape;
    char text[8192];
    shape_init(&shape, CARRY);
    derive(&shape, MUSTER_SCHEDULE_AUTO, true);
    pipe_print(&shape.declaration, &plan, MUSTER_PRINT_TEXT, text, sizeof text);
    CHECK_TEXT(expected, text);
    shape_deinit(&shape);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(three_stages_have_seven_edges),
        TEST(one_stream_orders_by_itself),
        TEST(slots_are_the_distance),
        TEST(a_late_size_stays_pipelined),
        TEST(carried_state_is_gated_or_drained),
        TEST(one_unit_at_a_time_needs_no_more_between_units),
        TEST(a_schedule_that_says_what_is_not_so_is_refused),
        TEST(state_of_a_stage_orders_its_units),
        TEST(a_buffer_can_be_worked_on_in_place),
        TEST(a_circle_of_added_edges_is_refused),
        TEST(added_edges_are_kept_and_used),
        TEST(what_can_get_stuck_is_refused),
        TEST(a_circle_fits_into_an_error_whatever_the_names),
        TEST(a_lane_that_is_full_cannot_get_stuck_farther_on),
        TEST(the_largest_pipelines_are_possible),
        TEST(too_many_edges_are_refused),
        TEST(what_leads_outside_is_refused),
        TEST(edges_between_steps_that_cannot_have_them_are_refused),
        TEST(without_any_edge_the_proof_names_it),
        TEST(only_what_is_counted_counts),
        TEST(the_table_reads_well),
        TEST(the_graph_has_all_that_the_table_has),
        TEST(the_graph_is_drawn_whole),
        TEST(the_table_shows_what_is_rare),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
