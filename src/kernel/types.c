#include "kernel/types.h"

#include <string.h>

/* Larger ones are unknown; so sums of a few do not overflow. */
#define TYPE_BYTES_MAX ((size_t)1 << 30)

/* A type's size and alignment; 0 bytes: not known. */
struct extent {
    size_t bytes, alignment;
};

static bool is_sign(const struct word *words, uint32_t at, uint32_t end, char sign)
{
    return at < end && words[at].kind == WORD_SIGN && words[at].text[0] == sign;
}

static size_t bytes_of_number(const struct word *word)
{
    static const struct {
        const char *name;
        size_t bytes;
    } known[] = { { "int8_t", 1 },   { "uint8_t", 1 },  { "char", 1 },    { "int16_t", 2 },
                  { "uint16_t", 2 }, { "short", 2 },    { "int32_t", 4 }, { "uint32_t", 4 },
                  { "int", 4 },      { "unsigned", 4 }, { "float", 4 },   { "int64_t", 8 },
                  { "uint64_t", 8 }, { "double", 8 } };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (word_is(word, known[i].name))
            return known[i].bytes;
    return 0;
}

static bool is_tag_word(const struct word *word)
{
    return word_is(word, "struct") || word_is(word, "union");
}

static bool is_skipped(const struct word *word)
{
    return word_is(word, "const") || word_is(word, "volatile") || word_is(word, "static") ||
           word_is(word, "typedef") || word_is(word, "signed");
}

static struct extent find_type(const struct types *types, const struct word *name, bool has_tag)
{
    size_t bytes = has_tag ? 0 : bytes_of_number(name);
    if (bytes > 0)
        return (struct extent){ bytes, bytes };
    for (uint32_t i = types->count; i > 0; i--) {
        const struct known_type *type = &types->all[i - 1];
        if (type->has_tag == has_tag && words_are_same(&type->name, name))
            return (struct extent){ type->bytes, type->alignment };
    }
    return (struct extent){ 0, 0 };
}

/* The type that words from `*at` on begin with; `*at` is then the word after it. */
static struct extent read_type(const struct types *types, const struct word *words, uint32_t *at,
                               uint32_t end)
{
    struct extent extent = { 0, 0 };
    while (*at < end && is_skipped(&words[*at]))
        (*at)++;
    bool has_tag = *at < end && is_tag_word(&words[*at]);
    *at += has_tag;
    if (*at >= end || !word_is_name(&words[*at]))
        return extent;
    extent = find_type(types, &words[*at], has_tag);
    bool is_unsigned = word_is(&words[*at], "unsigned");
    (*at)++;
    /* unsigned char, short int and the like. */
    while (*at < end && (bytes_of_number(&words[*at]) > 0 || is_skipped(&words[*at]) ||
                         word_is(&words[*at], "long"))) {
        size_t bytes = bytes_of_number(&words[*at]);
        if (bytes == 0 && word_is(&words[*at], "long"))
            extent.bytes = 0;
        else if (is_unsigned && bytes > 0)
            extent = (struct extent){ bytes, bytes };
        (*at)++;
    }
    return extent;
}

/* name[4][2] after a type; `*at` is then the word after it. False: it is something else. */
static bool read_declarator(const struct word *words, uint32_t *at, uint32_t end,
                            const struct amount_names *constants, struct extent *extent)
{
    if (*at >= end || !word_is_name(&words[*at]))
        return false;
    (*at)++;
    while (is_sign(words, *at, end, '[')) {
        uint32_t close = words_find_close(words, *at, end);
        const struct amount length = amount_of(constants, words, *at + 1, close);
        if (close == end || !amount_is_constant(&length) || length.low != length.high ||
            length.low <= 0 || extent->bytes > TYPE_BYTES_MAX / (size_t)length.low)
            return false;
        extent->bytes *= (size_t)length.low;
        *at = close + 1;
    }
    return true;
}

