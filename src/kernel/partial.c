#include "kernel/partial.h"

#include "kernel/scanner.h"

#include <muster/backend.h>
#include <stdio.h>
#include <string.h>

/* What a block of a GPU's threads can have of memory that it shares, on every GPU. */
#define SHARED_BYTES ((size_t)48 << 10)
#define THREADS_MAX 128u

uint32_t partial_lanes(size_t bytes)
{
    uint32_t lanes = PARTIAL_LANES_MAX;
    while (lanes > 1 && lanes * bytes > PARTIAL_LANES_BYTES)
        lanes /= 2;
    return lanes;
}

uint64_t partial_block_items(size_t bytes)
{
    uint64_t items = PARTIAL_BLOCK_ITEMS;
    while (items < PARTIAL_ITEMS_PER_BYTE * (uint64_t)bytes)
        items *= 2;
    return items;
}

uint32_t partial_threads(size_t bytes)
{
    uint32_t threads = THREADS_MAX;
    while (threads > 1 && threads * bytes > SHARED_BYTES)
        threads /= 2;
    return threads;
}
_Static_assert(PARTIAL_BYTES_MAX <= SHARED_BYTES && 2 * PARTIAL_LANES_BYTES <= SHARED_BYTES,
               "the lanes of a block are in one block of threads");

/* A source while something is looked for. */
struct search {
    const char *code;
    size_t bytes;
    const char *file;
    const struct amount_names *constants;
    struct muster_error *err;
};

/* Words of an array's length. */
#define LENGTH_WORDS_MAX 16

static muster_status wrong(const struct search *search, size_t line, const char *fix,
                           const char *what, const char *name)
{
    return muster_error_fill(search->err, MUSTER_E_PARSE, 0, fix, "%s:%zu: %s '%s'", search->file,
                             line, what, name);
}

static const char *text_of(const struct word *word, char *to, size_t room)
{
    snprintf(to, room, "%.*s", (int)(word->bytes < room ? word->bytes : room - 1), word->text);
    return to;
}

static size_t bytes_of(const char *type)
{
    static const struct {
        const char *name;
        size_t bytes;
    } known[] = { { "int8_t", 1 },  { "uint8_t", 1 },  { "int16_t", 2 }, { "uint16_t", 2 },
                  { "int32_t", 4 }, { "uint32_t", 4 }, { "int64_t", 8 }, { "uint64_t", 8 },
                  { "float", 4 },   { "double", 8 } };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(type, known[i].name) == 0)
            return known[i].bytes;
    return 0;
}

/* What follows a field's name: nothing, or [ number ]. Then `word` is what comes after it. */
static muster_status read_count(const struct search *search, struct scanner *scanner,
                                struct word *word, struct partial_field *field)
{
    field->count = 1;
    if (!scanner_next(scanner, word) || !word_is(word, "["))
        return MUSTER_OK;
    field->is_array = true;
    char name[64];
    struct word words[LENGTH_WORDS_MAX];
    uint32_t count = 0;
    while (scanner_next(scanner, word) && !word_is(word, "]") && count < LENGTH_WORDS_MAX)
        words[count++] = *word;
    const struct amount length = amount_of(search->constants, words, 0, count);
    if (!word_is(word, "]") && count < LENGTH_WORDS_MAX)
        return wrong(search, word->line, "write uint64_t bins[256]",
                     "']' is expected in a partial, and there is",
                     text_of(word, name, sizeof name));
    if (!amount_is_constant(&length) || length.low != length.high || length.low <= 0)
        return wrong(search, word->line,
                     "write a number, or a name that a #define or an enum gives a number",
                     "the length of an array in a partial is",
                     text_of(count > 0 ? &words[0] : word, name, sizeof name));
    field->count = (uint64_t)length.low;
    scanner_next(scanner, word);
    return MUSTER_OK;
}

