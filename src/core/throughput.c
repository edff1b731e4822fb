#include "core/throughput.h"

#include "base/invariant.h"

static void advance(struct throughput *throughput, uint64_t now_ns)
{
    /*
     * Threads read the clock before they take the lock, so a later caller may bring an earlier
     * time.
     */
    if (now_ns <= throughput->changed_ns)
        return;
    throughput->area += throughput->depth * (now_ns - throughput->changed_ns);
    throughput->changed_ns = now_ns;
}

struct throughput_mark throughput_begin(struct throughput *throughput, uint64_t now_ns)
{
    advance(throughput, now_ns);
    throughput->depth++;
    return (struct throughput_mark){ throughput->changed_ns, throughput->area };
}

void throughput_end(struct throughput *throughput, uint64_t now_ns, struct throughput_mark mark,
                    uint64_t amount)
{
    INVARIANT(throughput->depth > 0);
    advance(throughput, now_ns);
    throughput->depth--;
    if (amount == 0)
        return;
    uint64_t elapsed_ns = throughput->changed_ns - mark.begin_ns;
    /* A piece that took no measurable time ran for at least one tick of the clock, alone. */
    double elapsed = elapsed_ns > 0 ? (double)elapsed_ns : 1.0;
    double concurrency = elapsed_ns > 0 ? (double)(throughput->area - mark.area) / elapsed : 1.0;
    double sample = (double)amount * concurrency / elapsed * 1e9;
    throughput->per_s = throughput->per_s > 0
                            ? throughput->per_s + THROUGHPUT_ALPHA * (sample - throughput->per_s)
                            : sample;
}
