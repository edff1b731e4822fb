/*
 * Threads of devices that are given tasks with accesses: each takes a copy or a task, gives it to the
 * device on a stream of its own, and waits for it. Copies for what comes next are made beside the
 * tasks that run.
 *
 * What comes from a device goes through pinned memory of the thread's, and into the host memory only
 * when it has arrived: a device that was given up meanwhile writes to nothing that others use.
 */
#include "run/task/flow.h"

#include "base/allocator.h"
#include "base/invariant.h"

#include <string.h>

#define STAGING_BYTES (UINT64_C(1) << 20)
/* A device is asked again whether somebody has given it up so often. */
#define ASK_NS 1000000000u
#define ALLOCATE_NS 50000000u
#define TRIES 3u
/* This many failures of streams and copies one after the other, and nothing done between: the device is lost. */
#define FAILURES_MAX 6u

/* What a piece of work is done with; taken before it, since others may have ended the work by its end. */
struct job {
    struct flow_device *device;
    struct flow_thread *thread;
    struct muster *m;
    uint64_t deadline_ns;
};

static bool is_lost(muster_status status)
{
    return muster_status_discards(status) >= MUSTER_DISCARD_DEVICE;
}

static bool is_stream_failed(muster_status status)
{
    return muster_status_discards(status) == MUSTER_DISCARD_STREAM;
}

/* Nothing more is to be done on the thread's stream: the next piece of work gets another. No lock is held. */
static void replace_stream(const struct job *job)
{
    (void)muster_stream_release(job->m, job->thread->stream, NULL);
    job->thread->stream = (muster_stream){ 0, 0 };
}

/* Whether the device is to be given up for this failure, or after it; `counts` if it may be the device's. */
static bool is_to_be_lost_locked(struct flow_device *device, muster_status status, bool counts)
{
    device->failures = status == MUSTER_OK ? 0 : device->failures + counts;
    return is_lost(status) || device->failures >= FAILURES_MAX;
}

/* Until the stream is done. A device that does not answer when the runtime closes is left. */
static muster_status await(const struct job *job, struct muster_error *err)
{
    struct task_pool *pool = job->device->pool;
    for (;;) {
        muster_status status = muster_stream_wait(job->m, job->thread->stream, ASK_NS, err);
        if (status != MUSTER_E_TIMEOUT)
            return status;
        platform_mutex_lock(&pool->lock);
        uint64_t now_ns = platform_clock_ns();
        bool is_over = now_ns >= job->deadline_ns || job->device->is_lost ||
                       (pool->drain_ns > 0 && now_ns - pool->drain_ns > job->m->options.close_ns);
        platform_mutex_unlock(&pool->lock);
        if (is_over)
            return MUSTER_E_DEVICE_HUNG;
    }
}

/* ---- Copies ---- */

/* The block of an instance; memory is found for it if it has none. */
static muster_status get_block(const struct job *job, uint32_t instance, uint64_t bytes,
                               muster_block *out, struct muster_error *err)
{
    struct task_pool *pool = job->device->pool;
    platform_mutex_lock(&pool->lock);
    *out = pool->flow.instances[instance].block;
    platform_mutex_unlock(&pool->lock);
    if (out->generation > 0)
        return MUSTER_OK;
    muster_status status =
        muster_block_allocate_many(job->m, job->thread->stream, &bytes, 1, ALLOCATE_NS, out, err);
    if (status != MUSTER_OK)
        return status == MUSTER_E_TOO_LARGE ? MUSTER_E_DEVICE_MEMORY : status;
    platform_mutex_lock(&pool->lock);
    bool is_kept = !job->device->is_lost;
    if (is_kept)
        pool->flow.instances[instance] =
            (struct flow_instance){ .block = *out, .place = job->device->place };
    platform_mutex_unlock(&pool->lock);
    if (is_kept)
        return MUSTER_OK;
    (void)muster_block_free(job->m, job->thread->stream, *out, NULL);
    return MUSTER_E_DEVICE_LOST;
}

/* Where byte `at` of the whole lies in a compact instance of `outer`. */
static uint64_t place_in(const struct shape *outer, uint64_t at)
{
    uint64_t far = at - outer->offset, row = outer->rows > 1 ? far / outer->pitch : 0;
    return row * outer->row_bytes + (far - row * (outer->rows > 1 ? outer->pitch : 0));
}

