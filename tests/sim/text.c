#include "storm.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct writer {
    char *text;
    size_t at;
};

__attribute__((format(printf, 2, 3))) static void put(struct writer *writer, const char *format,
                                                      ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length =
        vsnprintf(writer->text + writer->at, STORM_TEXT_MAX - writer->at, format, arguments);
    va_end(arguments);
    writer->at += (size_t)length;
    if (writer->at >= STORM_TEXT_MAX)
        abort();
}

static void put_ms(struct writer *writer, const char *key, uint64_t ns)
{
    put(writer, ",\"%s\":%" PRIu64 ".%06" PRIu64, key, ns / 1000000, ns % 1000000);
}

static void put_fault(struct writer *writer, const struct model_fault *fault)
{
    static const char *const kinds[] = { [MODEL_FAULT_SLOW] = "slow",
                                         [MODEL_FAULT_LOST] = "lost",
                                         [MODEL_FAULT_UNIT_ERROR] = "unit_error",
                                         [MODEL_FAULT_HANG] = "hang",
                                         [MODEL_FAULT_MEMORY] = "memory" };
    put(writer, "{\"kind\":\"%s\"", kinds[fault->kind]);
    if (fault->at_launch > 0)
        put(writer, ",\"at_launch\":%" PRIu64, fault->at_launch);
    else
        put_ms(writer, "at_ms", fault->at_ns);
    if (fault->for_ns > 0)
        put_ms(writer, "for_ms", fault->for_ns);
    if (fault->kind == MODEL_FAULT_SLOW)
        put(writer, ",\"factor\":%.17g", fault->factor);
    if (fault->kind == MODEL_FAULT_UNIT_ERROR || fault->kind == MODEL_FAULT_MEMORY)
        put(writer, ",\"probability\":%.17g", fault->probability);
    put(writer, "}");
}

/* How much of each resource, as {"r0": 1}; nothing if it is none of any. */
static void put_amounts(struct writer *writer, const char *key, const double *amounts,
                        const struct model_resources *resources)
{
    const char *before = ",\"%s\":{";
    for (uint32_t i = 0; i < resources->count; i++) {
        if (amounts[i] <= 0)
            continue;
        if (*before)
            put(writer, ",\"%s\":{", key);
        put(writer, "%s\"%s\":%.17g", *before ? "" : ",", resources->list[i].name, amounts[i]);
        before = "";
    }
    put(writer, *before ? "" : "}");
}

static void put_resources(struct writer *writer, const struct model_resources *resources)
{
    for (uint32_t i = 0; i < resources->count; i++)
        put(writer, "%s{\"name\":\"%s\",\"capacity\":%.17g}%s", i == 0 ? " \"resources\":[" : ",",
            resources->list[i].name, resources->list[i].capacity,
            i + 1 == resources->count ? "],\n" : "");
}

static void put_device(struct writer *writer, const struct model_device *device,
                       const struct model_resources *resources)
{
    put(writer, "  {\"name\":\"%s\",\"items_per_s\":%.17g,\"launch_ns\":%" PRIu64, device->name,
        device->items_per_s, device->launch_ns);
    put(writer, ",\"memory\":%" PRIu64 ",\"compute\":[%u,%u]", device->memory_bytes,
        (unsigned)device->compute[0], (unsigned)device->compute[1]);
    if (device->h2d_bytes_per_s > 0)
        put(writer, ",\"h2d_bytes_per_s\":%.17g", device->h2d_bytes_per_s);
    if (device->d2h_bytes_per_s > 0)
        put(writer, ",\"d2h_bytes_per_s\":%.17g", device->d2h_bytes_per_s);
    put(writer, ",\"weight\":%.17g,\"jitter\":%.17g", device->weight, device->jitter);
    put_amounts(writer, "uses", device->uses, resources);
    put_amounts(writer, "feeds", device->feeds, resources);
    if (device->sensitive != MODEL_DEFAULT_SENSITIVE)
        put(writer, ",\"sensitive\":%.17g", device->sensitive);
    if (device->opens_ns > 0)
        put_ms(writer, "opens_ms", device->opens_ns);
    if (device->is_unstoppable)
        put(writer, ",\"stoppable\":false");
    for (uint32_t i = 0; i < device->fault_count; i++) {
        put(writer, i == 0 ? ",\n   \"faults\":[" : ",\n             ");
        put_fault(writer, &device->faults[i]);
    }
    put(writer, device->fault_count > 0 ? "]}" : "}");
}

static void put_job(struct writer *writer, const struct scenario_job *job)
{
    static const char *const costs[] = { "uniform", "pareto", "ramp" };
    static const char *const policies[] = { "round-robin", "least-loaded", "weighted", "adaptive",
                                            "earliest-finish" };
    static const char *const units[] = { "\"adaptive\"", "\"quarter\"" };
    put(writer, "{\"items\":%" PRIu64 ",\"item_bytes_in\":%" PRIu64 ",\"item_bytes_out\":%" PRIu64,
        job->items, job->item_bytes_in, job->item_bytes_out);
    put(writer, ",\"cost\":{\"kind\":\"%s\"", costs[job->cost]);
    if (job->cost == SCENARIO_PARETO)
        put(writer, ",\"alpha\":%.17g", job->alpha);
    put(writer, "},\n        \"mode\":\"%s\",\"policy\":\"%s\"", job->place ? "place" : "claim",
        policies[job->policy]);
    if (job->unit == SCENARIO_UNIT_FIXED)
        put(writer, ",\"unit\":%" PRIu64, job->unit_items);
    else
        put(writer, ",\"unit\":%s", units[job->unit]);
    if (job->opens_when_worth)
        put(writer, ",\"opens_when_worth\":true");
    put(writer, ",\"ordered\":%s,\"window\":%" PRIu64 ",\"depth\":%u,\"tries\":%u,\"speculate\":%s",
        job->ordered ? "true" : "false", job->window, (unsigned)job->depth, (unsigned)job->tries,
        job->speculate ? "true" : "false");
    if (job->min_free_bytes > 0 || job->min_compute[0] > 0) {
        put(writer, ",\n        \"hints\":{\"min_compute\":[%u,%u]", (unsigned)job->min_compute[0],
            (unsigned)job->min_compute[1]);
        if (job->min_free_bytes > 0)
            put(writer, ",\"min_free\":%" PRIu64, job->min_free_bytes);
        put(writer, "}");
    }
    put(writer, "}");
}

size_t storm_print(const struct storm *storm, char text[STORM_TEXT_MAX])
{
    struct writer writer = { text, 0 };
    put(&writer, "{\"devices\":[\n");
    for (size_t i = 0; i < storm->device_count; i++) {
        put_device(&writer, &storm->devices[i], &storm->job.resources);
        put(&writer, i + 1 < storm->device_count ? ",\n" : "],\n");
    }
    put_resources(&writer, &storm->job.resources);
    put(&writer, " \"job\":");
    put_job(&writer, &storm->job);
    put(&writer, "}\n");
    return writer.at;
}

bool storm_read(struct storm *storm, const char *text, size_t bytes, uint64_t seed)
{
    struct muster_error err = { .size = sizeof err };
    *storm = (struct storm){ .seed = seed };
    if (scenario_read(text, bytes, storm->devices, STORM_DEVICES_MAX, &storm->device_count,
                      &storm->job, &err) == MUSTER_OK)
        return true;
    fprintf(stderr, "%s\n", err.text);
    return false;
}
