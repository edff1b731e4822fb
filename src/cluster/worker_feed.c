/*
 * The local job's two ends: runs that were claimed become items of its source, what its sink is given
 * is stored grain by grain.
 */
#include "cluster/worker.h"

#include "core/grains.h"

#include <errno.h>
#include <muster/backend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAIT_NS UINT64_C(1000000000)
#define ASK_NS UINT64_C(2000000000)
/* A store that refuses for so long is worth a word. */
#define SAY_NS UINT64_C(5000000000)

void worker_send(struct worker_job *job)
{
    struct wire_request request;
    char text[WIRE_BYTES_MAX], reply[TRANSPORT_SUBJECT_BYTES + 24];
    while (worker_next_request(&job->state, platform_clock_ns(), &request)) {
        uint64_t number = job->asked_count++;
        job->asked[number % WORKER_ASKED_MAX] = request;
        size_t bytes = wire_print_request(&request, text);
        snprintf(reply, sizeof reply, "%s.%llu", job->inbox, (unsigned long long)number);
        /* What does not arrive is asked again. */
        (void)job->worker->cluster->transport->send(job->worker->cluster->link, job->ask, reply,
                                                    text, bytes, NULL);
    }
}

bool worker_is_done(const struct worker_job *job)
{
    enum wire_end end;
    return job->is_gone || worker_is_over(&job->state, &end) || worker_is_gone(&job->state);
}

static struct worker_piece *piece_at(struct worker_job *job, uint64_t index)
{
    return &job->pieces[index % WORKER_PIECES_MAX];
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The piece whose items are given next; NULL: there is none now. With the lock. */
static struct worker_piece *next_piece(struct worker_job *job)
{
    uint32_t slot;
    struct muster_range grains;
    struct worker_piece *last = job->count > 0 ? piece_at(job, job->first + job->count - 1) : NULL;
    if (last && last->given < last->items.end - last->items.begin)
        return last;
    while (worker_next_run(&job->state, &slot, &grains)) {
        if (worker_should_drop(&job->state, slot)) {
            worker_failed(&job->state, slot, WIRE_CLASS_BACK, WIRE_NO_GRAIN, platform_clock_ns());
            worker_send(job);
            continue;
        }
        struct worker_piece *piece = piece_at(job, job->first + job->count++);
        *piece = (struct worker_piece){ .slot = slot,
                                        .grains = grains,
                                        .items = grains_items(job->manifest.items,
                                                              job->manifest.grain, grains),
                                        .local = job->local_items };
        return piece;
    }
    return NULL;
}

/* Whether nothing more will come: the local job ends when all that it has is stored. */
static bool is_at_end(const struct worker_job *job)
{
    return worker_is_done(job) || (job->state.leaves && worker_used(&job->state) == job->count);
}

/* Items that the submitter gives, a message at a time. */
static muster_status ask_items(struct worker_job *job, uint64_t begin, uint64_t items, char *to,
                               struct muster_error *err)
{
    const struct transport *t = job->worker->cluster->transport;
    const struct manifest *m = &job->manifest;
    size_t payload = t->payload_max(job->worker->cluster->link);
    uint64_t most = (payload - CLUSTER_MESSAGE_BYTES) / m->item_bytes;
    char subject[TRANSPORT_SUBJECT_BYTES], text[64];
    struct transport_message message;
    snprintf(subject, sizeof subject, "muster.i.%s", m->name);
    if (most == 0)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "mount the storage on this machine",
                                 "items of %llu bytes come from shared storage alone",
                                 (unsigned long long)m->item_bytes);
    while (items > 0) {
        uint64_t count = lesser(items, most), size = count * m->item_bytes;
        snprintf(text, sizeof text, "%llu %llu", (unsigned long long)begin,
                 (unsigned long long)count);
        muster_status status =
            t->ask(job->worker->cluster->link, subject, text, strlen(text), ASK_NS, &message, err);
        platform_mutex_lock(&job->lock);
        bool is_over = worker_is_done(job);
        platform_mutex_unlock(&job->lock);
        if (status != MUSTER_OK && is_over)
            return MUSTER_E_CANCELLED;
        if (status != MUSTER_OK) {
            /* The submitter is gone; the next one gives them. */
            cluster_pause(CLUSTER_RETRY_NS);
            continue;
        }
        bool is_good = message.size == size + 1 && message.bytes[0] == '+';
        if (is_good)
            memcpy(to, message.bytes + 1, size);
        else
            muster_error_fill(err, MUSTER_E_IO, 0, NULL, "the submitter gives no input: %.*s",
                              message.size > 1 && message.size < 200 ? (int)message.size - 1 : 0,
                              message.size > 1 ? message.bytes + 1 : "");
        t->release(&message);
        if (!is_good)
            return MUSTER_E_IO;
        begin += count;
        items -= count;
        to += size;
    }
    return MUSTER_OK;
}

muster_status worker_read(struct worker_job *job, uint64_t begin, uint64_t items, void *to,
                          struct muster_error *err)
{
    const struct manifest *m = &job->manifest;
    return job->in >= 0 ? shared_read(job->in, m->in_offset + begin * m->item_bytes, to,
                                      (size_t)(items * m->item_bytes), err)
                        : ask_items(job, begin, items, to, err);
}

/* Whether the local job wants anything: it goes on, and is not one that was given up. With the lock. */
static bool is_ours(const struct worker_run *run)
{
    return run->job->run == run && !run->is_failing;
}

