/*
 * Items of the input for machines that cannot read it themselves: "BEGIN ITEMS" is answered with "+"
 * and the bytes, or with "-" and what went wrong.
 */
#include "cluster/submitter.h"

#include "base/text.h"

#include <muster/backend.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_NS UINT64_C(100000000)

muster_status cluster_read_input(struct muster_cluster_job *job, uint64_t begin, uint64_t items,
                                 void *to, struct muster_error *err)
{
    const struct manifest *m = &job->manifest;
    size_t bytes = (size_t)(items * m->item_bytes);
    if (job->in >= 0)
        return shared_read(job->in, m->in_offset + begin * m->item_bytes, to, bytes, err);
    if (!job->source)
        return muster_error_fill(err, MUSTER_E_NOT_FOUND, 0, NULL, "this submitter has no input");
    int64_t given = job->source(job->user, begin, items, to, bytes);
    if (given == (int64_t)items)
        return MUSTER_OK;
    return muster_error_fill(err, given < 0 ? (muster_status)given : MUSTER_E_IO, 0, NULL,
                             "the source did not give items %llu to %llu",
                             (unsigned long long)begin, (unsigned long long)(begin + items));
}

static bool read_request(const struct transport_message *message, uint64_t *begin, uint64_t *items)
{
    char text[64];
    if (message->size >= sizeof text)
        return false;
    memcpy(text, message->bytes, message->size);
    text[message->size] = '\0';
    char *space = strchr(text, ' ');
    if (!space)
        return false;
    *space = '\0';
    return text_parse_u64(text, begin) && text_parse_u64(space + 1, items);
}

static void give(struct muster_cluster_job *job, const struct transport_message *message,
                 char *room, size_t room_bytes)
{
    const struct manifest *m = &job->manifest;
    struct muster_error error = { .text = "" };
    uint64_t begin, items;
    size_t bytes = 1;
    if (!message->reply)
        return;
    if (!read_request(message, &begin, &items) || items == 0 || begin >= m->items ||
        items > m->items - begin || items > (room_bytes - 1) / m->item_bytes)
        muster_error_fill(&error, MUSTER_E_INVALID, 0, NULL, "no such items can be asked for");
    else if (cluster_read_input(job, begin, items, room + 1, &error) == MUSTER_OK)
        error.status = MUSTER_OK;
    if (error.status == MUSTER_OK) {
        room[0] = '+';
        bytes += (size_t)(items * m->item_bytes);
    } else {
        room[0] = '-';
        bytes += strlen(error.text);
        memcpy(room + 1, error.text, strlen(error.text));
    }
    cluster_answer(job, message->reply, room, bytes);
}

void cluster_give(void *user)
{
    struct muster_cluster_job *job = user;
    const struct transport *t = job->cluster->transport;
    struct transport_message message;
    size_t bytes = t->payload_max(job->cluster->link);
    char *room = malloc(bytes < CLUSTER_MESSAGE_BYTES ? CLUSTER_MESSAGE_BYTES : bytes);
    bool is_ending = !room;
    while (!is_ending) {
        if (t->next(job->input, WAIT_NS, &message) == MUSTER_OK) {
            give(job, &message, room, bytes);
            t->release(&message);
        } else if (!t->is_up(job->cluster->link)) {
            cluster_pause(WAIT_NS);
        }
        platform_mutex_lock(&job->lock);
        is_ending = job->is_ending;
        platform_mutex_unlock(&job->lock);
    }
    free(room);
}
