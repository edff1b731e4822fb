/*
 * Gates: counters that streams wait for and the host publishes.
 */
#include "suite.h"

#include "platform/thread.h"

/* False, after the refusal was checked, on a device without gates. */
static bool has_gates(struct rig *rig)
{
    if (rig_holds_nothing())
        return false;
    if (rig->info->capabilities & MUSTER_CAN_WAIT_VALUE)
        return true;
    void *state = rig_state(rig->table.gate_bytes);
    REFUSED(rig, MUSTER_E_NOT_SUPPORTED, gate_init, rig->device, state);
    rig_state_free(state);
    return false;
}

static void a_gate_opens_at_its_value(void)
{
    struct rig *rig = suite_open();
    if (has_gates(rig)) {
        void *gate = rig_gate(rig), *stream = rig_stream(rig), *event = rig_event(rig);
        DO(rig, gate_wait, gate, stream, 10);
        DO(rig, event_record, event, stream);
        NOT_YET(rig, gate, event);
        DO(rig, gate_publish, gate, 9);
        NOT_YET(rig, gate, event);
        DO(rig, gate_publish, gate, 10);
        COMPLETES(rig, MUSTER_OK, event);
        /* Reached from then on, also for lower values, also beyond 32 bits. */
        DO(rig, gate_wait, gate, stream, 0);
        DO(rig, gate_wait, gate, stream, 7);
        DO(rig, gate_wait, gate, stream, 10);
        FINISHES(rig, stream);
        DO(rig, gate_wait, gate, stream, UINT64_C(1) << 40);
        DO(rig, event_record, event, stream);
        DO(rig, gate_publish, gate, (UINT64_C(1) << 40) - 1);
        NOT_YET(rig, gate, event);
        DO(rig, gate_publish, gate, (UINT64_C(1) << 40) + 5);
        COMPLETES(rig, MUSTER_OK, event);
    }
    rig_close(rig);
}

static void values_are_released_in_any_order(void)
{
    enum { STREAMS = 6 };
    static const uint64_t values[STREAMS] = { 5, 2, 6, 1, 4, 3 };
    struct rig *rig = suite_open();
    if (has_gates(rig)) {
        void *gate = rig_gate(rig), *events[STREAMS];
        for (int i = 0; i < STREAMS; i++) {
            void *stream = rig_stream(rig);
            events[i] = rig_event(rig);
            DO(rig, gate_wait, gate, stream, values[i]);
            DO(rig, event_record, events[i], stream);
        }
        static const uint64_t published[] = { 1, 4, 6 };
        for (size_t step = 0; step < sizeof published / sizeof *published; step++) {
            DO(rig, gate_publish, gate, published[step]);
            for (int i = 0; i < STREAMS; i++)
                if (values[i] <= published[step])
                    COMPLETES(rig, MUSTER_OK, events[i]);
                else
                    NOT_YET(rig, gate, events[i]);
        }
    }
    rig_close(rig);
}

static void gates_do_not_disturb_each_other(void)
{
    struct rig *rig = suite_open();
    if (has_gates(rig)) {
        void *gates[2] = { rig_gate(rig), rig_gate(rig) };
        void *streams[2] = { rig_stream(rig), rig_stream(rig) };
        void *events[2] = { rig_event(rig), rig_event(rig) };
        for (int i = 0; i < 2; i++) {
            DO(rig, gate_wait, gates[i], streams[i], 1);
            DO(rig, event_record, events[i], streams[i]);
        }
        DO(rig, gate_publish, gates[1], 1);
        COMPLETES(rig, MUSTER_OK, events[1]);
        NOT_YET(rig, gates[0], events[0]);
        DO(rig, gate_publish, gates[0], 1);
        COMPLETES(rig, MUSTER_OK, events[0]);
    }
    rig_close(rig);
}

/* As many as can be queued behind the first, where copies need calls. */
#define GENERATIONS MUSTER_QUEUED_CALLS_MIN

struct publisher {
    struct platform_thread thread;
    struct rig *rig;
    void *gate;
    void *events[GENERATIONS];
    muster_status status;
};

/* Publishes each generation once the work of the one before is done. */
static void publish(void *argument)
{
    struct publisher *publisher = argument;
    struct muster_backend *table = &publisher->rig->table;
    for (uint64_t i = 0; i < GENERATIONS && publisher->status == MUSTER_OK; i++) {
        publisher->status = table->gate_publish(publisher->gate, i + 1, NULL);
        if (publisher->status == MUSTER_OK)
            publisher->status = table->event_wait(publisher->events[i], SOON_NS, NULL);
    }
}

static void a_gate_serves_many_generations(void)
{
    struct rig *rig = suite_open();
    if (has_gates(rig)) {
        void *stream = rig_stream(rig);
        struct muster_memory *memory = rig_memory(rig, GENERATIONS);
        unsigned char *host = rig_host(rig, GENERATIONS);
        struct publisher *publisher = rig_host(rig, sizeof *publisher);
        publisher->rig = rig;
        publisher->gate = rig_gate(rig);
        for (uint64_t i = 0; i < GENERATIONS; i++) {
            publisher->events[i] = rig_event(rig);
            DO(rig, gate_wait, publisher->gate, stream, i + 1);
            rig_fill(rig, stream, memory, i, (uint8_t)(i * 3 + 1), 1);
            rig_copy_out(rig, stream, host + i, memory, i, 1);
            DO(rig, event_record, publisher->events[i], stream);
        }
        CHECK_STATUS(MUSTER_OK, platform_thread_start(&publisher->thread, publish, publisher,
                                                      "publisher", NULL, &rig->err));
        platform_thread_join(&publisher->thread);
        CHECK_STATUS(MUSTER_OK, publisher->status);
        for (int i = 0; i < GENERATIONS; i++)
            CHECK_EQUAL((uint8_t)(i * 3 + 1), host[i]);
    }
    rig_close(rig);
}

static const struct test tests[] = {
    TEST(a_gate_opens_at_its_value),
    TEST(values_are_released_in_any_order),
    TEST(gates_do_not_disturb_each_other),
    TEST(a_gate_serves_many_generations),
};
SUITE_PART(gates);
