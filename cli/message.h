/*
 * What the command says on stderr: "muster: TEXT" and, where something would help, "  fix: FIX". What
 * could steer a terminal, newlines too, is left out of both.
 */
#ifndef CLI_MESSAGE_H
#define CLI_MESSAGE_H

#include <muster/status.h>

void message_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A line more of what was said last. */
void message_detail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * A mistake in how the subcommand was called; `command` may be NULL. The fix points to its --help.
 */
void message_usage(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Called before and after anything is said, for what stands in its way on the terminal; NULLs:
 * nothing does.
 */
void message_between(void (*before)(void *user), void (*after)(void *user), void *user);

/* What the library said; `subject` ("backend cuda") may be NULL. */
void message_library(const char *subject, const struct muster_error *error);

#endif
