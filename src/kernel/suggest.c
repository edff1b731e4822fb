#include "kernel/suggest.h"

#include <stdio.h>
#include <string.h>

#define NAME_BYTES_MAX 48

#define ADVICE_BYTES 112

/* Names that are not made of the portable one by what is before or after it. */
static const struct {
    const char *name, *portable;
} other_names[] = {
    { "fmin", "min" },
    { "fmax", "max" },
    { "labs", "abs" },
    { "llabs", "abs" },
    { "rand", "random" },
    { "rand_r", "random" },
    { "drand48", "random" },
    { "erand48", "random" },
    { "lrand48", "random" },
    { "mrand48", "random" },
    { "srand", "random" },
    { "srand48", "random" },
    { "curand", "random" },
    { "curand_uniform", "random_float" },
    { "popc", "popcount" },
    { "popcll", "popcount" },
    { "popcountl", "popcount" },
    { "popcountll", "popcount" },
    { "clzl", "clz" },
    { "clzll", "clz" },
    { "mul_hi", "mulhi" },
    { "umulhi", "mulhi" },
    { "umul64hi", "mulhi" },
    { "mul64hi", "mulhi" },
    { "rotl", "rotate" },
    { "rol", "rotate" },
    { "as_uint", "float_bits" },
    { "float_as_uint", "float_bits" },
    { "float_as_int", "float_bits" },
    { "as_float", "bits_float" },
    { "uint_as_float", "bits_float" },
    { "int_as_float", "bits_float" },
    { "fsqrt_rn", "sqrt" },
};

static const char *const id_functions[] = { "get_global_id", "get_local_id", "get_group_id",
                                            "get_global_size" };

/* Whether the prelude has muster_STEM, whose name is then in `portable`. */
static bool has(const char *stem, char portable[NAME_BYTES_MAX + 8],
                bool (*is_known)(void *user, const char *portable), void *user)
{
    snprintf(portable, NAME_BYTES_MAX + 8, "muster_%s", stem);
    return is_known(user, portable);
}

static bool find_stem(char *stem, char portable[NAME_BYTES_MAX + 8],
                      bool (*is_known)(void *user, const char *portable), void *user)
{
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
        if (strcmp(stem, other_names[i].name) == 0 &&
            has(other_names[i].portable, portable, is_known, user))
            return true;
    return has(stem, portable, is_known, user);
}

const char *suggest_portable(const char *name, size_t bytes,
                             bool (*is_known)(void *user, const char *portable), void *user)
{
    static const char *const prefixes[] = { "__builtin_", "native_", "half_", "__" };
    static _Thread_local char advice[ADVICE_BYTES];
    char stem[NAME_BYTES_MAX], portable[NAME_BYTES_MAX + 8];
    if (bytes >= sizeof stem)
        return NULL;
    memcpy(stem, name, bytes);
    stem[bytes] = '\0';
    for (size_t i = 0; i < sizeof id_functions / sizeof *id_functions; i++)
        if (strcmp(stem, id_functions[i]) == 0)
            return "the number of the item is the kernel's first parameter";
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t length = strlen(prefixes[i]);
        if (bytes > length && memcmp(stem, prefixes[i], length) == 0) {
            memmove(stem, stem + length, bytes - length + 1);
            bytes -= length;
            break;
        }
    }
    bool is_found = find_stem(stem, portable, is_known, user);
    /* expf and expl are exp of another type. */
    if (!is_found && bytes > 1 && (stem[bytes - 1] == 'f' || stem[bytes - 1] == 'l')) {
        stem[bytes - 1] = '\0';
        is_found = find_stem(stem, portable, is_known, user);
    }
    if (!is_found)
        return NULL;
    bool is_random = strcmp(portable, "muster_random") == 0;
    snprintf(advice, sizeof advice, "call %s%s instead", portable,
             is_random ? "(seed, counter)" : "");
    return advice;
}
