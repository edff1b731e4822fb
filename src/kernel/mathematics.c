#include "kernel/mathematics.h"

#include "kernel/portable.h"
#include "kernel/translate.h"

#include <string.h>

static const struct {
    const char *name;
    bool needs_double;
    uint32_t tables;
} functions[] = {
    { "muster_exp", true, 0 },
    { "muster_exp2", true, 0 },
    { "muster_exp10", true, 0 },
    { "muster_expm1", true, 0 },
    { "muster_log", true, 0 },
    { "muster_log2", true, 0 },
    { "muster_log10", true, 0 },
    { "muster_log1p", true, 0 },
    { "muster_sin", true, MATHEMATICS_QUADRANT },
    { "muster_cos", true, MATHEMATICS_QUADRANT },
    { "muster_tan", true, MATHEMATICS_QUADRANT },
    { "muster_asin", true, 0 },
    { "muster_acos", true, 0 },
    { "muster_atan", true, 0 },
    { "muster_sinh", true, 0 },
    { "muster_cosh", true, 0 },
    { "muster_tanh", true, 0 },
    { "muster_cbrt", true, 0 },
    { "muster_rsqrt", true, 0 },
    { "muster_erf", true, MATHEMATICS_ERF },
    { "muster_pow", true, MATHEMATICS_POW },
    { "muster_atan2", true, MATHEMATICS_ATAN2 },
    { "muster_hypot", true, 0 },
    /* Its exponents are put together in double. */
    { "muster_fmod", true, 0 },
    { "muster_fma", true, 0 },
    /* All stand in one text, and a device without double does not compile it. */
    { "muster_round", true, 0 },
    { "muster_rint", true, 0 },
    { "muster_sqrt64", true, 0 },
    { "muster_exp64", true, 0 },
    { "muster_log64", true, 0 },
    { "muster_sin64", true, MATHEMATICS_QUADRANT | MATHEMATICS_TURNS },
    { "muster_cos64", true, MATHEMATICS_QUADRANT | MATHEMATICS_TURNS },
    { "muster_pow64", true, MATHEMATICS_POW },
};

static void look_at_word(const struct word *word, struct mathematics *out)
{
    if (word->kind != WORD_NAME || word->bytes < 8 || memcmp(word->text, "muster_", 7) != 0)
        return;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (word_is(word, functions[i].name)) {
            out->is_named = true;
            out->needs_double = out->needs_double || functions[i].needs_double;
            out->tables |= functions[i].tables;
        }
}

/* A macro may name a function; one of them asks for the device's own. */
static void look_at_directive(const struct word *directive, bool is_before, struct mathematics *out)
{
    struct scanner scanner;
    struct word word;
    scanner_init_within(&scanner, directive->text + 1, directive->bytes - 1, directive->line);
    bool is_define = scanner_next(&scanner, &word) && word_is(&word, "define");
    for (size_t i = 0; scanner_next(&scanner, &word); i++) {
        if (i == 0 && is_define && is_before && word_is(&word, "MUSTER_FAST_MATH"))
            out->is_own = true;
        look_at_word(&word, out);
    }
}

struct mathematics mathematics_read(const char *code, size_t bytes)
{
    struct mathematics found = { false, false, false, 0 };
    struct scanner scanner;
    struct word word;
    bool is_before = true;
    scanner_init(&scanner, code, bytes);
    while (scanner_next(&scanner, &word)) {
        if (word.kind != WORD_DIRECTIVE) {
            look_at_word(&word, &found);
            continue;
        }
        is_before = is_before && !portable_is_include(&word);
        look_at_directive(&word, is_before, &found);
    }
    return found;
}

bool mathematics_form_needs_double(const struct muster_kernel_form *form)
{
    if (form->kind == MUSTER_KERNEL_PORTABLE) {
        const struct mathematics found = mathematics_read(form->code, form->code_bytes);
        return found.needs_double && !found.is_own;
    }
    return form->kind == MUSTER_KERNEL_OPENCL &&
           memmem(form->code, form->code_bytes, KERNEL_NEEDS_DOUBLE, strlen(KERNEL_NEEDS_DOUBLE));
}
