#include "backend/cuda/nvml.h"

#include <string.h>

#define LIBRARY "libnvidia-ml.so.1"
#define SUCCESS 0
#define SENSOR_GPU 0

static int look_up(struct cuda_nvml *nvml, const char *symbol, void *member)
{
    void *found = platform_library_symbol(&nvml->library, symbol);
    memcpy(member, &found, sizeof found);
    return found != NULL;
}

void cuda_nvml_open(struct cuda_nvml *nvml)
{
    *nvml = (struct cuda_nvml){ .init = NULL };
    if (platform_library_open(&nvml->library, LIBRARY, NULL) != MUSTER_OK)
        return;
    if (look_up(nvml, "nvmlInit_v2", &nvml->init) &&
        look_up(nvml, "nvmlShutdown", &nvml->shutdown) &&
        look_up(nvml, "nvmlDeviceGetHandleByPciBusId_v2", &nvml->by_pci) &&
        look_up(nvml, "nvmlDeviceGetUtilizationRates", &nvml->utilisation) &&
        look_up(nvml, "nvmlDeviceGetTemperature", &nvml->temperature) && nvml->init() == SUCCESS)
        return;
    platform_library_close(&nvml->library);
}

void cuda_nvml_close(struct cuda_nvml *nvml)
{
    if (nvml->library.handle)
        nvml->shutdown();
    platform_library_close(&nvml->library);
}

void cuda_nvml_sample(const struct cuda_nvml *nvml, const char *pci, double *utilisation,
                      double *temperature_c)
{
    void *device;
    struct nvml_utilisation rates;
    unsigned int celsius;
    if (!nvml->library.handle || nvml->by_pci(pci, &device) != SUCCESS)
        return;
    if (nvml->utilisation(device, &rates) == SUCCESS)
        *utilisation = rates.gpu / 100.0;
    if (nvml->temperature(device, SENSOR_GPU, &celsius) == SUCCESS)
        *temperature_c = celsius;
}
