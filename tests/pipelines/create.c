/*
 * Pipelines that cannot be: each is refused with words that name what is wrong. And what can be made
 * is printed, as far as there is room.
 */
#include "machine.h"

#define BIT(buffer) (UINT64_C(1) << (buffer))
#define BUFFERS_MAX (MUSTER_BUFFERS_MAX + 1)
#define STAGES_MAX (MUSTER_STAGES_MAX + 1)

enum { IN, D_IN, D_OUT, OUT };

/* The example of the documents, to be spoilt in one place at a time. */
struct declaration {
    struct muster_buffer buffers[BUFFERS_MAX];
    size_t buffer_count;
    struct muster_stage stages[STAGES_MAX];
    size_t stage_count;
    struct muster_edge edges[MUSTER_EDGES_MAX + 1];
    struct muster_pipeline_options options;
};

static struct muster *m;
static struct muster_kernel *kernel;
static struct declaration d;

static muster_status nothing(struct muster_unit *unit, void *user)
{
    (void)unit, (void)user;
    return MUSTER_OK;
}

static void declare(void)
{
    memset(&d, 0, sizeof d);
    const struct muster_buffer buffers[] = {
        { .size = sizeof *buffers, .name = "in", .place = MUSTER_HOST, .bytes_per_item = 4 },
        { .size = sizeof *buffers, .name = "d_in", .place = MUSTER_DEVICE, .bytes_per_item = 4 },
        { .size = sizeof *buffers, .name = "d_out", .place = MUSTER_DEVICE, .bytes_per_item = 4 },
        { .size = sizeof *buffers, .name = "out", .place = MUSTER_HOST, .bytes_per_item = 4 },
    };
    const struct muster_stage stages[] = {
        { sizeof *stages, "up", "h2d", .reads = BIT(IN), .writes = BIT(D_IN),
          .flags = MUSTER_COPY },
        { sizeof *stages, "blur", "compute", .reads = BIT(D_IN), .writes = BIT(D_OUT),
          .kernel = kernel },
        { sizeof *stages, "down", "d2h", .reads = BIT(D_OUT), .writes = BIT(OUT),
          .flags = MUSTER_COPY },
    };
    memcpy(d.buffers, buffers, sizeof buffers);
    memcpy(d.stages, stages, sizeof stages);
    d.buffer_count = COUNT_OF(buffers);
    d.stage_count = COUNT_OF(stages);
    d.options = (struct muster_pipeline_options){ .size = sizeof d.options, .edges = d.edges };
    for (size_t i = 0; i < COUNT_OF(d.edges); i++)
        d.edges[i].size = sizeof *d.edges;
}

static void set_up(void)
{
    if (!m) {
        m = machine_open("cpu");
        kernel = kernel_of(m, do_nothing);
    }
    declare();
}

static muster_status create(struct muster_pipeline **out)
{
    problem = (struct muster_error){ .size = sizeof problem };
    return muster_pipeline_create(m, d.buffers, d.buffer_count, d.stages, d.stage_count, &d.options,
                                  out, &problem);
}

/* It is refused, in these words, and nothing is written. */
#define REFUSED(status, words) refused(__FILE__, __LINE__, status, words)
static void refused(const char *file, int line, muster_status status, const char *words)
{
    struct muster_pipeline *const untouched = (struct muster_pipeline *)&d;
    struct muster_pipeline *pipeline = untouched;
    test_check_status(file, line, problem.text, status, create(&pipeline));
    test_check_contains(file, line, "the error", words, problem.text);
    if (pipeline != untouched)
        test_fail(file, line, "something was written, though it was refused");
    declare();
}

