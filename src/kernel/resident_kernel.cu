/*
 * The kernel that stays on a GPU: each block is a seat that takes entries of its own ring (base/resident.h).
 * kernel/resident.c puts the numbers of that header, the opcodes and muster_dispatch before this text.
 *
 * The bus takes some ten million reads a second from a GPU, and a read takes a microsecond. So one seat, the
 * first, looks all the time: its first warp reads up to 31 headers of 16 bytes and the control words at once, which
 * is one round over the bus; as long as there are few, it reads few, which is quicker. A small entry, alone, that warp runs itself; several small ones are a warp's
 * each; all others are the block's. The other seats have long entries. They watch words in the device's own memory, where
 * the first seat passes on that the host has rung, and look at their rings then, or once in a while. Steps of many items are shared with seats that have nothing to do:
 * pieces are taken from a counter, so the block that has the entry needs nobody.
 *
 * Order: loads and stores of shared words are relaxed at the system's scope, and fences of that scope stand
 * between them and what they publish. An entry without arguments touches no memory and needs no fence.
 */

struct muster_pair {
    uint64_t first, second;
};

#ifdef MUSTER_NO_PTX
/* For a compiler of the host, that runs the threads of a block one after the other: blocks have one. */
static __device__ muster_pair muster_read_pair(const void *at)
{
    const uint64_t *words = (const uint64_t *)at;
    muster_pair pair;
    pair.first = __atomic_load_n(words, __ATOMIC_ACQUIRE);
    pair.second = __atomic_load_n(words + 1, __ATOMIC_RELAXED);
    return pair;
}
static __device__ uint64_t muster_read_word(const void *at)
{
    return __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE);
}
static __device__ void muster_write_word(void *at, uint64_t word)
{
    __atomic_store_n((uint64_t *)at, word, __ATOMIC_RELEASE);
}
static __device__ void muster_block_barrier() {}
static __device__ void muster_warp_barrier() {}
static __device__ uint32_t muster_ballot(bool is_so)
{
    return is_so;
}
static __device__ uint64_t muster_from_lane(uint64_t value, uint32_t lane)
{
    (void)lane;
    return value;
}
#else
static __device__ __forceinline__ muster_pair muster_read_pair(const void *at)
{
    muster_pair pair;
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(pair.first), "=l"(pair.second)
                 : "l"(at)
                 : "memory");
    return pair;
}
static __device__ __forceinline__ uint64_t muster_read_word(const void *at)
{
    uint64_t word;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(word) : "l"(at) : "memory");
    return word;
}
static __device__ __forceinline__ void muster_write_word(void *at, uint64_t word)
{
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(at), "l"(word) : "memory");
}
static __device__ __forceinline__ void muster_block_barrier()
{
    __syncthreads();
}
static __device__ __forceinline__ void muster_warp_barrier()
{
    __syncwarp();
}
static __device__ __forceinline__ uint32_t muster_ballot(bool is_so)
{
    return __ballot_sync(0xffffffffu, is_so);
}
static __device__ __forceinline__ uint64_t muster_from_lane(uint64_t value, uint32_t lane)
{
    return __shfl_sync(0xffffffffu, value, (int)lane);
}
#endif

#define MUSTER_WARP 32
#define MUSTER_WARPS_MAX 32
/* Between two signs of life, in looks; between two looks at the control word within a program, in ticks. */
#define MUSTER_LOOKS_PER_SIGN 64
/* Headers that are looked at while there are few: two reads of 32 bytes. */
#define MUSTER_WINDOW 4
#define MUSTER_TICKS_PER_SIGN 100000
/* So often a seat that nobody rings for looks at its ring all the same, in ticks. */
#define MUSTER_TICKS_PER_LOOK 40000
/* Items of a piece that a seat takes of a wide step: this many for each thread. */
#define MUSTER_GRAIN 4

/* A step that seats share. In the device's memory, all zeros at first. */
struct muster_wide {
    uint64_t lock, serial;
    uint64_t ticket; /* 0: there is none */
    uint64_t next, done, helpers;
    uint64_t bell, leaving; /* from the first seat: the host's control word; the run that is to leave */
    uint64_t opcode, items;
    uint64_t place[MUSTER_ARGS];
    alignas(16) unsigned char values[MUSTER_VALUES + 32];
};

