/*
 * The inside of a job: its state, and what the files that share it (job.c and job_*.c) ask of each
 * other. Nobody else may include this.
 */
#ifndef CORE_JOB_STATE_H
#define CORE_JOB_STATE_H

#include "core/job.h"
#include "core/opening.h"

/* The largest `patience` of a unit; it grows with each device that hangs on the unit. */
#define PATIENCE_MAX 16.0
/* A unit that has run alone on this many failure domains that were then lost has failed itself. */
#define DOMAINS_TAKEN_MAX 2
/* Longer than virtual time lasts, and more items than there are. */
#define JOB_UNLIMITED 1e300

enum unit_state {
    UNIT_FREE,
    UNIT_WAITING,
    UNIT_RUNNING,
    UNIT_DONE,
    UNIT_LEAVING,
    UNIT_FAILED,
    UNIT_CANCELLED /* the job ended before it did */
};

struct unit {
    struct muster_range range;
    enum unit_state state;
    uint32_t previous, next; /* in item order; `next` also links free units */
    uint32_t retry_next;     /* while waiting: the list of units to run again */
    uint32_t last_lane;      /* where it failed last, JOB_NONE if it did not */
    uint32_t tries, domains_taken;
    uint32_t newest_run; /* attempts whose completion counts, the last begun first; JOB_NONE */
    uint32_t direct;     /* the attempt that may write into the caller's array, out; JOB_NONE */
    bool is_direct;      /* once done: that array has the result */
    uint64_t waiting_ns; /* while waiting: since when */
    double patience;     /* how many times as long as others it may take */
    bool is_suspect;     /* its device died under it: runs alone */
    bool is_doubted;     /* the device of one of its runs did: no further copies. With `narrows` */
    bool has_failed;     /* where that is tolerated: it is done, without a result */
};

struct attempt {
    uint32_t unit, lane, generation;
    uint32_t older_run; /* of the same unit, while this one is active; JOB_NONE */
    uint64_t items;     /* the unit may be gone before a late attempt is */
    bool is_out;        /* occupies its lane's slot */
    bool is_active;     /* its completion counts */
    bool is_kicked, is_copy, is_alone;
    bool is_direct;    /* writes into the caller's array */
    bool is_blamed;    /* its lane was lost while it was the only one there */
    bool is_unloved;   /* its lane is to stop it: another would do the rest sooner */
    bool is_given;     /* by the user's policy, and the lane has not claimed it yet */
    bool is_restarted; /* how long it took says nothing about the lane */
    uint64_t kicked_ns;
    uint32_t next_free; /* while not out: of the same lane */
};

/* What a lane that asks would be given. */
enum job_choice_kind {
    JOB_CHOICE_REFUSED, /* nothing: it must not take any */
    JOB_CHOICE_NONE,    /* nothing: there is none for it */
    JOB_CHOICE_GIVEN,   /* what the user's policy gave it */
    JOB_CHOICE_RETRY,   /* a waiting unit, or its first part */
    JOB_CHOICE_NEW,
    JOB_CHOICE_TAIL, /* a unit of another lane */
    JOB_CHOICE_STOP, /* nothing yet: the attempt of another lane is to be stopped */
    JOB_CHOICE_KINDS
};

struct job_choice {
    enum job_choice_kind kind;
    uint32_t unit; /* but of a new one and of a given one */
    uint32_t
        before;    /* a waiting one: the unit before it in the list, JOB_NONE if it is the first */
    uint64_t size; /* but in the tail: of how many items */
    bool is_trial; /* a new one, though the lane was too slow when it was last measured */
};

