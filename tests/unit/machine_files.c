/*
 * The machine as the kernel's files show it. The files are the test's own, in a folder that stands
 * for the root, so that a control group, several nodes and a processor of another make can be
 * tested anywhere. Reads can be interrupted, cut short and made to fail.
 */
#include "base/allocator.h"
#include "platform/library.h"
#include "platform/machine.h"
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#define KIB UINT64_C(1024)

static struct counting counting = COUNTING_INIT;
static uint64_t pieces_left = UINT64_MAX; /* that the allocator still gives */
static char root[64];                     /* "": the machine's own */
static size_t read_bytes_max;             /* of one read; 0: any */
static bool is_interrupted;               /* every second read */
static int read_code, stat_code;          /* what fails, with that errno; 0: nothing */
static bool ends_early;                   /* the file is shorter than it was */

static void *scarce_allocate(void *user, size_t bytes, size_t alignment)
{
    if (pieces_left == 0)
        return NULL;
    pieces_left--;
    return counting_allocate(user, bytes, alignment);
}

static const struct muster_allocator allocator = { sizeof allocator, scarce_allocate,
                                                   counting_release, &counting };

static const char *shown(const char *path, char out[256])
{
    if (!*root || (strncmp(path, "/proc/", 6) != 0 && strncmp(path, "/sys/", 5) != 0))
        return path;
    snprintf(out, 256, "%s%s", root, path);
    return out;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    char other[256];
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    return __real_open(shown(path, other), flags, mode);
}

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode)
{
    char other[256];
    return __real_fopen(shown(path, other), mode);
}

ssize_t __real_read(int file, void *to, size_t bytes);
ssize_t __wrap_read(int file, void *to, size_t bytes);
ssize_t __wrap_read(int file, void *to, size_t bytes)
{
    static unsigned calls;
    if (is_interrupted && calls++ % 2 == 0) {
        errno = EINTR;
        return -1;
    }
    if (read_code) {
        errno = read_code;
        return -1;
    }
    if (ends_early)
        return 0;
    return __real_read(file, to, read_bytes_max && bytes > read_bytes_max ? read_bytes_max : bytes);
}

int __real_fstat(int file, struct stat *facts);
int __wrap_fstat(int file, struct stat *facts);
int __wrap_fstat(int file, struct stat *facts)
{
    errno = stat_code;
    return stat_code ? -1 : __real_fstat(file, facts);
}

static const char *allowed_list; /* the cores of the process, by numbers; NULL: the system's */

int __real_sched_getaffinity(pid_t process, size_t bytes, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t process, size_t bytes, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t process, size_t bytes, cpu_set_t *set)
{
    if (!allowed_list)
        return __real_sched_getaffinity(process, bytes, set);
    if (strcmp(allowed_list, "refused") == 0) {
        /* As much of an answer as may be left in the memory. */
        memset(set, 0xff, bytes);
        errno = EINVAL;
        return -1;
    }
    memset(set, 0, bytes);
    for (const char *at = allowed_list; *at;) {
        char *end;
        unsigned long core = strtoul(at, &end, 10);
        CPU_SET_S(core, bytes, set);
        at = *end ? end + 1 : end;
    }
    return 0;
}

/* hwloc, which looks at the machine in its own ways, is not here. */
muster_status __wrap_platform_library_open(struct platform_library *library, const char *path,
                                           struct muster_error *err);
muster_status __wrap_platform_library_open(struct platform_library *library, const char *path,
                                           struct muster_error *err)
{
    (void)path;
    (void)err;
    library->handle = NULL;
    return MUSTER_E_NOT_FOUND;
}

