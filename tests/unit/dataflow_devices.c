/*
 * Tasks with accesses on devices with memory of their own: kernels and native bodies, what is copied,
 * tiles, memory that is too small, devices that fail.
 */
#include "support.h"

#include <unistd.h>

#define ITEMS 64

static struct muster *open_sim(const char *sim)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.cpu_workers = 2;
    options.sim = sim;
    options.devices = sim ? "sim" : "cpu";
    return open_with(options);
}

static muster_data create(struct muster *m, void *host, uint64_t bytes)
{
    muster_data data = { 0, 0 };
    MUST(muster_data_create(m, host, bytes, 0, &data, &problem));
    return data;
}

/* y = y * 3 + x + value, of items that are uint32_t. */
static muster_status step(uint64_t begin, uint64_t end, void *const *args)
{
    const uint32_t *x = *(void *const *)args[0];
    uint32_t *y = *(void *const *)args[1];
    uint32_t value;
    memcpy(&value, args[2], sizeof value);
    for (uint64_t i = begin; i < end; i++)
        y[i] = y[i] * 3 + x[i] + value;
    return MUSTER_OK;
}

static muster_status write_all(uint64_t begin, uint64_t end, void *const *args)
{
    uint32_t *y = *(void *const *)args[0];
    for (uint64_t i = begin; i < end; i++)
        y[i] = (uint32_t)i + 7;
    return MUSTER_OK;
}

/* `devices` NULL: any. */
static muster_status submit_step_on(struct muster *m, const char *devices,
                                    struct muster_kernel *kernel, muster_data x, muster_data y,
                                    uint32_t value, muster_task *out)
{
    const struct muster_hints hints = { .size = sizeof hints, .devices = devices };
    const struct muster_task_access accesses[] = { MUSTER_ACCESS(x, MUSTER_READ),
                                                   MUSTER_ACCESS(y, MUSTER_READ_WRITE) };
    const struct muster_arg args[] = { MUSTER_ACCESSED(0), MUSTER_ACCESSED(1),
                                       MUSTER_VALUE(value) };
    const struct muster_task_desc desc = { .size = sizeof desc,
                                           .kernel = kernel,
                                           .args = args,
                                           .arg_count = 3,
                                           .items = ITEMS,
                                           .accesses = accesses,
                                           .access_count = 2,
                                           .hints = &hints,
                                           .name = "step" };
    return muster_submit(m, &desc, 1, out, &problem);
}

static muster_status submit_step(struct muster *m, struct muster_kernel *kernel, muster_data x,
                                 muster_data y, uint32_t value, muster_task *out)
{
    return submit_step_on(m, NULL, kernel, x, y, value, out);
}

