/*
 * A job over a range of items: who gets which units, how large they are, what becomes of those that
 * fail, and in what order results leave. The one scheduler: lane threads call it under a lock with
 * the real clock, the simulator calls it alone with a virtual one. Pure: time is a parameter, memory
 * is given at init, nothing is printed, allocated or waited for here.
 *
 * A unit is a contiguous range of items. An attempt is one run of a unit on one lane; its ticket
 * goes stale when the attempt is over or taken back, so a late completion is told apart. Undelivered
 * units form a list in item order, of which the delivered prefix is cut off.
 */
#ifndef CORE_JOB_H
#define CORE_JOB_H

#include "core/grains.h"
#include "core/rate.h"
#include "core/take_part.h"

#include <muster/job.h>
#include <muster/status.h>
#include <stdbool.h>

#define JOB_NONE UINT32_MAX
/* A job keeps at most this many failed ranges apart; further ones are merged into the last. */
#define JOB_FAILED_MAX 64

enum job_unit_rule { JOB_UNIT_ADAPTIVE, JOB_UNIT_QUARTER, JOB_UNIT_FIXED };

/* In place mode, which lane is given the next unit. */
enum job_policy {
    JOB_ROUND_ROBIN,
    JOB_LEAST_LOADED,
    JOB_WEIGHTED,
    JOB_ADAPTIVE,
    JOB_EARLIEST_FINISH,
    JOB_STICKY, /* lane `home`, unless it is full and the least loaded is far behind */
    JOB_USER    /* the user's: job_snapshot and job_commit */
};

/*
 * Where attempts write their results. Lanes that do not work on the caller's memory
 * (job_lane_set_direct) always use slots.
 */
enum job_output {
    /* Into slots of Muster's, copied to the caller at delivery: any number of attempts at once. */
    JOB_OUTPUT_SLOTS,
    /*
     * Straight into the caller's array, which is only written: one direct attempt of a unit at a time,
     * others use slots. A result from a slot is not delivered before the direct attempt has ended.
     */
    JOB_OUTPUT_DIRECT,
    /*
     * In the caller's array, which is read too: a unit with such an attempt has no other, and what is
     * done of it is not run again. An attempt that does not end well says how many items from its start
     * are done: there the unit is cut, and the rest is a unit of its own.
     */
    JOB_OUTPUT_CUTS
};

struct job_options {
    uint64_t items;
    enum job_unit_rule unit;
    uint64_t unit_items;  /* of JOB_UNIT_FIXED */
    uint64_t unit_max;    /* what a slot holds; 0: anything */
    uint64_t first_items; /* of JOB_UNIT_ADAPTIVE: a lane's first unit; 0: 1 */
    uint64_t unit_ns;     /* likewise: units that would take longer are smaller; 0: any time */
    bool first_alone; /* likewise: a lane has nothing beside its first unit until that has ended */
    /*
     * Likewise, where there is one lane and `unit_ns`: what an earlier job did on it in a nanosecond, so
     * that the first units need not be small; 0: not known.
     */
    double known_per_ns;
    /*
     * Units are whole numbers of this many items, but for the last; 0: 1. The others that count items
     * are multiples of it, or as many as there are.
     */
    uint64_t grain;
    uint64_t window; /* most items claimed and not delivered; 0: any number */
    uint32_t lane_count;
    uint32_t depth;     /* units a lane may hold; at least 1 */
    uint32_t units_max; /* units that may be undelivered at once, at least lane_count x depth */
    uint32_t tries;     /* runs of a unit before it fails; at least 1 */
    bool ordered, speculate;
    bool tolerant; /* a unit that fails is delivered as such; else the job fails with it */
    bool supplied; /* items arrive one after the other: job_supply. Else all are there */
    bool place;    /* lanes are given units by `policy`; else they take them */
    enum job_policy policy;
    uint32_t home; /* of JOB_STICKY: the lane of the key's home, see placement_affinity */
    enum job_output
        output;          /* not SLOTS: not `tolerant`; CUTS: over twice as many units as attempts */
    uint64_t timeout_ns; /* an attempt that takes longer makes its lane hung; 0: by expectation */
    /*
     * Lanes that cost the job more than they bring are left out: core/take_part.h. Of no effect with
     * `place`, with one lane, or with more than TAKE_PART_LANES_MAX.
     */
    bool leaves_out;
    const struct take_part_lesson
        *lesson; /* of earlier jobs of its kind; borrowed for job_init; NULL */
    /*
     * The rest is for jobs on many machines (core/fleet), of adaptive units, with `grain` up to 1, a window
     * and no fewer units than that has items: then there always is a unit for a part of another.
     */
    uint64_t begin; /* items below it were delivered before, and are nothing to this job */
    /*
     * Items whose results are there though this job has not run them: they are delivered in their turn, and
     * never claimed. Borrowed for the job's life, and changed by job_note_stored alone; NULL: none.
     */
    struct grain_set *stored;
    /*
     * A unit of several items that fails, or that its device dies of while it runs alone, is run again in
     * parts, until what failed is one item: only that has tries, and is named when it has none left.
     */
    bool narrows;
    bool waits_for_lanes;      /* without a lane the job does not fail: one may come */
    uint64_t overdue_least_ns; /* no attempt is overdue before, but by `timeout_ns` */
};

