/*
 * What a failing kernel does to its stream and to those that wait for it, and to nobody else.
 */
#include "suite.h"

/* Fails with the status it is given, in any of its parts. */
RIG_FUNCTION(fail_with)
{
    (void)begin, (void)end;
    return *(const muster_status *)args[0];
}

RIG_FUNCTION(mark)
{
    unsigned char *bytes = *(unsigned char *const *)args[0];
    for (uint64_t i = begin; i < end; i++)
        bytes[i] = 1;
    return MUSTER_OK;
}

static void launch_failure(struct rig *rig, void *stream, void *kernel, muster_status failure,
                           muster_status *result)
{
    const struct muster_launch_arg args[] = { ARG_VALUE(failure) };
    rig_launch(rig, stream, kernel, 0, 100, args, 1, result);
}

static void a_reported_failure_leaves_the_stream_alone(void)
{
    struct rig *rig = suite_open();
    void *failing = rig_kernel(rig, fail_with), *marking = rig_kernel(rig, mark);
    if (failing) {
        void *gate = rig_gate(rig), *stream = rig_stream(rig);
        struct muster_memory *memory = rig_memory(rig, 10);
        unsigned char *host = rig_host(rig, 10);
        muster_status *results = rig_host(rig, 3 * sizeof *results);
        const struct muster_launch_arg args[] = { ARG_MEMORY(memory) };
        rig_fill(rig, stream, memory, 0, 0, 10);
        rig_hold(rig, gate, stream);
        launch_failure(rig, stream, failing, MUSTER_E_FAILED, &results[0]);
        rig_launch(rig, stream, marking, 0, 10, args, 1, &results[1]);
        launch_failure(rig, stream, failing, MUSTER_E_IO, &results[2]);
        rig_copy_out(rig, stream, host, memory, 0, 10);
        rig_release(rig, gate);
        FINISHES(rig, stream);
        CHECK_STATUS(MUSTER_E_FAILED, results[0]);
        CHECK_STATUS(MUSTER_OK, results[1]);
        CHECK_STATUS(MUSTER_E_IO, results[2]);
        CHECK_EQUAL(1, host[9]);
        CHECK_STATUS(MUSTER_OK, rig->table.stream_query(stream, &rig->err));
    }
    rig_close(rig);
}

static void an_unreported_failure_fails_the_stream(void)
{
    /* Whatever the kernel says, also what looks like another's failure. */
    static const muster_status failures[] = { MUSTER_E_FAILED, MUSTER_E_STREAM_FAILED,
                                              MUSTER_E_DEVICE_LOST, MUSTER_E_DEVICE_HUNG,
                                              MUSTER_E_INTERNAL };
    struct rig *rig = suite_open();
    void *failing = rig_kernel(rig, fail_with), *marking = rig_kernel(rig, mark);
    for (size_t i = 0; failing && i < sizeof failures / sizeof *failures; i++) {
        void *gate = rig_gate(rig), *stream = rig_stream(rig), *other = rig_stream(rig);
        void *before = rig_event(rig), *after = rig_event(rig);
        struct muster_memory *memory = rig_memory(rig, 10);
        unsigned char *host = rig_host(rig, 10);
        const struct muster_launch_arg args[] = { ARG_MEMORY(memory) };
        rig_fill(rig, other, memory, 0, 0, 10);
        FINISHES(rig, other);
        rig_hold(rig, gate, stream);
        DO(rig, event_record, before, stream);
        launch_failure(rig, stream, failing, failures[i], NULL);
        rig_launch(rig, stream, marking, 0, 10, args, 1, NULL);
        rig_fill(rig, stream, memory, 0, 2, 10);
        DO(rig, event_record, after, stream);
        NOT_YET(rig, gate, after);
        rig_release(rig, gate);
        COMPLETES(rig, MUSTER_OK, before);
        COMPLETES(rig, MUSTER_E_STREAM_FAILED, after);
        CHECK_STATUS(MUSTER_E_STREAM_FAILED, rig->table.event_query(after, &rig->err));
        CHECK_STATUS(MUSTER_E_STREAM_FAILED, rig->table.stream_query(stream, &rig->err));
        /* Given later it is skipped as well. */
        rig_fill(rig, stream, memory, 0, 3, 10);
        ENDS_WITH(rig, MUSTER_E_STREAM_FAILED, stream);
        /* Nothing that came after the failure was done, and others work on. */
        rig_copy_out(rig, other, host, memory, 0, 10);
        FINISHES(rig, other);
        CHECK_EQUAL(0, host[9]);
        rig_stream_close(rig, stream);
    }
    rig_close(rig);
}

