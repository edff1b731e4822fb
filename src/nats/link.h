/*
 * A connection to NATS, and how what its client says becomes a status.
 */
#ifndef NATS_LINK_H
#define NATS_LINK_H

#include "cluster/transport.h"

#include <nats/nats.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

/* How long one call waits for an answer. Servers that fail over take longer: callers repeat. */
#define LINK_WAIT_MS 2000
#define LINK_BUCKETS_MAX 4
#define LINK_PROBLEM_BYTES 200

struct transport_link {
    natsConnection *connection;
    jsCtx *js;
    uint32_t replicas;
    bool (*sign)(void *user, const char *text, uint8_t signature[TRANSPORT_SIGNATURE_BYTES]);
    void *sign_user;          /* borrowed until the link is closed */
    atomic_bool was_left_out; /* the last signature; no other memory goes with it */
    char inbox[96], url[160];
    atomic_ullong inboxes; /* how many were given */
    pthread_mutex_t lock;  /* guards what follows */
    kvStore *stores[LINK_BUCKETS_MAX];
    char names[LINK_BUCKETS_MAX][32];
    size_t store_count;
    char problem[LINK_PROBLEM_BYTES];
    struct timespec denied; /* when a server refused something that this key may not do */
};

/* The host fills errors: this library needs nothing of Muster's when it is loaded. */
muster_status link_error(struct muster_error *err, muster_status status, int code, const char *fix,
                         const char *format, ...) __attribute__((format(printf, 5, 6)));

/* What a call on the store came to, `what` being in its words: "storing muster.r.J.7". */
muster_status link_judge(struct transport_link *link, natsStatus status, jsErrCode code,
                         const char *what, struct muster_error *err);

/* MUSTER_E_NOT_FOUND: what all jobs share is not there, and this key may not make it. */
muster_status link_lacks(struct transport_link *link, const char *what, struct muster_error *err);

/* `message` becomes `out`'s, which gives it back. */
void link_wrap(natsMsg *message, struct transport_message *out);

/* NULL: no such bucket was opened on this link. */
kvStore *link_store(struct transport_link *link, const char *bucket);

/* store.c */
muster_status store_bucket(struct transport_link *, const struct transport_bucket *,
                           struct muster_error *);
muster_status store_get(struct transport_link *, const char *, const char *,
                        struct transport_message *, struct muster_error *);
muster_status store_put(struct transport_link *, const char *, const char *, const void *, size_t,
                        struct muster_error *);
muster_status store_create(struct transport_link *, const char *, const char *, const void *,
                           size_t, struct muster_error *);
muster_status store_remove(struct transport_link *, const char *, const char *,
                           struct muster_error *);
muster_status store_keys(struct transport_link *, const char *, void (*)(void *, const char *),
                         void *, struct muster_error *);
muster_status store_stream(struct transport_link *, const struct transport_stream *,
                           struct muster_error *);
muster_status store_stream_remove(struct transport_link *, const char *, struct muster_error *);
muster_status store_store(struct transport_link *, const char *, const void *, size_t,
                          struct muster_error *);
muster_status store_fetch(struct transport_link *, const char *, const char *,
                          struct transport_message *, struct muster_error *);
muster_status store_purge(struct transport_link *, const char *, const char *,
                          struct muster_error *);

#endif
