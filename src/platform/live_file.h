/*
 * Files through which a process shows others of the same user what it does. Each lies in a folder that
 * belongs to the user alone: $XDG_RUNTIME_DIR/muster, or /tmp/muster-UID where there is no such folder; or in
 * the one that MUSTER_LIVE names, and then nowhere else.
 *
 * The owner holds a lock on its file, which the kernel drops when the process ends, however it ends. So
 * a process that can lock a file knows that its owner is gone, and removes it. A process number that is used
 * again confuses nobody.
 */
#ifndef PLATFORM_LIVE_FILE_H
#define PLATFORM_LIVE_FILE_H

#include <muster/status.h>
#include <stdbool.h>
#include <stdint.h>

#define PLATFORM_LIVE_NAME_BYTES 48
/* Folders that are looked into. */
#define PLATFORM_LIVE_PLACES 3
#define PLATFORM_LIVE_PATH_BYTES 1024

/* One of this process's own. */
struct platform_live_file {
    int folder, file; /* own; -1: none */
    void *memory;     /* owns: the file, mapped; NULL: there is none */
    size_t bytes;
    uint32_t place; /* among those that a child of fork() closes */
    char name[PLATFORM_LIVE_NAME_BYTES];
};

/*
 * Makes a file of `bytes`, all of them allocated and zero, and maps it. Nobody takes it for a finished
 * one before its owner has written what says so. Removes what dead processes have left in the folder.
 * MUSTER_E_IO: why not, and what would help.
 */
muster_status platform_live_create(struct platform_live_file *live, size_t bytes,
                                   struct muster_error *err);
/* Nobody finds it from here on; the memory stays. May be called again. */
void platform_live_hide(struct platform_live_file *live);
/* And the memory goes. */
void platform_live_destroy(struct platform_live_file *live);

/* What a look through the folders has found. */
struct platform_live_found {
    uint32_t swept;   /* files of dead processes, removed */
    uint32_t refused; /* files and folders that are not as they should be, left alone */
    char why[192];    /* the first of them */
};

/*
 * Calls `see` for each file whose owner is alive, in all folders. The descriptor is the caller's of this
 * function: it reads with platform_live_read and keeps nothing. False from `see`: the file is refused, and
 * `why`, of sizeof found->why bytes, says what is wrong.
 */
void platform_live_look(bool (*see)(void *user, int file, uint64_t bytes, char *why), void *user,
                        struct platform_live_found *found);
/* All of these bytes; false if they are not there. A file that shrinks meanwhile does no harm. */
bool platform_live_read(int file, uint64_t offset, void *to, size_t bytes);

/* This process, for people: its number and what it is called. */
uint64_t platform_process_number(void);
void platform_process_name(char *out, size_t bytes);

#endif
