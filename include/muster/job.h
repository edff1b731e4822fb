/*
 * Work over ranges: how a total is cut into units, and jobs that run a kernel over all items on all
 * devices, deliver the results in order, once each, and survive a device that fails.
 */
#ifndef MUSTER_JOB_H
#define MUSTER_JOB_H

#include <muster/pipeline.h>
#include <muster/policy.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Items [begin, end). */
struct muster_range {
    uint64_t begin, end;
};

/*
 * The plain rule: max(1, total / (4 x devices)) items a unit, for any numbers; 0 without items or
 * devices.
 */
MUSTER_API uint64_t muster_partition_unit(uint64_t total, uint64_t devices);

/* How many units that makes. */
MUSTER_API uint64_t muster_partition_count(uint64_t total, uint64_t devices);

/* Unit number `index`; an empty range past the last. */
MUSTER_API struct muster_range muster_partition_at(uint64_t total, uint64_t devices,
                                                   uint64_t index);

/*
 * Writes all units: contiguous, none empty, the last clipped, together exactly [0, total). `*count`
 * is always set to how many there are; with `capacity` too small the status is MUSTER_E_CAPACITY
 * and no unit is written. Pure; any thread.
 */
MUSTER_API muster_status muster_partition(uint64_t total, uint64_t devices,
                                          struct muster_range *out, uint64_t capacity,
                                          uint64_t *count, struct muster_error *err);

/*
 * How a job's range touches one argument of the kernel. The kernel is called for items [0, n) of a
 * unit, and each array argument points to the unit's first item.
 */
enum muster_arg_kind {
    MUSTER_ARG_IN = 1,    /* an array that is read, cut by item */
    MUSTER_ARG_OUT = 2,   /* an array that is written, cut by item; see below */
    MUSTER_ARG_INOUT = 3, /* both: each item is read and then written in its place */
    MUSTER_ARG_VALUE = 4, /* a scalar */
    /* Data, whole and resident, only read: a job waits for tasks before that write it (data.h), and they for it. */
    MUSTER_ARG_ALL = 5,
    MUSTER_ARG_FIRST = 6,  /* the number of the unit's first item, a uint64_t */
    MUSTER_ARG_SOURCE = 7, /* an array that is read, supplied by the job's source */
    /*
     * The same as the first three, in a block of device memory that the caller has already. Nothing
     * is copied: kernels work on the block itself, ordered with its other uses on any stream. The
     * block's device is the only one that may run the job, and all such blocks are of one device.
     * What is written there is no part of a result, and counts when the job has ended well. A unit
     * with an argument that is read and written there is run once, and not in a job with
     * `each_status`.
     */
    MUSTER_ARG_DEVICE_IN = 8,
    MUSTER_ARG_DEVICE_OUT = 9,
    MUSTER_ARG_DEVICE_INOUT = 10,
    /*
     * Items are the cells of a grid, row after row; at most one argument of the two kinds. The kernel
     * is given a `struct muster_cell` (muster_kernel.h) by value: in the portable form that of its
     * item, in all other forms that of the unit's first item, from which muster_cell_at finds others.
     * A halo then counts cells in every direction. What lies beyond an edge is the border's; muster_near
     * reads neighbours accordingly.
     *
     * Units are whole rows of a grid in two dimensions, and whole planes of one in three. So all
     * neighbours in the faster directions lie in the unit itself, where muster_near finds them without
     * a copy of the rows at their ends, and only rows or planes before and after a unit come with it.
     * With rows as units of a volume each would take whole planes along all the same.
     */
    MUSTER_ARG_GRID = 11,
    /*
     * The same for pictures that follow each other: neighbours are in the same plane of the same picture,
     * and units are whole pictures. The number of items may be unknown.
     */
    MUSTER_ARG_PICTURES = 12,
    /*
     * Of tasks with accesses (data.h), not of jobs: what access number `offset` of the task names, whole;
     * and the bytes from one of its rows to the next where the task runs, a uint64_t.
     */
    MUSTER_ARG_ACCESS = 13,
    MUSTER_ARG_PITCH = 14,
    /* Muster's own, of a reduction: where the partials of blocks go, and how many items a unit has. */
    MUSTER_ARG_PARTIAL = 20,
    MUSTER_ARG_ITEMS = 21
};

/*
 * When arrays are written: at delivery, in order, if the job has `each_status` or `kept_max`, if
 * written arrays share memory with other arguments, and on devices with memory of their own. Else a
 * device that works on host memory writes straight into the array, before delivery:
 *
 * - MUSTER_ARG_OUT: directly, one attempt of a unit at a time. A second attempt beside it writes into
 *   memory of Muster's, and is delivered after the first has ended.
 * - MUSTER_ARG_INOUT, `in` and `out` being the same: in small pieces. What a piece replaces is saved,
 *   and put back if the unit stops there. So a unit that fails, is stopped, or is lost with its device
 *   is cut: its first items are done and delivered as a unit of their own, and the rest is run
 *   elsewhere. Such a unit is not run twice. It is stopped when the job is cancelled or fails, or
 *   when another device would be done with the rest sooner.
 *
 * What was delivered is right in any case; beyond that prefix of the items such an array is
 * unspecified when the job has not ended well. When the device of an attempt that writes into
 * an array is lost or found to hang, the attempt is waited for `timeout_ns` of the job's options more
 * (0: 10 s). If it has not ended then, its unit fails, and with it the job.
 */

