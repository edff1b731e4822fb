/*
 * Work over a range - kernels, copies, fills - and how several workers do one together.
 */
#include "backend/queue_state.h"
#include "platform/frame.h"

#include <string.h>

/*
 * Work that will take longer than this is worth waking other workers for: a wake costs some ten
 * microseconds.
 */
#define SHARE_NS 30000u
/* How long a worker without memory for pieces leaves a launch to others. */
#define NO_SCRATCH_NS 1000000u
/*
 * Workers claim parts that become smaller towards the end, so that they finish together: of what is left
 * a part is one of this many for each worker, and no part is smaller than one of this many of the whole. The
 * first part is as small as the last: others are not to wait for long until the first worker sees that
 * they should help.
 */
#define SHARES_PER_WORKER 4u
#define PARTS_PER_WORKER 64u
/*
 * A worker looks so often whether a launch that can be stopped still is to go on. It goes by how long the
 * stream's last items of the same kernel took, and if it does not know that, by such a part of the launch.
 */
#define STEP_NS 1000000.0
#define FIRST_STEPS 64u
/*
 * A function may take some time whatever it is given, to set something up or to call a library. Its steps
 * are then this many times as long, and become longer by this factor at most, since that is a guess.
 */
#define STEP_CALLS 8.0
#define STEP_GROWTH 4.0
/* Items take this part of a step at least, as far as the next one is concerned. */
#define STEP_ITEMS_PART (1.0 / 64)
/* Copies and fills are not cut finer than this. */
#define COPY_GRAIN_BYTES ((uint64_t)256 << 10)

void queue_range_finish(struct queue_stream *stream, muster_status *result, muster_status status)
{
    if (stream->queue->status != MUSTER_OK)
        status = stream->queue->status;
    /* A kernel may return any status, also one that would mean a lost device if it were ours. */
    if (status != MUSTER_OK && result)
        *result = status;
    else if (status != MUSTER_OK)
        queue_stream_fail(stream, status);
    queue_stream_step(stream);
}

/* Parts. */

void queue_range_share(struct queue *queue, struct shared_range *shared)
{
    lock(queue);
    shared->next = queue->shared;
    queue->shared = shared;
    bool is_any_idle = queue->workers_idle > 0;
    unlock(queue);
    /* Not under the lock, which all of them take first. */
    if (is_any_idle)
        platform_condition_wake_all(&queue->work);
}

bool queue_range_is_worth_sharing(const struct shared_range *shared, uint64_t done,
                                  uint64_t begin_ns)
{
    if (done >= shared->range->items)
        return false;
    double left = (double)(shared->range->items - done) / (double)done;
    return (double)(platform_clock_ns() - begin_ns) * left > SHARE_NS;
}

void queue_range_join(struct queue *queue, struct shared_range *shared)
{
    lock(queue);
    struct shared_range **at = &queue->shared;
    while (*at != shared)
        at = &(*at)->next;
    *at = shared->next;
    while (shared->helpers > 0)
        platform_condition_wait(&queue->joined, &queue->lock, UINT64_MAX);
    unlock(queue);
}

bool queue_range_claim(struct shared_range *shared, uint64_t *first, uint64_t *count)
{
    const struct range *range = shared->range;
    uint64_t at = atomic_load_explicit(&shared->next_item, memory_order_relaxed), part;
    do {
        if (at >= range->items)
            return false;
        uint64_t left = range->items - at;
        part = at == 0 ? 0 : left / shared->shares;
        part = part > shared->part_most ? shared->part_most : part - part % range->grain;
        part = part < shared->part_least ? shared->part_least : part;
        part = part < left ? part : left;
    } while (!atomic_compare_exchange_weak_explicit(&shared->next_item, &at, at + part,
                                                    memory_order_relaxed, memory_order_relaxed));
    *first = at;
    *count = part;
    return true;
}

const struct queue_watch *queue_watch;

static void run_items(struct shared_range *shared, uint64_t first, uint64_t end)
{
    const struct range *range = shared->range;
    if (queue_watch)
        queue_watch->enter(range->result, range->begin + first, range->begin + end);
    int status = range->function(range->begin + first, range->begin + end, shared->args),
        none = MUSTER_OK;
    if (queue_watch)
        queue_watch->leave();
    if (status != MUSTER_OK)
        atomic_compare_exchange_strong_explicit(&shared->status, &none, status,
                                                memory_order_relaxed, memory_order_relaxed);
}

static bool is_stopped(const struct range *range)
{
    return range->stop &&
           (__atomic_load_n(&range->stop->state, __ATOMIC_RELAXED) & MUSTER_PIECES_STOPPED) != 0;
}