static void a_failure_spreads_along_waits_only(void)
{
    struct rig *rig = suite_open();
    void *failing = rig_kernel(rig, fail_with);
    if (failing) {
        void *gate = rig_gate(rig), *stream = rig_stream(rig);
        void *first = rig_stream(rig), *second = rig_stream(rig), *early = rig_stream(rig);
        void *before = rig_event(rig), *after = rig_event(rig), *further = rig_event(rig);
        struct muster_memory *memory = rig_memory(rig, 3);
        unsigned char *host = rig_host(rig, 3);
        rig_fill(rig, early, memory, 0, 0, 3);
        FINISHES(rig, early);
        rig_hold(rig, gate, stream);
        DO(rig, event_record, before, stream);
        launch_failure(rig, stream, failing, MUSTER_E_FAILED, NULL);
        DO(rig, event_record, after, stream);
        /* One that waits for what was before the failure, one for it, one for that one. */
        DO(rig, stream_wait, early, before);
        rig_fill(rig, early, memory, 0, 1, 1);
        DO(rig, stream_wait, first, after);
        rig_fill(rig, first, memory, 1, 1, 1);
        DO(rig, event_record, further, first);
        DO(rig, stream_wait, second, further);
        rig_fill(rig, second, memory, 2, 1, 1);
        rig_release(rig, gate);
        ENDS_WITH(rig, MUSTER_E_STREAM_FAILED, first);
        ENDS_WITH(rig, MUSTER_E_STREAM_FAILED, second);
        FINISHES(rig, early);
        rig_copy_out(rig, early, host, memory, 0, 3);
        FINISHES(rig, early);
        CHECK_EQUAL(1, host[0]);
        CHECK_EQUAL(0, host[1]);
        CHECK_EQUAL(0, host[2]);
    }
    rig_close(rig);
}

/* An event that completed with a failure is as good as new when it is recorded again. */
static void a_failed_event_can_be_recorded_again(void)
{
    struct rig *rig = suite_open();
    void *failing = rig_kernel(rig, fail_with);
    if (failing) {
        void *stream = rig_stream(rig), *other = rig_stream(rig), *event = rig_event(rig);
        launch_failure(rig, stream, failing, MUSTER_E_FAILED, NULL);
        DO(rig, event_record, event, stream);
        COMPLETES(rig, MUSTER_E_STREAM_FAILED, event);
        DO(rig, event_record, event, other);
        COMPLETES(rig, MUSTER_OK, event);
        DO(rig, stream_wait, other, event);
        FINISHES(rig, other);
    }
    rig_close(rig);
}

/* A failed stream costs nobody anything: it is closed and another is opened. */
static void streams_can_fail_again_and_again(void)
{
    struct rig *rig = suite_open();
    void *failing = rig_kernel(rig, fail_with);
    struct muster_memory *memory = rig_memory(rig, 10);
    for (int i = 0; failing && i < 50; i++) {
        void *stream = rig_stream(rig), *good = rig_stream(rig);
        launch_failure(rig, stream, failing, MUSTER_E_FAILED, NULL);
        rig_fill(rig, good, memory, 0, 1, 10);
        ENDS_WITH(rig, MUSTER_E_STREAM_FAILED, stream);
        FINISHES(rig, good);
        rig_stream_close(rig, stream);
        rig_stream_close(rig, good);
    }
    rig_close(rig);
}

static const struct test tests[] = {
    TEST(a_reported_failure_leaves_the_stream_alone), TEST(an_unreported_failure_fails_the_stream),
    TEST(a_failure_spreads_along_waits_only),         TEST(a_failed_event_can_be_recorded_again),
    TEST(streams_can_fail_again_and_again),
};
SUITE_PART(failures);
