/*
 * What the benches of pipelines run: an array of words that goes to a device, through a kernel that
 * changes each word, and back to a sink that looks at both ends of every unit. As a pipeline of three
 * stages, and as a job with a kernel.
 */
#ifndef BENCH_WORDS_H
#define BENCH_WORDS_H

#include "limit.h"
#include "threads.h"

#define WORD sizeof(uint32_t)
#define WORDS_EDGES_MAX 64

struct words {
    const struct bench *bench;
    struct muster *m;
    const char *devices;  /* ids, comma separated */
    muster_device device; /* the first of them */
    struct muster_device_info info;
    struct muster_kernel *kernel;
    struct muster_pipeline *pipeline;
};

/* A job over words: which, and how. */
struct words_plan {
    const uint32_t *in;   /* NULL: they are supplied by a source */
    const uint32_t *from; /* what that copies them from; NULL: it makes them */
    uint32_t calls;       /* of the source at once; 0: 1 */
    uint64_t bytes, unit;
    const char *devices; /* NULL: all that the runtime was opened with */
    bool is_kernel_job, is_accounted, is_profiled;
};

/* The job while it runs, and what was seen of it. */
struct words_run {
    struct words *words;
    struct muster_job *job;
    struct muster_report report;
    struct muster_job_device devices[REPORT_DEVICES_MAX]; /* the report's */
    uint64_t next, wrong; /* the item that is due; units that were not as they should be */
    uint64_t called_ns;   /* when muster_start was called */
    uint64_t units, first_ns, last_ns; /* of deliveries */
    double first_cpu_ns, last_cpu_ns;
    uint64_t items;
    bool is_profiled;
    struct threads first_threads, last_threads;
};

static uint32_t words_rounds;
static struct muster_error words_problem;

static inline muster_status words_function(uint64_t begin, uint64_t end, void *const *args)
{
    const uint32_t *in = *(void *const *)args[0];
    uint32_t *out = *(void *const *)args[1];
    for (uint64_t i = begin; i < end; i++)
        out[i] = change(in[i], words_rounds);
    return MUSTER_OK;
}

static inline muster_status words_kernel(struct words *words)
{
    static const char form[] = "MUSTER_KERNEL void change(uint64_t i, MUSTER_GLOBAL const uint32_t "
                               "*in, MUSTER_GLOBAL uint32_t *out)\n"
                               "{\n"
                               "    uint32_t word = in[i];\n"
                               "    for (uint32_t r = 0; r < %uu; r++)\n"
                               "        word = (word ^ word >> 7) * 1664525u + 1013904223u;\n"
                               "    out[i] = word + 1;\n"
                               "}\n";
    char source[sizeof form + 16];
    int length = snprintf(source, sizeof source, form, words_rounds);
    const struct muster_kernel_form forms[] = {
        { .size = sizeof *forms, .kind = MUSTER_KERNEL_FUNCTION, .function = words_function },
        { .size = sizeof *forms,
          .kind = MUSTER_KERNEL_PORTABLE,
          .code = source,
          .code_bytes = (size_t)length,
          .entry = "change" },
    };
    return muster_kernel_from(words->m, "change", forms, 2, &words->kernel, &words_problem);
}

static inline muster_status words_pipeline(struct words *words, uint32_t slots)
{
    enum { IN, D_IN, D_OUT, OUT, BUFFERS };
    const struct muster_buffer buffers[BUFFERS] = {
        [IN] = { sizeof *buffers, "in", MUSTER_HOST, WORD, 0, slots, MUSTER_INPUT },
        [D_IN] = { sizeof *buffers, "d_in", MUSTER_DEVICE, WORD, 0, slots, 0 },
        [D_OUT] = { sizeof *buffers, "d_out", MUSTER_DEVICE, WORD, 0, slots, 0 },
        [OUT] = { sizeof *buffers, "out", MUSTER_HOST, WORD, 0, slots, MUSTER_OUTPUT },
    };
    const struct muster_stage stages[] = {
        { sizeof *stages, "up", "h2d", 1u << IN, 1u << D_IN, .flags = MUSTER_COPY },
        { sizeof *stages, "change", "compute", 1u << D_IN, 1u << D_OUT, .kernel = words->kernel },
        { sizeof *stages, "down", "d2h", 1u << D_OUT, 1u << OUT, .flags = MUSTER_COPY },
    };
    return muster_pipeline_create(words->m, buffers, BUFFERS, stages,
                                  sizeof stages / sizeof *stages, NULL, &words->pipeline,
                                  &words_problem);
}

/* False: there are no such devices, and words_problem says so. Stays until words_close. */
static inline bool words_open(struct words *words, const struct bench *bench, const char *devices,
                              uint32_t rounds, uint32_t slots)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    char first[24];
    snprintf(first, sizeof first, "%.*s", (int)strcspn(devices, ","), devices);
    *words = (struct words){ .bench = bench, .devices = devices };
    words_rounds = rounds;
    options.devices = devices;
    if (muster_open(&words->m, &options, &words_problem) != MUSTER_OK)
        return false;
    if (muster_device_find(words->m, first, &words->device, &words_problem) != MUSTER_OK) {
        muster_close(words->m, NULL);
        return false;
    }
    words->info.size = sizeof words->info;
    if (muster_device_info(words->m, words->device, &words->info, &words_problem) != MUSTER_OK ||
        words_kernel(words) != MUSTER_OK || words_pipeline(words, slots) != MUSTER_OK)
        stop(bench, words_problem.text);
    return true;
}

