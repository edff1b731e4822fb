#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* Where the terminal does not say. */
#define COLUMNS_DEFAULT 80
#define ROWS_DEFAULT 24

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value ? value : "";
}

/* As the C library would decide, which is not asked: figures are to be the same everywhere. */
static bool locale_is_utf8(void)
{
    const char *locale = variable("LC_ALL");
    if (!*locale)
        locale = variable("LC_CTYPE");
    if (!*locale)
        locale = variable("LANG");
    return strcasestr(locale, "utf-8") || strcasestr(locale, "utf8");
}

/* Without O_NONBLOCK on the caller's own, which other processes share. */
static int open_again(int descriptor)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

bool terminal_open(struct terminal *terminal, int descriptor)
{
    if (!isatty(descriptor))
        return false;
    const char *kind = variable("TERM");
    int own = open_again(descriptor);
    terminal->descriptor = own >= 0 ? own : descriptor;
    terminal->is_own = own >= 0;
    terminal->is_dumb = !*kind || strcmp(kind, "dumb") == 0;
    terminal->has_colour = !terminal->is_dumb && !*variable("NO_COLOR");
    terminal->has_unicode = !terminal->is_dumb && locale_is_utf8();
    terminal->line_count = terminal->used = terminal->written = 0;
    return true;
}

void terminal_close(struct terminal *terminal)
{
    if (terminal->is_own)
        close(terminal->descriptor);
}

struct progress_style terminal_style(const struct terminal *terminal)
{
    struct winsize size = { .ws_col = 0 };
    if (ioctl(terminal->descriptor, TIOCGWINSZ, &size) != 0)
        size.ws_col = 0;
    return (struct progress_style){
        .columns = size.ws_col > 0 ? size.ws_col : COLUMNS_DEFAULT,
        .rows = size.ws_row > 0 ? size.ws_row : ROWS_DEFAULT,
        .is_dumb = terminal->is_dumb,
        .has_colour = terminal->has_colour,
        .has_unicode = terminal->has_unicode,
    };
}

bool terminal_is_ours(const struct terminal *terminal)
{
    pid_t foreground = tcgetpgrp(terminal->descriptor);
    /* One that is not the controlling terminal, such as a recorder's, has no foreground. */
    return foreground < 0 || foreground == getpgrp();
}

/* Gives the terminal what it takes at once, or everything. */
static bool give(struct terminal *terminal, bool waits)
{
    while (terminal->written < terminal->used) {
        struct pollfd ready = { .fd = terminal->descriptor, .events = POLLOUT };
        if (poll(&ready, 1, waits ? -1 : 0) < 0 && errno != EINTR)
            break;
        if (!(ready.revents & (POLLOUT | POLLERR | POLLHUP))) {
            if (!waits)
                return false;
            continue;
        }
        ssize_t count = write(terminal->descriptor, terminal->buffer + terminal->written,
                              terminal->used - terminal->written);
        if (count > 0)
            terminal->written += (size_t)count;
        else if (count < 0 && errno == EAGAIN && !waits)
            return false;
        else if (count < 0 && errno != EAGAIN && errno != EINTR)
            break; /* It is gone, and nobody sees what is missing. */
    }
    terminal->used = terminal->written = 0;
    return true;
}

static void add(struct terminal *terminal, const char *text, size_t bytes)
{
    memcpy(terminal->buffer + terminal->used, text, bytes);
    terminal->used += bytes;
}

static void add_text(struct terminal *terminal, const char *text)
{
    add(terminal, text, strlen(text));
}

/* To where the frame begins. One that was narrowed since then has wrapped lines. */
static void add_return(struct terminal *terminal, unsigned columns)
{
    char text[32];
    unsigned rows = 0;
    for (size_t i = 0; i < terminal->line_count; i++)
        rows += 1 + (terminal->columns[i] > 0 ? (terminal->columns[i] - 1) / columns : 0);
    add_text(terminal, "\r");
    if (rows > 0) {
        snprintf(text, sizeof text, "\033[%uA", rows);
        add_text(terminal, text);
    }
}

/* All there is to dumb terminals: the line again, and spaces over what was longer. */
static void add_dumb(struct terminal *terminal, const struct progress_line *line)
{
    unsigned before = terminal->line_count > 0 ? terminal->columns[0] : 0;
    unsigned now = line ? line->columns : 0;
    add_text(terminal, "\r");
    if (line)
        add(terminal, line->text, line->bytes);
    for (unsigned i = now; i < before; i++)
        add_text(terminal, " ");
    for (unsigned i = now; i < before; i++)
        add_text(terminal, "\b");
    if (!line)
        add_text(terminal, "\r");
}

void terminal_draw(struct terminal *terminal, const struct progress_frame *frame)
{
    if (!give(terminal, false))
        return;
    if (terminal->is_dumb) {
        add_dumb(terminal, &frame->lines[0]);
    } else {
        add_return(terminal, terminal_style(terminal).columns);
        /* Each line is overwritten and then cut off: nothing is blank in between, nothing flickers. */
        for (size_t i = 0; i < frame->line_count; i++) {
            add(terminal, frame->lines[i].text, frame->lines[i].bytes);
            add_text(terminal, "\033[K\r\n");
        }
        add_text(terminal, "\033[J");
    }
    terminal->line_count = frame->line_count;
    for (size_t i = 0; i < frame->line_count; i++)
        terminal->columns[i] = frame->lines[i].columns;
    give(terminal, false);
}

void terminal_leave(struct terminal *terminal)
{
    terminal->line_count = 0;
}

void terminal_erase(struct terminal *terminal)
{
    give(terminal, true);
    if (terminal->line_count == 0)
        return;
    if (terminal->is_dumb) {
        add_dumb(terminal, NULL);
    } else {
        add_return(terminal, terminal_style(terminal).columns);
        add_text(terminal, "\033[J");
    }
    terminal->line_count = 0;
    give(terminal, true);
}
