/*
 * Data: resident copies, when they are made, kept and dropped.
 */
#include "backend/cpu/cpu.h"
#include "support.h"

/* The cpu backend without the use of host memory, and with its copies counted. */
static _Atomic unsigned copies_in;

static muster_status open_copying(void *backend, uint32_t index, void *device,
                                  struct muster_device_info *info, struct muster_error *err)
{
    muster_status status = backend_cpu.device_open(backend, index, device, info, err);
    info->capabilities &= ~(uint32_t)MUSTER_CAN_USE_HOST_MEMORY;
    return status;
}

static muster_status count_copy(void *stream, const struct muster_copy_desc *copy,
                                struct muster_error *err)
{
    if (!copy->from.memory)
        atomic_fetch_add(&copies_in, 1);
    return backend_cpu.copy(stream, copy, err);
}

/* Not NULL: where a look at an event that waits for nothing stops. */
static struct door *_Atomic looks;

static muster_status look_at_event(void *event, uint64_t timeout_ns, struct muster_error *err)
{
    struct door *door = timeout_ns == 0 ? atomic_load(&looks) : NULL;
    if (door)
        door_pass(door);
    return backend_cpu.event_wait(event, timeout_ns, err);
}

static struct muster *open_data(uint64_t memory_limit, uint64_t close_ns)
{
    static struct muster_backend table;
    static const struct muster_backend *const tables[] = { &table };
    table = backend_cpu;
    table.name = "apart";
    table.device_open = open_copying;
    table.copy = count_copy;
    table.event_wait = look_at_event;
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.backends = tables;
    options.backend_count = 1;
    options.cpu_workers = 4;
    options.sim = SIM_PLAIN;
    options.memory_limit = memory_limit;
    options.close_ns = close_ns;
    copies_in = 0;
    return open_with(options);
}

static muster_data create(struct muster *m, const void *host, uint64_t bytes)
{
    muster_data data = { 0, 0 };
    MUST(muster_data_create(m, host, bytes, 0, &data, &problem));
    return data;
}

static muster_block resident(struct muster *m, muster_data data, muster_stream stream)
{
    muster_block block = { 0, 0 };
    MUST(muster_data_resident(m, data, stream, &block, &problem));
    return block;
}

static bool same(muster_block a, muster_block b)
{
    return a.index == b.index && a.generation == b.generation;
}

/* Reads a byte of a block, so that it counts as used; waits for it. */
static unsigned char read_byte(struct muster *m, muster_stream stream, muster_block block,
                               uint64_t offset)
{
    unsigned char byte = 0;
    MUST(muster_copy_out(m, stream, &byte, block, offset, 1, &problem));
    wait_for(m, stream);
    return byte;
}

static void a_device_that_uses_host_memory_copies_nothing(void)
{
    static unsigned char table[5000] = { [17] = 5 };
    struct muster *m = open_data(0, 0);
    muster_device device = find(m, "cpu:0");
    muster_stream stream = acquire(m, device);
    muster_data data = create(m, table, sizeof table);
    muster_block block = resident(m, data, stream);
    struct muster_block_info info = { .size = sizeof info };
    MUST(muster_block_info(m, block, &info, &problem));
    CHECK(info.address == (uintptr_t)table);
    CHECK_EQUAL(sizeof table, info.bytes);
    CHECK_EQUAL(0, load_of(m, device).memory_used);
    CHECK_EQUAL(5, read_byte(m, stream, block, 17));
    CHECK(same(block, resident(m, data, stream)));
    MUST(muster_data_destroy(m, data, &problem));
    CHECK_STATUS(MUSTER_E_STALE, muster_block_info(m, block, &info, &problem));
    MUST(muster_close(m, &problem));
}