static inline void words_close(struct words *words)
{
    muster_pipeline_destroy(words->pipeline);
    muster_kernel_destroy(words->kernel);
    muster_close(words->m, NULL);
}

/* An array in which each word is its number, pinned for the device or plain. */
static inline uint32_t *words_array(struct words *words, uint64_t bytes, bool is_pinned)
{
    void *memory = NULL;
    if (is_pinned &&
        muster_host_allocate(words->m, words->device, bytes, &memory, &words_problem) != MUSTER_OK)
        stop(words->bench, words_problem.text);
    if (!is_pinned)
        memory = malloc(bytes);
    if (!memory)
        stop(words->bench, "there is no memory for the input");
    uint32_t *array = memory;
    for (uint64_t i = 0; i < bytes / WORD; i++)
        array[i] = (uint32_t)i;
    return array;
}

static inline int64_t words_source(void *user, uint64_t begin, uint64_t items, void *to,
                                   size_t bytes)
{
    const uint32_t *from = user;
    uint32_t *array = to;
    if (from) {
        memcpy(to, from + begin, bytes);
        return (int64_t)items;
    }
    for (uint64_t i = 0; i < items; i++)
        array[i] = (uint32_t)(begin + i);
    return (int64_t)items;
}

static inline muster_status words_sink(void *user, const struct muster_result *result)
{
    struct words_run *run = user;
    const uint32_t *out = result->outputs[0];
    uint64_t begin = result->range.begin, end = result->range.end;
    run->last_ns = clock_ns();
    run->last_cpu_ns = cpu_ns();
    if (run->units++ == 0) {
        run->first_ns = run->last_ns;
        run->first_cpu_ns = run->last_cpu_ns;
        if (run->is_profiled)
            threads_read(&run->first_threads);
    }
    if (run->is_profiled && end == run->items)
        threads_read(&run->last_threads);
    run->wrong += begin != run->next || end <= begin ||
                  out[0] != change((uint32_t)begin, words_rounds) ||
                  out[end - begin - 1] != change((uint32_t)(end - 1), words_rounds);
    run->next = end;
    return MUSTER_OK;
}

static inline void words_start(struct words_run *run, struct words *words,
                               const struct words_plan *plan)
{
    uint64_t items = plan->bytes / WORD;
    enum muster_arg_kind kind = plan->in ? MUSTER_ARG_IN : MUSTER_ARG_SOURCE;
    struct muster_arg args[] = { { MUSTER_ARG_OF(kind), .in = plan->in, .bytes = WORD },
                                 { MUSTER_ARG_OF(MUSTER_ARG_OUT), .bytes = WORD } };
    *run = (struct words_run){ .words = words, .is_profiled = plan->is_profiled, .items = items };
    run->report = full_report(run->devices);
    struct muster_run_options how = { .size = sizeof how,
                                      .devices = plan->devices,
                                      .unit_items = plan->unit / WORD,
                                      .account = plan->is_accounted };
    struct muster_job_desc desc = { .size = sizeof desc,
                                    .items = items,
                                    .sink = words_sink,
                                    .sink_user = run,
                                    .source = plan->in ? NULL : words_source,
                                    .source_user = (void *)(uintptr_t)plan->from,
                                    .source_calls = plan->calls,
                                    .options = &how };
    if (plan->is_kernel_job) {
        desc.kernel = words->kernel;
        desc.args = args;
        desc.arg_count = 2;
    } else {
        desc.pipeline = words->pipeline;
        desc.input = plan->in;
    }
    run->called_ns = clock_ns();
    if (muster_start(words->m, &desc, &run->job, &words_problem) != MUSTER_OK)
        stop(words->bench, words_problem.text);
}

static inline void words_wait(struct words_run *run)
{
    if (muster_job_wait(run->job, &run->report, &words_problem) != MUSTER_OK)
        stop(run->words->bench, words_problem.text);
    if (run->next != run->items || run->wrong > 0)
        stop(run->words->bench, "what was delivered is not in order, not all, or not right");
}

static inline void words_end(struct words_run *run)
{
    muster_job_destroy(run->job);
}

/* When the first unit was begun: what a job needs before that is a figure of its own. */
static inline uint64_t words_begin_ns(const struct words_run *run)
{
    return run->last_ns - (run->report.makespan_ns - run->report.startup_ns);
}

/* From the call to the first unit. */
static inline double words_startup_ms(const struct words_run *run)
{
    return (double)(words_begin_ns(run) - run->called_ns) / 1e6;
}

static inline double words_rate(const struct words_run *run)
{
    return (double)(run->report.delivered * WORD) * 1e9 /
           (double)(run->last_ns - words_begin_ns(run));
}

/* That the process kept busy, from the first delivery to the last. */
static inline double words_cores(const struct words_run *run)
{
    double wall_ns = (double)(run->last_ns - run->first_ns);
    return wall_ns > 0 ? (run->last_cpu_ns - run->first_cpu_ns) / wall_ns : 0;
}

/* Units of the caller's for each that was given to a device: more than 1 where they were merged. */
static inline double words_merged(const struct words_run *run)
{
    return run->report.units > 0 ? (double)run->units / (double)run->report.units : 0;
}

/* A whole job; its rate. */
static inline double words_measure(struct words *words, const struct words_plan *plan,
                                   struct words_run *run)
{
    words_start(run, words, plan);
    words_wait(run);
    words_end(run);
    return words_rate(run);
}

#endif
