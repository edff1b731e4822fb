#include "simulate/engine.h"

#include "base/invariant.h"

void engine_init(struct engine *engine, const struct model_device *model, uint64_t seed,
                 uint32_t number)
{
    *engine = (struct engine){ .model = model, .due_ns = MODEL_NEVER, .share = 1 };
    model_state_init(&engine->state, seed, number);
}

void engine_begin(struct engine *engine, uint64_t now_ns, double work)
{
    INVARIANT(!engine->is_busy);
    engine->is_busy = true;
    engine->work = model_begin(engine->model, &engine->state, now_ns, work);
    engine->since_ns = now_ns;
    engine->due_ns =
        model_finish_ns(engine->model, &engine->state, &engine->work, now_ns, engine->share);
}

void engine_end(struct engine *engine)
{
    INVARIANT(engine->is_busy);
    engine->is_busy = false;
    engine->due_ns = MODEL_NEVER;
}

static void set_share(struct engine *engine, double share, uint64_t now_ns)
{
    if (engine->share == share)
        return;
    if (engine->is_busy) {
        model_pass(engine->model, &engine->state, &engine->work, engine->since_ns, now_ns,
                   engine->share);
        engine->since_ns = now_ns;
        engine->due_ns =
            model_finish_ns(engine->model, &engine->state, &engine->work, now_ns, share);
    }
    engine->share = share;
}

void sharing_update(struct sharing *sharing, uint64_t now_ns)
{
    double demand[MODEL_RESOURCES_MAX] = { 0 };
    for (uint32_t i = 0; i < sharing->count; i++) {
        const struct engine *engine = sharing->engines[i];
        for (uint32_t r = 0; r < sharing->resources->count; r++) {
            demand[r] += engine->is_busy ? engine->model->uses[r] : 0;
            demand[r] += engine->has_work ? engine->model->feeds[r] : 0;
        }
    }
    for (uint32_t i = 0; i < sharing->count; i++)
        set_share(sharing->engines[i],
                  model_share(sharing->engines[i]->model, sharing->resources, demand), now_ns);
}

uint32_t sharing_first(const struct sharing *sharing)
{
    uint32_t first = sharing->count;
    uint64_t due_ns = MODEL_NEVER;
    for (uint32_t i = 0; i < sharing->count; i++)
        if (sharing->engines[i]->due_ns < due_ns) {
            due_ns = sharing->engines[i]->due_ns;
            first = i;
        }
    return first;
}
