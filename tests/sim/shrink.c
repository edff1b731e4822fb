#include "storm.h"

#include <string.h>

static bool still_fails(const struct storm *storm)
{
    char room[STORM_VERDICT_MAX];
    return storm_judge(storm, room) != NULL;
}

/* Keeps the simpler one if it fails as well. */
static bool keep(struct storm *storm, const struct storm *simpler)
{
    if (memcmp(storm, simpler, sizeof *storm) == 0 || !still_fails(simpler))
        return false;
    *storm = *simpler;
    return true;
}

static bool drop_devices(struct storm *storm, size_t first, size_t count)
{
    if (count >= storm->device_count || first + count > storm->device_count)
        return false;
    struct storm simpler = *storm;
    memmove(&simpler.devices[first], &simpler.devices[first + count],
            (storm->device_count - first - count) * sizeof *simpler.devices);
    simpler.device_count -= count;
    return keep(storm, &simpler);
}

/* Halves first, then single ones. */
static bool shrink_devices(struct storm *storm)
{
    bool is_smaller = false;
    for (size_t count = storm->device_count / 2; count > 0; count /= 2)
        for (size_t first = 0; first + count <= storm->device_count;)
            if (drop_devices(storm, first, count))
                is_smaller = true;
            else
                first += count;
    return is_smaller;
}

static bool drop_fault(struct storm *storm, size_t device, uint32_t fault)
{
    struct storm simpler = *storm;
    struct model_device *d = &simpler.devices[device];
    memmove(&d->faults[fault], &d->faults[fault + 1],
            (d->fault_count - fault - 1) * sizeof *d->faults);
    d->fault_count--;
    return keep(storm, &simpler);
}

static bool shrink_faults(struct storm *storm)
{
    bool is_smaller = false;
    for (size_t i = 0; i < storm->device_count; i++)
        for (uint32_t k = 0; k < storm->devices[i].fault_count;)
            if (drop_fault(storm, i, k))
                is_smaller = true;
            else
                k++;
    return is_smaller;
}

/* One device as plain as it can be, field by field. */
static bool plain_device(struct storm *storm, size_t device)
{
    bool is_smaller = false;
    for (int field = 0; field < 8; field++) {
        struct storm simpler = *storm;
        struct model_device *d = &simpler.devices[device];
        switch (field) {
        case 0:
            d->jitter = 0;
            break;
        case 1:
            d->launch_ns = 0;
            break;
        case 2:
            d->h2d_bytes_per_s = d->d2h_bytes_per_s = 0;
            break;
        case 3:
            d->weight = 1;
            break;
        case 4:
            memset(d->uses, 0, sizeof d->uses);
            memset(d->feeds, 0, sizeof d->feeds);
            break;
        case 5:
            d->opens_ns = 0;
            break;
        case 6:
            d->is_unstoppable = false;
            d->sensitive = MODEL_DEFAULT_SENSITIVE;
            break;
        default:
            d->items_per_s = 1e6;
        }
        is_smaller = keep(storm, &simpler) || is_smaller;
    }
    return is_smaller;
}

static bool plain_job(struct storm *storm)
{
    bool is_smaller = false;
    for (int field = 0; field < 12; field++) {
        struct storm simpler = *storm;
        struct scenario_job *job = &simpler.job;
        switch (field) {
        case 0:
            job->cost = SCENARIO_UNIFORM;
            break;
        case 1:
            job->item_bytes_in = job->item_bytes_out = 0;
            break;
        case 2:
            job->window = 0;
            break;
        case 3:
            job->place = false;
            break;
        case 4:
            job->speculate = false;
            break;
        case 5:
            job->ordered = true;
            break;
        case 6:
            job->depth = 1;
            break;
        case 7:
            job->tries = 3;
            break;
        case 8:
            job->min_free_bytes = job->min_compute[0] = 0;
            break;
        case 9:
            job->unit = SCENARIO_UNIT_FIXED;
            job->unit_items = 1;
            break;
        case 10:
            job->items = (job->items + 1) / 2;
            break;
        default:
            job->items -= job->items > 1;
        }
        is_smaller = keep(storm, &simpler) || is_smaller;
    }
    return is_smaller;
}

void storm_shrink(struct storm *storm)
{
    bool is_smaller = true;
    while (is_smaller) {
        is_smaller = shrink_devices(storm);
        is_smaller = shrink_faults(storm) || is_smaller;
        is_smaller = plain_job(storm) || is_smaller;
        for (size_t i = 0; i < storm->device_count; i++)
            is_smaller = plain_device(storm, i) || is_smaller;
    }
}
