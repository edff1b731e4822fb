#include "kernel/reduction.h"

#include "base/fold.h"

#include <stdio.h>

/* Partials that a GPU's thread has in registers; larger ones are in shared memory from the start. */
#define REGISTER_BYTES 128u
/* Loads of a GPU's thread that are under way at a time; more where there are few threads. */
#define UNROLL 8
#define UNROLL_LARGE 32

/* What the wrapper calls the partial's type. */
struct type_name {
    char text[KERNEL_NAME_BYTES + 16];
};

static struct type_name type_of(const struct kernel_entry *entry)
{
    struct type_name name;
    snprintf(name.text, sizeof name.text, "muster_partial_%s", entry->name);
    return name;
}

void reduction_put_type(struct writer *writer, const struct kernel_entry *entry)
{
    writer_put(writer, "typedef %s %s;\n", entry->partial.type, type_of(entry).text);
}

/* The body for one item, with the partial it is added to. */
static void put_item(struct writer *writer, const struct kernel_entry *entry, const char *item,
                     const char *partial)
{
    writer_put(writer, "muster_item_%s(%s", entry->name, item);
    for (size_t i = 0; i < entry->parameter_count; i++)
        writer_put(writer, ", muster_%zu", i);
    writer_put(writer, ", %s);\n", partial);
}

/* A statement that makes a partial of no items. */
static void put_identity(struct writer *writer, const struct kernel_entry *entry,
                         const char *partial)
{
    if (entry->partial.has_identity)
        writer_put(writer, "%s_identity(%s);\n", entry->name, partial);
    else
        writer_put(writer, "*(%s) = muster_none_%s;\n", partial, entry->name);
}

/* The partial of no items where the source does not say it. */
static void put_none(struct writer *writer, const struct kernel_entry *entry, const char *before)
{
    if (!entry->partial.has_identity)
        writer_put(writer, "%s%s muster_none_%s = { 0 };\n", before, type_of(entry).text,
                   entry->name);
}

/* From the number of a block: its first item, and how many it has. */
static void put_extent(struct writer *writer, const struct kernel_entry *entry, const char *block)
{
    unsigned long long items = (unsigned long long)entry->partial.block_items;
    writer_put(writer,
               "const uint64_t muster_first = %s * %lluu;\n"
               "const uint64_t muster_items_here = muster_count - muster_first < %lluu\n"
               "? muster_count - muster_first : %lluu;\n",
               block, items, items, items);
}

/*
 * All lanes of a block by one thread, one array element each: a compiler keeps those of numbers in vector
 * registers. Ends with the partial of the block in muster_lanes[0].
 */
static void put_lanes(struct writer *writer, const struct kernel_entry *entry)
{
    unsigned lanes = entry->partial.lanes;
    writer_put(writer, "%s muster_lanes[%u];\n", type_of(entry).text, lanes);
    writer_put(writer, "for (uint32_t muster_l = 0; muster_l < %u; muster_l++)\n", lanes);
    put_identity(writer, entry, "&muster_lanes[muster_l]");
    writer_put(writer, "const uint64_t muster_rounds = muster_items_here / %u;\n", lanes);
    writer_put(writer,
               "for (uint64_t muster_k = 0; muster_k < muster_rounds; muster_k++)\n"
               "for (uint32_t muster_l = 0; muster_l < %u; muster_l++)\n",
               lanes);
    char item[64];
    snprintf(item, sizeof item, "muster_first + muster_k * %u + muster_l", lanes);
    put_item(writer, entry, item, "&muster_lanes[muster_l]");
    writer_put(writer,
               "for (uint32_t muster_l = 0; muster_l < (uint32_t)(muster_items_here %% %u); "
               "muster_l++)\n",
               lanes);
    snprintf(item, sizeof item, "muster_first + muster_rounds * %u + muster_l", lanes);
    put_item(writer, entry, item, "&muster_lanes[muster_l]");
    writer_put(writer,
               "for (uint32_t muster_w = %u; muster_w > 0; muster_w /= 2)\n"
               "for (uint32_t muster_l = 0; muster_l < muster_w; muster_l++)\n"
               "%s_combine(&muster_lanes[muster_l], &muster_lanes[muster_l + muster_w]);\n",
               lanes / 2, entry->name);
}

