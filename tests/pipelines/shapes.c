#include "shapes.h"

#include <muster_kernel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BIT(buffer) (UINT64_C(1) << (buffer))
#define WORD sizeof(uint32_t)
#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/*
 * Kernels: each text is compiled here as a function of an item, and is the source of the portable
 * form. None looks at other items than its own, so that units may be merged and launches split.
 */
/* clang-format off */
#define TEXT(...) __VA_ARGS__ static const char helper[] = #__VA_ARGS__;
#define KERNEL(name, parameters, ...)                                                              \
    static void name parameters __VA_ARGS__                                                        \
    static const char name##_text[] = "MUSTER_KERNEL void " #name #parameters #__VA_ARGS__;

TEXT(static uint32_t scramble(uint32_t x, uint32_t rounds)
{
    uint32_t r;
    for (r = 0; r < rounds; r++)
        x = (x ^ (x >> 15)) * 2246822519u + 374761393u + r;
    return x;
})

KERNEL(mix, (uint64_t i, MUSTER_GLOBAL const uint32_t *in, MUSTER_GLOBAL uint32_t *out),
{
    out[i] = scramble(in[i], 700u);
})
KERNEL(update, (uint64_t i, MUSTER_GLOBAL uint32_t *data),
{
    data[i] = scramble(data[i], 300u);
})
KERNEL(join, (uint64_t i, MUSTER_GLOBAL const uint32_t *left, MUSTER_GLOBAL const uint32_t *right,
              MUSTER_GLOBAL uint32_t *out),
{
    out[i] = scramble(left[i] ^ (right[i] << 7), 150u);
})
KERNEL(carry, (uint64_t i, MUSTER_GLOBAL const uint32_t *in, MUSTER_GLOBAL uint32_t *state,
               MUSTER_GLOBAL uint32_t *out),
{
    state[i] = scramble(state[i] + in[i], 400u);
    out[i] = state[i];
})
KERNEL(apply, (uint64_t i, MUSTER_GLOBAL const uint32_t *in, MUSTER_GLOBAL const uint32_t *state,
               MUSTER_GLOBAL uint32_t *out),
{
    out[i] = scramble(in[i] ^ state[0], 500u);
})
KERNEL(shrink, (uint64_t i, MUSTER_GLOBAL const uint32_t *in, MUSTER_GLOBAL uint32_t *out,
                MUSTER_GLOBAL uint32_t *size, uint32_t items),
{
    out[i] = scramble(in[i], 350u);
    if (i == 0)
        size[0] = 4u * (1u + in[0] % items);
})
KERNEL(place, (uint64_t i, MUSTER_GLOBAL const uint32_t *in, MUSTER_GLOBAL uint32_t *out,
               uint32_t first),
{
    out[i] = scramble(in[i] + first + (uint32_t)i, 450u);
})
KERNEL(generate, (uint64_t i, MUSTER_GLOBAL uint32_t *out, uint32_t first),
{
    out[i] = scramble(first + (uint32_t)i, 600u);
})

#define IN(argument) (*(const uint32_t *const *)args[argument])
#define OUT(argument) (*(uint32_t *const *)args[argument])
#define VALUE(argument) (*(const uint32_t *)args[argument])
#define FUNCTION(name, ...)                                                                        \
    static muster_status name##_range(uint64_t begin, uint64_t end, void *const *args)             \
    {                                                                                              \
        for (uint64_t i = begin; i < end; i++)                                                     \
            name(i, __VA_ARGS__);                                                                  \
        return MUSTER_OK;                                                                          \
    }
/* clang-format on */
FUNCTION(mix, IN(0), OUT(1))
FUNCTION(update, OUT(0))
FUNCTION(join, IN(0), IN(1), OUT(2))
FUNCTION(carry, IN(0), OUT(1), OUT(2))
FUNCTION(apply, IN(0), IN(1), OUT(2))
FUNCTION(shrink, IN(0), OUT(1), OUT(2), VALUE(3))
FUNCTION(place, IN(0), OUT(1), VALUE(2))
FUNCTION(generate, OUT(0), VALUE(1))

static const struct {
    const char *name, *text;
    muster_kernel_function function;
} kernels[SHAPE_KERNEL_COUNT] = {
    [SHAPE_MIX] = { "mix", mix_text, mix_range },
    [SHAPE_UPDATE] = { "update", update_text, update_range },
    [SHAPE_JOIN] = { "join", join_text, join_range },
    [SHAPE_CARRY] = { "carry", carry_text, carry_range },
    [SHAPE_APPLY] = { "apply", apply_text, apply_range },
    [SHAPE_SHRINK] = { "shrink", shrink_text, shrink_range },
    [SHAPE_PLACE] = { "place", place_text, place_range },
    [SHAPE_GENERATE] = { "generate", generate_text, generate_range },
};

static muster_status make_kernel(struct shape_run *run, enum shape_kernel which,
                                 enum shape_forms forms, struct muster_error *err)
{
    char source[2048];
    int length = snprintf(source, sizeof source, "%s\n%s\n", helper, kernels[which].text);
    const struct muster_kernel_form both[] = {
        { .size = sizeof *both,
          .kind = MUSTER_KERNEL_FUNCTION,
          .function = kernels[which].function },
        { .size = sizeof *both,
          .kind = MUSTER_KERNEL_PORTABLE,
          .code = source,
          .code_bytes = (size_t)length,
          .entry = kernels[which].name },
    };
    size_t first = forms == SHAPE_PORTABLE_ONLY;
    return muster_kernel_from(run->m, kernels[which].name, both + first, COUNT_OF(both) - first,
                              &run->kernels[which], err);
}

/* What stages, source and sink do before their own work. */

static void note_wrong(struct shape_run *run, uint64_t where)
{
    if (atomic_fetch_add(&run->wrong, 1) == 0)
        atomic_store(&run->first_wrong, where);
}

static void dawdle(const struct shape_run *run, uint32_t where)
{
    if (run->dawdles != where)
        return;
    struct timespec time = { .tv_sec = (time_t)(run->dawdle_ns / 1000000000),
                             .tv_nsec = (long)(run->dawdle_ns % 1000000000) };
    nanosleep(&time, NULL);
}

static bool goes_wrong(const struct shape_run *run, uint32_t where, uint64_t begin, uint64_t end)
{
    return run->fails == where && run->fails_at >= begin && run->fails_at < end;
}

static muster_status enter(struct muster_unit *unit, struct shape_user *user)
{
    struct shape_run *run = user->run;
    uint64_t begin, end;
    muster_unit_range(unit, &begin, &end);
    if (begin >= end || end > run->shape->items)
        note_wrong(run, begin);
    atomic_fetch_add(&run->calls[user->stage], 1);
    atomic_fetch_add(&run->units_seen[user->stage], muster_unit_count(unit));
    dawdle(run, user->stage);
    return goes_wrong(run, user->stage, begin, end) ? run->failure : MUSTER_OK;
}

static uint64_t items_of(const struct muster_unit *unit)
{
    uint64_t begin, end;
    muster_unit_range(unit, &begin, &end);
    return end - begin;
}