/* A piece of a part: bytes [at, at + bytes) of its rows in a row. */
struct piece {
    uint64_t at, bytes;
};

/* Moves a piece between rows at home and the staging memory. */
static void move_rows(const struct shape *shape, char *home, char *staging, struct piece piece,
                      bool is_in)
{
    for (uint64_t done = 0; done < piece.bytes;) {
        uint64_t row = (piece.at + done) / shape->row_bytes,
                 column = (piece.at + done) % shape->row_bytes;
        uint64_t bytes = shape->row_bytes - column;
        if (bytes > piece.bytes - done)
            bytes = piece.bytes - done;
        char *there = home + shape->offset + row * (shape->rows > 1 ? shape->pitch : 0) + column;
        memcpy(is_in ? staging + done : there, is_in ? there : staging + done, bytes);
        done += bytes;
    }
}

/* A piece from the device: as one where the instance is the part's own, else row by row. */
static muster_status fetch(const struct job *job, const struct flow_work *work, muster_block block,
                           struct piece piece, struct muster_error *err)
{
    const struct shape *shape = &work->shape, *outer = &work->from_shape;
    bool is_own = work->copy.part == work->copy.from_part;
    muster_status status = MUSTER_OK;
    for (uint64_t done = 0; done < piece.bytes && status == MUSTER_OK;) {
        uint64_t row = (piece.at + done) / shape->row_bytes,
                 column = (piece.at + done) % shape->row_bytes;
        uint64_t bytes = is_own ? piece.bytes : shape->row_bytes - column;
        if (bytes > piece.bytes - done)
            bytes = piece.bytes - done;
        uint64_t at = shape->offset + row * (shape->rows > 1 ? shape->pitch : 0) + column;
        status = muster_copy_out(job->m, job->thread->stream, job->thread->staging + done, block,
                                 is_own ? piece.at : place_in(outer, at), bytes, err);
        done += bytes;
    }
    return status == MUSTER_OK ? await(job, err) : status;
}

static muster_status copy_pieces(const struct job *job, const struct flow_work *work, char *home,
                                 muster_block block, struct muster_error *err)
{
    const struct shape *shape = &work->shape;
    uint64_t bytes = shape->rows * shape->row_bytes;
    bool is_in = work->copy.from == FLOW_HOME;
    muster_status status = MUSTER_OK;
    struct piece piece = { 0, 0 };
    for (; piece.at < bytes && status == MUSTER_OK; piece.at += piece.bytes) {
        piece.bytes = bytes - piece.at < STAGING_BYTES ? bytes - piece.at : STAGING_BYTES;
        if (is_in) {
            move_rows(shape, home, job->thread->staging, piece, true);
            status = muster_copy_in(job->m, job->thread->stream, block, piece.at,
                                    job->thread->staging, piece.bytes, err);
            if (status == MUSTER_OK)
                status = await(job, err);
            continue;
        }
        status = fetch(job, work, block, piece, err);
        platform_mutex_lock(&job->device->pool->lock);
        bool is_gone = job->device->is_lost;
        platform_mutex_unlock(&job->device->pool->lock);
        if (status == MUSTER_OK && is_gone)
            status = MUSTER_E_DEVICE_LOST;
        if (status == MUSTER_OK)
            move_rows(shape, home, job->thread->staging, piece, false);
    }
    return status;
}

/* Out of a part around it, on the same device. */
static muster_status copy_within(const struct job *job, const struct flow_work *work,
                                 muster_block from, struct muster_error *err)
{
    const struct shape *shape = &work->shape;
    muster_block to;
    muster_status status = get_block(job, work->copy.to_instance, work->copy.bytes, &to, err);
    for (uint64_t row = 0; row < shape->rows && status == MUSTER_OK; row++) {
        uint64_t at = shape->offset + row * (shape->rows > 1 ? shape->pitch : 0);
        status = muster_copy(job->m, job->thread->stream, to, row * shape->row_bytes, from,
                             place_in(&work->from_shape, at), shape->row_bytes, err);
    }
    return status == MUSTER_OK ? await(job, err) : status;
}

