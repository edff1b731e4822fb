#include "scenario.h"

#include "harness.h"

#include <stdlib.h>
#include <string.h>

#define ITEMS SCENARIO_ITEMS
#define BYTES (ITEMS * sizeof(uint32_t))
#define STREAMS 3
/* More than one operation can use, and one that is mapped by itself. */
#define BLOCKS (MUSTER_USES_MAX + 2)
#define LARGE_BYTES ((size_t)300 << 10)
#define LONG_NS 20000000000u
#define SHORT_NS 1000000u
/* What an error holds that nobody has written to. */
#define UNTOUCHED 12345

const char scenario_sim[] =
    "[{\"name\": \"plain\", \"items_per_s\": 1e12, \"memory\": \"64MiB\"},"
    " {\"name\": \"cake\", \"items_per_s\": 1e12, \"memory\": \"64MiB\", \"cores\": 4,"
    "  \"slices\": true}]";

/* What devices read and write while they work: never freed before the runtime is gone. */
struct scenario_buffers {
    uint32_t input[ITEMS], table[ITEMS], foreign[ITEMS];
    uint32_t sum[ITEMS], product[ITEMS], looked_up[ITEMS], looked_up_again[ITEMS];
    muster_status result, table_result;
};

/* A block, and what is in it: item i holds i x factor, if that is known. */
struct place {
    muster_block block;
    bool is_out, is_known, is_held;
    uint32_t factor;
};

/* One device's worth of the scenario. */
struct usage {
    struct scenario *s;
    struct scenario_buffers *buffers;
    muster_device device;
    struct muster_device_info info;
    muster_stream streams[STREAMS], standard;
    bool stream_is_out[STREAMS], standard_is_out, stream_is_held[STREAMS];
    struct place source, many[BLOCKS];
    struct muster_kernel *kernel;
    void *small, *large;
    bool left_something; /* that could not be given back */
};

static void forget_error(struct scenario *s)
{
    s->err = (struct muster_error){ .status = UNTOUCHED };
}

static bool allows_always(const char *step, muster_status status)
{
    /* With next to no time allowed, either is right. */
    return strcmp(step, "a glance") == 0 && (status == MUSTER_E_TIMEOUT || status == MUSTER_E_BUSY);
}

/* Looks at what a call returned: whether it did what it should. */
static bool did(struct scenario *s, const char *step, muster_status status)
{
    struct muster_error err = s->err;
    forget_error(s);
    if (status == MUSTER_OK) {
        if (err.status != UNTOUCHED)
            test_fail(__FILE__, __LINE__, "%s: %s went well and wrote an error: %s", s->label, step,
                      err.text);
        return true;
    }
    if (err.status != status || err.size != sizeof err || !*err.text)
        test_fail(__FILE__, __LINE__, "%s: %s failed with %s and wrote the error %s: \"%s\"",
                  s->label, step, muster_status_name(status), muster_status_name(err.status),
                  err.text);
    if (allows_always(step, status))
        return false;
    if (!s->allows(s, step, status))
        test_fail(__FILE__, __LINE__, "%s: %s failed with %s: %s", s->label, step,
                  muster_status_name(status), err.text);
    if (s->failures++ == 0)
        s->first_failure = status;
    return false;
}

/* What a kernel that was waited for has reported. */
static bool succeeded(struct scenario *s, const char *step, muster_status result)
{
    if (result != MUSTER_OK && !s->allows(s, step, result))
        test_fail(__FILE__, __LINE__, "%s: the result of %s is %s", s->label, step,
                  muster_status_name(result));
    return result == MUSTER_OK;
}

static muster_status multiply_add(uint64_t begin, uint64_t end, void *const *args)
{
    uint32_t *y = *(uint32_t *const *)args[0];
    const uint32_t *x = *(const uint32_t *const *)args[1];
    uint32_t factor = *(const uint32_t *)args[2];
    for (uint64_t i = begin; i < end; i++)
        y[i] += factor * x[i];
    return MUSTER_OK;
}

static void fill_items(uint32_t *items, uint32_t factor)
{
    for (uint32_t i = 0; i < ITEMS; i++)
        items[i] = i * factor;
}

/* Compares what was copied out; to be called only when every step towards it went well. */
static void verify(struct scenario *s, const char *what, const uint32_t *items, uint32_t factor)
{
    for (uint32_t i = 0; i < ITEMS; i++)
        if (items[i] != i * factor)
            test_fail(__FILE__, __LINE__, "%s: %s[%u] is %u, expected %u", s->label, what, i,
                      items[i], i * factor);
    s->verified++;
}

