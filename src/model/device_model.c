/*
 * Every machine must give the same nanoseconds, so no floating-point product here is ever added to
 * anything: compilers may fuse the two, or not, and then machines differ in the last bit. Products
 * and quotients are turned into whole numbers at once and added as such.
 */
#include "model/device_model.h"

#include "base/invariant.h"
#include "model/power.h"

#include <float.h>

_Static_assert(FLT_EVAL_METHOD == 0, "results must not depend on excess precision");
_Static_assert(DBL_MANT_DIG == 53, "results must not depend on the format of double");

#define NS_PER_S 1e9
#define TWO_TO_64 18446744073709551616.0

/* Jitter is applied in fixed point: 1.0 is 2^31, so that a product with 32 bits fits 64. */
#define JITTER_BITS 31
#define JITTER_ONE (UINT64_C(1) << JITTER_BITS)

/* Nobody is slowed down by more than this: times stay within what 64 bits can say. */
#define MODEL_SHARE_LEAST 1e-9

static uint64_t add_saturating(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* Of what is not negative; what is not a number counts as too large. */
static uint64_t round_down(double value)
{
    return value < TWO_TO_64 ? (uint64_t)value : UINT64_MAX;
}

static uint64_t round_up(double value)
{
    uint64_t whole = round_down(value);
    return (double)whole < value && whole != UINT64_MAX ? whole + 1 : whole;
}

/* `amount` before the division, so that whole quotients come out whole. */
static uint64_t time_at_rate(double amount, double per_s)
{
    if (!(amount > 0))
        return 0;
    return per_s > 0 ? round_up(amount * NS_PER_S / per_s) : UINT64_MAX;
}

bool model_is_sharing(const struct model_device *device)
{
    bool is_sharing = false;
    for (uint32_t i = 0; i < MODEL_RESOURCES_MAX; i++)
        is_sharing = is_sharing || device->uses[i] > 0 || device->feeds[i] > 0;
    return is_sharing;
}

double model_share(const struct model_device *device, const struct model_resources *resources,
                   const double *demand)
{
    double share = 1;
    for (uint32_t i = 0; i < resources->count; i++)
        if ((device->uses[i] > 0 || device->feeds[i] > 0) &&
            demand[i] > resources->list[i].capacity)
            share *= power_of(resources->list[i].capacity / demand[i], device->sensitive);
    return share > MODEL_SHARE_LEAST ? share : MODEL_SHARE_LEAST;
}

void model_state_init(struct model_state *state, uint64_t seed, uint32_t device_index)
{
    /* Hashed twice: seeds that differ by little must not give devices that resemble each other. */
    struct random seeds;
    random_init(&seeds, seed);
    random_init(&seeds, random_next(&seeds) ^ device_index);
    *state = (struct model_state){ .launches = 0 };
    random_init(&state->random, random_next(&seeds));
    random_init(&state->memory_random, random_next(&seeds));
    for (int i = 0; i < MODEL_FAULTS_MAX; i++)
        state->triggered_ns[i] = MODEL_NEVER;
}

/*
 * When a fault holds: from begin_ns to before end_ns; begin_ns is MODEL_NEVER if nothing has
 * triggered it.
 */
struct spell {
    uint64_t begin_ns, end_ns;
};

static struct spell spell_of(const struct model_device *device, const struct model_state *state,
                             uint32_t index)
{
    const struct model_fault *fault = &device->faults[index];
    uint64_t begin_ns = fault->at_launch > 0 ? state->triggered_ns[index] : fault->at_ns;
    bool for_ever = fault->for_ns == 0 || fault->kind == MODEL_FAULT_LOST;
    return (struct spell){ begin_ns,
                           for_ever ? MODEL_NEVER : add_saturating(begin_ns, fault->for_ns) };
}

static bool holds_at(struct spell spell, uint64_t now_ns)
{
    return spell.begin_ns <= now_ns && now_ns < spell.end_ns;
}

/* The first instant after now_ns at which the spell begins or ends. */
static uint64_t next_edge_ns(struct spell spell, uint64_t now_ns)
{
    if (spell.begin_ns > now_ns)
        return spell.begin_ns;
    return spell.end_ns > now_ns ? spell.end_ns : MODEL_NEVER;
}

/* What of a device's work a spell slows down. */
enum activity { LAUNCHING, COMPUTING, COPYING };

struct pace {
    double speed;      /* 1: as described; 0: hung */
    uint64_t until_ns; /* how long it stays so at least */
};

static struct pace pace_at(const struct model_device *device, const struct model_state *state,
                           enum activity activity, uint64_t now_ns)
{
    struct pace pace = { 1.0, MODEL_NEVER };
    for (uint32_t i = 0; i < device->fault_count; i++) {
        enum model_fault_kind kind = device->faults[i].kind;
        if (kind != MODEL_FAULT_HANG && !(kind == MODEL_FAULT_SLOW && activity == COMPUTING))
            continue;
        struct spell spell = spell_of(device, state, i);
        if (holds_at(spell, now_ns))
            pace.speed *= kind == MODEL_FAULT_HANG ? 0.0 : device->faults[i].factor;
        uint64_t edge_ns = next_edge_ns(spell, now_ns);
        if (edge_ns < pace.until_ns)
            pace.until_ns = edge_ns;
    }
    return pace;
}

static uint64_t time_at_speed(uint64_t nominal_ns, double speed)
{
    return speed == 1.0 ? nominal_ns : round_up((double)nominal_ns / speed);
}

static uint64_t progress_at_speed(uint64_t elapsed_ns, double speed)
{
    return speed == 1.0 ? elapsed_ns : round_down((double)elapsed_ns * speed);
}

/*
 * Goes on, from now_ns to until_ns at the latest, with something that has *left_ns to go on a healthy
 * device that has all of its rate. Gives when it is done, or until_ns; *left_ns is then what is left.
 * Knows no loss.
 */
static uint64_t pass(const struct model_device *device, const struct model_state *state,
                     enum activity activity, double share, uint64_t now_ns, uint64_t until_ns,
                     uint64_t *left_ns)
{
    while (now_ns < until_ns) {
        struct pace pace = pace_at(device, state, activity, now_ns);
        double speed = activity == COMPUTING ? pace.speed * share : pace.speed;
        uint64_t end_ns = pace.until_ns < until_ns ? pace.until_ns : until_ns;
        uint64_t done_ns =
            speed > 0 ? add_saturating(now_ns, time_at_speed(*left_ns, speed)) : MODEL_NEVER;
        if (done_ns < end_ns || end_ns == MODEL_NEVER) {
            *left_ns = 0;
            return done_ns;
        }
        /*
         * What is done just as a hang begins is seen only after it: nothing finishes on a hung
         * device.
         */
        uint64_t progress_ns =
            done_ns == end_ns ? *left_ns : progress_at_speed(end_ns - now_ns, speed);
        *left_ns -= progress_ns < *left_ns ? progress_ns : *left_ns;
        now_ns = end_ns;
    }
    return until_ns;
}

/* When something that takes nominal_ns on a healthy device is done, begun at now_ns. Knows no loss. */
static uint64_t end_of(const struct model_device *device, const struct model_state *state,
                       enum activity activity, double share, uint64_t now_ns, uint64_t nominal_ns)
{
    if (nominal_ns == UINT64_MAX)
        return MODEL_NEVER;
    return pass(device, state, activity, share, now_ns, MODEL_NEVER, &nominal_ns);
}

static uint64_t lost_at_ns(const struct model_device *device, const struct model_state *state)
{
    uint64_t lost_ns = MODEL_NEVER;
    for (uint32_t i = 0; i < device->fault_count; i++) {
        if (device->faults[i].kind != MODEL_FAULT_LOST)
            continue;
        uint64_t begin_ns = spell_of(device, state, i).begin_ns;
        if (begin_ns < lost_ns)
            lost_ns = begin_ns;
    }
    return lost_ns;
}

/*
 * `drawn` into an odd number from -(2^32 - 1) to 2^32 - 1, evenly: its mean is exactly 0, so jitter
 * changes no device's rate.
 */
static uint64_t jitter_factor(double jitter, uint64_t drawn)
{
    int64_t spread = (int64_t)(jitter * (double)JITTER_ONE);
    int64_t place = (int64_t)((drawn >> 32) * 2 + 1) - (INT64_C(1) << 32);
    return (uint64_t)((int64_t)JITTER_ONE + spread * place / (INT64_C(1) << 32));
}

/* nominal_ns x factor / 2^31 to the nearest, in two halves because the product can have 96 bits. */
static uint64_t apply_jitter(uint64_t nominal_ns, uint64_t factor)
{
    uint64_t high;
    if (nominal_ns == UINT64_MAX ||
        __builtin_mul_overflow(nominal_ns >> JITTER_BITS, factor, &high))
        return UINT64_MAX;
    uint64_t low = (nominal_ns & (JITTER_ONE - 1)) * factor + JITTER_ONE / 2;
    return add_saturating(high, low >> JITTER_BITS);
}

/* How likely the launch that has just been counted is to succeed. */
static double success_chance(const struct model_device *device, const struct model_state *state,
                             uint64_t start_ns)
{
    double chance = 1.0;
    for (uint32_t i = 0; i < device->fault_count; i++) {
        const struct model_fault *fault = &device->faults[i];
        if (fault->kind != MODEL_FAULT_UNIT_ERROR)
            continue;
        bool this_launch_alone = fault->at_launch > 0 && fault->for_ns == 0;
        bool holds = this_launch_alone ? state->launches == fault->at_launch
                                       : holds_at(spell_of(device, state, i), start_ns);
        if (holds)
            chance *= 1.0 - fault->probability;
    }
    return chance;
}

struct model_work model_begin(const struct model_device *device, struct model_state *state,
                              uint64_t start_ns, double work)
{
    INVARIANT(device->fault_count <= MODEL_FAULTS_MAX);
    state->launches++;
    for (uint32_t i = 0; i < device->fault_count; i++)
        if (device->faults[i].at_launch == state->launches)
            state->triggered_ns[i] = start_ns;

    uint64_t factor = jitter_factor(device->jitter, random_next(&state->random));
    double luck = random_unit(&state->random);

    return (struct model_work){
        .launch_ns = apply_jitter(device->launch_ns, factor),
        .work_ns = apply_jitter(time_at_rate(work, device->items_per_s), factor),
        .fails = luck >= success_chance(device, state, start_ns),
    };
}

uint64_t model_finish_ns(const struct model_device *device, const struct model_state *state,
                         const struct model_work *work, uint64_t now_ns, double share)
{
    uint64_t begun_ns = end_of(device, state, LAUNCHING, 1, now_ns, work->launch_ns);
    uint64_t finish_ns = begun_ns == MODEL_NEVER
                             ? MODEL_NEVER
                             : end_of(device, state, COMPUTING, share, begun_ns, work->work_ns);
    return finish_ns < lost_at_ns(device, state) ? finish_ns : MODEL_NEVER;
}

void model_pass(const struct model_device *device, const struct model_state *state,
                struct model_work *work, uint64_t begin_ns, uint64_t end_ns, double share)
{
    if (work->launch_ns > 0 && work->launch_ns != UINT64_MAX)
        begin_ns = pass(device, state, LAUNCHING, 1, begin_ns, end_ns, &work->launch_ns);
    if (work->launch_ns == 0 && work->work_ns != UINT64_MAX)
        pass(device, state, COMPUTING, share, begin_ns, end_ns, &work->work_ns);
}

struct model_run model_launch(const struct model_device *device, struct model_state *state,
                              uint64_t start_ns, double work)
{
    struct model_work begun = model_begin(device, state, start_ns, work);
    uint64_t finish_ns = model_finish_ns(device, state, &begun, start_ns, 1);
    return (struct model_run){ finish_ns, finish_ns != MODEL_NEVER && begun.fails };
}

uint64_t model_copy_finish_ns(const struct model_device *device, const struct model_state *state,
                              enum model_link link, uint64_t start_ns, uint64_t bytes)
{
    double bytes_per_s = link == MODEL_LINK_H2D ? device->h2d_bytes_per_s : device->d2h_bytes_per_s;
    uint64_t copy_ns = bytes_per_s > 0 ? time_at_rate((double)bytes, bytes_per_s) : 0;
    uint64_t finish_ns = end_of(device, state, COPYING, 1, start_ns, copy_ns);
    return finish_ns < lost_at_ns(device, state) ? finish_ns : MODEL_NEVER;
}

enum model_health model_health_at(const struct model_device *device,
                                  const struct model_state *state, uint64_t now_ns)
{
    enum model_health health = MODEL_OK;
    for (uint32_t i = 0; i < device->fault_count; i++) {
        enum model_fault_kind kind = device->faults[i].kind;
        if (kind != MODEL_FAULT_LOST && kind != MODEL_FAULT_HANG)
            continue;
        if (!holds_at(spell_of(device, state, i), now_ns))
            continue;
        if (kind == MODEL_FAULT_LOST)
            return MODEL_LOST;
        health = MODEL_HUNG;
    }
    return health;
}

uint64_t model_next_change_ns(const struct model_device *device, const struct model_state *state,
                              uint64_t now_ns)
{
    enum model_health health = model_health_at(device, state, now_ns);
    uint64_t at_ns = now_ns;
    do {
        uint64_t edge_ns = MODEL_NEVER;
        for (uint32_t i = 0; i < device->fault_count; i++) {
            enum model_fault_kind kind = device->faults[i].kind;
            if (kind != MODEL_FAULT_LOST && kind != MODEL_FAULT_HANG)
                continue;
            uint64_t next_ns = next_edge_ns(spell_of(device, state, i), at_ns);
            if (next_ns < edge_ns)
                edge_ns = next_ns;
        }
        at_ns = edge_ns;
    } while (at_ns != MODEL_NEVER && model_health_at(device, state, at_ns) == health);
    return at_ns;
}

bool model_memory_fails(const struct model_device *device, struct model_state *state,
                        uint64_t now_ns)
{
    double chance = 1.0;
    for (uint32_t i = 0; i < device->fault_count; i++)
        if (device->faults[i].kind == MODEL_FAULT_MEMORY &&
            holds_at(spell_of(device, state, i), now_ns))
            chance *= 1.0 - device->faults[i].probability;
    return chance < 1.0 && random_unit(&state->memory_random) >= chance;
}
