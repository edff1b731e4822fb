#include "core/task_rates.h"

#include "base/invariant.h"

#include <string.h>

struct sample_set {
    float ns[TASK_RATES_KEPT]; /* a ring */
    uint8_t count, next;
    bool is_restored; /* the first is from another run */
    bool has_first;   /* the first sample of this run, which may have warmed up, is in */
    float median_ns;
};

struct row {
    uint32_t body, size_class;
    uint32_t next; /* in its bucket */
    uint64_t used_at;
};

struct task_rates {
    struct row *rows;
    struct sample_set *sets; /* row by row, one for each device */
    uint32_t *buckets;
    uint32_t capacity, count, devices, bucket_count;
    uint64_t uses;
};

#define NONE UINT32_MAX

static size_t aligned(size_t bytes)
{
    return (bytes + 63) & ~(size_t)63;
}

uint32_t task_rates_class(uint64_t size)
{
    return size == 0 ? 0 : 64 - (uint32_t)__builtin_clzll(size);
}

static uint32_t buckets_for(uint32_t pairs)
{
    uint32_t count = 8;
    while (count < pairs && count < UINT32_C(1) << 30)
        count *= 2;
    return count;
}

size_t task_rates_bytes(uint32_t pairs, uint32_t devices)
{
    return aligned(sizeof(struct task_rates)) + aligned(pairs * sizeof(struct row)) +
           aligned((size_t)pairs * devices * sizeof(struct sample_set)) +
           aligned(buckets_for(pairs) * sizeof(uint32_t));
}

struct task_rates *task_rates_init(void *memory, uint32_t pairs, uint32_t devices)
{
    struct task_rates *rates = memory;
    INVARIANT(pairs > 0 && devices > 0);
    memset(memory, 0, task_rates_bytes(pairs, devices));
    char *at = (char *)memory + aligned(sizeof *rates);
    rates->rows = (void *)at;
    at += aligned(pairs * sizeof(struct row));
    rates->sets = (void *)at;
    at += aligned((size_t)pairs * devices * sizeof(struct sample_set));
    rates->buckets = (void *)at;
    rates->bucket_count = buckets_for(pairs);
    rates->capacity = pairs;
    rates->devices = devices;
    for (uint32_t i = 0; i < rates->bucket_count; i++)
        rates->buckets[i] = NONE;
    return rates;
}

static uint32_t *bucket_of(struct task_rates *rates, uint32_t body, uint32_t size_class)
{
    uint32_t x = (body * 64 + size_class) * 0x9e3779b9u;
    return &rates->buckets[(x ^ x >> 16) & (rates->bucket_count - 1)];
}

/* A place for a new row: the next, or that of the row used longest ago, which is forgotten. */
static uint32_t make_room(struct task_rates *rates)
{
    if (rates->count < rates->capacity)
        return rates->count++;
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < rates->count; i++)
        if (rates->rows[i].used_at < rates->rows[oldest].used_at)
            oldest = i;
    uint32_t *link = bucket_of(rates, rates->rows[oldest].body, rates->rows[oldest].size_class);
    while (*link != oldest)
        link = &rates->rows[*link].next;
    *link = rates->rows[oldest].next;
    return oldest;
}

uint32_t task_rates_row(struct task_rates *rates, uint32_t body, uint32_t size_class)
{
    uint32_t *bucket = bucket_of(rates, body, size_class), id = *bucket;
    while (id != NONE && (rates->rows[id].body != body || rates->rows[id].size_class != size_class))
        id = rates->rows[id].next;
    if (id == NONE) {
        id = make_room(rates);
        rates->rows[id] = (struct row){ .body = body, .size_class = size_class, .next = *bucket };
        *bucket = id;
        memset(&rates->sets[(size_t)id * rates->devices], 0,
               rates->devices * sizeof(struct sample_set));
    }
    rates->rows[id].used_at = ++rates->uses;
    return id;
}

static struct sample_set *set_of(const struct task_rates *rates, uint32_t row, uint32_t device)
{
    return &rates->sets[(size_t)row * rates->devices + device];
}

