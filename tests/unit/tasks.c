/*
 * Tasks as a program sees them: each accepted one ends exactly once, after those it is after, and
 * nobody waits for what could run. Doors make it certain who is where when something is asked.
 */
#include "base/random.h"
#include "platform/machine.h"
#include "support.h"

#include <errno.h>

#define LIMIT (MUSTER_TASKS_MAX / 2) /* unfinished tasks that a program can have before it waits */
#define LONG (10 * SECOND)           /* nothing here takes that long, unless it never happens */

static struct muster *open_workers(uint32_t workers)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "cpu";
    options.cpu_workers = workers;
    return open_with(options);
}

static void close_all(struct muster *m)
{
    MUST(muster_close(m, &problem));
}

/* Counts, and can be waited for with no call of Muster's, which would help. */
struct tally {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned count;
};
/* clang-format off */
#define TALLY_INIT { .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER }
/* clang-format on */

static muster_status count_one(void *user)
{
    struct tally *tally = user;
    pthread_mutex_lock(&tally->mutex);
    tally->count++;
    pthread_cond_broadcast(&tally->changed);
    pthread_mutex_unlock(&tally->mutex);
    return MUSTER_OK;
}

static unsigned tally_read(struct tally *tally)
{
    pthread_mutex_lock(&tally->mutex);
    unsigned count = tally->count;
    pthread_mutex_unlock(&tally->mutex);
    return count;
}

/* Whether it gets there, in a time in which it must. */
static bool tally_reaches(struct tally *tally, unsigned count)
{
    struct timespec until;
    int code = 0;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(LONG / SECOND);
    pthread_mutex_lock(&tally->mutex);
    while (tally->count < count && code == 0)
        code = pthread_cond_timedwait(&tally->changed, &tally->mutex, &until);
    bool is_there = tally->count >= count;
    pthread_mutex_unlock(&tally->mutex);
    return is_there;
}

static muster_status stand(void *user)
{
    door_pass(user);
    return MUSTER_OK;
}

static muster_status nothing(void *user)
{
    (void)user;
    return MUSTER_OK;
}

static muster_status fail(void *user)
{
    (void)user;
    return MUSTER_E_FAILED;
}

static struct muster_task_desc plain(muster_status (*fn)(void *), void *user)
{
    return (
        struct muster_task_desc){ .size = sizeof(struct muster_task_desc), .fn = fn, .user = user };
}

static struct muster_task_desc behind(muster_status (*fn)(void *), void *user,
                                      const muster_task *after, size_t count)
{
    struct muster_task_desc desc = plain(fn, user);
    desc.after = after;
    desc.after_count = count;
    return desc;
}

static muster_task submit(struct muster *m, struct muster_task_desc desc)
{
    muster_task task = { 0, 0 };
    MUST(muster_submit(m, &desc, 1, &task, &problem));
    return task;
}

static void wait_all(struct muster *m)
{
    MUST(muster_wait(m, NULL, 0, 6 * LONG, &problem));
}

/* Somebody who is about to park gets the time for it; that it has parked cannot be seen. */
static void linger(void)
{
    struct door nobody = DOOR_INIT;
    door_linger(&nobody, 2);
}

/* What is accepted, and what is not. */

static void two_tasks_one_after_the_other(void)
{
    struct muster *m = open_workers(2);
    struct tally tally = TALLY_INIT;
    muster_task first = submit(m, plain(count_one, &tally));
    muster_task second = submit(m, behind(count_one, &tally, &first, 1));
    MUST(muster_wait(m, &second, 1, LONG, &problem));
    CHECK_EQUAL(2, tally_read(&tally));
    MUST(muster_wait(m, &first, 1, 0, &problem));
    close_all(m);
}

static void mistakes_are_refused(void)
{
    struct muster *m = open_workers(1);
    static struct muster_task_desc many[MUSTER_SUBMIT_MAX + 1];
    struct muster_task_desc desc = plain(nothing, NULL);
    muster_task task = { 0, 1 };
    /* Before there was any task. */
    CHECK_STATUS(MUSTER_E_UNKNOWN, muster_wait(m, &task, 1, 0, &problem));
    CHECK_STATUS(MUSTER_E_UNKNOWN, muster_cancel(m, task, &problem));
    MUST(muster_wait(m, NULL, 0, 0, &problem));

    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(NULL, &desc, 1, NULL, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(m, NULL, 1, NULL, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_wait(NULL, &task, 1, 0, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_wait(m, NULL, 1, 0, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_cancel(NULL, task, &problem));
    desc.size = 1;
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(m, &desc, 1, NULL, &problem));
    desc = plain(NULL, NULL);
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(m, &desc, 1, NULL, &problem));
    desc = behind(nothing, NULL, NULL, 1);
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(m, &desc, 1, NULL, &problem));
    for (size_t i = 0; i < COUNT_OF(many); i++)
        many[i] = plain(nothing, NULL);
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_submit(m, many, COUNT_OF(many), NULL, &problem));
    MUST(muster_submit(m, many, MUSTER_SUBMIT_MAX, NULL, &problem));
    MUST(muster_submit(m, NULL, 0, NULL, &problem));
    wait_all(m);
    close_all(m);
}

static void handles_that_were_never_given_are_refused(void)
{
    struct muster *m = open_workers(1);
    struct tally tally = TALLY_INIT;
    muster_task real = submit(m, plain(nothing, NULL));
    const muster_task bad[] = {
        { 0, 0 }, { MUSTER_TASKS_MAX, 1 }, { UINT32_MAX, 1 }, { real.index, real.generation + 1 }
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        muster_task after[] = { real, bad[i] };
        struct muster_task_desc descs[] = { plain(count_one, &tally),
                                            behind(count_one, &tally, &real, 1),
                                            behind(count_one, &tally, after, 2),
                                            plain(count_one, &tally) };
        muster_task out[4];
        CHECK_STATUS(MUSTER_E_UNKNOWN, muster_submit(m, descs, 4, out, &problem));
        for (int task = 0; task < 4; task++)
            CHECK_STATUS(MUSTER_E_STALE, muster_wait(m, &out[task], 1, 0, &problem));
        CHECK_STATUS(MUSTER_E_UNKNOWN, muster_wait(m, &bad[i], 1, LONG, &problem));
        CHECK_STATUS(MUSTER_E_UNKNOWN, muster_cancel(m, bad[i], &problem));
    }
    wait_all(m);
    CHECK_EQUAL(0, tally_read(&tally));
    close_all(m);
}

static void tasks_of_one_call_cannot_wait_in_a_circle(void)
{
    struct muster *m = open_workers(1);
    struct tally tally = TALLY_INIT;
    muster_task out[3];
    struct muster_task_desc descs[] = { plain(count_one, &tally), plain(count_one, &tally),
                                        plain(count_one, &tally) };
    descs[1] = behind(count_one, &tally, &out[1], 1); /* itself */
    CHECK_STATUS(MUSTER_E_UNKNOWN, muster_submit(m, descs, 3, out, &problem));
    descs[1] = behind(count_one, &tally, &out[2], 1); /* each other */
    descs[2] = behind(count_one, &tally, &out[1], 1);
    CHECK_STATUS(MUSTER_E_UNKNOWN, muster_submit(m, descs, 3, out, &problem));
    wait_all(m);
    CHECK_EQUAL(0, tally_read(&tally));
    descs[1] = behind(count_one, &tally, &out[0], 1);
    descs[2] = behind(count_one, &tally, out, 2);
    MUST(muster_submit(m, descs, 3, out, &problem));
    MUST(muster_wait(m, out, 3, LONG, &problem));
    CHECK_EQUAL(3, tally_read(&tally));
    close_all(m);
}

