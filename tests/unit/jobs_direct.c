/*
 * Jobs whose devices work on host memory: results are written straight into the caller's arrays, and
 * are the same as through Muster's memory, whatever fails meanwhile.
 *
 * "host" is a simulated device that works on host memory, as a processor does; "sim" and "gpu" have
 * their own.
 */
#include "jobs_support.h"

#include "backend/sim/sim.h"

#include <stdatomic.h>

#define UNIT 512
#define ITEMS (64 * UNIT)

static muster_status open_device(void *backend, uint32_t index, void *device,
                                 struct muster_device_info *info, struct muster_error *err)
{
    muster_status status = backend_sim.device_open(backend, index, device, info, err);
    info->capabilities |= MUSTER_CAN_USE_HOST_MEMORY;
    return status;
}

/* With memory of its own: where such a device takes part, small units go together. */
static muster_status open_gpu(void *backend, uint32_t index, void *device,
                              struct muster_device_info *info, struct muster_error *err)
{
    muster_status status = backend_sim.device_open(backend, index, device, info, err);
    info->kind = MUSTER_KIND_GPU;
    return status;
}

static struct muster *open_host(const char *devices, const char *sim, uint64_t close_ns)
{
    static struct muster_backend host, gpu;
    static const struct muster_backend *const tables[] = { &host, &gpu };
    host = gpu = backend_sim;
    host.name = "host";
    host.device_open = open_device;
    gpu.name = "gpu";
    gpu.device_open = open_gpu;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.backends = (const struct muster_backend **)(uintptr_t)tables;
    options.backend_count = COUNT_OF(tables);
    options.cpu_workers = 2;
    options.devices = devices;
    options.sim = sim;
    if (close_ns > 0)
        options.close_ns = close_ns;
    return open_with(options);
}

#define FAST "[{\"items_per_s\": 1e9}]"

/* What the kernels do beside computing. */
static _Atomic uint64_t fails_at; /* the kernel fails at this item */
static _Atomic int failures_left; /* this many times */
static _Atomic muster_status failure;
static _Atomic uint64_t stands_at; /* an attempt of the unit that begins here stands at the door */
static const uint64_t *_Atomic stands_in; /* not NULL: only one that writes into this array */
static _Atomic int runs_there;
static _Atomic bool is_standing;
static struct door *_Atomic door;

static void behave(void)
{
    atomic_store(&fails_at, UINT64_MAX);
    atomic_store(&stands_at, UINT64_MAX);
    atomic_store(&stands_in, NULL);
    atomic_store(&runs_there, 0);
    atomic_store(&is_standing, false);
    atomic_store(&failures_left, 0);
}

static void fail_at(uint64_t item, int times, muster_status status)
{
    atomic_store(&failure, status);
    atomic_store(&failures_left, times);
    atomic_store(&fails_at, item);
}

/* `written` is where the unit's first item goes. */
static muster_status misbehave(uint64_t first, uint64_t begin, uint64_t end,
                               const uint64_t *written)
{
    uint64_t item = atomic_load(&fails_at), place = atomic_load(&stands_at);
    const uint64_t *array = atomic_load(&stands_in);
    if (place >= first + begin && place < first + end) {
        bool is_first = atomic_fetch_add(&runs_there, 1) == 0;
        if (array ? written == array + first : is_first) {
            atomic_store(&is_standing, true);
            door_pass(atomic_load(&door));
        }
    }
    if (item >= first + begin && item < first + end && atomic_fetch_sub(&failures_left, 1) > 0)
        return atomic_load(&failure);
    return MUSTER_OK;
}

/* Arguments: FIRST, IN, OUT, INOUT. */
static muster_status compute_both(uint64_t begin, uint64_t end, void *const *args)
{
    uint64_t first = *(const uint64_t *)args[0];
    uint64_t *changed = *(uint64_t *const *)args[3];
    const uint64_t *out = *(uint64_t *const *)args[2];
    compute(begin, end, args);
    /* Twice would be something else. */
    for (uint64_t i = begin; i < end; i++)
        changed[i] = answer(first + i, changed[i]);
    return misbehave(first, begin, end, out);
}

