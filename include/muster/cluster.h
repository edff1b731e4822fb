/*
 * Many machines: a kernel over items on every machine that runs a worker, with the results in order
 * and once each, on NATS JetStream (docs/cluster.md). Machines come and go; a submitter that dies is
 * followed by another one. The client of NATS is in libmuster-cluster.so, which is loaded when a
 * cluster is opened; nothing else needs it.
 *
 * A job has one input and one output, values and tables. Its kernel is source in the portable form,
 * CUDA C++, OpenCL C or a bundle: never a function of this process.
 */
#ifndef MUSTER_CLUSTER_H
#define MUSTER_CLUSTER_H

#include <muster/job.h>

#ifdef __cplusplus
MUSTER_SAME_NAMES_BEGIN
extern "C" {
#endif

struct muster_cluster;
struct muster_cluster_job;
struct muster_cluster_worker;

/* How to reach the servers. The caller sets `size`; zero means the default everywhere. */
struct muster_cluster_options {
    size_t size;
    /*
     * The path of a file with a seed of NATS's, which nobody else may read, and its public key (NULL:
     * from the seed). It lets this process in and signs what it submits.
     */
    const char *nkey, *nkey_seed;
    const char *credentials;       /* the path of a .creds file */
    const char *ca;                /* the path of the authority's certificates: TLS is demanded */
    const char *certificate, *key; /* paths of this client's own certificate and key */
    uint32_t replicas;             /* of what is stored: 0 or 1, 3, 5 */
    int waits;                     /* not 0: servers that are not there yet are waited for */
};

/*
 * Connects, which takes at most a few seconds, or half a minute while servers choose a leader; from then on the link comes up again by itself, for
 * ever. `url`: "nats://host:4222", several with commas; copied, as all text. MUSTER_E_NOT_FOUND: no
 * libmuster-cluster.so, or no server there. MUSTER_E_NOT_SUPPORTED: the server runs without JetStream.
 * MUSTER_E_DENIED: the server does not let this key in, or others may read it.
 */
MUSTER_API muster_status muster_cluster_open(const char *url,
                                             const struct muster_cluster_options *options,
                                             struct muster_cluster **out, struct muster_error *err);
/* After its jobs and workers. NULL is allowed. */
MUSTER_API void muster_cluster_close(struct muster_cluster *cluster);

/* A public key as text, "U..." with its zero byte. */
#define MUSTER_CLUSTER_KEY_BYTES 57
/* Makes a key: its seed in a new file that only this user can read, and its public key. */
MUSTER_API muster_status muster_cluster_key_create(const char *path,
                                                   char public_key[MUSTER_CLUSTER_KEY_BYTES],
                                                   struct muster_error *err);
/*
 * The public key of a file with a seed, or `key` itself if it is one. MUSTER_E_DENIED: others may read
 * the file. MUSTER_E_PARSE: there is no seed in it.
 */
MUSTER_API muster_status muster_cluster_key_read(const char *key,
                                                 char public_key[MUSTER_CLUSTER_KEY_BYTES],
                                                 struct muster_error *err);

/*
 * What to run. The caller sets `size`. All is copied but `user`.
 */
struct muster_cluster_desc {
    size_t size;
    const char *name;           /* letters, digits, '-' and '_'; NULL: chosen */
    const char *title;          /* for lists; NULL: the kernel's file */
    const char *const *kernels; /* files with forms of one kernel, as muster_kernel_load_files */
    size_t kernel_count;
    const char *entry; /* NULL: the only kernel in them */
    uint64_t items;    /* at least 1 */
    /*
     * One MUSTER_ARG_SOURCE and one MUSTER_ARG_OUT, `bytes` being an item's; MUSTER_ARG_VALUE; and
     * MUSTER_ARG_ALL with the table at `in`, of `bytes`. Others are refused.
     */
    const struct muster_arg *args;
    size_t arg_count;
    /*
     * The input: a file from byte `in_offset` on. Machines that find it at the same path, with the same
     * size, time and ends, read it there; others are given its items by this process. NULL: `source`
     * gives items [begin, begin + items), all of them (the return value), any range at any time, again
     * and from another thread.
     */
    const char *in;
    uint64_t in_offset;
    int64_t (*source)(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes);
    /*
     * The output: a file, from byte `out_offset` on, whose first bytes are `out_head`. It is written
     * beside its place, by the machines that find it there and else by this process, and put in its
     * place when it is whole. NULL: `sink` takes items in order, from a thread of Muster's.
     */
    const char *out;
    const void *out_head;
    uint64_t out_offset;
    muster_status (*sink)(void *user, uint64_t begin, uint64_t items, const void *from);
    void *user;
    int through;     /* not 0: all through this process and the servers; paths are not for others */
    uint64_t grain;  /* items whose result is stored as one; 0: chosen */
    uint64_t window; /* grains that may be under way; 0: chosen */
    uint32_t tries;  /* runs of a piece, on different machines, before the job fails; 0: 3 */
};

/*
 * Makes a job known to all machines and starts to feed it, on threads of Muster's. The caller destroys
 * it. MUSTER_E_NOT_SUPPORTED: it needs what a cluster does not do, which `err` names. MUSTER_E_BUSY:
 * there is a job of that name.
 */
MUSTER_API muster_status muster_cluster_submit(struct muster_cluster *cluster,
                                               const struct muster_cluster_desc *desc,
                                               struct muster_cluster_job **out,
                                               struct muster_error *err);

/*
 * Goes on with a job whose submitter is gone, or takes it from one that is not: that one leaves.
 * `desc` is read for `source`, `sink` and `user` alone, which a job without files needs; NULL: none.
 * With a sink, items from *begin on are given to it: those before were given to the last one.
 * MUSTER_E_NOT_FOUND: no such job.
 */
MUSTER_API muster_status muster_cluster_resume(struct muster_cluster *cluster, const char *name,
                                               const struct muster_cluster_desc *desc,
                                               uint64_t *begin, struct muster_cluster_job **out,
                                               struct muster_error *err);

/* Borrowed until the job is destroyed. */
MUSTER_API const char *muster_cluster_job_name(const struct muster_cluster_job *job);

/*
 * Blocks until the job is over or the time has passed (MUSTER_E_TIMEOUT, and the job goes on). A
 * job that has failed or was cancelled leaves nothing of its output; one whose file takes no more
 * (MUSTER_E_IO) stays as it is, for muster_cluster_resume. MUSTER_E_STALE: another submitter
 * has taken the job, which goes on.
 */
MUSTER_API muster_status muster_cluster_wait(struct muster_cluster_job *job, uint64_t timeout_ns,
                                             struct muster_error *err);

/* How far a job is. The caller sets `size`. */
struct muster_cluster_progress {
    size_t size;
    uint64_t items, delivered;
    uint64_t begin; /* items that were delivered before this submitter */
    uint64_t elapsed_ns;
    uint32_t machines; /* that take part now */
    uint64_t claims, reruns, lost_machines;
    uint64_t stall_ns; /* the longest time so far in which nothing was delivered */
    int is_over;
    uint32_t refusals; /* by workers that do not trust the job's submitter */
    char refusal[320]; /* the last one: "HOST refused job NAME: ...", "" if there is none */
};
MUSTER_API muster_status muster_cluster_progress(struct muster_cluster_job *job,
                                                 struct muster_cluster_progress *progress,
                                                 struct muster_error *err);

/* What one machine has done for a job. The caller sets `size` of each. */
struct muster_cluster_share {
    size_t size;
    char id[24], host[64];
    uint64_t items;
    double items_per_s;
    uint64_t silent_ns; /* since it was heard last */
};
/* As muster_device_list: `*count` is how many there are. */
MUSTER_API muster_status muster_cluster_shares(struct muster_cluster_job *job,
                                               struct muster_cluster_share *out, size_t capacity,
                                               size_t *count, struct muster_error *err);

/*
 * Ends the submitter's part, waits for its threads and frees it. A job that is not over stays
 * stored, so that it can be resumed. NULL is allowed.
 */
MUSTER_API void muster_cluster_job_destroy(struct muster_cluster_job *job);

/* The job of that name is to end, whichever submitter runs it; it is removed at once if none does. */
MUSTER_API muster_status muster_cluster_cancel(struct muster_cluster *cluster, const char *name,
                                               struct muster_error *err);

/* A job that is stored. The caller sets `size` of each. */
struct muster_cluster_entry {
    size_t size;
    char name[64], title[128], user[64];
    uint64_t items, delivered;
    uint32_t submitters; /* how many it has had */
    int is_fed;          /* a submitter answers */
    int is_cancelled;    /* it is to end */
};
MUSTER_API muster_status muster_cluster_list(struct muster_cluster *cluster,
                                             struct muster_cluster_entry *out, size_t capacity,
                                             size_t *count, struct muster_error *err);

/* A worker that said within the last seconds that it is there. The caller sets `size` of each. */
struct muster_cluster_machine {
    size_t size;
    char id[24], host[64], devices[256];
    uint32_t jobs;
};
MUSTER_API muster_status muster_cluster_machines(struct muster_cluster *cluster,
                                                 struct muster_cluster_machine *out,
                                                 size_t capacity, size_t *count,
                                                 struct muster_error *err);

/* How a worker works. The caller sets `size`; zero means the default everywhere. */
struct muster_cluster_worker_options {
    size_t size;
    const struct muster_run_options *run; /* devices, unit_items and so on, for all its jobs */
    int once;       /* not 0: ends when it has worked and there is no job left */
    uint32_t slots; /* pieces that it holds of each job; 0: 2 */
    /* What people should know: a job that begins, ends or is refused. From any thread; NULL: nothing. */
    void (*log)(void *user, const char *line);
    void *log_user;
    /*
     * Whose jobs it runs: public keys with commas between them, the path of a file with one in each line,
     * or "any". NULL: any, if all addresses of the servers are this machine's own, else
     * MUSTER_E_INVALID. Jobs are signed by a cluster that was opened with `nkey_seed`.
     */
    const char *trust;
};

/*
 * All devices of the runtime work for the cluster's jobs from now on, on threads of Muster's. The
 * cluster is closed after it, and so is the runtime.
 */
MUSTER_API muster_status
muster_cluster_worker_start(struct muster_cluster *cluster, struct muster *m,
                            const struct muster_cluster_worker_options *options,
                            struct muster_cluster_worker **out, struct muster_error *err);
/* It takes nothing more, and ends when what it holds is stored. Any thread, also again. */
MUSTER_API void muster_cluster_worker_stop(struct muster_cluster_worker *worker);
/* Until it has ended. MUSTER_E_TIMEOUT: it has not yet. */
MUSTER_API muster_status muster_cluster_worker_wait(struct muster_cluster_worker *worker,
                                                    uint64_t timeout_ns, struct muster_error *err);
/* Breaks off what it still holds, which others then run. NULL is allowed. */
MUSTER_API void muster_cluster_worker_destroy(struct muster_cluster_worker *worker);

#ifdef __cplusplus
}
MUSTER_SAME_NAMES_END
#endif

#endif
