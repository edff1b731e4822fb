#include "kernel/reach.h"

#include "kernel/own.h"
#include "kernel/signature.h"

#include <string.h>

static bool is_sign(const struct reach_room *room, uint32_t at, char sign)
{
    return at < room->count && room->words[at].kind == WORD_SIGN && room->words[at].text[0] == sign;
}

static bool is_neighbour_word(const struct word *word)
{
    return word_is(word, "muster_near") || word_is(word, "muster_near_3d") ||
           word_is(word, "muster_offset");
}

/* Preparing. */

static void look_at_directive(struct reach_room *room, const struct word *directive)
{
    struct scanner scanner;
    struct word word;
    scanner_init_within(&scanner, directive->text + 1, directive->bytes - 1, directive->line);
    while (scanner_next(&scanner, &word))
        room->has_macro = room->has_macro || is_neighbour_word(&word);
}

static void find_functions(struct reach_room *room)
{
    for (uint32_t at = 0; at + 1 < room->count; at++) {
        if (is_sign(room, at, '{')) {
            /* The body of a struct, or values. */
            at = words_find_close(room->words, at, room->count);
            continue;
        }
        if (!word_is_name(&room->words[at]) || !is_sign(room, at + 1, '('))
            continue;
        uint32_t close = words_find_close(room->words, at + 1, room->count);
        if (!is_sign(room, close + 1, '{'))
            continue;
        if (room->function_count == REACH_FUNCTIONS_MAX) {
            room->is_whole = false;
            return;
        }
        struct reach_function *function = &room->functions[room->function_count++];
        *function =
            (struct reach_function){ .name = room->words[at], .open = at + 1, .body = close + 1 };
        function->end = words_find_close(room->words, close + 1, room->count);
        at = function->end;
    }
}

void reach_prepare(struct reach_room *room, const char *code, size_t bytes)
{
    struct scanner scanner;
    struct word word;
    room->count = room->function_count = 0;
    room->is_whole = true;
    room->has_macro = false;
    room->constants.count = 0;
    room->constants.is_full = false;
    room->constants.loop_count = 0;
    scanner_init(&scanner, code, bytes);
    while (scanner_next(&scanner, &word)) {
        if (word.kind == WORD_DIRECTIVE)
            look_at_directive(room, &word);
        if (room->count == REACH_WORDS_MAX) {
            room->is_whole = false;
            /* What is not seen may read neighbours. */
            room->has_macro = room->has_macro || is_neighbour_word(&word);
            continue;
        }
        room->words[room->count++] = word;
    }
    amount_learn_constants(&room->constants, room->words, room->count);
    find_functions(room);
}

/* What is touched. */

/* Where a walk over one function's body puts what it finds. */
struct walk {
    struct reach_room *room;
    struct reach_all *out;
    uint32_t begin, end;
};

static struct reach *reach_of(const struct walk *walk, const struct amount *pointer)
{
    bool is_named = pointer->is_known && pointer->array != AMOUNT_NO_ARRAY;
    return is_named ? &walk->out->arrays[pointer->array] : &walk->out->unnamed;
}

static void note_index(const struct walk *walk, const struct amount *place, uint32_t line)
{
    if (!place->is_known || place->array == AMOUNT_NO_ARRAY || place->step == 0)
        return;
    struct reach *reach = &walk->out->arrays[place->array];
    uint32_t i = 0;
    while (i < reach->index_count && reach->indices[i].step != place->step)
        i++;
    if (i == REACH_INDICES_MAX)
        return;
    struct reach_index *index = &reach->indices[i];
    if (i == reach->index_count) {
        reach->index_count++;
        *index = (struct reach_index){ place->step, place->low, place->high, line, line };
        return;
    }
    if (place->low < index->low) {
        index->low = place->low;
        index->low_line = line;
    }
    if (place->high > index->high) {
        index->high = place->high;
        index->high_line = line;
    }
}

static struct amount amount_at(const struct walk *walk, uint32_t begin, uint32_t end)
{
    return amount_of(&walk->room->names, walk->room->words, begin, end);
}

/* name[...], of a parameter or of a pointer that was made of one. */
static void take_subscript(const struct walk *walk, uint32_t at)
{
    const struct word *words = walk->room->words;
    const struct amount pointer = amount_name_find(&walk->room->names, &words[at]);
    if (!pointer.is_known || pointer.array == AMOUNT_NO_ARRAY)
        return;
    uint32_t close = words_find_close(words, at + 1, walk->end);
    const struct amount index = amount_at(walk, at + 2, close);
    const struct amount place = amount_add(&pointer, &index);
    note_index(walk, &place, (uint32_t)words[at].line);
}

