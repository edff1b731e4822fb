/*
 * One row of bench/kernel_table on a CUDA device: data that is there, launches by Muster and by the
 * driver on the same stream and blocks. The peers are in a fat binary, which nvcc made of cuda.cu,
 * in the folder `peers` beside the program; without it only our own side runs.
 */
#ifndef BENCH_KERNEL_TABLE_CUDA_H
#define BENCH_KERNEL_TABLE_CUDA_H

#include "data.h"

#include <dlfcn.h>
#include <muster/reduce.h>

#define TABLE_THREADS 256u
/* Launches follow each other without a stop until they have taken about so long. */
#define TABLE_BATCH_NS 3e6
#define TABLE_BATCH_MAX 200
#define TABLE_BATCH_JOBS 10 /* of reductions, each of which is waited for */
#define TABLE_WAIT_NS 60000000000u
/* Of a reduction by hand: as many as an H200 has room for, twice. */
#define TABLE_HAND_BLOCKS 2112u

struct table_cuda {
    struct muster *m;
    const char *id;
    muster_device device;
    muster_stream stream;
    void *library, *native, *context, *module; /* module NULL: there are no peers */
    void *by_hand;                             /* NULL: it is not there */
    int ordinal;
    int (*set_current)(void *), (*unload)(void *), (*give_back)(int), (*synchronize)(void *),
        (*get_function)(void **, void *, const char *),
        (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  void *, void **, void **);
};

/* A row's data on the device. */
struct table_copy {
    struct table_cuda *cuda;
    const struct bench *bench;
    struct table_row *row;
    uint64_t items;
    struct muster_kernel *kernel;
    muster_block blocks[TABLE_ARGUMENTS_MAX + 1]; /* the last: a reduction's result */
    uint64_t addresses[TABLE_ARGUMENTS_MAX + 1];
    struct muster_arg args[TABLE_ARGUMENTS_MAX]; /* of a reduction */
    void *function, *hand;
    char result[TABLE_RESULT_MAX];
};

static inline void table_must(const struct bench *bench, muster_status status,
                              const struct muster_error *err)
{
    if (status != MUSTER_OK)
        stop(bench, err->text);
}

/* Functions are found as objects are; POSIX has it that they fit. */
#define TABLE_NEED(pointer, name)                                                                  \
    do {                                                                                           \
        void *symbol_ = dlsym(cuda->library, name);                                                \
        if (!symbol_)                                                                              \
            stop(bench, "the CUDA driver has no " name);                                           \
        memcpy(&(pointer), &symbol_, sizeof symbol_);                                              \
    } while (0)

static inline void table_cuda_load_peers(struct table_cuda *cuda, const struct bench *bench)
{
    int (*retain)(void **, int), (*load)(void **, const char *);
    char path[1024];
    ssize_t bytes = readlink("/proc/self/exe", path, sizeof path - 64);
    char *slash = bytes > 0 ? memrchr(path, '/', (size_t)bytes) : NULL;
    if (!slash)
        return;
    strcpy(slash, "/peers/kernel_table.fatbin");
    if (access(path, R_OK) != 0) {
        printf("no peers: nvcc was not there to make kernel_table.fatbin "
               "(cmake --build ... --target bench_kernel_table_cuda)\n");
        return;
    }
    cuda->library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!cuda->library)
        stop(bench, "there is no libcuda.so.1");
    TABLE_NEED(retain, "cuDevicePrimaryCtxRetain");
    TABLE_NEED(load, "cuModuleLoad");
    TABLE_NEED(cuda->set_current, "cuCtxSetCurrent");
    TABLE_NEED(cuda->unload, "cuModuleUnload");
    TABLE_NEED(cuda->give_back, "cuDevicePrimaryCtxRelease_v2");
    TABLE_NEED(cuda->synchronize, "cuStreamSynchronize");
    TABLE_NEED(cuda->get_function, "cuModuleGetFunction");
    TABLE_NEED(cuda->launch, "cuLaunchKernel");
    if (retain(&cuda->context, cuda->ordinal) != 0 || cuda->set_current(cuda->context) != 0 ||
        load(&cuda->module, path) != 0)
        stop(bench, "the driver does not take the peers' code");
    strcpy(slash, "/peers/kernel_table_hand.fatbin");
    if (access(path, R_OK) == 0 && load(&cuda->by_hand, path) != 0)
        stop(bench, "the driver does not take the code by hand");
}