static void put_c_block(struct writer *writer, const struct kernel_entry *entry)
{
    writer_put(writer,
               "static __attribute__((noinline)) void muster_block_%s(uint64_t muster_block, "
               "uint64_t muster_count, %s *muster_out",
               entry->name, type_of(entry).text);
    for (size_t i = 0; i < entry->parameter_count; i++)
        writer_put(writer, ",\n%s%s muster_%zu", entry->parameters[i].type,
                   entry->parameters[i].is_block ? " restrict" : "", i);
    writer_put(writer, ")\n{\n");
    put_extent(writer, entry, "muster_block");
    put_lanes(writer, entry);
    writer_put(writer, "*muster_out = muster_lanes[0];\n}\n");
}

/* How the host joins the partials of blocks: base/fold.h. */
static void put_c_fold(struct writer *writer, const struct kernel_entry *entry)
{
    const struct type_name named = type_of(entry);
    const char *name = entry->name, *type = named.text;
    writer_put(writer,
               "__attribute__((visibility(\"default\"))) int " FOLD_PREFIX
               "%s(uint64_t muster_blocks, void *muster_levels, const void *muster_partials, "
               "uint64_t muster_count)\n{\n",
               name);
    writer_put(writer,
               "%s *muster_level = (%s *)muster_levels;\n"
               "const %s *muster_at = (const %s *)muster_partials;\n",
               type, type, type, type);
    writer_put(writer,
               "for (uint64_t muster_i = 0; muster_i < muster_count; muster_i++, "
               "muster_blocks++) {\n"
               "uint32_t muster_k = 0;\n"
               "const %s *muster_sum = &muster_at[muster_i];\n"
               "for (; muster_blocks >> muster_k & 1; muster_k++) {\n"
               "%s_combine(&muster_level[muster_k], muster_sum);\n"
               "muster_sum = &muster_level[muster_k];\n}\n"
               "muster_level[muster_k] = *muster_sum;\n}\nreturn 0;\n}\n",
               type, name);
    writer_put(writer,
               "__attribute__((visibility(\"default\"))) int " FOLDED_PREFIX
               "%s(uint64_t muster_blocks, const void *muster_levels, void *muster_result)\n{\n",
               name);
    writer_put(writer,
               "const %s *muster_level = (const %s *)muster_levels;\n%s muster_sum;\n"
               "uint32_t muster_k = 0;\n",
               type, type, type);
    put_identity(writer, entry, "&muster_sum");
    writer_put(writer,
               "while (muster_blocks > 0 && !(muster_blocks >> muster_k & 1))\nmuster_k++;\n"
               "if (muster_blocks > 0)\nmuster_sum = muster_level[muster_k++];\n"
               "for (; muster_k < %d && muster_blocks >> muster_k; muster_k++)\n"
               "if (muster_blocks >> muster_k & 1) {\n"
               "%s muster_left = muster_level[muster_k];\n"
               "%s_combine(&muster_left, &muster_sum);\nmuster_sum = muster_left;\n}\n",
               FOLD_LEVELS, type, name);
    writer_put(writer, "*(%s *)muster_result = muster_sum;\nreturn 0;\n}\n", type);
}

