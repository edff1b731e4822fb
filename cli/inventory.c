#include "inventory.h"

#include <stdio.h>
#include <stdlib.h>

static muster_status no_memory(struct muster_error *err)
{
    *err = (struct muster_error){ .size = sizeof *err, .status = MUSTER_E_NO_MEMORY };
    snprintf(err->text, sizeof err->text, "no memory for the list of devices");
    return err->status;
}

static muster_status list_devices(struct muster *m, muster_device **out, size_t *count,
                                  struct muster_error *err)
{
    muster_device *devices = NULL;
    muster_status status = muster_device_list(m, NULL, 0, count, err);
    while (status == MUSTER_E_CAPACITY) {
        muster_device *larger = realloc(devices, *count * sizeof *devices);
        if (!larger) {
            status = no_memory(err);
            break;
        }
        devices = larger;
        status = muster_device_list(m, devices, *count, count, err);
    }
    if (status != MUSTER_OK) {
        free(devices);
        return status;
    }
    *out = devices;
    return MUSTER_OK;
}

static muster_status describe_devices(struct inventory *inventory, struct muster *m,
                                      struct muster_error *err)
{
    muster_device *devices = NULL;
    size_t count = 0;
    muster_status status = list_devices(m, &devices, &count, err);
    if (status != MUSTER_OK || count == 0)
        return status;
    inventory->devices = calloc(count, sizeof *inventory->devices);
    if (!inventory->devices)
        status = no_memory(err);
    for (size_t i = 0; i < count && status == MUSTER_OK; i++) {
        struct inventory_device *device = &inventory->devices[i];
        device->info.size = sizeof device->info;
        device->load.size = sizeof device->load;
        status = muster_device_info(m, devices[i], &device->info, err);
        if (status == MUSTER_OK)
            status = muster_device_load(m, devices[i], &device->load, err);
    }
    inventory->device_count = count;
    free(devices);
    return status;
}

static muster_status describe_backends(struct inventory *inventory, struct muster *m,
                                       struct muster_error *err)
{
    size_t count = 0;
    muster_status status = muster_backend_list(m, NULL, 0, &count, err);
    if (status != MUSTER_E_CAPACITY)
        return status;
    inventory->backends = calloc(count, sizeof *inventory->backends);
    if (!inventory->backends)
        return no_memory(err);
    for (size_t i = 0; i < count; i++)
        inventory->backends[i].size = sizeof inventory->backends[i];
    inventory->backend_count = count;
    return muster_backend_list(m, inventory->backends, count, &count, err);
}

muster_status inventory_init(struct inventory *inventory, struct muster *m,
                             struct muster_error *err)
{
    *inventory = (struct inventory){ 0 };
    muster_status status = describe_devices(inventory, m, err);
    if (status == MUSTER_OK)
        status = describe_backends(inventory, m, err);
    if (status != MUSTER_OK)
        inventory_deinit(inventory);
    return status;
}

void inventory_deinit(struct inventory *inventory)
{
    free(inventory->devices);
    free(inventory->backends);
    *inventory = (struct inventory){ 0 };
}
