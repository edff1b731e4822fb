/*
 * Bundles: files of every kind become forms, source among them becomes more forms, and all is
 * written as one file.
 */
#include "base/allocator.h"
#include "base/layout.h"
#include "kernel/build.h"
#include "kernel/check.h"
#include "kernel/elf.h"
#include "kernel/format.h"
#include "kernel/signature.h"
#include "platform/file.h"
#include "platform/log.h"
#include "platform/machine.h"

#include <muster/backend.h>
#include <muster/bundle.h>
#include <stdio.h>
#include <string.h>

#define FILE_BYTES_MAX ((size_t)256 << 20)

/* Memory that forms borrow from. */
struct piece {
    struct piece *next;
    size_t bytes;
    char data[];
};

struct muster_bundle {
    struct muster_kernel_form *forms; /* owns; what they point to is in the pieces */
    size_t count, capacity;
    struct piece *pieces; /* owns */
    /* What compilers say; NULL: nobody is told. */
    void (*log)(void *user, enum muster_log_level level, const char *text);
    void *log_user; /* borrowed */
};

static const struct muster_allocator *heap = &platform_heap;

static muster_status no_memory(struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, "free memory of the process",
                             "no host memory for a bundle");
}

const char *muster_kernel_kind_name(enum muster_kernel_kind kind)
{
    switch (kind) {
    case MUSTER_KERNEL_FUNCTION:
        return "function";
    case MUSTER_KERNEL_PORTABLE:
        return "portable";
    case MUSTER_KERNEL_SHARED_OBJECT:
        return "shared object";
    case MUSTER_KERNEL_OPENCL:
        return "OpenCL C";
    case MUSTER_KERNEL_CUDA:
        return "CUDA C++";
    case MUSTER_KERNEL_PTX:
        return "PTX";
    case MUSTER_KERNEL_CUBIN:
        return "cubin";
    }
    return "unknown";
}

muster_status muster_bundle_create(struct muster_bundle **out, struct muster_error *err)
{
    if (!out)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL,
                                 "muster_bundle_create: out is NULL");
    struct muster_bundle *bundle = allocator_take(heap, 1, sizeof *bundle);
    if (!bundle)
        return no_memory(err);
    *out = bundle;
    return MUSTER_OK;
}

/* Drops the newest pieces, down to `until`. */
static void drop_pieces(struct muster_bundle *bundle, const struct piece *until)
{
    while (bundle->pieces != until) {
        struct piece *piece = bundle->pieces;
        bundle->pieces = piece->next;
        allocator_give(heap, piece, sizeof *piece + piece->bytes, 1);
    }
}

void muster_bundle_destroy(struct muster_bundle *bundle)
{
    if (!bundle)
        return;
    drop_pieces(bundle, NULL);
    allocator_give(heap, bundle->forms, bundle->capacity, sizeof *bundle->forms);
    allocator_give(heap, bundle, 1, sizeof *bundle);
}

const struct muster_kernel_form *muster_bundle_form(const struct muster_bundle *bundle,
                                                    size_t index)
{
    return bundle && index < bundle->count ? &bundle->forms[index] : NULL;
}

/*
 * A copy that lives as long as the bundle, with a zero byte behind it; NULL if there is no memory.
 */
static const char *keep(struct muster_bundle *bundle, const void *bytes, size_t size)
{
    if (size > SIZE_MAX - sizeof(struct piece) - 1)
        return NULL;
    struct piece *piece = allocator_take(heap, sizeof *piece + size + 1, 1);
    if (!piece)
        return NULL;
    piece->next = bundle->pieces;
    piece->bytes = size + 1;
    memcpy(piece->data, bytes, size);
    bundle->pieces = piece;
    return piece->data;
}

static muster_status reserve(struct muster_bundle *bundle, size_t more, struct muster_error *err)
{
    size_t wanted = bundle->count + more;
    if (wanted > FORMAT_FORMS_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "use several bundles",
                                 "a bundle has at most %d forms", FORMAT_FORMS_MAX);
    if (wanted <= bundle->capacity)
        return MUSTER_OK;
    size_t capacity = wanted + 16;
    struct muster_kernel_form *forms = allocator_take(heap, capacity, sizeof *forms);
    if (!forms)
        return no_memory(err);
    if (bundle->count > 0)
        memcpy(forms, bundle->forms, bundle->count * sizeof *forms);
    allocator_give(heap, bundle->forms, bundle->capacity, sizeof *forms);
    bundle->forms = forms;
    bundle->capacity = capacity;
    return MUSTER_OK;
}

