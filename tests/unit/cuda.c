/*
 * What only the cuda backend does, over the driver of the tests (tests/driver): contexts that are
 * lost, hang and are shared with others, slices, kernels in the driver's own forms, pageable memory.
 */
#include "backend/cuda/cuda.h"

#include "conformance/rig.h"
#include "driver/control.h"
#include "platform/thread.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct test_cuda *control;

static void *find(const char *library, const char *symbol)
{
    void *handle = dlopen(library, RTLD_NOW);
    void *found = handle ? dlsym(handle, symbol) : NULL;
    if (!found)
        test_fail(__FILE__, __LINE__, "%s has no %s", library, symbol);
    return found;
}

static void begin(const char *settings)
{
    const struct test_cuda *(*get)(void);
    *(void **)&get = find("libcuda.so.1", TEST_CUDA_CONTROL);
    control = get();
    control->reset();
    CHECK(control->set(settings));
}

static struct rig *open_cuda(const char *settings)
{
    begin(settings);
    return rig_open(&backend_cuda, NULL);
}

/* Everything the driver gave is back with it. */
static void check_nothing_is_left(void)
{
    struct test_cuda_objects left;
    control->count(&left);
    CHECK_EQUAL(0, left.contexts);
    CHECK_EQUAL(0, left.green_contexts);
    CHECK_EQUAL(0, left.streams);
    CHECK_EQUAL(0, left.events);
    CHECK_EQUAL(0, left.modules);
    CHECK_EQUAL(0, left.allocations);
    CHECK_EQUAL(0, left.registrations);
    CHECK_EQUAL(0, left.pools);
    CHECK_EQUAL(0, left.graphs);
    /* Nor was anything left to go with its context. */
    CHECK_EQUAL(0, control->left_behind());
}

static void close_cuda(struct rig *rig)
{
    rig_close(rig);
    check_nothing_is_left();
}

/* --- what is there ------------------------------------------------------------------------------ */

static void a_machine_without_gpus_is_no_fault(void)
{
    struct muster_error err = { .size = sizeof err };
    begin("init=100");
    CHECK_STATUS(MUSTER_E_NOT_FOUND, rig_probe(&backend_cuda, NULL, &err));
    CHECK(err.text[0] && err.driver_code == 100);
    begin("init=999");
    CHECK_STATUS(MUSTER_E_DEVICE_LOST, rig_probe(&backend_cuda, NULL, &err));
    begin("");
    CHECK_STATUS(MUSTER_OK, rig_probe(&backend_cuda, NULL, &err));
}

static void a_gpu_is_described(void)
{
    struct rig *rig = open_cuda("sms=132;compute=90;devices=2");
    const struct muster_device_info *info = rig->info;
    CHECK_EQUAL(132, info->cores);
    CHECK(info->compute[0] == 9 && info->compute[1] == 0);
    CHECK(info->priority_greatest < 0 && info->priority_least == 0);
    CHECK_EQUAL(MUSTER_KERNEL_CUBIN | MUSTER_KERNEL_PTX, info->forms);
    CHECK(info->capabilities & MUSTER_CAN_WAIT_VALUE);
    CHECK(info->capabilities & MUSTER_CAN_STREAM_MEMORY);
    CHECK(info->capabilities & MUSTER_CAN_SLICE);
    CHECK_EQUAL(strlen("0000:3b:00.0"), strlen(info->pci));
    CHECK(strcmp(info->pci, rig->devices[1].info.pci) != 0);
    CHECK_TEXT("GPU-11111111-1111-1111-1111-111111111111", info->uuid);
    CHECK_TEXT("GPU-12121212-1212-1212-1212-121212121212", rig->devices[1].info.uuid);
    CHECK_EQUAL(1, rig->devices[1].info.domain);
    struct muster_device_sample sample;
    DO(rig, device_sample, rig->device, &sample);
    CHECK(sample.utilisation >= 0 && sample.temperature_c > 0);
    close_cuda(rig);
}

static void without_pools_memory_is_not_in_stream_order(void)
{
    struct rig *rig = open_cuda("pools=0;gates=0;green=0");
    CHECK_EQUAL(0, rig->info->capabilities &
                       (MUSTER_CAN_STREAM_MEMORY | MUSTER_CAN_WAIT_VALUE | MUSTER_CAN_SLICE));
    rig_memory(rig, 1000);
    close_cuda(rig);
}

/* What was current on the application's thread is current again after every call. */
static void the_callers_context_stays_current(void)
{
    struct rig *rig = open_cuda("devices=2");
    int (*current)(void **), (*push)(void *), (*pop)(void **), (*retain)(void **, int);
    int (*release)(int);
    *(void **)&current = find("libcuda.so.1", "cuCtxGetCurrent");
    *(void **)&push = find("libcuda.so.1", "cuCtxPushCurrent_v2");
    *(void **)&pop = find("libcuda.so.1", "cuCtxPopCurrent_v2");
    *(void **)&retain = find("libcuda.so.1", "cuDevicePrimaryCtxRetain");
    *(void **)&release = find("libcuda.so.1", "cuDevicePrimaryCtxRelease_v2");
    void *mine = NULL, *seen = NULL;
    CHECK_EQUAL(0, retain(&mine, 1));
    CHECK_EQUAL(0, push(mine));
    void *stream = rig_stream(rig), *event = rig_event(rig);
    struct muster_memory *memory = rig_memory(rig, 100);
    rig_fill(rig, stream, memory, 0, 1, 100);
    DO(rig, event_record, event, stream);
    COMPLETES(rig, MUSTER_OK, event);
    REFUSED(rig, MUSTER_E_INVALID, copy, stream, &(struct muster_copy_desc){ .bytes = 1 });
    CHECK_EQUAL(0, current(&seen));
    CHECK(seen == mine);
    CHECK_EQUAL(0, pop(&seen));
    CHECK_EQUAL(0, current(&seen));
    CHECK(!seen);
    CHECK_EQUAL(0, release(1));
    close_cuda(rig);
}

/* --- kernels ------------------------------------------------------------------------------------ */

typedef struct _nvrtcProgram *program;

/* The caller's. */
static void *compile(const char *source, bool as_ptx, size_t *bytes)
{
    int (*create)(program *, const char *, const char *, int, const void *, const void *);
    int (*compile_it)(program, int, const char *const *), (*destroy)(program *);
    int (*size)(program, size_t *), (*get)(program, char *);
    static const char *const options[] = { "--gpu-architecture=sm_90" };
    const char *library = "libnvrtc.so.13";
    *(void **)&create = find(library, "nvrtcCreateProgram");
    *(void **)&compile_it = find(library, "nvrtcCompileProgram");
    *(void **)&destroy = find(library, "nvrtcDestroyProgram");
    *(void **)&size = find(library, as_ptx ? "nvrtcGetPTXSize" : "nvrtcGetCUBINSize");
    *(void **)&get = find(library, as_ptx ? "nvrtcGetPTX" : "nvrtcGetCUBIN");
    program made;
    CHECK_EQUAL(0, create(&made, source, "kernel.cu", 0, NULL, NULL));
    CHECK_EQUAL(0, compile_it(made, 1, options));
    CHECK_EQUAL(0, size(made, bytes));
    char *image = malloc(*bytes);
    CHECK_EQUAL(0, get(made, image));
    destroy(&made);
    return image;
}

