#include "run/job/lessons.h"

#include "base/allocator.h"
#include "run/job/pipeline.h"

#include <string.h>

struct lessons {
    struct {
        struct job_kind kind;
        uint64_t used; /* when, in jobs; 0: never, the place is free */
        struct take_part_lesson lesson;
    } kept[LESSONS_MAX];
    uint64_t jobs;
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

/* What was learned of the kind; NULL: nothing. */
static struct take_part_lesson *find_lesson(struct lessons *lessons, const struct job_kind *kind)
{
    if (!lessons || kind->devices == 0)
        return NULL;
    uint32_t place = find_place(lessons, kind);
    bool is_there = lessons->kept[place].used > 0 && is_same(&lessons->kept[place].kind, kind);
    return is_there ? &lessons->kept[place].lesson : NULL;
}

uint64_t lessons_set_kind_locked(struct muster_job *job, struct run_device *const *devices,
                                 uint32_t count)
{
    if (job->options.everyone || job->places || count < 2 || count > TAKE_PART_LANES_MAX)
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
    bool is_any_other = false;
    for (uint32_t i = 0; i < count; i++) {
        bool works_on_host = devices[i]->info.capabilities & MUSTER_CAN_USE_HOST_MEMORY;
        bool is_out = out >> i & 1;
        if (!is_out && !works_on_host)
            return 0;
        is_any_other = is_any_other || (is_out && !works_on_host);
    }
    for (uint32_t i = 0, aside = 0; i < count && is_any_other; i++)
        if (out >> i & 1)
            job->aside_faster[aside++] = lesson->faster_without[i];
    return is_any_other ? out : 0;
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
    return job->aside_count > 0 ? NULL : find_lesson(job->m->lessons, &job->kind);
}

void lessons_keep_locked(const struct muster_job *job)
{
    struct lessons *lessons = job->m->lessons;
    if (!lessons || job->kind.devices == 0)
        return;
    uint32_t place = find_place(lessons, &job->kind);
    struct take_part_lesson *lesson = &lessons->kept[place].lesson;
    if (job->aside_count == 0)
        job_learn(job->core, lesson, job->end_ns);
    else if (find_lesson(lessons, &job->kind) && job_state(job->core) == JOB_DONE)
        take_part_learn_without(lesson, (double)(job->end_ns - job->start_ns),
                                (double)job_items(job->core));
    else
        return;
    lessons->kept[place].kind = job->kind;
    lessons->kept[place].used = ++lessons->jobs;
}

void lessons_destroy(struct muster *m)
{
    allocator_give(&m->allocator, m->lessons, 1, sizeof *m->lessons);
    m->lessons = NULL;
}
