/*
 * What the command says on stderr: "muster: TEXT" and, where something would help, "  fix: FIX". What
 * could steer a terminal, newlines too, is left out of both.
 */
#ifndef CLI_MESSAGE_H
#define CLI_MESSAGE_H

#include "json.h"

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

/*
 * With --json a failure is also an object {"status","text","fix"} on stdout, or on stderr where stdout
 * has the command's data: what was said last, mistakes in the command's words and failures of the
 * library before anything else. Nothing of this unless message_want_json was called.
 */
void message_want_json(bool is_on_stderr);
/*
 * For a report that has the status itself: the members "text" and "fix" of the object that is open. No
 * members if nothing was said or no JSON is wanted. From then on it counts as told.
 */
void message_json_members(struct json *json);
/* At the end of a command that failed: the object, unless it was told or `out` has been written to. */
void message_tell_failure(int code, struct output *out);

/* What the library said; `subject` ("backend cuda") may be NULL. */
void message_library(const char *subject, const struct muster_error *error);

#endif