/* Counts in values[0] how often it is launched as a batch. */
static const char add_source[] =
    "extern \"C\" __global__ void add(unsigned long long begin, unsigned long long items,\n"
    "                               unsigned *values, unsigned char much)\n"
    "{\n"
    "    unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;\n"
    "    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;\n"
    "         i < items; i += stride)\n"
    "        values[begin + i] += much;\n"
    "}\n"
    "extern \"C\" __global__ void muster_batch_add(const unsigned char *records,\n"
    "                                            unsigned count)\n"
    "{\n"
    "    const unsigned char *record = records + 48ull * blockIdx.y;\n"
    "    unsigned long long begin = *(const unsigned long long *)record;\n"
    "    unsigned long long items = *(const unsigned long long *)(record + 8);\n"
    "    unsigned *values = *(unsigned *const *)(record + 16);\n"
    "    unsigned char much = record[32];\n"
    "    unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;\n"
    "    if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) values[0] += count;\n"
    "    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;\n"
    "         i < items; i += stride)\n"
    "        values[begin + i] += much;\n"
    "}\n";

struct built {
    void *image; /* owns */
    struct muster_kernel_form form;
};

static struct built build_add(bool as_ptx)
{
    struct built built = { .form = { .size = sizeof built.form,
                                     .kind = as_ptx ? MUSTER_KERNEL_PTX : MUSTER_KERNEL_CUBIN,
                                     .entry = "add" } };
    built.form.code = built.image = compile(add_source, as_ptx, &built.form.code_bytes);
    return built;
}

static void *open_add(struct rig *rig, void *device, bool as_ptx)
{
    struct built built = build_add(as_ptx);
    void *kernel = rig_state(rig->table.kernel_bytes);
    DO(rig, kernel_init, device, &built.form, kernel);
    free(built.image);
    return kernel;
}

static void close_kernel(struct rig *rig, void *kernel)
{
    rig->table.kernel_deinit(kernel);
    rig_state_free(kernel);
}

#define ITEMS 5000

/* The third time with grids that have threads for a seventh of the items. */
static void a_kernel_runs_in_either_form(void)
{
    for (int turn = 0; turn < 3; turn++) {
        struct rig *rig = open_cuda(turn == 2 ? "grid=3" : "");
        void *kernel = open_add(rig, rig->device, turn == 1), *stream = rig_stream(rig);
        struct muster_memory *memory = rig_memory(rig, (ITEMS + 2) * sizeof(uint32_t));
        uint32_t *host = rig_host(rig, (ITEMS + 2) * sizeof *host);
        unsigned char much = 7;
        const struct muster_launch_arg args[] = { { .memory = memory, .offset = 4 },
                                                  ARG_VALUE(much) };
        rig_fill(rig, stream, memory, 0, 0, (ITEMS + 2) * sizeof *host);
        rig_launch(rig, stream, kernel, 0, ITEMS, args, 2, NULL);
        rig_copy_out(rig, stream, host, memory, 0, (ITEMS + 2) * sizeof *host);
        FINISHES(rig, stream);
        CHECK_EQUAL(0, host[0]);
        for (int i = 1; i <= ITEMS; i++)
            CHECK_EQUAL(7, host[i]);
        CHECK_EQUAL(0, host[ITEMS + 1]);
        close_kernel(rig, kernel);
        close_cuda(rig);
    }
}

static void what_cannot_be_loaded_says_why(void)
{
    struct rig *rig = open_cuda("ptx=83");
    struct built cubin = build_add(false), ptx = build_add(true);
    void *state = rig_state(rig->table.kernel_bytes);
    REFUSED(rig, MUSTER_E_NOT_SUPPORTED, kernel_init, rig->device, &ptx.form, state);
    CHECK(rig->err.fix[0] && rig->err.driver_code == 222);
    struct muster_kernel_form form = cubin.form;
    form.entry = "subtract";
    REFUSED(rig, MUSTER_E_NOT_FOUND, kernel_init, rig->device, &form, state);
    CHECK_CONTAINS("subtract", rig->err.text);
    form = cubin.form;
    form.compute[0] = 10;
    REFUSED(rig, MUSTER_E_NOT_SUPPORTED, kernel_init, rig->device, &form, state);
    CHECK_CONTAINS("10.0", rig->err.text);
    form = cubin.form;
    form.threads = 4096;
    REFUSED(rig, MUSTER_E_NOT_SUPPORTED, kernel_init, rig->device, &form, state);
    CHECK_CONTAINS("4096", rig->err.text);
    form = (struct muster_kernel_form){ .size = sizeof form,
                                        .kind = MUSTER_KERNEL_PTX,
                                        .code = "no code at all",
                                        .code_bytes = 14,
                                        .entry = "add" };
    REFUSED(rig, MUSTER_E_INVALID, kernel_init, rig->device, &form, state);
    CHECK_CONTAINS("ptxas", rig->err.text);
    form.code_bytes = 0;
    REFUSED(rig, MUSTER_E_INVALID, kernel_init, rig->device, &form, state);
    rig_state_free(state);
    free(cubin.image);
    free(ptx.image);
    close_cuda(rig);
}

static void other_arguments_than_declared_are_refused(void)
{
    struct rig *rig = open_cuda("");
    void *kernel = open_add(rig, rig->device, false), *stream = rig_stream(rig);
    struct muster_memory *memory = rig_memory(rig, 100);
    uint32_t wide = 1;
    const struct muster_launch_arg args[] = { ARG_MEMORY(memory), ARG_VALUE(wide) };
    struct muster_launch_desc launch = { .items = 1, .args = args, .arg_count = 1 };
    REFUSED(rig, MUSTER_E_INVALID, launch, stream, kernel, &launch, 1);
    CHECK_CONTAINS("4 parameters", rig->err.text);
    launch.arg_count = 2;
    REFUSED(rig, MUSTER_E_INVALID, launch, stream, kernel, &launch, 1);
    CHECK_CONTAINS("4 bytes", rig->err.text);
    close_kernel(rig, kernel);
    close_cuda(rig);
}

