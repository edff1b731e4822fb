/*
 * Calls from many threads at once, within what the interface allows: different streams, one event
 * that others look at. Made for ThreadSanitizer.
 */
#include "suite.h"

#include "platform/thread.h"

#include <stdatomic.h>
#include <string.h>

#define THREADS 4
#define BYTES 3000

RIG_FUNCTION(add_one_byte)
{
    unsigned char *bytes = *(unsigned char *const *)args[0];
    for (uint64_t i = begin; i < end; i++)
        bytes[i]++;
    return MUSTER_OK;
}
RIG_CODE(add_one_byte, "KERNEL add_one_byte(HEAD, BLOCK(u8, bytes))\n"
                       "{\n"
                       "    IN(u8, bytes)\n"
                       "    EACH(at) bytes[begin + at]++;\n"
                       "}\n");

/* Tests end on their own thread, so a worker writes down what went wrong. */
struct worker {
    struct platform_thread thread;
    struct rig *rig;
    void *kernel;
    void *beacon; /* recorded by the first worker, looked at by all */
    _Atomic bool *is_over;
    uint32_t number;
    unsigned rounds;
    unsigned char host[BYTES];
    const char *problem; /* NULL: none */
    muster_status status;
};

#define TRY(call)                                                                                  \
    do {                                                                                           \
        muster_status status_ = (call);                                                            \
        if (status_ != MUSTER_OK) {                                                                \
            worker->problem = #call;                                                               \
            worker->status = status_;                                                              \
            return;                                                                                \
        }                                                                                          \
    } while (0)

/* What a worker has of its own. */
struct desk {
    void *streams[2], *written, *read;
    struct muster_memory memory;
};

static void work_round(struct worker *worker, struct desk *desk, unsigned round)
{
    const struct muster_backend *table = &worker->rig->table;
    const struct muster_place place = { .memory = &desk->memory };
    const struct muster_copy_desc copy = { .to = { .host = worker->host },
                                           .from = { .memory = &desk->memory },
                                           .bytes = BYTES };
    const struct muster_launch_arg args[] = { ARG_MEMORY(&desk->memory) };
    const struct muster_launch_desc launch = { .items = BYTES, .args = args, .arg_count = 1 };
    unsigned char value = (unsigned char)(round + worker->number);
    TRY(table->fill(desk->streams[0], &place, value, BYTES, NULL));
    if (worker->kernel)
        TRY(table->launch(desk->streams[0], worker->kernel, &launch, 1, NULL));
    TRY(table->event_record(desk->written, desk->streams[0], NULL));
    TRY(table->stream_wait(desk->streams[1], desk->written, NULL));
    TRY(table->copy(desk->streams[1], &copy, NULL));
    TRY(table->event_record(desk->read, desk->streams[1], NULL));
    if (worker->number == 0)
        TRY(table->event_record(worker->beacon, desk->streams[0], NULL));
    TRY(table->event_wait(desk->read, SOON_NS, NULL));
    value = (unsigned char)(value + (worker->kernel ? 1 : 0));
    for (int i = 0; i < BYTES; i++)
        if (worker->host[i] != value) {
            worker->problem = "what came out";
            return;
        }
}

/* Opens and closes streams, events and memory as it goes: those calls overlap too. */
static void work(void *argument)
{
    struct worker *worker = argument;
    const struct muster_backend *table = &worker->rig->table;
    void *device = worker->rig->device;
    struct desk desk = { .streams = { rig_state(table->stream_bytes),
                                      rig_state(table->stream_bytes) },
                         .written = rig_state(table->event_bytes),
                         .read = rig_state(table->event_bytes) };
    for (unsigned round = 0; round < worker->rounds && !worker->problem;) {
        for (int i = 0; i < 2; i++)
            TRY(table->stream_open(device, 0, false, desk.streams[i], NULL));
        TRY(table->event_init(device, MUSTER_EVENT_ORDER, desk.written, NULL));
        TRY(table->event_init(device, MUSTER_EVENT_ORDER, desk.read, NULL));
        TRY(table->memory_allocate(device, desk.streams[0], BYTES, &desk.memory, NULL));
        for (int i = 0; i < 10 && !worker->problem; i++)
            work_round(worker, &desk, round++);
        /* Everything on it was waited for, so it can go without a stream's help. */
        TRY(table->memory_free(device, NULL, &desk.memory, NULL));
        table->event_deinit(desk.read);
        table->event_deinit(desk.written);
        for (int i = 0; i < 2; i++)
            table->stream_close(desk.streams[i]);
    }
    rig_state_free(desk.read);
    rig_state_free(desk.written);
    for (int i = 0; i < 2; i++)
        rig_state_free(desk.streams[i]);
}

static void look_on(void *argument)
{
    struct worker *worker = argument;
    const struct muster_backend *table = &worker->rig->table;
    while (!atomic_load(worker->is_over)) {
        struct muster_device_sample sample = { .utilisation = -1 };
        muster_status query = table->event_query(worker->beacon, NULL);
        muster_status wait = table->event_wait(worker->beacon, 100000, NULL);
        if ((query != MUSTER_OK && query != MUSTER_E_BUSY) ||
            (wait != MUSTER_OK && wait != MUSTER_E_TIMEOUT)) {
            worker->problem = "event_query or event_wait";
            worker->status = query == MUSTER_OK || query == MUSTER_E_BUSY ? wait : query;
            return;
        }
        TRY(table->device_sample(worker->rig->device, &sample, NULL));
    }
}

