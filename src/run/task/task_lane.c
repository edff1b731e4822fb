/*
 * Task lanes: kernel tasks on their way through a device. Each device that is given any has a lane
 * with a few streams. A task is appended to a stream's list when it was given; it is over when the
 * stream's event, recorded behind it, is complete. An event is recorded when somebody looks, not for
 * each task, so that many tasks cost one event.
 *
 * Two ways to a device. Light: the arguments are values, resident data, or arrays that the device
 * uses where they are; many tasks of one kernel are one launch of the backend's, without flights.
 * Heavy: arrays are copied there and back, through the same calls that users make.
 *
 * A driver call may never return, so no lock is held across one. A thread that gives tasks to a
 * stream, or asks it for ends, makes a *visit*: it claims the stream, unlocks, calls the driver,
 * and locks again. A thread calls the driver itself only for tasks that it submits, or that it
 * waits for without a time-out. All other threads post tasks to the lane; the lane's own thread,
 * which visits no other lane, gives them to the device and asks for ends. The pool's guard calls no
 * driver. It looks for visits that last while a task is overdue, and then gives up the lane: the
 * lane's tasks, also those that the visit holds, end or move to another device, and the visit is
 * disowned. If its thread ever returns, it finds that out and leaves without touching them.
 */
#include "base/allocator.h"
#include "base/invariant.h"
#include "run/task/task_pool.h"

#include <string.h>

#define LANE_STREAMS 4u
/* How often a lane's thread looks at first when nobody is in a hurry, and when somebody is. */
#define NAP_NS 1000000u
#define SHORT_NAP_NS 20000u
/* How long it goes on looking after the last task before it parks. */
#define NAPS_MAX 20u
#define SPIN_NS 20000u
/* Tasks after which whoever gives looks what is over. */
#define LOOK_EVERY 64u
/*
 * The lane's thread leaves a stream alone that somebody has looked at so recently, unless there is a
 * hurry: to ask the driver takes longer than a launch, and whoever gives would wait for the lock. Nor
 * does it look more often itself while nothing ends.
 */
#define FRESH_NS (4 * NAP_NS)
/* How often the guard looks while there are tasks, and how often in vain before it parks. */
#define GUARD_NS 10000000u
#define GUARD_IDLE_MAX 20u
/* A visit that lasts so long is inside a call, and not only short of a core. */
#define STUCK_NS 100000000u
/* The same for one that builds a kernel. */
#define STUCK_BUILDING_NS UINT64_C(60000000000)

/* Who calls the driver for a stream. */
enum claim {
    CLAIM_NONE,
    CLAIM_VISIT,
    CLAIM_LAUNCH,  /* a thread that does nothing but launch, quickly, without a visit */
    CLAIM_DISOWNED /* one that has not come back from that */
};

struct lane_stream {
    muster_stream handle;
    struct run_stream *stream; /* pinned */
    struct run_event *event;   /* a reference */
    uint32_t count;
    bool is_recorded; /* and not seen to be complete */
    /* Set with the lock. A launch that went well lets go without: release, for whoever is next. */
    _Atomic enum claim claim;
    uint64_t launch_ns;                  /* when that launch began */
    bool has_failed;                     /* to be replaced when it is empty */
    bool has_copies;                     /* the heavy way was taken: results are in flights */
    struct kernel_task *oldest, *newest; /* given and not seen to be over */
    uint64_t given;                      /* sequence of the newest that was ever given */
    uint64_t looked;                     /* what was given when somebody last looked */
    uint64_t looked_ns;                  /* when that was */
    uint64_t recorded;                   /* the event stands behind this one */
    uint64_t busy_ns;                    /* when it was last seen to be unfinished */
    uint64_t mute_ns;                    /* since when the driver would not say, 0: it does */
};

/*
 * Whether the device finishes a kernel as fast as it is given. Then one stream does, which costs the
 * driver less than several. Once it did not, all are used until another kernel comes.
 */
enum pace { PACE_UNKNOWN, PACE_KEPT, PACE_LOST };

enum sleep { SLEEP_NOT, SLEEP_SHORTLY, SLEEP_NAPS, SLEEP_PARKED };

struct task_lane {
    struct task_pool *pool;
    struct run_device *device;
    struct task_lane *next;
    struct platform_mutex lock; /* short: never held across a call of the driver */
    struct lane_stream streams[LANE_STREAMS];
    uint32_t stream_count;
    bool is_opening;                          /* a visit opens the first streams */
    bool must_mend;                           /* a stream has failed */
    struct visit *visits;                     /* those under way, on their threads' stacks */
    struct kernel_task *inbox, *inbox_newest; /* posted, for the lane's thread to give */
    _Atomic bool has_inbox;                   /* written with the lock */
    const struct muster_kernel *kernel; /* given last, with so many items at most; not followed */
    uint64_t items;
    enum pace pace;               /* with these */
    uint32_t stream;              /* where it is kept */
    uint64_t progress_ns;         /* when something last ended, or was given to an idle lane */
    uint64_t first_deadline_ns;   /* nothing is overdue before */
    bool is_given_up;             /* its device hangs */
    _Atomic uint32_t outstanding; /* posted, in hand or on streams; written with the lock */
    struct platform_thread thread;
    bool has_left;                  /* the thread; with the pool's lock */
    struct platform_condition wake; /* with the pool's lock */
    enum sleep sleep;               /* likewise */
    _Atomic bool is_parked;         /* likewise, and read without: see park_locked */
};

/* Tasks of one kernel for one device. */
struct group {
    struct run_device *device;
    struct kernel_task *tasks[TAKEN_AT_ONCE];
    uint32_t count;
    bool is_heavy, has_data;
};

/*
 * A thread on its way through calls of the lane's driver, without the lock. With the lock anybody may
 * disown it: the tasks in hand are taken out of the group then.
 */
struct visit {
    struct visit *next;
    struct lane_stream *stream; /* claimed; NULL: none */
    struct group *group;        /* the tasks in hand; NULL: it only looks */
    uint64_t begin_ns;
    bool is_building; /* a compiler may take long */
    bool is_disowned;
};

static bool has_work(struct task_lane *lane)
{
    return atomic_load_explicit(&lane->outstanding, memory_order_relaxed) > 0;
}

/* Visits. With the lane's lock, unless they say otherwise. */

/* Not inlined: the compiler would warn of a pointer to the stack, not seeing that leave takes it out. */
__attribute__((noinline)) static void enter(struct task_lane *lane, struct visit *visit,
                                            struct group *group, uint64_t now_ns)
{
    *visit = (struct visit){ .next = lane->visits, .group = group, .begin_ns = now_ns };
    lane->visits = visit;
}

static void set_claim(struct lane_stream *stream, enum claim claim)
{
    atomic_store_explicit(&stream->claim, claim, memory_order_relaxed);
}

static bool is_claimed(struct lane_stream *stream)
{
    /* Acquire pairs with the release in give_quickly. */
    return atomic_load_explicit(&stream->claim, memory_order_acquire) != CLAIM_NONE;
}

/* Whether somebody calls the driver, or may come back from it. */
static bool is_inside(struct task_lane *lane)
{
    bool is_launching = false;
    for (uint32_t i = 0; i < lane->stream_count; i++)
        is_launching = is_launching || is_claimed(&lane->streams[i]);
    return lane->visits || is_launching;
}

static void claim(struct visit *visit, struct lane_stream *stream)
{
    set_claim(stream, CLAIM_VISIT);
    visit->stream = stream;
}

static void unclaim(struct visit *visit)
{
    if (visit->stream)
        set_claim(visit->stream, CLAIM_NONE);
    visit->stream = NULL;
}

static void unlink_visit(struct task_lane *lane, struct visit *visit)
{
    struct visit **at = &lane->visits;
    while (*at != visit)
        at = &(*at)->next;
    *at = visit->next;
}

static void leave(struct task_lane *lane, struct visit *visit)
{
    unclaim(visit);
    unlink_visit(lane, visit);
}

