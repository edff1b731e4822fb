/*
 * What core has learned of how long tasks take, from one run to the next (core/rates_file.h). Core knows bodies
 * by numbers of this run; here is how their tasks are called.
 */
#include "run/task/flow.h"

#include "base/allocator.h"
#include "core/rates_file.h"
#include "platform/file.h"
#include "platform/machine.h"

#include <string.h>

/* Bodies that have names; a power of two. Further ones are not saved. */
#define NAMED_MAX 1024u

struct flow_named {
    uint32_t body;
    char name[sizeof((struct rates_file_line *)0)->body]; /* "": the place is empty */
};

struct flow_rates {
    struct flow_named named[NAMED_MAX]; /* open addressing */
    uint32_t named_count;
    struct rates_file_line *loaded; /* owns */
    size_t loaded_count;
};

static struct flow_named *find(struct flow_rates *rates, uint32_t body)
{
    uint32_t at = body % NAMED_MAX;
    while (rates->named[at].name[0] && rates->named[at].body != body)
        at = (at + 1) % NAMED_MAX;
    return &rates->named[at];
}

/* What was loaded counts where nothing was measured yet. */
static void restore_locked(struct flow_pool *flow, const struct flow_named *named)
{
    struct task_rates *rates = dispatch_rates(flow->dispatch);
    for (size_t i = 0; i < flow->rates->loaded_count; i++) {
        const struct rates_file_line *line = &flow->rates->loaded[i];
        if (strcmp(line->body, named->name) != 0)
            continue;
        for (uint32_t k = 0; k < flow->device_count; k++) {
            const struct muster_device_info *info = &flow->devices[k]->device->info;
            if (strcmp(line->device, info->id) != 0 || strcmp(line->model, info->name) != 0)
                continue;
            const struct task_rates_line known = { named->body, line->size_class, k,
                                                   (double)line->ns };
            uint32_t row = task_rates_row(rates, named->body, line->size_class);
            if (task_rates_ns(rates, row, k) == 0)
                task_rates_restore(rates, &known);
        }
    }
}

void flow_name_body_locked(struct task_pool *pool, uint32_t body, const char *name)
{
    struct flow_rates *rates = pool->flow.rates;
    if (!rates || !name || !name[0])
        return;
    struct flow_named *named = find(rates, body);
    if (named->name[0] || rates->named_count >= NAMED_MAX / 2)
        return;
    named->body = body;
    strncpy(named->name, name, sizeof named->name - 1);
    rates->named_count++;
    restore_locked(&pool->flow, named);
}

muster_status flow_make_rates_locked(struct task_pool *pool, struct muster_error *err)
{
    const struct muster_allocator *allocator = &pool->m->allocator;
    if (pool->flow.rates)
        return MUSTER_OK;
    platform_mutex_unlock(&pool->lock);
    struct flow_rates *rates = allocator_take(allocator, 1, sizeof *rates);
    platform_mutex_lock(&pool->lock);
    if (!rates)
        return run_no_memory(err, "learned rates");
    if (!pool->flow.rates) {
        pool->flow.rates = rates;
        return MUSTER_OK;
    }
    platform_mutex_unlock(&pool->lock);
    allocator_give(allocator, rates, 1, sizeof *rates);
    platform_mutex_lock(&pool->lock);
    return MUSTER_OK;
}

void flow_free_rates(struct task_pool *pool)
{
    const struct muster_allocator *allocator = &pool->m->allocator;
    struct flow_rates *rates = pool->flow.rates;
    if (!rates)
        return;
    allocator_give(allocator, rates->loaded, RATES_FILE_LINES_MAX, sizeof *rates->loaded);
    allocator_give(allocator, rates, 1, sizeof *rates);
    pool->flow.rates = NULL;
}

/* ---- Loading ---- */

static muster_status read_file(struct muster *m, const char *path, struct rates_file_line *lines,
                               size_t *count, struct muster_error *err)
{
    char *text;
    size_t bytes;
    muster_status status =
        platform_file_read(&m->allocator, path, RATES_FILE_BYTES_MAX, &text, &bytes, err);
    if (status != MUSTER_OK)
        return status;
    status = rates_file_read(text, bytes, lines, count, err);
    allocator_give(&m->allocator, text, bytes + 1, 1);
    return status;
}

