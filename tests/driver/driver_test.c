/*
 * That the driver of the tests behaves as CUDA's does where the tests of the backend rely on it.
 */
#include "harness.h"

#include "backend/cuda/driver.h"
#include "control.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct cuda_driver cuda;
static const struct test_cuda *control;
static cuda_context context;

#define WORKS(call) CHECK_EQUAL(0, call)

static void begin(void)
{
    if (!control) {
        void *library = dlopen("libcuda.so.1", RTLD_NOW);
        CHECK(library);
        const struct test_cuda *(*get)(void);
        *(void **)&get = dlsym(library, TEST_CUDA_CONTROL);
        CHECK(get);
        control = get();
#define LOOK_UP(member, symbol, parameters)                                                        \
    *(void **)&cuda.member = dlsym(library, #symbol);                                              \
    CHECK(cuda.member);
        CUDA_REQUIRED(LOOK_UP)
        CUDA_OPTIONAL(LOOK_UP)
#undef LOOK_UP
    }
    control->reset();
    WORKS(cuda.init(0));
    WORKS(cuda.primary_retain(&context, 0));
    WORKS(cuda.context_push(context));
}

static void end(void)
{
    WORKS(cuda.context_pop(&context));
    WORKS(cuda.primary_release(0));
    CHECK_EQUAL(0, control->left_behind());
}

static cuda_stream_handle open_stream(void)
{
    cuda_stream_handle stream = NULL;
    WORKS(cuda.stream_create(&stream, CUDA_FLAG_STREAM_NON_BLOCKING, 0));
    return stream;
}

static void finish(cuda_stream_handle stream)
{
    cuda_result result;
    while ((result = cuda.stream_query(stream)) == CUDA_NOT_READY) {}
    WORKS(result);
}

/* --- kernels ----------------------------------------------------------------------------------- */

typedef struct _nvrtcProgram *program;
static struct {
    int (*create)(program *, const char *, const char *, int, const char *const *,
                  const char *const *);
    int (*compile)(program, int, const char *const *);
    int (*image_bytes)(program, size_t *), (*image)(program, char *);
    int (*ptx_bytes)(program, size_t *), (*ptx)(program, char *);
    int (*log_bytes)(program, size_t *), (*log)(program, char *);
    int (*destroy)(program *);
} nvrtc;

static void open_nvrtc(void)
{
    void *library = dlopen("libnvrtc.so.13", RTLD_NOW);
    CHECK(library);
    *(void **)&nvrtc.create = dlsym(library, "nvrtcCreateProgram");
    *(void **)&nvrtc.compile = dlsym(library, "nvrtcCompileProgram");
    *(void **)&nvrtc.image_bytes = dlsym(library, "nvrtcGetCUBINSize");
    *(void **)&nvrtc.image = dlsym(library, "nvrtcGetCUBIN");
    *(void **)&nvrtc.ptx_bytes = dlsym(library, "nvrtcGetPTXSize");
    *(void **)&nvrtc.ptx = dlsym(library, "nvrtcGetPTX");
    *(void **)&nvrtc.log_bytes = dlsym(library, "nvrtcGetProgramLogSize");
    *(void **)&nvrtc.log = dlsym(library, "nvrtcGetProgramLog");
    *(void **)&nvrtc.destroy = dlsym(library, "nvrtcDestroyProgram");
}

/* The caller's. NULL, and what the compiler said in `log`: it does not compile. */
static char *compile(const char *source, bool as_ptx, char *log, size_t room)
{
    static const char *const options[] = { "--gpu-architecture=sm_90", "--fmad=false" };
    program made;
    size_t bytes = 0;
    char *image = NULL;
    open_nvrtc();
    CHECK_EQUAL(0, nvrtc.create(&made, source, "kernel.cu", 0, NULL, NULL));
    int result = nvrtc.compile(made, 2, options);
    if (result == 0) {
        CHECK_EQUAL(0, as_ptx ? nvrtc.ptx_bytes(made, &bytes) : nvrtc.image_bytes(made, &bytes));
        CHECK(bytes > 0);
        image = malloc(bytes);
        CHECK_EQUAL(0, as_ptx ? nvrtc.ptx(made, image) : nvrtc.image(made, image));
    } else {
        CHECK_EQUAL(0, nvrtc.log_bytes(made, &bytes));
        CHECK(bytes < room);
        CHECK_EQUAL(0, nvrtc.log(made, log));
    }
    nvrtc.destroy(&made);
    return image;
}

static const char add_source[] =
    "extern \"C\" __global__ void add(unsigned long long begin, unsigned long long items,\n"
    "                               unsigned *values, unsigned char much)\n"
    "{\n"
    "    unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;\n"
    "    for (unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;\n"
    "         i < items; i += stride)\n"
    "        values[begin + i] += much;\n"
    "}\n"
    "__global__ void mangled(int *p) { *p = 1; }\n";

static void a_kernel_is_compiled_and_run(void)
{
    enum { ITEMS = 10000 };
    begin();
    for (int as_ptx = 0; as_ptx < 2; as_ptx++) {
        char *image = compile(add_source, as_ptx, NULL, 0);
        CHECK(image);
        cuda_module module;
        cuda_function function;
        WORKS(cuda.module_load(&module, image, 0, NULL, NULL));
        free(image);
        CHECK_EQUAL(CUDA_NOT_FOUND, cuda.module_function(&function, module, "mangled"));
        WORKS(cuda.module_function(&function, module, "add"));
        size_t offset, bytes;
        WORKS(cuda.function_parameter(function, 3, &offset, &bytes));
        CHECK_EQUAL(24, offset);
        CHECK_EQUAL(1, bytes);
        CHECK_EQUAL(CUDA_INVALID_VALUE, cuda.function_parameter(function, 4, &offset, &bytes));

        cuda_stream_handle stream = open_stream();
        cuda_pointer values;
        WORKS(cuda.memory_allocate(&values, (ITEMS + 1) * sizeof(uint32_t)));
        WORKS(cuda.fill(values, 0, (ITEMS + 1) * sizeof(uint32_t), stream));
        uint64_t first = 0, items = ITEMS;
        unsigned char much = 3;
        void *parameters[] = { &first, &items, &values, &much };
        WORKS(cuda.launch(function, 7, 1, 1, 128, 1, 1, 0, stream, parameters, NULL));
        much = 9;
        uint32_t *host = malloc((ITEMS + 1) * sizeof *host);
        WORKS(cuda.copy_out(host, values, (ITEMS + 1) * sizeof *host, stream));
        for (int i = 0; i < ITEMS; i++)
            CHECK_EQUAL(3, host[i]);
        CHECK_EQUAL(0, host[ITEMS]);
        free(host);
        WORKS(cuda.memory_free(values));
        WORKS(cuda.stream_destroy(stream));
        WORKS(cuda.module_unload(module));
    }
    end();
}

static void what_is_no_kernel_is_refused(void)
{
    char log[4096];
    begin();
    CHECK(!compile("extern \"C\" __global__ void k(int *p) { *p = missing; }", false, log,
                   sizeof log));
    CHECK_CONTAINS("missing", log);
    cuda_module module;
    cuda_jit_option options[] = { CUDA_JIT_ERROR_LOG, CUDA_JIT_ERROR_LOG_BYTES };
    void *values[] = { log, (void *)(uintptr_t)sizeof log };
    CHECK_EQUAL(CUDA_INVALID_PTX,
                cuda.module_load(&module, "this is no code at all", 2, options, values));
    CHECK_CONTAINS("ptxas", log);
    char *image = compile(add_source, true, log, sizeof log);
    CHECK(control->set("ptx=83"));
    CHECK_EQUAL(CUDA_NEWER_PTX, cuda.module_load(&module, image, 0, NULL, NULL));
    free(image);
    end();
}

/* --- order ------------------------------------------------------------------------------------- */

static void waits_bind_to_the_last_record(void)
{
    begin();
    cuda_stream_handle held = open_stream(), other = open_stream(), third = open_stream();
    cuda_event_handle event;
    uint64_t *gate;
    WORKS(cuda.host_allocate((void **)&gate, sizeof *gate, 0));
    __atomic_store_n(gate, 0, __ATOMIC_RELEASE);
    WORKS(cuda.event_create(&event, CUDA_FLAG_EVENT_NO_TIMING));
    WORKS(cuda.event_query(event));
    WORKS(cuda.stream_wait_event(third, event, 0));
    finish(third);
    WORKS(cuda.stream_wait_value(held, (uintptr_t)gate, 1, CUDA_FLAG_WAIT_GEQ));
    WORKS(cuda.event_record(event, held));
    WORKS(cuda.stream_wait_event(third, event, 0));
    WORKS(cuda.event_record(event, other));
    finish(other);
    WORKS(cuda.event_query(event));
    CHECK_EQUAL(CUDA_NOT_READY, cuda.stream_query(third));
    __atomic_store_n(gate, 1, __ATOMIC_RELEASE);
    finish(third);
    WORKS(cuda.event_destroy(event));
    WORKS(cuda.host_free(gate));
    WORKS(cuda.stream_destroy(held));
    WORKS(cuda.stream_destroy(other));
    WORKS(cuda.stream_destroy(third));
    end();
}

static void calls_need_a_context(void)
{
    begin();
    cuda_stream_handle stream;
    WORKS(cuda.context_pop(NULL));
    CHECK_EQUAL(CUDA_INVALID_CONTEXT, cuda.stream_create(&stream, 1, 0));
    WORKS(cuda.context_push(context));
    end();
}

/* --- failures ---------------------------------------------------------------------------------- */

static void note(void *user)
{
    __atomic_store_n((int *)user, 1, __ATOMIC_RELEASE);
}

static void a_poisoned_context_stays_so(void)
{
    static int was_called;
    begin();
    CHECK(control->set("poison=copy:2:700"));
    cuda_stream_handle stream = open_stream();
    cuda_pointer memory;
    size_t some, total;
    WORKS(cuda.memory_allocate(&memory, 100));
    WORKS(cuda.fill(memory, 1, 100, stream));
    finish(stream);
    WORKS(cuda.fill(memory, 1, 100, stream));
    cuda.host_call(stream, note, &was_called);
    while (cuda.stream_query(stream) == CUDA_NOT_READY) {}
    CHECK_EQUAL(CUDA_ILLEGAL_ADDRESS, cuda.stream_query(stream));
    CHECK_EQUAL(CUDA_ILLEGAL_ADDRESS, cuda.memory_info(&some, &total));
    CHECK_EQUAL(CUDA_ILLEGAL_ADDRESS, cuda.stream_destroy(stream));
    WORKS(cuda.context_pop(NULL));
    WORKS(cuda.primary_release(0));
    CHECK(control->left_behind() > 0);
    CHECK_EQUAL(0, __atomic_load_n(&was_called, __ATOMIC_ACQUIRE));
    CHECK_EQUAL(CUDA_ILLEGAL_ADDRESS, cuda.primary_retain(&context, 0));
}

static void work_hangs_until_it_is_let_go(void)
{
    begin();
    CHECK(control->set("hang=copy:1"));
    cuda_stream_handle stream = open_stream();
    cuda_pointer memory;
    WORKS(cuda.memory_allocate(&memory, 100));
    WORKS(cuda.fill(memory, 1, 100, stream));
    for (int i = 0; i < 1000; i++)
        CHECK_EQUAL(CUDA_NOT_READY, cuda.stream_query(stream));
    control->release();
    finish(stream);
    WORKS(cuda.memory_free(memory));
    WORKS(cuda.stream_destroy(stream));
    end();
}

static uint64_t free_bytes(void)
{
    size_t some = 0, total;
    WORKS(cuda.memory_info(&some, &total));
    return some;
}

static uint64_t pool_bytes(cuda_pool pool, cuda_pool_attribute attribute)
{
    uint64_t bytes = 0;
    WORKS(cuda.pool_get(pool, attribute, &bytes));
    return bytes;
}

/* What is freed stays with the pool up to its threshold, and only trimming gives that back. */
static void a_pool_keeps_what_is_freed(void)
{
    begin();
    CHECK(control->set("memory=1000000"));
    cuda_pool_properties properties = { .allocation_type = CUDA_ALLOCATION_PINNED,
                                        .location = { .type = CUDA_LOCATION_DEVICE } };
    cuda_stream_handle stream = open_stream();
    for (int keeps = 0; keeps < 2; keeps++) {
        cuda_pool pool = NULL;
        uint64_t all = UINT64_MAX;
        cuda_pointer first, second;
        WORKS(cuda.pool_create(&pool, &properties));
        if (keeps)
            WORKS(cuda.pool_set(pool, CUDA_POOL_RELEASE_THRESHOLD, &all));
        WORKS(cuda.pool_allocate(&first, 600000, pool, stream));
        CHECK_EQUAL(400000, free_bytes());
        CHECK_EQUAL(600000, pool_bytes(pool, CUDA_POOL_USED));
        WORKS(cuda.pool_free(first, stream));
        finish(stream);
        CHECK_EQUAL(0, pool_bytes(pool, CUDA_POOL_USED));
        CHECK_EQUAL(keeps ? 600000 : 0, pool_bytes(pool, CUDA_POOL_RESERVED));
        CHECK_EQUAL(keeps ? 400000 : 1000000, free_bytes());
        CHECK_EQUAL(keeps ? CUDA_OUT_OF_MEMORY : 0, cuda.memory_allocate(&second, 700000));
        if (!keeps)
            WORKS(cuda.memory_free(second));
        /* Less comes from what is kept. */
        WORKS(cuda.pool_allocate(&first, 100000, pool, stream));
        CHECK_EQUAL(keeps ? 400000 : 900000, free_bytes());
        CHECK_EQUAL(keeps ? CUDA_OUT_OF_MEMORY : 0,
                    cuda.pool_allocate(&second, 700000, pool, stream));
        if (!keeps)
            WORKS(cuda.pool_free(second, stream));
        finish(stream);
        WORKS(cuda.pool_trim(pool, 0));
        CHECK_EQUAL(100000, pool_bytes(pool, CUDA_POOL_RESERVED));
        CHECK_EQUAL(900000, free_bytes());
        /* Memory outlives its pool. */
        WORKS(cuda.pool_destroy(pool));
        CHECK_EQUAL(900000, free_bytes());
        WORKS(cuda.pool_free(first, stream));
        finish(stream);
        CHECK_EQUAL(1000000, free_bytes());
    }
    WORKS(cuda.stream_destroy(stream));
    end();
}

/* Pinned memory that streams wait for; the caller's. */
static uint64_t *make_word(void)
{
    void *word = NULL;
    WORKS(cuda.host_allocate(&word, sizeof(uint64_t), CUDA_FLAG_HOST_MAPPED));
    *(uint64_t *)word = 0;
    return word;
}

static void open_gate(uint64_t *word)
{
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
}

static void hold(cuda_stream_handle stream, const uint64_t *word)
{
    WORKS(cuda.stream_wait_value(stream, (cuda_pointer)(uintptr_t)word, 1, CUDA_FLAG_WAIT_GEQ));
}

/* A stream that waits holds up those that share its queue: with eight of them all the others. */
static void streams_share_queues(void)
{
    enum { HELD = 8 };
    cuda_stream_handle streams[HELD], other;
    int calls[2] = { 0 };
    begin();
    uint64_t *word = make_word();
    other = open_stream();
    for (int i = 0; i < HELD - 1; i++) {
        streams[i] = open_stream();
        hold(streams[i], word);
    }
    WORKS(cuda.host_call(other, note, &calls[0]));
    finish(other);
    streams[HELD - 1] = open_stream();
    hold(streams[HELD - 1], word);
    WORKS(cuda.host_call(other, note, &calls[1]));
    nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    CHECK_EQUAL(CUDA_NOT_READY, cuda.stream_query(other));
    open_gate(word);
    finish(other);
    for (int i = 0; i < HELD; i++) {
        finish(streams[i]);
        WORKS(cuda.stream_destroy(streams[i]));
    }
    WORKS(cuda.stream_destroy(other));
    CHECK(calls[0] && calls[1]);
    WORKS(cuda.host_free(word));
    end();
}

struct eager {
    cuda_stream_handle stream;
    cuda_event_handle event;
    _Atomic int given;
};

static void *give_many(void *user)
{
    struct eager *eager = user;
    WORKS(cuda.context_push(context));
    for (int i = 0; i < 1100; i++) {
        WORKS(cuda.event_record(eager->event, eager->stream));
        atomic_fetch_add(&eager->given, 1);
    }
    cuda_context popped;
    WORKS(cuda.context_pop(&popped));
    return NULL;
}

/* Who queues a thousand operations behind one that waits is made to wait as well. */
static void queues_are_of_some_length(void)
{
    struct eager eager = { .given = 0 };
    pthread_t thread;
    begin();
    uint64_t *word = make_word();
    eager.stream = open_stream();
    WORKS(cuda.event_create(&eager.event, CUDA_FLAG_EVENT_NO_TIMING));
    hold(eager.stream, word);
    CHECK_EQUAL(0, pthread_create(&thread, NULL, give_many, &eager));
    while (atomic_load(&eager.given) < 999)
        sched_yield();
    nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    CHECK_EQUAL(999, atomic_load(&eager.given));
    open_gate(word);
    pthread_join(thread, NULL);
    finish(eager.stream);
    WORKS(cuda.event_destroy(eager.event));
    WORKS(cuda.stream_destroy(eager.stream));
    WORKS(cuda.host_free(word));
    end();
}

static void the_nth_call_fails(void)
{
    begin();
    CHECK(!control->set("fail=cuMemAlloc"));
    CHECK(!control->set("colour=3"));
    CHECK(control->set("fail=cuMemAlloc:2:2; fail_from=cuEventCreate:1:304"));
    cuda_pointer memory[2];
    cuda_event_handle event;
    WORKS(cuda.memory_allocate(&memory[0], 10));
    CHECK_EQUAL(CUDA_OUT_OF_MEMORY, cuda.memory_allocate(&memory[1], 10));
    WORKS(cuda.memory_allocate(&memory[1], 10));
    CHECK_EQUAL(CUDA_OPERATING_SYSTEM, cuda.event_create(&event, 0));
    CHECK_EQUAL(CUDA_OPERATING_SYSTEM, cuda.event_create(&event, 0));
    CHECK_EQUAL(3, control->calls("cuMemAlloc"));
    WORKS(cuda.memory_free(memory[0]));
    WORKS(cuda.memory_free(memory[1]));
    end();
}

static void multiprocessors_are_cut_in_steps(void)
{
    begin();
    cuda_resource whole, parts[32], rest, other;
    unsigned count = 2;
    WORKS(cuda.device_resource(0, &whole, CUDA_RESOURCE_SM));
    CHECK_EQUAL(132, whole.of.sm.count);
    WORKS(cuda.resource_split(parts, &count, &whole, &rest, 0, 13));
    CHECK_EQUAL(2, count);
    CHECK_EQUAL(16, parts[1].of.sm.count);
    CHECK_EQUAL(100, rest.of.sm.count);
    other = parts[0];
    CHECK_EQUAL(CUDA_RESOURCE_CONFIGURATION, cuda.resource_split(parts, &count, &rest, NULL, 0, 8));
    count = 32;
    WORKS(cuda.resource_split(parts, &count, &whole, &rest, 0, 8));
    CHECK_EQUAL(15, count);
    CHECK_EQUAL(12, rest.of.sm.count);
    cuda_resource_desc desc;
    cuda_green_context green;
    cuda_stream_handle stream;
    parts[14] = other;
    CHECK_EQUAL(CUDA_RESOURCE_CONFIGURATION, cuda.resource_describe(&desc, &parts[13], 2));
    WORKS(cuda.resource_describe(&desc, &parts[0], 3));
    WORKS(cuda.green_create(&green, desc, 0, CUDA_FLAG_GREEN_DEFAULT_STREAM));
    WORKS(cuda.green_stream(&stream, green, CUDA_FLAG_STREAM_NON_BLOCKING, 0));
    finish(stream);
    WORKS(cuda.stream_destroy(stream));
    WORKS(cuda.green_destroy(green));
    end();
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_kernel_is_compiled_and_run),    TEST(what_is_no_kernel_is_refused),
        TEST(waits_bind_to_the_last_record),   TEST(calls_need_a_context),
        TEST(a_poisoned_context_stays_so),     TEST(work_hangs_until_it_is_let_go),
        TEST(a_pool_keeps_what_is_freed),      TEST(streams_share_queues),
        TEST(queues_are_of_some_length),       TEST(the_nth_call_fails),
        TEST(multiprocessors_are_cut_in_steps)
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
