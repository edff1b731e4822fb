/*
 * A compiler's words: all of them to the log, the one line that matters to the caller.
 */
#include "base/allocator.h"
#include "base/text.h"
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

struct telling {
    const struct kernel_log *log;
    enum muster_log_level level;
};

static void tell_line(void *user, const char *line)
{
    const struct telling *telling = user;
    telling->log->say(telling->log->user, telling->level, line);
}

void kernel_tell(const struct kernel_log *log, enum muster_log_level level, const char *words)
{
    struct telling telling = { log, level };
    if (log)
        text_each_line(words, tell_line, &telling);
}

muster_status kernel_report(const char *compiler, const char *words, const struct kernel_log *log,
                            struct muster_error *err)
{
    size_t length;
    words += strspn(words, " \n");
    const char *line = telling_line(words, &length);
    kernel_tell(log, MUSTER_LOG_ERROR, words);
    if (length == 0)
        return muster_error_fill(err, MUSTER_E_PARSE, 0, NULL,
                                 "%s refused the kernel and does not say why", compiler);
    return muster_error_fill(
        err, MUSTER_E_PARSE, 0,
        "correct the kernel; -v, --log FILE or MUSTER_LOG=FILE shows all that the compiler said",
        "%s: %.*s", compiler, (int)length, line);
}
