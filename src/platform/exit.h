/*
 * exit() while a thread is inside a driver: the driver's own clean-up would run under that thread's feet.
 * So the process's end waits for such threads, for a while.
 */
#ifndef PLATFORM_EXIT_H
#define PLATFORM_EXIT_H

#include <stdint.h>

/* exit() waits so long at most: a driver may never answer. */
#define PLATFORM_EXIT_NS 5000000000u

/*
 * To be called on the threads that may call exit(), early; does nothing but on the process's first. What a
 * driver has registered for the process's end while it opened would run before what was registered earlier.
 * The C library runs the first thread's own destructors before all that, so there exit() waits in time.
 */
void platform_exit_watch(void);
/* Between these two calls of one thread exit() waits, unless that thread itself calls it. Not nested. */
void platform_exit_hold(void);
void platform_exit_release(void);

#endif
