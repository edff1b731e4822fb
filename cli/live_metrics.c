/*
 * The live view in the text form that Prometheus reads: seconds and bytes, counters that end in _total,
 * all samples of a metric together after its HELP and TYPE.
 */
#include "live_json.h"

#include <stdio.h>
#include <string.h>

/* What a metric is of. */
enum subject { OF_RUNTIME, OF_DEVICE, OF_JOB, OF_LANE };

/* One sample's subject, as far as it applies. */
struct sample {
    struct muster_live_runtime runtime;
    struct muster_live_device device;
    struct muster_live_job job;
    struct muster_live_lane lane;
};

struct metric {
    const char *name, *help;
    enum subject subject;
    bool is_counter;
    bool has_part; /* a sample for each part of what `parts` names */
    double (*value)(const struct sample *sample);
};

#define NS 1e-9
#define VALUE(name_, expression)                                                                   \
    static double name_(const struct sample *s)                                                    \
    {                                                                                              \
        return (double)(expression);                                                               \
    }
VALUE(one, s->runtime.size > 0)
VALUE(jobs_started, s->runtime.jobs_started)
VALUE(jobs_done, s->runtime.jobs_done)
VALUE(jobs_failed, s->runtime.jobs_failed)
VALUE(units_started, s->runtime.units_started)
VALUE(units_done, s->runtime.units_done)
VALUE(units_late, s->runtime.units_late)
VALUE(units_failed, s->runtime.units_failed)
VALUE(items_delivered, s->runtime.items_delivered)
VALUE(bytes_delivered, s->runtime.bytes_delivered)
VALUE(bytes_in, s->runtime.bytes_in)
VALUE(bytes_out, s->runtime.bytes_out)
VALUE(tasks_submitted, s->runtime.tasks_submitted)
VALUE(tasks_ended, s->runtime.tasks_ended)
VALUE(devices_lost, s->runtime.devices_lost)
VALUE(kernels_built, s->runtime.kernels_built)
VALUE(kept_bytes, s->runtime.kept_bytes)
VALUE(is_usable, s->device.health <= MUSTER_HEALTH_SUSPECT && !s->device.is_hung)
VALUE(is_lost, s->device.health == MUSTER_HEALTH_LOST)
VALUE(queue_depth, s->device.queue_depth)
VALUE(streams_active, s->device.streams_active)
VALUE(dispatched, s->device.dispatched)
VALUE(completed, s->device.completed)
VALUE(failed, s->device.failed)
VALUE(busy, (double)s->device.busy_ns *NS)
VALUE(memory_total, s->device.memory_total)
VALUE(memory_used, s->device.memory_used)
VALUE(memory_kept, s->device.memory_kept)
VALUE(in_flight, s->device.bytes_in_flight)
VALUE(job_items, s->job.items == UINT64_MAX ? -1 : (double)s->job.items)
VALUE(job_delivered, s->job.delivered)
VALUE(job_running, s->job.running)
VALUE(job_retries, s->job.retries)
VALUE(job_elapsed, (double)s->job.elapsed_ns *NS)
VALUE(job_memory, s->job.memory_bytes)
VALUE(lane_items, s->lane.items)
VALUE(lane_units, s->lane.units)
VALUE(lane_retries, s->lane.retries)
VALUE(lane_late, s->lane.late)
VALUE(lane_running, s->lane.running)
VALUE(lane_busy, (double)s->lane.busy_ns *NS)

