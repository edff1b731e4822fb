#include "kernel/translate.h"

#include "base/allocator.h"
#include "base/apart.h"
#include "base/batch.h"
#include "kernel/mathematics.h"
#include "kernel/reduction.h"
#include "kernel/writer.h"

#include <muster/backend.h>
#include <string.h>

_Static_assert(2 * KERNEL_TYPE_BYTES + 3 * KERNEL_NAME_BYTES + 96 <= WRITER_LINE_BYTES,
               "every line fits");

/*
 * From here on compilers count lines so. What could end the name or the line is left out of it: also
 * question marks, since two of them and a slash are a backslash to some. `is_ours`: to a C compiler
 * it is a header of the system's, of which it tells no warnings.
 */
static void put_line(struct writer *writer, size_t line, const char *file, bool is_ours,
                     enum kernel_language language)
{
    bool is_marked = language == KERNEL_C;
    writer_put(writer, "%s %zu \"", is_marked ? "#" : "#line", line);
    for (const char *at = file; *at; at++)
        if (*at != '"' && *at != '\\' && *at != '?' && (unsigned char)*at >= ' ')
            writer_put_bytes(writer, at, 1);
    writer_put(writer, "\"%s\n", is_marked && is_ours ? " 3" : "");
}

void translate_put_source(struct writer *writer, const struct kernel_signature *signature,
                          const char *code, size_t bytes, const char *file,
                          enum kernel_language language)
{
    size_t at = 0;
    put_line(writer, 1, file, false, language);
    for (size_t i = 0; i < signature->include_count; i++) {
        const struct kernel_span *span = &signature->includes[i];
        writer_put_bytes(writer, code + at, span->begin - at);
        for (at = span->begin; at < span->end; at++)
            if (code[at] == '\n')
                writer_put_bytes(writer, "\n", 1);
    }
    writer_put_bytes(writer, code + at, bytes - at);
    writer_put(writer, "\n");
}

/* The call of the body for item `item`, with its arguments by number; its cell is `muster_cell`. */
static void put_call(struct writer *writer, const struct kernel_entry *entry, const char *item)
{
    writer_put(writer, "muster_item_%s(%s", entry->name, item);
    for (size_t i = 0; i < entry->parameter_count; i++) {
        if (i == entry->cell)
            writer_put(writer, ", muster_cell");
        else
            writer_put(writer, ", muster_%zu", i);
    }
    writer_put(writer, ");\n");
}

/* In a loop over items of any order: finds the cell first, if there is one. */
static void put_found_call(struct writer *writer, const struct kernel_entry *entry,
                           const char *item)
{
    writer_put(writer, "{\n");
    if (entry->cell != KERNEL_NO_CELL)
        writer_put(writer,
                   "const struct muster_cell muster_cell = muster_cell_at(muster_%zu, %s);\n",
                   entry->cell, item);
    put_call(writer, entry, item);
    writer_put(writer, "}\n");
}

/* The head of an exported function: its arguments get names by number. */
static void put_c_head(struct writer *writer, const struct kernel_entry *entry, const char *prefix)
{
    writer_put(writer,
               "__attribute__((visibility(\"default\")))\n"
               "int %s%s(uint64_t muster_begin, uint64_t muster_end, void *const *muster_args);\n",
               prefix, entry->name);
    writer_put(
        writer,
        "int %s%s(uint64_t muster_begin, uint64_t muster_end, void *const *muster_args)\n{\n",
        prefix, entry->name);
    writer_put(writer, "(void)muster_args;\n");
    for (size_t i = 0; i < entry->parameter_count; i++)
        writer_put(writer, "%s muster_%zu = *(%s *)muster_args[%zu];\n", entry->parameters[i].type,
                   i, entry->parameters[i].type, i);
}

