#include "probe_arrays.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

/* Far enough that a wrong index by millions of elements is still known to be this array's. */
#define GUARD_BYTES ((size_t)256 << 20)
#define STACK_BYTES ((size_t)64 << 10)

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static size_t whole_pages(size_t bytes)
{
    size_t page = page_bytes();
    return (bytes + page - 1) / page * page;
}

uint64_t probe_random(struct probe *probe)
{
    uint64_t x = probe->random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

void probe_doing(struct probe *probe, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(probe->report->doing, sizeof probe->report->doing, format, arguments);
    va_end(arguments);
    /* The watching process compares: relaxed, since it only needs to see that it grows. */
    atomic_fetch_add_explicit(&probe->report->steps, 1, memory_order_relaxed);
}

/*
 * A value that a kernel should stand: whole numbers from 1 to below the number of items, so that they
 * can be indices and divisors; fractions between -2 and 2 that are not 0.
 */
static void make_value(struct probe *probe, const struct probe_array *array, unsigned char *to)
{
    uint64_t random = probe_random(probe), most = probe->items > 2 ? probe->items - 1 : 2;
    uint64_t limit = array->bytes >= 8 ? UINT64_MAX : (UINT64_C(1) << (8 * array->bytes)) - 1;
    limit = array->is_signed ? limit >> 1 : limit;
    uint64_t number = 1 + random % (most < limit ? most : limit);
    double real = ((double)(random % 2048) - 1023.5) / 512.0;
    float single = (float)real;
    switch (array->type) {
    case PROBE_FLOAT:
        memcpy(to, &single, sizeof single);
        break;
    case PROBE_DOUBLE:
        memcpy(to, &real, sizeof real);
        break;
    case PROBE_INTEGER:
        memcpy(to, &number, array->bytes);
        break;
    case PROBE_BYTES:
        /* A struct: small whole numbers where words begin. */
        for (size_t i = 0; i < array->bytes; i++)
            to[i] = i % 4 == 0 ? (unsigned char)(1 + (random >> i % 32) % 60) : 0;
        break;
    }
}

static void free_array(struct probe_array *array)
{
    if (array->reserved)
        munmap(array->reserved, array->reserved_bytes);
    free(array->data);
    free(array->other);
    free(array->kept);
    array->reserved = NULL;
    array->data = array->other = array->kept = NULL;
}

static bool set_room(struct probe_array *array, size_t before, size_t bytes)
{
    array->room_bytes = bytes;
    array->base = array->room + before;
    return mprotect(array->reserved, array->reserved_bytes, PROT_NONE) == 0 &&
           (bytes == 0 || mprotect(array->room, whole_pages(bytes), PROT_READ | PROT_WRITE) == 0);
}

static bool open_array(struct probe *probe, struct probe_array *array, size_t before, size_t after)
{
    size_t room = whole_pages(before) + whole_pages(after);
    array->reserved_bytes = 2 * GUARD_BYTES + room;
    array->reserved = mmap(NULL, array->reserved_bytes, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    array->data = malloc(room);
    array->other = malloc(room);
    array->kept = malloc(room);
    if (array->reserved == MAP_FAILED)
        array->reserved = NULL;
    if (!array->reserved || !array->data || !array->other || !array->kept)
        return false;
    array->room = array->reserved + GUARD_BYTES;
    before = whole_pages(before) / array->bytes * array->bytes;
    if (!set_room(array, before, before + whole_pages(after) / array->bytes * array->bytes))
        return false;
    for (size_t at = 0; at + array->bytes <= array->room_bytes; at += array->bytes) {
        make_value(probe, array, array->data + at);
        do {
            make_value(probe, array, array->other + at);
        } while (memcmp(array->data + at, array->other + at, array->bytes) == 0);
    }
    memcpy(array->room, array->data, array->room_bytes);
    return true;
}

bool probe_arrays_open(struct probe *probe, size_t before, size_t after)
{
    bool has_all = true;
    for (size_t i = 0; i < probe->count; i++) {
        probe->args[i] = probe->values[i];
        if (!probe->is_block[i])
            continue;
        has_all = has_all && open_array(probe, &probe->arrays[i], before, after);
        probe->args[i] = &probe->arrays[i].base;
    }
    return has_all;
}

void probe_arrays_close(struct probe *probe)
{
    for (size_t i = 0; i < probe->count; i++)
        if (probe->is_block[i])
            free_array(&probe->arrays[i]);
}

/* Where an array has no limits of its own, it keeps what it has after element 0. */
static bool guard_array(struct probe *probe, struct probe_array *array, bool at_end)
{
    uint64_t groups = probe->items / probe->group;
    size_t own = (size_t)(groups * probe->group * array->per_item) * array->bytes;
    size_t halo = (size_t)(array->halo * probe->group * array->per_item) * array->bytes;
    if (array->is_whole) {
        own = (size_t)(array->room + array->room_bytes - array->base);
        halo = 0;
    }
    size_t bytes = own + 2 * halo, pages = whole_pages(bytes);
    unsigned char *old_data = array->data + (array->base - array->room);
    unsigned char *data = malloc(pages > 0 ? pages : 1);
    size_t room = (size_t)(array->room + array->room_bytes - array->base);
    size_t before = (size_t)(array->base - array->room);
    if (!data || own + halo > room || halo > before) {
        free(data);
        return false;
    }
    memcpy(data, old_data - halo, bytes);
    memcpy(array->data, data, bytes);
    free(data);
    /* The room begins at a page, or ends at one. */
    unsigned char *start = array->reserved + GUARD_BYTES;
    if (mprotect(array->reserved, array->reserved_bytes, PROT_NONE) != 0 ||
        (pages > 0 && mprotect(start, pages, PROT_READ | PROT_WRITE) != 0))
        return false;
    array->room = at_end ? start + pages - bytes : start;
    array->room_bytes = bytes;
    array->base = array->room + halo;
    memcpy(array->room, array->data, bytes);
    return !array->is_const || pages == 0 || mprotect(start, pages, PROT_READ) == 0;
}

bool probe_arrays_guard(struct probe *probe, bool at_end)
{
    bool is_done = true;
    for (size_t i = 0; i < probe->count && is_done; i++)
        is_done = !probe->is_block[i] || guard_array(probe, &probe->arrays[i], at_end);
    return is_done;
}

int64_t probe_array_first(const struct probe_array *array)
{
    return -((array->base - array->room) / (int64_t)array->bytes);
}

int64_t probe_array_end(const struct probe_array *array)
{
    return (array->room + array->room_bytes - array->base) / (int64_t)array->bytes;
}

void probe_array_set(struct probe_array *array, enum probe_variant variant, int64_t from,
                     int64_t to)
{
    int64_t first = probe_array_first(array), end = probe_array_end(array);
    from = from < first ? first : from;
    to = to > end ? end : to;
    if (from >= to)
        return;
    size_t at = (size_t)(from - first) * array->bytes, bytes = (size_t)(to - from) * array->bytes;
    if (array->is_const || array->is_inout)
        memcpy(array->room + at, (variant == PROBE_ONE ? array->data : array->other) + at, bytes);
    else
        memset(array->room + at, PROBE_FILL(variant), bytes);
}

void probe_arrays_reset(struct probe *probe, enum probe_variant variant)
{
    for (size_t i = 0; i < probe->count; i++)
        if (probe->is_block[i] && !probe->arrays[i].is_const)
            probe_array_set(&probe->arrays[i], variant, INT64_MIN / 2, INT64_MAX / 2);
}

/* Faults. A kernel runs on this thread alone, so one place to go back to is enough. */

static sigjmp_buf way_back;
static volatile sig_atomic_t is_armed;
static volatile struct {
    int signal;
    uintptr_t address;
    bool is_write, is_write_known;
} caught;

static void take_fault(int number, siginfo_t *info, void *context)
{
    if (!is_armed) {
        signal(number, SIG_DFL);
        return;
    }
    is_armed = 0;
    caught.signal = number;
    caught.address = (uintptr_t)info->si_addr;
    caught.is_write = caught.is_write_known = false;
#if defined(__x86_64__)
    const ucontext_t *machine = context;
    caught.is_write = machine->uc_mcontext.gregs[REG_ERR] >> 1 & 1;
    caught.is_write_known = number == SIGSEGV;
#else
    (void)context;
#endif
    siglongjmp(way_back, 1);
}

void probe_catch_faults(void)
{
    static const int signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL };
    /* A stack of its own, for a kernel that uses all of the other. */
    stack_t stack = { .ss_sp = malloc(STACK_BYTES), .ss_size = STACK_BYTES };
    struct sigaction action = { .sa_sigaction = take_fault,
                                .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK };
    if (stack.ss_sp)
        sigaltstack(&stack, NULL);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &action, NULL);
}

