/*
 * A lane never holds more units than the proof of its gates counts on, whatever depth is asked for.
 */
#include "support.h"

#define UNITS 8

static atomic_uint begun; /* units of which 'early' was enqueued */

static muster_status nothing(struct muster_unit *unit, void *user)
{
    (void)unit;
    (void)user;
    return MUSTER_OK;
}

static muster_status count(struct muster_unit *unit, void *user)
{
    (void)unit;
    (void)user;
    atomic_fetch_add(&begun, 1);
    return MUSTER_OK;
}

/* Gives the lane time to run ahead, if it does: then 'early' of unit 3 gets in before 'late' of 0. */
static muster_status let_others_in(struct muster_unit *unit, void *user)
{
    (void)user;
    uint64_t first, behind;
    muster_unit_range(unit, &first, &behind);
    for (int ms = 0; first == 0 && ms < 100 && atomic_load(&begun) < 4; ms++)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    return MUSTER_OK;
}

/*
 * 'early' of a unit waits for 'apply' of two units before, and that for the gate of 'finish' of one
 * before it. With two units at a time that is safe; with four, 'late' of the first could be queued
 * behind 'early' of the fourth, and nothing would ever go on.
 */
static void a_depth_beyond_the_proof_is_not_used(void)
{
    enum { TABLE = 1, Y = 2, Z = 4 };
    struct muster *m = open_plain();
    const struct muster_buffer buffers[] = {
        { sizeof *buffers, "table", MUSTER_HOST, 0, 8, 1, MUSTER_CARRIED },
        { sizeof *buffers, "y", MUSTER_HOST, 8, 0, 1, 0 },
        { sizeof *buffers, "z", MUSTER_DEVICE, 8, 0, 1, 0 },
    };
    const struct muster_stage stages[] = {
        { sizeof *stages, "apply", "c", .reads = TABLE, .run = nothing },
        { sizeof *stages, "early", "q", .reads = Z, .writes = Z, .run = count },
        { sizeof *stages, "plan", "host", .run = let_others_in },
        { sizeof *stages, "late", "q", .reads = Y, .writes = Y, .run = nothing },
        { sizeof *stages, "finish", "host", .reads = Y, .writes = TABLE, .run = nothing },
    };
    const struct muster_edge edges[] = { { sizeof *edges, 0, 1, 2 } };
    const struct muster_pipeline_options options = {
        .size = sizeof options, .edges = edges, .edge_count = 1, .schedule = MUSTER_SCHEDULE_GATED
    };
    struct muster_pipeline *pipeline;
    struct muster_job *job;
    MUST(muster_pipeline_create(m, buffers, COUNT_OF(buffers), stages, COUNT_OF(stages), &options,
                                &pipeline, &problem));
    struct muster_job_desc desc = { .size = sizeof desc,
                                    .items = UNITS,
                                    .pipeline = pipeline,
                                    .options = &(struct muster_run_options){
                                        .size = sizeof(struct muster_run_options),
                                        .unit_items = 1,
                                        .depth = UNITS } };
    MUST(muster_start(m, &desc, &job, &problem));
    MUST(muster_job_wait(job, NULL, &problem));
    muster_job_destroy(job);
    muster_pipeline_destroy(pipeline);
    MUST(muster_close(m, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(a_depth_beyond_the_proof_is_not_used) };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
