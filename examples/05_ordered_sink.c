/*
 * A job whose results go to a sink: in order, once each, a bounded number at a time, though three
 * unequal devices work on it and one of them is lost on the way.
 */
#include <muster/muster.h>
#include <stdio.h>

#define COUNT 200000
#define WINDOW 4096

/* Two devices that are only pretended, beside the processors of this machine. */
static const char devices[] = "[{\"items_per_s\": 2e6, \"launch_ns\": 5000},"
                              " {\"items_per_s\": 5e5, \"launch_ns\": 5000,"
                              "  \"faults\": [{\"kind\": \"lost\", \"at_launch\": 3}]}]";

/* The n-th output is the number of steps that n + 1 takes to 1, if odd numbers go to 3 n + 1. */
static muster_status count_steps(uint64_t begin, uint64_t end, void *const *args)
{
    uint64_t first = *(const uint64_t *)args[0];
    uint32_t *steps = *(uint32_t *const *)args[1];
    for (uint64_t i = begin; i < end; i++) {
        steps[i] = 0;
        for (uint64_t n = first + i + 1; n > 1; n = n % 2 ? 3 * n + 1 : n / 2)
            steps[i]++;
    }
    return MUSTER_OK;
}

struct longest {
    uint64_t next; /* the item that must come now */
    uint64_t number;
    uint32_t steps;
    int out_of_order;
};

static muster_status find_longest(void *user, const struct muster_result *result)
{
    struct longest *longest = user;
    const uint32_t *steps = result->outputs[0];
    longest->out_of_order += result->range.begin != longest->next;
    for (uint64_t i = result->range.begin; i < result->range.end; i++)
        if (steps[i - result->range.begin] > longest->steps) {
            longest->steps = steps[i - result->range.begin];
            longest->number = i + 1;
        }
    longest->next = result->range.end;
    return MUSTER_OK;
}

static muster_status run(struct muster *m, struct longest *longest, struct muster_error *err)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_FUNCTION,
                                             .function = count_steps };
    const struct muster_arg args[] = {
        MUSTER_FIRST, { MUSTER_ARG_OF(MUSTER_ARG_OUT), .bytes = sizeof(uint32_t) }
    };
    const struct muster_run_options how = { .size = sizeof how, .window = WINDOW };
    struct muster_job_desc desc = { .size = sizeof desc,
                                    .items = COUNT,
                                    .args = args,
                                    .arg_count = 2,
                                    .sink = find_longest,
                                    .sink_user = longest,
                                    .options = &how };
    struct muster_job_device did[8];
    for (int i = 0; i < 8; i++)
        did[i].size = sizeof *did;
    struct muster_report report = { .size = sizeof report, .devices = did, .device_capacity = 8 };
    struct muster_job *job;
    muster_status status;
    if ((status = muster_kernel_from(m, "count_steps", &form, 1, &desc.kernel, err)) ||
        (status = muster_start(m, &desc, &job, err)))
        return status;
    status = muster_job_wait(job, &report, err);
    muster_job_destroy(job);
    for (size_t i = 0; i < report.device_count && i < 8; i++)
        printf("%-6s %7llu items in %5llu units, %s\n", did[i].id, (unsigned long long)did[i].items,
               (unsigned long long)did[i].units, muster_health_name(did[i].health));
    printf("%llu units were run again\n", (unsigned long long)report.retries);
    return status;
}

int main(void)
{
    struct muster *m = NULL;
    struct muster_error err;
    struct longest longest = { .next = 0 };
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.sim = devices;
    muster_status status = muster_open(&m, &options, &err);
    if (status == MUSTER_OK)
        status = run(m, &longest, &err);
    if (status != MUSTER_OK)
        fprintf(stderr, "%s\n%s\n", err.text, err.fix);
    muster_close(m, NULL);
    printf("up to %d, %llu takes longest: %u steps\n", COUNT, (unsigned long long)longest.number,
           longest.steps);
    return status != MUSTER_OK || longest.out_of_order > 0 || longest.next != COUNT ||
           longest.number != 156159 || longest.steps != 382;
}