static unsigned count_descriptors(void)
{
    unsigned count = 0;
    DIR *directory = opendir("/proc/self/fd");
    CHECK(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

static unsigned descriptors;

static void begin(void)
{
    descriptors = count_descriptors();
    strcpy(root, "/tmp/muster-machine-XXXXXX");
    CHECK(mkdtemp(root));
}

static void remove_all(const char *path)
{
    char inner[1024];
    DIR *directory = opendir(path);
    for (const struct dirent *entry; directory && (entry = readdir(directory));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
        if (unlink(inner) != 0)
            remove_all(inner);
    }
    if (directory)
        closedir(directory);
    rmdir(path);
}

static void end(void)
{
    remove_all(root);
    root[0] = 0;
    allowed_list = NULL;
    read_bytes_max = 0;
    is_interrupted = ends_early = false;
    read_code = stat_code = 0;
    CHECK_EQUAL(descriptors, count_descriptors());
    CHECK_EQUAL(0, counting.bytes);
}

/* The kernel shows this text at that path. */
static void show(const char *path, const char *text)
{
    char whole[256];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *at = whole + strlen(root) + 1; (at = strchr(at, '/')); *at++ = '/') {
        *at = 0;
        mkdir(whole, 0700);
    }
    FILE *file = __real_fopen(whole, "w");
    CHECK(file);
    fputs(text, file);
    fclose(file);
}

static void hide(const char *path)
{
    char whole[256];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    unlink(whole);
}

static void check_memory(uint64_t total, uint64_t available)
{
    uint64_t found_total = 77, found_available = 77;
    platform_memory(&found_total, &found_available);
    CHECK_EQUAL(total, found_total);
    CHECK_EQUAL(available, found_available);
}

#define MEMINFO                                                                                    \
    "MemTotal:        1000 kB\nMemFree:  10 kB\nMemAvailable:     600 kB\nBuffers:    3 kB\n"

static void memory_is_the_machine_s_or_the_group_s(void)
{
    begin();
    show("/proc/meminfo", MEMINFO);
    /* No group, then only groups of the first version, which are no limit. */
    check_memory(1000 * KIB, 600 * KIB);
    show("/sys/fs/cgroup/memory.max", "1\n");
    check_memory(1000 * KIB, 600 * KIB);
    show("/proc/self/cgroup", "12:memory:/a/b\n3:cpu:/\n");
    check_memory(1000 * KIB, 600 * KIB);
    hide("/sys/fs/cgroup/memory.max");
    static const char *const lines[] = { "0::/a/b\n", "12:memory:/x\n3:cpu:/y\n0::/a/b\n",
                                         "0::/a/b" };
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        show("/proc/self/cgroup", lines[i]);
        hide("/sys/fs/cgroup/a/b/memory.current");
        show("/sys/fs/cgroup/a/b/memory.max", "max\n");
        check_memory(1000 * KIB, 600 * KIB);
        show("/sys/fs/cgroup/a/b/memory.max", "500000\n");
        check_memory(500000, 500000);
        show("/sys/fs/cgroup/a/b/memory.current", "200000\n");
        check_memory(500000, 300000);
        show("/sys/fs/cgroup/a/b/memory.current", "500000\n");
        check_memory(500000, 0);
        show("/sys/fs/cgroup/a/b/memory.current", "500001\n");
        check_memory(500000, 0);
        /* More than there is, is no limit. */
        show("/sys/fs/cgroup/a/b/memory.max", "900000000\n");
        check_memory(1000 * KIB, 600 * KIB);
        show("/sys/fs/cgroup/a/b/memory.max", "9\n");
        show("/sys/fs/cgroup/a/b/memory.current", "0\n");
        check_memory(9, 9);
    }
    end();
}

static void every_group_above_is_a_limit_too(void)
{
    begin();
    show("/proc/meminfo", MEMINFO);
    show("/proc/self/cgroup", "0::/a/b\n");
    show("/sys/fs/cgroup/a/b/memory.max", "500000\n");
    show("/sys/fs/cgroup/a/b/memory.current", "100000\n");
    show("/sys/fs/cgroup/a/memory.max", "450000\n");
    show("/sys/fs/cgroup/a/memory.current", "440000\n");
    check_memory(450000, 10000);
    show("/sys/fs/cgroup/memory.max", "300000\n");
    show("/sys/fs/cgroup/memory.current", "0\n");
    check_memory(300000, 10000);
    /* Within a container the process's own group is shown as the root. */
    show("/proc/self/cgroup", "0::/\n");
    check_memory(300000, 300000);
    /* A group whose path is too long to follow: the root still holds. */
    char line[2048];
    memset(line, 'x', sizeof line);
    memcpy(line, "0::/", 4);
    strcpy(line + 1500, "\n");
    show("/proc/self/cgroup", line);
    check_memory(300000, 300000);
    end();
}

