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

size_t suggest_distance(const char *one, size_t one_bytes, const char *other, size_t other_bytes,
                        size_t limit)
{
    size_t rows[3][NAME_BYTES_MAX + 1];
    size_t apart = one_bytes > other_bytes ? one_bytes - other_bytes : other_bytes - one_bytes;
    if (one_bytes > NAME_BYTES_MAX || other_bytes > NAME_BYTES_MAX || apart >= limit)
        return limit;
    for (size_t k = 0; k <= other_bytes; k++)
        rows[0][k] = k;
    for (size_t i = 1; i <= one_bytes; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t k = 1; k <= other_bytes; k++) {
            size_t best = above[k - 1] + (one[i - 1] != other[k - 1]);
            best = above[k] + 1 < best ? above[k] + 1 : best;
            best = row[k - 1] + 1 < best ? row[k - 1] + 1 : best;
            if (i > 1 && k > 1 && one[i - 1] == other[k - 2] && one[i - 2] == other[k - 1] &&
                before[k - 2] + 1 < best)
                best = before[k - 2] + 1;
            row[k] = best;
        }
    }
    size_t distance = rows[one_bytes % 3][other_bytes];
    return distance < limit ? distance : limit;
}
