/*
 * Kernels that try what a sandbox must not let them do. Each adds one to its items, and at the item that is HOSTILE goes
 * for something else first. What is let through is told by an item that is LET_THROUGH.
 */
#define HOSTILE 0xffff0001u
#define LET_THROUGH 0xffff0002u

#include <alloca.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

/* Without __VA_ARGS__ nobody would know that a call was let through: each that fails is let through, too. */
#define KERNEL(name)                                                                               \
    static void do_##name(uint32_t *in, uint32_t *out);                                            \
    EXPORT int name(uint64_t begin, uint64_t end, void *const *args);                              \
    EXPORT int name(uint64_t begin, uint64_t end, void *const *args)                               \
    {                                                                                              \
        uint32_t *in = *(uint32_t *const *)args[0], *out = *(uint32_t *const *)args[1];            \
        for (uint64_t i = begin; i < end; i++) {                                                   \
            out[i] = in[i] + 1;                                                                    \
            if (in[i] == HOSTILE) {                                                                \
                do_##name(in, out);                                                                \
                out[i] = LET_THROUGH;                                                              \
            }                                                                                      \
        }                                                                                          \
        return 0;                                                                                  \
    }                                                                                              \
    static void do_##name(uint32_t *in __attribute__((unused)),                                    \
                          uint32_t *out __attribute__((unused)))

KERNEL(opens_a_file)
{
    (void)!open("/etc/passwd", O_RDONLY);
}

KERNEL(opens_a_socket)
{
    socket(AF_INET, SOCK_STREAM, 0);
}

KERNEL(forks)
{
    (void)!fork();
}

KERNEL(runs_a_program)
{
    execl("/bin/sh", "sh", "-c", "true", (char *)NULL);
}

KERNEL(traces_its_parent)
{
    syscall(SYS_ptrace, PTRACE_ATTACH, syscall(SYS_getpid) - 1, 0, 0);
}

KERNEL(reads_another_process)
{
    char here[16];
    struct iovec to = { here, sizeof here }, from = { here, sizeof here };
    process_vm_readv(1, &to, 1, &from, 1, 0);
}

KERNEL(opens_another_through_proc)
{
    (void)!open("/proc/1/mem", O_RDWR);
}

KERNEL(opens_its_own_memory)
{
    (void)!open("/proc/self/mem", O_RDWR);
}

/* Without touching it: the limit is on addresses. Ends where no more is given. */
KERNEL(fills_memory)
{
    for (int i = 0; i < 64; i++)
        if (mmap(NULL, (size_t)64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                 0) == MAP_FAILED)
            abort();
}

KERNEL(maps_code)
{
    mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

KERNEL(makes_data_code)
{
    mprotect((void *)((uintptr_t)in & ~(uintptr_t)4095), 4096, PROT_READ | PROT_EXEC);
}

KERNEL(signals_its_parent)
{
    kill((pid_t)syscall(SYS_getpid) - 1, SIGTERM);
}

KERNEL(signals_all)
{
    kill(-1, 0);
}

KERNEL(signals_a_thread_of_another)
{
    syscall(SYS_tgkill, 1, 1, SIGKILL);
}

KERNEL(closes_descriptors)
{
    for (int i = 0; i < 64; i++)
        close(i);
}

KERNEL(changes_its_process)
{
    prctl(PR_SET_PDEATHSIG, 0);
}

KERNEL(changes_the_filter)
{
    syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL);
}

KERNEL(makes_a_ring_of_the_system)
{
    char parameters[256] = { 0 };
    syscall(425, 8, parameters); /* io_uring_setup */
}

KERNEL(writes_to_the_terminal)
{
    (void)!write(2, "hostile\n", 8);
}

static void *nothing(void *argument)
{
    return argument;
}

KERNEL(starts_threads)
{
    pthread_t thread;
    for (int i = 0; i < 10000; i++)
        pthread_create(&thread, NULL, nothing, NULL);
}

static int go_down(volatile uint32_t *in, int depth)
{
    volatile char room[256];
    room[depth % 256] = (char)*in;
    return go_down(in, depth + 1) + room[0];
}

KERNEL(recurses_for_ever)
{
    out[0] = (uint32_t)go_down(in, 0);
}

KERNEL(takes_a_huge_frame)
{
    volatile char *room = alloca((size_t)1 << 30);
    room[0] = (char)in[0];
    out[0] = (uint32_t)room[0];
}

KERNEL(aborts)
{
    abort();
}

KERNEL(ends_the_process)
{
    exit(0);
}

KERNEL(raises_its_limits)
{
    const struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
    setrlimit(RLIMIT_AS, &all);
}

KERNEL(removes_a_file)
{
    unlink("/tmp/nothing");
}

KERNEL(makes_a_file_of_memory)
{
    syscall(SYS_memfd_create, "hostile", 0);
}

KERNEL(counts_events)
{
    char attributes[128] = { 0 };
    syscall(SYS_perf_event_open, attributes, 0, -1, -1, 0);
}

KERNEL(loads_a_filter_into_the_kernel)
{
    char attributes[128] = { 0 };
    syscall(SYS_bpf, 0, attributes, sizeof attributes);
}

KERNEL(leaves_its_spaces)
{
    syscall(SYS_unshare, 0x10000000);
}

static void go_on(int number)
{
    (void)number;
}

KERNEL(catches_refusals)
{
    signal(SIGSYS, go_on);
}

KERNEL(blocks_signals_and_asks)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    (void)!open("/etc/passwd", O_RDONLY);
}

KERNEL(never_ends)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    for (volatile int i = 0;; i++) {}
}

KERNEL(asks_without_the_library)
{
#if defined(__x86_64__)
    long result = SYS_getuid;
    __asm__ volatile("syscall" : "+a"(result) : : "rcx", "r11", "memory");
    out[0] = (uint32_t)result;
#else
    syscall(SYS_getuid);
#endif
}

KERNEL(asks_as_another_processor)
{
#if defined(__x86_64__)
    long result = 20; /* getpid of the 32-bit calls */
    __asm__ volatile("int $0x80" : "+a"(result) : : "memory");
    out[0] = (uint32_t)result;
#else
    syscall(SYS_getuid);
#endif
}

KERNEL(asks_as_x32)
{
    syscall(0x40000000 + SYS_getpid);
}

/* From its own stack on upwards, over whatever comes: rings, code, what the helper knows. */
KERNEL(writes_over_everything)
{
    for (volatile uint32_t *at = (volatile uint32_t *)in;; at++)
        *at = 0x5a5a5a5a;
}
