/*
 * What a task costs. Empty independent tasks from one producer, one at a time and in batches; and
 * one task for a runtime that is idle, until its result is there: with a caller who waits, and so
 * helps, and with one who only hears of it. Beside the raw limit, StarPU and oneTBB.
 *
 *     tasks [--repetitions N] [--json FILE]
 *
 * Raw is the same done by hand: tasks go through a ring under a lock to one thread; a caller runs
 * what it put there itself; a thread that is parked is woken and wakes the caller.
 *
 * Each measurement is a process of its own (this program as `tasks --measure NAME`, and the peers'
 * programs, built where those are installed), one of each in turn, so that nobody meets what
 * another left warm and a busy moment of the machine hits all alike. The exit status tells whether
 * it could measure, not whether targets are met. `--measure muster-traced-one` and `-batch`, by
 * hand, are ours with every task in a trace.
 */
#include "peers.h"

#include <errno.h>
#include <ftw.h>
#include <muster/muster.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MUSTER_COMMIT
#define MUSTER_COMMIT "unknown"
#endif

#define TASKS 400000
#define BATCH 250
#define REPETITIONS_MIN 3 /* below that there is no spread to speak of */
#define REPETITIONS_MAX 101

/* ---- Ours. ---- */

static void stop(const char *what)
{
    fprintf(stderr, "tasks: %s\n", what);
    exit(1);
}

static struct muster *muster_up(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster *m;
    struct muster_error err;
    options.devices = "cpu";
    if (muster_open(&m, &options, &err) != MUSTER_OK)
        stop(err.text);
    return m;
}

static muster_status nothing(void *user)
{
    (void)user;
    return MUSTER_OK;
}

/* `count` tasks, `each` at a time, to their end; nanoseconds for one. */
static double muster_many(struct muster *m, int count, int each)
{
    struct muster_task_desc descs[BATCH];
    struct muster_error err;
    for (int i = 0; i < each; i++)
        descs[i] = (struct muster_task_desc){ .size = sizeof *descs, .fn = nothing };
    double begin = now_ns();
    for (int i = 0; i < count; i += each)
        if (muster_submit(m, descs, (size_t)each, NULL, &err) != MUSTER_OK)
            stop(err.text);
    if (muster_wait(m, NULL, 0, UINT64_MAX, &err) != MUSTER_OK)
        stop(err.text);
    return (now_ns() - begin) / count;
}

static double muster_measure_many(int each)
{
    struct muster *m = muster_up();
    muster_many(m, TASKS / 10, each);
    double ns = muster_many(m, TASKS, each);
    muster_close(m, NULL);
    return ns;
}

static double muster_one(void)
{
    return muster_measure_many(1);
}

static double muster_batch(void)
{
    return muster_measure_many(BATCH);
}

/* The same with every task in a trace. */
static double muster_measure_traced(int each)
{
    const struct muster_trace_options options = { .size = sizeof options, .capacity = 2 * TASKS };
    struct muster *m = muster_up();
    struct muster_error err;
    if (muster_trace_start(m, &options, &err) != MUSTER_OK)
        stop(err.text);
    muster_many(m, TASKS / 10, each);
    double ns = muster_many(m, TASKS, each);
    muster_close(m, NULL);
    return ns;
}

static double muster_traced_one(void)
{
    return muster_measure_traced(1);
}

static double muster_traced_batch(void)
{
    return muster_measure_traced(BATCH);
}

static void muster_round_wait(void *user)
{
    struct muster_task_desc desc = { .size = sizeof desc, .fn = nothing };
    muster_task task;
    if (muster_submit(user, &desc, 1, &task, NULL) != MUSTER_OK ||
        muster_wait(user, &task, 1, UINT64_MAX, NULL) != MUSTER_OK)
        stop("a task failed");
}

static double muster_measure_round(void (*round)(void *))
{
    struct muster *m = muster_up();
    muster_many(m, TASKS / 10, 1);
    double ns = median_round(round, m);
    muster_close(m, NULL);
    return ns;
}

static double muster_wait_for(void)
{
    return muster_measure_round(muster_round_wait);
}

static void muster_round_awaited(void *user)
{
    struct muster_task_desc desc = { .size = sizeof desc, .fn = nothing, .is_awaited = 1 };
    muster_task task;
    if (muster_submit(user, &desc, 1, &task, NULL) != MUSTER_OK ||
        muster_wait(user, &task, 1, UINT64_MAX, NULL) != MUSTER_OK)
        stop("a task failed");
}

static double muster_awaited(void)
{
    return muster_measure_round(muster_round_awaited);
}

static sem_t told;

static void tell(void *user, muster_task task, muster_status status)
{
    (void)user, (void)task, (void)status;
    sem_post(&told);
}

static void await_told(void)
{
    while (sem_wait(&told) != 0)
        continue;
}

