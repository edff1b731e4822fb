/*
 * The backend's table, and whole devices: found, described, sampled, closed. Each GPU is used in
 * its primary context, the one the CUDA runtime, cuBLAS and PyTorch use, which is retained and
 * never reset.
 */
#include "backend/cuda/cuda.h"
#include "backend/cuda/state.h"
#include "base/allocator.h"
#include "platform/machine.h"

#include <stdio.h>
#include <string.h>

/* A multiprocessor at 1 GHz, where all cores of a NUMA node count as 1. */
#define WEIGHT_PER_MULTIPROCESSOR_GHZ 0.1
#define GRID_X_LEAST 65535 /* that every GPU has */

static muster_status cuda_open(void *state, const struct muster_services *services,
                               uint32_t *device_count, struct muster_error *err)
{
    struct cuda_backend *backend = state;
    backend->services = services;
    muster_status status = cuda_driver_open(&backend->driver, err);
    if (status != MUSTER_OK)
        return status;
    /* From here on the library stays loaded: it has threads, and the process may use it too. */
    cuda_result result = backend->driver.init(0);
    if (result == CUDA_SUCCESS_)
        result = backend->driver.device_count(&backend->device_count);
    if (result != CUDA_SUCCESS_)
        return cuda_driver_error(&backend->driver, result, "starting NVIDIA's driver", err);
    if (backend->device_count <= 0)
        return muster_error_fill(err, MUSTER_E_NOT_FOUND, 0, NULL,
                                 "NVIDIA's driver finds no GPU on this machine");
    status = cuda_registrations_init(backend, err);
    if (status != MUSTER_OK)
        return status;
    cuda_nvml_open(&backend->nvml);
    *device_count = (uint32_t)backend->device_count;
    return MUSTER_OK;
}

static bool is_gpu(const char *name)
{
    return *name != '.';
}

static bool is_gpu_file(const char *name)
{
    return strncmp(name, "nvidia", 6) == 0 && name[6] >= '0' && name[6] <= '9';
}

static bool is_gpu_of_windows(const char *name)
{
    return strcmp(name, "dxg") == 0;
}

/* Starting the driver takes some 0.4 s where there is a GPU, and hardly any time where there is none. */
static int cuda_is_slow(uint32_t *device_count)
{
    uint32_t count = platform_folder_count("/proc/driver/nvidia/gpus", is_gpu);
    if (count == 0)
        count = platform_folder_count("/dev", is_gpu_file);
    if (count == 0)
        count = platform_folder_count("/dev", is_gpu_of_windows);
    *device_count = count;
    return count > 0;
}

static void cuda_close(void *state)
{
    struct cuda_backend *backend = state;
    cuda_nvml_close(&backend->nvml);
    cuda_registrations_deinit(backend);
}

static int attribute(const struct cuda_domain *domain, cuda_attribute which, int otherwise)
{
    int value = 0;
    return domain->backend->driver.device_attribute(&value, which, domain->number) == CUDA_SUCCESS_
               ? value
               : otherwise;
}

static int32_t node_of(const struct cuda_domain *domain)
{
    const struct muster_allocator *allocator = domain->backend->services->allocator;
    int node = attribute(domain, CUDA_ATTRIBUTE_HOST_NUMA, -1);
    if (node >= 0)
        return node;
    char path[64], *text;
    size_t bytes;
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", domain->info.pci);
    if (platform_file_read(allocator, path, 4096, &text, &bytes, NULL) != MUSTER_OK)
        return -1;
    if (sscanf(text, "%d", &node) != 1 || node < 0)
        node = -1;
    allocator_give(allocator, text, bytes + 1, 1);
    return node;
}

static bool can_slice(const struct cuda_domain *domain)
{
    const struct cuda_driver *driver = &domain->backend->driver;
    cuda_resource whole;
    return driver->device_resource && driver->resource_split && driver->resource_describe &&
           driver->green_create && driver->green_destroy && driver->green_stream &&
           driver->device_resource(domain->number, &whole, CUDA_RESOURCE_SM) == CUDA_SUCCESS_;
}