/* What is between the braces of a struct or union. */
static struct extent read_fields(const struct types *types, const struct word *words,
                                 uint32_t begin, uint32_t end, bool is_union,
                                 const struct amount_names *constants)
{
    static const struct extent unknown = { 0, 0 };
    struct extent all = { 0, 1 };
    for (uint32_t at = begin; at < end;) {
        const struct extent type = read_type(types, words, &at, end);
        if (type.bytes == 0)
            return unknown;
        for (bool is_more = true; is_more;) {
            struct extent field = type;
            if (!read_declarator(words, &at, end, constants, &field))
                return unknown;
            size_t offset = is_union ? 0 : (all.bytes + type.alignment - 1) & ~(type.alignment - 1);
            size_t last = offset + field.bytes;
            if (last > TYPE_BYTES_MAX)
                return unknown;
            all.bytes = last > all.bytes ? last : all.bytes;
            all.alignment = type.alignment > all.alignment ? type.alignment : all.alignment;
            is_more = is_sign(words, at, end, ',');
            at += is_more;
        }
        if (!is_sign(words, at, end, ';'))
            return unknown;
        at++;
    }
    all.bytes = (all.bytes + all.alignment - 1) & ~(all.alignment - 1);
    return all;
}

static void add(struct types *types, const struct word *name, bool has_tag,
                const struct extent *extent)
{
    if (types->count < TYPES_MAX)
        types->all[types->count++] =
            (struct known_type){ *name, has_tag, extent->bytes, extent->alignment };
}

/* From "typedef" on: the names after the type, or after the brace that ends it. */
static void add_names(struct types *types, const struct word *words, uint32_t at, uint32_t end,
                      const struct extent *type, const struct amount_names *constants)
{
    for (bool is_more = true; is_more;) {
        struct extent extent = *type;
        uint32_t name = at;
        bool is_name = read_declarator(words, &at, end, constants, &extent);
        if (name >= end || !word_is_name(&words[name]))
            return;
        if (!is_name)
            extent.bytes = 0;
        add(types, &words[name], false, &extent);
        is_more = is_name && is_sign(words, at, end, ',');
        at += is_more;
    }
}

void types_read(struct types *types, const struct word *words, uint32_t count,
                const struct amount_names *constants)
{
    bool is_typedef = false;
    types->count = 0;
    for (uint32_t at = 0; at < count; at++) {
        if (word_is(&words[at], "typedef")) {
            uint32_t next = at + 1;
            const struct extent type = read_type(types, words, &next, count);
            is_typedef = true;
            if (type.bytes > 0 && !is_sign(words, next, count, '{')) {
                add_names(types, words, next, count, &type, constants);
                is_typedef = false;
            }
            continue;
        }
        is_typedef = is_typedef && !is_sign(words, at, count, ';');
        if (!is_tag_word(&words[at]))
            continue;
        uint32_t open = at + 1;
        bool has_name = open < count && word_is_name(&words[open]);
        open += has_name;
        if (!is_sign(words, open, count, '{'))
            continue;
        uint32_t close = words_find_close(words, open, count);
        const struct extent extent =
            read_fields(types, words, open + 1, close, word_is(&words[at], "union"), constants);
        if (has_name)
            add(types, &words[open - 1], true, &extent);
        if (is_typedef)
            add_names(types, words, close + 1, count, &extent, constants);
        is_typedef = false;
        at = close;
    }
}

size_t types_find(const struct types *types, const char *type)
{
    struct word words[8];
    struct scanner scanner;
    struct word word;
    uint32_t count = 0, at = 0;
    scanner_init(&scanner, type, strlen(type));
    while (scanner_next(&scanner, &word))
        if (!word_is(&word, "MUSTER_GLOBAL") && !word_is(&word, "restrict") &&
            !word_is(&word, "*")) {
            if (count == sizeof words / sizeof *words)
                return 0;
            words[count++] = word;
        }
    const struct extent extent = read_type(types, words, &at, count);
    return at == count ? extent.bytes : 0;
}
