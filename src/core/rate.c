#include "core/rate.h"

#include "base/invariant.h"

/* Weight of the newest unit: after three units at a quarter of the speed the estimate is 78 % there. */
#define RATE_ALPHA 0.4
/* Units this much larger than the smallest tell the fixed cost apart from the items. */
#define RATE_SPREAD 4
/* Of this many units at first, the fastest counts. */
#define RATE_FRESH 4

static void learn_overhead(struct rate *rate, uint64_t items, double elapsed_ns)
{
    /* The fixed cost cannot exceed what any unit took: a slow first one must not pass for it. */
    if (rate->samples == 0 || items < rate->small_items || elapsed_ns < rate->small_ns) {
        rate->small_items = items;
        rate->small_ns = elapsed_ns;
        if (rate->overhead_ns > elapsed_ns)
            rate->overhead_ns = elapsed_ns;
    }
    if (items / RATE_SPREAD < rate->small_items)
        return;
    double item_ns = (elapsed_ns - rate->small_ns) / (double)(items - rate->small_items);
    double overhead_ns = rate->small_ns - item_ns * (double)rate->small_items;
    rate->overhead_ns = overhead_ns > 0 ? overhead_ns : 0;
}

void rate_sample(struct rate *rate, uint64_t items, uint64_t elapsed_ns)
{
    INVARIANT(items > 0);
    double elapsed = elapsed_ns > 0 ? (double)elapsed_ns : 1.0;
    learn_overhead(rate, items, elapsed);
    double work_ns = elapsed - rate->overhead_ns;
    /* A unit that is nearly all fixed cost says little of the items. */
    double least_ns = elapsed / 8;
    double item_ns = (work_ns > least_ns ? work_ns : least_ns) / (double)items;
    if (rate->samples == 0 || (rate->samples < RATE_FRESH && item_ns < rate->item_ns))
        rate->item_ns = item_ns;
    else
        rate->item_ns += RATE_ALPHA * (item_ns - rate->item_ns);
    rate->samples++;
}

void rate_doubt(struct rate *rate)
{
    if (rate->samples > 1)
        rate->samples = 1;
}

double rate_predict_ns(const struct rate *rate, double items)
{
    return rate->samples == 0 ? 0 : rate->overhead_ns + items * rate->item_ns;
}

double rate_per_ns(const struct rate *rate)
{
    return rate->samples == 0 ? 0 : 1 / rate->item_ns;
}
