/*
 * Files that are installed with Muster: the helper, and libraries that it loads when they are wanted.
 */
#ifndef PLATFORM_INSTALLED_H
#define PLATFORM_INSTALLED_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Looks for `name` from the folder of the program that runs, then from the folder of the library: there, in muster-0.2
 * there, in libexec/muster of the same prefix, and in the prefix's folders of libraries. Relative, so that an installed
 * tree can be moved. False: it is in none of them, or its path is too long.
 */
bool platform_installed_find(const char *name, bool is_program, char *path, size_t bytes);

#endif
