#include "platform/helper.h"

#include "platform/child.h"
#include "platform/library.h"
#include "platform/machine.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define PROGRAM "muster-helper"

static _Atomic uint32_t is_self;
static struct {
    const char *name;
    muster_kernel_function function;
} shared[HELPER_FUNCTIONS_MAX];
static size_t shared_count;

void platform_helper_is_self(void)
{
    atomic_store(&is_self, 1);
}

/* The folder of a path, with what follows it. */
static bool beside(const char *path, const char *name, char *out)
{
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    int written = slash ? snprintf(out, HELPER_PATH_BYTES, "%.*s/%s", (int)length, path, name) : -1;
    return written > 0 && written < HELPER_PATH_BYTES && platform_is_program(out);
}

bool platform_helper_find(char path[HELPER_PATH_BYTES])
{
    char here[HELPER_PATH_BYTES];
    const char *named = platform_environment("MUSTER_HELPER");
    if (named && *named)
        return snprintf(path, HELPER_PATH_BYTES, "%s", named) < HELPER_PATH_BYTES;
    bool has_program = platform_program_path(here, sizeof here);
    if (has_program && atomic_load(&is_self) != 0)
        return snprintf(path, HELPER_PATH_BYTES, "%s", here) < HELPER_PATH_BYTES;
    if (has_program &&
        (beside(here, PROGRAM, path) || beside(here, "../libexec/muster/" PROGRAM, path)))
        return true;
    return platform_symbol_file((const void *)&is_self, here, sizeof here) &&
           (beside(here, PROGRAM, path) || beside(here, "../libexec/muster/" PROGRAM, path));
}

bool platform_helper_share(const char *name, muster_kernel_function function)
{
    if (shared_count == HELPER_FUNCTIONS_MAX || strlen(name) > 63)
        return false;
    shared[shared_count].name = name;
    shared[shared_count++].function = function;
    return true;
}

const char *platform_helper_name_of(muster_kernel_function function)
{
    const char *named = platform_environment("MUSTER_HELPER");
    /* Another program's functions are others. */
    if (atomic_load(&is_self) == 0 || (named && *named))
        return NULL;
    for (size_t i = 0; i < shared_count; i++)
        if (shared[i].function == function)
            return shared[i].name;
    return NULL;
}

muster_kernel_function platform_helper_function(const char *name)
{
    for (size_t i = 0; i < shared_count; i++)
        if (strcmp(shared[i].name, name) == 0)
            return shared[i].function;
    return NULL;
}