/* Arguments: FIRST, IN, OUT. */
static muster_status compute_out(uint64_t begin, uint64_t end, void *const *args)
{
    uint64_t first = *(const uint64_t *)args[0];
    const uint64_t *out = *(uint64_t *const *)args[2];
    compute(begin, end, args);
    return misbehave(first, begin, end, out);
}

/* Arguments: FIRST, INOUT. */
static muster_status change(uint64_t begin, uint64_t end, void *const *args)
{
    uint64_t first = *(const uint64_t *)args[0];
    uint64_t *changed = *(uint64_t *const *)args[1];
    for (uint64_t i = begin; i < end; i++)
        changed[i] = answer(first + i, changed[i]);
    return misbehave(first, begin, end, changed);
}

enum kind { KIND_OUT, KIND_CHANGED, KIND_BOTH, KINDS };

/* A job of one of the kinds, its arrays with an item more than there are, and what its sink sees. */
struct subject {
    enum kind kind;
    uint64_t items;
    uint64_t *in, *out, *changed;
    struct muster_arg args[4];
    struct muster_job_desc desc;
    struct muster_run_options how;
    uint64_t next, wrong, elsewhere; /* results that are not where the arrays are */
};

static uint64_t original(uint64_t item)
{
    return item ^ 0x55;
}

static muster_status look(void *user, const struct muster_result *result)
{
    struct subject *subject = user;
    const uint64_t *arrays[2] = { subject->kind == KIND_CHANGED ? subject->changed : subject->out,
                                  subject->changed };
    struct muster_range range = result->range;
    subject->wrong += range.begin != subject->next || range.end <= range.begin ||
                      result->output_count != (subject->kind == KIND_BOTH ? 2 : 1);
    for (size_t k = 0; k < result->output_count; k++) {
        const uint64_t *output = result->outputs[k];
        subject->elsewhere += output != arrays[k] + range.begin;
        subject->wrong += result->output_bytes[k] != (range.end - range.begin) * sizeof(uint64_t);
        for (uint64_t i = range.begin; i < range.end; i++)
            subject->wrong += output[i - range.begin] != answer(i, original(i)) ||
                              arrays[k][i] != answer(i, original(i));
    }
    subject->next = range.end;
    return MUSTER_OK;
}

static void subject_init(struct subject *subject, struct muster *m, enum kind kind, uint64_t items)
{
    static const muster_kernel_function functions[] = { compute_out, change, compute_both };
    *subject = (struct subject){ .kind = kind, .items = items };
    subject->in = malloc((items + 1) * sizeof(uint64_t));
    subject->out = malloc((items + 1) * sizeof(uint64_t));
    subject->changed = malloc((items + 1) * sizeof(uint64_t));
    CHECK(subject->in && subject->out && subject->changed);
    for (uint64_t i = 0; i <= items; i++) {
        subject->in[i] = subject->changed[i] = original(i);
        subject->out[i] = UNTOUCHED;
    }
    size_t count = 0;
    subject->args[count++] = (struct muster_arg)MUSTER_FIRST;
    if (kind != KIND_CHANGED) {
        subject->args[count++] = (struct muster_arg)MUSTER_IN(subject->in);
        subject->args[count++] = (struct muster_arg)MUSTER_OUT(subject->out);
    }
    if (kind != KIND_OUT)
        subject->args[count++] = (struct muster_arg)MUSTER_INOUT(subject->changed);
    subject->how.size = sizeof subject->how;
    subject->desc = (struct muster_job_desc){ .size = sizeof subject->desc,
                                              .kernel = kernel_of(m, functions[kind]),
                                              .items = items,
                                              .args = subject->args,
                                              .arg_count = count,
                                              .sink = look,
                                              .sink_user = subject,
                                              .options = &subject->how };
    behave();
}

static void subject_deinit(struct subject *subject)
{
    free(subject->in);
    free(subject->out);
    free(subject->changed);
}

