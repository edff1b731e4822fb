/*
 * A job's source: a thread that asks the user's function for items, one range after the other, and
 * keeps them in a ring until no attempt needs them any more. So the source runs ahead of the lanes by
 * as much as the ring holds and no further, each item is asked for once, and a unit can be run again.
 */
#include "platform/machine.h"
#include "run/job/pipeline.h"

#include <string.h>

/* The ring is filled in so many parts at least, so that lanes have work while it fills. */
#define RING_PARTS 4

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
    source->halo = job->pipeline ? 0 : job->args[arg].halo;
    source->capacity = options->window;
    if (source->capacity == 0 &&
        __builtin_mul_overflow(job->unit_max, (uint64_t)options->units_max, &source->capacity))
        source->capacity = UINT64_MAX;
    source->capacity = least(source->capacity, job->desc.items);
    options->window = source->capacity;
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

/* The first item that is in the ring and read from there, by lanes that hang or by others. */
static uint64_t first_read_locked(const struct muster_job *job, const char *ring, bool is_hung)
{
    uint64_t first = UINT64_MAX;
    for (uint32_t l = 0; l < job->lane_count; l++) {
        const struct run_lane *lane = &job->lanes[l];
        struct job_lane_report report;
        job_lane_report(job->core, l, &report);
        for (uint32_t u = 0; lane->units && u < lane->plan->depth; u++)
            if (lane->units[u].is_running && lane->units[u].ring == ring &&
                report.is_hung == is_hung)
                first = least(first, lane->units[u].claim.range.begin);
    }
    return first;
}

/* A ring that nobody reads any more, or a new one; NULL if there is none. Called with the lock. */
static char *take_ring_locked(struct muster_job *job)
{
    struct run_source *source = &job->source;
    for (uint32_t i = 0; i < source->ring_count; i++)
        if (source->rings[i] != source->ring &&
            first_read_locked(job, source->rings[i], true) == UINT64_MAX &&
            first_read_locked(job, source->rings[i], false) == UINT64_MAX)
            return source->rings[i];
    char *ring = source->ring_count < RINGS_MAX ? platform_ring_map(source->ring_bytes) : NULL;
    if (ring)
        source->rings[source->ring_count++] = ring;
    return ring;
}

/*
 * Goes on with another ring, in which the items from `floor` on are again: a device that hangs may
 * still read from this one, and kernels must not see items change.
 */
static bool leave_ring_locked(struct muster_job *job, uint64_t floor, uint64_t arrived)
{
    struct run_source *source = &job->source;
    char *ring = take_ring_locked(job);
    struct muster_error problem;
    if (!ring) {
        muster_error_fill(&problem, MUSTER_E_NO_MEMORY, 0, "give a smaller window",
                          "no host memory for another %zu bytes of a source's items beside those "
                          "that devices which hang may still read",
                          source->ring_bytes);
        job_note_locked(job, &problem);
        job_fail(job->core);
        job_tell_locked(job);
        return false;
    }
    /* What is copied stays where it is: only this thread writes it. */
    run_unlock(job->m);
    size_t offset = source_offset(source, floor);
    size_t halo = (size_t)(floor - with_halo(source, floor)) * source->item_bytes;
    memset(ring + offset - source->halo * source->item_bytes, 0,
           (size_t)source->halo * source->item_bytes);
    memcpy(ring + offset - halo, source->ring + offset - halo,
           (size_t)(arrived - floor) * source->item_bytes + halo);
    run_lock(job->m);
    source->ring = ring;
    return true;
}

/* How many items there is room for; waits for it. 0: the job is over. */
static uint64_t wait_for_room_locked(struct muster_job *job, uint64_t arrived)
{
    const struct run_source *source = &job->source;
    uint64_t part = source->capacity / RING_PARTS > 0 ? source->capacity / RING_PARTS : 1;
    while (job_state(job->core) == JOB_RUNNING) {
        uint64_t floor =
            least(job_items_needed(job->core), first_read_locked(job, source->ring, false));
        uint64_t hung_floor = first_read_locked(job, source->ring, true);
        /* The room past the end is not for items. */
        uint64_t room = source->room - source->halo;
        bool is_full = arrived - with_halo(source, floor) >= room;
        if (!is_full && hung_floor < floor && arrived - with_halo(source, hung_floor) >= room) {
            if (!leave_ring_locked(job, floor, arrived))
                return 0;
            continue;
        }
        floor = least(floor, hung_floor);
        if (!is_full)
            return least(least(room - (arrived - with_halo(source, floor)), part),
                         job_items(job->core) - arrived);
        platform_condition_wait(&job->source.changed, &job->m->lock, UINT64_MAX);
    }
    return 0;
}

