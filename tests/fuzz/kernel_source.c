/*
 * The reader of kernel sources on any bytes: what it takes has sound entries, can be written in all
 * three languages and includes nothing but the prelude however a compiler reads it; what it refuses
 * is refused with words.
 */
#include "base/allocator.h"
#include "kernel/translate.h"
#include "platform/machine.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void look_at(const struct kernel_signature *signature)
{
    require(signature->count > 0 && signature->count <= KERNEL_ENTRIES_MAX);
    for (size_t i = 0; i < signature->count; i++) {
        const struct kernel_entry *entry = &signature->entries[i];
        require(kernel_signature_find(signature, entry->name) == entry);
        require(entry->parameter_count <= MUSTER_ARGS_MAX);
        for (size_t p = 0; p < entry->parameter_count; p++)
            require(entry->parameters[p].type[0] &&
                    entry->parameters[p].is_block ==
                        (strchr(entry->parameters[p].type, '*') != NULL));
    }
}

static void guess(const char *text, size_t size)
{
    char names[4][KERNEL_NAME_BYTES];
    static const enum muster_kernel_kind kinds[] = { MUSTER_KERNEL_CUDA, MUSTER_KERNEL_OPENCL,
                                                     MUSTER_KERNEL_PTX };
    for (size_t k = 0; k < 3; k++) {
        size_t count = kernel_entries_guess(kinds[k], text, size, names, 4);
        for (size_t i = 0; i < count && i < 4; i++)
            require(names[i][0] != '\0' && strlen(names[i]) < KERNEL_NAME_BYTES);
    }
}

/* Trigraphs become what they stand for, lines that a backslash ends become one. Gives the size. */
static size_t join_lines(const char *text, size_t size, char *out)
{
    static const char from[] = "=/'()!<>-", to[] = "#\\^[]|{}~";
    size_t used = 0, kept = 0;
    char *flat = malloc(size + 1);
    require(flat != NULL);
    for (size_t i = 0; i < size; i++) {
        const char *third =
            i + 2 < size && text[i] == '?' && text[i + 1] == '?' ? strchr(from, text[i + 2]) : NULL;
        flat[used++] = third && *third ? to[third - from] : text[i];
        i += third && *third ? 2 : 0;
    }
    for (size_t i = 0; i < used; i++) {
        size_t end = i + 1;
        while (flat[i] == '\\' && end < used && strchr(" \t\v\f\r", flat[end]))
            end++;
        if (flat[i] == '\\' && (end == used || flat[end] == '\n'))
            i = end;
        else
            out[kept++] = flat[i] == '\r' ? '\n' : flat[i];
    }
    free(flat);
    out[kept] = '\0';
    return kept;
}

/* Comments become spaces. Literals keep their quotes and lose what is in them, but for the prelude. */
static void strip(char *text)
{
    char *out = text;
    for (char *at = text; *at;) {
        if (at[0] == '/' && at[1] == '*') {
            char *end = strstr(at + 2, "*/");
            at = end ? end + 2 : at + strlen(at);
            *out++ = ' ';
        } else if (at[0] == '/' && at[1] == '/') {
            at += strcspn(at, "\n");
        } else if (*at == '"' || *at == '\'') {
            char quote = *at++;
            bool is_prelude = strncmp(at, KERNEL_PRELUDE_NAME "\"", 16) == 0;
            while (*at && *at != '\n' && *at != quote)
                at += *at == '\\' && at[1] ? 2 : 1;
            at += *at == quote;
            *out++ = quote;
            if (is_prelude)
                *out++ = 'P';
        } else {
            *out++ = *at++;
        }
    }
    *out = '\0';
}

static const char *skip_spaces(const char *at)
{
    while (*at && *at != '\n' && isspace((unsigned char)*at))
        at++;
    return at;
}

/* A line that a preprocessor would act on. */
static void look_at_directive(const char *at)
{
    static const char *const known[] = { "define", "undef", "if",    "ifdef",   "ifndef", "elif",
                                         "else",   "endif", "error", "warning", "pragma" };
    char name[32];
    size_t length = 0;
    at = skip_spaces(at);
    while ((isalnum((unsigned char)*at) || *at == '_') && length < sizeof name - 1)
        name[length++] = *at++;
    name[length] = '\0';
    bool is_known = length == 0 && (*at == '\n' || *at == '\0');
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        is_known = is_known || strcmp(name, known[i]) == 0;
    at = skip_spaces(at);
    if (strcmp(name, "include") == 0)
        is_known = strncmp(at, "\"P", 2) == 0 ||
                   strncmp(at, "<" KERNEL_PRELUDE_NAME ">", strlen(KERNEL_PRELUDE_NAME) + 2) == 0;
    require(is_known);
}

/* What a compiler could find in a source that was taken, read in another way than Muster's. */
static void look_at_text(const char *source, size_t size)
{
    static const char *const never[] = { "asm",      "__asm",         "__asm__",
                                         "_Pragma",  "__attribute__", "__has_include",
                                         "__pragma", "__has_embed",   "__has_include_next" };
    char *text = malloc(size + 1);
    require(text != NULL);
    join_lines(source, size, text);
    strip(text);
    for (const char *at = text; *at; at += *at == '\n') {
        at = skip_spaces(at);
        if (*at == '#')
            look_at_directive(at + 1);
        require(strncmp(at, "%:", 2) != 0);
        at += strcspn(at, "\n");
    }
    for (const char *at = text; *at;) {
        size_t length = 0;
        while (isalnum((unsigned char)at[length]) || at[length] == '_')
            length++;
        for (size_t i = 0; i < sizeof never / sizeof *never; i++)
            require(strlen(never[i]) != length || memcmp(at, never[i], length) != 0);
        require(strncmp(at, "##", 2) != 0);
        at += length > 0 ? length : 1;
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct kernel_signature signature;
    struct muster_error err = { .text = "" };
    const char *text = (const char *)data;
    guess(text, size);
    if (kernel_signature_read(&signature, text, size, "fuzz\"\\\n.c", &err) != MUSTER_OK) {
        require(err.status == MUSTER_E_PARSE && err.text[0] && err.fix[0]);
        return 0;
    }
    look_at(&signature);
    look_at_text(text, size);
    for (int language = KERNEL_C; language <= KERNEL_OPENCL_C; language++) {
        char *out;
        size_t bytes;
        require(kernel_translate(&signature, text, size, "fuzz\"\\\n.c",
                                 (enum kernel_language)language, &platform_heap, &out, &bytes,
                                 &err) == MUSTER_OK);
        require(strlen(out) == bytes);
        allocator_give(&platform_heap, out, bytes + 1, 1);
    }
    return 0;
}
