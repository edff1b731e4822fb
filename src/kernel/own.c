#include "kernel/own.h"

#include "kernel/signature.h"

#include <string.h>

/* What a value may be made of. */
enum { OF_ITEM = 1 << 0, OF_DATA = 1 << 1, OF_VARIABLE = 1 << 2 };

#define VARIABLES_MAX 128
/* Variables that are made of each other: values reach the last one after that many rounds. */
#define ROUNDS 4

struct variable {
    struct word name;
    uint32_t flags;
};

struct owning {
    const struct reach_room *room;
    const struct kernel_entry *entry;
    struct variable variables[VARIABLES_MAX];
    uint32_t count;
};

static bool is_sign(const struct reach_room *room, uint32_t at, char sign)
{
    return at < room->count && room->words[at].kind == WORD_SIGN && room->words[at].text[0] == sign;
}

static size_t find_parameter(const struct kernel_entry *entry, const struct word *name)
{
    size_t i = 0;
    while (i < entry->parameter_count && !word_is(name, entry->parameters[i].name))
        i++;
    return i;
}

static struct variable *find_variable(struct owning *owning, const struct word *name, bool is_new)
{
    for (uint32_t i = 0; i < owning->count; i++)
        if (words_are_same(&owning->variables[i].name, name))
            return &owning->variables[i];
    if (!is_new || owning->count == VARIABLES_MAX)
        return NULL;
    owning->variables[owning->count] = (struct variable){ .name = *name };
    return &owning->variables[owning->count++];
}

static bool is_function(const struct reach_room *room, const struct word *name)
{
    if (name->bytes > 7 && memcmp(name->text, "muster_", 7) == 0)
        return true;
    for (uint32_t i = 0; i < room->function_count; i++)
        if (words_are_same(&room->functions[i].name, name))
            return true;
    return false;
}

static bool is_member(const struct reach_room *room, uint32_t at)
{
    return at > 0 && (is_sign(room, at - 1, '.') ||
                      (at > 1 && is_sign(room, at - 1, '>') && is_sign(room, at - 2, '-')));
}

/* What the name stands for; what nobody knows may be the item. */
static uint32_t flags_of_name(struct owning *owning, uint32_t at)
{
    const struct reach_room *room = owning->room;
    const struct word *word = &room->words[at];
    const struct variable *variable = find_variable(owning, word, false);
    bool is_subscripted = is_sign(room, at + 1, '[');
    if (variable)
        return variable->flags | OF_VARIABLE | (is_subscripted ? OF_DATA : 0u);
    if (word_is(word, owning->entry->item))
        return OF_ITEM;
    size_t index = find_parameter(owning->entry, word);
    if (index < owning->entry->parameter_count) {
        const struct kernel_parameter *parameter = &owning->entry->parameters[index];
        if (parameter->is_block)
            return is_subscripted ? OF_DATA : OF_ITEM;
        return parameter->is_cell ? OF_ITEM : 0;
    }
    const struct amount amount = amount_name_find(&room->constants, word);
    if (is_function(room, word) || amount_is_constant(&amount))
        return 0;
    return OF_ITEM;
}

/* Of words [begin, end), what stands in brackets aside: it chooses an element and is no part of it. */
static uint32_t flags_of(struct owning *owning, uint32_t begin, uint32_t end)
{
    const struct reach_room *room = owning->room;
    uint32_t flags = 0;
    for (uint32_t at = begin; at < end; at++) {
        const struct word *word = &room->words[at];
        if (is_sign(room, at, '[')) {
            uint32_t close = words_find_close(room->words, at, end);
            at = close < end ? close : end - 1;
        } else if (word->kind == WORD_DIRECTIVE || word->kind == WORD_LITERAL) {
            flags |= OF_ITEM;
        } else if (word_is_name(word) && !is_member(room, at) && !word_is_type(word)) {
            flags |= flags_of_name(owning, at);
        }
    }
    return flags;
}

static bool is_end(const struct reach_room *room, uint32_t at)
{
    return is_sign(room, at, ';') || is_sign(room, at, '{') || is_sign(room, at, '}');
}

/* Where an assignment's = is, from `begin` on; `end` if there is none. */
static uint32_t find_assignment(const struct reach_room *room, uint32_t begin, uint32_t end)
{
    uint32_t at = begin;
    for (; at < end; at++)
        if (is_sign(room, at, '=')) {
            bool is_test = is_sign(room, at + 1, '=') || is_sign(room, at - 1, '=') ||
                           is_sign(room, at - 1, '!');
            bool is_order = (is_sign(room, at - 1, '<') || is_sign(room, at - 1, '>')) &&
                            !is_sign(room, at - 2, room->words[at - 1].text[0]);
            if (!is_test && !is_order)
                break;
        }
    return at;
}