static void buffers_that_cannot_be(void)
{
    set_up();
    d.buffers[1].name = NULL;
    REFUSED(MUSTER_E_INVALID, "buffer 1 has no name");
    d.buffers[1].name = "";
    REFUSED(MUSTER_E_INVALID, "buffer 1 has no name");
    d.buffers[1].name = "a name that is longer than names may be";
    REFUSED(MUSTER_E_TOO_LARGE, "the name of buffer 1");
    d.buffers[2].name = "in";
    REFUSED(MUSTER_E_INVALID, "two buffers are called 'in'");
    d.buffers[1].place = 0;
    REFUSED(MUSTER_E_INVALID, "'d_in'");
    d.buffers[1].bytes_per_item = 0;
    REFUSED(MUSTER_E_INVALID, "'d_in': it has no bytes");
    d.buffers[1].flags = 64;
    REFUSED(MUSTER_E_INVALID, "'d_in'");
    d.buffers[1].slots = MUSTER_SLOTS_MAX + 1;
    REFUSED(MUSTER_E_INVALID, "16 slots");
    d.buffers[1].flags = MUSTER_CARRIED;
    d.buffers[1].slots = 2;
    REFUSED(MUSTER_E_INVALID, "one slot");
    d.buffers[1].flags = MUSTER_INPUT;
    REFUSED(MUSTER_E_INVALID, "on the host");
    d.buffers[OUT].flags = MUSTER_INPUT;
    REFUSED(MUSTER_E_INVALID, "'in': it is read, and no stage writes it");
    d.buffers[IN].flags = MUSTER_OUTPUT;
    REFUSED(MUSTER_E_INVALID, "'in'");
    d.buffers[d.buffer_count++] = (struct muster_buffer){
        .size = sizeof(struct muster_buffer), .name = "idle", .place = MUSTER_HOST, .bytes_fixed = 8
    };
    REFUSED(MUSTER_E_INVALID, "'idle': no stage uses it");
    d.buffer_count = BUFFERS_MAX;
    REFUSED(MUSTER_E_TOO_LARGE, "33 buffers");
    /* Sizes are only limited when there are items. */
    d.buffers[1].bytes_per_item = SIZE_MAX;
    struct muster_pipeline *pipeline;
    MUST(create(&pipeline));
    muster_pipeline_destroy(pipeline);
}

static void stages_that_cannot_be(void)
{
    set_up();
    d.stages[1].name = NULL;
    REFUSED(MUSTER_E_INVALID, "stage 1 has no name");
    d.stages[1].stream = NULL;
    REFUSED(MUSTER_E_INVALID, "the stream of stage 1 has no name");
    d.stages[1].name = "up";
    REFUSED(MUSTER_E_INVALID, "two stages are called 'up'");
    d.stages[1].name = "sink";
    REFUSED(MUSTER_E_INVALID, "'sink'");
    d.stages[1].reads |= BIT(4);
    REFUSED(MUSTER_E_INVALID, "'blur': it uses a buffer that does not exist");
    d.stages[1].writes |= BIT(63);
    REFUSED(MUSTER_E_INVALID, "'blur': it uses a buffer that does not exist");
    d.stages[1].flags = 64;
    REFUSED(MUSTER_E_INVALID, "'blur'");
    d.stages[1].kernel = NULL;
    REFUSED(MUSTER_E_INVALID, "'blur': it has no callback, no kernel and is no copy");
    d.stages[1].writes |= BIT(OUT);
    REFUSED(MUSTER_E_INVALID, "'blur': a kernel without a callback has device buffers only");
    d.stages[0].kernel = kernel;
    REFUSED(MUSTER_E_INVALID, "'up': a copy");
    d.stages[0].reads = 0;
    REFUSED(MUSTER_E_INVALID, "'up': a copy");
    d.stages[0].writes = BIT(D_IN) | BIT(D_OUT);
    REFUSED(MUSTER_E_INVALID, "'up': a copy");
    d.stages[0].writes = BIT(IN);
    REFUSED(MUSTER_E_INVALID, "'up': a copy");
    d.stages[1].stream = "host";
    REFUSED(MUSTER_E_INVALID, "'blur': a host stage cannot reach device buffers");
    d.stages[2].stream = "host";
    REFUSED(MUSTER_E_INVALID, "'down'");
    d.stage_count = 0;
    REFUSED(MUSTER_E_INVALID, "no stages");
    d.stage_count = STAGES_MAX;
    REFUSED(MUSTER_E_TOO_LARGE, "33 stages");
}

static void a_host_stage_needs_a_callback(void)
{
    set_up();
    d.stages[3] = (struct muster_stage){
        .size = sizeof(struct muster_stage), .name = "look", .stream = "host", .reads = BIT(OUT)
    };
    d.stage_count = 4;
    d.buffers[OUT].flags = MUSTER_OUTPUT;
    REFUSED(MUSTER_E_INVALID, "'look': a host stage needs a callback");
}

static void too_many_streams(void)
{
    static char names[MUSTER_ROLES_MAX + 1][8];
    set_up();
    d.stage_count = 1;
    d.buffer_count = 2;
    for (size_t i = 0; i <= MUSTER_ROLES_MAX; i++) {
        snprintf(names[i], sizeof names[i], "s%zu", i);
        d.stages[i + 1] = (struct muster_stage){ .size = sizeof(struct muster_stage),
                                                 .name = names[i],
                                                 .stream = names[i],
                                                 .reads = BIT(D_IN),
                                                 .writes = BIT(D_IN),
                                                 .kernel = kernel };
        d.stage_count++;
    }
    REFUSED(MUSTER_E_TOO_LARGE, "more than 8 streams");
}

