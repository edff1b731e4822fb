/*
 * Statuses, errors and the assertion hook: what every other file reports with.
 */
#include "base/invariant.h"

#include <muster/backend.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

const char *muster_status_name(muster_status status)
{
    switch (status) {
#define STATUS_NAME(name, code, message)                                                           \
    case name:                                                                                     \
        return #name;
        MUSTER_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
    default:
        return "MUSTER_E_?";
    }
}

const char *muster_status_message(muster_status status)
{
    switch (status) {
#define STATUS_MESSAGE(name, code, message)                                                        \
    case name:                                                                                     \
        return message;
        MUSTER_STATUS_LIST(STATUS_MESSAGE)
#undef STATUS_MESSAGE
    default:
        return "not a status of Muster";
    }
}

enum muster_discard muster_status_discards(muster_status status)
{
    if (status >= 0)
        return MUSTER_DISCARD_NOTHING;
    if (status > -100)
        return MUSTER_DISCARD_REQUEST;
    if (status > -200)
        return MUSTER_DISCARD_STREAM;
    if (status > -300)
        return MUSTER_DISCARD_DEVICE;
    return MUSTER_DISCARD_RUNTIME;
}

muster_status muster_error_fill(struct muster_error *err, muster_status status, int driver_code,
                                const char *fix, const char *format, ...)
{
    if (!err)
        return status;
    /* Formatted aside first: an argument may point into *err itself when an error is reworded. */
    struct muster_error filled = { .size = sizeof filled,
                                   .status = status,
                                   .driver_code = driver_code };
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(filled.text, sizeof filled.text, format, arguments);
    va_end(arguments);
    snprintf(filled.fix, sizeof filled.fix, "%s", fix ? fix : "");
    *err = filled;
    return status;
}

static _Atomic(muster_assert_hook) assert_hook;
static _Atomic uint64_t broken_count;
static _Atomic(const char *) first_file;
static _Atomic int first_line;

void muster_set_assert_hook(muster_assert_hook hook)
{
    /*
     * Release pairs with the acquire in invariant_broken: what the hook uses was set up before it.
     */
    atomic_store_explicit(&assert_hook, hook, memory_order_release);
}

void invariant_broken(const char *file, int line, const char *condition)
{
    if (atomic_fetch_add_explicit(&broken_count, 1, memory_order_relaxed) == 0) {
        atomic_store_explicit(&first_line, line, memory_order_relaxed);
        atomic_store_explicit(&first_file, file, memory_order_relaxed);
    }
    muster_assert_hook hook = atomic_load_explicit(&assert_hook, memory_order_acquire);
    if (hook)
        hook(file, line, condition);
}

uint64_t invariant_count(const char **file, int *line)
{
    const char *first = atomic_load_explicit(&first_file, memory_order_relaxed);
    *file = first ? first : "";
    *line = atomic_load_explicit(&first_line, memory_order_relaxed);
    return atomic_load_explicit(&broken_count, memory_order_relaxed);
}
