#include "platform/library.h"

#include "platform/file.h"

#include <dlfcn.h>
#include <errno.h>
#include <muster/backend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

muster_status platform_library_open(struct platform_library *library, const char *path,
                                    struct muster_error *err)
{
    library->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library->handle)
        return MUSTER_OK;
    const char *words = dlerror();
    return muster_error_fill(err, MUSTER_E_NOT_FOUND, 0, NULL, "cannot load %s: %s", path,
                             words ? words : "the loader does not say why");
}

/* Where there is no memory file, or nothing may be run from one. */
static muster_status open_aside(struct platform_library *library, const void *bytes, size_t size,
                                struct muster_error *err)
{
    char folder[PLATFORM_PATH_BYTES], path[PLATFORM_PATH_BYTES + 16];
    muster_status status = platform_folder_make_temporary(folder, err);
    if (status != MUSTER_OK)
        return status;
    snprintf(path, sizeof path, "%s/kernel.so", folder);
    status = platform_file_write(path, bytes, size, err);
    if (status == MUSTER_OK)
        status = platform_library_open(library, path, err);
    platform_folder_remove_temporary(folder);
    return status;
}

muster_status platform_image_open(struct platform_image *image, const void *bytes, size_t size,
                                  struct muster_error *err)
{
    char path[64];
    int file = memfd_create("muster-kernel", MFD_CLOEXEC);
    if (file >= 0 && platform_descriptor_write(file, bytes, size)) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
        if (platform_library_open(&image->library, path, NULL) == MUSTER_OK) {
            /*
             * Kept as long as the library: the loader knows libraries by their path, and the next
             * image under the same number would be taken for this one.
             */
            image->descriptor = file;
            return MUSTER_OK;
        }
    }
    if (file >= 0)
        close(file);
    image->descriptor = -1;
    return open_aside(&image->library, bytes, size, err);
}

void platform_image_close(struct platform_image *image)
{
    platform_library_close(&image->library);
    if (image->descriptor >= 0)
        close(image->descriptor);
    image->descriptor = -1;
}

void *platform_library_symbol(const struct platform_library *library, const char *name)
{
    return dlsym(library->handle, name);
}

bool platform_symbol_file(const void *symbol, char *path, size_t bytes)
{
    Dl_info info;
    if (dladdr(symbol, &info) == 0 || !info.dli_fname)
        return false;
    return (size_t)snprintf(path, bytes, "%s", info.dli_fname) < bytes;
}

void platform_library_close(struct platform_library *library)
{
    if (library->handle)
        dlclose(library->handle);
    library->handle = NULL;
}
