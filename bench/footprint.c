/*
 * What it costs to have Muster in a process at all, with the CPU backend only: the time to open,
 * launch one kernel and close, the memory an open runtime keeps resident, the CPU it uses while idle. Beside the
 * raw limit (as many threads, an empty process) and StarPU, from the same run.
 *
 *     footprint [--repetitions N] [--idle-repetitions N] [--idle-seconds S] [--json FILE]
 *
 * Each measurement is a process of its own, this program started again as `footprint --measure NAME
 * SECONDS`, so nobody meets what another left warm. StarPU is loaded at run time and only in its
 * own processes: linked, its libraries alone would put more than a megabyte on our account. The
 * exit status tells whether it could measure, not whether targets are met.
 */
#include <dlfcn.h>
#include <errno.h>
#include <ftw.h>
#include <muster/muster.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef MUSTER_COMMIT
#define MUSTER_COMMIT "unknown"
#endif

#define REPETITIONS_MIN 3 /* below that there is no spread to speak of */
#define REPETITIONS_MAX 101
#define DEVICES_MAX 256
#define CORES_MAX 1024

static int count_cores(void)
{
    cpu_set_t allowed;
    return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
}

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/*
 * ---- What the child processes measure. Each prints one number, or returns false after a message.
 * ----
 */

static bool resident_mib(double *mib)
{
    FILE *status = fopen("/proc/self/status", "r");
    char line[256];
    unsigned long long kib = 0;
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmRSS: %llu kB", &kib) == 1)
            break;
    if (status)
        fclose(status);
    if (kib == 0)
        fprintf(stderr, "footprint: /proc/self/status has no VmRSS\n");
    *mib = (double)kib / 1024;
    return kib > 0;
}

/* What this process has used so far. */
static double used_s(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Per cent of one core, of this process from now on. */
static bool idle_percent(double seconds, double *percent)
{
    double used = used_s(), begin = now_s(), left;
    while ((left = begin + seconds - now_s()) > 0) {
        struct timespec pause = { (time_t)left, (long)((left - (double)(time_t)left) * 1e9) };
        nanosleep(&pause, NULL);
    }
    *percent = 100 * (used_s() - used) / (now_s() - begin);
    return true;
}

static muster_status no_items(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end, (void)args;
    return MUSTER_OK;
}

/* One launch on one stream of the device, so that all its threads are there. */
static muster_status use_device(struct muster *m, muster_device device, struct muster_error *err)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = no_items };
    struct muster_kernel *kernel;
    muster_stream stream;
    muster_status status = muster_kernel_from(m, "no_items", &form, 1, &kernel, err);
    if (status != MUSTER_OK)
        return status;
    status = muster_stream_acquire(m, device, 0, &stream, err);
    if (status == MUSTER_OK)
        status = muster_launch(m, stream, kernel, 0, 1, NULL, 0, NULL, err);
    if (status == MUSTER_OK)
        status = muster_stream_wait(m, stream, UINT64_MAX, err);
    return status;
}

/* Opens a runtime with the CPU backend only and uses its devices. */
static bool muster_up(struct muster **m)
{
    struct muster_options options = { .size = sizeof options, .devices = "cpu" };
    struct muster_error err;
    muster_device devices[DEVICES_MAX];
    size_t count = 0;
    if (muster_open(m, &options, &err) != MUSTER_OK) {
        fprintf(stderr, "footprint: %s\n", err.text);
        return false;
    }
    muster_status status = muster_device_list(*m, devices, DEVICES_MAX, &count, &err);
    for (size_t i = 0; i < count && status == MUSTER_OK; i++)
        status = use_device(*m, devices[i], &err);
    if (status == MUSTER_OK)
        return true;
    fprintf(stderr, "footprint: %s\n", err.text);
    muster_close(*m, NULL);
    return false;
}

static bool muster_down(struct muster *m)
{
    struct muster_error err;
    if (muster_close(m, &err) == MUSTER_OK)
        return true;
    fprintf(stderr, "footprint: %s\n", err.text);
    return false;
}

static bool muster_cycle(double seconds, double *ms)
{
    (void)seconds;
    struct muster *m;
    double begin = now_s();
    if (!muster_up(&m) || !muster_down(m))
        return false;
    *ms = (now_s() - begin) * 1e3;
    return true;
}

static bool muster_resident(double seconds, double *mib)
{
    (void)seconds;
    struct muster *m;
    return muster_up(&m) && resident_mib(mib) && muster_down(m);
}

