/* The size of a grid on the command line. */
#ifndef CLI_GRID_H
#define CLI_GRID_H

#include <stdbool.h>
#include <stdint.h>

/* "640x480" or "64x64x32" into width, height and depth; a depth that is not there is left as it is. */
bool grid_read_text(const char *text, uint32_t sides[3]);

#endif
