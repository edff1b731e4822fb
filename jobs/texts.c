#include "texts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool add(struct texts *texts, struct tree_entry *entry, uint64_t bytes)
{
    if (texts->count == texts->capacity) {
        size_t capacity = texts->capacity > 0 ? 2 * texts->capacity : 64;
        struct text **larger = realloc(texts->list, capacity * sizeof *larger);
        if (!larger)
            return false;
        texts->list = larger;
        texts->capacity = capacity;
    }
    struct text *text = calloc(1, sizeof *text);
    if (!text)
        return false;
    text->input.path = entry->path;
    text->input.is_operand = entry->is_operand;
    text->begin = texts->bytes;
    text->end = texts->bytes + bytes;
    atomic_init(&text->input.end, text->end);
    texts->bytes = text->end + 1;
    texts->list[texts->count++] = text;
    entry->path = NULL;
    return true;
}

/* Opens it as it will be opened to be read. NULL, or why it cannot be; `*is_file`: it can on many machines. */
static const char *measure(const char *path, int output, uint64_t *bytes, bool *is_file)
{
    struct stat facts, out;
    *is_file = true;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return strerror(errno);
    const char *wrong = NULL;
    char byte;
    if (fstat(descriptor, &facts) != 0)
        wrong = strerror(errno);
    else if (S_ISDIR(facts.st_mode))
        wrong = read(descriptor, &byte, 1) < 0 ? strerror(errno) : strerror(EISDIR);
    else if (!S_ISREG(facts.st_mode))
        *is_file = false;
    else if (output > 0 && fstat(output, &out) == 0 && out.st_dev == facts.st_dev &&
             out.st_ino == facts.st_ino)
        wrong = "the input is also the output";
    *bytes = (uint64_t)facts.st_size;
    close(descriptor);
    return wrong;
}

muster_status texts_init(struct texts *texts, const struct tree_options *options, int output,
                         void (*trouble)(void *user, const char *path, const char *why), void *user,
                         char *why, size_t why_bytes)
{
    struct tree tree;
    struct tree_entry entry;
    muster_status status = MUSTER_OK;
    enum tree_result result = TREE_END;
    *texts = (struct texts){ .count = 0 };
    tree_init(&tree, options);
    while (status == MUSTER_OK && (result = tree_next(&tree, &entry)) == TREE_ENTRY) {
        uint64_t bytes = 0;
        bool is_file = strcmp(entry.path, "-") != 0;
        const char *wrong = entry.trouble;
        if (is_file && !wrong)
            wrong = measure(entry.path, output, &bytes, &is_file);
        if (!is_file) {
            snprintf(why, why_bytes, "%s", entry.path);
            status = MUSTER_E_NOT_SUPPORTED;
        } else if (wrong) {
            trouble(user, entry.path, wrong);
        } else if (!add(texts, &entry, bytes)) {
            status = MUSTER_E_NO_MEMORY;
        }
        free(entry.path);
    }
    tree_deinit(&tree);
    if (status == MUSTER_OK && result == TREE_NO_MEMORY)
        status = MUSTER_E_NO_MEMORY;
    if (status != MUSTER_OK)
        texts_deinit(texts);
    return status;
}

void texts_deinit(struct texts *texts)
{
    for (size_t i = 0; i < texts->count; i++) {
        free(texts->list[i]->input.path);
        free(texts->list[i]);
    }
    free(texts->list);
    *texts = (struct texts){ .count = 0 };
}

/* The last that begins at or before it. */
static size_t find(const struct texts *texts, uint64_t at)
{
    size_t low = 0, high = texts->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (texts->list[middle]->begin <= at)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void text_reader_close(struct text_reader *reader)
{
    if (reader->descriptor >= 0)
        close(reader->descriptor);
    reader->descriptor = -1;
}

/* Bytes of one file. */
static const char *read_one(const struct texts *texts, struct text_reader *reader, size_t index,
                            uint64_t from, char *to, size_t bytes)
{
    if (reader->descriptor < 0 || reader->index != index) {
        text_reader_close(reader);
        reader->descriptor = open(texts->list[index]->input.path, O_RDONLY | O_CLOEXEC);
        reader->index = index;
    }
    if (reader->descriptor < 0)
        return strerror(errno);
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(reader->descriptor, to + done, bytes - done, (off_t)(from + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got < 0 ? strerror(errno) : "it has become shorter";
        done += (size_t)got;
    }
    return NULL;
}

const char *texts_read(const struct texts *texts, struct text_reader *reader, uint64_t at, void *to,
                       size_t bytes)
{
    char *out = to;
    const char *wrong = NULL;
    for (size_t i = find(texts, at); bytes > 0 && i < texts->count && !wrong; i++) {
        const struct text *text = texts->list[i];
        uint64_t left = text->end - at;
        size_t part = left < bytes ? (size_t)left : bytes;
        if (part > 0)
            wrong = read_one(texts, reader, i, at - text->begin, out, part);
        if (part < bytes)
            out[part++] = '\n';
        out += part;
        at += part;
        bytes -= part;
    }
    memset(out, '\n', bytes);
    return wrong;
}

struct input *texts_next(struct texts *texts)
{
    return texts->next < texts->count ? &texts->list[texts->next++]->input : NULL;
}
