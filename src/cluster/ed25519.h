/*
 * Signatures, by OpenSSL's libcrypto, which is loaded when the first key is used: nobody without keys
 * needs it. MUSTER_E_NOT_FOUND of all calls: it is not there, and `err` says what to install.
 */
#ifndef CLUSTER_ED25519_H
#define CLUSTER_ED25519_H

#include <muster/status.h>

#define ED25519_KEY_BYTES 32
#define ED25519_SIGNATURE_BYTES 64

/* Whether there is a libcrypto. */
muster_status ed25519_load(struct muster_error *err);
/* The public key of a secret one, which is any 32 random bytes. */
muster_status ed25519_public(const uint8_t secret[ED25519_KEY_BYTES],
                             uint8_t out[ED25519_KEY_BYTES], struct muster_error *err);
muster_status ed25519_sign(const uint8_t secret[ED25519_KEY_BYTES], const void *bytes, size_t size,
                           uint8_t out[ED25519_SIGNATURE_BYTES], struct muster_error *err);
/* MUSTER_E_DENIED: it is not this key's signature of these bytes. */
muster_status ed25519_verify(const uint8_t key[ED25519_KEY_BYTES], const void *bytes, size_t size,
                             const uint8_t signature[ED25519_SIGNATURE_BYTES],
                             struct muster_error *err);

#endif
