/*
 * Very many tasks, each after one to three others, from several threads at once: every body runs
 * once, after all that its task is after. Functions on the host and kernels are mixed. Counts are
 * plain memory, so ThreadSanitizer sees an order that Muster does not keep.
 * MUSTER_TEST_REPEAT=50 makes it 2,000,000 tasks with AddressSanitizer, 100 with ThreadSanitizer.
 */
#include "base/random.h"
#include "support.h"

#define LONG (600 * SECOND)
#define TASKS_BASE TEST_BY_SANITIZER(100000u, 40000u, 20000u)
#define PRODUCERS 3u
#define AT_ONCE_MAX 8u
#define BEFORES_MAX 3u
#define SHARED 64u  /* tasks that any thread may be after */
#define KERNELS 16u /* one task in this many is a kernel */

struct record {
    uint32_t runs, ends; /* plain: a later thread reads them */
    uint32_t befores[BEFORES_MAX];
    uint8_t before_count;
    bool has_done;
};

static struct record *records;
static _Atomic uint32_t mistakes;

/* The newest tasks of all threads. */
static struct {
    pthread_mutex_t mutex;
    struct {
        uint32_t number;
        muster_task task;
    } entries[SHARED];
    uint32_t count;
} shared = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static muster_status body(void *user)
{
    struct record *record = user;
    for (uint32_t i = 0; i < record->before_count; i++)
        if (records[record->befores[i]].runs != 1)
            atomic_fetch_add(&mistakes, 1);
    if (++record->runs != 1)
        atomic_fetch_add(&mistakes, 1);
    return MUSTER_OK;
}

static muster_status kernel_body(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end;
    return body(*(struct record *const *)args[0]);
}

static void hear(void *user, muster_task task, muster_status status)
{
    (void)task;
    struct record *record = user;
    if (status != MUSTER_OK || record->runs != 1 || ++record->ends != 1)
        atomic_fetch_add(&mistakes, 1);
}

struct producer {
    pthread_t thread;
    struct muster *m;
    struct muster_kernel *kernel;
    struct random random;
    uint32_t first, count;
    muster_status status;
};

/* What a call submits. */
struct call {
    struct muster_task_desc descs[AT_ONCE_MAX];
    muster_task tasks[AT_ONCE_MAX], after[AT_ONCE_MAX][BEFORES_MAX];
    struct muster_arg args[AT_ONCE_MAX];
    struct record *users[AT_ONCE_MAX];
};

static void share(uint32_t number, muster_task task)
{
    pthread_mutex_lock(&shared.mutex);
    shared.entries[shared.count % SHARED].number = number;
    shared.entries[shared.count++ % SHARED].task = task;
    pthread_mutex_unlock(&shared.mutex);
}

/* One that was submitted not long ago, by anybody; false if there is none yet. */
static bool choose_before(struct random *random, uint32_t *number, muster_task *task)
{
    pthread_mutex_lock(&shared.mutex);
    uint32_t count = shared.count < SHARED ? shared.count : SHARED;
    /* The newest are the likeliest to be under way. */
    uint32_t back = 1 + (uint32_t)random_below(random, random_below(random, 2) ? 4 : SHARED);
    bool is_there = back <= count;
    if (is_there) {
        *number = shared.entries[(shared.count - back) % SHARED].number;
        *task = shared.entries[(shared.count - back) % SHARED].task;
    }
    pthread_mutex_unlock(&shared.mutex);
    return is_there;
}

/* Fills entry i of the call; it may be after earlier ones, whose handles are there when it counts. */
static void describe(struct producer *producer, struct call *call, uint32_t i, uint32_t number)
{
    struct record *record = &records[number];
    struct muster_task_desc *desc = &call->descs[i];
    uint32_t wanted = 1 + (uint32_t)random_below(&producer->random, BEFORES_MAX);
    record->has_done = random_below(&producer->random, 4) == 0;
    *desc = (struct muster_task_desc){ .size = sizeof *desc,
                                       .user = record,
                                       .after = call->after[i],
                                       .done = record->has_done ? hear : NULL };
    call->users[i] = record;
    for (uint32_t k = 0; k < wanted; k++) {
        uint32_t before;
        if (i > 0 && random_below(&producer->random, 3) == 0) {
            /* The handle is not known before the call: `after` points to where it will be. */
            before = (uint32_t)random_below(&producer->random, i);
            if (record->before_count > 0)
                continue;
            desc->after = &call->tasks[before];
            record->befores[record->before_count++] = number - i + before;
            break;
        }
        if (choose_before(&producer->random, &before, &call->after[i][record->before_count]))
            record->befores[record->before_count++] = before;
    }
    desc->after_count = record->before_count;
    if (random_below(&producer->random, KERNELS) == 0) {
        desc->kernel = producer->kernel;
        call->args[i] = (struct muster_arg)MUSTER_VALUE(call->users[i]);
        desc->args = &call->args[i];
        desc->arg_count = 1;
        desc->items = 1;
    } else {
        desc->fn = body;
    }
}

