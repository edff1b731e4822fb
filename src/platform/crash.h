/*
 * The last words of a process that a fault ends.
 */
#ifndef PLATFORM_CRASH_H
#define PLATFORM_CRASH_H

#include <stdint.h>

/*
 * From now on `note` is called when a thread of the process commits a fault or aborts, on that thread and in a signal
 * handler; then the process dies of the signal. It leaves no file behind. The address of SIGSYS is the number of the
 * system call that was refused.
 */
void platform_crash_watch(void (*note)(int signal, uint64_t address));
/* Lets the calling thread give its last words also when its stack is used up. Once for each thread. */
void platform_crash_prepare_thread(void);

#endif
