/*
 * Storms over many machines: random machines, links, jobs and faults of every kind, simulated with every
 * invariant checked after every event. Whatever happens, each grain is delivered once and in order, the
 * window is kept, and a job fails only of what nobody can run, which it names.
 *
 *     sim_machines [--seed N] [--count N] [--print]
 *
 * Runs `count` storms from seed N on; --print writes the scenario of seed N instead.
 */
#include "base/random.h"
#include "base/text.h"

#include <inttypes.h>
#include <muster/simulate.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TEXT_MAX (1u << 16)
#define JOBS_MAX 2
/* A storm takes milliseconds. One that stands is caught by its seed, which was printed before. */
#define TIME_LIMIT_S 60

struct job {
    uint64_t items, grain, window, poison; /* poison: an item, or UINT64_MAX */
};

static struct storm {
    struct random random;
    struct text_room text;
    uint64_t seconds;
    double rate;
    struct job jobs[JOBS_MAX];
    uint32_t job_count, machines;
    bool loses_messages, loses_results, has_stalls, dies, has_twins, has_partitions, has_losses;
} w;
static char text[TEXT_MAX];

static uint64_t below(uint64_t bound)
{
    return random_below(&w.random, bound);
}

static bool one_in(uint64_t n)
{
    return below(n) == 0;
}

/* A moment in the storm, in milliseconds. */
static uint64_t moment(void)
{
    return 1 + below(w.seconds * 1000);
}

/* Making. */

static void make_link(void)
{
    text_put(&w.text, ", \"link\": {\"latency_us\": %" PRIu64, below(4) * below(5000));
    if (one_in(2))
        text_put(&w.text, ", \"bytes_per_s\": %" PRIu64, 1000000 + below(1000000000));
    if (w.loses_messages)
        text_put(&w.text, ", \"loses\": 0.%02" PRIu64 ", \"delays\": 0.%02" PRIu64, below(20),
                 below(20));
    text_put(&w.text, "}");
}

static void make_fault(bool is_first)
{
    text_put(&w.text, "%s", is_first ? "" : ", ");
    switch (below(4)) {
    case 0:
        text_put(&w.text,
                 "{\"kind\": \"partition\", \"at_ms\": %" PRIu64 ", \"for_ms\": %" PRIu64 "}",
                 moment(), 1 + below(one_in(2) ? 2000 : 9000));
        break;
    case 1:
        text_put(&w.text, "{\"kind\": \"lost\", \"at_ms\": %" PRIu64 ", \"for_ms\": %" PRIu64 "}",
                 moment(), 1 + below(6000));
        break;
    case 2:
        text_put(&w.text, "{\"kind\": \"joins\", \"at_ms\": %" PRIu64 "}", moment());
        break;
    default:
        text_put(&w.text, "{\"kind\": \"%s\", \"at_ms\": %" PRIu64 "}",
                 one_in(2) ? "leaves" : "lost", moment());
        break;
    }
}

static void make_machine(bool is_first)
{
    uint64_t count = 1 + below(3), devices = 1 + below(3), rate = 1000 + below(100) * below(1000);
    text_put(&w.text,
             "%s{\"name\": \"m\", \"count\": %" PRIu64 ", \"devices\": [{\"count\": %" PRIu64
             ", \"items_per_s\": %" PRIu64 ", \"launch_ns\": %" PRIu64 ", \"jitter\": 0.%" PRIu64
             "}]",
             is_first ? "" : ",\n ", count, devices, rate, below(100000), below(3));
    make_link();
    /* The first machines stay, so that there is always somebody. */
    uint64_t faults = is_first ? 0 : below(4);
    if (faults > 0)
        text_put(&w.text, ", \"faults\": [");
    for (uint64_t i = 0; i < faults; i++)
        make_fault(i == 0);
    text_put(&w.text, "%s}", faults > 0 ? "]" : "");
    w.rate += (double)(count * devices * rate);
    w.machines += (uint32_t)count;
}