static inline void table_cuda_open(struct table_cuda *cuda, const struct bench *bench,
                                   struct muster *m, const char *id)
{
    struct muster_error err;
    *cuda = (struct table_cuda){ .m = m, .id = id };
    if (strncmp(id, "cuda:", 5) != 0)
        stop(bench, "--devices takes one CUDA device, such as cuda:0");
    cuda->ordinal = atoi(id + 5);
    table_must(bench, muster_device_find(m, id, &cuda->device, &err), &err);
    table_must(bench, muster_stream_acquire(m, cuda->device, 0, &cuda->stream, &err), &err);
    table_must(bench, muster_stream_native(m, cuda->stream, &cuda->native, &err), &err);
    table_cuda_load_peers(cuda, bench);
}

static inline void table_cuda_close(struct table_cuda *cuda)
{
    if (cuda->module) {
        cuda->unload(cuda->module);
        if (cuda->by_hand)
            cuda->unload(cuda->by_hand);
        cuda->give_back(cuda->ordinal);
    }
    muster_stream_release(cuda->m, cuda->stream, NULL);
}

static inline void table_copy_wait(const struct table_copy *copy)
{
    struct muster_error err;
    table_must(copy->bench,
               muster_stream_wait(copy->cuda->m, copy->cuda->stream, TABLE_WAIT_NS, &err), &err);
}

/* What is on the device becomes what is in memory. */
static inline void table_copy_reset(const struct table_copy *copy)
{
    struct muster *m = copy->cuda->m;
    muster_stream stream = copy->cuda->stream;
    struct muster_error err;
    table_reset(copy->row);
    for (size_t k = 0; k < copy->row->count; k++) {
        const struct table_argument *argument = &copy->row->arguments[k];
        if (argument->memory)
            table_must(copy->bench,
                       muster_copy_in(m, stream, copy->blocks[k], 0, argument->memory,
                                      argument->bytes, &err),
                       &err);
    }
    table_copy_wait(copy);
}

/* The other way, of what kernels write. */
static inline void table_copy_fetch(struct table_copy *copy, bool has_result)
{
    struct muster *m = copy->cuda->m;
    muster_stream stream = copy->cuda->stream;
    struct muster_error err;
    for (size_t k = 0; k < copy->row->count; k++) {
        const struct table_argument *argument = &copy->row->arguments[k];
        if (table_is_written(argument))
            table_must(copy->bench,
                       muster_copy_out(m, stream, argument->memory, copy->blocks[k], 0,
                                       argument->bytes, &err),
                       &err);
    }
    if (has_result && copy->row->result_bytes > 0)
        table_must(copy->bench,
                   muster_copy_out(m, stream, copy->result, copy->blocks[TABLE_ARGUMENTS_MAX], 0,
                                   copy->row->result_bytes, &err),
                   &err);
    table_copy_wait(copy);
}

static inline void table_copy_allocate(struct table_copy *copy, size_t k, uint64_t bytes)
{
    struct table_cuda *cuda = copy->cuda;
    struct muster_block_info info = { .size = sizeof info };
    struct muster_error err;
    table_must(copy->bench,
               muster_block_allocate(cuda->m, cuda->stream, bytes, &copy->blocks[k], &err), &err);
    table_must(copy->bench, muster_block_info(cuda->m, copy->blocks[k], &info, &err), &err);
    copy->addresses[k] = info.address;
}

