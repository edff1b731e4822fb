#include "utf8.h"

#include <string.h>

size_t utf8_read(const char *text, uint32_t *character)
{
    const unsigned char *bytes = (const unsigned char *)text;
    unsigned first = bytes[0];
    /*
     * Only the second byte's limits depend on the first: they keep out overlong forms, surrogates
     * and what is too large.
     */
    unsigned low = 0x80, high = 0xBF;
    size_t following;
    uint32_t value;
    if (first < 0x80) {
        *character = first;
        return 1;
    }
    if (first >= 0xC2 && first <= 0xDF) {
        following = 1;
        value = first & 0x1F;
    } else if (first >= 0xE0 && first <= 0xEF) {
        following = 2;
        value = first & 0x0F;
        low = first == 0xE0 ? 0xA0 : low;
        high = first == 0xED ? 0x9F : high;
    } else if (first >= 0xF0 && first <= 0xF4) {
        following = 3;
        value = first & 0x07;
        low = first == 0xF0 ? 0x90 : low;
        high = first == 0xF4 ? 0x8F : high;
    } else {
        *character = UTF8_REPLACEMENT;
        return 1;
    }
    for (size_t i = 1; i <= following; i++) {
        /* The terminating zero is outside the limits, so nothing past it is read. */
        if (bytes[i] < low || bytes[i] > high) {
            *character = UTF8_REPLACEMENT;
            return i;
        }
        value = value << 6 | (bytes[i] & 0x3F);
        low = 0x80;
        high = 0xBF;
    }
    *character = value;
    return following + 1;
}

size_t utf8_count(const char *text)
{
    size_t count = 0;
    uint32_t character;
    for (; *text; text += utf8_read(text, &character))
        count++;
    return count;
}

bool utf8_is_control(uint32_t character)
{
    return character < 0x20 || (character >= 0x7F && character < 0xA0);
}

size_t utf8_show(const char *text, const char **shown, size_t *shown_bytes)
{
    uint32_t character;
    size_t bytes = utf8_read(text, &character);
    bool is_shown = !utf8_is_control(character) && character != UTF8_REPLACEMENT;
    *shown = is_shown ? text : "?";
    *shown_bytes = is_shown ? bytes : 1;
    return bytes;
}

void utf8_show_all(const char *text, char *out, size_t room)
{
    while (*text) {
        const char *shown;
        size_t bytes, taken = utf8_show(text, &shown, &bytes);
        if (bytes >= room)
            break;
        memcpy(out, shown, bytes);
        out += bytes;
        room -= bytes;
        text += taken;
    }
    *out = '\0';
}
