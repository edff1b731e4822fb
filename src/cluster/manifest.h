/*
 * What the machines of a fleet must know of a job, as the text that is stored under its name: lines of
 * "key value". Written once and never changed; what is read came over a network, so each line is
 * checked, and unknown ones are refused by name. A last line may have a signature of all others, which
 * the process that wants to know checks by itself.
 */
#ifndef CLUSTER_MANIFEST_H
#define CLUSTER_MANIFEST_H

#include "cluster/shared.h"

#include <muster/job.h>

#define MANIFEST_VERSION 1
#define MANIFEST_NAME_BYTES 64
#define MANIFEST_BYTES_MAX 32768
#define MANIFEST_HASH_BYTES 65       /* SHA-256 as text */
#define MANIFEST_SIGNATURE_BYTES 186 /* what follows "signed " in the last line (signature.h) */

struct manifest_object {
    char hash[MANIFEST_HASH_BYTES];
    uint64_t bytes;
};

/* An argument of the kernel: MUSTER_ARG_SOURCE, _OUT, _VALUE or _ALL. */
struct manifest_arg {
    enum muster_arg_kind kind;
    enum muster_element element;
    uint64_t bytes; /* of one item, or of the value */
    unsigned char value[MUSTER_ARG_BYTES_MAX];
    struct manifest_object table;
};

struct manifest {
    char name[MANIFEST_NAME_BYTES]; /* of the job: letters, digits, '-' and '_' */
    char title[128], user[64];      /* for lists */
    char entry[64];                 /* of the kernel; "": the only one */
    struct manifest_object kernel;  /* a bundle */
    uint64_t items, grain, window;  /* grain in items, window in grains */
    uint32_t tries, weight;
    struct manifest_arg args[MUSTER_ARGS_MAX];
    size_t arg_count;
    uint64_t item_bytes, out_item_bytes; /* of the source and of the output */
    /* Where the machines may find the input themselves; path "": the submitter gives it. */
    struct shared_file in;
    uint64_t in_offset;
    /* The output's file while it is incomplete, and where it is put then; "": a sink has it. */
    char out_part[SHARED_PATH_BYTES], out_path[SHARED_PATH_BYTES];
    bool is_through;                /* both paths are for submitters alone */
    uint64_t out_offset, out_bytes; /* bytes before the first item, and of the whole */
};

/* Bytes without the terminator, or 0 if there is no room. */
size_t manifest_print(const struct manifest *manifest, char text[MANIFEST_BYTES_MAX]);
/* MUSTER_E_PARSE, with the line; MUSTER_E_VERSION: of another version, named. */
muster_status manifest_read(const char *text, size_t bytes, struct manifest *out,
                            struct muster_error *err);
bool manifest_name_is_good(const char *name);
/* The number of grains. */
uint64_t manifest_grains(const struct manifest *manifest);
/* The items of a grain. */
struct muster_range manifest_grain(const struct manifest *manifest, uint64_t grain);

#endif
