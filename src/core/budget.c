#include "core/budget.h"

#include "base/invariant.h"

void budget_init(struct budget *budget, uint64_t limit)
{
    *budget = (struct budget){ .limit = limit };
}

uint64_t budget_free(const struct budget *budget)
{
    uint64_t taken = budget->reserved + budget->used + budget->unreclaimed + budget->kept;
    INVARIANT(taken <= budget->limit);
    return budget->limit - taken;
}

uint64_t budget_sum(const uint64_t *bytes, size_t count)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        if (__builtin_add_overflow(sum, bytes[i], &sum))
            return UINT64_MAX;
    return sum;
}

muster_status budget_check(const struct budget *budget, uint64_t bytes)
{
    if (bytes > budget->limit)
        return MUSTER_E_TOO_LARGE;
    return bytes > budget_free(budget) ? MUSTER_E_DEVICE_MEMORY : MUSTER_OK;
}

muster_status budget_reserve(struct budget *budget, uint64_t bytes)
{
    muster_status status = budget_check(budget, bytes);
    if (status == MUSTER_OK)
        budget->reserved += bytes;
    return status;
}

static void move(uint64_t *from, uint64_t *to, uint64_t bytes)
{
    INVARIANT(*from >= bytes);
    *from -= bytes;
    if (to)
        *to += bytes;
}

void budget_cancel(struct budget *budget, uint64_t bytes)
{
    move(&budget->reserved, NULL, bytes);
}

void budget_allocated(struct budget *budget, uint64_t bytes)
{
    move(&budget->reserved, &budget->used, bytes);
}

void budget_freed(struct budget *budget, uint64_t bytes)
{
    move(&budget->used, &budget->unreclaimed, bytes);
}

void budget_reclaimed(struct budget *budget, uint64_t bytes)
{
    move(&budget->unreclaimed, NULL, bytes);
}

void budget_kept(struct budget *budget, uint64_t bytes)
{
    move(&budget->used, &budget->kept, bytes);
}

void budget_reused(struct budget *budget, uint64_t bytes)
{
    move(&budget->kept, &budget->used, bytes);
}
