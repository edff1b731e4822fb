/*
 * The program that helpers are, and the functions that it shares with the program that starts it.
 */
#ifndef PLATFORM_HELPER_H
#define PLATFORM_HELPER_H

#include <muster/kernel.h>
#include <stdbool.h>

/* What the program is started with to be a helper: a backend's name follows, or a sandbox's words. */
#define HELPER_ARGUMENT "--muster-helper"
#define HELPER_CONFINE "--muster-confine"
#define HELPER_PATH_BYTES 4096

/* MUSTER_HELPER; this program, if it says so; the one that is installed with it or with the library. */
bool platform_helper_find(char path[HELPER_PATH_BYTES]);
/* From now on helpers are this program itself. */
void platform_helper_is_self(void);

/*
 * A function that the helper has too, since it is the same program; both arguments stay. Without effect in a program
 * that is not its own helper. Before any thread that looks. False: there is no room for more, or the name is too long.
 */
#define HELPER_FUNCTIONS_MAX 64
bool platform_helper_share(const char *name, muster_kernel_function function);
/* The name of a function that helpers have; NULL if they have it not. */
const char *platform_helper_name_of(muster_kernel_function function);
/* The function of that name; NULL if there is none. */
muster_kernel_function platform_helper_function(const char *name);

#endif
