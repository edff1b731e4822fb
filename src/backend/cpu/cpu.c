/*
 * The processors of this machine as devices. Streams, events and launches are those of
 * backend/queue.h over one worker per core; memory is the process's own, near the node, and is
 * freed in stream order.
 */
#include "backend/cpu/cpu.h"

#include "backend/queue.h"
#include "platform/machine.h"

/*
 * What user code that will not return gets at close, after the runtime has waited for it already.
 */
#define CLOSE_GRACE_NS 50000000u
/* Streams are urgent or not. */
#define PRIORITY_GREATEST (-1)

struct cpu {
    const struct muster_services *services; /* borrowed until close */
    struct platform_node *nodes;            /* owns */
    uint32_t node_count;
};

struct cpu_device {
    struct queue_device_state head; /* first, as queue.h asks */
    struct cpu *cpu;
    const struct platform_node *node; /* borrowed from cpu */
};
_Static_assert(offsetof(struct cpu_device, head) == 0, "queue.h expects its state first");

static muster_status cpu_open(void *state, const struct muster_services *services,
                              uint32_t *device_count, struct muster_error *err)
{
    struct cpu *cpu = state;
    cpu->services = services;
    muster_status status =
        platform_nodes_find(services->allocator, &cpu->nodes, &cpu->node_count, err);
    if (status == MUSTER_OK)
        *device_count = cpu->node_count;
    return status;
}

static void cpu_close(void *state)
{
    struct cpu *cpu = state;
    platform_nodes_free(cpu->services->allocator, cpu->nodes, cpu->node_count);
}

/* A machine with one node is asked as a whole, which knows of control groups. */
static void measure(const struct cpu_device *device, uint64_t *total, uint64_t *available)
{
    uint64_t node_total, node_available;
    platform_memory(total, available);
    if (device->cpu->node_count > 1 &&
        platform_node_memory(device->node->number, &node_total, &node_available)) {
        *total = node_total < *total ? node_total : *total;
        *available = node_available < *available ? node_available : *available;
    }
}

static muster_status cpu_device_open(void *state, uint32_t index, void *device_state,
                                     struct muster_device_info *info, struct muster_error *err)
{
    struct cpu *cpu = state;
    struct cpu_device *device = device_state;
    device->cpu = cpu;
    device->node = &cpu->nodes[index];
    uint32_t workers =
        cpu->services->cpu_workers > 0 ? cpu->services->cpu_workers : device->node->core_count;
    const struct queue_options options = { .allocator = cpu->services->allocator,
                                           .thread_name = "muster-cpu",
                                           .worker_count = workers,
                                           .priority_greatest = PRIORITY_GREATEST,
                                           .cores =
                                               cpu->node_count > 1 ? &device->node->cores : NULL };
    muster_status status = queue_create(&device->head.queue, &options, err);
    if (status != MUSTER_OK)
        return status;
    platform_processor_name(info->name, sizeof info->name);
    /* All nodes live in this process and die with it. */
    info->domain = 0;
    info->cores = device->node->core_count;
    info->numa_node = device->node->number;
    info->capabilities = MUSTER_CAN_WAIT_VALUE | MUSTER_CAN_STREAM_MEMORY | MUSTER_CAN_PRIORITIES |
                         MUSTER_CAN_USE_HOST_MEMORY | MUSTER_CAN_RUN_IN_PIECES | MUSTER_CAN_DOUBLE;
    info->priority_greatest = PRIORITY_GREATEST;
    info->forms = MUSTER_KERNEL_FUNCTION;
    info->weight = 1.0;
    info->kind = MUSTER_KIND_CPU;
    uint64_t available;
    measure(device, &info->memory_total, &available);
    return MUSTER_OK;
}

static muster_status cpu_device_close(void *state)
{
    struct cpu_device *device = state;
    return queue_destroy(device->head.queue, CLOSE_GRACE_NS);
}

static muster_status cpu_device_sample(void *state, struct muster_device_sample *sample,
                                       struct muster_error *err)
{
    (void)err;
    *sample = (struct muster_device_sample){ .utilisation = -1, .temperature_c = -300 };
    measure(state, &sample->memory_total, &sample->memory_free);
    return MUSTER_OK;
}

static muster_status cpu_memory_allocate(void *state, void *stream, uint64_t bytes,
                                         struct muster_memory *out, struct muster_error *err)
{
    struct cpu_device *device = state;
    (void)stream; /* memory that nobody has used yet can be used at once */
    return queue_memory_take(device->head.queue, bytes, device->node->number, out, err);
}

static muster_status cpu_memory_free(void *state, void *stream, struct muster_memory *memory,
                                     struct muster_error *err)
{
    struct cpu_device *device = state;
    return queue_memory_give(device->head.queue, stream, memory, err);
}

const struct muster_backend backend_cpu = {
    .size = sizeof(struct muster_backend),
    .abi = MUSTER_BACKEND_ABI,
    .name = "cpu",
    .backend_bytes = sizeof(struct cpu),
    .device_bytes = sizeof(struct cpu_device),
    .open = cpu_open,
    .close = cpu_close,
    .device_open = cpu_device_open,
    .device_close = cpu_device_close,
    .device_sample = cpu_device_sample,
    .memory_allocate = cpu_memory_allocate,
    .memory_free = cpu_memory_free,
    QUEUE_TABLE,
};
