/*
 * What an NVTX tool and a program agree on, as far as it is used here.
 */
#ifndef OBSERVE_NVTX_ABI_H
#define OBSERVE_NVTX_ABI_H

#include <stddef.h>
#include <stdint.h>

#define NVTX_ABI_VERSION 3
#define NVTX_ABI_INITIALIZE "InitializeInjectionNvtx2"

/* Modules, and how many functions each has, the first being none. */
#define NVTX_ABI_MODULES 7
#define NVTX_ABI_CORE2 5
/* clang-format off */
#define NVTX_ABI_SIZES { 0, 16, 9, 15, 7, 16, 7 }
/* clang-format on */
#define NVTX_ABI_FUNCTIONS_MAX 16

/* Functions of the module CORE2. */
#define NVTX_ABI_RANGE_START 2
#define NVTX_ABI_RANGE_END 3
#define NVTX_ABI_RANGE_PUSH 4
#define NVTX_ABI_RANGE_POP 5
#define NVTX_ABI_NAME_CATEGORY 8
#define NVTX_ABI_DOMAIN_CREATE 12

#define NVTX_ABI_CALLBACKS 1
#define NVTX_ABI_VERSIONS 3

#define NVTX_ABI_ARGB 1
#define NVTX_ABI_UNSIGNED_64 1
#define NVTX_ABI_ASCII 1

struct nvtx_event {
    uint16_t version, size;
    uint32_t category;
    int32_t colour_type;
    uint32_t colour;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const char *message;
};

typedef void (*nvtx_function)(void);
typedef uint64_t (*nvtx_range_start)(void *domain, const struct nvtx_event *event);
typedef void (*nvtx_range_end)(void *domain, uint64_t range);
typedef int (*nvtx_range_push)(void *domain, const struct nvtx_event *event);
typedef int (*nvtx_range_pop)(void *domain);
typedef void *(*nvtx_domain_create)(const char *name);
typedef void (*nvtx_name_category)(void *domain, uint32_t category, const char *name);

struct nvtx_callbacks {
    size_t bytes;
    int (*get_table)(int module, nvtx_function ***table, unsigned *size);
};

struct nvtx_version {
    size_t bytes;
    uint32_t version, reserved;
    void (*set_tool_version)(uint32_t version);
};

typedef const void *(*nvtx_get_export_table)(uint32_t id);
typedef int (*nvtx_initialize)(nvtx_get_export_table get);

#endif
