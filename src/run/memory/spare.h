/*
 * Blocks of device memory that jobs gave back and that the next job may have: asking the driver for
 * memory, and telling it that a block is free, costs driver calls and on some devices a
 * synchronisation. They count against the device's budget as kept, and are the first to go when an
 * allocation does not fit.
 */
#ifndef RUN_MEMORY_SPARE_H
#define RUN_MEMORY_SPARE_H

#include "run/memory/memory.h"

/* As muster_block_allocate. The block may be larger, and holds what its last user left in it. */
muster_status spare_take(struct muster *m, muster_stream stream, uint64_t bytes, muster_block *out,
                         struct muster_error *err);
/*
 * A block that spare_take gave, and that nothing on the device uses any more. Kept if the device is
 * sound, else freed. `stream` is one of the device's.
 */
void spare_give(struct muster *m, muster_stream stream, muster_block block);

/* Frees the one that was unused for longest; false if there is none. */
bool spare_evict(struct run_device *device);
void spare_trim(struct run_device *device);
/* When the device is closed and its blocks are gone. */
void spare_destroy(struct run_device *device);

#endif
