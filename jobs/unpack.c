#include "unpack.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PACKED_BYTES 65536u

/* What is used of zlib, as its binary interface has it since 1.2. */
struct zlib_stream {
    const uint8_t *next_in;
    unsigned avail_in;
    unsigned long total_in;
    uint8_t *next_out;
    unsigned avail_out;
    unsigned long total_out;
    const char *message;
    void *state;
    void *(*allocate)(void *, unsigned, unsigned);
    void (*release)(void *, void *);
    void *opaque;
    int data_type;
    unsigned long adler, reserved;
};
#define ZLIB_END 1
#define ZLIB_BUFFER (-5) /* nothing could be done: more input is needed */
#define ZLIB_GZIP (16 + 15)

/* And of libzstd. */
struct zstd_in {
    const void *bytes;
    size_t count, at;
};
struct zstd_out {
    void *bytes;
    size_t count, at;
};
#define ZSTD_WINDOW_LOG_MAX 100
#define ZSTD_WINDOW_LOG 31

static struct {
    pthread_mutex_t lock;
    void *zlib, *zstd;
    int (*inflate_init)(struct zlib_stream *, int, const char *, int);
    int (*inflate)(struct zlib_stream *, int);
    int (*inflate_reset)(struct zlib_stream *);
    int (*inflate_end)(struct zlib_stream *);
    void *(*zstd_create)(void);
    size_t (*zstd_free)(void *);
    size_t (*zstd_set)(void *, int, int);
    size_t (*zstd_decompress)(void *, struct zstd_out *, struct zstd_in *);
    unsigned (*zstd_is_error)(size_t);
    const char *(*zstd_error)(size_t);
} loaded = { .lock = PTHREAD_MUTEX_INITIALIZER };

struct unpack {
    int descriptor;
    enum unpack_kind kind;
    struct zlib_stream zlib;
    void *zstd;      /* owns */
    bool is_within;  /* a member or frame that has not ended */
    bool has_ended;  /* the descriptor, or what is of use in it */
    size_t used, at; /* of `packed` */
    uint8_t packed[PACKED_BYTES];
};

enum unpack_kind unpack_kind(const uint8_t *bytes, size_t count)
{
    static const uint8_t zstd[] = { 0x28, 0xb5, 0x2f, 0xfd };
    if (count >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b)
        return UNPACK_GZIP;
    return count >= sizeof zstd && memcmp(bytes, zstd, sizeof zstd) == 0 ? UNPACK_ZSTD : UNPACK_NOT;
}

