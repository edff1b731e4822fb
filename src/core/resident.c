#include "core/resident.h"

#include <string.h>

_Static_assert(RESIDENT_ARGS_MAX <= 16, "a bit for each argument");

const struct resident_step *resident_steps(const void *body)
{
    return (const struct resident_step *)((const char *)body + sizeof(struct resident_head));
}

struct resident_operand *resident_operands(void *body)
{
    const struct resident_head *head = body;
    return (struct resident_operand *)((char *)body + sizeof *head +
                                       head->step_count * sizeof(struct resident_step));
}

static const struct resident_operand *operands_of(const void *body)
{
    return resident_operands((void *)(uintptr_t)body);
}

/* Where the values begin. */
static size_t values_at(const struct resident_head *head)
{
    return sizeof *head + head->step_count * sizeof(struct resident_step) +
           head->operand_count * sizeof(struct resident_operand);
}

static bool has_shape(const struct resident_head *head, size_t bytes)
{
    return head->step_count > 0 && head->step_count <= RESIDENT_STEPS_MAX &&
           head->operand_count <= RESIDENT_OPERANDS_MAX && head->reserved == 0 &&
           head->bytes <= bytes && head->bytes <= RESIDENT_BODY_MAX && head->bytes % 16 == 0 &&
           head->data_at % 16 == 0 && head->data_at <= head->bytes &&
           values_at(head) <= head->data_at &&
           head->data_at - values_at(head) <= RESIDENT_VALUES_MAX + 16 &&
           head->bytes - head->data_at <= RESIDENT_DATA_MAX + 16;
}

/* Whether [at, at + bytes) is within [begin, end). */
static bool is_within(uint64_t at, uint64_t bytes, uint64_t begin, uint64_t end)
{
    return at >= begin && at <= end && bytes <= end - at;
}

/* The operand by itself. */
static enum resident_wrong check_operand(const struct resident_head *head,
                                         const struct resident_operand *operand,
                                         const struct resident_table *table)
{
    switch (operand->kind) {
    case RESIDENT_VALUE:
        if (operand->access != 0 || operand->bytes == 0 || operand->at % 8 != 0 ||
            !is_within(operand->at, operand->bytes, values_at(head), head->data_at))
            return RESIDENT_BAD_SHAPE;
        return RESIDENT_RIGHT;
    case RESIDENT_DATA:
        if (operand->access == 0 || operand->access > (RESIDENT_READS | RESIDENT_WRITES) ||
            operand->bytes == 0 || operand->at % 16 != 0 ||
            !is_within(operand->at, operand->offset, head->data_at, head->bytes))
            return RESIDENT_BAD_SHAPE;
        return RESIDENT_RIGHT;
    case RESIDENT_BLOCK:
        if (operand->access == 0 || operand->access > (RESIDENT_READS | RESIDENT_WRITES) ||
            operand->bytes == 0)
            return RESIDENT_BAD_SHAPE;
        if (operand->slot >= table->block_count || operand->generation == 0 ||
            table->blocks[operand->slot].generation != operand->generation)
            return RESIDENT_BAD_BLOCK;
        return operand->offset <= table->blocks[operand->slot].bytes ? RESIDENT_RIGHT
                                                                     : RESIDENT_BAD_RANGE;
    default:
        return RESIDENT_BAD_SHAPE;
    }
}

/* Bytes of an array from its first item on. */
static uint64_t room_of(const struct resident_operand *operand, const struct resident_table *table)
{
    return operand->kind == RESIDENT_BLOCK ? table->blocks[operand->slot].bytes - operand->offset
                                           : operand->offset;
}

/* An operand as an argument of an opcode. */
static enum resident_wrong check_arg(const struct resident_step *step, uint32_t index,
                                     const struct resident_operand *operand,
                                     const struct resident_table *table)
{
    const struct resident_opcode *opcode = &table->opcodes[step->opcode];
    bool is_array = operand->kind != RESIDENT_VALUE;
    if (opcode->is_known) {
        if ((opcode->blocks >> index & 1) != (is_array ? 1u : 0u))
            return RESIDENT_BAD_ARGS;
        if (opcode->bytes[index] > 0 && opcode->bytes[index] != operand->bytes)
            return RESIDENT_BAD_ARGS;
        if (is_array && (opcode->written >> index & 1) && !(operand->access & RESIDENT_WRITES))
            return RESIDENT_BAD_ARGS;
    }
    if (is_array && step->items > room_of(operand, table) / operand->bytes)
        return RESIDENT_BAD_RANGE;
    return RESIDENT_RIGHT;
}

static enum resident_wrong check_until(const struct resident_head *head,
                                       const struct resident_step *step,
                                       const struct resident_operand *operands,
                                       const struct resident_table *table)
{
    if (step->until == RESIDENT_NO_OPERAND)
        return step->until_at == 0 ? RESIDENT_RIGHT : RESIDENT_BAD_SHAPE;
    if (step->until >= head->operand_count || operands[step->until].kind == RESIDENT_VALUE)
        return RESIDENT_BAD_FLAG;
    const struct resident_operand *flag = &operands[step->until];
    uint64_t where =
        flag->kind == RESIDENT_BLOCK ? table->blocks[flag->slot].address + flag->offset : flag->at;
    uint64_t room = room_of(flag, table);
    bool is_in = room >= sizeof(uint32_t) && step->until_at <= room - sizeof(uint32_t);
    return is_in && (where + step->until_at) % sizeof(uint32_t) == 0 ? RESIDENT_RIGHT
                                                                     : RESIDENT_BAD_FLAG;
}