/*
 * Takes the lock after calls of the driver. False, and the lock is not held, if the visit was
 * disowned meanwhile: then it is over.
 */
static bool come_back(struct task_lane *lane, struct visit *visit)
{
    struct muster *m = lane->pool->m;
    platform_mutex_lock(&lane->lock);
    if (!visit->is_disowned)
        return true;
    leave(lane, visit);
    run_lock(m);
    device_count_stuck_locked(lane->device, -1);
    run_unlock(m);
    platform_mutex_unlock(&lane->lock);
    return false;
}

/* Opening a lane, and its streams. */

static void close_stream(struct task_lane *lane, struct lane_stream *stream)
{
    struct muster *m = lane->pool->m;
    run_lock(m);
    event_unreference_locked(lane->device, stream->event);
    stream_unpin_locked(stream->stream);
    run_unlock(m);
    muster_stream_release(m, stream->handle, NULL);
    *stream = (struct lane_stream){ .given = 0 };
}

static void close_streams(struct task_lane *lane, struct lane_stream *streams, uint32_t *count)
{
    while (*count > 0)
        close_stream(lane, &streams[--*count]);
}

static muster_status open_stream(struct task_lane *lane, struct lane_stream *stream,
                                 struct muster_error *err)
{
    struct muster *m = lane->pool->m;
    muster_status status =
        muster_stream_acquire(m, device_handle_locked(lane->device), 0, &stream->handle, err);
    if (status != MUSTER_OK)
        return status;
    status = stream_pin(m, stream->handle, &stream->stream, err);
    if (status == MUSTER_OK) {
        status = event_take(lane->device, &stream->event, err);
        if (status == MUSTER_OK)
            return status;
        stream_unpin(stream->stream);
    }
    muster_stream_release(m, stream->handle, NULL);
    return status;
}

/* As many streams as there are to be had, one at least. No lock is held. */
static muster_status open_streams(struct task_lane *lane, struct lane_stream *streams,
                                  uint32_t *count)
{
    muster_status status = MUSTER_OK;
    *count = 0;
    while (*count < LANE_STREAMS && status == MUSTER_OK) {
        status = open_stream(lane, &streams[*count], NULL);
        *count += status == MUSTER_OK;
    }
    if (status == MUSTER_E_CAPACITY && *count > 0)
        return MUSTER_OK;
    if (status != MUSTER_OK)
        close_streams(lane, streams, count);
    return status;
}

/* Opens the lane's streams. False, and the lock is not held, if the visit was disowned meanwhile. */
static bool open_first_streams(struct task_lane *lane, struct visit *visit, muster_status *status)
{
    struct lane_stream fresh[LANE_STREAMS] = { { .given = 0 } };
    uint32_t count;
    lane->is_opening = true;
    platform_mutex_unlock(&lane->lock);
    *status = open_streams(lane, fresh, &count);
    platform_mutex_lock(&lane->lock);
    bool is_disowned = visit->is_disowned;
    if (!is_disowned) {
        memcpy(lane->streams, fresh, sizeof fresh);
        lane->stream_count = count;
        lane->is_opening = false;
        return true;
    }
    platform_mutex_unlock(&lane->lock);
    close_streams(lane, fresh, &count);
    return come_back(lane, visit);
}

/* Replaces a stream on which something failed, once nothing is on it. As open_first_streams. */
static bool renew_stream(struct task_lane *lane, struct visit *visit, struct lane_stream *stream)
{
    claim(visit, stream);
    platform_mutex_unlock(&lane->lock);
    bool is_fresh = stream_renew(stream->stream, NULL) == MUSTER_OK;
    if (!come_back(lane, visit))
        return false;
    unclaim(visit);
    if (is_fresh)
        *stream = (struct lane_stream){ .handle = stream->handle,
                                        .stream = stream->stream,
                                        .event = stream->event,
                                        .given = stream->given };
    return true;
}

/* Opens what streams are missing. As open_first_streams. */
static bool mend_streams(struct task_lane *lane, struct visit *visit, muster_status *status)
{
    *status = MUSTER_OK;
    if (lane->is_given_up || lane->is_opening)
        return true;
    if (lane->stream_count == 0)
        return open_first_streams(lane, visit, status);
    lane->must_mend = false;
    for (uint32_t i = 0; i < lane->stream_count; i++) {
        struct lane_stream *stream = &lane->streams[i];
        if (stream->has_failed && !stream->oldest && !is_claimed(stream) &&
            !renew_stream(lane, visit, stream))
            return false;
        lane->must_mend = lane->must_mend || stream->has_failed;
    }
    return true;
}

static void watch(void *argument);
static void guard(void *argument);

/* Calls no driver, so that nobody waits for one device's to use another. */
static muster_status open_lane(struct task_pool *pool, struct run_device *device,
                               struct task_lane **out, struct muster_error *err)
{
    struct task_lane *lane = allocator_take(&pool->m->allocator, 1, sizeof *lane);
    if (!lane)
        return run_no_memory(err, "the tasks of a device");
    lane->pool = pool;
    lane->device = device;
    lane->first_deadline_ns = UINT64_MAX;
    muster_status status = platform_mutex_init(&lane->lock, err);
    if (status != MUSTER_OK)
        goto no_lock;
    if ((status = platform_condition_init(&lane->wake, err)) != MUSTER_OK)
        goto no_wake;
    status = platform_thread_start(&lane->thread, watch, lane, "muster-kernels", NULL, err);
    if (status == MUSTER_OK) {
        *out = lane;
        return status;
    }
    platform_condition_deinit(&lane->wake);
no_wake:
    platform_mutex_deinit(&lane->lock);
no_lock:
    allocator_give(&pool->m->allocator, lane, 1, sizeof *lane);
    return status;
}

static muster_status get_lane(struct task_pool *pool, struct run_device *device,
                              struct task_lane **out, struct muster_error *err)
{
    _Atomic(struct task_lane *) *place = &pool->lanes[device->index];
    muster_status status = MUSTER_OK;
    *out = atomic_load_explicit(place, memory_order_acquire);
    if (*out)
        return status;
    platform_mutex_lock(&pool->opening);
    *out = atomic_load_explicit(place, memory_order_acquire);
    if (!*out && !pool->guard.started)
        status = platform_thread_start(&pool->guard, guard, pool, "muster-guard", NULL, err);
    if (!*out && status == MUSTER_OK)
        status = open_lane(pool, device, out, err);
    if (status == MUSTER_OK && !atomic_load_explicit(place, memory_order_relaxed)) {
        (*out)->next = atomic_load_explicit(&pool->lane_list, memory_order_relaxed);
        atomic_store_explicit(&pool->lane_list, *out, memory_order_release);
        atomic_store_explicit(place, *out, memory_order_release);
    }
    platform_mutex_unlock(&pool->opening);
    return status;
}

/* Streams and their lists. With the lane's lock. */

static bool can_take(struct lane_stream *stream)
{
    return !is_claimed(stream) && !stream->has_failed;
}

/*
 * The stream with the fewest tasks. The first is not for copies, if there is another, so that light
 * tasks need not wait for them.
 */
static struct lane_stream *choose_stream(struct task_lane *lane, bool is_for_copies)
{
    struct lane_stream *best = NULL;
    if (lane->is_given_up)
        return NULL;
    for (uint32_t i = is_for_copies && lane->stream_count > 1; i < lane->stream_count; i++) {
        struct lane_stream *stream = &lane->streams[i];
        if (can_take(stream) && (!best || stream->count < best->count))
            best = stream;
    }
    return best;
}

/*
 * The same for tasks that copy nothing: the one they came to before, if the device keeps pace. That
 * is not known for long: where few are given, they are better off beside each other.
 */
static struct lane_stream *choose_for(struct task_lane *lane, const struct kernel_task *task,
                                      uint64_t now_ns)
{
    if (task->kernel != lane->kernel || task->items > lane->items) {
        lane->kernel = task->kernel;
        lane->items = task->items;
        lane->pace = PACE_UNKNOWN;
    }
    struct lane_stream *last = &lane->streams[lane->stream];
    bool can_stay = lane->pace == PACE_KEPT && lane->stream < lane->stream_count &&
                    last->looked_ns + NAP_NS > now_ns && !lane->is_given_up && can_take(last);
    return can_stay ? last : choose_stream(lane, false);
}

