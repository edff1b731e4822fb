#include "kernel/check.h"

#include "kernel/signature.h"

#include <muster/backend.h>
#include <string.h>

static muster_status bad(const char *function, const char *what, struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL, "%s: %s", function, what);
}

muster_status kernel_form_check(const struct muster_kernel_form *form, const char *function,
                                struct muster_error *err)
{
    switch (form->kind) {
    case MUSTER_KERNEL_FUNCTION:
        return form->function ? MUSTER_OK : bad(function, "a form has no function", err);
    case MUSTER_KERNEL_PORTABLE:
    case MUSTER_KERNEL_SHARED_OBJECT:
    case MUSTER_KERNEL_OPENCL:
    case MUSTER_KERNEL_CUDA:
    case MUSTER_KERNEL_PTX:
    case MUSTER_KERNEL_CUBIN:
        break;
    default:
        return bad(function, "a form is of no known kind", err);
    }
    if (!form->code || form->code_bytes == 0)
        return bad(function, "a form has no code", err);
    if (!form->entry || !*form->entry ||
        strnlen(form->entry, KERNEL_NAME_BYTES) == KERNEL_NAME_BYTES)
        return bad(function, "a form's entry needs a name of 1 to 63 characters", err);
    return MUSTER_OK;
}