static void a_copy_is_made_once_and_counted(void)
{
    static unsigned char table[5000] = { [17] = 5 };
    static const char *const ids[] = { "apart:0", "sim:0", "sim:1" };
    struct muster *m = open_data(0, 0);
    muster_data data = create(m, table, sizeof table);
    for (size_t i = 0; i < COUNT_OF(ids); i++) {
        muster_device device = find(m, ids[i]);
        muster_stream a = acquire(m, device), b = acquire(m, device);
        muster_block block = resident(m, data, a);
        CHECK_EQUAL(sizeof table, load_of(m, device).memory_used);
        CHECK(same(block, resident(m, data, a)));
        CHECK(same(block, resident(m, data, b)));
        CHECK_EQUAL(5, read_byte(m, b, block, 17));
        CHECK(same(block, resident(m, data, b)));
        CHECK_EQUAL(sizeof table, load_of(m, device).memory_used);
    }
    CHECK_EQUAL(1, copies_in);
    MUST(muster_data_destroy(m, data, &problem));
    for (size_t i = 0; i < COUNT_OF(ids); i++)
        CHECK_EQUAL(0, load_of(m, find(m, ids[i])).memory_used);
    MUST(muster_close(m, &problem));
}

/* Law 13: a copy that is there costs no memory to ask for, on any kind of device. */
static void a_copy_that_is_there_is_found_without_memory(void)
{
    enum { CALLS = 100 };
    static const char *const ids[] = { "cpu:0", "sim:0" };
    static char host[4096];
    for (size_t i = 0; i < COUNT_OF(ids); i++) {
        struct muster_options options = MUSTER_OPTIONS_INIT;
        struct counting counting = COUNTING_INIT;
        options.allocator = counting_allocator(&counting);
        options.sim = SIM_PLAIN;
        struct muster *m = open_with(options);
        muster_stream stream = acquire(m, find(m, ids[i]));
        muster_data data = create(m, host, sizeof host);
        muster_block first, block;
        MUST(muster_data_resident(m, data, stream, &first, &problem));
        wait_for(m, stream);
        /* Seen to have arrived. */
        MUST(muster_data_resident(m, data, stream, &block, &problem));
        pthread_mutex_lock(&counting.mutex);
        uint64_t calls = counting.calls;
        pthread_mutex_unlock(&counting.mutex);
        for (int call = 0; call < CALLS; call++) {
            MUST(muster_data_resident(m, data, stream, &block, &problem));
            CHECK_EQUAL(first.index, block.index);
            CHECK_EQUAL(first.generation, block.generation);
        }
        pthread_mutex_lock(&counting.mutex);
        CHECK_EQUAL(calls, counting.calls);
        pthread_mutex_unlock(&counting.mutex);
        MUST(muster_close(m, &problem));
        CHECK_EQUAL(0, counting.bytes);
    }
}

static void a_copy_loaded_on_one_stream_is_waited_for_on_another(void)
{
    static unsigned char table[256] = { [200] = 7 };
    struct muster *m = open_data(0, 0);
    muster_device device = find(m, "apart:0");
    muster_stream a = acquire(m, device), b = acquire(m, device);
    struct muster_kernel *stand = kernel_of(m, stand_at_door);
    struct door door = DOOR_INIT;
    muster_data data = create(m, table, sizeof table);
    hold_stream(m, a, stand, &door);
    unsigned char byte = 0;
    MUST(muster_copy_out(m, b, &byte, resident(m, data, a), 200, 1, &problem));
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_stream_wait(m, b, 5 * MS, &problem));
    door_open(&door);
    wait_for(m, b);
    CHECK_EQUAL(7, byte);
    MUST(muster_close(m, &problem));
}

static void invalidated_data_is_loaded_anew(void)
{
    static unsigned char table[256];
    struct muster *m = open_data(0, 0);
    muster_device device = find(m, "apart:0");
    muster_stream stream = acquire(m, device);
    table[9] = 1;
    muster_data data = create(m, table, sizeof table);
    MUST(muster_data_invalidate(m, data, &problem)); /* nothing there yet */
    muster_block first = resident(m, data, stream);
    CHECK_EQUAL(1, read_byte(m, stream, first, 9));
    MUST(muster_data_invalidate(m, data, &problem));
    CHECK_EQUAL(0, load_of(m, device).memory_used);
    table[9] = 2;
    unsigned char byte;
    CHECK_STATUS(MUSTER_E_STALE, muster_copy_out(m, stream, &byte, first, 9, 1, &problem));
    muster_block second = resident(m, data, stream);
    CHECK(!same(first, second));
    CHECK_EQUAL(2, read_byte(m, stream, second, 9));
    CHECK_EQUAL(2, copies_in);
    MUST(muster_close(m, &problem));
}

