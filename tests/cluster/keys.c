/*
 * Keys: their texts, which refuse every slip, their files, and what they sign. Keys and signatures are
 * those of NATS's own tools and of RFC 8032.
 */
#include "harness.h"

#include "cluster/key.h"
#include "cluster/signature.h"
#include "cluster/trust.h"
#include "platform/file.h"

#include <muster/cluster.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* RFC 8032, 7.1, test 2: a message of one byte. */
static const uint8_t secret[] = { 0x4c, 0xcd, 0x08, 0x9b, 0x28, 0xff, 0x96, 0xda, 0x9d, 0xb6, 0xc3,
                                  0x46, 0xec, 0x11, 0x4e, 0x0f, 0x5b, 0x8a, 0x31, 0x9f, 0x35, 0xab,
                                  0xa6, 0x24, 0xda, 0x8c, 0xf6, 0xed, 0x4f, 0xb8, 0xa6, 0xfb };
static const uint8_t public[] = { 0x3d, 0x40, 0x17, 0xc3, 0xe8, 0x43, 0x89, 0x5a, 0x92, 0xb7, 0x0a,
                                  0xa7, 0x4d, 0x1b, 0x7e, 0xbc, 0x9c, 0x98, 0x2c, 0xcf, 0x2e, 0xc4,
                                  0x96, 0x8c, 0xc0, 0xcd, 0x55, 0xf1, 0x2a, 0xf4, 0x66, 0x0c };
static const uint8_t signature_of_r[] = {
    0x92, 0xa0, 0x09, 0xa9, 0xf0, 0xd4, 0xca, 0xb8, 0x72, 0x0e, 0x82, 0x0b, 0x5f, 0x64, 0x25, 0x40,
    0xa2, 0xb2, 0x7b, 0x54, 0x16, 0x50, 0x3f, 0x8f, 0xb3, 0x76, 0x22, 0x23, 0xeb, 0xdb, 0x69, 0xda,
    0x08, 0x5a, 0xc1, 0xe4, 0x3e, 0x15, 0x99, 0x6e, 0x45, 0x8f, 0x36, 0x13, 0xd0, 0xf1, 0x1d, 0x8c,
    0x38, 0x7b, 0x2e, 0xae, 0xb4, 0x30, 0x2a, 0xee, 0xb0, 0x0d, 0x29, 0x16, 0x12, 0xbb, 0x0c, 0x00
};

static char folder[PLATFORM_PATH_BYTES];

