/*
 * The kernel on every device, over the same data: the bits must be those of the items one by one.
 */
#include "probe_arrays.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES_MAX 64

/* What a device holds of the arrays. */
struct resident {
    muster_block blocks[MUSTER_ARGS_MAX];
    struct muster_operand operands[MUSTER_ARGS_MAX];
};

static muster_status give_arrays(struct probe *probe, struct muster *m, muster_stream stream,
                                 struct resident *resident, struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    for (size_t i = 0; i < probe->count && status == MUSTER_OK; i++) {
        struct probe_array *array = &probe->arrays[i];
        struct muster_operand *operand = &resident->operands[i];
        *operand = (struct muster_operand){ .size = sizeof *operand,
                                            .value = probe->values[i],
                                            .bytes = probe->value_bytes[i] };
        if (!probe->is_block[i])
            continue;
        /* A block has at least one byte, and an offset before its end. */
        size_t bytes = array->room_bytes + array->bytes;
        status = muster_block_allocate(m, stream, bytes, &resident->blocks[i], err);
        if (status == MUSTER_OK && array->room_bytes > 0)
            status = muster_copy_in(m, stream, resident->blocks[i], 0, array->room,
                                    array->room_bytes, err);
        *operand = (struct muster_operand){ .size = sizeof *operand,
                                            .block = resident->blocks[i],
                                            .access = array->is_const   ? MUSTER_READS
                                                      : array->is_inout ? MUSTER_READS_WRITES
                                                                        : MUSTER_WRITES,
                                            .offset = (uint64_t)(array->base - array->room) };
    }
    return status;
}

static muster_status run_on(struct probe *probe, struct muster *m, muster_stream stream,
                            struct muster_kernel *kernel, struct resident *resident,
                            struct muster_error *err)
{
    uint64_t half = probe->items / 2;
    muster_status status = give_arrays(probe, m, stream, resident, err);
    if (status == MUSTER_OK)
        status = muster_launch(m, stream, kernel, half, probe->items - half, resident->operands,
                               probe->count, NULL, err);
    if (status == MUSTER_OK)
        status =
            muster_launch(m, stream, kernel, 0, half, resident->operands, probe->count, NULL, err);
    for (size_t i = 0; i < probe->count && status == MUSTER_OK; i++)
        if (probe->is_block[i] && !probe->arrays[i].is_const)
            status = muster_copy_out(m, stream, probe->arrays[i].room, resident->blocks[i], 0,
                                     probe->arrays[i].room_bytes, err);
    if (status == MUSTER_OK)
        status = muster_stream_wait(m, stream, UINT64_MAX, err);
    return status;
}

/* The bits, but that all NaNs are equal. */
static bool is_same(const struct probe_array *array, const unsigned char *one,
                    const unsigned char *other)
{
    if (memcmp(one, other, array->bytes) == 0)
        return true;
    float singles[2];
    double doubles[2];
    if (array->type == PROBE_FLOAT) {
        memcpy(&singles[0], one, sizeof *singles);
        memcpy(&singles[1], other, sizeof *singles);
        return isnan(singles[0]) && isnan(singles[1]);
    }
    memcpy(&doubles[0], one, array->type == PROBE_DOUBLE ? sizeof *doubles : 0);
    memcpy(&doubles[1], other, array->type == PROBE_DOUBLE ? sizeof *doubles : 0);
    return array->type == PROBE_DOUBLE && isnan(doubles[0]) && isnan(doubles[1]);
}

/* What lies between the fields of a partial is nobody's. */
static bool has_same_fields(const struct probe *probe, const unsigned char *one,
                            const unsigned char *other)
{
    for (size_t i = 0; i < probe->partial_bytes; i++)
        if (probe->fields[i] && one[i] != other[i])
            return false;
    return true;
}