static uint32_t capabilities_of(const struct cuda_domain *domain)
{
    const struct cuda_driver *driver = &domain->backend->driver;
    uint32_t can = MUSTER_CAN_DOUBLE;
    if (driver->stream_wait_value && attribute(domain, CUDA_ATTRIBUTE_WAIT_VALUE_64, 0))
        can |= MUSTER_CAN_WAIT_VALUE;
    if (domain->pool)
        can |= MUSTER_CAN_STREAM_MEMORY;
    if (cuda_graphs_exist(driver))
        can |= MUSTER_CAN_GRAPHS;
    if (can_slice(domain))
        can |= MUSTER_CAN_SLICE;
    if (domain->info.priority_greatest < domain->info.priority_least)
        can |= MUSTER_CAN_PRIORITIES;
    return can;
}

/* As nvidia-smi writes it. Part of a GPU that is partitioned (MIG) says so in its name. */
static void describe_uuid(const struct cuda_domain *domain, struct muster_device_info *info)
{
    const struct cuda_driver *driver = &domain->backend->driver;
    cuda_uuid uuid;
    if (!driver->device_uuid || driver->device_uuid(&uuid, domain->number) != CUDA_SUCCESS_)
        return;
    size_t length = (size_t)snprintf(info->uuid, sizeof info->uuid, "%s",
                                     strstr(info->name, " MIG ") ? "MIG-" : "GPU-");
    for (size_t i = 0; i < sizeof uuid.bytes; i++) {
        bool is_group_end = i == 3 || i == 5 || i == 7 || i == 9;
        length += (size_t)snprintf(info->uuid + length, sizeof info->uuid - length, "%02x%s",
                                   (unsigned)(unsigned char)uuid.bytes[i], is_group_end ? "-" : "");
    }
}

/* With the context current. */
static void describe(struct cuda_domain *domain)
{
    const struct cuda_driver *driver = &domain->backend->driver;
    struct muster_device_info *info = &domain->info;
    size_t total = 0;
    int least = 0, greatest = 0;
    if (driver->device_name(info->name, sizeof info->name, domain->number) != CUDA_SUCCESS_ ||
        !info->name[0])
        snprintf(info->name, sizeof info->name, "NVIDIA GPU");
    if (driver->device_pci(info->pci, sizeof info->pci, domain->number) != CUDA_SUCCESS_)
        info->pci[0] = 0;
    for (char *at = info->pci; *at; at++)
        if (*at >= 'A' && *at <= 'F')
            *at = (char)(*at - 'A' + 'a');
    describe_uuid(domain, info);
    if (driver->device_total(&total, domain->number) == CUDA_SUCCESS_)
        info->memory_total = total;
    info->compute[0] = (uint16_t)attribute(domain, CUDA_ATTRIBUTE_COMPUTE_MAJOR, 0);
    info->compute[1] = (uint16_t)attribute(domain, CUDA_ATTRIBUTE_COMPUTE_MINOR, 0);
    info->cores = (uint32_t)attribute(domain, CUDA_ATTRIBUTE_MULTIPROCESSORS, 1);
    info->copy_engines = (uint32_t)attribute(domain, CUDA_ATTRIBUTE_COPY_ENGINES, 0);
    info->numa_node = node_of(domain);
    if (attribute(domain, CUDA_ATTRIBUTE_PRIORITIES, 0) &&
        driver->context_priorities(&least, &greatest) == CUDA_SUCCESS_) {
        info->priority_least = least;
        info->priority_greatest = greatest;
    }
    info->capabilities = capabilities_of(domain);
    info->kind = MUSTER_KIND_GPU;
    info->forms = MUSTER_KERNEL_CUBIN | MUSTER_KERNEL_PTX;
    domain->blocks_max = (uint32_t)attribute(domain, CUDA_ATTRIBUTE_GRID_X, GRID_X_LEAST);
    int clock_khz = attribute(domain, CUDA_ATTRIBUTE_CLOCK_KHZ, 0);
    double ghz = clock_khz > 0 ? clock_khz / 1e6 : 1.0;
    info->weight = info->cores * ghz * WEIGHT_PER_MULTIPROCESSOR_GHZ;
}

