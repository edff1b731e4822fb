/*
 * What a task of a resident lane costs: an empty kernel submitted and waited for, many in flight, a program of 16
 * steps; alone and beside copies in both directions; beside it the same kernel as an ordinary task, and
 * on a CUDA device the raw limit in the same run: a kernel of one warp, written by hand, that looks at 32 entries at once.
 *
 *     resident [--device ID] [--beside ID] [--repetitions N] [--json FILE]
 *
 * --beside names another slice of the GPU: copies and arithmetic run there, alone and beside the lane.
 *
 * The exit status tells whether it could measure, not whether targets are met.
 */
#include "report.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>

#define TRIPS 20000
#define WARM 2000
#define FLIGHT 512
#define BATCH 128
#define BATCHES 400
#define STEPS 16
#define CELLS 256
#define COPY_BYTES ((size_t)64 << 20)
#define SLEEP_MS 500

static const char source[] =
    "#include \"muster_kernel.h\"\n"
    "MUSTER_KERNEL void nothing(uint64_t i) { (void)i; }\n"
    "MUSTER_KERNEL void scale(uint64_t i, uint32_t a, MUSTER_GLOBAL uint32_t *x)\n"
    "{ x[i] = x[i] * a + (uint32_t)i; }\n"
    "MUSTER_KERNEL void grind(uint64_t i, MUSTER_GLOBAL uint32_t *x)\n"
    "{ uint32_t y = x[i]; for (int k = 0; k < 2000; k++) y = y * 1664525u + 1013904223u; x[i] = y; "
    "}\n";

/* Reads the entries that come next, one each lane, and writes a word for each. */
static const char probe_source[] =
    "extern \"C\" __global__ void probe(unsigned long begin, unsigned long items,\n"
    "                                 unsigned long ring, unsigned long count)\n"
    "{\n"
    "    volatile unsigned long *stop = (volatile unsigned long *)ring;\n"
    "    unsigned char *entries = (unsigned char *)ring + 4096;\n"
    "    volatile unsigned long *ends = (volatile unsigned long *)(entries + count * 16);\n"
    "    unsigned long position = 0;\n"
    "    for (unsigned look = 0;; look++) {\n"
    "        unsigned long mine = position + threadIdx.x, at = mine % count, first, second, halt = "
    "0;\n"
    "        asm volatile(\"ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];\"\n"
    "                     : \"=l\"(first), \"=l\"(second) : \"l\"(entries + at * 16) : "
    "\"memory\");\n"
    "        if (threadIdx.x == 0) halt = *stop;\n"
    "        bool is_here = first == mine + 1;\n"
    "        unsigned here = __ballot_sync(0xffffffffu, is_here);\n"
    "        unsigned found = here == 0xffffffffu ? 32 : __ffs(~here) - 1;\n"
    "        if (threadIdx.x < found) ends[at] = first;\n"
    "        position += found;\n"
    "        if (__shfl_sync(0xffffffffu, halt, 0) && found == 0) break;\n"
    "    }\n"
    "}\n";

struct rig {
    struct bench bench;
    const char *name, *devices;
    struct muster *m;
    muster_device device;
    muster_stream stream;
    struct muster_kernel *nothing, *scale;
    struct muster_resident *lane;
    muster_block cells;
};

struct trip {
    double median_us, most_us; /* 99.9 % */
};

static struct muster_error problem;

static void must(const struct rig *rig, muster_status status, const char *what)
{
    if (status == MUSTER_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", rig->bench.name, what, problem.text);
    exit(1);
}

static struct muster_kernel *portable(const struct rig *rig, const char *entry)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = source,
                                             .code_bytes = sizeof source - 1,
                                             .entry = entry };
    struct muster_kernel *kernel = NULL;
    must(rig, muster_kernel_from(rig->m, entry, &form, 1, &kernel, &problem), entry);
    return kernel;
}