/* The memory's first number counts what went as part of a batch. */
static void unordered_launches_go_together(void)
{
    enum { LAUNCHES = 5000, EACH = 3 };
    struct rig *rig = open_cuda("");
    void *kernel = open_add(rig, rig->device, false), *stream = rig_stream(rig);
    size_t bytes = (1 + LAUNCHES * EACH) * sizeof(uint32_t);
    struct muster_memory *memory = rig_memory(rig, bytes);
    uint32_t *host = rig_host(rig, bytes);
    unsigned char *values = rig_host(rig, LAUNCHES);
    struct muster_launch_arg(*args)[2] = rig_host(rig, LAUNCHES * sizeof *args);
    struct muster_launch_desc *launches = rig_host(rig, LAUNCHES * sizeof *launches);
    for (uint32_t i = 0; i < LAUNCHES; i++) {
        values[i] = (unsigned char)(i * 5 + 1);
        args[i][0] = (struct muster_launch_arg){ .memory = memory };
        args[i][1] = (struct muster_launch_arg)ARG_VALUE(values[i]);
        launches[i] = (struct muster_launch_desc){ .begin = 1 + (uint64_t)i * EACH,
                                                   .items = EACH,
                                                   .args = args[i],
                                                   .arg_count = 2,
                                                   .flags = MUSTER_LAUNCH_UNORDERED };
    }
    for (int round = 0; round < 3; round++) {
        uint64_t before = control->calls("cuLaunchKernel");
        rig_fill(rig, stream, memory, 0, 0, bytes);
        DO(rig, launch, stream, kernel, launches, LAUNCHES);
        rig_copy_out(rig, stream, host, memory, 0, bytes);
        FINISHES(rig, stream);
        for (uint32_t i = 0; i < LAUNCHES * EACH; i++)
            CHECK_EQUAL((unsigned char)(i / EACH * 5 + 1), host[1 + i]);
        CHECK(host[0] > LAUNCHES / 2);
        CHECK(control->calls("cuLaunchKernel") - before < LAUNCHES / 2 + 10);
    }
    /* Those that need their order are given one by one. */
    for (uint32_t i = 0; i < LAUNCHES; i++)
        launches[i].flags = 0;
    rig_fill(rig, stream, memory, 0, 0, bytes);
    DO(rig, launch, stream, kernel, launches, 100);
    rig_copy_out(rig, stream, host, memory, 0, bytes);
    FINISHES(rig, stream);
    CHECK_EQUAL(0, host[0]);
    CHECK_EQUAL(1, host[1]);
    close_kernel(rig, kernel);
    close_cuda(rig);
}

/* Appends; and one that counts, in place number `begin`. Neither has a function for batches. */
static const char list_source[] =
    "extern \"C\" __global__ void append(unsigned long long begin, unsigned long long items,\n"
    "                                  unsigned *list, unsigned value)\n"
    "{\n"
    "    if (blockIdx.x == 0 && threadIdx.x == 0) { unsigned end = ++list[0]; list[end] = value; "
    "}\n"
    "}\n"
    "extern \"C\" __global__ void count(unsigned long long begin, unsigned long long items,\n"
    "                                 unsigned *list, unsigned value)\n"
    "{\n"
    "    if (blockIdx.x == 0 && threadIdx.x == 0) list[begin] += value;\n"
    "}\n";

#define LISTED 200

/* Launches with values from `first` up, and looks at what they have done. */
static void launch_list(struct rig *rig, void *stream, void *kernel, bool is_ordered,
                        uint32_t first, uint32_t count)
{
    size_t bytes = (LISTED + 1) * sizeof(uint32_t);
    struct muster_memory *memory = rig_memory(rig, bytes);
    uint32_t *host = rig_host(rig, bytes), values[LISTED];
    struct muster_launch_arg args[LISTED][2];
    struct muster_launch_desc launches[LISTED];
    for (uint32_t i = 0; i < count; i++) {
        values[i] = first + i;
        args[i][0] = (struct muster_launch_arg)ARG_MEMORY(memory);
        args[i][1] = (struct muster_launch_arg)ARG_VALUE(values[i]);
        launches[i] = (struct muster_launch_desc){
            .begin = i + 1,
            .items = 1,
            .args = args[i],
            .arg_count = 2,
            .flags = is_ordered ? 0 : MUSTER_LAUNCH_UNORDERED,
        };
    }
    rig_fill(rig, stream, memory, 0, 0, bytes);
    DO(rig, launch, stream, kernel, launches, count);
    memset(values, 0xa5, sizeof values);
    rig_copy_out(rig, stream, host, memory, 0, bytes);
    FINISHES(rig, stream);
    CHECK_EQUAL(is_ordered ? count : 0, host[0]);
    for (uint32_t i = 0; i < LISTED; i++)
        CHECK_EQUAL(i < count ? first + i : 0, host[i + 1]);
    rig_memory_free(rig, stream, memory);
}

static void *open_listing(struct rig *rig, const char *entry)
{
    struct muster_kernel_form form = { .size = sizeof form,
                                       .kind = MUSTER_KERNEL_CUBIN,
                                       .entry = entry };
    void *image = compile(list_source, false, &form.code_bytes);
    void *kernel = rig_state(rig->table.kernel_bytes);
    form.code = image;
    DO(rig, kernel_init, rig->device, &form, kernel);
    free(image);
    return kernel;
}

static void batches_go_as_graphs(void)
{
    struct rig *rig = open_cuda("");
    void *append = open_listing(rig, "append"), *count = open_listing(rig, "count");
    void *stream = rig_stream(rig), *other = rig_stream(rig);
    CHECK(rig->info->capabilities & MUSTER_CAN_GRAPHS);
    for (uint32_t round = 0; round < 4; round++) {
        uint64_t graphs = control->calls("cuGraphLaunch"), made = control->calls("cuGraphCreate");
        uint64_t plain = control->calls("cuLaunchKernel");
        launch_list(rig, stream, append, true, round * 1000, LISTED);
        launch_list(rig, stream, count, false, round * 1000 + 1, LISTED);
        /* 200 are three graphs of 64 and one of 8. */
        if (round > 0)
            CHECK_EQUAL(2 * 4, control->calls("cuGraphLaunch") - graphs);
        CHECK(round < 2 || control->calls("cuGraphCreate") == made);
        CHECK(round == 0 || control->calls("cuLaunchKernel") == plain);
    }
    /* Fewer than make a graph, and some that are left over. */
    launch_list(rig, other, append, true, 5, 7);
    launch_list(rig, other, append, true, 5, 31);
    launch_list(rig, other, append, true, 77, 31);
    /* Another kernel may get the handles of one that is gone. */
    close_kernel(rig, append);
    append = open_listing(rig, "append");
    launch_list(rig, stream, append, true, 1, LISTED);
    launch_list(rig, stream, append, true, 2, LISTED);
    close_kernel(rig, append);
    close_kernel(rig, count);
    close_cuda(rig);
}

/* More kinds of graphs than a stream keeps. */
static void graphs_make_room_for_others(void)
{
    struct rig *rig = open_cuda("");
    void *kernels[4], *stream = rig_stream(rig);
    for (int i = 0; i < 4; i++)
        kernels[i] = open_listing(rig, i % 2 ? "append" : "count");
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 4; i++)
            for (int times = 0; times < 2; times++)
                launch_list(rig, stream, kernels[i], i % 2, (uint32_t)round + 1, LISTED);
    struct test_cuda_objects objects;
    control->count(&objects);
    CHECK(objects.graphs > 0 && objects.graphs <= 2 * 4);
    for (int i = 0; i < 4; i++)
        close_kernel(rig, kernels[i]);
    close_cuda(rig);
}

