#include "kernel/signature.h"

#include "base/batch.h"

#include <muster/backend.h>
#include <muster_kernel.h>
#include <stdio.h>
#include <string.h>

/* A source while it is read. */
struct reading {
    struct kernel_signature *signature;
    struct scanner scanner;
    const char *file;
    struct muster_error *err;
};

#define MARK "MUSTER_KERNEL"
#define EXAMPLE                                                                                    \
    "write it like MUSTER_KERNEL void name(uint64_t i, float a, MUSTER_GLOBAL const float *x)"

static muster_status wrong(const struct reading *reading, const struct word *word, const char *fix,
                           const char *what)
{
    int shown = word->bytes < 40 ? (int)word->bytes : 40;
    bool is_end = word->kind == WORD_END;
    return muster_error_fill(reading->err, MUSTER_E_PARSE, 0, fix, "%s:%zu: at %s%.*s%s: %s",
                             reading->file, word->line, is_end ? "the end" : "'", shown, word->text,
                             is_end ? "" : "'", what);
}

static bool is_name(const struct word *word)
{
    return word->kind == WORD_NAME && (word->text[0] < '0' || word->text[0] > '9');
}

/* Where the prelude is included, which is what a portable source may include. */
static muster_status read_directive(struct reading *reading, const struct word *word)
{
    struct kernel_signature *signature = reading->signature;
    if (!portable_is_include(word))
        return MUSTER_OK;
    if (signature->include_count == KERNEL_INCLUDES_MAX)
        return wrong(reading, word, "include it once",
                     KERNEL_PRELUDE_NAME " is included too often");
    size_t begin = (size_t)(word->text - reading->scanner.text);
    signature->includes[signature->include_count++] =
        (struct kernel_span){ begin, begin + word->bytes };
    return MUSTER_OK;
}

/* The next word that is no directive; one inside a signature cannot be followed. */
static muster_status next(struct reading *reading, struct word *word)
{
    scanner_next(&reading->scanner, word);
    if (word->kind == WORD_DIRECTIVE)
        return wrong(reading, word, "write the parameters without preprocessor lines",
                     "a kernel's parameters are expected");
    return MUSTER_OK;
}

static bool is_qualifier(const struct word *word)
{
    return word_is(word, "const") || word_is(word, "volatile") || word_is(word, "restrict");
}

static size_t bytes_of_type(const struct word *word)
{
    static const struct {
        const char *name;
        size_t bytes;
    } known[] = { { "int8_t", 1 },  { "uint8_t", 1 },  { "int16_t", 2 }, { "uint16_t", 2 },
                  { "int32_t", 4 }, { "uint32_t", 4 }, { "int64_t", 8 }, { "uint64_t", 8 },
                  { "float", 4 },   { "double", 8 },   { "int", 4 },     { "unsigned", 4 } };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (word_is(word, known[i].name))
            return known[i].bytes;
    return 0;
}

/* One parameter's words, as they come. */
struct parameter {
    struct kernel_parameter *out;
    struct word last; /* not yet part of the type: it may be the name */
    size_t words, type_words, stars;
    bool is_global, is_partial;
};

static bool add_to_type(struct parameter *parameter, const struct word *word)
{
    char *type = parameter->out->type;
    size_t used = strlen(type);
    if (used + (used > 0) + word->bytes >= KERNEL_TYPE_BYTES)
        return false;
    if (used > 0)
        type[used++] = ' ';
    memcpy(type + used, word->text, word->bytes);
    type[used + word->bytes] = '\0';
    if (word_is(word, "*"))
        parameter->stars++;
    else if (word_is(word, "MUSTER_GLOBAL"))
        parameter->is_global = true;
    else if (word_is(word, "MUSTER_PARTIAL"))
        parameter->is_partial = true;
    else if (word_is(word, "const"))
        /* Behind the star it would be the pointer that is constant. */
        parameter->out->is_const = parameter->out->is_const || parameter->stars == 0;
    else if (!is_qualifier(word)) {
        parameter->type_words++;
        parameter->out->bytes = parameter->type_words == 1 ? bytes_of_type(word) : 0;
        parameter->out->is_float = word_is(word, "float") || word_is(word, "double");
    }
    return true;
}

