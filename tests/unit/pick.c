/*
 * Picking through the public interface: hints, leases, users' policies, explanations, and that a
 * choice and its reservation are one step.
 */
#include "support.h"

#include <muster/muster.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#define THREADS 200

static struct muster *open_machine(const char *sim)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster *m;
    options.devices = "sim";
    options.sim = sim;
    CHECK_STATUS(MUSTER_OK, muster_open(&m, &options, NULL));
    return m;
}

static const char four_equal[] = "[{\"items_per_s\":1e6,\"count\":4}]";
static const char unequal[] =
    "[{\"name\":\"old\",\"items_per_s\":1e6,\"compute\":[7,0],\"memory\":\"8GiB\",\"weight\":1},"
    "{\"name\":\"new\",\"items_per_s\":1e6,\"compute\":[9,0],\"memory\":\"80GiB\",\"weight\":3}]";

static void a_pick_counts_until_its_lease_is_released(void)
{
    struct muster *m = open_machine(four_equal);
    muster_lease leases[8];
    muster_device devices[8];
    uint32_t counts[4] = { 0 };
    for (int i = 0; i < 8; i++) {
        CHECK_STATUS(MUSTER_OK, muster_pick(m, muster_policy_named("least-loaded"), NULL,
                                            &leases[i], &devices[i], NULL));
        counts[devices[i].index]++;
    }
    for (int i = 0; i < 4; i++)
        CHECK_EQUAL(2, counts[i]);
    CHECK_STATUS(MUSTER_OK, muster_lease_release(m, leases[5], NULL));
    CHECK_STATUS(MUSTER_E_STALE, muster_lease_release(m, leases[5], NULL));
    muster_device again;
    muster_lease lease;
    CHECK_STATUS(MUSTER_OK,
                 muster_pick(m, muster_policy_named("least-loaded"), NULL, &lease, &again, NULL));
    CHECK_EQUAL(devices[5].index, again.index);
    CHECK_STATUS(MUSTER_E_UNKNOWN, muster_lease_release(m, (muster_lease){ 5000, 1 }, NULL));
    CHECK_STATUS(MUSTER_OK, muster_close(m, NULL));
}

static void hints_leave_what_fits_or_say_what_refused_each(void)
{
    struct muster *m = open_machine(unequal);
    struct muster_hints hints = { .size = sizeof hints, .min_cc = { 8, 0 } };
    struct muster_error err;
    muster_lease lease;
    muster_device device;
    CHECK_STATUS(MUSTER_OK, muster_pick(m, NULL, &hints, &lease, &device, NULL));
    CHECK_EQUAL(1, device.index);
    hints.min_free = UINT64_C(100) << 30;
    CHECK_STATUS(MUSTER_E_NO_DEVICE, muster_pick(m, NULL, &hints, &lease, &device, &err));
    CHECK_CONTAINS("sim:0: min_cc", err.text);
    CHECK_CONTAINS("sim:1: min_free", err.text);
    hints = (struct muster_hints){ .size = sizeof hints, .devices = "sim:0", .backends = "cpu" };
    CHECK_STATUS(MUSTER_E_NO_DEVICE, muster_pick(m, NULL, &hints, &lease, &device, &err));
    CHECK_CONTAINS("sim:0: backends", err.text);
    hints.devices = "sim:7";
    CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_pick(m, NULL, &hints, &lease, &device, &err));
    CHECK_CONTAINS("sim:7", err.text);
    hints.size = 0;
    CHECK_STATUS(MUSTER_E_INVALID, muster_pick(m, NULL, &hints, &lease, &device, &err));
    CHECK_STATUS(MUSTER_OK, muster_close(m, NULL));
}

static void names_of_policies_are_known(void)
{
    CHECK(muster_policy_named("round-robin") && muster_policy_named("sticky"));
    CHECK(!muster_policy_named("claim") && !muster_policy_named("") && !muster_policy_named(NULL));
    CHECK_TEXT("weighted", muster_policy_named("weighted")->name);
}

