/*
 * Kernels: their forms, what each device has made of them, and launching them.
 */
#include "run/runtime.h"

#include "base/allocator.h"

#include <stdio.h>
#include <string.h>

/* A kernel as one device has it. */
struct built {
    struct built *next;
    struct run_device *device;
    void *state; /* owns; NULL while it is being built */
    bool is_building;
};

struct muster_kernel {
    struct muster *m;
    struct muster_kernel *next, *previous;
    char name[64];
    struct muster_kernel_form *forms; /* owns */
    size_t form_count;
    struct built *built; /* owns */
};

muster_status muster_kernel_from(struct muster *m, const char *name,
                                 const struct muster_kernel_form *forms, size_t count,
                                 struct muster_kernel **out, struct muster_error *err)
{
    if (!m || !forms || !out || count == 0)
        return run_bad_argument(err, "muster_kernel_from", "an argument is NULL, or count is 0");
    for (size_t i = 0; i < count; i++) {
        if (forms[i].size < sizeof forms[i])
            return run_bad_argument(err, "muster_kernel_from", "set the size of each form");
        if (forms[i].kind != MUSTER_KERNEL_FUNCTION || !forms[i].function)
            return run_bad_argument(err, "muster_kernel_from",
                                    "a form is of no known kind, or has no function");
    }
    struct muster_kernel *kernel = allocator_take(&m->allocator, 1, sizeof *kernel);
    struct muster_kernel_form *copies = allocator_take(&m->allocator, count, sizeof *copies);
    if (!kernel || !copies) {
        allocator_give(&m->allocator, copies, count, sizeof *copies);
        allocator_give(&m->allocator, kernel, 1, sizeof *kernel);
        return run_no_memory(err, "a kernel");
    }
    for (size_t i = 0; i < count; i++)
        copies[i] = forms[i];
    kernel->m = m;
    kernel->forms = copies;
    kernel->form_count = count;
    snprintf(kernel->name, sizeof kernel->name, "%s", name ? name : "kernel");
    run_lock(m);
    kernel->next = m->kernels;
    if (m->kernels)
        m->kernels->previous = kernel;
    m->kernels = kernel;
    run_unlock(m);
    *out = kernel;
    return MUSTER_OK;
}

static void free_built(struct built *built)
{
    struct run_device *device = built->device;
    const struct muster_backend *table = &device->backend->table;
    if (built->state) {
        /* A hung driver is not asked for anything more. */
        if (!device->is_hung)
            table->kernel_deinit(built->state);
        allocator_give(&device->m->allocator, built->state, 1, table->kernel_bytes);
    }
    allocator_give(&device->m->allocator, built, 1, sizeof *built);
}

void muster_kernel_destroy(struct muster_kernel *kernel)
{
    if (!kernel)
        return;
    struct muster *m = kernel->m;
    run_lock(m);
    if (kernel->previous)
        kernel->previous->next = kernel->next;
    else
        m->kernels = kernel->next;
    if (kernel->next)
        kernel->next->previous = kernel->previous;
    run_unlock(m);
    while (kernel->built) {
        struct built *built = kernel->built;
        kernel->built = built->next;
        free_built(built);
    }
    allocator_give(&m->allocator, kernel->forms, kernel->form_count, sizeof *kernel->forms);
    allocator_give(&m->allocator, kernel, 1, sizeof *kernel);
}

void kernels_destroy_all(struct muster *m)
{
    while (m->kernels)
        muster_kernel_destroy(m->kernels);
}

bool kernel_is_of(const struct muster_kernel *kernel, const struct muster *m)
{
    return kernel->m == m;
}

bool kernel_has_form(const struct muster_kernel *kernel, const struct run_device *device)
{
    size_t form = 0;
    while (form < kernel->form_count && !(kernel->forms[form].kind & device->info.forms))
        form++;
    return form < kernel->form_count;
}

/* Builds the first form that the device takes. */
static muster_status build(struct muster_kernel *kernel, struct run_device *device, void **out,
                           struct muster_error *err)
{
    struct muster *m = kernel->m;
    const struct muster_backend *table = &device->backend->table;
    size_t form = 0;
    while (form < kernel->form_count && !(kernel->forms[form].kind & device->info.forms))
        form++;
    if (form == kernel->form_count) {
        muster_status status = muster_error_fill(
            err, MUSTER_E_NOT_SUPPORTED, 0, "give the kernel in a form the device takes",
            "%s has no form of kernel %s that it can run", device->info.id, kernel->name);
        run_error_device(err, device);
        return status;
    }
    void *state = allocator_take(&m->allocator, 1, table->kernel_bytes);
    if (!state)
        return run_no_memory(err, "a kernel");
    muster_status status = table->kernel_init(device->state, &kernel->forms[form], state, err);
    if (status != MUSTER_OK) {
        allocator_give(&m->allocator, state, 1, table->kernel_bytes);
        return device_note(device, status, err);
    }
    *out = state;
    return MUSTER_OK;
}

static struct built *find_built_locked(struct muster_kernel *kernel,
                                       const struct run_device *device)
{
    struct built *built = kernel->built;
    while (built && built->device != device)
        built = built->next;
    return built;
}