/* Adds a form whose code lives with the bundle already; its names are copied. */
static muster_status add(struct muster_bundle *bundle, const struct muster_kernel_form *form,
                         struct muster_error *err)
{
    muster_status status = reserve(bundle, 1, err);
    if (status != MUSTER_OK)
        return status;
    struct muster_kernel_form copy = *form;
    copy.size = sizeof copy;
    copy.entry = keep(bundle, form->entry, strlen(form->entry));
    if (form->file)
        copy.file = keep(bundle, form->file, strnlen(form->file, 200));
    if (!copy.entry || (form->file && !copy.file))
        return no_memory(err);
    bundle->forms[bundle->count++] = copy;
    return MUSTER_OK;
}

/* After a failure the bundle is as it was. */
static muster_status settle(struct muster_bundle *bundle, size_t count, const struct piece *pieces,
                            muster_status status)
{
    if (status != MUSTER_OK) {
        bundle->count = count;
        drop_pieces(bundle, pieces);
    }
    return status;
}

muster_status muster_bundle_add_form(struct muster_bundle *bundle,
                                     const struct muster_kernel_form *form,
                                     struct muster_error *err)
{
    struct muster_kernel_form copy;
    if (!bundle || !form)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL,
                                 "muster_bundle_add_form: an argument is NULL");
    muster_status status = layout_read(LAYOUT(muster_kernel_form), form, &copy, err);
    if (status == MUSTER_OK)
        status = kernel_form_check(&copy, "muster_bundle_add_form", err);
    if (status != MUSTER_OK)
        return status;
    if (copy.kind == MUSTER_KERNEL_FUNCTION)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "give its source, or a shared object",
                                 "a function of this process cannot be in a bundle");
    size_t count = bundle->count;
    const struct piece *pieces = bundle->pieces;
    copy.code = keep(bundle, copy.code, copy.code_bytes);
    status = copy.code ? add(bundle, &copy, err) : no_memory(err);
    return settle(bundle, count, pieces, status);
}

/* A file that is added. */
struct file {
    const char *path, *name; /* without its folders */
    const char *data;        /* in a piece of the bundle */
    size_t bytes;
    const char *entry; /* the only one that is wanted, or NULL */
};

static muster_status no_entry(const struct file *file, struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_NOT_FOUND, 0, "`muster kernel list` shows what it has",
                             "%s has no kernel %s", file->path, file->entry);
}

static muster_status add_named(struct muster_bundle *bundle, const struct file *file,
                               enum muster_kernel_kind kind, const char *entry,
                               struct muster_error *err)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = kind,
                                             .code = file->data,
                                             .code_bytes = file->bytes,
                                             .entry = entry,
                                             .file = file->name };
    return add(bundle, &form, err);
}

static muster_status add_portable(struct muster_bundle *bundle, const struct file *file,
                                  struct muster_error *err)
{
    bool is_found = false;
    struct kernel_signature *signature = allocator_take(heap, 1, sizeof *signature);
    if (!signature)
        return no_memory(err);
    muster_status status =
        kernel_signature_read(signature, file->data, file->bytes, file->name, err);
    for (size_t i = 0; i < signature->count && status == MUSTER_OK; i++) {
        if (file->entry && strcmp(file->entry, signature->entries[i].name) != 0)
            continue;
        is_found = true;
        status = add_named(bundle, file, MUSTER_KERNEL_PORTABLE, signature->entries[i].name, err);
    }
    allocator_give(heap, signature, 1, sizeof *signature);
    return status == MUSTER_OK && !is_found ? no_entry(file, err) : status;
}

/* Source whose entries can only be guessed: one that is asked for by name is believed. */
static muster_status add_source(struct muster_bundle *bundle, const struct file *file,
                                enum muster_kernel_kind kind, struct muster_error *err)
{
    char names[KERNEL_ENTRIES_MAX][KERNEL_NAME_BYTES];
    if (file->entry)
        return add_named(bundle, file, kind, file->entry, err);
    size_t count = kernel_entries_guess(kind, file->data, file->bytes, names, KERNEL_ENTRIES_MAX);
    if (count == 0 || count > KERNEL_ENTRIES_MAX)
        return muster_error_fill(err, MUSTER_E_NOT_FOUND, 0, "name the entry",
                                 count == 0 ? "%s shows no kernel" : "%s has too many kernels",
                                 file->path);
    muster_status status = MUSTER_OK;
    for (size_t i = 0; i < count && status == MUSTER_OK; i++)
        status = add_named(bundle, file, kind, names[i], err);
    return status;
}