/* The arrays have the first results, and nothing past their end. */
static void check_done(const struct subject *subject, uint64_t delivered)
{
    CHECK_EQUAL(0, subject->wrong);
    if (subject->desc.sink)
        CHECK_EQUAL(delivered, subject->next);
    for (uint64_t i = 0; i < delivered; i++) {
        if (subject->kind != KIND_CHANGED)
            CHECK_EQUAL(answer(i, original(i)), subject->out[i]);
        if (subject->kind != KIND_OUT)
            CHECK_EQUAL(answer(i, original(i)), subject->changed[i]);
    }
    CHECK_EQUAL(UNTOUCHED, subject->out[subject->items]);
    CHECK_EQUAL(original(subject->items), subject->changed[subject->items]);
}

static muster_status run(struct muster *m, struct subject *subject, struct muster_report *report)
{
    struct muster_job *job = start(m, &subject->desc);
    *report = full_report();
    muster_status status = muster_job_wait(job, report, &problem);
    muster_job_destroy(job);
    return status;
}

/* The sink is shown the caller's array, where a processor has written. */
static void results_are_where_they_belong(void)
{
    struct muster *m = open_host("cpu,host", FAST, 0);
    for (unsigned kind = 0; kind < KINDS; kind++)
        for (unsigned i = 0; i < 2; i++) {
            struct subject subject;
            struct muster_report report;
            subject_init(&subject, m, (enum kind)kind, ITEMS + 3);
            subject.how.devices = i ? "host:0" : "cpu:0";
            subject.how.unit_items = UNIT;
            MUST(run(m, &subject, &report));
            check_done(&subject, subject.items);
            CHECK_EQUAL(0, subject.elsewhere);
            subject_deinit(&subject);
        }
    MUST(muster_close(m, &problem));
}

/* Whatever the devices, the sizes of units, and the failures on the way. */
static void results_are_the_same_everywhere(void)
{
    static const char *const devices[] = { "cpu",      "host",         "cpu,host", "cpu,sim",
                                           "host,sim", "cpu,host,sim", "cpu,gpu" };
    static const char *const models[] = {
        FAST, "[{\"items_per_s\": 4e7, \"count\": 2, \"jitter\": 0.5}]",
        "[{\"items_per_s\": 1e9, \"faults\": [{\"kind\": \"unit_error\", \"probability\": 0.05}]}]"
    };
    uint64_t state = test_seed();
    for (unsigned i = 0; i < test_repetitions(40); i++) {
        struct muster *m = open_host(devices[draw(&state, COUNT_OF(devices))],
                                     models[draw(&state, COUNT_OF(models))], 0);
        struct subject subject;
        struct muster_report report;
        subject_init(&subject, m, (enum kind)draw(&state, KINDS), draw(&state, 4 * ITEMS));
        struct muster_run_options *how = &subject.how;
        how->depth = (uint32_t)draw(&state, 5);
        how->tries = 20;
        how->unit_multiple = draw(&state, 3) == 0 ? 1 + draw(&state, 300) : 0;
        if (how->unit_multiple == 0 && draw(&state, 2))
            how->unit_items = 1 + draw(&state, 4 * UNIT);
        how->window = draw(&state, 3) == 0 ? 1 + draw(&state, ITEMS) : 0;
        how->no_copies = draw(&state, 2) == 0;
        if (draw(&state, 2))
            subject.desc.sink = NULL;
        /* In every piece of a unit something may have been done before. */
        if (subject.items > 0 && draw(&state, 2))
            fail_at(draw(&state, subject.items), 1 + (int)draw(&state, 3), MUSTER_E_FAILED);
        MUST(run(m, &subject, &report));
        CHECK_EQUAL(subject.items, report.delivered);
        check_done(&subject, subject.items);
        MUST(muster_close(m, &problem));
        subject_deinit(&subject);
    }
}