/* Operations that keep account of what is known. Each is left out where it lacks something. */

static void copy_in(struct usage *u, int stream, struct place *to, const uint32_t *from,
                    uint32_t factor)
{
    to->is_known = false;
    if (!to->is_out || !u->stream_is_out[stream])
        return;
    to->is_known =
        did(u->s, "muster_copy_in",
            muster_copy_in(u->s->m, u->streams[stream], to->block, 0, from, BYTES, &u->s->err));
    to->factor = factor;
}

static void clear(struct usage *u, int stream, struct place *to)
{
    to->is_known = false;
    if (!to->is_out || !u->stream_is_out[stream])
        return;
    to->is_known =
        did(u->s, "muster_fill",
            muster_fill(u->s->m, u->streams[stream], to->block, 0, 0, BYTES, &u->s->err));
    to->factor = 0;
}

static void copy(struct usage *u, int stream, struct place *to, const struct place *from)
{
    to->is_known = false;
    if (!to->is_out || !from->is_out || !u->stream_is_out[stream])
        return;
    bool is_done = did(
        u->s, "muster_copy",
        muster_copy(u->s->m, u->streams[stream], to->block, 0, from->block, 0, BYTES, &u->s->err));
    to->is_known = is_done && from->is_known;
    to->factor = from->factor;
}

/* to += factor x from */
static void launch(struct usage *u, int stream, struct place *to, const struct place *from,
                   uint32_t factor, muster_status *result)
{
    bool was_known = to->is_known;
    to->is_known = false;
    if (!to->is_out || !from->is_out || !u->stream_is_out[stream] || !u->kernel)
        return;
    const struct muster_operand args[] = { MUSTER_BLOCK_UPDATE(to->block),
                                           MUSTER_BLOCK_READ(from->block), MUSTER_SCALAR(factor) };
    bool is_done = did(u->s, "muster_launch",
                       muster_launch(u->s->m, u->streams[stream], u->kernel, 0, ITEMS, args, 3,
                                     result, &u->s->err));
    to->is_known = is_done && was_known && from->is_known;
    to->factor += factor * from->factor;
}

static bool copy_out(struct usage *u, muster_stream stream, bool stream_is_out, uint32_t *to,
                     const struct place *from)
{
    if (!from->is_out || !stream_is_out)
        return false;
    return did(u->s, "muster_copy_out",
               muster_copy_out(u->s->m, stream, to, from->block, 0, BYTES, &u->s->err)) &&
           from->is_known;
}

static bool wait(struct usage *u, muster_stream stream, bool stream_is_out)
{
    return stream_is_out && did(u->s, "muster_stream_wait",
                                muster_stream_wait(u->s->m, stream, LONG_NS, &u->s->err));
}

/* What was taken is given back; what is refused is tried once more and then left to close. */

static void free_place(struct usage *u, muster_stream stream, struct place *place)
{
    for (int tries = 0; place->is_out && tries < 2; tries++) {
        muster_status status = muster_block_free(u->s->m, stream, place->block, &u->s->err);
        if (place->is_held && status == MUSTER_E_BUSY) {
            forget_error(u->s);
            break;
        }
        place->is_out = !did(u->s, "muster_block_free", status);
    }
    u->left_something = u->left_something || place->is_out;
}

static void release_stream(struct usage *u, int stream)
{
    if (!u->stream_is_out[stream])
        return;
    muster_status status = muster_stream_release(u->s->m, u->streams[stream], &u->s->err);
    if (u->stream_is_held[stream] && status == MUSTER_E_BUSY)
        forget_error(u->s);
    else
        u->stream_is_out[stream] = !did(u->s, "muster_stream_release", status);
    u->left_something = u->left_something || u->stream_is_out[stream];
}

/* Whether all work of the device is over, well or not. */
static bool settle(struct usage *u)
{
    bool is_over = true;
    for (int i = 0; i <= STREAMS; i++) {
        bool is_out = i < STREAMS ? u->stream_is_out[i] : u->standard_is_out;
        if (!is_out)
            continue;
        muster_stream stream = i < STREAMS ? u->streams[i] : u->standard;
        muster_status status = MUSTER_E_BUSY;
        for (int tries = 0; tries < 2 && muster_status_discards(status) == MUSTER_DISCARD_REQUEST;
             tries++) {
            status = muster_stream_wait(u->s->m, stream, LONG_NS, &u->s->err);
            did(u->s, "muster_stream_wait", status);
        }
        is_over = is_over &&
                  (status == MUSTER_OK || muster_status_discards(status) >= MUSTER_DISCARD_STREAM);
    }
    return is_over;
}

