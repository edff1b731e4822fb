/*
 * Resident lanes as a user sees them, on `cpu:0` or the device that MUSTER_TEST_DEVICE names: tasks, programs,
 * blocks, what is refused, parking and leaving. What only threads can show is in resident_threads.c.
 */
#include "support.h"

#define CELLS 256u

static const char source[] =
    "#include \"muster_kernel.h\"\n"
    "MUSTER_KERNEL void nothing(uint64_t i) { (void)i; }\n"
    "MUSTER_KERNEL void scale(uint64_t i, uint32_t a, MUSTER_GLOBAL uint32_t *x)\n"
    "{ x[i] = x[i] * a + (uint32_t)i; }\n"
    "MUSTER_KERNEL void mix(uint64_t i, MUSTER_GLOBAL const uint32_t *x, MUSTER_GLOBAL uint32_t "
    "*y)\n"
    "{ y[i] ^= x[i] * 2654435761u + 7u; }\n"
    "MUSTER_KERNEL void blend(uint64_t i, float a, MUSTER_GLOBAL float *x, MUSTER_GLOBAL const "
    "float *y)\n"
    "{ x[i] = x[i] * a + y[i] / 3.0f; }\n"
    "MUSTER_KERNEL void count(uint64_t i, uint32_t limit, MUSTER_GLOBAL uint32_t *state)\n"
    "{ state[0] += 1; state[1] = state[0] >= limit; (void)i; }\n";

enum { NOTHING, SCALE, MIX, BLEND, COUNT, KERNELS };
static const char *const names[KERNELS] = { "nothing", "scale", "mix", "blend", "count" };

struct rig {
    struct muster *m;
    muster_device device;
    muster_stream stream;
    struct muster_kernel *kernels[KERNELS];
    struct muster_resident *lane;
};

static const char *device_name(void)
{
    const char *name = getenv("MUSTER_TEST_DEVICE");
    return name && *name ? name : "cpu:0";
}

/* The tests' CUDA driver runs threads, and blocks, one after the other: a lane there has one. */
static struct muster_resident_options lane_options(void)
{
    struct muster_resident_options options = MUSTER_RESIDENT_OPTIONS_INIT;
    if (getenv("MUSTER_TEST_SERIAL"))
        options.threads = options.cores = 1;
    options.hang_ns = test_patience(20 * SECOND);
    return options;
}

static void load_kernels(struct rig *rig)
{
    for (int i = 0; i < KERNELS; i++) {
        const struct muster_kernel_form form = { .size = sizeof form,
                                                 .kind = MUSTER_KERNEL_PORTABLE,
                                                 .code = source,
                                                 .code_bytes = sizeof source - 1,
                                                 .entry = names[i] };
        MUST(muster_kernel_from(rig->m, names[i], &form, 1, &rig->kernels[i], &problem));
    }
}

static struct rig open_rig(const struct muster_resident_options *options)
{
    struct rig rig = { 0 };
    struct muster_options runtime = MUSTER_OPTIONS_INIT;
    struct muster_resident_options plain = lane_options();
    runtime.cpu_workers = 2;
    runtime.sim = SIM_PLAIN;
    rig.m = open_with(runtime);
    rig.device = find(rig.m, device_name());
    rig.stream = acquire(rig.m, rig.device);
    load_kernels(&rig);
    MUST(muster_resident_create(rig.m, rig.device, rig.kernels, KERNELS, options ? options : &plain,
                                &rig.lane, &problem));
    return rig;
}

static void close_rig(struct rig *rig)
{
    MUST(muster_resident_destroy(rig->lane, &problem));
    MUST(muster_close(rig->m, &problem));
}

static struct muster_resident_report report_of(const struct rig *rig)
{
    struct muster_resident_report report = { .size = sizeof report };
    MUST(muster_resident_report(rig->lane, &report, &problem));
    return report;
}

static struct muster_task_desc task_of(const struct rig *rig, int kernel, uint64_t items,
                                       const struct muster_arg *args, size_t count)
{
    return (struct muster_task_desc){ .size = sizeof(struct muster_task_desc),
                                      .resident = rig->lane,
                                      .kernel = rig->kernels[kernel],
                                      .items = items,
                                      .args = args,
                                      .arg_count = count };
}

static muster_task submit(const struct rig *rig, const struct muster_task_desc *desc)
{
    muster_task task;
    MUST(muster_submit(rig->m, desc, 1, &task, &problem));
    return task;
}

static void run(const struct rig *rig, const struct muster_task_desc *desc)
{
    muster_task task = submit(rig, desc);
    MUST(muster_wait(rig->m, &task, 1, UINT64_MAX, &problem));
}