enum job_state { JOB_RUNNING, JOB_DONE, JOB_FAILED, JOB_CANCELLED };

/* One attempt that is out. */
struct job_ticket {
    uint32_t attempt, generation;
};

struct job_claim {
    struct job_ticket ticket;
    struct muster_range range;
    uint32_t unit;
    /*
     * A retry may be a part of the unit that failed or was lost, under an index of its own. A copy is
     * a run of a unit that runs elsewhere too.
     */
    bool is_retry, is_copy;
    bool is_direct;  /* writes into the caller's array; else into a slot */
    bool is_started; /* by job_step: it needs no job_kick */
};

/* How an attempt ended. */
enum job_end {
    JOB_END_OK,
    JOB_END_UNIT, /* the unit failed: retried elsewhere */
    JOB_END_USER, /* the user's code refused it: never retried */
    JOB_END_DEVICE, /* the device is lost: see job_lane_lost. This attempt is over, others may not be */
    JOB_END_DROPPED, /* broken off, because the job is over */
    JOB_END_STOPPED, /* JOB_OUTPUT_CUTS: broken off since job_should_stop; not the unit's fault */
    JOB_END_MEMORY,  /* the device had no memory for it now: it waits, and no try is counted */
    JOB_END_AGAIN    /* its device was started again because of another unit: no try is counted */
};

/* How many items from its start an attempt has done, where nobody knows. */
#define JOB_DONE_UNKNOWN UINT64_MAX

/* What became of a completion. */
enum job_verdict {
    JOB_ACCEPTED, /* the unit is done */
    JOB_LATE,     /* the ticket is stale, or another attempt was first: drop the result */
    JOB_AGAIN,    /* the unit will be run again */
    JOB_REFUSED,  /* the unit has failed, and with it the job */
    JOB_GIVEN_UP  /* the unit has failed, and will be delivered as one that did */
};

/* One attempt that has ended, for job_step. */
struct job_ended {
    struct job_ticket ticket;
    enum job_end end;
    /*
     * JOB_OUTPUT_CUTS, direct, not OK: items done from its start, whole grains; or JOB_DONE_UNKNOWN. With
     * `narrows`, not OK: which item failed, counted from its start; or JOB_DONE_UNKNOWN.
     */
    uint64_t done;
    enum job_verdict verdict; /* out */
};

/* One earlier claim that the lane is about to start, for job_step. */
struct job_start {
    struct job_ticket ticket;
    bool is_started; /* out: false if it was taken back or the job is over */
};

/* Most claims that one job_step gives. */
#define JOB_STEP_MAX 64

/* What a lane brings and takes in one call. */
struct job_round {
    struct job_ended *ends;
    uint32_t end_count;
    struct job_start *starts;
    uint32_t start_count;
    struct job_claim *claims; /* out */
    uint32_t claim_max;       /* room in it */
    uint32_t start_max;       /* this many of the new claims, the first ones, are started at once */
    uint32_t claim_count;     /* out */
};