/*
 * A pool of our own, so that what others do with theirs does not matter here: it keeps what is
 * freed, and never makes a stream wait for another's free.
 */
static void make_pool(struct cuda_domain *domain)
{
    const struct cuda_driver *driver = &domain->backend->driver;
    const struct muster_services *services = domain->backend->services;
    cuda_pool_properties properties = { .allocation_type = CUDA_ALLOCATION_PINNED,
                                        .location = { .type = CUDA_LOCATION_DEVICE,
                                                      .id = domain->number } };
    uint64_t all = UINT64_MAX;
    int no = 0;
    cuda_result result = CUDA_NOT_SUPPORTED;
    if (attribute(domain, CUDA_ATTRIBUTE_MEMORY_POOLS, 0))
        result = driver->pool_create(&domain->pool, &properties);
    if (result == CUDA_SUCCESS_)
        result = driver->pool_set(domain->pool, CUDA_POOL_RELEASE_THRESHOLD, &all);
    if (result == CUDA_SUCCESS_)
        result = driver->pool_set(domain->pool, CUDA_POOL_REUSE_BY_WAITING, &no);
    if (result == CUDA_SUCCESS_)
        return;
    if (domain->pool)
        driver->pool_destroy(domain->pool);
    domain->pool = NULL;
    services->log(services, MUSTER_LOG_INFO,
                  "a GPU has no memory pools: its memory is not allocated in stream order, and "
                  "freeing some waits for all that runs");
}

static void free_domain(struct cuda_domain *domain)
{
    const struct cuda_driver *driver = &domain->backend->driver;
    cuda_context popped;
    if (driver->context_push(domain->context) == CUDA_SUCCESS_) {
        cuda_pinned_free_all(domain);
        if (domain->pool)
            driver->pool_destroy(domain->pool);
        if (domain->service)
            driver->stream_destroy(domain->service);
        driver->context_pop(&popped);
    } else {
        cuda_pinned_free_all(domain);
    }
    driver->primary_release(domain->number);
}

static muster_status cuda_device_open(void *state, uint32_t index, void *device_state,
                                      struct muster_device_info *info, struct muster_error *err)
{
    struct cuda_device *device = device_state;
    struct cuda_domain *domain = &device->own;
    struct cuda_backend *backend = state;
    const struct cuda_driver *driver = &backend->driver;
    struct cuda_scope scope;
    device->domain = domain;
    domain->backend = backend;
    domain->info.domain = index;
    cuda_result result = driver->device_get(&domain->number, (int)index);
    if (result == CUDA_SUCCESS_)
        result = driver->primary_retain(&domain->context, domain->number);
    if (result != CUDA_SUCCESS_)
        return cuda_driver_error(driver, result, "opening a GPU", err);
    muster_status status = cuda_enter(&scope, domain, err);
    if (status == MUSTER_OK) {
        make_pool(domain);
        describe(domain);
        result = driver->stream_create(&domain->service, CUDA_FLAG_STREAM_NON_BLOCKING, 0);
        status = cuda_leave(&scope, result, "making a stream", err);
    }
    if (status == MUSTER_OK)
        status = cuda_domain_init(domain, err);
    if (status != MUSTER_OK) {
        free_domain(domain);
        return status;
    }
    size_t size = info->size;
    *info = domain->info;
    info->size = size;
    return MUSTER_OK;
}

static muster_status cuda_device_close(void *state)
{
    struct cuda_device *device = state;
    struct cuda_domain *domain = device->domain;
    if (!cuda_domain_settle(device)) {
        cuda_domain_abandon(device);
        return MUSTER_E_DEVICE_HUNG;
    }
    if (device->green) {
        const struct cuda_driver *driver = &domain->backend->driver;
        struct cuda_scope scope;
        if (cuda_enter(&scope, domain, NULL) == MUSTER_OK)
            cuda_leave(&scope, driver->stream_destroy(device->default_stream), "", NULL);
        driver->green_destroy(device->green);
        return MUSTER_OK;
    }
    if (!cuda_domain_deinit(domain))
        return MUSTER_E_DEVICE_HUNG;
    free_domain(domain);
    return MUSTER_OK;
}