static void memory_is_known_without_files_too(void)
{
    begin();
    uint64_t total = 0, available = 0;
    platform_memory(&total, &available);
    CHECK_EQUAL((uint64_t)sysconf(_SC_PHYS_PAGES) * platform_page_bytes(), total);
    CHECK(available > 0 && available <= total);
    end();
}

static void a_node_s_memory_counts_its_cache(void)
{
    begin();
    uint64_t total = 0, available = 0;
    CHECK(!platform_node_memory(0, &total, &available));
    show("/sys/devices/system/node/node0/meminfo",
         "Node 0 MemTotal:  1000 kB\nNode 0 MemFree:  300 kB\nNode 0 FilePages: 200 kB\n");
    CHECK(platform_node_memory(0, &total, &available));
    CHECK_EQUAL(1000 * KIB, total);
    CHECK_EQUAL(500 * KIB, available);
    show("/sys/devices/system/node/node12/meminfo",
         "Node 12 MemTotal:  1000 kB\nNode 12 MemFree:  300 kB\nNode 12 FilePages: 800 kB\n");
    CHECK(platform_node_memory(12, &total, &available));
    CHECK_EQUAL(1000 * KIB, available);
    show("/sys/devices/system/node/node12/meminfo",
         "Node 12 MemTotal:  1000 kB\nNode 12 MemFree:  300 kB\n");
    CHECK(platform_node_memory(12, &total, &available));
    CHECK_EQUAL(300 * KIB, available);
    show("/sys/devices/system/node/node12/meminfo", "Node 12 MemTotal:  1000 kB\n");
    CHECK(!platform_node_memory(12, &total, &available));
    show("/sys/devices/system/node/node12/meminfo", "Node 12 MemFree:  1000 kB\n");
    CHECK(!platform_node_memory(12, &total, &available));
    show("/sys/devices/system/node/node12/meminfo", "");
    CHECK(!platform_node_memory(12, &total, &available));
    CHECK(!platform_node_memory(-1, &total, &available));
    end();
}

static void check_processor(const char *name, const char *features)
{
    char found[64];
    platform_processor_name(found, sizeof found);
    CHECK_TEXT(name, found);
    platform_processor_features(found, sizeof found);
    CHECK_TEXT(features, found + strspn(found, ": \t"));
}

static void the_processor_is_what_it_says(void)
{
    begin();
    check_processor("CPU", "");
    show("/proc/cpuinfo", "");
    check_processor("CPU", "");
    show("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Fast 9000 @ 3 GHz\nflags\t\t: fpu vme\n"
                          "bugs\t: none\n\nprocessor\t: 1\nmodel name\t: Other\nflags\t\t: x\n");
    check_processor("Fast 9000 @ 3 GHz", "fpu vme");
    /* In pieces, with interruptions. */
    read_bytes_max = 3;
    is_interrupted = true;
    check_processor("Fast 9000 @ 3 GHz", "fpu vme");
    read_bytes_max = 0;
    is_interrupted = false;
    read_code = EIO;
    check_processor("CPU", "");
    read_code = 0;
    show("/proc/cpuinfo",
         "processor\t: 0\nBogoMIPS\t: 50\nFeatures\t: fp asimd\nCPU part: 0xd0c\n");
    check_processor("CPU", "fp asimd");
    show("/proc/cpuinfo", "model name");
    check_processor("CPU", "");
    show("/proc/cpuinfo", "\nflags");
    check_processor("CPU", "");
    show("/proc/cpuinfo", "model name: abcdefgh\nflags: abcdefgh\n");
    char small[4];
    platform_processor_name(small, sizeof small);
    CHECK_TEXT("abc", small);
    platform_processor_features(small, sizeof small);
    CHECK_EQUAL(3, strlen(small));
    end();
}

