/*
 * A job's source: threads that ask the user's function for items, range by range, and keep them in a
 * ring until no attempt needs them any more. So the source runs ahead of the lanes by as much as the
 * ring holds and no further, each item is asked for once, and a unit can be run again.
 *
 * Each thread takes the next range that there is room for, and asks until it has all of it. So every
 * item before `asked` is in the ring or belongs to a thread, and what has arrived without a gap ends
 * where the first of the threads is.
 */
#include "base/allocator.h"
#include "platform/machine.h"
#include "run/job/pipeline.h"
#include "run/memory/pages.h"

#include <muster/file.h>
#include <string.h>

/* One thread alone fills the ring in this many parts at least, so that lanes have work meanwhile. */
#define RING_PARTS 4u
/* A piece has this size at most: large beside a round through the lock, small in the ring. */
#define PIECE_BYTES ((size_t)1 << 20)
/* An attempt that has lost holds the ring so long: about what it costs to go on with another one. */
#define LATE_NS 20000000u
/* Rings there are at most as long as no device hangs. */
#define RINGS_LATE 2u

/* How many calls there are at once, and whether the source is a file that is read at any place. */
static uint32_t find_calls(struct muster_job *job)
{
    struct run_source *source = &job->source;
    uint32_t calls = job->desc.source_calls;
    source->file = NULL;
    if (job->desc.source == muster_file_source && job->desc.source_user) {
        calls = file_source_calls(job->desc.source_user, calls, &source->file_offset);
        source->file = calls > 1 ? job->desc.source_user : NULL;
    }
    return calls > 0 ? calls : 1;
}