static void threads_do_not_disturb_each_other(void)
{
    struct rig *rig = suite_open();
    void *kernel = rig_kernel_of(rig, &add_one_byte_code), *beacon = rig_event(rig);
    struct worker *workers = rig_host(rig, (THREADS + 1) * sizeof *workers);
    _Atomic bool *is_over = rig_host(rig, sizeof *is_over);
    for (uint32_t i = 0; i <= THREADS; i++) {
        workers[i].rig = rig;
        workers[i].kernel = kernel;
        workers[i].beacon = beacon;
        workers[i].is_over = is_over;
        workers[i].number = i;
        workers[i].rounds = test_repetitions(100);
        CHECK_STATUS(MUSTER_OK,
                     platform_thread_start(&workers[i].thread, i < THREADS ? work : look_on,
                                           &workers[i], "worker", NULL, &rig->err));
    }
    for (uint32_t i = 0; i <= THREADS; i++) {
        if (i == THREADS)
            atomic_store(is_over, true);
        platform_thread_join(&workers[i].thread);
    }
    for (uint32_t i = 0; i <= THREADS; i++)
        if (workers[i].problem)
            test_fail(__FILE__, __LINE__, "thread %u: %s: %s", i, workers[i].problem,
                      muster_status_name(workers[i].status));
    rig_close(rig);
}

/* Streams that depend on each other, each fed by a thread of its own, over one ring of events. */
struct relay {
    struct platform_thread thread;
    struct rig *rig;
    void *stream, *kernel;
    struct muster_memory *memory;
    void **turns;    /* turns[n] is recorded when increment n has been given */
    uint32_t *given; /* how many are, under the mutex */
    uint32_t number, total;
    struct platform_mutex *mutex;
    struct platform_condition *changed;
    muster_status status;
};

static muster_status take_turn(struct relay *relay, uint32_t turn)
{
    const struct muster_backend *table = &relay->rig->table;
    const struct muster_launch_arg args[] = { ARG_MEMORY(relay->memory) };
    const struct muster_launch_desc launch = { .items = BYTES, .args = args, .arg_count = 1 };
    muster_status status = MUSTER_OK;
    if (turn > 0)
        status = table->stream_wait(relay->stream, relay->turns[turn - 1], NULL);
    if (status == MUSTER_OK)
        status = table->launch(relay->stream, relay->kernel, &launch, 1, NULL);
    if (status == MUSTER_OK)
        status = table->event_record(relay->turns[turn], relay->stream, NULL);
    return status;
}

static void run_relay(void *argument)
{
    struct relay *relay = argument;
    uint64_t deadline_ns = platform_deadline_ns(SOON_NS);
    for (uint32_t turn = relay->number; turn < relay->total; turn += THREADS) {
        platform_mutex_lock(relay->mutex);
        bool in_time = true;
        while (*relay->given < turn && in_time)
            in_time = platform_condition_wait(relay->changed, relay->mutex, deadline_ns);
        platform_mutex_unlock(relay->mutex);
        muster_status status = in_time ? take_turn(relay, turn) : MUSTER_E_TIMEOUT;
        if (status != MUSTER_OK)
            relay->status = status;
        platform_mutex_lock(relay->mutex);
        (*relay->given)++;
        platform_condition_wake_all(relay->changed);
        platform_mutex_unlock(relay->mutex);
    }
}

/* The bytes are plain memory: two increments that were not ordered would be a race. */
static void work_is_handed_from_thread_to_thread(void)
{
    enum { TURNS = 120 };
    struct rig *rig = suite_open();
    void *kernel = rig_kernel_of(rig, &add_one_byte_code);
    if (!kernel) {
        rig_leave_out(rig, "it runs no kernels");
        return;
    }
    struct muster_memory *memory = rig_memory(rig, BYTES);
    unsigned char *host = rig_host(rig, BYTES);
    struct relay *relays = rig_host(rig, THREADS * sizeof *relays);
    void **turns = rig_host(rig, TURNS * sizeof *turns);
    uint32_t *given = rig_host(rig, sizeof *given);
    struct platform_mutex *mutex = rig_host(rig, sizeof *mutex);
    struct platform_condition *changed = rig_host(rig, sizeof *changed);
    CHECK_STATUS(MUSTER_OK, platform_mutex_init(mutex, NULL));
    CHECK_STATUS(MUSTER_OK, platform_condition_init(changed, NULL));
    for (int i = 0; i < TURNS; i++)
        turns[i] = rig_event(rig);
    void *last = rig_stream(rig);
    rig_fill(rig, last, memory, 0, 0, BYTES);
    FINISHES(rig, last);
    for (uint32_t i = 0; i < THREADS; i++) {
        relays[i] = (struct relay){ .rig = rig,
                                    .stream = rig_stream(rig),
                                    .kernel = kernel,
                                    .memory = memory,
                                    .turns = turns,
                                    .given = given,
                                    .number = i,
                                    .total = TURNS,
                                    .mutex = mutex,
                                    .changed = changed };
        CHECK_STATUS(MUSTER_OK, platform_thread_start(&relays[i].thread, run_relay, &relays[i],
                                                      "relay", NULL, &rig->err));
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        platform_thread_join(&relays[i].thread);
        CHECK_STATUS(MUSTER_OK, relays[i].status);
    }
    DO(rig, stream_wait, last, turns[TURNS - 1]);
    rig_copy_out(rig, last, host, memory, 0, BYTES);
    FINISHES(rig, last);
    for (int i = 0; i < BYTES; i++)
        CHECK_EQUAL(TURNS, host[i]);
    platform_condition_deinit(changed);
    platform_mutex_deinit(mutex);
    rig_close(rig);
}

static const struct test tests[] = {
    TEST(threads_do_not_disturb_each_other),
    TEST(work_is_handed_from_thread_to_thread),
};
SUITE_PART(threads);