muster_status kernel_get_built(struct muster_kernel *kernel, struct run_device *device, void **out,
                               struct muster_error *err)
{
    struct muster *m = kernel->m;
    struct built *fresh = NULL;
    run_lock(m);
    struct built *built = find_built_locked(kernel, device);
    if (!built) {
        run_unlock(m);
        fresh = allocator_take(&m->allocator, 1, sizeof *fresh);
        if (!fresh)
            return run_no_memory(err, "a kernel");
        run_lock(m);
        built = find_built_locked(kernel, device);
        if (!built) {
            *fresh = (struct built){ .next = kernel->built, .device = device };
            kernel->built = built = fresh;
            fresh = NULL;
        }
    }
    while (built->is_building)
        platform_condition_wait(&m->changed, &m->lock, UINT64_MAX);
    bool mine = !built->state;
    built->is_building = mine;
    run_unlock(m);
    allocator_give(&m->allocator, fresh, 1, sizeof *fresh);
    if (!mine) {
        *out = built->state;
        return MUSTER_OK;
    }
    void *state = NULL;
    muster_status status = build(kernel, device, &state, err);
    run_lock(m);
    built->state = state;
    built->is_building = false;
    platform_condition_wake_all(&m->changed);
    run_unlock(m);
    *out = state;
    return status;
}

static muster_status read_operands(const struct muster_operand *args, size_t count,
                                   struct muster_use *uses, size_t *use_count,
                                   struct muster_error *err)
{
    size_t bytes = 0;
    *use_count = 0;
    if (count > MUSTER_ARGS_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "pack values into a struct",
                                 "%zu arguments; at most %d", count, MUSTER_ARGS_MAX);
    for (size_t i = 0; i < count; i++) {
        if (args[i].access != 0) {
            uses[(*use_count)++] =
                (struct muster_use){ args[i].block, (enum muster_access)args[i].access };
            bytes += sizeof(void *);
        } else if (!args[i].value || args[i].bytes == 0) {
            return run_bad_argument(err, "muster_launch",
                                    "an argument is neither a block nor a value");
        } else {
            /* One that is too large by itself stands for itself: the sum must not wrap. */
            bytes = args[i].bytes > MUSTER_ARG_BYTES_MAX ? args[i].bytes : bytes + args[i].bytes;
        }
        if (bytes > MUSTER_ARG_BYTES_MAX)
            return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, "put large arguments into a block",
                                     "the arguments have more than %d bytes", MUSTER_ARG_BYTES_MAX);
    }
    return MUSTER_OK;
}

static muster_status resolve_operands(const struct operation_run *run,
                                      const struct muster_operand *args, size_t count,
                                      struct muster_launch_arg *out, struct muster_error *err)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = (struct muster_launch_arg){ .value = args[i].value, .bytes = args[i].bytes };
        if (args[i].access == 0)
            continue;
        out[i] = (struct muster_launch_arg){ .memory = operation_memory(run, args[i].block),
                                             .offset = args[i].offset };
        if (args[i].offset >= out[i].memory->bytes)
            return run_bad_argument(err, "muster_launch", "an offset beyond the end of its block");
    }
    return MUSTER_OK;
}

muster_status muster_launch(struct muster *m, muster_stream stream, struct muster_kernel *kernel,
                            uint64_t begin, uint64_t items, const struct muster_operand *args,
                            size_t arg_count, muster_status *result, struct muster_error *err)
{
    if (!m || !kernel || kernel->m != m || (!args && arg_count > 0))
        return run_bad_argument(err, "muster_launch",
                                "an argument is NULL, or the kernel is another runtime's");
    if (items > UINT64_MAX - begin)
        return run_bad_argument(err, "muster_launch", "begin + items does not fit");
    struct muster_use uses[MUSTER_ARGS_MAX] = { { { 0, 0 }, 0 } };
    size_t use_count;
    muster_status status = read_operands(args, arg_count, uses, &use_count, err);
    if (status != MUSTER_OK)
        return status;
    struct operation_run run;
    status = operation_begin(m, stream, uses, use_count, HOLDER_OPERATION, &run, err);
    if (status != MUSTER_OK)
        return status;
    struct run_device *device = run.stream->device;
    struct muster_launch_arg resolved[MUSTER_ARGS_MAX];
    void *built = NULL;
    status = resolve_operands(&run, args, arg_count, resolved, err);
    if (status == MUSTER_OK)
        status = kernel_get_built(kernel, device, &built, err);
    if (status == MUSTER_OK && result)
        *result = MUSTER_OK;
    if (status == MUSTER_OK && items > 0) {
        run.flight->user_result = result;
        const struct muster_launch_desc launch = { .begin = begin,
                                                   .items = items,
                                                   .args = resolved,
                                                   .arg_count = arg_count,
                                                   .result = result ? &run.flight->result : NULL };
        status = device_note(
            device, device->backend->table.launch(run.stream->state, built, &launch, 1, err), err);
    }
    if (status != MUSTER_OK) {
        operation_abandon(&run);
        return status;
    }
    return operation_end(&run, true, items, err);
}
