#include "run/lane/kernel_plan.h"

#include "run/memory/memory.h"

/* Slots begin at such multiples, and so do arguments in them. */
#define SLOT_ALIGNMENT 256u

static uint64_t add_buffer(struct kernel_plan *plan, enum kernel_role role, uint32_t slots)
{
    static const char *const names[] = { "input", "in", "out", "output" };
    struct pipe_declaration *declaration = &plan->declaration;
    bool is_end = role == ROLE_INPUT || role == ROLE_OUTPUT;
    plan->buffers[role] = declaration->buffer_count;
    declaration->buffers[declaration->buffer_count] =
        (struct pipe_buffer){ .name = names[role],
                              .slots = slots,
                              .is_host = is_end,
                              .is_input = role == ROLE_INPUT,
                              .is_output = role == ROLE_OUTPUT,
                              .is_unshared = is_end };
    return (uint64_t)1 << declaration->buffer_count++;
}

/* Each stage has a stream of its own. */
static void add_stage(struct kernel_plan *plan, const char *name, const char *stream,
                      uint64_t reads, uint64_t writes)
{
    struct pipe_declaration *declaration = &plan->declaration;
    declaration->streams[declaration->stream_count] = stream;
    declaration->stages[declaration->stage_count++] = (struct pipe_stage){
        .name = name, .stream = declaration->stream_count++, .reads = reads, .writes = writes
    };
}

void kernel_plan_declare(struct kernel_plan *plan, const struct kernel_work *work, bool on_host,
                         uint32_t slots)
{
    bool reads = false, writes = false, reads_only = false, changes = false;
    for (size_t i = 0; i < work->arg_count; i++) {
        bool is_read = arg_is_read(&work->args[i]), is_written = arg_is_written(&work->args[i]);
        reads |= is_read;
        writes |= is_written;
        reads_only |= is_read && !is_written;
        changes |= is_read && is_written;
    }
    plan->on_host = on_host;
    for (uint32_t i = 0; i < KERNEL_ROLES; i++)
        plan->buffers[i] = PIPE_NONE;
    uint64_t input = reads ? add_buffer(plan, ROLE_INPUT, slots) : 0;
    uint64_t in = reads_only && !on_host ? add_buffer(plan, ROLE_IN, slots) : 0;
    uint64_t out = writes && !on_host ? add_buffer(plan, ROLE_OUT, slots) : 0;
    uint64_t output = writes ? add_buffer(plan, ROLE_OUTPUT, slots) : 0;
    if (on_host) {
        add_stage(plan, "kernel", "compute", input, output);
        return;
    }
    if (reads)
        add_stage(plan, "up", "h2d", input, in | (changes ? out : 0));
    add_stage(plan, "kernel", "compute", in | (changes ? out : 0), out);
    if (writes)
        add_stage(plan, "down", "d2h", out, output);
}

/* Puts the argument into the buffer, which the caller's or the job's memory may stand for. */
static uint32_t add_piece(struct lane_plan *plan, const struct kernel_work *work, uint32_t buffer,
                          const struct muster_arg *given)
{
    const struct margins *margins = work->margins ? &work->margins[given - work->args] : NULL;
    const char *array = margins && margins->memory ? margins->array : given->in;
    const struct pipe_buffer *declared = &plan->declaration->buffers[buffer];
    size_t halo = (size_t)given->halo * given->bytes;
    bool has_array = declared->is_input && given->kind != MUSTER_ARG_SOURCE;
    struct lane_piece *piece = &plan->pieces[plan->piece_count];
    *piece =
        (struct lane_piece){ .buffer = buffer,
                             .item_bytes = given->bytes,
                             .group = given->kind == MUSTER_ARG_PARTIAL ? work->block_items : 1,
                             .halo = halo,
                             .array = has_array ? array : NULL,
                             .head = has_array && margins ? margins->head : NULL,
                             .tail = has_array && margins ? margins->tail : NULL,
                             .direct = declared->is_output ? given->out : NULL,
                             .offset = plan->slot_bytes[buffer] };
    piece->stride = lane_piece_bytes(piece, work->part_items);
    size_t bytes = lane_piece_bytes(piece, work->unit_items) + 2 * halo;
    plan->slot_bytes[buffer] += (bytes + SLOT_ALIGNMENT - 1) & ~(size_t)(SLOT_ALIGNMENT - 1);
    return plan->piece_count++;
}

