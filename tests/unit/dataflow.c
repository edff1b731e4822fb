/*
 * Tasks that say what they access, as a program sees them: what follows what, each mode, parts, the
 * host's own accesses, what a failure takes with it.
 */
#include "support.h"

#include <sched.h>

#define MANY 1000

static struct muster *open_workers(uint32_t workers)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "cpu";
    options.cpu_workers = workers;
    return open_with(options);
}

static muster_data create(struct muster *m, void *host, uint64_t bytes)
{
    muster_data data = { 0, 0 };
    MUST(muster_data_create(m, host, bytes, 0, &data, &problem));
    return data;
}

static void destroy(struct muster *m, muster_data data)
{
    MUST(muster_data_destroy(m, data, &problem));
}

static void wait_all(struct muster *m)
{
    MUST(muster_wait(m, NULL, 0, 60 * SECOND, &problem));
}

/* A body that does f(pointers): what it is given is checked. */
static muster_status add_all(void *user, const struct muster_native *native)
{
    uint64_t *out = native->pointers[native->count - 1];
    if (native->stream || strcmp(native->backend, "cpu") != 0)
        return MUSTER_E_FAILED;
    for (size_t i = 0; i + 1 < native->count; i++)
        *out = *out * 31 + *(uint64_t *)native->pointers[i];
    *out = *out * 31 + (uintptr_t)user;
    return MUSTER_OK;
}

static const struct muster_body add_bodies[] = { { sizeof add_bodies[0], "cpu", add_all } };

static struct muster_task_desc task_of(const struct muster_task_access *accesses, size_t count,
                                       uintptr_t value)
{
    return (struct muster_task_desc){ .size = sizeof(struct muster_task_desc),
                                      .user = (void *)value,
                                      .accesses = accesses,
                                      .access_count = count,
                                      .bodies = add_bodies,
                                      .body_count = 1 };
}

static muster_task submit(struct muster *m, const struct muster_task_desc *desc)
{
    muster_task task = { 0, 0 };
    MUST(muster_submit(m, desc, 1, &task, &problem));
    return task;
}

/* ---- Order ---- */

static void tasks_on_one_datum_run_in_their_order(void)
{
    struct muster *m = open_workers(3);
    uint64_t value = 1, expected = 1;
    muster_data data = create(m, &value, sizeof value);
    const struct muster_task_access access = MUSTER_ACCESS(data, MUSTER_READ_WRITE);
    for (uintptr_t i = 0; i < MANY; i++) {
        const struct muster_task_desc desc = task_of(&access, 1, i);
        submit(m, &desc);
        expected = expected * 31 + i;
    }
    destroy(m, data);
    CHECK_EQUAL(expected, value);
    MUST(muster_close(m, &problem));
}

static void what_a_task_reads_was_written_before_and_is_not_written_meanwhile(void)
{
    struct muster *m = open_workers(3);
    uint64_t values[4] = { 1, 2, 3, 4 }, expected[4] = { 1, 2, 3, 4 };
    muster_data data[4];
    for (int i = 0; i < 4; i++)
        data[i] = create(m, &values[i], sizeof values[i]);
    for (uintptr_t i = 0; i < MANY; i++) {
        size_t a = i * 7 % 4, b = (i * 5 + 1) % 4, out = (i * 3 + 2) % 4;
        if (a == b || a == out || b == out)
            continue;
        const struct muster_task_access accesses[] = {
            MUSTER_ACCESS(data[a], MUSTER_READ), MUSTER_ACCESS(data[b], MUSTER_READ),
            MUSTER_ACCESS(data[out], MUSTER_READ_WRITE)
        };
        const struct muster_task_desc desc = task_of(accesses, 3, i);
        submit(m, &desc);
        expected[out] = ((expected[out] * 31 + expected[a]) * 31 + expected[b]) * 31 + i;
    }
    for (int i = 0; i < 4; i++) {
        destroy(m, data[i]);
        CHECK_EQUAL(expected[i], values[i]);
    }
    MUST(muster_close(m, &problem));
}

/* Two readers that wait for each other: they run at the same time, or never. */
static atomic_int met;
static muster_status meet(void *user)
{
    (void)user;
    atomic_fetch_add(&met, 1);
    for (uint64_t i = 0; atomic_load(&met) < 2; i++)
        if (i > 100000000)
            return MUSTER_E_FAILED;
        else
            sched_yield();
    return MUSTER_OK;
}

