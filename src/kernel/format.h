/*
 * The file that a bundle is. All numbers are little-endian:
 *
 *     0   "MUSTERKB"
 *     8   u32 version (1), u32 number of forms
 *     16  u64 bytes of the whole file
 *     24  SHA-256 of all but itself
 *     56  for each form: u32 kind, u32 threads, u16 compute major, u16 compute minor, u32 0,
 *                        u64 code at, u64 code bytes, u64 entry at, u64 file at (0: none)
 *
 * and then code and names, the names terminated. Places are counted from the file's beginning;
 * forms may share code.
 */
#ifndef KERNEL_FORMAT_H
#define KERNEL_FORMAT_H

#include <muster/kernel.h>
#include <stdbool.h>

#define FORMAT_FORMS_MAX 4096
#define FORMAT_HASH_AT 24
#define FORMAT_HEAD_BYTES 56
#define FORMAT_FORM_BYTES 48

bool format_is_bundle(const void *bytes, size_t size);

/* The bytes that `count` forms take; 0 if they are more than any memory. */
size_t format_bytes(const struct muster_kernel_form *forms, size_t count);
/* `out` has that many. */
void format_write(const struct muster_kernel_form *forms, size_t count, void *out);

/*
 * Checks the whole file; MUSTER_E_PARSE, MUSTER_E_VERSION. `name` is for the message. After that
 * each form can be read; it borrows from `bytes`.
 */
muster_status format_check(const void *bytes, size_t size, const char *name, size_t *count,
                           struct muster_error *err);
struct muster_kernel_form format_read(const void *bytes, size_t index);

/* The hash that stands in the file. For tests, which need damaged files with a right one. */
void format_hash(const void *bytes, size_t size, uint8_t out[32]);

#endif
