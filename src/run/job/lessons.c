#include "run/job/lessons.h"

#include "base/allocator.h"
#include "run/job/pipeline.h"

#include <string.h>

/* Jobs of twice as many items are of another kind. */
struct lesson_key {
    uint64_t work; /* the kernel's or pipeline's number */
    uint32_t size_class;
    uint32_t device_count;
    uint64_t devices; /* a hash of which they are, in their order */
};

struct lessons {
    struct {
        struct lesson_key key;
        uint64_t used; /* when, in jobs; 0: never, the place is free */
        struct take_part_lesson lesson;
    } kept[LESSONS_MAX];
    uint64_t jobs;
};

static uint32_t size_class(uint64_t items)
{
    return items > 0 ? 64 - (uint32_t)__builtin_clzll(items) : 0;
}

/* False: the job has no kind, since devices may join it. */
static bool find_key(const struct muster_job *job, struct lesson_key *out)
{
    if (!job_may_leave_out(&job->core_options) || job->lane_room > job->lane_count)
        return false;
    *out = (struct lesson_key){ .work = job->pipeline ? job->pipeline->number
                                                      : kernel_number(job->desc.kernel),
                                .size_class = size_class(job->desc.items),
                                .device_count = job->lane_count };
    /* A device's index never names another device. */
    for (uint32_t i = 0; i < job->lane_count; i++)
        out->devices =
            (out->devices ^ (job->lanes[i].device->index + 1)) * UINT64_C(0x9e3779b97f4a7c15);
    return true;
}

static bool is_same(const struct lesson_key *a, const struct lesson_key *b)
{
    return a->work == b->work && a->size_class == b->size_class &&
           a->device_count == b->device_count && a->devices == b->devices;
}

/* The place of the key; if it has none, a free one, or the one that was not used for longest. */
static uint32_t find_place(const struct lessons *lessons, const struct lesson_key *key)
{
    uint32_t place = 0;
    for (uint32_t i = 0; i < LESSONS_MAX; i++) {
        if (lessons->kept[i].used > 0 && is_same(&lessons->kept[i].key, key))
            return i;
        if (lessons->kept[i].used < lessons->kept[place].used)
            place = i;
    }
    return place;
}

void lessons_make_room(const struct muster_job *job)
{
    struct muster *m = job->m;
    run_lock(m);
    bool is_needed = job_may_leave_out(&job->core_options) && !m->lessons;
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
    const struct lessons *lessons = job->m->lessons;
    struct lesson_key key;
    if (!lessons || !find_key(job, &key))
        return NULL;
    uint32_t place = find_place(lessons, &key);
    bool is_there = lessons->kept[place].used > 0 && is_same(&lessons->kept[place].key, &key);
    return is_there ? &lessons->kept[place].lesson : NULL;
}

void lessons_keep_locked(const struct muster_job *job)
{
    struct lessons *lessons = job->m->lessons;
    struct lesson_key key;
    if (!lessons || !find_key(job, &key))
        return;
    uint32_t place = find_place(lessons, &key);
    lessons->kept[place].key = key;
    lessons->kept[place].used = ++lessons->jobs;
    job_learn(job->core, &lessons->kept[place].lesson, job->end_ns);
}

void lessons_destroy(struct muster *m)
{
    allocator_give(&m->allocator, m->lessons, 1, sizeof *m->lessons);
    m->lessons = NULL;
}
