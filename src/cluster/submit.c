/*
 * From what a caller wants to have run to a job that all machines can read: its kernel as a bundle and
 * its tables under their hashes, its description written last.
 */
#include "cluster/signature.h"
#include "cluster/submitter.h"

#include "base/layout.h"
#include "platform/file.h"
#include "platform/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <muster/backend.h>
#include <muster/bundle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A grain is small enough for a message, and there are enough of them to share out. */
#define GRAIN_BYTES ((uint64_t)256 << 10)
#define GRAINS_WANTED 1024
/* What may wait in the store, and grains at most: each is asked for once when a job is resumed. */
#define WINDOW_BYTES ((uint64_t)256 << 20)
#define WINDOW_MAX 4096
#define WINDOW_MIN 64
#define TRIES 3
/* Beside a result in the store; and what late results of machines that were given up may take. */
#define RESULT_EXTRA 256
#define LATE_BYTES ((uint64_t)64 << 20)

static muster_status refuse(struct muster_error *err, const char *what, const char *fix)
{
    return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, fix, "a cluster's job %s", what);
}

/* Arguments. */

static muster_status take_arg(struct muster_cluster *cluster, const struct muster_arg *arg,
                              struct manifest *m, struct muster_error *err)
{
    struct manifest_arg *out = &m->args[m->arg_count++];
    *out = (struct manifest_arg){ .kind = arg->kind, .element = arg->element, .bytes = arg->bytes };
    switch (arg->kind) {
    case MUSTER_ARG_SOURCE:
    case MUSTER_ARG_OUT: {
        uint64_t *bytes = arg->kind == MUSTER_ARG_OUT ? &m->out_item_bytes : &m->item_bytes;
        if (*bytes > 0 || arg->bytes == 0)
            return refuse(err, "has one input and one output", "give the others as tables");
        if (arg->halo > 0)
            return refuse(err, "has no halo", "run it on one machine");
        *bytes = arg->bytes;
        return MUSTER_OK;
    }
    case MUSTER_ARG_VALUE:
        if (arg->bytes == 0 || arg->bytes > sizeof out->value || !arg->in)
            return refuse(err, "has values of 1 to 256 bytes", NULL);
        memcpy(out->value, arg->in, arg->bytes);
        return MUSTER_OK;
    case MUSTER_ARG_ALL:
        if (!arg->in || arg->bytes == 0)
            return refuse(err, "has tables as memory: .in and .bytes of MUSTER_ARG_ALL", NULL);
        return cluster_object_put(cluster, arg->in, arg->bytes, &out->table, err);
    case MUSTER_ARG_FIRST:
        return refuse(err, "has no MUSTER_ARG_FIRST: pieces come in any order",
                      "put the number into the items");
    case MUSTER_ARG_GRID:
    case MUSTER_ARG_PICTURES:
        return refuse(err, "has no grid and no pictures", "run it on one machine");
    default:
        return refuse(err, "has a source, an output, values and tables, and no other arguments",
                      NULL);
    }
}

static muster_status take_args(struct muster_cluster *cluster,
                               const struct muster_cluster_desc *desc, struct manifest *m,
                               struct muster_error *err)
{
    muster_status status = layout_check_all(LAYOUT(muster_arg), desc->args, desc->arg_count, err);
    if (status == MUSTER_OK && (desc->arg_count == 0 || desc->arg_count > MUSTER_ARGS_MAX))
        status = refuse(err, "has 2 to 16 arguments", NULL);
    for (size_t i = 0; status == MUSTER_OK && i < desc->arg_count; i++) {
        struct muster_arg copy;
        status = take_arg(cluster, layout_at(LAYOUT(muster_arg), desc->args, i, &copy), m, err);
    }
    if (status == MUSTER_OK && (m->item_bytes == 0 || m->out_item_bytes == 0))
        status = refuse(err, "has one input and one output", NULL);
    return status;
}

/* The kernel. */

static muster_status read_file(const char *path, void **out, size_t *size, struct muster_error *err)
{
    struct stat facts;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &facts) != 0) {
        if (file >= 0)
            close(file);
        return muster_error_fill(err, MUSTER_E_IO, 0, NULL, "cannot read %.160s", path);
    }
    char *bytes = malloc((size_t)facts.st_size + 1);
    muster_status status =
        bytes ? shared_read(file, 0, bytes, (size_t)facts.st_size, err)
              : muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a file");
    close(file);
    if (status == MUSTER_OK) {
        *out = bytes;
        *size = (size_t)facts.st_size;
    } else {
        free(bytes);
    }
    return status;
}