static muster_status view_words(struct muster_unit *unit, uint32_t buffer, uint32_t **words,
                                size_t *count)
{
    struct muster_view view = { .size = sizeof view };
    muster_status status = muster_unit_view(unit, buffer, &view, NULL);
    if (status != MUSTER_OK)
        return status;
    *words = view.host;
    *count = view.bytes / WORD;
    return view.host ? MUSTER_OK : MUSTER_E_INVALID;
}

/* Records. */

static void record_output(struct shape_record *record, uint32_t output, const void *bytes,
                          size_t count)
{
    if (record->units >= SHAPE_UNITS_MAX || record->count[output] + count > record->capacity)
        return;
    memcpy(record->bytes[output] + record->count[output], bytes, count);
    record->count[output] += count;
    record->sizes[record->units][output] = count;
}

static void record_unit(struct shape_record *record, uint64_t end)
{
    if (record->units < SHAPE_UNITS_MAX)
        record->ends[record->units++] = end;
}

/* The items of unit number `unit`. */
static uint64_t unit_begin(const struct shape *shape, uint32_t unit)
{
    return unit * shape->unit_items;
}

static uint64_t unit_end(const struct shape *shape, uint32_t unit)
{
    uint64_t end = (unit + 1) * shape->unit_items;
    return end < shape->items ? end : shape->items;
}

uint32_t shape_units(const struct shape *shape)
{
    return (uint32_t)((shape->items + shape->unit_items - 1) / shape->unit_items);
}

#define FOR_EACH_UNIT(unit, begin, count)                                                          \
    for (uint64_t unit = 0, begin = 0, count = unit_end(shape, 0); unit < shape_units(shape);      \
         unit++, begin = unit_begin(shape, (uint32_t)unit),                                        \
                  count = unit_end(shape, (uint32_t)unit) - begin)

/* The most items of a unit in this file. */
#define UNIT_MAX 256

/* --- three stages, as deep as it gets ---------------------------------------------------------- */

enum { IN_, D_IN, D_OUT, OUT_ };

/* in -> mix -> out. */
static void serial_mix(const struct shape *shape, const uint32_t *in, struct shape_record *record)
{
    FOR_EACH_UNIT(u, begin, count)
    {
        uint32_t out[UNIT_MAX];
        for (uint64_t i = 0; i < count; i++)
            mix(i, in + begin, out);
        record_output(record, 0, out, count * WORD);
        record_unit(record, begin + count);
    }
}

#define BUFFER sizeof(struct muster_buffer)
#define THREE_BUFFERS(slots_)                                                                      \
    {                                                                                              \
        { BUFFER, "in", MUSTER_HOST, WORD, 0, slots_, 0 },                                         \
            { BUFFER, "d_in", MUSTER_DEVICE, WORD, 0, slots_, 0 },                                 \
            { BUFFER, "d_out", MUSTER_DEVICE, WORD, 0, slots_, 0 },                                \
            { BUFFER, "out", MUSTER_HOST, WORD, 0, slots_, 0 },                                    \
    }
#define COPY_STAGE(name_, stream_, from, to)                                                       \
    {                                                                                              \
        .name = name_, .stream = stream_, .reads = BIT(from), .writes = BIT(to),                   \
        .flags = MUSTER_COPY, .kernel = -1,                                                        \
    }
#define KERNEL_STAGE(name_, stream_, reads_, writes_, kernel_)                                     \
    {                                                                                              \
        .name = name_, .stream = stream_, .reads = reads_, .writes = writes_, .kernel = kernel_,   \
    }
#define HOST_STAGE(name_, reads_, writes_, run_, flags_)                                           \
    {                                                                                              \
        .name = name_, .stream = "host", .reads = reads_, .writes = writes_, .kernel = -1,         \
        .run = run_, .flags = flags_,                                                              \
    }
#define THREE_STAGES(h2d, compute, d2h)                                                            \
    {                                                                                              \
        COPY_STAGE("up", h2d, IN_, D_IN),                                                          \
            KERNEL_STAGE("mix", compute, BIT(D_IN), BIT(D_OUT), SHAPE_MIX),                        \
            COPY_STAGE("down", d2h, D_OUT, OUT_),                                                  \
    }

#define DEPTH_SHAPE(slots_, items_)                                                                \
    static const struct shape depth_##slots_ = {                                                   \
        .name = "depth_" #slots_,                                                                  \
        .what = "three stages, " #slots_ " slots",                                                 \
        .items = items_,                                                                           \
        .unit_items = 193,                                                                         \
        .buffers = THREE_BUFFERS(slots_),                                                          \
        .stages = THREE_STAGES("h2d", "compute", "d2h"),                                           \
        .output_count = 1,                                                                         \
        .serial = serial_mix,                                                                      \
    };
DEPTH_SHAPE(1, 193 * 11 + 5)
DEPTH_SHAPE(2, 193 * 16 + 1)
DEPTH_SHAPE(3, 193 * 22 + 100)
DEPTH_SHAPE(4, 193 * 22 + 191)

static const struct shape one_stream = {
    .name = "one_stream",
    .what = "three stages on one stream",
    .items = 193 * 16 + 50,
    .unit_items = 193,
    .buffers = THREE_BUFFERS(3),
    .stages = THREE_STAGES("all", "all", "all"),
    .output_count = 1,
    .serial = serial_mix,
};

static const struct shape kept = {
    .name = "kept",
    .what = "a sink that keeps results",
    .items = 151 * 18 + 7,
    .unit_items = 151,
    .buffers = THREE_BUFFERS(2),
    .stages = THREE_STAGES("h2d", "compute", "d2h"),
    .output_count = 1,
    .keeps = 5,
    .serial = serial_mix,
};

static const struct shape small = {
    .name = "small",
    .what = "small units, which may be merged",
    .items = 7 * 300 + 3,
    .unit_items = 7,
    .buffers = THREE_BUFFERS(4),
    .stages = THREE_STAGES("h2d", "compute", "d2h"),
    .output_count = 1,
    .merges = 1,
    .serial = serial_mix,
};

/* A callback that may be given several units as one; the item's number tells that it was told which. */
static muster_status launch_place(struct muster_unit *unit, void *user)
{
    struct shape_user *stage = user;
    uint64_t begin, end;
    muster_status status = enter(unit, stage);
    if (status != MUSTER_OK)
        return status;
    muster_unit_range(unit, &begin, &end);
    uint32_t first = (uint32_t)begin;
    const struct muster_unit_arg args[] = { MUSTER_VIEW(D_IN), MUSTER_VIEW(D_OUT),
                                            MUSTER_UNIT_VALUE(first) };
    return muster_unit_launch(unit, stage->run->kernels[SHAPE_PLACE], end - begin, args, 3, NULL);
}

static void serial_place(const struct shape *shape, const uint32_t *in, struct shape_record *record)
{
    FOR_EACH_UNIT(u, begin, count)
    {
        uint32_t out[UNIT_MAX];
        for (uint64_t i = 0; i < count; i++)
            place(i, in + begin, out, (uint32_t)begin);
        record_output(record, 0, out, count * WORD);
        record_unit(record, begin + count);
    }
}