/* A kernel that will not have an item: what was delivered is right, and ends before it. */
static void a_failure_leaves_a_right_prefix(void)
{
    static const char *const devices[] = { "cpu", "host", "cpu,host", "cpu,sim" };
    uint64_t state = test_seed();
    for (unsigned i = 0; i < test_repetitions(24); i++) {
        struct muster *m = open_host(devices[i % COUNT_OF(devices)], FAST, 0);
        struct subject subject;
        struct muster_report report;
        uint64_t item = draw(&state, ITEMS);
        subject_init(&subject, m, (enum kind)(i % KINDS), ITEMS);
        subject.how.unit_items = draw(&state, 2) ? 1 + draw(&state, ITEMS) : 0;
        fail_at(item, INT32_MAX, MUSTER_E_IO);
        CHECK_STATUS(MUSTER_E_IO, run(m, &subject, &report));
        CHECK(report.delivered <= item);
        CHECK(report.failed_count > 0 && report.failed[0].begin >= report.delivered);
        check_done(&subject, report.delivered);
        MUST(muster_close(m, &problem));
        subject_deinit(&subject);
    }
}

/* A device is lost with units half done, and another does the rest. */
static void a_lost_device_leaves_the_rest_to_others(void)
{
    static const char *const models[] = {
        "[{\"items_per_s\": 1e7, \"faults\": [{\"kind\": \"lost\", \"at_launch\": 3}]}]",
        "[{\"items_per_s\": 1e7, \"faults\": [{\"kind\": \"lost\", \"at_ms\": 1}]}]"
    };
    uint64_t state = test_seed();
    for (unsigned i = 0; i < test_repetitions(18); i++) {
        struct muster *m = open_host("cpu,host", models[i % COUNT_OF(models)], 0);
        struct subject subject;
        struct muster_report report;
        subject_init(&subject, m, (enum kind)(i % KINDS), ITEMS);
        subject.how.unit_items = 1 + draw(&state, 2 * UNIT);
        MUST(run(m, &subject, &report));
        CHECK_EQUAL(ITEMS, report.delivered);
        check_done(&subject, ITEMS);
        MUST(muster_close(m, &problem));
        subject_deinit(&subject);
    }
}

/*
 * False if nobody came to stand in the array: the rival may be the first to begin, and then the other is
 * stopped before it does.
 */
static bool stand_in_the_array(void)
{
    struct muster *m = open_host("cpu,host", FAST, 0);
    struct subject subject;
    struct door closed = DOOR_INIT;
    struct muster_job_device devices[2] = { { .size = sizeof *devices },
                                            { .size = sizeof *devices } };
    struct muster_progress progress = { .size = sizeof progress };
    size_t count;
    subject_init(&subject, m, KIND_OUT, ITEMS);
    subject.how.unit_items = UNIT;
    atomic_store(&door, &closed);
    atomic_store(&stands_in, subject.out);
    atomic_store(&stands_at, 0);
    struct muster_job *job = start(m, &subject.desc);
    while ((atomic_load(&runs_there) < 2 || !atomic_load(&is_standing)) && !progress.is_over) {
        sched_yield();
        MUST(muster_job_progress(job, &progress, &problem));
    }
    bool stood = atomic_load(&is_standing);
    /* The rival is done soon after, and so may all the rest be. */
    do {
        sched_yield();
        MUST(muster_job_devices(job, devices, 2, &count, &problem));
        MUST(muster_job_progress(job, &progress, &problem));
        CHECK_EQUAL(0, stood ? progress.delivered : 0);
    } while (devices[0].items + devices[1].items < ITEMS / 8);
    door_open(&closed);
    MUST(muster_job_wait(job, NULL, &problem));
    muster_job_destroy(job);
    check_done(&subject, ITEMS);
    MUST(muster_close(m, &problem));
    subject_deinit(&subject);
    return stood;
}

/*
 * A unit whose first attempt stands still is run a second time, beside the array. Nothing of it is
 * delivered before the first attempt has let go of the array.
 */
static void a_rival_waits_for_who_writes_there(void)
{
    while (!stand_in_the_array()) {}
}

