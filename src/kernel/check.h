/*
 * Whether a form is one: what every kind must have.
 */
#ifndef KERNEL_CHECK_H
#define KERNEL_CHECK_H

#include <muster/kernel.h>

/* MUSTER_E_INVALID, naming `function` and what is missing. Looks at no code. */
muster_status kernel_form_check(const struct muster_kernel_form *form, const char *function,
                                struct muster_error *err);

#endif
