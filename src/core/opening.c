#include "core/opening.h"

/* What is left must take longer than the opening by this part: the new device has to do something too. */
#define MARGIN_PARTS 4u
/* Looks are apart by this part of what the job has taken so far, within limits. */
#define LOOK_PARTS 8u
#define LOOK_LEAST_NS UINT64_C(10000000)
#define LOOK_MOST_NS UINT64_C(100000000)

_Static_assert(OPENING_FIRST_NS < OPENING_SURE_NS && OPENING_SURE_NS < OPENING_UNKNOWN_NS,
               "looks come in this order");

static uint64_t since(uint64_t begin_ns, uint64_t now_ns)
{
    return now_ns > begin_ns ? now_ns - begin_ns : 0;
}

static uint64_t worked_ns(const struct opening *opening, uint64_t now_ns)
{
    return opening->begun_ns == OPENING_NEVER ? 0 : since(opening->begun_ns, now_ns);
}

bool opening_is_worth(const struct opening *opening, uint64_t now_ns)
{
    uint64_t ns = worked_ns(opening, now_ns);
    if (opening->is_alone || opening->before_ns >= OPENING_UNKNOWN_NS)
        return true;
    if (!opening->has_devices)
        return false;
    if (opening->items == UINT64_MAX)
        return ns >= OPENING_UNKNOWN_NS - opening->before_ns;
    if (ns < OPENING_FIRST_NS || opening->claimed >= opening->items)
        return false;
    uint64_t left = opening->items - opening->claimed;
    double rest_ns = (double)ns * ((double)left / (double)opening->claimed);
    double least_ns = (double)(OPENING_NS + OPENING_NS / MARGIN_PARTS);
    if (ns < OPENING_SURE_NS)
        least_ns *= (double)OPENING_SURE_NS / (double)ns;
    return rest_ns > least_ns;
}

uint64_t opening_look_ns(const struct opening *opening, uint64_t now_ns)
{
    uint64_t ns = since(opening->start_ns, now_ns) / LOOK_PARTS;
    ns = ns < LOOK_LEAST_NS ? LOOK_LEAST_NS : ns > LOOK_MOST_NS ? LOOK_MOST_NS : ns;
    return now_ns > UINT64_MAX - ns ? UINT64_MAX : now_ns + ns;
}