/* How long the items of a launch take, by the last step of it, and when that ended. */
struct pace {
    struct queue_pace known;
    uint64_t at_ns, items; /* of the last step; 0: there was none */
    double took_ns;
};

static uint64_t next_step(const struct pace *pace, uint64_t launch_items, uint64_t left)
{
    const struct queue_pace *known = &pace->known;
    uint64_t first = launch_items / FIRST_STEPS;
    double items = (double)first, step_ns = STEP_CALLS * known->call_ns;
    if (known->item_ns > 0)
        items = ((step_ns > STEP_NS ? step_ns : STEP_NS) - known->call_ns) / known->item_ns;
    if (known->call_ns > 0 && pace->items > 0 && items > STEP_GROWTH * (double)pace->items)
        items = STEP_GROWTH * (double)pace->items;
    return items < 1 ? 1 : items < (double)left ? (uint64_t)items : left;
}

/* Two steps of different sizes show what a call takes without its items. */
static void count_step(struct pace *pace, uint64_t items)
{
    uint64_t now_ns = platform_clock_ns();
    double took_ns = (double)(now_ns - pace->at_ns) + 1;
    if (pace->items > 0 && (items / 2 >= pace->items || pace->items / 2 >= items)) {
        double item_ns = (took_ns - pace->took_ns) / ((double)items - (double)pace->items);
        double call_ns = took_ns - (item_ns > 0 ? item_ns : 0) * (double)items;
        pace->known.call_ns = call_ns > 0 ? call_ns : 0;
    }
    double items_ns = took_ns - pace->known.call_ns, least_ns = STEP_ITEMS_PART * took_ns;
    pace->known.item_ns = (items_ns > least_ns ? items_ns : least_ns) / (double)items;
    pace->took_ns = took_ns;
    pace->items = items;
    pace->at_ns = now_ns;
}

/* A part in steps. Nothing more is begun after a stop or a failure. */
static void run_in_steps(struct shared_range *shared, uint64_t first, uint64_t end,
                         struct pace *pace)
{
    while (first < end && !is_stopped(shared->range) &&
           atomic_load_explicit(&shared->status, memory_order_relaxed) == MUSTER_OK) {
        uint64_t step = next_step(pace, shared->range->items, end - first);
        run_items(shared, first, first + step);
        count_step(pace, step);
        first += step;
    }
}

/* Does parts until none is left. The first worker shares the rest once it sees that this pays. */
static void run_parts(struct shared_range *shared, bool is_first, uint64_t begin_ns,
                      struct queue *queue)
{
    bool alone = is_first && queue->worker_count > 1;
    struct platform_frame frame = { .kind = FRAME_KERNEL };
    bool is_shared = false;
    uint64_t first, count;
    struct pace pace = { .known = shared->pace, .at_ns = begin_ns };
    platform_frame_enter(&frame);
    while (atomic_load_explicit(&shared->status, memory_order_relaxed) == MUSTER_OK &&
           queue_range_claim(shared, &first, &count)) {
        if (shared->range->stop)
            run_in_steps(shared, first, first + count, &pace);
        else
            run_items(shared, first, first + count);
        if (alone && !is_shared && queue_range_is_worth_sharing(shared, first + count, begin_ns)) {
            queue_range_share(queue, shared);
            is_shared = true;
        }
    }
    platform_frame_leave(&frame);
    if (is_shared)
        queue_range_join(queue, shared);
    if (is_first)
        shared->pace = pace.known;
}

void queue_range_help(struct queue *queue, struct shared_range *shared)
{
    bool is_in_pieces = shared->range->pieces != NULL;
    struct queue_scratch *scratch = is_in_pieces ? queue_scratch_take(queue) : NULL;
    if (is_in_pieces && !scratch) {
        /* Others do without this worker, which must not ask at once again. */
        queue_wake_worker(queue);
        platform_condition_wait(&queue->work, &queue->lock, platform_deadline_ns(NO_SCRATCH_NS));
        return;
    }
    shared->helpers++;
    queue_leave_unlock(queue);
    if (is_in_pieces)
        queue_pieces_run(queue, shared, scratch, false, 0);
    else
        run_parts(shared, false, platform_clock_ns(), queue);
    queue_return_lock(queue);
    queue_scratch_give(queue, scratch);
    if (--shared->helpers == 0)
        platform_condition_wake_all(&queue->joined);
}

struct shared_range *queue_range_find_shared(struct queue *queue)
{
    struct shared_range *shared = queue->shared;
    while (shared &&
           atomic_load_explicit(&shared->next_item, memory_order_relaxed) >= shared->range->items)
        shared = shared->next;
    return shared;
}

