/*
 * Shared objects loaded at run time.
 */
#ifndef PLATFORM_LIBRARY_H
#define PLATFORM_LIBRARY_H

#include <muster/status.h>

struct platform_library {
    void *handle;
};

/* MUSTER_E_NOT_FOUND with the loader's words. */
muster_status platform_library_open(struct platform_library *library, const char *path,
                                    struct muster_error *err);
/* NULL if there is no such symbol. */
void *platform_library_symbol(const struct platform_library *library, const char *name);
/* Does nothing if the library is not open. */
void platform_library_close(struct platform_library *library);

#endif
