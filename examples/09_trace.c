/*
 * A trace of a job on three unequal devices, one of which has a slow link and one of which is lost
 * on the way: open trace.json in ui.perfetto.dev. Beside it, where the time went, and the totals.
 */
#include <muster/muster.h>
#include <stdio.h>

#define COUNT 60000

static const char devices[] = "[{\"name\": \"fast\", \"items_per_s\": 2e6, \"launch_ns\": 5000},"
                              " {\"name\": \"far away\", \"items_per_s\": 2e6,"
                              "  \"h2d_bytes_per_s\": 4e6, \"d2h_bytes_per_s\": 4e6},"
                              " {\"name\": \"unlucky\", \"items_per_s\": 5e5,"
                              "  \"faults\": [{\"kind\": \"lost\", \"at_launch\": 3}]}]";

static muster_status square(uint64_t begin, uint64_t end, void *const *args)
{
    const uint32_t *in = *(const uint32_t *const *)args[0];
    uint32_t *out = *(uint32_t *const *)args[1];
    for (uint64_t i = begin; i < end; i++)
        out[i] = in[i] * in[i];
    return MUSTER_OK;
}

static void print_time(const char *what, uint64_t ns)
{
    printf("%-10s %8.3f ms\n", what, (double)ns / 1e6);
}

static muster_status run(struct muster *m, struct muster_error *err)
{
    static uint32_t in[COUNT], out[COUNT];
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = square };
    const struct muster_arg args[] = { MUSTER_IN(in), MUSTER_OUT(out) };
    struct muster_counters totals = { .size = sizeof totals };
    struct muster_report report = { .size = sizeof report };
    struct muster_kernel *kernel;
    muster_status status;
    for (uint32_t i = 0; i < COUNT; i++)
        in[i] = i;
    if ((status = muster_kernel_from(m, "square", &form, 1, &kernel, err)) ||
        (status = muster_trace_start(m, NULL, err)) ||
        (status = muster_for(m, kernel, COUNT, args, 2, NULL, &report, err)) ||
        (status = muster_counters(m, &totals, err)) ||
        (status = muster_trace_stop(m, "trace.json", err)))
        return status;
    print_time("makespan", report.makespan_ns);
    print_time("kernels", report.bound_ns);
    print_time("start-up", report.startup_ns);
    print_time("transfer", report.transfer_ns);
    print_time("overhead", report.overhead_ns);
    print_time("starved", report.starved_ns);
    print_time("tail", report.tail_ns);
    printf("%llu units, %llu of them wasted; %llu bytes in, %llu out; %llu device lost\n",
           (unsigned long long)totals.units_started,
           (unsigned long long)(totals.units_started - totals.units_done),
           (unsigned long long)totals.bytes_in, (unsigned long long)totals.bytes_out,
           (unsigned long long)totals.devices_lost);
    printf("trace.json: %llu events\n", (unsigned long long)totals.trace_events);
    return out[COUNT - 1] == (COUNT - 1u) * (COUNT - 1u) ? MUSTER_OK : MUSTER_E_FAILED;
}

int main(void)
{
    struct muster *m = NULL;
    struct muster_error err = { .size = sizeof err };
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.sim = devices;
    options.devices = "sim";
    muster_status status = muster_open(&m, &options, &err);
    if (status == MUSTER_OK)
        status = run(m, &err);
    if (status != MUSTER_OK)
        fprintf(stderr, "%s\n%s\n", err.text, err.fix);
    muster_close(m, NULL);
    return status != MUSTER_OK;
}
