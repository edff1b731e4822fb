/*
 * Closing a process in, with Landlock and seccomp and no library: for helpers that run code which nobody trusts, and for
 * compilers of it. What is closed cannot be opened again, and is closed for all that the process starts.
 */
#ifndef PLATFORM_SANDBOX_H
#define PLATFORM_SANDBOX_H

#include <muster/status.h>
#include <stdbool.h>

/* False in builds with sanitizers, which need files and calls of their own: there nothing below closes anything. */
bool platform_sandbox_closes(void);
/* MUSTER_E_NOT_SUPPORTED where the system has no Landlock or no seccomp filters, with what is missing. */
muster_status platform_sandbox_check(struct muster_error *err);

/*
 * For a helper, in two steps. First, while it has one thread: no new privileges, no capabilities, no files but those
 * that are open.
 */
muster_status platform_sandbox_close_files(struct muster_error *err);
/*
 * Second, when it has all its threads: from now on each of them may compute, wait, take plain memory and end. Any other
 * call ends the process with SIGSYS, for which platform_crash_watch gives the call's number. `descriptor` can still be
 * read.
 */
muster_status platform_sandbox_close_calls(int descriptor, struct muster_error *err);
/* The name of a system call; NULL for the rarer ones. */
const char *platform_sandbox_call_name(uint64_t number);

/* What a compiler is held to. */
#define SANDBOX_COMPILER_BYTES ((uint64_t)4 << 30)
#define SANDBOX_COMPILER_FILE_BYTES ((uint64_t)256 << 20)
#define SANDBOX_COMPILER_S 60u

/*
 * For a compiler: runs words[1] with the words that follow, up to NULL, in place of this process. It reads the system's
 * programs and libraries and its own (what is around its folder bin), writes words[0], an absolute folder, and has no
 * network, no signals, and nothing of this process's environment. Memory, time and files are limited as above. Returns
 * an exit status, and only if that cannot be; why is said on the error output.
 */
int platform_sandbox_run(char **words);

#endif
