/*
 * The ten largest items and where they are, the largest first; of equal items the first. `count` of them
 * are there. NaNs are left out.
 */
#include <muster_kernel.h>

#define TOP 10

struct top {
    uint64_t at[TOP];
    float value[TOP];
    uint32_t count;
};

static inline void insert(MUSTER_PARTIAL struct top *top, float value, uint64_t at)
{
    uint32_t k = top->count;
    while (k > 0 &&
           (value > top->value[k - 1] || (value == top->value[k - 1] && at < top->at[k - 1]))) {
        if (k < TOP) {
            top->value[k] = top->value[k - 1];
            top->at[k] = top->at[k - 1];
        }
        k--;
    }
    if (k == TOP)
        return;
    top->value[k] = value;
    top->at[k] = at;
    top->count += top->count < TOP;
}

MUSTER_KERNEL void top(uint64_t i, uint64_t first, MUSTER_GLOBAL const float *x,
                       MUSTER_PARTIAL struct top *all)
{
    if (x[i] == x[i] && (all->count < TOP || x[i] >= all->value[TOP - 1]))
        insert(all, x[i], first + i);
}

MUSTER_COMBINE void top_combine(MUSTER_PARTIAL struct top *into,
                                MUSTER_PARTIAL const struct top *from)
{
    for (uint32_t k = 0; k < from->count; k++)
        insert(into, from->value[k], from->at[k]);
}
