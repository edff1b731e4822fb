#include "platform/library.h"

#include <dlfcn.h>
#include <muster/backend.h>

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

void *platform_library_symbol(const struct platform_library *library, const char *name)
{
    return dlsym(library->handle, name);
}

void platform_library_close(struct platform_library *library)
{
    if (library->handle)
        dlclose(library->handle);
    library->handle = NULL;
}
