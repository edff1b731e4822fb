/*
 * One job of a worker: what it needs is fetched, then one thread speaks with the submitter and another
 * runs the local job, again after each failure, until the cluster's job is over.
 */
#include "cluster/worker.h"

#include "platform/file.h"

#include <fcntl.h>
#include <muster/backend.h>
#include <muster/muster.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ANSWER_WAIT_NS UINT64_C(50000000)
/* Between two local jobs, the first of which failed: longer each time, up to this. */
#define AGAIN_NS UINT64_C(100000000)
#define AGAIN_MAX_NS UINT64_C(2000000000)
/* A job that ended and is stored for so long still is not being removed: it is begun again. */
#define ENDED_NS UINT64_C(5000000000)
/* How soon it is noticed that a local job has failed. */
#define LOOK_NS UINT64_C(50000000)
/* Between two refusals, until one is answered; and how long an answer may take. */
#define REFUSE_NS UINT64_C(1000000000)

/* What the job needs. */

static muster_status load_kernel(struct worker_job *job, struct muster_error *err)
{
    const struct manifest *m = &job->manifest;
    char folder[PLATFORM_PATH_BYTES], path[PLATFORM_PATH_BYTES + 16];
    void *bytes = NULL;
    if (job->kernel)
        return MUSTER_OK;
    muster_status status = cluster_object_get(job->worker->cluster, &m->kernel, &bytes, err);
    if (status != MUSTER_OK)
        return status;
    status = platform_folder_make_temporary(folder, err);
    if (status == MUSTER_OK) {
        snprintf(path, sizeof path, "%s/kernel", folder);
        status = platform_file_write(path, bytes, (size_t)m->kernel.bytes, err);
        if (status == MUSTER_OK)
            status = muster_kernel_load(job->worker->m, path, *m->entry ? m->entry : NULL,
                                        &job->kernel, err);
        platform_folder_remove_temporary(folder);
    }
    free(bytes);
    return status;
}

static muster_status make_args(struct worker_job *job, struct muster_error *err)
{
    const struct manifest *m = &job->manifest;
    muster_status status = MUSTER_OK;
    for (size_t i = 0; i < m->arg_count && status == MUSTER_OK; i++) {
        const struct manifest_arg *from = &m->args[i];
        struct muster_arg *to = &job->args[i];
        *to = (struct muster_arg){ .size = sizeof *to,
                                   .kind = from->kind,
                                   .element = from->element,
                                   .bytes = (size_t)from->bytes };
        if (from->kind == MUSTER_ARG_VALUE)
            to->in = from->value;
        if (from->kind != MUSTER_ARG_ALL)
            continue;
        to->bytes = 0;
        if (!job->table_bytes[i])
            status =
                cluster_object_get(job->worker->cluster, &from->table, &job->table_bytes[i], err);
        if (status == MUSTER_OK && job->tables[i].generation == 0)
            status = muster_data_create(job->worker->m, job->table_bytes[i],
                                        (size_t)from->table.bytes, 0, &job->tables[i], err);
        to->data = job->tables[i];
    }
    return status;
}

/* The files on shared storage, where this machine has them. */
static void open_files(struct worker_job *job)
{
    const struct manifest *m = &job->manifest;
    struct stat facts;
    if (m->is_through)
        return;
    job->in = shared_open(&m->in);
    job->out = *m->out_part ? open(m->out_part, O_RDWR | O_CLOEXEC) : -1;
    /* Its name has the job's in it: another file of that name and size is not met by chance. */
    if (job->out >= 0 &&
        (fstat(job->out, &facts) != 0 || (uint64_t)facts.st_size != m->out_bytes)) {
        close(job->out);
        job->out = -1;
    }
}

