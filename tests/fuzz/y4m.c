/*
 * Any bytes as the header of a video: what is accepted has pictures of a size that can be.
 */
#include "y4m.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct muster_error err;
    struct y4m y4m;
    /* A copy of its own, so that a byte read behind it is noticed. */
    char *line = malloc(size > 0 ? size : 1);
    if (!line)
        return 0;
    if (size > 0)
        memcpy(line, data, size);
    muster_status status = y4m_read(&y4m, line, size, &err);
    free(line);
    if (status == MUSTER_OK) {
        uint64_t luma = (uint64_t)y4m.width * y4m.height;
        bool is_sound = y4m.width > 0 && y4m.height > 0 && y4m.width <= Y4M_SIDE_MAX &&
                        y4m.height <= Y4M_SIDE_MAX && y4m.chroma_width <= y4m.width &&
                        y4m.chroma_height <= y4m.height && y4m.frame_bytes >= luma &&
                        y4m.frame_bytes <= 3 * luma;
        if (!is_sound)
            abort();
    } else if (status != MUSTER_E_PARSE && status != MUSTER_E_NOT_SUPPORTED) {
        abort();
    }
    return 0;
}
