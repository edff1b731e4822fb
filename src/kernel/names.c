#include "kernel/names.h"

#include "base/text.h"
#include "kernel/mathematics.h"
#include "kernel/scanner.h"
#include "kernel/suggest.h"
#include "kernel/translate.h"

#include <muster/backend.h>
#include <stdio.h>
#include <string.h>

enum {
    NAME_DEFINED = 1 << 0,  /* a function with a body, or a macro */
    NAME_DECLARED = 1 << 1, /* a function without one so far */
    NAME_TYPE = 1 << 2,
    NAME_KEYWORD = 1 << 3,
    NAME_PRELUDE = 1 << 4
};

/* Parentheses within each other that are followed; a name deeper inside is seen as part of them. */
#define GROUPS_MAX 64
#define PARAMETERS_MAX 32
/* Macros that stand for each other, as in #define f g. */
#define ALIASES_MAX 16
/* Conditionals within each other whose parts are told apart. */
#define CONDITIONALS_MAX 32

/* A source while its names are looked for. */
struct search {
    struct names *names;
    const char *file;
    struct muster_error *err;
    uint32_t flags;     /* of what is found: NAME_PRELUDE or 0 */
    bool is_full;       /* there are too many names */
    bool is_collecting; /* definitions are looked for, else calls */
};

/* The table of names. */

static uint32_t hash_of(const char *text, size_t bytes)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    return hash;
}

static uint32_t *find_slot(struct names *names, const char *text, size_t bytes)
{
    uint32_t at = hash_of(text, bytes) % NAMES_SLOTS;
    while (names->slots[at] > 0) {
        const struct known_name *name = &names->all[names->slots[at] - 1];
        if (name->bytes == bytes && memcmp(name->text, text, bytes) == 0)
            break;
        at = (at + 1) % NAMES_SLOTS;
    }
    return &names->slots[at];
}

static const struct known_name *find(struct names *names, const char *text, size_t bytes)
{
    uint32_t slot = *find_slot(names, text, bytes);
    return slot > 0 ? &names->all[slot - 1] : NULL;
}

static uint32_t flags_of(struct names *names, const struct word *word)
{
    const struct known_name *name = find(names, word->text, word->bytes);
    return name ? name->flags : 0;
}

/* Adds a definition. The flags of a name are those of all its definitions, on the first. */
static void add(struct search *search, const struct word *word, uint32_t flags,
                const struct word *directive)
{
    struct names *names = search->names;
    uint32_t *slot = find_slot(names, word->text, word->bytes);
    struct known_name *first = *slot > 0 ? &names->all[*slot - 1] : NULL;
    flags |= search->flags;
    if (first && !directive) {
        first->flags |= flags;
        return;
    }
    if (names->count == NAMES_MAX) {
        search->is_full = true;
        return;
    }
    names->all[names->count++] =
        (struct known_name){ .text = word->text,
                             .bytes = (uint32_t)word->bytes,
                             .flags = flags,
                             .directive = directive ? directive->text : NULL,
                             .directive_bytes = directive ? (uint32_t)directive->bytes : 0,
                             .next = first ? first->next : 0 };
    if (first) {
        first->flags |= flags;
        first->next = names->count;
    } else {
        *slot = names->count;
    }
}

static bool is_name(const struct word *word)
{
    return word->kind == WORD_NAME && (word->text[0] < '0' || word->text[0] > '9');
}

static void add_language(struct search *search)
{
    static const char *const keywords[] = {
        "if",      "for",      "while",          "switch",        "return",   "sizeof",
        "do",      "else",     "case",           "default",       "goto",     "break",
        "struct",  "union",    "enum",           "typedef",       "static",   "extern",
        "inline",  "register", "_Alignof",       "_Alignas",      "_Generic", "typeof",
        "defined", "continue", "_Static_assert", "static_assert", "_Atomic",  "__typeof__"
    };
    static const char *const types[] = { "void",     "char",   "short",  "int",     "long",
                                         "float",    "double", "signed", "_Bool",   "bool",
                                         "unsigned", "const",  "auto",   "volatile" };
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        add(search, &(struct word){ WORD_NAME, keywords[i], strlen(keywords[i]), 0 }, NAME_KEYWORD,
            NULL);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        add(search, &(struct word){ WORD_NAME, types[i], strlen(types[i]), 0 }, NAME_TYPE, NULL);
}

/* Macros. */

struct macro {
    struct word name;
    bool has_parameters;
    struct word parameters[PARAMETERS_MAX];
    size_t parameter_count;
    struct scanner body; /* what is left of the line */
};