struct lane {
    uint32_t domain;
    double weight;
    bool is_lost, is_hung;
    bool is_absent;      /* its device is not open: the lane counts for nothing */
    bool is_direct;      /* works on the caller's memory */
    bool is_restartable; /* what its device does can be ended by force */
    uint64_t
        doubted_until_ns; /* lost or hung: so long its direct attempts may come back; UINT64_MAX */
    bool is_idle;         /* holds nothing, asked for something and got nothing */
    uint32_t held;        /* slots occupied */
    uint64_t held_items;
    struct rate rate;
    double counted;   /* its part of the job's rate_sum */
    uint64_t largest; /* unit it has finished */
    /*
     * Items per nanosecond of the unit that it finished last, from its kick. Two units that end at one
     * time make `rate` too high, and this too low.
     */
    double sure_per_ns;
    uint64_t last_finish_ns;
    bool is_held_up;   /* by the user's own code: nothing it has is overdue */
    bool is_short;     /* of memory or streams: it is given nothing */
    bool is_left_out;  /* costs more than it brings: it is given only what failed elsewhere */
    uint32_t failures; /* units in a row that failed on it */
    uint32_t rests;    /* how often it was quarantined since it last did one well */
    uint64_t
        rests_until_ns; /* quarantined: is given nothing before, then one unit at a time; 0: not */
    uint64_t held_up_until_ns;
    uint32_t given;     /* attempts that it has not claimed yet */
    uint32_t free_slot; /* the first of its attempts that are not out; JOB_NONE */
    bool is_asking; /* asked, got nothing and has room: in the list of those, the longest first */
    uint32_t ask_previous, ask_next;
    enum job_choice_kind woken_for; /* told to ask again, and has not; REFUSED if not */
    bool is_called;                 /* in the list of those that job_wake_lane is to give */
    uint32_t call_next;
    struct job_lane_report report;
};

struct domain {
    uint32_t held; /* slots occupied, but those of lanes that are lost or hung */
    bool is_alone; /* runs a suspect */
};

struct job {
    struct job_options options;
    enum job_state state;
    bool is_cut_short; /* no lane is left, or no input: what is not done will not be */
    bool sink_failed;
    uint64_t supply;     /* the first item that has not arrived */
    uint64_t next_claim; /* the first item never claimed */
    uint64_t stored_ahead,
        stored_next; /* items from there on that are stored; the first, or beyond all */
    uint64_t delivered_items;
    uint64_t undelivered; /* items claimed and not delivered */
    uint64_t unfinished;  /* of these, items of units that are not done */
    uint64_t units_made, retries;
    uint64_t start_ns, begun_ns; /* of the job, and of its first claim; OPENING_NEVER: none yet */
    uint32_t oldest, newest;     /* undelivered units in item order */
    uint32_t free_units, free_count;
    uint32_t direct_out;            /* direct attempts */
    uint32_t retry_first;           /* in item order */
    uint32_t waiting;               /* units in that list */
    uint64_t newest_items;          /* of the last unit that was made */
    uint32_t done_first, done_last; /* unordered: finished units in the order they finished */
    uint32_t suspects;              /* attempts of suspects on usable lanes */
    uint32_t draining; /* the lane whose domain is kept from new work for a suspect's sake */
    uint32_t usable;   /* lanes neither lost nor hung nor absent */
    uint32_t expected; /* absent lanes that may come */
    bool opens_later;  /* and their drivers are not being opened */
    uint32_t idle;     /* of these, lanes that are idle */
    uint32_t out;      /* attempts on usable lanes */
    uint32_t turn;     /* round-robin: the lane after the last one */
    double rate_sum;   /* of the usable lanes, in items per nanosecond */
    uint32_t fastest;  /* of the usable, measured lanes; JOB_NONE */
    double runner_up;  /* no other lane is faster than this */
    double slowest_ns; /* the longest that a run took which ended well */
    uint64_t look_ns;  /* nothing is overdue, or worth a second run, before */
    uint32_t ask_first, ask_last;   /* lanes that are asking */
    uint32_t call_first, call_last; /* lanes to be woken */
    uint32_t woken[JOB_CHOICE_KINDS];
    bool result_told; /* and job_next_result has not said no since */
    uint64_t look_told_ns;
    bool over_told, quiet_told;
    uint64_t changes;     /* finishes, deliveries and whatever else a policy may choose by */
    bool is_policy_asked; /* the user's: there was a snapshot, and no commit yet */
    uint32_t policy_asks; /* in a row, without a choice */
    uint64_t policy_saw;  /* of `changes`, when it last chose nothing */
    struct unit *units;
    struct attempt *attempts; /* lane i has [i x depth, (i + 1) x depth) */
    struct lane *lanes;
    struct domain *domains;
    bool has_part; /* lanes may be left out */
    struct take_part part;
    uint32_t part_version; /* that the lanes know of */
};

