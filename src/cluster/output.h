/*
 * The output of a job while it is incomplete: a file beside its place, which lives on when the
 * submitter dies, and which other machines may write into.
 */
#ifndef CLUSTER_OUTPUT_H
#define CLUSTER_OUTPUT_H

#include "cluster/manifest.h"

struct cluster_output {
    int descriptor; /* -1: none */
    char part[SHARED_PATH_BYTES];
};

/* Where the output will be and what it is called until then, as absolute paths. */
muster_status output_find(const char *path, const char *job, char out[SHARED_PATH_BYTES],
                          char part[SHARED_PATH_BYTES], struct muster_error *err);
/* A new file with room for `bytes`, which begins with `head`. */
muster_status output_create(struct cluster_output *output, const char *part, uint64_t bytes,
                            const void *head, size_t head_bytes, struct muster_error *err);
/* The one that was there. MUSTER_E_IO: it is gone, or has another size. */
muster_status output_open(struct cluster_output *output, const char *part, uint64_t bytes,
                          struct muster_error *err);
muster_status output_sync(struct cluster_output *output, struct muster_error *err);
/* Puts it in its place. */
muster_status output_finish(struct cluster_output *output, const char *path,
                            struct muster_error *err);
void output_close(struct cluster_output *output);
/* Closes and removes it. */
void output_drop(struct cluster_output *output);

#endif
