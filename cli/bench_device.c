#include "bench_device.h"

#include "figures.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ITEMS_MIN UINT64_C(1024)
#define GROWTH 8
/* A device that is not done by then is not waited for. */
#define WAIT_NS UINT64_C(10000000000)
#define COPIES_AT_ONCE 4
#define REPETITIONS 3
/* Of the rate it is compared with: below it copies, or kernels, are called slow. */
#define SLOW_OF_LINK 0.5
#define SLOW_OF_PEER 0.7

/* A few rounds of shifts and multiplications, so that a wrong bit anywhere spreads over the item. */
#define ROUNDS 16
static uint32_t mix(uint32_t x)
{
    for (int round = 0; round < ROUNDS; round++) {
        x ^= x >> 16;
        x *= 0x7feb352du;
        x ^= x >> 15;
        x += 0x9e3779b9u;
    }
    return x;
}

static muster_status mix_range(uint64_t begin, uint64_t end, void *const *args)
{
    const uint32_t *in = *(const uint32_t *const *)args[0];
    uint32_t *out = *(uint32_t *const *)args[1];
    for (uint64_t i = begin; i < end; i++)
        out[i] = mix(in[i]);
    return MUSTER_OK;
}

/* The same for compilers that are here now. */
static const char source[] =
    "#include <muster_kernel.h>\n"
    "\n"
    "MUSTER_KERNEL void mix(uint64_t i, MUSTER_GLOBAL const uint32_t *in, MUSTER_GLOBAL uint32_t "
    "*out)\n"
    "{\n"
    "    uint32_t x = in[i];\n"
    "    for (int round = 0; round < 16; round++) {\n"
    "        x ^= x >> 16;\n"
    "        x *= 0x7feb352du;\n"
    "        x ^= x >> 15;\n"
    "        x += 0x9e3779b9u;\n"
    "    }\n"
    "    out[i] = x;\n"
    "}\n";
_Static_assert(ROUNDS == 16, "as in the source");

uint64_t bench_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void bench_median_add(struct bench_median *median, uint64_t ns)
{
    if (median->count < BENCH_TIMES_MAX)
        median->times[median->count++] = ns;
}

static int by_time(const void *a, const void *b)
{
    uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
    return first < second ? -1 : first > second;
}

uint64_t bench_median_of(struct bench_median *median)
{
    qsort(median->times, median->count, sizeof *median->times, by_time);
    return median->count > 0 ? median->times[median->count / 2] : 0;
}

/* The plan. */

muster_status bench_plan_init(struct bench_plan *plan, struct muster *m, bool is_quick,
                              struct muster_error *err)
{
    const struct muster_kernel_form forms[] = {
        { .size = sizeof *forms,
          .kind = MUSTER_KERNEL_PORTABLE,
          .code = source,
          .code_bytes = sizeof source - 1,
          .entry = "mix" },
        { .size = sizeof *forms, .kind = MUSTER_KERNEL_FUNCTION, .function = mix_range }
    };
    *plan = (struct bench_plan){ .target_ns = is_quick ? 20000000 : 200000000,
                                 .items_max = UINT64_C(1) << (is_quick ? 20 : 23) };
    plan->in = malloc(plan->items_max * sizeof *plan->in);
    plan->out = calloc(plan->items_max, sizeof *plan->out);
    plan->expected = malloc(plan->items_max * sizeof *plan->expected);
    muster_status status = MUSTER_OK;
    if (!plan->in || !plan->out || !plan->expected) {
        *err = (struct muster_error){ .size = sizeof *err, .status = MUSTER_E_NO_MEMORY };
        snprintf(err->text, sizeof err->text, "no memory for three arrays of %llu items",
                 (unsigned long long)plan->items_max);
        status = err->status;
    }
    if (status == MUSTER_OK)
        status = muster_kernel_from(m, "mix", forms, 1, &plan->portable, err);
    if (status == MUSTER_OK)
        status = muster_kernel_from(m, "mix", forms, 2, &plan->either, err);
    if (status != MUSTER_OK) {
        bench_plan_deinit(plan);
        return status;
    }
    for (uint64_t i = 0; i < plan->items_max; i++) {
        plan->in[i] = (uint32_t)i * 2654435761u;
        plan->expected[i] = mix(plan->in[i]);
    }
    return MUSTER_OK;
}

