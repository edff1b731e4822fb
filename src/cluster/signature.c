#include "cluster/signature.h"

#include "base/sha256.h"

#include <muster/backend.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE "signed "
#define END "\nend\n"
#define LINE_BYTES (sizeof LINE - 1 + MANIFEST_SIGNATURE_BYTES)

_Static_assert(MANIFEST_SIGNATURE_BYTES ==
                   NKEY_PUBLIC_TEXT_BYTES - 1 + 1 + 2 * ED25519_SIGNATURE_BYTES + 1,
               "a key, a space, the signature and the line's end");

/*
 * What is signed. A server that lets a key in has it sign text of the server's choice, which never has
 * a zero byte: none of it passes for a description.
 */
struct message {
    char kind[16];
    uint8_t hash[SHA256_BYTES];
};

static struct message message_of(const char *text, size_t bytes)
{
    struct message message = { .kind = "\0muster job 1" };
    struct sha256 hash;
    sha256_init(&hash);
    sha256_add(&hash, text, bytes);
    sha256_finish(&hash, message.hash);
    return message;
}

muster_status signature_append(char text[MANIFEST_BYTES_MAX], size_t *bytes,
                               const struct cluster_key *key, struct muster_error *err)
{
    uint8_t signature[ED25519_SIGNATURE_BYTES];
    const struct message message = message_of(text, *bytes);
    if (*bytes + LINE_BYTES >= MANIFEST_BYTES_MAX)
        return muster_error_fill(err, MUSTER_E_TOO_LARGE, 0, NULL,
                                 "the job's description does not fit");
    muster_status status = ed25519_sign(key->secret, &message, sizeof message, signature, err);
    if (status != MUSTER_OK)
        return status;
    size_t at = *bytes;
    at += (size_t)sprintf(text + at, LINE "%s ", key->name);
    for (size_t i = 0; i < sizeof signature; i++)
        at += (size_t)sprintf(text + at, "%02x", signature[i]);
    text[at++] = '\n';
    text[at] = '\0';
    *bytes = at;
    return MUSTER_OK;
}

static bool read_hex(const char *text, uint8_t *out, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        const char byte[3] = { text[2 * i], text[2 * i + 1], 0 };
        if (strspn(byte, "0123456789abcdef") != 2)
            return false;
        out[i] = (uint8_t)strtoul(byte, NULL, 16);
    }
    return true;
}

muster_status signature_check(const char *text, size_t bytes, char signer[NKEY_PUBLIC_TEXT_BYTES],
                              struct muster_error *err)
{
    uint8_t key[NKEY_BYTES], signature[ED25519_SIGNATURE_BYTES];
    const char *line = bytes > LINE_BYTES ? text + bytes - LINE_BYTES : text;
    size_t before = (size_t)(line - text);
    signer[0] = '\0';
    if (before < strlen(END) || memcmp(line - strlen(END), END, strlen(END)) != 0 ||
        memcmp(line, LINE, strlen(LINE)) != 0 || text[bytes - 1] != '\n')
        return muster_error_fill(err, MUSTER_E_DENIED, 0, "submit it with --key FILE",
                                 "it is not signed");
    const char *name = line + strlen(LINE), *hex = name + NKEY_PUBLIC_TEXT_BYTES;
    char who[NKEY_PUBLIC_TEXT_BYTES];
    memcpy(who, name, sizeof who - 1);
    who[sizeof who - 1] = '\0';
    if (!nkey_read_public(who, key) || hex[-1] != ' ' ||
        !read_hex(hex, signature, sizeof signature))
        return muster_error_fill(err, MUSTER_E_DENIED, 0, NULL, "its signature has a wrong form");
    const struct message message = message_of(text, before);
    muster_status status = ed25519_verify(key, &message, sizeof message, signature, err);
    if (status == MUSTER_E_DENIED)
        return muster_error_fill(err, status, 0, "another process has written it: look who may",
                                 "its signature is not %s's of what it says", who);
    if (status == MUSTER_OK)
        memcpy(signer, who, sizeof who);
    return status;
}
