#include "core/plan.h"

#include <stddef.h>

uint64_t plan_stream_bytes(const char *text)
{
    uint64_t mebibytes = 0;
    if (!text || !*text)
        return PLAN_STREAM_BYTES_DEFAULT;
    for (const char *at = text; *at; at++) {
        if (*at < '0' || *at > '9')
            return PLAN_STREAM_BYTES_DEFAULT;
        if (__builtin_mul_overflow(mebibytes, 10, &mebibytes) ||
            __builtin_add_overflow(mebibytes, (uint64_t)(*at - '0'), &mebibytes))
            mebibytes = UINT64_MAX;
    }
    if (mebibytes == 0)
        return PLAN_STREAM_BYTES_DEFAULT;
    return mebibytes > UINT64_MAX >> 20 ? UINT64_MAX : mebibytes << 20;
}

uint64_t plan_job_bytes(uint64_t branches, uint64_t streams, uint64_t stream_bytes)
{
    uint64_t product;
    if (branches == 0 || streams == 0)
        return 0;
    if (__builtin_mul_overflow(branches, streams, &product) ||
        __builtin_mul_overflow(product, stream_bytes, &product))
        return UINT64_MAX;
    return product;
}