static void show(const struct probe_array *array, const unsigned char *at, char *text, size_t room)
{
    float single;
    double real;
    uint64_t bits = 0;
    memcpy(&bits, at, array->bytes < sizeof bits ? array->bytes : sizeof bits);
    if (array->type == PROBE_FLOAT) {
        memcpy(&single, at, sizeof single);
        snprintf(text, room, "%.9g", (double)single);
    } else if (array->type == PROBE_DOUBLE) {
        memcpy(&real, at, sizeof real);
        snprintf(text, room, "%.17g", real);
    } else {
        snprintf(text, room, "0x%llx", (unsigned long long)bits);
    }
}

static void compare(struct probe *probe, const char *id)
{
    for (size_t i = 0; i < probe->count; i++) {
        const struct probe_array *array = &probe->arrays[i];
        if (!probe->is_block[i] || array->is_const)
            continue;
        for (size_t at = 0; at + array->bytes <= array->room_bytes; at += array->bytes) {
            char here[40], there[40];
            bool is_partial = probe->fields && i + 1 == probe->count;
            if (is_same(array, array->room + at, array->kept + at) ||
                (is_partial && has_same_fields(probe, array->room + at, array->kept + at)))
                continue;
            int64_t element = (int64_t)(at / array->bytes);
            show(array, array->room + at, there, sizeof there);
            show(array, array->kept + at, here, sizeof here);
            probe_find(probe->report, PROBE_DEVICES, array->name,
                       element / (int64_t)array->per_item, element,
                       "look for #if, for types whose size differs (long), and for variables that "
                       "are not set",
                       "%s gives %s for element %lld of %s, and the items one by one on the CPU %s",
                       id, there, (long long)element, array->name, here);
            break;
        }
    }
}

static void check_device(struct probe *probe, struct muster *m, struct muster_kernel *kernel,
                         muster_device device, const char *id)
{
    struct probe_report *report = probe->report;
    struct muster_error error = { .size = sizeof error };
    struct resident resident;
    muster_stream stream;
    memset(&resident, 0, sizeof resident);
    probe_doing(probe, "kernel %s on %s", probe->entry, id);
    probe_arrays_reset(probe, PROBE_ONE);
    atomic_store_explicit(&report->is_compiling, true, memory_order_relaxed);
    muster_status status = muster_stream_acquire(m, device, 0, &stream, &error);
    bool has_stream = status == MUSTER_OK;
    if (has_stream)
        status = run_on(probe, m, stream, kernel, &resident, &error);
    probe_doing(probe, "comparing what %s gives", id);
    atomic_store_explicit(&report->is_compiling, false, memory_order_release);
    struct probe_device *told = &report->devices[report->device_count++];
    *told = (struct probe_device){ .status = status };
    snprintf(told->id, sizeof told->id, "%s", id);
    if (status == MUSTER_OK) {
        compare(probe, id);
    } else {
        snprintf(told->why, sizeof told->why, "%s", error.text);
        if (status != MUSTER_E_NOT_SUPPORTED)
            probe_find(report, status == MUSTER_E_CRASHED ? PROBE_CRASH : PROBE_REFUSED, "", -1, -1,
                       error.fix, "%s: %s", id, error.text);
    }
    for (size_t i = 0; i < probe->count && has_stream; i++)
        if (resident.blocks[i].generation != 0)
            muster_block_free(m, stream, resident.blocks[i], NULL);
    if (has_stream)
        muster_stream_release(m, stream, NULL);
}

void probe_devices(struct probe *probe, struct muster *m, struct muster_kernel *kernel)
{
    muster_device devices[DEVICES_MAX];
    size_t count = 0;
    if (muster_device_list(m, devices, DEVICES_MAX, &count, NULL) != MUSTER_OK)
        return;
    for (size_t i = 0; i < count && probe->report->device_count < PROBE_DEVICES_MAX; i++) {
        struct muster_device_info info = { .size = sizeof info };
        if (muster_device_info(m, devices[i], &info, NULL) == MUSTER_OK &&
            strcmp(info.backend, "sim") != 0)
            check_device(probe, m, kernel, devices[i], info.id);
    }
}
