/*
 * How many letters must be inserted, removed or replaced to make one word of the other; an item is a
 * pair of words of 32 letters.
 */
#include <muster_kernel.h>

#define LETTERS 32

MUSTER_KERNEL void edit_distance(uint64_t i, MUSTER_GLOBAL const uint8_t *left,
                                 MUSTER_GLOBAL const uint8_t *right,
                                 MUSTER_GLOBAL uint32_t *distance)
{
    /* One row of the usual table: row[k] is the distance to the first k letters of `right`. */
    uint32_t row[LETTERS + 1];
    for (uint32_t k = 0; k <= LETTERS; k++)
        row[k] = k;
    for (uint32_t n = 0; n < LETTERS; n++) {
        uint32_t letter = left[i * LETTERS + n], diagonal = n;
        row[0] = n + 1;
        for (uint32_t k = 1; k <= LETTERS; k++) {
            uint32_t replaced = diagonal + (letter != right[i * LETTERS + k - 1]);
            diagonal = row[k];
            row[k] = muster_min(replaced, muster_min(diagonal, row[k - 1]) + 1);
        }
    }
    distance[i] = row[LETTERS];
}