static muster_status run_range(struct queue_stream *stream, struct range *range,
                               struct queue_scratch *scratch)
{
    struct queue *queue = stream->queue;
    void *args[MUSTER_ARGS_MAX];
    for (uint32_t i = 0; i < range->arg_count; i++)
        args[i] = range->values + range->arg_offsets[i];
    uint64_t workers = queue->worker_count;
    uint64_t most = range->pieces ? queue_pieces_chunk(range) : UINT64_MAX;
    uint64_t least = workers > 1 ? range->items / (workers * PARTS_PER_WORKER) : range->items;
    least = least < most ? least - least % range->grain : most;
    struct shared_range shared = { .range = range,
                                   .args = args,
                                   .part_least = least > range->grain ? least : range->grain,
                                   .part_most = most,
                                   .shares = (uint32_t)workers * SHARES_PER_WORKER,
                                   .ends_at = UINT64_MAX };
    if (stream->paced == range->function)
        shared.pace = stream->pace;
    if (range->pieces)
        queue_pieces_run(queue, &shared, scratch, true, platform_clock_ns());
    else
        run_parts(&shared, true, platform_clock_ns(), queue);
    if (range->stop) {
        stream->paced = range->function;
        stream->pace = shared.pace;
    }
    return atomic_load_explicit(&shared.status, memory_order_relaxed);
}

void queue_range_do(struct queue_stream *stream, struct range *range)
{
    struct queue *queue = stream->queue;
    muster_status status = queue_stream_status(stream);
    if (status != MUSTER_OK) {
        queue_range_finish(stream, range->result, status);
        return;
    }
    struct queue_outcome outcome = { .finish_ns = 0 };
    if (queue->timing)
        outcome = queue->timing->begin(queue->timing_user, platform_clock_ns(), range->work,
                                       range->items);
    struct queue_scratch *scratch = range->pieces ? queue_scratch_take(queue) : NULL;
    if (range->pieces && !scratch)
        outcome.status = MUSTER_E_NO_MEMORY;
    if (outcome.status == MUSTER_OK && outcome.finish_ns != UINT64_MAX) {
        queue_leave_unlock(queue);
        outcome.status = run_range(stream, range, scratch);
        queue_return_lock(queue);
    }
    queue_scratch_give(queue, scratch);
    if (queue->timing && queue->status == MUSTER_OK) {
        /*
         * Also when the time has passed already: whether the device answers at all is looked at
         * when it is due.
         */
        stream->delayed = outcome;
        stream->delayed_result = range->result;
        queue_stream_block_on(stream, &queue->delayed, STREAM_DELAYED);
        return;
    }
    queue_range_finish(stream, range->result, outcome.status);
}

/* What is given. */

/* Appends an argument's value; the caller has made sure that it fits. */
static void add_value(struct range *range, size_t *filled, const void *value, size_t bytes)
{
    range->arg_offsets[range->arg_count++] = (uint16_t)*filled;
    memcpy(range->values + *filled, value, bytes);
    *filled += (bytes + 15) & ~(size_t)15; /* so that any scalar is aligned */
}

static void *address_of(const struct muster_place *place)
{
    return place->memory ? (char *)(uintptr_t)place->memory->address + place->offset : place->host;
}

static muster_status copy_bytes(uint64_t begin, uint64_t end, void *const *args)
{
    char *to = *(char *const *)args[0];
    const char *from = *(const char *const *)args[1];
    memcpy(to + begin, from + begin, end - begin);
    return MUSTER_OK;
}

static muster_status fill_bytes(uint64_t begin, uint64_t end, void *const *args)
{
    char *to = *(char *const *)args[0];
    memset(to + begin, *(const uint8_t *)args[1], end - begin);
    return MUSTER_OK;
}

muster_status queue_copy(void *state, const struct muster_copy_desc *copy, struct muster_error *err)
{
    struct queue_stream *stream = stream_of(state);
    struct operation *operation;
    muster_status status = queue_stream_enqueue_begin(stream, OPERATION_RANGE, &operation, err);
    if (status != MUSTER_OK)
        return status;
    operation->range =
        (struct range){ .function = copy_bytes, .items = copy->bytes, .grain = COPY_GRAIN_BYTES };
    operation->range.work = !copy->from.memory ? QUEUE_COPY_IN
                            : !copy->to.memory ? QUEUE_COPY_OUT
                                               : QUEUE_COPY_INSIDE;
    size_t filled = 0;
    void *to = address_of(&copy->to), *from = address_of(&copy->from);
    add_value(&operation->range, &filled, &to, sizeof to);
    add_value(&operation->range, &filled, &from, sizeof from);
    queue_stream_enqueue_end(stream);
    return MUSTER_OK;
}

