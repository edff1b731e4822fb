/*
 * A connection to a cluster, and the names under which it keeps things (docs/cluster.md has the
 * protocol).
 */
#ifndef CLUSTER_CLUSTER_H
#define CLUSTER_CLUSTER_H

#include "cluster/key.h"
#include "cluster/manifest.h"
#include "cluster/transport.h"
#include "cluster/trust.h"

#include <muster/cluster.h>

#define CLUSTER_JOBS "muster_jobs"
#define CLUSTER_WORKERS "muster_workers"
#define CLUSTER_OBJECTS "MUSTER_OBJ"
#define CLUSTER_WAKE "muster.wake"
#define CLUSTER_KEY_BYTES (MANIFEST_NAME_BYTES + 32)
#define CLUSTER_NOTE_BYTES 64
/* A worker's entry in the list is gone after this, if it is not repeated. */
#define CLUSTER_WORKER_TTL_NS UINT64_C(10000000000)
/* Of an object; and room that a message of ours needs beside what it carries. */
#define CLUSTER_CHUNK_BYTES ((size_t)512 << 10)
#define CLUSTER_MESSAGE_BYTES 1024
/* Results are purged this many grains at a time: one request for all of them. */
#define CLUSTER_BLOCK_GRAINS 64
/* Between two tries where a server does not answer. */
#define CLUSTER_RETRY_NS UINT64_C(200000000)
/* Servers that fail over take 4 to 16 s: what is asked once is asked again for so long. */
#define CLUSTER_PATIENCE_NS UINT64_C(30000000000)

struct muster_cluster {
    const struct transport *transport;
    struct transport_link *link; /* owns */
    uint64_t id;                 /* random: tells submitters and workers apart */
    char host[64], user[64];
    struct cluster_key key; /* `is_set`: it signs what is submitted */
    bool is_remote;         /* a server is, or may be, on another machine */
    char *texts;            /* owns: what the options point to */
};

/* "muster.r.JOB.BLOCK.GRAIN", and the pattern of all of a block. */
void cluster_result_subject(const char *job, uint64_t grain, char out[TRANSPORT_SUBJECT_BYTES]);
void cluster_block_subject(const char *job, uint64_t block, char out[TRANSPORT_SUBJECT_BYTES]);
void cluster_result_stream(const char *job, char out[CLUSTER_KEY_BYTES]);
/* "muster.c.JOB.WHAT". */
void cluster_subject(const char *job, const char *what, char out[TRANSPORT_SUBJECT_BYTES]);
/* "JOB.epoch.N", "JOB.cancel". */
void cluster_epoch_key(const char *job, uint64_t epoch, char out[CLUSTER_KEY_BYTES]);
void cluster_cancel_key(const char *job, char out[CLUSTER_KEY_BYTES]);

/* MUSTER_E_NOT_FOUND: there is no such job. */
muster_status cluster_manifest(struct muster_cluster *cluster, const char *name,
                               struct manifest *out, struct muster_error *err);
/* What the submitters of a job have noted: all zero if there was none yet, or the job is gone. */
struct cluster_notes {
    uint64_t epoch;  /* the newest */
    uint64_t grains; /* delivered, durably */
    bool is_over;    /* the job's end was noted: who did that removes the job, or died */
};
muster_status cluster_notes(struct muster_cluster *cluster, const char *name,
                            struct cluster_notes *out, struct muster_error *err);
/* "GRAINS ID", and " over" behind it for a job's end. */
void cluster_note_text(const struct muster_cluster *cluster, uint64_t grains, bool is_over,
                       char out[CLUSTER_NOTE_BYTES]);
/* The same if it is signed by somebody who is trusted, else MUSTER_E_DENIED with the reason. */
muster_status cluster_manifest_trusted(struct muster_cluster *cluster, const char *name,
                                       const struct trust *trust, struct manifest *out,
                                       struct muster_error *err);
bool cluster_is_cancelled(struct muster_cluster *cluster, const char *name);
/* All that is stored of a job is removed; what cannot be is left. */
void cluster_remove(struct muster_cluster *cluster, const struct manifest *manifest,
                    uint64_t epochs);
void cluster_pause(uint64_t ns);
/*
 * After a call that came to `status`: waits a little and says whether to make it again, as it may come to
 * something else before the deadline. Servers that choose a leader leave calls without an answer.
 */
bool cluster_again(struct muster_cluster *cluster, muster_status status, uint64_t deadline_ns);

/* Each job that is stored, by name. */
muster_status cluster_each_job(struct muster_cluster *cluster,
                               void (*take)(void *user, const char *name), void *user,
                               struct muster_error *err);

/* Objects: bytes under their hash, in chunks. */
muster_status cluster_object_put(struct muster_cluster *cluster, const void *bytes, size_t size,
                                 struct manifest_object *out, struct muster_error *err);
/* In memory that the caller frees. MUSTER_E_IO: what is stored is not what its name says. */
muster_status cluster_object_get(struct muster_cluster *cluster,
                                 const struct manifest_object *object, void **out,
                                 struct muster_error *err);

#endif