int64_t worker_source(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    struct worker_run *run = user;
    struct worker_job *job = run->job;
    struct worker_piece *piece = NULL;
    struct muster_error error;
    (void)begin, (void)bytes;
    platform_mutex_lock(&job->lock);
    while (is_ours(run) && !is_at_end(job) && !(piece = next_piece(job)))
        platform_condition_wait(&job->changed, &job->lock, platform_deadline_ns(WAIT_NS));
    if (!piece) {
        bool is_end = is_ours(run);
        platform_mutex_unlock(&job->lock);
        return is_end ? 0 : MUSTER_E_CANCELLED;
    }
    uint64_t at = piece->items.begin + piece->given;
    uint64_t count = lesser(items, piece->items.end - at);
    platform_mutex_unlock(&job->lock);
    muster_status status = worker_read(job, at, count, to, &error);
    platform_mutex_lock(&job->lock);
    if (job->run != run) {
        status = MUSTER_E_CANCELLED;
    } else if (status == MUSTER_OK) {
        piece->given += count;
        job->local_items += count;
    } else if (status != MUSTER_E_CANCELLED) {
        job->problem = error;
    }
    platform_mutex_unlock(&job->lock);
    return status == MUSTER_OK ? (int64_t)count : (int64_t)status;
}

/* Storing. */

static bool is_unwanted(struct worker_job *job)
{
    platform_mutex_lock(&job->lock);
    bool is = worker_is_done(job);
    platform_mutex_unlock(&job->lock);
    return is;
}

/* For as long as the job runs: servers fail over, and a full stream is emptied as results leave. */
static muster_status store_grain(struct worker_job *job, uint64_t grain, const void *bytes,
                                 size_t size)
{
    const struct transport *t = job->worker->cluster->transport;
    char subject[TRANSPORT_SUBJECT_BYTES];
    struct muster_error error;
    uint64_t say_due = platform_deadline_ns(SAY_NS);
    cluster_result_subject(job->name, grain, subject);
    for (;;) {
        muster_status status = t->store(job->worker->cluster->link, subject, bytes, size, &error);
        /* Somebody was first: the grain is stored. */
        if (status == MUSTER_OK || status == MUSTER_E_BUSY)
            return MUSTER_OK;
        if (is_unwanted(job))
            return MUSTER_E_CANCELLED;
        if (platform_clock_ns() >= say_due) {
            worker_say(job->worker, "%s: waiting for the store: %s", job->name, error.text);
            say_due = platform_deadline_ns(SAY_NS);
        }
        cluster_pause(CLUSTER_RETRY_NS);
    }
}

/* All its results lie in the output's file: once they are on the disk, others may know. */
static muster_status commit_piece(struct worker_job *job, const struct worker_piece *piece)
{
    if (fdatasync(job->out) != 0) {
        job->has_no_room = true;
        return muster_error_fill(&job->problem, MUSTER_E_IO, errno, NULL,
                                 "writing the output failed: %s", strerror(errno));
    }
    muster_status status = MUSTER_OK;
    for (uint64_t grain = piece->grains.begin; grain < piece->grains.end && status == MUSTER_OK;
         grain++)
        status = store_grain(job, grain, "", 0);
    return status;
}

/* Items [from, to) of the piece, counted from its first. */
static muster_status take_items(struct worker_job *job, const struct worker_piece *piece,
                                uint64_t from, uint64_t to, const char *bytes)
{
    const struct manifest *m = &job->manifest;
    uint64_t item = m->out_item_bytes, at = piece->items.begin + from,
             end = piece->items.begin + to;
    if (job->out >= 0) {
        muster_status written = shared_write(job->out, m->out_offset + at * item, bytes,
                                             (size_t)((to - from) * item), &job->problem);
        job->has_no_room = job->has_no_room || written != MUSTER_OK;
        return written;
    }
    muster_status status = MUSTER_OK;
    while (at < end && status == MUSTER_OK) {
        uint64_t grain = at / m->grain;
        struct muster_range items = manifest_grain(m, grain);
        uint64_t stop = lesser(end, items.end);
        size_t size = (size_t)((items.end - items.begin) * item);
        if (at == items.begin && stop == items.end) {
            status = store_grain(job, grain, bytes, size);
        } else {
            memcpy(job->grain + (at - items.begin) * item, bytes, (size_t)((stop - at) * item));
            if (stop == items.end)
                status = store_grain(job, grain, job->grain, size);
        }
        bytes += (stop - at) * item;
        at = stop;
    }
    return status;
}

static void end_piece(struct worker_job *job)
{
    platform_mutex_lock(&job->lock);
    struct worker_piece *piece = piece_at(job, job->first);
    worker_stored(&job->state, piece->slot, platform_clock_ns());
    job->first++;
    job->count--;
    worker_send(job);
    platform_condition_wake_all(&job->changed);
    platform_mutex_unlock(&job->lock);
}

muster_status worker_sink(void *user, const struct muster_result *result)
{
    struct worker_run *run = user;
    struct worker_job *job = run->job;
    const char *bytes = result->outputs[0];
    uint64_t at = result->range.begin;
    muster_status status = MUSTER_OK;
    while (at < result->range.end && status == MUSTER_OK) {
        platform_mutex_lock(&job->lock);
        struct worker_piece *piece = piece_at(job, job->first);
        bool is_current = job->run == run && job->count > 0 && at >= piece->local &&
                          at - piece->local < piece->items.end - piece->items.begin;
        platform_mutex_unlock(&job->lock);
        if (!is_current)
            return MUSTER_E_CANCELLED;
        uint64_t whole = piece->items.end - piece->items.begin;
        uint64_t from = at - piece->local;
        uint64_t to = lesser(result->range.end - piece->local, whole);
        status = take_items(job, piece, from, to, bytes);
        bytes += (to - from) * job->manifest.out_item_bytes;
        at = piece->local + to;
        if (status == MUSTER_OK && to == whole && job->out >= 0)
            status = commit_piece(job, piece);
        if (status == MUSTER_OK && to == whole)
            end_piece(job);
    }
    return status;
}