/* Where results that travel are put together; MUSTER_E_TOO_LARGE: they fit into no message. */
static muster_status make_grain(struct worker_job *job, struct muster_error *err)
{
    struct muster_cluster *cluster = job->worker->cluster;
    uint64_t bytes = job->manifest.grain * job->manifest.out_item_bytes;
    if (!job->grain &&
        bytes + CLUSTER_MESSAGE_BYTES <= cluster->transport->payload_max(cluster->link))
        job->grain = malloc((size_t)bytes);
    return job->grain ? MUSTER_OK
                      : muster_error_fill(err, MUSTER_E_TOO_LARGE, 0,
                                          "mount the storage of the output on this machine",
                                          "results of %llu bytes do not fit into a message",
                                          (unsigned long long)bytes);
}

static muster_status prepare_once(struct worker_job *job, struct muster_error *err)
{
    struct muster_cluster *cluster = job->worker->cluster;
    char pattern[TRANSPORT_SUBJECT_BYTES + 4];
    muster_status status =
        cluster_manifest_trusted(cluster, job->name, &job->worker->trust, &job->manifest, err);
    platform_mutex_lock(&job->lock);
    job->is_refused = status == MUSTER_E_DENIED;
    platform_mutex_unlock(&job->lock);
    if (status == MUSTER_OK)
        status = load_kernel(job, err);
    if (status == MUSTER_OK)
        status = make_args(job, err);
    if (status != MUSTER_OK)
        return status;
    if (job->out < 0 && job->in < 0)
        open_files(job);
    if (job->out < 0)
        status = make_grain(job, err);
    if (status != MUSTER_OK)
        return status;
    cluster->transport->inbox(cluster->link, job->inbox);
    cluster_subject(job->name, "ask", job->ask);
    snprintf(pattern, sizeof pattern, "%s.*", job->inbox);
    return cluster->transport->listen(cluster->link, pattern, &job->answers, err);
}

static bool is_wanted(struct worker_job *job)
{
    platform_mutex_lock(&job->lock);
    bool is = !job->is_gone && !job->leaves;
    platform_mutex_unlock(&job->lock);
    return is;
}

/* What is there already is kept; servers that choose a leader are asked again. */
static muster_status prepare(struct worker_job *job, struct muster_error *err)
{
    uint64_t patience = platform_deadline_ns(CLUSTER_PATIENCE_NS);
    muster_status status;
    do
        status = prepare_once(job, err);
    while (cluster_again(job->worker->cluster, status, patience) && is_wanted(job));
    return status;
}

/* The local job. */

/*
 * What crashes its helper alone, grain by grain, is the kernel's fault or the input's: to try it on
 * other machines would cost each of them its helpers. Everything else may be this machine's.
 */
static enum wire_class class_of(muster_status status)
{
    switch (status) {
    case MUSTER_E_CRASHED:
        return WIRE_CLASS_USER;
    case MUSTER_E_NO_MEMORY:
    case MUSTER_E_DEVICE_MEMORY:
        return WIRE_CLASS_MEMORY;
    case MUSTER_E_PARSE:
    case MUSTER_E_INVALID:
        return WIRE_CLASS_USER;
    default:
        return WIRE_CLASS_UNIT;
    }
}

/* For people, here and at the submitter. */
static void send_why(struct worker_job *job, const struct muster_error *error)
{
    char subject[TRANSPORT_SUBJECT_BYTES], text[320];
    cluster_subject(job->name, "why", subject);
    snprintf(text, sizeof text, "%s: %s", job->worker->cluster->host, error->text);
    worker_say(job->worker, "%s: %s%s%s", job->name, error->text, *error->fix ? "; " : "",
               error->fix);
    (void)job->worker->cluster->transport->send(job->worker->cluster->link, subject, NULL, text,
                                                strlen(text), NULL);
}

/* The grain that failed, of a piece that has failed; WIRE_NO_GRAIN if it may be one of several. */
static uint64_t failed_grain(const struct worker_job *job, const struct worker_piece *piece,
                             struct muster_range failed)
{
    uint64_t grain = job->manifest.grain;
    uint64_t first = piece->items.begin + failed.begin - piece->local,
             last = first + (failed.end - failed.begin) - 1;
    return first / grain == last / grain ? first / grain : WIRE_NO_GRAIN;
}