static void readers_run_at_the_same_time(void)
{
    struct muster *m = open_workers(2);
    uint64_t value = 0;
    muster_data data = create(m, &value, sizeof value);
    const struct muster_task_access access = MUSTER_ACCESS(data, MUSTER_READ);
    const struct muster_task_desc desc = {
        .size = sizeof desc, .fn = meet, .accesses = &access, .access_count = 1
    };
    atomic_store(&met, 0);
    submit(m, &desc);
    submit(m, &desc);
    wait_all(m);
    destroy(m, data);
    MUST(muster_close(m, &problem));
}

static muster_status count_up(void *user)
{
    uint64_t *value = user;
    ++*value;
    return MUSTER_OK;
}

static void commuting_tasks_are_one_at_a_time(void)
{
    struct muster *m = open_workers(3);
    uint64_t value = 0;
    muster_data data = create(m, &value, sizeof value);
    const struct muster_task_access access = MUSTER_ACCESS(data, MUSTER_COMMUTE);
    const struct muster_task_desc desc = {
        .size = sizeof desc, .fn = count_up, .user = &value, .accesses = &access, .access_count = 1
    };
    for (int i = 0; i < MANY; i++)
        submit(m, &desc);
    destroy(m, data);
    CHECK_EQUAL(MANY, value);
    MUST(muster_close(m, &problem));
}

static void a_token_orders_and_has_no_pointer(void)
{
    struct muster *m = open_workers(3);
    uint64_t value = 0;
    muster_data token = create(m, NULL, 0), other = create(m, &value, sizeof value);
    const struct muster_task_access access = MUSTER_ACCESS(token, MUSTER_TOKEN);
    const struct muster_task_access wrong = MUSTER_ACCESS(other, MUSTER_TOKEN);
    struct muster_task_desc desc = {
        .size = sizeof desc, .fn = count_up, .user = &value, .accesses = &access, .access_count = 1
    };
    for (int i = 0; i < MANY; i++)
        submit(m, &desc);
    wait_all(m);
    CHECK_EQUAL(MANY, value);
    desc.accesses = &wrong;
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(m, &desc, 1, NULL, &problem));
    destroy(m, token);
    destroy(m, other);
    MUST(muster_close(m, &problem));
}

/* ---- Reductions ---- */

static void begin_sum(void *user, void *to, uint64_t bytes)
{
    (void)user;
    memset(to, 0, bytes);
}

static void add_sum(void *user, void *into, const void *from, uint64_t bytes)
{
    float *sums = into;
    const float *others = from;
    (void)user;
    for (uint64_t i = 0; i < bytes / sizeof *sums; i++)
        sums[i] += others[i];
}

static muster_status reduce_some(void *user, const struct muster_native *native)
{
    float *sums = native->pointers[0];
    for (int i = 0; i < 4; i++)
        sums[i] += 1.0f / (float)((uintptr_t)user + (uintptr_t)i + 1);
    return MUSTER_OK;
}

static void sum_up(uint32_t workers, float *sums)
{
    static const struct muster_body bodies[] = { { sizeof bodies[0], "cpu", reduce_some } };
    struct muster *m = open_workers(workers);
    const struct muster_reduction reduction = { sizeof reduction, NULL, begin_sum, add_sum };
    muster_data data = create(m, sums, 4 * sizeof *sums);
    MUST(muster_data_reduction(m, data, &reduction, &problem));
    const struct muster_task_access access = MUSTER_ACCESS(data, MUSTER_REDUCE);
    struct muster_task_desc descs[100];
    for (uintptr_t i = 0; i < 300; i++) {
        descs[i % 100] = (struct muster_task_desc){ .size = sizeof *descs,
                                                    .user = (void *)i,
                                                    .accesses = &access,
                                                    .access_count = 1,
                                                    .bodies = bodies,
                                                    .body_count = 1 };
        if (i % 100 == 99)
            MUST(muster_submit(m, descs, 100, NULL, &problem));
        if (i == 199) {
            void *pointer;
            MUST(muster_data_acquire(m, data, MUSTER_READ, 60 * SECOND, &pointer, &problem));
            CHECK(pointer == sums);
            CHECK(sums[0] > 5.0f);
            MUST(muster_data_release(m, data, &problem));
        }
    }
    destroy(m, data);
    MUST(muster_close(m, &problem));
}

