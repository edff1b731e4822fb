#include "npy.h"

#include <inttypes.h>
#include <muster/backend.h>
#include <stdio.h>
#include <string.h>

/* Headers that NumPy writes are a multiple of that long. */
#define ALIGNMENT 64u

struct type {
    const char *name;
    char kind;
    size_t bytes;
};

static const struct type types[] = {
    { "int8_t", 'i', 1 },   { "uint8_t", 'u', 1 },  { "int16_t", 'i', 2 },
    { "uint16_t", 'u', 2 }, { "int32_t", 'i', 4 },  { "uint32_t", 'u', 4 },
    { "int64_t", 'i', 8 },  { "uint64_t", 'u', 8 }, { "float", 'f', 4 },
    { "double", 'f', 8 },   { "char", 'i', 1 },     { "short", 'i', 2 },
    { "int", 'i', 4 },      { "unsigned", 'u', 4 }, { "unsigned char", 'u', 1 },
};

static muster_status wrong(struct muster_error *err, const char *what)
{
    return muster_error_fill(err, MUSTER_E_PARSE, 0, "write it again with numpy.save",
                             "the input is a damaged .npy file: %s", what);
}

static size_t byte_at(const char *bytes, size_t at)
{
    return (unsigned char)bytes[at];
}

muster_status npy_header_bytes(const char *begin, size_t bytes, size_t *out,
                               struct muster_error *err)
{
    if (bytes < NPY_BEGIN_BYTES || memcmp(begin, NPY_MAGIC, NPY_MAGIC_BYTES) != 0)
        return wrong(err, "it has no header");
    size_t version = byte_at(begin, 6), length = byte_at(begin, 8) | byte_at(begin, 9) << 8;
    if (version < 1 || version > 3)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "save it with another NumPy",
                                 "the input is a .npy file of version %zu; 1 to 3 are known",
                                 version);
    if (version > 1)
        length |= byte_at(begin, 10) << 16 | byte_at(begin, 11) << 24;
    *out = length + (version == 1 ? 10 : 12);
    if (*out < NPY_BEGIN_BYTES || *out > NPY_HEADER_MAX)
        return wrong(err, "its header has an impossible size");
    return MUSTER_OK;
}

/* Reading a literal of Python's. */
struct reading {
    const char *at, *end;
};

static void skip_blanks(struct reading *reading)
{
    while (reading->at < reading->end && strchr(" \t\n", *reading->at) && *reading->at)
        reading->at++;
}

static bool take(struct reading *reading, char sign)
{
    skip_blanks(reading);
    if (reading->at == reading->end || *reading->at != sign)
        return false;
    reading->at++;
    return true;
}

static bool take_text(struct reading *reading, char *out, size_t capacity)
{
    skip_blanks(reading);
    if (reading->at == reading->end || (*reading->at != '\'' && *reading->at != '"'))
        return false;
    char quote = *reading->at++;
    size_t used = 0;
    while (reading->at < reading->end && *reading->at != quote) {
        if (used + 1 == capacity)
            return false;
        out[used++] = *reading->at++;
    }
    out[used] = '\0';
    return take(reading, quote);
}

static bool take_word(struct reading *reading, const char *word)
{
    size_t bytes = strlen(word);
    skip_blanks(reading);
    if ((size_t)(reading->end - reading->at) < bytes || memcmp(reading->at, word, bytes) != 0)
        return false;
    reading->at += bytes;
    return true;
}

static bool take_number(struct reading *reading, uint64_t *out)
{
    uint64_t number = 0;
    const char *begin;
    skip_blanks(reading);
    for (begin = reading->at;
         reading->at < reading->end && *reading->at >= '0' && *reading->at <= '9'; reading->at++)
        if (__builtin_mul_overflow(number, (uint64_t)10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(*reading->at - '0'), &number))
            return false;
    *out = number;
    return reading->at > begin;
}

static muster_status read_shape(struct npy *npy, struct reading *reading, struct muster_error *err)
{
    bool ends;
    npy->elements = 1;
    npy->dimensions = 0;
    if (!take(reading, '('))
        return wrong(err, "its shape is no tuple");
    while (!(ends = take(reading, ')'))) {
        if (npy->dimensions == NPY_DIMENSIONS_MAX ||
            !take_number(reading, &npy->shape[npy->dimensions]))
            return wrong(err, "its shape has something else than up to 32 numbers");
        if (__builtin_mul_overflow(npy->elements, npy->shape[npy->dimensions++], &npy->elements))
            return wrong(err, "its shape has more elements than there can be");
        if (!take(reading, ',') && !(ends = take(reading, ')')))
            return wrong(err, "its shape has no end");
        if (ends)
            break;
    }
    return MUSTER_OK;
}

