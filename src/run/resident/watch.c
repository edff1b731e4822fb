/*
 * A lane's watch: a thread that sleeps while the lane is parked. While it runs the watch wakes about once in
 * `idle_ns`, parks it when it had nothing to do for so long, and counts signs of life. It looks for ends
 * only as long as somebody relies on them who does not look.
 */
#include "base/invariant.h"
#include "run/resident/resident.h"

/* Between two looks for somebody who relies on it; on seats that ring when they have ended something: longer. */
#define LISTEN_NS 30000u
/* A run that has given no sign yet: the device may be full of other work. */
#define FIRST_SIGN_NS 10000000000u
/* How long leaving may take, beyond hang_ns. */
#define LEAVE_NS 1000000000u
#define LEAVE_LOOK_NS 20000u
/* Of hang_ns: between two looks for signs of life. */
#define SIGNS_OF_HANG 8

/* Whether a seat has work and gave no sign for too long. */
static bool is_seat_hung_locked(struct muster_resident *lane, uint32_t seat, uint64_t now_ns)
{
    struct resident_side *side = &lane->sides[seat];
    uint64_t beats = atomic_load_explicit(&lane->signs[seat].beats, memory_order_relaxed);
    uint32_t number = side->ended + 1;
    if (side->ended != side->posted) {
        const struct resident_record *record =
            &lane->records[lane->order[(size_t)seat * lane->options.entries +
                                       (number - 1) % lane->options.entries]];
        bool is_same = beats == side->seen_beats && number == side->seen_number;
        if (is_same && !resident_has_ended(record)) {
            uint64_t limit_ns = lane->options.hang_ns;
            if (!side->has_begun && limit_ns < FIRST_SIGN_NS)
                limit_ns = FIRST_SIGN_NS;
            return now_ns - side->seen_ns > limit_ns;
        }
    }
    side->has_begun |= beats != side->seen_beats;
    side->seen_beats = beats;
    side->seen_number = number;
    side->seen_ns = now_ns;
    return false;
}

static void look_for_signs_locked(struct muster_resident *lane)
{
    uint64_t now_ns = platform_clock_ns();
    for (uint32_t i = 0; i < lane->seat_count; i++) {
        if (!is_seat_hung_locked(lane, i, now_ns))
            continue;
        uint64_t silent_ms = (now_ns - lane->sides[i].seen_ns) / 1000000;
        resident_lose_locked(lane, MUSTER_E_DEVICE_HUNG);
        platform_mutex_unlock(&lane->lock);
        run_log(lane->m, MUSTER_LOG_ERROR,
                "a resident lane of %u kernels gave no sign of life for %llu ms and is given up",
                lane->kernel_count, (unsigned long long)silent_ms);
        platform_mutex_lock(&lane->lock);
        return;
    }
}

/* Waits until all seats have left; the lock is not held meanwhile. */
static void await_leaving_locked(struct muster_resident *lane)
{
    struct muster_error problem = { .size = sizeof problem };
    uint64_t begin_ns = platform_clock_ns(), now_ns;
    uint64_t limit_ns = lane->options.hang_ns + LEAVE_NS;
    muster_status status;
    for (;;) {
        platform_mutex_unlock(&lane->lock);
        status = lane->kind->query(lane, &problem);
        now_ns = platform_clock_ns();
        platform_mutex_lock(&lane->lock);
        if (status != MUSTER_E_BUSY || now_ns - begin_ns > limit_ns)
            break;
        platform_condition_wait(&lane->changed, &lane->lock, platform_deadline_ns(LEAVE_LOOK_NS));
    }
    if (now_ns - begin_ns > lane->leave_ns)
        lane->leave_ns = now_ns - begin_ns;
    lane->parks += status == MUSTER_OK;
    lane->state = RESIDENT_OFF;
    if (status != MUSTER_OK && !lane->is_lost) {
        resident_lose_locked(lane, status == MUSTER_E_BUSY ? MUSTER_E_DEVICE_HUNG : status);
        platform_mutex_unlock(&lane->lock);
        run_log(lane->m, MUSTER_LOG_ERROR, "a resident lane does not leave: %s",
                status == MUSTER_E_BUSY ? "it does not answer" : problem.text);
        platform_mutex_lock(&lane->lock);
    }
    platform_condition_wake_all(&lane->changed);
}

