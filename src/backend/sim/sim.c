/*
 * Simulated devices in real time. The queue (backend/queue.h) carries the work out on one thread
 * per device; the device model (model/) says how long each piece must seem to take and what goes
 * wrong. Time counts from a device's first operation.
 */
#include "backend/sim/sim.h"

#include "backend/queue.h"
#include "base/allocator.h"
#include "base/invariant.h"
#include "model/description.h"
#include "platform/machine.h"

#include <stdio.h>
#include <string.h>

/* Each device has a thread of its own; more than this is for virtual time. */
#define SIM_DEVICES_MAX 64
#define DESCRIPTION_BYTES_MAX ((size_t)1 << 20)
#define SLICES_MAX 64
/* A description carries no seed, and a program that uses it should behave the same each time. */
#define SIM_SEED 1
/*
 * What user code that will not return gets at close, after the runtime has waited for it already.
 */
#define CLOSE_GRACE_NS 50000000u

struct sim {
    const struct muster_services *services; /* borrowed until close */
    struct model_device *models;            /* owns */
    size_t model_count;
};

struct sim_device {
    struct queue_device_state head; /* first, as queue.h asks */
    struct sim *sim;
    struct model_device model;
    struct model_state state;
    uint32_t index;
    /* Under the queue's lock, as are `state` and the rest: */
    uint64_t memory_promised;
    uint64_t start_ns;                  /* of the first operation; 0: none yet */
    uint64_t free_ns[QUEUE_WORK_COUNT]; /* when each engine is free, on the model's clock */
    uint32_t slice_sizes[SLICES_MAX];
    size_t slice_count;
};
_Static_assert(offsetof(struct sim_device, head) == 0, "queue.h expects its state first");

/* A description is JSON if it looks so, else the name of a file of it. */
static muster_status load(const struct muster_allocator *allocator, const char *description,
                          char **file, size_t *file_bytes, const char **text, size_t *bytes,
                          struct muster_error *err)
{
    *file = NULL;
    const char *first = description + strspn(description, " \t\r\n");
    if (*first == '[' || *first == '{') {
        *text = description;
        *bytes = strlen(description);
        return MUSTER_OK;
    }
    muster_status status =
        platform_file_read(allocator, description, DESCRIPTION_BYTES_MAX, file, file_bytes, err);
    if (status != MUSTER_OK) {
        if (err)
            muster_error_fill(
                err, status, err->driver_code, "give JSON that begins with [ or {, or a file of it",
                "the simulated devices are neither JSON nor a file that can be read: %.120s",
                err->text);
        return status;
    }
    *text = *file;
    *bytes = *file_bytes;
    return MUSTER_OK;
}

/* The described devices, owned by the caller. */
static muster_status describe(const struct muster_allocator *allocator, const char *description,
                              struct model_device **out, size_t *count, struct muster_error *err)
{
    char *file;
    const char *text;
    size_t file_bytes = 0, bytes;
    muster_status status = load(allocator, description, &file, &file_bytes, &text, &bytes, err);
    if (status != MUSTER_OK)
        return status;
    struct model_device *models = allocator_take(allocator, SIM_DEVICES_MAX, sizeof *models);
    if (!models)
        status =
            muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for simulated devices");
    else
        status = model_describe(text, bytes, models, SIM_DEVICES_MAX, count, err);
    if (status == MUSTER_E_CAPACITY)
        muster_error_fill(err, status, 0, "describe fewer",
                          "%zu simulated devices; at most %d run in real time", *count,
                          SIM_DEVICES_MAX);
    if (status == MUSTER_OK)
        *out = models;
    else
        allocator_give(allocator, models, SIM_DEVICES_MAX, sizeof *models);
    allocator_give(allocator, file, file_bytes + 1, 1);
    return status;
}

muster_status sim_check(const struct muster_allocator *allocator, const char *description,
                        struct muster_error *err)
{
    struct model_device *models;
    size_t count;
    if (!description)
        return MUSTER_OK;
    muster_status status = describe(allocator, description, &models, &count, err);
    if (status == MUSTER_OK)
        allocator_give(allocator, models, SIM_DEVICES_MAX, sizeof *models);
    return status;
}

static muster_status sim_open(void *state, const struct muster_services *services,
                              uint32_t *device_count, struct muster_error *err)
{
    struct sim *sim = state;
    sim->services = services;
    if (!services->sim)
        return muster_error_fill(err, MUSTER_E_NOT_FOUND, 0,
                                 "set MUSTER_SIM to a description (docs/simulation.md)",
                                 "no simulated devices are described");
    muster_status status =
        describe(services->allocator, services->sim, &sim->models, &sim->model_count, err);
    if (status == MUSTER_OK)
        *device_count = (uint32_t)sim->model_count;
    return status;
}

