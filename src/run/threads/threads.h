/*
 * Threads that the runtime's other rooms share.
 */
#ifndef RUN_THREADS_H
#define RUN_THREADS_H

#include "run/base/runtime.h"

/* copiers.c */
/* memcpy, shared with threads that help where it is much. Blocks until all is moved. Any thread. */
void copiers_copy(struct muster *m, void *to, const void *from, size_t bytes);
void copiers_destroy(struct muster *m);

#endif