static void put_c(struct writer *writer, const struct kernel_entry *entry)
{
    const char *name = entry->name;
    size_t count = entry->parameter_count;
    writer_put(writer, "_Static_assert(sizeof(%s) == %zu, \"the partial is laid out as read\");\n",
               type_of(entry).text, entry->partial.bytes);
    put_none(writer, entry, "static const ");
    put_c_block(writer, entry);
    writer_put(writer,
               "__attribute__((visibility(\"default\"))) int %s(uint64_t muster_begin, "
               "uint64_t muster_end, void *const *muster_args)\n{\n",
               name);
    for (size_t i = 0; i < count; i++)
        writer_put(writer, "%s muster_%zu = *(%s *)muster_args[%zu];\n", entry->parameters[i].type,
                   i, entry->parameters[i].type, i);
    writer_put(writer, "%s *muster_out = *(%s **)muster_args[%zu];\n", type_of(entry).text,
               type_of(entry).text, count);
    writer_put(writer, "const uint64_t muster_count = *(const uint64_t *)muster_args[%zu];\n",
               count + 1);
    /* A block is done by who has its first lane. */
    writer_put(writer,
               "for (uint64_t muster_b = (muster_begin + %uu) / %uu; muster_b * %uu < muster_end; "
               "muster_b++)\n"
               "muster_block_%s(muster_b, muster_count, muster_out + muster_b",
               entry->partial.lanes - 1, entry->partial.lanes, entry->partial.lanes, name);
    for (size_t i = 0; i < count; i++)
        writer_put(writer, ", muster_%zu", i);
    writer_put(writer, ");\nreturn 0;\n}\n");
    put_c_fold(writer, entry);
}

static void put_opencl(struct writer *writer, const struct kernel_entry *entry)
{
    const struct type_name named = type_of(entry);
    const char *type = named.text;
    put_none(writer, entry, "constant ");
    /* Lanes that are large would be on the stack of every item of a group at once. */
    writer_put(writer, "kernel %svoid %s(ulong muster_begin, ulong muster_items",
               entry->partial.bytes > REGISTER_BYTES
                   ? "__attribute__((reqd_work_group_size(1, 1, 1))) "
                   : "",
               entry->name);
    for (size_t i = 0; i < entry->parameter_count; i++) {
        if (entry->parameters[i].is_block)
            writer_put(writer, ",\nglobal uchar *muster_block_%zu, ulong muster_offset_%zu", i, i);
        else
            writer_put(writer, ",\n%s muster_%zu", entry->parameters[i].type, i);
    }
    writer_put(writer, ",\nglobal uchar *muster_block_out, ulong muster_offset_out, "
                       "ulong muster_count)\n{\n");
    for (size_t i = 0; i < entry->parameter_count; i++)
        if (entry->parameters[i].is_block)
            writer_put(writer, "%s muster_%zu = (%s)(muster_block_%zu + muster_offset_%zu);\n",
                       entry->parameters[i].type, i, entry->parameters[i].type, i, i);
    writer_put(writer,
               "global %s *muster_out = (global %s *)(muster_block_out + muster_offset_out);\n",
               type, type);
    writer_put(writer, "for (ulong muster_i = get_global_id(0); muster_i < muster_items; "
                       "muster_i += get_global_size(0)) {\n");
    writer_put(writer,
               "if ((muster_begin + muster_i) %% %u != 0)\ncontinue;\n"
               "const ulong muster_block = (muster_begin + muster_i) / %u;\n",
               entry->partial.lanes, entry->partial.lanes);
    put_extent(writer, entry, "muster_block");
    put_lanes(writer, entry);
    writer_put(writer, "muster_out[muster_block] = muster_lanes[0];\n}\n}\n");
}