/* More orders than there is room for at first, also among the tasks of one call. */
static void a_task_may_be_after_any_number(void)
{
    enum { BEFORE = 20000, EACH = 1000, CALL = 500, REPEATED = 300000 };
    struct muster *m = open_workers(2);
    struct door door = DOOR_INIT;
    struct tally tally = TALLY_INIT;
    static struct muster_task_desc descs[CALL];
    static muster_task before[BEFORE], out[CALL], repeated[REPEATED];
    before[0] = submit(m, plain(stand, &door));
    for (int i = 1; i < BEFORE; i++)
        before[i] = submit(m, behind(count_one, &tally, before, 1));
    muster_task last = submit(m, behind(count_one, &tally, before, BEFORE));
    for (int i = 0; i < CALL; i++)
        descs[i] = behind(count_one, &tally, i == 0 ? before : out, i == 0 ? EACH : (size_t)i);
    for (int i = 0; i < 3; i++)
        MUST(muster_submit(m, descs, CALL, out, &problem));
    /* Also one task many times over. */
    for (int i = 0; i < REPEATED; i++)
        repeated[i] = before[0];
    muster_task many = submit(m, behind(count_one, &tally, repeated, REPEATED));
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_wait(m, &last, 1, 0, &problem));
    CHECK_EQUAL(0, tally_read(&tally));
    door_open(&door);
    MUST(muster_wait(m, &last, 1, LONG, &problem));
    MUST(muster_wait(m, &many, 1, LONG, &problem));
    wait_all(m);
    CHECK_EQUAL(BEFORE + 3 * CALL + 1, tally_read(&tally));
    /* Those that have ended take no room. */
    submit(m, behind(count_one, &tally, repeated, REPEATED));
    wait_all(m);
    close_all(m);
}

/* Order. Plain memory, so that ThreadSanitizer sees whether an order is one. */

struct node {
    struct node *const *before;
    size_t before_count;
    unsigned done_count, run_count;
    bool is_over, has_seen_all;
    muster_status status;
};

static muster_status run_node(void *user)
{
    struct node *node = user;
    node->has_seen_all = true;
    for (size_t i = 0; i < node->before_count; i++)
        node->has_seen_all = node->has_seen_all && node->before[i]->is_over;
    node->run_count++;
    return MUSTER_OK;
}

static void end_node(void *user, muster_task task, muster_status status)
{
    struct node *node = user;
    (void)task;
    node->done_count++;
    node->status = status;
    node->is_over = true;
}

static void any_order_is_kept(void)
{
    enum { NODES = 4000, CALL = 40 };
    static struct node nodes[NODES];
    static struct node *befores[NODES][4];
    static muster_task out[NODES], after[NODES][4];
    static struct muster_task_desc descs[NODES];
    struct muster *m = open_workers(3);
    struct random random;
    random_init(&random, test_seed());
    for (unsigned round = 0; round < test_repetitions(3); round++) {
        memset(nodes, 0, sizeof nodes);
        for (size_t begin = 0, count; begin < NODES; begin += count) {
            count = 1 + random_below(&random, CALL);
            count = count < NODES - begin ? count : NODES - begin;
            /* Handles of this call are filled in by it, so those point into `out`. */
            for (size_t i = begin; i < begin + count; i++) {
                size_t wanted = i > 0 ? random_below(&random, 5) : 0;
                bool is_inside = wanted > 0 && i > begin && random_below(&random, 2);
                size_t first = is_inside ? begin + random_below(&random, i - begin) : 0;
                if (is_inside && wanted > i - first)
                    wanted = i - first;
                nodes[i] = (struct node){ .before = befores[i], .before_count = wanted };
                for (size_t k = 0; k < wanted; k++) {
                    size_t before = is_inside   ? first + k
                                    : begin > 0 ? random_below(&random, begin)
                                                : 0;
                    if (!is_inside && begin == 0) {
                        nodes[i].before_count = 0;
                        break;
                    }
                    befores[i][k] = &nodes[before];
                    after[i][k] = out[before];
                }
                descs[i] = behind(run_node, &nodes[i], is_inside ? &out[first] : after[i],
                                  nodes[i].before_count);
                descs[i].done = end_node;
            }
            MUST(muster_submit(m, &descs[begin], count, &out[begin], &problem));
        }
        MUST(muster_wait(m, out, NODES, 6 * LONG, &problem));
        for (size_t i = 0; i < NODES; i++) {
            CHECK_EQUAL(1, nodes[i].run_count);
            CHECK_EQUAL(1, nodes[i].done_count);
            CHECK(nodes[i].has_seen_all);
        }
    }
    close_all(m);
}

static void a_diamond_joins(void)
{
    struct muster *m = open_workers(2);
    for (unsigned round = 0; round < test_repetitions(300); round++) {
        struct node top = { .before_count = 0 }, left, right, bottom;
        struct node *const above[] = { &top }, *const beside[] = { &left, &right };
        left = right = (struct node){ .before = above, .before_count = 1 };
        bottom = (struct node){ .before = beside, .before_count = 2 };
        muster_task out[4];
        struct muster_task_desc descs[] = { plain(run_node, &top),
                                            behind(run_node, &left, &out[0], 1),
                                            behind(run_node, &right, &out[0], 1),
                                            behind(run_node, &bottom, &out[1], 2) };
        for (int i = 0; i < 4; i++)
            descs[i].done = end_node;
        MUST(muster_submit(m, descs, 4, out, &problem));
        MUST(muster_wait(m, &out[3], 1, LONG, &problem));
        CHECK(left.has_seen_all && right.has_seen_all && bottom.has_seen_all);
    }
    close_all(m);
}

/* A chain, one task a call, with one that fails in the middle. */
static void a_failure_cancels_all_that_follow(void)
{
    enum { CHAIN = 20000, FAILS = 5000 };
    static struct node nodes[CHAIN];
    static struct node *befores[CHAIN];
    static muster_task out[CHAIN];
    struct muster *m = open_workers(2);
    memset(nodes, 0, sizeof nodes);
    for (int i = 0; i < CHAIN; i++) {
        befores[i] = i > 0 ? &nodes[i - 1] : NULL;
        nodes[i] = (struct node){ .before = &befores[i], .before_count = i > 0 };
        struct muster_task_desc desc =
            behind(i == FAILS ? fail : run_node, &nodes[i], i > 0 ? &out[i - 1] : NULL, i > 0);
        desc.done = end_node;
        out[i] = submit(m, desc);
    }
    CHECK_STATUS(MUSTER_E_CANCELLED, muster_wait(m, &out[CHAIN - 1], 1, 6 * LONG, &problem));
    for (int i = 0; i < CHAIN; i++) {
        CHECK_EQUAL(i < FAILS, nodes[i].run_count);
        CHECK_EQUAL(1, nodes[i].done_count);
        CHECK_STATUS(i < FAILS    ? MUSTER_OK
                     : i == FAILS ? MUSTER_E_FAILED
                                  : MUSTER_E_CANCELLED,
                     nodes[i].status);
        CHECK(i >= FAILS || nodes[i].has_seen_all);
    }
    /* The first failure in the order given, whichever was first in time. */
    const muster_task asked[] = { out[0], out[FAILS + 1], out[FAILS] };
    CHECK_STATUS(MUSTER_E_CANCELLED, muster_wait(m, asked, 3, LONG, &problem));
    CHECK_STATUS(MUSTER_E_FAILED, muster_wait(m, &asked[2], 1, LONG, &problem));
    /* After one that has failed already. */
    struct node late = { .before_count = 0 };
    struct muster_task_desc desc = behind(run_node, &late, &out[FAILS], 1);
    desc.done = end_node;
    muster_task task = submit(m, desc);
    CHECK_STATUS(MUSTER_E_CANCELLED, muster_wait(m, &task, 1, LONG, &problem));
    CHECK_EQUAL(0, late.run_count);
    CHECK_EQUAL(1, late.done_count);
    close_all(m);
}