static muster_status add_field(const struct search *search, struct kernel_partial *partial,
                               const struct partial_field *field, size_t line)
{
    size_t all;
    if (partial->field_count == PARTIAL_FIELDS_MAX)
        return wrong(search, line, "use arrays", "a partial has at most 16 fields, and there is",
                     field->name);
    partial->bytes = (partial->bytes + field->bytes - 1) / field->bytes * field->bytes;
    if (__builtin_mul_overflow((size_t)field->count, field->bytes, &all) ||
        all > PARTIAL_BYTES_MAX || partial->bytes + all > PARTIAL_BYTES_MAX)
        return wrong(search, line, "make it smaller, or reduce in several runs",
                     "a partial has at most 32768 bytes, and is too large at", field->name);
    partial->fields[partial->field_count] = *field;
    partial->fields[partial->field_count++].offset = partial->bytes;
    partial->bytes += all;
    return MUSTER_OK;
}
_Static_assert(PARTIAL_FIELDS_MAX == 16 && PARTIAL_BYTES_MAX == 32768, "the messages name them");

/* From behind the brace to the one that closes it. */
static muster_status read_fields(const struct search *search, struct kernel_partial *partial,
                                 struct scanner *scanner)
{
    struct word word;
    size_t alignment = 1;
    char name[64];
    muster_status status = MUSTER_OK;
    while (status == MUSTER_OK && scanner_next(scanner, &word) && !word_is(&word, "}")) {
        struct partial_field field = { .count = 1 };
        text_of(&word, field.type, sizeof field.type);
        field.bytes = bytes_of(field.type);
        if (field.bytes == 0)
            return wrong(
                search, word.line, "use int8_t to uint64_t, float, double and their arrays",
                "a partial cannot have a field of type", text_of(&word, name, sizeof name));
        alignment = field.bytes > alignment ? field.bytes : alignment;
        do {
            field.is_array = false;
            if (!scanner_next(scanner, &word) || word.kind != WORD_NAME)
                return wrong(search, word.line, "write double sum;",
                             "a partial's field has no name at", text_of(&word, name, sizeof name));
            if (word.bytes >= sizeof field.name)
                return wrong(
                    search, word.line, "give it a shorter name",
                    "a field's name has at most 63 characters:", text_of(&word, name, sizeof name));
            text_of(&word, field.name, sizeof field.name);
            size_t line = word.line;
            status = read_count(search, scanner, &word, &field);
            if (status == MUSTER_OK)
                status = add_field(search, partial, &field, line);
        } while (status == MUSTER_OK && word_is(&word, ","));
        if (status == MUSTER_OK && !word_is(&word, ";"))
            return wrong(search, word.line, "write double sum; or uint64_t bins[256];",
                         "';' is expected in a partial, and there is",
                         text_of(&word, name, sizeof name));
    }
    partial->bytes = (partial->bytes + alignment - 1) / alignment * alignment;
    return status;
}

/* Steps behind the brace that closes the one just read. */
static void skip_braces(struct scanner *scanner)
{
    struct word word;
    size_t depth = 1;
    while (depth > 0 && scanner_next(scanner, &word)) {
        if (word_is(&word, "{"))
            depth++;
        else if (word_is(&word, "}"))
            depth--;
    }
}

/* Finds "struct TAG {" or, for a name of its own, "} NAME ;"; then the scanner is behind the brace. */
static bool find_struct(const struct search *search, const char *type, struct scanner *scanner)
{
    bool has_tag = strncmp(type, "struct ", 7) == 0;
    struct word word, name;
    scanner_init(scanner, search->code, search->bytes);
    while (scanner_next(scanner, &word)) {
        if (word.kind != WORD_NAME || !word_is(&word, "struct") || !scanner_next(scanner, &name))
            continue;
        bool is_tagged = !word_is(&name, "{");
        if (is_tagged && (!scanner_next(scanner, &word) || !word_is(&word, "{")))
            continue;
        struct scanner fields = *scanner;
        skip_braces(scanner);
        if (has_tag ? is_tagged && word_is(&name, type + 7)
                    : scanner_next(scanner, &word) && word_is(&word, type)) {
            *scanner = fields;
            return true;
        }
    }
    return false;
}

