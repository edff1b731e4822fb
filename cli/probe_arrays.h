/*
 * A kernel's arrays while it is checked: each between guard pages, with data that any kernel should
 * stand, and its code as a function that does items one at a time and comes back when it faults.
 */
#ifndef CLI_PROBE_ARRAYS_H
#define CLI_PROBE_ARRAYS_H

#include "probe.h"

#include <muster_kernel.h>

enum probe_element { PROBE_BYTES, PROBE_INTEGER, PROBE_FLOAT, PROBE_DOUBLE };

struct probe_array {
    char name[PROBE_NAME_BYTES];
    bool is_const, is_inout, is_whole;
    enum probe_element type;
    bool is_signed;
    size_t bytes;      /* of an element */
    uint64_t per_item; /* elements; 0: not known yet */
    uint64_t halo;     /* items of neighbours that are read */
    bool is_near;      /* of a grid: other cells of the same line are read */
    bool is_given;     /* the caller said how many elements an item has */
    /* Memory: PROT_NONE but for [room, room + room_bytes). */
    unsigned char *reserved;
    size_t reserved_bytes;
    unsigned char *room;
    size_t room_bytes;
    unsigned char *base;  /* element 0, in the room */
    unsigned char *data;  /* what the room holds before an item; owns, room_bytes_max */
    unsigned char *other; /* the same with another value in each element; owns */
    unsigned char *kept;  /* room for a result; owns */
};

struct probe_fault {
    int signal;    /* 0: none */
    bool is_write; /* where the processor tells */
    bool is_write_known;
    struct probe_array *array; /* whose memory it is near; NULL: none's */
    int64_t element;
};

struct probe {
    const struct probe_options *options;
    struct probe_report *report;
    const char *entry;
    const char *symbol; /* of the function that is run: the entry's, or of a reduction another's */
    struct probe_array arrays[MUSTER_ARGS_MAX];
    bool is_block[MUSTER_ARGS_MAX];
    unsigned char values[MUSTER_ARGS_MAX][MUSTER_ARG_BYTES_MAX];
    size_t value_bytes[MUSTER_ARGS_MAX];
    void *args[MUSTER_ARGS_MAX]; /* as a kernel's function takes them */
    size_t count;
    uint64_t items, group; /* `group` items are cut together: the bytes of a frame */
    muster_kernel_function function, apart;
    struct probe_fault fault;
    bool is_guarded; /* the arrays have exactly what the items have */
    /* Of kernels that take cells: */
    bool has_grid;
    bool reads_reach, has_depth; /* its source names the cell's reach, and neighbours in z */
    size_t cell;                 /* which parameter that is */
    struct muster_cell first;    /* of item 0 */
    uint64_t cells;              /* how far away neighbours are */
    /* Of reductions: what an item makes, by a kernel that keeps that. */
    size_t partial_bytes;
    unsigned char *fields; /* owns: of each byte of a partial, whether it is a field's */
    uint64_t random;
};

/* Reserves and fills the arrays: `before` and `after` are bytes that can be touched around element 0. */
bool probe_arrays_open(struct probe *probe, size_t before, size_t after);
void probe_arrays_close(struct probe *probe);
/*
 * Makes exactly the elements of the items, and of the halo, touchable. `at_end`: the guard page
 * follows the last one, else it ends before the first. Inputs are then read-only.
 */
bool probe_arrays_guard(struct probe *probe, bool at_end);
/*
 * What is in the arrays that are written before an item, in two variants that differ in every byte of
 * a result and in every element of what is read and written.
 */
enum probe_variant { PROBE_ONE, PROBE_OTHER };
#define PROBE_FILL(variant) ((unsigned char)((variant) == PROBE_ONE ? 0xa5 : 0x5a))
void probe_arrays_reset(struct probe *probe, enum probe_variant variant);
/* Elements [from, to), as far as there are such, as in the variant. */
void probe_array_set(struct probe_array *array, enum probe_variant variant, int64_t from,
                     int64_t to);
/* Elements of the room before and after element 0. */
int64_t probe_array_first(const struct probe_array *array);
int64_t probe_array_end(const struct probe_array *array);

/* Does items [begin, end). False: `probe->fault` says what came between. */
bool probe_run(struct probe *probe, muster_kernel_function function, uint64_t begin, uint64_t end);
/* Notes the fault of a run. */
void probe_tell_fault(struct probe *probe, uint64_t item, bool is_alone);
void probe_catch_faults(void);

uint64_t probe_random(struct probe *probe);
__attribute__((format(printf, 2, 3))) void probe_doing(struct probe *probe, const char *format,
                                                       ...);

/* One item; a fault is noted. */
bool probe_run_alone(struct probe *probe, uint64_t item);
/* The results of one item from the first variant, kept to be compared with. */
bool probe_baseline(struct probe *probe, uint64_t item);
bool probe_is_as_kept(const struct probe *probe);
/* Each item alone, then in several orders: probe_items.c. False: it cannot be run any further. */
bool probe_items(struct probe *probe);
/* On every device, beside what the items gave one by one: probe_devices.c. */
void probe_devices(struct probe *probe, struct muster *m, struct muster_kernel *kernel);

#endif
