#include "output.h"

#include "message.h"
#include "utf8.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

void output_init(struct output *out, int descriptor)
{
    out->descriptor = descriptor;
    out->error = 0;
    out->used = 0;
    out->is_used = false;
}

void output_flush(struct output *out)
{
    size_t written = 0;
    while (written < out->used && !out->error) {
        ssize_t result = write(out->descriptor, out->buffer + written, out->used - written);
        if (result > 0)
            written += (size_t)result;
        else if (result == 0)
            out->error = EIO;
        else if (errno != EINTR)
            out->error = errno;
    }
    out->used = 0;
}

void output_bytes(struct output *out, const char *bytes, size_t count)
{
    out->is_used |= count > 0;
    while (count > 0 && !out->error) {
        size_t room = sizeof out->buffer - out->used;
        size_t part = count < room ? count : room;
        memcpy(out->buffer + out->used, bytes, part);
        out->used += part;
        bytes += part;
        count -= part;
        if (out->used == sizeof out->buffer)
            output_flush(out);
    }
}

void output_text(struct output *out, const char *text)
{
    output_bytes(out, text, strlen(text));
}

void output_number(struct output *out, uint64_t number)
{
    char digits[20];
    size_t first = sizeof digits;
    do {
        digits[--first] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    output_bytes(out, digits + first, sizeof digits - first);
}

void output_column(struct output *out, const char *text, size_t width, bool right)
{
    size_t length = utf8_count(text);
    size_t spaces = length < width ? width - length : 0;
    for (size_t i = 0; right && i < spaces; i++)
        output_text(out, " ");
    while (*text) {
        const char *shown;
        size_t bytes, taken = utf8_show(text, &shown, &bytes);
        output_bytes(out, shown, bytes);
        text += taken;
    }
    for (size_t i = 0; !right && i < spaces; i++)
        output_text(out, " ");
}

bool output_is_used(const struct output *out)
{
    return out->is_used;
}

bool output_failed(const struct output *out)
{
    return out->error != 0;
}

bool output_finish(struct output *out)
{
    output_flush(out);
    /* Some file systems tell of a full disk only here. */
    if (close(out->descriptor) != 0 && !out->error && errno != EINTR)
        out->error = errno;
    if (out->error && out->error != EPIPE)
        message_error("the output could not be written completely: %s", strerror(out->error));
    return !out->error;
}
