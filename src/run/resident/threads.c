/*
 * Seats that are threads of this process: those of lanes on `cpu` and `sim`, and the reference for the kernel
 * that stays on a GPU. A seat that finds nothing looks around for a moment and then sleeps until it is rung.
 */
#include "base/allocator.h"
#include "base/invariant.h"
#include "platform/frame.h"
#include "run/memory/kernel.h"
#include "run/resident/resident.h"

#include <stdio.h>

/* How long a seat looks around: a wake costs about as much. */
#define LOOK_NS 50000u
/* Looks between two looks at the clock. */
#define LOOKS 32u
/* How long a seat that should have left is waited for at the end. */
#define END_NS 300000000u

struct seat {
    struct muster_resident *lane;
    struct platform_thread thread;
    uint32_t index;
    uint32_t position; /* the number that it expects */
    /* Sequentially consistent, like the header's first word: see post.c. */
    _Atomic bool is_napping;
    struct platform_condition wake;
};

struct resident_seats {
    struct platform_mutex lock;
    struct platform_condition left;
    uint64_t run; /* the run that was started last */
    uint32_t active;
    uint32_t started; /* threads */
    uint32_t gone;    /* of them: that have returned */
    bool must_stop;
    muster_kernel_function functions[RESIDENT_OPCODES_MAX];
    struct seat seats[RESIDENT_SEATS_MAX];
};

static bool is_wanted(const struct muster_resident *lane, uint64_t run)
{
    return atomic_load_explicit(&lane->control->run, memory_order_acquire) == run;
}

static void give_sign(struct muster_resident *lane, const struct seat *seat)
{
    atomic_fetch_add_explicit(&lane->signs[seat->index].beats, 1, memory_order_relaxed);
}

static muster_status call(void *user, uint32_t opcode, uint64_t items, void *const *args)
{
    const struct seat *seat = user;
    struct platform_frame frame = { .kind = FRAME_KERNEL };
    give_sign(seat->lane, seat);
    platform_frame_enter(&frame);
    muster_status status = seat->lane->seats->functions[opcode](0, items, args);
    platform_frame_leave(&frame);
    return status;
}

/* Between two runs of a program. */
static bool go_on(void *user)
{
    const struct seat *seat = user;
    return (atomic_load_explicit(&seat->lane->control->bell, memory_order_relaxed) & 1) == 0;
}

static muster_status run_entry(struct seat *seat, uint64_t first, uint64_t second)
{
    struct muster_resident *lane = seat->lane;
    uint32_t record = (uint32_t)(first >> 16) & 0xffff, opcode = (uint32_t)(first >> 8) & 0xff;
    if (first & RESIDENT_HAS_BODY)
        return resident_run(lane->bodies + (size_t)record * RESIDENT_BODY_MAX, call, go_on, seat);
    void *nothing = NULL;
    return second >> 32 > 0 ? call(seat, opcode, second >> 32, &nothing) : MUSTER_OK;
}

/* The header of the number that the seat expects; false if it has not come. */
static bool read_header(const struct seat *seat, uint64_t *first, uint64_t *second)
{
    struct resident_header *header = resident_header_at(seat->lane, seat->index, seat->position);
    /* Pairs with put_in_ring_locked: the second word, the body and the record's end are there. */
    *first = atomic_load_explicit(&header->first, memory_order_seq_cst);
    if ((uint32_t)(*first >> 32) != seat->position)
        return false;
    *second = atomic_load_explicit(&header->second, memory_order_relaxed);
    uint32_t record = (uint32_t)(*first >> 16) & 0xffff, opcode = (uint32_t)(*first >> 8) & 0xff;
    bool is_whole = (*second & 0xffff) == (seat->position & 0xffff) &&
                    record < seat->lane->options.entries && opcode < seat->lane->kernel_count;
    INVARIANT(is_whole);
    return is_whole;
}

