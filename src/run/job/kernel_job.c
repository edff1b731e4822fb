/*
 * Jobs with a kernel and arguments: the plan that they compile to. On a device with memory of its own
 * it is up - kernel - down: one stage copies all arrays that are read to the device, one launches, one
 * copies all that is written to the unit's result buffer. Where kernels work on host memory there is
 * the launch alone, on arrays, ring and result buffer: what is read and written is copied to the
 * result buffer first. Units that write into the caller's arrays (direct.c) have no result buffer.
 *
 * Arguments of one direction share a buffer, each at its place in the slot: they come and go together.
 */
#include "run/job/pipeline.h"

#include "base/allocator.h"

/* Slots begin at such multiples, and so do arguments in them. */
#define SLOT_ALIGNMENT 256u
/* Units at a time on each of the ways up, through the kernel and down; and where that is a GPU. */
#define SLOTS 2u
#define SLOTS_GPU 4u
#define LARGE_UNIT_BYTES ((size_t)16 << 20)

/* The buffers of the plan, in this order; those that a job has no argument for are left out. */
enum role { ROLE_INPUT, ROLE_IN, ROLE_OUT, ROLE_OUTPUT, ROLES };

struct kernel_plan {
    struct pipe_declaration declaration;
    struct pipe_plan order;
    uint32_t buffers[ROLES]; /* which buffer of the declaration; PIPE_NONE: none */
};

static bool is_read(const struct muster_arg *arg)
{
    return job_cuts(arg) && arg->kind != MUSTER_ARG_OUT;
}

static bool has_arg(const struct muster_job *job, bool (*is)(const struct muster_arg *arg))
{
    size_t i = 0;
    while (i < job->desc.arg_count && !is(&job->args[i]))
        i++;
    return i < job->desc.arg_count;
}

static bool is_read_only(const struct muster_arg *arg)
{
    return is_read(arg) && !job_writes(arg);
}

static bool is_changed(const struct muster_arg *arg)
{
    return arg->kind == MUSTER_ARG_INOUT;
}

static uint64_t add_buffer(struct kernel_plan *plan, enum role role, uint32_t slots)
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

static void add_stage(struct kernel_plan *plan, const char *name, const char *stream,
                      uint64_t reads, uint64_t writes)
{
    struct pipe_declaration *declaration = &plan->declaration;
    uint32_t number = 0;
    while (number < declaration->stream_count && declaration->streams[number] != stream)
        number++;
    if (number == declaration->stream_count)
        declaration->streams[declaration->stream_count++] = stream;
    declaration->stages[declaration->stage_count++] =
        (struct pipe_stage){ .name = name, .stream = number, .reads = reads, .writes = writes };
}

/* What is read and written by which stage. */
static void declare(const struct muster_job *job, struct kernel_plan *plan, bool on_host,
                    uint32_t slots)
{
    static const char up[] = "h2d", compute[] = "compute", down[] = "d2h";
    bool reads = has_arg(job, is_read), writes = has_arg(job, job_writes);
    bool reads_only = has_arg(job, is_read_only), changes = has_arg(job, is_changed);
    for (uint32_t i = 0; i < ROLES; i++)
        plan->buffers[i] = PIPE_NONE;
    uint64_t input = reads ? add_buffer(plan, ROLE_INPUT, slots) : 0;
    uint64_t in = reads_only && !on_host ? add_buffer(plan, ROLE_IN, slots) : 0;
    uint64_t out = writes && !on_host ? add_buffer(plan, ROLE_OUT, slots) : 0;
    uint64_t output = writes ? add_buffer(plan, ROLE_OUTPUT, slots) : 0;
    if (on_host) {
        add_stage(plan, "kernel", compute, input, output);
        return;
    }
    if (reads)
        add_stage(plan, "up", up, input, in | (changes ? out : 0));
    add_stage(plan, "kernel", compute, in | (changes ? out : 0), out);
    if (writes)
        add_stage(plan, "down", down, out, output);
}

static uint32_t slots_of(const struct muster_job *job)
{
    uint32_t slots = job_has_gpu(job) ? SLOTS_GPU : SLOTS;
    uint32_t depth = job->options.depth;
    return depth > 0 && depth < slots ? depth : slots;
}

