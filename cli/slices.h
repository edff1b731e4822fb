/*
 * --slices: devices that are cut into slices when they are found, and what to say where they cannot
 * be. The library leaves a backend out that cannot cut as asked; a user who asked for slices by name
 * must not be given other devices instead without a word.
 */
#ifndef CLI_SLICES_H
#define CLI_SLICES_H

#include "inventory.h"
#include "option.h"

/* clang-format off */
#define SLICES_OPTION { .name = "slices", .kind = OPTION_TEXT, .value = "SPEC", \
                        .help = "cut devices into slices: cuda:0=16,32,84;sim:1=2/6" }
/* clang-format on */

/* What is asked for: the option, or else the variable MUSTER_SLICES; NULL if neither is there. */
const char *slices_asked(const struct option_value *option);

/* Whether slices of this backend are asked for. */
bool slices_ask_for(const struct option_value *option, const char *backend);

/* Whether all that was asked for has been cut. Tells of what was not. */
bool slices_check(const struct option_value *option, const struct inventory *inventory);

#endif
