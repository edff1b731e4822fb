#include "storm.h"

#include <inttypes.h>
#include <muster/simulate.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Virtual time is cheap: a storm that is not over by then never will be. */
#define SPANS_MAX 2000000u

/* One simulation, with every span that it told of. */
struct trial {
    muster_status status;
    struct muster_simulation *result; /* owned; NULL if it was not run */
    struct muster_trace_event *spans;
    size_t span_count, span_capacity;
    char broken[160]; /* an invariant that would have stopped the program */
};

static jmp_buf leave_trial;
static char *broken_room;

static void on_broken_invariant(const char *file, int line, const char *condition)
{
    snprintf(broken_room, sizeof((struct trial *)0)->broken, "broken invariant, %s:%d: %s", file,
             line, condition);
    longjmp(leave_trial, 1);
}

static void log_span(void *user, const struct muster_trace_event *span)
{
    struct trial *trial = user;
    if (span->kind != MUSTER_TRACE_UNIT)
        return;
    if (trial->span_count == trial->span_capacity) {
        trial->span_capacity = trial->span_capacity ? 2 * trial->span_capacity : 256;
        trial->spans = realloc(trial->spans, trial->span_capacity * sizeof *trial->spans);
        if (!trial->spans)
            abort();
    }
    trial->spans[trial->span_count++] = *span;
    if (trial->span_count > SPANS_MAX) {
        snprintf(trial->broken, sizeof trial->broken, "the job does not end");
        longjmp(leave_trial, 1);
    }
}

static void run_trial(struct trial *trial, const char *text, size_t bytes, uint64_t seed)
{
    struct muster_simulation_options options = {
        .size = sizeof options, .seed = seed, .event = log_span, .event_user = trial, .check = 1
    };
    *trial = (struct trial){ .status = MUSTER_E_INTERNAL };
    broken_room = trial->broken;
    muster_set_assert_hook(on_broken_invariant);
    if (setjmp(leave_trial) == 0)
        trial->status = muster_simulate(text, bytes, &options, &trial->result, NULL);
    muster_set_assert_hook(NULL);
}

static void end_trial(struct trial *trial)
{
    muster_simulation_destroy(trial->result);
    free(trial->spans);
}

/* Everything that the answer says, so that two can be compared byte by byte. */
static char *print_answer(const struct trial *trial, size_t *bytes)
{
    const struct muster_simulation *r = trial->result;
    char *text = NULL;
    FILE *out = open_memstream(&text, bytes);
    if (!out)
        abort();
    fprintf(out, "%d %" PRIu64 " %" PRIu64 " %" PRIu64 " %.17g %" PRIu64 " %" PRIu64 " %" PRIu64,
            r->status, r->seed, r->makespan_ns, r->bound_ns, r->ratio, r->units, r->items_delivered,
            r->lost);
    fprintf(out, " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", r->duplicated,
            r->out_of_order, r->retries, r->window_max);
    for (size_t i = 0; i < r->failed_count; i++)
        fprintf(out, "%" PRIu64 "-%" PRIu64 "\n", r->failed[i].begin, r->failed[i].end);
    for (size_t i = 0; i < r->device_count; i++) {
        const struct muster_simulation_device *d = r->devices[i];
        fprintf(out, "%s %s %s %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", d->id,
                d->name, d->refused ? d->refused : "-", d->health, d->items, d->units, d->retries,
                d->busy_ns);
    }
    for (size_t i = 0; i < trial->span_count; i++) {
        const struct muster_trace_event *s = &trial->spans[i];
        fprintf(out, "%u %" PRIu64 "-%" PRIu64 " %" PRIu64 "-%" PRIu64 " %d %d %d\n",
                (unsigned)s->device, s->range.begin, s->range.end, s->begin_ns, s->end_ns,
                (int)s->outcome, s->is_retry, s->is_copy);
    }
    fclose(out);
    return text;
}

/* What is wrong, with the numbers; kept in one place, so that every check is one line. */
struct finding {
    char *room;
    bool is_bad;
};

__attribute__((format(printf, 3, 4))) static void expect(struct finding *finding, bool holds,
                                                         const char *format, ...)
{
    if (holds || finding->is_bad)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(finding->room, STORM_VERDICT_MAX, format, arguments);
    va_end(arguments);
    finding->is_bad = true;
}

static bool is_any_eligible(const struct storm *storm)
{
    const char *why;
    for (size_t i = 0; i < storm->device_count; i++)
        if (scenario_eligible(&storm->job, &storm->devices[i], &why))
            return true;
    return false;
}

