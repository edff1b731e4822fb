#include "cluster/manifest.h"

#include "base/text.h"
#include "core/grains.h"

#include <muster/backend.h>
#include <muster/runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names go into subjects and keys, where '.', '*', '>' and spaces mean something. */
bool manifest_name_is_good(const char *name)
{
    size_t length = strlen(name);
    return length > 0 && length < MANIFEST_NAME_BYTES &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") ==
               length;
}

uint64_t manifest_grains(const struct manifest *manifest)
{
    return grains_count(manifest->items, manifest->grain);
}

struct muster_range manifest_grain(const struct manifest *manifest, uint64_t grain)
{
    const struct muster_range one = { grain, grain + 1 };
    return grains_items(manifest->items, manifest->grain, one);
}

/* Printing. */

static void put_arg(struct text_room *room, const struct manifest_arg *arg)
{
    switch (arg->kind) {
    case MUSTER_ARG_SOURCE:
    case MUSTER_ARG_OUT:
        text_put(room, "arg %s %llu %d\n", arg->kind == MUSTER_ARG_OUT ? "out" : "source",
                 (unsigned long long)arg->bytes, (int)arg->element);
        break;
    case MUSTER_ARG_VALUE:
        text_put(room, "arg value %d ", (int)arg->element);
        for (size_t i = 0; i < arg->bytes; i++)
            text_put(room, "%02x", arg->value[i]);
        text_put(room, "\n");
        break;
    default:
        text_put(room, "arg table %s %llu\n", arg->table.hash,
                 (unsigned long long)arg->table.bytes);
        break;
    }
}

size_t manifest_print(const struct manifest *m, char text[MANIFEST_BYTES_MAX])
{
    struct text_room room = { text, MANIFEST_BYTES_MAX, 0 };
    text_put(&room, "muster-job %d\nversion %s\nname %s\ntitle %s\nuser %s\n", MANIFEST_VERSION,
             MUSTER_VERSION_STRING, m->name, m->title, m->user);
    text_put(&room, "kernel %s %llu\nentry %s\n", m->kernel.hash,
             (unsigned long long)m->kernel.bytes, m->entry);
    text_put(&room, "items %llu\ngrain %llu\nwindow %llu\ntries %u\nweight %u\n",
             (unsigned long long)m->items, (unsigned long long)m->grain,
             (unsigned long long)m->window, m->tries, m->weight);
    for (size_t i = 0; i < m->arg_count; i++)
        put_arg(&room, &m->args[i]);
    if (*m->in.path)
        text_put(&room, "in %llu %llu %llu %s %s\n", (unsigned long long)m->in_offset,
                 (unsigned long long)m->in.bytes, (unsigned long long)m->in.time_ns, m->in.ends,
                 m->in.path);
    if (*m->out_path)
        text_put(&room, "out %llu %llu %s\n", (unsigned long long)m->out_offset,
                 (unsigned long long)m->out_bytes, m->out_path);
    if (*m->out_part)
        text_put(&room, "part %s\n", m->out_part);
    text_put(&room, "through %d\n", m->is_through);
    text_put(&room, "end\n");
    return room.length < MANIFEST_BYTES_MAX ? room.length : 0;
}

/* Reading. */

struct reader {
    struct manifest *m;
    bool has_end, is_signed;
};

/* The next word of a line, which is cut off there; "" at its end. */
static char *take_word(char **at)
{
    char *word = *at, *space = strchr(word, ' ');
    if (space) {
        *space = '\0';
        *at = space + 1;
    } else {
        *at = word + strlen(word);
    }
    return word;
}

static bool take_number(char **at, uint64_t *out)
{
    return text_parse_u64(take_word(at), out);
}

static bool take_text(const char *from, char *to, size_t bytes)
{
    size_t length = strlen(from);
    if (length >= bytes)
        return false;
    memcpy(to, from, length + 1);
    return true;
}

static bool take_object(char **at, struct manifest_object *out)
{
    const char *hash = take_word(at);
    return strlen(hash) == MANIFEST_HASH_BYTES - 1 &&
           strspn(hash, "0123456789abcdef") == MANIFEST_HASH_BYTES - 1 &&
           take_text(hash, out->hash, sizeof out->hash) && take_number(at, &out->bytes);
}

