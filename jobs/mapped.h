/*
 * A file that is read as an array, or as a table: in memory as it is on the disk, without its header if
 * it is a .npy file.
 */
#ifndef JOBS_MAPPED_H
#define JOBS_MAPPED_H

#include "npy.h"

struct mapped {
    void *memory; /* owns: the pages; NULL: there are none */
    size_t memory_bytes;
    const char *bytes; /* borrowed of them: what follows the header */
    size_t count;
    bool is_npy;
    struct npy npy;
};

/* MUSTER_E_NOT_FOUND, MUSTER_E_IO; MUSTER_E_INVALID: a pipe. The file must not get shorter meanwhile. */
muster_status mapped_open(struct mapped *mapped, const char *path, struct muster_error *err);
void mapped_close(struct mapped *mapped);

#endif