static inline uint64_t items_of(const struct unit *unit)
{
    return unit->range.end - unit->range.begin;
}

/* Whether something is still to be run; else there is only to be delivered. */
static inline bool has_work(const struct job *job)
{
    return job->unfinished > 0 || job->next_claim < job->options.items;
}

static inline bool is_usable(const struct lane *lane)
{
    return !lane->is_lost && !lane->is_hung && !lane->is_absent;
}

/*
 * Machines also go for reasons of their own, and often: there a unit that they go with has as many tries
 * as one that fails.
 */
static inline uint32_t job_domains_taken_max(const struct job *job)
{
    return job->options.narrows && job->options.tries > DOMAINS_TAKEN_MAX ? job->options.tries
                                                                          : DOMAINS_TAKEN_MAX;
}

static inline bool is_chosen(enum job_choice_kind kind)
{
    return kind != JOB_CHOICE_REFUSED && kind != JOB_CHOICE_NONE && kind != JOB_CHOICE_STOP;
}

static inline bool is_quarantined(const struct lane *lane)
{
    return lane->rests_until_ns > 0;
}

/* Whether it can be given something more at all. */
static inline bool may_take(const struct lane *lane)
{
    return is_usable(lane) && !lane->is_short;
}

/* What the lane adds to the job's rate, in items per nanosecond. */
static inline double lane_rate(const struct lane *lane)
{
    return may_take(lane) && !is_quarantined(lane) && !lane->is_left_out ? rate_per_ns(&lane->rate)
                                                                         : 0;
}

/* Whether it may run twice at a time. */
static inline bool may_have_copies(const struct unit *unit)
{
    return !unit->is_suspect && !unit->is_doubted;
}

static inline bool has_runs(const struct unit *unit)
{
    return unit->newest_run != JOB_NONE;
}

/* Items that nobody has claimed and that are to be run. */
static inline uint64_t items_ahead(const struct job *job)
{
    return job->options.items - job->next_claim - job->stored_ahead;
}

/* Rounded down. */
static inline uint64_t whole_grains(const struct job *job, uint64_t items)
{
    return job->options.grain > 1 ? items - items % job->options.grain : items;
}

/* What the lane still has to do, by its own speed. */
static inline double job_lane_backlog_ns(const struct lane *lane)
{
    return lane->rate.samples == 0 ? 0
                                   : lane->held * lane->rate.overhead_ns +
                                         (double)lane->held_items * lane->rate.item_ns;
}

static inline struct attempt *job_lane_slots(struct job *job, uint32_t lane)
{
    return &job->attempts[(size_t)lane * job->options.depth];
}

/* Later than begin_ns at any rate: added as whole numbers, a sum of large doubles might not be. */
static inline uint64_t after_ns(uint64_t begin_ns, double ns)
{
    uint64_t at_ns, whole_ns = ns < 1.8e19 ? (uint64_t)ns + 1 : UINT64_MAX;
    return __builtin_add_overflow(begin_ns, whole_ns, &at_ns) ? UINT64_MAX : at_ns;
}

static inline void look_by(struct job *job, uint64_t at_ns)
{
    if (at_ns < job->look_ns)
        job->look_ns = at_ns;
}

