/*
 * Traces of real jobs: what is in them, that starting and stopping one at any time harms nothing,
 * that a file which cannot be written costs nothing, and the totals.
 */
#include "jobs_support.h"
#include "trace_support.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#define UNIT 64
#define TRACK_STRIDE (1u << 21) /* between tracks of one device */
#define SIM_UNEQUAL                                                                                \
    "[{\"items_per_s\": 4e6, \"launch_ns\": 5000}, {\"items_per_s\": 1e6, \"launch_ns\": 5000}]"

static void begin(struct muster *m, uint64_t capacity)
{
    const struct muster_trace_options options = { .size = sizeof options, .capacity = capacity };
    MUST(muster_trace_start(m, &options, &problem));
}

static struct shown_trace show(struct muster *m)
{
    struct text text = { NULL, 0 };
    MUST(muster_trace_write(m, keep_text, &text, &problem));
    struct shown_trace trace = read_trace(&text);
    free(text.bytes);
    check_tracks(&trace);
    return trace;
}

static void run_job(struct muster *m, uint64_t units, struct muster_report *report)
{
    struct account account;
    account_init(&account, units * UNIT);
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    how.unit_items = UNIT;
    /* A copy that fails is no retry, and the two are compared. */
    how.no_copies = 1;
    struct muster_job *job = start(m, &desc);
    *report = (struct muster_report){ .size = sizeof *report };
    MUST(muster_job_wait(job, report, &problem));
    muster_job_destroy(job);
    check_account(&account, account.items);
    account_deinit(&account);
}

static struct muster_counters counters_of(struct muster *m)
{
    struct muster_counters counters = { .size = sizeof counters };
    MUST(muster_counters(m, &counters, &problem));
    return counters;
}

/* Each item of [0, items) lies in exactly one range of the job's events of that kind and outcome. */
static void check_cover(const struct shown_trace *trace, const char *kind, uint64_t job,
                        uint64_t items)
{
    unsigned char *seen = calloc(items, 1);
    CHECK(seen);
    for (size_t i = 0; i < trace->count; i++) {
        const struct shown *event = &trace->events[i];
        if (!is_kind(event, kind) || event->job != job || strcmp(event->outcome, "done") != 0)
            continue;
        CHECK(event->first < event->end && event->end <= items);
        for (uint64_t k = event->first; k < event->end; k++)
            seen[k]++;
    }
    for (uint64_t k = 0; k < items; k++)
        if (seen[k] != 1)
            test_fail(__FILE__, __LINE__, "item %llu is %u times among what is %s of job %llu",
                      (unsigned long long)k, seen[k], kind, (unsigned long long)job);
    free(seen);
}

static void a_job_is_in_the_trace(void)
{
    struct muster *m = open_sim(NULL, SIM_UNEQUAL);
    struct muster_report report;
    begin(m, 0);
    run_job(m, 100, &report);
    struct shown_trace trace = show(m);
    check_cover(&trace, "unit", 1, 100 * UNIT);
    check_cover(&trace, "delivery", 1, 100 * UNIT);
    CHECK_EQUAL(1, count_kind(&trace, "job"));
    CHECK_EQUAL(0, trace.dropped);
    size_t named = 0;
    for (size_t i = 0; i < trace.count; i++) {
        const struct shown *event = &trace.events[i];
        named += strcmp(event->name, "thread_name") == 0 && strncmp(event->label, "sim:1 ", 6) == 0;
        /* The job lies around all that was done for it. */
        if (is_kind(event, "job"))
            CHECK(event->begin_ns + event->length_ns >= report.makespan_ns);
    }
    CHECK(named >= 1);
    free(trace.events);
    MUST(muster_trace_stop(m, NULL, &problem));
    MUST(muster_close(m, &problem));
}