/* Copies from the caller's memory, or the job's, to the device, and back. */
struct ways {
    struct lane_copy ups[MUSTER_ARGS_MAX], downs[MUSTER_ARGS_MAX];
    uint32_t up_count, down_count, outputs;
};

/*
 * Where the argument's memory is: the pieces of it, from the caller's array or the ring to the result
 * buffer, the copies between them, and what the kernel is given.
 */
static struct lane_operand place(struct lane_plan *plan, const struct kernel_work *work,
                                 const struct kernel_plan *of, const struct muster_arg *given,
                                 struct ways *ways)
{
    bool is_written = arg_is_written(given);
    uint32_t input = PIPE_NONE, output = PIPE_NONE, at;
    if (arg_is_read(given))
        input = add_piece(plan, work, of->buffers[ROLE_INPUT], given);
    if (is_written) {
        output = add_piece(plan, work, of->buffers[ROLE_OUTPUT], given);
        plan->pieces[output].output_at = ways->outputs++;
    }
    if (of->on_host)
        at = is_written ? output : input;
    else
        at = add_piece(plan, work, of->buffers[is_written ? ROLE_OUT : ROLE_IN], given);
    if (input != PIPE_NONE && at != input)
        ways->ups[ways->up_count++] = (struct lane_copy){ input, at };
    if (is_written && at != output)
        ways->downs[ways->down_count++] = (struct lane_copy){ at, output };
    return (struct lane_operand){ .kind = OPERAND_PIECE,
                                  .piece = at,
                                  .bytes = input != PIPE_NONE && is_written ? given->bytes : 0 };
}

static struct lane_operand make_operand(const struct muster_arg *given)
{
    switch (given->kind) {
    case MUSTER_ARG_FIRST:
        return (struct lane_operand){ .kind = OPERAND_FIRST };
    case MUSTER_ARG_GRID:
    case MUSTER_ARG_PICTURES:
        return (struct lane_operand){ .kind = OPERAND_CELL };
    case MUSTER_ARG_ITEMS:
    case MUSTER_ARG_ACCESS: /* never get here */
    case MUSTER_ARG_PITCH:
        return (struct lane_operand){ .kind = OPERAND_ITEMS };
    case MUSTER_ARG_ALL:
        return (struct lane_operand){ .kind = OPERAND_DATA, .data = given->data };
    case MUSTER_ARG_DEVICE_IN:
    case MUSTER_ARG_DEVICE_OUT:
    case MUSTER_ARG_DEVICE_INOUT:
        return (struct lane_operand){ .kind = OPERAND_BLOCK,
                                      .block = given->block,
                                      .access = arg_access(given),
                                      .offset = given->offset,
                                      .bytes = given->bytes };
    default:
        return (struct lane_operand){ .kind = OPERAND_VALUE,
                                      .value = given->in,
                                      .bytes = given->bytes };
    }
}

/* A stage that begins with these copies; gives how many the plan has then. */
static uint32_t add_step(struct lane_plan *plan, struct lane_step *step, uint32_t first,
                         const struct lane_copy *copies, uint32_t count)
{
    *step = (struct lane_step){ .first_copy = first, .copy_count = count, .takes_all = true };
    for (uint32_t i = 0; i < count; i++)
        plan->copies[first + i] = copies[i];
    return first + count;
}

void kernel_plan_compile(const struct kernel_plan *of, const struct kernel_work *work,
                         struct lane_plan *plan)
{
    struct ways ways = { .outputs = 0 };
    struct lane_step *step = plan->steps;
    plan->declaration = &of->declaration;
    plan->order = &of->order;
    for (size_t i = 0; i < work->arg_count; i++)
        plan->operands[plan->operand_count++] = arg_is_cut(&work->args[i])
                                                    ? place(plan, work, of, &work->args[i], &ways)
                                                    : make_operand(&work->args[i]);
    uint32_t copies = add_step(plan, step, 0, ways.ups, ways.up_count);
    /* Where there is no stage for copies, the kernel's does them. */
    if (!of->on_host && ways.up_count > 0)
        add_step(plan, ++step, copies, NULL, 0);
    step->kernel = work->kernel;
    step->operand_count = plan->operand_count;
    step->block_items = work->block_items;
    step->lanes = work->lanes;
    if (ways.down_count > 0)
        copies = add_step(plan, ++step, copies, ways.downs, ways.down_count);
    plan->is_timed = !of->on_host && copies > 0;
    plan->counts_giving = true;
}
