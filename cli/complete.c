/*
 * `muster __complete WORD...`: what could stand in the place of the last word, for the completions of
 * shells (cli/completion). Made from the tables that drive the parser, so that it knows what they know.
 *
 * A line for each candidate, "word TAB description"; then a line that begins with a colon, if the shell is
 * to complete something itself: ":files", or ":command N", the line of another command from word N on.
 */
#include "command.h"
#include "inventory.h"
#include "number.h"
#include "placement.h"

#include <muster/muster.h>
#include <stdio.h>
#include <string.h>

struct completion {
    struct output *out;
    const char *word; /* what is there of it */
    size_t kept;      /* bytes of it that every candidate begins with: "--devices=cpu:0," */
};

static void offer(const struct completion *completion, const char *name, const char *help)
{
    const char *rest = completion->word + completion->kept;
    if (strncmp(name, rest, strlen(rest)) != 0)
        return;
    output_bytes(completion->out, completion->word, completion->kept);
    output_text(completion->out, name);
    output_text(completion->out, "\t");
    output_column(completion->out, help, 0, false);
    output_text(completion->out, "\n");
}

static void offer_commands(const struct completion *completion)
{
    for (size_t i = 0; i < command_count; i++)
        offer(completion, commands[i]->name, commands[i]->summary);
}

static void offer_words(const struct completion *completion, const char *const *words)
{
    for (; *words; words++)
        offer(completion, *words, "");
}

/* Of a list that is separated by commas the last entry is completed. */
static void begin_entry(struct completion *completion)
{
    const char *comma = strrchr(completion->word + completion->kept, ',');
    if (comma)
        completion->kept = (size_t)(comma - completion->word) + 1;
}

static void offer_devices(struct completion *completion, bool has_devices)
{
    struct inventory inventory;
    struct muster *m = NULL;
    begin_entry(completion);
    if (muster_open(&m, NULL, NULL) != MUSTER_OK)
        return;
    if (inventory_init(&inventory, m, NULL) == MUSTER_OK) {
        for (size_t i = 0; i < inventory.backend_count; i++)
            if (inventory.backends[i].device_count > 0)
                offer(completion, inventory.backends[i].name, "all of this backend");
        for (size_t i = 0; i < inventory.device_count && has_devices; i++)
            offer(completion, inventory.devices[i].info.id, inventory.devices[i].info.name);
        inventory_deinit(&inventory);
    }
    muster_close(m, NULL);
}

/* What the value of an option can be. */
static void offer_values(struct completion *completion, const struct command *command,
                         const struct option *option)
{
    static const char *const policies[] = { "adaptive", "round-robin",     "least-loaded",
                                            "weighted", "earliest-finish", "sticky",
                                            NULL };
    static const struct {
        const char *name, *words[6];
    } others[] = { { "color", { "always", "auto", "never" } },
                   { "border", { "clamp", "zero" } },
                   { "rest", { "drop", "keep", "pad" } },
                   { "sort", { "busy", "id", "memory", "rate", "retries" } } };
    if (option->value && strstr(option->value, "FILE")) {
        output_text(completion->out, ":files\n");
    } else if (strcmp(option->name, "policy") == 0) {
        offer_words(completion, policies);
        /* Where units are given to devices: a pick has none. */
        for (size_t i = 0; i < command->option_count; i++)
            if (strcmp(command->options[i].name, "unit") == 0)
                offer(completion, "claim", "");
    } else if (strcmp(option->name, "devices") == 0 || strcmp(option->name, "backend") == 0) {
        offer_devices(completion, strcmp(option->name, "devices") == 0);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(option->name, others[i].name) == 0)
            offer_words(completion, others[i].words);
}

static void offer_options(const struct completion *completion, const struct command *command)
{
    char name[64];
    for (size_t i = 0; i < command->option_count; i++) {
        snprintf(name, sizeof name, "--%s", command->options[i].name);
        offer(completion, name, command->options[i].help);
    }
    offer(completion, "--help", "print help and do nothing else");
    if (command->rest)
        offer(completion, "--", "the command follows");
}

