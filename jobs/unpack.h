/*
 * What a compressed file holds: gzip by zlib, zstd by its own library, both loaded when the first such
 * file is met. Several members or frames one after the other are one text.
 */
#ifndef JOBS_UNPACK_H
#define JOBS_UNPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* This many bytes tell what a file is. */
#define UNPACK_MAGIC_BYTES 4

enum unpack_kind { UNPACK_NOT, UNPACK_GZIP, UNPACK_ZSTD };

/* By the first bytes, as many as there are. */
enum unpack_kind unpack_kind(const uint8_t *bytes, size_t count);

struct unpack;

/*
 * Reads from the descriptor, borrowed, from where it stands; `begin` is what has been read of it
 * already. UNPACK_NOT: the text as it is. NULL: it cannot be done, and `why` says so and what to install.
 */
struct unpack *unpack_open(int descriptor, enum unpack_kind kind, const uint8_t *begin,
                           size_t begin_bytes, char *why, size_t why_bytes);

/* Some more of the text; 0: its end; -1: it cannot be read, and `why` says so. */
int64_t unpack_read(struct unpack *unpack, void *to, size_t bytes, char *why, size_t why_bytes);

/* NULL is allowed. */
void unpack_close(struct unpack *unpack);

#endif
