/* Which device is chosen, and what is brought. */
#include "core/dispatch.h"
#include "flow_model.h"
#include "support.h"

#define DEVICES 3u

static struct bench_flow bench;
static struct dispatch *dispatch;
static uint64_t now_ns;

static void open_devices(enum dispatch_policy policy, uint64_t bytes)
{
    struct flow_sizes sizes = model_sizes(64, DEVICES + 1);
    struct dispatch_sizes more = {
        .devices = DEVICES, .tasks = 64, .copies = 64, .rate_pairs = 8, .decisions = 2
    };
    bench_open(&bench, &sizes, 4096);
    dispatch = dispatch_init(aligned_alloc(64, dispatch_bytes(&more)), &more, bench.flow, policy);
    for (uint32_t i = 0; i < DEVICES; i++) {
        dispatch_place(dispatch, i + 1,
                       &(struct dispatch_place){
                           .bytes = bytes, .in_bytes_per_ns = 1, .out_bytes_per_ns = 1 });
        dispatch_device(dispatch, i,
                        &(struct dispatch_device){ .place = i + 1, .at_once = 1, .ahead = 2 });
    }
    now_ns = 0;
}

static void close_devices(void)
{
    CHECK(dispatch_check(dispatch) == NULL);
    free(dispatch);
    bench_close(&bench);
}

static uint32_t datum(uint64_t bytes)
{
    return flow_data_whole(bench.flow, flow_data_add(bench.flow, bytes, true));
}

static uint32_t submit(uint32_t body, uint32_t part, uint32_t mode, uint64_t devices,
                       int32_t priority)
{
    struct flow_access access = { part, mode };
    uint32_t task = tasks_add(&bench.tasks);
    CHECK_EQUAL(FLOW_ORDERED, flow_order(bench.flow, task, task, &access, 1));
    dispatch_describe(dispatch, task,
                      &(struct dispatch_task){
                          .body = body, .devices = devices, .priority = priority, .size = 1 });
    tasks_set_dispatched(&bench.tasks, task);
    tasks_release(&bench.tasks, task);
    dispatch_ready(dispatch, now_ns);
    return task;
}

/* All copies that are planned are done; how many there were. */
static uint32_t copy_all(void)
{
    struct dispatch_copy copy;
    uint32_t count = 0, instance;
    while (dispatch_next_freed(dispatch, &instance))
        ;
    for (; dispatch_next_copy(dispatch, &copy); count++)
        dispatch_copied(dispatch, copy.id, MUSTER_OK, copy.bytes);
    return count;
}

static void end(uint32_t task, uint64_t elapsed_ns)
{
    dispatch_ended(dispatch, task, MUSTER_OK, elapsed_ns, now_ns);
    tasks_end(&bench.tasks, task, MUSTER_OK);
    dispatch_ready(dispatch, now_ns);
    CHECK(dispatch_check(dispatch) == NULL);
}

static void run_on(uint32_t task, uint32_t device, uint64_t elapsed_ns)
{
    copy_all();
    CHECK_EQUAL(task, dispatch_next_task(dispatch, device, now_ns));
    now_ns += elapsed_ns;
    end(task, elapsed_ns);
}

/* Two samples of each device: the first may have warmed up. */
static void teach(uint32_t body, const uint64_t ns[DEVICES])
{
    for (uint32_t device = 0; device < DEVICES; device++)
        for (uint32_t i = 0; i < 2; i++)
            run_on(submit(body, datum(8), FLOW_WRITE, 1u << device, 0), device, ns[device]);
}

static void what_was_never_measured_is_tried_once_everywhere(void)
{
    uint32_t chosen[DEVICES] = { 0 };
    open_devices(DISPATCH_EARLIEST_FINISH, 1000);
    for (uint32_t i = 0; i < DEVICES; i++)
        chosen[dispatch_chosen(dispatch, submit(1, datum(8), FLOW_WRITE, 7, 0))]++;
    for (uint32_t i = 0; i < DEVICES; i++)
        CHECK_EQUAL(1, chosen[i]);
    close_devices();
}