static void how_it_ended_is_kept_for_a_while(void)
{
    struct muster *m = open_workers(1);
    static struct muster_task_desc descs[MUSTER_SUBMIT_MAX];
    muster_task failed = submit(m, plain(fail, NULL));
    CHECK_STATUS(MUSTER_E_FAILED, muster_wait(m, &failed, 1, LONG, &problem));
    for (size_t i = 0; i < COUNT_OF(descs); i++)
        descs[i] = plain(nothing, NULL);
    for (size_t i = 0; i < MUSTER_TASKS_MAX / 2; i += COUNT_OF(descs))
        MUST(muster_submit(m, descs, COUNT_OF(descs), NULL, &problem));
    CHECK_STATUS(MUSTER_E_FAILED, muster_wait(m, &failed, 1, LONG, &problem));
    for (size_t i = 0; i < MUSTER_TASKS_MAX / 2; i += COUNT_OF(descs))
        MUST(muster_submit(m, descs, COUNT_OF(descs), NULL, &problem));
    CHECK_STATUS(MUSTER_E_STALE, muster_wait(m, &failed, 1, LONG, &problem));
    CHECK_STATUS(MUSTER_E_STALE, muster_cancel(m, failed, &problem));
    /* One whose place was used again has ended. */
    struct tally tally = TALLY_INIT;
    muster_task after = submit(m, behind(count_one, &tally, &failed, 1));
    MUST(muster_wait(m, &after, 1, LONG, &problem));
    CHECK_EQUAL(1, tally_read(&tally));
    close_all(m);
}

/* Cancelling. The only thread stands at a door. */

struct ending {
    unsigned count;
    muster_status status;
    muster_task task;
    pthread_t thread;
};

static void keep_ending(void *user, muster_task task, muster_status status)
{
    struct ending *ending = user;
    ending->count++;
    ending->status = status;
    ending->task = task;
    ending->thread = pthread_self();
}

static void what_has_not_begun_can_be_cancelled(void)
{
    enum { BATCH = 20, IN_BATCH = 3 };
    struct muster *m = open_workers(1);
    struct door door = DOOR_INIT;
    struct ending endings[BATCH + 3] = { { .count = 0 } };
    struct muster_task_desc descs[BATCH];
    muster_task out[BATCH];
    for (int i = 0; i < BATCH; i++) {
        descs[i] = plain(nothing, &endings[i]);
        descs[i].done = keep_ending;
    }
    descs[0] = plain(stand, &door);
    MUST(muster_submit(m, descs, BATCH, out, &problem));
    door_wait_arrived(&door, 1);
    /* Taken with the one at the door, and those behind it lose nothing by it. */
    MUST(muster_cancel(m, out[IN_BATCH], &problem));
    CHECK_EQUAL(1, endings[IN_BATCH].count);
    CHECK_STATUS(MUSTER_E_CANCELLED, endings[IN_BATCH].status);
    CHECK(pthread_equal(pthread_self(), endings[IN_BATCH].thread));
    CHECK_STATUS(MUSTER_E_CANCELLED, muster_wait(m, &out[IN_BATCH], 1, 0, &problem));
    /* Ready. */
    MUST(muster_cancel(m, out[BATCH - 1], &problem));
    CHECK_EQUAL(1, endings[BATCH - 1].count);
    /* Waiting; it ends when it is its turn, and takes its follower with it. */
    struct muster_task_desc desc = behind(nothing, &endings[BATCH], &out[0], 1);
    desc.done = keep_ending;
    muster_task waits = submit(m, desc);
    desc = behind(nothing, &endings[BATCH + 1], &waits, 1);
    desc.done = keep_ending;
    muster_task follows = submit(m, desc);
    MUST(muster_cancel(m, waits, &problem));
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_wait(m, &follows, 1, MS, &problem));
    /* Begun. */
    CHECK_STATUS(MUSTER_E_BUSY, muster_cancel(m, out[0], &problem));
    door_open(&door);
    CHECK_STATUS(MUSTER_E_CANCELLED, muster_wait(m, &follows, 1, LONG, &problem));
    CHECK_STATUS(MUSTER_E_CANCELLED, muster_wait(m, &waits, 1, LONG, &problem));
    MUST(muster_wait(m, out, IN_BATCH, LONG, &problem));
    MUST(muster_wait(m, &out[IN_BATCH + 1], BATCH - IN_BATCH - 2, LONG, &problem));
    for (int i = 1; i < BATCH + 2; i++) {
        bool is_cancelled = i == IN_BATCH || i >= BATCH - 1;
        CHECK_EQUAL(1, endings[i].count);
        CHECK_STATUS(is_cancelled ? MUSTER_E_CANCELLED : MUSTER_OK, endings[i].status);
        CHECK(i >= BATCH || (endings[i].task.index == out[i].index &&
                             endings[i].task.generation == out[i].generation));
    }
    /* Ended. */
    CHECK_STATUS(MUSTER_E_STALE, muster_cancel(m, out[0], &problem));
    close_all(m);
}

static struct muster *racing;
static muster_task race_tasks[64];

static void *cancel_some(void *argument)
{
    unsigned *cancelled = argument;
    for (size_t i = 0; i < COUNT_OF(race_tasks); i += 3)
        *cancelled += muster_cancel(racing, race_tasks[i], NULL) == MUSTER_OK;
    return NULL;
}

/* Each ends once, and is run unless it was cancelled, in any order. */
static void cancelling_races_with_running(void)
{
    racing = open_workers(2);
    for (unsigned round = 0; round < test_repetitions(100); round++) {
        struct tally run = TALLY_INIT;
        struct muster_task_desc descs[COUNT_OF(race_tasks)];
        unsigned cancelled = 0;
        pthread_t thread;
        for (size_t i = 0; i < COUNT_OF(descs); i++)
            descs[i] = plain(count_one, &run);
        MUST(muster_submit(racing, descs, COUNT_OF(descs), race_tasks, &problem));
        CHECK(pthread_create(&thread, NULL, cancel_some, &cancelled) == 0);
        wait_all(racing);
        pthread_join(thread, NULL);
        CHECK_EQUAL(COUNT_OF(descs), tally_read(&run) + cancelled);
    }
    close_all(racing);
}

