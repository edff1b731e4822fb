#include "y4m.h"

#include <muster/backend.h>
#include <string.h>

/* How the chroma planes are smaller than the luma; 0: there are none. */
struct colour {
    const char *name;
    uint32_t across, down;
};

static const struct colour colours[] = {
    { "420jpeg", 2, 2 }, { "420mpeg2", 2, 2 }, { "420paldv", 2, 2 }, { "420", 2, 2 },
    { "411", 4, 1 },     { "422", 2, 1 },      { "444", 1, 1 },      { "mono", 0, 0 },
};

static bool is_text(const char *word, size_t bytes, const char *text)
{
    return bytes == strlen(text) && memcmp(word, text, bytes) == 0;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits, at most 9 of them; gives what is behind them, NULL if there are none. */
static const char *read_number(const char *at, const char *end, uint32_t *out)
{
    const char *begin = at;
    uint32_t number = 0;
    while (at < end && is_digit(*at) && at - begin < 9)
        number = number * 10 + (uint32_t)(*at++ - '0');
    *out = number;
    return at == begin ? NULL : at;
}

static bool read_side(const char *word, size_t bytes, uint32_t *side)
{
    const char *end = word + bytes;
    return read_number(word, end, side) == end && *side > 0 && *side <= Y4M_SIDE_MAX;
}

/* "30000:1001" */
static bool is_ratio(const char *word, size_t bytes)
{
    const char *end = word + bytes;
    uint32_t number;
    const char *at = read_number(word, end, &number);
    return at && at < end && *at == ':' && read_number(at + 1, end, &number) == end;
}

/*
 * "420p10", "mono16": the bits of a sample behind the name, which is cut off there. 0: it names none
 * that can be.
 */
static uint32_t take_bits(const char *word, size_t *bytes)
{
    static const uint32_t known[] = { 9, 10, 12, 14, 16 };
    size_t digits = 0;
    uint32_t bits = 0;
    while (digits < *bytes && is_digit(word[*bytes - 1 - digits]))
        digits++;
    size_t name = *bytes - digits;
    bool is_mono = name == 4 && memcmp(word, "mono", 4) == 0;
    if (digits == 0 || digits > 2 || !(is_mono || (name == 4 && word[3] == 'p')))
        return 8;
    for (size_t i = *bytes - digits; i < *bytes; i++)
        bits = bits * 10 + (uint32_t)(word[i] - '0');
    *bytes = is_mono ? name : name - 1;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i] == bits)
            return bits;
    return 0;
}

static const struct colour *find_colour(const char *word, size_t bytes)
{
    for (size_t i = 0; i < sizeof colours / sizeof *colours; i++)
        if (is_text(word, bytes, colours[i].name))
            return &colours[i];
    return NULL;
}

/* One parameter: its letter and the rest of the word. False: it is not as it should be. */
static bool read_parameter(struct y4m *y4m, const char *word, size_t bytes)
{
    switch (word[0]) {
    case 'W':
        return y4m->width == 0 && read_side(word + 1, bytes - 1, &y4m->width);
    case 'H':
        return y4m->height == 0 && read_side(word + 1, bytes - 1, &y4m->height);
    case 'F':
    case 'A':
        return is_ratio(word + 1, bytes - 1);
    case 'I':
        return bytes == 2 && word[1] != '\0' && strchr("ptbm?", word[1]);
    case 'C':
    case 'X':
        return true;
    default:
        return false;
    }
}

static uint32_t part(uint32_t side, uint32_t of)
{
    return of > 0 ? (side + of - 1) / of : 0;
}

static void lay_out(struct y4m *y4m, const struct colour *colour)
{
    y4m->chroma_width = part(y4m->width, colour->across);
    y4m->chroma_height = part(y4m->height, colour->down);
    y4m->frame_bytes =
        (uint64_t)y4m->width * y4m->height + 2 * (uint64_t)y4m->chroma_width * y4m->chroma_height;
    y4m->frame_bytes *= y4m->bits > 8 ? 2 : 1;
}

muster_status y4m_read(struct y4m *y4m, const char *line, size_t bytes, struct muster_error *err)
{
    const char *at = line, *end = line + bytes;
    struct y4m found = { .bits = 8 };
    /* What a header without one means. */
    const struct colour *colour = &colours[0];
    bool has_colour = false;
    for (bool is_first = true; at < end || is_first; is_first = false) {
        const char *space = memchr(at, ' ', (size_t)(end - at));
        size_t length = (size_t)((space ? space : end) - at);
        int shown = length < 40 ? (int)length : 40;
        if (is_first && !is_text(at, length, Y4M_MAGIC))
            return muster_error_fill(err, MUSTER_E_PARSE, 0, "give --item for raw records",
                                     "the input is no video: it does not begin with " Y4M_MAGIC);
        bool is_colour = !is_first && length > 0 && at[0] == 'C';
        if (!is_first && length > 0 &&
            (!read_parameter(&found, at, length) || (is_colour && has_colour)))
            return muster_error_fill(err, MUSTER_E_PARSE, 0, NULL,
                                     "the video's header has '%.*s', which is unknown, or "
                                     "has it twice",
                                     shown, at);
        has_colour = has_colour || is_colour;
        if (is_colour) {
            size_t name = length - 1;
            found.bits = take_bits(at + 1, &name);
            colour = found.bits > 0 ? find_colour(at + 1, name) : NULL;
        }
        if (!colour)
            return muster_error_fill(
                err, MUSTER_E_NOT_SUPPORTED, 0, "convert it: ffmpeg -pix_fmt yuv420p",
                "the video's colour space is %.*s; Muster takes 420jpeg, 420mpeg2, 420paldv, 411, "
                "422, 444 and mono, and 420p10, 422p12 and so on up to 16 bits",
                shown - 1, at + 1);
        at += length + (space ? 1 : 0);
    }
    if (found.width == 0 || found.height == 0)
        return muster_error_fill(err, MUSTER_E_PARSE, 0, NULL,
                                 "the video's header says no width or no height");
    lay_out(&found, colour);
    *y4m = found;
    return MUSTER_OK;
}
