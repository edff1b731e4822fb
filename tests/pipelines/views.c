/*
 * What a stage's callback may look at, and what becomes of one that looks elsewhere: Muster refuses
 * what it is asked for, and ThreadSanitizer reports what is touched behind its back.
 *
 *     pipeline_views --sneak       a pipeline with a stage that touches a buffer it does not declare
 */
#include "machine.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#define BIT(buffer) (UINT64_C(1) << (buffer))
#define ITEMS UINT64_C(4000)
#define UNIT UINT64_C(100)
#define TSAN_REPORTS 66

extern char **environ;

enum { IN, D_IN, D_OUT, D_SEEN, OUT };

/* Arguments: in, out. */
static muster_status fill_slowly(uint64_t begin, uint64_t end, void *const *args)
{
    const uint32_t *in = *(const uint32_t *const *)args[0];
    uint32_t *out = *(uint32_t *const *)args[1];
    for (uint64_t i = begin; i < end; i++) {
        uint32_t x = in[i];
        for (unsigned r = 0; r < 1000; r++)
            x = x * 1664525 + 1013904223;
        out[i] = x;
    }
    return MUSTER_OK;
}

/* Arguments: in, out, and the address of what it should leave alone. */
static muster_status peek(uint64_t begin, uint64_t end, void *const *args)
{
    const uint32_t *in = *(const uint32_t *const *)args[0];
    uint32_t *out = *(uint32_t *const *)args[1];
    const uint32_t *other = *(const uint32_t *const *)args[2];
    for (uint64_t i = begin; i < end; i++)
        out[i] = in[i] + other[i];
    return MUSTER_OK;
}

/* What callbacks share, and what they noted: they cannot end a test. */
static struct {
    struct muster_kernel *fill, *peek;
    bool sneaks;
    uint64_t address; /* of the unit's part of d_out: both stages are enqueued by one thread */
    struct muster_unit *unit;
    _Atomic unsigned wrong; /* host stages and the sink run side by side */
    unsigned calls;
    _Atomic muster_status host_launch;
    muster_status undeclared, undeclared_launch, too_large, out_of_range;
    char undeclared_text[232];
} shared;

static muster_status produce(struct muster_unit *unit, void *user)
{
    (void)user;
    struct muster_view view = { .size = sizeof view };
    uint64_t begin, end;
    muster_unit_range(unit, &begin, &end);
    muster_status status = muster_unit_view(unit, D_OUT, &view, NULL);
    if (status != MUSTER_OK)
        return status;
    shared.address = view.address;
    shared.wrong += view.bytes != (end - begin) * sizeof(uint32_t) || view.capacity < view.bytes;
    shared.wrong += muster_unit_device(unit).generation == 0;
    shared.wrong += muster_unit_count(unit) != 1;
    const struct muster_unit_arg args[] = { MUSTER_VIEW(D_IN), MUSTER_VIEW(D_OUT) };
    return muster_unit_launch(unit, shared.fill, end - begin, args, 2, NULL);
}

/* Declares d_in and d_seen; goes for d_out. */
static muster_status look(struct muster_unit *unit, void *user)
{
    (void)user;
    struct muster_view view = { .size = sizeof view };
    struct muster_error err = { .size = sizeof err };
    uint64_t begin, end;
    muster_unit_range(unit, &begin, &end);
    shared.calls++;
    shared.unit = unit;
    shared.undeclared = muster_unit_view(unit, D_OUT, &view, &err);
    memcpy(shared.undeclared_text, err.text, sizeof err.text);
    shared.out_of_range = muster_unit_view(unit, 99, &view, &err);
    const struct muster_unit_arg wrong[] = { MUSTER_VIEW(D_IN), MUSTER_VIEW(D_OUT) };
    shared.undeclared_launch = muster_unit_launch(unit, shared.fill, end - begin, wrong, 2, NULL);
    shared.too_large = muster_unit_set_bytes(unit, D_SEEN, UNIT * sizeof(uint32_t) + 1, NULL);
    shared.wrong += muster_unit_view(unit, D_SEEN, NULL, NULL) != MUSTER_E_INVALID;
    shared.wrong += muster_unit_view(NULL, D_SEEN, &view, NULL) != MUSTER_E_INVALID;
    shared.wrong += muster_unit_launch(unit, NULL, 1, NULL, 0, NULL) != MUSTER_E_INVALID;
    const struct muster_unit_arg args[] = { MUSTER_VIEW(D_IN), MUSTER_VIEW(D_SEEN),
                                            MUSTER_UNIT_VALUE(shared.address) };
    return shared.sneaks ? muster_unit_launch(unit, shared.peek, end - begin, args, 3, NULL)
                         : muster_unit_launch(unit, shared.fill, end - begin, args, 2, NULL);
}

