#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A folder whose entries have been read and not all been given. */
struct tree_folder {
    struct tree_folder *outer; /* owns */
    char *path;                /* owns; ends without a slash, unless it is the root */
    char *names;               /* owns: a byte for the kind, the name, a NUL, one after the other */
    size_t used, capacity, at;
};

enum kind { KIND_FILE = 'f', KIND_FOLDER = 'd' };

void tree_init(struct tree *tree, const struct tree_options *options)
{
    *tree = (struct tree){ .options = *options };
}

static void leave(struct tree *tree)
{
    struct tree_folder *folder = tree->folder;
    tree->folder = folder->outer;
    free(folder->path);
    free(folder->names);
    free(folder);
}

void tree_deinit(struct tree *tree)
{
    while (tree->folder)
        leave(tree);
}

static bool add_name(struct tree_folder *folder, enum kind kind, const char *name)
{
    size_t bytes = strlen(name) + 2;
    if (folder->used + bytes > folder->capacity) {
        size_t capacity = (folder->capacity + bytes) * 2;
        char *larger = realloc(folder->names, capacity);
        if (!larger)
            return false;
        folder->names = larger;
        folder->capacity = capacity;
    }
    folder->names[folder->used] = (char)kind;
    memcpy(folder->names + folder->used + 1, name, bytes - 1);
    folder->used += bytes;
    return true;
}

/* What an entry is; 0: it is left out. */
static enum kind kind_of(DIR *list, const struct dirent *entry)
{
    struct stat facts;
    if (entry->d_type == DT_REG)
        return KIND_FILE;
    if (entry->d_type == DT_DIR)
        return KIND_FOLDER;
    if (entry->d_type != DT_UNKNOWN ||
        fstatat(dirfd(list), entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0)
        return 0;
    return S_ISREG(facts.st_mode) ? KIND_FILE : S_ISDIR(facts.st_mode) ? KIND_FOLDER : 0;
}

/* All entries at once, so that however deep the tree is one descriptor suffices. */
static bool list_folder(struct tree_folder *folder, DIR *list, bool *has_memory)
{
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(list);
        if (!entry)
            return errno == 0;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        enum kind kind = kind_of(list, entry);
        if (kind != 0 && !add_name(folder, kind, entry->d_name)) {
            *has_memory = false;
            return true;
        }
    }
}

/* Takes `path`. TREE_END: it was entered, and there is no entry to give for it. */
static enum tree_result enter(struct tree *tree, char *path, struct tree_entry *entry)
{
    bool has_memory = true, is_listed = false;
    struct tree_folder *folder = calloc(1, sizeof *folder);
    if (!folder) {
        free(path);
        return TREE_NO_MEMORY;
    }
    DIR *list = opendir(path);
    if (list)
        is_listed = list_folder(folder, list, &has_memory);
    int error = errno;
    if (list)
        closedir(list);
    folder->path = path;
    folder->outer = tree->folder;
    tree->folder = folder;
    if (!has_memory)
        return TREE_NO_MEMORY;
    if (is_listed)
        return TREE_END;
    /* What could be read of it is searched. */
    char *copy = strdup(path);
    *entry = (struct tree_entry){ .path = copy, .trouble = strerror(error) };
    return copy ? TREE_ENTRY : TREE_NO_MEMORY;
}

static enum tree_result next_operand(struct tree *tree, struct tree_entry *entry)
{
    struct stat facts;
    const char *operand = tree->options.operands[tree->next++];
    char *path = strdup(operand);
    if (!path)
        return TREE_NO_MEMORY;
    if (tree->options.is_recursive && strcmp(operand, "-") != 0 && stat(operand, &facts) == 0 &&
        S_ISDIR(facts.st_mode)) {
        size_t length = strlen(path);
        while (length > 1 && path[length - 1] == '/')
            path[--length] = '\0';
        return enter(tree, path, entry);
    }
    *entry = (struct tree_entry){ .path = path, .is_operand = true };
    return TREE_ENTRY;
}

static enum tree_result next_name(struct tree *tree, struct tree_entry *entry)
{
    struct tree_folder *folder = tree->folder;
    char kind = folder->names[folder->at];
    const char *name = folder->names + folder->at + 1;
    folder->at += strlen(name) + 2;
    bool is_root = strcmp(folder->path, "/") == 0;
    bool is_bare = tree->options.has_no_prefix && strcmp(folder->path, ".") == 0;
    size_t bytes = strlen(folder->path) + strlen(name) + 2;
    char *path = malloc(bytes);
    if (!path)
        return TREE_NO_MEMORY;
    snprintf(path, bytes, "%s%s%s", is_bare ? "" : folder->path, is_bare || is_root ? "" : "/",
             name);
    if (kind == KIND_FOLDER)
        return enter(tree, path, entry);
    *entry = (struct tree_entry){ .path = path };
    return TREE_ENTRY;
}

enum tree_result tree_next(struct tree *tree, struct tree_entry *entry)
{
    for (;;) {
        enum tree_result result;
        if (tree->folder && tree->folder->at == tree->folder->used) {
            leave(tree);
            continue;
        }
        if (tree->folder)
            result = next_name(tree, entry);
        else if (tree->next < tree->options.operand_count)
            result = next_operand(tree, entry);
        else
            return TREE_END;
        if (result != TREE_END)
            return result;
    }
}