static void a_reduction_has_the_same_bits_whoever_runs_when(void)
{
    float first[4] = { 100, 0, 0, 1 }, again[4];
    sum_up(1, first);
    CHECK(first[0] > 106.0f && first[0] < 107.0f);
    for (uint32_t workers = 1; workers < 5; workers++) {
        memcpy(again, (float[4]){ 100, 0, 0, 1 }, sizeof again);
        sum_up(workers, again);
        CHECK(memcmp(first, again, sizeof first) == 0);
    }
}

static void a_reduction_needs_its_functions(void)
{
    struct muster *m = open_workers(1);
    float sum = 0;
    muster_data data = create(m, &sum, sizeof sum);
    const struct muster_task_access access = MUSTER_ACCESS(data, MUSTER_REDUCE);
    const struct muster_task_desc desc = task_of(&access, 1, 0);
    struct muster_reduction reduction = { sizeof reduction, NULL, begin_sum, NULL };
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(m, &desc, 1, NULL, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_data_reduction(m, data, &reduction, &problem));
    reduction.combine = add_sum;
    MUST(muster_data_reduction(m, data, &reduction, &problem));
    CHECK_STATUS(MUSTER_E_BUSY, muster_data_reduction(m, data, &reduction, &problem));
    destroy(m, data);
    MUST(muster_close(m, &problem));
}

/* ---- Parts ---- */

static muster_status fill_part(void *user, const struct muster_native *native)
{
    for (uint64_t row = 0; row < native->rows[0]; row++)
        memset((char *)native->pointers[0] + row * native->pitches[0], (int)(uintptr_t)user,
               native->bytes[0] / native->rows[0]);
    return MUSTER_OK;
}

static void fill(struct muster *m, muster_data data, int value)
{
    static const struct muster_body bodies[] = { { sizeof bodies[0], "cpu", fill_part } };
    const struct muster_task_access access = MUSTER_ACCESS(data, MUSTER_WRITE);
    const struct muster_task_desc desc = { .size = sizeof desc,
                                           .user = (void *)(uintptr_t)value,
                                           .accesses = &access,
                                           .access_count = 1,
                                           .bodies = bodies,
                                           .body_count = 1 };
    submit(m, &desc);
}

static void parts_conflict_where_they_overlap(void)
{
    struct muster *m = open_workers(3);
    unsigned char bytes[16 * 16];
    muster_data whole = create(m, bytes, sizeof bytes), range, tile;
    MUST(muster_data_part(m, whole, 16, 32, &range, &problem));
    MUST(muster_data_tile(m, whole, 2, 4, 4, 8, 16, &tile, &problem));
    for (int i = 0; i < 50; i++) {
        fill(m, whole, 1);
        fill(m, range, 2);
        fill(m, tile, 3);
        fill(m, whole, 4);
        fill(m, tile, 5);
        fill(m, range, 6);
    }
    CHECK_STATUS(MUSTER_E_BUSY, muster_data_destroy(m, whole, &problem));
    destroy(m, range);
    destroy(m, tile);
    destroy(m, whole);
    for (int y = 0; y < 16; y++)
        for (int x = 0; x < 16; x++)
            CHECK_EQUAL(y == 1 || y == 2                      ? 6
                        : y >= 2 && y < 6 && x >= 4 && x < 12 ? 5
                                                              : 4,
                        bytes[16 * y + x]);
    MUST(muster_close(m, &problem));
}

