#include "platform/child.h"

#include <errno.h>
#include <fcntl.h>
#include <muster/backend.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NS_PER_MS 1000000u
/* waitid takes a pidfd with this, which old headers do not name. */
#define WAIT_BY_DESCRIPTOR ((idtype_t)3)

extern char **environ;

/* By the numbers that the child finds; -1: not there. */
struct given {
    int memory, leash, host;
};

static int add_actions(posix_spawn_file_actions_t *actions, const struct given *given)
{
    int last = given->host >= 0 ? PLATFORM_CHILD_HOST : PLATFORM_CHILD_LEASH;
    /* Above the numbers that the child wants, so that none is overwritten before it is copied. */
    int code = posix_spawn_file_actions_addopen(actions, 0, "/dev/null", O_RDONLY, 0);
    if (code == 0)
        code = posix_spawn_file_actions_addopen(actions, 1, "/dev/null", O_WRONLY, 0);
    if (code == 0)
        code = posix_spawn_file_actions_adddup2(actions, given->memory, PLATFORM_CHILD_MEMORY);
    if (code == 0)
        code = posix_spawn_file_actions_adddup2(actions, given->leash, PLATFORM_CHILD_LEASH);
    if (code == 0 && given->host >= 0)
        code = posix_spawn_file_actions_adddup2(actions, given->host, PLATFORM_CHILD_HOST);
    if (code == 0)
        code = posix_spawn_file_actions_addclosefrom_np(actions, last + 1);
    return code;
}

/* With the signals of a fresh program, and a group of its own: what a terminal sends is for the parent. */
static int spawn(const char *path, const char *const *arguments, const struct given *given,
                 bool has_environment, pid_t *pid)
{
    static char *const nothing[] = { NULL };
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    int code = posix_spawn_file_actions_init(&actions);
    if (code != 0)
        return code;
    code = posix_spawnattr_init(&attributes);
    if (code == 0) {
        code = add_actions(&actions, given);
        if (code == 0)
            code = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP |
                                                             POSIX_SPAWN_SETSIGMASK |
                                                             POSIX_SPAWN_SETSIGDEF);
        if (code == 0)
            code = posix_spawnattr_setsigmask(&attributes, &none);
        if (code == 0)
            code = posix_spawnattr_setsigdefault(&attributes, &all);
        if (code == 0)
            code = posix_spawn(pid, path, &actions, &attributes, (char *const *)arguments,
                               has_environment ? environ : nothing);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return code;
}

static void kill_now(int descriptor, int pid)
{
    if (descriptor >= 0)
        syscall(SYS_pidfd_send_signal, descriptor, SIGKILL, NULL, 0);
    else
        kill(pid, SIGKILL);
}

muster_status platform_child_start(struct platform_child *child, const char *path,
                                   const char *const *arguments, int memory, int host,
                                   bool has_environment, struct muster_error *err)
{
    int leash[2] = { -1, -1 }, high[3] = { -1, -1, -1 };
    pid_t pid = 0;
    int code = pipe2(leash, O_CLOEXEC) == 0 ? 0 : errno;
    if (code == 0) {
        high[0] = fcntl(memory, F_DUPFD_CLOEXEC, 10);
        high[1] = fcntl(leash[0], F_DUPFD_CLOEXEC, 10);
        high[2] = host >= 0 ? fcntl(host, F_DUPFD_CLOEXEC, 10) : -1;
        const struct given given = { high[0], high[1], high[2] };
        code = high[0] >= 0 && high[1] >= 0 && (host < 0 || high[2] >= 0)
                   ? spawn(path, arguments, &given, has_environment, &pid)
                   : errno;
    }
    int descriptor = code == 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    if (code == 0 && descriptor < 0) {
        code = errno;
        kill_now(-1, pid);
        waitpid(pid, NULL, 0);
    }
    for (int i = 0; i < 3; i++)
        if (high[i] >= 0)
            close(high[i]);
    if (leash[0] >= 0)
        close(leash[0]);
    if (code != 0) {
        if (leash[1] >= 0)
            close(leash[1]);
        return muster_error_fill(err, MUSTER_E_IO, code,
                                 "set MUSTER_HELPER to the path of muster-helper",
                                 "%.160s cannot be started: %s", path, strerror(code));
    }
    *child = (struct platform_child){ .pid = pid, .descriptor = descriptor, .leash = leash[1] };
    return MUSTER_OK;
}

void platform_child_kill(const struct platform_child *child)
{
    if (child->pid > 0)
        kill_now(child->descriptor, child->pid);
}

bool platform_child_await(const struct platform_child *child, uint64_t timeout_ns)
{
    struct pollfd end = { .fd = child->descriptor, .events = POLLIN };
    uint64_t left_ms = timeout_ns / NS_PER_MS;
    int step = left_ms > 1000000 ? -1 : (int)left_ms;
    return child->pid <= 0 || poll(&end, 1, step) > 0;
}

void platform_child_collect(struct platform_child *child, struct platform_child_end *end)
{
    siginfo_t info = { .si_pid = 0 };
    int got;
    *end = (struct platform_child_end){ .signal = 0, .code = -1 };
    if (child->pid <= 0)
        return;
    platform_child_await(child, UINT64_MAX);
    do
        got = waitid(WAIT_BY_DESCRIPTOR, (id_t)child->descriptor, &info, WEXITED);
    while (got != 0 && errno == EINTR);
    if (got == 0 && info.si_pid != 0) {
        bool has_exited = info.si_code == CLD_EXITED;
        end->signal = has_exited ? 0 : info.si_status;
        end->code = has_exited ? info.si_status : -1;
    }
    close(child->descriptor);
    close(child->leash);
    *child = (struct platform_child){ .pid = 0, .descriptor = -1, .leash = -1 };
}

bool platform_program_path(char *path, size_t bytes)
{
    ssize_t length = readlink("/proc/self/exe", path, bytes - 1);
    if (length <= 0 || (size_t)length >= bytes - 1)
        return false;
    path[length] = 0;
    return true;
}

bool platform_is_program(const char *path)
{
    return access(path, X_OK) == 0;
}

void platform_descriptor_close(int descriptor)
{
    if (descriptor >= 0)
        close(descriptor);
}

bool platform_child_size(const struct platform_child *child, uint64_t *bytes)
{
    char path[64];
    unsigned long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", child->pid);
    FILE *file = fopen(path, "re");
    bool is_read = file && fscanf(file, "%lu", &pages) == 1;
    if (file)
        fclose(file);
    *bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    return is_read;
}

/* The soft limit: who may set it may do so again. */
bool platform_child_limit(const struct platform_child *child, uint64_t bytes)
{
    struct rlimit limit;
    if (child->pid <= 0 || prlimit(child->pid, RLIMIT_AS, NULL, &limit) != 0)
        return false;
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    return prlimit(child->pid, RLIMIT_AS, &limit, NULL) == 0;
}

void platform_leash_look(void)
{
    struct pollfd end = { .fd = PLATFORM_CHILD_LEASH, .events = POLLIN };
    if (poll(&end, 1, 0) > 0)
        _exit(0);
}

bool platform_descriptors_close(void)
{
    return syscall(SYS_close_range, 0, PLATFORM_CHILD_LEASH - 1, 0) == 0 &&
           syscall(SYS_close_range, PLATFORM_CHILD_LEASH + 1, ~0u, 0) == 0;
}

void platform_leash_hold(void)
{
    char byte;
    ssize_t got;
    do
        got = read(PLATFORM_CHILD_LEASH, &byte, 1);
    while (got > 0 || (got < 0 && errno == EINTR));
    _exit(0);
}