/* The kernel that all forms so far are of; NULL if they are not of one. */
static const char *only_entry(const struct muster_bundle *bundle)
{
    for (size_t i = 1; i < bundle->count; i++)
        if (strcmp(bundle->forms[i].entry, bundle->forms[0].entry) != 0)
            return NULL;
    return bundle->count > 0 ? bundle->forms[0].entry : NULL;
}

static muster_status add_image(struct muster_bundle *bundle, const struct file *file,
                               enum muster_kernel_kind kind, struct muster_error *err)
{
    const char *entry = file->entry ? file->entry : only_entry(bundle);
    if (!entry)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "name the entry",
                                 "%s does not say which of its functions is the kernel",
                                 file->path);
    return add_named(bundle, file, kind, entry, err);
}

static muster_status add_bundle(struct muster_bundle *bundle, const struct file *file,
                                struct muster_error *err)
{
    size_t count;
    bool is_found = false;
    muster_status status = format_check(file->data, file->bytes, file->path, &count, err);
    for (size_t i = 0; status == MUSTER_OK && i < count; i++) {
        struct muster_kernel_form form = format_read(file->data, i);
        if (file->entry && strcmp(file->entry, form.entry) != 0)
            continue;
        is_found = true;
        status = add(bundle, &form, err);
    }
    return status == MUSTER_OK && !is_found ? no_entry(file, err) : status;
}

static bool has(const struct file *file, const char *word)
{
    return memmem(file->data, file->bytes, word, strlen(word)) != NULL;
}

static bool ends_with(const char *path, const char *ending)
{
    size_t length = strlen(path), tail = strlen(ending);
    return length > tail && strcmp(path + length - tail, ending) == 0;
}

static bool is_fat_binary(const struct file *file)
{
    static const unsigned char outer[] = { 0x50, 0xed, 0x55, 0xba },
                               wrapper[] = { 0xb1, 0x43, 0x62, 0x46 };
    return file->bytes > 16 &&
           (memcmp(file->data, outer, 4) == 0 || memcmp(file->data, wrapper, 4) == 0);
}

/* 0: nothing that is known. */
static enum muster_kernel_kind kind_of(const struct file *file)
{
    static const struct {
        const char *ending;
        enum muster_kernel_kind kind;
    } names[] = { { ".c", MUSTER_KERNEL_PORTABLE },       { ".cu", MUSTER_KERNEL_CUDA },
                  { ".cl", MUSTER_KERNEL_OPENCL },        { ".ptx", MUSTER_KERNEL_PTX },
                  { ".so", MUSTER_KERNEL_SHARED_OBJECT }, { ".cubin", MUSTER_KERNEL_CUBIN },
                  { ".fatbin", MUSTER_KERNEL_CUBIN } };
    if (file->bytes >= 4 && memcmp(file->data, "\177ELF", 4) == 0)
        return elf_look(file->data, file->bytes) == ELF_CUBIN ? MUSTER_KERNEL_CUBIN
                                                              : MUSTER_KERNEL_SHARED_OBJECT;
    if (is_fat_binary(file))
        return MUSTER_KERNEL_CUBIN;
    if (kernel_signature_is_in(file->data, file->bytes))
        return MUSTER_KERNEL_PORTABLE;
    if (has(file, ".version") && has(file, ".target") && has(file, ".entry"))
        return MUSTER_KERNEL_PTX;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (ends_with(file->path, names[i].ending))
            return names[i].kind;
    return has(file, "__global__")                             ? MUSTER_KERNEL_CUDA
           : has(file, "__kernel") || has(file, "kernel void") ? MUSTER_KERNEL_OPENCL
                                                               : (enum muster_kernel_kind)0;
}