/* Parameters by number, after those of a function of the wrapper's own. */
static void put_c_parameters(struct writer *writer, const struct kernel_entry *entry,
                             const char *qualifier)
{
    for (size_t i = 0; i < entry->parameter_count; i++)
        writer_put(writer, ",\n%s%s muster_%zu", entry->parameters[i].type,
                   entry->parameters[i].is_block ? qualifier : "", i);
}

static void put_c_arguments(struct writer *writer, const struct kernel_entry *entry)
{
    for (size_t i = 0; i < entry->parameter_count; i++)
        writer_put(writer, ", muster_%zu", i);
}

/* The cells at the ends of rows, whose neighbours have to be looked for. */
static void put_c_edge(struct writer *writer, const struct kernel_entry *entry)
{
    writer_put(writer,
               "static __attribute__((noinline)) void muster_edge_%s(uint64_t muster_begin, "
               "uint64_t muster_end",
               entry->name);
    put_c_parameters(writer, entry, "");
    writer_put(writer,
               ")\n{\n"
               "for (uint64_t muster_i = muster_begin; muster_i < muster_end; muster_i++)\n");
    put_found_call(writer, entry, "muster_i");
    writer_put(writer, "}\n");
}

/*
 * The items row by row. Between the ends of a row the compiler knows that neighbours are where they
 * seem to be, so the loop over x can be vectorised.
 */
static void put_c_rows(struct writer *writer, const struct kernel_entry *entry)
{
    writer_put(writer,
               "for (uint64_t muster_row = muster_begin; muster_row < muster_end;) {\n"
               "struct muster_cell muster_cell = muster_cell_at(muster_%zu, muster_row);\n",
               entry->cell);
    writer_put(writer,
               "const uint32_t muster_x = muster_cell.x;\n"
               "const uint64_t muster_stop = muster_row_end(muster_cell, muster_row, muster_end);\n"
               "const uint64_t muster_from = "
               "muster_inner_begin(muster_cell, muster_row, muster_stop);\n"
               "const uint64_t muster_to = "
               "muster_inner_end(muster_cell, muster_row, muster_from, muster_stop);\n");
    writer_put(writer, "muster_edge_%s(muster_row, muster_from", entry->name);
    put_c_arguments(writer, entry);
    writer_put(writer, ");\nmuster_cell.is_inner = 1;\n"
                       "for (uint64_t muster_i = muster_from; muster_i < muster_to; muster_i++) {\n"
                       "muster_cell.x = muster_x + (uint32_t)(muster_i - muster_row);\n");
    put_call(writer, entry, "muster_i");
    writer_put(writer, "}\nmuster_edge_%s(muster_to, muster_stop", entry->name);
    put_c_arguments(writer, entry);
    writer_put(writer, ");\nmuster_row = muster_stop;\n}\n");
}

static void put_c_loop(struct writer *writer, const struct kernel_entry *entry)
{
    if (entry->cell != KERNEL_NO_CELL) {
        put_c_rows(writer, entry);
        return;
    }
    writer_put(writer,
               "for (uint64_t muster_i = muster_begin; muster_i < muster_end; muster_i++)\n");
    put_call(writer, entry, "muster_i");
}

static void put_span(struct writer *writer, const char *code, struct kernel_span span)
{
    writer_put_bytes(writer, code + span.begin, span.end - span.begin);
}

/*
 * Whether all loops of the body are entered, whatever the item. Where a compiler knows that, there
 * is no branch around the inner loop, and it can compute many items at once: gcc does.
 */
static void put_c_entered(struct writer *writer, const struct kernel_entry *entry, const char *code)
{
    const char *before = "";
    writer_put(writer, "static inline __attribute__((always_inline)) int muster_entered_%s(",
               entry->name);
    for (size_t i = 0; i < entry->parameter_count; i++)
        if (!entry->parameters[i].is_block) {
            writer_put(writer, "%s%s %s", before, entry->parameters[i].type,
                       entry->parameters[i].name);
            before = ",\n";
        }
    writer_put(writer, "%s)\n{\n", *before ? "" : "void");
    for (size_t i = 0; i < entry->loop_count; i++) {
        const struct kernel_loop *loop = &entry->loops[i];
        writer_put(writer, "{\n");
        if (loop->type.end > 0)
            put_span(writer, code, loop->type);
        else
            writer_put(writer, "__auto_type");
        writer_put(writer, " ");
        put_span(writer, code, loop->variable);
        writer_put(writer, " = ");
        put_span(writer, code, loop->first);
        writer_put(writer, ";\nif (!(");
        put_span(writer, code, loop->test);
        writer_put(writer, "))\nreturn 0;\n}\n");
    }
    writer_put(writer, "return 1;\n}\n");
}