static void parts_lie_within_their_data(void)
{
    struct muster *m = open_workers(1);
    unsigned char bytes[256];
    muster_data whole = create(m, bytes, sizeof bytes), part, inner, tile;
    CHECK_STATUS(MUSTER_E_INVALID, muster_data_part(m, whole, 250, 7, &part, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_data_part(m, whole, 0, 0, &part, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_data_part(m, whole, UINT64_MAX, 2, &part, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_data_tile(m, whole, 15, 2, 0, 16, 16, &tile, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_data_tile(m, whole, 0, 2, 8, 9, 16, &tile, &problem));
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_data_tile(m, whole, UINT64_MAX / 2, 2, 0, 16, 16, &tile, &problem));
    MUST(muster_data_part(m, whole, 100, 100, &part, &problem));
    MUST(muster_data_part(m, part, 10, 20, &inner, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_data_part(m, part, 90, 11, &tile, &problem));
    MUST(muster_data_tile(m, whole, 0, 2, 8, 8, 16, &tile, &problem));
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED, muster_data_part(m, tile, 0, 4, &inner, &problem));
    void *pointer;
    MUST(muster_data_acquire(m, inner, MUSTER_READ, SECOND, &pointer, &problem));
    CHECK(pointer == bytes + 110);
    MUST(muster_data_release(m, inner, &problem));
    muster_stream stream = acquire(m, find(m, "cpu:0"));
    muster_block block;
    CHECK_STATUS(MUSTER_E_INVALID, muster_data_resident(m, part, stream, &block, &problem));
    destroy(m, tile);
    destroy(m, inner);
    destroy(m, part);
    destroy(m, whole);
    CHECK_STATUS(MUSTER_E_STALE, muster_data_part(m, whole, 0, 1, &part, &problem));
    MUST(muster_close(m, &problem));
}

/* ---- The host ---- */

static void acquired_data_is_the_hosts_until_it_is_released(void)
{
    struct muster *m = open_workers(2);
    uint64_t value = 5;
    void *pointer, *second;
    muster_data data = create(m, &value, sizeof value);
    const struct muster_task_access access = MUSTER_ACCESS(data, MUSTER_READ_WRITE);
    const struct muster_task_desc desc = task_of(&access, 1, 7);
    submit(m, &desc);
    MUST(muster_data_acquire(m, data, MUSTER_READ, 60 * SECOND, &pointer, &problem));
    CHECK(pointer == &value);
    CHECK_EQUAL(5 * 31 + 7, value);
    muster_task after = submit(m, &desc);
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_wait(m, &after, 1, 20 * MS, &problem));
    CHECK_EQUAL(5 * 31 + 7, value);
    CHECK_STATUS(MUSTER_E_TIMEOUT,
                 muster_data_acquire(m, data, MUSTER_WRITE, 10 * MS, &second, &problem));
    MUST(muster_data_release(m, data, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_data_release(m, data, &problem));
    MUST(muster_data_acquire(m, data, MUSTER_READ_WRITE, 60 * SECOND, &pointer, &problem));
    CHECK_EQUAL((5 * 31 + 7) * 31 + 7, value);
    value = 1;
    MUST(muster_data_release(m, data, &problem));
    submit(m, &desc);
    destroy(m, data);
    CHECK_EQUAL(31 + 7, value);
    MUST(muster_close(m, &problem));
}

static muster_status acquire_inside(void *user)
{
    struct muster *m = *(struct muster **)user;
    void *pointer;
    struct muster_error here = { .size = sizeof here };
    muster_data data = { 0, 1 };
    return muster_data_acquire(m, data, MUSTER_READ, 0, &pointer, &here) == MUSTER_E_ORDER
               ? MUSTER_OK
               : MUSTER_E_FAILED;
}

static void a_task_cannot_wait_for_data(void)
{
    struct muster *m = open_workers(1);
    const struct muster_task_desc desc = { .size = sizeof desc, .fn = acquire_inside, .user = &m };
    muster_task task = submit(m, &desc);
    MUST(muster_wait(m, &task, 1, 60 * SECOND, &problem));
    MUST(muster_close(m, &problem));
}

static void data_may_be_a_size_alone(void)
{
    struct muster *m = open_workers(2);
    void *pointer;
    muster_data data = create(m, NULL, 64);
    const struct muster_task_access read = MUSTER_ACCESS(data, MUSTER_READ);
    const struct muster_task_desc desc = task_of(&read, 1, 0);
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(m, &desc, 1, NULL, &problem));
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_data_acquire(m, data, MUSTER_READ, SECOND, &pointer, &problem));
    fill(m, data, 9);
    MUST(muster_data_acquire(m, data, MUSTER_READ, 60 * SECOND, &pointer, &problem));
    CHECK_EQUAL(9, ((unsigned char *)pointer)[63]);
    MUST(muster_data_release(m, data, &problem));
    destroy(m, data);
    data = create(m, NULL, 64); /* never used */
    destroy(m, data);
    MUST(muster_close(m, &problem));
}

static void closing_takes_data_and_what_is_acquired_with_it(void)
{
    struct muster *m = open_workers(2);
    void *pointer;
    muster_data data = create(m, NULL, 64), part;
    fill(m, data, 9);
    MUST(muster_data_part(m, data, 8, 8, &part, &problem));
    MUST(muster_data_acquire(m, data, MUSTER_WRITE, 60 * SECOND, &pointer, &problem));
    fill(m, part, 7);
    MUST(muster_close(m, &problem));
}

/* ---- What goes wrong ---- */

static muster_status fail(void *user)
{
    (void)user;
    return MUSTER_E_FAILED;
}

static muster_status nothing(void *user)
{
    (void)user;
    return MUSTER_OK;
}

static void a_failure_travels_with_the_data(void)
{
    struct muster *m = open_workers(2);
    uint64_t values[2] = { 1, 1 };
    void *pointer;
    muster_data a = create(m, &values[0], sizeof *values),
                b = create(m, &values[1], sizeof *values);
    const struct muster_task_access write_a = MUSTER_ACCESS(a, MUSTER_READ_WRITE),
                                    read_a = MUSTER_ACCESS(a, MUSTER_READ);
    const struct muster_task_access both[] = { MUSTER_ACCESS(a, MUSTER_READ),
                                               MUSTER_ACCESS(b, MUSTER_READ_WRITE) };
    struct muster_task_desc desc = { .size = sizeof desc, .access_count = 1 };
    desc.fn = fail;
    desc.name = "break a";
    desc.accesses = &write_a;
    muster_task broken = submit(m, &desc);
    desc = task_of(both, 2, 3);
    desc.name = "add a to b";
    muster_task needs = submit(m, &desc);
    CHECK_STATUS(MUSTER_E_CANCELLED, muster_wait(m, &needs, 1, 60 * SECOND, &problem));
    CHECK(strstr(problem.text, "'add a to b'") && strstr(problem.text, "'break a'"));
    CHECK_STATUS(MUSTER_E_FAILED, muster_wait(m, &broken, 1, 60 * SECOND, &problem));
    CHECK(strstr(problem.text, "'break a'") && strstr(problem.text, "1 that needed it"));
    /* Long after, and for who is no task. */
    desc = (struct muster_task_desc){ .size = sizeof desc, .fn = nothing };
    for (int i = 0; i < 70000; i++)
        submit(m, &desc);
    desc = (struct muster_task_desc){
        .size = sizeof desc, .fn = nothing, .accesses = &read_a, .access_count = 1
    };
    needs = submit(m, &desc);
    CHECK_STATUS(MUSTER_E_CANCELLED, muster_wait(m, &needs, 1, 60 * SECOND, &problem));
    CHECK_STATUS(MUSTER_E_FAILED,
                 muster_data_acquire(m, b, MUSTER_READ, 60 * SECOND, &pointer, &problem));
    /* What is written as a whole is good again. */
    MUST(muster_data_acquire(m, b, MUSTER_WRITE, 60 * SECOND, &pointer, &problem));
    MUST(muster_data_release(m, b, &problem));
    fill(m, a, 0);
    needs = submit(m, &desc);
    MUST(muster_wait(m, &needs, 1, 60 * SECOND, &problem));
    destroy(m, a);
    destroy(m, b);
    MUST(muster_close(m, &problem));
}

static void who_overwrites_what_a_failed_task_read_is_not_cancelled(void)
{
    struct muster *m = open_workers(2);
    uint64_t value = 1;
    muster_data a = create(m, &value, sizeof value);
    const struct muster_task_access read = MUSTER_ACCESS(a, MUSTER_READ),
                                    write = MUSTER_ACCESS(a, MUSTER_READ_WRITE);
    struct muster_task_desc desc = {
        .size = sizeof desc, .fn = fail, .accesses = &read, .access_count = 1
    };
    submit(m, &desc);
    desc = task_of(&write, 1, 3);
    muster_task task = submit(m, &desc);
    MUST(muster_wait(m, &task, 1, 60 * SECOND, &problem));
    destroy(m, a);
    CHECK_EQUAL(34, value);
    MUST(muster_close(m, &problem));
}

static void a_cancelled_task_spoils_what_it_was_to_write(void)
{
    struct muster *m = open_workers(1);
    uint64_t value = 1;
    void *pointer;
    muster_data a = create(m, &value, sizeof value);
    const struct muster_task_access write = MUSTER_ACCESS(a, MUSTER_READ_WRITE);
    const struct muster_task_desc desc = task_of(&write, 1, 3);
    MUST(muster_data_acquire(m, a, MUSTER_READ, SECOND, &pointer, &problem));
    muster_task task = submit(m, &desc), next = submit(m, &desc);
    MUST(muster_cancel(m, task, &problem));
    MUST(muster_data_release(m, a, &problem));
    CHECK_STATUS(MUSTER_E_CANCELLED, muster_wait(m, &task, 1, 60 * SECOND, &problem));
    CHECK_STATUS(MUSTER_E_CANCELLED, muster_wait(m, &next, 1, 60 * SECOND, &problem));
    CHECK_EQUAL(1, value);
    CHECK_STATUS(MUSTER_E_CANCELLED, muster_data_destroy(m, a, &problem));
    CHECK_STATUS(MUSTER_E_STALE, muster_data_destroy(m, a, &problem));
    MUST(muster_close(m, &problem));
}

static void calls_that_make_no_sense_are_refused_as_a_whole(void)
{
    struct muster *m = open_workers(1);
    uint64_t value = 1;
    muster_data a = create(m, &value, sizeof value), gone = create(m, &value, sizeof value);
    destroy(m, gone);
    struct muster_task_access accesses[MUSTER_ACCESSES_MAX + 1];
    for (size_t i = 0; i < COUNT_OF(accesses); i++)
        accesses[i] = (struct muster_task_access)MUSTER_ACCESS(a, MUSTER_READ_WRITE);
    struct muster_task_desc descs[2] = { task_of(accesses, 1, 1), task_of(accesses, 1, 1) };
    descs[1].access_count = COUNT_OF(accesses);
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_submit(m, descs, 2, NULL, &problem));
    descs[1].access_count = 1;
    accesses[1].mode = 7;
    descs[1].accesses = &accesses[1];
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(m, descs, 2, NULL, &problem));
    accesses[1].mode = 0;
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(m, descs, 2, NULL, &problem));
    accesses[1] = (struct muster_task_access)MUSTER_ACCESS(gone, MUSTER_READ);
    CHECK_STATUS(MUSTER_E_STALE, muster_submit(m, descs, 2, NULL, &problem));
    descs[1].accesses = NULL;
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(m, descs, 2, NULL, &problem));
    descs[1] = task_of(accesses, 1, 1);
    descs[1].priority = 16;
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(m, descs, 2, NULL, &problem));
    const struct muster_body other = { sizeof other, "nobody", add_all };
    descs[1] = task_of(accesses, 1, 1);
    descs[1].bodies = &other;
    CHECK_STATUS(MUSTER_E_NO_DEVICE, muster_submit(m, descs, 2, NULL, &problem));
    const muster_task never = { 5, 77 };
    descs[1] = task_of(accesses, 1, 1);
    descs[1].after = &never;
    descs[1].after_count = 1;
    CHECK_STATUS(MUSTER_E_UNKNOWN, muster_submit(m, descs, 2, NULL, &problem));
    wait_all(m);
    CHECK_EQUAL(1, value);
    /* The same data twice is one access. */
    descs[0] = task_of(accesses, 2, 1);
    accesses[1] = accesses[0];
    submit(m, &descs[0]);
    destroy(m, a);
    CHECK_EQUAL((31 + 1) * 31 + 1, value);
    MUST(muster_close(m, &problem));
}

