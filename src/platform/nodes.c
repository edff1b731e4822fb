/*
 * NUMA nodes and the cores of each that this process may use: from hwloc where it is present and
 * has something to say, else from the kernel's files. A machine with one node is answered without
 * hwloc, whose look around costs milliseconds.
 */
#include "base/allocator.h"
#include "platform/library.h"
#include "platform/machine.h"

#include <muster/backend.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Nodes beyond this many are not looked at; the largest machines known have a few hundred. */
#define NODES_MAX 1024

static void add_core(struct platform_cores *cores, unsigned core)
{
    cores->bits[core / 64] |= (uint64_t)1 << (core % 64);
}

static bool has_core(const struct platform_cores *cores, unsigned core)
{
    return cores->bits[core / 64] >> (core % 64) & 1;
}

static uint32_t count_cores(const struct platform_cores *cores)
{
    uint32_t count = 0;
    for (size_t i = 0; i < PLATFORM_CORES_MAX / 64; i++)
        count += (uint32_t)__builtin_popcountll(cores->bits[i]);
    return count;
}

/* The affinity mask; all online cores if the system does not say. */
static void find_allowed(struct platform_cores *allowed)
{
    memset(allowed, 0, sizeof *allowed);
    cpu_set_t *set = CPU_ALLOC(PLATFORM_CORES_MAX);
    size_t size = CPU_ALLOC_SIZE(PLATFORM_CORES_MAX);
    if (set && sched_getaffinity(0, size, set) == 0)
        for (unsigned core = 0; core < PLATFORM_CORES_MAX; core++)
            if (CPU_ISSET_S(core, size, set))
                add_core(allowed, core);
    if (set)
        CPU_FREE(set);
    if (count_cores(allowed) > 0)
        return;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    for (unsigned core = 0; core < PLATFORM_CORES_MAX && (long)core < (online > 0 ? online : 1);
         core++)
        add_core(allowed, core);
}

uint32_t platform_core_count(void)
{
    struct platform_cores allowed;
    find_allowed(&allowed);
    return count_cores(&allowed);
}

/*
 * Reads a list as the kernel writes it, "0-3,8", into a core set; false if there is no such file.
 */
static bool read_list(const char *path, struct platform_cores *out)
{
    char text[4096];
    memset(out, 0, sizeof *out);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t got = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[got] = 0;
    for (const char *at = text; *at >= '0' && *at <= '9';) {
        char *end;
        unsigned long first = strtoul(at, &end, 10), last = first;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (unsigned long i = first; i <= last && i < PLATFORM_CORES_MAX; i++)
            add_core(out, (unsigned)i);
        at = *end == ',' ? end + 1 : end;
    }
    return true;
}

/*
 * Keeps the node if the process may use a core of it that is on none before: where several kinds of
 * memory are near the same cores, the first listed stands for them.
 */
static void keep_node(struct platform_node *nodes, uint32_t *count, int32_t number,
                      const struct platform_cores *cores, const struct platform_cores *allowed)
{
    struct platform_node *node = &nodes[*count];
    *node = (struct platform_node){ .number = number };
    for (size_t i = 0; i < PLATFORM_CORES_MAX / 64; i++) {
        node->cores.bits[i] = cores->bits[i] & allowed->bits[i];
        for (uint32_t before = 0; before < *count; before++)
            node->cores.bits[i] &= ~nodes[before].cores.bits[i];
    }
    node->core_count = count_cores(&node->cores);
    uint64_t available;
    platform_node_memory(number, &node->memory_total, &available);
    if (node->core_count > 0)
        (*count)++;
}

static void nodes_from_kernel(struct platform_node *nodes, uint32_t *count,
                              const struct platform_cores *online,
                              const struct platform_cores *allowed)
{
    for (int number = 0; number < NODES_MAX; number++) {
        char path[80];
        struct platform_cores cores;
        if (!has_core(online, (unsigned)number))
            continue;
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", number);
        if (read_list(path, &cores))
            keep_node(nodes, count, number, &cores, allowed);
    }
}

#ifdef MUSTER_HAVE_HWLOC
#include <hwloc.h>

/*
 * The functions of hwloc that are used, looked up at run time: the library must load where hwloc is
 * not installed.
 */
#define HWLOC_LIST(X)                                                                              \
    X(hwloc_get_api_version)                                                                       \
    X(hwloc_topology_init)                                                                         \
    X(hwloc_topology_destroy)                                                                      \
    X(hwloc_topology_load)                                                                         \
    X(hwloc_topology_set_all_types_filter)                                                         \
    X(hwloc_topology_set_type_filter)                                                              \
    X(hwloc_get_type_depth)                                                                        \
    X(hwloc_get_nbobjs_by_depth)                                                                   \
    X(hwloc_get_obj_by_depth)                                                                      \
    X(hwloc_bitmap_isset)

struct hwloc_functions {
#define HWLOC_MEMBER(name) __typeof__(name) *name##_;
    HWLOC_LIST(HWLOC_MEMBER)
#undef HWLOC_MEMBER
};

