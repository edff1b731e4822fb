#include "platform/sandbox.h"
#include "platform/sandbox_filter.h"

#include <errno.h>
#include <malloc.h>
#include <muster/backend.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CLOSES false
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CLOSES false
#endif
#endif
#ifndef CLOSES
#define CLOSES true
#endif

bool platform_sandbox_closes(void)
{
    return CLOSES;
}

muster_status platform_sandbox_check(struct muster_error *err)
{
    const uint32_t action = SECCOMP_RET_TRAP;
    if (!platform_sandbox_closes())
        return MUSTER_OK;
    if (!filter_is_possible())
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "use x86-64 or AArch64",
                                 "there is no sandbox for this kind of processor");
    if (landlock_version() == 0)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, errno,
                                 "use Linux 5.13 or newer with landlock among its security modules",
                                 "this system has no Landlock, which the sandbox needs (%s)",
                                 strerror(errno));
    if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) != 0)
        return muster_error_fill(
            err, MUSTER_E_NOT_SUPPORTED, errno, "use a Linux with seccomp filters",
            "this system has no seccomp filters, which the sandbox needs (%s)", strerror(errno));
    return MUSTER_OK;
}

static muster_status say_open(struct muster_error *err, const char *what)
{
    int code = errno;
    return muster_error_fill(
        err, MUSTER_E_NOT_SUPPORTED, code, "allow it, or run only kernels that are trusted",
        "the sandbox cannot be closed: the system refuses %s (%s)", what, strerror(code));
}

muster_status platform_sandbox_close_files(struct muster_error *err)
{
    muster_status status = platform_sandbox_check(err);
    if (status != MUSTER_OK || !platform_sandbox_closes())
        return status;
    /* Each thread would reserve address space for its own allocations, which is limited. */
    mallopt(M_ARENA_MAX, 1);
    if (!sandbox_drop_rights())
        return say_open(err, "to take privileges away");
    return landlock_close(NULL) ? MUSTER_OK : say_open(err, "Landlock");
}

/* What computing, starting as a thread and dying take, whatever the arguments. */
static const int harmless[] = {
    SYS_exit,          SYS_exit_group,
    SYS_rt_sigreturn,  SYS_rt_sigprocmask,
    SYS_sigaltstack,   SYS_restart_syscall,
    SYS_sched_yield,   SYS_nanosleep,
    SYS_clock_gettime, SYS_clock_nanosleep,
    SYS_gettimeofday,  SYS_getpid,
    SYS_gettid,        SYS_munmap,
    SYS_mremap,        SYS_madvise,
    SYS_brk,           SYS_mbind,
    SYS_getrandom,     SYS_set_robust_list,
    SYS_membarrier,    SYS_rseq,
    SYS_sysinfo,
};

/*
 * A call that is not allowed ends the process, and is not merely refused: no kernel has a reason for one, and one that
 * went on would give a wrong result that nobody is named for.
 */
muster_status platform_sandbox_close_calls(int descriptor, struct muster_error *err)
{
    struct filter filter;
    if (!platform_sandbox_closes())
        return MUSTER_OK;
    filter_begin(&filter);
    /* First what is called most. */
    filter_decide_futex(&filter, SECCOMP_RET_TRAP);
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        filter_decide(&filter, harmless[i], SECCOMP_RET_ALLOW);
    filter_decide_memory(&filter, SECCOMP_RET_TRAP);
    filter_decide_equal(&filter, SYS_read, 0, (uint32_t)descriptor, SECCOMP_RET_TRAP);
    filter_decide_equal(&filter, SYS_prctl, 0, PR_SET_NAME, SECCOMP_RET_TRAP);
    /* For abort, which reaches this process and no other. */
    filter_decide_equal(&filter, SYS_tgkill, 0, (uint32_t)getpid(), SECCOMP_RET_TRAP);
    /* A handler of SIGSYS could go on after a call that was refused. */
    filter_decide_other(&filter, SYS_rt_sigaction, 0, SIGSYS, SECCOMP_RET_TRAP);
    return filter_set(&filter, SECCOMP_RET_TRAP) ? MUSTER_OK : say_open(err, "a seccomp filter");
}

const char *platform_sandbox_call_name(uint64_t number)
{
    static const struct {
        uint64_t number;
        const char *name;
    } names[] = {
#define CALL(name) { SYS_##name, #name }
        CALL(openat),
        CALL(socket),
        CALL(clone),
        CALL(execve),
        CALL(ptrace),
        CALL(kill),
        CALL(tgkill),
        CALL(tkill),
        CALL(prctl),
        CALL(mmap),
        CALL(mprotect),
        CALL(read),
        CALL(write),
        CALL(close),
        CALL(unshare),
        CALL(setrlimit),
        CALL(prlimit64),
        CALL(process_vm_readv),
        CALL(mount),
        CALL(bpf),
        CALL(perf_event_open),
        CALL(userfaultfd),
        CALL(memfd_create),
        CALL(shmget),
        CALL(setns),
        CALL(process_vm_writev),
        CALL(unlinkat),
        CALL(execveat),
        CALL(ioctl),
        CALL(fcntl),
        CALL(rt_sigaction),
        CALL(seccomp),
        CALL(rt_sigqueueinfo),
        CALL(pipe2),
        CALL(sendto),
        CALL(connect),
        CALL(keyctl),
        CALL(sched_setaffinity),
        CALL(setpriority),
        CALL(getuid),
        CALL(newfstatat),
        CALL(readlinkat),
        CALL(futex),
        CALL(personality),
        CALL(sendmsg),
#ifdef SYS_open
        CALL(open),
        CALL(fork),
        CALL(vfork),
        CALL(stat),
        CALL(readlink),
        CALL(unlink),
#endif
#ifdef SYS_clone3
        CALL(clone3),
        CALL(pidfd_open),
#endif
#ifdef SYS_pidfd_getfd
        CALL(pidfd_getfd),
#endif
#ifdef SYS_io_uring_setup
        CALL(io_uring_setup),
        CALL(pidfd_send_signal),
#endif
#undef CALL
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].number == number)
            return names[i].name;
    return NULL;
}