static void give_back(struct usage *u)
{
    struct scenario *s = u->s;
    bool is_over = settle(u);
    if (is_over) {
        muster_kernel_destroy(u->kernel);
        if (u->small)
            did(s, "muster_host_free", muster_host_free(s->m, u->small, &s->err));
        if (u->large)
            did(s, "muster_host_free", muster_host_free(s->m, u->large, &s->err));
    }
    u->left_something = u->left_something || !is_over;
    for (int i = 0; i < STREAMS && u->source.is_out; i++)
        if (u->stream_is_out[i])
            free_place(u, u->streams[i], &u->source);
    for (int i = 0; i < BLOCKS; i++)
        for (int stream = 0; stream < STREAMS && u->many[i].is_out; stream++)
            if (u->stream_is_out[stream])
                free_place(u, u->streams[stream], &u->many[i]);
    u->left_something = !settle(u) || u->left_something;
    for (int i = 0; i < STREAMS; i++)
        release_stream(u, i);
}

static void take(struct usage *u, bool is_whole)
{
    struct scenario *s = u->s;
    bool has_priorities = u->info.capabilities & MUSTER_CAN_PRIORITIES;
    for (int i = 0; i < STREAMS; i++)
        u->stream_is_out[i] =
            did(s, "muster_stream_acquire",
                muster_stream_acquire(s->m, u->device,
                                      i == 0 && has_priorities ? u->info.priority_greatest : 0,
                                      &u->streams[i], &s->err));
    if (is_whole)
        u->standard_is_out = did(s, "muster_stream_default",
                                 muster_stream_default(s->m, u->device, &u->standard, &s->err));
    uint64_t sizes[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        sizes[i] = i < BLOCKS - 1 ? BYTES : LARGE_BYTES;
    size_t count = is_whole ? BLOCKS : 2;
    did(s, "muster_block_estimate", muster_block_estimate(s->m, u->device, sizes, count, &s->err));
    muster_block blocks[BLOCKS];
    if (u->stream_is_out[0])
        u->source.is_out =
            did(s, "muster_block_allocate",
                muster_block_allocate(s->m, u->streams[0], BYTES, &u->source.block, &s->err));
    if (u->stream_is_out[1] && did(s, "muster_block_allocate_many",
                                   muster_block_allocate_many(s->m, u->streams[1], sizes, count,
                                                              SHORT_NS, blocks, &s->err)))
        for (size_t i = 0; i < count; i++)
            u->many[i] = (struct place){ .block = blocks[i], .is_out = true };
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = multiply_add };
    if (!did(s, "muster_kernel_from",
             muster_kernel_from(s->m, "multiply-add", &form, 1, &u->kernel, &s->err)))
        u->kernel = NULL;
    if (is_whole && !did(s, "muster_host_allocate",
                         muster_host_allocate(s->m, u->device, 200, &u->small, &s->err)))
        u->small = NULL;
    if (!did(s, "muster_host_allocate",
             muster_host_allocate(s->m, u->device, LARGE_BYTES, &u->large, &s->err)))
        u->large = NULL;
}

/* Between blocks on several streams, so that each step must wait for another stream's. */
static void compute(struct usage *u)
{
    struct scenario *s = u->s;
    struct place *sum = &u->many[0], *twin = &u->many[1];
    fill_items(u->buffers->input, 1);
    const uint32_t *from = u->buffers->input;
    if (u->large) {
        memcpy(u->large, u->buffers->input, BYTES);
        from = u->large;
    }
    copy_in(u, 0, &u->source, from, 1);
    clear(u, 2, sum);
    copy(u, 1, twin, &u->source);
    launch(u, 2, sum, twin, 2, &u->buffers->result);
    launch(u, 0, &u->source, twin, 3, NULL);
    bool sum_is_given = copy_out(u, u->streams[1], u->stream_is_out[1], u->buffers->sum, sum);
    bool product_is_given =
        copy_out(u, u->standard, u->standard_is_out, u->buffers->product, &u->source);
    for (int i = 0; i < STREAMS; i++)
        if (u->stream_is_out[i])
            did(s, "a glance", muster_stream_wait(s->m, u->streams[i], i * SHORT_NS, &s->err));
    if (wait(u, u->streams[1], u->stream_is_out[1]) && sum_is_given &&
        wait(u, u->streams[2], u->stream_is_out[2]) && succeeded(s, "the sum", u->buffers->result))
        verify(s, "sum", u->buffers->sum, 2);
    if (wait(u, u->standard, u->standard_is_out) && product_is_given)
        verify(s, "product", u->buffers->product, 4);
}

