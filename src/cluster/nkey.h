/*
 * The text forms of NATS's keys for users: "U..." names a key, "SU..." is the secret that it comes from.
 * Base32 of a byte for the kind, 32 bytes of Ed25519, and a checksum, so that a slip is refused.
 */
#ifndef CLUSTER_NKEY_H
#define CLUSTER_NKEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NKEY_BYTES 32
/* With the zero byte. */
#define NKEY_PUBLIC_TEXT_BYTES 57
#define NKEY_SEED_TEXT_BYTES 59

/* False, and `out` untouched, unless all of the text is such a key. */
bool nkey_read_public(const char *text, uint8_t out[NKEY_BYTES]);
bool nkey_read_seed(const char *text, uint8_t out[NKEY_BYTES]);
void nkey_print_public(const uint8_t key[NKEY_BYTES], char out[NKEY_PUBLIC_TEXT_BYTES]);
void nkey_print_seed(const uint8_t seed[NKEY_BYTES], char out[NKEY_SEED_TEXT_BYTES]);

#endif
