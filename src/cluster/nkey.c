#include "cluster/nkey.h"

#include <string.h>

/* Five bits are one character: these first bytes are what makes the texts begin with S and U. */
#define KIND_SEED (18u << 3)
#define KIND_USER (20u << 3)
#define CHECK_BYTES 2
#define PUBLIC_RAW (1 + NKEY_BYTES + CHECK_BYTES)
#define SEED_RAW (2 + NKEY_BYTES + CHECK_BYTES)

_Static_assert((PUBLIC_RAW * 8 + 4) / 5 + 1 == NKEY_PUBLIC_TEXT_BYTES &&
                   (SEED_RAW * 8 + 4) / 5 + 1 == NKEY_SEED_TEXT_BYTES,
               "texts hold the bytes");

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

/* CRC-16 as XMODEM has it. */
static uint16_t checksum(const uint8_t *bytes, size_t count)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        sum ^= (uint32_t)bytes[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            sum = (sum & 0x8000u ? (sum << 1) ^ 0x1021u : sum << 1) & 0xffffu;
    }
    return (uint16_t)sum;
}

static void print(uint8_t *raw, size_t count, char *out)
{
    uint16_t sum = checksum(raw, count - CHECK_BYTES);
    uint32_t held = 0;
    unsigned bits = 0;
    raw[count - 2] = (uint8_t)(sum & 0xff);
    raw[count - 1] = (uint8_t)(sum >> 8);
    for (size_t i = 0; i < count; i++) {
        held = (held << 8) | raw[i];
        for (bits += 8; bits >= 5; bits -= 5)
            *out++ = alphabet[(held >> (bits - 5)) & 31];
    }
    if (bits > 0)
        *out++ = alphabet[(held << (5 - bits)) & 31];
    *out = '\0';
}

static bool read(const char *text, size_t count, uint8_t *raw)
{
    uint32_t held = 0;
    unsigned bits = 0;
    size_t at = 0;
    if (strlen(text) != (count * 8 + 4) / 5)
        return false;
    for (const char *c = text; *c; c++) {
        const char *found = strchr(alphabet, *c);
        if (!found)
            return false;
        held = (held << 5) | (uint32_t)(found - alphabet);
        bits += 5;
        if (bits >= 8) {
            bits -= 8;
            raw[at++] = (uint8_t)(held >> bits);
        }
    }
    /* What is left over of the last character is zero: each key has one text. */
    if (at != count || (held & ((1u << bits) - 1)) != 0)
        return false;
    return checksum(raw, count - CHECK_BYTES) == (raw[count - 2] | raw[count - 1] << 8);
}

bool nkey_read_public(const char *text, uint8_t out[NKEY_BYTES])
{
    uint8_t raw[PUBLIC_RAW];
    if (!read(text, sizeof raw, raw) || raw[0] != KIND_USER)
        return false;
    memcpy(out, raw + 1, NKEY_BYTES);
    return true;
}

/* A seed has its own kind and the key's: eight bits and five, with three between them left free. */
bool nkey_read_seed(const char *text, uint8_t out[NKEY_BYTES])
{
    uint8_t raw[SEED_RAW];
    if (!read(text, sizeof raw, raw) || raw[0] != (KIND_SEED | KIND_USER >> 5) ||
        raw[1] != (uint8_t)((KIND_USER & 31) << 3))
        return false;
    memcpy(out, raw + 2, NKEY_BYTES);
    return true;
}

void nkey_print_public(const uint8_t key[NKEY_BYTES], char out[NKEY_PUBLIC_TEXT_BYTES])
{
    uint8_t raw[PUBLIC_RAW] = { KIND_USER };
    memcpy(raw + 1, key, NKEY_BYTES);
    print(raw, sizeof raw, out);
}

void nkey_print_seed(const uint8_t seed[NKEY_BYTES], char out[NKEY_SEED_TEXT_BYTES])
{
    uint8_t raw[SEED_RAW] = { KIND_SEED | KIND_USER >> 5, (uint8_t)((KIND_USER & 31) << 3) };
    memcpy(raw + 2, seed, NKEY_BYTES);
    print(raw, sizeof raw, out);
}
