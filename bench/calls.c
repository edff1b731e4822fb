/*
 * What a unit of a kernel job costs in rounds through the runtime's lock and in calls of the backend.
 *
 *     calls [--repetitions N] [--json FILE]
 *
 * The job reads a float and writes one, over 16 Mi items in plain memory; the unit is what the caller
 * asks for. "gpu" is the sim backend, saying that it is a GPU: small units go together there. All from
 * the job's start to its end is counted and divided by the number of the caller's units. A round is one
 * call that takes the lock; a sleep is a wait on a condition with it, which takes it once more. A call is
 * one of a function of the backend's table that has to do with streams, events or memory. Counts change
 * little with the load of the machine.
 */
#include "jobs.h"

#include "backend/cpu/cpu.h"
#include "backend/sim/sim.h"
#include "run/base/runtime.h"

#include <stdatomic.h>

#define ITEMS ((uint64_t)16 << 20)
/* In this much time a simulated device does nothing that would count. */
#define SIM "[{\"items_per_s\": 1e12}]"

static const struct muster_backend *backend; /* what is counted */
static struct platform_mutex *lock;          /* of the runtime */
static _Atomic uint64_t rounds, sleeps, calls;

/* The lock. */

void __real_platform_mutex_lock(struct platform_mutex *mutex);
void __wrap_platform_mutex_lock(struct platform_mutex *mutex);
bool __real_platform_condition_wait(struct platform_condition *condition,
                                    struct platform_mutex *mutex, uint64_t deadline_ns);
bool __wrap_platform_condition_wait(struct platform_condition *condition,
                                    struct platform_mutex *mutex, uint64_t deadline_ns);

void __wrap_platform_mutex_lock(struct platform_mutex *mutex)
{
    if (mutex == lock)
        atomic_fetch_add_explicit(&rounds, 1, memory_order_relaxed);
    __real_platform_mutex_lock(mutex);
}

bool __wrap_platform_condition_wait(struct platform_condition *condition,
                                    struct platform_mutex *mutex, uint64_t deadline_ns)
{
    if (mutex == lock)
        atomic_fetch_add_explicit(&sleeps, 1, memory_order_relaxed);
    return __real_platform_condition_wait(condition, mutex, deadline_ns);
}

/* The backend. */

#define COUNTED(name, parameters, ...)                                                             \
    static muster_status count_##name parameters                                                   \
    {                                                                                              \
        atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);                                \
        return backend->name(__VA_ARGS__);                                                         \
    }

COUNTED(memory_allocate,
        (void *device, void *stream, uint64_t bytes, struct muster_memory *out,
         struct muster_error *err),
        device, stream, bytes, out, err)
COUNTED(memory_free,
        (void *device, void *stream, struct muster_memory *memory, struct muster_error *err),
        device, stream, memory, err)
COUNTED(stream_wait, (void *stream, void *event, struct muster_error *err), stream, event, err)
COUNTED(stream_query, (void *stream, struct muster_error *err), stream, err)
COUNTED(event_record, (void *event, void *stream, struct muster_error *err), event, stream, err)
COUNTED(event_query, (void *event, struct muster_error *err), event, err)
COUNTED(event_wait, (void *event, uint64_t timeout_ns, struct muster_error *err), event, timeout_ns,
        err)
COUNTED(event_elapsed, (void *begin, void *end, uint64_t *ns, struct muster_error *err), begin, end,
        ns, err)
COUNTED(gate_publish, (void *gate, uint64_t value, struct muster_error *err), gate, value, err)
COUNTED(gate_wait, (void *gate, void *stream, uint64_t value, struct muster_error *err), gate,
        stream, value, err)
COUNTED(copy, (void *stream, const struct muster_copy_desc *copy, struct muster_error *err), stream,
        copy, err)
COUNTED(fill,
        (void *stream, const struct muster_place *to, uint8_t value, uint64_t bytes,
         struct muster_error *err),
        stream, to, value, bytes, err)
COUNTED(host_call,
        (void *stream, void (*function)(void *user, muster_status status), void *user,
         struct muster_error *err),
        stream, function, user, err)
COUNTED(launch,
        (void *stream, void *kernel, const struct muster_launch_desc *launches, size_t count,
         struct muster_error *err),
        stream, kernel, launches, count, err)

static muster_status open_gpu(void *state, uint32_t index, void *device,
                              struct muster_device_info *info, struct muster_error *err)
{
    muster_status status = backend->device_open(state, index, device, info, err);
    info->kind = MUSTER_KIND_GPU;
    return status;
}

