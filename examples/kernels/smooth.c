/*
 * A low-pass filter for many channels at once: an item is a channel, and the filter's memory of it is
 * left for the samples that come next. Samples of one moment lie side by side.
 */
#include <muster_kernel.h>

MUSTER_KERNEL void smooth(uint64_t channel, MUSTER_GLOBAL const int32_t *in,
                          MUSTER_GLOBAL int32_t *memory, MUSTER_GLOBAL int32_t *out,
                          uint32_t channels, uint32_t moments)
{
    int32_t level = memory[channel];
    uint32_t k;
    for (k = 0; k < moments; k++) {
        level += (in[k * channels + channel] - level) / 8;
        out[k * channels + channel] = level;
    }
    memory[channel] = level;
}