/* The type of the parameter is the partial's, without the mark and the star. */
static muster_status finish_partial(const struct reading *reading, struct parameter *parameter)
{
    static const char mark[] = "MUSTER_PARTIAL ";
    char *type = parameter->out->type;
    size_t length = strlen(type), before = sizeof mark - 1;
    if (parameter->out->is_const || strncmp(type, mark, before) != 0 || length < before + 3 ||
        strcmp(type + length - 2, " *") != 0)
        return wrong(reading, &parameter->last, "write MUSTER_PARTIAL double *sum",
                     "a partial is a pointer that is not const");
    memmove(type, type + before, length - before - 1);
    type[length - before - 2] = '\0';
    parameter->out->is_partial = true;
    return MUSTER_OK;
}

static muster_status finish_parameter(const struct reading *reading, struct parameter *parameter)
{
    const struct word *name = &parameter->last;
    if (parameter->words < 2 || !is_name(name) || is_qualifier(name) || parameter->type_words == 0)
        return wrong(reading, name, EXAMPLE, "a parameter needs a type and a name");
    if (parameter->stars > 1)
        return wrong(reading, name, "a block is a pointer to its elements",
                     "a parameter cannot be a pointer to a pointer");
    if (parameter->stars == 1 && parameter->is_partial && !parameter->is_global)
        return finish_partial(reading, parameter);
    if ((parameter->stars == 1) != parameter->is_global || parameter->is_partial)
        return wrong(reading, name, "write MUSTER_GLOBAL const float *x, or float x",
                     parameter->stars == 1 ? "a pointer needs MUSTER_GLOBAL"
                                           : "only a pointer takes MUSTER_GLOBAL");
    if (name->bytes >= KERNEL_NAME_BYTES)
        return wrong(reading, name, "give it a shorter name",
                     "a parameter's name has at most 63 characters");
    parameter->out->is_block = parameter->stars == 1;
    if (parameter->out->is_block) {
        parameter->out->element_bytes = parameter->out->bytes;
        parameter->out->bytes = sizeof(void *);
    } else if (strcmp(parameter->out->type, "struct muster_cell") == 0 ||
               strcmp(parameter->out->type, "const struct muster_cell") == 0) {
        parameter->out->is_cell = true;
        parameter->out->bytes = sizeof(struct muster_cell);
    }
    snprintf(parameter->out->name, KERNEL_NAME_BYTES, "%.*s", (int)name->bytes, name->text);
    return MUSTER_OK;
}

/* Up to and with the comma or parenthesis behind it, which is given in `word`. */
static muster_status read_parameter(struct reading *reading, struct kernel_parameter *out,
                                    struct word *word)
{
    struct parameter parameter = { .out = out };
    *out = (struct kernel_parameter){ .bytes = 0 };
    for (;;) {
        muster_status status = next(reading, word);
        if (status != MUSTER_OK)
            return status;
        if (word_is(word, ",") || word_is(word, ")")) {
            if (parameter.words == 0)
                parameter.last = *word;
            return finish_parameter(reading, &parameter);
        }
        if (!is_name(word) && !word_is(word, "*"))
            return wrong(reading, word, EXAMPLE, "a parameter is a value or a pointer");
        if (parameter.words++ > 0 && !add_to_type(&parameter, &parameter.last))
            return wrong(reading, word, "give the type a short name",
                         "a parameter's type is too long");
        parameter.last = *word;
    }
}

/* What a reduction is given it only reads, and two arguments of a launch are Muster's own. */
static muster_status check_reduction(const struct reading *reading,
                                     const struct kernel_entry *entry, const struct word *word)
{
    if (entry->parameter_count > MUSTER_ARGS_MAX - PARTIAL_HIDDEN_ARGS)
        return wrong(reading, word, "pack values into a struct",
                     "a reduction has at most 14 parameters between the item and the partial");
    if (entry->cell != KERNEL_NO_CELL)
        return wrong(reading, word, "take uint64_t first and find x and y from first + i",
                     "a reduction takes no struct muster_cell");
    for (size_t i = 0; i < entry->parameter_count; i++)
        if (entry->parameters[i].is_block && !entry->parameters[i].is_const)
            return muster_error_fill(reading->err, MUSTER_E_PARSE, 0,
                                     "write MUSTER_GLOBAL const, or use two kernels",
                                     "%s:%zu: a reduction only reads arrays, and '%s' is not const",
                                     reading->file, word->line, entry->parameters[i].name);
    return MUSTER_OK;
}
_Static_assert(MUSTER_ARGS_MAX - PARTIAL_HIDDEN_ARGS == 14, "the message above names the number");