/* Whether something of the lane is still to end, beside the visit, so that there may be room later. */
static bool may_wait(struct task_lane *lane, const struct visit *visit)
{
    uint32_t outstanding = atomic_load_explicit(&lane->outstanding, memory_order_relaxed);
    bool is_alone = lane->visits == visit && !visit->next;
    return (outstanding > visit->group->count || !is_alone) && !lane->is_given_up;
}

static void count_out(struct task_lane *lane, uint32_t count)
{
    uint32_t outstanding = atomic_load_explicit(&lane->outstanding, memory_order_relaxed);
    atomic_store_explicit(&lane->outstanding, outstanding - count, memory_order_relaxed);
}

/* The tasks are at the lane, and their time runs from here on. */
static void set_deadlines(struct task_lane *lane, struct group *group, uint64_t now_ns)
{
    for (uint32_t i = 0; i < group->count; i++) {
        struct kernel_task *task = group->tasks[i];
        /* Relaxed: whoever waits for the task looks at this lane then, or a little later. */
        atomic_store_explicit(&task->lane, lane, memory_order_relaxed);
        task->deadline_ns =
            task->timeout_ns < UINT64_MAX - now_ns ? now_ns + task->timeout_ns : UINT64_MAX;
        if (task->deadline_ns < lane->first_deadline_ns)
            lane->first_deadline_ns = task->deadline_ns;
    }
}

static void count_in(struct task_lane *lane, struct group *group, uint64_t now_ns)
{
    if (!has_work(lane))
        lane->progress_ns = now_ns;
    set_deadlines(lane, group, now_ns);
    /* See park_locked. */
    atomic_fetch_add_explicit(&lane->outstanding, group->count, memory_order_seq_cst);
}

static void append(struct lane_stream *stream, struct kernel_task *task)
{
    task->next = NULL;
    task->sequence = ++stream->given;
    if (stream->newest)
        stream->newest->next = task;
    else
        stream->oldest = task;
    stream->newest = task;
    stream->count++;
}

static struct kernel_task *take_oldest(struct task_lane *lane, struct lane_stream *stream)
{
    struct kernel_task *task = stream->oldest;
    stream->oldest = task->next;
    if (!stream->oldest)
        stream->newest = NULL;
    stream->count--;
    count_out(lane, 1);
    return task;
}

/* Hearing how it ended. With the lane's lock. */

/* One try is over. Bad luck is tried again, unless what it read has been written over. */
static void judge(struct kernel_task *task, muster_status ended)
{
    bool is_device = muster_status_discards(ended) == MUSTER_DISCARD_DEVICE;
    bool is_luck = ended != MUSTER_OK || task->accepted != MUSTER_OK ||
                   task->result == MUSTER_E_FAILED || task->result == MUSTER_E_STREAM_FAILED;
    task->status = is_device                     ? ended
                   : task->accepted != MUSTER_OK ? task->accepted
                   : task->result != MUSTER_OK   ? task->result
                                                 : ended;
    task->outcome = KERNEL_ENDS;
    if (++task->tries < KERNEL_TRIES && is_luck && !task->has_update) {
        task->outcome = KERNEL_AGAIN;
        device_set_add(&task->avoided, task->device->index);
    }
}

/* Puts the event behind all that was given, if it is not on its way. No lock is held. */
static bool record(struct task_lane *lane, const struct visit *visit, bool is_recorded)
{
    const struct lane_stream *stream = visit->stream;
    const struct muster_backend *table = &lane->device->backend->table;
    return is_recorded ||
           table->event_record(stream->event->state, stream->stream->state, NULL) == MUSTER_OK;
}

static void note_recorded(struct lane_stream *stream, bool is_recorded)
{
    if (is_recorded && !stream->is_recorded)
        stream->recorded = stream->given;
    stream->is_recorded = is_recorded;
}

/* Whether the stream is over up to where it was recorded, if it was, and how that went. No lock. */
static muster_status ask(struct task_lane *lane, const struct visit *visit, bool is_recorded,
                         bool has_copies)
{
    const struct lane_stream *stream = visit->stream;
    const struct muster_backend *table = &lane->device->backend->table;
    /* A device that takes no record, a lost one for instance, may still be working. */
    muster_status status = is_recorded ? table->event_query(stream->event->state, NULL)
                                       : table->stream_query(stream->stream->state, NULL);
    if (!run_is_over(status))
        return status;
    device_note(lane->device, status, NULL);
    if (has_copies)
        flights_retire(stream->stream);
    return status;
}

/* What the driver says of the claimed stream. As open_first_streams. */
static bool look_at_stream(struct task_lane *lane, struct visit *visit, uint64_t now_ns,
                           struct kernel_task ***tail)
{
    struct lane_stream *stream = visit->stream;
    bool is_recorded = stream->is_recorded, has_copies = stream->has_copies;
    stream->looked = stream->given;
    stream->looked_ns = now_ns;
    platform_mutex_unlock(&lane->lock);
    is_recorded = record(lane, visit, is_recorded);
    muster_status status = ask(lane, visit, is_recorded, has_copies);
    if (!come_back(lane, visit))
        return false;
    note_recorded(stream, is_recorded);
    if (!run_is_over(status)) {
        stream->busy_ns = now_ns;
        if (status == MUSTER_E_BUSY)
            stream->mute_ns = 0;
        else if (stream->mute_ns == 0)
            stream->mute_ns = now_ns;
        return true;
    }
    uint64_t covered = is_recorded ? stream->recorded : stream->given;
    stream->mute_ns = 0;
    stream->is_recorded = false;
    stream->has_failed |= muster_status_discards(status) == MUSTER_DISCARD_STREAM;
    lane->must_mend = lane->must_mend || stream->has_failed;
    while (stream->oldest && stream->oldest->sequence <= covered) {
        struct kernel_task *task = take_oldest(lane, stream);
        task->was_prompt = now_ns - stream->busy_ns < (now_ns - task->mark.begin_ns) / 4;
        judge(task, status);
        **tail = task;
        *tail = &task->next;
    }
    stream->has_copies = stream->has_copies && stream->oldest;
    lane->progress_ns = now_ns;
    return true;
}

/*
 * What whoever gives looks at in passing: the event that was recorded when it last did. What it gave
 * just now is not over, so that is not asked. As open_first_streams.
 */
static bool glance(struct task_lane *lane, struct visit *visit, uint64_t now_ns,
                   struct kernel_task ***tail)
{
    struct lane_stream *stream = visit->stream;
    if (stream->is_recorded) {
        if (!look_at_stream(lane, visit, now_ns, tail))
            return false;
        bool has_kept = !stream->is_recorded && lane->pace != PACE_LOST;
        lane->pace = has_kept ? PACE_KEPT : PACE_LOST;
        lane->stream = (uint32_t)(stream - lane->streams);
    }
    bool is_recorded = stream->is_recorded;
    platform_mutex_unlock(&lane->lock);
    is_recorded = record(lane, visit, is_recorded);
    if (!come_back(lane, visit))
        return false;
    note_recorded(stream, is_recorded);
    stream->looked = stream->given;
    stream->looked_ns = now_ns;
    return true;
}

/* Counts what has ended, all on one device. No lock is held. */
static void count_ended(struct task_lane *lane, struct kernel_task *chain)
{
    struct muster *m = lane->pool->m;
    run_lock(m);
    /* With the lock, so that in a trace the spans of a device are in the order of their ends. */
    uint64_t now_ns = platform_clock_ns();
    for (struct kernel_task *task = chain; task; task = task->next) {
        kernel_task_finish_locked(task, now_ns);
        if (recording_is_on(&m->recording))
            trace_kernel_task_locked(lane->device, task->mark.begin_ns, now_ns, task->items,
                                     task->status, task->tries > 1);
    }
    device_view_locked(lane->device);
    run_unlock(m);
}