/* Arguments: a door, a block, where to put its first byte. */
static muster_status pass_and_read(uint64_t begin, uint64_t end, void *const *args)
{
    (void)begin, (void)end;
    door_pass(*(struct door *const *)args[0]);
    **(unsigned char *const *)args[2] = **(const unsigned char *const *)args[1];
    return MUSTER_OK;
}

struct opener {
    struct muster *m;
    muster_stream stream;
    struct door *door;
    muster_status status;
};

/* Opens the door a while after somebody began to wait behind it. */
static void *open_later(void *argument)
{
    struct opener *opener = argument;
    opener->status = muster_stream_wait(opener->m, opener->stream, 20 * MS, NULL);
    door_open(opener->door);
    return NULL;
}

static void check_waits_for_readers(const char *id, bool invalidate)
{
    static unsigned char table[64], read;
    struct muster *m = open_data(0, 0);
    muster_device device = find(m, id);
    muster_stream stream = acquire(m, device);
    struct muster_kernel *kernel = kernel_of(m, pass_and_read);
    struct door door = DOOR_INIT, *at = &door;
    unsigned char *to = &read;
    table[0] = 1;
    read = 0;
    muster_data data = create(m, table, sizeof table);
    muster_block block = resident(m, data, stream);
    const struct muster_operand args[] = { MUSTER_SCALAR(at), MUSTER_BLOCK_READ(block),
                                           MUSTER_SCALAR(to) };
    MUST(muster_launch(m, stream, kernel, 0, 1, args, 3, NULL, &problem));
    struct opener opener = { m, stream, &door, MUSTER_OK };
    pthread_t thread;
    CHECK_EQUAL(0, pthread_create(&thread, NULL, open_later, &opener));
    MUST((invalidate ? muster_data_invalidate : muster_data_destroy)(m, data, &problem));
    unsigned left = door.left; /* the reader had gone before the call came back */
    table[0] = 2;
    CHECK_EQUAL(1, left);
    pthread_join(thread, NULL);
    CHECK_STATUS(MUSTER_E_TIMEOUT, opener.status);
    CHECK_EQUAL(1, read);
    MUST(muster_close(m, &problem));
}

static void destroy_and_invalidate_wait_for_readers(void)
{
    check_waits_for_readers("cpu:0", false);
    check_waits_for_readers("cpu:0", true);
    check_waits_for_readers("apart:0", false);
    check_waits_for_readers("apart:0", true);
}

static void copies_are_only_for_reading(void)
{
    static unsigned char table[64];
    static const char *const ids[] = { "cpu:0", "apart:0", "sim:0" };
    struct muster *m = open_data(0, 0);
    struct muster_kernel *nothing = kernel_of(m, do_nothing);
    muster_data data = create(m, table, sizeof table);
    for (size_t i = 0; i < COUNT_OF(ids); i++) {
        muster_stream stream = acquire(m, find(m, ids[i]));
        muster_block block = resident(m, data, stream), own = allocate(m, stream, 64);
        const struct muster_operand update = MUSTER_BLOCK_UPDATE(block);
        const struct muster_use use = MUSTER_USE(block, MUSTER_WRITES);
        CHECK_STATUS(MUSTER_E_INVALID, muster_fill(m, stream, block, 0, 1, 1, &problem));
        CHECK_STATUS(MUSTER_E_INVALID, muster_copy_in(m, stream, block, 0, table, 1, &problem));
        CHECK_STATUS(MUSTER_E_INVALID, muster_copy(m, stream, block, 0, own, 0, 1, &problem));
        CHECK_STATUS(MUSTER_E_INVALID,
                     muster_launch(m, stream, nothing, 0, 1, &update, 1, NULL, &problem));
        CHECK_STATUS(MUSTER_E_INVALID, muster_block_begin(m, stream, &use, 1, &problem));
        CHECK_STATUS(MUSTER_E_INVALID, muster_block_free(m, stream, block, &problem));
        CHECK_CONTAINS("belongs to its data", problem.text);
        MUST(muster_copy(m, stream, own, 0, block, 0, 64, &problem));
        wait_for(m, stream);
    }
    MUST(muster_close(m, &problem));
}

