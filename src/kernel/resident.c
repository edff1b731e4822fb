#include "kernel/resident.h"

#include "base/allocator.h"
#include "base/resident.h"
#include "kernel/translate.h"
#include "kernel/writer.h"

#include <muster/backend.h>
#include <stddef.h>
#include <string.h>

/* The text of resident_kernel.cu, terminated. */
extern const char resident_kernel_text[];

/* What is read of one kernel. Large: not for the stack. */
struct opcode {
    const struct muster_kernel_form *form;
    struct kernel_signature signature;
};

/* The numbers of base/resident.h under the names that resident_kernel.cu has for them. */
static void put_numbers(struct writer *writer, uint32_t threads)
{
    const struct {
        const char *name;
        unsigned long long value;
    } numbers[] = {
        { "THREADS", threads },
        { "ARGS", RESIDENT_ARGS_MAX },
        { "STEPS", RESIDENT_STEPS_MAX },
        { "VALUES", RESIDENT_VALUES_MAX },
        { "BODY_BYTES", RESIDENT_BODY_MAX },
        { "BODY_PIECES", RESIDENT_BODY_MAX / 16 },
        { "SMALL_PIECES", RESIDENT_SMALL_BODY / 16 },
        { "SIGN_BYTES", RESIDENT_SIGN_BYTES },
        { "HAS_BODY", RESIDENT_HAS_BODY },
        { "IS_SMALL", RESIDENT_IS_SMALL },
        { "IS_WIDE", RESIDENT_IS_WIDE },
        { "KIND_BLOCK", RESIDENT_BLOCK },
        { "NO_OPERAND", RESIDENT_NO_OPERAND },
        { "HEAD_BYTES", sizeof(struct resident_head) },
        { "HEAD_STEPS", offsetof(struct resident_head, step_count) },
        { "HEAD_OPERANDS", offsetof(struct resident_head, operand_count) },
        { "HEAD_BODY_BYTES", offsetof(struct resident_head, bytes) },
        { "HEAD_DATA_AT", offsetof(struct resident_head, data_at) },
        { "STEP_BYTES", sizeof(struct resident_step) },
        { "STEP_ARG_COUNT", offsetof(struct resident_step, arg_count) },
        { "STEP_ITEMS", offsetof(struct resident_step, items) },
        { "STEP_REPEAT", offsetof(struct resident_step, repeat) },
        { "STEP_UNTIL", offsetof(struct resident_step, until) },
        { "STEP_UNTIL_AT", offsetof(struct resident_step, until_at) },
        { "STEP_ARGS", offsetof(struct resident_step, args) },
        { "OPERAND_BYTES", sizeof(struct resident_operand) },
        { "OPERAND_KIND", offsetof(struct resident_operand, kind) },
        { "OPERAND_AT", offsetof(struct resident_operand, at) },
        { "OPERAND_ADDRESS", offsetof(struct resident_operand, address) },
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        writer_put(writer, "#define MUSTER_%s %llu\n", numbers[i].name, numbers[i].value);
    writer_put(writer, "#define MUSTER_CANCELLED (%d)\n", MUSTER_E_CANCELLED);
}
_Static_assert(offsetof(struct resident_step, opcode) == 0, "as resident_kernel.cu reads it");

/* A kernel over items [first, end), every `stride`th; `place` is where its arguments are. */
static void put_run(struct writer *writer, const struct kernel_entry *entry)
{
    writer_put(
        writer,
        "static __device__ __forceinline__ void muster_run(unsigned char *const *muster_place,\n"
        "uint64_t muster_first, uint64_t muster_end, uint64_t muster_stride)\n{\n");
    writer_put(writer, "(void)muster_place;\n");
    for (size_t i = 0; i < entry->parameter_count; i++) {
        const struct kernel_parameter *parameter = &entry->parameters[i];
        if (parameter->is_block)
            writer_put(writer, "%s muster_%zu = (%s)muster_place[%zu];\n", parameter->type, i,
                       parameter->type, i);
        else
            writer_put(writer, "%s muster_%zu = *(%s *)muster_place[%zu];\n", parameter->type, i,
                       parameter->type, i);
    }
    writer_put(writer,
               "for (uint64_t muster_i = muster_first; muster_i < muster_end; "
               "muster_i += muster_stride)\nmuster_item_%s(muster_i",
               entry->name);
    for (size_t i = 0; i < entry->parameter_count; i++)
        writer_put(writer, ", muster_%zu", i);
    writer_put(writer, ");\n}\n");
}

static void put_opcode(struct writer *writer, const struct opcode *opcode, size_t index)
{
    const struct kernel_signature *signature = &opcode->signature;
    const struct muster_kernel_form *form = opcode->form;
    writer_put(writer, "namespace muster_opcode_%zu {\n", index);
    for (size_t i = 0; i < signature->count; i++)
        writer_put(writer, "#define %s muster_item_%s\n", signature->entries[i].name,
                   signature->entries[i].name);
    translate_put_source(writer, signature, form->code, form->code_bytes,
                         form->file ? form->file : form->entry, KERNEL_CUDA_CPP);
    for (size_t i = 0; i < signature->count; i++)
        writer_put(writer, "#undef %s\n", signature->entries[i].name);
    writer_put(writer, "#line 1 \"wrapper\"\n");
    put_run(writer, kernel_signature_find(signature, form->entry));
    writer_put(writer, "}\n");
}

static void put_dispatch(struct writer *writer, size_t count)
{
    writer_put(writer,
               "static __device__ void muster_dispatch(uint32_t muster_opcode,\n"
               "unsigned char *const *muster_place, uint64_t muster_first, uint64_t muster_end,\n"
               "uint64_t muster_stride)\n{\nswitch (muster_opcode) {\n");
    for (size_t i = 0; i < count; i++)
        writer_put(writer,
                   "case %zu: muster_opcode_%zu::muster_run(muster_place, muster_first, "
                   "muster_end, muster_stride); break;\n",
                   i, i);
    writer_put(writer, "}\n}\n");
}

static void put_all(struct writer *writer, const struct opcode *opcodes, size_t count,
                    const struct mathematics *mathematics, uint32_t threads)
{
    /* None of the kernels looks at neighbours; others of the same source may. */
    bool checks_near = false;
    for (size_t i = 0; i < count; i++)
        checks_near |= kernel_signature_checks_near(&opcodes[i].signature);
    translate_put_prelude(writer, checks_near, mathematics, KERNEL_CUDA_CPP);
    for (size_t i = 0; i < count; i++)
        put_opcode(writer, &opcodes[i], i);
    writer_put(writer, "#line 1 \"opcodes\"\n");
    put_numbers(writer, threads);
    put_dispatch(writer, count);
    writer_put(writer, "#line 1 \"resident_kernel.cu\"\n");
    writer_put_bytes(writer, resident_kernel_text, strlen(resident_kernel_text));
}

static muster_status read_opcodes(struct opcode *opcodes, size_t count,
                                  const struct muster_kernel_form *const *forms,
                                  struct mathematics *all, struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    bool has_own = false, has_exact = false;
    *all = (struct mathematics){ .is_named = false };
    for (size_t i = 0; i < count && status == MUSTER_OK; i++) {
        const struct muster_kernel_form *form = forms[i];
        const struct mathematics found = mathematics_read(form->code, form->code_bytes);
        opcodes[i].form = form;
        has_own |= found.is_named && found.is_own;
        has_exact |= found.is_named && !found.is_own;
        all->is_named |= found.is_named;
        all->needs_double |= found.needs_double;
        all->is_own |= found.is_own && found.is_named;
        all->tables |= found.tables;
        status = kernel_signature_read(&opcodes[i].signature, form->code, form->code_bytes,
                                       form->file ? form->file : form->entry, err);
        if (status == MUSTER_OK && !kernel_signature_find(&opcodes[i].signature, form->entry))
            status = muster_error_fill(err, MUSTER_E_NOT_FOUND, 0, NULL, "there is no kernel %s",
                                       form->entry);
    }
    if (status == MUSTER_OK && has_own && has_exact)
        status =
            muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                              "give all of them MUSTER_FAST_MATH, or none, or make two lanes",
                              "some kernels of a resident lane take MUSTER_FAST_MATH, others not");
    return status;
}

