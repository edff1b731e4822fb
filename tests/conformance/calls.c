/*
 * Host calls: once each, in stream order, whatever becomes of the stream.
 */
#include "suite.h"

#define CALLS_MAX 3000

/*
 * What a stream's calls write down. Calls of one stream follow each other, and the event behind
 * them publishes what they wrote: plain memory, so that ThreadSanitizer sees a backend that breaks
 * this.
 */
struct log {
    uint32_t count;
    struct entry {
        uint32_t number;
        muster_status status;
    } entries[CALLS_MAX];
};

struct call {
    struct log *log;
    uint32_t number;
};

static void write_down(void *user, muster_status status)
{
    const struct call *call = user;
    struct log *log = call->log;
    if (log->count < CALLS_MAX)
        log->entries[log->count] = (struct entry){ call->number, status };
    log->count++;
}

static bool has_calls(struct rig *rig)
{
    if (rig->given->host_call)
        return true;
    void *stream = rig_stream(rig);
    REFUSED(rig, MUSTER_E_NOT_SUPPORTED, host_call, stream, write_down, NULL);
    return false;
}

static struct call *calls_for(struct rig *rig, struct log *log, uint32_t count)
{
    struct call *calls = rig_host(rig, count * sizeof *calls);
    for (uint32_t i = 0; i < count; i++)
        calls[i] = (struct call){ log, i };
    return calls;
}

static void calls_come_once_each_and_in_order(void)
{
    enum { STREAMS = 3, CALLS = 1000 };
    struct rig *rig = suite_open();
    if (!has_calls(rig)) {
        rig_leave_out(rig, "it makes no calls");
        return;
    }
    void *streams[STREAMS];
    struct log *logs[STREAMS];
    struct call *calls[STREAMS];
    struct muster_memory *memory = rig_memory(rig, STREAMS);
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = rig_stream(rig);
        logs[i] = rig_host(rig, sizeof *logs[i]);
        calls[i] = calls_for(rig, logs[i], CALLS);
    }
    for (uint32_t call = 0; call < CALLS; call++)
        for (int i = 0; i < STREAMS; i++) {
            if (call % 7 == 0)
                rig_fill(rig, streams[i], memory, (uint64_t)i, 1, 1);
            DO(rig, host_call, streams[i], write_down, &calls[i][call]);
        }
    for (int i = 0; i < STREAMS; i++) {
        FINISHES(rig, streams[i]);
        CHECK_EQUAL(CALLS, logs[i]->count);
        for (uint32_t call = 0; call < CALLS; call++) {
            CHECK_EQUAL(call, logs[i]->entries[call].number);
            CHECK_STATUS(MUSTER_OK, logs[i]->entries[call].status);
        }
    }
    rig_close(rig);
}

struct witness {
    const unsigned char *bytes;
    unsigned char seen;
};

static void look(void *user, muster_status status)
{
    struct witness *witness = user;
    (void)status;
    witness->seen = *witness->bytes;
}

/* A call sees what was done before it, and what comes after waits for it. */
static void a_call_has_its_place_in_the_stream(void)
{
    struct rig *rig = suite_open();
    if (!has_calls(rig)) {
        rig_leave_out(rig, "it makes no calls");
        return;
    }
    void *gate = rig_gate(rig), *stream = rig_stream(rig), *other = rig_stream(rig);
    void *called = rig_event(rig);
    struct muster_memory *memory = rig_memory(rig, 1);
    unsigned char *host = rig_host(rig, 1);
    struct witness *witness = rig_host(rig, 2 * sizeof *witness);
    witness[0].bytes = witness[1].bytes = host;
    rig_hold(rig, gate, stream);
    for (int i = 0; i < 2; i++) {
        rig_fill(rig, stream, memory, 0, (uint8_t)(20 + i), 1);
        rig_copy_out(rig, stream, host, memory, 0, 1);
        DO(rig, host_call, stream, look, &witness[i]);
    }
    DO(rig, event_record, called, stream);
    DO(rig, stream_wait, other, called);
    NOT_YET(rig, gate, called);
    rig_release(rig, gate);
    FINISHES(rig, other);
    CHECK_EQUAL(20, witness[0].seen);
    CHECK_EQUAL(21, witness[1].seen);
    rig_close(rig);
}

RIG_FUNCTION(fail)
{
    (void)begin, (void)end, (void)args;
    return MUSTER_E_FAILED;
}

static void calls_come_also_after_a_failure(void)
{
    enum { CALLS = 20 };
    struct rig *rig = suite_open();
    void *kernel = rig_kernel(rig, fail);
    if (!has_calls(rig) || !kernel) {
        rig_leave_out(rig, "it makes no calls or runs no kernels");
        return;
    }
    void *gate = rig_gate(rig), *stream = rig_stream(rig), *waiting = rig_stream(rig);
    void *failed = rig_event(rig);
    struct log *log = rig_host(rig, sizeof *log), *waiting_log = rig_host(rig, sizeof *log);
    struct call *calls = calls_for(rig, log, CALLS);
    struct call *waiting_calls = calls_for(rig, waiting_log, 1);
    rig_hold(rig, gate, stream);
    DO(rig, host_call, stream, write_down, &calls[0]);
    rig_launch(rig, stream, kernel, 0, 1, NULL, 0, NULL);
    for (int i = 1; i < CALLS; i++)
        DO(rig, host_call, stream, write_down, &calls[i]);
    DO(rig, event_record, failed, stream);
    DO(rig, stream_wait, waiting, failed);
    DO(rig, host_call, waiting, write_down, &waiting_calls[0]);
    rig_release(rig, gate);
    ENDS_WITH(rig, MUSTER_E_STREAM_FAILED, stream);
    ENDS_WITH(rig, MUSTER_E_STREAM_FAILED, waiting);
    CHECK_EQUAL(CALLS, log->count);
    for (uint32_t i = 0; i < CALLS; i++) {
        CHECK_EQUAL(i, log->entries[i].number);
        CHECK_STATUS(i == 0 ? MUSTER_OK : MUSTER_E_STREAM_FAILED, log->entries[i].status);
    }
    CHECK_EQUAL(1, waiting_log->count);
    CHECK_STATUS(MUSTER_E_STREAM_FAILED, waiting_log->entries[0].status);
    rig_close(rig);
}

static void calls_come_also_on_a_closed_stream(void)
{
    enum { CALLS = 50 };
    struct rig *rig = suite_open();
    if (!has_calls(rig)) {
        rig_leave_out(rig, "it makes no calls");
        return;
    }
    void *gate = rig_gate(rig), *stream = rig_stream(rig), *done = rig_event(rig);
    struct log *log = rig_host(rig, sizeof *log);
    struct call *calls = calls_for(rig, log, CALLS);
    rig_hold(rig, gate, stream);
    for (int i = 0; i < CALLS; i++)
        DO(rig, host_call, stream, write_down, &calls[i]);
    DO(rig, event_record, done, stream);
    rig_stream_close(rig, stream);
    rig_release(rig, gate);
    COMPLETES(rig, MUSTER_OK, done);
    CHECK_EQUAL(CALLS, log->count);
    rig_close(rig);
}

static const struct test tests[] = {
    TEST(calls_come_once_each_and_in_order),
    TEST(a_call_has_its_place_in_the_stream),
    TEST(calls_come_also_after_a_failure),
    TEST(calls_come_also_on_a_closed_stream),
};
SUITE_PART(calls);