static void do_copy(const struct job *job, struct flow_work *work)
{
    struct flow_device *device = job->device;
    struct flow_pool *flow = &device->pool->flow;
    struct muster_error err = { .size = sizeof err };
    muster_block block;
    bool is_in = work->copy.from == FLOW_HOME, is_within = work->copy.from == work->copy.to;
    const struct shape *from = &work->from_shape;
    uint64_t begin_ns = platform_clock_ns();
    char *home = data_home(job->m, work->whole);
    muster_status status =
        home ? get_block(job, is_in ? work->copy.to_instance : work->copy.from_instance,
                         is_in ? work->copy.bytes : from->rows * from->row_bytes, &block, &err)
             : MUSTER_E_NO_MEMORY;
    if (status == MUSTER_OK && is_within)
        status = copy_within(job, work, block, &err);
    else if (status == MUSTER_OK)
        status = copy_pieces(job, work, home, block, &err);
    uint64_t now_ns = platform_clock_ns();
    if (is_stream_failed(status))
        replace_stream(job);
    platform_mutex_lock(&device->pool->lock);
    if (device->is_lost)
        return;
    /* What was refused for want of something is asked for again, or elsewhere. */
    if (is_to_be_lost_locked(device, status, !is_in || is_stream_failed(status)))
        flow_lose_locked(device);
    else
        dispatch_copied(flow->dispatch, work->copy.id,
                        status == MUSTER_OK ? MUSTER_OK : MUSTER_E_DEVICE_MEMORY,
                        status == MUSTER_OK ? now_ns - begin_ns : 0);
}

/* ---- Tasks ---- */

/* What a task is run with on a device. */
struct operands {
    muster_block blocks[MUSTER_ACCESSES_MAX];
    struct muster_use uses[MUSTER_ACCESSES_MAX];
    uint64_t pitches[MUSTER_ACCESSES_MAX], bytes[MUSTER_ACCESSES_MAX], rows[MUSTER_ACCESSES_MAX];
    struct muster_operand launch[MUSTER_ARGS_MAX];
    bool are_declared; /* blocks over host memory, for this task alone */
};

static enum muster_access access_of(uint32_t mode)
{
    return mode == MUSTER_READ    ? MUSTER_READS
           : mode == MUSTER_WRITE ? MUSTER_WRITES
                                  : MUSTER_READS_WRITES;
}

/* The block of access `i`: a replica, or the host memory itself. */
static muster_status find_block(const struct job *job, const struct flow_task *task, uint32_t i,
                                struct operands *operands, struct muster_error *err)
{
    struct run_data *data = task->uses[i].data;
    struct flow_device *device = job->device;
    uint32_t instance;
    operands->bytes[i] = data->bytes;
    operands->rows[i] = data->rows;
    if (device->place != FLOW_HOME) {
        operands->pitches[i] = data->row_bytes;
        platform_mutex_lock(&device->pool->lock);
        instance = flow_instance(device->pool->flow.core, task->uses[i].part, device->place);
        platform_mutex_unlock(&device->pool->lock);
        if (instance == FLOW_NONE)
            return MUSTER_E_DEVICE_LOST;
        return get_block(job, instance, data->bytes, &operands->blocks[i], err);
    }
    char *home = data_home(job->m, data);
    if (!home)
        return run_no_memory(err, "data on the host");
    operands->pitches[i] = data->pitch;
    operands->are_declared = true;
    const struct muster_memory memory = { .address = (uintptr_t)home,
                                          .bytes =
                                              (data->rows - 1) * data->pitch + data->row_bytes };
    return block_declare(job->m, device->device, memory, &operands->blocks[i], err);
}

static muster_status find_operands(const struct job *job, const struct flow_task *task,
                                   struct operands *operands, struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    for (uint32_t i = 0; i < task->count && status == MUSTER_OK; i++) {
        if (task->uses[i].data->bytes == 0)
            continue;
        status = find_block(job, task, i, operands, err);
        operands->uses[i] =
            (struct muster_use)MUSTER_USE(operands->blocks[i], access_of(task->uses[i].mode));
    }
    return status;
}