static muster_status find_layout(const struct search *search, struct kernel_partial *partial,
                                 const char *name)
{
    struct scanner scanner;
    size_t bytes = bytes_of(partial->type);
    partial->bytes = partial->field_count = 0;
    if (bytes > 0) {
        struct partial_field field = { .bytes = bytes, .count = 1 };
        snprintf(field.type, sizeof field.type, "%s", partial->type);
        return add_field(search, partial, &field, 0);
    }
    if (!find_struct(search, partial->type, &scanner))
        return muster_error_fill(
            search->err, MUSTER_E_PARSE, 0,
            "use double or the like, or write struct NAME { ... }; above",
            "%s: kernel %s: the type '%.64s' of its partial is not in the file", search->file, name,
            partial->type);
    muster_status status = read_fields(search, partial, &scanner);
    if (status == MUSTER_OK && partial->field_count == 0)
        return wrong(search, scanner.line, "give it fields",
                     "a partial has no fields:", partial->type);
    return status;
}

/* The words of a parameter but its name, one space apart. `word` is the comma or parenthesis after it. */
static void read_type(struct scanner *scanner, struct word *word, char *type, size_t room)
{
    struct word last = { WORD_END, "", 0, 0 };
    size_t used = 0;
    type[0] = '\0';
    while (scanner_next(scanner, word) && !word_is(word, ",") && !word_is(word, ")") &&
           !word_is(word, "{") && !word_is(word, ";")) {
        if (last.kind != WORD_END && used < room)
            used += (size_t)snprintf(type + used, room - used, "%s%.*s", used > 0 ? " " : "",
                                     (int)(last.bytes < room ? last.bytes : room), last.text);
        last = *word;
    }
}

/* Looks for a function of this mark and name; whether its parameters are these types. */
static muster_status find_function(const struct search *search, const char *mark, const char *name,
                                   const char *const *types, size_t count, bool *is_found)
{
    char type[160], fix[160];
    struct scanner scanner;
    struct word word;
    *is_found = false;
    scanner_init(&scanner, search->code, search->bytes);
    while (scanner_next(&scanner, &word)) {
        if (word.kind != WORD_NAME || !word_is(&word, mark) || !scanner_next(&scanner, &word) ||
            !word_is(&word, "void") || !scanner_next(&scanner, &word) || !word_is(&word, name))
            continue;
        bool fits = scanner_next(&scanner, &word) && word_is(&word, "(");
        for (size_t i = 0; fits && i < count; i++) {
            read_type(&scanner, &word, type, sizeof type);
            fits = strcmp(type, types[i]) == 0 && word_is(&word, i + 1 < count ? "," : ")");
        }
        if (!fits) {
            snprintf(fix, sizeof fix, "write %s void %s(%s a%s%s%s)", mark, name, types[0],
                     count > 1 ? ", " : "", count > 1 ? types[1] : "", count > 1 ? " b" : "");
            return wrong(search, word.line, fix, "other parameters are expected of", name);
        }
        *is_found = true;
    }
    return MUSTER_OK;
}

static muster_status find_functions(const struct search *search, struct kernel_partial *partial,
                                    const char *name)
{
    char into[128], from[128], function[96];
    const char *const types[] = { into, from };
    bool has_combine;
    snprintf(into, sizeof into, "MUSTER_PARTIAL %s *", partial->type);
    snprintf(from, sizeof from, "MUSTER_PARTIAL const %s *", partial->type);
    snprintf(function, sizeof function, "%s_combine", name);
    muster_status status =
        find_function(search, "MUSTER_COMBINE", function, types, 2, &has_combine);
    if (status == MUSTER_OK && !has_combine)
        return muster_error_fill(search->err, MUSTER_E_PARSE, 0,
                                 "write MUSTER_COMBINE void NAME_combine(MUSTER_PARTIAL T *into, "
                                 "MUSTER_PARTIAL const T *from)",
                                 "%s: kernel %s has a partial but no %s to join two", search->file,
                                 name, function);
    snprintf(function, sizeof function, "%s_identity", name);
    if (status == MUSTER_OK)
        status =
            find_function(search, "MUSTER_IDENTITY", function, types, 1, &partial->has_identity);
    return status;
}

muster_status partial_resolve(struct kernel_partial *partial, const char *name,
                              const struct amount_names *constants, const char *code, size_t bytes,
                              const char *file, struct muster_error *err)
{
    const struct search search = { code, bytes, file, constants, err };
    muster_status status = find_layout(&search, partial, name);
    if (status != MUSTER_OK)
        return status;
    partial->lanes = partial_lanes(partial->bytes);
    partial->block_items = partial_block_items(partial->bytes);
    partial->threads = partial_threads(partial->bytes);
    return find_functions(&search, partial, name);
}
