/*
 * The files to search, one after the other: operands of the command line, and where folders are entered
 * what lies below them, in the order in which the system lists it, as `grep -r` does. Links below a
 * folder are not followed, and what is neither a file nor a folder is left out there. Memory grows with
 * the depth and with the entries of the folders that are open, not with the number of files.
 */
#ifndef JOBS_TREE_H
#define JOBS_TREE_H

#include <stdbool.h>
#include <stddef.h>

struct tree_folder;

struct tree_options {
    const char *const *operands; /* borrowed; "-": standard input */
    size_t operand_count;
    bool is_recursive;
    bool has_no_prefix; /* the only operand is ".", which nobody wrote: names are without "./" */
};

struct tree {
    struct tree_options options;
    size_t next;                /* operand */
    struct tree_folder *folder; /* owns: the innermost that is open; NULL: none */
};

struct tree_entry {
    char *path; /* owned by the caller from then on */
    bool is_operand;
    /* Why the folder of that name cannot be listed; NULL: it is a file, or whatever an operand is. */
    const char *trouble;
};

void tree_init(struct tree *tree, const struct tree_options *options);
void tree_deinit(struct tree *tree);

enum tree_result { TREE_ENTRY, TREE_END, TREE_NO_MEMORY };

/* The next. For one thread at a time. */
enum tree_result tree_next(struct tree *tree, struct tree_entry *entry);

#endif