static const struct shape small_callback = {
    .name = "small_callback",
    .what = "small units and a callback that takes several",
    .items = 5 * 250 + 2,
    .unit_items = 5,
    .buffers = THREE_BUFFERS(4),
    .stages = { COPY_STAGE("up", "h2d", IN_, D_IN),
                { .name = "place",
                  .stream = "compute",
                  .reads = BIT(D_IN),
                  .writes = BIT(D_OUT),
                  .flags = MUSTER_MERGES,
                  .kernel = SHAPE_PLACE,
                  .run = launch_place },
                COPY_STAGE("down", "d2h", D_OUT, OUT_) },
    .output_count = 1,
    .merges = 1,
    .serial = serial_place,
};

/* --- batches ----------------------------------------------------------------------------------- */

#define PLACE_STAGE(every_)                                                                        \
    {                                                                                              \
        .name = "place", .stream = "compute", .reads = BIT(D_IN), .writes = BIT(D_OUT),            \
        .kernel = SHAPE_PLACE, .run = launch_place, .every = every_,                               \
    }

static const struct shape batch = {
    .name = "batch",
    .what = "a stage for four units at a time, copies for each",
    .items = 97 * 22 + 13, /* 23 units: the last batch has three */
    .unit_items = 97,
    .buffers = THREE_BUFFERS(2),
    .stages = { COPY_STAGE("up", "h2d", IN_, D_IN), PLACE_STAGE(4),
                COPY_STAGE("down", "d2h", D_OUT, OUT_) },
    .output_count = 1,
    .serial = serial_place,
};

static const struct shape batch_copied = {
    .name = "batch_copied",
    .what = "a stage and the copy behind it for three units at a time",
    .items = 89 * 19 + 44, /* 20 units: the last batch has two */
    .unit_items = 89,
    .buffers = THREE_BUFFERS(3),
    .stages = { COPY_STAGE("up", "h2d", IN_, D_IN),
                PLACE_STAGE(3),
                { .name = "down",
                  .stream = "d2h",
                  .reads = BIT(D_OUT),
                  .writes = BIT(OUT_),
                  .flags = MUSTER_COPY,
                  .kernel = -1,
                  .every = 3 } },
    .output_count = 1,
    .serial = serial_place,
};

/* --- sizes that are known late ----------------------------------------------------------------- */

enum { L_IN, L_D_IN, L_D_OUT, L_D_SIZE, L_SIZE, L_OUT, L_FINAL };

static muster_status launch_shrink(struct muster_unit *unit, void *user)
{
    struct shape_user *stage = user;
    muster_status status = enter(unit, stage);
    if (status != MUSTER_OK)
        return status;
    uint32_t items = (uint32_t)items_of(unit);
    const struct muster_unit_arg args[] = { MUSTER_VIEW(L_D_IN), MUSTER_VIEW(L_D_OUT),
                                            MUSTER_VIEW(L_D_SIZE), MUSTER_UNIT_VALUE(items) };
    return muster_unit_launch(unit, stage->run->kernels[SHAPE_SHRINK], items, args, 4, NULL);
}

/* The size has arrived: so much of the device's output is copied. */
static muster_status decide_size(struct muster_unit *unit, void *user)
{
    uint32_t *size;
    size_t count;
    muster_status status = enter(unit, user);
    if (status == MUSTER_OK)
        status = view_words(unit, L_SIZE, &size, &count);
    return status == MUSTER_OK ? muster_unit_set_bytes(unit, L_D_OUT, size[0], NULL) : status;
}

static void serial_shrink(const uint32_t *in, uint64_t count, uint32_t *out, uint32_t *size)
{
    for (uint64_t i = 0; i < count; i++)
        shrink(i, in, out, size, (uint32_t)count);
}

static void serial_late(const struct shape *shape, const uint32_t *in, struct shape_record *record)
{
    FOR_EACH_UNIT(u, begin, count)
    {
        uint32_t out[UNIT_MAX], size;
        serial_shrink(in + begin, count, out, &size);
        record_output(record, 0, out, size);
        record_unit(record, begin + count);
    }
}

#define LATE_BUFFERS                                                                               \
    { BUFFER, "in", MUSTER_HOST, WORD, 0, 3, 0 },                                                  \
        { BUFFER, "d_in", MUSTER_DEVICE, WORD, 0, 2, 0 },                                          \
        { BUFFER, "d_out", MUSTER_DEVICE, WORD, 0, 3, 0 },                                         \
        { BUFFER, "d_size", MUSTER_DEVICE, 0, WORD, 3, 0 },                                        \
    {                                                                                              \
        BUFFER, "size", MUSTER_HOST, 0, WORD, 3, 0                                                 \
    }
#define LATE_STAGES(h2d, compute, sizes, d2h)                                                      \
    COPY_STAGE("up", h2d, L_IN, L_D_IN),                                                           \
        { .name = "shrink",                                                                        \
          .stream = compute,                                                                       \
          .reads = BIT(L_D_IN),                                                                    \
          .writes = BIT(L_D_OUT) | BIT(L_D_SIZE),                                                  \
          .kernel = SHAPE_SHRINK,                                                                  \
          .run = launch_shrink },                                                                  \
        COPY_STAGE("tell", sizes, L_D_SIZE, L_SIZE),                                               \
        HOST_STAGE("decide", BIT(L_SIZE), 0, decide_size, 0),                                      \
        COPY_STAGE("down", d2h, L_D_OUT, L_OUT)

static const struct shape late = {
    .name = "late",
    .what = "a size that the device computes, and a copy of that size",
    .items = 173 * 17 + 6,
    .unit_items = 173,
    .buffers = { LATE_BUFFERS, { BUFFER, "out", MUSTER_HOST, WORD, 0, 3, MUSTER_OUTPUT } },
    .stages = { LATE_STAGES("h2d", "compute", "sizes", "d2h") },
    .output_count = 1,
    .serial = serial_late,
};

static const struct shape late_one_stream = {
    .name = "late_one_stream",
    .what = "the same with one stream for all",
    .items = 173 * 13 + 171,
    .unit_items = 173,
    .buffers = { LATE_BUFFERS, { BUFFER, "out", MUSTER_HOST, WORD, 0, 2, MUSTER_OUTPUT } },
    .stages = { LATE_STAGES("all", "all", "all", "all") },
    .output_count = 1,
    .serial = serial_late,
};

/* Every second word of what arrived, and so half the size. */
static muster_status halve(struct muster_unit *unit, void *user)
{
    uint32_t *from, *to;
    size_t count, room;
    muster_status status = enter(unit, user);
    if (status != MUSTER_OK || (status = view_words(unit, L_OUT, &from, &count)) != MUSTER_OK ||
        (status = view_words(unit, L_FINAL, &to, &room)) != MUSTER_OK)
        return status;
    for (size_t i = 0; i < count; i += 2)
        to[i / 2] = scramble(from[i], 20);
    return muster_unit_set_bytes(unit, L_FINAL, (count + 1) / 2 * WORD, NULL);
}

static void serial_late_twice(const struct shape *shape, const uint32_t *in,
                              struct shape_record *record)
{
    FOR_EACH_UNIT(u, begin, count)
    {
        uint32_t out[UNIT_MAX], final[UNIT_MAX], size;
        serial_shrink(in + begin, count, out, &size);
        for (size_t i = 0; i < size / WORD; i += 2)
            final[i / 2] = scramble(out[i], 20);
        record_output(record, 0, final, (size / WORD + 1) / 2 * WORD);
        record_unit(record, begin + count);
    }
}