/* Whether what failed first lies in the piece. */
static bool has_failed(const struct worker_piece *piece, const struct muster_report *report)
{
    uint64_t begin = report->failed[0].begin;
    return report->failed_count > 0 && begin >= piece->local &&
           begin - piece->local < piece->items.end - piece->items.begin;
}

/* The local job counts items as they were given to it; people know them by their place in the input. */
static void rename_items(const struct worker_job *job, const struct muster_report *report,
                         struct muster_error *error)
{
    const char *rest = strstr(error->text, " failed on ");
    char text[sizeof error->text];
    for (uint64_t i = 0; i < job->count && rest && report->failed_count > 0; i++) {
        const struct worker_piece *piece = &job->pieces[(job->first + i) % WORKER_PIECES_MAX];
        struct muster_range failed = report->failed[0];
        if (!has_failed(piece, report))
            continue;
        uint64_t begin = piece->items.begin + failed.begin - piece->local;
        uint64_t count = failed.end - failed.begin;
        if (count == 1)
            snprintf(text, sizeof text, "item %llu%s", (unsigned long long)begin, rest);
        else
            snprintf(text, sizeof text, "items %llu to %llu%s", (unsigned long long)begin,
                     (unsigned long long)begin + count, rest);
        memcpy(error->text, text, sizeof text);
        return;
    }
}

/*
 * The local job has ended while the cluster's goes on: the piece that failed is reported, and the
 * others are given back. All are, and nothing is blamed, while units are larger than a grain and several
 * are under way: from now on this machine runs the job a grain at a time.
 */
static void report_failure(struct worker_job *job, const struct muster_report *report,
                           enum wire_class class_, struct muster_error *error)
{
    bool is_told = false, is_exact = job->is_careful || report->failed_count == 0;
    platform_mutex_lock(&job->lock);
    job->is_careful = job->is_careful || (report->failed_count > 0 && class_ != WIRE_CLASS_BACK);
    rename_items(job, report, error);
    platform_mutex_unlock(&job->lock);
    send_why(job, error);
    platform_mutex_lock(&job->lock);
    uint64_t now = platform_clock_ns();
    for (uint64_t i = 0; i < job->count; i++) {
        const struct worker_piece *piece = &job->pieces[(job->first + i) % WORKER_PIECES_MAX];
        bool has_range = has_failed(piece, report);
        uint64_t grain = has_range ? failed_grain(job, piece, report->failed[0]) : WIRE_NO_GRAIN;
        /* Without a range it is the oldest: what was before it is stored. */
        bool is_it = !is_told && is_exact && (has_range || report->failed_count == 0);
        worker_failed(&job->state, piece->slot, is_it ? class_ : WIRE_CLASS_BACK,
                      is_it ? grain : WIRE_NO_GRAIN, now);
        is_told = is_told || is_it;
    }
    job->first += job->count;
    job->count = 0;
    worker_send(job);
    platform_mutex_unlock(&job->lock);
}

/*
 * Until it is over. One that has failed waits for its source, which waits for a claim: it is told. The
 * pieces that it has go back in any case.
 */
static muster_status wait_for_local(struct worker_run *run, struct muster_job *local,
                                    struct muster_report *report, struct muster_error *err)
{
    struct worker_job *job = run->job;
    struct muster_progress progress = { .size = sizeof progress };
    muster_status status;
    while ((status = muster_job_wait_for(local, LOOK_NS, report, err)) == MUSTER_E_TIMEOUT) {
        if (muster_job_progress(local, &progress, NULL) != MUSTER_OK || !*progress.waits_for)
            continue;
        platform_mutex_lock(&job->lock);
        run->is_failing = true;
        platform_condition_wake_all(&job->changed);
        platform_mutex_unlock(&job->lock);
    }
    return status;
}