static bool take_hex(const char *text, struct manifest_arg *arg)
{
    size_t length = strlen(text);
    arg->bytes = length / 2;
    if (length == 0 || length % 2 != 0 || arg->bytes > sizeof arg->value ||
        strspn(text, "0123456789abcdef") != length)
        return false;
    for (size_t i = 0; i < arg->bytes; i++) {
        const char byte[3] = { text[2 * i], text[2 * i + 1], 0 };
        arg->value[i] = (unsigned char)strtoul(byte, NULL, 16);
    }
    return true;
}

static bool take_element(char **at, struct manifest_arg *arg)
{
    uint64_t number;
    if (!take_number(at, &number) || number > MUSTER_ELEMENT_DOUBLE)
        return false;
    arg->element = (enum muster_element)number;
    return true;
}

static bool take_arg(struct manifest *m, char *at)
{
    if (m->arg_count == MUSTER_ARGS_MAX)
        return false;
    struct manifest_arg *arg = &m->args[m->arg_count++];
    const char *kind = take_word(&at);
    if (strcmp(kind, "value") == 0) {
        arg->kind = MUSTER_ARG_VALUE;
        return take_element(&at, arg) && take_hex(at, arg);
    }
    if (strcmp(kind, "table") == 0) {
        arg->kind = MUSTER_ARG_ALL;
        return take_object(&at, &arg->table) && arg->table.bytes > 0;
    }
    bool is_out = strcmp(kind, "out") == 0;
    uint64_t *bytes = is_out ? &m->out_item_bytes : &m->item_bytes;
    if ((!is_out && strcmp(kind, "source") != 0) || *bytes != 0)
        return false;
    arg->kind = is_out ? MUSTER_ARG_OUT : MUSTER_ARG_SOURCE;
    bool is_good = take_number(&at, &arg->bytes) && take_element(&at, arg) && arg->bytes > 0;
    *bytes = arg->bytes;
    return is_good;
}

static bool take_in(struct manifest *m, char *at)
{
    if (!take_number(&at, &m->in_offset) || !take_number(&at, &m->in.bytes) ||
        !take_number(&at, &m->in.time_ns))
        return false;
    const char *ends = take_word(&at);
    return take_text(ends, m->in.ends, sizeof m->in.ends) && *at == '/' &&
           take_text(at, m->in.path, sizeof m->in.path);
}

static bool take_out(struct manifest *m, char *at)
{
    return take_number(&at, &m->out_offset) && take_number(&at, &m->out_bytes) && *at == '/' &&
           take_text(at, m->out_path, sizeof m->out_path);
}

static bool take_u32(char *at, uint32_t *out)
{
    uint64_t number;
    bool is_good = text_parse_u64(at, &number) && number <= UINT32_MAX;
    *out = is_good ? (uint32_t)number : 0;
    return is_good;
}

/* Its form alone; nothing may follow it. */
static bool take_signature(struct reader *reader, const char *key, const char *at)
{
    bool is_first = !reader->is_signed;
    reader->is_signed = true;
    return is_first && strcmp(key, "signed") == 0 && strlen(at) == MANIFEST_SIGNATURE_BYTES - 1;
}

static bool take_line(struct reader *reader, const char *key, char *at)
{
    struct manifest *m = reader->m;
    if (reader->has_end)
        return take_signature(reader, key, at);
    if (strcmp(key, "name") == 0)
        return manifest_name_is_good(at) && take_text(at, m->name, sizeof m->name);
    if (strcmp(key, "title") == 0)
        return take_text(at, m->title, sizeof m->title);
    if (strcmp(key, "user") == 0)
        return take_text(at, m->user, sizeof m->user);
    if (strcmp(key, "kernel") == 0)
        return take_object(&at, &m->kernel);
    if (strcmp(key, "entry") == 0)
        return take_text(at, m->entry, sizeof m->entry);
    if (strcmp(key, "items") == 0)
        return text_parse_u64(at, &m->items);
    if (strcmp(key, "grain") == 0)
        return text_parse_u64(at, &m->grain);
    if (strcmp(key, "window") == 0)
        return text_parse_u64(at, &m->window);
    if (strcmp(key, "tries") == 0)
        return take_u32(at, &m->tries);
    if (strcmp(key, "weight") == 0)
        return take_u32(at, &m->weight);
    if (strcmp(key, "arg") == 0)
        return take_arg(m, at);
    if (strcmp(key, "in") == 0)
        return take_in(m, at);
    if (strcmp(key, "out") == 0)
        return take_out(m, at);
    if (strcmp(key, "part") == 0)
        return *at == '/' && take_text(at, m->out_part, sizeof m->out_part);
    if (strcmp(key, "through") == 0) {
        m->is_through = strcmp(at, "1") == 0;
        return m->is_through || strcmp(at, "0") == 0;
    }
    reader->has_end = strcmp(key, "end") == 0 && !*at;
    return reader->has_end;
}

