#include "kernel/build.h"

#include "base/allocator.h"
#include "base/apart.h"
#include "kernel/elf.h"
#include "kernel/mathematics.h"
#include "kernel/translate.h"
#include "platform/library.h"

#include <muster/backend.h>
#include <stdio.h>
#include <string.h>

/* A build under way. */
struct building {
    const struct muster_kernel_form *form;
    const struct kernel_target *target;
    const struct muster_allocator *allocator;
    const struct kernel_log *log;
    const char *file;
    struct muster_error *err;
    bool is_untrusted;
};

bool kernel_is_taken(const struct muster_kernel_form *form, const struct kernel_target *target)
{
    const uint16_t *made = form->compute, *has = target->compute;
    if (!(form->kind & target->forms) ||
        (target->lacks_double && mathematics_form_needs_double(form)))
        return false;
    bool is_known = made[0] != 0 && has[0] != 0;
    /* Machine code runs within its generation; PTX on whatever is newer. */
    if (form->kind == MUSTER_KERNEL_CUBIN && is_known)
        return made[0] == has[0] && made[1] <= has[1];
    if (form->kind == MUSTER_KERNEL_PTX && is_known)
        return made[0] < has[0] || (made[0] == has[0] && made[1] <= has[1]);
    return true;
}

/* The kind that the form becomes; 0: it cannot be made into anything the target takes. */
static uint32_t find_goal(const struct muster_kernel_form *form, const struct kernel_target *target)
{
    bool is_portable = form->kind == MUSTER_KERNEL_PORTABLE;
    if (form->kind == MUSTER_KERNEL_SHARED_OBJECT)
        return target->forms & MUSTER_KERNEL_FUNCTION &&
                       elf_look(form->code, form->code_bytes) == ELF_OURS
                   ? MUSTER_KERNEL_FUNCTION
                   : 0;
    /* Looking for a compiler takes some ten microseconds. */
    uint32_t compiled = target->forms & (MUSTER_KERNEL_FUNCTION | MUSTER_KERNEL_SHARED_OBJECT);
    if (is_portable && compiled && compiler_is_here())
        return compiled & MUSTER_KERNEL_FUNCTION ? MUSTER_KERNEL_FUNCTION
                                                 : MUSTER_KERNEL_SHARED_OBJECT;
    if (is_portable && target->forms & MUSTER_KERNEL_OPENCL)
        return target->lacks_double && mathematics_form_needs_double(form) ? 0
                                                                           : MUSTER_KERNEL_OPENCL;
    if (!is_portable && form->kind != MUSTER_KERNEL_CUDA)
        return 0; /* before NVRTC is loaded for nothing */
    if (target->forms & MUSTER_KERNEL_CUBIN && nvrtc_can_build(target->compute, false))
        return MUSTER_KERNEL_CUBIN;
    if (target->forms & MUSTER_KERNEL_PTX && nvrtc_can_build(target->compute, true))
        return MUSTER_KERNEL_PTX;
    return 0;
}

bool kernel_can_build(const struct muster_kernel_form *form, const struct kernel_target *target)
{
    return kernel_is_taken(form, target) || find_goal(form, target) != 0;
}

static muster_status no_memory(struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, "free memory of the process",
                             "no host memory to build a kernel");
}

/* Why nothing can be made of the form here, from the tool that would have to make it. */
static muster_status explain_no_goal(const struct building *building)
{
    const struct muster_kernel_form *form = building->form;
    const struct kernel_target *target = building->target;
    bool is_source = form->kind == MUSTER_KERNEL_PORTABLE || form->kind == MUSTER_KERNEL_CUDA;
    if (form->kind == MUSTER_KERNEL_PORTABLE &&
        target->forms & (MUSTER_KERNEL_FUNCTION | MUSTER_KERNEL_SHARED_OBJECT))
        return compiler_missing(building->err);
    if (is_source && target->forms & (MUSTER_KERNEL_CUBIN | MUSTER_KERNEL_PTX))
        return nvrtc_missing(target->compute, building->err);
    if (target->lacks_double && target->forms & MUSTER_KERNEL_OPENCL &&
        mathematics_form_needs_double(form))
        return muster_error_fill(
            building->err, MUSTER_E_NOT_SUPPORTED, 0,
            "use a device with double precision, or define MUSTER_FAST_MATH",
            "the kernel's mathematics compute in double, which this device does not have");
    if (form->kind == MUSTER_KERNEL_SHARED_OBJECT && target->forms & MUSTER_KERNEL_FUNCTION)
        return muster_error_fill(
            building->err, MUSTER_E_PARSE, 0, "build it again, for this processor's architecture",
            "%s is not a whole shared object for this processor", building->file);
    return muster_error_fill(building->err, MUSTER_E_NOT_SUPPORTED, 0,
                             "give the kernel in a form the device takes",
                             "the device cannot run a kernel of this form");
}