static struct muster *open_counted(const struct bench *bench, const struct muster_backend *of,
                                   bool is_gpu)
{
    static struct muster_backend table;
    static const struct muster_backend *const tables[] = { &table };
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster_error err;
    struct muster *m;
    backend = of;
    table = *of;
    table.name = "counted";
    table.memory_allocate = count_memory_allocate;
    table.memory_free = count_memory_free;
    table.stream_wait = count_stream_wait;
    table.stream_query = count_stream_query;
    table.event_record = count_event_record;
    table.event_query = count_event_query;
    table.event_wait = count_event_wait;
    table.event_elapsed = count_event_elapsed;
    table.gate_publish = count_gate_publish;
    table.gate_wait = count_gate_wait;
    table.copy = count_copy;
    table.fill = count_fill;
    table.host_call = count_host_call;
    table.launch = count_launch;
    if (is_gpu)
        table.device_open = open_gpu;
    options.backends = (const struct muster_backend **)(uintptr_t)tables;
    options.backend_count = 1;
    options.devices = "counted";
    options.sim = of == &backend_sim ? SIM : NULL;
    if (muster_open(&m, &options, &err) != MUSTER_OK)
        stop(bench, err.text);
    lock = &m->lock;
    return m;
}

/* The rows. */

static const struct row {
    const char *what;
    const struct muster_backend *backend;
    bool is_gpu;
    uint64_t unit_bytes; /* read, and as many written */
} rows[] = {
    { "sim, 64 KiB", &backend_sim, false, 64 << 10 },
    { "gpu, 64 KiB", &backend_sim, true, 64 << 10 },
    { "gpu, 1 MiB", &backend_sim, true, 1 << 20 },
    { "cpu, 64 KiB", &backend_cpu, false, 64 << 10 },
    { "cpu, 1 MiB", &backend_cpu, false, 1 << 20 },
};

static muster_status twice(uint64_t begin, uint64_t end, void *const *args)
{
    const float *from = *(const float *const *)args[0];
    float *to = *(float *const *)args[1];
    for (uint64_t i = begin; i < end; i++)
        to[i] = 2 * from[i];
    return MUSTER_OK;
}

static void count_row(struct bench *bench, const struct row *row, float *x, float *y)
{
    static double counts[3][REPETITIONS_MAX];
    struct muster *m = open_counted(bench, row->backend, row->is_gpu);
    struct muster_kernel *kernel = make_kernel(bench, m, twice);
    struct muster_run_options how = { .size = sizeof how,
                                      .unit_items = row->unit_bytes / sizeof *x };
    const struct muster_arg args[] = { MUSTER_IN(x), MUSTER_OUT(y) };
    uint64_t units = ITEMS / how.unit_items;
    struct muster_error err;
    for (int r = -1; r < bench->repetitions; r++) { /* the first makes what is kept between jobs */
        memset(y, 0, ITEMS * sizeof *y);
        rounds = sleeps = calls = 0;
        if (muster_for(m, kernel, ITEMS, args, 2, &how, NULL, &err) != MUSTER_OK)
            stop(bench, err.text);
        for (int c = 0; r >= 0 && c < 3; c++)
            counts[c][r] = (double)(c == 0 ? rounds : c == 1 ? sleeps : calls) / (double)units;
        for (uint64_t i = 0; i < ITEMS; i++)
            if (y[i] != 2 * x[i])
                stop(bench, "a result is wrong");
    }
    lock = NULL;
    muster_close(m, NULL);
    struct sample of[3];
    for (int c = 0; c < 3; c++)
        of[c] = summarise(counts[c], bench->repetitions);
    printf("%-12s %5llu  %6.2f (%.2f-%.2f)  %6.2f (%.2f-%.2f)  %6.2f (%.2f-%.2f)\n", row->what,
           (unsigned long long)units, of[0].median, of[0].least, of[0].greatest, of[1].median,
           of[1].least, of[1].greatest, of[2].median, of[2].least, of[2].greatest);
    row_begin(bench, row->what);
    row_number(bench, "units", (double)units);
    row_sample(bench, "lock_rounds", of[0]);
    row_sample(bench, "sleeps", of[1]);
    row_sample(bench, "backend_calls", of[2]);
    row_end(bench);
}

int main(int argc, char **argv)
{
    struct bench bench;
    bench_begin(&bench, "calls", 11, argc, argv);
    float *x = malloc(ITEMS * sizeof *x), *y = malloc(ITEMS * sizeof *y);
    if (!x || !y)
        stop(&bench, "out of memory");
    for (uint64_t i = 0; i < ITEMS; i++)
        x[i] = (float)(i % 2003);
    printf("for each unit, median (least-greatest) of %d\n\n%-12s %5s  %-20s  %-20s  %s\n",
           bench.repetitions, "", "units", "lock rounds", "sleeps", "backend calls");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        count_row(&bench, &rows[i], x, y);
    free(x);
    free(y);
    return bench_end(&bench);
}