/* All forms in one file, as every machine can load it. */
static muster_status put_kernel(struct muster_cluster *cluster,
                                const struct muster_cluster_desc *desc, struct manifest *m,
                                struct muster_error *err)
{
    char folder[PLATFORM_PATH_BYTES], path[PLATFORM_PATH_BYTES + 16];
    struct muster_bundle *bundle = NULL;
    void *bytes = NULL;
    size_t size = 0;
    muster_status status = muster_bundle_create(&bundle, err);
    if (status != MUSTER_OK)
        return status;
    for (size_t i = 0; status == MUSTER_OK && i < desc->kernel_count; i++)
        status = muster_bundle_add_file(bundle, desc->kernels[i], desc->entry, err);
    const struct muster_kernel_form *form = muster_bundle_form(bundle, 0);
    if (status == MUSTER_OK && form)
        snprintf(m->entry, sizeof m->entry, "%s",
                 desc->entry   ? desc->entry
                 : form->entry ? form->entry
                               : "");
    bool has_folder = false;
    if (status == MUSTER_OK) {
        status = platform_folder_make_temporary(folder, err);
        has_folder = status == MUSTER_OK;
    }
    if (status == MUSTER_OK) {
        snprintf(path, sizeof path, "%s/kernel", folder);
        status = muster_bundle_write(bundle, path, err);
    }
    if (status == MUSTER_OK)
        status = read_file(path, &bytes, &size, err);
    if (status == MUSTER_OK)
        status = cluster_object_put(cluster, bytes, size, &m->kernel, err);
    free(bytes);
    if (has_folder)
        platform_folder_remove_temporary(folder);
    muster_bundle_destroy(bundle);
    return status;
}

/* Sizes. */

static uint64_t at_least_one(uint64_t a)
{
    return a > 0 ? a : 1;
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static muster_status choose_sizes(struct muster_cluster *cluster,
                                  const struct muster_cluster_desc *desc, struct manifest *m,
                                  struct muster_error *err)
{
    uint64_t largest = m->item_bytes > m->out_item_bytes ? m->item_bytes : m->out_item_bytes;
    size_t payload = cluster->transport->payload_max(cluster->link);
    uint64_t fits = payload > CLUSTER_MESSAGE_BYTES ? payload - CLUSTER_MESSAGE_BYTES : 1;
    bool is_through = desc->through || !desc->in || !desc->out;
    m->grain = desc->grain > 0
                   ? desc->grain
                   : at_least_one(lesser(GRAIN_BYTES / largest,
                                         (desc->items + GRAINS_WANTED - 1) / GRAINS_WANTED));
    m->grain = lesser(m->grain, desc->items);
    if (manifest_grains(m) > GRAINS_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "give larger grains",
                                 "%llu items are more than %llu grains of %llu",
                                 (unsigned long long)m->items, (unsigned long long)GRAINS_MAX,
                                 (unsigned long long)m->grain);
    uint64_t bytes;
    if (is_through && (__builtin_mul_overflow(m->grain, m->out_item_bytes, &bytes) ||
                       bytes > fits || m->item_bytes > fits))
        return muster_error_fill(
            err, MUSTER_E_TOO_LARGE, 0,
            "use files on shared storage, smaller grains, or a server with a larger max_payload",
            "a grain of %llu items of %llu and %llu bytes does not fit into a "
            "message of %zu bytes",
            (unsigned long long)m->grain, (unsigned long long)m->item_bytes,
            (unsigned long long)m->out_item_bytes, payload);
    uint64_t window = lesser(WINDOW_BYTES / at_least_one(m->grain * m->out_item_bytes), WINDOW_MAX);
    m->window = desc->window > 0      ? lesser(desc->window, FLEET_WINDOW_MAX)
                : window < WINDOW_MIN ? WINDOW_MIN
                                      : window;
    m->tries = desc->tries > 0 ? desc->tries : TRIES;
    m->weight = 1;
    return MUSTER_OK;
}

/* Input and output. */

static muster_status open_input(struct muster_cluster_job *job,
                                const struct muster_cluster_desc *desc, struct muster_error *err)
{
    struct manifest *m = &job->manifest;
    struct shared_file file = { .path = "" };
    uint64_t bytes;
    if (!desc->in)
        return desc->source ? MUSTER_OK
                            : muster_error_fill(err, MUSTER_E_INVALID, 0, NULL,
                                                "a job needs an input: a file or a source");
    muster_status status = shared_describe(desc->in, &file, err);
    if (status != MUSTER_OK)
        return status;
    if (__builtin_mul_overflow(m->items, m->item_bytes, &bytes) || file.bytes < desc->in_offset ||
        file.bytes - desc->in_offset < bytes)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL,
                                 "%.120s has %llu bytes, which is less than %llu items of %llu",
                                 desc->in, (unsigned long long)file.bytes,
                                 (unsigned long long)m->items, (unsigned long long)m->item_bytes);
    job->in = shared_open(&file);
    if (job->in < 0)
        return muster_error_fill(err, MUSTER_E_IO, 0, NULL, "%.160s has changed meanwhile",
                                 desc->in);
    m->in = file;
    m->in_offset = desc->in_offset;
    return MUSTER_OK;
}