/* Functions are not objects: their addresses are copied. */
static bool find(void *library, const char *name, void *function)
{
    void *address = dlsym(library, name);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

static bool load_zlib(void)
{
    void *library = dlopen("libz.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    bool is_whole = find(library, "inflateInit2_", &loaded.inflate_init) &&
                    find(library, "inflate", &loaded.inflate) &&
                    find(library, "inflateReset", &loaded.inflate_reset) &&
                    find(library, "inflateEnd", &loaded.inflate_end);
    if (is_whole)
        loaded.zlib = library;
    else
        dlclose(library);
    return is_whole;
}

static bool load_zstd(void)
{
    void *library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    bool is_whole = find(library, "ZSTD_createDStream", &loaded.zstd_create) &&
                    find(library, "ZSTD_freeDStream", &loaded.zstd_free) &&
                    find(library, "ZSTD_DCtx_setParameter", &loaded.zstd_set) &&
                    find(library, "ZSTD_decompressStream", &loaded.zstd_decompress) &&
                    find(library, "ZSTD_isError", &loaded.zstd_is_error) &&
                    find(library, "ZSTD_getErrorName", &loaded.zstd_error);
    if (is_whole)
        loaded.zstd = library;
    else
        dlclose(library);
    return is_whole;
}

static bool load(enum unpack_kind kind)
{
    pthread_mutex_lock(&loaded.lock);
    bool is_there = kind == UNPACK_NOT                   ? true
                    : kind == UNPACK_GZIP && loaded.zlib ? true
                    : kind == UNPACK_ZSTD && loaded.zstd ? true
                    : kind == UNPACK_GZIP                ? load_zlib()
                                                         : load_zstd();
    pthread_mutex_unlock(&loaded.lock);
    return is_there;
}

static bool begin_kind(struct unpack *unpack)
{
    if (unpack->kind == UNPACK_GZIP)
        return loaded.inflate_init(&unpack->zlib, ZLIB_GZIP, "1.2.11", (int)sizeof unpack->zlib) ==
               0;
    if (unpack->kind != UNPACK_ZSTD)
        return true;
    unpack->zstd = loaded.zstd_create();
    /* As large a window as `zstd --long=31` makes. */
    return unpack->zstd && !loaded.zstd_is_error(
                               loaded.zstd_set(unpack->zstd, ZSTD_WINDOW_LOG_MAX, ZSTD_WINDOW_LOG));
}

struct unpack *unpack_open(int descriptor, enum unpack_kind kind, const uint8_t *begin,
                           size_t begin_bytes, char *why, size_t why_bytes)
{
    if (!load(kind)) {
        snprintf(why, why_bytes, "compressed with %s, and %s is not there; install %s",
                 kind == UNPACK_GZIP ? "gzip" : "zstd",
                 kind == UNPACK_GZIP ? "libz.so.1" : "libzstd.so.1",
                 kind == UNPACK_GZIP ? "zlib1g" : "libzstd1");
        return NULL;
    }
    struct unpack *unpack = calloc(1, sizeof *unpack);
    if (unpack) {
        unpack->descriptor = descriptor;
        unpack->kind = kind;
        unpack->used = begin_bytes;
        memcpy(unpack->packed, begin, begin_bytes);
        if (begin_kind(unpack))
            return unpack;
        /* zlib has nothing to end where it could not begin. */
        if (unpack->zstd)
            loaded.zstd_free(unpack->zstd);
        free(unpack);
    }
    snprintf(why, why_bytes, "no memory to decompress it");
    return NULL;
}

void unpack_close(struct unpack *unpack)
{
    if (!unpack)
        return;
    if (unpack->kind == UNPACK_GZIP)
        loaded.inflate_end(&unpack->zlib);
    if (unpack->kind == UNPACK_ZSTD)
        loaded.zstd_free(unpack->zstd);
    free(unpack);
}

/* Makes sure that `wanted` bytes lie in `packed`, or all that there are. False: an error of the system. */
static bool fill(struct unpack *unpack, size_t wanted)
{
    if (unpack->used - unpack->at >= wanted)
        return true;
    memmove(unpack->packed, unpack->packed + unpack->at, unpack->used - unpack->at);
    unpack->used -= unpack->at;
    unpack->at = 0;
    while (unpack->used < wanted && !unpack->has_ended) {
        ssize_t got = read(unpack->descriptor, unpack->packed + unpack->used,
                           sizeof unpack->packed - unpack->used);
        if (got < 0 && errno != EINTR)
            return false;
        unpack->used += got > 0 ? (size_t)got : 0;
        unpack->has_ended = got == 0;
    }
    return true;
}

/* One step; how much of `packed` it took and how much text it made. False: `why` says why not. */
static bool step_gzip(struct unpack *unpack, void *to, size_t *bytes, char *why, size_t why_bytes)
{
    struct zlib_stream *zlib = &unpack->zlib;
    zlib->next_in = unpack->packed + unpack->at;
    zlib->avail_in = (unsigned)(unpack->used - unpack->at);
    zlib->next_out = to;
    zlib->avail_out = *bytes < UINT_MAX ? (unsigned)*bytes : UINT_MAX;
    unsigned room = zlib->avail_out;
    int status = loaded.inflate(zlib, 0);
    unpack->at = unpack->used - zlib->avail_in;
    *bytes = room - zlib->avail_out;
    unpack->is_within = status != ZLIB_END;
    if (status == ZLIB_END)
        status = loaded.inflate_reset(zlib);
    if (status != 0 && status != ZLIB_BUFFER)
        snprintf(why, why_bytes, "what gzip made of it is damaged%s%s", zlib->message ? ": " : "",
                 zlib->message ? zlib->message : "");
    return status == 0 || status == ZLIB_BUFFER;
}

static bool step_zstd(struct unpack *unpack, void *to, size_t *bytes, char *why, size_t why_bytes)
{
    struct zstd_in in = { unpack->packed, unpack->used, unpack->at };
    struct zstd_out out = { to, *bytes, 0 };
    size_t status = loaded.zstd_decompress(unpack->zstd, &out, &in);
    unpack->at = in.at;
    *bytes = out.at;
    unpack->is_within = status != 0;
    if (loaded.zstd_is_error(status))
        snprintf(why, why_bytes, "what zstd made of it is damaged: %s", loaded.zstd_error(status));
    return !loaded.zstd_is_error(status);
}

static int64_t read_plain(struct unpack *unpack, void *to, size_t bytes)
{
    size_t left = unpack->used - unpack->at;
    size_t part = left < bytes ? left : bytes;
    if (part == 0) {
        ssize_t got;
        do
            got = read(unpack->descriptor, to, bytes);
        while (got < 0 && errno == EINTR);
        return got;
    }
    memcpy(to, unpack->packed + unpack->at, part);
    unpack->at += part;
    return (int64_t)part;
}

int64_t unpack_read(struct unpack *unpack, void *to, size_t bytes, char *why, size_t why_bytes)
{
    if (unpack->kind == UNPACK_NOT) {
        int64_t got = read_plain(unpack, to, bytes);
        if (got < 0)
            snprintf(why, why_bytes, "%s", strerror(errno));
        return got;
    }
    for (;;) {
        if (!fill(unpack, UNPACK_MAGIC_BYTES)) {
            snprintf(why, why_bytes, "%s", strerror(errno));
            return -1;
        }
        size_t left = unpack->used - unpack->at, made = bytes;
        /* What follows the last member and is none is padding, as gzip has it. */
        if (!unpack->is_within &&
            (left == 0 || (unpack->kind == UNPACK_GZIP &&
                           unpack_kind(unpack->packed + unpack->at, left) != UNPACK_GZIP)))
            return 0;
        size_t before = unpack->at;
        bool is_good = unpack->kind == UNPACK_GZIP ? step_gzip(unpack, to, &made, why, why_bytes)
                                                   : step_zstd(unpack, to, &made, why, why_bytes);
        if (!is_good)
            return -1;
        if (made > 0)
            return (int64_t)made;
        if (unpack->at == before && unpack->has_ended) {
            snprintf(why, why_bytes, "it is compressed, and its end is missing");
            return -1;
        }
    }
}
