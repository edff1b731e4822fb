/*
 * Backends whose devices live in helper processes: the tables of cpu, cuda, opencl and sim over, with the same names
 * and the same contract. What a driver or a kernel does there - a wild store, an assertion, an endless loop - ends the
 * helper and not the program.
 *
 * When a helper ends, what it held fails: launches that may be to blame with MUSTER_E_CRASHED (MUSTER_E_TIMEOUT if it
 * was ended by device_stop), all else as on a stream that has failed. Then a new helper is started, at most
 * ISOLATED_RESTARTS_MAX times in ISOLATED_RESTARTS_NS, and everything that was opened is opened there again; what the
 * device's memory held is gone, which device_generation tells. After that the device is lost.
 *
 * Kernels are images or source: of the program's C functions only those are there that it has shared with its helper.
 * Streams have no native handle.
 */
#ifndef BACKEND_ISOLATED_H
#define BACKEND_ISOLATED_H

#include "platform/helper.h"

#include <muster/backend.h>

#define ISOLATED_RESTARTS_MAX 3
#define ISOLATED_RESTARTS_NS UINT64_C(60000000000)

/* Helpers of one backend at most. */
#define ISOLATED_DEVICES_MAX 64
/* What a program is started with to be a helper; the backend's name follows. */
#define ISOLATED_ARGUMENT HELPER_ARGUMENT
/* A third word: the helper closes itself in before it is given any kernel. */
#define ISOLATED_SANDBOX "sandbox"

/* The table of that backend in a helper; NULL if there is none of that name. */
const struct muster_backend *isolated_find(const char *name);
/*
 * The same in a sandbox, where kernels can compute and nothing else: of cpu and sim. Kernels are shared objects that
 * need only the C library. MUSTER_E_NOT_SUPPORTED, from its open, where the system has no such thing.
 */
const struct muster_backend *isolated_find_sandboxed(const char *name);

/* The helper: serves the memory at PLATFORM_CHILD_MEMORY until it is killed. Returns an exit status. */
int isolated_serve(const char *backend, bool is_sandboxed);

#endif
