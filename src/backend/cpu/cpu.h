/*
 * The cpu backend: a device for each NUMA node, "cpu:0" being all the cores of it that the process
 * may use.
 */
#ifndef BACKEND_CPU_CPU_H
#define BACKEND_CPU_CPU_H

#include <muster/backend.h>

extern const struct muster_backend backend_cpu;

#endif
