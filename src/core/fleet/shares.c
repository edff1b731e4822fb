#include "core/fleet/shares.h"

#include "base/invariant.h"

void shares_init(struct shares *shares, struct share *memory, uint32_t capacity)
{
    *shares = (struct shares){ .list = memory, .capacity = capacity };
    for (uint32_t i = 0; i < capacity; i++)
        memory[i] = (struct share){ .weight = 1 };
}

static bool takes_turns(const struct share *share)
{
    return share->is_here && !share->is_dry;
}

/* How far the job that is behind most has come: nobody who comes (back) stands before it. */
static void raise_floor(struct shares *shares)
{
    uint32_t next = shares_next(shares);
    if (next != SHARES_NONE && shares->list[next].used > shares->floor)
        shares->floor = shares->list[next].used;
}

uint32_t shares_add(struct shares *shares, double weight)
{
    uint32_t job = 0;
    while (job < shares->capacity && shares->list[job].is_here)
        job++;
    if (job == shares->capacity)
        return SHARES_NONE;
    raise_floor(shares);
    shares->list[job] =
        (struct share){ .weight = weight > 0 ? weight : 1, .used = shares->floor, .is_here = true };
    return job;
}

void shares_remove(struct shares *shares, uint32_t job)
{
    INVARIANT(job < shares->capacity);
    raise_floor(shares);
    shares->list[job].is_here = false;
}

void shares_set_dry(struct shares *shares, uint32_t job, bool is_dry)
{
    INVARIANT(job < shares->capacity && shares->list[job].is_here);
    struct share *share = &shares->list[job];
    if (share->is_dry == is_dry)
        return;
    raise_floor(shares);
    share->is_dry = is_dry;
    if (!is_dry && share->used < shares->floor)
        share->used = shares->floor;
}

void shares_charge(struct shares *shares, uint32_t job, uint64_t ns)
{
    INVARIANT(job < shares->capacity && shares->list[job].is_here);
    shares->list[job].used += (double)ns / shares->list[job].weight;
    raise_floor(shares);
}

uint32_t shares_next(const struct shares *shares)
{
    uint32_t next = SHARES_NONE;
    for (uint32_t i = 0; i < shares->capacity; i++)
        if (takes_turns(&shares->list[i]) &&
            (next == SHARES_NONE || shares->list[i].used < shares->list[next].used))
            next = i;
    return next;
}