/* What calls have left for others to do, or-ed. */
enum job_news {
    JOB_NEWS_RESULT = 1, /* for the delivering thread: job_next_result has one */
    JOB_NEWS_LOOK = 2,   /* for the watching thread: the next look is due sooner */
    JOB_NEWS_OVER = 4,   /* the job has ended */
    JOB_NEWS_QUIET = 8,  /* the job has ended and is quiet */
    JOB_NEWS_LANES = 16, /* job_wake_lane has some */
    JOB_NEWS_PLACE = 32  /* JOB_USER: job_snapshot has something to place */
};

/* A lane as a user's policy sees it. */
struct job_lane_view {
    uint32_t lane, held; /* units it has, of `depth` */
    uint64_t held_items;
    double items_per_ns; /* 0: not measured */
    double weight;
};

struct job_lane_report {
    uint64_t items, units, retries; /* accepted; attempts that failed on it */
    uint64_t copies_lost;           /* attempts that finished late */
    bool is_lost, is_hung;
    bool is_quarantined; /* its last units failed and others' do not; tried again now and then */
    double
        faster_without; /* above 0: it is left out, and the job is faster without it by this factor */
};

struct job;

/* How many bytes job_init wants, aligned as for any type; 0 if the options make no sense. */
/* Whether a job with these options may leave out a lane, and learns who should take part. */
bool job_may_leave_out(const struct job_options *options);
size_t job_bytes(const struct job_options *options);
struct job *job_init(void *memory, const struct job_options *options, uint64_t now_ns);

/* Before the lane's first claim: the failure domain and the weight of each lane. */
void job_lane_describe(struct job *job, uint32_t lane, uint32_t domain, double weight);

/* Before the lane's first claim, and not with JOB_OUTPUT_SLOTS: the lane works on the caller's memory. */
void job_lane_set_direct(struct job *job, uint32_t lane);
/* What the lane's device does can be ended by force, and then it goes on: to give up an attempt gives up no lane. */
void job_lane_set_restartable(struct job *job, uint32_t lane);

/*
 * Lanes whose devices are not open yet. job_lane_expect, before the first claim: the lane is given nothing
 * and counts for nothing but hope, so that a job that loses all others waits for it. Then one of these:
 * job_lane_join, the device is there; it may be described, and set direct, just before. Or
 * job_lane_give_up, it will not come: that ends a job which has no other lane.
 */
void job_lane_expect(struct job *job, uint32_t lane);
/*
 * Nobody opens their drivers yet: until job_should_open, or a lane joins, units are as large as if those
 * lanes did not exist.
 */
void job_opens_later(struct job *job);
/*
 * Whether the drivers of such lanes should be opened by now (core/opening.h). `has_devices`: the lanes
 * that are expected are theirs; `before_ns`: what earlier jobs took without them. If not, `*look_ns` is when
 * to ask again.
 */
bool job_should_open(struct job *job, bool has_devices, uint64_t before_ns, uint64_t now_ns,
                     uint64_t *look_ns);
void job_lane_join(struct job *job, uint32_t lane, uint64_t now_ns);
void job_lane_give_up(struct job *job, uint32_t lane);
/*
 * The lane is given up and expected again, for another device that takes its place and is not known: what
 * it held is anybody's, and tickets of it are stale from now on. `is_loss`: as job_lane_lost, else nothing
 * of it is suspect. For JOB_OUTPUT_SLOTS, without `place` and `leaves_out`.
 */
void job_lane_leave(struct job *job, uint32_t lane, bool is_loss, uint64_t now_ns);

/*
 * The call for lanes: hands in what ended, starts earlier claims, takes out new ones; in this order,
 * as job_finish_at, job_kick and job_claim do. At most JOB_STEP_MAX claims, and where units have a
 * given size no more than the lane's part of what is ready.
 */
void job_step(struct job *job, uint32_t lane, struct job_round *round, uint64_t now_ns);

/*
 * Who has something to do after the calls since the last job_news. The caller asks before it lets go of
 * the lock, and wakes those alone. Each thing is told once: RESULT again after job_next_result has
 * returned false, LOOK when a look is due sooner than was told, PLACE until job_snapshot.
 */
