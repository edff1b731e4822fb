/*
 * The trace of a runtime, for closing it.
 */
#ifndef RUN_TRACE_H
#define RUN_TRACE_H

#include "run/base/runtime.h"

void trace_destroy(struct muster *m);

#endif