/* The option that a word names; `*value` is set if its value is in the word. */
static const struct option *option_of(const struct command *command, const char *word,
                                      const char **value)
{
    size_t length = strcspn(word, "=");
    *value = word[length] ? word + length + 1 : NULL;
    for (size_t i = 0; i < command->option_count; i++) {
        const struct option *option = &command->options[i];
        bool is_letter = word[0] == '-' && word[1] == option->letter && option->letter && !word[2];
        if (is_letter || (strncmp(word, "--", 2) == 0 && strlen(option->name) == length - 2 &&
                          memcmp(option->name, word + 2, length - 2) == 0))
            return option;
    }
    return NULL;
}

static bool takes_next(const struct option *option)
{
    return option->kind != OPTION_FLAG && option->kind != OPTION_MAYBE_TEXT &&
           option->kind != OPTION_MAYBE_NUMBER;
}

/* `words[0]` is the first after the command's name, and number `offset` of the line. */
static void complete_line(struct completion *completion, const struct command *command,
                          char *const *words, size_t count, size_t offset)
{
    const struct option *pending = NULL;
    const char *value;
    uint64_t number;
    bool only_arguments = false;
    size_t first = count - 1;
    for (size_t i = 0; i + 1 < count; i++) {
        if (pending) {
            pending = NULL;
        } else if (!only_arguments && strcmp(words[i], "--") == 0) {
            only_arguments = true;
        } else if (!only_arguments && words[i][0] == '-' && words[i][1]) {
            const struct option *option = option_of(command, words[i], &value);
            pending = option && !value && takes_next(option) ? option : NULL;
            /* --wait has a number if one follows. */
            if (option && !value && option->kind == OPTION_MAYBE_NUMBER && i + 2 < count &&
                number_parse(words[i + 1], &number) == NULL)
                i++;
        } else if (command->rest) {
            first = i;
            only_arguments = true;
            break;
        }
    }
    const char *word = completion->word;
    const struct option *option = option_of(command, word, &value);
    bool is_argument = only_arguments || (word[0] != '-' && word[0] != '\0');
    if (pending) {
        offer_values(completion, command, pending);
    } else if (!only_arguments && option && value && strncmp(word, "--", 2) == 0) {
        completion->kept = (size_t)(value - word);
        offer_values(completion, command, option);
    } else if (command->rest && is_argument) {
        char line[32];
        snprintf(line, sizeof line, ":command %zu\n", offset + first);
        output_text(completion->out, line);
    } else if (command == &command_help) {
        offer_commands(completion);
    } else if (!only_arguments && (word[0] == '-' || !command->argument || command->rest)) {
        offer_options(completion, command);
    } else if (command->argument) {
        output_text(completion->out, ":files\n");
    }
}

enum exit_code complete_words(char *const *words, size_t count, struct output *out)
{
    struct completion completion = { .out = out, .word = count > 0 ? words[count - 1] : "" };
    if (count <= 1) {
        offer_commands(&completion);
        offer(&completion, "--help", "list the subcommands");
        offer(&completion, "--version", "print the version");
        offer(&completion, "--isolate", "run devices of these backends in processes of their own");
        offer(&completion, "--untrusted", "compile and run kernels in sandboxes");
        return EXIT_DONE;
    }
    const struct command *command = command_find(words[0]);
    size_t offset = 1;
    if (command && command->parts && count == 2) {
        for (size_t i = 0; i < command->part_count; i++)
            offer(&completion, strchr(command->parts[i]->name, ' ') + 1,
                  command->parts[i]->summary);
        offer(&completion, "--help", "print help and do nothing else");
        return EXIT_DONE;
    }
    if (command && command->parts) {
        command = command_part(command, words[1]);
        offset = 2;
    }
    if (command)
        complete_line(&completion, command, words + offset, count - offset, offset);
    return EXIT_DONE;
}
