/*
 * Modules and launches. An image is a shared object for the host, see image.h; anything else is
 * refused as the real driver refuses an image that is not for its device.
 */
#include "inside.h"

#include "image.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NAME_LENGTH_MAX 256
#define PARAMETER_BYTES_MAX 4096
#define FUNCTIONS_MAX 64
/* Launches of fewer threads are not worth a second thread of the host. */
#define SPLIT_FROM 512u
/* Of launches with more threads than this only some blocks are run, see run_sparsely. */
#define SPARSE_FROM (1ul << 28)
#define SPARSE_STEP (1ul << 20)

enum { JIT_ERROR_LOG = 5, JIT_ERROR_LOG_BYTES = 6 };

struct function {
    struct module *module;
    const struct test_kernel *kernel;
};

struct module {
    struct object object;
    void *handle;
    int fd; /* open as long as the image is loaded: its number is part of the name it is loaded by */
    uint32_t function_count;
    struct function functions[FUNCTIONS_MAX];
    pthread_mutex_t mutex;
};

static void say(unsigned count, const unsigned *options, void **values, const char *text)
{
    char *log = NULL;
    size_t bytes = 0;
    for (unsigned i = 0; i < count; i++) {
        if (options[i] == JIT_ERROR_LOG)
            log = values[i];
        if (options[i] == JIT_ERROR_LOG_BYTES)
            bytes = (size_t)(uintptr_t)values[i];
    }
    if (log && bytes > 0)
        snprintf(log, bytes, "%s", text);
}

/* As long as the image says it is: the caller gives no length. */
static size_t image_bytes(const unsigned char *image)
{
    uint64_t sections_at;
    uint16_t section_bytes, section_count;
    memcpy(&sections_at, image + 40, sizeof sections_at);
    memcpy(&section_bytes, image + 58, sizeof section_bytes);
    memcpy(&section_count, image + 60, sizeof section_count);
    return sections_at + (size_t)section_bytes * section_count;
}

static bool write_all(int fd, const unsigned char *image, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = write(fd, image, bytes);
        if (written <= 0)
            return false;
        image += written;
        bytes -= (size_t)written;
    }
    return true;
}

