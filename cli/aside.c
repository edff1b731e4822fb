#include "aside.h"

#include "message.h"

#include <muster/file.h>
#include <string.h>

bool aside_open(struct aside *aside, const char *path)
{
    struct muster_error error;
    aside->path = path;
    aside->file = NULL;
    if (muster_output_create(path, &aside->file, &error) != MUSTER_OK) {
        message_library(NULL, &error);
        return false;
    }
    output_init(&aside->out, muster_output_descriptor(aside->file));
    return true;
}

bool aside_commit(struct aside *aside)
{
    struct muster_error error;
    output_flush(&aside->out);
    bool is_whole = !aside->out.error;
    if (!is_whole)
        message_error("%s could not be written: %s", aside->path, strerror(aside->out.error));
    else if (muster_output_commit(aside->file, &error) != MUSTER_OK) {
        message_library(NULL, &error);
        is_whole = false;
    }
    aside_discard(aside);
    return is_whole;
}

void aside_discard(struct aside *aside)
{
    muster_output_destroy(aside->file);
    aside->file = NULL;
}