static const struct shape late_twice = {
    .name = "late_twice",
    .what = "a late size, and a host stage that makes it smaller still",
    .items = 181 * 15 + 60,
    .unit_items = 181,
    .buffers = { LATE_BUFFERS,
                 { BUFFER, "mid", MUSTER_HOST, WORD, 0, 2, 0 },
                 { BUFFER, "final", MUSTER_HOST, WORD, 0, 2, MUSTER_OUTPUT } },
    .stages = { LATE_STAGES("h2d", "compute", "sizes", "d2h"),
                HOST_STAGE("halve", BIT(L_OUT), BIT(L_FINAL), halve, 0) },
    .output_count = 1,
    .serial = serial_late_twice,
};

/* --- state that passes from unit to unit ------------------------------------------------------- */

enum { C_IN, C_D_IN, C_STATE, C_D_STATE, C_D_OUT, C_OUT };

/* The last word of a unit decides what the next one is mixed with. */
static muster_status decide_state(struct muster_unit *unit, void *user)
{
    uint32_t *state, *out;
    size_t count, words;
    muster_status status = enter(unit, user);
    if (status != MUSTER_OK || (status = view_words(unit, C_STATE, &state, &words)) != MUSTER_OK ||
        (status = view_words(unit, C_OUT, &out, &count)) != MUSTER_OK)
        return status;
    state[0] = scramble(state[0] + out[count - 1], 10);
    return MUSTER_OK;
}

static void serial_carry_host(const struct shape *shape, const uint32_t *in,
                              struct shape_record *record)
{
    uint32_t state = 0;
    FOR_EACH_UNIT(u, begin, count)
    {
        uint32_t out[UNIT_MAX];
        for (uint64_t i = 0; i < count; i++)
            apply(i, in + begin, &state, out);
        state = scramble(state + out[count - 1], 10);
        record_output(record, 0, out, count * WORD);
        record_unit(record, begin + count);
    }
}

static const struct shape carry_host = {
    .name = "carry_host",
    .what = "host state that one unit leaves for the next one's kernel",
    .items = 127 * 13 + 3,
    .unit_items = 127,
    .buffers = { { BUFFER, "in", MUSTER_HOST, WORD, 0, 3, MUSTER_INPUT },
                 { BUFFER, "d_in", MUSTER_DEVICE, WORD, 0, 2, 0 },
                 { BUFFER, "state", MUSTER_HOST, 0, WORD, 1, MUSTER_CARRIED },
                 { BUFFER, "d_state", MUSTER_DEVICE, 0, WORD, 2, 0 },
                 { BUFFER, "d_out", MUSTER_DEVICE, WORD, 0, 2, 0 },
                 { BUFFER, "out", MUSTER_HOST, WORD, 0, 2, MUSTER_OUTPUT } },
    .stages = { COPY_STAGE("up", "h2d", C_IN, C_D_IN),
                COPY_STAGE("push", "h2d", C_STATE, C_D_STATE),
                KERNEL_STAGE("apply", "compute", BIT(C_D_IN) | BIT(C_D_STATE), BIT(C_D_OUT),
                             SHAPE_APPLY),
                COPY_STAGE("down", "d2h", C_D_OUT, C_OUT),
                HOST_STAGE("decide", BIT(C_STATE) | BIT(C_OUT), BIT(C_STATE), decide_state, 0) },
    .output_count = 1,
    .carries = true,
    .serial = serial_carry_host,
};

enum { S_IN, S_D_IN, S_STATE, S_D_OUT, S_OUT };

static void serial_carry_device(const struct shape *shape, const uint32_t *in,
                                struct shape_record *record)
{
    uint32_t state[UNIT_MAX] = { 0 };
    FOR_EACH_UNIT(u, begin, count)
    {
        uint32_t out[UNIT_MAX];
        for (uint64_t i = 0; i < count; i++)
            carry(i, in + begin, state, out);
        record_output(record, 0, out, count * WORD);
        record_unit(record, begin + count);
    }
}

static const struct shape carry_device = {
    .name = "carry_device",
    .what = "device state that kernels update in place",
    .items = 139 * 17 + 70,
    .unit_items = 139,
    .buffers = { { BUFFER, "in", MUSTER_HOST, WORD, 0, 3, 0 },
                 { BUFFER, "d_in", MUSTER_DEVICE, WORD, 0, 3, 0 },
                 { BUFFER, "state", MUSTER_DEVICE, 0, UNIT_MAX *WORD, 1, MUSTER_CARRIED },
                 { BUFFER, "d_out", MUSTER_DEVICE, WORD, 0, 3, 0 },
                 { BUFFER, "out", MUSTER_HOST, WORD, 0, 3, 0 } },
    .stages = { COPY_STAGE("up", "h2d", S_IN, S_D_IN),
                KERNEL_STAGE("carry", "compute", BIT(S_D_IN) | BIT(S_STATE),
                             BIT(S_STATE) | BIT(S_D_OUT), SHAPE_CARRY),
                COPY_STAGE("down", "d2h", S_D_OUT, S_OUT) },
    .output_count = 1,
    .carries = true,
    .serial = serial_carry_device,
};

static void serial_carry_across(const struct shape *shape, const uint32_t *in,
                                struct shape_record *record)
{
    uint32_t state[UNIT_MAX] = { 0 };
    FOR_EACH_UNIT(u, begin, count)
    {
        uint32_t out[UNIT_MAX];
        for (uint64_t i = 0; i < count; i++)
            carry(i, in + begin, state, out);
        for (uint64_t i = 0; i < count; i++)
            update(i, state);
        record_output(record, 0, out, count * WORD);
        record_unit(record, begin + count);
    }
}

/* Two stages on two streams that take turns at one carried buffer. */
static const struct shape carry_across = {
    .name = "carry_across",
    .what = "device state that stages on two streams update in turn",
    .items = 131 * 13 + 8,
    .unit_items = 131,
    .buffers = { { BUFFER, "in", MUSTER_HOST, WORD, 0, 3, 0 },
                 { BUFFER, "d_in", MUSTER_DEVICE, WORD, 0, 3, 0 },
                 { BUFFER, "state", MUSTER_DEVICE, 0, UNIT_MAX *WORD, 1, MUSTER_CARRIED },
                 { BUFFER, "d_out", MUSTER_DEVICE, WORD, 0, 3, 0 },
                 { BUFFER, "out", MUSTER_HOST, WORD, 0, 3, 0 } },
    .stages = { COPY_STAGE("up", "h2d", S_IN, S_D_IN),
                KERNEL_STAGE("carry", "left", BIT(S_D_IN) | BIT(S_STATE),
                             BIT(S_STATE) | BIT(S_D_OUT), SHAPE_CARRY),
                KERNEL_STAGE("turn", "right", BIT(S_STATE), BIT(S_STATE), SHAPE_UPDATE),
                COPY_STAGE("down", "d2h", S_D_OUT, S_OUT) },
    .output_count = 1,
    .carries = true,
    .serial = serial_carry_across,
};

/* --- host stages ------------------------------------------------------------------------------- */

