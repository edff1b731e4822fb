#include "base/layout.h"

/* The size that a struct has whose last member is this one. */
#define END(type, last)                                                                            \
    ((offsetof(type, last) + sizeof((type *)0)->last + _Alignof(type) - 1) / _Alignof(type) *      \
     _Alignof(type))

const struct layout layouts[LAYOUT_COUNT] = {
#define LAYOUT_ENTRY(struct_, last)                                                                \
    { "struct " #struct_, END(struct struct_, last), sizeof(struct struct_) },
    LAYOUT_LIST(LAYOUT_ENTRY)
#undef LAYOUT_ENTRY
};

#define LAYOUT_ASSERT(struct_, last)                                                               \
    _Static_assert(offsetof(struct struct_, size) == 0, "the size stands first");                  \
    _Static_assert(sizeof(struct struct_) % sizeof(size_t) == 0, "no struct is of an odd size");   \
    _Static_assert(sizeof(struct struct_) <= LAYOUT_BYTES_MAX, "a size is told from rubbish");
LAYOUT_LIST(LAYOUT_ASSERT)
#undef LAYOUT_ASSERT

muster_status layout_check_room(const struct layout *layout, const void *room,
                                struct muster_error *err)
{
    size_t size = layout_size(room);
    if (size >= layout->first && size <= LAYOUT_BYTES_MAX && size % sizeof size == 0)
        return MUSTER_OK;
    return muster_error_fill(err, MUSTER_E_INVALID, 0, "set `size` to sizeof the struct",
                             "the size of %s is set to %zu; this library's struct has %zu bytes",
                             layout->name, size, layout->known);
}

muster_status layout_check(const struct layout *layout, const void *given, struct muster_error *err)
{
    const unsigned char *bytes = given;
    size_t size = layout_size(given);
    muster_status status = layout_check_room(layout, given, err);
    for (size_t i = layout->known; status == MUSTER_OK && i < size; i++)
        if (bytes[i] != 0)
            status = muster_error_fill(err, MUSTER_E_VERSION, 0,
                                       "use a newer libmuster, or do not set the field",
                                       "%s has a field set that is unknown to version %s",
                                       layout->name, MUSTER_VERSION_STRING);
    return status;
}

static muster_status check_size_of_each(const struct layout *layout, const void *given,
                                        size_t count, struct muster_error *err)
{
    const size_t size = count > 0 ? layout_size(given) : 0;
    for (size_t i = 1; i < count; i++) {
        size_t other = layout_size((const char *)given + i * size);
        if (other != size)
            return muster_error_fill(
                err, MUSTER_E_INVALID, 0, "set `size` to sizeof the struct in all of them",
                "the sizes of %s number 0 and %zu of one array are %zu and %zu", layout->name, i,
                size, other);
    }
    return MUSTER_OK;
}

muster_status layout_check_rooms(const struct layout *layout, const void *rooms, size_t count,
                                 struct muster_error *err)
{
    muster_status status = count > 0 ? layout_check_room(layout, rooms, err) : MUSTER_OK;
    return status == MUSTER_OK ? check_size_of_each(layout, rooms, count, err) : status;
}

muster_status layout_check_all(const struct layout *layout, const void *given, size_t count,
                               struct muster_error *err)
{
    muster_status status = layout_check_rooms(layout, given, count, err);
    /* Where there is nothing after the fields that are known, none of the others is set. */
    size_t size = count > 0 ? layout_size(given) : 0;
    for (size_t i = 0; size > layout->known && i < count && status == MUSTER_OK; i++)
        status = layout_check(layout, (const char *)given + i * size, err);
    return status;
}

const void *layout_complete(const struct layout *layout, const void *at, void *copy)
{
    size_t size = layout_size(at);
    memset(copy, 0, layout->known);
    memcpy(copy, at, size < layout->known ? size : layout->known);
    memcpy(copy, &layout->known, sizeof layout->known);
    return copy;
}

muster_status layout_read(const struct layout *layout, const void *given, void *out,
                          struct muster_error *err)
{
    muster_status status = layout_check(layout, given, err);
    if (status == MUSTER_OK)
        layout_complete(layout, given, out);
    return status;
}

const void *layout_read_all(const struct layout *layout, const void *given, size_t count,
                            void *copies, muster_status *status, struct muster_error *err)
{
    *status = layout_check_all(layout, given, count, err);
    if (*status != MUSTER_OK || count == 0 || layout_size(given) == layout->known)
        return given;
    for (size_t i = 0; i < count; i++)
        layout_complete(layout, (const char *)given + i * layout_size(given),
                        (char *)copies + i * layout->known);
    return copies;
}

void layout_write(const struct layout *layout, void *room, const void *filled)
{
    size_t size = layout_size(room), both = size < layout->known ? size : layout->known;
    memcpy((char *)room + sizeof size, (const char *)filled + sizeof size, both - sizeof size);
    memset((char *)room + both, 0, size - both);
}
