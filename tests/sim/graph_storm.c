/*
 * Scenarios with graphs: random ones of every kind, on 1 to 8 devices with small memories and faults.
 * Every task ends once, the bytes are those of the serial run, and the same seed gives the same answer.
 *
 *     sim_graph_storm [--seed N] [--count N] [--quick]
 *
 * --quick: invariants are not checked after every step.
 */
#include "base/random.h"

#include <inttypes.h>
#include <muster/simulate.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char text[8192];
static size_t used;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    used += (size_t)vsnprintf(text + used, sizeof text - used, format, list);
    va_end(list);
}

static void make_faults(struct random *random)
{
    if (random_below(random, 4) > 0)
        return;
    say(",\"faults\":[");
    uint32_t at = (uint32_t)random_below(random, 100) + 1;
    switch (random_below(random, 7)) {
    case 0:
        say("{\"kind\":\"lost\",\"at_ms\":%u}", at);
        break;
    case 1:
        say("{\"kind\":\"slow\",\"at_ms\":%u,\"factor\":0.2}", at);
        break;
    case 2:
        say("{\"kind\":\"hang\",\"at_ms\":%u,\"for_ms\":30}", at);
        break;
    case 3:
        say("{\"kind\":\"hang\",\"at_ms\":%u}", at);
        break;
    case 4:
        say("{\"kind\":\"lost\",\"at_launch\":%u}", at);
        break;
    case 5:
        say("{\"kind\":\"hang\",\"at_launch\":%u,\"for_ms\":3}", at);
        break;
    default:
        say("{\"kind\":\"unit_error\",\"at_launch\":%u}", at);
        break;
    }
    say("]");
}

/* The least memory holds what a join uses: 12 tiles and one. */
static void make_scenario(struct random *random)
{
    static const char *const policies[] = { "earliest-finish", "eager", "round-robin" };
    uint32_t devices = 1 + (uint32_t)random_below(random, 8);
    used = 0;
    say("{\"devices\":[");
    for (uint32_t i = 0; i < devices; i++) {
        say("%s{\"items_per_s\":%u,\"launch_ns\":%u,\"memory\":%u,\"jitter\":0.%u",
            i > 0 ? "," : "", 1000 + (uint32_t)random_below(random, 9000),
            (uint32_t)random_below(random, 9000), 13000 + (uint32_t)random_below(random, 30000),
            (uint32_t)random_below(random, 4));
        if (random_below(random, 4) > 0)
            say(",\"h2d_bytes_per_s\":%u,\"d2h_bytes_per_s\":%u",
                1000000 + (uint32_t)random_below(random, 100000000),
                1000000 + (uint32_t)random_below(random, 100000000));
        make_faults(random);
        say("}");
    }
    say("],\"graph\":{\"tile_bytes\":1000,\"policy\":\"%s\",\"priorities\":%s,\"ahead\":%u,",
        policies[random_below(random, 3)], random_below(random, 2) ? "true" : "false",
        1 + (uint32_t)random_below(random, 4));
    uint32_t tiles = 1 + (uint32_t)random_below(random, 12);
    uint32_t steps = 1 + (uint32_t)random_below(random, 12);
    switch (random_below(random, 5)) {
    case 0:
        say("\"kind\":\"cholesky\",\"tiles\":%u}}", tiles);
        return;
    case 1:
        say("\"kind\":\"lu\",\"tiles\":%u}}", tiles);
        return;
    case 2:
        say("\"kind\":\"stencil\",\"tiles\":%u,\"steps\":%u}}", tiles, steps);
        return;
    case 3:
        say("\"kind\":\"fork_join\",\"tiles\":%u,\"steps\":%u}}", tiles, steps);
        return;
    default:
        say("\"kind\":\"random\",\"tiles\":%u,\"tasks\":%u}}", 5 * tiles, 10 * steps * steps);
        return;
    }
}

static const char *judge(const struct muster_graph_simulation *simulation)
{
    bool has_faults = strstr(text, "faults") != NULL;
    if (simulation->broken)
        return simulation->broken;
    if (simulation->wrong > 0)
        return "a tile has the wrong content";
    if (simulation->ended + simulation->failed + simulation->cancelled != simulation->tasks)
        return "not every task has ended once";
    if (!has_faults && simulation->ended != simulation->tasks)
        return "a task failed without a fault";
    if (simulation->ended == simulation->tasks && simulation->makespan_ns < simulation->bound_ns)
        return "it took less than the bound";
    return NULL;
}

static const char *run_one(uint64_t seed, bool quick)
{
    struct random random;
    struct muster_graph_simulation *first = NULL, *second = NULL;
    static struct muster_error error;
    struct muster_simulation_options options = { .size = sizeof options,
                                                 .seed = seed,
                                                 .check = !quick };
    random_init(&random, seed);
    make_scenario(&random);
    if (muster_simulate_graph(text, used, &options, &first, &error) != MUSTER_OK)
        return error.text;
    const char *wrong = judge(first);
    if (!wrong && seed % 10 == 0) {
        if (muster_simulate_graph(text, used, &options, &second, &error) != MUSTER_OK)
            wrong = error.text;
        else if (first->makespan_ns != second->makespan_ns || first->copies != second->copies ||
                 first->moved != second->moved || first->evictions != second->evictions)
            wrong = "the same seed gives another answer";
    }
    muster_graph_simulation_destroy(first);
    muster_graph_simulation_destroy(second);
    return wrong;
}

int main(int argc, char **argv)
{
    uint64_t seed = 1, count = 1000;
    bool quick = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            quick = true;
        else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[++i], NULL, 10);
        else if (i + 1 < argc && strcmp(argv[i], "--count") == 0)
            count = strtoull(argv[++i], NULL, 10);
        else
            return 2;
    }
    for (uint64_t i = 0; i < count; i++) {
        const char *wrong = run_one(seed + i, quick);
        if (wrong) {
            printf("seed %" PRIu64 ": %s\n%s\n", seed + i, wrong, text);
            return 1;
        }
    }
    printf("%" PRIu64 " graphs from seed %" PRIu64 ": ok\n", count, seed);
    return 0;
}