static bool hwloc_functions_find(struct hwloc_functions *f, const struct platform_library *library)
{
    bool found = true;
#define HWLOC_FIND(name)                                                                           \
    {                                                                                              \
        void *symbol = platform_library_symbol(library, #name);                                    \
        memcpy(&f->name##_, &symbol, sizeof symbol);                                               \
        found = found && symbol;                                                                   \
    }
    HWLOC_LIST(HWLOC_FIND)
#undef HWLOC_FIND
    /* Structures are laid out as in the header only within a major version. */
    return found && f->hwloc_get_api_version_() >> 16 == HWLOC_API_VERSION >> 16;
}

static void nodes_from_topology(const struct hwloc_functions *f, hwloc_topology_t topology,
                                struct platform_node *nodes, uint32_t *count,
                                const struct platform_cores *allowed)
{
    int depth = f->hwloc_get_type_depth_(topology, HWLOC_OBJ_NUMANODE);
    unsigned found = f->hwloc_get_nbobjs_by_depth_(topology, depth);
    for (unsigned i = 0; i < found && *count < NODES_MAX; i++) {
        hwloc_obj_t node = f->hwloc_get_obj_by_depth_(topology, depth, i);
        struct platform_cores cores = { { 0 } };
        for (unsigned core = 0; core < PLATFORM_CORES_MAX; core++)
            if (f->hwloc_bitmap_isset_(node->cpuset, core))
                add_core(&cores, core);
        uint32_t before = *count;
        keep_node(nodes, count, (int32_t)node->os_index, &cores, allowed);
        if (*count > before && node->attr->numanode.local_memory > 0)
            nodes[before].memory_total = node->attr->numanode.local_memory;
    }
}

static void nodes_from_hwloc(struct platform_node *nodes, uint32_t *count,
                             const struct platform_cores *allowed)
{
    struct platform_library library = { NULL };
    struct hwloc_functions f;
    if (platform_library_open(&library, "libhwloc.so.15", NULL) != MUSTER_OK)
        return;
    hwloc_topology_t topology;
    if (hwloc_functions_find(&f, &library) && f.hwloc_topology_init_(&topology) == 0) {
        /*
         * Nodes and processing units are always kept; caches and cards cost time and are not asked
         * for. Groups are, where they tell something: without them a node would show the cores of
         * whatever is above it.
         */
        f.hwloc_topology_set_all_types_filter_(topology, HWLOC_TYPE_FILTER_KEEP_NONE);
        f.hwloc_topology_set_type_filter_(topology, HWLOC_OBJ_GROUP,
                                          HWLOC_TYPE_FILTER_KEEP_STRUCTURE);
        if (f.hwloc_topology_load_(topology) == 0)
            nodes_from_topology(&f, topology, nodes, count, allowed);
        f.hwloc_topology_destroy_(topology);
    }
    platform_library_close(&library);
}

/* hwloc can be told of another machine than the kernel shows. */
static bool hwloc_was_told(void)
{
    return platform_environment("HWLOC_SYNTHETIC") || platform_environment("HWLOC_XMLFILE");
}
#else
static void nodes_from_hwloc(struct platform_node *nodes, uint32_t *count,
                             const struct platform_cores *allowed)
{
    (void)nodes;
    (void)count;
    (void)allowed;
}

static bool hwloc_was_told(void)
{
    return false;
}
#endif

muster_status platform_nodes_find(const struct muster_allocator *allocator,
                                  struct platform_node **nodes, uint32_t *count,
                                  struct muster_error *err)
{
    struct platform_cores allowed, online;
    find_allowed(&allowed);
    bool several =
        read_list("/sys/devices/system/node/online", &online) && count_cores(&online) > 1;
    bool ask_hwloc = several || hwloc_was_told();
    uint32_t capacity = ask_hwloc ? NODES_MAX : 1, found = 0;
    struct platform_node *all = allocator_take(allocator, capacity, sizeof *all);
    if (!all)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL,
                                 "no memory for the list of NUMA nodes");
    if (ask_hwloc)
        nodes_from_hwloc(all, &found, &allowed);
    if (found == 0 && several)
        nodes_from_kernel(all, &found, &online, &allowed);
    /* One node, or none that the machine tells of: all allowed cores belong together. */
    if (found == 0)
        keep_node(all, &found, several ? -1 : 0, &allowed, &allowed);
    struct platform_node *exact = allocator_take(allocator, found, sizeof *exact);
    if (exact)
        memcpy(exact, all, found * sizeof *exact);
    allocator_give(allocator, all, capacity, sizeof *all);
    if (!exact)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL,
                                 "no memory for the list of NUMA nodes");
    *nodes = exact;
    *count = found;
    return MUSTER_OK;
}

void platform_nodes_free(const struct muster_allocator *allocator, struct platform_node *nodes,
                         uint32_t count)
{
    allocator_give(allocator, nodes, count, sizeof *nodes);
}
