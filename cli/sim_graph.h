/* What `muster sim` tells of a graph. */
#ifndef CLI_SIM_GRAPH_H
#define CLI_SIM_GRAPH_H

#include "command.h"

#include <muster/simulate.h>

/* `name`: of the scenario, for messages. */
enum exit_code sim_graph_report(const char *name, const struct muster_graph_simulation *simulation,
                                bool as_json, struct output *out);

#endif
