#include "platform/crash.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define STACK_BYTES 32768

static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS };
static void (*last_words)(int signal, uint64_t address);

static void give_last_words(int number, siginfo_t *info, void *context)
{
    (void)context;
    last_words(number, number == SIGSYS ? (uint64_t)(unsigned)info->si_syscall
                                        : (uint64_t)(uintptr_t)info->si_addr);
    /*
     * The handler is gone (SA_RESETHAND): the fault happens again, and an abort goes on. What would go on behind the
     * place is sent again, and arrives when this returns.
     */
    if (number == SIGSYS || number == SIGTRAP)
        syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), number);
}

void platform_crash_watch(void (*note)(int signal, uint64_t address))
{
    const struct rlimit nothing = { 0, 0 };
    struct sigaction action;
    last_words = note;
    setrlimit(RLIMIT_CORE, &nothing);
    memset(&action, 0, sizeof action);
    action.sa_sigaction = give_last_words;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | (int)SA_RESETHAND;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigaction(faults[i], &action, NULL);
}

void platform_crash_prepare_thread(void)
{
    static _Thread_local char stack[STACK_BYTES];
    const stack_t alternate = { .ss_sp = stack, .ss_size = sizeof stack };
    sigset_t taken;
    sigaltstack(&alternate, NULL);
    /* Threads of ours take no signals; a fault whose signal is blocked ends the process without a word. */
    sigemptyset(&taken);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigaddset(&taken, faults[i]);
    pthread_sigmask(SIG_UNBLOCK, &taken, NULL);
}
