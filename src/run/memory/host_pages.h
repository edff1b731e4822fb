/*
 * Whole pages of the host that devices copy from and to: of the runtime's arena where devices live in processes of
 * their own, which can map that, else the process's own.
 */
#ifndef RUN_MEMORY_HOST_PAGES_H
#define RUN_MEMORY_HOST_PAGES_H

#include "platform/arena.h"
#include "run/base/runtime.h"

/* If a backend is isolated, makes the arena and lends it to backends; without one copies are slower, and the log says why. */
void host_pages_share(struct muster *m);
/* Zeroed; NULL if there are none. */
void *host_pages_map(struct muster *m, const struct platform_part *part);
void host_pages_unmap(struct muster *m, void *memory, size_t bytes, bool is_ring);

#endif
