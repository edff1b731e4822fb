/*
 * A list of what must not outlive the process: temporary files and folders, and the programs that
 * it runs. A process that is about to die of a signal calls platform_temporary_sweep, which removes
 * and kills all of them.
 *
 * A thing enters the list before it is made and leaves it after it is gone. A thread blocks its
 * signals while it makes or changes a thing, so that a signal handler never waits for the thread
 * that it interrupted.
 */
#ifndef PLATFORM_TEMPORARY_H
#define PLATFORM_TEMPORARY_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

enum platform_temporary_kind { PLATFORM_FILE, PLATFORM_FOLDER, PLATFORM_PROGRAM };

struct platform_temporary {
    enum platform_temporary_kind kind;
    int folder;       /* a file: the folder it is in, borrowed */
    const char *name; /* a file: its name in there; a folder: its path; borrowed */
    int program;      /* a program: the leader of its process group */
    int output;       /* a program: a pipe that all processes of the group hold open; borrowed */
    /* Private. */
    struct platform_temporary *next, *previous;
    _Atomic int state;
    sigset_t before;
};

/*
 * Call it before making the thing, renaming it or keeping it. The caller fills the fields above
 * before platform_temporary_end. False, with errno ECANCELED: the process is about to die, and the
 * caller must make nothing.
 */
bool platform_temporary_begin(struct platform_temporary *thing);

/* Ends the change; without `is_there` the thing does not exist and leaves the list. Keeps errno. */
void platform_temporary_end(struct platform_temporary *thing, bool is_there);

/* Takes the thing off the list, if it is there: it is gone, or not temporary now. Keeps errno. */
void platform_temporary_forget(struct platform_temporary *thing);

/* Removes the files in a folder, which has no folders in it, and the folder. Async-signal-safe. */
void platform_temporary_remove_folder(const char *path);

/*
 * Kills the programs and removes the files and folders. From now on platform_temporary_begin gives
 * false. Async-signal-safe.
 */
void platform_temporary_sweep(void);

#endif
