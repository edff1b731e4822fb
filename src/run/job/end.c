/*
 * The end of a job: what it waits for, and what is given up.
 */
#include "run/job/lessons.h"
#include "run/job/pipeline.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Between two looks of the threads that wait. */
#define LOOK_PAUSE_NS 20000u

void job_note_locked(struct muster_job *job, const struct muster_error *error)
{
    if (job->error.status == MUSTER_OK)
        job->error = *error;
}

static void add_missing(char *text, const char *format, ...)
{
    size_t length = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    if (length > 0 && length + 2 < JOB_MISSING_BYTES) {
        memcpy(text + length, ", ", 3);
        length += 2;
    }
    vsnprintf(text + length, JOB_MISSING_BYTES - length, format, arguments);
    va_end(arguments);
}

static bool is_inside(const struct job_thread *thread)
{
    return thread->state == THREAD_INSIDE;
}

bool job_name_missing_locked(const struct muster_job *job, char *text, struct run_device **device)
{
    text[0] = 0;
    *device = NULL;
    for (uint32_t i = 0; i < job->lane_count; i++) {
        const struct run_lane *lane = &job->lanes[i];
        const char *id = job->lane_ids[i];
        if (lane->thread.state != THREAD_INSIDE || (lane->is_joining && !job->is_over))
            continue;
        if (!*device)
            *device = lane->device;
        if (lane->is_held_up)
            add_missing(text, "a host stage, for %s", id);
        else if (lane->running > 0)
            add_missing(text, "%s, which still holds %u unit%s", id, lane->running,
                        lane->running == 1 ? "" : "s");
        else
            add_missing(text, "the driver of %s", id);
    }
    if (source_has_thread(job, is_inside))
        add_missing(text, "the source");
    if (job->asker.thread.state == THREAD_INSIDE &&
        atomic_load_explicit(&job->asker.thread.is_away, memory_order_relaxed))
        add_missing(text, "the policy");
    if (job->conductor.state == THREAD_INSIDE &&
        atomic_load_explicit(&job->conductor.is_away, memory_order_relaxed))
        add_missing(text, "the sink");
    return text[0] != 0;
}

/*
 * The job is over, or cancelled: lanes leave, also while the sink is busy, and from now on those that
 * are away have `close_ns` to come back.
 */
static void begin_patience_locked(struct muster_job *job)
{
    if (job->work.must_leave || job_state(job->core) == JOB_RUNNING)
        return;
    job->work.must_leave = true;
    job->give_up_ns = platform_deadline_ns(job->m->options.close_ns);
    joining_end_locked(job);
    job_wake_locked(job);
    /* Threads may be waiting for their turn at the policy, or for devices. */
    if (job->asker.policy.choose || job->joining.late != 0)
        platform_condition_wake_all(&job->m->changed);
}

void job_cancel_locked(struct muster_job *job)
{
    job_cancel(job->core);
    begin_patience_locked(job);
    job_wake_locked(job);
}

/* When to look again, if all that is awaited comes back by itself, and soon. */
static uint64_t next_look_ns(const struct muster_job *job, uint64_t now_ns)
{
    return now_ns < job->give_up_ns ? job->give_up_ns : now_ns + JOB_LOOK_AGAIN_NS;
}

/* How the job ended, in the caller's terms. */
static void conclude_locked(struct muster_job *job)
{
    struct muster_error problem = { .size = sizeof problem };
    char of_all[32] = "";
    if (job_items(job->core) != MUSTER_ITEMS_UNKNOWN)
        snprintf(of_all, sizeof of_all, " of %llu", (unsigned long long)job_items(job->core));
    switch (job_state(job->core)) {
    case JOB_DONE:
        job->status = job->failed_items > 0 ? MUSTER_E_FAILED : MUSTER_OK;
        job->error = job->failed_items > 0 ? job->first_failed : problem;
        break;
    case JOB_CANCELLED:
        job->status = muster_error_fill(&problem, MUSTER_E_CANCELLED, 0, NULL,
                                        "the job was cancelled after %llu%s items",
                                        (unsigned long long)job_items_delivered(job->core), of_all);
        job->error = problem;
        break;
    default:
        muster_error_fill(&problem, MUSTER_E_FAILED, 0, NULL, "the job failed");
        job_note_locked(job, &problem);
        job->status = job->error.status;
    }
    /* What was given up may still use the caller's memory, also of a job that others have finished. */
    struct run_device *device;
    char missing[JOB_MISSING_BYTES];
    bool is_left = job_name_missing_locked(job, missing, &device);
    if (is_left) {
        job->status = muster_error_fill(&job->error, MUSTER_E_DEVICE_HUNG, 0,
                                        "keep the job's arrays until the runtime is closed",
                                        "no answer from %s; %llu%s items were delivered", missing,
                                        (unsigned long long)job_items_delivered(job->core), of_all);
        if (device)
            run_error_device(&job->error, device);
    }
    if (job_state(job->core) != JOB_DONE || is_left)
        job->end_ns = platform_clock_ns();
}