enum { H_IN, H_MID, H_OUT };

static muster_status host_scramble(struct muster_unit *unit, uint32_t reads, uint32_t writes,
                                   uint32_t rounds, uint32_t *chain)
{
    uint32_t *from, *to;
    size_t count, room;
    muster_status status = view_words(unit, reads, &from, &count);
    if (status == MUSTER_OK)
        status = view_words(unit, writes, &to, &room);
    if (status != MUSTER_OK)
        return status;
    for (size_t i = 0; i < count; i++) {
        *chain += from[i];
        to[i] = scramble(from[i] ^ *chain, rounds);
    }
    return MUSTER_OK;
}

static void serial_scramble(const uint32_t *from, uint64_t count, uint32_t *to, uint32_t rounds,
                            uint32_t *chain)
{
    for (uint64_t i = 0; i < count; i++) {
        *chain += from[i];
        to[i] = scramble(from[i] ^ *chain, rounds);
    }
}

static muster_status host_first(struct muster_unit *unit, void *user)
{
    uint32_t chain = 0;
    muster_status status = enter(unit, user);
    return status == MUSTER_OK ? host_scramble(unit, H_IN, H_MID, 500, &chain) : status;
}

static muster_status host_second(struct muster_unit *unit, void *user)
{
    uint32_t chain = 7;
    muster_status status = enter(unit, user);
    return status == MUSTER_OK ? host_scramble(unit, H_MID, H_OUT, 200, &chain) : status;
}

static muster_status host_chained(struct muster_unit *unit, void *user)
{
    struct shape_user *stage = user;
    muster_status status = enter(unit, stage);
    return status == MUSTER_OK ? host_scramble(unit, H_MID, H_OUT, 250, &stage->run->chain)
                               : status;
}

static void serial_host(const struct shape *shape, const uint32_t *in, struct shape_record *record)
{
    FOR_EACH_UNIT(u, begin, count)
    {
        uint32_t mid[UNIT_MAX], out[UNIT_MAX], first = 0, second = 7;
        serial_scramble(in + begin, count, mid, 500, &first);
        serial_scramble(mid, count, out, 200, &second);
        record_output(record, 0, out, count * WORD);
        record_unit(record, begin + count);
    }
}

static void serial_chain(const struct shape *shape, const uint32_t *in, struct shape_record *record)
{
    uint32_t chain = 0;
    FOR_EACH_UNIT(u, begin, count)
    {
        uint32_t mid[UNIT_MAX], out[UNIT_MAX], first = 0;
        serial_scramble(in + begin, count, mid, 500, &first);
        serial_scramble(mid, count, out, 250, &chain);
        record_output(record, 0, out, count * WORD);
        record_unit(record, begin + count);
    }
}

#define HOST_BUFFERS                                                                               \
    {                                                                                              \
        { BUFFER, "in", MUSTER_HOST, WORD, 0, 3, 0 },                                              \
            { BUFFER, "mid", MUSTER_HOST, WORD, 0, 2, 0 },                                         \
            { BUFFER, "out", MUSTER_HOST, WORD, 0, 2, MUSTER_OUTPUT },                             \
    }

static const struct shape host_only = {
    .name = "host_only",
    .what = "host stages alone",
    .items = 113 * 14 + 2,
    .unit_items = 113,
    .buffers = HOST_BUFFERS,
    .stages = { HOST_STAGE("first", BIT(H_IN), BIT(H_MID), host_first, 0),
                HOST_STAGE("second", BIT(H_MID), BIT(H_OUT), host_second, 0) },
    .output_count = 1,
    .serial = serial_host,
};

static const struct shape carry_own = {
    .name = "carry_own",
    .what = "a stage with state of its own",
    .items = 113 * 15 + 40,
    .unit_items = 113,
    .buffers = HOST_BUFFERS,
    .stages = { HOST_STAGE("first", BIT(H_IN), BIT(H_MID), host_first, 0),
                HOST_STAGE("chain", BIT(H_MID), BIT(H_OUT), host_chained, MUSTER_CARRIES) },
    .output_count = 1,
    .carries = true,
    .serial = serial_chain,
};

/*
 * Two host stages that share what Muster does not know of: the second of a unit comes before the
 * first of the next, which is the user's edge.
 */
static muster_status hide(struct muster_unit *unit, void *user)
{
    struct shape_user *stage = user;
    uint64_t begin, end;
    uint32_t chain = 0;
    muster_status status = enter(unit, stage);
    muster_unit_range(unit, &begin, &end);
    stage->run->hidden = (uint32_t)begin + 1;
    return status == MUSTER_OK ? host_scramble(unit, H_IN, H_MID, 100, &chain) : status;
}

static muster_status seek(struct muster_unit *unit, void *user)
{
    struct shape_user *stage = user;
    muster_status status = enter(unit, stage);
    uint32_t chain = stage->run->hidden;
    return status == MUSTER_OK ? host_scramble(unit, H_MID, H_OUT, 300, &chain) : status;
}

static void serial_hidden(const struct shape *shape, const uint32_t *in,
                          struct shape_record *record)
{
    FOR_EACH_UNIT(u, begin, count)
    {
        uint32_t mid[UNIT_MAX], out[UNIT_MAX], first = 0, second = (uint32_t)begin + 1;
        serial_scramble(in + begin, count, mid, 100, &first);
        serial_scramble(mid, count, out, 300, &second);
        record_output(record, 0, out, count * WORD);
        record_unit(record, begin + count);
    }
}

static const struct shape added = {
    .name = "added",
    .what = "an edge of the user's, for what Muster cannot know",
    .items = 101 * 13 + 9,
    .unit_items = 101,
    .buffers = HOST_BUFFERS,
    .stages = { HOST_STAGE("hide", BIT(H_IN), BIT(H_MID), hide, 0),
                HOST_STAGE("seek", BIT(H_MID), BIT(H_OUT), seek, 0) },
    .output_count = 1,
    .added = { .size = sizeof(struct muster_edge), .from = 1, .to = 0, .distance = 1 },
    .carries = true,
    .serial = serial_hidden,
};

/* --- more streams, fewer buffers --------------------------------------------------------------- */

enum { F_IN, F_D_IN, F_LEFT, F_RIGHT, F_D_OUT, F_OUT };

static void serial_fan_in(const struct shape *shape, const uint32_t *in,
                          struct shape_record *record)
{
    FOR_EACH_UNIT(u, begin, count)
    {
        uint32_t left[UNIT_MAX], right[UNIT_MAX], out[UNIT_MAX];
        for (uint64_t i = 0; i < count; i++) {
            mix(i, in + begin, left);
            place(i, in + begin, right, (uint32_t)begin);
        }
        for (uint64_t i = 0; i < count; i++)
            join(i, left, right, out);
        record_output(record, 0, out, count * WORD);
        record_unit(record, begin + count);
    }
}

static muster_status launch_right(struct muster_unit *unit, void *user)
{
    struct shape_user *stage = user;
    uint64_t begin, end;
    muster_status status = enter(unit, stage);
    if (status != MUSTER_OK)
        return status;
    muster_unit_range(unit, &begin, &end);
    uint32_t first = (uint32_t)begin;
    const struct muster_unit_arg args[] = { MUSTER_VIEW(F_D_IN), MUSTER_VIEW(F_RIGHT),
                                            MUSTER_UNIT_VALUE(first) };
    return muster_unit_launch(unit, stage->run->kernels[SHAPE_PLACE], end - begin, args, 3, NULL);
}