static void two_jobs_at_once_are_told_apart(void)
{
    struct muster *m = open_sim(NULL, SIM_UNEQUAL);
    struct muster_kernel *kernel = kernel_of(m, compute);
    struct account accounts[2];
    struct muster_job *jobs[2];
    begin(m, 0);
    for (int i = 0; i < 2; i++) {
        account_init(&accounts[i], (uint64_t)(60 + 20 * i) * UNIT);
        struct muster_job_desc desc = account_desc(&accounts[i], kernel);
        struct muster_run_options how = { .size = sizeof how };
        desc.options = &how;
        how.unit_items = UNIT;
        jobs[i] = start(m, &desc);
    }
    for (int i = 0; i < 2; i++)
        MUST(muster_job_wait(jobs[i], NULL, &problem));
    struct shown_trace trace = show(m);
    for (int i = 0; i < 2; i++) {
        check_cover(&trace, "unit", (uint64_t)i + 1, accounts[i].items);
        check_cover(&trace, "delivery", (uint64_t)i + 1, accounts[i].items);
        check_account(&accounts[i], accounts[i].items);
    }
    CHECK_EQUAL(2, count_kind(&trace, "job"));
    free(trace.events);
    /* Closing a runtime that still records is all right. */
    MUST(muster_close(m, &problem));
    for (int i = 0; i < 2; i++)
        account_deinit(&accounts[i]);
}

static void what_does_not_fit_is_counted(void)
{
    struct muster *m = open_sim("cpu", NULL);
    struct muster_report report;
    begin(m, 7);
    run_job(m, 50, &report);
    struct muster_counters counters = counters_of(m);
    struct shown_trace trace = show(m);
    CHECK_EQUAL(7, counters.trace_events);
    /* A unit and a delivery for each, and the job. */
    CHECK_EQUAL(2 * 50 + 1 - 7, counters.trace_dropped);
    CHECK_EQUAL(counters.trace_dropped, trace.dropped);
    CHECK_EQUAL(7, count_kind(&trace, "unit") + count_kind(&trace, "delivery"));
    free(trace.events);
    MUST(muster_trace_stop(m, NULL, &problem));
    CHECK_EQUAL(0, counters_of(m).trace_events);
    MUST(muster_close(m, &problem));
}

static void a_lost_device_is_in_the_trace(void)
{
    struct muster *m = open_sim("sim", "[{\"items_per_s\": 1e6}, {\"items_per_s\": 1e6, \"faults\":"
                                       " [{\"kind\": \"lost\", \"at_launch\": 4}]}]");
    struct muster_report report;
    begin(m, 0);
    run_job(m, 200, &report);
    struct shown_trace trace = show(m);
    check_cover(&trace, "unit", 1, 200 * UNIT);
    CHECK_EQUAL(1, count_kind(&trace, "device lost"));
    size_t lost = 0, again = 0;
    for (size_t i = 0; i < trace.count; i++) {
        lost += strcmp(trace.events[i].outcome, "lost") == 0;
        if (is_kind(&trace.events[i], "device lost"))
            again += trace.events[i].tid == 2; /* sim:1 */
    }
    CHECK_EQUAL(1, again);
    CHECK(lost >= 1);
    free(trace.events);
    struct muster_counters counters = counters_of(m);
    CHECK_EQUAL(1, counters.devices_lost);
    CHECK_EQUAL(lost, counters.units_failed);
    CHECK_EQUAL(counters.units_started,
                counters.units_done + counters.units_late + counters.units_failed);
    MUST(muster_close(m, &problem));
}

static void a_device_that_hangs_and_comes_back_is_in_the_trace(void)
{
    char sim[160];
    snprintf(sim, sizeof sim,
             "[{\"items_per_s\": 1e6}, {\"items_per_s\": 1e6, \"faults\":"
             " [{\"kind\": \"hang\", \"at_launch\": 2, \"for_ms\": %llu}]}]",
             (unsigned long long)test_patience(600));
    struct muster *m = open_sim("sim", sim);
    struct account account;
    struct muster_report report = { .size = sizeof report };
    /* The other has work for 1.5 s: some is left when the device comes back. */
    account_init(&account, test_patience(1500000));
    struct muster_job_desc desc = account_desc(&account, kernel_of(m, compute));
    struct muster_run_options how = { .size = sizeof how };
    desc.options = &how;
    how.unit_items = 2000;
    how.timeout_ns = test_patience(400 * MS);
    how.no_copies = 1;
    begin(m, 0);
    struct muster_job *job = start(m, &desc);
    MUST(muster_job_wait(job, &report, &problem));
    muster_job_destroy(job);
    check_account(&account, account.items);
    struct shown_trace trace = show(m);
    check_cover(&trace, "delivery", 1, account.items);
    CHECK(count_kind(&trace, "device hung") >= 1);
    CHECK(count_kind(&trace, "device back") >= 1);
    free(trace.events);
    MUST(muster_close(m, &problem));
    account_deinit(&account);
}

