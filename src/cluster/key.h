/*
 * This process's key: a file with a seed of NATS's, which lets it in at the servers and signs what it
 * submits.
 */
#ifndef CLUSTER_KEY_H
#define CLUSTER_KEY_H

#include "cluster/ed25519.h"
#include "cluster/nkey.h"

struct cluster_key {
    bool is_set;
    char name[NKEY_PUBLIC_TEXT_BYTES]; /* the public key, "U..." */
    uint8_t secret[ED25519_KEY_BYTES];
};

/*
 * MUSTER_E_DENIED: others may read the file. MUSTER_E_PARSE: there is no seed in it. A file may have
 * comments; its first line that begins with S counts.
 */
muster_status cluster_key_read(const char *path, struct cluster_key *out, struct muster_error *err);
void cluster_key_forget(struct cluster_key *key);

#endif