static muster_block block_of(const struct rig *rig, const void *data, size_t bytes)
{
    muster_block block = allocate(rig->m, rig->stream, bytes);
    MUST(muster_copy_in(rig->m, rig->stream, block, 0, data, bytes, &problem));
    return block;
}

static void read_block(const struct rig *rig, muster_block block, void *data, size_t bytes)
{
    MUST(muster_copy_out(rig->m, rig->stream, data, block, 0, bytes, &problem));
    wait_for(rig->m, rig->stream);
}

static void empty_tasks_end(void)
{
    struct rig rig = open_rig(NULL);
    struct muster_task_desc desc = task_of(&rig, NOTHING, 1, NULL, 0);
    unsigned count = getenv("MUSTER_TEST_SERIAL") ? 500 : 3000;
    for (unsigned i = 0; i < count; i++)
        run(&rig, &desc);
    struct muster_resident_report report = report_of(&rig);
    CHECK_EQUAL(count, report.tasks);
    CHECK_EQUAL(count, report.steps);
    CHECK_EQUAL(0, report.posted);
    CHECK(report.starts >= 1);
    close_rig(&rig);
}

static void values_and_small_arrays_travel(void)
{
    struct rig rig = open_rig(NULL);
    uint32_t x[100], y[100], a = 5;
    for (uint32_t i = 0; i < 100; i++) {
        x[i] = i;
        y[i] = 1000 + i;
    }
    const struct muster_arg first[] = { MUSTER_VALUE(a), MUSTER_INOUT(x) };
    struct muster_task_desc desc = task_of(&rig, SCALE, 100, first, 2);
    run(&rig, &desc);
    const struct muster_arg second[] = { MUSTER_IN(x), MUSTER_INOUT(y) };
    desc = task_of(&rig, MIX, 100, second, 2);
    run(&rig, &desc);
    for (uint32_t i = 0; i < 100; i++) {
        CHECK_EQUAL(i * 5 + i, x[i]);
        CHECK_EQUAL((1000 + i) ^ (x[i] * 2654435761u + 7u), y[i]);
    }
    /* The items after those that are counted stay as they are. */
    desc = task_of(&rig, SCALE, 10, first, 2);
    uint32_t before = x[10];
    run(&rig, &desc);
    CHECK_EQUAL(before, x[10]);
    CHECK_EQUAL(54 * 5 + 9, x[9]);
    close_rig(&rig);
}

static void blocks_stay_on_the_device(void)
{
    enum { MANY = 100000 };
    static uint32_t x[MANY];
    struct rig rig = open_rig(NULL);
    uint32_t a = 3;
    for (uint32_t i = 0; i < MANY; i++)
        x[i] = i ^ 77;
    muster_block block = block_of(&rig, x, sizeof x);
    MUST(muster_resident_attach(rig.lane, &block, 1, &problem));
    CHECK_STATUS(MUSTER_E_BUSY, muster_fill(rig.m, rig.stream, block, 0, 0, sizeof x, &problem));
    struct muster_arg args[] = { MUSTER_VALUE(a), MUSTER_DEVICE_INOUT(block, uint32_t) };
    struct muster_task_desc desc = task_of(&rig, SCALE, MANY, args, 2);
    run(&rig, &desc);
    run(&rig, &desc);
    /* Part of it, from the middle on. */
    args[1].offset = 4 * 500;
    desc = task_of(&rig, SCALE, 7, args, 2);
    run(&rig, &desc);
    MUST(muster_resident_detach(rig.lane, &block, 1, &problem));
    static uint32_t back[MANY];
    read_block(&rig, block, back, sizeof back);
    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t expected = ((i ^ 77) * 3 + i) * 3 + i;
        if (i >= 500 && i < 507)
            expected = expected * 3 + (i - 500);
        CHECK_EQUAL(expected, back[i]);
    }
    close_rig(&rig);
}