static muster_status open_output(struct muster_cluster_job *job,
                                 const struct muster_cluster_desc *desc, struct muster_error *err)
{
    struct manifest *m = &job->manifest;
    char part[SHARED_PATH_BYTES];
    uint64_t bytes;
    if (!desc->out)
        return desc->sink ? MUSTER_OK
                          : muster_error_fill(err, MUSTER_E_INVALID, 0, NULL,
                                              "a job needs an output: a file or a sink");
    if (__builtin_mul_overflow(m->items, m->out_item_bytes, &bytes) ||
        __builtin_add_overflow(bytes, desc->out_offset, &bytes) || bytes > INT64_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, NULL,
                                 "the output is larger than any file");
    muster_status status = output_find(desc->out, m->name, m->out_path, part, err);
    if (status != MUSTER_OK)
        return status;
    m->out_offset = desc->out_offset;
    m->out_bytes = bytes;
    status =
        output_create(&job->output, part, bytes, desc->out_head, (size_t)desc->out_offset, err);
    memcpy(m->out_part, part, strlen(part) + 1);
    return status;
}

/* Submitting. */

static void choose_name(struct muster_cluster_job *job, const struct muster_cluster_desc *desc)
{
    struct manifest *m = &job->manifest;
    const char *slash = strrchr(desc->kernels[0], '/');
    const char *base = slash ? slash + 1 : desc->kernels[0];
    snprintf(m->title, sizeof m->title, "%s", desc->title ? desc->title : base);
    for (char *at = m->title; *at; at++)
        if ((unsigned char)*at < ' ')
            *at = ' ';
    memcpy(m->user, job->cluster->user, sizeof m->user);
    if (desc->name) {
        snprintf(m->name, sizeof m->name, "%s", desc->name);
        return;
    }
    char word[24];
    size_t length =
        strspn(base, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_");
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(word, sizeof word, "%.*s", length > 0 && length < sizeof word ? (int)length : 3,
             length > 0 ? base : "job");
    uint64_t mixed = job->cluster->id ^ ((uint64_t)now.tv_sec << 20) ^ (uint64_t)now.tv_nsec;
    snprintf(m->name, sizeof m->name, "%s-%08llx", word,
             (unsigned long long)((mixed * UINT64_C(0x9e3779b97f4a7c15)) >> 32));
}

static muster_status create_key(struct muster_cluster_job *job, const char *key, const char *text,
                                size_t bytes, struct muster_error *err)
{
    uint64_t patience = platform_deadline_ns(CLUSTER_PATIENCE_NS);
    muster_status status;
    do
        status = job->cluster->transport->create(job->cluster->link, CLUSTER_JOBS, key, text, bytes,
                                                 err);
    while (cluster_again(job->cluster, status, patience));
    return status;
}

/* The stream of results, the first epoch, and then the description, with which it exists. */
static muster_status publish(struct muster_cluster_job *job, struct muster_error *err)
{
    const struct transport *t = job->cluster->transport;
    const struct manifest *m = &job->manifest;
    char stream[CLUSTER_KEY_BYTES], key[CLUSTER_KEY_BYTES], subjects[TRANSPORT_SUBJECT_BYTES],
        note[CLUSTER_NOTE_BYTES];
    char *text = malloc(MANIFEST_BYTES_MAX);
    if (!text)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a job");
    size_t bytes = manifest_print(m, text);
    cluster_result_stream(m->name, stream);
    snprintf(subjects, sizeof subjects, "muster.r.%s.>", m->name);
    const struct transport_stream results = {
        .name = stream,
        .subjects = subjects,
        .bytes_max =
            2 * (m->window + CLUSTER_BLOCK_GRAINS) * (m->grain * m->out_item_bytes + RESULT_EXTRA) +
            LATE_BYTES,
    };
    uint64_t patience = platform_deadline_ns(CLUSTER_PATIENCE_NS);
    muster_status status;
    do
        status = bytes > 0 ? t->stream(job->cluster->link, &results, err)
                           : muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, NULL,
                                               "the job's description does not fit");
    while (cluster_again(job->cluster, status, patience));
    if (status == MUSTER_OK && job->cluster->key.is_set)
        status = signature_append(text, &bytes, &job->cluster->key, err);
    cluster_epoch_key(m->name, 1, key);
    cluster_note_text(job->cluster, 0, false, note);
    if (status == MUSTER_OK)
        status = create_key(job, key, note, strlen(note), err);
    if (status == MUSTER_E_BUSY)
        status = muster_error_fill(err, MUSTER_E_BUSY, 0, "give another name, or --resume it",
                                   "the cluster has a job '%s' already", m->name);
    else if (status == MUSTER_OK)
        status = create_key(job, m->name, text, bytes, err);
    free(text);
    return status;
}

