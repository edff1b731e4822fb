/*
 * Standard output, with every failure noticed: a full disk and a closed pipe end the command with a
 * failure, never unseen. After the first failure nothing more is written, so loops ask
 * output_failed and stop.
 */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct output {
    int descriptor; /* borrowed */
    int error;      /* the first errno, 0 while all is well */
    size_t used;
    bool is_used; /* anything was written to it */
    char buffer[1 << 16];
};

void output_init(struct output *out, int descriptor);

void output_bytes(struct output *out, const char *bytes, size_t count);
void output_text(struct output *out, const char *text);
void output_number(struct output *out, uint64_t number);
/*
 * `text` and then spaces up to `width` characters, or the spaces first if `right`. What
 * could steer a terminal is left out of it, as utf8_show has it.
 */
void output_column(struct output *out, const char *text, size_t width, bool right);

bool output_is_used(const struct output *out);
bool output_failed(const struct output *out);

/* Writes what is held back. */
void output_flush(struct output *out);

/*
 * Flushes, closes the descriptor and tells of a failure on stderr, except of a closed pipe: the process that
 * closed it knows. False if anything was not written.
 */
bool output_finish(struct output *out);

#endif
