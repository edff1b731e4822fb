/*
 * Reductions while they are checked: through a kernel that keeps what each item makes, and by joining
 * those in several orders.
 */
#ifndef CLI_PROBE_REDUCTION_H
#define CLI_PROBE_REDUCTION_H

#include "probe_arrays.h"

#include <muster/bundle.h>

#define PROBE_MAP_PREFIX "muster_map_"

/* How the host joins partials, in the kernel's shared object. */
struct probe_joins {
    int (*fold)(uint64_t blocks, void *levels, const void *partials, uint64_t count);
    int (*folded)(uint64_t blocks, const void *levels, void *result);
};

/*
 * Makes the source of `form` with one more kernel, PROBE_MAP_PREFIX and the reduction's name, which adds its
 * item to the partial of no items and writes that to the last argument. The text is to be freed; NULL:
 * no memory.
 */
char *probe_reduction_source(const struct muster_kernel_form *form,
                             const struct muster_kernel *kernel,
                             const struct muster_partial *partial);

/* For each byte of the partial, whether it is a field's; to be freed. NULL: no memory. */
unsigned char *probe_reduction_fields(const struct muster_kernel *kernel, size_t bytes);

/*
 * Joins what the items made, which is kept in the last array: with the partial of no items, two in both
 * orders, three in both groupings. Notes what differs by more than rounding.
 */
void probe_reduction_joins(struct probe *probe, const struct muster_kernel *kernel,
                           const struct probe_joins *joins);

#endif
