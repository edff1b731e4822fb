/*
 * What only simulated devices do: take the time they are described with, slow down, hang, go away
 * and fail, each at a launch that the description names, so that it happens at the same place every
 * time. What they have in common with other devices is in tests/conformance.
 */
#include "backend/sim/sim.h"

#include "backend/queue.h"
#include "conformance/rig.h"
#include "platform/thread.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

/* A thousand items a millisecond. */
#define RATE "\"items_per_s\": 1e6, \"memory\": \"64MiB\""

static struct rig *open_sim(const char *description)
{
    return rig_open(&backend_sim, description);
}

static muster_status do_nothing(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end, (void)args;
    return MUSTER_OK;
}

static muster_status mark(uint64_t begin, uint64_t end, void *const *args)
{
    unsigned char *bytes = *(unsigned char *const *)args[0];
    for (uint64_t i = begin; i < end; i++)
        bytes[i] = 1;
    return MUSTER_OK;
}

static void launch(struct rig *rig, void *stream, void *kernel, uint64_t items,
                   muster_status *result)
{
    rig_launch(rig, stream, kernel, 0, items, NULL, 0, result);
}

/* How many milliseconds, rounded down, until all of the stream is done. */
static uint64_t time_of(struct rig *rig, void *stream, uint64_t begin_ns)
{
    FINISHES(rig, stream);
    return (platform_clock_ns() - begin_ns) / MS;
}

static void launches_take_their_time(void)
{
    struct rig *rig = open_sim("[{" RATE ", \"launch_ns\": 2000000}]");
    void *stream = rig_stream(rig), *other = rig_stream(rig);
    void *kernel = rig_kernel(rig, do_nothing);
    uint64_t begin_ns = platform_clock_ns();
    launch(rig, stream, kernel, 3000, NULL);
    CHECK(time_of(rig, stream, begin_ns) >= 5);
    /* One computes at a time, however many streams there are. */
    begin_ns = platform_clock_ns();
    launch(rig, stream, kernel, 3000, NULL);
    launch(rig, other, kernel, 3000, NULL);
    FINISHES(rig, stream);
    CHECK(time_of(rig, other, begin_ns) >= 10);
    rig_close(rig);
}

static void copies_take_their_time(void)
{
    enum { BYTES = 5000000 };
    struct rig *rig = open_sim("[{" RATE ", \"h2d_bytes_per_s\": 1e9, \"d2h_bytes_per_s\": 5e8}]");
    void *stream = rig_stream(rig);
    void *begin = rig_event_on(rig, rig->device, MUSTER_EVENT_TIMING);
    void *end = rig_event_on(rig, rig->device, MUSTER_EVENT_TIMING);
    struct muster_memory *memory = rig_memory(rig, BYTES);
    char *host = rig_host(rig, BYTES);
    uint64_t begin_ns = platform_clock_ns(), ns;
    rig_copy_in(rig, stream, memory, 0, host, BYTES);
    CHECK(time_of(rig, stream, begin_ns) >= 5);
    DO(rig, event_record, begin, stream);
    rig_copy_out(rig, stream, host, memory, 0, BYTES);
    DO(rig, event_record, end, stream);
    FINISHES(rig, stream);
    DO(rig, event_elapsed, begin, end, &ns);
    CHECK(ns >= 10 * MS);
    rig_close(rig);
}

static void a_slow_spell_slows(void)
{
    struct rig *rig = open_sim(
        "[{" RATE ", \"faults\": [{\"kind\": \"slow\", \"at_launch\": 2, \"factor\": 0.1}]}]");
    void *stream = rig_stream(rig), *kernel = rig_kernel(rig, do_nothing);
    launch(rig, stream, kernel, 1000, NULL);
    FINISHES(rig, stream);
    for (int i = 0; i < 2; i++) {
        uint64_t begin_ns = platform_clock_ns();
        launch(rig, stream, kernel, 1000, NULL);
        CHECK(time_of(rig, stream, begin_ns) >= 10);
    }
    rig_close(rig);
}