static muster_status run_pipeline(struct muster *m)
{
    const struct muster_buffer buffers[] = {
        { sizeof *buffers, "in", MUSTER_HOST, sizeof(uint32_t), 0, 2, 0 },
        { sizeof *buffers, "d_in", MUSTER_DEVICE, sizeof(uint32_t), 0, 2, 0 },
        { sizeof *buffers, "d_out", MUSTER_DEVICE, sizeof(uint32_t), 0, 2, 0 },
        { sizeof *buffers, "d_seen", MUSTER_DEVICE, sizeof(uint32_t), 0, 2, 0 },
        { sizeof *buffers, "out", MUSTER_HOST, sizeof(uint32_t), 0, 2, 0 },
    };
    const struct muster_stage stages[] = {
        { sizeof *stages, "up", "h2d", .reads = BIT(IN), .writes = BIT(D_IN),
          .flags = MUSTER_COPY },
        { sizeof *stages, "produce", "compute", .reads = BIT(D_IN), .writes = BIT(D_OUT),
          .run = produce, .kernel = shared.fill },
        { sizeof *stages, "look", "beside", .reads = BIT(D_IN), .writes = BIT(D_SEEN), .run = look,
          .kernel = shared.fill },
        { sizeof *stages, "down", "d2h", .reads = BIT(D_OUT), .writes = BIT(OUT),
          .flags = MUSTER_COPY },
    };
    static uint32_t in[ITEMS], out[ITEMS];
    struct muster_pipeline *pipeline;
    struct muster_job *job;
    MUST(muster_pipeline_create(m, buffers, COUNT_OF(buffers), stages, COUNT_OF(stages), NULL,
                                &pipeline, &problem));
    const struct muster_job_desc desc = { .size = sizeof desc,
                                          .pipeline = pipeline,
                                          .items = ITEMS,
                                          .input = in,
                                          .output = out,
                                          .options = &(struct muster_run_options){
                                              .size = sizeof(struct muster_run_options),
                                              .unit_items = UNIT } };
    MUST(muster_start(m, &desc, &job, &problem));
    muster_status status = muster_job_wait(job, NULL, &problem);
    /* The unit is there for as long as the job is, and knows that its callback is over. */
    struct muster_view view = { .size = sizeof view };
    if (shared.unit) {
        shared.wrong += muster_unit_view(shared.unit, D_SEEN, &view, NULL) != MUSTER_E_STALE;
        shared.wrong += muster_unit_set_bytes(shared.unit, D_SEEN, 1, NULL) != MUSTER_E_STALE;
        shared.wrong +=
            muster_unit_launch(shared.unit, shared.fill, 1, NULL, 0, NULL) != MUSTER_E_STALE;
    }
    muster_job_destroy(job);
    muster_pipeline_destroy(pipeline);
    return status;
}

static struct muster *set_up(bool sneaks)
{
    struct muster *m = machine_open("cpu");
    memset(&shared, 0, sizeof shared);
    shared.fill = kernel_of(m, fill_slowly);
    shared.peek = kernel_of(m, peek);
    shared.sneaks = sneaks;
    return m;
}

static void what_is_not_declared_is_refused(void)
{
    struct muster *m = set_up(false);
    MUST(run_pipeline(m));
    CHECK_EQUAL(0, shared.wrong);
    CHECK_EQUAL(ITEMS / UNIT, shared.calls);
    CHECK_STATUS(MUSTER_E_INVALID, shared.undeclared);
    CHECK_CONTAINS("stage 'look' does not declare that it uses 'd_out'", shared.undeclared_text);
    CHECK_STATUS(MUSTER_E_INVALID, shared.out_of_range);
    CHECK_STATUS(MUSTER_E_INVALID, shared.undeclared_launch);
    CHECK_STATUS(MUSTER_E_TOO_LARGE, shared.too_large);
    MUST(muster_close(m, &problem));
}

/* --- on the host ------------------------------------------------------------------------------- */

enum { H_IN, H_OUT };