static muster_status prepare(struct muster_cluster_job *job, const struct muster_cluster_desc *desc,
                             struct muster_error *err)
{
    struct manifest *m = &job->manifest;
    if (!desc->kernels || desc->kernel_count == 0 || desc->items == 0 ||
        (desc->name && !manifest_name_is_good(desc->name)))
        return muster_error_fill(err, MUSTER_E_INVALID, 0,
                                 "names have letters, digits, '-' and '_', at most 63",
                                 "a job needs a kernel's file, items, and a name that can be one");
    choose_name(job, desc);
    m->is_through = desc->through != 0;
    m->items = desc->items;
    muster_status status = take_args(job->cluster, desc, m, err);
    if (status == MUSTER_OK)
        status = put_kernel(job->cluster, desc, m, err);
    if (status == MUSTER_OK)
        status = choose_sizes(job->cluster, desc, m, err);
    if (status == MUSTER_OK)
        status = open_input(job, desc, err);
    if (status == MUSTER_OK)
        status = open_output(job, desc, err);
    return status == MUSTER_OK ? publish(job, err) : status;
}

static struct muster_cluster_job *make_job(struct muster_cluster *cluster,
                                           const struct muster_cluster_desc *desc)
{
    struct muster_cluster_job *job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job->cluster = cluster;
    job->source = desc->source;
    job->sink = desc->sink;
    job->user = desc->user;
    job->in = -1;
    job->output.descriptor = -1;
    return job;
}

muster_status muster_cluster_submit(struct muster_cluster *cluster,
                                    const struct muster_cluster_desc *given,
                                    struct muster_cluster_job **out, struct muster_error *err)
{
    struct muster_cluster_desc desc;
    if (!cluster || !given || !out)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL, "no cluster, or nothing to run");
    muster_status status = layout_read(LAYOUT(muster_cluster_desc), given, &desc, err);
    if (status != MUSTER_OK)
        return status;
    struct muster_cluster_job *job = make_job(cluster, &desc);
    if (!job)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a job");
    job->epoch = 1;
    status = prepare(job, &desc, err);
    bool is_published = status == MUSTER_OK;
    if (status == MUSTER_OK)
        status = cluster_feed_start(job, err);
    if (status == MUSTER_OK) {
        *out = job;
        return MUSTER_OK;
    }
    output_drop(&job->output);
    if (job->in >= 0)
        close(job->in);
    if (is_published)
        cluster_remove(cluster, &job->manifest, 1);
    free(job);
    return status;
}

/* Resuming. */

static muster_status reopen(struct muster_cluster_job *job, struct muster_error *err)
{
    const struct manifest *m = &job->manifest;
    if (*m->in.path) {
        job->in = shared_open(&m->in);
        if (job->in < 0)
            return muster_error_fill(err, MUSTER_E_IO, 0, "cancel the job and submit it again",
                                     "%.160s is not the input that the job began with", m->in.path);
    } else if (!job->source) {
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "resume it where it was submitted",
                                 "the job '%s' has its input from its submitter", m->name);
    }
    if (*m->out_part)
        return output_open(&job->output, m->out_part, m->out_bytes, err);
    return job->sink
               ? MUSTER_OK
               : muster_error_fill(err, MUSTER_E_INVALID, 0, "resume it where it was submitted",
                                   "the job '%s' gives its output to its submitter", m->name);
}

