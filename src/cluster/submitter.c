/*
 * Starting and ending a submitter, and the thread that answers the machines.
 */
#include "cluster/submitter.h"

#include <muster/backend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How long the answering thread waits for a message: what the core has due is done that late at most. */
#define ANSWER_WAIT_NS UINT64_C(50000000)
/* Parked answers that are sent at once. */
#define BATCH 64

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

struct answer {
    char subject[TRANSPORT_SUBJECT_BYTES];
    char text[WIRE_BYTES_MAX];
    size_t bytes;
};

static void print_answer(const struct wire_reply *reply, const char *subject, struct answer *out)
{
    snprintf(out->subject, sizeof out->subject, "%s", subject);
    out->bytes = wire_print_reply(reply, out->text);
}

/*
 * Only to inboxes, a request's own or what a server has put in its place: the process that asks could otherwise
 * have this submitter write where it may, and the asker may not.
 */
void cluster_answer(struct muster_cluster_job *job, const char *subject, const void *bytes,
                    size_t size)
{
    /* One that is lost is asked for again. */
    if (subject && (strncmp(subject, "_INBOX.", 7) == 0 || strncmp(subject, "_R_.", 4) == 0))
        (void)job->cluster->transport->send(job->cluster->link, subject, NULL, bytes, size, NULL);
}

static void send_answer(struct muster_cluster_job *job, const struct answer *answer)
{
    cluster_answer(job, answer->subject, answer->text, answer->bytes);
}

/* Sends the answers of claims that have waited; the process that calls holds no lock. */
static void send_parked(struct muster_cluster_job *job)
{
    static const char nowhere[] = "";
    struct answer *answers = calloc(BATCH, sizeof *answers);
    struct fleet_reply reply;
    size_t count = BATCH;
    while (answers && count == BATCH) {
        platform_mutex_lock(&job->lock);
        for (count = 0; count < BATCH && fleet_next_reply(job->fleet, platform_clock_ns(), &reply);
             count++) {
            bool has_place = reply.place < SUBMITTER_PLACES;
            print_answer(&reply.reply, has_place ? job->places[reply.place] : nowhere,
                         &answers[count]);
        }
        platform_mutex_unlock(&job->lock);
        for (size_t i = 0; i < count; i++)
            send_answer(job, &answers[i]);
    }
    free(answers);
}

static void take_request(struct muster_cluster_job *job, const struct transport_message *message)
{
    struct wire_request request;
    struct fleet_reply reply;
    struct answer answer = { .bytes = 0 };
    uint64_t version;
    if (wire_read_request(message->bytes, message->size, &request, &version) != WIRE_OK)
        return;
    platform_mutex_lock(&job->lock);
    switch (fleet_request(job->fleet, &request, platform_clock_ns(), &reply)) {
    case FLEET_ANSWERED:
        print_answer(&reply.reply, message->reply ? message->reply : "", &answer);
        break;
    case FLEET_PARKED:
        if (reply.place < SUBMITTER_PLACES)
            snprintf(job->places[reply.place], sizeof job->places[0], "%s",
                     message->reply ? message->reply : "");
        break;
    case FLEET_SILENT:
        break;
    }
    platform_condition_wake_all(&job->changed);
    platform_mutex_unlock(&job->lock);
    if (answer.bytes > 0)
        send_answer(job, &answer);
}

static void take_words(const struct transport_message *message, char *to, size_t room)
{
    size_t bytes = (size_t)lesser(message->size, room - 1);
    memcpy(to, message->bytes, bytes);
    to[bytes] = '\0';
    for (char *at = to; *at; at++)
        if ((unsigned char)*at < ' ')
            *at = ' ';
}

/* For people: what went wrong on a machine, or why it refuses the job, which wants to be answered. */
static void take_why(struct muster_cluster_job *job, const struct transport_message *message)
{
    platform_mutex_lock(&job->lock);
    if (message->reply) {
        take_words(message, job->refusal, sizeof job->refusal);
        job->refusals++;
    } else {
        take_words(message, job->why, sizeof job->why);
    }
    platform_mutex_unlock(&job->lock);
    if (message->reply)
        cluster_answer(job, message->reply, "ok", 2);
}

static void look(struct muster_cluster_job *job)
{
    bool is_up = job->cluster->transport->is_up(job->cluster->link);
    platform_mutex_lock(&job->lock);
    uint64_t now = platform_clock_ns();
    if (is_up != job->was_up)
        fleet_link(job->fleet, is_up, now);
    job->was_up = is_up;
    if (fleet_look_due(job->fleet) <= now)
        fleet_look(job->fleet, now);
    platform_mutex_unlock(&job->lock);
}

static bool is_ending(struct muster_cluster_job *job)
{
    platform_mutex_lock(&job->lock);
    bool is = job->is_ending;
    platform_mutex_unlock(&job->lock);
    return is;
}

static void answer_all(void *user)
{
    struct muster_cluster_job *job = user;
    const struct transport *t = job->cluster->transport;
    struct transport_message message;
    while (!is_ending(job)) {
        if (t->next(job->control, ANSWER_WAIT_NS, &message) == MUSTER_OK) {
            const char *what = strrchr(message.subject, '.');
            if (what && strcmp(what, ".ask") == 0)
                take_request(job, &message);
            else if (what && strcmp(what, ".why") == 0)
                take_why(job, &message);
            else if (what && strcmp(what, ".ping") == 0)
                cluster_answer(job, message.reply, "here", 4);
            t->release(&message);
        } else if (!t->is_up(job->cluster->link)) {
            cluster_pause(ANSWER_WAIT_NS);
        }
        look(job);
        send_parked(job);
    }
}

/* Starting. */