static void make_job(struct job *job, bool is_poisoned)
{
    static const char *const kinds[] = { "fails", "fails-unnamed", "kills" };
    job->items = 1 + (uint64_t)(w.rate * (double)w.seconds / 2 / w.job_count);
    uint64_t grains = 1 + below(one_in(3) ? 50 : 2000);
    job->grain = job->items / grains + 1;
    job->window = one_in(2) ? 0 : job->grain * (1 + below(200));
    job->poison = UINT64_MAX;
    text_put(&w.text,
             "{\"items\": %" PRIu64 ", \"grain\": %" PRIu64 ", \"window\": %" PRIu64
             ", \"item_bytes_in\": %" PRIu64 ", \"item_bytes_out\": %" PRIu64
             ", \"weight\": %" PRIu64 ", \"tries\": %" PRIu64 ", \"cost\": {\"kind\": \"%s\"}",
             job->items, job->grain, job->window, below(2) * below(100), below(2) * below(100),
             1 + below(5), 6 + below(4), one_in(2) ? "uniform" : "ramp");
    if (is_poisoned) { /* What kills a machine takes the other job's grains with it, and nobody can tell which it was. */
        uint64_t kind = below(w.job_count == 1 ? 3 : 2);
        job->poison = below(job->items);
        text_put(&w.text, ", \"poison\": [{\"item\": %" PRIu64 ", \"kind\": \"%s\"}]", job->poison,
                 kinds[kind]);
    }
    text_put(&w.text, "}");
}

static void make_times(const char *key, uint64_t count)
{
    text_put(&w.text, "\"%s\": [", key);
    for (uint64_t i = 0; i < count; i++)
        text_put(&w.text, "%s%" PRIu64, i > 0 ? ", " : "", moment());
    text_put(&w.text, "]");
}

static void make_engine(void)
{
    text_put(&w.text, ",\n\"engine\": {\"loses_result\": %s, \"stalls\": [",
             w.loses_results ? one_in(2) ? "0.01" : "0.0001" : "0");
    for (uint64_t i = 0, count = w.has_stalls ? 1 + below(3) : 0; i < count; i++)
        text_put(&w.text, "%s{\"at_ms\": %" PRIu64 ", \"for_ms\": %" PRIu64 "}", i > 0 ? ", " : "",
                 moment(), one_in(2) ? 4000 + below(5000) : 1 + below(1000));
    text_put(&w.text, "]}");
}

static void make(uint64_t seed)
{
    memset(&w, 0, sizeof w);
    w.text = (struct text_room){ text, sizeof text, 0 };
    random_init(&w.random, seed);
    w.seconds = 2 + below(20);
    w.job_count = one_in(4) ? 2 : 1;
    w.loses_messages = one_in(2);
    w.loses_results = one_in(4);
    w.has_stalls = one_in(3);
    w.dies = one_in(3);
    w.has_twins = one_in(5);
    bool is_poisoned = one_in(6);
    text_put(&w.text, "{\"machines\": [");
    for (uint64_t i = 0, count = 1 + below(6); i < count; i++)
        make_machine(i == 0);
    text_put(&w.text, "],\n\"jobs\": [");
    for (uint32_t i = 0; i < w.job_count; i++) {
        text_put(&w.text, "%s", i > 0 ? ",\n " : "");
        make_job(&w.jobs[i], is_poisoned && i == 0);
    }
    text_put(&w.text, "]");
    make_engine();
    text_put(&w.text, ",\n\"submitter\": {\"back_after_ms\": %" PRIu64 ", ", 1 + below(3000));
    make_times("dies_at_ms", w.dies ? 1 + below(3) : 0);
    text_put(&w.text, ", ");
    make_times("twins_at_ms", w.has_twins ? 1 + below(2) : 0);
    text_put(&w.text, "}}\n");
}

/* Judging. */

static uint64_t adopted, missing, lost, resumed, poisoned;