static inline double since_ns(uint64_t begin_ns, uint64_t now_ns)
{
    return now_ns > begin_ns ? (double)(now_ns - begin_ns) : 0;
}

/* The unit whose result may leave next; JOB_NONE. */
uint32_t job_result(const struct job *job);

/*
 * Whether there are units enough for a lane that takes this many new ones, 0 or 1. Where units are cut,
 * each direct attempt has one in reserve, for its rest, and one more is kept for the oldest unit's.
 */
static inline bool has_units(const struct job *job, const struct lane *lane, uint32_t taken,
                             bool is_oldest)
{
    if (job->options.output != JOB_OUTPUT_CUTS)
        return job->free_count >= taken;
    uint32_t kept = (taken > 0 || lane->is_direct) && !is_oldest;
    return job->free_count >= taken + job->direct_out + lane->is_direct + kept;
}

/* Units: job_unit.c. */

/*
 * Ends the job. Nobody needs what is still out, so whatever hangs may be given up earlier: the next
 * look is due at once.
 */
void job_stop(struct job *job, enum job_state state);
void job_stop_if_over(struct job *job);
/* A new unit at the end of the range; the caller has made sure that there is room. */
uint32_t job_unit_make(struct job *job, uint64_t items);
void job_unit_free(struct job *job, uint32_t index);
/* A unit of what follows the first items of another, which has no run, with the same past. */
uint32_t job_unit_divide(struct job *job, uint32_t index, uint64_t items);
/* Unordered: its result leaves after those that are there. */
void job_unit_add_done(struct job *job, uint32_t index);
/*
 * Makes the end of a waiting unit, behind its first items, a unit of its own. That one waits too,
 * with the same past; the caller has made sure that there is room.
 */
void job_unit_split(struct job *job, uint32_t index, uint64_t items);
/* Makes what follows its first items, which are done, a unit that runs without an attempt; gives that. */
uint32_t job_unit_cut(struct job *job, uint32_t index, uint64_t items);
/* No attempt writes into the caller's array for it any more. */
void job_unit_let_go(struct job *job, uint32_t index);
/* Its result can never be delivered, whatever it is at. */
void job_unit_doom(struct job *job, uint32_t index);
/* To be run by the next lane that asks: into the list, which is in item order, so that the oldest goes first. */
void job_unit_wait(struct job *job, uint32_t index, uint64_t now_ns);
/* Out of that list, in which it stands after `before`. */
void job_unit_unlink(struct job *job, uint32_t index, uint32_t before);
void job_unit_retry(struct job *job, uint32_t index, uint64_t now_ns);
void job_unit_fail(struct job *job, uint32_t index);
/* The unit is over: its result, or that it has none, can leave. */
void job_unit_end(struct job *job, uint32_t index);
/* No further run of it is worth trying. */
void job_unit_give_up(struct job *job, uint32_t index);

/* Results that are there, parts of units, lanes that change hands: job_parts.c. */

/* Items that are stored, at the front of what nobody has claimed, become units that are done. */
void job_pass_stored(struct job *job);
/* The set was filled before the job began. */
void job_count_stored(struct job *job);
/* Whether a unit that fails is run again in parts. */
bool job_unit_is_narrowed(const struct job *job, const struct unit *unit);
/*
 * The unit, which has no run, waits in parts. `at` is the item that failed, counted from its start, which
 * is then apart and has a try less, or none with `is_final`; JOB_DONE_UNKNOWN: nobody knows which, and
 * the parts are of about one size.
 */
void job_unit_narrow(struct job *job, uint32_t index, uint64_t at, bool is_final, uint64_t now_ns);

/* Lanes and attempts: job_lane.c. */

void job_lane_set_idle(struct job *job, struct lane *lane, bool is_idle);
/* Counts the lane's rate again. The sum is kept, so that a claim does not look at all lanes. */
void job_lane_count_rate(struct job *job, struct lane *lane);
struct job_ticket job_attempt_begin(struct job *job, uint32_t lane_index, uint32_t unit_index,
                                    bool is_copy);
