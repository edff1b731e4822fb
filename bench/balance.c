/*
 * How near to the bound real jobs come: threads, copies and wake-ups and all, on simulated devices
 * that take their time by the real clock, alone or beside the processors of this machine. No device
 * has been measured before; each run has a runtime of its own.
 *
 *     balance [--repetitions N] [--json FILE]
 *
 * Beside Muster's adaptive units a plain way of giving out work, quarter units that devices claim.
 * The bound is the least time in which the described devices could do it, faults included. Where
 * the processors take part their rate is what they reach alone, right before. scripts/balance has
 * the same in virtual time.
 */
#include "jobs.h"

#define DEVICES_MAX 8
/* What a run should take at the bound: long beside wake-ups, short enough to be repeated. */
#define RUN_S 1.2
#define STEPS 400u
/* What beats the bound by more than jitter was not measured right. */
#define RATIO_MIN 0.98

struct device {
    double items_per_s;
    double fault_s; /* 0: none; else from then on */
    double factor;  /* the rate is multiplied by this; 0: it is lost */
};

static const struct setting {
    const char *name;
    bool has_cpu;
    double target;
    size_t count;
    struct device devices[DEVICES_MAX];
} settings[] = {
    { "unequal, 1:2:4:8",
      false,
      1.03,
      4,
      { { 1e6, 0, 0 }, { 2e6, 0, 0 }, { 4e6, 0, 0 }, { 8e6, 0, 0 } } },
    { "one-fast, 1:1:1:16",
      false,
      1.03,
      4,
      { { 1e6, 0, 0 }, { 1e6, 0, 0 }, { 1e6, 0, 0 }, { 16e6, 0, 0 } } },
    { "one-slow, seven of 1, one of 1/10",
      false,
      1.03,
      8,
      { { 1e6, 0, 0 },
        { 1e6, 0, 0 },
        { 1e6, 0, 0 },
        { 1e6, 0, 0 },
        { 1e6, 0, 0 },
        { 1e6, 0, 0 },
        { 1e6, 0, 0 },
        { 1e5, 0, 0 } } },
    { "two-classes, 100:100:3:3",
      false,
      1.01,
      4,
      { { 1e7, 0, 0 }, { 1e7, 0, 0 }, { 3e5, 0, 0 }, { 3e5, 0, 0 } } },
    { "slow-down, 8 becomes 2 at a third",
      false,
      1.08,
      4,
      { { 1e6, 0, 0 }, { 2e6, 0, 0 }, { 4e6, 0, 0 }, { 8e6, RUN_S / 3, 0.25 } } },
    { "loss, 8 is lost at a third",
      false,
      1.08,
      4,
      { { 1e6, 0, 0 }, { 2e6, 0, 0 }, { 4e6, 0, 0 }, { 8e6, RUN_S / 3, 0 } } },
    { "cpu and 1:2:4", true, 1.03, 3, { { 1e6, 0, 0 }, { 2e6, 0, 0 }, { 4e6, 0, 0 } } },
};

static muster_status compute(uint64_t begin, uint64_t end, void *const *args)
{
    uint8_t *out = *(uint8_t *const *)args[0];
    if (is_simulated())
        memset(out + begin, 1, end - begin);
    for (uint64_t i = begin; i < end && !is_simulated(); i++)
        out[i] = (uint8_t)spend(i, STEPS);
    return MUSTER_OK;
}

/* Items that the described devices can do in this many seconds. */
static double items_in(const struct setting *setting, double seconds)
{
    double items = 0;
    for (size_t i = 0; i < setting->count; i++) {
        const struct device *device = &setting->devices[i];
        double whole = device->fault_s > 0 && device->fault_s < seconds ? device->fault_s : seconds;
        items += device->items_per_s * (whole + (seconds - whole) * device->factor);
    }
    return items;
}

static void describe(const struct setting *setting, char *text, size_t bytes)
{
    size_t used = 0;
    for (size_t i = 0; i < setting->count; i++) {
        const struct device *device = &setting->devices[i];
        char fault[128] = "";
        if (device->fault_s > 0 && device->factor > 0)
            snprintf(fault, sizeof fault,
                     ", \"faults\": [{\"kind\": \"slow\", \"at_ms\": %g, \"factor\": %g}]",
                     device->fault_s * 1e3, device->factor);
        else if (device->fault_s > 0)
            snprintf(fault, sizeof fault, ", \"faults\": [{\"kind\": \"lost\", \"at_ms\": %g}]",
                     device->fault_s * 1e3);
        used += (size_t)snprintf(text + used, bytes - used,
                                 "%s{\"items_per_s\": %g, \"launch_ns\": 4000, \"jitter\": 0.05%s}",
                                 i > 0 ? ", " : "[", device->items_per_s, fault);
    }
    snprintf(text + used, bytes - used, "]");
}