static enum resident_wrong check_step(const struct resident_head *head,
                                      const struct resident_step *step,
                                      const struct resident_operand *operands,
                                      const struct resident_table *table, uint32_t *arg)
{
    if (step->repeat == 0 || step->reserved != 0 || step->spare != 0)
        return RESIDENT_BAD_SHAPE;
    if (step->opcode >= table->opcode_count)
        return RESIDENT_BAD_OPCODE;
    const struct resident_opcode *opcode = &table->opcodes[step->opcode];
    if (step->arg_count > RESIDENT_ARGS_MAX ||
        (opcode->is_known && step->arg_count != opcode->arg_count))
        return RESIDENT_BAD_ARGS;
    for (uint32_t i = 0; i < step->arg_count; i++) {
        *arg = i;
        if (step->args[i] >= head->operand_count)
            return RESIDENT_BAD_ARGS;
        enum resident_wrong wrong = check_arg(step, i, &operands[step->args[i]], table);
        if (wrong != RESIDENT_RIGHT)
            return wrong;
    }
    return check_until(head, step, operands, table);
}

enum resident_wrong resident_check(const void *body, size_t bytes,
                                   const struct resident_table *table, uint32_t *step,
                                   uint32_t *arg)
{
    const struct resident_head *head = body;
    enum resident_wrong wrong = RESIDENT_RIGHT;
    uint32_t at_step = 0, at_arg = 0;
    uint64_t runs = 0;
    if (bytes < sizeof *head || !has_shape(head, bytes))
        return RESIDENT_BAD_SHAPE;
    const struct resident_step *steps = resident_steps(body);
    const struct resident_operand *operands = operands_of(body);
    for (uint32_t i = 0; i < head->operand_count && wrong == RESIDENT_RIGHT; i++) {
        wrong = check_operand(head, &operands[i], table);
        at_arg = i;
    }
    for (uint32_t i = 0; i < head->step_count && wrong == RESIDENT_RIGHT; i++) {
        wrong = check_step(head, &steps[i], operands, table, &at_arg);
        runs += steps[i].repeat;
        at_step = i;
    }
    if (wrong == RESIDENT_RIGHT && runs > RESIDENT_RUNS_MAX)
        wrong = RESIDENT_ENDLESS;
    if (step)
        *step = at_step;
    if (arg)
        *arg = at_arg;
    return wrong;
}

const char *resident_wrong_words(enum resident_wrong wrong)
{
    switch (wrong) {
    case RESIDENT_RIGHT:
        return "it is right";
    case RESIDENT_BAD_SHAPE:
        return "its parts do not fit together";
    case RESIDENT_BAD_OPCODE:
        return "its kernel is not one of the lane's";
    case RESIDENT_BAD_ARGS:
        return "its arguments are not those that the kernel takes";
    case RESIDENT_BAD_BLOCK:
        return "a block is not attached to the lane";
    case RESIDENT_BAD_RANGE:
        return "its items reach beyond the end of an array";
    case RESIDENT_BAD_FLAG:
        return "the flag that ends a step is not an aligned uint32_t within an array";
    case RESIDENT_ENDLESS:
        return "its steps may run more than 2^32 times";
    }
    return "unknown";
}

void resident_find(void *body, const struct resident_table *table)
{
    const struct resident_head *head = body;
    struct resident_operand *operands = resident_operands(body);
    for (uint32_t i = 0; i < head->operand_count; i++)
        if (operands[i].kind == RESIDENT_BLOCK)
            operands[i].address = table->blocks[operands[i].slot].address + operands[i].offset;
}

static void *place_of(void *body, const struct resident_operand *operand)
{
    return operand->kind == RESIDENT_BLOCK ? (void *)(uintptr_t)operand->address
                                           : (char *)body + operand->at;
}

/* Whether the step is to be run again. */
static bool is_over(void *body, const struct resident_step *step)
{
    uint32_t flag;
    if (step->until == RESIDENT_NO_OPERAND)
        return false;
    const char *at = place_of(body, &resident_operands(body)[step->until]);
    memcpy(&flag, at + step->until_at, sizeof flag);
    return flag != 0;
}

muster_status resident_run(void *body, resident_call call, bool (*go_on)(void *user), void *user)
{
    const struct resident_head *head = body;
    const struct resident_step *steps = resident_steps(body);
    struct resident_operand *operands = resident_operands(body);
    for (uint32_t i = 0; i < head->step_count; i++) {
        void *pointers[RESIDENT_ARGS_MAX], *args[RESIDENT_ARGS_MAX];
        for (uint32_t k = 0; k < steps[i].arg_count; k++) {
            const struct resident_operand *operand = &operands[steps[i].args[k]];
            pointers[k] = place_of(body, operand);
            args[k] = operand->kind == RESIDENT_VALUE ? pointers[k] : (void *)&pointers[k];
        }
        for (uint32_t run = 0; run < steps[i].repeat; run++) {
            if (i + run > 0 && !go_on(user))
                return MUSTER_E_CANCELLED;
            muster_status status =
                steps[i].items > 0 ? call(user, steps[i].opcode, steps[i].items, args) : MUSTER_OK;
            if (status != MUSTER_OK)
                return status;
            if (is_over(body, &steps[i]))
                break;
        }
    }
    return MUSTER_OK;
}
