/*
 * What the portable form's C gives beside an entry NAME, for launches whose arguments do not overlap:
 *
 *     muster_status muster_apart_NAME(uint64_t begin, uint64_t end, void *const *args)
 *     const uint32_t muster_written_NAME
 *     const uint32_t muster_bytes_NAME[]
 *
 * The function does the same as NAME, and its pointers are `restrict`: the compiler may compute many
 * items at once. Bit i of the number is set if argument i may be written. The function may be called
 * where the memory of each such argument overlaps that of no other. muster_bytes_NAME has the size of
 * each value, and for each pointer that of an element.
 */
#ifndef BASE_APART_H
#define BASE_APART_H

#define APART_PREFIX "muster_apart_"
#define APART_WRITTEN_PREFIX "muster_written_"
#define APART_BYTES_PREFIX "muster_bytes_"

#endif
