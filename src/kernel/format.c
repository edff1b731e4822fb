#include "kernel/format.h"

#include "base/sha256.h"
#include "kernel/signature.h"

#include <muster/backend.h>
#include <string.h>

static const char magic[8] = { 'M', 'U', 'S', 'T', 'E', 'R', 'K', 'B' };
#define VERSION 1
#define FILE_NAME_BYTES 256
#define KINDS_IN_FILES                                                                             \
    (MUSTER_KERNEL_PORTABLE | MUSTER_KERNEL_SHARED_OBJECT | MUSTER_KERNEL_OPENCL |                 \
     MUSTER_KERNEL_CUDA | MUSTER_KERNEL_PTX | MUSTER_KERNEL_CUBIN)

/* Where a form's fields stand. */
enum {
    KIND = 0,
    THREADS = 4,
    MAJOR = 8,
    MINOR = 10,
    CODE = 16,
    CODE_BYTES = 24,
    ENTRY = 32,
    FILE_NAME = 40
};
_Static_assert(FILE_NAME + 8 == FORMAT_FORM_BYTES, "the last field ends the form");
_Static_assert(FORMAT_HASH_AT + SHA256_BYTES == FORMAT_HEAD_BYTES, "the hash ends the head");

static void put(uint8_t *to, uint64_t number, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)(number >> 8 * i);
}

static uint64_t get(const uint8_t *from, size_t bytes)
{
    uint64_t number = 0;
    for (size_t i = 0; i < bytes; i++)
        number |= (uint64_t)from[i] << 8 * i;
    return number;
}

bool format_is_bundle(const void *bytes, size_t size)
{
    return size >= sizeof magic && memcmp(bytes, magic, sizeof magic) == 0;
}

void format_hash(const void *bytes, size_t size, uint8_t out[32])
{
    struct sha256 hash;
    sha256_init(&hash);
    sha256_add(&hash, bytes, FORMAT_HASH_AT);
    sha256_add(&hash, (const char *)bytes + FORMAT_HEAD_BYTES, size - FORMAT_HEAD_BYTES);
    sha256_finish(&hash, out);
}

/* The first form with the same code, which stands in the file once. */
static size_t first_with_code(const struct muster_kernel_form *forms, size_t index)
{
    size_t first = 0;
    while (forms[first].code != forms[index].code ||
           forms[first].code_bytes != forms[index].code_bytes)
        first++;
    return first;
}

size_t format_bytes(const struct muster_kernel_form *forms, size_t count)
{
    size_t total = FORMAT_HEAD_BYTES + count * FORMAT_FORM_BYTES;
    for (size_t i = 0; i < count; i++) {
        size_t names = strlen(forms[i].entry) + 1 + (forms[i].file ? strlen(forms[i].file) + 1 : 0);
        size_t code = first_with_code(forms, i) == i ? forms[i].code_bytes : 0;
        if (__builtin_add_overflow(total, names, &total) ||
            __builtin_add_overflow(total, code, &total))
            return 0;
    }
    return total;
}

/* Appends and gives where. */
static uint64_t append(uint8_t *out, size_t *used, const void *bytes, size_t size)
{
    uint64_t at = *used;
    memcpy(out + *used, bytes, size);
    *used += size;
    return at;
}

void format_write(const struct muster_kernel_form *forms, size_t count, void *out)
{
    uint8_t *bytes = out;
    size_t used = FORMAT_HEAD_BYTES + count * FORMAT_FORM_BYTES;
    memset(bytes, 0, used);
    for (size_t i = 0; i < count; i++) {
        const struct muster_kernel_form *form = &forms[i];
        uint8_t *to = bytes + FORMAT_HEAD_BYTES + i * FORMAT_FORM_BYTES;
        size_t first = first_with_code(forms, i);
        put(to + KIND, form->kind, 4);
        put(to + THREADS, form->threads, 4);
        put(to + MAJOR, form->compute[0], 2);
        put(to + MINOR, form->compute[1], 2);
        put(to + CODE,
            first < i ? get(bytes + FORMAT_HEAD_BYTES + first * FORMAT_FORM_BYTES + CODE, 8)
                      : append(bytes, &used, form->code, form->code_bytes),
            8);
        put(to + CODE_BYTES, form->code_bytes, 8);
        put(to + ENTRY, append(bytes, &used, form->entry, strlen(form->entry) + 1), 8);
        if (form->file)
            put(to + FILE_NAME, append(bytes, &used, form->file, strlen(form->file) + 1), 8);
    }
    memcpy(bytes, magic, sizeof magic);
    put(bytes + 8, VERSION, 4);
    put(bytes + 12, count, 4);
    put(bytes + 16, used, 8);
    format_hash(bytes, used, bytes + FORMAT_HASH_AT);
}

