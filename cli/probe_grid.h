/*
 * Kernels that take cells: the grid that they are tried on, and whether they keep to the halo.
 */
#ifndef CLI_PROBE_GRID_H
#define CLI_PROBE_GRID_H

#include "probe_arrays.h"

/* The largest halo that is looked for. */
#define PROBE_HALO_MAX 16u

/* Sets items, group and the cell of item 0, as the options say. False: no such grid, which was reported. */
bool probe_grid_set(struct probe *probe);
/*
 * Runs each item with greater and greater halos: one that is large enough changes nothing any more. Notes
 * a kernel that needs more than it is given, and goes on with what it needs. False: a run failed.
 */
bool probe_grid_check(struct probe *probe);

#endif