/* Waiting. */

static void a_wait_has_an_end(void)
{
    struct muster *m = open_workers(1);
    struct door door = DOOR_INIT;
    struct tally tally = TALLY_INIT;
    muster_task held = submit(m, plain(stand, &door));
    door_wait_arrived(&door, 1);
    muster_task ready = submit(m, plain(count_one, &tally));
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_wait(m, &held, 1, 0, &problem));
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_wait(m, &ready, 1, 0, &problem));
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_wait(m, NULL, 0, 0, &problem));
    /* To look is not to run it. */
    CHECK_EQUAL(0, tally_read(&tally));
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_wait(m, &held, 1, MS, &problem));
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_wait(m, NULL, 0, MS, &problem));
    door_open(&door);
    wait_all(m);
    CHECK_EQUAL(1, tally_read(&tally));
    MUST(muster_wait(m, &held, 1, 0, &problem));
    close_all(m);
}

static muster_status keep_thread(void *user)
{
    *(pthread_t *)user = pthread_self();
    return MUSTER_OK;
}

static void who_waits_helps(void)
{
    struct muster *m = open_workers(1);
    struct door door = DOOR_INIT;
    pthread_t first = pthread_self(), second = first;
    submit(m, plain(stand, &door));
    door_wait_arrived(&door, 1);
    memset(&first, 0, sizeof first);
    memset(&second, 0, sizeof second);
    muster_task before = submit(m, plain(keep_thread, &first));
    muster_task task = submit(m, behind(keep_thread, &second, &before, 1));
    MUST(muster_wait(m, &task, 1, LONG, &problem));
    CHECK(pthread_equal(pthread_self(), first));
    CHECK(pthread_equal(pthread_self(), second));
    door_open(&door);
    close_all(m);
}

static atomic_uint in_vain;

static muster_status count_and_wait(void *user)
{
    struct tally *tally = user;
    count_one(tally);
    if (!tally_reaches(tally, platform_core_count() + 1))
        atomic_fetch_add(&in_vain, 1);
    return MUSTER_OK;
}

/* It leaves the cores to the pool's threads, but not if these wait for what nobody has begun. */
static void who_waits_does_not_stand_back_for_ever(void)
{
    struct muster *m = open_workers(0);
    struct tally tally = TALLY_INIT;
    for (uint32_t i = 0; i < platform_core_count(); i++) {
        submit(m, plain(count_and_wait, &tally));
        CHECK(tally_reaches(&tally, i + 1));
    }
    submit(m, plain(count_and_wait, &tally));
    wait_all(m);
    CHECK_EQUAL(0, atomic_load(&in_vain));
    close_all(m);
}

struct place {
    struct muster *m;
    struct tally *tally;
};

/* The rest come only when another thread runs what this task submits. */
static muster_status submit_and_wait(void *user)
{
    const struct place *place = user;
    const struct muster_task_desc desc = plain(count_and_wait, place->tally);
    muster_status status = muster_submit(place->m, &desc, 1, NULL, NULL);
    return status == MUSTER_OK ? count_and_wait(place->tally) : status;
}

/* Who runs tasks while it waits has the place of one of the pool's threads, but not if that is needed. */
static void a_place_is_taken_again_when_it_is_needed(void)
{
    struct muster *m = open_workers(0);
    struct tally tally = TALLY_INIT;
    struct place place = { m, &tally };
    struct muster_task_desc desc = plain(submit_and_wait, &place);
    muster_task task;
    for (uint32_t i = 0; i + 1 < platform_core_count(); i++) {
        submit(m, plain(count_and_wait, &tally));
        CHECK(tally_reaches(&tally, i + 1));
    }
    linger(); /* a chance for the last thread to park */
    desc.is_awaited = 1;
    MUST(muster_submit(m, &desc, 1, &task, &problem));
    MUST(muster_wait(m, &task, 1, UINT64_MAX, &problem));
    wait_all(m);
    CHECK_EQUAL(0, atomic_load(&in_vain));
    close_all(m);
}

/* Nothing waits behind a long task that was taken with others. */

static void a_waiter_takes_back_what_a_long_task_holds_up(void)
{
    enum { BATCH = 10 };
    struct muster *m = open_workers(1);
    struct door door = DOOR_INIT;
    struct tally tally = TALLY_INIT;
    struct muster_task_desc descs[BATCH];
    muster_task out[BATCH];
    for (int i = 0; i < BATCH; i++)
        descs[i] = plain(count_one, &tally);
    descs[0] = plain(stand, &door);
    MUST(muster_submit(m, descs, BATCH, out, &problem));
    door_wait_arrived(&door, 1);
    MUST(muster_wait(m, &out[1], BATCH - 1, LONG, &problem));
    CHECK_EQUAL(BATCH - 1, tally_read(&tally));
    door_open(&door);
    close_all(m);
}

static void a_thread_takes_back_what_a_long_task_holds_up(void)
{
    enum { BATCH = 64 };
    struct muster *m = open_workers(2);
    struct door door = DOOR_INIT;
    struct tally tally = TALLY_INIT;
    struct muster_task_desc descs[BATCH];
    for (int i = 0; i < BATCH; i++)
        descs[i] = plain(count_one, &tally);
    descs[0] = plain(stand, &door);
    MUST(muster_submit(m, descs, BATCH, NULL, &problem));
    CHECK(tally_reaches(&tally, BATCH - 1));
    door_open(&door);
    wait_all(m);
    close_all(m);
}

/* Of three that are ready, a thread of two takes the first two; the second stands at the door. */
static void submit_short_and_long(struct muster *m, struct door *door, struct tally *follows,
                                  muster_task *out)
{
    struct muster_task_desc descs[] = { plain(nothing, NULL), plain(stand, door),
                                        plain(nothing, NULL),
                                        behind(count_one, follows, &out[0], 1) };
    MUST(muster_submit(m, descs, follows ? 4 : 3, out, &problem));
    door_wait_arrived(door, 1);
}

static void what_follows_a_short_task_does_not_wait_for_a_long_one(void)
{
    struct muster *m = open_workers(2);
    struct door door = DOOR_INIT;
    struct tally tally = TALLY_INIT;
    muster_task out[4];
    submit_short_and_long(m, &door, &tally, out);
    CHECK(tally_reaches(&tally, 1));
    /* And if it is submitted when the short one has been run. */
    submit(m, behind(count_one, &tally, &out[0], 1));
    CHECK(tally_reaches(&tally, 2));
    door_open(&door);
    close_all(m);
}

static void a_late_follower_does_not_wait_for_a_long_task(void)
{
    struct muster *m = open_workers(2);
    struct door door = DOOR_INIT;
    struct tally tally = TALLY_INIT;
    muster_task out[4];
    submit_short_and_long(m, &door, NULL, out);
    submit(m, behind(count_one, &tally, &out[0], 1));
    CHECK(tally_reaches(&tally, 1));
    door_open(&door);
    close_all(m);
}

static void a_wait_for_a_short_task_does_not_wait_for_a_long_one(void)
{
    struct muster *m = open_workers(2);
    struct door door = DOOR_INIT;
    muster_task out[4];
    submit_short_and_long(m, &door, NULL, out);
    MUST(muster_wait(m, &out[0], 1, LONG, &problem));
    CHECK_STATUS(MUSTER_E_STALE, muster_cancel(m, out[0], &problem));
    door_open(&door);
    close_all(m);
}