static muster_status make_plan(struct muster_job *job, bool on_host, struct muster_error *err)
{
    struct muster *m = job->m;
    struct kernel_plan *plan = allocator_take(&m->allocator, 1, sizeof *plan);
    if (!plan)
        return run_no_memory(err, "a job's plan");
    declare(job, plan, on_host, slots_of(job));
    size_t bytes = pipe_scratch_bytes(&plan->declaration);
    void *scratch = allocator_take(&m->allocator, bytes, 1);
    muster_status status = scratch ? pipe_derive(&plan->declaration, MUSTER_SCHEDULE_PIPELINED,
                                                 false, &plan->order, scratch, err)
                                   : run_no_memory(err, "the proof of a job's plan");
    allocator_give(&m->allocator, scratch, bytes, 1);
    if (status == MUSTER_OK)
        job->kernel_plans[on_host] = plan;
    else
        allocator_give(&m->allocator, plan, 1, sizeof *plan);
    return status;
}

void kernel_job_free(struct muster_job *job)
{
    for (size_t i = 0; i < 2; i++)
        allocator_give(&job->m->allocator, job->kernel_plans[i], 1, sizeof(struct kernel_plan));
}

/* Which of the outputs the argument is. */
static uint32_t find_output(const struct muster_job *job, size_t arg)
{
    uint32_t output = 0;
    for (size_t i = 0; i < arg; i++)
        output += job_writes(&job->args[i]);
    return output;
}

/* Puts the argument into the buffer, which the caller's or the job's memory may stand for. */
static uint32_t add_piece(struct lane_plan *plan, const struct muster_job *job, uint32_t buffer,
                          size_t arg)
{
    const struct muster_arg *given = &job->args[arg];
    const struct pipe_buffer *declared = &plan->declaration->buffers[buffer];
    struct lane_piece *piece = &plan->pieces[plan->piece_count];
    size_t halo = (size_t)given->halo * given->bytes;
    *piece = (struct lane_piece){ .buffer = buffer,
                                  .item_bytes = given->bytes,
                                  .stride = (size_t)job->part_items * given->bytes,
                                  .halo = halo,
                                  .array = declared->is_input && given->kind != MUSTER_ARG_SOURCE
                                               ? given->in
                                               : NULL,
                                  .offset = plan->slot_bytes[buffer] };
    if (declared->is_output) {
        piece->output_at = find_output(job, arg);
        piece->output = job->outputs[piece->output_at].offset;
        piece->direct = given->out;
    }
    size_t bytes = (size_t)job->unit_max * given->bytes + 2 * halo;
    plan->slot_bytes[buffer] += (bytes + SLOT_ALIGNMENT - 1) & ~(size_t)(SLOT_ALIGNMENT - 1);
    return plan->piece_count++;
}

static uint32_t add_copy(struct lane_plan *plan, uint32_t count, uint32_t from, uint32_t to)
{
    plan->copies[count] = (struct lane_copy){ from, to };
    return count + 1;
}

/*
 * Where the argument's memory is: the pieces of it, from the caller's array or the ring to the result
 * buffer, and what the kernel is given. Copies up and down are added to `ups` and `downs`.
 */
static struct lane_operand place(struct lane_plan *plan, const struct muster_job *job, size_t arg,
                                 const struct kernel_plan *of, bool on_host, struct lane_copy *ups,
                                 uint32_t *up_count, struct lane_copy *downs, uint32_t *down_count)
{
    const struct muster_arg *given = &job->args[arg];
    uint32_t input = PIPE_NONE, output = PIPE_NONE, work = PIPE_NONE;
    if (is_read(given))
        input = add_piece(plan, job, of->buffers[ROLE_INPUT], arg);
    if (job_writes(given))
        output = add_piece(plan, job, of->buffers[ROLE_OUTPUT], arg);
    if (on_host)
        work = output != PIPE_NONE ? output : input;
    else
        work = add_piece(plan, job, of->buffers[job_writes(given) ? ROLE_OUT : ROLE_IN], arg);
    if (input != PIPE_NONE && work != input)
        ups[(*up_count)++] = (struct lane_copy){ input, work };
    if (output != PIPE_NONE && work != output)
        downs[(*down_count)++] = (struct lane_copy){ work, output };
    return (struct lane_operand){ .kind = OPERAND_PIECE,
                                  .piece = work,
                                  .bytes = is_changed(given) ? given->bytes : 0 };
}