/*
 * The loop over the items, with pointers that are restrict. That is all the compiler is told: with
 * it gcc vectorises all that it does with "omp simd", and remains right. Told that the iterations
 * are independent, gcc 12 gives the items that it computes at once one copy of an array that the
 * body declares, as unit_kernel_vectors shows.
 */
static void put_c_items(struct writer *writer, const struct kernel_entry *entry, const char *code)
{
    bool is_entered = entry->loop_count > 0 && entry->cell == KERNEL_NO_CELL;
    if (is_entered)
        put_c_entered(writer, entry, code);
    writer_put(writer,
               "static __attribute__((noinline)) void muster_items_%s(uint64_t muster_begin, "
               "uint64_t muster_end",
               entry->name);
    put_c_parameters(writer, entry, " restrict");
    writer_put(writer, ")\n{\n");
    if (is_entered) {
        const char *before = "";
        writer_put(writer, "if (muster_entered_%s(", entry->name);
        for (size_t i = 0; i < entry->parameter_count; i++)
            if (!entry->parameters[i].is_block) {
                writer_put(writer, "%smuster_%zu", before, i);
                before = ", ";
            }
        writer_put(writer, "))\n");
        put_c_loop(writer, entry);
        writer_put(writer, "else\n");
    }
    put_c_loop(writer, entry);
    writer_put(writer, "}\n");
}

/* Muster's own reading of types against the compiler's. */
static void put_c_sizes(struct writer *writer, const struct kernel_entry *entry)
{
    for (size_t i = 0; i < entry->parameter_count; i++) {
        const struct kernel_parameter *parameter = &entry->parameters[i];
        if (parameter->is_measured && parameter->is_block)
            writer_put(writer, "_Static_assert(sizeof(*(%s)0) == %zu, \"as it was read\");\n",
                       parameter->type, parameter->element_bytes);
        else if (parameter->is_measured)
            writer_put(writer, "_Static_assert(sizeof(%s) == %zu, \"as it was read\");\n",
                       parameter->type, parameter->bytes);
    }
}

static void put_c(struct writer *writer, const struct kernel_entry *entry, const char *code)
{
    uint32_t written = 0;
    if (entry->cell != KERNEL_NO_CELL)
        put_c_edge(writer, entry);
    put_c_head(writer, entry, "");
    put_c_loop(writer, entry);
    writer_put(writer, "return 0;\n}\n");
    put_c_items(writer, entry, code);
    put_c_head(writer, entry, APART_PREFIX);
    writer_put(writer, "muster_items_%s(muster_begin, muster_end", entry->name);
    put_c_arguments(writer, entry);
    for (size_t i = 0; i < entry->parameter_count; i++) {
        written |= (uint32_t)(entry->parameters[i].is_block && !entry->parameters[i].is_const) << i;
    }
    writer_put(writer, ");\nreturn 0;\n}\n");
    writer_put(
        writer,
        "__attribute__((visibility(\"default\"))) extern const uint32_t " APART_WRITTEN_PREFIX
        "%s;\nconst uint32_t " APART_WRITTEN_PREFIX "%s = %uu;\n",
        entry->name, entry->name, written);
    writer_put(writer,
               "__attribute__((visibility(\"default\"))) extern const uint32_t " APART_BYTES_PREFIX
               "%s[];\nconst uint32_t " APART_BYTES_PREFIX "%s[] = {\n",
               entry->name, entry->name);
    for (size_t i = 0; i < entry->parameter_count; i++)
        writer_put(writer, entry->parameters[i].is_block ? "sizeof(*(%s)0),\n" : "sizeof(%s),\n",
                   entry->parameters[i].type);
    writer_put(writer, "0 };\n");
    put_c_sizes(writer, entry);
}
_Static_assert(MUSTER_ARGS_MAX <= 32, "a bit for each argument");