/* No more items come: what is behind the last is zeros. */
static void end_with_zeros(const struct run_source *source, uint64_t arrived)
{
    if (source->halo > 0)
        memset(source->ring + source_offset(source, arrived), 0,
               (size_t)source->halo * source->item_bytes);
}

/* What the function gave instead of items. */
static void end_locked(struct muster_job *job, uint64_t arrived, int64_t given, uint64_t asked)
{
    struct muster_error problem;
    muster_status status = given < INT32_MIN ? MUSTER_E_IO : (muster_status)given;
    if (given == 0 && job->desc.items == MUSTER_ITEMS_UNKNOWN) {
        end_with_zeros(&job->source, arrived);
        job_supply(job->core, arrived);
        job_supply_ends(job->core);
        return;
    }
    if (given == 0)
        muster_error_fill(&problem, MUSTER_E_IO, 0,
                          "give the right number of items, or MUSTER_ITEMS_UNKNOWN",
                          "the source ended after %llu of %llu items", (unsigned long long)arrived,
                          (unsigned long long)job->desc.items);
    else if (given > 0)
        muster_error_fill(&problem, MUSTER_E_INVALID, 0, "return at most what was asked for",
                          "the source was asked for %llu items and says that it gave %lld",
                          (unsigned long long)asked, (long long)given);
    else
        muster_error_fill(&problem, status, 0, NULL, "the source failed at item %llu: %s",
                          (unsigned long long)arrived, muster_status_message(status));
    if (job_state(job->core) == JOB_RUNNING)
        job_note_locked(job, &problem);
    job_fail(job->core);
}

/* The thread. */
static void supply(void *argument)
{
    struct muster_job *job = argument;
    struct run_source *source = &job->source;
    struct platform_frame frame = { .kind = FRAME_JOB, .runtime = job->m, .object = job };
    uint64_t arrived = 0;
    platform_frame_enter(&frame);
    run_lock(job->m);
    /* A job whose threads could not all be started is never known. */
    while (!job->is_known && !job->work.must_leave)
        platform_condition_wait(&job->source.changed, &job->m->lock, UINT64_MAX);
    for (;;) {
        uint64_t asked = wait_for_room_locked(job, arrived);
        if (asked == 0)
            break;
        run_unlock(job->m);
        thread_goes_away(&source->thread);
        int64_t given = job->desc.source(job->desc.source_user, arrived, asked,
                                         source->ring + source_offset(source, arrived),
                                         (size_t)asked * source->item_bytes);
        thread_is_back(&source->thread);
        run_lock(job->m);
        bool is_good = given > 0 && (uint64_t)given <= asked;
        if (is_good) {
            arrived += (uint64_t)given;
            bool is_all = arrived == job_items(job->core);
            if (is_all)
                end_with_zeros(source, arrived);
            /* Units need what is behind them too. */
            job_supply(job->core, is_all ? arrived : with_halo(source, arrived));
        } else {
            end_locked(job, arrived, given, asked);
        }
        job_tell_locked(job);
        if (!is_good)
            break;
    }
    group_leave_locked(&job->work.group, &source->thread);
    run_unlock(job->m);
    platform_frame_leave(&frame);
}

muster_status source_set_up(struct muster_job *job, struct muster_error *err)
{
    struct run_source *source = &job->source;
    if (source->capacity == 0)
        return MUSTER_OK;
    source->ring = source->rings[0] = platform_ring_map(source->ring_bytes);
    if (!source->ring)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, "give a smaller window",
                                 "no host memory for %llu items of %zu bytes of a source",
                                 (unsigned long long)source->capacity, source->item_bytes);
    source->ring_count = 1;
    return MUSTER_OK;
}

muster_status source_start(struct muster_job *job, struct muster_error *err)
{
    return job->source.ring ? group_start(&job->work.group, &job->source.thread, supply, job,
                                          "muster-source", err)
                            : MUSTER_OK;
}

void source_free(struct muster_job *job)
{
    struct run_source *source = &job->source;
    while (source->ring_count > 0)
        platform_ring_unmap(source->rings[--source->ring_count], source->ring_bytes);
    source->ring = NULL;
}
