/*
 * A kernel's parameters, bound by their names: which pointer is the input and which the output, how
 * large an item is, and what the values are.
 */
#ifndef JOBS_BINDING_H
#define JOBS_BINDING_H

#include "value.h"

/* A value that the job itself knows. */
struct binding_fact {
    const char *name;
    uint64_t number;
    bool is_unknown; /* there is none this time */
};

/* A file for a pointer of the kernel's, which it is given as an array or whole. */
struct binding_file {
    const char *name; /* of the parameter, name_bytes long; NULL: whichever comes next */
    size_t name_bytes;
    const void *memory; /* of an input but the first, borrowed */
    size_t bytes;
    muster_data data; /* of a table */
};

struct binding_options {
    size_t item_bytes, out_item_bytes; /* 0: by the types that the pointers have */
    const char *const *arguments;      /* "name=value", borrowed */
    size_t argument_count;
    /* Beside `first`, the number of the unit's first item, which is always there. */
    const struct binding_fact *facts;
    size_t fact_count;
    /* NULL: one input, which the job's source gives, and one output. Else the first input is that. */
    const struct binding_file *inputs, *outputs, *tables;
    size_t input_count, output_count, table_count;
    bool is_grid_asked;     /* and must be taken */
    struct muster_arg grid; /* of a parameter that is a struct muster_cell; kind 0: there is none */
    const char *input_is;   /* what the input is, for messages; NULL: nothing special */
};

struct binding {
    struct muster_arg args[MUSTER_ARGS_MAX]; /* their values point into this binding */
    size_t count;
    size_t item_bytes, out_item_bytes;           /* of the first input and output */
    size_t inputs[MUSTER_ARGS_MAX], input_count; /* which arguments they are, in the files' order */
    size_t outputs[MUSTER_ARGS_MAX], output_count;
    char types[MUSTER_ARGS_MAX][96]; /* as the source has them; "": not known */
    unsigned char values[MUSTER_ARGS_MAX][VALUE_BYTES];
};

/*
 * By the parameters that the kernel's portable source has: pointers to const are tables by their names,
 * and else inputs; others are outputs, in the order of the files unless these have names. Where no source says so they are the input, the output and then the
 * arguments in the order given, each as "name=type:value" or the name of a fact, a uint64_t. The
 * binding stays where it is. MUSTER_E_INVALID: something is missing, unknown or not a value of its
 * type.
 */
muster_status binding_init(struct binding *binding, const struct muster_kernel *kernel,
                           const struct binding_options *options, struct muster_error *err);

/* The size that a record of the input will have; `asked` unless that is 0. 1: nobody knows yet. */
size_t binding_item_bytes(const struct muster_kernel *kernel, size_t asked);

#endif
