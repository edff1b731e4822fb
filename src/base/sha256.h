/*
 * SHA-256 (FIPS 180-4): names what was compiled by its content, and tells a damaged file from a
 * whole one.
 */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32

struct sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
};

void sha256_init(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *data, size_t bytes);
/* With its length in front, so that "ab" + "c" and "a" + "bc" are two things. */
void sha256_add_field(struct sha256 *hash, const void *data, size_t bytes);
void sha256_add_text(struct sha256 *hash, const char *text);
/* Ends it; the hash can be used again after another init. */
void sha256_finish(struct sha256 *hash, uint8_t out[SHA256_BYTES]);

#endif