/* False: the directive is no #define. */
static bool read_macro(const struct word *directive, struct macro *macro)
{
    struct word word;
    *macro = (struct macro){ .has_parameters = false };
    scanner_init_within(&macro->body, directive->text + 1, directive->bytes - 1, directive->line);
    if (!scanner_next(&macro->body, &word) || !word_is(&word, "define") ||
        !scanner_next(&macro->body, &macro->name) || !is_name(&macro->name))
        return false;
    struct scanner ahead = macro->body;
    if (!scanner_next(&ahead, &word) || !word_is(&word, "(") ||
        word.text != macro->name.text + macro->name.bytes)
        return true;
    macro->has_parameters = true;
    while (scanner_next(&ahead, &word) && !word_is(&word, ")"))
        if (is_name(&word) && macro->parameter_count < PARAMETERS_MAX)
            macro->parameters[macro->parameter_count++] = word;
    macro->body = ahead;
    return true;
}

static bool same(const struct word *one, const struct word *other)
{
    return one->bytes == other->bytes && memcmp(one->text, other->text, one->bytes) == 0;
}

/* The number of a parameter of that name; `parameter_count`: none has it. */
static size_t find_parameter(const struct macro *macro, const struct word *name)
{
    size_t i = 0;
    while (macro && i < macro->parameter_count && !same(&macro->parameters[i], name))
        i++;
    return i;
}

static bool is_parameter(const struct macro *macro, const struct word *name)
{
    return macro && find_parameter(macro, name) < macro->parameter_count;
}

/* The name that the macro's line, and nothing else, stands for, in parentheses or not. */
static bool read_alias(const struct known_name *known, struct word *name)
{
    struct macro macro;
    struct word word;
    bool has_name = false;
    const struct word directive = { WORD_DIRECTIVE, known->directive, known->directive_bytes, 1 };
    if (!read_macro(&directive, &macro) || macro.has_parameters)
        return false;
    while (scanner_next(&macro.body, &word)) {
        if (is_name(&word) && !has_name) {
            *name = word;
            has_name = true;
        } else if (!word_is(&word, "(") && !word_is(&word, ")")) {
            return false;
        }
    }
    return has_name;
}

/* Refusals. */

static bool is_known(void *user, const char *name)
{
    const struct known_name *known = find(user, name, strlen(name));
    return known && known->flags & NAME_PRELUDE && known->flags & NAME_DEFINED;
}

/* The name that was probably meant; NULL: none is near. */
static const struct known_name *find_near(const struct names *names, const struct word *word)
{
    const struct known_name *best = NULL;
    size_t least = word->bytes < 3 ? 0 : word->bytes < 6 ? 2 : 3;
    for (uint32_t i = 0; i < names->count; i++) {
        const struct known_name *name = &names->all[i];
        bool is_ours = !(name->flags & NAME_PRELUDE) ||
                       (name->bytes > 7 && memcmp(name->text, "muster_", 7) == 0);
        if (!(name->flags & NAME_DEFINED) || !is_ours)
            continue;
        size_t distance = text_distance(word->text, word->bytes, name->text, name->bytes, least);
        if (distance < least) {
            least = distance;
            best = name;
        }
    }
    return best;
}

static muster_status refuse(const struct search *search, const struct word *word, bool is_declared)
{
    char fix[128];
    const char *portable = suggest_portable(word->text, word->bytes, is_known, search->names);
    const struct known_name *near = portable ? NULL : find_near(search->names, word);
    int shown = word->bytes < 40 ? (int)word->bytes : 40;
    if (portable)
        snprintf(fix, sizeof fix, "%s", portable);
    else if (near)
        snprintf(fix, sizeof fix, "did you mean %.*s?", near->bytes < 60 ? (int)near->bytes : 60,
                 near->text);
    else
        snprintf(fix, sizeof fix,
                 "define it in the file, or use the prelude's functions (docs/kernels.md)");
    return muster_error_fill(search->err, MUSTER_E_PARSE, 0, fix, "%s:%zu: '%.*s' is %s",
                             search->file, word->line, shown, word->text,
                             is_declared ? "declared but not defined in this file"
                                         : "defined neither in this file nor in the prelude");
}