static void open_rig(struct rig *rig)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster_resident_options lane = MUSTER_RESIDENT_OPTIONS_INIT;
    uint32_t zeros[CELLS] = { 0 };
    options.devices = rig->devices;
    must(rig, muster_open(&rig->m, &options, &problem), "open");
    must(rig, muster_device_find(rig->m, rig->name, &rig->device, &problem), "device");
    must(rig, muster_stream_acquire(rig->m, rig->device, 0, &rig->stream, &problem), "stream");
    rig->nothing = portable(rig, "nothing");
    rig->scale = portable(rig, "scale");
    struct muster_kernel *kernels[] = { rig->nothing, rig->scale };
    must(rig, muster_resident_create(rig->m, rig->device, kernels, 2, &lane, &rig->lane, &problem),
         "lane");
    must(rig, muster_block_allocate(rig->m, rig->stream, sizeof zeros, &rig->cells, &problem),
         "block");
    must(rig, muster_copy_in(rig->m, rig->stream, rig->cells, 0, zeros, sizeof zeros, &problem),
         "copy");
    must(rig, muster_resident_attach(rig->lane, &rig->cells, 1, &problem), "attach");
}

static struct trip summarise_trips(double *us, int count)
{
    qsort(us, (size_t)count, sizeof *us, compare_doubles);
    return (struct trip){ us[count / 2], us[(size_t)count * 999 / 1000] };
}

/* Submits and waits, so often. */
static struct trip measure_trips(const struct rig *rig, const struct muster_task_desc *desc,
                                 int count)
{
    static double us[TRIPS];
    muster_task task;
    for (int i = -WARM; i < count; i++) {
        uint64_t begin_ns = clock_ns();
        must(rig, muster_submit(rig->m, desc, 1, &task, &problem), "submit");
        must(rig, muster_wait(rig->m, &task, 1, UINT64_MAX, &problem), "wait");
        if (i >= 0)
            us[i] = (double)(clock_ns() - begin_ns) / 1e3;
    }
    return summarise_trips(us, count);
}

static struct muster_task_desc empty_task(const struct rig *rig, bool is_resident)
{
    return (struct muster_task_desc){ .size = sizeof(struct muster_task_desc),
                                      .kernel = rig->nothing,
                                      .resident = is_resident ? rig->lane : NULL,
                                      .items = 1,
                                      .is_awaited = 1 };
}

/* Tasks a second with FLIGHT of them in flight, BATCH in a call. */
static double measure_rate(const struct rig *rig)
{
    struct muster_task_desc descs[BATCH];
    static muster_task tasks[FLIGHT / BATCH][BATCH];
    for (int i = 0; i < BATCH; i++)
        descs[i] = empty_task(rig, true);
    uint64_t begin_ns = clock_ns();
    for (int i = 0; i < BATCHES; i++) {
        muster_task *mine = tasks[i % (FLIGHT / BATCH)];
        if (i >= FLIGHT / BATCH)
            must(rig, muster_wait(rig->m, mine, BATCH, UINT64_MAX, &problem), "wait");
        must(rig, muster_submit(rig->m, descs, BATCH, mine, &problem), "submit");
    }
    must(rig, muster_wait(rig->m, NULL, 0, UINT64_MAX, &problem), "wait");
    return (double)BATCHES * BATCH / ((double)(clock_ns() - begin_ns) / 1e9);
}

/* A program of this many steps over one block; us for all of it. */
static struct trip measure_program(const struct rig *rig, size_t step_count)
{
    static const uint8_t both[] = { 0, 1 };
    static const uint32_t a = 3;
    struct muster_resident_step steps[STEPS];
    const struct muster_arg args[] = {
        { .size = sizeof *args, .kind = MUSTER_ARG_VALUE, .in = &a, .bytes = sizeof a },
        { .size = sizeof *args,
          .kind = MUSTER_ARG_DEVICE_INOUT,
          .block = rig->cells,
          .bytes = sizeof(uint32_t) },
    };
    for (size_t i = 0; i < step_count; i++)
        steps[i] = (struct muster_resident_step){ .size = sizeof *steps,
                                                  .kernel = rig->scale,
                                                  .items = CELLS,
                                                  .args = both,
                                                  .arg_count = 2 };
    struct muster_task_desc desc = { .size = sizeof desc,
                                     .resident = rig->lane,
                                     .steps = steps,
                                     .step_count = step_count,
                                     .items = CELLS,
                                     .args = args,
                                     .arg_count = 2,
                                     .is_awaited = 1 };
    return measure_trips(rig, &desc, TRIPS / 4);
}

