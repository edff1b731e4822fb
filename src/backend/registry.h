/*
 * Which backends there are: the built-in list, and tables that are given or loaded.
 */
#ifndef BACKEND_REGISTRY_H
#define BACKEND_REGISTRY_H

#include "platform/library.h"

#include <muster/backend.h>

/* The one list of what is built in, in the order in which devices are listed. */
const struct muster_backend *const *registry_built_in(size_t *count);

/*
 * Copies a table into `out` and fills the optional slots it leaves out with functions that answer
 * "not supported", so that callers never look. Refuses a table of another ABI, with a bad name or
 * without a slot that is required.
 */
muster_status registry_complete(const struct muster_backend *given, struct muster_backend *out,
                                struct muster_error *err);

/*
 * Loads a shared object and gives the table it exports. The object stays open until the caller
 * closes it.
 */
muster_status registry_load(const char *path, struct platform_library *library,
                            const struct muster_backend **out, struct muster_error *err);

#endif
