/*
 * Files: how fast one is read, and how fast a job copies one, beside cp and what the disk gives.
 *
 *     files [--repetitions N] [--json FILE]
 *
 * Reading is beside the raw limit, threads that read whole pieces past the system's cache, and
 * beside one thread that reads through it. The job's kernel is a memcpy on the processors of this
 * machine, so that it is file to file as cp is; ours waits for the disk, so cp is measured with a
 * sync and without. Before each run the input is dropped from the cache, unless the row says that
 * it is in it. TMPDIR says where. The ways take turns, in an order that is drawn again each time:
 * who comes after whom matters, since in a virtual machine memory that has not been used for a
 * while may have to be given by the host first. CPU seconds are those of the process and its
 * children, and leave out what the kernel does on threads of its own.
 */
#include "jobs.h"

#include <fcntl.h>
#include <muster/file.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define FILE_BYTES ((size_t)1 << 30)
#define PIECE_BYTES ((size_t)1 << 20)
#define ITEM_BYTES ((size_t)4096)
#define UNIT_ITEMS 1024u
#define WINDOW_ITEMS 16384u
#define KEPT_MAX 16u
#define RAW_THREADS 8
/* A run that is shorter says nothing about a disk. */
#define RUN_NS_MIN 30000000u

extern char **environ;

static char in_path[512], out_path[512];
static unsigned char *room; /* as large as the file */

/* The input. */