static void a_copy_held_by_a_begin_keeps_the_data(void)
{
    static unsigned char table[64];
    struct muster *m = open_data(0, 0);
    muster_stream stream = acquire(m, find(m, "apart:0"));
    muster_data data = create(m, table, sizeof table);
    const struct muster_use use = { sizeof use, resident(m, data, stream), MUSTER_READS };
    MUST(muster_block_begin(m, stream, &use, 1, &problem));
    CHECK_STATUS(MUSTER_E_BUSY, muster_data_invalidate(m, data, &problem));
    CHECK_STATUS(MUSTER_E_BUSY, muster_data_destroy(m, data, &problem));
    CHECK(same(use.block, resident(m, data, stream)));
    MUST(muster_block_end(m, stream, &use, 1, &problem));
    MUST(muster_data_destroy(m, data, &problem));
    MUST(muster_close(m, &problem));
}

static void room_is_made_by_dropping_what_nobody_uses(void)
{
    static unsigned char tables[3][400];
    struct muster *m = open_data(1000, 0);
    muster_device device = find(m, "apart:0");
    muster_stream stream = acquire(m, device), busy = acquire(m, device);
    struct muster_kernel *stand = kernel_of(m, stand_at_door);
    struct door door = DOOR_INIT;
    muster_data data[3];
    muster_block blocks[3], own;
    for (unsigned i = 0; i < 2; i++) {
        tables[i][0] = (unsigned char)(i + 1);
        data[i] = create(m, tables[i], sizeof tables[i]);
        blocks[i] = resident(m, data[i], stream);
        CHECK_EQUAL(i + 1, read_byte(m, stream, blocks[i], 0));
    }
    /* The first is being read, so it is the second, though asked for later, that goes. */
    unsigned char byte = 0;
    hold_stream(m, busy, stand, &door);
    MUST(muster_copy_out(m, busy, &byte, blocks[0], 0, 1, &problem));
    CHECK_EQUAL(800, load_of(m, device).memory_used);
    MUST(muster_block_allocate(m, stream, 500, &own, &problem));
    CHECK_EQUAL(900, load_of(m, device).memory_used);
    CHECK_STATUS(MUSTER_E_STALE, muster_copy_out(m, stream, &byte, blocks[1], 0, 1, &problem));
    /* Looking at a copy in use is no sign of a device in trouble. */
    CHECK_EQUAL(MUSTER_HEALTH_OK, load_of(m, device).health);
    muster_block more;
    CHECK_STATUS(MUSTER_E_DEVICE_MEMORY, muster_block_allocate(m, stream, 200, &more, &problem));
    CHECK_EQUAL(MUSTER_HEALTH_OK, load_of(m, device).health);
    CHECK_STATUS(MUSTER_E_DEVICE_MEMORY, muster_data_resident(m, data[1], stream, &more, &problem));
    door_open(&door);
    wait_for(m, busy);
    CHECK_EQUAL(1, byte);
    MUST(muster_block_allocate(m, stream, 200, &more, &problem));
    CHECK_STATUS(MUSTER_E_STALE, muster_copy_out(m, stream, &byte, blocks[0], 0, 1, &problem));
    /* What was dropped comes back when it is asked for. */
    MUST(muster_block_free(m, stream, own, &problem));
    wait_for(m, stream);
    CHECK_EQUAL(2, read_byte(m, stream, resident(m, data[1], stream), 0));
    CHECK_EQUAL(3, copies_in);
    /* One that was asked for and not used yet is not taken away in between. */
    data[2] = create(m, tables[2], sizeof tables[2]);
    blocks[2] = resident(m, data[2], stream);
    CHECK_STATUS(MUSTER_E_DEVICE_MEMORY, muster_block_allocate(m, stream, 500, &own, &problem));
    MUST(muster_copy_out(m, stream, &byte, blocks[2], 0, 1, &problem));
    MUST(muster_close(m, &problem));
}

struct seeker {
    struct muster *m;
    muster_stream stream;
    muster_data data;
    uint64_t bytes;
    struct door has_block, may_use;
    muster_block block;
    unsigned char byte;
    muster_status status;
};

static void *seek_room(void *argument)
{
    struct seeker *seeker = argument;
    seeker->status =
        muster_block_allocate(seeker->m, seeker->stream, seeker->bytes, &seeker->block, NULL);
    return NULL;
}