static void let_go(const struct job *job, const struct flow_task *task, uint32_t count,
                   const struct operands *operands)
{
    (void)task;
    for (uint32_t i = 0; i < count && operands->are_declared; i++)
        if (operands->blocks[i].generation > 0)
            (void)muster_block_free(job->m, job->thread->stream, operands->blocks[i], NULL);
}

static muster_status launch(const struct job *job, const struct flow_task *task,
                            struct operands *operands, struct muster_error *err)
{
    muster_status result = MUSTER_OK;
    for (uint32_t i = 0; i < task->arg_count; i++) {
        const struct flow_arg *arg = &task->args[i];
        struct muster_operand *operand = &operands->launch[i];
        *operand = (struct muster_operand){ .size = sizeof *operand };
        if (arg->kind == MUSTER_ARG_ACCESS) {
            operand->block = operands->blocks[arg->index];
            operand->access = operands->uses[arg->index].access;
        } else if (arg->kind == MUSTER_ARG_PITCH) {
            operand->value = &operands->pitches[arg->index];
            operand->bytes = sizeof(uint64_t);
        } else {
            operand->value = task->values + arg->offset;
            operand->bytes = arg->bytes;
        }
    }
    muster_status status = muster_launch(job->m, job->thread->stream, task->kernel, 0, task->items,
                                         operands->launch, task->arg_count, &result, err);
    if (status == MUSTER_OK)
        status = await(job, err);
    return status == MUSTER_OK ? result : status;
}

/* The uses that are blocks, without gaps. */
static size_t pack_uses(const struct flow_task *task, const struct operands *operands,
                        struct muster_use *uses)
{
    size_t count = 0;
    for (uint32_t i = 0; i < task->count; i++)
        if (task->uses[i].data->bytes > 0)
            uses[count++] = operands->uses[i];
    return count;
}

/* The body, where what the driver expects is current; its stream cannot go meanwhile. */
static muster_status call_body(const struct job *job, const struct muster_body *body, void *user,
                               const struct muster_native *native, struct muster_error *err)
{
    const struct muster_backend *table = &job->device->device->backend->table;
    struct run_stream *stream;
    muster_status status = stream_pin(job->m, job->thread->stream, &stream, err);
    if (status != MUSTER_OK)
        return status;
    status = table->native_enter(stream->state, err);
    if (status == MUSTER_OK) {
        status = body->enqueue(user, native);
        table->native_leave(stream->state);
    }
    stream_unpin(stream);
    return status;
}

static muster_status enqueue(const struct job *job, const struct flow_task *task,
                             struct operands *operands, struct muster_error *err)
{
    struct muster_use uses[MUSTER_ACCESSES_MAX];
    void *pointers[MUSTER_ACCESSES_MAX], *native_stream = NULL;
    const char *backend = job->device->device->backend->table.name;
    const struct muster_body *body = NULL;
    for (uint32_t i = 0; i < task->body_count; i++)
        if (strcmp(task->bodies[i].backend, backend) == 0)
            body = &task->bodies[i];
    INVARIANT(body);
    muster_status status = muster_stream_native(job->m, job->thread->stream, &native_stream, err);
    for (uint32_t i = 0; i < task->count && status == MUSTER_OK; i++) {
        struct muster_block_info info = { .size = sizeof info };
        pointers[i] = NULL;
        if (task->uses[i].data->bytes == 0)
            continue;
        status = muster_block_info(job->m, operands->blocks[i], &info, err);
        pointers[i] = info.address != 0 ? (void *)(uintptr_t)info.address : info.object;
    }
    size_t count = pack_uses(task, operands, uses);
    /* Another task that reads one of the blocks may be at the same: this one waits for it. */
    struct operation_run run;
    if (status == MUSTER_OK && count > 0)
        status =
            operation_begin(job->m, job->thread->stream, uses, count, HOLDER_OPERATION, &run, err);
    if (status != MUSTER_OK)
        return status;
    const struct muster_native native = { .size = sizeof native,
                                          .device = job->device->handle,
                                          .backend = backend,
                                          .stream = native_stream,
                                          .count = task->count,
                                          .pointers = pointers,
                                          .bytes = operands->bytes,
                                          .pitches = operands->pitches,
                                          .rows = operands->rows };
    status = call_body(job, body, task->user, &native, err);
    muster_status ended = count > 0 ? operation_end(&run, false, 0, err) : MUSTER_OK;
    if (status == MUSTER_OK)
        status = ended;
    muster_status finished = await(job, err);
    return status == MUSTER_OK ? finished : status;
}

