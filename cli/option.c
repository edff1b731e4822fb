#include "option.h"

#include "command.h"
#include "message.h"
#include "number.h"
#include "suggest.h"

#include <muster/policy.h>
#include <stdio.h>
#include <string.h>

static enum option_result wrong_argument(const struct command *command, const char *word)
{
    message_usage(command->name, "%s does not take the argument '%s'", command->name, word);
    return OPTION_WRONG;
}

static const struct option *find_letter(const struct command *command, char letter)
{
    for (size_t i = 0; i < command->option_count; i++)
        if (letter == command->options[i].letter)
            return &command->options[i];
    return NULL;
}

static bool is_called(const char *own, const char *name, size_t length)
{
    return own && strlen(own) == length && memcmp(own, name, length) == 0;
}

/* The option that a word with two dashes names; `*value` is what follows its '=', or NULL. */
static const struct option *find_name(const struct command *command, const char *word,
                                      const char **value)
{
    const char *name = word + 2;
    const char *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    *value = equals ? equals + 1 : NULL;
    for (size_t i = 0; i < command->option_count; i++) {
        const struct option *option = &command->options[i];
        if (is_called(option->name, name, length) || is_called(option->old_name, name, length))
            return option;
    }
    return NULL;
}

static void tell_unknown(const struct command *command, const char *word)
{
    struct suggestion suggestion = { .name = NULL };
    size_t length = strcspn(word, "=");
    for (size_t i = 0; i < command->option_count && strncmp(word, "--", 2) == 0; i++)
        suggest_offer(&suggestion, word + 2, length - 2, command->options[i].name);
    if (suggestion.name)
        message_usage(command->name, "%s has no option %.*s; did you mean --%s?", command->name,
                      (int)length, word, suggestion.name);
    else
        message_usage(command->name, "%s has no option %s", command->name, word);
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

static bool set_size(const struct command *command, const struct option *option, const char *text,
                     struct option_value *value)
{
    struct muster_error error;
    if (!set_text(command, option, text, value))
        return false;
    if (muster_size_parse(text, &value->number, &error) == MUSTER_OK)
        return true;
    message_usage(command->name, "--%s: %s; %s", option->name, error.text, error.fix);
    return false;
}

static bool add_to_list(const struct command *command, const struct option *option,
                        const char *text)
{
    struct arguments *list = option->list;
    if (list->count == list->max) {
        message_usage(command->name, "--%s is given more than %zu times", option->name, list->max);
        return false;
    }
    list->words[list->count++] = text;
    return true;
}

/* An option that was found, with the value that is in the same word, NULL if that has none. */
static bool take_option(const struct command *command, const struct option *option,
                        const char *text, char *const *words, size_t count, size_t *position,
                        struct option_value *values)
{
    struct option_value *value = &values[option - command->options];
    if (value->given && !option->list) {
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
    if (!text && option->kind == OPTION_MAYBE_TEXT)
        return true;
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
        bool is_next_option =
            *position + 1 < count && !option->list && strncmp(words[*position + 1], "--", 2) == 0;
        if (*position + 1 >= count || is_next_option) {
            message_usage(command->name, "--%s needs a value", option->name);
            return false;
        }
        text = words[++*position];
    }
    if (option->list)
        return add_to_list(command, option, text);
    if (option->kind == OPTION_SIZE)
        return set_size(command, option, text, value);
    if (option->kind == OPTION_TEXT || option->kind == OPTION_MAYBE_TEXT)
        return set_text(command, option, text, value);
    if (option->kind == OPTION_MAYBE_NUMBER)
        value->text = text;
    return set_number(command, option, text, value);
}

/*
 * A word with options, whose value may be the next word. False if that is not right; then it has
 * been told.
 */
static bool take_options(const struct command *command, char *const *words, size_t count,
                         size_t *position, struct option_value *values)
{
    const char *word = words[*position], *text = NULL;
    bool is_letters = word[1] != '-';
    const struct option *option =
        is_letters ? find_letter(command, word[1]) : find_name(command, word, &text);
    for (const char *letter = word + 2; is_letters && option && *letter; letter++) {
        if (option->kind != OPTION_FLAG && option->kind != OPTION_MAYBE_TEXT) {
            text = letter;
            break;
        }
        if (!take_option(command, option, NULL, words, count, position, values))
            return false;
        option = find_letter(command, *letter);
    }
    if (!option) {
        tell_unknown(command, word);
        return false;
    }
    return take_option(command, option, text, words, count, position, values);
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

/* -h is short for --help, except where it means something else. */
static bool asks_for_help(const struct command *command, const char *word)
{
    return strcmp(word, "--help") == 0 || (strcmp(word, "-h") == 0 && !find_letter(command, 'h'));
}

/*
 * Whether --json is among the words: a mistake in the words before it is told as JSON too. The words of
 * another command are not looked at.
 */
static bool asks_for_json(const struct command *command, char *const *words, size_t count)
{
    const char *value;
    bool is_known = find_name(command, "--json", &value) != NULL;
    for (size_t i = 0; i < count && is_known && strcmp(words[i], "--") != 0; i++) {
        if (strcmp(words[i], "--json") == 0)
            return true;
        if (command->rest && words[i][0] != '-')
            break;
    }
    return false;
}

enum option_result option_parse(const struct command *command, char *const *words, size_t count,
                                struct option_value *values, const char **argument)
{
    bool only_arguments = false;
    *argument = NULL;
    if (asks_for_json(command, words, count))
        message_want_json(false);
    memset(values, 0, command->option_count * sizeof *values);
    for (size_t i = 0; i < count; i++) {
        const char *word = words[i];
        if (!only_arguments && asks_for_help(command, word))
            return OPTION_HELP;
        if (!only_arguments && strcmp(word, "--") == 0) {
            only_arguments = true;
        } else if (!only_arguments && word[0] == '-' && word[1] != '\0') {
            if (!take_options(command, words, count, &i, values))
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