static void sim_close(void *state)
{
    struct sim *sim = state;
    allocator_give(sim->services->allocator, sim->models, SIM_DEVICES_MAX, sizeof *sim->models);
}

static uint64_t model_now(struct sim_device *device, uint64_t now_ns)
{
    if (device->start_ns == 0)
        device->start_ns = now_ns;
    return now_ns > device->start_ns ? now_ns - device->start_ns : 0;
}

static struct queue_outcome sim_begin(void *user, uint64_t now_ns, enum queue_work work,
                                      uint64_t amount)
{
    struct sim_device *device = user;
    uint64_t start_ns = model_now(device, now_ns);
    if (device->free_ns[work] > start_ns)
        start_ns = device->free_ns[work];
    struct queue_outcome outcome = { .status = MUSTER_OK };
    uint64_t finish_ns = start_ns;
    if (work == QUEUE_COMPUTE) {
        struct model_run run =
            model_launch(&device->model, &device->state, start_ns, (double)amount);
        finish_ns = run.finish_ns;
        if (run.fails)
            outcome.status = MUSTER_E_FAILED;
    } else if (work != QUEUE_COPY_INSIDE) {
        /* Copies inside the device's memory are taken as free beside those over a link. */
        finish_ns = model_copy_finish_ns(&device->model, &device->state,
                                         work == QUEUE_COPY_IN ? MODEL_LINK_H2D : MODEL_LINK_D2H,
                                         start_ns, amount);
    }
    device->free_ns[work] = finish_ns;
    if (finish_ns == MODEL_NEVER ||
        __builtin_add_overflow(finish_ns, device->start_ns, &outcome.finish_ns))
        outcome.finish_ns = UINT64_MAX;
    return outcome;
}

static muster_status sim_look(void *user, uint64_t now_ns, uint64_t *next_ns)
{
    struct sim_device *device = user;
    *next_ns = UINT64_MAX;
    if (device->start_ns == 0)
        return MUSTER_OK;
    uint64_t at_ns = now_ns > device->start_ns ? now_ns - device->start_ns : 0;
    uint64_t change_ns = model_next_change_ns(&device->model, &device->state, at_ns);
    if (change_ns == MODEL_NEVER || __builtin_add_overflow(change_ns, device->start_ns, next_ns))
        *next_ns = UINT64_MAX;
    switch (model_health_at(&device->model, &device->state, at_ns)) {
    case MODEL_HUNG:
        return MUSTER_E_BUSY;
    case MODEL_LOST:
        return MUSTER_E_DEVICE_LOST;
    default:
        return MUSTER_OK;
    }
}

static const struct queue_timing timing = { .begin = sim_begin, .look = sim_look };

/* Makes a device of a model that is in place already. */
static muster_status start_device(struct sim_device *device, struct muster_device_info *info,
                                  struct muster_error *err)
{
    model_state_init(&device->state, SIM_SEED, device->index);
    const struct queue_options options = { .allocator = device->sim->services->allocator,
                                           .thread_name = "muster-sim",
                                           .worker_count = 1,
                                           .timing = &timing,
                                           .timing_user = device };
    muster_status status = queue_create(&device->head.queue, &options, err);
    if (status != MUSTER_OK)
        return status;
    snprintf(info->name, sizeof info->name, "%s", device->model.name);
    info->domain = device->index;
    info->compute[0] = device->model.compute[0];
    info->compute[1] = device->model.compute[1];
    info->cores = device->model.cores;
    info->copy_engines = 2;
    info->numa_node = -1;
    info->capabilities = MUSTER_CAN_WAIT_VALUE | MUSTER_CAN_RUN_IN_PIECES | MUSTER_CAN_DOUBLE |
                         (device->model.can_slice ? MUSTER_CAN_SLICE : 0);
    info->forms = MUSTER_KERNEL_FUNCTION;
    info->memory_total = device->model.memory_bytes;
    info->weight = device->model.weight;
    info->kind = MUSTER_KIND_SIMULATED;
    return MUSTER_OK;
}

static muster_status sim_device_open(void *state, uint32_t index, void *device_state,
                                     struct muster_device_info *info, struct muster_error *err)
{
    struct sim *sim = state;
    struct sim_device *device = device_state;
    device->sim = sim;
    device->model = sim->models[index];
    device->index = index;
    return start_device(device, info, err);
}

static muster_status sim_device_close(void *state)
{
    struct sim_device *device = state;
    return queue_destroy(device->head.queue, CLOSE_GRACE_NS);
}