static uint64_t greatest_divisor(uint64_t a, uint64_t b)
{
    while (b > 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/*
 * How much is asked for at a time. `items` is the window; several calls have as much again at most, in
 * pieces of the ring that none of the lanes' units lie in. Of a window that the user has given, half.
 */
static uint64_t find_piece(const struct run_source *source, uint64_t items, bool is_given)
{
    uint32_t calls = source->caller_count;
    uint32_t parts = calls == 1 ? RING_PARTS : is_given ? 2 * calls : calls;
    uint64_t piece = least(PIECE_BYTES / source->item_bytes, items / parts);
    if (calls == 1)
        return piece > 0 ? piece : 1;
    /* Direct requests to files are for whole pages. */
    size_t page = platform_page_bytes();
    uint64_t pages_items = page / greatest_divisor(page, source->item_bytes);
    if (piece > pages_items)
        piece -= piece % pages_items;
    return piece > 0 ? piece : 1;
}

/* Units that lanes may have, or that may wait for others: of lanes on the host's memory hardly any do. */
static uint64_t count_units(const struct muster_job *job)
{
    const struct job_options *options = &job->core_options;
    uint64_t units = options->units_max;
    for (uint32_t i = 0; i < job->lane_count && options->depth > JOB_DEPTH_DEFAULT; i++)
        if (job->lanes[i].device->info.capabilities & MUSTER_CAN_USE_HOST_MEMORY)
            units -= options->depth - JOB_DEPTH_DEFAULT;
    return units;
}

void source_plan(struct muster_job *job)
{
    struct run_source *source = &job->source;
    struct job_options *options = &job->core_options;
    if (!job->desc.source)
        return;
    size_t arg = 0;
    while (!job->pipeline && job->args[arg].kind != MUSTER_ARG_SOURCE)
        arg++;
    source->item_bytes = job->pipeline ? job->pipeline->buffers[job->pipeline->input].bytes_per_item
                                       : job->args[arg].bytes;
    source->halo = job->pipeline ? job->pipeline->halos[job->pipeline->input] : job->args[arg].halo;
    enum muster_border border = job->pipeline ? job->pipeline->border : job->args[arg].border;
    source->line = border == MUSTER_BORDER_CLAMP && source->halo > 0 ? job->grid.line : 0;
    source->ends_at = source->leave_ns = UINT64_MAX;
    bool is_given = options->window > 0;
    uint64_t window = options->window, ahead;
    if (!is_given && __builtin_mul_overflow(job->unit_max, count_units(job), &window))
        window = UINT64_MAX;
    window = least(window, job->desc.items);
    source->caller_count = (uint32_t)least(find_calls(job), window);
    source->piece = window > 0 ? find_piece(source, window, is_given) : 0;
    ahead = is_given || source->caller_count == 1 ? 0 : source->piece * source->caller_count;
    if (__builtin_add_overflow(window, ahead, &source->capacity))
        source->capacity = UINT64_MAX;
    source->capacity = least(source->capacity, job->desc.items);
    options->window = window;
    options->supplied = true;
    size_t page = platform_page_bytes();
    if (__builtin_mul_overflow(source->halo, (uint64_t)3, &source->room) ||
        __builtin_add_overflow(source->room, source->capacity, &source->room))
        source->room = UINT64_MAX;
    if (__builtin_mul_overflow(source->room, source->item_bytes, &source->ring_bytes) ||
        source->ring_bytes > SIZE_MAX / 2 - page)
        source->ring_bytes = SIZE_MAX / 2;
    source->ring_bytes = (source->ring_bytes + page - 1) / page * page;
}

size_t source_offset(const struct run_source *source, uint64_t item)
{
    size_t offset = (size_t)(item * source->item_bytes % source->ring_bytes);
    /* What lies before the first round lies before the second one as well. */
    return offset < source->halo * source->item_bytes ? offset + source->ring_bytes : offset;
}

/* The first item that must stay for those from `item` on. */
static uint64_t with_halo(const struct run_source *source, uint64_t item)
{
    return item > source->halo ? item - source->halo : 0;
}

/* Whether the attempt may read from the ring. */
static bool reads(const struct lane_unit *unit, const char *ring)
{
    return unit->is_running && unit->ring == ring;
}

/* The first item that an attempt reads from the ring; UINT64_MAX: none does. */
static uint64_t first_read_locked(const struct muster_job *job, const char *ring)
{
    uint64_t first = UINT64_MAX;
    for (uint32_t l = 0; l < job->lane_count; l++) {
        const struct run_lane *lane = &job->lanes[l];
        for (uint32_t u = 0; lane->units && u < lane->plan->depth; u++)
            if (reads(&lane->units[u], ring))
                first = least(first, lane->units[u].claim.range.begin);
    }
    return first;
}

/* Whether a device that does not hang reads items before `needed` from the ring. */
static bool will_be_read_locked(const struct muster_job *job, const char *ring, uint64_t needed)
{
    bool will_be = false;
    for (uint32_t l = 0; l < job->lane_count; l++) {
        const struct run_lane *lane = &job->lanes[l];
        struct job_lane_report report;
        job_lane_report(job->core, l, &report);
        for (uint32_t u = 0; lane->units && u < lane->plan->depth; u++)
            will_be = will_be || (!report.is_hung && reads(&lane->units[u], ring) &&
                                  lane->units[u].claim.range.begin < needed);
    }
    return will_be;
}

/* Makes another ring; NULL if there is no memory for it. */
static char *add_ring(struct muster_job *job)
{
    struct run_source *source = &job->source;
    const struct pages_want want = { .bytes = source->ring_bytes,
                                     .is_ring = true,
                                     .nodes = job->nodes };
    struct pages *pages;
    if (pages_take(job->m, &want, &pages, NULL) != MUSTER_OK)
        return NULL;
    run_lock(job->m);
    /* All have the size of the first. */
    if (source->ring_count == 0)
        source->ring_bytes = pages->bytes;
    source->pages[source->ring_count] = pages;
    source->rings[source->ring_count++] = pages->memory;
    run_unlock(job->m);
    return pages->memory;
}

/* A ring that nobody reads any more, or a new one if there are less than `most`; NULL: none. */
static char *take_ring_locked(struct muster_job *job, uint32_t most)
{
    struct run_source *source = &job->source;
    for (uint32_t i = 0; i < source->ring_count; i++)
        if (source->rings[i] != source->ring &&
            first_read_locked(job, source->rings[i]) == UINT64_MAX)
            return source->rings[i];
    if (source->ring_count >= most)
        return NULL;
    /* Meanwhile nobody is given a range. */
    source->is_moving = true;
    run_unlock(job->m);
    char *ring = add_ring(job);
    run_lock(job->m);
    source->is_moving = false;
    return ring;
}

/* What lies before the first item: zeros, which are there already, or the first line. */
static void fill_before(const struct run_source *source, char *ring)
{
    size_t line = (size_t)source->line * source->item_bytes;
    char *first = ring + source_offset(source, 0);
    for (uint64_t filled = 0; line > 0 && filled < source->halo; filled += source->line)
        memcpy(first - (filled + source->line) * source->item_bytes, first, line);
}

/*
 * Goes on with another ring, in which the items from `floor` on are again: attempts that have lost
 * still read from this one, and kernels must not see items change. Where there is no other ring,
 * devices that answer are waited for.
 */
static void leave_ring_locked(struct muster_job *job, uint64_t floor)
{
    struct run_source *source = &job->source;
    bool is_hung = !will_be_read_locked(job, source->ring, floor);
    char *ring = take_ring_locked(job, is_hung ? RINGS_MAX : RINGS_LATE);
    struct muster_error problem;
    if (!ring && !is_hung)
        return;
    if (!ring) {
        muster_error_fill(&problem, MUSTER_E_NO_MEMORY, 0, "give a smaller window",
                          "no host memory for another %zu bytes of a source's items beside those "
                          "that devices which hang may still read",
                          source->ring_bytes);
        job_note_locked(job, &problem);
        job_fail(job->core);
        job_tell_locked(job);
        return;
    }
    /* What is copied stays where it is: nobody is within a call, and nobody is given a range. */
    source->is_moving = true;
    run_unlock(job->m);
    size_t offset = source_offset(source, floor);
    size_t halo = (size_t)(floor - with_halo(source, floor)) * source->item_bytes;
    memset(ring + offset - source->halo * source->item_bytes, 0,
           (size_t)source->halo * source->item_bytes);
    memcpy(ring + offset - halo, source->ring + offset - halo,
           (size_t)(source->arrived - floor) * source->item_bytes + halo);
    if (floor < source->halo && source->arrived >= source->line)
        fill_before(source, ring);
    run_lock(job->m);
    source->is_moving = false;
    source->ring = ring;
    /* Another caller may wait for that. */
    platform_condition_wake_all(&source->changed);
}

static bool has_range(const struct source_caller *caller)
{
    return caller->at < caller->end;
}

static bool have_ranges(const struct run_source *source)
{
    uint32_t i = 0;
    while (i < source->caller_count && !has_range(&source->callers[i]))
        i++;
    return i < source->caller_count;
}

/*
 * How many items there is room for. If all that is in the way are attempts whose unit was delivered
 * without them, they are given a moment; then the ring is left to them, and 0 is the answer once more.
 */
static uint64_t find_room_locked(struct muster_job *job)
{
    struct run_source *source = &job->source;
    uint64_t needed = job_items_needed(job->core);
    uint64_t floor = least(needed, first_read_locked(job, source->ring));
    /* The room past the end is not for items. */
    uint64_t room = source->room - source->halo;
    bool is_full = source->asked - with_halo(source, needed) >= room;
    bool is_held = !is_full && source->asked - with_halo(source, floor) >= room;
    if (!is_held)
        source->leave_ns = UINT64_MAX;
    if (is_full || source->is_moving)
        return 0;
    if (!is_held)
        return least(room - (source->asked - with_halo(source, floor)), source->piece);
    uint64_t now_ns = platform_clock_ns();
    if (source->leave_ns == UINT64_MAX) {
        source->leave_ns = now_ns + LATE_NS;
        /* The caller that waits for room has to look again then. */
        platform_condition_wake_all(&source->changed);
    }
    if (now_ns >= source->leave_ns && !have_ranges(source))
        leave_ring_locked(job, needed);
    return 0;
}

/*
 * Whether the caller is to ask for something more: the rest of its range, or another one. Waits until
 * there is room. Only one caller waits for the job's changes, which are many.
 */
static bool take_range_locked(struct source_caller *caller)
{
    struct muster_job *job = caller->job;
    struct run_source *source = &job->source;
    while (job_state(job->core) == JOB_RUNNING && !has_range(caller) &&
           source->ends_at == UINT64_MAX && source->asked < job_items(job->core)) {
        const char *ring = source->ring;
        uint64_t items = least(find_room_locked(job), job_items(job->core) - source->asked);
        if (items > 0) {
            caller->at = source->asked;
            caller->end = source->asked += items;
        } else if (ring != source->ring || job_state(job->core) != JOB_RUNNING) {
            continue;
        } else if (source->has_first) {
            platform_condition_wait(&source->turn, &job->m->lock, UINT64_MAX);
        } else {
            source->has_first = true;
            platform_condition_wait(&source->changed, &job->m->lock,
                                    source->leave_ns > platform_clock_ns() ? source->leave_ns
                                                                           : UINT64_MAX);
            source->has_first = false;
        }
    }
    if (!source->has_first)
        platform_condition_wake_one(&source->turn);
    return job_state(job->core) == JOB_RUNNING && has_range(caller);
}

/* No more items come: what is behind the last is zeros, or the last line. */
static void end_with_border(const struct run_source *source, uint64_t arrived)
{
    size_t line = (size_t)source->line * source->item_bytes;
    char *end = source->ring + source_offset(source, arrived);
    if (source->halo > 0)
        memset(end, 0, (size_t)source->halo * source->item_bytes);
    for (uint64_t filled = 0; line > 0 && arrived >= source->line && filled < source->halo;
         filled += source->line)
        memcpy(end + filled * source->item_bytes, end - line, line);
}

/* Everything before it has arrived: what the function gave instead of items. */
static void conclude_locked(struct muster_job *job)
{
    struct run_source *source = &job->source;
    struct muster_error problem;
    int64_t given = source->answer;
    muster_status status = given < INT32_MIN ? MUSTER_E_IO : (muster_status)given;
    source->is_concluded = true;
    bool is_whole = source->arrived % job->grid.line == 0;
    if (given == 0 && job->desc.items == MUSTER_ITEMS_UNKNOWN && is_whole) {
        end_with_border(source, source->arrived);
        job_supply(job->core, source->arrived);
        job_supply_ends(job->core);
        return;
    }
    if (given == 0 && !is_whole)
        muster_error_fill(&problem, MUSTER_E_INVALID, 0, "give whole pictures",
                          "the source ended after %llu items, within a picture of %llu cells",
                          (unsigned long long)source->arrived, (unsigned long long)job->grid.line);
    else if (given == 0)
        muster_error_fill(&problem, MUSTER_E_IO, 0,
                          "give the right number of items, or MUSTER_ITEMS_UNKNOWN",
                          "the source ended after %llu of %llu items",
                          (unsigned long long)source->arrived, (unsigned long long)job->desc.items);
    else if (given > 0)
        muster_error_fill(&problem, MUSTER_E_INVALID, 0, "return at most what was asked for",
                          "the source was asked for %llu items and says that it gave %lld",
                          (unsigned long long)source->answer_items, (long long)given);
    else
        muster_error_fill(&problem, status, 0, NULL, "the source failed at item %llu: %s",
                          (unsigned long long)source->arrived, muster_status_message(status));
    job_note_locked(job, &problem);
    job_fail(job->core);
}

/* Tells the core how far items have arrived without a gap, or that no more come. */
static void advance_locked(struct muster_job *job)
{
    struct run_source *source = &job->source;
    uint64_t arrived = least(source->asked, source->ends_at);
    for (uint32_t i = 0; i < source->caller_count; i++)
        if (has_range(&source->callers[i]))
            arrived = least(arrived, source->callers[i].at);
    bool has_advanced = arrived > source->arrived, is_all = arrived == job_items(job->core);
    /* The lines before are repeated before any unit that reads them is known. */
    if (source->line > 0 && source->arrived < source->line && arrived >= source->line)
        fill_before(source, source->ring);
    source->arrived = arrived;
    if (job_state(job->core) != JOB_RUNNING || source->is_concluded)
        return;
    if (has_advanced) {
        if (is_all)
            end_with_border(source, arrived);
        /* Units need what is behind them too. */
        job_supply(job->core, is_all ? arrived : with_halo(source, arrived));
    }
    /* Others may be writing where an end has zeros, until they have returned. */
    bool ends = arrived == source->ends_at && (source->answer != 0 || !have_ranges(source));
    if (ends)
        conclude_locked(job);
    if (has_advanced || ends) {
        job_tell_locked(job);
        platform_condition_wake_all(&source->changed);
    }
}

/* What the function has answered for the caller's range. */
static void take_answer_locked(struct source_caller *caller, int64_t given)
{
    struct run_source *source = &caller->job->source;
    uint64_t asked = caller->end - caller->at;
    if (given > 0 && (uint64_t)given <= asked) {
        caller->at += (uint64_t)given;
    } else {
        if (caller->at < source->ends_at) {
            source->ends_at = caller->at;
            source->answer = given;
            source->answer_items = asked;
        }
        caller->at = caller->end;
    }
    if (caller->at >= source->ends_at)
        caller->at = caller->end;
    advance_locked(caller->job);
}

/* Asks the function for the caller's range. Called with the lock, which is not held meanwhile. */
static int64_t ask_locked(struct source_caller *caller)
{
    const struct muster_job *job = caller->job;
    const struct run_source *source = &job->source;
    uint64_t begin = caller->at, items = caller->end - caller->at;
    char *to = source->ring + source_offset(source, begin);
    size_t bytes = (size_t)items * source->item_bytes;
    run_unlock(job->m);
    thread_goes_away(&caller->thread);
    int64_t given = source->file ? file_source_at(source, begin, items, to, bytes)
                                 : job->desc.source(job->desc.source_user, begin, items, to, bytes);
    thread_is_back(&caller->thread);
    run_lock(job->m);
    return given;
}

/* A thread. */
static void supply(void *argument)
{
    struct source_caller *caller = argument;
    struct muster_job *job = caller->job;
    struct platform_frame frame = { .kind = FRAME_JOB, .runtime = job->m, .object = job };
    platform_frame_enter(&frame);
    run_lock(job->m);
    /* A job whose threads could not all be started is never known. */
    while (!job->is_known && !job->work.must_leave)
        platform_condition_wait(&job->source.changed, &job->m->lock, UINT64_MAX);
    while (take_range_locked(caller))
        take_answer_locked(caller, ask_locked(caller));
    group_leave_locked(&job->work.group, &caller->thread);
    run_unlock(job->m);
    platform_frame_leave(&frame);
}

muster_status source_set_up(struct muster_job *job, struct muster_error *err)
{
    struct run_source *source = &job->source;
    if (source->capacity == 0)
        return MUSTER_OK;
    source->callers =
        allocator_take(&job->m->allocator, source->caller_count, sizeof *source->callers);
    if (!source->callers)
        return run_no_memory(err, "a job");
    for (uint32_t i = 0; i < source->caller_count; i++)
        source->callers[i].job = job;
    muster_status status = platform_condition_init(&source->turn, err);
    if (status != MUSTER_OK)
        return status;
    source->has_turn = true;
    source->ring = add_ring(job);
    if (!source->ring)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, "give a smaller window",
                                 "no host memory for %llu items of %zu bytes of a source",
                                 (unsigned long long)source->capacity, source->item_bytes);
    /* What lies before the first item is zeros. */
    size_t halo = (size_t)source->halo * source->item_bytes;
    if (halo > 0)
        memset(source->ring + source_offset(source, 0) - halo, 0, halo);
    return MUSTER_OK;
}

muster_status source_start(struct muster_job *job, struct muster_error *err)
{
    struct run_source *source = &job->source;
    muster_status status = MUSTER_OK;
    /* Fewer threads are slower and no less right; one there must be. */
    for (uint32_t i = 0; source->ring && i < source->caller_count && status == MUSTER_OK; i++) {
        status = group_start(&job->work.group, &source->callers[i].thread, supply,
                             &source->callers[i], "muster-source", i == 0 ? err : NULL);
        if (i > 0 && status != MUSTER_OK)
            return MUSTER_OK;
    }
    return status;
}

struct job_thread *source_thread(const struct muster_job *job, uint32_t index)
{
    const struct run_source *source = &job->source;
    return source->callers && index < source->caller_count ? &source->callers[index].thread : NULL;
}

bool source_has_thread(const struct muster_job *job, bool (*is_so)(const struct job_thread *thread))
{
    const struct job_thread *thread;
    uint32_t i = 0;
    while ((thread = source_thread(job, i)) && !is_so(thread))
        i++;
    return thread != NULL;
}

void source_free(struct muster_job *job)
{
    struct run_source *source = &job->source;
    while (source->ring_count > 0)
        pages_give(job->m, source->pages[--source->ring_count]);
    source->ring = NULL;
    if (source->has_turn)
        platform_condition_deinit(&source->turn);
    source->has_turn = false;
    allocator_give(&job->m->allocator, source->callers, source->caller_count,
                   sizeof *source->callers);
    source->callers = NULL;
}