static void decisions_are_explained_newest_first(void)
{
    struct muster *m = open_machine(unequal);
    struct muster_decision decisions[2] = { { .size = sizeof *decisions },
                                            { .size = sizeof *decisions } };
    const struct muster_hints hints = { .size = sizeof hints, .min_cc = { 9, 9 } };
    muster_lease lease;
    muster_device device;
    size_t count;
    CHECK_STATUS(MUSTER_OK, muster_explain(m, decisions, 2, &count, NULL));
    CHECK_EQUAL(0, count);
    CHECK_STATUS(MUSTER_OK,
                 muster_pick(m, muster_policy_named("weighted"), NULL, &lease, &device, NULL));
    CHECK_STATUS(MUSTER_E_NO_DEVICE, muster_pick(m, NULL, &hints, &lease, &device, NULL));
    CHECK_STATUS(MUSTER_OK, muster_explain(m, decisions, 2, &count, NULL));
    CHECK_EQUAL(2, count);
    CHECK_EQUAL(-1, decisions[0].chosen);
    CHECK_TEXT("adaptive", decisions[0].policy);
    CHECK_EQUAL(MUSTER_REFUSED_MIN_CC, decisions[0].devices[1].refusal);
    CHECK_EQUAL(1, decisions[1].chosen);
    CHECK_EQUAL(2, decisions[1].device_count);
    CHECK(decisions[1].devices[1].score == 3 && decisions[1].devices[0].score == 1);
    CHECK_STATUS(MUSTER_OK, muster_close(m, NULL));
}

static void the_ring_of_decisions_wraps(void)
{
    struct muster *m = open_machine(unequal);
    static struct muster_decision decisions[2000];
    size_t count;
    for (size_t i = 0; i < 2000; i++)
        decisions[i].size = sizeof *decisions;
    for (int i = 0; i < 1500; i++) {
        muster_lease lease;
        muster_device device;
        CHECK_STATUS(MUSTER_OK, muster_pick(m, NULL, NULL, &lease, &device, NULL));
        CHECK_STATUS(MUSTER_OK, muster_lease_release(m, lease, NULL));
    }
    CHECK_STATUS(MUSTER_OK, muster_explain(m, decisions, 2000, &count, NULL));
    CHECK_EQUAL(1024, count);
    CHECK_EQUAL(1500, decisions[0].number);
    CHECK_EQUAL(477, decisions[1023].number);
    CHECK_STATUS(MUSTER_OK, muster_close(m, NULL));
}

static int choose_last(void *state, const struct muster_hints *hints,
                       const struct muster_candidate *const *candidates, size_t count)
{
    CHECK(hints->size == sizeof *hints && candidates[count - 1]->size == sizeof **candidates &&
          candidates[count - 1]->load->size == sizeof *candidates[0]->load);
    ++*(int *)state;
    return (int)count - 1;
}

static int choose_none(void *state, const struct muster_hints *hints,
                       const struct muster_candidate *const *candidates, size_t count)
{
    (void)hints, (void)candidates, (void)count;
    return *(int *)state;
}

static void a_users_policy_is_asked_on_what_the_hints_left(void)
{
    struct muster *m = open_machine(unequal);
    int asked = 0, answer = -1;
    const struct muster_policy last = { sizeof last, "last", &asked, choose_last };
    const struct muster_policy none = { sizeof none, "none", &answer, choose_none };
    const struct muster_hints hints = { .size = sizeof hints, .devices = "sim:0" };
    muster_lease lease;
    muster_device device;
    struct muster_error err;
    CHECK_STATUS(MUSTER_OK, muster_pick(m, &last, NULL, &lease, &device, NULL));
    CHECK_EQUAL(1, device.index);
    CHECK_STATUS(MUSTER_OK, muster_pick(m, &last, &hints, &lease, &device, NULL));
    CHECK_EQUAL(0, device.index);
    CHECK_EQUAL(2, asked);
    CHECK_STATUS(MUSTER_E_NO_DEVICE, muster_pick(m, &none, NULL, &lease, &device, &err));
    answer = 2;
    CHECK_STATUS(MUSTER_E_INVALID, muster_pick(m, &none, NULL, &lease, &device, &err));
    CHECK_CONTAINS("chose 2 of 2", err.text);
    CHECK_STATUS(MUSTER_OK, muster_close(m, NULL));
}