struct muster_seat_shared {
    alignas(16) muster_pair body[MUSTER_BODY_PIECES];
    alignas(16) muster_pair small[MUSTER_WARPS_MAX][MUSTER_SMALL_PIECES];
    muster_pair headers[MUSTER_WARP];
    unsigned char *place[MUSTER_WARPS_MAX][MUSTER_ARGS];
    uint64_t found, is_leaving, ticket, helped;
    uint64_t chunk, stop;
};

struct muster_lane {
    unsigned char *memory;
    muster_wide *wide;
    uint64_t run, entries, signs_at, headers_at, ends_at, bodies_at;
};

template <class T> static __device__ __forceinline__ T muster_at(const void *body, uint64_t at)
{
    return *(const T *)((const unsigned char *)body + at);
}

static __device__ __forceinline__ uint64_t muster_operands_at(const void *body)
{
    return MUSTER_HEAD_BYTES + (uint64_t)muster_at<uint16_t>(body, MUSTER_HEAD_STEPS) * MUSTER_STEP_BYTES;
}

/* Where an operand is for the kernels of this device. */
static __device__ __forceinline__ unsigned char *muster_place_of(const unsigned char *body, uint64_t operand)
{
    const unsigned char *at = body + muster_operands_at(body) + operand * MUSTER_OPERAND_BYTES;
    if (muster_at<uint8_t>(at, MUSTER_OPERAND_KIND) == MUSTER_KIND_BLOCK)
        return (unsigned char *)muster_at<uint64_t>(at, MUSTER_OPERAND_ADDRESS);
    return (unsigned char *)body + (muster_at<uint32_t>(at, MUSTER_OPERAND_AT) & (MUSTER_BODY_BYTES - 1));
}

/* Thread `thread` of `threads` fills the places of a step's arguments. */
static __device__ __forceinline__ void muster_fill_places(unsigned char **place, const unsigned char *body,
                                                          const unsigned char *step, uint32_t thread,
                                                          uint32_t threads)
{
    uint32_t count = muster_at<uint16_t>(step, MUSTER_STEP_ARG_COUNT);
    for (uint32_t i = thread; i < count && i < MUSTER_ARGS; i += threads)
        place[i] = muster_place_of(body, muster_at<uint8_t>(step, MUSTER_STEP_ARGS + i) & 63);
}

static __device__ __forceinline__ unsigned char *muster_body_of(const muster_lane &lane, uint64_t first)
{
    return lane.memory + lane.bodies_at + (first >> 16 & 0xffff) * MUSTER_BODY_BYTES;
}

/* The task of this header has ended; all that it wrote is before. By one thread. */
static __device__ __forceinline__ void muster_end(const muster_lane &lane, uint64_t first, int32_t status)
{
    if (first & MUSTER_HAS_BODY)
        __threadfence_system();
    muster_write_word(lane.memory + lane.ends_at + (first >> 16 & 0xffff) * 8,
                      first >> 32 << 32 | (uint32_t)status);
}

/* Data goes back to the host's memory: all of it, which leaves what was only read as it is. */
static __device__ __forceinline__ void muster_return_data(unsigned char *to, const muster_pair *body,
                                                          uint32_t thread, uint32_t threads)
{
    uint32_t end = muster_at<uint32_t>(body, MUSTER_HEAD_BODY_BYTES) / 16;
    uint32_t begin = muster_at<uint32_t>(body, MUSTER_HEAD_DATA_AT) / 16;
    for (uint32_t i = begin + thread; i < end && i < MUSTER_BODY_PIECES; i += threads)
        ((muster_pair *)to)[i] = body[i];
}

/* An entry of one step, few items and a small body, by one warp. */
static __device__ __noinline__ void muster_run_small(const muster_lane &lane, muster_seat_shared &shared,
                                                     muster_pair header, uint32_t warp, uint32_t thread,
                                                     uint32_t threads)
{
    uint32_t opcode = (uint32_t)(header.first >> 8) & 0xff, items = (uint32_t)(header.second >> 32);
    muster_pair *body = shared.small[warp];
    unsigned char **place = shared.place[warp];
    if (header.first & MUSTER_HAS_BODY) {
        const unsigned char *from = muster_body_of(lane, header.first);
        uint32_t pieces = (uint32_t)(header.second >> 16) & 0xffff;
        __threadfence_system();
        for (uint32_t i = thread; i < pieces && i < MUSTER_SMALL_PIECES; i += threads)
            body[i] = muster_read_pair(from + i * 16);
        muster_warp_barrier();
        muster_fill_places(place, (unsigned char *)body, (unsigned char *)body + MUSTER_HEAD_BYTES, thread,
                           threads);
        muster_warp_barrier();
    }
    muster_dispatch(opcode, place, thread, items, threads);
    muster_warp_barrier();
    if (header.first & MUSTER_HAS_BODY)
        muster_return_data(muster_body_of(lane, header.first), body, thread, threads);
    muster_warp_barrier();
    if (thread == 0)
        muster_end(lane, header.first, 0);
}

