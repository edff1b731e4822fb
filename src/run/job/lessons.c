#include "run/job/lessons.h"

#include "base/allocator.h"
#include "platform/machine.h"
#include "run/job/pipeline.h"

#include <string.h>

struct lessons {
    struct {
        struct job_kind kind;
        uint64_t used;                  /* when, in jobs; 0: never, the place is free */
        struct take_part_lesson lesson; /* of several devices */
        double per_ns;                  /* of one */
    } kept[LESSONS_MAX];
    uint64_t jobs;
    struct take_part_lesson of_the_rest; /* for a job that is just made: of the lanes that it has */
};

static uint32_t size_class(uint64_t items)
{
    return items > 0 ? 64 - (uint32_t)__builtin_clzll(items) : 0;
}

static bool is_same(const struct job_kind *a, const struct job_kind *b)
{
    return a->work == b->work && a->size_class == b->size_class &&
           a->device_count == b->device_count && a->devices == b->devices;
}

/* The place of the kind; if it has none, a free one, or the one that was not used for longest. */
static uint32_t find_place(const struct lessons *lessons, const struct job_kind *kind)
{
    uint32_t place = 0;
    for (uint32_t i = 0; i < LESSONS_MAX; i++) {
        if (lessons->kept[i].used > 0 && is_same(&lessons->kept[i].kind, kind))
            return i;
        if (lessons->kept[i].used < lessons->kept[place].used)
            place = i;
    }
    return place;
}

/* Where what was learned of the kind is; LESSONS_MAX: nothing was. */
static uint32_t find_kept(const struct lessons *lessons, const struct job_kind *kind)
{
    if (!lessons || kind->devices == 0)
        return LESSONS_MAX;
    uint32_t place = find_place(lessons, kind);
    bool is_there = lessons->kept[place].used > 0 && is_same(&lessons->kept[place].kind, kind);
    return is_there ? place : LESSONS_MAX;
}

/* Who should take part; NULL: nobody knows, or there is one device. */
static struct take_part_lesson *find_lesson(struct lessons *lessons, const struct job_kind *kind)
{
    uint32_t place = find_kept(lessons, kind);
    return place < LESSONS_MAX && kind->device_count > 1 ? &lessons->kept[place].lesson : NULL;
}

static bool works_on_host(const struct run_device *device)
{
    return device->info.capabilities & MUSTER_CAN_USE_HOST_MEMORY;
}

/* Whether a device that is not among `out` fails with this one. */
static bool has_companion(struct run_device *const *devices, uint32_t count, uint64_t out,
                          uint32_t device)
{
    uint32_t i = 0;
    while (i < count && (out >> i & 1 || devices[i]->info.domain != devices[device]->info.domain))
        i++;
    return i < count;
}

/*
 * Of the devices that are left out, those that the job can be laid out without. They cannot stand in for
 * others that are lost: so either all others work on host memory, and something else is gained, or they
 * would be lost with one of the others.
 */
static uint64_t find_aside(struct run_device *const *devices, uint32_t count, uint64_t out)
{
    bool is_host_left = true, is_other_out = false;
    uint64_t companions = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool is_out = out >> i & 1, is_host = works_on_host(devices[i]);
        is_host_left = is_host_left && (is_out || is_host);
        is_other_out = is_other_out || (is_out && !is_host);
        if (is_out && has_companion(devices, count, out, i))
            companions |= UINT64_C(1) << i;
    }
    return is_host_left && is_other_out ? out : companions;
}