/* Whether the task may be run again though it has run: it leaves nothing that it reads changed. */
static bool can_run_again(const struct flow_task *task)
{
    for (uint32_t i = 0; i < task->count; i++)
        if (task->uses[i].mode != MUSTER_READ && task->uses[i].mode != MUSTER_WRITE)
            return false;
    return true;
}

static void end_task_locked(struct flow_device *device, struct flow_task *task,
                            muster_status status)
{
    struct task_pool *pool = device->pool;
    struct tasks_entry *entry = &pool->tasks.entries[task->index];
    task->status = status;
    if (entry->payload[2]) {
        /* A thread that runs tasks calls `done`. */
        entry->tag |= FLOW_OVER;
        tasks_bring_back(&pool->tasks, task->index);
        flow_pump_locked(pool);
        return;
    }
    pool_end_entry_locked(pool, task->index, status);
    pool_tell_locked(pool);
    pool_give_ready_locked(pool, NULL);
}

static void do_task(const struct job *job, struct flow_work *work)
{
    struct flow_device *device = job->device;
    struct flow_task *task = work->task;
    struct muster_error err = { .size = sizeof err };
    struct operands operands = { .are_declared = false };
    uint32_t count = task->count;
    uint64_t begin_ns = platform_clock_ns();
    muster_status status = find_operands(job, task, &operands, &err);
    bool has_begun = status == MUSTER_OK;
    if (has_begun)
        status =
            task->kernel ? launch(job, task, &operands, &err) : enqueue(job, task, &operands, &err);
    let_go(job, task, count, &operands);
    uint64_t now_ns = platform_clock_ns();
    if (is_stream_failed(status))
        replace_stream(job);
    platform_mutex_lock(&device->pool->lock);
    /* If it is, core has found another device for the task meanwhile. */
    if (device->is_lost)
        return;
    bool is_refused =
        status == MUSTER_E_NOT_SUPPORTED || status == MUSTER_E_PARSE || status == MUSTER_E_DRIVER;
    bool is_failure = status == MUSTER_E_FAILED || is_stream_failed(status);
    if (is_to_be_lost_locked(device, status, is_stream_failed(status))) {
        flow_lose_locked(device);
    } else if (status != MUSTER_OK && ++task->tries < TRIES &&
               (!has_begun || is_refused || (is_failure && can_run_again(task)))) {
        device->running--;
        dispatch_put_back(device->pool->flow.dispatch, task->index,
                          status != MUSTER_E_DEVICE_MEMORY, now_ns);
    } else {
        task->elapsed_ns = now_ns - begin_ns;
        end_task_locked(device, task, status);
    }
}

/* ---- Threads ---- */

/* A stream of the thread's own, and staging memory. No lock is held. */
static muster_status set_up(struct job *job)
{
    struct flow_thread *thread = job->thread;
    muster_status status = MUSTER_OK;
    if (thread->stream.generation == 0)
        status = muster_stream_acquire(job->m, job->device->handle, 0, &thread->stream, NULL);
    if (status == MUSTER_OK && !thread->staging && job->device->place != FLOW_HOME) {
        void *memory;
        status = muster_host_allocate(job->m, job->device->handle, STAGING_BYTES, &memory, NULL);
        if (status == MUSTER_OK)
            thread->staging = memory;
    }
    return status;
}

/* With the lock, which is not held meanwhile. */
static void do_work_locked(struct job *job, struct flow_work *work)
{
    struct task_pool *pool = job->device->pool;
    job->thread->is_busy = true;
    job->thread->whole = work->kind == FLOW_WORK_COPY ? work->whole : NULL;
    platform_mutex_unlock(&pool->lock);
    muster_status status = set_up(job);
    if (status == MUSTER_OK && work->kind == FLOW_WORK_COPY) {
        do_copy(job, work);
    } else if (status == MUSTER_OK && work->kind == FLOW_WORK_TASK) {
        do_task(job, work);
    } else {
        /* What cannot be freed now goes with the runtime. */
        if (status == MUSTER_OK)
            (void)muster_block_free(job->m, job->thread->stream, work->block, NULL);
        platform_mutex_lock(&pool->lock);
        /* Without a stream, or memory for it, nothing can be done there. */
        if (status != MUSTER_OK)
            flow_lose_locked(job->device);
    }
    job->thread->is_busy = false;
    job->thread->whole = NULL;
    flow_give_work_locked(&pool->flow, work);
    flow_pump_locked(pool);
    pool_tell_locked(pool);
}