static void batches_that_cannot_be(void)
{
    set_up();
    d.stages[1].every = MUSTER_EVERY_MAX + 1;
    REFUSED(MUSTER_E_INVALID, "'blur': it takes more than 64 units together");
    d.stages[1].every = 4;
    d.stages[2].every = 3;
    REFUSED(MUSTER_E_INVALID, "stage 'down' takes 3 units together, another 4");
}

static void edges_that_cannot_be(void)
{
    set_up();
    d.options.edge_count = 1;
    d.edges[0] = (struct muster_edge){
        .size = sizeof(struct muster_edge), .from = 3, .to = 0, .distance = 1
    };
    REFUSED(MUSTER_E_INVALID, "added edge 0");
    d.options.edge_count = 2;
    d.edges[1] = (struct muster_edge){
        .size = sizeof(struct muster_edge), .from = 0, .to = 99, .distance = 1
    };
    REFUSED(MUSTER_E_INVALID, "added edge 1");
    d.options.edge_count = 1;
    d.edges[0] = (struct muster_edge){
        .size = sizeof(struct muster_edge), .from = 0, .to = 1, .distance = 1000
    };
    REFUSED(MUSTER_E_INVALID, "added edge 0");
    d.options.edge_count = MUSTER_EDGES_MAX + 1;
    REFUSED(MUSTER_E_TOO_LARGE, "added edges");
    /* Backwards in one unit: nothing could begin. */
    d.options.edge_count = 1;
    d.edges[0] = (struct muster_edge){
        .size = sizeof(struct muster_edge), .from = 2, .to = 0, .distance = 0
    };
    REFUSED(MUSTER_E_ORDER, "down");
    d.options.edge_count = 1;
    d.edges[0] = (struct muster_edge){
        .size = sizeof(struct muster_edge), .from = 1, .to = 1, .distance = 0
    };
    REFUSED(MUSTER_E_ORDER, "blur");
}

static void arguments_that_are_not_there(void)
{
    struct muster_pipeline *pipeline;
    set_up();
    CHECK_STATUS(MUSTER_E_INVALID, muster_pipeline_create(NULL, d.buffers, 4, d.stages, 3, NULL,
                                                          &pipeline, &problem));
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_pipeline_create(m, NULL, 4, d.stages, 3, NULL, &pipeline, &problem));
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_pipeline_create(m, d.buffers, 4, NULL, 3, NULL, &pipeline, &problem));
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_pipeline_create(m, d.buffers, 4, d.stages, 3, NULL, NULL, &problem));
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_pipeline_create(m, d.buffers, 4, d.stages, 3, NULL, NULL, NULL));
    d.options.size = 0;
    REFUSED(MUSTER_E_INVALID, "struct muster_pipeline_options");
    d.options.edges = NULL;
    d.options.edge_count = 1;
    REFUSED(MUSTER_E_INVALID, "muster_pipeline_create");
    d.options.schedule = 77;
    REFUSED(MUSTER_E_INVALID, "schedule");
    muster_pipeline_destroy(NULL);
}

static void a_kernel_of_another_runtime_is_refused(void)
{
    set_up();
    struct muster *other = machine_open("cpu");
    d.stages[1].kernel = kernel_of(other, do_nothing);
    REFUSED(MUSTER_E_INVALID, "'blur': the kernel is another runtime's");
    MUST(muster_close(other, &problem));
}

/*
 * Nothing races here, but the copy of a late size stands on the stream behind the next unit's first
 * step, which waits for the slot that this copy is to set free.
 */
static void what_could_get_stuck_is_refused_with_the_circle(void)
{
    set_up();
    d.buffers[4] = (struct muster_buffer){
        .size = sizeof(struct muster_buffer), .name = "size", .place = MUSTER_HOST, .bytes_fixed = 4
    };
    d.buffers[OUT].flags = MUSTER_OUTPUT;
    d.buffer_count = 5;
    for (size_t i = 0; i < d.buffer_count; i++)
        d.buffers[i].slots = 1;
    for (size_t i = 0; i < 3; i++)
        d.stages[i].stream = "all";
    d.stages[4] = d.stages[2]; /* down */
    d.stages[2] = (struct muster_stage){ .size = sizeof(struct muster_stage),
                                         .name = "tell",
                                         .stream = "all",
                                         .reads = BIT(D_OUT),
                                         .writes = BIT(4),
                                         .flags = MUSTER_COPY };
    d.stages[3] = (struct muster_stage){ .size = sizeof(struct muster_stage),
                                         .name = "decide",
                                         .stream = "host",
                                         .reads = BIT(4),
                                         .run = nothing };
    d.stage_count = 5;
    struct muster_pipeline *pipeline;
    char text[4096];
    size_t needed;
    d.options.schedule = MUSTER_SCHEDULE_AUTO;
    muster_status status = create(&pipeline);
    if (status != MUSTER_OK) {
        CHECK_STATUS(MUSTER_E_ORDER, status);
        CHECK_CONTAINS("down", problem.text);
        return;
    }
    /* With one slot of each it can be run, one unit at a time. */
    MUST(muster_pipeline_print(pipeline, MUSTER_SCHEDULE_AUTO, MUSTER_PRINT_TEXT, text, sizeof text,
                               &needed, &problem));
    muster_pipeline_destroy(pipeline);
}

