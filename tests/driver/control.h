/*
 * How a test tells the CUDA driver of the tests (libcuda.so.1 in this folder) what machine to be and
 * what to fail. The same text can be given in the variable TEST_CUDA before the first call.
 *
 * A text is a list of settings separated by spaces or semicolons:
 *
 *     devices=2              how many devices there are; 1 unless told
 *     sms=132                multiprocessors of each
 *     memory=1073741824      bytes of each
 *     grid=2147483647        blocks along x of the largest grid
 *     compute=90             compute capability 9.0
 *     init=100               what cuInit answers
 *     version=13000          of the driver, as cuDriverGetVersion gives it
 *     ptx=90                 the newest PTX it takes, 9.0
 *     pools=0 gates=0 green=0    it has no memory pools, no waits on values, no green contexts
 *     graphs=0               it refuses graphs
 *     fail=FUNCTION:N:CODE   the n-th call of a function from now fails, once; "any" is every function.
 *                            An error that a context does not survive ends all contexts
 *     fail_from=FUNCTION:N:CODE   the n-th and all later ones
 *     poison=WORK:N:CODE     the n-th launch or copy from now ends its context with this error when it
 *                            runs; WORK is launch, copy or any
 *     hang=WORK:N            the n-th launch or copy from now does not end before test_cuda_release
 *     lost=CODE              all contexts end with this error now
 *
 * The functions are found with dlsym in the libcuda.so.1 that the library under test has loaded, or
 * that the test loads beforehand.
 */
#ifndef TEST_CUDA_CONTROL_H
#define TEST_CUDA_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

/* Live objects of the driver, by kind. */
struct test_cuda_objects {
    uint64_t contexts; /* references to primary contexts */
    uint64_t green_contexts, streams, events, modules, allocations, registrations, pools, graphs;
};

struct test_cuda {
    /* False: the text is wrong, and nothing of it holds. Settings of the machine need no context. */
    bool (*set)(const char *settings);
    /* As at the start: no fault, no lost context, TEST_CUDA read again. Lets hanging work go on. */
    void (*reset)(void);
    /* Lets work that hangs go on; later work does not hang. */
    void (*release)(void);
    /* How often a function was called since reset; NULL: all of them together. */
    uint64_t (*calls)(const char *function);
    /* How many faults have happened since reset. */
    uint64_t (*hits)(void);
    void (*count)(struct test_cuda_objects *objects);
    /* Objects that were still there when their context went away, since reset. */
    uint64_t (*left_behind)(void);
};

/* The name to look up: const struct test_cuda *test_cuda_control(void). */
#define TEST_CUDA_CONTROL "test_cuda_control"

#endif