static const struct shape fan_in = {
    .name = "fan_in",
    .what = "two producers on two streams, joined",
    .items = 163 * 16 + 90,
    .unit_items = 163,
    .buffers = { { BUFFER, "in", MUSTER_HOST, WORD, 0, 2, 0 },
                 { BUFFER, "d_in", MUSTER_DEVICE, WORD, 0, 2, 0 },
                 { BUFFER, "left", MUSTER_DEVICE, WORD, 0, 2, 0 },
                 { BUFFER, "right", MUSTER_DEVICE, WORD, 0, 3, 0 },
                 { BUFFER, "d_out", MUSTER_DEVICE, WORD, 0, 2, 0 },
                 { BUFFER, "out", MUSTER_HOST, WORD, 0, 2, 0 } },
    .stages = { COPY_STAGE("up", "h2d", F_IN, F_D_IN),
                KERNEL_STAGE("left", "a", BIT(F_D_IN), BIT(F_LEFT), SHAPE_MIX),
                { .name = "right",
                  .stream = "b",
                  .reads = BIT(F_D_IN),
                  .writes = BIT(F_RIGHT),
                  .kernel = SHAPE_PLACE,
                  .run = launch_right },
                KERNEL_STAGE("join", "c", BIT(F_LEFT) | BIT(F_RIGHT), BIT(F_D_OUT), SHAPE_JOIN),
                COPY_STAGE("down", "d2h", F_D_OUT, F_OUT) },
    .output_count = 1,
    .serial = serial_fan_in,
};

enum { V_IN, V_A, V_B, V_C, V_OUT };

static void serial_five(const struct shape *shape, const uint32_t *in, struct shape_record *record)
{
    FOR_EACH_UNIT(u, begin, count)
    {
        uint32_t b[UNIT_MAX], c[UNIT_MAX];
        for (uint64_t i = 0; i < count; i++)
            mix(i, in + begin, b);
        for (uint64_t i = 0; i < count; i++)
            update(i, b);
        for (uint64_t i = 0; i < count; i++)
            mix(i, b, c);
        record_output(record, 0, c, count * WORD);
        record_unit(record, begin + count);
    }
}

static const struct shape five_streams = {
    .name = "five_streams",
    .what = "five stages on five streams",
    .items = 109 * 19 + 1,
    .unit_items = 109,
    .buffers = { { BUFFER, "in", MUSTER_HOST, WORD, 0, 3, 0 },
                 { BUFFER, "a", MUSTER_DEVICE, WORD, 0, 2, 0 },
                 { BUFFER, "b", MUSTER_DEVICE, WORD, 0, 3, 0 },
                 { BUFFER, "c", MUSTER_DEVICE, WORD, 0, 2, 0 },
                 { BUFFER, "out", MUSTER_HOST, WORD, 0, 3, 0 } },
    .stages = { COPY_STAGE("up", "one", V_IN, V_A),
                KERNEL_STAGE("mix", "two", BIT(V_A), BIT(V_B), SHAPE_MIX),
                KERNEL_STAGE("update", "three", BIT(V_B), BIT(V_B), SHAPE_UPDATE),
                KERNEL_STAGE("again", "four", BIT(V_B), BIT(V_C), SHAPE_MIX),
                COPY_STAGE("down", "five", V_C, V_OUT) },
    .output_count = 1,
    .serial = serial_five,
};

enum { P_IN, P_DATA, P_OUT };

static void serial_in_place(const struct shape *shape, const uint32_t *in,
                            struct shape_record *record)
{
    FOR_EACH_UNIT(u, begin, count)
    {
        uint32_t data[UNIT_MAX];
        memcpy(data, in + begin, count * WORD);
        for (uint64_t i = 0; i < count; i++)
            update(i, data);
        record_output(record, 0, data, count * WORD);
        record_unit(record, begin + count);
    }
}

static const struct shape in_place = {
    .name = "in_place",
    .what = "a kernel that reads and writes one buffer",
    .items = 211 * 15 + 33,
    .unit_items = 211,
    .buffers = { { BUFFER, "in", MUSTER_HOST, WORD, 0, 0, 0 },
                 { BUFFER, "data", MUSTER_DEVICE, WORD, 0, 0, 0 },
                 { BUFFER, "out", MUSTER_HOST, WORD, 0, 0, 0 } },
    .stages = { COPY_STAGE("up", "h2d", P_IN, P_DATA),
                KERNEL_STAGE("update", "compute", BIT(P_DATA), BIT(P_DATA), SHAPE_UPDATE),
                COPY_STAGE("down", "d2h", P_DATA, P_OUT) },
    .output_count = 1,
    .serial = serial_in_place,
};

static bool is_skipped(uint64_t begin)
{
    return begin % 3 == 1;
}

static muster_status update_some(struct muster_unit *unit, void *user)
{
    struct shape_user *stage = user;
    uint64_t begin, end;
    muster_status status = enter(unit, stage);
    muster_unit_range(unit, &begin, &end);
    if (status != MUSTER_OK || is_skipped(begin))
        return status != MUSTER_OK ? status : MUSTER_SKIPPED;
    const struct muster_unit_arg args[] = { MUSTER_VIEW(P_DATA) };
    return muster_unit_launch(unit, stage->run->kernels[SHAPE_UPDATE], end - begin, args, 1, NULL);
}

static void serial_skip(const struct shape *shape, const uint32_t *in, struct shape_record *record)
{
    FOR_EACH_UNIT(u, begin, count)
    {
        uint32_t data[UNIT_MAX];
        memcpy(data, in + begin, count * WORD);
        for (uint64_t i = 0; i < count && !is_skipped(begin); i++)
            update(i, data);
        record_output(record, 0, data, count * WORD);
        record_unit(record, begin + count);
    }
}

static const struct shape skip = {
    .name = "skip",
    .what = "a stage that has nothing to do for some units",
    .items = 157 * 20 + 17,
    .unit_items = 157,
    .buffers = { { BUFFER, "in", MUSTER_HOST, WORD, 0, 3, 0 },
                 { BUFFER, "data", MUSTER_DEVICE, WORD, 0, 3, 0 },
                 { BUFFER, "out", MUSTER_HOST, WORD, 0, 3, 0 } },
    .stages = { COPY_STAGE("up", "h2d", P_IN, P_DATA),
                { .name = "some",
                  .stream = "compute",
                  .reads = BIT(P_DATA),
                  .writes = BIT(P_DATA),
                  .kernel = SHAPE_UPDATE,
                  .run = update_some },
                COPY_STAGE("down", "d2h", P_DATA, P_OUT) },
    .output_count = 1,
    .serial = serial_skip,
};

/* --- without an input, and with two outputs ---------------------------------------------------- */

enum { G_D_OUT, G_OUT };