static CUresult load_image(const unsigned char *image, struct module *module)
{
    char path[64];
    module->fd = memfd_create("muster-test-kernel", MFD_CLOEXEC);
    if (module->fd < 0 || !write_all(module->fd, image, image_bytes(image)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    snprintf(path, sizeof path, "/proc/self/fd/%d", module->fd);
    module->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return module->handle ? CUDA_SUCCESS : CUDA_ERROR_NO_BINARY_FOR_GPU;
}

static CUresult find_image(const void *given, unsigned count, const unsigned *options,
                           void **values, const unsigned char **image)
{
    const char *text = given;
    bool is_ptx = strncmp(text, TEST_PTX_MARK, strlen(TEST_PTX_MARK)) == 0;
    if (is_ptx) {
        char *end;
        unsigned long version = strtoul(text + strlen(TEST_PTX_MARK), &end, 10);
        if (version > settings.ptx) {
            say(count, options, values,
                "ptxas fatal   : Unsupported .version; current version is older");
            return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
        }
        text = end + 1;
    }
    *image = (const unsigned char *)text;
    if (memcmp(text, "\177ELF\2\1", 6) == 0 && image_bytes(*image) > 64)
        return CUDA_SUCCESS;
    if (memcmp(given, "\177ELF", 4) == 0)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    say(count, options, values,
        "ptxas application ptx input, line 1; fatal   : Parsing error near 'this'");
    return CUDA_ERROR_INVALID_PTX;
}

void module_end(struct object *object)
{
    struct module *module = (struct module *)object;
    object_remove(object);
    if (module->handle)
        dlclose(module->handle);
    if (module->fd >= 0)
        close(module->fd);
    pthread_mutex_destroy(&module->mutex);
    free(module);
}

static CUresult load(const void *image, unsigned count, const unsigned *options, void **values,
                     struct module **out)
{
    const unsigned char *found;
    if (!image || !out)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = find_image(image, count, options, values, &found);
    if (result != CUDA_SUCCESS)
        return result;
    struct module *module = calloc(1, sizeof *module);
    if (!module)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_init(&module->mutex, NULL);
    object_add(&module->object, KIND_MODULE, context_current()->device);
    result = load_image(found, module);
    if (result == CUDA_SUCCESS)
        *out = module;
    else
        module_end(&module->object);
    return result;
}

API(cuModuleLoadDataEx, CUmodule *out, const void *image, unsigned count, unsigned *options,
    void **values)
{
    BEGIN(CHECK_CONTEXT);
    return load(image, count, options, values, out);
}

/* A library belongs to no context; here it lives with the device that is current. */
API(cuLibraryLoadData, CUmodule *out, const void *image, unsigned *options, void **values,
    unsigned count, unsigned *library_options, void **library_values, unsigned library_count)
{
    (void)library_options, (void)library_values, (void)library_count;
    BEGIN(CHECK_CONTEXT);
    return load(image, count, options, values, out);
}

static CUresult unload(struct module *module)
{
    if (!IS(module, KIND_MODULE))
        return CUDA_ERROR_INVALID_HANDLE;
    module_end(&module->object);
    return CUDA_SUCCESS;
}

API(cuModuleUnload, CUmodule module)
{
    BEGIN(CHECK_CONTEXT);
    return unload(module);
}

API(cuLibraryUnload, CUmodule library)
{
    BEGIN(CHECK_INIT);
    return unload(library);
}

static CUresult get_function(struct module *module, const char *name, struct function **out)
{
    char symbol[NAME_LENGTH_MAX];
    if (!IS(module, KIND_MODULE))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!name || !out)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(symbol, sizeof symbol, TEST_KERNEL_PREFIX "%s", name);
    const struct test_kernel *kernel = dlsym(module->handle, symbol);
    if (!kernel)
        return CUDA_ERROR_NOT_FOUND;
    struct function *found = NULL;
    pthread_mutex_lock(&module->mutex);
    for (uint32_t i = 0; i < module->function_count; i++)
        if (module->functions[i].kernel == kernel)
            found = &module->functions[i];
    if (!found && module->function_count < FUNCTIONS_MAX) {
        found = &module->functions[module->function_count++];
        *found = (struct function){ .module = module, .kernel = kernel };
    }
    pthread_mutex_unlock(&module->mutex);
    *out = found;
    return found ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

API(cuModuleGetFunction, CUfunction *function, CUmodule module, const char *name)
{
    BEGIN(CHECK_CONTEXT);
    return get_function(module, name, function);
}

API(cuLibraryGetKernel, CUfunction *kernel, CUmodule library, const char *name)
{
    BEGIN(CHECK_INIT);
    return get_function(library, name, kernel);
}

API(cuKernelGetFunction, CUfunction *function, CUfunction kernel)
{
    BEGIN(CHECK_CONTEXT);
    *function = kernel;
    return CUDA_SUCCESS;
}

API(cuFuncGetAttribute, int *value, unsigned attribute, CUfunction function)
{
    BEGIN(CHECK_CONTEXT);
    if (!function || !value)
        return CUDA_ERROR_INVALID_VALUE;
    *value = attribute == 0 ? 1024 : 0;
    return CUDA_SUCCESS;
}

API(cuFuncGetParamInfo, CUfunction function, size_t index, size_t *offset, size_t *bytes)
{
    BEGIN(CHECK_CONTEXT);
    if (!function || index >= function->kernel->parameter_count)
        return CUDA_ERROR_INVALID_VALUE;
    *offset = function->kernel->offsets[index];
    if (bytes)
        *bytes = function->kernel->sizes[index];
    return CUDA_SUCCESS;
}

/* --- launches ---------------------------------------------------------------------------------- */

struct launch {
    const struct test_kernel *kernel;
    struct test_dimensions grid, block;
    void **parameters; /* behind this, then what they point to */
};

struct part {
    const struct launch *launch;
    unsigned long begin, end;
};

static void *run_part(void *argument)
{
    struct part *part = argument;
    const struct launch *launch = part->launch;
    launch->kernel->run(&launch->grid, &launch->block, part->begin, part->end, launch->parameters);
    return NULL;
}

/*
 * The host has not the time for thousands of millions of threads: the first and the last blocks are run,
 * and those with a thread whose number is a multiple of the step.
 */
static void run_sparsely(const struct launch *launch, unsigned long blocks, unsigned long threads)
{
    struct part ends[] = { { launch, 0, SPARSE_STEP / threads },
                           { launch, blocks - SPARSE_STEP / threads, blocks } };
    run_part(&ends[0]);
    for (unsigned long at = SPARSE_STEP; at < ends[1].begin * threads; at += SPARSE_STEP) {
        unsigned long block = at / threads;
        if (block >= ends[0].end && block < ends[1].begin)
            run_part(&(struct part){ launch, block, block + 1 });
    }
    run_part(&ends[1]);
}

/* Two threads of the host share the blocks: what races between blocks races here. */
static void run_launch(void *payload)
{
    const struct launch *launch = payload;
    unsigned long blocks = (unsigned long)launch->grid.x * launch->grid.y * launch->grid.z;
    unsigned long threads = (unsigned long)launch->block.x * launch->block.y * launch->block.z;
    if (blocks * threads > SPARSE_FROM) {
        run_sparsely(launch, blocks, threads);
        return;
    }
    struct part lower = { launch, 0, blocks }, upper = { launch, blocks / 2, blocks };
    pthread_t helper;
    bool is_split = blocks > 1 && blocks * threads >= SPLIT_FROM &&
                    pthread_create(&helper, NULL, run_part, &upper) == 0;
    if (is_split)
        lower.end = blocks / 2;
    run_part(&lower);
    if (is_split)
        pthread_join(helper, NULL);
}

static size_t aligned(size_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

/* Copies the parameters: they are the caller's again when the call returns. */
static struct launch *copy_launch(const struct test_kernel *kernel, void *const *parameters)
{
    size_t bytes =
        aligned(sizeof(struct launch)) + aligned(sizeof(void *) * (kernel->parameter_count + 1));
    for (unsigned long i = 0; i < kernel->parameter_count; i++)
        bytes += aligned(kernel->sizes[i]);
    unsigned char *memory = aligned_alloc(16, aligned(bytes));
    if (!memory)
        return NULL;
    struct launch *launch = (struct launch *)memory;
    launch->kernel = kernel;
    launch->parameters = (void **)(memory + aligned(sizeof *launch));
    unsigned char *at = (unsigned char *)launch->parameters +
                        aligned(sizeof(void *) * (kernel->parameter_count + 1));
    for (unsigned long i = 0; i < kernel->parameter_count; i++) {
        launch->parameters[i] = memcpy(at, parameters[i], kernel->sizes[i]);
        at += aligned(kernel->sizes[i]);
    }
    return launch;
}

/* A launch as asked for, checked; the caller's, freed with free(). */
CUresult launch_make(struct function *function, const struct test_dimensions *grid,
                     const struct test_dimensions *block, unsigned shared_bytes, void **parameters,
                     void **extra, struct launch **out)
{
    if (!function || !IS(function->module, KIND_MODULE))
        return CUDA_ERROR_INVALID_HANDLE;
    uint64_t threads = (uint64_t)block->x * block->y * block->z;
    if (grid->x == 0 || grid->y == 0 || grid->z == 0 || threads == 0 || threads > 1024 ||
        block->z > 64 || grid->x > settings.grid || grid->y > 65535 || grid->z > 65535 || extra ||
        shared_bytes > 49152 || (!parameters && function->kernel->parameter_count > 0))
        return CUDA_ERROR_INVALID_VALUE;
    struct launch *launch = copy_launch(function->kernel, parameters);
    if (!launch)
        return CUDA_ERROR_OUT_OF_MEMORY;
    launch->grid = *grid;
    launch->block = *block;
    *out = launch;
    return CUDA_SUCCESS;
}

struct launch *launch_copy(const struct launch *launch)
{
    struct launch *copy = copy_launch(launch->kernel, launch->parameters);
    if (copy) {
        copy->grid = launch->grid;
        copy->block = launch->block;
    }
    return copy;
}

void launch_run(const struct launch *launch)
{
    run_launch((void *)(uintptr_t)launch);
}

API(cuLaunchKernel, CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
    unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream handle,
    void **parameters, void **extra)
{
    struct stream *stream;
    struct launch *launch;
    BEGIN(CHECK_CONTEXT);
    CUresult result = stream_resolve(handle, &stream);
    if (result == CUDA_SUCCESS)
        result = launch_make(function, &(struct test_dimensions){ grid_x, grid_y, grid_z },
                             &(struct test_dimensions){ block_x, block_y, block_z }, shared_bytes,
                             parameters, extra, &launch);
    return result == CUDA_SUCCESS ? stream_give_launch(stream, run_launch, free, launch) : result;
}
