/*
 * Which names a portable source calls: each must be one that the source itself or the prelude
 * defines. What a compiler would supply beside these differs between devices: another `exp`, a
 * `rand` with state, or nothing until the kernel runs. The source is read as it stands, before any
 * preprocessor. Names in parts that #if leaves out count too.
 */
#ifndef KERNEL_NAMES_H
#define KERNEL_NAMES_H

#include <muster/status.h>
#include <stdint.h>

/* Macros, types and functions of a source and the prelude together. */
#define NAMES_MAX 4096
#define NAMES_SLOTS (2 * NAMES_MAX)

struct known_name {
    const char *text; /* borrowed from the source or the prelude */
    uint32_t bytes;
    uint32_t flags;
    const char *directive; /* of a macro of the source: its #define; else NULL */
    uint32_t directive_bytes;
    uint32_t next; /* another definition of the same name, plus 1; 0: none */
};

/* Large: not for the stack. */
struct names {
    struct known_name all[NAMES_MAX];
    uint32_t count;
    uint32_t slots[NAMES_SLOTS]; /* a hash table: the index of a name's first definition, plus 1 */
};

/*
 * MUSTER_E_PARSE with the place ("FILE:LINE"), the name, and the portable one where there is one.
 * `names` is room for the search.
 */
muster_status names_check(struct names *names, const char *code, size_t bytes, const char *file,
                          struct muster_error *err);

#endif
