/*
 * Threads that run what they are given and then wait for more.
 */
#include "run/threads/crew.h"

#include "support.h"

#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As the system has it: one number for each thread, no two at a time have the same. */
static pid_t this_thread(void)
{
    return (pid_t)syscall(SYS_gettid);
}

static _Atomic unsigned threads_started;
static _Atomic bool threads_are_refused;
int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument)
{
    if (threads_are_refused)
        return EAGAIN;
    threads_started++;
    return __real_pthread_create(thread, attributes, run, argument);
}

/* How long the calling thread runs at a time; 0: the system does not say. */
static uint64_t slice_ns(void)
{
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime_ns, deadline_ns, period_ns;
    } now = { .size = 0 };
    return syscall(SYS_sched_getattr, 0, &now, sizeof now, 0) == 0 ? now.runtime_ns : 0;
}

struct piece {
    struct muster *m;
    struct crew_thread *crew;
    struct door *door; /* NULL: it is done at once */
    bool must_end;
    pid_t thread;
    uint64_t slice_ns;
    char name[16];
    bool is_done; /* with the lock */
};

static void work(void *argument)
{
    struct piece *piece = argument;
    struct muster *m = piece->m;
    piece->thread = this_thread();
    piece->slice_ns = slice_ns();
    prctl(PR_GET_NAME, piece->name);
    if (piece->door)
        door_pass(piece->door);
    run_lock(m);
    if (piece->must_end)
        crew_end_locked(piece->crew);
    piece->is_done = true;
    platform_condition_wake_all(&m->changed);
    run_unlock(m);
}

static void give(struct muster *m, struct piece *piece, const char *name)
{
    piece->m = m;
    MUST(crew_run(m, work, piece, name, &piece->crew, &problem));
    CHECK(piece->crew != NULL);
}

/* Until this many wait for more. */
static void wait_parked(struct muster *m, uint32_t count)
{
    while (crew_parked(m) < count)
        sched_yield();
}

static void wait_done(struct muster *m, const struct piece *piece)
{
    run_lock(m);
    while (!piece->is_done)
        platform_condition_wait(&m->changed, &m->lock, UINT64_MAX);
    run_unlock(m);
}

static struct muster *open_counting(struct counting *counting)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.allocator = counting_allocator(counting);
    struct muster *m = open_with(options);
    threads_started = 0;
    threads_are_refused = false;
    return m;
}

static void close_counting(struct muster *m, struct counting *counting)
{
    MUST(muster_close(m, &problem));
    CHECK_EQUAL(0, counting->bytes);
}

static void a_thread_that_is_back_runs_the_next(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_counting(&counting);
    struct piece first = { .door = NULL }, second = { .door = NULL };
    give(m, &first, "muster-lane");
    wait_parked(m, 1);
    give(m, &second, "muster-job");
    wait_done(m, &second);
    CHECK_EQUAL(first.thread, second.thread);
    CHECK_TEXT("muster-job", second.name);
    CHECK_EQUAL(1, threads_started);
    close_counting(m, &counting);
}

/* They feed devices, also where kernels keep all cores busy. */
static void its_threads_run_at_once_when_woken(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_counting(&counting);
    struct piece piece = { .door = NULL };
    uint64_t usual_ns = slice_ns();
    give(m, &piece, "muster-lane");
    wait_done(m, &piece);
    /* Linux before 6.12 has no slices of a thread's own. */
    CHECK(usual_ns == 0 || (piece.slice_ns > 0 && piece.slice_ns < usual_ns));
    close_counting(m, &counting);
}

static void one_that_is_busy_is_not_waited_for(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_counting(&counting);
    struct door door = DOOR_INIT;
    struct piece busy = { .door = &door }, other = { .door = NULL };
    give(m, &busy, "muster-lane");
    give(m, &other, "muster-lane");
    wait_done(m, &other);
    door_open(&door);
    wait_parked(m, 2);
    CHECK(busy.thread != other.thread);
    CHECK_EQUAL(2, threads_started);
    close_counting(m, &counting);
}

static void one_of_the_same_name_is_preferred(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_counting(&counting);
    struct door door = DOOR_INIT;
    struct piece lane = { .door = &door }, job = { .door = &door };
    give(m, &lane, "muster-lane");
    give(m, &job, "muster-job");
    door_open(&door);
    wait_parked(m, 2);
    for (int i = 0; i < 4; i++) {
        struct piece next = { .door = NULL };
        give(m, &next, i % 2 ? "muster-lane" : "muster-job");
        wait_done(m, &next);
        CHECK_EQUAL(i % 2 ? lane.thread : job.thread, next.thread);
        wait_parked(m, 2);
    }
    close_counting(m, &counting);
}