static muster_status launch_generate(struct muster_unit *unit, void *user)
{
    struct shape_user *stage = user;
    uint64_t begin, end;
    muster_status status = enter(unit, stage);
    if (status != MUSTER_OK)
        return status;
    muster_unit_range(unit, &begin, &end);
    uint32_t first = (uint32_t)begin;
    const struct muster_unit_arg args[] = { MUSTER_VIEW(G_D_OUT), MUSTER_UNIT_VALUE(first) };
    return muster_unit_launch(unit, stage->run->kernels[SHAPE_GENERATE], end - begin, args, 2,
                              NULL);
}

static void serial_generate(const struct shape *shape, const uint32_t *in,
                            struct shape_record *record)
{
    (void)in;
    FOR_EACH_UNIT(u, begin, count)
    {
        uint32_t out[UNIT_MAX];
        for (uint64_t i = 0; i < count; i++)
            generate(i, out, (uint32_t)begin);
        record_output(record, 0, out, count * WORD);
        record_unit(record, begin + count);
    }
}

static const struct shape generator = {
    .name = "generator",
    .what = "no input: items are made on the device",
    .items = 167 * 14 + 21,
    .unit_items = 167,
    .buffers = { { BUFFER, "d_out", MUSTER_DEVICE, WORD, 0, 2, 0 },
                 { BUFFER, "out", MUSTER_HOST, WORD, 0, 2, 0 } },
    .stages = { { .name = "generate",
                  .stream = "compute",
                  .writes = BIT(G_D_OUT),
                  .kernel = SHAPE_GENERATE,
                  .run = launch_generate },
                COPY_STAGE("down", "d2h", G_D_OUT, G_OUT) },
    .output_count = 1,
    .has_no_input = true,
    .serial = serial_generate,
};

enum { T_IN, T_D_IN, T_D_OUT, T_OUT, T_SUM };

/* One word for the whole unit, beside the items themselves. */
static muster_status sum_up(struct muster_unit *unit, void *user)
{
    uint32_t *out, *sum;
    size_t count, room;
    muster_status status = enter(unit, user);
    if (status != MUSTER_OK || (status = view_words(unit, T_OUT, &out, &count)) != MUSTER_OK ||
        (status = view_words(unit, T_SUM, &sum, &room)) != MUSTER_OK)
        return status;
    sum[0] = 0;
    for (size_t i = 0; i < count; i++)
        sum[0] = scramble(sum[0] + out[i], 2);
    return MUSTER_OK;
}

static void serial_two_outputs(const struct shape *shape, const uint32_t *in,
                               struct shape_record *record)
{
    FOR_EACH_UNIT(u, begin, count)
    {
        uint32_t out[UNIT_MAX], sum = 0;
        for (uint64_t i = 0; i < count; i++)
            mix(i, in + begin, out);
        for (size_t i = 0; i < count; i++)
            sum = scramble(sum + out[i], 2);
        record_output(record, 0, out, count * WORD);
        record_output(record, 1, &sum, WORD);
        record_unit(record, begin + count);
    }
}

static const struct shape two_outputs = {
    .name = "two_outputs",
    .what = "two outputs, one of a fixed size",
    .items = 149 * 16 + 80,
    .unit_items = 149,
    .buffers = { { BUFFER, "in", MUSTER_HOST, WORD, 0, 2, 0 },
                 { BUFFER, "d_in", MUSTER_DEVICE, WORD, 0, 2, 0 },
                 { BUFFER, "d_out", MUSTER_DEVICE, WORD, 0, 2, 0 },
                 { BUFFER, "out", MUSTER_HOST, WORD, 0, 2, MUSTER_OUTPUT },
                 { BUFFER, "sum", MUSTER_HOST, 0, WORD, 3, MUSTER_OUTPUT } },
    .stages = { COPY_STAGE("up", "h2d", T_IN, T_D_IN),
                KERNEL_STAGE("mix", "compute", BIT(T_D_IN), BIT(T_D_OUT), SHAPE_MIX),
                COPY_STAGE("down", "d2h", T_D_OUT, T_OUT),
                HOST_STAGE("sum", BIT(T_OUT), BIT(T_SUM), sum_up, 0) },
    .output_count = 2,
    .serial = serial_two_outputs,
};

const struct shape *const shapes[] = {
    &depth_1,         &depth_2,    &depth_3,    &depth_4,     &one_stream,   &five_streams,
    &in_place,        &skip,       &fan_in,     &batch,       &batch_copied, &late,
    &late_one_stream, &late_twice, &carry_host, &carry_own,   &carry_device, &carry_across,
    &added,           &host_only,  &generator,  &two_outputs, &kept,         &small,
    &small_callback,
};
const size_t shape_count = COUNT_OF(shapes);

/* --- running one ------------------------------------------------------------------------------- */

const struct shape *shape_find(const char *name)
{
    for (size_t i = 0; i < shape_count; i++)
        if (strcmp(shapes[i]->name, name) == 0)
            return shapes[i];
    return NULL;
}

uint32_t shape_stage_count(const struct shape *shape)
{
    uint32_t count = 0;
    while (count < SHAPE_STAGES_MAX && shape->stages[count].name)
        count++;
    return count;
}

uint32_t shape_buffer_count(const struct shape *shape)
{
    uint32_t count = 0;
    while (count < SHAPE_BUFFERS_MAX && shape->buffers[count].name)
        count++;
    return count;
}

static bool record_init(struct shape_record *record, const struct shape *shape)
{
    record->capacity = (shape->items + SHAPE_UNITS_MAX) * WORD;
    for (uint32_t i = 0; i < SHAPE_OUTPUTS_MAX; i++)
        if (!(record->bytes[i] = malloc(record->capacity)))
            return false;
    return true;
}

static void record_clear(struct shape_record *record)
{
    memset(record->count, 0, sizeof record->count);
    memset(record->sizes, 0, sizeof record->sizes);
    record->units = 0;
}

static void record_deinit(struct shape_record *record)
{
    for (uint32_t i = 0; i < SHAPE_OUTPUTS_MAX; i++)
        free(record->bytes[i]);
}

static bool make_records(struct shape_run *run)
{
    const struct shape *shape = run->shape;
    run->in = malloc(shape->items * WORD);
    if (!run->in || !record_init(&run->expected, shape) || !record_init(&run->got, shape))
        return false;
    for (uint64_t i = 0; i < shape->items; i++)
        run->in[i] = scramble((uint32_t)i, 3);
    shape->serial(shape, run->in, &run->expected);
    return true;
}

static muster_status make_pipeline(struct shape_run *run, enum shape_forms forms,
                                   enum muster_schedule schedule, struct muster_error *err)
{
    const struct shape *shape = run->shape;
    struct muster_stage stages[SHAPE_STAGES_MAX] = { { .size = sizeof *stages, .name = NULL } };
    uint32_t count = shape_stage_count(shape);
    for (uint32_t i = 0; i < count; i++) {
        const struct shape_stage *stage = &shape->stages[i];
        run->users[i] = (struct shape_user){ run, i };
        stages[i] = (struct muster_stage){ .size = sizeof *stages,
                                           .name = stage->name,
                                           .stream = stage->stream,
                                           .reads = stage->reads,
                                           .writes = stage->writes,
                                           .run = stage->run,
                                           .user = &run->users[i],
                                           .flags = stage->flags,
                                           .every = stage->every };
        if (stage->kernel < 0)
            continue;
        muster_status status = MUSTER_OK;
        if (!run->kernels[stage->kernel])
            status = make_kernel(run, (enum shape_kernel)stage->kernel, forms, err);
        if (status != MUSTER_OK)
            return status;
        stages[i].kernel = run->kernels[stage->kernel];
    }
    const struct muster_pipeline_options options = { .size = sizeof options,
                                                     .edges = &shape->added,
                                                     .edge_count = shape->added.distance > 0,
                                                     .schedule = schedule };
    return muster_pipeline_create(run->m, shape->buffers, shape_buffer_count(shape), stages, count,
                                  &options, &run->pipeline, err);
}

