/*
 * Files on storage that several machines see: which file is meant, and whether what lies at its path
 * here is that file.
 */
#ifndef CLUSTER_SHARED_H
#define CLUSTER_SHARED_H

#include <muster/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHARED_PATH_BYTES 1024
#define SHARED_ENDS_BYTES 65536

struct shared_file {
    char path[SHARED_PATH_BYTES]; /* absolute; "": none */
    uint64_t bytes, time_ns;      /* and when it was changed */
    char ends[65];                /* SHA-256 of its first and last SHARED_ENDS_BYTES, as text */
};

/* MUSTER_E_IO: it cannot be read. A pipe is MUSTER_E_NOT_SUPPORTED. */
muster_status shared_describe(const char *path, struct shared_file *out, struct muster_error *err);
/* Opens the file if it is the one described, else gives -1. */
int shared_open(const struct shared_file *file);
/* All of it, or MUSTER_E_IO. Interrupted calls go on. */
muster_status shared_read(int descriptor, uint64_t at, void *to, size_t bytes,
                          struct muster_error *err);
muster_status shared_write(int descriptor, uint64_t at, const void *from, size_t bytes,
                           struct muster_error *err);
void shared_hash(const void *bytes, size_t size, char text[65]);

#endif