/* A reported failure is the launch's own; the kernel has not run. */
static void a_unit_error_hits_its_launch_alone(void)
{
    struct rig *rig =
        open_sim("[{" RATE ", \"faults\": [{\"kind\": \"unit_error\", \"at_launch\": 2}]}]");
    void *stream = rig_stream(rig), *kernel = rig_kernel(rig, mark);
    struct muster_memory *memory = rig_memory(rig, 3);
    unsigned char *host = rig_host(rig, 3);
    muster_status *results = rig_host(rig, 3 * sizeof *results);
    const struct muster_launch_arg args[] = { ARG_MEMORY(memory) };
    rig_fill(rig, stream, memory, 0, 0, 3);
    for (uint64_t i = 0; i < 3; i++)
        rig_launch(rig, stream, kernel, i, 1, args, 1, &results[i]);
    rig_copy_out(rig, stream, host, memory, 0, 3);
    FINISHES(rig, stream);
    CHECK_STATUS(MUSTER_OK, results[0]);
    CHECK_STATUS(MUSTER_E_FAILED, results[1]);
    CHECK_STATUS(MUSTER_OK, results[2]);
    CHECK(host[0] == 1 && host[1] == 0 && host[2] == 1);
    rig_close(rig);
}

static void a_unit_error_without_a_result_fails_the_stream(void)
{
    struct rig *rig =
        open_sim("[{" RATE ", \"faults\": [{\"kind\": \"unit_error\", \"at_launch\": 1}]}]");
    void *stream = rig_stream(rig), *other = rig_stream(rig);
    void *kernel = rig_kernel(rig, do_nothing);
    launch(rig, stream, kernel, 1, NULL);
    ENDS_WITH(rig, MUSTER_E_STREAM_FAILED, stream);
    launch(rig, other, kernel, 1, NULL);
    FINISHES(rig, other);
    rig_close(rig);
}

static void memory_is_bounded_and_can_fail(void)
{
    struct rig *rig =
        open_sim("[{" RATE ", \"faults\": [{\"kind\": \"memory\", \"at_launch\": 1}]}]");
    void *stream = rig_stream(rig), *kernel = rig_kernel(rig, do_nothing);
    struct muster_memory refused = { .bytes = 0 };
    struct muster_device_sample sample = { .utilisation = -1 };
    struct muster_memory *memory = rig_memory(rig, 60 << 20);
    DO(rig, device_sample, rig->device, &sample);
    CHECK_EQUAL(64 << 20, sample.memory_total);
    CHECK_EQUAL(4 << 20, sample.memory_free);
    REFUSED(rig, MUSTER_E_DEVICE_MEMORY, memory_allocate, rig->device, NULL, (4 << 20) + 1,
            &refused);
    rig_memory_free(rig, NULL, memory);
    rig_memory_free(rig, NULL, rig_memory(rig, 64 << 20));
    launch(rig, stream, kernel, 1, NULL);
    FINISHES(rig, stream);
    REFUSED(rig, MUSTER_E_DEVICE_MEMORY, memory_allocate, rig->device, NULL, 1, &refused);
    DO(rig, device_sample, rig->device, &sample);
    CHECK_EQUAL(64 << 20, sample.memory_free);
    rig_close(rig);
}

struct call {
    uint32_t count;
    muster_status status;
};

static void note_call(void *user, muster_status status)
{
    struct call *call = user;
    call->count++;
    call->status = status;
}

/* Every slot that can answer does so, and with nothing else. */
static void check_all_calls_say_lost(struct rig *rig, void *stream, void *event, void *gate,
                                     void *kernel, struct muster_memory *memory)
{
    enum { LOST = MUSTER_E_DEVICE_LOST };
    struct muster_device_sample sample = { .utilisation = -1 };
    struct muster_memory out;
    const struct muster_place place = { .memory = memory };
    const struct muster_copy_desc copy = { .to = place,
                                           .from = { .memory = memory, .offset = 5 },
                                           .bytes = 5 };
    const struct muster_launch_desc one = { .items = 1 };
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = do_nothing };
    void *states[] = { rig_state(rig->table.stream_bytes), rig_state(rig->table.event_bytes),
                       rig_state(rig->table.gate_bytes), rig_state(rig->table.kernel_bytes) };
    REFUSED(rig, LOST, device_sample, rig->device, &sample);
    REFUSED(rig, LOST, memory_allocate, rig->device, stream, 1, &out);
    REFUSED(rig, LOST, memory_allocate, rig->device, NULL, UINT64_MAX, &out);
    REFUSED(rig, LOST, memory_free, rig->device, stream, memory);
    REFUSED(rig, LOST, memory_free, rig->device, NULL, memory);
    REFUSED(rig, LOST, stream_open, rig->device, 0, false, states[0]);
    REFUSED(rig, LOST, stream_wait, stream, event);
    REFUSED(rig, LOST, stream_query, stream);
    REFUSED(rig, LOST, event_init, rig->device, MUSTER_EVENT_ORDER, states[1]);
    REFUSED(rig, LOST, event_record, event, stream);
    REFUSED(rig, LOST, gate_init, rig->device, states[2]);
    REFUSED(rig, LOST, gate_publish, gate, 1);
    REFUSED(rig, LOST, gate_wait, gate, stream, 1);
    REFUSED(rig, LOST, copy, stream, &copy);
    REFUSED(rig, LOST, fill, stream, &place, 1, 5);
    REFUSED(rig, LOST, host_call, stream, note_call, NULL);
    REFUSED(rig, LOST, kernel_init, rig->device, &form, states[3]);
    REFUSED(rig, LOST, launch, stream, kernel, &one, 1);
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        rig_state_free(states[i]);
}

