/*
 * The built-in job `map`: a kernel over the records of a file, or over the pictures of a video, on
 * every device, with the results in another file, in order and complete or not there at all.
 */
#ifndef JOBS_MAP_H
#define JOBS_MAP_H

#include <muster/muster.h>
#include <stdbool.h>

struct map;

enum map_format {
    MAP_DETECTED = 0, /* video if the input begins like one, else records */
    MAP_RECORDS,
    MAP_VIDEO
};

/* What becomes of bytes after the last whole record. */
enum map_rest {
    MAP_REST_REFUSED = 0,
    MAP_REST_KEPT,    /* they follow the results as they are */
    MAP_REST_DROPPED, /* they are left out */
    MAP_REST_PADDED   /* zeros make them a record */
};

struct map_options {
    const char *const *kernels; /* files with forms of it */
    size_t kernel_count;
    const char *entry; /* NULL: the only one there is */
    /*
     * "-": standard input, standard output. "NAME=FILE" if the kernel has a pointer of that name. An
     * output whose name ends in .npy is written as one.
     */
    const char *in, *out;
    const char *const *more_ins, *const *more_outs; /* the same; the inputs are files */
    size_t more_in_count, more_out_count;
    const char *const *tables; /* "NAME=FILE": files that each item sees whole */
    size_t table_count;
    uint64_t skip; /* bytes before the first record of the first input */
    enum map_rest rest;
    uint32_t width, height, depth; /* of the grid; 0: none, or as the input has it */
    enum muster_border border;
    uint32_t planes; /* of a video, bits: those that the kernel changes; 0: all */
    enum map_format format;
    size_t item_bytes, out_item_bytes; /* of records; 0: as the kernel's source has it */
    uint64_t halo;                     /* in records, in frames, or in cells */
    const char *const *arguments;      /* "name=value" */
    size_t argument_count;
    struct muster_run_options run; /* units and window in records, or in frames */
    bool is_for_cluster; /* no output is opened: map_describe follows, and not map_start */
};

/* What a failure is about. */
enum map_part { MAP_KERNEL, MAP_INPUT, MAP_OUTPUT, MAP_DEVICES };

/* What the job turned out to be. */
struct map_facts {
    bool is_video;
    uint32_t width, height;
    uint64_t bytes; /* of all items, of a video by its size; MUSTER_ITEMS_UNKNOWN */
    size_t item_bytes, out_item_bytes;
};

/*
 * Reads the kernel and opens the files, in that order; waits for the other end of a pipe. All text is
 * borrowed until map_start. `*part` is set on failure.
 */
muster_status map_create(struct muster *m, const struct map_options *options, struct map **out,
                         enum map_part *part, struct muster_error *err);

/* With the same options. Does not wait for the job. A failure is about MAP_DEVICES. */
muster_status map_start(struct map *map, const struct map_options *options,
                        struct muster_error *err);

/* What a cluster must know. Borrows from the map and the options; `kernels` and more is the caller's. */
struct map_cluster {
    struct muster_cluster_desc desc;
    struct muster_arg args[MUSTER_ARGS_MAX];
    char head[65536]; /* of an output that is a .npy file */
};

/* MUSTER_E_NOT_SUPPORTED: only one machine does this. */
muster_status map_describe(struct map *map, const struct map_options *options,
                           struct map_cluster *out, struct muster_error *err);

void map_facts(const struct map *map, struct map_facts *out);
/* For progress and reports, after map_start; both stay until the map is destroyed. */
struct muster_job *map_job(const struct map *map);
struct muster_file *map_file(const struct map *map, bool is_output);

/* Any thread, between map_create and map_destroy: map_wait and map_finish end soon. */
void map_cancel(struct map *map);

/*
 * Waits for the job, and then for the files. With a failure nothing is left of the output, unless
 * that is a pipe. MUSTER_E_CANCELLED: map_cancel was called. MUSTER_E_DEVICE_HUNG is no failure if
 * map_is_complete: a device does not answer, and others have done all there was to do.
 */
muster_status map_wait(struct map *map, struct muster_report *report, enum map_part *part,
                       struct muster_error *err);
bool map_is_complete(muster_status status, const struct muster_report *report);
muster_status map_finish(struct map *map, enum map_part *part, struct muster_error *err);

/* Before the runtime is closed. NULL is allowed. */
void map_destroy(struct map *map);

#endif