static muster_status add_content(struct muster_bundle *bundle, const struct file *file,
                                 struct muster_error *err)
{
    if (file->bytes == 0)
        return muster_error_fill(err, MUSTER_E_PARSE, 0, "name a kernel's source, or a bundle",
                                 "%s is empty", file->path);
    if (format_is_bundle(file->data, file->bytes))
        return add_bundle(bundle, file, err);
    enum muster_kernel_kind kind = kind_of(file);
    switch (kind) {
    case MUSTER_KERNEL_PORTABLE:
        return add_portable(bundle, file, err);
    case MUSTER_KERNEL_CUDA:
    case MUSTER_KERNEL_OPENCL:
    case MUSTER_KERNEL_PTX:
        /* One at the very end is a string's, as NVRTC counts it. */
        if (memchr(file->data, '\0', file->bytes - 1))
            return muster_error_fill(err, MUSTER_E_PARSE, 0, "give the kernel as text",
                                     "%s: a kernel's source has no zero bytes", file->path);
        return add_source(bundle, file, kind, err);
    case MUSTER_KERNEL_SHARED_OBJECT:
        if (elf_look(file->data, file->bytes) == ELF_NONE)
            return muster_error_fill(err, MUSTER_E_PARSE, 0, "build it again, or copy it again",
                                     "%s is not a whole shared object", file->path);
        return add_image(bundle, file, kind, err);
    case MUSTER_KERNEL_CUBIN:
        if (!is_fat_binary(file) && elf_look(file->data, file->bytes) != ELF_CUBIN)
            return muster_error_fill(err, MUSTER_E_PARSE, 0, "build it again, or copy it again",
                                     "%s is neither a cubin nor a fat binary", file->path);
        return add_image(bundle, file, kind, err);
    default:
        return muster_error_fill(
            err, MUSTER_E_PARSE, 0,
            "name portable source (.c), .cu, .cl, .ptx, a cubin, a shared object or a bundle",
            "%s is no kernel: neither its content nor its name is known", file->path);
    }
}

muster_status muster_bundle_add_file(struct muster_bundle *bundle, const char *path,
                                     const char *entry, struct muster_error *err)
{
    if (!bundle || !path)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL,
                                 "muster_bundle_add_file: an argument is NULL");
    if (entry && (!*entry || strnlen(entry, KERNEL_NAME_BYTES) == KERNEL_NAME_BYTES))
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL,
                                 "an entry's name has 1 to %d characters", KERNEL_NAME_BYTES - 1);
    char *text;
    size_t bytes, count = bundle->count;
    const struct piece *pieces = bundle->pieces;
    muster_status status = platform_file_read(heap, path, FILE_BYTES_MAX, &text, &bytes, err);
    if (status != MUSTER_OK)
        return status;
    const char *slash = strrchr(path, '/'), *data = keep(bundle, text, bytes);
    allocator_give(heap, text, bytes + 1, 1);
    if (!data)
        return no_memory(err);
    const struct file file = {
        .path = path, .name = slash ? slash + 1 : path, .data = data, .bytes = bytes, .entry = entry
    };
    status = add_content(bundle, &file, err);
    return settle(bundle, count, pieces, status);
}

/* Whether this is the first form with this source: what it is compiled to has all its kernels. */
static bool is_first_with_code(const struct muster_bundle *bundle, size_t index)
{
    size_t first = 0;
    while (bundle->forms[first].code != bundle->forms[index].code ||
           bundle->forms[first].kind != bundle->forms[index].kind)
        first++;
    return first == index;
}

void muster_bundle_log(struct muster_bundle *bundle,
                       void (*log)(void *user, enum muster_log_level level, const char *text),
                       void *user)
{
    bundle->log = log;
    bundle->log_user = user;
}

/* A compiler's words about one form. */
struct telling {
    const struct muster_bundle *bundle;
    const char *entry;
};

static void tell_line(void *user, enum muster_log_level level, const char *line)
{
    const struct telling *telling = user;
    char text[512];
    snprintf(text, sizeof text, "kernel %s: %s", telling->entry, line);
    platform_log(level == MUSTER_LOG_ERROR ? "error" : "warning", text);
    if (telling->bundle->log)
        telling->bundle->log(telling->bundle->log_user, level, text);
}