/* Tasks. */

static muster_status nothing(void *user)
{
    (void)user;
    return MUSTER_OK;
}

static muster_status submit_and_wait(void *user)
{
    struct muster *m = user;
    const struct muster_task_desc desc = { .size = sizeof desc, .fn = nothing };
    muster_task task;
    muster_status status = muster_submit(m, &desc, 1, &task, NULL);
    return status == MUSTER_OK ? muster_wait(m, &task, 1, UINT64_MAX, NULL) : status;
}

static void tasks_lie_in_each_other(void)
{
    struct muster *m = open_sim("cpu", NULL);
    const struct muster_task_desc desc = { .size = sizeof desc, .fn = submit_and_wait, .user = m };
    begin(m, 0);
    for (int i = 0; i < 100; i++)
        MUST(muster_submit(m, &desc, 1, NULL, &problem));
    MUST(muster_wait(m, NULL, 0, UINT64_MAX, &problem));
    struct shown_trace trace = show(m);
    CHECK_EQUAL(200, count_kind(&trace, "task"));
    free(trace.events);
    struct muster_counters counters = counters_of(m);
    CHECK_EQUAL(200, counters.tasks_submitted);
    CHECK_EQUAL(200, counters.tasks_ended);
    MUST(muster_close(m, &problem));
}

static muster_status no_kernel(uint64_t begin_item, uint64_t end_item, void *const *args)
{
    (void)begin_item, (void)end_item, (void)args;
    return MUSTER_OK;
}

/* Each run of each is a span on its device, whichever way it went there, and who saw its end. */
static void tasks_with_kernels_are_on_their_devices(void)
{
    struct muster *m = open_sim("sim", "[{\"items_per_s\": 1e8}, {\"items_per_s\": 1e8, \"faults\":"
                                       " [{\"kind\": \"lost\", \"at_launch\": 8}]}]");
    struct muster_kernel *kernel = kernel_of(m, no_kernel);
    struct muster_task_desc descs[100];
    uint64_t done = 0, lost = 0;
    for (size_t i = 0; i < COUNT_OF(descs); i++)
        descs[i] = (struct muster_task_desc){ .size = sizeof *descs, .kernel = kernel, .items = 7 };
    MUST(muster_submit(m, descs, 1, NULL, &problem));
    MUST(muster_wait(m, NULL, 0, UINT64_MAX, &problem));
    begin(m, 0);
    for (size_t i = 0; i < COUNT_OF(descs); i++)
        MUST(muster_submit(m, &descs[i], 1, NULL, &problem));
    MUST(muster_submit(m, descs, COUNT_OF(descs), NULL, &problem));
    MUST(muster_wait(m, NULL, 0, UINT64_MAX, &problem));
    struct shown_trace trace = show(m);
    for (size_t i = 0; i < trace.count; i++) {
        const struct shown *shown = &trace.events[i];
        if (!is_kind(shown, "task"))
            continue;
        CHECK_EQUAL(1, shown->pid);
        CHECK_EQUAL(7, shown->end);
        done += strcmp(shown->outcome, "done") == 0;
        lost += strcmp(shown->outcome, "lost") == 0;
        CHECK(strcmp(shown->outcome, "lost") != 0 || shown->tid % TRACK_STRIDE == 2); /* sim:1 */
    }
    CHECK_EQUAL(200, done);
    CHECK_EQUAL(done + lost, count_kind(&trace, "task"));
    CHECK_EQUAL(lost > 0, count_kind(&trace, "device lost") > 0);
    free(trace.events);
    MUST(muster_close(m, &problem));
}

/* At any time. */

struct toggling {
    struct muster *m;
    _Atomic bool must_end;
    unsigned traces, wrong;
};

static void count_event(void *user, const struct muster_trace_event *event)
{
    unsigned *wrong = user;
    *wrong += event->begin_ns > event->end_ns || event->kind < MUSTER_TRACE_UNIT ||
              event->kind > MUSTER_TRACE_DEVICE_BACK ||
              (event->kind == MUSTER_TRACE_UNIT && event->range.end - event->range.begin != UNIT);
}