/* Copies in both directions, until it is told to stop. */
struct copier {
    const struct rig *rig;
    pthread_t thread;
    _Atomic bool must_stop;
    uint64_t bytes;
    double seconds;
};

static void *copy_both_ways(void *argument)
{
    struct copier *copier = argument;
    const struct rig *rig = copier->rig;
    muster_stream streams[2];
    muster_block blocks[2];
    void *host[2];
    for (int i = 0; i < 2; i++) {
        must(rig, muster_stream_acquire(rig->m, rig->device, 0, &streams[i], &problem), "stream");
        must(rig, muster_block_allocate(rig->m, streams[i], COPY_BYTES, &blocks[i], &problem),
             "block");
        must(rig, muster_host_allocate(rig->m, rig->device, COPY_BYTES, &host[i], &problem),
             "host");
        memset(host[i], 1, COPY_BYTES);
    }
    uint64_t begin_ns = clock_ns();
    while (!atomic_load(&copier->must_stop)) {
        must(rig, muster_copy_in(rig->m, streams[0], blocks[0], 0, host[0], COPY_BYTES, &problem),
             "copy");
        must(rig, muster_copy_out(rig->m, streams[1], host[1], blocks[1], 0, COPY_BYTES, &problem),
             "copy");
        for (int i = 0; i < 2; i++)
            must(rig, muster_stream_wait(rig->m, streams[i], UINT64_MAX, &problem), "wait");
        copier->bytes += 2 * COPY_BYTES;
    }
    copier->seconds = (double)(clock_ns() - begin_ns) / 1e9;
    for (int i = 0; i < 2; i++) {
        muster_block_free(rig->m, streams[i], blocks[i], NULL);
        muster_stream_release(rig->m, streams[i], NULL);
        muster_host_free(rig->m, host[i], NULL);
    }
    return NULL;
}

/* Units of copies and arithmetic on another slice, one after the other on two streams. */
struct neighbour {
    const struct rig *rig;
    muster_device device;
    struct muster_kernel *grind;
    pthread_t thread;
    _Atomic bool must_stop;
    _Atomic uint64_t units;
};

static void *work_beside(void *argument)
{
    struct neighbour *neighbour = argument;
    const struct rig *rig = neighbour->rig;
    const size_t bytes = COPY_BYTES / 4;
    muster_stream streams[2];
    muster_block blocks[2];
    void *host;
    must(rig, muster_host_allocate(rig->m, neighbour->device, bytes, &host, &problem), "host");
    memset(host, 1, bytes);
    for (int i = 0; i < 2; i++) {
        must(rig, muster_stream_acquire(rig->m, neighbour->device, 0, &streams[i], &problem),
             "stream");
        must(rig, muster_block_allocate(rig->m, streams[i], bytes, &blocks[i], &problem), "block");
    }
    for (int i = 0; !atomic_load(&neighbour->must_stop); i ^= 1) {
        const struct muster_operand args[] = { MUSTER_BLOCK_UPDATE(blocks[i]) };
        must(rig, muster_stream_wait(rig->m, streams[i], UINT64_MAX, &problem), "wait");
        must(rig, muster_copy_in(rig->m, streams[i], blocks[i], 0, host, bytes, &problem), "copy");
        must(rig,
             muster_launch(rig->m, streams[i], neighbour->grind, 0, bytes / 4, args, 1, NULL,
                           &problem),
             "launch");
        atomic_fetch_add(&neighbour->units, 1);
    }
    for (int i = 0; i < 2; i++) {
        must(rig, muster_stream_wait(rig->m, streams[i], UINT64_MAX, &problem), "wait");
        muster_block_free(rig->m, streams[i], blocks[i], NULL);
        muster_stream_release(rig->m, streams[i], NULL);
    }
    muster_host_free(rig->m, host, NULL);
    return NULL;
}

/* The raw limit. */

struct probe {
    struct muster_kernel *kernel;
    muster_stream stream;
    volatile uint64_t *stop, *entries, *ends;
    uint64_t count, next;
    void *ring;
};