/* A call of the name, which may stand for another. */
static muster_status check_call(const struct search *search, const struct word *word)
{
    struct word name = *word;
    for (int i = 0; i < ALIASES_MAX; i++) {
        const struct known_name *known = find(search->names, name.text, name.bytes);
        uint32_t flags = known ? known->flags : 0;
        if (!(flags & (NAME_DEFINED | NAME_TYPE | NAME_KEYWORD)))
            return refuse(search, word, flags & NAME_DECLARED);
        struct word stands_for = { WORD_END, NULL, 0, 0 };
        for (; known; known = known->next > 0 ? &search->names->all[known->next - 1] : NULL) {
            if (!known->directive || !read_alias(known, &stands_for) || same(&stands_for, &name))
                continue;
            /* Of several definitions all must do; the last that stands for a name is followed. */
            if (!(flags_of(search->names, &stands_for) &
                  (NAME_DEFINED | NAME_TYPE | NAME_KEYWORD))) {
                stands_for.line = word->line;
                return refuse(search, &stands_for, false);
            }
        }
        if (!stands_for.text)
            return MUSTER_OK;
        name = stands_for;
    }
    return MUSTER_OK;
}

/* Walking. */

/* An open parenthesis: whether it holds one name and nothing that makes it more than that. */
struct group {
    struct word name;
    bool has_name, is_plain;
    bool is_headed; /* it follows a name: arguments, or the head of a statement */
};

/* Where a walk stands: what is open around the word at hand. */
struct place {
    size_t open, braces;
    bool is_value; /* after the = of a definition */
    bool is_typedef;
    size_t typedef_braces; /* those around the typedef */
};

/* One walk over a source, or over a macro's body. */
struct walk {
    struct search *search;
    const struct macro *macro; /* whose body it is; NULL: the source */
    struct scanner scanner;
    struct word word, last;
    struct group groups[GROUPS_MAX];
    struct group closed; /* the last that was closed; counts while `last` is its parenthesis */
    struct place at;
    struct place conditionals[CONDITIONALS_MAX]; /* where each #if that is open began */
    size_t conditional_count;
};

/* How a macro uses its parameter: as a function that it calls, or that it defines. */
enum use { USE_NONE, USE_CALL, USE_DEFINITION };

static bool is_body_next(const struct walk *walk)
{
    /* From the parenthesis, which has been read, to its end. */
    struct scanner ahead = walk->scanner;
    struct word word;
    size_t depth = 1;
    while (depth > 0 && scanner_next(&ahead, &word))
        depth += word_is(&word, "(") ? 1 : word_is(&word, ")") ? (size_t)-1 : 0;
    return scanner_next(&ahead, &word) && word_is(&word, "{");
}

/* Whether what is called here is a function's name where it is declared or defined. */
static bool is_declaration(const struct walk *walk)
{
    if (walk->at.braces > 0 || walk->at.open > 0 || walk->at.is_value)
        return false;
    return !walk->macro || is_body_next(walk);
}

static enum use find_use(struct search *search, struct macro *macro, size_t parameter)
{
    static const struct word none = { WORD_END, "", 0, 0 };
    struct walk walk = { .search = search, .macro = macro, .scanner = macro->body, .last = none };
    while (scanner_next(&walk.scanner, &walk.word)) {
        if (word_is(&walk.word, "(")) {
            if (is_name(&walk.last) && find_parameter(macro, &walk.last) == parameter)
                return is_declaration(&walk) ? USE_DEFINITION : USE_CALL;
            walk.at.open++;
        } else if (word_is(&walk.word, ")")) {
            walk.at.open -= walk.at.open > 0;
        } else if (word_is(&walk.word, "{")) {
            walk.at.braces++;
        } else if (word_is(&walk.word, "}")) {
            walk.at.braces -= walk.at.braces > 0;
        } else if (word_is(&walk.word, "=")) {
            walk.at.is_value = true;
        }
        walk.last = walk.word;
    }
    return USE_NONE;
}

/* An argument that is one name: what the macro does with it. */
static muster_status use_argument(const struct walk *walk, struct macro *macro, size_t index,
                                  const struct word *name)
{
    struct search *search = walk->search;
    if (index >= macro->parameter_count || is_parameter(walk->macro, name))
        return MUSTER_OK;
    enum use use = find_use(search, macro, index);
    if (use == USE_DEFINITION && search->is_collecting)
        add(search, name, NAME_DEFINED, NULL);
    return use == USE_CALL && !search->is_collecting ? check_call(search, name) : MUSTER_OK;
}

/* The arguments of a macro of the source, from after its parenthesis. */
static muster_status use_arguments(const struct walk *walk, struct macro *macro)
{
    struct scanner ahead = walk->scanner;
    struct word word, name = { WORD_END, "", 0, 0 };
    size_t depth = 1, index = 0, words = 0;
    muster_status status = MUSTER_OK;
    while (status == MUSTER_OK && depth > 0 && scanner_next(&ahead, &word)) {
        bool is_end = depth == 1 && (word_is(&word, ",") || word_is(&word, ")"));
        depth += word_is(&word, "(") ? 1 : word_is(&word, ")") ? (size_t)-1 : 0;
        if (is_end) {
            if (words == 1 && is_name(&name))
                status = use_argument(walk, macro, index, &name);
            index++;
            words = 0;
        } else {
            words++;
            name = word;
        }
    }
    return status;
}