static bool muster_idle(double seconds, double *percent)
{
    struct muster *m;
    return muster_up(&m) && idle_percent(seconds, percent) && muster_down(m);
}

static void *nothing(void *user)
{
    return user;
}

static bool raw_cycle(double seconds, double *ms)
{
    (void)seconds;
    pthread_t threads[CORES_MAX];
    int wanted = count_cores(), count = 0;
    double begin = now_s();
    while (count < wanted && pthread_create(&threads[count], NULL, nothing, NULL) == 0)
        count++;
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    *ms = (now_s() - begin) * 1e3;
    if (count < wanted)
        fprintf(stderr, "footprint: only %d of %d threads could be created\n", count, wanted);
    return count == wanted;
}

static bool raw_resident(double seconds, double *mib)
{
    (void)seconds;
    return resident_mib(mib);
}

static bool raw_idle(double seconds, double *percent)
{
    return idle_percent(seconds, percent);
}

static const char *const starpu_names[] = { "libstarpu-1.4.so", "libstarpu-1.4.so.1",
                                            "libstarpu-1.3.so", "libstarpu-1.3.so.9",
                                            "libstarpu-1.3.so.8" };

/* The library and its name; NULL where it is not installed. */
static void *starpu_load(const char **name)
{
    for (size_t i = 0; i < sizeof starpu_names / sizeof *starpu_names; i++) {
        void *library = dlopen(starpu_names[i], RTLD_NOW | RTLD_LOCAL);
        if (library) {
            *name = starpu_names[i];
            return library;
        }
    }
    return NULL;
}

static int (*starpu_init)(void *);
static void (*starpu_shutdown)(void);

/* Loading is not part of what is timed, as the dynamic linker's work for Muster is not. */
static bool starpu_find(void)
{
    const char *name;
    void *library = starpu_load(&name);
    void *init = library ? dlsym(library, "starpu_init") : NULL;
    void *shutdown = library ? dlsym(library, "starpu_shutdown") : NULL;
    if (!init || !shutdown) {
        fprintf(stderr, "footprint: StarPU cannot be loaded\n");
        return false;
    }
    /* C has no cast from a pointer to data to one to a function. */
    memcpy(&starpu_init, &init, sizeof init);
    memcpy(&starpu_shutdown, &shutdown, sizeof shutdown);
    return true;
}

static bool starpu_up(void)
{
    int result = starpu_init(NULL);
    if (result != 0)
        fprintf(stderr, "footprint: starpu_init returned %d\n", result);
    return result == 0;
}

static bool starpu_cycle(double seconds, double *ms)
{
    (void)seconds;
    if (!starpu_find())
        return false;
    double begin = now_s();
    if (!starpu_up())
        return false;
    starpu_shutdown();
    *ms = (now_s() - begin) * 1e3;
    return true;
}

static bool starpu_resident(double seconds, double *mib)
{
    (void)seconds;
    if (!starpu_find() || !starpu_up() || !resident_mib(mib))
        return false;
    starpu_shutdown();
    return true;
}

static bool starpu_idle(double seconds, double *percent)
{
    if (!starpu_find() || !starpu_up() || !idle_percent(seconds, percent))
        return false;
    starpu_shutdown();
    return true;
}

static const struct measurement {
    const char *name;
    bool (*measure)(double seconds, double *value);
} measurements[] = {
    { "muster-cycle", muster_cycle }, { "raw-cycle", raw_cycle },
    { "starpu-cycle", starpu_cycle }, { "muster-resident", muster_resident },
    { "raw-resident", raw_resident }, { "starpu-resident", starpu_resident },
    { "muster-idle", muster_idle },   { "raw-idle", raw_idle },
    { "starpu-idle", starpu_idle },
};

static int measure_here(const char *name, const char *seconds)
{
    for (size_t i = 0; i < sizeof measurements / sizeof *measurements; i++) {
        double value;
        if (strcmp(measurements[i].name, name) != 0)
            continue;
        if (!measurements[i].measure(strtod(seconds, NULL), &value))
            return 1;
        printf("%.9g\n", value);
        return fflush(stdout) == 0 ? 0 : 1;
    }
    fprintf(stderr, "footprint: there is no measurement %s\n", name);
    return 2;
}

/* ---- What the parent makes of it. ---- */

struct settings {
    int repetitions, idle_repetitions;
    double idle_seconds;
    const char *json; /* NULL: no file */
};

struct sample {
    bool taken;
    double median, least, greatest;
};