static bool open_probe(const struct rig *rig, struct probe *probe)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_CUDA,
                                             .code = probe_source,
                                             .code_bytes = sizeof probe_source - 1,
                                             .entry = "probe",
                                             .threads = 32 };
    *probe = (struct probe){ .count = 1024 };
    if (strncmp(rig->name, "cuda", 4) != 0)
        return false;
    size_t bytes = 4096 + probe->count * 24;
    must(rig, muster_kernel_from(rig->m, "probe", &form, 1, &probe->kernel, &problem), "probe");
    must(rig, muster_stream_acquire(rig->m, rig->device, 0, &probe->stream, &problem), "stream");
    must(rig, muster_host_allocate(rig->m, rig->device, bytes, &probe->ring, &problem), "ring");
    memset(probe->ring, 0, bytes);
    probe->stop = probe->ring;
    probe->entries = (volatile uint64_t *)((char *)probe->ring + 4096);
    probe->ends = probe->entries + 2 * probe->count;
    uint64_t ring = (uintptr_t)probe->ring;
    const struct muster_operand args[] = { MUSTER_SCALAR(ring), MUSTER_SCALAR(probe->count) };
    must(rig, muster_launch(rig->m, probe->stream, probe->kernel, 0, 32, args, 2, NULL, &problem),
         "probe");
    return true;
}

static void close_probe(const struct rig *rig, struct probe *probe)
{
    *probe->stop = 1;
    must(rig, muster_stream_wait(rig->m, probe->stream, UINT64_MAX, &problem), "probe");
    muster_stream_release(rig->m, probe->stream, NULL);
    muster_host_free(rig->m, probe->ring, NULL);
}

static void probe_post(struct probe *probe)
{
    uint64_t at = probe->next++ % probe->count;
    probe->entries[2 * at + 1] = 0;
    __atomic_store_n(&probe->entries[2 * at], probe->next, __ATOMIC_RELEASE);
}

static bool probe_has(const struct probe *probe, uint64_t number)
{
    return __atomic_load_n(&probe->ends[(number - 1) % probe->count], __ATOMIC_ACQUIRE) == number;
}

static struct trip probe_trips(struct probe *probe, int count)
{
    static double us[TRIPS];
    for (int i = -WARM; i < count; i++) {
        uint64_t begin_ns = clock_ns();
        probe_post(probe);
        while (!probe_has(probe, probe->next)) {}
        if (i >= 0)
            us[i] = (double)(clock_ns() - begin_ns) / 1e3;
    }
    return summarise_trips(us, count);
}

static double probe_rate(struct probe *probe)
{
    uint64_t first = probe->next, seen = first, last = first + (uint64_t)BATCHES * BATCH * 10;
    uint64_t begin_ns = clock_ns();
    while (seen < last) {
        while (probe->next < last && probe->next - seen < FLIGHT)
            probe_post(probe);
        while (seen < probe->next && probe_has(probe, seen + 1))
            seen++;
    }
    return (double)(last - first) / ((double)(clock_ns() - begin_ns) / 1e9);
}

/* What it costs to do nothing. */

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6 +
           (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec / 1e6;
}

/* Part of one core that the process takes while the lane has nothing to do. */
static double idle_share(void)
{
    double before = cpu_seconds();
    uint64_t begin_ns = clock_ns();
    nanosleep(&(struct timespec){ 0, SLEEP_MS * 1000000L }, NULL);
    return (cpu_seconds() - before) / ((double)(clock_ns() - begin_ns) / 1e9);
}

static double power_w(const struct rig *rig)
{
    double watts = -1;
    char command[128];
    if (strncmp(rig->name, "cuda:", 5) != 0)
        return watts;
    snprintf(command, sizeof command,
             "nvidia-smi -i %d --query-gpu=power.draw --format=csv,noheader,nounits 2>/dev/null",
             atoi(rig->name + 5));
    FILE *answer = popen(command, "r");
    if (answer && fscanf(answer, "%lf", &watts) != 1)
        watts = -1;
    if (answer)
        pclose(answer);
    return watts;
}

/* Output. */

static void say(struct rig *rig, const char *what, const char *key, double value, const char *unit,
                double target)
{
    printf("%-52s %12.3f %-12s", what, value, unit);
    if (target > 0)
        printf(" at most %.2f: %s", target, verdict(value <= target));
    if (target < 0)
        printf(" at least %.2f: %s", -target, verdict(value >= -target));
    printf("\n");
    fflush(stdout);
    if (!rig->bench.json)
        return;
    fprintf(rig->bench.json, "%s\n{\"%s\":%.6g}", rig->bench.has_row ? "," : "", key, value);
    rig->bench.has_row = true;
}