struct outcome {
    double makespan_s;
    double busy[DEVICES_MAX + 1];
    size_t device_count;
};

/* One run in a runtime of its own. `unit_items` 0: adaptive. */
static void run_once(const struct bench *bench, const struct setting *setting, const char *devices,
                     uint64_t items, uint64_t unit_items, struct outcome *out)
{
    char sim[2048];
    const struct muster_arg args[] = { { MUSTER_ARG_OF(MUSTER_ARG_OUT), .bytes = 1 } };
    struct muster_report report;
    describe(setting, sim, sizeof sim);
    struct muster *m = open_runtime(bench, devices, sim);
    struct muster_job_desc desc = { .size = sizeof desc,
                                    .kernel = make_kernel(bench, m, compute),
                                    .items = items,
                                    .args = args,
                                    .arg_count = 1,
                                    .options = &(struct muster_run_options){
                                        .size = sizeof(struct muster_run_options),
                                        .unit_items = unit_items } };
    run_job(bench, m, &desc, &report);
    *out = (struct outcome){ .makespan_s = (double)report.makespan_ns / 1e9,
                             .device_count = report.device_count };
    for (size_t i = 0; i < report.device_count && i <= DEVICES_MAX; i++)
        out->busy[i] = (double)report.devices[i].busy_ns / (double)report.makespan_ns;
    muster_close(m, NULL);
}

/* Seconds in which the devices could do it, all of them busy from begin to end. */
static double find_bound(const struct bench *bench, const struct setting *setting, uint64_t items)
{
    struct outcome alone;
    if (!setting->has_cpu)
        return RUN_S;
    uint64_t some = items / 4;
    run_once(bench, setting, "cpu", some, 0, &alone);
    return (double)items / ((double)some / alone.makespan_s + items_in(setting, 1));
}

static void take_row(struct bench *bench, const struct setting *setting)
{
    double adaptive[REPETITIONS_MAX], quarter[REPETITIONS_MAX], busy[DEVICES_MAX + 1];
    const char *devices = setting->has_cpu ? "cpu,sim" : "sim";
    /* The processors are taken for one more device of the mean speed. */
    size_t device_count = setting->count + setting->has_cpu;
    uint64_t items =
        (uint64_t)(items_in(setting, RUN_S) * (double)device_count / (double)setting->count);
    uint64_t unit = muster_partition_unit(items, device_count);
    struct outcome outcome;
    for (size_t i = 0; i <= DEVICES_MAX; i++)
        busy[i] = 1;
    for (int i = 0; i < bench->repetitions; i++) {
        double bound_s = find_bound(bench, setting, items);
        run_once(bench, setting, devices, items, unit, &outcome);
        quarter[i] = outcome.makespan_s / bound_s;
        run_once(bench, setting, devices, items, 0, &outcome);
        adaptive[i] = outcome.makespan_s / bound_s;
        if (!setting->has_cpu && adaptive[i] < RATIO_MIN)
            stop(bench, "a job was faster than it can be: the clock or the devices are wrong");
        device_count = outcome.device_count;
        for (size_t d = 0; d < device_count; d++)
            busy[d] = outcome.busy[d] < busy[d] ? outcome.busy[d] : busy[d];
    }
    struct sample ours = summarise(adaptive, bench->repetitions),
                  peer = summarise(quarter, bench->repetitions);
    printf("%-34s %.3f (%.3f-%.3f)   %.3f (%.3f-%.3f)   1.00  <= %.2f  %-7s", setting->name,
           ours.median, ours.least, ours.greatest, peer.median, peer.least, peer.greatest,
           setting->target, verdict(ours.median <= setting->target));
    for (size_t d = 0; d < device_count; d++)
        printf(" %5.1f%%", 100 * busy[d]);
    printf("\n");
    row_begin(bench, setting->name);
    row_text(bench, "unit", "makespan / bound");
    row_sample(bench, "ours", ours);
    row_sample(bench, "quarter", peer);
    row_number(bench, "raw", 1);
    row_numbers(bench, "least_busy", busy, device_count);
    row_number(bench, "target", setting->target);
    row_text(bench, "verdict", verdict(ours.median <= setting->target));
    row_end(bench);
}

int main(int argc, char **argv)
{
    struct bench bench;
    bench_begin(&bench, "balance", 5, argc, argv);
    /* Threads inherit it: a simulated device is not to be late by 50 us whenever it has finished. */
    prctl(PR_SET_TIMERSLACK, 1000ul);
    printf("jobs of %.1f s at the bound, by the real clock; makespan / bound, median "
           "(least-greatest) of %d\n\n",
           RUN_S, bench.repetitions);
    printf("%-34s %-21s %-21s %-5s %-8s %-7s %s\n", "", "ours: adaptive units", "quarter units",
           "raw", "target", "verdict", "busy, each device, its least");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        take_row(&bench, &settings[i]);
    return bench_end(&bench);
}
