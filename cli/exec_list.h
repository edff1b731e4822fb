/*
 * `muster exec --from`: a list of commands over the devices, each on one that it has alone, with a log
 * that a later run goes on from.
 */
#ifndef CLI_EXEC_LIST_H
#define CLI_EXEC_LIST_H

#include "offer.h"

struct exec_list_options {
    const char *from;    /* a command, or what {} stands for, a line; "-": standard input */
    const char *log;     /* NULL: none is written */
    char *const *words;  /* the command, up to its NULL; NULL: the lines are commands */
    uint64_t jobs;       /* commands at a time on each device */
    bool is_resumed;     /* what the log has is left out */
    bool is_failed_only; /* but for what failed */
    bool is_ordered;     /* output in the order of the list */
    bool is_halted;      /* nothing is started after a failure */
    bool is_dry;         /* commands are printed, not run */
    const struct option_value *hints, *wait; /* as offers_lease_all has them */
};

/* EXIT_DONE: all commands ended with 0. EXIT_FAILED: at least one did not. */
enum exit_code exec_list_run(const struct exec_list_options *options, struct output *out);

#endif
