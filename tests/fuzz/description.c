/*
 * Descriptions of devices from any bytes: a refusal says where, and what is accepted is a device
 * whose model keeps its promises.
 */
#include "model/description.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void look_at_values(const struct model_device *device)
{
    require(device->name[0] && memchr(device->name, '\0', sizeof device->name));
    require(device->items_per_s > 0 && device->items_per_s <= DBL_MAX);
    require(device->memory_bytes > 0 && device->cores > 0);
    require(device->h2d_bytes_per_s >= 0 && device->d2h_bytes_per_s >= 0 && device->weight >= 0);
    require(device->jitter >= 0 && device->jitter < 1);
    require(device->fault_count <= MODEL_FAULTS_MAX);
    for (uint32_t i = 0; i < device->fault_count; i++) {
        const struct model_fault *fault = &device->faults[i];
        require(fault->kind <= MODEL_FAULT_MEMORY && fault->factor > 0);
        require(fault->probability >= 0 && fault->probability <= 1);
    }
}

static void look_at_behaviour(const struct model_device *device)
{
    struct model_state state;
    model_state_init(&state, 1, 0);
    uint64_t now_ns = 0;
    for (uint64_t i = 1; i <= 8; i++) {
        struct model_run run = model_launch(device, &state, now_ns, (double)(i * i));
        require(state.launches == i && run.finish_ns >= now_ns);
        require(!run.fails || run.finish_ns != MODEL_NEVER);
        if (run.finish_ns == MODEL_NEVER)
            break;
        require(model_health_at(device, &state, run.finish_ns) == MODEL_OK);
        now_ns = run.finish_ns;
    }
    uint64_t copied_ns = model_copy_finish_ns(device, &state, MODEL_LINK_D2H, now_ns, UINT64_MAX);
    require(copied_ns >= now_ns &&
            (copied_ns == MODEL_NEVER || model_health_at(device, &state, copied_ns) == MODEL_OK));
    model_memory_fails(device, &state, now_ns);
    for (uint32_t changes = 0; now_ns != MODEL_NEVER; changes++) {
        require(changes <= 2 * MODEL_FAULTS_MAX);
        uint64_t change_ns = model_next_change_ns(device, &state, now_ns);
        require(change_ns > now_ns);
        if (change_ns != MODEL_NEVER)
            require(model_health_at(device, &state, now_ns) ==
                        model_health_at(device, &state, change_ns - 1) &&
                    model_health_at(device, &state, now_ns) !=
                        model_health_at(device, &state, change_ns));
        now_ns = change_ns;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct model_device devices[4];
    struct muster_error err;
    size_t needed = 0, count = 0;
    muster_status counted = model_describe((const char *)data, size, NULL, 0, &needed, &err);
    require(counted == MUSTER_E_CAPACITY || counted == MUSTER_E_PARSE);
    if (counted == MUSTER_E_PARSE) {
        require(needed == 0 && strncmp(err.text, "line ", 5) == 0 && err.fix[0]);
        return 0;
    }
    muster_status status = model_describe((const char *)data, size, devices, 4, &count, NULL);
    require(count == needed && status == (needed <= 4 ? MUSTER_OK : MUSTER_E_CAPACITY));
    for (size_t i = 0; status == MUSTER_OK && i < count; i++) {
        look_at_values(&devices[i]);
        look_at_behaviour(&devices[i]);
    }
    return 0;
}