/*
 * The second launch takes the device away. By then streams are idle, in a copy, behind a wait,
 * behind a gate and behind the launch itself: everything of theirs ends.
 */
static void a_lost_device_ends_everything(void)
{
    enum { BYTES = 1000000 };
    struct rig *rig = open_sim("[{" RATE ", \"h2d_bytes_per_s\": 1e3,"
                               "  \"faults\": [{\"kind\": \"lost\", \"at_launch\": 2}]}]");
    void *kernel = rig_kernel(rig, mark), *gate = rig_gate(rig), *start = rig_gate(rig);
    enum { DOOMED, COPYING, WAITING, GATED, STREAMS };
    void *streams[STREAMS], *events[STREAMS], *never = rig_event(rig), *before = rig_event(rig);
    struct call *calls = rig_host(rig, STREAMS * sizeof *calls);
    muster_status *result = rig_host(rig, sizeof *result);
    struct muster_memory *memory = rig_memory(rig, BYTES);
    char *host = rig_host(rig, BYTES);
    const struct muster_launch_arg args[] = { ARG_MEMORY(memory) };
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = rig_stream(rig);
        events[i] = rig_event(rig);
    }
    rig_launch(rig, streams[DOOMED], kernel, 0, 1, args, 1, NULL);
    DO(rig, event_record, before, streams[DOOMED]);
    COMPLETES(rig, MUSTER_OK, before);

    DO(rig, gate_wait, start, streams[DOOMED], 1);
    rig_launch(rig, streams[DOOMED], kernel, 0, 1, args, 1, result);
    rig_copy_in(rig, streams[COPYING], memory, 0, host, BYTES); /* for a quarter of an hour */
    DO(rig, event_record, never, streams[COPYING]);
    DO(rig, stream_wait, streams[WAITING], never);
    DO(rig, gate_wait, gate, streams[GATED], 1);
    for (int i = 0; i < STREAMS; i++) {
        DO(rig, host_call, streams[i], note_call, &calls[i]);
        DO(rig, event_record, events[i], streams[i]);
    }
    /* The launch after the gate may lose the device before the call is back. */
    muster_status published = rig->table.gate_publish(start, 1, &rig->err);
    CHECK(published == MUSTER_OK || published == MUSTER_E_DEVICE_LOST);
    for (int i = 0; i < STREAMS; i++) {
        COMPLETES(rig, MUSTER_E_DEVICE_LOST, events[i]);
        CHECK_STATUS(MUSTER_E_DEVICE_LOST, rig->table.event_query(events[i], &rig->err));
        CHECK_EQUAL(1, calls[i].count);
        CHECK_STATUS(MUSTER_E_DEVICE_LOST, calls[i].status);
    }
    CHECK_STATUS(MUSTER_E_DEVICE_LOST, *result);
    /* What was over before stays as it was. */
    CHECK_STATUS(MUSTER_OK, rig->table.event_query(before, &rig->err));
    check_all_calls_say_lost(rig, streams[DOOMED], before, gate, kernel, memory);
    rig_close_broken(rig, MUSTER_OK);
}

