/*
 * An NVTX tool that writes what it is told to the file NVTX_TOOL_LOG, a line for each call: as a profiler's
 * library is loaded and attaches itself. NVTX_TOOL_REFUSES makes it refuse to attach.
 */
#include "observe/nvtx_abi.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int InitializeInjectionNvtx2(nvtx_get_export_table get);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *log_file;
static uint64_t ranges;
static char domain;

#define WRITE(...)                                                                                 \
    do {                                                                                           \
        pthread_mutex_lock(&lock);                                                                 \
        fprintf(log_file, __VA_ARGS__);                                                            \
        fflush(log_file);                                                                          \
        pthread_mutex_unlock(&lock);                                                               \
    } while (0)

static void *create(const char *name)
{
    WRITE("domain %s\n", name);
    return &domain;
}

static void name_category(void *of, uint32_t category, const char *name)
{
    WRITE("category %u %s %d\n", category, name, of == &domain);
}

static int is_sound(void *of, const struct nvtx_event *event)
{
    return of == &domain && event->version == NVTX_ABI_VERSION && event->size == sizeof *event &&
           event->message_type == NVTX_ABI_ASCII && event->payload_type == NVTX_ABI_UNSIGNED_64;
}

static uint64_t start(void *of, const struct nvtx_event *event)
{
    pthread_mutex_lock(&lock);
    uint64_t id = ++ranges;
    fprintf(log_file, "start %llu %u %llu %d %s\n", (unsigned long long)id, event->category,
            (unsigned long long)event->payload, is_sound(of, event), event->message);
    fflush(log_file);
    pthread_mutex_unlock(&lock);
    return id;
}

static void end(void *of, uint64_t range)
{
    WRITE("end %llu %d\n", (unsigned long long)range, of == &domain);
}

static int push(void *of, const struct nvtx_event *event)
{
    WRITE("push %d %u %llu %d %s\n", (int)gettid(), event->category,
          (unsigned long long)event->payload, is_sound(of, event), event->message);
    return 0;
}

static int pop(void *of)
{
    WRITE("pop %d %d\n", (int)gettid(), of == &domain);
    return 0;
}

int InitializeInjectionNvtx2(nvtx_get_export_table get)
{
    const struct nvtx_callbacks *callbacks = get(NVTX_ABI_CALLBACKS);
    const struct nvtx_version *version = get(NVTX_ABI_VERSIONS);
    nvtx_function **table;
    unsigned size;
    const char *path = getenv("NVTX_TOOL_LOG");
    log_file = path ? fopen(path, "a") : NULL;
    if (!log_file || getenv("NVTX_TOOL_REFUSES") || !callbacks || !version)
        return 0;
    version->set_tool_version(NVTX_ABI_VERSION);
    /* As tools do: through every pointer that a module has. */
    for (int module = 1; module < NVTX_ABI_MODULES; module++) {
        if (!callbacks->get_table(module, &table, &size))
            continue;
        for (unsigned i = 1; module != NVTX_ABI_CORE2 && i < size; i++)
            *table[i] = NULL;
    }
    if (!callbacks->get_table(NVTX_ABI_CORE2, &table, &size) || size <= NVTX_ABI_DOMAIN_CREATE)
        return 0;
    *table[NVTX_ABI_DOMAIN_CREATE] = (nvtx_function)create;
    *table[NVTX_ABI_NAME_CATEGORY] = (nvtx_function)name_category;
    *table[NVTX_ABI_RANGE_START] = (nvtx_function)start;
    *table[NVTX_ABI_RANGE_END] = (nvtx_function)end;
    *table[NVTX_ABI_RANGE_PUSH] = (nvtx_function)push;
    *table[NVTX_ABI_RANGE_POP] = (nvtx_function)pop;
    return 1;
}
