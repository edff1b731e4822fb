/*
 * Files that a program writes by itself, put in their place by the library.
 */
#include "platform/aside.h"

#include <muster/backend.h>
#include <muster/file.h>
#include <stdlib.h>
#include <string.h>

struct muster_output {
    struct platform_aside file;
    char path[]; /* that `file` borrows */
};

muster_status muster_output_create(const char *path, struct muster_output **out,
                                   struct muster_error *err)
{
    if (!path || !out)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL,
                                 "muster_output_create: an argument is NULL");
    size_t bytes = strlen(path) + 1;
    struct muster_output *output = malloc(sizeof *output + bytes);
    if (!output)
        return muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no host memory for a file");
    memcpy(output->path, path, bytes);
    muster_status status =
        platform_aside_open(&output->file, output->path, PLATFORM_ASIDE_PIPES, err);
    if (status == MUSTER_OK)
        *out = output;
    else
        free(output);
    return status;
}

int muster_output_descriptor(const struct muster_output *output)
{
    return output ? output->file.descriptor : -1;
}

muster_status muster_output_commit(struct muster_output *output, struct muster_error *err)
{
    if (!output || output->file.descriptor < 0)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL,
                                 "muster_output_commit: the file is NULL, or was committed before");
    return platform_aside_commit(&output->file, err);
}

void muster_output_destroy(struct muster_output *output)
{
    if (!output)
        return;
    platform_aside_discard(&output->file);
    free(output);
}

void muster_process_cleanup(void)
{
    platform_temporary_sweep();
}
