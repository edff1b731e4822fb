/*
 * Device memory is heap memory, a piece for each allocation, so that AddressSanitizer sees what goes
 * beyond it. A pool keeps what is freed, as the real one does: kept memory counts as taken, a request
 * that no kept piece is large enough for needs more, and only trimming gives it back. Host memory is what was registered or allocated as pinned, and everything else is
 * pageable, with copies that wait.
 */
#include "inside.h"

#include <stdlib.h>
#include <string.h>

/* Up to here a copy from pageable memory is staged at once. */
#define STAGED_MAX 65536u
/* Fresh memory holds rubbish, not zeroes; large pieces are left untouched. */
#define RUBBISH 0xA7
#define RUBBISH_MAX (UINT64_C(4) << 20)
#define ALIGNMENT 256u

/* Memory that the driver knows: of the device, or pinned memory of the host. */
struct range {
    struct object object;
    struct range *next_known; /* in `known`, under the lock */
    unsigned char *memory;
    size_t bytes;
    bool is_host, is_owned;
    struct pool *pool; /* a reference; NULL: of no pool */
};

/* Memory that a pool has and nobody uses. */
struct kept {
    struct kept *next;
    uint64_t bytes;
};

/* All but the head is guarded by `pools_lock`. */
struct pool {
    struct object object;
    uint32_t references; /* its own, until it is destroyed, and of memory from it */
    struct device *device;
    uint64_t threshold; /* up to here it keeps what is freed */
    uint64_t reserved, used;
    struct kept *kept;
};

static pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;

static struct range *known;
static pthread_rwlock_t known_lock = PTHREAD_RWLOCK_INITIALIZER;

static bool overlaps(const struct range *range, const void *memory, size_t bytes)
{
    const unsigned char *begin = memory;
    return begin < range->memory + range->bytes && range->memory < begin + bytes;
}

static bool contains(const struct range *range, const void *memory, size_t bytes)
{
    const unsigned char *begin = memory;
    return begin >= range->memory && bytes <= range->bytes &&
           begin + bytes <= range->memory + range->bytes;
}

/* What the driver knows of these bytes; `is_host` of a range that holds all of them. */
static bool is_known(const void *memory, size_t bytes, bool is_host)
{
    bool is_found = false;
    pthread_rwlock_rdlock(&known_lock);
    for (struct range *range = known; range && !is_found; range = range->next_known)
        is_found = contains(range, memory, bytes) && range->is_host == is_host;
    pthread_rwlock_unlock(&known_lock);
    return is_found;
}

/* Whether a part of it is registered, which copies do not take. */
static bool is_partly_pinned(const void *memory, size_t bytes)
{
    bool has_part = false, is_whole = false;
    pthread_rwlock_rdlock(&known_lock);
    for (struct range *range = known; range && !is_whole; range = range->next_known) {
        is_whole = range->is_host && contains(range, memory, bytes);
        has_part |= range->is_host && overlaps(range, memory, bytes);
    }
    pthread_rwlock_unlock(&known_lock);
    return has_part && !is_whole;
}

static void learn(struct range *range)
{
    pthread_rwlock_wrlock(&known_lock);
    range->next_known = known;
    known = range;
    pthread_rwlock_unlock(&known_lock);
}

/* Takes out the range that begins there; NULL: none does. */
static struct range *forget(const void *memory, bool is_host)
{
    struct range *found = NULL;
    pthread_rwlock_wrlock(&known_lock);
    for (struct range **at = &known; *at && !found; at = &(*at)->next_known)
        if ((*at)->memory == memory && (*at)->is_host == is_host) {
            found = *at;
            *at = found->next_known;
            break;
        }
    pthread_rwlock_unlock(&known_lock);
    return found;
}

