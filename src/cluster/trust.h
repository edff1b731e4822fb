/*
 * Whose jobs a worker runs.
 */
#ifndef CLUSTER_TRUST_H
#define CLUSTER_TRUST_H

#include "cluster/manifest.h"

struct trust {
    bool is_any; /* of everybody whom the servers let submit, signed or not */
    char text
        [SHARED_PATH_BYTES]; /* else: keys with commas between them, or the path of a file with one in each line */
};

/* "any", a key, several with commas, or a path. MUSTER_E_PARSE, MUSTER_E_IO: it cannot be used, and why. */
muster_status trust_init(struct trust *trust, const char *text, struct muster_error *err);

/*
 * Whether a description as it is stored is signed by somebody who is trusted. The file is read again
 * each time, so that who is added or taken out counts from the next job on. MUSTER_E_DENIED: no, and
 * why not.
 */
muster_status trust_check(const struct trust *trust, const char *text, size_t bytes,
                          struct muster_error *err);

#endif
