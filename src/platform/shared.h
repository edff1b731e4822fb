/*
 * Memory that two processes share, and words in it to wait on.
 */
#ifndef PLATFORM_SHARED_H
#define PLATFORM_SHARED_H

#include <muster/status.h>
#include <stdatomic.h>
#include <stdbool.h>

/*
 * Zeroed memory as a descriptor, closed on exec. It can never be made smaller or larger, and all of it exists: a
 * process that maps it gets no signal for want of memory. -1, with `err`, if there is none.
 */
int platform_shared_create(const char *name, size_t bytes, struct muster_error *err);
/* NULL if it cannot be mapped, or is smaller than `bytes`. */
void *platform_shared_map(int descriptor, size_t bytes);
void platform_shared_unmap(void *memory, size_t bytes);

/*
 * Sleeps while the word is `seen`, at most `timeout_ns`; may wake for no reason. The processes agree: the one that changes
 * the word wakes.
 */
void platform_word_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t timeout_ns);
void platform_word_wake(_Atomic uint32_t *word);

#endif
