/*
 * The head of the line: a unit that takes long stops all other lanes once the window is full, or once
 * there are no more units, since results leave in item order. A lane is not given a unit that it would
 * finish too late for that. A unit that turns out to be late is run a second time while the others still
 * have room.
 */
#include "core/job_state.h"

/* Units from the oldest on that are looked at for one that is late. */
#define HEADS_SEEN 8
/* What a lane holds is done within this part of the time that all lanes need to fill the window. */
#define HEAD_PART 0.8
/* A second run must be expected to end in this part of the time that the first still needs. */
#define HEAD_GAIN 0.8
/* A lane that is too slow is tried again after it was idle for this many times as long as a unit takes. */
#define TRIAL_PARTS 4.0
/*
 * Of the units that a lane can hold, it may have this part, if each by itself is in time. Where lanes share a link each has as much
 * of it as it holds: a lane that holds one only, because it is slow, stays slow. Three slices of an H200
 * did: one of them moved 83 to 99 % of the bytes, and all together less than before.
 */
#define HELD_LEAST_PART 0.375

/* How many items may be claimed from a unit's first one on before that unit is delivered. */
struct room {
    double all, left;
};

/*
 * How many items a unit will have: as many as those that are undelivered, if these are many. Else the
 * fastest lane's may be larger than before.
 */
static double usual_items(const struct job *job)
{
    uint32_t used = job->options.units_max - job->free_count;
    if (used > job->options.units_max / 2)
        return (double)job->undelivered / used;
    return job->fastest == JOB_NONE
               ? JOB_UNLIMITED
               : (double)job->lanes[job->fastest].largest * JOB_SIZE_GROWTH_MAX;
}

/*
 * In order the window and the number of units limit that. Where items arrive one after the other, the
 * window does so in any order: items stay until all before them are delivered.
 */
static struct room room_after(const struct job *job, uint64_t item)
{
    const struct job_options *options = &job->options;
    struct room room = { JOB_UNLIMITED, JOB_UNLIMITED };
    if (options->window > 0 && (options->ordered || options->supplied)) {
        uint64_t claimed = job->next_claim - item;
        room.all = (double)options->window;
        room.left = claimed < options->window ? (double)(options->window - claimed) : 0;
    }
    if (options->ordered) {
        double items = usual_items(job), all = items * options->units_max,
               left = items * job->free_count;
        room.all = all < room.all ? all : room.all;
        room.left = left < room.left ? left : room.left;
    }
    /* The last items do not fill it. */
    if ((double)(options->items - job->next_claim) <= room.left)
        room = (struct room){ JOB_UNLIMITED, JOB_UNLIMITED };
    return room;
}

double job_head_ns(const struct job *job)
{
    double all = job->usable > 1 ? room_after(job, job->next_claim).all : JOB_UNLIMITED;
    return all < JOB_UNLIMITED && job->rate_sum > 0 ? HEAD_PART * all / job->rate_sum
                                                    : JOB_UNLIMITED;
}

/* What the lanes that are faster do, in items per nanosecond. */
static double rate_of_faster(const struct job *job, const struct lane *lane)
{
    double rate = 0;
    for (uint32_t i = 0; i < job->options.lane_count; i++)
        if (job->lanes[i].counted > lane->counted)
            rate += job->lanes[i].counted;
    return rate;
}

double job_head_refused_ns(const struct job *job, const struct lane *lane, uint64_t items,
                           uint64_t now_ns)
{
    if (lane->rate.samples == 0)
        return 0;
    double own_ns = rate_predict_ns(&lane->rate, (double)items);
    double here_ns = job_lane_backlog_ns(lane) + own_ns, head_ns = job_head_ns(job);
    if (here_ns <= head_ns ||
        (lane->held > 0 && lane->held < HELD_LEAST_PART * job->options.depth && own_ns <= head_ns))
        return 0;
    if (lane->held > 0)
        return JOB_UNLIMITED;
    /*
     * While the lane is at its unit, at most one window is filled. That must be more than what the
     * faster lanes would do in that time without it.
     */
    if (here_ns * rate_of_faster(job, lane) <= room_after(job, job->next_claim).all)
        return 0;
    double idle_ns = since_ns(lane->last_finish_ns, now_ns), trial_ns = TRIAL_PARTS * here_ns;
    return idle_ns < trial_ns ? trial_ns - idle_ns : -1;
}

/* The first unit that is not done and has one run, among the oldest; JOB_NONE. */
static uint32_t find_head(const struct job *job)
{
    uint32_t index = job->oldest;
    for (uint32_t i = 0; i < HEADS_SEEN && index != JOB_NONE; i++) {
        const struct unit *unit = &job->units[index];
        if (unit->state == UNIT_RUNNING && has_runs(unit) &&
            job->attempts[unit->newest_run].older_run == JOB_NONE)
            return index;
        index = unit->next;
    }
    return JOB_NONE;
}

/* Whether the lane may run the unit too, or what is left of it. */
static bool may_help(const struct job *job, uint32_t lane_index, uint32_t unit_index, bool cuts)
{
    const struct unit *unit = &job->units[unit_index];
    const struct attempt *attempt = &job->attempts[unit->newest_run];
    const struct lane *other = &job->lanes[attempt->lane];
    bool may = cuts                 ? attempt->is_direct && !attempt->is_unloved
               : attempt->is_kicked ? job->options.speculate
                                    : other->held > 1;
    return may && attempt->lane != lane_index && may_have_copies(unit) && !other->is_held_up &&
           is_usable(other) && job_unit_may_run(job, lane_index, unit, 0) &&
           (cuts || has_units(job, &job->lanes[lane_index], 0, unit_index == job->oldest));
}

struct job_choice job_head_find(const struct job *job, uint32_t lane_index, uint64_t next_items,
                                uint64_t now_ns)
{
    const struct lane *lane = &job->lanes[lane_index];
    const struct job_choice none = { JOB_CHOICE_NONE, JOB_NONE, JOB_NONE, 0, false };
    uint32_t head = job->options.place || lane->rate.samples == 0 ? JOB_NONE : find_head(job);
    if (head == JOB_NONE)
        return none;
    const struct unit *unit = &job->units[head];
    const struct attempt *attempt = &job->attempts[unit->newest_run];
    double full_ns = room_after(job, unit->range.begin).left / job->rate_sum,
           own_ns = job_lane_rest_ns(job, lane_index, now_ns) +
                    rate_predict_ns(&lane->rate, (double)attempt->items);
    bool cuts = attempt->is_kicked && job_unit_must_be_cut(job, lane, unit);
    /* There is still time for a new unit before. */
    if (full_ns > own_ns + rate_predict_ns(&lane->rate, (double)next_items) ||
        !may_help(job, lane_index, head, cuts))
        return none;
    double rest_ns = attempt->is_kicked ? job_attempt_rest_ns(job, attempt, now_ns)
                                        : job_lane_rest_ns(job, attempt->lane, now_ns);
    double stopped_ns = rest_ns - (own_ns > full_ns ? own_ns : full_ns);
    /* A second run costs what the lane would have done meanwhile. */
    double cost = attempt->is_kicked && !cuts ? (double)attempt->items : 0;
    if (own_ns >= HEAD_GAIN * rest_ns || stopped_ns * job->rate_sum <= cost)
        return none;
    return (struct job_choice){ cuts ? JOB_CHOICE_STOP : JOB_CHOICE_TAIL, head, JOB_NONE, 0,
                                false };
}
