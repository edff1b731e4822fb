/*
 * What carries messages and keeps what must survive: a table of functions that libmuster-cluster.so
 * gives (src/nats). That library links the client of NATS and is loaded when a cluster is opened, so
 * that everything else needs only libc.
 *
 * Every call may be made from any thread and blocks for a bounded time. Statuses that all have:
 * MUSTER_E_TIMEOUT (no answer: whether it happened is unknown), MUSTER_E_IO (the server refuses, or
 * the link is down). Others are named.
 */
#ifndef CLUSTER_TRANSPORT_H
#define CLUSTER_TRANSPORT_H

#include <muster/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRANSPORT_ABI 2
#define TRANSPORT_SUBJECT_BYTES 192
#define TRANSPORT_SIGNATURE_BYTES 64

struct transport_link;   /* a connection, which comes up again by itself */
struct transport_listen; /* messages that wait for one thread to take them */

struct transport_options {
    size_t size;
    const char *url;   /* borrowed until the link is closed, as all text; comma separated */
    const char *name;  /* what the server's lists call it */
    const char *inbox; /* where answers come to: begins every reply subject of this link */
    const char *nkey;  /* a public key; NULL: none */
    /* Signs, with that key, what the server sends for it: a line of text. From threads of the transport. */
    bool (*sign)(void *user, const char *text, uint8_t signature[TRANSPORT_SIGNATURE_BYTES]);
    void *sign_user;
    const char *credentials; /* path of a .creds file; NULL: none */
    const char *ca;          /* path of the authority's certificates: TLS; NULL: as the URL says */
    const char *certificate, *key; /* paths of the client's own; NULL: none */
    bool waits;                    /* a server that is not there yet is waited for */
    uint32_t replicas;             /* of what is stored: 1, 3 or 5 */
};

/* A message or a stored value; `owner` is the transport's, given back with `release`. */
struct transport_message {
    const char *bytes;
    size_t size;
    const char *subject, *reply; /* NULL: none */
    void *owner;
};

struct transport_bucket {
    const char *name;
    bool is_memory;
    uint64_t ttl_ns; /* 0: for ever */
};

struct transport_stream {
    const char *name, *subjects;
    uint64_t bytes_max; /* what is over it is refused; 0: any number */
};

struct transport {
    size_t size;
    uint32_t abi;
    const char *client; /* "NATS client 3.4.1" */

    /* MUSTER_E_DENIED of all: this key may not do that. MUSTER_E_NOT_FOUND: nothing answers at the address. MUSTER_E_NOT_SUPPORTED: no JetStream there. */
    muster_status (*open)(const struct transport_options *options, struct transport_link **out,
                          struct muster_error *err);
    void (*close)(struct transport_link *link); /* NULL is allowed; listeners are closed before */
    bool (*is_up)(struct transport_link *link);
    /* What the server refused last, "" if nothing: denied publishes are told nowhere else. */
    void (*last_problem)(struct transport_link *link, char *text, size_t bytes);
    size_t (*payload_max)(struct transport_link *link);

    void (*release)(struct transport_message *message); /* one without an owner is allowed */

    /* Keys and values. Buckets are made where they are missing; MUSTER_E_NOT_FOUND: by others. */
    muster_status (*bucket)(struct transport_link *link, const struct transport_bucket *bucket,
                            struct muster_error *err);
    /* MUSTER_E_NOT_FOUND: no such key. */
    muster_status (*get)(struct transport_link *link, const char *bucket, const char *key,
                         struct transport_message *out, struct muster_error *err);
    muster_status (*put)(struct transport_link *link, const char *bucket, const char *key,
                         const void *bytes, size_t size, struct muster_error *err);
    /* MUSTER_E_BUSY: the key is there already. */
    muster_status (*create)(struct transport_link *link, const char *bucket, const char *key,
                            const void *bytes, size_t size, struct muster_error *err);
    muster_status (*remove)(struct transport_link *link, const char *bucket, const char *key,
                            struct muster_error *err);
    /* Each key that there is, of those without a dot. */
    muster_status (*keys)(struct transport_link *link, const char *bucket,
                          void (*take)(void *user, const char *key), void *user,
                          struct muster_error *err);

    /* Streams: one message a subject, the first. Made where missing; an other limit is set. */
    muster_status (*stream)(struct transport_link *link, const struct transport_stream *stream,
                            struct muster_error *err);
    muster_status (*stream_remove)(struct transport_link *link, const char *name,
                                   struct muster_error *err);
    /* MUSTER_E_BUSY: somebody was first. MUSTER_E_CAPACITY: a limit of the store is reached. */
    muster_status (*store)(struct transport_link *link, const char *subject, const void *bytes,
                           size_t size, struct muster_error *err);
    /* MUSTER_E_NOT_FOUND: nothing is stored there. */
    muster_status (*fetch)(struct transport_link *link, const char *stream, const char *subject,
                           struct transport_message *out, struct muster_error *err);
    /* What is stored under the subject, which may have wildcards, is gone. */
    muster_status (*purge)(struct transport_link *link, const char *stream, const char *subject,
                           struct muster_error *err);

    /* Messages. `reply` may be NULL. Nobody needs to listen. */
    muster_status (*send)(struct transport_link *link, const char *subject, const char *reply,
                          const void *bytes, size_t size, struct muster_error *err);
    /* MUSTER_E_NOT_FOUND: nobody listens there. */
    muster_status (*ask)(struct transport_link *link, const char *subject, const void *bytes,
                         size_t size, uint64_t timeout_ns, struct transport_message *out,
                         struct muster_error *err);
    muster_status (*listen)(struct transport_link *link, const char *subject,
                            struct transport_listen **out, struct muster_error *err);
    /* MUSTER_E_TIMEOUT: none came. One thread at a time. */
    muster_status (*next)(struct transport_listen *listen, uint64_t timeout_ns,
                          struct transport_message *out);
    void (*unlisten)(struct transport_listen *listen); /* NULL is allowed */

    /* Something new for an answer to come to: below the link's inbox. */
    void (*inbox)(struct transport_link *link, char subject[TRANSPORT_SUBJECT_BYTES]);
};

/* The only symbol of libmuster-cluster.so; NULL if it has another ABI. */
#define TRANSPORT_SYMBOL "muster_cluster_transport"
typedef const struct transport *(*transport_find)(uint32_t abi);

/*
 * Loads it, once for the process, from where the library or the command lies, then from where the
 * system looks. MUSTER_E_NOT_FOUND: it is not there, and `err` says what to install.
 */
muster_status transport_load(const struct transport **out, struct muster_error *err);

#endif
