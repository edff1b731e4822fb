#include "kernel/portable.h"

#include <muster/backend.h>
#include <string.h>

/* A source while it is checked. */
struct checking {
    const char *file;
    struct muster_error *err;
};

#define PLAIN "leave it out; docs/kernels.md lists what the portable form refuses"

static muster_status refuse(const struct checking *checking, size_t line, const char *text,
                            size_t bytes, const char *what, const char *fix)
{
    return muster_error_fill(checking->err, MUSTER_E_PARSE, 0, fix, "%s:%zu: %s: '%.*s'",
                             checking->file, line, what, (int)(bytes < 40 ? bytes : 40), text);
}

static muster_status refuse_word(const struct checking *checking, const struct word *word,
                                 const char *what, const char *fix)
{
    return refuse(checking, word->line, word->text, word->bytes, what, fix);
}

static bool is_one_of(const struct word *word, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (word_is(word, names[i]))
            return true;
    return false;
}
#define IS_ONE_OF(word, names) is_one_of(word, names, sizeof(names) / sizeof *(names))

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/*
 * A backslash that ends a line joins it with the next. Between two words that is a space; inside a
 * word some see one word and some see two.
 */
static const char *wrong_with_splice(const char *code, size_t bytes, size_t at)
{
    size_t end = at + 1;
    while (end < bytes && code[end] != '\n' && is_space(code[end]))
        end++;
    if (end == bytes)
        return "the source ends in a backslash";
    if (code[end] != '\n')
        return NULL;
    if (end != at + 1 && !(end == at + 2 && code[at + 1] == '\r'))
        return "spaces follow the backslash at the end of a line";
    bool is_apart =
        at == 0 || is_space(code[at - 1]) || end + 1 == bytes || is_space(code[end + 1]);
    return is_apart ? NULL : "a backslash at the end of a line splits a word";
}

/* What is wrong with the characters, whatever they are part of; NULL: nothing. */
static const char *wrong_with_character(const char *code, size_t bytes, size_t at)
{
    char next = at + 1 < bytes ? code[at + 1] : '\0';
    switch (code[at]) {
    case '\0':
        return "a kernel's source has no zero bytes";
    case '\r':
        return next == '\n' ? NULL : "a carriage return stands without a newline";
    case '?':
        return next == '?' && at + 2 < bytes && code[at + 2] && strchr("=/'()!<>-", code[at + 2])
                   ? "a portable kernel has no trigraphs"
                   : NULL;
    case '\\':
        return wrong_with_splice(code, bytes, at);
    default:
        return NULL;
    }
}

static muster_status check_characters(const struct checking *checking, const char *code,
                                      size_t bytes)
{
    size_t line = 1;
    for (size_t at = 0; at < bytes; at++) {
        const char *what = wrong_with_character(code, bytes, at);
        if (what)
            return refuse(checking, line, code + at, bytes - at < 3 ? bytes - at : 3, what,
                          "give the kernel as plain text");
        line += code[at] == '\n';
    }
    return MUSTER_OK;
}

/* Whether the word goes on as `next`, with nothing in between. */
static bool is_followed_by(const struct word *word, char next, const char *end)
{
    return word->text + word->bytes < end && word->text[word->bytes] == next;
}

/* A word that is no directive; `end`: of the text it stands in. */
static muster_status check_word(const struct checking *checking, const struct word *word,
                                const char *end)
{
    /* Attributes and assembly reach the assembler, which includes files too. */
    static const char *const reserved[] = { "asm",
                                            "__asm",
                                            "__asm__",
                                            "_Pragma",
                                            "__pragma",
                                            "__attribute__",
                                            "__attribute",
                                            "__declspec",
                                            "__has_include",
                                            "__has_embed",
                                            "__has_include__",
                                            "__has_include_next",
                                            "__has_embed__",
                                            "__has_include_next__" };
    /* Digraphs; ## could make any of the names above; [[ begins an attribute. */
    static const char *const pairs[] = { "%:", ":>", "<:", "<%", "%>", "##", "[[" };
    switch (word->kind) {
    case WORD_UNFINISHED:
        return refuse_word(checking, word, "a quote is not closed on its line", "close it");
    case WORD_NAME:
        if (IS_ONE_OF(word, reserved))
            return refuse_word(checking, word, "a portable kernel cannot use this", PLAIN);
        /* To C++ that may be a raw string, or a digit separator. */
        if (is_followed_by(word, '"', end) || is_followed_by(word, '\'', end))
            return refuse_word(checking, word, "a quote follows a word directly",
                               "put a space between them");
        return MUSTER_OK;
    case WORD_SIGN:
        if (word->text[0] == '\\')
            return refuse_word(checking, word, "a backslash stands outside of quotes", PLAIN);
        for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
            if (word->text[0] == pairs[i][0] && is_followed_by(word, pairs[i][1], end))
                return refuse(checking, word->line, word->text, 2,
                              "a portable kernel cannot use this", PLAIN);
        return MUSTER_OK;
    default:
        return MUSTER_OK;
    }
}

