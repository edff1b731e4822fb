#include "mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <muster/backend.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static muster_status read_header(struct mapped *mapped, struct muster_error *err)
{
    size_t header;
    mapped->bytes = mapped->memory;
    mapped->count = mapped->memory_bytes;
    if (mapped->count < NPY_MAGIC_BYTES || memcmp(mapped->bytes, NPY_MAGIC, NPY_MAGIC_BYTES) != 0)
        return MUSTER_OK;
    muster_status status = npy_header_bytes(mapped->bytes, mapped->count, &header, err);
    if (status == MUSTER_OK)
        status = npy_read(&mapped->npy, mapped->bytes, mapped->count, err);
    if (status != MUSTER_OK)
        return status;
    mapped->is_npy = true;
    mapped->bytes += header;
    mapped->count -= header;
    if (mapped->npy.elements != mapped->count / mapped->npy.element_bytes ||
        mapped->count % mapped->npy.element_bytes != 0)
        return muster_error_fill(err, MUSTER_E_PARSE, 0, "write it again with numpy.save",
                                 "a .npy file has %zu bytes after its header, and %llu elements of "
                                 "%zu bytes",
                                 mapped->count, (unsigned long long)mapped->npy.elements,
                                 mapped->npy.element_bytes);
    return MUSTER_OK;
}

muster_status mapped_open(struct mapped *mapped, const char *path, struct muster_error *err)
{
    struct stat known;
    *mapped = (struct mapped){ .memory = NULL };
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0 || fstat(file, &known) != 0) {
        muster_status status =
            muster_error_fill(err, errno == ENOENT ? MUSTER_E_NOT_FOUND : MUSTER_E_IO, errno, NULL,
                              "cannot read %.120s: %s", path, strerror(errno));
        if (file >= 0)
            close(file);
        return status;
    }
    muster_status status = MUSTER_OK;
    if (!S_ISREG(known.st_mode))
        status = muster_error_fill(err, MUSTER_E_INVALID, 0,
                                   "put it into a file; only the first input may be a pipe",
                                   "%.120s is no file", path);
    else if (known.st_size > 0) {
        mapped->memory = mmap(NULL, (size_t)known.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        if (mapped->memory == MAP_FAILED) {
            mapped->memory = NULL;
            status = muster_error_fill(err, MUSTER_E_IO, errno, NULL, "cannot map %.120s: %s", path,
                                       strerror(errno));
        }
        mapped->memory_bytes = mapped->memory ? (size_t)known.st_size : 0;
    }
    close(file);
    if (status == MUSTER_OK && mapped->memory)
        status = read_header(mapped, err);
    if (status != MUSTER_OK)
        mapped_close(mapped);
    return status;
}

void mapped_close(struct mapped *mapped)
{
    if (mapped->memory)
        munmap(mapped->memory, mapped->memory_bytes);
    mapped->memory = NULL;
}