static struct lane_operand make_operand(const struct muster_arg *given)
{
    switch (given->kind) {
    case MUSTER_ARG_FIRST:
        return (struct lane_operand){ .kind = OPERAND_FIRST };
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

muster_status kernel_job_compile(struct muster_job *job, const struct run_device *device,
                                 struct lane_plan *plan, struct muster_error *err)
{
    bool on_host = device->info.capabilities & MUSTER_CAN_USE_HOST_MEMORY;
    muster_status status = MUSTER_OK;
    if (!job->kernel_plans[on_host])
        status = make_plan(job, on_host, err);
    if (status != MUSTER_OK)
        return status;
    const struct kernel_plan *of = job->kernel_plans[on_host];
    struct lane_copy ups[MUSTER_ARGS_MAX], downs[MUSTER_ARGS_MAX];
    uint32_t up_count = 0, down_count = 0, copy_count = 0;
    plan->declaration = &of->declaration;
    plan->order = &of->order;
    for (size_t i = 0; i < job->desc.arg_count; i++)
        plan->operands[plan->operand_count++] =
            job_cuts(&job->args[i])
                ? place(plan, job, i, of, on_host, ups, &up_count, downs, &down_count)
                : make_operand(&job->args[i]);
    /* Where there is no stage for copies, the kernel's does them. */
    struct lane_step *step = plan->steps;
    for (uint32_t i = 0; i < up_count; i++)
        copy_count = add_copy(plan, copy_count, ups[i].from, ups[i].to);
    *step = (struct lane_step){ .copy_count = up_count, .takes_all = true };
    step += !on_host && up_count > 0;
    step->kernel = job->desc.kernel;
    step->operand_count = plan->operand_count;
    step->takes_all = true;
    if (down_count > 0)
        *++step = (struct lane_step){ .first_copy = copy_count,
                                      .copy_count = down_count,
                                      .takes_all = true };
    for (uint32_t i = 0; i < down_count; i++)
        copy_count = add_copy(plan, copy_count, downs[i].from, downs[i].to);
    plan->is_timed = !on_host && copy_count > 0;
    plan->counts_giving = true;
    if (job->output == JOB_OUTPUT_CUTS && job_is_direct_on(job, device))
        plan->cut_grain = job->core_options.grain > 0 ? job->core_options.grain : 1;
    /* On the host units have nothing to do with each other. */
    plan->depth = on_host && job->options.depth == 0 ? JOB_DEPTH_DEFAULT : job->core_options.depth;
    plan->width = on_host ? (uint32_t)least(plan->depth, MUSTER_ROLES_MAX) : 1;
    return MUSTER_OK;
}

size_t kernel_job_item_bytes(const struct muster_job *job)
{
    size_t up = 0, down = 0;
    for (size_t i = 0; i < job->desc.arg_count; i++) {
        const struct muster_arg *arg = &job->args[i];
        if (is_read(arg) && __builtin_add_overflow(up, arg->bytes, &up))
            up = SIZE_MAX;
        if (job_writes(arg) && __builtin_add_overflow(down, arg->bytes, &down))
            down = SIZE_MAX;
    }
    return up > down ? up : down;
}

uint32_t kernel_job_depth(const struct muster_job *job)
{
    uint32_t asked = job->options.depth;
    if (asked > 0 || !job_has_gpu(job))
        return asked > 0 ? asked : JOB_DEPTH_DEFAULT;
    /* From this size on a unit more than there are slots keeps the device busy. */
    size_t item_bytes = kernel_job_item_bytes(job);
    bool is_large = item_bytes > 0 && job->unit_max >= LARGE_UNIT_BYTES / item_bytes;
    return is_large ? SLOTS_GPU + 1 : 2 * SLOTS_GPU;
}
