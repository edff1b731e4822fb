/*
 * Host memory that other processes can map: parts of one file in memory, which a helper maps once and as a whole before
 * it does anything else. So a part that is taken later needs no descriptor to be sent, and none of the helper's calls.
 *
 * The file is as large as memory will ever be and has holes where nothing is taken. A part exists in full before it is
 * given out, the file can never be made smaller, and a part that was given back is a hole again: its memory is free.
 */
#ifndef PLATFORM_ARENA_H
#define PLATFORM_ARENA_H

#include <muster/backend.h>
#include <stdbool.h>

struct platform_arena;

/* Where a part of the file is seen, and how. */
struct platform_part {
    size_t bytes;   /* whole pages */
    bool is_ring;   /* seen twice, one after the other, as platform_ring_map's memory is */
    bool is_large;  /* as platform_pages_prefer_large */
    uint64_t nodes; /* as platform_pages_place */
};

/* Fails with what stands in the way: no such files, a limit on them or on addresses. */
muster_status platform_arena_create(const struct muster_allocator *allocator,
                                    struct platform_arena **out, struct muster_error *err);
/* What is still out stays where it is, for those who may still use it. NULL is allowed. */
void platform_arena_destroy(struct platform_arena *arena);

/* The file, owned by the arena, and its size. */
int platform_arena_file(const struct platform_arena *arena);
uint64_t platform_arena_bytes(const struct platform_arena *arena);

/* Zeroed memory; NULL if there is none. Any thread, like the others below. */
void *platform_arena_take(struct platform_arena *arena, const struct platform_part *part);
/* False if it is not memory that the arena gave and that is out. */
bool platform_arena_give(struct platform_arena *arena, void *memory);
/*
 * Where in the file the memory lies. How many of its `bytes` lie together there: fewer where a ring begins again; then
 * the rest is asked for by itself. 0: not all of them are of one part.
 */
uint64_t platform_arena_find(struct platform_arena *arena, const void *memory, uint64_t bytes,
                             uint64_t *offset);

#endif
