/*
 * What `muster kernel check` does to a kernel, in a process of its own: runs it on small data with
 * guard pages around every array, each item alone, in several orders and on every device, and notes
 * what a job could not stand.
 */
#ifndef CLI_PROBE_H
#define CLI_PROBE_H

#include <muster/muster.h>
#include <stdatomic.h>
#include <stdbool.h>

#define PROBE_FINDINGS_MAX 32
#define PROBE_DEVICES_MAX 32
#define PROBE_FORMS_MAX 8
#define PROBE_TEXT_BYTES 240
#define PROBE_NAME_BYTES 64

/* What can be wrong with a kernel. */
#define PROBE_KINDS(X)                                                                             \
    X(PROBE_REFUSED, "refused")              /* a compiler or a driver does not take it */         \
    X(PROBE_SHARED_WRITE, "shared-write")    /* two items write the same element */                \
    X(PROBE_FOREIGN_WRITE, "foreign-write")  /* an item writes an element that is another's */     \
    X(PROBE_UNWRITTEN, "unwritten")          /* an item leaves an element of a result as it was */ \
    X(PROBE_UNSET_READ, "read-before-write") /* a result depends on what was there before */       \
    X(PROBE_NEIGHBOUR, "neighbour")          /* an item reads an input beyond its own elements */  \
    X(PROBE_OUTSIDE, "outside")         /* an item touches what is before or after an array */     \
    X(PROBE_CONST_WRITE, "const-write") /* an item writes an input */                              \
    X(PROBE_STATE, "state")             /* the same item gives something else when run again */    \
    X(PROBE_ORDER, "order")             /* the result depends on the order of items */             \
    X(PROBE_IDENTITY, "identity")       /* of a reduction: joining no items changes something */   \
    X(PROBE_CRASH, "crash")             /* a signal that is no access to memory beside an array */ \
    X(PROBE_ENDLESS, "endless")         /* an item does not end */                                 \
    X(PROBE_DEVICES, "devices-differ")  /* devices give other bits than the CPU */

enum probe_kind {
#define PROBE_VALUE(kind, name) kind,
    PROBE_KINDS(PROBE_VALUE)
#undef PROBE_VALUE
        PROBE_KIND_COUNT
};

const char *probe_kind_name(enum probe_kind kind);

struct probe_finding {
    enum probe_kind kind;
    char text[PROBE_TEXT_BYTES], fix[PROBE_TEXT_BYTES];
    char parameter[PROBE_NAME_BYTES]; /* empty: of none */
    int64_t item, element;            /* -1: of none */
};

/* How a parameter is used, as far as that was seen. */
struct probe_use {
    char name[PROBE_NAME_BYTES], use[32]; /* "MUSTER_IN", "MUSTER_ALL" ... */
    uint64_t elements, halo;              /* of an item; 0: of none */
};

struct probe_form {
    enum muster_kernel_kind kind;
    uint16_t compute[2];
    muster_status status;
    char why[PROBE_TEXT_BYTES];
};

struct probe_device {
    char id[24];
    muster_status status;
    char why[PROBE_TEXT_BYTES];
};

/*
 * In memory that both processes map: the checking one writes, the other reads it when that one has
 * ended, in whatever way.
 */
struct probe_report {
    _Atomic uint64_t steps;    /* grows while there is progress */
    _Atomic bool is_compiling; /* which takes longer */
    bool is_done;
    char doing[PROBE_TEXT_BYTES]; /* "item 3 of kernel f on the CPU" */
    struct muster_error error;    /* why it could not be done at all; status 0: it could */
    struct probe_finding findings[PROBE_FINDINGS_MAX];
    size_t finding_count;
    struct probe_use uses[MUSTER_ARGS_MAX];
    size_t use_count;
    struct probe_form forms[PROBE_FORMS_MAX];
    size_t form_count;
    struct probe_device devices[PROBE_DEVICES_MAX];
    size_t device_count;
};

/* A list of words, as the command line has them. */
struct probe_words {
    const char *const *words;
    size_t count;
};

struct probe_options {
    const char *file, *entry;
    const char *devices;          /* NULL: all */
    struct probe_words arguments; /* NAME=VALUE */
    struct probe_words elements;  /* NAME=ELEMENTS of an item */
    struct probe_words inout, whole;
    uint64_t halo;  /* items that a source or array has before and after a unit */
    uint64_t items; /* 0: chosen */
    /* Of kernels that take cells: */
    uint32_t sides[3]; /* width, height and depth; 0: chosen */
    bool is_pictures;
    uint64_t seed;
    bool no_cuda; /* PTX and cubins are not compiled */
    bool is_verbose;
};

/* Checks one kernel; all is told in `report`. */
void probe_kernel(const struct probe_options *options, struct probe_report *report);

/* Adds a finding, unless one of the kind and parameter is there already. */
__attribute__((format(printf, 7, 8))) void probe_find(struct probe_report *report,
                                                      enum probe_kind kind, const char *parameter,
                                                      int64_t item, int64_t element,
                                                      const char *fix, const char *format, ...);
bool probe_has(const struct probe_report *report, enum probe_kind kind);

#endif