static void find_array(struct probe *probe, uintptr_t address)
{
    for (size_t i = 0; i < probe->count; i++) {
        struct probe_array *array = &probe->arrays[i];
        uintptr_t begin = (uintptr_t)array->reserved;
        if (!probe->is_block[i] || address < begin || address - begin >= array->reserved_bytes)
            continue;
        int64_t apart = (int64_t)(address - (uintptr_t)array->base);
        int64_t bytes = (int64_t)array->bytes;
        probe->fault.array = array;
        probe->fault.element = apart >= 0 ? apart / bytes : -((-apart + bytes - 1) / bytes);
    }
}

bool probe_run(struct probe *probe, muster_kernel_function function, uint64_t begin, uint64_t end)
{
    probe->fault.signal = 0;
    if (sigsetjmp(way_back, 0) == 0) {
        is_armed = 1;
        function(begin, end, probe->args);
        is_armed = 0;
        return true;
    }
    probe->fault = (struct probe_fault){ .signal = caught.signal,
                                         .is_write = caught.is_write,
                                         .is_write_known = caught.is_write_known };
    if (caught.signal == SIGSEGV || caught.signal == SIGBUS)
        find_array(probe, caught.address);
    return false;
}

void probe_tell_fault(struct probe *probe, uint64_t item, bool is_alone)
{
    const struct probe_fault *fault = &probe->fault;
    const struct probe_array *array = fault->array;
    char who[64];
    if (is_alone)
        snprintf(who, sizeof who, "item %llu", (unsigned long long)item);
    else
        snprintf(who, sizeof who, "a call for all %llu items", (unsigned long long)probe->items);
    const char *does = !fault->is_write_known ? "touches" : fault->is_write ? "writes" : "reads";
    if (!array) {
        const char *what = fault->signal == SIGFPE   ? "divides by zero, or overflows in a division"
                           : fault->signal == SIGILL ? "runs an illegal instruction"
                                                     : "touches memory outside all arrays";
        probe_find(probe->report, PROBE_CRASH, "", is_alone ? (int64_t)item : -1, -1,
                   fault->signal == SIGFPE ? "test the divisor first"
                                           : "check pointers, and recursion without an end",
                   "%s %s (%s)", who, what,
                   fault->signal == SIGFPE   ? "SIGFPE"
                   : fault->signal == SIGILL ? "SIGILL"
                                             : "SIGSEGV");
        return;
    }
    bool is_inside =
        fault->element >= probe_array_first(array) && fault->element < probe_array_end(array);
    if (array->is_const && is_inside) {
        probe_find(probe->report, PROBE_CONST_WRITE, array->name, (int64_t)item, fault->element,
                   "remove the const and pass it as MUSTER_INOUT, or write elsewhere",
                   "%s writes element %lld of %s, which is const", who, (long long)fault->element,
                   array->name);
        return;
    }
    probe_find(probe->report, PROBE_OUTSIDE, array->name, is_alone ? (int64_t)item : -1,
               fault->element, "keep the index within the item's own elements, or declare a halo",
               "%s %s element %lld of %s, %s", who, does, (long long)fault->element, array->name,
               fault->element < 0 ? "before its beginning" : "beyond its end");
}