/* Takes pieces of a shared step until there are none. All threads of the block; places are in `place`. */
static __device__ void muster_share(muster_wide *wide, muster_seat_shared &shared, uint64_t opcode,
                                    uint64_t items, unsigned char **place)
{
    const uint64_t grain = (uint64_t)blockDim.x * MUSTER_GRAIN;
    for (;;) {
        if (threadIdx.x == 0)
            shared.chunk = atomicAdd((unsigned long long *)&wide->next, (unsigned long long)grain);
        muster_block_barrier();
        uint64_t begin = shared.chunk;
        muster_block_barrier();
        if (begin >= items)
            return;
        uint64_t end = begin + grain < items ? begin + grain : items;
        muster_dispatch((uint32_t)opcode, place, begin + threadIdx.x, end, blockDim.x);
        muster_block_barrier();
        if (threadIdx.x == 0) {
            /* What the block has written is there before it counts as done. */
            __threadfence();
            atomicAdd((unsigned long long *)&wide->done, (unsigned long long)(end - begin));
        }
    }
}

/* A step that is offered to all seats. False, and nothing is done, if another step is offered just now. */
static __device__ bool muster_run_wide(const muster_lane &lane, muster_seat_shared &shared, uint64_t opcode,
                                       uint64_t items, const unsigned char *step)
{
    muster_wide *wide = lane.wide;
    const unsigned char *body = (const unsigned char *)shared.body;
    if (threadIdx.x == 0)
        shared.stop = atomicCAS((unsigned long long *)&wide->lock, 0ull, 1ull);
    muster_block_barrier();
    bool is_free = shared.stop == 0;
    muster_block_barrier();
    if (!is_free)
        return false;
    uint64_t values_at = muster_operands_at(body) +
                         (uint64_t)muster_at<uint16_t>(body, MUSTER_HEAD_OPERANDS) * MUSTER_OPERAND_BYTES;
    uint64_t values_end = muster_at<uint32_t>(body, MUSTER_HEAD_DATA_AT);
    for (uint64_t i = threadIdx.x; values_at + i < values_end && i < MUSTER_VALUES + 32; i += blockDim.x)
        wide->values[i] = body[values_at + i];
    for (uint32_t i = threadIdx.x; i < MUSTER_ARGS; i += blockDim.x) {
        unsigned char *place = shared.place[0][i];
        bool is_value = place >= body && place < body + MUSTER_BODY_BYTES;
        wide->place[i] = (uint64_t)(is_value ? wide->values + (place - body - values_at) : place);
    }
    muster_block_barrier();
    if (threadIdx.x == 0) {
        wide->opcode = opcode;
        wide->items = items;
        wide->next = wide->done = 0;
        __threadfence();
        muster_write_word(&wide->ticket, ++wide->serial);
    }
    muster_block_barrier();
    muster_share(wide, shared, opcode, items, shared.place[0]);
    if (threadIdx.x == 0) {
        while (muster_read_word(&wide->done) != items) {}
        muster_write_word(&wide->ticket, 0);
        /* A helper counts itself and then looks for the ticket: one of us two sees the other. */
        __threadfence();
        while (muster_read_word(&wide->helpers) != 0) {}
        __threadfence();
        atomicExch((unsigned long long *)&wide->lock, 0ull);
    }
    muster_block_barrier();
    return true;
}

