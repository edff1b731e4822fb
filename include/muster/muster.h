/*
 * Muster: keeps every processor in a machine busy on one stream of work. All of the public
 * interface but what only some need: backend.h, to add a kind of device, and interop_cuda.h and
 * interop_opencl.h, which need the vendor's headers.
 */
#ifndef MUSTER_MUSTER_H
#define MUSTER_MUSTER_H

#include <muster/bundle.h>
#include <muster/cluster.h>
#include <muster/data.h>
#include <muster/device.h>
#include <muster/file.h>
#include <muster/graph.h>
#include <muster/job.h>
#include <muster/kernel.h>
#include <muster/live.h>
#include <muster/memory.h>
#include <muster/pipeline.h>
#include <muster/policy.h>
#include <muster/reduce.h>
#include <muster/resident.h>
#include <muster/runtime.h>
#include <muster/simulate.h>
#include <muster/status.h>
#include <muster/stream.h>
#include <muster/task.h>
#include <muster/trace.h>

#endif