/* Core wants room for more instances: true if there was something to do. */
static bool grow_locked(struct task_pool *pool)
{
    struct flow_pool *flow = &pool->flow;
    if (!dispatch_wants_instances(flow->dispatch))
        return false;
    const struct flow_sizes wanted = { .instances = flow_sizes_of(flow->core)->instances + 1 };
    if (flow_grow_locked(pool, &wanted, NULL) == MUSTER_OK)
        flow_pump_locked(pool);
    return true;
}

static void work(void *argument)
{
    struct flow_thread *thread = argument;
    struct flow_device *device = thread->device;
    struct task_pool *pool = device->pool;
    struct task_frame frame;
    pool_enter(&frame, pool, (muster_task){ 0, 0 });
    platform_mutex_lock(&pool->lock);
    for (;;) {
        struct flow_work *next = device->first;
        if (next) {
            struct job job = { device, thread, pool->m, UINT64_MAX };
            device->first = next->next;
            do_work_locked(&job, next);
        } else if (pool->flow.must_stop) {
            break;
        } else if (!grow_locked(pool)) {
            platform_condition_wait(&device->wake, &pool->lock, UINT64_MAX);
        }
    }
    thread->has_left = true;
    platform_condition_wake_all(&pool->ended);
    platform_mutex_unlock(&pool->lock);
    platform_frame_leave(&frame.head);
}

muster_status flow_device_start(struct flow_device *device, struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    for (uint32_t i = 0; i < FLOW_THREADS && status == MUSTER_OK; i++) {
        device->threads[i].device = device;
        status = platform_thread_start(&device->threads[i].thread, work, &device->threads[i],
                                       "muster-flow", NULL, err);
        device->threads[i].is_started = status == MUSTER_OK;
    }
    return status;
}

/* The threads of one device, and what they have of it. With the lock. */
static uint32_t stop_locked(struct flow_device *device, uint64_t deadline_ns)
{
    struct task_pool *pool = device->pool;
    uint32_t stuck = 0;
    for (uint32_t i = 0; i < FLOW_THREADS; i++) {
        struct flow_thread *thread = &device->threads[i];
        bool in_time = true;
        while (thread->is_started && !thread->has_left && in_time)
            in_time = platform_condition_wait(&pool->ended, &pool->lock, deadline_ns);
        if (!thread->is_started)
            continue;
        if (!thread->has_left) {
            stuck++;
            platform_thread_detach(&thread->thread);
            continue;
        }
        platform_mutex_unlock(&pool->lock);
        platform_thread_join(&thread->thread);
        if (thread->staging)
            (void)muster_host_free(pool->m, thread->staging, NULL);
        if (thread->stream.generation > 0)
            (void)muster_stream_release(pool->m, thread->stream, NULL);
        platform_mutex_lock(&pool->lock);
    }
    return stuck;
}

uint32_t flow_devices_stop(struct task_pool *pool, uint64_t deadline_ns, struct muster_error *what)
{
    uint32_t stuck = 0;
    platform_mutex_lock(&pool->lock);
    pool->flow.must_stop = true;
    for (uint32_t i = 0; i < pool->flow.device_count; i++)
        platform_condition_wake_all(&pool->flow.devices[i]->wake);
    for (uint32_t i = 0; i < pool->flow.device_count; i++) {
        uint32_t here = stop_locked(pool->flow.devices[i], deadline_ns);
        if (here > 0 && stuck == 0)
            muster_error_fill(what, MUSTER_E_DEVICE_HUNG, 0, NULL,
                              "%u threads of %s have not come back from its driver", here,
                              pool->flow.devices[i]->device->info.id);
        stuck += here;
    }
    platform_mutex_unlock(&pool->lock);
    return stuck;
}