/* Whatever fails about a graph, the launches are made. */
static void without_graphs_launches_go_one_by_one(void)
{
    static const char *const settings[] = {
        "graphs=0",
        "fail=cuGraphCreate:1:304",
        "fail=cuGraphAddKernelNode:1:304",
        "fail=cuGraphAddKernelNode:9:2",
        "fail=cuGraphInstantiateWithFlags:1:2",
        "fail=cuGraphExecKernelNodeSetParams:1:1",
        "fail=cuGraphExecKernelNodeSetParams:9:801",
        "fail=cuGraphLaunch:1:1",
        "fail=cuGraphLaunch:2:2",
        "fail_from=cuGraphLaunch:1:801",
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        struct rig *rig = open_cuda("");
        void *kernel = open_listing(rig, "append"), *stream = rig_stream(rig);
        CHECK(control->set(settings[i]));
        for (uint32_t round = 0; round < 3; round++)
            launch_list(rig, stream, kernel, true, round, LISTED);
        CHECK(i == 0 || control->hits() > 0);
        close_kernel(rig, kernel);
        close_cuda(rig);
    }
}

/* A graph's nodes would leave the slice. */
static void slices_launch_without_graphs(void)
{
    static const uint32_t size = 16;
    struct rig *rig = open_cuda("sms=132");
    struct muster_device_info info = { .size = sizeof info };
    void *slice = rig_state(rig->table.device_bytes);
    DO(rig, slice_plan, rig->device, &size, 1);
    DO(rig, slice_open, rig->device, 0, slice, &info);
    CHECK_EQUAL(0, info.capabilities & MUSTER_CAN_GRAPHS);
    void *kernel = open_add(rig, slice, false), *stream = rig_stream_on(rig, slice, 0, false);
    void *event = rig_event_on(rig, slice, 0);
    struct muster_memory *memory = rig_memory_on(rig, slice, 400);
    unsigned char much = 1;
    const struct muster_launch_arg args[] = { ARG_MEMORY(memory), ARG_VALUE(much) };
    struct muster_launch_desc launches[LISTED];
    for (int i = 0; i < LISTED; i++)
        launches[i] = (struct muster_launch_desc){ .items = 100, .args = args, .arg_count = 2 };
    DO(rig, launch, stream, kernel, launches, LISTED);
    DO(rig, event_record, event, stream);
    COMPLETES(rig, MUSTER_OK, event);
    CHECK_EQUAL(0, control->calls("cuGraphLaunch"));
    close_kernel(rig, kernel);
    rig_event_deinit(rig, event);
    rig_memory_free(rig, NULL, memory);
    rig_stream_close(rig, stream);
    CHECK_STATUS(MUSTER_OK, rig->table.device_close(slice));
    rig_state_free(slice);
    rig->table.slice_unplan(rig->device);
    close_cuda(rig);
}

/* --- memory ------------------------------------------------------------------------------------- */

/* The driver itself would wait for the stream: the caller must not. */
static void pageable_memory_does_not_make_the_caller_wait(void)
{
    enum { BYTES = 3 * 1024 * 1024 + 17 };
    struct rig *rig = open_cuda("");
    void *gate = rig_gate(rig), *stream = rig_stream(rig), *event = rig_event(rig);
    struct muster_memory *memory = rig_memory(rig, BYTES);
    unsigned char *from = rig_host(rig, BYTES), *to = rig_host(rig, BYTES);
    for (int i = 0; i < BYTES; i++)
        from[i] = (unsigned char)(i * 7 + i / 4096);
    rig_hold(rig, gate, stream);
    rig_copy_in(rig, stream, memory, 0, from, BYTES);
    rig_copy_out(rig, stream, to, memory, 0, BYTES);
    DO(rig, event_record, event, stream);
    NOT_YET(rig, gate, event);
    rig_release(rig, gate);
    COMPLETES(rig, MUSTER_OK, event);
    CHECK_EQUAL(0, memcmp(from, to, BYTES));
    close_cuda(rig);
}

static void memory_that_is_pinned_in_part_is_copied(void)
{
    enum { BYTES = 64 * 1024, PINNED = 16 * 1024 };
    struct rig *rig = open_cuda("");
    struct muster_memory *memory = rig_memory(rig, BYTES);
    unsigned char *from = rig_host(rig, BYTES), *to = rig_host(rig, BYTES);
    memset(from, 5, BYTES);
    /* At its beginning, at its end; on a stream that is held, and on an idle one. */
    for (int round = 0; round < 4; round++) {
        void *gate = rig_gate(rig), *stream = rig_stream(rig), *event = rig_event(rig);
        unsigned char *pinned = round % 2 == 0 ? from : from + BYTES - PINNED;
        from[round] = from[BYTES - 1 - round] = (unsigned char)(10 + round);
        DO(rig, host_register, rig->device, pinned, PINNED);
        if (round < 2)
            rig_hold(rig, gate, stream);
        rig_copy_in(rig, stream, memory, 0, from, BYTES);
        rig_copy_out(rig, stream, to, memory, 0, BYTES);
        DO(rig, event_record, event, stream);
        if (round < 2)
            NOT_YET(rig, gate, event);
        rig_release(rig, gate);
        COMPLETES(rig, MUSTER_OK, event);
        CHECK_EQUAL(0, memcmp(from, to, BYTES));
        rig->table.host_unregister(rig->device, pinned);
    }
    close_cuda(rig);
}

/* However large: pinned memory is copied by the driver alone, and the caller does not wait. */
static void pinned_memory_of_any_size_is_copied_as_it_is(void)
{
    static const size_t sizes[] = { 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, (5 << 20) + 3 };
    struct rig *rig = open_cuda("");
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *gate = rig_gate(rig), *stream = rig_stream(rig), *event = rig_event(rig);
        struct muster_memory *memory = rig_memory(rig, sizes[i]);
        unsigned char *from = rig_host(rig, sizes[i]), *to = rig_host(rig, sizes[i]);
        for (size_t b = 0; b < sizes[i]; b++)
            from[b] = (unsigned char)(b * 31 + b / 4099 + i);
        memset(to, 0, sizes[i]);
        DO(rig, host_register, rig->device, from, sizes[i]);
        DO(rig, host_register, rig->device, to, sizes[i]);
        rig_hold(rig, gate, stream);
        uint64_t host_calls = control->calls("cuLaunchHostFunc");
        uint64_t in = control->calls("cuMemcpyHtoDAsync"),
                 out = control->calls("cuMemcpyDtoHAsync");
        rig_copy_in(rig, stream, memory, 0, from, sizes[i]);
        rig_copy_out(rig, stream, to, memory, 0, sizes[i]);
        CHECK_EQUAL(host_calls, control->calls("cuLaunchHostFunc"));
        CHECK_EQUAL(in + 1, control->calls("cuMemcpyHtoDAsync"));
        CHECK_EQUAL(out + 1, control->calls("cuMemcpyDtoHAsync"));
        DO(rig, event_record, event, stream);
        NOT_YET(rig, gate, event);
        rig_release(rig, gate);
        COMPLETES(rig, MUSTER_OK, event);
        CHECK_EQUAL(0, memcmp(from, to, sizes[i]));
        rig->table.host_unregister(rig->device, from);
        rig->table.host_unregister(rig->device, to);
    }
    close_cuda(rig);
}

