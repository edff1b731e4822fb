/*
 * Numbers as text, made into the bytes of a C type.
 */
#ifndef JOBS_VALUE_H
#define JOBS_VALUE_H

#include <muster/muster.h>
#include <stdbool.h>

/* Of the largest type. */
#define VALUE_BYTES 8

/* The types that a value can have, for messages. */
#define VALUE_TYPES "int8_t to uint64_t, float, double"

/* Whether it is one of them; `type` may be const. Gives how many bytes it has. */
bool value_is_type(const char *type, size_t *bytes);

/*
 * Whole numbers in decimal or as 0x1f, others as strtod reads them in the C locale. MUSTER_E_INVALID:
 * it is no number, or not one of the type's. `name` is for messages.
 */
muster_status value_read(const char *name, const char *type, const char *text,
                         unsigned char out[VALUE_BYTES], struct muster_error *err);

/* The same of a number that is there already. */
muster_status value_set(const char *name, const char *type, uint64_t number,
                        unsigned char out[VALUE_BYTES], struct muster_error *err);

#endif