static muster_status read_parameters(struct reading *reading, struct kernel_entry *entry)
{
    struct kernel_parameter first;
    struct word word;
    muster_status status = read_parameter(reading, &first, &word);
    if (status != MUSTER_OK)
        return status;
    if (strcmp(first.type, "uint64_t") != 0 && strcmp(first.type, "const uint64_t") != 0)
        return wrong(reading, &word, EXAMPLE, "a kernel's first parameter is the item, uint64_t i");
    memcpy(entry->item, first.name, sizeof entry->item);
    while (word_is(&word, ",")) {
        if (entry->parameter_count == MUSTER_ARGS_MAX)
            return wrong(reading, &word, "pack values into a struct",
                         "a kernel has at most 16 parameters after the item");
        struct kernel_parameter *parameter = &entry->parameters[entry->parameter_count];
        status = read_parameter(reading, parameter, &word);
        if (status != MUSTER_OK)
            return status;
        if (parameter->is_cell && entry->cell != KERNEL_NO_CELL)
            return wrong(reading, &word, "a job has one grid: leave one out",
                         "two parameters are a struct muster_cell");
        if (parameter->is_cell)
            entry->cell = entry->parameter_count;
        if (!parameter->is_partial) {
            entry->parameter_count++;
            continue;
        }
        if (!word_is(&word, ")"))
            return wrong(reading, &word, "put the partial last",
                         "a kernel's partial is its last parameter");
        memcpy(entry->partial.type, parameter->type, sizeof entry->partial.type);
    }
    return kernel_entry_reduces(entry) ? check_reduction(reading, entry, &word) : MUSTER_OK;
}
_Static_assert(MUSTER_ARGS_MAX == 16, "the message above names the number");

static bool is_value(const struct kernel_entry *entry, const struct word *name)
{
    for (size_t i = 0; i < entry->parameter_count; i++)
        if (!entry->parameters[i].is_block && word_is(name, entry->parameters[i].name))
            return true;
    return false;
}

/*
 * Whether the word can stand in a test that is made before the items: numbers, types, the loop's
 * variable and values that the kernel takes. Nothing that can trap, reads memory or calls.
 */
static bool is_evaluable(const struct kernel_entry *entry, const struct word *word,
                         const struct word *last, const struct word *variable)
{
    if (word->kind == WORD_SIGN)
        return strchr("<>=!+-*.()&|^~?:", word->text[0]) != NULL;
    if (word->kind != WORD_NAME)
        return false;
    return !is_name(word) || word_is(last, ".") || is_value(entry, word) ||
           bytes_of_type(word) > 0 || word_is(word, "const") ||
           (variable && word->bytes == variable->bytes &&
            memcmp(word->text, variable->text, word->bytes) == 0);
}

static void extend(struct kernel_span *span, const struct reading *reading, const struct word *word)
{
    size_t begin = (size_t)(word->text - reading->scanner.text);
    if (span->end == 0)
        span->begin = begin;
    span->end = begin + word->bytes;
}

/* What stands between the parenthesis of a `for` and its second semicolon. False: leave it out. */
static bool read_loop(const struct reading *reading, const struct kernel_entry *entry,
                      struct scanner *scanner, struct kernel_loop *loop)
{
    struct word word, last = { WORD_END, "", 0, 0 }, variable = last;
    *loop = (struct kernel_loop){ .variable = { 0, 0 } };
    if (!scanner_next(scanner, &word) || !word_is(&word, "("))
        return false;
    while (scanner_next(scanner, &word) && !word_is(&word, "=")) {
        if (word.kind != WORD_NAME)
            return false;
        if (last.kind == WORD_NAME) {
            if (bytes_of_type(&last) == 0 && !word_is(&last, "const"))
                return false;
            extend(&loop->type, reading, &last);
        }
        last = word;
    }
    if (!is_name(&last) || bytes_of_type(&last) > 0)
        return false;
    variable = last;
    extend(&loop->variable, reading, &variable);
    for (last = word; scanner_next(scanner, &word) && !word_is(&word, ";"); last = word) {
        if (!is_evaluable(entry, &word, &last, NULL))
            return false;
        extend(&loop->first, reading, &word);
    }
    for (last = word; scanner_next(scanner, &word) && !word_is(&word, ";"); last = word) {
        if (!is_evaluable(entry, &word, &last, &variable))
            return false;
        extend(&loop->test, reading, &word);
    }
    return word_is(&word, ";") && loop->first.end > 0 && loop->test.end > 0;
}