/*
 * What the elements of an argument are, as far as the macros below can tell from the C type: a job is
 * refused if the kernel's source says something else. Whether integers have a sign is not compared.
 */
enum muster_element {
    MUSTER_ELEMENT_UNKNOWN = 0,
    MUSTER_ELEMENT_INT8 = 1, /* with or without a sign, and so on */
    MUSTER_ELEMENT_INT16 = 2,
    MUSTER_ELEMENT_INT32 = 3,
    MUSTER_ELEMENT_INT64 = 4,
    MUSTER_ELEMENT_FLOAT = 5,
    MUSTER_ELEMENT_DOUBLE = 6
};

/* One argument; those of a call are an array, and the macros below set `size`. */
struct muster_arg {
    size_t size;
    enum muster_arg_kind kind;
    const void *in; /* borrowed until the job is over; a value is copied by muster_start */
    void *out;      /* borrowed likewise; NULL: the sink alone gets it */
    size_t bytes;   /* of one item, or of the value */
    muster_data data;
    /*
     * Of MUSTER_ARG_SOURCE and MUSTER_ARG_IN: this many items before a unit's first and after its last
     * can be read too, at most 2^40; with MUSTER_ARG_GRID, this many cells in each direction. Outside
     * the data is what `border` says. An array with a halo shares no memory with one that the job
     * writes. Where a device works on host memory, nothing of the array is copied but what its ends
     * need, at most 8 halos.
     */
    uint64_t halo;
    /*
     * Of MUSTER_ARG_DEVICE_IN and so on: where the items are, from byte `offset` on. Not freed, and
     * not between muster_block_begin and muster_block_end, until the job is over.
     */
    muster_block block;
    uint64_t offset;
    /* Of arrays, sources and values: MUSTER_ELEMENT_UNKNOWN is compared with nothing. */
    enum muster_element element;
    /* With a halo; all arguments of a job with a grid have the same. Of a source: zero or clamp. */
    enum muster_border border;
    /*
     * Of MUSTER_ARG_GRID: its size; depth 0 has two dimensions. The job's `items` are all its cells.
     * Of MUSTER_ARG_PICTURES: of the first plane, and of the two that follow it, 0 if there are none.
     */
    uint32_t width, height, depth;
    uint32_t chroma_width, chroma_height;
};

#ifdef __cplusplus
}
#define MUSTER_ELEMENT_AT(type_, element_)                                                         \
    constexpr muster_element muster_element_at(const volatile type_ *)                             \
    {                                                                                              \
        return element_;                                                                           \
    }
