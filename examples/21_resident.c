/*
 * A control loop at 100 kHz: every 10 us a measurement goes to a resident lane, and what its controller answers
 * comes back. The controller's state is in a block that stays on the device. Answers that take longer than
 * the 10 us are counted. `21_resident cuda:0` runs it on a GPU.
 */
#include <muster/muster.h>
#include <stdio.h>
#include <time.h>

#define TICKS 20000
#define TICK_NS 10000

/* One item: the plant's value goes in, what to do about it comes out. */
static const char source[] =
    "#include \"muster_kernel.h\"\n"
    "MUSTER_KERNEL void control(uint64_t i, float goal, MUSTER_GLOBAL const float *measured,\n"
    "                           MUSTER_GLOBAL float *command, MUSTER_GLOBAL float *integral)\n"
    "{\n"
    "    float error = goal - measured[i];\n"
    "    integral[i] += error * 0.02f;\n"
    "    command[i] = error * 0.5f + integral[i];\n"
    "}\n";

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Gives how many answers were late, and the plant's last value. */
static muster_status loop(struct muster *m, struct muster_resident *lane,
                          struct muster_kernel *control, muster_block integral, unsigned *late,
                          float *value, struct muster_error *err)
{
    float goal = 1, command = 0;
    const struct muster_arg args[] = {
        MUSTER_VALUE(goal),
        MUSTER_IN(value),
        MUSTER_OUT(&command),
        MUSTER_DEVICE_INOUT(integral, float),
    };
    const struct muster_task_desc task = { .size = sizeof task,
                                           .resident = lane,
                                           .kernel = control,
                                           .items = 1,
                                           .args = args,
                                           .arg_count = 4,
                                           .is_awaited = 1 };
    muster_status status = MUSTER_OK;
    uint64_t tick_ns = now_ns();
    for (int i = 0; i < TICKS && status == MUSTER_OK; i++) {
        muster_task handle;
        while (now_ns() < tick_ns) {}
        status = muster_submit(m, &task, 1, &handle, err);
        if (status == MUSTER_OK)
            status = muster_wait(m, &handle, 1, UINT64_MAX, err);
        *late += now_ns() > tick_ns + TICK_NS;
        /* The plant follows slowly. One that is late misses ticks, and does not catch up. */
        *value += (command - *value) * 0.1f;
        tick_ns = now_ns() > tick_ns + TICK_NS ? now_ns() : tick_ns + TICK_NS;
    }
    return status;
}

static muster_status run(struct muster *m, const char *id, unsigned *late, float *value,
                         struct muster_error *err)
{
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = source,
                                             .code_bytes = sizeof source - 1,
                                             .entry = "control" };
    struct muster_kernel *control;
    struct muster_resident *lane = NULL;
    muster_device device;
    muster_stream stream;
    muster_block integral;
    muster_status status = muster_device_find(m, id, &device, err);
    if (status == MUSTER_OK)
        status = muster_stream_acquire(m, device, 0, &stream, err);
    if (status == MUSTER_OK)
        status = muster_kernel_from(m, "control", &form, 1, &control, err);
    if (status == MUSTER_OK)
        status = muster_resident_create(m, device, &control, 1, NULL, &lane, err);
    if (status == MUSTER_OK)
        status = muster_block_allocate(m, stream, sizeof(float), &integral, err);
    if (status == MUSTER_OK)
        status = muster_fill(m, stream, integral, 0, 0, sizeof(float), err);
    if (status == MUSTER_OK)
        status = muster_resident_attach(lane, &integral, 1, err);
    if (status == MUSTER_OK)
        status = loop(m, lane, control, integral, late, value, err);
    muster_status ended = muster_resident_destroy(lane, status == MUSTER_OK ? err : NULL);
    return status == MUSTER_OK ? ended : status;
}

int main(int argc, char **argv)
{
    struct muster *m = NULL;
    struct muster_error err;
    unsigned late = 0;
    float value = 0;
    muster_status status = muster_open(&m, NULL, &err);
    if (status == MUSTER_OK)
        status = run(m, argc > 1 ? argv[1] : "cpu:0", &late, &value, &err);
    if (status != MUSTER_OK)
        fprintf(stderr, "%s\n%s\n", err.text, err.fix);
    else
        printf("%d ticks of %d us: %u late; the plant is at %.3f\n", TICKS, TICK_NS / 1000, late,
               (double)value);
    muster_close(m, NULL);
    return status == MUSTER_OK ? 0 : 1;
}
