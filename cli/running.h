/*
 * The options that commands which run jobs or kernels have in common: rows of their tables, what was
 * given of them, and the runtime that they ask for.
 */
#ifndef CLI_RUNNING_H
#define CLI_RUNNING_H

#include "option.h"

#include <muster/muster.h>

/* Which kernel, of every command that takes one; repeated words go to the lists below. */
#define RUNNING_KERNELS_MAX 16
extern struct arguments running_kernels, running_arguments;

/* clang-format off */
#define RUNNING_KERNEL_ROW(does)                                                                   \
    { .name = "kernel", .letter = 'k', .kind = OPTION_TEXT, .required = true, .value = "FILE",     \
      .list = &running_kernels, .help = does "; repeated: other forms of the same kernel" }
#define RUNNING_ENTRY_ROW                                                                          \
    { .name = "entry", .kind = OPTION_TEXT, .value = "NAME",                                       \
      .help = "name of the kernel (the only one in the file)" }
#define RUNNING_ARG_ROW                                                                            \
    { .name = "arg", .letter = 'a', .kind = OPTION_TEXT, .value = "NAME=VALUE",                    \
      .list = &running_arguments, .help = "set a value of the kernel; can be repeated" }

/* Which devices: the same of every command that has a choice. */
#define RUNNING_DEVICES_ROW                                                                        \
    { .name = "devices", .old_name = "backend", .kind = OPTION_TEXT, .value = "LIST",              \
      .help = "use only these, by id or backend: cpu,cuda:0" }
#define RUNNING_EVERYONE_ROW                                                                       \
    { .name = "everyone", .kind = OPTION_FLAG,                                                     \
      .help = "use all devices, also those that slow the job down" }

/* How a job is run: rows from values[RUNNING_DEVICES] on. */
enum {
    RUNNING_DEVICES,
    RUNNING_POLICY,
    RUNNING_AFFINITY,
    RUNNING_UNIT,
    RUNNING_WINDOW,
    RUNNING_NO_SPECULATION,
    RUNNING_EVERYONE,
    RUNNING_OPTIONS
};
#define RUNNING_OPTION_ROWS(unit_kind, unit_value, unit_help)                                      \
    RUNNING_DEVICES_ROW,                                                                           \
    { .name = "policy", .kind = OPTION_TEXT, .value = "P",                                         \
      .help = "which device gets the next unit (claim: the first with room)" },                            \
    { .name = "affinity", .kind = OPTION_NUMBER, .value = "KEY",                                   \
      .help = "for --policy sticky: work with the same KEY goes to the same device (0)" },               \
    { .name = "unit", .kind = unit_kind, .value = unit_value, .help = unit_help },                 \
    { .name = "window", .kind = OPTION_SIZE, .value = "SIZE",                                      \
      .help = "most input that is read and not finished: 64MiB" },                                \
    { .name = "no-speculation", .kind = OPTION_FLAG,                                               \
      .help = "never run a slow device's unit a second time on another" },                      \
    RUNNING_EVERYONE_ROW
/* clang-format on */

/* `values` points to the first of them. False: what was given cannot be, which was reported. */
bool running_read(const struct option_value *values, const char *command,
                  struct muster_run_options *run);

/*
 * A runtime over the devices that were asked for, which the command waits for at most two seconds at its
 * end if one of them does not answer. `devices`: the option's value.
 */
muster_status running_open(const struct option_value *devices, struct muster **m,
                           struct muster_error *error);

#endif
