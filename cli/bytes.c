#include "bytes.h"

#include <stdio.h>

void bytes_format(uint64_t bytes, char *text, size_t size)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    const size_t unit_count = sizeof units / sizeof *units;
    double value = (double)bytes;
    size_t unit = 0;
    /* What would be rounded up to 1024.0 is already 1.0 of the next unit. */
    while (unit + 1 < unit_count && value >= (unit == 0 ? 1024 : 1023.95)) {
        value /= 1024;
        unit++;
    }
    snprintf(text, size, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
}