muster_status shape_open(struct muster *m, const struct shape *shape, enum shape_forms forms,
                         enum muster_schedule schedule, struct shape_run **out,
                         struct muster_error *err)
{
    struct shape_run *run = calloc(1, sizeof *run);
    if (!run)
        return MUSTER_E_NO_MEMORY;
    run->m = m;
    run->shape = shape;
    run->fails = run->dawdles = SHAPE_NOWHERE;
    muster_status status = make_records(run) ? MUSTER_OK : MUSTER_E_NO_MEMORY;
    if (status == MUSTER_OK)
        status = make_pipeline(run, forms, schedule, err);
    if (status != MUSTER_OK)
        shape_close(run);
    else
        *out = run;
    return status;
}

void shape_close(struct shape_run *run)
{
    muster_pipeline_destroy(run->pipeline);
    for (uint32_t i = 0; i < SHAPE_KERNEL_COUNT; i++)
        muster_kernel_destroy(run->kernels[i]);
    record_deinit(&run->expected);
    record_deinit(&run->got);
    free(run->in);
    free(run);
}

static int64_t supply(void *user, uint64_t begin, uint64_t items, void *to, size_t bytes)
{
    struct shape_run *run = user;
    dawdle(run, SHAPE_SOURCE);
    if (begin != run->source_next || bytes < items * WORD)
        note_wrong(run, begin);
    uint64_t left = run->shape->items - begin, count = items < left ? items : left;
    if (goes_wrong(run, SHAPE_SOURCE, begin, begin + count))
        return run->failure;
    memcpy(to, run->in + begin, count * WORD);
    run->source_next = begin + count;
    return (int64_t)count;
}

static void keep_some(struct shape_run *run, const struct muster_result *result)
{
    if (run->kept_count - run->kept_first == run->shape->keeps)
        muster_result_release(run->kept[run->kept_first++]);
    struct muster_kept *one;
    if (muster_result_retain(result, &one, NULL) == MUSTER_OK)
        run->kept[run->kept_count++] = one;
    else
        note_wrong(run, result->range.begin);
}

/* The sink: notes what it is given; whether that is right is told in the end. */
static muster_status take(void *user, const struct muster_result *result)
{
    struct shape_run *run = user;
    struct shape_record *got = &run->got;
    dawdle(run, SHAPE_SINK);
    if (goes_wrong(run, SHAPE_SINK, result->range.begin, result->range.end)) {
        if (run->failure != MUSTER_OK)
            return run->failure;
        muster_job_cancel(run->job);
    }
    if (result->output_count != run->shape->output_count ||
        result->range.begin != (got->units > 0 ? got->ends[got->units - 1] : 0)) {
        note_wrong(run, result->range.begin);
        return MUSTER_OK;
    }
    for (uint32_t i = 0; i < result->output_count; i++)
        record_output(got, i, result->outputs[i], result->output_bytes[i]);
    record_unit(got, result->range.end);
    if (run->shape->keeps > 0)
        keep_some(run, result);
    return MUSTER_OK;
}

struct muster_job_desc shape_job(struct shape_run *run, enum shape_input input, const char *devices)
{
    const struct shape *shape = run->shape;
    record_clear(&run->got);
    run->source_next = 0;
    run->chain = run->hidden = 0;
    run->kept_first = run->kept_count = 0;
    atomic_store(&run->wrong, 0);
    for (uint32_t i = 0; i < SHAPE_STAGES_MAX; i++) {
        atomic_store(&run->calls[i], 0);
        atomic_store(&run->units_seen[i], 0);
    }
    struct muster_job_desc desc = { .size = sizeof desc,
                                    .pipeline = run->pipeline,
                                    .items = shape->items,
                                    .sink = take,
                                    .sink_user = run,
                                    .options = &run->how };
    run->how = (struct muster_run_options){ .size = sizeof run->how,
                                            .devices = devices,
                                            .unit_items = shape->unit_items,
                                            .kept_max = shape->keeps };
    if (!shape->has_no_input && input == SHAPE_FROM_ARRAY)
        desc.input = run->in;
    if (!shape->has_no_input && input == SHAPE_FROM_SOURCE) {
        desc.source = supply;
        desc.source_user = run;
    }
    return desc;
}

void shape_release_kept(struct shape_run *run)
{
    while (run->kept_first < run->kept_count) {
        const struct muster_result *result = muster_kept_result(run->kept[run->kept_first]);
        size_t at = result->range.begin * WORD, bytes = result->output_bytes[0];
        if (at + bytes > run->expected.count[0] ||
            memcmp(result->outputs[0], run->expected.bytes[0] + at, bytes) != 0)
            note_wrong(run, result->range.begin);
        muster_result_release(run->kept[run->kept_first++]);
    }
}

static size_t offset_of(const struct shape_record *record, uint32_t unit, uint32_t output)
{
    size_t offset = 0;
    for (uint32_t i = 0; i < unit; i++)
        offset += record->sizes[i][output];
    return offset;
}

static bool is_unit_right(const struct shape_run *run, uint32_t unit, char *why, size_t capacity)
{
    const struct shape_record *got = &run->got, *expected = &run->expected;
    if (unit >= expected->units || got->ends[unit] != expected->ends[unit]) {
        snprintf(why, capacity, "unit %u ends with item %llu", unit,
                 (unsigned long long)got->ends[unit]);
        return false;
    }
    for (uint32_t i = 0; i < run->shape->output_count; i++) {
        size_t bytes = expected->sizes[unit][i];
        if (got->sizes[unit][i] != bytes ||
            memcmp(got->bytes[i] + offset_of(got, unit, i),
                   expected->bytes[i] + offset_of(expected, unit, i), bytes) != 0) {
            snprintf(why, capacity, "output %u of unit %u: %zu bytes of %zu, or others", i, unit,
                     got->sizes[unit][i], bytes);
            return false;
        }
    }
    return true;
}

bool shape_is_prefix(const struct shape_run *run, char *why, size_t capacity)
{
    if (run->wrong > 0) {
        snprintf(why, capacity, "%u calls were not as they should be, the first with item %llu",
                 run->wrong, (unsigned long long)run->first_wrong);
        return false;
    }
    for (uint32_t i = 0; i < run->got.units; i++)
        if (!is_unit_right(run, i, why, capacity))
            return false;
    return true;
}

bool shape_is_right(const struct shape_run *run, char *why, size_t capacity)
{
    if (!shape_is_prefix(run, why, capacity))
        return false;
    snprintf(why, capacity, "%u units of %u", run->got.units, run->expected.units);
    return run->got.units == run->expected.units;
}