static muster_status check_host(struct muster_unit *unit, void *user)
{
    (void)user;
    struct muster_view in = { .size = sizeof in }, out = { .size = sizeof out };
    uint64_t begin, end;
    muster_unit_range(unit, &begin, &end);
    shared.wrong += muster_unit_view(unit, H_IN, &in, NULL) != MUSTER_OK || !in.host;
    shared.wrong += muster_unit_view(unit, H_OUT, &out, NULL) != MUSTER_OK || !out.host;
    shared.wrong += muster_unit_native(unit) != NULL || muster_unit_device(unit).generation != 0;
    shared.host_launch = muster_unit_launch(unit, shared.fill, 1, NULL, 0, NULL);
    memcpy(out.host, in.host, in.bytes);
    /* Nothing, all of it, and what lies between are sizes too. */
    size_t bytes = begin == 0 ? 0 : begin == UNIT ? out.capacity : 4;
    return muster_unit_set_bytes(unit, H_OUT, bytes, NULL);
}

static muster_status check_sizes(void *user, const struct muster_result *result)
{
    (void)user;
    uint64_t begin = result->range.begin;
    size_t bytes = begin == 0 ? 0 : begin == UNIT ? UNIT * sizeof(uint32_t) : 4;
    shared.wrong += result->output_bytes[0] != bytes;
    return MUSTER_OK;
}

static void host_stages_see_host_memory_and_set_sizes(void)
{
    struct muster *m = set_up(false);
    static uint32_t in[ITEMS];
    const struct muster_buffer buffers[] = {
        { sizeof *buffers, "in", MUSTER_HOST, sizeof *in, 0, 2, 0 },
        { sizeof *buffers, "out", MUSTER_HOST, sizeof *in, 0, 2, 0 }
    };
    const struct muster_stage stage = { .size = sizeof stage,
                                        .name = "check",
                                        .stream = "host",
                                        .reads = BIT(H_IN),
                                        .writes = BIT(H_OUT),
                                        .run = check_host };
    struct muster_pipeline *pipeline;
    struct muster_job *job;
    MUST(muster_pipeline_create(m, buffers, 2, &stage, 1, NULL, &pipeline, &problem));
    const struct muster_job_desc desc = { .size = sizeof desc,
                                          .pipeline = pipeline,
                                          .items = 5 * UNIT,
                                          .input = in,
                                          .sink = check_sizes,
                                          .options = &(struct muster_run_options){
                                              .size = sizeof(struct muster_run_options),
                                              .unit_items = UNIT,
                                              /* one unit after the other */
                                              .depth = 1 } };
    MUST(muster_start(m, &desc, &job, &problem));
    MUST(muster_job_wait(job, NULL, &problem));
    muster_job_destroy(job);
    CHECK_EQUAL(0, shared.wrong);
    CHECK_STATUS(MUSTER_E_INVALID, shared.host_launch);
    muster_pipeline_destroy(pipeline);
    MUST(muster_close(m, &problem));
}

/* --- behind Muster's back ---------------------------------------------------------------------- */

/* Runs this program as --sneak; its exit status, and all that it said as far as there is room. */
static int run_sneak(char *said, size_t capacity)
{
    char *const words[] = { "pipeline_views", "--sneak", NULL };
    int ends[2], status;
    size_t length = 0;
    pid_t child;
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    CHECK(posix_spawn(&child, "/proc/self/exe", &actions, NULL, words, environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    ssize_t count;
    while (length + 1 < capacity &&
           (count = read(ends[0], said + length, capacity - 1 - length)) > 0)
        length += (size_t)count;
    said[length] = 0;
    close(ends[0]);
    CHECK(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void an_undeclared_buffer_is_a_data_race(void)
{
    static char said[65536];
    bool has_tsan = TEST_BY_SANITIZER(false, false, true);
    int status = run_sneak(said, sizeof said);
    /* It is seen when the two run beside each other, which takes two cores at the same time. */
    for (int i = 0; i < 9 && has_tsan && status == 0; i++)
        status = run_sneak(said, sizeof said);
    if (!has_tsan) {
        /* Nobody sees it: the proof covers what is declared. */
        CHECK_EQUAL(0, status);
        return;
    }
    CHECK_EQUAL(TSAN_REPORTS, status);
    CHECK_CONTAINS("data race", said);
    CHECK_CONTAINS("peek", said);
    CHECK_CONTAINS("fill_slowly", said);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(what_is_not_declared_is_refused),
        TEST(host_stages_see_host_memory_and_set_sizes),
        TEST(an_undeclared_buffer_is_a_data_race),
    };
    if (argc == 2 && strcmp(argv[1], "--sneak") == 0) {
        struct muster *m = set_up(true);
        muster_status status = run_pipeline(m);
        muster_close(m, NULL);
        return status != MUSTER_OK;
    }
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
