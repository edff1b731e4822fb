/*
 * NVIDIA GPUs, through CUDA's driver interface.
 */
#ifndef BACKEND_CUDA_CUDA_H
#define BACKEND_CUDA_CUDA_H

#include <muster/backend.h>

extern const struct muster_backend backend_cuda;

#endif
