/*
 * What a program without Muster reaches: host memory to a device, through a kernel that changes each
 * word, and back, written by hand. On a CUDA device these are three streams of the driver's in turn,
 * as many for each thread; on processors, memory that is copied, changed and copied again.
 */
#ifndef BENCH_LIMIT_H
#define BENCH_LIMIT_H

#include "report.h"

#include "kernel/compile.h"
#include "platform/machine.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/resource.h>

#define LIMIT_STREAMS 3
#define LIMIT_THREADS 256u

/* What the kernel makes of a word. */
static inline uint32_t change(uint32_t word, uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds; i++)
        word = (word ^ word >> 7) * 1664525u + 1013904223u;
    return word + 1;
}

/* Of the whole process, so far. */
static inline double cpu_ns(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e9 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e3;
}

/* The driver, as far as it is needed. One for the program. */
struct limit_driver {
    int (*set_current)(void *), (*stream_create)(void **, unsigned, int), (*stream_destroy)(void *),
        (*synchronize)(void *), (*allocate)(uint64_t *, size_t), (*release)(uint64_t),
        (*allocate_host)(void **, size_t, unsigned), (*release_host)(void *), (*unload)(void *),
        (*give_back)(int), (*copy_in)(uint64_t, const void *, size_t, void *),
        (*copy_out)(void *, uint64_t, size_t, void *),
        (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  void *, void **, void **);
    void *context, *module, *function;
    int device;
};

struct limit {
    const struct bench *bench;
    struct limit_driver driver;
    bool is_cuda;
    uint16_t compute[2];
    uint32_t rounds;
};

/* What one thread of such a program works with: of each stream, and room for one unit. */
struct limit_lane {
    const struct limit *limit;
    void *streams[LIMIT_STREAMS];
    uint64_t memory[LIMIT_STREAMS];
    void *in[LIMIT_STREAMS], *out[LIMIT_STREAMS]; /* pinned */
};

struct limit_result {
    double bytes_per_s; /* each way */
    double cores;       /* that the process kept busy meanwhile */
};

static inline void *limit_symbol(const struct limit *limit, void *library, const char *name)
{
    void *symbol = dlsym(library, name);
    if (!symbol)
        stop(limit->bench, name);
    return symbol;
}

/* Functions are found as objects are; POSIX has it that they fit. */
#define LIMIT_NEED(pointer, name)                                                                  \
    do {                                                                                           \
        void *symbol_ = limit_symbol(limit, library, name);                                        \
        memcpy(&(pointer), &symbol_, sizeof symbol_);                                              \
    } while (0)

static inline void limit_compile(const struct limit *limit, struct kernel_blob *image)
{
    static const char form[] =
        "extern \"C\" __global__ void change(unsigned *words, unsigned long long count)\n"
        "{\n"
        "    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;\n"
        "    if (i >= count)\n"
        "        return;\n"
        "    unsigned word = words[i];\n"
        "    for (unsigned r = 0; r < %uu; r++)\n"
        "        word = (word ^ word >> 7) * 1664525u + 1013904223u;\n"
        "    words[i] = word + 1;\n"
        "}\n";
    char source[sizeof form + 16];
    uint16_t made_for[2];
    struct muster_error err;
    snprintf(source, sizeof source, form, limit->rounds);
    if (nvrtc_build(source, "limit.cu", limit->compute, false, false, &platform_heap, NULL, image,
                    made_for, &err) != MUSTER_OK)
        stop(limit->bench, err.text);
}