static muster_status cuda_device_sample(void *state, struct muster_device_sample *sample,
                                        struct muster_error *err)
{
    struct cuda_domain *domain = ((struct cuda_device *)state)->domain;
    struct cuda_scope scope;
    size_t free_bytes = 0, total = 0;
    muster_status status = cuda_enter(&scope, domain, err);
    if (status != MUSTER_OK)
        return status;
    const struct cuda_driver *driver = &domain->backend->driver;
    uint64_t reserved = 0, used = 0;
    cuda_result result = driver->memory_info(&free_bytes, &total);
    /* What our pool keeps is there for the next that asks us for memory. */
    if (result == CUDA_SUCCESS_ && domain->pool)
        result = driver->pool_get(domain->pool, CUDA_POOL_RESERVED, &reserved);
    if (result == CUDA_SUCCESS_ && domain->pool)
        result = driver->pool_get(domain->pool, CUDA_POOL_USED, &used);
    status = cuda_leave(&scope, result, "asking for free memory", err);
    if (status != MUSTER_OK)
        return status;
    /* The numbers are of different moments. */
    uint64_t kept = reserved > used ? reserved - used : 0;
    *sample =
        (struct muster_device_sample){ .memory_free =
                                           kept < total - free_bytes ? free_bytes + kept : total,
                                       .memory_total = total,
                                       .utilisation = -1,
                                       .temperature_c = -300 };
    cuda_nvml_sample(&domain->backend->nvml, domain->info.pci, &sample->utilisation,
                     &sample->temperature_c);
    return MUSTER_OK;
}

const struct muster_backend backend_cuda = {
    .size = sizeof(struct muster_backend),
    .abi = MUSTER_BACKEND_ABI,
    .name = "cuda",
    .backend_bytes = sizeof(struct cuda_backend),
    .device_bytes = sizeof(struct cuda_device),
    .stream_bytes = sizeof(struct cuda_stream),
    .event_bytes = sizeof(struct cuda_event),
    .gate_bytes = sizeof(struct cuda_gate),
    .kernel_bytes = sizeof(struct cuda_kernel),
    .open = cuda_open,
    .close = cuda_close,
    .device_open = cuda_device_open,
    .device_close = cuda_device_close,
    .device_sample = cuda_device_sample,
    .slice_plan = cuda_slice_plan,
    .slice_open = cuda_slice_open,
    .slice_unplan = cuda_slice_unplan,
    .memory_allocate = cuda_memory_allocate,
    .memory_free = cuda_memory_free,
    .host_register = cuda_host_register,
    .host_is_fast = cuda_host_is_fast,
    .is_slow = cuda_is_slow,
    .host_unregister = cuda_host_unregister,
    .stream_open = cuda_stream_open,
    .stream_close = cuda_stream_close,
    .stream_native = cuda_stream_native,
    .native_enter = cuda_native_enter,
    .native_leave = cuda_native_leave,
    .stream_wait = cuda_stream_wait,
    .stream_query = cuda_stream_query,
    .event_init = cuda_event_init,
    .event_deinit = cuda_event_deinit,
    .event_record = cuda_event_record,
    .event_query = cuda_event_query,
    .event_wait = cuda_event_wait,
    .event_elapsed = cuda_event_elapsed,
    .gate_init = cuda_gate_init,
    .gate_deinit = cuda_gate_deinit,
    .gate_publish = cuda_gate_publish,
    .gate_wait = cuda_gate_wait,
    .copy = cuda_copy,
    .fill = cuda_fill,
    .host_call = cuda_host_call,
    .kernel_init = cuda_kernel_init,
    .kernel_deinit = cuda_kernel_deinit,
    .launch = cuda_launch,
    .stream_open_apart = cuda_stream_open_apart,
};
