/*
 * Files as one text that can be read at any place, with a newline behind each, as inputs.h has it: for a scan
 * on many machines. The files are found and measured once, at the start; one that has become shorter
 * since is an error.
 */
#ifndef JOBS_TEXTS_H
#define JOBS_TEXTS_H

#include "inputs.h"

#include <muster/status.h>

struct text {
    struct input input;
    uint64_t begin, end; /* in the whole; the newline is at `end` */
};

/* One thread's place: the file that it read last stays open. */
struct text_reader {
    size_t index;
    int descriptor; /* -1: none is open */
};

struct texts {
    struct text **list; /* owns, as what it points to */
    size_t count, capacity;
    uint64_t bytes; /* of the whole, with the newlines */
    size_t next;    /* texts_next gives it */
};

/*
 * Finds the files. `trouble` is told of those that cannot be read. MUSTER_E_NOT_SUPPORTED: one is no file
 * (a pipe), which `why` names.
 */
muster_status texts_init(struct texts *texts, const struct tree_options *tree, int output,
                         void (*trouble)(void *user, const char *path, const char *why), void *user,
                         char *why, size_t why_bytes);
void texts_deinit(struct texts *texts);

/* The text from byte `at` of the whole on. NULL, or why it cannot be read. */
const char *texts_read(const struct texts *texts, struct text_reader *reader, uint64_t at, void *to,
                       size_t bytes);
void text_reader_close(struct text_reader *reader);

/* One after the other; NULL: there is none. */
struct input *texts_next(struct texts *texts);

#endif
