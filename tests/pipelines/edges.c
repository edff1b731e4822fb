/*
 * pipeline_edges [--table] [--shape NAME] [CASE...]
 *
 * Every edge of every shape is needed: without it the verifier names it, and a run without it, with
 * the verifier's word ignored and what the edge waits for made slow, comes out wrong. --table prints
 * what became of each; `make mutate` does. The runs are processes of their own, since a lane whose
 * order is broken may do anything, also hang:
 *
 *     pipeline_edges --run SHAPE gates|plain EDGE        EDGE "none": nothing is taken away
 */
#include "machine.h"
#include "run/job/pipeline.h"
#include "shapes.h"
#include "slow.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#define NO_EDGE UINT32_MAX
#define DELAY_NS (2 * MS)
/* A run takes some 50 ms; one that has not ended by then is stuck. */
#define STUCK_MS TEST_BY_SANITIZER(4000, 8000, 15000)
/* One without a mistake ends, however busy the machine is. */
#define SLOW_MS 120000
#define OUTPUT_BYTES 8192
#define EXIT_WRONG 3
#define EXIT_REFUSED 4

extern char **environ;
static const char *self, *only;

static struct muster *open_slow(bool has_gates)
{
    static const struct muster_backend *table;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    table = slow_wrap(has_gates);
    options.backends = &table;
    options.backend_count = 1;
    options.devices = "slow";
    options.cpu_workers = 6;
    return open_with(options);
}

static const struct pipe_plan *plan_of(const struct shape_run *run, bool has_gates)
{
    return run->pipeline->plans[has_gates ? PLAN_WITH_GATES : PLAN_WITHOUT_GATES];
}

/* --- one run without an edge ------------------------------------------------------------------- */

/* Takes the edge out of the plans that have it, without asking the proof. */
static void drop_edge(struct muster_pipeline *pipeline, uint32_t edge)
{
    for (uint32_t kind = 0; kind < PLAN_KINDS; kind++) {
        struct pipe_plan *plan = pipeline->plans[kind];
        if (!plan || edge >= plan->edge_count)
            continue;
        memmove(&plan->edges[edge], &plan->edges[edge + 1],
                (plan->edge_count - edge - 1) * sizeof *plan->edges);
        plan->edge_count--;
    }
}

/* Makes what the edge waits for slow: a stage's stream, or the callback that is the step. */
static void slow_down(struct shape_run *run, const struct pipe_edge *edge)
{
    const struct pipe_declaration *declaration = &run->pipeline->declaration;
    run->dawdle_ns = DELAY_NS;
    if (edge->from == 0)
        run->dawdles = SHAPE_SOURCE;
    else if (edge->from > declaration->stage_count)
        run->dawdles = SHAPE_SINK;
    else if (pipe_is_host(declaration, edge->from))
        run->dawdles = edge->from - 1;
    else
        slow_choose((int)declaration->stages[edge->from - 1].stream, DELAY_NS);
}

static int run_without(const char *name, bool has_gates, uint32_t edge)
{
    const struct shape *shape = shape_find(name);
    struct muster *m = open_slow(has_gates);
    struct shape_run *run;
    struct muster_job *job;
    char why[160];
    if (!shape || shape_open(m, shape, SHAPE_ALL_FORMS, MUSTER_SCHEDULE_AUTO, &run, &problem))
        return EXIT_REFUSED;
    if (edge != NO_EDGE) {
        struct pipe_edge dropped = plan_of(run, has_gates)->edges[edge];
        drop_edge(run->pipeline, edge);
        slow_down(run, &dropped);
    }
    struct muster_job_desc desc = shape_job(run, SHAPE_FROM_SOURCE, NULL);
    if (muster_start(m, &desc, &job, &problem) != MUSTER_OK)
        return EXIT_REFUSED;
    muster_status status = muster_job_wait(job, NULL, &problem);
    shape_release_kept(run);
    bool is_right = status == MUSTER_OK && shape_is_right(run, why, sizeof why);
    printf("%s\n", status != MUSTER_OK ? problem.text : is_right ? "right" : why);
    muster_job_destroy(job);
    shape_close(run);
    muster_close(m, NULL);
    return is_right ? 0 : EXIT_WRONG;
}

/* --- many of them ------------------------------------------------------------------------------ */

enum outcome { RIGHT, WRONG, RACE, STUCK, BROKEN, OUTCOMES };
static const char *const outcome_words[] = { "right", "wrong bytes", "data race", "stuck",
                                             "did not run" };