static void one_that_was_given_up_runs_nothing_else(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_counting(&counting);
    struct piece lost = { .must_end = true }, next = { .door = NULL };
    give(m, &lost, "muster-lane");
    wait_done(m, &lost);
    give(m, &next, "muster-lane");
    wait_parked(m, 1);
    CHECK_EQUAL(2, threads_started);
    close_counting(m, &counting);
}

static void refused_threads_are_told_and_those_that_wait_still_serve(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_counting(&counting);
    struct piece piece = { .m = m }, second = { .m = m };
    threads_are_refused = true;
    piece.crew = (struct crew_thread *)&piece;
    CHECK_STATUS(MUSTER_E_NO_MEMORY, crew_run(m, work, &piece, "a", &piece.crew, &problem));
    CHECK(piece.crew == NULL && !piece.is_done);
    threads_are_refused = false;
    give(m, &piece, "a");
    wait_parked(m, 1);
    threads_are_refused = true;
    give(m, &second, "b");
    wait_done(m, &second);
    threads_are_refused = false;
    close_counting(m, &counting);
}

static void trimming_ends_those_that_wait_and_no_others(void)
{
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_counting(&counting);
    struct door door = DOOR_INIT;
    struct piece busy = { .door = &door }, idle = { .door = NULL }, next = { .door = NULL };
    give(m, &busy, "a");
    give(m, &idle, "b");
    wait_parked(m, 1);
    muster_trim(m);
    CHECK_EQUAL(0, crew_parked(m));
    muster_trim(m);
    door_open(&door);
    wait_done(m, &busy);
    wait_parked(m, 1);
    give(m, &next, "b");
    wait_done(m, &next);
    CHECK_EQUAL(2, threads_started);
    CHECK_EQUAL(busy.thread, next.thread);
    close_counting(m, &counting);
}

static void not_more_wait_than_are_of_use(void)
{
    enum { MANY = 80 };
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_counting(&counting);
    struct door door = DOOR_INIT;
    static struct piece pieces[MANY];
    memset(pieces, 0, sizeof pieces);
    for (size_t i = 0; i < MANY; i++) {
        pieces[i].door = &door;
        give(m, &pieces[i], "a");
    }
    door_open(&door);
    for (size_t i = 0; i < MANY; i++)
        wait_done(m, &pieces[i]);
    wait_parked(m, 64);
    struct piece next = { .door = NULL };
    give(m, &next, "a");
    wait_done(m, &next);
    CHECK(crew_parked(m) <= 64);
    CHECK_EQUAL(MANY, threads_started);
    close_counting(m, &counting);
}

/* From several threads, for a while: each piece is run once, by a thread that has only it. */
struct giver {
    struct muster *m;
    unsigned rounds, wrong;
};

static void *give_many(void *argument)
{
    struct giver *giver = argument;
    for (unsigned i = 0; i < giver->rounds; i++) {
        struct piece pieces[3] = { { .must_end = i % 16 == 0 },
                                   { .door = NULL },
                                   { .door = NULL } };
        for (size_t p = 0; p < COUNT_OF(pieces); p++) {
            pieces[p].m = giver->m;
            if (crew_run(giver->m, work, &pieces[p], p ? "a" : "b", &pieces[p].crew, NULL))
                giver->wrong++;
        }
        for (size_t p = 0; p < COUNT_OF(pieces); p++)
            wait_done(giver->m, &pieces[p]);
        if (i % 32 == 0)
            muster_trim(giver->m);
    }
    return NULL;
}

static void many_may_give_at_once(void)
{
    enum { GIVERS = 3 };
    struct counting counting = COUNTING_INIT;
    struct muster *m = open_counting(&counting);
    struct giver givers[GIVERS];
    pthread_t threads[GIVERS];
    for (size_t i = 0; i < GIVERS; i++) {
        givers[i] = (struct giver){ .m = m, .rounds = test_repetitions(100) };
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, give_many, &givers[i]));
    }
    for (size_t i = 0; i < GIVERS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQUAL(0, givers[i].wrong);
    }
    close_counting(m, &counting);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_thread_that_is_back_runs_the_next),
        TEST(its_threads_run_at_once_when_woken),
        TEST(one_that_is_busy_is_not_waited_for),
        TEST(one_of_the_same_name_is_preferred),
        TEST(one_that_was_given_up_runs_nothing_else),
        TEST(refused_threads_are_told_and_those_that_wait_still_serve),
        TEST(trimming_ends_those_that_wait_and_no_others),
        TEST(not_more_wait_than_are_of_use),
        TEST(many_may_give_at_once),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
