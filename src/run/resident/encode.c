/*
 * A task's steps and arguments as they travel in the ring.
 */
#include "core/resident.h"
#include "run/memory/memory.h"
#include "run/resident/resident.h"

#include <string.h>

_Static_assert(RESIDENT_OPERANDS_MAX == MUSTER_RESIDENT_ARGS_MAX, "an operand for each argument");
_Static_assert(RESIDENT_STEPS_MAX == MUSTER_RESIDENT_STEPS_MAX, "one limit");
_Static_assert(RESIDENT_DATA_MAX == MUSTER_RESIDENT_DATA_MAX, "one limit");
_Static_assert(RESIDENT_OPCODES_MAX == MUSTER_RESIDENT_KERNELS_MAX, "one limit");
_Static_assert(RESIDENT_VALUES_MAX == MUSTER_ARG_BYTES_MAX, "one limit");
_Static_assert(RESIDENT_ARGS_MAX == MUSTER_ARGS_MAX, "one limit");

/* Items from which on other seats are asked to help. */
#define WIDE_ITEMS 4096u
/* Items in all runs of all steps from which on a task is long. */
#define LONG_WORK 16384u

struct encoding {
    struct muster_resident *lane;
    struct resident_record *record;
    const struct muster_task_desc *desc;
    const struct muster_arg *args;
    char *body;
    struct resident_step *steps;
    struct resident_operand *operands;
    size_t values, data; /* bytes of each so far */
    char data_bytes[RESIDENT_DATA_MAX];
};

static muster_status say_bad(struct muster_error *err, const char *what)
{
    return run_bad_argument(err, "muster_submit", what);
}

static uint32_t find_block_locked(const struct muster_resident *lane, muster_block block)
{
    uint32_t first = block.index % MUSTER_RESIDENT_BLOCKS_MAX;
    for (uint32_t i = 0; i < MUSTER_RESIDENT_BLOCKS_MAX; i++) {
        uint32_t slot = (first + i) % MUSTER_RESIDENT_BLOCKS_MAX;
        const struct resident_attached *attached = &lane->attached[slot];
        if (attached->is_attached && attached->block.index == block.index &&
            attached->block.generation == block.generation)
            return slot;
    }
    return UINT32_MAX;
}

/* The task keeps the blocks that it uses from being detached. */
static muster_status use_blocks_locked(struct encoding *encoding, struct muster_error *err)
{
    struct resident_record *record = encoding->record;
    for (size_t i = 0; i < encoding->desc->arg_count; i++) {
        if (!arg_is_on_device(&encoding->args[i]))
            continue;
        uint32_t slot = find_block_locked(encoding->lane, encoding->args[i].block);
        if (slot == UINT32_MAX)
            return muster_error_fill(err, MUSTER_E_STALE, 0, "muster_resident_attach it first",
                                     "argument %zu: the block is not attached to the lane", i);
        encoding->lane->attached[slot].users++;
        record->blocks[record->block_count++] = (uint16_t)slot;
    }
    return MUSTER_OK;
}

static muster_status take_record(struct encoding *encoding, struct muster_error *err)
{
    struct muster_resident *lane = encoding->lane;
    muster_status status = MUSTER_OK;
    platform_mutex_lock(&lane->lock);
    if (lane->is_lost)
        status = muster_error_fill(err, lane->lost_status, 0, "destroy the lane, and make another",
                                   "the resident lane is lost");
    else if (lane->is_shut)
        status = say_bad(err, "the resident lane is being destroyed");
    else if (!lane->spare)
        status = MUSTER_E_BUSY;
    if (status != MUSTER_OK) {
        platform_mutex_unlock(&lane->lock);
        return status;
    }
    struct resident_record *record = lane->spare;
    encoding->record = record;
    lane->spare = record->next;
    lane->spare_count--;
    record->output_count = record->block_count = 0;
    record->status = MUSTER_OK;
    status = use_blocks_locked(encoding, err);
    platform_mutex_unlock(&lane->lock);
    return status;
}

static muster_status put_value(struct encoding *encoding, struct resident_operand *operand,
                               const void *value, size_t bytes, struct muster_error *err)
{
    size_t at = (encoding->values + (bytes >= 16 ? 15 : 7)) & ~(size_t)(bytes >= 16 ? 15 : 7);
    if (!value || bytes == 0)
        return say_bad(err, "a value without address or size");
    if (bytes > RESIDENT_VALUES_MAX || at > RESIDENT_VALUES_MAX - bytes)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "put large arguments into a block",
                                 "the values of a task's arguments have more than %d bytes",
                                 RESIDENT_VALUES_MAX);
    /* Offsets are from the values' begin until all are known. */
    *operand = (struct resident_operand){ .kind = RESIDENT_VALUE,
                                          .at = (uint32_t)at,
                                          .bytes = (uint32_t)bytes };
    memcpy((char *)(encoding->operands + encoding->desc->arg_count) + at, value, bytes);
    encoding->values = at + bytes;
    return MUSTER_OK;
}