static void make_input(const struct bench *bench)
{
    int file = open(in_path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    uint64_t *words = (uint64_t *)(void *)room;
    for (size_t i = 0; i < FILE_BYTES / sizeof *words; i++)
        words[i] = i * UINT64_C(0x9E3779B97F4A7C15);
    for (size_t done = 0; file >= 0 && done < FILE_BYTES;) {
        ssize_t step = write(file, room + done, FILE_BYTES - done);
        if (step <= 0)
            stop(bench, "the input could not be written");
        done += (size_t)step;
    }
    if (file < 0 || fsync(file) != 0)
        stop(bench, "the input could not be written");
    close(file);
}

static void prepare(const struct bench *bench, bool is_cached)
{
    int file = open(in_path, O_RDONLY | O_CLOEXEC);
    unlink(out_path);
    if (file < 0)
        stop(bench, "the input is gone");
    if (!is_cached)
        posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    for (size_t done = 0; is_cached && done < FILE_BYTES; done += PIECE_BYTES)
        if (pread(file, room, PIECE_BYTES, (off_t)done) <= 0)
            stop(bench, "the input is too short");
    close(file);
}

/* The raw limit: threads that read pieces past the cache, as many as the disk can use. */

struct raw {
    int descriptor;
    _Atomic size_t next;
    _Atomic bool has_failed;
};

static void *read_raw(void *argument)
{
    struct raw *raw = argument;
    for (size_t at; (at = atomic_fetch_add(&raw->next, PIECE_BYTES)) < FILE_BYTES;)
        if (pread(raw->descriptor, room + at, PIECE_BYTES, (off_t)at) != (ssize_t)PIECE_BYTES)
            atomic_store(&raw->has_failed, true);
    return NULL;
}

static bool run_raw(const struct bench *bench, struct muster *m)
{
    struct raw raw = { .descriptor = open(in_path, O_RDONLY | O_DIRECT | O_CLOEXEC) };
    pthread_t threads[RAW_THREADS];
    (void)m;
    if (raw.descriptor < 0)
        return false;
    for (int i = 0; i < RAW_THREADS; i++)
        if (pthread_create(&threads[i], NULL, read_raw, &raw) != 0)
            stop(bench, "no threads");
    for (int i = 0; i < RAW_THREADS; i++)
        pthread_join(threads[i], NULL);
    close(raw.descriptor);
    return !atomic_load(&raw.has_failed);
}

static bool run_read(const struct bench *bench, struct muster *m)
{
    int file = open(in_path, O_RDONLY | O_CLOEXEC);
    (void)bench, (void)m;
    size_t done = 0;
    for (ssize_t step; done < FILE_BYTES; done += (size_t)step)
        if ((step = read(file, room + done, PIECE_BYTES)) <= 0)
            break;
    close(file);
    return done == FILE_BYTES;
}

static bool run_cp(const struct bench *bench, struct muster *m)
{
    char *arguments[] = { "cp", in_path, out_path, NULL };
    int status;
    pid_t child;
    (void)bench, (void)m;
    return posix_spawnp(&child, "cp", NULL, NULL, arguments, environ) == 0 &&
           waitpid(child, &status, 0) == child && status == 0;
}

static bool run_cp_and_sync(const struct bench *bench, struct muster *m)
{
    if (!run_cp(bench, m))
        return false;
    int file = open(out_path, O_WRONLY | O_CLOEXEC);
    bool is_done = file >= 0 && fsync(file) == 0;
    close(file);
    return is_done;
}

/* Ours. */

static struct muster_file_report last_in, last_out;

static struct muster_file_options options_of(const char *engine, enum muster_direct direct)
{
    return (struct muster_file_options){ .size = sizeof(struct muster_file_options),
                                         .item_bytes = ITEM_BYTES,
                                         .engine = engine,
                                         .direct = direct };
}

static bool read_ours(const struct bench *bench, struct muster *m, const char *engine,
                      enum muster_direct direct)
{
    struct muster_file_options options = options_of(engine, direct);
    struct muster_error err;
    struct muster_file *file;
    size_t got = 0;
    if (muster_file_read_open(m, in_path, &options, &file, &err) != MUSTER_OK)
        return false;
    if (muster_file_read(file, room, FILE_BYTES, &got, &err) != MUSTER_OK || got != FILE_BYTES)
        stop(bench, err.text);
    last_in = (struct muster_file_report){ .size = sizeof last_in };
    muster_file_report(file, &last_in, NULL);
    muster_file_close(file);
    return true;
}

static bool read_direct(const struct bench *bench, struct muster *m)
{
    return read_ours(bench, m, "io_uring", MUSTER_DIRECT_ALWAYS);
}

static bool read_uring(const struct bench *bench, struct muster *m)
{
    return read_ours(bench, m, "io_uring", MUSTER_DIRECT_NEVER);
}

static bool read_threads(const struct bench *bench, struct muster *m)
{
    return read_ours(bench, m, "threads", MUSTER_DIRECT_NEVER);
}

static bool read_threads_direct(const struct bench *bench, struct muster *m)
{
    return read_ours(bench, m, "threads", MUSTER_DIRECT_ALWAYS);
}

static bool read_auto(const struct bench *bench, struct muster *m)
{
    return read_ours(bench, m, NULL, MUSTER_DIRECT_AUTO);
}

static muster_status pass(uint64_t begin, uint64_t end, void *const *args)
{
    const unsigned char *in = *(const unsigned char *const *)args[0];
    unsigned char *out = *(unsigned char *const *)args[1];
    memcpy(out + begin * ITEM_BYTES, in + begin * ITEM_BYTES, (end - begin) * ITEM_BYTES);
    return MUSTER_OK;
}

static bool copy_ours(const struct bench *bench, struct muster *m, const char *engine,
                      enum muster_direct direct)
{
    struct muster_file_options options = options_of(engine, direct);
    struct muster_kernel *kernel = make_kernel(bench, m, pass);
    const struct muster_arg args[] = { { MUSTER_ARG_OF(MUSTER_ARG_SOURCE), .bytes = ITEM_BYTES },
                                       { MUSTER_ARG_OF(MUSTER_ARG_OUT), .bytes = ITEM_BYTES } };
    struct muster_error err;
    struct muster_file *in, *out;
    struct muster_report report;
    if (muster_file_read_open(m, in_path, &options, &in, &err) != MUSTER_OK)
        return false;
    options.bytes = FILE_BYTES;
    if (muster_file_write_open(m, out_path, &options, &out, &err) != MUSTER_OK) {
        muster_file_close(in);
        return false;
    }
    const struct muster_job_desc desc = { .size = sizeof desc,
                                          .kernel = kernel,
                                          .items = FILE_BYTES / ITEM_BYTES,
                                          .args = args,
                                          .arg_count = 2,
                                          .sink = muster_file_sink,
                                          .sink_user = out,
                                          .source = muster_file_source,
                                          .source_user = in,
                                          .options = &(struct muster_run_options){
                                              .size = sizeof(struct muster_run_options),
                                              .unit_items = UNIT_ITEMS,
                                              .window = WINDOW_ITEMS,
                                              .kept_max = KEPT_MAX } };
    run_job(bench, m, &desc, &report);
    if (muster_file_finish(out, &err) != MUSTER_OK)
        stop(bench, err.text);
    last_in = last_out = (struct muster_file_report){ .size = sizeof last_in };
    muster_file_report(in, &last_in, NULL);
    muster_file_report(out, &last_out, NULL);
    muster_file_close(in);
    muster_file_close(out);
    muster_kernel_destroy(kernel);
    return true;
}

static bool copy_auto(const struct bench *bench, struct muster *m)
{
    return copy_ours(bench, m, NULL, MUSTER_DIRECT_AUTO);
}

static bool copy_uring(const struct bench *bench, struct muster *m)
{
    return copy_ours(bench, m, "io_uring", MUSTER_DIRECT_NEVER);
}

static bool copy_threads(const struct bench *bench, struct muster *m)
{
    return copy_ours(bench, m, "threads", MUSTER_DIRECT_NEVER);
}

/* Rows. */

struct setting {
    const char *name;
    bool is_cached, is_ours, is_copy;
    bool (*run)(const struct bench *bench,
                struct muster *m); /* false: there is no such thing here */
};

static const struct setting settings[] = {
    { "read: raw, direct, 8 threads", false, false, false, run_raw },
    { "read: read(2), one thread", false, false, false, run_read },
    { "read: ours, as chosen", false, true, false, read_auto },
    { "read: ours, io_uring direct", false, true, false, read_direct },
    { "read: ours, io_uring", false, true, false, read_uring },
    { "read: ours, threads direct", false, true, false, read_threads_direct },
    { "read: ours, threads", false, true, false, read_threads },
    { "read cached: read(2), one thread", true, false, false, run_read },
    { "read cached: ours, as chosen", true, true, false, read_auto },
    { "read cached: ours, threads", true, true, false, read_threads },
    { "copy: cp", false, false, true, run_cp },
    { "copy: cp and fsync", false, false, true, run_cp_and_sync },
    { "copy: job, as chosen", false, true, true, copy_auto },
    { "copy: job, io_uring", false, true, true, copy_uring },
    { "copy: job, threads", false, true, true, copy_threads },
};
#define SETTINGS (sizeof settings / sizeof *settings)

struct measured {
    double rates[REPETITIONS_MAX], cpu[REPETITIONS_MAX];
    int count;
    uint64_t copied;
    char engine[24];
};

static double cpu_seconds(void)
{
    struct rusage self, children;
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    double us = (double)(self.ru_utime.tv_usec + self.ru_stime.tv_usec + children.ru_utime.tv_usec +
                         children.ru_stime.tv_usec);
    return us / 1e6 + (double)(self.ru_utime.tv_sec + self.ru_stime.tv_sec +
                               children.ru_utime.tv_sec + children.ru_stime.tv_sec);
}

static void check_copy(const struct bench *bench)
{
    struct stat facts;
    int file = open(out_path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &facts) != 0 || (size_t)facts.st_size != FILE_BYTES)
        stop(bench, "a copy is not as large as the input");
    for (size_t i = 0; i < FILE_BYTES; i += FILE_BYTES / 64) {
        uint64_t word;
        if (pread(file, &word, sizeof word, (off_t)i) != (ssize_t)sizeof word ||
            word != i / sizeof word * UINT64_C(0x9E3779B97F4A7C15))
            stop(bench, "a copy is not what the input is");
    }
    close(file);
}