MUSTER_ELEMENT_AT(void, MUSTER_ELEMENT_UNKNOWN)
MUSTER_ELEMENT_AT(char, MUSTER_ELEMENT_INT8)
MUSTER_ELEMENT_AT(signed char, MUSTER_ELEMENT_INT8)
MUSTER_ELEMENT_AT(unsigned char, MUSTER_ELEMENT_INT8)
MUSTER_ELEMENT_AT(short, MUSTER_ELEMENT_INT16)
MUSTER_ELEMENT_AT(unsigned short, MUSTER_ELEMENT_INT16)
MUSTER_ELEMENT_AT(int, MUSTER_ELEMENT_INT32)
MUSTER_ELEMENT_AT(unsigned, MUSTER_ELEMENT_INT32)
MUSTER_ELEMENT_AT(long, sizeof(long) == 8 ? MUSTER_ELEMENT_INT64 : MUSTER_ELEMENT_INT32)
MUSTER_ELEMENT_AT(unsigned long, sizeof(long) == 8 ? MUSTER_ELEMENT_INT64 : MUSTER_ELEMENT_INT32)
MUSTER_ELEMENT_AT(long long, MUSTER_ELEMENT_INT64)
MUSTER_ELEMENT_AT(unsigned long long, MUSTER_ELEMENT_INT64)
MUSTER_ELEMENT_AT(float, MUSTER_ELEMENT_FLOAT)
MUSTER_ELEMENT_AT(double, MUSTER_ELEMENT_DOUBLE)
#undef MUSTER_ELEMENT_AT
#define MUSTER_ELEMENT_OF(array) muster_element_at(&*(array))
#define MUSTER_ELEMENT_OF_TYPE(type) muster_element_at(static_cast<__typeof__(type) *>(nullptr))
extern "C" {
#elif defined(__GNUC__) && defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
/* clang-format off */
#define MUSTER_ELEMENT_OF(array)                                                                   \
    _Generic(*(array), char: MUSTER_ELEMENT_INT8, signed char: MUSTER_ELEMENT_INT8,                \
             unsigned char: MUSTER_ELEMENT_INT8, short: MUSTER_ELEMENT_INT16,                      \
             unsigned short: MUSTER_ELEMENT_INT16, int: MUSTER_ELEMENT_INT32,                      \
             unsigned: MUSTER_ELEMENT_INT32,                                                       \
             long: sizeof(long) == 8 ? MUSTER_ELEMENT_INT64 : MUSTER_ELEMENT_INT32,                \
             unsigned long: sizeof(long) == 8 ? MUSTER_ELEMENT_INT64 : MUSTER_ELEMENT_INT32,       \
             long long: MUSTER_ELEMENT_INT64, unsigned long long: MUSTER_ELEMENT_INT64,            \
             float: MUSTER_ELEMENT_FLOAT, double: MUSTER_ELEMENT_DOUBLE,                           \
             default: MUSTER_ELEMENT_UNKNOWN)
/* clang-format on */
#define MUSTER_ELEMENT_OF_TYPE(type) MUSTER_ELEMENT_OF((__typeof__(type) *)0)
#else
#define MUSTER_ELEMENT_OF(array) MUSTER_ELEMENT_UNKNOWN
#define MUSTER_ELEMENT_OF_TYPE(type) MUSTER_ELEMENT_UNKNOWN
#endif
#ifdef __cplusplus
}
inline struct muster_arg muster_arg_of(enum muster_arg_kind kind)
{
    struct muster_arg arg = {};
    arg.size = sizeof arg;
    arg.kind = kind;
    return arg;
}
inline struct muster_arg muster_arg_array(enum muster_arg_kind kind, const void *in, void *out,
                                          size_t bytes, enum muster_element element)
{
    struct muster_arg arg = muster_arg_of(kind);
    arg.in = in;
    arg.out = out;
    arg.bytes = bytes;
    arg.element = element;
    return arg;
}
inline struct muster_arg muster_arg_with_halo(struct muster_arg arg, uint64_t items,
                                              enum muster_border border)
{
    arg.halo = items;
    arg.border = border;
    return arg;
}
inline struct muster_arg muster_arg_data(muster_data data)
{
    struct muster_arg arg = muster_arg_of(MUSTER_ARG_ALL);
    arg.data = data;
    return arg;
}
inline struct muster_arg muster_arg_access(enum muster_arg_kind kind, uint64_t index)
{
    struct muster_arg arg = muster_arg_of(kind);
    arg.offset = index;
    return arg;
}
inline struct muster_arg muster_arg_block(enum muster_arg_kind kind, muster_block block,
                                          size_t bytes, enum muster_element element)
{
    struct muster_arg arg = muster_arg_array(kind, nullptr, nullptr, bytes, element);
    arg.block = block;
    return arg;
}
inline struct muster_arg muster_arg_cells(enum muster_arg_kind kind, uint32_t width,
                                          uint32_t height, uint32_t depth)
{
    struct muster_arg arg = muster_arg_of(kind);
    arg.width = width;
    arg.height = height;
    arg.depth = depth;
    return arg;
}
/* clang-format off */
/* In C++ an argument whose other fields are set afterwards: struct muster_arg a = MUSTER_ARG_OF(...) */
#define MUSTER_ARG_OF(kind_) muster_arg_of(kind_)
#define MUSTER_IN(array) muster_arg_array(MUSTER_ARG_IN, (array), nullptr, sizeof *(array), MUSTER_ELEMENT_OF(array))
#define MUSTER_OUT(array) muster_arg_array(MUSTER_ARG_OUT, nullptr, (array), sizeof *(array), MUSTER_ELEMENT_OF(array))
#define MUSTER_INOUT(array) muster_arg_array(MUSTER_ARG_INOUT, (array), (array), sizeof *(array), MUSTER_ELEMENT_OF(array))
#define MUSTER_VALUE(variable) muster_arg_array(MUSTER_ARG_VALUE, &(variable), nullptr, sizeof(variable), MUSTER_ELEMENT_OF(&(variable)))
#define MUSTER_ALL(data_) muster_arg_data(data_)
#define MUSTER_ACCESSED(index_) muster_arg_access(MUSTER_ARG_ACCESS, index_)
#define MUSTER_PITCH(index_) muster_arg_access(MUSTER_ARG_PITCH, index_)
#define MUSTER_FIRST muster_arg_of(MUSTER_ARG_FIRST)
#define MUSTER_SOURCE(type) muster_arg_array(MUSTER_ARG_SOURCE, nullptr, nullptr, sizeof(type), MUSTER_ELEMENT_OF_TYPE(type))
#define MUSTER_SOURCE_HALO(type, items) MUSTER_SOURCE_BORDER(type, items, MUSTER_BORDER_ZERO)
#define MUSTER_DEVICE_IN(block_, type) muster_arg_block(MUSTER_ARG_DEVICE_IN, block_, sizeof(type), MUSTER_ELEMENT_OF_TYPE(type))
#define MUSTER_DEVICE_OUT(block_, type) muster_arg_block(MUSTER_ARG_DEVICE_OUT, block_, sizeof(type), MUSTER_ELEMENT_OF_TYPE(type))
#define MUSTER_DEVICE_INOUT(block_, type) muster_arg_block(MUSTER_ARG_DEVICE_INOUT, block_, sizeof(type), MUSTER_ELEMENT_OF_TYPE(type))
#define MUSTER_IN_HALO(array, items) MUSTER_IN_BORDER(array, items, MUSTER_BORDER_ZERO)
#define MUSTER_IN_BORDER(array, items, border_) muster_arg_with_halo(MUSTER_IN(array), items, border_)
#define MUSTER_SOURCE_BORDER(type, items, border_) muster_arg_with_halo(MUSTER_SOURCE(type), items, border_)
#define MUSTER_GRID(width_, height_) muster_arg_cells(MUSTER_ARG_GRID, width_, height_, 0)
#define MUSTER_GRID_3D(width_, height_, depth_) muster_arg_cells(MUSTER_ARG_GRID, width_, height_, depth_)
#define MUSTER_PICTURES(width_, height_) muster_arg_cells(MUSTER_ARG_PICTURES, width_, height_, 0)
/* clang-format on */
extern "C" {
#else
/* clang-format off */
/* For an argument that none of the others makes: { MUSTER_ARG_OF(MUSTER_ARG_OUT), .bytes = 24 } */
#define MUSTER_ARG_OF(kind_) .size = sizeof(struct muster_arg), .kind = (kind_)
#define MUSTER_IN(array) { MUSTER_ARG_OF(MUSTER_ARG_IN), .in = (array), .bytes = sizeof *(array), .element = MUSTER_ELEMENT_OF(array) }
#define MUSTER_OUT(array) { MUSTER_ARG_OF(MUSTER_ARG_OUT), .out = (array), .bytes = sizeof *(array), .element = MUSTER_ELEMENT_OF(array) }
#define MUSTER_INOUT(array) { MUSTER_ARG_OF(MUSTER_ARG_INOUT), .in = (array), .out = (array), .bytes = sizeof *(array), .element = MUSTER_ELEMENT_OF(array) }
#define MUSTER_VALUE(variable) { MUSTER_ARG_OF(MUSTER_ARG_VALUE), .in = &(variable), .bytes = sizeof(variable), .element = MUSTER_ELEMENT_OF(&(variable)) }
#define MUSTER_ALL(data_) { MUSTER_ARG_OF(MUSTER_ARG_ALL), .data = (data_) }
#define MUSTER_ACCESSED(index_) { MUSTER_ARG_OF(MUSTER_ARG_ACCESS), .offset = (index_) }
#define MUSTER_PITCH(index_) { MUSTER_ARG_OF(MUSTER_ARG_PITCH), .offset = (index_) }
#define MUSTER_FIRST { MUSTER_ARG_OF(MUSTER_ARG_FIRST) }
#define MUSTER_SOURCE(type) { MUSTER_ARG_OF(MUSTER_ARG_SOURCE), .bytes = sizeof(type), .element = MUSTER_ELEMENT_OF_TYPE(type) }
#define MUSTER_SOURCE_HALO(type, items) { MUSTER_ARG_OF(MUSTER_ARG_SOURCE), .bytes = sizeof(type), .halo = (items), .element = MUSTER_ELEMENT_OF_TYPE(type) }
#define MUSTER_DEVICE_IN(block_, type) { MUSTER_ARG_OF(MUSTER_ARG_DEVICE_IN), .bytes = sizeof(type), .block = (block_), .element = MUSTER_ELEMENT_OF_TYPE(type) }
#define MUSTER_DEVICE_OUT(block_, type) { MUSTER_ARG_OF(MUSTER_ARG_DEVICE_OUT), .bytes = sizeof(type), .block = (block_), .element = MUSTER_ELEMENT_OF_TYPE(type) }
#define MUSTER_DEVICE_INOUT(block_, type) { MUSTER_ARG_OF(MUSTER_ARG_DEVICE_INOUT), .bytes = sizeof(type), .block = (block_), .element = MUSTER_ELEMENT_OF_TYPE(type) }
#define MUSTER_IN_HALO(array, items) MUSTER_IN_BORDER(array, items, MUSTER_BORDER_ZERO)
#define MUSTER_IN_BORDER(array, items, border_) { MUSTER_ARG_OF(MUSTER_ARG_IN), .in = (array), .bytes = sizeof *(array), .halo = (items), .element = MUSTER_ELEMENT_OF(array), .border = (border_) }
#define MUSTER_SOURCE_BORDER(type, items, border_) { MUSTER_ARG_OF(MUSTER_ARG_SOURCE), .bytes = sizeof(type), .halo = (items), .element = MUSTER_ELEMENT_OF_TYPE(type), .border = (border_) }
#define MUSTER_GRID(width_, height_) { MUSTER_ARG_OF(MUSTER_ARG_GRID), .width = (width_), .height = (height_) }
#define MUSTER_GRID_3D(width_, height_, depth_) { MUSTER_ARG_OF(MUSTER_ARG_GRID), .width = (width_), .height = (height_), .depth = (depth_) }
#define MUSTER_PICTURES(width_, height_) { MUSTER_ARG_OF(MUSTER_ARG_PICTURES), .width = (width_), .height = (height_) }
/* clang-format on */
#endif

/* How to run a job. The caller sets `size`; zero means the default everywhere. */
struct muster_run_options {
    size_t size;
    /* Ids, comma separated, which are waited for; NULL: all that may be used, see muster_start */
    const char *devices;
    /*
     * Items in a unit; 0: adapted to each device's speed. Where a GPU takes part, or in a pipeline,
     * several small units may be run as one: a kernel then gets the items of all of them in one
     * call, MUSTER_FIRST is the first item of that call, they fail and are run again together, and
     * reports and traces count them as one. The sink is given each.
     */
    uint64_t unit_items;
    uint64_t window; /* most items that are claimed and not delivered; 0: what the slots hold */
    /*
     * Units a device holds at a time, at most 64; 0: 2, where a GPU takes part 8, and in a pipeline
     * twice its slots. Fewer where units are large, or a pipeline has gates and its proof counts on that.
     */
    uint32_t depth;
    uint32_t tries; /* runs of a unit before it fails; 0: 3 */
    /*
     * A unit that takes longer, host stages not counted, makes its device hung. 0: Muster derives
     * the limit from what it has measured; with little measured the limit may be a day. An idle
     * device runs the unit a second time long before that, unless no_copies is set.
     */
    uint64_t timeout_ns;
    int unordered; /* not 0: results are delivered as they come */
    int no_copies; /* not 0: no unit is run twice to get ahead of a straggler */
    /*
     * Who is given the next unit. NULL or "claim": whichever device has room takes it. Else the
     * device that "round-robin", "least-loaded", "weighted", "adaptive", "earliest-finish" or
     * "sticky" chooses, which is waited for if it has no room, but for "sticky"; units that are run
     * again go to any device with room. MUSTER_E_INVALID: any other name, or a user_policy too.
     */
    const char *policy;
    uint64_t window_bytes; /* the window in bytes of results and supplied items; 0: any number */
    uint32_t kept_max;     /* results that the sink may keep at a time: muster_result_retain */
    int account; /* not 0: a pipeline's stages are timed, and stalls edge by edge (docs/observe.md) */
    /*
     * Units are whole numbers of this many items, but for the last, and each begins at a multiple of
     * it: frames of pixels, pages of bytes; 0: 1, or what a grid's units are whole numbers of. Of a
     * kernel's job without `each_status`.
     */
    uint64_t unit_multiple;
    /*
     * For "sticky": units of jobs with the same key go to the same device, unless that is gone or is
     * far ahead of the least loaded. A user_policy finds it in its hints.
     */
    uint64_t affinity;
    /*
     * Who is given the next unit, as a policy of the user's own has it; NULL: as `policy` says. Copied;
     * its name and state are borrowed until the job is over. Candidates are those of the job's devices
     * that have room; their queue_depth counts what they were given and have not begun, too. Called on
     * a thread of Muster's, with no lock held, for each new unit, in turns with every other job and
     * pick that has the same `choose` and `state`. A negative answer: the unit waits, and the policy
     * is asked again when something has changed, or a tenth of a second later. A number that is not
     * below the count fails the job. May take any time while the job runs; the end of the job waits
     * for it, at most the runtime's close_ns. May call muster_job_cancel and muster_job_destroy,
     * nothing else of the job. A policy that muster_policy_named gives is as its name in `policy`.
     */
    const struct muster_policy *user_policy;
    /*
     * Not 0: all devices take part. 0: a device that costs the job more than it brings, since it shares
     * cores, memory or a link with others, is left out; short trials find that out, which cost at most
     * about one per cent, and a later job of the same kernel and devices knows it from its start. A job
     * with a policy leaves no device out.
     */
    int everyone;
    /*
     * Not 0: `unit_multiple` is for speed alone, as pages are, and says nothing of the items. 0: items of
     * one multiple belong together, and a kernel may touch those beside its own within it.
     */
    int multiple_is_for_speed;
};

struct muster_job;

/*
 * A unit's results, in the order of the arguments that are written, or of the pipeline's outputs.
 * Valid during the call, unless they are kept. Muster sets `size`.
 */
struct muster_result {
    size_t size;
    struct muster_range range;
    const void *const
        *outputs; /* each points to the unit's first item, maybe in the array itself */
    size_t output_count;
    const size_t *output_bytes;    /* of each output */
    const muster_status *statuses; /* of each item, where the job has `each_status`; else NULL */
    /* The unit's items as the source gave them, not kept; NULL: no source, or a pipeline's job. */
    const void *supplied;
    /* Muster's own. */
    struct muster_job *job;
    uint32_t buffer;
};

/* Where the number of items is known only when the source ends. */
#define MUSTER_ITEMS_UNKNOWN UINT64_MAX

/* What to run over which items. The caller sets `size`. */
struct muster_job_desc {
    size_t size;
    struct muster_kernel *kernel; /* borrowed until the job is over */
    uint64_t items;
    const struct muster_arg *args; /* copied */
    size_t arg_count;
    /*
     * Called for each unit on a thread of Muster's, in item order unless that was given up, never
     * twice and never two at once, after arrays have been written. A status other than MUSTER_OK
     * fails the job. May call muster_job_cancel and muster_job_destroy, nothing else of the job.
     * May take any time while the job runs; once the job is cancelled, its end waits for the sink
     * at most the runtime's close_ns. NULL: only the arrays are written.
     */
    muster_status (*sink)(void *user, const struct muster_result *result);
    void *sink_user;
    const struct muster_run_options *options; /* copied; NULL: the default everywhere */
    /*
     * Supplies the argument of kind MUSTER_ARG_SOURCE, of which there is then exactly one. Called
     * on a thread of Muster's, for one item range after the other, each once, ahead of the work by
     * as much as the window holds: writes items [begin, begin + n) to `to`, where there is room for
     * `items` of them in `bytes`, and returns n; 0 when there are no more, or a failure, which
     * fails the job. May take any time; the end of the job waits for it, at most the runtime's
     * close_ns. May call muster_job_cancel and muster_job_destroy, nothing else of the job. Where
     * the job's `items` is not MUSTER_ITEMS_UNKNOWN, an end before that many is a failure.
     */
    int64_t (*source)(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes);
    void *source_user;
    /*
     * How many calls of `source` may run at once, each on a thread of Muster's, at most 64; 0: one,
     * and of muster_file_source as many as suit the file. Several calls ask for ranges that follow
     * each other without gaps, each item once. They may begin and return in any order. A call that
     * returns fewer items than it was asked for is followed by one for the rest of its range. The
     * first answer in item order that is not a number of items decides: 0 is the end, and whatever
     * is answered for items after it is dropped, failures too. Units start when all items before
     * their end, and their halo, are there. Without a window of the caller's the source may then be
     * ahead by twice what the slots hold.
     */
    uint32_t source_calls;
    /*
     * Not NULL: how each item ended, in an array of `items`, borrowed until the job is over. A
     * failing item then fails alone: a unit of which the kernel says that it failed is run again in
     * parts until it is known which. Of items that failed no output is written. Items that were not
     * run have MUSTER_E_CANCELLED.
     */
    muster_status *each_status;
    /*
     * Instead of a kernel and its arguments: what happens to each unit (pipeline.h). Borrowed until
     * the job is over. Its input comes from the source, or from an array of all items. Where it
     * carries something the job has one device: of those it may have, the one of the greatest weight.
     */
    struct muster_pipeline *pipeline;
    const void
        *input;   /* borrowed likewise; pinned (muster_host_allocate) it is copied from directly */
    void *output; /* where its only output, of a fixed size, goes too; NULL: to the sink alone */
    /*
     * Not NULL: the kernel is a reduction (reduce.h), and its result, of `result_bytes`, is written here
     * when all items are done, before the job is over. Nothing is written if the job does not end well.
     * Borrowed until the job is over. Goes with arrays that are read, sources and device memory, and not
     * with a sink, `each_status`, a pipeline, `kept_max` or `unit_multiple`; results are always in order.
     */
    void *result;
    size_t result_bytes;
};

/* How far a job is. The caller sets `size`. */
struct muster_progress {
    size_t size;
    uint64_t items, delivered; /* `delivered` of `items`, which may be MUSTER_ITEMS_UNKNOWN */
    uint64_t elapsed_ns;
    uint64_t remaining_ns; /* at the rate so far; UINT64_MAX: unknown */
    double items_per_s;
    int is_over;
    /*
     * Once the job is cancelled or over: the devices, drivers and callbacks that it still waits for
     * or has given up, as text for people; "" if there are none.
     */
    char waits_for[128];
};

/* What one device has done for a job. The caller sets `size`. */
struct muster_job_device {
    size_t size;
    char id[24];
    uint64_t items, units;
    uint64_t retries;   /* attempts that failed here */
    uint64_t late;      /* attempts that another device had finished before */
    uint64_t busy_ns;   /* with at least one unit */
    double items_per_s; /* while busy */
    /* QUARANTINED: its last units failed, others' did not; it is tried again now and then. */
    enum muster_health health;
    /*
     * What it had not enough of, so that it took no part at first or at all, or why it could not join a
     * job that was under way; "" if there was nothing.
     */
    char shortage[128];
    /*
     * Above 0: it is left out, since the job is this many times faster without it; 1.001 if it brings next to
     * nothing, which needs no trial.
     */
    double faster_without;
};

#define MUSTER_JOB_FAILED_MAX 64

/*
 * How a job went. The caller sets `size`, and `devices` with its capacity or to NULL: so begin with
 * struct muster_report report = { .size = sizeof report }.
 */
struct muster_report {
    size_t size;
    /*
     * Room for what each device has done, each with its own `size`; written as far as it suffices,
     * or not at all if NULL. `device_count` is set to how many there are. muster_job_devices gives
     * the same of a job that is not destroyed yet.
     */
    struct muster_job_device *devices;
    size_t device_capacity, device_count;
    muster_status status;
    uint64_t items; /* MUSTER_ITEMS_UNKNOWN: the source did not come to its end */
    uint64_t delivered, units, retries;
    uint64_t makespan_ns;
    /*
     * What the kernels alone would have taken, had all devices worked at the rate each has shown
     * and never paused. The rest of the makespan is split below; together they are makespan_ns.
     */
    uint64_t bound_ns;
    /*
     * Means over the devices, weighted by those rates. No device had done anything: all are 0.
     * With a unit in hand a device's time is overhead until the unit is wholly given to it, and
     * from when the device has finished until that is dealt with, unless it has another one
     * meanwhile. It is transfer while all that the device has are copies of units that have not
     * come to their kernel or are past it. That takes the device's own clock: where there is none,
     * transfers count as work. A device that works on the host's memory has no transfers.
     */
    uint64_t startup_ns;  /* before the first unit */
    uint64_t transfer_ns; /* copying, with nothing to compute meanwhile */
    uint64_t overhead_ns; /* giving units, noticing that they ended */
    uint64_t starved_ns;  /* without a unit, between two */
    uint64_t tail_ns;     /* after the last unit, while others still worked */
    /* Merged; of more than there is room for neighbours are joined, with what lies between. */
    struct muster_range failed[MUSTER_JOB_FAILED_MAX];
    size_t failed_count;
    uint64_t failed_items; /* of a job with `each_status`: delivered as failed */
    /* Of a pipeline's job: how it was run on its first device, and why so. */
    enum muster_schedule schedule;
    char schedule_reason[208];
    /*
     * Not 0: a kernel takes its devices' own mathematics (MUSTER_FAST_MATH, docs/kernels.md), so
     * that results may have other bits on another device.
     */
    uint32_t own_mathematics;
};

/*
 * Starts a job on every device that has a form of the kernel. Does not wait for the job. Given back with
 * muster_job_destroy. MUSTER_E_NO_DEVICE: none can run it, and `err` says why not.
 * MUSTER_E_NOT_FOUND: the option `devices` names one that does not exist. MUSTER_E_ORDER: it has a
 * user_policy, and the call comes from within one.
 *
 * Devices whose driver takes long to open are not waited for, if others can start the job: they join it
 * when they are open, as far as there are no more of them than expected, and the end of the job does not wait
 * for them either. A device that then cannot run the kernel takes no part; the report says so. All
 * are waited for where the job or the runtime names devices or gives slices, the job has a policy
 * or a pipeline that runs on one device, and where no device that is open can run it. To have all
 * of them from the start, list the devices first.
 *
 * A device that has no memory or no streams for the job now takes no part until it has; the report
 * says so. If no device has, units of a size that Muster may choose are made smaller. If that does
 * not help, the job waits for what other jobs have of its devices, and is refused if there is nothing
 * to wait for: MUSTER_E_DEVICE_MEMORY, MUSTER_E_CAPACITY (streams), MUSTER_E_NO_MEMORY (of the host),
 * or MUSTER_E_TOO_LARGE, which more memory would not change.
 *
 * With MUSTER_ALL of data that tasks access it waits for the tasks before that write it, and fails as the one
 * that should have written it has; not in a task: MUSTER_E_ORDER.
 */
MUSTER_API muster_status muster_start(struct muster *m, const struct muster_job_desc *desc,
                                      struct muster_job **out, struct muster_error *err);

/*
 * Blocks until the job is over, and gives how it ended; `report` may be NULL. Then nothing of it
 * touches the caller's memory any more, unless the status is MUSTER_E_DEVICE_HUNG. On failure what
 * was delivered is a correct prefix, and the report names the ranges that failed; arrays beyond the
 * prefix may have been written or not (see MUSTER_ARG_OUT). MUSTER_E_ORDER: called within the job's
 * own sink, source, stage or policy, or within a kernel; the job cannot end before those return. Also
 * within any user's policy, if the job has one.
 *
 * A job that is cancelled, has failed or has delivered everything waits at most the runtime's
 * close_ns for units that still run, for driver calls, and for the source, the sink, the policy and
 * host stages. MUSTER_E_DEVICE_HUNG: some of these have not returned, and `err` names them. They
 * may still use what they were given: the arrays, and whatever the callbacks use, must stay until
 * muster_close returns MUSTER_OK. The job is over all the same: if the report's `delivered` is the
 * number of items, all results are there.
 */
MUSTER_API muster_status muster_job_wait(struct muster_job *job, struct muster_report *report,
                                         struct muster_error *err);

/*
 * The same, but blocks at most `timeout_ns` (UINT64_MAX: for ever). MUSTER_E_TIMEOUT: the job is not
 * over by then, goes on, and the report is not written; 0 only looks, also within the job's own
 * callbacks. Any thread, also several at once, and again after that.
 */
MUSTER_API muster_status muster_job_wait_for(struct muster_job *job, uint64_t timeout_ns,
                                             struct muster_report *report,
                                             struct muster_error *err);

/*
 * What each device has done so far, at the end as muster_job_wait has it; `*count` as in
 * muster_device_list. The caller sets each out[i].size. Any thread, at any time; does not wait.
 */
MUSTER_API muster_status muster_job_devices(struct muster_job *job, struct muster_job_device *out,
                                            size_t capacity, size_t *count,
                                            struct muster_error *err);

/*
 * No more units are started. muster_job_wait waits for those that run, close_ns at most. Any
 * thread.
 */
MUSTER_API void muster_job_cancel(struct muster_job *job);

/* Any thread, at any time. */
MUSTER_API muster_status muster_job_progress(struct muster_job *job,
                                             struct muster_progress *progress,
                                             struct muster_error *err);

/*
 * The report as far as the job has come; `status` is MUSTER_OK until it is over, and then all is as
 * muster_job_wait gives it. Units that are under way count in no device's `items`, and their time so
 * far counts as overhead. Any thread, at any time; does not wait.
 */
MUSTER_API muster_status muster_job_report(struct muster_job *job, struct muster_report *report,
                                           struct muster_error *err);

/* A result that a sink has kept. */
struct muster_kept;

/*
 * Within the sink: the unit's outputs and statuses stay as and where they are until they are
 * released, and at least until the sink returns. They take none of the window, and no unit waits for
 * them: there is memory for options.kept_max of them. MUSTER_E_CAPACITY: that many are kept
 * already. MUSTER_E_INVALID: this result is kept already.
 */
MUSTER_API muster_status muster_result_retain(const struct muster_result *result,
                                              struct muster_kept **out, struct muster_error *err);
MUSTER_API const struct muster_result *muster_kept_result(const struct muster_kept *kept);
/* Any thread, before muster_job_destroy. NULL is allowed. */
MUSTER_API void muster_result_release(struct muster_kept *kept);

/*
 * Cancels the job if it runs, waits for it as muster_job_wait does, and frees it. Memory that a
 * hung device or callback may still use is freed after that returns. Within the job's own sink,
 * source, stage or policy, or within a kernel, the call does not wait: the job ends when the callback
 * has returned, and the next muster_start or muster_close frees it. The handle is invalid afterwards
 * in every case. NULL is allowed.
 */
MUSTER_API void muster_job_destroy(struct muster_job *job);

/*
 * Bytes of host memory that the job's results would take while they wait for delivery, and its
 * supplied items while they may be needed again. Results that can only be written straight into the
 * arrays take none.
 */
MUSTER_API muster_status muster_job_memory_estimate(struct muster *m,
                                                    const struct muster_job_desc *desc,
                                                    uint64_t *bytes, struct muster_error *err);

/*
 * A job, start to end: `options` and `report` may be NULL. MUSTER_E_ORDER: called within a kernel.
 */
MUSTER_API muster_status muster_for(struct muster *m, struct muster_kernel *kernel, uint64_t items,
                                    const struct muster_arg *args, size_t arg_count,
                                    const struct muster_run_options *options,
                                    struct muster_report *report, struct muster_error *err);

/*
 * The same with a status for each item: a job with `each_status`, start to end. MUSTER_E_FAILED:
 * all items were done or failed, and some did.
 */
MUSTER_API muster_status muster_for_each_status(struct muster *m, struct muster_kernel *kernel,
                                                uint64_t items, const struct muster_arg *args,
                                                size_t arg_count, muster_status *each_status,
                                                const struct muster_run_options *options,
                                                struct muster_report *report,
                                                struct muster_error *err);

#ifdef __cplusplus
}
#endif

#endif