static muster_status sim_device_sample(void *state, struct muster_device_sample *sample,
                                       struct muster_error *err)
{
    struct sim_device *device = state;
    muster_status status = queue_check(device->head.queue, err);
    if (status != MUSTER_OK)
        return status;
    queue_lock(device->head.queue);
    uint64_t used = device->memory_promised;
    queue_unlock(device->head.queue);
    *sample = (struct muster_device_sample){ .memory_total = device->model.memory_bytes,
                                             .memory_free = device->model.memory_bytes - used,
                                             .utilisation = -1,
                                             .temperature_c = -300 };
    return MUSTER_OK;
}

static muster_status sim_slice_plan(void *state, const uint32_t *sizes, size_t count,
                                    struct muster_error *err)
{
    struct sim_device *device = state;
    uint64_t total = 0;
    bool has_empty = count == 0;
    for (size_t i = 0; i < count; i++) {
        total += sizes[i];
        has_empty |= sizes[i] == 0;
    }
    if (!device->model.can_slice)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                                 "describe it with \"slices\": true", "the device cannot be cut");
    if (has_empty)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "give each slice at least one core",
                                 "a slice without cores would never finish anything");
    if (count > SLICES_MAX || total > device->model.cores)
        return muster_error_fill(
            err, MUSTER_E_TOO_LARGE, 0, "ask for no more cores than there are",
            "%zu slices of %llu cores together; the device has %u cores, at most %d slices", count,
            (unsigned long long)total, device->model.cores, SLICES_MAX);
    memcpy(device->slice_sizes, sizes, count * sizeof *sizes);
    device->slice_count = count;
    return MUSTER_OK;
}

static muster_status sim_slice_open(void *state, size_t index, void *slice_state,
                                    struct muster_device_info *info, struct muster_error *err)
{
    struct sim_device *device = state, *slice = slice_state;
    INVARIANT(index < device->slice_count);
    slice->sim = device->sim;
    slice->model = device->model;
    slice->index = device->index;
    /* A slice computes in proportion; memory and links are the whole device's. */
    slice->model.cores = device->slice_sizes[index];
    slice->model.can_slice = false;
    slice->model.items_per_s *= (double)device->slice_sizes[index] / device->model.cores;
    slice->model.weight *= (double)device->slice_sizes[index] / device->model.cores;
    return start_device(slice, info, err);
}

static void sim_slice_unplan(void *state)
{
    ((struct sim_device *)state)->slice_count = 0;
}

static void forget(struct sim_device *device, uint64_t bytes)
{
    queue_lock(device->head.queue);
    INVARIANT(device->memory_promised >= bytes);
    device->memory_promised -= bytes;
    queue_unlock(device->head.queue);
}

static muster_status sim_memory_allocate(void *state, void *stream, uint64_t bytes,
                                         struct muster_memory *out, struct muster_error *err)
{
    struct sim_device *device = state;
    (void)stream;
    muster_status status = queue_check(device->head.queue, err);
    if (status != MUSTER_OK)
        return status;
    uint64_t total = device->model.memory_bytes;
    queue_lock(device->head.queue);
    uint64_t now_ns = device->start_ns > 0 ? platform_clock_ns() - device->start_ns : 0;
    bool fits = bytes <= total - device->memory_promised &&
                !model_memory_fails(&device->model, &device->state, now_ns);
    uint64_t left = total - device->memory_promised;
    if (fits)
        device->memory_promised += bytes;
    queue_unlock(device->head.queue);
    if (!fits)
        return muster_error_fill(err, MUSTER_E_DEVICE_MEMORY, 0,
                                 "free memory, or ask for less at a time",
                                 "the simulated device refused %llu bytes; %llu are free",
                                 (unsigned long long)bytes, (unsigned long long)left);
    status = queue_memory_take(device->head.queue, bytes, -1, out, err);
    if (status != MUSTER_OK)
        forget(device, bytes);
    return status;
}

static muster_status sim_memory_free(void *state, void *stream, struct muster_memory *memory,
                                     struct muster_error *err)
{
    struct sim_device *device = state;
    (void)stream; /* not in stream order: the runtime calls this when the device has finished with
                     the memory */
    uint64_t bytes = memory->bytes;
    muster_status status = queue_memory_give(device->head.queue, NULL, memory, err);
    if (status == MUSTER_OK)
        forget(device, bytes);
    return status;
}

const struct muster_backend backend_sim = {
    .size = sizeof(struct muster_backend),
    .abi = MUSTER_BACKEND_ABI,
    .name = "sim",
    .backend_bytes = sizeof(struct sim),
    .device_bytes = sizeof(struct sim_device),
    .open = sim_open,
    .close = sim_close,
    .device_open = sim_device_open,
    .device_close = sim_device_close,
    .device_sample = sim_device_sample,
    .slice_plan = sim_slice_plan,
    .slice_open = sim_slice_open,
    .slice_unplan = sim_slice_unplan,
    .memory_allocate = sim_memory_allocate,
    .memory_free = sim_memory_free,
    QUEUE_TABLE,
};
