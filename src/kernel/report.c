/*
 * A compiler's words: all of them to the log, the one line that matters to the caller.
 */
#include "base/allocator.h"
#include "kernel/compile.h"

#include <muster/backend.h>
#include <stdio.h>
#include <string.h>

void kernel_blob_release(struct kernel_blob *blob, const struct muster_allocator *allocator)
{
    allocator_give(allocator, blob->memory, blob->memory_bytes, 1);
    *blob = (struct kernel_blob){ .memory = NULL };
}

/* The first line that speaks of an error, else the first that says anything. */
static const char *telling_line(const char *words, size_t *length)
{
    const char *first = words;
    *length = strcspn(first, "\n");
    for (const char *at = words; *at;) {
        size_t bytes = strcspn(at, "\n");
        for (size_t i = 0; i + 5 <= bytes; i++)
            if (memcmp(at + i, "error", 5) == 0) {
                *length = bytes;
                return at;
            }
        at += bytes + (at[bytes] == '\n');
    }
    return first;
}

static void say_all(const struct kernel_log *log, const char *words)
{
    char line[400];
    while (*words) {
        size_t bytes = strcspn(words, "\n");
        snprintf(line, sizeof line, "%.*s", (int)(bytes < sizeof line ? bytes : sizeof line),
                 words);
        if (bytes > 0)
            log->say(log->user, line);
        words += bytes + (words[bytes] == '\n');
    }
}

muster_status kernel_report(const char *compiler, const char *words, const struct kernel_log *log,
                            struct muster_error *err)
{
    size_t length;
    words += strspn(words, " \n");
    const char *line = telling_line(words, &length);
    if (log)
        say_all(log, words);
    if (length == 0)
        return muster_error_fill(err, MUSTER_E_PARSE, 0, NULL,
                                 "%s refused the kernel and does not say why", compiler);
    return muster_error_fill(err, MUSTER_E_PARSE, 0,
                             "mend the kernel; the log has all that the compiler said", "%s: %.*s",
                             compiler, (int)length, line);
}