static muster_status read_type(struct npy *npy, const char *text, struct muster_error *err)
{
    struct reading number = { text + 2, text + strlen(text) };
    const uint16_t one = 1;
    bool is_little = *(const unsigned char *)&one == 1;
    uint64_t bytes;
    if (strlen(text) < 3 || !strchr("<>|=", text[0]) || !take_number(&number, &bytes) ||
        number.at != number.end || bytes == 0 || bytes > NPY_HEADER_MAX)
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "convert it with a.astype",
                                 "the input's elements are '%.40s'; Muster takes plain numbers",
                                 text);
    if ((text[0] == '>' && is_little && bytes > 1) || (text[0] == '<' && !is_little && bytes > 1))
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                                 "save a.astype(a.dtype.newbyteorder('='))",
                                 "the input's elements are '%.40s', in another byte order than "
                                 "this machine's",
                                 text);
    if (!strchr("fiubV", text[1]))
        return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0, "convert it with a.astype",
                                 "the input's elements are '%.40s'; Muster takes integers, "
                                 "floats, bool and void",
                                 text);
    npy->kind = text[1];
    npy->element_bytes = (size_t)bytes;
    return MUSTER_OK;
}

muster_status npy_read(struct npy *npy, const char *header, size_t bytes, struct muster_error *err)
{
    size_t length;
    bool has_type = false, has_order = false, has_shape = false;
    *npy = (struct npy){ .kind = 0 };
    muster_status status = npy_header_bytes(header, bytes, &length, err);
    if (status != MUSTER_OK)
        return status;
    if (bytes < length)
        return wrong(err, "it ends within its header");
    struct reading reading = { header + (header[6] == 1 ? 10 : 12), header + length };
    if (!take(&reading, '{'))
        return wrong(err, "its header is no dictionary");
    while (status == MUSTER_OK && !take(&reading, '}')) {
        char key[24], text[64];
        if (!take_text(&reading, key, sizeof key) || !take(&reading, ':'))
            return wrong(err, "its header is no dictionary");
        if (strcmp(key, "descr") == 0) {
            has_type = true;
            if (!take_text(&reading, text, sizeof text))
                return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                                         "save a.view('V%d' % a.itemsize), or one field of it",
                                         "the input's elements have fields; Muster takes plain "
                                         "numbers and void");
            status = read_type(npy, text, err);
        } else if (strcmp(key, "fortran_order") == 0) {
            has_order = true;
            if (take_word(&reading, "True"))
                return muster_error_fill(err, MUSTER_E_NOT_SUPPORTED, 0,
                                         "save numpy.ascontiguousarray(a)",
                                         "the input is in Fortran order");
            if (!take_word(&reading, "False"))
                return wrong(err, "its order is neither True nor False");
        } else if (strcmp(key, "shape") == 0) {
            has_shape = true;
            status = read_shape(npy, &reading, err);
        } else {
            return wrong(err, "its header has an unknown key");
        }
        if (status == MUSTER_OK && !take(&reading, ',')) {
            if (!take(&reading, '}'))
                return wrong(err, "its header has no end");
            break;
        }
    }
    if (status == MUSTER_OK && (!has_type || !has_order || !has_shape))
        return wrong(err, "its header lacks descr, fortran_order or shape");
    return status;
}

static const struct type *find_type(const char *type)
{
    static const char *const before[] = { "MUSTER_GLOBAL ", "const " };
    char name[96];
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        if (strncmp(type, before[i], strlen(before[i])) == 0)
            type += strlen(before[i]);
    snprintf(name, sizeof name, "%s", type);
    for (size_t bytes = strlen(name); bytes > 0 && strchr(" *", name[bytes - 1]); bytes--)
        name[bytes - 1] = '\0';
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(name, types[i].name) == 0)
            return &types[i];
    return NULL;
}

bool npy_is_type(const struct npy *npy, const char *type)
{
    const struct type *found = find_type(type);
    if (!found)
        return true;
    bool is_byte = npy->kind == 'b' || npy->kind == 'V';
    return npy->element_bytes == found->bytes &&
           (npy->kind == found->kind || (is_byte && found->bytes == 1));
}

void npy_describe(const struct npy *npy, char text[16])
{
    const uint16_t one = 1;
    bool is_little = *(const unsigned char *)&one == 1;
    snprintf(text, 16, "%c%c%u",
             npy->element_bytes == 1 || npy->kind == 'V' ? '|'
             : is_little                                 ? '<'
                                                         : '>',
             npy->kind, (unsigned)npy->element_bytes);
}

bool npy_of_type(const char *type, struct npy *npy)
{
    const struct type *found = find_type(type);
    *npy = (struct npy){ .kind = found ? found->kind : 'V',
                         .element_bytes = found ? found->bytes : 0 };
    return found != NULL;
}

size_t npy_write(const struct npy *npy, char out[NPY_HEADER_MAX])
{
    char type[16], text[64 + NPY_DIMENSIONS_MAX * 22];
    size_t used;
    npy_describe(npy, type);
    used = (size_t)snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                            type);
    for (size_t i = 0; i < npy->dimensions; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%" PRIu64, i > 0 ? ", " : "",
                                 npy->shape[i]);
    used += (size_t)snprintf(text + used, sizeof text - used, "%s), }",
                             npy->dimensions == 1 ? "," : "");
    size_t length = (10 + used + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    memcpy(out, NPY_MAGIC, NPY_MAGIC_BYTES);
    out[6] = 1;
    out[7] = 0;
    out[8] = (char)((length - 10) & 0xff);
    out[9] = (char)((length - 10) >> 8);
    memcpy(out + 10, text, used);
    memset(out + 10 + used, ' ', length - 11 - used);
    out[length - 1] = '\n';
    return length;
}
