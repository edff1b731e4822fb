#include "core/fleet/silence.h"

void silence_init(struct silence *silence, uint64_t now_ns)
{
    *silence = (struct silence){ .at_ns = now_ns, .heard_ns = now_ns, .is_up = true };
}

/* What counts up to now. */
static uint64_t counted_at(const struct silence *silence, uint64_t now_ns)
{
    uint64_t end_ns = silence->heard_ns + SILENCE_ALONE_NS;
    if (!silence->is_up)
        return silence->counted_ns;
    end_ns = now_ns < end_ns ? now_ns : end_ns;
    return silence->counted_ns + (end_ns > silence->at_ns ? end_ns - silence->at_ns : 0);
}

static void count(struct silence *silence, uint64_t now_ns)
{
    silence->counted_ns = counted_at(silence, now_ns);
    if (now_ns > silence->at_ns)
        silence->at_ns = now_ns;
}

void silence_link(struct silence *silence, bool is_up, uint64_t now_ns)
{
    count(silence, now_ns);
    if (is_up && !silence->is_up) {
        silence->floor_ns = silence->counted_ns;
        silence->heard_ns = now_ns;
    }
    silence->is_up = is_up;
}

uint64_t silence_heard(struct silence *silence, uint64_t now_ns)
{
    count(silence, now_ns);
    /*
     * After a time in which nobody was heard, the first who is has a head start of the others: they get
     * as long as if they had been heard too.
     */
    if (now_ns > silence->heard_ns + SILENCE_ALONE_NS)
        silence->floor_ns = silence->counted_ns;
    if (now_ns > silence->heard_ns)
        silence->heard_ns = now_ns;
    return silence->counted_ns;
}

uint64_t silence_of(const struct silence *silence, uint64_t heard_at, uint64_t now_ns)
{
    uint64_t since = heard_at > silence->floor_ns ? heard_at : silence->floor_ns;
    uint64_t counted = counted_at(silence, now_ns);
    return counted > since ? counted - since : 0;
}

uint64_t silence_due(const struct silence *silence, uint64_t heard_at, uint64_t limit_ns)
{
    uint64_t silent_ns = silence_of(silence, heard_at, silence->at_ns);
    uint64_t rest_ns = limit_ns > silent_ns ? limit_ns - silent_ns : 0;
    uint64_t end_ns = silence->heard_ns + SILENCE_ALONE_NS;
    if (rest_ns == 0)
        return silence->at_ns;
    if (!silence->is_up || end_ns < silence->at_ns || rest_ns > end_ns - silence->at_ns)
        return UINT64_MAX;
    return silence->at_ns + rest_ns;
}