/* Lanes that hang. */
static void give_up_hung_locked(struct muster_job *job)
{
    for (uint32_t i = 0; i < job->lane_count; i++) {
        struct job_lane_report report;
        job_lane_report(job->core, i, &report);
        if (!report.is_hung)
            continue;
        lane_give_up_locked(&job->lanes[i]);
        live_lane_locked(job, i, 0, job->looked_ns);
    }
}

/*
 * The look has failed the job, since a device hangs. It may be back when the job ends, so that it is not
 * among what is missing then, and so it is named now.
 */
static void note_hung_locked(struct muster_job *job)
{
    struct muster_error problem;
    uint32_t hung = job->lane_count;
    for (uint32_t i = 0; i < job->lane_count; i++) {
        struct job_lane_report report;
        job_lane_report(job->core, i, &report);
        hung = report.is_hung ? i : hung;
    }
    muster_error_fill(&problem, MUSTER_E_DEVICE_HUNG, 0, NULL,
                      job->output == JOB_OUTPUT_SLOTS
                          ? "no device is left: %s does not answer"
                          : "%s does not answer: it is the last device, or works in the arrays",
                      hung < job->lane_count ? job->lane_ids[hung] : "the last");
    if (hung < job->lane_count)
        run_error_device(&problem, job->lanes[hung].device);
    job_note_locked(job, &problem);
}

/* A device in a process of its own is stopped and started again, and its lane goes on. */
static void stop_overdue_locked(struct muster_job *job, uint64_t now_ns)
{
    for (uint32_t i = 0; i < job->lane_count; i++) {
        struct run_lane *lane = &job->lanes[i];
        if (lane->device && lane->plan && !lane->is_stopped &&
            job_overdue_ns(job->core, i) <= now_ns)
            lane_stop_locked(lane, now_ns);
    }
}

void job_look_locked(struct muster_job *job, uint64_t now_ns)
{
    stop_overdue_locked(job, now_ns);
    bool was_running = job_state(job->core) == JOB_RUNNING;
    job_look(job->core, now_ns);
    job->looked_ns = platform_clock_ns();
    give_up_hung_locked(job);
    if (was_running && job_state(job->core) == JOB_FAILED)
        note_hung_locked(job);
    job_tell_locked(job);
    /* The source leaves its ring to a device that hangs. */
    platform_condition_wake_all(&job->source.changed);
}

/* Looks for what is overdue if it is time to, and else waits until it is or something changes. */
void job_look_or_wait_locked(struct muster_job *job)
{
    uint64_t due_ns = job_look_due(job->core), now_ns = platform_clock_ns();
    /* Where units take less than a look, lanes must get the lock between two looks: pipeline_bytes_cuda_slices. */
    if (due_ns < job->looked_ns + LOOK_PAUSE_NS)
        due_ns = job->looked_ns + LOOK_PAUSE_NS;
    if (now_ns < due_ns)
        platform_condition_wait(&job->news, &job->m->lock,
                                least(due_ns, next_look_ns(job, now_ns)));
    else
        job_look_locked(job, now_ns);
}

/*
 * Whether the end waits for the thread. One that had its time and is away, or whose device still
 * `has_work`, is given up.
 */
static bool is_awaited_locked(struct job_thread *thread, bool has_work, bool had_time)
{
    if (thread->state != THREAD_INSIDE || thread_is_given_up(thread))
        return false;
    bool is_away = atomic_load_explicit(&thread->is_away, memory_order_relaxed);
    if (!had_time || !(is_away || has_work))
        return true;
    atomic_store_explicit(&thread->is_given_up, true, memory_order_relaxed);
    return false;
}

static bool are_awaited_locked(struct muster_job *job)
{
    bool had_time = platform_clock_ns() >= job->give_up_ns;
    bool are_awaited = is_awaited_locked(&job->asker.thread, false, had_time);
    struct job_thread *thread;
    for (uint32_t i = 0; (thread = source_thread(job, i)); i++)
        are_awaited = is_awaited_locked(thread, false, had_time) || are_awaited;
    for (uint32_t i = 0; i < job->lane_count; i++) {
        struct run_lane *lane = &job->lanes[i];
        struct job_lane_report report;
        if (lane->is_joining)
            continue;
        job_lane_report(job->core, i, &report);
        /* A lane that the core found to hang had its time while the job ran. */
        bool is_awaited =
            is_awaited_locked(&lane->thread, lane->running > 0, had_time || report.is_hung);
        if (thread_is_given_up(&lane->thread))
            lane_give_up_locked(lane);
        are_awaited = are_awaited || is_awaited;
    }
    return are_awaited;
}

/*
 * The end of the job: waits until lanes and source have left or are given up, and concludes. Looks
 * on meanwhile: a lane whose device hangs would never leave. Called with the lock, by one thread.
 */