uint32_t job_news(struct job *job, uint64_t now_ns);
/*
 * The next lane to wake, JOB_NONE if there are no more: a lane that asked, got nothing and would be given
 * something now, one whose claim was taken back, or one with an attempt that job_should_stop. No more
 * lanes are woken than there are units for them. A lane that was woken asks again; whether it gets
 * something or not, job_news then says which lane is next. So a lane may sleep when it has no room, or
 * has room and its last call asked and got nothing; before, it drops claims that are not job_is_out.
 */
uint32_t job_wake_lane(struct job *job);

/* In place mode: the lane that is to be given the next new unit, JOB_NONE if that must wait. */
uint32_t job_place(struct job *job, uint64_t now_ns);

/*
 * JOB_USER: what the user's policy is to choose from, for the next new unit: the lanes that can be given
 * one, in `lanes`, which has room for all. Gives how many there are; 0: nothing can be placed now, or
 * the policy is being asked already. The policy is then asked with no lock held; job_commit must follow.
 */
uint32_t job_snapshot(struct job *job, struct job_lane_view *lanes, uint64_t now_ns);
/*
 * Gives the lane that was chosen its unit, which the lane's next claim then takes; JOB_NONE: the policy
 * chose none, nothing is placed before something changes. False if the lane cannot be given one any
 * more: the policy is asked again, from a new snapshot, but not more than JOB_ASKS_MAX times in a row;
 * then it is busy, and asked again when something changes.
 */
bool job_commit(struct job *job, uint32_t lane, uint64_t now_ns);
#define JOB_ASKS_MAX 3

/*
 * Gives the lane a unit, if there is one for it now. A lane that gets nothing asks again when
 * something was finished, delivered, lost or taken back, and after a look.
 */
bool job_claim(struct job *job, uint32_t lane, uint64_t now_ns, struct job_claim *out);

/*
 * With `stored`: results of these items have turned up. It counts for those that nobody is at: they are
 * delivered in their turn.
 */
void job_note_stored(struct job *job, struct muster_range range);
/*
 * The lane is at these items already, though this job has not given them to it: an earlier one has. Makes
 * the first run of them that is neither done nor anybody's the lane's, and started; false if there is
 * none, or the lane cannot be given anything. For jobs with `narrows`.
 */
bool job_adopt(struct job *job, uint32_t lane, struct muster_range range, uint64_t now_ns,
               struct job_claim *out);

/*
 * Where items are supplied: those before `until` have arrived, or there are no more than have. The
 * number of items that the options gave is then the most there can be. A job that is over keeps it.
 */
void job_supply(struct job *job, uint64_t until);
void job_supply_ends(struct job *job);
/* Whether the attempt still has its lane's slot: it is not over and was not taken back. */
bool job_is_out(const struct job *job, struct job_ticket ticket);

/*
 * The lane is about to start the attempt; false if it was taken back or the job is over, and nothing
 * is to be done. A lane asks for every claim, also after the end: that gives the slot back.
 */
bool job_kick(struct job *job, struct job_ticket ticket, uint64_t now_ns);

/* If the attempt fails now, its unit is out of tries. */
bool job_is_last_try(const struct job *job, struct job_ticket ticket);

/*
 * The lane runs a part of the attempt's unit again: its clock starts again, and tells nothing any more.
 * False if its completion does not count any more or the job is over, and it is to be broken off.
 */
bool job_restart(struct job *job, struct job_ticket ticket, uint64_t now_ns);

/*
 * The attempt's result is not wanted: another was first, or the job is over; or, with JOB_OUTPUT_CUTS,
 * an idle lane would be done with the rest sooner. To be stopped if the device can.
 */
bool job_should_stop(const struct job *job, struct job_ticket ticket);

/* `done` as in struct job_ended. */
enum job_verdict job_finish_at(struct job *job, struct job_ticket ticket, enum job_end end,
                               uint64_t done, uint64_t now_ns);
/* The same where nothing is done unless all is. */
enum job_verdict job_finish(struct job *job, struct job_ticket ticket, enum job_end end,
                            uint64_t now_ns);