/* A name before a parenthesis. */
static muster_status use_call(const struct walk *walk, const struct word *name, bool is_place)
{
    struct search *search = walk->search;
    const struct known_name *known = find(search->names, name->text, name->bytes);
    muster_status status = MUSTER_OK;
    if (is_parameter(walk->macro, name))
        return MUSTER_OK;
    for (const struct known_name *one = known; status == MUSTER_OK && one;
         one = one->next > 0 ? &search->names->all[one->next - 1] : NULL) {
        struct macro macro;
        const struct word directive = { WORD_DIRECTIVE, one->directive, one->directive_bytes, 1 };
        if (one->directive && read_macro(&directive, &macro) && macro.has_parameters)
            status = use_arguments(walk, &macro);
    }
    if (status != MUSTER_OK || (known && known->flags & (NAME_KEYWORD | NAME_TYPE)))
        return status;
    if (!is_place)
        return search->is_collecting ? MUSTER_OK : check_call(search, name);
    if (search->is_collecting && !(known && known->directive))
        add(search, name, is_body_next(walk) ? NAME_DEFINED : NAME_DECLARED, NULL);
    return MUSTER_OK;
}

/* Whether a parenthesis after the word holds its arguments, or the head of its statement. */
static bool is_head(const struct walk *walk, const struct word *word)
{
    static const char *const before_values[] = { "return", "else", "do", "case" };
    for (size_t i = 0; i < sizeof before_values / sizeof *before_values; i++)
        if (word_is(word, before_values[i]))
            return false;
    return is_name(word) && !(flags_of(walk->search->names, word) & NAME_TYPE);
}

static muster_status open_group(struct walk *walk)
{
    muster_status status = MUSTER_OK;
    bool is_place = is_declaration(walk);
    bool is_closed = word_is(&walk->last, ")");
    if (is_name(&walk->last))
        status = use_call(walk, &walk->last, is_place);
    else if (is_closed && walk->closed.is_plain && walk->closed.has_name)
        status = use_call(walk, &walk->closed.name, is_place);
    if (walk->at.open < GROUPS_MAX)
        walk->groups[walk->at.open] =
            (struct group){ .is_plain = true, .is_headed = is_head(walk, &walk->last) };
    walk->at.open++;
    return status;
}

static void close_group(struct walk *walk)
{
    walk->closed = (struct group){ .is_plain = false };
    if (walk->at.open == 0)
        return;
    if (--walk->at.open >= GROUPS_MAX)
        return;
    walk->closed = walk->groups[walk->at.open];
    walk->closed.is_plain = walk->closed.is_plain && !walk->closed.is_headed;
    if (walk->at.open == 0)
        return;
    /* A name in two pairs of parentheses is still that name. */
    struct group *around = &walk->groups[walk->at.open - 1];
    around->is_plain = around->is_plain && walk->closed.is_plain && !around->has_name;
    around->name = walk->closed.name;
    around->has_name = walk->closed.has_name;
}

/* A word that opens and closes nothing, seen by the parenthesis around it. */
static void note_word(struct walk *walk)
{
    if (walk->at.open == 0 || walk->at.open > GROUPS_MAX)
        return;
    struct group *group = &walk->groups[walk->at.open - 1];
    if (is_name(&walk->word) && !group->has_name) {
        group->name = walk->word;
        group->has_name = true;
    } else if ((!word_is(&walk->word, "*") && !word_is(&walk->word, "&")) || group->has_name) {
        group->is_plain = false;
    }
}

/* A typedef, also inside a function, may name several types: typedef float real, row[4]; */
static void take_typedef(struct walk *walk)
{
    const struct word *word = &walk->word;
    struct place *at = &walk->at;
    if (word_is(word, "typedef")) {
        at->is_typedef = true;
        at->typedef_braces = at->braces;
    }
    if (!at->is_typedef || at->braces != at->typedef_braces || at->open > 0)
        return;
    bool is_end = word_is(word, ";");
    if ((is_end || word_is(word, ",") || word_is(word, "[")) && is_name(&walk->last) &&
        walk->search->is_collecting)
        add(walk->search, &walk->last, NAME_TYPE, NULL);
    at->is_typedef = !is_end;
}