static void measure(const struct bench *bench, struct muster *m, const struct setting *setting,
                    struct measured *out)
{
    prepare(bench, setting->is_cached);
    last_in = last_out = (struct muster_file_report){ .size = sizeof last_in };
    double cpu = cpu_seconds();
    uint64_t begin_ns = clock_ns();
    if (!setting->run(bench, m))
        return;
    uint64_t ns = clock_ns() - begin_ns;
    if (ns < RUN_NS_MIN)
        stop(bench, "a run was too short to say anything");
    out->rates[out->count] = (double)FILE_BYTES / (double)ns;
    out->cpu[out->count++] = cpu_seconds() - cpu;
    if (setting->is_copy)
        check_copy(bench);
    snprintf(out->engine, sizeof out->engine, "%s", setting->is_ours ? last_in.engine : "-");
    out->copied = last_in.copied_by_muster + last_in.copied_by_system + last_out.copied_by_muster +
                  last_out.copied_by_system;
}

/* Another order each time, the same in every run. */
static void shuffle(size_t *order, uint64_t *state)
{
    for (size_t i = SETTINGS - 1; i > 0; i--) {
        *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        size_t other = (size_t)(*state >> 33) % (i + 1), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

static void take_row(struct bench *bench, const struct setting *setting, struct measured *measured)
{
    if (measured->count < bench->repetitions) {
        printf("%-34s not on this machine\n", setting->name);
        return;
    }
    struct sample rate = summarise(measured->rates, measured->count);
    struct sample cpu = summarise(measured->cpu, measured->count);
    char copied[32] = "-";
    if (setting->is_ours)
        snprintf(copied, sizeof copied, "%.0f", (double)measured->copied / (1 << 20));
    printf("%-34s %5.2f (%.2f-%.2f)   %5.2f   %8s  %s\n", setting->name, rate.median, rate.least,
           rate.greatest, cpu.median, copied, measured->engine);
    row_begin(bench, setting->name);
    row_text(bench, "unit", "GB/s");
    row_sample(bench, setting->is_ours ? "ours" : "other", rate);
    row_sample(bench, "cpu_s", cpu);
    row_number(bench, "bytes", (double)FILE_BYTES);
    if (setting->is_ours) {
        row_number(bench, "copied_bytes", (double)measured->copied);
        row_text(bench, "engine", measured->engine);
    }
    row_end(bench);
}

int main(int argc, char **argv)
{
    static struct measured measured[SETTINGS];
    const char *folder = getenv("TMPDIR");
    struct bench bench;
    bench_begin(&bench, "files", 5, argc, argv);
    snprintf(in_path, sizeof in_path, "%s/muster-bench-%ld.in", folder ? folder : "/tmp",
             (long)getpid());
    snprintf(out_path, sizeof out_path, "%s/muster-bench-%ld.out", folder ? folder : "/tmp",
             (long)getpid());
    room = aligned_alloc(1 << 21, FILE_BYTES);
    if (!room)
        stop(&bench, "no memory for the file");
    make_input(&bench);
    printf("a file of %zu MiB in %s; GB/s, median (least-greatest) of %d; CPU seconds; MiB that a "
           "CPU copied\n\n%-34s %-19s %5s   %8s  %s\n",
           FILE_BYTES >> 20, folder ? folder : "/tmp", bench.repetitions, "what", "rate", "CPU s",
           "copied", "engine");
    struct muster *m = open_runtime(&bench, "cpu", NULL);
    size_t order[SETTINGS];
    uint64_t state = 1;
    for (size_t s = 0; s < SETTINGS; s++)
        order[s] = s;
    for (int i = 0; i < bench.repetitions; i++) {
        shuffle(order, &state);
        for (size_t s = 0; s < SETTINGS; s++)
            measure(&bench, m, &settings[order[s]], &measured[order[s]]);
    }
    for (size_t s = 0; s < SETTINGS; s++)
        take_row(&bench, &settings[s], &measured[s]);
    muster_close(m, NULL);
    unlink(in_path);
    unlink(out_path);
    return bench_end(&bench);
}
