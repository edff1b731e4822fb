#include "value.h"

#include <errno.h>
#include <math.h>
#include <muster/backend.h>
#include <stdlib.h>
#include <string.h>

struct type {
    const char *name;
    size_t bytes;
    bool is_signed, is_real;
};

static const struct type types[] = {
    { "int8_t", 1, true, false },  { "uint8_t", 1, false, false },
    { "int16_t", 2, true, false }, { "uint16_t", 2, false, false },
    { "int32_t", 4, true, false }, { "uint32_t", 4, false, false },
    { "int64_t", 8, true, false }, { "uint64_t", 8, false, false },
    { "int", 4, true, false },     { "unsigned", 4, false, false },
    { "float", 4, true, true },    { "double", 8, true, true },
};

static const struct type *find_type(const char *name)
{
    if (strncmp(name, "const ", 6) == 0)
        name += 6;
    size_t length = strlen(name);
    if (length > 6 && strcmp(name + length - 6, " const") == 0)
        length -= 6;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strlen(types[i].name) == length && memcmp(types[i].name, name, length) == 0)
            return &types[i];
    return NULL;
}

bool value_is_type(const char *type, size_t *bytes)
{
    const struct type *found = find_type(type);
    *bytes = found ? found->bytes : 0;
    return found != NULL;
}

static muster_status refuse(const char *name, const struct type *type, const char *text,
                            struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL, "'%.60s' is no value for %.63s, %s %s",
                             text, name, type->is_signed && !type->is_real ? "an" : "a",
                             type->name);
}

/* Little-endian machines are all that Muster runs on: the first bytes are the low ones. */
static bool put_whole(const struct type *type, bool is_negative, uint64_t size,
                      unsigned char out[VALUE_BYTES])
{
    unsigned bits = (unsigned)type->bytes * 8 - (type->is_signed ? 1 : 0);
    uint64_t most = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    if (is_negative ? !type->is_signed || size > most + 1 : size > most)
        return false;
    uint64_t number = is_negative ? 0 - size : size;
    memcpy(out, &number, sizeof number);
    return true;
}

static bool put_real(const struct type *type, double number, unsigned char out[VALUE_BYTES])
{
    float narrow = (float)number;
    if (type->bytes == sizeof number)
        memcpy(out, &number, sizeof number);
    else
        memcpy(out, &narrow, sizeof narrow);
    return type->bytes == sizeof number || isinf(number) || !isinf(narrow);
}

static bool read_whole(const struct type *type, const char *text, unsigned char out[VALUE_BYTES])
{
    bool is_negative = text[0] == '-';
    const char *digits = text + (is_negative ? 1 : 0);
    bool is_hexadecimal = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
    char *end;
    /* strtoull takes spaces and signs too. */
    const char *first = digits + (is_hexadecimal ? 2 : 0);
    if (!strchr(is_hexadecimal ? "0123456789abcdefABCDEF" : "0123456789", first[0]) || !first[0])
        return false;
    errno = 0;
    uint64_t size = strtoull(first, &end, is_hexadecimal ? 16 : 10);
    return errno == 0 && *end == '\0' && put_whole(type, is_negative, size, out);
}

static bool read_real(const struct type *type, const char *text, unsigned char out[VALUE_BYTES])
{
    char *end;
    if (text[0] == '\0' || strchr(" \t\n\v\f\r", text[0]))
        return false;
    errno = 0;
    double number = strtod(text, &end);
    bool is_too_large = errno == ERANGE && isinf(number);
    return *end == '\0' && !is_too_large && put_real(type, number, out);
}

muster_status value_read(const char *name, const char *type, const char *text,
                         unsigned char out[VALUE_BYTES], struct muster_error *err)
{
    const struct type *found = find_type(type);
    if (!found)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "values are of " VALUE_TYPES,
                                 "%.63s is a %.63s, which cannot be given as text", name, type);
    bool is_read = found->is_real ? read_real(found, text, out) : read_whole(found, text, out);
    return is_read ? MUSTER_OK : refuse(name, found, text, err);
}

muster_status value_set(const char *name, const char *type, uint64_t number,
                        unsigned char out[VALUE_BYTES], struct muster_error *err)
{
    const struct type *found = find_type(type);
    bool is_set = found && (found->is_real ? put_real(found, (double)number, out)
                                           : put_whole(found, false, number, out));
    return is_set ? MUSTER_OK
                  : muster_error_fill(err, MUSTER_E_INVALID, 0, "make it a uint64_t",
                                      "%.63s is %llu, which a %.63s cannot hold", name,
                                      (unsigned long long)number, type);
}