static void begin_leaving_locked(struct muster_resident *lane)
{
    lane->state = RESIDENT_LEAVING;
    /* Release: a seat that leaves has nothing of the next run before its eyes. */
    atomic_store_explicit(&lane->control->run, 0, memory_order_release);
}

muster_status resident_leave(struct muster_resident *lane, struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    platform_mutex_lock(&lane->lock);
    while (!lane->is_lost && lane->state != RESIDENT_OFF && status == MUSTER_OK) {
        if (lane->in_ring > 0)
            status = muster_error_fill(err, MUSTER_E_BUSY, 0, "wait for its tasks first",
                                       "the lane has %u tasks that have not ended", lane->in_ring);
        else if (lane->state == RESIDENT_ON) {
            begin_leaving_locked(lane);
            await_leaving_locked(lane);
        } else {
            platform_condition_wait(&lane->changed, &lane->lock, UINT64_MAX);
        }
    }
    if (status == MUSTER_OK && lane->is_lost)
        status =
            muster_error_fill(err, lane->lost_status, 0, "destroy the lane", "the lane is lost");
    platform_mutex_unlock(&lane->lock);
    return status;
}

/* Has ended tasks ended in the table. True if somebody relies on more of that. */
static bool tell(struct muster_resident *lane)
{
    bool is_relied_on = false;
    if (lane->in_ring > 0 || lane->orphans) {
        platform_mutex_unlock(&lane->lock);
        is_relied_on = lane->m->resident_hooks.tell(lane, true);
        platform_mutex_lock(&lane->lock);
    }
    return is_relied_on && (lane->in_ring > 0 || lane->orphans);
}

static uint64_t next_look_ns(const struct muster_resident *lane, bool is_listening)
{
    if (is_listening)
        return platform_deadline_ns(LISTEN_NS);
    if (lane->state != RESIDENT_ON || lane->is_lost)
        return lane->orphans ? platform_deadline_ns(LISTEN_NS) : UINT64_MAX;
    uint64_t step_ns = lane->options.idle_ns, signs_ns = lane->options.hang_ns / SIGNS_OF_HANG;
    if (lane->in_ring > 0 && signs_ns < step_ns)
        step_ns = signs_ns;
    return platform_deadline_ns(step_ns);
}

static bool is_idle_locked(const struct muster_resident *lane)
{
    /* The coarse clock is some milliseconds behind: parking may be as much too early or late. */
    uint64_t now_ns = platform_clock_coarse_ns();
    return lane->state == RESIDENT_ON && lane->in_ring == 0 && !lane->is_lost &&
           lane->options.idle_ns != UINT64_MAX && now_ns > lane->last_post_ns &&
           now_ns - lane->last_post_ns >= lane->options.idle_ns;
}

void resident_watch(void *argument)
{
    struct muster_resident *lane = argument;
    platform_thread_hurry();
    platform_mutex_lock(&lane->lock);
    while (!lane->watch_must_stop) {
        /* Seats of threads wake us when they end something, if this is set; see resident_listen. */
        bool is_listening = atomic_load_explicit(&lane->is_listening, memory_order_relaxed);
        platform_condition_wait(&lane->watch_wake, &lane->lock, next_look_ns(lane, is_listening));
        if (lane->state == RESIDENT_ON && !lane->is_lost)
            look_for_signs_locked(lane);
        /* Before it is asked: who begins to rely on us meanwhile sets it again. */
        atomic_store_explicit(&lane->is_listening, false, memory_order_relaxed);
        if (tell(lane))
            atomic_store_explicit(&lane->is_listening, true, memory_order_seq_cst);
        if (is_idle_locked(lane)) {
            begin_leaving_locked(lane);
            await_leaving_locked(lane);
        }
        /* Posted while it left. */
        if (lane->state == RESIDENT_OFF && lane->in_ring > 0 && !lane->is_lost)
            resident_start_locked(lane);
    }
    platform_mutex_unlock(&lane->lock);
}
