/*
 * The tests' libnvidia-ml.so.1: as much of NVML as says how busy and how warm a device is.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define API(name, ...)                                                                             \
    EXPORT int name(__VA_ARGS__);                                                                  \
    EXPORT int name(__VA_ARGS__)

enum { NVML_SUCCESS = 0, NVML_ERROR_INVALID_ARGUMENT = 2, NVML_ERROR_NOT_FOUND = 6 };

struct nvmlDevice_st {
    unsigned utilisation, temperature;
};
struct utilisation {
    unsigned gpu, memory;
};

API(nvmlInit_v2, void)
{
    return NVML_SUCCESS;
}

API(nvmlShutdown, void)
{
    return NVML_SUCCESS;
}

EXPORT const char *nvmlErrorString(int code);
EXPORT const char *nvmlErrorString(int code)
{
    return code == NVML_SUCCESS ? "Success" : "Not Found";
}

API(nvmlDeviceGetHandleByPciBusId_v2, const char *bus, struct nvmlDevice_st **device)
{
    static struct nvmlDevice_st only = { .utilisation = 37, .temperature = 41 };
    if (!bus || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (strncmp(bus, "0000:", 5) != 0 && strncmp(bus, "00000000:", 9) != 0)
        return NVML_ERROR_NOT_FOUND;
    *device = &only;
    return NVML_SUCCESS;
}

API(nvmlDeviceGetUtilizationRates, struct nvmlDevice_st *device, struct utilisation *out)
{
    if (!device || !out)
        return NVML_ERROR_INVALID_ARGUMENT;
    out->gpu = device->utilisation;
    out->memory = 0;
    return NVML_SUCCESS;
}

API(nvmlDeviceGetTemperature, struct nvmlDevice_st *device, int sensor, unsigned *out)
{
    if (!device || !out || sensor != 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    *out = device->temperature;
    return NVML_SUCCESS;
}
