/*
 * Shared objects loaded at run time.
 */
#ifndef PLATFORM_LIBRARY_H
#define PLATFORM_LIBRARY_H

#include <muster/status.h>
#include <stdbool.h>

struct platform_library {
    void *handle;
};

/* One that was loaded from memory. */
struct platform_image {
    struct platform_library library;
    int descriptor; /* owns: the file that the memory was copied to; -1 if it is gone already */
};

/* MUSTER_E_NOT_FOUND with the loader's words. */
muster_status platform_library_open(struct platform_library *library, const char *path,
                                    struct muster_error *err);
/* The same for a shared object in memory, which need not stay. */
muster_status platform_image_open(struct platform_image *image, const void *bytes, size_t size,
                                  struct muster_error *err);
void platform_image_close(struct platform_image *image);
/* NULL if there is no such symbol. */
void *platform_library_symbol(const struct platform_library *library, const char *name);
/* The file that a symbol was loaded from; false if the loader does not know. */
bool platform_symbol_file(const void *symbol, char *path, size_t bytes);
/* Does nothing if the library is not open. */
void platform_library_close(struct platform_library *library);

#endif
