/*
 * What the benches of jobs have in common: a clock, samples and their spread, the lines that say
 * what was measured where, and the same for programs, as JSON.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <muster/muster.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define REPORT_DEVICES_MAX 128

/* A report that says in `devices`, of REPORT_DEVICES_MAX, what each device has done. */
static inline struct muster_report full_report(struct muster_job_device *devices)
{
    for (size_t i = 0; i < REPORT_DEVICES_MAX; i++)
        devices[i] = (struct muster_job_device){ .size = sizeof *devices };
    return (struct muster_report){ .size = sizeof(struct muster_report),
                                   .devices = devices,
                                   .device_capacity = REPORT_DEVICES_MAX };
}

#ifndef MUSTER_COMMIT
#define MUSTER_COMMIT "unknown"
#endif

#define REPETITIONS_MIN 3 /* below that there is no spread to speak of */
#define REPETITIONS_MAX 101

struct bench {
    const char *name;
    int repetitions;
    FILE *json; /* NULL: none */
    bool has_row, has_key;
};

struct sample {
    double median, least, greatest;
};

static inline uint64_t clock_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

_Noreturn static inline void stop(const struct bench *bench, const char *why)
{
    fprintf(stderr, "%s: %s\n", bench->name, why);
    exit(1);
}

static inline int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the values. */
static inline struct sample summarise(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare_doubles);
    return (struct sample){ (values[(count - 1) / 2] + values[count / 2]) / 2, values[0],
                            values[count - 1] };
}

static inline const char *verdict(bool is_met)
{
    return is_met ? "met" : "MISSED";
}

/* Prints where this runs, and begins the file, if one is wanted. */
static inline void bench_open(struct bench *bench, const char *json)
{
    struct utsname system;
    uname(&system);
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    printf("host %s, %ld cores, %s %s, commit %s, muster %s\n", system.nodename, cores,
           system.sysname, system.release, MUSTER_COMMIT, muster_version());
    fflush(stdout);
    if (!json)
        return;
    bench->json = fopen(json, "w");
    if (!bench->json) {
        perror(json);
        exit(1);
    }
    fprintf(bench->json,
            "{\"bench\":\"%s\",\"host\":\"%s\",\"kernel\":\"%s\",\"cores\":%ld,\"commit\":\"%s\","
            "\"version\":\"%s\",\"repetitions\":%d,\"rows\":[",
            bench->name, system.nodename, system.release, cores, MUSTER_COMMIT, muster_version(),
            bench->repetitions);
}

/* Reads the options that every bench has, and begins. */
static inline void bench_begin(struct bench *bench, const char *name, int repetitions, int argc,
                               char **argv)
{
    const char *json = NULL;
    *bench = (struct bench){ .name = name, .repetitions = repetitions };
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--repetitions") == 0)
            bench->repetitions = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--json") == 0)
            json = argv[i + 1];
        else
            bench->repetitions = 0;
    }
    if (argc % 2 == 0 || bench->repetitions < REPETITIONS_MIN ||
        bench->repetitions > REPETITIONS_MAX) {
        fprintf(stderr, "usage: %s [--repetitions %d-%d] [--json FILE]\n", name, REPETITIONS_MIN,
                REPETITIONS_MAX);
        exit(2);
    }
    bench_open(bench, json);
}

/* Rows of the file; without one they do nothing. */

static inline void row_key(struct bench *bench, const char *key)
{
    fprintf(bench->json, "%s\"%s\":", bench->has_key ? "," : "", key);
    bench->has_key = true;
}

static inline void row_text(struct bench *bench, const char *key, const char *text)
{
    if (!bench->json)
        return;
    row_key(bench, key);
    fprintf(bench->json, "\"%s\"", text);
}

static inline void row_begin(struct bench *bench, const char *what)
{
    if (!bench->json)
        return;
    fprintf(bench->json, "%s{", bench->has_row ? "," : "");
    bench->has_row = true;
    bench->has_key = false;
    row_text(bench, "what", what);
}

static inline void row_number(struct bench *bench, const char *key, double value)
{
    if (!bench->json)
        return;
    row_key(bench, key);
    fprintf(bench->json, "%.9g", value);
}

static inline void row_numbers(struct bench *bench, const char *key, const double *values,
                               size_t count)
{
    if (!bench->json)
        return;
    row_key(bench, key);
    for (size_t i = 0; i < count; i++)
        fprintf(bench->json, "%s%.9g", i > 0 ? "," : "[", values[i]);
    fputs(count > 0 ? "]" : "[]", bench->json);
}

static inline void row_sample(struct bench *bench, const char *key, struct sample sample)
{
    if (!bench->json)
        return;
    row_key(bench, key);
    fprintf(bench->json, "{\"median\":%.9g,\"least\":%.9g,\"greatest\":%.9g}", sample.median,
            sample.least, sample.greatest);
}

static inline void row_end(struct bench *bench)
{
    fflush(stdout);
    if (bench->json)
        fputc('}', bench->json);
}

/* The exit status: whether all was measured and kept. */
static inline int bench_end(struct bench *bench)
{
    if (!bench->json)
        return 0;
    fputs("]}\n", bench->json);
    bool has_failed = ferror(bench->json) != 0;
    return fclose(bench->json) != 0 || has_failed;
}

#endif