/* Starts, reads and stops as fast as it can. On a thread, which cannot end the test. */
static void *toggle(void *argument)
{
    struct toggling *toggling = argument;
    while (!atomic_load(&toggling->must_end)) {
        toggling->wrong += muster_trace_start(toggling->m, NULL, NULL) != MUSTER_OK;
        for (int i = 0; i < 3; i++)
            toggling->wrong += muster_trace_events(toggling->m, count_event, &toggling->wrong, NULL,
                                                   NULL) != MUSTER_OK;
        toggling->wrong += muster_trace_stop(toggling->m, NULL, NULL) != MUSTER_OK;
        toggling->traces++;
    }
    return NULL;
}

static void a_trace_may_start_and_stop_at_any_time(void)
{
    struct muster *m = open_sim(NULL, "[{\"items_per_s\": 4e7}, {\"items_per_s\": 1e7}]");
    struct toggling toggling = { .m = m };
    const struct muster_task_desc desc = { .size = sizeof desc, .fn = nothing };
    struct muster_report report;
    pthread_t thread;
    CHECK_EQUAL(0, pthread_create(&thread, NULL, toggle, &toggling));
    for (unsigned i = 0; i < test_repetitions(10); i++) {
        for (int k = 0; k < 200; k++)
            muster_submit(m, &desc, 1, NULL, NULL);
        run_job(m, 60, &report);
        struct muster_counters counters = counters_of(m);
        CHECK_EQUAL(i + 1, counters.jobs_done);
        CHECK_EQUAL((i + 1) * 60 * UNIT, counters.items_delivered);
    }
    atomic_store(&toggling.must_end, true);
    pthread_join(thread, NULL);
    CHECK_EQUAL(0, toggling.wrong);
    CHECK(toggling.traces > 0);
    CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_trace_stop(m, NULL, &problem));
    MUST(muster_close(m, &problem));
}

/* Files. */

static size_t files_in(const char *folder)
{
    size_t count = 0;
    DIR *directory = opendir(folder);
    CHECK(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count - 2;
}

static void write_file(const char *path, const char *content)
{
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(content, file) >= 0 && fclose(file) == 0);
}

static struct text read_file(const char *path)
{
    struct text text = { NULL, 0 };
    char bytes[4096];
    FILE *file = fopen(path, "r");
    CHECK(file);
    for (size_t got; (got = fread(bytes, 1, sizeof bytes, file)) > 0;)
        keep_text(&text, bytes, got);
    fclose(file);
    return text;
}