uint64_t lessons_set_kind_locked(struct muster_job *job, struct run_device *const *devices,
                                 uint32_t count)
{
    bool is_choice = count > 1 && !job->options.everyone && !job->places;
    if (count == 0 || count > TAKE_PART_LANES_MAX || (count > 1 && !is_choice))
        return 0;
    job->kind = (struct job_kind){ .work = job->pipeline ? job->pipeline->number
                                                         : kernel_number(job->desc.kernel),
                                   .size_class = size_class(job->desc.items),
                                   .device_count = count };
    /* A device's index never names another device. */
    for (uint32_t i = 0; i < count; i++)
        job->kind.devices =
            (job->kind.devices ^ (devices[i]->index + 1)) * UINT64_C(0x9e3779b97f4a7c15);
    const struct take_part_lesson *lesson = find_lesson(job->m->lessons, &job->kind);
    uint64_t out = lesson && lesson->is_whole ? whole_jobs_left_out(&lesson->whole) : 0;
    job->aside = find_aside(devices, count, out);
    job->leaves_out_more = (out & ~job->aside) != 0;
    for (uint32_t i = 0, aside = 0; i < count; i++)
        if (job->aside >> i & 1)
            job->aside_faster[aside++] = lesson->faster_without[i];
    return job->aside;
}

uint64_t lessons_page_faults(struct muster *m)
{
    return platform_page_faults() + run_count(&m->counts.pages_pinned, 0);
}

void lessons_make_room(const struct muster_job *job)
{
    struct muster *m = job->m;
    run_lock(m);
    bool is_needed = job->kind.devices != 0 && !m->lessons;
    run_unlock(m);
    struct lessons *made = is_needed ? allocator_take(&m->allocator, 1, sizeof *m->lessons) : NULL;
    if (!made)
        return;
    run_lock(m);
    bool is_first = !m->lessons;
    if (is_first)
        m->lessons = made;
    run_unlock(m);
    if (!is_first)
        allocator_give(&m->allocator, made, 1, sizeof *made);
}

const struct take_part_lesson *lessons_find_locked(const struct muster_job *job)
{
    struct lessons *lessons = job->m->lessons;
    const struct take_part_lesson *lesson = find_lesson(lessons, &job->kind);
    if (!lesson || job->aside_count == 0)
        return lesson;
    if (!job->leaves_out_more)
        return NULL;
    struct take_part_lesson *rest = &lessons->of_the_rest;
    uint64_t out = whole_jobs_left_out(&lesson->whole);
    *rest = (struct take_part_lesson){ .jobs = lesson->jobs, .is_whole = true };
    for (uint32_t i = 0, lane = 0; i < job->kind.device_count; i++) {
        if (job->aside >> i & 1)
            continue;
        rest->whole.left_out |= (out >> i & 1) << lane;
        rest->faster_without[lane++] = lesson->faster_without[i];
    }
    rest->left_out = rest->whole.left_out;
    return rest;
}

double lessons_rate_locked(const struct muster_job *job)
{
    /* A device that joins later is another lane. */
    bool is_alone = job->kind.device_count == 1 && job->lane_room == 1;
    uint32_t place = is_alone ? find_kept(job->m->lessons, &job->kind) : LESSONS_MAX;
    return place < LESSONS_MAX ? job->m->lessons->kept[place].per_ns : 0;
}

void lessons_keep_locked(const struct muster_job *job)
{
    struct lessons *lessons = job->m->lessons;
    if (!lessons || job->kind.devices == 0)
        return;
    uint32_t place = find_place(lessons, &job->kind);
    struct take_part_lesson *lesson = &lessons->kept[place].lesson;
    uint64_t faults = lessons_page_faults(job->m) - job->start_faults;
    if (job->kind.device_count == 1) {
        if (job->lane_room > 1 || job_state(job->core) != JOB_DONE || job->end_ns <= job->start_ns)
            return;
        lessons->kept[place].per_ns =
            (double)job_items(job->core) / (double)(job->end_ns - job->start_ns);
    } else if (job->aside_count == 0) {
        job_learn(job->core, lesson, faults, job->end_ns);
    } else if (find_lesson(lessons, &job->kind) && job_state(job->core) == JOB_DONE) {
        take_part_learn_without(lesson, (double)(job->end_ns - job->start_ns),
                                (double)job_items(job->core), faults);
    } else {
        return;
    }
    lessons->kept[place].kind = job->kind;
    lessons->kept[place].used = ++lessons->jobs;
}

void lessons_destroy(struct muster *m)
{
    allocator_give(&m->allocator, m->lessons, 1, sizeof *m->lessons);
    m->lessons = NULL;
}