struct row {
    const char *what, *unit;
    double target;
    int repetitions;
    struct sample ours, raw, peer;
};

/* Starts this program again for one measurement. */
static bool measure_once(const char *name, double seconds, double *value)
{
    int ends[2], status;
    char text[64] = "", duration[32];
    snprintf(duration, sizeof duration, "%g", seconds);
    if (pipe(ends) != 0) {
        perror("footprint: pipe");
        return false;
    }
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execl("/proc/self/exe", "footprint", "--measure", name, duration, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    FILE *answer = child > 0 ? fdopen(ends[0], "r") : NULL;
    bool read = answer && fgets(text, sizeof text, answer);
    if (answer)
        fclose(answer);
    else
        close(ends[0]);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (child < 0 || !read || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "footprint: the measurement %s failed\n", name);
        return false;
    }
    *value = strtod(text, NULL);
    return true;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool take_sample(const char *name, int repetitions, double seconds, struct sample *sample)
{
    double values[REPETITIONS_MAX];
    for (int i = 0; i < repetitions; i++)
        if (!measure_once(name, seconds, &values[i]))
            return false;
    qsort(values, (size_t)repetitions, sizeof *values, compare);
    int middle = repetitions / 2;
    *sample =
        (struct sample){ .taken = true, .least = values[0], .greatest = values[repetitions - 1] };
    sample->median = repetitions % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
    return true;
}

static bool take_row(struct row *row, const char *kind, double seconds, bool with_peer)
{
    char name[32];
    snprintf(name, sizeof name, "muster-%s", kind);
    if (!take_sample(name, row->repetitions, seconds, &row->ours))
        return false;
    snprintf(name, sizeof name, "raw-%s", kind);
    if (!take_sample(name, row->repetitions, seconds, &row->raw))
        return false;
    snprintf(name, sizeof name, "starpu-%s", kind);
    return !with_peer || take_sample(name, row->repetitions, seconds, &row->peer);
}

static const char *verdict(const struct row *row)
{
    return row->ours.median <= row->target ? "met" : "MISSED";
}

static void print_cell(const struct sample *sample)
{
    char text[64] = "-";
    if (sample->taken)
        snprintf(text, sizeof text, "%.3g (%.3g-%.3g)", sample->median, sample->least,
                 sample->greatest);
    printf("  %-24s", text);
}

struct facts {
    struct utsname system;
    int cores;
    const char *commit, *peer; /* peer is NULL where there is none */
};

static void print_table(const struct facts *facts, const struct row *rows, size_t count)
{
    printf("host %s, %d cores, %s %s, commit %s, muster %s, peer %s\n", facts->system.nodename,
           facts->cores, facts->system.sysname, facts->system.release, facts->commit,
           muster_version(), facts->peer ? facts->peer : "StarPU is not installed");
    printf("median (least-greatest); raw: threads created and joined, this program before it opens "
           "anything\n\n");
    printf("%-32s %4s  %-24s  %-24s  %-24s  %-8s %s\n", "", "runs", "ours", "raw", "peer", "target",
           "verdict");
    for (size_t i = 0; i < count; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s, %s", rows[i].what, rows[i].unit);
        printf("%-32s %4d", name, rows[i].repetitions);
        print_cell(&rows[i].ours);
        print_cell(&rows[i].raw);
        print_cell(&rows[i].peer);
        printf("  <= %-5g %s\n", rows[i].target, verdict(&rows[i]));
    }
}

static void write_text(FILE *file, const char *key, const char *text)
{
    fprintf(file, "\"%s\":\"", key);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', file);
        fputc((unsigned char)*text < 0x20 ? '?' : *text, file);
    }
    fputs("\",", file);
}

static void write_sample(FILE *file, const char *key, const struct sample *sample)
{
    if (sample->taken)
        fprintf(file, "\"%s\":{\"median\":%.9g,\"least\":%.9g,\"greatest\":%.9g},", key,
                sample->median, sample->least, sample->greatest);
    else
        fprintf(file, "\"%s\":null,", key);
}

