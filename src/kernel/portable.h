/*
 * What the portable form allows before anybody asks what it means: no way for a source to have a
 * compiler read another file or the assembler's own language, however it is spelled. Compilers undo
 * trigraphs, digraphs and spliced words in different ways, so those are refused rather than
 * understood; what is left reads the same to every compiler and to the scanner.
 */
#ifndef KERNEL_PORTABLE_H
#define KERNEL_PORTABLE_H

#include "kernel/scanner.h"

#include <muster/status.h>

#define KERNEL_PRELUDE_NAME "muster_kernel.h"

/* MUSTER_E_PARSE with the place ("FILE:LINE"), what stands there and what to write instead. */
muster_status portable_check(const char *code, size_t bytes, const char *file,
                             struct muster_error *err);

/* Whether the directive includes something. In a source that was checked it is the prelude. */
bool portable_is_include(const struct word *directive);

#endif
