#include "kernel/writer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void writer_put_bytes(struct writer *writer, const char *bytes, size_t count)
{
    if (writer->out)
        memcpy(writer->out + writer->used, bytes, count);
    writer->used += count;
}

void writer_put(struct writer *writer, const char *format, ...)
{
    char line[WRITER_LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length > 0)
        writer_put_bytes(writer, line,
                         (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
}
