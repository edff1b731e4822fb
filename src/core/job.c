#include "base/invariant.h"
#include "core/job_state.h"

#include <string.h>

/* An adaptive unit is this part of what its lane should still do, so that a mistake stays small. */
#define SHARE_PARTS 8.0
/* A unit is never so small that its fixed cost exceeds this part of it. */
#define OVERHEAD_MAX 0.02
/* A lane's next unit is at most this much larger than the largest it has finished. */
#define GROWTH_MAX 4
/* The window is meant to hold units of all lanes several times over. */
#define WINDOW_PARTS 3.0
/* Undelivered units that are looked at for something to run twice; stragglers are the oldest. */
#define STRAGGLERS_SEEN 32
/*
 * Of units that are done or run twice already, this many are passed over: with 10,000 lanes the list
 * is long, and every idle lane walks it.
 */
#define STRAGGLERS_WALKED 256
/* A copy must be expected to finish in this part of the time that the first run still needs. */
#define COPY_GAIN 0.8
/* Without a time-out of the user's, an attempt is overdue after this many times its expected time. */
#define OVERDUE_FACTOR 20.0
#define OVERDUE_LEAST_NS 1000000000.0
#define OVERDUE_UNKNOWN_NS 10000000000.0
/* Where giving up the lane means giving up the job. */
#define OVERDUE_LAST_NS 3600000000000.0
/* Where nobody knows what an item takes. */
#define OVERDUE_BLIND_NS 86400000000000.0
/*
 * A unit that was overdue is given this many times as long elsewhere, since it may just be a dear one;
 * up to PATIENCE_MAX.
 */
#define OVERDUE_AGAIN 4.0
/*
 * An idle lane runs a unit a second time when its last run has taken this long, and this many times
 * as long as any run that ended well.
 */
#define RERUN_LEAST_NS 1000000000.0
#define RERUN_FACTOR 3.0
/* Longer than virtual time lasts. */
#define NEVER_NS 1e300

/* Memory. */