static pid_t start_run(const char *shape, bool has_gates, uint32_t edge, int *output)
{
    char number[16];
    int ends[2];
    pid_t child;
    snprintf(number, sizeof number, "%u", edge);
    char *const words[] = { (char *)(uintptr_t)self,           "--run",
                            (char *)(uintptr_t)shape,          has_gates ? "gates" : "plain",
                            edge == NO_EDGE ? "none" : number, NULL };
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    CHECK(posix_spawn(&child, self, &actions, NULL, words, environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    *output = ends[0];
    return child;
}

/* Reads until the child has closed it, or for too long; false: for too long. */
static bool read_output(int output, char *text, size_t capacity, long limit_ms)
{
    size_t length = 0;
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (;;) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        long left = limit_ms - (long)(now.tv_sec - begin.tv_sec) * 1000 -
                    (now.tv_nsec - begin.tv_nsec) / 1000000;
        struct pollfd asked = { .fd = output, .events = POLLIN };
        if (left <= 0 || poll(&asked, 1, (int)left) <= 0)
            return false;
        char spare[256];
        bool has_room = length + 1 < capacity;
        ssize_t count = read(output, has_room ? text + length : spare,
                             has_room ? capacity - 1 - length : sizeof spare);
        if (count <= 0)
            return true;
        length += has_room ? (size_t)count : 0;
        text[length] = 0;
    }
}

static enum outcome try_without(const char *shape, bool has_gates, uint32_t edge, char *said)
{
    int output, status;
    pid_t child = start_run(shape, has_gates, edge, &output);
    said[0] = 0;
    bool has_ended = read_output(output, said, OUTPUT_BYTES, edge == NO_EDGE ? SLOW_MS : STUCK_MS);
    if (!has_ended)
        kill(child, SIGKILL);
    waitpid(child, &status, 0);
    close(output);
    if (!has_ended)
        return STUCK;
    if (strstr(said, "data race"))
        return RACE;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return RIGHT;
    return WIFEXITED(status) && WEXITSTATUS(status) == EXIT_REFUSED ? BROKEN : WRONG;
}

static const char *kind_name(enum muster_edge_kind kind)
{
    static const char *const names[] = { "?", "event", "enqueue", "arrival", "rule", "gate" };
    return kind <= MUSTER_EDGE_GATE ? names[kind] : names[0];
}

static const char *hazard_name(enum pipe_hazard hazard)
{
    static const char *const names[] = { "read after write",  "write after read",
                                         "write after write", "state",
                                         "the user's",        "record before wait" };
    return names[hazard];
}

/* What the verifier says of the plan without the edge. */
static bool is_named(const struct shape_run *run, const struct pipe_plan *plan, uint32_t edge)
{
    const struct pipe_declaration *declaration = &run->pipeline->declaration;
    struct pipe_edge missing = { .from = PIPE_NONE };
    struct pipe_plan *without = malloc(sizeof *without);
    void *scratch = malloc(pipe_scratch_bytes(declaration));
    CHECK(without && scratch);
    *without = *plan;
    without->edge_count--;
    memmove(&without->edges[edge], &plan->edges[edge + 1],
            (plan->edge_count - edge - 1) * sizeof *plan->edges);
    muster_status status = pipe_verify(declaration, without, scratch, &missing, &problem);
    free(scratch);
    free(without);
    const struct pipe_edge *dropped = &plan->edges[edge];
    return status == MUSTER_E_ORDER && missing.from == dropped->from && missing.to == dropped->to &&
           missing.distance == dropped->distance;
}

struct tally {
    uint32_t edges, unnamed, unnoticed;
    uint32_t outcomes[OUTCOMES];
    bool prints;
};

/*
 * Why a run without the edge comes out right all the same; NULL: it should not. A record that is not
 * issued before its wait is missed only if the host is late besides, and a unit is handed to the sink
 * when all of its steps have arrived, whatever the plan says.
 */
static const char *spared(const struct pipe_declaration *declaration, const struct pipe_edge *edge)
{
    if (edge->hazard == PIPE_ISSUED)
        return "the event's edge keeps the order";
    return edge->to > declaration->stage_count ? "the lane waits for all of a unit" : NULL;
}

static void try_edge(const struct shape_run *run, const struct pipe_plan *plan, bool has_gates,
                     uint32_t number, struct tally *tally)
{
    const struct pipe_declaration *declaration = &run->pipeline->declaration;
    const struct pipe_edge *edge = &plan->edges[number];
    char said[OUTPUT_BYTES];
    const char *why_not = spared(declaration, edge);
    bool named = is_named(run, plan, number);
    enum outcome outcome = try_without(run->shape->name, has_gates, number, said);
    bool is_unnoticed = outcome == BROKEN || (outcome == RIGHT && !why_not);
    tally->edges++;
    tally->unnamed += !named;
    tally->unnoticed += is_unnoticed;
    tally->outcomes[outcome]++;
    if (tally->prints || !named || is_unnoticed)
        printf("%-16s %-5s %-9s %-9s %2u  %-8s %-8s %-19s %-10s %s%s%s\n", run->shape->name,
               has_gates ? "gates" : "plain", pipe_step_name(declaration, edge->from),
               pipe_step_name(declaration, edge->to), edge->distance,
               edge->buffer == PIPE_NONE ? "-" : declaration->buffers[edge->buffer].name,
               kind_name(edge->kind), hazard_name(edge->hazard), named ? "named" : "NOT NAMED",
               outcome_words[outcome], outcome == RIGHT && why_not ? ": " : "",
               outcome == RIGHT && why_not ? why_not : "");
    fflush(stdout);
}

static void try_shape(const struct shape *shape, bool has_gates, struct tally *tally)
{
    struct muster *m = open_slow(has_gates);
    struct shape_run *run;
    char said[OUTPUT_BYTES];
    MUST(shape_open(m, shape, SHAPE_ALL_FORMS, MUSTER_SCHEDULE_AUTO, &run, &problem));
    const struct pipe_plan *plan = plan_of(run, has_gates);
    CHECK(plan);
    /* Unharmed it is right, slow or not, or what follows would mean nothing. */
    enum outcome outcome = try_without(shape->name, has_gates, NO_EDGE, said);
    if (outcome != RIGHT)
        test_fail(__FILE__, __LINE__, "%s with all its edges: %s: %s", shape->name,
                  outcome_words[outcome], said);
    for (uint32_t i = 0; i < plan->edge_count; i++)
        try_edge(run, plan, has_gates, i, tally);
    shape_close(run);
    MUST(muster_close(m, &problem));
}

static bool has_gates_in_plan(const struct shape *shape)
{
    struct muster *m = open_slow(true);
    struct shape_run *run;
    MUST(shape_open(m, shape, SHAPE_ALL_FORMS, MUSTER_SCHEDULE_AUTO, &run, &problem));
    bool has = plan_of(run, true) && plan_of(run, true)->needs_gates;
    shape_close(run);
    MUST(muster_close(m, &problem));
    return has;
}

static void judge(const struct tally *tally)
{
    printf("%u edges: %u not named by the verifier, %u that guard data unnoticed by a run;",
           tally->edges, tally->unnamed, tally->unnoticed);
    for (int i = 0; i < OUTCOMES; i++)
        printf(" %u %s%s", tally->outcomes[i], outcome_words[i], i + 1 < OUTCOMES ? "," : "\n");
    CHECK(tally->edges > 0);
    CHECK_EQUAL(0, tally->unnamed);
    CHECK_EQUAL(0, tally->unnoticed);
}

/* Some shapes that have edges of every kind. */
static void no_edge_can_be_left_out_of_some(void)
{
    static const char *const names[] = { "depth_2", "late", "carry_host" };
    struct tally tally = { .edges = 0 };
    for (size_t i = 0; i < COUNT_OF(names); i++)
        try_shape(shape_find(names[i]), i == 2, &tally);
    judge(&tally);
}

static void no_edge_can_be_left_out(void)
{
    struct tally tally = { .prints = true };
    printf("%-16s %-5s %-9s %-9s %2s  %-8s %-8s %-19s %-10s %s\n", "SHAPE", "PLAN", "FROM", "TO",
           "D", "BUFFER", "KIND", "GUARDS", "VERIFIER", "RUN");
    for (size_t i = 0; i < shape_count; i++) {
        if (only && strcmp(only, shapes[i]->name) != 0)
            continue;
        try_shape(shapes[i], false, &tally);
        if (has_gates_in_plan(shapes[i]))
            try_shape(shapes[i], true, &tally);
    }
    judge(&tally);
}

int main(int argc, char **argv)
{
    static const struct test some[] = { TEST(no_edge_can_be_left_out_of_some) };
    static const struct test all[] = { TEST(no_edge_can_be_left_out) };
    self = "/proc/self/exe";
    if (argc == 5 && strcmp(argv[1], "--run") == 0) {
        bool has_gates = strcmp(argv[3], "gates") == 0;
        uint32_t edge =
            strcmp(argv[4], "none") == 0 ? NO_EDGE : (uint32_t)strtoul(argv[4], NULL, 10);
        return run_without(argv[2], has_gates, edge);
    }
    only = take_option(&argc, argv, "--shape");
    bool is_table = only || (argc > 1 && strcmp(argv[1], "--table") == 0);
    if (argc > 1 && strcmp(argv[1], "--table") == 0)
        argc--, argv++;
    return is_table ? test_main(argc, argv, all, 1) : test_main(argc, argv, some, 1);
}