/* Helps with the step of this ticket, if it is still offered. All threads of the block. */
static __device__ void muster_help(const muster_lane &lane, muster_seat_shared &shared)
{
    muster_wide *wide = lane.wide;
    if (threadIdx.x == 0) {
        atomicAdd((unsigned long long *)&wide->helpers, 1ull);
        __threadfence();
        shared.stop = muster_read_word(&wide->ticket) == shared.ticket;
    }
    muster_block_barrier();
    bool is_offered = shared.stop != 0;
    if (is_offered) {
        for (uint32_t i = threadIdx.x; i < MUSTER_ARGS; i += blockDim.x)
            shared.place[0][i] = (unsigned char *)muster_read_word(&wide->place[i]);
        uint64_t opcode = muster_read_word(&wide->opcode), items = muster_read_word(&wide->items);
        __threadfence();
        muster_block_barrier();
        muster_share(wide, shared, opcode, items, shared.place[0]);
    }
    muster_block_barrier();
    if (threadIdx.x == 0) {
        shared.helped = shared.ticket;
        __threadfence();
        atomicAdd((unsigned long long *)&wide->helpers, ~0ull);
    }
    muster_block_barrier();
}

/* Whether the step is over, or all of the entry: 1, 2. */
static __device__ uint32_t muster_ask(const muster_lane &lane, muster_seat_shared &shared,
                                      const unsigned char *step, uint64_t &beats, long long &since)
{
    if (threadIdx.x == 0) {
        uint32_t until = muster_at<uint16_t>(step, MUSTER_STEP_UNTIL);
        shared.stop = 0;
        if (until != MUSTER_NO_OPERAND) {
            const unsigned char *flag = muster_place_of((const unsigned char *)shared.body, until & 63) +
                                        muster_at<uint64_t>(step, MUSTER_STEP_UNTIL_AT);
            shared.stop = *(const volatile uint32_t *)flag != 0;
        }
        long long now = clock64();
        if (now - since > MUSTER_TICKS_PER_SIGN) {
            since = now;
            muster_write_word(lane.memory + lane.signs_at + blockIdx.x * MUSTER_SIGN_BYTES, ++beats);
            if (muster_read_word(lane.memory + 8) & 1)
                shared.stop = 2;
        }
    }
    muster_block_barrier();
    uint32_t stop = (uint32_t)shared.stop;
    muster_block_barrier();
    return stop;
}

/* One of the steps, as often as it is to be run; 2: the entry is to end. */
static __device__ uint32_t muster_run_step(const muster_lane &lane, muster_seat_shared &shared,
                                           const unsigned char *step, bool is_wide, uint64_t &beats,
                                           long long &since)
{
    uint32_t opcode = muster_at<uint16_t>(step, 0), items = muster_at<uint32_t>(step, MUSTER_STEP_ITEMS);
    uint32_t repeat = muster_at<uint32_t>(step, MUSTER_STEP_REPEAT), stop = 0;
    const bool is_shared = is_wide && gridDim.x > 2 && items >= (uint64_t)blockDim.x * MUSTER_GRAIN * 2;
    muster_fill_places(shared.place[0], (const unsigned char *)shared.body, step, threadIdx.x, blockDim.x);
    muster_block_barrier();
    for (uint32_t run = 0; run < repeat && stop == 0; run++) {
        if (!is_shared || !muster_run_wide(lane, shared, opcode, items, step))
            muster_dispatch(opcode, shared.place[0], threadIdx.x, items, blockDim.x);
        /* Other seats' writes of a shared step are read by the next. */
        if (is_shared)
            __threadfence();
        muster_block_barrier();
        stop = muster_ask(lane, shared, step, beats, since);
    }
    return stop;
}

/* An entry by all threads of the block. */
static __device__ __noinline__ void muster_run_entry(const muster_lane &lane, muster_seat_shared &shared,
                                                     muster_pair header, uint64_t &beats)
{
    const unsigned char *body = (const unsigned char *)shared.body;
    int32_t status = 0;
    long long since = clock64();
    if (!(header.first & MUSTER_HAS_BODY)) {
        muster_dispatch((uint32_t)(header.first >> 8) & 0xff, shared.place[0], threadIdx.x,
                        header.second >> 32, blockDim.x);
    } else {
        const unsigned char *from = muster_body_of(lane, header.first);
        uint32_t pieces = (uint32_t)(header.second >> 16) & 0xffff;
        if (threadIdx.x < MUSTER_WARP)
            __threadfence_system();
        for (uint32_t i = threadIdx.x; i < pieces && i < MUSTER_BODY_PIECES; i += blockDim.x)
            shared.body[i] = muster_read_pair(from + i * 16);
        muster_block_barrier();
        uint32_t steps = muster_at<uint16_t>(body, MUSTER_HEAD_STEPS);
        for (uint32_t i = 0; i < steps && i < MUSTER_STEPS && status == 0; i++)
            if (muster_run_step(lane, shared, body + MUSTER_HEAD_BYTES + i * MUSTER_STEP_BYTES,
                                (header.first & MUSTER_IS_WIDE) != 0, beats, since) == 2)
                status = MUSTER_CANCELLED;
        muster_return_data(muster_body_of(lane, header.first), shared.body, threadIdx.x, blockDim.x);
    }
    muster_block_barrier();
    if (threadIdx.x == 0)
        muster_end(lane, header.first, status);
    muster_block_barrier();
}