static void what_is_wrong_is_refused(void)
{
    struct rig rig = open_rig(NULL);
    static uint32_t x[CELLS];
    uint32_t a = 1;
    muster_block block = block_of(&rig, x, sizeof x), other = block_of(&rig, x, sizeof x);
    struct muster_kernel *foreign = NULL;
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = source,
                                             .code_bytes = sizeof source - 1,
                                             .entry = "nothing" };
    MUST(muster_kernel_from(rig.m, "foreign", &form, 1, &foreign, &problem));
    MUST(muster_resident_attach(rig.lane, &block, 1, &problem));
    struct muster_arg args[] = { MUSTER_VALUE(a), MUSTER_DEVICE_INOUT(block, uint32_t) };
    struct muster_task_desc desc = task_of(&rig, SCALE, CELLS, args, 2);

    desc.kernel = foreign;
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(rig.m, &desc, 1, NULL, &problem));
    CHECK_CONTAINS("not one of the lane's", problem.text);
    desc = task_of(&rig, SCALE, CELLS + 1, args, 2);
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(rig.m, &desc, 1, NULL, &problem));
    CHECK_CONTAINS("beyond", problem.text);
    args[1].offset = UINT64_MAX - 3;
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(rig.m, &desc, 1, NULL, &problem));
    args[1].offset = 0;
    args[1].block = other;
    desc = task_of(&rig, SCALE, CELLS, args, 2);
    CHECK_STATUS(MUSTER_E_STALE, muster_submit(rig.m, &desc, 1, NULL, &problem));
    args[1].block = block;
    muster_data token;
    MUST(muster_data_create(rig.m, NULL, 0, 0, &token, &problem));
    const struct muster_task_access access = MUSTER_ACCESS(token, MUSTER_TOKEN);
    desc = task_of(&rig, SCALE, CELLS, args, 2);
    desc.accesses = &access;
    desc.access_count = 1;
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED, muster_submit(rig.m, &desc, 1, NULL, &problem));
    MUST(muster_data_destroy(rig.m, token, &problem));
    desc = task_of(&rig, SCALE, CELLS, args, 1);
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(rig.m, &desc, 1, NULL, &problem));
    desc = task_of(&rig, NOTHING, UINT64_MAX, NULL, 0);
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_submit(rig.m, &desc, 1, NULL, &problem));
    static uint32_t large[600];
    const struct muster_arg too_large[] = { MUSTER_VALUE(a), MUSTER_INOUT(large) };
    desc = task_of(&rig, SCALE, 600, too_large, 2);
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_submit(rig.m, &desc, 1, NULL, &problem));
    desc = task_of(&rig, NOTHING, 1, NULL, 0);
    desc.timeout_ns = 1;
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(rig.m, &desc, 1, NULL, &problem));
    desc.timeout_ns = 0;
    desc.resident = NULL;
    struct muster_resident_step step = { .size = sizeof step, .kernel = rig.kernels[NOTHING] };
    desc.steps = &step;
    desc.step_count = 1;
    desc.kernel = NULL;
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(rig.m, &desc, 1, NULL, &problem));

    /* Not attached any more. */
    MUST(muster_resident_detach(rig.lane, &block, 1, &problem));
    CHECK_STATUS(MUSTER_E_STALE, muster_resident_detach(rig.lane, &block, 1, &problem));
    desc = task_of(&rig, SCALE, CELLS, args, 2);
    CHECK_STATUS(MUSTER_E_STALE, muster_submit(rig.m, &desc, 1, NULL, &problem));
    /* Nothing of all that has stayed behind. */
    desc = task_of(&rig, NOTHING, 1, NULL, 0);
    run(&rig, &desc);
    CHECK_EQUAL(1, report_of(&rig).tasks);
    close_rig(&rig);
}

static void programs_are_checked(void)
{
    struct rig rig = open_rig(NULL);
    uint32_t x[8] = { 0 }, a = 1;
    const struct muster_arg args[] = { MUSTER_VALUE(a), MUSTER_INOUT(x) };
    static const uint8_t both[] = { 0, 1 }, beyond[] = { 0, 2 }, swapped[] = { 1, 0 };
    struct muster_resident_step steps[MUSTER_RESIDENT_STEPS_MAX + 1];
    struct muster_task_desc desc = task_of(&rig, SCALE, 8, args, 2);
    desc.kernel = NULL;
    desc.steps = steps;
    for (size_t i = 0; i < COUNT_OF(steps); i++)
        steps[i] = (struct muster_resident_step){ .size = sizeof *steps,
                                                  .kernel = rig.kernels[SCALE],
                                                  .items = 8,
                                                  .args = both,
                                                  .arg_count = 2 };
    desc.step_count = COUNT_OF(steps);
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_submit(rig.m, &desc, 1, NULL, &problem));
    desc.step_count = 0;
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_submit(rig.m, &desc, 1, NULL, &problem));
    desc.step_count = 2;
    steps[1].args = beyond;
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(rig.m, &desc, 1, NULL, &problem));
    steps[1].args = swapped;
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(rig.m, &desc, 1, NULL, &problem));
    steps[1].args = both;
    steps[1].items = 9;
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(rig.m, &desc, 1, NULL, &problem));
    steps[1].items = 8;
    steps[1].has_until = 1;
    steps[1].until = 0; /* a value is no flag */
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(rig.m, &desc, 1, NULL, &problem));
    steps[1].until = 1;
    steps[1].until_offset = 29; /* not aligned, and partly beyond */
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(rig.m, &desc, 1, NULL, &problem));
    steps[1].has_until = 0;
    for (size_t i = 0; i < 2; i++)
        steps[i].repeat = UINT32_MAX;
    CHECK_STATUS(MUSTER_E_INVALID, muster_submit(rig.m, &desc, 1, NULL, &problem));
    CHECK_CONTAINS("2^32", problem.text);
    for (size_t i = 0; i < 2; i++)
        steps[i].repeat = 0;
    run(&rig, &desc);
    for (uint32_t i = 0; i < 8; i++)
        CHECK_EQUAL(2 * i, x[i]);
    close_rig(&rig);
}

