#include "kernel/scanner.h"

#include <string.h>

void scanner_init(struct scanner *scanner, const char *text, size_t bytes)
{
    *scanner = (struct scanner){ .text = text, .bytes = bytes, .line = 1, .is_fresh = true };
}

void scanner_init_within(struct scanner *scanner, const char *text, size_t bytes, size_t line)
{
    *scanner = (struct scanner){ .text = text, .bytes = bytes, .line = line };
}

bool word_is(const struct word *word, const char *text)
{
    return word->bytes == strlen(text) && memcmp(word->text, text, word->bytes) == 0;
}

/* The character `ahead` of here, 0 after the end. */
static char peek(const struct scanner *scanner, size_t ahead)
{
    return ahead < scanner->bytes - scanner->at ? scanner->text[scanner->at + ahead] : '\0';
}

static void step(struct scanner *scanner)
{
    if (scanner->text[scanner->at++] == '\n') {
        scanner->line++;
        scanner->is_fresh = true;
    }
}

static bool is_name_part(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* A backslash before the end of a line, which may end in two characters. */
static size_t splice_bytes(const struct scanner *scanner)
{
    if (peek(scanner, 0) != '\\')
        return 0;
    return peek(scanner, 1) == '\n'                               ? 2
           : peek(scanner, 1) == '\r' && peek(scanner, 2) == '\n' ? 3
                                                                  : 0;
}

static void skip(struct scanner *scanner, size_t count)
{
    while (count-- > 0)
        step(scanner);
}

/* Steps over a splice or a comment; one that never ends reaches to the end of the text. */
static bool skip_unseen(struct scanner *scanner)
{
    size_t splice = splice_bytes(scanner);
    if (splice > 0) {
        bool was_fresh = scanner->is_fresh;
        skip(scanner, splice);
        scanner->is_fresh = was_fresh;
        return true;
    }
    if (peek(scanner, 0) != '/')
        return false;
    if (peek(scanner, 1) == '*') {
        skip(scanner, 2);
        while (scanner->at < scanner->bytes &&
               !(peek(scanner, 0) == '*' && peek(scanner, 1) == '/'))
            step(scanner);
        skip(scanner, scanner->at < scanner->bytes ? 2 : 0);
        return true;
    }
    if (peek(scanner, 1) != '/')
        return false;
    while (scanner->at < scanner->bytes && peek(scanner, 0) != '\n') {
        size_t continued = splice_bytes(scanner);
        skip(scanner, continued > 0 ? continued : 1);
    }
    return true;
}

/* False: it is not closed on its line, and ends with it, as compilers see it. */
static bool skip_literal(struct scanner *scanner)
{
    char quote = peek(scanner, 0);
    step(scanner);
    while (scanner->at < scanner->bytes && peek(scanner, 0) != '\n') {
        char c = peek(scanner, 0);
        if (splice_bytes(scanner) > 0)
            return false;
        skip(scanner, c == '\\' && scanner->bytes - scanner->at > 1 ? 2 : 1);
        if (c == quote)
            return true;
    }
    return false;
}

static void skip_directive(struct scanner *scanner)
{
    while (scanner->at < scanner->bytes && peek(scanner, 0) != '\n') {
        char c = peek(scanner, 0);
        /* What looks like a comment inside of quotes is none. */
        if (c == '"' || c == '\'')
            skip_literal(scanner);
        else if (!skip_unseen(scanner))
            step(scanner);
    }
}

bool scanner_next(struct scanner *scanner, struct word *word)
{
    while (scanner->at < scanner->bytes) {
        char c = peek(scanner, 0);
        if (c != ' ' && (c < '\t' || c > '\r')) {
            if (!skip_unseen(scanner))
                break;
        } else {
            step(scanner);
        }
    }
    *word = (struct word){ WORD_END, scanner->text + scanner->at, 0, scanner->line };
    if (scanner->at == scanner->bytes)
        return false;
    size_t begin = scanner->at;
    char c = peek(scanner, 0);
    bool is_fresh = scanner->is_fresh;
    scanner->is_fresh = false;
    if (c == '#' && is_fresh) {
        word->kind = WORD_DIRECTIVE;
        skip_directive(scanner);
    } else if (c == '"' || c == '\'') {
        word->kind = skip_literal(scanner) ? WORD_LITERAL : WORD_UNFINISHED;
    } else if (is_name_part(c)) {
        word->kind = WORD_NAME;
        while (is_name_part(peek(scanner, 0)))
            step(scanner);
    } else {
        word->kind = WORD_SIGN;
        step(scanner);
    }
    word->bytes = scanner->at - begin;
    return true;
}
