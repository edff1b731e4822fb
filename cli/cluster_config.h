/*
 * The parts of `muster cluster` that make keys and configurations.
 */
#ifndef CLI_CLUSTER_CONFIG_H
#define CLI_CLUSTER_CONFIG_H

#include "command.h"

extern const struct command command_cluster_config, command_cluster_key;

#endif