static void what_is_printed_fits_or_is_cut(void)
{
    struct muster_pipeline *pipeline;
    char whole[8192], part[8192];
    size_t needed, again;
    set_up();
    MUST(create(&pipeline));
    static const enum muster_print_format formats[] = { MUSTER_PRINT_TEXT, MUSTER_PRINT_DOT };
    for (size_t f = 0; f < COUNT_OF(formats); f++) {
        MUST(muster_pipeline_print(pipeline, MUSTER_SCHEDULE_AUTO, formats[f], whole, sizeof whole,
                                   &needed, &problem));
        CHECK_EQUAL(strlen(whole) + 1, needed);
        CHECK_CONTAINS("blur", whole);
        CHECK_CONTAINS("d_out", whole);
        for (size_t capacity = 0; capacity < needed; capacity += 1 + capacity / 3) {
            memset(part, 0x5a, sizeof part);
            CHECK_STATUS(MUSTER_E_CAPACITY,
                         muster_pipeline_print(pipeline, MUSTER_SCHEDULE_AUTO, formats[f], part,
                                               capacity, &again, &problem));
            CHECK_EQUAL(needed, again);
            CHECK(part[capacity] == 0x5a);
            if (capacity > 0) {
                CHECK_EQUAL(capacity - 1, strlen(part));
                CHECK(memcmp(whole, part, capacity - 1) == 0);
            }
        }
        MUST(muster_pipeline_print(pipeline, MUSTER_SCHEDULE_AUTO, formats[f], part, needed, NULL,
                                   &problem));
        CHECK_TEXT(whole, part);
    }
    CHECK_CONTAINS("digraph", whole);
    CHECK_STATUS(MUSTER_E_CAPACITY,
                 muster_pipeline_print(pipeline, MUSTER_SCHEDULE_AUTO, MUSTER_PRINT_TEXT, NULL, 0,
                                       &needed, NULL));
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_pipeline_print(NULL, MUSTER_SCHEDULE_AUTO, MUSTER_PRINT_TEXT, whole,
                                       sizeof whole, &needed, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_pipeline_print(pipeline, 99, MUSTER_PRINT_TEXT, whole,
                                                         sizeof whole, &needed, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_pipeline_print(pipeline, MUSTER_SCHEDULE_AUTO, 99, whole,
                                                         sizeof whole, &needed, &problem));
    muster_pipeline_destroy(pipeline);
}

/* Names and edges are copied: the caller's may go. */
static void a_pipeline_keeps_nothing_of_the_callers(void)
{
    struct muster_pipeline *pipeline;
    char text[8192];
    set_up();
    char *name = strdup("blur");
    CHECK(name);
    d.stages[1].name = name;
    d.options.edge_count = 1;
    d.edges[0] = (struct muster_edge){
        .size = sizeof(struct muster_edge), .from = 2, .to = 0, .distance = 3
    };
    MUST(create(&pipeline));
    memset(name, 'x', 4);
    free(name);
    declare();
    MUST(muster_pipeline_print(pipeline, MUSTER_SCHEDULE_AUTO, MUSTER_PRINT_TEXT, text, sizeof text,
                               NULL, &problem));
    CHECK_CONTAINS("blur", text);
    muster_pipeline_destroy(pipeline);
}

/* What is not destroyed goes with the runtime. */
static void a_runtime_closes_what_was_left(void)
{
    struct muster_pipeline *pipeline;
    set_up();
    MUST(create(&pipeline));
    MUST(create(&pipeline));
    MUST(muster_close(m, &problem));
    m = NULL;
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(buffers_that_cannot_be),
        TEST(stages_that_cannot_be),
        TEST(a_host_stage_needs_a_callback),
        TEST(too_many_streams),
        TEST(batches_that_cannot_be),
        TEST(edges_that_cannot_be),
        TEST(arguments_that_are_not_there),
        TEST(a_kernel_of_another_runtime_is_refused),
        TEST(what_could_get_stuck_is_refused_with_the_circle),
        TEST(what_is_printed_fits_or_is_cut),
        TEST(a_pipeline_keeps_nothing_of_the_callers),
        TEST(a_runtime_closes_what_was_left),
    };
    int status = test_main(argc, argv, tests, COUNT_OF(tests));
    muster_close(m, NULL);
    return status;
}
