/*
 * Numbers of bytes as people read them.
 */
#ifndef CLI_BYTES_H
#define CLI_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* "512 B", "23.4 GiB": powers of 1024, one digit after the point. */
void bytes_format(uint64_t bytes, char *text, size_t size);

#endif
