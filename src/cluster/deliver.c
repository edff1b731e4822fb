/*
 * The submitter's second thread: takes results from the store in order, writes them, notes how far the
 * output is durable, purges what was noted, and ends the job.
 *
 * Order matters. A result is purged only after the note that covers it is stored, and that note only
 * after the output's bytes are on the disk: the process that resumes the job finds each grain in one or the
 * other. A job's end is noted in the place of the next epoch, so that no newer submitter can begin,
 * before the output is put in its place and before anything is removed. Where the output has no room the
 * job stays as it is, to be resumed.
 */
#include "cluster/submitter.h"

#include <muster/backend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_NS UINT64_C(100000000)
/* How often the progress is noted, and others' words are looked for. */
#define NOTE_NS UINT64_C(500000000)
/* Grains that leave between two looks at the job. */
#define BATCH_GRAINS 64
/* A description that is not found for so long is not hidden by servers that come up: it was removed. */
#define REMOVED_NS UINT64_C(5000000000)
/* Answers that the machines may still ask for when the job is over. */
#define FAREWELL_NS UINT64_C(100000000)

static enum fleet_state state_of(struct muster_cluster_job *job, bool *is_ending)
{
    platform_mutex_lock(&job->lock);
    enum fleet_state state = fleet_state(job->fleet);
    *is_ending = job->is_ending;
    platform_mutex_unlock(&job->lock);
    return state;
}

static bool may_go_on(struct muster_cluster_job *job)
{
    bool is_ending;
    return state_of(job, &is_ending) == FLEET_RUNNING && !is_ending;
}

static void fail(struct muster_cluster_job *job, const struct muster_error *error)
{
    platform_mutex_lock(&job->lock);
    if (job->error.status == MUSTER_OK)
        job->error = *error;
    fleet_fail(job->fleet);
    platform_mutex_unlock(&job->lock);
}

/* The output takes no more: this submitter leaves, and the job waits for one that finds room. */
static void suspend(struct muster_cluster_job *job, const struct muster_error *error)
{
    platform_mutex_lock(&job->lock);
    if (job->error.status == MUSTER_OK)
        muster_error_fill(
            &job->error, error->status, error->driver_code,
            "nothing is lost: make room, then: muster jobs resume JOB (or cancel JOB)", "%.200s",
            error->text);
    job->is_suspended = true;
    fleet_supersede(job->fleet);
    platform_mutex_unlock(&job->lock);
}

/* A grain's bytes to where they belong; none: a machine has written them into the file itself. */
static muster_status put_grain(struct muster_cluster_job *job, uint64_t grain,
                               const struct transport_message *message, struct muster_error *err)
{
    const struct manifest *m = &job->manifest;
    struct muster_range items = manifest_grain(m, grain);
    uint64_t bytes = (items.end - items.begin) * m->out_item_bytes;
    if (message->size == 0 && *m->out_part)
        return MUSTER_OK;
    if (message->size != bytes)
        return muster_error_fill(err, MUSTER_E_IO, 0, NULL,
                                 "the result of items %llu to %llu has %zu bytes instead of %llu",
                                 (unsigned long long)items.begin, (unsigned long long)items.end,
                                 message->size, (unsigned long long)bytes);
    if (*m->out_path)
        return shared_write(job->output.descriptor, m->out_offset + items.begin * m->out_item_bytes,
                            message->bytes, message->size, err);
    muster_status status =
        job->sink(job->user, items.begin, items.end - items.begin, message->bytes);
    return status == MUSTER_OK
               ? MUSTER_OK
               : muster_error_fill(err, status, 0, NULL, "the sink refused items %llu to %llu",
                                   (unsigned long long)items.begin, (unsigned long long)items.end);
}

