/*
 * Numbers as people read them. The same bytes on every machine: nothing here asks for a locale.
 */
#ifndef CLI_FIGURES_H
#define CLI_FIGURES_H

#include <stddef.h>
#include <stdint.h>

#define FIGURE_BYTES 48

/* "1,234,567" */
void figure_count(uint64_t number, char text[FIGURE_BYTES]);
/* "66.945 ms": at least four digits, in the largest of ns, us, ms and s that is not above it. */
void figure_time(uint64_t ns, char text[FIGURE_BYTES]);
/* "99.9 %", one digit where that would be 0.0 %, "-" of nothing. */
void figure_share(uint64_t part, uint64_t whole, char text[FIGURE_BYTES]);
/* "7.98 M/s", "-" in no time. */
void figure_rate(uint64_t items, uint64_t ns, char text[FIGURE_BYTES]);

#endif
