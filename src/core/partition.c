/*
 * The plain partition rule: pure arithmetic on any pair of 64-bit numbers, without overflow.
 */
#include <muster/backend.h>
#include <muster/job.h>

uint64_t muster_partition_unit(uint64_t total, uint64_t devices)
{
    if (total == 0 || devices == 0)
        return 0;
    /*
     * total / 4 / devices is total / (4 x devices) in whole numbers, and 4 x devices may not fit.
     */
    uint64_t unit = total / 4 / devices;
    return unit > 0 ? unit : 1;
}

uint64_t muster_partition_count(uint64_t total, uint64_t devices)
{
    uint64_t unit = muster_partition_unit(total, devices);
    return unit == 0 ? 0 : total / unit + (total % unit != 0);
}

struct muster_range muster_partition_at(uint64_t total, uint64_t devices, uint64_t index)
{
    uint64_t unit = muster_partition_unit(total, devices);
    if (index >= muster_partition_count(total, devices))
        return (struct muster_range){ total, total };
    uint64_t begin = index * unit; /* below total, so it fits */
    uint64_t left = total - begin;
    return (struct muster_range){ begin, begin + (left < unit ? left : unit) };
}

muster_status muster_partition(uint64_t total, uint64_t devices, struct muster_range *out,
                               uint64_t capacity, uint64_t *count, struct muster_error *err)
{
    if (!count || (!out && capacity > 0))
        return muster_error_fill(err, MUSTER_E_INVALID, 0,
                                 "give a place for the count and for the units",
                                 "muster_partition: the result argument is NULL");
    uint64_t needed = muster_partition_count(total, devices);
    *count = needed;
    if (needed > capacity)
        return muster_error_fill(
            err, MUSTER_E_CAPACITY, 0, "give room for *count units",
            "%llu items over %llu devices make %llu units, and there is room for %llu",
            (unsigned long long)total, (unsigned long long)devices, (unsigned long long)needed,
            (unsigned long long)capacity);
    for (uint64_t i = 0; i < needed; i++)
        out[i] = muster_partition_at(total, devices, i);
    return MUSTER_OK;
}
