#include "platform/process.h"

#include "platform/file.h"
#include "platform/temporary.h"
#include "platform/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <muster/backend.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS 1000000

extern char **environ;

/*
 * Messages in English, whatever the user speaks: programs read them. The strings are borrowed;
 * `temporary` ("TMPDIR=...") may be "".
 */
static char **make_environment(char *temporary)
{
    static char locale[] = "LC_ALL=C";
    size_t count = 0, used = 0;
    while (environ && environ[count])
        count++;
    char **out = malloc((count + 3) * sizeof *out);
    if (!out)
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "LC_ALL=", 7) != 0 &&
            !(*temporary && strncmp(environ[i], "TMPDIR=", 7) == 0))
            out[used++] = environ[i];
    out[used++] = locale;
    if (*temporary)
        out[used++] = temporary;
    out[used] = NULL;
    return out;
}

/*
 * In a group of its own, so that it can be ended with all that it starts; with the signals of a
 * fresh program, since the caller may block them or, worse for a compiler, ignore the end of
 * children.
 */
static int spawn(const char *path, const char *const *arguments, const char *folder, int output,
                 pid_t *pid)
{
    char temporary[PLATFORM_PATH_BYTES + 8] = "";
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, plain;
    if (folder)
        snprintf(temporary, sizeof temporary, "TMPDIR=%s", folder);
    char **environment = make_environment(temporary);
    if (!environment)
        return ENOMEM;
    sigemptyset(&none);
    sigemptyset(&plain);
    sigaddset(&plain, SIGCHLD);
    sigaddset(&plain, SIGPIPE);
    int code = posix_spawn_file_actions_init(&actions);
    if (code != 0)
        goto done;
    code = posix_spawnattr_init(&attributes);
    if (code != 0)
        goto drop_actions;
    code = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (code == 0)
        code = posix_spawn_file_actions_adddup2(&actions, output, 1);
    if (code == 0)
        code = posix_spawn_file_actions_adddup2(&actions, output, 2);
    if (code == 0) {
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setsigdefault(&attributes, &plain);
        posix_spawnattr_setpgroup(&attributes, 0);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                  POSIX_SPAWN_SETPGROUP);
        code = posix_spawn(pid, path, &actions, &attributes, (char *const *)(uintptr_t)arguments,
                           environment);
    }
    posix_spawnattr_destroy(&attributes);
drop_actions:
    posix_spawn_file_actions_destroy(&actions);
done:
    free(environment);
    return code;
}

static int milliseconds_to(uint64_t deadline_ns)
{
    uint64_t now_ns = platform_clock_ns();
    uint64_t left = deadline_ns > now_ns ? (deadline_ns - now_ns) / NS_PER_MS + 1 : 0;
    return left < 60000 ? (int)left : 60000;
}

/* Reads until nobody can write any more; false if the time is over before. */
static bool collect(int pipe, char *output, size_t room, size_t *bytes, uint64_t deadline_ns)
{
    char dropped[512];
    for (;;) {
        struct pollfd ready = { .fd = pipe, .events = POLLIN };
        int wait_ms = milliseconds_to(deadline_ns);
        int found = wait_ms > 0 ? poll(&ready, 1, wait_ms) : 0;
        if (found == 0 && platform_clock_ns() >= deadline_ns)
            return false;
        if (found <= 0)
            continue;
        bool has_room = *bytes + 1 < room;
        ssize_t got = read(pipe, has_room ? output + *bytes : dropped,
                           has_room ? room - 1 - *bytes : sizeof dropped);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return true;
        *bytes += has_room ? (size_t)got : 0;
    }
}

/*
 * False if it has not ended in time. Its number stays its own: a kill by that number must not hit
 * another.
 */
static bool await(pid_t pid, uint64_t deadline_ns)
{
    for (;;) {
        siginfo_t about = { .si_pid = 0 };
        int got = waitid(P_PID, (id_t)pid, &about, WEXITED | WNOHANG | WNOWAIT);
        if ((got == 0 && about.si_pid == pid) || (got != 0 && errno != EINTR))
            return true;
        if (platform_clock_ns() >= deadline_ns)
            return false;
        /* Its output is closed already, so it is about to end. */
        nanosleep(&(struct timespec){ .tv_nsec = NS_PER_MS / 10 }, NULL);
    }
}

/* What it ended with; -1: not known, as other code has taken it. */
static int take_code(pid_t pid)
{
    int status;
    pid_t got;
    while ((got = waitpid(pid, &status, 0)) < 0 && errno == EINTR)
        continue;
    if (got != pid)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Gives its output's other end, or -1 with errno set. */
static int start(struct platform_temporary *program, const char *path, const char *const *arguments,
                 const char *folder)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    if (platform_temporary_begin(program)) {
        errno = spawn(path, arguments, folder, ends[1], &program->program);
        program->output = ends[0];
        bool is_there = errno == 0;
        platform_temporary_end(program, is_there);
        close(ends[1]);
        if (is_there)
            return ends[0];
    } else {
        close(ends[1]);
    }
    int code = errno;
    close(ends[0]);
    errno = code;
    return -1;
}

muster_status platform_process_run(const char *path, const char *const *arguments,
                                   const char *folder, char *output, size_t room,
                                   uint64_t timeout_ns, struct platform_process_end *end,
                                   struct muster_error *err)
{
    struct platform_temporary program = { .kind = PLATFORM_PROGRAM };
    uint64_t deadline_ns = platform_deadline_ns(timeout_ns);
    *end = (struct platform_process_end){ .code = -1 };
    output[0] = '\0';
    int from = start(&program, path, arguments, folder);
    if (from < 0) {
        int code = errno;
        return muster_error_fill(err, MUSTER_E_IO, code, NULL, "cannot run %s: %s", path,
                                 strerror(code));
    }
    bool is_over = collect(from, output, room, &end->output_bytes, deadline_ns) &&
                   await(program.program, deadline_ns);
    output[end->output_bytes] = '\0';
    if (!is_over)
        kill(-program.program, SIGKILL);
    await(program.program, UINT64_MAX);
    platform_temporary_forget(&program);
    close(from);
    end->code = take_code(program.program);
    if (is_over)
        return MUSTER_OK;
    return muster_error_fill(err, MUSTER_E_TIMEOUT, 0, NULL, "%s did not end within %llu s", path,
                             (unsigned long long)(timeout_ns / 1000 / NS_PER_MS));
}