/* A policy during whose thinking another thread takes what it is going to choose. */
struct thief {
    struct muster *m;
    int times;
};

static int choose_what_is_taken(void *state, const struct muster_hints *hints,
                                const struct muster_candidate *const *candidates, size_t count)
{
    struct thief *thief = state;
    muster_lease lease;
    muster_device device;
    (void)candidates, (void)count;
    if (thief->times-- > 0)
        CHECK_STATUS(MUSTER_OK, muster_pick(thief->m, muster_policy_named("round-robin"), hints,
                                            &lease, &device, NULL));
    return 0;
}

static void a_policy_that_is_overtaken_is_asked_three_times(void)
{
    struct muster *m = open_machine(four_equal);
    struct thief thief = { m, 2 };
    const struct muster_policy policy = { sizeof policy, "overtaken", &thief,
                                          choose_what_is_taken };
    const struct muster_hints hints = { .size = sizeof hints, .devices = "sim:0" };
    muster_lease lease;
    muster_device device;
    CHECK_STATUS(MUSTER_OK, muster_pick(m, &policy, &hints, &lease, &device, NULL));
    CHECK_EQUAL(-1, thief.times);
    thief.times = 3;
    CHECK_STATUS(MUSTER_E_BUSY, muster_pick(m, &policy, &hints, &lease, &device, NULL));
    CHECK_EQUAL(0, thief.times);
    CHECK_STATUS(MUSTER_OK, muster_close(m, NULL));
}

struct crowd {
    struct muster *m;
    const struct muster_policy *policy;
    _Atomic int counts[4];
    _Atomic int failures;
    pthread_barrier_t start;
};

static void *pick_one(void *user)
{
    struct crowd *crowd = user;
    muster_lease lease;
    muster_device device;
    pthread_barrier_wait(&crowd->start);
    if (muster_pick(crowd->m, crowd->policy, NULL, &lease, &device, NULL) == MUSTER_OK)
        crowd->counts[device.index]++;
    else
        crowd->failures++;
    return NULL;
}

/* Law 2: two callers see each other's choice, so equal devices get equal shares, exactly. */
static void two_hundred_threads_spread_as_the_policy_says(void)
{
    static const char *const policies[] = { "round-robin", "least-loaded", "weighted", "adaptive" };
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
        struct crowd crowd = { .m = open_machine(four_equal),
                               .policy = muster_policy_named(policies[p]) };
        pthread_t threads[THREADS];
        pthread_barrier_init(&crowd.start, NULL, THREADS);
        for (int i = 0; i < THREADS; i++)
            CHECK_EQUAL(0, pthread_create(&threads[i], NULL, pick_one, &crowd));
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        pthread_barrier_destroy(&crowd.start);
        CHECK_EQUAL(0, crowd.failures);
        for (int i = 0; i < 4; i++)
            CHECK_EQUAL(THREADS / 4, crowd.counts[i]);
        CHECK_STATUS(MUSTER_OK, muster_close(crowd.m, NULL));
    }
}

static muster_status fail_never(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end, (void)args;
    return MUSTER_OK;
}

/*
 * A policy with state of its own, which nobody locks: threads that pick by it take turns. The first
 * call stays inside until another thread is about to pick, so two would meet there.
 */
