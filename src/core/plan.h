/*
 * Planned memory of streams: what one stream is meant to use, and what a job should plan for.
 */
#ifndef CORE_PLAN_H
#define CORE_PLAN_H

#include <stdint.h>

#define PLAN_STREAM_BYTES_DEFAULT ((uint64_t)256 << 20)

/*
 * One stream's bytes from a text that counts MiB. Only a plain positive number counts; NULL, zero
 * and rubbish mean the default. A number whose bytes do not fit gives UINT64_MAX.
 */
uint64_t plan_stream_bytes(const char *text);

/* branches x streams x stream_bytes, UINT64_MAX where that does not fit. */
uint64_t plan_job_bytes(uint64_t branches, uint64_t streams, uint64_t stream_bytes);

#endif