/* Of an even number the smaller of the middle ones: what disturbs makes samples larger. */
static float median_of(const struct sample_set *set)
{
    float sorted[TASK_RATES_KEPT];
    for (uint8_t i = 0; i < set->count; i++) {
        uint8_t at = i;
        for (; at > 0 && sorted[at - 1] > set->ns[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = set->ns[i];
    }
    return sorted[(set->count - 1) / 2];
}

void task_rates_sample(struct task_rates *rates, uint32_t row, uint32_t device, uint64_t elapsed_ns)
{
    struct sample_set *set = set_of(rates, row, device);
    float ns = elapsed_ns > 0 ? (float)elapsed_ns : 1.0f;
    if (set->is_restored && !set->has_first) {
        set->has_first = true; /* it may have warmed up, and there is something to go by */
        return;
    }
    if (!set->is_restored && set->count == 1 && !set->has_first) {
        set->has_first = true;
        set->count = set->next = 0;
    } else if (set->is_restored && set->count == 1) {
        set->is_restored = false;
        set->count = set->next = 0;
    }
    set->ns[set->next] = ns;
    set->next = (uint8_t)((set->next + 1) % TASK_RATES_KEPT);
    set->count += set->count < TASK_RATES_KEPT;
    set->median_ns = median_of(set);
}

double task_rates_ns(const struct task_rates *rates, uint32_t row, uint32_t device)
{
    const struct sample_set *set = set_of(rates, row, device);
    return set->count == 0 ? 0 : (double)set->median_ns;
}

/* From the size class of the body nearest to this one that was measured there; time grows with size. */
static double from_other_sizes(const struct task_rates *rates, const struct row *row,
                               uint32_t device)
{
    uint32_t nearest = UINT32_MAX;
    double ns = 0;
    for (uint32_t i = 0; i < rates->count; i++) {
        const struct row *other = &rates->rows[i];
        uint32_t far = other->size_class > row->size_class ? other->size_class - row->size_class
                                                           : row->size_class - other->size_class;
        if (other->body != row->body || far >= nearest || task_rates_ns(rates, i, device) == 0)
            continue;
        nearest = far;
        ns = task_rates_ns(rates, i, device);
        for (uint32_t step = 0; step < far; step++)
            ns *= other->size_class < row->size_class ? 2 : 0.5;
    }
    return ns;
}

/* What a device that has measured both takes longer than this one, from all bodies. */
static double from_other_devices(const struct task_rates *rates, uint32_t row, uint32_t device)
{
    for (uint32_t other = 0; other < rates->devices; other++) {
        double known = task_rates_ns(rates, row, other), ours = 0, theirs = 0;
        for (uint32_t i = 0; i < rates->count && known > 0; i++)
            if (task_rates_ns(rates, i, device) > 0 && task_rates_ns(rates, i, other) > 0) {
                ours += task_rates_ns(rates, i, device);
                theirs += task_rates_ns(rates, i, other);
            }
        if (theirs > 0)
            return known * ours / theirs;
    }
    return 0;
}

double task_rates_guess_ns(const struct task_rates *rates, uint32_t row, uint32_t device)
{
    double ns = from_other_sizes(rates, &rates->rows[row], device);
    return ns > 0 ? ns : from_other_devices(rates, row, device);
}

bool task_rates_next(const struct task_rates *rates, uint32_t *place, struct task_rates_line *out)
{
    for (; *place < rates->count * rates->devices; ++*place) {
        uint32_t row = *place / rates->devices, device = *place % rates->devices;
        double ns = task_rates_ns(rates, row, device);
        if (ns == 0)
            continue;
        *out = (struct task_rates_line){ rates->rows[row].body, rates->rows[row].size_class, device,
                                         ns };
        ++*place;
        return true;
    }
    return false;
}

void task_rates_restore(struct task_rates *rates, const struct task_rates_line *line)
{
    uint32_t row = task_rates_row(rates, line->body, line->size_class);
    struct sample_set *set = set_of(rates, row, line->device);
    INVARIANT(line->device < rates->devices && line->ns > 0);
    *set = (struct sample_set){ .ns = { (float)line->ns },
                                .count = 1,
                                .next = 1,
                                .is_restored = true,
                                .median_ns = (float)line->ns };
}
