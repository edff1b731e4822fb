/*
 * What the kernel's own files say of the machine: memory, processor, environment, files. Nodes are
 * in nodes.c.
 */
#include "platform/machine.h"

#include "base/allocator.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <muster/backend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A small file of the kernel's as text; -1 if it cannot be read. */
static ssize_t read_small(const char *path, char *out, size_t bytes)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    size_t got = 0;
    while (got < bytes - 1) {
        ssize_t step = read(file, out + got, bytes - 1 - got);
        if (step < 0 && errno == EINTR)
            continue;
        if (step <= 0)
            break;
        got += (size_t)step;
    }
    close(file);
    out[got] = 0;
    return (ssize_t)got;
}

/* The number after `key` in a file of "key: number kB" lines, in bytes. */
static bool find_kib(const char *text, const char *key, uint64_t *bytes)
{
    const char *at = strstr(text, key);
    if (!at)
        return false;
    *bytes = strtoull(at + strlen(key), NULL, 10) * 1024;
    return true;
}

/* A control group's number; "max" and whatever is no number mean no limit. */
static bool read_limit(const char *path, uint64_t *out)
{
    char text[64];
    if (read_small(path, text, sizeof text) <= 0 || text[0] < '0' || text[0] > '9')
        return false;
    *out = strtoull(text, NULL, 10);
    return true;
}

/* The folder of the process's own version 2 control group, "" if it has none. */
static void find_group(char *out, size_t bytes)
{
    char text[4096];
    out[0] = 0;
    if (read_small("/proc/self/cgroup", text, sizeof text) <= 0)
        return;
    const char *line = strncmp(text, "0::", 3) == 0 ? text : strstr(text, "\n0::");
    if (!line)
        return;
    line = strchr(line, '/');
    size_t length = line ? strcspn(line, "\n") : 0;
    if (length > 1 && length + 16 < bytes)
        snprintf(out, bytes, "/sys/fs/cgroup%.*s", (int)length, line);
    else
        snprintf(out, bytes, "/sys/fs/cgroup");
}

/* Tightens total and available by the limits of the process's group and of those above it. */
static void apply_group_limits(uint64_t *total, uint64_t *available)
{
    char group[1024], path[1100];
    for (find_group(group, sizeof group); strlen(group) >= strlen("/sys/fs/cgroup");) {
        uint64_t limit, used;
        snprintf(path, sizeof path, "%s/memory.max", group);
        if (read_limit(path, &limit)) {
            snprintf(path, sizeof path, "%s/memory.current", group);
            if (!read_limit(path, &used))
                used = 0;
            uint64_t left = used < limit ? limit - used : 0;
            *total = limit < *total ? limit : *total;
            *available = left < *available ? left : *available;
        }
        *strrchr(group, '/') = 0;
    }
}

void platform_memory(uint64_t *total, uint64_t *available)
{
    char text[4096];
    *total = *available = 0;
    if (read_small("/proc/meminfo", text, sizeof text) > 0) {
        find_kib(text, "MemTotal:", total);
        find_kib(text, "MemAvailable:", available);
    }
    if (*total == 0) {
        *total = (uint64_t)sysconf(_SC_PHYS_PAGES) * platform_page_bytes();
        *available = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * platform_page_bytes();
    }
    apply_group_limits(total, available);
}

bool platform_node_memory(int32_t node, uint64_t *total, uint64_t *available)
{
    char path[64], text[4096];
    if (node < 0)
        return false;
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/meminfo", node);
    uint64_t free_bytes, cache = 0;
    if (read_small(path, text, sizeof text) <= 0 || !find_kib(text, "MemTotal:", total) ||
        !find_kib(text, "MemFree:", &free_bytes))
        return false;
    /* The kernel gives no MemAvailable per node; the page cache is what it would add. */
    find_kib(text, "FilePages:", &cache);
    *available = free_bytes + cache < *total ? free_bytes + cache : *total;
    return true;
}

void platform_processor_name(char *out, size_t bytes)
{
    /* One line of it is enough, and the file has hundreds of lines on a large machine. */
    char text[4096];
    snprintf(out, bytes, "CPU");
    if (read_small("/proc/cpuinfo", text, sizeof text) <= 0)
        return;
    char *at = strstr(text, "model name");
    at = at ? strchr(at, ':') : NULL;
    if (!at)
        return;
    at += strspn(at, ": \t");
    snprintf(out, bytes, "%.*s", (int)strcspn(at, "\n"), at);
}

void platform_processor_features(char *out, size_t bytes)
{
    /* The first processor's list, under its x86 or its ARM name. */
    char text[16384];
    out[0] = '\0';
    if (read_small("/proc/cpuinfo", text, sizeof text) <= 0)
        return;
    char *at = strstr(text, "\nflags");
    at = at ? at : strstr(text, "\nFeatures");
    at = at ? strchr(at, ':') : NULL;
    if (at)
        snprintf(out, bytes, "%.*s", (int)strcspn(at, "\n"), at);
}

static void *heap_allocate(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    size_t rounded;
    if (__builtin_add_overflow(bytes, alignment - 1, &rounded))
        return NULL;
    return aligned_alloc(alignment, rounded & ~(alignment - 1));
}

static void heap_release(void *user, void *memory, size_t bytes)
{
    (void)user;
    (void)bytes;
    free(memory);
}