/* The driver makes the caller wait when too many are ahead of a stream that is held. */
static void a_long_copy_is_few_operations(void)
{
    enum { BYTES = 65 * 1024 * 1024 + 3, CALLS_MAX = 8 };
    struct rig *rig = open_cuda("");
    void *gate = rig_gate(rig), *stream = rig_stream(rig), *event = rig_event(rig);
    struct muster_memory *memory = rig_memory(rig, BYTES);
    unsigned char *host = rig_host(rig, BYTES);
    for (int i = 0; i < BYTES; i += 4096)
        host[i] = (unsigned char)(i / 4096 * 3 + 1);
    rig_hold(rig, gate, stream);
    uint64_t calls = control->calls("cuLaunchHostFunc");
    rig_copy_in(rig, stream, memory, 0, host, BYTES);
    CHECK(control->calls("cuLaunchHostFunc") - calls <= CALLS_MAX);
    DO(rig, event_record, event, stream);
    rig_release(rig, gate);
    COMPLETES(rig, MUSTER_OK, event);
    memset(host, 0, BYTES);
    rig_copy_out(rig, stream, host, memory, 0, BYTES);
    FINISHES(rig, stream);
    for (int i = 0; i < BYTES; i += 4096)
        CHECK_EQUAL((unsigned char)(i / 4096 * 3 + 1), host[i]);
    close_cuda(rig);
}

/* Waits that were released stay so when another gate takes the place of theirs. */
static void a_new_gate_does_not_disturb_old_waits(void)
{
    struct rig *rig = open_cuda("");
    void *holding = rig_gate(rig), *stream = rig_stream(rig), *event = rig_event(rig);
    void *first = rig_state(rig->table.gate_bytes), *second = rig_state(rig->table.gate_bytes);
    DO(rig, gate_init, rig->device, first);
    rig_hold(rig, holding, stream);
    DO(rig, gate_wait, first, stream, 5);
    DO(rig, event_record, event, stream);
    DO(rig, gate_publish, first, 5);
    rig->table.gate_deinit(first);
    DO(rig, gate_init, rig->device, second);
    rig_release(rig, holding);
    COMPLETES(rig, MUSTER_OK, event);
    /* And starts from the beginning itself. */
    DO(rig, gate_wait, second, stream, 1);
    DO(rig, event_record, event, stream);
    NOT_YET(rig, second, event);
    DO(rig, gate_publish, second, 1);
    COMPLETES(rig, MUSTER_OK, event);
    rig->table.gate_deinit(second);
    rig_state_free(first);
    rig_state_free(second);
    close_cuda(rig);
}

static uint64_t free_memory(struct rig *rig)
{
    struct muster_device_sample sample;
    DO(rig, device_sample, rig->device, &sample);
    CHECK_EQUAL(67108864, sample.memory_total);
    return sample.memory_free;
}

/* What the pool keeps is free, and is given back before memory is said not to suffice. */
static void kept_memory_does_not_stand_in_the_way(void)
{
    struct rig *rig = open_cuda("memory=67108864");
    void *stream = rig_stream(rig);
    CHECK_EQUAL(67108864, free_memory(rig));
    for (int i = 0; i < 4; i++) {
        uint64_t bytes = i % 2 ? 50000000 : 40000000;
        struct muster_memory *memory = rig_memory(rig, bytes);
        CHECK_EQUAL(67108864 - bytes, free_memory(rig));
        rig_memory_free(rig, stream, memory);
        FINISHES(rig, stream);
        CHECK_EQUAL(67108864, free_memory(rig));
    }
    /* The driver had to be asked to let go, and did not do so by itself. */
    CHECK(control->calls("cuMemPoolTrimTo") > 0);
    struct muster_memory none;
    REFUSED(rig, MUSTER_E_DEVICE_MEMORY, memory_allocate, rig->device, NULL, UINT64_C(1) << 40,
            &none);
    close_cuda(rig);
}

static uint64_t registrations(void)
{
    struct test_cuda_objects objects;
    control->count(&objects);
    return objects.registrations;
}

/* The driver knows it once: the first to be done must not take it from the others. */
static void registered_memory_stays_until_all_are_done(void)
{
    enum { BYTES = 100000 };
    struct rig *rig = open_cuda("devices=2");
    unsigned char *host = rig_host(rig, BYTES);
    void *other = rig->devices[1].state;
    uint64_t before = registrations();
    DO(rig, host_register, rig->device, host, BYTES);
    DO(rig, host_register, other, host, BYTES);
    CHECK_EQUAL(before + 1, registrations());
    rig->table.host_unregister(rig->device, host);
    CHECK_EQUAL(before + 1, registrations());
    rig->table.host_unregister(other, host);
    CHECK_EQUAL(before, registrations());
    /* What overlaps and is not the same is the caller's mistake. */
    DO(rig, host_register, other, host, BYTES / 2);
    REFUSED(rig, MUSTER_E_INVALID, host_register, rig->device, host, BYTES);
    rig->table.host_unregister(other, host);
    close_cuda(rig);
}

/* --- losses ------------------------------------------------------------------------------------- */

#define CALLS 40

struct counted {
    _Atomic int *made;
    int order;
    _Atomic int times;
    muster_status status;
};

static void count_call(void *user, muster_status status)
{
    struct counted *call = user;
    /* Calls of one stream follow each other, and who sees the count sees what they wrote. */
    call->order = atomic_load(call->made);
    call->status = status;
    atomic_fetch_add(&call->times, 1);
    atomic_fetch_add(call->made, 1);
}

static void wait_for_calls(_Atomic int *made, int count)
{
    uint64_t deadline_ns = platform_deadline_ns(SOON_NS);
    while (atomic_load(made) < count && platform_clock_ns() < deadline_ns)
        platform_thread_yield();
    CHECK_EQUAL(count, atomic_load(made));
}

/* Everything else answers at once, and everything can be closed. */
static void check_lost(struct rig *rig, void *stream, void *event)
{
    struct muster_memory memory;
    void *state = rig_state(4096);
    struct muster_device_sample sample;
    REFUSED(rig, MUSTER_E_DEVICE_LOST, event_query, event);
    REFUSED(rig, MUSTER_E_DEVICE_LOST, event_wait, event, SOON_NS);
    REFUSED(rig, MUSTER_E_DEVICE_LOST, stream_query, stream);
    REFUSED(rig, MUSTER_E_DEVICE_LOST, event_record, event, stream);
    REFUSED(rig, MUSTER_E_DEVICE_LOST, stream_wait, stream, event);
    REFUSED(rig, MUSTER_E_DEVICE_LOST, host_call, stream, count_call, NULL);
    REFUSED(rig, MUSTER_E_DEVICE_LOST, stream_open, rig->device, 0, 0, state);
    REFUSED(rig, MUSTER_E_DEVICE_LOST, event_init, rig->device, 0, state);
    REFUSED(rig, MUSTER_E_DEVICE_LOST, gate_init, rig->device, state);
    REFUSED(rig, MUSTER_E_DEVICE_LOST, memory_allocate, rig->device, NULL, 10, &memory);
    REFUSED(rig, MUSTER_E_DEVICE_LOST, device_sample, rig->device, &sample);
    CHECK_EQUAL(700, rig->err.driver_code);
    rig_state_free(state);
}

