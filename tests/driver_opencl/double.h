/*
 * How a test tells the OpenCL loader of the tests what to do. The functions are found in the loaded
 * libOpenCL.so.1, which is the tests' own if these are in it.
 */
#ifndef DRIVER_OPENCL_DOUBLE_H
#define DRIVER_OPENCL_DOUBLE_H

#include <stdint.h>

enum double_mode {
    DOUBLE_WELL,   /* everything goes to the real loader */
    DOUBLE_ONCE,   /* call number `at` answers `code` */
    DOUBLE_LOST,   /* it and all that follow do, and unfinished commands have failed */
    DOUBLE_FAILED, /* command number `at` is accepted, is not run, and fails with `code` at once */
    DOUBLE_LATE    /* the same, but it fails when double_fail_now is called */
};

/* Commands are copies, fills and launches; calls are all but those that only release. */
typedef void double_set_function(enum double_mode mode, uint64_t at, int code);
typedef void double_fail_now_function(void);
/* Callbacks are accepted and never made. */
typedef void double_forget_callbacks_function(int forgets);
/* Callbacks are made late, and what they need must be there until then: late.h. */
typedef void double_delay_callbacks_function(int delays);
/* Since the last double_set: calls, or commands, that were counted. */
typedef uint64_t double_count_function(void);
/* Callbacks that were ever asked for and accepted. */
typedef uint64_t double_callbacks_function(void);
/* Objects that were made and not released, references included. */
typedef int64_t double_live_function(void);

double_set_function double_set;
double_fail_now_function double_fail_now;
double_forget_callbacks_function double_forget_callbacks;
double_delay_callbacks_function double_delay_callbacks;
double_count_function double_count;
double_callbacks_function double_callbacks;
double_live_function double_live;

#endif
