/*
 * The lowest and the highest item and where each is. Of equal items the first counts; NaNs do not. The
 * place of no items at all is 2^64 - 1.
 *     muster reduce --kernel extremes.c --in samples.f32
 */
#include <muster_kernel.h>

#define NOWHERE 0xffffffffffffffffu

struct extremes {
    uint64_t lowest_at, highest_at;
    float lowest, highest;
};

static inline void take_lowest(MUSTER_PARTIAL struct extremes *found, float value, uint64_t at)
{
    if (at != NOWHERE && (found->lowest_at == NOWHERE || value < found->lowest ||
                          (value == found->lowest && at < found->lowest_at))) {
        found->lowest = value;
        found->lowest_at = at;
    }
}

static inline void take_highest(MUSTER_PARTIAL struct extremes *found, float value, uint64_t at)
{
    if (at != NOWHERE && (found->highest_at == NOWHERE || value > found->highest ||
                          (value == found->highest && at < found->highest_at))) {
        found->highest = value;
        found->highest_at = at;
    }
}

MUSTER_IDENTITY void extremes_identity(MUSTER_PARTIAL struct extremes *found)
{
    found->lowest_at = found->highest_at = NOWHERE;
    found->lowest = found->highest = 0.0f;
}

MUSTER_KERNEL void extremes(uint64_t i, uint64_t first, MUSTER_GLOBAL const float *x,
                            MUSTER_PARTIAL struct extremes *found)
{
    uint64_t at = x[i] == x[i] ? first + i : NOWHERE;
    take_lowest(found, x[i], at);
    take_highest(found, x[i], at);
}

MUSTER_COMBINE void extremes_combine(MUSTER_PARTIAL struct extremes *into,
                                     MUSTER_PARTIAL const struct extremes *from)
{
    take_lowest(into, from->lowest, from->lowest_at);
    take_highest(into, from->highest, from->highest_at);
}