/* While a trial is under way, others of the body do not follow it there as if it took no time. */
static void a_trial_is_not_repeated_before_it_has_ended(void)
{
    static const uint32_t expected[] = { 1, 0, 0 };
    struct dispatch_candidate seen[DEVICES];
    open_devices(DISPATCH_EARLIEST_FINISH, 1000);
    for (uint32_t i = 0; i < 2; i++)
        run_on(submit(1, datum(8), FLOW_WRITE, 1, 0), 0, 1000);
    for (uint32_t i = 0; i < COUNT_OF(expected); i++) {
        uint32_t task = submit(1, datum(8), FLOW_WRITE, 3, 0);
        CHECK_EQUAL(expected[i], dispatch_chosen(dispatch, task));
        dispatch_candidates(dispatch, task, now_ns, seen);
        CHECK(seen[0].is_measured && !seen[1].is_measured && !seen[2].may_run);
    }
    close_devices();
}

static void the_device_that_finishes_first_is_chosen(void)
{
    static const uint64_t ns[DEVICES] = { 100, 400, 1000 };
    uint32_t chosen[DEVICES] = { 0 };
    open_devices(DISPATCH_EARLIEST_FINISH, 1000);
    teach(1, ns);
    for (uint32_t i = 0; i < 14; i++)
        chosen[dispatch_chosen(dispatch, submit(1, datum(8), FLOW_WRITE, 7, 0))]++;
    /* The last of each would end at 1,100, 800 and 1,000; one more at 1,200, 1,200 and 2,000. */
    CHECK_EQUAL(11, chosen[0]);
    CHECK_EQUAL(2, chosen[1]);
    CHECK_EQUAL(1, chosen[2]);
    close_devices();
}

static void what_must_be_brought_counts(void)
{
    static const uint64_t ns[DEVICES] = { 100, 120, 120 };
    open_devices(DISPATCH_EARLIEST_FINISH, 1000);
    teach(1, ns);
    uint32_t part = datum(500);
    uint32_t writer = submit(2, part, FLOW_WRITE, 2, 0);
    run_on(writer, 1, 50);
    run_on(submit(2, part, FLOW_READ, 2, 0), 1, 50);
    /* The first device is faster, and would have to be brought 500 bytes, by way of home. */
    uint32_t reader = submit(1, part, FLOW_READ, 7, 0);
    struct dispatch_candidate seen[DEVICES];
    dispatch_candidates(dispatch, reader, now_ns, seen);
    CHECK_EQUAL(1, dispatch_chosen(dispatch, reader));
    CHECK_EQUAL(500, seen[0].copy_bytes);
    CHECK_EQUAL(0, seen[1].copy_bytes);
    CHECK(seen[0].copies_ns >= 1000);
    close_devices();
}

static void higher_priorities_go_first(void)
{
    open_devices(DISPATCH_EARLIEST_FINISH, 1000);
    uint32_t tasks[6];
    for (uint32_t i = 0; i < 6; i++)
        tasks[i] = submit(1, datum(8), FLOW_WRITE, 1, i == 5 ? 5 : 0);
    /* Three were admitted before the last one came; it is first of the others, and then of those. */
    run_on(tasks[0], 0, 10);
    run_on(tasks[5], 0, 10);
    for (uint32_t i = 1; i < 5; i++)
        run_on(tasks[i], 0, 10);
    close_devices();
}

/* What a lane needs next is brought while it runs something else. */
static void parts_are_brought_ahead(void)
{
    struct dispatch_copy copy;
    open_devices(DISPATCH_EARLIEST_FINISH, 1000);
    uint32_t first = submit(1, datum(8), FLOW_READ, 1, 0);
    copy_all();
    CHECK_EQUAL(first, dispatch_next_task(dispatch, 0, now_ns));
    submit(1, datum(16), FLOW_READ, 1, 0);
    CHECK(dispatch_next_copy(dispatch, &copy));
    CHECK(copy.bytes == 16 && copy.from == FLOW_HOME && copy.to == 1);
    close_devices();
}