struct two_doors {
    struct muster *m;
    struct door first, second;
    muster_task task;
    muster_status status;
};

static void *wait_for_task(void *argument)
{
    struct two_doors *doors = argument;
    doors->status = muster_wait(doors->m, &doors->task, 1, UINT64_MAX, NULL);
    return NULL;
}

static void who_waits_is_told(void)
{
    struct two_doors doors = { .m = open_workers(1), .first = DOOR_INIT, .status = MUSTER_OK };
    pthread_t thread;
    doors.task = submit(doors.m, plain(stand, &doors.first));
    door_wait_arrived(&doors.first, 1);
    CHECK(pthread_create(&thread, NULL, wait_for_task, &doors) == 0);
    linger();
    door_open(&doors.first);
    pthread_join(thread, NULL);
    CHECK_STATUS(MUSTER_OK, doors.status);
    close_all(doors.m);
}

/* As before, but the wait has begun, and parked, when the short one ends. */
static void who_waits_already_is_told_at_once(void)
{
    struct two_doors doors = { .m = open_workers(1), .first = DOOR_INIT, .second = DOOR_INIT };
    muster_task out[2];
    pthread_t thread;
    struct muster_task_desc descs[] = { plain(stand, &doors.first), plain(stand, &doors.second) };
    struct tally tally = TALLY_INIT;
    /* The thread is held until both are there, so it takes both at once. */
    struct door before = DOOR_INIT;
    submit(doors.m, plain(stand, &before));
    door_wait_arrived(&before, 1);
    MUST(muster_submit(doors.m, descs, 2, out, &problem));
    door_open(&before);
    door_wait_arrived(&doors.first, 1);
    doors.task = out[0];
    CHECK(pthread_create(&thread, NULL, wait_for_task, &doors) == 0);
    /* The one who waits may take back the second meanwhile; then the caller stands there. */
    linger();
    door_open(&doors.first);
    door_wait_left(&doors.first, 1);
    submit(doors.m, behind(count_one, &tally, &out[0], 1));
    door_wait_arrived(&doors.second, 1);
    linger();
    door_open(&doors.second);
    pthread_join(thread, NULL);
    CHECK_STATUS(MUSTER_OK, doors.status);
    CHECK(tally_reaches(&tally, 1));
    close_all(doors.m);
}

/* Tasks in tasks. */

struct pair {
    struct muster *m;
    muster_task other;
    muster_status status;
};

static muster_status wait_for_other(void *user)
{
    struct pair *pair = user;
    pair->status = muster_wait(pair->m, &pair->other, 1, LONG, NULL);
    return pair->status;
}

/* One thread takes both: the one it has run is not handed in yet when the other asks for it. */
static void a_task_waits_for_one_of_its_own_batch(void)
{
    struct muster *m = open_workers(1);
    for (int is_first = 0; is_first < 2; is_first++) {
        struct pair pair = { .m = m, .status = MUSTER_E_INTERNAL };
        struct door door = DOOR_INIT;
        muster_task out[2];
        submit(m, plain(stand, &door));
        door_wait_arrived(&door, 1);
        struct muster_task_desc descs[] = { plain(nothing, NULL), plain(nothing, NULL) };
        descs[!is_first] = plain(wait_for_other, &pair);
        MUST(muster_submit(m, descs, 2, out, &problem));
        pair.other = out[is_first];
        door_open(&door);
        door_wait_left(&door, 1);
        wait_all(m);
        CHECK_STATUS(MUSTER_OK, pair.status);
    }
    close_all(m);
}

struct fibonacci {
    struct muster *m;
    unsigned number;
    uint64_t result;
};

static muster_status add_up(void *user)
{
    struct fibonacci *whole = user;
    struct fibonacci parts[] = { { whole->m, whole->number - 1, 0 },
                                 { whole->m, whole->number - 2, 0 } };
    if (whole->number < 2) {
        whole->result = whole->number;
        return MUSTER_OK;
    }
    struct muster_task_desc descs[] = { plain(add_up, &parts[0]), plain(add_up, &parts[1]) };
    muster_task out[2];
    muster_status status = muster_submit(whole->m, descs, 2, out, NULL);
    if (status == MUSTER_OK)
        status = muster_wait(whole->m, out, 2, UINT64_MAX, NULL);
    whole->result = parts[0].result + parts[1].result;
    return status;
}

static void tasks_wait_for_tasks_they_submit(void)
{
    for (uint32_t workers = 1; workers < 4; workers++) {
        struct fibonacci whole = { open_workers(workers), 17, 0 };
        muster_task task = submit(whole.m, plain(add_up, &whole));
        MUST(muster_wait(whole.m, &task, 1, 6 * LONG, &problem));
        CHECK_EQUAL(1597, whole.result);
        close_all(whole.m);
    }
}

/* Each waits for the last of a chain of its own, and there are many of them. */
struct nest {
    struct muster *m;
    _Atomic unsigned deepest, run;
};
static _Thread_local unsigned depth;

static muster_status wait_for_chain(void *user)
{
    struct nest *nest = user;
    unsigned deepest = atomic_load(&nest->deepest);
    muster_task out[2];
    struct muster_task_desc descs[] = { plain(nothing, NULL), behind(nothing, NULL, out, 1) };
    depth++;
    while (depth > deepest && !atomic_compare_exchange_weak(&nest->deepest, &deepest, depth))
        continue;
    muster_status status = muster_submit(nest->m, descs, 2, out, NULL);
    if (status == MUSTER_OK)
        status = muster_wait(nest->m, &out[1], 1, UINT64_MAX, NULL);
    depth--;
    atomic_fetch_add(&nest->run, status == MUSTER_OK);
    return status;
}

static void waits_do_not_pile_up(void)
{
    enum { WAITS = 10000 };
    struct nest nest = { .m = open_workers(2) };
    for (int i = 0; i < WAITS; i++)
        submit(nest.m, plain(wait_for_chain, &nest));
    wait_all(nest.m);
    CHECK_EQUAL(WAITS, atomic_load(&nest.run));
    /* Nearly all of them, if they did; some hundreds where a thread is kept from running. */
    CHECK(atomic_load(&nest.deepest) < WAITS / 4);
    close_all(nest.m);
}

/* What is run for somebody who waits. */

struct relay {
    struct muster *m;
    struct door child_known, last;
    muster_task child;
};

static muster_status wait_for_child(void *user)
{
    struct relay *relay = user;
    struct muster_task_desc desc = plain(stand, &relay->last);
    muster_status status = muster_submit(relay->m, &desc, 1, &relay->child, NULL);
    /* Only when another thread runs it does the wait begin. */
    door_pass(&relay->child_known);
    return status == MUSTER_OK ? muster_wait(relay->m, &relay->child, 1, UINT64_MAX, NULL) : status;
}

static void *run_child(void *argument)
{
    struct relay *relay = argument;
    muster_wait(relay->m, &relay->child, 1, UINT64_MAX, NULL);
    return NULL;
}