void bench_plan_deinit(struct bench_plan *plan)
{
    muster_kernel_destroy(plan->portable);
    muster_kernel_destroy(plan->either);
    free(plan->in);
    free(plan->out);
    free(plan->expected);
    *plan = (struct bench_plan){ 0 };
}

static void compare(const struct bench_plan *plan, const uint32_t *out, uint64_t items,
                    struct bench_device *device)
{
    device->checked += items;
    if (memcmp(out, plan->expected, items * sizeof *out) == 0)
        return;
    for (uint64_t i = 0; i < items; i++)
        device->wrong += out[i] != plan->expected[i];
}

/* One device. */

struct session {
    struct muster *m;
    const struct bench_plan *plan;
    struct bench_device *device;
    muster_stream stream;
    muster_block in, out;
    uint32_t *host_in, *host_out; /* pinned */
    uint64_t items;               /* that the blocks have room for */
    struct muster_kernel *kernel; /* borrowed from the plan */
};

static muster_status wait_for(const struct session *s)
{
    return muster_stream_wait(s->m, s->stream, WAIT_NS, &s->device->why);
}

static muster_status launch(const struct session *s, uint64_t items)
{
    const struct muster_operand args[] = { MUSTER_BLOCK_READ(s->in), MUSTER_BLOCK_WRITE(s->out) };
    muster_status status =
        muster_launch(s->m, s->stream, s->kernel, 0, items, args, 2, NULL, &s->device->why);
    return status == MUSTER_OK ? wait_for(s) : status;
}

/* Has the kernel compiled, or takes the one that is compiled already where that cannot be. */
static muster_status choose_kernel(struct session *s)
{
    s->kernel = s->plan->portable;
    muster_status status = launch(s, 1);
    if (status == MUSTER_OK || !(s->device->info.forms & MUSTER_KERNEL_FUNCTION) ||
        muster_status_discards(status) != MUSTER_DISCARD_REQUEST)
        return status;
    s->device->source = s->device->why;
    s->kernel = s->plan->either;
    return launch(s, 1);
}

static muster_status copy(const struct session *s, bool is_in, uint64_t bytes)
{
    for (int i = 0; i < COPIES_AT_ONCE; i++) {
        muster_status status =
            is_in
                ? muster_copy_in(s->m, s->stream, s->in, 0, s->host_in, bytes, &s->device->why)
                : muster_copy_out(s->m, s->stream, s->host_out, s->out, 0, bytes, &s->device->why);
        if (status != MUSTER_OK)
            return status;
    }
    return wait_for(s);
}

/* What is measured over a growing number of items; the best rate is in items a second. */
typedef muster_status (*measured)(const struct session *s, uint64_t items);

static muster_status do_copy_in(const struct session *s, uint64_t items)
{
    return copy(s, true, items * sizeof(uint32_t));
}

static muster_status do_copy_out(const struct session *s, uint64_t items)
{
    return copy(s, false, items * sizeof(uint32_t));
}

static muster_status grow(const struct session *s, measured work, uint64_t *items, double *rate)
{
    uint64_t enough = s->plan->target_ns / (2 * REPETITIONS), best = 0;
    *items = ITEMS_MIN < s->items ? ITEMS_MIN : s->items;
    for (int i = 0; i < REPETITIONS;) {
        uint64_t begin = bench_now();
        muster_status status = work(s, *items);
        if (status != MUSTER_OK)
            return status;
        uint64_t ns = bench_now() - begin + 1;
        if (ns < enough && *items < s->items) {
            *items = *items * GROWTH < s->items ? *items * GROWTH : s->items;
            continue;
        }
        best = i == 0 || ns < best ? ns : best;
        /* So slow that once is enough. */
        i += ns > s->plan->target_ns ? REPETITIONS : 1;
    }
    *rate = (double)*items / (double)best * 1e9;
    return MUSTER_OK;
}

