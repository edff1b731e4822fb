#include "platform/helper.h"

#include "platform/child.h"
#include "platform/installed.h"
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

bool platform_helper_find(char path[HELPER_PATH_BYTES])
{
    char here[HELPER_PATH_BYTES];
    const char *named = platform_environment("MUSTER_HELPER");
    if (named && *named)
        return snprintf(path, HELPER_PATH_BYTES, "%s", named) < HELPER_PATH_BYTES;
    if (atomic_load(&is_self) != 0 && platform_program_path(here, sizeof here))
        return snprintf(path, HELPER_PATH_BYTES, "%s", here) < HELPER_PATH_BYTES;
    return platform_installed_find(PROGRAM, true, path, HELPER_PATH_BYTES);
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
