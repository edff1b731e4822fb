/*
 * Storms: random machines, jobs and faults, simulated with every invariant checked after every step.
 *
 *     sim_storm [--seed N] [--count N] [--shrink] [--file FILE] [--corpus DIR]
 *
 * Runs the scenarios in DIR first, which is where every one that ever failed is kept, then `count`
 * storms from seed N on. --file runs that one alone. --shrink makes the first that fails as small as
 * it can, and writes it into DIR. A file is called WHAT.N.json, where N is the simulation's seed.
 */
#include "storm.h"

#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A storm takes milliseconds. One that stands is caught by its seed, which was printed before. */
#define TIME_LIMIT_S 60

static struct options {
    uint64_t seed, count;
    bool shrinks;
    const char *file, *corpus;
} options = { .seed = 1, .count = 2000, .corpus = STORM_CORPUS };

static char doing[512];

static void write_shrunk(const struct storm *storm, const char *name)
{
    static char text[STORM_TEXT_MAX];
    char path[4096], room[STORM_VERDICT_MAX];
    struct storm small = *storm;
    storm_shrink(&small);
    size_t bytes = storm_print(&small, text);
    const char *what = storm_judge(&small, room);
    printf("shrunk: %s\n%s", what ? what : "and it passes now", text);
    snprintf(path, sizeof path, "%s/%s.%" PRIu64 ".json", options.corpus, name, small.seed);
    FILE *out = fopen(path, "w");
    if (!out || fwrite(text, 1, bytes, out) != bytes || fclose(out) != 0)
        perror(path);
    else
        printf("written to %s\n", path);
}

static bool passes(const struct storm *storm, const char *name)
{
    char room[STORM_VERDICT_MAX];
    snprintf(doing, sizeof doing, "%s does not end\n", name);
    alarm(TIME_LIMIT_S);
    const char *what = storm_judge(storm, room);
    alarm(0);
    if (what)
        printf("%s: %s\n", name, what);
    return !what;
}

/* WHAT.N.json */
static uint64_t seed_of(const char *path)
{
    const char *end = strstr(path, ".json");
    const char *dot = end;
    while (dot && dot > path && dot[-1] >= '0' && dot[-1] <= '9')
        dot--;
    return dot && dot < end ? strtoull(dot, NULL, 10) : options.seed;
}

static bool file_passes(const char *path, bool shrinks)
{
    static char text[STORM_TEXT_MAX];
    struct storm storm;
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    FILE *in = fopen(path, "r");
    if (!in) {
        perror(path);
        return false;
    }
    size_t bytes = fread(text, 1, sizeof text, in);
    fclose(in);
    if (!storm_read(&storm, text, bytes, seed_of(name)))
        return false;
    bool good = passes(&storm, name);
    if (!good && shrinks)
        write_shrunk(&storm, "shrunk");
    return good;
}

static bool corpus_passes(size_t *count)
{
    struct dirent **entries;
    bool good = true;
    int found = scandir(options.corpus, &entries, NULL, alphasort);
    for (int i = 0; i < found; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", options.corpus, entries[i]->d_name);
        if (strstr(entries[i]->d_name, ".json")) {
            good = file_passes(path, false) && good;
            ++*count;
        }
        free(entries[i]);
    }
    if (found >= 0)
        free(entries);
    else
        perror(options.corpus);
    return good && found >= 0;
}

static bool storms_pass(void)
{
    struct timespec begin, end;
    uint64_t failed = 0;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (uint64_t i = 0; i < options.count; i++) {
        struct storm storm;
        char name[64];
        snprintf(name, sizeof name, "seed-%" PRIu64, options.seed + i);
        storm_make(&storm, options.seed + i);
        if (passes(&storm, name))
            continue;
        failed++;
        if (options.shrinks) {
            write_shrunk(&storm, name);
            break;
        }
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    double seconds =
        (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
    printf("%" PRIu64 " storms from seed %" PRIu64 ", %.0f a second, %" PRIu64 " failed\n",
           options.count, options.seed, (double)options.count / seconds, failed);
    return failed == 0;
}

static bool read_options(int argc, char **argv)
{
    const char *seed = getenv("MUSTER_TEST_SEED");
    if (seed)
        options.seed = strtoull(seed, NULL, 10);
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--shrink") == 0) {
            options.shrinks = true;
            continue;
        }
        if (!value)
            return false;
        if (strcmp(argv[i], "--seed") == 0)
            options.seed = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--count") == 0)
            options.count = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--file") == 0)
            options.file = value;
        else if (strcmp(argv[i], "--corpus") == 0)
            options.corpus = value;
        else
            return false;
        i++;
    }
    return true;
}

static void on_alarm(int signal)
{
    (void)signal;
    ssize_t written = write(STDOUT_FILENO, doing, strlen(doing));
    _exit(written < 0 ? 2 : 1);
}

int main(int argc, char **argv)
{
    size_t kept = 0;
    if (!read_options(argc, argv)) {
        fprintf(stderr,
                "usage: %s [--seed N] [--count N] [--shrink] [--file FILE] [--corpus DIR]\n",
                argv[0]);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGALRM, on_alarm);
    if (options.file)
        return file_passes(options.file, options.shrinks) ? 0 : 1;
    bool good = corpus_passes(&kept);
    printf("%zu kept scenarios, %s\n", kept, good ? "none failed" : "some failed");
    return storms_pass() && good ? 0 : 1;
}