static muster_status note_order(void *user)
{
    static atomic_uint at;
    uint32_t *order = user;
    *order = atomic_fetch_add(&at, 1);
    return MUSTER_OK;
}

static void the_highest_priority_is_first(void)
{
    struct muster *m = open_workers(1);
    uint64_t value = 0;
    uint32_t orders[3];
    void *pointer;
    muster_data a = create(m, &value, sizeof value);
    const struct muster_task_access read = MUSTER_ACCESS(a, MUSTER_READ);
    MUST(muster_data_acquire(m, a, MUSTER_WRITE, SECOND, &pointer, &problem));
    for (int i = 0; i < 3; i++) {
        const struct muster_task_desc desc = { .size = sizeof desc,
                                               .fn = note_order,
                                               .user = &orders[i],
                                               .accesses = &read,
                                               .access_count = 1,
                                               .priority = i == 0   ? -16
                                                           : i == 1 ? 15
                                                                    : 0 };
        submit(m, &desc);
    }
    MUST(muster_data_release(m, a, &problem));
    destroy(m, a);
    CHECK(orders[1] < orders[2] && orders[2] < orders[0]);
    MUST(muster_close(m, &problem));
}

/* More orders than there is room for at first, in one call: it is done again, with more. */
static void room_for_accesses_and_orders_is_made(void)
{
    struct muster *m = open_workers(2);
    static unsigned char bytes[512];
    static struct muster_task_access accesses[1024];
    static struct muster_task_desc descs[1024];
    muster_data whole = create(m, bytes, sizeof bytes), parts[512];
    for (uint64_t i = 0; i < 512; i++)
        MUST(muster_data_part(m, whole, i, 1, &parts[i], &problem));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 1024; i++) {
            accesses[i] =
                i < 512 ? (struct muster_task_access)MUSTER_ACCESS(whole, MUSTER_READ)
                        : (struct muster_task_access)MUSTER_ACCESS(parts[i - 512], MUSTER_WRITE);
            descs[i] = (struct muster_task_desc){
                .size = sizeof *descs, .fn = nothing, .accesses = &accesses[i], .access_count = 1
            };
        }
        MUST(muster_submit(m, descs, 1024, NULL, &problem));
    }
    wait_all(m);
    for (uint64_t i = 0; i < 512; i++)
        destroy(m, parts[i]);
    destroy(m, whole);
    MUST(muster_close(m, &problem));
}