static const struct metric metrics[] = {
    { "muster_runtime_info", "An open runtime; its labels say of which program and version.",
      OF_RUNTIME, false, false, one },
    { "muster_jobs_started_total", "Jobs that were started.", OF_RUNTIME, true, false,
      jobs_started },
    { "muster_jobs_done_total", "Jobs that ended well.", OF_RUNTIME, true, false, jobs_done },
    { "muster_jobs_failed_total", "Jobs that failed or were cancelled.", OF_RUNTIME, true, false,
      jobs_failed },
    { "muster_units_started_total", "Runs of units that devices were given.", OF_RUNTIME, true,
      false, units_started },
    { "muster_units_done_total", "Runs of units that ended well.", OF_RUNTIME, true, false,
      units_done },
    { "muster_units_late_total", "Runs of units that another device had finished before.",
      OF_RUNTIME, true, false, units_late },
    { "muster_units_failed_total", "Runs of units that failed.", OF_RUNTIME, true, false,
      units_failed },
    { "muster_items_delivered_total", "Items of jobs that were delivered.", OF_RUNTIME, true, false,
      items_delivered },
    { "muster_delivered_bytes_total", "Bytes of results that were delivered.", OF_RUNTIME, true,
      false, bytes_delivered },
    { "muster_copied_in_bytes_total", "Bytes that were copied to devices.", OF_RUNTIME, true, false,
      bytes_in },
    { "muster_copied_out_bytes_total", "Bytes that were copied from devices.", OF_RUNTIME, true,
      false, bytes_out },
    { "muster_tasks_submitted_total", "Tasks that were submitted.", OF_RUNTIME, true, false,
      tasks_submitted },
    { "muster_tasks_ended_total", "Tasks that have ended.", OF_RUNTIME, true, false, tasks_ended },
    { "muster_devices_lost_total", "Devices that were lost.", OF_RUNTIME, true, false,
      devices_lost },
    { "muster_kernels_built_total", "Kernels that were built, one for each device.", OF_RUNTIME,
      true, false, kernels_built },
    { "muster_kept_bytes", "Host memory of jobs that is kept for the next.", OF_RUNTIME, false,
      false, kept_bytes },
    { "muster_device_usable", "1 while the device takes work.", OF_DEVICE, false, false,
      is_usable },
    { "muster_device_lost", "1 once the device is lost.", OF_DEVICE, false, false, is_lost },
    { "muster_device_queue_depth", "Units and launches given and not finished.", OF_DEVICE, false,
      false, queue_depth },
    { "muster_device_streams_active", "Streams with work in flight.", OF_DEVICE, false, false,
      streams_active },
    { "muster_device_dispatched_total", "Units and launches that the device was given.", OF_DEVICE,
      true, false, dispatched },
    { "muster_device_completed_total", "Units and launches that ended well.", OF_DEVICE, true,
      false, completed },
    { "muster_device_failed_total", "Units and launches that failed.", OF_DEVICE, true, false,
      failed },
    { "muster_device_busy_seconds_total", "Time with at least one unit or launch.", OF_DEVICE, true,
      false, busy },
    { "muster_device_memory_bytes", "Memory of the device.", OF_DEVICE, false, false,
      memory_total },
    { "muster_device_memory_used_bytes", "Memory of the device that Muster uses.", OF_DEVICE, false,
      false, memory_used },
    { "muster_device_memory_kept_bytes", "Memory of the device that is kept for the next job.",
      OF_DEVICE, false, false, memory_kept },
    { "muster_device_in_flight_bytes", "Bytes that are being copied.", OF_DEVICE, false, false,
      in_flight },
    { "muster_job_items", "Items of a running job; -1: not known yet.", OF_JOB, false, false,
      job_items },
    { "muster_job_delivered_items", "Items of a running job that were delivered.", OF_JOB, false,
      false, job_delivered },
    { "muster_job_running_units", "Units of a running job that devices have.", OF_JOB, false, false,
      job_running },
    { "muster_job_retries", "Attempts of a running job that failed and were made again.", OF_JOB,
      false, false, job_retries },
    { "muster_job_elapsed_seconds", "How long a running job has run.", OF_JOB, false, false,
      job_elapsed },
    { "muster_job_memory_bytes", "Host memory of a running job for results and supplied items.",
      OF_JOB, false, false, job_memory },
    { "muster_job_time_seconds",
      "Where a running job's time went: bound is work, the other parts came on top.", OF_JOB, false,
      true, NULL },
    { "muster_lane_items", "Items that a device has done for a running job.", OF_LANE, false, false,
      lane_items },
    { "muster_lane_units", "Units that a device has done for a running job.", OF_LANE, false, false,
      lane_units },
    { "muster_lane_retries", "Attempts that failed on a device, of a running job.", OF_LANE, false,
      false, lane_retries },
    { "muster_lane_late", "Attempts on a device that another had finished before.", OF_LANE, false,
      false, lane_late },
    { "muster_lane_running_units", "Units that a device has of a running job.", OF_LANE, false,
      false, lane_running },
    { "muster_lane_busy_seconds", "Time that a device had at least one unit of a running job.",
      OF_LANE, false, false, lane_busy },
};

/* In a label only these three are special. */
static void label(struct output *out, const char *name, const char *value, bool is_first)
{
    output_text(out, is_first ? "{" : ",");
    output_text(out, name);
    output_text(out, "=\"");
    for (; *value; value++) {
        if (*value == '\\' || *value == '"')
            output_text(out, "\\");
        if (*value == '\n')
            output_text(out, "\\n");
        else
            output_bytes(out, value, 1);
    }
    output_text(out, "\"");
}

static void number_label(struct output *out, const char *name, uint64_t value, bool is_first)
{
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    label(out, name, text, is_first);
}