static size_t aligned(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

/* Whether units can be cut so that they end where this ends. */
static bool is_of_grains(const struct job_options *options, uint64_t items)
{
    return options->grain <= 1 || items % options->grain == 0 || items >= options->items;
}

size_t job_bytes(const struct job_options *options)
{
    uint64_t attempts = (uint64_t)options->lane_count * options->depth;
    if (options->lane_count == 0 || options->depth == 0 || options->tries == 0 ||
        options->units_max < attempts || attempts > UINT32_MAX / 2 ||
        options->units_max > UINT32_MAX / 2 ||
        (options->unit == JOB_UNIT_FIXED &&
         (options->unit_items == 0 || !is_of_grains(options, options->unit_items))) ||
        !is_of_grains(options, options->unit_max) || !is_of_grains(options, options->window))
        return 0;
    return aligned(sizeof(struct job)) + aligned(options->units_max * sizeof(struct unit)) +
           aligned((size_t)attempts * sizeof(struct attempt)) +
           aligned(options->lane_count * sizeof(struct lane)) +
           aligned(options->lane_count * sizeof(struct domain));
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
    job->domains = (struct domain *)(at + aligned(options->lane_count * sizeof(struct lane)));
    job->options = *options;
    job->oldest = job->newest = job->retry_first = JOB_NONE;
    job->done_first = job->done_last = job->draining = job->fastest = JOB_NONE;
    job->look_ns = UINT64_MAX;
    job->usable = options->lane_count;
    job->state = options->items == 0 ? JOB_DONE : JOB_RUNNING;
    job->supply = options->supplied ? 0 : options->items;
    for (uint32_t i = 0; i < options->units_max; i++)
        job->units[i].next = i + 1 < options->units_max ? i + 1 : JOB_NONE;
    for (uint32_t i = 0; i < options->lane_count; i++)
        job->lanes[i] = (struct lane){ .domain = i, .weight = 1, .last_finish_ns = now_ns };
    return job;
}

void job_lane_describe(struct job *job, uint32_t lane, uint32_t domain, double weight)
{
    INVARIANT(lane < job->options.lane_count && domain < job->options.lane_count);
    job->lanes[lane].domain = domain;
    job->lanes[lane].weight = weight;
}

/* Units. */

/*
 * Ends the job. Nobody needs what is still out, so whatever hangs may be given up earlier: the next
 * look is due at once.
 */
static void end_job(struct job *job, enum job_state state)
{
    if (job->state != JOB_RUNNING)
        return;
    job->state = state;
    if (job->out > 0)
        job->look_ns = 0;
}

static void end_if_over(struct job *job)
{
    if (job->delivered_items == job->options.items)
        end_job(job, JOB_DONE);
}

/* A new unit at the end of the range; the caller has made sure that there is room. */
static uint32_t make_unit(struct job *job, uint64_t items)
{
    uint32_t index = job->free_units;
    struct unit *unit = &job->units[index];
    INVARIANT(unit->state == UNIT_FREE);
    job->free_units = unit->next;
    *unit = (struct unit){ .range = { job->next_claim, job->next_claim + items },
                           .state = UNIT_RUNNING,
                           .previous = job->newest,
                           .next = JOB_NONE,
                           .retry_next = JOB_NONE,
                           .last_lane = JOB_NONE,
                           .patience = 1,
                           .newest_run = JOB_NONE };
    if (job->newest != JOB_NONE)
        job->units[job->newest].next = index;
    else
        job->oldest = index;
    job->newest = index;
    job->next_claim += items;
    job->undelivered += items;
    job->unfinished += items;
    job->units_made++;
    return index;
}

static void free_unit(struct job *job, uint32_t index)
{
    struct unit *unit = &job->units[index];
    if (unit->previous != JOB_NONE)
        job->units[unit->previous].next = unit->next;
    else
        job->oldest = unit->next;
    if (unit->next != JOB_NONE)
        job->units[unit->next].previous = unit->previous;
    else
        job->newest = unit->previous;
    unit->state = UNIT_FREE;
    unit->next = job->free_units;
    job->free_units = index;
}

/*
 * Makes the end of a waiting unit, behind its first items, a unit of its own. That one waits too,
 * with the same past; the caller has made sure that there is room.
 */
static void split_unit(struct job *job, uint32_t index, uint64_t items)
{
    uint32_t rest_index = job->free_units;
    struct unit *unit = &job->units[index], *rest = &job->units[rest_index];
    INVARIANT(rest->state == UNIT_FREE && unit->state == UNIT_WAITING && items < items_of(unit));
    job->free_units = rest->next;
    *rest = *unit;
    rest->range.begin = unit->range.end = unit->range.begin + items;
    rest->previous = index;
    unit->next = unit->retry_next = rest_index;
    if (rest->next != JOB_NONE)
        job->units[rest->next].previous = rest_index;
    else
        job->newest = rest_index;
    job->units_made++;
}

/* To be run by whoever asks: into the list, which is in item order, so that the oldest goes first. */
static void add_waiting(struct job *job, uint32_t index, uint64_t now_ns)
{
    struct unit *unit = &job->units[index];
    uint32_t *at = &job->retry_first;
    while (*at != JOB_NONE && job->units[*at].range.begin < unit->range.begin)
        at = &job->units[*at].retry_next;
    unit->retry_next = *at;
    unit->state = UNIT_WAITING;
    unit->waiting_ns = now_ns;
    *at = index;
}

static void add_retry(struct job *job, uint32_t index, uint64_t now_ns)
{
    add_waiting(job, index, now_ns);
    job->retries++;
}

static void fail_unit(struct job *job, uint32_t index)
{
    job->units[index].state = UNIT_FAILED;
    end_job(job, JOB_FAILED);
}

/* The unit is over: its result, or that it has none, can leave. */
static void end_unit(struct job *job, uint32_t index)
{
    struct unit *unit = &job->units[index];
    unit->state = UNIT_DONE;
    job->unfinished -= items_of(unit);
    if (job->options.ordered)
        return;
    unit->retry_next = JOB_NONE;
    if (job->done_last != JOB_NONE)
        job->units[job->done_last].retry_next = index;
    else
        job->done_first = index;
    job->done_last = index;
}

/* No further run of it is worth trying. */
static void give_up_unit(struct job *job, uint32_t index)
{
    if (!job->options.tolerant) {
        fail_unit(job, index);
        return;
    }
    job->units[index].has_failed = true;
    end_unit(job, index);
}

/* Lanes. */

static void set_idle(struct job *job, struct lane *lane, bool is_idle)
{
    job->idle += (uint32_t)is_idle - (uint32_t)lane->is_idle;
    lane->is_idle = is_idle;
}

static void find_fastest(struct job *job)
{
    double best = 0;
    job->fastest = JOB_NONE;
    job->runner_up = 0;
    for (uint32_t i = 0; i < job->options.lane_count; i++) {
        double rate = job->lanes[i].counted;
        if (rate > best) {
            job->runner_up = best;
            job->fastest = i;
            best = rate;
        } else if (rate > job->runner_up) {
            job->runner_up = rate;
        }
    }
}

/* Counts the lane's rate anew. The sum is kept, so that a claim does not look at all lanes. */
static void count_rate(struct job *job, struct lane *lane)
{
    double rate = is_usable(lane) ? rate_per_ns(&lane->rate) : 0;
    uint32_t index = (uint32_t)(lane - job->lanes);
    job->rate_sum += rate - lane->counted;
    lane->counted = rate;
    if (job->fastest == index) {
        if (rate < job->runner_up || rate <= 0)
            find_fastest(job);
    } else if (job->fastest == JOB_NONE || rate > job->lanes[job->fastest].counted) {
        find_fastest(job);
    } else if (rate > job->runner_up) {
        job->runner_up = rate;
    }
}

/* What the lane still has to do, by its own speed. */
static double backlog_ns(const struct lane *lane)
{
    return lane->rate.samples == 0 ? 0
                                   : lane->held * lane->rate.overhead_ns +
                                         (double)lane->held_items * lane->rate.item_ns;
}

/* Attempts. */

static struct attempt *slots_of(struct job *job, uint32_t lane)
{
    return &job->attempts[(size_t)lane * job->options.depth];
}

static struct job_ticket begin_attempt(struct job *job, uint32_t lane_index, uint32_t unit_index,
                                       bool is_copy)
{
    struct lane *lane = &job->lanes[lane_index];
    struct unit *unit = &job->units[unit_index];
    struct attempt *attempt = slots_of(job, lane_index);
    while (attempt->is_out)
        attempt++;
    INVARIANT(attempt < slots_of(job, lane_index) + job->options.depth);
    *attempt = (struct attempt){ .unit = unit_index,
                                 .lane = lane_index,
                                 .generation = attempt->generation + 1,
                                 .older_run = unit->newest_run,
                                 .items = items_of(unit),
                                 .is_out = true,
                                 .is_active = true,
                                 .is_copy = is_copy,
                                 .is_alone = unit->is_suspect };
    unit->state = UNIT_RUNNING;
    uint32_t number = (uint32_t)(attempt - job->attempts);
    unit->newest_run = number;
    set_idle(job, lane, false);
    lane->held++;
    lane->held_items += attempt->items;
    job->domains[lane->domain].held++;
    job->domains[lane->domain].is_alone = unit->is_suspect;
    job->suspects += unit->is_suspect;
    job->out++;
    return (struct job_ticket){ number, attempt->generation };
}

/* The completion does not count any more; the slot stays occupied. */
static void deactivate(struct job *job, struct attempt *attempt)
{
    if (!attempt->is_active)
        return;
    uint32_t *at = &job->units[attempt->unit].newest_run;
    while (&job->attempts[*at] != attempt)
        at = &job->attempts[*at].older_run;
    *at = attempt->older_run;
    attempt->is_active = false;
    job->lanes[attempt->lane].held_items -= attempt->items;
}

/* Nobody waits for it any more. */
static void abandon(struct job *job, const struct attempt *attempt)
{
    struct domain *domain = &job->domains[job->lanes[attempt->lane].domain];
    if (attempt->is_alone) {
        domain->is_alone = false;
        job->suspects--;
    }
    domain->held--;
    job->out--;
}

/* The device has nothing to do with it any more: the slot is free, the ticket stale. */
static void end_attempt(struct job *job, struct attempt *attempt)
{
    struct lane *lane = &job->lanes[attempt->lane];
    deactivate(job, attempt);
    attempt->is_out = false;
    lane->held--;
    if (is_usable(lane))
        abandon(job, attempt);
}

static struct attempt *find_attempt(const struct job *job, struct job_ticket ticket)
{
    if (ticket.attempt >= (uint64_t)job->options.lane_count * job->options.depth)
        return NULL;
    struct attempt *attempt = &job->attempts[ticket.attempt];
    return attempt->is_out && attempt->generation == ticket.generation ? attempt : NULL;
}

/* Those of the unit's attempts that were not started are taken back, the others will be late. */
static void end_runs(struct job *job, const struct unit *unit)
{
    while (unit->newest_run != JOB_NONE) {
        struct attempt *attempt = &job->attempts[unit->newest_run];
        if (attempt->is_kicked)
            deactivate(job, attempt);
        else
            end_attempt(job, attempt);
    }
}

/* Time. */

/* Later than begin_ns at any rate: added as whole numbers, a sum of large doubles might not be. */
static uint64_t after_ns(uint64_t begin_ns, double ns)
{
    uint64_t at_ns, whole_ns = ns < 1.8e19 ? (uint64_t)ns + 1 : UINT64_MAX;
    return __builtin_add_overflow(begin_ns, whole_ns, &at_ns) ? UINT64_MAX : at_ns;
}

static void look_by(struct job *job, uint64_t at_ns)
{
    if (at_ns < job->look_ns)
        job->look_ns = at_ns;
}

/* How long a measured lane may be silent at least. */
static double patience_ns(const struct job *job)
{
    return job->options.timeout_ns > 0 ? (double)job->options.timeout_ns : OVERDUE_LEAST_NS;
}

/* Something has begun or changed: nothing that follows from it is overdue before this. */
static void look_soon(struct job *job, uint64_t now_ns)
{
    look_by(job, after_ns(now_ns, patience_ns(job)));
}

static double since_ns(uint64_t begin_ns, uint64_t now_ns)
{
    return now_ns > begin_ns ? (double)(now_ns - begin_ns) : 0;
}

/*
 * How long the lane has been at the attempt, or at the one before it if it was not started. While the
 * user's own code holds it up, that is nothing.
 */
static double elapsed_ns(const struct job *job, const struct attempt *attempt, uint64_t now_ns)
{
    const struct lane *lane = &job->lanes[attempt->lane];
    uint64_t begin_ns = lane->last_finish_ns;
    if (attempt->is_kicked && attempt->kicked_ns > begin_ns)
        begin_ns = attempt->kicked_ns;
    if (lane->held_up_until_ns > begin_ns)
        begin_ns = lane->held_up_until_ns;
    return lane->is_held_up ? 0 : since_ns(begin_ns, now_ns);
}

/* How long a unit may wait, or be at its last run, before any idle lane runs it. */
static double rerun_ns(const struct job *job)
{
    double ns = RERUN_FACTOR * job->slowest_ns;
    return ns > RERUN_LEAST_NS ? ns : RERUN_LEAST_NS;
}

/* When the lane should have done all it holds. One that is late is taken to need as long again. */
static double rest_ns(const struct job *job, uint32_t lane_index, uint64_t now_ns)
{
    const struct attempt *slots = &job->attempts[(size_t)lane_index * job->options.depth];
    double backlog = backlog_ns(&job->lanes[lane_index]), elapsed = 0;
    for (uint32_t i = 0; i < job->options.depth; i++) {
        if (!slots[i].is_out || !slots[i].is_kicked)
            continue;
        double ns = elapsed_ns(job, &slots[i], now_ns);
        elapsed = ns > elapsed ? ns : elapsed;
    }
    return backlog > elapsed ? backlog - elapsed : elapsed;
}

/* Sizes. */

/* When all that there is would be done, if every lane kept to its speed and none was idle. */
static double end_after_ns(const struct job *job, const struct lane *lane)
{
    double rate = rate_per_ns(&lane->rate), sum = job->rate_sum > rate ? job->rate_sum : rate;
    return ((double)(job->options.items - job->next_claim) + (double)job->unfinished) / sum;
}

/* The least that is worth a measured lane's fixed cost, at most what there is. */
static double least_size(const struct lane *lane, uint64_t left)
{
    double least = lane->rate.overhead_ns / OVERHEAD_MAX * rate_per_ns(&lane->rate);
    if (least < 1)
        least = 1;
    return least < (double)left ? least : (double)left;
}

/*
 * The adaptive rule: a part of what the lane should still do, so that all lanes end together; at most
 * what there is.
 */
static uint64_t adaptive_size(const struct job *job, const struct lane *lane, uint64_t left)
{
    if (lane->rate.samples == 0)
        return 1;
    double rate = rate_per_ns(&lane->rate);
    double sum = job->rate_sum > rate ? job->rate_sum : rate;
    double own_ns = end_after_ns(job, lane) - backlog_ns(lane);
    double size = own_ns * rate / SHARE_PARTS;
    double most = (double)(lane->largest > 0 ? lane->largest : 1) * GROWTH_MAX;
    double least = least_size(lane, left);
    if (size < least)
        size = least;
    if (size > most)
        size = most;
    double window_part = rate * (double)job->options.window / (WINDOW_PARTS * sum);
    if (job->options.window > 0 && size > window_part)
        size = window_part;
    if (size < 1)
        return 1;
    return size < (double)left ? (uint64_t)size : left;
}

/*
 * In how many nanoseconds the lane would have done the least it could take, if that is better left to
 * the fastest lane, which would finish it sooner even after everything else; 0 if it is not. Something
 * is out then.
 */
static double left_to_fastest_ns(const struct job *job, const struct lane *lane, uint64_t left,
                                 uint64_t now_ns)
{
    if (lane->rate.samples == 0 || job->out == 0)
        return 0;
    double least = least_size(lane, left), end_ns = end_after_ns(job, lane);
    double backlog = backlog_ns(lane);
    double here_ns = backlog + rate_predict_ns(&lane->rate, least);
    if (here_ns <= end_ns || (end_ns - backlog) * rate_per_ns(&lane->rate) >= SHARE_PARTS * least)
        return 0;
    double rest = rest_ns(job, job->fastest, now_ns);
    double there_ns =
        (rest > end_ns ? rest : end_ns) + rate_predict_ns(&job->lanes[job->fastest].rate, least);
    return here_ns > there_ns ? here_ns : 0;
}

/* Rounded up. */
static uint64_t up_to_grains(const struct job *job, uint64_t items)
{
    uint64_t down = whole_grains(job, items);
    return down == items                                              ? items
           : __builtin_add_overflow(down, job->options.grain, &items) ? UINT64_MAX
                                                                      : items;
}

/* What has arrived and was never claimed, as far as it can be claimed. */
static uint64_t claimable(const struct job *job)
{
    uint64_t left = job->supply - job->next_claim;
    return job->supply == job->options.items ? left : whole_grains(job, left);
}

/* How many items the lane should be given next, 0 for none. */
static uint64_t next_size(const struct job *job, const struct lane *lane, uint64_t now_ns)
{
    const struct job_options *options = &job->options;
    uint64_t left = claimable(job), size = 0;
    if (left == 0 || job->free_units == JOB_NONE)
        return 0;
    switch (options->unit) {
    case JOB_UNIT_ADAPTIVE:
        if (left_to_fastest_ns(job, lane, options->items - job->next_claim, now_ns) > 0)
            return 0;
        size = adaptive_size(job, lane, options->items - job->next_claim);
        break;
    case JOB_UNIT_QUARTER:
        size = muster_partition_unit(options->items, options->lane_count);
        break;
    case JOB_UNIT_FIXED:
        size = options->unit_items;
        break;
    }
    size = up_to_grains(job, size);
    if (options->unit_max > 0 && size > options->unit_max)
        size = options->unit_max;
    if (options->window > 0) {
        if (size > options->window)
            size = options->window;
        /* A unit that does not fit into the window now waits; cut, it would be too small for ever. */
        if (size > options->window - job->undelivered)
            size = options->unit == JOB_UNIT_ADAPTIVE ? options->window - job->undelivered : 0;
    }
    /* A unit of a size that was asked for waits until that much has arrived. */
    if (size > left && options->unit != JOB_UNIT_ADAPTIVE && job->supply < options->items)
        return 0;
    return size < left ? size : left;
}

/* Claims. */

/*
 * Whether the lane may run a unit that has waited, or been at its last run, for so long: not where it
 * failed, as long as another lane may come and take it.
 */
static bool may_run(const struct job *job, uint32_t lane, const struct unit *unit, double waited_ns)
{
    return unit->last_lane != lane || job->usable == 1 || waited_ns >= rerun_ns(job);
}

/* The fastest measured lane but this one; JOB_NONE if there is none. */
static uint32_t fastest_beside(const struct job *job, uint32_t except)
{
    uint32_t best = JOB_NONE;
    if (job->fastest != except)
        return job->fastest;
    for (uint32_t i = 0; i < job->options.lane_count; i++)
        if (i != except && job->lanes[i].counted > 0 &&
            (best == JOB_NONE || job->lanes[i].counted > job->lanes[best].counted))
            best = i;
    return best;
}

/*
 * Whether so many items of a waiting unit are better left to the fastest lane, which would first run
 * those that wait before them: if it ends them sooner, and this lane not before the job's end or
 * before the window is full. The unit is not left to it for longer than it would take here. If it is,
 * the next look is when that is over.
 */
static bool ends_sooner_elsewhere(struct job *job, uint32_t lane_index, const struct unit *unit,
                                  uint64_t items, uint64_t ahead, uint64_t now_ns)
{
    const struct lane *lane = &job->lanes[lane_index];
    if (lane->rate.samples == 0)
        return false;
    double here_ns = backlog_ns(lane) + rate_predict_ns(&lane->rate, (double)items);
    double left_ns = here_ns - since_ns(unit->waiting_ns, now_ns);
    double end_ns = end_after_ns(job, lane),
           window_ns = (double)job->options.window / job->rate_sum;
    if (job->options.window > 0 && window_ns < end_ns)
        end_ns = window_ns;
    if (here_ns <= end_ns || left_ns <= 0)
        return false;
    uint32_t fastest = fastest_beside(job, unit->last_lane);
    if (fastest == JOB_NONE || fastest == lane_index)
        return false;
    double there_ns = rest_ns(job, fastest, now_ns) +
                      rate_predict_ns(&job->lanes[fastest].rate, (double)items + (double)ahead);
    if (here_ns <= there_ns)
        return false;
    look_by(job, after_ns(now_ns, left_ns));
    return true;
}

/*
 * Whether a part of the unit may be run apart from the rest. Units of a size that was asked for keep
 * it. On its last try a unit is whole: each part might fail where the whole would not have.
 */
static bool may_split(const struct job *job, const struct unit *unit)
{
    return job->options.unit == JOB_UNIT_ADAPTIVE && job->free_units != JOB_NONE &&
           (unit->tries == 0 || unit->tries + 1 < job->options.tries);
}

/* How many of a waiting unit's items the lane should run now, 0 for none. */
static uint64_t retry_size(struct job *job, uint32_t lane_index, const struct unit *unit,
                           uint64_t ahead, uint64_t now_ns)
{
    uint64_t items = items_of(unit), size = items;
    if (!may_run(job, lane_index, unit, since_ns(unit->waiting_ns, now_ns))) {
        look_by(job, after_ns(unit->waiting_ns, rerun_ns(job)));
        return 0;
    }
    if (may_split(job, unit))
        size = up_to_grains(job, adaptive_size(job, &job->lanes[lane_index], items));
    /* A small rest is not worth a unit. */
    if (size > items - items / 3)
        size = items;
    return ends_sooner_elsewhere(job, lane_index, unit, size, ahead, now_ns) ? 0 : size;
}

/*
 * Parts of a unit that kills devices must not kill all of them at once: about half of the lanes run
 * some. The fastest may always be one of those, or slow ones would keep it from what it does best.
 */
static bool may_run_suspects(const struct job *job, uint32_t lane)
{
    return job->suspects == 0 || 2 * job->suspects + 1 < job->usable || lane == job->fastest;
}

/* Whether the lane's failure domain is to run empty for a suspect. */
static bool drains(const struct job *job, const struct lane *lane)
{
    return job->draining != JOB_NONE && job->lanes[job->draining].domain == lane->domain;
}

/* Somebody must run empty for a suspect: the first who comes by, or one that is much faster. */
static void offer_to_drain(struct job *job, uint32_t lane)
{
    if (may_run_suspects(job, lane) &&
        (job->draining == JOB_NONE ||
         job->lanes[job->draining].counted < job->lanes[lane].counted / 2))
        job->draining = lane;
}

/*
 * Takes out of the list the oldest unit that the lane should run again, or the first part of it. A
 * suspect wants a failure domain to itself.
 */
static uint32_t take_retry(struct job *job, uint32_t lane, uint64_t now_ns)
{
    bool has_room = job->domains[job->lanes[lane].domain].held == 0 && may_run_suspects(job, lane);
    bool takes_suspects = true;
    uint64_t ahead = 0;
    for (uint32_t *at = &job->retry_first; *at != JOB_NONE; at = &job->units[*at].retry_next) {
        uint32_t index = *at;
        struct unit *unit = &job->units[index];
        uint64_t size = 0;
        if (!unit->is_suspect || takes_suspects)
            size = retry_size(job, lane, unit, ahead, now_ns);
        if (size > 0 && unit->is_suspect && !has_room) {
            offer_to_drain(job, lane);
            /* Nothing that is younger comes before it. */
            if (drains(job, &job->lanes[lane]))
                return JOB_NONE;
            takes_suspects = false;
            size = 0;
        }
        if (size == 0) {
            ahead += items_of(unit);
            continue;
        }
        if (size < items_of(unit))
            split_unit(job, index, size);
        *at = unit->retry_next;
        return index;
    }
    return JOB_NONE;
}

/* Whether the lane must take nothing new, because it is to run empty for a suspect. */
static bool must_drain(struct job *job, const struct lane *lane)
{
    if (!drains(job, lane))
        return false;
    /* One that is empty and has not taken it will not. */
    bool is_emptying = job->domains[lane->domain].held > 0 && may_run_suspects(job, job->draining);
    for (uint32_t i = is_emptying ? job->retry_first : JOB_NONE; i != JOB_NONE;
         i = job->units[i].retry_next)
        if (job->units[i].is_suspect && may_run(job, job->draining, &job->units[i], 0))
            return true;
    /* Or somebody else was quicker. */
    job->draining = JOB_NONE;
    return false;
}

/* How long the run may still need. One that is overdue is taken to need as long again as it took. */
static double run_rest_ns(const struct job *job, const struct attempt *attempt, uint64_t now_ns)
{
    double elapsed = elapsed_ns(job, attempt, now_ns);
    double expected_ns = rate_predict_ns(&job->lanes[attempt->lane].rate, (double)attempt->items);
    return expected_ns > elapsed ? expected_ns - elapsed : elapsed;
}

/*
 * In how many nanoseconds it would be worth it that the lane, which is idle, runs a unit whose last
 * run is this one, and was started: when it would clearly be first of all its runs, and at the latest
 * when the last has taken too long. 0 for now, and what is gained.
 */
static double copy_after_ns(const struct job *job, const struct lane *lane,
                            const struct attempt *attempt, uint64_t now_ns, double *gain_ns)
{
    double own_ns = rate_predict_ns(&lane->rate, (double)attempt->items),
           elapsed = elapsed_ns(job, attempt, now_ns),
           expected_ns = rate_predict_ns(&job->lanes[attempt->lane].rate, (double)attempt->items),
           rest_ns = run_rest_ns(job, attempt, now_ns);
    double rerun_after = rerun_ns(job) > elapsed ? rerun_ns(job) - elapsed : 0;
    if (!job->options.speculate)
        return NEVER_NS;
    for (uint32_t i = attempt->older_run; i != JOB_NONE; i = job->attempts[i].older_run) {
        double ns = run_rest_ns(job, &job->attempts[i], now_ns);
        rest_ns = ns < rest_ns ? ns : rest_ns;
    }
    *gain_ns = rest_ns - own_ns;
    if (lane->rate.samples == 0)
        return rerun_after;
    if (own_ns < COPY_GAIN * rest_ns)
        return 0;
    if (attempt->older_run != JOB_NONE)
        return rerun_after;
    double worth_ns = own_ns / COPY_GAIN;
    double worth_after = (expected_ns > worth_ns ? expected_ns : worth_ns) - elapsed + 1;
    return worth_after < rerun_after ? worth_after : rerun_after;
}

/*
 * The same for one that was not started. A lane that nobody has measured tries its luck with what
 * waits behind something else; were a lane's only unit enough, two idle lanes could take it from
 * each other for ever.
 */
static double take_back_after_ns(const struct job *job, const struct lane *lane,
                                 const struct attempt *attempt, uint64_t now_ns, double *gain_ns)
{
    const struct lane *other = &job->lanes[attempt->lane];
    double own_ns = rate_predict_ns(&lane->rate, (double)attempt->items),
           rest_ns = backlog_ns(other), elapsed = elapsed_ns(job, attempt, now_ns);
    bool is_behind = other->held > 1;
    /* It waits at least as long as the lane has been at the one before it. */
    if (is_behind && elapsed > rest_ns)
        rest_ns = elapsed;
    *gain_ns = rest_ns - own_ns;
    bool is_known = lane->rate.samples > 0 && other->rate.samples > 0;
    if (is_known ? own_ns < rest_ns : is_behind)
        return 0;
    if (!is_known || !is_behind)
        return NEVER_NS;
    /* If it is started here and a faster lane comes by, that one can run it too. */
    bool is_early = job->options.speculate && rerun_ns(job) < own_ns;
    double after = is_early ? rerun_ns(job) : own_ns;
    return after >= elapsed ? after - elapsed + 1 : 0;
}

/*
 * Nothing is left to claim: the unit of another lane that this idle one would finish soonest before
 * it. If there is none yet, the next look is when there may be.
 */
static uint32_t find_straggler(struct job *job, uint32_t lane_index, uint64_t now_ns)
{
    const struct lane *lane = &job->lanes[lane_index];
    uint32_t best = JOB_NONE, seen = 0;
    double best_ns = 0, soonest_ns = NEVER_NS;
    if (lane->held > 0 || job->options.place)
        return JOB_NONE;
    for (uint32_t i = job->oldest, walked = 0;
         i != JOB_NONE && seen < STRAGGLERS_SEEN && walked < STRAGGLERS_WALKED;
         i = job->units[i].next, walked++) {
        const struct unit *unit = &job->units[i];
        if (unit->state != UNIT_RUNNING || unit->is_suspect)
            continue;
        const struct attempt *attempt = &job->attempts[unit->newest_run];
        double gain_ns = 0, elapsed = elapsed_ns(job, attempt, now_ns), after;
        seen += attempt->older_run == JOB_NONE;
        if (!may_run(job, lane_index, unit, elapsed))
            after = rerun_ns(job) - elapsed;
        else if (attempt->is_kicked)
            after = copy_after_ns(job, lane, attempt, now_ns, &gain_ns);
        else
            after = take_back_after_ns(job, lane, attempt, now_ns, &gain_ns);
        if (after <= 0 && (best == JOB_NONE || gain_ns > best_ns)) {
            best = i;
            best_ns = gain_ns;
        }
        soonest_ns = after < soonest_ns ? after : soonest_ns;
    }
    if (best == JOB_NONE)
        look_by(job, after_ns(now_ns, soonest_ns));
    return best;
}

/* Takes a unit that was not started from its lane; true if it was, and is now without an attempt. */
static bool take_back(struct job *job, struct unit *unit)
{
    struct attempt *attempt = &job->attempts[unit->newest_run];
    if (attempt->is_kicked)
        return false;
    end_attempt(job, attempt);
    return true;
}

static uint32_t next_of_policy(const struct job *job, uint64_t now_ns)
{
    const struct job_options *options = &job->options;
    double best_rate = 0, best_score = 0;
    uint32_t best = JOB_NONE;
    for (uint32_t i = 0; i < options->lane_count; i++)
        if (is_usable(&job->lanes[i]) && job->lanes[i].counted > best_rate)
            best_rate = job->lanes[i].counted;
    for (uint32_t step = 0; step < options->lane_count; step++) {
        uint32_t i =
            options->policy == JOB_ROUND_ROBIN ? (job->turn + step) % options->lane_count : step;
        const struct lane *lane = &job->lanes[i];
        if (!is_usable(lane))
            continue;
        /* A lane that nobody has measured yet counts as the best, so that it is tried. */
        double rate = lane->counted > 0 ? lane->counted : best_rate > 0 ? best_rate : 1;
        double score = 0;
        switch (options->policy) {
        case JOB_ROUND_ROBIN:
            return i;
        case JOB_LEAST_LOADED:
            score = -(double)lane->held;
            break;
        case JOB_WEIGHTED:
            score = (lane->weight < 0.01 ? 0.01 : lane->weight) / (lane->held + 1);
            break;
        case JOB_ADAPTIVE:
            score = rate / (lane->held + 1);
            break;
        case JOB_EARLIEST_FINISH: {
            double next = (double)next_size(job, lane, now_ns);
            score = -((double)lane->held_items + next) / rate;
            break;
        }
        }
        if (best == JOB_NONE || score > best_score) {
            best = i;
            best_score = score;
        }
    }
    return best;
}

uint32_t job_place(struct job *job, uint64_t now_ns)
{
    if (!job->options.place || job->state != JOB_RUNNING || job->next_claim == job->options.items)
        return JOB_NONE;
    uint32_t index = next_of_policy(job, now_ns);
    if (index == JOB_NONE)
        return JOB_NONE;
    /* A policy's choice is kept to: a full lane is waited for, not passed over. */
    const struct lane *lane = &job->lanes[index];
    bool must_wait = lane->held == job->options.depth || job->domains[lane->domain].is_alone ||
                     must_drain(job, lane) || next_size(job, lane, now_ns) == 0;
    return must_wait ? JOB_NONE : index;
}

static uint32_t take_new(struct job *job, uint32_t lane_index, uint64_t now_ns)
{
    const struct lane *lane = &job->lanes[lane_index];
    if (job->options.place && job_place(job, now_ns) != lane_index)
        return JOB_NONE;
    uint64_t size = next_size(job, lane, now_ns);
    if (size == 0)
        return JOB_NONE;
    job->turn = (lane_index + 1) % job->options.lane_count;
    return make_unit(job, size);
}

/* All that is there is claimed, or nothing new can be until the oldest unit has been delivered. */
static bool nothing_to_claim(const struct job *job)
{
    const struct job_options *options = &job->options;
    return claimable(job) == 0 || job->free_units == JOB_NONE ||
           (options->window > 0 && job->undelivered == options->window);
}

/*
 * There is nothing for the lane. If that is because a faster one, which is busy, should take it, the
 * next look is when that one is clearly late.
 */
static void stay_idle(struct job *job, struct lane *lane, uint64_t now_ns)
{
    /* A first unit of another lane may be overdue earlier now. */
    if (!lane->is_idle)
        look_soon(job, now_ns);
    set_idle(job, lane, true);
    if (nothing_to_claim(job) || job->options.place || job->options.unit != JOB_UNIT_ADAPTIVE)
        return;
    double wait_ns = left_to_fastest_ns(job, lane, job->options.items - job->next_claim, now_ns);
    if (wait_ns > 0 && job->lanes[job->fastest].held > 0)
        look_by(job, after_ns(now_ns, wait_ns));
}

bool job_claim(struct job *job, uint32_t lane_index, uint64_t now_ns, struct job_claim *out)
{
    struct lane *lane = &job->lanes[lane_index];
    if (job->state != JOB_RUNNING || !is_usable(lane) || lane->held == job->options.depth ||
        job->domains[lane->domain].is_alone)
        return false;
    uint32_t unit = take_retry(job, lane_index, now_ns);
    bool is_retry = unit != JOB_NONE, is_copy = false;
    if (!is_retry && must_drain(job, lane))
        return false;
    if (!is_retry)
        unit = take_new(job, lane_index, now_ns);
    if (unit == JOB_NONE && nothing_to_claim(job)) {
        unit = find_straggler(job, lane_index, now_ns);
        is_copy = unit != JOB_NONE && !take_back(job, &job->units[unit]);
    }
    if (unit == JOB_NONE) {
        if (lane->held == 0)
            stay_idle(job, lane, now_ns);
        return false;
    }
    *out = (struct job_claim){ .ticket = begin_attempt(job, lane_index, unit, is_copy),
                               .range = job->units[unit].range,
                               .unit = unit,
                               .is_retry = is_retry,
                               .is_copy = is_copy };
    return true;
}

void job_supply(struct job *job, uint64_t until)
{
    INVARIANT(job->options.supplied && until >= job->supply && until <= job->options.items);
    job->supply = until;
}

void job_supply_ends(struct job *job)
{
    if (job->state != JOB_RUNNING)
        return;
    job->options.items = job->supply;
    end_if_over(job);
}

bool job_is_out(const struct job *job, struct job_ticket ticket)
{
    return find_attempt(job, ticket) != NULL;
}

/* The job is over, and so is the attempt. */
static void cancel_attempt(struct job *job, struct attempt *attempt)
{
    struct unit *unit = &job->units[attempt->unit];
    end_attempt(job, attempt);
    if (!has_runs(unit))
        unit->state = UNIT_CANCELLED;
}

bool job_kick(struct job *job, struct job_ticket ticket, uint64_t now_ns)
{
    struct attempt *attempt = find_attempt(job, ticket);
    if (!attempt || !attempt->is_active)
        return false;
    if (job->state != JOB_RUNNING) {
        cancel_attempt(job, attempt);
        return false;
    }
    attempt->is_kicked = true;
    attempt->kicked_ns = now_ns;
    look_soon(job, now_ns);
    return true;
}

bool job_is_last_try(const struct job *job, struct job_ticket ticket)
{
    const struct attempt *attempt = find_attempt(job, ticket);
    return attempt && attempt->is_active &&
           job->units[attempt->unit].tries + 1 >= job->options.tries;
}

bool job_restart(struct job *job, struct job_ticket ticket, uint64_t now_ns)
{
    struct attempt *attempt = find_attempt(job, ticket);
    if (!attempt || !attempt->is_active || job->state != JOB_RUNNING)
        return false;
    attempt->kicked_ns = now_ns;
    attempt->is_restarted = true;
    look_soon(job, now_ns);
    return true;
}

/* Completions. */

/* A hung lane whose last attempt has come back after all is tried again, as one nobody has measured. */
static void revive_if_empty(struct job *job, struct lane *lane)
{
    if (!lane->is_hung || lane->is_lost || lane->held > 0)
        return;
    lane->is_hung = false;
    lane->report.is_hung = false;
    lane->rate = (struct rate){ .samples = 0 };
    lane->largest = 0;
    job->usable++;
}

/* The run ended well: others may take as long. */
static void note_slowest(struct job *job, const struct attempt *attempt, uint64_t now_ns)
{
    double ns = elapsed_ns(job, attempt, now_ns);
    if (ns > job->slowest_ns)
        job->slowest_ns = ns;
}

static void learn(struct job *job, const struct attempt *attempt, uint64_t now_ns)
{
    struct lane *lane = &job->lanes[attempt->lane];
    uint64_t items = items_of(&job->units[attempt->unit]);
    uint64_t begin_ns =
        attempt->kicked_ns > lane->last_finish_ns ? attempt->kicked_ns : lane->last_finish_ns;
    rate_sample(&lane->rate, items, now_ns > begin_ns ? now_ns - begin_ns : 0);
    note_slowest(job, attempt, now_ns);
    if (items > lane->largest)
        lane->largest = items;
    lane->last_finish_ns = now_ns;
    count_rate(job, lane);
}

static enum job_verdict accept(struct job *job, uint32_t unit_index, struct lane *lane)
{
    struct unit *unit = &job->units[unit_index];
    end_runs(job, unit);
    end_unit(job, unit_index);
    lane->report.items += items_of(unit);
    lane->report.units++;
    return JOB_ACCEPTED;
}

/* The attempt failed, and its unit with it unless it still runs elsewhere. */
static enum job_verdict retry(struct job *job, uint32_t unit_index, uint32_t lane, enum job_end end,
                              uint64_t now_ns)
{
    struct unit *unit = &job->units[unit_index];
    job->lanes[lane].report.retries++;
    unit->tries++;
    if (end == JOB_END_USER || unit->tries >= job->options.tries) {
        end_runs(job, unit);
        give_up_unit(job, unit_index);
        return job->options.tolerant ? JOB_GIVEN_UP : JOB_REFUSED;
    }
    unit->last_lane = lane;
    unit->is_suspect = false;
    if (!has_runs(unit))
        add_retry(job, unit_index, now_ns);
    return JOB_AGAIN;
}

enum job_verdict job_finish(struct job *job, struct job_ticket ticket, enum job_end end,
                            uint64_t now_ns)
{
    struct attempt *attempt = find_attempt(job, ticket);
    if (!attempt)
        return JOB_LATE;
    uint32_t lane_index = attempt->lane, unit = attempt->unit;
    struct lane *lane = &job->lanes[lane_index];
    bool is_late = !attempt->is_active;
    if (end == JOB_END_DEVICE) {
        job_lane_lost(job, lane_index, now_ns);
        return is_late                                 ? JOB_LATE
               : job->units[unit].state == UNIT_FAILED ? JOB_REFUSED
               : job->units[unit].has_failed           ? JOB_GIVEN_UP
                                                       : JOB_AGAIN;
    }
    look_soon(job, now_ns);
    if (is_late) {
        if (end == JOB_END_OK)
            note_slowest(job, attempt, now_ns);
        end_attempt(job, attempt);
        lane->last_finish_ns = now_ns;
        lane->report.copies_lost++;
        revive_if_empty(job, lane);
        return JOB_LATE;
    }
    INVARIANT(end != JOB_END_DROPPED || job->state != JOB_RUNNING);
    if (job->state == JOB_CANCELLED || end == JOB_END_DROPPED) {
        cancel_attempt(job, attempt);
        return JOB_LATE;
    }
    if (end == JOB_END_OK && !attempt->is_restarted)
        learn(job, attempt, now_ns);
    lane->last_finish_ns = now_ns;
    end_attempt(job, attempt);
    return end == JOB_END_OK ? accept(job, unit, lane) : retry(job, unit, lane_index, end, now_ns);
}

/*
 * The lane will not finish what it has, which is anybody's now unless it runs elsewhere too. What was
 * started on a device that died is suspect.
 */
static void drop_attempts(struct job *job, uint32_t lane_index, bool is_loss, bool is_charged,
                          uint64_t now_ns)
{
    struct attempt *slots = slots_of(job, lane_index);
    for (uint32_t i = 0; i < job->options.depth; i++) {
        struct attempt *attempt = &slots[i];
        struct unit *unit = &job->units[attempt->unit];
        if (!attempt->is_out)
            continue;
        if (!attempt->is_kicked) {
            end_attempt(job, attempt);
            if (!has_runs(unit))
                add_waiting(job, attempt->unit, now_ns);
            continue;
        }
        abandon(job, attempt);
        if (!attempt->is_active)
            continue;
        deactivate(job, attempt);
        if (!is_loss && unit->patience < PATIENCE_MAX)
            unit->patience *= OVERDUE_AGAIN;
        if (has_runs(unit))
            continue;
        unit->is_suspect = unit->is_suspect || is_loss;
        unit->last_lane = lane_index;
        if (is_charged && ++unit->domains_taken >= DOMAINS_TAKEN_MAX)
            give_up_unit(job, attempt->unit);
        else
            add_retry(job, attempt->unit, now_ns);
    }
}

static void retire_lane(struct job *job, uint32_t lane_index, bool is_loss, bool is_charged,
                        uint64_t now_ns)
{
    struct lane *lane = &job->lanes[lane_index];
    bool was_usable = is_usable(lane);
    if (was_usable)
        drop_attempts(job, lane_index, is_loss, is_charged, now_ns);
    lane->is_lost = lane->is_lost || is_loss;
    lane->is_hung = lane->is_hung || !is_loss;
    lane->report.is_lost = lane->is_lost;
    lane->report.is_hung = lane->is_hung;
    if (!was_usable)
        return;
    count_rate(job, lane);
    set_idle(job, lane, false);
    if (job->draining == lane_index)
        job->draining = JOB_NONE;
    if (--job->usable == 0)
        job_fail(job);
}

void job_lane_lost(struct job *job, uint32_t lane, uint64_t now_ns)
{
    uint32_t domain = job->lanes[lane].domain;
    /* Charged with it is only what it can have been. */
    bool was_alone = job->domains[domain].held == 1;
    for (uint32_t i = 0; i < job->options.lane_count; i++)
        if (job->lanes[i].domain == domain)
            retire_lane(job, i, true, was_alone, now_ns);
}

/* Whether an idle lane may run the attempt's unit too, so that nothing waits for this one. */
static bool may_copy(const struct job *job, const struct attempt *attempt)
{
    return job->options.speculate && !job->options.place && attempt->is_active &&
           !job->units[attempt->unit].is_suspect;
}

/*
 * Where nobody knows what an item takes, a unit may take as long as it likes, but not while an idle
 * lane is kept from it, nor when nobody wants it any more.
 */
static double blind_ns(const struct job *job, const struct attempt *attempt)
{
    bool is_waited_for = job->state == JOB_RUNNING && (job->idle == 0 || may_copy(job, attempt));
    double ns = is_waited_for ? OVERDUE_BLIND_NS : OVERDUE_UNKNOWN_NS;
    return rerun_ns(job) > ns ? rerun_ns(job) : ns;
}

/* How long the attempt may take on the lane, with what that holds already. */
static double usual_ns(const struct job *job, const struct lane *lane,
                       const struct attempt *attempt)
{
    bool is_measured = lane->rate.samples > 0;
    if (!is_measured && job->fastest == JOB_NONE)
        return blind_ns(job, attempt);
    const struct rate *rate = is_measured ? &lane->rate : &job->lanes[job->fastest].rate;
    double expected = lane->held * rate->overhead_ns +
                      rate_predict_ns(rate, (double)lane->held_items + (double)attempt->items);
    bool is_last = job->usable == 1 && job->state == JOB_RUNNING;
    double least = is_last ? OVERDUE_LAST_NS : is_measured ? patience_ns(job) : OVERDUE_UNKNOWN_NS;
    return OVERDUE_FACTOR * expected > least ? OVERDUE_FACTOR * expected : least;
}

/* How long the attempt may take, counted from when the lane came to it. */
static double allowed_ns(const struct job *job, const struct lane *lane,
                         const struct attempt *attempt)
{
    if (job->options.timeout_ns > 0)
        return patience_ns(job);
    double usual = usual_ns(job, lane, attempt);
    bool is_dear = attempt->is_active && job->state == JOB_RUNNING && usual < OVERDUE_BLIND_NS;
    return is_dear ? job->units[attempt->unit].patience * usual : usual;
}

uint64_t job_overdue_ns(const struct job *job, uint32_t lane_index)
{
    const struct lane *lane = &job->lanes[lane_index];
    const struct attempt *slots = &job->attempts[(size_t)lane_index * job->options.depth];
    uint64_t first_ns = UINT64_MAX, since_ns = lane->last_finish_ns;
    if (lane->held_up_until_ns > since_ns)
        since_ns = lane->held_up_until_ns;
    for (uint32_t i = 0; i < job->options.depth && !lane->is_held_up; i++) {
        if (!slots[i].is_out || !slots[i].is_kicked)
            continue;
        uint64_t begin_ns = slots[i].kicked_ns > since_ns ? slots[i].kicked_ns : since_ns;
        uint64_t at_ns = after_ns(begin_ns, allowed_ns(job, lane, &slots[i]));
        first_ns = at_ns < first_ns ? at_ns : first_ns;
    }
    return first_ns;
}

void job_lane_held_up(struct job *job, uint32_t lane_index, bool is_held_up, uint64_t now_ns)
{
    struct lane *lane = &job->lanes[lane_index];
    lane->is_held_up = is_held_up;
    lane->held_up_until_ns = now_ns;
    if (!is_held_up)
        look_soon(job, now_ns);
}

uint64_t job_look(struct job *job, uint64_t now_ns)
{
    uint64_t next_ns = UINT64_MAX;
    for (uint32_t i = 0; i < job->options.lane_count; i++) {
        if (!is_usable(&job->lanes[i]) || job->lanes[i].held == 0)
            continue;
        uint64_t at_ns = job_overdue_ns(job, i);
        if (at_ns <= now_ns)
            retire_lane(job, i, false, false, now_ns);
        else if (at_ns < next_ns)
            next_ns = at_ns;
    }
    job->look_ns = next_ns;
    return next_ns;
}

uint64_t job_look_due(const struct job *job)
{
    return job->look_ns;
}

/* Delivery. */

bool job_next_result(struct job *job, uint32_t *unit, struct muster_range *range)
{
    if (job->state == JOB_CANCELLED || job->sink_failed)
        return false;
    uint32_t index = job->options.ordered ? job->oldest : job->done_first;
    if (index == JOB_NONE || job->units[index].state != UNIT_DONE)
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

void job_delivered(struct job *job, uint32_t unit)
{
    uint64_t items = items_of(&job->units[unit]);
    INVARIANT(job->units[unit].state == UNIT_LEAVING);
    job->undelivered -= items;
    job->delivered_items += items;
    free_unit(job, unit);
    end_if_over(job);
}

void job_sink_failed(struct job *job, uint32_t unit)
{
    INVARIANT(job->units[unit].state == UNIT_LEAVING);
    job->sink_failed = true;
    fail_unit(job, unit);
}

void job_cancel(struct job *job)
{
    end_job(job, JOB_CANCELLED);
}

void job_fail(struct job *job)
{
    if (!has_work(job))
        return;
    job->is_cut_short = job->is_cut_short || job->state == JOB_RUNNING;
    end_job(job, JOB_FAILED);
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