/* As around work that was enqueued on the vendor's own stream. */
static void use_by_hand(struct usage *u)
{
    struct scenario *s = u->s;
    if (!u->stream_is_out[0] || !u->many[2].is_out || !u->many[3].is_out)
        return;
    const struct muster_use uses[] = { { sizeof *uses, u->many[2].block, MUSTER_WRITES },
                                       { sizeof *uses, u->many[3].block, MUSTER_READS } };
    void *native;
    did(s, "muster_stream_native", muster_stream_native(s->m, u->streams[0], &native, &s->err));
    if (!did(s, "muster_block_begin", muster_block_begin(s->m, u->streams[0], uses, 2, &s->err)))
        return;
    muster_status status = MUSTER_E_BUSY;
    for (int tries = 0; tries < 2 && muster_status_discards(status) == MUSTER_DISCARD_REQUEST;
         tries++) {
        status = muster_block_end(s->m, u->streams[0], uses, 2, &s->err);
        did(s, "muster_block_end", status);
    }
    /* A device that is gone holds nothing any more; all else can be ended later, or not at all. */
    bool is_held = muster_status_discards(status) == MUSTER_DISCARD_REQUEST;
    u->many[2].is_held = u->many[3].is_held = u->stream_is_held[0] = is_held;
}

static void look_up(struct usage *u, muster_data data, int stream, struct place *to,
                    uint32_t factor, muster_status *result)
{
    struct scenario *s = u->s;
    struct place table = { .is_known = true, .factor = factor };
    if (!u->stream_is_out[stream]) {
        to->is_known = false;
        return;
    }
    table.is_out = did(s, "muster_data_resident",
                       muster_data_resident(s->m, data, u->streams[stream], &table.block, &s->err));
    launch(u, (stream + 1) % STREAMS, to, &table, 1, result);
}

/* Data that is read where it is resident, changed, and read again. */
static void use_data(struct usage *u)
{
    struct scenario *s = u->s;
    struct place *to = &u->many[2];
    muster_data data;
    fill_items(u->buffers->table, 7);
    if (!did(s, "muster_data_create",
             muster_data_create(s->m, u->buffers->table, BYTES, 0, &data, &s->err)))
        return;
    if (!to->is_held) {
        clear(u, 0, to);
        look_up(u, data, 0, to, 7, &u->buffers->table_result);
        look_up(u, data, 1, to, 7, NULL);
        bool is_given = copy_out(u, u->streams[2], u->stream_is_out[2], u->buffers->looked_up, to);
        if (wait(u, u->streams[2], u->stream_is_out[2]) && is_given &&
            wait(u, u->streams[1], u->stream_is_out[1]) &&
            succeeded(s, "the look-up", u->buffers->table_result))
            verify(s, "looked_up", u->buffers->looked_up, 14);
        /* Only what nobody reads any more may be changed. */
        if (settle(u)) {
            fill_items(u->buffers->table, 9);
            if (did(s, "muster_data_invalidate", muster_data_invalidate(s->m, data, &s->err))) {
                look_up(u, data, 2, to, 9, NULL);
                is_given = copy_out(u, u->streams[1], u->stream_is_out[1],
                                    u->buffers->looked_up_again, to);
                if (wait(u, u->streams[1], u->stream_is_out[1]) && is_given)
                    verify(s, "looked_up_again", u->buffers->looked_up_again, 23);
            }
        }
    }
    for (int tries = 0; tries < 2; tries++)
        if (did(s, "muster_data_destroy", muster_data_destroy(s->m, data, &s->err)))
            return;
    u->left_something = true;
}

/* Memory that Muster did not allocate, on devices that can use the process's. */
static void use_foreign(struct usage *u)
{
    struct scenario *s = u->s;
    struct place foreign = { .is_known = true };
    if (!(u->info.capabilities & MUSTER_CAN_USE_HOST_MEMORY))
        return;
    foreign.is_out = did(s, "muster_block_declare",
                         muster_block_declare(s->m, u->device, (uintptr_t)u->buffers->foreign, NULL,
                                              BYTES, &foreign.block, &s->err));
    copy_in(u, 2, &foreign, u->buffers->input, 1);
    if (wait(u, u->streams[2], u->stream_is_out[2]) && foreign.is_known)
        verify(s, "foreign", u->buffers->foreign, 1);
    if (u->stream_is_out[2])
        free_place(u, u->streams[2], &foreign);
}