/* Nobody had anything under way: the next who asks learns of it, and others are not touched. */
static void a_loss_stays_with_its_device(void)
{
    struct rig *rig = open_sim("[{" RATE ", \"faults\": [{\"kind\": \"lost\", \"at_launch\": 1}]},"
                               " {" RATE "}]");
    void *other = rig->devices[1].state;
    void *stream = rig_stream(rig), *kernel = rig_kernel(rig, do_nothing);
    void *good = rig_stream_on(rig, other, 0, false);
    void *done = rig_event_on(rig, other, MUSTER_EVENT_ORDER), *event = rig_event(rig);
    struct muster_memory *memory = rig_memory_on(rig, other, 10);
    launch(rig, stream, kernel, 1, NULL);
    /* The record may come before or after the loss is noticed. */
    muster_status status = rig->table.event_record(event, stream, &rig->err);
    if (status == MUSTER_OK)
        COMPLETES(rig, MUSTER_E_DEVICE_LOST, event);
    else
        CHECK_STATUS(MUSTER_E_DEVICE_LOST, status);
    rig_fill(rig, good, memory, 0, 1, 10);
    DO(rig, event_record, done, good);
    COMPLETES(rig, MUSTER_OK, done);
    rig_close_broken(rig, MUSTER_OK);
}

/* Addresses that the process has, in bytes. */
static uint64_t mapped_bytes(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%lu", &pages) == 1);
    fclose(file);
    return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* As if the loss came while the memory was got: it goes back, and nobody is told of it. */
static void memory_that_comes_after_a_loss_goes_back(void)
{
    enum { BYTES = 16 << 20, TIMES = 100 };
    struct rig *rig =
        open_sim("[{" RATE ", \"faults\": [{\"kind\": \"lost\", \"at_launch\": 1}]}]");
    void *stream = rig_stream(rig), *kernel = rig_kernel(rig, do_nothing), *event = rig_event(rig);
    struct queue *queue = ((struct queue_device_state *)rig->device)->queue;
    launch(rig, stream, kernel, 1, NULL);
    if (rig->table.event_record(event, stream, &rig->err) == MUSTER_OK)
        COMPLETES(rig, MUSTER_E_DEVICE_LOST, event);
    CHECK_STATUS(MUSTER_E_DEVICE_LOST, queue_check(queue, &rig->err));
    uint64_t before = mapped_bytes();
    for (int i = 0; i < TIMES; i++) {
        struct muster_memory out = { .address = 77 };
        CHECK_STATUS(MUSTER_E_DEVICE_LOST, queue_memory_take(queue, BYTES, -1, &out, &rig->err));
        CHECK_EQUAL(77, out.address);
    }
    CHECK(mapped_bytes() < before + (uint64_t)TIMES / 2 * BYTES);
    rig_close_broken(rig, MUSTER_OK);
}

static void a_hang_times_out_and_is_left_behind(void)
{
    static struct call calls[2]; /* looked at after the rig is gone */
    static muster_status result;
    char sim[128];
    snprintf(sim, sizeof sim,
             "[{" RATE ", \"h2d_bytes_per_s\": %g,"
             "  \"faults\": [{\"kind\": \"hang\", \"at_launch\": 2}]}]",
             1e6 / (double)test_patience(1));
    struct rig *rig = open_sim(sim);
    void *stream = rig_stream(rig), *other = rig_stream(rig), *waiting = rig_stream(rig);
    void *begun = rig_event(rig), *copying = rig_stream(rig);
    void *kernel = rig_kernel(rig, do_nothing), *event = rig_event(rig), *copied = rig_event(rig);
    struct muster_memory *memory = rig_memory(rig, 200000);
    char *host = rig_host(rig, 200000);
    launch(rig, stream, kernel, 1, NULL);
    FINISHES(rig, stream);
    /* Begun before the hang, to be done 200 ms later. */
    rig_copy_in(rig, copying, memory, 0, host, 200000);
    DO(rig, event_record, begun, copying);
    launch(rig, stream, kernel, 1, &result);
    DO(rig, host_call, stream, note_call, &calls[0]);
    DO(rig, event_record, event, stream);
    DO(rig, stream_wait, waiting, event);
    DO(rig, host_call, waiting, note_call, &calls[1]);
    REFUSED(rig, MUSTER_E_TIMEOUT, event_wait, event, LOOK_NS);
    REFUSED(rig, MUSTER_E_TIMEOUT, event_wait, begun, test_patience(250 * MS));
    /* Copies hang as well, and the device still takes what it is given. */
    rig_copy_in(rig, other, memory, 0, host, 1000);
    DO(rig, event_record, copied, other);
    REFUSED(rig, MUSTER_E_TIMEOUT, event_wait, copied, LOOK_NS);
    CHECK_STATUS(MUSTER_E_BUSY, rig->table.stream_query(stream, &rig->err));
    CHECK_EQUAL(0, calls[0].count);
    /* Nothing of it runs, so all that it holds can be freed; its calls are made all the same. */
    uint64_t begin_ns = platform_clock_ns();
    rig_close_broken(rig, MUSTER_OK);
    CHECK(platform_clock_ns() - begin_ns < 10000 * MS);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, result);
    for (int i = 0; i < 2; i++) {
        CHECK_EQUAL(1, calls[i].count);
        CHECK_STATUS(MUSTER_E_DEVICE_HUNG, calls[i].status);
    }
}