/* Who stands in the caller's array for too long: its unit fails, and nobody says that all is well. */
static void what_hangs_in_the_array_fails_the_job(void)
{
    for (unsigned kind = 0; kind < KINDS; kind++) {
        struct muster *m = open_host("cpu", NULL, test_patience(50 * MS));
        static struct subject subjects[KINDS];
        static struct door doors[KINDS];
        struct subject *subject = &subjects[kind];
        struct muster_report report;
        doors[kind] = (struct door)DOOR_INIT;
        subject_init(subject, m, (enum kind)kind, ITEMS);
        subject->how.unit_items = UNIT;
        subject->how.timeout_ns = test_patience(30 * MS);
        atomic_store(&door, &doors[kind]);
        atomic_store(&stands_at, 8 * UNIT);
        CHECK_STATUS(MUSTER_E_DEVICE_HUNG, run(m, subject, &report));
        CHECK(report.delivered <= 8 * UNIT);
        check_done(subject, report.delivered);
        door_open(&doors[kind]);
        door_wait_left(&doors[kind], 1);
        MUST(muster_close(m, &problem));
        subject_deinit(subject);
    }
}

static _Atomic uint64_t computed;

/* Arguments: INOUT. */
static muster_status change_slowly(uint64_t begin, uint64_t end, void *const *args)
{
    uint64_t *changed = *(uint64_t *const *)args[0];
    for (uint64_t i = begin; i < end; i++)
        changed[i] = answer(i, changed[i]);
    if (atomic_fetch_add(&computed, end - begin) == 0)
        door_pass(atomic_load(&door));
    sched_yield();
    return MUSTER_OK;
}

/* A cancelled unit that changes an array stops; then nobody touches that any more. */
static void a_cancelled_unit_stops(void)
{
    enum { MANY = 1 << 21 };
    struct muster *m = open_host("cpu", NULL, 0);
    struct door closed = DOOR_INIT;
    uint64_t *changed = calloc(MANY, sizeof *changed), *copy = malloc(MANY * sizeof *copy);
    CHECK(changed && copy);
    const struct muster_arg args[] = { MUSTER_INOUT(changed) };
    const struct muster_run_options how = { .size = sizeof how, .unit_items = MANY };
    const struct muster_job_desc desc = { .size = sizeof desc,
                                          .kernel = kernel_of(m, change_slowly),
                                          .items = MANY,
                                          .args = args,
                                          .arg_count = 1,
                                          .options = &how };
    atomic_store(&computed, 0);
    atomic_store(&door, &closed);
    struct muster_report report = full_report();
    struct muster_job *job = start(m, &desc);
    door_wait_arrived(&closed, 1);
    muster_job_cancel(job);
    door_open(&closed);
    CHECK_STATUS(MUSTER_E_CANCELLED, muster_job_wait(job, &report, &problem));
    memcpy(copy, changed, MANY * sizeof *copy);
    CHECK(atomic_load(&computed) < MANY);
    muster_job_destroy(job);
    MUST(muster_close(m, &problem));
    CHECK(memcmp(copy, changed, MANY * sizeof *copy) == 0);
    for (uint64_t i = 0; i < report.delivered; i++)
        CHECK_EQUAL(answer(i, 0), changed[i]);
    free(changed);
    free(copy);
}

/* Arrays that share memory are not written before they were read. */
static void arrays_may_overlap(void)
{
    struct muster *m = open_host("cpu", NULL, 0);
    for (unsigned i = 0; i < 20; i++) {
        struct subject subject;
        struct muster_report report;
        subject_init(&subject, m, KIND_OUT, ITEMS);
        uint64_t *shared = malloc((ITEMS + 2) * sizeof *shared);
        CHECK(shared);
        for (uint64_t k = 0; k <= ITEMS; k++)
            shared[k + 1] = original(k);
        free(subject.out);
        subject.out = shared;
        subject.args[1].in = shared + 1;
        subject.args[2].out = shared;
        subject.how.unit_items = 1000;
        MUST(run(m, &subject, &report));
        CHECK_EQUAL(0, subject.wrong);
        for (uint64_t k = 0; k < ITEMS; k++)
            CHECK_EQUAL(answer(k, original(k)), shared[k]);
        CHECK(subject.elsewhere > 0);
        subject_deinit(&subject);
    }
    MUST(muster_close(m, &problem));
}

/* Arguments: ALL, OUT. */
static muster_status turn_round(uint64_t begin, uint64_t end, void *const *args)
{
    const uint64_t *all = *(const uint64_t *const *)args[0];
    uint64_t *out = *(uint64_t *const *)args[1];
    for (uint64_t i = begin; i < end; i++)
        out[i] = all[UNIT - 1 - i];
    return MUSTER_OK;
}

