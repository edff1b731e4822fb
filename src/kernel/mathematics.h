/*
 * Which of the kernels' mathematics (include/muster_kernel_math.h) a portable source names. A kernel
 * that names none is compiled without it.
 */
#ifndef KERNEL_MATHEMATICS_H
#define KERNEL_MATHEMATICS_H

#include <muster/kernel.h>
#include <stdbool.h>

/* muster_kernel_constants.h and what follows it, terminated; and what MUSTER_FAST_MATH takes instead. */
extern const char mathematics_text[];
extern const char mathematics_fast_text[];

/* Tables that only some functions need. */
enum mathematics_table {
    MATHEMATICS_QUADRANT = 1 << 0,
    MATHEMATICS_ERF = 1 << 1,
    MATHEMATICS_POW = 1 << 2,
    MATHEMATICS_ATAN2 = 1 << 3,
    MATHEMATICS_TURNS = 1 << 4 /* with QUADRANT's functions */
};

struct mathematics {
    bool is_named;     /* a function of them, anywhere but in comments and strings */
    bool needs_double; /* one that computes in double */
    bool is_own;       /* MUSTER_FAST_MATH is defined before the prelude's include */
    uint32_t tables;   /* enum mathematics_table, or-ed */
};

struct mathematics mathematics_read(const char *code, size_t bytes);

/*
 * Whether a portable form, or OpenCL C that was made of one, uses mathematics that compute in double.
 * False for all other forms.
 */
bool mathematics_form_needs_double(const struct muster_kernel_form *form);

#endif