static void *seek_copy(void *argument)
{
    struct seeker *seeker = argument;
    seeker->status =
        muster_data_resident(seeker->m, seeker->data, seeker->stream, &seeker->block, NULL);
    door_linger(&seeker->has_block, 2);
    door_pass(&seeker->may_use);
    if (seeker->status == MUSTER_OK)
        seeker->status =
            muster_copy_out(seeker->m, seeker->stream, &seeker->byte, seeker->block, 0, 1, NULL);
    if (seeker->status == MUSTER_OK)
        seeker->status = muster_stream_wait(seeker->m, seeker->stream, 60 * SECOND, NULL);
    return NULL;
}

/* Room is being made while another thread asks for just the copy that goes. */
static void a_copy_that_is_given_out_is_not_dropped(void)
{
    static unsigned char tables[2][300] = { { 5 }, { 6 } };
    struct muster *m = open_data(1000, 0);
    muster_device device = find(m, "apart:0");
    muster_stream stream = acquire(m, device);
    muster_data data[2];
    for (unsigned i = 0; i < 2; i++) {
        data[i] = create(m, tables[i], sizeof tables[i]);
        CHECK_EQUAL(5 + i, read_byte(m, stream, resident(m, data[i], stream), 0));
    }
    struct door look = DOOR_INIT;
    struct seeker room = { .m = m, .stream = acquire(m, device), .bytes = 500 };
    struct seeker copy = { .m = m,
                           .stream = acquire(m, device),
                           .data = data[0],
                           .has_block = DOOR_INIT,
                           .may_use = DOOR_INIT };
    pthread_t threads[2];
    atomic_store(&looks, &look);
    CHECK_EQUAL(0, pthread_create(&threads[0], NULL, seek_room, &room));
    door_wait_arrived(&look, 1);
    atomic_store(&looks, NULL);
    CHECK_EQUAL(0, pthread_create(&threads[1], NULL, seek_copy, &copy));
    /* A thread that gets it at once is given a chance to. */
    door_linger(&copy.has_block, 2);
    door_open(&look);
    pthread_join(threads[0], NULL);
    door_open(&copy.may_use);
    pthread_join(threads[1], NULL);
    CHECK_STATUS(MUSTER_OK, room.status);
    CHECK_STATUS(MUSTER_OK, copy.status);
    CHECK_EQUAL(5, copy.byte);
    CHECK_EQUAL(800, load_of(m, device).memory_used);
    MUST(muster_close(m, &problem));
}

/* A copy is not dropped between the call that gives it and its use, whatever others do with it. */
static void a_copy_is_kept_for_each_who_asked(void)
{
    static unsigned char table[600] = { 7 };
    struct muster *m = open_data(1000, 0);
    muster_device device = find(m, "apart:0");
    muster_stream a = acquire(m, device), b = acquire(m, device), c = acquire(m, device);
    muster_data data = create(m, table, sizeof table);
    muster_block block = resident(m, data, a), own;
    CHECK(same(block, resident(m, data, b)));
    CHECK(same(block, resident(m, data, c)));
    CHECK_EQUAL(7, read_byte(m, a, block, 0));
    CHECK_STATUS(MUSTER_E_DEVICE_MEMORY, muster_block_allocate(m, a, 500, &own, &problem));
    CHECK_EQUAL(7, read_byte(m, b, block, 0));
    CHECK_STATUS(MUSTER_E_DEVICE_MEMORY, muster_block_allocate(m, a, 500, &own, &problem));
    /* A stream that is gone will not use it, nor will the next that has its place. */
    MUST(muster_stream_release(m, c, &problem));
    c = acquire(m, device);
    MUST(muster_block_allocate(m, a, 500, &own, &problem));
    CHECK_EQUAL(500, load_of(m, device).memory_used);
    MUST(muster_block_free(m, a, own, &problem));
    wait_for(m, a);
    /* Asked for one stream and used on another it is used. */
    CHECK_EQUAL(7, read_byte(m, b, resident(m, data, c), 0));
    MUST(muster_block_allocate(m, a, 500, &own, &problem));
    MUST(muster_close(m, &problem));
}

static void a_released_stream_is_forgotten_though_others_ask_again(void)
{
    static unsigned char table[600] = { 9 };
    struct muster *m = open_data(1000, 0);
    muster_device device = find(m, "apart:0");
    muster_stream a = acquire(m, device), b = acquire(m, device);
    muster_data data = create(m, table, sizeof table);
    muster_block block = resident(m, data, a), own;
    MUST(muster_stream_release(m, a, &problem));
    CHECK(same(block, resident(m, data, b)));
    CHECK_STATUS(MUSTER_E_DEVICE_MEMORY, muster_block_allocate(m, b, 500, &own, &problem));
    CHECK_EQUAL(9, read_byte(m, b, block, 0));
    MUST(muster_block_allocate(m, b, 500, &own, &problem));
    MUST(muster_close(m, &problem));
}

