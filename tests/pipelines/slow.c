#include "slow.h"

#include "backend/cpu/cpu.h"

#include <pthread.h>
#include <time.h>

#define STREAMS_MAX 64

static struct {
    pthread_mutex_t lock;
    struct muster_backend table;
    bool has_gates;
    const void *streams[STREAMS_MAX];
    int stream_count;
    int chosen;
    uint64_t delay_ns;
} slow = { .lock = PTHREAD_MUTEX_INITIALIZER, .chosen = SLOW_NONE };

static muster_status slow_device_open(void *backend, uint32_t index, void *device,
                                      struct muster_device_info *info, struct muster_error *err)
{
    muster_status status = backend_cpu.device_open(backend, index, device, info, err);
    if (status == MUSTER_OK && !slow.has_gates)
        info->capabilities &= ~(uint32_t)MUSTER_CAN_WAIT_VALUE;
    return status;
}

static muster_status slow_stream_open(void *device, int32_t priority, int is_default, void *stream,
                                      struct muster_error *err)
{
    muster_status status = backend_cpu.stream_open(device, priority, is_default, stream, err);
    pthread_mutex_lock(&slow.lock);
    if (status == MUSTER_OK && slow.stream_count < STREAMS_MAX)
        slow.streams[slow.stream_count++] = stream;
    pthread_mutex_unlock(&slow.lock);
    return status;
}

static void hold_back(void *user, muster_status status)
{
    (void)user, (void)status;
    struct timespec time = { .tv_sec = (time_t)(slow.delay_ns / 1000000000),
                             .tv_nsec = (long)(slow.delay_ns % 1000000000) };
    nanosleep(&time, NULL);
}

static muster_status delay(void *stream, struct muster_error *err)
{
    pthread_mutex_lock(&slow.lock);
    bool is_chosen =
        slow.chosen >= 0 && slow.chosen < slow.stream_count && slow.streams[slow.chosen] == stream;
    pthread_mutex_unlock(&slow.lock);
    return is_chosen ? backend_cpu.host_call(stream, hold_back, NULL, err) : MUSTER_OK;
}

static muster_status slow_copy(void *stream, const struct muster_copy_desc *copy,
                               struct muster_error *err)
{
    muster_status status = delay(stream, err);
    return status == MUSTER_OK ? backend_cpu.copy(stream, copy, err) : status;
}

static muster_status slow_fill(void *stream, const struct muster_place *to, uint8_t value,
                               uint64_t bytes, struct muster_error *err)
{
    muster_status status = delay(stream, err);
    return status == MUSTER_OK ? backend_cpu.fill(stream, to, value, bytes, err) : status;
}

static muster_status slow_launch(void *stream, void *kernel,
                                 const struct muster_launch_desc *launches, size_t count,
                                 struct muster_error *err)
{
    muster_status status = delay(stream, err);
    return status == MUSTER_OK ? backend_cpu.launch(stream, kernel, launches, count, err) : status;
}

const struct muster_backend *slow_wrap(bool has_gates)
{
    slow.table = backend_cpu;
    slow.table.name = "slow";
    slow.table.device_open = slow_device_open;
    slow.table.stream_open = slow_stream_open;
    slow.table.copy = slow_copy;
    slow.table.fill = slow_fill;
    slow.table.launch = slow_launch;
    slow.has_gates = has_gates;
    slow.stream_count = 0;
    slow.chosen = SLOW_NONE;
    return &slow.table;
}

void slow_choose(int stream, uint64_t delay_ns)
{
    pthread_mutex_lock(&slow.lock);
    slow.chosen = stream;
    slow.delay_ns = delay_ns;
    pthread_mutex_unlock(&slow.lock);
}