static bool take_one(struct seat *seat)
{
    struct muster_resident *lane = seat->lane;
    uint64_t first, second;
    if (!read_header(seat, &first, &second))
        return false;
    muster_status status = run_entry(seat, first, second);
    uint32_t record = (uint32_t)(first >> 16) & 0xffff;
    /* Release pairs with the acquire of who collects: outputs are there. */
    atomic_store_explicit(&lane->ends[record], resident_end(seat->position, status),
                          memory_order_release);
    seat->position++;
    give_sign(lane, seat);
    if (atomic_load_explicit(&lane->is_listening, memory_order_seq_cst)) {
        platform_mutex_lock(&lane->lock);
        platform_condition_wake_one(&lane->watch_wake);
        platform_mutex_unlock(&lane->lock);
    }
    return true;
}

/* Sleeps until it is rung, or asked to leave. */
static void nap(struct seat *seat, uint64_t run)
{
    struct resident_seats *seats = seat->lane->seats;
    uint64_t first, second;
    platform_mutex_lock(&seats->lock);
    atomic_store_explicit(&seat->is_napping, true, memory_order_seq_cst);
    if (!read_header(seat, &first, &second) && is_wanted(seat->lane, run))
        platform_condition_wait(&seat->wake, &seats->lock, UINT64_MAX);
    atomic_store_explicit(&seat->is_napping, false, memory_order_seq_cst);
    platform_mutex_unlock(&seats->lock);
}

static void serve(struct seat *seat, uint64_t run)
{
    uint64_t since_ns = 0;
    give_sign(seat->lane, seat);
    while (is_wanted(seat->lane, run)) {
        bool has_taken = false;
        for (uint32_t i = 0; i < LOOKS && !has_taken; i++)
            has_taken = take_one(seat);
        if (has_taken) {
            since_ns = 0;
            continue;
        }
        uint64_t now_ns = platform_clock_ns();
        if (since_ns == 0)
            since_ns = now_ns;
        if (now_ns - since_ns < LOOK_NS) {
            platform_thread_yield();
        } else {
            nap(seat, run);
            since_ns = 0;
        }
    }
}

static void run_seat(void *argument)
{
    struct seat *seat = argument;
    struct resident_seats *seats = seat->lane->seats;
    uint64_t run = 0;
    platform_mutex_lock(&seats->lock);
    for (;;) {
        while (seats->run == run && !seats->must_stop)
            platform_condition_wait(&seat->wake, &seats->lock, UINT64_MAX);
        if (seats->run == run)
            break;
        run = seats->run;
        platform_mutex_unlock(&seats->lock);
        serve(seat, run);
        platform_mutex_lock(&seats->lock);
        seats->active--;
        platform_condition_wake_all(&seats->left);
    }
    seats->gone++;
    platform_condition_wake_all(&seats->left);
    platform_mutex_unlock(&seats->lock);
}

static muster_status start(struct muster_resident *lane, struct muster_error *err)
{
    struct resident_seats *seats = lane->seats;
    (void)err;
    platform_mutex_lock(&seats->lock);
    INVARIANT(seats->active == 0);
    seats->run = lane->run;
    seats->active = lane->seat_count;
    for (uint32_t i = 0; i < lane->seat_count; i++)
        platform_condition_wake_one(&seats->seats[i].wake);
    platform_mutex_unlock(&seats->lock);
    return MUSTER_OK;
}

static muster_status query(struct muster_resident *lane, struct muster_error *err)
{
    struct resident_seats *seats = lane->seats;
    (void)err;
    platform_mutex_lock(&seats->lock);
    bool is_active = seats->active > 0;
    for (uint32_t i = 0; is_active && i < lane->seat_count; i++)
        platform_condition_wake_one(&seats->seats[i].wake);
    platform_mutex_unlock(&seats->lock);
    return is_active ? MUSTER_E_BUSY : MUSTER_OK;
}

