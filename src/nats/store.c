/*
 * Keys and values, and streams in which the first message of a subject wins.
 */
#include "link.h"

#include <stdio.h>
#include <string.h>

#define NS_PER_MS UINT64_C(1000000)

kvStore *link_store(struct transport_link *link, const char *bucket)
{
    kvStore *found = NULL;
    pthread_mutex_lock(&link->lock);
    for (size_t i = 0; i < link->store_count && !found; i++)
        if (strcmp(link->names[i], bucket) == 0)
            found = link->stores[i];
    pthread_mutex_unlock(&link->lock);
    return found;
}

static bool keep_store(struct transport_link *link, const char *bucket, kvStore *store)
{
    pthread_mutex_lock(&link->lock);
    bool has_room = link->store_count < LINK_BUCKETS_MAX;
    if (has_room) {
        snprintf(link->names[link->store_count], sizeof *link->names, "%s", bucket);
        link->stores[link->store_count++] = store;
    }
    pthread_mutex_unlock(&link->lock);
    return has_room;
}

muster_status store_bucket(struct transport_link *link, const struct transport_bucket *bucket,
                           struct muster_error *err)
{
    kvStore *store = NULL;
    kvConfig config;
    if (link_store(link, bucket->name))
        return MUSTER_OK;
    /* One that is there is taken as it is: it may have been made with other numbers of replicas. */
    natsStatus status = js_KeyValue(&store, link->js, bucket->name);
    if (status == NATS_NOT_FOUND) {
        kvConfig_Init(&config);
        config.Bucket = bucket->name;
        config.History = 1;
        config.TTL = (int64_t)bucket->ttl_ns;
        config.StorageType = bucket->is_memory ? js_MemoryStorage : js_FileStorage;
        config.Replicas = (int)link->replicas;
        status = js_CreateKeyValue(&store, link->js, &config);
        /* Another was quicker. */
        if (status != NATS_OK)
            status = js_KeyValue(&store, link->js, bucket->name);
        if (status == NATS_NOT_FOUND)
            return link_lacks(link, bucket->name, err);
    }
    if (status == NATS_OK && !keep_store(link, bucket->name, store)) {
        kvStore_Destroy(store);
        return link_error(err, MUSTER_E_CAPACITY, 0, NULL, "a link has at most %d buckets",
                          LINK_BUCKETS_MAX);
    }
    return link_judge(link, status, 0, bucket->name, err);
}

muster_status store_get(struct transport_link *link, const char *bucket, const char *key,
                        struct transport_message *out, struct muster_error *err)
{
    /* The client's own kvStore_Get gives an entry; the message under it can be kept as it is. */
    char stream[64], subject[TRANSPORT_SUBJECT_BYTES];
    struct transport_message message;
    snprintf(stream, sizeof stream, "KV_%s", bucket);
    snprintf(subject, sizeof subject, "$KV.%s.%s", bucket, key);
    muster_status status = store_fetch(link, stream, subject, &message, err);
    if (status != MUSTER_OK)
        return status;
    const char *operation = NULL;
    if (natsMsgHeader_Get(message.owner, "KV-Operation", &operation) == NATS_OK) {
        natsMsg_Destroy(message.owner);
        return link_error(err, MUSTER_E_NOT_FOUND, 0, NULL, "%s: no such key", key);
    }
    *out = message;
    return MUSTER_OK;
}

muster_status store_put(struct transport_link *link, const char *bucket, const char *key,
                        const void *bytes, size_t size, struct muster_error *err)
{
    return link_judge(link, kvStore_Put(NULL, link_store(link, bucket), key, bytes, (int)size), 0,
                      key, err);
}

muster_status store_create(struct transport_link *link, const char *bucket, const char *key,
                           const void *bytes, size_t size, struct muster_error *err)
{
    struct transport_message there;
    natsStatus status = kvStore_Create(NULL, link_store(link, bucket), key, bytes, (int)size);
    if (status == NATS_OK)
        return MUSTER_OK;
    /* The call does not tell "it exists" from "no answer", and a lost answer may have created it. */
    muster_status given = link_judge(link, status, 0, key, err);
    if (store_get(link, bucket, key, &there, NULL) != MUSTER_OK)
        return given;
    bool is_ours = there.size == size && memcmp(there.bytes, bytes, size) == 0;
    natsMsg_Destroy(there.owner);
    return is_ours ? MUSTER_OK
                   : link_error(err, MUSTER_E_BUSY, 0, NULL, "%s: the key is there already", key);
}

/* Without the marker that the client's own calls leave behind: names of jobs do not come again. */
muster_status store_remove(struct transport_link *link, const char *bucket, const char *key,
                           struct muster_error *err)
{
    char stream[64], subject[TRANSPORT_SUBJECT_BYTES];
    snprintf(stream, sizeof stream, "KV_%s", bucket);
    snprintf(subject, sizeof subject, "$KV.%s.%s", bucket, key);
    return store_purge(link, stream, subject, err);
}

