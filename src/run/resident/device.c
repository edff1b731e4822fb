/*
 * Seats that are the blocks of one kernel, which stays on a GPU: kernel/resident_kernel.cu, generated for the
 * lane's kernels. It runs on a stream of its own, on a slice where the driver can cut one.
 */
#include "run/device/device.h"
#include "base/allocator.h"
#include "kernel/resident.h"
#include "run/memory/kernel.h"
#include "run/memory/memory.h"
#include "run/resident/resident.h"

#include <string.h>

/* What seats share in the device's memory: struct muster_wide of resident_kernel.cu, and room. */
#define SHARED_BYTES 1024u
/* How long a kernel that should have left is waited for at the end, and how often it is asked. */
#define END_NS 300000000u
#define END_LOOK_NS 1000000u

struct resident_seats {
    struct kernel_image image; /* owns */
    void *kernel, *stream;     /* own: the backend's states */
    bool has_kernel, has_stream, has_shared;
    struct muster_memory shared;
};

static const struct muster_backend *table_of(const struct muster_resident *lane)
{
    return &lane->device->backend->table;
}

static void say_line(void *user, enum muster_log_level level, const char *line)
{
    run_log(user, level, "a resident lane: %s", line);
}

static muster_status build(struct muster_resident *lane, struct muster_error *err)
{
    const struct muster_kernel_form *forms[RESIDENT_OPCODES_MAX];
    const struct muster_device_info *info = &lane->device->info;
    const struct kernel_target target = { info->forms,
                                          { info->compute[0], info->compute[1] },
                                          false };
    const struct kernel_log log = { say_line, lane->m };
    struct resident_seats *seats = lane->seats;
    for (uint32_t i = 0; i < lane->kernel_count; i++) {
        forms[i] = kernel_portable_form(lane->kernels[i]);
        if (!forms[i])
            return muster_error_fill(
                err, MUSTER_E_NOT_SUPPORTED, 0, "give it in the portable form",
                "the kernel %s has no portable form, which a lane of %s is made of",
                kernel_name(lane->kernels[i]), info->id);
    }
    muster_status status =
        kernel_resident_build(forms, lane->kernel_count, lane->options.threads, &target,
                              &lane->m->allocator, &log, &seats->image, err);
    if (status != MUSTER_OK)
        return status;
    status =
        table_of(lane)->kernel_init(lane->device->state, &seats->image.form, seats->kernel, err);
    seats->has_kernel = status == MUSTER_OK;
    return status;
}

/* On a slice of its own; on what is a slice already, on all of it; else on the whole device. */
static muster_status open_stream(struct muster_resident *lane, struct muster_error *err)
{
    const struct muster_backend *table = table_of(lane);
    struct resident_seats *seats = lane->seats;
    struct muster_error problem = { .size = sizeof problem };
    uint32_t cores = lane->options.cores, has = lane->device->info.cores;
    muster_status status =
        table->stream_open_apart(lane->device->state, &cores, seats->stream, &problem);
    if (status == MUSTER_E_NOT_SUPPORTED) {
        cores = lane->device->parent ? has : 1;
        status = table->stream_open(lane->device->state, 0, 0, seats->stream, &problem);
    }
    seats->has_stream = status == MUSTER_OK;
    if (status != MUSTER_OK) {
        if (err)
            *err = problem;
        return status;
    }
    uint32_t wanted = lane->options.cores > 0 ? lane->options.cores : cores;
    lane->seat_count = wanted < RESIDENT_SEATS_MAX ? wanted : RESIDENT_SEATS_MAX;
    return status;
}

static muster_status make_shared(struct muster_resident *lane, struct muster_error *err)
{
    const struct muster_backend *table = table_of(lane);
    struct resident_seats *seats = lane->seats;
    muster_status status = table->memory_allocate(lane->device->state, seats->stream, SHARED_BYTES,
                                                  &seats->shared, err);
    seats->has_shared = status == MUSTER_OK;
    const struct muster_place all = { .memory = &seats->shared };
    return status == MUSTER_OK ? table->fill(seats->stream, &all, 0, SHARED_BYTES, err) : status;
}