/* The only thread is in a task that waits, and parked: it is still there for others. */
static void a_thread_that_waits_in_a_task_hears_of_new_ones(void)
{
    struct relay relay = { .m = open_workers(1), .last = DOOR_INIT, .child_known = DOOR_INIT };
    struct tally tally = TALLY_INIT;
    pthread_t thread;
    submit(relay.m, plain(wait_for_child, &relay));
    door_wait_arrived(&relay.child_known, 1);
    CHECK(pthread_create(&thread, NULL, run_child, &relay) == 0);
    door_wait_arrived(&relay.last, 1);
    door_open(&relay.child_known);
    linger();
    submit(relay.m, plain(count_one, &tally));
    CHECK(tally_reaches(&tally, 1));
    door_open(&relay.last);
    pthread_join(thread, NULL);
    close_all(relay.m);
}

static muster_status let_go_and_linger(void *user)
{
    struct door *door = user;
    door_open(door);
    door_wait_left(door, 1);
    linger();
    return MUSTER_OK;
}

/* The thread has parked when the task that another thread runs for it ends. */
static void what_a_helper_makes_ready_is_run(void)
{
    struct muster *m = open_workers(1);
    struct door door = DOOR_INIT;
    struct tally tally = TALLY_INIT;
    submit(m, plain(stand, &door));
    door_wait_arrived(&door, 1);
    muster_task task = submit(m, plain(let_go_and_linger, &door));
    submit(m, behind(count_one, &tally, &task, 1));
    MUST(muster_wait(m, &task, 1, LONG, &problem));
    CHECK(tally_reaches(&tally, 1));
    close_all(m);
}

/* Likewise for one that is cancelled. */
static void what_a_cancelled_task_makes_ready_is_ended(void)
{
    struct muster *m = open_workers(1);
    struct door door = DOOR_INIT;
    struct ending ending = { .count = 0 };
    struct tally tally = TALLY_INIT;
    submit(m, plain(stand, &door));
    door_wait_arrived(&door, 1);
    muster_task task = submit(m, plain(nothing, NULL));
    struct muster_task_desc desc = behind(nothing, &ending, &task, 1);
    desc.done = keep_ending;
    muster_task follows = submit(m, desc);
    MUST(muster_cancel(m, task, &problem));
    door_open(&door);
    CHECK_STATUS(MUSTER_E_CANCELLED, muster_wait(m, &follows, 1, LONG, &problem));
    CHECK_EQUAL(1, ending.count);
    submit(m, plain(count_one, &tally));
    CHECK(tally_reaches(&tally, 1));
    close_all(m);
}

/* The limit. */

struct crowd {
    struct muster *m;
    struct door door;
    struct tally tally;
    muster_task self;
    unsigned accepted, unordered;
    muster_status last;
};

static muster_status submit_without_end(void *user)
{
    struct crowd *crowd = user;
    door_pass(&crowd->door);
    static struct muster_task_desc descs[MUSTER_SUBMIT_MAX];
    for (size_t i = 0; i < COUNT_OF(descs); i++)
        descs[i] = plain(count_one, &crowd->tally);
    /* Those that could be run make room; no more than that is waited for. */
    for (int i = 0; i < 40; i++) {
        crowd->last = muster_submit(crowd->m, descs, COUNT_OF(descs), NULL, NULL);
        if (crowd->last != MUSTER_OK)
            return crowd->last;
        crowd->unordered += (unsigned)COUNT_OF(descs);
    }
    for (size_t i = 0; i < COUNT_OF(descs); i++)
        descs[i] = behind(count_one, &crowd->tally, &crowd->self, 1);
    do {
        crowd->last = muster_submit(crowd->m, descs, COUNT_OF(descs), NULL, NULL);
        crowd->accepted += crowd->last == MUSTER_OK ? (unsigned)COUNT_OF(descs) : 0;
    } while (crowd->last == MUSTER_OK);
    return MUSTER_OK;
}

/* They cannot end before the task that submits, so that must not wait for it. */
static void a_task_does_not_wait_for_those_that_wait_for_it(void)
{
    struct crowd crowd = { .m = open_workers(1), .door = DOOR_INIT, .tally = TALLY_INIT };
    static struct muster_task_desc descs[MUSTER_SUBMIT_MAX];
    crowd.self = submit(crowd.m, plain(submit_without_end, &crowd));
    door_wait_arrived(&crowd.door, 1);
    for (size_t i = 0; i < COUNT_OF(descs); i++)
        descs[i] = behind(count_one, &crowd.tally, &crowd.self, 1);
    unsigned before = 0;
    for (; before + COUNT_OF(descs) < LIMIT; before += (unsigned)COUNT_OF(descs))
        MUST(muster_submit(crowd.m, descs, COUNT_OF(descs), NULL, &problem));
    door_open(&crowd.door);
    MUST(muster_wait(crowd.m, &crowd.self, 1, 3 * LONG, &problem));
    CHECK_STATUS(MUSTER_E_CAPACITY, crowd.last);
    CHECK(before + crowd.accepted > MUSTER_TASKS_MAX - 2 * MUSTER_SUBMIT_MAX);
    wait_all(crowd.m);
    CHECK_EQUAL(before + crowd.accepted + crowd.unordered, tally_read(&crowd.tally));
    close_all(crowd.m);
}

struct tree {
    struct muster *m;
    _Atomic int left;
    _Atomic unsigned accepted, run;
};

static muster_status grow(void *user)
{
    struct tree *tree = user;
    struct muster_task_desc descs[] = { plain(grow, tree), plain(grow, tree), plain(grow, tree) };
    atomic_fetch_add(&tree->run, 1);
    if (atomic_fetch_sub(&tree->left, 3) > 0 &&
        muster_submit(tree->m, descs, 3, NULL, NULL) == MUSTER_OK)
        atomic_fetch_add(&tree->accepted, 3);
    return MUSTER_OK;
}

/* Every task submits more than one: soon all stand at the limit, and none of them may wait. */
static void tasks_that_multiply_come_to_an_end(void)
{
    struct tree tree = { .m = open_workers(2), .left = 200000, .accepted = 1 };
    submit(tree.m, plain(grow, &tree));
    wait_all(tree.m);
    CHECK_EQUAL(atomic_load(&tree.accepted), atomic_load(&tree.run));
    close_all(tree.m);
}

/* Many producers, more than cores, far above the limit; each task exactly once. */

enum { PRODUCERS = 8, EACH = 25000 };
static _Atomic unsigned char runs[PRODUCERS * EACH];

struct producer {
    struct muster *m;
    unsigned number;
    muster_status status;
};

static muster_status mark(void *user)
{
    atomic_fetch_add_explicit((_Atomic unsigned char *)user, 1, memory_order_relaxed);
    return MUSTER_OK;
}

static void *produce(void *argument)
{
    struct producer *producer = argument;
    struct muster_task_desc descs[100];
    struct random random;
    muster_task last;
    size_t count;
    random_init(&random, test_seed() + producer->number);
    for (size_t i = 0; i < EACH && producer->status == MUSTER_OK; i += count) {
        count = 1 + random_below(&random, random_below(&random, 2) ? COUNT_OF(descs) : 3);
        count = count < EACH - i ? count : EACH - i;
        for (size_t k = 0; k < count; k++)
            descs[k] = plain(mark, (void *)&runs[producer->number * EACH + i + k]);
        muster_task out[100];
        producer->status = muster_submit(producer->m, descs, count, out, NULL);
        last = out[count - 1];
        if (producer->status == MUSTER_OK && random_below(&random, 50) == 0)
            producer->status = muster_wait(producer->m, &last, 1, UINT64_MAX, NULL);
        /* The others may have used its place again meanwhile; that it has ended is certain. */
        if (producer->status == MUSTER_E_STALE)
            producer->status = MUSTER_OK;
    }
    return NULL;
}