/* A step is run until its flag is set, or so often as it may be. */
static void steps_repeat_until_a_flag(void)
{
    struct rig rig = open_rig(NULL);
    uint32_t state[2] = { 0, 0 }, limit = 37;
    muster_block block = block_of(&rig, state, sizeof state);
    MUST(muster_resident_attach(rig.lane, &block, 1, &problem));
    const struct muster_arg args[] = { MUSTER_VALUE(limit), MUSTER_DEVICE_INOUT(block, uint32_t) };
    static const uint8_t both[] = { 0, 1 };
    struct muster_resident_step step = { .size = sizeof step,
                                         .kernel = rig.kernels[COUNT],
                                         .items = 1,
                                         .args = both,
                                         .arg_count = 2,
                                         .repeat = 1000,
                                         .has_until = 1,
                                         .until = 1,
                                         .until_offset = 4 };
    struct muster_task_desc desc = task_of(&rig, COUNT, 2, args, 2);
    desc.kernel = NULL;
    desc.steps = &step;
    desc.step_count = 1;
    run(&rig, &desc);
    limit = 1000000;
    step.repeat = 100;
    run(&rig, &desc);
    MUST(muster_resident_detach(rig.lane, &block, 1, &problem));
    read_block(&rig, block, state, sizeof state);
    CHECK_EQUAL(137, state[0]);
    CHECK_EQUAL(0, state[1]);
    close_rig(&rig);
}

static uint64_t random_state;
static uint32_t random_below(uint32_t limit)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % limit;
}

/* A random program over two arrays of numbers and two of floats. */
static size_t make_program(const struct rig *rig, struct muster_resident_step *steps,
                           uint8_t (*args)[3], size_t most)
{
    size_t count = 1 + random_below((uint32_t)most);
    for (size_t i = 0; i < count; i++) {
        uint32_t kernel = random_below(4), size = CELLS;
        static const uint8_t sets[4][2][3] = { { { 0 }, { 0 } },
                                               { { 0, 2, 0 }, { 0, 3, 0 } },
                                               { { 2, 3, 0 }, { 3, 2, 0 } },
                                               { { 1, 4, 5 }, { 1, 5, 4 } } };
        static const size_t counts[4] = { 0, 2, 2, 3 };
        memcpy(args[i], sets[kernel][random_below(2)], 3);
        steps[i] = (struct muster_resident_step){ .size = sizeof *steps,
                                                  .kernel = rig->kernels[kernel],
                                                  .items = random_below(size + 1),
                                                  .args = args[i],
                                                  .arg_count = counts[kernel],
                                                  .repeat = random_below(4) };
    }
    return count;
}

/* One task for each run of each step, each after the one before. */
static void run_one_by_one(const struct rig *rig, const struct muster_resident_step *steps,
                           size_t count, const struct muster_arg *args)
{
    muster_task last = { 0, 0 };
    for (size_t i = 0; i < count; i++)
        for (uint32_t run = 0; run < (steps[i].repeat ? steps[i].repeat : 1); run++) {
            struct muster_arg own[3];
            for (size_t k = 0; k < steps[i].arg_count; k++)
                own[k] = args[steps[i].args[k]];
            struct muster_task_desc desc = { .size = sizeof desc,
                                             .resident = rig->lane,
                                             .kernel = steps[i].kernel,
                                             .items = steps[i].items,
                                             .args = own,
                                             .arg_count = steps[i].arg_count,
                                             .after = &last,
                                             .after_count = i + run > 0 };
            last = submit(rig, &desc);
        }
    MUST(muster_wait(rig->m, &last, 1, UINT64_MAX, &problem));
}