/* Giving. */

static void push(struct kernel_task **chain, struct kernel_task *task)
{
    task->next = *chain;
    *chain = task;
}

/* Tasks that were not given come back: for another device, or for later. No lock is held. */
static void hand_back(struct group *group, enum kernel_outcome outcome, muster_status status,
                      struct kernel_task **left)
{
    struct muster *m = group->device->m;
    uint64_t now_ns = platform_clock_ns();
    run_lock(m);
    for (uint32_t i = 0; i < group->count; i++)
        kernel_task_unplace_locked(group->tasks[i], now_ns);
    run_unlock(m);
    for (uint32_t i = 0; i < group->count; i++) {
        struct kernel_task *task = group->tasks[i];
        task->outcome = outcome;
        if (outcome == KERNEL_AGAIN) {
            task->status = status;
            device_set_add(&task->refused, group->device->index);
        }
        push(left, task);
    }
}

/* With the lane's lock: the tasks are not touched any more while the driver is called. */
static uint32_t fill_launches(struct group *group, struct muster_launch_desc *launches)
{
    for (uint32_t i = 0; i < group->count; i++) {
        struct kernel_task *task = group->tasks[i];
        task->result = MUSTER_OK;
        launches[i] = (struct muster_launch_desc){ .items = task->items,
                                                   .args = task->args,
                                                   .arg_count = task->arg_count,
                                                   .result = &task->result,
                                                   .flags = MUSTER_LAUNCH_UNORDERED };
    }
    return group->count;
}

static muster_status launch(struct run_stream *stream, void *built,
                            const struct muster_launch_desc *launches, uint32_t count)
{
    return device_note(
        stream->device,
        stream->device->backend->table.launch(stream->state, built, launches, count, NULL), NULL);
}

/* The tasks are the device's from here on. */
static void append_group(struct lane_stream *stream, struct group *group, muster_status accepted)
{
    for (uint32_t i = 0; i < group->count; i++) {
        group->tasks[i]->accepted = accepted;
        append(stream, group->tasks[i]);
    }
}

/* What was seen to end while tasks were given goes with those that come back. No lock is held. */
static void pass_ended(struct task_lane *lane, struct kernel_task *ended, struct kernel_task **left)
{
    struct kernel_task **tail = &ended;
    if (!ended)
        return;
    count_ended(lane, ended);
    while (*tail)
        tail = &(*tail)->next;
    *tail = *left;
    *left = ended;
}

/*
 * Ends a visit that gave with copies or data. The tasks are kept if the device has anything of them,
 * else they are handed back. With the lock, and left without.
 */
static void end_giving(struct task_lane *lane, struct visit *visit, bool is_kept,
                       muster_status accepted, struct kernel_task **left)
{
    struct group *group = visit->group;
    bool must_wait = accepted == MUSTER_E_DEVICE_MEMORY && may_wait(lane, visit);
    if (is_kept)
        append_group(visit->stream, group, accepted);
    else
        count_out(lane, group->count);
    visit->stream->has_copies = visit->stream->has_copies || (is_kept && group->is_heavy);
    leave(lane, visit);
    platform_mutex_unlock(&lane->lock);
    if (!is_kept)
        hand_back(group, must_wait ? KERNEL_WAITS : KERNEL_AGAIN, accepted, left);
}

/* Takes back the task that was appended last, and alone. */
static void take_newest(struct task_lane *lane, struct lane_stream *stream)
{
    struct kernel_task **at = &stream->oldest, *before = NULL;
    for (; (*at)->next; at = &(*at)->next)
        before = *at;
    *at = NULL;
    stream->newest = before;
    stream->count--;
    count_out(lane, 1);
}

/*
 * The quick way's end where there is more to do than to let go of the stream. Of several tasks in one
 * launch that failed some may have been given, so all are waited for.
 */
static void end_launch(struct task_lane *lane, struct lane_stream *stream, struct group *group,
                       muster_status status, uint64_t now_ns, struct kernel_task **left)
{
    struct muster *m = lane->pool->m;
    struct kernel_task *ended = NULL, **tail = &ended;
    struct visit visit;
    bool is_kept = status == MUSTER_OK || group->count > 1, is_here = true;
    platform_mutex_lock(&lane->lock);
    if (atomic_load_explicit(&stream->claim, memory_order_relaxed) == CLAIM_DISOWNED) {
        set_claim(stream, CLAIM_NONE);
        run_lock(m);
        device_count_stuck_locked(lane->device, -1);
        run_unlock(m);
        platform_mutex_unlock(&lane->lock);
        return;
    }
    enter(lane, &visit, NULL, now_ns);
    claim(&visit, stream);
    for (uint32_t i = 0; i < group->count; i++)
        group->tasks[i]->accepted = status;
    if (!is_kept)
        take_newest(lane, stream);
    else if (stream->given - stream->looked >= LOOK_EVERY)
        is_here = glance(lane, &visit, now_ns, &tail);
    if (is_here) {
        leave(lane, &visit);
        platform_mutex_unlock(&lane->lock);
    }
    *tail = NULL;
    pass_ended(lane, ended, left);
    if (!is_kept)
        hand_back(group, KERNEL_AGAIN, status, left);
}

/*
 * Gives tasks that need nothing but a launch, and are the lane's; false if there is no stream for
 * them. They are on the stream's list before the call, for whoever gives the lane up meanwhile. With
 * the lock; if true, left without.
 */
static bool give_quickly(struct task_lane *lane, struct group *group, uint64_t now_ns,
                         struct kernel_task **left)
{
    struct muster_launch_desc launches[TAKEN_AT_ONCE];
    void *built = group->tasks[0]->built;
    struct lane_stream *stream = choose_for(lane, group->tasks[0], now_ns);
    enum claim mine = CLAIM_LAUNCH;
    if (!stream)
        return false;
    uint32_t count = fill_launches(group, launches);
    append_group(stream, group, MUSTER_OK);
    set_claim(stream, CLAIM_LAUNCH);
    stream->launch_ns = now_ns;
    /* So that one who only gives holds no more than what is unfinished. */
    bool must_look = stream->given - stream->looked >= LOOK_EVERY;
    platform_mutex_unlock(&lane->lock);
    muster_status status = launch(stream->stream, built, launches, count);
    if (status != MUSTER_OK || must_look ||
        !atomic_compare_exchange_strong_explicit(&stream->claim, &mine, CLAIM_NONE,
                                                 memory_order_release, memory_order_relaxed))
        end_launch(lane, stream, group, status, now_ns, left);
    return true;
}

/* The data that all tasks of a group have, made resident, and the caller's blocks. No lock is held. */
static muster_status find_data(struct muster *m, const struct visit *visit,
                               const struct kernel_task *task, struct muster_use *uses,
                               size_t *count)
{
    muster_status status = MUSTER_OK;
    *count = 0;
    for (uint32_t i = 0; i < task->arg_count && status == MUSTER_OK; i++) {
        const struct muster_arg *arg = &task->given[i];
        if (arg_is_on_device(arg))
            uses[(*count)++] = (struct muster_use)MUSTER_USE(arg->block, arg_access(arg));
        if (arg->kind != MUSTER_ARG_ALL)
            continue;
        uses[*count].access = MUSTER_READS;
        status = muster_data_resident(m, arg->data, visit->stream->handle, &uses[(*count)++].block,
                                      NULL);
    }
    return status;
}