static muster_status measure_launch(const struct session *s)
{
    struct bench_median median = { .count = 0 };
    uint64_t end = bench_now() + s->plan->target_ns / 4;
    while ((bench_now() < end && median.count < BENCH_TIMES_MAX) || median.count == 0) {
        uint64_t begin = bench_now();
        muster_status status = launch(s, 1);
        if (status != MUSTER_OK)
            return status;
        bench_median_add(&median, bench_now() - begin);
    }
    s->device->launch_ns = bench_median_of(&median);
    return MUSTER_OK;
}

/* With memory in hand. */
static muster_status measure_all(struct session *s)
{
    struct bench_device *device = s->device;
    uint64_t items, done;
    double rate = 0;
    memcpy(s->host_in, s->plan->in, s->items * sizeof *s->host_in);
    memset(s->host_out, 0, s->items * sizeof *s->host_out);
    muster_status status = grow(s, do_copy_in, &items, &rate);
    if (status != MUSTER_OK)
        return status;
    device->in_rate = rate * COPIES_AT_ONCE * sizeof(uint32_t);
    if ((status = choose_kernel(s)) != MUSTER_OK ||
        (status = grow(s, launch, &done, &device->kernel_rate)) != MUSTER_OK)
        return status;
    /* As much of the input as the kernel went over; on a slow device the copies stopped earlier. */
    if ((status = muster_copy_in(s->m, s->stream, s->in, 0, s->host_in, done * sizeof *s->host_in,
                                 &device->why)) != MUSTER_OK ||
        (status = launch(s, done)) != MUSTER_OK ||
        (status = muster_copy_out(s->m, s->stream, s->host_out, s->out, 0,
                                  done * sizeof *s->host_out, &device->why)) != MUSTER_OK ||
        (status = wait_for(s)) != MUSTER_OK)
        return status;
    compare(s->plan, s->host_out, done, device);
    if ((status = grow(s, do_copy_out, &items, &rate)) != MUSTER_OK)
        return status;
    device->out_rate = rate * COPIES_AT_ONCE * sizeof(uint32_t);
    return measure_launch(s);
}

static muster_status measure_with_stream(struct session *s, muster_device handle)
{
    struct muster_error *why = &s->device->why;
    muster_block blocks[2];
    void *host_in = NULL, *host_out = NULL;
    muster_status status;
    /* A small device is given as much as it has room for. */
    for (s->items = s->plan->items_max;; s->items /= GROWTH) {
        const uint64_t bytes[2] = { s->items * sizeof(uint32_t), s->items * sizeof(uint32_t) };
        status = muster_block_allocate_many(s->m, s->stream, bytes, 2, 0, blocks, why);
        if (status == MUSTER_OK || s->items / GROWTH < ITEMS_MIN)
            break;
    }
    if (status != MUSTER_OK)
        return status;
    s->in = blocks[0];
    s->out = blocks[1];
    size_t host_bytes = (size_t)s->items * sizeof(uint32_t);
    if ((status = muster_host_allocate(s->m, handle, host_bytes, &host_in, why)) == MUSTER_OK &&
        (status = muster_host_allocate(s->m, handle, host_bytes, &host_out, why)) == MUSTER_OK) {
        s->host_in = host_in;
        s->host_out = host_out;
        status = measure_all(s);
    }
    muster_block_free(s->m, s->stream, s->in, NULL);
    muster_block_free(s->m, s->stream, s->out, NULL);
    /* A device that hangs may still write there; then they go with the runtime. */
    if (status != MUSTER_E_TIMEOUT) {
        if (host_in)
            muster_host_free(s->m, host_in, NULL);
        if (host_out)
            muster_host_free(s->m, host_out, NULL);
    }
    return status;
}