/* What stands on the left of an assignment gets what is on its right. */
static void take_statement(struct owning *owning, uint32_t begin, uint32_t end)
{
    const struct reach_room *room = owning->room;
    uint32_t equals = find_assignment(room, begin, end);
    uint32_t flags = equals < end ? flags_of(owning, equals + 1, end) : 0;
    for (uint32_t at = begin, brackets = 0; at < end; at++) {
        const struct word *word = &room->words[at];
        brackets += is_sign(room, at, '[');
        brackets -= brackets > 0 && is_sign(room, at, ']');
        bool is_local = word_is_name(word) && !is_member(room, at) && !word_is_type(word) &&
                        !is_function(room, word) && !word_is(word, owning->entry->item) &&
                        find_parameter(owning->entry, word) == owning->entry->parameter_count;
        if (!is_local)
            continue;
        bool is_left = at < equals && equals < end && brackets == 0;
        /* A function may write it. */
        bool is_given_away =
            at > begin && is_sign(room, at - 1, '&') && room->words[at - 2].kind == WORD_SIGN;
        if (!is_left && !is_given_away)
            continue;
        struct variable *variable = find_variable(owning, word, true);
        if (variable)
            variable->flags |= (is_left ? flags : 0u) | (is_given_away ? OF_ITEM : 0u);
    }
}

static void find_variables(struct owning *owning, uint32_t begin, uint32_t end)
{
    const struct reach_room *room = owning->room;
    for (int round = 0; round < ROUNDS; round++)
        for (uint32_t at = begin, next; at < end; at = next + 1) {
            next = at;
            while (next < end && !is_end(room, next))
                next++;
            take_statement(owning, at, next);
        }
}

/* Whether the parameter itself is assigned: then it points elsewhere. */
static bool is_moved(const struct reach_room *room, uint32_t begin, uint32_t end,
                     const char *parameter)
{
    for (uint32_t at = begin; at + 2 < end; at++)
        if (word_is(&room->words[at], parameter) &&
            (is_sign(room, at + 1, '=') || is_sign(room, at + 2, '=') ||
             is_sign(room, at - 1, '+') || is_sign(room, at - 1, '-') ||
             (is_sign(room, at + 1, '+') && is_sign(room, at + 2, '+')) ||
             (is_sign(room, at + 1, '-') && is_sign(room, at + 2, '-'))))
            return true;
    return false;
}

/* Whether what follows may be left out for some items. */
static bool is_condition(const struct word *word)
{
    static const char *const words[] = { "if", "while", "switch", "return", "continue", "break" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (word_is(word, words[i]))
            return true;
    return word->kind == WORD_SIGN &&
           (word->text[0] == '?' || word->text[0] == '&' || word->text[0] == '|');
}

static void take_index(struct owning *owning, uint32_t open, uint32_t end, bool is_certain,
                       struct reach *reach)
{
    const struct reach_room *room = owning->room;
    uint32_t close = words_find_close(room->words, open, end);
    uint32_t flags = flags_of(owning, open + 1, close);
    if (close == end || flags & OF_ITEM || reach->foreign == REACH_BY_DATA)
        return;
    if (flags & OF_DATA)
        reach->foreign = REACH_BY_DATA;
    else if (flags == 0 && is_certain && reach->foreign == REACH_OWN)
        reach->foreign = REACH_FIXED;
    else
        return;
    reach->foreign_line = (uint32_t)room->words[open].line;
}

void own_read(struct reach_room *room, const struct reach_function *function,
              struct kernel_entry *entry)
{
    struct owning owning = { .room = room, .entry = entry };
    bool is_certain = true;
    uint32_t begin = function->body, end = function->end;
    find_variables(&owning, begin + 1, end);
    if (owning.count == VARIABLES_MAX)
        return;
    for (uint32_t at = begin + 1; at < end; at++) {
        is_certain = is_certain && !is_condition(&room->words[at]);
        size_t index = find_parameter(entry, &room->words[at]);
        if (index == entry->parameter_count || !entry->parameters[index].is_block ||
            !is_sign(room, at + 1, '[') || find_variable(&owning, &room->words[at], false) ||
            is_moved(room, begin + 1, end, entry->parameters[index].name))
            continue;
        take_index(&owning, at + 1, end, is_certain, &entry->reach.arrays[index]);
    }
}