/* Fetches one, for as long as the job runs. MUSTER_E_NOT_FOUND: the store has lost it. */
static muster_status fetch_grain(struct muster_cluster_job *job, uint64_t grain,
                                 struct transport_message *message)
{
    char stream[CLUSTER_KEY_BYTES], subject[TRANSPORT_SUBJECT_BYTES];
    cluster_result_stream(job->manifest.name, stream);
    cluster_result_subject(job->manifest.name, grain, subject);
    muster_status status = MUSTER_E_TIMEOUT;
    while (status != MUSTER_OK && status != MUSTER_E_NOT_FOUND) {
        status = job->cluster->transport->fetch(job->cluster->link, stream, subject, message, NULL);
        if (status == MUSTER_OK || status == MUSTER_E_NOT_FOUND)
            break;
        if (!may_go_on(job))
            return MUSTER_E_CANCELLED;
        cluster_pause(CLUSTER_RETRY_NS);
    }
    return status;
}

/* Grains from range.begin on, a batch at most. */
static void deliver_range(struct muster_cluster_job *job, struct muster_range range)
{
    struct muster_error error;
    uint64_t count = 0;
    muster_status status = MUSTER_OK;
    while (count < BATCH_GRAINS && range.begin + count < range.end) {
        struct transport_message message;
        uint64_t grain = range.begin + count;
        status = fetch_grain(job, grain, &message);
        if (status != MUSTER_OK)
            break;
        status = put_grain(job, grain, &message, &error);
        job->cluster->transport->release(&message);
        if (status != MUSTER_OK && job->output.descriptor >= 0)
            suspend(job, &error);
        else if (status != MUSTER_OK)
            fail(job, &error);
        if (status != MUSTER_OK)
            return;
        count++;
    }
    platform_mutex_lock(&job->lock);
    uint64_t now = platform_clock_ns();
    if (count > 0) {
        uint64_t stall = now - job->delivered_ns;
        job->stall_ns = stall > job->stall_ns ? stall : job->stall_ns;
        job->delivered_ns = now;
        fleet_delivered(job->fleet, count, now);
    } else if (status == MUSTER_E_NOT_FOUND) {
        fleet_missing(job->fleet, 1, now);
    }
    platform_mutex_unlock(&job->lock);
}

static bool next_range(struct muster_cluster_job *job, struct muster_range *range)
{
    platform_mutex_lock(&job->lock);
    bool has_one = fleet_state(job->fleet) == FLEET_RUNNING && fleet_next_result(job->fleet, range);
    if (!has_one && fleet_state(job->fleet) == FLEET_RUNNING && !job->is_ending)
        platform_condition_wait(&job->changed, &job->lock, platform_deadline_ns(WAIT_NS));
    platform_mutex_unlock(&job->lock);
    return has_one;
}

/* The note, and then the purge of whole blocks that it covers. */
static muster_status store_note(struct muster_cluster_job *job, uint64_t grains)
{
    const struct transport *t = job->cluster->transport;
    char key[CLUSTER_KEY_BYTES], note[CLUSTER_NOTE_BYTES], subject[TRANSPORT_SUBJECT_BYTES];
    cluster_epoch_key(job->manifest.name, job->epoch, key);
    cluster_note_text(job->cluster, grains, false, note);
    muster_status status = t->put(job->cluster->link, CLUSTER_JOBS, key, note, strlen(note), NULL);
    if (status != MUSTER_OK)
        return status;
    uint64_t from = job->noted / CLUSTER_BLOCK_GRAINS, to = grains / CLUSTER_BLOCK_GRAINS;
    cluster_result_stream(job->manifest.name, key);
    for (uint64_t block = from; block < to; block++) {
        cluster_block_subject(job->manifest.name, block, subject);
        /* What stays because of a lost answer goes with the stream. */
        (void)t->purge(job->cluster->link, key, subject, NULL);
    }
    job->noted = grains;
    return MUSTER_OK;
}

