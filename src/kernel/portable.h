/*
 * Checks the text of a portable kernel before any compiler sees it. It refuses every spelling that
 * makes a compiler read another file or pass text to the assembler. Compilers disagree about
 * trigraphs, digraphs and words split over lines, so these are refused too: every compiler and the
 * scanner then see the same words.
 */
#ifndef KERNEL_PORTABLE_H
#define KERNEL_PORTABLE_H

#include "kernel/scanner.h"

#include <muster/status.h>

#define KERNEL_PRELUDE_NAME "muster_kernel.h"

/* MUSTER_E_PARSE: `err` has the place ("FILE:LINE"), the refused text and what to do. */
muster_status portable_check(const char *code, size_t bytes, const char *file,
                             struct muster_error *err);

/* Whether the directive is an #include. In a source that passed portable_check it names the prelude. */
bool portable_is_include(const struct word *directive);

#endif
