#include "cluster/cluster.h"

#include "base/layout.h"
#include "base/sha256.h"
#include "base/text.h"
#include "platform/thread.h"

#include <muster/backend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define ENTRIES_MAX 4096

/* Names. */

void cluster_result_subject(const char *job, uint64_t grain, char out[TRANSPORT_SUBJECT_BYTES])
{
    snprintf(out, TRANSPORT_SUBJECT_BYTES, "muster.r.%s.%llu.%llu", job,
             (unsigned long long)(grain / CLUSTER_BLOCK_GRAINS), (unsigned long long)grain);
}

void cluster_block_subject(const char *job, uint64_t block, char out[TRANSPORT_SUBJECT_BYTES])
{
    snprintf(out, TRANSPORT_SUBJECT_BYTES, "muster.r.%s.%llu.*", job, (unsigned long long)block);
}

void cluster_result_stream(const char *job, char out[CLUSTER_KEY_BYTES])
{
    snprintf(out, CLUSTER_KEY_BYTES, "MR_%s", job);
}

void cluster_subject(const char *job, const char *what, char out[TRANSPORT_SUBJECT_BYTES])
{
    snprintf(out, TRANSPORT_SUBJECT_BYTES, "muster.c.%s.%s", job, what);
}

void cluster_epoch_key(const char *job, uint64_t epoch, char out[CLUSTER_KEY_BYTES])
{
    snprintf(out, CLUSTER_KEY_BYTES, "%s.epoch.%llu", job, (unsigned long long)epoch);
}

void cluster_cancel_key(const char *job, char out[CLUSTER_KEY_BYTES])
{
    snprintf(out, CLUSTER_KEY_BYTES, "%s.cancel", job);
}

void cluster_pause(uint64_t ns)
{
    const struct timespec time = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };
    nanosleep(&time, NULL);
}

/* What this user may not do is not asked again: a denied request looks like one without an answer. */
static bool is_denied(struct muster_cluster *cluster)
{
    char problem[200];
    cluster->transport->last_problem(cluster->link, problem, sizeof problem);
    return strstr(problem, "ermissions") != NULL;
}

bool cluster_again(struct muster_cluster *cluster, muster_status status, uint64_t deadline_ns)
{
    if ((status != MUSTER_E_TIMEOUT && status != MUSTER_E_IO) ||
        platform_clock_ns() >= deadline_ns || is_denied(cluster))
        return false;
    cluster_pause(CLUSTER_RETRY_NS);
    return true;
}

/* The connection. */

static char *keep_text(char **room, const char *text)
{
    if (!text)
        return NULL;
    char *kept = *room;
    size_t bytes = strlen(text) + 1;
    memcpy(kept, text, bytes);
    *room += bytes;
    return kept;
}

