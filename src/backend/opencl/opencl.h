/*
 * The opencl backend: what the installed OpenCL drivers drive, through the loader libOpenCL.so.1,
 * which is looked for at run time.
 */
#ifndef BACKEND_OPENCL_OPENCL_H
#define BACKEND_OPENCL_OPENCL_H

#include <muster/backend.h>

extern const struct muster_backend backend_opencl;

#endif