static void free_seats(struct muster_resident *lane)
{
    const struct muster_backend *table = table_of(lane);
    const struct muster_allocator *allocator = &lane->m->allocator;
    struct resident_seats *seats = lane->seats;
    if (seats->has_shared)
        table->memory_free(lane->device->state, seats->stream, &seats->shared, NULL);
    if (seats->has_stream)
        table->stream_close(seats->stream);
    if (seats->has_kernel)
        table->kernel_deinit(seats->kernel);
    kernel_image_release(&seats->image, allocator);
    allocator_give(allocator, seats->stream, table->stream_bytes, 1);
    allocator_give(allocator, seats->kernel, table->kernel_bytes, 1);
    allocator_give(allocator, seats, 1, sizeof *seats);
    lane->seats = NULL;
}

static muster_status make(struct muster_resident *lane, struct muster_error *err)
{
    const struct muster_allocator *allocator = &lane->m->allocator;
    struct resident_seats *seats = allocator_take(allocator, 1, sizeof *seats);
    if (!seats)
        return run_no_memory(err, "a resident lane");
    lane->seats = seats;
    seats->kernel = allocator_take(allocator, table_of(lane)->kernel_bytes, 1);
    seats->stream = allocator_take(allocator, table_of(lane)->stream_bytes, 1);
    muster_status status =
        seats->kernel && seats->stream ? MUSTER_OK : run_no_memory(err, "a lane");
    if (status == MUSTER_OK)
        status = build(lane, err);
    if (status == MUSTER_OK)
        status = open_stream(lane, err);
    if (status == MUSTER_OK)
        status = make_shared(lane, err);
    if (status != MUSTER_OK) {
        run_error_device(err, lane->device);
        free_seats(lane);
    }
    return status;
}

static muster_status start(struct muster_resident *lane, struct muster_error *err)
{
    struct resident_seats *seats = lane->seats;
    /* Registered memory has one address for both sides. */
    uint64_t memory = (uintptr_t)lane->memory, run = lane->run, entries = lane->options.entries;
    uint64_t at[] = { (uint64_t)((char *)lane->signs - (char *)lane->memory),
                      (uint64_t)((char *)lane->headers - (char *)lane->memory),
                      (uint64_t)((char *)lane->ends - (char *)lane->memory),
                      (uint64_t)(lane->bodies - (char *)lane->memory) };
    const struct muster_launch_arg args[] = {
        { .value = &memory, .bytes = sizeof memory },
        { .memory = &seats->shared },
        { .value = &run, .bytes = sizeof run },
        { .value = &entries, .bytes = sizeof entries },
        { .value = &at[0], .bytes = sizeof *at },
        { .value = &at[1], .bytes = sizeof *at },
        { .value = &at[2], .bytes = sizeof *at },
        { .value = &at[3], .bytes = sizeof *at },
    };
    const struct muster_launch_desc launch = {
        .items = (uint64_t)lane->seat_count * lane->options.threads,
        .args = args,
        .arg_count = sizeof args / sizeof *args,
    };
    return device_note(lane->device,
                       table_of(lane)->launch(seats->stream, seats->kernel, &launch, 1, err), err);
}

static muster_status query(struct muster_resident *lane, struct muster_error *err)
{
    return table_of(lane)->stream_query(lane->seats->stream, err);
}

/* The device looks by itself. */
static void ring(struct muster_resident *lane, uint32_t seat)
{
    (void)lane, (void)seat;
}

static bool end(struct muster_resident *lane)
{
    uint64_t deadline_ns = platform_deadline_ns(END_NS);
    muster_status status = query(lane, NULL);
    while (!run_is_over(status) && platform_clock_ns() < deadline_ns) {
        platform_mutex_lock(&lane->lock);
        platform_condition_wait(&lane->changed, &lane->lock, platform_deadline_ns(END_LOOK_NS));
        platform_mutex_unlock(&lane->lock);
        status = query(lane, NULL);
    }
    if (!run_is_over(status))
        return false;
    free_seats(lane);
    return true;
}

const struct resident_kind_of_seats resident_device = { make, start, query, ring, end };