static void put_cuda_loop(struct writer *writer, const struct kernel_entry *entry)
{
    writer_put(writer, "for (uint64_t muster_i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; "
                       "muster_i < muster_items;\n"
                       "muster_i += (uint64_t)gridDim.x * blockDim.x)\n");
    put_found_call(writer, entry, "muster_begin + muster_i");
}

/* Many launches as one; the layout is base/batch.h's. */
static void put_cuda_batch(struct writer *writer, const struct kernel_entry *entry)
{
    writer_put(writer,
               "extern \"C\" __global__ void " BATCH_PREFIX
               "%s(const unsigned char *muster_records, uint32_t muster_count)\n{\n",
               entry->name);
    writer_put(writer, "const uint64_t muster_stride = %d", BATCH_ARGS);
    for (size_t i = 0; i < entry->parameter_count; i++)
        writer_put(writer, "\n+ ((sizeof(%s) + %d) & ~(uint64_t)%d)", entry->parameters[i].type,
                   BATCH_ALIGNMENT - 1, BATCH_ALIGNMENT - 1);
    writer_put(writer,
               ";\n"
               "for (uint32_t muster_task = blockIdx.y; muster_task < muster_count; "
               "muster_task += gridDim.y) {\n"
               "const unsigned char *muster_at = muster_records + muster_task * muster_stride;\n");
    writer_put(writer,
               "const uint64_t muster_begin = *(const uint64_t *)(muster_at + %d);\n"
               "const uint64_t muster_items = *(const uint64_t *)(muster_at + %d);\n"
               "muster_at += %d;\n",
               BATCH_BEGIN, BATCH_ITEMS, BATCH_ARGS);
    for (size_t i = 0; i < entry->parameter_count; i++) {
        const char *type = entry->parameters[i].type;
        writer_put(writer, "%s muster_%zu = *(%s *)muster_at;\n", type, i, type);
        writer_put(writer, "muster_at += (sizeof(%s) + %d) & ~(uint64_t)%d;\n", type,
                   BATCH_ALIGNMENT - 1, BATCH_ALIGNMENT - 1);
    }
    put_cuda_loop(writer, entry);
    writer_put(writer, "}\n}\n");
}

/* A thread for each item, and no loop over items: its variables would take registers, and so threads. */
static void put_cuda(struct writer *writer, const struct kernel_entry *entry)
{
    writer_put(writer,
               "extern \"C\" __global__ void %s(uint64_t muster_begin, uint64_t muster_items",
               entry->name);
    for (size_t i = 0; i < entry->parameter_count; i++)
        writer_put(writer, ",\n%s muster_%zu", entry->parameters[i].type, i);
    writer_put(writer, ")\n{\n");
    writer_put(writer,
               "const uint64_t muster_i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;\n"
               "if (muster_i < muster_items)\n");
    put_found_call(writer, entry, "muster_begin + muster_i");
    writer_put(writer, "}\n");
    put_cuda_batch(writer, entry);
}

