#include "cluster/ed25519.h"

#include "platform/library.h"
#include "platform/machine.h"
#include "platform/thread.h"

#include <muster/backend.h>
#include <string.h>

/* EVP_PKEY_ED25519. */
#define KIND 1087

struct evp_key;
struct evp_context;

/* What is used of libcrypto, as <openssl/evp.h> declares it. */
struct functions {
    struct evp_key *(*new_secret)(int kind, void *engine, const uint8_t *bytes, size_t size);
    struct evp_key *(*new_public)(int kind, void *engine, const uint8_t *bytes, size_t size);
    int (*get_public)(const struct evp_key *key, uint8_t *bytes, size_t *size);
    void (*free_key)(struct evp_key *key);
    struct evp_context *(*new_context)(void);
    void (*free_context)(struct evp_context *context);
    int (*sign_init)(struct evp_context *context, void **details, const void *digest, void *engine,
                     struct evp_key *key);
    int (*sign)(struct evp_context *context, uint8_t *signature, size_t *signature_size,
                const uint8_t *bytes, size_t size);
    int (*verify_init)(struct evp_context *context, void **details, const void *digest,
                       void *engine, struct evp_key *key);
    int (*verify)(struct evp_context *context, const uint8_t *signature, size_t signature_size,
                  const uint8_t *bytes, size_t size);
};

static struct {
    struct platform_once once;
    bool is_there;
    struct functions functions;
    struct muster_error error;
} loaded = { .once = PLATFORM_ONCE_INIT };

static bool find(const struct platform_library *library, const char *name, void *function)
{
    void *symbol = platform_library_symbol(library, name);
    /* A pointer to a function is as large as one to data wherever there is dlsym. */
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool find_all(const struct platform_library *library, struct functions *out)
{
    return find(library, "EVP_PKEY_new_raw_private_key", &out->new_secret) &&
           find(library, "EVP_PKEY_new_raw_public_key", &out->new_public) &&
           find(library, "EVP_PKEY_get_raw_public_key", &out->get_public) &&
           find(library, "EVP_PKEY_free", &out->free_key) &&
           find(library, "EVP_MD_CTX_new", &out->new_context) &&
           find(library, "EVP_MD_CTX_free", &out->free_context) &&
           find(library, "EVP_DigestSignInit", &out->sign_init) &&
           find(library, "EVP_DigestSign", &out->sign) &&
           find(library, "EVP_DigestVerifyInit", &out->verify_init) &&
           find(library, "EVP_DigestVerify", &out->verify);
}

static void load(void)
{
    static const char *const names[] = { "libcrypto.so.3", "libcrypto.so.1.1", "libcrypto.so" };
    struct platform_library library = { NULL };
    struct muster_error why = { .text = "it lacks Ed25519" };
    const char *named = platform_environment("MUSTER_CRYPTO_LIBRARY");
    bool is_named = named && *named;
    size_t count = is_named ? 1 : sizeof names / sizeof *names;
    for (size_t i = 0; i < count && !loaded.is_there; i++) {
        if (platform_library_open(&library, is_named ? named : names[i], &why) != MUSTER_OK)
            continue;
        /* It stays loaded: the client of NATS has it too. */
        loaded.is_there = find_all(&library, &loaded.functions);
        if (!loaded.is_there)
            platform_library_close(&library);
    }
    if (!loaded.is_there)
        muster_error_fill(&loaded.error, MUSTER_E_NOT_FOUND, 0,
                          "install OpenSSL 1.1.1 or later (Debian: libssl3), or set "
                          "MUSTER_CRYPTO_LIBRARY",
                          "keys of a cluster need libcrypto: %.160s", why.text);
}

muster_status ed25519_load(struct muster_error *err)
{
    platform_once_run(&loaded.once, load);
    if (!loaded.is_there && err)
        *err = loaded.error;
    return loaded.is_there ? MUSTER_OK : loaded.error.status;
}

static muster_status refused(struct muster_error *err)
{
    return muster_error_fill(err, MUSTER_E_FAILED, 0, NULL, "libcrypto could not use a key");
}

muster_status ed25519_public(const uint8_t secret[ED25519_KEY_BYTES],
                             uint8_t out[ED25519_KEY_BYTES], struct muster_error *err)
{
    const struct functions *f = &loaded.functions;
    size_t size = ED25519_KEY_BYTES;
    muster_status status = ed25519_load(err);
    if (status != MUSTER_OK)
        return status;
    struct evp_key *key = f->new_secret(KIND, NULL, secret, ED25519_KEY_BYTES);
    if (!key || f->get_public(key, out, &size) != 1 || size != ED25519_KEY_BYTES)
        status = refused(err);
    f->free_key(key);
    return status;
}

muster_status ed25519_sign(const uint8_t secret[ED25519_KEY_BYTES], const void *bytes, size_t size,
                           uint8_t out[ED25519_SIGNATURE_BYTES], struct muster_error *err)
{
    const struct functions *f = &loaded.functions;
    size_t length = ED25519_SIGNATURE_BYTES;
    muster_status status = ed25519_load(err);
    if (status != MUSTER_OK)
        return status;
    struct evp_key *key = f->new_secret(KIND, NULL, secret, ED25519_KEY_BYTES);
    struct evp_context *context = f->new_context();
    if (!key || !context || f->sign_init(context, NULL, NULL, NULL, key) != 1 ||
        f->sign(context, out, &length, bytes, size) != 1 || length != ED25519_SIGNATURE_BYTES)
        status = refused(err);
    f->free_context(context);
    f->free_key(key);
    return status;
}

muster_status ed25519_verify(const uint8_t key[ED25519_KEY_BYTES], const void *bytes, size_t size,
                             const uint8_t signature[ED25519_SIGNATURE_BYTES],
                             struct muster_error *err)
{
    const struct functions *f = &loaded.functions;
    muster_status status = ed25519_load(err);
    if (status != MUSTER_OK)
        return status;
    struct evp_key *public = f->new_public(KIND, NULL, key, ED25519_KEY_BYTES);
    struct evp_context *context = f->new_context();
    if (!context)
        status = refused(err);
    else if (!public || f->verify_init(context, NULL, NULL, NULL, public) != 1 ||
             f->verify(context, signature, ED25519_SIGNATURE_BYTES, bytes, size) != 1)
        status = muster_error_fill(err, MUSTER_E_DENIED, 0, NULL, "the signature does not match");
    f->free_context(context);
    f->free_key(public);
    return status;
}
