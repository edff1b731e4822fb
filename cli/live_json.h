/*
 * The live view for programs: as JSON, and as metrics in the text form that Prometheus reads.
 */
#ifndef CLI_LIVE_JSON_H
#define CLI_LIVE_JSON_H

#include "output.h"

#include <muster/live.h>

/* One object in one line. */
void live_json(const struct muster_live *live, struct output *out);
void live_metrics(const struct muster_live *live, struct output *out);

#endif