/* The completion does not count any more; the slot stays occupied. */
void job_attempt_deactivate(struct job *job, struct attempt *attempt);
/* Nobody waits for it any more. */
void job_attempt_abandon(struct job *job, const struct attempt *attempt);
/* The device has nothing to do with it any more: the slot is free, the ticket stale. */
void job_attempt_end(struct job *job, struct attempt *attempt);
struct attempt *job_attempt_find(const struct job *job, struct job_ticket ticket);
/* Those of the unit's attempts that were not started are taken back, the others will be late. */
void job_unit_end_runs(struct job *job, const struct unit *unit);
/* One of what the user's policy has given the lane, which has some. */
struct attempt *job_lane_given(struct job *job, uint32_t lane);
/* The job is over, and so is the attempt. */
void job_attempt_cancel(struct job *job, struct attempt *attempt);

/* Time: job_look.c. */

/* How long a direct attempt of a lane that is lost or hung may take to come back. */
double job_doubt_ns(const struct job *job);
/* Something has begun or changed: nothing that follows from it is overdue before this. */
void job_look_soon(struct job *job, uint64_t now_ns);
/*
 * How long the lane has been at the attempt, or at the one before it if it was not started. While the
 * user's own code holds it up, that is nothing.
 */
double job_attempt_elapsed_ns(const struct job *job, const struct attempt *attempt,
                              uint64_t now_ns);
/* How long the run may still need. One that is overdue is taken to need as long again as it took. */
double job_attempt_rest_ns(const struct job *job, const struct attempt *attempt, uint64_t now_ns);
/* How long a unit may wait, or be at its last run, before any idle lane runs it. */
double job_rerun_ns(const struct job *job);
/* When the lane should have done all it holds. One that is late is taken to need as long again. */
double job_lane_rest_ns(const struct job *job, uint32_t lane_index, uint64_t now_ns);

/* Sizes: job_size.c. */

/* A lane's next unit is at most this much larger than the largest it has finished. */
#define JOB_SIZE_GROWTH_MAX 4

/* When all that there is would be done, if every lane kept to its speed and none was idle. */
double job_end_after_ns(const struct job *job, const struct lane *lane);
/*
 * The adaptive rule: a part of what the lane should still do, so that all lanes end together; at most
 * what there is.
 */
uint64_t job_size_adaptive(const struct job *job, const struct lane *lane, uint64_t left);
/*
 * In how many nanoseconds the lane would have done the least it could take, if that is better left to
 * the fastest lane, which would finish it sooner even after everything else; 0 if it is not. Something
 * is out then.
 */
double job_size_left_to_fastest_ns(const struct job *job, const struct lane *lane, uint64_t left,
                                   uint64_t now_ns);
/* Rounded up. */
uint64_t job_size_up_to_grains(const struct job *job, uint64_t items);
/* What has arrived and was never claimed, as far as it can be claimed. */
uint64_t job_size_claimable(const struct job *job);
/* About how many new units can be claimed now. */
uint64_t job_size_ready(const struct job *job);
/* How many items the lane should be given next, 0 for none. */
uint64_t job_size_next(const struct job *job, const struct lane *lane, uint64_t now_ns);

/* Whether nobody could claim a new unit now, since there is none, or no room for it. */
bool job_size_has_none(const struct job *job, const struct lane *lane);

/* The head of the line: job_head.c. */

/*
 * Within what time a lane should have done all that it holds, so that the others are never stopped by
 * it and find room themselves; JOB_UNLIMITED if nothing stops them.
 */
double job_head_ns(const struct job *job);
/*
 * 0 if the lane may be given this many new items, else in how many nanoseconds it is tried whatever comes
 * of it; JOB_UNLIMITED: not before it has finished something. Less than 0: it is to be tried now.
 */