/* *(...) and *name, where no value stands before the star. */
static void take_star(const struct walk *walk, uint32_t at)
{
    const struct reach_room *room = walk->room;
    const struct word *before = &room->words[at - 1];
    bool is_operand = before->kind == WORD_NAME
                          ? !word_is_type(before) && !word_is(before, "return")
                          : word_is(before, ")") || word_is(before, "]");
    bool is_type = before->kind == WORD_NAME && word_is_type(before);
    if (is_operand || is_type || at + 1 >= walk->end)
        return;
    uint32_t end =
        is_sign(room, at + 1, '(') ? words_find_close(room->words, at + 1, walk->end) + 1 : at + 2;
    if (end > walk->end || is_sign(room, end, '[') || is_sign(room, end, '('))
        return;
    const struct amount place = amount_at(walk, at + 1, end);
    note_index(walk, &place, (uint32_t)room->words[at].line);
}

/* The arguments of a call, as places of their words. Gives how many there are. */
static uint32_t split(const struct walk *walk, uint32_t open, uint32_t *begins, uint32_t *ends,
                      uint32_t capacity)
{
    const struct reach_room *room = walk->room;
    uint32_t close = words_find_close(room->words, open, walk->end), count = 0, depth = 0;
    if (close == open + 1 || close == walk->end)
        return 0;
    uint32_t begin = open + 1;
    for (uint32_t at = open + 1; at <= close; at++) {
        if (at == close || (depth == 0 && is_sign(room, at, ','))) {
            if (count < capacity) {
                begins[count] = begin;
                ends[count] = at;
            }
            count++;
            begin = at + 1;
        } else if (room->words[at].kind == WORD_SIGN) {
            depth += strchr("([{", room->words[at].text[0]) != NULL;
            depth -= strchr(")]}", room->words[at].text[0]) != NULL;
        }
    }
    return count;
}

/* How far away, in each direction, or that nobody knows. */
static void note_near(const struct walk *walk, struct reach *reach, const uint32_t *begins,
                      const uint32_t *ends, uint32_t count, uint32_t line)
{
    bool is_first = reach->near_line == 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct amount far = amount_at(walk, begins[i], ends[i]);
        if (!amount_is_constant(&far)) {
            reach->free_line = reach->free_line > 0 ? reach->free_line : line;
            continue;
        }
        int64_t distance = -far.low > far.high ? -far.low : far.high;
        if (is_first || distance > reach->near[i]) {
            reach->near_line = line;
            reach->near[i] = distance > reach->near[i] ? distance : reach->near[i];
        }
    }
    reach->near_line = reach->near_line > 0 ? reach->near_line : line;
}

/* The name before the bracket that is open around a word, for in[i + muster_offset(...)]. */
static struct amount find_pointer_around(const struct walk *walk, uint32_t at)
{
    const struct reach_room *room = walk->room;
    uint32_t depth = 0;
    while (at > walk->begin && !is_sign(room, at, ';') && !is_sign(room, at, '{')) {
        at--;
        depth += is_sign(room, at, ']');
        if (is_sign(room, at, '[') && depth-- == 0)
            return amount_name_find(&room->names, &room->words[at - 1]);
    }
    return amount_unknown();
}

static void take_neighbour(const struct walk *walk, uint32_t at)
{
    uint32_t begins[8], ends[8];
    const struct reach_room *room = walk->room;
    bool is_offset = word_is(&room->words[at], "muster_offset");
    uint32_t first = is_offset ? 1 : 3;
    uint32_t wanted = first + (word_is(&room->words[at], "muster_near") ? 2 : 3);
    uint32_t line = (uint32_t)room->words[at].line;
    walk->out->reads_neighbours = true;
    if (!is_sign(room, at + 1, '(') || split(walk, at + 1, begins, ends, 8) != wanted) {
        /* Not as a call: no compiler takes it, or a macro has it. */
        walk->out->unnamed.free_line = line;
        return;
    }
    const struct amount pointer =
        is_offset ? find_pointer_around(walk, at) : amount_at(walk, begins[0], ends[0]);
    note_near(walk, reach_of(walk, &pointer), begins + first, ends + first, wanted - first, line);
}

static bool calls_are_same(const struct reach_call *a, const struct reach_call *b)
{
    bool is_same = a->function == b->function && a->count == b->count;
    for (uint32_t i = 0; i < a->count && is_same; i++) {
        const struct amount *one = &a->arguments[i], *other = &b->arguments[i];
        is_same = one->is_known == other->is_known && one->array == other->array &&
                  one->step == other->step && one->low == other->low && one->high == other->high;
    }
    return is_same;
}