static void muster_round_wake(void *user)
{
    struct muster_task_desc desc = { .size = sizeof desc, .fn = nothing, .done = tell };
    if (muster_submit(user, &desc, 1, NULL, NULL) != MUSTER_OK)
        stop("a task was refused");
    await_told();
}

static double muster_wake(void)
{
    return muster_measure_round(muster_round_wake);
}

/* ---- Raw: a ring under a lock, one thread that empties it. ---- */

#define RING 65536u
#define TAKEN_AT_ONCE 64u

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    muster_status (*ring[RING])(void *);
    unsigned head, tail, done;
    bool must_stop;
} raw = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static void *raw_work(void *user)
{
    muster_status (*taken[TAKEN_AT_ONCE])(void *);
    unsigned count = 0;
    pthread_mutex_lock(&raw.lock);
    while (!raw.must_stop) {
        for (count = 0; count < TAKEN_AT_ONCE && raw.head != raw.tail; count++)
            taken[count] = raw.ring[raw.head++ % RING];
        pthread_mutex_unlock(&raw.lock);
        for (unsigned i = 0; i < count; i++)
            taken[i](NULL);
        if (count == 0)
            sched_yield();
        pthread_mutex_lock(&raw.lock);
        raw.done += count;
        if (count > 0)
            pthread_cond_signal(&raw.changed);
    }
    pthread_mutex_unlock(&raw.lock);
    return user;
}

static double raw_many(int count, int each)
{
    unsigned until = raw.tail + (unsigned)count;
    double begin = now_ns();
    for (int i = 0; i < count; i += each) {
        pthread_mutex_lock(&raw.lock);
        while (raw.tail + (unsigned)each - raw.done > RING)
            pthread_cond_wait(&raw.changed, &raw.lock);
        for (int k = 0; k < each; k++)
            raw.ring[raw.tail++ % RING] = nothing;
        pthread_mutex_unlock(&raw.lock);
    }
    pthread_mutex_lock(&raw.lock);
    while (raw.done != until)
        pthread_cond_wait(&raw.changed, &raw.lock);
    pthread_mutex_unlock(&raw.lock);
    return (now_ns() - begin) / count;
}

static double raw_measure_many(int each)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, raw_work, NULL) != 0)
        stop("no thread");
    raw_many(TASKS / 10, each);
    double ns = raw_many(TASKS, each);
    pthread_mutex_lock(&raw.lock);
    raw.must_stop = true;
    pthread_mutex_unlock(&raw.lock);
    pthread_join(thread, NULL);
    return ns;
}

static double raw_one(void)
{
    return raw_measure_many(1);
}

static double raw_batch(void)
{
    return raw_measure_many(BATCH);
}

/* The caller puts the task there, and takes and runs it itself. */
static void raw_round_wait(void *user)
{
    pthread_mutex_lock(&raw.lock);
    raw.ring[raw.tail++ % RING] = nothing;
    pthread_mutex_unlock(&raw.lock);
    pthread_mutex_lock(&raw.lock);
    muster_status (*taken)(void *) = raw.ring[raw.head++ % RING];
    pthread_mutex_unlock(&raw.lock);
    taken(user);
}

static double raw_awaited(void)
{
    return median_round(raw_round_wait, NULL);
}

static sem_t asked;

static void *raw_sleep(void *user)
{
    for (int i = 0; i < ROUNDS; i++)
        while (sem_wait(&asked) != 0)
            continue;
    return user;
}

/* The same, and a thread is woken for nothing. */
static void raw_round_wait_and_wake(void *user)
{
    sem_post(&asked);
    raw_round_wait(user);
}

static double raw_wait_for(void)
{
    pthread_t thread;
    sem_init(&asked, 0, 0);
    if (pthread_create(&thread, NULL, raw_sleep, NULL) != 0)
        stop("no thread");
    double ns = median_round(raw_round_wait_and_wake, NULL);
    pthread_join(thread, NULL);
    return ns;
}

static void *raw_answer(void *user)
{
    for (int i = 0; i < ROUNDS; i++) {
        while (sem_wait(&asked) != 0)
            continue;
        sem_post(&told);
    }
    return user;
}

static void raw_round_wake(void *user)
{
    (void)user;
    sem_post(&asked);
    await_told();
}

static double raw_wake(void)
{
    pthread_t thread;
    sem_init(&asked, 0, 0);
    if (pthread_create(&thread, NULL, raw_answer, NULL) != 0)
        stop("no thread");
    double ns = median_round(raw_round_wake, NULL);
    pthread_join(thread, NULL);
    return ns;
}