/*
 * Looks ahead through the body. What it finds is for speed alone, so a loop that it does not
 * understand is left out.
 */
static void read_loops(const struct reading *reading, struct kernel_entry *entry)
{
    struct scanner scanner = reading->scanner;
    struct word word;
    size_t depth = 1;
    while (depth > 0 && entry->loop_count < KERNEL_LOOPS_MAX && scanner_next(&scanner, &word)) {
        struct scanner ahead = scanner;
        if (word_is(&word, "{"))
            depth++;
        else if (word_is(&word, "}"))
            depth--;
        else if (word_is(&word, "for") &&
                 read_loop(reading, entry, &ahead, &entry->loops[entry->loop_count]))
            entry->loop_count++;
    }
}

/* What follows the mark. A declaration is passed over: its definition counts. */
static muster_status read_entry(struct reading *reading)
{
    struct kernel_signature *signature = reading->signature;
    struct word word;
    muster_status status = next(reading, &word);
    if (status != MUSTER_OK)
        return status;
    if (!word_is(&word, "void"))
        return wrong(reading, &word, EXAMPLE, "void follows " MARK);
    status = next(reading, &word);
    if (status != MUSTER_OK)
        return status;
    if (!is_name(&word) || word.bytes >= KERNEL_NAME_BYTES)
        return wrong(reading, &word, EXAMPLE, "a kernel's name has 1 to 63 characters");
    if (signature->count == KERNEL_ENTRIES_MAX)
        return wrong(reading, &word, "use several files", "a file has at most 32 kernels");
    struct kernel_entry *entry = &signature->entries[signature->count];
    struct word name = word;
    *entry = (struct kernel_entry){ .cell = KERNEL_NO_CELL };
    memcpy(entry->name, word.text, word.bytes);
    status = next(reading, &word);
    if (status == MUSTER_OK && !word_is(&word, "("))
        return wrong(reading, &word, EXAMPLE, "'(' follows a kernel's name");
    if (status == MUSTER_OK)
        status = read_parameters(reading, entry);
    if (status == MUSTER_OK)
        status = next(reading, &word);
    if (status != MUSTER_OK || word_is(&word, ";"))
        return status;
    if (!word_is(&word, "{"))
        return wrong(reading, &word, EXAMPLE, "a kernel's body follows its parameters");
    if (kernel_signature_find(signature, entry->name))
        return wrong(reading, &name, "give each kernel a name of its own",
                     "two kernels have the same name");
    read_loops(reading, entry);
    signature->count++;
    return MUSTER_OK;
}
_Static_assert(KERNEL_ENTRIES_MAX == 32 && KERNEL_NAME_BYTES == 64, "the messages name them");

/* The sizes of what has a type of the source's own. */
static void measure(struct kernel_signature *signature)
{
    types_read(&signature->types, signature->reach.words, signature->reach.count,
               &signature->reach.constants);
    for (size_t i = 0; i < signature->count; i++)
        for (size_t k = 0; k < signature->entries[i].parameter_count; k++) {
            struct kernel_parameter *parameter = &signature->entries[i].parameters[k];
            size_t *bytes = parameter->is_block ? &parameter->element_bytes : &parameter->bytes;
            if (*bytes > 0)
                continue;
            *bytes = types_find(&signature->types, parameter->type);
            parameter->is_measured = *bytes > 0;
        }
}

