/*
 * Compilers of source that nobody trusts. A compiler needs many calls, and which changes with each version, so here
 * what could harm is named, and fails with EPERM; files are Landlock's part.
 */
#include "platform/sandbox.h"
#include "platform/sandbox_filter.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXIT_REFUSED 126
#define FILES_MAX 256
#define REFUSE (SECCOMP_RET_ERRNO | EPERM)
#define NEW_SPACES                                                                                 \
    (CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET |     \
     CLONE_NEWCGROUP)

/* Other machines and processes, the system's state, and what Landlock does not know of files: modes, owners, times. */
static const int refused[] = {
    SYS_socket,
    SYS_socketpair,
    SYS_connect,
    SYS_bind,
    SYS_listen,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kill,
    SYS_tkill,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_unshare,
    SYS_setns,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_setsid,
    SYS_setpgid,
    SYS_setpriority,
    SYS_ioprio_set,
    SYS_sched_setaffinity,
    SYS_sched_setscheduler,
    SYS_sched_setattr,
    SYS_sched_setparam,
    SYS_fchmod,
    SYS_fchmodat,
    SYS_fchown,
    SYS_fchownat,
    SYS_utimensat,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    SYS_removexattr,
    SYS_lremovexattr,
    SYS_fremovexattr,
    SYS_truncate,
    SYS_shmget,
    SYS_shmat,
    SYS_shmctl,
    SYS_msgget,
    SYS_semget,
    SYS_mq_open,
    SYS_mq_unlink,
    SYS_setrlimit,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_acct,
    SYS_quotactl,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_adjtimex,
    SYS_syslog,
    SYS_open_by_handle_at,
    SYS_name_to_handle_at,
    SYS_lookup_dcookie,
    SYS_move_pages,
    SYS_migrate_pages,
    SYS_kcmp,
    SYS_personality,
    SYS_fanotify_init,
#ifdef SYS_chmod
    SYS_chmod,
    SYS_chown,
    SYS_lchown,
    SYS_utime,
    SYS_utimes,
    SYS_futimesat,
    SYS_ioperm,
    SYS_iopl,
#endif
#ifdef SYS_pidfd_send_signal
    SYS_pidfd_send_signal,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_open_tree,
    SYS_move_mount,
    SYS_fsopen,
    SYS_fsmount,
#endif
#ifdef SYS_pidfd_open
    SYS_pidfd_open,
#endif
#ifdef SYS_pidfd_getfd
    SYS_pidfd_getfd,
#endif
#ifdef SYS_mount_setattr
    SYS_mount_setattr,
#endif
};

static bool close_calls(void)
{
    struct filter filter;
    filter_begin(&filter);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        filter_decide(&filter, refused[i], REFUSE);
    filter_decide_bits(&filter, SYS_clone, 0, NEW_SPACES, REFUSE);
#ifdef SYS_clone3
    /* Its flags lie in memory. The C library then takes clone. */
    filter_decide(&filter, SYS_clone3, SECCOMP_RET_ERRNO | ENOSYS);
#endif
    /* To ask for limits, which the C library does, and not to set them. */
    filter_decide_equal(&filter, SYS_prlimit64, 2, 0, REFUSE);
    return filter_set(&filter, SECCOMP_RET_ALLOW);
}

static bool limit(int what, uint64_t most)
{
    struct rlimit now;
    if (getrlimit((__rlimit_resource_t)what, &now) != 0)
        return false;
    if (now.rlim_max == RLIM_INFINITY || now.rlim_max > most)
        now.rlim_max = most;
    if (now.rlim_cur == RLIM_INFINITY || now.rlim_cur > now.rlim_max)
        now.rlim_cur = now.rlim_max;
    return setrlimit((__rlimit_resource_t)what, &now) == 0;
}

static bool limit_all(void)
{
    return limit(RLIMIT_AS, SANDBOX_COMPILER_BYTES) && limit(RLIMIT_CPU, SANDBOX_COMPILER_S) &&
           limit(RLIMIT_FSIZE, SANDBOX_COMPILER_FILE_BYTES) && limit(RLIMIT_NOFILE, FILES_MAX) &&
           limit(RLIMIT_CORE, 0);
}

/*
 * What is around the program's folder bin, where its own libraries are; the program alone if that could be the user's
 * home or more.
 */
static void find_prefix(const char *program, char *prefix)
{
    const char *home = secure_getenv("HOME");
    if (!realpath(program, prefix)) {
        prefix[0] = 0;
        return;
    }
    char *slash = strrchr(prefix, '/');
    if (slash - prefix <= 4 || memcmp(slash - 4, "/bin", 4) != 0)
        return;
    size_t length = (size_t)(slash - 4 - prefix);
    bool is_above_home =
        home && strncmp(home, prefix, length) == 0 && (home[length] == '/' || home[length] == 0);
    if (!is_above_home)
        prefix[length] = 0;
}

static bool close_files(const char *folder, const char *program)
{
    char prefix[PATH_MAX], file[PATH_MAX];
    find_prefix(program, prefix);
    if (!realpath(program, file))
        return false;
    const char *const words[] = { folder,
                                  "/usr",
                                  "/lib",
                                  "/lib64",
                                  "/lib32",
                                  "/bin",
                                  "/nix/store",
                                  "/gnu/store",
                                  "/etc/ld.so.cache",
                                  file,
                                  *prefix ? prefix : file,
                                  NULL };
    return landlock_close(words);
}

static int say(const char *what)
{
    fprintf(stderr, "muster-helper: %s: %s\n", what, strerror(errno));
    return EXIT_REFUSED;
}

int platform_sandbox_run(char **words)
{
    /* Some compilers are programs that look for settings in a home. */
    char temporary[PATH_MAX + 8], home[PATH_MAX + 8];
    char path[] = "PATH=/usr/local/bin:/usr/bin:/bin", locale[] = "LC_ALL=C",
         no_ccache[] = "CCACHE_DISABLE=1";
    char *const environment[] = { path, locale, no_ccache, temporary, home, NULL };
    if (!words[0] || words[0][0] != '/' || !words[1] || words[1][0] != '/')
        return EXIT_REFUSED;
    snprintf(temporary, sizeof temporary, "TMPDIR=%s", words[0]);
    snprintf(home, sizeof home, "HOME=%s", words[0]);
    /* With the thread that waits for it this one ends, too; not before it could be asked for. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!limit_all())
        return say("the compiler's limits cannot be set");
    if (platform_sandbox_closes()) {
        syscall(SYS_close_range, 3, ~0u, 0);
        if (!sandbox_drop_rights() || !close_files(words[0], words[1]) || !close_calls())
            return say("the compiler cannot be closed in");
    }
    execve(words[1], words + 1, environment);
    return say(words[1]);
}