/* Launches with the data held, so that whoever drops it waits for these tasks too. */
static void give_with_data(struct task_lane *lane, struct visit *visit, struct kernel_task **left)
{
    struct muster *m = lane->pool->m;
    struct muster_launch_desc launches[TAKEN_AT_ONCE];
    struct muster_use uses[MUSTER_ARGS_MAX];
    struct operation_run run;
    const struct kernel_task *first = visit->group->tasks[0];
    void *built = first->built;
    size_t use_count;
    platform_mutex_unlock(&lane->lock);
    muster_status status = find_data(m, visit, first, uses, &use_count);
    if (status == MUSTER_OK)
        status = operation_begin(m, visit->stream->handle, uses, use_count, HOLDER_OPERATION, &run,
                                 NULL);
    if (status != MUSTER_OK) {
        if (come_back(lane, visit))
            end_giving(lane, visit, false, status, left);
        return;
    }
    platform_mutex_lock(&lane->lock);
    bool is_disowned = visit->is_disowned;
    for (uint32_t i = 0; i < visit->group->count; i++) {
        struct kernel_task *task = visit->group->tasks[i];
        for (uint32_t arg = 0, use = 0; arg < task->arg_count; arg++)
            if (task->given[arg].kind == MUSTER_ARG_ALL || arg_is_on_device(&task->given[arg]))
                task->args[arg].memory = operation_memory(&run, uses[use++].block);
    }
    uint32_t count = fill_launches(visit->group, launches);
    platform_mutex_unlock(&lane->lock);
    if (!is_disowned)
        status = launch(visit->stream->stream, built, launches, count);
    bool is_kept = !is_disowned && (status == MUSTER_OK || count > 1);
    if (is_kept) {
        muster_status recorded = operation_end(&run, false, 0, NULL);
        status = status == MUSTER_OK ? recorded : status;
    } else {
        operation_abandon(&run);
    }
    if (come_back(lane, visit))
        end_giving(lane, visit, is_kept, status, left);
}

/* The heavy way. */

static void free_blocks(struct muster *m, const struct lane_stream *stream,
                        const struct muster_operand *operands, const struct kernel_task *task)
{
    for (uint32_t i = 0; i < task->arg_count; i++)
        if (task->args[i].memory == &task->memories[i] && operands[i].block.generation > 0)
            muster_block_free(m, stream->handle, operands[i].block, NULL);
}

/* Everything that a launch needs, with nothing given to the device yet but resident data. */
static muster_status make_operands(struct muster *m, struct lane_stream *stream,
                                   struct kernel_task *task, struct muster_operand *operands)
{
    static const uint32_t accesses[] = { [MUSTER_ARG_IN] = MUSTER_READS,
                                         [MUSTER_ARG_OUT] = MUSTER_WRITES,
                                         [MUSTER_ARG_INOUT] = MUSTER_READS_WRITES,
                                         [MUSTER_ARG_ALL] = MUSTER_READS };
    muster_status status = MUSTER_OK;
    for (uint32_t i = 0; i < task->arg_count && status == MUSTER_OK; i++) {
        enum muster_arg_kind kind = task->given[i].kind;
        operands[i].size = sizeof operands[i];
        if (kind == MUSTER_ARG_VALUE || kind == MUSTER_ARG_FIRST) {
            operands[i].value = task->args[i].value;
            operands[i].bytes = task->args[i].bytes;
            continue;
        }
        if (arg_is_on_device(&task->given[i])) {
            operands[i].block = task->given[i].block;
            operands[i].access = arg_access(&task->given[i]);
            operands[i].offset = task->given[i].offset;
            continue;
        }
        operands[i].access = accesses[kind];
        status = kind == MUSTER_ARG_ALL
                     ? muster_data_resident(m, task->given[i].data, stream->handle,
                                            &operands[i].block, NULL)
                     : muster_block_allocate(m, stream->handle, task->memories[i].bytes,
                                             &operands[i].block, NULL);
    }
    return status;
}

/* Whether the tasks in hand are still the visit's: another thread may have given the lane up. */
static bool is_mine(struct task_lane *lane, const struct visit *visit)
{
    platform_mutex_lock(&lane->lock);
    bool is_disowned = visit->is_disowned;
    platform_mutex_unlock(&lane->lock);
    return !is_disowned;
}

/* Copies in, launches, copies out; `is_kept`: the device has some of it. */
static muster_status copy_and_launch(struct task_lane *lane, const struct visit *visit,
                                     struct kernel_task *task,
                                     const struct muster_operand *operands, bool *is_kept)
{
    struct muster *m = lane->pool->m;
    muster_stream stream = visit->stream->handle;
    muster_status status = MUSTER_OK;
    for (uint32_t i = 0; i < task->arg_count && status == MUSTER_OK; i++) {
        const struct muster_arg *arg = &task->given[i];
        if (arg->kind != MUSTER_ARG_IN && arg->kind != MUSTER_ARG_INOUT)
            continue;
        if (!is_mine(lane, visit))
            return MUSTER_E_DEVICE_HUNG;
        status =
            muster_copy_in(m, stream, operands[i].block, 0, arg->in, task->memories[i].bytes, NULL);
        *is_kept = *is_kept || status == MUSTER_OK;
    }
    if (status == MUSTER_OK) {
        if (!is_mine(lane, visit))
            return MUSTER_E_DEVICE_HUNG;
        status = muster_launch(m, stream, task->kernel, 0, task->items, operands, task->arg_count,
                               &task->result, NULL);
        *is_kept = *is_kept || status == MUSTER_OK;
    }
    for (uint32_t i = 0; i < task->arg_count && status == MUSTER_OK; i++) {
        const struct muster_arg *arg = &task->given[i];
        if (arg->kind != MUSTER_ARG_OUT && arg->kind != MUSTER_ARG_INOUT)
            continue;
        if (!is_mine(lane, visit))
            return MUSTER_E_DEVICE_HUNG;
        status = muster_copy_out(m, stream, arg->out, operands[i].block, 0, task->memories[i].bytes,
                                 NULL);
    }
    return status;
}

static void give_with_copies(struct task_lane *lane, struct visit *visit, struct kernel_task **left)
{
    struct muster *m = lane->pool->m;
    struct kernel_task *task = visit->group->tasks[0];
    struct muster_operand operands[MUSTER_ARGS_MAX] = { { .size = 0 } };
    bool is_kept = false;
    task->result = MUSTER_OK;
    platform_mutex_unlock(&lane->lock);
    muster_status status = make_operands(m, visit->stream, task, operands);
    if (status == MUSTER_OK)
        status = copy_and_launch(lane, visit, task, operands, &is_kept);
    free_blocks(m, visit->stream, operands, task);
    if (!come_back(lane, visit))
        return;
    if (is_kept) {
        /* Its launch counts against the device from here on. */
        run_lock(m);
        kernel_task_unplace_locked(task, platform_clock_ns());
        run_unlock(m);
    }
    end_giving(lane, visit, is_kept, status, left);
}

/* Groups. */

static bool is_heavy(const struct kernel_task *task)
{
    return task->has_arrays && !(task->device->info.capabilities & MUSTER_CAN_USE_HOST_MEMORY);
}

static bool has_same_data(const struct kernel_task *a, const struct kernel_task *b)
{
    if (!a->has_data && !b->has_data)
        return true;
    /* Launches of one call may run at the same time: none of them writes what another uses. */
    if (a->arg_count != b->arg_count || a->writes_block || b->writes_block)
        return false;
    for (uint32_t i = 0; i < a->arg_count; i++) {
        const struct muster_arg *one = &a->given[i], *other = &b->given[i];
        bool is_block = arg_is_on_device(one);
        if (is_block != arg_is_on_device(other) ||
            (is_block && (one->block.index != other->block.index ||
                          one->block.generation != other->block.generation)))
            return false;
        bool is_data = a->given[i].kind == MUSTER_ARG_ALL;
        if (is_data != (b->given[i].kind == MUSTER_ARG_ALL) ||
            (is_data && (a->given[i].data.index != b->given[i].data.index ||
                         a->given[i].data.generation != b->given[i].data.generation)))
            return false;
    }
    return true;
}

/* Takes the first of the chain and all that go with it in one launch. */
static void take_group(struct kernel_task **chain, struct group *group)
{
    struct kernel_task *first = *chain;
    *chain = first->next;
    group->device = first->device;
    group->tasks[0] = first;
    group->count = 1;
    group->is_heavy = is_heavy(first);
    group->has_data = first->has_data;
    for (struct kernel_task **at = chain;
         *at && !group->is_heavy && group->count < TAKEN_AT_ONCE;) {
        struct kernel_task *task = *at;
        if (task->device == first->device && task->kernel == first->kernel &&
            task->submitter == first->submitter && !is_heavy(task) && has_same_data(first, task)) {
            group->tasks[group->count++] = task;
            *at = task->next;
        } else {
            at = &task->next;
        }
    }
}