/* What stands beside the entry, under a name of ours; NULL where an object was made by others. */
static void *find_beside(const struct platform_library *library, const char *prefix,
                         const char *entry)
{
    char name[sizeof APART_WRITTEN_PREFIX + KERNEL_NAME_BYTES];
    int length = snprintf(name, sizeof name, "%s%s", prefix, entry);
    return (size_t)length < sizeof name ? platform_library_symbol(library, name) : NULL;
}

bool kernel_image_fold(const struct kernel_image *image, fold_function *fold,
                       folded_function *folded)
{
    if (!image->library)
        return false;
    const struct platform_image *loaded = image->library;
    void *first = find_beside(&loaded->library, FOLD_PREFIX, image->form.entry);
    void *second = find_beside(&loaded->library, FOLDED_PREFIX, image->form.entry);
    memcpy(fold, &first, sizeof first);
    memcpy(folded, &second, sizeof second);
    return first && second;
}

static void find_apart(const struct platform_library *library, struct muster_kernel_form *form)
{
    void *apart = find_beside(library, APART_PREFIX, form->entry);
    const uint32_t *written = find_beside(library, APART_WRITTEN_PREFIX, form->entry);
    if (!apart || !written)
        return;
    memcpy(&form->apart, &apart, sizeof apart);
    form->written = *written;
}

/* The entry of a loaded object. Takes the library over on success. */
static muster_status find_function(const struct building *building, struct platform_image *loaded,
                                   struct kernel_image *image)
{
    void *symbol = platform_library_symbol(&loaded->library, building->form->entry);
    struct platform_image *owned = allocator_take(building->allocator, 1, sizeof *owned);
    if (!symbol || !owned) {
        allocator_give(building->allocator, owned, 1, sizeof *owned);
        return symbol
                   ? no_memory(building->err)
                   : muster_error_fill(building->err, MUSTER_E_NOT_FOUND, 0,
                                       "name a function that it exports", "%s has no function %s",
                                       building->file, building->form->entry);
    }
    *owned = *loaded;
    image->library = owned;
    image->form.kind = MUSTER_KERNEL_FUNCTION;
    memcpy(&image->form.function, &symbol, sizeof symbol);
    find_apart(&owned->library, &image->form);
    return MUSTER_OK;
}

static muster_status load_object(const struct building *building, const void *bytes, size_t size,
                                 struct kernel_image *image)
{
    struct platform_image loaded;
    muster_status status = platform_image_open(&loaded, bytes, size, building->err);
    if (status != MUSTER_OK)
        return status;
    status = find_function(building, &loaded, image);
    if (status != MUSTER_OK)
        platform_image_close(&loaded);
    return status;
}

/* What was compiled becomes the image's memory and its code. */
static void keep_blob(struct kernel_image *image, const struct kernel_blob *blob,
                      enum muster_kernel_kind kind)
{
    image->memory = blob->memory;
    image->bytes = blob->memory_bytes;
    image->form.kind = kind;
    image->form.code = blob->data;
    image->form.code_bytes = blob->size;
}

static muster_status build_c(const struct building *building, const char *text, size_t bytes,
                             uint32_t goal, struct kernel_image *image)
{
    struct kernel_blob blob;
    const uint32_t how = (goal == MUSTER_KERNEL_FUNCTION ? COMPILE_NATIVE : 0) |
                         (building->is_untrusted ? COMPILE_UNTRUSTED : 0);
    muster_status status =
        compiler_build(text, bytes, how, building->allocator, building->log, &blob, building->err);
    if (status != MUSTER_OK)
        return status;
    if (goal == MUSTER_KERNEL_SHARED_OBJECT) {
        keep_blob(image, &blob, MUSTER_KERNEL_SHARED_OBJECT);
        return MUSTER_OK;
    }
    status = load_object(building, blob.data, blob.size, image);
    kernel_blob_release(&blob, building->allocator);
    return status;
}

static muster_status build_cuda(const struct building *building, const char *text, uint32_t goal,
                                struct kernel_image *image)
{
    struct kernel_blob blob;
    muster_status status =
        nvrtc_build(text, building->file, building->target->compute, goal == MUSTER_KERNEL_PTX,
                    building->form->kind == MUSTER_KERNEL_PORTABLE, building->allocator,
                    building->log, &blob, image->form.compute, building->err);
    if (status == MUSTER_OK)
        keep_blob(image, &blob, (enum muster_kernel_kind)goal);
    return status;
}

/* Says which entries there are. */
static muster_status no_entry(const struct building *building,
                              const struct kernel_signature *signature)
{
    char names[128] = "";
    for (size_t i = 0; i < signature->count; i++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "",
                 signature->entries[i].name);
    }
    return muster_error_fill(building->err, MUSTER_E_NOT_FOUND, 0, "ask for one that it has",
                             "%s has no kernel %s; it has %s", building->file,
                             building->form->entry, names);
}