static void say_trip(struct rig *rig, const char *what, const char *key, struct trip trip,
                     double target, double most)
{
    char text[96], name[96];
    snprintf(text, sizeof text, "%s, median", what);
    snprintf(name, sizeof name, "%s_us", key);
    say(rig, text, name, trip.median_us, "us", target);
    snprintf(text, sizeof text, "%s, 99.9 %%", what);
    snprintf(name, sizeof name, "%s_most_us", key);
    say(rig, text, name, trip.most_us, "us", most);
}

/* Nothing where nobody can be asked. */
static void say_power(struct rig *rig, const char *what, const char *key)
{
    double watts = power_w(rig);
    if (watts >= 0)
        say(rig, what, key, watts, "W", 0);
}

static double best_rate(const struct rig *rig)
{
    double rates[REPETITIONS_MAX];
    for (int i = 0; i < rig->bench.repetitions; i++)
        rates[i] = measure_rate(rig);
    return summarise(rates, rig->bench.repetitions).median;
}

static void measure_all(struct rig *rig, bool is_cuda)
{
    struct muster_task_desc resident = empty_task(rig, true), ordinary = empty_task(rig, false);
    say_trip(rig, "empty task, submit and wait", "trip", measure_trips(rig, &resident, TRIPS),
             is_cuda ? 3.0 : 0, is_cuda ? 25.0 : 0);
    say(rig, "512 in flight, 128 in a call", "rate", best_rate(rig) / 1e6, "million/s",
        is_cuda ? -10.0 : 0);
    struct trip one = measure_program(rig, 1), all = measure_program(rig, STEPS);
    say_trip(rig, "program of 1 step", "program_1", one, 0, 0);
    say_trip(rig, "program of 16 steps", "program_16", all, 0, 0);
    say(rig, "each further step", "step_us", (all.median_us - one.median_us) / (STEPS - 1), "us",
        is_cuda ? 0.5 : 0);
    say_trip(rig, "ordinary task, submit and wait", "ordinary",
             measure_trips(rig, &ordinary, TRIPS / 4), 0, 0);
}

static void measure_beside_copies(struct rig *rig, bool is_cuda)
{
    struct copier copier = { .rig = rig };
    struct muster_task_desc resident = empty_task(rig, true);
    if (pthread_create(&copier.thread, NULL, copy_both_ways, &copier) != 0)
        stop(&rig->bench, "no thread");
    nanosleep(&(struct timespec){ 0, 200000000L }, NULL);
    say_trip(rig, "the same beside copies both ways", "trip_copies",
             measure_trips(rig, &resident, TRIPS), is_cuda ? 8.0 : 0, 0);
    atomic_store(&copier.must_stop, true);
    pthread_join(copier.thread, NULL);
    say(rig, "copies meanwhile", "copies_gb_s", (double)copier.bytes / copier.seconds / 1e9, "GB/s",
        0);
}

static double units_per_s(struct neighbour *neighbour, const struct muster_task_desc *task,
                          struct trip *trip)
{
    uint64_t before = atomic_load(&neighbour->units), begin_ns = clock_ns();
    if (task)
        while (clock_ns() - begin_ns < SLEEP_MS * 1000000u)
            *trip = measure_trips(neighbour->rig, task, TRIPS / 4);
    else
        nanosleep(&(struct timespec){ 0, SLEEP_MS * 1000000L }, NULL);
    return (double)(atomic_load(&neighbour->units) - before) /
           ((double)(clock_ns() - begin_ns) / 1e9);
}

static void measure_beside(struct rig *rig, const char *other)
{
    struct neighbour neighbour = { .rig = rig, .grind = portable(rig, "grind") };
    struct muster_task_desc resident = empty_task(rig, true);
    struct trip trip = { 0, 0 };
    must(rig, muster_device_find(rig->m, other, &neighbour.device, &problem), "device");
    if (pthread_create(&neighbour.thread, NULL, work_beside, &neighbour) != 0)
        stop(&rig->bench, "no thread");
    nanosleep(&(struct timespec){ 0, 300000000L }, NULL);
    say(rig, "copies and arithmetic on another slice, alone", "units",
        units_per_s(&neighbour, NULL, NULL), "units/s", 0);
    say(rig, "the same beside the lane", "units_beside", units_per_s(&neighbour, &resident, &trip),
        "units/s", 0);
    say_trip(rig, "empty task meanwhile", "trip_beside", trip, 0, 0);
    atomic_store(&neighbour.must_stop, true);
    pthread_join(neighbour.thread, NULL);
}

