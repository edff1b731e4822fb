#include "platform/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <muster/backend.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S UINT64_C(1000000000)

int platform_shared_create(const char *name, size_t bytes, struct muster_error *err)
{
    int descriptor = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    bool is_whole = descriptor >= 0 && ftruncate(descriptor, (off_t)bytes) == 0 &&
                    fallocate(descriptor, 0, 0, (off_t)bytes) == 0 &&
                    fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
    if (is_whole)
        return descriptor;
    muster_error_fill(err, MUSTER_E_NO_MEMORY, errno, "free memory of the machine",
                      "no shared memory of %zu bytes: %s", bytes, strerror(errno));
    if (descriptor >= 0)
        close(descriptor);
    return -1;
}

void *platform_shared_map(int descriptor, size_t bytes)
{
    struct stat found;
    if (fstat(descriptor, &found) != 0 || found.st_size < 0 || (size_t)found.st_size < bytes)
        return NULL;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void platform_shared_unmap(void *memory, size_t bytes)
{
    if (memory)
        munmap(memory, bytes);
}

void platform_word_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t timeout_ns)
{
    const struct timespec timeout = { .tv_sec = (time_t)(timeout_ns / NS_PER_S),
                                      .tv_nsec = (long)(timeout_ns % NS_PER_S) };
    syscall(SYS_futex, word, FUTEX_WAIT, seen, &timeout, NULL, 0);
}

void platform_word_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
