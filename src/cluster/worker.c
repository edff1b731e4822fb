#include "cluster/worker.h"

#include "base/layout.h"

#include <muster/backend.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define LOOK_NS UINT64_C(1000000000)
/* So that a stop is noticed soon. */
#define STEP_NS UINT64_C(100000000)
#define HELLO_NS UINT64_C(3000000000)
#define SLOTS 2

void worker_say(struct muster_cluster_worker *worker, const char *format, ...)
{
    char line[400];
    va_list arguments;
    if (!worker->log)
        return;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    worker->log(worker->log_user, line);
}

/* "HOST JOBS DEVICES". */
static muster_status say_hello(struct muster_cluster_worker *worker, struct muster_error *err)
{
    muster_device devices[16];
    struct muster_device_info info = { .size = sizeof info };
    char key[24], text[400];
    size_t count = 0, at;
    if (muster_device_list(worker->m, devices, 16, &count, NULL) != MUSTER_OK)
        count = 0;
    at = (size_t)snprintf(text, sizeof text, "%s %u ", worker->cluster->host, worker->job_count);
    for (size_t i = 0; i < count && i < 16 && at < sizeof text - 1; i++)
        if (muster_device_info(worker->m, devices[i], &info, NULL) == MUSTER_OK)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i > 0 ? "," : "", info.id);
    snprintf(key, sizeof key, "%016llx", (unsigned long long)worker->id);
    return worker->cluster->transport->put(worker->cluster->link, CLUSTER_WORKERS, key, text,
                                           strlen(text), err);
}

struct look {
    struct muster_cluster_worker *worker;
    bool is_seen[WORKER_JOBS_MAX], is_open;
    uint32_t stored;
};

static void take_job(void *user, const char *name)
{
    struct look *look = user;
    struct muster_cluster_worker *worker = look->worker;
    struct muster_error error;
    uint32_t free_place = WORKER_JOBS_MAX, refused = WORKER_JOBS_MAX;
    look->stored++;
    for (uint32_t i = 0; i < WORKER_JOBS_MAX; i++) {
        if (worker->jobs[i] && strcmp(worker->jobs[i]->name, name) == 0) {
            look->is_seen[i] = !worker_job_is_worth_another(worker->jobs[i]);
            if (look->is_seen[i])
                return;
            worker_job_destroy(worker->jobs[i]);
            worker->jobs[i] = NULL;
        }
        if (!worker->jobs[i] && free_place == WORKER_JOBS_MAX)
            free_place = i;
        if (worker->jobs[i] && refused == WORKER_JOBS_MAX && worker_job_is_refused(worker->jobs[i]))
            refused = i;
    }
    /* Jobs of those who are not trusted must not take the places of all others. */
    if (look->is_open && free_place == WORKER_JOBS_MAX && refused < WORKER_JOBS_MAX) {
        worker_job_drop(worker->jobs[refused]);
        worker_job_destroy(worker->jobs[refused]);
        worker->jobs[refused] = NULL;
        free_place = refused;
    }
    if (!look->is_open || free_place == WORKER_JOBS_MAX)
        return;
    if (worker_job_start(worker, name, &worker->jobs[free_place], &error) != MUSTER_OK)
        worker_say(worker, "%s: %s", name, error.text);
    look->is_seen[free_place] = true;
}

/* A job that ended by itself keeps its place while it is stored: it is not begun again at once. */
static void look_for_jobs(struct muster_cluster_worker *worker, struct look *look)
{
    struct transport_message message;
    if (cluster_each_job(worker->cluster, take_job, look, NULL) != MUSTER_OK)
        return;
    for (uint32_t i = 0; i < WORKER_JOBS_MAX; i++) {
        struct worker_job *job = worker->jobs[i];
        if (!job || look->is_seen[i])
            continue;
        muster_status status = worker->cluster->transport->get(worker->cluster->link, CLUSTER_JOBS,
                                                               job->name, &message, NULL);
        if (status == MUSTER_OK)
            worker->cluster->transport->release(&message);
        else if (status == MUSTER_E_NOT_FOUND)
            worker_job_drop(job);
    }
}

