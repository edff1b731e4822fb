#ifndef CLI_KERNEL_CHECK_H
#define CLI_KERNEL_CHECK_H

#include "command.h"

extern const struct command command_kernel_check;

#endif
