/*
 * Hash and filter: each item is a 32-bit word. What its hash lets pass is written with a weight,
 * the rest as 0. Integers, single-precision floats, a table, a loop and a helper: every device
 * gives the same bits.
 */
#include <muster_kernel.h>

MUSTER_CONSTANT float weights[8] = { 0.125f, 0.25f, 0.5f, 0.75f, 1.0f, 1.5f, 3.0f, 7.0f };

static uint32_t mix(uint32_t word)
{
    word ^= word >> 16;
    word *= 0x7feb352du;
    word ^= word >> 15;
    word *= 0x846ca68bu;
    return word ^ word >> 16;
}

MUSTER_KERNEL void sift(uint64_t i, uint32_t seed, uint32_t rounds, float least,
                        MUSTER_GLOBAL const uint32_t *words, MUSTER_GLOBAL float *out)
{
    uint32_t hash = words[i] ^ seed;
    for (uint32_t round = 0; round < rounds; round++)
        hash = mix(hash + round);
    float value = (float)(hash & 0xffffffu) / 16777216.0f;
    float scaled = value * weights[hash >> 29] + 1.0f / (1.0f + value);
    out[i] = value < least ? 0.0f : muster_sqrt(scaled);
}
