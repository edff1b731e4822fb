/*
 * What compilers and the library say: their warnings on stderr, with -v all of it, and with --log in a
 * file.
 */
#ifndef CLI_LOG_H
#define CLI_LOG_H

#include "option.h"

#include <muster/muster.h>

/* Options of every subcommand that compiles kernels: rows of its table, from `values[0]` on. */
enum { LOG_VERBOSE, LOG_FILE, LOG_OPTIONS };

/* clang-format off */
#define LOG_OPTION_ROWS                                                                            \
    { .name = "verbose", .letter = 'v', .kind = OPTION_FLAG,                                       \
      .help = "print all compiler output and the library's log" },                              \
    { .name = "log", .kind = OPTION_TEXT, .value = "FILE",                                         \
      .help = "append the same to FILE; also MUSTER_LOG=FILE" }
/* clang-format on */

/* Before a runtime is opened. False: the file cannot be written, which was reported. */
bool log_begin(const struct option_value *values, const char *command);
/* Has the runtime's log shown. */
void log_set(struct muster_options *options);
/* The same for a bundle: what muster_bundle_log takes. */
void log_line(void *user, enum muster_log_level level, const char *text);

#endif
