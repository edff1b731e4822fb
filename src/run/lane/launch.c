#include "run/lane/launch.h"

muster_status launch_hold(struct muster *m, muster_stream stream, struct launch *launch,
                          struct operation_run *run, struct muster_error *err)
{
    struct muster_use uses[MUSTER_USES_MAX];
    muster_block blocks[MUSTER_ARGS_MAX];
    size_t use_count = 0;
    muster_status status = MUSTER_OK;
    for (size_t i = 0; i < launch->arg_count && status == MUSTER_OK; i++) {
        if (launch->blocks[i].access != 0) {
            blocks[i] = launch->blocks[i].block;
            uses[use_count++] = launch->blocks[i];
        }
        if (launch->data[i].generation == 0)
            continue;
        status = muster_data_resident(m, launch->data[i], stream, &blocks[i], err);
        uses[use_count++] = (struct muster_use)MUSTER_USE(blocks[i], MUSTER_READS);
    }
    if (status == MUSTER_OK)
        status = operation_begin(m, stream, uses, use_count, HOLDER_OPERATION, run, err);
    for (size_t i = 0; i < launch->arg_count && status == MUSTER_OK; i++)
        if (launch->data[i].generation != 0 || launch->blocks[i].access != 0)
            launch->args[i].memory = operation_memory(run, blocks[i]);
    return status;
}