static void note_progress(struct muster_cluster_job *job)
{
    struct muster_error error;
    platform_mutex_lock(&job->lock);
    uint64_t delivered = fleet_delivered_until(job->fleet);
    platform_mutex_unlock(&job->lock);
    if (delivered <= job->noted)
        return;
    if (*job->manifest.out_path && output_sync(&job->output, &error) != MUSTER_OK)
        suspend(job, &error);
    else
        (void)store_note(job, delivered); /* tried again the next time */
}

/* Whether a newer submitter has the job; an answer that does not come is no. */
static bool is_followed(struct muster_cluster_job *job)
{
    struct transport_message message;
    char key[CLUSTER_KEY_BYTES];
    cluster_epoch_key(job->manifest.name, job->epoch + 1, key);
    if (job->cluster->transport->get(job->cluster->link, CLUSTER_JOBS, key, &message, NULL) !=
        MUSTER_OK)
        return false;
    job->cluster->transport->release(&message);
    return true;
}

/* Whether somebody has removed the job, who took it for one that nobody feeds. */
static bool is_removed(struct muster_cluster_job *job)
{
    struct transport_message message;
    muster_status status = job->cluster->transport->get(job->cluster->link, CLUSTER_JOBS,
                                                        job->manifest.name, &message, NULL);
    if (status == MUSTER_OK)
        job->cluster->transport->release(&message);
    if (status != MUSTER_E_NOT_FOUND)
        job->seen_ns = platform_clock_ns();
    return platform_clock_ns() - job->seen_ns >= REMOVED_NS;
}

static void listen_to_others(struct muster_cluster_job *job)
{
    bool has_newer = is_followed(job);
    bool is_cancelled =
        !has_newer && (cluster_is_cancelled(job->cluster, job->manifest.name) || is_removed(job));
    platform_mutex_lock(&job->lock);
    if (has_newer)
        fleet_supersede(job->fleet);
    else if (is_cancelled)
        fleet_cancel(job->fleet);
    platform_mutex_unlock(&job->lock);
}

/* Ends. */

static void name_failure(struct muster_cluster_job *job, struct muster_error *error)
{
    static const char *const classes[] = { "the kernel failed", "the kernel refused it",
                                           "no machine has the memory",
                                           "the result could not be stored", "it was given back" };
    struct fleet_failure failure;
    fleet_failure(job->fleet, &failure);
    const struct manifest *m = &job->manifest;
    struct muster_range items = grains_items(m->items, m->grain, failure.grains);
    const char *what = failure.is_loss ? "the machines died of it"
                       : (size_t)failure.class_ < sizeof classes / sizeof *classes
                           ? classes[failure.class_]
                           : "unknown";
    muster_error_fill(error, failure.is_loss ? MUSTER_E_CRASHED : MUSTER_E_FAILED, 0, NULL,
                      "items %llu to %llu failed: %.180s", (unsigned long long)items.begin,
                      (unsigned long long)items.end,
                      *job->why && !failure.is_loss ? job->why : what);
}

/*
 * The job's end is noted as the next epoch, which is then nobody's. MUSTER_E_BUSY: a newer submitter has
 * it. The process that finds the job without its file knows by this note that it is in its place.
 */
static muster_status note_end(struct muster_cluster_job *job, uint64_t grains)
{
    char key[CLUSTER_KEY_BYTES], note[CLUSTER_NOTE_BYTES];
    cluster_epoch_key(job->manifest.name, job->epoch + 1, key);
    cluster_note_text(job->cluster, grains, true, note);
    return job->cluster->transport->create(job->cluster->link, CLUSTER_JOBS, key, note,
                                           strlen(note), NULL);
}

/* Tried again until it is known, or the program ends. False: it ends. */
static bool note_end_for_sure(struct muster_cluster_job *job, uint64_t grains,
                              muster_status *status)
{
    bool is_ending = false;
    while ((*status = note_end(job, grains)) != MUSTER_OK && *status != MUSTER_E_BUSY) {
        (void)state_of(job, &is_ending);
        if (is_ending)
            return false;
        cluster_pause(CLUSTER_RETRY_NS);
    }
    return true;
}