const struct muster_allocator platform_heap = { sizeof platform_heap, heap_allocate, heap_release,
                                                NULL };

uint64_t platform_page_faults(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_minflt : 0;
}

size_t platform_page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* From the kernel's interface (numaif.h belongs to a library we do not need). */
enum { POLICY_PREFERRED = 1, POLICY_INTERLEAVE = 3 };

void platform_pages_place(void *pages, size_t bytes, uint64_t nodes)
{
    if (nodes == 0)
        return;
    /* Preferred, not bound: memory further away is slower, no memory is a failure. */
    bool is_one = (nodes & (nodes - 1)) == 0;
    /* The kernel reads one bit less than it is told of. */
    (void)syscall(SYS_mbind, pages, bytes, is_one ? POLICY_PREFERRED : POLICY_INTERLEAVE, &nodes,
                  8 * sizeof nodes + 1, 0ul);
}

void *platform_pages_map(size_t bytes, int32_t node)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return NULL;
    platform_pages_place(pages, bytes, platform_node_bit(node));
    return pages;
}

void platform_pages_unmap(void *pages, size_t bytes)
{
    munmap(pages, bytes);
}

void platform_pages_prefer_large(void *pages, size_t bytes)
{
    /* A wish: where there are none, small ones do. */
    (void)madvise(pages, bytes, MADV_HUGEPAGE);
}

void platform_pages_touch(void *pages, size_t bytes)
{
    /* A wish, too: systems before Linux 5.14 do not know it. */
    (void)madvise(pages, bytes, MADV_POPULATE_WRITE);
}

void *platform_ring_map(size_t bytes)
{
    size_t both;
    if (__builtin_mul_overflow(bytes, (size_t)2, &both))
        return NULL;
    /* The address range is taken as a whole first, so that nobody maps something in between. */
    char *ring = mmap(NULL, both, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (ring == MAP_FAILED)
        return NULL;
    /*
     * Shared pages that are moved from a place of no bytes stay there too: a second view of them
     * without a file, which would count against the limits on files and, if it is too large for
     * them, end the process.
     */
    if (mmap(ring, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
            ring &&
        mremap(ring, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, ring + bytes) == ring + bytes)
        return ring;
    munmap(ring, both);
    return NULL;
}

void platform_ring_unmap(void *ring, size_t bytes)
{
    munmap(ring, 2 * bytes);
}

/*
 * From here up a piece is mapped by itself, so that it lies on the right node and goes back to the
 * system.
 */
#define MAP_FROM_BYTES ((size_t)256 << 10)

void *platform_memory_take(size_t bytes, int32_t node)
{
    if (bytes >= MAP_FROM_BYTES)
        return platform_pages_map(bytes, node);
    return aligned_alloc(64, (bytes + 63) & ~(size_t)63);
}

void platform_memory_give(void *memory, size_t bytes)
{
    if (bytes >= MAP_FROM_BYTES)
        platform_pages_unmap(memory, bytes);
    else
        free(memory);
}

uint32_t platform_folder_count(const char *path, bool (*counted)(const char *name))
{
    uint32_t count = 0;
    DIR *folder = opendir(path);
    for (const struct dirent *entry; folder && (entry = readdir(folder));)
        count += counted(entry->d_name);
    if (folder)
        closedir(folder);
    return count;
}

const char *platform_environment(const char *name)
{
    return secure_getenv(name);
}

muster_status platform_file_read(const struct muster_allocator *allocator, const char *path,
                                 size_t limit, char **out, size_t *bytes, struct muster_error *err)
{
    /* Without waiting: to open a pipe that nobody writes to would never end. */
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat facts;
    if (file < 0 || fstat(file, &facts) != 0) {
        int code = errno;
        if (file >= 0)
            close(file);
        return muster_error_fill(err, code == ENOENT ? MUSTER_E_NOT_FOUND : MUSTER_E_IO, code, NULL,
                                 "cannot open %s: %s", path, strerror(code));
    }
    muster_status status = MUSTER_OK;
    char *text = NULL;
    size_t size = (size_t)facts.st_size, got = 0;
    if (!S_ISREG(facts.st_mode)) {
        status = muster_error_fill(err, MUSTER_E_IO, 0, "name a plain file",
                                   "%s is not a plain file", path);
        goto done;
    }
    if (facts.st_size < 0 || size > limit) {
        status = muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, NULL,
                                   "%s has %lld bytes, more than the %zu allowed", path,
                                   (long long)facts.st_size, limit);
        goto done;
    }
    text = allocator_take(allocator, size + 1, 1);
    if (!text) {
        status = muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL,
                                   "no memory for the %zu bytes of %s", size, path);
        goto done;
    }
    while (got < size) {
        ssize_t step = read(file, text + got, size - got);
        if (step < 0 && errno == EINTR)
            continue;
        if (step <= 0) {
            int code = step < 0 ? errno : 0;
            status =
                muster_error_fill(err, MUSTER_E_IO, code, NULL, "cannot read %s: %s", path,
                                  code ? strerror(code) : "it became shorter while it was read");
            goto done;
        }
        got += (size_t)step;
    }
    *out = text;
    *bytes = size;
    text = NULL;
done:
    allocator_give(allocator, text, size + 1, 1);
    close(file);
    return status;
}
