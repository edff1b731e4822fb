/*
 * A map while it is open, for the files that make it: map.c, and map_cluster.c, which describes it to
 * other machines.
 */
#ifndef JOBS_MAP_STATE_H
#define JOBS_MAP_STATE_H

#include "binding.h"
#include "map.h"
#include "mapped.h"
#include "video.h"

#include <stdatomic.h>

struct map {
    struct muster *m;             /* borrowed */
    struct muster_kernel *kernel; /* owns, as all that follows */
    struct muster_file *in, *out; /* the first of each */
    struct muster_file *more_outs[MUSTER_ARGS_MAX];
    size_t out_count;                      /* of all */
    struct mapped mapped[MUSTER_ARGS_MAX]; /* the other inputs, then tables */
    muster_data tables[MUSTER_ARGS_MAX];
    size_t input_count, table_count; /* of all inputs */
    struct binding_file inputs[MUSTER_ARGS_MAX], outputs[MUSTER_ARGS_MAX],
        named_tables[MUSTER_ARGS_MAX];
    _Atomic(struct muster_job *) job; /* set by map_start, which map_cancel may come before */
    atomic_bool is_cancelled;
    struct binding binding;
    uint64_t items;    /* as the job counts them */
    uint64_t in_bytes; /* of the input; MUSTER_ITEMS_UNKNOWN */
    bool is_video, has_video;
    struct video video;
    bool is_npy, is_npy_pipe; /* the input; through a pipe */
    struct npy npy;
    const char *input_is; /* for messages; NULL: nothing special */
    enum map_rest rest;
    bool reads_in_order; /* the last record may be short */
    char *tail;          /* bytes of it that are kept */
    size_t tail_bytes;
    /* What was read of the input to see what it is, and stands before the rest. */
    char begin[sizeof Y4M_MAGIC - 1];
    size_t begin_bytes;
    struct muster_error problem; /* with records; its status is 0 if there was none */
};

/* Which pointer of the kernel's the file is for, by the name before its path, and that path. */
const char *map_split_name(const struct muster_kernel *kernel, const char *text,
                           struct binding_file *file);
bool map_ends_in_npy(const char *path);
/* What a .npy file is to hold: items of the output's elements, in the shape of the input. */
muster_status map_describe_output(const struct map *map, size_t index, struct npy *npy,
                                  struct muster_error *err);
bool map_takes_cells(const struct map *map);

#endif