static inline void table_copy_open(struct table_copy *copy, const struct muster_arg *args)
{
    struct table_cuda *cuda = copy->cuda;
    char name[64];
    for (size_t k = 0; k < copy->row->count; k++) {
        const struct table_argument *argument = &copy->row->arguments[k];
        copy->args[k] = args[k];
        if (!argument->memory)
            continue;
        table_copy_allocate(copy, k, argument->bytes);
        if (argument->use == TABLE_IN)
            copy->args[k] =
                (struct muster_arg){ MUSTER_ARG_OF(MUSTER_ARG_DEVICE_IN),
                                     .bytes = argument->item_bytes, .block = copy->blocks[k] };
    }
    if (copy->row->result_bytes > 0)
        table_copy_allocate(copy, TABLE_ARGUMENTS_MAX, copy->row->result_bytes);
    snprintf(name, sizeof name, "table_%s", copy->row->entry);
    if (cuda->module && cuda->get_function(&copy->function, cuda->module, name) != 0)
        stop(copy->bench, "a kernel is not among the peers; build bench_kernel_table_cuda again");
    snprintf(name, sizeof name, "hand_%s", copy->row->entry);
    if (cuda->by_hand && cuda->get_function(&copy->hand, cuda->by_hand, name) != 0)
        stop(copy->bench,
             "a kernel is not among those by hand; build bench_kernel_table_cuda again");
}

static inline void table_copy_close(struct table_copy *copy)
{
    for (size_t k = 0; k < copy->row->count; k++)
        if (copy->row->arguments[k].memory)
            muster_block_free(copy->cuda->m, copy->cuda->stream, copy->blocks[k], NULL);
    if (copy->row->result_bytes > 0)
        muster_block_free(copy->cuda->m, copy->cuda->stream, copy->blocks[TABLE_ARGUMENTS_MAX],
                          NULL);
    table_copy_wait(copy);
}

/* One by Muster: a launch, or the whole job of a reduction. */
static inline void table_copy_ours(struct table_copy *copy)
{
    struct muster_operand operands[TABLE_ARGUMENTS_MAX];
    const struct table_row *row = copy->row;
    struct muster_error err;
    if (row->result_bytes > 0) {
        const struct muster_run_options options = { .size = sizeof options,
                                                    .devices = copy->cuda->id };
        table_must(copy->bench,
                   muster_reduce(copy->cuda->m, copy->kernel, copy->items, copy->args, row->count,
                                 copy->result, row->result_bytes, &options, NULL, &err),
                   &err);
        return;
    }
    for (size_t k = 0; k < row->count; k++) {
        const struct table_argument *argument = &row->arguments[k];
        operands[k] = (struct muster_operand){ .size = sizeof *operands };
        if (argument->memory) {
            operands[k].block = copy->blocks[k];
            operands[k].access = argument->use == TABLE_OUT     ? MUSTER_WRITES
                                 : argument->use == TABLE_INOUT ? MUSTER_READS_WRITES
                                                                : MUSTER_READS;
        } else {
            operands[k].value = &argument->value;
            operands[k].bytes = argument->bytes;
        }
    }
    table_must(copy->bench,
               muster_launch(copy->cuda->m, copy->cuda->stream, copy->kernel, 0, copy->items,
                             operands, row->count, NULL, &err),
               &err);
}

static inline void table_copy_launch(struct table_copy *copy, void *function, unsigned blocks)
{
    struct table_cuda *cuda = copy->cuda;
    void *parameters[TABLE_ARGUMENTS_MAX + 2];
    size_t count = 0;
    struct muster_error err;
    parameters[count++] = &copy->items;
    for (size_t k = 0; k < copy->row->count; k++)
        parameters[count++] = copy->row->arguments[k].memory
                                  ? (void *)&copy->addresses[k]
                                  : (void *)&copy->row->arguments[k].value;
    if (copy->row->result_bytes > 0) {
        parameters[count++] = &copy->addresses[TABLE_ARGUMENTS_MAX];
        table_must(copy->bench,
                   muster_fill(cuda->m, cuda->stream, copy->blocks[TABLE_ARGUMENTS_MAX], 0, 0,
                               copy->row->result_bytes, &err),
                   &err);
    }
    if (cuda->launch(function, blocks, 1, 1, TABLE_THREADS, 1, 1, 0, cuda->native, parameters,
                     NULL) != 0)
        stop(copy->bench, "the driver refused to launch a peer");
    /* A reduction is over when its result is in memory. */
    if (copy->row->result_bytes > 0)
        table_copy_fetch(copy, true);
}

