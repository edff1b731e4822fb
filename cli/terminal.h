/*
 * Frames drawn in place on a terminal that nothing is promised of: it may be stopped, slow, resized
 * or gone. Drawing never waits for it: what it does not take now it is given with a later frame.
 *
 * The cursor stands below the frame, at the beginning of a line, so that the next writer, or a
 * shell after this process was killed, finds a clean line.
 */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include "progress.h"

#define TERMINAL_BUFFER_BYTES (PROGRESS_LINES_MAX * (PROGRESS_LINE_BYTES + 8) + 64)

struct terminal {
    int descriptor; /* of our own where it could be opened again, so as not to wait for it */
    bool is_own;
    bool is_dumb, has_colour, has_unicode;
    size_t line_count; /* of the frame that stands there */
    unsigned columns[PROGRESS_LINES_MAX];
    size_t used, written; /* of the buffer: what the terminal has not taken yet is between them */
    char buffer[TERMINAL_BUFFER_BYTES];
};

/* False: the descriptor is no terminal. TERM, NO_COLOR and the locale's variables are looked at. */
bool terminal_open(struct terminal *terminal, int descriptor);
void terminal_close(struct terminal *terminal);

/* How large it is now. */
struct progress_style terminal_style(const struct terminal *terminal);

/* False while this process is in the background: it would write into what another shows. */
bool terminal_is_ours(const struct terminal *terminal);

/* In the place of the frame before; not at all while the terminal has not taken that one. */
void terminal_draw(struct terminal *terminal, const struct progress_frame *frame);

/* What stands there stays; the next frame begins where the cursor is. */
void terminal_leave(struct terminal *terminal);

/* Removes the frame, and waits for the terminal to take that, as any program that prints does. */
void terminal_erase(struct terminal *terminal);

#endif