muster_status muster_rates_load(struct muster *m, const char *path, struct muster_error *err)
{
    struct task_pool *pool;
    size_t count = 0;
    if (!m || !path)
        return run_bad_argument(err, "muster_rates_load", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    muster_status status = pool_get(m, &pool, err);
    if (status != MUSTER_OK)
        return status;
    struct rates_file_line *lines =
        allocator_take(&m->allocator, RATES_FILE_LINES_MAX, sizeof *lines);
    if (!lines)
        return run_no_memory(err, "learned rates");
    status = read_file(m, path, lines, &count, err);
    if (status == MUSTER_OK) {
        platform_mutex_lock(&pool->lock);
        status = flow_make_rates_locked(pool, err);
        if (status == MUSTER_OK) {
            struct flow_rates *rates = pool->flow.rates;
            struct rates_file_line *old = rates->loaded;
            rates->loaded = lines;
            rates->loaded_count = count;
            lines = old;
            for (uint32_t i = 0; i < NAMED_MAX && pool->flow.dispatch; i++)
                if (rates->named[i].name[0])
                    restore_locked(&pool->flow, &rates->named[i]);
        }
        platform_mutex_unlock(&pool->lock);
    }
    allocator_give(&m->allocator, lines, RATES_FILE_LINES_MAX, sizeof *lines);
    return status;
}

/* ---- Saving ---- */

static bool is_same(const struct rates_file_line *a, const struct rates_file_line *b)
{
    return a->size_class == b->size_class && strcmp(a->body, b->body) == 0 &&
           strcmp(a->device, b->device) == 0;
}

/* What core knows of bodies that have names. */
static size_t collect_learned_locked(struct flow_pool *flow, struct rates_file_line *out)
{
    struct task_rates_line line;
    uint32_t place = 0;
    size_t count = 0;
    if (!flow->dispatch || !flow->rates)
        return 0;
    while (count < RATES_FILE_LINES_MAX &&
           task_rates_next(dispatch_rates(flow->dispatch), &place, &line)) {
        const struct flow_named *named = find(flow->rates, line.body);
        if (!named->name[0] || line.device >= flow->device_count)
            continue;
        const struct muster_device_info *info = &flow->devices[line.device]->device->info;
        struct rates_file_line *to = &out[count++];
        *to = (struct rates_file_line){ .size_class = line.size_class };
        to->ns = line.ns < 1                           ? 1
                 : line.ns > (double)RATES_FILE_NS_MAX ? RATES_FILE_NS_MAX
                                                       : (uint64_t)(line.ns + 0.5);
        memcpy(to->body, named->name, sizeof to->body);
        strncpy(to->device, info->id, sizeof to->device - 1);
        strncpy(to->model, info->name, sizeof to->model - 1);
    }
    return count;
}

/* With what was loaded and is not known better. */
static size_t collect(struct task_pool *pool, struct rates_file_line *out)
{
    struct flow_pool *flow = &pool->flow;
    platform_mutex_lock(&pool->lock);
    size_t count = collect_learned_locked(flow, out), learned = count;
    for (size_t i = 0; flow->rates && i < flow->rates->loaded_count; i++) {
        const struct rates_file_line *line = &flow->rates->loaded[i];
        size_t at = 0;
        while (at < learned && !is_same(&out[at], line))
            at++;
        if (at == learned && count < RATES_FILE_LINES_MAX)
            out[count++] = *line;
    }
    platform_mutex_unlock(&pool->lock);
    return count;
}

static muster_status write_file(struct muster *m, const char *path,
                                const struct rates_file_line *lines, size_t count,
                                struct muster_error *err)
{
    size_t bytes = rates_file_write(lines, count, NULL, 0);
    char *text = allocator_take(&m->allocator, bytes + 1, 1);
    if (!text)
        return run_no_memory(err, "learned rates");
    rates_file_write(lines, count, text, bytes + 1);
    muster_status status = platform_file_replace(path, text, bytes, err);
    allocator_give(&m->allocator, text, bytes + 1, 1);
    return status;
}

muster_status muster_rates_save(struct muster *m, const char *path, struct muster_error *err)
{
    struct task_pool *pool;
    if (!m || !path)
        return run_bad_argument(err, "muster_rates_save", "an argument is NULL");
    if (run_is_forked(m))
        return run_say_forked(err);
    muster_status status = pool_get(m, &pool, err);
    if (status != MUSTER_OK)
        return status;
    struct rates_file_line *lines =
        allocator_take(&m->allocator, RATES_FILE_LINES_MAX, sizeof *lines);
    if (!lines)
        return run_no_memory(err, "learned rates");
    status = write_file(m, path, lines, collect(pool, lines), err);
    allocator_give(&m->allocator, lines, RATES_FILE_LINES_MAX, sizeof *lines);
    return status;
}