void bench_device_measure(struct muster *m, const struct bench_plan *plan,
                          struct bench_device *device)
{
    struct session s = { .m = m, .plan = plan, .device = device };
    muster_device handle;
    device->why = (struct muster_error){ .size = sizeof device->why };
    device->source = device->why;
    muster_status status = muster_device_find(m, device->info.id, &handle, &device->why);
    if (status == MUSTER_OK)
        status = muster_stream_acquire(m, handle, 0, &s.stream, &device->why);
    if (status == MUSTER_OK) {
        status = measure_with_stream(&s, handle);
        muster_stream_release(m, s.stream, NULL);
    }
    /* A call that went well may have left the words of one that did not. */
    device->why.status = status;
    struct muster_device_load load = { .size = sizeof load };
    if (muster_device_find(m, device->info.id, &handle, NULL) == MUSTER_OK &&
        muster_device_load(m, handle, &load, NULL) == MUSTER_OK)
        device->load = load;
}

bool bench_device_is_right(const struct bench_device *device)
{
    return device->why.status == MUSTER_OK && device->wrong == 0 && device->checked > 0;
}

bool bench_job(struct muster *m, const struct bench_plan *plan, struct bench_device *device,
               const char *ids, double *rate, struct muster_error *err)
{
    const struct muster_arg args[] = { MUSTER_IN(plan->in), MUSTER_OUT(plan->out) };
    const struct muster_run_options how = { .size = sizeof how,
                                            .devices = ids,
                                            .everyone = plan->is_everyone };
    struct muster_report report = { .size = sizeof report };
    double expected = device->kernel_rate * (double)plan->target_ns / 1e9;
    uint64_t items = expected < (double)plan->items_max ? (uint64_t)expected : plan->items_max;
    items = items < ITEMS_MIN ? ITEMS_MIN : items;
    uint64_t best = 0;
    for (int i = 0; i < REPETITIONS; i++) {
        memset(plan->out, 0, items * sizeof *plan->out);
        uint64_t begin = bench_now();
        if (muster_for(m, plan->either, items, args, 2, &how, &report, err) != MUSTER_OK)
            return false;
        uint64_t ns = bench_now() - begin;
        compare(plan, plan->out, items, device);
        best = i == 0 || ns < best ? ns : best;
        if (ns > plan->target_ns)
            break;
    }
    *rate = (double)items / (double)best * 1e9;
    return true;
}

/* In words. */

static void say(struct bench_device *device, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void say(struct bench_device *device, const char *format, ...)
{
    size_t length = strlen(device->verdict);
    va_list arguments;
    if (length > 0)
        length += (size_t)snprintf(device->verdict + length, sizeof device->verdict - length, "; ");
    if (length >= sizeof device->verdict)
        return;
    va_start(arguments, format);
    vsnprintf(device->verdict + length, sizeof device->verdict - length, format, arguments);
    va_end(arguments);
}

/* A number at the beginning of a file about a PCI device; 0 if there is none. */
static double pci_number(const char *pci, const char *what)
{
    char path[96], text[64] = "";
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/%s", pci, what);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    bool is_read = fgets(text, sizeof text, file) != NULL;
    fclose(file);
    double number = is_read ? strtod(text, NULL) : 0;
    return number > 0 && number < 1000 ? number : 0;
}

/* What the link could carry one way, in bytes a second, as the kernel says it runs; 0: unknown. */
static double link_rate(const char *pci)
{
    double transfers = pci_number(pci, "current_link_speed"); /* "32.0 GT/s PCIe" */
    double lanes = pci_number(pci, "current_link_width");
    /* One bit a transfer and lane; ten for eight below 8 GT/s, 130 for 128 from there on. */
    return transfers * 1e9 * lanes / 8 * (transfers < 8 ? 0.8 : 128.0 / 130);
}

/* What this processor copies in memory. */
static double memory_rate(const struct bench_plan *plan)
{
    size_t bytes = plan->items_max * sizeof *plan->out;
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < REPETITIONS; i++) {
        uint64_t begin = bench_now();
        memcpy(plan->out, plan->in, bytes);
        uint64_t ns = bench_now() - begin + 1;
        best = ns < best ? ns : best;
    }
    return (double)bytes / (double)best * 1e9;
}

