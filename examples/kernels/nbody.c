/*
 * The pull of all bodies on one, an item. Every unit needs all positions (MUSTER_ALL).
 */
#include <muster_kernel.h>

/* Keeps the pull finite where two bodies meet, and that of a body on itself zero. */
#define SOFTENING 1e-4f

MUSTER_KERNEL void nbody(uint64_t i, uint64_t first, uint32_t bodies, MUSTER_GLOBAL const float *x,
                         MUSTER_GLOBAL const float *y, MUSTER_GLOBAL const float *z,
                         MUSTER_GLOBAL const float *mass, MUSTER_GLOBAL float *pull_x,
                         MUSTER_GLOBAL float *pull_y, MUSTER_GLOBAL float *pull_z)
{
    float my_x = x[first + i], my_y = y[first + i], my_z = z[first + i];
    float sum_x = 0.0f, sum_y = 0.0f, sum_z = 0.0f;
    for (uint32_t k = 0; k < bodies; k++) {
        float dx = x[k] - my_x, dy = y[k] - my_y, dz = z[k] - my_z;
        float square = dx * dx + dy * dy + dz * dz + SOFTENING;
        float pull = mass[k] / (square * muster_sqrt(square));
        sum_x += pull * dx;
        sum_y += pull * dy;
        sum_z += pull * dz;
    }
    pull_x[i] = sum_x;
    pull_y[i] = sum_y;
    pull_z[i] = sum_z;
}