static muster_status run_local(struct worker_job *job, struct muster_report *report,
                               struct muster_error *err)
{
    struct muster_job *local;
    struct worker_run *run = calloc(1, sizeof *run);
    if (!run)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a job");
    run->job = job;
    struct muster_run_options options = job->worker->run;
    options.tries = 1; /* the next one is maybe another machine's */
    if (job->is_careful) {
        options.unit_items = options.unit_multiple = job->manifest.grain;
        options.depth = 1;
    }
    const struct muster_job_desc desc = { .size = sizeof desc,
                                          .kernel = job->kernel,
                                          .items = MUSTER_ITEMS_UNKNOWN,
                                          .args = job->args,
                                          .arg_count = job->manifest.arg_count,
                                          .source = worker_source,
                                          .source_user = run,
                                          .sink = worker_sink,
                                          .sink_user = run,
                                          .options = &options };
    platform_mutex_lock(&job->lock);
    job->local_items = 0;
    job->run = run;
    platform_mutex_unlock(&job->lock);
    muster_status status = muster_start(job->worker->m, &desc, &local, err);
    if (status != MUSTER_OK) {
        free(run);
        return status;
    }
    platform_mutex_lock(&job->lock);
    job->local = local;
    bool is_over = worker_is_done(job);
    platform_mutex_unlock(&job->lock);
    /* The process that has found that out before could not cancel it. */
    if (is_over)
        muster_job_cancel(local);
    status = wait_for_local(run, local, report, err);
    platform_mutex_lock(&job->lock);
    job->local = NULL;
    job->run = NULL;
    job->is_stuck = job->is_stuck || status == MUSTER_E_DEVICE_HUNG;
    /* The source and the sink know more than the job that failed because of them. */
    if (status != MUSTER_OK && job->problem.status != MUSTER_OK)
        *err = job->problem;
    job->problem.status = MUSTER_OK;
    bool is_stuck = job->is_stuck;
    platform_mutex_unlock(&job->lock);
    muster_job_destroy(local);
    if (!is_stuck)
        free(run);
    return status == MUSTER_OK ? MUSTER_OK : err->status;
}

/* No device here can run it, and none will: the others do. */
static bool is_hopeless(muster_status status)
{
    return status == MUSTER_E_NO_DEVICE || status == MUSTER_E_NOT_FOUND ||
           status == MUSTER_E_NOT_SUPPORTED || status == MUSTER_E_TOO_LARGE;
}

static bool is_done(struct worker_job *job)
{
    platform_mutex_lock(&job->lock);
    bool is = worker_is_done(job);
    platform_mutex_unlock(&job->lock);
    return is;
}

/*
 * The output's file takes no more from this machine: its results go through the store from now on, and
 * the submitter finds out whether the storage is full for all. What that cannot do is nobody's fault.
 */
static enum wire_class give_up_storage(struct worker_job *job)
{
    struct muster_error error;
    job->has_no_room = false;
    if (make_grain(job, &error) != MUSTER_OK)
        return WIRE_CLASS_STORE;
    close(job->out);
    job->out = -1;
    return WIRE_CLASS_BACK;
}

/* What was claimed meanwhile goes back. */
static void leave(struct worker_job *job)
{
    uint32_t slot;
    struct muster_range grains;
    worker_job_leave(job);
    while (!is_done(job)) {
        platform_mutex_lock(&job->lock);
        while (worker_next_run(&job->state, &slot, &grains))
            worker_failed(&job->state, slot, WIRE_CLASS_BACK, WIRE_NO_GRAIN, platform_clock_ns());
        worker_send(job);
        platform_mutex_unlock(&job->lock);
        cluster_pause(ANSWER_WAIT_NS);
    }
}

static void run_jobs(void *user)
{
    struct worker_job *job = user;
    uint64_t pause = AGAIN_NS;
    while (!is_done(job)) {
        struct muster_report report = { .size = sizeof report };
        struct muster_error error = { .status = MUSTER_OK };
        muster_status status = run_local(job, &report, &error);
        if (status == MUSTER_OK || is_done(job)) {
            /* It ends well when nothing more comes, which is soon told. */
            cluster_pause(ANSWER_WAIT_NS);
            continue;
        }
        enum wire_class class_ = job->has_no_room ? give_up_storage(job) : class_of(error.status);
        report_failure(job, &report, class_, &error);
        if (is_hopeless(status)) {
            leave(job);
            return;
        }
        cluster_pause(pause);
        pause = 2 * pause < AGAIN_MAX_NS ? 2 * pause : AGAIN_MAX_NS;
    }
}