double job_head_refused_ns(const struct job *job, const struct lane *lane, uint64_t items,
                           uint64_t now_ns);
/*
 * The unit that is going to stop all lanes, if it is time that this lane runs it too, instead of a new
 * one of this many items; or, where it must be cut, that it is stopped.
 */
struct job_choice job_head_find(const struct job *job, uint32_t lane_index, uint64_t next_items,
                                uint64_t now_ns);

/* The tail: job_tail.c. */

/*
 * Nothing is left to claim: the unit of another lane that this idle one would finish soonest before
 * it. If there is none yet, the next look is when there may be.
 */
struct job_choice job_tail_find(struct job *job, uint32_t lane_index, uint64_t now_ns);
/* Where a unit is cut, the lane cannot run what another is at, but can have the rest of it. */
bool job_unit_must_be_cut(const struct job *job, const struct lane *lane, const struct unit *unit);
/* Takes a unit that was not started from its lane; true if it was, and is now without an attempt. */
bool job_tail_take_back(struct job *job, uint32_t unit);

/* Claims: job_claim.c. */

/*
 * Whether the lane may run a unit that has waited, or been at its last run, for so long: not where it
 * failed, as long as another lane may come and take it.
 */
bool job_unit_may_run(const struct job *job, uint32_t lane, const struct unit *unit,
                      double waited_ns);
/* What the lane would be given now. Notes when to look, and who drains; takes nothing. */
struct job_choice job_choose(struct job *job, uint32_t lane, uint64_t now_ns);
/* Whether the lane is quarantined, and now is not the time to try it. Notes when that is. */
bool job_lane_rests(struct job *job, const struct lane *lane, uint64_t now_ns);
/* Whether the lane must take nothing new, because it is to run empty for a suspect. */
bool job_lane_must_drain(struct job *job, const struct lane *lane);

/* Who takes part: job_part.c. */

/* How many bytes of the job's memory that takes. */
size_t job_part_bytes(const struct job_options *options);
void job_part_init(struct job *job, void *memory, uint64_t now_ns);
/* The lane has finished a unit that counts. */
void job_part_finished(struct job *job, uint32_t lane, uint64_t items, uint64_t now_ns);
/* The lane has ended a unit that another had finished before. */
void job_part_late(struct job *job, uint32_t lane, uint64_t now_ns);
/* Whether the lane can be given something may have changed. */
void job_part_check_lane(struct job *job, uint32_t lane);
/* The lane was expected, and will not come. */
void job_part_given_up(struct job *job, uint32_t lane);
/* Lanes that are left out take part again if nothing gets on without them. */
void job_part_look(struct job *job, uint64_t now_ns);
struct take_part_size job_part_size(const struct job *job);

/* Places: job_place.c. */

/* Whether the user's policy has something to choose. */
bool job_can_be_placed(struct job *job, uint64_t now_ns);

/* Who asks and who is woken: job_step.c. */

/* The lane has asked and got nothing. */
void job_lane_asks(struct job *job, uint32_t lane, const struct job_choice *choice,
                   uint64_t now_ns);
/* If the choice is that another lane's attempt is to be stopped, that lane is told. */
void job_stop_for(struct job *job, const struct job_choice *choice);
void job_lane_asks_no_more(struct job *job, uint32_t lane);
/* The lane has something to do, whether it asks or not. */
void job_lane_wake(struct job *job, uint32_t lane);
/* Lanes that were told to ask again and have not may be told once more, and others in their place. */
void job_wake_again(struct job *job);

/* Ends: job_finish.c. */

/* Direct attempts of a lane that is lost or hung have not come back: nobody knows what they wrote. */
void job_lane_doubt_ends(struct job *job, uint32_t lane);
/* Fails a job that has no lane left, and none to hope for. */
void job_fail_without_lanes(struct job *job);
void job_lane_retire(struct job *job, uint32_t lane_index, bool is_loss, bool is_charged,
                     uint64_t now_ns);

#endif
