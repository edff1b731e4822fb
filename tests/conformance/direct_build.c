/*
 * Builds CUDA C++ with NVRTC and nothing else, where the tree has no src/kernel to build kernels with.
 */
#include "kernel/build.h"

#include <muster/backend.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef struct _nvrtcProgram *program;

static void *symbol(const char *name)
{
    static void *library;
    if (!library)
        library = dlopen("libnvrtc.so.13", RTLD_NOW);
    return library ? dlsym(library, name) : NULL;
}

bool kernel_can_build(const struct muster_kernel_form *form, const struct kernel_target *target)
{
    if (form->kind == MUSTER_KERNEL_CUDA)
        return target->forms & MUSTER_KERNEL_CUBIN && symbol("nvrtcCreateProgram");
    return target->forms & form->kind;
}

muster_status kernel_build(const struct muster_kernel_form *form,
                           const struct kernel_target *target,
                           const struct muster_allocator *allocator, struct kernel_image *out,
                           struct muster_error *err)
{
    int (*create)(program *, const char *, const char *, int, const char *const *,
                  const char *const *);
    int (*compile)(program, int, const char *const *);
    int (*bytes_of)(program, size_t *), (*copy)(program, char *), (*destroy)(program *);
    out->form = *form;
    if (form->kind != MUSTER_KERNEL_CUDA)
        return MUSTER_OK;
    *(void **)&create = symbol("nvrtcCreateProgram");
    *(void **)&compile = symbol("nvrtcCompileProgram");
    *(void **)&bytes_of = symbol("nvrtcGetCUBINSize");
    *(void **)&copy = symbol("nvrtcGetCUBIN");
    *(void **)&destroy = symbol("nvrtcDestroyProgram");
    char arch[40];
    snprintf(arch, sizeof arch, "--gpu-architecture=sm_%u%u", target->compute[0],
             target->compute[1]);
    const char *const options[] = { arch, "--fmad=false" };
    program made;
    if (create(&made, form->code, "kernel.cu", 0, NULL, NULL) != 0 ||
        compile(made, 2, options) != 0 || bytes_of(made, &out->bytes) != 0)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL, "NVRTC refuses it");
    out->memory = allocator->allocate(allocator->user, out->bytes, 1);
    copy(made, out->memory);
    destroy(&made);
    out->form.kind = MUSTER_KERNEL_CUBIN;
    out->form.code = out->memory;
    out->form.code_bytes = out->bytes;
    out->form.compute[0] = target->compute[0];
    out->form.compute[1] = target->compute[1];
    return MUSTER_OK;
}

void kernel_image_release(struct kernel_image *image, const struct muster_allocator *allocator)
{
    if (image->memory)
        allocator->release(allocator->user, image->memory, image->bytes);
}
