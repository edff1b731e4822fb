/*
 * Files that Muster itself writes: whole or not at all.
 */
#ifndef PLATFORM_FILE_H
#define PLATFORM_FILE_H

#include <muster/status.h>
#include <stdbool.h>

/* Longer paths are refused. */
#define PLATFORM_PATH_BYTES 512

/* All of it; false with errno set. */
bool platform_descriptor_write(int descriptor, const void *bytes, size_t size);

/* A new file that only the user can read; one that is there already is a failure. */
muster_status platform_file_write(const char *path, const void *bytes, size_t size,
                                  struct muster_error *err);

/*
 * Written aside first and then put in its place, so that others see all of it or nothing: as
 * platform_aside_open has it, the second with PLATFORM_ASIDE_OVER. What is put over something is,
 * whatever the umask, the user's alone to read and write, so that platform_file_is_ours holds of it.
 */
muster_status platform_file_replace(const char *path, const void *bytes, size_t size,
                                    struct muster_error *err);
muster_status platform_file_put_over(const char *path, const void *bytes, size_t size,
                                     struct muster_error *err);

/* Whether what is there belongs to this user, or to root, and nobody else can change it. */
bool platform_file_is_ours(const char *path);

/* With the folders that it is in. */
bool platform_folder_make(const char *path);

/*
 * A new folder of the user's own, below TMPDIR or /tmp; `path` has PLATFORM_PATH_BYTES. It is
 * removed with the files in it, but no folders, by platform_folder_remove_temporary, or by
 * platform_temporary_sweep.
 */
muster_status platform_folder_make_temporary(char *path, struct muster_error *err);
void platform_folder_remove_temporary(const char *path);

/*
 * Where a program lies that is called by its name, as a shell would find it; a name with a slash is
 * its place. False if there is none, and always in a program that runs with more rights than its
 * caller.
 */
bool platform_program_find(const char *name, char path[PLATFORM_PATH_BYTES]);

/*
 * What changes when another file is put in this one's place, or this one is written to and its time
 * set back: its size, both its times and its number.
 */
bool platform_file_identity(const char *path, uint64_t identity[4]);

#endif