static muster_status build_portable(const struct building *building, uint32_t goal,
                                    struct kernel_image *image)
{
    const struct muster_kernel_form *form = building->form;
    const struct muster_allocator *allocator = building->allocator;
    enum kernel_language language = goal == MUSTER_KERNEL_OPENCL ? KERNEL_OPENCL_C
                                    : goal & (MUSTER_KERNEL_CUBIN | MUSTER_KERNEL_PTX)
                                        ? KERNEL_CUDA_CPP
                                        : KERNEL_C;
    char *text;
    size_t bytes;
    struct kernel_signature *signature = allocator_take(allocator, 1, sizeof *signature);
    if (!signature)
        return no_memory(building->err);
    muster_status status = kernel_signature_read(signature, form->code, form->code_bytes,
                                                 building->file, building->err);
    if (status == MUSTER_OK && !kernel_signature_find(signature, form->entry))
        status = no_entry(building, signature);
    if (status == MUSTER_OK)
        status = kernel_translate(signature, form->code, form->code_bytes, building->file, language,
                                  allocator, &text, &bytes, building->err);
    /* This many threads of a GPU share memory for the lanes of a reduction; 0 of another kernel. */
    const struct kernel_entry *entry = kernel_signature_find(signature, form->entry);
    if (status == MUSTER_OK && language == KERNEL_CUDA_CPP && kernel_entry_reduces(entry))
        image->form.threads = entry->partial.threads;
    allocator_give(allocator, signature, 1, sizeof *signature);
    if (status != MUSTER_OK)
        return status;
    if (language == KERNEL_OPENCL_C) {
        const struct kernel_blob blob = { text, bytes + 1, text, bytes };
        keep_blob(image, &blob, MUSTER_KERNEL_OPENCL);
        return MUSTER_OK;
    }
    status = language == KERNEL_C ? build_c(building, text, bytes, goal, image)
                                  : build_cuda(building, text, goal, image);
    allocator_give(allocator, text, bytes + 1, 1);
    return status;
}

/* NVRTC takes terminated text, and nobody promised that this is. */
static muster_status build_cuda_source(const struct building *building, uint32_t goal,
                                       struct kernel_image *image)
{
    size_t bytes = building->form->code_bytes;
    char *text = allocator_take(building->allocator, bytes + 1, 1);
    if (!text)
        return no_memory(building->err);
    memcpy(text, building->form->code, bytes);
    muster_status status = build_cuda(building, text, goal, image);
    allocator_give(building->allocator, text, bytes + 1, 1);
    return status;
}

static muster_status build(const struct building *building, struct kernel_image *out)
{
    const struct muster_kernel_form *form = building->form;
    const struct kernel_target *target = building->target;
    struct kernel_image image = { .form = *form };
    if (kernel_is_taken(form, target)) {
        *out = image;
        return MUSTER_OK;
    }
    muster_status status;
    uint32_t goal = find_goal(form, target);
    if (goal == 0)
        status = explain_no_goal(building);
    else if (building->is_untrusted && goal != MUSTER_KERNEL_SHARED_OBJECT &&
             goal != MUSTER_KERNEL_OPENCL)
        status = muster_error_fill(building->err, MUSTER_E_NOT_SUPPORTED, 0,
                                   "use a device whose helper is a sandbox",
                                   "an untrusted kernel is compiled for sandboxes alone");
    else if (form->kind == MUSTER_KERNEL_SHARED_OBJECT)
        status = load_object(building, form->code, form->code_bytes, &image);
    else if (form->kind == MUSTER_KERNEL_CUDA)
        status = build_cuda_source(building, goal, &image);
    else
        status = build_portable(building, goal, &image);
    if (status == MUSTER_OK)
        *out = image;
    return status;
}

muster_status kernel_build_logged(const struct muster_kernel_form *form,
                                  const struct kernel_target *target,
                                  const struct muster_allocator *allocator,
                                  const struct kernel_log *log, struct kernel_image *out,
                                  struct muster_error *err)
{
    const struct building building = {
        form, target, allocator, log, form->file ? form->file : form->entry, err, false
    };
    return build(&building, out);
}

muster_status kernel_build_untrusted(const struct muster_kernel_form *form,
                                     const struct kernel_target *target,
                                     const struct muster_allocator *allocator,
                                     const struct kernel_log *log, struct kernel_image *out,
                                     struct muster_error *err)
{
    const struct building building = {
        form, target, allocator, log, form->file ? form->file : form->entry, err, true
    };
    return build(&building, out);
}

muster_status kernel_build(const struct muster_kernel_form *form,
                           const struct kernel_target *target,
                           const struct muster_allocator *allocator, struct kernel_image *out,
                           struct muster_error *err)
{
    return kernel_build_logged(form, target, allocator, NULL, out, err);
}

void kernel_image_release(struct kernel_image *image, const struct muster_allocator *allocator)
{
    if (image->library) {
        platform_image_close(image->library);
        allocator_give(allocator, image->library, 1, sizeof(struct platform_image));
    }
    allocator_give(allocator, image->memory, image->bytes, 1);
    *image = (struct kernel_image){ .memory = NULL };
}
