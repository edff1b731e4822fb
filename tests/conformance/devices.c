/*
 * Backends and devices: opening, closing, what they say about themselves, slices.
 */
#include "suite.h"

#include <string.h>

#define KNOWN_CAPABILITIES                                                                         \
    (MUSTER_CAN_WAIT_VALUE | MUSTER_CAN_STREAM_MEMORY | MUSTER_CAN_GRAPHS | MUSTER_CAN_SLICE |     \
     MUSTER_CAN_PRIORITIES | MUSTER_CAN_USE_HOST_MEMORY | MUSTER_CAN_RUN_IN_PIECES |               \
     MUSTER_CAN_DOUBLE | MUSTER_CAN_USE_SHARED_MEMORY)

static void it_opens_and_closes_again_and_again(void)
{
    for (int i = 0; i < 10; i++) {
        struct rig *rig = suite_open();
        if (i % 2 == 1) {
            void *stream = rig_stream(rig);
            rig_fill(rig, stream, rig_memory(rig, 1000), 0, 1, 1000);
        }
        rig_close(rig);
    }
}

static void two_may_be_open_at_once(void)
{
    struct rig *rigs[2] = { suite_open(), suite_open() };
    for (int i = 0; i < 2; i++) {
        struct rig *rig = rigs[i];
        void *stream = rig_stream(rig);
        struct muster_memory *memory = rig_memory(rig, 64);
        unsigned char *host = rig_host(rig, 64);
        rig_fill(rig, stream, memory, 0, (uint8_t)(i + 1), 64);
        rig_copy_out(rig, stream, host, memory, 0, 64);
        FINISHES(rig, stream);
        CHECK_EQUAL(i + 1, host[63]);
    }
    rig_close(rigs[0]);
    rig_close(rigs[1]);
}

static void what_a_device_says_of_itself_is_sane(void)
{
    struct rig *rig = suite_open();
    for (uint32_t i = 0; i < rig->device_count && i < RIG_DEVICES_MAX; i++) {
        const struct muster_device_info *info = &rig->devices[i].info;
        size_t length = strnlen(info->name, sizeof info->name);
        CHECK(length > 0 && length < sizeof info->name);
        CHECK(strnlen(info->pci, sizeof info->pci) < sizeof info->pci);
        CHECK(info->domain < rig->domain_count);
        CHECK(info->cores > 0);
        CHECK(info->memory_total > 0);
        CHECK(info->numa_node >= -1);
        CHECK(info->weight > 0 && info->weight < 1e9);
        CHECK_EQUAL(0, info->capabilities & ~(uint32_t)KNOWN_CAPABILITIES);
        CHECK(info->priority_greatest <= info->priority_least);
        if (!(info->capabilities & MUSTER_CAN_PRIORITIES))
            CHECK(info->priority_greatest == 0 && info->priority_least == 0);
        /* Named by the runtime, not by the backend. */
        CHECK_TEXT("", info->id);
        CHECK_TEXT("", info->backend);
        CHECK_TEXT("", info->parent);
        CHECK_EQUAL(0, info->streams_max);
    }
    rig_close(rig);
}

static void a_sample_is_sane(void)
{
    struct rig *rig = suite_open();
    for (int i = 0; i < 3; i++) {
        struct muster_device_sample sample = { .utilisation = -1, .temperature_c = -300 };
        DO(rig, device_sample, rig->device, &sample);
        CHECK(sample.memory_total > 0);
        CHECK(sample.memory_free <= sample.memory_total);
        CHECK(sample.utilisation <= 1);
        CHECK(sample.temperature_c < 200);
        rig_memory(rig, 1 << 20);
    }
    rig_close(rig);
}

/* Opens the whole device as one slice, works on it, and puts it together again. */
static void use_one_slice(struct rig *rig)
{
    const uint32_t size = rig->info->cores;
    DO(rig, slice_plan, rig->device, &size, 1);
    void *slice = rig_state(rig->table.device_bytes);
    struct muster_device_info info = { .size = sizeof info, .numa_node = -1 };
    DO(rig, slice_open, rig->device, 0, slice, &info);
    CHECK_EQUAL(size, info.cores);
    CHECK_EQUAL(rig->info->domain, info.domain);
    void *stream = rig_stream_on(rig, slice, 0, false);
    void *event = rig_event_on(rig, slice, MUSTER_EVENT_ORDER);
    struct muster_memory *memory = rig_memory_on(rig, slice, 100);
    unsigned char *host = rig_host(rig, 100);
    rig_fill(rig, stream, memory, 0, 7, 100);
    rig_copy_out(rig, stream, host, memory, 0, 100);
    DO(rig, event_record, event, stream);
    COMPLETES(rig, MUSTER_OK, event);
    CHECK_EQUAL(7, host[99]);
    rig_memory_free(rig, NULL, memory);
    rig_event_deinit(rig, event);
    rig_stream_close(rig, stream);
    CHECK_STATUS(MUSTER_OK, rig->table.device_close(slice));
    rig_state_free(slice);
    rig->table.slice_unplan(rig->device);
}

static void slices_are_cut_or_refused(void)
{
    struct rig *rig = suite_open();
    const uint32_t one = 1;
    if (!(rig->info->capabilities & MUSTER_CAN_SLICE)) {
        REFUSED(rig, MUSTER_E_NOT_SUPPORTED, slice_plan, rig->device, &one, 1);
        rig_close(rig);
        return;
    }
    const uint32_t too_many[] = { rig->info->cores, rig->info->cores };
    REFUSED(rig, MUSTER_E_TOO_LARGE, slice_plan, rig->device, too_many, 2);
    use_one_slice(rig);
    use_one_slice(rig);
    rig_close(rig);
}

static const struct test tests[] = {
    TEST(it_opens_and_closes_again_and_again),
    TEST(two_may_be_open_at_once),
    TEST(what_a_device_says_of_itself_is_sane),
    TEST(a_sample_is_sane),
    TEST(slices_are_cut_or_refused),
};
SUITE_PART(devices);
