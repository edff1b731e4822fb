/*
 * The tests' own OpenCL loader, which the backend in the same program loads too: its folder is in the
 * program's run path.
 */
#ifndef DRIVER_OPENCL_CONTROL_H
#define DRIVER_OPENCL_CONTROL_H

#include "double.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

static struct {
    double_set_function *set;
    double_fail_now_function *fail_now;
    double_forget_callbacks_function *forget_callbacks;
    double_delay_callbacks_function *delay_callbacks;
    double_count_function *count;
    double_callbacks_function *callbacks;
    double_live_function *live;
} loader;

static inline bool control_find(void)
{
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW);
    void *symbol = NULL;
#define CONTROL_FIND(name)                                                                         \
    symbol = library ? dlsym(library, "double_" #name) : NULL;                                     \
    memcpy(&loader.name, &symbol, sizeof symbol);
    CONTROL_FIND(set)
    CONTROL_FIND(fail_now)
    CONTROL_FIND(forget_callbacks)
    CONTROL_FIND(delay_callbacks)
    CONTROL_FIND(count)
    CONTROL_FIND(callbacks)
    CONTROL_FIND(live)
#undef CONTROL_FIND
    return symbol != NULL;
}

#endif