static void ring(struct muster_resident *lane, uint32_t index)
{
    struct resident_seats *seats = lane->seats;
    struct seat *seat = &seats->seats[index];
    /* Sequentially consistent, after the header's first word: see post.c. */
    if (!atomic_load_explicit(&seat->is_napping, memory_order_seq_cst))
        return;
    platform_mutex_lock(&seats->lock);
    platform_condition_wake_one(&seat->wake);
    platform_mutex_unlock(&seats->lock);
}

static void free_seats(struct muster_resident *lane)
{
    struct resident_seats *seats = lane->seats;
    for (uint32_t i = 0; i < RESIDENT_SEATS_MAX; i++)
        platform_condition_deinit(&seats->seats[i].wake);
    platform_condition_deinit(&seats->left);
    platform_mutex_deinit(&seats->lock);
    allocator_give(&lane->m->allocator, seats, 1, sizeof *seats);
    lane->seats = NULL;
}

static bool end(struct muster_resident *lane)
{
    struct resident_seats *seats = lane->seats;
    uint64_t deadline_ns = platform_deadline_ns(END_NS);
    bool in_time = true;
    platform_mutex_lock(&seats->lock);
    seats->must_stop = true;
    for (uint32_t i = 0; i < seats->started; i++)
        platform_condition_wake_one(&seats->seats[i].wake);
    while (seats->gone < seats->started && in_time)
        in_time = platform_condition_wait(&seats->left, &seats->lock, deadline_ns);
    bool is_over = seats->gone == seats->started;
    platform_mutex_unlock(&seats->lock);
    for (uint32_t i = 0; i < seats->started; i++) {
        if (is_over)
            platform_thread_join(&seats->seats[i].thread);
        else
            platform_thread_detach(&seats->seats[i].thread);
    }
    if (is_over)
        free_seats(lane);
    return is_over;
}

static muster_status init_seats(struct resident_seats *seats, struct muster_error *err)
{
    uint32_t made = 0;
    muster_status status = platform_mutex_init(&seats->lock, err);
    if (status != MUSTER_OK)
        return status;
    status = platform_condition_init(&seats->left, err);
    if (status != MUSTER_OK)
        goto no_left;
    while (made < RESIDENT_SEATS_MAX && status == MUSTER_OK)
        if ((status = platform_condition_init(&seats->seats[made].wake, err)) == MUSTER_OK)
            made++;
    if (status == MUSTER_OK)
        return status;
    while (made-- > 0)
        platform_condition_deinit(&seats->seats[made].wake);
    platform_condition_deinit(&seats->left);
no_left:
    platform_mutex_deinit(&seats->lock);
    return status;
}

static muster_status make(struct muster_resident *lane, struct muster_error *err)
{
    muster_status status = MUSTER_OK;
    struct resident_seats *seats = allocator_take(&lane->m->allocator, 1, sizeof *seats);
    if (!seats)
        return run_no_memory(err, "a resident lane");
    for (uint32_t i = 0; i < lane->kernel_count && status == MUSTER_OK; i++)
        status = kernel_get_function(lane->kernels[i], &seats->functions[i], err);
    if (status == MUSTER_OK)
        status = init_seats(seats, err);
    if (status != MUSTER_OK) {
        allocator_give(&lane->m->allocator, seats, 1, sizeof *seats);
        return status;
    }
    lane->seats = seats;
    lane->seat_count = lane->options.cores;
    for (uint32_t i = 0; i < lane->seat_count && status == MUSTER_OK; i++) {
        struct seat *seat = &seats->seats[i];
        char name[16];
        seat->lane = lane;
        seat->index = i;
        seat->position = 1;
        snprintf(name, sizeof name, "muster-seat-%u", i);
        status = platform_thread_start(&seat->thread, run_seat, seat, name, NULL, err);
        seats->started += status == MUSTER_OK;
    }
    if (status != MUSTER_OK) {
        bool is_over = end(lane);
        INVARIANT(is_over);
        (void)is_over;
    }
    return status;
}

const struct resident_kind_of_seats resident_threads = { make, start, query, ring, end };
