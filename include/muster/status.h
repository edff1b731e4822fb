/*
 * Statuses and errors.
 *
 * Every call that can fail returns a muster_status: 0 is success, a negative number is a failure.
 * The number's group says what the caller must discard - only the request, the stream it was made
 * on, the device, or the whole runtime - and struct muster_error, if the caller
 * passes one, says what was asked, what there was and what would fix it.
 */
#ifndef MUSTER_STATUS_H
#define MUSTER_STATUS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MUSTER_API __attribute__((visibility("default")))
#else
#define MUSTER_API
#endif

/* Functions that fill a struct are named as it is, which g++ takes for shadowing (-Wshadow). */
#if defined(__cplusplus) && defined(__GNUC__)
#define MUSTER_SAME_NAMES_BEGIN                                                                    \
    _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wshadow\"")
#define MUSTER_SAME_NAMES_END _Pragma("GCC diagnostic pop")
#else
#define MUSTER_SAME_NAMES_BEGIN
#define MUSTER_SAME_NAMES_END
#endif

typedef int muster_status;

/*
 * The one list: code, name, message. Groups of a hundred: -1.. discard the request, -100.. the
 * stream, -200.. the device, -300.. the runtime. Codes are part of the binary interface: new ones
 * are added, none is ever renumbered.
 */
#define MUSTER_STATUS_LIST(X)                                                                      \
    X(MUSTER_OK, 0, "done")                                                                        \
    X(MUSTER_E_INVALID, -1, "an argument is not allowed here")                                     \
    X(MUSTER_E_NOT_FOUND, -2, "nothing of that name exists")                                       \
    X(MUSTER_E_STALE, -3, "the handle was released, or what it named is gone")                     \
    X(MUSTER_E_UNKNOWN, -4, "the handle was never issued")                                         \
    X(MUSTER_E_CAPACITY, -5, "a fixed limit is reached")                                           \
    X(MUSTER_E_NO_MEMORY, -6, "the host is out of memory")                                         \
    X(MUSTER_E_DEVICE_MEMORY, -7, "the device's memory does not suffice now")                      \
    X(MUSTER_E_TOO_LARGE, -8, "the request can never fit")                                         \
    X(MUSTER_E_NOT_SUPPORTED, -9, "the device or backend cannot do this")                          \
    X(MUSTER_E_TIMEOUT, -10, "the time allowed has passed")                                        \
    X(MUSTER_E_BUSY, -11, "still in use, or not finished yet")                                     \
    X(MUSTER_E_CANCELLED, -12, "cancelled")                                                        \
    X(MUSTER_E_NO_DEVICE, -13, "no device is eligible")                                            \
    X(MUSTER_E_FAILED, -14, "the work itself reported a failure")                                  \
    X(MUSTER_E_DRIVER, -15, "the driver refused")                                                  \
    X(MUSTER_E_IO, -16, "reading or writing failed")                                               \
    X(MUSTER_E_PARSE, -17, "a description could not be understood")                                \
    X(MUSTER_E_VERSION, -18, "made for another version of Muster")                                 \
    X(MUSTER_E_ORDER, -19, "what is to happen is not ordered, or could get stuck")                 \
    X(MUSTER_E_CRASHED, -20, "the kernel crashed the helper process that it ran in")               \
    X(MUSTER_E_DATA_LOST, -21, "the newest bytes of the data were lost with a device")             \
    X(MUSTER_E_DENIED, -22, "the key that was given does not allow it")                            \
    X(MUSTER_E_STREAM_FAILED, -100, "work on the stream failed; what followed was not run")        \
    X(MUSTER_E_DEVICE_LOST, -200, "the device is lost")                                            \
    X(MUSTER_E_DEVICE_HUNG, -201, "the device does not answer")                                    \
    X(MUSTER_E_INTERNAL, -300, "Muster broke an invariant of its own")                             \
    X(MUSTER_E_FORKED, -301, "the runtime belongs to the parent process")

enum muster_status_code {
#define MUSTER_STATUS_ENUM(name, code, message) name = code,
    MUSTER_STATUS_LIST(MUSTER_STATUS_ENUM)
#undef MUSTER_STATUS_ENUM
};

/* What a failure makes unusable. */
enum muster_discard {
    MUSTER_DISCARD_NOTHING = 0,
    MUSTER_DISCARD_REQUEST = 1,
    MUSTER_DISCARD_STREAM = 2,
    MUSTER_DISCARD_DEVICE = 3,
    MUSTER_DISCARD_RUNTIME = 4
};

/*
 * What a failing call says. Every function that can fail takes one as its last argument, or NULL.
 * The library writes it only on failure and needs nothing set beforehand, so that it never grows
 * while the library keeps its soname: `size` is what the library filled. Text is always terminated.
 */
struct muster_error {
    size_t size;
    muster_status status;
    int driver_code; /* what the vendor's driver returned, 0 if none was asked */
    char device[24]; /* the device concerned, "" if none */
    char text[232];  /* what was asked and what there was */
    char fix[128];   /* what would help, "" if nothing is known to */
};

/*
 * The constant's name ("MUSTER_E_STALE") and its meaning; never NULL, also for numbers that are no
 * status.
 */
MUSTER_API const char *muster_status_name(muster_status status);
MUSTER_API const char *muster_status_message(muster_status status);

/* What a failure makes unusable, by the group of its number. */
MUSTER_API enum muster_discard muster_status_discards(muster_status status);

/*
 * What to do when Muster finds one of its own invariants broken. Process-wide, any thread, at any
 * time. Without a hook the library goes on, never stops the process, and muster_close of every open
 * runtime reports MUSTER_E_INTERNAL.
 */
typedef void (*muster_assert_hook)(const char *file, int line, const char *condition);
MUSTER_API void muster_set_assert_hook(muster_assert_hook hook);

#ifdef __cplusplus
}
#endif

#endif