static void many_producers_each_task_once(void)
{
    struct muster *m = open_workers(3);
    struct producer producers[PRODUCERS];
    pthread_t threads[PRODUCERS];
    memset((void *)runs, 0, sizeof runs);
    for (unsigned i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct producer){ m, i, MUSTER_OK };
        CHECK(pthread_create(&threads[i], NULL, produce, &producers[i]) == 0);
    }
    for (unsigned i = 0; i < PRODUCERS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_STATUS(MUSTER_OK, producers[i].status);
    }
    wait_all(m);
    for (size_t i = 0; i < COUNT_OF(runs); i++)
        CHECK_EQUAL(1, atomic_load(&runs[i]));
    close_all(m);
}

static void *produce_ordered(void *argument)
{
    struct producer *producer = argument;
    struct muster_task_desc descs[200];
    muster_task gate = { 0, 0 };
    for (size_t i = 0; i < EACH && producer->status == MUSTER_OK; i += COUNT_OF(descs)) {
        muster_task out[COUNT_OF(descs)];
        for (size_t k = 0; k < COUNT_OF(descs); k++)
            descs[k] = behind(mark, (void *)&runs[producer->number * EACH + i + k], &gate,
                              gate.generation > 0);
        producer->status = muster_submit(producer->m, descs, COUNT_OF(descs), out, NULL);
        gate = out[0];
    }
    return NULL;
}

/* As many at the limit, but most of what fills it waits for something. */
static void producers_at_the_limit_go_on(void)
{
    struct muster *m = open_workers(1);
    struct producer producers[PRODUCERS];
    pthread_t threads[PRODUCERS];
    memset((void *)runs, 0, sizeof runs);
    for (unsigned i = 0; i < PRODUCERS; i++) {
        producers[i] = (struct producer){ m, i, MUSTER_OK };
        CHECK(pthread_create(&threads[i], NULL, produce_ordered, &producers[i]) == 0);
    }
    for (unsigned i = 0; i < PRODUCERS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_STATUS(MUSTER_OK, producers[i].status);
    }
    wait_all(m);
    for (size_t i = 0; i < COUNT_OF(runs); i++)
        CHECK_EQUAL(1, atomic_load(&runs[i]));
    close_all(m);
}

/* Opening and closing. */

static void closing_lets_tasks_end(void)
{
    for (unsigned round = 0; round < test_repetitions(20); round++) {
        struct muster *m = open_workers(1 + round % 3);
        struct tree tree = { .m = m, .left = 300, .accepted = 1 };
        struct tally tally = TALLY_INIT;
        struct door door = DOOR_INIT;
        muster_task task = submit(m, plain(stand, &door));
        for (int i = 0; i < 500; i++) {
            task = submit(m, behind(count_one, &tally, &task, 1));
            submit(m, plain(count_one, &tally));
        }
        submit(m, plain(grow, &tree));
        door_open(&door);
        close_all(m);
        CHECK_EQUAL(1000, tally_read(&tally));
        CHECK_EQUAL(atomic_load(&tree.accepted), atomic_load(&tree.run));
    }
}

static double cpu_ms(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec * 1e3 + (double)used.tv_nsec / 1e6;
}

static void an_idle_runtime_uses_no_time(void)
{
    struct muster *m = open_workers(4);
    for (int i = 0; i < 1000; i++)
        submit(m, plain(nothing, NULL));
    wait_all(m);
    for (uint64_t i = 0; i < test_patience(1); i++)
        linger();
    double before = cpu_ms();
    for (int i = 0; i < 10; i++)
        linger();
    /* Of 200 ms on four threads. */
    CHECK(cpu_ms() - before < 20);
    /* And it is awake when it has to be. */
    struct tally tally = TALLY_INIT;
    submit(m, plain(count_one, &tally));
    CHECK(tally_reaches(&tally, 1));
    close_all(m);
}

/* One in a row of allocations fails. */
struct failing {
    struct counting counting;
    _Atomic int left; /* until the one that fails; negative: none */
};

static void *failing_allocate(void *user, size_t bytes, size_t alignment)
{
    struct failing *failing = user;
    if (atomic_fetch_sub(&failing->left, 1) == 0)
        return NULL;
    return counting_allocate(&failing->counting, bytes, alignment);
}

static void failing_release(void *user, void *memory, size_t bytes)
{
    counting_release(&((struct failing *)user)->counting, memory, bytes);
}

static void the_first_submit_survives_a_lack_of_memory(void)
{
    muster_status status = MUSTER_E_NO_MEMORY;
    unsigned failures = 0;
    for (int number = 0; status != MUSTER_OK; number++) {
        struct failing failing = { .counting = COUNTING_INIT, .left = -1 };
        struct muster_options options = MUSTER_OPTIONS_INIT;
        struct tally tally = TALLY_INIT;
        struct muster_task_desc desc = plain(count_one, &tally);
        options.devices = "cpu";
        options.allocator =
            &(struct muster_allocator){ sizeof(struct muster_allocator), failing_allocate,
                                        failing_release, &failing };
        struct muster *m = open_with(options);
        atomic_store(&failing.left, number);
        status = muster_submit(m, &desc, 1, NULL, &problem);
        bool has_failed = atomic_load(&failing.left) < 0;
        atomic_store(&failing.left, -1);
        if (has_failed) {
            failures++;
            CHECK_STATUS(MUSTER_E_NO_MEMORY, status);
            CHECK_EQUAL(0, tally_read(&tally));
            MUST(muster_submit(m, &desc, 1, NULL, &problem));
        } else {
            CHECK_STATUS(MUSTER_OK, status);
        }
        wait_all(m);
        CHECK_EQUAL(1, tally_read(&tally));
        close_all(m);
        CHECK_EQUAL(0, failing.counting.bytes);
        CHECK_EQUAL(0, failing.counting.wrong);
    }
    CHECK(failures >= 3);
}

/* No room for the order of tasks: none is submitted, and all is as it was. */
static void an_order_that_there_is_no_memory_for_is_refused(void)
{
    enum { CALL = 2, TIMES = 100000 };
    struct failing failing = { .counting = COUNTING_INIT, .left = -1 };
    const struct muster_allocator allocator = { sizeof allocator, failing_allocate, failing_release,
                                                &failing };
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct door door = DOOR_INIT;
    struct tally tally = TALLY_INIT;
    static muster_task before[TIMES];
    options.devices = "cpu";
    options.allocator = &allocator;
    struct muster *m = open_with(options);
    before[0] = submit(m, plain(stand, &door));
    for (int i = 1; i < TIMES; i++)
        before[i] = before[0];
    struct muster_task_desc descs[CALL] = { behind(count_one, &tally, before, TIMES),
                                            behind(count_one, &tally, before, TIMES) };
    for (int i = 0; i < 3; i++) {
        atomic_store(&failing.left, 0);
        CHECK_STATUS(MUSTER_E_NO_MEMORY, muster_submit(m, descs, CALL, NULL, &problem));
    }
    atomic_store(&failing.left, -1);
    MUST(muster_submit(m, descs, 1, NULL, &problem));
    MUST(muster_submit(m, descs, CALL, NULL, &problem));
    door_open(&door);
    wait_all(m);
    CHECK_EQUAL(3, tally_read(&tally));
    close_all(m);
    CHECK_EQUAL(0, failing.counting.bytes);
    CHECK_EQUAL(0, failing.counting.wrong);
}

