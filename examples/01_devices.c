/*
 * Lists the devices of this machine: what they are and how much room they have.
 *
 * With MUSTER_SIM='[{"name":"fast","count":2,"items_per_s":8e6}]' in the environment, two simulated
 * ones as well.
 */
#include <muster/muster.h>
#include <stdio.h>

#define DEVICES_MAX 256

static muster_status list(struct muster *m, struct muster_error *err)
{
    muster_device devices[DEVICES_MAX];
    size_t count;
    muster_status status = muster_device_list(m, devices, DEVICES_MAX, &count, err);
    for (size_t i = 0; i < count && status == MUSTER_OK; i++) {
        struct muster_device_info info = { .size = sizeof info };
        struct muster_device_load load = { .size = sizeof load };
        if ((status = muster_device_info(m, devices[i], &info, err)) ||
            (status = muster_device_load(m, devices[i], &load, err)))
            break;
        printf("%-8s %s: %u cores, %llu of %llu MiB free, %s\n", info.id, info.name,
               (unsigned)info.cores, (unsigned long long)(load.memory_free >> 20),
               (unsigned long long)(info.memory_total >> 20), muster_health_name(load.health));
    }
    return status;
}

int main(void)
{
    struct muster *m;
    struct muster_error err;
    if (muster_open(&m, NULL, &err) != MUSTER_OK) {
        fprintf(stderr, "%s\n%s\n", err.text, err.fix);
        return 1;
    }
    muster_status status = list(m, &err);
    if (status != MUSTER_OK)
        fprintf(stderr, "%s\n%s\n", err.text, err.fix);
    muster_close(m, NULL);
    return status == MUSTER_OK ? 0 : 1;
}