static void a_hang_with_an_end_is_a_pause(void)
{
    struct rig *rig = open_sim("[{" RATE ", \"faults\": [{\"kind\": \"hang\", \"at_launch\": 1,"
                               "  \"for_ms\": 20}]}]");
    void *stream = rig_stream(rig), *kernel = rig_kernel(rig, do_nothing);
    uint64_t begin_ns = platform_clock_ns();
    launch(rig, stream, kernel, 1000, NULL);
    CHECK(time_of(rig, stream, begin_ns) >= 20);
    launch(rig, stream, kernel, 1000, NULL);
    FINISHES(rig, stream);
    rig_close(rig);
}

/* User code that does not come back, until it is told to. */
struct trap {
    struct platform_mutex mutex;
    struct platform_condition changed;
    bool is_in, may_leave, has_left;
};

static void set(struct trap *trap, bool *flag)
{
    platform_mutex_lock(&trap->mutex);
    *flag = true;
    platform_condition_wake_all(&trap->changed);
    platform_mutex_unlock(&trap->mutex);
}

static bool wait_until(struct trap *trap, const bool *flag)
{
    uint64_t deadline_ns = platform_deadline_ns(SOON_NS);
    bool in_time = true;
    platform_mutex_lock(&trap->mutex);
    while (!*flag && in_time)
        in_time = platform_condition_wait(&trap->changed, &trap->mutex, deadline_ns);
    bool is_set = *flag;
    platform_mutex_unlock(&trap->mutex);
    return is_set;
}

static void stay(void *user, muster_status status)
{
    struct trap *trap = user;
    (void)status;
    set(trap, &trap->is_in);
    wait_until(trap, &trap->may_leave);
    set(trap, &trap->has_left);
}

/* The device is abandoned with all it was given: its thread may look at that after the test. */
static void user_code_that_stays_is_not_waited_for(void)
{
    static struct trap trap;
    static struct rig *rig;
    CHECK_STATUS(MUSTER_OK, platform_mutex_init(&trap.mutex, NULL));
    CHECK_STATUS(MUSTER_OK, platform_condition_init(&trap.changed, NULL));
    rig = open_sim("[{" RATE "}]");
    void *stream = rig_stream(rig);
    DO(rig, host_call, stream, stay, &trap);
    CHECK(wait_until(&trap, &trap.is_in));
    rig->table.stream_close(stream);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, rig->table.device_close(rig->device));
    set(&trap, &trap.may_leave);
    CHECK(wait_until(&trap, &trap.has_left));
}

static void slices_are_planned_or_refused(void)
{
    struct rig *rig = open_sim("[{" RATE ", \"cores\": 4, \"slices\": true}, {" RATE "}]");
    const uint32_t too_large[] = { 3, 2 }, empty[] = { 2, 0 }, huge[] = { UINT32_MAX, UINT32_MAX };
    REFUSED(rig, MUSTER_E_TOO_LARGE, slice_plan, rig->device, too_large, 2);
    CHECK_CONTAINS("4 cores", rig->err.text);
    REFUSED(rig, MUSTER_E_TOO_LARGE, slice_plan, rig->device, huge, 2);
    REFUSED(rig, MUSTER_E_INVALID, slice_plan, rig->device, empty, 2);
    REFUSED(rig, MUSTER_E_INVALID, slice_plan, rig->device, empty, 0);
    REFUSED(rig, MUSTER_E_NOT_SUPPORTED, slice_plan, rig->devices[1].state, too_large, 1);
    rig_close(rig);
}