static size_t text_bytes(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

static bool sign_text(void *user, const char *text, uint8_t signature[TRANSPORT_SIGNATURE_BYTES])
{
    const struct muster_cluster *cluster = user;
    return ed25519_sign(cluster->key.secret, text, strlen(text), signature, NULL) == MUSTER_OK;
}

static muster_status connect_cluster(struct muster_cluster *cluster, const char *url,
                                     const struct muster_cluster_options *given,
                                     struct muster_error *err)
{
    char name[96], inbox[96];
    cluster->texts =
        malloc(text_bytes(url) + text_bytes(given->credentials) + text_bytes(given->ca) +
               text_bytes(given->certificate) + text_bytes(given->key));
    if (!cluster->texts)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a cluster");
    char *room = cluster->texts;
    const char *nkey = cluster->key.is_set ? cluster->key.name : NULL;
    snprintf(name, sizeof name, "muster %s %ld", cluster->host, (long)getpid());
    /* Nobody else's prefix: a server that knows the key lets no other one listen there. */
    snprintf(inbox, sizeof inbox, "_INBOX.%s.%016llx",
             cluster->key.is_set ? cluster->key.name : "muster", (unsigned long long)cluster->id);
    const struct transport_options options = { .size = sizeof options,
                                               .url = keep_text(&room, url),
                                               .name = name,
                                               .inbox = inbox,
                                               .nkey = nkey,
                                               .sign = nkey ? sign_text : NULL,
                                               .sign_user = cluster,
                                               .credentials = keep_text(&room, given->credentials),
                                               .ca = keep_text(&room, given->ca),
                                               .certificate = keep_text(&room, given->certificate),
                                               .key = keep_text(&room, given->key),
                                               .replicas = given->replicas };
    return cluster->transport->open(&options, &cluster->link, err);
}

/* What all jobs share. */
static muster_status open_stores(struct muster_cluster *cluster, struct muster_error *err)
{
    const struct transport_bucket jobs = { .name = CLUSTER_JOBS };
    const struct transport_bucket workers = { .name = CLUSTER_WORKERS,
                                              .is_memory = true,
                                              .ttl_ns = CLUSTER_WORKER_TTL_NS };
    const struct transport_stream objects = { .name = CLUSTER_OBJECTS, .subjects = "muster.o.>" };
    const struct transport *t = cluster->transport;
    muster_status status = t->bucket(cluster->link, &jobs, err);
    if (status == MUSTER_OK)
        status = t->bucket(cluster->link, &workers, err);
    return status == MUSTER_OK ? t->stream(cluster->link, &objects, err) : status;
}

/* "localhost", or an address that no other machine has. */
static bool is_here(const char *host, size_t length)
{
    return (length == 9 && strncmp(host, "localhost", 9) == 0) ||
           (length == 5 && strncmp(host, "[::1]", 5) == 0) ||
           (length > 4 && strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") >= length);
}

static bool has_remote(const char *url)
{
    bool is_remote = false;
    for (const char *at = url; *at && !is_remote; at += *at == ',') {
        size_t length = strcspn(at, ",");
        const char *end = at + length, *slashes = strstr(at, "://");
        const char *host = slashes && slashes < end ? slashes + 3 : at;
        for (const char *c = host; c < end; c++)
            if (*c == '@')
                host = c + 1;
        size_t bytes = *host == '[' ? strcspn(host, "],") + 1 : strcspn(host, ":/,");
        is_remote = !is_here(host, bytes);
        at = end;
    }
    return is_remote;
}

static muster_status open_once(struct muster_cluster *cluster, const char *url,
                               const struct muster_cluster_options *options,
                               struct muster_error *err)
{
    muster_status status = connect_cluster(cluster, url, options, err);
    if (status == MUSTER_OK)
        status = open_stores(cluster, err);
    if (status == MUSTER_OK)
        return MUSTER_OK;
    cluster->transport->close(cluster->link);
    cluster->link = NULL;
    free(cluster->texts);
    cluster->texts = NULL;
    return status;
}

static muster_status read_key(const struct muster_cluster_options *given, struct cluster_key *out,
                              struct muster_error *err)
{
    muster_status status =
        given->nkey_seed ? cluster_key_read(given->nkey_seed, out, err) : MUSTER_OK;
    if (status == MUSTER_OK && given->nkey && strcmp(given->nkey, out->name) != 0)
        status = muster_error_fill(err, MUSTER_E_INVALID, 0, "give nkey_seed alone",
                                   "the key %.60s needs the file with its own seed", given->nkey);
    return status;
}

static void drop(struct muster_cluster *cluster)
{
    cluster_key_forget(&cluster->key);
    free(cluster);
}

muster_status muster_cluster_open(const char *url, const struct muster_cluster_options *options,
                                  struct muster_cluster **out, struct muster_error *err)
{
    struct muster_cluster_options given = { .size = sizeof given };
    const struct transport *transport;
    muster_status status =
        options ? layout_read(LAYOUT(muster_cluster_options), options, &given, err) : MUSTER_OK;
    if (status == MUSTER_OK && (!url || !*url || !out))
        status = muster_error_fill(err, MUSTER_E_INVALID, 0, "write it as nats://host:4222",
                                   "a cluster needs an address");
    if (status == MUSTER_OK)
        status = transport_load(&transport, err);
    if (status != MUSTER_OK)
        return status;
    struct muster_cluster *cluster = calloc(1, sizeof *cluster);
    if (!cluster)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a cluster");
    cluster->transport = transport;
    while (cluster->id == 0)
        if (getrandom(&cluster->id, sizeof cluster->id, 0) != (ssize_t)sizeof cluster->id)
            cluster->id = platform_clock_ns() ^ ((uint64_t)getpid() << 40);
    if (gethostname(cluster->host, sizeof cluster->host - 1) != 0)
        snprintf(cluster->host, sizeof cluster->host, "?");
    const char *user = getenv("USER");
    snprintf(cluster->user, sizeof cluster->user, "%.31s@%.31s", user && *user ? user : "?",
             cluster->host);
    for (char *at = cluster->user; *at; at++)
        if (*at < ' ')
            *at = '?';
    cluster->is_remote = has_remote(url);
    uint64_t patience = platform_deadline_ns(CLUSTER_PATIENCE_NS);
    status = read_key(&given, &cluster->key, err);
    if (status != MUSTER_OK) {
        drop(cluster);
        return status;
    }
    status = open_once(cluster, url, &given, err);
    /* A server is there, and those with which it keeps things are choosing a leader. */
    while ((given.waits && status == MUSTER_E_NOT_FOUND) ||
           (status == MUSTER_E_TIMEOUT && (given.waits || platform_clock_ns() < patience))) {
        cluster_pause(CLUSTER_RETRY_NS);
        status = open_once(cluster, url, &given, err);
    }
    if (status == MUSTER_OK)
        *out = cluster;
    else
        drop(cluster);
    return status;
}

void muster_cluster_close(struct muster_cluster *cluster)
{
    if (!cluster)
        return;
    cluster->transport->close(cluster->link);
    free(cluster->texts);
    drop(cluster);
}

/* Jobs. */

muster_status cluster_manifest(struct muster_cluster *cluster, const char *name,
                               struct manifest *out, struct muster_error *err)
{
    static const struct trust any = { .is_any = true };
    return cluster_manifest_trusted(cluster, name, &any, out, err);
}

muster_status cluster_manifest_trusted(struct muster_cluster *cluster, const char *name,
                                       const struct trust *trust, struct manifest *out,
                                       struct muster_error *err)
{
    struct transport_message message;
    if (!manifest_name_is_good(name))
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "see: muster jobs",
                                 "'%.60s' cannot be the name of a job", name);
    muster_status status =
        cluster->transport->get(cluster->link, CLUSTER_JOBS, name, &message, err);
    if (status == MUSTER_E_NOT_FOUND)
        return muster_error_fill(err, MUSTER_E_NOT_FOUND, 0, "see: muster jobs",
                                 "the cluster has no job '%s': it is over, or never was", name);
    if (status != MUSTER_OK)
        return status;
    status = trust_check(trust, message.bytes, message.size, err);
    if (status == MUSTER_OK)
        status = manifest_read(message.bytes, message.size, out, err);
    if (status == MUSTER_OK && strcmp(out->name, name) != 0)
        status = muster_error_fill(err, MUSTER_E_PARSE, 0, NULL,
                                   "what is stored as job '%s' is another one's description", name);
    cluster->transport->release(&message);
    return status;
}

void cluster_note_text(const struct muster_cluster *cluster, uint64_t grains, bool is_over,
                       char out[CLUSTER_NOTE_BYTES])
{
    snprintf(out, CLUSTER_NOTE_BYTES, "%llu %016llx%s", (unsigned long long)grains,
             (unsigned long long)cluster->id, is_over ? " over" : "");
}

static void read_note(const struct transport_message *message, struct cluster_notes *notes)
{
    char text[CLUSTER_NOTE_BYTES] = "";
    uint64_t grains = 0;
    if (message->size >= sizeof text)
        return;
    memcpy(text, message->bytes, message->size);
    char *space = strchr(text, ' '), *last = strrchr(text, ' ');
    notes->is_over = last && strcmp(last, " over") == 0;
    if (space)
        *space = '\0';
    /* A submitter that has died before its first note went on from where the last one was. */
    if (text_parse_u64(text, &grains) && grains > notes->grains)
        notes->grains = grains;
}

muster_status cluster_notes(struct muster_cluster *cluster, const char *name,
                            struct cluster_notes *out, struct muster_error *err)
{
    struct transport_message message;
    char key[CLUSTER_KEY_BYTES];
    struct cluster_notes notes = { .epoch = 0 };
    muster_status status = MUSTER_OK;
    for (;;) {
        cluster_epoch_key(name, notes.epoch + 1, key);
        status = cluster->transport->get(cluster->link, CLUSTER_JOBS, key, &message, err);
        if (status != MUSTER_OK)
            break;
        notes.epoch++;
        read_note(&message, &notes);
        cluster->transport->release(&message);
    }
    if (status != MUSTER_E_NOT_FOUND)
        return status;
    *out = notes;
    return MUSTER_OK;
}

bool cluster_is_cancelled(struct muster_cluster *cluster, const char *name)
{
    struct transport_message message;
    char key[CLUSTER_KEY_BYTES];
    cluster_cancel_key(name, key);
    if (cluster->transport->get(cluster->link, CLUSTER_JOBS, key, &message, NULL) != MUSTER_OK)
        return false;
    cluster->transport->release(&message);
    return true;
}

struct names {
    char (*list)[MANIFEST_NAME_BYTES];
    size_t count, capacity;
};

/* Keys with a dot are notes of a job. */
static void take_name(void *user, const char *key)
{
    struct names *names = user;
    if (names->count < names->capacity && manifest_name_is_good(key))
        snprintf(names->list[names->count++], MANIFEST_NAME_BYTES, "%s", key);
}

muster_status cluster_each_job(struct muster_cluster *cluster,
                               void (*take)(void *user, const char *name), void *user,
                               struct muster_error *err)
{
    struct names names = { calloc(ENTRIES_MAX, MANIFEST_NAME_BYTES), 0, ENTRIES_MAX };
    if (!names.list)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a list");
    /* First all names: what is asked of the server within its answer would wait for itself. */
    muster_status status =
        cluster->transport->keys(cluster->link, CLUSTER_JOBS, take_name, &names, err);
    for (size_t i = 0; status == MUSTER_OK && i < names.count; i++)
        take(user, names.list[i]);
    free(names.list);
    return status;
}

/* Objects. */

static void chunk_subject(const char *hash, uint64_t chunk, char out[TRANSPORT_SUBJECT_BYTES])
{
    snprintf(out, TRANSPORT_SUBJECT_BYTES, "muster.o.%s.%llu", hash, (unsigned long long)chunk);
}

muster_status cluster_object_put(struct muster_cluster *cluster, const void *bytes, size_t size,
                                 struct manifest_object *out, struct muster_error *err)
{
    char subject[TRANSPORT_SUBJECT_BYTES];
    muster_status status = MUSTER_OK;
    shared_hash(bytes, size, out->hash);
    out->bytes = size;
    for (size_t at = 0; at < size && status == MUSTER_OK; at += CLUSTER_CHUNK_BYTES) {
        size_t part = size - at < CLUSTER_CHUNK_BYTES ? size - at : CLUSTER_CHUNK_BYTES;
        chunk_subject(out->hash, at / CLUSTER_CHUNK_BYTES, subject);
        uint64_t patience = platform_deadline_ns(CLUSTER_PATIENCE_NS);
        do
            status = cluster->transport->store(cluster->link, subject, (const char *)bytes + at,
                                               part, err);
        while (cluster_again(cluster, status, patience));
        /* The same bytes are there already. */
        if (status == MUSTER_E_BUSY)
            status = MUSTER_OK;
    }
    return status;
}

muster_status cluster_object_get(struct muster_cluster *cluster,
                                 const struct manifest_object *object, void **out,
                                 struct muster_error *err)
{
    char subject[TRANSPORT_SUBJECT_BYTES], hash[MANIFEST_HASH_BYTES];
    struct transport_message message;
    char *bytes = object->bytes < SIZE_MAX ? malloc((size_t)object->bytes + 1) : NULL;
    uint64_t at = 0;
    muster_status status = MUSTER_OK;
    if (!bytes)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL,
                                 "no memory for an object of %llu bytes",
                                 (unsigned long long)object->bytes);
    for (uint64_t chunk = 0; at < object->bytes && status == MUSTER_OK; chunk++) {
        chunk_subject(object->hash, chunk, subject);
        status = cluster->transport->fetch(cluster->link, CLUSTER_OBJECTS, subject, &message, err);
        if (status != MUSTER_OK)
            break;
        if (message.size == 0 || message.size > object->bytes - at)
            status = muster_error_fill(err, MUSTER_E_IO, 0, NULL, "an object has a wrong size");
        else
            memcpy(bytes + at, message.bytes, message.size);
        at += message.size;
        cluster->transport->release(&message);
    }
    if (status == MUSTER_OK)
        shared_hash(bytes, (size_t)object->bytes, hash);
    if (status == MUSTER_OK && strcmp(hash, object->hash) != 0)
        status = muster_error_fill(err, MUSTER_E_IO, 0, NULL,
                                   "an object is not what its hash says: it is not used");
    if (status == MUSTER_OK) {
        bytes[object->bytes] = '\0';
        *out = bytes;
    } else {
        free(bytes);
    }
    return status;
}

