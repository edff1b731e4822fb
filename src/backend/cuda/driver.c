#include "backend/cuda/driver.h"

#include <muster/backend.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libcuda.so.1"

static muster_status say_too_old(const struct cuda_driver *driver, const char *symbol,
                                 struct muster_error *err)
{
    return muster_error_fill(
        err, MUSTER_E_NOT_SUPPORTED, 0, "install a driver for CUDA " CUDA_DRIVER_WANTED " or later",
        "the NVIDIA driver is for CUDA %d.%d and has no %s; CUDA %s is wanted",
        driver->version / 1000, driver->version % 1000 / 10, symbol, CUDA_DRIVER_WANTED);
}

muster_status cuda_driver_open(struct cuda_driver *driver, struct muster_error *err)
{
    struct muster_error words = { .size = sizeof words };
    if (platform_library_open(&driver->library, LIBRARY, &words) != MUSTER_OK)
        return muster_error_fill(err, MUSTER_E_NOT_FOUND, 0,
                                 "install NVIDIA's driver if there is such a GPU", "%.200s",
                                 words.text);
    const char *missing = NULL;
#define LOOK_UP(member, symbol, parameters)                                                        \
    {                                                                                              \
        void *found = platform_library_symbol(&driver->library, #symbol);                          \
        memcpy(&driver->member, &found, sizeof found);                                             \
    }
#define REQUIRE(member, symbol, parameters)                                                        \
    if (!driver->member && !missing)                                                               \
        missing = #symbol;
    CUDA_REQUIRED(LOOK_UP)
    CUDA_OPTIONAL(LOOK_UP)
    CUDA_REQUIRED(REQUIRE)
#undef LOOK_UP
#undef REQUIRE
    if (driver->driver_version)
        driver->driver_version(&driver->version);
    if (!missing)
        return MUSTER_OK;
    muster_status status = say_too_old(driver, missing, err);
    cuda_driver_close(driver);
    return status;
}

void cuda_driver_close(struct cuda_driver *driver)
{
    platform_library_close(&driver->library);
}

enum { LOSES_CONTEXT = 1 };

/* What an answer means to the caller, and what would help. Others are the driver's refusal. */
static const struct meaning {
    cuda_result result;
    muster_status status;
    unsigned flags;
    const char *fix;
} meanings[] = {
    { CUDA_INVALID_VALUE, MUSTER_E_INVALID, 0, NULL },
    { CUDA_INVALID_HANDLE, MUSTER_E_INVALID, 0, NULL },
    { CUDA_INVALID_CONTEXT, MUSTER_E_INVALID, 0, NULL },
    { CUDA_INVALID_DEVICE, MUSTER_E_INVALID, 0, NULL },
    { CUDA_ALREADY_REGISTERED, MUSTER_E_INVALID, 0, "register memory once" },
    { CUDA_NOT_REGISTERED, MUSTER_E_INVALID, 0, NULL },
    { CUDA_OUT_OF_MEMORY, MUSTER_E_DEVICE_MEMORY, 0, "free memory, or ask for less at a time" },
    { CUDA_LAUNCH_RESOURCES, MUSTER_E_INVALID, 0, "give the form fewer threads" },
    { CUDA_NO_DEVICE, MUSTER_E_NOT_FOUND, 0, NULL },
    { CUDA_STUB_LIBRARY, MUSTER_E_NOT_FOUND, 0, "take the toolkit's stubs off the library path" },
    { CUDA_NOT_READY, MUSTER_E_BUSY, 0, NULL },
    { CUDA_NOT_FOUND, MUSTER_E_NOT_FOUND, 0, NULL },
    { CUDA_NOT_SUPPORTED, MUSTER_E_NOT_SUPPORTED, 0, NULL },
    { CUDA_NOT_PERMITTED, MUSTER_E_NOT_SUPPORTED, 0, NULL },
    { CUDA_RESOURCE_CONFIGURATION, MUSTER_E_NOT_SUPPORTED, 0, NULL },
    { CUDA_NEWER_DRIVER, MUSTER_E_NOT_SUPPORTED, 0, "install a newer driver" },
    { CUDA_DRIVER_MISMATCH, MUSTER_E_NOT_SUPPORTED, 0,
      "load the kernel module that came with the driver's library" },
    { CUDA_NOT_COMPATIBLE, MUSTER_E_NOT_SUPPORTED, 0,
      "take CUDA's compatibility libraries off the library path" },
    { CUDA_NO_BINARY, MUSTER_E_NOT_SUPPORTED, 0, "build it for this GPU, or give PTX as well" },
    { CUDA_NEWER_PTX, MUSTER_E_NOT_SUPPORTED, 0, "make the PTX for an older version" },
    { CUDA_NO_JIT, MUSTER_E_NOT_SUPPORTED, 0, "install libnvidia-ptxjitcompiler, or give a cubin" },
    { CUDA_JIT_DISABLED, MUSTER_E_NOT_SUPPORTED, 0, "give a cubin, or allow compilation" },
    { CUDA_INVALID_PTX, MUSTER_E_INVALID, 0, "look at the PTX, and what it was made for" },
    { CUDA_INVALID_IMAGE, MUSTER_E_INVALID, 0, "give a cubin, a fat binary or PTX" },
    { CUDA_INVALID_SOURCE, MUSTER_E_INVALID, 0, "give a cubin, a fat binary or PTX" },
    { CUDA_OPERATING_SYSTEM, MUSTER_E_DRIVER, 0, "look at the limit on locked memory" },
    { CUDA_DEVICE_UNAVAILABLE, MUSTER_E_DRIVER, 0,
      "see which other process holds the GPU (compute mode)" },
    { CUDA_ILLEGAL_ADDRESS, MUSTER_E_DEVICE_LOST, LOSES_CONTEXT,
      "look at what the kernel touches" },
    { CUDA_LAUNCH_TIMEOUT, MUSTER_E_DEVICE_LOST, LOSES_CONTEXT, "make units smaller" },
    { CUDA_ASSERT, MUSTER_E_DEVICE_LOST, LOSES_CONTEXT, "look at the kernel's assertion" },
    { CUDA_HARDWARE_STACK, MUSTER_E_DEVICE_LOST, LOSES_CONTEXT, NULL },
    { CUDA_ILLEGAL_INSTRUCTION, MUSTER_E_DEVICE_LOST, LOSES_CONTEXT, NULL },
    { CUDA_MISALIGNED, MUSTER_E_DEVICE_LOST, LOSES_CONTEXT, "look at the kernel's alignments" },
    { CUDA_ADDRESS_SPACE, MUSTER_E_DEVICE_LOST, LOSES_CONTEXT, NULL },
    { CUDA_INVALID_PC, MUSTER_E_DEVICE_LOST, LOSES_CONTEXT, NULL },
    { CUDA_LAUNCH_FAILED, MUSTER_E_DEVICE_LOST, LOSES_CONTEXT, NULL },
    { CUDA_TENSOR_MEMORY, MUSTER_E_DEVICE_LOST, LOSES_CONTEXT, NULL },
    { CUDA_ECC, MUSTER_E_DEVICE_LOST, LOSES_CONTEXT, "take the GPU out of service" },
    { CUDA_NVLINK, MUSTER_E_DEVICE_LOST, LOSES_CONTEXT, NULL },
    { CUDA_CONTAINED, MUSTER_E_DEVICE_LOST, LOSES_CONTEXT, NULL },
    { CUDA_EXTERNAL_DEVICE, MUSTER_E_DEVICE_LOST, LOSES_CONTEXT, NULL },
    { CUDA_CONTEXT_DESTROYED, MUSTER_E_DEVICE_LOST, LOSES_CONTEXT,
      "do not reset the device while it is in use" },
    { CUDA_DEINITIALIZED, MUSTER_E_DEVICE_LOST, LOSES_CONTEXT,
      "close the runtime before the process ends" },
    { CUDA_MPS_TERMINATED, MUSTER_E_DEVICE_LOST, LOSES_CONTEXT, NULL },
    { CUDA_UNKNOWN, MUSTER_E_DEVICE_LOST, LOSES_CONTEXT, "look at the system's log for Xid" },
};

static const struct meaning *meaning_of(cuda_result result)
{
    static const struct meaning refused = { .status = MUSTER_E_DRIVER };
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].result == result)
            return &meanings[i];
    return &refused;
}

muster_status cuda_driver_error(const struct cuda_driver *driver, cuda_result result,
                                const char *what, struct muster_error *err)
{
    const struct meaning *meaning = meaning_of(result);
    const char *name = NULL, *words = NULL;
    driver->error_name(result, &name);
    driver->error_string(result, &words);
    return muster_error_fill(err, meaning->status, (int)result, meaning->fix, "%s: %s (%s)", what,
                             name ? name : "an error unknown to the driver",
                             words ? words : "no words for it");
}

bool cuda_driver_is_loss(cuda_result result)
{
    return (meaning_of(result)->flags & LOSES_CONTEXT) != 0;
}