/* All words of a directive from `word` on. */
static muster_status check_words(const struct checking *checking, struct scanner *scanner,
                                 struct word *word)
{
    muster_status status = MUSTER_OK;
    for (bool is_there = word->kind != WORD_END; is_there && status == MUSTER_OK;
         is_there = scanner_next(scanner, word))
        status = check_word(checking, word, scanner->text + scanner->bytes);
    return status;
}

/* Whether what is left of an #include is the prelude's name and nothing else. */
static bool is_prelude(struct scanner scanner)
{
    size_t length = strlen(KERNEL_PRELUDE_NAME);
    struct word word;
    scanner_next(&scanner, &word);
    const char *name = word.text, *end = scanner.text + scanner.bytes;
    if ((size_t)(end - name) < length + 2 || memcmp(name + 1, KERNEL_PRELUDE_NAME, length) != 0)
        return false;
    if (name[0] == '<' ? name[length + 1] != '>' : name[0] != '"' || name[length + 1] != '"')
        return false;
    scanner_init_within(&scanner, name + length + 2, (size_t)(end - name) - length - 2, 1);
    return !scanner_next(&scanner, &word);
}

/* Those that change how the code is made, and not what it computes. */
static bool is_known_pragma(struct scanner scanner)
{
    static const char *const alone[] = { "unroll", "nounroll", "once" };
    static const char *const of_gcc[] = { "unroll", "ivdep" };
    struct word word, second;
    if (!scanner_next(&scanner, &word) || IS_ONE_OF(&word, alone))
        return true;
    scanner_next(&scanner, &second);
    return (word_is(&word, "GCC") && IS_ONE_OF(&second, of_gcc)) ||
           (word_is(&word, "OPENCL") && word_is(&second, "EXTENSION"));
}

static muster_status check_directive(const struct checking *checking, const struct word *directive)
{
    static const char *const known[] = { "define", "undef", "if",    "ifdef", "ifndef",
                                         "elif",   "else",  "endif", "error", "warning" };
    struct scanner scanner;
    struct word name;
    scanner_init_within(&scanner, directive->text + 1, directive->bytes - 1, directive->line);
    if (!scanner_next(&scanner, &name))
        return MUSTER_OK;
    if (word_is(&name, "include") && name.kind == WORD_NAME)
        return is_prelude(scanner)
                   ? MUSTER_OK
                   : refuse_word(checking, directive,
                                 "a portable kernel may include only " KERNEL_PRELUDE_NAME,
                                 "leave headers out; docs/kernels.md lists what the prelude has");
    if (word_is(&name, "pragma") ? !is_known_pragma(scanner) : !IS_ONE_OF(&name, known))
        return refuse_word(checking, directive, "a portable kernel cannot use this directive",
                           PLAIN);
    return check_words(checking, &scanner, &name);
}

bool portable_is_include(const struct word *directive)
{
    struct scanner scanner;
    struct word name;
    scanner_init_within(&scanner, directive->text + 1, directive->bytes - 1, directive->line);
    return scanner_next(&scanner, &name) && word_is(&name, "include");
}

muster_status portable_check(const char *code, size_t bytes, const char *file,
                             struct muster_error *err)
{
    const struct checking checking = { file, err };
    struct scanner scanner;
    struct word word;
    muster_status status = check_characters(&checking, code, bytes);
    scanner_init(&scanner, code, bytes);
    while (status == MUSTER_OK && scanner_next(&scanner, &word))
        status = word.kind == WORD_DIRECTIVE ? check_directive(&checking, &word)
                                             : check_word(&checking, &word, code + bytes);
    return status;
}
