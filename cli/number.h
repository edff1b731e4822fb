/*
 * Whole numbers as people type them, read strictly.
 */
#ifndef CLI_NUMBER_H
#define CLI_NUMBER_H

#include <stdint.h>

/*
 * Decimal digits and nothing else, 0 to 2^64-1. NULL, or in words why `text` is not one; `*out` is
 * set on success only.
 */
const char *number_parse(const char *text, uint64_t *out);

#endif