static muster_status put_data(struct encoding *encoding, struct resident_operand *operand,
                              const struct muster_arg *arg, struct muster_error *err)
{
    bool is_written = arg->kind != MUSTER_ARG_IN;
    const void *host = is_written ? arg->out : arg->in;
    uint64_t items = encoding->desc->items, bytes;
    size_t at = (encoding->data + 15) & ~(size_t)15;
    if (arg->bytes == 0 || (!host && items > 0))
        return say_bad(err, "an array without address or size of an item");
    if (arg->kind == MUSTER_ARG_INOUT && arg->in != arg->out)
        return say_bad(err, "an array that is read and written is one array");
    if (__builtin_mul_overflow(items, (uint64_t)arg->bytes, &bytes) || at > RESIDENT_DATA_MAX ||
        bytes > RESIDENT_DATA_MAX - at)
        return muster_error_fill(
            err, MUSTER_E_TOO_LARGE, 0, "attach a block to the lane, and give that",
            "arrays of a resident task have more than %d bytes together", RESIDENT_DATA_MAX);
    *operand = (struct resident_operand){ .kind = RESIDENT_DATA,
                                          .access = is_written ? RESIDENT_READS | RESIDENT_WRITES
                                                               : RESIDENT_READS,
                                          .at = (uint32_t)at,
                                          .bytes = (uint32_t)arg->bytes,
                                          .offset = bytes };
    /* Also of one that is only written: items that the kernel leaves alone stay as they are. */
    if (bytes > 0)
        memcpy(encoding->data_bytes + at, host, bytes);
    if (is_written && bytes > 0)
        encoding->record->outputs[encoding->record->output_count++] =
            (struct resident_output){ arg->out, (uint32_t)at, (uint32_t)bytes };
    encoding->data = at + bytes;
    return MUSTER_OK;
}

static muster_status put_arg(struct encoding *encoding, size_t index, uint32_t *block,
                             struct muster_error *err)
{
    static const uint64_t first = 0;
    const struct muster_arg *arg = &encoding->args[index];
    struct resident_operand *operand = &encoding->operands[index];
    uint32_t slot;
    switch (arg->kind) {
    case MUSTER_ARG_VALUE:
        return put_value(encoding, operand, arg->in, arg->bytes, err);
    case MUSTER_ARG_FIRST:
        return put_value(encoding, operand, &first, sizeof first, err);
    case MUSTER_ARG_IN:
    case MUSTER_ARG_OUT:
    case MUSTER_ARG_INOUT:
        if (arg->halo > 0)
            return say_bad(err, "an argument of a task has a halo");
        return put_data(encoding, operand, arg, err);
    case MUSTER_ARG_DEVICE_IN:
    case MUSTER_ARG_DEVICE_OUT:
    case MUSTER_ARG_DEVICE_INOUT:
        if (arg->bytes == 0 || arg->bytes > UINT32_MAX)
            return say_bad(err, "an array in device memory without size of an item");
        slot = encoding->record->blocks[(*block)++];
        *operand = (struct resident_operand){ .kind = RESIDENT_BLOCK,
                                              .access = (uint8_t)arg_access(arg),
                                              .slot = (uint16_t)slot,
                                              .generation = encoding->lane->blocks[slot].generation,
                                              .bytes = (uint32_t)arg->bytes,
                                              .offset = arg->offset };
        return MUSTER_OK;
    default:
        return say_bad(err, "a resident task takes values, small arrays, and attached blocks");
    }
}
_Static_assert(RESIDENT_READS == MUSTER_READS && RESIDENT_WRITES == MUSTER_WRITES, "one meaning");

static uint32_t find_opcode(const struct muster_resident *lane, const struct muster_kernel *kernel)
{
    uint32_t opcode = 0;
    while (opcode < lane->kernel_count && lane->kernels[opcode] != kernel)
        opcode++;
    return opcode;
}

