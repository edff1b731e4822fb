/*
 * Text that is made twice: a first run measures, a second one writes.
 */
#ifndef KERNEL_WRITER_H
#define KERNEL_WRITER_H

#include <stddef.h>

#define WRITER_LINE_BYTES 512

struct writer {
    char *out; /* NULL: only counts; else there is room for all */
    size_t used;
};

void writer_put_bytes(struct writer *writer, const char *bytes, size_t count);
/* At most WRITER_LINE_BYTES - 1 characters in one call. */
__attribute__((format(printf, 2, 3))) void writer_put(struct writer *writer, const char *format,
                                                      ...);

#endif