static bool is_stopping(struct muster_cluster_worker *worker, bool *breaks_off)
{
    platform_mutex_lock(&worker->lock);
    bool is = worker->is_stopping;
    *breaks_off = worker->breaks_off;
    platform_mutex_unlock(&worker->lock);
    return is;
}

/* Frees jobs that are over; gives how many go on. */
static uint32_t sweep(struct muster_cluster_worker *worker, const struct look *look, bool leaves,
                      bool breaks_off)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < WORKER_JOBS_MAX; i++) {
        struct worker_job *job = worker->jobs[i];
        if (!job)
            continue;
        if (breaks_off)
            worker_job_drop(job);
        else if (leaves)
            worker_job_leave(job);
        if (!worker_job_has_ended(job)) {
            count++;
        } else if (leaves || !look->is_seen[i]) {
            worker_job_destroy(job);
            worker->jobs[i] = NULL;
        }
    }
    return count;
}

/* Until something wakes the worker, for a second at most. */
static void wait_for_jobs(struct muster_cluster_worker *worker)
{
    struct transport_message message;
    const struct transport *t = worker->cluster->transport;
    uint64_t until = platform_deadline_ns(LOOK_NS);
    bool is_woken = false, breaks_off;
    while (!is_woken && platform_clock_ns() < until && !is_stopping(worker, &breaks_off)) {
        muster_status status = t->next(worker->wake, STEP_NS, &message);
        is_woken = status == MUSTER_OK;
        if (is_woken)
            t->release(&message);
        else if (status != MUSTER_E_TIMEOUT)
            cluster_pause(STEP_NS);
    }
}

static void run(void *user)
{
    struct muster_cluster_worker *worker = user;
    bool has_worked = false, breaks_off, leaves;
    uint64_t hello_due = 0;
    for (;;) {
        leaves = is_stopping(worker, &breaks_off);
        struct look look = { .worker = worker, .is_open = !leaves };
        look_for_jobs(worker, &look);
        worker->job_count = sweep(worker, &look, leaves, breaks_off);
        has_worked = has_worked || worker->job_count > 0;
        if (leaves && worker->job_count == 0)
            break;
        if (worker->once && has_worked && worker->job_count == 0 && look.stored == 0)
            break;
        if (platform_clock_ns() >= hello_due) {
            (void)say_hello(worker, NULL);
            hello_due = platform_deadline_ns(HELLO_NS);
        }
        if (leaves)
            cluster_pause(STEP_NS);
        else
            wait_for_jobs(worker);
    }
    for (uint32_t i = 0; i < WORKER_JOBS_MAX; i++)
        worker_job_destroy(worker->jobs[i]);
    char key[24];
    snprintf(key, sizeof key, "%016llx", (unsigned long long)worker->id);
    /* Its key lets it write here and remove nothing; an empty entry is none. */
    (void)worker->cluster->transport->put(worker->cluster->link, CLUSTER_WORKERS, key, "", 0, NULL);
    platform_mutex_lock(&worker->lock);
    worker->has_ended = true;
    platform_condition_wake_all(&worker->changed);
    platform_mutex_unlock(&worker->lock);
}

static muster_status read_options(struct muster_cluster_worker *worker,
                                  const struct muster_cluster_worker_options *given,
                                  struct muster_error *err)
{
    struct muster_cluster_worker_options options = { .size = sizeof options };
    muster_status status =
        given ? layout_read(LAYOUT(muster_cluster_worker_options), given, &options, err)
              : MUSTER_OK;
    if (status == MUSTER_OK && options.run)
        status = layout_read(LAYOUT(muster_run_options), options.run, &worker->run, err);
    if (status != MUSTER_OK)
        return status;
    worker->run.size = sizeof worker->run;
    if (worker->run.devices) {
        if (strlen(worker->run.devices) >= sizeof worker->devices_wanted)
            return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL,
                                     "the list of devices is too long");
        memcpy(worker->devices_wanted, worker->run.devices, strlen(worker->run.devices) + 1);
        worker->run.devices = worker->devices_wanted;
    }
    if (!options.trust && worker->cluster->is_remote)
        return muster_error_fill(
            err, MUSTER_E_INVALID, 0, "--trust FILE with submitters' public keys, or --trust any",
            "a worker of servers on other machines needs to know whose jobs to run");
    status = trust_init(&worker->trust, options.trust ? options.trust : "any", err);
    if (status != MUSTER_OK)
        return status;
    worker->once = options.once != 0;
    worker->slots = options.slots > 0 && options.slots <= 4 ? options.slots : SLOTS;
    worker->log = options.log;
    worker->log_user = options.log_user;
    return MUSTER_OK;
}

