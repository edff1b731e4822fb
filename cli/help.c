/*
 * `muster help`: what --help prints, made from the tables that also drive the parser, so the two
 * cannot disagree.
 */
#include "command.h"
#include "message.h"

#include <stdio.h>
#include <string.h>

#define NAME_WIDTH 14
#define OPTION_WIDTH 22
#define LINE_WIDTH 96

static void option_form(const struct option *option, char *form, size_t bytes)
{
    snprintf(form, bytes, "--%s%s%s", option->name, option->value ? " " : "",
             option->value ? option->value : "");
}

void help_print_all(struct output *out)
{
    output_text(out, "muster - keeps every processor in a machine busy on one stream of work\n"
                     "\n"
                     "Usage: muster SUBCOMMAND [OPTIONS]\n"
                     "\n"
                     "Subcommands:\n");
    for (size_t i = 0; i < command_count; i++) {
        output_text(out, "  ");
        output_column(out, commands[i]->name, NAME_WIDTH, false);
        output_text(out, commands[i]->summary);
        output_text(out, "\n");
    }
    output_text(
        out, "\n"
             "Options of all subcommands but exec and scan, and before any subcommand:\n"
             "  --isolate LIST  run the devices of these backends (cpu, cuda, opencl, sim or all) "
             "in helper\n"
             "                  processes: a kernel or driver that crashes or hangs costs a "
             "restart of one\n"
             "  --untrusted     compile and run kernels in sandboxes that can compute and do "
             "nothing else;\n"
             "                  implies --isolate all, and only cpu and sim devices can run them\n"
             "\n"
             "Exit status: 0 done, 1 failed, 2 wrong usage or bad input, 3 no eligible device.\n"
             "'muster SUBCOMMAND --help' describes a subcommand and its options.\n");
}

/* A word of the usage, in brackets if it may be left out; on a new line if this one is full. */
static void usage_word(const char *word, bool is_required, size_t *column, struct output *out)
{
    size_t length = strlen(word) + (is_required ? 1 : 3);
    if (*column + length > LINE_WIDTH) {
        output_text(out, "\n      ");
        *column = strlen("      ");
    }
    output_text(out, is_required ? " " : " [");
    output_text(out, word);
    output_text(out, is_required ? "" : "]");
    *column += length;
}

void help_print(const struct command *command, struct output *out)
{
    char form[64];
    size_t column = strlen("Usage: muster ") + strlen(command->name);
    output_text(out, "muster ");
    output_text(out, command->name);
    output_text(out, " - ");
    output_text(out, command->summary);
    output_text(out, "\n\nUsage: muster ");
    output_text(out, command->name);
    for (size_t i = 0; i < command->option_count; i++) {
        option_form(&command->options[i], form, sizeof form);
        usage_word(form, command->options[i].required, &column, out);
    }
    if (command->argument)
        usage_word(command->argument, command->argument_required, &column, out);
    output_text(out, "\n\n");
    output_text(out, command->details);
    output_text(out, "\nOptions:\n");
    for (size_t i = 0; i < command->option_count; i++) {
        option_form(&command->options[i], form, sizeof form);
        size_t length = strlen(form);
        if (command->options[i].letter)
            snprintf(form + length, sizeof form - length, ", -%c", command->options[i].letter);
        output_text(out, "  ");
        output_column(out, form, OPTION_WIDTH, false);
        if (strlen(form) >= OPTION_WIDTH)
            output_text(out, "  ");
        output_text(out, command->options[i].help);
        output_text(out, "\n");
    }
    output_text(out, "  ");
    output_column(out, "--help", OPTION_WIDTH, false);
    output_text(out, "print this help\n");
}

/* `muster help kernel build`: what `muster kernel build --help` prints. */
static const char *more_words[1];
static struct arguments more = { more_words, 0, 1 };

static enum exit_code print_part(const struct command *command, const char *name,
                                 struct output *out)
{
    if (!command->dispatch) {
        message_usage("help", "%s has no subcommand '%s'", command->name, name);
        return EXIT_USAGE;
    }
    char word[32], help[] = "--help";
    snprintf(word, sizeof word, "%s", name);
    char *const words[] = { word, help };
    return command->dispatch(words, 2, out);
}

static enum exit_code run(const struct option_value *values, const char *argument,
                          struct output *out)
{
    (void)values;
    if (!argument) {
        help_print_all(out);
        return EXIT_DONE;
    }
    const struct command *command = command_find(argument);
    if (!command) {
        command_tell_unknown(argument);
        return EXIT_USAGE;
    }
    if (more.count > 0)
        return print_part(command, more.words[0], out);
    help_print(command, out);
    return EXIT_DONE;
}

const struct command command_help = {
    .name = "help",
    .summary = "print the help of a subcommand, or list all",
    .argument = "SUBCOMMAND",
    .more = &more,
    .details = "Prints what the subcommand does, its options and its exit status.\n",
    .run = run,
};
