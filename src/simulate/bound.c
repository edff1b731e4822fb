#include "simulate/bound.h"

#include <stdlib.h>

size_t bound_edges_max(const struct model_device *devices, size_t count)
{
    size_t edges = 2 * count;
    for (size_t i = 0; i < count; i++)
        edges += 2 * (size_t)devices[i].fault_count * 2;
    return edges;
}

/* The largest part of its rate that the device may have at a moment. */
static double factor_at(const struct model_device *device, uint64_t at_ns)
{
    double factor = 1;
    if (at_ns < device->opens_ns)
        return 0;
    for (uint32_t i = 0; i < device->fault_count; i++) {
        const struct model_fault *fault = &device->faults[i];
        if (fault->at_launch > 0) {
            if (fault->kind == MODEL_FAULT_SLOW && fault->factor > 1)
                factor *= fault->factor;
            continue;
        }
        bool has_begun = at_ns >= fault->at_ns;
        bool is_over = fault->for_ns > 0 && at_ns - fault->at_ns >= fault->for_ns;
        if (!has_begun)
            continue;
        if (fault->kind == MODEL_FAULT_LOST || (fault->kind == MODEL_FAULT_HANG && !is_over))
            return 0;
        if (fault->kind == MODEL_FAULT_SLOW && !is_over)
            factor *= fault->factor;
    }
    return factor;
}

static int by_time(const void *a, const void *b)
{
    const struct bound_edge *x = a, *y = b;
    if (x->at_ns != y->at_ns)
        return x->at_ns < y->at_ns ? -1 : 1;
    return (x->device > y->device) - (x->device < y->device);
}

/* The moments at which the device's rate may change, in order, with how; `fastest` is kept up. */
static size_t add_edges(const struct model_device *device, uint32_t number,
                        struct bound_edge *edges, double *fastest)
{
    size_t count = 0;
    edges[count++] = (struct bound_edge){ .at_ns = 0, .device = number };
    edges[count++] = (struct bound_edge){ .at_ns = device->opens_ns, .device = number };
    for (uint32_t i = 0; i < device->fault_count; i++) {
        const struct model_fault *fault = &device->faults[i];
        uint64_t end_ns;
        if (fault->at_launch > 0)
            continue;
        edges[count++] = (struct bound_edge){ .at_ns = fault->at_ns, .device = number };
        if (fault->for_ns > 0 && !__builtin_add_overflow(fault->at_ns, fault->for_ns, &end_ns))
            edges[count++] = (struct bound_edge){ .at_ns = end_ns, .device = number };
    }
    qsort(edges, count, sizeof *edges, by_time);
    double rate = 0;
    for (size_t i = 0; i < count; i++) {
        double next = device->items_per_s * 1e-9 * factor_at(device, edges[i].at_ns);
        edges[i].change = next - rate;
        edges[i].running = (next > 0) - (rate > 0);
        rate = next;
        *fastest = rate > *fastest ? rate : *fastest;
    }
    return count;
}

static uint64_t rounded_ns(double ns)
{
    return ns < 1.8e19 ? (uint64_t)ns : UINT64_MAX;
}

/*
 * The rate of all devices together, with what rounding has kept out of it (Neumaier's sum): a slow
 * device is still there after one that is a billion times as fast has come and gone.
 */
struct rate_sum {
    double rate, rest;
    int64_t running;
};

static double change_rate(struct rate_sum *sum, const struct bound_edge *edge)
{
    double next = sum->rate + edge->change;
    bool is_larger = sum->rate >= edge->change && sum->rate >= -edge->change;
    sum->rest += is_larger ? (sum->rate - next) + edge->change : (edge->change - next) + sum->rate;
    sum->rate = next;
    sum->running += edge->running;
    if (sum->running == 0)
        sum->rate = sum->rest = 0;
    return sum->rate + sum->rest;
}

/* When all devices together have done `work`. */
static uint64_t work_ns(struct bound_edge *edges, size_t count, double work)
{
    struct rate_sum sum = { 0 };
    double done = 0;
    qsort(edges, count, sizeof *edges, by_time);
    for (size_t i = 0; i < count; i++) {
        double rate = change_rate(&sum, &edges[i]);
        uint64_t until_ns = i + 1 < count ? edges[i + 1].at_ns : UINT64_MAX;
        double span = (double)until_ns - (double)edges[i].at_ns;
        if (!(rate > 0))
            continue;
        if (done + rate * span >= work)
            return rounded_ns((double)edges[i].at_ns + (work - done) / rate);
        done += rate * span;
    }
    return UINT64_MAX;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Bytes over all links of one direction together; 0 where a link takes no time. */
static uint64_t link_ns(const struct model_device *devices, const bool *eligible, size_t count,
                        enum model_link link, double bytes)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        double rate =
            link == MODEL_LINK_H2D ? devices[i].h2d_bytes_per_s : devices[i].d2h_bytes_per_s;
        if (!eligible[i])
            continue;
        if (rate <= 0)
            return 0;
        sum += rate;
    }
    return sum > 0 ? rounded_ns(bytes / sum * 1e9) : 0;
}

uint64_t bound_ns(const struct model_device *devices, const bool *eligible, size_t count,
                  const struct scenario_job *job, const struct cost *cost, struct bound_edge *edges)
{
    size_t edge_count = 0;
    double fastest = 0; /* in items per nanosecond, at its best */
    for (size_t i = 0; i < count; i++) {
        if (!eligible[i])
            continue;
        edge_count += add_edges(&devices[i], (uint32_t)i, edges + edge_count, &fastest);
    }
    double total = cost_of(cost, (struct muster_range){ 0, job->items });
    uint64_t ns = work_ns(edges, edge_count, total);
    ns = larger(ns, rounded_ns(cost_largest(cost) / fastest));
    ns = larger(ns, link_ns(devices, eligible, count, MODEL_LINK_H2D,
                            (double)job->items * (double)job->item_bytes_in));
    return larger(ns, link_ns(devices, eligible, count, MODEL_LINK_D2H,
                              (double)job->items * (double)job->item_bytes_out));
}
