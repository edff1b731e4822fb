#include "rig_source.h"

#include "harness.h"

#include <stdlib.h>
#include <string.h>

/*
 * What both have:
 *
 *     u8 u32 u64               the types, of this many bits
 *     KERNEL name(HEAD, BLOCK(u32, counts), u64 first)
 *     { IN(u32, counts) ... }  a block's pointer, in the body
 *     EACH(at)                 a loop over this thread's items: at counts from 0, begin + at is one
 *     SPIN_TICKS(n)            passes the time, at least n half nanoseconds
 */
static const char cuda_words[] =
    "typedef unsigned char u8;\n"
    "typedef unsigned int u32;\n"
    "typedef unsigned long long u64;\n"
    "#define KERNEL extern \"C\" __global__ void\n"
    "#define HEAD u64 begin, u64 items\n"
    "#define BLOCK(type, name) type *name\n"
    "#define IN(type, name)\n"
    "#define EACH(at) for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < items; \\\n"
    "                      at += (u64)gridDim.x * blockDim.x)\n"
    "#define SPIN_TICKS(n) for (long long end = clock64() + (n); clock64() < end;) {}\n";

static const char opencl_words[] =
    "typedef uchar u8;\n"
    "typedef uint u32;\n"
    "typedef ulong u64;\n"
    "#define KERNEL kernel void\n"
    "#define HEAD u64 begin, u64 items\n"
    "#define BLOCK(type, name) global type *name##_block, u64 name##_offset\n"
    "#define IN(type, name) \\\n"
    "    global type *name = (global type *)((global u8 *)name##_block + name##_offset);\n"
    "#define EACH(at) for (u64 at = get_global_id(0); at < items; at += get_global_size(0))\n"
    /* It has no clock: steps that depend on each other, far fewer than one in half a nanosecond. */
    "#define SPIN_TICKS(n) volatile u32 spun = 1; for (u64 i = 0; i < (n); i++) spun = spun * 3 + "
    "1;\n";

char *rig_source(const char *source, bool is_cuda)
{
    const char *words = is_cuda ? cuda_words : opencl_words;
    size_t bytes = strlen(words) + strlen(source) + 1;
    char *both = malloc(bytes);
    if (!both)
        test_fail(__FILE__, __LINE__, "no memory for the test itself");
    strcpy(both, words);
    strcat(both, source);
    return both;
}