/* Nobody waits for an event here: the watcher must notice by itself. */
static void a_loss_makes_every_call_once(void)
{
    struct rig *rig = open_cuda("");
    void *gate = rig_gate(rig), *stream = rig_stream(rig), *other = rig_stream(rig);
    void *done = rig_event(rig), *event = rig_event(rig);
    struct muster_memory *memory = rig_memory(rig, 100);
    struct counted *calls = rig_host(rig, 2 * CALLS * sizeof *calls);
    _Atomic int *made = rig_host(rig, 2 * sizeof *made);
    DO(rig, event_record, done, stream);
    COMPLETES(rig, MUSTER_OK, done);
    rig_hold(rig, gate, stream);
    DO(rig, stream_wait, other, done);
    for (int i = 0; i < 2 * CALLS; i++) {
        calls[i].made = &made[i % 2];
        if (i == CALLS) {
            CHECK(control->set("poison=copy:1:700"));
            rig_fill(rig, stream, memory, 0, 1, 100);
            DO(rig, event_record, event, stream);
            DO(rig, stream_wait, other, event);
        }
        DO(rig, host_call, i % 2 ? other : stream, count_call, &calls[i]);
    }
    rig_release(rig, gate);
    wait_for_calls(&made[0], CALLS);
    wait_for_calls(&made[1], CALLS);
    for (int i = 0; i < 2 * CALLS; i++) {
        CHECK_EQUAL(1, atomic_load(&calls[i].times));
        CHECK_EQUAL(i / 2, calls[i].order);
        CHECK_STATUS(i < CALLS && calls[i].status == MUSTER_OK ? MUSTER_OK : MUSTER_E_DEVICE_LOST,
                     calls[i].status);
    }
    check_lost(rig, stream, event);
    /* What was known to be complete is so still. */
    CHECK_STATUS(MUSTER_OK, rig->table.event_query(done, &rig->err));
    rig_close_broken(rig, MUSTER_OK);
}

/* The call that runs while the context fails is waited for, so that calls keep their order. */
struct slow {
    struct counted counted;
    _Atomic int *may_end;
    _Atomic int has_begun;
};

static void call_slowly(void *user, muster_status status)
{
    struct slow *slow = user;
    atomic_store(&slow->has_begun, 1);
    while (!atomic_load(slow->may_end))
        platform_thread_yield();
    count_call(&slow->counted, status);
}

static void calls_keep_their_order_through_a_loss(void)
{
    struct rig *rig = open_cuda("");
    void *stream = rig_stream(rig), *event = rig_event(rig);
    _Atomic int *made = rig_host(rig, sizeof *made), *may_end = rig_host(rig, sizeof *may_end);
    struct slow *slow = rig_host(rig, sizeof *slow);
    struct counted *later = rig_host(rig, sizeof *later);
    slow->counted.made = later->made = made;
    slow->may_end = may_end;
    DO(rig, host_call, stream, call_slowly, slow);
    DO(rig, host_call, stream, count_call, later);
    DO(rig, event_record, event, stream);
    wait_for_calls(&slow->has_begun, 1);
    CHECK(control->set("lost=700"));
    COMPLETES(rig, MUSTER_E_DEVICE_LOST, event);
    uint64_t until_ns = platform_deadline_ns(LOOK_NS * 4);
    while (platform_clock_ns() < until_ns)
        CHECK_EQUAL(0, atomic_load(made));
    atomic_store(may_end, 1);
    wait_for_calls(made, 2);
    CHECK_EQUAL(0, slow->counted.order);
    CHECK_EQUAL(1, later->order);
    CHECK_STATUS(MUSTER_E_DEVICE_LOST, later->status);
    rig_close_broken(rig, MUSTER_OK);
}

static void slices_are_lost_together(void)
{
    static const uint32_t sizes[] = { 16, 32, 84 };
    struct rig *rig = open_cuda("sms=132");
    void *slices[3], *streams[3], *events[3];
    DO(rig, slice_plan, rig->device, sizes, 3);
    for (size_t i = 0; i < 3; i++) {
        struct muster_device_info info = { .size = sizeof info };
        slices[i] = rig_state(rig->table.device_bytes);
        DO(rig, slice_open, rig->device, i, slices[i], &info);
        streams[i] = rig_stream_on(rig, slices[i], 0, false);
        events[i] = rig_event_on(rig, slices[i], MUSTER_EVENT_ORDER);
    }
    struct muster_memory *memory = rig_memory_on(rig, slices[1], 100);
    void *gate = rig_state(rig->table.gate_bytes);
    DO(rig, gate_init, slices[1], gate);
    CHECK(control->set("poison=copy:1:719"));
    DO(rig, gate_wait, gate, streams[1], 1);
    rig_fill(rig, streams[1], memory, 0, 1, 100);
    DO(rig, event_record, events[1], streams[1]);
    DO(rig, gate_publish, gate, 1);
    COMPLETES(rig, MUSTER_E_DEVICE_LOST, events[1]);
    rig->table.gate_deinit(gate);
    rig_state_free(gate);
    REFUSED(rig, MUSTER_E_DEVICE_LOST, event_record, events[2], streams[2]);
    REFUSED(rig, MUSTER_E_DEVICE_LOST, device_sample, rig->device,
            &(struct muster_device_sample){ .utilisation = 0 });
    for (size_t i = 0; i < 3; i++) {
        rig_event_deinit(rig, events[i]);
        rig_stream_close(rig, streams[i]);
        CHECK_STATUS(MUSTER_OK, rig->table.device_close(slices[i]));
        rig_state_free(slices[i]);
    }
    rig->table.slice_unplan(rig->device);
    rig_close_broken(rig, MUSTER_OK);
}

/*
 * Waits end in time, and close does not wait: releasing the context would, for ever. The device is
 * abandoned with all it was given.
 */
