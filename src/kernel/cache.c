/*
 * What was compiled before, on disk. A file is named after the hash of all that went into it, and
 * says in its head what it holds: the same hash, and the hash of the rest.
 */
#include "base/allocator.h"
#include "kernel/compile.h"
#include "platform/file.h"
#include "platform/machine.h"

#include <stdio.h>
#include <string.h>

static const char magic[8] = { 'M', 'U', 'S', 'T', 'E', 'R', 'K', '1' };
#define HEAD_BYTES (sizeof magic + 2 * SHA256_BYTES)
#define ENTRY_BYTES_MAX ((size_t)256 << 20)

/* False: there is none. */
static bool find_folder(char folder[PLATFORM_PATH_BYTES])
{
    static const struct {
        const char *variable, *below;
    } places[] = { { "MUSTER_CACHE", "" },
                   { "XDG_CACHE_HOME", "/muster" },
                   { "HOME", "/.cache/muster" } };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *value = platform_environment(places[i].variable);
        if (!value || (i > 0 && !*value))
            continue;
        int length = snprintf(folder, PLATFORM_PATH_BYTES, "%s%s", value, places[i].below);
        return *value != '\0' && length < PLATFORM_PATH_BYTES;
    }
    return false;
}

static bool find_path(const uint8_t key[SHA256_BYTES], char folder[PLATFORM_PATH_BYTES],
                      char path[PLATFORM_PATH_BYTES])
{
    char name[2 * SHA256_BYTES + 1];
    if (!find_folder(folder))
        return false;
    for (size_t i = 0; i < SHA256_BYTES; i++)
        snprintf(name + 2 * i, 3, "%02x", key[i]);
    return snprintf(path, PLATFORM_PATH_BYTES, "%s/%s.kernel", folder, name) < PLATFORM_PATH_BYTES;
}

static void hash_of(const void *bytes, size_t size, uint8_t out[SHA256_BYTES])
{
    struct sha256 hash;
    sha256_init(&hash);
    sha256_add(&hash, bytes, size);
    sha256_finish(&hash, out);
}

static bool is_whole(const char *text, size_t bytes, const uint8_t key[SHA256_BYTES])
{
    uint8_t hash[SHA256_BYTES];
    if (bytes < HEAD_BYTES || memcmp(text, magic, sizeof magic) != 0 ||
        memcmp(text + sizeof magic, key, SHA256_BYTES) != 0)
        return false;
    hash_of(text + HEAD_BYTES, bytes - HEAD_BYTES, hash);
    return memcmp(text + sizeof magic + SHA256_BYTES, hash, SHA256_BYTES) == 0;
}

bool kernel_cache_find(const uint8_t key[SHA256_BYTES], const struct muster_allocator *allocator,
                       struct kernel_blob *out)
{
    char folder[PLATFORM_PATH_BYTES], path[PLATFORM_PATH_BYTES], *text;
    size_t bytes;
    /* What is loaded becomes part of this process, so nobody else may have put it there. */
    if (!find_path(key, folder, path) || !platform_file_is_ours(folder) ||
        !platform_file_is_ours(path) ||
        platform_file_read(allocator, path, ENTRY_BYTES_MAX, &text, &bytes, NULL) != MUSTER_OK)
        return false;
    *out = (struct kernel_blob){ .memory = text, .memory_bytes = bytes + 1 };
    if (!is_whole(text, bytes, key)) {
        kernel_blob_release(out, allocator);
        return false;
    }
    out->data = text + HEAD_BYTES;
    out->size = bytes - HEAD_BYTES;
    return true;
}

void kernel_cache_keep(const uint8_t key[SHA256_BYTES], const void *bytes, size_t size,
                       const struct muster_allocator *allocator)
{
    char folder[PLATFORM_PATH_BYTES], path[PLATFORM_PATH_BYTES];
    if (size > ENTRY_BYTES_MAX - HEAD_BYTES || !find_path(key, folder, path) ||
        !platform_folder_make(folder) || !platform_file_is_ours(folder))
        return;
    char *text = allocator_take(allocator, HEAD_BYTES + size, 1);
    if (!text)
        return;
    memcpy(text, magic, sizeof magic);
    memcpy(text + sizeof magic, key, SHA256_BYTES);
    hash_of(bytes, size, (uint8_t *)text + sizeof magic + SHA256_BYTES);
    memcpy(text + HEAD_BYTES, bytes, size);
    platform_file_put_over(path, text, HEAD_BYTES + size, NULL);
    allocator_give(allocator, text, HEAD_BYTES + size, 1);
}

static void words_key(const uint8_t key[SHA256_BYTES], uint8_t out[SHA256_BYTES])
{
    struct sha256 hash;
    sha256_init(&hash);
    sha256_add_text(&hash, "words");
    sha256_add(&hash, key, SHA256_BYTES);
    sha256_finish(&hash, out);
}

void kernel_cache_keep_words(const uint8_t key[SHA256_BYTES], const char *words,
                             const struct muster_allocator *allocator)
{
    uint8_t own[SHA256_BYTES];
    words_key(key, own);
    if (words[strspn(words, " \n")])
        kernel_cache_keep(own, words, strlen(words) + 1, allocator);
}

void kernel_cache_tell_words(const uint8_t key[SHA256_BYTES],
                             const struct muster_allocator *allocator, const struct kernel_log *log)
{
    struct kernel_blob words;
    uint8_t own[SHA256_BYTES];
    words_key(key, own);
    if (!log || !kernel_cache_find(own, allocator, &words))
        return;
    if (words.size > 0 && words.data[words.size - 1] == '\0')
        kernel_tell(log, MUSTER_LOG_WARNING, words.data);
    kernel_blob_release(&words, allocator);
}
