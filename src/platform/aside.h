/*
 * Writes a file under no name, or a temporary one, and gives it its name when it is whole. After a
 * failure the old file is unchanged and no temporary file is left. Where the file system allows
 * files without a name (O_TMPFILE), a killed process leaves nothing either.
 *
 * A file that is replaced keeps its permissions (no set-user-ID, set-group-ID or sticky bit), and
 * its owner and group where the process may give files away. Where it may not, nobody gets more
 * access than they had: the group's permissions are cut to what others have. Other hard links keep
 * the old content.
 *
 * A terminal or the like is written in place, and so is a descriptor of this process by its name
 * (/dev/stdout, /dev/fd/3): through that descriptor, from where it stands.
 */
#ifndef PLATFORM_ASIDE_H
#define PLATFORM_ASIDE_H

#include "platform/temporary.h"

#include <limits.h>
#include <muster/status.h>

/* How to open it: any of these, or 0. */
enum {
    PLATFORM_ASIDE_OVER =
        1, /* a link, which another user may have made, is replaced, not followed */
    PLATFORM_ASIDE_PIPES = 2 /* pipes and sockets are written in place; else they are refused */
};

struct platform_aside {
    int descriptor;
    const char *path;             /* borrowed until commit or discard */
    int folder;                   /* owns: where it gets its name; -1: it is written in place */
    char name[NAME_MAX + 1];      /* that name */
    char temporary[NAME_MAX + 1]; /* what it is called meanwhile; "": it has no name */
    bool is_prepared;
    bool must_sync; /* set by the caller: commit waits until file and name are on the disk */
    struct platform_temporary thing;
};

/*
 * On failure there is nothing to discard. A link is followed, also one to a file that is not there
 * yet. The struct stays where it is until commit or discard. A pipe waits for its reader.
 */
muster_status platform_aside_open(struct platform_aside *file, const char *path, unsigned how,
                                  struct muster_error *err);
muster_status platform_aside_write(struct platform_aside *file, const void *bytes, size_t count,
                                   struct muster_error *err);
/*
 * All that commit does but the last step, the right name: so that several files get theirs, or none does.
 * On failure discards it. Nothing can be written any more.
 */
muster_status platform_aside_prepare(struct platform_aside *file, struct muster_error *err);
/* Gives the file its name; on failure discards it. */
muster_status platform_aside_commit(struct platform_aside *file, struct muster_error *err);
void platform_aside_discard(struct platform_aside *file);

#endif