static const struct measurement {
    const char *name;
    double (*measure)(void);
} measurements[] = {
    { "muster-one", muster_one },
    { "muster-batch", muster_batch },
    { "muster-wait", muster_wait_for },
    { "muster-awaited", muster_awaited },
    { "muster-wake", muster_wake },
    { "muster-traced-one", muster_traced_one },
    { "muster-traced-batch", muster_traced_batch },
    { "raw-one", raw_one },
    { "raw-batch", raw_batch },
    { "raw-wait", raw_wait_for },
    { "raw-awaited", raw_awaited },
    { "raw-wake", raw_wake },
};

static int measure_here(const char *name)
{
    sem_init(&told, 0, 0);
    for (size_t i = 0; i < sizeof measurements / sizeof *measurements; i++)
        if (strcmp(measurements[i].name, name) == 0)
            return print_value(measurements[i].measure());
    fprintf(stderr, "tasks: there is no measurement %s\n", name);
    return 2;
}

/* ---- What the parent makes of it. ---- */

enum party { OURS, RAW, STARPU, TBB, PARTIES };
static const char *const party_names[] = { "ours", "raw", "starpu", "tbb" };

struct sample {
    bool is_taken;
    double median, least, greatest;
};

struct row {
    const char *what, *kind, *unit;
    double scale;         /* of nanoseconds, to the unit */
    double target;        /* in the unit; or, */
    double target_of_raw; /* if not 0, times the raw limit */
    struct sample samples[PARTIES];
};

/* The program of a peer, beside this one; false if it is not built. */
static bool find_peer(enum party party, char *path, size_t bytes)
{
    ssize_t length = readlink("/proc/self/exe", path, bytes - 1);
    if (length <= 0)
        return false;
    path[length] = '\0';
    char *name = strrchr(path, '/') + 1;
    snprintf(name, bytes - (size_t)(name - path), "peers/tasks_%s", party_names[party]);
    return access(path, X_OK) == 0;
}

static bool has_peer(enum party party)
{
    char path[4096];
    return party == OURS || party == RAW || find_peer(party, path, sizeof path);
}

/* In the child. */
static void become(enum party party, const char *kind)
{
    char path[4096], name[32];
    snprintf(name, sizeof name, "%s-%s", party == OURS ? "muster" : party_names[party], kind);
    if (party == OURS || party == RAW)
        execl("/proc/self/exe", "tasks", "--measure", name, (char *)NULL);
    else if (find_peer(party, path, sizeof path))
        execl(path, path, strcmp(kind, "awaited") == 0 ? "wait" : kind, (char *)NULL);
    _exit(127);
}

static bool measure_once(enum party party, const char *kind, double *value)
{
    int ends[2], status = 0;
    char text[64] = "";
    if (pipe(ends) != 0)
        return false;
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        become(party, kind);
    }
    close(ends[1]);
    FILE *answer = child > 0 ? fdopen(ends[0], "r") : NULL;
    bool has_answer = answer && fgets(text, sizeof text, answer);
    if (answer)
        fclose(answer);
    else
        close(ends[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (child < 0 || !has_answer || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "tasks: the measurement %s of %s failed\n", kind, party_names[party]);
        return false;
    }
    *value = strtod(text, NULL);
    return true;
}

static bool take_row(struct row *row, int repetitions)
{
    static double values[PARTIES][REPETITIONS_MAX];
    for (int i = 0; i < repetitions; i++)
        for (int party = 0; party < PARTIES; party++) {
            /* Neither of them submits several tasks in one call. */
            bool has_row = party < STARPU || strcmp(row->kind, "batch") != 0;
            row->samples[party].is_taken = has_row && has_peer((enum party)party);
            if (row->samples[party].is_taken &&
                !measure_once((enum party)party, row->kind, &values[party][i]))
                return false;
        }
    for (int party = 0; party < PARTIES; party++) {
        struct sample *sample = &row->samples[party];
        double *of = values[party];
        if (!sample->is_taken)
            continue;
        qsort(of, (size_t)repetitions, sizeof *of, compare_values);
        sample->median = (of[(repetitions - 1) / 2] + of[repetitions / 2]) / 2 * row->scale;
        sample->least = of[0] * row->scale;
        sample->greatest = of[repetitions - 1] * row->scale;
    }
    if (row->target_of_raw > 0)
        row->target = row->target_of_raw * row->samples[RAW].median;
    return true;
}

static const char *verdict(const struct row *row)
{
    return row->samples[OURS].median <= row->target ? "met" : "MISSED";
}

static void print_row(const struct row *row)
{
    printf("%-40s", row->what);
    for (int party = 0; party < PARTIES; party++) {
        const struct sample *sample = &row->samples[party];
        char text[64] = "-";
        /* Three digits, none of them an exponent. */
        int digits = sample->greatest < 10 ? 2 : sample->greatest < 100 ? 1 : 0;
        if (sample->is_taken)
            snprintf(text, sizeof text, "%.*f (%.*f-%.*f)", digits, sample->median, digits,
                     sample->least, digits, sample->greatest);
        printf("  %-22s", text);
    }
    printf("  <= %-5.3g %s\n", row->target, verdict(row));
}

