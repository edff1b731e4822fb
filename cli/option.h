/*
 * Command line options over a table: `--name value` and `--name=value`, each at most once unless it
 * has a list; `-x value` and `-xvalue` for those that have a letter, and `-xy` for flags.
 */
#ifndef CLI_OPTION_H
#define CLI_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPTIONS_MAX 56

enum option_kind {
    OPTION_FLAG,
    OPTION_NUMBER,
    OPTION_SIZE, /* a number of bytes: 4096, 64MiB, 1.5G */
    OPTION_TEXT,
    OPTION_MAYBE_NUMBER, /* the next word is its number if it is one */
    OPTION_MAYBE_TEXT    /* its text, if there is one, follows an = */
};

/* Arguments behind the first, or values of an option. */
struct arguments {
    const char **words; /* borrowed: room for `max` */
    size_t count, max;
};

struct option {
    const char *name;     /* without the dashes */
    const char *old_name; /* still taken, and not shown; NULL: there is none */
    char letter;          /* 0: it has none */
    enum option_kind kind;
    bool required;
    const char *value; /* what help calls the value; NULL for a flag */
    const char *help;  /* one line */
    /* It may be given several times, with any text: where its values go. Else NULL. */
    struct arguments *list;
};

struct option_value {
    bool given;
    uint64_t number; /* OPTION_NUMBER, OPTION_SIZE; also OPTION_MAYBE_NUMBER, if `text` is set */
    const char *
        text; /* OPTION_TEXT, OPTION_MAYBE_TEXT, OPTION_SIZE: borrowed from the command line, not empty */
};

enum option_result { OPTION_RUN, OPTION_HELP, OPTION_WRONG };

struct command;

/*
 * Reads what follows the subcommand's name. OPTION_HELP: --help or -h was met before any mistake.
 * OPTION_WRONG: the mistake has been reported on stderr. `values` has room for all options of the
 * command.
 */
enum option_result option_parse(const struct command *command, char *const *words, size_t count,
                                struct option_value *values, const char **argument);

#endif