/* So is data that all items use. */
static void data_may_overlap(void)
{
    struct muster *m = open_host("cpu", NULL, 0);
    uint64_t shared[UNIT];
    for (uint64_t i = 0; i < UNIT; i++)
        shared[i] = i;
    muster_data data;
    MUST(muster_data_create(m, shared, sizeof shared, 0, &data, &problem));
    const struct muster_arg args[] = { MUSTER_ALL(data), MUSTER_OUT(shared) };
    struct muster_run_options how = { .size = sizeof how, .unit_items = UNIT };
    MUST(muster_for(m, kernel_of(m, turn_round), UNIT, args, 2, &how, NULL, &problem));
    for (uint64_t i = 0; i < UNIT; i++)
        CHECK_EQUAL(UNIT - 1 - i, shared[i]);
    MUST(muster_data_destroy(m, data, &problem));
    MUST(muster_close(m, &problem));
}

/* What is read in one array and written to another is left as it was in the first. */
static void what_is_read_elsewhere_stays(void)
{
    struct muster *m = open_host("cpu", NULL, 0);
    struct subject subject;
    struct muster_report report;
    subject_init(&subject, m, KIND_CHANGED, ITEMS);
    subject.args[1].in = subject.in;
    MUST(run(m, &subject, &report));
    check_done(&subject, ITEMS);
    CHECK(subject.elsewhere > 0);
    for (uint64_t i = 0; i < ITEMS; i++)
        CHECK_EQUAL(original(i), subject.in[i]);
    MUST(muster_close(m, &problem));
    subject_deinit(&subject);
}

static struct muster_kept *kept_first;

static muster_status keep_first(void *user, const struct muster_result *result)
{
    struct muster_error err;
    if (result->range.begin == 0 && muster_result_retain(result, &kept_first, &err) != MUSTER_OK)
        return MUSTER_E_INVALID;
    return look(user, result);
}

/* A result that was kept is the caller's, whatever becomes of the array. */
static void kept_results_are_not_the_array(void)
{
    struct muster *m = open_host("cpu", NULL, 0);
    for (unsigned kind = 0; kind < KIND_BOTH; kind++) {
        struct subject subject;
        subject_init(&subject, m, (enum kind)kind, ITEMS);
        subject.how.unit_items = UNIT;
        subject.how.kept_max = 1;
        subject.desc.sink = keep_first;
        struct muster_job *job = start(m, &subject.desc);
        MUST(muster_job_wait(job, NULL, &problem));
        check_done(&subject, ITEMS);
        memset(kind == KIND_OUT ? subject.out : subject.changed, 0, ITEMS * sizeof(uint64_t));
        const uint64_t *values = muster_kept_result(kept_first)->outputs[0];
        for (uint64_t i = 0; i < UNIT; i++)
            CHECK_EQUAL(answer(i, original(i)), values[i]);
        muster_result_release(kept_first);
        muster_job_destroy(job);
        subject_deinit(&subject);
    }
    MUST(muster_close(m, &problem));
}

static void no_items_are_done_at_once(void)
{
    struct muster *m = open_host("cpu,host", FAST, 0);
    for (unsigned kind = 0; kind < KINDS; kind++) {
        struct subject subject;
        struct muster_report report;
        subject_init(&subject, m, (enum kind)kind, 0);
        MUST(run(m, &subject, &report));
        check_done(&subject, 0);
        subject_deinit(&subject);
    }
    MUST(muster_close(m, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(results_are_where_they_belong),
        TEST(results_are_the_same_everywhere),
        TEST(a_failure_leaves_a_right_prefix),
        TEST(a_lost_device_leaves_the_rest_to_others),
        TEST(a_rival_waits_for_who_writes_there),
        TEST(what_hangs_in_the_array_fails_the_job),
        TEST(a_cancelled_unit_stops),
        TEST(arrays_may_overlap),
        TEST(data_may_overlap),
        TEST(what_is_read_elsewhere_stays),
        TEST(kept_results_are_not_the_array),
        TEST(no_items_are_done_at_once),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