static void a_gpu_that_hangs_is_left_alone(void)
{
    static struct rig *rig;
    rig = open_cuda("hang=copy:1");
    void *stream = rig_stream(rig), *event = rig_event(rig), *other = rig_stream(rig);
    struct muster_memory *memory = rig_memory(rig, 100);
    _Atomic int *made = rig_host(rig, sizeof *made);
    struct counted *calls = rig_host(rig, CALLS * sizeof *calls);
    rig_fill(rig, stream, memory, 0, 1, 100);
    for (int i = 0; i < CALLS; i++) {
        calls[i].made = made;
        DO(rig, host_call, stream, count_call, &calls[i]);
    }
    DO(rig, event_record, event, stream);
    REFUSED(rig, MUSTER_E_TIMEOUT, event_wait, event, LOOK_NS);
    FINISHES(rig, other);
    rig->table.stream_close(stream);
    rig->table.stream_close(other);
    CHECK_EQUAL(0, atomic_load(made));
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, rig->table.device_close(rig->device));
    /* Its calls are made all the same, and not again when it goes on after all. */
    wait_for_calls(made, CALLS);
    control->release();
    while (rig->table.event_query(event, NULL) == MUSTER_E_BUSY)
        platform_thread_yield();
    for (int i = 0; i < CALLS; i++) {
        CHECK_EQUAL(1, atomic_load(&calls[i].times));
        CHECK_EQUAL(i, calls[i].order);
        CHECK_STATUS(MUSTER_E_DEVICE_HUNG, calls[i].status);
    }
}

/* Also when it owes nobody a call. */
static void a_gpu_that_hangs_is_not_closed(void)
{
    static struct rig *rig;
    rig = open_cuda("hang=copy:1");
    void *stream = rig_stream(rig);
    rig_fill(rig, stream, rig_memory(rig, 100), 0, 1, 100);
    rig->table.stream_close(stream);
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, rig->table.device_close(rig->device));
    control->release();
}

/* --- slices ------------------------------------------------------------------------------------- */

static void slices_take_whole_groups_and_the_rest(void)
{
    static const struct {
        uint32_t sizes[4];
        size_t count;
        muster_status expected;
        const char *says;
    } plans[] = {
        { { 16, 32, 84 }, 3, MUSTER_OK, NULL },
        { { 84, 16, 32 }, 3, MUSTER_OK, NULL },
        { { 8, 8 }, 2, MUSTER_OK, NULL },
        { { 132 }, 1, MUSTER_OK, NULL },
        { { 120 }, 1, MUSTER_OK, NULL },
        { { 12 }, 1, MUSTER_E_NOT_SUPPORTED, "multiples of 8" },
        { { 128 }, 1, MUSTER_E_NOT_SUPPORTED, "at most 120" },
        { { 16, 32, 80 }, 3, MUSTER_E_NOT_SUPPORTED, "multiples of 8" },
        { { 16, 33, 83 }, 3, MUSTER_E_NOT_SUPPORTED, "116" },
        { { 100, 40 }, 2, MUSTER_E_TOO_LARGE, "132" },
        { { 16, 0 }, 2, MUSTER_E_INVALID, "" },
    };
    struct rig *rig = open_cuda("sms=132");
    for (size_t p = 0; p < sizeof plans / sizeof *plans; p++) {
        if (plans[p].expected != MUSTER_OK) {
            REFUSED(rig, plans[p].expected, slice_plan, rig->device, plans[p].sizes,
                    plans[p].count);
            CHECK_CONTAINS(plans[p].says, rig->err.text);
            continue;
        }
        void *slices[4];
        DO(rig, slice_plan, rig->device, plans[p].sizes, plans[p].count);
        for (size_t i = 0; i < plans[p].count; i++) {
            struct muster_device_info info = { .size = sizeof info };
            slices[i] = rig_state(rig->table.device_bytes);
            DO(rig, slice_open, rig->device, i, slices[i], &info);
            CHECK_EQUAL(plans[p].sizes[i], info.cores);
            CHECK_EQUAL(0, info.capabilities & MUSTER_CAN_SLICE);
        }
        for (size_t i = 0; i < plans[p].count; i++) {
            CHECK_STATUS(MUSTER_OK, rig->table.device_close(slices[i]));
            rig_state_free(slices[i]);
        }
        rig->table.slice_unplan(rig->device);
    }
    close_cuda(rig);
}

/* As many as there may be, and one more. */
static void slices_are_limited_in_number(void)
{
    enum { SLICES_MAX = 64 };
    static uint32_t sizes[SLICES_MAX + 1];
    struct rig *rig = open_cuda("sms=1000");
    for (size_t i = 0; i <= SLICES_MAX; i++)
        sizes[i] = 8;
    DO(rig, slice_plan, rig->device, sizes, SLICES_MAX);
    rig->table.slice_unplan(rig->device);
    REFUSED(rig, MUSTER_E_TOO_LARGE, slice_plan, rig->device, sizes, SLICES_MAX + 1);
    CHECK_CONTAINS("at most 64 slices", rig->err.text);
    REFUSED(rig, MUSTER_E_TOO_LARGE, slice_plan, rig->device, sizes, 0);
    close_cuda(rig);
}

/* A process has this many GPUs open at a time; the next one is refused, until another is closed. */
static void gpus_are_limited_in_number(void)
{
    enum {
        GPUS_MAX = 256,
        EACH = RIG_DEVICES_MAX,
        RIGS = GPUS_MAX / EACH,
        MORE = GPUS_MAX % EACH + 1
    };
    static struct rig *rigs[RIGS];
    void *more[MORE];
    struct muster_device_info info = { .size = sizeof info };
    for (size_t i = 0; i < RIGS; i++)
        rigs[i] = open_cuda("devices=8");
    struct rig *rig = rigs[0];
    for (uint32_t i = 0; i < MORE; i++)
        more[i] = rig_state(rig->table.device_bytes);
    for (uint32_t i = 0; i + 1 < MORE; i++)
        DO(rig, device_open, rig->backend, EACH + i, more[i], &info);
    REFUSED(rig, MUSTER_E_CAPACITY, device_open, rig->backend, EACH + MORE - 1, more[MORE - 1],
            &info);
    CHECK_CONTAINS("256 GPUs are open", rig->err.text);
    CHECK_STATUS(MUSTER_OK, rig->table.device_close(more[0]));
    DO(rig, device_open, rig->backend, EACH + MORE - 1, more[MORE - 1], &info);
    for (uint32_t i = 1; i < MORE; i++)
        CHECK_STATUS(MUSTER_OK, rig->table.device_close(more[i]));
    for (uint32_t i = 0; i < MORE; i++)
        rig_state_free(more[i]);
    for (size_t i = 0; i < RIGS; i++)
        rig_close(rigs[i]);
    check_nothing_is_left();
}

static void a_slice_runs_kernels_on_its_default_stream_too(void)
{
    static const uint32_t size = 16;
    struct rig *rig = open_cuda("sms=132");
    struct muster_device_info info = { .size = sizeof info };
    void *slice = rig_state(rig->table.device_bytes);
    DO(rig, slice_plan, rig->device, &size, 1);
    DO(rig, slice_open, rig->device, 0, slice, &info);
    void *stream = rig_stream_on(rig, slice, 0, true);
    CHECK(rig->table.stream_native(stream) != (void *)1);
    void *kernel = open_add(rig, slice, true), *event = rig_event_on(rig, slice, 0);
    struct muster_memory *memory = rig_memory_on(rig, slice, 400);
    uint32_t *host = rig_host(rig, 400);
    unsigned char much = 9;
    const struct muster_launch_arg args[] = { ARG_MEMORY(memory), ARG_VALUE(much) };
    rig_fill(rig, stream, memory, 0, 0, 400);
    rig_launch(rig, stream, kernel, 0, 100, args, 2, NULL);
    rig_copy_out(rig, stream, host, memory, 0, 400);
    DO(rig, event_record, event, stream);
    COMPLETES(rig, MUSTER_OK, event);
    CHECK_EQUAL(9, host[99]);
    close_kernel(rig, kernel);
    rig_event_deinit(rig, event);
    rig_memory_free(rig, NULL, memory);
    rig_stream_close(rig, stream);
    CHECK_STATUS(MUSTER_OK, rig->table.device_close(slice));
    rig_state_free(slice);
    rig->table.slice_unplan(rig->device);
    close_cuda(rig);
}

