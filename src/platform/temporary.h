/*
 * What must not outlive the process: temporary files and folders, and programs that it runs. A
 * process that dies of a signal calls platform_temporary_sweep first, and nothing is left behind.
 *
 * Each such thing is in a list, from before it is made until it is gone. The thread that makes or
 * changes one blocks its signals meanwhile, so that a signal handler never waits for the thread it
 * interrupted.
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
    int program;      /* the leader of its group of processes */
    int output;       /* a pipe that all of them hold open; borrowed */
    /* Private. */
    struct platform_temporary *next, *previous;
    _Atomic int state;
    sigset_t before;
};

/*
 * The caller is about to make the thing, or to change what becomes of it. The fields above describe
 * it by platform_temporary_end at the latest. False: the process is about to die, errno is
 * ECANCELED, and nothing may be made.
 */
bool platform_temporary_begin(struct platform_temporary *thing);

/* The change is over. `is_there`: the thing exists; else it is forgotten. Keeps errno. */
void platform_temporary_end(struct platform_temporary *thing, bool is_there);

/* The thing is gone, or no longer temporary. Nothing if it is not in the list. Keeps errno. */
void platform_temporary_forget(struct platform_temporary *thing);

/* Removes the files in a folder, which has no folders in it, and the folder. Async-signal-safe. */
void platform_temporary_remove_folder(const char *path);

/*
 * Kills the programs, and removes files and folders. Nothing is made from now on. Async-signal-safe.
 */
void platform_temporary_sweep(void);

#endif