/* `expected` is "number:cores/..." for each node, as "0:0,1/3:64". */
static void check_nodes(const char *expected)
{
    struct platform_node *nodes = NULL;
    uint32_t count = 0;
    char text[512] = "";
    MUST(platform_nodes_find(&allocator, &nodes, &count, &problem));
    for (uint32_t i = 0; i < count; i++) {
        size_t at = strlen(text);
        snprintf(text + at, sizeof text - at, "%s%d:", i ? "/" : "", nodes[i].number);
        uint32_t cores = 0;
        for (unsigned core = 0; core < PLATFORM_CORES_MAX; core++)
            if (nodes[i].cores.bits[core / 64] >> core % 64 & 1) {
                at = strlen(text);
                snprintf(text + at, sizeof text - at, "%s%u", cores++ ? "," : "", core);
            }
        CHECK_EQUAL(cores, nodes[i].core_count);
    }
    CHECK_TEXT(expected, text);
    if (strcmp(expected, "0:0,1/3:64") == 0) {
        CHECK_EQUAL(0, nodes[0].memory_total);
        CHECK_EQUAL(1000 * KIB, nodes[1].memory_total);
    }
    platform_nodes_free(&allocator, nodes, count);
    CHECK_EQUAL(0, counting.bytes);
    CHECK_EQUAL(0, counting.wrong);
}

static void nodes_are_read_from_the_kernel_s_files(void)
{
    begin();
    allowed_list = "0,1,64";
    check_nodes("0:0,1,64");
    show("/sys/devices/system/node/online", "0\n");
    check_nodes("0:0,1,64");
    show("/sys/devices/system/node/online", "0,3\n");
    show("/sys/devices/system/node/node3/cpulist", "64-65\n");
    show("/sys/devices/system/node/node3/meminfo",
         "Node 3 MemTotal:  1000 kB\nNode 3 MemFree:  300 kB\n");
    /* Node 0 does not say what it has; what is on none of those that do is not used. */
    check_nodes("3:64");
    show("/sys/devices/system/node/node0/cpulist", "0-3,8-9\n");
    check_nodes("0:0,1/3:64");
    /* A node that is not online is not looked at, also if it has files. */
    show("/sys/devices/system/node/node1/cpulist", "0-100\n");
    check_nodes("0:0,1/3:64");
    show("/sys/devices/system/node/online", "0-3\n");
    check_nodes("0:0,1/1:64");
    allowed_list = "9,10,65";
    check_nodes("0:9/1:10,65");
    /* None of them has a core that may be used. */
    show("/sys/devices/system/node/online", "0,3\n");
    allowed_list = "200,4095";
    check_nodes("-1:200,4095");
    /* Cores beyond what is counted. */
    show("/sys/devices/system/node/node3/cpulist", "4000-4100,5000\n");
    check_nodes("3:4095");
    /* No memory, at the first and at the second piece. */
    for (uint64_t left = 0; left < 2; left++) {
        struct platform_node *nodes = NULL;
        uint32_t count = 77;
        pieces_left = left;
        muster_status status = platform_nodes_find(&allocator, &nodes, &count, &problem);
        pieces_left = UINT64_MAX;
        CHECK_STATUS(MUSTER_E_NO_MEMORY, status);
        CHECK(!nodes && count == 77);
        CHECK_EQUAL(0, counting.bytes);
    }
    end();
}

static void cores_are_those_that_are_allowed(void)
{
    begin();
    allowed_list = "0,1,63,64,4095";
    CHECK_EQUAL(5, platform_core_count());
    uint32_t online = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    allowed_list = "refused";
    CHECK_EQUAL(online, platform_core_count());
    allowed_list = "";
    CHECK_EQUAL(online, platform_core_count());
    char expected[512] = "0:0";
    for (uint32_t i = 1; i < online && i < 100; i++)
        snprintf(expected + strlen(expected), 8, ",%u", i);
    if (online <= 100)
        check_nodes(expected);
    end();
}

