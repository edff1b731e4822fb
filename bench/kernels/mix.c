/*
 * Integer and single-precision arithmetic on each item, `rounds` times: every device must come to the
 * same bits.
 */
MUSTER_KERNEL void mix(uint64_t i, uint32_t rounds, MUSTER_GLOBAL const uint32_t *in,
                       MUSTER_GLOBAL uint32_t *out)
{
    uint32_t hash = in[i];
    float value = (float)(hash & 0xffff) / 257.0f;
    for (uint32_t round = 0; round < rounds; round++) {
        hash = (hash ^ (hash >> 15)) * 0x2c1b3c6du;
        hash = (hash ^ (hash >> 12)) * 0x297a2d39u;
        value = value * 0.75f + (float)(hash >> 20) / 3.0f;
        value = muster_sqrt(value * value + 1.0f);
    }
    out[i] = hash + muster_float_bits(value);
}
