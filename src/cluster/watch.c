/*
 * How jobs go: what a submitter knows of its own, and what the servers know of all.
 */
#include "cluster/submitter.h"

#include "base/layout.h"

#include <muster/backend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PING_NS UINT64_C(500000000)
#define PINGS 4

const char *muster_cluster_job_name(const struct muster_cluster_job *job)
{
    return job->manifest.name;
}

muster_status muster_cluster_wait(struct muster_cluster_job *job, uint64_t timeout_ns,
                                  struct muster_error *err)
{
    uint64_t deadline = platform_deadline_ns(timeout_ns);
    platform_mutex_lock(&job->lock);
    while (!job->is_over && platform_condition_wait(&job->changed, &job->lock, deadline))
        ;
    bool is_over = job->is_over;
    struct muster_error error = job->error;
    platform_mutex_unlock(&job->lock);
    if (!is_over)
        return muster_error_fill(err, MUSTER_E_TIMEOUT, 0, NULL, "the job is not over yet");
    if (error.status != MUSTER_OK && err)
        *err = error;
    return error.status;
}

static uint64_t items_of(const struct manifest *m, uint64_t grains)
{
    return grains >= manifest_grains(m) ? m->items : grains * m->grain;
}

muster_status muster_cluster_progress(struct muster_cluster_job *job,
                                      struct muster_cluster_progress *progress,
                                      struct muster_error *err)
{
    muster_status status = layout_check_room(LAYOUT(muster_cluster_progress), progress, err);
    if (status != MUSTER_OK)
        return status;
    struct fleet_counts counts;
    platform_mutex_lock(&job->lock);
    fleet_counts(job->fleet, &counts);
    uint64_t now = job->is_over ? job->ended_ns : platform_clock_ns();
    uint64_t stall = job->is_over ? 0 : now - job->delivered_ns;
    struct muster_cluster_progress filled = {
        .items = job->manifest.items,
        .delivered = items_of(&job->manifest, fleet_delivered_until(job->fleet)),
        .begin = items_of(&job->manifest, job->begin),
        .elapsed_ns = now - job->started_ns,
        .machines = fleet_workers(job->fleet),
        .claims = counts.claims,
        .reruns = fleet_retries(job->fleet),
        .lost_machines = counts.lost,
        .stall_ns = stall > job->stall_ns ? stall : job->stall_ns,
        .is_over = job->is_over,
        .refusals = job->refusals,
    };
    memcpy(filled.refusal, job->refusal, sizeof filled.refusal);
    platform_mutex_unlock(&job->lock);
    layout_write(LAYOUT(muster_cluster_progress), progress, &filled);
    return MUSTER_OK;
}

/* What a worker has told of itself: "HOST JOBS DEVICES". */
static bool read_worker(struct muster_cluster *cluster, const char *id,
                        struct muster_cluster_machine *out)
{
    struct transport_message message;
    char text[512], host[64];
    unsigned jobs = 0;
    int at = 0;
    if (cluster->transport->get(cluster->link, CLUSTER_WORKERS, id, &message, NULL) != MUSTER_OK)
        return false;
    size_t bytes = message.size < sizeof text - 1 ? message.size : sizeof text - 1;
    memcpy(text, message.bytes, bytes);
    text[bytes] = '\0';
    cluster->transport->release(&message);
    if (sscanf(text, "%63s %u %n", host, &jobs, &at) < 2)
        return false;
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
    *out = (struct muster_cluster_machine){ .jobs = jobs };
    snprintf(out->id, sizeof out->id, "%s", id);
    snprintf(out->host, sizeof out->host, "%s", host);
    snprintf(out->devices, sizeof out->devices, "%.255s", text + at);
    return true;
}

muster_status muster_cluster_shares(struct muster_cluster_job *job,
                                    struct muster_cluster_share *out, size_t capacity,
                                    size_t *count, struct muster_error *err)
{
    muster_status status =
        capacity > 0 ? layout_check_rooms(LAYOUT(muster_cluster_share), out, capacity, err)
                     : MUSTER_OK;
    size_t found = 0;
    for (uint32_t i = 0; status == MUSTER_OK && i < SUBMITTER_LANES; i++) {
        struct fleet_lane lane;
        platform_mutex_lock(&job->lock);
        uint64_t now = platform_clock_ns();
        fleet_lane(job->fleet, i, now, &lane);
        uint64_t elapsed = now - job->started_ns;
        platform_mutex_unlock(&job->lock);
        if (lane.worker == 0)
            continue;
        struct muster_cluster_share share = { .items = items_of(&job->manifest, lane.report.items),
                                              .silent_ns = lane.silent_ns };
        struct muster_cluster_machine machine;
        snprintf(share.id, sizeof share.id, "%016llx", (unsigned long long)lane.worker);
        share.items_per_s = elapsed > 0 ? (double)share.items * 1e9 / (double)elapsed : 0;
        if (found < capacity && read_worker(job->cluster, share.id, &machine))
            memcpy(share.host, machine.host, sizeof share.host);
        if (found < capacity)
            layout_write_at(LAYOUT(muster_cluster_share), out, found, &share);
        found++;
    }
    if (status == MUSTER_OK)
        *count = found;
    return status;
}