/* On the CUDA device that this is, or is a slice of; else on the processors. */
static inline void limit_open(struct limit *limit, const struct bench *bench,
                              const struct muster_device_info *device, uint32_t rounds)
{
    *limit = (struct limit){ .bench = bench,
                             .is_cuda = strncmp(device->id, "cuda:", 5) == 0,
                             .compute = { device->compute[0], device->compute[1] },
                             .rounds = rounds };
    if (!limit->is_cuda)
        return;
    int (*init)(unsigned), (*retain)(void **, int),
        (*load)(void **, const void *, unsigned, void *, void *),
        (*get_function)(void **, void *, const char *);
    struct limit_driver *driver = &limit->driver;
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library)
        stop(bench, "there is no libcuda.so.1");
    LIMIT_NEED(init, "cuInit");
    LIMIT_NEED(retain, "cuDevicePrimaryCtxRetain");
    LIMIT_NEED(load, "cuModuleLoadDataEx");
    LIMIT_NEED(get_function, "cuModuleGetFunction");
    LIMIT_NEED(driver->set_current, "cuCtxSetCurrent");
    LIMIT_NEED(driver->stream_create, "cuStreamCreateWithPriority");
    LIMIT_NEED(driver->stream_destroy, "cuStreamDestroy_v2");
    LIMIT_NEED(driver->allocate, "cuMemAlloc_v2");
    LIMIT_NEED(driver->release, "cuMemFree_v2");
    LIMIT_NEED(driver->allocate_host, "cuMemHostAlloc");
    LIMIT_NEED(driver->release_host, "cuMemFreeHost");
    LIMIT_NEED(driver->unload, "cuModuleUnload");
    LIMIT_NEED(driver->give_back, "cuDevicePrimaryCtxRelease_v2");
    LIMIT_NEED(driver->synchronize, "cuStreamSynchronize");
    LIMIT_NEED(driver->copy_in, "cuMemcpyHtoDAsync_v2");
    LIMIT_NEED(driver->copy_out, "cuMemcpyDtoHAsync_v2");
    LIMIT_NEED(driver->launch, "cuLaunchKernel");
    driver->device = atoi(device->id + 5);
    struct kernel_blob image;
    limit_compile(limit, &image);
    if (init(0) != 0 || retain(&driver->context, driver->device) != 0 ||
        driver->set_current(driver->context) != 0 ||
        load(&driver->module, image.data, 0, NULL, NULL) != 0 ||
        get_function(&driver->function, driver->module, "change") != 0)
        stop(bench, "the driver refused what the raw limit needs");
    kernel_blob_release(&image, &platform_heap);
}

/* No lane may be open. */
static inline void limit_close(struct limit *limit)
{
    if (!limit->is_cuda)
        return;
    limit->driver.unload(limit->driver.module);
    limit->driver.give_back(limit->driver.device);
}

static inline void limit_lane_open(struct limit_lane *lane, const struct limit *limit,
                                   uint64_t unit_max)
{
    const struct limit_driver *driver = &limit->driver;
    *lane = (struct limit_lane){ .limit = limit };
    bool is_good = true;
    for (int i = 0; i < LIMIT_STREAMS && is_good; i++) {
        if (limit->is_cuda) {
            is_good = driver->stream_create(&lane->streams[i], 1, 0) == 0 &&
                      driver->allocate(&lane->memory[i], unit_max) == 0 &&
                      driver->allocate_host(&lane->in[i], unit_max, 0) == 0 &&
                      driver->allocate_host(&lane->out[i], unit_max, 0) == 0;
        } else {
            lane->in[i] = malloc(unit_max);
            lane->out[i] = malloc(unit_max);
            is_good = lane->in[i] && lane->out[i];
        }
        /* The system gives memory when it is touched, which is not to be measured. */
        if (is_good) {
            memset(lane->in[i], 0, unit_max);
            memset(lane->out[i], 0, unit_max);
        }
    }
    if (!is_good)
        stop(limit->bench, "there is no memory for the raw limit");
}

static inline void limit_lane_close(struct limit_lane *lane)
{
    const struct limit_driver *driver = &lane->limit->driver;
    for (int i = 0; i < LIMIT_STREAMS; i++) {
        if (lane->limit->is_cuda) {
            driver->stream_destroy(lane->streams[i]);
            driver->release(lane->memory[i]);
            driver->release_host(lane->in[i]);
            driver->release_host(lane->out[i]);
        } else {
            free(lane->in[i]);
            free(lane->out[i]);
        }
    }
}

