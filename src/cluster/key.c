#include "cluster/key.h"

#include "cluster/shared.h"
#include "platform/file.h"

#include <errno.h>
#include <fcntl.h>
#include <muster/backend.h>
#include <muster/cluster.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX 4096

_Static_assert(MUSTER_CLUSTER_KEY_BYTES == NKEY_PUBLIC_TEXT_BYTES &&
                   NKEY_BYTES == ED25519_KEY_BYTES,
               "keys have one size");

void cluster_key_forget(struct cluster_key *key)
{
    explicit_bzero(key, sizeof *key);
}

/*
 * Whether others may have the secret. Where systemd puts a credential of root's, its group stands for
 * the one user who may read it.
 */
static bool is_open(const struct stat *facts)
{
    return (facts->st_mode & (facts->st_uid == geteuid() ? 077 : 037)) != 0;
}

/* The file's bytes, if it is one that only its owner can read. */
static muster_status read_file(const char *path, char text[FILE_BYTES_MAX + 1],
                               struct muster_error *err)
{
    struct stat facts;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return muster_error_fill(err, errno == ENOENT ? MUSTER_E_NOT_FOUND : MUSTER_E_IO, errno,
                                 "make one: muster cluster key FILE",
                                 "cannot read the key %.140s: %s", path, strerror(errno));
    muster_status status = MUSTER_OK;
    if (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode) || facts.st_size > FILE_BYTES_MAX)
        status =
            muster_error_fill(err, MUSTER_E_PARSE, 0, NULL, "%.160s is no file with a key", path);
    else if (is_open(&facts))
        status = muster_error_fill(
            err, MUSTER_E_DENIED, 0, "chmod 600 FILE; if others may have read it, make a new key",
            "others than its owner may read or write the key %.140s (mode %03o)", path,
            facts.st_mode & 0777);
    else
        status = shared_read(file, 0, text, (size_t)facts.st_size, err);
    if (status == MUSTER_OK)
        text[facts.st_size] = '\0';
    close(file);
    return status;
}

static bool find_seed(char *text, uint8_t seed[NKEY_BYTES])
{
    char *rest = NULL;
    for (char *line = strtok_r(text, " \t\r\n", &rest); line;
         line = strtok_r(NULL, " \t\r\n", &rest))
        if (line[0] == 'S' && nkey_read_seed(line, seed))
            return true;
    return false;
}

muster_status cluster_key_read(const char *path, struct cluster_key *out, struct muster_error *err)
{
    char text[FILE_BYTES_MAX + 1];
    uint8_t public[ED25519_KEY_BYTES];
    struct cluster_key key = { .is_set = true };
    muster_status status = read_file(path, text, err);
    if (status == MUSTER_OK && !find_seed(text, key.secret))
        status = muster_error_fill(
            err, MUSTER_E_PARSE, 0, "make one: muster cluster key FILE",
            "%.160s has no user's seed of NATS (SU and 56 more characters), or one with a slip",
            path);
    if (status == MUSTER_OK)
        status = ed25519_public(key.secret, public, err);
    if (status == MUSTER_OK) {
        nkey_print_public(public, key.name);
        *out = key;
    }
    explicit_bzero(text, sizeof text);
    explicit_bzero(&key, sizeof key);
    return status;
}

muster_status muster_cluster_key_create(const char *path, char public_key[MUSTER_CLUSTER_KEY_BYTES],
                                        struct muster_error *err)
{
    uint8_t seed[NKEY_BYTES], public[ED25519_KEY_BYTES];
    char text[NKEY_SEED_TEXT_BYTES + 1];
    if (!path || !public_key)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL, "a key needs a path");
    if (getrandom(seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        return muster_error_fill(err, MUSTER_E_IO, errno, NULL, "no random bytes for a key");
    muster_status status = ed25519_public(seed, public, err);
    if (status == MUSTER_OK) {
        nkey_print_seed(seed, text);
        text[NKEY_SEED_TEXT_BYTES - 1] = '\n';
        status = platform_file_write(path, text, NKEY_SEED_TEXT_BYTES, err);
    }
    if (status == MUSTER_OK)
        nkey_print_public(public, public_key);
    explicit_bzero(seed, sizeof seed);
    explicit_bzero(text, sizeof text);
    return status;
}

muster_status muster_cluster_key_read(const char *key, char public_key[MUSTER_CLUSTER_KEY_BYTES],
                                      struct muster_error *err)
{
    struct cluster_key read;
    uint8_t public[NKEY_BYTES];
    if (!key || !public_key)
        return muster_error_fill(err, MUSTER_E_INVALID, 0, NULL, "no key");
    if (nkey_read_public(key, public)) {
        memcpy(public_key, key, MUSTER_CLUSTER_KEY_BYTES);
        return MUSTER_OK;
    }
    muster_status status = cluster_key_read(key, &read, err);
    if (status == MUSTER_OK) {
        memcpy(public_key, read.name, MUSTER_CLUSTER_KEY_BYTES);
        cluster_key_forget(&read);
    }
    return status;
}
