#include "run/threads/crew.h"

#include "base/allocator.h"

#include <string.h>

/* More than that do not wait: a machine with many devices had a burst of jobs. */
#define PARKED_MAX 64u

struct crew_thread {
    struct muster *m;
    struct platform_thread thread;
    struct platform_condition given;
    void (*run)(void *); /* NULL: it waits */
    void *argument;
    const char *name; /* what it was called last */
    bool must_end;
    bool is_started;                 /* its starter will not touch it any more */
    struct crew_thread *next;        /* in `all` or `ended` */
    struct crew_thread *next_parked; /* in `parked` */
};

struct crew {
    struct crew_thread *all;    /* owns; those that have not ended */
    struct crew_thread *parked; /* of them, those that wait, the last to come first */
    struct crew_thread *ended;  /* owns; to be joined */
    uint32_t parked_count;
    bool is_closing;
};

static void park_locked(struct crew_thread *thread)
{
    struct crew *crew = thread->m->crew;
    thread->next_parked = crew->parked;
    crew->parked = thread;
    crew->parked_count++;
}

/* Takes a thread that waits off the list: one of that name if there is one. */
static struct crew_thread *unpark_locked(struct crew *crew, const char *name)
{
    struct crew_thread **found = &crew->parked;
    for (struct crew_thread **at = &crew->parked; name && *at; at = &(*at)->next_parked)
        if (strcmp((*at)->name, name) == 0) {
            found = at;
            break;
        }
    struct crew_thread *thread = *found;
    if (thread) {
        *found = thread->next_parked;
        crew->parked_count--;
    }
    return thread;
}

static void remove_locked(struct crew_thread *thread)
{
    struct crew_thread **at = &thread->m->crew->all;
    while (*at != thread)
        at = &(*at)->next;
    *at = thread->next;
}

/* It is on its way out: others may join it. */
static void end_locked(struct crew_thread *thread)
{
    struct crew *crew = thread->m->crew;
    while (!thread->is_started)
        platform_condition_wait(&thread->given, &thread->m->lock, UINT64_MAX);
    remove_locked(thread);
    thread->next = crew->ended;
    crew->ended = thread;
    platform_condition_wake_all(&thread->m->changed);
}

static void serve(void *argument)
{
    struct crew_thread *self = argument;
    struct muster *m = self->m;
    const char *name = self->name;
    platform_thread_hurry();
    for (;;) {
        if (self->name != name)
            platform_thread_rename(name = self->name);
        self->run(self->argument);
        run_lock(m);
        self->run = NULL;
        if (self->must_end || m->crew->is_closing || m->crew->parked_count == PARKED_MAX)
            break;
        park_locked(self);
        while (!self->run && !self->must_end)
            platform_condition_wait(&self->given, &m->lock, UINT64_MAX);
        if (!self->run)
            break;
        run_unlock(m);
    }
    end_locked(self);
    run_unlock(m);
}

static void join_ended(struct muster *m)
{
    run_lock(m);
    struct crew_thread *ended = m->crew->ended;
    m->crew->ended = NULL;
    run_unlock(m);
    while (ended) {
        struct crew_thread *thread = ended;
        ended = thread->next;
        platform_thread_join(&thread->thread);
        platform_condition_deinit(&thread->given);
        allocator_give(&m->allocator, thread, 1, sizeof *thread);
    }
}

static muster_status start(struct muster *m, void (*run)(void *), void *argument, const char *name,
                           struct crew_thread **out, struct muster_error *err)
{
    struct crew_thread *thread = allocator_take(&m->allocator, 1, sizeof *thread);
    if (!thread)
        return run_no_memory(err, "a thread");
    *thread = (struct crew_thread){ .m = m, .run = run, .argument = argument, .name = name };
    muster_status status = platform_condition_init(&thread->given, err);
    if (status != MUSTER_OK)
        goto no_condition;
    run_lock(m);
    thread->next = m->crew->all;
    m->crew->all = thread;
    run_unlock(m);
    if (out)
        *out = thread;
    status = platform_thread_start(&thread->thread, serve, thread, name, NULL, err);
    run_lock(m);
    if (status == MUSTER_OK) {
        thread->is_started = true;
        platform_condition_wake_one(&thread->given);
    } else {
        remove_locked(thread);
    }
    run_unlock(m);
    if (status == MUSTER_OK)
        return status;
    if (out)
        *out = NULL;
    platform_condition_deinit(&thread->given);
no_condition:
    allocator_give(&m->allocator, thread, 1, sizeof *thread);
    return status;
}

/* The first who wants a thread makes it. */
static bool make_crew(struct muster *m)
{
    run_lock(m);
    bool is_there = m->crew != NULL;
    run_unlock(m);
    struct crew *crew = is_there ? NULL : allocator_take(&m->allocator, 1, sizeof *crew);
    if (!crew)
        return is_there;
    run_lock(m);
    if (!m->crew) {
        m->crew = crew;
        crew = NULL;
    }
    run_unlock(m);
    allocator_give(&m->allocator, crew, 1, sizeof *crew);
    return true;
}

muster_status crew_run(struct muster *m, void (*run)(void *), void *argument, const char *name,
                       struct crew_thread **out, struct muster_error *err)
{
    if (!make_crew(m))
        return run_no_memory(err, "threads");
    join_ended(m);
    run_lock(m);
    struct crew_thread *thread = unpark_locked(m->crew, name);
    if (thread) {
        thread->run = run;
        thread->argument = argument;
        thread->name = name;
        if (out)
            *out = thread;
        platform_condition_wake_one(&thread->given);
    }
    run_unlock(m);
    return thread ? MUSTER_OK : start(m, run, argument, name, out, err);
}

void crew_end_locked(struct crew_thread *thread)
{
    thread->must_end = true;
}

static void dismiss_parked_locked(struct crew *crew)
{
    for (struct crew_thread *thread; (thread = unpark_locked(crew, NULL));) {
        thread->must_end = true;
        platform_condition_wake_one(&thread->given);
    }
}

static bool has_dismissed_locked(const struct crew *crew)
{
    const struct crew_thread *thread = crew->all;
    while (thread && (thread->run || !thread->must_end))
        thread = thread->next;
    return thread != NULL;
}

uint32_t crew_parked(struct muster *m)
{
    run_lock(m);
    uint32_t count = m->crew ? m->crew->parked_count : 0;
    run_unlock(m);
    return count;
}

/* Ends those that wait, and waits for them, or for all. */
static void end_threads_locked(struct muster *m, bool all)
{
    dismiss_parked_locked(m->crew);
    while (all ? m->crew->all != NULL : has_dismissed_locked(m->crew))
        platform_condition_wait(&m->changed, &m->lock, UINT64_MAX);
}

void crew_trim(struct muster *m)
{
    run_lock(m);
    bool is_there = m->crew != NULL;
    if (is_there)
        end_threads_locked(m, false);
    run_unlock(m);
    if (is_there)
        join_ended(m);
}

void crew_destroy(struct muster *m, bool is_lost)
{
    run_lock(m);
    struct crew *crew = m->crew;
    if (crew) {
        crew->is_closing = true;
        end_threads_locked(m, !is_lost);
        for (struct crew_thread *thread = crew->all; thread; thread = thread->next)
            platform_thread_detach(&thread->thread);
    }
    run_unlock(m);
    if (!crew)
        return;
    join_ended(m);
    if (is_lost)
        return;
    allocator_give(&m->allocator, crew, 1, sizeof *crew);
    m->crew = NULL;
}
