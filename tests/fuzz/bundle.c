/*
 * The reader of bundles on any bytes, as they are and with a size and a hash that are right:
 * whatever it takes can be read to its last byte, and written again it says the same.
 */
#include "kernel/format.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void compare(const struct muster_kernel_form *a, const struct muster_kernel_form *b)
{
    require(a->kind == b->kind && a->threads == b->threads && a->code_bytes == b->code_bytes);
    require(memcmp(a->code, b->code, a->code_bytes) == 0);
    require(strcmp(a->entry, b->entry) == 0 && a->entry[0] && strlen(a->entry) < 64);
    require(!a->file == !b->file && (!a->file || strcmp(a->file, b->file) == 0));
    require(memcmp(a->compute, b->compute, sizeof a->compute) == 0);
}

static void check(const uint8_t *data, size_t size)
{
    static struct muster_kernel_form forms[FORMAT_FORMS_MAX];
    struct muster_error err = { .text = "" };
    size_t count = 0, again;
    if (format_check(data, size, "fuzz", &count, &err) != MUSTER_OK) {
        require(err.status < 0 && err.text[0] && err.fix[0]);
        return;
    }
    require(count > 0 && count <= FORMAT_FORMS_MAX);
    for (size_t i = 0; i < count; i++)
        forms[i] = format_read(data, i);
    size_t bytes = format_bytes(forms, count);
    /* Forms whose code overlaps in part may take more than any test should. */
    if (bytes == 0 || bytes > (size_t)1 << 22)
        return;
    uint8_t *copy = malloc(bytes);
    require(copy != NULL);
    format_write(forms, count, copy);
    require(format_check(copy, bytes, "fuzz", &again, &err) == MUSTER_OK && again == count);
    for (size_t i = 0; i < count; i++) {
        struct muster_kernel_form form = format_read(copy, i);
        compare(&forms[i], &form);
    }
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    format_is_bundle(data, size);
    check(data, size);
    if (size < FORMAT_HEAD_BYTES)
        return 0;
    uint8_t *right = malloc(size);
    require(right != NULL);
    memcpy(right, data, size);
    for (size_t i = 0; i < 8; i++)
        right[16 + i] = (uint8_t)((uint64_t)size >> 8 * i);
    format_hash(right, size, right + FORMAT_HASH_AT);
    check(right, size);
    free(right);
    return 0;
}