/*
 * The last submitter has put the output in its place, and died before it could remove the job: its last
 * note, which it stores before that, says that all is delivered.
 */
static bool is_in_place(struct muster_cluster_job *job)
{
    struct cluster_notes notes;
    return job->in >= 0 && *job->manifest.out_part && access(job->manifest.out_part, F_OK) != 0 &&
           errno == ENOENT &&
           cluster_notes(job->cluster, job->manifest.name, &notes, NULL) == MUSTER_OK &&
           notes.grains == manifest_grains(&job->manifest);
}

/*
 * The next epoch is this submitter's, and nobody else's. A job has an epoch before it has a description,
 * and its end is noted before anything of it is removed: without an epoch, or with an end before the last
 * grain, there is nothing to go on with. Who has noted the end of a whole output may have died before it
 * was in its place: that is done again.
 */
static muster_status take_epoch(struct muster_cluster_job *job, struct muster_error *err)
{
    const char *name = job->manifest.name;
    uint64_t patience = platform_deadline_ns(CLUSTER_PATIENCE_NS);
    muster_status status = MUSTER_E_BUSY;
    while (status == MUSTER_E_BUSY || cluster_again(job->cluster, status, patience)) {
        struct cluster_notes notes;
        char key[CLUSTER_KEY_BYTES], note[CLUSTER_NOTE_BYTES];
        status = cluster_notes(job->cluster, name, &notes, err);
        if (status != MUSTER_OK)
            continue;
        if (notes.epoch == 0 || (notes.is_over && notes.grains < manifest_grains(&job->manifest)))
            return muster_error_fill(err, MUSTER_E_NOT_FOUND, 0, "see: muster jobs",
                                     "the cluster has no job '%s': it is over", name);
        job->begin = notes.grains;
        job->epoch = notes.epoch + 1;
        cluster_epoch_key(name, job->epoch, key);
        cluster_note_text(job->cluster, job->begin, false, note);
        status = job->cluster->transport->create(job->cluster->link, CLUSTER_JOBS, key, note,
                                                 strlen(note), err);
    }
    return status;
}

/* Who has a key goes on with what that key has signed: others could name any file as the output. */
static muster_status read_own(struct muster_cluster *cluster, const char *name,
                              struct manifest *out, struct muster_error *err)
{
    struct trust own = { .is_any = !cluster->key.is_set };
    struct muster_error why;
    memcpy(own.text, cluster->key.name, sizeof cluster->key.name);
    muster_status status = cluster_manifest_trusted(cluster, name, &own, out, &why);
    if (status == MUSTER_E_DENIED)
        return muster_error_fill(err, status, 0, "resume it with the key that submitted it",
                                 "this key cannot go on with '%s': %.150s", name, why.text);
    if (status != MUSTER_OK && err)
        *err = why;
    return status;
}

muster_status muster_cluster_resume(struct muster_cluster *cluster, const char *name,
                                    const struct muster_cluster_desc *given, uint64_t *begin,
                                    struct muster_cluster_job **out, struct muster_error *err)
{
    struct muster_cluster_desc desc = { .size = sizeof desc };
    if (!cluster || !name || !out)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL, "no cluster, or no name of a job");
    muster_status status =
        given ? layout_read(LAYOUT(muster_cluster_desc), given, &desc, err) : MUSTER_OK;
    if (status != MUSTER_OK)
        return status;
    struct muster_cluster_job *job = make_job(cluster, &desc);
    if (!job)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a job");
    uint64_t patience = platform_deadline_ns(CLUSTER_PATIENCE_NS);
    do
        status = read_own(cluster, name, &job->manifest, err);
    while (cluster_again(cluster, status, patience));
    if (status == MUSTER_OK) {
        status = reopen(job, err);
        if (status == MUSTER_E_IO && is_in_place(job))
            status = MUSTER_OK;
    }
    if (status == MUSTER_OK)
        status = take_epoch(job, err);
    if (status == MUSTER_OK)
        status = cluster_feed_start(job, err);
    if (status != MUSTER_OK) {
        output_close(&job->output);
        if (job->in >= 0)
            close(job->in);
        free(job);
        return status;
    }
    if (begin)
        *begin = lesser(job->begin * job->manifest.grain, job->manifest.items);
    *out = job;
    return MUSTER_OK;
}
