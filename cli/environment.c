#include "environment.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VISIBLE "CUDA_VISIBLE_DEVICES"
#define SLICES "MUSTER_SLICES"

/* The number in "cuda:1". */
static unsigned long number_of(const char *id)
{
    const char *colon = strchr(id, ':');
    return colon ? strtoul(colon + 1, NULL, 10) : 0;
}

/*
 * By UUID, which means the same GPU in every process. Drivers before CUDA 11.4 give none; there the
 * number counts, within what is visible to us.
 */
static bool show_gpu(const struct muster_device_info *info)
{
    const char *visible = getenv(VISIBLE);
    if (*info->uuid)
        return setenv(VISIBLE, info->uuid, 1) == 0;
    unsigned long number = number_of(info->id);
    char text[64];
    snprintf(text, sizeof text, "%lu", number);
    for (unsigned long i = 0; visible && *visible; i++) {
        size_t length = strcspn(visible, ",");
        if (i == number && length < sizeof text)
            snprintf(text, sizeof text, "%.*s", (int)length, visible);
        visible += length + (visible[length] == ',');
    }
    return setenv(VISIBLE, text, 1) == 0;
}

/* Adds cores as the kernel lists them: "0-3,8". */
static void read_cores(const char *list, cpu_set_t *cores)
{
    while (*list >= '0' && *list <= '9') {
        char *end;
        unsigned long first = strtoul(list, &end, 10), last = first;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (unsigned long core = first; core <= last && core < CPU_SETSIZE; core++)
            CPU_SET(core, cores);
        list = end + (*end == ',');
    }
}

/* Whether this process now runs on the node's cores only, of those it might run on before. */
static bool keep_to_node(int node)
{
    char path[64], list[4096];
    cpu_set_t allowed, cores;
    CPU_ZERO(&cores);
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", node);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool is_read = fgets(list, sizeof list, file) != NULL;
    fclose(file);
    if (!is_read || sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return false;
    read_cores(list, &cores);
    CPU_AND(&cores, &cores, &allowed);
    return CPU_COUNT(&cores) > 0 && sched_setaffinity(0, sizeof cores, &cores) == 0;
}

/* Of MUSTER_SLICES what concerns the device, under the id that it has in the command. */
static bool rename_slices(const char *id, const char *new_id)
{
    const char *at = getenv(SLICES);
    size_t length = strlen(id);
    while (at && *at && !(strncmp(at, id, length) == 0 && at[length] == '=')) {
        at += strcspn(at, ";");
        at += strspn(at, ";");
    }
    if (!at || !*at)
        return unsetenv(SLICES) == 0;
    const char *sizes = at + length;
    size_t bytes = strlen(new_id) + strcspn(sizes, ";") + 1;
    char *text = malloc(bytes);
    if (!text)
        return false;
    snprintf(text, bytes, "%s%s", new_id, sizes);
    bool is_set = setenv(SLICES, text, 1) == 0;
    free(text);
    return is_set;
}

bool environment_set(const struct muster_device_info *info, bool is_one_of_many)
{
    const char *id = info->id;
    bool is_set = true;
    if (strcmp(info->backend, "cuda") == 0) {
        is_set = show_gpu(info);
        id = "cuda:0";
    } else if (info->kind == MUSTER_KIND_SIMULATED || strcmp(info->backend, "cpu") == 0) {
        /* Not for OpenCL's, which may be NVIDIA's own and obey it too. */
        is_set = setenv(VISIBLE, "", 1) == 0;
    }
    if (strcmp(info->backend, "cpu") == 0 && is_one_of_many && keep_to_node(info->numa_node))
        id = "cpu:0";
    return is_set && setenv("MUSTER_DEVICES", id, 1) == 0 && rename_slices(info->id, id);
}
