#include "run/memory/partial.h"

#include "base/layout.h"
#include "kernel/build.h"
#include "kernel/signature.h"
#include "run/memory/memory.h"

#include <muster/reduce.h>
#include <stdio.h>

const struct kernel_partial *kernel_partial_of(const struct muster_kernel *kernel)
{
    const struct kernel_entry *entry = kernel_entry(kernel);
    return entry && kernel_entry_reduces(entry) ? &entry->partial : NULL;
}

#define HOW_TO_REDUCE "make MUSTER_PARTIAL T *p its last parameter, and write NAME_combine"

/* Why a kernel cannot be reduced with. */
static muster_status say_no_partial(const struct muster_kernel *kernel, muster_status status,
                                    struct muster_error *err)
{
    if (!kernel_entry(kernel))
        return muster_error_fill(err, status, 0, "give portable source too",
                                 "no form of kernel %s is portable source, which a reduction needs",
                                 kernel_name(kernel));
    return muster_error_fill(err, status, 0, HOW_TO_REDUCE,
                             "kernel %s is no reduction: it has no partial", kernel_name(kernel));
}

muster_status kernel_get_fold(struct muster_kernel *kernel, struct kernel_fold *out,
                              struct muster_error *err)
{
    const struct kernel_image *image;
    out->partial = kernel_partial_of(kernel);
    if (!out->partial)
        return say_no_partial(kernel, MUSTER_E_INVALID, err);
    muster_status status = kernel_get_host_image(kernel, &image, err);
    if (status != MUSTER_OK)
        return status;
    if (!kernel_image_fold(image, &out->fold, &out->folded))
        return muster_error_fill(err, MUSTER_E_INVALID, 0,
                                 "make it with muster kernel build, or give the source first",
                                 "the shared object of kernel %s was not made by this version of "
                                 "Muster, and cannot join partials",
                                 kernel_name(kernel));
    return MUSTER_OK;
}

muster_status muster_kernel_partial(const struct muster_kernel *kernel, struct muster_partial *out,
                                    struct muster_error *err)
{
    if (!kernel || !out)
        return run_bad_argument(err, "muster_kernel_partial", "an argument is NULL");
    muster_status status = layout_check_room(LAYOUT(muster_partial), out, err);
    if (status != MUSTER_OK)
        return status;
    const struct kernel_partial *partial = kernel_partial_of(kernel);
    if (!partial)
        return say_no_partial(kernel, MUSTER_E_NOT_SUPPORTED, err);
    struct muster_partial found = { .bytes = partial->bytes,
                                    .block_items = partial->block_items,
                                    .lanes = partial->lanes,
                                    .field_count = (uint32_t)partial->field_count };
    memcpy(found.type, partial->type, sizeof found.type);
    layout_write(LAYOUT(muster_partial), out, &found);
    return MUSTER_OK;
}
_Static_assert(sizeof((struct muster_partial *)0)->type == sizeof((struct kernel_partial *)0)->type,
               "what is known of a partial fits");

muster_status muster_kernel_partial_field(const struct muster_kernel *kernel, size_t index,
                                          struct muster_partial_field *out,
                                          struct muster_error *err)
{
    if (!kernel || !out)
        return run_bad_argument(err, "muster_kernel_partial_field", "an argument is NULL");
    muster_status status = layout_check_room(LAYOUT(muster_partial_field), out, err);
    if (status != MUSTER_OK)
        return status;
    const struct kernel_partial *partial = kernel_partial_of(kernel);
    if (!partial)
        return say_no_partial(kernel, MUSTER_E_NOT_SUPPORTED, err);
    if (index >= partial->field_count)
        return muster_error_fill(err, MUSTER_E_NOT_FOUND, 0, NULL,
                                 "the partial of kernel %s has %zu fields", kernel_name(kernel),
                                 partial->field_count);
    const struct partial_field *field = &partial->fields[index];
    struct muster_partial_field found = { .offset = field->offset,
                                          .bytes = field->bytes,
                                          .count = field->count,
                                          .is_array = field->is_array };
    memcpy(found.name, field->name, sizeof found.name);
    memcpy(found.type, field->type, sizeof found.type);
    layout_write(LAYOUT(muster_partial_field), out, &found);
    return MUSTER_OK;
}
_Static_assert(sizeof((struct muster_partial_field *)0)->name ==
                       sizeof((struct partial_field *)0)->name &&
                   sizeof((struct muster_partial_field *)0)->type ==
                       sizeof((struct partial_field *)0)->type,
               "what is known of a field fits");