static muster_status set_one(void *user, const struct muster_native *native)
{
    (void)user;
    *(uint64_t *)native->pointers[0] = 1;
    return MUSTER_OK;
}

static void a_body_for_cpu_is_not_needed_where_there_is_none(void)
{
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.devices = "sim";
    options.sim = "[{\"items_per_s\": 1e9}]";
    struct muster *m = open_with(options);
    uint64_t value = 0;
    muster_data data = create(m, &value, sizeof value);
    const struct muster_task_access access = MUSTER_ACCESS(data, MUSTER_WRITE);
    const struct muster_body bodies[] = { { sizeof bodies[0], "cpu", set_one },
                                          { sizeof bodies[0], "sim", set_one } };
    struct muster_task_desc desc = { .size = sizeof desc,
                                     .accesses = &access,
                                     .access_count = 1,
                                     .bodies = bodies,
                                     .body_count = 2 };
    for (int i = 0; i < 3; i++)
        MUST(muster_submit(m, &desc, 1, NULL, &problem));
    desc.body_count = 1;
    CHECK_STATUS(MUSTER_E_NO_DEVICE, muster_submit(m, &desc, 1, NULL, &problem));
    destroy(m, data);
    CHECK_EQUAL(1, value);
    MUST(muster_close(m, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(tasks_on_one_datum_run_in_their_order),
        TEST(what_a_task_reads_was_written_before_and_is_not_written_meanwhile),
        TEST(readers_run_at_the_same_time),
        TEST(commuting_tasks_are_one_at_a_time),
        TEST(a_token_orders_and_has_no_pointer),
        TEST(a_reduction_has_the_same_bits_whoever_runs_when),
        TEST(a_reduction_needs_its_functions),
        TEST(parts_conflict_where_they_overlap),
        TEST(parts_lie_within_their_data),
        TEST(acquired_data_is_the_hosts_until_it_is_released),
        TEST(a_task_cannot_wait_for_data),
        TEST(data_may_be_a_size_alone),
        TEST(closing_takes_data_and_what_is_acquired_with_it),
        TEST(a_failure_travels_with_the_data),
        TEST(who_overwrites_what_a_failed_task_read_is_not_cancelled),
        TEST(a_cancelled_task_spoils_what_it_was_to_write),
        TEST(calls_that_make_no_sense_are_refused_as_a_whole),
        TEST(the_highest_priority_is_first),
        TEST(room_for_accesses_and_orders_is_made),
        TEST(a_body_for_cpu_is_not_needed_where_there_is_none),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