/* The parts of a conditional begin at the same place, so that a brace in each counts once. */
static void take_conditional(struct walk *walk)
{
    struct scanner scanner;
    struct word word;
    scanner_init_within(&scanner, walk->word.text + 1, walk->word.bytes - 1, walk->word.line);
    if (!scanner_next(&scanner, &word))
        return;
    size_t count = walk->conditional_count;
    if (word_is(&word, "if") || word_is(&word, "ifdef") || word_is(&word, "ifndef")) {
        if (count < CONDITIONALS_MAX)
            walk->conditionals[count] = walk->at;
        walk->conditional_count++;
    } else if (count > 0 && (word_is(&word, "else") || word_is(&word, "elif"))) {
        if (count <= CONDITIONALS_MAX)
            walk->at = walk->conditionals[count - 1];
    } else if (count > 0 && word_is(&word, "endif")) {
        walk->conditional_count--;
    }
}

static muster_status take_directive(struct walk *walk);

static muster_status take_word(struct walk *walk)
{
    const struct word *word = &walk->word;
    if (word->kind == WORD_DIRECTIVE)
        return take_directive(walk);
    if (word_is(word, "("))
        return open_group(walk);
    if (word_is(word, ")")) {
        close_group(walk);
        return MUSTER_OK;
    }
    note_word(walk);
    if (word_is(word, "{")) {
        walk->at.braces++;
    } else if (word_is(word, "}")) {
        walk->at.braces -= walk->at.braces > 0;
        /* What was not closed by then never will be. */
        walk->at.open = walk->at.braces == 0 ? 0 : walk->at.open;
    } else if (word_is(word, "=") && walk->at.braces == 0) {
        walk->at.is_value = true;
    }
    take_typedef(walk);
    bool is_end = word_is(word, ";") && walk->at.braces == 0;
    if (is_end || (word_is(word, "}") && walk->at.braces == 0 && !walk->at.is_typedef)) {
        walk->at.is_value = false;
        walk->at.open = 0;
    }
    return MUSTER_OK;
}

static muster_status take_all(struct walk *walk)
{
    muster_status status = MUSTER_OK;
    while (status == MUSTER_OK && scanner_next(&walk->scanner, &walk->word)) {
        status = take_word(walk);
        if (walk->word.kind != WORD_DIRECTIVE)
            walk->last = walk->word;
    }
    return status;
}

/* The body of a macro is code wherever the macro is used. */
static muster_status take_directive(struct walk *walk)
{
    struct macro macro;
    take_conditional(walk);
    if (walk->macro || !read_macro(&walk->word, &macro) || walk->search->flags & NAME_PRELUDE)
        return MUSTER_OK;
    /* Large, but it is the only one: macros have no directives inside. */
    struct walk inside = { .search = walk->search, .macro = &macro, .scanner = macro.body };
    inside.last = (struct word){ WORD_END, "", 0, 0 };
    return take_all(&inside);
}

static muster_status walk_over(struct search *search, const char *code, size_t bytes)
{
    struct walk walk = { .search = search, .last = { WORD_END, "", 0, 0 } };
    scanner_init(&walk.scanner, code, bytes);
    return take_all(&walk);
}

static void add_macros(struct search *search, const char *code, size_t bytes)
{
    struct scanner scanner;
    struct word word;
    struct macro macro;
    scanner_init(&scanner, code, bytes);
    while (scanner_next(&scanner, &word))
        if (word.kind == WORD_DIRECTIVE && read_macro(&word, &macro))
            /* What the prelude's own macros stand for is not looked at. */
            add(search, &macro.name, NAME_DEFINED, search->flags & NAME_PRELUDE ? NULL : &word);
}

muster_status names_check(struct names *names, const char *code, size_t bytes, const char *file,
                          struct muster_error *err)
{
    struct search search = { .names = names, .file = file, .err = err, .is_collecting = true };
    size_t prelude = strlen(kernel_prelude);
    names->count = 0;
    memset(names->slots, 0, sizeof names->slots);
    add_language(&search);
    search.flags = NAME_PRELUDE;
    add_macros(&search, kernel_prelude, prelude);
    walk_over(&search, kernel_prelude, prelude);
    /* It has a macro for each function of the mathematics, and nothing else. */
    add_macros(&search, mathematics_fast_text, strlen(mathematics_fast_text));
    search.flags = 0;
    add_macros(&search, code, bytes);
    walk_over(&search, code, bytes);
    if (search.is_full)
        return muster_error_fill(err, MUSTER_E_PARSE, 0, "use several files",
                                 "%s: it defines too many names; with the prelude's at most %d",
                                 file, NAMES_MAX);
    search.is_collecting = false;
    return walk_over(&search, code, bytes);
}
