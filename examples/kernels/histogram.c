/* How often each byte occurs:  muster reduce --kernel histogram.c --in FILE */
#include <muster_kernel.h>

struct histogram {
    uint64_t bins[256];
};

MUSTER_KERNEL void histogram(uint64_t i, MUSTER_GLOBAL const uint8_t *bytes,
                             MUSTER_PARTIAL struct histogram *counts)
{
    counts->bins[bytes[i]]++;
}

MUSTER_COMBINE void histogram_combine(MUSTER_PARTIAL struct histogram *into,
                                      MUSTER_PARTIAL const struct histogram *from)
{
    for (uint32_t k = 0; k < 256; k++)
        into->bins[k] += from->bins[k];
}
