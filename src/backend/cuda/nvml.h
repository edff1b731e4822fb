/*
 * What NVIDIA's management library says about a GPU: how busy and how warm it is. Optional: without
 * the library nothing is known, and nothing else changes.
 */
#ifndef BACKEND_CUDA_NVML_H
#define BACKEND_CUDA_NVML_H

#include "platform/library.h"

struct nvml_utilisation {
    unsigned int gpu, memory; /* per cent */
};

struct cuda_nvml {
    struct platform_library library;
    int (*init)(void);
    int (*shutdown)(void);
    int (*by_pci)(const char *pci, void **device);
    int (*utilisation)(void *device, struct nvml_utilisation *out);
    int (*temperature)(void *device, int sensor, unsigned int *celsius);
};

void cuda_nvml_open(struct cuda_nvml *nvml);
void cuda_nvml_close(struct cuda_nvml *nvml);
/* Leaves alone what is not known. */
void cuda_nvml_sample(const struct cuda_nvml *nvml, const char *pci, double *utilisation,
                      double *temperature_c);

#endif
