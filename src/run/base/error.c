/*
 * The log, the errors that many functions return, and checks of arguments that many functions make.
 */
#include "run/base/runtime.h"

#include "platform/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void run_log(const struct muster *m, enum muster_log_level level, const char *format, ...)
{
    static const char *const words[] = { "error", "error", "warning", "info", "debug" };
    bool is_heard = m->options.log && level <= m->options.log_level && !run_is_abandoned(m);
    bool is_kept = level <= MUSTER_LOG_INFO && platform_log_is_wanted();
    if (!is_heard && !is_kept)
        return;
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (is_kept)
        platform_log(words[level], text);
    if (is_heard)
        m->options.log(m->options.log_user, level, text);
}

muster_status run_no_memory(struct muster_error *err, const char *what)
{
    return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, "free memory of the process",
                             "no host memory for %s", what);
}

muster_status run_bad_argument(struct muster_error *err, const char *function, const char *what)
{
    return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL, "%s: %s", function, what);
}

muster_status run_say_forked(struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_FORKED, 0, "open a runtime in the child, after fork()",
                             "the runtime was opened by the parent process, before fork()");
}

muster_status run_say_stuck(struct muster_error *err, const char *function)
{
    return muster_error_fill(err, MUSTER_E_ORDER, 0, "call it after that has returned",
                             "%s would wait for the task, kernel or callback that calls it",
                             function);
}

bool run_list_names(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; *at;) {
        size_t entry = strcspn(at, ",");
        if (entry == length && memcmp(at, name, length) == 0)
            return true;
        at += entry + (at[entry] == ',');
    }
    return false;
}