muster_status muster_cluster_worker_start(struct muster_cluster *cluster, struct muster *m,
                                          const struct muster_cluster_worker_options *options,
                                          struct muster_cluster_worker **out,
                                          struct muster_error *err)
{
    struct muster_cluster_worker *worker = calloc(1, sizeof *worker);
    if (!worker)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a worker");
    worker->cluster = cluster;
    worker->m = m;
    while (worker->id == 0)
        if (getrandom(&worker->id, sizeof worker->id, 0) != (ssize_t)sizeof worker->id)
            worker->id = cluster->id ^ platform_clock_ns();
    muster_status status = read_options(worker, options, err);
    bool has_lock = false, has_changed = false;
    struct muster_error denied;
    if (status == MUSTER_OK) {
        status = platform_mutex_init(&worker->lock, err);
        has_lock = status == MUSTER_OK;
    }
    if (status == MUSTER_OK) {
        status = platform_condition_init(&worker->changed, err);
        has_changed = status == MUSTER_OK;
    }
    if (status == MUSTER_OK)
        status = cluster->transport->listen(cluster->link, CLUSTER_WAKE, &worker->wake, err);
    /* The key of another role would have it wait for ever. */
    if (status == MUSTER_OK && say_hello(worker, &denied) == MUSTER_E_DENIED) {
        status = MUSTER_E_DENIED;
        if (err)
            *err = denied;
    }
    if (status == MUSTER_OK)
        status = platform_thread_start(&worker->looking, run, worker, "fleet-worker", NULL, err);
    if (status == MUSTER_OK) {
        *out = worker;
        return MUSTER_OK;
    }
    cluster->transport->unlisten(worker->wake);
    if (has_changed)
        platform_condition_deinit(&worker->changed);
    if (has_lock)
        platform_mutex_deinit(&worker->lock);
    free(worker);
    return status;
}

static void tell(struct muster_cluster_worker *worker, bool breaks_off)
{
    platform_mutex_lock(&worker->lock);
    worker->is_stopping = true;
    worker->breaks_off = worker->breaks_off || breaks_off;
    platform_mutex_unlock(&worker->lock);
}

void muster_cluster_worker_stop(struct muster_cluster_worker *worker)
{
    tell(worker, false);
}

muster_status muster_cluster_worker_wait(struct muster_cluster_worker *worker, uint64_t timeout_ns,
                                         struct muster_error *err)
{
    uint64_t deadline = platform_deadline_ns(timeout_ns);
    platform_mutex_lock(&worker->lock);
    while (!worker->has_ended && platform_condition_wait(&worker->changed, &worker->lock, deadline))
        ;
    bool has_ended = worker->has_ended;
    platform_mutex_unlock(&worker->lock);
    return has_ended
               ? MUSTER_OK
               : muster_error_fill(err, MUSTER_E_TIMEOUT, 0, NULL, "the worker has not ended yet");
}

void muster_cluster_worker_destroy(struct muster_cluster_worker *worker)
{
    if (!worker)
        return;
    tell(worker, true);
    platform_thread_join(&worker->looking);
    worker->cluster->transport->unlisten(worker->wake);
    platform_condition_deinit(&worker->changed);
    platform_mutex_deinit(&worker->lock);
    free(worker);
}