static void look_around(struct usage *u)
{
    struct scenario *s = u->s;
    struct muster_device_load load = { .size = sizeof load };
    did(s, "muster_device_load", muster_device_load(s->m, u->device, &load, &s->err));
    struct muster_stream_info stream = { .size = sizeof stream };
    struct muster_block_info block = { .size = sizeof block };
    if (u->stream_is_out[0]) {
        did(s, "muster_stream_resolve",
            muster_stream_resolve(s->m, u->streams[0], &stream, &s->err));
        did(s, "a glance", muster_stream_query(s->m, u->streams[0], &s->err));
    }
    if (u->source.is_out)
        did(s, "muster_block_info", muster_block_info(s->m, u->source.block, &block, &s->err));
}

/* Uses one device; whether it left nothing behind. */
static bool use_device(struct scenario *s, muster_device device, bool is_whole)
{
    CHECK(s->buffers_count < SCENARIO_DEVICES);
    struct usage usage = { .s = s, .device = device, .info = { .size = sizeof usage.info } };
    usage.buffers = s->buffers[s->buffers_count++] = calloc(1, sizeof *usage.buffers);
    CHECK(usage.buffers);
    if (!did(s, "muster_device_info", muster_device_info(s->m, device, &usage.info, &s->err)))
        return true;
    look_around(&usage);
    take(&usage, is_whole);
    compute(&usage);
    if (is_whole) {
        use_by_hand(&usage);
        use_data(&usage);
        use_foreign(&usage);
        look_around(&usage);
    }
    give_back(&usage);
    return !usage.left_something;
}

static void use_parts(struct scenario *s, muster_device device)
{
    static const uint32_t sizes[] = { 1, 2 };
    muster_device slices[2];
    bool is_clean = use_device(s, device, false);
    muster_status status = muster_device_slice(s->m, device, sizes, 2, slices, &s->err);
    if (!is_clean && status == MUSTER_E_BUSY) {
        forget_error(s);
        return;
    }
    if (!did(s, "muster_device_slice", status))
        return;
    for (int i = 0; i < 2; i++)
        use_device(s, slices[i], false);
}

static void use_runtime(struct scenario *s)
{
    struct muster_backend_report reports[8];
    muster_device devices[SCENARIO_DEVICES];
    size_t count = 0;
    for (size_t i = 0; i < 8; i++)
        reports[i] = (struct muster_backend_report){ .size = sizeof reports[i] };
    did(s, "muster_backend_list", muster_backend_list(s->m, reports, 8, &count, &s->err));
    for (size_t i = 0; i < count; i++)
        CHECK(reports[i].error.status == MUSTER_OK || *reports[i].error.text);
    /* Once more, as a user does to whom the machine was short of memory for a moment. */
    bool is_listed = false;
    for (int tries = 0; tries < 2 && !is_listed; tries++)
        is_listed = did(s, "muster_device_list",
                        muster_device_list(s->m, devices, SCENARIO_DEVICES, &count, &s->err));
    for (size_t i = 0; i < count && is_listed; i++) {
        struct muster_device_info info = { .size = sizeof info };
        if (!did(s, "muster_device_info", muster_device_info(s->m, devices[i], &info, &s->err)))
            continue;
        muster_device found;
        did(s, "muster_device_find", muster_device_find(s->m, info.id, &found, &s->err));
        if (info.capabilities & MUSTER_CAN_SLICE)
            use_parts(s, devices[i]);
        else
            use_device(s, devices[i], true);
    }
}

void scenario_run(struct scenario *s)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.allocator = s->allocator;
    options.devices = s->devices;
    options.sim = s->sim;
    options.backends = &s->backend;
    options.backend_count = s->backend ? 1 : 0;
    options.streams_max = STREAMS + 1;
    options.cpu_workers = 2;
    options.poll_ns = LONG_NS * 100; /* so that each device is asked once, at the same place */
    forget_error(s);
    s->was_opened = did(s, "muster_open", muster_open(&s->m, &options, &s->err));
    if (!s->was_opened)
        return;
    use_runtime(s);
    s->close_status = muster_close(s->m, &s->close_error);
    s->m = NULL;
    if (s->close_status != MUSTER_OK)
        CHECK_EQUAL(s->close_status, s->close_error.status);
}

void scenario_deinit(struct scenario *s)
{
    while (s->buffers_count > 0)
        free(s->buffers[--s->buffers_count]);
}