static inline void table_copy_peer(struct table_copy *copy)
{
    table_copy_launch(copy, copy->function,
                      (unsigned)((copy->items + TABLE_THREADS - 1) / TABLE_THREADS));
}

/* Reductions by hand take many items a thread. */
static inline void table_copy_hand(struct table_copy *copy)
{
    unsigned blocks = (unsigned)((copy->items + TABLE_THREADS - 1) / TABLE_THREADS);
    if (copy->row->result_bytes > 0 && blocks > TABLE_HAND_BLOCKS)
        blocks = TABLE_HAND_BLOCKS;
    table_copy_launch(copy, copy->hand, blocks);
}

/* ns of one of `launches` in a row. */
static inline double table_copy_time(struct table_copy *copy, void (*run)(struct table_copy *),
                                     int launches)
{
    uint64_t begin_ns = clock_ns();
    for (int i = 0; i < launches; i++)
        run(copy);
    if (run != table_copy_ours && copy->cuda->synchronize(copy->cuda->native) != 0)
        stop(copy->bench, "a peer failed");
    table_copy_wait(copy);
    return (double)(clock_ns() - begin_ns) / launches;
}

/* Whether our bits are right; those of the peer go to `is_peer_equal`. */
static inline bool table_cuda_measure(struct table_cuda *cuda, const struct bench *bench,
                                      struct table_row *row, uint64_t items,
                                      struct muster_kernel *kernel, const struct muster_arg *args,
                                      const void *expected, double *ours, double *peer,
                                      double *hand, bool *is_peer_equal, bool *is_hand_near)
{
    static struct table_copy copy;
    copy = (struct table_copy){
        .cuda = cuda, .bench = bench, .row = row, .items = items, .kernel = kernel
    };
    table_copy_open(&copy, args);
    table_copy_reset(&copy);
    table_copy_time(&copy, table_copy_ours, 1);
    table_copy_fetch(&copy, false);
    bool is_equal = table_is_equal(row, copy.result, expected);
    if (cuda->module) {
        table_copy_reset(&copy);
        table_copy_time(&copy, table_copy_peer, 1);
        table_copy_fetch(&copy, true);
        *is_peer_equal = table_is_equal(row, copy.result, expected);
    }
    if (cuda->by_hand) {
        table_copy_reset(&copy);
        table_copy_time(&copy, table_copy_hand, 1);
        table_copy_fetch(&copy, true);
        *is_hand_near = table_is_near(row, copy.result, expected);
    }
    /* Enough launches that the stop at the end does not count. */
    double once_ns = table_copy_time(&copy, cuda->module ? table_copy_peer : table_copy_ours, 3);
    int launches = once_ns * TABLE_BATCH_MAX < TABLE_BATCH_NS ? TABLE_BATCH_MAX
                                                              : (int)(TABLE_BATCH_NS / once_ns) + 1;
    if (row->result_bytes > 0 && launches > TABLE_BATCH_JOBS)
        launches = TABLE_BATCH_JOBS;
    for (int r = 0; r < bench->repetitions; r++) {
        ours[r] = table_copy_time(&copy, table_copy_ours, launches);
        if (cuda->module)
            peer[r] = table_copy_time(&copy, table_copy_peer, launches);
        if (cuda->by_hand)
            hand[r] = table_copy_time(&copy, table_copy_hand, launches);
    }
    table_copy_close(&copy);
    return is_equal;
}

#endif