struct lonely {
    struct muster *m;
    struct muster_policy policy;
    unsigned calls; /* plain: a second thread in here is a race */
    _Atomic int inside, met;
    _Atomic unsigned arrived;
    muster_status statuses[THREADS];
};

static int choose_alone(void *state, const struct muster_hints *hints,
                        const struct muster_candidate *const *candidates, size_t count)
{
    struct lonely *lonely = state;
    (void)hints, (void)candidates;
    if (atomic_fetch_add(&lonely->inside, 1) > 0)
        atomic_fetch_add(&lonely->met, 1);
    unsigned call = lonely->calls++;
    /* Others have had the processor, and are at the policy if they can be. */
    for (unsigned i = 0; i < 100 && atomic_load(&lonely->met) == 0; i++)
        sched_yield();
    atomic_fetch_sub(&lonely->inside, 1);
    return (int)(call % count);
}

static void *pick_alone(void *user)
{
    struct lonely *lonely = user;
    muster_device device;
    muster_lease lease;
    unsigned number = atomic_fetch_add(&lonely->arrived, 1);
    for (int i = 0; i < 20 && lonely->statuses[number] == MUSTER_OK; i++) {
        muster_status status = muster_pick(lonely->m, &lonely->policy, NULL, &lease, &device, NULL);
        if (status == MUSTER_OK)
            status = muster_lease_release(lonely->m, lease, NULL);
        /* Others may release and pick in between: it is asked three times and then may say so. */
        lonely->statuses[number] = status == MUSTER_E_BUSY ? MUSTER_OK : status;
    }
    return NULL;
}

static void threads_take_turns_at_a_users_policy(void)
{
    enum { PICKERS = 4 };
    struct lonely lonely = { .m = open_machine(four_equal) };
    pthread_t threads[PICKERS];
    lonely.policy = (struct muster_policy){ sizeof lonely.policy, "lonely", &lonely, choose_alone };
    for (int i = 0; i < PICKERS; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, pick_alone, &lonely));
    for (int i = 0; i < PICKERS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQUAL(0, atomic_load(&lonely.met));
    CHECK(lonely.calls >= PICKERS * 20);
    for (int i = 0; i < PICKERS; i++)
        CHECK_STATUS(MUSTER_OK, lonely.statuses[i]);
    CHECK_STATUS(MUSTER_OK, muster_close(lonely.m, NULL));
}

/* Nobody to pick, and nobody to look at. */
static void without_devices_a_pick_says_so(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster *m;
    struct muster_error err;
    options.devices = "";
    CHECK_STATUS(MUSTER_OK, muster_open(&m, &options, NULL));
    muster_lease lease;
    muster_device device;
    CHECK_STATUS(MUSTER_E_NO_DEVICE, muster_pick(m, NULL, NULL, &lease, &device, &err));
    CHECK_CONTAINS("there is none", err.text);
    struct muster_decision decision = { .size = sizeof decision };
    size_t count;
    CHECK_STATUS(MUSTER_OK, muster_explain(m, &decision, 1, &count, NULL));
    CHECK_EQUAL(1, count);
    CHECK_EQUAL(0, decision.device_count);
    CHECK_EQUAL(-1, decision.chosen);
    CHECK_STATUS(MUSTER_OK, muster_close(m, NULL));
}

/* A policy that does not return keeps those who pick by it, and nobody else. */
static int choose_after_the_door(void *state, const struct muster_hints *hints,
                                 const struct muster_candidate *const *candidates, size_t count)
{
    (void)hints, (void)candidates, (void)count;
    door_pass(state);
    return 0;
}

struct held_pick {
    struct muster *m;
    struct muster_policy policy;
    muster_status status;
};

static void *pick_held(void *user)
{
    struct held_pick *held = user;
    muster_device device;
    muster_lease lease;
    held->status = muster_pick(held->m, &held->policy, NULL, &lease, &device, NULL);
    return NULL;
}