/* Removing. */

struct uses {
    struct muster_cluster *cluster;
    const struct manifest *gone;
    bool kernel, tables[MUSTER_ARGS_MAX]; /* another job has it too */
};

static bool uses_object(const struct manifest *m, const char *hash)
{
    bool is_used = strcmp(m->kernel.hash, hash) == 0;
    for (size_t i = 0; i < m->arg_count; i++)
        is_used = is_used || strcmp(m->args[i].table.hash, hash) == 0;
    return is_used;
}

static void find_uses(void *user, const char *name)
{
    struct uses *uses = user;
    struct manifest *other = malloc(sizeof *other);
    if (other && strcmp(name, uses->gone->name) != 0 &&
        cluster_manifest(uses->cluster, name, other, NULL) == MUSTER_OK) {
        uses->kernel = uses->kernel || uses_object(other, uses->gone->kernel.hash);
        for (size_t i = 0; i < uses->gone->arg_count; i++)
            uses->tables[i] = uses->tables[i] || uses_object(other, uses->gone->args[i].table.hash);
    }
    free(other);
}

static void remove_object(struct muster_cluster *cluster, const char *hash)
{
    char subject[TRANSPORT_SUBJECT_BYTES];
    snprintf(subject, sizeof subject, "muster.o.%s.*", hash);
    (void)cluster->transport->purge(cluster->link, CLUSTER_OBJECTS, subject, NULL);
}

