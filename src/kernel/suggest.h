/*
 * Which function of the prelude stands for one that C, OpenCL C or CUDA C++ has.
 */
#ifndef KERNEL_SUGGEST_H
#define KERNEL_SUGGEST_H

#include <stdbool.h>
#include <stddef.h>

/*
 * What to do instead of calling `name`, as a sentence's part: "call muster_exp instead". NULL: not
 * known. `is_known` says whether the prelude has a function of that name, so that only those are
 * suggested. The text lasts until the next call on the same thread.
 */
const char *suggest_portable(const char *name, size_t bytes,
                             bool (*is_known)(void *user, const char *portable), void *user);

#endif
