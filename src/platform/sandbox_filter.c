#include "platform/sandbox_filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#define ARCHITECTURE 0
#endif

#define FIELD(name) ((uint32_t)offsetof(struct seccomp_data, name))

bool filter_is_possible(void)
{
    return ARCHITECTURE != 0;
}

/* A line too many is counted, and refused by filter_set. */
static void add(struct filter *filter, int code, uint32_t value, unsigned yes, unsigned no)
{
    if (filter->count < FILTER_MAX)
        filter->code[filter->count] = (struct sock_filter){
            .code = (uint16_t)code, .jt = (uint8_t)yes, .jf = (uint8_t)no, .k = value
        };
    filter->count++;
}

static void load(struct filter *filter, uint32_t offset)
{
    add(filter, BPF_LD | BPF_W | BPF_ABS, offset, 0, 0);
}

/* The lower half: both architectures are little-endian, and the calls that are looked at take no more. */
static void load_argument(struct filter *filter, unsigned number)
{
    load(filter, FIELD(args) + 8 * number);
}

static void equals(struct filter *filter, uint32_t value, unsigned yes, unsigned no)
{
    add(filter, BPF_JMP | BPF_JEQ | BPF_K, value, yes, no);
}

static void has_bits(struct filter *filter, uint32_t bits, unsigned yes, unsigned no)
{
    add(filter, BPF_JMP | BPF_JSET | BPF_K, bits, yes, no);
}

static void give(struct filter *filter, uint32_t action)
{
    add(filter, BPF_RET | BPF_K, action, 0, 0);
}

void filter_begin(struct filter *filter)
{
    filter->count = 0;
    load(filter, FIELD(arch));
    equals(filter, ARCHITECTURE, 1, 0);
    give(filter, SECCOMP_RET_KILL_PROCESS);
    load(filter, FIELD(nr));
#if defined(__x86_64__)
    add(filter, BPF_JMP | BPF_JGE | BPF_K, 0x40000000u, 0, 1);
    give(filter, SECCOMP_RET_KILL_PROCESS);
#endif
}

/*
 * In what follows the call's number is at hand at the begin and at the end: of a call that is named, some lines look at
 * its arguments and all ways out of them give an action.
 */

void filter_decide(struct filter *filter, long number, uint32_t action)
{
    equals(filter, (uint32_t)number, 0, 1);
    give(filter, action);
}

void filter_decide_equal(struct filter *filter, long number, unsigned argument, uint32_t value,
                         uint32_t action)
{
    equals(filter, (uint32_t)number, 0, 4);
    load_argument(filter, argument);
    equals(filter, value, 0, 1);
    give(filter, SECCOMP_RET_ALLOW);
    give(filter, action);
}

void filter_decide_other(struct filter *filter, long number, unsigned argument, uint32_t value,
                         uint32_t action)
{
    equals(filter, (uint32_t)number, 0, 4);
    load_argument(filter, argument);
    equals(filter, value, 1, 0);
    give(filter, SECCOMP_RET_ALLOW);
    give(filter, action);
}

void filter_decide_bits(struct filter *filter, long number, unsigned argument, uint32_t bits,
                        uint32_t action)
{
    equals(filter, (uint32_t)number, 0, 4);
    load_argument(filter, argument);
    has_bits(filter, bits, 1, 0);
    give(filter, SECCOMP_RET_ALLOW);
    give(filter, action);
}

void filter_decide_memory(struct filter *filter, uint32_t action)
{
    equals(filter, SYS_mmap, 0, 8);
    load_argument(filter, 2);
    has_bits(filter, PROT_EXEC, 5, 0);
    load_argument(filter, 3);
    has_bits(filter, MAP_ANONYMOUS, 0, 3);
    add(filter, BPF_ALU | BPF_AND | BPF_K, MAP_TYPE, 0, 0);
    equals(filter, MAP_PRIVATE, 0, 1);
    give(filter, SECCOMP_RET_ALLOW);
    give(filter, action);
    filter_decide_bits(filter, SYS_mprotect, 2, PROT_EXEC, action);
}

void filter_decide_futex(struct filter *filter, uint32_t action)
{
    static const uint32_t done[] = { FUTEX_WAIT, FUTEX_WAKE, FUTEX_WAIT_BITSET, FUTEX_WAKE_BITSET };
    const unsigned count = sizeof done / sizeof *done;
    equals(filter, SYS_futex, 0, count + 4);
    load_argument(filter, 1);
    add(filter, BPF_ALU | BPF_AND | BPF_K, ~(uint32_t)(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME),
        0, 0);
    for (unsigned i = 0; i < count; i++)
        equals(filter, done[i], count - i, 0);
    give(filter, action);
    give(filter, SECCOMP_RET_ALLOW);
}

bool filter_set(struct filter *filter, uint32_t action)
{
    give(filter, action);
    const struct sock_fprog program = { (unsigned short)filter->count, filter->code };
    if (filter->count > FILTER_MAX) {
        errno = E2BIG;
        return false;
    }
    /* More than 0: a thread that could not take it. */
    long result =
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
    if (result > 0)
        errno = EBUSY;
    return result == 0;
}