static void remove_key(struct muster_cluster *cluster, const char *key, uint64_t patience)
{
    while (cluster_again(
        cluster, cluster->transport->remove(cluster->link, CLUSTER_JOBS, key, NULL), patience))
        ;
}

void cluster_remove(struct muster_cluster *cluster, const struct manifest *m, uint64_t epochs)
{
    const struct transport *t = cluster->transport;
    struct uses uses = { .cluster = cluster, .gone = m };
    uint64_t patience = platform_deadline_ns(CLUSTER_PATIENCE_NS);
    char key[CLUSTER_KEY_BYTES];
    /* First what makes others look for the rest. */
    remove_key(cluster, m->name, patience);
    (void)t->send(cluster->link, CLUSTER_WAKE, NULL, "", 0, NULL);
    cluster_result_stream(m->name, key);
    while (cluster_again(cluster, t->stream_remove(cluster->link, key, NULL), patience))
        ;
    for (uint64_t i = 1; i <= epochs; i++) {
        cluster_epoch_key(m->name, i, key);
        remove_key(cluster, key, patience);
    }
    cluster_cancel_key(m->name, key);
    remove_key(cluster, key, patience);
    if (cluster_each_job(cluster, find_uses, &uses, NULL) != MUSTER_OK)
        return;
    if (!uses.kernel)
        remove_object(cluster, m->kernel.hash);
    for (size_t i = 0; i < m->arg_count; i++)
        if (m->args[i].kind == MUSTER_ARG_ALL && !uses.tables[i])
            remove_object(cluster, m->args[i].table.hash);
}
