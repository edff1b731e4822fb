/*
 * The machine as the process sees it: NUMA nodes and the cores it may use on them, memory,
 * environment, files.
 */
#ifndef PLATFORM_MACHINE_H
#define PLATFORM_MACHINE_H

#include "platform/thread.h"

#include <muster/runtime.h>

/* One NUMA node with at least one core this process may use. */
struct platform_node {
    int32_t number; /* the system's; -1 if the machine does not say */
    uint32_t core_count;
    uint64_t memory_total; /* 0 if the machine does not say */
    struct platform_cores cores;
};

/*
 * The nodes, from hwloc where it is present and the machine has several, else from the kernel's own
 * files. `*nodes` is given back with platform_nodes_free.
 */
muster_status platform_nodes_find(const struct muster_allocator *allocator,
                                  struct platform_node **nodes, uint32_t *count,
                                  struct muster_error *err);
void platform_nodes_free(const struct muster_allocator *allocator, struct platform_node *nodes,
                         uint32_t count);

/* Cores that this process may use, at least 1. */
uint32_t platform_core_count(void);

/* "AMD EPYC 9654", or what the machine calls itself. */
void platform_processor_name(char *out, size_t bytes);

/*
 * What its instructions are: the list that the system gives, cut to `bytes`; "" if it gives none.
 */
void platform_processor_features(char *out, size_t bytes);

/* Memory of the machine, or less where a control group limits the process. */
void platform_memory(uint64_t *total, uint64_t *available);
/* Of one node; false if the machine does not say. */
bool platform_node_memory(int32_t node, uint64_t *total, uint64_t *available);

/* How many names in the folder are `counted`; 0 if it cannot be read. */
uint32_t platform_folder_count(const char *path, bool (*counted)(const char *name));

/* The process's own heap, for those who are given no allocator. */
extern const struct muster_allocator platform_heap;

/*
 * Whole pages of the process's own memory, placed near `node` where that can be (-1: anywhere);
 * NULL if there is none.
 */
void *platform_pages_map(size_t bytes, int32_t node);
void platform_pages_unmap(void *pages, size_t bytes);
/* All of them will be used: large ones are quicker to get, and to register with a driver. */
void platform_pages_prefer_large(void *pages, size_t bytes);
/* Gets pages that nobody has touched yet, of any mapping that can be written; what is in them stays. A wish. */
void platform_pages_touch(void *pages, size_t bytes);
/*
 * Pages that nobody has touched yet come from these nodes, a bit for each: from one, or from several
 * in turn. A wish: a machine that cannot do it takes any. No bit: anywhere.
 */
void platform_pages_place(void *pages, size_t bytes, uint64_t nodes);
/* The bit of a node; 0 if it is not known, or has none. */
static inline uint64_t platform_node_bit(int32_t node)
{
    return node >= 0 && node < 64 ? (uint64_t)1 << node : 0;
}

/*
 * Whole pages that follow themselves: byte i + `bytes` is byte i, so that any piece of at most
 * `bytes` is contiguous, wherever it begins. `bytes` is a multiple of the page. NULL if there is
 * none.
 */
void *platform_ring_map(size_t bytes);
void platform_ring_unmap(void *ring, size_t bytes);
size_t platform_page_bytes(void);
/* How many pages of the process's own memory it has touched for the first time, so far. */
uint64_t platform_page_faults(void);

/*
 * Memory aligned to 64 bytes: small pieces from the process's heap, large ones as pages near
 * `node`. NULL if there is none.
 */
void *platform_memory_take(size_t bytes, int32_t node);
void platform_memory_give(void *memory, size_t bytes);

/*
 * The variable's value, NULL if unset, and also in a program that runs with more rights than its
 * caller.
 */
const char *platform_environment(const char *name);

/*
 * Reads a whole file of at most `limit` bytes, terminated; given back with allocator_give(...,
 * *bytes + 1, 1).
 */
muster_status platform_file_read(const struct muster_allocator *allocator, const char *path,
                                 size_t limit, char **out, size_t *bytes, struct muster_error *err);

#endif
