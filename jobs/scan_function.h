/*
 * The kernel of `scan` where C functions run. Takes what the portable form takes, and differs from
 * it only in speed and in that it sees past the items' borders within what it is given.
 */
#ifndef JOBS_SCAN_FUNCTION_H
#define JOBS_SCAN_FUNCTION_H

#include <muster/kernel.h>

muster_status scan_function(uint64_t begin, uint64_t end, void *const *args);

#endif
