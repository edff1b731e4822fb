/*
 * Shared objects that are loaded without the system: into memory that was taken before, with nothing opened, mapped or
 * changed in its rights, so that it can be done inside a sandbox. No code of theirs runs while they are loaded.
 *
 * They may need functions of the C library and its mathematics, and nothing else: no other libraries, no variables of a
 * thread, no functions that run when they are loaded.
 */
#ifndef PLATFORM_OBJECT_H
#define PLATFORM_OBJECT_H

#include <muster/status.h>
#include <stdbool.h>

#define OBJECTS_BYTES ((size_t)64 << 20)
#define OBJECT_BYTES_MAX ((size_t)32 << 20)

/* One that is loaded. Stays where it is. */
struct platform_object {
    struct platform_object *next; /* in the order of their places */
    size_t place, bytes;          /* of OBJECTS_BYTES */
    const unsigned char *code;    /* borrowed: the file's bytes, until it is unloaded */
    size_t code_bytes;
};

/* Takes the memory. Once in a process, before the sandbox is closed. */
muster_status platform_objects_prepare(struct muster_error *err);
/*
 * `code` stays until the object is unloaded. It may be anything. One thread. MUSTER_E_INVALID: it is no such object;
 * MUSTER_E_NOT_FOUND: it needs what is not there; MUSTER_E_CAPACITY.
 */
muster_status platform_object_load(struct platform_object *object, const void *code, size_t bytes,
                                   struct muster_error *err);
/* NULL if it has no such function or variable. */
void *platform_object_symbol(const struct platform_object *object, const char *name);
/* Nobody runs it any more. */
void platform_object_unload(struct platform_object *object);

#endif
