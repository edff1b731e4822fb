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
 * Whoever gives or looks has the lane's lock. What may take longer than a launch is done on a stream
 * that is claimed for it, with the lock let go. Those who wait for tasks look themselves; the lane's
 * thread looks for the others, and finds what is overdue.
 */
#include "base/allocator.h"
#include "base/invariant.h"
#include "run/task_pool.h"

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

struct lane_stream {
    muster_stream handle;
    struct run_stream *stream; /* pinned */
    struct run_event *event;   /* a reference */
    uint32_t count;
    bool is_recorded;                    /* and not seen to be complete */
    bool is_claimed;                     /* somebody gives to it, without the lock */
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
    struct platform_mutex lock;
    struct lane_stream streams[LANE_STREAMS];
    uint32_t stream_count;
    const struct muster_kernel *kernel; /* given last, with so many items at most; not followed */
    uint64_t items;
    enum pace pace;               /* with these */
    uint32_t stream;              /* where it is kept */
    uint64_t progress_ns;         /* when something last ended, or was given to an idle lane */
    uint64_t first_deadline_ns;   /* nothing is overdue before */
    bool is_given_up;             /* its device hangs */
    _Atomic uint32_t outstanding; /* written with the lock */
    struct platform_thread thread;
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

static bool has_work(struct task_lane *lane)
{
    return atomic_load_explicit(&lane->outstanding, memory_order_relaxed) > 0;
}

/* Opening a lane. */

static void close_stream(struct task_lane *lane, struct lane_stream *stream)
{
    struct muster *m = lane->pool->m;
    run_lock(m);
    event_unreference_locked(lane->device, stream->event);
    stream_unpin_locked(stream->stream);
    run_unlock(m);
    muster_stream_release(m, stream->handle, NULL);
}

static void close_streams(struct task_lane *lane)
{
    for (uint32_t i = 0; i < lane->stream_count; i++) {
        struct lane_stream *stream = &lane->streams[i];
        close_stream(lane, stream);
        *stream = (struct lane_stream){ .given = 0 };
    }
    lane->stream_count = 0;
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

/* As many streams as there are to be had, one at least. */
static muster_status open_streams(struct task_lane *lane, struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    while (lane->stream_count < LANE_STREAMS && status == MUSTER_OK) {
        status = open_stream(lane, &lane->streams[lane->stream_count], err);
        lane->stream_count += status == MUSTER_OK;
    }
    if (status == MUSTER_E_CAPACITY && lane->stream_count > 0)
        return MUSTER_OK;
    if (status != MUSTER_OK)
        close_streams(lane);
    return status;
}

static void watch(void *argument);

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
    if ((status = open_streams(lane, err)) != MUSTER_OK)
        goto no_streams;
    status = platform_thread_start(&lane->thread, watch, lane, "muster-kernels", NULL, err);
    if (status == MUSTER_OK) {
        *out = lane;
        return status;
    }
    close_streams(lane);
no_streams:
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
    if (!*out)
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

/* Leaves a stream on which something failed, once nothing is on it. */
static void renew_stream(struct lane_stream *stream)
{
    if (stream->oldest || stream->is_claimed || stream_renew(stream->stream, NULL) != MUSTER_OK)
        return;
    *stream = (struct lane_stream){ .handle = stream->handle,
                                    .stream = stream->stream,
                                    .event = stream->event,
                                    .given = stream->given };
}

static bool can_take(const struct lane_stream *stream)
{
    return !stream->is_claimed && !stream->has_failed;
}

/*
 * The stream with the fewest tasks. The first is never claimed, if there is another, so that light
 * tasks need not wait for copies.
 */
static struct lane_stream *choose_stream(struct task_lane *lane, bool to_claim)
{
    struct lane_stream *best = NULL;
    if (lane->is_given_up || (lane->stream_count == 0 && open_streams(lane, NULL) != MUSTER_OK))
        return NULL;
    for (uint32_t i = to_claim && lane->stream_count > 1; i < lane->stream_count; i++) {
        struct lane_stream *stream = &lane->streams[i];
        if (stream->has_failed)
            renew_stream(stream);
        if (can_take(stream) && (!best || stream->count < best->count))
            best = stream;
    }
    return best;
}

/*
 * The same for tasks that need no claim: the one they came to before, if the device keeps pace. That
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

/* Whether something of the lane is still to end, so that there may be room later. */
static bool may_wait(struct task_lane *lane)
{
    bool is_busy = has_work(lane);
    for (uint32_t i = 0; i < lane->stream_count; i++)
        is_busy = is_busy || lane->streams[i].is_claimed;
    return is_busy && !lane->is_given_up;
}

static void append(struct task_lane *lane, struct lane_stream *stream, struct kernel_task *task,
                   uint64_t now_ns)
{
    task->next = NULL;
    task->sequence = ++stream->given;
    task->deadline_ns =
        task->timeout_ns < UINT64_MAX - now_ns ? now_ns + task->timeout_ns : UINT64_MAX;
    if (task->deadline_ns < lane->first_deadline_ns)
        lane->first_deadline_ns = task->deadline_ns;
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
    uint32_t outstanding = atomic_load_explicit(&lane->outstanding, memory_order_relaxed);
    atomic_store_explicit(&lane->outstanding, outstanding - 1, memory_order_relaxed);
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

/* Puts the event behind all that was given, if it is not on its way. */
static void record(struct task_lane *lane, struct lane_stream *stream)
{
    const struct muster_backend *table = &lane->device->backend->table;
    if (!stream->is_recorded &&
        table->event_record(stream->event->state, stream->stream->state, NULL) == MUSTER_OK) {
        stream->is_recorded = true;
        stream->recorded = stream->given;
    }
}

/* Whether the stream is over up to `covered`, and how that went. */
static muster_status ask(struct task_lane *lane, struct lane_stream *stream, uint64_t *covered)
{
    const struct muster_backend *table = &lane->device->backend->table;
    if (!stream->is_recorded && stream->is_claimed)
        return MUSTER_E_BUSY;
    record(lane, stream);
    *covered = stream->is_recorded ? stream->recorded : stream->given;
    /* A device that takes no record, a lost one for instance, may still be working. */
    return stream->is_recorded ? table->event_query(stream->event->state, NULL)
                               : table->stream_query(stream->stream->state, NULL);
}

static void look_at_stream(struct task_lane *lane, struct lane_stream *stream, uint64_t now_ns,
                           struct kernel_task ***tail)
{
    uint64_t covered = 0;
    if (!stream->oldest)
        return;
    stream->looked = stream->given;
    stream->looked_ns = now_ns;
    muster_status status = ask(lane, stream, &covered);
    if (!run_is_over(status)) {
        stream->busy_ns = now_ns;
        if (status == MUSTER_E_BUSY)
            stream->mute_ns = 0;
        else if (stream->mute_ns == 0)
            stream->mute_ns = now_ns;
        return;
    }
    device_note(lane->device, status, NULL);
    stream->mute_ns = 0;
    stream->is_recorded = false;
    stream->has_failed |= muster_status_discards(status) == MUSTER_DISCARD_STREAM;
    if (stream->has_copies)
        flights_retire(stream->stream);
    while (stream->oldest && stream->oldest->sequence <= covered) {
        struct kernel_task *task = take_oldest(lane, stream);
        task->was_prompt = now_ns - stream->busy_ns < (now_ns - task->mark.begin_ns) / 4;
        judge(task, status);
        **tail = task;
        *tail = &task->next;
    }
    stream->has_copies = stream->has_copies && stream->oldest;
    lane->progress_ns = now_ns;
}

/*
 * What whoever gives looks at in passing: the event that was recorded when it last did. What it gave
 * just now is not over, so that is not asked.
 */
static void glance(struct task_lane *lane, struct lane_stream *stream, uint64_t now_ns,
                   struct kernel_task ***tail)
{
    if (stream->is_recorded) {
        look_at_stream(lane, stream, now_ns, tail);
        bool has_kept = !stream->is_recorded && lane->pace != PACE_LOST;
        lane->pace = has_kept ? PACE_KEPT : PACE_LOST;
        lane->stream = (uint32_t)(stream - lane->streams);
    }
    record(lane, stream);
    stream->looked = stream->given;
    stream->looked_ns = now_ns;
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

static muster_status launch(struct group *group, struct lane_stream *stream, void *built,
                            struct muster_error *err)
{
    struct muster_launch_desc launches[TAKEN_AT_ONCE];
    for (uint32_t i = 0; i < group->count; i++) {
        struct kernel_task *task = group->tasks[i];
        task->result = MUSTER_OK;
        launches[i] = (struct muster_launch_desc){ .items = task->items,
                                                   .args = task->args,
                                                   .arg_count = task->arg_count,
                                                   .result = &task->result,
                                                   .flags = MUSTER_LAUNCH_UNORDERED };
    }
    return device_note(group->device,
                       group->device->backend->table.launch(stream->stream->state, built, launches,
                                                            group->count, err),
                       err);
}

/*
 * The tasks are the device's from here on. Of several in one launch that failed some may have been
 * given, so all are waited for.
 */
static void keep(struct task_lane *lane, struct lane_stream *stream, struct group *group,
                 muster_status accepted, uint64_t now_ns)
{
    if (!has_work(lane))
        lane->progress_ns = now_ns;
    for (uint32_t i = 0; i < group->count; i++) {
        group->tasks[i]->accepted = accepted;
        append(lane, stream, group->tasks[i], now_ns);
    }
    /* See park_locked. */
    atomic_fetch_add_explicit(&lane->outstanding, group->count, memory_order_seq_cst);
}

static void give_values(struct task_lane *lane, struct group *group, void *built, uint64_t now_ns,
                        struct kernel_task **left)
{
    muster_status status = MUSTER_E_STREAM_FAILED;
    struct kernel_task *ended = NULL, **tail = &ended;
    platform_mutex_lock(&lane->lock);
    struct lane_stream *stream = choose_for(lane, group->tasks[0], now_ns);
    bool must_wait = !stream && may_wait(lane);
    if (stream)
        status = launch(group, stream, built, NULL);
    bool is_kept = stream && (status == MUSTER_OK || group->count > 1);
    if (is_kept)
        keep(lane, stream, group, status, now_ns);
    /* So that one who only gives holds no more than what is unfinished. */
    if (is_kept && stream->given - stream->looked >= LOOK_EVERY)
        glance(lane, stream, now_ns, &tail);
    *tail = NULL;
    platform_mutex_unlock(&lane->lock);
    if (ended) {
        count_ended(lane, ended);
        *tail = *left;
        *left = ended;
    }
    if (!is_kept)
        hand_back(group, must_wait ? KERNEL_WAITS : KERNEL_AGAIN, status, left);
}

/* The first task's data, made resident; all of the group have the same. */
static muster_status find_data(struct group *group, struct lane_stream *stream,
                               struct muster_use *uses, size_t *count, struct muster_error *err)
{
    const struct kernel_task *task = group->tasks[0];
    muster_status status = MUSTER_OK;
    *count = 0;
    for (uint32_t i = 0; i < task->arg_count && status == MUSTER_OK; i++) {
        if (task->given[i].kind != MUSTER_ARG_ALL)
            continue;
        uses[*count].access = MUSTER_READS;
        status = muster_data_resident(group->device->m, task->given[i].data, stream->handle,
                                      &uses[(*count)++].block, err);
    }
    return status;
}

/* Launches with the data held, so that whoever drops it waits for these tasks too. */
static muster_status launch_with_data(struct group *group, struct lane_stream *stream, void *built,
                                      bool *is_kept)
{
    struct muster_use uses[MUSTER_ARGS_MAX];
    struct operation_run run;
    size_t count;
    *is_kept = false;
    muster_status status = find_data(group, stream, uses, &count, NULL);
    if (status == MUSTER_OK)
        status = operation_begin(group->device->m, stream->handle, uses, count, HOLDER_OPERATION,
                                 &run, NULL);
    if (status != MUSTER_OK)
        return status;
    for (uint32_t i = 0; i < group->count; i++) {
        struct kernel_task *task = group->tasks[i];
        for (uint32_t arg = 0, use = 0; arg < task->arg_count; arg++)
            if (task->given[arg].kind == MUSTER_ARG_ALL)
                task->args[arg].memory = operation_memory(&run, uses[use++].block);
    }
    status = launch(group, stream, built, NULL);
    *is_kept = status == MUSTER_OK || group->count > 1;
    if (!*is_kept) {
        operation_abandon(&run);
        return status;
    }
    muster_status recorded = operation_end(&run, false, 0, NULL);
    return status == MUSTER_OK ? recorded : status;
}

/* The stream that was claimed, or NULL and the tasks are handed back. */
static struct lane_stream *claim(struct task_lane *lane, struct group *group,
                                 struct kernel_task **left)
{
    platform_mutex_lock(&lane->lock);
    struct lane_stream *stream = choose_stream(lane, true);
    bool has_hope = may_wait(lane);
    if (stream)
        stream->is_claimed = true;
    platform_mutex_unlock(&lane->lock);
    if (!stream)
        hand_back(group, has_hope ? KERNEL_WAITS : KERNEL_AGAIN, MUSTER_E_STREAM_FAILED, left);
    return stream;
}

/* Ends a claim. The tasks are kept if the device has anything of them, else handed back. */
static void unclaim(struct task_lane *lane, struct lane_stream *stream, struct group *group,
                    bool is_kept, muster_status accepted, uint64_t now_ns,
                    struct kernel_task **left)
{
    platform_mutex_lock(&lane->lock);
    stream->is_claimed = false;
    stream->has_copies = stream->has_copies || (is_kept && group->is_heavy);
    if (is_kept)
        keep(lane, stream, group, accepted, now_ns);
    bool must_wait = accepted == MUSTER_E_DEVICE_MEMORY && may_wait(lane);
    platform_mutex_unlock(&lane->lock);
    if (!is_kept)
        hand_back(group, must_wait ? KERNEL_WAITS : KERNEL_AGAIN, accepted, left);
}

static void give_with_data(struct task_lane *lane, struct group *group, void *built,
                           uint64_t now_ns, struct kernel_task **left)
{
    bool is_kept;
    struct lane_stream *stream = claim(lane, group, left);
    if (!stream)
        return;
    muster_status status = launch_with_data(group, stream, built, &is_kept);
    unclaim(lane, stream, group, is_kept, status, now_ns, left);
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
        if (kind == MUSTER_ARG_VALUE || kind == MUSTER_ARG_FIRST) {
            operands[i].value = task->args[i].value;
            operands[i].bytes = task->args[i].bytes;
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

/* Copies in, launches, copies out; `is_kept`: the device has some of it. */
static muster_status copy_and_launch(struct muster *m, struct lane_stream *stream,
                                     struct kernel_task *task,
                                     const struct muster_operand *operands, bool *is_kept)
{
    muster_status status = MUSTER_OK;
    for (uint32_t i = 0; i < task->arg_count && status == MUSTER_OK; i++) {
        const struct muster_arg *arg = &task->given[i];
        if (arg->kind != MUSTER_ARG_IN && arg->kind != MUSTER_ARG_INOUT)
            continue;
        status = muster_copy_in(m, stream->handle, operands[i].block, 0, arg->in,
                                task->memories[i].bytes, NULL);
        *is_kept = *is_kept || status == MUSTER_OK;
    }
    if (status == MUSTER_OK) {
        status = muster_launch(m, stream->handle, task->kernel, 0, task->items, operands,
                               task->arg_count, &task->result, NULL);
        *is_kept = *is_kept || status == MUSTER_OK;
    }
    for (uint32_t i = 0; i < task->arg_count && status == MUSTER_OK; i++) {
        const struct muster_arg *arg = &task->given[i];
        if (arg->kind == MUSTER_ARG_OUT || arg->kind == MUSTER_ARG_INOUT)
            status = muster_copy_out(m, stream->handle, arg->out, operands[i].block, 0,
                                     task->memories[i].bytes, NULL);
    }
    return status;
}

static void give_with_copies(struct task_lane *lane, struct group *group, uint64_t now_ns,
                             struct kernel_task **left)
{
    struct muster *m = lane->pool->m;
    struct kernel_task *task = group->tasks[0];
    struct muster_operand operands[MUSTER_ARGS_MAX] = { { .access = 0 } };
    bool is_kept = false;
    struct lane_stream *stream = claim(lane, group, left);
    if (!stream)
        return;
    task->result = MUSTER_OK;
    muster_status status = make_operands(m, stream, task, operands);
    if (status == MUSTER_OK)
        status = copy_and_launch(m, stream, task, operands, &is_kept);
    free_blocks(m, stream, operands, task);
    if (is_kept) {
        /* Its launch counts against the device from here on. */
        run_lock(m);
        kernel_task_unplace_locked(task, platform_clock_ns());
        run_unlock(m);
    }
    unclaim(lane, stream, group, is_kept, status, now_ns, left);
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
    if (a->arg_count != b->arg_count)
        return false;
    for (uint32_t i = 0; i < a->arg_count; i++) {
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
        if (task->device == first->device && task->kernel == first->kernel && !is_heavy(task) &&
            has_same_data(first, task)) {
            group->tasks[group->count++] = task;
            *at = task->next;
        } else {
            at = &task->next;
        }
    }
}

static void give_group(struct task_pool *pool, struct group *group, uint64_t now_ns,
                       struct kernel_task **left)
{
    struct task_lane *lane;
    void *built = group->tasks[0]->built;
    muster_status status = get_lane(pool, group->device, &lane, NULL);
    if (status == MUSTER_OK && !built)
        status = kernel_get_built(group->tasks[0]->kernel, group->device, &built, NULL);
    if (status != MUSTER_OK)
        hand_back(group, KERNEL_AGAIN, status, left);
    else if (group->is_heavy)
        give_with_copies(lane, group, now_ns, left);
    else if (group->has_data)
        give_with_data(lane, group, built, now_ns, left);
    else
        give_values(lane, group, built, now_ns, left);
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

struct kernel_task *lanes_give(struct task_pool *pool, struct kernel_task *chain)
{
    struct kernel_task *left = NULL;
    uint64_t now_ns = platform_clock_ns();
    chain = place(pool, chain, now_ns, &left);
    while (chain) {
        struct group group;
        take_group(&chain, &group);
        give_group(pool, &group, now_ns, &left);
    }
    return left;
}

/* Looking, and giving up. */

/* All tasks are taken from a device that hangs; what it may still write to is not used again. */
static void give_up(struct task_lane *lane, struct kernel_task ***tail)
{
    struct muster_error problem;
    muster_error_fill(&problem, MUSTER_E_DEVICE_HUNG, 0, "go on with other devices",
                      "%s has not finished a task in time", lane->device->info.id);
    device_note(lane->device, MUSTER_E_DEVICE_HUNG, &problem);
    lane->is_given_up = true;
    for (uint32_t i = 0; i < lane->stream_count; i++)
        while (lane->streams[i].oldest) {
            struct kernel_task *task = take_oldest(lane, &lane->streams[i]);
            task->is_spoilt = true;
            task->status = MUSTER_E_DEVICE_HUNG;
            task->was_prompt = false;
            /* Its arrays are in the hands of the device. */
            task->outcome =
                ++task->tries < KERNEL_TRIES && !task->has_arrays ? KERNEL_AGAIN : KERNEL_ENDS;
            **tail = task;
            *tail = &task->next;
        }
}

/* Whether a task is over its time, or nobody can tell, and when the next one will be. */
static bool is_overdue(struct task_lane *lane, uint64_t now_ns)
{
    uint64_t first_ns = UINT64_MAX, patience_ns = lane->pool->m->options.close_ns;
    for (uint32_t i = 0; i < lane->stream_count; i++)
        if (lane->streams[i].mute_ns > 0 && now_ns - lane->streams[i].mute_ns > patience_ns)
            return true;
    if (now_ns < lane->first_deadline_ns)
        return false;
    for (uint32_t i = 0; i < lane->stream_count; i++)
        for (struct kernel_task *task = lane->streams[i].oldest; task; task = task->next)
            if (task->deadline_ns < first_ns)
                first_ns = task->deadline_ns;
    lane->first_deadline_ns = first_ns;
    return now_ns >= first_ns;
}

static void settle(struct task_lane *lane, struct kernel_task *chain)
{
    if (!chain)
        return;
    count_ended(lane, chain);
    task_settle(lane->pool, chain);
}

/*
 * Sees what of the lane is over; whether anything was. Somebody else may be at it: then nothing.
 * Streams that were looked at in the last `fresh_ns` are left out.
 */
static bool look(struct task_lane *lane, uint64_t fresh_ns)
{
    struct kernel_task *chain = NULL, **tail = &chain;
    if (!has_work(lane) || !platform_mutex_try_lock(&lane->lock))
        return false;
    uint64_t now_ns = platform_clock_ns();
    for (uint32_t i = 0; i < lane->stream_count; i++)
        if (fresh_ns == 0 || lane->streams[i].looked_ns + fresh_ns <= now_ns)
            look_at_stream(lane, &lane->streams[i], now_ns, &tail);
    /* What was being given while the lane was given up follows. */
    if (is_overdue(lane, now_ns) || lane->is_given_up)
        give_up(lane, &tail);
    *tail = NULL;
    platform_mutex_unlock(&lane->lock);
    settle(lane, chain);
    return chain != NULL;
}

bool lanes_look(struct task_pool *pool)
{
    bool has_ended = false;
    for (struct task_lane *lane = atomic_load_explicit(&pool->lane_list, memory_order_acquire);
         lane; lane = lane->next)
        has_ended = look(lane, 0) || has_ended;
    return has_ended;
}

void lanes_give_up(struct task_pool *pool, uint64_t since_ns, uint64_t patience_ns)
{
    for (struct task_lane *lane = atomic_load_explicit(&pool->lane_list, memory_order_acquire);
         lane; lane = lane->next) {
        struct kernel_task *chain = NULL, **tail = &chain;
        platform_mutex_lock(&lane->lock);
        uint64_t idle_since_ns = lane->progress_ns > since_ns ? lane->progress_ns : since_ns;
        uint64_t now_ns = platform_clock_ns();
        if (has_work(lane) && now_ns > idle_since_ns && now_ns - idle_since_ns > patience_ns)
            give_up(lane, &tail);
        *tail = NULL;
        platform_mutex_unlock(&lane->lock);
        settle(lane, chain);
    }
}

/* The lane's thread. */

void lanes_wake_locked(struct task_pool *pool)
{
    bool is_hurried = pool->kernels_wanted > 0 || pool->tasks.aside.count > 0;
    if (pool->lanes_asleep == 0)
        return;
    for (struct task_lane *lane = atomic_load_explicit(&pool->lane_list, memory_order_acquire);
         lane; lane = lane->next) {
        bool has_reason = has_work(lane) || pool->tasks.aside.count > 0;
        if (has_reason &&
            (lane->sleep == SLEEP_PARKED || (lane->sleep == SLEEP_NAPS && is_hurried)))
            platform_condition_wake_one(&lane->wake);
    }
}

bool lanes_are_parked(struct task_pool *pool)
{
    bool is_parked = false;
    for (struct task_lane *lane = atomic_load_explicit(&pool->lane_list, memory_order_acquire);
         lane; lane = lane->next)
        is_parked |= atomic_load_explicit(&lane->is_parked, memory_order_seq_cst) && has_work(lane);
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
        bool is_hurried = pool->kernels_wanted > 0 || pool->tasks.aside.count > 0;
        if (!has_work(lane) && pool->tasks.aside.count == 0) {
            if (naps++ < NAPS_MAX)
                sleep_locked(lane, SLEEP_NAPS, NAP_NS);
            else
                park_locked(lane);
            continue;
        }
        task_give_ready_locked(pool);
        platform_mutex_unlock(&pool->lock);
        bool has_ended = look(lane, is_hurried ? 0 : FRESH_NS);
        uint64_t now_ns = platform_clock_ns();
        if (has_ended || naps > 0)
            spin_from_ns = now_ns;
        bool must_spin = is_hurried && now_ns - spin_from_ns < SPIN_NS;
        if (must_spin)
            platform_thread_yield();
        platform_mutex_lock(&pool->lock);
        naps = 0;
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
    platform_mutex_unlock(&pool->lock);
}

void tasks_leave_device(struct muster *m, const struct run_device *device)
{
    struct task_pool *pool = atomic_load_explicit(&m->task_pool, memory_order_acquire);
    struct task_lane *lane =
        pool && device->index < TASK_DEVICES_MAX
            ? atomic_load_explicit(&pool->lanes[device->index], memory_order_acquire)
            : NULL;
    if (!lane)
        return;
    platform_mutex_lock(&lane->lock);
    bool is_idle = !has_work(lane);
    for (uint32_t i = 0; i < lane->stream_count; i++)
        is_idle = is_idle && !lane->streams[i].is_claimed;
    if (is_idle)
        close_streams(lane);
    platform_mutex_unlock(&lane->lock);
}

void lanes_stop(struct task_pool *pool)
{
    struct task_lane *list = atomic_load_explicit(&pool->lane_list, memory_order_acquire);
    platform_mutex_lock(&pool->lock);
    pool->lanes_must_stop = true;
    for (struct task_lane *lane = list; lane; lane = lane->next)
        platform_condition_wake_all(&lane->wake);
    platform_mutex_unlock(&pool->lock);
    for (struct task_lane *lane = list; lane; lane = lane->next) {
        platform_thread_join(&lane->thread);
        close_streams(lane);
    }
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