/* A function of the file: to be walked over with these arguments, once. */
static void take_call(const struct walk *walk, uint32_t at)
{
    struct reach_room *room = walk->room;
    uint32_t begins[REACH_PARAMETERS_MAX], ends[REACH_PARAMETERS_MAX], function = 0;
    while (function < room->function_count &&
           !words_are_same(&room->functions[function].name, &room->words[at]))
        function++;
    if (function == room->function_count)
        return;
    struct reach_call call;
    memset(&call, 0, sizeof call);
    call.function = function;
    call.count = split(walk, at + 1, begins, ends, REACH_PARAMETERS_MAX);
    bool is_followed = call.count <= REACH_PARAMETERS_MAX;
    for (uint32_t i = 0; i < call.count && is_followed; i++)
        call.arguments[i] = amount_at(walk, begins[i], ends[i]);
    for (uint32_t i = 0; i < room->call_count && is_followed; i++)
        if (calls_are_same(&room->calls[i], &call))
            return;
    if (!is_followed || room->call_count == REACH_CALLS_MAX) {
        /* What it does is not seen. */
        const struct reach_function *unseen = &room->functions[function];
        for (uint32_t i = unseen->body; i < unseen->end; i++)
            if (is_neighbour_word(&room->words[i])) {
                walk->out->reads_neighbours = true;
                walk->out->unnamed.free_line = (uint32_t)room->words[i].line;
            }
        return;
    }
    room->calls[room->call_count++] = call;
}

static void walk_over(struct walk *walk)
{
    const struct reach_room *room = walk->room;
    for (uint32_t at = walk->begin + 1; at < walk->end; at++) {
        if (is_sign(room, at, '*'))
            take_star(walk, at);
        else if (is_neighbour_word(&room->words[at]))
            take_neighbour(walk, at);
        else if (word_is_name(&room->words[at]) && is_sign(room, at + 1, '['))
            take_subscript(walk, at);
        else if (word_is_name(&room->words[at]) && is_sign(room, at + 1, '('))
            take_call(walk, at);
    }
}

/* The parameters of a function by name: the last word of each. */
static void give_arguments(struct reach_room *room, const struct reach_call *call)
{
    const struct reach_function *function = &room->functions[call->function];
    struct walk walk = { .room = room, .end = function->body };
    uint32_t begins[REACH_PARAMETERS_MAX], ends[REACH_PARAMETERS_MAX];
    uint32_t count = split(&walk, function->open, begins, ends, REACH_PARAMETERS_MAX);
    room->names = room->constants;
    for (uint32_t i = 0; i < count && i < REACH_PARAMETERS_MAX; i++)
        if (ends[i] > begins[i] && word_is_name(&room->words[ends[i] - 1])) {
            const struct amount unknown = amount_unknown();
            amount_name_give(&room->names, &room->words[ends[i] - 1],
                             i < call->count ? &call->arguments[i] : &unknown);
        }
}

/* The kernel itself as a call: its item, and its pointers. */
static bool find_entry(struct reach_room *room, const struct kernel_entry *entry)
{
    struct reach_call *call = &room->calls[0];
    memset(call, 0, sizeof *call);
    room->call_count = 0;
    while (call->function < room->function_count &&
           !word_is(&room->functions[call->function].name, entry->name))
        call->function++;
    if (call->function == room->function_count)
        return false;
    room->call_count = 1;
    call->count = (uint32_t)entry->parameter_count + 1;
    for (uint32_t i = 0; i < call->count; i++) {
        bool is_array = i > 0 && entry->parameters[i - 1].is_block;
        call->arguments[i] = amount_unknown();
        call->arguments[i].is_known = i == 0 || is_array;
        call->arguments[i].step = i == 0;
        call->arguments[i].array = is_array ? (int32_t)i - 1 : AMOUNT_NO_ARRAY;
    }
    return true;
}
_Static_assert(MUSTER_ARGS_MAX + 2 <= REACH_PARAMETERS_MAX, "a kernel's parameters are followed");

void reach_read(struct reach_room *room, struct kernel_entry *entry)
{
    memset(&entry->reach, 0, sizeof entry->reach);
    if (room->has_macro && entry->cell != KERNEL_NO_CELL) {
        entry->reach.reads_neighbours = true;
        entry->reach.unnamed.free_line = 1;
    }
    if (!find_entry(room, entry)) {
        /* It lies beyond the words that are kept. */
        if (entry->cell != KERNEL_NO_CELL)
            entry->reach.unnamed.free_line = 1;
        return;
    }
    for (uint32_t i = 0; i < room->call_count; i++) {
        const struct reach_function *function = &room->functions[room->calls[i].function];
        struct walk walk = { room, &entry->reach, function->body, function->end };
        give_arguments(room, &room->calls[i]);
        amount_learn(&room->names, room->words, function->body + 1, function->end);
        walk_over(&walk);
    }
    own_read(room, &room->functions[room->calls[0].function], entry);
}
