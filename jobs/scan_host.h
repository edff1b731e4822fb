/*
 * The kernel's functions for the host, and how it reads 4 bytes of text.
 */
#ifndef JOBS_SCAN_HOST_H
#define JOBS_SCAN_HOST_H

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#include "scan_kernel.c"

#include <string.h>

static inline uint32_t scan_load(const uint8_t *text)
{
    uint32_t key;
    memcpy(&key, text, sizeof key);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    key = __builtin_bswap32(key);
#endif
    return key;
}
#pragma GCC diagnostic pop

#endif
