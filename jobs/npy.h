/*
 * The header of NumPy's .npy files (format versions 1.0, 2.0 and 3.0): what an array's elements are and
 * how many there are in each dimension. Arrays in C order, of plain numbers of this machine's byte
 * order; others are refused by name.
 */
#ifndef JOBS_NPY_H
#define JOBS_NPY_H

#include <muster/muster.h>
#include <stdbool.h>

#define NPY_MAGIC "\x93NUMPY"
#define NPY_MAGIC_BYTES 6
/* Magic, version and, of version 1, the length: what says how long the header is has 10 or 12 bytes. */
#define NPY_BEGIN_BYTES 12
#define NPY_HEADER_MAX 65536
#define NPY_DIMENSIONS_MAX 32

struct npy {
    char kind; /* 'f', 'i', 'u', 'b' (bool) or 'V' (records) */
    size_t element_bytes;
    uint64_t shape[NPY_DIMENSIONS_MAX];
    size_t dimensions;
    uint64_t elements; /* all of them; an array without dimensions has one */
};

/*
 * How long the header is with all that stands before it, from its first NPY_BEGIN_BYTES bytes.
 * MUSTER_E_PARSE: they are none.
 */
muster_status npy_header_bytes(const char *begin, size_t bytes, size_t *out,
                               struct muster_error *err);

/* All of the header. MUSTER_E_PARSE, or MUSTER_E_NOT_SUPPORTED with what to do in NumPy. */
muster_status npy_read(struct npy *npy, const char *header, size_t bytes, struct muster_error *err);

/* Whether the elements are what a pointer to this type points to; `type` as written in C. */
bool npy_is_type(const struct npy *npy, const char *type);
/* As NumPy calls them: "<f4"; into 16 bytes. */
void npy_describe(const struct npy *npy, char text[16]);

/* The kind and size that a C type has in .npy files; false: it has none. */
bool npy_of_type(const char *type, struct npy *npy);
/* Writes a header of version 1 into NPY_HEADER_MAX bytes, and gives how many there are. */
size_t npy_write(const struct npy *npy, char out[NPY_HEADER_MAX]);

#endif
