#include "message.h"

#include "utf8.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

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

/* The failure, for programs. Threads of a job tell of things too. */
static struct {
    pthread_mutex_t lock;
    bool is_wanted, is_on_stderr, is_told;
    muster_status status; /* MUSTER_OK: nothing was said */
    char text[MESSAGE_BYTES], fix[MESSAGE_BYTES];
} failure = { .lock = PTHREAD_MUTEX_INITIALIZER };

void message_want_json(bool is_on_stderr)
{
    pthread_mutex_lock(&failure.lock);
    failure.is_wanted = true;
    failure.is_on_stderr |= is_on_stderr;
    pthread_mutex_unlock(&failure.lock);
}

/* MUSTER_E_FAILED: a message without a status, which does not take the place of one that has one. */
static void note_failure(muster_status status, const char *text, const char *fix)
{
    pthread_mutex_lock(&failure.lock);
    if (status != MUSTER_E_FAILED || failure.status == MUSTER_OK ||
        failure.status == MUSTER_E_FAILED) {
        failure.status = status;
        snprintf(failure.text, sizeof failure.text, "%s", text);
        snprintf(failure.fix, sizeof failure.fix, "%s", fix);
    }
    pthread_mutex_unlock(&failure.lock);
}

void message_json_members(struct json *json)
{
    pthread_mutex_lock(&failure.lock);
    if (failure.is_wanted && failure.status != MUSTER_OK) {
        json_text(json, "text", failure.text);
        json_text(json, "fix", failure.fix);
        failure.is_told = true;
    }
    pthread_mutex_unlock(&failure.lock);
}

void message_tell_failure(int code, struct output *out)
{
    static struct output other;
    struct json json;
    if (code == 0 || !failure.is_wanted || failure.is_told || failure.status == MUSTER_OK ||
        (!failure.is_on_stderr && output_is_used(out)))
        return;
    if (failure.is_on_stderr) {
        output_init(&other, STDERR_FILENO);
        out = &other;
    }
    json_init(&json, out);
    json_begin_object(&json, NULL);
    json_text(&json, "status", muster_status_name(failure.status));
    message_json_members(&json);
    json_end_object(&json);
    output_text(out, "\n");
    output_flush(out);
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
    note_failure(MUSTER_E_FAILED, text, "");
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
    note_failure(MUSTER_E_INVALID, text, fix);
    print("muster: ", text, fix);
}

void message_library(const char *subject, const struct muster_error *error)
{
    char text[MESSAGE_BYTES];
    snprintf(text, sizeof text, "%s%s%s", subject ? subject : "", subject ? ": " : "",
             *error->text ? error->text : muster_status_message(error->status));
    note_failure(error->status, text, error->fix);
    print("muster: ", text, error->fix);
}
