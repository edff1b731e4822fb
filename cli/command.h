/*
 * A subcommand: what main.c, help.c and the subcommands themselves know about each other.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "option.h"
#include "output.h"

/* What the process ends with. Programs rely on these numbers. */
enum exit_code {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_NO_DEVICE = 3,
    /* Of a program that was to be run, as shells have them. */
    EXIT_NOT_RUNNABLE = 126,
    EXIT_NOT_THERE = 127
};

struct command {
    const char *name;
    const char *summary;  /* one line, for the list of subcommands */
    const char *argument; /* what its one argument is called; NULL if it takes none */
    bool argument_required;
    const char *details; /* paragraphs for --help, each line ended */
    const struct option *options;
    size_t option_count; /* at most OPTIONS_MAX */
    /* Where arguments after the first go; NULL: there may be only one. */
    struct arguments *more;
    /*
     * Where the words from the first argument on go, which then are no options whatever they begin
     * with, up to the NULL behind the last; NULL: it is not so.
     */
    char *const **rest;
    /* Its own subcommands, "kernel build" and so on; NULL: there are none. */
    const struct command *const *parts;
    size_t part_count;
    /*
     * Reads its words itself: a subcommand that has subcommands, and then nothing but a name and
     * words for help, or one whose lists have as many places as there are words.
     */
    enum exit_code (*dispatch)(char *const *words, size_t count, struct output *out);
    /* `values[i]` belongs to options[i]; `argument` is NULL if none was given. */
    enum exit_code (*run)(const struct option_value *values, const char *argument,
                          struct output *out);
};

extern const struct command command_devices, command_pick, command_explain, command_partition,
    command_exec, command_sim, command_kernel, command_map, command_reduce, command_scan,
    command_worker, command_jobs, command_cluster, command_bench, command_top, command_serve,
    command_version, command_help;

/* All of them, in the order help shows them. Defined in main.c. */
extern const struct command *const commands[];
extern const size_t command_count;

/* What the caller had SIGPIPE do: for programs that are run in the place of this one. */
extern void (*sigpipe_before)(int);

/* NULL if there is none of that name. */
const struct command *command_find(const char *name);
/* The subcommand "build" of "kernel"; NULL if there is none of that name. */
const struct command *command_part(const struct command *command, const char *name);
/* Reads the words that follow the command's name, and runs it or prints its help. */
enum exit_code command_run(const struct command *command, char *const *words, size_t count,
                           struct output *out);
/* Says so, and which may have been meant. */
void command_tell_unknown(const char *name);

/* What could stand in the place of the last word; see complete.c. */
enum exit_code complete_words(char *const *words, size_t count, struct output *out);

/* What `muster --help` and `muster SUBCOMMAND --help` print. */
void help_print_all(struct output *out);
void help_print(const struct command *command, struct output *out);

#endif
