/*
 * Items of a source whose bytes tell which they are, and the kernel that says whether it got them all:
 * for tests of jobs with a source.
 */
#ifndef TESTS_UNIT_SOURCE_ITEMS_H
#define TESTS_UNIT_SOURCE_ITEMS_H

#include <muster/status.h>
#include <stddef.h>
#include <stdint.h>

/* What item i of a source consists of: bytes that tell the item and the place in it. */
static inline unsigned char item_byte(uint64_t item, size_t at)
{
    return (unsigned char)(item * 31 + item / 251 + at * 7 + 1);
}

/* Arguments: SOURCE, VALUE size_t, OUT uint64_t, FIRST. The sum says whether all bytes are right. */
static inline uint64_t digest_item(const unsigned char *bytes, size_t count, uint64_t item)
{
    uint64_t sum = item;
    for (size_t i = 0; i < count; i++)
        sum = sum * UINT64_C(1099511628211) + bytes[i];
    return sum;
}

static inline muster_status digest(uint64_t begin, uint64_t end, void *const *args)
{
    const unsigned char *in = *(const unsigned char *const *)args[0];
    size_t item_bytes = *(const size_t *)args[1];
    uint64_t *out = *(uint64_t *const *)args[2], first = *(const uint64_t *)args[3];
    for (uint64_t i = begin; i < end; i++)
        out[i] = digest_item(in + i * item_bytes, item_bytes, first + i);
    return MUSTER_OK;
}

#endif