static void check_steps(const char *sim)
{
    struct muster *m = open_sim(sim);
    struct muster_kernel *kernel = kernel_of(m, step);
    uint32_t values[3][ITEMS], expected[3][ITEMS];
    muster_data data[3];
    for (uint32_t d = 0; d < 3; d++) {
        for (uint32_t i = 0; i < ITEMS; i++)
            values[d][i] = expected[d][i] = d * 1000 + i;
        data[d] = create(m, values[d], sizeof values[d]);
    }
    for (uint32_t t = 0; t < 40; t++) {
        uint32_t x = t % 3, y = (t * 2 + 1) % 3;
        if (x == y)
            continue;
        MUST(submit_step(m, kernel, data[x], data[y], t, NULL));
        for (uint32_t i = 0; i < ITEMS; i++)
            expected[y][i] = expected[y][i] * 3 + expected[x][i] + t;
    }
    for (uint32_t d = 0; d < 3; d++) {
        MUST(muster_data_destroy(m, data[d], &problem));
        CHECK(memcmp(expected[d], values[d], sizeof values[d]) == 0);
    }
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

static void kernels_run_where_the_data_is_brought(void)
{
    check_steps(NULL);
    check_steps("[{\"items_per_s\": 1e9}]");
    check_steps("[{\"count\": 3, \"items_per_s\": 1e8, \"launch_ns\": 2000}]");
}

/* A tile has rows without gaps on a device, and the pitch says so. */
static muster_status add_rows(uint64_t begin, uint64_t end, void *const *args)
{
    char *tile = *(void *const *)args[0];
    uint64_t pitch;
    memcpy(&pitch, args[1], sizeof pitch);
    for (uint64_t row = begin; row < end; row++)
        for (int column = 0; column < 4; column++)
            tile[row * pitch + (uint64_t)column] += 1;
    return MUSTER_OK;
}

static void check_tile(const char *sim)
{
    struct muster *m = open_sim(sim);
    struct muster_kernel *kernel = kernel_of(m, add_rows);
    char bytes[8 * 8] = { 0 };
    muster_data whole = create(m, bytes, sizeof bytes), tile;
    MUST(muster_data_tile(m, whole, 2, 3, 2, 4, 8, &tile, &problem));
    const struct muster_task_access access = MUSTER_ACCESS(tile, MUSTER_READ_WRITE);
    const struct muster_arg args[] = { MUSTER_ACCESSED(0), MUSTER_PITCH(0) };
    const struct muster_task_desc desc = { .size = sizeof desc,
                                           .kernel = kernel,
                                           .args = args,
                                           .arg_count = 2,
                                           .items = 3,
                                           .accesses = &access,
                                           .access_count = 1 };
    for (int i = 0; i < 5; i++)
        MUST(muster_submit(m, &desc, 1, NULL, &problem));
    MUST(muster_data_destroy(m, tile, &problem));
    MUST(muster_data_destroy(m, whole, &problem));
    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 8; x++)
            CHECK_EQUAL(y >= 2 && y < 5 && x >= 2 && x < 6 ? 5 : 0, bytes[8 * y + x]);
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

static void tiles_are_brought_without_gaps(void)
{
    check_tile(NULL);
    check_tile("[{\"items_per_s\": 1e9}]");
}

/* A token orders tasks on devices too, and nothing of it is copied. */
static void tokens_go_with_tasks_on_devices(void)
{
    struct muster *m = open_sim("[{\"count\": 2, \"items_per_s\": 1e9}]");
    struct muster_kernel *kernel = kernel_of(m, step);
    uint32_t values[2][ITEMS] = { { 0 } }, expected = 0;
    muster_data x = create(m, values[0], sizeof values[0]),
                y = create(m, values[1], sizeof values[1]), token = create(m, NULL, 0);
    const struct muster_task_access accesses[] = { MUSTER_ACCESS(x, MUSTER_READ),
                                                   MUSTER_ACCESS(y, MUSTER_READ_WRITE),
                                                   MUSTER_ACCESS(token, MUSTER_TOKEN) };
    for (uint32_t t = 0; t < 20; t++) {
        const struct muster_arg args[] = { MUSTER_ACCESSED(0), MUSTER_ACCESSED(1),
                                           MUSTER_VALUE(t) };
        const struct muster_task_desc desc = { .size = sizeof desc,
                                               .kernel = kernel,
                                               .args = args,
                                               .arg_count = 3,
                                               .items = ITEMS,
                                               .accesses = accesses,
                                               .access_count = 3 };
        MUST(muster_submit(m, &desc, 1, NULL, &problem));
        expected = expected * 3 + t;
    }
    MUST(muster_data_destroy(m, token, &problem));
    MUST(muster_data_destroy(m, x, &problem));
    MUST(muster_data_destroy(m, y, &problem));
    CHECK_EQUAL(expected, values[1][0]);
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

/* Of a part whose task failed on a device nothing good is there, and nothing is in the way of its end. */
static muster_status fail(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin;
    (void)end;
    (void)args;
    return MUSTER_E_INVALID;
}

static void a_part_whose_task_failed_can_be_destroyed(void)
{
    struct muster *m = open_sim("[{\"items_per_s\": 1e9}]");
    struct muster_kernel *kernel = kernel_of(m, fail), *good = kernel_of(m, write_all);
    uint32_t values[ITEMS] = { 0 };
    muster_data whole = create(m, values, sizeof values), part;
    muster_task task;
    MUST(muster_data_part(m, whole, 0, sizeof values / 2, &part, &problem));
    const struct muster_task_access access = MUSTER_ACCESS(part, MUSTER_READ_WRITE),
                                    all = MUSTER_ACCESS(whole, MUSTER_WRITE);
    const struct muster_arg args[] = { MUSTER_ACCESSED(0) };
    struct muster_task_desc desc = { .size = sizeof desc,
                                     .kernel = kernel,
                                     .args = args,
                                     .arg_count = 1,
                                     .items = 1,
                                     .accesses = &access,
                                     .access_count = 1 };
    MUST(muster_submit(m, &desc, 1, &task, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_wait(m, &task, 1, 60 * SECOND, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_data_destroy(m, part, &problem));
    /* What failed stays known, and what is written as a whole is good again. */
    void *pointer;
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_data_acquire(m, whole, MUSTER_READ, SECOND, &pointer, &problem));
    desc.kernel = good;
    desc.accesses = &all;
    desc.items = ITEMS;
    MUST(muster_submit(m, &desc, 1, &task, &problem));
    MUST(muster_data_destroy(m, whole, &problem));
    for (uint32_t i = 0; i < ITEMS; i++)
        CHECK_EQUAL(i + 7, values[i]);
    muster_kernel_destroy(kernel);
    muster_kernel_destroy(good);
    MUST(muster_close(m, &problem));
}

static void what_no_device_can_hold_is_refused(void)
{
    struct muster *m = open_sim("[{\"items_per_s\": 1e9, \"memory\": 300}]");
    struct muster_kernel *kernel = kernel_of(m, step);
    uint32_t values[2][ITEMS] = { { 0 } };
    muster_data x = create(m, values[0], sizeof values[0]),
                y = create(m, values[1], sizeof values[1]);
    CHECK_STATUS(MUSTER_E_TOO_LARGE, submit_step(m, kernel, x, y, 1, NULL));
    CHECK_CONTAINS("'step'", problem.text);
    MUST(muster_data_destroy(m, x, &problem));
    MUST(muster_data_destroy(m, y, &problem));
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

static void arguments_are_checked(void)
{
    struct muster *m = open_sim("[{\"items_per_s\": 1e9}]");
    struct muster_kernel *kernel = kernel_of(m, step);
    uint32_t values[ITEMS] = { 0 };
    muster_data x = create(m, values, sizeof values);
    const struct muster_task_access access = MUSTER_ACCESS(x, MUSTER_READ);
    struct muster_arg args[] = { MUSTER_ACCESSED(1) };
    struct muster_task_desc desc = { .size = sizeof desc,
                                     .kernel = kernel,
                                     .args = args,
                                     .arg_count = 1,
                                     .items = 1,
                                     .accesses = &access,
                                     .access_count = 1 };
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(m, &desc, 1, NULL, &problem));
    args[0] = (struct muster_arg)MUSTER_IN(values);
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED, muster_submit(m, &desc, 1, NULL, &problem));
    desc.fn = (muster_status(*)(void *))0;
    desc.kernel = NULL;
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(m, &desc, 1, NULL, &problem));
    MUST(muster_data_destroy(m, x, &problem));
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

/* Two devices, one of which is lost in the middle: what was newest there alone is named, all else is right. */
static void a_lost_device_costs_what_it_alone_had(void)
{
    struct muster *m = open_sim("[{\"items_per_s\": 1e7, \"launch_ns\": 1000,"
                                "  \"faults\": [{\"kind\": \"lost\", \"at_launch\": 6}]},"
                                " {\"items_per_s\": 1e7, \"launch_ns\": 1000}]");
    struct muster_kernel *kernel = kernel_of(m, step);
    enum { COUNT = 8 };
    uint32_t values[COUNT + 1][ITEMS], expected[COUNT + 1][ITEMS];
    muster_data data[COUNT + 1];
    muster_task tasks[COUNT * 8];
    for (uint32_t d = 0; d <= COUNT; d++) {
        for (uint32_t i = 0; i < ITEMS; i++)
            values[d][i] = expected[d][i] = d * 1000 + i;
        data[d] = create(m, values[d], sizeof values[d]);
    }
    for (uint32_t t = 0; t < COUNT * 8; t++) {
        uint32_t y = t % COUNT;
        MUST(submit_step(m, kernel, data[COUNT], data[y], t, &tasks[t]));
        for (uint32_t i = 0; i < ITEMS; i++)
            expected[y][i] = expected[y][i] * 3 + expected[COUNT][i] + t;
    }
    unsigned right = 0;
    bool is_well[COUNT] = { 0 };
    for (uint32_t d = 0; d < COUNT; d++) {
        is_well[d] = true;
        for (uint32_t t = d; t < COUNT * 8; t += COUNT) {
            muster_status status = muster_wait(m, &tasks[t], 1, 60 * SECOND, &problem);
            CHECK(status == MUSTER_OK || status == MUSTER_E_DATA_LOST ||
                  status == MUSTER_E_CANCELLED);
            is_well[d] &= status == MUSTER_OK;
        }
    }
    for (uint32_t d = 0; d < COUNT; d++) {
        muster_status status = muster_data_destroy(m, data[d], &problem);
        if (status != MUSTER_OK)
            CHECK_STATUS(MUSTER_E_DATA_LOST, status);
        else
            CHECK(memcmp(expected[d], values[d], sizeof values[d]) == 0);
        CHECK(!is_well[d] || status == MUSTER_OK || status == MUSTER_E_DATA_LOST);
        right += status == MUSTER_OK;
    }
    CHECK(right > 0);
    MUST(muster_data_destroy(m, data[COUNT], &problem));
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

/* Kernels that only write run again, elsewhere, when they fail. */
static void a_task_that_only_writes_is_run_again(void)
{
    struct muster *m = open_sim("[{\"items_per_s\": 1e9, \"faults\": [{\"kind\": \"unit_error\"}]},"
                                " {\"items_per_s\": 1e6}]");
    struct muster_kernel *kernel = kernel_of(m, write_all);
    uint32_t values[ITEMS] = { 0 };
    muster_data y = create(m, values, sizeof values);
    const struct muster_task_access access = MUSTER_ACCESS(y, MUSTER_WRITE);
    const struct muster_arg args[] = { MUSTER_ACCESSED(0) };
    const struct muster_task_desc desc = { .size = sizeof desc,
                                           .kernel = kernel,
                                           .args = args,
                                           .arg_count = 1,
                                           .items = ITEMS,
                                           .accesses = &access,
                                           .access_count = 1 };
    for (int i = 0; i < 10; i++)
        MUST(muster_submit(m, &desc, 1, NULL, &problem));
    MUST(muster_wait(m, NULL, 0, 60 * SECOND, &problem));
    MUST(muster_data_destroy(m, y, &problem));
    for (uint32_t i = 0; i < ITEMS; i++)
        CHECK_EQUAL(i + 7, values[i]);
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

static atomic_int told;
static void tell(void *user, muster_task task, muster_status status)
{
    (void)user;
    (void)task;
    atomic_fetch_add(&told, status == MUSTER_OK ? 1 : 100);
}

static void the_end_is_told_once(void)
{
    struct muster *m = open_sim("[{\"count\": 2, \"items_per_s\": 1e9}]");
    struct muster_kernel *kernel = kernel_of(m, write_all);
    uint32_t values[ITEMS] = { 0 };
    muster_data y = create(m, values, sizeof values);
    const struct muster_task_access access = MUSTER_ACCESS(y, MUSTER_WRITE);
    const struct muster_arg args[] = { MUSTER_ACCESSED(0) };
    const struct muster_task_desc desc = { .size = sizeof desc,
                                           .kernel = kernel,
                                           .args = args,
                                           .arg_count = 1,
                                           .items = ITEMS,
                                           .accesses = &access,
                                           .access_count = 1,
                                           .done = tell };
    atomic_store(&told, 0);
    for (int i = 0; i < 20; i++)
        MUST(muster_submit(m, &desc, 1, NULL, &problem));
    MUST(muster_wait(m, NULL, 0, 60 * SECOND, &problem));
    CHECK_EQUAL(20, atomic_load(&told));
    MUST(muster_data_destroy(m, y, &problem));
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

/* ---- Jobs that read data which tasks write ---- */

static muster_status look_up(uint64_t begin, uint64_t end, void *const *args)
{
    const uint32_t *table = *(void *const *)args[0];
    uint32_t *out = *(void *const *)args[1];
    for (uint64_t i = begin; i < end; i++)
        out[i] = table[0];
    return MUSTER_OK;
}

static void check_jobs(const char *sim)
{
    enum { COUNT = 256 };
    struct muster *m = open_sim(sim);
    struct muster_kernel *job = kernel_of(m, look_up), *kernel = kernel_of(m, step);
    uint32_t zero[ITEMS] = { 0 }, table[ITEMS] = { 0 }, expected = 0, out[COUNT];
    muster_data x = create(m, zero, sizeof zero), y = create(m, table, sizeof table);
    for (uint32_t t = 1; t < 12; t++) {
        const struct muster_arg args[] = { MUSTER_ALL(y), MUSTER_OUT(out) };
        for (uint32_t k = 0; k < t % 3; k++) {
            MUST(submit_step(m, kernel, x, y, t, NULL));
            expected = expected * 3 + t;
        }
        MUST(muster_for(m, job, COUNT, args, 2, NULL, NULL, &problem));
        for (uint32_t i = 0; i < COUNT; i++)
            CHECK_EQUAL(expected, out[i]);
    }
    MUST(muster_data_destroy(m, x, &problem));
    MUST(muster_data_destroy(m, y, &problem));
    muster_kernel_destroy(kernel);
    muster_kernel_destroy(job);
    MUST(muster_close(m, &problem));
}

/* A job sees what the tasks before it have written, wherever that is, and no copy from before. */
static void a_job_sees_what_tasks_have_written(void)
{
    check_jobs(NULL);
    check_jobs("[{\"count\": 2, \"items_per_s\": 1e9}]");
}

static struct door door = DOOR_INIT;
static atomic_uint changed;

static muster_status stop_at_door(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin;
    (void)end;
    (void)args;
    door_pass(&door);
    return MUSTER_OK;
}

static muster_status change(void *user)
{
    (void)user;
    atomic_fetch_add(&changed, 1);
    return MUSTER_OK;
}

/* A task that writes what a job reads waits for the job's end, and others do not. */
static void later_writers_wait_for_the_job(void)
{
    struct muster *m = open_sim(NULL);
    struct muster_kernel *kernel = kernel_of(m, stop_at_door);
    uint32_t table[ITEMS] = { 0 }, other[ITEMS] = { 0 }, out[1];
    muster_data y = create(m, table, sizeof table), z = create(m, other, sizeof other);
    const struct muster_task_access accesses[] = { MUSTER_ACCESS(y, MUSTER_WRITE),
                                                   MUSTER_ACCESS(z, MUSTER_WRITE),
                                                   MUSTER_ACCESS(y, MUSTER_READ) };
    struct muster_task_desc desc = {
        .size = sizeof desc, .fn = change, .accesses = accesses, .access_count = 1
    };
    const struct muster_arg args[] = { MUSTER_ALL(y), MUSTER_OUT(out) };
    const struct muster_job_desc about = {
        .size = sizeof about, .kernel = kernel, .items = 1, .args = args, .arg_count = 2
    };
    struct muster_job *job;
    muster_task writer, free_one, reader;
    atomic_store(&changed, 0);
    MUST(muster_submit(m, &desc, 1, &writer, &problem));
    MUST(muster_start(m, &about, &job, &problem));
    CHECK_EQUAL(1, atomic_load(&changed));
    door_wait_arrived(&door, 1);
    MUST(muster_submit(m, &desc, 1, &writer, &problem));
    desc.accesses = &accesses[1];
    MUST(muster_submit(m, &desc, 1, &free_one, &problem));
    MUST(muster_wait(m, &free_one, 1, 60 * SECOND, &problem));
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_wait(m, &writer, 1, 20 * MS, &problem));
    CHECK_EQUAL(2, atomic_load(&changed));
    /* It cannot be released by somebody who has not acquired it. */
    CHECK_STATUS(MUSTER_E_INVALID, muster_data_release(m, y, &problem));
    door_open(&door);
    MUST(muster_wait(m, &writer, 1, 60 * SECOND, &problem));
    MUST(muster_job_wait(job, NULL, &problem));
    muster_job_destroy(job);
    desc.accesses = &accesses[2];
    MUST(muster_submit(m, &desc, 1, &reader, &problem));
    MUST(muster_wait(m, &reader, 1, 60 * SECOND, &problem));
    MUST(muster_data_destroy(m, y, &problem));
    MUST(muster_data_destroy(m, z, &problem));
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

/*
 * A write that is submitted while a job reads its copy: the next job has the new bytes, not the copy, on devices
 * with memory of their own too.
 */
static void a_writer_in_mid_job_is_seen_by_the_next(void)
{
    enum { COUNT = 256, ROUNDS = 10 };
    struct muster *m = open_sim("[{\"items_per_s\": 1e5}]");
    struct muster_kernel *kernel = kernel_of(m, look_up), *writer = kernel_of(m, step);
    uint32_t zero[ITEMS] = { 0 }, table[ITEMS] = { 0 }, out[COUNT], next[COUNT], expected = 0;
    muster_data x = create(m, zero, sizeof zero), y = create(m, table, sizeof table);
    const struct muster_arg args[] = { MUSTER_ALL(y), MUSTER_OUT(out) },
                            later[] = { MUSTER_ALL(y), MUSTER_OUT(next) };
    struct muster_job_desc about = {
        .size = sizeof about, .kernel = kernel, .items = COUNT, .args = args, .arg_count = 2
    };
    MUST(submit_step(m, writer, x, y, 0, NULL));
    for (uint32_t t = 1; t <= ROUNDS; t++) {
        struct muster_job *job, *after;
        about.args = args;
        MUST(muster_start(m, &about, &job, &problem));
        MUST(submit_step(m, writer, x, y, t, NULL));
        about.args = later;
        MUST(muster_start(m, &about, &after, &problem));
        MUST(muster_job_wait(job, NULL, &problem));
        MUST(muster_job_wait(after, NULL, &problem));
        muster_job_destroy(job);
        muster_job_destroy(after);
        for (uint32_t i = 0; i < COUNT; i++)
            CHECK_EQUAL(expected, out[i]);
        expected = expected * 3 + t;
        for (uint32_t i = 0; i < COUNT; i++)
            CHECK_EQUAL(expected, next[i]);
    }
    MUST(muster_data_destroy(m, x, &problem));
    MUST(muster_data_destroy(m, y, &problem));
    CHECK_EQUAL(expected, table[0]);
    muster_kernel_destroy(kernel);
    muster_kernel_destroy(writer);
    MUST(muster_close(m, &problem));
}

/* What a failed task should have written is not read; what the program has acquired is its own. */
static void a_job_reads_nothing_that_failed(void)
{
    struct muster *m = open_sim(NULL);
    struct muster_kernel *kernel = kernel_of(m, look_up), *failing = kernel_of(m, fail);
    uint32_t table[ITEMS] = { 0 }, out[ITEMS];
    muster_data y = create(m, table, sizeof table);
    const struct muster_arg args[] = { MUSTER_ALL(y), MUSTER_OUT(out) };
    void *pointer;
    const struct muster_task_access access = MUSTER_ACCESS(y, MUSTER_READ_WRITE);
    const struct muster_task_desc desc = {
        .size = sizeof desc, .kernel = failing, .items = 1, .accesses = &access, .access_count = 1
    };
    MUST(muster_data_acquire(m, y, MUSTER_READ_WRITE, UINT64_MAX, &pointer, &problem));
    table[0] = 7;
    MUST(muster_for(m, kernel, ITEMS, args, 2, NULL, NULL, &problem));
    CHECK_EQUAL(7, out[3]);
    MUST(muster_data_release(m, y, &problem));
    MUST(muster_submit(m, &desc, 1, NULL, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_for(m, kernel, ITEMS, args, 2, NULL, NULL, &problem));
    (void)muster_data_destroy(m, y, &problem);
    muster_kernel_destroy(kernel);
    muster_kernel_destroy(failing);
    MUST(muster_close(m, &problem));
}

/* ---- Explanations ---- */

static struct muster_task_decision explain(struct muster *m, muster_task task)
{
    struct muster_task_decision decision = { .size = sizeof decision };
    MUST(muster_task_explain(m, task, &decision, &problem));
    return decision;
}

/* What each device was expected to take, which was chosen, and what it took. */
static void an_explanation_says_what_was_expected(void)
{
    struct muster *m = open_sim("[{\"items_per_s\": 1e9, \"launch_ns\": 2000000},"
                                " {\"items_per_s\": 1e9, \"launch_ns\": 200000000}]");
    struct muster_kernel *kernel = kernel_of(m, step);
    struct muster_task_decision decision = { .size = sizeof decision };
    uint32_t values[2][ITEMS] = { { 0 } };
    muster_data x = create(m, values[0], sizeof values[0]),
                y = create(m, values[1], sizeof values[1]);
    static const char *const devices[] = { NULL, "sim:0", "sim:1", NULL };
    muster_task tasks[4];
    for (uint32_t t = 0; t < 4; t++) {
        MUST(submit_step_on(m, devices[t], kernel, x, y, t, &tasks[t]));
        MUST(muster_wait(m, &tasks[t], 1, 60 * SECOND, &problem));
    }
    /* The first has measured nothing, and brings both. */
    decision = explain(m, tasks[0]);
    CHECK_EQUAL(2, decision.device_count);
    CHECK_TEXT("step", decision.name);
    CHECK(decision.has_ended && decision.status == MUSTER_OK && decision.time_ns > 0);
    CHECK(decision.chosen == 0 || decision.chosen == 1);
    for (uint32_t i = 0; i < 2; i++) {
        CHECK(decision.devices[i].may_run && !decision.devices[i].is_measured);
        CHECK_EQUAL(2 * sizeof values[0], decision.devices[i].copy_bytes);
        CHECK_EQUAL(0, decision.devices[i].queue_ns);
        CHECK(decision.devices[i].finish_ns >= decision.devices[i].run_ns);
    }
    decision = explain(m, tasks[2]);
    CHECK(decision.chosen == 1 && !decision.devices[0].may_run);
    /* Both are known: the last is run where it ends first. */
    decision = explain(m, tasks[3]);
    uint32_t chosen = (uint32_t)decision.chosen;
    CHECK(chosen < 2 && decision.devices[0].is_measured && decision.devices[1].is_measured);
    CHECK(decision.devices[chosen].finish_ns <= decision.devices[1 - chosen].finish_ns);
    CHECK(decision.devices[1].run_ns >= 200000000 && decision.devices[0].run_ns >= 2000000);
    CHECK(decision.took_ns >= 2000000 && decision.after_ns >= decision.took_ns);
    CHECK_EQUAL(0, decision.moves);
    char id[8];
    snprintf(id, sizeof id, "sim:%u", chosen);
    CHECK(find(m, id).index == decision.devices[chosen].device.index);
    MUST(muster_data_destroy(m, x, &problem));
    MUST(muster_data_destroy(m, y, &problem));
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

/* Of one that waits: what would be looked at now. */
static void a_waiting_task_is_explained_as_of_now(void)
{
    struct muster *m = open_sim("[{\"items_per_s\": 1e9}, {\"items_per_s\": 1e9}]");
    struct muster_kernel *kernel = kernel_of(m, step);
    uint32_t values[2][ITEMS] = { { 0 } };
    muster_data x = create(m, values[0], sizeof values[0]),
                y = create(m, values[1], sizeof values[1]);
    void *pointer;
    muster_task task, nobody = { 5, 77 };
    MUST(muster_data_acquire(m, y, MUSTER_READ_WRITE, UINT64_MAX, &pointer, &problem));
    MUST(submit_step(m, kernel, x, y, 1, &task));
    struct muster_task_decision decision = explain(m, task);
    CHECK(decision.chosen == -1 && decision.time_ns == 0 && !decision.has_ended);
    CHECK(decision.device_count == 2 && decision.devices[1].may_run);
    CHECK_EQUAL(2 * sizeof values[0], decision.devices[0].copy_bytes);
    MUST(muster_data_release(m, y, &problem));
    MUST(muster_wait(m, &task, 1, 60 * SECOND, &problem));
    decision = explain(m, task);
    CHECK(decision.chosen >= 0 && decision.has_ended);
    CHECK_STATUS(MUSTER_E_INVALID, muster_task_explain(m, task, NULL, &problem));
    CHECK(muster_task_explain(m, nobody, &decision, &problem) != MUSTER_OK);
    MUST(muster_data_destroy(m, x, &problem));
    MUST(muster_data_destroy(m, y, &problem));
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

static void a_failed_task_is_explained_too(void)
{
    struct muster *m = open_sim("[{\"items_per_s\": 1e9}]");
    struct muster_kernel *kernel = kernel_of(m, fail);
    uint32_t values[ITEMS] = { 0 };
    muster_data y = create(m, values, sizeof values);
    const struct muster_task_access access = MUSTER_ACCESS(y, MUSTER_READ_WRITE);
    const struct muster_arg args[] = { MUSTER_ACCESSED(0) };
    const struct muster_task_desc desc = { .size = sizeof desc,
                                           .kernel = kernel,
                                           .args = args,
                                           .arg_count = 1,
                                           .items = ITEMS,
                                           .accesses = &access,
                                           .access_count = 1 };
    muster_task task, after;
    MUST(muster_submit(m, &desc, 1, &task, &problem));
    MUST(muster_submit(m, &desc, 1, &after, &problem));
    (void)muster_wait(m, NULL, 0, 60 * SECOND, &problem);
    struct muster_task_decision decision = explain(m, task);
    CHECK(decision.has_ended && decision.chosen == 0);
    CHECK_STATUS(MUSTER_E_INVALID, decision.status);
    /* Nothing was chosen for one that was cancelled before. */
    CHECK_STATUS(MUSTER_E_NOT_FOUND, muster_task_explain(m, after, &decision, &problem));
    (void)muster_data_destroy(m, y, &problem);
    muster_kernel_destroy(kernel);
    MUST(muster_close(m, &problem));
}

/* ---- What was learned, from one runtime to the next ---- */

#define TWO "[{\"items_per_s\": 1e9}, {\"items_per_s\": 1e9}]"

static void path_of(char *path, size_t bytes)
{
    snprintf(path, bytes, "/tmp/muster-rates-%ld", (long)getpid());
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* `body` takes nothing on sim:1, and for ever on sim:0. */
static void write_rates(struct muster *m, const char *path, const char *body)
{
    char text[1024];
    struct muster_device_info slow = info_of(m, find(m, "sim:0")),
                              fast = info_of(m, find(m, "sim:1"));
    snprintf(text, sizeof text,
             "{\"muster_rates\": 1, \"rates\": ["
             "{\"body\": \"%s\", \"device\": \"sim:0\", \"model\": \"%s\", \"size_class\": 7,"
             " \"ns\": 1099511627776},"
             "{\"body\": \"%s\", \"device\": \"sim:1\", \"model\": \"%s\", \"size_class\": 7,"
             " \"ns\": 1000},"
             "{\"body\": \"kept\", \"device\": \"cuda:7\", \"model\": \"a GPU\", \"size_class\": 9,"
             " \"ns\": 12}]}",
             body, slow.name, body, fast.name);
    write_text(path, text);
}

/* Steps one after the other; how many of them sim:0 has run. */
static uint64_t run_steps(struct muster *m, uint32_t count)
{
    struct muster_kernel *kernel = kernel_of(m, step);
    uint32_t values[2][ITEMS] = { { 0 } };
    muster_data x = create(m, values[0], sizeof values[0]),
                y = create(m, values[1], sizeof values[1]);
    for (uint32_t t = 0; t < count; t++) {
        muster_task task;
        MUST(submit_step(m, kernel, x, y, t, &task));
        MUST(muster_wait(m, &task, 1, 60 * SECOND, &problem));
    }
    MUST(muster_data_destroy(m, x, &problem));
    MUST(muster_data_destroy(m, y, &problem));
    muster_kernel_destroy(kernel);
    return load_of(m, find(m, "sim:0")).completed;
}

static void what_was_learned_is_kept(void)
{
    char path[64];
    path_of(path, sizeof path);
    struct muster *m = open_sim(TWO);
    CHECK(run_steps(m, 6) > 0); /* each device is tried */
    MUST(muster_rates_save(m, path, &problem));
    MUST(muster_close(m, &problem));
    /* The kernel is called "test": it is not tried where it is known to take for ever. */
    m = open_sim(TWO);
    write_rates(m, path, "test");
    MUST(muster_rates_load(m, path, &problem));
    CHECK_EQUAL(0, run_steps(m, 10));
    MUST(muster_close(m, &problem));
    /* Another body's rates say nothing of it. */
    m = open_sim(TWO);
    write_rates(m, path, "other");
    MUST(muster_rates_load(m, path, &problem));
    CHECK(run_steps(m, 6) > 0);
    /* Later too: what was measured meanwhile counts more. */
    write_rates(m, path, "test");
    MUST(muster_rates_load(m, path, &problem));
    MUST(muster_close(m, &problem));
    unlink(path);
}

/* What is saved is what was loaded, with what was learned since. */
static void what_was_loaded_is_saved_again(void)
{
    char path[64], text[4096];
    path_of(path, sizeof path);
    struct muster *m = open_sim(TWO);
    write_rates(m, path, "test");
    MUST(muster_rates_load(m, path, &problem));
    unlink(path);
    MUST(muster_rates_save(m, path, &problem));
    CHECK_EQUAL(0, run_steps(m, 10));
    MUST(muster_rates_save(m, path, &problem));
    MUST(muster_close(m, &problem));
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    /* Each device once. */
    const char *slow = strstr(text, "sim:0"), *fast = strstr(text, "sim:1");
    CHECK(slow && !strstr(slow + 1, "sim:0") && fast && !strstr(fast + 1, "sim:1"));
    CHECK_CONTAINS("1099511627776", text);
    CHECK_CONTAINS("\"kept\", \"device\": \"cuda:7\"", text);
    m = open_sim(TWO);
    MUST(muster_rates_load(m, path, &problem));
    CHECK_EQUAL(0, run_steps(m, 3));
    MUST(muster_close(m, &problem));
    unlink(path);
}

static void files_that_are_no_rates_are_refused(void)
{
    char path[64];
    path_of(path, sizeof path);
    struct muster *m = open_sim(TWO);
    CHECK_STATUS(MUSTER_E_INVALID, muster_rates_load(m, NULL, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_rates_save(NULL, path, &problem));
    CHECK_STATUS(MUSTER_E_IO, muster_rates_save(m, "/dev/null/rates", &problem));
    CHECK(muster_rates_load(m, "/dev/null/rates", &problem) != MUSTER_OK);
    write_rates(m, path, "test");
    MUST(muster_rates_load(m, path, &problem));
    write_text(path, "{\"muster_rates\": 1, \"rates\": [{}]}");
    CHECK_STATUS(MUSTER_E_PARSE, muster_rates_load(m, path, &problem));
    CHECK_CONTAINS("line 1", problem.text);
    write_text(path, "{\"muster_rates\": 9, \"rates\": []}");
    CHECK_STATUS(MUSTER_E_VERSION, muster_rates_load(m, path, &problem));
    /* What was loaded before holds. */
    CHECK_EQUAL(0, run_steps(m, 3));
    MUST(muster_close(m, &problem));
    unlink(path);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(kernels_run_where_the_data_is_brought),
        TEST(tiles_are_brought_without_gaps),
        TEST(tokens_go_with_tasks_on_devices),
        TEST(a_part_whose_task_failed_can_be_destroyed),
        TEST(what_no_device_can_hold_is_refused),
        TEST(arguments_are_checked),
        TEST(a_lost_device_costs_what_it_alone_had),
        TEST(a_task_that_only_writes_is_run_again),
        TEST(the_end_is_told_once),
        TEST(a_job_sees_what_tasks_have_written),
        TEST(later_writers_wait_for_the_job),
        TEST(a_writer_in_mid_job_is_seen_by_the_next),
        TEST(a_job_reads_nothing_that_failed),
        TEST(an_explanation_says_what_was_expected),
        TEST(a_waiting_task_is_explained_as_of_now),
        TEST(a_failed_task_is_explained_too),
        TEST(what_was_learned_is_kept),
        TEST(what_was_loaded_is_saved_again),
        TEST(files_that_are_no_rates_are_refused),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
