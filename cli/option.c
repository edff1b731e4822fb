#include "option.h"

#include "command.h"
#include "message.h"
#include "number.h"

#include <string.h>

static enum option_result wrong_argument(const struct command *command, const char *word)
{
    message_usage(command->name, "%s does not take the argument '%s'", command->name, word);
    return OPTION_WRONG;
}

/* The option that a word starting with a dash names; `*value` is what follows its '=', or NULL. */
static const struct option *find(const struct command *command, const char *word,
                                 const char **value)
{
    if (word[1] != '-') {
        *value = NULL;
        for (size_t i = 0; i < command->option_count; i++)
            if (word[1] == command->options[i].letter && word[2] == '\0')
                return &command->options[i];
        return NULL;
    }
    const char *name = word + 2;
    const char *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    *value = equals ? equals + 1 : NULL;
    for (size_t i = 0; i < command->option_count; i++) {
        const struct option *option = &command->options[i];
        if (strlen(option->name) == length && memcmp(option->name, name, length) == 0)
            return option;
    }
    return NULL;
}

static bool set_text(const struct command *command, const struct option *option, const char *text,
                     struct option_value *value)
{
    if (*text == '\0')
        message_usage(command->name, "--%s cannot be empty", option->name);
    value->text = text;
    return *text != '\0';
}

static bool set_number(const struct command *command, const struct option *option, const char *text,
                       struct option_value *value)
{
    const char *reason = number_parse(text, &value->number);
    if (!reason)
        return true;
    message_usage(command->name, "--%s cannot be '%s': %s", option->name, text, reason);
    return false;
}

/*
 * One option, its value being in the same word or the next. False if that is not right; then it has
 * been told.
 */
static bool take_option(const struct command *command, char *const *words, size_t count,
                        size_t *position, struct option_value *values)
{
    const char *word = words[*position];
    const char *text;
    const struct option *option = find(command, word, &text);
    if (!option) {
        message_usage(command->name, "%s has no option %s", command->name, word);
        return false;
    }
    struct option_value *value = &values[option - command->options];
    if (value->given) {
        message_usage(command->name, "--%s is given twice", option->name);
        return false;
    }
    value->given = true;
    if (option->kind == OPTION_FLAG) {
        if (text)
            message_usage(command->name, "--%s takes no value, but was given '%s'", option->name,
                          text);
        return !text;
    }
    if (!text && option->kind == OPTION_MAYBE_NUMBER) {
        if (*position + 1 >= count || number_parse(words[*position + 1], &value->number))
            return true;
        value->text = words[++*position];
        return true;
    }
    if (!text) {
        /*
         * A word with two dashes is the next option: the value was forgotten. One dash may be a
         * negative number.
         */
        if (*position + 1 >= count || strncmp(words[*position + 1], "--", 2) == 0) {
            message_usage(command->name, "--%s needs a value", option->name);
            return false;
        }
        text = words[++*position];
    }
    if (option->kind == OPTION_TEXT)
        return set_text(command, option, text, value);
    if (option->kind == OPTION_MAYBE_NUMBER)
        value->text = text;
    return set_number(command, option, text, value);
}

/* False if there is no room for it. */
static bool take_argument(const struct command *command, const char *word, const char **argument)
{
    struct arguments *more = command->more;
    if (!command->argument || (*argument && (!more || more->count == more->max)))
        return false;
    if (*argument)
        more->words[more->count++] = word;
    else
        *argument = word;
    return true;
}

enum option_result option_parse(const struct command *command, char *const *words, size_t count,
                                struct option_value *values, const char **argument)
{
    bool only_arguments = false;
    *argument = NULL;
    memset(values, 0, command->option_count * sizeof *values);
    for (size_t i = 0; i < count; i++) {
        const char *word = words[i];
        if (!only_arguments && (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0))
            return OPTION_HELP;
        if (!only_arguments && strcmp(word, "--") == 0) {
            only_arguments = true;
        } else if (!only_arguments && word[0] == '-' && word[1] != '\0') {
            if (!take_option(command, words, count, &i, values))
                return OPTION_WRONG;
        } else if (command->rest) {
            *argument = word;
            *command->rest = &words[i];
            break;
        } else if (!take_argument(command, word, argument)) {
            return wrong_argument(command, word);
        }
    }
    if (command->argument_required && !*argument) {
        message_usage(command->name, "%s needs a %s", command->name, command->argument);
        return OPTION_WRONG;
    }
    for (size_t i = 0; i < command->option_count; i++) {
        const struct option *option = &command->options[i];
        if (option->required && !values[i].given) {
            message_usage(command->name, "%s needs --%s %s", command->name, option->name,
                          option->value);
            return OPTION_WRONG;
        }
    }
    return OPTION_RUN;
}
