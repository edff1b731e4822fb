#include "cluster/trust.h"

#include "cluster/signature.h"

#include <errno.h>
#include <muster/backend.h>
#include <stdio.h>
#include <string.h>

#define LINE_BYTES 1024

static bool is_list(const char *text)
{
    uint8_t key[NKEY_BYTES];
    char first[NKEY_PUBLIC_TEXT_BYTES];
    snprintf(first, sizeof first, "%.56s", text);
    return nkey_read_public(first, key);
}

static muster_status bad_key(const char *word, const char *where, struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_PARSE, 0, "see: muster cluster key FILE",
                             "'%.60s' in %.100s is no public key (U and 55 more characters)", word,
                             where);
}

/* Whether `signer` ("": nobody) is among keys with commas; all of them are looked at. */
static muster_status look_in_list(const char *text, const char *signer, bool *is_there,
                                  struct muster_error *err)
{
    char copy[SHARED_PATH_BYTES], *rest = NULL;
    uint8_t key[NKEY_BYTES];
    snprintf(copy, sizeof copy, "%s", text);
    for (char *word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        if (!nkey_read_public(word, key))
            return bad_key(word, "--trust", err);
        *is_there = *is_there || strcmp(word, signer) == 0;
    }
    return MUSTER_OK;
}

/* A key is the first word of its line; what follows it is for people. */
static muster_status look_in_file(const char *path, const char *signer, bool *is_there,
                                  struct muster_error *err)
{
    char line[LINE_BYTES];
    uint8_t key[NKEY_BYTES];
    muster_status status = MUSTER_OK;
    FILE *file = fopen(path, "re");
    if (!file)
        return muster_error_fill(err, MUSTER_E_IO, errno, "one public key in each line, or: any",
                                 "cannot read whom to trust from %.140s: %s", path,
                                 strerror(errno));
    while (status == MUSTER_OK && fgets(line, sizeof line, file)) {
        char *word = line + strspn(line, " \t");
        word[strcspn(word, " \t\r\n")] = '\0';
        if (*word == '\0' || *word == '#')
            continue;
        if (!nkey_read_public(word, key))
            status = bad_key(word, path, err);
        *is_there = *is_there || strcmp(word, signer) == 0;
    }
    if (status == MUSTER_OK && ferror(file))
        status = muster_error_fill(err, MUSTER_E_IO, errno, NULL,
                                   "cannot read whom to trust from %.140s", path);
    fclose(file);
    return status;
}

static muster_status look(const struct trust *trust, const char *signer, bool *is_there,
                          struct muster_error *err)
{
    *is_there = false;
    return is_list(trust->text) ? look_in_list(trust->text, signer, is_there, err)
                                : look_in_file(trust->text, signer, is_there, err);
}

muster_status trust_init(struct trust *trust, const char *text, struct muster_error *err)
{
    bool is_there;
    trust->is_any = strcmp(text, "any") == 0;
    if (trust->is_any)
        return MUSTER_OK;
    if (!*text || strlen(text) >= sizeof trust->text)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, "put the keys into a file",
                                 "whom to trust is empty or too long");
    memcpy(trust->text, text, strlen(text) + 1);
    muster_status status = look(trust, "", &is_there, err);
    return status == MUSTER_OK ? ed25519_load(err) : status;
}

muster_status trust_check(const struct trust *trust, const char *text, size_t bytes,
                          struct muster_error *err)
{
    char signer[NKEY_PUBLIC_TEXT_BYTES];
    struct muster_error why;
    bool is_there = false;
    if (trust->is_any)
        return MUSTER_OK;
    muster_status status = signature_check(text, bytes, signer, err);
    if (status == MUSTER_OK && look(trust, signer, &is_there, &why) != MUSTER_OK)
        return muster_error_fill(err, MUSTER_E_DENIED, 0, NULL, "nobody is trusted: %.180s",
                                 why.text);
    if (status == MUSTER_OK && !is_there)
        status = muster_error_fill(err, MUSTER_E_DENIED, 0, "add that key to its --trust file",
                                   "it is signed by %s, which it does not trust", signer);
    return status;
}
