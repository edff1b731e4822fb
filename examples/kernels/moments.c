/*
 * How many items there are, their mean, and the sum of the squared distances from it: divided by the count
 * that is the variance. Updated item by item (Welford) and joined (Chan), so that nothing cancels out.
 */
#include <muster_kernel.h>

struct moments {
    uint64_t count;
    double mean, squares;
};

MUSTER_KERNEL void moments(uint64_t i, MUSTER_GLOBAL const float *x,
                           MUSTER_PARTIAL struct moments *all)
{
    double apart = x[i] - all->mean;
    all->count++;
    all->mean += apart / (double)all->count;
    all->squares += apart * (x[i] - all->mean);
}

MUSTER_COMBINE void moments_combine(MUSTER_PARTIAL struct moments *into,
                                    MUSTER_PARTIAL const struct moments *from)
{
    double both = (double)(into->count + from->count), apart = from->mean - into->mean;
    if (from->count == 0)
        return;
    into->mean += apart * ((double)from->count / both);
    into->squares +=
        from->squares + apart * apart * ((double)into->count * (double)from->count / both);
    into->count += from->count;
}