static bool write_json(const char *path, const struct utsname *system, const char *commit,
                       int repetitions, const struct row *rows, size_t count)
{
    FILE *file = fopen(path, "w");
    if (!file) {
        fprintf(stderr, "tasks: %s: %s\n", path, strerror(errno));
        return false;
    }
    fprintf(
        file,
        "{\"bench\":\"tasks\",\"host\":\"%s\",\"kernel\":\"%s\",\"cores\":%ld,\"commit\":\"%s\","
        "\"version\":\"%s\",\"repetitions\":%d,\"rows\":[",
        system->nodename, system->release, sysconf(_SC_NPROCESSORS_ONLN), commit, muster_version(),
        repetitions);
    for (size_t i = 0; i < count; i++) {
        fprintf(file, "%s{\"what\":\"%s\",\"unit\":\"%s\",", i > 0 ? "," : "", rows[i].what,
                rows[i].unit);
        for (int party = 0; party < PARTIES; party++) {
            const struct sample *sample = &rows[i].samples[party];
            fprintf(file, "\"%s\":", party_names[party]);
            if (sample->is_taken)
                fprintf(file, "{\"median\":%.9g,\"least\":%.9g,\"greatest\":%.9g},", sample->median,
                        sample->least, sample->greatest);
            else
                fprintf(file, "null,");
        }
        fprintf(file, "\"target\":%.9g,\"verdict\":\"%s\"}", rows[i].target, verdict(&rows[i]));
    }
    fprintf(file, "]}\n");
    bool has_failed = ferror(file) != 0;
    return fclose(file) == 0 && !has_failed;
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status, (void)kind, (void)place;
    return remove(path);
}

int main(int argc, char **argv)
{
    int repetitions = 7;
    const char *json = NULL;
    if (argc == 3 && strcmp(argv[1], "--measure") == 0)
        return measure_here(argv[2]);
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--repetitions") == 0)
            repetitions = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--json") == 0)
            json = argv[i + 1];
        else
            repetitions = 0;
    }
    if (argc % 2 == 0 || repetitions < REPETITIONS_MIN || repetitions > REPETITIONS_MAX) {
        fprintf(stderr, "usage: tasks [--repetitions %d-%d] [--json FILE]\n", REPETITIONS_MIN,
                REPETITIONS_MAX);
        return 2;
    }
    struct row rows[] = {
        { "one at a time, ns a task", "one", "ns", 1, 100, 0, { { 0 } } },
        { "250 at a time, ns a task", "batch", "ns", 1, 60, 0, { { 0 } } },
        { "idle, the caller waits, us", "wait", "us", 1e-3, 1, 0, { { 0 } } },
        { "idle, the caller says it will wait, us", "awaited", "us", 1e-3, 1, 0, { { 0 } } },
        { "idle, the caller is told, us", "wake", "us", 1e-3, 0, 1.3, { { 0 } } },
    };
    const size_t count = sizeof rows / sizeof *rows;
    struct utsname system;
    char home[] = "/tmp/muster-tasks-XXXXXX";
    double unused;
    const char *commit = getenv("MUSTER_COMMIT");
    commit = commit ? commit : MUSTER_COMMIT;
    uname(&system);
    /* StarPU keeps what it calibrates in a folder; it does so before anything is measured. */
    if (!mkdtemp(home))
        stop(strerror(errno));
    setenv("STARPU_HOME", home, 1);
    setenv("STARPU_SILENT", "1", 1);
    printf("host %s, %ld cores, %s %s, commit %s, muster %s\n", system.nodename,
           sysconf(_SC_NPROCESSORS_ONLN), system.sysname, system.release, commit, muster_version());
    printf(
        "median (least-greatest) of %d; raw: a ring under a lock, a thread woken and back%s%s\n\n",
        repetitions, has_peer(STARPU) ? "" : "; StarPU is not installed",
        has_peer(TBB) ? "" : "; oneTBB is not installed");
    printf("%-40s  %-22s  %-22s  %-22s  %-22s  %-8s %s\n", "empty tasks, one producer", "ours",
           "raw", "StarPU", "oneTBB", "target", "verdict");
    bool is_measured = !has_peer(STARPU) || measure_once(STARPU, "wait", &unused);
    for (size_t i = 0; i < count && is_measured; i++) {
        is_measured = take_row(&rows[i], repetitions);
        if (is_measured)
            print_row(&rows[i]);
        fflush(stdout);
    }
    nftw(home, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    if (!is_measured)
        return 1;
    return json && !write_json(json, &system, commit, repetitions, rows, count) ? 1 : 0;
}
