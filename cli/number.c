#include "number.h"

#include <stddef.h>

const char *number_parse(const char *text, uint64_t *out)
{
    if (*text == '\0')
        return "it is empty";
    if (*text == '-' && text[1] >= '0' && text[1] <= '9')
        return "it is negative";
    if (*text == '+')
        return "write it without the plus sign";
    uint64_t value = 0;
    for (const char *at = text; *at; at++) {
        if (*at < '0' || *at > '9')
            return "only the digits 0 to 9 are allowed";
        if (__builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
            return "the largest allowed is 18446744073709551615";
    }
    *out = value;
    return NULL;
}
