/*
 * Picking a device: hints read, and the last decisions kept.
 */
#ifndef RUN_PLACE_H
#define RUN_PLACE_H

#include "core/placement.h"
#include "run/base/runtime.h"

#define PICK_WORDS (DEVICES_MAX / 64)
/*
 * The hints as placement wants them, with all backends probed and free memory known where it is
 * asked for. `devices` has PICK_WORDS words and is what out->devices points to, if the hints name
 * devices. `given` may be NULL.
 */
muster_status pick_read_hints(struct muster *m, const struct muster_hints *given, uint64_t *devices,
                              struct placement_hints *out, struct muster_error *err);
void decisions_destroy(struct muster *m);

#endif