/* --- the n-th call fails ------------------------------------------------------------------------ */

#define STEP(slot, ...)                                                                            \
    if (status == MUSTER_OK)                                                                       \
    status = table->slot(__VA_ARGS__, &rig->err)

/* Opens, uses and closes what there is, from a device on; says how it went. */
static muster_status use_all(struct rig *rig)
{
    struct muster_backend *table = &rig->table;
    const struct built built = build_add(false);
    struct muster_device_info info = { .size = sizeof info };
    void *device = rig_state(table->device_bytes), *stream = rig_state(table->stream_bytes);
    void *event = rig_state(table->event_bytes), *gate = rig_state(table->gate_bytes);
    void *kernel = rig_state(table->kernel_bytes);
    struct muster_memory memory = { .bytes = 0 };
    unsigned char much = 1, *host = rig_host(rig, 4096);
    _Atomic int *made = rig_host(rig, sizeof *made);
    struct counted *call = rig_host(rig, sizeof *call);
    call->made = made;
    muster_status status = table->device_open(rig->backend, 0, device, &info, &rig->err);
    if (status != MUSTER_OK)
        goto no_device;
    bool has_stream = (status = table->stream_open(device, 0, 0, stream, &rig->err)) == MUSTER_OK;
    STEP(event_init, device, 0, event);
    bool has_event = status == MUSTER_OK;
    STEP(gate_init, device, gate);
    bool has_gate = status == MUSTER_OK;
    STEP(memory_allocate, device, stream, 4096, &memory);
    bool has_memory = status == MUSTER_OK;
    STEP(kernel_init, device, &built.form, kernel);
    bool has_kernel = status == MUSTER_OK;
    const struct muster_launch_arg args[] = { ARG_MEMORY(&memory), ARG_VALUE(much) };
    const struct muster_launch_desc launch = { .items = 100, .args = args, .arg_count = 2 };
    const struct muster_place place = { .memory = &memory };
    const struct muster_copy_desc copy = { .to = { .host = host }, .from = place, .bytes = 4096 };
    STEP(gate_wait, gate, stream, 1);
    STEP(fill, stream, &place, 0, 4096);
    STEP(launch, stream, kernel, &launch, 1);
    STEP(copy, stream, &copy);
    STEP(host_call, stream, count_call, call);
    bool is_given = status == MUSTER_OK;
    STEP(event_record, event, stream);
    if (has_gate)
        table->gate_publish(gate, 1, &rig->err);
    STEP(event_wait, event, SOON_NS);
    if (is_given)
        wait_for_calls(made, 1);
    while (has_stream && table->stream_query(stream, NULL) == MUSTER_E_BUSY)
        platform_thread_yield();
    if (has_kernel)
        table->kernel_deinit(kernel);
    if (has_memory)
        table->memory_free(device, NULL, &memory, &rig->err);
    if (has_event)
        table->event_deinit(event);
    if (has_gate)
        table->gate_deinit(gate);
    if (has_stream)
        table->stream_close(stream);
    CHECK_STATUS(MUSTER_OK, table->device_close(device));
    CHECK_EQUAL(is_given ? 1 : 0, atomic_load(made));
no_device:
    rig_state_free(device);
    rig_state_free(stream);
    rig_state_free(event);
    rig_state_free(gate);
    rig_state_free(kernel);
    free(built.image);
    return status;
}

#define CALLS_OF_ALL 150

/* With an answer that harms nobody but the call, and with one that loses the context. */
static void the_nth_call_of_the_driver_may_fail(void)
{
    static const int codes[] = { 2, 801, 700 };
    for (size_t c = 0; c < sizeof codes / sizeof *codes; c++) {
        unsigned failed = 0;
        bool is_over = false;
        /* Beyond this there is nothing but asking whether an event is complete. */
        for (unsigned n = 1; !is_over && n < CALLS_OF_ALL; n++) {
            struct rig *rig = open_cuda("devices=2");
            char setting[64];
            snprintf(setting, sizeof setting, "fail=any:%u:%d", n, codes[c]);
            CHECK(control->set(setting));
            uint64_t before = control->calls(NULL);
            muster_status status = use_all(rig);
            is_over = control->calls(NULL) - before < n;
            CHECK(!is_over || status == MUSTER_OK);
            failed += status != MUSTER_OK;
            control->reset();
            rig_close_broken(rig, MUSTER_OK);
        }
        CHECK(failed > 10);
    }
}

static const struct test tests[] = {
    TEST(a_machine_without_gpus_is_no_fault),
    TEST(a_gpu_is_described),
    TEST(without_pools_memory_is_not_in_stream_order),
    TEST(the_callers_context_stays_current),
    TEST(a_kernel_runs_in_either_form),
    TEST(what_cannot_be_loaded_says_why),
    TEST(other_arguments_than_declared_are_refused),
    TEST(unordered_launches_go_together),
    TEST(batches_go_as_graphs),
    TEST(graphs_make_room_for_others),
    TEST(without_graphs_launches_go_one_by_one),
    TEST(slices_launch_without_graphs),
    TEST(pageable_memory_does_not_make_the_caller_wait),
    TEST(memory_that_is_pinned_in_part_is_copied),
    TEST(pinned_memory_of_any_size_is_copied_as_it_is),
    TEST(a_long_copy_is_few_operations),
    TEST(a_new_gate_does_not_disturb_old_waits),
    TEST(kept_memory_does_not_stand_in_the_way),
    TEST(registered_memory_stays_until_all_are_done),
    TEST(slices_take_whole_groups_and_the_rest),
    TEST(slices_are_limited_in_number),
    TEST(gpus_are_limited_in_number),
    TEST(a_slice_runs_kernels_on_its_default_stream_too),
    TEST(the_nth_call_of_the_driver_may_fail),
    TEST(a_loss_makes_every_call_once),
    TEST(calls_keep_their_order_through_a_loss),
    TEST(slices_are_lost_together),
    TEST(a_gpu_that_hangs_is_left_alone),
    TEST(a_gpu_that_hangs_is_not_closed),
};

int main(int argc, char **argv)
{
    int result = test_main(argc, argv, tests, sizeof tests / sizeof *tests);
    /* Ends what devices that hang have kept. */
    if (control)
        control->reset();
    return result;
}