muster_status queue_fill(void *state, const struct muster_place *place, uint8_t value,
                         uint64_t bytes, struct muster_error *err)
{
    struct queue_stream *stream = stream_of(state);
    struct operation *operation;
    muster_status status = queue_stream_enqueue_begin(stream, OPERATION_RANGE, &operation, err);
    if (status != MUSTER_OK)
        return status;
    operation->range = (struct range){
        .function = fill_bytes, .items = bytes, .grain = COPY_GRAIN_BYTES, .work = QUEUE_COPY_INSIDE
    };
    size_t filled = 0;
    void *to = address_of(place);
    add_value(&operation->range, &filled, &to, sizeof to);
    add_value(&operation->range, &filled, &value, sizeof value);
    queue_stream_enqueue_end(stream);
    return MUSTER_OK;
}

muster_status queue_kernel_init(void *device, const struct muster_kernel_form *form, void *kernel,
                                struct muster_error *err)
{
    if (form->kind != MUSTER_KERNEL_FUNCTION || !form->function)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "give the kernel as a C function",
                                 "this device runs C functions only");
    *(struct queue_kernel_state *)kernel =
        (struct queue_kernel_state){ form->function, form->apart, form->written };
    return queue_check(queue_of_device(device), err);
}

void queue_kernel_deinit(void *kernel)
{
    (void)kernel;
}

static bool is_overlapping(const struct muster_memory *a, const struct muster_memory *b)
{
    return a->address < b->address + b->bytes && b->address < a->address + a->bytes;
}

/*
 * Whether no argument that may be written overlaps another. An argument may reach all of its memory,
 * also what lies before its offset: the items before a unit's first.
 */
static bool is_apart(const struct muster_launch_desc *launch, uint32_t written)
{
    for (size_t i = 0; i < launch->arg_count; i++)
        for (size_t j = 0; j < i; j++) {
            const struct muster_memory *a = launch->args[i].memory, *b = launch->args[j].memory;
            if (a && b && (written >> i | written >> j) & 1 && is_overlapping(a, b))
                return false;
        }
    return true;
}

static muster_status enqueue_launch(struct queue_stream *stream,
                                    const struct queue_kernel_state *kernel,
                                    const struct muster_launch_desc *launch,
                                    struct muster_error *err)
{
    size_t bytes = 0;
    for (size_t i = 0; i < launch->arg_count; i++)
        bytes += launch->args[i].memory ? sizeof(void *) : launch->args[i].bytes;
    if (launch->arg_count > MUSTER_ARGS_MAX || bytes > MUSTER_ARG_BYTES_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "put large arguments into a block",
                                 "%zu arguments of %zu bytes; at most %d of %d", launch->arg_count,
                                 bytes, MUSTER_ARGS_MAX, MUSTER_ARG_BYTES_MAX);
    muster_status status = launch->pieces ? queue_pieces_check(launch, err) : MUSTER_OK;
    if (status != MUSTER_OK)
        return status;
    struct operation *operation;
    status = queue_stream_enqueue_begin(stream, OPERATION_RANGE, &operation, err);
    if (status != MUSTER_OK)
        return status;
    struct range *range = &operation->range;
    bool may_use_apart = kernel->apart && is_apart(launch, kernel->written);
    *range = (struct range){ .function = may_use_apart ? kernel->apart : kernel->function,
                             .begin = launch->begin,
                             .items = launch->items,
                             .grain = 1,
                             .work = QUEUE_COMPUTE,
                             .result = launch->result };
    if (launch->pieces && queue_pieces_has_arrays(launch))
        queue_pieces_plan(range, launch);
    else
        range->stop = launch->pieces;
    size_t filled = 0;
    for (size_t i = 0; i < launch->arg_count; i++) {
        const struct muster_launch_arg *arg = &launch->args[i];
        char *address = arg->memory ? (char *)(uintptr_t)arg->memory->address + arg->offset : NULL;
        if (arg->memory)
            add_value(range, &filled, &address, sizeof address);
        else
            add_value(range, &filled, arg->value, arg->bytes);
    }
    queue_stream_enqueue_end(stream);
    return MUSTER_OK;
}

muster_status queue_launch(void *state, void *kernel, const struct muster_launch_desc *launches,
                           size_t count, struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    for (size_t i = 0; i < count && status == MUSTER_OK; i++)
        status = enqueue_launch(stream_of(state), kernel, &launches[i], err);
    return status;
}
