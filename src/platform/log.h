/*
 * The file that MUSTER_LOG names: what is said there beside the program's own log.
 */
#ifndef PLATFORM_LOG_H
#define PLATFORM_LOG_H

#include <stdbool.h>

/* Whether MUSTER_LOG names a file, or is "-", standard error. */
bool platform_log_is_wanted(void);
/*
 * Appends "muster PID WORD: TEXT" as one write, so that lines of several threads and processes do not
 * mix. Does nothing where that cannot be.
 */
void platform_log(const char *word, const char *text);

#endif