/* Compiles one source and adds the result for each of its kernels, at the bundle's end. */
static muster_status build_source(struct muster_bundle *bundle, size_t index, size_t count,
                                  const struct kernel_target *target, struct muster_error *err)
{
    struct kernel_image image;
    struct telling telling = { bundle, bundle->forms[index].entry };
    const struct kernel_log log = { tell_line, &telling };
    const char *untrusted = platform_environment("MUSTER_UNTRUSTED");
    bool is_untrusted = untrusted && strcmp(untrusted, "1") == 0;
    muster_status status = (is_untrusted ? kernel_build_untrusted : kernel_build_logged)(
        &bundle->forms[index], target, heap, &log, &image, err);
    if (status != MUSTER_OK)
        return status;
    struct muster_kernel_form form = image.form;
    form.code = keep(bundle, image.form.code, image.form.code_bytes);
    if (!form.code)
        status = no_memory(err);
    for (size_t i = index; i < count && status == MUSTER_OK; i++) {
        if (bundle->forms[i].code != bundle->forms[index].code ||
            bundle->forms[i].kind != bundle->forms[index].kind)
            continue;
        form.entry = bundle->forms[i].entry;
        form.threads = bundle->forms[i].threads;
        status = add(bundle, &form, err);
    }
    kernel_image_release(&image, heap);
    return status;
}

/* The newest forms go to the front. */
static muster_status move_to_front(struct muster_bundle *bundle, size_t old_count,
                                   struct muster_error *err)
{
    size_t fresh = bundle->count - old_count;
    struct muster_kernel_form *copies = allocator_take(heap, fresh, sizeof *copies);
    if (!copies)
        return no_memory(err);
    memcpy(copies, bundle->forms + old_count, fresh * sizeof *copies);
    memmove(bundle->forms + fresh, bundle->forms, old_count * sizeof *copies);
    memcpy(bundle->forms, copies, fresh * sizeof *copies);
    allocator_give(heap, copies, fresh, sizeof *copies);
    return MUSTER_OK;
}

static bool becomes(enum muster_kernel_kind source, enum muster_kernel_kind kind)
{
    bool is_cuda = kind == MUSTER_KERNEL_CUBIN || kind == MUSTER_KERNEL_PTX;
    if (source == MUSTER_KERNEL_CUDA)
        return is_cuda;
    return source == MUSTER_KERNEL_PORTABLE &&
           (is_cuda || kind == MUSTER_KERNEL_SHARED_OBJECT || kind == MUSTER_KERNEL_OPENCL);
}

muster_status muster_bundle_build(struct muster_bundle *bundle, enum muster_kernel_kind kind,
                                  const uint16_t compute[2], struct muster_error *err)
{
    if (!bundle || ((kind == MUSTER_KERNEL_CUBIN || kind == MUSTER_KERNEL_PTX) && !compute))
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL,
                                 "muster_bundle_build: an argument is NULL");
    const struct kernel_target target = { kind,
                                          { compute ? compute[0] : 0, compute ? compute[1] : 0 },
                                          false };
    size_t count = bundle->count;
    const struct piece *pieces = bundle->pieces;
    muster_status status = MUSTER_OK;
    for (size_t i = 0; i < count && status == MUSTER_OK; i++)
        if (becomes(bundle->forms[i].kind, kind) && is_first_with_code(bundle, i))
            status = build_source(bundle, i, count, &target, err);
    if (status == MUSTER_OK && bundle->count == count)
        status = muster_error_fill(err, MUSTER_E_NOT_FOUND, 0, "add source of the kernel",
                                   "nothing in the bundle can be compiled to %s",
                                   muster_kernel_kind_name(kind));
    if (status == MUSTER_OK)
        status = move_to_front(bundle, count, err);
    return settle(bundle, count, pieces, status);
}

muster_status muster_bundle_write(const struct muster_bundle *bundle, const char *path,
                                  struct muster_error *err)
{
    if (!bundle || !path || bundle->count == 0)
        return muster_error_fill(
            err, MUSTER_E_INVALID, 0, NULL,
            "muster_bundle_write: an argument is NULL, or the bundle is empty");
    size_t bytes = format_bytes(bundle->forms, bundle->count);
    void *text = bytes > 0 ? allocator_take(heap, bytes, 1) : NULL;
    if (!text)
        return no_memory(err);
    format_write(bundle->forms, bundle->count, text);
    muster_status status = platform_file_replace(path, text, bytes, err);
    allocator_give(heap, text, bytes, 1);
    return status;
}
