/*
 * Scenarios from any bytes: a refusal says where, what is accepted is within its limits, and what
 * is small enough to be run here ends, with every item accounted for and no invariant broken.
 */
#include "model/scenario.h"

#include <float.h>
#include <muster/simulate.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define DEVICES_MAX 8
#define ITEMS_RUN_MAX 2000
#define DEPTH_RUN_MAX 8

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void look_at_job(const struct scenario_job *job)
{
    require(job->items >= 1 && job->items <= SCENARIO_ITEMS_MAX);
    require(job->item_bytes_in <= UINT32_MAX && job->item_bytes_out <= UINT32_MAX);
    require(job->cost <= SCENARIO_RAMP && job->policy <= SCENARIO_EARLIEST_FINISH);
    require(job->cost != SCENARIO_PARETO ||
            (job->alpha > 1 && job->alpha <= DBL_MAX && job->items <= SCENARIO_DRAWN_ITEMS_MAX));
    require(job->unit <= SCENARIO_UNIT_FIXED);
    require(job->unit != SCENARIO_UNIT_FIXED || job->unit_items > 0);
    require(job->window <= SCENARIO_ITEMS_MAX);
    require(job->depth >= 1 && job->depth <= SCENARIO_DEPTH_MAX);
    require(job->tries >= 1 && job->tries <= SCENARIO_TRIES_MAX);
}

static void look_at_answer(const struct muster_simulation *answer, const struct scenario_job *job)
{
    uint64_t items = 0;
    require(answer->broken == NULL && answer->duplicated == 0 && answer->out_of_order == 0);
    require(answer->items_delivered + answer->lost == job->items);
    require(answer->status == MUSTER_OK || answer->status == MUSTER_E_FAILED);
    require((answer->status == MUSTER_OK) == (answer->lost == 0));
    require((answer->status == MUSTER_OK) == (answer->failed_count == 0));
    require(job->window == 0 || answer->window_max <= job->window);
    for (size_t i = 0; i < answer->device_count; i++) {
        items += answer->devices[i]->items;
        require(answer->devices[i]->busy_ns <= answer->makespan_ns);
        require(!answer->devices[i]->refused || answer->devices[i]->items == 0);
    }
    require(items >= answer->items_delivered);
    require(answer->status != MUSTER_OK || items == answer->items_delivered);
}

static void run(const char *text, size_t size, const struct scenario_job *job)
{
    const struct muster_simulation_options options = { .size = sizeof options,
                                                       .seed = 1,
                                                       .check = 1 };
    struct muster_simulation *answer = NULL;
    struct muster_error err;
    muster_status status = muster_simulate(text, size, &options, &answer, &err);
    require(status == MUSTER_OK || status == MUSTER_E_NO_DEVICE);
    require((status == MUSTER_OK) == (answer != NULL));
    if (answer)
        look_at_answer(answer, job);
    else
        require(strstr(err.text, "sim:0") && err.fix[0]);
    muster_simulation_destroy(answer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct model_device devices[DEVICES_MAX];
    const char *text = (const char *)data;
    struct scenario_job job, again;
    struct muster_error err;
    size_t needed = 0, count = 0;
    muster_status status = scenario_read(text, size, NULL, 0, &needed, &job, &err);
    require(status == MUSTER_E_CAPACITY || status == MUSTER_E_PARSE);
    if (status == MUSTER_E_PARSE) {
        require(needed == 0 && strncmp(err.text, "line ", 5) == 0 && err.fix[0]);
        return 0;
    }
    status = scenario_read(text, size, devices, DEVICES_MAX, &count, &again, NULL);
    require(count == needed && status == (needed <= DEVICES_MAX ? MUSTER_OK : MUSTER_E_CAPACITY));
    if (status != MUSTER_OK)
        return 0;
    look_at_job(&again);
    if (again.items <= ITEMS_RUN_MAX && again.depth <= DEPTH_RUN_MAX)
        run(text, size, &again);
    return 0;
}