/* What a seat's first thread knows from its last look. */
struct muster_view {
    uint64_t beats, bell;
    long long looked;
    uint32_t window; /* headers that the first seat looks at */
};

static __device__ __forceinline__ void muster_give_sign(const muster_lane &lane, muster_view &view)
{
    muster_write_word(lane.memory + lane.signs_at + blockIdx.x * MUSTER_SIGN_BYTES, ++view.beats);
}

/* The header of this number, in the seat's ring. */
static __device__ __forceinline__ const unsigned char *muster_header_at(const muster_lane &lane, uint32_t number)
{
    return lane.memory + lane.headers_at +
           ((uint64_t)blockIdx.x * lane.entries + (number - 1) % (uint32_t)lane.entries) * 16;
}

/* How many headers from the first lane's on are there. */
static __device__ __forceinline__ uint32_t muster_count_found(muster_pair header, uint32_t number, bool is_header)
{
    bool is_here = is_header && (uint32_t)(header.first >> 32) == number &&
                   (header.second & 0xffff) == (number & 0xffff);
    return (uint32_t)__ffs((int)~muster_ballot(is_here)) - 1;
}

/*
 * The first warp of the first seat looks until there is something to do: gives how many headers are found,
 * which are in the lanes. `position` is how many the seat has taken. The last lane reads the control words.
 */
static __device__ uint32_t muster_look_always(const muster_lane &lane, uint32_t position, muster_view &view,
                                              muster_pair &header, bool &is_leaving)
{
    const bool is_alone = blockDim.x < MUSTER_WARP;
    const uint32_t thread = threadIdx.x, number = position + thread + 1;
    const bool is_header = is_alone || thread < MUSTER_WARP - 1;
    const unsigned char *at = is_header ? muster_header_at(lane, number) : lane.memory;
    for (uint32_t look = 0;; look++) {
        const bool is_read = is_header && thread < view.window;
        header.first = header.second = 0;
        if (is_read || !is_header)
            header = muster_read_pair(at);
        uint32_t found = muster_count_found(header, number, is_read);
        if (found == view.window || found < MUSTER_WINDOW)
            view.window = found == view.window ? MUSTER_WARP - 1 : MUSTER_WINDOW;
        muster_pair control = is_alone ? muster_read_pair(lane.memory) : header;
        control.first = muster_from_lane(control.first, MUSTER_WARP - 1);
        control.second = muster_from_lane(control.second, MUSTER_WARP - 1);
        is_leaving = control.first != lane.run;
        if (thread == 0 && gridDim.x > 1) {
            if (control.second != view.bell)
                muster_write_word(&lane.wide->bell, view.bell = control.second);
            if (is_leaving)
                muster_write_word(&lane.wide->leaving, lane.run);
        }
        if (thread == 0 && look % MUSTER_LOOKS_PER_SIGN == 0)
            muster_give_sign(lane, view);
        if (found > 0 || is_leaving)
            return found;
    }
}