struct asker {
    struct muster *m;
    muster_device device;
    muster_data data;
    pthread_barrier_t *start;
    muster_block block;
    unsigned char byte;
    muster_status status;
};

static void *ask(void *argument)
{
    struct asker *asker = argument;
    muster_stream stream;
    asker->status = muster_stream_acquire(asker->m, asker->device, 0, &stream, NULL);
    pthread_barrier_wait(asker->start);
    if (asker->status == MUSTER_OK)
        asker->status = muster_data_resident(asker->m, asker->data, stream, &asker->block, NULL);
    if (asker->status == MUSTER_OK)
        asker->status = muster_copy_out(asker->m, stream, &asker->byte, asker->block, 3, 1, NULL);
    if (asker->status == MUSTER_OK)
        asker->status = muster_stream_wait(asker->m, stream, 60 * SECOND, NULL);
    muster_stream_release(asker->m, stream, NULL);
    return NULL;
}

static void many_who_ask_at_once_load_once(void)
{
    enum { ASKERS = 8 };
    static unsigned char table[100000] = { 0, 0, 0, 44 };
    struct muster *m = open_data(0, 0);
    muster_device device = find(m, "apart:0");
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, ASKERS);
    for (unsigned round = 1; round <= test_repetitions(20); round++) {
        muster_data data = create(m, table, sizeof table);
        struct asker askers[ASKERS];
        pthread_t threads[ASKERS];
        for (unsigned i = 0; i < ASKERS; i++) {
            askers[i] = (struct asker){ .m = m, .device = device, .data = data, .start = &start };
            CHECK_EQUAL(0, pthread_create(&threads[i], NULL, ask, &askers[i]));
        }
        for (unsigned i = 0; i < ASKERS; i++)
            pthread_join(threads[i], NULL);
        for (unsigned i = 0; i < ASKERS; i++) {
            CHECK_STATUS(MUSTER_OK, askers[i].status);
            CHECK(same(askers[0].block, askers[i].block));
            CHECK_EQUAL(44, askers[i].byte);
        }
        CHECK_EQUAL(round, copies_in);
        MUST(muster_data_destroy(m, data, &problem));
    }
    pthread_barrier_destroy(&start);
    MUST(muster_close(m, &problem));
}

/* A copy whose load never ran because its stream had failed must not be what everybody gets. */
static void a_load_that_failed_is_done_again(void)
{
    static unsigned char table[64] = { [5] = 6 };
    struct muster *m = open_data(0, 0);
    muster_device device = find(m, "apart:0");
    muster_stream failed = acquire(m, device), stream = acquire(m, device);
    struct muster_kernel *fail = kernel_of(m, always_fail);
    muster_data data = create(m, table, sizeof table);
    MUST(muster_launch(m, failed, fail, 0, 1, NULL, 0, NULL, &problem));
    CHECK_STATUS(MUSTER_E_STREAM_FAILED, muster_stream_wait(m, failed, 60 * SECOND, &problem));
    muster_block block;
    if (muster_data_resident(m, data, failed, &block, &problem) == MUSTER_OK)
        CHECK_STATUS(MUSTER_E_STREAM_FAILED, muster_stream_wait(m, failed, 60 * SECOND, &problem));
    CHECK_EQUAL(6, read_byte(m, stream, resident(m, data, stream), 5));
    CHECK_EQUAL(sizeof table, load_of(m, device).memory_used);
    MUST(muster_close(m, &problem));
}