/* The thread of a job. */

static void take_answer(struct worker_job *job, const struct transport_message *message)
{
    const char *dot = strrchr(message->subject, '.');
    struct wire_reply reply;
    uint64_t version;
    unsigned long long number = dot ? strtoull(dot + 1, NULL, 10) : 0;
    if (!dot || number >= job->asked_count || job->asked_count - number > WORKER_ASKED_MAX ||
        wire_read_reply(message->bytes, message->size, &reply, &version) != WIRE_OK)
        return;
    worker_reply(&job->state, &job->asked[number % WORKER_ASKED_MAX], &reply, platform_clock_ns());
    platform_condition_wake_all(&job->changed);
}

static void speak(struct worker_job *job)
{
    const struct transport *t = job->worker->cluster->transport;
    struct transport_message message;
    bool is_over = false, was_up = true;
    while (!is_over) {
        bool has_one = t->next(job->answers, ANSWER_WAIT_NS, &message) == MUSTER_OK;
        bool is_up = t->is_up(job->worker->cluster->link);
        platform_mutex_lock(&job->lock);
        if (has_one)
            take_answer(job, &message);
        if (is_up && !was_up)
            worker_hurry(&job->state, platform_clock_ns());
        was_up = is_up;
        worker_send(job);
        is_over = worker_is_done(job);
        struct muster_job *local = is_over ? job->local : NULL;
        if (is_over)
            platform_condition_wake_all(&job->changed);
        /* It stays while the lock is held. */
        if (local)
            muster_job_cancel(local);
        platform_mutex_unlock(&job->lock);
        if (has_one)
            t->release(&message);
        else if (!is_up)
            cluster_pause(ANSWER_WAIT_NS);
    }
}

/* A moment later: false if the job is gone, or the worker leaves. */
static bool waits_to_refuse(struct worker_job *job)
{
    uint64_t deadline = platform_deadline_ns(REFUSE_NS);
    platform_mutex_lock(&job->lock);
    while (!job->is_gone && !job->leaves &&
           platform_condition_wait(&job->changed, &job->lock, deadline))
        ;
    bool goes_on = !job->is_gone && !job->leaves;
    platform_mutex_unlock(&job->lock);
    return goes_on;
}

/* Nothing of it was fetched. The process that feeds the job is told, also if that is later. */
static void refuse(struct worker_job *job, const struct muster_error *error)
{
    const struct muster_cluster *cluster = job->worker->cluster;
    struct transport_message message;
    char subject[TRANSPORT_SUBJECT_BYTES], text[400];
    muster_status status = MUSTER_E_NOT_FOUND;
    cluster_subject(job->name, "why", subject);
    snprintf(text, sizeof text, "%s refused job %s: %s%s%s", cluster->host, job->name, error->text,
             *error->fix ? "; " : "", error->fix);
    worker_say(job->worker, "%s: refused: %s%s%s", job->name, error->text, *error->fix ? "; " : "",
               error->fix);
    while (status != MUSTER_OK && waits_to_refuse(job)) {
        status = cluster->transport->ask(cluster->link, subject, text, strlen(text), REFUSE_NS,
                                         &message, NULL);
        if (status == MUSTER_OK)
            cluster->transport->release(&message);
    }
}

