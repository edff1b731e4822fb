/*
 * Random graphs on random devices: what dispatch.h decides is carried out in random orders, on real
 * bytes. Every task ends once, and the bytes are those of the serial run.
 *
 *     sim_flow_storm [--seed N] [--count N] [--explore N] [--quick]
 *
 * --explore N: of N small graphs every order in which things can happen, up to a limit each.
 * --quick: invariants are checked at the end only.
 */
#include "flow_world.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t pick_random(void *user, uint32_t count)
{
    return (uint32_t)random_below(user, count);
}

static int fail(uint64_t seed, const char *what)
{
    printf("seed %" PRIu64 ": %s\n", seed, what);
    return 1;
}

static int storm(uint64_t seed, bool quick)
{
    static struct world_plan plan;
    static struct world_outcome serial, outcome;
    struct world_rules rules = { .many_parts = seed & 1,
                                 .failures = seed % 5 == 0,
                                 .losses = seed % 3 == 0,
                                 .refusals = seed % 7 == 0,
                                 .overlaps = true,
                                 .tasks_most = seed & 2 ? 60 : 20,
                                 .devices_most = WORLD_DEVICES_MAX };
    struct random random;
    world_make(&plan, seed, &rules);
    const char *wrong = world_run_serially(&plan, &serial);
    if (wrong)
        return fail(seed, wrong);
    random_init(&random, seed ^ 0x5eed);
    wrong = world_run(&plan, pick_random, &random, !quick, &outcome);
    if (!wrong)
        wrong = world_compare(&plan, &serial, &outcome);
    return wrong ? fail(seed, wrong) : 0;
}

/* The choices of one run, so that the next run takes the last one that can be taken differently. */
#define CHOICES_MAX 4096u
static struct {
    uint32_t picked[CHOICES_MAX], count[CHOICES_MAX];
    uint32_t length, at;
} path;

static uint32_t pick_next(void *user, uint32_t count)
{
    (void)user;
    if (path.at >= CHOICES_MAX)
        return 0;
    if (path.at == path.length) {
        path.picked[path.length] = 0;
        path.count[path.length++] = count;
    }
    return path.picked[path.at++];
}

static bool next_path(void)
{
    while (path.length > 0 && path.picked[path.length - 1] + 1 >= path.count[path.length - 1])
        path.length--;
    if (path.length == 0)
        return false;
    path.picked[path.length - 1]++;
    return true;
}

static int explore(uint64_t seed, uint64_t limit, uint64_t *runs)
{
    static struct world_plan plan;
    static struct world_outcome serial, outcome;
    struct world_rules rules = { .overlaps = true,
                                 .failures = seed % 4 == 0,
                                 .losses = seed % 5 == 0,
                                 .tasks_most = 4,
                                 .devices_most = 2 };
    world_make(&plan, seed, &rules);
    const char *wrong = world_run_serially(&plan, &serial);
    path.length = 0;
    for (uint64_t i = 0; !wrong && i < limit; i++) {
        path.at = 0;
        wrong = world_run(&plan, pick_next, NULL, false, &outcome);
        if (!wrong)
            wrong = world_compare(&plan, &serial, &outcome);
        ++*runs;
        if (!next_path())
            break;
    }
    return wrong ? fail(seed, wrong) : 0;
}

int main(int argc, char **argv)
{
    uint64_t seed = 1, count = 1000, explored = 0, runs = 0;
    bool quick = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            quick = true;
        else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[++i], NULL, 10);
        else if (i + 1 < argc && strcmp(argv[i], "--count") == 0)
            count = strtoull(argv[++i], NULL, 10);
        else if (i + 1 < argc && strcmp(argv[i], "--explore") == 0)
            explored = strtoull(argv[++i], NULL, 10);
        else
            return 2;
    }
    for (uint64_t i = 0; i < count; i++)
        if (storm(seed + i, quick))
            return 1;
    for (uint64_t i = 0; i < explored; i++)
        if (explore(seed + i, 3000, &runs))
            return 1;
    printf("%" PRIu64 " graphs from seed %" PRIu64 ", %" PRIu64 " orders of %" PRIu64
           " small ones: ok\n",
           count, seed, runs, explored);
    return 0;
}