static const char *in_folder(const char *name)
{
    static char path[PLATFORM_PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void texts_are_read_as_they_were_written(void)
{
    uint8_t key[NKEY_BYTES];
    char text[NKEY_SEED_TEXT_BYTES];
    nkey_print_public(public, text);
    CHECK_EQUAL(strlen(text), 56);
    CHECK(text[0] == 'U');
    CHECK(nkey_read_public(text, key) && memcmp(key, public, sizeof key) == 0);
    CHECK(!nkey_read_seed(text, key));
    nkey_print_seed(secret, text);
    CHECK_EQUAL(strlen(text), 58);
    CHECK(strncmp(text, "SU", 2) == 0);
    CHECK(nkey_read_seed(text, key) && memcmp(key, secret, sizeof key) == 0);
    CHECK(!nkey_read_public(text, key));
}

static void each_slip_is_refused(void)
{
    uint8_t key[NKEY_BYTES];
    char text[NKEY_PUBLIC_TEXT_BYTES], seed[NKEY_SEED_TEXT_BYTES];
    nkey_print_public(public, text);
    nkey_print_seed(secret, seed);
    for (size_t i = 0; text[i]; i++)
        for (const char *other = "AU27a1= "; *other; other++) {
            char kept = text[i];
            if (kept == *other)
                continue;
            text[i] = *other;
            CHECK(!nkey_read_public(text, key));
            text[i] = kept;
        }
    for (size_t i = 0; seed[i]; i++)
        for (const char *other = "AU27a1= "; *other; other++) {
            char kept = seed[i];
            if (kept == *other)
                continue;
            seed[i] = *other;
            CHECK(!nkey_read_seed(seed, key));
            seed[i] = kept;
        }
    text[55] = '\0';
    CHECK(!nkey_read_public(text, key));
    CHECK(!nkey_read_public("", key));
}

static void signatures_are_those_of_the_standard(void)
{
    uint8_t key[ED25519_KEY_BYTES], made[ED25519_SIGNATURE_BYTES];
    CHECK_EQUAL(ed25519_public(secret, key, NULL), MUSTER_OK);
    CHECK(memcmp(key, public, sizeof key) == 0);
    CHECK_EQUAL(ed25519_sign(secret, "r", 1, made, NULL), MUSTER_OK);
    CHECK(memcmp(made, signature_of_r, sizeof made) == 0);
    CHECK_EQUAL(ed25519_verify(public, "r", 1, made, NULL), MUSTER_OK);
    CHECK_EQUAL(ed25519_verify(public, "s", 1, made, NULL), MUSTER_E_DENIED);
    made[63] ^= 1;
    CHECK_EQUAL(ed25519_verify(public, "r", 1, made, NULL), MUSTER_E_DENIED);
}

static void files_are_their_owners_alone(void)
{
    char one[MUSTER_CLUSTER_KEY_BYTES], again[MUSTER_CLUSTER_KEY_BYTES];
    const char *path = in_folder("a.key");
    struct stat facts;
    struct muster_error error;
    CHECK_EQUAL(muster_cluster_key_create(path, one, NULL), MUSTER_OK);
    CHECK(stat(path, &facts) == 0 && (facts.st_mode & 0777) == 0600);
    CHECK_EQUAL(muster_cluster_key_create(path, again, NULL), MUSTER_E_IO);
    CHECK_EQUAL(muster_cluster_key_read(path, again, NULL), MUSTER_OK);
    CHECK_TEXT(one, again);
    CHECK_EQUAL(muster_cluster_key_read(one, again, NULL), MUSTER_OK);
    static const mode_t open_modes[] = { 0640, 0604, 0620, 0601 };
    for (size_t i = 0; i < sizeof open_modes / sizeof *open_modes; i++) {
        CHECK(chmod(path, open_modes[i]) == 0);
        CHECK_EQUAL(muster_cluster_key_read(path, again, &error), MUSTER_E_DENIED);
        CHECK(strstr(error.fix, "chmod 600") != NULL);
    }
    CHECK_EQUAL(muster_cluster_key_read(in_folder("gone"), again, NULL), MUSTER_E_NOT_FOUND);
    CHECK_EQUAL(muster_cluster_key_read(folder, again, NULL), MUSTER_E_PARSE);
}

/* A description as it is stored: the lines do not matter here, but their end. */
static size_t sign_text(char text[MANIFEST_BYTES_MAX], struct cluster_key *key)
{
    size_t bytes = (size_t)snprintf(text, MANIFEST_BYTES_MAX, "muster-job 1\nname a\nend\n");
    CHECK_EQUAL(signature_append(text, &bytes, key, NULL), MUSTER_OK);
    return bytes;
}

static struct cluster_key sample_key(void)
{
    struct cluster_key key = { .is_set = true };
    memcpy(key.secret, secret, sizeof key.secret);
    nkey_print_public(public, key.name);
    return key;
}

static void each_byte_is_signed(void)
{
    static char text[MANIFEST_BYTES_MAX];
    char signer[NKEY_PUBLIC_TEXT_BYTES];
    struct cluster_key key = sample_key();
    size_t bytes = sign_text(text, &key);
    CHECK_EQUAL(signature_check(text, bytes, signer, NULL), MUSTER_OK);
    CHECK_TEXT(key.name, signer);
    for (size_t i = 0; i < bytes; i++) {
        text[i] ^= 1;
        CHECK_EQUAL(signature_check(text, bytes, signer, NULL), MUSTER_E_DENIED);
        CHECK_TEXT("", signer);
        text[i] ^= 1;
    }
    for (size_t i = 0; i < bytes; i++)
        CHECK_EQUAL(signature_check(text, i, signer, NULL), MUSTER_E_DENIED);
}

static void who_is_trusted(void)
{
    static char text[MANIFEST_BYTES_MAX], list[512];
    char other[MUSTER_CLUSTER_KEY_BYTES];
    struct cluster_key key = sample_key();
    struct trust trust;
    struct muster_error error;
    size_t bytes = sign_text(text, &key);
    CHECK_EQUAL(muster_cluster_key_create(in_folder("other.key"), other, NULL), MUSTER_OK);
    CHECK_EQUAL(trust_init(&trust, "any", NULL), MUSTER_OK);
    CHECK_EQUAL(trust_check(&trust, "unsigned", 8, NULL), MUSTER_OK);
    CHECK_EQUAL(trust_init(&trust, other, NULL), MUSTER_OK);
    CHECK_EQUAL(trust_check(&trust, text, bytes, &error), MUSTER_E_DENIED);
    CHECK(strstr(error.text, key.name) != NULL);
    snprintf(list, sizeof list, "%s,%s", other, key.name);
    CHECK_EQUAL(trust_init(&trust, list, NULL), MUSTER_OK);
    CHECK_EQUAL(trust_check(&trust, text, bytes, NULL), MUSTER_OK);
    CHECK_EQUAL(trust_check(&trust, "unsigned", 8, NULL), MUSTER_E_DENIED);
    /* A file is read each time. */
    snprintf(list, sizeof list, "# who\n\n  %s another user\n", other);
    const char *path = in_folder("trust");
    CHECK_EQUAL(platform_file_write(path, list, strlen(list), NULL), MUSTER_OK);
    CHECK_EQUAL(trust_init(&trust, path, NULL), MUSTER_OK);
    CHECK_EQUAL(trust_check(&trust, text, bytes, NULL), MUSTER_E_DENIED);
    snprintf(list, sizeof list, "%s\n%s me", other, key.name);
    CHECK_EQUAL(platform_file_replace(path, list, strlen(list), NULL), MUSTER_OK);
    CHECK_EQUAL(trust_check(&trust, text, bytes, NULL), MUSTER_OK);
    CHECK(unlink(path) == 0);
    CHECK_EQUAL(trust_check(&trust, text, bytes, NULL), MUSTER_E_DENIED);
    CHECK_EQUAL(trust_init(&trust, path, NULL), MUSTER_E_IO);
    CHECK_EQUAL(trust_init(&trust, "", NULL), MUSTER_E_INVALID);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(texts_are_read_as_they_were_written),
        TEST(each_slip_is_refused),
        TEST(signatures_are_those_of_the_standard),
        TEST(files_are_their_owners_alone),
        TEST(each_byte_is_signed),
        TEST(who_is_trusted),
    };
    if (ed25519_load(NULL) != MUSTER_OK) {
        printf("no libcrypto: keys are not tested\n");
        return 0;
    }
    if (platform_folder_make_temporary(folder, NULL) != MUSTER_OK)
        return 1;
    int code = test_main(argc, argv, tests, sizeof tests / sizeof *tests);
    platform_folder_remove_temporary(folder);
    return code;
}