/* Of two instances the one that nobody waits for goes, though it was used later. */
static void what_is_needed_stays(void)
{
    open_devices(DISPATCH_EARLIEST_FINISH, 100);
    uint32_t needed = datum(40), other = datum(40), third = datum(40);
    run_on(submit(1, needed, FLOW_READ, 1, 0), 0, 10);
    run_on(submit(1, other, FLOW_READ, 1, 0), 0, 10);
    uint32_t blocker = datum(1);
    uint32_t holder = submit(2, blocker, FLOW_WRITE, 2, 0);
    struct flow_access waits[] = { { blocker, FLOW_READ }, { needed, FLOW_READ } };
    uint32_t later = tasks_add(&bench.tasks);
    CHECK_EQUAL(FLOW_ORDERED, flow_order(bench.flow, later, later, waits, 2));
    dispatch_describe(dispatch, later, &(struct dispatch_task){ .devices = 1 });
    tasks_set_dispatched(&bench.tasks, later);
    tasks_release(&bench.tasks, later);
    run_on(submit(1, third, FLOW_READ, 1, 0), 0, 10);
    CHECK(flow_is_valid(bench.flow, needed, 1));
    CHECK(!flow_is_valid(bench.flow, other, 1));
    run_on(holder, 1, 10);
    run_on(later, 0, 10);
    close_devices();
}

static uint32_t submit_two(uint32_t a, uint32_t b, uint64_t devices)
{
    struct flow_access accesses[] = { { a, FLOW_READ }, { b, FLOW_READ } };
    uint32_t task = tasks_add(&bench.tasks);
    CHECK_EQUAL(FLOW_ORDERED, flow_order(bench.flow, task, task, accesses, 2));
    dispatch_describe(dispatch, task, &(struct dispatch_task){ .devices = devices });
    tasks_set_dispatched(&bench.tasks, task);
    tasks_release(&bench.tasks, task);
    dispatch_ready(dispatch, now_ns);
    return task;
}

/* Two devices of one memory: each would hold what the other one needs the room of. */
static void two_tasks_never_wait_for_each_others_room(void)
{
    open_devices(DISPATCH_EARLIEST_FINISH, 110);
    dispatch_device(dispatch, 1, &(struct dispatch_device){ .place = 1, .at_once = 1, .ahead = 2 });
    dispatch_device(dispatch, 2, &(struct dispatch_device){ .place = 1, .at_once = 1, .ahead = 2 });
    uint32_t a = datum(40), b = datum(40), x = datum(60), y = datum(60);
    run_on(submit(1, a, FLOW_READ, 1, 0), 0, 10);
    uint32_t holder = submit(1, b, FLOW_READ, 4, 0);
    copy_all();
    CHECK_EQUAL(holder, dispatch_next_task(dispatch, 2, now_ns));
    uint32_t first = submit_two(a, x, 1), second = submit_two(b, y, 2);
    CHECK_EQUAL(0, copy_all());
    end(holder, 10);
    run_on(first, 0, 10);
    run_on(second, 1, 10);
    close_devices();
}

/* Old bytes that a task overwrites are nowhere from its staging on: nobody evicts them over new ones. */
static void what_is_overwritten_is_not_copied_any_more(void)
{
    open_devices(DISPATCH_EARLIEST_FINISH, 100);
    uint32_t part = datum(60), other = datum(60);
    run_on(submit(1, part, FLOW_WRITE, 2, 0), 1, 10);
    uint32_t writer = submit(1, part, FLOW_WRITE, 1, 0);
    copy_all();
    CHECK_EQUAL(writer, dispatch_next_task(dispatch, 0, now_ns));
    submit(1, other, FLOW_WRITE, 2, 0);
    CHECK_EQUAL(0, copy_all());
    end(writer, 10);
    CHECK(flow_is_dirty(bench.flow, part) && flow_is_valid(bench.flow, part, 1));
    close_devices();
}

static void what_fits_nowhere_is_seen_beforehand(void)
{
    open_devices(DISPATCH_EARLIEST_FINISH, 100);
    struct flow_access large[] = { { datum(60), FLOW_READ }, { datum(60), FLOW_READ } };
    CHECK_EQUAL(7, dispatch_fits(dispatch, large, 1, 7));
    CHECK_EQUAL(0, dispatch_fits(dispatch, large, 2, 7));
    close_devices();
}

