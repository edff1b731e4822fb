#include "live_json.h"

#include "json.h"

static void number_or_null(struct json *json, const char *key, uint64_t number)
{
    if (number == UINT64_MAX)
        json_null(json, key);
    else
        json_number(json, key, number);
}

static void flag(struct json *json, const char *key, bool value)
{
    json_number(json, key, value);
}

static void device_json(struct json *json, const struct muster_live_device *device)
{
    json_begin_object(json, NULL);
    json_text(json, "id", device->id);
    json_text(json, "name", device->name);
    json_text(json, "backend", device->backend);
    json_text(json, "health", muster_health_name(device->health));
    flag(json, "is_hung", device->is_hung);
    flag(json, "is_cut", device->is_cut);
    json_number(json, "queue_depth", device->queue_depth);
    json_number(json, "queued_items", device->queued_items);
    json_number(json, "streams_active", device->streams_active);
    json_number(json, "lanes", device->lanes);
    json_number(json, "dispatched", device->dispatched);
    json_number(json, "completed", device->completed);
    json_number(json, "failed", device->failed);
    json_number(json, "bytes_in_flight", device->bytes_in_flight);
    json_number(json, "busy_ns", device->busy_ns);
    json_real(json, "items_per_s", device->items_per_s);
    json_real(json, "bytes_per_s", device->bytes_per_s);
    json_number(json, "memory_total", device->memory_total);
    json_number(json, "memory_used", device->memory_used);
    json_number(json, "memory_reserved", device->memory_reserved);
    json_number(json, "memory_unreclaimed", device->memory_unreclaimed);
    json_number(json, "memory_kept", device->memory_kept);
    if (device->sampled_ns > 0)
        json_number(json, "memory_free", device->memory_free);
    else
        json_null(json, "memory_free");
    if (device->utilisation >= 0)
        json_real(json, "utilisation", device->utilisation);
    else
        json_null(json, "utilisation");
    if (device->temperature_c > -300)
        json_real(json, "temperature_c", device->temperature_c);
    else
        json_null(json, "temperature_c");
    json_end_object(json);
}

static void lane_json(struct json *json, const struct muster_live_lane *lane)
{
    json_begin_object(json, NULL);
    json_text(json, "device", lane->device);
    json_text(json, "health", muster_health_name(lane->health));
    json_number(json, "items", lane->items);
    json_number(json, "units", lane->units);
    json_number(json, "retries", lane->retries);
    json_number(json, "late", lane->late);
    json_number(json, "running", lane->running);
    json_number(json, "busy_ns", lane->busy_ns);
    json_real(json, "items_per_s", lane->items_per_s);
    json_real(json, "faster_without", lane->faster_without);
    json_end_object(json);
}

static void job_json(struct json *json, const struct muster_live *live, size_t runtime,
                     size_t index)
{
    struct muster_live_job job = { .size = sizeof job };
    struct muster_live_lane lane = { .size = sizeof lane };
    if (muster_live_job(live, runtime, index, &job, NULL) != MUSTER_OK)
        return;
    json_begin_object(json, NULL);
    json_number(json, "number", job.number);
    json_text(json, "name", job.name);
    json_text(json, "state", muster_live_state_name(job.state));
    json_text(json, "status", muster_status_name(job.status));
    number_or_null(json, "items", job.items);
    json_number(json, "delivered", job.delivered);
    json_number(json, "units", job.units);
    json_number(json, "retries", job.retries);
    json_number(json, "running", job.running);
    json_number(json, "started_ns", job.started_ns);
    json_number(json, "elapsed_ns", job.elapsed_ns);
    number_or_null(json, "remaining_ns", job.remaining_ns);
    json_real(json, "items_per_s", job.items_per_s);
    json_number(json, "memory_bytes", job.memory_bytes);
    json_number(json, "makespan_ns", job.makespan_ns);
    json_number(json, "bound_ns", job.bound_ns);
    json_number(json, "startup_ns", job.startup_ns);
    json_number(json, "transfer_ns", job.transfer_ns);
    json_number(json, "overhead_ns", job.overhead_ns);
    json_number(json, "starved_ns", job.starved_ns);
    json_number(json, "tail_ns", job.tail_ns);
    json_number(json, "lanes_unseen", job.lanes_unseen);
    json_begin_array(json, "lanes");
    for (size_t i = 0; muster_live_lane(live, runtime, index, i, &lane, NULL) == MUSTER_OK; i++)
        lane_json(json, &lane);
    json_end_array(json);
    json_end_object(json);
}

static void runtime_json(struct json *json, const struct muster_live *live, size_t index)
{
    struct muster_live_runtime runtime = { .size = sizeof runtime };
    struct muster_live_device device = { .size = sizeof device };
    if (muster_live_runtime(live, index, &runtime, NULL) != MUSTER_OK)
        return;
    json_begin_object(json, NULL);
    json_number(json, "pid", runtime.pid);
    json_number(json, "number", runtime.number);
    json_text(json, "program", runtime.program);
    json_text(json, "version", runtime.version);
    json_number(json, "opened_ns", runtime.opened_ns);
    json_number(json, "jobs_started", runtime.jobs_started);
    json_number(json, "jobs_done", runtime.jobs_done);
    json_number(json, "jobs_failed", runtime.jobs_failed);
    json_number(json, "units_started", runtime.units_started);
    json_number(json, "units_done", runtime.units_done);
    json_number(json, "units_late", runtime.units_late);
    json_number(json, "units_failed", runtime.units_failed);
    json_number(json, "items_delivered", runtime.items_delivered);
    json_number(json, "bytes_delivered", runtime.bytes_delivered);
    json_number(json, "bytes_in", runtime.bytes_in);
    json_number(json, "bytes_out", runtime.bytes_out);
    json_number(json, "kernels_built", runtime.kernels_built);
    json_number(json, "tasks_submitted", runtime.tasks_submitted);
    json_number(json, "tasks_ended", runtime.tasks_ended);
    json_number(json, "devices_lost", runtime.devices_lost);
    json_number(json, "kept_bytes", runtime.kept_bytes);
    json_number(json, "devices_unseen", runtime.devices_unseen);
    json_number(json, "jobs_unseen", runtime.jobs_unseen);
    json_begin_array(json, "devices");
    for (size_t i = 0; muster_live_device(live, index, i, &device, NULL) == MUSTER_OK; i++)
        device_json(json, &device);
    json_end_array(json);
    json_begin_array(json, "jobs");
    for (size_t i = 0; i < runtime.jobs; i++)
        job_json(json, live, index, i);
    json_end_array(json);
    json_end_object(json);
}

void live_json(const struct muster_live *live, struct output *out)
{
    struct json json;
    struct muster_live_info info = { .size = sizeof info };
    muster_live_info(live, &info, NULL);
    json_init(&json, out);
    json_begin_object(&json, NULL);
    json_number(&json, "now_ns", info.now_ns);
    json_number(&json, "swept", info.swept);
    json_number(&json, "refused", info.refused);
    json_text(&json, "why", info.why);
    json_begin_array(&json, "runtimes");
    for (size_t i = 0; i < info.runtimes; i++)
        runtime_json(&json, live, i);
    json_end_array(&json);
    json_end_object(&json);
    output_text(out, "\n");
}
