/*
 * What a kernel's source says of its entries: which there are and, in the portable form, what each
 * takes. The source is read as it stands, before any preprocessor: an entry is written out, not
 * made by a macro.
 */
#ifndef KERNEL_SIGNATURE_H
#define KERNEL_SIGNATURE_H

#include "kernel/names.h"
#include "kernel/partial.h"
#include "kernel/portable.h"
#include "kernel/reach.h"
#include "kernel/types.h"

#include <muster/kernel.h>
#include <stdbool.h>

#define KERNEL_ENTRIES_MAX 32
#define KERNEL_NAME_BYTES 64
#define KERNEL_TYPE_BYTES 96
/* Loops of an entry whose first test is made before its items; more are left to the compiler. */
#define KERNEL_LOOPS_MAX 8
/* The prelude's lines that a portable source includes it with, which Muster takes out. */
#define KERNEL_INCLUDES_MAX 4

struct kernel_parameter {
    char name[KERNEL_NAME_BYTES];
    char type[KERNEL_TYPE_BYTES]; /* as written, words apart by one space */
    bool is_block;                /* a pointer */
    bool is_const;
    bool is_cell;         /* a struct muster_cell: the item's own is made by the wrapper */
    bool is_partial;      /* of a reduction; never among an entry's parameters */
    size_t bytes;         /* of a value; 0: not known */
    size_t element_bytes; /* of what a pointer points to; 0: not known */
    bool is_measured;     /* the size is of a type that the source defines */
    bool is_float;        /* the value, or what it points to, is float or double */
};

/* Part of the source, in bytes. */
struct kernel_span {
    size_t begin, end;
};

/*
 * A loop in a body of which the arguments alone say whether it is entered:
 * for (uint32_t k = 0; k < n; k++). It has no effect to evaluate these parts.
 */
struct kernel_loop {
    struct kernel_span variable; /* its name */
    struct kernel_span type;     /* empty: it is declared elsewhere */
    struct kernel_span first;    /* its first value */
    struct kernel_span test;
};

#define KERNEL_NO_CELL SIZE_MAX

struct kernel_entry {
    char name[KERNEL_NAME_BYTES];
    char item[KERNEL_NAME_BYTES]; /* its first parameter */
    size_t parameter_count;       /* without the item's number, and without the partial */
    size_t cell;                  /* which of them is the cell; KERNEL_NO_CELL: none */
    struct kernel_parameter parameters[MUSTER_ARGS_MAX];
    struct kernel_partial partial; /* of a reduction */
    struct reach_all reach;        /* which elements of its arrays it touches */
    size_t loop_count;
    struct kernel_loop loops[KERNEL_LOOPS_MAX];
};

static inline bool kernel_entry_reduces(const struct kernel_entry *entry)
{
    return entry->partial.type[0] != '\0';
}

/* Large: not for the stack. */
struct kernel_signature {
    struct kernel_entry entries[KERNEL_ENTRIES_MAX];
    size_t count;
    struct kernel_span includes[KERNEL_INCLUDES_MAX];
    size_t include_count;
    struct names names;      /* room for names_check */
    struct reach_room reach; /* room for reach_read */
    struct types types;      /* that the source defines */
};

/*
 * Reads portable source, which must pass portable_check and names_check. MUSTER_E_PARSE with the place ("FILE:LINE") and what to write instead;
 * also if there is no entry at all.
 */
muster_status kernel_signature_read(struct kernel_signature *signature, const char *code,
                                    size_t bytes, const char *file, struct muster_error *err);

/* Whether something in the text is marked as a portable kernel, comments and strings aside. */
bool kernel_signature_is_in(const char *code, size_t bytes);

/*
 * Whether an entry reads neighbours of cells of which the source does not show how far away they are:
 * then the prelude holds each to the halo.
 */
bool kernel_signature_checks_near(const struct kernel_signature *signature);

/* NULL if there is none of that name. */
const struct kernel_entry *kernel_signature_find(const struct kernel_signature *signature,
                                                 const char *entry);

/*
 * The names of the entries in CUDA C++, OpenCL C or PTX, as far as they can be seen without
 * compiling; at most `capacity`. Gives how many there are.
 */
size_t kernel_entries_guess(enum muster_kernel_kind kind, const char *code, size_t bytes,
                            char (*names)[KERNEL_NAME_BYTES], size_t capacity);

#endif