static void random_programs_have_the_bits_of_their_steps(void)
{
    const char *asked = getenv("MUSTER_TEST_PROGRAMS");
    unsigned programs = asked ? (unsigned)atoi(asked) : TEST_BY_SANITIZER(300u, 60u, 30u);
    struct rig rig = open_rig(NULL);
    union cell {
        uint32_t number;
        float real;
    };
    static union cell start[4][CELLS], back[2][4][CELLS];
    muster_block blocks[2][4];
    random_state = test_seed();
    for (int k = 0; k < 4; k++)
        for (uint32_t i = 0; i < CELLS; i++) {
            if (k < 2)
                start[k][i].number = i * 2654435761u + (uint32_t)k;
            else
                start[k][i].real = (float)i / 7.0f - (float)k;
        }
    for (int set = 0; set < 2; set++) {
        for (int k = 0; k < 4; k++)
            blocks[set][k] = block_of(&rig, start[k], sizeof start[k]);
        wait_for(rig.m, rig.stream);
        MUST(muster_resident_attach(rig.lane, blocks[set], 4, &problem));
    }
    for (unsigned i = 0; i < programs; i++) {
        struct muster_resident_step steps[MUSTER_RESIDENT_STEPS_MAX];
        uint8_t step_args[MUSTER_RESIDENT_STEPS_MAX][3];
        uint32_t a = 1 + random_below(1000);
        float f = (float)random_below(1000) / 1001.0f;
        size_t count = make_program(&rig, steps, step_args, i % 8 == 0 ? COUNT_OF(steps) : 8);
        for (int set = 0; set < 2; set++) {
            const muster_block *b = blocks[set];
            const struct muster_arg args[] = { MUSTER_VALUE(a),
                                               MUSTER_VALUE(f),
                                               MUSTER_DEVICE_INOUT(b[0], uint32_t),
                                               MUSTER_DEVICE_INOUT(b[1], uint32_t),
                                               MUSTER_DEVICE_INOUT(b[2], float),
                                               MUSTER_DEVICE_INOUT(b[3], float) };
            if (set == 1) {
                run_one_by_one(&rig, steps, count, args);
                continue;
            }
            struct muster_task_desc desc = { .size = sizeof desc,
                                             .resident = rig.lane,
                                             .steps = steps,
                                             .step_count = count,
                                             .items = CELLS,
                                             .args = args,
                                             .arg_count = COUNT_OF(args) };
            run(&rig, &desc);
        }
    }
    for (int set = 0; set < 2; set++) {
        MUST(muster_resident_detach(rig.lane, blocks[set], 4, &problem));
        for (int k = 0; k < 4; k++)
            read_block(&rig, blocks[set][k], back[set][k], sizeof back[set][k]);
    }
    CHECK(memcmp(back[0], back[1], sizeof back[0]) == 0);
    CHECK(memcmp(back[0], start, sizeof start) != 0);
    close_rig(&rig);
}

static _Atomic unsigned told;
static void count_end(void *user, muster_task task, muster_status status)
{
    (void)user, (void)task;
    atomic_fetch_add(&told, status == MUSTER_OK);
}

static muster_status check_sum(void *user)
{
    return *(const uint32_t *)user == 8 * 1 + 1 + 4 ? MUSTER_OK : MUSTER_E_FAILED;
}

/* Functions, resident tasks and their callbacks in one order. */
static void tasks_follow_and_tell(void)
{
    struct rig rig = open_rig(NULL);
    uint32_t x[2] = { 0, 0 }, a = 1;
    const struct muster_arg args[] = { MUSTER_VALUE(a), MUSTER_INOUT(x) };
    muster_task tasks[2];
    atomic_store(&told, 0);
    for (uint32_t i = 0; i < 200; i++) {
        x[0] = 8 + 4;
        x[1] = 8 + 4;
        struct muster_task_desc descs[2] = { task_of(&rig, SCALE, 2, args, 2),
                                             { .size = sizeof *descs,
                                               .fn = check_sum,
                                               .user = &x[1],
                                               .after = tasks,
                                               .after_count = 1,
                                               .done = count_end } };
        descs[0].done = count_end;
        MUST(muster_submit(rig.m, descs, 2, tasks, &problem));
        MUST(muster_wait(rig.m, NULL, 0, UINT64_MAX, &problem));
    }
    CHECK_EQUAL(400, atomic_load(&told));
    close_rig(&rig);
}

/* The one that nobody waits for ends all the same, and so does what follows it. */
static void nobody_has_to_wait(void)
{
    struct rig rig = open_rig(NULL);
    struct muster_task_desc desc = task_of(&rig, NOTHING, 1, NULL, 0);
    atomic_store(&told, 0);
    desc.done = count_end;
    for (int i = 0; i < 50; i++)
        submit(&rig, &desc);
    for (int i = 0; i < 10000 && atomic_load(&told) < 50; i++)
        nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
    CHECK_EQUAL(50, atomic_load(&told));
    close_rig(&rig);
}