void job_end_locked(struct muster_job *job)
{
    job->is_ending = true;
    begin_patience_locked(job);
    while (are_awaited_locked(job))
        job_look_or_wait_locked(job);
    conclude_locked(job);
    trace_job_locked(job);
    job->is_over = true;
    lessons_keep_locked(job);
    job_make_report_locked(job, job->end_ns, &job->report);
    live_job_end_locked(job);
    job_wake_locked(job);
}

/*
 * Waits until the job is over, or until the deadline. Its sink has as much time as all others, and is
 * then given up.
 */
void job_wait_until_over_locked(struct muster_job *job, uint64_t deadline_ns)
{
    while (!job->is_over) {
        begin_patience_locked(job);
        uint64_t now_ns = platform_clock_ns();
        if (now_ns >= job->give_up_ns && !job->is_ending &&
            !is_awaited_locked(&job->conductor, false, true))
            job_end_locked(job);
        else if (now_ns >= deadline_ns)
            return;
        else if (now_ns >= lane_look_ns(job->core))
            job_look_locked(job, now_ns);
        else
            platform_condition_wait(
                &job->changed, &job->m->lock,
                least(deadline_ns, least(lane_look_ns(job->core), next_look_ns(job, now_ns))));
    }
}

/* Ends threads that were started though not all could be. */
void job_stop_threads(struct muster_job *job)
{
    run_lock(job->m);
    job_cancel_locked(job);
    while (are_awaited_locked(job))
        job_look_or_wait_locked(job);
    run_unlock(job->m);
}

/* ---- Data that tasks write ---- */

muster_status job_hold_data(struct muster_job *job, struct muster_error *err)
{
    struct muster *m = job->m;
    muster_status status = MUSTER_OK;
    /* Acquire pairs with the release in pool_make: the hooks are there. */
    if (!atomic_load_explicit(&m->task_pool, memory_order_acquire))
        return MUSTER_OK;
    for (size_t i = 0; i < job->desc.arg_count && status == MUSTER_OK; i++) {
        uint64_t held = 0;
        if (job->args[i].kind == MUSTER_ARG_ALL)
            status = m->data_hooks.hold(m, job->args[i].data, &held, err);
        if (status == MUSTER_OK && held != 0)
            job->held[job->held_count++] = held;
    }
    return status;
}

uint32_t job_take_held_locked(struct muster_job *job, uint64_t held[MUSTER_ARGS_MAX])
{
    uint32_t count = job->held_count;
    memcpy(held, job->held, count * sizeof *held);
    job->held_count = 0;
    return count;
}

void job_let_go(struct muster *m, const uint64_t *held, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        m->data_hooks.let_go(m, held[i]);
}

/* Whether the job's end has to wait for what this thread is in. */
bool job_is_within(const struct muster_job *job)
{
    return platform_frame_is_in(FRAME_JOB, job) || platform_frame_is_in(FRAME_KERNEL, NULL) ||
           (job->asker.policy.choose && platform_frame_is_in(FRAME_POLICY, job->m));
}

muster_status muster_job_wait(struct muster_job *job, struct muster_report *report,
                              struct muster_error *err)
{
    return muster_job_wait_for(job, UINT64_MAX, report, err);
}

muster_status muster_job_wait_for(struct muster_job *job, uint64_t timeout_ns,
                                  struct muster_report *report, struct muster_error *err)
{
    if (!job)
        return run_bad_argument(err, "muster_job_wait", "job is NULL");
    muster_status status = job_check_report(report, err);
    if (status != MUSTER_OK)
        return status;
    if (run_is_forked(job->m))
        return run_say_forked(err);
    uint64_t deadline_ns = platform_deadline_ns(timeout_ns);
    run_lock(job->m);
    if (!job->is_over && timeout_ns > 0 && job_is_within(job)) {
        run_unlock(job->m);
        return run_say_stuck(err, "muster_job_wait");
    }
    job_wait_until_over_locked(job, deadline_ns);
    if (!job->is_over) {
        run_unlock(job->m);
        return muster_error_fill(err, MUSTER_E_TIMEOUT, 0, NULL,
                                 "the job is not over in the time allowed");
    }
    status = job->status;
    if (report)
        job_write_report_locked(job, report);
    if (err && status != MUSTER_OK)
        *err = job->error;
    bool is_first = !job->was_told;
    job->was_told = true;
    uint64_t took_ns = job->report.makespan_ns, startup_ns = job->report.startup_ns;
    struct muster *m = job->m;
    uint32_t number = job->work.number;
    uint64_t held[MUSTER_ARGS_MAX];
    uint32_t held_count = job_take_held_locked(job, held);
    run_unlock(m);
    job_let_go(m, held, held_count);
    if (is_first)
        run_log(m, MUSTER_LOG_INFO,
                "job %u: over after %.3f ms, its first unit begun after %.3f ms", number,
                (double)took_ns / 1e6, (double)startup_ns / 1e6);
    return status;
}

void muster_job_cancel(struct muster_job *job)
{
    if (!job || run_is_forked(job->m))
        return;
    run_lock(job->m);
    job_cancel_locked(job);
    run_unlock(job->m);
}