static void measure_raw(struct rig *rig)
{
    struct probe probe;
    if (!open_probe(rig, &probe))
        return;
    say_trip(rig, "raw probe, an entry there and back", "raw", probe_trips(&probe, TRIPS), 0, 0);
    say(rig, "raw probe, 512 in flight", "raw_rate", probe_rate(&probe) / 1e6, "million/s", 0);
    close_probe(rig, &probe);
}

static void measure_rest(struct rig *rig)
{
    struct muster_task_desc resident = empty_task(rig, true);
    struct muster_resident_report report = { .size = sizeof report };
    struct muster_resident_options options = MUSTER_RESIDENT_OPTIONS_INIT;
    struct muster_resident *lane = NULL;
    struct muster_kernel *kernels[] = { rig->nothing };
    must(rig, muster_resident_park(rig->lane, &problem), "park");
    say(rig, "host CPU while it is parked", "cpu_parked", 100 * idle_share(), "% of a core", 0);
    say_power(rig, "power while it is parked", "power_parked");
    options.idle_ns = UINT64_MAX;
    must(rig, muster_resident_create(rig->m, rig->device, kernels, 1, &options, &lane, &problem),
         "lane");
    resident.resident = lane;
    measure_trips(rig, &resident, 10);
    say(rig, "host CPU while it looks at an empty ring", "cpu_looking", 100 * idle_share(),
        "% of a core", 0);
    say_power(rig, "power while it looks at an empty ring", "power_looking");
    must(rig, muster_resident_destroy(lane, &problem), "destroy");
    must(rig, muster_resident_report(rig->lane, &report, &problem), "report");
    say(rig, "slowest leaving", "leave_us", (double)report.leave_ns / 1e3, "us", 1000);
    printf("%u cores, %u threads each; %llu starts, %llu times parked\n", report.cores,
           report.threads, (unsigned long long)report.starts, (unsigned long long)report.parks);
}

int main(int argc, char **argv)
{
    struct rig rig = { .name = "cpu:0" };
    const char *json = NULL, *other = NULL;
    char devices[64];
    rig.bench = (struct bench){ .name = "resident", .repetitions = 7 };
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--repetitions") == 0)
            rig.bench.repetitions = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--json") == 0)
            json = argv[i + 1];
        else if (strcmp(argv[i], "--device") == 0)
            rig.name = argv[i + 1];
        else if (strcmp(argv[i], "--beside") == 0)
            other = argv[i + 1];
        else
            rig.bench.repetitions = 0;
    }
    if (argc % 2 == 0 || rig.bench.repetitions < REPETITIONS_MIN ||
        rig.bench.repetitions > REPETITIONS_MAX) {
        fprintf(stderr,
                "usage: resident [--device ID] [--beside ID] [--repetitions %d-%d] [--json FILE]\n",
                REPETITIONS_MIN, REPETITIONS_MAX);
        return 2;
    }
    bench_open(&rig.bench, json);
    bool is_cuda = strncmp(rig.name, "cuda", 4) == 0;
    snprintf(devices, sizeof devices, "%s%s%s", rig.name, other ? "," : "", other ? other : "");
    rig.devices = devices;
    open_rig(&rig);
    printf("device %s; %d trips each, rates the median of %d\n\n", rig.name, TRIPS,
           rig.bench.repetitions);
    measure_raw(&rig);
    measure_all(&rig, is_cuda);
    measure_beside_copies(&rig, is_cuda);
    if (other)
        measure_beside(&rig, other);
    measure_rest(&rig);
    must(&rig, muster_resident_destroy(rig.lane, &problem), "destroy");
    must(&rig, muster_close(rig.m, &problem), "close");
    if (rig.bench.json && (fprintf(rig.bench.json, "]}\n") < 0 || fclose(rig.bench.json) != 0))
        return 1;
    return 0;
}