static void a_file_is_whole_or_as_it_was(void)
{
    struct muster *m = open_sim("cpu", NULL);
    struct muster_report report;
    char folder[] = "/tmp/muster-trace-XXXXXX", path[64], link_path[64], none[64];
    CHECK(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.json", folder);
    snprintf(link_path, sizeof link_path, "%s/link.json", folder);
    snprintf(none, sizeof none, "%s/none/a.json", folder);
    write_file(path, "old");
    CHECK_EQUAL(0, chmod(path, 0640));
    CHECK_EQUAL(0, symlink(path, link_path));
    begin(m, 0);
    run_job(m, 500, &report);
    /* None of these can be written; the trace is kept for the next. */
    CHECK_STATUS(MUSTER_E_IO, muster_trace_stop(m, none, &problem));
    CHECK_CONTAINS(none, problem.text);
    CHECK_CONTAINS("No such file", problem.text);
    CHECK_STATUS(MUSTER_E_IO, muster_trace_stop(m, folder, &problem));
    CHECK_CONTAINS("directory", problem.text);
    CHECK_STATUS(MUSTER_E_IO, muster_trace_stop(m, "/dev/full", &problem));
    CHECK_CONTAINS("No space left", problem.text);
    CHECK(problem.fix[0] != '\0');
    CHECK_EQUAL(2, files_in(folder));
    /* It is stopped all the same. */
    uint64_t recorded = counters_of(m).trace_events;
    run_job(m, 10, &report);
    CHECK_EQUAL(recorded, counters_of(m).trace_events);
    CHECK_STATUS(MUSTER_E_BUSY, muster_trace_start(m, NULL, &problem));
    MUST(muster_trace_stop(m, link_path, &problem));
    struct text text = read_file(path);
    struct shown_trace trace = read_trace(&text);
    check_cover(&trace, "unit", 1, 500 * UNIT);
    struct stat status;
    CHECK_EQUAL(0, lstat(link_path, &status));
    CHECK(S_ISLNK(status.st_mode));
    CHECK_EQUAL(0, stat(path, &status));
    CHECK_EQUAL(0640, status.st_mode & 0777);
    CHECK_EQUAL(2, files_in(folder));
    free(trace.events);
    free(text.bytes);
    unlink(link_path);
    unlink(path);
    rmdir(folder);
    MUST(muster_close(m, &problem));
}

static muster_status refuse_text(void *user, const char *text, size_t bytes)
{
    (void)user, (void)text, (void)bytes;
    return MUSTER_E_CAPACITY;
}

static void misuse_is_refused(void)
{
    struct muster *m = open_sim("cpu", NULL);
    struct muster_trace_options options = { .size = 1 };
    struct muster_counters counters = { .size = 1 };
    unsigned wrong = 0;
    CHECK_STATUS(MUSTER_E_INVALID, muster_trace_start(NULL, NULL, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_trace_start(m, &options, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_counters(m, &counters, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_counters(m, NULL, &problem));
    CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_trace_stop(m, "/tmp/never", &problem));
    CHECK_CONTAINS("muster_trace_start", problem.fix);
    CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_trace_events(m, count_event, &wrong, NULL, &problem));
    options = (struct muster_trace_options){ .size = sizeof options, .capacity = UINT64_MAX };
    CHECK_STATUS(MUSTER_E_NO_MEMORY, muster_trace_start(m, &options, &problem));
    CHECK_CONTAINS("18446744073709551615", problem.text);
    begin(m, 1);
    CHECK_STATUS(MUSTER_E_BUSY, muster_trace_start(m, NULL, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_trace_write(m, NULL, NULL, &problem));
    CHECK_STATUS(MUSTER_E_CAPACITY, muster_trace_write(m, refuse_text, NULL, &problem));
    MUST(muster_trace_stop(m, NULL, &problem));
    begin(m, 1);
    MUST(muster_close(m, &problem));
}

static void totals_are_exact(void)
{
    struct muster *m = open_sim("sim", "[{\"items_per_s\": 4e6, \"faults\": [{\"kind\":"
                                       " \"unit_error\", \"probability\": 0.2}]},"
                                       " {\"items_per_s\": 2e6}]");
    struct muster_report report;
    muster_lease lease;
    run_job(m, 300, &report);
    muster_device device;
    MUST(muster_pick(m, NULL, NULL, &lease, &device, &problem));
    struct muster_counters counters = counters_of(m);
    CHECK_EQUAL(1, counters.jobs_started);
    CHECK_EQUAL(1, counters.jobs_done);
    CHECK_EQUAL(0, counters.jobs_failed);
    CHECK_EQUAL(300, counters.units_done);
    CHECK_EQUAL(report.retries, counters.units_failed);
    CHECK_EQUAL(counters.units_started,
                counters.units_done + counters.units_late + counters.units_failed);
    CHECK_EQUAL(300 * UNIT, counters.items_delivered);
    CHECK_EQUAL(300 * UNIT * sizeof(uint64_t), counters.bytes_delivered);
    CHECK_EQUAL(counters.units_started, counters.launches);
    CHECK_EQUAL(counters.units_started * UNIT * sizeof(uint64_t), counters.bytes_in);
    CHECK_EQUAL(counters.units_started * UNIT * sizeof(uint64_t), counters.bytes_out);
    CHECK_EQUAL(counters.launches, counters.launches_done + counters.launches_failed);
    CHECK_EQUAL(2, counters.kernels_built);
    CHECK_EQUAL(1, counters.picks);
    CHECK_EQUAL(2, counters.devices);
    CHECK_EQUAL(0, counters.devices_lost);
    MUST(muster_close(m, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_job_is_in_the_trace),
        TEST(two_jobs_at_once_are_told_apart),
        TEST(what_does_not_fit_is_counted),
        TEST(a_lost_device_is_in_the_trace),
        TEST(a_device_that_hangs_and_comes_back_is_in_the_trace),
        TEST(tasks_lie_in_each_other),
        TEST(tasks_with_kernels_are_on_their_devices),
        TEST(a_trace_may_start_and_stop_at_any_time),
        TEST(a_file_is_whole_or_as_it_was),
        TEST(misuse_is_refused),
        TEST(totals_are_exact),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
