/*
 * Devices that are to be cut as soon as they are found: the option `slices`, or the variable
 * MUSTER_SLICES. "cuda:0=16,32,84;sim:1=2/6" - entries separated by semicolons, sizes by commas or
 * slashes.
 */
#include "run/device/device.h"

#include <stdio.h>
#include <string.h>

struct entry {
    const char *text; /* borrowed from the option; the id comes first */
    size_t length, id_length;
    uint32_t sizes[SLICES_OF_DEVICE_MAX];
    size_t count;
};

/* One size of an entry; moves `at` behind it. */
static bool read_size(const char **at, const char *end, uint32_t *out)
{
    uint64_t value = 0;
    const char *begin = *at;
    while (*at < end && **at >= '0' && **at <= '9' && value <= UINT32_MAX)
        value = value * 10 + (uint64_t)(*(*at)++ - '0');
    *out = (uint32_t)value;
    return *at > begin && value > 0 && value <= UINT32_MAX;
}

static bool read_sizes(struct entry *entry)
{
    const char *at = entry->text + entry->id_length + 1, *end = entry->text + entry->length;
    for (entry->count = 0; entry->count < SLICES_OF_DEVICE_MAX; at++) {
        if (!read_size(&at, end, &entry->sizes[entry->count]))
            return false;
        entry->count++;
        if (at == end)
            return true;
        if (*at != ',' && *at != '/')
            return false;
    }
    return false;
}

/* The next entry that is not empty; moves `at` behind it. False: there is none. */
static bool next_entry(const char **at, struct entry *entry)
{
    while (**at == ';')
        (*at)++;
    if (!**at)
        return false;
    *entry = (struct entry){ .text = *at, .length = strcspn(*at, ";") };
    entry->id_length = strcspn(entry->text, "=;");
    *at += entry->length;
    return true;
}

/* Whether an entry before this one has the same device, and this one would be ignored. */
static bool is_named_before(const struct muster *m, const struct entry *entry)
{
    struct entry other;
    for (const char *at = m->options.slices; next_entry(&at, &other) && other.text < entry->text;)
        if (other.id_length == entry->id_length &&
            memcmp(other.text, entry->text, entry->id_length) == 0)
            return true;
    return false;
}

static muster_status check_entry(struct muster *m, struct entry *entry, struct muster_error *err)
{
    size_t name = strcspn(entry->text, ":=;");
    const char *number = entry->text + name + 1;
    bool has_form = entry->id_length < entry->length && name + 1 < entry->id_length &&
                    strspn(number, "0123456789") == entry->id_length - name - 1 &&
                    (number[0] != '0' || entry->id_length == name + 2);
    if (!has_form || !read_sizes(entry))
        return muster_error_fill(err, MUSTER_E_PARSE, 0,
                                 "write it as \"cuda:0=16,32,84\", entries separated by ;",
                                 "slices: \"%.*s\" is not a device and the sizes of its slices",
                                 (int)(entry->length < 100 ? entry->length : 100), entry->text);
    if (!backends_find(m, entry->text, name))
        return muster_error_fill(err, MUSTER_E_NOT_FOUND, 0, "look at `muster devices`",
                                 "slices asks for the unknown backend \"%.*s\"",
                                 (int)entry->id_length, entry->text);
    if (is_named_before(m, entry))
        return muster_error_fill(err, MUSTER_E_PARSE, 0, "put all sizes of a device in one entry",
                                 "slices: \"%.*s\" is there twice", (int)entry->id_length,
                                 entry->text);
    return MUSTER_OK;
}

muster_status slices_check(struct muster *m, struct muster_error *err)
{
    struct entry entry;
    muster_status status = MUSTER_OK;
    for (const char *at = m->options.slices; at && status == MUSTER_OK && next_entry(&at, &entry);)
        status = check_entry(m, &entry, err);
    return status;
}

size_t slices_wanted(const struct muster *m, const char *id, uint32_t *sizes)
{
    struct entry entry;
    for (const char *at = m->options.slices; at && next_entry(&at, &entry);)
        if (strlen(id) == entry.id_length && memcmp(id, entry.text, entry.id_length) == 0 &&
            read_sizes(&entry)) {
            memcpy(sizes, entry.sizes, entry.count * sizeof *sizes);
            return entry.count;
        }
    return 0;
}

bool slices_name(const struct muster *m, const char *backend)
{
    struct entry entry;
    size_t length = strlen(backend);
    for (const char *at = m->options.slices; at && next_entry(&at, &entry);)
        if (strcspn(entry.text, ":") == length && memcmp(entry.text, backend, length) == 0)
            return true;
    return false;
}

bool slices_allowed(const struct muster *m, const char *id)
{
    uint32_t sizes[SLICES_OF_DEVICE_MAX];
    size_t count = slices_wanted(m, id, sizes), i = 0;
    char slice[sizeof((struct muster_device_info *)0)->id];
    for (; i < count; i++) {
        snprintf(slice, sizeof slice, "%.15s/%zu", id, i);
        if (run_list_names(m->options.devices, slice))
            break;
    }
    return i < count;
}

muster_status slices_check_found(const struct muster *m, const char *backend, uint32_t count,
                                 struct muster_error *err)
{
    struct entry entry;
    size_t length = strlen(backend);
    for (const char *at = m->options.slices; at && next_entry(&at, &entry);) {
        unsigned long long number = 0;
        if (strcspn(entry.text, ":") != length || memcmp(entry.text, backend, length) != 0 ||
            sscanf(entry.text + length, ":%19llu", &number) != 1 || number < count)
            continue;
        return muster_error_fill(err, MUSTER_E_NOT_FOUND, 0, "look at `muster devices`",
                                 "slices asks for \"%.*s\"; %s has %u devices",
                                 (int)entry.id_length, entry.text, backend, count);
    }
    return MUSTER_OK;
}