static muster_status put_step(struct encoding *encoding, size_t index,
                              const struct muster_resident_step *given, struct muster_error *err)
{
    struct resident_step *step = &encoding->steps[index];
    uint32_t opcode = find_opcode(encoding->lane, given->kernel);
    if (opcode == encoding->lane->kernel_count)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "make the lane with it",
                                 "step %zu: the kernel is not one of the lane's", index);
    if (given->items > UINT32_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "give it to the device as usual",
                                 "step %zu has %llu items; a resident task at most 2^32 - 1", index,
                                 (unsigned long long)given->items);
    if (given->arg_count > RESIDENT_ARGS_MAX || (!given->args && given->arg_count > 0))
        return say_bad(err, "a step has no arguments where some are counted, or too many");
    if (given->has_until && given->until >= encoding->desc->arg_count)
        return say_bad(err, "the flag that ends a step is in no argument");
    *step = (struct resident_step){
        .opcode = (uint16_t)opcode,
        .arg_count = (uint16_t)given->arg_count,
        .items = (uint32_t)given->items,
        .repeat = given->repeat > 0 ? given->repeat : 1,
        .until = given->has_until ? (uint16_t)given->until : RESIDENT_NO_OPERAND,
        .until_at = given->has_until ? given->until_offset : 0,
    };
    if (given->arg_count > 0)
        memcpy(step->args, given->args, given->arg_count);
    return MUSTER_OK;
}

static muster_status put_steps(struct encoding *encoding, size_t step_count,
                               struct muster_error *err)
{
    const struct muster_task_desc *desc = encoding->desc;
    muster_status status = MUSTER_OK;
    if (!desc->steps) {
        uint8_t all[RESIDENT_ARGS_MAX];
        for (uint8_t i = 0; i < RESIDENT_ARGS_MAX; i++)
            all[i] = i;
        return put_step(encoding, 0,
                        &(struct muster_resident_step){ .kernel = desc->kernel,
                                                        .items = desc->items,
                                                        .args = all,
                                                        .arg_count = desc->arg_count },
                        err);
    }
    for (size_t i = 0; i < step_count && status == MUSTER_OK; i++) {
        struct muster_resident_step copy;
        status = put_step(encoding, i,
                          layout_at(LAYOUT(muster_resident_step), desc->steps, i, &copy), err);
    }
    return status;
}

/* Values and data go to where they stay, now that all sizes are known. */
static void put_together(struct encoding *encoding, size_t step_count)
{
    struct resident_head *head = (struct resident_head *)encoding->body;
    size_t count = encoding->desc->arg_count;
    size_t values_at = (size_t)((char *)(encoding->operands + count) - encoding->body);
    size_t data_at = values_at + ((encoding->values + 15) & ~(size_t)15);
    for (size_t i = 0; i < count; i++) {
        struct resident_operand *operand = &encoding->operands[i];
        if (operand->kind == RESIDENT_VALUE)
            operand->at += (uint32_t)values_at;
        else if (operand->kind == RESIDENT_DATA)
            operand->at += (uint32_t)data_at;
    }
    if (encoding->data > 0)
        memcpy(encoding->body + data_at, encoding->data_bytes, encoding->data);
    for (uint32_t i = 0; i < encoding->record->output_count; i++)
        encoding->record->outputs[i].at += (uint32_t)data_at;
    *head = (struct resident_head){ .step_count = (uint16_t)step_count,
                                    .operand_count = (uint16_t)count,
                                    .bytes =
                                        (uint32_t)(data_at + ((encoding->data + 15) & ~(size_t)15)),
                                    .data_at = (uint32_t)data_at };
}

static muster_status check(struct encoding *encoding, struct muster_error *err)
{
    struct muster_resident *lane = encoding->lane;
    const struct resident_table table = { lane->opcodes, lane->kernel_count, lane->blocks,
                                          MUSTER_RESIDENT_BLOCKS_MAX };
    uint32_t step, arg;
    enum resident_wrong wrong =
        resident_check(encoding->body, RESIDENT_BODY_MAX, &table, &step, &arg);
    if (wrong != RESIDENT_RIGHT)
        return muster_error_fill(err,
                                 wrong == RESIDENT_BAD_BLOCK ? MUSTER_E_STALE : MUSTER_E_INVALID, 0,
                                 "compare the step with its kernel, and its items with its arrays",
                                 "a resident task is refused: %s (step %u, argument %u)",
                                 resident_wrong_words(wrong), step, arg);
    resident_find(encoding->body, &table);
    return MUSTER_OK;
}