/* The kernel for the device, which may have to be built. As open_first_streams. */
static bool get_built(struct task_lane *lane, struct visit *visit, uint64_t *now_ns,
                      muster_status *status)
{
    struct muster_kernel *kernel = visit->group->tasks[0]->kernel;
    void *built;
    *status = MUSTER_OK;
    if (visit->group->tasks[0]->built)
        return true;
    visit->is_building = true;
    platform_mutex_unlock(&lane->lock);
    *status = kernel_get_built(kernel, lane->device, &built, NULL);
    *now_ns = platform_clock_ns();
    if (!come_back(lane, visit))
        return false;
    visit->is_building = false;
    visit->begin_ns = *now_ns;
    for (uint32_t i = 0; i < visit->group->count && *status == MUSTER_OK; i++)
        visit->group->tasks[i]->built = built;
    set_deadlines(lane, visit->group, *now_ns);
    return true;
}

/* Gives a group that is the lane's. With the lock, and left without. */
static void give_group(struct task_lane *lane, struct group *group, uint64_t now_ns,
                       struct kernel_task **left)
{
    struct visit visit;
    struct lane_stream *stream = NULL;
    muster_status status;
    bool is_light = !group->is_heavy && !group->has_data;
    if (is_light && group->tasks[0]->built && !lane->must_mend &&
        give_quickly(lane, group, now_ns, left))
        return;
    enter(lane, &visit, group, now_ns);
    if (!get_built(lane, &visit, &now_ns, &status) ||
        (status == MUSTER_OK && !mend_streams(lane, &visit, &status)))
        return;
    bool must_wait = status == MUSTER_OK && may_wait(lane, &visit);
    if (status == MUSTER_OK && !is_light)
        stream = choose_stream(lane, true);
    if (stream) {
        claim(&visit, stream);
        if (group->is_heavy)
            give_with_copies(lane, &visit, left);
        else
            give_with_data(lane, &visit, left);
        return;
    }
    leave(lane, &visit);
    if (status == MUSTER_OK && is_light && give_quickly(lane, group, now_ns, left))
        return;
    count_out(lane, group->count);
    platform_mutex_unlock(&lane->lock);
    hand_back(group, must_wait ? KERNEL_WAITS : KERNEL_AGAIN,
              status == MUSTER_OK ? MUSTER_E_STREAM_FAILED : status, left);
}

/* Leaves a group to the lane's thread. With the lock. */
static void post(struct task_lane *lane, const struct group *group)
{
    for (uint32_t i = 0; i < group->count; i++) {
        struct kernel_task *task = group->tasks[i];
        task->next = NULL;
        if (lane->inbox)
            lane->inbox_newest->next = task;
        else
            lane->inbox = task;
        lane->inbox_newest = task;
    }
    /* Sequentially consistent: see lanes_are_parked. */
    atomic_store_explicit(&lane->has_inbox, true, memory_order_seq_cst);
}

static void take_from_inbox(struct task_lane *lane, struct group *group)
{
    take_group(&lane->inbox, group);
    atomic_store_explicit(&lane->has_inbox, lane->inbox != NULL, memory_order_relaxed);
    /* The newest may have gone with the group. */
    for (struct kernel_task *task = lane->inbox; task; task = task->next)
        lane->inbox_newest = task;
}

/* Gives each task a device; those that have none, or need none, are left. The order stays. */
static struct kernel_task *place(struct task_pool *pool, struct kernel_task *chain, uint64_t now_ns,
                                 struct kernel_task **left)
{
    struct kernel_task *placed = NULL, **tail = &placed;
    struct muster *m = pool->m;
    run_lock(m);
    while (chain) {
        struct kernel_task *task = chain;
        chain = task->next;
        if (task->items == 0) {
            task->outcome = KERNEL_ENDS;
            task->status = MUSTER_OK;
            push(left, task);
        } else if (kernel_task_place_locked(m, task, now_ns)) {
            *tail = task;
            tail = &task->next;
        } else {
            push(left, task);
        }
    }
    *tail = NULL;
    run_unlock(m);
    return placed;
}

struct kernel_task *lanes_give(struct task_pool *pool, struct kernel_task *chain,
                               const void *submitter)
{
    struct kernel_task *left = NULL;
    uint64_t now_ns = platform_clock_ns();
    chain = place(pool, chain, now_ns, &left);
    while (chain) {
        struct group group;
        struct task_lane *lane;
        take_group(&chain, &group);
        muster_status status = get_lane(pool, group.device, &lane, NULL);
        if (status != MUSTER_OK) {
            hand_back(&group, KERNEL_AGAIN, status, &left);
            continue;
        }
        platform_mutex_lock(&lane->lock);
        if (lane->is_given_up) {
            platform_mutex_unlock(&lane->lock);
            hand_back(&group, KERNEL_AGAIN, MUSTER_E_DEVICE_HUNG, &left);
            continue;
        }
        count_in(lane, &group, now_ns);
        if (submitter && group.tasks[0]->submitter == submitter) {
            give_group(lane, &group, now_ns, &left);
        } else {
            post(lane, &group);
            platform_mutex_unlock(&lane->lock);
        }
    }
    return left;
}

/* Gives what was posted; whether all that was could be given. By the lane's thread, with no lock. */
static bool give_inbox(struct task_lane *lane)
{
    struct kernel_task *left = NULL;
    bool has_given = false;
    for (;;) {
        struct group group;
        platform_mutex_lock(&lane->lock);
        if (!lane->inbox)
            break;
        take_from_inbox(lane, &group);
        give_group(lane, &group, platform_clock_ns(), &left);
        has_given = true;
    }
    platform_mutex_unlock(&lane->lock);
    if (left)
        task_settle(lane->pool, left);
    return has_given && !left;
}

/* Looking, and giving up. */

static void take_from_hung(struct kernel_task *task, struct kernel_task ***tail)
{
    task->status = MUSTER_E_DEVICE_HUNG;
    task->was_prompt = false;
    /* Its arrays are in the hands of the device. */
    task->outcome = ++task->tries < KERNEL_TRIES && !task->has_arrays ? KERNEL_AGAIN : KERNEL_ENDS;
    **tail = task;
    *tail = &task->next;
}

/*
 * All tasks are taken from a device that hangs. What it may still write to, it or a thread inside its
 * driver, is not used again, and kernels that it may still run stay. What was only posted just moves.
 */
static void give_up(struct task_lane *lane, struct kernel_task ***tail)
{
    struct muster *m = lane->pool->m;
    struct kernel_task **spoilt = *tail;
    int32_t stuck = 0;
    for (struct visit *visit = lane->visits; visit; visit = visit->next) {
        for (uint32_t i = 0; visit->group && i < visit->group->count; i++)
            take_from_hung(visit->group->tasks[i], tail);
        if (visit->group) {
            count_out(lane, visit->group->count);
            visit->group->count = 0;
        }
        stuck += !visit->is_disowned;
        visit->is_disowned = true;
    }
    for (uint32_t i = 0; i < lane->stream_count; i++) {
        enum claim launching = CLAIM_LAUNCH;
        stuck += atomic_compare_exchange_strong_explicit(&lane->streams[i].claim, &launching,
                                                         CLAIM_DISOWNED, memory_order_acquire,
                                                         memory_order_relaxed);
        while (lane->streams[i].oldest)
            take_from_hung(take_oldest(lane, &lane->streams[i]), tail);
    }
    **tail = NULL;
    lane->is_given_up = true;
    run_lock(m);
    device_count_stuck_locked(lane->device, stuck);
    for (struct kernel_task *task = *spoilt; task; task = task->next) {
        task->is_spoilt = true;
        kernel_hold_locked(task->kernel);
    }
    while (lane->inbox) {
        struct kernel_task *task = lane->inbox;
        lane->inbox = task->next;
        count_out(lane, 1);
        kernel_task_unplace_locked(task, platform_clock_ns());
        task->status = MUSTER_E_DEVICE_HUNG;
        task->outcome = KERNEL_AGAIN;
        **tail = task;
        *tail = &task->next;
    }
    **tail = NULL;
    run_unlock(m);
    atomic_store_explicit(&lane->has_inbox, false, memory_order_relaxed);
}

