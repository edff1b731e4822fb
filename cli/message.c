#include "message.h"

#include "utf8.h"

#include <stdarg.h>
#include <stdio.h>

/* Longer words of the user are cut off here; the library's own are shorter. */
#define MESSAGE_BYTES 1024

static struct {
    void (*before)(void *user), (*after)(void *user);
    void *user;
} others;

void message_between(void (*before)(void *user), void (*after)(void *user), void *user)
{
    others.before = before;
    others.after = after;
    others.user = user;
}

static void print(const char *head, const char *text, const char *fix)
{
    char shown[MESSAGE_BYTES], shown_fix[MESSAGE_BYTES];
    /* Words from the command line, from files and from drivers must not steer the terminal. */
    utf8_show_all(text, shown, sizeof shown);
    utf8_show_all(fix, shown_fix, sizeof shown_fix);
    if (others.before)
        others.before(others.user);
    fprintf(stderr, *fix ? "%s%s\n  fix: %s\n" : "%s%s\n", head, shown, shown_fix);
    if (others.after)
        others.after(others.user);
}

void message_error(const char *format, ...)
{
    char text[MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    print("muster: ", text, "");
}

void message_detail(const char *format, ...)
{
    char text[MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    print("  ", text, "");
}

void message_usage(const char *command, const char *format, ...)
{
    char text[MESSAGE_BYTES], fix[64];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    snprintf(fix, sizeof fix, "muster %s%s--help", command ? command : "", command ? " " : "");
    print("muster: ", text, fix);
}

void message_library(const char *subject, const struct muster_error *error)
{
    char text[MESSAGE_BYTES];
    snprintf(text, sizeof text, "%s%s%s", subject ? subject : "", subject ? ": " : "",
             *error->text ? error->text : muster_status_message(error->status));
    print("muster: ", text, error->fix);
}
