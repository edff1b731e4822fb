/*
 * A file that appears in its place when it is whole (muster_output), with what is to be in it.
 */
#ifndef CLI_ASIDE_H
#define CLI_ASIDE_H

#include "output.h"

struct muster_output;

struct aside {
    struct output out; /* what is to be in the file */
    const char *path;  /* borrowed, for messages */
    struct muster_output *file;
};

/* False if that cannot be; it has then been reported on stderr, and there is nothing to discard. */
bool aside_open(struct aside *aside, const char *path);

/* Puts the file in its place. False if it is not whole; stderr has said why, and it is discarded. */
bool aside_commit(struct aside *aside);

void aside_discard(struct aside *aside);

#endif