static void a_file_is_read_whole_however_the_system_cuts_it(void)
{
    begin();
    char path[128], *text = NULL;
    size_t bytes = 77;
    show("/file", "0123456789");
    snprintf(path, sizeof path, "%s/file", root);
    read_bytes_max = 3;
    is_interrupted = true;
    MUST(platform_file_read(&allocator, path, 100, &text, &bytes, &problem));
    CHECK_EQUAL(10, bytes);
    CHECK_TEXT("0123456789", text);
    allocator_give(&allocator, text, bytes + 1, 1);
    CHECK_EQUAL(0, counting.bytes);
    is_interrupted = false;
    bytes = 77;
    text = NULL;
    read_code = EISDIR;
    CHECK_STATUS(MUSTER_E_IO, platform_file_read(&allocator, path, 100, &text, &bytes, &problem));
    CHECK_EQUAL(EISDIR, problem.driver_code);
    read_code = 0;
    ends_early = true;
    CHECK_STATUS(MUSTER_E_IO, platform_file_read(&allocator, path, 100, &text, &bytes, &problem));
    CHECK_EQUAL(0, problem.driver_code);
    ends_early = false;
    pieces_left = 0;
    CHECK_STATUS(MUSTER_E_NO_MEMORY,
                 platform_file_read(&allocator, path, 100, &text, &bytes, &problem));
    pieces_left = UINT64_MAX;
    CHECK(!text && bytes == 77);
    CHECK_EQUAL(0, counting.bytes);
    end();
}

/* A process may have closed its standard input: the next file is number 0. */
static void descriptor_0_is_a_file_like_others(void)
{
    begin();
    char path[128], *text = NULL;
    size_t bytes;
    show("/file", "0123456789");
    snprintf(path, sizeof path, "%s/file", root);
    show("/proc/cpuinfo", "model name: abc\n");
    int kept = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    CHECK(kept >= 0);
    close(STDIN_FILENO);
    muster_status status = platform_file_read(&allocator, path, 100, &text, &bytes, &problem);
    bool is_closed = fcntl(STDIN_FILENO, F_GETFD) < 0;
    stat_code = EIO;
    muster_status failed = platform_file_read(&allocator, path, 100, &text, &bytes, &problem);
    stat_code = 0;
    is_closed = is_closed && fcntl(STDIN_FILENO, F_GETFD) < 0;
    char name[16];
    platform_processor_name(name, sizeof name);
    is_closed = is_closed && fcntl(STDIN_FILENO, F_GETFD) < 0;
    CHECK_EQUAL(STDIN_FILENO, dup2(kept, STDIN_FILENO));
    close(kept);
    CHECK_STATUS(MUSTER_OK, status);
    CHECK_TEXT("0123456789", text);
    allocator_give(&allocator, text, bytes + 1, 1);
    CHECK_STATUS(MUSTER_E_IO, failed);
    CHECK_EQUAL(EIO, problem.driver_code);
    CHECK_TEXT("abc", name);
    CHECK(is_closed);
    /* The same where there is a standard input. */
    stat_code = EIO;
    CHECK_STATUS(MUSTER_E_IO, platform_file_read(&allocator, path, 100, &text, &bytes, &problem));
    end();
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(memory_is_the_machine_s_or_the_group_s),
        TEST(every_group_above_is_a_limit_too),
        TEST(memory_is_known_without_files_too),
        TEST(a_node_s_memory_counts_its_cache),
        TEST(the_processor_is_what_it_says),
        TEST(nodes_are_read_from_the_kernel_s_files),
        TEST(cores_are_those_that_are_allowed),
        TEST(a_file_is_read_whole_however_the_system_cuts_it),
        TEST(descriptor_0_is_a_file_like_others),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