/* After a lane was given up, and before its tasks are settled. No lock is held. */
static void note_hung(struct task_lane *lane)
{
    struct muster_error problem;
    muster_error_fill(&problem, MUSTER_E_DEVICE_HUNG, 0, "go on with other devices",
                      "%s has not finished a task in time", lane->device->info.id);
    device_note(lane->device, MUSTER_E_DEVICE_HUNG, &problem);
}

static void see_deadlines(const struct kernel_task *task, uint64_t *first_ns)
{
    for (; task; task = task->next)
        if (task->deadline_ns < *first_ns)
            *first_ns = task->deadline_ns;
}

/*
 * Whether a task is over its time, or nobody can tell, and when the next one will be. A task on a
 * stream is late if the stream was seen to be unfinished since; any is while a visit is stuck.
 */
static bool is_overdue(struct task_lane *lane, uint64_t now_ns)
{
    uint64_t all_ns = UINT64_MAX, patience_ns = lane->pool->m->options.close_ns;
    bool is_stuck = false, is_late = false;
    for (uint32_t i = 0; i < lane->stream_count; i++)
        if (lane->streams[i].mute_ns > 0 && now_ns - lane->streams[i].mute_ns > patience_ns)
            return true;
    if (now_ns < lane->first_deadline_ns)
        return false;
    for (uint32_t i = 0; i < lane->stream_count; i++) {
        uint64_t first_ns = UINT64_MAX;
        see_deadlines(lane->streams[i].oldest, &first_ns);
        is_late = is_late || first_ns <= lane->streams[i].busy_ns;
        is_stuck = is_stuck || (atomic_load_explicit(&lane->streams[i].claim,
                                                     memory_order_relaxed) == CLAIM_LAUNCH &&
                                now_ns - lane->streams[i].launch_ns > STUCK_NS);
        all_ns = first_ns < all_ns ? first_ns : all_ns;
    }
    see_deadlines(lane->inbox, &all_ns);
    for (const struct visit *visit = lane->visits; visit; visit = visit->next) {
        is_stuck = is_stuck ||
                   now_ns - visit->begin_ns > (visit->is_building ? STUCK_BUILDING_NS : STUCK_NS);
        for (uint32_t i = 0; visit->group && i < visit->group->count; i++)
            if (visit->group->tasks[i]->deadline_ns < all_ns)
                all_ns = visit->group->tasks[i]->deadline_ns;
    }
    lane->first_deadline_ns = all_ns;
    return is_late || (is_stuck && all_ns <= now_ns);
}

static void settle(struct task_lane *lane, struct kernel_task *chain)
{
    if (!chain)
        return;
    count_ended(lane, chain);
    task_settle(lane->pool, chain);
}

/*
 * Sees what of the lane is over; whether anything was. Streams that somebody else is at, or that were
 * looked at in the last `fresh_ns`, are left out.
 */
static bool look(struct task_lane *lane, uint64_t fresh_ns)
{
    struct kernel_task *chain = NULL, **tail = &chain;
    struct visit visit;
    bool is_here = true, is_hung = false;
    if (!has_work(lane))
        return false;
    uint64_t now_ns = platform_clock_ns();
    platform_mutex_lock(&lane->lock);
    enter(lane, &visit, NULL, now_ns);
    for (uint32_t i = 0; i < lane->stream_count && is_here; i++) {
        struct lane_stream *stream = &lane->streams[i];
        bool is_fresh = fresh_ns > 0 && stream->looked_ns + fresh_ns > now_ns;
        if (!stream->oldest || is_claimed(stream) || is_fresh)
            continue;
        claim(&visit, stream);
        is_here = look_at_stream(lane, &visit, now_ns, &tail);
        if (is_here)
            unclaim(&visit);
    }
    if (is_here) {
        leave(lane, &visit);
        is_hung = is_overdue(lane, now_ns);
        if (is_hung)
            give_up(lane, &tail);
        platform_mutex_unlock(&lane->lock);
    }
    *tail = NULL;
    if (is_hung)
        note_hung(lane);
    settle(lane, chain);
    return chain != NULL;
}

bool lanes_look(struct task_pool *pool, struct task_lane *only)
{
    bool has_ended = false;
    for (struct task_lane *lane = atomic_load_explicit(&pool->lane_list, memory_order_acquire);
         lane; lane = lane->next)
        if (!only || lane == only)
            has_ended = look(lane, 0) || has_ended;
    return has_ended;
}

/* Gives the lane up if that is due, or if nothing has ended in it since then. No driver is called. */
static void check_lane(struct task_lane *lane, uint64_t idle_before_ns)
{
    struct kernel_task *chain = NULL, **tail = &chain;
    platform_mutex_lock(&lane->lock);
    bool is_hung = has_work(lane) &&
                   (is_overdue(lane, platform_clock_ns()) || lane->progress_ns < idle_before_ns);
    if (is_hung)
        give_up(lane, &tail);
    platform_mutex_unlock(&lane->lock);
    if (is_hung)
        note_hung(lane);
    settle(lane, chain);
}

/* When the runtime closes, lanes in which nothing ends for half of its time are given up. */
static uint64_t idle_before_locked(const struct task_pool *pool)
{
    uint64_t now_ns = platform_clock_ns(), patience_ns = pool->m->options.close_ns / 2;
    bool is_due =
        pool->drain_ns > 0 && now_ns > pool->drain_ns && now_ns - pool->drain_ns > patience_ns;
    return is_due ? now_ns - patience_ns : 0;
}

void lanes_check_locked(struct task_pool *pool)
{
    uint64_t idle_before_ns = idle_before_locked(pool);
    platform_mutex_unlock(&pool->lock);
    for (struct task_lane *lane = atomic_load_explicit(&pool->lane_list, memory_order_acquire);
         lane; lane = lane->next)
        check_lane(lane, idle_before_ns);
    platform_mutex_lock(&pool->lock);
}

/* Calls no driver, and so is always there to find a thread that does not come back from one. */
static void guard(void *argument)
{
    struct task_pool *pool = argument;
    uint32_t idle = 0;
    platform_mutex_lock(&pool->lock);
    while (!pool->lanes_must_stop) {
        bool is_idle = true;
        struct task_lane *list = atomic_load_explicit(&pool->lane_list, memory_order_acquire);
        idle = idle < GUARD_IDLE_MAX ? idle + 1 : idle;
        /* As in park_locked. */
        atomic_store_explicit(&pool->guard_is_parked, idle == GUARD_IDLE_MAX, memory_order_seq_cst);
        for (struct task_lane *lane = list; lane; lane = lane->next)
            is_idle =
                is_idle && atomic_load_explicit(&lane->outstanding, memory_order_seq_cst) == 0;
        if (!is_idle)
            idle = 0;
        uint64_t for_ns = idle == GUARD_IDLE_MAX ? UINT64_MAX : GUARD_NS;
        platform_condition_wait(&pool->guard_wake, &pool->lock, platform_deadline_ns(for_ns));
        atomic_store_explicit(&pool->guard_is_parked, false, memory_order_relaxed);
        lanes_check_locked(pool);
    }
    platform_mutex_unlock(&pool->lock);
}

/* The lane's thread. */

static bool is_hurried_locked(const struct task_pool *pool)
{
    return pool->kernels_wanted > 0 || pool->tasks.aside.count > 0 || pool->relying > 0;
}