static muster_status damaged(const char *name, const char *what, struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_PARSE, 0, "build the bundle again, or copy it again",
                             "%s is a damaged bundle: %s", name, what);
}

/* A terminated string of less than `limit` bytes. */
static bool is_string(const uint8_t *bytes, size_t size, uint64_t at, size_t limit)
{
    if (at >= size)
        return false;
    size_t room = size - (size_t)at < limit ? size - (size_t)at : limit;
    return memchr(bytes + at, '\0', room) != NULL;
}

static bool is_form(const uint8_t *bytes, size_t size, size_t begin, const uint8_t *form)
{
    uint64_t kind = get(form + KIND, 4), code = get(form + CODE, 8),
             code_bytes = get(form + CODE_BYTES, 8);
    uint64_t entry = get(form + ENTRY, 8), file = get(form + FILE_NAME, 8);
    return (kind & KINDS_IN_FILES) != 0 && (kind & (kind - 1)) == 0 && code >= begin &&
           code <= size && code_bytes > 0 && code_bytes <= size - code && entry >= begin &&
           is_string(bytes, size, entry, KERNEL_NAME_BYTES) && bytes[entry] != '\0' &&
           (file == 0 || (file >= begin && is_string(bytes, size, file, FILE_NAME_BYTES)));
}

muster_status format_check(const void *file, size_t size, const char *name, size_t *count,
                           struct muster_error *err)
{
    const uint8_t *bytes = file;
    uint8_t hash[SHA256_BYTES];
    if (size < FORMAT_HEAD_BYTES)
        return damaged(name, "it ends before its head does", err);
    if (get(bytes + 8, 4) != VERSION)
        return muster_error_fill(err, MUSTER_E_VERSION, 0, "build the bundle with this version",
                                 "%s is a bundle of version %u, and this Muster knows %d", name,
                                 (unsigned)get(bytes + 8, 4), VERSION);
    if (get(bytes + 16, 8) != size)
        return damaged(name, "its size is wrong", err);
    format_hash(bytes, size, hash);
    if (memcmp(bytes + FORMAT_HASH_AT, hash, sizeof hash) != 0)
        return damaged(name, "its content has changed", err);
    size_t forms = (size_t)get(bytes + 12, 4), begin;
    if (forms == 0 || forms > FORMAT_FORMS_MAX ||
        forms > (size - FORMAT_HEAD_BYTES) / FORMAT_FORM_BYTES)
        return damaged(name, "its number of kernels is impossible", err);
    begin = FORMAT_HEAD_BYTES + forms * FORMAT_FORM_BYTES;
    for (size_t i = 0; i < forms; i++)
        if (!is_form(bytes, size, begin, bytes + FORMAT_HEAD_BYTES + i * FORMAT_FORM_BYTES))
            return damaged(name, "a kernel in it has no place", err);
    *count = forms;
    return MUSTER_OK;
}

struct muster_kernel_form format_read(const void *file, size_t index)
{
    const uint8_t *bytes = file, *form = bytes + FORMAT_HEAD_BYTES + index * FORMAT_FORM_BYTES;
    uint64_t name = get(form + FILE_NAME, 8);
    return (struct muster_kernel_form){
        .size = sizeof(struct muster_kernel_form),
        .kind = (enum muster_kernel_kind)get(form + KIND, 4),
        .code = bytes + get(form + CODE, 8),
        .code_bytes = (size_t)get(form + CODE_BYTES, 8),
        .entry = (const char *)bytes + get(form + ENTRY, 8),
        .threads = (uint32_t)get(form + THREADS, 4),
        .compute = { (uint16_t)get(form + MAJOR, 2), (uint16_t)get(form + MINOR, 2) },
        .file = name > 0 ? (const char *)bytes + name : NULL,
    };
}