void muster_cluster_job_destroy(struct muster_cluster_job *job)
{
    if (!job)
        return;
    cluster_feed_stop(job);
    free(job);
}

/* All jobs. */

/* A submitter may be slow to answer; where nobody listens the server says so at once. */
static bool is_fed(struct muster_cluster *cluster, const char *name)
{
    struct transport_message message;
    char subject[TRANSPORT_SUBJECT_BYTES];
    muster_status status = MUSTER_E_TIMEOUT;
    cluster_subject(name, "ping", subject);
    for (int i = 0; i < PINGS && status == MUSTER_E_TIMEOUT; i++)
        status = cluster->transport->ask(cluster->link, subject, "", 0, PING_NS, &message, NULL);
    if (status == MUSTER_OK)
        cluster->transport->release(&message);
    return status == MUSTER_OK;
}

muster_status muster_cluster_cancel(struct muster_cluster *cluster, const char *name,
                                    struct muster_error *err)
{
    struct manifest *m = malloc(sizeof *m);
    char key[CLUSTER_KEY_BYTES];
    if (!m)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a job");
    muster_status status = cluster_manifest(cluster, name, m, err);
    if (status == MUSTER_OK) {
        cluster_cancel_key(name, key);
        status = cluster->transport->put(cluster->link, CLUSTER_JOBS, key, "1", 1, err);
    }
    /* Nobody would see it. */
    if (status == MUSTER_OK && !is_fed(cluster, name)) {
        struct cluster_output output;
        struct cluster_notes notes = { .epoch = 0 };
        if (*m->out_part && output_open(&output, m->out_part, m->out_bytes, NULL) == MUSTER_OK)
            output_drop(&output);
        (void)cluster_notes(cluster, name, &notes, NULL);
        cluster_remove(cluster, m, notes.epoch);
    }
    free(m);
    return status;
}

struct listing {
    struct muster_cluster *cluster;
    struct muster_cluster_entry *entries;
    struct muster_cluster_machine *machines;
    size_t capacity, count;
};

static void add_entry(void *user, const char *name)
{
    struct listing *list = user;
    struct manifest *m = malloc(sizeof *m);
    struct cluster_notes notes;
    if (m && cluster_manifest(list->cluster, name, m, NULL) == MUSTER_OK &&
        cluster_notes(list->cluster, name, &notes, NULL) == MUSTER_OK) {
        if (list->count < list->capacity) {
            struct muster_cluster_entry entry = { .items = m->items,
                                                  .delivered = items_of(m, notes.grains),
                                                  .submitters =
                                                      (uint32_t)(notes.epoch - notes.is_over),
                                                  .is_fed = is_fed(list->cluster, name),
                                                  .is_cancelled =
                                                      cluster_is_cancelled(list->cluster, name) };
            memcpy(entry.name, m->name, sizeof entry.name);
            memcpy(entry.title, m->title, sizeof entry.title);
            memcpy(entry.user, m->user, sizeof entry.user);
            layout_write_at(LAYOUT(muster_cluster_entry), list->entries, list->count, &entry);
        }
        list->count++;
    }
    free(m);
}

muster_status muster_cluster_list(struct muster_cluster *cluster, struct muster_cluster_entry *out,
                                  size_t capacity, size_t *count, struct muster_error *err)
{
    struct listing list = { .cluster = cluster, .entries = out, .capacity = capacity };
    muster_status status =
        capacity > 0 ? layout_check_rooms(LAYOUT(muster_cluster_entry), out, capacity, err)
                     : MUSTER_OK;
    if (status == MUSTER_OK)
        status = cluster_each_job(cluster, add_entry, &list, err);
    if (status == MUSTER_OK)
        *count = list.count;
    return status;
}

struct ids {
    char (*list)[24];
    size_t count, capacity;
};

static void take_id(void *user, const char *key)
{
    struct ids *ids = user;
    if (ids->count < ids->capacity && strlen(key) < sizeof *ids->list)
        memcpy(ids->list[ids->count++], key, strlen(key) + 1);
}

muster_status muster_cluster_machines(struct muster_cluster *cluster,
                                      struct muster_cluster_machine *out, size_t capacity,
                                      size_t *count, struct muster_error *err)
{
    struct ids ids = { calloc(SUBMITTER_LANES, sizeof *ids.list), 0, SUBMITTER_LANES };
    muster_status status =
        capacity > 0 ? layout_check_rooms(LAYOUT(muster_cluster_machine), out, capacity, err)
                     : MUSTER_OK;
    if (status == MUSTER_OK && !ids.list)
        status = muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a list");
    if (status == MUSTER_OK)
        status = cluster->transport->keys(cluster->link, CLUSTER_WORKERS, take_id, &ids, err);
    size_t found = 0;
    for (size_t i = 0; status == MUSTER_OK && i < ids.count; i++) {
        struct muster_cluster_machine machine;
        if (!read_worker(cluster, ids.list[i], &machine))
            continue;
        if (found < capacity)
            layout_write_at(LAYOUT(muster_cluster_machine), out, found, &machine);
        found++;
    }
    free(ids.list);
    if (status == MUSTER_OK)
        *count = found;
    return status;
}
