/*
 * Any bytes as the header of a .npy file: what is accepted has elements of a size, and as many as its
 * shape says, and is written and read again as the same.
 */
#include "npy.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char again[NPY_HEADER_MAX];
    struct muster_error err;
    struct npy npy, same;
    /* A copy of its own, so that a byte read behind it is noticed. */
    char *header = malloc(size > 0 ? size : 1);
    if (!header)
        return 0;
    if (size > 0)
        memcpy(header, data, size);
    muster_status status = npy_read(&npy, header, size, &err);
    free(header);
    if (status != MUSTER_OK) {
        if (status != MUSTER_E_PARSE && status != MUSTER_E_NOT_SUPPORTED)
            abort();
        return 0;
    }
    uint64_t elements = 1;
    for (size_t i = 0; i < npy.dimensions; i++)
        elements *= npy.shape[i];
    if (npy.element_bytes == 0 || npy.dimensions > NPY_DIMENSIONS_MAX || elements != npy.elements)
        abort();
    size_t bytes = npy_write(&npy, again);
    if (npy_read(&same, again, bytes, &err) != MUSTER_OK || same.kind != npy.kind ||
        same.element_bytes != npy.element_bytes || same.elements != npy.elements)
        abort();
    return 0;
}