static muster_status make_fleet(struct muster_cluster_job *job, struct muster_error *err)
{
    const struct fleet_options options = { .grains = manifest_grains(&job->manifest),
                                           .begin = job->begin,
                                           .window = job->manifest.window,
                                           .unit_ns = SUBMITTER_PIECE_NS,
                                           .lane_count = SUBMITTER_LANES,
                                           .slots = SUBMITTER_SLOTS,
                                           .tries = job->manifest.tries,
                                           .epoch = job->epoch };
    size_t bytes = fleet_bytes(&options);
    void *memory = bytes > 0 ? aligned_alloc(64, (bytes + 63) / 64 * 64) : NULL;
    job->places = calloc(SUBMITTER_PLACES, sizeof *job->places);
    if (!memory || !job->places) {
        free(memory);
        return muster_error_fill(err, bytes > 0 ? MUSTER_E_NO_MEMORY : MUSTER_E_INVALID, 0, NULL,
                                 bytes > 0 ? "no memory for a job of %llu grains"
                                           : "a job of %llu grains cannot be",
                                 (unsigned long long)options.grains);
    }
    job->fleet = fleet_init(memory, &options, platform_clock_ns());
    return MUSTER_OK;
}

/* What submitters before this one have left in the store: within the window of what was delivered. */
static muster_status note_stored(struct muster_cluster_job *job, struct muster_error *err)
{
    const struct transport *t = job->cluster->transport;
    uint64_t grains = manifest_grains(&job->manifest);
    uint64_t end = lesser(grains, job->begin + job->manifest.window);
    char stream[CLUSTER_KEY_BYTES], subject[TRANSPORT_SUBJECT_BYTES];
    struct transport_message message;
    uint64_t patience = platform_deadline_ns(CLUSTER_PATIENCE_NS);
    muster_status status = MUSTER_OK;
    cluster_result_stream(job->manifest.name, stream);
    for (uint64_t grain = job->begin; job->epoch > 1 && grain < end && status == MUSTER_OK;
         grain++) {
        cluster_result_subject(job->manifest.name, grain, subject);
        muster_status found;
        do
            found = t->fetch(job->cluster->link, stream, subject, &message, err);
        while (cluster_again(job->cluster, found, patience));
        if (found == MUSTER_OK) {
            const struct muster_range one = { grain, grain + 1 };
            fleet_note_stored(job->fleet, one, platform_clock_ns());
            t->release(&message);
        } else if (found != MUSTER_E_NOT_FOUND) {
            status = found;
        }
    }
    return status;
}

static muster_status listen_to(struct muster_cluster_job *job, const char *subject,
                               struct transport_listen **out, struct muster_error *err)
{
    uint64_t patience = platform_deadline_ns(CLUSTER_PATIENCE_NS);
    muster_status status;
    do
        status = job->cluster->transport->listen(job->cluster->link, subject, out, err);
    while (cluster_again(job->cluster, status, patience));
    return status;
}

static muster_status start_threads(struct muster_cluster_job *job, struct muster_error *err)
{
    char subject[TRANSPORT_SUBJECT_BYTES];
    cluster_subject(job->manifest.name, "*", subject);
    muster_status status = listen_to(job, subject, &job->control, err);
    snprintf(subject, sizeof subject, "muster.i.%s", job->manifest.name);
    if (status == MUSTER_OK)
        status = listen_to(job, subject, &job->input, err);
    if (status == MUSTER_OK)
        status = platform_thread_start(&job->answering, answer_all, job, "fleet", NULL, err);
    if (status == MUSTER_OK)
        status =
            platform_thread_start(&job->delivering, cluster_deliver, job, "fleet-out", NULL, err);
    if (status == MUSTER_OK)
        status = platform_thread_start(&job->giving, cluster_give, job, "fleet-in", NULL, err);
    return status;
}

muster_status cluster_feed_start(struct muster_cluster_job *job, struct muster_error *err)
{
    job->was_up = true;
    job->noted = job->begin;
    job->started_ns = job->delivered_ns = job->seen_ns = platform_clock_ns();
    muster_status status = platform_mutex_init(&job->lock, err);
    job->has_lock = status == MUSTER_OK;
    if (status == MUSTER_OK)
        status = platform_condition_init(&job->changed, err);
    job->has_changed = status == MUSTER_OK;
    if (status == MUSTER_OK)
        status = make_fleet(job, err);
    if (status == MUSTER_OK)
        status = note_stored(job, err);
    if (status == MUSTER_OK)
        status = start_threads(job, err);
    /* Machines look at once, and those that wait for a submitter ask again. */
    if (status == MUSTER_OK)
        (void)job->cluster->transport->send(job->cluster->link, CLUSTER_WAKE, NULL, "", 0, NULL);
    else
        cluster_feed_stop(job);
    return status;
}

void cluster_feed_stop(struct muster_cluster_job *job)
{
    if (job->has_lock && job->has_changed) {
        platform_mutex_lock(&job->lock);
        job->is_ending = true;
        platform_condition_wake_all(&job->changed);
        platform_mutex_unlock(&job->lock);
    }
    platform_thread_join(&job->giving);
    platform_thread_join(&job->delivering);
    platform_thread_join(&job->answering);
    job->cluster->transport->unlisten(job->control);
    job->cluster->transport->unlisten(job->input);
    job->control = job->input = NULL;
    output_close(&job->output);
    if (job->in >= 0)
        close(job->in);
    job->in = -1;
    if (job->has_changed)
        platform_condition_deinit(&job->changed);
    if (job->has_lock)
        platform_mutex_deinit(&job->lock);
    job->has_lock = job->has_changed = false;
    free(job->fleet);
    free(job->places);
    job->fleet = NULL;
    job->places = NULL;
}