static void data_on_a_device_that_does_not_answer_is_kept_and_told(void)
{
    static unsigned char table[64];
    struct muster_options options = MUSTER_OPTIONS_INIT;
    options.sim = "[{\"items_per_s\": 1e6, \"faults\": [{\"kind\": \"hang\", \"at_ms\": 0}]}]";
    options.close_ns = 10 * MS;
    struct muster *m = open_with(options);
    muster_device device = find(m, "sim:0");
    muster_stream stream = acquire(m, device);
    muster_data data = create(m, table, sizeof table);
    muster_block block = resident(m, data, stream);
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_data_destroy(m, data, &problem));
    CHECK_TEXT("sim:0", problem.device);
    CHECK_EQUAL(MUSTER_HEALTH_SUSPECT, load_of(m, device).health);
    CHECK_STATUS(MUSTER_E_TIMEOUT, muster_data_invalidate(m, data, &problem));
    CHECK(same(block, resident(m, data, stream)));
    CHECK_STATUS(MUSTER_E_DEVICE_HUNG, muster_close(m, &problem));
}

static void handles_and_arguments_are_checked(void)
{
    static unsigned char table[64];
    struct muster *m = open_data(0, 0);
    muster_stream stream = acquire(m, find(m, "cpu:0"));
    muster_data data = { 7, 7 };
    muster_block block;
    CHECK_STATUS(MUSTER_E_INVALID, muster_data_create(m, NULL, 1, 1, &data, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_data_create(m, table, 0, 0, &data, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_data_create(m, table, 1, 1, &data, &problem));
    CHECK_EQUAL(7, data.index);
    CHECK_STATUS(MUSTER_E_UNKNOWN, muster_data_resident(m, data, stream, &block, &problem));
    CHECK_STATUS(MUSTER_E_UNKNOWN, muster_data_destroy(m, data, &problem));
    data = create(m, table, sizeof table);
    CHECK_STATUS(MUSTER_E_UNKNOWN,
                 muster_data_resident(m, (muster_data){ data.index, 0 }, stream, &block, &problem));
    CHECK_STATUS(MUSTER_E_UNKNOWN,
                 muster_data_resident(m, data, (muster_stream){ 200, 9 }, &block, &problem));
    MUST(muster_data_destroy(m, data, &problem));
    CHECK_STATUS(MUSTER_E_STALE, muster_data_resident(m, data, stream, &block, &problem));
    CHECK_STATUS(MUSTER_E_STALE, muster_data_invalidate(m, data, &problem));
    CHECK_STATUS(MUSTER_E_STALE, muster_data_destroy(m, data, &problem));
    muster_data next = create(m, table, sizeof table);
    CHECK_EQUAL(data.index, next.index);
    CHECK_STATUS(MUSTER_E_STALE, muster_data_destroy(m, data, &problem));
    CHECK_STATUS(MUSTER_E_INVALID, muster_data_resident(m, next, stream, NULL, &problem));
    MUST(muster_close(m, &problem));
}

static void data_too_large_for_a_device_is_told(void)
{
    static unsigned char table[2000];
    struct muster *m = open_data(1000, 0);
    muster_stream stream = acquire(m, find(m, "apart:0")), cpu = acquire(m, find(m, "cpu:0"));
    muster_data data = create(m, table, sizeof table);
    muster_block block;
    for (unsigned i = 0; i < 2; i++)
        CHECK_STATUS(MUSTER_E_TOO_LARGE, muster_data_resident(m, data, stream, &block, &problem));
    resident(m, data, cpu);
    MUST(muster_data_destroy(m, data, &problem));
    MUST(muster_close(m, &problem));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        TEST(a_device_that_uses_host_memory_copies_nothing),
        TEST(a_copy_is_made_once_and_counted),
        TEST(a_copy_that_is_there_is_found_without_memory),
        TEST(a_copy_loaded_on_one_stream_is_waited_for_on_another),
        TEST(invalidated_data_is_loaded_anew),
        TEST(destroy_and_invalidate_wait_for_readers),
        TEST(copies_are_only_for_reading),
        TEST(a_copy_held_by_a_begin_keeps_the_data),
        TEST(room_is_made_by_dropping_what_nobody_uses),
        TEST(a_copy_that_is_given_out_is_not_dropped),
        TEST(a_copy_is_kept_for_each_who_asked),
        TEST(a_released_stream_is_forgotten_though_others_ask_again),
        TEST(many_who_ask_at_once_load_once),
        TEST(a_load_that_failed_is_done_again),
        TEST(data_on_a_device_that_does_not_answer_is_kept_and_told),
        TEST(handles_and_arguments_are_checked),
        TEST(data_too_large_for_a_device_is_told),
    };
    return test_main(argc, argv, tests, COUNT_OF(tests));
}