static void run_job(void *user)
{
    struct worker_job *job = user;
    struct muster_cluster_worker *worker = job->worker;
    struct muster_error error;
    muster_status status = prepare(job, &error);
    if (status == MUSTER_OK) {
        platform_mutex_lock(&job->lock);
        worker_init(&job->state, worker->id, worker->slots, platform_clock_ns());
        if (job->leaves)
            worker_leave(&job->state);
        job->is_ready = true;
        worker_send(job);
        platform_mutex_unlock(&job->lock);
        status = platform_thread_start(&job->running, run_jobs, job, "fleet-run", NULL, &error);
    }
    if (status == MUSTER_OK) {
        worker_say(worker, "%s: %s, input %s, output %s", job->name, job->manifest.title,
                   job->in >= 0 ? "from storage" : "from the submitter",
                   job->out >= 0 ? "to storage" : "through the store");
        speak(job);
        platform_thread_join(&job->running);
        worker_say(worker, "%s: over", job->name);
    } else if (worker_job_is_refused(job)) {
        refuse(job, &error);
    } else if (status != MUSTER_E_NOT_FOUND) {
        send_why(job, &error);
    }
    platform_mutex_lock(&job->lock);
    enum wire_end end;
    job->may_begin_again = !job->is_stuck && !job->leaves &&
                           (job->is_ready ? worker_is_over(&job->state, &end)
                                          : status == MUSTER_E_TIMEOUT || status == MUSTER_E_IO);
    job->ended_ns = platform_clock_ns();
    job->has_ended = true;
    platform_mutex_unlock(&job->lock);
}

muster_status worker_job_start(struct muster_cluster_worker *worker, const char *name,
                               struct worker_job **out, struct muster_error *err)
{
    struct worker_job *job = calloc(1, sizeof *job);
    if (!job)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a job");
    job->worker = worker;
    job->in = job->out = -1;
    snprintf(job->name, sizeof job->name, "%s", name);
    muster_status status = platform_mutex_init(&job->lock, err);
    job->has_lock = status == MUSTER_OK;
    if (status == MUSTER_OK)
        status = platform_condition_init(&job->changed, err);
    job->has_changed = status == MUSTER_OK;
    if (status == MUSTER_OK)
        status = platform_thread_start(&job->thread, run_job, job, "fleet-job", NULL, err);
    if (status == MUSTER_OK)
        *out = job;
    else
        worker_job_destroy(job);
    return status;
}

void worker_job_leave(struct worker_job *job)
{
    platform_mutex_lock(&job->lock);
    if (job->is_ready && !job->leaves)
        worker_leave(&job->state);
    job->leaves = true;
    if (job->is_ready)
        worker_send(job);
    platform_condition_wake_all(&job->changed);
    platform_mutex_unlock(&job->lock);
}

void worker_job_drop(struct worker_job *job)
{
    platform_mutex_lock(&job->lock);
    job->is_gone = true;
    platform_condition_wake_all(&job->changed);
    platform_mutex_unlock(&job->lock);
}

bool worker_job_has_ended(struct worker_job *job)
{
    platform_mutex_lock(&job->lock);
    bool has = job->has_ended;
    platform_mutex_unlock(&job->lock);
    return has;
}

bool worker_job_is_worth_another(struct worker_job *job)
{
    platform_mutex_lock(&job->lock);
    bool is =
        job->has_ended && job->may_begin_again && platform_clock_ns() - job->ended_ns >= ENDED_NS;
    platform_mutex_unlock(&job->lock);
    return is;
}

bool worker_job_is_refused(struct worker_job *job)
{
    platform_mutex_lock(&job->lock);
    bool is = job->is_refused;
    platform_mutex_unlock(&job->lock);
    return is;
}

void worker_job_destroy(struct worker_job *job)
{
    if (!job)
        return;
    platform_thread_join(&job->thread);
    job->worker->cluster->transport->unlisten(job->answers);
    for (size_t i = 0; i < MUSTER_ARGS_MAX; i++) {
        if (job->tables[i].generation != 0)
            (void)muster_data_destroy(job->worker->m, job->tables[i], NULL);
        if (!job->is_stuck)
            free(job->table_bytes[i]);
    }
    muster_kernel_destroy(job->kernel);
    /* What is stuck may still come back, until the runtime is closed: it finds what it was given. */
    if (job->is_stuck)
        return;
    if (job->in >= 0)
        close(job->in);
    if (job->out >= 0)
        close(job->out);
    free(job->grain);
    if (job->has_changed)
        platform_condition_deinit(&job->changed);
    if (job->has_lock)
        platform_mutex_deinit(&job->lock);
    free(job);
}