static void a_full_ring_holds_back(void)
{
    struct muster_resident_options options = lane_options();
    options.entries = 16;
    struct rig rig = open_rig(&options);
    static uint32_t x[1];
    uint32_t a = 1;
    muster_block block = block_of(&rig, x, sizeof x);
    MUST(muster_resident_attach(rig.lane, &block, 1, &problem));
    const struct muster_arg args[] = { MUSTER_VALUE(a), MUSTER_DEVICE_INOUT(block, uint32_t) };
    struct muster_task_desc descs[17];
    for (int i = 0; i < 17; i++)
        descs[i] = task_of(&rig, COUNT, 1, args, 2);
    muster_task tasks[17];
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_submit(rig.m, descs, 17, tasks, &problem));
    (void)tasks;
    for (int round = 0; round < 200; round++) {
        struct muster_task_desc empty[16];
        for (int i = 0; i < 16; i++)
            empty[i] = task_of(&rig, NOTHING, 1, NULL, 0);
        MUST(muster_submit(rig.m, empty, 1 + (size_t)round % 16, tasks, &problem));
    }
    MUST(muster_wait(rig.m, NULL, 0, UINT64_MAX, &problem));
    MUST(muster_resident_detach(rig.lane, &block, 1, &problem));
    struct muster_resident_report report = report_of(&rig);
    CHECK_EQUAL(16, report.entries);
    CHECK(report.full > 0);
    close_rig(&rig);
}

static void a_used_block_is_not_detached(void)
{
    struct rig rig = open_rig(NULL);
    uint32_t x[2] = { 0, 0 }, a = 2;
    muster_block block = block_of(&rig, x, sizeof x);
    MUST(muster_resident_attach(rig.lane, &block, 1, &problem));
    const struct muster_arg args[] = { MUSTER_VALUE(a), MUSTER_DEVICE_INOUT(block, uint32_t) };
    static const uint8_t both[] = { 0, 1 };
    const struct muster_resident_step step = { .size = sizeof step,
                                               .kernel = rig.kernels[SCALE],
                                               .items = 2,
                                               .args = both,
                                               .arg_count = 2,
                                               .repeat = 200000 };
    struct muster_task_desc desc = task_of(&rig, SCALE, 2, args, 2);
    desc.kernel = NULL;
    desc.steps = &step;
    desc.step_count = 1;
    muster_task task = submit(&rig, &desc);
    CHECK_STATUS(MUSTER_E_BUSY, muster_resident_detach(rig.lane, &block, 1, &problem));
    MUST(muster_wait(rig.m, &task, 1, UINT64_MAX, &problem));
    MUST(muster_resident_detach(rig.lane, &block, 1, &problem));
    close_rig(&rig);
}

/* Parked by itself, it is started by the next task, and goes on after the last it has done. */
static void it_parks_and_starts_again(void)
{
    struct muster_resident_options options = lane_options();
    options.idle_ns = 2 * MS;
    struct rig rig = open_rig(&options);
    uint32_t state[2] = { 0, 0 }, limit = 1000;
    muster_block block = block_of(&rig, state, sizeof state);
    MUST(muster_resident_attach(rig.lane, &block, 1, &problem));
    const struct muster_arg args[] = { MUSTER_VALUE(limit), MUSTER_DEVICE_INOUT(block, uint32_t) };
    struct muster_task_desc desc = task_of(&rig, COUNT, 1, args, 2);
    CHECK_EQUAL(MUSTER_RESIDENT_PARKED, report_of(&rig).state);
    for (uint64_t i = 0; i < 3; i++) {
        run(&rig, &desc);
        for (int k = 0; k < 10000 && report_of(&rig).parks <= i; k++)
            nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
        CHECK(report_of(&rig).parks > i);
        CHECK_EQUAL(MUSTER_RESIDENT_PARKED, report_of(&rig).state);
    }
    MUST(muster_resident_detach(rig.lane, &block, 1, &problem));
    read_block(&rig, block, state, sizeof state);
    CHECK_EQUAL(3, state[0]);
    close_rig(&rig);
}

static void a_thousand_cycles(void)
{
    unsigned cycles = getenv("MUSTER_TEST_SERIAL") ? 200u : TEST_BY_SANITIZER(1000u, 200u, 200u);
    struct muster_resident_options options = lane_options();
    options.idle_ns = UINT64_MAX;
    struct rig rig = open_rig(&options);
    struct muster_task_desc desc = task_of(&rig, NOTHING, 1, NULL, 0);
    for (unsigned i = 0; i < cycles; i++) {
        run(&rig, &desc);
        MUST(muster_resident_park(rig.lane, &problem));
    }
    struct muster_resident_report report = report_of(&rig);
    CHECK_EQUAL(cycles, report.starts);
    CHECK_EQUAL(cycles, report.parks);
    printf("the slowest of %u times it left took %.3f ms\n", cycles, (double)report.leave_ns / 1e6);
    close_rig(&rig);
}

