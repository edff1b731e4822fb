/*
 * A file that is written aside and put in its place when it is whole: a failure leaves what was
 * there before, and nothing half done beside it.
 */
#ifndef PLATFORM_ASIDE_H
#define PLATFORM_ASIDE_H

#include <muster/status.h>
#include <stdbool.h>

#define PLATFORM_PATH_MAX 4096

struct platform_aside {
    int descriptor;
    const char *path;                  /* borrowed until commit or discard */
    char temporary[PLATFORM_PATH_MAX]; /* what it is called meanwhile; "": it is written in place */
    size_t target_length;              /* of it: the name it gets */
    bool is_unnamed; /* it has the temporary name only while it is put in its place */
    bool must_sync;  /* set by the owner: commit waits until the disk has it, and its name */
};

/* On failure there is nothing to discard. A link is followed; a pipe or socket is refused. */
muster_status platform_aside_open(struct platform_aside *file, const char *path,
                                  struct muster_error *err);
/* The same over whatever has that name: a link, which others may have put there, is replaced. */
muster_status platform_aside_open_over(struct platform_aside *file, const char *path,
                                       struct muster_error *err);
/*
 * As platform_aside_open, and until commit it has no name where the file system allows that: a
 * process that is killed leaves nothing behind.
 */
muster_status platform_aside_open_unnamed(struct platform_aside *file, const char *path,
                                          struct muster_error *err);
muster_status platform_aside_write(struct platform_aside *file, const void *bytes, size_t count,
                                   struct muster_error *err);
/* Puts it in its place; on failure it is discarded. */
muster_status platform_aside_commit(struct platform_aside *file, struct muster_error *err);
void platform_aside_discard(struct platform_aside *file);

#endif
