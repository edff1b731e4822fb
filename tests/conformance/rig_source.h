/*
 * Test kernels in one source for CUDA C++ and OpenCL C.
 */
#ifndef CONFORMANCE_RIG_SOURCE_H
#define CONFORMANCE_RIG_SOURCE_H

#include <stdbool.h>

/* The words that a kernel's source uses, and then the source. The caller's, to free. */
char *rig_source(const char *source, bool is_cuda);

#endif