static void put_opencl(struct writer *writer, const struct kernel_entry *entry)
{
    writer_put(writer, "kernel void %s(ulong muster_begin, ulong muster_items", entry->name);
    for (size_t i = 0; i < entry->parameter_count; i++) {
        if (entry->parameters[i].is_block)
            writer_put(writer, ",\nglobal uchar *muster_block_%zu, ulong muster_offset_%zu", i, i);
        else
            writer_put(writer, ",\n%s muster_%zu", entry->parameters[i].type, i);
    }
    writer_put(writer, ")\n{\n");
    for (size_t i = 0; i < entry->parameter_count; i++)
        if (entry->parameters[i].is_block)
            writer_put(writer, "%s muster_%zu = (%s)(muster_block_%zu + muster_offset_%zu);\n",
                       entry->parameters[i].type, i, entry->parameters[i].type, i, i);
    writer_put(writer, "for (ulong muster_i = get_global_id(0); muster_i < muster_items; "
                       "muster_i += get_global_size(0))\n");
    put_found_call(writer, entry, "muster_begin + muster_i");
    writer_put(writer, "}\n");
}

void translate_put_prelude(struct writer *writer, bool checks_near,
                           const struct mathematics *mathematics, enum kernel_language language)
{
    static const char *const tables[] = { "QUADRANT", "ERF", "POW", "ATAN2", "TURNS" };
    writer_put(writer, "#define MUSTER_KERNEL_BUILD\n");
    if (checks_near)
        writer_put(writer, "#define MUSTER_CHECKS_NEAR\n");
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (mathematics->tables >> i & 1)
            writer_put(writer, "#define MUSTER_NEEDS_%s\n", tables[i]);
    if (mathematics->needs_double && !mathematics->is_own)
        writer_put(writer, KERNEL_NEEDS_DOUBLE "\n");
    put_line(writer, 1, KERNEL_PRELUDE_NAME, true, language);
    writer_put_bytes(writer, kernel_prelude, strlen(kernel_prelude));
    if (!mathematics->is_named)
        return;
    const char *text = mathematics->is_own ? mathematics_fast_text : mathematics_text;
    put_line(writer, 1, "mathematics", true, language);
    writer_put_bytes(writer, text, strlen(text));
}

static void put_all(struct writer *writer, const struct kernel_signature *signature,
                    const char *code, size_t code_bytes, const char *file,
                    enum kernel_language language)
{
    const struct mathematics mathematics = mathematics_read(code, code_bytes);
    translate_put_prelude(writer, kernel_signature_checks_near(signature), &mathematics, language);
    /* The body gets another name, so that the wrapper can have the one that callers know. */
    for (size_t i = 0; i < signature->count; i++)
        writer_put(writer, "#define %s muster_item_%s\n", signature->entries[i].name,
                   signature->entries[i].name);
    translate_put_source(writer, signature, code, code_bytes, file, language);
    /* While its names are as in the source: a kernel's partial may be called as the kernel is. */
    for (size_t i = 0; i < signature->count; i++)
        if (kernel_entry_reduces(&signature->entries[i]))
            reduction_put_type(writer, &signature->entries[i]);
    for (size_t i = 0; i < signature->count; i++) {
        const struct kernel_entry *entry = &signature->entries[i];
        writer_put(writer, "#undef %s\n", entry->name);
        put_line(writer, 1, "wrapper", true, language);
        if (kernel_entry_reduces(entry))
            reduction_put(writer, entry, language);
        else if (language == KERNEL_C)
            put_c(writer, entry, code);
        else if (language == KERNEL_CUDA_CPP)
            put_cuda(writer, entry);
        else
            put_opencl(writer, entry);
    }
}

muster_status kernel_translate(const struct kernel_signature *signature, const char *code,
                               size_t code_bytes, const char *file, enum kernel_language language,
                               const struct muster_allocator *allocator, char **out, size_t *bytes,
                               struct muster_error *err)
{
    struct writer writer = { NULL, 0 };
    put_all(&writer, signature, code, code_bytes, file, language);
    size_t total = writer.used;
    char *text = allocator_take(allocator, total + 1, 1);
    if (!text)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, "free memory of the process",
                                 "no host memory for the %zu bytes of a kernel's source", total);
    writer = (struct writer){ text, 0 };
    put_all(&writer, signature, code, code_bytes, file, language);
    text[total] = '\0';
    *out = text;
    *bytes = total;
    return MUSTER_OK;
}