static int by_begin(const void *a, const void *b)
{
    const struct muster_range *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Units that were done lie beside each other, none twice, and cover everything if the job was done. */
static void judge_spans(const struct storm *storm, const struct trial *trial,
                        struct finding *finding)
{
    struct muster_range *done = calloc(trial->span_count + 1, sizeof *done);
    uint64_t last_ns = 0, covered = 0, credited = 0;
    size_t count = 0;
    if (!done)
        abort();
    for (size_t i = 0; i < trial->span_count; i++) {
        const struct muster_trace_event *span = &trial->spans[i];
        uint64_t items = span->range.end - span->range.begin;
        expect(finding, span->begin_ns <= span->end_ns && span->end_ns >= last_ns,
               "span %zu ends before it begins, or before the one before", i);
        expect(finding, storm->job.window == 0 || items <= storm->job.window,
               "a unit of %" PRIu64 " items in a window of %" PRIu64, items, storm->job.window);
        last_ns = span->end_ns;
        if (span->outcome == MUSTER_TRACE_DONE)
            done[count++] = span->range;
    }
    qsort(done, count, sizeof *done, by_begin);
    for (size_t i = 0; i < count; i++) {
        expect(finding, i == 0 || done[i].begin >= done[i - 1].end,
               "item %" PRIu64 " was accepted twice", done[i].begin);
        covered += done[i].end - done[i].begin;
    }
    for (size_t i = 0; i < trial->result->device_count; i++)
        credited += trial->result->devices[i]->items;
    expect(finding, covered == credited,
           "spans cover %" PRIu64 " items, devices are credited with %" PRIu64, covered, credited);
    expect(finding, trial->result->items_delivered <= covered, "more was delivered than was done");
    free(done);
}

/* Launches of the device that had begun before the end. */
static uint64_t launches_of(const struct trial *trial, size_t device)
{
    uint64_t count = 0;
    for (size_t i = 0; i < trial->span_count; i++)
        count += trial->spans[i].device == device &&
                 trial->spans[i].begin_ns < trial->result->makespan_ns;
    return count;
}

/* A device that has gone is known to have gone, not taken for one that hangs. */
static void judge_losses(const struct storm *storm, const struct trial *trial,
                         struct finding *finding)
{
    const struct muster_simulation *r = trial->result;
    for (size_t i = 0; i < r->device_count; i++) {
        bool is_gone = false;
        for (uint32_t k = 0; k < storm->devices[i].fault_count; k++) {
            const struct model_fault *fault = &storm->devices[i].faults[k];
            if (fault->kind != MODEL_FAULT_LOST)
                continue;
            /* With copies a launch begins some time after its unit has. */
            bool is_launched = fault->at_launch > 0 && storm->job.item_bytes_in == 0 &&
                               launches_of(trial, i) >= fault->at_launch;
            is_gone =
                is_gone || is_launched || (fault->at_launch == 0 && fault->at_ns < r->makespan_ns);
        }
        expect(finding,
               !is_gone || r->devices[i]->refused || strcmp(r->devices[i]->health, "lost") == 0,
               "%s has gone and is said to be %s", r->devices[i]->id, r->devices[i]->health);
    }
}

/* The bound if chance were as kind as jitter allows: no run can be below that. */
static uint64_t least_ns(const struct storm *storm)
{
    static char text[STORM_TEXT_MAX];
    struct storm kind = *storm;
    struct muster_simulation *result;
    uint64_t ns = 0;
    for (size_t i = 0; i < kind.device_count; i++) {
        kind.devices[i].items_per_s /= 1 - kind.devices[i].jitter;
        kind.devices[i].jitter = 0;
    }
    struct muster_simulation_options options = { .size = sizeof options, .seed = storm->seed };
    if (muster_simulate(text, storm_print(&kind, text), &options, &result, NULL) == MUSTER_OK) {
        ns = result->bound_ns;
        muster_simulation_destroy(result);
    }
    return ns;
}

static void judge_done(const struct storm *storm, const struct trial *trial,
                       struct finding *finding)
{
    const struct muster_simulation *r = trial->result;
    expect(finding, r->lost == 0 && r->items_delivered == storm->job.items,
           "%" PRIu64 " items of a job that is done are lost", r->lost);
    expect(finding, r->failed_count == 0, "a job that is done has failed ranges");
    /* Each unit's time is rounded to the nanosecond. */
    if (r->makespan_ns + r->units < r->bound_ns) {
        uint64_t least = least_ns(storm);
        expect(finding, r->makespan_ns + r->units >= least,
               "done in %" PRIu64 " ns, when not even luck makes it less than %" PRIu64,
               r->makespan_ns, least);
    }
}

/* How often a unit with the item in it came to this end; parts of a unit share its past. */
static uint64_t times(const struct trial *trial, uint64_t item, int outcome)
{
    uint64_t count = 0;
    for (size_t i = 0; i < trial->span_count; i++) {
        const struct muster_trace_event *span = &trial->spans[i];
        count +=
            span->range.begin <= item && item < span->range.end && (int)span->outcome == outcome;
    }
    return count;
}

static bool has_reason(const struct storm *storm, const struct trial *trial)
{
    const struct muster_simulation *r = trial->result;
    bool none_left = true;
    for (size_t i = 0; i < r->device_count; i++)
        none_left =
            none_left && (r->devices[i]->refused || strcmp(r->devices[i]->health, "ok") != 0);
    if (none_left)
        return true;
    for (size_t i = 0; i < trial->span_count; i++) {
        uint64_t begin = trial->spans[i].range.begin;
        bool is_named = false;
        for (size_t k = 0; k < r->failed_count; k++)
            is_named = is_named || (begin >= r->failed[k].begin && begin < r->failed[k].end);
        if (is_named && (times(trial, begin, MUSTER_TRACE_FAILED) >= storm->job.tries ||
                         times(trial, begin, MUSTER_TRACE_LOST) >= 2))
            return true;
    }
    return false;
}

static void judge_failed(const struct storm *storm, const struct trial *trial,
                         struct finding *finding)
{
    const struct muster_simulation *r = trial->result;
    uint64_t failed = 0;
    expect(finding, r->failed_count > 0, "the job failed without failed ranges");
    for (size_t i = 0; i < r->failed_count; i++) {
        expect(finding,
               r->failed[i].begin < r->failed[i].end && r->failed[i].end <= storm->job.items,
               "failed range %zu is empty or beyond the end", i);
        expect(finding, i == 0 || r->failed[i].begin > r->failed[i - 1].end,
               "failed ranges %zu and %zu are not apart", i - 1, i);
        failed += r->failed[i].end - r->failed[i].begin;
    }
    if (finding->is_bad)
        return;
    if (storm->job.ordered)
        expect(finding, r->items_delivered <= r->failed[0].begin,
               "item %" PRIu64 " failed, and %" PRIu64 " were delivered in order",
               r->failed[0].begin, r->items_delivered);
    else if (r->failed_count < MUSTER_SIMULATION_FAILED_MAX)
        expect(finding, r->items_delivered + failed <= storm->job.items,
               "items both failed and were delivered");
    expect(finding, has_reason(storm, trial),
           "the job failed with a device left and no unit out of tries");
}

static bool has_faults(const struct storm *storm)
{
    for (size_t i = 0; i < storm->device_count; i++)
        if (storm->devices[i].fault_count > 0)
            return true;
    return false;
}

static void judge_answer(const struct storm *storm, const struct trial *trial,
                         struct finding *finding)
{
    const struct muster_simulation *r = trial->result;
    expect(finding, r->broken == NULL, "%s", r->broken);
    expect(finding, r->duplicated == 0 && r->out_of_order == 0,
           "%" PRIu64 " duplicated, %" PRIu64 " out of order", r->duplicated, r->out_of_order);
    expect(finding, storm->job.window == 0 || r->window_max <= storm->job.window,
           "%" PRIu64 " items in a window of %" PRIu64, r->window_max, storm->job.window);
    for (size_t i = 0; i < r->device_count; i++)
        expect(finding, r->devices[i]->busy_ns <= r->makespan_ns,
               "%s was busy for longer than the job took", r->devices[i]->id);
    judge_spans(storm, trial, finding);
    judge_losses(storm, trial, finding);
    expect(finding, r->status == MUSTER_OK || has_faults(storm), "a job failed in fair weather");
    if (r->status == MUSTER_OK)
        judge_done(storm, trial, finding);
    else
        judge_failed(storm, trial, finding);
}

static void judge_repeat(const struct trial *first, const struct trial *second,
                         struct finding *finding)
{
    size_t bytes[2];
    char *texts[2] = { print_answer(first, &bytes[0]), print_answer(second, &bytes[1]) };
    expect(finding, bytes[0] == bytes[1] && memcmp(texts[0], texts[1], bytes[0]) == 0,
           "the same text and seed gave two answers");
    free(texts[0]);
    free(texts[1]);
}

const char *storm_judge(const struct storm *storm, char room[STORM_VERDICT_MAX])
{
    static char text[STORM_TEXT_MAX];
    struct finding finding = { .room = room };
    struct trial trials[2];
    size_t bytes = storm_print(storm, text);
    for (int i = 0; i < 2; i++)
        run_trial(&trials[i], text, bytes, storm->seed);
    expect(&finding, !trials[0].broken[0], "%s", trials[0].broken);
    if (trials[0].status == MUSTER_E_NO_DEVICE)
        expect(&finding, !is_any_eligible(storm), "every device was refused, not all by the hints");
    else
        expect(&finding, trials[0].status == MUSTER_OK, "not run: %s",
               muster_status_name(trials[0].status));
    expect(&finding, trials[0].status == trials[1].status, "it was run once and refused once");
    if (!finding.is_bad && trials[0].status == MUSTER_OK) {
        judge_answer(storm, &trials[0], &finding);
        judge_repeat(&trials[0], &trials[1], &finding);
    }
    for (int i = 0; i < 2; i++)
        end_trial(&trials[i]);
    return finding.is_bad ? room : NULL;
}