static void print_sample(const struct metric *metric, const struct sample *sample, const char *part,
                         double value, struct output *out)
{
    char text[40];
    output_text(out, metric->name);
    number_label(out, "pid", sample->runtime.pid, true);
    number_label(out, "runtime", sample->runtime.number, false);
    label(out, "program", sample->runtime.program, false);
    if (metric->value == one)
        label(out, "version", sample->runtime.version, false);
    if (metric->subject == OF_DEVICE)
        label(out, "device", sample->device.id, false);
    if (metric->subject == OF_JOB || metric->subject == OF_LANE) {
        number_label(out, "job", sample->job.number, false);
        label(out, "name", sample->job.name, false);
    }
    if (metric->subject == OF_LANE)
        label(out, "device", sample->lane.device, false);
    if (part)
        label(out, "part", part, false);
    snprintf(text, sizeof text, "} %.17g\n", value);
    output_text(out, text);
}

static void print_parts(const struct metric *metric, const struct sample *sample,
                        struct output *out)
{
    const struct muster_live_job *job = &sample->job;
    const struct {
        const char *name;
        uint64_t ns;
    } parts[] = { { "bound", job->bound_ns },       { "startup", job->startup_ns },
                  { "transfer", job->transfer_ns }, { "overhead", job->overhead_ns },
                  { "starved", job->starved_ns },   { "tail", job->tail_ns } };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        print_sample(metric, sample, parts[i].name, (double)parts[i].ns * NS, out);
}

static void print_one(const struct metric *metric, const struct sample *sample, struct output *out)
{
    if (metric->has_part)
        print_parts(metric, sample, out);
    else
        print_sample(metric, sample, NULL, metric->value(sample), out);
}

static void print_of_job(const struct metric *metric, const struct muster_live *live,
                         size_t runtime, size_t job, struct sample *sample, struct output *out)
{
    if (metric->subject == OF_JOB)
        print_one(metric, sample, out);
    for (size_t i = 0; metric->subject == OF_LANE &&
                       muster_live_lane(live, runtime, job, i, &sample->lane, NULL) == MUSTER_OK;
         i++)
        print_one(metric, sample, out);
}

static void print_of_runtime(const struct metric *metric, const struct muster_live *live,
                             size_t runtime, struct sample *sample, struct output *out)
{
    if (metric->subject == OF_RUNTIME)
        print_one(metric, sample, out);
    for (size_t i = 0; metric->subject == OF_DEVICE &&
                       muster_live_device(live, runtime, i, &sample->device, NULL) == MUSTER_OK;
         i++)
        print_one(metric, sample, out);
    for (size_t i = 0; metric->subject >= OF_JOB &&
                       muster_live_job(live, runtime, i, &sample->job, NULL) == MUSTER_OK;
         i++)
        if (sample->job.state == MUSTER_LIVE_RUNNING)
            print_of_job(metric, live, runtime, i, sample, out);
}

static void print_head(const char *name, const char *help, const char *type, struct output *out)
{
    output_text(out, "# HELP ");
    output_text(out, name);
    output_text(out, " ");
    output_text(out, help);
    output_text(out, "\n# TYPE ");
    output_text(out, name);
    output_text(out, " ");
    output_text(out, type);
    output_text(out, "\n");
}

void live_metrics(const struct muster_live *live, struct output *out)
{
    struct muster_live_info info = { .size = sizeof info };
    struct sample sample = { .runtime = { .size = sizeof sample.runtime },
                             .device = { .size = sizeof sample.device },
                             .job = { .size = sizeof sample.job },
                             .lane = { .size = sizeof sample.lane } };
    muster_live_info(live, &info, NULL);
    print_head("muster_runtimes", "Open runtimes of this user.", "gauge", out);
    output_text(out, "muster_runtimes ");
    output_number(out, info.runtimes);
    output_text(out, "\n");
    print_head("muster_pages_refused", "Live pages that could not be read.", "gauge", out);
    output_text(out, "muster_pages_refused ");
    output_number(out, info.refused);
    output_text(out, "\n");
    for (size_t m = 0; m < sizeof metrics / sizeof *metrics; m++) {
        if (info.runtimes > 0)
            print_head(metrics[m].name, metrics[m].help,
                       metrics[m].is_counter ? "counter" : "gauge", out);
        for (size_t i = 0; i < info.runtimes; i++)
            if (muster_live_runtime(live, i, &sample.runtime, NULL) == MUSTER_OK)
                print_of_runtime(&metrics[m], live, i, &sample, out);
    }
}