static void lanes_come_and_go(void)
{
    struct rig rig = open_rig(NULL);
    struct muster_resident_options options = lane_options();
    for (unsigned i = 0; i < TEST_BY_SANITIZER(100u, 30u, 30u); i++) {
        struct muster_resident *lane = NULL;
        MUST(muster_resident_create(rig.m, rig.device, rig.kernels, KERNELS, &options, &lane,
                                    &problem));
        struct muster_task_desc desc = task_of(&rig, NOTHING, 1, NULL, 0);
        desc.resident = lane;
        submit(&rig, &desc);
        if (i % 2)
            MUST(muster_wait(rig.m, NULL, 0, UINT64_MAX, &problem));
        MUST(muster_resident_destroy(lane, &problem));
    }
    close_rig(&rig);
}

/* Closing ends lanes that nobody has destroyed, and what they still have. */
static void closing_ends_lanes(void)
{
    struct rig rig = open_rig(NULL);
    uint32_t x[2] = { 0, 0 };
    muster_block block = block_of(&rig, x, sizeof x);
    MUST(muster_resident_attach(rig.lane, &block, 1, &problem));
    struct muster_task_desc desc = task_of(&rig, NOTHING, 1, NULL, 0);
    for (int i = 0; i < 20; i++)
        submit(&rig, &desc);
    MUST(muster_close(rig.m, &problem));
}

struct submitter {
    pthread_t thread;
    const struct rig *rig;
    unsigned count, right;
};

static void *submit_and_wait(void *argument)
{
    struct submitter *submitter = argument;
    uint32_t x[3], a = 2;
    const struct muster_arg args[] = { MUSTER_VALUE(a), MUSTER_INOUT(x) };
    struct muster_task_desc desc = task_of(submitter->rig, SCALE, 3, args, 2);
    for (unsigned i = 0; i < submitter->count; i++) {
        muster_task task;
        x[0] = x[1] = x[2] = i;
        if (muster_submit(submitter->rig->m, &desc, 1, &task, NULL) != MUSTER_OK ||
            muster_wait(submitter->rig->m, &task, 1, UINT64_MAX, NULL) != MUSTER_OK)
            break;
        submitter->right += x[0] == 2 * i && x[1] == 2 * i + 1 && x[2] == 2 * i + 2;
    }
    return NULL;
}

static void many_threads_share_many_seats(void)
{
    struct muster_resident_options options = lane_options();
    options.idle_ns = MS;
    options.entries = 16;
    if (!getenv("MUSTER_TEST_SERIAL"))
        options.cores = 3;
    struct rig rig = open_rig(&options);
    struct submitter submitters[4];
    for (size_t i = 0; i < COUNT_OF(submitters); i++) {
        submitters[i] = (struct submitter){ .rig = &rig, .count = 400 };
        pthread_create(&submitters[i].thread, NULL, submit_and_wait, &submitters[i]);
    }
    for (size_t i = 0; i < COUNT_OF(submitters); i++) {
        pthread_join(submitters[i].thread, NULL);
        CHECK_EQUAL(submitters[i].count, submitters[i].right);
    }
    CHECK_EQUAL(1600, report_of(&rig).tasks);
    close_rig(&rig);
}

