#include "base/invariant.h"
#include "core/job_state.h"

#include <string.h>

static size_t aligned(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* Whether units can be cut so that they end where this ends. */
static bool is_of_grains(const struct job_options *options, uint64_t items)
{
    return options->grain <= 1 || items % options->grain == 0 || items >= options->items;
}

/* What jobs on many machines ask for, if this is one. */
static bool can_have_parts(const struct job_options *options)
{
    bool is_one = options->narrows || options->stored || options->begin > 0;
    return !is_one ||
           (options->unit == JOB_UNIT_ADAPTIVE && options->grain <= 1 && !options->supplied &&
            !options->place && options->output == JOB_OUTPUT_SLOTS && options->window > 0 &&
            options->window <= options->units_max && options->begin <= options->items &&
            (!options->stored || options->stored->count >= options->items));
}

size_t job_bytes(const struct job_options *options)
{
    uint64_t attempts = (uint64_t)options->lane_count * options->depth;
    if (options->lane_count == 0 || options->depth == 0 || options->tries == 0 ||
        options->units_max < attempts || attempts > UINT32_MAX / 2 ||
        options->units_max > UINT32_MAX / 2 ||
        (options->output != JOB_OUTPUT_SLOTS && options->tolerant) ||
        (options->output == JOB_OUTPUT_CUTS && options->units_max <= 2 * attempts) ||
        (options->unit == JOB_UNIT_FIXED &&
         (options->unit_items == 0 || !is_of_grains(options, options->unit_items))) ||
        !is_of_grains(options, options->unit_max) || !is_of_grains(options, options->window) ||
        !can_have_parts(options))
        return 0;
    return aligned(sizeof(struct job)) + aligned(options->units_max * sizeof(struct unit)) +
           aligned((size_t)attempts * sizeof(struct attempt)) +
           aligned(options->lane_count * sizeof(struct lane)) +
           aligned(options->lane_count * sizeof(struct domain)) + job_part_bytes(options);
}

struct job *job_init(void *memory, const struct job_options *options, uint64_t now_ns)
{
    char *at = memory;
    size_t attempts = (size_t)options->lane_count * options->depth;
    memset(memory, 0, job_bytes(options));
    struct job *job = (struct job *)at;
    job->units = (struct unit *)(at += aligned(sizeof *job));
    job->attempts = (struct attempt *)(at += aligned(options->units_max * sizeof(struct unit)));
    job->lanes = (struct lane *)(at += aligned(attempts * sizeof(struct attempt)));
    job->domains = (struct domain *)(at += aligned(options->lane_count * sizeof(struct lane)));
    at += aligned(options->lane_count * sizeof(struct domain));
    job->options = *options;
    job->oldest = job->newest = job->retry_first = JOB_NONE;
    job->done_first = job->done_last = job->draining = job->fastest = JOB_NONE;
    job->ask_first = job->ask_last = job->call_first = job->call_last = JOB_NONE;
    job->look_ns = job->look_told_ns = UINT64_MAX;
    job->changes = 1;
    job->start_ns = now_ns;
    job->begun_ns = OPENING_NEVER;
    job->usable = options->lane_count;
    job->free_count = options->units_max;
    job->next_claim = job->delivered_items = options->begin;
    job->stored_next = options->items;
    job->state = options->items == options->begin ? JOB_DONE : JOB_RUNNING;
    job->supply = options->supplied ? 0 : options->items;
    for (uint32_t i = 0; i < options->units_max; i++)
        job->units[i].next = i + 1 < options->units_max ? i + 1 : JOB_NONE;
    for (uint32_t i = 0; i < options->lane_count; i++)
        job->lanes[i] = (struct lane){ .domain = i,
                                       .weight = 1,
                                       .last_finish_ns = now_ns,
                                       .doubted_until_ns = UINT64_MAX,
                                       .free_slot = i * options->depth };
    for (uint32_t i = 0; i < attempts; i++)
        job->attempts[i].next_free = (i + 1) % options->depth > 0 ? i + 1 : JOB_NONE;
    job_part_init(job, at, now_ns);
    if (options->stored)
        job_count_stored(job);
    return job;
}

void job_lane_describe(struct job *job, uint32_t lane, uint32_t domain, double weight)
{
    INVARIANT(lane < job->options.lane_count && domain < job->options.lane_count);
    job->lanes[lane].domain = domain;
    job->lanes[lane].weight = weight;
    if (job->has_part)
        take_part_describe(&job->part, lane, domain, weight);
}

void job_lane_set_direct(struct job *job, uint32_t lane)
{
    INVARIANT(job->options.output != JOB_OUTPUT_SLOTS);
    job->lanes[lane].is_direct = true;
}

void job_lane_set_restartable(struct job *job, uint32_t lane)
{
    job->lanes[lane].is_restartable = true;
}

/* Items that arrive. */

void job_supply(struct job *job, uint64_t until)
{
    INVARIANT(job->options.supplied && until >= job->supply && until <= job->options.items);
    job->supply = until;
    job->changes++;
}

void job_supply_ends(struct job *job)
{
    if (job->state != JOB_RUNNING)
        return;
    job->options.items = job->supply;
    job_stop_if_over(job);
}

/* Delivery. */

uint32_t job_result(const struct job *job)
{
    if (job->state == JOB_CANCELLED || job->sink_failed)
        return JOB_NONE;
    uint32_t index = job->options.ordered ? job->oldest : job->done_first;
    /* A direct attempt that is late may still write where the result is to go. */
    return index != JOB_NONE && job->units[index].state == UNIT_DONE &&
                   job->units[index].direct == JOB_NONE
               ? index
               : JOB_NONE;
}

bool job_next_result(struct job *job, uint32_t *unit, struct muster_range *range)
{
    uint32_t index = job_result(job);
    job->result_told = index != JOB_NONE;
    if (index == JOB_NONE)
        return false;
    if (!job->options.ordered) {
        job->done_first = job->units[index].retry_next;
        if (job->done_first == JOB_NONE)
            job->done_last = JOB_NONE;
    }
    job->units[index].state = UNIT_LEAVING;
    *unit = index;
    *range = job->units[index].range;
    return true;
}

bool job_has_failed(const struct job *job, uint32_t unit)
{
    return job->units[unit].has_failed;
}

bool job_is_direct(const struct job *job, uint32_t unit)
{
    return job->units[unit].is_direct;
}

void job_delivered(struct job *job, uint32_t unit)
{
    uint64_t items = items_of(&job->units[unit]);
    INVARIANT(job->units[unit].state == UNIT_LEAVING);
    job->undelivered -= items;
    job->delivered_items += items;
    job->changes++;
    job_unit_free(job, unit);
    job_pass_stored(job);
    job_stop_if_over(job);
}

void job_sink_failed(struct job *job, uint32_t unit)
{
    INVARIANT(job->units[unit].state == UNIT_LEAVING);
    job->sink_failed = true;
    job_unit_fail(job, unit);
}

void job_cancel(struct job *job)
{
    job_stop(job, JOB_CANCELLED);
}

void job_fail(struct job *job)
{
    if (!has_work(job))
        return;
    job->is_cut_short = job->is_cut_short || job->state == JOB_RUNNING;
    job_stop(job, JOB_FAILED);
}

/* What there is to know. */

enum job_state job_state(const struct job *job)
{
    return job->state;
}

bool job_is_quiet(const struct job *job)
{
    return job->out == 0;
}

uint64_t job_items(const struct job *job)
{
    return job->options.items;
}

uint64_t job_items_needed(const struct job *job)
{
    return job->oldest != JOB_NONE ? job->units[job->oldest].range.begin : job->next_claim;
}

uint64_t job_items_delivered(const struct job *job)
{
    return job->delivered_items;
}

uint64_t job_window_used(const struct job *job)
{
    return job->undelivered;
}

uint64_t job_units_made(const struct job *job)
{
    return job->units_made;
}

uint64_t job_retries(const struct job *job)
{
    return job->retries;
}

void job_lane_report(const struct job *job, uint32_t lane, struct job_lane_report *out)
{
    *out = job->lanes[lane].report;
    out->faster_without = job->has_part ? take_part_faster_without(&job->part, lane) : 0;
}

static size_t add_range(struct muster_range *out, size_t count, size_t capacity,
                        struct muster_range range)
{
    if (range.begin == range.end)
        return count;
    if (count > 0 && (out[count - 1].end == range.begin || count == capacity)) {
        out[count - 1].end = range.end;
        return count;
    }
    out[count] = range;
    return count + 1;
}

size_t job_failed_ranges(const struct job *job, struct muster_range *out, size_t capacity)
{
    size_t count = 0;
    if (job->state != JOB_FAILED || capacity == 0)
        return 0;
    for (uint32_t i = job->oldest; i != JOB_NONE; i = job->units[i].next) {
        const struct unit *unit = &job->units[i];
        bool is_lost = job->is_cut_short && unit->state != UNIT_DONE && unit->state != UNIT_LEAVING;
        if (unit->state == UNIT_FAILED || is_lost)
            count = add_range(out, count, capacity, unit->range);
    }
    if (job->is_cut_short)
        count = add_range(out, count, capacity,
                          (struct muster_range){ job->next_claim, job->options.items });
    return count;
}