static void a_policy_chooses_on_what_it_saw(void)
{
    uint64_t version;
    open_devices(DISPATCH_USER, 1000);
    uint32_t task = submit(1, datum(8), FLOW_WRITE, 5, 0);
    CHECK_EQUAL(task, dispatch_next_undecided(dispatch, &version));
    CHECK(!dispatch_choose(dispatch, task, 1, version, now_ns)); /* not allowed */
    CHECK_EQUAL(task, dispatch_next_undecided(dispatch, &version));
    dispatch_lost(dispatch, 1, now_ns);
    CHECK(!dispatch_choose(dispatch, task, 2, version, now_ns)); /* the snapshot is old */
    CHECK_EQUAL(task, dispatch_next_undecided(dispatch, &version));
    CHECK(dispatch_choose(dispatch, task, 2, version, now_ns));
    CHECK_EQUAL(2, dispatch_chosen(dispatch, task));
    close_devices();
}

/* A device that has no memory after all is asked three times; then another is, then nobody. */
static void refused_memory_leads_elsewhere_and_then_to_the_end(void)
{
    struct dispatch_copy copy;
    struct flow_cause cause;
    muster_status status;
    uint32_t asked[DEVICES + 1] = { 0 };
    open_devices(DISPATCH_EARLIEST_FINISH, 1000);
    uint32_t task = submit(1, datum(8), FLOW_READ, 3, 0);
    while (dispatch_next_copy(dispatch, &copy)) {
        asked[copy.to]++;
        dispatch_copied(dispatch, copy.id, MUSTER_E_DEVICE_MEMORY, 0);
        CHECK(dispatch_check(dispatch) == NULL);
    }
    CHECK_EQUAL(3, asked[1] < asked[2] ? asked[1] : asked[2]);
    CHECK_EQUAL(0, asked[3]);
    CHECK_EQUAL(task, dispatch_next_dead(dispatch, &status, &cause));
    CHECK_STATUS(MUSTER_E_DEVICE_MEMORY, status);
    tasks_end(&bench.tasks, task, status);
    close_devices();
}

/* What was newest on the lost device alone is named; the rest goes on elsewhere. */
static void a_lost_device_is_named_by_its_data(void)
{
    struct flow_cause cause;
    muster_status status;
    open_devices(DISPATCH_EARLIEST_FINISH, 1000);
    uint32_t lost = datum(8), safe = datum(8);
    run_on(submit(1, lost, FLOW_WRITE, 1, 0), 0, 10);
    uint32_t elsewhere = submit(1, safe, FLOW_READ_WRITE, 3, 1);
    uint32_t reader = submit(1, lost, FLOW_READ, 3, 0);
    dispatch_lost(dispatch, 0, now_ns);
    CHECK_EQUAL(reader, dispatch_next_dead(dispatch, &status, &cause));
    CHECK_STATUS(MUSTER_E_DATA_LOST, status);
    CHECK_EQUAL(flow_part_data(bench.flow, lost), cause.data);
    tasks_end(&bench.tasks, reader, status);
    run_on(elsewhere, 1, 10);
    uint32_t none = submit(1, safe, FLOW_READ, 1, 0);
    CHECK_EQUAL(none, dispatch_next_dead(dispatch, &status, &cause));
    CHECK_STATUS(MUSTER_E_NO_DEVICE, status);
    tasks_end(&bench.tasks, none, status);
    CHECK(dispatch_is_idle(dispatch));
    close_devices();
}

/* The host is a place: what is acquired is brought home first. */
static void what_the_host_acquires_is_brought_home(void)
{
    open_devices(DISPATCH_EARLIEST_FINISH, 1000);
    uint32_t part = datum(8);
    run_on(submit(1, part, FLOW_WRITE, 1, 0), 0, 10);
    struct flow_access access = { part, FLOW_READ_WRITE };
    uint32_t task = tasks_add(&bench.tasks);
    CHECK_EQUAL(FLOW_ORDERED, flow_order(bench.flow, task, task, &access, 1));
    dispatch_describe(dispatch, task, &(struct dispatch_task){ .on_host = true });
    tasks_set_dispatched(&bench.tasks, task);
    tasks_release(&bench.tasks, task);
    dispatch_ready(dispatch, now_ns);
    CHECK_EQUAL(FLOW_NONE, dispatch_next_task(dispatch, DISPATCH_HOST, now_ns));
    CHECK_EQUAL(1, copy_all());
    CHECK(flow_is_valid(bench.flow, part, 1) && flow_is_valid(bench.flow, part, FLOW_HOME));
    CHECK_EQUAL(task, dispatch_next_task(dispatch, DISPATCH_HOST, now_ns));
    end(task, 0);
    CHECK(!flow_is_valid(bench.flow, part, 1));
    close_devices();
}

