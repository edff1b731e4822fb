/*
 * The last line of a job's description: who has submitted it, and the signature of all lines before.
 */
#ifndef CLUSTER_SIGNATURE_H
#define CLUSTER_SIGNATURE_H

#include "cluster/key.h"
#include "cluster/manifest.h"

/* Appends the line. MUSTER_E_TOO_LARGE: there is no room for it. */
muster_status signature_append(char text[MANIFEST_BYTES_MAX], size_t *bytes,
                               const struct cluster_key *key, struct muster_error *err);

/*
 * `signer`: whose signature it is, "" if there is none. MUSTER_E_DENIED: there is none, or it is not
 * that key's of exactly these lines; `err` says which.
 */
muster_status signature_check(const char *text, size_t bytes, char signer[NKEY_PUBLIC_TEXT_BYTES],
                              struct muster_error *err);

#endif