/* Fails each allocation from the one on that is asked for. */
static _Atomic int allocations_left = INT32_MAX;
static void *take(void *user, size_t bytes, size_t alignment)
{
    (void)user;
    if (atomic_fetch_sub(&allocations_left, 1) <= 0)
        return NULL;
    return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void give(void *user, void *memory, size_t bytes)
{
    (void)user, (void)bytes;
    free(memory);
}

/* A lane that cannot be made for want of memory leaves nothing behind, and the next one can be made. */
static void memory_may_run_out(void)
{
    const struct muster_allocator allocator = { .size = sizeof allocator,
                                                .allocate = take,
                                                .release = give };
    struct rig rig = { 0 };
    struct muster_options options = MUSTER_OPTIONS_INIT;
    struct muster_resident_options lane = lane_options();
    options.allocator = &allocator;
    options.sim = SIM_PLAIN;
    rig.m = open_with(options);
    rig.device = find(rig.m, device_name());
    load_kernels(&rig);
    int failures = 0;
    for (int left = 0;; left++) {
        atomic_store(&allocations_left, left);
        muster_status status = muster_resident_create(rig.m, rig.device, rig.kernels, KERNELS,
                                                      &lane, &rig.lane, &problem);
        atomic_store(&allocations_left, INT32_MAX);
        if (status == MUSTER_OK)
            break;
        CHECK(status == MUSTER_E_NO_MEMORY || status == MUSTER_E_NOT_SUPPORTED);
        CHECK(left < 1000);
        failures++;
    }
    CHECK(failures >= 4);
    struct muster_task_desc desc = task_of(&rig, NOTHING, 1, NULL, 0);
    run(&rig, &desc);
    close_rig(&rig);
}

static void refused_on(struct muster *m, const char *id, const char *words)
{
    muster_device device;
    if (muster_device_find(m, id, &device, &problem) != MUSTER_OK) {
        printf("no %s here\n", id);
        return;
    }
    struct rig rig = { .m = m };
    load_kernels(&rig);
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED, muster_resident_create(m, device, rig.kernels, KERNELS,
                                                                NULL, &rig.lane, &problem));
    CHECK_CONTAINS(words, problem.text);
}

static void lanes_are_refused_with_the_reason(void)
{
    static const char reduction[] = "#include \"muster_kernel.h\"\n"
                                    "MUSTER_KERNEL void sum(uint64_t i, MUSTER_GLOBAL const "
                                    "uint32_t *x, MUSTER_PARTIAL uint64_t *p)\n"
                                    "{ *p += x[i]; }\n"
                                    "MUSTER_COMBINE void sum_combine(MUSTER_PARTIAL uint64_t *a, "
                                    "MUSTER_PARTIAL const uint64_t *b)\n"
                                    "{ *a += *b; }\n";
    struct rig rig = open_rig(NULL);
    const struct muster_kernel_form form = { .size = sizeof form,
                                             .kind = MUSTER_KERNEL_PORTABLE,
                                             .code = reduction,
                                             .code_bytes = sizeof reduction - 1,
                                             .entry = "sum" };
    struct muster_kernel *sum = NULL;
    struct muster_resident *lane = NULL;
    MUST(muster_kernel_from(rig.m, "sum", &form, 1, &sum, &problem));
    CHECK_STATUS(MUSTER_E_NOT_SUPPORTED,
                 muster_resident_create(rig.m, rig.device, &sum, 1, NULL, &lane, &problem));
    CHECK_CONTAINS("reduction", problem.text);
    struct muster_resident_options options = MUSTER_RESIDENT_OPTIONS_INIT;
    options.entries = 1000;
    CHECK_STATUS(MUSTER_E_INVALID, muster_resident_create(rig.m, rig.device, rig.kernels, KERNELS,
                                                          &options, &lane, &problem));
    options.entries = 0;
    options.threads = 33;
    CHECK_STATUS(MUSTER_E_INVALID, muster_resident_create(rig.m, rig.device, rig.kernels, KERNELS,
                                                          &options, &lane, &problem));
    options.threads = 0;
    options.cores = 65;
    CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_resident_create(rig.m, rig.device, rig.kernels, KERNELS,
                                                            &options, &lane, &problem));
    CHECK_STATUS(MUSTER_E_INVALID,
                 muster_resident_create(rig.m, rig.device, rig.kernels, 0, NULL, &lane, &problem));
    CHECK(lane == NULL);
    refused_on(rig.m, "opencl:0", "OpenCL does not promise");
    close_rig(&rig);
    if (!getenv("MUSTER_HELPER"))
        return;
    struct muster_options isolated = MUSTER_OPTIONS_INIT;
    isolated.isolate = "cpu";
    struct muster *m = open_with(isolated);
    refused_on(m, "cpu:0", "process of its own");
    MUST(muster_close(m, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(empty_tasks_end),
        TEST(values_and_small_arrays_travel),
        TEST(blocks_stay_on_the_device),
        TEST(what_is_wrong_is_refused),
        TEST(programs_are_checked),
        TEST(steps_repeat_until_a_flag),
        TEST(random_programs_have_the_bits_of_their_steps),
        TEST(tasks_follow_and_tell),
        TEST(nobody_has_to_wait),
        TEST(a_full_ring_holds_back),
        TEST(a_used_block_is_not_detached),
        TEST(it_parks_and_starts_again),
        TEST(a_thousand_cycles),
        TEST(lanes_come_and_go),
        TEST(closing_ends_lanes),
        TEST(many_threads_share_many_seats),
        TEST(lanes_are_refused_with_the_reason),
        TEST(memory_may_run_out),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