/* What was looked at is kept until two others were chosen for, and names its task. */
static void a_decision_is_kept_for_its_task(void)
{
    static const uint64_t ns[DEVICES] = { 100, 300, 200 };
    struct dispatch_decision seen;
    open_devices(DISPATCH_EARLIEST_FINISH, 1000);
    teach(1, ns);
    uint32_t part = datum(64), task = submit(1, part, FLOW_READ_WRITE, 5, 0);
    CHECK(!dispatch_explain(dispatch, task, task + 1, now_ns, &seen));
    CHECK(dispatch_explain(dispatch, task, task, now_ns, &seen));
    CHECK(seen.number > 0 && seen.device == 0 && seen.count == DEVICES && !seen.has_ended);
    CHECK(seen.candidates[0].may_run && seen.candidates[2].may_run && !seen.candidates[1].may_run);
    CHECK(seen.candidates[0].run_ns == 100 && seen.candidates[2].run_ns == 200);
    CHECK(seen.candidates[0].copy_bytes == 64 && seen.candidates[0].finish_ns == 164);
    uint64_t began_ns = now_ns;
    now_ns += 7;
    run_on(task, 0, 50);
    CHECK(dispatch_explain(dispatch, task, task, now_ns, &seen));
    CHECK(seen.has_ended && seen.status == MUSTER_OK && seen.took_ns == 50);
    CHECK(seen.time_ns == began_ns && seen.after_ns == 57 && seen.moves == 0);
    /* One that is not ready yet: as of now. */
    uint32_t first = submit(1, part, FLOW_READ_WRITE, 1, 0),
             second = submit(1, part, FLOW_READ_WRITE, 7, 0);
    CHECK(dispatch_explain(dispatch, second, second, now_ns, &seen));
    CHECK(seen.number == 0 && seen.device == FLOW_NONE && seen.candidates[1].copy_bytes == 64);
    run_on(first, 0, 100);
    CHECK(dispatch_explain(dispatch, second, second, now_ns, &seen) && seen.device == 0);
    run_on(second, 0, 100);
    /* Two were chosen for since: its place has the other's, which is not told as its own. */
    CHECK(!dispatch_explain(dispatch, task, UINT64_MAX, now_ns, &seen));
    run_on(submit(1, datum(8), FLOW_WRITE, 1, 0), 0, 100);
    run_on(submit(1, datum(8), FLOW_WRITE, 1, 0), 0, 100);
    CHECK(!dispatch_explain(dispatch, second, second, now_ns, &seen) || seen.tag == second);
    close_devices();
}

static void other_policies_are_explained_too(void)
{
    static const uint64_t ns[DEVICES] = { 100, 300, 200 };
    struct dispatch_decision seen;
    open_devices(DISPATCH_ROUND_ROBIN, 1000);
    teach(1, ns);
    uint32_t task = submit(1, datum(8), FLOW_WRITE, 7, 0);
    CHECK(dispatch_explain(dispatch, task, task, now_ns, &seen));
    CHECK_EQUAL(dispatch_chosen(dispatch, task), seen.device);
    CHECK(seen.candidates[1].run_ns == 300 && seen.candidates[1].is_measured);
    run_on(task, seen.device, 100);
    close_devices();
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(what_was_never_measured_is_tried_once_everywhere),
        TEST(a_trial_is_not_repeated_before_it_has_ended),
        TEST(the_device_that_finishes_first_is_chosen),
        TEST(what_must_be_brought_counts),
        TEST(higher_priorities_go_first),
        TEST(parts_are_brought_ahead),
        TEST(what_is_needed_stays),
        TEST(two_tasks_never_wait_for_each_others_room),
        TEST(what_is_overwritten_is_not_copied_any_more),
        TEST(what_fits_nowhere_is_seen_beforehand),
        TEST(a_policy_chooses_on_what_it_saw),
        TEST(refused_memory_leads_elsewhere_and_then_to_the_end),
        TEST(a_lost_device_is_named_by_its_data),
        TEST(what_the_host_acquires_is_brought_home),
        TEST(a_decision_is_kept_for_its_task),
        TEST(other_policies_are_explained_too),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