/* A slice has its share of the rate, and those of one device share its failure domain. */
static void slices_compute_in_proportion(void)
{
    static const uint32_t sizes[] = { 3, 1 };
    struct rig *rig = open_sim("[{" RATE "}, {" RATE ", \"cores\": 4, \"slices\": true,"
                               "  \"weight\": 8}]");
    void *device = rig->devices[1].state, *slices[2], *kernels[2];
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = do_nothing };
    DO(rig, slice_plan, device, sizes, 2);
    for (size_t i = 0; i < 2; i++) {
        struct muster_device_info info = { .size = sizeof info };
        slices[i] = rig_state(rig->table.device_bytes);
        kernels[i] = rig_state(rig->table.kernel_bytes);
        DO(rig, slice_open, device, i, slices[i], &info);
        DO(rig, kernel_init, slices[i], &form, kernels[i]);
        CHECK_EQUAL(sizes[i], info.cores);
        CHECK_EQUAL(1, info.domain);
        CHECK(info.weight == 2.0 * sizes[i]);
        CHECK(!(info.capabilities & MUSTER_CAN_SLICE));
    }
    for (size_t i = 0; i < 2; i++) {
        void *stream = rig_stream_on(rig, slices[i], 0, false);
        void *event = rig_event_on(rig, slices[i], MUSTER_EVENT_ORDER);
        uint64_t begin_ns = platform_clock_ns();
        launch(rig, stream, kernels[i], 3000, NULL);
        DO(rig, event_record, event, stream);
        COMPLETES(rig, MUSTER_OK, event);
        CHECK(platform_clock_ns() - begin_ns >= 3 * MS * 4 / sizes[i]);
        rig_event_deinit(rig, event);
        rig_stream_close(rig, stream);
        rig->table.kernel_deinit(kernels[i]);
        CHECK_STATUS(MUSTER_OK, rig->table.device_close(slices[i]));
        rig_state_free(kernels[i]);
        rig_state_free(slices[i]);
    }
    rig->table.slice_unplan(device);
    rig_close(rig);
}

static void a_gate_of_another_device_is_refused(void)
{
    struct rig *rig = open_sim("[{" RATE ", \"count\": 2}]");
    void *gate = rig_gate(rig), *stream = rig_stream_on(rig, rig->devices[1].state, 0, false);
    void *event = rig_event_on(rig, rig->devices[1].state, MUSTER_EVENT_ORDER);
    REFUSED(rig, MUSTER_E_NOT_SUPPORTED, gate_wait, gate, stream, 1);
    DO(rig, event_record, event, stream);
    COMPLETES(rig, MUSTER_OK, event);
    rig_close(rig);
}

static void no_description_is_no_fault(void)
{
    struct muster_error err = { .size = sizeof err };
    CHECK_STATUS(MUSTER_E_NOT_FOUND, rig_probe(&backend_sim, NULL, &err));
    CHECK_CONTAINS("MUSTER_SIM", err.fix);
    CHECK_STATUS(MUSTER_E_PARSE, rig_probe(&backend_sim, "[{}]", &err));
    CHECK_STATUS(MUSTER_E_CAPACITY, rig_probe(&backend_sim, "[{" RATE ", \"count\": 65}]", &err));
    CHECK_CONTAINS("at most 64", err.text);
    CHECK(rig_probe(&backend_sim, "/nowhere/devices.json", &err) != MUSTER_OK);
    CHECK_CONTAINS("neither JSON nor a file", err.text);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(launches_take_their_time),
        TEST(copies_take_their_time),
        TEST(a_slow_spell_slows),
        TEST(a_unit_error_hits_its_launch_alone),
        TEST(a_unit_error_without_a_result_fails_the_stream),
        TEST(memory_is_bounded_and_can_fail),
        TEST(a_lost_device_ends_everything),
        TEST(a_loss_stays_with_its_device),
        TEST(memory_that_comes_after_a_loss_goes_back),
        TEST(a_hang_times_out_and_is_left_behind),
        TEST(a_hang_with_an_end_is_a_pause),
        TEST(user_code_that_stays_is_not_waited_for),
        TEST(slices_are_planned_or_refused),
        TEST(slices_compute_in_proportion),
        TEST(a_gate_of_another_device_is_refused),
        TEST(no_description_is_no_fault),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
