/*
 * Running another program to its end.
 */
#ifndef PLATFORM_PROCESS_H
#define PLATFORM_PROCESS_H

#include <muster/status.h>

/* How a program ended. */
struct platform_process_end {
    int code;            /* what it exited with, 128 + the signal that ended it, -1: not known */
    size_t output_bytes; /* of what it wrote to its output and error output; the rest was dropped */
};

/*
 * Runs arguments[0], found at `path`, with these arguments, in English, without input and without a
 * shell, and waits for it at most `timeout_ns`; then it is ended, with what it started. Its
 * temporary files go to `folder` (NULL: wherever it likes). What it wrote is in `output`, of `room`
 * bytes, terminated. MUSTER_E_TIMEOUT, or MUSTER_E_IO if it could not be started. Works also in a
 * program that leaves its children unwaited for: then the code is not known.
 * platform_temporary_sweep ends it.
 */
muster_status platform_process_run(const char *path, const char *const *arguments,
                                   const char *folder, char *output, size_t room,
                                   uint64_t timeout_ns, struct platform_process_end *end,
                                   struct muster_error *err);

#endif