muster_status kernel_signature_read(struct kernel_signature *signature, const char *code,
                                    size_t bytes, const char *file, struct muster_error *err)
{
    struct reading reading = { .signature = signature, .file = file, .err = err };
    struct word word;
    muster_status status = portable_check(code, bytes, file, err);
    signature->count = signature->include_count = 0;
    scanner_init(&reading.scanner, code, bytes);
    while (status == MUSTER_OK && scanner_next(&reading.scanner, &word)) {
        if (word.kind == WORD_DIRECTIVE)
            status = read_directive(&reading, &word);
        else if (word.kind == WORD_NAME && word_is(&word, MARK))
            status = read_entry(&reading);
    }
    if (status == MUSTER_OK && signature->count == 0)
        status = muster_error_fill(err, MUSTER_E_PARSE, 0, EXAMPLE,
                                   "%s: no function is marked " MARK, file);
    if (status != MUSTER_OK)
        return status;
    reach_prepare(&signature->reach, code, bytes);
    for (size_t i = 0; i < signature->count && status == MUSTER_OK; i++)
        if (kernel_entry_reduces(&signature->entries[i]))
            status = partial_resolve(&signature->entries[i].partial, signature->entries[i].name,
                                     &signature->reach.constants, code, bytes, file, err);
    if (status == MUSTER_OK)
        status = names_check(&signature->names, code, bytes, file, err);
    if (status != MUSTER_OK)
        return status;
    measure(signature);
    for (size_t i = 0; i < signature->count; i++)
        reach_read(&signature->reach, &signature->entries[i]);
    return MUSTER_OK;
}

bool kernel_signature_checks_near(const struct kernel_signature *signature)
{
    bool is_free = false;
    for (size_t i = 0; i < signature->count; i++) {
        const struct reach_all *reach = &signature->entries[i].reach;
        is_free = is_free || reach->unnamed.free_line > 0;
        for (size_t k = 0; k < MUSTER_ARGS_MAX; k++)
            is_free = is_free || reach->arrays[k].free_line > 0;
    }
    return is_free;
}

bool kernel_signature_is_in(const char *code, size_t bytes)
{
    struct scanner scanner;
    struct word word;
    scanner_init(&scanner, code, bytes);
    while (scanner_next(&scanner, &word))
        if (word.kind == WORD_NAME && word_is(&word, MARK))
            return true;
    return false;
}

const struct kernel_entry *kernel_signature_find(const struct kernel_signature *signature,
                                                 const char *entry)
{
    for (size_t i = 0; i < signature->count; i++)
        if (strcmp(signature->entries[i].name, entry) == 0)
            return &signature->entries[i];
    return NULL;
}

static bool begins_entry(enum muster_kernel_kind kind, const struct word *word)
{
    switch (kind) {
    case MUSTER_KERNEL_CUDA:
        return word_is(word, "__global__");
    case MUSTER_KERNEL_OPENCL:
        return word_is(word, "kernel") || word_is(word, "__kernel");
    default:
        return word_is(word, "entry");
    }
}

/* From the mark to the name: what stands before the last parenthesis that opens at the outside. */
static bool find_name(struct scanner *scanner, struct word *name)
{
    struct word word, last = { WORD_END, "", 0, 0 };
    size_t depth = 0;
    while (scanner_next(scanner, &word)) {
        if (word_is(&word, "(")) {
            bool is_attribute =
                word_is(&last, "__attribute__") || word_is(&last, "__launch_bounds__");
            if (depth == 0 && !is_attribute) {
                *name = last;
                return is_name(&last) && last.bytes < KERNEL_NAME_BYTES;
            }
            depth++;
        } else if (word_is(&word, ")")) {
            depth -= depth > 0;
        } else if (word_is(&word, ";") || word_is(&word, "{")) {
            return false;
        }
        last = word;
    }
    return false;
}

/* What Muster itself put beside an entry. */
static bool is_batch(const struct word *name)
{
    size_t length = strlen(BATCH_PREFIX);
    return name->bytes > length && memcmp(name->text, BATCH_PREFIX, length) == 0;
}

size_t kernel_entries_guess(enum muster_kernel_kind kind, const char *code, size_t bytes,
                            char (*names)[KERNEL_NAME_BYTES], size_t capacity)
{
    struct scanner scanner;
    struct word word, name;
    size_t count = 0;
    scanner_init(&scanner, code, bytes);
    while (scanner_next(&scanner, &word)) {
        if (!begins_entry(kind, &word) || !find_name(&scanner, &name) || is_batch(&name))
            continue;
        if (count < capacity) {
            memcpy(names[count], name.text, name.bytes);
            names[count][name.bytes] = '\0';
        }
        count++;
    }
    return count;
}
