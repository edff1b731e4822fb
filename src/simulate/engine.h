/*
 * What computes in a simulated device: one launch at a time, at a rate that depends on what others
 * use of the resources they share.
 */
#ifndef SIMULATE_ENGINE_H
#define SIMULATE_ENGINE_H

#include "model/device_model.h"

struct engine {
    const struct model_device *model; /* borrowed */
    struct model_state state;
    bool is_busy;  /* it computes */
    bool has_work; /* the device has a unit at all: kept by the owner */
    struct model_work work;
    uint64_t since_ns; /* up to then `work` is what is left */
    uint64_t due_ns;   /* when it is done, if nothing changes; MODEL_NEVER */
    double share;      /* of its rate: what others leave it */
};

void engine_init(struct engine *engine, const struct model_device *model, uint64_t seed,
                 uint32_t number);
/* It is not busy. */
void engine_begin(struct engine *engine, uint64_t now_ns, double work);
/* It is done, or stopped. */
void engine_end(struct engine *engine);

/* The engines that share something. */
struct sharing {
    const struct model_resources *resources; /* borrowed */
    struct engine **engines;                 /* borrowed from the owner, as all they point to */
    uint32_t count;
};

/* Somebody has begun or ended at now_ns: what is due when. Costs as much as there are engines. */
void sharing_update(struct sharing *sharing, uint64_t now_ns);
/* Which of them is due first, the first of several; `count` if none is. */
uint32_t sharing_first(const struct sharing *sharing);

#endif