static void *produce(void *argument)
{
    struct producer *producer = argument;
    struct muster_error ignored;
    struct call call;
    for (uint32_t done = 0; done < producer->count && producer->status == MUSTER_OK;) {
        uint32_t left = producer->count - done;
        uint32_t count = random_below(&producer->random, 3) > 0
                             ? 1
                             : 1 + (uint32_t)random_below(&producer->random, AT_ONCE_MAX);
        count = count < left ? count : left;
        for (uint32_t i = 0; i < count; i++)
            describe(producer, &call, i, producer->first + done + i);
        producer->status = muster_submit(producer->m, call.descs, count, call.tasks, &ignored);
        for (uint32_t i = 0; i < count && producer->status == MUSTER_OK; i++)
            share(producer->first + done + i, call.tasks[i]);
        if (random_below(&producer->random, 64) == 0 && producer->status == MUSTER_OK)
            producer->status = muster_wait(producer->m, &call.tasks[count - 1], 1, LONG, &ignored);
        done += count;
    }
    return NULL;
}

static void every_body_runs_once_and_after_all_before_it(void)
{
    uint32_t total = test_repetitions(TASKS_BASE);
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "cpu";
    options.cpu_workers = 2;
    struct muster *m = open_with(options);
    struct muster_kernel *kernel = kernel_of(m, kernel_body);
    struct producer producers[PRODUCERS];
    records = calloc(total, sizeof *records);
    CHECK(records != NULL);
    for (uint32_t i = 0; i < PRODUCERS; i++) {
        uint32_t first = (uint32_t)((uint64_t)total * i / PRODUCERS);
        producers[i] =
            (struct producer){ .m = m,
                               .kernel = kernel,
                               .first = first,
                               .count = (uint32_t)((uint64_t)total * (i + 1) / PRODUCERS) - first };
        random_init(&producers[i].random, test_seed() + i);
        CHECK_EQUAL(0, pthread_create(&producers[i].thread, NULL, produce, &producers[i]));
    }
    for (uint32_t i = 0; i < PRODUCERS; i++)
        pthread_join(producers[i].thread, NULL);
    for (uint32_t i = 0; i < PRODUCERS; i++)
        CHECK_STATUS(MUSTER_OK, producers[i].status);
    MUST(muster_wait(m, NULL, 0, LONG, &problem));
    CHECK_EQUAL(0, atomic_load(&mistakes));
    for (uint32_t i = 0; i < total; i++) {
        CHECK_EQUAL(1, records[i].runs);
        CHECK_EQUAL(records[i].has_done, records[i].ends);
    }
    printf("    %u tasks\n", total);
    MUST(muster_close(m, &problem));
    free(records);
}

/*
 * The plain program: two tasks, and one after both. The first two are under way, or just done, while
 * the third is submitted.
 */
static void a_task_after_two_new_ones(void)
{
    uint32_t rounds = test_repetitions(TASKS_BASE);
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "cpu";
    options.cpu_workers = 2;
    struct muster *m = open_with(options);
    records = calloc(3 * (size_t)rounds, sizeof *records);
    CHECK(records != NULL);
    for (uint32_t i = 0; i < rounds; i++) {
        muster_task tasks[3];
        struct record *record = &records[3 * i];
        struct muster_task_desc desc = { .size = sizeof desc, .fn = body, .after = tasks };
        record[2].befores[0] = 3 * i;
        record[2].befores[1] = 3 * i + 1;
        record[2].before_count = 2;
        for (uint32_t k = 0; k < 3; k++) {
            desc.user = &record[k];
            desc.after_count = record[k].before_count;
            MUST(muster_submit(m, &desc, 1, &tasks[k], &problem));
        }
    }
    MUST(muster_wait(m, NULL, 0, LONG, &problem));
    CHECK_EQUAL(0, atomic_load(&mistakes));
    for (uint32_t i = 0; i < 3 * rounds; i++)
        CHECK_EQUAL(1, records[i].runs);
    MUST(muster_close(m, &problem));
    free(records);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = { TEST(a_task_after_two_new_ones),
                                         TEST(every_body_runs_once_and_after_all_before_it) };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