void lanes_wake_locked(struct task_pool *pool)
{
    bool is_hurried = is_hurried_locked(pool);
    if (atomic_load_explicit(&pool->guard_is_parked, memory_order_relaxed))
        platform_condition_wake_one(&pool->guard_wake);
    if (pool->lanes_asleep == 0)
        return;
    for (struct task_lane *lane = atomic_load_explicit(&pool->lane_list, memory_order_acquire);
         lane; lane = lane->next) {
        bool has_reason = has_work(lane) || pool->tasks.aside.count > 0;
        bool has_inbox = atomic_load_explicit(&lane->has_inbox, memory_order_relaxed);
        if (has_reason &&
            (lane->sleep == SLEEP_PARKED || (lane->sleep == SLEEP_NAPS && is_hurried) || has_inbox))
            platform_condition_wake_one(&lane->wake);
    }
}

bool lanes_are_parked(struct task_pool *pool)
{
    bool is_parked = atomic_load_explicit(&pool->guard_is_parked, memory_order_seq_cst);
    for (struct task_lane *lane = atomic_load_explicit(&pool->lane_list, memory_order_acquire);
         lane; lane = lane->next)
        is_parked |=
            (atomic_load_explicit(&lane->is_parked, memory_order_seq_cst) && has_work(lane)) ||
            atomic_load_explicit(&lane->has_inbox, memory_order_relaxed);
    return is_parked;
}

static void sleep_locked(struct task_lane *lane, enum sleep how, uint64_t for_ns)
{
    struct task_pool *pool = lane->pool;
    lane->sleep = how;
    pool->lanes_asleep++;
    platform_condition_wait(&lane->wake, &pool->lock, platform_deadline_ns(for_ns));
    pool->lanes_asleep--;
    lane->sleep = SLEEP_NOT;
}

/*
 * Sequentially consistent, as what keep and then lanes_are_parked do: either whoever gives sees that
 * the thread has parked, or the thread sees what was given.
 */
static void park_locked(struct task_lane *lane)
{
    atomic_store_explicit(&lane->is_parked, true, memory_order_seq_cst);
    if (atomic_load_explicit(&lane->outstanding, memory_order_seq_cst) == 0)
        sleep_locked(lane, SLEEP_PARKED, UINT64_MAX);
    atomic_store_explicit(&lane->is_parked, false, memory_order_relaxed);
}

/* Looks on behalf of those who do not wait; more often if somebody is to hear of an end. */
static void watch(void *argument)
{
    struct task_lane *lane = argument;
    struct task_pool *pool = lane->pool;
    uint32_t naps = 0;
    uint64_t pause_ns = SHORT_NAP_NS, spin_from_ns = 0;
    platform_mutex_lock(&pool->lock);
    while (!pool->lanes_must_stop) {
        bool is_hurried = is_hurried_locked(pool);
        if (!has_work(lane) && pool->tasks.aside.count == 0) {
            if (naps++ < NAPS_MAX)
                sleep_locked(lane, SLEEP_NAPS, NAP_NS);
            else
                park_locked(lane);
            continue;
        }
        task_give_ready_locked(pool);
        platform_mutex_unlock(&pool->lock);
        bool has_ended = give_inbox(lane);
        has_ended = look(lane, is_hurried ? 0 : FRESH_NS) || has_ended;
        uint64_t now_ns = platform_clock_ns();
        if (has_ended || naps > 0)
            spin_from_ns = now_ns;
        bool must_spin = is_hurried && now_ns - spin_from_ns < SPIN_NS;
        if (must_spin)
            platform_thread_yield();
        platform_mutex_lock(&pool->lock);
        naps = 0;
        if (atomic_load_explicit(&lane->has_inbox, memory_order_relaxed))
            continue;
        if (has_ended || must_spin)
            pause_ns = SHORT_NAP_NS;
        /* Who gives and waits looks as well, and is not to be disturbed. */
        if (is_hurried && (has_ended || must_spin))
            continue;
        if (is_hurried)
            sleep_locked(lane, SLEEP_SHORTLY, pause_ns < NAP_NS ? pause_ns : NAP_NS);
        else
            sleep_locked(lane, SLEEP_NAPS, pause_ns > NAP_NS ? pause_ns : NAP_NS);
        pause_ns = pause_ns * 2 < FRESH_NS ? pause_ns * 2 : FRESH_NS;
    }
    lane->has_left = true;
    platform_condition_wake_all(&pool->ended);
    platform_mutex_unlock(&pool->lock);
}

void tasks_leave_device(struct muster *m, const struct run_device *device)
{
    struct task_pool *pool = atomic_load_explicit(&m->task_pool, memory_order_acquire);
    struct task_lane *lane =
        pool ? atomic_load_explicit(&pool->lanes[device->index], memory_order_acquire) : NULL;
    if (!lane)
        return;
    platform_mutex_lock(&lane->lock);
    if (!has_work(lane) && !is_inside(lane))
        close_streams(lane, lane->streams, &lane->stream_count);
    platform_mutex_unlock(&lane->lock);
}

/* Whether the thread of a lane that is to stop has left, or is inside a driver's call for too long. */
static bool has_left_or_is_stuck_locked(struct task_lane *lane, uint64_t deadline_ns)
{
    platform_mutex_unlock(&lane->pool->lock);
    platform_mutex_lock(&lane->lock);
    bool is_over = lane->is_given_up || platform_clock_ns() >= deadline_ns;
    bool is_stuck = is_inside(lane) && is_over;
    platform_mutex_unlock(&lane->lock);
    platform_mutex_lock(&lane->pool->lock);
    return lane->has_left || is_stuck;
}

/* Waits for the lane's thread; false if somebody is inside the driver and does not come out. */
static bool stop_lane(struct task_lane *lane, uint64_t deadline_ns)
{
    struct task_pool *pool = lane->pool;
    platform_mutex_lock(&pool->lock);
    while (!has_left_or_is_stuck_locked(lane, deadline_ns))
        platform_condition_wait(&pool->ended, &pool->lock, platform_clock_ns() + NAP_NS);
    bool has_left = lane->has_left;
    platform_mutex_unlock(&pool->lock);
    if (has_left)
        platform_thread_join(&lane->thread);
    else
        platform_thread_detach(&lane->thread);
    /* A thread of the user's may be there too. One that was detached may still be on its way out. */
    platform_mutex_lock(&lane->lock);
    struct kernel_task *none = NULL, **tail = &none;
    bool is_empty = has_left && !is_inside(lane);
    if (!is_empty)
        give_up(lane, &tail);
    else
        close_streams(lane, lane->streams, &lane->stream_count);
    platform_mutex_unlock(&lane->lock);
    INVARIANT(!none);
    return is_empty;
}

uint32_t lanes_stop(struct task_pool *pool, uint64_t deadline_ns, struct muster_error *what)
{
    struct task_lane *list = atomic_load_explicit(&pool->lane_list, memory_order_acquire);
    uint32_t stuck = 0;
    platform_mutex_lock(&pool->lock);
    pool->lanes_must_stop = true;
    for (struct task_lane *lane = list; lane; lane = lane->next)
        platform_condition_wake_all(&lane->wake);
    platform_condition_wake_all(&pool->guard_wake);
    platform_mutex_unlock(&pool->lock);
    platform_thread_join(&pool->guard);
    for (struct task_lane *lane = list; lane; lane = lane->next) {
        if (stop_lane(lane, deadline_ns))
            continue;
        if (stuck++ == 0) {
            muster_error_fill(
                what, MUSTER_E_DEVICE_HUNG, 0, "restart the process to get its memory back",
                "a call of the driver of %s does not return; the runtime is abandoned "
                "as it is",
                lane->device->info.id);
            run_error_device(what, lane->device);
        }
    }
    return stuck;
}

void lanes_free(struct task_pool *pool)
{
    struct task_lane *lane = atomic_load_explicit(&pool->lane_list, memory_order_acquire);
    while (lane) {
        struct task_lane *next = lane->next;
        INVARIANT(!has_work(lane));
        platform_condition_deinit(&lane->wake);
        platform_mutex_deinit(&lane->lock);
        allocator_give(&pool->m->allocator, lane, 1, sizeof *lane);
        lane = next;
    }
}
