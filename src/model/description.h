/*
 * Reads descriptions of simulated devices: JSON text in, struct model_device out.
 *
 * The format, with every key and its default, is in docs/simulation.md. Nothing is guessed: unknown
 * and repeated keys, wrong types and numbers out of range are MUSTER_E_PARSE, with "line L, column
 * C: ..." as the text.
 */
#ifndef MODEL_DESCRIPTION_H
#define MODEL_DESCRIPTION_H

#include "base/json.h"
#include "model/device_model.h"

#include <muster/status.h>

/* How many devices one description may give, `count` multiplied out. */
#define MODEL_DEVICES_MAX (1u << 20)

/*
 * What a device has that does not say. Beside these: no launch cost, copies that take no time, no
 * jitter, no faults.
 */
#define MODEL_DEFAULT_NAME "sim"
#define MODEL_DEFAULT_MEMORY_BYTES (UINT64_C(16) << 30)
#define MODEL_DEFAULT_WEIGHT 1.0
#define MODEL_DEFAULT_CORES 1
#define MODEL_DEFAULT_SENSITIVE 1.0

/*
 * Reads a whole text: an array of devices, or an object with the single key "devices". `*count` is
 * set to how many there are; if that is above `capacity` the status is MUSTER_E_CAPACITY and
 * nothing else is written, so `out` may be NULL with a capacity of 0. At least one device, or
 * MUSTER_E_PARSE, as for every other flaw in the text.
 */
muster_status model_describe(const char *text, size_t bytes, struct model_device *out,
                             size_t capacity, size_t *count, struct muster_error *err);

/*
 * For readers of larger texts: reads the array of devices that comes next in `json`. Writes those
 * that fit into `capacity` and sets `*count` to how many there are, which may be more. `resources` is
 * what devices may share; NULL: they run in real time, where the keys `uses`, `feeds`, `sensitive`,
 * `opens_ms` and `stoppable` mean nothing and are refused.
 */
muster_status model_read_devices(struct json *json, const struct model_resources *resources,
                                 struct model_device *out, size_t capacity, size_t *count,
                                 struct muster_error *err);

/* Reads the one device object that comes next in `json`; `*copies` is its "count". */
muster_status model_read_device(struct json *json, const struct model_resources *resources,
                                struct model_device *out, uint32_t *copies,
                                struct muster_error *err);

#endif