/* One unit through stream `s`, once the one before has left it. */
static inline bool limit_enqueue(struct limit_lane *lane, int s, const char *in, uint64_t unit,
                                 bool is_staged)
{
    const struct limit_driver *driver = &lane->limit->driver;
    uint64_t count = unit / 4;
    void *parameters[] = { &lane->memory[s], &count };
    if (driver->synchronize(lane->streams[s]) != 0)
        return false;
    if (is_staged)
        memcpy(lane->in[s], in, unit);
    return driver->copy_in(lane->memory[s], is_staged ? lane->in[s] : in, unit, lane->streams[s]) ==
               0 &&
           driver->launch(driver->function, (unsigned)((count + LIMIT_THREADS - 1) / LIMIT_THREADS),
                          1, 1, LIMIT_THREADS, 1, 1, 0, lane->streams[s], parameters, NULL) == 0 &&
           driver->copy_out(lane->out[s], lane->memory[s], unit, lane->streams[s]) == 0;
}

static inline void limit_compute(struct limit_lane *lane, int s, const char *in, uint64_t unit)
{
    uint32_t *words = lane->in[s];
    memcpy(words, in, unit);
    for (uint64_t i = 0; i < unit / 4; i++)
        words[i] = change(words[i], lane->limit->rounds);
    memcpy(lane->out[s], words, unit);
}

/*
 * All whole units of the memory. `is_staged`: each is copied to pinned memory first, by the thread
 * that enqueues it; else the driver copies from where it lies.
 */
static inline struct limit_result limit_run(struct limit_lane *lane, const void *in, uint64_t bytes,
                                            uint64_t unit, bool is_staged)
{
    const struct limit *limit = lane->limit;
    uint64_t units = bytes / unit;
    if (limit->is_cuda && limit->driver.set_current(limit->driver.context) != 0)
        stop(limit->bench, "the driver refused its context");
    double cpu = cpu_ns();
    uint64_t begin_ns = clock_ns();
    for (uint64_t i = 0; i < units; i++) {
        const char *at = (const char *)in + i * unit;
        int s = (int)(i % LIMIT_STREAMS);
        if (!limit->is_cuda)
            limit_compute(lane, s, at, unit);
        else if (!limit_enqueue(lane, s, at, unit, is_staged))
            stop(limit->bench, "the driver refused work");
    }
    for (int s = 0; s < LIMIT_STREAMS && limit->is_cuda; s++)
        limit->driver.synchronize(lane->streams[s]);
    double wall_ns = (double)(clock_ns() - begin_ns);
    return (struct limit_result){ (double)(units * unit) * 1e9 / wall_ns,
                                  (cpu_ns() - cpu) / wall_ns };
}

struct limit_thread {
    struct limit_lane *lane;
    const void *in;
    uint64_t bytes, unit;
};

static inline void *limit_thread_main(void *user)
{
    struct limit_thread *thread = user;
    limit_run(thread->lane, thread->in, thread->bytes, thread->unit, false);
    return NULL;
}

/* Two threads at once, each with streams of its own and its own half of the memory. */
static inline struct limit_result limit_run_two(struct limit_lane lanes[2], const void *in,
                                                uint64_t bytes, uint64_t unit)
{
    uint64_t half = bytes / 2 / unit * unit;
    struct limit_thread work[2] = { { &lanes[0], in, half, unit },
                                    { &lanes[1], (const char *)in + half, half, unit } };
    pthread_t other;
    double cpu = cpu_ns();
    uint64_t begin_ns = clock_ns();
    if (pthread_create(&other, NULL, limit_thread_main, &work[1]) != 0)
        stop(lanes->limit->bench, "there is no second thread");
    limit_thread_main(&work[0]);
    pthread_join(other, NULL);
    double wall_ns = (double)(clock_ns() - begin_ns);
    return (struct limit_result){ (double)(2 * half) * 1e9 / wall_ns, (cpu_ns() - cpu) / wall_ns };
}

#endif