static bool write_json(const char *path, const struct facts *facts, const struct row *rows,
                       size_t count)
{
    FILE *file = fopen(path, "w");
    if (!file) {
        fprintf(stderr, "footprint: %s: %s\n", path, strerror(errno));
        return false;
    }
    fputs("{\"bench\":\"footprint\",", file);
    write_text(file, "host", facts->system.nodename);
    write_text(file, "kernel", facts->system.release);
    write_text(file, "commit", facts->commit);
    write_text(file, "version", muster_version());
    if (facts->peer)
        write_text(file, "peer", facts->peer);
    fprintf(file, "\"cores\":%d,\"rows\":[", facts->cores);
    for (size_t i = 0; i < count; i++) {
        fputs(i > 0 ? ",{" : "{", file);
        write_text(file, "what", rows[i].what);
        write_text(file, "unit", rows[i].unit);
        write_sample(file, "ours", &rows[i].ours);
        write_sample(file, "raw", &rows[i].raw);
        write_sample(file, "peer", &rows[i].peer);
        write_text(file, "verdict", verdict(&rows[i]));
        fprintf(file, "\"repetitions\":%d,\"target\":%g}", rows[i].repetitions, rows[i].target);
    }
    fputs("]}\n", file);
    bool failed = ferror(file) != 0;
    if (fclose(file) == 0 && !failed)
        return true;
    fprintf(stderr, "footprint: %s: %s\n", path, strerror(errno));
    return false;
}

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place)
{
    (void)status;
    (void)kind;
    (void)place;
    return remove(path);
}

/* StarPU keeps what it calibrated in a folder, which is neither the user's nor there afterwards. */
static bool measure_all(const struct settings *settings, bool with_peer, struct row *rows)
{
    char home[] = "/tmp/muster-footprint-XXXXXX";
    double calibration;
    if (with_peer) {
        if (!mkdtemp(home)) {
            fprintf(stderr, "footprint: %s: %s\n", home, strerror(errno));
            return false;
        }
        setenv("STARPU_HOME", home, 1);
        setenv("STARPU_SILENT", "1", 1);
    }
    bool done = (!with_peer || measure_once("starpu-cycle", 0, &calibration)) &&
                take_row(&rows[0], "cycle", 0, with_peer) &&
                take_row(&rows[1], "resident", 0, with_peer) &&
                take_row(&rows[2], "idle", settings->idle_seconds, with_peer);
    if (with_peer)
        nftw(home, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
    return done;
}

static bool read_settings(int argc, char **argv, struct settings *settings)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--repetitions") == 0)
            settings->repetitions = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--idle-repetitions") == 0)
            settings->idle_repetitions = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--idle-seconds") == 0)
            settings->idle_seconds = strtod(argv[i + 1], NULL);
        else if (strcmp(argv[i], "--json") == 0)
            settings->json = argv[i + 1];
        else
            return false;
    }
    return argc % 2 == 1 && settings->idle_seconds > 0 &&
           settings->repetitions >= REPETITIONS_MIN && settings->repetitions <= REPETITIONS_MAX &&
           settings->idle_repetitions >= REPETITIONS_MIN &&
           settings->idle_repetitions <= REPETITIONS_MAX;
}

int main(int argc, char **argv)
{
    struct settings settings = { .repetitions = 21, .idle_repetitions = 3, .idle_seconds = 5 };
    struct facts facts = { .cores = count_cores() };
    if (argc == 4 && strcmp(argv[1], "--measure") == 0)
        return measure_here(argv[2], argv[3]);
    if (!read_settings(argc, argv, &settings)) {
        fprintf(stderr,
                "usage: footprint [--repetitions %d-%d] [--idle-repetitions %d-%d] [--idle-seconds "
                "S] [--json FILE]\n",
                REPETITIONS_MIN, REPETITIONS_MAX, REPETITIONS_MIN, REPETITIONS_MAX);
        return 2;
    }
    /* What is measured is the CPU backend alone. */
    unsetenv("MUSTER_SIM");
    unsetenv("MUSTER_BACKENDS");
    uname(&facts.system);
    const char *commit = getenv("MUSTER_COMMIT");
    facts.commit = commit ? commit : MUSTER_COMMIT;
    void *library = starpu_load(&facts.peer);
    if (library)
        dlclose(library);

    struct row rows[] = {
        { .what = "open + launch + close",
          .unit = "ms",
          .target = 5,
          .repetitions = settings.repetitions },
        { .what = "resident after a launch",
          .unit = "MiB",
          .target = 8,
          .repetitions = settings.repetitions },
        { .what = "idle, of one core",
          .unit = "%",
          .target = 1,
          .repetitions = settings.idle_repetitions },
    };
    const size_t count = sizeof rows / sizeof *rows;
    if (!measure_all(&settings, library != NULL, rows))
        return 1;
    print_table(&facts, rows, count);
    if (fflush(stdout) != 0)
        return 1;
    return settings.json && !write_json(settings.json, &facts, rows, count) ? 1 : 0;
}