static bool reserve(struct device *device, size_t bytes)
{
    uint64_t used = atomic_load_explicit(&device->used_bytes, memory_order_relaxed);
    do {
        if (bytes > settings.memory - used || used > settings.memory)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&device->used_bytes, &used, used + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

static void unreserve(struct device *device, size_t bytes)
{
    atomic_fetch_sub_explicit(&device->used_bytes, bytes, memory_order_relaxed);
}

static void pool_trim_locked(struct pool *pool, uint64_t least)
{
    while (pool->kept && pool->reserved > least) {
        struct kept *kept = pool->kept;
        pool->kept = kept->next;
        pool->reserved -= kept->bytes;
        unreserve(pool->device, kept->bytes);
        free(kept);
    }
}

static void pool_let_go_locked(struct pool *pool)
{
    if (--pool->references == 0)
        free(pool);
}

/* From what the pool has, cutting the first piece that is large enough, or from the device. */
static bool pool_take(struct pool *pool, uint64_t bytes)
{
    pthread_mutex_lock(&pools_lock);
    struct kept **at = &pool->kept;
    while (*at && (*at)->bytes < bytes)
        at = &(*at)->next;
    struct kept *kept = *at;
    bool is_taken = kept || reserve(pool->device, bytes);
    if (kept) {
        kept->bytes -= bytes;
        if (kept->bytes == 0) {
            *at = kept->next;
            free(kept);
        }
    } else if (is_taken) {
        pool->reserved += bytes;
    }
    if (is_taken) {
        pool->used += bytes;
        pool->references++;
    }
    pthread_mutex_unlock(&pools_lock);
    return is_taken;
}

static void pool_give(struct pool *pool, uint64_t bytes)
{
    struct kept *kept = malloc(sizeof *kept);
    pthread_mutex_lock(&pools_lock);
    pool->used -= bytes;
    if (kept) {
        *kept = (struct kept){ pool->kept, bytes };
        pool->kept = kept;
        pool_trim_locked(pool, pool->threshold);
    } else {
        pool->reserved -= bytes;
        unreserve(pool->device, bytes);
    }
    pool_let_go_locked(pool);
    pthread_mutex_unlock(&pools_lock);
}

static void pool_end(struct pool *pool)
{
    pthread_mutex_lock(&pools_lock);
    /* What is freed from now on goes back at once. */
    pool->threshold = 0;
    pool_trim_locked(pool, 0);
    pool_let_go_locked(pool);
    pthread_mutex_unlock(&pools_lock);
}

/* Gives back what the memory took of the device or the pool. */
static void settle(struct device *device, struct pool *pool, size_t bytes)
{
    if (pool)
        pool_give(pool, bytes);
    else
        unreserve(device, bytes);
}

/* From the pool, or NULL: from the device. */
static CUresult allocate(struct device *device, struct pool *pool, size_t bytes, CUdeviceptr *out)
{
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (pool ? !pool_take(pool, bytes) : !reserve(device, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct range *range = calloc(1, sizeof *range);
    void *memory = NULL;
    if (!range || posix_memalign(&memory, ALIGNMENT, bytes) != 0) {
        free(range);
        settle(device, pool, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (bytes <= RUBBISH_MAX)
        memset(memory, RUBBISH, bytes);
    *range = (struct range){ .memory = memory, .bytes = bytes, .is_owned = true, .pool = pool };
    object_add(&range->object, KIND_ALLOCATION, device);
    learn(range);
    *out = (uintptr_t)memory;
    return CUDA_SUCCESS;
}

static void free_range(struct range *range)
{
    if (range->is_owned)
        free(range->memory);
    free(range);
}

void memory_end(struct object *object)
{
    object_remove(object);
    /* What is not known as memory is a pool, which has none of its own. */
    struct range *range = NULL;
    pthread_rwlock_wrlock(&known_lock);
    for (struct range **at = &known; *at; at = &(*at)->next_known)
        if (&(*at)->object == object) {
            range = *at;
            *at = range->next_known;
            break;
        }
    pthread_rwlock_unlock(&known_lock);
    if (!range) {
        pool_end((struct pool *)object);
        return;
    }
    if (!range->is_host)
        settle(object->device, range->pool, range->bytes);
    free_range(range);
}

API(cuMemGetInfo_v2, size_t *free_bytes, size_t *total)
{
    BEGIN(CHECK_CONTEXT);
    *total = settings.memory;
    *free_bytes = settings.memory - atomic_load_explicit(&context_current()->device->used_bytes,
                                                         memory_order_relaxed);
    return CUDA_SUCCESS;
}

API(cuMemAlloc_v2, CUdeviceptr *out, size_t bytes)
{
    BEGIN(CHECK_CONTEXT);
    return allocate(context_current()->device, NULL, bytes, out);
}

API(cuCtxSynchronize, void)
{
    BEGIN(CHECK_CONTEXT);
    struct device *device = context_current()->device;
    streams_drain(device);
    return atomic_load_explicit(&device->sticky, memory_order_relaxed);
}

/* As the real one does, this waits for everything on the device. */
API(cuMemFree_v2, CUdeviceptr address)
{
    BEGIN(CHECK_CONTEXT);
    if (address == 0)
        return CUDA_SUCCESS;
    streams_drain(context_current()->device);
    struct range *range = forget((void *)(uintptr_t)address, false);
    if (!range)
        return CUDA_ERROR_INVALID_VALUE;
    object_remove(&range->object);
    settle(range->object.device, range->pool, range->bytes);
    free_range(range);
    return CUDA_SUCCESS;
}

/* --- pools ------------------------------------------------------------------------------------- */

struct pool_properties {
    unsigned allocation_type, handle_types, location_type;
    int location_id;
};

API(cuMemPoolCreate, CUmemoryPool *out, const struct pool_properties *properties)
{
    BEGIN(CHECK_INIT);
    if (!out || properties->allocation_type != 1 || properties->location_type != 1 ||
        properties->location_id < 0 || (uint32_t)properties->location_id >= settings.devices)
        return CUDA_ERROR_INVALID_VALUE;
    if (!settings.has_pools)
        return CUDA_ERROR_NOT_SUPPORTED;
    struct device *device = &devices[properties->location_id];
    CUresult sticky = atomic_load_explicit(&device->sticky, memory_order_relaxed);
    if (sticky != CUDA_SUCCESS)
        return sticky;
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pool->references = 1;
    pool->device = device;
    object_add(&pool->object, KIND_POOL, device);
    *out = pool;
    return CUDA_SUCCESS;
}

API(cuMemPoolDestroy, CUmemoryPool pool)
{
    BEGIN(CHECK_INIT);
    if (!IS(pool, KIND_POOL))
        return CUDA_ERROR_INVALID_HANDLE;
    memory_end(&pool->object);
    return CUDA_SUCCESS;
}

enum { POOL_THRESHOLD = 4, POOL_RESERVED = 5, POOL_USED = 7, POOL_ATTRIBUTES = 8 };

API(cuMemPoolSetAttribute, CUmemoryPool pool, unsigned attribute, void *value)
{
    BEGIN(CHECK_INIT);
    if (!IS(pool, KIND_POOL) || attribute < 1 || attribute > POOL_ATTRIBUTES || !value)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&pools_lock);
    if (attribute == POOL_THRESHOLD)
        pool->threshold = *(const uint64_t *)value;
    pthread_mutex_unlock(&pools_lock);
    return CUDA_SUCCESS;
}

/* Those that are 64-bit numbers and no high-water marks. */
API(cuMemPoolGetAttribute, CUmemoryPool pool, unsigned attribute, void *value)
{
    BEGIN(CHECK_INIT);
    if (!IS(pool, KIND_POOL) || !value ||
        (attribute != POOL_THRESHOLD && attribute != POOL_RESERVED && attribute != POOL_USED))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&pools_lock);
    *(uint64_t *)value = attribute == POOL_THRESHOLD  ? pool->threshold
                         : attribute == POOL_RESERVED ? pool->reserved
                                                      : pool->used;
    pthread_mutex_unlock(&pools_lock);
    return CUDA_SUCCESS;
}

API(cuMemPoolTrimTo, CUmemoryPool pool, size_t bytes)
{
    BEGIN(CHECK_INIT);
    if (!IS(pool, KIND_POOL))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&pools_lock);
    pool_trim_locked(pool, bytes);
    pthread_mutex_unlock(&pools_lock);
    return CUDA_SUCCESS;
}

API(cuMemAllocFromPoolAsync, CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream handle)
{
    struct stream *stream;
    BEGIN(CHECK_CONTEXT);
    CUresult result = stream_resolve(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!IS(pool, KIND_POOL) || !out)
        return CUDA_ERROR_INVALID_VALUE;
    return allocate(pool->object.device, pool, bytes, out);
}

/* The memory is the pool's again when the stream has come that far. */
static void free_in_order(void *payload)
{
    struct range *range = payload;
    settle(range->object.device, range->pool, range->bytes);
    free_range(range);
}

/* From this call on nobody may name it; what was given before still has it. */
API(cuMemFreeAsync, CUdeviceptr address, CUstream handle)
{
    struct stream *stream;
    BEGIN(CHECK_CONTEXT);
    CUresult result = stream_resolve(handle, &stream);
    if (result != CUDA_SUCCESS)
        return result;
    struct range *range = forget((void *)(uintptr_t)address, false);
    if (!range)
        return CUDA_ERROR_INVALID_VALUE;
    object_remove(&range->object);
    return stream_give(
        stream,
        &(struct operation){ .kind = OPERATION_NOTHING, .drop = free_in_order, .payload = range });
}

/* --- host memory ------------------------------------------------------------------------------- */

static CUresult learn_host(void *memory, size_t bytes, bool is_owned)
{
    struct range *range = calloc(1, sizeof *range);
    if (!range)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *range =
        (struct range){ .memory = memory, .bytes = bytes, .is_host = true, .is_owned = is_owned };
    object_add(&range->object, KIND_REGISTRATION, context_current()->device);
    learn(range);
    return CUDA_SUCCESS;
}

API(cuMemHostAlloc, void **out, size_t bytes, unsigned flags)
{
    BEGIN(CHECK_CONTEXT);
    if (!out || bytes == 0 || flags > 7)
        return CUDA_ERROR_INVALID_VALUE;
    void *memory = NULL;
    if (posix_memalign(&memory, ALIGNMENT, bytes) != 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memset(memory, bytes <= RUBBISH_MAX ? RUBBISH : 0, bytes <= RUBBISH_MAX ? bytes : 1);
    CUresult result = learn_host(memory, bytes, true);
    if (result == CUDA_SUCCESS)
        *out = memory;
    else
        free(memory);
    return result;
}

static CUresult forget_host(void *memory, bool is_owned, CUresult failure)
{
    if (is_owned)
        streams_drain(context_current()->device);
    struct range *range = forget(memory, true);
    if (!range)
        return failure;
    if (range->is_owned != is_owned) {
        learn(range);
        return failure;
    }
    object_remove(&range->object);
    free_range(range);
    return CUDA_SUCCESS;
}

API(cuMemFreeHost, void *memory)
{
    BEGIN(CHECK_CONTEXT);
    return forget_host(memory, true, CUDA_ERROR_INVALID_VALUE);
}

API(cuMemHostRegister_v2, void *memory, size_t bytes, unsigned flags)
{
    BEGIN(CHECK_CONTEXT);
    if (!memory || bytes == 0 || flags > 15)
        return CUDA_ERROR_INVALID_VALUE;
    bool is_taken = false;
    pthread_rwlock_rdlock(&known_lock);
    for (struct range *range = known; range && !is_taken; range = range->next_known)
        is_taken = overlaps(range, memory, bytes);
    pthread_rwlock_unlock(&known_lock);
    return is_taken ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : learn_host(memory, bytes, false);
}

API(cuMemHostUnregister, void *memory)
{
    BEGIN(CHECK_CONTEXT);
    return forget_host(memory, false, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

API(cuMemHostGetDevicePointer_v2, CUdeviceptr *out, void *memory, unsigned flags)
{
    BEGIN(CHECK_CONTEXT);
    if (!out || flags != 0 || !is_known(memory, 1, true))
        return CUDA_ERROR_INVALID_VALUE;
    *out = (uintptr_t)memory;
    return CUDA_SUCCESS;
}

/* The device of a range that holds this address, -1: none does. */
static int device_of(const void *memory)
{
    int number = -1;
    pthread_rwlock_rdlock(&known_lock);
    for (struct range *range = known; range && number < 0; range = range->next_known)
        if (contains(range, memory, 1))
            number = (int)(range->object.device - devices);
    pthread_rwlock_unlock(&known_lock);
    return number;
}

/*
 * The kind of memory and the number of its device only; what the driver does not know is pageable,
 * which is an error here.
 */
API(cuPointerGetAttribute, void *out, unsigned attribute, CUdeviceptr address)
{
    enum { MEMORY_TYPE = 2, DEVICE_ORDINAL = 9, TYPE_HOST = 1, TYPE_DEVICE = 2 };
    BEGIN(CHECK_CONTEXT);
    void *memory = (void *)(uintptr_t)address;
    bool is_host = is_known(memory, 1, true);
    if (!out || (attribute != MEMORY_TYPE && attribute != DEVICE_ORDINAL) ||
        (!is_host && !is_known(memory, 1, false)))
        return CUDA_ERROR_INVALID_VALUE;
    if (attribute == MEMORY_TYPE)
        *(unsigned *)out = is_host ? TYPE_HOST : TYPE_DEVICE;
    else
        *(int *)out = device_of(memory);
    return CUDA_SUCCESS;
}

/* --- copies and fills -------------------------------------------------------------------------- */

static void *pointer(CUdeviceptr address)
{
    return (void *)(uintptr_t)address;
}

/* Device memory, or pinned memory of the host by its own address. */
static bool is_reachable(CUdeviceptr address, size_t bytes)
{
    return is_known(pointer(address), bytes, false) || is_known(pointer(address), bytes, true);
}

static CUresult give_copy(struct stream *stream, struct operation *operation)
{
    operation->poison = fault_of_work(WORK_COPY, &operation->hangs);
    if (operation->hangs)
        operation->hang_ticket = fault_hang_ticket();
    return stream_give(stream, operation);
}

static CUresult copy(CUstream handle, void *to, const void *from, size_t bytes)
{
    struct stream *stream;
    CUresult result = stream_resolve(handle, &stream);
    if (result != CUDA_SUCCESS || bytes == 0)
        return result;
    return give_copy(stream, &(struct operation){
                                 .kind = OPERATION_COPY, .to = to, .from = from, .bytes = bytes });
}

/*
 * From pageable memory: a little is staged at once, and the caller may have its memory back; more of
 * it waits for its turn in the stream.
 */
API(cuMemcpyHtoDAsync_v2, CUdeviceptr to, const void *from, size_t bytes, CUstream handle)
{
    struct stream *stream;
    BEGIN(CHECK_CONTEXT);
    CUresult result = stream_resolve(handle, &stream);
    if (result != CUDA_SUCCESS || bytes == 0)
        return result;
    if (!from || !is_reachable(to, bytes) || is_partly_pinned(from, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (is_known(from, bytes, true))
        return copy(handle, pointer(to), from, bytes);
    if (bytes > STAGED_MAX) {
        result = copy(handle, pointer(to), from, bytes);
        return result != CUDA_SUCCESS ? result : stream_drain(stream);
    }
    void *staged = malloc(bytes);
    if (!staged)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(staged, from, bytes);
    return give_copy(stream, &(struct operation){ .kind = OPERATION_COPY,
                                                  .to = pointer(to),
                                                  .from = staged,
                                                  .bytes = bytes,
                                                  .drop = free,
                                                  .payload = staged });
}

/* To pageable memory: returns when it is there. */
API(cuMemcpyDtoHAsync_v2, void *to, CUdeviceptr from, size_t bytes, CUstream handle)
{
    struct stream *stream;
    BEGIN(CHECK_CONTEXT);
    if (!to || !is_reachable(from, bytes) || is_partly_pinned(to, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = stream_resolve(handle, &stream);
    if (result == CUDA_SUCCESS)
        result = copy(handle, to, pointer(from), bytes);
    if (result != CUDA_SUCCESS || is_known(to, bytes, true))
        return result;
    return stream_drain(stream);
}

API(cuMemcpyDtoDAsync_v2, CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle)
{
    BEGIN(CHECK_CONTEXT);
    if (!is_reachable(to, bytes) || !is_reachable(from, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return copy(handle, pointer(to), pointer(from), bytes);
}

API(cuMemsetD8Async, CUdeviceptr to, unsigned char value, size_t bytes, CUstream handle)
{
    struct stream *stream;
    BEGIN(CHECK_CONTEXT);
    CUresult result = stream_resolve(handle, &stream);
    if (result != CUDA_SUCCESS || bytes == 0)
        return result;
    if (!is_reachable(to, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return give_copy(
        stream, &(struct operation){
                    .kind = OPERATION_FILL, .to = pointer(to), .value = value, .bytes = bytes });
}
