/*
 * The interface between a program and an NVTX tool, version 3, in declarations of our own: the program hands
 * the tool tables of pointers, and the tool writes its functions through them. tests/checks/nvtx_declarations.c
 * compares them with NVIDIA's headers where those are installed.
 */
#include "observe/nvtx.h"

#include "observe/nvtx_abi.h"
#include "platform/library.h"
#include "platform/machine.h"
#include "platform/thread.h"

#include <muster/backend.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

_Atomic bool nvtx_has_profiler;

/* What the tool writes to; those that it does not want stay NULL. */
static nvtx_function functions[NVTX_ABI_MODULES][NVTX_ABI_FUNCTIONS_MAX];
static nvtx_function *tables[NVTX_ABI_MODULES][NVTX_ABI_FUNCTIONS_MAX + 1];
static const unsigned sizes[NVTX_ABI_MODULES] = NVTX_ABI_SIZES;

static struct {
    void *domain;
    nvtx_range_start start;
    nvtx_range_end end;
    nvtx_range_push push;
    nvtx_range_pop pop;
} tool;

static int get_table(int module, nvtx_function ***table, unsigned *size)
{
    if (module <= 0 || module >= NVTX_ABI_MODULES)
        return 0;
    if (table)
        *table = tables[module];
    if (size)
        *size = sizes[module];
    return 1;
}

static void note_version(uint32_t version)
{
    (void)version;
}

static const void *get_export_table(uint32_t id)
{
    static const struct nvtx_callbacks callbacks = { sizeof callbacks, get_table };
    static const struct nvtx_version version = { sizeof version, NVTX_ABI_VERSION, 0,
                                                 note_version };
    return id == NVTX_ABI_CALLBACKS  ? (const void *)&callbacks
           : id == NVTX_ABI_VERSIONS ? (const void *)&version
                                     : NULL;
}

/* A pointer to a function is as large as one to data wherever there is a loader. */
static void take_function(void *to, uint32_t id)
{
    memcpy(to, &functions[NVTX_ABI_CORE2][id], sizeof(nvtx_function));
}

static void name_all(void)
{
    static const char *const names[] = { [NVTX_JOBS] = "jobs",
                                         [NVTX_UNITS] = "units",
                                         [NVTX_TASKS] = "tasks",
                                         [NVTX_DELIVERIES] = "deliveries" };
    nvtx_domain_create create;
    nvtx_name_category name;
    take_function(&create, NVTX_ABI_DOMAIN_CREATE);
    take_function(&name, NVTX_ABI_NAME_CATEGORY);
    tool.domain = create ? create("muster") : NULL;
    for (uint32_t i = NVTX_JOBS; name && i < NVTX_CATEGORY_END; i++)
        name(tool.domain, i, names[i]);
}

static struct platform_once started = PLATFORM_ONCE_INIT;
static struct muster_error failure; /* of the start */

static void start(void)
{
    const char *path = platform_environment("NVTX_INJECTION64_PATH");
    struct platform_library library;
    if (!path || !*path || platform_library_open(&library, path, &failure) != MUSTER_OK)
        return;
    for (int module = 1; module < NVTX_ABI_MODULES; module++)
        for (unsigned i = 1; i < sizes[module]; i++)
            tables[module][i] = &functions[module][i];
    nvtx_initialize initialize;
    void *symbol = platform_library_symbol(&library, NVTX_ABI_INITIALIZE);
    memcpy(&initialize, &symbol, sizeof symbol);
    if (!symbol || initialize(get_export_table) == 0) {
        muster_error_fill(&failure, MUSTER_E_NOT_FOUND, 0, NULL,
                          symbol ? "%s does not attach to the program" : "%s is no NVTX library",
                          path);
        platform_library_close(&library);
        return;
    }
    /* The library stays: its code may be called until the process ends. */
    take_function(&tool.start, NVTX_ABI_RANGE_START);
    take_function(&tool.end, NVTX_ABI_RANGE_END);
    take_function(&tool.push, NVTX_ABI_RANGE_PUSH);
    take_function(&tool.pop, NVTX_ABI_RANGE_POP);
    name_all();
    atomic_store_explicit(&nvtx_has_profiler, true, memory_order_release);
}

muster_status nvtx_start(struct muster_error *err)
{
    static _Atomic bool was_told;
    platform_once_run(&started, start);
    if (failure.status == MUSTER_OK || atomic_exchange(&was_told, true))
        return MUSTER_OK;
    if (err)
        *err = failure;
    return failure.status;
}

static struct nvtx_event event_of(enum nvtx_category category, uint64_t items, const char *text)
{
    /* As in the pictures: each kind has its colour. */
    static const uint32_t colours[] = { [NVTX_JOBS] = 0xff4d7f99u,
                                        [NVTX_UNITS] = 0xff3b6fd4u,
                                        [NVTX_TASKS] = 0xff22907fu,
                                        [NVTX_DELIVERIES] = 0xffd9772fu };
    return (struct nvtx_event){ .version = NVTX_ABI_VERSION,
                                .size = sizeof(struct nvtx_event),
                                .category = (uint32_t)category,
                                .colour_type = NVTX_ABI_ARGB,
                                .colour = colours[category],
                                .payload_type = NVTX_ABI_UNSIGNED_64,
                                .payload = items,
                                .message_type = NVTX_ABI_ASCII,
                                .message = text };
}

/* Tools copy the text. */
#define TEXT_BYTES 128

uint64_t nvtx_begin(enum nvtx_category category, uint64_t items, const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list arguments;
    if (!nvtx_is_on() || !tool.start)
        return 0;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    struct nvtx_event event = event_of(category, items, text);
    return tool.start(tool.domain, &event);
}

void nvtx_end(uint64_t range)
{
    if (range != 0 && tool.end)
        tool.end(tool.domain, range);
}

void nvtx_push(enum nvtx_category category, uint64_t items, const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list arguments;
    if (!nvtx_is_on() || !tool.push)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    struct nvtx_event event = event_of(category, items, text);
    tool.push(tool.domain, &event);
}

void nvtx_pop(void)
{
    if (nvtx_is_on() && tool.pop)
        tool.pop(tool.domain);
}
