/*
 * A file that is written aside and put in its place when it is whole: a failure leaves what was
 * there before, and nothing half done beside it.
 */
#ifndef CLI_ASIDE_H
#define CLI_ASIDE_H

#include "output.h"

struct aside {
    struct output out; /* what is to be in the file */
    const char *path;  /* borrowed, for messages */
    char *target;      /* owns: the path with links followed */
    char *temporary;   /* owns: what it is called meanwhile */
    bool has_name;     /* the temporary name is taken; else the file has none yet */
    bool is_in_place;  /* a pipe or a terminal, which cannot be replaced */
};

/* False if that cannot be; it has then been told on stderr, and there is nothing to discard. */
bool aside_open(struct aside *aside, const char *path);

/* Puts the file in its place. False if it is not whole; that has been told, and it is discarded. */
bool aside_commit(struct aside *aside);

void aside_discard(struct aside *aside);

#endif