muster_status kernel_resident_source(const struct muster_kernel_form *const *forms, size_t count,
                                     uint32_t threads, const struct muster_allocator *allocator,
                                     char **out, size_t *bytes, struct muster_error *err)
{
    struct writer writer = { NULL, 0 };
    struct mathematics mathematics;
    struct opcode *opcodes = allocator_take(allocator, count, sizeof *opcodes);
    char *text = NULL;
    if (!opcodes)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a resident lane");
    muster_status status = read_opcodes(opcodes, count, forms, &mathematics, err);
    if (status != MUSTER_OK)
        goto done;
    put_all(&writer, opcodes, count, &mathematics, threads);
    *bytes = writer.used;
    text = allocator_take(allocator, *bytes + 1, 1);
    if (!text) {
        status =
            muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a resident lane");
        goto done;
    }
    writer = (struct writer){ text, 0 };
    put_all(&writer, opcodes, count, &mathematics, threads);
    text[*bytes] = '\0';
    *out = text;
done:
    allocator_give(allocator, opcodes, count, sizeof *opcodes);
    return status;
}

muster_status kernel_resident_build(const struct muster_kernel_form *const *forms, size_t count,
                                    uint32_t threads, const struct kernel_target *target,
                                    const struct muster_allocator *allocator,
                                    const struct kernel_log *log, struct kernel_image *out,
                                    struct muster_error *err)
{
    char *text;
    size_t bytes;
    struct kernel_blob blob;
    struct kernel_image image = { .memory = NULL };
    bool is_ptx = !nvrtc_can_build(target->compute, false);
    muster_status status =
        kernel_resident_source(forms, count, threads, allocator, &text, &bytes, err);
    if (status != MUSTER_OK)
        return status;
    status = nvrtc_build(text, "resident lane", target->compute, is_ptx, true, allocator, log,
                         &blob, image.form.compute, err);
    allocator_give(allocator, text, bytes + 1, 1);
    if (status != MUSTER_OK)
        return status;
    image.form.size = sizeof image.form;
    image.form.kind = is_ptx ? MUSTER_KERNEL_PTX : MUSTER_KERNEL_CUBIN;
    image.form.code = blob.data;
    image.form.code_bytes = blob.size;
    image.form.entry = KERNEL_RESIDENT_ENTRY;
    image.form.threads = threads;
    image.memory = blob.memory;
    image.bytes = blob.memory_bytes;
    *out = image;
    return MUSTER_OK;
}