/*
 * The lane's device is lost, and with it every lane of its failure domain. What had been started
 * there is suspect and is rerun alone, elsewhere, where units are adaptive in parts.
 *
 * Direct attempts of a lane that is lost or hung may still write into the caller's array until they are
 * handed in (job_finish_at, with any end). With JOB_OUTPUT_CUTS nobody runs the unit before that. They
 * are waited for as long as `timeout_ns` says, or 10 s; then their units fail, and with them the job.
 */
void job_lane_lost(struct job *job, uint32_t lane, uint64_t now_ns);

/*
 * The user's own code holds up what the lane has, or does so no longer: meanwhile nothing of it is
 * overdue, and afterwards its clock starts again.
 */
void job_lane_held_up(struct job *job, uint32_t lane, bool is_held_up, uint64_t now_ns);

/*
 * The lane's device has no memory or no streams for more now, or has some again: meanwhile the lane is
 * given nothing, and nothing is left to it. It keeps what it has. The lane asks when that is over.
 */
void job_lane_short(struct job *job, uint32_t lane, bool is_short, uint64_t now_ns);

/*
 * Looks for attempts that are overdue; gives when to look again, UINT64_MAX if that is not needed. Any
 * thread may do it that has the lock: nothing here depends on who delivers, who may be in a long sink.
 * Lanes that have nothing ask again after it: by then a unit may be worth a second run, or may have
 * waited long enough for a faster lane. Once a job is over, a look is due at once: what is still out
 * is given up sooner than if it were needed.
 */
uint64_t job_look(struct job *job, uint64_t now_ns);
/* When the lane's oldest started attempt is overdue, UINT64_MAX if it has none. */
uint64_t job_overdue_ns(const struct job *job, uint32_t lane);
/* The same without looking: a kick, a finish or a claim since may have brought it forward. */
uint64_t job_look_due(const struct job *job);

/* The next unit whose result may leave, in order if the job is; false if there is none yet. */
bool job_next_result(struct job *job, uint32_t *unit, struct muster_range *range);
/* Whether it is one that failed, and has no result. */
bool job_has_failed(const struct job *job, uint32_t unit);
/* Whether its result is in the caller's array already; else it is in the slot of who was accepted. */
bool job_is_direct(const struct job *job, uint32_t unit);
/* Its result has left: the window moves. */
void job_delivered(struct job *job, uint32_t unit);
/* Its first items have left, fewer than all: the window moves, and the unit is what is left of it. */
void job_delivered_part(struct job *job, uint32_t unit, uint64_t items);
/*
 * The results of its first items, or of all, have vanished: these are run again, and what follows them
 * is to leave later. For jobs with `narrows`.
 */
void job_result_missing(struct job *job, uint32_t unit, uint64_t items, uint64_t now_ns);
/* The sink refused it: the job fails. */
void job_sink_failed(struct job *job, uint32_t unit);

void job_cancel(struct job *job);
/* What is not available outside makes the job fail, unless all is done: nothing more is claimed. */
void job_fail(struct job *job);

enum job_state job_state(const struct job *job);
/* No attempt is out, but those of lanes that are lost or hung. */
bool job_is_quiet(const struct job *job);
uint64_t job_items(const struct job *job);
uint64_t job_items_delivered(const struct job *job);
/* The first item that was not delivered, or has not arrived: what comes before is not needed again. */
uint64_t job_items_needed(const struct job *job);
uint64_t job_window_used(const struct job *job);
uint64_t job_units_made(const struct job *job);
uint64_t job_retries(const struct job *job);
void job_lane_report(const struct job *job, uint32_t lane, struct job_lane_report *out);
/*
 * What the job has learned of who should take part, for the next of its kind; all zero where nobody
 * can be left out. For a job that is over and met this many page faults.
 */
void job_learn(const struct job *job, struct take_part_lesson *out, uint64_t faults,
               uint64_t now_ns);
/* The ranges that were not delivered because units failed or no lane was left, merged. */
size_t job_failed_ranges(const struct job *job, struct muster_range *out, size_t capacity);

/* Checks every invariant, at a cost that grows with the job: for tests. Gives NULL, or what is wrong. */
const char *job_check(const struct job *job);

#endif
