/*
 * The poller: one thread that asks drivers for what only they know. It is started by the first who
 * asks, looks every poll_ns while somebody keeps asking, and sleeps for good when nobody does. A
 * driver that does not answer holds up the poller and nobody else.
 */
#include "run/device/device.h"

#include "base/allocator.h"

/* After this many intervals without a question it sleeps until the next. */
#define INTERVALS_UNASKED 4u
#define FIRST_ANSWER_NS 1000000000u

struct poller {
    struct muster *m;
    struct platform_thread thread;
    struct platform_condition wake;
    bool is_starting, has_left, must_stop;
    bool is_asking; /* it is within a driver, which may not return */
    bool was_asked; /* since the last look: that is answered, however late it gets to it */
    uint64_t asked_ns;
};

muster_status poller_create(struct muster *m, struct muster_error *err)
{
    struct poller *poller = allocator_take(&m->allocator, 1, sizeof *poller);
    if (!poller)
        return run_no_memory(err, "the poller");
    poller->m = m;
    muster_status status = platform_condition_init(&poller->wake, err);
    if (status != MUSTER_OK) {
        allocator_give(&m->allocator, poller, 1, sizeof *poller);
        return status;
    }
    m->poller = poller;
    return MUSTER_OK;
}

/* Asks one device's driver. Called with the lock, which is not held meanwhile. */
static void sample_locked(struct run_device *device)
{
    struct muster *m = device->m;
    struct muster_device_sample sample = { .utilisation = -1, .temperature_c = -300 };
    device->pins++;
    m->poller->is_asking = true;
    run_unlock(m);
    struct muster_error problem;
    muster_status status = device->backend->table.device_sample(device->state, &sample, &problem);
    if (status != MUSTER_OK)
        run_log(m, MUSTER_LOG_WARNING, "%s does not report its load: %s", device->info.id,
                problem.text);
    run_lock(m);
    m->poller->is_asking = false;
    device->asked_ns = platform_clock_ns();
    device_note_locked(device, status, NULL);
    if (status == MUSTER_OK) {
        device->sample = sample;
        device->sampled_ns = device->asked_ns;
        device_view_locked(device);
    }
    device->pins--;
    platform_condition_wake_all(&m->changed);
}

static void poll(void *argument)
{
    struct poller *poller = argument;
    struct muster *m = poller->m;
    run_lock(m);
    while (!poller->must_stop) {
        uint64_t now_ns = platform_clock_ns(), poll_ns = m->options.poll_ns;
        bool is_wanted = (now_ns - poller->asked_ns) / INTERVALS_UNASKED <= poll_ns;
        if (!is_wanted && !poller->was_asked) {
            platform_condition_wait(&poller->wake, &m->lock, UINT64_MAX);
            continue;
        }
        poller->was_asked = false;
        for (uint32_t i = 0; i < m->device_count && !poller->must_stop; i++) {
            struct run_device *device = m->devices[i];
            bool is_due =
                device->asked_ns == 0 || platform_clock_ns() - device->asked_ns >= poll_ns;
            if (is_due && device_check_locked(device, NULL) == MUSTER_OK)
                sample_locked(device);
        }
        if (!poller->must_stop && !poller->was_asked)
            platform_condition_wait(&poller->wake, &m->lock,
                                    poll_ns < UINT64_MAX - now_ns ? now_ns + poll_ns : UINT64_MAX);
    }
    poller->has_left = true;
    platform_condition_wake_all(&m->changed);
    run_unlock(m);
}

/* The first who asks starts the thread; others wait for that. */
static muster_status start_locked(struct poller *poller, struct muster_error *err)
{
    struct muster *m = poller->m;
    while (poller->is_starting)
        platform_condition_wait(&m->changed, &m->lock, UINT64_MAX);
    if (poller->thread.started)
        return MUSTER_OK;
    poller->is_starting = true;
    run_unlock(m);
    muster_status status =
        platform_thread_start(&poller->thread, poll, poller, "muster-poller", NULL, err);
    run_lock(m);
    poller->is_starting = false;
    platform_condition_wake_all(&m->changed);
    return status;
}

muster_status poller_ask(struct run_device *device, struct muster_error *err)
{
    struct muster *m = device->m;
    struct poller *poller = m->poller;
    run_lock(m);
    poller->asked_ns = platform_clock_ns();
    poller->was_asked = true;
    muster_status status = start_locked(poller, err);
    if (status == MUSTER_OK) {
        platform_condition_wake_one(&poller->wake);
        uint64_t deadline_ns = platform_deadline_ns(FIRST_ANSWER_NS);
        bool in_time = !device->is_late;
        while (device->asked_ns == 0 && in_time && device_check_locked(device, NULL) == MUSTER_OK)
            in_time = platform_condition_wait(&m->changed, &m->lock, deadline_ns);
        device->is_late = device->asked_ns == 0;
    }
    run_unlock(m);
    return status;
}

bool poller_destroy(struct muster *m, uint64_t deadline_ns)
{
    struct poller *poller = m->poller;
    run_lock(m);
    poller->must_stop = true;
    platform_condition_wake_one(&poller->wake);
    /* Only a driver can keep it. Otherwise it leaves as soon as it is given a processor. */
    bool in_time = true;
    while (poller->thread.started && !poller->has_left && in_time)
        in_time = platform_condition_wait(&m->changed, &m->lock,
                                          poller->is_asking ? deadline_ns : UINT64_MAX);
    bool has_left = !poller->thread.started || poller->has_left;
    run_unlock(m);
    if (!has_left) {
        platform_thread_detach(&poller->thread);
        return false;
    }
    platform_thread_join(&poller->thread);
    platform_condition_deinit(&poller->wake);
    allocator_give(&m->allocator, poller, 1, sizeof *poller);
    m->poller = NULL;
    return true;
}