static void say_stale(struct muster_cluster_job *job)
{
    muster_error_fill(&job->error, MUSTER_E_STALE, 0, NULL, "another submitter has taken the job");
}

/* All is delivered: into its place, unless another one has the job. False: the program ends. */
static bool finish_output(struct muster_cluster_job *job)
{
    struct muster_error error;
    muster_status status;
    if (job->output.descriptor >= 0 && output_sync(&job->output, &error) != MUSTER_OK) {
        suspend(job, &error);
        return true;
    }
    if (!note_end_for_sure(job, manifest_grains(&job->manifest), &status))
        return false;
    if (status == MUSTER_E_BUSY)
        say_stale(job);
    else if (job->output.descriptor >= 0 &&
             output_finish(&job->output, job->manifest.out_path, &error) != MUSTER_OK)
        suspend(job, &error);
    return true;
}

/* A job that failed or was cancelled: its end is noted before anything of it goes. */
static bool end_without_output(struct muster_cluster_job *job)
{
    muster_status status;
    if (!note_end_for_sure(job, job->noted, &status))
        return false;
    if (status == MUSTER_E_BUSY)
        say_stale(job);
    else
        output_drop(&job->output);
    return true;
}

static bool is_for_want_of_room(struct muster_cluster_job *job)
{
    struct fleet_failure failure;
    fleet_failure(job->fleet, &failure);
    return failure.grains.end > failure.grains.begin && !failure.is_loss &&
           failure.class_ == WIRE_CLASS_STORE;
}

static void end_with(struct muster_cluster_job *job, enum fleet_state state)
{
    struct muster_error error;
    platform_mutex_lock(&job->lock);
    bool is_named = job->error.status == MUSTER_OK && state == FLEET_FAILED;
    if (is_named)
        name_failure(job, &error);
    bool has_no_room = is_named && is_for_want_of_room(job);
    if (is_named && !has_no_room)
        job->error = error;
    platform_mutex_unlock(&job->lock);
    if (has_no_room)
        suspend(job, &error);
    platform_mutex_lock(&job->lock);
    if (state == FLEET_CANCELLED)
        muster_error_fill(&job->error, MUSTER_E_CANCELLED, 0, NULL, "the job was cancelled");
    else if (state == FLEET_SUPERSEDED && !job->is_suspended)
        say_stale(job);
    bool stays = job->is_suspended || job->error.status == MUSTER_E_STALE;
    platform_mutex_unlock(&job->lock);
    if (!stays && state != FLEET_DONE)
        stays = !end_without_output(job) || job->error.status == MUSTER_E_STALE;
    if (!stays) {
        /* Machines that ask meanwhile are told that it is over. */
        cluster_pause(FAREWELL_NS);
        cluster_remove(job->cluster, &job->manifest, job->epoch + 1);
    }
    platform_mutex_lock(&job->lock);
    job->is_over = true;
    job->ended_ns = platform_clock_ns();
    platform_condition_wake_all(&job->changed);
    platform_mutex_unlock(&job->lock);
}

void cluster_deliver(void *user)
{
    struct muster_cluster_job *job = user;
    struct muster_range range;
    uint64_t due = 0;
    bool is_ending = false;
    enum fleet_state state;
    while ((state = state_of(job, &is_ending)) == FLEET_RUNNING && !is_ending) {
        if (next_range(job, &range))
            deliver_range(job, range);
        if (platform_clock_ns() < due)
            continue;
        note_progress(job);
        listen_to_others(job);
        due = platform_deadline_ns(NOTE_NS);
    }
    if (state == FLEET_RUNNING)
        return; /* the submitter leaves, and the job stays */
    if (state == FLEET_DONE && !finish_output(job))
        return;
    end_with(job, state);
}