/* What stands in the header, so that a seat knows how to run the task before it has read the body. */
static void summarize(struct encoding *encoding, size_t step_count)
{
    struct resident_record *record = encoding->record;
    const struct resident_head *head = (const struct resident_head *)encoding->body;
    const struct resident_step *steps = encoding->steps;
    bool is_plain = step_count == 1 && steps->repeat == 1;
    record->opcode = steps->opcode;
    record->items = steps->items;
    record->step_count = (uint32_t)step_count;
    record->flags = RESIDENT_HAS_BODY;
    record->pieces = head->bytes / 16;
    if (is_plain && encoding->desc->arg_count == 0) {
        record->flags = 0;
        record->pieces = 0;
    }
    if (is_plain && steps->items <= RESIDENT_SMALL_ITEMS &&
        (record->pieces == 0 || head->bytes <= RESIDENT_SMALL_BODY))
        record->flags |= RESIDENT_IS_SMALL;
    uint64_t work = 0;
    for (size_t i = 0; i < step_count; i++) {
        work += (uint64_t)steps[i].items * steps[i].repeat;
        if (steps[i].items >= WIDE_ITEMS)
            record->flags |= RESIDENT_IS_WIDE;
    }
    record->is_long = work > LONG_WORK;
}

/* A kernel without arguments: all of it is in the header. */
static muster_status encode_empty(struct encoding *encoding, struct muster_error *err)
{
    struct resident_record *record = encoding->record;
    uint32_t opcode = find_opcode(encoding->lane, encoding->desc->kernel);
    const struct resident_opcode *known = &encoding->lane->opcodes[opcode];
    if (known->is_known && known->arg_count > 0)
        return say_bad(err, "a kernel of a resident lane without the arguments that it takes");
    record->opcode = opcode;
    record->items = (uint32_t)encoding->desc->items;
    record->flags = record->items <= RESIDENT_SMALL_ITEMS ? RESIDENT_IS_SMALL : 0;
    record->pieces = 0;
    record->step_count = 1;
    record->is_long = record->items > LONG_WORK;
    return MUSTER_OK;
}

static muster_status encode(struct encoding *encoding, size_t step_count, struct muster_error *err)
{
    const struct muster_task_desc *desc = encoding->desc;
    muster_status status = MUSTER_OK;
    uint32_t block = 0;
    bool can_be_empty = !desc->steps && desc->arg_count == 0 && desc->items <= UINT32_MAX &&
                        find_opcode(encoding->lane, desc->kernel) < encoding->lane->kernel_count;
    if (can_be_empty)
        return encode_empty(encoding, err);
    encoding->body = resident_body(encoding->lane, encoding->record);
    encoding->steps = (struct resident_step *)(encoding->body + sizeof(struct resident_head));
    encoding->operands = (struct resident_operand *)(encoding->steps + step_count);
    encoding->values = encoding->data = 0;
    for (size_t i = 0; i < desc->arg_count && status == MUSTER_OK; i++)
        status = put_arg(encoding, i, &block, err);
    if (status == MUSTER_OK)
        status = put_steps(encoding, step_count, err);
    if (status != MUSTER_OK)
        return status;
    put_together(encoding, step_count);
    status = check(encoding, err);
    if (status == MUSTER_OK)
        summarize(encoding, step_count);
    return status;
}

static muster_status check_desc(const struct muster_task_desc *desc, size_t step_count,
                                struct muster_error *err)
{
    if (desc->hints || desc->timeout_ns > 0)
        return say_bad(err, "a resident task has no hints and no time-out: its lane has them");
    if (step_count == 0 || step_count > RESIDENT_STEPS_MAX ||
        desc->arg_count > RESIDENT_OPERANDS_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "submit it as several tasks",
                                 "%zu steps and %zu arguments; 1 to %d and at most %d", step_count,
                                 desc->arg_count, RESIDENT_STEPS_MAX, RESIDENT_OPERANDS_MAX);
    if (!desc->args && desc->arg_count > 0)
        return say_bad(err, "no arguments where some are counted");
    return desc->steps
               ? layout_check_all(LAYOUT(muster_resident_step), desc->steps, step_count, err)
               : MUSTER_OK;
}

muster_status resident_take(struct muster_resident *lane, const struct muster_task_desc *desc,
                            struct resident_record **out, struct muster_error *err)
{
    struct muster_arg copies[RESIDENT_OPERANDS_MAX];
    struct encoding encoding;
    size_t step_count = desc->steps ? desc->step_count : 1;
    muster_status status = check_desc(desc, step_count, err);
    if (status != MUSTER_OK)
        return status;
    encoding.lane = lane;
    encoding.record = NULL;
    encoding.desc = desc;
    encoding.args =
        layout_read_all(LAYOUT(muster_arg), desc->args, desc->arg_count, copies, &status, err);
    if (status == MUSTER_OK)
        status = take_record(&encoding, err);
    if (status == MUSTER_OK)
        status = encode(&encoding, step_count, err);
    if (status == MUSTER_OK)
        *out = encoding.record;
    else if (encoding.record)
        resident_drop(encoding.record);
    return status;
}
