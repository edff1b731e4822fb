/*
 * A simulation as trace events, for Perfetto (ui.perfetto.dev) and chrome://tracing. Events are
 * written as they come; what is kept grows with the devices, not with the units.
 */
#ifndef CLI_TRACE_H
#define CLI_TRACE_H

#include "output.h"

#include <muster/simulate.h>

struct trace_device {
    uint64_t *ends_ns; /* owns: when each of its tracks is free again */
    uint32_t track_count;
};

struct trace {
    struct output *out;           /* borrowed */
    struct trace_device *devices; /* owns; as many as have been met */
    size_t device_count;
    bool has_events, is_out_of_memory;
};

void trace_begin(struct trace *trace, struct output *out);
void trace_add(struct trace *trace, const struct muster_simulation_span *span);
/* The names of the devices, which are known only now, and the end. False: there was no memory. */
bool trace_end(struct trace *trace, const struct muster_simulation *simulation, const char *title);
void trace_deinit(struct trace *trace);

#endif