/* The same of another seat, which looks at two headers when it is rung for; `ticket`: a step is offered. */
static __device__ uint32_t muster_look_when_rung(const muster_lane &lane, const muster_seat_shared &shared,
                                                 uint32_t position, muster_view &view, muster_pair &header,
                                                 bool &is_leaving, uint64_t &ticket)
{
    const uint32_t thread = threadIdx.x, number = position + thread + 1;
    for (uint32_t look = 0;; look++) {
        uint64_t due = 0, wanted = lane.run;
        ticket = 0;
        if (thread == 0) {
            uint64_t bell = muster_read_word(&lane.wide->bell);
            long long now = clock64();
            ticket = muster_read_word(&lane.wide->ticket);
            if (muster_read_word(&lane.wide->leaving) == lane.run)
                wanted = 0;
            due = bell != view.bell || now - view.looked > MUSTER_TICKS_PER_LOOK;
            if (due) {
                view.bell = bell;
                view.looked = now;
            }
            if (look % MUSTER_LOOKS_PER_SIGN == 0)
                muster_give_sign(lane, view);
        }
        due = muster_from_lane(due, 0);
        header.first = header.second = 0;
        if (due && thread < 2)
            header = muster_read_pair(muster_header_at(lane, number));
        if (due && thread == 0 && wanted != 0)
            wanted = muster_read_word(lane.memory);
        uint32_t found = muster_count_found(header, number, thread < 2);
        is_leaving = muster_from_lane(wanted, 0) != lane.run;
        ticket = muster_from_lane(ticket, 0);
        if (ticket == shared.helped)
            ticket = 0;
        if (found > 0)
            view.looked = 0;
        if (found > 0 || is_leaving || ticket != 0)
            return found;
    }
}

/* How many of the first entries found are small. */
static __device__ uint32_t muster_count_small(const muster_seat_shared &shared, uint32_t found)
{
    uint32_t count = 0;
    while (count < found && (shared.headers[count].first & MUSTER_IS_SMALL))
        count++;
    return count;
}

extern "C" __global__ __launch_bounds__(MUSTER_THREADS) void
    muster_resident(uint64_t begin, uint64_t items, unsigned char *memory, muster_wide *wide, uint64_t run,
                    uint64_t entries, uint64_t signs_at, uint64_t headers_at, uint64_t ends_at,
                    uint64_t bodies_at)
{
    __shared__ muster_seat_shared shared;
    const muster_lane lane = { memory, wide, run, entries, signs_at, headers_at, ends_at, bodies_at };
    const uint32_t warp = threadIdx.x / MUSTER_WARP, thread = threadIdx.x % MUSTER_WARP;
    const uint32_t width = blockDim.x < MUSTER_WARP ? blockDim.x : MUSTER_WARP;
    const uint32_t warps = blockDim.x / width;
    unsigned char *sign = memory + signs_at + blockIdx.x * MUSTER_SIGN_BYTES;
    uint32_t position = (uint32_t)muster_read_word(sign + 8);
    muster_view view = { muster_read_word(sign), 0, 0, MUSTER_WINDOW };
    (void)begin, (void)items;
    if (threadIdx.x == 0)
        shared.helped = 0;
    muster_block_barrier();
    for (bool is_leaving = false; !is_leaving;) {
        muster_pair header = { 0, 0 };
        uint32_t found = 0;
        uint64_t ticket = 0;
        if (warp == 0) {
            /* One small entry at a time is the first warp's alone, without a word to the others. */
            for (;;) {
                found = blockIdx.x == 0 ? muster_look_always(lane, position, view, header, is_leaving)
                                        : muster_look_when_rung(lane, shared, position, view, header, is_leaving, ticket);
                uint64_t first = muster_from_lane(header.first, 0), second = muster_from_lane(header.second, 0);
                if (is_leaving || found != 1 || !(first & MUSTER_IS_SMALL))
                    break;
                muster_pair one = { first, second };
                muster_run_small(lane, shared, one, 0, thread, width);
                muster_warp_barrier();
                position++;
            }
            if (thread < MUSTER_WARP)
                shared.headers[thread] = header;
            if (thread == 0) {
                shared.found = is_leaving ? 0 : found;
                shared.is_leaving = is_leaving;
                shared.chunk = position;
                shared.ticket = found == 0 ? ticket : 0;
            }
        }
        muster_block_barrier();
        found = (uint32_t)shared.found;
        is_leaving = shared.is_leaving != 0;
        position = (uint32_t)shared.chunk;
        ticket = shared.ticket;
        uint32_t small = muster_count_small(shared, found);
        muster_block_barrier();
        for (uint32_t i = warp; i < small; i += warps)
            muster_run_small(lane, shared, shared.headers[i], warp, thread, width);
        muster_block_barrier();
        position += small;
        if (small < found && small == 0) {
            muster_run_entry(lane, shared, shared.headers[0], view.beats);
            position++;
        } else if (found == 0 && !is_leaving && ticket != 0) {
            muster_help(lane, shared);
        }
    }
    if (threadIdx.x == 0)
        muster_write_word(sign + 8, position);
}