/*
 * The name that the output has until it is complete, and no other: machines write into that file, and
 * the process that cancels the job removes it.
 */
static bool is_part(const struct manifest *m)
{
    char part[SHARED_PATH_BYTES + MANIFEST_NAME_BYTES];
    const char *slash = strrchr(m->out_path, '/');
    if (!*m->out_part || !slash)
        return !*m->out_part == !*m->out_path;
    snprintf(part, sizeof part, "%.*s/.%s.%s.part", (int)(slash - m->out_path), m->out_path,
             slash + 1, m->name);
    return strcmp(part, m->out_part) == 0;
}

/* What each line alone does not show. */
static bool is_whole(const struct manifest *m)
{
    uint64_t bytes;
    return *m->name && *m->kernel.hash && m->items > 0 && m->grain > 0 &&
           manifest_grains(m) <= GRAINS_MAX && m->window > 0 && m->tries > 0 && m->weight > 0 &&
           m->item_bytes > 0 && m->out_item_bytes > 0 &&
           !__builtin_mul_overflow(m->items, m->item_bytes, &bytes) &&
           (!*m->in.path || (m->in.bytes >= m->in_offset && m->in.bytes - m->in_offset >= bytes)) &&
           !__builtin_mul_overflow(m->items, m->out_item_bytes, &bytes) &&
           (!*m->out_path ||
            (m->out_bytes >= m->out_offset && m->out_bytes - m->out_offset >= bytes)) &&
           is_part(m);
}

static muster_status check_version(const char *first, const char *second, struct muster_error *err)
{
    char wanted[32];
    snprintf(wanted, sizeof wanted, "muster-job %d", MANIFEST_VERSION);
    if (strncmp(first, "muster-job ", strlen("muster-job ")) != 0)
        return muster_error_fill(err, MUSTER_E_PARSE, 0, NULL, "this is no job of Muster's");
    if (strcmp(first, wanted) != 0 || strncmp(second, "version ", strlen("version ")) != 0 ||
        strcmp(second + strlen("version "), MUSTER_VERSION_STRING) != 0)
        return muster_error_fill(err, MUSTER_E_VERSION, 0, "install one version on all machines",
                                 "the job is of Muster %.32s (%.32s), and this is %s",
                                 strncmp(second, "version ", 8) == 0 ? second + 8 : "?", first,
                                 MUSTER_VERSION_STRING);
    return MUSTER_OK;
}

static muster_status read_lines(char *text, struct reader *reader, struct muster_error *err)
{
    char *rest = NULL, *first = strtok_r(text, "\n", &rest), *second = strtok_r(NULL, "\n", &rest);
    muster_status status = check_version(first ? first : "", second ? second : "", err);
    for (char *line = strtok_r(NULL, "\n", &rest); line && status == MUSTER_OK;
         line = strtok_r(NULL, "\n", &rest)) {
        char *at = line;
        const char *key = take_word(&at);
        if (!take_line(reader, key, at))
            status = muster_error_fill(err, MUSTER_E_PARSE, 0, NULL,
                                       "the job's description has a line that is not understood: "
                                       "%.40s %.60s",
                                       key, at);
    }
    return status;
}

muster_status manifest_read(const char *text, size_t bytes, struct manifest *out,
                            struct muster_error *err)
{
    if (bytes >= MANIFEST_BYTES_MAX || memchr(text, '\0', bytes))
        return muster_error_fill(err, MUSTER_E_PARSE, 0, NULL, "this is no job of Muster's");
    char *copy = malloc(bytes + 1);
    struct manifest *m = calloc(1, sizeof *m);
    struct reader reader = { m, false, false };
    muster_status status = MUSTER_OK;
    if (!copy || !m)
        status = muster_error_fill(err, MUSTER_E_NO_MEMORY, 0, NULL, "no memory for a job");
    if (status == MUSTER_OK) {
        memcpy(copy, text, bytes);
        copy[bytes] = '\0';
        status = read_lines(copy, &reader, err);
    }
    if (status == MUSTER_OK && (!reader.has_end || !is_whole(m)))
        status = muster_error_fill(err, MUSTER_E_PARSE, 0, NULL,
                                   "the job's description is incomplete or contradicts itself");
    if (status == MUSTER_OK)
        *out = *m;
    free(m);
    free(copy);
    return status;
}
