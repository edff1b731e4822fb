/*
 * What a command must find so that it uses one device alone: variables that its libraries read, and
 * for a processor the cores it may run on.
 */
#ifndef CLI_ENVIRONMENT_H
#define CLI_ENVIRONMENT_H

#include <muster/device.h>
#include <stdbool.h>

/*
 * Changes this process, of which the command then inherits it. `is_one_of_many`: there are other
 * processors (nodes) that the command must keep off. False without memory.
 */
bool environment_set(const struct muster_device_info *info, bool is_one_of_many);

#endif