static void judge_copies(const struct bench_plan *plan, struct bench_device *device,
                         const struct bench_device *peer)
{
    double slower = device->in_rate < device->out_rate ? device->in_rate : device->out_rate;
    double link = *device->info.pci ? link_rate(device->info.pci) : 0;
    double lanes = pci_number(device->info.pci, "current_link_width");
    double lanes_max = pci_number(device->info.pci, "max_link_width");
    double memory = device->info.kind == MUSTER_KIND_CPU ? memory_rate(plan) : 0;
    if (link > 0 && slower < SLOW_OF_LINK * link)
        say(device, "slow copies: %.3g GB/s over a link that carries %.3g GB/s", slower / 1e9,
            link / 1e9);
    else if (memory > 0 && slower < SLOW_OF_LINK * memory)
        say(device, "slow copies: %.3g GB/s where memcpy has %.3g GB/s", slower / 1e9,
            memory / 1e9);
    else if (peer && (device->in_rate < SLOW_OF_PEER * peer->in_rate ||
                      device->out_rate < SLOW_OF_PEER * peer->out_rate))
        say(device,
            "slow copies: %.3g in and %.3g GB/s out where %s, of the same name, has %.3g and %.3g",
            device->in_rate / 1e9, device->out_rate / 1e9, peer->info.id, peer->in_rate / 1e9,
            peer->out_rate / 1e9);
    if (lanes > 0 && lanes < lanes_max)
        say(device, "its link has %g lanes of %g", lanes, lanes_max);
}

/* The device of the same name with the best kernel rate, itself left out; NULL: there is none. */
static const struct bench_device *best_peer(const struct bench_device *device,
                                            const struct bench_device *others, size_t count)
{
    const struct bench_device *best = NULL;
    for (size_t i = 0; i < count; i++)
        if (&others[i] != device && strcmp(others[i].info.name, device->info.name) == 0 &&
            others[i].info.cores == device->info.cores && bench_device_is_right(&others[i]) &&
            (!best || others[i].kernel_rate > best->kernel_rate))
            best = &others[i];
    return best;
}

void bench_device_judge(const struct bench_plan *plan, struct bench_device *device,
                        const struct bench_device *others, size_t count)
{
    const struct bench_device *peer = best_peer(device, others, count);
    device->verdict[0] = '\0';
    if (device->wrong > 0)
        say(device, "wrong results: %llu of %llu items", (unsigned long long)device->wrong,
            (unsigned long long)device->checked);
    if (device->why.status != MUSTER_OK)
        say(device, "not usable: %s",
            *device->why.text ? device->why.text : muster_status_message(device->why.status));
    if (device->load.health != MUSTER_HEALTH_OK)
        say(device, "health: %s", muster_health_name(device->load.health));
    if (*device->verdict)
        return;
    judge_copies(plan, device, peer);
    if (peer && device->kernel_rate < SLOW_OF_PEER * peer->kernel_rate)
        say(device, "slow kernels: %.3g of what %s does, of the same name",
            device->kernel_rate / peer->kernel_rate, peer->info.id);
    if (device->source.status != MUSTER_OK)
        say(device, "%skernels in source form are not available: %s",
            *device->verdict ? "" : "good, but ", device->source.text);
    if (!*device->verdict)
        say(device, "good");
}