/* The items of a thread's lane, `partial` being where it adds them. */
static void put_cuda_items(struct writer *writer, const struct kernel_entry *entry,
                           const char *partial)
{
    unsigned lanes = entry->partial.lanes;
    char item[64];
    writer_put(writer,
               "if (muster_items_here == %lluu) {\n#pragma unroll %d\n"
               "for (uint32_t muster_k = 0; muster_k < %lluu; muster_k++)\n",
               (unsigned long long)entry->partial.block_items,
               entry->partial.bytes > REGISTER_BYTES ? UNROLL_LARGE : UNROLL,
               (unsigned long long)(entry->partial.block_items / lanes));
    snprintf(item, sizeof item, "muster_first + muster_k * %u + muster_lane", lanes);
    put_item(writer, entry, item, partial);
    writer_put(writer,
               "} else\nfor (uint64_t muster_k = muster_lane; muster_k < muster_items_here; "
               "muster_k += %u)\n",
               lanes);
    put_item(writer, entry, "muster_first + muster_k", partial);
}

/*
 * A thread for each lane. Pairs are joined by the threads of the highest lanes: where threads run one
 * after the other, as in the tests' driver, both partials of a pair are there by then.
 */
static void put_cuda(struct writer *writer, const struct kernel_entry *entry)
{
    const struct type_name named = type_of(entry);
    const char *type = named.text;
    unsigned lanes = entry->partial.lanes, threads = entry->partial.threads;
    put_none(writer, entry, "static __constant__ const ");
    writer_put(writer,
               "extern \"C\" __global__ void __launch_bounds__(%u) %s(uint64_t muster_begin, "
               "uint64_t muster_items",
               threads, entry->name);
    /* What is read is never where partials go: loads may be ahead of what is written. */
    for (size_t i = 0; i < entry->parameter_count; i++)
        writer_put(writer, ",\n%s%s muster_%zu", entry->parameters[i].type,
                   entry->parameters[i].is_block ? " __restrict__" : "", i);
    writer_put(writer, ",\n%s *__restrict__ muster_out, uint64_t muster_count)\n{\n", type);
    writer_put(writer, "__shared__ %s muster_lanes[%u];\n", type, threads);
    writer_put(writer,
               "const uint64_t muster_i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;\n"
               "if (muster_i >= muster_items)\nreturn;\n"
               "const uint32_t muster_lane = threadIdx.x %% %u, "
               "muster_base = threadIdx.x - muster_lane;\n",
               lanes);
    writer_put(writer,
               "const uint32_t muster_mask = 0x%xu << (muster_base %% 32);\n"
               "const uint64_t muster_block = (muster_begin + muster_i) / %u;\n"
               "(void)muster_mask;\n",
               lanes == 32 ? 0xffffffffu : (1u << lanes) - 1, lanes);
    put_extent(writer, entry, "muster_block");
    if (entry->partial.bytes <= REGISTER_BYTES) {
        writer_put(writer, "%s muster_mine;\n", type);
        put_identity(writer, entry, "&muster_mine");
        put_cuda_items(writer, entry, "&muster_mine");
        writer_put(writer, "muster_lanes[threadIdx.x] = muster_mine;\n");
    } else {
        put_identity(writer, entry, "&muster_lanes[threadIdx.x]");
        put_cuda_items(writer, entry, "&muster_lanes[threadIdx.x]");
    }
    writer_put(writer,
               "__syncwarp(muster_mask);\n"
               "for (uint32_t muster_w = %u; muster_w > 0; muster_w /= 2) {\n"
               "const uint32_t muster_l = muster_base + muster_lane + muster_w - %u;\n"
               "if (muster_lane + muster_w >= %u)\n"
               "%s_combine(&muster_lanes[muster_l], &muster_lanes[muster_l + muster_w]);\n"
               "__syncwarp(muster_mask);\n}\n",
               lanes / 2, lanes, lanes, entry->name);
    writer_put(writer,
               "if (muster_lane == %u)\nmuster_out[muster_block] = "
               "muster_lanes[muster_base];\n}\n",
               lanes - 1);
}

void reduction_put(struct writer *writer, const struct kernel_entry *entry,
                   enum kernel_language language)
{
    if (language == KERNEL_C)
        put_c(writer, entry);
    else if (language == KERNEL_CUDA_CPP)
        put_cuda(writer, entry);
    else
        put_opencl(writer, entry);
}
