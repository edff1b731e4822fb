/*
 * Everything the library tells about the devices of this machine and about the backends it asked.
 */
#ifndef CLI_INVENTORY_H
#define CLI_INVENTORY_H

#include <muster/device.h>

struct inventory_device {
    struct muster_device_info info;
    struct muster_device_load load;
};

struct inventory {
    struct inventory_device *devices; /* owns */
    size_t device_count;
    struct muster_backend_report *backends; /* owns */
    size_t backend_count;
};

/* Asks an open runtime. Nothing needs to be released after a failure. */
muster_status inventory_init(struct inventory *inventory, struct muster *m,
                             struct muster_error *err);
void inventory_deinit(struct inventory *inventory);

#endif