muster_status store_keys(struct transport_link *link, const char *bucket,
                         void (*take)(void *user, const char *key), void *user,
                         struct muster_error *err)
{
    /*
     * The client's own call makes a consumer. Who may make one may have the server send what is stored to
     * any subject, whatever else is forbidden; what a stream has can be asked for without.
     */
    char stream[64], filter[64];
    jsOptions options;
    jsErrCode code = 0;
    jsStreamInfo *info = NULL;
    snprintf(stream, sizeof stream, "KV_%s", bucket);
    int prefix = snprintf(filter, sizeof filter, "$KV.%s.*", bucket) - 1;
    jsOptions_Init(&options);
    options.Wait = LINK_WAIT_MS;
    options.Stream.Info.SubjectsFilter = filter;
    natsStatus status = js_GetStreamInfo(&info, link->js, stream, &options, &code);
    const jsStreamStateSubjects *all = status == NATS_OK ? info->State.Subjects : NULL;
    for (int i = 0; all && i < all->Count; i++)
        take(user, all->List[i].Subject + prefix);
    jsStreamInfo_Destroy(info);
    return link_judge(link, status, code, bucket, err);
}

/* Streams. */

muster_status store_stream(struct transport_link *link, const struct transport_stream *stream,
                           struct muster_error *err)
{
    jsStreamConfig config;
    jsErrCode code = 0;
    const char *subjects[] = { stream->subjects };
    jsStreamConfig_Init(&config);
    config.Name = stream->name;
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    config.Storage = js_FileStorage;
    config.Discard = js_DiscardNew;
    config.Replicas = link->replicas;
    config.AllowDirect = true;
    config.MaxBytes = stream->bytes_max > 0 ? (int64_t)stream->bytes_max : -1;
    bool is_shared = stream->bytes_max == 0;
    natsStatus status = NATS_NOT_FOUND;
    /* What all jobs share is there but for the first time, and few may make it. */
    jsStreamInfo *info = NULL;
    if (is_shared)
        status = js_GetStreamInfo(&info, link->js, stream->name, NULL, &code);
    jsStreamInfo_Destroy(info);
    if (status == NATS_OK)
        return MUSTER_OK;
    if (status != NATS_NOT_FOUND && code != JSStreamNotFoundErr)
        return link_judge(link, status, code, stream->name, err);
    code = 0;
    status = js_AddStream(NULL, link->js, &config, NULL, &code);
    if (is_shared && link_judge(link, status, code, stream->name, err) == MUSTER_E_DENIED)
        return link_lacks(link, stream->name, err);
    /* It is there with other limits. */
    if (status != NATS_OK && code == JSStreamNameExistErr) {
        code = 0;
        status = js_UpdateStream(NULL, link->js, &config, NULL, &code);
    }
    return link_judge(link, status, code, stream->name, err);
}

muster_status store_stream_remove(struct transport_link *link, const char *name,
                                  struct muster_error *err)
{
    jsErrCode code = 0;
    natsStatus status = js_DeleteStream(link->js, name, NULL, &code);
    return link_judge(link, status, code, name, err);
}

muster_status store_store(struct transport_link *link, const char *subject, const void *bytes,
                          size_t size, struct muster_error *err)
{
    jsPubOptions options;
    jsErrCode code = 0;
    jsPubOptions_Init(&options);
    options.MaxWait = LINK_WAIT_MS;
    options.ExpectNoMessage = true;
    natsStatus status = js_Publish(NULL, link->js, subject, bytes, (int)size, &options, &code);
    return link_judge(link, status, code, subject, err);
}

muster_status store_fetch(struct transport_link *link, const char *stream, const char *subject,
                          struct transport_message *out, struct muster_error *err)
{
    jsDirectGetMsgOptions wanted;
    jsErrCode code = 0;
    natsMsg *message = NULL;
    jsDirectGetMsgOptions_Init(&wanted);
    wanted.LastBySubject = subject;
    natsStatus status = js_DirectGetMsg(&message, link->js, stream, NULL, &wanted);
    /*
     * Nobody answers direct gets of a stream that is not there, and any replica may, also one that lags
     * behind: "not there" is asked of the stream's leader.
     */
    if (status == NATS_NOT_FOUND || status == NATS_NO_RESPONDERS)
        status = js_GetLastMsg(&message, link->js, stream, subject, NULL, &code);
    if (status == NATS_OK)
        link_wrap(message, out);
    return link_judge(link, status, code, subject, err);
}

muster_status store_purge(struct transport_link *link, const char *stream, const char *subject,
                          struct muster_error *err)
{
    jsOptions options;
    jsErrCode code = 0;
    jsOptions_Init(&options);
    options.Wait = LINK_WAIT_MS;
    options.Stream.Purge.Subject = subject;
    natsStatus status = js_PurgeStream(link->js, stream, &options, &code);
    return link_judge(link, status, code, subject, err);
}