static _Atomic int threads_left = -1;

/* The linker puts the first in the place of the system's, which goes by the name of the second. */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);

/* The n-th thread is refused. */
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument)
{
    if (atomic_load(&threads_left) >= 0 && atomic_fetch_sub(&threads_left, 1) == 0)
        return EAGAIN;
    return __real_pthread_create(thread, attributes, run, argument);
}

static void the_first_submit_survives_a_lack_of_threads(void)
{
    for (int number = 0; number < 3; number++) {
        struct muster *m = open_workers(3);
        struct tally tally = TALLY_INIT;
        struct muster_task_desc desc = plain(count_one, &tally);
        atomic_store(&threads_left, number);
        CHECK_STATUS(MUSTER_E_NO_MEMORY, muster_submit(m, &desc, 1, NULL, &problem));
        CHECK_EQUAL(-1, atomic_load(&threads_left));
        CHECK_EQUAL(0, tally_read(&tally));
        MUST(muster_submit(m, &desc, 1, NULL, &problem));
        CHECK(tally_reaches(&tally, 1));
        close_all(m);
    }
}

static void *submit_first(void *argument)
{
    struct producer *producer = argument;
    struct muster_task_desc desc = plain(mark, (void *)&runs[producer->number]);
    producer->status = muster_submit(producer->m, &desc, 1, NULL, NULL);
    return NULL;
}

static void several_may_be_the_first(void)
{
    for (unsigned round = 0; round < test_repetitions(10); round++) {
        struct muster *m = open_workers(2);
        struct producer producers[PRODUCERS];
        pthread_t threads[PRODUCERS];
        memset((void *)runs, 0, PRODUCERS);
        for (unsigned i = 0; i < PRODUCERS; i++) {
            producers[i] = (struct producer){ m, i, MUSTER_E_INTERNAL };
            CHECK(pthread_create(&threads[i], NULL, submit_first, &producers[i]) == 0);
        }
        for (unsigned i = 0; i < PRODUCERS; i++) {
            pthread_join(threads[i], NULL);
            CHECK_STATUS(MUSTER_OK, producers[i].status);
        }
        wait_all(m);
        for (unsigned i = 0; i < PRODUCERS; i++)
            CHECK_EQUAL(1, atomic_load(&runs[i]));
        close_all(m);
    }
}

static muster_status note_thread(void *user)
{
    *(pthread_t *)user = pthread_self();
    return MUSTER_OK;
}

/*
 * With no thread woken for it, the waiting thread runs it, however late it is. Not every time: the
 * thread that runs tasks may still look around when the machine is busy.
 */
static void who_says_he_will_wait_is_left_the_task(void)
{
    struct muster *m = open_workers(1);
    muster_task task;
    struct tally tally = TALLY_INIT;
    struct muster_task_desc first = { .size = sizeof first, .fn = count_one, .user = &tally };
    MUST(muster_submit(m, &first, 1, NULL, &problem));
    CHECK(tally_reaches(&tally, 1));
    unsigned mine = 0;
    for (int i = 0; i < 20; i++) {
        struct timespec pause = { 0, (long)test_patience(1000000) };
        pthread_t who = 0;
        struct muster_task_desc desc = {
            .size = sizeof desc, .fn = note_thread, .user = &who, .is_awaited = 1
        };
        nanosleep(&pause, NULL);
        MUST(muster_submit(m, &desc, 1, &task, &problem));
        nanosleep(&pause, NULL);
        MUST(muster_wait(m, &task, 1, LONG, &problem));
        mine += pthread_equal(who, pthread_self()) != 0;
    }
    CHECK(mine > 10);
    close_all(m);
}

static void an_awaited_task_that_is_not_waited_for_ends_too(void)
{
    struct muster *m = open_workers(2);
    struct tally tally = TALLY_INIT;
    struct muster_task_desc desc = {
        .size = sizeof desc, .fn = count_one, .user = &tally, .is_awaited = 1
    };
    MUST(muster_submit(m, &desc, 1, NULL, &problem));
    desc.is_awaited = 0;
    MUST(muster_submit(m, &desc, 1, NULL, &problem));
    CHECK(tally_reaches(&tally, 2));
    desc.is_awaited = 1;
    MUST(muster_submit(m, &desc, 1, NULL, &problem));
    close_all(m);
    CHECK_EQUAL(3, tally_read(&tally));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(two_tasks_one_after_the_other),
        TEST(mistakes_are_refused),
        TEST(handles_that_were_never_given_are_refused),
        TEST(tasks_of_one_call_cannot_wait_in_a_circle),
        TEST(a_task_may_be_after_any_number),
        TEST(any_order_is_kept),
        TEST(a_diamond_joins),
        TEST(a_failure_cancels_all_that_follow),
        TEST(how_it_ended_is_kept_for_a_while),
        TEST(what_has_not_begun_can_be_cancelled),
        TEST(cancelling_races_with_running),
        TEST(a_wait_has_an_end),
        TEST(who_waits_helps),
        TEST(who_waits_does_not_stand_back_for_ever),
        TEST(a_place_is_taken_again_when_it_is_needed),
        TEST(a_waiter_takes_back_what_a_long_task_holds_up),
        TEST(a_thread_takes_back_what_a_long_task_holds_up),
        TEST(what_follows_a_short_task_does_not_wait_for_a_long_one),
        TEST(a_late_follower_does_not_wait_for_a_long_task),
        TEST(a_wait_for_a_short_task_does_not_wait_for_a_long_one),
        TEST(who_waits_is_told),
        TEST(who_waits_already_is_told_at_once),
        TEST(a_task_waits_for_one_of_its_own_batch),
        TEST(tasks_wait_for_tasks_they_submit),
        TEST(waits_do_not_pile_up),
        TEST(a_thread_that_waits_in_a_task_hears_of_new_ones),
        TEST(what_a_helper_makes_ready_is_run),
        TEST(what_a_cancelled_task_makes_ready_is_ended),
        TEST(a_task_does_not_wait_for_those_that_wait_for_it),
        TEST(tasks_that_multiply_come_to_an_end),
        TEST(many_producers_each_task_once),
        TEST(producers_at_the_limit_go_on),
        TEST(who_says_he_will_wait_is_left_the_task),
        TEST(an_awaited_task_that_is_not_waited_for_ends_too),
        TEST(closing_lets_tasks_end),
        TEST(an_idle_runtime_uses_no_time),
        TEST(the_first_submit_survives_a_lack_of_memory),
        TEST(an_order_that_there_is_no_memory_for_is_refused),
        TEST(the_first_submit_survives_a_lack_of_threads),
        TEST(several_may_be_the_first),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