static const char *judge_job(const struct muster_simulation *simulation, uint32_t index)
{
    const struct job *job = &w.jobs[index];
    const struct muster_simulation_job *got = simulation->jobs[index];
    bool is_poisoned = job->poison != UINT64_MAX;
    if (!is_poisoned)
        return got->status == MUSTER_OK && got->items_delivered == job->items
                   ? NULL
                   : "a job failed that nothing kept from ending";
    if (got->status == MUSTER_OK)
        return "a job ended well that nobody could run";
    uint64_t grain = job->poison / job->grain, end = (grain + 1) * job->grain;
    poisoned++;
    struct muster_range range = simulation->failed[0];
    if (range.begin != grain * job->grain || range.end != (end < job->items ? end : job->items))
        return "the grain that failed is not the one that is named";
    return got->items_delivered <= range.begin ? NULL : "what failed was delivered";
}

static uint64_t window_of_all(void)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < w.job_count; i++) {
        uint64_t window = w.jobs[i].window > 0 ? w.jobs[i].window : w.jobs[i].items;
        window += w.jobs[i].grain;
        most = window > most ? window : most;
    }
    return most;
}

static const char *judge(const struct muster_simulation *simulation)
{
    if (simulation->broken)
        return simulation->broken;
    if (simulation->out_of_order > 0)
        return "something was delivered out of order";
    if (simulation->duplicated > 0)
        return "something was delivered twice";
    if (simulation->window_max > window_of_all())
        return "the window is exceeded";
    for (uint32_t i = 0; i < w.job_count; i++) {
        const char *wrong = judge_job(simulation, i);
        if (wrong)
            return wrong;
    }
    return NULL;
}

static bool is_same(const struct muster_simulation *a, const struct muster_simulation *b)
{
    return a->makespan_ns == b->makespan_ns && a->units == b->units && a->claims == b->claims &&
           a->retries == b->retries && a->window_max == b->window_max;
}

/* Runs it, and now and then once more. */
static const char *run(uint64_t seed)
{
    struct muster_simulation_options options = { .size = sizeof options, .seed = seed, .check = 1 };
    struct muster_simulation *simulation = NULL, *again = NULL;
    struct muster_error err = { .size = sizeof err };
    static char what[256];
    make(seed);
    if (w.text.length >= sizeof text)
        return "the scenario is too long";
    if (muster_simulate(text, w.text.length, &options, &simulation, &err) != MUSTER_OK) {
        snprintf(what, sizeof what, "%s", err.text);
        return what;
    }
    const char *wrong = judge(simulation);
    adopted += simulation->adopted;
    missing += simulation->missing;
    lost += simulation->workers_lost;
    resumed += simulation->resumes;
    options.check = 0;
    if (!wrong && seed % 8 == 0 &&
        muster_simulate(text, w.text.length, &options, &again, &err) == MUSTER_OK &&
        !is_same(simulation, again))
        wrong = "the same seed gives another answer";
    muster_simulation_destroy(again);
    muster_simulation_destroy(simulation);
    return wrong;
}

static char doing[64];

static void on_alarm(int signal_number)
{
    (void)signal_number;
    if (write(STDOUT_FILENO, doing, strlen(doing)) < 0)
        _exit(3);
    _exit(2);
}

int main(int argc, char **argv)
{
    uint64_t seed = 1, count = 500, wrongs = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--count") == 0 && i + 1 < argc)
            count = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--print") == 0) {
            make(seed);
            fputs(text, stdout);
            return 0;
        } else
            return 2;
    }
    signal(SIGALRM, on_alarm);
    for (uint64_t i = 0; i < count && wrongs < 10; i++) {
        snprintf(doing, sizeof doing, "seed %" PRIu64 " does not end\n", seed + i);
        alarm(TIME_LIMIT_S);
        const char *wrong = run(seed + i);
        alarm(0);
        if (wrong)
            printf("seed %" PRIu64 ": %s\n", seed + i, wrong);
        wrongs += wrong != NULL;
    }
    printf("%" PRIu64 " storms, %" PRIu64 " wrong; %" PRIu64 " poisoned, %" PRIu64
           " runs adopted, %" PRIu64 " grains missing, %" PRIu64 " workers lost, %" PRIu64
           " submitters resumed\n",
           count, wrongs, poisoned, adopted, missing, lost, resumed);
    bool has_all = poisoned > 0 && adopted > 0 && missing > 0 && lost > 0 && resumed > 0;
    return wrongs > 0 || (count >= 100 && !has_all);
}