static void policies_do_not_wait_for_each_other(void)
{
    struct muster *m = open_machine("[{\"items_per_s\":1e9}]");
    struct door closed = DOOR_INIT, open = DOOR_INIT;
    struct held_pick held[2];
    pthread_t thread;
    for (size_t i = 0; i < 2; i++)
        held[i] = (struct held_pick){ .m = m,
                                      .policy = { .size = sizeof held->policy,
                                                  .name = "held",
                                                  .state = i == 0 ? &closed : &open,
                                                  .choose = choose_after_the_door } };
    door_open(&open);
    CHECK_EQUAL(0, pthread_create(&thread, NULL, pick_held, &held[0]));
    door_wait_arrived(&closed, 1);
    pick_held(&held[1]);
    CHECK_STATUS(MUSTER_OK, held[1].status);
    door_open(&closed);
    CHECK_EQUAL(0, pthread_join(thread, NULL));
    /* Overtaken by the other's lease. */
    CHECK(held[0].status == MUSTER_OK || held[0].status == MUSTER_E_BUSY);
    CHECK_STATUS(MUSTER_OK, muster_close(m, NULL));
}

static void a_lost_device_is_not_picked(void)
{
    struct muster *m = open_machine("[{\"items_per_s\":1e9,\"faults\":[{\"kind\":\"lost\","
                                    "\"at_launch\":1}]},{\"items_per_s\":1e3}]");
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = fail_never };
    struct muster_kernel *kernel;
    muster_device device;
    muster_stream stream;
    muster_lease lease;
    CHECK_STATUS(MUSTER_OK, muster_kernel_from(m, "k", &form, 1, &kernel, NULL));
    CHECK_STATUS(MUSTER_OK, muster_device_find(m, "sim:0", &device, NULL));
    CHECK_STATUS(MUSTER_OK, muster_stream_acquire(m, device, 0, &stream, NULL));
    /* It may be gone before the call is over. */
    muster_status status = muster_launch(m, stream, kernel, 0, 1, NULL, 0, NULL, NULL);
    CHECK(status == MUSTER_OK || status == MUSTER_E_DEVICE_LOST);
    CHECK_STATUS(MUSTER_E_DEVICE_LOST, muster_stream_wait(m, stream, UINT64_MAX, NULL));
    for (int i = 0; i < 5; i++) {
        CHECK_STATUS(MUSTER_OK, muster_pick(m, muster_policy_named("round-robin"), NULL, &lease,
                                            &device, NULL));
        CHECK_EQUAL(1, device.index);
    }
    CHECK_STATUS(MUSTER_OK, muster_close(m, NULL));
}

static void sizes_are_read_strictly(void)
{
    uint64_t bytes;
    struct muster_error err;
    CHECK_STATUS(MUSTER_OK, muster_size_parse("1.5GiB", &bytes, NULL));
    CHECK_EQUAL(UINT64_C(1610612736), bytes);
    CHECK_STATUS(MUSTER_E_PARSE, muster_size_parse("1 GiB", &bytes, &err));
    CHECK_STATUS(MUSTER_E_PARSE, muster_size_parse(NULL, &bytes, &err));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_pick_counts_until_its_lease_is_released),
        TEST(hints_leave_what_fits_or_say_what_refused_each),
        TEST(names_of_policies_are_known),
        TEST(decisions_are_explained_newest_first),
        TEST(the_ring_of_decisions_wraps),
        TEST(a_users_policy_is_asked_on_what_the_hints_left),
        TEST(a_policy_that_is_overtaken_is_asked_three_times),
        TEST(two_hundred_threads_spread_as_the_policy_says),
        TEST(threads_take_turns_at_a_users_policy),
        TEST(policies_do_not_wait_for_each_other),
        TEST(without_devices_a_pick_says_so),
        TEST(a_lost_device_is_not_picked),
        TEST(sizes_are_read_strictly),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
